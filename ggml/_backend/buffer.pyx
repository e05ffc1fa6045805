"""Buffer types, buffers, and the places of tensors in buffers."""
import ctypes

from .._core cimport (
    arg_address, arg_buffer, arg_int32, arg_size, arg_tensor, engine, enter, fail, ggml_tensor, is_a, pointed,
    repr_short,
)
from .._handle cimport HANDLE, handles, memory_at, opened
from .device cimport (
    Buffer, BufferType, Device, buffer_arg, buffer_dead, buft_arg, cpu_buft, cpu_device, live, place, place_view,
)
from .. import _constants, _structs
from .foreign import _buffer_init

# ---- buffer types ----------------------------------------------------------------------------------------------------
def ggml_backend_buft_name(buft):
    """Returns the name of a buffer type.

    A buffer type stands for a kind of memory. Buffers are allocated from it, and tensors are placed in buffers.

    Args:
        buft: handle of a buffer type, or the ggml_backend_buffer_type of one that is written in Python.
    Returns:
        Name as bytes, for example b"CPU" or b"CPU_Mapped".
    Raises:
        TypeError: buft is None or not a buffer type.
        RuntimeError: buft is a number that is not a live handle.
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
        TypeError: buft is not a buffer type, or size is not an integer.
        ValueError: size is negative.
        RuntimeError: buft is not a live handle.
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
        TypeError: buft is None or not a buffer type.
        RuntimeError: buft is a number that is not a live handle.
        ValueError: the get_alignment callback of a type that is written in Python returned no power of two.
    """
    enter(b"ggml_backend_buft_get_alignment")
    return buft_arg(buft, "buft").alignment()

def ggml_backend_buft_get_max_size(buft):
    """Returns the size of the largest buffer that a buffer type can allocate.

    Args:
        buft: handle of a buffer type.
    Returns:
        Bytes; 2**64 - 1 if the type has no limit, which is the case for the CPU.
    Raises:
        TypeError: buft is None or not a buffer type.
        RuntimeError: buft is a number that is not a live handle.
    """
    enter(b"ggml_backend_buft_get_max_size")
    return buft_arg(buft, "buft").max_size()

def ggml_backend_buft_get_alloc_size(buft, tensor):
    """Returns the bytes that a tensor needs in buffers of a type.

    This is ggml_nbytes(tensor), unless the type is written in Python and its get_alloc_size returns more.

    Args:
        buft: handle of a buffer type.
        tensor: any tensor, any shape, with or without data.
    Returns:
        Bytes, without padding for the alignment.
    Raises:
        TypeError: buft is not a buffer type, or tensor is not a tensor.
        ValueError: the get_alloc_size callback returned less than ggml_nbytes(tensor).
        RuntimeError: buft is not a live handle, or the tensor was freed.
    """
    enter(b"ggml_backend_buft_get_alloc_size")
    return buft_arg(buft, "buft").alloc_size(arg_tensor(tensor, b"tensor"))

def ggml_backend_buft_is_host(buft):
    """Tells whether the CPU can read and write buffers of a type directly.

    Args:
        buft: handle of a buffer type.
    Returns:
        True if tensors in such buffers have addresses of ordinary memory, False if their data must be copied.
    Raises:
        TypeError: buft is None or not a buffer type.
        RuntimeError: buft is a number that is not a live handle.
    """
    enter(b"ggml_backend_buft_is_host")
    return bool(buft_arg(buft, "buft").is_host())

