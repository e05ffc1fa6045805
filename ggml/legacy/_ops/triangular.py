"""Diagonal matrices and causal masks."""

import ggml

from .._api import api
from .._arena import Context, Tensor


@api
def ggml_diag(ctx: Context, a: Tensor) -> Tensor:
    """Builds square matrices with the rows of a on their diagonals and zeros elsewhere.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), [n, 1, ne2, ne3].
    Returns:
        Tensor [n, n, ne2, ne3] with the type of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: ne1 of a is not 1, or a is quantised.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("DIAG", ggml.ggml_diag(ctx.engine, a.engine), a, n_dims=max(a.struct.n_dims, 2))


def _diag_mask(ctx, name, op, a, n_past):
    result = getattr(ggml, name)(ctx.engine, a.engine, n_past)
    return ctx.node(op, result, a, ctx.ints(n_past, name.endswith("_inplace")))


@api
def ggml_diag_mask_inf(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """Copies a and sets the elements above a diagonal to -inf: where i0 > n_past + i1.

    Before a soft-max, this is a causal mask: query i1 attends to the first n_past + i1 + 1 keys. The gradient flows
    to the other elements of a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [n_keys, n_queries, ne2, ne3].
        n_past: number of the diagonal, a 32-bit integer.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported, or n_past does not fit into 32 bits.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _diag_mask(ctx, "ggml_diag_mask_inf", "DIAG_MASK_INF", a, n_past)


@api
def ggml_diag_mask_inf_inplace(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """Sets the elements of a above a diagonal to -inf, in a's own memory: where i0 > n_past + i1.

    The gradient flows to the other elements of a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [n_keys, n_queries, ne2, ne3]. Its elements are overwritten when the graph is computed.
        n_past: number of the diagonal, a 32-bit integer.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported, or n_past does not fit into 32 bits.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _diag_mask(ctx, "ggml_diag_mask_inf_inplace", "DIAG_MASK_INF", a, n_past)


@api
def ggml_diag_mask_zero(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """Copies a and sets the elements above a diagonal to 0: where i0 > n_past + i1.

    The gradient flows to the other elements of a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3].
        n_past: number of the diagonal, a 32-bit integer; 0 keeps the lower triangle with the main diagonal.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported, or n_past does not fit into 32 bits.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _diag_mask(ctx, "ggml_diag_mask_zero", "DIAG_MASK_ZERO", a, n_past)


@api
def ggml_diag_mask_zero_inplace(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """Sets the elements of a above a diagonal to 0, in a's own memory: where i0 > n_past + i1.

    The gradient flows to the other elements of a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3]. Its elements are overwritten when the graph is computed.
        n_past: number of the diagonal, a 32-bit integer; 0 keeps the lower triangle with the main diagonal.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported, or n_past does not fit into 32 bits.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _diag_mask(ctx, "ggml_diag_mask_zero_inplace", "DIAG_MASK_ZERO", a, n_past)
