"""LLaMA (arXiv:2302.13971) and its relatives: Mistral, SmolLM, Mixtral, Qwen 2 and 3.

They differ in what their files hold: biases of q, k and v (Qwen 2), norms of q and k (Qwen 3), experts (Mixtral).
"""

import ggml


def embed(g):
    """x = token_embd[id]."""
    return g.point("token_embd", g.embedding(g.inputs.ids, "token_embd", g.config.n_vocab))


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q = g.heads(g.linear(h, b + "attn_q", c.n_head * c.key_dim), c.n_head)
    k = g.heads(g.linear(h, b + "attn_k", c.n_head_kv * c.key_dim), c.n_head_kv)
    v = g.heads(g.linear(h, b + "attn_v", c.n_head_kv * c.value_dim), c.n_head_kv)
    if c.arch == "qwen3":
        q, k = g.rms_norm(q, b + "attn_q_norm"), g.rms_norm(k, b + "attn_k_norm")
    mode, factors = c.rope_mode, None
    if g.has("rope_freqs.weight"):
        factors = g.weight("rope_freqs.weight", c.n_rot // 2)
    q, k = g.rope(q, mode, c.rope, factors), g.rope(k, mode, c.rope, factors)
    h = g.attention(i, q, k, v, g.default_scale())
    h = g.point(b + "attn_out", g.linear(h, b + "attn_output", c.n_embd))
    x, h = g.keep_last(i, x, h)
    x = g.point(b + "ffn_in", g.add(x, h))

    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    feed_forward = g.experts if c.n_expert else g.gated
    h = g.point(b + "ffn_out", feed_forward(h, b + "ffn", ggml.ggml_swiglu_split))
    return g.point(b + "out", g.add(x, h))


def head(g, x):
    """norm(x)."""
    return g.rms_norm(x, "output_norm")
