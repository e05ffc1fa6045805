"""Allocators: tensors one after the other in a buffer, all of a context, and graphs with memory reused by lifetime.

The graph allocator sees the whole graph before it places anything: each tensor lives from the node that computes it to the last that
reads it, and is placed, the largest first, in the tightest gap that is free for so long.
"""
import ctypes

from libc.limits cimport INT_MAX
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from .._core cimport (
    GGML_MAX_SRC, GGML_OBJECT_TYPE_TENSOR, GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_OUTPUT, arg_buffer, arg_context,
    arg_graph, arg_int32, arg_tensor, engine, enter, fail, ggml_cgraph, ggml_context, ggml_object, ggml_tensor,
    name_text, release,
)
from .._enums cimport GGML_OP_ADD, GGML_OP_DIV, GGML_OP_MUL, GGML_OP_SUB
from .._backend.device cimport (
    HANDLE, Buffer, BufferType, Handle, backend_arg, buffer_arg, buffer_dead, buft_arg, find, handles, live, place, place_view,
    same_layout,
)
from .. import _structs
from .._backend.backend import _multi_buffer
from .._backend.device import _open, _title

cdef enum:
    FOREVER = INT_MAX

# Operations whose kernels may write over their first operand: those with a public in-place form, and the unary ones.
cdef bint[160] writes_over
for _op in (GGML_OP_ADD, 4, GGML_OP_SUB, GGML_OP_MUL, GGML_OP_DIV, 9, 10, 11, 12, 13, 24, 25, 27, 28, 32, 44, 45, 46, 48, 49, 50, 71, 87):
    writes_over[_op] = True

cdef size_t aligned(size_t n, size_t alignment) noexcept:
    return (n + alignment - 1) & ~(alignment - 1)

cdef int no_chain(const ggml_tensor *t) except -1:
    if engine.tensor_live(t.view_src) and t.view_src.view_src != NULL:
        fail(ValueError, f"the view_src of '{name_text(t)}' is a view itself: views are of the tensor that has the memory")
    return 0

# ---- one after the other -----------------------------------------------------------------------------------------------------
def ggml_tallocr_new(buffer):
    """Creates an allocator that places tensors one after the other in a buffer.

    Args:
        buffer: handle of a backend buffer, which must outlive the allocator.
    Returns:
        ggml_tallocr by value: buffer, base address, alignment in bytes and offset, the bytes in use.
    Raises:
        TypeError: buffer is None or a handle of another kind.
        RuntimeError: buffer is not a live buffer.
    """
    enter(b"ggml_tallocr_new")
    cdef Buffer b = buffer_arg(buffer, "buffer")
    cdef size_t alignment = b.buft.alignment(), base = <size_t>b.base
    return _structs.ggml_tallocr(buffer=<size_t>b.at, base=base, alignment=alignment, offset=aligned(base, alignment) - base)

def ggml_tallocr_alloc(talloc, tensor):
    """Places a tensor at the next free position of a buffer.

    The data and buffer fields of the tensor are set, and the offset of the allocator advances by its aligned size.
    The values are undefined.

    Args:
        talloc: ggml_tallocr, or a pointer to one.
        tensor: tensor of any shape and any type without data, not a view.
    Returns:
        GGML_STATUS_SUCCESS (0), or the status with which the buffer prepared the tensor.
    Raises:
        TypeError: talloc is not a ggml_tallocr, or tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer, is a view or has data already.
        MemoryError: the buffer is full.
        RuntimeError: tensor does not belong to a live context, or the buffer was freed.
    """
    enter(b"ggml_tallocr_alloc")
    state = talloc
    if hasattr(state, "_obj"):
        state = state._obj
    elif isinstance(state, ctypes._Pointer) and state:
        state = state.contents
    if not isinstance(state, _structs.ggml_tallocr):
        fail(TypeError, f"talloc is {talloc!r}: need a ggml_tallocr or a pointer to one")
    cdef Buffer b = buffer_arg(state.buffer, "talloc.buffer")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.view_src != NULL or (t.data != NULL and not buffer_dead(t)):
        fail(ValueError, f"tensor '{name_text(t)}' {'is a view' if t.view_src != NULL else 'has data already'}")
    cdef size_t at = state.offset, n = aligned(b.buft.alloc_size(t), b.buft.alignment())
    if at > b.size or n > b.size - at:
        fail(MemoryError, f"tensor '{name_text(t)}' takes {n} bytes: {b.size - min(at, b.size)} of the buffer's {b.size} are left")
    state.offset = at + n
    return place(b, t, at)

# ---- all tensors of a context ------------------------------------------------------------------------------------------------
cdef ggml_tensor *tensor_from(ggml_object *o) noexcept:
    while o != NULL and o.type != GGML_OBJECT_TYPE_TENSOR:
        o = o.next
    return <ggml_tensor *>(o + 1) if o != NULL else NULL

cdef list context_sizes(ggml_context *ctx, BufferType buft):
    """Bytes of the buffers that hold the context's tensors: one, unless there is a largest size."""
    cdef size_t most = buft.max_size(), alignment = buft.alignment(), n, used = 0
    cdef ggml_tensor *t = tensor_from(ctx.first)
    cdef list sizes = []
    while t != NULL:
        if not engine.tensor_usable(t):
            fail(ValueError, f"tensor '{name_text(t)}' of the context was written over: its type, shape or view_src make no sense")
        if t.view_src == NULL and (t.data == NULL or buffer_dead(t)):
            n = aligned(buft.alloc_size(t), alignment)
            if used and n > most - min(used, most):
                sizes.append(used)
                used = 0
            used += n
        t = tensor_from((<ggml_object *>t - 1).next)
    return sizes + [used] if used else sizes

