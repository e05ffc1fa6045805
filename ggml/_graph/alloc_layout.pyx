"""The memory of a graph: lifetimes of its tensors, operands that results overwrite, offsets in buffers.

A tensor lives from the node that computes it to the last node that reads it. Tensors whose lifetimes do not overlap may
share memory. `analyse` finds the lifetimes, `pack` the offsets.
"""
from libc.limits cimport INT_MAX
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, qsort
from libc.string cimport memmove, memset

from .._core cimport (
    GGML_MAX_SRC, GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_OUTPUT, allocate, engine, fail, ggml_cgraph, ggml_tensor,
    name_text, resized,
)
from .._enums cimport GGML_OP_NONE
from .._backend.device cimport Buffer, BufferType, buffer_dead, live, same_layout

cdef enum:
    FOREVER = INT_MAX          # a `death` after the last node
    COMPUTE = 2                # GGML_BACKEND_BUFFER_USAGE_COMPUTE

cdef size_t aligned(size_t n, size_t alignment) noexcept:
    return (n + alignment - 1) & ~(alignment - 1)

cdef int no_chain(const ggml_tensor *t) except -1:
    if engine.tensor_live(t.view_src) and t.view_src.view_src != NULL:
        fail(ValueError, f"the view_src of '{name_text(t)}' is a view itself: "
                         "views are of the tensor that has the memory")
    return 0

# ---- numbers of tensors ----------------------------------------------------------------------------------------------
cdef class Index:
    """Numbers of tensors by address: a hash table with open addressing, at most half full, of 2^n entries."""

    def __cinit__(self, int capacity):
        self.resize(capacity)

    def __dealloc__(self):
        if self.tensors != NULL:
            free(self.tensors - 1)
        free(self.table)

    cdef int resize(self, int capacity) except -1:
        cdef int i
        cdef ggml_tensor **tensors = self.tensors - 1 if self.tensors != NULL else NULL
        self.tensors = <ggml_tensor **>resized(tensors, <size_t>capacity + 1, sizeof(void *)) + 1
        self.tensors[-1] = NULL
        self.table = <int *>resized(self.table, 2 * <size_t>capacity, sizeof(int))
        self.capacity = capacity
        memset(self.table, 0xff, 2 * <size_t>capacity * sizeof(int))
        for i in range(self.n):
            self.table[probe(self, self.tensors[i])] = i
        return 0

    cdef int add(self, ggml_tensor *t) except -1:
        if self.n == self.capacity:
            self.resize(2 * self.capacity)
        self.tensors[self.n] = t
        self.table[probe(self, t)] = self.n
        self.n += 1
        return self.n - 1

    cdef bint renumber(self, int n) noexcept:
        """Makes the first n of `tensors` the content of the table; False: one of them is NULL or occurs twice."""
        cdef size_t at
        self.clear()
        for i in range(n):
            if self.tensors[i] == NULL:
                return False
            at = probe(self, self.tensors[i])
            if self.table[at] >= 0:
                return False
            self.table[at] = self.n
            self.n += 1
        return True

    cdef int clear(self) noexcept:
        self.n = 0
        memset(self.table, 0xff, 2 * <size_t>self.capacity * sizeof(int))
        return 0

# ---- buffers ---------------------------------------------------------------------------------------------------------
cdef class BufferPool:
    """The buffers of a graph allocator."""

    cdef bint owns(self, const ggml_tensor *t) except -1:
        """Whether a tensor lies in a buffer of the pool, or did before the buffer was freed."""
        if t.buffer == NULL or t.buffer == self.last_other:
            return False
        if t.buffer != self.last_own:
            if <size_t>t.buffer not in self.handles:
                self.last_other = t.buffer
                return False
            self.last_own = t.buffer
        return True

    cdef bint drop_freed(self) except -1:
        """Removes buffers that the caller has freed; True: there were some."""
        cdef Buffer b
        cdef bint dropped = False
        for buffers in self.buffers:
            for b in [b for b in buffers if <size_t>b.at not in live]:
                buffers.remove(b)
                self.handles.discard(<size_t>b.at)
                self.last_own, dropped = NULL, True
        return dropped

    cdef bint grow(self, list sizes) except -1:
        """Allocates buffers of at least these sizes, given for each id; False: there is no memory."""
        cdef Buffer b
        cdef int id, chunk
        for id in range(len(sizes)):
            for chunk in range(len(sizes[id])):
                buffers = self.buffers[id]
                if chunk < len(buffers):
                    if (<Buffer>buffers[chunk]).size >= sizes[id][chunk]:
                        continue
                    (<Buffer>buffers[chunk]).release()
                b = (<BufferType>self.bufts[id]).alloc(sizes[id][chunk])
                if b is None:
                    del buffers[chunk:]
                    return False
                b.usage = COMPUTE
                buffers[chunk:chunk + 1] = [b]
                self.handles.add(<size_t>b.at)
                self.last_other = NULL
        return True

    cdef size_t size(self, int id) except? 0:
        """Bytes of the buffers of an id; 0 if they are counted with an earlier id of the same type."""
        if self.first_id[id] != id:
            return 0
        return sum([(<Buffer>b).size for b in self.buffers[id]])

    cdef int release(self) except -1:
        cdef Buffer b
        for buffers in self.buffers:
            for b in buffers:
                if <size_t>b.at in live:
                    b.release()
        return 0

