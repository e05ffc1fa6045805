# The graph allocator, for the scheduler; all tensors of a context in one buffer, for the other modules.
from .._core cimport ggml_cgraph, ggml_context
from .._backend.device cimport Buffer, BufferType
from .._handle cimport Handle
from .alloc_layout cimport BufferPool, Index, Layout
from .alloc_record cimport Record

cdef class Plan:                         # a graph that was allocated
    cdef Layout layout                   # other plans may share it
    cdef Record record

cdef class Galloc(Handle):
    cdef BufferPool pool
    cdef bytes node_ids, leaf_ids        # the buffer ids that the caller wants: arrays of int; None: all are 0
    cdef Layout layout                   # of the last graph that has its buffers
    cdef Layout planned                  # of the last graph, whose buffers are to grow; None: they suffice
    cdef list plans                      # of the graphs that were allocated last, the latest first
    cdef list plan(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids)
    cdef bint grow(self, list sizes) except -1
    cdef bint reserve(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids) except -1
    cdef bint alloc(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids) except -1
    cdef bint alloc_once(self, ggml_cgraph *g, size_t most) except -1
    cdef int use(self, Plan p) except -1
    cdef int find_plan(self, ggml_cgraph *g) except -1
    cdef int replace_tensors(self, Index old, Index new) except -1
    cdef int place_tensors(self) except -1
    cdef int release(self) except -1

cdef Galloc new_galloc(list bufts)
cdef Buffer alloc_context(ggml_context *ctx, BufferType buft)     # all of a context in a new buffer; None: no memory
