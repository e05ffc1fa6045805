# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Gathering and scattering: elements of arrays that are taken, replaced by others, or combined with them.

And rows of bytes that are moved or cut, and planes that are sampled between their elements."""
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uintptr_t
from libc.string cimport memcpy, memset

from .._core cimport ggml_tensor

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include "runtime/grid_sample.h"
    #include <stddef.h>
    #include <stdint.h>
    enum { GG_TAKEN = 256 };    // elements at a time
    #define GG_EACH(value) for (size_t k = 0; k < width; k++) to[k] = (value)

    // Where the rows of a task begin
    static inline int64_t gg_share(int64_t rows, int ith, int nth) { return rows * ith / nth; }

    // Whether n numbers are the same
    GG_VECTORS static int gg_alike(const int64_t *x, size_t n) {
        int64_t differ = 0;
        for (size_t i = 1; i < n; i++) differ |= x[i] ^ x[0];
        return !differ;
    }

    // Entries of the columns of x, of n entries that are `inner` elements apart, for elements at places: negative ones
    // count from the end, and those that there are not give the first entry. `step` elements are taken at a time, whose
    // columns begin at offsets; those of the next ones are farther by `far`.
    GG_VECTORS static void gg_take(float *restrict y, const float *restrict x, const float *restrict places,
                                   size_t elements, int32_t n, int32_t inner, const int32_t *restrict offsets,
                                   size_t step, size_t far) {
        int32_t at[GG_TAKEN];
        for (size_t some; elements; elements -= some, y += some, places += some, x += far) {
            some = elements < step ? elements : step;
            for (size_t i = 0; i < some; i++) {
                const float a = places[i], place = a < 0 ? a + (float)n : a;
                at[i] = (place >= 0 && place < (float)n ? (int32_t)place : 0) * inner + offsets[i];
            }
            for (size_t i = 0; i < some; i++) y[i] = x[at[i]];
        }
    }

    // Combines those of n rows that belong to the rows from first to end of y; the kinds are those of scattering.pyx
    GG_VECTORS static void gg_scatter_rows(float *restrict y, const int32_t *at, const float *restrict updates,
                                           size_t n, size_t width, int32_t first, int32_t end, int kind) {
        for (size_t j = 0; j < n; j++) {
            if (at[j] < first || at[j] >= end) continue;
            float *restrict to = y + (size_t)at[j] * width;
            const float *restrict from = updates + j * width;
            switch (kind) {
            case 0: GG_EACH(from[k]); break;
            case 1: GG_EACH(to[k] + from[k]); break;
            case 2: GG_EACH(to[k] * from[k]); break;
            case 3: GG_EACH(to[k] > from[k] || to[k] != to[k] ? to[k] : from[k]); break;
            case 4: GG_EACH(to[k] < from[k] || to[k] != to[k] ? to[k] : from[k]); break;
            }
        }
    }
    """
    enum:
        GG_TAKEN
    int64_t gg_share(int64_t rows, int ith, int nth) noexcept nogil
    void gg_take(float *y, const float *x, const float *places, size_t elements, int32_t n, int32_t inner,
                 const int32_t *offsets, size_t step, size_t far) noexcept nogil
    bint gg_alike(const int64_t *x, size_t n) noexcept nogil
    void gg_scatter_rows(float *y, const int32_t *at, const float *updates, size_t n, size_t width, int32_t first,
                         int32_t end, int kind) noexcept nogil

cdef extern from "runtime/grid_sample.h":
    enum:
        GG_POINTS
    ctypedef struct gg_sampling:
        pass
    void gg_grid_sample(float* y, size_t step, const float* x, size_t channels, int64_t height, int64_t width,
                        const float* g, size_t points, const gg_sampling* how) noexcept nogil

cdef enum:
    ROW = 8             # elements from which rows are more than their elements

cdef enum:              # numbered as KINDS of arrays/scatter.py
    NONE, ADD, MUL, MAX, MIN

ctypedef fused number:
    float
    double
    int8_t
    int16_t
    int32_t
    int64_t

