# cython: boundscheck=False, wraparound=False, initializedcheck=False, binding=False
"""What the host does with single texts, and with maps: loops over objects, in a fraction of Python's time."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np

cdef extern from "Python.h":
    int PyObject_GetBuffer(object, Py_buffer*, int) except -1
    PyObject* PyDict_GetItemWithError(dict, object) except? NULL
    bint PyUnicode_IS_ASCII(object)
    const unsigned char* PyUnicode_1BYTE_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    object PyUnicode_Substring(object, Py_ssize_t, Py_ssize_t)

cdef object empty = np.empty, zeros = np.zeros, INT64 = np.dtype(np.int64), F32 = np.dtype(np.float32)
cdef object OBJECT = np.dtype(object)


cdef list elements(object x):
    """The elements of an array in their order."""
    return (x if x.ndim == 1 else x.ravel()).tolist()


def looked_up(dict table, int64_t default, x):
    """The int64 values of the elements of an array in a table, in its shape; a default for those that it does not have.
    """
    cdef Py_buffer b
    cdef Py_ssize_t i
    cdef PyObject* found
    cdef list keys = elements(x)
    array = empty(x.shape, INT64)
    PyObject_GetBuffer(array, &b, PyBUF_WRITABLE)
    try:
        for i in range(len(keys)):
            found = PyDict_GetItemWithError(table, keys[i])
            (<int64_t*>b.buf)[i] = default if found == NULL else <int64_t><object>found
    finally:
        PyBuffer_Release(&b)
    return array


cdef class Tokens:
    """Divides texts into tokens: an array of one more dimension than that of the texts, filled up with a value.

    Args:
        split: gives the list of the tokens of a text.
        members: for each character of ASCII whether tokens consist of it, 128 bytes; None if only `split` knows.
        least: the number of characters that a token has at least.
        ends: a list of what precedes the tokens of each text, and one of what follows.
        blank: the value.
    """
    cdef object split, blank
    cdef bytes members
    cdef Py_ssize_t least
    cdef list before, after

    def __init__(self, split, members, least, ends, blank):
        if members is not None and len(members) != 128:
            raise ValueError(f"{len(members)} members: need 128")
        self.split, self.members, self.least, self.blank = split, members, least, blank
        self.before, self.after = ends

    cdef int add_runs(self, list tokens, str text) except -1:
        """Appends the longest parts of a text that consist of members."""
        cdef const unsigned char* inside = self.members
        cdef const unsigned char* c = PyUnicode_1BYTE_DATA(text)
        cdef Py_ssize_t i = 0, begin, n = PyUnicode_GET_LENGTH(text)
        while i < n:
            while i < n and not inside[c[i]]:
                i += 1
            begin = i
            while i < n and inside[c[i]]:
                i += 1
            if i > begin and i - begin >= self.least:
                tokens.append(PyUnicode_Substring(text, begin, i))
        return 0

    def __call__(self, x):
        cdef Py_buffer b
        cdef PyObject** to
        cdef PyObject* previous
        cdef Py_ssize_t i, begin, end, width = 0
        cdef list tokens = [], ends = [0]   # no list for each row: they would make the garbage collector run
        cdef str text
        for value in elements(x):
            text = value if type(value) is str else str(value)
            tokens += self.before
            if self.members is not None and PyUnicode_IS_ASCII(text):
                self.add_runs(tokens, text)
            else:
                tokens += self.split(text)
            tokens += self.after
            width = max(width, len(tokens) - <Py_ssize_t>ends[len(ends) - 1])
            ends.append(len(tokens))
        out = empty((*x.shape, width), OBJECT)
        PyObject_GetBuffer(out, &b, PyBUF_WRITABLE)
        to = <PyObject**>b.buf
        end = 0
        for i in range(1, len(ends)):
            begin, end = end, ends[i]
            for begin in range(begin, begin + width):
                value = tokens[begin] if begin < end else self.blank
                previous = to[0]
                Py_INCREF(value)
                to[0] = <PyObject*>value
                Py_XDECREF(previous)
                to += 1
        PyBuffer_Release(&b)
        return out


def zipped(tuple keys, object x):
    """For each row of a contiguous matrix of float32 with as many columns as keys a dict of its numbers by the keys."""
    cdef Py_buffer b
    cdef dict blank = dict.fromkeys(keys, 0.0), row     # a copy of a dict takes less time than another with its keys
    cdef list rows = []
    cdef Py_ssize_t i, j, n = len(keys), size = n * sizeof(float)
    PyObject_GetBuffer(x, &b, PyBUF_SIMPLE)
    try:
        for i in range(b.len // size if n else 0):
            row = blank.copy()
            for j in range(n):
                row[keys[j]] = <double>(<const float*>b.buf)[i * n + j]
            rows.append(row)
    finally:
        PyBuffer_Release(&b)
    return rows


cdef class OneHot:
    """Rows of zeros for the elements of an array, with 1 where a table says for an element, float32.

    Args:
        table: dict with the place of 1 in a row by keys.
        n: the length of a row; all places are below it.
        strict: whether an element that the table does not have is an error; otherwise its row is zeros.
    """
    cdef dict table
    cdef Py_ssize_t n
    cdef bint strict

    def __init__(self, table, n, strict):
        if not all(0 <= place < n for place in table.values()):
            raise ValueError(f"places in rows of {n} are {list(table.values())}")
        self.table, self.n, self.strict = table, n, strict

    def __call__(self, x):
        cdef Py_buffer b
        cdef Py_ssize_t i
        cdef PyObject* found
        cdef list keys = elements(x)
        out = zeros((*x.shape, self.n), F32)
        PyObject_GetBuffer(out, &b, PyBUF_WRITABLE)
        try:
            for i in range(len(keys)):
                found = PyDict_GetItemWithError(self.table, keys[i])
                if found != NULL:
                    (<float*>b.buf)[i * self.n + <Py_ssize_t><object>found] = 1
                elif self.strict:
                    raise ValueError(f"{keys[i]!r} is none of the categories")
        finally:
            PyBuffer_Release(&b)
        return out


cdef Py_ssize_t place_of(const int64_t* keys, Py_ssize_t n, int64_t key) noexcept nogil:
    """The place of a key among sorted ones, or -1."""
    cdef Py_ssize_t first = 0, half
    while n > 1:
        half = n // 2
        first += half if keys[first + half] <= key else 0
        n -= half
    return first if n and keys[first] == key else -1


def count(out, codes, list steps, columns, int64_t words, Py_ssize_t gap):
    """Adds 1 to a row of out for each n-gram that it has: to the column of the n-gram.

    Args:
        out: (rows, width), contiguous, float32.
        codes: (rows, n), contiguous, int64: the numbers of words, of which there are `words`; -1 for others.
        steps: for each word of an n-gram but the first the sorted int64 numbers of a beginning, times `words`, plus
            that of the word. The place of a pair is the number of the longer beginning.
        columns: int64, by the number of the n-gram; those that out does not have do not count.
        gap: how far apart the words are.
    """
    cdef Py_ssize_t rows = out.shape[0], width = out.shape[1], n = codes.shape[1], more = len(steps), held = 0
    cdef Py_ssize_t row, start, k
    cdef Py_buffer* b = <Py_buffer*>malloc((more + 3) * sizeof(Py_buffer))     # of steps, columns, codes, out
    cdef const int64_t* word
    cdef int64_t code
    if b == NULL:
        raise MemoryError("no memory for the steps of n-grams")
    try:
        for array in (*steps, columns, codes, out):
            PyObject_GetBuffer(array, &b[held], PyBUF_WRITABLE if array is out else PyBUF_SIMPLE)
            held += 1
        if b[more + 1].len != rows * n * <Py_ssize_t>sizeof(int64_t):
            rows = 0
        if b[more + 2].len != rows * width * <Py_ssize_t>sizeof(float):
            rows = 0
        for row in range(rows):
            for start in range(n - gap * more):
                word = <const int64_t*>b[more + 1].buf + row * n + start
                code = word[0]
                for k in range(more):
                    if code < 0 or word[(k + 1) * gap] < 0:
                        code = -1
                        break
                    code = place_of(<const int64_t*>b[k].buf, b[k].len // 8, code * words + word[(k + 1) * gap])
                if 0 <= code < b[more].len // 8:
                    code = (<const int64_t*>b[more].buf)[code]
                    if 0 <= code < width:
                        (<float*>b[more + 2].buf)[row * width + code] += 1
    finally:
        for k in range(held):
            PyBuffer_Release(&b[k])
        free(b)
