"""The functions of buffer types, buffers, tensors in them, backends, devices and registries."""
import ctypes

from libc.stdint cimport uint8_t

from .._core cimport (
    arg_address, arg_bool, arg_buffer, arg_callback, arg_graph, arg_int32, arg_size, arg_tensor, arg_text, engine,
    enter, fail, gg_is_empty, ggml_tensor, release,
)
from .device cimport (
    HANDLE, Backend, Buffer, BufferType, CpuBackend, Device, Event, Handle, Plan, Registry, adopted, all_devices, all_registries,
    backend_arg, buffer_arg, buffer_dead, buffer_of_tensor, buft_arg, copy, cpu_buft, cpu_device, device_arg, find, handles, live,
    memory_at, place, place_view, read, same_layout, write,
)
from .._graph.graph cimport threads
from .. import _structs, _system
from .._core import as_callback
from .device import _open, _set_procs, _title
from .foreign import _buffer_init

cdef enum:
    WEIGHTS = 1, COMPUTE = 2, GPU = 1, IGPU = 2

# ---- buffer types ----------------------------------------------------------------------------------------------------------
def ggml_backend_buft_name(buft):
    """Name of a buffer type (bytes)."""
    enter(b"ggml_backend_buft_name")
    return buft_arg(buft, "buft").name()

def ggml_backend_buft_alloc_buffer(buft, size):
    """A new buffer of `size` bytes; its handle, or None where the memory can't be had."""
    enter(b"ggml_backend_buft_alloc_buffer")
    return HANDLE(buft_arg(buft, "buft").alloc(arg_size(size, b"size")))

def ggml_backend_buft_get_alignment(buft):
    """Bytes that tensors in such buffers are aligned to."""
    enter(b"ggml_backend_buft_get_alignment")
    return buft_arg(buft, "buft").alignment()

def ggml_backend_buft_get_max_size(buft):
    """Bytes of the largest buffer of a type."""
    enter(b"ggml_backend_buft_get_max_size")
    return buft_arg(buft, "buft").max_size()

def ggml_backend_buft_get_alloc_size(buft, tensor):
    """Bytes that the tensor takes in such a buffer."""
    enter(b"ggml_backend_buft_get_alloc_size")
    return buft_arg(buft, "buft").alloc_size(arg_tensor(tensor, b"tensor"))

def ggml_backend_buft_is_host(buft):
    """Whether the CPU reads and writes such buffers directly."""
    enter(b"ggml_backend_buft_is_host")
    return bool(buft_arg(buft, "buft").is_host())

def ggml_backend_buft_get_device(buft):
    """The device whose memory it is; None where that is not known."""
    enter(b"ggml_backend_buft_get_device")
    return HANDLE(buft_arg(buft, "buft").device)

def ggml_backend_cpu_buffer_type():
    """The type of buffers in the CPU's memory."""
    return HANDLE(cpu_buft)

def ggml_backend_cpu_hbm_buffer_type():
    """The type of buffers in high-bandwidth memory: this build has none, so None."""
    return None

# ---- buffers -----------------------------------------------------------------------------------------------------------------
cdef class MultiBuffer(Buffer):
    """Several buffers, freed, cleared and labelled together. Tensors lie in its parts, not in itself."""
    cdef list parts

    cdef int clear(self, int value) except -1:
        cdef Buffer b
        for b in self.parts:
            b.clear(value)
        return 0

    cdef int reset(self) except -1:
        cdef Buffer b
        for b in self.parts:
            b.reset()
        return 0

    cdef int release(self) except -1:
        cdef Buffer b
        self.close()
        for b in self.parts:
            if <size_t>b.at in live:
                b.release()
        return 0

_title(MultiBuffer, "buffer")

cdef MultiBuffer multi_buffer(list parts):
    cdef MultiBuffer m = MultiBuffer()
    cdef Buffer b
    m.parts, m.buft = parts, (<Buffer>parts[0]).buft
    for b in parts:
        m.size += b.size
    _open(m)
    return m

def _multi_buffer(list parts):
    """For the other modules: see `multi_buffer`."""
    return multi_buffer(parts)

def ggml_backend_multi_buffer_alloc_buffer(buffers, n_buffers):
    """A buffer that stands for several (an array of handles): freeing it frees them."""
    enter(b"ggml_backend_multi_buffer_alloc_buffer")
    cdef list parts = handles(buffers, arg_size(n_buffers, b"n_buffers"), Buffer, "buffers")
    if not parts:
        fail(ValueError, "n_buffers is 0: need at least one")
    return HANDLE(multi_buffer(parts))

def ggml_backend_buffer_init(buft, iface, context, size):
    """A buffer of `size` bytes of the type `buft` that does what the callbacks in `iface` (ggml_backend_buffer_i) do.

    For buffer types written in Python: what their alloc_buffer returns. The callbacks find `context` in the struct
    (ggml_backend_buffer) that the handle they are called with is the address of.
    """
    enter(b"ggml_backend_buffer_init")
    cdef BufferType t = buft_arg(buft, "buft")
    table = struct_of(iface, _structs.ggml_backend_buffer_i, "iface")
    if context is not None and not isinstance(context, (int, ctypes.c_void_p)):
        context = <size_t>arg_address(context, b"context")
    return HANDLE(_buffer_init(t, table, context, arg_size(size, b"size")))