def ggml_backend_buft_get_device(buft):
    """Returns the device that a buffer type belongs to.

    Args:
        buft: handle of a buffer type.
    Returns:
        Handle of the device, or None if it is unknown. The device of a type that is written in Python becomes known
        when the device returns the type.
    Raises:
        TypeError: buft is None or not a buffer type.
        RuntimeError: buft is a number that is not a live handle.
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
    """Several buffers that are freed, cleared and labelled together. Tensors lie in the parts."""
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

cdef Buffer multi_buffer(list parts):
    cdef MultiBuffer m = MultiBuffer()
    cdef Buffer b
    m.parts, m.buft = parts, (<Buffer>parts[0]).buft
    for b in parts:
        m.size += b.size
    opened(m)
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
        TypeError: buffers is None or not an array, or an entry is not a buffer.
        ValueError: n_buffers is 0 or negative, a buffer occurs twice, or the array has fewer entries or cannot be
            read.
        RuntimeError: an entry is not a live handle.
    """
    enter(b"ggml_backend_multi_buffer_alloc_buffer")
    cdef list parts = handles(buffers, arg_size(n_buffers, b"n_buffers"), Buffer, "buffers")
    cdef set seen = set()
    cdef Buffer b
    if not parts:
        fail(ValueError, "n_buffers is 0: need at least one")
    for i, b in enumerate(parts):
        if not add_once(b, seen):
            fail(ValueError, f"buffers[{i}] repeats an earlier buffer: need each buffer once")
    return HANDLE(multi_buffer(parts))

cdef bint add_once(Buffer b, set seen) except -1:
    """Adds a buffer and its parts to a set; False if one of them is in it already."""
    cdef Buffer part
    if <size_t>b.at in seen:
        return False
    seen.add(<size_t>b.at)
    if isinstance(b, MultiBuffer):
        for part in (<MultiBuffer>b).parts:
            if not add_once(part, seen):
                return False
    return True

def ggml_backend_buffer_init(buft, iface, context, size):
    """Creates a buffer whose behaviour is given by a table of callbacks.

    The alloc_buffer callback of a buffer type that is written in Python returns such a buffer. Each callback
    receives the handle, which is the address of a ggml_backend_buffer struct that holds context. This call runs
    get_base.

    Args:
        buft: handle of the buffer type that the buffer belongs to.
        iface: ggml_backend_buffer_i, or a pointer to one. get_base, set_tensor, get_tensor and clear must be set.
        context: value for the callbacks: None, an int or an address; of other objects, the address is taken.
        size: bytes, 0 or more.
    Returns:
        Handle of the buffer (int).
    Raises:
        TypeError: iface is not a ggml_backend_buffer_i, or another argument is of the wrong kind.
        ValueError: size is negative, a required callback is NULL, a callback is not a function, or get_base returned
            NULL or, for a host type, an address where size bytes cannot be read.
        RuntimeError: buft is not a live handle.
    """
    enter(b"ggml_backend_buffer_init")
    cdef BufferType t = buft_arg(buft, "buft")
    table = struct_of(iface, _structs.ggml_backend_buffer_i, "iface")
    if context is not None and not isinstance(context, int) and not is_a(context, ctypes.c_void_p):
        context = <size_t>arg_address(context, b"context")
    return HANDLE(_buffer_init(t, table, context, arg_size(size, b"size")))

cdef object struct_of(object value, object struct, str name):
    """The ctypes struct of an argument: the struct itself, byref of it, a pointer to it or its address."""
    found = pointed(value, struct)
    if found is not None:
        return found
    cdef object address = value.value if is_a(value, ctypes.c_void_p) else value
    if type(address) is int and address not in live and memory_at(address, ctypes.sizeof(struct)):
        return struct.from_address(address)
    fail(TypeError, f"{name} is {repr_short(value)}: need a {struct.__name__} or a pointer to one")

def ggml_backend_cpu_buffer_from_ptr(ptr, size):
    """Wraps memory of the caller in a CPU buffer, without copying it.

    The buffer keeps the object ptr alive and does not free the memory. Its type is the one named b"CPU_Mapped".

    Args:
        ptr: the memory: an address, bytes, ctypes or NumPy memory, or any contiguous object with a buffer.
        size: bytes of it to use, 0 or more.
    Returns:
        Handle of the buffer (int).
    Raises:
        TypeError: ptr is None or NULL, or is not memory.
        ValueError: size is negative, or ptr is smaller than size or not readable for size bytes.
    """
    enter(b"ggml_backend_cpu_buffer_from_ptr")
    return HANDLE(from_ptr(cpu_device, ptr, size, 0))

