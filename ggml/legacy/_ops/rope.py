"""Rotary position embeddings, whose positions are counted from n_past."""

import numpy as np

import ggml

from .._api import api
from .._arena import Context, Tensor


def _rotated(ctx, a, n_past, n_dims, mode, back, inplace):
    """The engine tensor of a rotated by the positions of the tokens, or back by the same angles.

    Token i has the position n_past + i. With bit 0 of mode it has the position i, and the first n_past tokens are not
    rotated: they are zero in the result, or unchanged if the rotation is in place.
    """
    if n_past < 0 or not 0 <= mode <= 3:
        raise ValueError(f"n_past is {n_past}, mode is {mode}: need n_past >= 0 and a mode of 0 to 3")
    e, ne, nb = ctx.engine, a.struct.ne[:], a.struct.nb[:]
    first = min(n_past, ne[2]) if mode & 1 else 0  # the first token that is rotated
    start = first if mode & 1 else n_past  # its position
    if start + ne[2] - first >= 1 << 31:
        raise ValueError(f"a is {ne}, n_past is {n_past}: positions must be less than 2^31")
    positions = ctx.constant(ggml.GGML_TYPE_I32, np.arange(start, start + ne[2] - first, dtype=np.int32))
    neox = ggml.GGML_ROPE_TYPE_NEOX if mode & 2 else 0
    part = a.engine
    if first:
        part = ggml.ggml_view_4d(e, part, *ne[:2], ne[2] - first, ne[3], *nb[1:], first * nb[2])
    if back:
        no_scaling = (0, 10000.0, 1.0, 0.0, 1.0, 32.0, 1.0)  # n_ctx_orig to beta_slow: the values of ggml_rope
        part = ggml.ggml_rope_ext_back(e, part, positions, None, n_dims, neox, *no_scaling)
    elif inplace and not first:
        part = ggml.ggml_rope_inplace(e, part, positions, n_dims, neox)
    else:
        part = ggml.ggml_rope(e, part, positions, n_dims, neox)
    if first and inplace:
        return ggml.ggml_set_inplace(e, a.engine, part, *nb[1:], first * nb[2])
    return ggml.ggml_pad_ext(e, part, 0, 0, 0, 0, first, 0, 0, 0) if first else part


@api
def ggml_rope(ctx: Context, a: Tensor, n_past: int, n_dims: int, mode: int) -> Tensor:
    """Rotates pairs of each row's elements by angles that depend on the position (RoPE, arXiv:2104.09864).

    Pair p of the first n_dims elements is rotated by position * 10000^(-2 p / n_dims); the other elements are
    copied. Token i of dimension 2 has the position n_past + i. The current surface takes a tensor of positions
    instead of n_past. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [head_dim, n_heads, n_tokens, batch].
        n_past: 0 or more; n_past + n_tokens must be less than 2^31.
        n_dims: number of elements that are rotated, even, at most head_dim.
        mode: 0 to 3. Bit 1 (value 2): the pairs are (p, p + n_dims / 2), as in GPT-NeoX, instead of (2 p, 2 p + 1).
            Bit 0 (value 1): token i has the position i, and the first n_past tokens are zero in the result.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is out of range, or the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    result = _rotated(ctx, a, n_past, n_dims, mode, False, False)
    return ctx.node("ROPE", result, a, ctx.ints(n_past, n_dims, mode))


@api
def ggml_rope_inplace(ctx: Context, a: Tensor, n_past: int, n_dims: int, mode: int) -> Tensor:
    """Rotates pairs of each row's elements by their position, in the tensor's own memory.

    Angles, pairs and positions are those of ggml_rope; with bit 0 of mode, the first n_past tokens stay as they
    are. No gradient.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [head_dim, n_heads, n_tokens, batch]. Its values are overwritten when the graph is computed.
            With bit 0 of mode and n_past > 0 it must be contiguous.
        n_past: 0 or more; n_past + n_tokens must be less than 2^31.
        n_dims: number of elements that are rotated, even, at most head_dim.
        mode: 0 to 3, as in ggml_rope.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is out of range, or the type or layout is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    result = _rotated(ctx, a, n_past, n_dims, mode, False, True)
    return ctx.node("ROPE", result, a, ctx.ints(n_past, n_dims, mode), grad=False)


@api
def ggml_rope_back(ctx: Context, a: Tensor, n_past: int, n_dims: int, mode: int) -> Tensor:
    """Rotates pairs of elements by the negative angles: the gradient of ggml_rope, and its inverse.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [head_dim, n_heads, n_tokens, batch]: the gradient of the result of ggml_rope.
        n_past: as given to ggml_rope.
        n_dims: as given to ggml_rope.
        mode: as given to ggml_rope, 0 to 3. With bit 0, the first n_past tokens are zero in the result.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is out of range, or the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    result = _rotated(ctx, a, n_past, n_dims, mode, True, False)
    return ctx.node("ROPE_BACK", result, a, ctx.ints(n_past, n_dims, mode))