ctypedef fused word:        # of as many bytes as an element
    int8_t
    int16_t
    int32_t
    int64_t

ctypedef fused entry:
    int32_t
    int64_t


cdef inline bint is_nan(number a) noexcept nogil:
    if number is float or number is double:
        return a != a
    else:
        return False


cdef inline number combined(number a, number b, int kind) noexcept nogil:
    """What becomes of a number and another one; NaN where one of both is."""
    if kind == ADD:
        return a + b
    if kind == MUL:
        return a * b
    if kind == MAX:
        return a if (a > b) | is_nan(a) else b
    if kind == MIN:
        return a if (a < b) | is_nan(a) else b
    return b


cdef inline int64_t entry_at(int64_t place, Py_ssize_t n) noexcept nogil:
    """Which of n entries a place means, which counts from the end if it is negative; below 0: none."""
    place += n if place < 0 else 0
    return place if place < n else -1


cdef int require_rows(const Py_ssize_t* y, const Py_ssize_t* x, const Py_ssize_t* index) except -1:
    """Raises an error unless an index (outer, any, inner) fits arrays (outer, entries, inner)."""
    if y[0] != index[0] or y[2] != index[2] or x[0] != index[0] or x[2] != index[2]:
        raise ValueError(f"an index of {index[0]} x {index[1]} x {index[2]} entries for arrays of {y[0]} x {y[1]} x "
                         f"{y[2]} and {x[0]} x {x[1]} x {x[2]}")
    return 0


cdef Py_ssize_t combine(number[:, :, ::1] y, const int64_t[:, :, ::1] index, const number[:, :, ::1] updates,
                        int kind) noexcept nogil:
    """Does what scatter says. Rows of floats whose elements have one entry are combined as vectors."""
    cdef Py_ssize_t m = index.shape[1], inner = index.shape[2], n = y.shape[1], i, j, k = 0
    cdef int64_t place
    cdef int32_t row
    cdef const int64_t* at
    cdef const number* source
    cdef number* to
    if not (m * inner and n):
        return 0 if index.shape[0] * m * inner else -1
    for i in range(index.shape[0]):
        at, source, to = &index[i, 0, 0], &updates[i, 0, 0], &y[i, 0, 0]
        if number is float and ROW <= inner and n <= INT32_MAX:
            for j in range(m):
                place = entry_at(at[j * inner], n)
                if place < 0:
                    return (i * m + j) * inner
                if not gg_alike(at + j * inner, inner):
                    break
                row = <int32_t>place
                gg_scatter_rows(to, &row, source + j * inner, 1, inner, 0, <int32_t>n, kind)
            else:
                continue
        else:
            j = 0
        for j in range(j * inner, m * inner):
            place = entry_at(at[j], n)
            if place < 0:
                return i * m * inner + j
            place = place * inner + k
            if kind == NONE:
                to[place] = source[j]
            else:
                to[place] = combined(to[place], source[j], kind)
            k += 1
            if k == inner:
                k = 0
    return -1


cdef Py_ssize_t take(word[:, :, ::1] y, const word[:, :, ::1] x, const entry[:, :, ::1] index) noexcept nogil:
    """Does what gather says."""
    cdef Py_ssize_t m = index.shape[1], inner = index.shape[2], n = x.shape[1], i, j, k = 0
    cdef int64_t place
    cdef const entry* at
    cdef const word* source
    cdef word* to
    for i in range(index.shape[0] if m * inner else 0):
        at, to, source = &index[i, 0, 0], &y[i, 0, 0], &x[i, 0, 0] if n else NULL
        for j in range(m * inner):
            place = entry_at(at[j], n)
            if place < 0:
                return i * m * inner + j
            to[j] = source[place * inner + k]
            k += 1
            if k == inner:
                k = 0
    return -1


