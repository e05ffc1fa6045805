"""Ministral 3: LLaMA with YaRN, whose queries grow with their position."""

import ggml

from .llama import embed, feed_forward, head

__all__ = ["embed", "head", "keys", "layer"]


def keys(k):
    """How fast the queries grow; 0 if they do not."""
    return {"temperature": k.number("attention.temperature_scale", 0.0)}


def temperature(g):
    """1 + scale * log(1 + floor(position / original context)), [1, 1, N]."""
    c, ctx = g.config, g.ctx
    p = ggml.ggml_cast(ctx, g.inputs.positions, ggml.GGML_TYPE_F32)
    steps = ggml.ggml_floor(ctx, g.scale(p, 1 / c.rope.n_ctx_orig))
    grown = ggml.ggml_log(ctx, ggml.ggml_scale_bias(ctx, steps, 1.0, 1.0))
    return ggml.ggml_reshape_3d(ctx, ggml.ggml_scale_bias(ctx, grown, c.own["temperature"], 1.0), 1, 1, g.n_tokens)


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    factor = temperature(g) if g.config.own["temperature"] else None
    return feed_forward(g, i, x, g.self_attention(i, x, factor=factor))
