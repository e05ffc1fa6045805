"""The scheduler: computes graphs on several backends.

A graph is prepared in three steps: the assignment of its nodes to backends (sched_assign), the splits with the copies
between backends (sched_split), and memory (alloc). What was prepared is used again for a graph that equals the last
one, tensor by tensor.
"""
import ctypes
import os

from cpython.pythread cimport PyThread_get_thread_ident
from libc.string cimport memcpy, memset

from .._core cimport (
    GGML_STATUS_ALLOC_FAILED, GGML_STATUS_SUCCESS, GGML_TENSOR_FLAG_INPUT, arg_bool, arg_buffer, arg_graph, arg_int32,
    arg_size, arg_tensor, engine, enter, fail, gg_pins, gg_region, ggml_cgraph, ggml_tensor, graph_new, is_a, let_go,
    pins_hold, pins_release, wrap_tensor,
)
from .._backend.device cimport Backend, BufferType, CpuBackend, Event, backend_arg, copy, live
from .._handle cimport HANDLE, Handle, find, handles, opened, set_title
from .alloc cimport Galloc, new_galloc
from .alloc_layout cimport number_of
from .alloc_record cimport DIFFERS, SAME, Record
from .graph cimport arg_callable, arg_user_data
from .sched_assign cimport MAX_BACKENDS, Assignment, assign, new_assignment
from .sched_split cimport Input, Split, Splits, new_splits, plan_memory
from .. import _structs
from .._core import run_callback

cdef enum:
    PARALLEL_COPIES = 4        # of each input that is copied, with parallel=True
    CANCELLED = -50            # the status of a split whose computation the user's callback has ended

cdef class GraphPins:
    """Keeps the memory of a graph while backends are asked about it: their callbacks could free it."""
    cdef gg_pins pins
    cdef gg_region *enclosing  # the region of the graph's own lists
    cdef list owners           # of memory that is not the library's

    cdef int hold(self, ggml_cgraph *g) except -1:
        self.release()
        pins_hold(&self.pins, self.owners, g.leafs, g.n_leafs)
        pins_hold(&self.pins, self.owners, g.nodes, g.n_nodes)
        self.enclosing = engine.region_of_data(g)
        if self.enclosing != NULL:
            engine.region_view(self.enclosing, 1)
        return 0

    cdef int release(self) except -1:
        pins_release(&self.pins)
        memset(&self.pins, 0, sizeof(self.pins))
        if self.enclosing != NULL:
            engine.region_view(self.enclosing, -1)
        self.enclosing, self.owners = NULL, []
        return 0

