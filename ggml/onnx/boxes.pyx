# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Boxes: those that overlap no better ones, and means and maxima of what is in them."""
from libc.math cimport ceil, floor
from libc.stdint cimport int64_t, uint32_t, uint64_t

import numpy as np

cdef extern from *:
    """
    #include "runtime/clones.h"
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #define GG_BLOCK 16  // boxes that are compared before the first of them that overlaps decides

    // Numbers in the order of scores, of which NaN is the least, and of equal ones in that of places from the last on
    static inline uint64_t gg_rank(float score, size_t place) {
        const float known = score + 0.0f;                       // -0 is 0
        uint32_t bits;
        memcpy(&bits, &known, sizeof bits);
        bits = known != known ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
        return (uint64_t)bits << 32 | (uint32_t)~place;
    }

    // The ranks of those of n scores that are above a limit, or of all if it is NaN; returns how many there are
    GG_VECTORS static size_t gg_candidates(uint64_t *ranks, const float *scores, size_t n, float least) {
        const int all = least != least;
        size_t found = 0;
        for (size_t start = 0; start < n; start += GG_BLOCK) {
            const size_t end = n - start < GG_BLOCK ? n : start + GG_BLOCK;
            int any = all;
            for (size_t k = start; k < end; k++) any |= scores[k] > least;
            for (size_t k = start; any && k < end; k++)
                if (scores[k] > least || all) ranks[found++] = gg_rank(scores[k], k);
        }
        return found;
    }

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
    size_t gg_candidates(uint64_t *ranks, const float *scores, size_t n, float least) noexcept nogil
    bint gg_overlaps(const float *box, float area, const float *others, size_t entries, size_t n,
                     float share) noexcept nogil


cdef void sink(uint64_t* heap, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    """Moves entry i of a heap of n numbers, whose parents are larger than their children, below the larger ones."""
    cdef uint64_t x = heap[i]
    cdef Py_ssize_t child = 2 * i + 1
    while child < n:
        child += child + 1 < n and heap[child] < heap[child + 1]
        if heap[child] < x:
            break
        heap[i] = heap[child]
        i, child = child, 2 * child + 1
    heap[i] = x


cdef inline float least_of(float a, float b) noexcept nogil:
    """The smaller number, NaN if one is."""
    return a if (a < b) | (a != a) else b


cdef void corners(float* to, const float* box, bint centred) noexcept nogil:
    """Smallest y, smallest x, largest y, largest x of a box; a centred one is x, y, width, height."""
    cdef Py_ssize_t k
    for k in range(2):
        if centred:
            to[k], to[k + 2] = box[k] - box[k + 2] / 2, box[k] + box[k + 2] / 2
        else:
            to[k], to[k + 2] = least_of(box[k], box[k + 2]), -least_of(-box[k], -box[k + 2])


cdef Py_ssize_t choose(const float* places, uint64_t* heap, Py_ssize_t left, float share, int64_t* chosen,
                       Py_ssize_t most, float* others) noexcept nogil:
    """The boxes of one class, as suppressed says, of candidates whose ranks are given; returns their number.

    others: room for the corners and the areas of what is chosen.
    """
    cdef Py_ssize_t i, k, n = 0
    cdef float area
    cdef const float* box
    for i in range(left // 2 - 1, -1, -1):
        sink(heap, i, left)
    while left and n < most:
        i = <uint32_t>~heap[0]
        left -= 1
        heap[0] = heap[left]
        sink(heap, 0, left)
        box = places + 4 * i
        area = (box[2] - box[0]) * (box[3] - box[1])
        if gg_overlaps(box, area, others, most, n, share):
            continue
        chosen[n] = i
        for k in range(4):
            others[k * most + n] = box[k]
        others[4 * most + n] = area
        n += 1
    return n


def suppressed(const float[:, :, ::1] boxes, const float[:, :, ::1] scores, bint centred, Py_ssize_t most, float share,
               float least):
    """The boxes of each class that overlap no better chosen one of it by more than a share of their union.

    Args:
        boxes: two corners (y, x) of each of n boxes (batches, n, 4), or its centre (x, y), width and height.
        scores: (batches, classes, n) of each box; of equal ones the first box is the best.
        centred: whether boxes are given by their centres.
        most: the greatest number of boxes of a class to choose.
        share: what the intersection of two boxes may have of their union.
        least: scores that are not above it are not chosen; NaN: all are.
    Returns:
        Rows of the numbers of a batch, a class and a box.
    """
    cdef Py_ssize_t i, j, k, n = boxes.shape[1], total = 0, m = min(n, max(most, 0)), some
    if boxes.shape[0] != scores.shape[0] or n != scores.shape[2] or boxes.shape[2] != 4 or n >> 32:
        raise ValueError(f"boxes {list(boxes.shape)[:3]} do not fit scores {list(scores.shape)[:3]}")
    found = np.empty((scores.shape[0] * scores.shape[1] * m, 3), np.int64)
    if not found.size:
        return found
    cdef int64_t[:, ::1] rows = found
    cdef uint64_t[::1] held = np.empty(3 * n + 4 * m, np.uint64)
    cdef uint64_t* heap = &held[0]
    cdef int64_t* chosen = <int64_t*>heap + n
    cdef float* places = <float*>(chosen + m)
    cdef float* others = places + 4 * n
    with nogil:
        for i in range(scores.shape[0]):
            for k in range(n):
                corners(places + 4 * k, &boxes[i, k, 0], centred)
            for j in range(scores.shape[1]):
                some = gg_candidates(heap, &scores[i, j, 0], n, least)
                some = choose(places, heap, some, share, chosen, m, others)
                for k in range(some):
                    rows[total, 0], rows[total, 1], rows[total, 2] = i, j, chosen[k]
                    total += 1
    return found[:total].copy()


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


cdef int require_images(const int64_t[::1] images, Py_ssize_t n) except -1:
    """Raises an error unless all boxes are in one of n images; negative numbers count from the end."""
    cdef Py_ssize_t i
    for i in range(images.shape[0]):
        if not -n <= images[i] < n:
            raise IndexError(f"a box is in image {images[i]} of {n}")
    return 0


cdef inline Py_ssize_t image_of(int64_t number, Py_ssize_t n) noexcept nogil:
    """The image of n that a number means, which has one."""
    return number + n if number < 0 else number


cdef Py_ssize_t samples_of(double length, Py_ssize_t bins, Py_ssize_t given) noexcept nogil:
    """How many samples a bin has along an axis of a box: as many as elements, unless a number is given."""
    cdef double count = ceil(gg_ratio(length, bins))
    return given if given else <Py_ssize_t>min(count, 2147483648.0) if count > 0 else 0


def aligned(const number[:, :, :, ::1] x, const int64_t[::1] images, const double[:, :, ::1] boxes, Py_ssize_t given,
            bint greatest, number[:, :, :, ::1] y):
    """Means, or maxima, of samples of each bin of boxes.

    Args:
        x: images (n, channels, rows, columns), of one element or more.
        images: for each box the number of its image.
        boxes: where they begin and their lengths: (boxes, 2, 2), of rows first.
        given: samples of a bin along each axis; 0: as many as elements.
        greatest: whether maxima are wanted.
        y: the result (boxes, channels, bins, bins).
    """
    cdef Py_ssize_t height = y.shape[2], wide = y.shape[3], rows = x.shape[2], columns = x.shape[3], b, c, i, k, m, n
    cdef Py_ssize_t size = 1
    cdef const number* plane
    require_images(images, x.shape[0])
    for b in range(y.shape[0]):
        m, n = samples_of(boxes[b, 1, 0], height, given), samples_of(boxes[b, 1, 1], wide, given)
        size = max(size, m * height + n * wide)
    cdef char[::1] held = np.empty(size * sizeof(Sample), np.byte)
    cdef Sample* first = <Sample*>&held[0]
    cdef Sample* second
    with nogil:
        for b in range(y.shape[0]):
            m, n = samples_of(boxes[b, 1, 0], height, given), samples_of(boxes[b, 1, 1], wide, given)
            second = first + m * height
            sample(first, boxes[b, 0, 0], boxes[b, 1, 0], rows, height, m)
            sample(second, boxes[b, 0, 1], boxes[b, 1, 1], columns, wide, n)
            for c in range(y.shape[1]):
                plane = &x[image_of(images[b], x.shape[0]), c, 0, 0]
                for i in range(height):
                    for k in range(wide):
                        if greatest:
                            y[b, c, i, k] = most(plane, first + i * m, second + k * n, m, n, columns)
                        else:
                            y[b, c, i, k] = mean(plane, first + i * m, second + k * n, m, n, columns)


cdef number largest(const number* x, Py_ssize_t upper, Py_ssize_t lower, Py_ssize_t left, Py_ssize_t right,
                    Py_ssize_t width) noexcept nogil:
    """The greatest element of a part of a plane, NaN if one is; 0 if there is none."""
    cdef Py_ssize_t i, k
    cdef number value, best = x[upper * width + left] if upper < lower and left < right else 0
    for i in range(upper, lower):
        for k in range(left, right):
            value = x[i * width + k]
            if value > best or value != value:
                best = value
    return best


cdef inline Py_ssize_t within(double place, Py_ssize_t n) noexcept nogil:
    """A place limited to those of an axis and its end."""
    return <Py_ssize_t>min(place, n) if place > 0 else 0


def pooled(const number[:, :, :, ::1] x, const int64_t[::1] images, const double[:, :, ::1] boxes,
           number[:, :, :, ::1] y):
    """Maxima of the elements that each bin of boxes has a part of; the arguments are those of aligned."""
    cdef Py_ssize_t b, c, i, k, upper, lower, left, right, height = y.shape[2], wide = y.shape[3]
    cdef double tall, broad
    require_images(images, x.shape[0])
    if not y.shape[1] * x.shape[2] * x.shape[3]:
        return
    with nogil:
        for b in range(y.shape[0]):
            tall, broad = boxes[b, 1, 0], boxes[b, 1, 1]
            for i in range(height):
                upper = within(boxes[b, 0, 0] + floor(gg_ratio(i * tall, height)), x.shape[2])
                lower = within(boxes[b, 0, 0] + ceil(gg_ratio((i + 1) * tall, height)), x.shape[2])
                for k in range(wide):
                    left = within(boxes[b, 0, 1] + floor(gg_ratio(k * broad, wide)), x.shape[3])
                    right = within(boxes[b, 0, 1] + ceil(gg_ratio((k + 1) * broad, wide)), x.shape[3])
                    for c in range(y.shape[1]):
                        y[b, c, i, k] = largest(&x[image_of(images[b], x.shape[0]), c, 0, 0], upper, lower, left,
                                                right, x.shape[3])


def deformed(const number[:, :, :, ::1] x, const number[:, :, :, :, :, ::1] offset, const number[:, :, :, :, ::1] mask,
             const int64_t[:, ::1] window, number[:, :, :, :, ::1] y):
    """Elements between four others, 0 outside, at the places of all taps of a convolution.

    Args:
        x: images (n, channels, rows, columns).
        offset: what is added to places: (n, groups, taps, 2, rows, columns) of the result, of rows first.
        mask: factors (n, groups or 0, taps, rows, columns) of the result; 0: there are none.
        window: stride, dilation, padding before, taps of both axes: (2, 4).
        y: the elements (n, channels, taps, rows, columns) of the result.
    """
    cdef Py_ssize_t b, g, c, k, i, j, some = x.shape[1] // max(offset.shape[1], 1), height = x.shape[2]
    cdef Py_ssize_t width = x.shape[3], tap
    cdef int64_t top, left
    cdef double row, column
    cdef number[4] weights
    cdef int64_t[4] places
    cdef const number* plane
    cdef number factor
    if not height * width * x.shape[1]:
        return
    with nogil:
        for b in range(x.shape[0]):
            for g in range(offset.shape[1]):
                for k in range(y.shape[2]):
                    tap = k // window[1, 3]
                    for i in range(y.shape[3]):
                        for j in range(y.shape[4]):
                            row = offset[b, g, k, 0, i, j] + (i * window[0, 0] + tap * window[0, 1] - window[0, 2])
                            column = offset[b, g, k, 1, i, j] + (
                                j * window[1, 0] + (k - tap * window[1, 3]) * window[1, 1] - window[1, 2])
                            if not (-1 < row < height and -1 < column < width):
                                continue
                            top, left = <int64_t>floor(row), <int64_t>floor(column)
                            row, column = row - top, column - left
                            factor = mask[b, g, k, i, j] if mask.shape[1] else 1
                            weights[0] = <number>((1 - row) * (1 - column)) if top >= 0 and left >= 0 else 0
                            weights[1] = <number>((1 - row) * column) if top >= 0 and left + 1 < width else 0
                            weights[2] = <number>(row * (1 - column)) if top + 1 < height and left >= 0 else 0
                            weights[3] = <number>(row * column) if top + 1 < height and left + 1 < width else 0
                            places[0] = max(top, 0) * width + max(left, 0)
                            places[1] = max(top, 0) * width + min(left + 1, width - 1)
                            places[2] = min(top + 1, height - 1) * width + max(left, 0)
                            places[3] = min(top + 1, height - 1) * width + min(left + 1, width - 1)
                            for c in range(g * some, (g + 1) * some):
                                plane = &x[b, c, 0, 0]
                                y[b, c, k, i, j] = factor * (
                                    weights[0] * plane[places[0]] + weights[1] * plane[places[1]]
                                    + weights[2] * plane[places[2]] + weights[3] * plane[places[3]])
