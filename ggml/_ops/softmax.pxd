# Builders of softmax.pyx that other modules use.
from .._core cimport ggml_context, ggml_tensor

# The gradient with respect to a mask, given that with respect to the masked scores [n_kv, n_q, heads, batch]. A mask
# repeats over dimensions 2 and 3 and may be larger than the scores in dimensions 0 and 1.
cdef ggml_tensor *mask_gradient(ggml_context *ctx, ggml_tensor *g, ggml_tensor *mask) except NULL
# The gradient with respect to the sinks [heads], given that of each row's sink [1, n_q, heads, batch].
cdef ggml_tensor *sinks_gradient(ggml_context *ctx, ggml_tensor *g, ggml_tensor *sinks) except NULL