# ---- preparing a graph -----------------------------------------------------------------------------------------------
cdef class Sched(Handle):
    """A scheduler with the graph that it has prepared last."""
    cdef list backends, bufts
    cdef Galloc galloc
    cdef Assignment assignment
    cdef Splits splits
    cdef int n_splits          # of the last graph; `reset` does not change it
    cdef list events           # of each backend: an Event for each copy of the inputs, or None; empty with one copy
    cdef object callback, user_data      # of ggml_backend_sched_set_eval_callback
    # The thread whose call works with a graph, 0: none. Callbacks and other threads must not change it.
    cdef unsigned long worker
    cdef GraphPins pins
    cdef bint repeatable       # an equal graph is split equally: the backends' answers depend on the graph alone
    cdef bint assigned         # `assignment` holds the last graph
    cdef Record record         # of the last graph that was allocated,
    cdef dict recorded_by_user  # and the user's assignments for it
    cdef ggml_cgraph *planned  # the graph to compute next: it has its memory; NULL: none
    cdef int planned_nodes     # how many nodes it had
    cdef object graph          # the object that the caller gave, which keeps it alive

    cdef int split(self, ggml_cgraph *g) except -1:
        """Assigns the nodes of a graph to backends, and cuts it into splits."""
        self.forget()
        self.check_backends()
        self.assignment.read_graph(g)
        if not self.repeatable:
            self.pins.hold(g)
        assign(self.assignment, g)
        self.splits.build(g)
        self.n_splits = len(self.splits.splits)
        self.assigned = True
        return 0

    cdef bint reserve(self, ggml_cgraph *g) except -1:
        """Splits a graph, and allocates the buffers that it needs; False: there is no memory."""
        cdef list sizes
        self.split(g)
        sizes = plan_memory(self.splits, g, self.galloc, False)
        if sizes:
            self.synchronize()                           # buffers may be replaced
        return self.galloc.grow(sizes)

    cdef bint alloc(self, ggml_cgraph *g, object graph) except -1:
        """Gives the tensors of a graph their memory; False: there is none."""
        cdef int similarity = DIFFERS
        self.splits.current_copy = (self.splits.current_copy + 1) % self.splits.n_copies
        if self.splits.n_copies == 1:
            self.synchronize()
        self.check_backends()
        if self.repeatable and self.assignment.by_user == self.recorded_by_user:
            similarity = self.record.compare(g, self.galloc.pool)
        if similarity == DIFFERS and not self.reserve(g):
            return False
        if similarity != DIFFERS and self.record.index is not self.assignment.index:
            self.galloc.replace_tensors(self.assignment.index, self.record.index)
            self.assignment.index = self.record.index
            self.splits.set_nodes(g)
        if similarity != SAME:
            self.galloc.place_tensors()
        if similarity == DIFFERS:
            self.record.take(g, self.assignment.index, self.assignment.refs, self.galloc.pool)
            self.recorded_by_user = dict(self.assignment.by_user)
        self.planned, self.planned_nodes, self.graph, self.assigned = g, g.n_nodes, graph, True
        return True

    cdef int synchronize(self) except -1:
        cdef Backend b
        for b in self.backends:
            if <size_t>b.at in live:
                b.synchronize()
        return 0

    cdef int check_backends(self) except -1:
        cdef Handle b
        for b in self.backends:
            if <size_t>b.at not in live:
                fail(RuntimeError, "a backend of the scheduler was freed")
        return 0

    cdef int reset(self) except -1:
        """Ends work with the last graph. Its splits and its record remain, since an equal graph may follow."""
        self.synchronize()
        self.splits.redirect(False)
        self.planned, self.graph, self.assigned = NULL, None, False
        self.assignment.by_user = {}
        return 0

    cdef int forget(self) except -1:
        """Drops the last graph, its splits and its record."""
        self.splits.clear()
        self.assignment.index.clear()
        self.record.forget()
        self.planned, self.graph, self.assigned = NULL, None, False
        return 0

    cdef int release(self) except -1:
        cdef Event e
        self.reset()
        self.forget()
        for events in self.events:
            for e in events:
                if e is not None:
                    e.release()
        self.galloc.release()
        return self.close()

set_title(Sched, "scheduler")

# ---- computing -------------------------------------------------------------------------------------------------------
cdef int compute(Sched s, ggml_cgraph *g, object graph) except? -99:
    """Computes a graph, which is allocated first unless it is the last one that was."""
    if (s.planned != g or s.planned_nodes != g.n_nodes) and not s.alloc(g, graph):
        return GGML_STATUS_ALLOC_FAILED
    s.splits.redirect(True)
    try:
        return compute_splits(s)
    finally:
        s.splits.redirect(False)

cdef int compute_splits(Sched s) except? -99:
    """Computes the splits, each after the copies that it needs; returns the status of the backend that stopped.

    With several copies of the inputs an event for each backend and copy tells when the copy is no longer read.
    """
    cdef Split split
    cdef Event e
    cdef Backend b
    cdef int status
    for split in s.splits.splits:
        b = s.backends[split.backend]
        for source in split.sources:
            (<Backend>s.backends[source]).synchronize()
        e = s.events[split.backend][s.splits.current_copy] if s.events else None
        copy_inputs(s, split, b, e)
        status = compute_observed(s, split, b, s.callback) if s.callback is not None else b.compute(split.graph)
        if status == CANCELLED:
            return GGML_STATUS_SUCCESS
        if status:
            return status
        if e is not None and split.inputs:
            e.record(b)
    return GGML_STATUS_SUCCESS