cdef object struct_of(object o, object struct, str name):
    """The ctypes struct that an argument (the struct, byref, a pointer, an address) means."""
    if isinstance(o, struct):
        return o
    if hasattr(o, "_obj") and isinstance(o._obj, struct):
        return o._obj
    if isinstance(o, ctypes._Pointer) and issubclass(o._type_, struct) and o:
        return o.contents
    cdef object address = o.value if isinstance(o, ctypes.c_void_p) else o
    if isinstance(address, int) and address not in live and memory_at(address, ctypes.sizeof(struct)):
        return struct.from_address(address)
    fail(TypeError, f"{name} is {o!r}: need a {struct.__name__} or a pointer to one")

def ggml_backend_cpu_buffer_from_ptr(ptr, size):
    """A buffer over `size` bytes of the caller's memory (an address, ctypes or NumPy memory), which is not freed with it."""
    enter(b"ggml_backend_cpu_buffer_from_ptr")
    return HANDLE(from_ptr(cpu_device, ptr, size, 0))

cdef Buffer from_ptr(Device d, object ptr, object size, size_t max_tensor_size):
    cdef void *p
    cdef size_t n = arg_size(size, b"size")
    arg_buffer(ptr, b"ptr", n, &p)
    if p == NULL:
        fail(TypeError, "ptr is NULL: need the memory of the buffer")
    if n and not engine.readable(p, n):
        fail(ValueError, f"ptr ({<size_t>p:#x}) is no memory of {n} bytes")
    return d.from_ptr(p, n, max_tensor_size, ptr)

def ggml_backend_buffer_name(buffer):
    """Name of a buffer, which is that of its type (bytes)."""
    enter(b"ggml_backend_buffer_name")
    return buffer_arg(buffer, "buffer").name()

def ggml_backend_buffer_free(buffer):
    """Frees a buffer: tensors in it become invalid, NumPy and DLPack views of them stay usable. None is accepted."""
    enter(b"ggml_backend_buffer_free")
    if buffer is not None:
        buffer_arg(buffer, "buffer").release()

def ggml_backend_buffer_get_base(buffer):
    """Address of the buffer's memory; None for a buffer of no bytes."""
    enter(b"ggml_backend_buffer_get_base")
    cdef Buffer b = buffer_arg(buffer, "buffer")
    return <size_t>b.base if b.size and b.base != NULL else None

def ggml_backend_buffer_get_size(buffer):
    """Bytes of a buffer."""
    enter(b"ggml_backend_buffer_get_size")
    return buffer_arg(buffer, "buffer").size

def ggml_backend_buffer_init_tensor(buffer, tensor):
    """Tells the buffer of a tensor that lies in it; returns a status."""
    enter(b"ggml_backend_buffer_init_tensor")
    return buffer_arg(buffer, "buffer").init_tensor(arg_tensor(tensor, b"tensor"))

def ggml_backend_buffer_get_alignment(buffer):
    """Bytes that tensors in the buffer are aligned to."""
    enter(b"ggml_backend_buffer_get_alignment")
    return buffer_arg(buffer, "buffer").buft.alignment()

def ggml_backend_buffer_get_max_size(buffer):
    """Bytes of the largest buffer of this one's type."""
    enter(b"ggml_backend_buffer_get_max_size")
    return buffer_arg(buffer, "buffer").buft.max_size()

def ggml_backend_buffer_get_alloc_size(buffer, tensor):
    """Bytes that the tensor takes in the buffer."""
    enter(b"ggml_backend_buffer_get_alloc_size")
    return buffer_arg(buffer, "buffer").buft.alloc_size(arg_tensor(tensor, b"tensor"))

def ggml_backend_buffer_clear(buffer, value):
    """Fills the buffer with a byte."""
    enter(b"ggml_backend_buffer_clear")
    cdef Buffer b = buffer_arg(buffer, "buffer")
    cdef int v = arg_int32(value, b"value") & 255
    if b.size:
        b.clear(v)

def ggml_backend_buffer_is_host(buffer):
    """Whether the CPU reads and writes the buffer directly."""
    enter(b"ggml_backend_buffer_is_host")
    return bool(buffer_arg(buffer, "buffer").buft.is_host())

def ggml_backend_buffer_set_usage(buffer, usage):
    """Says what the buffer is for (GGML_BACKEND_BUFFER_USAGE_*): the scheduler computes where the weights are."""
    enter(b"ggml_backend_buffer_set_usage")
    cdef Buffer b = buffer_arg(buffer, "buffer"), part
    cdef int u = arg_int32(usage, b"usage")
    if not 0 <= u <= COMPUTE:
        fail(ValueError, f"usage is {u}: need GGML_BACKEND_BUFFER_USAGE_ANY, _WEIGHTS or _COMPUTE")
    b.usage = u
    if isinstance(b, MultiBuffer):
        for part in (<MultiBuffer>b).parts:
            part.usage = u

def ggml_backend_buffer_get_usage(buffer):
    """What the buffer is for (GGML_BACKEND_BUFFER_USAGE_*)."""
    enter(b"ggml_backend_buffer_get_usage")
    return buffer_arg(buffer, "buffer").usage

def ggml_backend_buffer_get_type(buffer):
    """The type of a buffer."""
    enter(b"ggml_backend_buffer_get_type")
    return HANDLE(buffer_arg(buffer, "buffer").buft)

def ggml_backend_buffer_reset(buffer):
    """Lets the buffer forget the tensors that it was told of."""
    enter(b"ggml_backend_buffer_reset")
    buffer_arg(buffer, "buffer").reset()

# ---- tensors in buffers --------------------------------------------------------------------------------------------------------
cdef const void *source(object data, size_t size) except? NULL:
    cdef void *p
    arg_buffer(data, b"data", size, &p)
    if size and p == NULL:
        fail(TypeError, "data is None: need memory to copy from or to")
    if size and not engine.readable(p, size):
        fail(ValueError, f"data ({<size_t>p:#x}) is no memory of {size} bytes")
    return p

def ggml_backend_tensor_set(tensor, data, offset, size):
    """Copies `size` bytes into the tensor, from byte `offset` of it on; `data`: an address, bytes, ctypes or NumPy memory."""
    enter(b"ggml_backend_tensor_set")
    cdef size_t n = arg_size(size, b"size")
    write(arg_tensor(tensor, b"tensor"), source(data, n), arg_size(offset, b"offset"), n)

def ggml_backend_tensor_get(tensor, data, offset, size):
    """Copies `size` bytes of the tensor, from byte `offset` of it on, to `data` (an address, ctypes or NumPy memory)."""
    enter(b"ggml_backend_tensor_get")
    cdef size_t n = arg_size(size, b"size")
    if isinstance(data, bytes):
        fail(TypeError, "data is bytes, which can't be written: need a bytearray, ctypes or NumPy memory")
    read(arg_tensor(tensor, b"tensor"), <void *>source(data, n), arg_size(offset, b"offset"), n)

cdef size_t rows(size_t n, object stride, object size, str name) except? 0:
    """Bytes from the first to behind the last of n pieces."""
    cdef object total = (n - 1) * stride + size if n else 0
    if total >= 1 << 62:
        fail(ValueError, f"{name} is {stride}: reaches beyond any memory")
    return total

cdef int strided(object tensor, object data, object offset, object size, object n_copies, object stride_tensor, object stride_data,
                 bint to_tensor, Backend backend) except -1:
    """n_copies pieces of `size` bytes, `stride_tensor` apart in the tensor and `stride_data` in the caller's memory."""
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef size_t at = arg_size(offset, b"offset"), n = arg_size(size, b"size"), k = arg_size(n_copies, b"n_copies"), i
    cdef size_t st = arg_size(stride_tensor, b"stride_tensor"), sd = arg_size(stride_data, b"stride_data")
    cdef size_t whole = rows(k, st, n, "stride_tensor")
    cdef uint8_t *p = <uint8_t *>source(data, rows(k, sd, n, "stride_data"))
    if not to_tensor and isinstance(data, bytes):
        fail(TypeError, "data is bytes, which can't be written")
    if k == 0 or n == 0:
        return 0
    (write(t, p, at + whole, 0))     # checks the far end before anything is copied
    cdef Buffer b = buffer_of_tensor(t)
    for i in range(k):
        if backend is not None:
            (backend.set_async(b, t, p + i * sd, at + i * st, n) if to_tensor
             else backend.get_async(b, t, p + i * sd, at + i * st, n))
        elif to_tensor:
            write(t, p + i * sd, at + i * st, n)
        else:
            read(t, p + i * sd, at + i * st, n)
    return 0

def ggml_backend_tensor_set_2d(tensor, data, offset, size, n_copies, stride_tensor, stride_data):
    """Copies `n_copies` pieces of `size` bytes into the tensor; they lie `stride_data` apart there, `stride_tensor` here."""
    enter(b"ggml_backend_tensor_set_2d")
    strided(tensor, data, offset, size, n_copies, stride_tensor, stride_data, True, None)

def ggml_backend_tensor_get_2d(tensor, data, offset, size, n_copies, stride_tensor, stride_data):
    """Copies `n_copies` pieces of `size` bytes of the tensor to `data`: the reverse of ggml_backend_tensor_set_2d."""
    enter(b"ggml_backend_tensor_get_2d")
    strided(tensor, data, offset, size, n_copies, stride_tensor, stride_data, False, None)

def ggml_backend_tensor_set_2d_async(backend, tensor, data, offset, size, n_copies, stride_tensor, stride_data):
    """ggml_backend_tensor_set_2d that may go on after the call, until ggml_backend_synchronize."""
    enter(b"ggml_backend_tensor_set_2d_async")
    strided(tensor, data, offset, size, n_copies, stride_tensor, stride_data, True, backend_arg(backend, "backend"))

def ggml_backend_tensor_get_2d_async(backend, tensor, data, offset, size, n_copies, stride_tensor, stride_data):
    """ggml_backend_tensor_get_2d that may go on after the call, until ggml_backend_synchronize."""
    enter(b"ggml_backend_tensor_get_2d_async")
    strided(tensor, data, offset, size, n_copies, stride_tensor, stride_data, False, backend_arg(backend, "backend"))

