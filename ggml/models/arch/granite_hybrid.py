"""Granite 4: Granite with state spaces as in Mamba 2, and attention in some layers."""

from . import granite, keeps, mamba
from .granite import embed, head

__all__ = ["caches", "embed", "head", "keys", "layer"]


def keys(k):
    """The factors of Granite, the sizes of the state spaces, and whether attention has positions."""
    return granite.keys(k) | mamba.sizes(k) | {"rotates": k.flag("rope.scaling.finetuned", True)}


def caches(c):
    """Keys and values, or the states."""
    return keeps.usual(c, mamba.states(c))


def layer(g, i, x):
    """x += scale * attention(norm(x)) or scale * mixer(norm(x)), then x += scale * ffn(norm(x))."""
    c, b = g.config, f"blk.{i}."
    if c.attends[i]:
        h = granite.attention(g, i, x, c.own["rotates"])
    else:
        h = mamba.mamba2(g, i, g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm")))
    return granite.feed_forward(g, i, x, h)
