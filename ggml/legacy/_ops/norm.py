"""Normalisation of rows, with the constants of May 2023."""

import ggml

from .._api import api
from .._arena import Context, Tensor, exchanged

NORM_EPS, RMS_NORM_EPS = 1e-5, 1e-6


@api
def ggml_norm(ctx: Context, a: Tensor, eps: float = NORM_EPS) -> Tensor:
    """Normalises each row to mean 0 and variance 1: (a - mean) / sqrt(variance + eps).

    The header of May 2023 has no eps, those from August 2023 on have one. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3].
        eps: float, 0 or more.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("NORM", ggml.ggml_norm(ctx.engine, a.engine, eps), a)


@api
def ggml_rms_norm(ctx: Context, a: Tensor, eps: float = RMS_NORM_EPS) -> Tensor:
    """Divides each row by its root mean square: a / sqrt(mean(a^2) + eps).

    The header of May 2023 has no eps, those from August 2023 on have one. Formula: arXiv:1910.07467, without the
    gain. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3].
        eps: float, 0 or more.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("RMS_NORM", ggml.ggml_rms_norm(ctx.engine, a.engine, eps), a)


@api
def ggml_rms_norm_back(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Computes the gradient of ggml_rms_norm: (b - a * mean(a * b) / m) / sqrt(m), m = mean(a^2) + 1e-6, by rows.

    The current surface takes the two tensors in the other order. Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3]: the argument of ggml_rms_norm.
        b: f32 or f16, the shape of a: the gradient of its result.
    Returns:
        Tensor with the type and shape of b.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes differ, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return exchanged(ctx, "ggml_rms_norm_back", "RMS_NORM_BACK", a, b, RMS_NORM_EPS)
