"""Rows by their indices."""

import ggml

from .._api import api
from .._arena import Context, Tensor


@api
def ggml_get_rows(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Collects rows of a matrix by their indices: result[:, i] = a[:, b[i]].

    The gradient flows to a. Indices are checked when the graph is computed.

    Args:
        ctx: context that receives the result.
        a: any type, [n, rows]. With more dimensions, ne2 and ne3 must equal ne1 and ne2 of b: each matrix has its
            own indices.
        b: i32, [k], or [k, a.ne2, a.ne3]: indices from 0 to rows - 1.
    Returns:
        Tensor [n, k, b.ne1, b.ne2], f32 for float and quantised types; integers keep their type.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes do not fit, or b is not i32.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("GET_ROWS", ggml.ggml_get_rows(ctx.engine, a.engine, b.engine), a, b, n_dims=2)


@api
def ggml_get_rows_back(ctx: Context, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Copies c and adds the rows of a to those rows of the copy that b lists.

    This is how a gradient passes through ggml_get_rows: result[:, b[i]] += a[:, i], rows that are listed
    repeatedly add up. The current surface's function adds to zeros and uses only the shape of c. Gradients flow to
    a and c.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [n, k]: the gradient of the result of ggml_get_rows.
        b: i32, [k]: indices from 0 to rows - 1.
        c: f32 or f16, [n, rows]: the matrix to add to.
    Returns:
        f32 tensor [n, rows].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes do not fit, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    result = ggml.ggml_add(ctx.engine, ggml.ggml_get_rows_back(ctx.engine, a.engine, b.engine, c.engine), c.engine)
    return ctx.node("GET_ROWS_BACK", result, a, b, c, n_dims=2)
