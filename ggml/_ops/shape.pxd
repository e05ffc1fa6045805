# Builders of shape.pyx that other modules' builders and gradients use.
from libc.stdint cimport int64_t

from .._core cimport ggml_context, ggml_tensor

cdef ggml_tensor *cast(ggml_context *ctx, ggml_tensor *a, int type) except NULL
cdef ggml_tensor *reshape(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2,
                          int64_t ne3) except NULL
cdef ggml_tensor *view(ggml_context *ctx, ggml_tensor *a, const int64_t *ne, const size_t *nb,
                       size_t offset) except NULL
# part of a along dim
cdef ggml_tensor *view_slice(ggml_context *ctx, ggml_tensor *a, int dim, int64_t start, int64_t n) except NULL
cdef ggml_tensor *transpose(ggml_context *ctx, ggml_tensor *a) except NULL
# b added (ACC) to, or put (SET) into, the view of a that the strides and the offset describe
cdef ggml_tensor *update(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b, size_t nb1, size_t nb2,
                         size_t nb3, size_t offset, bint inplace) except NULL
cdef ggml_tensor *repeat(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2,
                         int64_t ne3) except NULL
cdef ggml_tensor *concat(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b, int dim) except NULL
# a, or a contiguous copy of it
cdef ggml_tensor *contiguous(ggml_context *ctx, ggml_tensor *a) except NULL
# a tiled to the shape of `like`
cdef ggml_tensor *broadcast_to(ggml_context *ctx, ggml_tensor *a, ggml_tensor *to) except NULL
