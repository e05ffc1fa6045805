# Builders of index.pyx that other modules use.
from libc.stdint cimport int64_t

from .._core cimport ggml_context, ggml_tensor

# f32 with n_rows rows, each the sum of the rows of a to which b assigns its index
cdef ggml_tensor *get_rows_back(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b, int64_t n_rows) except NULL
