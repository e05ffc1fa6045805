# A backward pass under construction, and the table of gradient functions that the modules of _ops fill.
from libc.stdint cimport uint8_t

from .._core cimport GG_OP_MAX, ggml_cgraph, ggml_context, ggml_tensor

cdef class Backward:
    cdef ggml_context *ctx
    cdef ggml_cgraph *graph
    cdef uint8_t *wanted      # by position in the graph's hash set: a parameter, or computed from one
    cdef int n_forward        # nodes of the forward graph
    cdef size_t n_slots       # size of the graph's hash set
    cdef bint any_in_place    # some of them are computed in the memory of another tensor
    cdef bint needs(self, ggml_tensor *t)                   # whether a gradient by t is needed; False for NULL
    # Adds a term, which has the shape of t, to the gradient by t.
    cdef int add(self, ggml_tensor *t, ggml_tensor *gradient) except -1
    # Raises if a later in-place node overwrites `value`, which the gradient of `node` reads.
    cdef int require_not_overwritten(self, ggml_tensor *node, ggml_tensor *value) except -1
    # Names the running public function, `caller`, again after a callback for `node`, and raises if the callback has
    # freed or changed what the backward pass goes on to read.
    cdef int check_after_callback(self, const char *caller, ggml_tensor *node) except -1

# By operation: adds the gradients by the sources of `node` to b, given the gradient g by `node` (the chain rule).
ctypedef int (*gradient_fn)(Backward b, ggml_tensor *node, ggml_tensor *g) except -1
cdef gradient_fn gradients[GG_OP_MAX]
