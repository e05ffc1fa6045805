"""Llama 4: layers with experts, whose weight multiplies what they read, beside dense ones; q and k are normed after
their rotation; every fourth layer has no positions, and queries that grow with their position.

Layers with positions attend to chunks of the text.
"""

import ggml

from .base import Routing
from .llama import embed, head

__all__ = ["embed", "head", "keys", "layer"]
WITHOUT = 4  # every so many layers
ROUTING = Routing("sigmoid", normalized=False, before=True)
WITHOUT_NORMS = 128  # experts of the model whose q and k are not normed


def keys(k):
    """The widths, which layers have experts, the chunks, and how the queries grow."""
    return {
        "local": tuple((i + 1) % WITHOUT != 0 for i in range(k.integer("block_count", high=4096))),
        "window": k.integer("attention.chunk_size", 8192, high=1 << 30),
        "chunked": True,
        "n_ff": k.integer("expert_feed_forward_length"),
        "dense_ff": k.integer("feed_forward_length"),
        "step": k.integer("interleave_moe_layer_step", high=4096),
        "temperature": k.number("attention.temperature_scale", 0.1),
        "temperature_length": k.integer("attention.temperature_length", 8192, high=1 << 30),
    }


def growth(g):
    """1 + scale * log(1 + floor((position + 1) / length)), [1, 1, N]."""
    own, ctx = g.config.own, g.ctx
    p = ggml.ggml_scale_bias(ctx, ggml.ggml_cast(ctx, g.inputs.positions, ggml.GGML_TYPE_F32), 1.0, 1.0)
    p = ggml.ggml_floor(ctx, g.scale(p, 1 / own["temperature_length"]))
    p = ggml.ggml_log(ctx, ggml.ggml_scale_bias(ctx, p, 1.0, 1.0))
    return ggml.ggml_reshape_3d(ctx, ggml.ggml_scale_bias(ctx, p, own["temperature"], 1.0), 1, 1, g.n_tokens)


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q, k, v = g.queries_keys_values(i, h)
    if c.local[i]:
        q, k = g.rotated(i, q, k)
        if c.n_expert != WITHOUT_NORMS:
            q, k = (ggml.ggml_rms_norm(g.ctx, t, c.eps) for t in (q, k))
    else:
        q = ggml.ggml_mul(g.ctx, q, growth(g))
    x, h = g.keep_last(i, x, g.attended(i, q, k, v))
    x = g.point(b + "ffn_in", g.add(x, h))

    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    return g.point(b + "out", g.add(x, g.point(b + "ffn_out", feed_forward(g, i, h))))


def feed_forward(g, i, h):
    """A dense part, or the chosen experts and the shared one."""
    own, name = g.config.own, f"blk.{i}.ffn"
    if (i + 1) % own["step"]:
        return g.gated(h, name, ggml.ggml_swiglu_split, n_ff=own["dense_ff"])
    shared = g.gated(h, name, ggml.ggml_swiglu_split, "_shexp")
    return g.add(shared, g.experts(h, name, ggml.ggml_swiglu_split, ROUTING))