cdef Buffer alloc_context(ggml_context *ctx, BufferType buft):
    cdef list sizes = context_sizes(ctx, buft), buffers = []
    cdef size_t alignment = buft.alignment(), n, used = 0
    cdef Buffer b
    cdef ggml_tensor *t = tensor_from(ctx.first)
    if not ctx.no_alloc:
        fail(ValueError, "the context was made without no_alloc: its tensors have memory already")
    for size in sizes:
        b = buft.alloc(size)
        if b is None:
            for b in buffers:
                b.release()
            return None
        buffers.append(b)
    cdef int k = 0
    while t != NULL:
        if t.view_src == NULL and (t.data == NULL or buffer_dead(t)):
            n = aligned(buft.alloc_size(t), alignment)
            if n and used == sizes[k]:
                k, used = k + 1, 0
            if n:
                place(<Buffer>buffers[k], t, used)
            used += n
        elif t.view_src != NULL and (t.data == NULL or buffer_dead(t)) and t.view_src.data != NULL:
            place_view(t)
        t = tensor_from((<ggml_object *>t - 1).next)
    if not buffers:
        return None
    return buffers[0] if len(buffers) == 1 else _multi_buffer(buffers)

def ggml_backend_alloc_ctx_tensors_from_buft_size(ctx, buft):
    """Computes the memory that all tensors of a context would take in buffers of a type.

    Nothing is allocated. Views and tensors that have data already do not count.

    Args:
        ctx: context.
        buft: handle of the buffer type.
    Returns:
        Size in bytes (int), alignment included.
    Raises:
        TypeError: ctx is not a context handle, or buft is None or a handle of another kind.
        ValueError: a tensor of the context has an invalid field.
        RuntimeError: ctx or buft is not live.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_backend_alloc_ctx_tensors_from_buft_size")
    return sum(context_sizes(c, buft_arg(buft, "buft")))

def ggml_backend_alloc_ctx_tensors_from_buft(ctx, buft):
    """Allocates a buffer of a given type for all tensors of a context that have no data yet.

    Views are connected to the data of their sources. If the type limits the size of a buffer, several are allocated
    and combined into one handle. The values are undefined.

    Args:
        ctx: context for which no_alloc is set.
        buft: handle of the buffer type.
    Returns:
        Handle of the buffer (int), to be freed with ggml_backend_buffer_free; None if there was nothing to allocate
        or the memory cannot be allocated.
    Raises:
        TypeError: ctx is not a context handle, or buft is None or a handle of another kind.
        ValueError: no_alloc is not set for ctx, or one of its tensors has an invalid field.
        RuntimeError: ctx or buft is not live.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_backend_alloc_ctx_tensors_from_buft")
    return HANDLE(alloc_context(c, buft_arg(buft, "buft")))

