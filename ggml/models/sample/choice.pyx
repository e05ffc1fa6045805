"""The choice of the next token from the logits of all tokens.

Tokens have an order: the larger logit first, of equal ones the lower id. Each filter of a sampler keeps the first of
them, so that its result is one token, the last that may be drawn. No more than the best `top_k` tokens are sorted: the
others are added up where they are, BLOCK at a time. The p of a token is exp(logit - largest logit).
"""

from libc.float cimport FLT_MAX
from libc.math cimport INFINITY, M_LOG2E as LOG2E, NAN, exp, isfinite, log
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef extern from "<math.h>" nogil:
    float nextafterf(float x, float to)

cdef enum:
    BLOCK = 32  # a constant length, so that compilers vectorise the loops over a block

cdef uint32_t MINUS_INFINITY = 0xFF800000  # the bits of the float


cdef struct Token:
    float p, value
    int index


cdef inline bint before(Token a, Token b) noexcept nogil:
    return (a.value > b.value) | ((a.value == b.value) & (a.index < b.index))


# ---- the best tokens -------------------------------------------------------------------------------------------------
cdef void sift(Token* heap, Py_ssize_t count, Token token) noexcept nogil:
    """Puts a token in the place of the root of a binary heap, which is the last one in order."""
    cdef Py_ssize_t i = 0, child
    while True:
        child = 2 * i + 1
        if child >= count:
            break
        if child + 1 < count and before(heap[child], heap[child + 1]):
            child += 1
        if not before(token, heap[child]):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = token


cdef inline const float* block_at(const float* values, Py_ssize_t count, Py_ssize_t begin, float* spare) noexcept nogil:
    """BLOCK values from `begin` on; where there are fewer, a copy that ends with -inf."""
    cdef Py_ssize_t i
    if begin + BLOCK <= count:
        return values + begin
    for i in range(BLOCK):
        spare[i] = values[begin + i] if begin + i < count else -INFINITY
    return spare


cdef inline bint any_above(const float* block, float limit) noexcept nogil:
    """Whether one of BLOCK values is above the limit, or is not a number."""
    cdef int i, found = 0
    for i in range(BLOCK):
        found |= not block[i] <= limit
    return found != 0