def gather(word[:, :, ::1] y, const word[:, :, ::1] x, const entry[:, :, ::1] index):
    """Takes entries of the middle axis of x, whose outer and inner sizes are those of y and the index.

    Args:
        index: for each element of y the entry of its column; negative ones count from the end.
    Returns:
        As scatter.
    """
    cdef Py_ssize_t wrong
    require_rows(y.shape, x.shape, index.shape)
    if y.shape[1] != index.shape[1]:
        raise ValueError(f"{index.shape[1]} entries of an index for {y.shape[1]} of a result")
    with nogil:
        wrong = take(y, x, index)
    return wrong


def scatter(number[:, :, ::1] y, const int64_t[:, :, ::1] index, const number[:, :, ::1] updates, int kind):
    """Combines entries of the middle axis of y with updates, in their order.

    Args:
        y: numbers (outer, entries, inner), which are changed.
        index: for each update the entry of its column; negative ones count from the end.
        updates: of index' shape, whose outer and inner sizes are y's.
        kind: 0 replaces, 1 adds, 2 multiplies, 3 keeps the larger, 4 the smaller.
    Returns:
        The position in the flattened index of an entry that y lacks, where the work ended; -1 if there is none.
    """
    cdef Py_ssize_t wrong
    require_rows(y.shape, updates.shape, index.shape)
    if updates.shape[1] != index.shape[1]:
        raise ValueError(f"{index.shape[1]} entries of an index for {updates.shape[1]} updates")
    with nogil:
        wrong = combine(y, index, updates, kind)
    return wrong


def scatter_rows(number[:, ::1] y, const int64_t[::1] place, const number[:, ::1] updates, int kind):
    """Combines the rows of y at places, which it has, with those of updates, in their order; kind: as scatter."""
    cdef Py_ssize_t j, k, width = updates.shape[1]
    cdef int32_t row = 0
    if updates.shape[0] != place.shape[0] or y.shape[1] != width:
        raise ValueError(f"{place.shape[0]} places for updates of {updates.shape[0]} x {width} of rows of {y.shape[1]}")
    if not width:
        return
    with nogil:
        for j in range(place.shape[0]):
            if kind == NONE:
                memcpy(&y[place[j], 0], &updates[j, 0], width * sizeof(number))
            elif number is float:
                gg_scatter_rows(&y[place[j], 0], &row, &updates[j, 0], 1, width, 0, 1, kind)
            else:
                for k in range(width):
                    y[place[j], k] = combined(y[place[j], k], updates[j, k], kind)


cdef Py_ssize_t number_places(int64_t[:, ::1] y, const int64_t[:, :, ::1] index,
                              const int64_t[::1] sizes) noexcept nogil:
    """Does what places says."""
    cdef Py_ssize_t i, j, k, depth = index.shape[2]
    cdef int64_t place, total
    for i in range(index.shape[0]):
        for j in range(index.shape[1]):
            total = i
            for k in range(depth):
                place = entry_at(index[i, j, k], sizes[k])
                if place < 0:
                    return (i * index.shape[1] + j) * depth + k
                total = total * sizes[k] + place
            y[i, j] = total
    return -1


def places(int64_t[:, ::1] y, const int64_t[:, :, ::1] index, const int64_t[::1] sizes):
    """Writes the numbers of the slices that an index (batches, slices, axes) of axes of some sizes means into y.

    Those of a batch follow those of the batches before; negative entries count from the end. Returns as scatter.
    """
    cdef Py_ssize_t wrong
    if sizes.shape[0] != index.shape[2]:
        raise ValueError(f"places: {sizes.shape[0]} sizes for {index.shape[2]} axes")
    with nogil:
        wrong = number_places(y, index, sizes)
    return wrong


def mark(word[:, :, ::1] y, const int64_t[:, ::1] index, const word[::1] value):
    """Writes a value into one entry of the middle axis of y for each of its columns, if the axis has that entry.

    index: (outer, inner) the entries; negative ones count from the end.
    """
    cdef Py_ssize_t i, k, n = y.shape[1]
    cdef int64_t place
    with nogil:
        for i in range(index.shape[0]):
            for k in range(index.shape[1]):
                place = entry_at(index[i, k], n)
                if place >= 0:
                    y[i, place, k] = value[0]


