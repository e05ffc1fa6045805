# The memory of a graph: how long each tensor lives, which tensors share memory, and where each of them lies.
from .._core cimport GGML_MAX_SRC, ggml_cgraph, ggml_tensor

cdef enum:
    REFS_PER_NODE = GGML_MAX_SRC + 1     # a node's operands and the node itself

cdef inline size_t n_references(const ggml_cgraph *g) noexcept:
    """The length of a reference list: numbers of the leafs, then for each node those of its operands and its own."""
    return g.n_leafs + <size_t>g.n_nodes * REFS_PER_NODE

# ---- numbers of tensors ----------------------------------------------------------------------------------------------
cdef class Index:              # a hash table from the addresses of tensors to numbers: 0, 1, 2 ... as they are added
    cdef ggml_tensor **tensors  # by number; tensors[-1] is NULL
    cdef int *table             # 2 * capacity numbers; -1: empty
    cdef int n, capacity
    cdef int resize(self, int capacity) except -1
    cdef int add(self, ggml_tensor *t) except -1            # gives its number; it must not be there yet
    cdef bint renumber(self, int n) noexcept
    cdef int clear(self) noexcept

cdef inline size_t probe(Index x, const ggml_tensor *t) noexcept:
    """The position in the table that holds the tensor's number, or an empty one."""
    cdef size_t mask = 2 * <size_t>x.capacity - 1, i = (<size_t>t >> 4) * 0x9e3779b97f4a7c15u >> 20 & mask
    while x.table[i] >= 0 and x.tensors[x.table[i]] != t:
        i = (i + 1) & mask
    return i

cdef inline int number_of(Index x, const ggml_tensor *t) noexcept:
    """The number of a tensor; -1: it has none."""
    return x.table[probe(x, t)]


# ---- buffers ---------------------------------------------------------------------------------------------------------
cdef class BufferPool:         # the buffers of a graph allocator; a buffer id is a position in `bufts`
    cdef list bufts            # BufferType of each id
    cdef list first_id         # the first id with the same buffer type: its buffers serve all of them
    cdef list buffers          # the Buffers of each id
    cdef set handles           # of all buffers that the pool ever had
    cdef void *last_own        # the handle among these that `owns` saw last
    cdef void *last_other      # the last one that was not among them
    cdef bint owns(self, const ggml_tensor *t) except -1
    cdef bint drop_freed(self) except -1
    cdef bint grow(self, list sizes) except -1
    cdef size_t size(self, int id) except? 0
    cdef int release(self) except -1

cdef BufferPool new_pool(list bufts)

# ---- layouts ---------------------------------------------------------------------------------------------------------
ctypedef struct Item:          # memory that a tensor, its views and nodes computed in its place share
    ggml_tensor *tensor
    size_t size, offset
    int birth, death           # the nodes that compute it and read it last; -1: before the first node
    int buffer, chunk          # a buffer id, and which of its buffers
    int in_place_of            # the item whose memory it reuses; -1: it has memory of its own
    bint pinned                # a leaf that already lies at its offset

ctypedef struct Entry:         # a tensor of the graph
    int item                   # -1: its memory does not belong to the allocator
    bint used                  # a node reads it

cdef class Layout:
    cdef Item *items
    cdef Entry *entries
    cdef Index index           # of the entries
    cdef int *refs             # the graph's reference list (see n_references), of entries
    cdef int n_items, capacity
    cdef int add_entry(self, ggml_tensor *t, int item) except -1
    cdef int add_item(self, ggml_tensor *t, size_t size, int birth, int buffer) noexcept
    cdef int storage(self, int k) noexcept
    cdef bint fits(self, Layout old) noexcept
    cdef int adopt(self, Layout old) noexcept

cdef size_t aligned(size_t n, size_t alignment) noexcept          # rounded up
cdef int no_chain(const ggml_tensor *t) except -1                 # raises if a tensor is a view of a view
# The layout of a graph, without offsets. The arrays give the buffer ids of nodes and leafs; NULL: all are 0.
cdef Layout analyse(BufferPool pool, ggml_cgraph *g, const int *node_ids, const int *leaf_ids)
# Finds offsets; gives the sizes of the buffers of each id: [[bytes, ...], ...].
cdef list pack(Layout l, BufferPool pool)
