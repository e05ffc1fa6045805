# Builders of unary.pyx that other modules use.
from .._core cimport ggml_context, ggml_tensor

# f(a) for the function GGML_UNARY_OP_*
cdef ggml_tensor *unary(ggml_context *ctx, int function, ggml_tensor *a, bint inplace) except NULL
# -a
cdef ggml_tensor *neg(ggml_context *ctx, ggml_tensor *a) except NULL
# 1 where a > 0, else 0
cdef ggml_tensor *step(ggml_context *ctx, ggml_tensor *a) except NULL
# e^a
cdef ggml_tensor *exp_of(ggml_context *ctx, ggml_tensor *a) except NULL
# 1 / (1 + e^-a)
cdef ggml_tensor *sigmoid(ggml_context *ctx, ggml_tensor *a) except NULL
# g f'(x), where f is RELU, SILU, ELU or one of the GELU functions
cdef ggml_tensor *activation_back(ggml_context *ctx, int function, ggml_tensor *g, ggml_tensor *x) except NULL
