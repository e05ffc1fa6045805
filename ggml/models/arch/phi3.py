"""Phi-3 (arXiv:2404.14219) and Phi-4-mini: LLaMA with fused matrices; the first elements of a head are rotated, with
factors for short and for long contexts."""

import ggml

from .llama import embed, head

__all__ = ["embed", "head", "layer"]


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    b = f"blk.{i}."
    x, h = g.keep_last(i, x, g.self_attention(i, x))
    x = g.point(b + "ffn_in", g.add(x, h))

    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    h = g.point(b + "ffn_out", g.gated_together(h, b + "ffn", ggml.ggml_swiglu))
    return g.point(b + "out", g.add(x, h))
