# Builders of softmax.pyx that other modules' builders and gradients use.
from .._core cimport ggml_context, ggml_tensor

# The gradient by a mask from that by the logits [n_kv, n_q, heads, batch]: masks repeat over dimensions 2 and 3 and may
# reach further in 0 and 1.
cdef ggml_tensor *mask_gradient(ggml_context *ctx, ggml_tensor *g, ggml_tensor *mask) except NULL
# The gradient by the sinks [heads] from that by the sink of each row [1, n_q, heads, batch].
cdef ggml_tensor *sinks_gradient(ggml_context *ctx, ggml_tensor *g, ggml_tensor *sinks) except NULL
