"""SmolLM3: LLaMA in which every fourth layer has no positions."""

from .llama import embed, feed_forward, head

__all__ = ["embed", "head", "layer"]
WITHOUT = 4  # every so many layers


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    b = f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q, k, v = g.queries_keys_values(i, h)
    if (i + 1) % WITHOUT:
        q, k = g.rotated(i, q, k)
    return feed_forward(g, i, x, g.attended(i, q, k, v))
