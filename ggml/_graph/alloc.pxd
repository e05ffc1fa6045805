# The graph allocator, for the scheduler.
from .._core cimport ggml_cgraph, ggml_context, ggml_tensor
from .._backend.device cimport Buffer, BufferType, Handle

ctypedef struct Item:          # memory that one tensor, the views of it and what is computed in its place share
    ggml_tensor *tensor
    size_t size, offset
    int birth, death           # steps of the graph: computed at the first, last read at the last
    int buffer, chunk          # which buffer type, which of its buffers
    int into                   # computed in the place of this item; -1: has memory of its own
    bint pinned                # a leaf that lies at its offset already

ctypedef struct Entry:         # a tensor that the graph touches
    int item                   # -1: placed by someone else
    bint used                  # by a node

cdef class Galloc(Handle)

cdef class Index:              # numbers tensors as they come
    cdef ggml_tensor **tensors # before the first: NULL
    cdef int *table
    cdef int n, room
    cdef int size(self, int room) except -1
    cdef int add(self, ggml_tensor *t) except -1            # t must not be there
    cdef bint renumber(self, int n) noexcept
    cdef int clear(self) noexcept

cdef inline size_t slot(Index x, const ggml_tensor *t) noexcept:
    cdef size_t mask = 2 * <size_t>x.room - 1, i = (<size_t>t >> 4) * 0x9e3779b97f4a7c15u >> 20 & mask
    while x.table[i] >= 0 and x.tensors[x.table[i]] != t:
        i = (i + 1) & mask
    return i

cdef inline int number(Index x, const ggml_tensor *t) noexcept:      # -1: not there
    return x.table[slot(x, t)]

ctypedef struct Head:          # of a tensor: all before its name
    char bytes[256]

cdef enum:
    DIFFERS, MOVED, SAME       # in this order: the least of several answers is that of all

cdef class Record:
    cdef Index index           # of the tensors; None: there is no graph
    cdef Index spare           # of a graph that is compared
    cdef Head *was             # the tensors as they were
    cdef char *ours            # which of them the allocator placed
    cdef int *roots            # what they are views of; -1: nothing
    cdef int *order            # numbers of the tensors as the graph mentions them
    cdef int n_leafs, n_nodes, room
    cdef size_t room_order
    cdef dict buffers          # where the tensors lie: Buffer: its usage
    cdef int make_room(self, int tensors, size_t mentions) except -1
    cdef int take(self, ggml_cgraph *g, Index index, const int *order, Galloc galloc) except -1
    cdef int forget(self) noexcept
    cdef int compare_tensor(self, ggml_tensor *t, int e, Galloc galloc) except -1
    cdef bint unchanged(self, ggml_cgraph *g) noexcept
    cdef int compare(self, ggml_cgraph *g, Galloc galloc) except -1

cdef class Layout:
    cdef Item *items
    cdef Entry *entries
    cdef Index index           # of the entries
    cdef int *order            # the graph's mentions of them (see Record)
    cdef int n_items, room
    cdef int enter(self, ggml_tensor *t, int item) except -1
    cdef int add(self, ggml_tensor *t, size_t size, int birth, int buffer) noexcept
    cdef int home(self, int k) noexcept
    cdef bint fits(self, Layout old) noexcept
    cdef int adopt(self, Layout old) noexcept
    cdef list pack(self, list max_sizes)

cdef class Galloc(Handle):
    cdef list bufts            # BufferType of each id
    cdef list same             # the first id with the same buffer type
    cdef list buffers          # of each id, its Buffers
    cdef set mine              # handles of all buffers that it ever had
    cdef void *latest          # one of these that was asked about last
    cdef void *stranger        # one that is none of these
    cdef bytes node_ids, leaf_ids   # which buffer types the caller wants: arrays of int
    cdef Layout layout
    cdef Record record         # of the last graph that was allocated
    cdef Layout analyse(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids)
    cdef int remember(self, Layout l, ggml_tensor *t, int step, int buffer) except -1
    cdef int pin(self, Item *x) except -1
    cdef int take_over(self, Layout l, ggml_tensor *t, int step) except -1
    cdef bint owns(self, const ggml_tensor *t) except -1
    cdef list plan(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids)
    cdef bint reserve(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids) except -1
    cdef int drop_freed(self) except -1
    cdef bint grow(self, list sizes) except -1
    cdef bint alloc(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids) except -1
    cdef int follow(self, Index old, Index new) except -1
    cdef int assign(self) except -1
    cdef size_t size(self, int id) except? 0
    cdef int release(self) except -1

cdef Galloc new_galloc(list bufts)
cdef int no_chain(const ggml_tensor *t) except -1                 # raises where a tensor is a view of a view
cdef Buffer alloc_context(ggml_context *ctx, BufferType buft)     # all of a context in a new buffer; None: no memory