def ggml_backend_alloc_ctx_tensors(ctx, backend):
    """Allocates all tensors of a context in the memory of a backend.

    The buffer has the default buffer type of the backend. Tensors that have data already keep it.

    Args:
        ctx: context for which no_alloc is set.
        backend: handle of the backend.
    Returns:
        Handle of the buffer (int), to be freed with ggml_backend_buffer_free; None if there was nothing to allocate
        or the memory cannot be allocated.
    Raises:
        TypeError: ctx is not a context handle, or backend is None or a handle of another kind.
        ValueError: no_alloc is not set for ctx, or one of its tensors has an invalid field.
        RuntimeError: ctx or backend is not live.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_backend_alloc_ctx_tensors")
    return HANDLE(alloc_context(c, backend_arg(backend, "backend").buft()))

# ---- what a graph needs, and where it goes --------------------------------------------------------------------------------------
cdef int by_size(const void *a, const void *b) noexcept nogil:
    cdef const Item *x = (<const Item **>a)[0]
    cdef const Item *y = (<const Item **>b)[0]
    if x.pinned != y.pinned:
        return -1 if x.pinned else 1
    if x.size != y.size:
        return -1 if x.size > y.size else 1
    return -1 if x < y else 1

cdef class Index:
    """Numbers of tensors by their addresses, in the order of their coming: open addressing, at most half full."""

    def __cinit__(self, int room):
        self.size(room)

    def __dealloc__(self):
        if self.tensors != NULL:
            free(self.tensors - 1)
        free(self.table)

    cdef int size(self, int room) except -1:
        cdef int i
        cdef ggml_tensor **tensors = <ggml_tensor **>realloc(self.tensors - 1 if self.tensors != NULL else NULL,
                                                             (<size_t>room + 1) * sizeof(void *))
        if tensors != NULL:
            tensors[0] = NULL
            tensors += 1
            self.tensors = tensors
        cdef int *table = <int *>realloc(self.table, 2 * <size_t>room * sizeof(int))
        if table != NULL:
            self.table = table
        if tensors == NULL or table == NULL:
            raise MemoryError()
        self.room = room
        memset(table, 0xff, 2 * <size_t>room * sizeof(int))
        for i in range(self.n):
            table[slot(self, tensors[i])] = i
        return 0

    cdef int add(self, ggml_tensor *t) except -1:
        if self.n == self.room:
            self.size(2 * self.room)
        self.tensors[self.n] = t
        self.table[slot(self, t)] = self.n
        self.n += 1
        return self.n - 1

    cdef bint renumber(self, int n) noexcept:
        """Numbers the first n of `tensors` as they are; False: one is there twice, or missing."""
        cdef size_t at
        self.clear()
        for i in range(n):
            if self.tensors[i] == NULL:
                return False
            at = slot(self, self.tensors[i])
            if self.table[at] >= 0:
                return False
            self.table[at] = self.n
            self.n += 1
        return True

    cdef int clear(self) noexcept:
        self.n = 0
        memset(self.table, 0xff, 2 * <size_t>self.room * sizeof(int))
        return 0

cdef class Record:
    """A graph as an allocator left it: one that is like it, tensor by tensor, needs no new plan."""

    def __dealloc__(self):
        free(self.was)
        free(self.ours)
        free(self.roots)
        free(self.order)

    cdef int make_room(self, int tensors, size_t mentions) except -1:
        cdef Head *was
        cdef char *ours
        cdef int *roots
        cdef int *order
        if self.room < tensors:
            was = <Head *>realloc(self.was, <size_t>tensors * sizeof(Head))
            self.was = was if was != NULL else self.was
            ours = <char *>realloc(self.ours, <size_t>tensors)
            self.ours = ours if ours != NULL else self.ours
            roots = <int *>realloc(self.roots, <size_t>tensors * sizeof(int))
            self.roots = roots if roots != NULL else self.roots
            if was == NULL or ours == NULL or roots == NULL:
                raise MemoryError()
            self.room = tensors
        if self.room_order < mentions:
            order = <int *>realloc(self.order, mentions * sizeof(int))
            if order == NULL:
                raise MemoryError()
            self.order, self.room_order = order, mentions
        return 0

    cdef int take(self, ggml_cgraph *g, Index index, const int *order, Galloc galloc) except -1:
        """`order`: numbers by `index` of what the graph mentions: its leafs, then of each node the operands and itself; -1: none."""
        cdef size_t mentions = g.n_leafs + <size_t>g.n_nodes * (GGML_MAX_SRC + 1), k
        cdef int e
        cdef ggml_tensor *t
        cdef void *asked[64]
        self.forget()
        self.make_room(index.room, mentions)
        memcpy(self.order, order, mentions * sizeof(int))
        memset(asked, 0, sizeof(asked))
        self.buffers = {}
        for e in range(index.n):
            t = index.tensors[e]
            memcpy(&self.was[e], t, sizeof(Head))
            self.ours[e] = galloc.owns(t)
            self.roots[e] = number(index, t.view_src) if t.view_src != NULL else -1
            k = (<size_t>t.buffer >> 4) % 64
            if asked[k] != t.buffer:
                asked[k] = t.buffer
                found = live.get(<size_t>t.buffer)
                if not isinstance(found, Buffer):
                    return 0
                self.buffers[found] = (<Buffer>found).usage
        self.n_leafs, self.n_nodes, self.index = g.n_leafs, g.n_nodes, index
        if self.spare is None or self.spare.room < index.n:
            self.spare = Index(index.room)
        return 0

    cdef int forget(self) noexcept:
        self.index = None
        return 0

    cdef int compare_tensor(self, ggml_tensor *t, int e, Galloc galloc) except -1:
        """Enters a tensor that was not met before as number e, if it is like the one that was: SAME, MOVED or DIFFERS."""
        cdef const ggml_tensor *was = <ggml_tensor *>&self.was[e]
        cdef int answer = SAME
        if (self.spare.tensors[e] != NULL or not engine.tensor_live(t) or t.type != was.type
                or memcmp(&t.ne, &was.ne, <size_t>&was.op_params - <size_t>&was.ne) or t.flags != was.flags
                or (t.view_offs != was.view_offs and self.ours[e])):
            return DIFFERS
        self.spare.tensors[e] = t
        if t.data != was.data or t.buffer != was.buffer:
            if t.data == NULL:
                answer = MOVED if self.ours[e] or t.view_src != NULL else DIFFERS
            elif self.ours[e]:
                answer = MOVED if t.op != 0 and galloc.owns(t) else DIFFERS
            elif t.buffer != was.buffer:
                answer = DIFFERS
        if self.spare.tensors[self.roots[e]] != t.view_src:
            if self.roots[e] < 0 or t.view_src == NULL:
                return DIFFERS
            answer = min(answer, self.compare_tensor(t.view_src, self.roots[e], galloc))
        return answer

    cdef bint unchanged(self, ggml_cgraph *g) noexcept:
        """Whether it is the very graph, with all its tensors as they were."""
        cdef int i
        cdef ggml_tensor **was = self.index.tensors
        for i in range(g.n_leafs):
            if was[self.order[i]] != g.leafs[i]:
                return False
        for i in range(g.n_nodes):
            if was[self.order[g.n_leafs + i * <size_t>(GGML_MAX_SRC + 1) + GGML_MAX_SRC]] != g.nodes[i]:
                return False
        for i in range(self.index.n):
            if not engine.tensor_live(was[i]) or memcmp(was[i], &self.was[i], sizeof(Head)):
                return False
        return True

    cdef int compare(self, ggml_cgraph *g, Galloc galloc) except -1:
        """Whether the plan is good for this graph, whose tensors `index` has then: SAME, or MOVED if not all are in place; or DIFFERS."""
        cdef int i, k, answer = SAME
        cdef size_t n, differ
        cdef ggml_tensor **now
        cdef ggml_tensor *t
        cdef Buffer b
        cdef const int *order = self.order
        if self.index is None or g.n_leafs != self.n_leafs or g.n_nodes != self.n_nodes:
            return DIFFERS
        for b, usage in self.buffers.items():
            if live.get(<size_t>b.at) is not b or b.usage != usage:
                return DIFFERS
        if self.unchanged(g):
            return SAME
        n, now = <size_t>self.index.n * sizeof(void *), self.spare.tensors
        memset(now, 0, n)
        for i in range(g.n_leafs):
            if g.leafs[i] == NULL or now[order[i]] != g.leafs[i]:
                answer = min(answer, self.compare_tensor(g.leafs[i], order[i], galloc))
        order += g.n_leafs
        for i in range(g.n_nodes):
            t = g.nodes[i]
            if t == NULL or now[order[GGML_MAX_SRC]] != t:
                answer = min(answer, self.compare_tensor(t, order[GGML_MAX_SRC], galloc))
            if answer == DIFFERS:
                return DIFFERS
            differ = 0
            for k in range(GGML_MAX_SRC):
                differ |= <size_t>now[order[k]] ^ <size_t>t.src[k]
            if differ:                                   # operands that are in none of the graph's lists are met here
                for k in range(GGML_MAX_SRC):
                    if now[order[k]] != t.src[k]:
                        answer = min(answer, self.compare_tensor(t.src[k], order[k], galloc) if order[k] >= 0 and t.src[k] != NULL else DIFFERS)
            order += GGML_MAX_SRC + 1
        if answer == DIFFERS:
            return DIFFERS
        if memcmp(now, self.index.tensors, n):
            if not self.spare.renumber(self.index.n):
                return DIFFERS
            self.index, self.spare = self.spare, self.index
        return answer

cdef class Layout:
    """The memory of a graph: items to place, and which tensor is in which."""

    def __cinit__(self, int leafs, int nodes):
        self.room = 64
        while self.room < 2 * (leafs + nodes):
            self.room *= 2
        self.index = Index(self.room)
        self.items = <Item *>malloc(<size_t>self.room * sizeof(Item))
        self.entries = <Entry *>malloc(<size_t>self.room * sizeof(Entry))
        self.order = <int *>malloc((leafs + <size_t>nodes * (GGML_MAX_SRC + 1)) * sizeof(int))
        if self.items == NULL or self.entries == NULL or self.order == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.items)
        free(self.entries)
        free(self.order)

    cdef int enter(self, ggml_tensor *t, int item) except -1:
        cdef int e = self.index.add(t)
        cdef Item *items
        cdef Entry *entries
        if self.room < self.index.room:                  # more tensors than in the graph's lists: sources that are in none
            items = <Item *>realloc(self.items, <size_t>self.index.room * sizeof(Item))
            if items != NULL:
                self.items = items
            entries = <Entry *>realloc(self.entries, <size_t>self.index.room * sizeof(Entry))
            if entries != NULL:
                self.entries = entries
            if items == NULL or entries == NULL:
                raise MemoryError()
            self.room = self.index.room
        self.entries[e].item, self.entries[e].used = item, False
        return e

    cdef int add(self, ggml_tensor *t, size_t size, int birth, int buffer) noexcept:
        cdef Item *x = &self.items[self.n_items]
        x.tensor, x.size, x.offset, x.birth, x.death = t, size, 0, birth, birth
        x.buffer, x.chunk, x.into, x.pinned = buffer, 0, -1, False
        self.n_items += 1
        return self.n_items - 1

    cdef int home(self, int k) noexcept:
        """The item whose memory item k is in."""
        while k >= 0 and self.items[k].into >= 0:
            k = self.items[k].into
        return k

    cdef bint fits(self, Layout old) noexcept:
        """Whether the places found for another graph do for this one: nothing is larger or lives longer."""
        cdef Item *x
        cdef Item *y
        cdef int k
        if old is None or self.n_items != old.n_items:
            return False
        for k in range(self.n_items):
            x, y = &self.items[k], &old.items[k]
            if x.buffer != y.buffer or x.size > y.size or x.birth < y.birth or x.death > y.death or x.into != y.into:
                return False
            if x.pinned and (x.offset != y.offset or x.chunk != y.chunk):
                return False
        return True

    cdef int adopt(self, Layout old) noexcept:
        """Takes these places, and what they allow: a smaller graph must not shrink them for the next."""
        cdef int k
        for k in range(self.n_items):
            self.items[k].offset, self.items[k].chunk = old.items[k].offset, old.items[k].chunk
            self.items[k].size, self.items[k].birth, self.items[k].death = old.items[k].size, old.items[k].birth, old.items[k].death
        return 0

    cdef list pack(self, list max_sizes):
        """Finds a place for every item; the sizes of the buffers of each id: [[bytes, ...], ...]."""
        cdef int k, id, n, chunk
        cdef size_t most
        cdef Item **todo = <Item **>malloc(<size_t>(self.n_items + 1) * sizeof(Item *))
        cdef Item **placed = <Item **>malloc(<size_t>(self.n_items + 1) * sizeof(Item *))
        cdef list sizes = []
        if todo == NULL or placed == NULL:
            free(todo)
            free(placed)
            raise MemoryError()
        for id in range(len(max_sizes)):
            n, chunk, most = 0, 0, max_sizes[id]
            sizes.append([])
            for k in range(self.n_items):
                if self.items[k].buffer == id and self.items[k].into < 0 and self.items[k].size:
                    todo[n] = &self.items[k]
                    n += 1
            qsort(todo, n, sizeof(Item *), by_size)
            while n:
                sizes[id].append(0)
                n = pack_chunk(todo, n, placed, chunk, most, &most)
                sizes[id][chunk], most = most, max_sizes[id]
                chunk += 1
        free(todo)
        free(placed)
        return sizes

cdef int pack_chunk(Item **todo, int n, Item **placed, int chunk, size_t most, size_t *peak) noexcept:
    """Places items (the largest first) in one buffer of at most `most` bytes; returns how many are left for the next, in todo."""
    cdef int i, k, at, n_placed = 0, left = 0
    cdef size_t free_from, gap, best, offset, high = 0
    cdef Item *x
    cdef Item *y
    for i in range(n):
        x = todo[i]
        if x.pinned and x.chunk != chunk:
            todo[left] = x
            left += 1
            continue
        best, offset, free_from = <size_t>-1, 0, 0
        for k in range(n_placed):                       # in the order of their offsets
            y = placed[k]
            if y.death < x.birth or x.death < y.birth:
                continue
            if y.offset > free_from:
                gap = y.offset - free_from
                if gap >= x.size and gap < best:
                    best, offset = gap, free_from
            if y.offset + y.size > free_from:
                free_from = y.offset + y.size
        if best == <size_t>-1:
            offset = free_from
        if x.pinned:
            offset = x.offset
        elif n_placed and (offset > most or x.size > most - offset):
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

# ---- the graph allocator ----------------------------------------------------------------------------------------------------------
cdef class Galloc(Handle):
    """Buffers for graphs."""

    cdef bint owns(self, const ggml_tensor *t) except -1:
        """Whether a tensor lies in a buffer of this allocator, or did."""
        if t.buffer == NULL or t.buffer == self.stranger:
            return False
        if t.buffer != self.latest:
            if <size_t>t.buffer not in self.mine:
                self.stranger = t.buffer
                return False
            self.latest = t.buffer
        return True

    cdef int remember(self, Layout l, ggml_tensor *t, int step, int buffer) except -1:
        """The entry of a tensor, made when it is new; a view's item is that of the tensor it lies in."""
        cdef int e = number(l.index, t), root, k
        cdef BufferType buft
        if e >= 0:
            return e
        if not engine.tensor_usable(t):
            fail(RuntimeError, "the graph has a tensor that was freed or written over")
        if t.view_src != NULL:
            no_chain(t)
            root = self.remember(l, t.view_src, step, buffer)
            return l.enter(t, l.entries[root].item)
        cdef bint leaf = t.op == 0, placed = t.data != NULL, mine = placed and self.owns(t)
        if placed and not mine:
            if not buffer_dead(t):
                return l.enter(t, -1)
            if leaf:
                fail(RuntimeError, f"leaf '{name_text(t)}' lies in a buffer that was freed")
        buft = self.bufts[buffer]
        e = l.enter(t, -1)
        k = l.add(t, aligned(buft.alloc_size(t), buft.alignment()), -1 if leaf or t.flags & GGML_TENSOR_FLAG_INPUT else step,
                  self.same[buffer])
        l.entries[e].item = k
        if leaf and mine:
            self.pin(&l.items[k])
        return e

    cdef int pin(self, Item *x) except -1:
        """A leaf of an earlier graph keeps its place, and so its values, as long as the buffer stays."""
        cdef Buffer b
        cdef int id, chunk
        for id in range(len(self.buffers)):
            for chunk in range(len(self.buffers[id])):
                b = self.buffers[id][chunk]
                if b.at == x.tensor.buffer:
                    x.buffer, x.chunk, x.pinned = id, chunk, True
                    x.offset = <size_t>x.tensor.data - <size_t>b.base
        return 0

    cdef Layout analyse(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids):
        cdef Layout l = Layout(g.n_leafs, g.n_nodes)
        cdef ggml_tensor *t
        cdef int i, j, e, k, id
        cdef int *order = l.order + g.n_leafs
        for i in range(g.n_leafs):
            l.order[i] = self.remember(l, g.leafs[i], -1, leaf_ids[i] if leaf_ids != NULL else 0)
        for i in range(g.n_nodes):
            t = g.nodes[i]
            id = node_ids[i] if node_ids != NULL else 0
            if not engine.tensor_live(t):
                fail(RuntimeError, f"node {i} of the graph was freed")
            for j in range(GGML_MAX_SRC):
                order[j] = -1
                if t.src[j] == NULL:
                    continue
                order[j] = e = self.remember(l, t.src[j], i, id)
                l.entries[e].used = True
                if l.entries[e].item >= 0:
                    l.items[l.entries[e].item].death = i
            order[GGML_MAX_SRC] = e = self.remember(l, t, i, id)
            order += GGML_MAX_SRC + 1
            if l.entries[e].item >= 0:
                l.items[l.entries[e].item].death = i
        for e in range(l.index.n):                       # results stay: what nobody reads, and outputs
            k, t = l.entries[e].item, l.index.tensors[e]
            if k >= 0 and (not l.entries[e].used or t.flags & GGML_TENSOR_FLAG_OUTPUT) and (t.view_src == NULL or t.op != 0):
                l.items[k].death = FOREVER
        for i in range(g.n_nodes):
            self.take_over(l, g.nodes[i], i)
        return l

    cdef int take_over(self, Layout l, ggml_tensor *t, int step) except -1:
        """Lets a node be computed in the place of an operand that is not read again."""
        cdef int mine, j, k, n, other
        cdef ggml_tensor *s
        if t.view_src != NULL or t.op >= 160 or t.op < 0 or not writes_over[t.op]:
            return 0
        mine = l.entries[number(l.index, t)].item
        if mine < 0 or l.items[mine].birth != step:
            return 0
        for j in range(2 if t.op in (GGML_OP_ADD, GGML_OP_SUB, GGML_OP_MUL, GGML_OP_DIV) else 1):
            s = t.src[j]
            if s == NULL or not same_layout(s, t) or (s.view_src != NULL and s.view_offs):
                continue
            k = l.home(l.entries[number(l.index, s)].item)
            if k < 0 or l.items[k].death != step or l.items[k].buffer != l.items[mine].buffer or l.items[k].size < l.items[mine].size:
                continue
            if l.items[k].tensor.op == 0 or (l.items[k].tensor.flags | s.flags) & GGML_TENSOR_FLAG_INPUT:
                continue
            n = 0                                        # another operand in the same memory would be overwritten while it is read
            for other in range(GGML_MAX_SRC):
                if t.src[other] != NULL and l.home(l.entries[number(l.index, t.src[other])].item) == k:
                    n += 1
            if n == 1:
                l.items[mine].into = k
                l.items[k].death = l.items[mine].death
                return 0
        return 0

    cdef list plan(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids):
        """Finds places for the graph's tensors, in self.layout; the sizes of buffers to see to."""
        cdef Layout l
        cdef BufferType t
        self.record.forget()
        self.drop_freed()
        l = self.analyse(g, node_ids, leaf_ids)
        if l.fits(self.layout):
            l.adopt(self.layout)
            self.layout = l
            return []
        self.layout = l
        return l.pack([t.max_size() for t in self.bufts])

    cdef int drop_freed(self) except -1:
        """Buffers that the caller freed are none of ours any more."""
        cdef Buffer b
        for of in self.buffers:
            freed = [b for b in of if <size_t>b.at not in live]
            for b in freed:
                of.remove(b)
                self.mine.discard(<size_t>b.at)
                self.latest, self.layout = NULL, None
        return 0

    cdef bint grow(self, list sizes) except -1:
        """Sees to buffers of at least these sizes; False: out of memory."""
        cdef Buffer b
        cdef int id, chunk
        for id in range(len(sizes)):
            for chunk in range(len(sizes[id])):
                of = self.buffers[id]
                if chunk < len(of):
                    if (<Buffer>of[chunk]).size >= sizes[id][chunk]:
                        continue
                    (<Buffer>of[chunk]).release()
                b = (<BufferType>self.bufts[id]).alloc(sizes[id][chunk])
                if b is None:
                    del of[chunk:]
                    self.layout = None
                    return False
                b.usage = 2                               # COMPUTE
                of[chunk:chunk + 1] = [b]
                self.mine.add(<size_t>b.at)
                self.stranger = NULL
        return True

    cdef bint reserve(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids) except -1:
        return self.grow(self.plan(g, node_ids, leaf_ids))

    cdef bint alloc(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids) except -1:
        cdef int known = self.record.compare(g, self)
        if known == DIFFERS and not self.reserve(g, node_ids, leaf_ids):
            return False
        if known != DIFFERS:
            self.layout.index = self.record.index
        if known != SAME:
            self.assign()
        if known == DIFFERS:
            self.record.take(g, self.layout.index, self.layout.order, self)
        return True

    cdef int follow(self, Index old, Index new) except -1:
        """Another graph, planned like the last: its tensors have the numbers in `new` that those of the last have in `old`."""
        cdef int e, k
        cdef ggml_tensor **tensors = self.layout.index.tensors
        for e in range(self.layout.index.n):
            k = number(old, tensors[e])
            if k >= 0:
                tensors[e] = new.tensors[k]
        return 0

    cdef int assign(self) except -1:
        """Gives the tensors of the planned graph their places."""
        cdef Layout l = self.layout
        cdef ggml_tensor *t
        cdef Item *x
        cdef Buffer b = None
        cdef int e, buffer = -1, chunk = -1
        for e in range(l.index.n):
            t = l.index.tensors[e]
            if t.view_src != NULL:
                if t.view_src.data != NULL and (l.entries[e].item >= 0 or t.data == NULL or buffer_dead(t)):
                    place_view(t)
            elif l.entries[e].item >= 0:
                x = &l.items[l.home(l.entries[e].item)]
                if x.buffer != buffer or x.chunk != chunk:
                    buffer, chunk = x.buffer, x.chunk
                    b = self.buffers[buffer][chunk] if self.buffers[buffer] else None
                if b is not None:                        # else all of them are empty
                    place(b, t, x.offset)
        return 0

    cdef size_t size(self, int id) except? 0:
        if self.same[id] != id:
            return 0                                      # counted with the first id of this type
        return sum([(<Buffer>b).size for b in self.buffers[id]])

    cdef int release(self) except -1:
        cdef Buffer b
        for of in self.buffers:
            for b in of:
                if <size_t>b.at in live:
                    b.release()
        return self.close()

