"""Contexts, new tensors, their properties and their values."""

import ctypes
from ctypes import POINTER, c_float, c_int64

import ggml

from . import _memory
from ._api import api, plain
from ._arena import ENGINE_TYPE, OP, Context, Tensor, address_of, contexts
from ._structs import (
    GGML_OBJECT_SIZE,
    GGML_TENSOR_SIZE,
    MAX_NAME,
    TYPES,
    ggml_init_params,
    ggml_object,
    ggml_scratch,
    ggml_tensor_p,
)


def engine_type(type):
    """The engine's number of a tensor type of this surface."""
    if type not in TYPES:
        raise ValueError(f"type is {type}: no tensor type has this number")
    return ENGINE_TYPE[type]


# ---- contexts --------------------------------------------------------------------------------------------------------
@api
def ggml_init(params):
    """Creates a context: an arena of fixed size for tensors and their data.

    Unlike the current surface, the arena never grows: mem_size is all there is. Tensor structs lie in it as they
    did in May 2023, so that memory estimates of old programs hold.

    Args:
        params: ggml_init_params. mem_size: bytes of the arena. mem_buffer: memory of that size to use for it, or
            None for memory of its own. no_alloc: True to create tensors without data.
    Returns:
        Handle (int) of the context. Free it with ggml_free.
    Raises:
        TypeError: params is not a ggml_init_params.
        ValueError: mem_buffer is smaller than mem_size, not readable, or part of another context.
        MemoryError: the memory cannot be allocated.
    """
    if not isinstance(params, ggml_init_params):
        raise TypeError(f"params is {params!r:.60}: need ggml_init_params")
    ctx = Context(params.mem_size, params.mem_buffer, params.no_alloc)
    ctx.kept.append(params)
    return ctx.engine


@api
def ggml_free(ctx):
    """Frees a context with all its tensors.

    Args:
        ctx: handle of the context, or None, which does nothing.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a handle.
        RuntimeError: ctx was freed already, or is not a context of this surface.
    """
    handle = plain(ctx)
    if handle is not None:
        if not isinstance(handle, int):
            raise TypeError(f"ctx is {ctx!r:.60}: need a context")
        if handle not in contexts:
            raise RuntimeError(f"ctx ({handle}) is not a live context: freed, or never made")
        contexts[handle].free()


@api
def ggml_used_mem(ctx: Context):
    """Reports how many bytes of the arena are in use.

    Args:
        ctx: context.
    Returns:
        Bytes up to the end of the last object, 0 for an empty context. Data in a scratch buffer do not count.
    Raises:
        TypeError: ctx is not a context.
        RuntimeError: ctx was freed.
    """
    return ctx.arena.used()


@api
def ggml_set_scratch(ctx: Context, scratch):
    """Directs the data of new tensors to a scratch buffer, or back to the arena.

    Structs stay in the arena, and so do the data of ggml_new_i32, ggml_new_f32 and of the parameters of operations.
    A scratch buffer may be used again once the values in it are no longer needed.

    Args:
        ctx: context.
        scratch: ggml_scratch. data: address of the buffer, NULL for the arena; size: its bytes; offs: where the
            first tensor's data go, in bytes from data.
    Returns:
        Bytes that were in use in the scratch buffer before this call, 0 if there was none.
    Raises:
        TypeError: ctx is not a context, or scratch is not a ggml_scratch.
        ValueError: offs is greater than size, or data is not memory of size bytes.
        RuntimeError: ctx was freed.
    """
    if not isinstance(scratch, ggml_scratch):
        raise TypeError(f"scratch is {scratch!r:.60}: need ggml_scratch")
    if scratch.data:
        if scratch.offs > scratch.size:
            raise ValueError(f"scratch.offs is {scratch.offs}: beyond its size, {scratch.size}")
        _memory.address(scratch.data, "scratch.data", scratch.size)
    used = ctx.arena.scratch.offs if ctx.arena.scratch is not None else 0
    ctx.kept.append(scratch)
    ctx.arena.scratch = ggml_scratch(scratch.offs, scratch.size, scratch.data) if scratch.data else None
    return used


@api
def ggml_set_no_alloc(ctx: Context, no_alloc: bool):
    """Sets whether tensors that are created from now on get no data.

    Args:
        ctx: context.
        no_alloc: True for structs only; their data field is NULL until the caller sets it.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context.
        RuntimeError: ctx was freed.
    """
    ctx.no_alloc = no_alloc


@api
def ggml_get_mem_buffer(ctx: Context):
    """Gives the address of a context's arena.

    Args:
        ctx: context.
    Returns:
        Address (int).
    Raises:
        TypeError: ctx is not a context.
        RuntimeError: ctx was freed.
    """
    return ctx.arena.base


