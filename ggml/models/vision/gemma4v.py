"""Gemma 4's encoder: norms around both parts of a layer, positions of columns and of rows, squares that are averaged.

Pictures keep their shape. A row is a row of patches, whose numbers of rows and columns are multiples of the squares'.
"""

import math

import ggml
from ggml.utils import to_numpy

from . import encoder, pixels

BASE = 100.0  # of the rotary positions
TOKENS = 280  # most embeddings of a picture, where the file does not say


def sides(c):
    """The pixels of a patch, and how many patches a square has in a row."""
    return c.own["patch"], c.own["merge"] or 3


def area(c):
    """The pixels that every picture has at most, and nearly has."""
    return c.own["pixels"][1] or TOKENS * math.prod(sides(c)) ** 2


def tiles(c, image):
    """The picture in about its shape, with as many pixels as there may be."""
    unit, most = math.prod(sides(c)), area(c)
    factor = math.sqrt(most / (image.width * image.height))
    width, height = (math.floor(factor * n / unit) * unit for n in image.size)
    longest = most // unit**2 * unit
    if width == 0:
        width, height = unit, min(image.height // image.width * unit, longest)
    elif height == 0:
        width, height = min(image.width // image.height * unit, longest), unit
    return [pixels.resized(image, (width, height), pixels.BICUBIC)], (1, 1)


def positions(columns, rows):
    """The column, then the row of each patch: [2, N]."""
    return encoder.positions(columns, rows)[::-1]


def lines(g, i):
    """The columns (0) or rows (1) of the patches, i32 [N]."""
    n = g.n_tokens
    return ggml.ggml_view_1d(g.ctx, g.inputs.positions, n, 4 * n * i)


def embed(g, x):
    """x = W (2 patch - 1) + position of the column + position of the row."""
    c, ctx, side = g.config, g.ctx, g.config.own["patch"]
    w = g.weight("v.patch_embd.weight", side, side, 3, c.n_embd)
    x = ggml.ggml_scale_bias(ctx, x, 2.0, -1.0)
    x = ggml.ggml_mul_mat(ctx, ggml.ggml_reshape_2d(ctx, w, 3 * side * side, c.n_embd), x)
    table = g.weights.get("v.position_embd.weight")
    size = table.contents.ne[1] if table is not None else 1
    table = g.weight("v.position_embd.weight", c.n_embd, size, 2)
    for i in range(2):
        half = ggml.ggml_view_2d(ctx, table, c.n_embd, size, table.contents.nb[1], i * table.contents.nb[2])
        x = g.add(x, ggml.ggml_get_rows(ctx, half, lines(g, i)))
    return g.point("v.embd", x)


def linear(g, x, name, n_out):
    """W x, whose operand and result the file may limit."""
    return limited(g, g.linear(limited(g, x, f"{name}.input"), name, n_out), f"{name}.output")


def limited(g, x, name):
    """x within two numbers of the file, if it has them."""
    if not g.has(name + "_min"):
        return x
    ends = [g.weight(f"{name}_{end}", 1) for end in ("min", "max")]
    low, high = (float(to_numpy(t).reshape(-1)[0]) if t.contents.data else 0.0 for t in ends)
    if math.isnan(low) or math.isnan(high) or low > high:
        raise ValueError(f"load: tensors '{name}_min' and '{name}_max' are {low:g} and {high:g}: need numbers in order")
    return ggml.ggml_clamp(g.ctx, x, low, high)


def rotated(g, x):
    """Rotary positions: half of each head by the column of the patch, half by its row."""
    (size, n_head, n), nb = x.contents.ne[:3], x.contents.nb
    first, second = (
        ggml.ggml_rope_ext(
            g.ctx, ggml.ggml_view_3d(g.ctx, x, size // 2, n_head, n, nb[1], nb[2], i * size // 2 * nb[0]), lines(g, i),
            None, size // 2, ggml.GGML_ROPE_TYPE_NEOX, 0, BASE, 1.0, 0.0, 1.0, 0.0, 0.0,
        )
        for i in range(2)
    )  # fmt: skip
    return ggml.ggml_concat(g.ctx, first, second, 0)


def layer(g, i, x):
    """x += norm(attention(norm(x))), then x += norm(ffn(norm(x)))."""
    c, b = g.config, f"v.blk.{i}."
    h = g.rms_norm(x, b + "ln1")
    q, k, v = (g.heads(linear(g, h, b + f"attn_{part}", c.n_embd), c.n_head) for part in "qkv")
    q, k = (rotated(g, g.rms_norm(y, b + f"attn_{part}_norm")) for y, part in ((q, "q"), (k, "k")))
    h = g.attention(i, q, k, ggml.ggml_rms_norm(g.ctx, v, c.eps), 1.0)
    x = g.add(x, g.rms_norm(linear(g, h, b + "attn_out", c.n_embd), b + "attn_post_norm"))
    h = g.rms_norm(x, b + "ln2")
    gate, up = (linear(g, h, b + f"ffn_{part}", c.n_ff) for part in ("gate", "up"))
    h = linear(g, ggml.ggml_mul(g.ctx, c.own["activation"](g.ctx, gate), up), b + "ffn_down", c.n_embd)
    return g.point(b + "out", g.add(x, g.rms_norm(h, b + "ffn_post_norm")))


def encode(g, x, columns):
    """The states of the patches after all layers: [C, N]."""
    x = embed(g, x)
    for i in range(g.config.n_layer):
        x = layer(g, i, x)
    return x


def project(g, x, columns):
    """W norm((mean of squares of patches * sqrt(C) - bias) * scale)."""
    c, ctx, width, side = g.config, g.ctx, g.config.n_embd, sides(g.config)[1]
    rows = x.contents.ne[1] // columns
    x = ggml.ggml_reshape_3d(ctx, ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, x)), columns, rows, width)
    x = ggml.ggml_pool_2d(ctx, x, ggml.GGML_OP_POOL_AVG, side, side, side, side, 0, 0)
    x = ggml.ggml_reshape_2d(ctx, x, (columns // side) * (rows // side), width)
    x = g.scale(ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, x)), math.sqrt(width))
    if g.has("v.std_bias"):
        x = ggml.ggml_mul(ctx, ggml.ggml_sub(ctx, x, g.weight("v.std_bias", width)), g.weight("v.std_scale", width))
    w = g.weights.get("mm.input_projection.weight")
    return g.linear(ggml.ggml_rms_norm(ctx, x, c.eps), "mm.input_projection", w.contents.ne[1] if w is not None else 1)


def prompt(grid):
    """The tokens between marks."""
    return ["<|image>", 0, "<image|>"]