cdef Buffer from_ptr(Device d, object ptr, object size, size_t max_tensor_size):
    cdef void *p
    cdef size_t n = arg_size(size, b"size")
    arg_buffer(ptr, b"ptr", n, &p)
    if p == NULL:
        fail(TypeError, "ptr is NULL: need the address of memory")
    if n and not engine.readable(p, n):
        fail(ValueError, f"ptr ({<size_t>p:#x}) is not memory of {n} bytes")
    return d.from_ptr(p, n, max_tensor_size, ptr)

def ggml_backend_buffer_name(buffer):
    """Returns the name of a buffer, which is the name of its type unless a callback says otherwise.

    Args:
        buffer: handle of a buffer.
    Returns:
        Name as bytes, for example b"CPU".
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_name")
    return buffer_arg(buffer, "buffer").name()

def ggml_backend_buffer_free(buffer):
    """Frees a buffer.

    Tensors in it become unusable: functions that need their data raise RuntimeError. CPU memory stays alive until
    the last NumPy or DLPack view of it is released.

    Args:
        buffer: handle of a buffer; None is ignored.
    Returns:
        None.
    Raises:
        TypeError: buffer is 0 or not a buffer.
        RuntimeError: buffer was freed already, or never was a handle.
    """
    enter(b"ggml_backend_buffer_free")
    if buffer is not None:
        buffer_arg(buffer, "buffer").release()

def ggml_backend_buffer_get_base(buffer):
    """Returns the address at which the memory of a buffer starts.

    The CPU may access that address only if ggml_backend_buffer_is_host(buffer) is True. For other buffers, the
    address has a meaning for their device only.

    Args:
        buffer: handle of a buffer.
    Returns:
        Address as int, or None for a buffer of 0 bytes and for one that combines several.
    Raises:
        TypeError: buffer is None or not a buffer.
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
        Bytes, as requested when it was allocated; for a combined buffer, the sum of its parts.
    Raises:
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_get_size")
    return buffer_arg(buffer, "buffer").size

def ggml_backend_buffer_init_tensor(buffer, tensor):
    """Tells a buffer that a tensor has been placed in it.

    ggml_backend_tensor_alloc and the allocators do this themselves. CPU buffers ignore it, a buffer of a meta
    device splits the tensor again, and a buffer that is written in Python runs its init_tensor callback.

    Args:
        buffer: handle of a buffer.
        tensor: any tensor, any shape, whose buffer and data fields are set already.
    Returns:
        GGML_STATUS_SUCCESS (0).
    Raises:
        TypeError: buffer is not a buffer, or tensor is not a tensor.
        ValueError: the get_split_state function of a meta device returned a split that does not fit.
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
        TypeError: buffer is None or not a buffer.
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
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_get_max_size")
    return buffer_arg(buffer, "buffer").buft.max_size()

def ggml_backend_buffer_get_alloc_size(buffer, tensor):
    """Returns the bytes that a tensor needs in a given buffer, as ggml_backend_buft_get_alloc_size of its type.

    Args:
        buffer: handle of a buffer.
        tensor: any tensor, any shape, in the buffer or elsewhere.
    Returns:
        Bytes, at least ggml_nbytes(tensor).
    Raises:
        TypeError: buffer is not a buffer, or tensor is not a tensor.
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
        TypeError: buffer is not a buffer, or value is not an integer.
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
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_is_host")
    return bool(buffer_arg(buffer, "buffer").buft.is_host())