cdef int copy_inputs(Sched s, Split split, Backend b, Event e) except -1:
    """Copies the inputs of a split to its backend b, when earlier work no longer reads the copies (event e)."""
    cdef Backend a
    cdef Input x
    cdef ggml_tensor *source
    cdef ggml_tensor *target
    for x in split.inputs:
        source = s.assignment.index.tensors[x.slot]
        target = <ggml_tensor *><size_t>x.copies[s.splits.current_copy]
        a = s.backends[x.backend]
        if source.flags & GGML_TENSOR_FLAG_INPUT:        # not asynchronously: the user may write it after the call
            e.synchronize() if e is not None else b.synchronize()
            copy(source, target)
            continue
        e.wait(b) if e is not None else b.synchronize()
        if not a.copy_async(b, source, target):
            a.synchronize()
            b.synchronize()
            copy(source, target)
    return 0

cdef int compute_observed(Sched s, Split split, Backend b, object callback) except? -99:
    """Computes a split in parts, each of which ends with a node whose result the user's callback wants to see."""
    cdef ggml_cgraph *window
    cdef int i, begin = 0, n = split.graph.n_nodes, status
    cdef bint wanted
    if s.splits.window == NULL:
        s.splits.window = graph_new(s.splits.arena, s.planned_nodes, False)
    window = s.splits.window
    for i in range(n):
        wanted = ask(s, callback, split.graph.nodes[i], True)
        if not wanted and i + 1 < n:
            continue
        window.n_nodes = i + 1 - begin
        memcpy(window.nodes, split.graph.nodes + begin, <size_t>window.n_nodes * sizeof(void *))
        status = b.compute(window)
        if status:
            return status
        b.synchronize()
        if wanted and not ask(s, callback, split.graph.nodes[i], False):
            return CANCELLED
        begin = i + 1
    return GGML_STATUS_SUCCESS

cdef bint ask(Sched s, object callback, ggml_tensor *t, bint before) except -1:
    """What the user's callback answers: whether it wants a node's result, or, shown this, to continue."""
    return bool(run_callback(callback, (wrap_tensor(t), bool(before), s.user_data)))

# ---- the public functions --------------------------------------------------------------------------------------------
cdef Sched sched_arg(object o):
    return <Sched>find(o, Sched, "sched")

cdef Sched begin_work(object o):
    """The scheduler of a handle. Callbacks and other threads cannot work with it until end_work(), which a `finally`
    must call.
    """
    cdef Sched s = sched_arg(o)
    if s.worker:
        fail(RuntimeError, "sched is at work with a graph: a callback or another thread can't change that")
    s.worker = PyThread_get_thread_ident()
    return s

cdef int end_work(Sched s) except -1:
    s.worker = 0
    s.pins.release()
    return 0

def end_lost_work():
    """In a forked child: ends the calls of threads that the child does not have."""
    cdef Sched s
    for h in list(live.values()):
        if isinstance(h, Sched):
            s = <Sched>h
            if s.worker and s.worker != PyThread_get_thread_ident():
                end_work(s)

if hasattr(os, "register_at_fork"):                      # not on Windows
    os.register_at_fork(after_in_child=end_lost_work)

cdef int position(Sched s, object backend) except -1:
    cdef Backend b = backend_arg(backend, "backend")
    cdef int i
    for i in range(len(s.backends)):
        if s.backends[i] is b:
            return i
    fail(ValueError, "backend is none of the scheduler's")

cdef list arg_bufts(object bufts, list backends):
    """The buffer type of each backend: those that the caller gives, or the default types."""
    cdef Backend b
    cdef list types = [(<Backend>a).buft() for a in backends]
    if bufts is None or (is_a(bufts, ctypes._Pointer) or is_a(bufts, ctypes.c_void_p)) and not bufts:
        return types
    types = handles(bufts, len(backends), BufferType, "bufts")
    for i, b in enumerate(backends):
        if not b.supports_buft(types[i]):
            fail(ValueError, f"bufts[{i}] is {(<BufferType>types[i]).name().decode()}: "
                             f"{b.name().decode()} can't use such buffers")
    return types

