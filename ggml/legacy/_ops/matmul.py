"""Matrix products."""

import ggml

from .._api import api
from .._arena import Context, Tensor


@api
def ggml_mul_mat(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Multiplies matrices: result[m, n] = sum over k of a[k, m] * b[k, n].

    In NumPy's order, result = b @ a.T. Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or quantised, [k, m, ne2, ne3].
        b: f32 or f16, [k, n, b2, b3]; b2 and b3 are multiples of ne2 and ne3.
    Returns:
        f32 tensor [m, n, b2, b3].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes do not fit, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    n_dims = min(a.struct.n_dims, b.struct.n_dims)
    return ctx.node("MUL_MAT", ggml.ggml_mul_mat(ctx.engine, a.engine, b.engine), a, b, n_dims=n_dims)
