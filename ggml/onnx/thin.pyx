# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Many short rows: their products with a small matrix, which stays in the first cache, columns that are chosen from
them, and rows that are joined. Packing, views, rows of single elements or pairs would take more time.
"""
from libc.stdint cimport INT32_MAX, int32_t, uintptr_t

from .._core cimport ggml_tensor

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include "runtime/short_rows_of.h"
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    GG_VECTORS static void gg_choose(float *restrict to, const float *restrict from, const int32_t *restrict places,
                                     size_t n) {
        for (size_t i = 0; i < n; i++) to[i] = from[places[i]];
    }

    // Rows of w elements, which become parts of rows of n from an offset on. `left` elements may be read; 16 are moved
    // at a time, as far as they are in both: what lies behind a part is written later.
    enum { GG_MOVED = 16 };
    static void gg_join(float *to, size_t n, size_t offset, const float *from, size_t w, size_t rows, size_t left) {
        to += offset;
        for (; w <= GG_MOVED && offset + GG_MOVED <= n && rows && left >= GG_MOVED; rows--, left -= w) {
            memcpy(to, from, GG_MOVED * sizeof *to);
            to += n;
            from += w;
        }
        for (; rows; rows--, to += n, from += w) memcpy(to, from, w * sizeof *to);
    }
    """
    void gg_join(float* to, size_t n, size_t offset, const float* source, size_t w, size_t rows,
                 size_t left) noexcept nogil
    const gg_short_rows* gg_short_rows_of(int size)
    void gg_choose(float* to, const float* source, const int32_t* places, size_t n) noexcept nogil

cdef enum:
    BLOCK = 256         # rows that one task takes at a time
    MOST = 1024         # places of several rows together
    MOST_PARTS = 10     # GGML_MAX_SRC


short_rows = gg_short_rows_of(0)


def use_vectors(int size):
    """Makes products and sums of short rows use vectors of 16, 32 or 64 bytes; 0: the longest of this CPU, as at first.

    Returns whether the CPU has such vectors; if not, nothing changes.
    """
    global short_rows
    cdef const gg_short_rows* found = gg_short_rows_of(size)
    if found != NULL:
        short_rows = found
    return found != NULL


cdef void run_product(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    """The operands are contiguous and F32: rows (k, rows), and a matrix (16 or 32, k + 1), whose last row is added.

    For at most eight columns the matrix is (16, (k + 1) / 2 + 1): pairs of rows, of which elements of one column are
    beside each other. Tensors that do not fit are left alone.
    """
    cdef const ggml_tensor* x = dst.src[0]
    cdef const ggml_tensor* w = dst.src[1]
    cdef Py_ssize_t n = dst.ne[0], k = x.ne[0], rows = x.ne[1], first = <Py_ssize_t>ith * BLOCK, m
    cdef bint few = n <= GG_FEW
    cdef void (*product)(float*, const float*, const float*, size_t, size_t, size_t) noexcept nogil
    product = short_rows.few if few else short_rows.one if n <= GG_WIDE else short_rows.two
    if dst.ne[1] != rows or w.ne[0] != (GG_WIDE if n <= GG_WIDE else 2 * GG_WIDE) or n > w.ne[0]:
        return
    if w.ne[1] != ((k + 1) // 2 if few else k) + 1:
        return
    while first < rows:
        m = min(<Py_ssize_t>BLOCK, rows - first)
        product(<float*>dst.data + first * n, <const float*>x.data + first * k, <const float*>w.data, m, k, n)
        first += <Py_ssize_t>nth * BLOCK


cdef void run_choose(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
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


cdef void run_join(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    """The rows of the operands, which are contiguous and F32, beside each other.

    Tensors that do not fit are left alone.
    """
    cdef Py_ssize_t n = dst.ne[0], rows = dst.ne[1], first = <Py_ssize_t>ith * BLOCK, offset = 0, some, w
    cdef const ggml_tensor* x
    cdef int i
    for i in range(MOST_PARTS):
        x = dst.src[i]
        if x != NULL and x.ne[1] != rows:
            return
        offset += 0 if x == NULL else x.ne[0]
    if offset != n:
        return
    while first < rows:
        some, offset = min(<Py_ssize_t>BLOCK, rows - first), 0
        for i in range(MOST_PARTS):
            x = dst.src[i]
            if x == NULL:
                break
            w = x.ne[0]
            gg_join(<float*>dst.data + first * n, n, offset, <const float*>x.data + first * w, w, some,
                    (rows - first) * w)
            offset += w
        first += <Py_ssize_t>nth * BLOCK


WIDTH, PAIRED, PARTS = GG_WIDE, GG_FEW, MOST_PARTS
PRODUCT, CHOOSE, JOIN = <uintptr_t>&run_product, <uintptr_t>&run_choose, <uintptr_t>&run_join  # for ggml.ext.compiled
