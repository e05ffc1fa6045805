"""GLM-4 (arXiv:2406.12793): norms before and after attention and the feed-forward part; gate and up are one matrix."""

import ggml

from .llama import embed, head

__all__ = ["embed", "head", "layer"]


def layer(g, i, x):
    """x += norm(attention(norm(x))), then x += norm(ffn(norm(x)))."""
    b = f"blk.{i}."
    x, h = g.keep_last(i, x, g.self_attention(i, x))
    x = g.point(b + "ffn_in", g.add(x, g.rms_norm(h, b + "post_attention_norm")))

    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    h = g.point(b + "ffn_out", g.gated_together(h, b + "ffn", ggml.ggml_swiglu))
    return g.point(b + "out", g.add(x, g.rms_norm(h, b + "post_ffw_norm")))