cdef BufferPool new_pool(list bufts):
    cdef BufferPool pool = BufferPool()
    pool.bufts, pool.first_id = bufts, [bufts.index(t) for t in bufts]
    pool.buffers, pool.handles = [[] for _ in bufts], set()
    return pool

# ---- layouts ---------------------------------------------------------------------------------------------------------
cdef class Layout:
    """The memory of a graph: items, and the item of each tensor."""

    def __cinit__(self, int leafs, int nodes):
        self.capacity = 64
        while self.capacity < 2 * (leafs + nodes):
            self.capacity *= 2
        self.index = Index(self.capacity)
        self.items = <Item *>resized(self.items, self.capacity, sizeof(Item))
        self.entries = <Entry *>resized(self.entries, self.capacity, sizeof(Entry))
        self.refs = <int *>resized(self.refs, leafs + <size_t>nodes * REFS_PER_NODE, sizeof(int))

    def __dealloc__(self):
        free(self.items)
        free(self.entries)
        free(self.refs)

    cdef int add_entry(self, ggml_tensor *t, int item) except -1:
        cdef int e = self.index.add(t)
        if self.capacity < self.index.capacity:          # sources may be in neither list of the graph
            self.items = <Item *>resized(self.items, self.index.capacity, sizeof(Item))
            self.entries = <Entry *>resized(self.entries, self.index.capacity, sizeof(Entry))
            self.capacity = self.index.capacity
        self.entries[e].item, self.entries[e].used = item, False
        return e

    cdef int add_item(self, ggml_tensor *t, size_t size, int birth, int buffer) noexcept:
        cdef Item *x = &self.items[self.n_items]
        x.tensor, x.size, x.offset, x.birth, x.death = t, size, 0, birth, birth
        x.buffer, x.chunk, x.in_place_of, x.pinned = buffer, 0, -1, False
        self.n_items += 1
        return self.n_items - 1

    cdef int storage(self, int k) noexcept:
        """The item that provides the memory of item k."""
        while k >= 0 and self.items[k].in_place_of >= 0:
            k = self.items[k].in_place_of
        return k

    cdef bint fits(self, Layout old) noexcept:
        """Whether the offsets of another layout suit this one: no item is larger or lives longer."""
        cdef Item *x
        cdef Item *y
        cdef int k
        if old is None or self.n_items != old.n_items:
            return False
        for k in range(self.n_items):
            x, y = &self.items[k], &old.items[k]
            if (x.buffer != y.buffer or x.size > y.size or x.birth < y.birth or x.death > y.death
                    or x.in_place_of != y.in_place_of):
                return False
            if x.pinned and (x.offset != y.offset or x.chunk != y.chunk):
                return False
        return True

    cdef int adopt(self, Layout old) noexcept:
        """Takes the offsets, sizes and lifetimes of a layout that fits: a smaller graph does not shrink them."""
        cdef Item *x
        cdef Item *y
        cdef int k
        for k in range(self.n_items):
            x, y = &self.items[k], &old.items[k]
            x.offset, x.chunk, x.size, x.birth, x.death = y.offset, y.chunk, y.size, y.birth, y.death
        return 0

# ---- offsets ---------------------------------------------------------------------------------------------------------
cdef int by_size(const void *a, const void *b) noexcept nogil:
    """The order of packing: pinned items, then by size, the largest first; equal sizes in their given order."""
    cdef const Item *x = (<const Item **>a)[0]
    cdef const Item *y = (<const Item **>b)[0]
    if x.pinned != y.pinned:
        return -1 if x.pinned else 1
    if x.size != y.size:
        return -1 if x.size > y.size else 1
    return -1 if x < y else 1

