"""BitNet b1.58 (arXiv:2504.12285): LLaMA with norms before the last matrix of attention and of the feed-forward part,
and gates of SiLU, or of squared ReLU where the file says so. Matrices have the values -s, 0 and s."""

import ggml

from .llama import embed, head

__all__ = ["embed", "head", "keys", "layer"]


def keys(k):
    """The activation of the gates."""
    name = k.text("hidden_activation", "silu")
    if name not in ("silu", "relu2"):
        raise ValueError(f"load: {k.path}: key 'bitnet.hidden_activation' is {name!r}: need silu or relu2")
    return {"squared": name == "relu2"}


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q, k, v = g.queries_keys_values(i, h)
    q, k = g.rotated(i, q, k)
    h = g.rms_norm(g.attention(i, q, k, v, g.default_scale()), b + "attn_sub_norm")
    h = g.point(b + "attn_out", g.linear(h, b + "attn_output", c.n_embd))
    x, h = g.keep_last(i, x, h)
    x = g.point(b + "ffn_in", g.add(x, h))

    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    gate, up = (g.linear(h, b + name, c.n_ff) for name in ("ffn_gate", "ffn_up"))
    gate = ggml.ggml_sqr(g.ctx, ggml.ggml_relu(g.ctx, gate)) if c.own["squared"] else ggml.ggml_silu(g.ctx, gate)
    h = g.rms_norm(ggml.ggml_mul(g.ctx, gate, up), b + "ffn_sub_norm")
    return g.point(b + "out", g.add(x, g.point(b + "ffn_out", g.linear(h, b + "ffn_down", c.n_embd))))
