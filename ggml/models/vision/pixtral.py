"""Pixtral (arXiv:2410.07073) and Mistral 3: pictures in their own shape, whose patches have rotary positions in it."""

import math

import ggml

from . import pixels
from .encoder import ROPE_BASE, between, linear, merged, positions

__all__ = ["positions", "project", "prompt", "rotated", "sides", "split", "tiles"]


def sides(c):
    """The pixels of a patch, and how many patches a square has in a row."""
    return c.own["patch"], c.own["merge"] or 1


def tiles(c, image):
    """The picture with at most `image_size` pixels at the longer side, as whole patches or squares of these."""
    patch = math.prod(sides(c))
    ratio = max(image.size) / c.own["image"]
    size = [math.floor(n / ratio) if ratio > 1 else n for n in image.size]
    width, height = (max(patch, pixels.ceil_to(n, patch)) for n in size)
    return [pixels.resized(image, (width, height), pixels.BICUBIC)], (width // patch, height // patch)


def rotated(g, x):
    """Rotary positions in two dimensions: half of each head by the row of the patch, half by its column.

    Of the frequencies 10000^(-2 i / D), those of even i rotate the former and those of odd i the latter.
    """
    ctx, (size, n_head, n), nb = g.ctx, x.contents.ne[:3], x.contents.nb
    halves = []
    for i, scale in enumerate((1.0, ROPE_BASE ** (-2 / size))):
        half = ggml.ggml_view_3d(ctx, x, size // 2, n_head, n, nb[1], nb[2], i * size // 2 * nb[0])
        places = ggml.ggml_view_1d(ctx, g.inputs.positions, n, 4 * n * i)
        mode = ggml.GGML_ROPE_TYPE_NORMAL
        halves.append(
            ggml.ggml_rope_ext(ctx, half, places, None, size // 2, mode, 0, ROPE_BASE, scale, 0.0, 1.0, 0.0, 0.0)
        )
    first, second = halves
    return ggml.ggml_concat(ctx, first, second, 0)


def project(g, x, columns):
    """W2 gelu(W1 x) of each patch, or of a matrix times the patches of a square."""
    side = sides(g.config)[1]
    if g.has("mm.input_norm.weight"):
        x = g.rms_norm(x, "mm.input_norm")
    if side > 1:
        width = x.contents.ne[0]
        x = merged(g, x, columns, side)
        count = x.contents.ne[1]
        x = ggml.ggml_reshape_3d(g.ctx, x, width, side * side, count)  # the matrix takes them channel by channel
        x = ggml.ggml_cont(g.ctx, ggml.ggml_permute(g.ctx, x, 1, 0, 2, 3))
        x = linear(g, ggml.ggml_reshape_2d(g.ctx, x, width * side * side, count), "mm.patch_merger")
    return between(g, x, "mm.1", "mm.2")


def split(c, tiles, grid):
    """The tokens row by row."""
    return list(tiles[0].reshape(grid[1], grid[0], -1))


def prompt(grid):
    """Rows, each with a mark at its end."""
    parts = [part for row in range(grid[1]) for part in (row, "[IMG_BREAK]")]
    return [*parts[:-1], "[IMG_END]"]
