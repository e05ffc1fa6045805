"""The texts of a vocabulary in a hash table, and what tokenizers do often with them.

`TokenTable` finds the token of a text, splits text at special tokens, and into tokens by the algorithms of
SentencePiece (BPE and Unigram) and of WordPiece. A table of 262,144 tokens is built in some tens of milliseconds.
`CharsMap` replaces characters as SentencePiece does; `repair` reads broken UTF-8 as llama.cpp does.

The hash of a text is a polynomial modulo 2**61 - 1 at a point that each process draws, so no file can choose texts that
collide. The hashes of all beginnings of a text give that of any part at once, however long it is: the time of an
algorithm grows with the text's length times the number of different lengths of tokens.
"""

import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.float cimport DBL_MAX
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcmp, memcpy, memset, strlen

cdef Py_ssize_t LIMIT = 2**31 - 1
cdef Py_ssize_t COMPARED = 64  # bytes; longer texts are equal if their lengths and their hashes of 61 bits are
cdef Py_ssize_t GROWTH = 64  # a CharsMap makes at most so many bytes of one
cdef uint64_t MODULUS = 2**61 - 1
cdef uint64_t POINT = int.from_bytes(os.urandom(8), "little") % (2**60) + 2**59

cdef extern from *:
    """
    static inline uint64_t gg_times(uint64_t a, uint64_t b) {  /* modulo 2**61 - 1, for a and b below it */
        unsigned __int128 product = (unsigned __int128)a * b;
        uint64_t sum = (uint64_t)(product & 0x1FFFFFFFFFFFFFFFu) + (uint64_t)(product >> 61);
        return sum >= 0x1FFFFFFFFFFFFFFFu ? sum - 0x1FFFFFFFFFFFFFFFu : sum;
    }
    """
    uint64_t gg_times(uint64_t a, uint64_t b) noexcept nogil

cdef extern from "Python.h":
    int PyUnicode_4BYTE_KIND
    object PyUnicode_FromKindAndData(int kind, const void* buffer, Py_ssize_t size)


cdef uint32_t[5] SMALLEST = [0, 0, 0x80, 0x800, 0x10000]  # code point in UTF-8 by number of bytes


cdef struct Symbol:  # a part of the text, in a doubly linked list; size 0: merged into the part before it
    int32_t previous, next, size
    int32_t start


cdef struct Pair:  # two neighbours that together are a token
    float score
    int32_t left, right, size


cdef inline int utf8_length(uint8_t first) noexcept nogil:
    """The number of bytes of a character by its first byte; 1 for a byte that cannot be the first."""
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


cdef inline uint64_t appended(uint64_t h, uint8_t byte) noexcept nogil:
    """The hash of a text with one more byte."""
    cdef uint64_t total = gg_times(h, POINT) + byte + 1
    return total - MODULUS if total >= MODULUS else total


