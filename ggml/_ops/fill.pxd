# Builders of fill.pyx that other modules' builders and gradients use.
from libc.stdint cimport int64_t

from .._core cimport ggml_context, ggml_tensor

cdef ggml_tensor *arange(ggml_context *ctx, float start, float stop, float step) except NULL
# f32
cdef ggml_tensor *zeros(ggml_context *ctx, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL
