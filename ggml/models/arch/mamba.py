"""Mamba (arXiv:2312.00752), Falcon Mamba and Mamba 2 (arXiv:2405.21060): selective state spaces, which other models use
beside attention."""

import ggml

from . import keeps
from .llama import embed, head
from .recurrent import by_sequence, slices

__all__ = ["caches", "embed", "head", "keys", "layer", "mamba2", "sizes", "states"]


def sizes(k):
    """The sizes of the state spaces."""
    own = {
        "taps": k.integer("ssm.conv_kernel", low=2, high=64),
        "inner": k.integer("ssm.inner_size"),
        "state": k.integer("ssm.state_size", high=4096),
        "rank": k.integer("ssm.time_step_rank"),  # of Mamba 2 the heads
        "groups": k.integer("ssm.group_count", 1, high=65536),
    }
    heads, groups = own["rank"], own["groups"]
    if k.arch != "mamba" and (own["inner"] % heads or heads % groups):
        raise ValueError(
            f"load: {k.path}: key '{k.arch}.ssm.time_step_rank' is {heads}: need a divisor of {own['inner']} and a "
            f"multiple of the {groups} groups"
        )
    return own


def keys(k):
    """The sizes, and whether the steps, B and C are normed."""
    return sizes(k) | {"normed": k.flag("ssm.dt_b_c_rms", False)}


def states(c):
    """The inputs of the convolution, and the states."""
    own = c.own
    channels = own["inner"] + (0 if c.arch == "mamba" else 2 * own["groups"] * own["state"])
    return keeps.ShortConv(channels, own["taps"]), keeps.Recurrent(own["state"] * own["inner"])


def caches(c):
    """The states of each layer."""
    return [states(c)] * c.n_layer


def layer(g, i, x):
    """x += mixer(norm(x))."""
    b = f"blk.{i}."
    h = g.point(b + "attn_norm", g.rms_norm(x, b + "attn_norm"))
    h = (mamba if g.config.arch == "mamba" else mamba2)(g, i, h)
    x, h = g.keep_last(i, x, h)
    return g.point(b + "out", g.add(x, h))


def scan(g, i, x, dt, b, c):
    """y of the scan, [D, heads, N], of x [D, heads, N], dt [heads, N], B and C [state, groups, N]; keeps the states."""
    ctx, own, sequences = g.ctx, g.config.own, g.inputs.n_sequences
    (size, heads), tokens = x.contents.ne[:2], g.n_tokens // sequences
    a = g.weight(f"blk.{i}.ssm_a", own["state"] if g.config.arch == "mamba" else 1, heads)
    x, b, c = (by_sequence(g, t) for t in (x, b, c))
    dt = ggml.ggml_reshape_3d(ctx, dt, heads, tokens, sequences)
    states, places = g.states_and_places(i, own["state"] * own["inner"])
    states = ggml.ggml_reshape_4d(ctx, states, own["state"], size, heads, states.contents.ne[1])
    y = ggml.ggml_ssm_scan(ctx, states, x, dt, a, b, c, places)
    n_y, n_state = own["inner"] * g.n_tokens, own["inner"] * own["state"]
    g.keep(i, ggml.ggml_view_2d(ctx, y, n_state, sequences, 4 * n_state, 4 * n_y))
    return ggml.ggml_reshape_3d(ctx, ggml.ggml_view_1d(ctx, y, n_y, 0), size, heads, g.n_tokens)


def mamba(g, i, h):
    """out(silu(z) * (scan(x) + D x)), with x and z = in(h), and x after a convolution and silu."""
    ctx, own, b = g.ctx, g.config.own, f"blk.{i}."
    inner, rank, state = own["inner"], own["rank"], own["state"]
    x, z = slices(g, g.linear(h, b + "ssm_in", 2 * inner), inner, inner)
    x = ggml.ggml_silu(ctx, g.short_conv(i, x, b + "ssm_conv1d", own["taps"]))
    parts = slices(g, g.linear(x, b + "ssm_x", rank + 2 * state), rank, (state, 1), (state, 1))
    if own["normed"]:
        parts = [ggml.ggml_rms_norm(ctx, part, g.config.eps) for part in parts]
    dt = g.linear(ggml.ggml_cont(ctx, parts[0]), b + "ssm_dt", inner)
    y = scan(g, i, ggml.ggml_reshape_3d(ctx, x, 1, inner, g.n_tokens), dt, *parts[1:])
    y = ggml.ggml_reshape_2d(ctx, y, inner, g.n_tokens)
    y = g.add(y, ggml.ggml_mul(ctx, x, g.weight(b + "ssm_d", inner)))
    y = ggml.ggml_swiglu_split(ctx, ggml.ggml_cont(ctx, z), y)
    return g.point(b + "ssm_out", g.linear(y, b + "ssm_out", g.config.n_embd))


def mamba2(g, i, h):
    """out(norm(silu(z) * (scan(x) + D x))), with z, x, B, C and dt = in(h), and x, B, C after a convolution and silu.

    The norm is by groups; a file may have none.
    """
    ctx, own, b = g.ctx, g.config.own, f"blk.{i}."
    inner, heads, state, groups = own["inner"], own["rank"], own["state"], own["groups"]
    mixed = inner + 2 * groups * state
    z, xbc, dt = slices(g, g.linear(h, b + "ssm_in", inner + mixed + heads), inner, mixed, heads)
    xbc = ggml.ggml_silu(ctx, g.short_conv(i, xbc, b + "ssm_conv1d", own["taps"]))
    x, before, after = slices(g, xbc, (inner // heads, heads), (state, groups), (state, groups))
    dt = g.add(dt, g.weight(b + "ssm_dt.bias", heads))
    y = g.add(scan(g, i, x, dt, before, after), ggml.ggml_mul(ctx, x, g.weight(b + "ssm_d", 1, heads)))
    y = ggml.ggml_reshape_2d(ctx, y, inner, g.n_tokens)
    y = ggml.ggml_swiglu_split(ctx, ggml.ggml_cont(ctx, z), y)
    if g.has(b + "ssm_norm.weight"):
        y = ggml.ggml_rms_norm(ctx, ggml.ggml_reshape_3d(ctx, y, inner // groups, groups, g.n_tokens), g.config.eps)
        y = ggml.ggml_mul(ctx, y, g.weight(b + "ssm_norm.weight", inner // groups, groups))
        y = ggml.ggml_reshape_2d(ctx, y, inner, g.n_tokens)
    return g.point(b + "ssm_out", g.linear(y, b + "ssm_out", g.config.n_embd))