cdef uint64_t* hash_beginnings(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    """The hashes of a text's first 0 to `size` bytes in new memory, NULL if there is none."""
    cdef uint64_t* hashes = <uint64_t*>malloc((size + 1) * sizeof(uint64_t))
    cdef Py_ssize_t i
    if hashes != NULL:
        hashes[0] = 0
        for i in range(size):
            hashes[i + 1] = appended(hashes[i], text[i])
    return hashes


cdef int by_value(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*>a)[0], y = (<const uint64_t*>b)[0]
    return (x > y) - (x < y)


cdef struct Slot:  # of a hash table
    uint32_t tag  # the upper bits of the hash
    int32_t token  # -1 where the slot is free


cdef struct Match:  # the best way to the end of a part of the text
    double score
    int32_t token, begin  # of the last token


cdef struct Text:  # that is searched for tokens
    const uint8_t* data
    Py_ssize_t size
    uint64_t* hashes  # of its beginnings


cdef inline bint before(const Pair* a, const Pair* b) noexcept nogil:
    """Whether pair a is merged before pair b: the higher score, then the leftmost."""
    return a.score > b.score or (a.score == b.score and a.left < b.left)


cdef void heap_push(Pair* heap, Py_ssize_t count, Pair item) noexcept nogil:
    """Adds an item to a binary heap of `count` items."""
    cdef Py_ssize_t i = count, parent
    while i > 0:
        parent = (i - 1) // 2
        if not before(&item, &heap[parent]):
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = item


cdef Pair heap_pop(Pair* heap, Py_ssize_t count) noexcept nogil:
    """Removes and returns the first item of a binary heap of `count` items."""
    cdef Pair top = heap[0], last = heap[count - 1]
    cdef Py_ssize_t i = 0, child, n = count - 1
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and before(&heap[child + 1], &heap[child]):
            child += 1
        if not before(&heap[child], &last):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last
    return top


cdef inline void reach(Match* end, double score, int32_t token, int32_t begin) noexcept nogil:
    """Notes a way to a place if it is better than those before."""
    if score > end.score:
        end.score, end.token, end.begin = score, token, begin


cdef class TokenTable:
    """The texts of tokens, and the token of a text.

    Args:
        texts: list of bytes; the text of each token. Empty texts are never found; of equal texts, the last is.
        scores: sequence of float, one for each token, or None. `merge` needs them.
    """

    cdef readonly Py_ssize_t count  # tokens
    cdef Py_ssize_t longest  # bytes of the longest token
    cdef uint8_t* data  # the texts one after the other
    cdef Py_ssize_t* start  # token i is data[start[i]:start[i + 1]]
    cdef uint64_t* hashes  # of the tokens
    cdef uint64_t* powers  # of POINT, from 0 to the longest token
    cdef Slot* slots  # linear probing
    cdef uint64_t mask
    cdef float* score
    cdef int32_t byte_ids[256]  # the token of each single byte, -1 where there is none
    cdef Py_ssize_t* lengths  # of tokens that begin with the same byte, in ascending order; NULL until needed
    cdef Py_ssize_t first[257]  # those of byte b are lengths[first[b]:first[b + 1]]

    def __cinit__(self, list texts, scores=None):
        cdef Py_ssize_t i, size, at = 0, total = 0
        cdef uint64_t slots = 8, power = 1
        texts = texts[:]  # another thread may change the list of the caller
        self.count = len(texts)
        for text in texts:
            if type(text) is not bytes:
                raise TypeError(f"TokenTable: a token is a {type(text).__name__}: need bytes")
            size = PyBytes_GET_SIZE(text)
            total += size
            self.longest = max(self.longest, size)
        if self.count > LIMIT or total > LIMIT:
            raise ValueError("TokenTable: the vocabulary has more than 2**31 - 1 bytes")
        while slots < 2 * <uint64_t>self.count:
            slots *= 2
        self.mask = slots - 1
        self.data = <uint8_t*>malloc(total + 1)
        self.start = <Py_ssize_t*>malloc((self.count + 1) * sizeof(Py_ssize_t))
        self.hashes = <uint64_t*>calloc(self.count + 1, sizeof(uint64_t))
        self.powers = <uint64_t*>malloc((self.longest + 1) * sizeof(uint64_t))
        self.slots = <Slot*>malloc(slots * sizeof(Slot))
        self.score = <float*>calloc(self.count + 1, sizeof(float))
        if (self.data == NULL or self.start == NULL or self.hashes == NULL or self.powers == NULL or self.slots == NULL
                or self.score == NULL):
            raise MemoryError("TokenTable: no memory for the vocabulary")
        memset(self.slots, 0xFF, slots * sizeof(Slot))
        for i in range(self.longest + 1):
            self.powers[i] = power
            power = gg_times(power, POINT)
        for i in range(self.count):
            text = texts[i]
            size = PyBytes_GET_SIZE(text)
            self.start[i] = at
            memcpy(self.data + at, PyBytes_AS_STRING(text), size)
            at += size
        self.start[self.count] = at
        for i in range(self.count):
            self.insert(<int32_t>i)
        if scores is not None:
            if len(scores) < self.count:
                raise ValueError(f"TokenTable: {len(scores)} scores for {self.count} tokens")
            for i in range(self.count):
                self.score[i] = scores[i]
        for i in range(256):
            self.byte_ids[i] = self.byte_token(<uint8_t>i)

    def __dealloc__(self):
        free(self.data)
        free(self.start)
        free(self.hashes)
        free(self.powers)
        free(self.slots)
        free(self.score)
        free(self.lengths)

    cdef void insert(self, int32_t token) noexcept:
        cdef const uint8_t* text = self.data + self.start[token]
        cdef Py_ssize_t size = self.start[token + 1] - self.start[token], i
        cdef uint64_t h = 0
        cdef Slot* slot
        if size == 0:
            return
        for i in range(size):
            h = appended(h, text[i])
        self.hashes[token] = h
        slot = self.slot_of(text, size, h)
        slot.tag, slot.token = <uint32_t>(h >> 29), token

    cdef inline Slot* slot_of(self, const uint8_t* text, Py_ssize_t size, uint64_t h) noexcept nogil:
        """The slot of a text, or the free one where it belongs."""
        cdef uint64_t at = (h * 0x9E3779B97F4A7C15ULL >> 20) & self.mask
        cdef Py_ssize_t start
        cdef int32_t token
        while True:
            token = self.slots[at].token
            if token < 0:
                return &self.slots[at]
            if self.slots[at].tag == <uint32_t>(h >> 29) and self.hashes[token] == h:
                start = self.start[token]
                if self.start[token + 1] - start == size and (
                        size > COMPARED or memcmp(self.data + start, text, size) == 0):
                    return &self.slots[at]
            at = (at + 1) & self.mask

    cdef inline int32_t lookup(self, const Text* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
        """The token of a part of a text, or -1."""
        cdef uint64_t h
        if size == 0 or size > self.longest:
            return -1
        h = text.hashes[at + size] + MODULUS - gg_times(text.hashes[at], self.powers[size])
        return self.slot_of(text.data + at, size, h - MODULUS if h >= MODULUS else h).token

    cdef int32_t byte_token(self, uint8_t byte):
        """The token of a byte: named <0xNN>, or else the byte itself; -1 if there is neither."""
        cdef int32_t token = self.find(b"<0x%02X>" % byte)
        return token if token >= 0 else self.find(bytes([byte]))

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t token):
        """The text of a token as bytes."""
        if not 0 <= token < self.count:
            raise IndexError(f"TokenTable: token {token} of {self.count}")
        cdef Py_ssize_t size = self.start[token + 1] - self.start[token]
        return PyBytes_FromStringAndSize(<char*>self.data + self.start[token], size)

    def find(self, bytes text not None):
        """The token of a text, or -1."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(text), i
        cdef const uint8_t* data = text
        cdef uint64_t h = 0
        if size == 0 or size > self.longest:
            return -1
        for i in range(size):
            h = appended(h, data[i])
        return self.slot_of(data, size, h).token

    cdef int find_lengths(self) except -1:
        """Fills `lengths` and `first`, unless they are filled."""
        with cython.critical_section(self):  # of several threads without a GIL, one fills them
            if self.lengths == NULL:
                self.fill_lengths()
        return 0

    cdef int fill_lengths(self) except -1:
        cdef Py_ssize_t i, at = 0
        cdef list sets = [set() for _ in range(256)]
        cdef Py_ssize_t* lengths
        for i in range(self.count):
            if self.start[i + 1] > self.start[i]:
                (<set>sets[self.data[self.start[i]]]).add(self.start[i + 1] - self.start[i])
        lengths = <Py_ssize_t*>malloc((sum(map(len, sets)) + 1) * sizeof(Py_ssize_t))
        if lengths == NULL:
            raise MemoryError("TokenTable: no memory for the vocabulary")
        for i in range(256):
            self.first[i] = at
            for length in sorted(sets[i]):
                lengths[at] = length
                at += 1
        self.first[256] = at
        self.lengths = lengths
        return 0

    cdef Text open_text(self, bytes data) except *:
        """A text that is searched for tokens; its hashes are to be freed."""
        cdef Text text
        text.data, text.size = data, PyBytes_GET_SIZE(data)
        if text.size >= LIMIT // 4:
            raise ValueError(f"tokenize: the text has {text.size:,} bytes: need fewer than {LIMIT // 4:,}")
        text.hashes = hash_beginnings(text.data, text.size)
        if text.hashes == NULL:
            raise MemoryError(f"tokenize: no memory for a text of {text.size:,} bytes")
        return text

    def split(self, bytes data not None, bytes strip_left=b"", bytes strip_right=b"", bytes white=b""):
        """Splits a text at tokens: long ones first, of those of one length the first in the table, from left to right.

        Args:
            data: the text.
            strip_left, strip_right: for each token whether it takes white space from the text before and after it.
            white: the bytes that are white space.

        Returns:
            list of the parts of the text (bytes, none empty) and of tokens (int) between them.
        """
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data), i, j, count = 0, found
        cdef const uint8_t* bytes_ = data
        cdef list out = []
        cdef Text text
        cdef int32_t* owner = NULL  # token + 1 where a token begins, -1 for other bytes of tokens and stripped ones
        cdef int32_t* places = NULL  # where a token may begin
        cdef uint64_t* matches = NULL  # token << 32 | place
        self.find_lengths()
        for i in range(size):
            count += self.first[bytes_[i]] < self.first[bytes_[i] + 1]
        if count == 0:
            return [data] if data else out
        text = self.open_text(data)
        owner = <int32_t*>calloc(size, sizeof(int32_t))
        places = <int32_t*>malloc(count * sizeof(int32_t))
        matches = <uint64_t*>malloc(count * sizeof(uint64_t))
        try:
            if owner == NULL or places == NULL or matches == NULL:
                raise MemoryError(f"tokenize: no memory for a text of {size:,} bytes")
            count = 0
            for i in range(size):
                if self.first[bytes_[i]] < self.first[bytes_[i] + 1]:
                    places[count] = <int32_t>i
                    count += 1
            for length in sorted({self.lengths[i] for i in range(self.first[256])}, reverse=True):
                found = self.find_matches(&text, length, places, count, owner, matches)
                for i in range(found):
                    self.claim(&text, matches[i], length, owner, strip_left, strip_right, white)
            i = 0
            while i < size:
                j = i
                while j < size and owner[j] == 0:
                    j += 1
                if j > i:
                    out.append(data[i:j])
                if j < size and owner[j] > 0:
                    out.append(owner[j] - 1)
                i = j + 1
        finally:
            free(text.hashes)
            free(owner)
            free(places)
            free(matches)
        return out

    cdef Py_ssize_t find_matches(self, const Text* text, Py_ssize_t length, const int32_t* places, Py_ssize_t count,
                                 const int32_t* owner, uint64_t* matches) noexcept nogil:
        """The tokens of one length outside longer ones, sorted by token, then by place. Returns their number."""
        cdef Py_ssize_t i, at, found = 0
        cdef int32_t token
        for i in range(count):
            at = places[i]
            # a longer token that overlaps covers the first or the last byte
            if at + length <= text.size and owner[at] == 0 and owner[at + length - 1] == 0:
                token = self.lookup(text, at, length)
                if token >= 0:
                    matches[found] = <uint64_t>token << 32 | <uint64_t>at
                    found += 1
        qsort(matches, found, sizeof(uint64_t), by_value)
        return found

    cdef int claim(self, const Text* text, uint64_t match, Py_ssize_t length, int32_t* owner, bytes left,
                   bytes right, bytes white) except -1:
        """Makes the bytes of a match and the white space that it takes unavailable, unless another has them."""
        cdef Py_ssize_t at = match & 0xFFFFFFFF, i
        cdef int32_t token = <int32_t>(match >> 32)
        if owner[at] or owner[at + length - 1]:
            return 0
        for i in range(at, at + length):
            owner[i] = -1
        owner[at] = token + 1
        if token < PyBytes_GET_SIZE(left) and left[token]:
            i = at - 1
            while i >= 0 and owner[i] == 0 and text.data[i] in white:
                owner[i] = -1
                i -= 1
        if token < PyBytes_GET_SIZE(right) and right[token]:
            i = at + length
            while i < text.size and owner[i] == 0 and text.data[i] in white:
                owner[i] = -1
                i += 1
        return 0

    def longest_first(self, bytes word not None):
        """Splits a word into tokens, each the longest that fits (WordPiece). None if a part has no token."""
        cdef Text text = self.open_text(word)
        cdef Py_ssize_t at = 0, end, k, begin
        cdef int32_t token
        cdef list out = []
        try:
            self.find_lengths()
            while at < text.size:
                token, begin = -1, self.first[text.data[at]]
                for k in range(self.first[text.data[at] + 1] - 1, begin - 1, -1):
                    end = at + self.lengths[k]
                    if end < text.size and text.data[end] & 0xC0 == 0x80:
                        continue  # within a character
                    if end <= text.size:
                        token = self.lookup(&text, at, self.lengths[k])
                        if token >= 0:
                            break
                if token < 0:
                    return None
                out.append(token)
                at = end
        finally:
            free(text.hashes)
        return out

    def most_likely(self, bytes data not None, int32_t unknown, double unknown_score):
        """Splits a text into the tokens with the highest sum of scores (Unigram).

        Args:
            data: the text, with spaces already replaced.
            unknown: int; stands for characters that have no token; neighbours are one.
            unknown_score: float; of a character without a token.

        Returns:
            list of int.
        """
        cdef Text text = self.open_text(data)
        cdef Match* best = <Match*>malloc((text.size + 1) * sizeof(Match))
        cdef Py_ssize_t i
        cdef list out = []
        if best == NULL:
            free(text.hashes)
            raise MemoryError(f"tokenize: no memory for a text of {text.size:,} bytes")
        try:
            self.find_lengths()
            with nogil:
                self.find_best(&text, best, unknown, unknown_score)
            i = text.size
            while i > 0:
                if best[i].token != unknown or not out or out[-1] != unknown:
                    out.append(best[i].token)
                i = best[i].begin
        finally:
            free(text.hashes)
            free(best)
        out.reverse()
        return out

    cdef void find_best(self, const Text* text, Match* best, int32_t unknown, double unknown_score) noexcept nogil:
        """The best way to each place in a text (Viterbi's algorithm)."""
        cdef Py_ssize_t at = 0, i, size, k
        cdef int32_t token
        cdef bint single
        for i in range(text.size + 1):
            best[i].score, best[i].token, best[i].begin = -DBL_MAX if i else 0.0, unknown, 0
        while at < text.size:
            size = min(<Py_ssize_t>utf8_length(text.data[at]), text.size - at)
            single = False
            for k in range(self.first[text.data[at]], self.first[text.data[at] + 1]):
                if at + self.lengths[k] > text.size:
                    break
                token = self.lookup(text, at, self.lengths[k])
                if token >= 0:
                    single = single or self.lengths[k] == size
                    reach(&best[at + self.lengths[k]], best[at].score + self.score[token], token, <int32_t>at)
            if not single:
                reach(&best[at + size], best[at].score + unknown_score, unknown, <int32_t>at)
            at += size

    def merge(self, bytes data not None, int32_t unknown=-1):
        """Splits a text into tokens: neighbours that form the token with the highest score are merged first.

        Args:
            data: the text, with spaces already replaced.
            unknown: int; stands for a byte that has no token, or -1 to leave such bytes out.

        Returns:
            list of int; characters that are not in the vocabulary are spelled in bytes.
        """
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        cdef Symbol* symbols
        cdef Pair* heap
        cdef int32_t at = 0, token, k
        cdef list out = []
        cdef Text text
        if size == 0:
            return out
        text = self.open_text(data)
        symbols = <Symbol*>malloc(size * sizeof(Symbol))
        heap = <Pair*>malloc(2 * size * sizeof(Pair))  # at first size - 1; a merge takes one and adds two
        if symbols == NULL or heap == NULL:
            free(text.hashes)
            free(symbols)
            free(heap)
            raise MemoryError(f"tokenize: no memory for a text of {size:,} bytes")
        try:
            with nogil:
                self.split_and_merge(&text, symbols, heap)
            while at >= 0:
                token = self.lookup(&text, symbols[at].start, symbols[at].size)
                if token >= 0:
                    out.append(token)
                else:
                    for k in range(symbols[at].start, symbols[at].start + symbols[at].size):
                        token = self.byte_ids[text.data[k]] if self.byte_ids[text.data[k]] >= 0 else unknown
                        if token >= 0:
                            out.append(token)
                at = symbols[at].next
        finally:
            free(text.hashes)
            free(symbols)
            free(heap)
        return out

    cdef void split_and_merge(self, const Text* text, Symbol* symbols, Pair* heap) noexcept nogil:
        """Makes a symbol of each character, then merges pairs; the first symbol remains number 0."""
        cdef Py_ssize_t at = 0, pending = 0
        cdef int32_t count = 0, i
        cdef Pair pair
        cdef Symbol* left
        cdef Symbol* right
        while at < text.size:
            symbols[count].start = <int32_t>at
            symbols[count].size = <int32_t>min(<Py_ssize_t>utf8_length(text.data[at]), text.size - at)
            symbols[count].previous = count - 1
            at += symbols[count].size
            symbols[count].next = count + 1 if at < text.size else -1
            count += 1
        for i in range(1, count):
            pending = self.consider(text, symbols, heap, pending, i - 1, i)
        while pending > 0:
            pair = heap_pop(heap, pending)
            pending -= 1
            left, right = &symbols[pair.left], &symbols[pair.right]
            if left.size == 0 or right.size == 0 or left.size + right.size != pair.size:
                continue  # one of the two was merged with another neighbour
            left.size += right.size
            right.size = 0
            left.next = right.next
            if right.next >= 0:
                symbols[right.next].previous = pair.left
            pending = self.consider(text, symbols, heap, pending, left.previous, pair.left)
            pending = self.consider(text, symbols, heap, pending, pair.left, left.next)

    cdef inline Py_ssize_t consider(self, const Text* text, Symbol* symbols, Pair* heap, Py_ssize_t pending,
                                    int32_t left, int32_t right) noexcept nogil:
        """Adds a pair of neighbours to the heap if their text is a token. Returns the number of pairs."""
        cdef Pair pair
        cdef int32_t token
        if left < 0 or right < 0:
            return pending
        pair.size = symbols[left].size + symbols[right].size
        token = self.lookup(text, symbols[left].start, pair.size)
        if token < 0:
            return pending
        pair.left, pair.right, pair.score = left, right, self.score[token]
        heap_push(heap, pending, pair)
        return pending + 1


cdef class CharsMap:
    """SentencePiece's replacements of characters (`precompiled_charsmap`): of each place the longest text that has one.

    Args:
        data: bytes; the size of a trie (u32), the trie (a double array of u32), and texts that each end with a zero.

    Raises:
        ValueError: a size is wrong.
    """

    cdef bytes data  # the trie begins at 4, the texts at 4 + 4 * units
    cdef const uint8_t* bytes_
    cdef Py_ssize_t size, units

    def __cinit__(self, bytes data not None):
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t trie = int.from_bytes(data[:4], "little")
        if size < 4 or trie % 4 or trie > size - 4:
            raise ValueError(f"cannot parse {size:,} bytes with a trie of {trie:,}")
        if trie + 4 < size and data[size - 1] != 0:
            raise ValueError(f"cannot parse {size:,} bytes whose last text does not end")
        self.data, self.bytes_, self.size, self.units = data, data, size, trie // 4

    cdef inline uint32_t unit(self, uint32_t at) noexcept nogil:
        """An element of the trie; beyond it one that no text leads to."""
        cdef uint32_t value = 0x80000000U
        if at < self.units:
            memcpy(&value, self.bytes_ + 4 + 4 * <Py_ssize_t>at, 4)
        return value

    cdef Py_ssize_t longest(self, const uint8_t* text, Py_ssize_t size, Py_ssize_t* replacement) noexcept nogil:
        """The bytes of the longest beginning of a text that is replaced, and where in `data` its replacement begins."""
        cdef Py_ssize_t i, found = 0, at
        cdef uint32_t unit = self.unit(0), node = self.next_node(0, unit)
        for i in range(size):
            node ^= text[i]
            unit = self.unit(node)
            if text[i] == 0 or (unit & <uint32_t>0x800000FFU) != text[i]:
                break
            node = self.next_node(node, unit)
            if unit & 0x100U:
                at = 4 + 4 * self.units + <Py_ssize_t>(self.unit(node) & <uint32_t>0x7FFFFFFFU)
                if at < self.size:
                    found, replacement[0] = i + 1, at
        return found

    cdef inline uint32_t next_node(self, uint32_t node, uint32_t unit) noexcept nogil:
        return node ^ (unit >> 10 << ((unit & 0x200U) >> 6))

    def normalize(self, bytes text not None):
        """The text with its replacements; bytes that have none stay.

        Raises:
            ValueError: the replacements are far longer than what they replace.
        """
        cdef Py_ssize_t size = PyBytes_GET_SIZE(text), at = 0, kept = 0, total = 0, length, replacement = 0, count
        cdef const uint8_t* data = text
        cdef list parts = []
        while at < size:
            length = self.longest(data + at, size - at, &replacement)
            if length == 0:
                at += min(<Py_ssize_t>utf8_length(data[at]), size - at)
                continue
            parts.append(text[kept:at])
            count = strlen(<const char*>self.bytes_ + replacement)  # the last text ends, too
            parts.append(self.data[replacement:replacement + count])
            total += count
            if total > GROWTH * size:
                raise ValueError(f"tokenize: the vocabulary's charsmap makes more than {GROWTH} bytes of one")
            at += length
            kept = at
        parts.append(text[kept:])
        return b"".join(parts)


def repair(bytes data not None, bint strict=False, uint32_t replacement=0xFFFD):
    """Text from bytes that need not be valid UTF-8.

    A byte that does not begin a complete character is replaced by U+FFFD. Encodings that UTF-8 forbids (too long, or of
    halves of surrogate pairs) are read as the code point they spell, beyond U+10FFFF as U+FFFD: the rules of llama.cpp.

    Args:
        data: bytes.
        strict: bool; whether each forbidden encoding is replaced instead.
        replacement: int; code point that stands for what is wrong.

    Returns:
        str; unless strict it may contain surrogates, and then cannot be encoded in UTF-8.
    """
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), at = 0, count = 0
    cdef const uint8_t* text = data
    cdef int length, k
    cdef uint32_t point
    cdef uint32_t* points = <uint32_t*>malloc((size + 1) * sizeof(uint32_t))
    if points == NULL:
        raise MemoryError(f"tokenize: no memory for a text of {size:,} bytes")
    while at < size:
        length = utf8_length(text[at])
        if text[at] < 0x80:
            point = text[at]
        elif length == 1 or text[at] >= 0xF8 or at + length > size:
            point, length = replacement, 1
        else:
            point = text[at] & (0x7F >> length)
            for k in range(1, length):
                if text[at + k] & 0xC0 != 0x80:
                    point, length = replacement, 1
                    break
                point = point << 6 | (text[at + k] & 0x3F)
        if point > 0x10FFFF or (strict and length > 1 and (0xD800 <= point < 0xE000 or point < SMALLEST[length])):
            point = replacement
        points[count] = point
        count += 1
        at += length
    try:
        return PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, points, count)
    finally:
        free(points)