@api
def ggml_get_mem_size(ctx: Context):
    """Gives the size of a context's arena.

    Args:
        ctx: context.
    Returns:
        mem_size as given to ggml_init, in bytes.
    Raises:
        TypeError: ctx is not a context.
        RuntimeError: ctx was freed.
    """
    return ctx.arena.size


@api
def ggml_tensor_overhead():
    """Gives the bytes of an arena that a tensor takes in addition to its data.

    Returns:
        272: object header, struct and up to 16 bytes for alignment.
    """
    return GGML_OBJECT_SIZE + GGML_TENSOR_SIZE + 16


@api
def ggml_print_object(obj):
    """Prints offset, size and successor of an object in an arena to stdout.

    Args:
        obj: ggml_object, or a pointer or byref to one.
    Returns:
        None.
    Raises:
        TypeError: obj is not a ggml_object or a pointer to one.
        ValueError: the pointer does not point to readable memory.
    """
    if isinstance(obj, ctypes._Pointer) and obj:
        _memory.address(address_of(obj), "obj", GGML_OBJECT_SIZE)
        obj = obj.contents
    obj = getattr(obj, "_obj", obj)
    if not isinstance(obj, ggml_object):
        raise TypeError(f"obj is {obj!r:.60}: need a ggml_object or a pointer to one")
    print(f" - ggml_object: offset = {obj.offs}, size = {obj.size}, next = {address_of(obj.next):#x}", flush=True)


@api
def ggml_print_objects(ctx: Context):
    """Prints every object of a context to stdout, in the order of creation.

    Args:
        ctx: context.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context.
        RuntimeError: ctx was freed.
    """
    print(f"ggml_print_objects: objects in context {ctx.engine:#x}:")
    obj = ctx.arena.first
    while obj is not None:
        ggml_print_object(obj)
        obj = obj.next.contents if obj.next else None
    print("ggml_print_objects: --- end ---", flush=True)


# ---- new tensors -----------------------------------------------------------------------------------------------------
def _new(ctx, type, *ne):
    shape = (c_int64 * 4)(*ne, *[1] * (4 - len(ne)))
    return ctx.tensor(ggml.ggml_new_tensor(ctx.engine, engine_type(type), len(ne), shape), len(ne))


@api
def ggml_new_tensor(ctx: Context, type: int, n_dims: int, ne) -> Tensor:
    """Creates a tensor whose shape is given as an array.

    Its values are not initialised.

    Args:
        ctx: context.
        type: GGML_TYPE_* of this module; the numbers of I8, I16 and I32 differ from those of the current surface.
        n_dims: number of dimensions, 1 to 4.
        ne: n_dims sizes, dimension 0 first: a list, a tuple, an array of int64 or its address. Sizes are 0 or more,
            the first one a multiple of the type's block.
    Returns:
        Pointer to the tensor; its missing dimensions have size 1.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: type, n_dims or a size is not allowed.
        RuntimeError: ctx was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    if not 1 <= n_dims <= 4:
        raise ValueError(f"n_dims is {n_dims}: need 1 to 4")
    if isinstance(ne, (list, tuple)):
        if len(ne) < n_dims:
            raise ValueError(f"ne has {len(ne)} entries, n_dims is {n_dims}")
        ne = (c_int64 * n_dims)(*ne[:n_dims])
    at = _memory.address(ne, "ne", 8 * n_dims)
    return _new(ctx, type, *(c_int64 * n_dims).from_address(at))


@api
def ggml_new_tensor_1d(ctx: Context, type: int, ne0: int) -> Tensor:
    """Creates a vector.

    Args:
        ctx: context.
        type: GGML_TYPE_* of this module.
        ne0: number of elements, 0 or more, a multiple of the type's block.
    Returns:
        Pointer to a tensor [ne0], not initialised.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: type or size is not allowed.
        RuntimeError: ctx was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _new(ctx, type, ne0)


@api
def ggml_new_tensor_2d(ctx: Context, type: int, ne0: int, ne1: int) -> Tensor:
    """Creates a matrix.

    Args:
        ctx: context.
        type: GGML_TYPE_* of this module.
        ne0: elements per row, a multiple of the type's block.
        ne1: number of rows.
    Returns:
        Pointer to a tensor [ne0, ne1], not initialised.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: type or a size is not allowed.
        RuntimeError: ctx was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _new(ctx, type, ne0, ne1)


@api
def ggml_new_tensor_3d(ctx: Context, type: int, ne0: int, ne1: int, ne2: int) -> Tensor:
    """Creates a tensor with three dimensions.

    Args:
        ctx: context.
        type: GGML_TYPE_* of this module.
        ne0: elements per row, a multiple of the type's block.
        ne1: rows per matrix.
        ne2: number of matrices.
    Returns:
        Pointer to a tensor [ne0, ne1, ne2], not initialised.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: type or a size is not allowed.
        RuntimeError: ctx was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _new(ctx, type, ne0, ne1, ne2)