def ggml_backend_sched_new(backends, bufts, n_backends, graph_size, parallel, op_offload=True):
    """Creates a scheduler, which computes graphs on several backends.

    It assigns each node to a backend, cuts the graph into splits of consecutive nodes for one backend, copies
    operands between them where one backend cannot read the other's memory, and allocates all tensors without data.

    Args:
        backends: array of n_backends backend handles, the preferred first. The last one also receives the graph's
            inputs (ggml_set_input) and should be able to compute every node, so it is usually a CPU backend.
        bufts: array of n_backends buffer type handles, the memory that each backend computes in; None for the
            backends' default types.
        n_backends: number of backends, 1 to 64.
        graph_size: number of nodes expected, 0 or more; larger graphs work too.
        parallel: True keeps 4 copies of what is copied between backends, so that the next graph can start before
            the last has ended; False keeps one.
        op_offload: True (the default) lets a backend copy weights from host memory for nodes that it wants
            (ggml_backend_offload_op). Older releases lack this parameter.
    Returns:
        Handle of the scheduler (int). Free it with ggml_backend_sched_free; keep the backends until then.
    Raises:
        TypeError: backends is None or no array, or an entry or another argument is of the wrong kind.
        ValueError: n_backends is not 1 to 64, graph_size is negative, an array has fewer entries or cannot be read,
            or a backend does not support its type in bufts.
        RuntimeError: an entry is not a live handle.
    """
    enter(b"ggml_backend_sched_new")
    cdef int n = arg_int32(n_backends, b"n_backends")
    if n < 1 or n > MAX_BACKENDS:
        fail(ValueError, f"n_backends is {n}: need 1 to {MAX_BACKENDS}")
    arg_size(graph_size, b"graph_size")
    cdef Sched s = Sched()
    s.backends = handles(backends, n, Backend, "backends")
    s.bufts = arg_bufts(bufts, s.backends)
    cdef int n_copies = PARALLEL_COPIES if arg_bool(parallel, b"parallel") else 1
    cdef bint offload = arg_bool(op_offload, b"op_offload")
    s.galloc = new_galloc(s.bufts)
    s.assignment = new_assignment(s.backends, s.galloc.pool, offload)
    s.splits = new_splits(s.assignment, s.bufts, n_copies)
    s.record, s.pins = Record(), GraphPins()
    s.repeatable = all([isinstance(b, CpuBackend) for b in s.backends])
    s.events = [[(<Backend>b).event_new() for _ in range(n_copies)] for b in s.backends] if n_copies > 1 else []
    opened(s.galloc)
    try:
        opened(s)
    except BaseException:
        s.galloc.close()
        raise
    return HANDLE(s)

def ggml_backend_sched_free(sched):
    """Frees a scheduler with the buffers that it allocated; the backends stay.

    Args:
        sched: handle of a scheduler, or None, for which nothing happens.
    Returns:
        None.
    Raises:
        TypeError: sched is 0 or something else than a scheduler.
        RuntimeError: sched was freed already, or is computing (the call comes from a callback or another thread).
    """
    enter(b"ggml_backend_sched_free")
    cdef Sched s
    if sched is not None:
        s = begin_work(sched)
        try:
            s.release()
        finally:
            end_work(s)

