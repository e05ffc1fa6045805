# Builders of fill.pyx that other modules use.
from libc.stdint cimport int64_t

from .._core cimport ggml_context, ggml_tensor

# f32 [n]: the indices start, start + step, ... up to but without stop
cdef ggml_tensor *index_range(ggml_context *ctx, int64_t start, int64_t stop, int64_t step) except NULL
# f32 [ne0, ne1, ne2, ne3] of zeros
cdef ggml_tensor *zeros(ggml_context *ctx, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL
