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
    """Returns the name of a buffer type.

    A buffer type stands for a kind of memory: buffers are allocated from it, tensors are placed in buffers.

    Args:
        buft: handle of a buffer type; for one that is written in Python, its ggml_backend_buffer_type will do.
    Returns:
        Name as bytes, for example b"CPU" or b"CPU_Mapped".
    Raises:
        TypeError: buft is None or something else than a buffer type.
        RuntimeError: buft is a number that is no live handle.
    """
    enter(b"ggml_backend_buft_name")
    return buft_arg(buft, "buft").name()

def ggml_backend_buft_alloc_buffer(buft, size):
    """Allocates a buffer from a buffer type.

    Memory of the CPU starts out as zeros. Free the buffer with ggml_backend_buffer_free.

    Args:
        buft: handle of a buffer type.
        size: bytes, 0 or more.
    Returns:
        Handle of the new buffer (int), or None if the memory is not available.
    Raises:
        TypeError: buft is no buffer type, or size is no integer.
        ValueError: size is negative.
        RuntimeError: buft is no live handle.
    """
    enter(b"ggml_backend_buft_alloc_buffer")
    return HANDLE(buft_arg(buft, "buft").alloc(arg_size(size, b"size")))

def ggml_backend_buft_get_alignment(buft):
    """Returns the alignment of tensors in buffers of a type.

    Args:
        buft: handle of a buffer type.
    Returns:
        Bytes, a power of two; 32 for memory of the CPU.
    Raises:
        TypeError: buft is None or something else than a buffer type.
        RuntimeError: buft is a number that is no live handle.
        ValueError: the get_alignment callback of a type that is written in Python returned no power of two.
    """
    enter(b"ggml_backend_buft_get_alignment")
    return buft_arg(buft, "buft").alignment()

def ggml_backend_buft_get_max_size(buft):
    """Returns the size of the largest buffer that a buffer type can allocate.

    Args:
        buft: handle of a buffer type.
    Returns:
        Bytes; 2**64 - 1 if the type has no limit of its own, as the CPU's.
    Raises:
        TypeError: buft is None or something else than a buffer type.
        RuntimeError: buft is a number that is no live handle.
    """
    enter(b"ggml_backend_buft_get_max_size")
    return buft_arg(buft, "buft").max_size()

def ggml_backend_buft_get_alloc_size(buft, tensor):
    """Returns the bytes that a tensor needs in buffers of a type.

    This is ggml_nbytes(tensor), unless the type is written in Python and its get_alloc_size asks for more.

    Args:
        buft: handle of a buffer type.
        tensor: any tensor, any shape; it needs no data.
    Returns:
        Bytes, without padding for the alignment.
    Raises:
        TypeError: buft is no buffer type, or tensor is no tensor.
        ValueError: the get_alloc_size callback returned less than ggml_nbytes(tensor).
        RuntimeError: buft is no live handle, or the tensor was freed.
    """
    enter(b"ggml_backend_buft_get_alloc_size")
    return buft_arg(buft, "buft").alloc_size(arg_tensor(tensor, b"tensor"))

def ggml_backend_buft_is_host(buft):
    """Tells whether the CPU can read and write buffers of a type directly.

    Args:
        buft: handle of a buffer type.
    Returns:
        True if the addresses of tensors in such buffers are ordinary memory, False if data has to be copied.
    Raises:
        TypeError: buft is None or something else than a buffer type.
        RuntimeError: buft is a number that is no live handle.
    """
    enter(b"ggml_backend_buft_is_host")
    return bool(buft_arg(buft, "buft").is_host())

def ggml_backend_buft_get_device(buft):
    """Returns the device that a buffer type belongs to.

    Args:
        buft: handle of a buffer type.
    Returns:
        Handle of the device, or None if it is not known: a type that is written in Python has one from the moment
        a device returns it as its own.
    Raises:
        TypeError: buft is None or something else than a buffer type.
        RuntimeError: buft is a number that is no live handle.
    """
    enter(b"ggml_backend_buft_get_device")
    return HANDLE(buft_arg(buft, "buft").device)

def ggml_backend_cpu_buffer_type():
    """Returns the buffer type of ordinary CPU memory.

    Returns:
        Handle of the type named b"CPU", the same at every call.
    """
    return HANDLE(cpu_buft)

def ggml_backend_cpu_hbm_buffer_type():
    """Returns the buffer type of high-bandwidth memory, which this build does not support.

    Returns:
        None, always.
    """
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
    """Combines several buffers into one that is freed, cleared, reset and labelled as a whole.

    Tensors are placed in the parts, not in the combined buffer, which has no address of its own.

    Args:
        buffers: array of n_buffers buffer handles: a list, a ctypes array, a pointer or an address.
        n_buffers: number of parts, 1 or more.
    Returns:
        Handle of the combined buffer. Its size is the sum of the parts' sizes, its type that of the first part.
        Freeing it frees the parts that are still live.
    Raises:
        TypeError: buffers is None or no array, or an entry is no buffer.
        ValueError: n_buffers is 0 or negative, or the array has fewer entries or is no readable memory.
        RuntimeError: an entry is no live handle.
    """
    enter(b"ggml_backend_multi_buffer_alloc_buffer")
    cdef list parts = handles(buffers, arg_size(n_buffers, b"n_buffers"), Buffer, "buffers")
    if not parts:
        fail(ValueError, "n_buffers is 0: need at least one")
    return HANDLE(multi_buffer(parts))

def ggml_backend_buffer_init(buft, iface, context, size):
    """Creates a buffer whose behaviour is given by a table of callbacks.

    This is for buffer types that are written in Python: their alloc_buffer callback returns such a buffer. Each
    callback receives the handle, which is the address of a ggml_backend_buffer struct that holds context.
    This call runs get_base.

    Args:
        buft: handle of the buffer type that the buffer belongs to.
        iface: ggml_backend_buffer_i, or a pointer to one. get_base, set_tensor, get_tensor and clear must be set.
        context: value for the callbacks: None, an int or an address; of other objects, the address is taken.
        size: bytes, 0 or more.
    Returns:
        Handle of the buffer (int).
    Raises:
        TypeError: iface is no ggml_backend_buffer_i, or another argument is of the wrong kind.
        ValueError: size is negative, a required callback is NULL, a callback is no function, or get_base returned
            NULL, or, for a host type, no readable memory of that size.
        RuntimeError: buft is no live handle.
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
    """Wraps memory of the caller in a CPU buffer, without copying it.

    The buffer keeps the object ptr alive and does not free the memory. Its type is the one named b"CPU_Mapped".

    Args:
        ptr: the memory: an address, bytes, ctypes or NumPy memory, or any contiguous object with a buffer.
        size: bytes of it to use, 0 or more.
    Returns:
        Handle of the buffer (int).
    Raises:
        TypeError: ptr is None or NULL, or is no memory.
        ValueError: size is negative, or ptr is smaller than size or not readable for size bytes.
    """
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
    """Returns the name of a buffer, which is the name of its type unless a callback says otherwise.

    Args:
        buffer: handle of a buffer.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: buffer is None or something else than a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_name")
    return buffer_arg(buffer, "buffer").name()

