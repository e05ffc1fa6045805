"""Buffer types, buffers, devices, registries, backends and events: the base classes, and those of the CPU."""
import ctypes
import os
import platform
from pathlib import Path

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t
from libc.stdlib cimport free
from libc.string cimport memmove, memset

from .._core cimport (
    GGML_MAX_SRC, GGML_STATUS_SUCCESS, GGML_TENSOR_FLAG_LOSS, GG_BUFFER, GG_MESSAGE, allocate, arg_graph,
    buffer_region, buffer_retire, cbool, check_file, engine, fail, gg_call, gg_nbytes, gg_region, ggml_cgraph,
    ggml_tensor, name_text, region_add, region_leave,
)
from .._enums cimport GGML_OP_NONE
from .._handle cimport HANDLE, Handle, handle_at, opened, set_title
from .._graph.graph cimport run

cdef extern from "runtime/poison.h" nogil:
    void gg_unpoison(const void *p, size_t n)

cdef enum:
    ALIGNMENT = 32

# ---- the base classes ------------------------------------------------------------------------------------------------
cdef class BufferType(Handle):
    cdef bytes name(self): raise NotImplementedError
    cdef Buffer alloc(self, size_t size): raise NotImplementedError
    cdef size_t alignment(self) except 0: return ALIGNMENT
    cdef size_t max_size(self) except 0: return <size_t>-1
    cdef size_t alloc_size(self, ggml_tensor *t) except? 0: return gg_nbytes(t)
    cdef bint is_host(self) except -1: return False

cdef class Buffer(Handle):
    cdef bytes name(self): return self.buft.name()
    cdef int init_tensor(self, ggml_tensor *t) except? -9: return GGML_STATUS_SUCCESS
    cdef int set(self, ggml_tensor *t, const void *data, size_t offset, size_t size) except -1:
        raise NotImplementedError
    cdef int get(self, ggml_tensor *t, void *data, size_t offset, size_t size) except -1:
        raise NotImplementedError
    cdef int fill(self, ggml_tensor *t, int value, size_t offset, size_t size) except -1:
        cdef void *block = allocate(1, size)
        memset(block, value, size)
        try:
            return self.set(t, block, offset, size)
        finally:
            free(block)
    cdef bint copy_in(self, ggml_tensor *src, ggml_tensor *dst) except -1: return False
    cdef int clear(self, int value) except -1: raise NotImplementedError
    cdef int reset(self) except -1: return 0
    cdef int release(self) except -1: return self.close()

cdef class Device(Handle):
    cdef bytes name(self): raise NotImplementedError
    cdef bytes description(self): return self.name()
    cdef tuple memory(self): return (0, 0)
    cdef int kind(self) except -1: raise NotImplementedError
    cdef tuple caps(self): return (False, False, False, False)
    cdef bytes id(self): return None
    cdef Backend init(self, bytes params): raise NotImplementedError
    cdef BufferType buft(self): raise NotImplementedError
    cdef BufferType host_buft(self): return None
    cdef Buffer from_ptr(self, void *p, size_t size, size_t max_tensor_size, object owner): return None
    cdef bint supports_op(self, ggml_tensor *t) except -1: raise NotImplementedError
    cdef bint supports_buft(self, BufferType buft) except -1: return buft is self.buft()
    cdef bint offload_op(self, ggml_tensor *t) except -1: return False
    cdef Event event_new(self): return None

cdef class Registry(Handle):
    cdef bytes name(self): raise NotImplementedError
    cdef list devices(self): return self.members
    cdef size_t proc(self, bytes name) except? 0: return 0

cdef class Event(Handle):
    """The base class itself is the event of a synchronous backend, whose work is done when a call returns."""
    cdef int record(self, Backend backend) except -1: return 0
    cdef int wait(self, Backend backend) except -1: return 0
    cdef int synchronize(self) except -1: return 0
    cdef int release(self) except -1: return self.close()

cdef class Plan(Handle):
    """A graph that is prepared once and computed repeatedly."""

