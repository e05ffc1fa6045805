# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Products of many short rows with a small matrix, which stays in the first cache: to pack them would take longer."""
from libc.stdint cimport uintptr_t

from .._core cimport ggml_tensor

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include <stddef.h>
    #include <string.h>
    enum { GG_LANES = 16, GG_ROWS = 4 };
    typedef float gg_lanes __attribute__((vector_size(64)));
    #define GG_EACH(i, n) for (int i = 0; i < (n); i++)

    // Some rows of y (n columns) = those of x (k columns) times w (k rows of v vectors) plus the row behind w. Where a
    // row has less than v vectors, they are written as a whole, as far as there are `left` elements in y.
    GG_PART void gg_thin_rows(float *y, size_t left, const float *x, const float *w, const int rows, const int v,
                              size_t k, size_t n) {
        gg_lanes sum[GG_ROWS][2], m[2];
        GG_EACH(j, v) memcpy(&m[j], w + k * v * GG_LANES + j * GG_LANES, sizeof *m);
        GG_EACH(r, rows) GG_EACH(j, v) sum[r][j] = m[j];
        for (size_t i = 0; i < k; i++, w += v * GG_LANES) {
            GG_EACH(j, v) memcpy(&m[j], w + j * GG_LANES, sizeof *m);
            GG_EACH(r, rows) GG_EACH(j, v) sum[r][j] += x[r * k + i] * m[j];
        }
        GG_EACH(r, rows) memcpy(y + r * n, sum[r], r * n + v * GG_LANES <= left ? v * sizeof *m : n * sizeof *y);
    }
    GG_PART void gg_thin_product(float *y, const float *x, const float *w, size_t rows, size_t k, size_t n,
                                 const int v) {
        for (; rows >= GG_ROWS; rows -= GG_ROWS, x += GG_ROWS * k, y += GG_ROWS * n)
            gg_thin_rows(y, rows * n, x, w, GG_ROWS, v, k, n);
        for (; rows; rows--, x += k, y += n) gg_thin_rows(y, rows * n, x, w, 1, v, k, n);
    }
    GG_VECTORS static void gg_thin_one(float *y, const float *x, const float *w, size_t rows, size_t k, size_t n) {
        gg_thin_product(y, x, w, rows, k, n, 1);
    }
    GG_VECTORS static void gg_thin_two(float *y, const float *x, const float *w, size_t rows, size_t k, size_t n) {
        gg_thin_product(y, x, w, rows, k, n, 2);
    }
    """
    void gg_thin_one(float* y, const float* x, const float* w, size_t rows, size_t k, size_t n) noexcept nogil
    void gg_thin_two(float* y, const float* x, const float* w, size_t rows, size_t k, size_t n) noexcept nogil

cdef enum:
    BLOCK = 256         # rows that one task takes at a time
    LANES = 16          # columns of the matrix are a multiple


cdef void run(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    """The operands are contiguous and F32: rows (k, rows), and a matrix (16 or 32, k + 1), whose last row is added.

    Tensors that do not fit are left alone.
    """
    cdef const ggml_tensor* x = dst.src[0]
    cdef const ggml_tensor* w = dst.src[1]
    cdef Py_ssize_t n = dst.ne[0], k = x.ne[0], rows = x.ne[1], first = <Py_ssize_t>ith * BLOCK, m
    cdef float* y
    if n < 1 or dst.ne[1] != rows or w.ne[1] != k + 1 or n > w.ne[0] or w.ne[0] not in (LANES, 2 * LANES):
        return
    while first < rows:
        m, y = min(<Py_ssize_t>BLOCK, rows - first), <float*>dst.data + first * n
        if w.ne[0] == LANES:
            gg_thin_one(y, <const float*>x.data + first * k, <const float*>w.data, m, k, n)
        else:
            gg_thin_two(y, <const float*>x.data + first * k, <const float*>w.data, m, k, n)
        first += <Py_ssize_t>nth * BLOCK


WIDTH = LANES
RUN = <uintptr_t>&run  # for ggml.ext.compiled
