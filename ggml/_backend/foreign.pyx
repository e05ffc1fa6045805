"""Backends written in Python: classes over the structs of callbacks (`ggml_backend_i` and friends) that users fill in.

The handle of such a thing is the address of its struct. It is known from then on when the struct itself (or a pointer to it) is
given to a function, when a callback returns its address, or when it was registered.
"""
import ctypes

from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free

from .._core cimport (
    GGML_STATUS_FAILED, GGML_STATUS_SUCCESS, GG_BUFFER, engine, fail, gg_nbytes, gg_region, ggml_cgraph, ggml_tensor,
    region_add, region_leave, release, wrap_graph, wrap_tensor,
)
from .._handle cimport HANDLE, Handle, adopted, known, memory_at
from .device cimport Backend, Buffer, BufferType, Device, Event, Plan, Registry, adopters
from .. import _structs
from .._core import unpark
from .device import _open, _title

cdef object call(object function, tuple args):
    """Calls a callback; what it raised is raised here."""
    result = function(*args)
    unpark()
    return result

cdef object needed(object iface, str name, str kind):
    function = getattr(iface, name)
    if not function:
        fail(ValueError, f"the {kind}'s callback {name} is NULL")
    return function

def _adopt(cls, struct_type, required, kind):
    """A function that makes an object of `cls` from a caller's struct."""
    def adopt(address, owner):
        struct = struct_type.from_address(address)
        for name in required:
            needed(struct.iface, name, kind)
        for name, field in struct.iface._fields_:        # an address of something else holds no functions
            function = ctypes.cast(getattr(struct.iface, name), ctypes.c_void_p).value if issubclass(field, ctypes._CFuncPtr) else None
            if function and not memory_at(function, 1):
                fail(ValueError, f"the {kind}'s callback {name} ({function:#x}) is no function")
        return cls(struct, address, owner)
    return adopt

cdef object enter_handle(Handle h, object address, object owner):
    h.at, h.foreign, h.keep = <void *><size_t>address, True, owner
    known(h)

# ---- buffer types and buffers ----------------------------------------------------------------------------------------
cdef class ForeignBufferType(BufferType):
    cdef object iface

    def __init__(self, struct, address, owner):
        self.iface = struct.iface
        enter_handle(self, address, owner)

    cdef bytes name(self): return call(self.iface.get_name, (HANDLE(self),)) or b""

    cdef Buffer alloc(self, size_t size):
        cdef Buffer b = <Buffer>adopted(call(self.iface.alloc_buffer, (HANDLE(self), size)), Buffer)
        if b is not None and b.buft is None:
            b.buft = self
        return b

    cdef size_t alignment(self) except 0:
        cdef size_t n = call(self.iface.get_alignment, (HANDLE(self),))
        if n == 0 or n & (n - 1):
            fail(ValueError, f"get_alignment returned {n}: need a power of two")
        return n

    cdef size_t max_size(self) except 0:
        cdef size_t n = call(self.iface.get_max_size, (HANDLE(self),)) if self.iface.get_max_size else 0
        return n if n else <size_t>-1

    cdef size_t alloc_size(self, ggml_tensor *t) except? 0:
        cdef size_t n
        if not self.iface.get_alloc_size:
            return gg_nbytes(t)
        n = call(self.iface.get_alloc_size, (HANDLE(self), wrap_tensor(t)))
        if n < gg_nbytes(t):
            fail(ValueError, f"get_alloc_size returned {n}: the tensor has {gg_nbytes(t)} bytes")
        return n

    cdef bint is_host(self) except -1:
        return bool(self.iface.is_host and call(self.iface.is_host, (HANDLE(self),)))

    cdef object supports(self, Backend b):
        """Whether a backend can use its buffers; None: it does not say."""
        if not self.iface.supports_backend:
            return None
        return call(self.iface.supports_backend, (HANDLE(self), HANDLE(b)))