def triangle(word[:, :, ::1] y, const word[:, :, ::1] x, Py_ssize_t k, bint upper):
    """Writes a part of each matrix of x into y, and zeros; x and y: (matrices, rows, columns).

    Args:
        k: the diagonal, to the right of that from the first element, with which the part begins or ends.
        upper: whether the part is what is right of it.
    """
    cdef Py_ssize_t i, j, c, width = x.shape[2], cut
    cdef const word* source
    cdef word* to
    if not x.shape[0] * x.shape[1] * width:
        return
    with nogil:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                cut, source, to = min(max(j + k + (0 if upper else 1), 0), width), &x[i, j, 0], &y[i, j, 0]
                if width < ROW:
                    for c in range(width):
                        to[c] = source[c] if (c >= cut) == upper else 0
                elif upper:
                    memset(to, 0, cut * sizeof(word))
                    memcpy(to + cut, source + cut, (width - cut) * sizeof(word))
                else:
                    memcpy(to, source, cut * sizeof(word))
                    memset(to + cut, 0, (width - cut) * sizeof(word))


def reverse(char[:, :, ::1] y, const char[:, :, ::1] x, const int64_t[::1] lengths, bint columns):
    """Writes rows of bytes (n, m, bytes) into y: of each of the n parts the first in reverse order.

    Args:
        lengths: of each part, how many are reversed.
        columns: whether the m columns are such parts instead.
    """
    cdef Py_ssize_t i, j, far, width = x.shape[2]
    if lengths.shape[0] != (x.shape[1] if columns else x.shape[0]):
        raise ValueError(f"{lengths.shape[0]} lengths for an array of {list(x.shape)[:2]}")
    for i in range(lengths.shape[0]):
        if not 0 <= lengths[i] <= (x.shape[0] if columns else x.shape[1]):
            raise ValueError(f"{lengths[i]} of {x.shape[0] if columns else x.shape[1]} entries")
    if not width:
        return
    with nogil:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if columns:
                    far = lengths[j] - 1 - i
                    memcpy(&y[i, j, 0], &x[far if far >= 0 else i, j, 0], width)
                else:
                    far = lengths[i] - 1 - j
                    memcpy(&y[i, j, 0], &x[i, far if far >= 0 else j, 0], width)


cdef void run(ggml_tensor* dst, int ith, int nth, int kind) noexcept nogil:
    """A copy of a matrix of which rows are replaced, or combined with others, in their order.

    The operands are contiguous: the matrix and the updates of floats, and for each update an I32 number of its row. A
    row belongs to one task, so that their number changes nothing. Tensors that do not fit are left alone.
    """
    cdef const ggml_tensor* x = dst.src[0]
    cdef const ggml_tensor* at = dst.src[1]
    cdef const ggml_tensor* updates = dst.src[2]
    cdef int64_t width = x.ne[0], rows = x.ne[1], first = gg_share(rows, ith, nth)
    cdef int64_t end = gg_share(rows, ith + 1, nth)
    if dst.ne[0] != width or dst.ne[1] != rows or updates.ne[0] != width or updates.ne[1] != at.ne[0]:
        return
    cdef float* y = <float*>dst.data
    memcpy(y + first * width, <const float*>x.data + first * width, (end - first) * width * sizeof(float))
    gg_scatter_rows(y, <const int32_t*>at.data, <const float*>updates.data, at.ne[0], width, <int32_t>first,
                    <int32_t>end, kind)