cdef list pack(Layout layout, BufferPool pool):
    cdef int k, id, n, chunk
    cdef size_t max_size, peak = 0
    cdef Item **todo = NULL
    cdef Item **placed = NULL
    cdef list sizes = []
    try:
        todo = <Item **>allocate(<size_t>(layout.n_items + 1), sizeof(Item *))
        placed = <Item **>allocate(<size_t>(layout.n_items + 1), sizeof(Item *))
        for id in range(len(pool.bufts)):
            n, chunk, max_size = 0, 0, (<BufferType>pool.bufts[id]).max_size()
            sizes.append([])
            for k in range(layout.n_items):
                if layout.items[k].buffer == id and layout.items[k].in_place_of < 0 and layout.items[k].size:
                    todo[n] = &layout.items[k]
                    n += 1
            qsort(todo, n, sizeof(Item *), by_size)
            while n:
                n = pack_chunk(todo, n, placed, chunk, max_size, &peak)
                sizes[id].append(peak)
                chunk += 1
    finally:
        free(todo)
        free(placed)
    return sizes

cdef int pack_chunk(Item **todo, int n, Item **placed, int chunk, size_t max_size, size_t *peak) noexcept:
    """Places items in one buffer of at most `max_size` bytes, each in the tightest gap that is free during its life.

    The items that do not fit remain in `todo`; returns their number. `placed` is scratch memory for n items.
    """
    cdef int i, at, n_placed = 0, left = 0
    cdef size_t offset, high = 0
    cdef Item *x
    for i in range(n):
        x = todo[i]
        if x.pinned and x.chunk != chunk:
            todo[left] = x
            left += 1
            continue
        offset = x.offset if x.pinned else best_fit(x, placed, n_placed)
        if not x.pinned and n_placed and (offset > max_size or x.size > max_size - offset):
            todo[left] = x
            left += 1
            continue
        x.offset, x.chunk = offset, chunk
        at = n_placed
        while at and placed[at - 1].offset > offset:
            at -= 1
        memmove(placed + at + 1, placed + at, <size_t>(n_placed - at) * sizeof(Item *))
        placed[at] = x
        n_placed += 1
        if offset + x.size > high:
            high = offset + x.size
    peak[0] = high
    return left

cdef size_t best_fit(const Item *x, Item **placed, int n_placed) noexcept:
    """The offset of the smallest gap that suffices between items alive at the same time, or the end of the last one."""
    cdef int k
    cdef size_t gap, free_from = 0, offset = 0, best = <size_t>-1
    cdef Item *y
    for k in range(n_placed):                            # ordered by offset
        y = placed[k]
        if y.death < x.birth or x.death < y.birth:
            continue
        if y.offset > free_from:
            gap = y.offset - free_from
            if gap >= x.size and gap < best:
                best, offset = gap, free_from
        if y.offset + y.size > free_from:
            free_from = y.offset + y.size
    return offset if best != <size_t>-1 else free_from

# ---- lifetimes -------------------------------------------------------------------------------------------------------
cdef int entry_of(Layout layout, BufferPool pool, ggml_tensor *t, int step, int buffer) except -1:
    """The entry of a tensor, created if it is new at this step. A view has the item of the tensor that it views."""
    cdef int e = number_of(layout.index, t), root, k
    cdef BufferType buft
    if e >= 0:
        return e
    if not engine.tensor_usable(t):
        fail(RuntimeError, "the graph has a tensor that was freed or written over")
    if t.view_src != NULL:
        no_chain(t)
        root = entry_of(layout, pool, t.view_src, step, buffer)
        return layout.add_entry(t, layout.entries[root].item)
    cdef bint leaf = t.op == GGML_OP_NONE, placed = t.data != NULL, own = placed and pool.owns(t)
    if placed and not own:
        if not buffer_dead(t):
            return layout.add_entry(t, -1)
        if leaf:
            fail(RuntimeError, f"leaf '{name_text(t)}' lies in a buffer that was freed")
    buft = pool.bufts[buffer]
    e = layout.add_entry(t, -1)
    k = layout.add_item(t, aligned(buft.alloc_size(t), buft.alignment()),
                        -1 if leaf or t.flags & GGML_TENSOR_FLAG_INPUT else step, pool.first_id[buffer])
    layout.entries[e].item = k
    if leaf and own:
        pin(pool, &layout.items[k])
    return e

