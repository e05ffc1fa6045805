"""Backends: their buffers, graphs, plans and events; the settings of the CPU backend."""
import ctypes

from .._core cimport (
    arg_address, arg_bool, arg_callback, arg_graph, arg_size, arg_tensor, enter, fail, has_gil, let_go, outside,
    section_alone,
)
from .._graph.graph cimport threads
from .._handle cimport HANDLE, find
from .device cimport Backend, CpuBackend, Device, Event, Plan, backend_arg, buft_arg, cpu_device, live
from .. import _structs
from .._core import as_callback
from .._system.threadpool import threadpool_threads

# ---- backends --------------------------------------------------------------------------------------------------------
def ggml_backend_guid(backend):
    """Returns the 16 bytes that identify the kind of a backend.

    Args:
        backend: handle of a backend.
    Returns:
        Pointer to an array of 16 bytes (ggml_guid_t_ctypes), equal for all backends of a kind; a false pointer if a
        backend that is written in Python has none.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_guid")
    guid = backend_arg(backend, "backend").guid()
    return ctypes.pointer(guid) if guid is not None else _structs.ggml_guid_t_ctypes()

def ggml_backend_name(backend):
    """Returns the name of a backend, which is the name of its device unless a callback says otherwise.

    Args:
        backend: handle of a backend.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_name")
    return backend_arg(backend, "backend").name()

def ggml_backend_free(backend):
    """Frees a backend; buffers that were allocated with it stay.

    A meta backend frees the backends of its members, and a backend that is written in Python runs its free
    callback, if it has one.

    Args:
        backend: handle of a backend; None is ignored.
    Returns:
        None.
    Raises:
        TypeError: backend is 0 or not a backend.
        RuntimeError: backend was freed already, or never was a handle.
    """
    enter(b"ggml_backend_free")
    if backend is not None:
        backend_arg(backend, "backend").release()

def ggml_backend_get_default_buffer_type(backend):
    """Returns the buffer type that a backend uses by default.

    Args:
        backend: handle of a backend.
    Returns:
        Handle of the buffer type; for the CPU, that of ggml_backend_cpu_buffer_type.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_get_default_buffer_type")
    return HANDLE(backend_arg(backend, "backend").buft())

def ggml_backend_alloc_buffer(backend, size):
    """Allocates a buffer of a backend's default type.

    Args:
        backend: handle of a backend.
        size: bytes, 0 or more.
    Returns:
        Handle of the new buffer (int), or None if the memory is not available.
    Raises:
        TypeError: backend is not a backend, or size is not an integer.
        ValueError: size is negative.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_alloc_buffer")
    return HANDLE(backend_arg(backend, "backend").buft().alloc(arg_size(size, b"size")))

def ggml_backend_get_alignment(backend):
    """Returns the alignment of tensors in a backend's default buffers.

    Args:
        backend: handle of a backend.
    Returns:
        Bytes, a power of two; 32 for the CPU.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_get_alignment")
    return backend_arg(backend, "backend").buft().alignment()

def ggml_backend_get_max_size(backend):
    """Returns the size of the largest buffer of a backend's default type.

    Args:
        backend: handle of a backend.
    Returns:
        Bytes; 2**64 - 1 if the type has no limit, which is the case for the CPU.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_get_max_size")
    return backend_arg(backend, "backend").buft().max_size()

def ggml_backend_get_device(backend):
    """Returns the device that a backend runs on.

    Args:
        backend: handle of a backend.
    Returns:
        Handle of the device, or None for a backend that is written in Python and that no device made.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_get_device")
    return HANDLE(backend_arg(backend, "backend").device)

def ggml_backend_synchronize(backend):
    """Waits until a backend has completed all work that it has started.

    The CPU has nothing to wait for: its calls return when the work is done.

    Args:
        backend: handle of a backend.
    Returns:
        None.
    Raises:
        TypeError: backend is None or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_synchronize")
    backend_arg(backend, "backend").synchronize()

def ggml_backend_graph_plan_create(backend, cgraph):
    """Prepares a graph for repeated computation on a backend.

    The CPU's plan refers to the graph and does not copy it: nodes that are added later are computed too.

    Args:
        backend: handle of a backend.
        cgraph: the graph (ggml_cgraph pointer); it must live as long as the plan is used.
    Returns:
        Handle of the plan (int), for ggml_backend_graph_plan_compute. Free it with ggml_backend_graph_plan_free.
    Raises:
        TypeError: backend is not a backend, or cgraph is not a graph.
        RuntimeError: the backend or the graph was freed.
    """
    enter(b"ggml_backend_graph_plan_create")
    cdef Backend b = backend_arg(backend, "backend")
    return HANDLE(b.plan_new(arg_graph(cgraph, b"cgraph"), cgraph))