cdef class Backend(Handle):
    cdef bytes name(self): return self.device.name()
    cdef object guid(self): raise NotImplementedError
    cdef BufferType buft(self): return self.device.buft()
    cdef int set_async(self, Buffer b, ggml_tensor *t, const void *data, size_t offset, size_t size) except -1:
        return b.set(t, data, offset, size) if b is not None else write(t, data, offset, size)
    cdef int get_async(self, Buffer b, ggml_tensor *t, void *data, size_t offset, size_t size) except -1:
        return b.get(t, data, offset, size) if b is not None else read(t, data, offset, size)
    cdef bint copy_async(self, Backend other, ggml_tensor *src, ggml_tensor *dst) except -1: return False
    cdef int synchronize(self) except -1: return 0
    cdef Handle plan_new(self, ggml_cgraph *g, object graph):
        cdef Plan plan = <Plan>opened(Plan())
        plan.graph, plan.keep = graph, self
        return plan
    cdef int plan_compute(self, Handle plan) except? -99: return self.compute(arg_graph((<Plan>plan).graph, b"plan"))
    cdef int plan_free(self, Handle plan) except -1: return plan.close()
    cdef int compute(self, ggml_cgraph *g) except? -99: raise NotImplementedError
    cdef bint supports_op(self, ggml_tensor *t) except -1: return self.device.supports_op(t)
    cdef bint supports_buft(self, BufferType buft) except -1: return self.device.supports_buft(buft)
    cdef bint offload_op(self, ggml_tensor *t) except -1: return self.device.offload_op(t)
    cdef Event event_new(self): return self.device.event_new() if self.device is not None else None
    cdef int release(self) except -1: return self.close()

cdef type _kind
for _kind, _words in ((BufferType, "buffer type"), (Buffer, "buffer"), (Device, "device"), (Event, "event"),
                      (Registry, "backend registry"), (Plan, "graph plan"), (Backend, "backend")):
    set_title(_kind, _words)

# ---- memory that the CPU reads and writes ----------------------------------------------------------------------------
cdef class HostBuffer(Buffer):
    cdef uint8_t *within(self, ggml_tensor *t, size_t offset, size_t size) except? NULL:
        """The address of a range of the tensor; raises if the caller moved its data pointer out of the buffer."""
        cdef size_t at = <size_t>t.data + offset - <size_t>self.base
        if at > self.size or size > self.size - at:
            fail(ValueError, f"tensor '{name_text(t)}' does not lie in its buffer: its data pointer was changed")
        return self.base + at

    cdef int set(self, ggml_tensor *t, const void *data, size_t offset, size_t size) except -1:
        memmove(self.within(t, offset, size), data, size)
        return 0

    cdef int get(self, ggml_tensor *t, void *data, size_t offset, size_t size) except -1:
        memmove(data, self.within(t, offset, size), size)
        return 0

    cdef int fill(self, ggml_tensor *t, int value, size_t offset, size_t size) except -1:
        memset(self.within(t, offset, size), value, size)
        return 0

    cdef bint copy_in(self, ggml_tensor *src, ggml_tensor *dst) except -1:
        cdef Buffer b = buffer_of_tensor(src)
        if b is not None and not isinstance(b, HostBuffer):
            return False
        read(src, self.within(dst, 0, gg_nbytes(dst)), 0, gg_nbytes(src))
        return True

    cdef int clear(self, int value) except -1:
        if self.own:
            gg_unpoison(self.base, self.size)
        memset(self.base, value, self.size)
        return 0

    cdef int release(self) except -1:
        self.close()
        return self.free_memory()

    cdef int free_memory(self) except -1:
        if self.own:
            buffer_retire(self.region)
        else:
            region_leave(GG_BUFFER, self.region)
        self.region = NULL
        return 0

cdef HostBuffer host_buffer(BufferType buft, void *p, size_t size, object owner):
    """A buffer of own memory (p NULL), or over the caller's; None: no memory."""
    cdef HostBuffer b = HostBuffer()
    b.buft, b.size, b.own = buft, size, p == NULL
    if p == NULL:
        b.region = buffer_region(size if size else 1)
        if b.region == NULL:
            return None
    else:
        b.region = <gg_region *>allocate(1, sizeof(gg_region))
        b.region.base, b.region.size = <uint8_t *>p, size
        region_add(GG_BUFFER, b.region)
        Py_INCREF(owner)
        b.region.owner = <PyObject *>owner
    b.base = b.region.base
    try:
        opened(b)
    except BaseException:
        b.free_memory()
        raise
    return b

# ---- the CPU ---------------------------------------------------------------------------------------------------------
GUID = (ctypes.c_uint8 * 16)(170, 103, 199, 67, 150, 230, 163, 138, 227, 175, 234, 146, 54, 188, 252, 137)

cdef class CpuBufferType(BufferType):
    cdef bytes name(self): return self.label
    cdef Buffer alloc(self, size_t size):
        return host_buffer(self, NULL, size, None) if size <= <size_t>1 << 62 else None
    cdef bint is_host(self) except -1: return self.host