def ggml_backend_buffer_set_usage(buffer, usage):
    """Labels a buffer with its purpose, for the scheduler.

    The scheduler prefers to compute a node on a backend that can read the node's weights, which are the operands in
    buffers labelled WEIGHTS.

    Args:
        buffer: handle of a buffer; for a combined buffer, the parts are labelled too.
        usage: GGML_BACKEND_BUFFER_USAGE_ANY (0, the default), _WEIGHTS (1) or _COMPUTE (2).
    Returns:
        None.
    Raises:
        TypeError: buffer is not a buffer, or usage is not an integer.
        ValueError: usage is another number.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_set_usage")
    cdef Buffer b = buffer_arg(buffer, "buffer")
    cdef int u = arg_int32(usage, b"usage")
    if not 0 <= u <= _constants.GGML_BACKEND_BUFFER_USAGE_COMPUTE:
        fail(ValueError, f"usage is {u}: need GGML_BACKEND_BUFFER_USAGE_ANY, _WEIGHTS or _COMPUTE")
    set_usage(b, u)

cdef int set_usage(Buffer b, int usage) except -1:
    cdef Buffer part
    b.usage = usage
    if isinstance(b, MultiBuffer):
        for part in (<MultiBuffer>b).parts:
            set_usage(part, usage)
    return 0

def ggml_backend_buffer_get_usage(buffer):
    """Returns the purpose with which a buffer is labelled.

    Args:
        buffer: handle of a buffer.
    Returns:
        GGML_BACKEND_BUFFER_USAGE_ANY (0), _WEIGHTS (1) or _COMPUTE (2, set by the allocators of graphs).
    Raises:
        TypeError: buffer is None or not a buffer.
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
        TypeError: buffer is None or not a buffer.
        RuntimeError: buffer was freed, or never was a handle.
    """
    enter(b"ggml_backend_buffer_get_type")
    return HANDLE(buffer_arg(buffer, "buffer").buft)

def ggml_backend_buffer_reset(buffer):
    """Makes a buffer discard what it stored about the tensors that were placed in it.

    CPU buffers store nothing about tensors and keep their contents. A buffer of a meta device frees the parts of
    its tensors, and a buffer that is written in Python runs its reset callback, if it has one.

    Args:
        buffer: handle of a buffer; a combined buffer resets its parts.
    Returns:
        None.
    Raises:
        TypeError: buffer is None or not a buffer.
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
        tensor: any tensor, any shape, that is not a view and has no data (or lies in a buffer that was freed).
        addr: address in the buffer, not below ggml_backend_buffer_get_base(buffer).
    Returns:
        GGML_STATUS_SUCCESS (0).
    Raises:
        TypeError: buffer is not a buffer, or tensor is not a tensor.
        ValueError: the tensor is a view or has data already, or does not fit between addr and the buffer's end, or
            the buffer combines several.
        RuntimeError: the buffer or the tensor was freed.
    See also:
        ggml_tallocr_alloc, which chooses the addresses; ggml_backend_view_init, for views.
    """
    enter(b"ggml_backend_tensor_alloc")
    cdef Buffer b = buffer_arg(buffer, "buffer")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef size_t at = <size_t>arg_address(addr, b"addr") - <size_t>b.base, n
    if t.view_src != NULL:
        fail(ValueError, "tensor is a view: need a tensor with memory of its own (see ggml_backend_view_init)")
    if t.data != NULL and not buffer_dead(t):
        fail(ValueError, "tensor has data already: need a tensor without data")
    if isinstance(b, MultiBuffer):
        fail(ValueError, "buffer combines several buffers: need one of its parts")
    n = b.buft.alloc_size(t)
    if at > b.size or n > b.size - at:
        fail(ValueError, f"addr is {<size_t>b.base + at:#x}: the tensor takes {n} bytes, the buffer has {b.size} from "
             f"{<size_t>b.base:#x}")
    return place(b, t, at)

def ggml_backend_view_init(tensor):
    """Gives a view its place in the memory of the tensor that it is a view of.

    The allocators do this themselves. It is needed for a view that was created before its source was placed.

    Args:
        tensor: view of any tensor, any shape; the tensor in its view_src has data.
    Returns:
        GGML_STATUS_SUCCESS (0).
    Raises:
        TypeError: tensor is not a tensor.
        ValueError: tensor is not a view, or the tensor that it is a view of has no data.
        RuntimeError: the tensor, its source, or the source's buffer, was freed.
    """
    enter(b"ggml_backend_view_init")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.view_src == NULL:
        fail(ValueError, "tensor is not a view: need the result of ggml_view_1d or a similar function")
    return place_view(t)
