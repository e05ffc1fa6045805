# Builders of elementwise.pyx that other modules use.
from .._core cimport ggml_context, ggml_tensor

# a + b, a - b, a * b, a / b, with b repeated to the shape of a
cdef ggml_tensor *add(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL
cdef ggml_tensor *sub(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL
cdef ggml_tensor *mul(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL
cdef ggml_tensor *div(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL
# a^2
cdef ggml_tensor *sqr(ggml_context *ctx, ggml_tensor *a) except NULL
# a node of one source with the parameters of its operation, a struct of `size` bytes
cdef ggml_tensor *node_with_params(ggml_context *ctx, int op, ggml_tensor *a, const void *params, size_t size,
                                   bint inplace) except NULL
# a * s + bias
cdef ggml_tensor *scale(ggml_context *ctx, ggml_tensor *a, float s, float bias, bint inplace) except NULL
# min(max(a, low), high)
cdef ggml_tensor *clamp(ggml_context *ctx, ggml_tensor *a, float low, float high, bint inplace) except NULL
# g where low <= x <= high, else 0
cdef ggml_tensor *clamp_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *x, float low, float high) except NULL