def ggml_backend_sched_reserve_size(sched, measure_graph, sizes):
    """Computes how much memory a graph would take on each backend, without allocating it.

    Like ggml_backend_sched_reset, it drops assignments of ggml_backend_sched_set_tensor_backend afterwards.

    Args:
        sched: handle of a scheduler.
        measure_graph: the graph (ggml_cgraph pointer).
        sizes: array of n_backends size_t (ctypes, NumPy or an address); receives the bytes. A buffer type that
            several backends share counts for the first of them, and the others receive 0.
    Returns:
        None.
    Raises:
        TypeError: sched is not a scheduler, measure_graph is not a graph, or sizes is not an array.
        ValueError: sizes is too short, or the graph is malformed.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
    enter(b"ggml_backend_sched_reserve_size")
    cdef Sched s = sched_arg(sched)
    cdef ggml_cgraph *g = arg_graph(measure_graph, b"measure_graph")
    cdef size_t n = len(s.backends), i
    cdef void *p
    arg_buffer(sizes, b"sizes", n * sizeof(size_t), &p)
    if p == NULL or not engine.readable(p, n * sizeof(size_t)):
        fail(TypeError, f"sizes is not an array of {n} size_t")
    begin_work(sched)
    try:
        s.split(g)
        need = plan_memory(s.splits, g, s.galloc, True)
        s.reset()
    finally:
        end_work(s)
    for i in range(n):
        (<size_t *>p)[i] = sum(need[i])

def ggml_backend_sched_reserve(sched, measure_graph):
    """Allocates buffers that suffice for a graph, so that later graphs of up to this size need no new ones.

    The graph's tensors are not placed. Like ggml_backend_sched_reset, it drops assignments of
    ggml_backend_sched_set_tensor_backend afterwards.

    Args:
        sched: handle of a scheduler.
        measure_graph: the graph (ggml_cgraph pointer), usually the largest one to come.
    Returns:
        True, or False if the memory is not available.
    Raises:
        TypeError: sched is not a scheduler, or measure_graph is not a graph.
        ValueError: the graph is malformed, for example with a view of a view.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
    enter(b"ggml_backend_sched_reserve")
    cdef Sched s = begin_work(sched)
    cdef bint done = False
    try:
        done = s.reserve(arg_graph(measure_graph, b"measure_graph"))
        s.reset()
    finally:
        end_work(s)
    return bool(done)

def ggml_backend_sched_get_n_backends(sched):
    """Returns the number of backends of a scheduler.

    Args:
        sched: handle of a scheduler.
    Returns:
        n_backends of ggml_backend_sched_new.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_get_n_backends")
    return len(sched_arg(sched).backends)

def ggml_backend_sched_get_backend(sched, i):
    """Returns a backend of a scheduler by its position.

    Args:
        sched: handle of a scheduler.
        i: 0 (the preferred backend) to ggml_backend_sched_get_n_backends(sched) - 1.
    Returns:
        Handle of the backend.
    Raises:
        TypeError: sched is not a scheduler, or i is not an integer.
        IndexError: i is negative or too large.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_get_backend")
    cdef Sched s = sched_arg(sched)
    cdef int k = arg_int32(i, b"i")
    if not 0 <= k < len(s.backends):
        fail(IndexError, f"i is {k}: the scheduler has {len(s.backends)} backends")
    return HANDLE(<Handle>s.backends[k])

def ggml_backend_sched_get_n_splits(sched):
    """Returns the number of splits of the last graph.

    A split is a range of consecutive nodes that one backend computes.

    Args:
        sched: handle of a scheduler.
    Returns:
        Number of splits, 0 before the first graph. ggml_backend_sched_reset does not change it.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_get_n_splits")
    return sched_arg(sched).n_splits

def ggml_backend_sched_get_n_copies(sched):
    """Returns how many copies a scheduler keeps of each tensor that it copies to another backend.

    Args:
        sched: handle of a scheduler.
    Returns:
        4 if it was made with parallel=True, otherwise 1.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_get_n_copies")
    return sched_arg(sched).splits.n_copies

def ggml_backend_sched_get_buffer_type(sched, backend):
    """Returns the buffer type that a scheduler allocates from for one of its backends.

    Args:
        sched: handle of a scheduler.
        backend: handle of one of its backends.
    Returns:
        Handle of the type: that of bufts in ggml_backend_sched_new, or the backend's default.
    Raises:
        TypeError: sched is not a scheduler, or backend is not a backend.
        ValueError: the scheduler does not have that backend.
        RuntimeError: the scheduler or the backend was freed.
    """
    enter(b"ggml_backend_sched_get_buffer_type")
    cdef Sched s = sched_arg(sched)
    return HANDLE(<Handle>s.bufts[position(s, backend)])

