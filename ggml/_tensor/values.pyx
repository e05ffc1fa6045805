"""Reading and writing the values of tensors."""
import ctypes

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memcpy, memset

from .._core cimport (
    arg_buffer, arg_float, arg_int, arg_int32, arg_tensor, check_data, enter, fail, gg_bf16_to_f32, gg_contiguous,
    gg_f16_to_f32, gg_f32_to_bf16, gg_f32_to_f16, gg_is_empty, gg_nbytes, gg_nelements, gg_types, ggml_tensor,
    wrap_handle, wrap_tensor,
)
from .._enums cimport (
    GGML_TYPE_BF16, GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_F64, GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_I64,
    GGML_TYPE_I8,
)

# ---- data ------------------------------------------------------------------------------------------------------------
def ggml_get_data(tensor):
    """Returns the address of a tensor's data.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Address of the first element (int); None if the tensor has no data.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has an invalid field.
        RuntimeError: tensor does not belong to a live context.
    See also:
        numpy.asarray(tensor) and ggml.utils.to_numpy give an array that keeps the memory alive.
    """
    enter(b"ggml_get_data")
    return wrap_handle(arg_tensor(tensor, b"tensor").data)

def ggml_get_data_f32(tensor):
    """Returns a ctypes pointer to the data of an f32 tensor.

    Args:
        tensor: f32 tensor of any shape.
    Returns:
        POINTER(c_float) to the first element; a NULL pointer if the tensor has no data. It does not keep the memory
        alive.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or is not f32.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_get_data_f32")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    if t.type != GGML_TYPE_F32:
        fail(ValueError, f"the tensor is {gg_types[t.type].name.decode()}: need f32")
    return ctypes.cast(<size_t>t.data, ctypes.POINTER(ctypes.c_float))

# ---- elements --------------------------------------------------------------------------------------------------------
cdef double read(const ggml_tensor *t, const void *p) except? -1:
    """The element at an address."""
    if t.type == GGML_TYPE_F32: return (<const float *>p)[0]
    if t.type == GGML_TYPE_F16: return gg_f16_to_f32((<const uint16_t *>p)[0])
    if t.type == GGML_TYPE_BF16: return gg_bf16_to_f32((<const uint16_t *>p)[0])
    if t.type == GGML_TYPE_F64: return (<const double *>p)[0]
    if t.type == GGML_TYPE_I8: return (<const int8_t *>p)[0]
    if t.type == GGML_TYPE_I16: return (<const int16_t *>p)[0]
    if t.type == GGML_TYPE_I32: return (<const int32_t *>p)[0]
    if t.type == GGML_TYPE_I64: return <double>(<const int64_t *>p)[0]
    quantised(t)

cdef int write(ggml_tensor *t, void *p, double v) except -1:
    """Converts a number to the tensor's type and stores it at an address."""
    if t.type == GGML_TYPE_F32: (<float *>p)[0] = <float>v
    elif t.type == GGML_TYPE_F16: (<uint16_t *>p)[0] = gg_f32_to_f16(<float>v)
    elif t.type == GGML_TYPE_BF16: (<uint16_t *>p)[0] = gg_f32_to_bf16(<float>v)
    elif t.type == GGML_TYPE_F64: (<double *>p)[0] = v
    elif t.type == GGML_TYPE_I8: (<int8_t *>p)[0] = <int8_t>truncated(v, 0x7f)
    elif t.type == GGML_TYPE_I16: (<int16_t *>p)[0] = <int16_t>truncated(v, 0x7fff)
    elif t.type == GGML_TYPE_I32: (<int32_t *>p)[0] = <int32_t>truncated(v, 0x7fffffff)
    elif t.type == GGML_TYPE_I64: (<int64_t *>p)[0] = truncated(v, 0x7fffffffffffffff)
    else: quantised(t)
    return 0

cdef int quantised(const ggml_tensor *t) except -1:
    fail(ValueError, f"the tensor is {gg_types[t.type].name.decode()}: need a type that is not quantised")

cdef int64_t truncated(double v, int64_t most) except? -1:
    """The integer part of a number, for a type that holds -most - 1 to most."""
    cdef int64_t i
    if v != v:
        fail(ValueError, f"value is {v}: need a number for an integer type")
    if -9223372036854775808.0 <= v < 9223372036854775808.0:
        i = <int64_t>v
        if -most - 1 <= i <= most:
            return i
    fail(ValueError, f"value is {v}: the type holds {-most - 1} to {most}")

