"""Allocators: a buffer filled one tensor after the other, all tensors of a context, and graphs.

The graph allocator sees a whole graph before it places anything, so that tensors which are not needed at the same time
share memory (see alloc_layout). It recognises graphs that equal one of the last few (see alloc_record).
"""
import ctypes

from libc.stdint cimport uint8_t

from .._core cimport (
    GGML_OBJECT_TYPE_TENSOR, arg_buffer, arg_context, arg_graph, arg_int32, arg_tensor, engine, enter, fail, gg_nbytes,
    ggml_cgraph, ggml_context, ggml_object, ggml_tensor, name_text, outside, pointed, repr_short, tuple_of,
)
from .._backend.buffer cimport multi_buffer
from .._backend.device cimport (
    Buffer, BufferType, CpuBufferType, backend_arg, buffer_arg, buffer_dead, buft_arg, place, place_view,
)
from .._handle cimport HANDLE, Handle, find, handles, opened, set_title
from .alloc_layout cimport Index, Item, Layout, aligned, analyse, new_pool, number_of, pack
from .alloc_record cimport DIFFERS, MOVED, SAME, Record
from .. import _structs

cdef extern from "runtime/poison.h" nogil:
    const size_t GG_RED_ZONE
    void gg_poison(const void *p, size_t n)

# ---- one tensor after the other --------------------------------------------------------------------------------------
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
    return _structs.ggml_tallocr(buffer=<size_t>b.at, base=base, alignment=alignment,
                                 offset=aligned(base, alignment) - base)

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
    state = pointed(talloc, _structs.ggml_tallocr)
    if state is None:
        fail(TypeError, f"talloc is {repr_short(talloc)}: need a ggml_tallocr or a pointer to one")
    cdef Buffer b = buffer_arg(state.buffer, "talloc.buffer")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.view_src != NULL or (t.data != NULL and not buffer_dead(t)):
        fail(ValueError, f"tensor '{name_text(t)}' {'is a view' if t.view_src != NULL else 'has data already'}")
    cdef size_t at = state.offset, n = aligned(b.buft.alloc_size(t), b.buft.alignment())
    if at > b.size or n > b.size - at:
        fail(MemoryError, f"tensor '{name_text(t)}' takes {n} bytes: "
                          f"{b.size - min(at, b.size)} of the buffer's {b.size} are left")
    state.offset = at + n
    return place(b, t, at)

# ---- all tensors of a context ----------------------------------------------------------------------------------------
cdef ggml_tensor *tensor_from(ggml_object *o) noexcept:
    """The first tensor among an object of a context and its successors; NULL: there is none."""
    while o != NULL and o.type != GGML_OBJECT_TYPE_TENSOR:
        o = o.next
    return <ggml_tensor *>(o + 1) if o != NULL else NULL

cdef ggml_tensor *tensor_after(ggml_tensor *t) noexcept:
    return tensor_from((<ggml_object *>t - 1).next)

cdef size_t room_for(ggml_tensor *t, BufferType buft) except? 0:
    """Bytes from a tensor to the next one. In sanitizer builds a red zone follows each tensor in the CPU's memory."""
    cdef size_t n = buft.alloc_size(t)
    return aligned(n + GG_RED_ZONE if n and isinstance(buft, CpuBufferType) else n, buft.alignment())

cdef list context_sizes(ggml_context *ctx, BufferType buft):
    """Bytes of the buffers that hold the context's tensors: several buffers only if the type limits their size."""
    cdef size_t max_size = buft.max_size(), n, used = 0
    cdef ggml_tensor *t = tensor_from(ctx.first)
    cdef list sizes = []
    while t != NULL:
        if not engine.tensor_usable(t):
            fail(ValueError, f"tensor '{name_text(t)}' of the context was written over: "
                             "its type, shape or view_src is invalid")
        if t.view_src == NULL and (t.data == NULL or buffer_dead(t)):
            n = room_for(t, buft)
            if used and n > max_size - min(used, max_size):
                sizes.append(used)
                used = 0
            used += n
        t = tensor_after(t)
    return sizes + [used] if used else sizes

cdef Buffer alloc_context(ggml_context *ctx, BufferType buft):
    cdef list sizes = context_sizes(ctx, buft), buffers = []
    cdef size_t n, used = 0
    cdef int chunk = 0
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
    while t != NULL:
        if t.view_src == NULL and (t.data == NULL or buffer_dead(t)):
            n = room_for(t, buft)
            if n and used == sizes[chunk]:
                chunk, used = chunk + 1, 0
            if n:
                place(<Buffer>buffers[chunk], t, used)
                if isinstance(buft, CpuBufferType):
                    gg_poison(<uint8_t *>t.data + gg_nbytes(t), n - gg_nbytes(t))
            used += n
        elif t.view_src != NULL and (t.data == NULL or buffer_dead(t)) and t.view_src.data != NULL:
            place_view(t)
        t = tensor_after(t)
    if not buffers:
        return None
    return buffers[0] if len(buffers) == 1 else multi_buffer(buffers)

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

