# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Probabilities of classes from those of all pairs of classes."""
from libc.math cimport fabs

def least_squares(const double[:, :, ::1] r, double[:, ::1] p, double[:, ::1] q, double[::1] product):
    """Finds the probabilities that fit those of pairs.

    Minimises the sum of (r[j, i] p[i] - r[i, j] p[j])^2 as Wu, Lin and Weng (2004, second approach) do, with the steps
    and the tolerance of LIBSVM, whose results are thereby matched.

    Args:
        r: (rows, classes, classes): how likely the first class of each pair is, above 0.
        p: results (rows, classes).
        q, product: memory, (classes, classes) and (classes,).
    """
    cdef Py_ssize_t k = p.shape[1], row
    with nogil:
        for row in range(p.shape[0]):
            fit(r, p, q, product, row, k)


cdef int fit(const double[:, :, ::1] r, double[:, ::1] p, double[:, ::1] q, double[::1] product, Py_ssize_t row,
             Py_ssize_t k) except -1 nogil:
    """Does it for one row."""
    cdef Py_ssize_t i, j, _turn
    cdef double total, far, step
    for i in range(k):
        p[row, i] = 1.0 / k
        q[i, i] = 0
        for j in range(k):
            if j != i:
                q[i, j] = -r[row, j, i] * r[row, i, j]
                q[i, i] += r[row, j, i] * r[row, j, i]
    for _turn in range(max(100, k)):
        total = far = 0
        for i in range(k):
            product[i] = 0
            for j in range(k):
                product[i] += q[i, j] * p[row, j]
            total += p[row, i] * product[i]
        for i in range(k):
            far = max(far, fabs(product[i] - total))
        if far < 0.005 / k:
            return 0
        for i in range(k):
            step = (total - product[i]) / q[i, i]
            p[row, i] += step
            total = (total + step * (step * q[i, i] + 2 * product[i])) / (1 + step) / (1 + step)
            for j in range(k):
                product[j] = (product[j] + step * q[i, j]) / (1 + step)
                p[row, j] /= 1 + step
    return 0
