"""Gemma 3n: Gemma 4's attention and inputs of layers, in a residual stream that has A parts (AltUp, arXiv:2301.13310).

Of the parts, a layer computes one, the active one, and corrects all by it. A low-rank path stands beside attention
(LAuReL, arXiv:2411.07501), and the gates of the first layers are sparse. x [A C, N] has the parts side by side.
"""

import math

import ggml

from . import gemma, gemma4
from .gemma4 import caches

__all__ = ["caches", "embed", "head", "keys", "layer"]
SMALLEST = 1e-5  # mean square by which a part is divided


def keys(k):
    """Those of Gemma 4; the parts, and in how many standard deviations above the mean a gate begins to count."""
    n_layer, size = k.integer("block_count", high=4096), k.integer("attention.key_length", high=65536)
    parts = k.integer("altup.num_inputs", 4, low=2, high=64)
    return {
        "groups": k.integers("attention.head_count_kv", n_layer, high=65536),
        "size": size,
        "size_local": size,
        "n_rot_local": k.integer("rope.dimension_count", size, low=2),
        "shared_layers": k.integer("attention.shared_kv_layers", max(0, n_layer - 20), low=0, high=n_layer - 1),
        "per_layer": k.integer("embedding_length_per_layer_input", 256, high=65536),
        "active": k.integer("altup.active_idx", 0, low=0, high=parts - 1),
        "sparsity": k.numbers("activation_sparsity_scale", n_layer, -math.inf),
        "n_streams": parts,
    }


def embed(g):
    """x = [x0, W x0 for each further part, as long as x0], of the embedding x0."""
    c, x = g.config, gemma4.embed(g)
    w = g.weight("altup_proj.weight", c.n_embd, c.n_embd, c.n_streams - 1)
    parts = [as_long_as(g, multiplied(g, w, i, x), x) for i in range(c.n_streams - 1)]
    return joined(g, [x, *parts])


def multiplied(g, w, i, x):
    """Matrix i of a stack times x."""
    (n_in, n_out), nb = w.contents.ne[:2], w.contents.nb
    return ggml.ggml_mul_mat(g.ctx, ggml.ggml_view_2d(g.ctx, w, n_in, n_out, nb[1], i * nb[2]), x)


def magnitude(g, x, smallest=0.0):
    """The root of the mean square of each token: [1, N]."""
    mean = ggml.ggml_mean(g.ctx, ggml.ggml_sqr(g.ctx, x))
    return ggml.ggml_sqrt(g.ctx, ggml.ggml_clamp(g.ctx, mean, smallest, math.inf) if smallest else mean)


def as_long_as(g, x, other):
    """x with the magnitudes of another."""
    return ggml.ggml_div(g.ctx, ggml.ggml_mul(g.ctx, x, magnitude(g, other)), magnitude(g, x, SMALLEST))


def joined(g, parts):
    """Parts [C, N] side by side: [A C, N]."""
    x = parts[0]
    for part in parts[1:]:
        x = ggml.ggml_concat(g.ctx, x, part, 0)
    return x


def part_of(g, x, i):
    """Part i of x: [C, N]."""
    width = g.config.n_embd
    return ggml.ggml_view_2d(g.ctx, x, width, x.contents.ne[1], x.contents.nb[1], 4 * i * width)


def by_part(g, x):
    """x as [C, A, N]."""
    return ggml.ggml_reshape_3d(g.ctx, x, g.config.n_embd, g.config.n_streams, x.contents.ne[1])


def modalities(g, b, x):
    """tanh(W norm(x) / C): [A, N]."""
    y = g.scale(g.rms_norm(x, b + "altup_router_norm"), 1 / g.config.n_embd)
    return ggml.ggml_tanh(g.ctx, g.linear(y, b + "altup_router", g.config.n_streams))


def predicted(g, b, x):
    """Each part plus a sum over all parts, whose factors depend on the active one: [A C, N]."""
    c, n = g.config, x.contents.ne[1]
    active = part_of(g, x, c.own["active"])
    factors = g.linear(modalities(g, b, active), b + "altup_predict_coef", c.n_streams**2)
    factors = ggml.ggml_reshape_3d(g.ctx, factors, c.n_streams, c.n_streams, n)
    across = ggml.ggml_cont(g.ctx, ggml.ggml_permute(g.ctx, by_part(g, x), 1, 0, 2, 3))  # [A, C, N]
    sums = ggml.ggml_mul_mat(g.ctx, across, factors)  # [C, A, N]
    return g.add(ggml.ggml_reshape_2d(g.ctx, sums, *x.contents.ne[:2]), x)