@api
def ggml_new_tensor_4d(ctx: Context, type: int, ne0: int, ne1: int, ne2: int, ne3: int) -> Tensor:
    """Creates a tensor with four dimensions.

    Args:
        ctx: context.
        type: GGML_TYPE_* of this module.
        ne0: elements per row, a multiple of the type's block.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
    Returns:
        Pointer to a tensor [ne0, ne1, ne2, ne3], not initialised.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: type or a size is not allowed.
        RuntimeError: ctx was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _new(ctx, type, ne0, ne1, ne2, ne3)


@api
def ggml_new_i32(ctx: Context, value: int) -> Tensor:
    """Creates an i32 tensor with a single element of the given value.

    Its data never lie in the scratch buffer.

    Args:
        ctx: context.
        value: the element, -2^31 to 2^31 - 1.
    Returns:
        Pointer to an i32 tensor [1].
    Raises:
        TypeError: ctx is not a context, or value is not an integer.
        ValueError: value does not fit into 32 bits.
        RuntimeError: ctx was freed.
        MemoryError: the arena is full.
    """
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"value is {value}: need a 32-bit integer")
    return ctx.ints(value)


@api
def ggml_new_f32(ctx: Context, value: float) -> Tensor:
    """Creates an f32 tensor with a single element of the given value.

    Its data never lie in the scratch buffer.

    Args:
        ctx: context.
        value: the element, rounded to f32.
    Returns:
        Pointer to an f32 tensor [1].
    Raises:
        TypeError: ctx is not a context, or value is not a number.
        RuntimeError: ctx was freed.
        MemoryError: the arena is full.
    """
    return ctx.filled((c_float * 1)(value))


@api
def ggml_dup_tensor(ctx: Context, src: Tensor) -> Tensor:
    """Creates a tensor with the type and shape of another one, but not its values.

    Args:
        ctx: context.
        src: tensor of any shape and any type.
    Returns:
        Pointer to a contiguous tensor of the same type and shape, not initialised.
    Raises:
        TypeError: ctx is not a context, or src is not a tensor.
        RuntimeError: ctx or src was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.like(src)


@api
def ggml_view_tensor(ctx: Context, src: Tensor) -> Tensor:
    """Creates a tensor over the memory of another one, with its type, shape and strides.

    The view is a leaf: in a graph it does not depend on src.

    Args:
        ctx: context.
        src: tensor of any shape and any type.
    Returns:
        Pointer to the view.
    Raises:
        TypeError: ctx is not a context, or src is not a tensor.
        RuntimeError: ctx or src was freed.
        MemoryError: the arena is full.
    """
    return ctx.tensor(ggml.ggml_view_tensor(ctx.engine, src.engine), src.struct.n_dims)


@api
def ggml_get_tensor(ctx: Context, name: bytes):
    """Finds a tensor of a context by its name.

    Args:
        ctx: context.
        name: name, as bytes or str.
    Returns:
        Pointer to the first tensor, in the order of creation, that has this name; a NULL pointer if there is none.
    Raises:
        TypeError: ctx is not a context, or name is neither bytes nor str.
        RuntimeError: ctx was freed.
    """
    for t in ctx.tensors:
        if t.struct.name == name:
            return t.pointer()
    return ggml_tensor_p()


@api
def ggml_set_param(ctx: Context, tensor: Tensor):
    """Marks a tensor as a parameter, so that gradients with respect to it are computed.

    The field `grad` gets a new tensor of the same type and shape, not initialised; ggml_opt changes the parameter's
    values.

    Args:
        ctx: context in which the gradient is allocated.
        tensor: leaf of any shape, usually f32, that has no gradient yet.
    Returns:
        None.
    Raises:
        TypeError: ctx is not a context, or tensor is not a tensor.
        ValueError: the tensor has a gradient already, or is the result of an operation.
        RuntimeError: ctx or tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    if tensor.struct.grad:
        raise ValueError(f"{tensor.name_text()} has a gradient already")
    ggml.ggml_set_param(tensor.engine)
    tensor.struct.is_param = True
    tensor.struct.grad = ctx.like(tensor).pointer()


# ---- properties ------------------------------------------------------------------------------------------------------
@api
def ggml_nelements(tensor: Tensor):
    """Counts the elements of a tensor: ne0 * ne1 * ne2 * ne3.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Number of elements (int).
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
    return ggml.ggml_nelements(tensor.engine)