cdef Plan plan_of(Backend b, object plan):
    cdef Plan p = <Plan>find(plan, Plan, "plan")
    if p.keep is not b:
        fail(ValueError, "plan was made by another backend")
    return p

def ggml_backend_graph_plan_free(backend, plan):
    """Frees a plan; its graph stays.

    Args:
        backend: handle of the backend that made the plan.
        plan: handle of the plan.
    Returns:
        None.
    Raises:
        TypeError: backend is not a backend, or plan is None or not a plan.
        ValueError: another backend made the plan.
        RuntimeError: the backend or the plan was freed already.
    """
    enter(b"ggml_backend_graph_plan_free")
    cdef Backend b = backend_arg(backend, "backend")
    b.plan_free(plan_of(b, plan))

def ggml_backend_graph_plan_compute(backend, plan):
    """Computes the graph of a plan.

    Args:
        backend: handle of the backend that made the plan.
        plan: handle of the plan.
    Returns:
        Status, with the same meaning as that of ggml_backend_graph_compute.
    Raises:
        TypeError: backend is not a backend, or plan is None or not a plan.
        ValueError: another backend made the plan, or a node does not fit its operands.
        RuntimeError: the backend, the plan or the graph was freed, or an operation failed.
    """
    enter(b"ggml_backend_graph_plan_compute")
    cdef Backend b = backend_arg(backend, "backend")
    return b.plan_compute(plan_of(b, plan))

cdef Backend computing_backend(object backend):
    """The backend. Threads share the CPU's; those of programs, and of several devices, compute while no other runs."""
    cdef Backend b = backend_arg(backend, "backend")
    if has_gil() or type(b) is CpuBackend:
        return b
    section_alone()                         # another thread may have freed it before
    return backend_arg(backend, "backend")