_title(Galloc, "graph allocator")

cdef Galloc new_galloc(list bufts):
    cdef Galloc a = Galloc()
    a.bufts, a.same = bufts, [bufts.index(t) for t in bufts]
    a.buffers, a.mine, a.record = [[] for _ in bufts], set(), Record()
    return a

cdef Galloc galloc_arg(object o):
    return <Galloc>find(o, Galloc, "galloc")

def ggml_gallocr_new(buft):
    """Creates a graph allocator whose buffers have one buffer type.

    It plans a whole graph before it places anything: tensors whose lifetimes do not overlap share memory.

    Args:
        buft: handle of the buffer type.
    Returns:
        Handle of the allocator (int); free it with ggml_gallocr_free. It has no buffer yet.
    Raises:
        TypeError: buft is None or a handle of another kind.
        RuntimeError: buft is not a live buffer type.
    """
    enter(b"ggml_gallocr_new")
    return HANDLE(_open(new_galloc([buft_arg(buft, "buft")])))

def ggml_gallocr_new_n(bufts, n_bufs):
    """Creates a graph allocator with several buffer types.

    Args:
        bufts: list, tuple or array of n_bufs handles of buffer types. Their positions are the buffer ids that
            ggml_gallocr_reserve_n takes; equal types share buffers.
        n_bufs: number of buffer types, 1 to 1024.
    Returns:
        Handle of the allocator (int); free it with ggml_gallocr_free. It has no buffer yet.
    Raises:
        TypeError: bufts is None or not an array, an entry is no buffer type, or n_bufs is not an integer.
        ValueError: n_bufs is out of range, or bufts has too few entries.
        RuntimeError: an entry is not a live buffer type.
    """
    enter(b"ggml_gallocr_new_n")
    cdef int n = arg_int32(n_bufs, b"n_bufs")
    if n < 1 or n > 1024:
        fail(ValueError, f"n_bufs is {n}: need 1 to 1024")
    return HANDLE(_open(new_galloc(handles(bufts, n, BufferType, "bufts"))))

