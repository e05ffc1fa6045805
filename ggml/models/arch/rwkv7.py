"""RWKV-7 (arXiv:2503.14456): linear attention whose state is rewritten by each token. A layer mixes a token with the
one before in two places."""

import ggml

from . import keeps
from .parallel import relu_squared
from .recurrent import slices

__all__ = ["caches", "embed", "head", "keys", "layer"]
DECAY = -0.606531  # -exp(-0.5)
GROUP_EPSILON = 64e-5  # of the norm of each head
UNUSED = tuple(f"blk.0.time_mix_v{i}.weight" for i in range(3))  # the first layer's: other programs need them
MIXED = ("r", "w", "k", "v", "a", "g")  # what the token before is mixed into, in the order of the file


def keys(k):
    """The sizes of heads, and the ranks of the low-rank parts."""
    ranks = {"w": "decay", "a": "iclr", "v": "value_residual_mix", "g": "gate"}
    return {
        "n_ff": k.integer("feed_forward_length", 4 * k.integer("embedding_length")),
        "size": head_size(k),
        "ranks": {part: k.integer(f"attention.{name}_lora_rank") for part, name in ranks.items()},
    }


def head_size(k):
    """The elements of a head."""
    n_embd, size = k.integer("embedding_length"), k.integer("wkv.head_size", 64, high=4096)
    if n_embd % size:
        raise ValueError(f"load: {k.path}: key '{k.arch}.wkv.head_size' is {size}: need a divisor of {n_embd}")
    return size


def caches(c):
    """The inputs of both parts at the last token, and the states of the heads."""
    return [keeps.Recurrent(c.n_embd * (2 + c.own["size"]))] * c.n_layer


def embed(g):
    """x = norm(token_embd[id])."""
    x = g.layer_norm(g.embedding(g.inputs.ids, "token_embd", g.config.n_vocab), "token_embd_norm")
    return g.point("token_embd", x)


def layer(g, i, x):
    """x += time_mix(norm(x)), then x += channel_mix(norm(x))."""
    return g.point(f"blk.{i}.out", mixed(g, i, x, time_mix, channel_mix))


def mixed(g, i, x, time_mix, channel_mix):
    """The same, with these two functions."""
    c, b, ctx, sequences = g.config, f"blk.{i}.", g.ctx, g.inputs.n_sequences
    n, state = c.n_embd, g.state(i, c.n_embd * (2 + c.own["size"]))
    time, channel, heads = slices(g, state, n, n, n * c.own["size"])
    h = g.point(b + "attn_norm", g.layer_norm(x, b + "attn_norm"))
    before, time = shifted(g, h, time)
    h, heads = time_mix(g, i, h, before, ggml.ggml_cont(ctx, heads))
    x = g.point(b + "ffn_in", g.add(x, g.point(b + "attn_out", h)))

    h = g.point(b + "ffn_norm", g.layer_norm(x, b + "attn_norm_2"))
    before, channel = shifted(g, h, channel)
    last = ggml.ggml_concat(ctx, ggml.ggml_concat(ctx, time, channel, 0), heads, 0)
    g.keep(i, ggml.ggml_reshape_2d(ctx, last, n * (2 + c.own["size"]), sequences))
    x, h, before = g.keep_last(i, x, h, before)
    return g.add(x, g.point(b + "ffn_out", channel_mix(g, i, h, before)))


def shifted(g, x, before):
    """The token before each, [C, N] of x [C, N] and those before the batch [C, S]; and the last tokens, [C, S]."""
    ctx, n, sequences, nb = g.ctx, g.config.n_embd, g.inputs.n_sequences, x.contents.nb[1]
    tokens = g.n_tokens // sequences
    last = ggml.ggml_cont(ctx, ggml.ggml_view_2d(ctx, x, n, sequences, tokens * nb, (tokens - 1) * nb))
    before = ggml.ggml_cont(ctx, before)
    if tokens == 1:
        return before, last
    before = ggml.ggml_reshape_3d(ctx, before, n, 1, sequences)
    others = ggml.ggml_view_3d(ctx, x, n, tokens - 1, sequences, nb, tokens * nb, 0)
    return ggml.ggml_reshape_2d(ctx, ggml.ggml_concat(ctx, before, others, 1), n, g.n_tokens), last


def low_rank(g, x, name, rank, between=None):
    """w2 f(w1 x): [C, N]."""
    y = g.linear(x, name + "1", rank)
    return g.linear(between(g.ctx, y) if between else y, name + "2", g.config.n_embd)


