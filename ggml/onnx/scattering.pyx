# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Scattering: elements of arrays that are replaced by others, or combined with them."""
from libc.stdint cimport int32_t, int64_t

cdef enum:              # numbered as KINDS of arrays/scatter.py
    NONE, ADD, MUL, MAX, MIN

ctypedef fused number:
    float
    double
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
        return a if a > b or is_nan(a) else b
    if kind == MIN:
        return a if a < b or is_nan(a) else b
    return b


cdef Py_ssize_t combine(number[:, :, ::1] y, const int64_t[:, :, ::1] index, const number[:, :, ::1] updates,
                        int kind) noexcept nogil:
    """Does what scatter says."""
    cdef Py_ssize_t m = index.shape[1], inner = index.shape[2], n = y.shape[1], i, j, k
    cdef int64_t place
    for i in range(index.shape[0]):
        for j in range(m):
            for k in range(inner):
                place = index[i, j, k]
                place += n if place < 0 else 0
                if place < 0 or place >= n:
                    return (i * m + j) * inner + k
                y[i, place, k] = combined(y[i, place, k], updates[i, j, k], kind)
    return -1


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
    with nogil:
        wrong = combine(y, index, updates, kind)
    return wrong