cdef object whole(double v):
    """The integer part of an element."""
    if v != v:
        fail(ValueError, "the element is NaN: no integer")
    if v - v != 0:
        fail(OverflowError, f"the element is {v}: no integer")
    return int(v)

cdef void *at(ggml_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3) except NULL:
    """The address of the element at [i0, i1, i2, i3]."""
    check_data(t, "tensor")
    cdef int64_t[4] i = [i0, i1, i2, i3]
    cdef int d
    cdef size_t offset = 0
    for d in range(4):
        if i[d] < 0 or i[d] >= t.ne[d]:
            fail(IndexError, f"index {d} is {i[d]}: the tensor has ne[{d}] = {t.ne[d]}")
        offset += <size_t>i[d] * t.nb[d]
    return <uint8_t *>t.data + offset

cdef void *at_flat(ggml_tensor *t, int64_t i) except NULL:
    """The address of the element with flat index i."""
    cdef int64_t n = gg_nelements(t), k = i
    if i < 0 or i >= n:
        fail(IndexError, f"i is {i}: the tensor has {n} elements")
    cdef int64_t[4] index
    cdef int d
    for d in range(4):
        index[d] = k % t.ne[d]
        k //= t.ne[d]
    return at(t, index[0], index[1], index[2], index[3])

def ggml_get_f32_1d(tensor, i):
    """Reads one element of a tensor by its flat index as a float.

    The index counts in logical order, dimension 0 fastest, and the strides of the tensor are respected.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
    Returns:
        Value (float). An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or i is not an integer.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_get_f32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return read(t, at_flat(t, arg_int(i, b"i")))

def ggml_set_f32_1d(tensor, i, value):
    """Writes a number to one element of a tensor by its flat index.

    The index counts in logical order, dimension 0 fastest. The number is rounded to float32 and then converted to
    the tensor's type; integer types truncate it towards zero.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
        value: number.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, i is not an integer or value is not a number.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or its integer type cannot hold value.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_f32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    write(t, at_flat(t, arg_int(i, b"i")), arg_float(value, b"value"))

def ggml_get_i32_1d(tensor, i):
    """Reads one element of a tensor by its flat index as an integer.

    The index counts in logical order, dimension 0 fastest.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
    Returns:
        Value (int), truncated towards zero and not limited to 32 bits. An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or i is not an integer.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or the element is NaN.
        OverflowError: the element is infinite.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_get_i32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return whole(read(t, at_flat(t, arg_int(i, b"i"))))

def ggml_set_i32_1d(tensor, i, value):
    """Writes an integer to one element of a tensor by its flat index.

    The index counts in logical order, dimension 0 fastest. Float types round the integer to the nearest value they
    have.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i: index, 0 to ggml_nelements(tensor) - 1.
        value: 32-bit integer.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, or i or value is not an integer.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or value does not fit 32 bits or its
            type.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_i32_1d")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    write(t, at_flat(t, arg_int(i, b"i")), arg_int32(value, b"value"))

def ggml_get_f32_nd(tensor, i0, i1, i2, i3):
    """Reads the element at [i0, i1, i2, i3] of a tensor as a float.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
    Returns:
        Value (float). An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or an index is not an integer.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_get_f32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return read(t, at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3")))

def ggml_set_f32_nd(tensor, i0, i1, i2, i3, value):
    """Writes a number to the element at [i0, i1, i2, i3] of a tensor.

    The number is rounded to float32 and then converted to the tensor's type; integer types truncate it towards
    zero.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
        value: number.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, an index is not an integer or value is not a number.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or its integer type cannot hold value.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_f32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef void *p = at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3"))
    write(t, p, arg_float(value, b"value"))

def ggml_get_i32_nd(tensor, i0, i1, i2, i3):
    """Reads the element at [i0, i1, i2, i3] of a tensor as an integer.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
    Returns:
        Value (int), truncated towards zero and not limited to 32 bits. An i64 value beyond 2^53 is rounded.
    Raises:
        TypeError: tensor is not a tensor pointer, or an index is not an integer.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or the element is NaN.
        OverflowError: the element is infinite.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_get_i32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    return whole(read(t, at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3"))))

def ggml_set_i32_nd(tensor, i0, i1, i2, i3, value):
    """Writes an integer to the element at [i0, i1, i2, i3] of a tensor.

    Float types round the integer to the nearest value they have.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64).
        i0: index in dimension 0 (innermost), 0 to ne0 - 1.
        i1: index in dimension 1, 0 to ne1 - 1.
        i2: index in dimension 2, 0 to ne2 - 1.
        i3: index in dimension 3, 0 to ne3 - 1.
        value: 32-bit integer.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor pointer, or an index or value is not an integer.
        IndexError: an index is out of range.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or value does not fit 32 bits or its
            type.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_i32_nd")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef void *p = at(t, arg_int(i0, b"i0"), arg_int(i1, b"i1"), arg_int(i2, b"i2"), arg_int(i3, b"i3"))
    write(t, p, arg_int32(value, b"value"))