cdef class ForeignBuffer(Buffer):
    cdef object struct, iface

    def __init__(self, struct, address, owner):
        self.struct, self.iface = struct, struct.iface
        if struct.buft:
            self.buft = <BufferType>adopted(struct.buft, BufferType)
        self.size = struct.size
        enter_handle(self, address, owner)
        self.base = <uint8_t *><size_t>(call(self.iface.get_base, (address,)) or 0)
        if self.size and self.base == NULL:
            fail(ValueError, "get_base returned NULL")
        if self.buft is not None and self.buft.is_host() and self.size:
            self.enter_region()

    cdef int enter_region(self) except -1:
        if not engine.readable(self.base, self.size):
            fail(ValueError, f"get_base returned {<size_t>self.base:#x}: no readable memory of {self.size} bytes")
        self.region = <gg_region *>calloc(1, sizeof(gg_region))
        if self.region == NULL:
            raise MemoryError()
        self.region.base, self.region.size = self.base, self.size
        region_add(GG_BUFFER, self.region)
        return 0

    cdef bytes name(self):
        return call(self.iface.get_name, (HANDLE(self),)) if self.iface.get_name else self.buft.name()

    cdef int init_tensor(self, ggml_tensor *t) except? -9:
        if self.iface.init_tensor:
            call(self.iface.init_tensor, (HANDLE(self), wrap_tensor(t)))
        return GGML_STATUS_SUCCESS

    cdef int set(self, ggml_tensor *t, const void *data, size_t offset, size_t size) except -1:
        call(self.iface.set_tensor, (HANDLE(self), wrap_tensor(t), <size_t>data, offset, size))
        return 0

    cdef int get(self, ggml_tensor *t, void *data, size_t offset, size_t size) except -1:
        call(self.iface.get_tensor, (HANDLE(self), wrap_tensor(t), <size_t>data, offset, size))
        return 0

    cdef bint copy_in(self, ggml_tensor *src, ggml_tensor *dst) except -1:
        return bool(self.iface.cpy_tensor and call(self.iface.cpy_tensor, (HANDLE(self), wrap_tensor(src), wrap_tensor(dst))))

    cdef int clear(self, int value) except -1:
        call(self.iface.clear, (HANDLE(self), value))
        return 0

    cdef int reset(self) except -1:
        if self.iface.reset:
            call(self.iface.reset, (HANDLE(self),))
        return 0

    cdef int release(self) except -1:
        if self.region != NULL:
            region_leave(GG_BUFFER, self.region)
            self.region = NULL
        try:
            if self.iface.free_buffer:
                call(self.iface.free_buffer, (HANDLE(self),))
        finally:
            self.close()
        return 0

def _buffer_init(buft, iface, context, size_t size):
    """A buffer of a struct of our own, filled with a table of callbacks: what ggml_backend_buffer_init makes."""
    struct = _structs.ggml_backend_buffer(iface, HANDLE(buft), context, size)
    return _make_buffer(ctypes.addressof(struct), struct)

# ---- events ----------------------------------------------------------------------------------------------------------
cdef class ForeignEvent(Event):
    """What event_new of a backend (`backend`) or of a device (`device`) returned."""
    cdef object backend, device

    def __init__(self, address, Handle maker):
        if isinstance(maker, Backend):
            self.backend = maker
        else:
            self.device = maker
        enter_handle(self, address, None)

    cdef int record(self, Backend backend) except -1:
        b = self.backend if backend is None else backend
        if isinstance(b, ForeignBackend) and (<ForeignBackend>b).iface.event_record:
            call((<ForeignBackend>b).iface.event_record, (HANDLE(self),))
        return 0

    cdef int wait(self, Backend backend) except -1:
        if isinstance(backend, ForeignBackend) and (<ForeignBackend>backend).iface.event_wait:
            call((<ForeignBackend>backend).iface.event_wait, (HANDLE(backend), HANDLE(self)))
            return 0
        return self.synchronize()

    cdef int synchronize(self) except -1:
        return self.told("event_synchronize")

    cdef int release(self) except -1:
        try:
            return self.told("event_free")
        finally:
            self.close()

    cdef int told(self, str name) except -1:
        if self.backend is not None:
            function = getattr((<ForeignBackend>self.backend).iface, name)
            if function:
                call(function, (HANDLE(self),))
        else:
            function = getattr((<ForeignDevice>self.device).iface, name)
            if function:
                call(function, (HANDLE(self.device), HANDLE(self)))
        return 0

