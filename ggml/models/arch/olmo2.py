"""OLMo 2 (arXiv:2501.00656), OLMo 3 and EXAONE 4 (arXiv:2507.11407): norms follow attention and the feed-forward part,
before their results are added; q and k have norms too.

OLMo norms all heads of q and k together, EXAONE each. Where EXAONE has layers with a sliding window, only those rotate.
"""

from dataclasses import replace

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
        rope = c.rope
        if c.local[i]:
            rope = replace(rope, freq_scale=1.0, ext_factor=0.0, attn_factor=1.0)
        q, k = (g.rope(g.heads(t, n), c.rope_mode, rope) for t, n in ((q, c.n_head), (k, c.n_head_kv)))
    h = g.attended(i, q, k, v)
    x, h = g.keep_last(i, x, h)
    x = g.point(b + "ffn_in", g.add(x, g.rms_norm(h, b + "post_attention_norm")))
    h = g.point(b + "ffn_out", g.gated(x, b + "ffn", ggml.ggml_swiglu_split))
    return g.point(b + "out", g.add(x, g.rms_norm(h, b + "post_ffw_norm")))