def ggml_backend_buffer_free(buffer):
    """Frees a buffer.

    Tensors in it become unusable: functions that need their data raise RuntimeError. NumPy and DLPack views of CPU
    memory keep that memory alive until they are gone.

    Args:
        buffer: handle of a buffer, or None, for which nothing happens.
    Returns:
        None.
    Raises:
        TypeError: buffer is 0 or something else than a buffer.
        RuntimeError: buffer was freed already, or never was a handle.
    """
    enter(b"ggml_backend_buffer_free")
    if buffer is not None:
        buffer_arg(buffer, "buffer").release()

def ggml_backend_buffer_get_base(buffer):
    """Returns the address at which the memory of a buffer starts.

    The CPU may access that address only if ggml_backend_buffer_is_host(buffer) is True; other devices number their
    memory as they like.

    Args:
        buffer: handle of a buffer.
    Returns:
        Address as int, or None for a buffer of 0 bytes and for one that combines several.
    Raises:
        TypeError: buffer is None or something else than a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_get_base")
    cdef Buffer b = buffer_arg(buffer, "buffer")
    return <size_t>b.base if b.size and b.base != NULL else None

def ggml_backend_buffer_get_size(buffer):
    """Returns the size of a buffer.

    Args:
        buffer: handle of a buffer.
    Returns:
        Bytes, as given at its allocation; of a combined buffer, the sum of its parts.
    Raises:
        TypeError: buffer is None or something else than a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_get_size")
    return buffer_arg(buffer, "buffer").size

def ggml_backend_buffer_init_tensor(buffer, tensor):
    """Tells a buffer that a tensor has been placed in it.

    ggml_backend_tensor_alloc and the allocators do this themselves. CPU buffers ignore it, a buffer of a meta
    device splits the tensor anew, and one that is written in Python runs its init_tensor callback, if it has one.

    Args:
        buffer: handle of a buffer.
        tensor: any tensor, any shape, whose buffer and data fields are set already.
    Returns:
        GGML_STATUS_SUCCESS (0).
    Raises:
        TypeError: buffer is no buffer, or tensor is no tensor.
        ValueError: the get_split_state function of a meta device returned an unusable split.
        RuntimeError: the buffer or the tensor was freed.
    """
    enter(b"ggml_backend_buffer_init_tensor")
    return buffer_arg(buffer, "buffer").init_tensor(arg_tensor(tensor, b"tensor"))

def ggml_backend_buffer_get_alignment(buffer):
    """Returns the alignment of tensors in a buffer, which is that of its type.

    Args:
        buffer: handle of a buffer.
    Returns:
        Bytes, a power of two; 32 for memory of the CPU.
    Raises:
        TypeError: buffer is None or something else than a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_get_alignment")
    return buffer_arg(buffer, "buffer").buft.alignment()

def ggml_backend_buffer_get_max_size(buffer):
    """Returns the size limit of the type that a buffer belongs to.

    Args:
        buffer: handle of a buffer.
    Returns:
        Bytes of the largest buffer of that type; 2**64 - 1 if there is no limit.
    Raises:
        TypeError: buffer is None or something else than a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_get_max_size")
    return buffer_arg(buffer, "buffer").buft.max_size()

def ggml_backend_buffer_get_alloc_size(buffer, tensor):
    """Returns the bytes that a tensor needs in a given buffer, as ggml_backend_buft_get_alloc_size of its type.

    Args:
        buffer: handle of a buffer.
        tensor: any tensor, any shape; it need not lie in the buffer.
    Returns:
        Bytes, at least ggml_nbytes(tensor).
    Raises:
        TypeError: buffer is no buffer, or tensor is no tensor.
        RuntimeError: the buffer or the tensor was freed.
    """
    enter(b"ggml_backend_buffer_get_alloc_size")
    return buffer_arg(buffer, "buffer").buft.alloc_size(arg_tensor(tensor, b"tensor"))

def ggml_backend_buffer_clear(buffer, value):
    """Fills all bytes of a buffer with one value.

    Args:
        buffer: handle of a buffer; a combined buffer passes the value on to its parts.
        value: 32-bit integer, of which the low 8 bits are used.
    Returns:
        None.
    Raises:
        TypeError: buffer is no buffer, or value is no integer.
        ValueError: value needs more than 32 bits.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_clear")
    cdef Buffer b = buffer_arg(buffer, "buffer")
    cdef int v = arg_int32(value, b"value") & 255
    if b.size:
        b.clear(v)

def ggml_backend_buffer_is_host(buffer):
    """Tells whether the CPU can read and write a buffer directly.

    Args:
        buffer: handle of a buffer.
    Returns:
        True or False, as ggml_backend_buft_is_host of its type.
    Raises:
        TypeError: buffer is None or something else than a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_is_host")
    return bool(buffer_arg(buffer, "buffer").buft.is_host())

def ggml_backend_buffer_set_usage(buffer, usage):
    """Labels a buffer with its purpose, for the scheduler.

    The scheduler prefers to compute a node on a backend that can read the buffers of the node's weights: those are
    the operands in buffers labelled WEIGHTS.

    Args:
        buffer: handle of a buffer; for a combined buffer, the parts are labelled too.
        usage: GGML_BACKEND_BUFFER_USAGE_ANY (0, the default), _WEIGHTS (1) or _COMPUTE (2).
    Returns:
        None.
    Raises:
        TypeError: buffer is no buffer, or usage is no integer.
        ValueError: usage is another number.
        RuntimeError: buffer was freed, or never was a handle.
    """
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
    """Returns the purpose with which a buffer is labelled.

    Args:
        buffer: handle of a buffer.
    Returns:
        GGML_BACKEND_BUFFER_USAGE_ANY (0), _WEIGHTS (1) or _COMPUTE (2, set by the allocators of graphs).
    Raises:
        TypeError: buffer is None or something else than a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_get_usage")
    return buffer_arg(buffer, "buffer").usage

def ggml_backend_buffer_get_type(buffer):
    """Returns the type that a buffer was allocated from.

    Args:
        buffer: handle of a buffer.
    Returns:
        Handle of the buffer type.
    Raises:
        TypeError: buffer is None or something else than a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_get_type")
    return HANDLE(buffer_arg(buffer, "buffer").buft)

def ggml_backend_buffer_reset(buffer):
    """Makes a buffer forget what it knows about the tensors that were placed in it.

    CPU buffers know nothing and keep their contents. A buffer of a meta device frees the parts of its tensors, and
    one that is written in Python runs its reset callback, if it has one.

    Args:
        buffer: handle of a buffer; a combined buffer resets its parts.
    Returns:
        None.
    Raises:
        TypeError: buffer is None or something else than a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
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
    """Copies bytes from the caller's memory into a tensor, in whatever memory the tensor lies.

    Args:
        tensor: any tensor, any shape, with data.
        data: source: an address, bytes, ctypes or NumPy memory of at least size bytes; None only if size is 0.
        offset: byte of the tensor at which to start.
        size: bytes to copy; offset + size must not exceed ggml_nbytes(tensor).
    Returns:
        None.
    Raises:
        TypeError: tensor is no tensor, or data is None or no memory.
        ValueError: offset and size reach beyond the tensor, data is too small, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
    enter(b"ggml_backend_tensor_set")
    cdef size_t n = arg_size(size, b"size")
    write(arg_tensor(tensor, b"tensor"), source(data, n), arg_size(offset, b"offset"), n)

