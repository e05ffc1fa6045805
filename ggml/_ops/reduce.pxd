# Builders of sums and of gradients that other modules use.
from libc.stdint cimport int64_t

from .._core cimport ggml_context, ggml_tensor

# The gradient by a mask from that by the logits [n_kv, n_q, heads, batch]: masks repeat over dimensions 2 and 3 and may
# reach further in 0 and 1.
cdef ggml_tensor *mask_gradient(ggml_context *ctx, ggml_tensor *g, ggml_tensor *mask) except NULL
# The gradient by the sinks [heads] from that by the sink of each row [1, n_q, heads, batch].
cdef ggml_tensor *sinks_gradient(ggml_context *ctx, ggml_tensor *g, ggml_tensor *sinks) except NULL
cdef ggml_tensor *rows1(ggml_context *ctx, int op, ggml_tensor *a) except NULL    # one f32 for each row of a
# The gradients by x, given that by the result, of ggml_norm and ggml_rms_norm.
cdef ggml_tensor *norm_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *x, float eps) except NULL
cdef ggml_tensor *rms_norm_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *x, float eps) except NULL
# Sum of the tiles of g that have the given size.
cdef ggml_tensor *summed(ggml_context *ctx, ggml_tensor *g, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL
