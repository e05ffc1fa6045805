"""BERT (arXiv:1810.04805) and relatives: encoders whose tokens see the whole text; norms follow the residual sums.

BERT has learned positions and a GELU between two matrices; jina-bert-v3 has rotary positions instead, nomic-bert these
and a gated SiLU, nomic-bert-moe these and in every other layer experts with a GELU.
"""

import ggml

from .base import Routing

ACTIVATIONS = {"gelu": ggml.ggml_gelu_erf, "gelu_tanh": ggml.ggml_gelu}
WHOLE_SHARES = Routing(normalized=False)


def keys(k):
    """What is between the two matrices of BERT's feed-forward part."""
    if k.arch != "bert":
        return {}
    name = k.text("hidden_activation", "gelu")
    if name not in ACTIVATIONS:
        raise ValueError(
            f"load: {k.path}: key 'bert.hidden_activation' is {name!r}: need one of {', '.join(ACTIVATIONS)}"
        )
    return {"activation": ACTIVATIONS[name]}


def embed(g):
    """x = norm(token_embd[id] + token_types[type] + position_embd[position])."""
    c = g.config
    x = g.embedding(g.inputs.ids, "token_embd", c.n_vocab)
    if g.has("token_types.weight"):
        x = with_types(g, x)
    if c.arch == "bert":
        x = g.add(x, g.embedding(g.inputs.positions, "position_embd", c.n_ctx_train))
    return g.point("token_embd", g.layer_norm(x, "token_embd_norm"))


def with_types(g, x):
    """x + token_types[type], with the adapters of this table, which are those of a matrix."""
    c, ids, types = g.config, g.inputs.types, g.weights["token_types.weight"].contents.ne[1]
    table = g.weight("token_types.weight", c.n_embd, types)
    if types > 1 and ids is not None:
        x = g.add(x, ggml.ggml_get_rows(g.ctx, table, ids))
    else:
        x = g.add(x, ggml.ggml_view_1d(g.ctx, table, c.n_embd, 0))
    for pair in g.adapters.get("token_types.weight", ()) if ids is not None else ():
        low = g.of_its_tokens(ggml.ggml_get_rows(g.ctx, pair.b, ids), pair)
        a = ggml.ggml_cont(g.ctx, ggml.ggml_transpose(g.ctx, pair.a))
        x = g.add(x, g.scale(ggml.ggml_mul_mat(g.ctx, a, low), pair.scale))
    return x


def layer(g, i, x):
    """x = norm(x + attention(x)), then x = norm(x + ffn(x))."""
    c, b = g.config, f"blk.{i}."
    q, k, v = g.queries_keys_values(i, x)
    if c.rope_mode is not None:
        q, k = g.rotated(i, q, k)
    h = g.attention(i, q, k, v, g.default_scale())
    h = g.point(b + "attn_out", g.linear(h, b + "attn_output", c.n_embd))
    x = g.point(b + "ffn_in", g.layer_norm(g.add(x, h), b + "attn_output_norm"))
    if g.has(b + "ffn_gate_inp.weight"):
        h = g.experts(x, b + "ffn", ggml.ggml_gelu_erf, WHOLE_SHARES, ungated=True)
    elif c.arch == "nomic-bert":
        h = g.gated(x, b + "ffn", ggml.ggml_swiglu_split)
    else:
        h = g.between(x, b + "ffn", c.own.get("activation", ggml.ggml_gelu_erf))
    h = g.point(b + "ffn_out", h)
    return g.point(b + "out", g.layer_norm(g.add(x, h), b + "layer_output_norm"))


def head(g, x):
    """x: the last layer ends with a norm."""
    return x
