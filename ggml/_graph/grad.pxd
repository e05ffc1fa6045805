# The backward pass under construction, and the table of gradients that the operation modules fill.
from libc.stdint cimport uint8_t

from .._core cimport GG_OP_MAX, ggml_cgraph, ggml_context, ggml_tensor

cdef class Backward:
    cdef ggml_context *ctx
    cdef ggml_cgraph *graph
    cdef uint8_t *wanted      # by slot of the graph's hash set
    cdef int n_forward        # nodes of the forward graph
    cdef bint any_writes      # some of them write over others
    cdef bint needs(self, ggml_tensor *t)                              # a gradient by t (NULL: no)
    cdef int add(self, ggml_tensor *t, ggml_tensor *gradient) except -1    # one more summand of the gradient by t, in t's shape
    cdef int require_not_overwritten(self, ggml_tensor *node, ggml_tensor *value) except -1   # raises when a later in-place node overwrites it

# Adds to b the gradients by node's sources, given the gradient g by node.
ctypedef int (*gradient_fn)(Backward b, ggml_tensor *node, ggml_tensor *g) except -1
cdef gradient_fn gradients[GG_OP_MAX]