def ggml_backend_tensor_set_async(backend, tensor, data, offset, size):
    """ggml_backend_tensor_set that may go on after the call, until ggml_backend_synchronize."""
    enter(b"ggml_backend_tensor_set_async")
    strided(tensor, data, offset, size, 1, 0, 0, True, backend_arg(backend, "backend"))

def ggml_backend_tensor_get_async(backend, tensor, data, offset, size):
    """ggml_backend_tensor_get that may go on after the call, until ggml_backend_synchronize."""
    enter(b"ggml_backend_tensor_get_async")
    strided(tensor, data, offset, size, 1, 0, 0, False, backend_arg(backend, "backend"))

def ggml_backend_tensor_memset(tensor, value, offset, size):
    """Fills `size` bytes of the tensor, from byte `offset` on, with a byte."""
    enter(b"ggml_backend_tensor_memset")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef size_t at = arg_size(offset, b"offset"), n = arg_size(size, b"size")
    cdef Buffer b
    write(t, NULL, at, 0)            # the offset alone
    if n == 0:
        return
    b = buffer_of_tensor(t)
    cdef bytes block = bytes([arg_int32(value, b"value") & 255]) * min(n, <size_t>1 << 16)
    cdef size_t done = 0, k
    from_bounds(t, at, n)
    if b is not None:
        b.fill(t, arg_int32(value, b"value") & 255, at, n)
        return
    while done < n:
        k = min(n - done, <size_t>len(block))
        write(t, <const char *>block, at + done, k)
        done += k

cdef int from_bounds(ggml_tensor *t, size_t at, size_t n) except -1:
    if at + n < at:
        fail(ValueError, f"size is {n}: larger than the tensor")
    return write(t, NULL, at + n, 0)

def ggml_backend_tensor_copy(src, dst):
    """Copies the elements of a tensor to one of the same type, shape and strides, in whatever buffers they lie."""
    enter(b"ggml_backend_tensor_copy")
    copy(arg_tensor(src, b"src"), arg_tensor(dst, b"dst"))

def ggml_backend_tensor_copy_async(backend_src, backend_dst, src, dst):
    """ggml_backend_tensor_copy after the work of backend_src begun so far, and before what backend_dst begins later."""
    enter(b"ggml_backend_tensor_copy_async")
    copy_async(backend_arg(backend_src, "backend_src"), backend_arg(backend_dst, "backend_dst"), arg_tensor(src, b"src"), arg_tensor(dst, b"dst"))

cdef int copy_async(Backend a, Backend b, ggml_tensor *src, ggml_tensor *dst) except -1:
    if not same_layout(src, dst):
        fail(ValueError, "src and dst differ in type, shape or strides")
    if src == dst or gg_is_empty(src) or a.copy_async(b, src, dst):
        return 0
    a.synchronize()
    b.synchronize()
    return copy(src, dst)

def ggml_backend_buffer_copy_tensor(src, dst):
    """Lets dst's buffer copy the elements of src, where it knows how; whether it did."""
    enter(b"ggml_backend_buffer_copy_tensor")
    cdef ggml_tensor *s = arg_tensor(src, b"src")
    cdef ggml_tensor *d = arg_tensor(dst, b"dst")
    if not same_layout(s, d):
        fail(ValueError, "src and dst differ in type, shape or strides")
    cdef Buffer b = buffer_of_tensor(d)
    return b is not None and bool(b.copy_in(s, d))

def ggml_backend_tensor_alloc(buffer, tensor, addr):
    """Places a tensor without data at an address in the buffer; returns a status."""
    enter(b"ggml_backend_tensor_alloc")
    cdef Buffer b = buffer_arg(buffer, "buffer")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef size_t at = <size_t>arg_address(addr, b"addr") - <size_t>b.base, n
    if t.view_src != NULL:
        fail(ValueError, "tensor is a view: see ggml_backend_view_init")
    if t.data != NULL and not buffer_dead(t):
        fail(ValueError, "tensor has data already")
    n = b.buft.alloc_size(t)
    if at > b.size or n > b.size - at:
        fail(ValueError, f"addr lies {at} bytes into a buffer of {b.size}: the tensor takes {n}")
    return place(b, t, at)

def ggml_backend_view_init(tensor):
    """Gives a view the memory of the tensor that it is a view of, which has been placed by now; returns a status."""
    enter(b"ggml_backend_view_init")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.view_src == NULL:
        fail(ValueError, "tensor is no view")
    return place_view(t)

# ---- backends --------------------------------------------------------------------------------------------------------------------
def ggml_backend_guid(backend):
    """Pointer to the 16 bytes that identify the kind of backend."""
    enter(b"ggml_backend_guid")
    guid = backend_arg(backend, "backend").guid()
    return ctypes.pointer(guid) if guid is not None else _structs.ggml_guid_t_ctypes()

def ggml_backend_name(backend):
    """Name of a backend (bytes)."""
    enter(b"ggml_backend_name")
    return backend_arg(backend, "backend").name()

def ggml_backend_free(backend):
    """Frees a backend; its buffers stay. None is accepted."""
    enter(b"ggml_backend_free")
    if backend is not None:
        backend_arg(backend, "backend").release()

