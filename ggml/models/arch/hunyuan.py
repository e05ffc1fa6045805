"""Hunyuan (dense): LLaMA with norms of q and k, after the rotation."""

from .llama import embed, feed_forward, head

__all__ = ["embed", "head", "layer"]


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    b = f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q, k, v = g.queries_keys_values(i, h)
    q, k = g.rotated(i, q, k)
    q, k = g.rms_norm(q, b + "attn_q_norm"), g.rms_norm(k, b + "attn_k_norm")
    return feed_forward(g, i, x, g.attended(i, q, k, v))