# ---- the graph allocator ---------------------------------------------------------------------------------------------
cdef enum:
    MOST_PLANS = 4             # of an allocator: each is a copy of the fields of a graph's tensors

cdef class Plan:
    """A layout and a graph that has it."""

cdef Plan new_plan(Layout layout, Record record):
    cdef Plan p = Plan()
    p.layout, p.record = layout, record
    return p

cdef class Galloc(Handle):
    """Places the tensors of graphs in its buffers."""

    cdef list plan(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids):
        """Makes the layout of a graph; gives the sizes of the buffers of each id for `grow`: [[bytes, ...], ...].

        The list is empty if the last layout, and so the buffers, suffice.
        """
        cdef Layout layout
        self.planned = None
        if self.pool.drop_freed():
            self.layout = None
            self.plans.clear()
        layout = analyse(self.pool, g, node_ids, leaf_ids)
        if layout.fits(self.layout):
            layout.adopt(self.layout)
            self.layout = layout
            return []
        self.layout, self.planned = None, layout
        return pack(layout, self.pool)

    cdef bint grow(self, list sizes) except -1:
        """Allocates buffers of at least these sizes for the layout of `plan`; False: there is no memory."""
        if not self.pool.grow(sizes):
            self.plans.clear()
            return False
        if self.planned is not None:
            self.layout, self.planned = self.planned, None
        return True

    cdef bint reserve(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids) except -1:
        self.plans.clear()
        return self.grow(self.plan(g, node_ids, leaf_ids))

    cdef bint alloc(self, ggml_cgraph *g, const int *node_ids, const int *leaf_ids) except -1:
        """Places the tensors of a graph; False: there is no memory."""
        cdef Plan p
        cdef int similarity = self.find_plan(g)
        if similarity == DIFFERS and not self.grow(self.plan(g, node_ids, leaf_ids)):
            return False
        if similarity != SAME:
            self.place_tensors()
        if similarity == DIFFERS:
            p = new_plan(self.layout, Record())
            p.record.take(g, self.layout.index, self.layout.refs, self.pool)
            if p.record.index is not None:
                self.use(p)
        return True

    cdef bint alloc_once(self, ggml_cgraph *g, size_t most) except -1:
        """Places the tensors of a graph that equals none of the last few, and will not be allocated again.

        False: it needs more than `most` bytes, or there is no memory.
        """
        cdef list sizes = self.plan(g, NULL, NULL)
        if sum(map(sum, sizes)) > most or not self.grow(sizes):
            return False
        self.place_tensors()
        return True

    cdef int use(self, Plan p) except -1:
        """Makes a plan the latest one. The oldest of too many is dropped."""
        if p in self.plans:
            self.plans.remove(p)
        self.plans.insert(0, p)
        del self.plans[MOST_PLANS:]
        self.layout = p.layout
        self.layout.index = p.record.index
        return 0

    cdef int find_plan(self, ggml_cgraph *g) except -1:
        """Looks for a plan that suits a graph, and makes it the latest: SAME, MOVED or DIFFERS, as Record.match.

        A graph that has its places already will probably be allocated again, alternately with others: it gets a record
        of its own. One that has to be placed replaces the recorded graph: programs build a graph per step.
        """
        cdef Plan p
        cdef int similarity
        for p in self.plans:
            if p.record.holds(g):
                self.use(p)
                return SAME
        for p in self.plans:
            similarity = p.record.match(g, self.pool)
            if similarity == SAME:
                self.use(p if p.record.refresh() else new_plan(p.layout, p.record.copy()))
                return SAME
            if similarity == MOVED:
                p.record.exchange()
                self.use(p)
                return MOVED
        return DIFFERS

    cdef int replace_tensors(self, Index old, Index new) except -1:
        """Applies the layout to another graph: a tensor of `old` is replaced by that with the same number in `new`."""
        cdef int e, k
        cdef ggml_tensor **tensors = self.layout.index.tensors
        for e in range(self.layout.index.n):
            k = number_of(old, tensors[e])
            if k >= 0:
                tensors[e] = new.tensors[k]
        return 0

    cdef int place_tensors(self) except -1:
        """Gives the tensors of the layout their memory."""
        cdef Layout layout = self.layout
        cdef ggml_tensor *t
        cdef Item *x
        cdef Buffer b = None
        cdef int e, buffer = -1, chunk = -1
        for e in range(layout.index.n):
            t = layout.index.tensors[e]
            if t.view_src != NULL:
                if t.view_src.data != NULL and (layout.entries[e].item >= 0 or t.data == NULL or buffer_dead(t)):
                    place_view(t)
            elif layout.entries[e].item >= 0:
                x = &layout.items[layout.storage(layout.entries[e].item)]
                if x.buffer != buffer or x.chunk != chunk:
                    buffer, chunk = x.buffer, x.chunk
                    b = self.pool.buffers[buffer][chunk] if self.pool.buffers[buffer] else None
                if b is not None:                        # None: all tensors of this id are empty
                    place(b, t, x.offset)
        return 0

    cdef int release(self) except -1:
        self.pool.release()
        return self.close()

