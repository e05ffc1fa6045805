"""MiniCPM3: MiniCPM's factors, and DeepSeek's latent attention."""

from . import deepseek2, granite
from .granite import embed, head

__all__ = ["embed", "head", "keys", "layer"]


def keys(k):
    """The factors, and the sizes of latent attention."""
    return granite.keys(k) | deepseek2.latent_keys(k)


def layer(g, i, x):
    """x += scale * attention(norm(x)), then x += scale * ffn(norm(x))."""
    return granite.layer(g, i, x, deepseek2.attention)
