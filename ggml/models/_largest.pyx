"""The largest of many numbers, in one pass."""

from libc.math cimport INFINITY
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


def largest(const float[::1] values not None, Py_ssize_t k):
    """The k largest values: of equal ones those that come first. -inf is left out.

    Args:
        values: f32 [n], contiguous, n below 2^31.
        k: int, 1 to n.

    Returns:
        (list of int, list of float): their indices and the values, the largest first.

    Raises:
        ValueError: a value is not a number, or k is out of range.
    """
    cdef Py_ssize_t n = values.shape[0], i
    if not 0 < k <= n or n >= 1 << 31:
        raise ValueError(f"largest: k is {k}: need 1 to the number of values, {n}, which is below 2^31")
    cdef Item* heap = <Item*>malloc(k * sizeof(Item))
    if heap == NULL:
        raise MemoryError(f"largest: no memory for {k} values")
    try:
        with nogil:
            numbers = select(&values[0], n, heap, k)
        if not numbers:
            raise ValueError("largest: a value is not a number")
        found = sorted([(-heap[i].value, heap[i].index) for i in range(k) if heap[i].index >= 0])
        return [index for _, index in found], [-value for value, _ in found]
    finally:
        free(heap)