def ggml_backend_tensor_get(tensor, data, offset, size):
    """Copies bytes of a tensor into the caller's memory, from whatever memory the tensor lies in.

    Args:
        tensor: any tensor, any shape, with data.
        data: destination: an address, a bytearray, ctypes or NumPy memory of at least size bytes.
        offset: byte of the tensor at which to start.
        size: bytes to copy; offset + size must not exceed ggml_nbytes(tensor).
    Returns:
        None; the bytes are in data.
    Raises:
        TypeError: tensor is no tensor, or data is None, bytes (which cannot be written) or no memory.
        ValueError: offset and size reach beyond the tensor, data is too small, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
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
    """Copies equal pieces from the caller's memory into a tensor, with a stride on either side.

    Piece i goes from byte i * stride_data of data to byte offset + i * stride_tensor of the tensor.

    Args:
        tensor: any tensor, any shape, with data; the last piece must end within ggml_nbytes(tensor).
        data: source: an address, bytes, ctypes or NumPy memory.
        offset: byte of the tensor at which the first piece starts.
        size: bytes of a piece.
        n_copies: number of pieces; nothing happens if it or size is 0.
        stride_tensor: bytes from the start of a piece to that of the next in the tensor.
        stride_data: likewise in data.
    Returns:
        None.
    Raises:
        TypeError: tensor is no tensor, or data is None or no memory.
        ValueError: a number is negative, a piece lies beyond the tensor or data, or the tensor has no data. Nothing
            has been copied then.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
    enter(b"ggml_backend_tensor_set_2d")
    strided(tensor, data, offset, size, n_copies, stride_tensor, stride_data, True, None)

def ggml_backend_tensor_get_2d(tensor, data, offset, size, n_copies, stride_tensor, stride_data):
    """Copies equal pieces of a tensor into the caller's memory, with a stride on either side.

    Piece i goes from byte offset + i * stride_tensor of the tensor to byte i * stride_data of data.

    Args:
        tensor: any tensor, any shape, with data; the last piece must end within ggml_nbytes(tensor).
        data: destination: an address, a bytearray, ctypes or NumPy memory.
        offset: byte of the tensor at which the first piece starts.
        size: bytes of a piece.
        n_copies: number of pieces; nothing happens if it or size is 0.
        stride_tensor: bytes from the start of a piece to that of the next in the tensor.
        stride_data: likewise in data.
    Returns:
        None; the pieces are in data, bytes between them are unchanged.
    Raises:
        TypeError: tensor is no tensor, or data is None, bytes (which cannot be written) or no memory.
        ValueError: a number is negative, a piece lies beyond the tensor or data, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
    enter(b"ggml_backend_tensor_get_2d")
    strided(tensor, data, offset, size, n_copies, stride_tensor, stride_data, False, None)

def ggml_backend_tensor_set_2d_async(backend, tensor, data, offset, size, n_copies, stride_tensor, stride_data):
    """Starts copying equal pieces into a tensor on a backend; ggml_backend_synchronize waits for the end.

    Piece i goes from byte i * stride_data of data to byte offset + i * stride_tensor of the tensor. The CPU copies
    before it returns, other backends may still read data afterwards.

    Args:
        backend: handle of the backend whose memory the tensor lies in.
        tensor: any tensor, any shape, with data; the last piece must end within ggml_nbytes(tensor).
        data: source: an address, bytes, ctypes or NumPy memory. Keep it alive and unchanged until the copy is done.
        offset: byte of the tensor at which the first piece starts.
        size: bytes of a piece.
        n_copies: number of pieces; nothing happens if it or size is 0.
        stride_tensor: bytes from the start of a piece to that of the next in the tensor.
        stride_data: likewise in data.
    Returns:
        None.
    Raises:
        TypeError: backend is no backend, tensor is no tensor, or data is None or no memory.
        ValueError: a number is negative, a piece lies beyond the tensor or data, or the tensor has no data.
        RuntimeError: the backend, the tensor, or the memory that it lies in, was freed.
    """
    enter(b"ggml_backend_tensor_set_2d_async")
    strided(tensor, data, offset, size, n_copies, stride_tensor, stride_data, True, backend_arg(backend, "backend"))

def ggml_backend_tensor_get_2d_async(backend, tensor, data, offset, size, n_copies, stride_tensor, stride_data):
    """Starts copying equal pieces of a tensor to the caller; ggml_backend_synchronize waits for the end.

    Piece i goes from byte offset + i * stride_tensor of the tensor to byte i * stride_data of data. The CPU copies
    before it returns; with other backends, data is complete only after ggml_backend_synchronize.

    Args:
        backend: handle of the backend whose memory the tensor lies in.
        tensor: any tensor, any shape, with data; the last piece must end within ggml_nbytes(tensor).
        data: destination: an address, a bytearray, ctypes or NumPy memory. Keep it alive until the copy is done.
        offset: byte of the tensor at which the first piece starts.
        size: bytes of a piece.
        n_copies: number of pieces; nothing happens if it or size is 0.
        stride_tensor: bytes from the start of a piece to that of the next in the tensor.
        stride_data: likewise in data.
    Returns:
        None.
    Raises:
        TypeError: backend is no backend, tensor is no tensor, or data is None, bytes or no memory.
        ValueError: a number is negative, a piece lies beyond the tensor or data, or the tensor has no data.
        RuntimeError: the backend, the tensor, or the memory that it lies in, was freed.
    """
    enter(b"ggml_backend_tensor_get_2d_async")
    strided(tensor, data, offset, size, n_copies, stride_tensor, stride_data, False, backend_arg(backend, "backend"))

def ggml_backend_tensor_set_async(backend, tensor, data, offset, size):
    """Starts copying bytes into a tensor on a backend; ggml_backend_synchronize waits for the end.

    The CPU copies before it returns. Other backends may still read data afterwards.

    Args:
        backend: handle of the backend whose memory the tensor lies in.
        tensor: any tensor, any shape, with data.
        data: source: an address, bytes, ctypes or NumPy memory. Keep it alive and unchanged until the copy is done.
        offset: byte of the tensor at which to start.
        size: bytes to copy; offset + size must not exceed ggml_nbytes(tensor). Nothing happens if it is 0.
    Returns:
        None.
    Raises:
        TypeError: backend is no backend, tensor is no tensor, or data is None or no memory.
        ValueError: offset and size reach beyond the tensor, data is too small, or the tensor has no data.
        RuntimeError: the backend, the tensor, or the memory that it lies in, was freed.
    See also:
        ggml_backend_tensor_set, which always waits.
    """
    enter(b"ggml_backend_tensor_set_async")
    strided(tensor, data, offset, size, 1, 0, 0, True, backend_arg(backend, "backend"))

def ggml_backend_tensor_get_async(backend, tensor, data, offset, size):
    """Starts copying bytes of a tensor to the caller; ggml_backend_synchronize waits for the end.

    The CPU copies before it returns. With other backends, data is complete only after ggml_backend_synchronize.

    Args:
        backend: handle of the backend whose memory the tensor lies in.
        tensor: any tensor, any shape, with data.
        data: destination: an address, a bytearray, ctypes or NumPy memory. Keep it alive until the copy is done.
        offset: byte of the tensor at which to start.
        size: bytes to copy; offset + size must not exceed ggml_nbytes(tensor). Nothing happens if it is 0.
    Returns:
        None.
    Raises:
        TypeError: backend is no backend, tensor is no tensor, or data is None, bytes or no memory.
        ValueError: offset and size reach beyond the tensor, data is too small, or the tensor has no data.
        RuntimeError: the backend, the tensor, or the memory that it lies in, was freed.
    See also:
        ggml_backend_tensor_get, which always waits.
    """
    enter(b"ggml_backend_tensor_get_async")
    strided(tensor, data, offset, size, 1, 0, 0, False, backend_arg(backend, "backend"))

def ggml_backend_tensor_memset(tensor, value, offset, size):
    """Fills a range of a tensor's bytes with one value.

    Args:
        tensor: any tensor, any shape, with data.
        value: 32-bit integer, of which the low 8 bits are used.
        offset: byte of the tensor at which to start.
        size: bytes to fill; offset + size must not exceed ggml_nbytes(tensor). Nothing happens if it is 0.
    Returns:
        None.
    Raises:
        TypeError: tensor is no tensor, or a number is no integer.
        ValueError: the range reaches beyond the tensor, value needs more than 32 bits, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
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
    """Copies the data of a tensor to a tensor of the same layout, in whatever memory either lies.

    The copy goes directly where the destination's buffer can do that, otherwise via host memory. Nothing happens if
    src and dst are the same tensor.

    Args:
        src: any tensor, any shape, with data.
        dst: tensor with data that has src's type, shape [ne0, ne1, ne2, ne3] and strides.
    Returns:
        None.
    Raises:
        TypeError: src or dst is no tensor.
        ValueError: the types, shapes or strides differ, or a tensor has no data.
        RuntimeError: a tensor, or the memory that it lies in, was freed.
        MemoryError: there is no memory for the copy on the host.
    """
    enter(b"ggml_backend_tensor_copy")
    copy(arg_tensor(src, b"src"), arg_tensor(dst, b"dst"))

