"""LFM2 and its mixture of experts (arXiv:2511.23404): short convolutions with gates, and attention in some layers."""

import ggml

from . import keeps
from .base import Routing
from .llama import attention, embed, feed_forward
from .recurrent import slices

__all__ = ["caches", "embed", "head", "keys", "layer"]


def keys(k):
    """The taps of the convolutions; the widths of experts and dense layers, and which layers have experts."""
    own = {"taps": k.integer("shortconv.l_cache", low=2, high=64)}
    if k.arch == "lfm2moe":
        own |= {
            "n_ff": k.integer("expert_feed_forward_length"),
            "dense_ff": k.integer("feed_forward_length"),
            "dense_layers": k.integer("leading_dense_block_count", 0, low=0, high=4096),
        }
    return own


def caches(c):
    """Keys and values, or the last inputs of a convolution."""
    return keeps.usual(c, keeps.ShortConv(c.n_embd, c.own["taps"]))


def layer(g, i, x):
    """x += conv(norm(x)) or attention(norm(x)), then x += ffn(norm(x))."""
    c = g.config
    h = attention(g, i, x) if c.attends[i] else short_conv(g, i, x)
    if c.n_expert and i < c.own["dense_layers"]:
        return feed_forward(g, i, x, h, lambda y, name, act: g.gated(y, name, act, n_ff=c.own["dense_ff"]))
    bias = f"blk.{i}.exp_probs_b.bias"
    routing = Routing("sigmoid", bias=bias if g.has(bias) else "")
    return feed_forward(g, i, x, h, (lambda *args: g.experts(*args, routing)) if c.n_expert else None)


def short_conv(g, i, x):
    """out(c * conv(b * x)), with b, c and x = in(norm(x))."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    before, after, h = slices(g, g.linear(h, b + "shortconv.in_proj", 3 * c.n_embd), *[c.n_embd] * 3)
    h = g.short_conv(i, ggml.ggml_mul(g.ctx, before, h), b + "shortconv.conv", c.own["taps"])
    return g.point(b + "conv_out", g.linear(ggml.ggml_mul(g.ctx, after, h), b + "shortconv.out_proj", c.n_embd))


def head(g, x):
    """norm(x)."""
    return g.rms_norm(x, "token_embd_norm")