cdef int fill(ggml_tensor *t, double v) except -1:
    """Writes a number to all elements."""
    cdef int64_t i0, i1, i2, i3
    cdef uint8_t *row
    cdef size_t size = <size_t>gg_types[t.type].bytes
    cdef uint8_t one[8]                                  # a copy, since elements overlap where strides are 0
    if gg_is_empty(t):
        return 0
    write(t, at(t, 0, 0, 0, 0), v)
    memcpy(one, at(t, 0, 0, 0, 0), size)
    for i3 in range(t.ne[3]):
        for i2 in range(t.ne[2]):
            for i1 in range(t.ne[1]):
                row = <uint8_t *>t.data + <size_t>i1 * t.nb[1] + <size_t>i2 * t.nb[2] + <size_t>i3 * t.nb[3]
                for i0 in range(t.ne[0]):
                    memcpy(row + <size_t>i0 * t.nb[0], one, size)
    return 0

def ggml_set_f32(tensor, value):
    """Writes one number to every element of a tensor.

    It writes immediately, through the strides of the tensor; ggml_fill does the same as an operation of a graph.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64). It is
            overwritten.
        value: number, rounded to float32 and then to the tensor's type; integer types truncate it towards zero.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer, or value is not a number.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or its integer type cannot hold value.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_f32")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    fill(t, arg_float(value, b"value"))
    return wrap_tensor(t)

def ggml_set_i32(tensor, value):
    """Writes one integer to every element of a tensor.

    It writes immediately, through the strides of the tensor.

    Args:
        tensor: tensor of any shape, of any type that is not quantised (f32, f16, bf16, f64, i8 to i64). It is
            overwritten.
        value: 32-bit integer; float types round it to the nearest value they have.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer, or value is not an integer.
        ValueError: tensor is a NULL pointer, is quantised or has no data, or value does not fit 32 bits or its
            type.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_i32")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    fill(t, arg_int32(value, b"value"))
    return wrap_tensor(t)

def ggml_set_zero(tensor):
    """Sets all data of a tensor to zero bytes.

    Gaps between the elements of a strided tensor stay as they are, except in quantised tensors, where they are
    cleared too.

    Args:
        tensor: tensor of any shape and any type, also quantised. It is overwritten.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor pointer.
        ValueError: tensor is a NULL pointer or has no data.
        RuntimeError: tensor or its data was freed.
    """
    enter(b"ggml_set_zero")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    check_data(t, "tensor")
    if gg_contiguous(t) or gg_types[t.type].quantized:
        memset(t.data, 0, gg_nbytes(t))
    else:
        fill(t, 0)
    return wrap_tensor(t)

def ggml_unravel_index(tensor, i, i0, i1, i2, i3):
    """Converts a flat index of a tensor to one index for each dimension.

    i = i0 + ne0 * (i1 + ne1 * (i2 + ne2 * i3)). Only the shape of the tensor counts, not its strides.

    Args:
        tensor: tensor of any shape and any type.
        i: flat index, 0 to ggml_nelements(tensor) - 1.
        i0: int64 pointer or buffer that receives the index in dimension 0; None if it is not needed.
        i1: the same for dimension 1.
        i2: the same for dimension 2.
        i3: the same for dimension 3.
    Returns:
        None; the indices are written to i0 to i3.
    Raises:
        TypeError: tensor is not a tensor pointer, i is not an integer, or i0 to i3 are not addresses or buffers.
        IndexError: i is out of range.
        ValueError: tensor is a NULL pointer, or a buffer has less than 8 bytes.
        RuntimeError: tensor does not belong to a live context.
    """
    enter(b"ggml_unravel_index")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef int64_t k = arg_int(i, b"i"), size
    cdef void *p
    cdef int d
    if k < 0 or k >= gg_nelements(t):
        fail(IndexError, f"i is {k}: the tensor has {gg_nelements(t)} elements")
    for d, out in enumerate((i0, i1, i2, i3)):
        size = t.ne[d]
        arg_buffer(out, b"i0 to i3", 8, &p)
        if p != NULL:
            (<int64_t *>p)[0] = k % size
        k //= size
