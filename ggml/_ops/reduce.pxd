# Builders of reduce.pyx that other modules use.
from libc.stdint cimport int64_t

from .._core cimport ggml_context, ggml_tensor

# the sum, and the mean, of each row of a: f32 [1, ne1, ne2, ne3]
cdef ggml_tensor *sum_rows(ggml_context *ctx, ggml_tensor *a) except NULL
cdef ggml_tensor *mean_rows(ggml_context *ctx, ggml_tensor *a) except NULL
# the sum of the blocks of shape [ne0, ne1, ne2, ne3] that a consists of
cdef ggml_tensor *sum_to_sizes(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2,
                               int64_t ne3) except NULL
# the sum of the blocks of a that have the shape of `like`; a itself where the shapes are equal
cdef ggml_tensor *sum_to_shape(ggml_context *ctx, ggml_tensor *a, ggml_tensor *like) except NULL
