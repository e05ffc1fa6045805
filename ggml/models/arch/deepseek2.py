"""DeepSeek V2 (arXiv:2405.04434) and V3 (arXiv:2412.19437): keys and values of all heads are made of one short vector
of each token, the latent one, and only that is stored; mixtures of experts in groups after some dense layers."""

import math
from dataclasses import replace

import ggml

from . import dense_first, keeps
from .llama import embed, head

__all__ = ["attention", "caches", "embed", "head", "keys", "latent_keys", "layer"]


def keys(k):
    """Those of mixtures of experts after dense layers, and those of latent attention."""
    return dense_first.keys(k) | latent_keys(k)


def latent_keys(k):
    """Sizes of the latent vectors and of the heads that are made of them, and the strength of YaRN's factor."""
    whole = k.integer("attention.key_length_mla", k.integer("attention.key_length"), high=65536)
    k.integer("rope.dimension_count", low=2, high=whole - 1)
    return {
        "q_rank": k.integer("attention.q_lora_rank", 0, low=0),
        "kv_rank": k.integer("attention.kv_lora_rank"),
        "head_dim": whole,
        "head_value_dim": k.integer("attention.value_length_mla", k.integer("attention.value_length"), high=65536),
        "latent": k.has("attention.key_length_mla"),
        "yarn_strength": k.number("rope.scaling.yarn_log_multiplier", 0.0) / 0.1,
    }


def caches(c):
    """[latent, rotated], the first part of which is the value too; of old files the keys and values of all heads."""
    return [keeps.Latent(c.key_dim, c.value_dim)] * c.n_layer if c.own["latent"] else keeps.usual(c)


def layer(g, i, x):
    """x += attention(norm(x)), then x += ffn(norm(x))."""
    b = f"blk.{i}."
    x, h = g.keep_last(i, x, attention(g, i, x))
    x = g.point(b + "ffn_in", g.add(x, h))
    h = g.point(b + "ffn_norm", g.rms_norm(x, b + "ffn_norm"))
    return g.point(b + "out", g.add(x, g.point(b + "ffn_out", dense_first.feed_forward(g, i, h))))


def attention(g, i, x):
    """attention(norm(x)): [C, N]. R is the size of the latent vector, P that of the part of a head that is rotated.

    A head of keys is [W_k latent, rotated], its values W_v latent, and the rotated part is the same in all heads. As
    q . (W_k latent) = (W_k^T q) . latent, all heads can read [latent, rotated] as keys, and latent as values, and W_v
    is applied to what attention gives. Old files have one matrix of W_k and W_v, with which keys and values are made.
    """
    g.check_undivided()
    c, own, ctx, b, n = g.config, g.config.own, g.ctx, f"blk.{i}.", g.n_tokens
    fixed = own["head_dim"] - c.n_rot  # elements of a head that are not rotated
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    q = g.heads(queries(g, b, h), c.n_head)
    rotated = rotate(g, i, part(g, q, fixed, c.n_rot))
    q = part(g, q, 0, fixed)
    both = g.heads(g.linear(h, b + "attn_kv_a_mqa", own["kv_rank"] + c.n_rot), 1)
    latent = g.rms_norm(part(g, both, 0, own["kv_rank"]), b + "attn_kv_a_norm")  # [R, 1, N]
    shared = rotate(g, i, part(g, both, own["kv_rank"], c.n_rot))  # [P, 1, N]
    scale = factor_of_scores(c) / math.sqrt(own["head_dim"])

    if g.has(b + "attn_kv_b.weight"):
        size = fixed + own["head_value_dim"]
        made = g.linear(ggml.ggml_reshape_2d(ctx, latent, own["kv_rank"], n), b + "attn_kv_b", c.n_head * size)
        made = g.heads(made, c.n_head)
        shared = ggml.ggml_repeat_4d(ctx, shared, c.n_rot, c.n_head, n, 1)
        k = ggml.ggml_concat(ctx, part(g, made, 0, fixed), shared, 0)
        q, v = ggml.ggml_concat(ctx, q, rotated, 0), part(g, made, fixed, own["head_value_dim"])
        h = g.attention(i, q, k, ggml.ggml_cont(ctx, v), scale)
    else:
        q = by_head(g, q, g.weight(b + "attn_k_b.weight", fixed, own["kv_rank"], c.n_head))
        q, k = ggml.ggml_concat(ctx, q, rotated, 0), ggml.ggml_concat(ctx, latent, shared, 0)
        y = g.heads(g.attention(i, q, k, latent, scale), c.n_head)
        y = by_head(g, y, g.weight(b + "attn_v_b.weight", own["kv_rank"], own["head_value_dim"], c.n_head))
        h = ggml.ggml_reshape_2d(ctx, y, c.n_head * own["head_value_dim"], n)
    return g.point(b + "attn_out", g.linear(h, b + "attn_output", c.n_embd))


def queries(g, b, h):
    """The queries of all heads, by one matrix or by two with a norm between them."""
    own, n_out = g.config.own, g.config.n_head * g.config.own["head_dim"]
    if not own["q_rank"]:
        return g.linear(h, b + "attn_q", n_out)
    return g.linear(g.rms_norm(g.linear(h, b + "attn_q_a", own["q_rank"]), b + "attn_q_a_norm"), b + "attn_q_b", n_out)


def part(g, x, first, size):
    """`size` elements of each head of x: [size, heads, N]."""
    (_, heads, n, _), (_, of_head, of_token, _) = x.contents.ne, x.contents.nb
    return ggml.ggml_cont(g.ctx, ggml.ggml_view_3d(g.ctx, x, size, heads, n, of_head, of_token, 4 * first))


def by_head(g, x, w):
    """Matrix h of w [n_in, n_out, H] times head h of x: [n_out, H, N] from [n_in, H, N]."""
    y = ggml.ggml_mul_mat(g.ctx, w, ggml.ggml_permute(g.ctx, x, 0, 2, 1, 3))  # [n_out, N, H]
    return ggml.ggml_cont(g.ctx, ggml.ggml_permute(g.ctx, y, 0, 2, 1, 3))


def rotate(g, i, x):
    """Rotary positions, without YaRN's factor of q and k where the file has one of the scores in its place."""
    c, (rope, factors) = g.config, g.rotation(i)
    if c.rope.ext_factor and c.own["yarn_strength"]:  # ggml_rope_ext has the factor where it computes the ramp
        rope = replace(rope, attn_factor=1 / (1 - 0.1 * math.log(rope.freq_scale)) if rope.ext_factor else 1.0)
    return g.rope(x, c.rope_mode, rope, factors)


def factor_of_scores(c):
    """YaRN's factor of the scores, squared as both q and k would have it."""
    return (1 - 0.1 * c.own["yarn_strength"] * math.log(c.rope.freq_scale)) ** 2
