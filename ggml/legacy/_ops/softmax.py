"""The soft-max of rows."""

from .._api import api
from .._arena import Context, Tensor, unary


@api
def ggml_soft_max(ctx: Context, a: Tensor) -> Tensor:
    """Computes the soft-max of each row: exp(a - max) / sum of exp(a - max).

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3].
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_soft_max", "SOFT_MAX", a)


@api
def ggml_soft_max_inplace(ctx: Context, a: Tensor) -> Tensor:
    """Replaces each row by its soft-max, in the tensor's own memory.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3]. Its values are overwritten when the graph is computed.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return unary(ctx, "ggml_soft_max_inplace", "SOFT_MAX", a)
