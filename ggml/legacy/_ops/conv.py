"""Convolutions along one dimension."""

import ggml

from .._api import api
from .._arena import Context, Tensor, shapes_text


def _conv_1d(ctx, op, a, b, stride):
    """Convolves b [L, IC], padded with K // 2 zeros at each end, with kernels a [K, IC, OC]: [L // stride, OC]."""
    e, kernel, length = ctx.engine, a.struct.ne[0], b.struct.ne[0]
    if kernel % 2 == 0:
        raise ValueError(f"{shapes_text(a=a)}: ne[0], the kernel size, must be odd")
    if b.struct.ne[2] != 1 or b.struct.ne[3] != 1:
        raise ValueError(f"{shapes_text(b=b)}: need one signal [length, in_channels]")
    result = ggml.ggml_conv_1d(e, a.engine, b.engine, stride, kernel // 2, 1)
    if length % stride:  # the engine's result has one column more: it rounds L / stride up
        ne, nb = result.contents.ne[:], result.contents.nb[:]
        result = ggml.ggml_cont(e, ggml.ggml_view_2d(e, result, length // stride, ne[1], nb[1], 0))
    return ctx.node(op, result, a, b, n_dims=2)


@api
def ggml_conv_1d_1s(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Convolves a signal with kernels at stride 1, padded with zeros so that its length stays.

    result[i, o] = sum over c, k of a[k, c, o] * b[i + k - K // 2, c]: the kernel is not reversed. Gradients flow
    to a and b.

    Args:
        ctx: context that receives the result.
        a: f32 or f16 kernels, [K, in_channels, out_channels] with an odd K.
        b: f32 or f16, [length, in_channels]: a single signal.
    Returns:
        f32 tensor [length, out_channels].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: K is even, b has more than two dimensions, the channels differ, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _conv_1d(ctx, "CONV_1D_1S", a, b, 1)


@api
def ggml_conv_1d_2s(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Convolves a signal with kernels at stride 2, padded with zeros: half as many outputs as inputs.

    result[i, o] = sum over c, k of a[k, c, o] * b[2 i + k - K // 2, c]: the kernel is not reversed. Gradients flow
    to a and b.

    Args:
        ctx: context that receives the result.
        a: f32 or f16 kernels, [K, in_channels, out_channels] with an odd K.
        b: f32 or f16, [length, in_channels]: a single signal.
    Returns:
        f32 tensor [length // 2, out_channels].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: K is even, b has more than two dimensions, the channels differ, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _conv_1d(ctx, "CONV_1D_2S", a, b, 2)