def ggml_backend_sched_get_buffer_size(sched, backend):
    """Returns the size of the buffers that a scheduler has allocated for one of its backends.

    Args:
        sched: handle of a scheduler.
        backend: handle of one of its backends.
    Returns:
        Bytes; 0 before the first allocation, and for a backend whose buffer type an earlier backend uses too.
    Raises:
        TypeError: sched is not a scheduler, or backend is not a backend.
        ValueError: the scheduler does not have that backend.
        RuntimeError: the scheduler or the backend was freed.
    """
    enter(b"ggml_backend_sched_get_buffer_size")
    cdef Sched s = sched_arg(sched)
    return s.galloc.pool.size(position(s, backend))

def ggml_backend_sched_set_tensor_backend(sched, node, backend):
    """Assigns a node to a backend explicitly, for all graphs until the next ggml_backend_sched_reset.

    Call it before ggml_backend_sched_alloc_graph. It takes precedence over the scheduler's own choice.

    Args:
        sched: handle of a scheduler.
        node: the node: any tensor, any shape.
        backend: handle of one of the scheduler's backends, which must support the node.
    Returns:
        None.
    Raises:
        TypeError: sched is not a scheduler, node is not a tensor, or backend is not a backend.
        ValueError: the scheduler does not have that backend.
        RuntimeError: the scheduler, the node or the backend was freed.
    """
    enter(b"ggml_backend_sched_set_tensor_backend")
    cdef Sched s = sched_arg(sched)
    s.assignment.by_user[<size_t>arg_tensor(node, b"node")] = position(s, backend)

def ggml_backend_sched_get_tensor_backend(sched, node):
    """Returns the backend to which a tensor of the last graph was assigned.

    Args:
        sched: handle of a scheduler.
        node: a node, an operand or a leaf of that graph: any tensor, any shape.
    Returns:
        Handle of the backend; None if the tensor has been assigned neither explicitly nor with a graph.
    Raises:
        TypeError: sched is not a scheduler, or node is not a tensor.
        RuntimeError: the scheduler or the tensor was freed.
    """
    enter(b"ggml_backend_sched_get_tensor_backend")
    cdef Sched s = sched_arg(sched)
    cdef ggml_tensor *t = arg_tensor(node, b"node")
    cdef int slot = number_of(s.assignment.index, t) if s.assigned else -1
    backend = s.assignment.slots[slot].backend if slot >= 0 else s.assignment.by_user.get(<size_t>t, -1)
    return HANDLE(<Handle>s.backends[backend]) if backend >= 0 else None

