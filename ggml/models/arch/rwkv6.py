"""RWKV-6 (arXiv:2404.05892): linear attention whose decay depends on the token. A layer mixes a token with the one
before in two places; how much of it, in the first place, depends on the token too."""

import ggml

from .rwkv7 import caches, embed, head, head_size, mixed, normed_heads

__all__ = ["caches", "embed", "head", "keys", "layer"]
MIXED = ("w", "k", "v", "r", "g")  # what the token before is mixed into, in the order of the file


def keys(k):
    """The sizes of heads, the ranks of the low-rank parts, and after how many layers the residual stream is halved."""
    n_embd = k.integer("embedding_length")
    return {
        "n_ff": k.integer("feed_forward_length", int(3.5 * n_embd) // 32 * 32 or 1),
        "size": head_size(k),
        "mix_rank": k.integer("time_mix_extra_dim"),
        "decay_rank": k.integer("time_decay_extra_dim"),
        "halved_after": k.integer("rescale_every_n_layers", 0, low=0, high=4096),
    }


def layer(g, i, x):
    """x += time_mix(norm(x)), then x += channel_mix(norm(x)). Some files halve x after some layers."""
    x, every = mixed(g, i, x, time_mix, channel_mix), g.config.own["halved_after"]
    return g.point(f"blk.{i}.out", g.scale(x, 0.5) if every and (i + 1) % every == 0 else x)


def mixtures(g, b, h, difference):
    """h + difference * share for each of MIXED, a low-rank function of both tokens."""
    ctx, n, rank, tokens = g.ctx, g.config.n_embd, g.config.own["mix_rank"], g.n_tokens
    low = g.add(h, ggml.ggml_mul(ctx, difference, g.weight(b + "lerp_x.weight", n)))
    low = ggml.ggml_tanh(ctx, g.linear(low, b + "w1", len(MIXED) * rank))
    low = ggml.ggml_reshape_3d(ctx, low, rank, len(MIXED), tokens)
    low = ggml.ggml_cont(ctx, ggml.ggml_permute(ctx, low, 0, 2, 1, 3))  # [rank, N, 5]
    shares = ggml.ggml_mul_mat(ctx, g.weight(b + "w2.weight", rank, n, len(MIXED)), low)  # [C, N, 5]
    found = {}
    for place, part in enumerate(MIXED):
        share = ggml.ggml_view_2d(ctx, shares, n, tokens, shares.contents.nb[1], place * shares.contents.nb[2])
        share = g.add(share, share_of(g, b, place, part))
        found[part] = g.add(h, ggml.ggml_mul(ctx, difference, share))
    return found


def share_of(g, b, place, part):
    """What the share of the token before has whatever the token is, [C]: in one tensor for all parts, or in its own."""
    n = g.config.n_embd
    if not g.has(b + "lerp_fused.weight"):
        return g.weight(f"{b}lerp_{part}.weight", n)
    fused = g.weight(b + "lerp_fused.weight", n, 1, 1, len(MIXED))
    return ggml.ggml_view_1d(g.ctx, fused, n, 4 * n * place)


def time_mix(g, i, h, before, state):
    """The attention of h [C, N] with the tokens before it, and the states after it."""
    c, b, ctx, own = g.config, f"blk.{i}.time_mix_", g.ctx, g.config.own
    n, size, sequences = c.n_embd, own["size"], g.inputs.n_sequences
    parts = mixtures(g, b, h, ggml.ggml_sub(ctx, before, h))
    r, k, v = (
        g.heads(g.linear(parts[p], b + name, n), n // size) for p, name in zip("rkv", ("receptance", "key", "value"))
    )
    gate = ggml.ggml_silu(ctx, g.linear(parts["g"], b + "gate", n))
    decay = ggml.ggml_tanh(ctx, g.linear(parts["w"], b + "decay_w1", own["decay_rank"]))
    decay = g.add(g.linear(decay, b + "decay_w2", n), g.weight(b + "decay.weight", n))
    decay = ggml.ggml_exp(ctx, ggml.ggml_neg(ctx, ggml.ggml_exp(ctx, decay)))
    first = g.weight(b + "first.weight", size, n // size)
    y = ggml.ggml_rwkv_wkv6(ctx, k, v, r, first, g.heads(decay, n // size), state)
    y, state = normed_heads(g, y, b + "ln", sequences)
    return g.linear(ggml.ggml_mul(ctx, y, gate), b + "output", n), state


def channel_mix(g, i, h, before):
    """sigmoid(receptance(h')) * value(relu(key(h''))^2), with h' and h'' mixed with the token before."""
    c, b, ctx = g.config, f"blk.{i}.channel_mix_", g.ctx
    difference = ggml.ggml_sub(ctx, before, h)
    k, r = (
        g.add(h, ggml.ggml_mul(ctx, difference, g.weight(f"{b}lerp_{part}.weight", c.n_embd))) for part in ("k", "r")
    )
    k = ggml.ggml_sqr(ctx, ggml.ggml_relu(ctx, g.linear(k, b + "key", c.n_ff)))
    r = ggml.ggml_sigmoid(ctx, g.linear(r, b + "receptance", c.n_embd))
    return ggml.ggml_mul(ctx, r, g.linear(k, b + "value", c.n_embd))
