"""Gemma (arXiv:2403.08295), Gemma 2 (arXiv:2408.00118), Gemma 3 (arXiv:2503.19786) and the encoder EmbeddingGemma
(arXiv:2509.20354).

The later ones norm the results of attention and of the feed-forward part too, and alternate layers with a sliding
window and layers that attend to everything. Gemma 2 limits scores and logits; Gemma 3 norms q and k instead.
"""

import math

import ggml

# The models with 27 billion parameters, by architecture and layers: they scale by C / H in place of the head's size
LARGE = {("gemma2", 46), ("gemma3", 62)}


def embed(g):
    """x = token_embd[id] * sqrt(C)."""
    x = g.embedding(g.inputs.ids, "token_embd", g.config.n_vocab)
    return g.point("token_embd", g.scale(x, math.sqrt(g.config.n_embd)))


def layer(g, i, x):
    """x += norm(attention(norm(x))), then x += norm(ffn(norm(x)))."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q = g.heads(g.linear(h, b + "attn_q", c.n_head * c.key_dim), c.n_head)
    k = g.heads(g.linear(h, b + "attn_k", c.n_head_kv * c.key_dim), c.n_head_kv)
    v = g.heads(g.linear(h, b + "attn_v", c.n_head_kv * c.value_dim), c.n_head_kv)
    if c.arch in ("gemma3", "gemma-embedding"):
        q, k = g.head_norms(i, q, k)
    q, k = g.rotated(i, q, k)
    size = c.n_embd // g.whole.n_head if (c.arch, c.n_layer) in LARGE else c.key_dim
    h = g.attention(i, q, k, v, 1 / math.sqrt(size))
    h = g.point(b + "attn_out", g.linear(h, b + "attn_output", c.n_embd))
    x, h = g.keep_last(i, x, h)
    x = g.point(b + "ffn_in", g.add(x, after(g, h, b + "post_attention_norm")))

    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    h = g.point(b + "ffn_out", g.gated(h, b + "ffn", ggml.ggml_geglu_split))
    return g.point(b + "out", g.add(x, after(g, h, b + "post_ffw_norm")))


def after(g, h, name):
    """norm(h), where the architecture norms results."""
    return h if g.config.arch == "gemma" else g.rms_norm(h, name)


def head(g, x):
    """norm(x)."""
    return g.rms_norm(x, "output_norm")