def ggml_gallocr_free(galloc):
    """Frees a graph allocator and its buffers.

    Tensors that it has placed lose their data.

    Args:
        galloc: handle of the allocator; None is accepted and ignored.
    Returns:
        None.
    Raises:
        TypeError: galloc is a handle of another kind.
        RuntimeError: galloc is not a live graph allocator.
    """
    enter(b"ggml_gallocr_free")
    if galloc is not None:
        galloc_arg(galloc).release()

cdef bytes ids(object array, int n, int n_bufs, str name):
    """The buffer ids that a caller gives, as an array of int; None: all 0."""
    cdef void *p
    cdef int i
    if array is None:
        return None
    if isinstance(array, (list, tuple)):
        if len(array) < n:
            fail(ValueError, f"{name} has {len(array)} elements: need {n}")
        array = (ctypes.c_int * n)(*[arg_int32(array[i], name.encode()) for i in range(n)])
    arg_buffer(array, name.encode(), <size_t>n * sizeof(int), &p)
    if p == NULL:
        return None
    if n and not engine.readable(p, <size_t>n * sizeof(int)):
        fail(ValueError, f"{name} is no array of {n} int")
    for i in range(n):
        if not 0 <= (<int *>p)[i] < n_bufs:
            fail(ValueError, f"{name} has {(<int *>p)[i]}: there are {n_bufs} buffer types")
    return (<char *>p)[:<size_t>n * sizeof(int)]

