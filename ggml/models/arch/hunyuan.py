"""Hunyuan (dense): LLaMA with norms of q and k, after the rotation."""

from .llama import embed, feed_forward, head

__all__ = ["embed", "head", "layer"]


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    return feed_forward(g, i, x, g.self_attention(i, x, normed="after"))
