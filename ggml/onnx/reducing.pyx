# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Reductions of many rows of few elements in one pass, side by side: as several nodes, each reads and writes them all.

And the smallest and largest elements along an axis, sums and products along an axis of arrays, and the ends of arrays
of integers, which are asked for in every run."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release
from cpython.exc cimport PyErr_Clear
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t

import numpy as np

from .._core cimport ggml_tensor
from .thin cimport GG_LONGEST, short_rows

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include "runtime/exponential.h"
    #include <float.h>
    #include <math.h>
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #include "runtime/short_rows.h"
    enum { GG_ABREAST = 16 };   // rows

    // The elements k of rows that begin at places
    #define GG_EACH_ROW for (size_t r = 0; r < GG_ABREAST; r++)
    #define GG_EACH_ELEMENT(n) for (size_t k = 0; k < (n); k++) GG_EACH_ROW

    // The largest element of a row, NaN if one is, but finite; the sum of e to the distances from it
    GG_PART void gg_exponentials_of(float *restrict y, float *restrict top, const float *restrict x,
                                    const int32_t *restrict at, size_t n) {
        float sum[GG_ABREAST] = {0}, most[GG_ABREAST], power[GG_ABREAST * GG_LONGEST];
        GG_EACH_ROW most[r] = x[at[r]];
        GG_EACH_ELEMENT(n) {
            const float v = x[k + at[r]];
            most[r] = v > most[r] || v != v ? v : most[r];
        }
        GG_EACH_ROW {
            const float v = most[r] > FLT_MAX ? FLT_MAX : most[r];
            most[r] = v < -FLT_MAX ? -FLT_MAX : v;
        }
        GG_EACH_ELEMENT(n) power[k * GG_ABREAST + r] = x[k + at[r]] - most[r];
        for (size_t i = 0; i < n * GG_ABREAST; i++) {
            const float v = power[i], e = gg_exp_limited(v);
            power[i] = v > 87.0f ? INFINITY : v < -87.0f ? 0.0f : e;
        }
        GG_EACH_ELEMENT(n) sum[r] += power[k * GG_ABREAST + r];
        GG_EACH_ROW {
            y[r] = sum[r];
            top[r] = most[r];
        }
    }

    // The place of the largest element of a row, or of NaN: the first of equal ones, or the last
    GG_PART void gg_places_of(float *restrict y, const float *restrict x, const int32_t *restrict at, size_t n,
                              int last) {
        float most[GG_ABREAST], place[GG_ABREAST] = {0};
        GG_EACH_ROW most[r] = x[at[r]];
        for (size_t k = 1; k < n; k++) GG_EACH_ROW {
            const float v = x[k + at[r]], number = (float)k;
            const int equal = last & (v == most[r]), none = (v != v) & (last | (most[r] == most[r]));
            const int better = (v > most[r]) | equal | none;
            most[r] = better ? v : most[r];
            place[r] = better ? number : place[r];
        }
        GG_EACH_ROW y[r] = place[r];
    }

    // Blocks of rows, one form of each function for all: of a block with fewer the last is computed again, and not kept
    #define GG_BY_BLOCKS(call, keep)                                                         \
        int32_t at[GG_ABREAST];                                                              \
        GG_EACH_ROW at[r] = (int32_t)(r * n);                                    \
        for (size_t done = 0; done < rows; done += GG_ABREAST, x += GG_ABREAST * n) {        \
            const size_t left = rows - done < GG_ABREAST ? rows - done : GG_ABREAST;         \
            float value[GG_ABREAST], top[GG_ABREAST];                                        \
            for (size_t r = left; r < GG_ABREAST; r++) at[r] = (int32_t)((left - 1) * n);    \
            call;                                                                            \
            memcpy(y + done, value, left * sizeof *y);                                       \
            keep;                                                                            \
        }

    GG_VECTORS static void gg_exponentials(float *y, size_t all, const float *x, size_t rows, size_t n) {
        GG_BY_BLOCKS(gg_exponentials_of(value, top, x, at, n), memcpy(y + all + done, top, left * sizeof *y))
    }
    GG_VECTORS static void gg_places(float *y, const float *x, size_t rows, size_t n, int last) {
        GG_BY_BLOCKS(gg_places_of(value, x, at, n, last), (void)top)
    }

    GG_VECTORS static void gg_ends_64(const int64_t *x, size_t n, int64_t *lo, int64_t *hi) {
        int64_t least = x[0], most = x[0];
        for (size_t i = 0; i < n; i++) {
            least = x[i] < least ? x[i] : least;
            most = x[i] > most ? x[i] : most;
        }
        *lo = least;
        *hi = most;
    }

    // The largest elements, or the smallest, or NaN: the smallest are the largest of the numbers in reverse order, with
    // all bits flipped, or negative.
    #define GG_LARGER(v, m) (((v) > (m)) | ((v) != (v)) ? (v) : (m))
    // Along an axis of n entries, `inner` from one to the next, of `columns` of them
    #define GG_EXTREMES_DOWN(NAME, TYPE, TURN, SAME, REVERSE)                                                          \
        GG_VECTORS static void NAME(TYPE *restrict y, const TYPE *restrict x, size_t n, size_t inner, size_t columns,  \
                                    int smallest) {                                                                    \
            const TYPE turn = smallest ? REVERSE : SAME;                                                               \
            for (size_t k = 0; k < columns; k++) y[k] = x[k] TURN turn;                                                \
            for (size_t j = 1; j < n; j++) {                                                                           \
                const TYPE *restrict row = x + j * inner;                                                              \
                for (size_t k = 0; k < columns; k++) {                                                                 \
                    const TYPE v = row[k] TURN turn, m = y[k];                                                         \
                    y[k] = GG_LARGER(v, m);                                                                            \
                }                                                                                                      \
            }                                                                                                          \
            for (size_t k = 0; k < columns; k++) y[k] = y[k] TURN turn;                                                \
        }
    // Of rows of n integers, GG_SIDE side by side
    enum { GG_SIDE = 16 };
    #define GG_EXTREMES_OF_ROWS(NAME, TYPE)                                                                            \
        GG_VECTORS static void NAME(TYPE *restrict y, const TYPE *restrict x, size_t rows, size_t n, int smallest) {   \
            const TYPE turn = smallest ? -1 : 0;                                                                       \
            for (size_t r = 0; r < rows; r++, x += n) {                                                                \
                TYPE best = x[0] ^ turn;                                                                               \
                size_t k = 1;                                                                                          \
                if (n >= 2 * GG_SIDE) {                                                                                \
                    TYPE side[GG_SIDE];                                                                                \
                    for (size_t l = 0; l < GG_SIDE; l++) side[l] = x[l] ^ turn;                                        \
                    for (k = GG_SIDE; k + GG_SIDE <= n; k += GG_SIDE)                                                  \
                        for (size_t l = 0; l < GG_SIDE; l++) {                                                         \
                            const TYPE v = x[k + l] ^ turn, m = side[l];                                               \
                            side[l] = v > m ? v : m;                                                                   \
                        }                                                                                              \
                    best = side[0];                                                                                    \
                    for (size_t l = 1; l < GG_SIDE; l++) best = side[l] > best ? side[l] : best;                       \
                }                                                                                                      \
                for (; k < n; k++) {                                                                                   \
                    const TYPE v = x[k] ^ turn;                                                                        \
                    best = v > best ? v : best;                                                                        \
                }                                                                                                      \
                y[r] = best ^ turn;                                                                                    \
            }                                                                                                          \
        }
    GG_EXTREMES_DOWN(gg_extremes_i32, int32_t, ^, 0, -1)
    GG_EXTREMES_DOWN(gg_extremes_i64, int64_t, ^, 0, -1)
    GG_EXTREMES_DOWN(gg_extremes_f32, float, *, 1, -1)
    GG_EXTREMES_OF_ROWS(gg_extremes_of_rows_i32, int32_t)
    GG_EXTREMES_OF_ROWS(gg_extremes_of_rows_i64, int64_t)

    // Sums or products of the entries of an axis up to each one (exclusive: but that one; reverse: from the last on)
    #define GG_ACCUMULATE(NAME, TYPE)                                                                                  \
        GG_VECTORS static void NAME(TYPE *restrict y, const TYPE *restrict x, size_t n, size_t inner, int product,     \
                                    int exclusive, int reverse) {                                                      \
            const ptrdiff_t step = reverse ? -(ptrdiff_t)inner : (ptrdiff_t)inner;                                     \
            if (reverse) y += (n - 1) * inner, x += (n - 1) * inner;                                                   \
            for (size_t k = 0; k < inner; k++) y[k] = exclusive ? (TYPE)product : x[k];                                \
            if (!exclusive) x += step;                                                                                 \
            if (inner == 1) {                                                                                          \
                TYPE total = *y;                                                                                       \
                if (product) for (size_t j = 1; j < n; j++, x += step) *(y += step) = total = total * *x;              \
                else for (size_t j = 1; j < n; j++, x += step) *(y += step) = total = total + *x;                      \
                return;                                                                                                \
            }                                                                                                          \
            for (size_t j = 1; j < n; j++, x += step) {                                                                \
                const TYPE *before = y;                                                                                \
                y += step;                                                                                             \
                if (product) for (size_t k = 0; k < inner; k++) y[k] = before[k] * x[k];                               \
                else for (size_t k = 0; k < inner; k++) y[k] = before[k] + x[k];                                       \
            }                                                                                                          \
        }
    GG_ACCUMULATE(gg_accumulate_32, uint32_t)
    GG_ACCUMULATE(gg_accumulate_64, uint64_t)
    GG_ACCUMULATE(gg_accumulate_f32, float)
    GG_ACCUMULATE(gg_accumulate_f64, double)
    """
    void gg_places(float* y, const float* x, size_t rows, size_t n, int last) noexcept nogil
    void gg_ends_64(const int64_t *x, size_t n, int64_t *lo, int64_t *hi)
    void gg_accumulate_32(uint32_t* y, const uint32_t* x, size_t n, size_t inner, int product, int exclusive,
                          int reverse) noexcept nogil
    void gg_accumulate_64(uint64_t* y, const uint64_t* x, size_t n, size_t inner, int product, int exclusive,
                          int reverse) noexcept nogil
    void gg_accumulate_f32(float* y, const float* x, size_t n, size_t inner, int product, int exclusive,
                           int reverse) noexcept nogil
    void gg_accumulate_f64(double* y, const double* x, size_t n, size_t inner, int product, int exclusive,
                           int reverse) noexcept nogil
    void gg_extremes_i32(int32_t* y, const int32_t* x, size_t n, size_t inner, size_t columns,
                         int smallest) noexcept nogil
    void gg_extremes_i64(int64_t* y, const int64_t* x, size_t n, size_t inner, size_t columns,
                         int smallest) noexcept nogil
    void gg_extremes_f32(float* y, const float* x, size_t n, size_t inner, size_t columns, int smallest) noexcept nogil
    void gg_extremes_of_rows_i32(int32_t* y, const int32_t* x, size_t rows, size_t n, int smallest) noexcept nogil
    void gg_extremes_of_rows_i64(int64_t* y, const int64_t* x, size_t rows, size_t n, int smallest) noexcept nogil
    void gg_exponentials(float* y, size_t all, const float* x, size_t rows, size_t n) noexcept nogil

cdef extern from "Python.h":
    int PyObject_GetBuffer(object, Py_buffer*, int)     # an exception is cleared here: there is another way

cdef object INT64 = np.dtype(np.int64)

cdef enum:
    BLOCK = 256         # rows, or columns, that one task takes at a time


cdef enum Kind:
    SQUARED, MAGNITUDES, EXPONENTIATED, FIRST, LAST


cdef void run(ggml_tensor* dst, int ith, int nth, Kind kind) noexcept nogil:
    """The operand is contiguous, F32 (n, rows); the results are one number for each row, or two, those of one kind
    behind the others. Tensors that do not fit are left alone."""
    cdef const ggml_tensor* t = dst.src[0]
    cdef Py_ssize_t n = t.ne[0], rows = t.ne[1], first = <Py_ssize_t>ith * BLOCK, m
    cdef float* y
    cdef const float* x
    if n < 1 or n > GG_LONGEST or dst.ne[0] * dst.ne[1] != (2 if kind == EXPONENTIATED else 1) * rows:
        return
    while first < rows:
        y, x, m = <float*>dst.data + first, <const float*>t.data + first * n, min(<Py_ssize_t>BLOCK, rows - first)
        if kind == SQUARED or kind == MAGNITUDES:
            short_rows.sums(y, x, m, n, (rows - first) * n, kind == SQUARED)
        elif kind == EXPONENTIATED:
            gg_exponentials(y, rows, x, m, n)
        else:
            gg_places(y, x, m, n, kind == LAST)
        first += <Py_ssize_t>nth * BLOCK


cdef void run_squares(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    run(dst, ith, nth, SQUARED)


cdef void run_magnitudes(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    run(dst, ith, nth, MAGNITUDES)


cdef void run_exponentials(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    run(dst, ith, nth, EXPONENTIATED)


cdef void run_accumulate(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
    """Sums or products along the middle axis of the operand (inner, n, outer), as `accumulate`; data: the three flags.

    It is contiguous and F32. Tensors that do not fit are left alone.
    """
    cdef const int32_t* flags = <const int32_t*>data
    cdef const ggml_tensor* t = dst.src[0]
    cdef Py_ssize_t i = ith, inner = t.ne[0], n = t.ne[1], size = inner * n
    if dst.ne[0] != inner or dst.ne[1] != n or dst.ne[2] != t.ne[2] or t.ne[3] != 1 or dst.ne[3] != 1 or not size:
        return
    while i < t.ne[2]:
        gg_accumulate_f32(<float*>dst.data + i * size, <const float*>t.data + i * size, n, inner, flags[0], flags[1],
                          flags[2])
        i += nth


cdef void run_smallest(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    """The smallest elements along the middle axis of the operand (inner, n, outer), or NaN.

    It is contiguous and F32. Tensors that do not fit are left alone.
    """
    cdef const ggml_tensor* t = dst.src[0]
    cdef Py_ssize_t inner = t.ne[0], n = t.ne[1], outer = t.ne[2], i, k
    cdef int task = 0
    cdef float* y = <float*>dst.data
    cdef const float* x = <const float*>t.data
    if n < 1 or inner < 1 or t.ne[3] != 1 or dst.ne[0] * dst.ne[1] * dst.ne[2] * dst.ne[3] != inner * outer:
        return
    for i in range(outer):
        k = 0
        while k < inner:
            if task == ith:
                gg_extremes_f32(y + i * inner + k, x + i * n * inner + k, n, inner, min(<Py_ssize_t>BLOCK, inner - k),
                                True)
            task = task + 1 if task + 1 < nth else 0
            k += BLOCK


cdef void run_first(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    run(dst, ith, nth, FIRST)


cdef void run_last(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    run(dst, ith, nth, LAST)


def ends_of(object array):
    """The smallest and the largest number of an array of integers that has elements."""
    cdef Py_buffer b
    cdef int64_t lo, hi
    if array.dtype is INT64:
        if PyObject_GetBuffer(array, &b, PyBUF_SIMPLE) == 0:
            gg_ends_64(<const int64_t*>b.buf, b.len // 8, &lo, &hi)
            PyBuffer_Release(&b)
            return lo, hi
        PyErr_Clear()
    return int(array.min()), int(array.max())


ctypedef fused number:      # signed integers as unsigned ones, which have the same sums and products
    uint32_t
    uint64_t
    float
    double


def accumulate(number[:, :, ::1] y, const number[:, :, ::1] x, bint product, bint exclusive, bint reverse):
    """Writes the sums, or products, of the entries of the middle axis of x up to each one into y, of the same shape.

    Args:
        exclusive: without the entry itself.
        reverse: from the last one on.
    """
    cdef Py_ssize_t i
    if not x.shape[0] * x.shape[1] * x.shape[2]:
        return
    with nogil:
        for i in range(x.shape[0]):
            if number is uint32_t:
                gg_accumulate_32(&y[i, 0, 0], &x[i, 0, 0], x.shape[1], x.shape[2], product, exclusive, reverse)
            elif number is uint64_t:
                gg_accumulate_64(&y[i, 0, 0], &x[i, 0, 0], x.shape[1], x.shape[2], product, exclusive, reverse)
            elif number is float:
                gg_accumulate_f32(&y[i, 0, 0], &x[i, 0, 0], x.shape[1], x.shape[2], product, exclusive, reverse)
            else:
                gg_accumulate_f64(&y[i, 0, 0], &x[i, 0, 0], x.shape[1], x.shape[2], product, exclusive, reverse)


def extremes(char[:, ::1] y, const char[:, :, ::1] x, bint wide, bint smallest):
    """Writes the smallest or largest of the entries of the middle axis of x into y.

    Both are the bytes of integers, of 32 bits or of 64 (wide).
    """
    cdef Py_ssize_t i, outer = x.shape[0], n = x.shape[1], inner = x.shape[2] // (8 if wide else 4)
    if not outer * n * inner:
        return
    with nogil:
        if inner == 1 and wide:
            gg_extremes_of_rows_i64(<int64_t*>&y[0, 0], <const int64_t*>&x[0, 0, 0], outer, n, smallest)
        elif inner == 1:
            gg_extremes_of_rows_i32(<int32_t*>&y[0, 0], <const int32_t*>&x[0, 0, 0], outer, n, smallest)
        else:
            for i in range(outer):
                if wide:
                    gg_extremes_i64(<int64_t*>&y[i, 0], <const int64_t*>&x[i, 0, 0], n, inner, inner, smallest)
                else:
                    gg_extremes_i32(<int32_t*>&y[i, 0], <const int32_t*>&x[i, 0, 0], n, inner, inner, smallest)


LONGEST = GG_LONGEST
SQUARES = <uintptr_t>&run_squares           # addresses for ggml.ext.compiled
MAGNITUDES_OF, EXPONENTIALS = <uintptr_t>&run_magnitudes, <uintptr_t>&run_exponentials
ACCUMULATE = <uintptr_t>&run_accumulate
SMALLEST = <uintptr_t>&run_smallest
FIRST_PLACES, LAST_PLACES = <uintptr_t>&run_first, <uintptr_t>&run_last
