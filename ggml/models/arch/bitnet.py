"""BitNet b1.58 (arXiv:2504.12285): LLaMA with norms before the last matrix of attention and of the feed-forward part,
and squared ReLU gates. Matrices have the values -s, 0 and s."""

import ggml

from .llama import embed, head

__all__ = ["embed", "head", "layer"]


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    c, b = g.config, f"blk.{i}."
    g.check_undivided()
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q, k, v = g.queries_keys_values(i, h)
    q, k = g.rotated(i, q, k)
    h = g.rms_norm(g.attention(i, q, k, v, g.default_scale()), b + "attn_sub_norm")
    h = g.point(b + "attn_out", g.linear(h, b + "attn_output", c.n_embd))
    x, h = g.keep_last(i, x, h)
    x = g.point(b + "ffn_in", g.add(x, h))

    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    gate = ggml.ggml_sqr(g.ctx, ggml.ggml_relu(g.ctx, g.linear(h, b + "ffn_gate", c.n_ff)))
    h = g.rms_norm(ggml.ggml_mul(g.ctx, gate, g.linear(h, b + "ffn_up", c.n_ff)), b + "ffn_sub_norm")
    return g.point(b + "out", g.add(x, g.point(b + "ffn_out", g.linear(h, b + "ffn_down", c.n_embd))))
