"""Falcon-H1 (arXiv:2507.22448): attention and a state space as in Mamba 2 read the same x in each layer."""

import ggml

from . import keeps, mamba
from .llama import embed, head

__all__ = ["caches", "embed", "head", "keys", "layer"]


def keys(k):
    """The sizes of the state spaces."""
    return mamba.sizes(k)


def caches(c):
    """Keys and values, and the states."""
    return [(kept, *mamba.states(c)) for kept in keeps.usual(c)]


def layer(g, i, x):
    """x += attention(norm(x)) + mixer(norm(x)), then x += ffn(norm(x))."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q, k, v = g.queries_keys_values(i, h)
    q, k = g.rotated(i, q, k)
    h = g.add(g.attended(i, q, k, v), mamba.mamba2(g, i, h))
    x, h = g.keep_last(i, x, h)
    x = g.point(b + "ffn_in", g.add(x, h))
    norm = g.weight(b + "ffn_norm", c.n_embd)  # whose name has no suffix
    h = g.point(b + "ffn_norm", ggml.ggml_mul(g.ctx, ggml.ggml_rms_norm(g.ctx, x, c.eps), norm))
    return g.point(b + "out", g.add(x, g.point(b + "ffn_out", g.gated(h, b + "ffn", ggml.ggml_swiglu_split))))