def corrected(g, b, x, h):
    """Each part x plus a factor times what h, the computed active part, is beyond the predicted one: [A C, N]."""
    c, n = g.config, x.contents.ne[1]
    factors = g.linear(modalities(g, b, h), b + "altup_correct_coef", c.n_streams)
    factors = ggml.ggml_reshape_3d(g.ctx, ggml.ggml_scale_bias(g.ctx, factors, 1.0, 1.0), 1, c.n_streams, n)
    beyond = ggml.ggml_sub(g.ctx, h, part_of(g, x, c.own["active"]))
    beyond = ggml.ggml_reshape_3d(g.ctx, beyond, c.n_embd, 1, n)
    beyond = ggml.ggml_repeat_4d(g.ctx, beyond, c.n_embd, c.n_streams, n, 1)
    return ggml.ggml_reshape_2d(g.ctx, g.add(by_part(g, x), ggml.ggml_mul(g.ctx, beyond, factors)), *x.contents.ne[:2])


def layer(g, i, x):
    """Predicts all parts, computes the active one, corrects all by it, and adds what the layer's input gives."""
    c, own, b = g.config, g.config.own, f"blk.{i}."
    x = predicted(g, b, x)
    h = g.point(b + "attn_norm", g.rms_norm(part_of(g, x, own["active"]), b + "attn_norm"))
    low = g.linear(h, b + "laurel_l", g.weights[b + "laurel_l.weight"].contents.ne[1])
    low = g.add(h, g.rms_norm(g.linear(low, b + "laurel_r", c.n_embd), b + "laurel_post_norm"))
    h = g.point(b + "attn_out", g.linear(gemma4.attention(g, i, h), b + "attn_output", c.n_embd))
    x, h, low, given = g.keep_last(i, x, h, low, gemma4.input_of(g, i))
    h = g.add(part_of(g, x, own["active"]), g.rms_norm(h, b + "post_attention_norm"))
    h = g.point(b + "ffn_in", g.scale(g.add(h, low), math.sqrt(0.5)))
    f = g.point(b + "ffn_out", feed_forward(g, i, g.point(b + "ffn_norm", g.rms_norm(h, b + "ffn_norm"))))
    x = corrected(g, b, x, g.add(h, g.rms_norm(f, b + "post_ffw_norm")))

    first = ggml.ggml_mul(g.ctx, part_of(g, x, own["active"]), g.weight(b + "altup_correct_scale.weight", c.n_embd))
    more = gemma4.from_input(g, b, first, given)
    parts = [part_of(g, x, j) for j in range(c.n_streams)]
    return g.point(b + "out", joined(g, [parts[0], *(g.add(part, more) for part in parts[1:])]))


def feed_forward(g, i, x):
    """gated(x), whose gates are max(0, gate - mean - scale * standard deviation) in layers with a scale."""
    c, b, scale = g.config, f"blk.{i}.ffn", g.config.own["sparsity"][i]
    if scale == -math.inf:
        return g.gated(x, b, ggml.ggml_geglu_split)
    gate = g.linear(x, b + "_gate", c.n_ff)
    gate = ggml.ggml_sub(g.ctx, gate, ggml.ggml_mean(g.ctx, gate))
    gate = ggml.ggml_relu(g.ctx, ggml.ggml_sub(g.ctx, gate, g.scale(magnitude(g, gate), scale)))
    return g.linear(ggml.ggml_geglu_split(g.ctx, gate, g.linear(x, b + "_up", c.n_ff)), b + "_down", c.n_embd)


def head(g, x):
    """norm of the mean of the first part and W x of the others, as long as the first."""
    c, first = g.config, part_of(g, x, 0)
    w = g.weight("altup_unembd_proj.weight", c.n_embd, c.n_embd, c.n_streams - 1)
    y = first
    for i in range(c.n_streams - 1):
        y = g.add(y, as_long_as(g, multiplied(g, w, i, part_of(g, x, i + 1)), first))
    return gemma.head(g, g.scale(y, 1 / c.n_streams))