def ggml_backend_tensor_copy_async(backend_src, backend_dst, src, dst):
    """Copies a tensor between two backends, after the first's queued work and before the second's later work.

    If the backends cannot order the copy among themselves, as the CPU cannot, the call waits for both and copies
    before it returns.

    Args:
        backend_src: handle of the backend that computes src.
        backend_dst: handle of the backend that reads dst.
        src: any tensor, any shape, with data.
        dst: tensor with data that has src's type, shape [ne0, ne1, ne2, ne3] and strides.
    Returns:
        None.
    Raises:
        TypeError: a backend is no backend, or src or dst is no tensor.
        ValueError: the types, shapes or strides differ, or a tensor has no data.
        RuntimeError: a backend, a tensor, or the memory of a tensor, was freed.
        MemoryError: there is no memory for the copy on the host.
    """
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
    """Copies a tensor to one of the same layout if the destination's buffer can do so directly.

    ggml_backend_tensor_copy tries this first and takes the way via host memory otherwise.

    Args:
        src: any tensor, any shape, with data.
        dst: tensor with data that has src's type, shape [ne0, ne1, ne2, ne3] and strides.
    Returns:
        True if the data was copied; False if not, as for a dst whose data lies in a context instead of a buffer.
    Raises:
        TypeError: src or dst is no tensor.
        ValueError: the types, shapes or strides differ, or a tensor has no data.
        RuntimeError: a tensor, or the memory that it lies in, was freed.
    """
    enter(b"ggml_backend_buffer_copy_tensor")
    cdef ggml_tensor *s = arg_tensor(src, b"src")
    cdef ggml_tensor *d = arg_tensor(dst, b"dst")
    if not same_layout(s, d):
        fail(ValueError, "src and dst differ in type, shape or strides")
    cdef Buffer b = buffer_of_tensor(d)
    return b is not None and bool(b.copy_in(s, d))

def ggml_backend_tensor_alloc(buffer, tensor, addr):
    """Places a tensor without data at an address within a buffer.

    Sets the tensor's buffer and data fields. The alignment of the address is the caller's responsibility.

    Args:
        buffer: handle of a buffer.
        tensor: any tensor, any shape, that is no view and has no data (or lies in a buffer that was freed).
        addr: address in the buffer, from ggml_backend_buffer_get_base on.
    Returns:
        GGML_STATUS_SUCCESS (0).
    Raises:
        TypeError: buffer is no buffer, or tensor is no tensor.
        ValueError: the tensor is a view or has data already, or does not fit between addr and the buffer's end.
        RuntimeError: the buffer or the tensor was freed.
    See also:
        ggml_tallocr_alloc, which chooses the addresses; ggml_backend_view_init, for views.
    """
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
    """Gives a view its place in the memory of the tensor that it is a view of.

    Needed for views made before their source was placed, or later by hand; the allocators do it themselves.

    Args:
        tensor: view of any tensor, any shape; the tensor in its view_src has data by now.
    Returns:
        GGML_STATUS_SUCCESS (0).
    Raises:
        TypeError: tensor is no tensor.
        ValueError: tensor is no view, or the tensor that it is a view of has no data.
        RuntimeError: the tensor, its source, or the source's buffer, was freed.
    """
    enter(b"ggml_backend_view_init")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.view_src == NULL:
        fail(ValueError, "tensor is no view")
    return place_view(t)