def ggml_backend_sched_split_graph(sched, graph):
    """Assigns the nodes of a graph to backends without allocating memory, to inspect the assignment.

    See it with ggml_backend_sched_get_tensor_backend and ggml_backend_sched_get_n_splits.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        None.
    Raises:
        TypeError: sched is not a scheduler, or graph is not a graph.
        ValueError: the graph is malformed, for example with a view of a view.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
    enter(b"ggml_backend_sched_split_graph")
    cdef Sched s = begin_work(sched)
    try:
        s.split(arg_graph(graph, b"graph"))
    finally:
        end_work(s)

def ggml_backend_sched_alloc_graph(sched, graph):
    """Assigns the nodes of a graph to backends and gives every tensor without data its memory.

    Set the graph's inputs afterwards, then call ggml_backend_sched_graph_compute. With CPU backends only, a graph
    that equals the last one tensor by tensor is not planned again. Without parallel, it first waits for work under
    way.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        True, or False if the memory is not available.
    Raises:
        TypeError: sched is not a scheduler, or graph is not a graph.
        ValueError: the graph is malformed, for example with a view of a view.
        RuntimeError: something was freed, the scheduler is computing, or no backend can compute a node.
    """
    enter(b"ggml_backend_sched_alloc_graph")
    cdef Sched s = begin_work(sched)
    try:
        return bool(s.alloc(arg_graph(graph, b"graph"), graph))
    finally:
        end_work(s)

def ggml_backend_sched_graph_compute(sched, graph):
    """Computes a graph on the backends of a scheduler and waits for the results.

    A graph that was not allocated by ggml_backend_sched_alloc_graph just before is allocated first.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer).
    Returns:
        GGML_STATUS_SUCCESS (0), also if the evaluation callback cancelled the rest; GGML_STATUS_ALLOC_FAILED (-2)
        if the memory is not available; or the status of the backend that stopped, as of ggml_backend_graph_compute.
    Raises:
        TypeError: sched is not a scheduler, or graph is not a graph.
        ValueError: the graph is malformed, or a node does not fit its operands.
        RuntimeError: something was freed, the scheduler is computing already, no backend can compute a node, or an
            operation failed.
    """
    enter(b"ggml_backend_sched_graph_compute")
    cdef Sched s = begin_work(sched)
    cdef int status = GGML_STATUS_SUCCESS
    try:
        try:
            status = compute(s, arg_graph(graph, b"graph"), graph)
        finally:
            s.synchronize()
    finally:
        end_work(s)
    return status

def ggml_backend_sched_graph_compute_async(sched, graph):
    """Starts computing a graph on the backends of a scheduler; ggml_backend_sched_synchronize waits for the end.

    CPU backends complete their splits before the call returns.

    Args:
        sched: handle of a scheduler.
        graph: the graph (ggml_cgraph pointer); keep it and its tensors until the work is done.
    Returns:
        Status, as of ggml_backend_sched_graph_compute.
    Raises:
        TypeError: sched is not a scheduler, or graph is not a graph.
        ValueError: the graph is malformed, or a node does not fit its operands.
        RuntimeError: something was freed, the scheduler is computing already, no backend can compute a node, or an
            operation failed. Before an exception is raised, the call waits for all backends.
    """
    enter(b"ggml_backend_sched_graph_compute_async")
    cdef Sched s = begin_work(sched)
    try:
        try:
            return compute(s, arg_graph(graph, b"graph"), graph)
        except BaseException:
            s.synchronize()
            raise
    finally:
        end_work(s)

def ggml_backend_sched_synchronize(sched):
    """Waits until all backends of a scheduler have completed their work.

    Args:
        sched: handle of a scheduler.
    Returns:
        None.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_synchronize")
    sched_arg(sched).synchronize()

def ggml_backend_sched_reset(sched):
    """Drops the last graph and all explicit assignments; the buffers stay.

    Waits for work under way first. What was planned for the last graph is kept for graphs that equal it.

    Args:
        sched: handle of a scheduler.
    Returns:
        None.
    Raises:
        TypeError: sched is None or something else than a scheduler.
        RuntimeError: sched was freed, or is computing (the call comes from a callback or another thread).
    """
    enter(b"ggml_backend_sched_reset")
    cdef Sched s = begin_work(sched)
    try:
        s.reset()
    finally:
        end_work(s)

def ggml_backend_sched_set_eval_callback(sched, callback, user_data):
    """Sets a function that observes the nodes while a scheduler computes.

    It is called once or twice for each node: with ask=True before the node is computed, to tell whether it wants
    the result; if so, with ask=False when the result is there. Nodes up to a wanted one are computed together. An
    exception that it raises ends the compute call and is raised there.

    Args:
        sched: handle of a scheduler.
        callback: callback(tensor, ask, user_data) -> bool: a Python callable, a ggml_backend_sched_eval_callback or
            the address of a C function. False with ask=False cancels the rest of the graph. None removes it.
        user_data: value for the callback: None, an int or an address; of other objects, the address is taken.
    Returns:
        None.
    Raises:
        TypeError: sched is not a scheduler, or callback is not a function or one of another signature.
        ValueError: callback is an address at which there is no function.
        RuntimeError: sched was freed, or never was a handle.
    """
    enter(b"ggml_backend_sched_set_eval_callback")
    cdef Sched s = sched_arg(sched)
    function = arg_callable(callback, _structs.ggml_backend_sched_eval_callback)
    data = arg_user_data(user_data)
    let_go((s.callback, s.user_data))
    s.callback, s.user_data = function, data
