# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Columns that are chosen from the rows of a matrix, where views or rows of single elements would take more time."""
from libc.stdint cimport INT32_MAX, int32_t, uintptr_t

from .._core cimport ggml_tensor

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include <stddef.h>
    #include <stdint.h>

    GG_VECTORS static void gg_choose(float *restrict to, const float *restrict from, const int32_t *restrict places,
                                     size_t n) {
        for (size_t i = 0; i < n; i++) to[i] = from[places[i]];
    }
    """
    void gg_choose(float* to, const float* source, const int32_t* places, size_t n) noexcept nogil

cdef enum:
    BLOCK = 256         # rows that one thread takes at a time
    MOST = 1024         # places of several rows together


cdef void run(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
    """Row for row the elements in the columns that data names, behind their number.

    The operand is F32 (rows, features), whose rows have neighbouring elements. Tensors that do not fit are left alone.
    """
    cdef const int32_t* numbers = <const int32_t*>data
    cdef const int32_t* columns = numbers + 1
    cdef const int32_t* chosen = columns
    cdef const ggml_tensor* x = dst.src[0]
    cdef Py_ssize_t n = numbers[0], rows = x.ne[1], row = <Py_ssize_t>ith * BLOCK, step = x.nb[1] // sizeof(float)
    cdef Py_ssize_t together = 1, end, i, j
    cdef int32_t[MOST] places
    cdef const float* source = <const float*>x.data
    if dst.ne[0] != n or dst.ne[1] != rows or x.nb[0] != sizeof(float) or x.nb[1] % sizeof(float) or n < 1:
        return
    for j in range(n):
        if columns[j] < 0 or columns[j] >= x.ne[0]:
            return
    while (together + 1) * n <= MOST and (together + 1) * step <= INT32_MAX:
        together += 1
    if together > 1:
        chosen = &places[0]
    for i in range(together if together > 1 else 0):
        for j in range(n):
            places[i * n + j] = <int32_t>(i * step) + columns[j]
    while row < rows:
        i, end = row, min(row + BLOCK, rows)
        while i < end:
            j = min(together, end - i)
            gg_choose(<float*>dst.data + i * n, source + i * step, chosen, j * n)
            i += j
        row += <Py_ssize_t>nth * BLOCK


RUN = <uintptr_t>&run  # for ggml.ext.compiled