cdef const int *ints(bytes array) noexcept:
    return <const int *><const char *>array if array is not None else NULL

def ggml_gallocr_reserve(galloc, graph):
    """Allocates enough buffer memory for a graph without placing its tensors.

    Reserve for the largest graph first; later graphs that fit need no new memory. All tensors go to buffer id 0.

    Args:
        galloc: handle of the graph allocator.
        graph: graph to plan for.
    Returns:
        True; False if the memory cannot be allocated.
    Raises:
        TypeError: galloc is not a graph allocator or graph is not a graph pointer.
        ValueError: graph is a NULL pointer, or it or a view in it has an invalid field.
        RuntimeError: galloc is not live, or the graph or a tensor it uses was freed.
    """
    enter(b"ggml_gallocr_reserve")
    cdef Galloc a = galloc_arg(galloc)
    return bool(a.reserve(arg_graph(graph, b"graph"), NULL, NULL))

def ggml_gallocr_reserve_n(galloc, graph, node_buffer_ids, leaf_buffer_ids):
    """Allocates memory for a graph whose tensors go to several buffer types.

    The ids are remembered: ggml_gallocr_alloc_graph uses them for graphs with as many nodes and leafs.

    Args:
        galloc: handle of the graph allocator.
        graph: graph to plan for.
        node_buffer_ids: list, tuple or int array with the buffer id of each node; None for id 0.
        leaf_buffer_ids: the same for each leaf.
    Returns:
        True; False if the memory cannot be allocated.
    Raises:
        TypeError: galloc is not a graph allocator, graph is not a graph pointer, or ids are not an array of
            integers.
        ValueError: an array is too short, an id is not 0 to n_bufs - 1, or graph has an invalid field.
        RuntimeError: galloc is not live, or the graph or a tensor it uses was freed.
    """
    enter(b"ggml_gallocr_reserve_n")
    cdef Galloc a = galloc_arg(galloc)
    cdef ggml_cgraph *g = arg_graph(graph, b"graph")
    cdef int n = len(a.bufts)
    a.node_ids = ids(node_buffer_ids, g.n_nodes, n, "node_buffer_ids")
    a.leaf_ids = ids(leaf_buffer_ids, g.n_leafs, n, "leaf_buffer_ids")
    return bool(a.reserve(g, ints(a.node_ids), ints(a.leaf_ids)))

