"""Pixtral (arXiv:2410.07073) and Mistral 3: pictures in their own shape, whose patches have rotary positions in it."""

import math

import numpy as np

import ggml

from . import pixels
from .encoder import linear, merged


def tiles(c, image):
    """The picture with at most `image_size` pixels at the longer side, as whole patches or squares of these."""
    patch = c.own["patch"] * (c.own["merge"] or 1)
    ratio = max(image.size) / c.own["image"]
    size = [math.floor(n / ratio) if ratio > 1 else n for n in image.size]
    width, height = (max(patch, pixels.ceil_to(n, patch)) for n in size)
    return [pixels.resized(image, (width, height), pixels.BICUBIC)], (width // patch, height // patch)


def positions(columns, rows):
    """The row, then the column of each patch: [2 N]."""
    return np.concatenate([np.repeat(np.arange(rows), columns), np.tile(np.arange(columns), rows)])


def project(g, x, columns):
    """W2 gelu(W1 x) of each patch, or of a matrix times the patches of a square."""
    side = g.config.own["merge"] or 1
    if g.has("mm.input_norm.weight"):
        x = g.rms_norm(x, "mm.input_norm")
    if side > 1:
        width = x.contents.ne[0]
        x = merged(g, x, columns, side)
        count = x.contents.ne[1]
        x = ggml.ggml_reshape_3d(g.ctx, x, width, side * side, count)  # the matrix takes them channel by channel
        x = ggml.ggml_cont(g.ctx, ggml.ggml_permute(g.ctx, x, 1, 0, 2, 3))
        x = linear(g, ggml.ggml_reshape_2d(g.ctx, x, width * side * side, count), "mm.patch_merger")
    return linear(g, ggml.ggml_gelu_erf(g.ctx, linear(g, x, "mm.1")), "mm.2")


def split(tiles, grid):
    """The tokens row by row."""
    return list(tiles[0].reshape(grid[1], grid[0], -1))


def prompt(grid):
    """Rows, each with a mark at its end."""
    parts = [part for row in range(grid[1]) for part in (row, "[IMG_BREAK]")]
    return [*parts[:-1], "[IMG_END]"]
