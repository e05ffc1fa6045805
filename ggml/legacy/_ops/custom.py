"""Operations that call back for each row."""

import ctypes
import struct

import ggml

from .._api import api
from .._arena import Context, Tensor
from .._structs import ggml_binary_op_f32_t, ggml_unary_op_f32_t


def _map(ctx, op, a, b, build, kind, fun):
    """The node `op` that calls fun. As in May 2023, an i32 tensor [2] holds the address of the callback."""
    if callable(fun) and not isinstance(fun, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        fun = kind(fun)
    ctx.kept.append(fun)  # the engine holds its address only
    sources = [a.engine] if b is None else [a.engine, b.engine]
    result = build(ctx.engine, *sources, fun)
    address = fun if isinstance(fun, int) else ctypes.cast(fun, ctypes.c_void_p).value
    return ctx.node(op, result, a, b, ctx.ints(*struct.unpack("2i", struct.pack("Q", address))))


@api
def ggml_map_unary_f32(ctx: Context, a: Tensor, fun) -> Tensor:
    """Applies a callback to each row of a tensor.

    No gradient: ggml_build_backward raises ValueError if one is needed.

    Args:
        ctx: context that receives the result; it keeps fun alive.
        a: f32, any shape, with contiguous rows.
        fun: called as fun(n, dst, a) for each row when the graph is computed, on one thread: it reads n floats at a
            and writes n floats at dst. A Python callable, a ggml_unary_op_f32_t or the address of a C function. An
            exception raised in it leaves ggml_graph_compute.
    Returns:
        f32 tensor with the shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not f32 or its rows are not contiguous, or fun is NULL or not the address of a function.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _map(ctx, "MAP_UNARY", a, None, ggml.ggml_map_unary_f32, ggml_unary_op_f32_t, fun)


@api
def ggml_map_binary_f32(ctx: Context, a: Tensor, b: Tensor, fun) -> Tensor:
    """Applies a callback to each pair of rows of two tensors.

    No gradient: ggml_build_backward raises ValueError if one is needed.

    Args:
        ctx: context that receives the result; it keeps fun alive.
        a: f32, any shape, with contiguous rows.
        b: f32, the shape of a, with contiguous rows.
        fun: called as fun(n, dst, a, b) for each row when the graph is computed, on one thread: it reads n floats
            at a and at b and writes n floats at dst. A Python callable, a ggml_binary_op_f32_t or the address of a
            C function. An exception raised in it leaves ggml_graph_compute.
    Returns:
        f32 tensor with the shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a tensor is not f32 or its rows are not contiguous, the shapes differ, or fun is NULL or not the
            address of a function.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _map(ctx, "MAP_BINARY", a, b, ggml.ggml_map_binary_f32, ggml_binary_op_f32_t, fun)
