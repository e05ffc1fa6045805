"""Backends written in Python: classes over the structs of callbacks (`ggml_backend_i` etc.) that programs fill in.

The handle of such an object is the address of its struct. It becomes a live handle when the struct or a pointer to it
is given to a function, when a callback returns its address, or when it is registered.
"""
import ctypes

from libc.stdint cimport uint8_t

from .._core cimport (
    GGML_STATUS_FAILED, GGML_STATUS_SUCCESS, GG_BUFFER, allocate, engine, fail, gg_nbytes, gg_region, ggml_cgraph,
    ggml_tensor, region_add, region_leave, wrap_graph, wrap_tensor,
)
from .._handle cimport HANDLE, Handle, adopted, known, memory_at, opened
from .device cimport Backend, Buffer, BufferType, Device, Event, Plan, Registry, adopters
from .. import _structs
from .._core import run_callback as call

cdef int check_callbacks(object iface, tuple required, str kind) except -1:
    """Raises unless all required callbacks are set and all callbacks are addresses of functions.

    A struct at the address of something else is unlikely to pass.
    """
    for name in required:
        if not getattr(iface, name):
            fail(ValueError, f"the {kind}'s callback {name} is NULL: need a function")
    for name, field in iface._fields_:
        if issubclass(field, ctypes._CFuncPtr):
            function = ctypes.cast(getattr(iface, name), ctypes.c_void_p).value
            if function and not memory_at(function, 1):
                fail(ValueError, f"the {kind}'s callback {name} ({function:#x}) is not a function")
    return 0

def _adopter(cls, struct_type, required, kind):
    """A function that makes an object of class `cls` from the address of a caller's struct and the struct's owner."""
    def adopt(address, owner):
        struct = struct_type.from_address(address)
        check_callbacks(struct.iface, required, kind)
        return cls(struct, address, owner)
    return adopt

cdef object adopt_handle(Handle h, object address, object owner):
    """Makes the address of a caller's struct the handle of `h`, which keeps `owner` alive."""
    h.at, h.foreign, h.keep = <void *><size_t>address, True, owner
    known(h)

# ---- buffer types and buffers ----------------------------------------------------------------------------------------
cdef class ForeignBufferType(BufferType):
    cdef object iface

    def __init__(self, struct, address, owner):
        self.iface = struct.iface
        adopt_handle(self, address, owner)

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
        """Whether a backend can use its buffers; None if the callback is NULL."""
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
        adopt_handle(self, address, owner)
        self.base = <uint8_t *><size_t>(call(self.iface.get_base, (address,)) or 0)
        if self.size and self.base == NULL:
            fail(ValueError, "get_base returned NULL")
        if self.buft is not None and self.buft.is_host() and self.size:
            self.enter_region()

    cdef int enter_region(self) except -1:
        if not engine.readable(self.base, self.size):
            fail(ValueError, f"get_base returned {<size_t>self.base:#x}: no readable memory of {self.size} bytes")
        cdef gg_region *region = <gg_region *>allocate(1, sizeof(gg_region))
        region.base, region.size = self.base, self.size
        region_add(GG_BUFFER, region)
        self.region = region
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
        cdef tuple args = (HANDLE(self), wrap_tensor(src), wrap_tensor(dst))
        return bool(self.iface.cpy_tensor and call(self.iface.cpy_tensor, args))

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
    """The buffer of ggml_backend_buffer_init: its struct belongs to this module."""
    struct = _structs.ggml_backend_buffer(iface, HANDLE(buft), context, size)
    return _adopt_buffer(ctypes.addressof(struct), struct)

# ---- events ----------------------------------------------------------------------------------------------------------
cdef class ForeignEvent(Event):
    """An event that the event_new callback of `backend` or of `device` returned."""
    cdef object backend, device

    def __init__(self, address, Handle maker):
        if isinstance(maker, Backend):
            self.backend = maker
        else:
            self.device = maker
        adopt_handle(self, address, None)

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
        return self.notify("event_synchronize")

    cdef int release(self) except -1:
        try:
            return self.notify("event_free")
        finally:
            self.close()

    cdef int notify(self, str name) except -1:
        """Calls a callback of the backend or the device that made the event, if it has this callback."""
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
        adopt_handle(self, address, owner)

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
        """Calls the callback of the receiving backend, as the C library does, if that is written in Python too."""
        cdef ForeignBackend receiver = <ForeignBackend>other if isinstance(other, ForeignBackend) else self
        cdef tuple args = (HANDLE(self), HANDLE(other), wrap_tensor(src), wrap_tensor(dst))
        return bool(receiver.iface.cpy_tensor_async and call(receiver.iface.cpy_tensor_async, args))

    cdef int synchronize(self) except -1:
        if self.iface.synchronize:
            call(self.iface.synchronize, (HANDLE(self),))
        return 0

    cdef Handle plan_new(self, ggml_cgraph *g, object graph):
        cdef Plan plan
        if not self.iface.graph_plan_create:
            return Backend.plan_new(self, g, graph)
        plan = <Plan>opened(Plan())
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

    cdef bint supports_op(self, ggml_tensor *t) except -1:
        return bool(call(self.iface.supports_op, (HANDLE(self), wrap_tensor(t))))

    cdef bint supports_buft(self, BufferType buft) except -1:
        if isinstance(buft, ForeignBufferType):
            answer = (<ForeignBufferType>buft).supports(self)
            if answer is not None:
                return bool(answer)
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
        adopt_handle(self, address, owner)
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
        address = call(self.iface.buffer_from_host_ptr, (HANDLE(self), <size_t>p, size, max_tensor_size))
        return <Buffer>adopted(address, Buffer)

    cdef bint supports_op(self, ggml_tensor *t) except -1:
        return bool(call(self.iface.supports_op, (HANDLE(self), wrap_tensor(t))))

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
        adopt_handle(self, address, owner)

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

# ---- structs of callers: the class of each, and the callbacks that it needs ------------------------------------------
_CLASSES = (
    (Buffer, ForeignBuffer, _structs.ggml_backend_buffer, "buffer", "get_base set_tensor get_tensor clear"),
    (BufferType, ForeignBufferType, _structs.ggml_backend_buffer_type, "buffer type",
     "get_name alloc_buffer get_alignment"),
    (Backend, ForeignBackend, _structs.ggml_backend, "backend",
     "get_name get_default_buffer_type graph_compute supports_op"),
    (Device, ForeignDevice, _structs.ggml_backend_device, "device",
     "get_name get_description get_memory get_type get_props init_backend get_buffer_type supports_op supports_buft"),
    (Registry, ForeignRegistry, _structs.ggml_backend_reg, "registry", "get_name get_device_count get_device"),
)
for _base, _class, _struct, _kind, _required in _CLASSES:
    adopters[_base] = (_struct, _adopter(_class, _struct, tuple(_required.split()), _kind))
_adopt_buffer = adopters[Buffer][1]
