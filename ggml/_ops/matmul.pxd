# Builders of matmul.pyx that other modules' builders and gradients use.
from .._core cimport ggml_context, ggml_tensor

cdef ggml_tensor *mul_mat(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL
