"""Qwen 2 MoE and Qwen 3 MoE: mixtures of many small experts; all but Qwen 3 have one more that all tokens share, with a
gate."""

import ggml

from .base import Routing
from .llama import attention, embed, feed_forward, head

__all__ = ["embed", "head", "keys", "layer"]

UNSHARED = ("qwen3moe", "qwen3vlmoe")  # without an expert of all tokens


def keys(k):
    """The width of the experts, and whether their weights are divided by their sum."""
    n_ff = k.integer("expert_feed_forward_length", k.integer("feed_forward_length"))
    return {
        "n_ff": n_ff,
        "normalized": k.flag("expert_weights_norm", k.arch != "qwen2moe"),
        "shared_ff": k.integer("expert_shared_feed_forward_length", n_ff) if k.arch not in UNSHARED else 0,
    }


def layer(g, i, x):
    """x += attention(norm(x)), then x += experts(norm(x))."""
    return feed_forward(g, i, x, attention(g, i, x), lambda *args: experts(g, *args))


def experts(g, h, name, activation):
    """The chosen experts, and the shared one times its gate."""
    own = g.config.own
    y = g.experts(h, name, activation, Routing(normalized=own["normalized"]))
    if not own["shared_ff"]:
        return y
    shared = g.gated(h, name, activation, "_shexp", own["shared_ff"])
    gate = ggml.ggml_sigmoid(g.ctx, g.linear(h, name + "_gate_inp_shexp", 1))  # [1, N]
    return g.add(y, ggml.ggml_mul(g.ctx, shared, gate))