cdef class CpuDevice(Device):
    """The CPU. The memory of a further one (`_new_cpu_device`) must be copied by others, like an accelerator's."""
    cdef bytes name(self): return self.label
    cdef bytes description(self): return cpu_name()
    cdef tuple memory(self): return ram()
    cdef int kind(self) except -1: return 1 if self.apart else 0          # GPU, CPU
    cdef tuple caps(self): return (False, False, True, True)
    cdef BufferType buft(self): return self.memory_kind
    cdef BufferType host_buft(self): return cpu_buft if self.apart else None
    cdef Event event_new(self): return <Event>opened(Event())
    cdef Buffer from_ptr(self, void *p, size_t size, size_t max_tensor_size, object owner):
        return host_buffer(self.mapped_kind, p, size, owner)

    cdef Backend init(self, bytes params):
        cdef CpuBackend b = CpuBackend()
        b.device = self
        b.n_threads = engine.default_threads()
        return <Backend>opened(b)

    cdef bint supports_op(self, ggml_tensor *t) except -1:
        cdef char[GG_MESSAGE] message
        cdef int k
        for k in range(GGML_MAX_SRC):
            if t.src[k] != NULL and not engine.tensor_usable(t.src[k]):
                return False
        if not engine.op_computes(t.op):
            return not engine.op_computes(t.op)            # NONE and views need no kernel
        return engine.check(t, message) == NULL

    cdef bint supports_buft(self, BufferType buft) except -1:
        return buft is self.memory_kind or buft is self.mapped_kind or (not self.apart and buft.is_host())

cdef class CpuBackend(Backend):
    cdef object guid(self): return GUID

    cdef int compute(self, ggml_cgraph *g) except? -99:
        cdef gg_call call
        memset(&call, 0, sizeof(call))
        call.n_threads, call.use_ref = self.n_threads, self.use_ref
        call.abort, call.abort_data = <cbool (*)(void *) noexcept nogil>self.abort, self.abort_data
        _callback = self.callback                        # stays alive if another one is set meanwhile
        return run(g, &call)

cdef class CpuRegistry(Registry):
    cdef dict procs

    cdef bytes name(self): return b"CPU"
    cdef size_t proc(self, bytes name) except? 0: return self.procs.get(name, 0)

cdef CpuDevice new_cpu(bytes name, bint apart):
    cdef CpuDevice d = <CpuDevice>opened(CpuDevice())
    d.label, d.apart = name, apart
    d.memory_kind, d.mapped_kind = cpu_buffer_type(d, name), cpu_buffer_type(d, name + b"_Mapped")
    return d

cdef CpuBufferType cpu_buffer_type(CpuDevice d, bytes name):
    cdef CpuBufferType buft = <CpuBufferType>opened(CpuBufferType())
    buft.label, buft.host, buft.device = name, not d.apart, d
    return buft

def _new_cpu_device(name=b"CPU1"):
    """Creates a further device on this CPU whose buffers other devices cannot use, to test what an accelerator needs.

    It is not registered. Returns its handle, for ggml_backend_dev_init, ggml_backend_device_register and the other
    functions of devices.
    """
    return HANDLE(new_cpu(name, True))

cdef bytes cpu_name():
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip().encode()
    except OSError:
        pass
    return (platform.processor() or platform.machine() or "CPU").encode()