@api
def ggml_nbytes(tensor: Tensor):
    """Computes the bytes from a tensor's first element to the end of its last one.

    Gaps between the rows of a view are included.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Number of bytes (int).
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
    return ggml.ggml_nbytes(tensor.engine)


@api
def ggml_blck_size(type: int):
    """Gives the number of elements in a block of a type.

    Args:
        type: GGML_TYPE_* of this module.
    Returns:
        32 for the quantised types, 1 for the others.
    Raises:
        TypeError: type is not an integer.
        ValueError: no type has this number.
    """
    return ggml.ggml_blck_size(engine_type(type))


@api
def ggml_type_size(type: int):
    """Gives the size of a block of a type.

    Args:
        type: GGML_TYPE_* of this module.
    Returns:
        Bytes of a block; of an element for types that are not quantised.
    Raises:
        TypeError: type is not an integer.
        ValueError: no type has this number.
    """
    return ggml.ggml_type_size(engine_type(type))


@api
def ggml_type_sizef(type: int):
    """Gives the average size of an element of a type: ggml_type_size / ggml_blck_size.

    Args:
        type: GGML_TYPE_* of this module.
    Returns:
        Bytes per element (float).
    Raises:
        TypeError: type is not an integer.
        ValueError: no type has this number.
    """
    return ggml.ggml_type_sizef(engine_type(type))


@api
def ggml_type_name(type: int):
    """Gives the name of a type.

    Args:
        type: GGML_TYPE_* of this module.
    Returns:
        Name as bytes, for example b"f32" or b"q4_0".
    Raises:
        TypeError: type is not an integer.
        ValueError: no type has this number.
    """
    return ggml.ggml_type_name(engine_type(type))


@api
def ggml_op_name(op: int):
    """Gives the name of an operation of this surface.

    Args:
        op: GGML_OP_* of this module, 0 to GGML_OP_COUNT - 1.
    Returns:
        Name as bytes, for example b"MUL_MAT".
    Raises:
        TypeError: op is not an integer.
        ValueError: no operation has this number.
    """
    names = list(OP)
    if not 0 <= op < OP["COUNT"]:
        raise ValueError(f"op is {op}: need 0 to {OP['COUNT'] - 1}")
    return names[op].encode()


@api
def ggml_element_size(tensor: Tensor):
    """Gives the size of a block of a tensor's type.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Bytes of a block; of an element if the type is not quantised.
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
    return ggml.ggml_element_size(tensor.engine)


@api
def ggml_is_quantized(type: int):
    """Tells whether a type stores blocks of quantised values.

    Args:
        type: GGML_TYPE_* of this module.
    Returns:
        True or False.
    Raises:
        TypeError: type is not an integer.
        ValueError: no type has this number.
    """
    return ggml.ggml_is_quantized(engine_type(type))


@api
def ggml_ftype_to_ggml_type(ftype: int):
    """Gives the tensor type that belongs to a kind of model file.

    Args:
        ftype: GGML_FTYPE_*.
    Returns:
        GGML_TYPE_* of most tensors in such a file; GGML_TYPE_COUNT for mixed and unknown kinds.
    Raises:
        TypeError: ftype is not an integer.
    """
    return {0: 0, 1: 1, 2: 2, 3: 3, 7: 8, 8: 6, 9: 7}.get(ftype, 13)


# ---- values ----------------------------------------------------------------------------------------------------------
@api
def ggml_set_zero(tensor: Tensor) -> Tensor:
    """Sets all elements of a tensor to zero, now.

    Args:
        tensor: tensor with data, any shape and any type.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor.
        ValueError: the tensor has no data.
        RuntimeError: tensor was freed.
    """
    ggml.ggml_set_zero(tensor.engine)
    return tensor


@api
def ggml_set_i32(tensor: Tensor, value: int) -> Tensor:
    """Sets all elements of a tensor to an integer, now.

    Args:
        tensor: tensor with data, of any shape, not quantised: f32, f16 or an integer type.
        value: 32-bit integer that the tensor's type can hold.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor, or value is not an integer.
        ValueError: the tensor has no data or is quantised, or its type cannot hold value.
        RuntimeError: tensor was freed.
    """
    ggml.ggml_set_i32(tensor.engine, value)
    return tensor


