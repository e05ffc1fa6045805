"""T5 (arXiv:1910.10683): an encoder, and a decoder that reads it by cross attention; attention without a factor.

A bias is added to the scores, by head and by the distance between two tokens: one for each small distance, and one for
each of some ranges of larger ones ("buckets").
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, NamedTuple

import numpy as np

import ggml

FAR = 128  # distances from which on all are alike


class Part(NamedTuple):
    """The tokens of one text in a step of the decoder: n of those of g.inputs.ids, from `first` on.

    Attributes:
        buckets: i32 [P n], of P places of keys.
        mask: f32 [P, n].
        store: function of a layer's number and its k and v [D H, n], which gives the keys and values of all places,
            [D H, P].
        cross: what cross_keys_values gives for the text that is read.
        read: f32 [T, n], 0 for states of tokens and -inf for those behind them; None if there are none.
    """

    first: int
    n: int
    buckets: Any
    mask: Any
    store: Any
    cross: Any
    read: Any = None


def keys(k):
    """The number of buckets; of a model with a decoder its layers, and the token with which its texts begin."""
    own = {"buckets": k.integer("attention.relative_buckets_count", 32, low=4, high=65536)}
    if k.arch == "t5":
        layers = k.integer("block_count", high=4096)
        own["decoder_layers"] = k.integer("decoder_block_count", layers, high=4096)
        own["decoder_start"] = k.integer("decoder_start_token_id", 0, low=0)
    return own


def bucket(distance, buckets, both):
    """The bucket of keys at a distance (position of the key less that of the query); `both`: also of later keys."""
    first = np.zeros_like(distance)
    if both:
        buckets //= 2
        first = np.where(distance > 0, buckets, 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    exact = buckets // 2
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact)) / np.float32(math.log(FAR / exact))
    large = exact + (ratio * np.float32(buckets - exact)).astype(np.int32)
    return first + np.where(distance < exact, distance, np.minimum(large, buckets - 1))


@functools.lru_cache(64)
def buckets_before(count, buckets):
    """The buckets of keys that are 0 to count - 1 tokens before a query in the decoder."""
    return bucket(-np.arange(count), buckets, False)


def embed(g):
    """x = token_embd[id]."""
    g.check_undivided()
    return g.point("token_embd", g.embedding(g.inputs.ids, "token_embd", g.config.n_vocab))


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x)): of the encoder."""
    b, n = f"enc.blk.{i}.", g.n_tokens // g.inputs.n_sequences
    buckets = g.inputs.buckets
    if buckets is None:  # of a graph that is not computed
        buckets = ggml.ggml_new_tensor_1d(g.ctx, ggml.GGML_TYPE_I32, n * n)
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q, k, v = projected(g, h, b + "attn_q"), projected(g, h, b + "attn_k"), projected(g, h, b + "attn_v")
    q, k, v = (by_head(g, t, g.inputs.n_sequences) for t in (q, k, v))
    h = ggml.ggml_flash_attn_ext(g.ctx, q, k, v, added(g, i, buckets, n), 1.0, 0.0, 0.0)  # [D, H, T, S]
    h = ggml.ggml_reshape_2d(g.ctx, h, g.config.n_head * g.config.key_dim, g.n_tokens)
    x = g.point(b + "ffn_in", g.add(x, attention_out(g, b + "attn", h)))
    return g.point(b + "out", g.add(x, feed_forward(g, b, x)))


def head(g, x):
    """norm(x): the states of the encoder."""
    return g.rms_norm(x, "enc.output_norm")


def decode(g, parts):
    """The decoder without its output matrix: the states [C, N] after N tokens g.inputs.ids, which `parts` divide."""
    x = g.point("dec.token_embd", g.embedding(g.inputs.ids, "token_embd", g.config.n_vocab))
    for i in range(g.config.own["decoder_layers"]):
        x = decoder_layer(g, i, x, parts)
    return x


