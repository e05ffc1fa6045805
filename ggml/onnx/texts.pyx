# cython: boundscheck=False, wraparound=False, initializedcheck=False, binding=False
"""What the host does with single texts, and with maps: loops over objects, in a fraction of Python's time."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

import numpy as np

cdef extern from "Python.h":
    int PyObject_GetBuffer(object, Py_buffer*, int) except -1
    PyObject* PyDict_GetItemWithError(dict, object) except? NULL
    bint PyUnicode_IS_ASCII(object)
    const unsigned char* PyUnicode_1BYTE_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    object PyUnicode_Substring(object, Py_ssize_t, Py_ssize_t)


def looked_up(dict table, list keys, int64_t default):
    """The int64 values of keys in a table as an array, and a default for those that it does not have."""
    cdef Py_buffer b
    cdef Py_ssize_t i
    cdef PyObject* found
    array = np.empty(len(keys), np.int64)
    PyObject_GetBuffer(array, &b, PyBUF_WRITABLE)
    try:
        for i in range(len(keys)):
            found = PyDict_GetItemWithError(table, keys[i])
            (<int64_t*>b.buf)[i] = default if found == NULL else <int64_t><object>found
    finally:
        PyBuffer_Release(&b)
    return array


def runs(list texts, bytes members, Py_ssize_t least, list other):
    """For each text the list of its longest parts, of at least `least` characters, that only have certain characters.

    Args:
        members: for each character of ASCII whether it is one of them.
        other: the lists for texts with other characters, in their order.
    """
    cdef const unsigned char* inside = members
    cdef const unsigned char* c
    cdef Py_ssize_t i, n, begin, some = 0
    cdef list found = [], parts
    cdef object text
    if len(members) != 128:
        raise ValueError(f"{len(members)} members: need 128")
    for text in texts:
        if not PyUnicode_IS_ASCII(text):
            found.append(other[some])
            some += 1
            continue
        c, n, i, parts = PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text), 0, []
        while i < n:
            while i < n and not inside[c[i]]:
                i += 1
            begin = i
            while i < n and inside[c[i]]:
                i += 1
            if i > begin and i - begin >= least:
                parts.append(PyUnicode_Substring(text, begin, i))
        found.append(parts)
    return found


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


def one_hot(dict table, list keys, Py_ssize_t n, object out):
    """Writes 1 into rows of n zeros, float32, where a table says for each key.

    Returns the first key that it does not have, in a tuple, or None.
    """
    cdef Py_buffer b
    cdef Py_ssize_t i
    cdef PyObject* found
    cdef tuple missing = None
    PyObject_GetBuffer(out, &b, PyBUF_WRITABLE)
    try:
        for i in range(len(keys)):
            found = PyDict_GetItemWithError(table, keys[i])
            if found != NULL:
                (<float*>b.buf)[i * n + <Py_ssize_t><object>found] = 1
            elif missing is None:
                missing = (keys[i],)
    finally:
        PyBuffer_Release(&b)
    return missing


def count(out, columns):
    """Adds 1 to a row of out (rows, width), float32, for each of its columns (rows, n), int64, that is not negative.

    Both are contiguous.
    """
    cdef Py_buffer to, places
    cdef Py_ssize_t rows = out.shape[0], width = out.shape[1], n = columns.shape[1], row, i
    cdef int64_t at
    PyObject_GetBuffer(out, &to, PyBUF_WRITABLE)
    PyObject_GetBuffer(columns, &places, PyBUF_SIMPLE)
    if to.len == rows * width * <Py_ssize_t>sizeof(float) and places.len == rows * n * <Py_ssize_t>sizeof(int64_t):
        for row in range(rows):
            for i in range(n):
                at = (<int64_t*>places.buf)[row * n + i]
                if 0 <= at < width:
                    (<float*>to.buf)[row * width + at] += 1
    PyBuffer_Release(&places)
    PyBuffer_Release(&to)