def ggml_backend_graph_compute(backend, cgraph):
    """Computes all nodes of a graph on a backend and waits for the results.

    All tensors must lie in memory that the backend can use. The CPU releases the GIL, stops at the next node on
    Ctrl-C, and raises the exceptions of Python callbacks here.

    Args:
        backend: handle of a backend.
        cgraph: the graph (ggml_cgraph pointer), allocated.
    Returns:
        GGML_STATUS_SUCCESS (0); GGML_STATUS_ABORTED (1) if the abort callback of a CPU backend stopped it;
        GGML_STATUS_FAILED (-1) if the graph_compute callback of a backend that is written in Python returned 0.
    Raises:
        TypeError: backend is not a backend, or cgraph is not a graph.
        ValueError: a tensor has no data, or a node's type, shape or parameters do not fit its operands.
        RuntimeError: the backend or a tensor was freed, or an operation failed.
        MemoryError: there is no memory for intermediate values of operations.
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    enter(b"ggml_backend_graph_compute")
    cdef Backend b = computing_backend(backend)
    cdef int status = b.compute(arg_graph(cgraph, b"cgraph"))
    b.synchronize()
    return status

def ggml_backend_graph_compute_async(backend, cgraph):
    """Starts computing a graph on a backend; ggml_backend_synchronize waits for the end.

    The CPU completes the graph before it returns.

    Args:
        backend: handle of a backend.
        cgraph: the graph (ggml_cgraph pointer), allocated. Keep it and its tensors until the work is done.
    Returns:
        Status, as of ggml_backend_graph_compute; if the backend continues after the call, the status of the start.
    Raises:
        TypeError: backend is not a backend, or cgraph is not a graph.
        ValueError: a tensor has no data, or a node's type, shape or parameters do not fit its operands.
        RuntimeError: the backend or a tensor was freed, or an operation failed.
        MemoryError: there is no memory for intermediate values of operations.
    """
    enter(b"ggml_backend_graph_compute_async")
    cdef Backend b = computing_backend(backend)
    return b.compute(arg_graph(cgraph, b"cgraph"))

def ggml_backend_supports_op(backend, op):
    """Tells whether a backend can compute a node.

    The CPU checks the operation, types, shapes and parameters; data need not be allocated. Leafs and views, which
    need no computation, are supported.

    Args:
        backend: handle of a backend.
        op: the node: any tensor, any shape.
    Returns:
        True or False.
    Raises:
        TypeError: backend is not a backend, or op is not a tensor.
        RuntimeError: the backend or the node was freed.
    """
    enter(b"ggml_backend_supports_op")
    return bool(backend_arg(backend, "backend").supports_op(arg_tensor(op, b"op")))

def ggml_backend_supports_buft(backend, buft):
    """Tells whether a backend can compute with tensors in buffers of a type.

    The CPU supports its own types and every type for which ggml_backend_buft_is_host is True.

    Args:
        backend: handle of a backend.
        buft: handle of a buffer type.
    Returns:
        True or False.
    Raises:
        TypeError: backend is not a backend, or buft is not a buffer type.
        RuntimeError: one of the handles is not live.
    """
    enter(b"ggml_backend_supports_buft")
    return bool(backend_arg(backend, "backend").supports_buft(buft_arg(buft, "buft")))

def ggml_backend_offload_op(backend, op):
    """Tells whether a backend should compute a node although the node's weights lie in host memory.

    The scheduler then copies the weights to the backend, if it was made with op_offload.

    Args:
        backend: handle of a backend.
        op: the node: any tensor, any shape.
    Returns:
        True or False; the CPU always answers False.
    Raises:
        TypeError: backend is not a backend, or op is not a tensor.
        RuntimeError: the backend or the node was freed.
    """
    enter(b"ggml_backend_offload_op")
    return bool(backend_arg(backend, "backend").offload_op(arg_tensor(op, b"op")))

# ---- events ----------------------------------------------------------------------------------------------------------
cdef object value_of(object o):
    return getattr(o, "value", None)

def ggml_backend_event_new(device):
    """Creates an event: a mark in the sequence of a backend's work that others can wait for.

    Args:
        device: handle of a device, or of a backend as in older releases; None for no event.
    Returns:
        Handle of the event (int); None if device is None or supports no events.
    Raises:
        TypeError: device is 0, or neither a device nor a backend.
        RuntimeError: device is not a live handle.
    """
    enter(b"ggml_backend_event_new")
    if device is None:
        return None
    address = device if type(device) is int else outside(value_of, device)
    if type(address) is int and isinstance(live.get(address), Backend):
        return HANDLE(backend_arg(device, "device").event_new())
    return HANDLE((<Device>find(device, Device, "device")).event_new())

def ggml_backend_event_free(event):
    """Frees an event.

    Args:
        event: handle of an event; None is ignored.
    Returns:
        None.
    Raises:
        TypeError: event is 0 or not an event.
        RuntimeError: event was freed already, or never was a handle.
    """
    enter(b"ggml_backend_event_free")
    if event is not None:
        (<Event>find(event, Event, "event")).release()

def ggml_backend_event_record(event, backend=None):
    """Places an event after all work that a backend has started so far.

    Args:
        event: handle of an event.
        backend: handle of the backend whose work counts; None (the default) is the backend that made the event.
    Returns:
        None.
    Raises:
        TypeError: event is not an event, or backend is not a backend.
        RuntimeError: the event or the backend was freed.
    """
    enter(b"ggml_backend_event_record")
    cdef Event e = <Event>find(event, Event, "event")
    e.record(backend_arg(backend, "backend") if backend is not None else None)

def ggml_backend_event_synchronize(event):
    """Blocks the caller until the work before an event's mark is complete.

    Work of the CPU is always complete.

    Args:
        event: handle of an event, recorded before.
    Returns:
        None.
    Raises:
        TypeError: event is None or not an event.
        RuntimeError: event was freed, or never was a handle.
    """
    enter(b"ggml_backend_event_synchronize")
    (<Event>find(event, Event, "event")).synchronize()

def ggml_backend_event_wait(backend, event):
    """Makes the later work of a backend wait for an event of another backend, without blocking the caller.

    If a backend that is written in Python has no event_wait callback, the call waits itself.

    Args:
        backend: handle of the backend that waits.
        event: handle of an event, recorded before.
    Returns:
        None.
    Raises:
        TypeError: backend is not a backend, or event is not an event.
        RuntimeError: the backend or the event was freed.
    """
    enter(b"ggml_backend_event_wait")
    cdef Backend b = backend_arg(backend, "backend")
    (<Event>find(event, Event, "event")).wait(b)

# ---- the CPU backend -------------------------------------------------------------------------------------------------
def ggml_backend_cpu_init():
    """Creates a CPU backend that uses all threads the CPU offers.

    Returns:
        Handle of the backend (int). Free it with ggml_backend_free.
    See also:
        ggml_backend_cpu_set_n_threads.
    """
    enter(b"ggml_backend_cpu_init")
    return HANDLE(cpu_device.init(None))

def ggml_backend_is_cpu(backend):
    """Tells whether a backend computes on the CPU.

    Args:
        backend: handle of a backend, or None.
    Returns:
        True for backends of ggml_backend_cpu_init and of CPU devices; False for others and for None.
    Raises:
        TypeError: backend is 0 or not a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_is_cpu")
    return backend is not None and isinstance(backend_arg(backend, "backend"), CpuBackend)