set_title(Galloc, "graph allocator")

cdef Galloc new_galloc(list bufts):
    cdef Galloc a = Galloc()
    a.pool, a.plans = new_pool(bufts), []
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
    return HANDLE(opened(new_galloc([buft_arg(buft, "buft")])))

def ggml_gallocr_new_n(bufts, n_bufs):
    """Creates a graph allocator with several buffer types.

    Args:
        bufts: list, tuple or array of n_bufs handles of buffer types. Their positions are the buffer ids that
            ggml_gallocr_reserve_n takes; equal types share buffers.
        n_bufs: number of buffer types, 1 to 1024.
    Returns:
        Handle of the allocator (int); free it with ggml_gallocr_free. It has no buffer yet.
    Raises:
        TypeError: bufts is None or not an array, an entry is not a buffer type, or n_bufs is not an integer.
        ValueError: n_bufs is out of range, or bufts has too few entries.
        RuntimeError: an entry is not a live buffer type.
    """
    enter(b"ggml_gallocr_new_n")
    cdef int n = arg_int32(n_bufs, b"n_bufs")
    if n < 1 or n > 1024:
        fail(ValueError, f"n_bufs is {n}: need 1 to 1024")
    return HANDLE(opened(new_galloc(handles(bufts, n, BufferType, "bufts"))))

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

cdef bytes arg_ids(object array, int n, int n_bufs, str name):
    """The buffer ids that a caller gives, as an array of int; None: all 0."""
    cdef void *p
    cdef int i
    if array is None:
        return None
    if isinstance(array, (list, tuple)):
        array = outside(tuple_of, array)
        if len(array) < n:
            fail(ValueError, f"{name} has {len(array)} elements: need {n}")
        array = (ctypes.c_int * n)(*[arg_int32(array[i], name.encode()) for i in range(n)])
    arg_buffer(array, name.encode(), <size_t>n * sizeof(int), &p)
    if p == NULL:
        return None
    if n and not engine.readable(p, <size_t>n * sizeof(int)):
        fail(ValueError, f"{name} is not an array of {n} int")
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
    cdef int n = len(a.pool.bufts)
    a.node_ids = arg_ids(node_buffer_ids, g.n_nodes, n, "node_buffer_ids")
    a.leaf_ids = arg_ids(leaf_buffer_ids, g.n_leafs, n, "leaf_buffer_ids")
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
    cdef int n = len(a.pool.bufts), i
    cdef void *p
    arg_buffer(sizes, b"sizes", <size_t>n * sizeof(size_t), &p)
    if p == NULL or not engine.readable(p, <size_t>n * sizeof(size_t)):
        fail(TypeError, f"sizes is not an array of {n} size_t")
    node_ids = arg_ids(node_buffer_ids, g.n_nodes, n, "node_buffer_ids")
    leaf_ids = arg_ids(leaf_buffer_ids, g.n_leafs, n, "leaf_buffer_ids")
    cdef Layout layout = analyse(a.pool, g, ints(node_ids), ints(leaf_ids))
    cdef list need = pack(layout, a.pool)
    for i in range(n):
        (<size_t *>p)[i] = sum(need[i])

def ggml_gallocr_alloc_graph(galloc, graph):
    """Places the tensors of a graph in the memory of an allocator.

    The buffers grow if necessary. A graph with the structure of one of the last four reuses its plan. Write the
    inputs after this call: the memory of inputs and weights that the allocator has placed is reused after their
    last reader, unless they are marked with ggml_set_output. Tensors that have data elsewhere stay where they are.

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
    if len(a.pool.bufts) > 1 and not nodes:
        return False
    return bool(a.alloc(g, ints(a.node_ids) if nodes else NULL, ints(a.leaf_ids) if leafs else NULL))

def alloc_graph_once(galloc, graph, size_t size):
    """Places the tensors of a new graph like ggml_gallocr_alloc_graph, if they need no more than `size` bytes.

    Nothing is recorded: the graph will not be allocated again.
    """
    enter(b"alloc_graph_once")
    return bool(galloc_arg(galloc).alloc_once(arg_graph(graph, b"graph"), size))

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
    if not 0 <= i < len(a.pool.bufts):
        fail(ValueError, f"buffer_id is {i}: there are {len(a.pool.bufts)} buffer types")
    return a.pool.size(i)