# ---- backends --------------------------------------------------------------------------------------------------------------------
def ggml_backend_guid(backend):
    """Returns the 16 bytes that identify the kind of a backend.

    Args:
        backend: handle of a backend.
    Returns:
        Pointer to an array of 16 bytes (ggml_guid_t_ctypes), equal for all backends of a kind; a false pointer if a
        backend that is written in Python has none.
    Raises:
        TypeError: backend is None or something else than a backend.
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
        TypeError: backend is None or something else than a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_name")
    return backend_arg(backend, "backend").name()

def ggml_backend_free(backend):
    """Frees a backend; buffers that were allocated with it stay.

    A meta backend frees the backends of its members, and one that is written in Python runs its free callback, if
    it has one.

    Args:
        backend: handle of a backend, or None, for which nothing happens.
    Returns:
        None.
    Raises:
        TypeError: backend is 0 or something else than a backend.
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
        TypeError: backend is None or something else than a backend.
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
        TypeError: backend is no backend, or size is no integer.
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
        TypeError: backend is None or something else than a backend.
        RuntimeError: backend was freed, or never was a handle.
    """
    enter(b"ggml_backend_get_alignment")
    return backend_arg(backend, "backend").buft().alignment()

def ggml_backend_get_max_size(backend):
    """Returns the size of the largest buffer of a backend's default type.

    Args:
        backend: handle of a backend.
    Returns:
        Bytes; 2**64 - 1 if the type has no limit of its own, as the CPU's.
    Raises:
        TypeError: backend is None or something else than a backend.
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
        TypeError: backend is None or something else than a backend.
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
        TypeError: backend is None or something else than a backend.
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
        TypeError: backend is no backend, or cgraph is no graph.
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
        TypeError: backend is no backend, or plan is None or no plan.
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
        Status, with the meaning it has for ggml_backend_graph_compute.
    Raises:
        TypeError: backend is no backend, or plan is None or no plan.
        ValueError: another backend made the plan, or a node does not fit its operands.
        RuntimeError: the backend, the plan or the graph was freed, or an operation failed.
    """
    enter(b"ggml_backend_graph_plan_compute")
    cdef Backend b = backend_arg(backend, "backend")
    return b.plan_compute(plan_of(b, plan))

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
        TypeError: backend is no backend, or cgraph is no graph.
        ValueError: a tensor has no data, or a node's type, shape or parameters do not fit its operands.
        RuntimeError: the backend or a tensor was freed, or an operation failed.
        MemoryError: there is no memory for intermediate values of operations.
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    enter(b"ggml_backend_graph_compute")
    cdef Backend b = backend_arg(backend, "backend")
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
        Status, as of ggml_backend_graph_compute; from a backend that goes on after the call, that of the start.
    Raises:
        TypeError: backend is no backend, or cgraph is no graph.
        ValueError: a tensor has no data, or a node's type, shape or parameters do not fit its operands.
        RuntimeError: the backend or a tensor was freed, or an operation failed.
        MemoryError: there is no memory for intermediate values of operations.
    """
    enter(b"ggml_backend_graph_compute_async")
    cdef Backend b = backend_arg(backend, "backend")
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
        TypeError: backend is no backend, or op is no tensor.
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
        TypeError: backend is no backend, or buft is no buffer type.
        RuntimeError: one of the handles is not live.
    """
    enter(b"ggml_backend_supports_buft")
    return bool(backend_arg(backend, "backend").supports_buft(buft_arg(buft, "buft")))

def ggml_backend_offload_op(backend, op):
    """Tells whether a backend wants a node for itself although the node's weights lie in host memory.

    The scheduler then copies the weights to the backend, if it was made with op_offload.

    Args:
        backend: handle of a backend.
        op: the node: any tensor, any shape.
    Returns:
        True or False; the CPU always answers False.
    Raises:
        TypeError: backend is no backend, or op is no tensor.
        RuntimeError: the backend or the node was freed.
    """
    enter(b"ggml_backend_offload_op")
    return bool(backend_arg(backend, "backend").offload_op(arg_tensor(op, b"op")))

# ---- events ------------------------------------------------------------------------------------------------------------------------
def ggml_backend_event_new(device):
    """Creates an event, a mark in the order of a backend's work for which others can wait.

    Args:
        device: handle of a device; as in older releases, a backend's handle is accepted too; None for no event.
    Returns:
        Handle of the event (int), or None if the device has no events or is None.
    Raises:
        TypeError: device is 0 or neither a device nor a backend.
        RuntimeError: device is no live handle.
    """
    enter(b"ggml_backend_event_new")
    if device is None:
        return None
    cdef Handle h = <Handle>find(device, Backend if isinstance(live.get(key_of(device)), Backend) else Device, "device")
    return HANDLE((<Backend>h).event_new() if isinstance(h, Backend) else (<Device>h).event_new())

cdef object key_of(object o):
    return o if type(o) is int else getattr(o, "value", None)

def ggml_backend_event_free(event):
    """Frees an event.

    Args:
        event: handle of an event, or None, for which nothing happens.
    Returns:
        None.
    Raises:
        TypeError: event is 0 or something else than an event.
        RuntimeError: event was freed already, or never was a handle.
    """
    enter(b"ggml_backend_event_free")
    if event is not None:
        (<Event>find(event, Event, "event")).release()

def ggml_backend_event_record(event, backend=None):
    """Marks an event behind all work that a backend has started so far.

    Args:
        event: handle of an event.
        backend: handle of the backend whose work counts; None (the default) is the backend that made the event.
    Returns:
        None.
    Raises:
        TypeError: event is no event, or backend is no backend.
        RuntimeError: the event or the backend was freed.
    """
    enter(b"ggml_backend_event_record")
    cdef Event e = <Event>find(event, Event, "event")
    e.record(backend_arg(backend, "backend") if backend is not None else None)

def ggml_backend_event_synchronize(event):
    """Blocks the caller until the work before an event's mark is complete.

    For the CPU this is always the case.

    Args:
        event: handle of an event, recorded before.
    Returns:
        None.
    Raises:
        TypeError: event is None or something else than an event.
        RuntimeError: event was freed, or never was a handle.
    """
    enter(b"ggml_backend_event_synchronize")
    (<Event>find(event, Event, "event")).synchronize()

def ggml_backend_event_wait(backend, event):
    """Makes the later work of a backend wait for an event of another backend, without blocking the caller.

    A backend that is written in Python without an event_wait callback lets the caller wait instead.

    Args:
        backend: handle of the backend that shall wait.
        event: handle of an event, recorded before.
    Returns:
        None.
    Raises:
        TypeError: backend is no backend, or event is no event.
        RuntimeError: the backend or the event was freed.
    """
    enter(b"ggml_backend_event_wait")
    cdef Backend b = backend_arg(backend, "backend")
    (<Event>find(event, Event, "event")).wait(b)

# ---- the CPU backend -----------------------------------------------------------------------------------------------------------------
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
        TypeError: backend is 0 or something else than a backend.
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
        n_threads: 1 to 512, or a negative number for as many as the CPU offers; more than that are not started.
    Returns:
        None.
    Raises:
        TypeError: backend_cpu is no backend, or n_threads is no integer.
        ValueError: backend_cpu is another kind of backend, or n_threads is 0 or above 512.
        RuntimeError: backend_cpu was freed, or never was a handle.
    """
    enter(b"ggml_backend_cpu_set_n_threads")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    b.n_threads = threads(n_threads, "n_threads")