def ggml_gallocr_reserve_n_size(galloc, graph, node_buffer_ids, leaf_buffer_ids, sizes):
    """Computes the memory that ggml_gallocr_reserve_n would need, without allocating it.

    Args:
        galloc: handle of the graph allocator.
        graph: graph to plan for.
        node_buffer_ids: list, tuple or int array with the buffer id of each node; None for id 0.
        leaf_buffer_ids: the same for each leaf.
        sizes: array of size_t, one for each buffer type, that receives the bytes. Where a type occurs several
            times, the first occurrence counts for all.
    Returns:
        None; the results are written to sizes.
    Raises:
        TypeError: galloc is not a graph allocator, graph is not a graph pointer, or ids or sizes are not an array.
        ValueError: an array is too short, an id is not 0 to n_bufs - 1, or graph has an invalid field.
        RuntimeError: galloc is not live, or the graph or a tensor it uses was freed.
    """
    enter(b"ggml_gallocr_reserve_n_size")
    cdef Galloc a = galloc_arg(galloc)
    cdef ggml_cgraph *g = arg_graph(graph, b"graph")
    cdef int n = len(a.bufts), i
    cdef void *p
    arg_buffer(sizes, b"sizes", <size_t>n * sizeof(size_t), &p)
    if p == NULL or not engine.readable(p, <size_t>n * sizeof(size_t)):
        fail(TypeError, f"sizes is no array of {n} size_t")
    node_ids, leaf_ids = ids(node_buffer_ids, g.n_nodes, n, "node_buffer_ids"), ids(leaf_buffer_ids, g.n_leafs, n, "leaf_buffer_ids")
    cdef Layout l = a.analyse(g, ints(node_ids), ints(leaf_ids))
    cdef list need = l.pack([(<BufferType>t).max_size() for t in a.bufts])
    for i in range(n):
        (<size_t *>p)[i] = sum(need[i])

