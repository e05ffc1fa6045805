"""jina-bert-v2 (arXiv:2310.19923): BERT with ALiBi (arXiv:2108.12409) in place of positions, and a gated GELU.

The models for code have norms of queries and keys, and a second norm after the attention.
"""

import ggml

from . import bert

MOST_ALIBI = 8.0  # slopes are powers of 2^(-8 / heads)

embed, head = bert.embed, bert.head


def keys(k):
    return {"alibi": MOST_ALIBI}


def layer(g, i, x):
    """x = norm(x + attention(x)), then x = norm(x + ffn(x))."""
    c, b = g.config, f"blk.{i}."
    size = c.n_head * c.key_dim
    q, k, v = (g.linear(x, b + name, size) for name in ("attn_q", "attn_k", "attn_v"))
    if g.has(b + "attn_q_norm.weight"):
        q, k = g.layer_norm(q, b + "attn_q_norm"), g.layer_norm(k, b + "attn_k_norm")
    q, k, v = (g.heads(t, c.n_head) for t in (q, k, v))
    h = g.layer_norm(g.add(x, g.attended(i, q, k, v)), b + "attn_output_norm")
    if g.has(b + "attn_norm_2.weight"):
        h = g.layer_norm(g.add(x, h), b + "attn_norm_2")
    x = g.point(b + "ffn_in", h)
    if g.has(b + "ffn_gate.weight"):
        h = g.gated(x, b + "ffn", ggml.ggml_geglu_erf_split)
    else:
        h = g.gated_together(x, b + "ffn", ggml.ggml_geglu_erf)
    h = g.point(b + "ffn_out", h)
    return g.point(b + "out", g.layer_norm(g.add(x, h), b + "layer_output_norm"))
