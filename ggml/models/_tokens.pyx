"""The texts of a vocabulary in a hash table, and what tokenizers do often with them.

`TokenTable` finds the token of a text, the tokens that occur anywhere in a text, and splits text by the algorithm of
SentencePiece's BPE models (GGUF: `tokenizer.ggml.model = "llama"`). A table of 262,144 tokens is built in some tens of
milliseconds. `repair` reads broken UTF-8 as llama.cpp does.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

cdef Py_ssize_t LIMIT = 2**31 - 1

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


cdef inline uint64_t hash_bytes(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef uint64_t h = 0xCBF29CE484222325ULL ^ <uint64_t>size, word
    cdef Py_ssize_t i = 0
    while i + 8 <= size:
        memcpy(&word, text + i, 8)
        h = (h ^ word) * 0x9E3779B97F4A7C15ULL
        h ^= h >> 29
        i += 8
    word = 0
    memcpy(&word, text + i, size - i)
    h = (h ^ word) * 0x9E3779B97F4A7C15ULL
    return h ^ (h >> 32)


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
    cdef int32_t* slots  # hash table with linear probing: an id, or -1
    cdef uint64_t mask
    cdef float* score
    cdef int32_t byte_ids[256]  # the token of each single byte, -1 where there is none
    cdef list lengths  # by first byte: bytes with the lengths of the tokens that begin with it

    def __cinit__(self, list texts, scores=None):
        cdef Py_ssize_t i, size, at = 0, total = 0
        cdef uint64_t slots = 8
        self.count = len(texts)
        for text in texts:
            if type(text) is not bytes:
                raise TypeError(f"TokenTable: a token is a {type(text).__name__}: need bytes")
            total += PyBytes_GET_SIZE(text)
        if self.count > LIMIT or total > LIMIT:
            raise ValueError("TokenTable: the vocabulary has more than 2**31 - 1 bytes")
        while slots < 2 * <uint64_t>self.count:
            slots *= 2
        self.mask = slots - 1
        self.data = <uint8_t*>malloc(total + 1)
        self.start = <Py_ssize_t*>malloc((self.count + 1) * sizeof(Py_ssize_t))
        self.slots = <int32_t*>malloc(slots * sizeof(int32_t))
        self.score = <float*>calloc(self.count + 1, sizeof(float))
        if self.data == NULL or self.start == NULL or self.slots == NULL or self.score == NULL:
            raise MemoryError("TokenTable: no memory for the vocabulary")
        memset(self.slots, 0xFF, slots * sizeof(int32_t))
        for i in range(self.count):
            text = texts[i]
            size = PyBytes_GET_SIZE(text)
            self.start[i] = at
            memcpy(self.data + at, PyBytes_AS_STRING(text), size)
            at += size
            self.longest = max(self.longest, size)
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
        free(self.slots)
        free(self.score)

    cdef void insert(self, int32_t token) noexcept:
        cdef const uint8_t* text = self.data + self.start[token]
        cdef Py_ssize_t size = self.start[token + 1] - self.start[token]
        cdef uint64_t slot
        if size == 0:
            return
        slot = hash_bytes(text, size) & self.mask
        while self.slots[slot] >= 0 and not self.equals(self.slots[slot], text, size):
            slot = (slot + 1) & self.mask
        self.slots[slot] = token

    cdef inline bint equals(self, int32_t token, const uint8_t* text, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t start = self.start[token]
        return self.start[token + 1] - start == size and memcmp(self.data + start, text, size) == 0

    cdef int32_t lookup(self, const uint8_t* text, Py_ssize_t size) noexcept nogil:
        """The token of a text, or -1."""
        cdef uint64_t slot
        if size == 0 or size > self.longest:
            return -1
        slot = hash_bytes(text, size) & self.mask
        while self.slots[slot] >= 0:
            if self.equals(self.slots[slot], text, size):
                return self.slots[slot]
            slot = (slot + 1) & self.mask
        return -1

    cdef int32_t byte_token(self, uint8_t byte):
        """The token of a byte: named <0xNN>, or else the byte itself; -1 if there is neither."""
        cdef bytes name = b"<0x%02X>" % byte
        cdef int32_t token = self.lookup(name, 6)
        return token if token >= 0 else self.lookup(&byte, 1)

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
        return self.lookup(text, PyBytes_GET_SIZE(text))

    def occurring(self, bytes text not None):
        """The tokens whose text occurs anywhere in a text: a sorted list of ids."""
        cdef const uint8_t* data = text
        cdef Py_ssize_t size = PyBytes_GET_SIZE(text), i
        cdef int32_t token
        cdef const uint8_t* lengths
        cdef Py_ssize_t length
        cdef set found = set()
        if self.lengths is None:
            self.lengths = self.lengths_by_first_byte()
        for i in range(size):
            packed = self.lengths[data[i]]
            if packed is None:
                continue
            for length in <tuple>packed:
                if i + length > size:
                    break
                token = self.lookup(data + i, length)
                if token >= 0:
                    found.add(token)
        return sorted(found)

    cdef list lengths_by_first_byte(self):
        cdef Py_ssize_t i
        cdef list sets = [set() for _ in range(256)]
        for i in range(self.count):
            if self.start[i + 1] > self.start[i]:
                (<set>sets[self.data[self.start[i]]]).add(self.start[i + 1] - self.start[i])
        return [tuple(sorted(s)) if s else None for s in sets]

    def merge(self, bytes text not None, int32_t unknown=-1):
        """Splits a text into tokens: neighbours that form the token with the highest score are merged first.

        Args:
            text: bytes, with spaces already replaced.
            unknown: int; stands for a byte that has no token, or -1 to leave such bytes out.

        Returns:
            list of int; characters that are not in the vocabulary are spelled in bytes.
        """
        cdef Py_ssize_t size = PyBytes_GET_SIZE(text), i, count
        cdef Symbol* symbols
        cdef Pair* heap
        cdef const uint8_t* data = text
        cdef int32_t at = 0, token, k
        cdef list out = []
        if size == 0:
            return out
        if size >= LIMIT // 4:
            raise ValueError(f"tokenize: the text has {size:,} bytes: need fewer than {LIMIT // 4:,}")
        symbols = <Symbol*>malloc(size * sizeof(Symbol))
        heap = <Pair*>malloc(2 * size * sizeof(Pair))  # at first size - 1; a merge takes one and adds two
        if symbols == NULL or heap == NULL:
            free(symbols)
            free(heap)
            raise MemoryError(f"tokenize: no memory for a text of {size:,} bytes")
        try:
            with nogil:
                count = self.split_and_merge(data, size, symbols, heap)
            while at >= 0:
                token = self.lookup(data + symbols[at].start, symbols[at].size)
                if token >= 0:
                    out.append(token)
                else:
                    for k in range(symbols[at].start, symbols[at].start + symbols[at].size):
                        token = self.byte_ids[data[k]] if self.byte_ids[data[k]] >= 0 else unknown
                        if token >= 0:
                            out.append(token)
                at = symbols[at].next
        finally:
            free(symbols)
            free(heap)
        return out

    cdef Py_ssize_t split_and_merge(self, const uint8_t* data, Py_ssize_t size, Symbol* symbols,
                                    Pair* heap) noexcept nogil:
        """Makes a symbol of each character, then merges pairs; the first symbol remains number 0."""
        cdef Py_ssize_t at = 0, pending = 0
        cdef int32_t count = 0, i
        cdef Pair pair
        cdef Symbol* left
        cdef Symbol* right
        while at < size:
            symbols[count].start = <int32_t>at
            symbols[count].size = <int32_t>min(<Py_ssize_t>utf8_length(data[at]), size - at)
            symbols[count].previous = count - 1
            at += symbols[count].size
            symbols[count].next = count + 1 if at < size else -1
            count += 1
        for i in range(1, count):
            pending = self.consider(data, symbols, heap, pending, i - 1, i)
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
            pending = self.consider(data, symbols, heap, pending, left.previous, pair.left)
            pending = self.consider(data, symbols, heap, pending, pair.left, left.next)
        return count

    cdef inline Py_ssize_t consider(self, const uint8_t* data, Symbol* symbols, Pair* heap, Py_ssize_t pending,
                                    int32_t left, int32_t right) noexcept nogil:
        """Adds a pair of neighbours to the heap if their text is a token. Returns the number of pairs."""
        cdef Pair pair
        cdef int32_t token
        if left < 0 or right < 0:
            return pending
        pair.size = symbols[left].size + symbols[right].size
        token = self.lookup(data + symbols[left].start, pair.size)
        if token < 0:
            return pending
        pair.left, pair.right, pair.score = left, right, self.score[token]
        heap_push(heap, pending, pair)
        return pending + 1


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