def ggml_backend_get_default_buffer_type(backend):
    """The type of buffers that a backend has by default."""
    enter(b"ggml_backend_get_default_buffer_type")
    return HANDLE(backend_arg(backend, "backend").buft())

def ggml_backend_alloc_buffer(backend, size):
    """A new buffer of the backend's default type; None where the memory can't be had."""
    enter(b"ggml_backend_alloc_buffer")
    return HANDLE(backend_arg(backend, "backend").buft().alloc(arg_size(size, b"size")))

def ggml_backend_get_alignment(backend):
    """Bytes that tensors in the backend's buffers are aligned to."""
    enter(b"ggml_backend_get_alignment")
    return backend_arg(backend, "backend").buft().alignment()

def ggml_backend_get_max_size(backend):
    """Bytes of the backend's largest buffer."""
    enter(b"ggml_backend_get_max_size")
    return backend_arg(backend, "backend").buft().max_size()

def ggml_backend_get_device(backend):
    """The device of a backend; None where it has none."""
    enter(b"ggml_backend_get_device")
    return HANDLE(backend_arg(backend, "backend").device)

def ggml_backend_synchronize(backend):
    """Returns when all that the backend has begun is done."""
    enter(b"ggml_backend_synchronize")
    backend_arg(backend, "backend").synchronize()

def ggml_backend_graph_plan_create(backend, cgraph):
    """A plan for computing the graph again and again; its handle."""
    enter(b"ggml_backend_graph_plan_create")
    cdef Backend b = backend_arg(backend, "backend")
    return HANDLE(b.plan_new(arg_graph(cgraph, b"cgraph"), cgraph))

cdef Plan plan_of(Backend b, object plan):
    cdef Plan p = <Plan>find(plan, Plan, "plan")
    if p.keep is not b:
        fail(ValueError, "plan was made by another backend")
    return p

def ggml_backend_graph_plan_free(backend, plan):
    """Frees a plan; the graph stays."""
    enter(b"ggml_backend_graph_plan_free")
    cdef Backend b = backend_arg(backend, "backend")
    b.plan_free(plan_of(b, plan))

def ggml_backend_graph_plan_compute(backend, plan):
    """Computes the graph of a plan; returns a status."""
    enter(b"ggml_backend_graph_plan_compute")
    cdef Backend b = backend_arg(backend, "backend")
    return b.plan_compute(plan_of(b, plan))

def ggml_backend_graph_compute(backend, cgraph):
    """Computes the graph and waits for the end; returns a status. RuntimeError: an operation failed."""
    enter(b"ggml_backend_graph_compute")
    cdef Backend b = backend_arg(backend, "backend")
    cdef int status = b.compute(arg_graph(cgraph, b"cgraph"))
    b.synchronize()
    return status

def ggml_backend_graph_compute_async(backend, cgraph):
    """Computes the graph, maybe going on after the call until ggml_backend_synchronize; returns a status."""
    enter(b"ggml_backend_graph_compute_async")
    cdef Backend b = backend_arg(backend, "backend")
    return b.compute(arg_graph(cgraph, b"cgraph"))

def ggml_backend_supports_op(backend, op):
    """Whether the backend can compute the tensor `op`."""
    enter(b"ggml_backend_supports_op")
    return bool(backend_arg(backend, "backend").supports_op(arg_tensor(op, b"op")))

def ggml_backend_supports_buft(backend, buft):
    """Whether the backend can use tensors in buffers of that type."""
    enter(b"ggml_backend_supports_buft")
    return bool(backend_arg(backend, "backend").supports_buft(buft_arg(buft, "buft")))

def ggml_backend_offload_op(backend, op):
    """Whether copying weights to the backend to compute the tensor `op` there is worth it."""
    enter(b"ggml_backend_offload_op")
    return bool(backend_arg(backend, "backend").offload_op(arg_tensor(op, b"op")))

# ---- events ------------------------------------------------------------------------------------------------------------------------
def ggml_backend_event_new(device):
    """A new event of a device (or, as in older releases, of a backend); None where it has none, or for None."""
    enter(b"ggml_backend_event_new")
    if device is None:
        return None
    cdef Handle h = <Handle>find(device, Backend if isinstance(live.get(key_of(device)), Backend) else Device, "device")
    return HANDLE((<Backend>h).event_new() if isinstance(h, Backend) else (<Device>h).event_new())

cdef object key_of(object o):
    return o if type(o) is int else getattr(o, "value", None)

def ggml_backend_event_free(event):
    """Frees an event. None is accepted."""
    enter(b"ggml_backend_event_free")
    if event is not None:
        (<Event>find(event, Event, "event")).release()

def ggml_backend_event_record(event, backend=None):
    """Lets the event come when all that the backend (by default the one that made it) has begun is done."""
    enter(b"ggml_backend_event_record")
    cdef Event e = <Event>find(event, Event, "event")
    e.record(backend_arg(backend, "backend") if backend is not None else None)

def ggml_backend_event_synchronize(event):
    """Waits for the event."""
    enter(b"ggml_backend_event_synchronize")
    (<Event>find(event, Event, "event")).synchronize()

