"""What a sampler does with all logits, in few passes: the largest of them, and the penalty for repetitions."""

from libc.math cimport INFINITY, exp
from libc.stdlib cimport free, malloc

cdef enum:
    BLOCK = 32  # values that are compared with the limit together


cdef struct Item:
    float value
    int index


cdef inline bint below(Item a, Item b) noexcept nogil:
    """Whether a comes after b: the smaller value, of equal ones the larger index."""
    return a.value < b.value or (a.value == b.value and a.index > b.index)


cdef void sift(Item* heap, Py_ssize_t count, Item item) noexcept nogil:
    """Puts an item in the place of the root of a binary heap, which is the lowest one."""
    cdef Py_ssize_t i = 0, child
    while True:
        child = 2 * i + 1
        if child >= count:
            break
        if child + 1 < count and below(heap[child + 1], heap[child]):
            child += 1
        if not below(heap[child], item):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = item


cdef inline bint any_above(const float* values, float limit) noexcept nogil:
    """Whether one of BLOCK values is above the limit, or is not a number."""
    cdef int i, found = 0
    for i in range(BLOCK):
        found |= not values[i] <= limit
    return found != 0


cdef bint select(const float* values, Py_ssize_t count, Item* heap, Py_ssize_t k) noexcept nogil:
    """Makes `heap` the k largest values, those that come first among equal ones. False if one is not a number."""
    cdef Py_ssize_t begin = 0, end, i
    cdef Item item
    for i in range(k):
        heap[i].value, heap[i].index = -INFINITY, -1
    while begin < count:
        end = min(begin + BLOCK, count)
        if end - begin < BLOCK or any_above(values + begin, heap[0].value):
            for i in range(begin, end):
                if values[i] != values[i]:
                    return False
                if values[i] > heap[0].value:
                    item.value, item.index = values[i], <int>i
                    sift(heap, k, item)
        begin = end
    return True


cdef Py_ssize_t ordered(Item* heap, Py_ssize_t k) noexcept nogil:
    """Sorts a heap in place, the largest value first; returns the number of items that hold a value."""
    cdef Py_ssize_t i, count
    cdef Item item
    for count in range(k - 1, 0, -1):  # the lowest of the rest goes to its end
        item = heap[count]
        heap[count] = heap[0]
        sift(heap, count, item)
    for i in range(k):
        if heap[i].index < 0:
            return i
    return k


cdef Py_ssize_t likely(const Item* items, Py_ssize_t count, double top_p, double min_p) noexcept nogil:
    """How many of the sorted items remain: the first whose probabilities add up to top_p, of these those from min_p."""
    cdef double total = 0, part = 0, best = items[0].value
    cdef Py_ssize_t i, kept = count
    if top_p < 1:
        for i in range(count):
            total += exp(items[i].value - best)
        for i in range(count):
            part += exp(items[i].value - best)
            if part >= top_p * total:
                kept = i + 1
                break
    while exp(items[kept - 1].value - best) < min_p:
        kept -= 1
    return kept


def largest(const float[::1] values not None, Py_ssize_t k, double top_p=1, double min_p=0):
    """The k largest values: of equal ones those that come first. -inf is left out.

    Args:
        values: f32 [n], contiguous, n below 2^31.
        k: int, 1 to n.
        top_p, min_p: float, 0 to 1; values that Sampler's filters of these names drop are left out.

    Returns:
        (list of int, list of float): their indices and the values, the largest first.

    Raises:
        ValueError: a value is not a number, or k is out of range.
    """
    cdef Py_ssize_t n = values.shape[0], count = 0, i
    cdef bint numbers
    if not 0 < k <= n or n >= 1 << 31:
        raise ValueError(f"largest: k is {k}: need 1 to the number of values, {n}, which is below 2^31")
    cdef Item* heap = <Item*>malloc(k * sizeof(Item))
    if heap == NULL:
        raise MemoryError(f"largest: no memory for {k} values")
    try:
        with nogil:
            numbers = select(&values[0], n, heap, k)
            if numbers:
                count = ordered(heap, k)
            if count > 0 and heap[0].value < INFINITY:
                count = likely(heap, count, top_p, min_p)
        if not numbers:
            raise ValueError("largest: a value is not a number")
        return [heap[i].index for i in range(count)], [heap[i].value for i in range(count)]
    finally:
        free(heap)


def penalise(float[::1] values not None, list indices not None, float factor):
    """Divides values by a factor if they are positive, else multiplies them by it, in place.

    Args:
        values: f32 [n], contiguous, writable.
        indices: list of int, 0 to n - 1, each at most once.
        factor: float.

    Returns:
        list of float: the former values, for `replace`.

    Raises:
        IndexError: an index is out of range; no value is changed.
    """
    cdef Py_ssize_t i
    former = [values[i] for i in checked(indices, values.shape[0])]
    for i in indices:
        values[i] = values[i] / factor if values[i] > 0 else values[i] * factor
    return former


def replace(float[::1] values not None, list indices not None, list new not None):
    """Sets the values at some indices.

    Args:
        values: f32 [n], contiguous, writable.
        indices: list of int, 0 to n - 1.
        new: list of float, as many.

    Raises:
        IndexError: an index is out of range; no value is changed.
    """
    cdef Py_ssize_t i
    cdef float value
    for i, value in zip(checked(indices, values.shape[0]), new):
        values[i] = value


cdef list checked(list indices, Py_ssize_t size):
    """The indices, if all are from 0 to size - 1."""
    cdef Py_ssize_t i
    for i in indices:
        if not 0 <= i < size:
            raise IndexError(f"Sampler: token {i} does not exist: need 0 to {size - 1}")
    return indices