class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of Windows: length, load, then total and available bytes."""
    _fields_ = [("length", ctypes.c_uint32), ("load", ctypes.c_uint32), ("values", ctypes.c_uint64 * 7)]

cdef tuple ram():
    """Bytes of physical memory: free, total."""
    if hasattr(os, "sysconf"):
        page = os.sysconf("SC_PAGE_SIZE")
        total = os.sysconf("SC_PHYS_PAGES") * page
        return (os.sysconf("SC_AVPHYS_PAGES") * page if "SC_AVPHYS_PAGES" in os.sysconf_names else total, total)
    status = _MemoryStatus(ctypes.sizeof(_MemoryStatus))
    ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return (status.values[1], status.values[0])

cpu_device = new_cpu(b"CPU", False)
cpu_buft = cpu_device.buft()
cdef CpuRegistry cpu_registry = <CpuRegistry>opened(CpuRegistry())
cpu_registry.members, cpu_registry.procs = [cpu_device], {}
cpu_device.registry = cpu_registry
all_devices = [cpu_device]
all_registries = [cpu_registry]

def _set_procs(procs):
    """Sets what ggml_backend_reg_get_proc_address finds: the addresses of C functions by name."""
    cpu_registry.procs = procs

# ---- tensors in buffers ----------------------------------------------------------------------------------------------
cdef bint buffer_dead(const ggml_tensor *t) except -1:
    cdef void *handle = t.view_src.buffer if t.view_src != NULL and engine.tensor_live(t.view_src) else t.buffer
    return handle != NULL and handle_at(handle) == NULL

cdef Buffer buffer_of_tensor(const ggml_tensor *t):
    cdef void *handle = t.buffer
    if t.view_src != NULL:
        if not engine.tensor_live(t.view_src):
            fail(RuntimeError, f"the tensor that '{name_text(t)}' is a view of was freed")
        handle = t.view_src.buffer
    if t.data == NULL:
        fail(ValueError, f"tensor '{name_text(t)}' has no data: it was not allocated")
    if handle == NULL:
        return None
    cdef PyObject *b = handle_at(handle)
    if b == NULL or not isinstance(<object>b, Buffer):
        fail(RuntimeError, f"tensor '{name_text(t)}' lies in a buffer that was freed")
    return <Buffer>b

cdef int in_context(const ggml_tensor *t) except -1:
    """Raises unless the elements of a tensor without a buffer lie in live memory."""
    cdef gg_region *r = engine.region_of_data(t.data)
    cdef size_t n = gg_nbytes(t)
    if r != NULL and n <= r.size - <size_t>(<uint8_t *>t.data - r.base):
        return check_file(r)
    if r == NULL and engine.readable(t.data, n):
        return 0
    fail(RuntimeError, f"tensor '{name_text(t)}' has data in memory that was freed")

cdef int bounds(const ggml_tensor *t, size_t offset, size_t size) except -1:
    cdef size_t n = gg_nbytes(t)
    if offset > n or size > n - offset:
        fail(ValueError, f"offset is {offset}, size is {size}: tensor '{name_text(t)}' has {n} bytes")
    return 0

cdef int write(ggml_tensor *t, const void *data, size_t offset, size_t size) except -1:
    cdef Buffer b
    bounds(t, offset, size)
    if size == 0:
        return 0
    b = buffer_of_tensor(t)
    if b is not None:
        return b.set(t, data, offset, size)
    in_context(t)
    memmove(<uint8_t *>t.data + offset, data, size)
    return 0

cdef int read(ggml_tensor *t, void *data, size_t offset, size_t size) except -1:
    cdef Buffer b
    bounds(t, offset, size)
    if size == 0:
        return 0
    b = buffer_of_tensor(t)
    if b is not None:
        return b.get(t, data, offset, size)
    in_context(t)
    memmove(data, <uint8_t *>t.data + offset, size)
    return 0

cdef bint same_layout(const ggml_tensor *a, const ggml_tensor *b) noexcept:
    cdef int d
    for d in range(4):
        if a.ne[d] != b.ne[d] or a.nb[d] != b.nb[d]:
            return False
    return a.type == b.type

cdef int copy(ggml_tensor *src, ggml_tensor *dst) except -1:
    cdef size_t n = gg_nbytes(src)
    cdef Buffer b
    cdef void *block
    if not same_layout(src, dst):
        fail(ValueError, f"src '{name_text(src)}' and dst '{name_text(dst)}' differ in type, shape or strides")
    if n == 0 or src == dst:
        return 0
    b = buffer_of_tensor(dst)
    if b is not None and b.copy_in(src, dst):
        return 0
    block = allocate(1, n)
    try:
        read(src, block, 0, n)
        write(dst, block, 0, n)
    finally:
        free(block)
    return 0

cdef float ONE = 1

cdef int place(Buffer b, ggml_tensor *t, size_t offset) except? -9:
    t.buffer, t.data = b.at, b.base + offset
    if isinstance(b, HostBuffer) and (<HostBuffer>b).own:
        gg_unpoison(t.data, gg_nbytes(t))
    cdef int status = b.init_tensor(t)
    if status == GGML_STATUS_SUCCESS and t.op == GGML_OP_NONE and t.flags & GGML_TENSOR_FLAG_LOSS:
        write(t, &ONE, 0, sizeof(ONE))                  # the seed of a backward pass (see _graph/grad.pyx)
    return status

cdef int place_view(ggml_tensor *t) except? -9:
    cdef Buffer b = buffer_of_tensor(t.view_src)
    t.buffer, t.data = t.view_src.buffer, <uint8_t *>t.view_src.data + t.view_offs
    return b.init_tensor(t) if b is not None else GGML_STATUS_SUCCESS