cdef Py_ssize_t select(const float* values, Py_ssize_t count, Token* heap, Py_ssize_t k) noexcept nogil:
    """Makes `heap` the first k tokens in order, without those of -inf; returns their number, -1 if a value is NaN."""
    cdef Py_ssize_t n, begin, i
    cdef float[BLOCK] spare
    cdef const float* block
    cdef Token token
    token.p = 0
    for i in range(k):
        heap[i].p, heap[i].value, heap[i].index = 0, -INFINITY, -1
    for n in range((count + BLOCK - 1) // BLOCK):
        begin = n * BLOCK
        block = block_at(values, count, begin, spare)
        if any_above(block, heap[0].value):
            for i in range(BLOCK):
                if block[i] != block[i]:
                    return -1
                if block[i] > heap[0].value:
                    token.value, token.index = block[i], <int>(begin + i)
                    sift(heap, k, token)
    for i in range(k - 1, 0, -1):  # the last of the rest goes to its end
        token = heap[i]
        heap[i] = heap[0]
        sift(heap, i, token)
    while k > 0 and heap[k - 1].value == -INFINITY:
        k -= 1
    return k


cdef Py_ssize_t likely(Token* tokens, Py_ssize_t count, double top_p, double min_p) noexcept nogil:
    """How many of the sorted tokens remain: the first whose p add up to top_p of all, of these those from min_p on."""
    cdef double total = 0, part = 0
    cdef Py_ssize_t i, kept
    for i in range(count):
        tokens[i].p = <float>exp(<double>tokens[i].value - tokens[0].value)
        total += tokens[i].p
    for kept in range(count):
        if tokens[kept].p < min_p or (top_p < 1 and kept and part >= top_p * total):
            return kept
        part += tokens[kept].p
    return count


cdef int draw_of(const Token* tokens, Py_ssize_t count, double factor, double random) noexcept nogil:
    """The id of one of the sorted tokens, drawn by a random number from 0 to 1; `factor` is 1 / temperature."""
    cdef double total = 0, part = 0
    cdef Py_ssize_t i
    for i in range(count):
        total += exp((<double>tokens[i].value - tokens[0].value) * factor)
    for i in range(count - 1):
        part += exp((<double>tokens[i].value - tokens[0].value) * factor)
        if part > random * total:
            return tokens[i].index
    return tokens[count - 1].index


# ---- all tokens ------------------------------------------------------------------------------------------------------
cdef inline void exp_block(const float* block, float best, float factor, float limit, float* out) noexcept nogil:
    """exp((value - best) factor) of the values from `limit` on, with a relative error of 4e-6; 0 of the others.

    `limit` must be at least `lowest(best, 1 / factor)`.
    """
    cdef float rounder = 12582912.0  # 1.5 * 2^23: its sum with x has round(x) in the low bits
    cdef float x, r, shifted, p
    cdef uint32_t exponent, bits
    cdef int i
    factor *= <float>LOG2E
    for i in range(BLOCK):
        x = (block[i] - best) * factor
        x = x if x > -126 else -126
        shifted = x + rounder
        r = x - (shifted - rounder)  # 2^x = 2^round(x) 2^r; of 2^r the Taylor series
        p = <float>0.05550411 + r * (<float>0.009618129 + r * <float>0.001333356)
        p = 1 + r * (<float>0.6931472 + r * (<float>0.2402265 + r * p))
        memcpy(&exponent, &shifted, 4)
        memcpy(&bits, &p, 4)
        bits += exponent << 23
        memcpy(&p, &bits, 4)
        out[i] = p if block[i] >= limit else 0


cdef inline float lowest(float best, double temperature) noexcept nogil:
    """The least value of which exp((value - best) / temperature) counts."""
    return <float>max(best - 87 * temperature, <double>-FLT_MAX)


cdef float maximum(const float* values, Py_ssize_t count) noexcept nogil:
    """The largest value, NaN if one is not a number."""
    cdef Py_ssize_t n, begin, i
    cdef float[BLOCK] spare, largest
    cdef const float* block
    cdef int bad = 0
    for i in range(BLOCK):
        largest[i] = -INFINITY
    for n in range((count + BLOCK - 1) // BLOCK):
        begin = n * BLOCK
        block = block_at(values, count, begin, spare)
        for i in range(BLOCK):
            largest[i] = block[i] if block[i] > largest[i] else largest[i]
            bad |= block[i] != block[i]
    for i in range(BLOCK):
        largest[0] = max(largest[0], largest[i])
    return NAN if bad else largest[0]


cdef Py_ssize_t add_up(
    const float* values, Py_ssize_t count, float best, double temperature, double factor, Token last, double enough,
    double* total,
) noexcept nogil:
    """Adds exp((value - best) factor) of the tokens up to `last`, by ids, to `total` until that exceeds `enough`.

    The factor is 1 / temperature.

    Returns the id at which it does; if it never does, the last one that adds anything.
    """
    cdef float limit = max(last.value, lowest(best, temperature)), below = nextafterf(limit, -INFINITY)
    cdef float[BLOCK] spare, p
    cdef float[8] sums
    cdef const float* block
    cdef double part
    cdef Py_ssize_t n, begin, i, j, found = 0
    for n in range((count + BLOCK - 1) // BLOCK):
        begin = n * BLOCK
        block = block_at(values, count, begin, spare)
        if not any_above(block, below):
            continue
        exp_block(block, best, <float>factor, limit, p)
        for i in range(max(0, last.index + 1 - begin), BLOCK):
            if block[i] == last.value:
                p[i] = 0
        for i in range(8):
            sums[i] = p[i]
        for j in range(8, BLOCK, 8):
            for i in range(8):
                sums[i] += p[j + i]
        part = 0
        for i in range(8):
            part += sums[i]
        if total[0] + part > enough:
            part = 0
            for i in range(BLOCK):
                part += p[i]
                if p[i] > 0:
                    found = begin + i
                if total[0] + part > enough:
                    break
            return found  # also where this sum, in double, is the smaller one
        if part > 0:
            found = begin
        total[0] += part
    return found


cdef Py_ssize_t collect(
    const float* values, Py_ssize_t count, float best, float limit, Token* tokens, double* total
) noexcept nogil:
    """Stores the tokens from `limit` on, by ids; returns their number, and the sum of their p in `total`.

    `limit` must be at least `lowest(best, 1)`.
    """
    cdef float below = nextafterf(limit, -INFINITY)
    cdef float[BLOCK] spare, p
    cdef const float* block
    cdef Py_ssize_t n, begin, i, found = 0
    total[0] = 0
    for n in range((count + BLOCK - 1) // BLOCK):
        begin = n * BLOCK
        block = block_at(values, count, begin, spare)
        if any_above(block, below):
            exp_block(block, best, 1, limit, p)
            for i in range(BLOCK):
                if p[i] > 0:
                    tokens[found].p, tokens[found].value, tokens[found].index = p[i], block[i], <int>(begin + i)
                    total[0] += p[i]
                    found += 1
    return found


cdef Token last_needed(Token* tokens, Py_ssize_t count, double need) noexcept nogil:
    """The token at which the p, added up in order, reach `need`: a quickselect. `tokens` get another order."""
    cdef Py_ssize_t low = 0, high = count, place, i
    cdef uint32_t random = 1
    cdef double part
    cdef bint ahead
    cdef Token pivot, token
    while True:
        random = random * 1664525 + 1013904223
        i = low + (<Py_ssize_t>(random >> 8) * (high - low) >> 24)
        pivot, tokens[i] = tokens[i], tokens[high - 1]
        place, part = low, 0
        for i in range(low, high - 1):  # those before the pivot go to the front; without branches
            token = tokens[i]
            tokens[i] = tokens[place]
            tokens[place] = token
            ahead = before(token, pivot)
            place += ahead
            part += ahead * token.p
        tokens[high - 1], tokens[place] = tokens[place], pivot
        if part >= need and place > low:
            high = place
        elif part + pivot.p >= need or place + 1 == high:
            return pivot
        else:
            need -= part + pivot.p
            low = place + 1


cdef bint find_top_p_end(const float* values, Py_ssize_t count, float best, double top_p, Token* last) noexcept nogil:
    """Moves `last` to the token at which the p, in order, reach the share top_p of all. False without memory."""
    cdef Token every = last[0]
    cdef double total = 0, part = 0
    cdef float distance = 4, least = max(last.value, lowest(best, 1)), limit = best
    cdef Py_ssize_t found
    cdef Token* tokens = <Token*>malloc(count * sizeof(Token))  # pages that are not needed are not touched
    if tokens == NULL:
        return False
    every.value, every.index = -INFINITY, <int>count
    add_up(values, count, best, 1, 1, every, INFINITY, &total)
    while limit > least:  # few tokens, as a rule, have enough
        limit = max(best - distance, least)
        distance *= 4
        found = collect(values, count, best, limit, tokens, &part)
        if part >= top_p * total:
            last[0] = last_needed(tokens, found, top_p * total)
            break
    free(tokens)
    return True


# ---- masks -----------------------------------------------------------------------------------------------------------
cdef inline void exclude_eight(float* values, uint32_t bits) noexcept nogil:
    """Writes -inf to the values whose bit is 0, without branches."""
    cdef uint32_t[8] place = [1, 2, 4, 8, 16, 32, 64, 128]
    cdef uint32_t[8] words
    cdef uint32_t keep
    cdef int i
    memcpy(words, values, sizeof(words))
    for i in range(8):
        keep = 0 - <uint32_t>((bits & place[i]) != 0)
        words[i] = (words[i] & keep) | (MINUS_INFINITY & ~keep)
    memcpy(values, words, sizeof(words))


cdef bint exclude(float* values, Py_ssize_t count, const unsigned char* bits) noexcept nogil:
    """Writes -inf to the values whose bit is 0. Whether a bit is 1."""
    cdef Py_ssize_t i
    cdef uint32_t found = 0
    for i in range(count // 8):
        found |= bits[i]
        if bits[i] != 255:
            exclude_eight(values + 8 * i, bits[i])
    for i in range(count - count % 8, count):
        if bits[i // 8] >> i % 8 & 1:
            found = 1
        else:
            values[i] = -INFINITY
    return found != 0


# ---- for Python ------------------------------------------------------------------------------------------------------
cdef int choose_of_all(
    const float* values, Py_ssize_t count, double temperature, double factor, double top_p, double min_p,
    double random, float* best,
) noexcept nogil:
    """The id of a token that is drawn from all that top_p and min_p leave. -1 without memory."""
    cdef Token last
    cdef double total = 0, part = 0
    best[0] = maximum(values, count)
    if not isfinite(best[0]):
        return 0
    last.p, last.index = 0, <int>count
    last.value = <float>(best[0] + log(min_p)) if min_p > 0 else -INFINITY
    if top_p < 1 and not find_top_p_end(values, count, best[0], top_p, &last):
        return -1
    add_up(values, count, best[0], temperature, factor, last, INFINITY, &total)
    return <int>add_up(values, count, best[0], temperature, factor, last, random * total, &part)


cdef int choose_of_best(
    const float* values, Py_ssize_t count, double factor, Py_ssize_t k, double top_p, double min_p, double random,
    float* best,
) noexcept nogil:
    """The id of a token that is drawn from the best k that top_p and min_p leave. -1 without memory."""
    cdef Token* tokens = <Token*>malloc(k * sizeof(Token))
    cdef int chosen = 0
    if tokens == NULL:
        return -1
    k = select(values, count, tokens, k)
    best[0] = NAN if k < 0 else -INFINITY if k == 0 else tokens[0].value
    if isfinite(best[0]):
        chosen = draw_of(tokens, likely(tokens, k, top_p, min_p), factor, random) if k > 1 else tokens[0].index
    free(tokens)
    return chosen


def choose(const float[::1] logits, double temperature, Py_ssize_t k, double top_p, double min_p, double random):
    """A token that is drawn.

    Args:
        logits: f32 [n], contiguous, n below 2^31.
        temperature, k, top_p, min_p: see Sampler; k 0 for all.
        random: float from 0 to 1, which determines the token.

    Returns:
        int: its id.

    Raises:
        ValueError: the largest logit is not finite, or there are none.
    """
    cdef Py_ssize_t n = logits.shape[0]
    cdef double factor = 1 / max(temperature, 1e-30)
    cdef float best = 0
    cdef int token
    if not 0 < n < 1 << 31:
        raise ValueError(f"generate: {n} logits: need one at least, fewer than 2^31")
    with nogil:
        if temperature == 0:
            token = choose_of_best(&logits[0], n, 1, 1, 1, 0, 0, &best)
        elif 0 < k < n:
            token = choose_of_best(&logits[0], n, factor, k, top_p, min_p, random, &best)
        else:
            token = choose_of_all(&logits[0], n, temperature, factor, top_p, min_p, random, &best)
    if best == -INFINITY:
        raise ValueError("generate: logits_filter excluded all tokens")
    if not isfinite(best):
        raise ValueError(f"generate: the largest logit is {best}: need finite weights, and a filter that keeps them so")
    if token < 0:
        raise MemoryError(f"generate: no memory to sort {n} logits")
    return token


def exclude_tokens(float[::1] logits not None, const unsigned char[::1] bits not None):
    """Writes -inf to the logits of the tokens that a mask excludes.

    Args:
        logits: f32 [n], contiguous.
        bits: bytes [(n + 7) // 8] or more: the bits of a byte, the lowest first, are 1 for tokens that are allowed.

    Returns:
        bool: whether one is allowed.

    Raises:
        ValueError: there are fewer bits than logits.
    """
    cdef Py_ssize_t n = logits.shape[0]
    cdef bint found
    if bits.shape[0] < (n + 7) // 8:
        raise ValueError(f"generate: {8 * bits.shape[0]} bits of a mask: need {n}, as many as there are logits")
    if n == 0:
        return False
    with nogil:
        found = exclude(&logits[0], n, &bits[0])
    return found


def largest(const float[::1] values not None, Py_ssize_t k):
    """The k largest values: of equal ones those that come first. -inf is left out.

    Args:
        values: f32 [n], contiguous, n below 2^31.
        k: int, 1 to n.

    Returns:
        (list of int, list of float): their indices and the values, the largest first.

    Raises:
        ValueError: a value is not a number, or k is out of range.
    """
    cdef Py_ssize_t n = values.shape[0], count, i
    if not 0 < k <= n or n >= 1 << 31:
        raise ValueError(f"largest: k is {k}: need 1 to the number of values, {n}, which is below 2^31")
    cdef Token* tokens = <Token*>malloc(k * sizeof(Token))
    if tokens == NULL:
        raise MemoryError(f"largest: no memory for {k} values")
    try:
        with nogil:
            count = select(&values[0], n, tokens, k)
        if count < 0:
            raise ValueError("largest: a value is not a number")
        return [tokens[i].index for i in range(count)], [tokens[i].value for i in range(count)]
    finally:
        free(tokens)