# ---- backends --------------------------------------------------------------------------------------------------------
cdef class ForeignBackend(Backend):
    cdef object struct, iface

    def __init__(self, struct, address, owner):
        self.struct, self.iface = struct, struct.iface
        enter_handle(self, address, owner)

    cdef bytes name(self): return call(self.iface.get_name, (HANDLE(self),)) or b""
    cdef object guid(self): return self.struct.guid.contents if self.struct.guid else None

    cdef BufferType buft(self):
        return <BufferType>adopted(call(self.iface.get_default_buffer_type, (HANDLE(self),)), BufferType)

    cdef int set_async(self, Buffer b, ggml_tensor *t, const void *data, size_t offset, size_t size) except -1:
        if not self.iface.set_tensor_async:
            return Backend.set_async(self, b, t, data, offset, size)
        call(self.iface.set_tensor_async, (HANDLE(self), wrap_tensor(t), <size_t>data, offset, size))
        return 0

    cdef int get_async(self, Buffer b, ggml_tensor *t, void *data, size_t offset, size_t size) except -1:
        if not self.iface.get_tensor_async:
            return Backend.get_async(self, b, t, data, offset, size)
        call(self.iface.get_tensor_async, (HANDLE(self), wrap_tensor(t), <size_t>data, offset, size))
        return 0

    cdef bint copy_async(self, Backend other, ggml_tensor *src, ggml_tensor *dst) except -1:
        """Asks the one that receives, as the C library does: its table is that of `other` where that is foreign too."""
        cdef ForeignBackend to = <ForeignBackend>other if isinstance(other, ForeignBackend) else self
        return bool(to.iface.cpy_tensor_async and
                    call(to.iface.cpy_tensor_async, (HANDLE(self), HANDLE(other), wrap_tensor(src), wrap_tensor(dst))))

    cdef int synchronize(self) except -1:
        if self.iface.synchronize:
            call(self.iface.synchronize, (HANDLE(self),))
        return 0

    cdef Handle plan_new(self, ggml_cgraph *g, object graph):
        cdef Plan plan
        if not self.iface.graph_plan_create:
            return Backend.plan_new(self, g, graph)
        plan = <Plan>_open(Plan())
        plan.graph, plan.keep = graph, self
        plan.token = <void *><size_t>(call(self.iface.graph_plan_create, (HANDLE(self), wrap_graph(g))) or 0)
        return plan

    cdef int plan_compute(self, Handle plan) except? -99:
        cdef void *token = (<Plan>plan).token
        if token == NULL or not self.iface.graph_plan_compute:
            return Backend.plan_compute(self, plan)
        call(self.iface.graph_plan_compute, (HANDLE(self), <size_t>token))
        return GGML_STATUS_SUCCESS

    cdef int plan_free(self, Handle plan) except -1:
        cdef void *token = (<Plan>plan).token
        if token != NULL and self.iface.graph_plan_free:
            call(self.iface.graph_plan_free, (HANDLE(self), <size_t>token))
        return plan.close()

    cdef int compute(self, ggml_cgraph *g) except? -99:
        done = call(self.iface.graph_compute, (HANDLE(self), wrap_graph(g)))
        return GGML_STATUS_SUCCESS if done else GGML_STATUS_FAILED

    cdef bint supports_op(self, ggml_tensor *t) except -1: return bool(call(self.iface.supports_op, (HANDLE(self), wrap_tensor(t))))

    cdef bint supports_buft(self, BufferType buft) except -1:
        if isinstance(buft, ForeignBufferType):
            says = (<ForeignBufferType>buft).supports(self)
            if says is not None:
                return bool(says)
        if self.device is not None:
            return self.device.supports_buft(buft)
        return buft is self.buft()

    cdef bint offload_op(self, ggml_tensor *t) except -1:
        if self.iface.offload_op:
            return bool(call(self.iface.offload_op, (HANDLE(self), wrap_tensor(t))))
        return self.device is not None and self.device.offload_op(t)

    cdef Event event_new(self):
        if not self.iface.event_new:
            return Backend.event_new(self)
        address = call(self.iface.event_new, (HANDLE(self),))
        return ForeignEvent(address, self) if address else None

    cdef int release(self) except -1:
        try:
            if self.iface.free:
                call(self.iface.free, (HANDLE(self),))
        finally:
            self.close()
        return 0

