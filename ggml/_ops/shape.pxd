# Builders of shape.pyx that other modules use.
from libc.stdint cimport int64_t

from .._core cimport ggml_context, ggml_tensor

# a converted to a type
cdef ggml_tensor *cast(ggml_context *ctx, ggml_tensor *a, int type) except NULL
# a, or a contiguous copy of it
cdef ggml_tensor *contiguous(ggml_context *ctx, ggml_tensor *a) except NULL
# a view of the contiguous tensor a in another shape
cdef ggml_tensor *reshape(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2,
                          int64_t ne3) except NULL
# a view of the memory that a lies in, with any shape and strides; offset: bytes from the start of a
cdef ggml_tensor *view(ggml_context *ctx, ggml_tensor *a, const int64_t *ne, const size_t *nb,
                       size_t offset) except NULL
# a view of the elements start to start + n of dimension dim
cdef ggml_tensor *view_slice(ggml_context *ctx, ggml_tensor *a, int dim, int64_t start, int64_t n) except NULL
# a view in which dimension i of a is dimension axis<i>
cdef ggml_tensor *permute(ggml_context *ctx, ggml_tensor *a, int axis0, int axis1, int axis2, int axis3) except NULL
# a view with dimensions 0 and 1 exchanged
cdef ggml_tensor *transpose(ggml_context *ctx, ggml_tensor *a) except NULL
# a with b added to (op ACC) or stored in (op SET) the part of a that the strides and the offset describe
cdef ggml_tensor *update(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b, size_t nb1, size_t nb2, size_t nb3,
                         size_t offset, bint inplace) except NULL
# a tiled to the shape [ne0, ne1, ne2, ne3]
cdef ggml_tensor *repeat(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2,
                         int64_t ne3) except NULL
# a tiled to the shape of `like`; a itself where the shapes are equal
cdef ggml_tensor *broadcast_to(ggml_context *ctx, ggml_tensor *a, ggml_tensor *like) except NULL
# a and b joined along dimension dim
cdef ggml_tensor *concat(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b, int dim) except NULL