def ggml_backend_cpu_set_threadpool(backend_cpu, threadpool):
    """Makes a CPU backend use the number of threads of a thread pool.

    The threads themselves are OpenMP's: nothing else of the pool matters.

    Args:
        backend_cpu: handle of a CPU backend.
        threadpool: handle from ggml_threadpool_new, or None, which leaves the number of threads as it is.
    Returns:
        None.
    Raises:
        TypeError: backend_cpu is no backend.
        ValueError: backend_cpu is another kind of backend.
        RuntimeError: the backend or the thread pool was freed, or never was a handle.
    """
    enter(b"ggml_backend_cpu_set_threadpool")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    if threadpool is not None:
        b.n_threads = threads(_system.threadpool_threads(threadpool), "n_threads")
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
        TypeError: backend_cpu is no backend, or abort_callback is no function or one of another signature.
        ValueError: backend_cpu is another kind of backend, or the address is that of no function.
        RuntimeError: backend_cpu was freed, or never was a handle.
    """
    enter(b"ggml_backend_cpu_set_abort_callback")
    cdef CpuBackend b = cpu_arg(backend_cpu)
    callback = as_callback(abort_callback, _structs.ggml_abort_callback)
    b.abort = arg_callback(callback, _structs.ggml_abort_callback, b"abort_callback")
    b.abort_data = arg_address(abort_callback_data, b"abort_callback_data")
    b.callback = (callback, abort_callback_data)

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
        TypeError: backend_cpu is no backend, or use_ref has no truth value.
        ValueError: backend_cpu is another kind of backend.
        RuntimeError: backend_cpu was freed, or never was a handle.
    """
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
    """Returns the registry that holds the CPU device.

    Returns:
        Handle of the registry named b"CPU", the same at every call.
    """
    return HANDLE(cpu_device.registry)

def ggml_backend_reg_count():
    """Returns the number of backend registries.

    Returns:
        1 for the CPU's, plus those of ggml_backend_register.
    """
    return len(all_registries)

def ggml_backend_reg_get(index):
    """Returns a backend registry by its index.

    Args:
        index: 0 to ggml_backend_reg_count() - 1; 0 is the CPU's.
    Returns:
        Handle of the registry.
    Raises:
        TypeError: index is no integer.
        ValueError: index is negative.
        IndexError: index is too large.
    """
    enter(b"ggml_backend_reg_get")
    return HANDLE(at_index(all_registries, index, "registries"))

def ggml_backend_reg_by_name(name):
    """Finds a backend registry by its name.

    Args:
        name: bytes or str; upper and lower case are the same.
    Returns:
        Handle of the first registry with that name, or None if there is none.
    Raises:
        TypeError: name is None or no text.
    """
    enter(b"ggml_backend_reg_by_name")
    return HANDLE(found(all_registries, name))

def ggml_backend_reg_name(reg):
    """Returns the name of a backend registry.

    Args:
        reg: handle of a registry.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: reg is None or something else than a registry.
        RuntimeError: reg is a number that is no live handle.
    """
    enter(b"ggml_backend_reg_name")
    return reg_arg(reg).name()

def ggml_backend_reg_dev_count(reg):
    """Returns the number of devices in a backend registry.

    Args:
        reg: handle of a registry.
    Returns:
        Number of devices; 1 for the CPU's registry.
    Raises:
        TypeError: reg is None or something else than a registry.
        RuntimeError: reg is a number that is no live handle.
    """
    enter(b"ggml_backend_reg_dev_count")
    return len(reg_arg(reg).devices())

def ggml_backend_reg_dev_get(reg, index):
    """Returns a device of a backend registry.

    Args:
        reg: handle of a registry.
        index: 0 to ggml_backend_reg_dev_count(reg) - 1.
    Returns:
        Handle of the device.
    Raises:
        TypeError: reg is no registry, or index is no integer.
        ValueError: index is negative.
        IndexError: index is too large.
        RuntimeError: reg is a number that is no live handle.
    """
    enter(b"ggml_backend_reg_dev_get")
    return HANDLE(at_index(reg_arg(reg).devices(), index, "devices"))

def ggml_backend_reg_get_proc_address(reg, name):
    """Finds a C function that a registry offers beyond the common functions.

    The CPU's registry has ggml_backend_get_features, ggml_backend_set_n_threads, ggml_backend_set_abort_callback,
    ggml_backend_cpu_set_threadpool, ggml_backend_cpu_numa_init, ggml_backend_cpu_is_numa, ggml_threadpool_new and
    ggml_threadpool_free.

    Args:
        reg: handle of a registry.
        name: name of the function, bytes or str.
    Returns:
        Address as int, to be called via a ctypes.CFUNCTYPE of the right signature; None if there is none.
    Raises:
        TypeError: reg is no registry, or name is no text.
        RuntimeError: reg is a number that is no live handle.
    """
    enter(b"ggml_backend_reg_get_proc_address")
    return reg_arg(reg).proc(arg_text(name, b"name")) or None

def ggml_backend_register(reg):
    """Adds a backend registry and its devices to the lists that programs search.

    A registry or device that is listed already is not added twice.

    Args:
        reg: the registry: a ggml_backend_reg struct that the caller fills in and keeps alive (the struct, a pointer
            to it or its address), or a handle.
    Returns:
        None.
    Raises:
        TypeError: reg is None, NULL or something else than a registry.
        ValueError: the address is that of no struct, or a required callback (get_name, get_device_count,
            get_device) is NULL or no function.
    """
    enter(b"ggml_backend_register")
    cdef Registry r = <Registry>(adopted(reg, Registry) if type(reg) is int and reg not in live else reg_arg(reg))
    if r is None:
        fail(TypeError, "reg is NULL: need a backend registry")
    if r not in all_registries:
        all_registries.append(r)
        all_devices.extend([d for d in r.devices() if d not in all_devices])

def ggml_backend_device_register(device):
    """Adds one device to the list that programs search, without a registry.

    Args:
        device: the device: a ggml_backend_device struct that the caller fills in and keeps alive (the struct, a
            pointer to it or its address), or a handle.
    Returns:
        None.
    Raises:
        TypeError: device is None, NULL or something else than a device.
        ValueError: the address is that of no struct, or a required callback is NULL or no function.
    """
    enter(b"ggml_backend_device_register")
    cdef Device d = <Device>(adopted(device, Device) if type(device) is int and device not in live else device_arg(device, "device"))
    if d is None:
        fail(TypeError, "device is NULL: need a device")
    if d not in all_devices:
        all_devices.append(d)

def ggml_backend_unload(reg):
    """Removes a backend registry and its devices from the lists that programs search.

    Handles of the registry, its devices and their backends stay usable.

    Args:
        reg: handle of a registry.
    Returns:
        None.
    Raises:
        TypeError: reg is None or something else than a registry.
        ValueError: reg is the CPU's registry, which cannot be removed.
        RuntimeError: reg is a number that is no live handle.
    """
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
    """Would load a backend from a shared library; this build loads none.

    Args:
        path: name of the library, bytes or str. The file is not opened.
    Returns:
        None, which means that nothing was loaded.
    Raises:
        TypeError: path is None or no text.
    """
    enter(b"ggml_backend_load")
    arg_text(path, b"path")
    return None

def ggml_backend_load_all():
    """Does nothing: the CPU backend is built in, and this build loads no others.

    Returns:
        None.
    """

def ggml_backend_load_all_from_path(dir_path):
    """Would load every backend library in a folder; this build loads none.

    Args:
        dir_path: name of the folder, bytes, str or None. It is not read.
    Returns:
        None.
    Raises:
        TypeError: dir_path is no text.
    """
    enter(b"ggml_backend_load_all_from_path")
    if dir_path is not None:
        arg_text(dir_path, b"dir_path")