def decoder_layer(g, i, x, parts):
    """x += attention(norm(x)), x += cross attention(norm(x)), x += ffn(norm(x)): only attention knows texts."""
    b = f"dec.blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q, k, v = (projected(g, h, b + "attn_" + part) for part in "qkv")
    h = joined(g, own_attention(g, i, parts, q, k, v))
    x = g.point(b + "cross_attn_in", g.add(x, attention_out(g, b + "attn", h)))
    h = g.point(b + "cross_attn_norm", g.rms_norm(x, b + "cross_attn_norm"))
    q = projected(g, h, b + "cross_attn_q")
    h = joined(g, cross_attention(g, i, parts, q))
    x = g.point(b + "ffn_in", g.add(x, attention_out(g, b + "cross_attn", h)))
    return g.point(b + "out", g.add(x, feed_forward(g, b, x)))


def own_attention(g, i, parts, q, k, v):
    """The attention of each part's tokens to those of its text before them, [D H, n] each; q, k, v [D H, N]."""
    kept = each(lambda part: part.store(i, columns(g, k, part), columns(g, v, part)), parts)
    bias = each(lambda part: distances(g, "dec", i, part.buckets, part.n), parts)
    keys, values = each(lambda kv: by_head(g, kv[0]), kept), each(lambda kv: transposed(g, by_head(g, kv[1])), kept)
    queries = each(lambda part: by_head(g, columns(g, q, part)), parts)
    return side_by_side(g, queries, keys, values, bias, [part.mask for part in parts])


def cross_attention(g, i, parts, q):
    """The attention of each part's tokens to the states of the encoder that its text has read, [D H, n] each."""
    keys = each(lambda part: by_head(g, part.cross[i][0]), parts)
    values = each(lambda part: rows_by_head(g, part.cross[i][1]), parts)
    queries = each(lambda part: by_head(g, columns(g, q, part)), parts)
    return side_by_side(g, queries, keys, values, [None] * len(parts), [part.read for part in parts])


def cross_keys_values(g, states):
    """What the layers of the decoder read of the encoder's states [C, T]: for each keys [D H, T], values [T, D H]."""
    names = (f"dec.blk.{i}.cross_attn_" for i in range(g.config.own["decoder_layers"]))
    both = [[projected(g, states, name + part) for part in "kv"] for name in names]
    return [(k, ggml.ggml_cont(g.ctx, ggml.ggml_transpose(g.ctx, v))) for k, v in both]


def logits(g, x):
    """[vocabulary, n] of x [C, n]; where the embedding is the output matrix, x is divided by the root of C."""
    x = g.point("dec.output_norm", g.rms_norm(x, "dec.output_norm"))
    return g.point("logits", g.output(x if g.has("output.weight") else g.scale(x, g.config.n_embd**-0.5)))


def beside(g, states):
    """The decoder, of which nothing is computed: for a check of its tensors, and for the names of its points."""
    if "decoder_layers" not in g.config.own:
        return
    buckets = ggml.ggml_new_tensor_1d(g.ctx, ggml.GGML_TYPE_I32, g.n_tokens)
    cross = cross_keys_values(g, states)
    logits(g, decode(g, [Part(0, g.n_tokens, buckets, None, lambda i, k, v: (k, v), cross)]))


# ---- parts -----------------------------------------------------------------------------------------------------------
def projected(g, x, name):
    """W x of all heads, [D H, N]."""
    return g.linear(x, name, g.config.n_head * g.config.key_dim)


