"""Copies between tensors and the caller's memory and from tensor to tensor, in whatever buffers the tensors lie."""
from libc.stdint cimport uint8_t

from .._core cimport arg_buffer, arg_int32, arg_size, arg_tensor, engine, enter, fail, gg_is_empty, ggml_tensor
from .device cimport Backend, Buffer, backend_arg, buffer_of_tensor, copy, read, same_layout, write

cdef const void *arg_data(object data, size_t size) except? NULL:
    """The caller's memory of at least `size` bytes."""
    cdef void *p
    arg_buffer(data, b"data", size, &p)
    if size and p == NULL:
        fail(TypeError, "data is None: need memory to copy from or to")
    if size and not engine.readable(p, size):
        fail(ValueError, f"data ({<size_t>p:#x}) is not memory of {size} bytes")
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
        TypeError: tensor is not a tensor, or data is None or not memory.
        ValueError: offset and size reach beyond the tensor, data is too small, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
    enter(b"ggml_backend_tensor_set")
    cdef size_t n = arg_size(size, b"size")
    write(arg_tensor(tensor, b"tensor"), arg_data(data, n), arg_size(offset, b"offset"), n)

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
        TypeError: tensor is not a tensor, or data is None, bytes (which cannot be written) or not memory.
        ValueError: offset and size reach beyond the tensor, data is too small, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
    enter(b"ggml_backend_tensor_get")
    cdef size_t n = arg_size(size, b"size")
    if isinstance(data, bytes):
        fail(TypeError, "data is bytes, which cannot be written: need a bytearray, ctypes or NumPy memory")
    read(arg_tensor(tensor, b"tensor"), <void *>arg_data(data, n), arg_size(offset, b"offset"), n)

cdef size_t extent(size_t n, object stride, object size, str name) except? 0:
    """Bytes from the start of the first to the end of the last of n pieces."""
    cdef object total = (n - 1) * stride + size if n else 0
    if total >= 1 << 62:
        fail(ValueError, f"{name} is {stride}: the pieces reach beyond the address space")
    return total

cdef int strided(object tensor, object data, object offset, object size, object n_copies, object stride_tensor,
                 object stride_data, bint to_tensor, Backend backend) except -1:
    """Copies n_copies pieces of `size` bytes, `stride_tensor` apart in the tensor, `stride_data` in the data."""
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef size_t at = arg_size(offset, b"offset"), n = arg_size(size, b"size"), k = arg_size(n_copies, b"n_copies"), i
    cdef size_t st = arg_size(stride_tensor, b"stride_tensor"), sd = arg_size(stride_data, b"stride_data")
    cdef size_t whole = extent(k, st, n, "stride_tensor")
    cdef uint8_t *p = <uint8_t *>arg_data(data, extent(k, sd, n, "stride_data"))
    if not to_tensor and isinstance(data, bytes):
        fail(TypeError, "data is bytes, which cannot be written: need a bytearray, ctypes or NumPy memory")
    if k == 0 or n == 0:
        return 0
    write(t, p, at + whole, 0)       # checks that the last piece fits before anything is copied
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
        stride_data: bytes from the start of a piece to that of the next in data.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor, or data is None or not memory.
        ValueError: a number is negative, a piece lies beyond the tensor or data, or the tensor has no data. In
            these cases nothing is copied.
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
        stride_data: bytes from the start of a piece to that of the next in data.
    Returns:
        None; the pieces are in data, bytes between them are unchanged.
    Raises:
        TypeError: tensor is not a tensor, or data is None, bytes (which cannot be written) or not memory.
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
        stride_data: bytes from the start of a piece to that of the next in data.
    Returns:
        None.
    Raises:
        TypeError: backend is not a backend, tensor is not a tensor, or data is None or not memory.
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
        stride_data: bytes from the start of a piece to that of the next in data.
    Returns:
        None.
    Raises:
        TypeError: backend is not a backend, tensor is not a tensor, or data is None, bytes or not memory.
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
        TypeError: backend is not a backend, tensor is not a tensor, or data is None or not memory.
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
        TypeError: backend is not a backend, tensor is not a tensor, or data is None, bytes or not memory.
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
        TypeError: tensor is not a tensor, or a number is not an integer.
        ValueError: the range reaches beyond the tensor, value needs more than 32 bits, or the tensor has no data.
        RuntimeError: the tensor, or the memory that it lies in, was freed.
    """
    enter(b"ggml_backend_tensor_memset")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef size_t at = arg_size(offset, b"offset"), n = arg_size(size, b"size")
    cdef Buffer b
    write(t, NULL, at, 0)            # checks the offset
    if n == 0:
        return
    b = buffer_of_tensor(t)
    cdef bytes block = bytes([arg_int32(value, b"value") & 255]) * min(n, <size_t>1 << 16)
    cdef size_t done = 0, k
    check_range(t, at, n)
    if b is not None:
        b.fill(t, arg_int32(value, b"value") & 255, at, n)
        return
    while done < n:
        k = min(n - done, <size_t>len(block))
        write(t, <const char *>block, at + done, k)
        done += k

cdef int check_range(ggml_tensor *t, size_t at, size_t n) except -1:
    if at + n < at:
        fail(ValueError, f"size is {n}: larger than the tensor")
    return write(t, NULL, at + n, 0)

def ggml_backend_tensor_copy(src, dst):
    """Copies the data of a tensor to a tensor of the same layout, in whatever memory either lies.

    The data is copied directly if the destination's buffer can do that, otherwise via host memory. Nothing happens
    if src and dst are the same tensor.

    Args:
        src: any tensor, any shape, with data.
        dst: tensor with data that has src's type, shape [ne0, ne1, ne2, ne3] and strides.
    Returns:
        None.
    Raises:
        TypeError: src or dst is not a tensor.
        ValueError: the types, shapes or strides differ, or a tensor has no data.
        RuntimeError: a tensor, or the memory that it lies in, was freed.
        MemoryError: there is no memory for the copy on the host.
    """
    enter(b"ggml_backend_tensor_copy")
    copy(arg_tensor(src, b"src"), arg_tensor(dst, b"dst"))

def ggml_backend_tensor_copy_async(backend_src, backend_dst, src, dst):
    """Copies a tensor between two backends, after the first's queued work and before the second's later work.

    If the backends cannot order the copy themselves, which is the case for the CPU, the call waits for both and
    copies before it returns.

    Args:
        backend_src: handle of the backend that computes src.
        backend_dst: handle of the backend that reads dst.
        src: any tensor, any shape, with data.
        dst: tensor with data that has src's type, shape [ne0, ne1, ne2, ne3] and strides.
    Returns:
        None.
    Raises:
        TypeError: a backend is not a backend, or src or dst is not a tensor.
        ValueError: the types, shapes or strides differ, or a tensor has no data.
        RuntimeError: a backend, a tensor, or the memory of a tensor, was freed.
        MemoryError: there is no memory for the copy on the host.
    """
    enter(b"ggml_backend_tensor_copy_async")
    cdef Backend a = backend_arg(backend_src, "backend_src"), b = backend_arg(backend_dst, "backend_dst")
    copy_async(a, b, arg_tensor(src, b"src"), arg_tensor(dst, b"dst"))

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

    ggml_backend_tensor_copy tries this first and copies via host memory otherwise.

    Args:
        src: any tensor, any shape, with data.
        dst: tensor with data that has src's type, shape [ne0, ne1, ne2, ne3] and strides.
    Returns:
        True if the data was copied; False if not, for example if dst's data lies in a context instead of a buffer.
    Raises:
        TypeError: src or dst is not a tensor.
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