def time_mix(g, i, h, before, state):
    """The attention of h [C, N] with the tokens before it, and the states after it."""
    c, b, ctx, own = g.config, f"blk.{i}.time_mix_", g.ctx, g.config.own
    n, ranks, size, sequences = c.n_embd, own["ranks"], own["size"], g.inputs.n_sequences
    n_heads = n // size
    fused = g.weight(b + "lerp_fused.weight", n, 1, 1, len(MIXED))
    difference = ggml.ggml_sub(ctx, before, h)
    mixed = {
        part: g.add(h, ggml.ggml_mul(ctx, difference, ggml.ggml_view_1d(ctx, fused, n, 4 * n * place)))
        for place, part in enumerate(MIXED)
    }

    def vector(name):
        return g.weight(f"{b}{name}.weight", n)

    r, k, v = (g.linear(mixed[p], b + name, n) for p, name in zip("rkv", ("receptance", "key", "value")))
    w = g.add(low_rank(g, mixed["w"], b + "w", ranks["w"], ggml.ggml_tanh), vector("w0"))
    w = ggml.ggml_exp(ctx, g.scale(ggml.ggml_sigmoid(ctx, w), DECAY))
    a = ggml.ggml_sigmoid(ctx, g.add(low_rank(g, mixed["a"], b + "a", ranks["a"]), vector("a0")))
    gate = low_rank(g, mixed["g"], b + "g", ranks["g"], ggml.ggml_sigmoid)
    first = g.stored.setdefault("first values", v)  # those of the first layer
    if first is not v:
        share = ggml.ggml_sigmoid(ctx, g.add(low_rank(g, mixed["v"], b + "v", ranks["v"]), vector("v0")))
        v = g.add(v, ggml.ggml_mul(ctx, ggml.ggml_sub(ctx, first, v), share))
    direction = ggml.ggml_l2_norm(ctx, g.heads(ggml.ggml_mul(ctx, k, vector("k_k")), n_heads), 1e-12)
    scaled = ggml.ggml_mul(ctx, k, vector("k_a"))
    k = g.add(k, ggml.ggml_sub(ctx, ggml.ggml_mul(ctx, a, scaled), scaled))
    r, w, k, v, a = (g.heads(t, n_heads) for t in (r, w, k, v, a))
    y = ggml.ggml_rwkv_wkv7(ctx, r, w, k, v, ggml.ggml_neg(ctx, direction), ggml.ggml_mul(ctx, direction, a), state)
    y, state = normed_heads(g, y, b + "ln", sequences)
    weight = ggml.ggml_reshape_2d(ctx, vector("r_k"), size, n_heads)
    bonus = ggml.ggml_sum_rows(ctx, ggml.ggml_mul(ctx, ggml.ggml_mul(ctx, k, r), weight))  # [1, heads, N]
    y = g.add(y, ggml.ggml_reshape_2d(ctx, ggml.ggml_mul(ctx, v, bonus), n, g.n_tokens))
    return g.linear(ggml.ggml_mul(ctx, y, gate), b + "output", n), state


def normed_heads(g, y, name, sequences):
    """The result of a recurrence with each head normed, [C, N], and the states behind it, [C size, S]."""
    ctx, n, size = g.ctx, g.config.n_embd, g.config.own["size"]
    n_state = n * size
    state = ggml.ggml_view_2d(ctx, y, n_state, sequences, 4 * n_state, 4 * n * g.n_tokens)
    y = g.heads(ggml.ggml_view_2d(ctx, y, n, g.n_tokens, 4 * n, 0), n // size)
    y = ggml.ggml_reshape_2d(ctx, ggml.ggml_norm(ctx, y, GROUP_EPSILON), n, g.n_tokens)
    return g.bias(ggml.ggml_mul(ctx, y, g.weight(name + ".weight", n)), name), state


def channel_mix(g, i, h, before):
    """value(relu(key(h, mixed with the token before))^2)."""
    c, b = g.config, f"blk.{i}.channel_mix_"
    share = g.weight(b + "lerp_k.weight", c.n_embd)
    h = g.add(h, ggml.ggml_mul(g.ctx, ggml.ggml_sub(g.ctx, before, h), share))
    return g.linear(relu_squared(g.ctx, g.linear(h, b + "key", c.n_ff)), b + "value", c.n_embd)


def head(g, x):
    """norm(x)."""
    return g.layer_norm(x, "output_norm")
