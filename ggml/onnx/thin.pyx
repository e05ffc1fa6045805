# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Many short rows: their products with a small matrix, which stays in the first cache, columns that are chosen from
them, rows that are joined, and planes whose elements alternate. Packing, views, rows of single elements or pairs would
take more time.
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

    static void gg_every(float *to, size_t step, const float *from, size_t apart, size_t n) {
        for (size_t i = 0; i < n; i++) to[i * step] = from[i * apart];
    }

    // Rows of w elements, which become parts of rows of n from an offset on. `left` elements may be read; 16 are moved
    // at a time, as far as they are in both: what lies behind a part is written later. Parts of few elements go column
    // by column.
    enum { GG_MOVED = 16, GG_COLUMNS = 4 };
    static void gg_join(float *to, size_t n, size_t offset, const float *from, size_t w, size_t rows, size_t left) {
        to += offset;
        for (; w <= GG_MOVED && offset + GG_MOVED <= n && rows && left >= GG_MOVED; rows--, left -= w) {
            memcpy(to, from, GG_MOVED * sizeof *to);
            to += n;
            from += w;
        }
        for (size_t j = 0; w <= GG_COLUMNS && j < w; j++) gg_every(to + j, n, from + j, w, rows);
        for (; w > GG_COLUMNS && rows; rows--, to += n, from += w) memcpy(to, from, w * sizeof *to);
    }

    // The quotient of numbers that are not negative and what remains; 0 by less than 1.
    static ptrdiff_t gg_quotient(ptrdiff_t a, ptrdiff_t b) { return b < 1 ? 0 : a / b; }
    static ptrdiff_t gg_rest(ptrdiff_t a, ptrdiff_t b) { return b < 1 ? 0 : a % b; }
    // How many of n positions from `first` on are r modulo a step.
    static ptrdiff_t gg_seen(ptrdiff_t n, ptrdiff_t step, ptrdiff_t first, ptrdiff_t r) {
        const ptrdiff_t before = gg_rest(r - first + step, step);
        return n < before ? 0 : gg_quotient(n - before + step - 1, step);
    }

    // n elements of a row: those of two other rows in turns, first the second one if start is 1.
    GG_VECTORS static void gg_pairs(float *restrict to, const float *restrict a, const float *restrict b, size_t n) {
        for (size_t i = 0; i < n; i++) to[2 * i] = a[i], to[2 * i + 1] = b[i];
    }
    static void gg_alternate(float *to, size_t n, const float *a, const float *b, int start) {
        if (start && n) *to++ = *b++, n--;
        gg_pairs(to, a, b, n / 2);
        if (n % 2) to[n - 1] = a[n / 2];
    }
    """
    void gg_join(float* to, size_t n, size_t offset, const float* source, size_t w, size_t rows,
                 size_t left) noexcept nogil
    Py_ssize_t gg_quotient(Py_ssize_t a, Py_ssize_t b) noexcept nogil
    Py_ssize_t gg_rest(Py_ssize_t a, Py_ssize_t b) noexcept nogil
    Py_ssize_t gg_seen(Py_ssize_t n, Py_ssize_t step, Py_ssize_t first, Py_ssize_t r) noexcept nogil
    void gg_alternate(float* to, size_t n, const float* a, const float* b, int start) noexcept nogil
    void gg_every(float* to, size_t step, const float* source, size_t apart, size_t n) noexcept nogil
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


cdef const float* row_of(const ggml_tensor* x, Py_ssize_t plane, Py_ssize_t row, Py_ssize_t column) noexcept nogil:
    return <const float*>x.data + (plane * x.ne[1] + row) * x.ne[0] + column


cdef void run_alternate(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
    """Planes whose rows and columns are those of high x wide other planes in turns.

    data names high, wide, the row and the column of these that come first, and for each row and column of them where
    what is read begins. The operands, contiguous and F32, are planes (columns, rows, planes * high * wide), or each
    those of a place (columns, rows, planes). The result is (columns, planes * rows). Tensors that do not fit are left
    alone.
    """
    cdef const int32_t* numbers = <const int32_t*>data
    cdef Py_ssize_t high = numbers[0], wide = numbers[1], top = numbers[2], left = numbers[3], places = high * wide
    cdef const int32_t* first_row = numbers + 4
    cdef const int32_t* first_column = first_row + high
    cdef const ggml_tensor* x = dst.src[0]
    cdef const ggml_tensor* y
    cdef bint joint = dst.src[1] == NULL
    cdef Py_ssize_t together = places if joint else 1, planes = gg_quotient(x.ne[2], together), n = dst.ne[0]
    cdef Py_ssize_t each = gg_quotient(dst.ne[1], planes), at = ith, plane, i, r, c, p
    cdef float* to
    if n < 1 or each < 1 or each * planes != dst.ne[1] or not joint and places > MOST_PARTS:
        return
    for p in range(places):
        x = dst.src[0 if joint else p]
        r, c = gg_quotient(p, wide), gg_rest(p, wide)
        if x == NULL or x.ne[2] != planes * together or first_row[r] + gg_seen(each, high, top, r) > x.ne[1]:
            return
        if first_column[c] + gg_seen(n, wide, left, c) > x.ne[0]:
            return
    while at < dst.ne[1]:
        i, plane = gg_rest(at, each), gg_quotient(at, each) * together
        r = gg_rest(top + i, high)
        p, i = r * wide, first_row[r] + gg_quotient(i, high)
        to = <float*>dst.data + at * n
        x = dst.src[0 if joint else p]
        if wide == 2:
            y = x if joint else dst.src[p + 1]
            gg_alternate(to, n, row_of(x, plane + (p if joint else 0), i, first_column[0]),
                         row_of(y, plane + (p + 1 if joint else 0), i, first_column[1]), left)
        for c in range(0 if wide == 2 else wide):
            y = x if joint else dst.src[p + c]
            gg_every(to + gg_rest(c - left + wide, wide), wide,
                     row_of(y, plane + (p + c if joint else 0), i, first_column[c]), 1, gg_seen(n, wide, left, c))
        at += nth


WIDTH, PAIRED, PARTS = GG_WIDE, GG_FEW, MOST_PARTS
PRODUCT, CHOOSE, JOIN = <uintptr_t>&run_product, <uintptr_t>&run_choose, <uintptr_t>&run_join  # for ggml.ext.compiled
ALTERNATE = <uintptr_t>&run_alternate
