# A graph as an allocator left it. A later graph that equals it, tensor by tensor, needs no new plan.
from libc.stdint cimport uint64_t

from .._core cimport ggml_cgraph
from .alloc_layout cimport BufferPool, Index

cdef enum:
    DIFFERS, MOVED, SAME       # ordered: the answer for a graph is the least of those for its tensors

ctypedef struct Head:          # the fields of a tensor before its name
    char bytes[256]

cdef class Record:
    cdef Index index           # of the tensors; None: nothing is recorded
    cdef Index spare           # of the graph that `match` has compared
    cdef Head *heads           # of each tensor: its fields,
    cdef char *own             # whether it lies in the allocator's buffers,
    cdef int *roots            # the number of the tensor that it views, or -1
    cdef int *refs             # the graph's reference list (see n_references)
    cdef int n_leafs, n_nodes, capacity
    cdef size_t refs_capacity
    cdef uint64_t epoch        # of the engine's memory when all tensors were last known to be live
    cdef dict usages           # of the buffers that the tensors lie in: {Buffer: usage}
    cdef int reserve(self, int n_tensors, size_t n_refs) except -1
    cdef int take(self, ggml_cgraph *g, Index index, const int *refs, BufferPool pool) except -1
    cdef int forget(self) noexcept
    cdef bint holds(self, ggml_cgraph *g) except -1
    cdef int match(self, ggml_cgraph *g, BufferPool pool) except -1
    cdef int compare(self, ggml_cgraph *g, BufferPool pool) except -1
    cdef bint same_size(self, ggml_cgraph *g) noexcept
    cdef bint buffers_live(self) except -1
    cdef bint same_tensors(self) noexcept
    cdef int exchange(self) noexcept
    cdef bint refresh(self) noexcept
    cdef Record copy(self)
