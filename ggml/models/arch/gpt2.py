"""GPT-2: learned positions, layer norms with biases, one matrix for q, k and v."""

import ggml


def embed(g):
    """x = token_embd[id] + position_embd[position]."""
    c = g.config
    x = g.embedding(g.inputs.ids, "token_embd", c.n_vocab)
    return g.point("token_embd", g.add(x, g.embedding(g.inputs.positions, "position_embd", c.n_ctx_train)))


def layer(g, i, x):
    """x += attention(norm(x)), then x += down(gelu(up(norm(x))))."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.layer_norm(x, b + "attn_norm"))
    qkv = g.linear(h, b + "attn_qkv", (c.n_head + 2 * c.n_head_kv) * c.key_dim)
    q, k, v = g.split(qkv, c.n_head, c.n_head_kv, c.n_head_kv)
    h = g.attention(i, q, k, v, g.default_scale())
    h = g.point(b + "attn_out", g.linear(h, b + "attn_output", c.n_embd))
    x, h = g.keep_last(i, x, h)
    x = g.point(b + "ffn_in", g.add(x, h))

    h = g.point(b + "ffn_norm", g.layer_norm(x, b + "ffn_norm"))
    h = ggml.ggml_gelu(g.ctx, g.linear(h, b + "ffn_up", c.n_ff))
    h = g.point(b + "ffn_out", g.linear(h, b + "ffn_down", c.n_embd))
    return g.point(b + "out", g.add(x, h))


def head(g, x):
    """norm(x)."""
    return g.layer_norm(x, "output_norm")
