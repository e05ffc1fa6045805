"""Contexts, new tensors, and questions about them."""

import ctypes
from ctypes import POINTER, c_float, c_int64

import ggml

from . import _memory
from ._arena import ENGINE_TYPE, OP, Context, Tensor, address_of, api, contexts
from ._structs import GGML_OBJECT_SIZE, GGML_TENSOR_SIZE, MAX_NAME, TYPES, ggml_init_params, ggml_object, ggml_scratch, ggml_tensor_p


def engine_type(type):
    """The engine's number for a tensor type of that time."""
    if type not in TYPES:
        raise ValueError(f"type is {type}: no tensor type has this number")
    return ENGINE_TYPE[type]


# ---- contexts --------------------------------------------------------------------------------------------------------
@api
def ggml_init(params):
    """A new context: an arena of `params.mem_size` bytes, in `params.mem_buffer` where that is given. Returns its handle."""
    if not isinstance(params, ggml_init_params):
        raise TypeError(f"params is {params!r:.60}: need ggml_init_params")
    ctx = Context(params.mem_size, params.mem_buffer, params.no_alloc)
    ctx.kept.append(params)
    return ctx.engine


@api
def ggml_free(ctx):
    """Frees the context: its tensors become invalid. None is accepted."""
    if ctx is not None and (not isinstance(ctx, ctypes.c_void_p) or ctx.value):
        handle = getattr(ctx, "value", ctx)
        if not isinstance(handle, int):
            raise TypeError(f"ctx is {ctx!r:.60}: need a context")
        if handle not in contexts:
            raise RuntimeError(f"ctx ({handle}) is no live context: freed, or never made")
        contexts[handle].free()


@api
def ggml_used_mem(ctx: Context):
    """Bytes of the arena that are in use."""
    return ctx.used()


@api
def ggml_set_scratch(ctx: Context, scratch):
    """Puts the data of new tensors into a scratch buffer (`data` NULL: into the arena again); returns what was used of the last."""
    if not isinstance(scratch, ggml_scratch):
        raise TypeError(f"scratch is {scratch!r:.60}: need ggml_scratch")
    if scratch.data:
        if scratch.offs > scratch.size:
            raise ValueError(f"scratch.offs is {scratch.offs}: beyond its size, {scratch.size}")
        _memory.address(scratch.data, "scratch.data", scratch.size)
    used = ctx.scratch.offs if ctx.scratch is not None else 0
    ctx.kept.append(scratch)
    ctx.scratch = ggml_scratch(scratch.offs, scratch.size, scratch.data) if scratch.data else None
    return used


@api
def ggml_set_no_alloc(ctx: Context, no_alloc: bool):
    """Whether new tensors shall get no data."""
    ctx.no_alloc = no_alloc


@api
def ggml_get_mem_buffer(ctx: Context):
    """Address of the arena."""
    return ctx.base


@api
def ggml_get_mem_size(ctx: Context):
    """Size of the arena in bytes."""
    return ctx.size


@api
def ggml_tensor_overhead():
    """Bytes of an arena that a tensor takes besides its data."""
    return GGML_OBJECT_SIZE + GGML_TENSOR_SIZE + 16


@api
def ggml_print_object(obj):
    """Prints place and size of an object of an arena."""
    if isinstance(obj, ctypes._Pointer) and obj:
        _memory.address(address_of(obj), "obj", GGML_OBJECT_SIZE)
        obj = obj.contents
    obj = getattr(obj, "_obj", obj)
    if not isinstance(obj, ggml_object):
        raise TypeError(f"obj is {obj!r:.60}: need a ggml_object or a pointer to one")
    print(f" - ggml_object: offset = {obj.offs}, size = {obj.size}, next = {address_of(obj.next):#x}", flush=True)


@api
def ggml_print_objects(ctx: Context):
    """Prints place and size of every object in the context."""
    print(f"ggml_print_objects: objects in context {ctx.engine:#x}:")
    obj = ctx.first
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
    """A new tensor with n_dims dimensions, whose sizes are the array ne."""
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
    """A new tensor with one dimension."""
    return _new(ctx, type, ne0)


@api
def ggml_new_tensor_2d(ctx: Context, type: int, ne0: int, ne1: int) -> Tensor:
    """A new tensor with two dimensions."""
    return _new(ctx, type, ne0, ne1)


@api
def ggml_new_tensor_3d(ctx: Context, type: int, ne0: int, ne1: int, ne2: int) -> Tensor:
    """A new tensor with three dimensions."""
    return _new(ctx, type, ne0, ne1, ne2)


@api
def ggml_new_tensor_4d(ctx: Context, type: int, ne0: int, ne1: int, ne2: int, ne3: int) -> Tensor:
    """A new tensor with four dimensions."""
    return _new(ctx, type, ne0, ne1, ne2, ne3)


@api
def ggml_new_i32(ctx: Context, value: int) -> Tensor:
    """A new i32 tensor with one element of that value; its data is never in the scratch buffer."""
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"value is {value}: need a 32-bit integer")
    return ctx.ints(value)


@api
def ggml_new_f32(ctx: Context, value: float) -> Tensor:
    """A new f32 tensor with one element of that value; its data is never in the scratch buffer."""
    return ctx.filled((c_float * 1)(value))


