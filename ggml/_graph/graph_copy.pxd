# Copies of tensors for other backends.
from .._core cimport ggml_context, ggml_tensor

cdef ggml_tensor *tensor_like(ggml_context *ctx, ggml_tensor *t) except NULL     # same type, shape and strides; a leaf
