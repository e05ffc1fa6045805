# Arguments that are arrays of numbers.
from libc.stdint cimport int64_t

cdef void *arg_array(object value, const char *name, int64_t n, size_t size) except? NULL   # n elements of `size` bytes