def ggml_gallocr_alloc_graph(galloc, graph):
    """Places the tensors of a graph in the memory of an allocator.

    The buffers grow if necessary. A graph with the structure of the previous one reuses its plan. Write the inputs
    after this call: the memory of inputs and weights that the allocator has placed is reused after their last
    reader, unless they are marked with ggml_set_output. Tensors that have data elsewhere stay where they are.

    Args:
        galloc: handle of the graph allocator.
        graph: graph whose tensors get their data and buffer fields set.
    Returns:
        True; False if the memory cannot be allocated, or if there are several buffer types and
        ggml_gallocr_reserve_n was not called with the ids of as many nodes.
    Raises:
        TypeError: galloc is not a graph allocator or graph is not a graph pointer.
        ValueError: graph is a NULL pointer, or it or a view in it has an invalid field.
        RuntimeError: galloc is not live, a leaf lies in a buffer that was freed, or the graph or a tensor was
            freed.
    """
    enter(b"ggml_gallocr_alloc_graph")
    cdef Galloc a = galloc_arg(galloc)
    cdef ggml_cgraph *g = arg_graph(graph, b"graph")
    cdef bint nodes = a.node_ids is not None and <size_t>len(a.node_ids) == g.n_nodes * sizeof(int)
    cdef bint leafs = a.leaf_ids is not None and <size_t>len(a.leaf_ids) == g.n_leafs * sizeof(int)
    if len(a.bufts) > 1 and not nodes:
        return False
    return bool(a.alloc(g, ints(a.node_ids) if nodes else NULL, ints(a.leaf_ids) if leafs else NULL))

def ggml_gallocr_get_buffer_size(galloc, buffer_id):
    """Gives the memory that a graph allocator holds of one buffer type.

    Args:
        galloc: handle of the graph allocator.
        buffer_id: position of the buffer type, 0 to n_bufs - 1.
    Returns:
        Size in bytes (int); 0 if the type also has a lower id, with which it is counted.
    Raises:
        TypeError: galloc is not a graph allocator, or buffer_id is not an integer.
        ValueError: buffer_id is out of range.
        RuntimeError: galloc is not a live graph allocator.
    """
    enter(b"ggml_gallocr_get_buffer_size")
    cdef Galloc a = galloc_arg(galloc)
    cdef int i = arg_int32(buffer_id, b"buffer_id")
    if not 0 <= i < len(a.bufts):
        fail(ValueError, f"buffer_id is {i}: there are {len(a.bufts)} buffer types")
    return a.size(i)
