# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Suppression of boxes that overlap better ones."""
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
    """
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
    chosen = np.empty(min(places.shape[0], max(most, 0)), np.int64)
    if not chosen.size:
        return chosen
    cdef int64_t[::1] numbers = chosen
    cdef float[:, ::1] others = np.empty((5, chosen.size), np.float32)
    cdef Py_ssize_t n
    with nogil:
        n = choose(places, share, numbers, others)
    return chosen[:n]