@api
def ggml_dup_tensor(ctx: Context, src: Tensor) -> Tensor:
    """A new tensor of the type and shape of another."""
    return ctx.like(src)


@api
def ggml_view_tensor(ctx: Context, src: Tensor) -> Tensor:
    """A tensor over the data of another."""
    return ctx.tensor(ggml.ggml_view_tensor(ctx.engine, src.twin), src.struct.n_dims)


@api
def ggml_get_tensor(ctx: Context, name: bytes):
    """The first tensor of the context with that name; a NULL pointer when there is none."""
    for t in ctx.tensors:
        if t.struct.name == name:
            return t.pointer()
    return ggml_tensor_p()


@api
def ggml_set_param(ctx: Context, tensor: Tensor):
    """Makes the tensor a parameter: gradients are taken by it, and ggml_opt changes it."""
    if tensor.struct.grad:
        raise ValueError(f"{tensor.label()} has a gradient already")
    ggml.ggml_set_param(tensor.twin)
    tensor.struct.is_param = True
    tensor.struct.grad = ctx.like(tensor).pointer()


# ---- questions -------------------------------------------------------------------------------------------------------
@api
def ggml_nelements(tensor: Tensor):
    """Number of elements."""
    return ggml.ggml_nelements(tensor.twin)


@api
def ggml_nbytes(tensor: Tensor):
    """Bytes of the elements."""
    return ggml.ggml_nbytes(tensor.twin)


@api
def ggml_blck_size(type: int):
    """Elements in a block of the type."""
    return ggml.ggml_blck_size(engine_type(type))


@api
def ggml_type_size(type: int):
    """Bytes of a block of the type."""
    return ggml.ggml_type_size(engine_type(type))


@api
def ggml_type_sizef(type: int):
    """Bytes of an element of the type, as a fraction."""
    return ggml.ggml_type_sizef(engine_type(type))


@api
def ggml_type_name(type: int):
    """Name of the type (bytes)."""
    return ggml.ggml_type_name(engine_type(type))


@api
def ggml_op_name(op: int):
    """Name of the operation (bytes)."""
    names = list(OP)
    if not 0 <= op < OP["COUNT"]:
        raise ValueError(f"op is {op}: need 0 to {OP['COUNT'] - 1}")
    return names[op].encode()


@api
def ggml_element_size(tensor: Tensor):
    """Bytes of a block of the tensor's type."""
    return ggml.ggml_element_size(tensor.twin)


@api
def ggml_is_quantized(type: int):
    """Whether the type stores blocks of quantised values."""
    return ggml.ggml_is_quantized(engine_type(type))


@api
def ggml_ftype_to_ggml_type(ftype: int):
    """The type that most tensors of a file of that kind (GGML_FTYPE_*) have; GGML_TYPE_COUNT where there is none."""
    return {0: 0, 1: 1, 2: 2, 3: 3, 7: 8, 8: 6, 9: 7}.get(ftype, 13)


# ---- values ----------------------------------------------------------------------------------------------------------
@api
def ggml_set_zero(tensor: Tensor) -> Tensor:
    """Sets every element to zero; returns the tensor."""
    ggml.ggml_set_zero(tensor.twin)
    return tensor


@api
def ggml_set_i32(tensor: Tensor, value: int) -> Tensor:
    """Sets every element to an integer; returns the tensor."""
    ggml.ggml_set_i32(tensor.twin, value)
    return tensor


@api
def ggml_set_f32(tensor: Tensor, value: float) -> Tensor:
    """Sets every element to a number; returns the tensor."""
    ggml.ggml_set_f32(tensor.twin, value)
    return tensor


@api
def ggml_get_i32_1d(tensor: Tensor, i: int):
    """Element i as an integer."""
    return ggml.ggml_get_i32_1d(tensor.twin, i)


@api
def ggml_set_i32_1d(tensor: Tensor, i: int, value: int):
    """Sets element i to an integer."""
    ggml.ggml_set_i32_1d(tensor.twin, i, value)


@api
def ggml_get_f32_1d(tensor: Tensor, i: int):
    """Element i as a number."""
    return ggml.ggml_get_f32_1d(tensor.twin, i)


@api
def ggml_set_f32_1d(tensor: Tensor, i: int, value: float):
    """Sets element i to a number."""
    ggml.ggml_set_f32_1d(tensor.twin, i, value)


@api
def ggml_get_data(tensor: Tensor):
    """Address of the elements; None where there are none."""
    return tensor.struct.data


@api
def ggml_get_data_f32(tensor: Tensor):
    """Pointer to the elements of an f32 tensor."""
    if tensor.struct.type != ggml.GGML_TYPE_F32:
        raise ValueError(f"{tensor.label()} is not f32")
    return ctypes.cast(tensor.struct.data, POINTER(c_float))


@api
def ggml_get_name(tensor: Tensor):
    """Name of the tensor (bytes)."""
    return tensor.struct.name


@api
def ggml_set_name(tensor: Tensor, name: bytes):
    """Names the tensor, with the first 31 bytes."""
    tensor.struct.name = name.split(b"\0")[0][: MAX_NAME - 1]
    tensor.refresh()
