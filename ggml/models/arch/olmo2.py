"""OLMo 2 (arXiv:2501.00656), OLMo 3 and EXAONE 4 (arXiv:2507.11407): norms follow attention and the feed-forward part,
before their results are added; q and k have norms too.

OLMo norms all heads of q and k together, EXAONE each. Where EXAONE has layers with a sliding window, only those rotate.
"""

import ggml

from .llama import embed, head

__all__ = ["embed", "head", "layer"]


def layer(g, i, x):
    """x += norm(attention(x)), then x += norm(ffn(x))."""
    c, b = g.config, f"blk.{i}."
    if c.arch == "exaone4":
        q, k, v = g.queries_keys_values(i, x)
        q, k = g.head_norms(i, q, k)
        if c.local[i] or not c.window:
            q, k = g.rotated(i, q, k)
    else:
        q = g.rms_norm(g.linear(x, b + "attn_q", c.n_head * c.key_dim), b + "attn_q_norm")
        k = g.rms_norm(g.linear(x, b + "attn_k", c.n_head_kv * c.key_dim), b + "attn_k_norm")
        v = g.heads(g.linear(x, b + "attn_v", c.n_head_kv * c.value_dim), c.n_head_kv)
        q, k = g.rotated(i, g.heads(q, c.n_head), g.heads(k, c.n_head_kv))
    h = g.attended(i, q, k, v)
    x, h = g.keep_last(i, x, h)
    x = g.point(b + "ffn_in", g.add(x, g.rms_norm(h, b + "post_attention_norm")))
    h = g.point(b + "ffn_out", g.gated(x, b + "ffn", ggml.ggml_swiglu_split))
    return g.point(b + "out", g.add(x, g.rms_norm(h, b + "post_ffw_norm")))
