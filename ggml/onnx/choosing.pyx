# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Columns that are chosen from the rows of a matrix, where views or rows of single elements would take more time."""
from libc.stdint cimport int32_t, uintptr_t

from .._core cimport ggml_tensor

cdef enum:
    BLOCK = 256         # rows that one thread takes at a time


cdef void run(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
    """Row for row the elements in the columns that data names, behind their number.

    The operand is F32 (rows, features), whose rows have neighbouring elements. Tensors that do not fit are left alone.
    """
    cdef const int32_t* numbers = <const int32_t*>data
    cdef const int32_t* columns = numbers + 1
    cdef const ggml_tensor* x = dst.src[0]
    cdef int n = numbers[0], j
    cdef Py_ssize_t rows = x.ne[1], row = <Py_ssize_t>ith * BLOCK, i
    cdef const float* source
    cdef float* to
    if dst.ne[0] != n or dst.ne[1] != rows or x.nb[0] != sizeof(float):
        return
    for j in range(n):
        if columns[j] < 0 or columns[j] >= x.ne[0]:
            return
    while row < rows:
        for i in range(row, min(row + BLOCK, rows)):
            source = <const float*>(<const char*>x.data + i * <Py_ssize_t>x.nb[1])
            to = <float*>dst.data + i * n
            for j in range(n):
                to[j] = source[columns[j]]
        row += <Py_ssize_t>nth * BLOCK


RUN = <uintptr_t>&run  # for ggml.ext.compiled
