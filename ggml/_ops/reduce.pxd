# Builders of reduce.pyx that other modules' builders and gradients use.
from libc.stdint cimport int64_t

from .._core cimport ggml_context, ggml_tensor

# one f32 for each row of a
cdef ggml_tensor *reduce_rows(ggml_context *ctx, int op, ggml_tensor *a) except NULL
# Sum of the tiles of g that have the given size.
cdef ggml_tensor *sum_to_sizes(ggml_context *ctx, ggml_tensor *g, int64_t ne0, int64_t ne1, int64_t ne2,
                               int64_t ne3) except NULL
# g summed down to the shape of `like`
cdef ggml_tensor *sum_to_shape(ggml_context *ctx, ggml_tensor *g, ggml_tensor *to) except NULL
