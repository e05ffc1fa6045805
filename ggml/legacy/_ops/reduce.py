"""Sums and means."""

from .._api import api
from .._arena import Context, Tensor, unary


@api
def ggml_sum(ctx: Context, a: Tensor) -> Tensor:
    """Adds up all elements of a tensor.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor [1] with the type of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_sum", "SUM", a, n_dims=1)


@api
def ggml_sum_rows(ctx: Context, a: Tensor) -> Tensor:
    """Adds up the elements of each row.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3].
    Returns:
        f32 tensor [1, ne1, ne2, ne3].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_sum_rows", "SUM_ROWS", a)


@api
def ggml_mean(ctx: Context, a: Tensor) -> Tensor:
    """Computes the mean of each row.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3].
    Returns:
        f32 tensor [1, ne1, ne2, ne3].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_mean", "MEAN", a)
