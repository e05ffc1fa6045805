from libc.stdint cimport int64_t

cdef int fail_beyond(int type, object row, const float *x, int64_t n) except -1
