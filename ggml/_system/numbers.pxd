from libc.stdint cimport int64_t

cdef void *row(object o, const char *name, int64_t n, size_t size) except? NULL
