"""Qwen 3 Next and Qwen 3.5: gated delta nets (arXiv:2412.06464) with short convolutions, and in every fourth layer
attention with a gate."""

import ggml

from . import keeps, qwen_moe
from .llama import embed, feed_forward, head
from .recurrent import by_sequence, heads_and_state

__all__ = ["caches", "embed", "head", "keys", "layer"]


def keys(k):
    """The sizes of the delta nets, the layers with attention, the experts."""
    n_layer = k.integer("block_count", high=4096) - k.integer("nextn_predict_layers", 0, low=0)
    every = k.integer("full_attention_interval", 4, high=4096)
    own = {
        "attends": tuple((i + 1) % every == 0 for i in range(n_layer)),
        "taps": k.integer("ssm.conv_kernel", low=2, high=64),
        "size": k.integer("ssm.state_size", high=4096),
        "key_heads": k.integer("ssm.group_count", high=4096),
        "value_heads": k.integer("ssm.time_step_rank", high=4096),
    }
    if own["value_heads"] % own["key_heads"]:
        raise ValueError(
            f"load: {k.path}: key '{k.arch}.ssm.time_step_rank' is {own['value_heads']}: "
            f"need a multiple of the {own['key_heads']} groups"
        )
    k.integer("ssm.inner_size", low=(inner := own["size"] * own["value_heads"]), high=inner)
    return own | (qwen_moe.keys(k) if k.arch != "qwen35" else {})


def caches(c):
    """Keys and values, or the inputs of the convolution and the states of the delta net."""
    size, n_k, n_v = (c.own[name] for name in ("size", "key_heads", "value_heads"))
    return keeps.usual(c, (keeps.ShortConv(size * (2 * n_k + n_v), c.own["taps"]), keeps.Recurrent(size * size * n_v)))


def layer(g, i, x):
    """x += attention(norm(x)) or net(norm(x)), then x += ffn(norm(x))."""
    c, b = g.config, f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    h = attention(g, i, h) if c.attends[i] else delta_net(g, i, h)
    experts = (lambda *args: qwen_moe.experts(g, *args)) if c.n_expert else None
    return feed_forward(g, i, x, h, experts, "post_attention_norm")


def attention(g, i, h):
    """Attention whose heads are multiplied by a gate; its matrix follows the queries of each head."""
    c, b, size = g.config, f"blk.{i}.", g.config.key_dim
    both = g.heads(g.linear(h, b + "attn_q", 2 * size * c.n_head), c.n_head)  # [2 D, H, N]
    nb = both.contents.nb
    q, gate = (
        ggml.ggml_view_3d(g.ctx, both, size, c.n_head, g.n_tokens, nb[1], nb[2], 4 * size * part) for part in (0, 1)
    )
    k, v = (g.heads(g.linear(h, b + name, size * c.n_head_kv), c.n_head_kv) for name in ("attn_k", "attn_v"))
    q, k = g.rotated(i, g.rms_norm(q, b + "attn_q_norm"), g.rms_norm(k, b + "attn_k_norm"))
    gate = ggml.ggml_sigmoid(g.ctx, ggml.ggml_cont_2d(g.ctx, gate, size * c.n_head, g.n_tokens))
    h = ggml.ggml_mul(g.ctx, g.attention(i, q, k, v, g.default_scale()), gate)
    return g.point(b + "attn_out", g.linear(h, b + "attn_output", c.n_embd))


def delta_net(g, i, h):
    """out(norm(net(conv(qkv h))) * silu(gate h))."""
    c, b, own, ctx = g.config, f"blk.{i}.", g.config.own, g.ctx
    size, n_k, n_v = own["size"], own["key_heads"], own["value_heads"]
    qkv = g.linear(h, b + "attn_qkv", size * (2 * n_k + n_v))
    gate = g.linear(h, b + "attn_gate", size * n_v)
    beta, alpha = strengths(g, i, h)
    qkv = ggml.ggml_silu(ctx, g.short_conv(i, qkv, b + "ssm_conv1d", own["taps"]))
    q, k, v = g.split(qkv, n_k, n_k, n_v)
    q, k = (spread(g, ggml.ggml_l2_norm(ctx, x, c.eps)) for x in (q, k))
    decay = ggml.ggml_softplus(ctx, g.add(alpha, g.weight(b + "ssm_dt.bias", n_v)))
    decay = ggml.ggml_mul(ctx, decay, g.weight(b + "ssm_a", n_v))
    decay, beta = (ggml.ggml_reshape_3d(ctx, x, 1, n_v, g.n_tokens) for x in (decay, ggml.ggml_sigmoid(ctx, beta)))
    state = ggml.ggml_reshape_4d(ctx, g.state(i, size * size * n_v), size, size, n_v, g.inputs.n_sequences)
    q, k, v, decay, beta = (by_sequence(g, x) for x in (q, k, v, decay, beta))
    y = ggml.ggml_gated_delta_net(ctx, q, k, v, decay, beta, state, 1)
    y = g.rms_norm(heads_and_state(g, i, y, n_v), b + "ssm_norm")
    y = ggml.ggml_mul(ctx, ggml.ggml_reshape_2d(ctx, y, size * n_v, g.n_tokens), ggml.ggml_silu(ctx, gate))
    return g.point(b + "net_out", g.linear(y, b + "ssm_out", c.n_embd))


def strengths(g, i, h):
    """The strengths of the update and the steps of the decay before their functions, [heads, N] each.

    Qwen 3 Next has one matrix for both, in which they alternate by groups of heads.
    """
    b, own = f"blk.{i}.", g.config.own
    n_k, n_v = own["key_heads"], own["value_heads"]
    if g.config.arch != "qwen3next":
        return g.linear(h, b + "ssm_beta", n_v), g.linear(h, b + "ssm_alpha", n_v)
    both = g.linear(h, b + "ssm_ba", 2 * n_v)
    both = ggml.ggml_reshape_3d(g.ctx, both, 2 * n_v // n_k, n_k, g.n_tokens)
    nb, group = both.contents.nb, n_v // n_k
    parts = (ggml.ggml_view_3d(g.ctx, both, group, n_k, g.n_tokens, nb[1], nb[2], 4 * group * part) for part in (0, 1))
    return [ggml.ggml_cont_2d(g.ctx, part, n_v, g.n_tokens) for part in parts]


def spread(g, x):
    """Queries or keys [size, groups, N] as the heads of values use them.

    In files of Qwen 3.5, head h uses group h mod groups, as the operation does; in those of Qwen 3 Next h // groups.
    """
    own, (size, groups) = g.config.own, x.contents.ne[:2]
    if g.config.arch != "qwen3next" or groups == own["value_heads"]:
        return x
    x = ggml.ggml_reshape_4d(g.ctx, x, size, 1, groups, g.n_tokens)
    x = ggml.ggml_repeat_4d(g.ctx, x, size, own["value_heads"] // groups, groups, g.n_tokens)
    return ggml.ggml_reshape_3d(g.ctx, x, size, own["value_heads"], g.n_tokens)
