"""gpt-oss (arXiv:2508.10925): experts with biases and clamped gates, a sink in each head, every other layer with a
sliding window."""

import ggml

from .base import Routing
from .llama import embed, head

__all__ = ["embed", "head", "keys", "layer"]
ROUTING = Routing(late=True, normalized=False)


def keys(k):
    """The width of the experts, and the two numbers of their gates."""
    return {
        "n_ff": k.integer("expert_feed_forward_length"),
        "alpha": k.number("swiglu_alpha", 1.702),
        "limit": k.number("swiglu_limit", 7.0),
    }


def layer(g, i, x):
    """x += attention(norm(x)), then x += experts(norm(x))."""
    own, b = g.config.own, f"blk.{i}."

    def gate(ctx, gates, up):
        """(up + 1) * gates * sigmoid(alpha * gates), both limited."""
        return ggml.ggml_swiglu_oai(ctx, gates, up, own["alpha"], own["limit"])

    x, h = g.keep_last(i, x, g.self_attention(i, x))
    x = g.point(b + "ffn_in", g.add(x, h))
    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "post_attention_norm"))
    return g.point(b + "out", g.add(x, g.point(b + "ffn_out", g.experts(h, b + "ffn", gate, ROUTING))))
