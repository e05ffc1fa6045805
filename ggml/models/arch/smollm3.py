"""SmolLM3: LLaMA in which every fourth layer has no positions."""

from .llama import embed, feed_forward, head

__all__ = ["embed", "head", "layer"]
WITHOUT = 4  # every so many layers


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    return feed_forward(g, i, x, g.self_attention(i, x, rotates=(i + 1) % WITHOUT != 0))
