"""Qwen 2.5 VL (arXiv:2502.13923): as Qwen 2 VL, but patches see those of their window only in most layers.

Within the encoder, the squares of each window follow one another, and windows of one size do.
"""

import numpy as np

import ggml

from . import qwen2vl
from .encoder import layer, patches, positions
from .qwen2vl import places, project, prompt, rotated, sides, tiles

__all__ = ["encode", "order", "places", "positions", "project", "prompt", "rotated", "sides", "split", "tiles"]


def window(c):
    """How many squares a window has in a row."""
    patch, side = sides(c)
    return max(1, c.own["window_size"] // (patch * side))


def sees_all(c, i):
    """Whether the patches of a layer see all others."""
    listed, every = c.own["whole_layers"]
    return i in listed if listed is not None else (i + 1) % every == 0


def windows(c, columns, rows):
    """The windows of a picture of so many squares, by their sizes: lists of arrays with the numbers of squares."""
    side, grid = window(c), np.arange(columns * rows).reshape(rows, columns)
    found: dict = {}
    for y in range(0, rows, side):
        for x in range(0, columns, side):
            part = grid[y : y + side, x : x + side]
            found.setdefault(part.shape, []).append(part.reshape(-1))
    return list(found.values())


def square_order(c, columns, rows):
    """The squares in the order of the encoder."""
    return np.concatenate([part for size in windows(c, columns, rows) for part in size])


def order(c, columns, rows):
    """The patches in the order of the encoder: i32 [N]."""
    side = sides(c)[1]
    by_square = qwen2vl.order(c, columns, rows).reshape(-1, side * side)
    return by_square[square_order(c, columns // side, rows // side)].reshape(-1)


def encode(g, given, columns):
    """The states of the patches after all layers: [C, N]."""
    x = g.point("v.embd", ggml.ggml_get_rows(g.ctx, patches(g, given), g.inputs.ids))
    side = sides(g.config)[1]
    parts = windows(g.config, columns // side, x.contents.ne[1] // columns // side)
    sizes = [(len(size), len(size[0]) * side * side) for size in parts]

    def by_windows(i, q, k, v, scale):
        """Attention within windows."""
        results, first = [], 0
        for count, length in sizes:
            heads = [inside(g, t, first, count, length) for t in (q, k, v)]
            h = ggml.ggml_flash_attn_ext(g.ctx, heads[0], heads[1], heads[2], None, scale, 0.0, 0.0)
            results.append(ggml.ggml_reshape_2d(g.ctx, h, g.config.n_embd, length * count))
            first += count * length
        y = results[0]
        for part in results[1:]:
            y = ggml.ggml_concat(g.ctx, y, part, 1)
        return y

    for i in range(g.config.n_layer):
        x = layer(g, i, x, None if sees_all(g.config, i) else by_windows)
    return x


def inside(g, x, first, count, length):
    """`count` windows of `length` patches from patch `first` on, by heads: [D, length, H, count] of x [D, H, N]."""
    (size, heads), nb = x.contents.ne[:2], x.contents.nb
    x = ggml.ggml_view_4d(g.ctx, x, size, heads, length, count, nb[1], nb[2], length * nb[2], first * nb[2])
    return ggml.ggml_permute(g.ctx, x, 0, 2, 1, 3)


def split(c, tiles, grid):
    """The tokens in the order of the picture."""
    rows = np.empty_like(tiles[0])
    rows[square_order(c, *grid)] = tiles[0]
    return [rows]