cdef int pin(BufferPool pool, Item *x) except -1:
    """Lets a leaf of an earlier graph keep its place, and thereby its values, as long as the buffer stays."""
    cdef Buffer b
    cdef int id, chunk
    for id in range(len(pool.buffers)):
        for chunk in range(len(pool.buffers[id])):
            b = pool.buffers[id][chunk]
            if b.at == x.tensor.buffer:
                x.buffer, x.chunk, x.pinned = id, chunk, True
                x.offset = <size_t>x.tensor.data - <size_t>b.base
    return 0

cdef Layout analyse(BufferPool pool, ggml_cgraph *g, const int *node_ids, const int *leaf_ids):
    cdef Layout layout = Layout(g.n_leafs, g.n_nodes)
    cdef ggml_tensor *t
    cdef int i, j, e, k, id
    cdef int *refs = layout.refs + g.n_leafs
    for i in range(g.n_leafs):
        layout.refs[i] = entry_of(layout, pool, g.leafs[i], -1, leaf_ids[i] if leaf_ids != NULL else 0)
    for i in range(g.n_nodes):
        t = g.nodes[i]
        id = node_ids[i] if node_ids != NULL else 0
        if not engine.tensor_live(t):
            fail(RuntimeError, f"node {i} of the graph was freed")
        for j in range(GGML_MAX_SRC):
            refs[j] = -1
            if t.src[j] == NULL:
                continue
            refs[j] = e = entry_of(layout, pool, t.src[j], i, id)
            layout.entries[e].used = True
            if layout.entries[e].item >= 0:
                layout.items[layout.entries[e].item].death = i
        refs[GGML_MAX_SRC] = e = entry_of(layout, pool, t, i, id)
        refs += REFS_PER_NODE
        if layout.entries[e].item >= 0:
            layout.items[layout.entries[e].item].death = i
    for e in range(layout.index.n):                           # results stay: outputs, and nodes that no node reads
        k, t = layout.entries[e].item, layout.index.tensors[e]
        if k >= 0 and (t.flags & GGML_TENSOR_FLAG_OUTPUT
                       or not (layout.entries[e].used or (t.view_src != NULL and t.op == GGML_OP_NONE))):
            layout.items[k].death = FOREVER
    for i in range(g.n_nodes):
        reuse_operand(layout, g.nodes[i], i)
    return layout

cdef int storage_of(Layout layout, const ggml_tensor *t) noexcept:
    """The item that provides the memory of a tensor; -1: it does not belong to the allocator."""
    return layout.storage(layout.entries[number_of(layout.index, t)].item)

cdef int reuse_operand(Layout layout, ggml_tensor *t, int step) except -1:
    """Computes a node in the memory of an operand that no later node reads, if its operation permits that.

    Of two, it is that which was computed last: it is more likely to be in the cache, and a convolution that precedes a
    sum can then add the other one (tables/fusions.h).
    """
    cdef int own, j, k, n, other, computed, found = -1, latest = -1
    cdef ggml_tensor *s
    cdef uint32_t overwrites = engine.op(t.op).overwrites
    if t.view_src != NULL or not overwrites:
        return 0
    own = layout.entries[number_of(layout.index, t)].item
    if own < 0 or layout.items[own].birth != step:
        return 0
    for j in range(GGML_MAX_SRC):
        s = t.src[j]
        if not overwrites >> j & 1 or s == NULL or not same_layout(s, t) or (s.view_src != NULL and s.view_offs):
            continue
        k = storage_of(layout, s)
        if (k < 0 or layout.items[k].death != step or layout.items[k].buffer != layout.items[own].buffer
                or layout.items[k].size < layout.items[own].size):
            continue
        if layout.items[k].tensor.op == GGML_OP_NONE:
            continue
        if (layout.items[k].tensor.flags | s.flags) & GGML_TENSOR_FLAG_INPUT:
            continue
        n = 0                                            # operands in that memory: a second one would be overwritten
        for other in range(GGML_MAX_SRC):                # while the kernel reads it
            if t.src[other] != NULL and storage_of(layout, t.src[other]) == k:
                n += 1
        computed = layout.items[layout.entries[number_of(layout.index, s)].item].birth
        if n == 1 and computed > latest:
            found, latest = k, computed
    if found >= 0:
        layout.items[own].in_place_of = found
        layout.items[found].death = layout.items[own].death
    return 0