def by_head(g, x, sequences=1):
    """[D H, N] as [D, T, H, S]."""
    c = g.config
    x = ggml.ggml_reshape_4d(g.ctx, x, c.key_dim, c.n_head, x.contents.ne[1] // sequences, sequences)
    return ggml.ggml_permute(g.ctx, x, 0, 2, 1, 3)


def rows_by_head(g, x):
    """[T, D H] as [T, D, H]."""
    return ggml.ggml_reshape_3d(g.ctx, x, x.contents.ne[0], g.config.key_dim, g.config.n_head)


def transposed(g, x):
    """[T, D, H, S] of x [D, T, H, S]."""
    return ggml.ggml_cont(g.ctx, ggml.ggml_permute(g.ctx, x, 1, 0, 2, 3))


def columns(g, x, part):
    """The columns of x [D H, N] that a part has."""
    size, n = x.contents.ne[:2]
    return (
        x if part.n == n else ggml.ggml_view_2d(g.ctx, x, size, part.n, x.contents.nb[1], part.first * x.contents.nb[1])
    )


def joined(g, parts):
    """What parts have, side by side."""
    return functools.reduce(lambda a, b: ggml.ggml_concat(g.ctx, a, b, 1), parts)


def distances(g, side, i, buckets, n):
    """What is added to the scores of n queries: [P, n, H]; layers without a table have that of the first."""
    name = f"{side}.blk.{i}.attn_rel_b"
    name = name if g.has(name + ".weight") else f"{side}.blk.0.attn_rel_b"
    key = f"{name} {ctypes.addressof(buckets.contents)}"
    if key not in g.passed:
        g.passed[key] = bias_of(g, name, buckets, n)
    return g.passed[key]


def added(g, i, buckets, n):
    """What is added to the scores of the encoder: [T, T, H, S]."""
    bias = distances(g, "enc", i, buckets, n)
    key = f"added {ctypes.addressof(bias.contents)}"
    if key not in g.passed:
        mask, sequences = g.inputs.masks[False], g.inputs.n_sequences
        if sequences > 1:
            bias = ggml.ggml_repeat_4d(g.ctx, bias, n, n, g.config.n_head, sequences)
        g.passed[key] = bias if mask is None else g.add(bias, mask)
    return g.passed[key]


def bias_of(g, name, buckets, n):
    """The rows of a table [H, buckets] for n queries: [P, n, H]."""
    table = g.weight(name + ".weight", g.config.n_head, g.config.own["buckets"])
    rows = ggml.ggml_get_rows(g.ctx, table, buckets)
    rows = ggml.ggml_reshape_3d(g.ctx, rows, g.config.n_head, rows.contents.ne[1] // n, n)
    return ggml.ggml_cont(g.ctx, ggml.ggml_permute(g.ctx, rows, 2, 0, 1, 3))


def side_by_side(g, queries, keys, values, biases, masks):
    """soft_max(k^T q + bias + mask) v of several texts, the heads side by side: [D H, N] each.

    Step by step: equal steps do not wait for each other. Lists of q [D, T, H, S], k [D, P, H, S] and v [P, D, H, S].
    """
    steps = [each(lambda k, q: ggml.ggml_mul_mat(g.ctx, k, q), keys, queries)]  # [P, T, H, S]
    steps.append(each(lambda s, bias: s if bias is None else g.add(s, bias), steps[-1], biases))
    steps.append(each(lambda s, mask: ggml.ggml_soft_max_ext(g.ctx, s, mask, 1.0, 0.0), steps[-1], masks))
    steps.append(each(lambda v, s: ggml.ggml_mul_mat(g.ctx, v, s), values, steps[-1]))
    steps.append(each(lambda y: heads_together(g, y), steps[-1]))
    if len(queries) > 1:
        g.effects += [node for step in (values, *steps) for node in step]  # the order of the nodes
    return steps[-1]


def each(step, *lists):
    """The results of a function for the items of lists, side by side."""
    return [step(*items) for items in zip(*lists, strict=True)]


def heads_together(g, y):
    """[D H, T S] of y [D, T, H, S]."""
    (size, n, n_head, sequences), y = y.contents.ne[:4], ggml.ggml_permute(g.ctx, y, 0, 2, 1, 3)
    return ggml.ggml_reshape_2d(g.ctx, y if n == 1 else ggml.ggml_cont(g.ctx, y), size * n_head, n * sequences)


def attention_out(g, name, y):
    """The output matrix of an attention."""
    return g.point(name + "_out", g.linear(y, name + "_o", g.config.n_embd))


def feed_forward(g, b, x):
    """down(gelu(gate h) * up h) of h = norm(x), or down(relu(up h))."""
    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    if g.has(b + "ffn_gate.weight"):
        return g.point(b + "ffn_out", g.gated(h, b + "ffn", ggml.ggml_geglu_split))
    return g.point(b + "ffn_out", g.between(h, b + "ffn", ggml.ggml_relu))
