"""Position biases, attention and feed-forward blocks."""

import math
import struct

import numpy as np

import ggml

from .._api import api
from .._arena import Context, Tensor, named_operands, shapes_text


def alibi_slopes(n_head, bias_max):
    """The slope of each head's bias (arXiv:2108.12409), with n the largest power of two up to n_head."""
    n = 2 ** int(math.log2(n_head))
    h = np.arange(n_head)
    exponents = np.where(h < n, (h + 1) / n, (2 * (h - n) + 1) / (2 * n))
    return (2.0 ** (-bias_max * exponents)).astype(np.float32)


@api
def ggml_alibi(ctx: Context, a: Tensor, n_past: int, n_head: int, bias_max: float) -> Tensor:
    """Adds a bias to attention scores that grows with the distance (ALiBi, arXiv:2108.12409), in their own memory.

    result[i, j, h] = a[i, j, h] + slope(h) * (i - (ne0 - 1)). With n the largest power of two up to n_head,
    slope(h) is 2^(-bias_max * (h + 1) / n) for h < n and 2^(-bias_max * (2 * (h - n) + 1) / (2 * n)) for the heads
    after them. No gradient.

    Args:
        ctx: context that receives the result.
        a: f32 or f16 scores, [n_past + n_tokens, n_tokens, n_head]. They are overwritten when the graph is
            computed.
        n_past: number of earlier tokens, 0 or more: ne0 - ne1 of a.
        n_head: number of heads, 1 or more: ne2 of a.
        bias_max: exponent of the slopes, usually 8.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shape of a does not fit n_past and n_head, or the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    ne = a.struct.ne
    if n_past < 0 or n_head < 1 or n_head != ne[2] or ne[0] != n_past + ne[1]:
        given = f"{shapes_text(a=a)}, n_past is {n_past}, n_head is {n_head}"
        raise ValueError(f"{given}: need a [n_past + n_tokens, n_tokens, n_head] and n_past >= 0")
    bias = alibi_slopes(n_head, bias_max)[:, None, None] * np.arange(1 - ne[0], 1, dtype=np.float32)
    result = ggml.ggml_add_inplace(ctx.engine, a.engine, ctx.constant(ggml.GGML_TYPE_F32, bias[None]))
    bits = struct.unpack("i", struct.pack("f", bias_max))[0]
    return ctx.node("ALIBI", result, a, ctx.ints(n_past, n_head, bits), grad=False)


def _f32(e, t):
    """The engine tensor of t, the second operand of a product, converted to f32."""
    return ggml.ggml_cast(e, t.engine, ggml.GGML_TYPE_F32) if t.struct.type != ggml.GGML_TYPE_F32 else t.engine


@api
def ggml_flash_attn(ctx: Context, q: Tensor, k: Tensor, v: Tensor, masked: bool) -> Tensor:
    """Computes attention for all heads: soft_max(q k^T / sqrt(D)) v, by rows of q.

    It consists of two matrix products with a soft-max between them; the scores of all heads are stored. The
    current surface's ggml_flash_attn_ext takes v without transposition. Gradients flow to q, k and v.

    Args:
        ctx: context that receives the result.
        q: f32 or f16 queries, [D, N, heads, batch].
        k: f32, f16 or quantised keys, [D, M, kv_heads, kv_batch]; heads and batch are multiples of these.
        v: f32, f16 or quantised values, transposed: [M, D, kv_heads, kv_batch].
        masked: True for a causal mask: query i attends to the first M - N + i + 1 keys. M must then be N or more.
    Returns:
        f32 tensor [D, N, heads, batch].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes do not fit, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    e, (d, n), m = ctx.engine, q.struct.ne[:2], k.struct.ne[1]
    needed = "q [D, N], k [D, M], v [M, D] of float types" + (", M >= N" if masked else "")
    with named_operands(needed, q=q, k=k, v=v):
        if v.struct.ne[1] != d or (masked and m < n):
            raise ValueError
        scores = ggml.ggml_mul_mat(e, k.engine, _f32(e, q))
        if masked:
            scores = ggml.ggml_diag_mask_inf(e, scores, m - n)
        weights = ggml.ggml_soft_max_ext(e, scores, None, 1 / math.sqrt(d), 0.0)
        result = ggml.ggml_mul_mat(e, v.engine, weights)
    return ctx.node("FLASH_ATTN", result, q, k, v, ctx.ints(masked), n_dims=4)


@api
def ggml_flash_ff(ctx: Context, a: Tensor, b0: Tensor, b1: Tensor, c0: Tensor, c1: Tensor) -> Tensor:
    """Computes a feed-forward block: two matrix products with biases and a GELU between them.

    In NumPy's order, result = gelu(a @ b0.T + b1) @ c0.T + c1, with the approximation of GELU by tanh. Gradients
    flow to all five tensors.

    Args:
        ctx: context that receives the result.
        a: f32 or f16 input, [n_in, n].
        b0: f32, f16 or quantised weights, [n_in, n_hidden].
        b1: f32 or f16 bias, [n_hidden].
        c0: f32, f16 or quantised weights, [n_hidden, n_out].
        c1: f32 or f16 bias, [n_out].
    Returns:
        f32 tensor [n_out, n].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes do not fit, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    e = ctx.engine
    needed = "a [n_in, n], b0 [n_in, n_hidden], b1 [n_hidden], c0 [n_hidden, n_out], c1 [n_out] of float types"
    with named_operands(needed, a=a, b0=b0, b1=b1, c0=c0, c1=c1):
        hidden = ggml.ggml_gelu(e, ggml.ggml_add(e, ggml.ggml_mul_mat(e, b0.engine, _f32(e, a)), b1.engine))
        result = ggml.ggml_add(e, ggml.ggml_mul_mat(e, c0.engine, hidden), c1.engine)
    return ctx.node("FLASH_FF", result, a, b0, b1, c0, c1, n_dims=4)
