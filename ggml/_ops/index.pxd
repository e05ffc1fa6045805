# Builders of index.pyx that other modules' builders and gradients use.
from libc.stdint cimport int64_t

from .._core cimport ggml_context, ggml_tensor

# n rows
cdef ggml_tensor *get_rows_back(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b, int64_t n) except NULL
