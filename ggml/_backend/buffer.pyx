"""Buffer types, buffers, and the places of tensors in buffers."""
import ctypes

from .._core cimport arg_address, arg_buffer, arg_int32, arg_size, arg_tensor, engine, enter, fail, ggml_tensor, release
from .._handle cimport HANDLE, handles, memory_at
from .device cimport (
    Buffer, BufferType, Device, buffer_arg, buffer_dead, buft_arg, cpu_buft, cpu_device, live, place, place_view,
)
from .. import _structs
from .device import _open, _title
from .foreign import _buffer_init

cdef enum:
    COMPUTE = 2

# ---- buffer types ----------------------------------------------------------------------------------------------------
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

# ---- buffers ---------------------------------------------------------------------------------------------------------
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

cdef Buffer multi_buffer(list parts):
    cdef MultiBuffer m = MultiBuffer()
    cdef Buffer b
    m.parts, m.buft = parts, (<Buffer>parts[0]).buft
    for b in parts:
        m.size += b.size
    _open(m)
    return m

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

# ---- tensors in buffers ----------------------------------------------------------------------------------------------
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
