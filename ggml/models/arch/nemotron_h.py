"""Nemotron-H (arXiv:2504.03624): each layer is a state space as in Mamba 2, attention without positions, or a
feed-forward part with squared ReLU."""

from . import keeps, mamba
from .llama import embed, head
from .parallel import relu_squared

__all__ = ["caches", "embed", "head", "keys", "layer"]


def keys(k):
    """The sizes of the state spaces."""
    return mamba.sizes(k)


def caches(c):
    """Keys and values, nothing, or the states."""
    return [None if feeds else kept for feeds, kept in zip(c.feeds, keeps.usual(c, mamba.states(c)), strict=True)]


def layer(g, i, x):
    """x += f(norm(x))."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    if c.attends[i]:
        h = g.attended(i, *g.queries_keys_values(i, h))
    elif c.feeds[i]:
        h = g.point(b + "ffn_out", g.between(h, b + "ffn", relu_squared))
    else:
        h = mamba.mamba2(g, i, h)
    x, h = g.keep_last(i, x, h)
    return g.point(b + "out", g.add(x, h))