def ggml_backend_event_wait(backend, event):
    """Lets the backend's later work wait for the event."""
    enter(b"ggml_backend_event_wait")
    cdef Backend b = backend_arg(backend, "backend")
    (<Event>find(event, Event, "event")).wait(b)

# ---- the CPU backend -----------------------------------------------------------------------------------------------------------------
def ggml_backend_cpu_init():
    """A new CPU backend, with as many threads as the CPU gives."""
    enter(b"ggml_backend_cpu_init")
    return HANDLE(cpu_device.init(None))

def ggml_backend_is_cpu(backend):
    """Whether it is a CPU backend; False for None."""
    enter(b"ggml_backend_is_cpu")
    return backend is not None and isinstance(backend_arg(backend, "backend"), CpuBackend)

cdef CpuBackend cpu_arg(object backend):
    cdef Backend b = backend_arg(backend, "backend_cpu")
    if not isinstance(b, CpuBackend):
        fail(ValueError, "backend_cpu is another kind of backend: need a CPU backend")
    return <CpuBackend>b

def ggml_backend_cpu_set_n_threads(backend_cpu, n_threads):
    """Sets the number of threads to compute with; a negative one: as many as the CPU gives."""
    enter(b"ggml_backend_cpu_set_n_threads")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    b.n_threads = threads(n_threads, "n_threads")

def ggml_backend_cpu_set_threadpool(backend_cpu, threadpool):
    """Sets the thread pool to compute with; None for the default one. A pool stands for its number of threads."""
    enter(b"ggml_backend_cpu_set_threadpool")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    if threadpool is not None:
        b.n_threads = threads(_system.threadpool_threads(threadpool), "n_threads")
    b.threadpool = threadpool

def ggml_backend_cpu_set_abort_callback(backend_cpu, abort_callback, abort_callback_data):
    """Sets what is asked between nodes (ggml_abort_callback, called with the data); True stops the compute. None: nothing."""
    enter(b"ggml_backend_cpu_set_abort_callback")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    callback = as_callback(abort_callback, _structs.ggml_abort_callback)
    b.abort = arg_callback(callback, _structs.ggml_abort_callback, b"abort_callback")
    b.abort_data = arg_address(abort_callback_data, b"abort_callback_data")
    b.callback = (callback, abort_callback_data)

def ggml_backend_cpu_set_use_ref(backend_cpu, use_ref):
    """Sets whether to compute with the plain reference kernels."""
    enter(b"ggml_backend_cpu_set_use_ref")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    b.use_ref = arg_bool(use_ref, b"use_ref")

# ---- registries and devices ------------------------------------------------------------------------------------------------------------
cdef object found(list all, object name):
    """The first whose name that is, upper or lower case; None: no such thing."""
    wanted = arg_text(name, b"name").lower()
    for h in all:
        if ((<Device>h).name() if isinstance(h, Device) else (<Registry>h).name()).lower() == wanted:
            return h
    return None

cdef object at_index(list all, object index, str what):
    cdef size_t i = arg_size(index, b"index")
    if i >= <size_t>len(all):
        fail(IndexError, f"index is {i}: there are {len(all)} {what}")
    return all[i]

cdef Registry reg_arg(object reg):
    return <Registry>find(reg, Registry, "reg")

def ggml_backend_cpu_reg():
    """The registry of the CPU."""
    return HANDLE(cpu_device.registry)

def ggml_backend_reg_count():
    """Number of registries."""
    return len(all_registries)

def ggml_backend_reg_get(index):
    """Registry number `index`."""
    enter(b"ggml_backend_reg_get")
    return HANDLE(at_index(all_registries, index, "registries"))

def ggml_backend_reg_by_name(name):
    """The registry of that name; None when there is none."""
    enter(b"ggml_backend_reg_by_name")
    return HANDLE(found(all_registries, name))

def ggml_backend_reg_name(reg):
    """Name of a registry (bytes)."""
    enter(b"ggml_backend_reg_name")
    return reg_arg(reg).name()

def ggml_backend_reg_dev_count(reg):
    """Number of devices of a registry."""
    enter(b"ggml_backend_reg_dev_count")
    return len(reg_arg(reg).devices())

def ggml_backend_reg_dev_get(reg, index):
    """Device number `index` of a registry."""
    enter(b"ggml_backend_reg_dev_get")
    return HANDLE(at_index(reg_arg(reg).devices(), index, "devices"))

def ggml_backend_reg_get_proc_address(reg, name):
    """Address of a C function that only this kind of backend has; None when there is no such function."""
    enter(b"ggml_backend_reg_get_proc_address")
    return reg_arg(reg).proc(arg_text(name, b"name")) or None

def ggml_backend_register(reg):
    """Enters a registry (the address of a ggml_backend_reg) and its devices, for the functions that look for devices."""
    enter(b"ggml_backend_register")
    cdef Registry r = <Registry>(adopted(reg, Registry) if type(reg) is int and reg not in live else reg_arg(reg))
    if r is None:
        fail(TypeError, "reg is NULL: need a backend registry")
    if r not in all_registries:
        all_registries.append(r)
        all_devices.extend([d for d in r.devices() if d not in all_devices])

