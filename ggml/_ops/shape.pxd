# Builders of views, copies and rows that other modules use.
from libc.stdint cimport int64_t

from .._core cimport ggml_context, ggml_tensor

ctypedef ggml_context Ctx
ctypedef ggml_tensor Ten

cdef Ten *reshape(Ctx *ctx, Ten *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL
cdef Ten *view(Ctx *ctx, Ten *a, const int64_t *ne, const size_t *nb, size_t offset) except NULL
cdef Ten *window(Ctx *ctx, Ten *a, int dim, int64_t start, int64_t n) except NULL    # part of a along dim
cdef Ten *permute(Ctx *ctx, Ten *a, int axis0, int axis1, int axis2, int axis3) except NULL
cdef Ten *transpose(Ctx *ctx, Ten *a) except NULL
cdef Ten *cast(Ctx *ctx, Ten *a, int type) except NULL
cdef Ten *repeat(Ctx *ctx, Ten *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL
cdef Ten *concat(Ctx *ctx, Ten *a, Ten *b, int dim) except NULL
cdef Ten *get_rows(Ctx *ctx, Ten *a, Ten *b) except NULL
cdef Ten *get_rows_back(Ctx *ctx, Ten *a, Ten *b, int64_t n) except NULL    # n rows
cdef Ten *zeros(Ctx *ctx, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL    # f32
# b added (ACC) to, or put (SET) into, the view of a that the strides and the offset describe
cdef Ten *update(Ctx *ctx, int op, Ten *a, Ten *b, size_t nb1, size_t nb2, size_t nb3, size_t offset,
                 bint inplace) except NULL
