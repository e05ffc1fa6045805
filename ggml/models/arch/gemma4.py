"""Gemma 4: layers with a sliding window and layers that attend to everything have heads of different sizes; the last
layers read the keys and values of earlier ones; each layer gets an embedding of the token of its own; experts stand
beside a dense part."""

import math

import ggml

from . import gemma
from .gemma import head
from .keeps import Paged, Shared, Window

__all__ = ["caches", "embed", "head", "keys", "layer"]


def keys(k):
    """What differs by layer, the width P of the embeddings of layers, and whether tokens of a picture see each other.

    They do, in layers with a window, in models without embeddings of layers, where a file says nothing else.
    """
    n_layer = k.integer("block_count", high=4096)
    per_layer = k.integer("embedding_length_per_layer_input", 0, low=0, high=65536)
    found = {
        "groups": k.integers("attention.head_count_kv", n_layer, high=65536),
        "dense_ff": k.integers("feed_forward_length", n_layer),
        "size": k.integer("attention.key_length", high=65536),
        "size_local": k.integer("attention.key_length_swa", high=65536),
        "n_rot_local": k.integer("rope.dimension_count_swa", k.integer("attention.key_length_swa"), low=2),
        "shared_layers": k.integer("attention.shared_kv_layers", 0, low=0, high=n_layer - 1),
        "per_layer": per_layer,
        "whole_pictures": k.flag("attention.bidirectional_images", not per_layer),
    }
    return found | ({"n_ff": k.integer("expert_feed_forward_length")} if k.integer("expert_count", 0, low=0) else {})


def source(c, i):
    """The layer whose keys and values layer i reads: itself, or the last of its kind that has some."""
    first = c.n_layer - c.own["shared_layers"]
    if i < first:
        return i
    before = [j for j in range(first) if c.local[j] == c.local[i]]
    if not before:
        raise ValueError(f"load: layer {i} shares keys and values: no layer before layer {first} is of its kind")
    return before[-1]


def caches(c):
    """Keys and values of the window, or of all tokens; none in the last layers."""
    found = []
    for i, (local, groups) in enumerate(zip(c.local, c.own["groups"], strict=True)):
        size = c.own["size_local" if local else "size"]
        own = Window(groups, size, size, c.window) if local else Paged(groups, size, size)
        found.append(own if source(c, i) == i else Shared(source(c, i)))
    return found


def embed(g):
    """x = token_embd[id] * sqrt(C)."""
    g.check_undivided()
    return gemma.embed(g)


def inputs_of_layers(g):
    """(norm(W x / sqrt(C)) + per_layer_token_embd[id] * sqrt(P)) / sqrt(2) of all L layers: [P, L, N].

    x is the embedding of the token, or that of a picture, whose id is 0.
    """
    c, size = g.config, g.config.own["per_layer"]
    x = g.points["token_embd"] if "token_embd" in g.points else gemma.embed(g)  # the latter in a part of the layers
    x = g.with_pictures(x)
    own = g.embedding(g.inputs.ids, "per_layer_token_embd", c.n_vocab, size * c.n_layer)
    own = ggml.ggml_reshape_3d(g.ctx, g.scale(own, math.sqrt(size)), size, c.n_layer, g.n_tokens)
    y = g.scale(g.linear(x, "per_layer_model_proj", size * c.n_layer), 1 / math.sqrt(c.n_embd))
    y = g.rms_norm(ggml.ggml_reshape_3d(g.ctx, y, size, c.n_layer, g.n_tokens), "per_layer_proj_norm")
    return g.scale(g.add(y, own), math.sqrt(0.5))


def input_of(g, i):
    """The input of layer i: [P, N]."""
    if "inputs" not in g.passed:
        g.passed["inputs"] = inputs_of_layers(g)
    y = g.passed["inputs"]
    return ggml.ggml_view_2d(g.ctx, y, y.contents.ne[0], g.n_tokens, y.contents.nb[2], i * y.contents.nb[1])


def layer(g, i, x):
    """x += norm(attention(norm(x))), x += norm(ffn(norm(x))), x += norm(W (gelu(gate x) * input)), x *= scale."""
    c, own, b = g.config, g.config.own, f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    h = g.point(b + "attn_out", g.linear(attention(g, i, h), b + "attn_output", c.n_embd))
    extra = [input_of(g, i)] if own["per_layer"] else []
    x, h, *extra = g.keep_last(i, x, h, *extra)
    x = g.point(b + "ffn_in", g.add(x, g.rms_norm(h, b + "post_attention_norm")))
    h = g.point(b + "ffn_out", feed_forward(g, i, x))
    x = g.add(x, g.rms_norm(h, b + "post_ffw_norm"))
    for given in extra:
        x = g.add(x, from_input(g, b, x, given))
    return g.point(b + "out", ggml.ggml_mul(g.ctx, x, g.weight(b + "layer_output_scale.weight", 1)))


def attention(g, i, h):
    """Attention with norms of q, k and v; v is k before its norm where there is no matrix for it."""
    c, own, b = g.config, g.config.own, f"blk.{i}."
    if c.local[i]:
        size, n_rot, rope, factors = own["size_local"], own["n_rot_local"], c.rope_local, None
    else:
        size, n_rot, rope, factors = own["size"], c.n_rot, c.rope, g.frequency_factors()
    groups = own["groups"][i]
    q = g.rms_norm(g.heads(g.linear(h, b + "attn_q", c.n_head * size), c.n_head), b + "attn_q_norm")
    q = g.rope(q, c.rope_mode, rope, factors, n_rot)
    if source(c, i) != i:
        return g.attention(i, q, None, None, 1.0, shared=source(c, i))
    k = g.heads(g.linear(h, b + "attn_k", groups * size), groups)
    v = g.heads(g.linear(h, b + "attn_v", groups * size), groups) if g.has(b + "attn_v.weight") else k
    k = g.rope(g.rms_norm(k, b + "attn_k_norm"), c.rope_mode, rope, factors, n_rot)
    return g.attention(i, q, k, ggml.ggml_rms_norm(g.ctx, v, c.eps), 1.0)


def feed_forward(g, i, x):
    """gated(norm(x)), or norm(gated(norm(x))) + norm(experts(norm(x))), routed by x / rms(x) * scale / sqrt(C)."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    h = g.gated(h, b + "ffn", ggml.ggml_geglu_split, n_ff=c.own["dense_ff"][i])
    if not g.has(b + "ffn_gate_inp.weight"):
        return h
    r = ggml.ggml_mul(g.ctx, ggml.ggml_rms_norm(g.ctx, x, c.eps), g.weight(b + "ffn_gate_inp.scale", c.n_embd))
    r = g.scale(r, 1 / math.sqrt(c.n_embd))
    y = g.experts(g.rms_norm(x, b + "pre_ffw_norm_2"), b + "ffn", ggml.ggml_geglu_split, routed_by=r)
    return g.add(g.rms_norm(h, b + "post_ffw_norm_1"), g.rms_norm(y, b + "post_ffw_norm_2"))


def from_input(g, b, x, given):
    """norm(W (gelu(gate x) * input)): [C, N] of the input of the layer, [P, N]."""
    c = g.config
    y = ggml.ggml_geglu_split(g.ctx, g.linear(x, b + "inp_gate", c.own["per_layer"]), given)
    return g.rms_norm(g.linear(y, b + "proj", c.n_embd), b + "post_norm")