cdef CpuBackend cpu_arg(object backend):
    cdef Backend b = backend_arg(backend, "backend_cpu")
    if not isinstance(b, CpuBackend):
        fail(ValueError, "backend_cpu is another kind of backend: need a CPU backend")
    return <CpuBackend>b

def ggml_backend_cpu_set_n_threads(backend_cpu, n_threads):
    """Sets the number of threads that a CPU backend computes with.

    Args:
        backend_cpu: handle of a CPU backend.
        n_threads: 1 to 512, or a negative number for as many as the CPU offers. No more than that are started.
    Returns:
        None.
    Raises:
        TypeError: backend_cpu is not a backend, or n_threads is not an integer.
        ValueError: backend_cpu is another kind of backend, or n_threads is 0 or above 512.
        RuntimeError: backend_cpu was freed, or never was a handle.
    """
    enter(b"ggml_backend_cpu_set_n_threads")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    b.n_threads = threads(n_threads, "n_threads")

def ggml_backend_cpu_set_threadpool(backend_cpu, threadpool):
    """Makes a CPU backend use the number of threads of a thread pool.

    The threads themselves belong to OpenMP: the pool's other parameters have no effect.

    Args:
        backend_cpu: handle of a CPU backend.
        threadpool: handle from ggml_threadpool_new, or None, which leaves the number of threads as it is.
    Returns:
        None.
    Raises:
        TypeError: backend_cpu is not a backend.
        ValueError: backend_cpu is another kind of backend.
        RuntimeError: the backend or the thread pool was freed, or never was a handle.
    """
    enter(b"ggml_backend_cpu_set_threadpool")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    if threadpool is not None:
        b.n_threads = threads(threadpool_threads(threadpool), "n_threads")
    b.threadpool = threadpool

def ggml_backend_cpu_set_abort_callback(backend_cpu, abort_callback, abort_callback_data):
    """Sets a function that can stop the computations of a CPU backend.

    One thread calls it before each node of a graph. An exception that it raises stops the computation too and is
    raised by the compute call. The backend keeps the callback alive.

    Args:
        backend_cpu: handle of a CPU backend.
        abort_callback: callback(data) -> bool: a Python callable, a ggml_abort_callback or the address of a C
            function. True stops with GGML_STATUS_ABORTED. None removes the callback.
        abort_callback_data: value for data, an address or None; the callback receives it as int or None.
    Returns:
        None.
    Raises:
        TypeError: backend_cpu is not a backend, or abort_callback is not a function of this signature.
        ValueError: backend_cpu is another kind of backend, or there is no function at the address.
        RuntimeError: backend_cpu was freed, or never was a handle.
    """
    enter(b"ggml_backend_cpu_set_abort_callback")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    callback = as_callback(abort_callback, _structs.ggml_abort_callback)
    cdef void *function = arg_callback(callback, _structs.ggml_abort_callback, b"abort_callback")
    cdef void *data = arg_address(abort_callback_data, b"abort_callback_data")
    let_go(b.callback)
    b.abort, b.abort_data, b.callback = function, data, (callback, abort_callback_data)

def ggml_backend_cpu_set_use_ref(backend_cpu, use_ref):
    """Chooses between the plain C kernels and the fastest kernels for a CPU backend.

    The plain kernels are the reference to compare others with; they are slower.

    Args:
        backend_cpu: handle of a CPU backend.
        use_ref: True for the plain C kernels, False (as after ggml_backend_cpu_init) for those of the best
            instruction set.
    Returns:
        None.
    Raises:
        TypeError: backend_cpu is not a backend, or use_ref has no truth value.
        ValueError: backend_cpu is another kind of backend.
        RuntimeError: backend_cpu was freed, or never was a handle.
    """
    enter(b"ggml_backend_cpu_set_use_ref")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    b.use_ref = arg_bool(use_ref, b"use_ref")
