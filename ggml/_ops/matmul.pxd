# Builders of matmul.pyx that other modules use.
from .._core cimport ggml_context, ggml_tensor

# a^T b by matrices: [a.ne1, b.ne1, b.ne2, b.ne3] of the dot products of rows of a and b
cdef ggml_tensor *mul_mat(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL
# the argument prec of a public function, GGML_PREC_*
cdef int arg_prec(object prec) except -1
