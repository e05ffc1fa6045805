# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Boxes: those that overlap no better ones, and means and maxima of what is in them."""
from libc.math cimport floor
from libc.stdint cimport int64_t

import numpy as np

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include <stddef.h>
    #define GG_BLOCK 16  // boxes that are compared before the first of them that overlaps decides

    // Whether a box (y0, x0, y1, x1) overlaps one of n others by more than a share of the union of both. The others are
    // columns of so many entries: y0, x0, y1, x1, area. Boxes without area overlap none.
    GG_VECTORS static int gg_overlaps(const float *box, float area, const float *others, size_t entries, size_t n,
                                      float share) {
        const float *y0 = others, *x0 = y0 + entries, *y1 = x0 + entries, *x1 = y1 + entries, *areas = x1 + entries;
        for (size_t start = 0; start < n; start += GG_BLOCK) {
            size_t end = n - start < GG_BLOCK ? n : start + GG_BLOCK;
            int found = 0;
            for (size_t k = start; k < end; k++) {
                float top = y0[k] > box[0] ? y0[k] : box[0], left = x0[k] > box[1] ? x0[k] : box[1];
                float height = (y1[k] < box[2] ? y1[k] : box[2]) - top;
                float width = (x1[k] < box[3] ? x1[k] : box[3]) - left;
                float both = (height > 0 ? height : 0) * (width > 0 ? width : 0);
                float whole = areas[k] + area - both;
                float part = both / whole;
                part = (both > 0) & (whole > 0) ? part : 0;
                found |= !(part <= share);
            }
            if (found) return 1;
        }
        return 0;
    }

    static inline double gg_ratio(double a, double b) { return a / b; }
    """
    double gg_ratio(double a, double b) noexcept nogil
    bint gg_overlaps(const float *box, float area, const float *others, size_t entries, size_t n,
                     float share) noexcept nogil


cdef Py_ssize_t choose(const float[:, ::1] places, float share, int64_t[::1] chosen,
                       float[:, ::1] others) noexcept nogil:
    """Does what choice says; returns how many boxes are chosen, and makes others their corners and areas."""
    cdef Py_ssize_t i, k, most = chosen.shape[0], n = 0
    cdef float area
    for i in range(places.shape[0]):
        if n == most:
            break
        area = (places[i, 2] - places[i, 0]) * (places[i, 3] - places[i, 1])
        if gg_overlaps(&places[i, 0], area, &others[0, 0], most, n, share):
            continue
        chosen[n] = i
        for k in range(4):
            others[k, n] = places[i, k]
        others[4, n] = area
        n += 1
    return n


def choice(const float[:, ::1] places, Py_ssize_t most, float share):
    """The boxes that overlap no better chosen one by more than a share of their union.

    Args:
        places: boxes (n, 4), the best one first: smallest y, smallest x, largest y, largest x.
        most: the greatest number of boxes to choose.
        share: what the intersection of two boxes may have of their union.
    Returns:
        Their numbers, ascending.
    """
    if places.shape[1] < 4:
        raise ValueError(f"choice: the boxes have {places.shape[1]} columns: need 4")
    chosen = np.empty(min(places.shape[0], max(most, 0)), np.int64)
    if not chosen.size:
        return chosen
    cdef int64_t[::1] numbers = chosen
    cdef float[:, ::1] others = np.empty((5, chosen.size), np.float32)
    cdef Py_ssize_t n
    with nogil:
        n = choose(places, share, numbers, others)
    return chosen[:n]


ctypedef fused number:
    float
    double

cdef struct Sample:  # of an axis: the entries before and after it, and their weights
    Py_ssize_t low, high
    double before, after


cdef void sample(Sample* samples, double start, double length, Py_ssize_t n, Py_ssize_t bins,
                 Py_ssize_t count) noexcept nogil:
    """The samples of an axis of n entries, of which each bin of a box has as many; outside they weigh nothing."""
    cdef Py_ssize_t i, k
    cdef double at, wide = gg_ratio(length, bins)
    cdef bint inside
    for i in range(bins):
        for k in range(count):
            at = start + (i + gg_ratio(k + 0.5, count)) * wide
            inside = -1 <= at <= n
            at = min(max(at, 0.0), n - 1.0) if inside else 0.0
            samples.low = <Py_ssize_t>floor(at)
            samples.high = min(samples.low + 1, n - 1)
            samples.before = samples.low + 1 - at if inside else 0.0
            samples.after = at - samples.low if inside else 0.0
            samples += 1


cdef number mean(const number* x, const Sample* rows, const Sample* columns, Py_ssize_t m, Py_ssize_t n,
                 Py_ssize_t width) noexcept nogil:
    """The mean of m x n samples, which are interpolated between four elements."""
    cdef Py_ssize_t i, k
    cdef const number* upper
    cdef const number* lower
    cdef number before, after, total = 0, up, down
    for i in range(m):
        upper, lower, up, down = x + rows[i].low * width, x + rows[i].high * width, 0, 0
        for k in range(n):
            before, after = <number>columns[k].before, <number>columns[k].after
            up += before * upper[columns[k].low] + after * upper[columns[k].high]
            down += before * lower[columns[k].low] + after * lower[columns[k].high]
        total += <number>rows[i].before * up + <number>rows[i].after * down
    return <number>gg_ratio(total, max(m * n, 1))


cdef number most(const number* x, const Sample* rows, const Sample* columns, Py_ssize_t m, Py_ssize_t n,
                 Py_ssize_t width) noexcept nogil:
    """The greatest of the weighted elements, not of their sums, of m x n samples; 0 if there are none."""
    cdef Py_ssize_t i, k, part
    cdef const number* row
    cdef number value, weight, best = 0
    cdef bint first = True
    for i in range(m):
        for part in range(4):
            row = x + (rows[i].high if part & 2 else rows[i].low) * width
            weight = <number>(rows[i].after if part & 2 else rows[i].before)
            for k in range(n):
                if part & 1:
                    value = row[columns[k].high] * (weight * <number>columns[k].after)
                else:
                    value = row[columns[k].low] * (weight * <number>columns[k].before)
                if first or value > best or value != value:
                    best, first = value, False
    return best


def aligned(const number[:, :, :, ::1] x, const int64_t[::1] images, const double[:, :, ::1] boxes,
            const int64_t[:, ::1] counts, bint greatest, number[:, :, :, ::1] y):
    """Means, or maxima, of samples of each bin of boxes.

    Args:
        x: images (n, channels, rows, columns), of one element or more.
        images: for each box the number of its image, which must exist.
        boxes: where they begin and their lengths: (boxes, 2, 2), of rows first.
        counts: samples of a bin along each axis: (boxes, 2).
        greatest: whether maxima are wanted.
        y: the result (boxes, channels, bins, bins).
    """
    cdef Py_ssize_t height = y.shape[2], wide = y.shape[3], rows = x.shape[2], columns = x.shape[3], b, c, i, k, m, n
    cdef const number* plane
    size = 0 if not y.shape[0] else int(np.max(counts, 0).dot([height, wide]))
    cdef char[::1] held = np.empty(max(size, 1) * sizeof(Sample), np.byte)
    cdef Sample* first = <Sample*>&held[0]
    cdef Sample* second
    with nogil:
        for b in range(y.shape[0]):
            m, n = counts[b, 0], counts[b, 1]
            second = first + m * height
            sample(first, boxes[b, 0, 0], boxes[b, 1, 0], rows, height, m)
            sample(second, boxes[b, 0, 1], boxes[b, 1, 1], columns, wide, n)
            for c in range(y.shape[1]):
                plane = &x[images[b], c, 0, 0]
                for i in range(height):
                    for k in range(wide):
                        if greatest:
                            y[b, c, i, k] = most(plane, first + i * m, second + k * n, m, n, columns)
                        else:
                            y[b, c, i, k] = mean(plane, first + i * m, second + k * n, m, n, columns)


cdef number largest(const number* x, int64_t first_row, int64_t end_row, int64_t first, int64_t end,
                    Py_ssize_t width) noexcept nogil:
    """The greatest element of a part of a plane, NaN if one is; 0 if there is none."""
    cdef int64_t i, k
    cdef number value, best = x[first_row * width + first] if first_row < end_row and first < end else 0
    for i in range(first_row, end_row):
        for k in range(first, end):
            value = x[i * width + k]
            if value > best or value != value:
                best = value
    return best


def pooled(const number[:, :, :, ::1] x, const int64_t[::1] images, const int64_t[:, :, ::1] rows,
           const int64_t[:, :, ::1] columns, number[:, :, :, ::1] y):
    """Maxima of parts of images.

    Args:
        x: images (n, channels, rows, columns).
        images: for each box the number of its image, which must exist.
        rows, columns: for each bin of a box where it begins and ends, which images must have: (boxes, bins, 2).
        y: the result (boxes, channels, bins, bins).
    """
    cdef Py_ssize_t b, c, i, k
    if not y.shape[1] * x.shape[2] * x.shape[3]:
        return
    with nogil:
        for b in range(y.shape[0]):
            for c in range(y.shape[1]):
                for i in range(y.shape[2]):
                    for k in range(y.shape[3]):
                        y[b, c, i, k] = largest(&x[images[b], c, 0, 0], rows[b, i, 0], rows[b, i, 1],
                                                columns[b, k, 0], columns[b, k, 1], x.shape[3])