def ggml_backend_device_register(device):
    """Enters a device (the address of a ggml_backend_device), for the functions that look for devices."""
    enter(b"ggml_backend_device_register")
    cdef Device d = <Device>(adopted(device, Device) if type(device) is int and device not in live else device_arg(device, "device"))
    if d is None:
        fail(TypeError, "device is NULL: need a device")
    if d not in all_devices:
        all_devices.append(d)

def ggml_backend_unload(reg):
    """Takes a registry and its devices out of the lists again. ValueError: the CPU's, which stays."""
    enter(b"ggml_backend_unload")
    cdef Registry r = reg_arg(reg)
    if r is cpu_device.registry:
        fail(ValueError, "reg is the CPU's, which is part of this library")
    if r in all_registries:
        all_registries.remove(r)
    for d in r.devices():
        if d in all_devices:
            all_devices.remove(d)

def ggml_backend_load(path):
    """Loads a backend from a shared library: this build can load none, so the result is None."""
    enter(b"ggml_backend_load")
    arg_text(path, b"path")
    return None

def ggml_backend_load_all():
    """Loads all backends that are installed: there are none beside what this library has already."""

def ggml_backend_load_all_from_path(dir_path):
    """Loads all backends in a folder: this build can load none."""
    enter(b"ggml_backend_load_all_from_path")
    if dir_path is not None:
        arg_text(dir_path, b"dir_path")

def ggml_backend_dev_count():
    """Number of devices."""
    return len(all_devices)

def ggml_backend_dev_get(index):
    """Device number `index`."""
    enter(b"ggml_backend_dev_get")
    return HANDLE(at_index(all_devices, index, "devices"))

def ggml_backend_dev_by_name(name):
    """The device of that name; None when there is none."""
    enter(b"ggml_backend_dev_by_name")
    return HANDLE(found(all_devices, name))

cdef Device of_kind(object kind):
    cdef int k = arg_int32(kind, b"type")
    cdef Device d
    for d in all_devices:
        if d.kind() == k:
            return d
    return None

def ggml_backend_dev_by_type(type):
    """The first device of a type (GGML_BACKEND_DEVICE_TYPE_*); None when there is none."""
    enter(b"ggml_backend_dev_by_type")
    return HANDLE(of_kind(type))

def ggml_backend_dev_name(device):
    """Name of a device (bytes)."""
    enter(b"ggml_backend_dev_name")
    return device_arg(device, "device").name()

def ggml_backend_dev_description(device):
    """What a device is, in words (bytes)."""
    enter(b"ggml_backend_dev_description")
    return device_arg(device, "device").description()

def ggml_backend_dev_memory(device, free, total):
    """Writes the bytes of memory that are free and in all to two size_t (byref(c_size_t()), a pointer or an address)."""
    enter(b"ggml_backend_dev_memory")
    cdef tuple sizes = device_arg(device, "device").memory()
    put_size(free, b"free", sizes[0])
    put_size(total, b"total", sizes[1])

cdef int put_size(object o, const char *name, size_t value) except -1:
    cdef void *p
    arg_buffer(o, name, sizeof(size_t), &p)
    if p == NULL or not engine.readable(p, sizeof(size_t)):
        fail(TypeError, f"{name.decode()} is {o!r}: need a pointer to size_t")
    (<size_t *>p)[0] = value
    return 0

def ggml_backend_dev_type(device):
    """The type of a device (GGML_BACKEND_DEVICE_TYPE_*)."""
    enter(b"ggml_backend_dev_type")
    return device_arg(device, "device").kind()

cdef dict texts = {}      # names that props point to

def ggml_backend_dev_get_props(device, props):
    """Fills in what the device is (a ggml_backend_dev_props, or a pointer to one)."""
    enter(b"ggml_backend_dev_get_props")
    cdef Device d = device_arg(device, "device")
    p = struct_of(props, _structs.ggml_backend_dev_props, "props")
    p.name, p.description, p.device_id = [texts.setdefault(s, s) for s in (d.name(), d.description(), d.id())]
    p.memory_free, p.memory_total = d.memory()
    p.type = d.kind()
    p.caps = _structs.ggml_backend_dev_caps(*d.caps())

def ggml_backend_dev_backend_reg(device):
    """The registry of a device; None where it has none."""
    enter(b"ggml_backend_dev_backend_reg")
    return HANDLE(device_arg(device, "device").registry)

cdef bytes params_of(object params):
    return None if params is None else arg_text(params, b"params")

def ggml_backend_dev_init(device, params):
    """A new backend of a device; `params`: text that only the device understands, or None."""
    enter(b"ggml_backend_dev_init")
    return HANDLE(device_arg(device, "device").init(params_of(params)))

def ggml_backend_dev_buffer_type(device):
    """The type of buffers that a device has by default."""
    enter(b"ggml_backend_dev_buffer_type")
    return HANDLE(device_arg(device, "device").buft())

def ggml_backend_dev_host_buffer_type(device):
    """The type of buffers in the CPU's memory that the device reads fastest; None where it has none."""
    enter(b"ggml_backend_dev_host_buffer_type")
    return HANDLE(device_arg(device, "device").host_buft())