def ggml_backend_dev_count():
    """Returns the number of devices that programs can search.

    Returns:
        1 for the CPU, plus those of ggml_backend_register and ggml_backend_device_register.
    """
    return len(all_devices)

def ggml_backend_dev_get(index):
    """Returns a device by its index in the list of all devices.

    Args:
        index: 0 to ggml_backend_dev_count() - 1; 0 is the CPU.
    Returns:
        Handle of the device.
    Raises:
        TypeError: index is no integer.
        ValueError: index is negative.
        IndexError: index is too large.
    """
    enter(b"ggml_backend_dev_get")
    return HANDLE(at_index(all_devices, index, "devices"))

def ggml_backend_dev_by_name(name):
    """Finds a device by its name.

    Args:
        name: bytes or str; upper and lower case are the same.
    Returns:
        Handle of the first device with that name, or None if there is none.
    Raises:
        TypeError: name is None or no text.
    """
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
    """Finds a device by its kind.

    Args:
        type: GGML_BACKEND_DEVICE_TYPE_CPU (0), _GPU (1), _IGPU (2), _ACCEL (3) or _META (4).
    Returns:
        Handle of the first device of that kind, or None if there is none or the number is unknown.
    Raises:
        TypeError: type is no integer.
        ValueError: type needs more than 32 bits.
    """
    enter(b"ggml_backend_dev_by_type")
    return HANDLE(of_kind(type))

def ggml_backend_dev_name(device):
    """Returns the name of a device.

    Args:
        device: handle of a device; for one that is written in Python, its ggml_backend_device will do.
    Returns:
        Name as bytes: b"CPU", or b"Meta(" with the names of the members for a meta device.
    Raises:
        TypeError: device is None or something else than a device.
        RuntimeError: device is a number that is no live handle.
    """
    enter(b"ggml_backend_dev_name")
    return device_arg(device, "device").name()

def ggml_backend_dev_description(device):
    """Returns the description of a device, for people to read.

    Args:
        device: handle of a device.
    Returns:
        Text as bytes; for the CPU, the processor's model as the operating system names it.
    Raises:
        TypeError: device is None or something else than a device.
        RuntimeError: device is a number that is no live handle.
    """
    enter(b"ggml_backend_dev_description")
    return device_arg(device, "device").description()

def ggml_backend_dev_memory(device, free, total):
    """Writes the free and the total memory of a device to two variables.

    Args:
        device: handle of a device.
        free: byref(c_size_t()), a pointer to size_t or an address; receives the bytes that are free.
        total: likewise; receives the bytes in total. For the CPU, this is the machine's physical memory.
    Returns:
        None.
    Raises:
        TypeError: device is no device, or free or total is None or no pointer.
        ValueError: free or total is smaller than a size_t, or an address that cannot be read.
        RuntimeError: device is a number that is no live handle.
    """
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
    """Returns the kind of a device.

    Args:
        device: handle of a device.
    Returns:
        GGML_BACKEND_DEVICE_TYPE_CPU (0), _GPU (1), _IGPU (2), _ACCEL (3) or _META (4).
    Raises:
        TypeError: device is None or something else than a device.
        RuntimeError: device is a number that is no live handle.
    """
    enter(b"ggml_backend_dev_type")
    return device_arg(device, "device").kind()

cdef dict texts = {}      # names that props point to

def ggml_backend_dev_get_props(device, props):
    """Fills in a struct with the properties of a device.

    The fields are name, description, device_id (None for the CPU), memory_free and memory_total in bytes, type, and
    caps, which tells whether the device works asynchronously, has a buffer type for the host, can use the caller's
    memory, and has events.

    Args:
        device: handle of a device.
        props: ggml_backend_dev_props, byref of one, a pointer or its address. Its texts stay valid.
    Returns:
        None.
    Raises:
        TypeError: device is no device, or props is no such struct.
        RuntimeError: device is a number that is no live handle.
    """
    enter(b"ggml_backend_dev_get_props")
    cdef Device d = device_arg(device, "device")
    p = struct_of(props, _structs.ggml_backend_dev_props, "props")
    p.name, p.description, p.device_id = [texts.setdefault(s, s) for s in (d.name(), d.description(), d.id())]
    p.memory_free, p.memory_total = d.memory()
    p.type = d.kind()
    p.caps = _structs.ggml_backend_dev_caps(*d.caps())

def ggml_backend_dev_backend_reg(device):
    """Returns the registry that a device belongs to.

    Args:
        device: handle of a device.
    Returns:
        Handle of the registry, or None for a device without one, such as a meta device.
    Raises:
        TypeError: device is None or something else than a device.
        RuntimeError: device is a number that is no live handle.
    """
    enter(b"ggml_backend_dev_backend_reg")
    return HANDLE(device_arg(device, "device").registry)

cdef bytes params_of(object params):
    return None if params is None else arg_text(params, b"params")

def ggml_backend_dev_init(device, params):
    """Creates a backend that computes on a device.

    Args:
        device: handle of a device.
        params: text for the device, bytes, str or None. The CPU ignores it; a meta device passes it to its members.
    Returns:
        Handle of the backend (int), or None if the device could not make one. Free it with ggml_backend_free.
    Raises:
        TypeError: device is no device, or params is no text.
        RuntimeError: device is a number that is no live handle.
    """
    enter(b"ggml_backend_dev_init")
    return HANDLE(device_arg(device, "device").init(params_of(params)))

def ggml_backend_dev_buffer_type(device):
    """Returns the buffer type that a device uses by default.

    Args:
        device: handle of a device.
    Returns:
        Handle of the buffer type.
    Raises:
        TypeError: device is None or something else than a device.
        RuntimeError: device is a number that is no live handle.
    """
    enter(b"ggml_backend_dev_buffer_type")
    return HANDLE(device_arg(device, "device").buft())

def ggml_backend_dev_host_buffer_type(device):
    """Returns the type of host memory from which a device copies fastest.

    Args:
        device: handle of a device.
    Returns:
        Handle of the buffer type, or None if the device has no such type, as the CPU.
    Raises:
        TypeError: device is None or something else than a device.
        RuntimeError: device is a number that is no live handle.
    """
    enter(b"ggml_backend_dev_host_buffer_type")
    return HANDLE(device_arg(device, "device").host_buft())

def ggml_backend_dev_buffer_from_host_ptr(device, ptr, size, max_tensor_size):
    """Wraps memory of the caller in a buffer that a device can use, without copying it.

    For the CPU device this is ggml_backend_cpu_buffer_from_ptr: the buffer keeps the object ptr alive.

    Args:
        device: handle of a device.
        ptr: the memory: an address, bytes, ctypes or NumPy memory, or any contiguous object with a buffer.
        size: bytes of it to use, 0 or more.
        max_tensor_size: bytes of the largest tensor to come; only devices that are written in Python see it.
    Returns:
        Handle of the buffer (int), or None if the device cannot use the caller's memory, as a meta device.
    Raises:
        TypeError: device is no device, or ptr is None or no memory.
        ValueError: a size is negative, or ptr is smaller than size or not readable for size bytes.
        RuntimeError: device is a number that is no live handle.
    """
    enter(b"ggml_backend_dev_buffer_from_host_ptr")
    return HANDLE(from_ptr(device_arg(device, "device"), ptr, size, arg_size(max_tensor_size, b"max_tensor_size")))

