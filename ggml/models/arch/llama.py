"""LLaMA (arXiv:2302.13971) and its relatives: Mistral, SmolLM, Mixtral, Qwen 2 and 3, ERNIE 4.5.

They differ in what their files hold: biases of q, k and v (Qwen 2), norms of q and k (Qwen 3), experts (Mixtral).
"""

import ggml

NORMED = ("qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "lfm2", "lfm2moe")  # with norms of q and k


def embed(g):
    """x = token_embd[id]."""
    return g.point("token_embd", g.embedding(g.inputs.ids, "token_embd", g.config.n_vocab))


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    return feed_forward(g, i, x, attention(g, i, x))


def attention(g, i, x):
    """attention(norm(x))."""
    return g.self_attention(i, x, normed="before" if g.config.arch in NORMED else "")


def feed_forward(g, i, x, h, experts=None, norm="ffn_norm"):
    """x += h, the result of attention, then x += ffn(norm(x)), with other experts than the usual ones if given."""
    c, b = g.config, f"blk.{i}."
    x, h = g.keep_last(i, x, h)
    x = g.point(b + "ffn_in", g.add(x, h))
    h = g.point(b + "ffn_norm", g.rms_norm(x, b + norm))
    kind = experts or (g.experts if c.n_expert else g.gated)
    h = g.point(b + "ffn_out", kind(h, b + "ffn", ggml.ggml_swiglu_split))
    return g.point(b + "out", g.add(x, h))


def head(g, x):
    """norm(x)."""
    return g.rms_norm(x, "output_norm")
