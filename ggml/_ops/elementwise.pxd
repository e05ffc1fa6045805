# Builders of elementwise.pyx that other modules' builders and gradients use.
from .._core cimport ggml_context, ggml_tensor

cdef ggml_tensor *add(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL
cdef ggml_tensor *sub(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL
cdef ggml_tensor *mul(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL
cdef ggml_tensor *div(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL
cdef ggml_tensor *sqr(ggml_context *ctx, ggml_tensor *a) except NULL
cdef ggml_tensor *neg(ggml_context *ctx, ggml_tensor *a) except NULL
# a node of one source with two float parameters, at indices i0 and i1 of op_params
cdef ggml_tensor *node_with_floats(ggml_context *ctx, int op, ggml_tensor *a, int i0, float f0, int i1, float f1,
                                   bint inplace) except NULL
# a * s + bias
cdef ggml_tensor *scale(ggml_context *ctx, ggml_tensor *a, float s, float bias, bint inplace) except NULL
cdef ggml_tensor *unary(ggml_context *ctx, int fn, ggml_tensor *a, bint inplace) except NULL
cdef ggml_tensor *clamp(ggml_context *ctx, ggml_tensor *a, float low, float high, bint inplace) except NULL
cdef ggml_tensor *clamp_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *x, float low, float high) except NULL