cdef void run_none(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    run(dst, ith, nth, NONE)


cdef void run_add(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    run(dst, ith, nth, ADD)


cdef void run_mul(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    run(dst, ith, nth, MUL)


cdef void run_max(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    run(dst, ith, nth, MAX)


cdef void run_min(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    run(dst, ith, nth, MIN)


cdef void run_take(ggml_tensor* dst, int ith, int nth, void* _data) noexcept nogil:
    """Entries of the middle axis of a tensor (inner, n, outer) by an index (inner, m, outer), as gather.

    Both are contiguous and F32. Tensors that do not fit are left alone. Blocks of elements are several matrices of the
    index, or several rows, or parts of a row.
    """
    cdef const ggml_tensor* x = dst.src[0]
    cdef const ggml_tensor* index = dst.src[1]
    cdef Py_ssize_t inner = x.ne[0], n = x.ne[1], m = index.ne[1], outer = x.ne[2], size = inner * n, i, j = 0, k = 0
    cdef Py_ssize_t far = 0, matrices = 0, rows = 0, row, end, some
    cdef int32_t[GG_TAKEN] offsets
    cdef float* y = <float*>dst.data
    cdef const float* source = <const float*>x.data
    cdef const float* places = <const float*>index.data
    if dst.ne[0] != inner or dst.ne[1] != m or dst.ne[2] != outer or index.ne[0] != inner or index.ne[2] != outer:
        return
    if x.ne[3] != 1 or index.ne[3] != 1 or dst.ne[3] != 1 or size * outer > INT32_MAX:
        return
    for i in range(GG_TAKEN):
        offsets[i], k = <int32_t>(far + k), k + 1
        if k == inner:
            j, k, rows = j + 1, 0, i + 1
        if j == m:
            j, far, matrices = 0, far + size, i + 1
    if matrices:
        row, end = gg_share(outer, ith, nth) * m, gg_share(outer, ith + 1, nth) * m
        gg_take(y + row * inner, source + gg_share(outer, ith, nth) * size, places + row * inner, (end - row) * inner,
                <int32_t>n, <int32_t>inner, &offsets[0], matrices, far)
        return
    row, end = gg_share(m * outer, ith, nth), gg_share(m * outer, ith + 1, nth)
    for i in range(outer):
        while row < min(end, (i + 1) * m):
            some = min(end, (i + 1) * m) - row if rows else 1
            gg_take(y + row * inner, source + i * size, places + row * inner, some * inner, <int32_t>n, <int32_t>inner,
                    &offsets[0], rows if rows else GG_TAKEN, 0 if rows else GG_TAKEN)
            row += some


cdef void run_samples(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
    """Planes sampled at computed coordinates; data: a gg_sampling.

    The operands are contiguous and F32: planes (width, height, channels, n), the width at least 2, and coordinates
    (2, columns, rows, n) of the results, x before y. Tensors that do not fit are left alone.
    """
    cdef const ggml_tensor* x = dst.src[0]
    cdef const ggml_tensor* g = dst.src[1]
    cdef Py_ssize_t points = dst.ne[0] * dst.ne[1], size = x.ne[0] * x.ne[1], first = <Py_ssize_t>ith * GG_POINTS, image
    if g.ne[0] != 2 or g.ne[1] * g.ne[2] != points or g.ne[3] != x.ne[3] or dst.ne[2] != x.ne[2]:
        return
    if dst.ne[3] != x.ne[3] or x.ne[0] < 2 or x.ne[1] < 1 or size > INT32_MAX:
        return
    for image in range(x.ne[3]):
        while first < points:
            gg_grid_sample(<float*>dst.data + image * x.ne[2] * points + first, points,
                           <const float*>x.data + image * x.ne[2] * size, x.ne[2], x.ne[1], x.ne[0],
                           <const float*>g.data + 2 * (image * points + first),
                           min(<Py_ssize_t>GG_POINTS, points - first), <const gg_sampling*>data)
            first += <Py_ssize_t>nth * GG_POINTS
        first -= (points + GG_POINTS - 1) // GG_POINTS * GG_POINTS


TAKE, SAMPLES = <uintptr_t>&run_take, <uintptr_t>&run_samples  # addresses for ggml.ext.compiled
FUNCTIONS = {
    "none": <uintptr_t>&run_none,
    "add": <uintptr_t>&run_add,
    "mul": <uintptr_t>&run_mul,
    "max": <uintptr_t>&run_max,
    "min": <uintptr_t>&run_min,
}