def ggml_backend_dev_supports_op(device, op):
    """Tells whether a device can compute a node.

    The CPU checks the operation, types, shapes and parameters; data need not be allocated. A meta device supports
    what the CPU supports.

    Args:
        device: handle of a device.
        op: the node: any tensor, any shape.
    Returns:
        True or False.
    Raises:
        TypeError: device is no device, or op is no tensor.
        RuntimeError: device is no live handle, or the node was freed.
    """
    enter(b"ggml_backend_dev_supports_op")
    return bool(device_arg(device, "device").supports_op(arg_tensor(op, b"op")))

def ggml_backend_dev_supports_buft(device, buft):
    """Tells whether a device can compute with tensors in buffers of a type.

    The CPU supports its own types and every type that is host memory, a meta device its own type alone.

    Args:
        device: handle of a device.
        buft: handle of a buffer type.
    Returns:
        True or False.
    Raises:
        TypeError: device is no device, or buft is no buffer type.
        RuntimeError: one of the handles is not live.
    """
    enter(b"ggml_backend_dev_supports_buft")
    return bool(device_arg(device, "device").supports_buft(buft_arg(buft, "buft")))

def ggml_backend_dev_offload_op(device, op):
    """Tells whether a device wants a node for itself although the node's weights lie in host memory.

    Args:
        device: handle of a device.
        op: the node: any tensor, any shape.
    Returns:
        True or False; False for the CPU and for meta devices.
    Raises:
        TypeError: device is no device, or op is no tensor.
        RuntimeError: device is no live handle, or the node was freed.
    """
    enter(b"ggml_backend_dev_offload_op")
    return bool(device_arg(device, "device").offload_op(arg_tensor(op, b"op")))

def ggml_backend_init_by_name(name, params):
    """Creates a backend on the device with a given name.

    Args:
        name: bytes or str, as for ggml_backend_dev_by_name.
        params: text for the device, bytes, str or None; the CPU ignores it.
    Returns:
        Handle of the backend (int), or None if there is no such device or it could not make one.
    Raises:
        TypeError: name is no text, or params is neither text nor None.
    """
    enter(b"ggml_backend_init_by_name")
    cdef Device d = <Device>found(all_devices, name)
    return HANDLE(d.init(params_of(params))) if d is not None else None

def ggml_backend_init_by_type(type, params):
    """Creates a backend on the first device of a kind.

    Args:
        type: GGML_BACKEND_DEVICE_TYPE_CPU (0), _GPU (1), _IGPU (2), _ACCEL (3) or _META (4).
        params: text for the device, bytes, str or None; the CPU ignores it.
    Returns:
        Handle of the backend (int), or None if there is no such device or it could not make one.
    Raises:
        TypeError: type is no integer, or params is neither text nor None.
        ValueError: type needs more than 32 bits.
    """
    enter(b"ggml_backend_init_by_type")
    cdef Device d = of_kind(type)
    return HANDLE(d.init(params_of(params))) if d is not None else None

def ggml_backend_init_best():
    """Creates a backend on the first GPU, else on the first integrated GPU, else on the CPU.

    Without devices that the program registered, this is the CPU.

    Returns:
        Handle of the backend (int), or None if the device could not make one. Free it with ggml_backend_free.
    """
    enter(b"ggml_backend_init_best")
    cdef Device d = of_kind(GPU) or of_kind(IGPU) or cpu_device
    return HANDLE(d.init(None))

# ---- the registry of 2024, by index: one entry a device ------------------------------------------------------------------------------
def ggml_backend_reg_get_count():
    """Returns the number of backends in the list that releases of 2024 had.

    That list has one entry for each device, in the order of ggml_backend_dev_get.

    Returns:
        Number of entries, equal to ggml_backend_dev_count().
    """
    return len(all_devices)

def ggml_backend_reg_find_by_name(name):
    """Finds the index of a backend by its name, as in releases of 2024.

    Args:
        name: bytes or str; upper and lower case are the same.
    Returns:
        Index for ggml_backend_reg_init_backend and its siblings; 2**64 - 1 (SIZE_MAX) if there is no such backend.
    Raises:
        TypeError: name is None or no text.
    """
    enter(b"ggml_backend_reg_find_by_name")
    d = found(all_devices, name)
    return all_devices.index(d) if d is not None else <size_t>-1

def ggml_backend_reg_init_backend_from_str(backend_str):
    """Creates a backend from a text with its name and parameters, as in releases of 2024.

    Args:
        backend_str: b"name" or b"name:params", bytes or str; in the name, upper and lower case are the same.
    Returns:
        Handle of the backend (int), or None if there is no backend of that name.
    Raises:
        TypeError: backend_str is None or no text.
    """
    enter(b"ggml_backend_reg_init_backend_from_str")
    name, _, params = arg_text(backend_str, b"backend_str").partition(b":")
    cdef Device d = <Device>found(all_devices, name)
    return HANDLE(d.init(params)) if d is not None else None

def ggml_backend_reg_get_name(i):
    """Returns the name of a backend by its index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: i is no integer.
        ValueError: i is negative.
        IndexError: i is too large.
    """
    enter(b"ggml_backend_reg_get_name")
    return (<Device>at_index(all_devices, i, "backends")).name()

def ggml_backend_reg_init_backend(i, params):
    """Creates a backend by its index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
        params: text for the device, bytes, str or None; the CPU ignores it.
    Returns:
        Handle of the backend (int), or None if the device could not make one.
    Raises:
        TypeError: i is no integer, or params is neither text nor None.
        ValueError: i is negative.
        IndexError: i is too large.
    """
    enter(b"ggml_backend_reg_init_backend")
    return HANDLE((<Device>at_index(all_devices, i, "backends")).init(params_of(params)))

def ggml_backend_reg_get_default_buffer_type(i):
    """Returns the default buffer type of a backend by its index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
    Returns:
        Handle of the buffer type.
    Raises:
        TypeError: i is no integer.
        ValueError: i is negative.
        IndexError: i is too large.
    """
    enter(b"ggml_backend_reg_get_default_buffer_type")
    return HANDLE((<Device>at_index(all_devices, i, "backends")).buft())

def ggml_backend_reg_alloc_buffer(i, size):
    """Allocates a buffer of a backend's default type by the backend's index, as in releases of 2024.

    Args:
        i: 0 to ggml_backend_reg_get_count() - 1.
        size: bytes, 0 or more.
    Returns:
        Handle of the new buffer (int), or None if the memory is not available.
    Raises:
        TypeError: i or size is no integer.
        ValueError: i or size is negative.
        IndexError: i is too large.
    """
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
