# Which backend of a scheduler computes each node of a graph.
from libc.stdint cimport uint64_t

from .._core cimport GGML_MAX_SRC, ggml_cgraph, ggml_tensor
from .._backend.device cimport Buffer, BufferType
from .alloc_layout cimport REFS_PER_NODE, BufferPool, Index

cdef enum:
    MAX_BACKENDS = 64, MAX_TYPES = 64

ctypedef struct Slot:          # what is known of a tensor of the graph; backends are given by their positions
    int root                   # the slot of the tensor that it views; its own slot if it is not a view
    int backend                # the backend that computes it; -1: none yet
    int buft                   # number of the type of the buffer that it lies in; -1: the scheduler allocates it
    int writes                 # how many nodes so far were computed in its memory
    bint weights               # it lies in a buffer of weights
    uint64_t queried           # bit set: the backends that were asked whether they support the operation
    uint64_t supported         # bit set: those that do

cdef class Assignment:
    cdef list backends
    cdef BufferPool pool       # of the scheduler's allocator
    cdef bint offload          # backends may copy weights from host memory (ggml_backend_offload_op)
    cdef dict by_user          # address of a tensor: the backend that the user has assigned it to
    cdef Index index           # of the slots
    cdef Slot *slots
    cdef int *refs             # the graph's reference list (see n_references), of slots
    cdef int *node_refs        # the part of it that belongs to the nodes
    cdef int capacity
    cdef size_t refs_capacity
    cdef list types            # of the buffers that the tensors lie in: BufferType by number
    cdef uint64_t usable_by[MAX_TYPES]  # bit sets: the backends that can use each of these types
    cdef Buffer last_buffer    # the buffer that was looked up last,
    cdef int last_type         # and the number of its type
    cdef int type_number(self, BufferType buft) except -1
    cdef int slot_of(self, ggml_tensor *t) except -1
    cdef int find_memory(self, ggml_tensor *t, Slot *s) except -1
    cdef int read_graph(self, ggml_cgraph *g) except -1
    cdef bint supports(self, int backend, int slot) except -1

cdef inline bint can_use(Assignment a, int backend, int buft) noexcept:
    return (a.usable_by[buft] >> backend & 1) != 0

cdef inline int *operands(Assignment a, int node) noexcept:
    """The slots of a node's operands, -1 for those that it lacks; after them the node's own."""
    return a.node_refs + node * <size_t>REFS_PER_NODE

cdef inline int node_slot(Assignment a, int node) noexcept:
    return operands(a, node)[GGML_MAX_SRC]

cdef Assignment new_assignment(list backends, BufferPool pool, bint offload)
cdef int next_computed(ggml_cgraph *g, int i) noexcept           # the first node from i on that is computed, or n_nodes
cdef int assign(Assignment a, ggml_cgraph *g) except -1          # decides the backends of a graph that was read
