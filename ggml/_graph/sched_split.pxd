# The splits of a graph: ranges of nodes for one backend each, and the copies of operands that they need.
from .._core cimport ggml_cgraph, ggml_context
from .alloc cimport Galloc
from .sched_assign cimport Assignment

cdef class Input:              # a tensor that is copied from one backend to another
    cdef int slot              # of the original
    cdef int backend           # that it lies on
    cdef list copies           # addresses of the copies, one for each graph that may be computed simultaneously

cdef class Split:
    cdef int backend
    cdef int begin, end        # range of the graph's nodes
    cdef list inputs           # Input objects: what is copied before the split is computed
    cdef set sources           # other backends whose results it reads where they lie
    cdef ggml_cgraph *graph    # its nodes

cdef class Splits:
    cdef Assignment assignment
    cdef list bufts            # the buffer type of each backend
    cdef list splits
    cdef dict inputs           # (slot, backend, number of writes): Input
    cdef list redirects        # (slot of a node, which operand, Input): operands to be replaced by copies
    cdef int n_copies          # of each input
    cdef int current_copy      # which of them the next computation uses
    cdef bint redirected       # nodes read the copies now
    cdef ggml_context *arena   # of the copies and of the splits' graphs
    cdef ggml_cgraph *window   # scratch: some nodes of a split; NULL: not made yet
    cdef int clear(self) except -1
    cdef int build(self, ggml_cgraph *g) except -1
    cdef Split new_split(self, int backend, int begin)
    cdef int add_operand(self, Split s, int node, int k) except -1
    cdef Input copied_input(self, Split s, int slot, int backend)
    cdef int set_nodes(self, ggml_cgraph *g) except -1
    cdef int redirect(self, bint on) except -1

cdef Splits new_splits(Assignment assignment, list bufts, int n_copies)
# Plans the memory of a graph and of the copies; gives the sizes of buffers as Galloc.plan does.
# With size_only the allocator's state does not change, and all sizes are given.
cdef list plan_memory(Splits s, ggml_cgraph *g, Galloc galloc, bint size_only)
