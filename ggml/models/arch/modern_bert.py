"""ModernBERT (arXiv:2412.13663): an encoder with norms before the sums, rotary positions, and a gated GELU.

All layers but every n-th, beginning with the first, have a symmetric sliding window, and another base of the rotation.
"""

import ggml


def keys(k):
    """Layer 0, n, 2n, ... attend to everything."""
    n = k.integer("block_count", high=4096)
    every = k.integer("attention.sliding_window_pattern", 3, high=4096)
    return {"local": tuple(i % every != 0 for i in range(n))}


def embed(g):
    """x = norm(token_embd[id])."""
    x = g.embedding(g.inputs.ids, "token_embd", g.config.n_vocab)
    return g.point("token_embd", g.layer_norm(x, "token_embd_norm"))


def layer(g, i, x):
    """x += attention(norm(x)), then x += down(gelu(a) * b), where a, b = up norm(x); layer 0 has no first norm."""
    b = f"blk.{i}."
    h = g.layer_norm(x, b + "attn_norm") if g.has(b + "attn_norm.weight") else x
    q, k, v = g.queries_keys_values(i, h)
    q, k = g.rotated(i, q, k)
    x = g.point(b + "ffn_in", g.add(x, g.attended(i, q, k, v)))
    h = g.gated_together(g.layer_norm(x, b + "ffn_norm"), b + "ffn", ggml.ggml_geglu_erf)
    return g.point(b + "out", g.add(x, g.point(b + "ffn_out", h)))


def head(g, x):
    """norm(x)."""
    return g.layer_norm(x, "output_norm")
