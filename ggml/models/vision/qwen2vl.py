"""Qwen 2 VL (arXiv:2409.12191): pictures in their own shape, whose patches have rotary positions and merge by squares.

Within the encoder, the patches of each square follow one another.
"""

import ctypes

import numpy as np

import ggml

from . import pixels
from .encoder import ROPE_BASE, between, layer, norm, patches, positions

FEWEST, MOST = 8, 4096  # tokens of a picture, where the file does not say


def sides(c):
    """The pixels of a patch, and how many patches a square has in a row."""
    return c.own["patch"], c.own["merge"] or 2


def tiles(c, image):
    """The picture in whole squares of patches, of about its shape."""
    patch, side = sides(c)
    square = patch * side
    least, most = (given or n * square * square for given, n in zip(c.own["pixels"], (FEWEST, MOST), strict=True))
    width, height = pixels.fitting(image.size, square, least, most)
    return [pixels.resized(image, (width, height), pixels.BICUBIC)], (width // square, height // square)


def order(c, columns, rows):
    """The patches in the order of the encoder: i32 [N]."""
    _, side = sides(c)
    grid = np.arange(columns * rows).reshape(rows // side, side, columns // side, side)
    return grid.transpose(0, 2, 1, 3).reshape(-1)


def rotated(g, x):
    """Rotary positions in two dimensions: half of the pairs of a head by the row of the patch, half by its column."""
    size = x.contents.ne[0]
    sections = (ctypes.c_int * 4)(*[size // 4] * 4)
    return ggml.ggml_rope_multi(g.ctx, x, g.inputs.positions, None, size // 2, sections, ggml.GGML_ROPE_TYPE_VISION, 0,
                                ROPE_BASE, 1.0, 0.0, 1.0, 0.0, 0.0)  # fmt: skip


def encode(g, given, columns):
    """The states of the patches after all layers: [C, N]."""
    x = g.point("v.embd", ggml.ggml_get_rows(g.ctx, patches(g, given), g.inputs.ids))
    for i in range(g.config.n_layer):
        x = layer(g, i, x)
    return x


def squares(g, x):
    """The patches of each square one below the other: [4 C, N / 4]."""
    width, count = x.contents.ne[0], sides(g.config)[1] ** 2
    return ggml.ggml_reshape_2d(g.ctx, x, width * count, x.contents.ne[1] // count)


def project(g, x, columns):
    """W2 gelu(W0 norm(x)), of the patches of a square."""
    return between(g, squares(g, norm(g, x, "v.post_ln")), "mm.0", "mm.2")


def places(grid):
    """Time, row and column of each token."""
    columns, rows = grid
    row, column = positions(columns, rows)
    return [np.stack([0 * row, row, column], 1)]


def prompt(grid):
    """The tokens between marks."""
    return ["<|vision_start|>", 0, "<|vision_end|>"]
