"""MiniCPM-V 4.6: as its predecessors up to a layer, where windows of patches merge; squares of these become tokens.

Within the encoder, the patches of each window follow one another, and the windows of each square do.
"""

import math

import numpy as np

import ggml

from . import minicpm
from .encoder import between, layer, layer_norm, norm
from .minicpm import lookup, prompt
from .qwen25vl import inside

__all__ = ["encode", "lookup", "order", "project", "prompt", "sides", "tiles"]

WINDOW = 2  # patches of a row of a window, and windows or patches of a row of a square
MERGES_AFTER = 6  # this layer, where the file does not say


def sides(c):
    """The pixels of a patch, and how many patches a token has in a row: 4, or 2 without windows."""
    return c.own["patch"], c.own["merge"] or WINDOW * WINDOW


def tiles(c, image):
    """The whole picture in about its shape, then slices, in whole tokens."""
    return minicpm.sliced(image, c.own["image"], math.prod(sides(c)), c.own["tiles"][1] or minicpm.SLICES)


def order(c, columns, rows):
    """The patches in the order of the encoder: [N]."""
    places, side = np.arange(columns * rows).reshape(1, rows, columns), sides(c)[1]
    while side > 1:  # squares in the order of the picture, then what they consist of
        height, width = places.shape[1] // side, places.shape[2] // side
        places = places.reshape(-1, height, side, width, side).swapaxes(2, 3).reshape(-1, side, side)
        side //= WINDOW
    return places.reshape(-1)


def encode(g, given, columns):
    """The states of the patches, or of windows, after all layers: [C, N]."""
    c, side = g.config, sides(g.config)[1]
    if side not in (WINDOW, WINDOW * WINDOW):
        raise ValueError(f"load: key 'clip.vision.projector.scale_factor' is {side}: need 2 or 4")
    last = (c.own["whole_layers"][0] or (MERGES_AFTER,))[0]
    if side > WINDOW and last >= c.n_layer:
        raise ValueError(f"load: key 'clip.vision.wa_layer_indexes' is [{last}]: need a layer below {c.n_layer}")
    x = minicpm.embed(g, given)
    for i in range(c.n_layer):
        x = layer(g, i, x)
        if i == last and side > WINDOW:
            x = windows(g, x)
    return norm(g, x, "v.post_ln")


def windows(g, x):
    """x += attention of each window to itself (norm(x)), then the mean of a window + ffn(norm(its patches))."""
    c, ctx, b = g.config, g.ctx, "v.vit_merger."
    count = g.n_tokens // WINDOW**2
    h = g.layer_norm(x, b + "ln1")
    q, k, v = (g.heads(g.linear(h, b + f"attn_{name}", c.n_embd), c.n_head) for name in "qkv")
    q, k, v = (inside(g, t, 0, count, WINDOW**2) for t in (q, k, v))
    h = ggml.ggml_flash_attn_ext(ctx, q, k, v, None, g.default_scale(), 0.0, 0.0)
    x = g.add(x, g.linear(ggml.ggml_reshape_2d(ctx, h, c.n_embd, g.n_tokens), b + "attn_out", c.n_embd))
    g.n_tokens = count
    x = ggml.ggml_reshape_2d(ctx, x, WINDOW**2 * c.n_embd, count)
    parts = [ggml.ggml_view_2d(ctx, x, c.n_embd, count, x.contents.nb[1], i * 4 * c.n_embd) for i in range(WINDOW**2)]
    mean = g.scale(g.add(g.add(g.add(*parts[:2]), parts[2]), parts[3]), 1 / WINDOW**2)
    h = g.layer_norm(x, b + "ds_ln")
    up = g.weights.get(b + "ds_ffn_up.weight")
    h = ggml.ggml_gelu(ctx, g.linear(h, b + "ds_ffn_up", up.contents.ne[1] if up is not None else 1))
    return g.point("v.vit_merger.out", g.add(g.linear(h, b + "ds_ffn_down", c.n_embd), mean))


def project(g, x, columns):
    """W2 gelu(W1 norm(the patches or windows of each square))."""
    width, count = WINDOW**2 * g.config.n_embd, g.n_tokens // WINDOW**2
    x = layer_norm(g, ggml.ggml_reshape_2d(g.ctx, x, width, count), "mm.input_norm", 1e-6)
    return between(g, x, "mm.up", "mm.down")