@api
def ggml_set_f32(tensor: Tensor, value: float) -> Tensor:
    """Sets all elements of a tensor to a number, now.

    Args:
        tensor: tensor with data, of any shape, not quantised: f32, f16 or an integer type.
        value: the number; integer types take it without its fraction.
    Returns:
        The same tensor.
    Raises:
        TypeError: tensor is not a tensor, or value is not a number.
        ValueError: the tensor has no data or is quantised, or its type cannot hold value.
        RuntimeError: tensor was freed.
    """
    ggml.ggml_set_f32(tensor.engine, value)
    return tensor


@api
def ggml_get_i32_1d(tensor: Tensor, i: int):
    """Reads one element as an integer.

    Args:
        tensor: tensor with data, of any shape, not quantised: f32, f16 or an integer type.
        i: index over all dimensions, dimension 0 fastest, 0 to ggml_nelements - 1.
    Returns:
        The element (int); floats lose their fraction.
    Raises:
        TypeError: tensor is not a tensor, or i is not an integer.
        ValueError: the tensor has no data or is quantised, or the element is NaN.
        OverflowError: the element is infinite.
        IndexError: i is out of range.
        RuntimeError: tensor was freed.
    """
    return ggml.ggml_get_i32_1d(tensor.engine, i)


@api
def ggml_set_i32_1d(tensor: Tensor, i: int, value: int):
    """Writes an integer to one element.

    Args:
        tensor: tensor with data, of any shape, not quantised: f32, f16 or an integer type.
        i: index over all dimensions, dimension 0 fastest, 0 to ggml_nelements - 1.
        value: 32-bit integer that the tensor's type can hold.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor, or a number is not an integer.
        ValueError: the tensor has no data or is quantised, or its type cannot hold value.
        IndexError: i is out of range.
        RuntimeError: tensor was freed.
    """
    ggml.ggml_set_i32_1d(tensor.engine, i, value)


@api
def ggml_get_f32_1d(tensor: Tensor, i: int):
    """Reads one element as a float.

    Args:
        tensor: tensor with data, of any shape, not quantised: f32, f16 or an integer type.
        i: index over all dimensions, dimension 0 fastest, 0 to ggml_nelements - 1.
    Returns:
        The element (float).
    Raises:
        TypeError: tensor is not a tensor, or i is not an integer.
        ValueError: the tensor has no data or is quantised.
        IndexError: i is out of range.
        RuntimeError: tensor was freed.
    """
    return ggml.ggml_get_f32_1d(tensor.engine, i)


@api
def ggml_set_f32_1d(tensor: Tensor, i: int, value: float):
    """Writes a number to one element.

    Args:
        tensor: tensor with data, of any shape, not quantised: f32, f16 or an integer type.
        i: index over all dimensions, dimension 0 fastest, 0 to ggml_nelements - 1.
        value: the number; integer types take it without its fraction.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor, i is not an integer, or value is not a number.
        ValueError: the tensor has no data or is quantised, or its type cannot hold value.
        IndexError: i is out of range.
        RuntimeError: tensor was freed.
    """
    ggml.ggml_set_f32_1d(tensor.engine, i, value)


@api
def ggml_get_data(tensor: Tensor):
    """Gives the address of a tensor's elements.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Address (int), or None if the tensor has no data.
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
    return tensor.struct.data


@api
def ggml_get_data_f32(tensor: Tensor):
    """Gives a pointer to the elements of an f32 tensor.

    Args:
        tensor: f32 tensor of any shape.
    Returns:
        POINTER(c_float), to be indexed in the order of the memory; a NULL pointer if the tensor has no data.
    Raises:
        TypeError: tensor is not a tensor.
        ValueError: the tensor is not f32.
        RuntimeError: tensor was freed.
    """
    if tensor.struct.type != ggml.GGML_TYPE_F32:
        raise ValueError(f"{tensor.name_text()} is not f32")
    return ctypes.cast(tensor.struct.data, POINTER(c_float))


@api
def ggml_get_name(tensor: Tensor):
    """Gives the name of a tensor.

    Args:
        tensor: tensor of any shape and any type.
    Returns:
        Name as bytes, b"" if it has none.
    Raises:
        TypeError: tensor is not a tensor.
        RuntimeError: tensor was freed.
    """
    return tensor.struct.name


@api
def ggml_set_name(tensor: Tensor, name: bytes):
    """Names a tensor. Names need not be unique.

    Args:
        tensor: tensor of any shape and any type.
        name: bytes or str. The first 31 bytes up to a zero byte are kept.
    Returns:
        None.
    Raises:
        TypeError: tensor is not a tensor, or name is neither bytes nor str.
        RuntimeError: tensor was freed.
    """
    tensor.struct.name = name.split(b"\0")[0][: MAX_NAME - 1]
    tensor.refresh()