# ---- devices and registries ------------------------------------------------------------------------------------------
cdef class ForeignDevice(Device):
    cdef object iface

    def __init__(self, struct, address, owner):
        self.iface = struct.iface
        enter_handle(self, address, owner)
        if struct.reg:
            self.registry = <Registry>adopted(struct.reg, Registry)

    cdef bytes name(self): return call(self.iface.get_name, (HANDLE(self),)) or b""
    cdef bytes description(self): return call(self.iface.get_description, (HANDLE(self),)) or b""

    cdef tuple memory(self):
        free_bytes, total = ctypes.c_size_t(), ctypes.c_size_t()
        call(self.iface.get_memory, (HANDLE(self), ctypes.byref(free_bytes), ctypes.byref(total)))
        return (free_bytes.value, total.value)

    cdef int kind(self) except -1: return call(self.iface.get_type, (HANDLE(self),))

    cdef object props(self):
        props = _structs.ggml_backend_dev_props()
        call(self.iface.get_props, (HANDLE(self), ctypes.byref(props)))
        return props

    cdef tuple caps(self):
        caps = self.props().caps
        return (getattr(caps, "async"), caps.host_buffer, caps.buffer_from_host_ptr, caps.events)

    cdef bytes id(self): return self.props().device_id

    cdef Backend init(self, bytes params):
        cdef Backend b = <Backend>adopted(call(self.iface.init_backend, (HANDLE(self), params)), Backend)
        if b is not None:
            b.device = self
        return b

    cdef BufferType buft(self):
        cdef BufferType t = <BufferType>adopted(call(self.iface.get_buffer_type, (HANDLE(self),)), BufferType)
        if t is not None and t.device is None:
            t.device = self
        return t

    cdef BufferType host_buft(self):
        if not self.iface.get_host_buffer_type:
            return None
        return <BufferType>adopted(call(self.iface.get_host_buffer_type, (HANDLE(self),)), BufferType)

    cdef Buffer from_ptr(self, void *p, size_t size, size_t max_tensor_size, object owner):
        if not self.iface.buffer_from_host_ptr:
            return None
        return <Buffer>adopted(call(self.iface.buffer_from_host_ptr, (HANDLE(self), <size_t>p, size, max_tensor_size)), Buffer)

    cdef bint supports_op(self, ggml_tensor *t) except -1: return bool(call(self.iface.supports_op, (HANDLE(self), wrap_tensor(t))))

    cdef bint supports_buft(self, BufferType buft) except -1:
        return bool(call(self.iface.supports_buft, (HANDLE(self), HANDLE(buft))))

    cdef bint offload_op(self, ggml_tensor *t) except -1:
        return bool(self.iface.offload_op and call(self.iface.offload_op, (HANDLE(self), wrap_tensor(t))))

    cdef Event event_new(self):
        address = call(self.iface.event_new, (HANDLE(self),)) if self.iface.event_new else None
        return ForeignEvent(address, self) if address else None

cdef class ForeignRegistry(Registry):
    cdef object iface

    def __init__(self, struct, address, owner):
        self.iface = struct.iface
        enter_handle(self, address, owner)

    cdef bytes name(self): return call(self.iface.get_name, (HANDLE(self),)) or b""

    cdef list devices(self):
        cdef Device d
        if self.members is None:
            self.members = [adopted(call(self.iface.get_device, (HANDLE(self), i)), Device)
                            for i in range(call(self.iface.get_device_count, (HANDLE(self),)))]
            for d in self.members:
                d.registry = self
        return self.members

    cdef size_t proc(self, bytes name) except? 0:
        return (call(self.iface.get_proc_address, (HANDLE(self), name)) or 0) if self.iface.get_proc_address else 0

_make_buffer = _adopt(ForeignBuffer, _structs.ggml_backend_buffer, ("get_base", "set_tensor", "get_tensor", "clear"), "buffer")
adopters.update({
    Buffer: (_structs.ggml_backend_buffer, _make_buffer),
    BufferType: (_structs.ggml_backend_buffer_type, _adopt(
        ForeignBufferType, _structs.ggml_backend_buffer_type, ("get_name", "alloc_buffer", "get_alignment"), "buffer type")),
    Backend: (_structs.ggml_backend, _adopt(
        ForeignBackend, _structs.ggml_backend, ("get_name", "get_default_buffer_type", "graph_compute", "supports_op"), "backend")),
    Device: (_structs.ggml_backend_device, _adopt(
        ForeignDevice, _structs.ggml_backend_device,
        ("get_name", "get_description", "get_memory", "get_type", "get_props", "init_backend", "get_buffer_type", "supports_op",
         "supports_buft"), "device")),
    Registry: (_structs.ggml_backend_reg, _adopt(
        ForeignRegistry, _structs.ggml_backend_reg, ("get_name", "get_device_count", "get_device"), "registry")),
})
for _kind, _words in ((ForeignBuffer, "buffer"), (ForeignBufferType, "buffer type"), (ForeignBackend, "backend"),
                      (ForeignDevice, "device"), (ForeignRegistry, "backend registry"), (ForeignEvent, "event")):
    _title(_kind, _words)