def ggml_backend_dev_buffer_from_host_ptr(device, ptr, size, max_tensor_size):
    """A buffer of the device over the caller's memory; None where it can't make one."""
    enter(b"ggml_backend_dev_buffer_from_host_ptr")
    return HANDLE(from_ptr(device_arg(device, "device"), ptr, size, arg_size(max_tensor_size, b"max_tensor_size")))

def ggml_backend_dev_supports_op(device, op):
    """Whether the device can compute the tensor `op`."""
    enter(b"ggml_backend_dev_supports_op")
    return bool(device_arg(device, "device").supports_op(arg_tensor(op, b"op")))

def ggml_backend_dev_supports_buft(device, buft):
    """Whether the device can use tensors in buffers of that type."""
    enter(b"ggml_backend_dev_supports_buft")
    return bool(device_arg(device, "device").supports_buft(buft_arg(buft, "buft")))

def ggml_backend_dev_offload_op(device, op):
    """Whether copying weights to the device to compute the tensor `op` there is worth it."""
    enter(b"ggml_backend_dev_offload_op")
    return bool(device_arg(device, "device").offload_op(arg_tensor(op, b"op")))

def ggml_backend_init_by_name(name, params):
    """A new backend of the device of that name; None when there is none."""
    enter(b"ggml_backend_init_by_name")
    cdef Device d = <Device>found(all_devices, name)
    return HANDLE(d.init(params_of(params))) if d is not None else None

def ggml_backend_init_by_type(type, params):
    """A new backend of the first device of a type; None when there is none."""
    enter(b"ggml_backend_init_by_type")
    cdef Device d = of_kind(type)
    return HANDLE(d.init(params_of(params))) if d is not None else None

def ggml_backend_init_best():
    """A new backend of the first GPU there is, else of the CPU."""
    enter(b"ggml_backend_init_best")
    cdef Device d = of_kind(GPU) or of_kind(IGPU) or cpu_device
    return HANDLE(d.init(None))

# ---- the registry of 2024, by index: one entry a device ------------------------------------------------------------------------------
def ggml_backend_reg_get_count():
    """Number of backends that can be made, as releases of 2024 counted them."""
    return len(all_devices)

def ggml_backend_reg_find_by_name(name):
    """Index of the backend of that name; SIZE_MAX when there is none."""
    enter(b"ggml_backend_reg_find_by_name")
    d = found(all_devices, name)
    return all_devices.index(d) if d is not None else <size_t>-1

def ggml_backend_reg_init_backend_from_str(backend_str):
    """A new backend from b"name" or b"name:params"; None when there is none of that name."""
    enter(b"ggml_backend_reg_init_backend_from_str")
    name, _, params = arg_text(backend_str, b"backend_str").partition(b":")
    cdef Device d = <Device>found(all_devices, name)
    return HANDLE(d.init(params)) if d is not None else None

def ggml_backend_reg_get_name(i):
    """Name of backend i (bytes)."""
    enter(b"ggml_backend_reg_get_name")
    return (<Device>at_index(all_devices, i, "backends")).name()

def ggml_backend_reg_init_backend(i, params):
    """A new backend of index i."""
    enter(b"ggml_backend_reg_init_backend")
    return HANDLE((<Device>at_index(all_devices, i, "backends")).init(params_of(params)))

def ggml_backend_reg_get_default_buffer_type(i):
    """The type of buffers that backend i has by default."""
    enter(b"ggml_backend_reg_get_default_buffer_type")
    return HANDLE((<Device>at_index(all_devices, i, "backends")).buft())

def ggml_backend_reg_alloc_buffer(i, size):
    """A new buffer of the default type of backend i."""
    enter(b"ggml_backend_reg_alloc_buffer")
    return HANDLE((<Device>at_index(all_devices, i, "backends")).buft().alloc(arg_size(size, b"size")))

# ---- C functions for ggml_backend_reg_get_proc_address ---------------------------------------------------------------------------------
class _Feature(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]

_names = [k[len("ggml_cpu_has_"):].upper() for k, has in vars(_system).items() if k.startswith("ggml_cpu_has_") and has()]
_features = (_Feature * (len(_names) + 2))(*[(name.encode(), b"1") for name in (*_names, "OPENMP")])     # the last is empty

_procs = {
    b"ggml_backend_get_features": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda reg: ctypes.addressof(_features)),
    b"ggml_backend_cpu_numa_init": ctypes.CFUNCTYPE(None, ctypes.c_int)(_system.ggml_numa_init),
    b"ggml_backend_cpu_is_numa": ctypes.CFUNCTYPE(ctypes.c_bool)(_system.ggml_is_numa),
    b"ggml_threadpool_new": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_structs.ggml_threadpool_params))(
        _system.ggml_threadpool_new),
    b"ggml_threadpool_free": ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_system.ggml_threadpool_free),
    b"ggml_backend_set_n_threads": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(ggml_backend_cpu_set_n_threads),
    b"ggml_backend_set_abort_callback": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ggml_backend_cpu_set_abort_callback),
    b"ggml_backend_cpu_set_threadpool": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(ggml_backend_cpu_set_threadpool),
}
_set_procs({name: ctypes.cast(f, ctypes.c_void_p).value for name, f in _procs.items()})
