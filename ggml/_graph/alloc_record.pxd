# A graph as an allocator left it. A later graph that equals it, tensor by tensor, needs no new plan.
from .._core cimport ggml_cgraph
from .alloc_layout cimport BufferPool, Index

cdef enum:
    DIFFERS, MOVED, SAME       # ordered: the answer for a graph is the least of those for its tensors

ctypedef struct Head:          # the fields of a tensor before its name
    char bytes[256]

cdef class Record:
    cdef Index index           # of the tensors; None: nothing is recorded
    cdef Index spare           # of a graph that is being compared
    cdef Head *heads           # of each tensor: its fields,
    cdef char *own             # whether it lies in the allocator's buffers,
    cdef int *roots            # the number of the tensor that it views, or -1
    cdef int *refs             # the graph's reference list (see n_references)
    cdef int n_leafs, n_nodes, capacity
    cdef size_t refs_capacity
    cdef dict usages           # of the buffers that the tensors lie in: {Buffer: usage}
    cdef int reserve(self, int n_tensors, size_t n_refs) except -1
    cdef int take(self, ggml_cgraph *g, Index index, const int *refs, BufferPool pool) except -1
    cdef int forget(self) noexcept
    cdef int compare(self, ggml_cgraph *g, BufferPool pool) except -1
