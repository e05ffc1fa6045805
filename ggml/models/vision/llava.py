"""LLaVA 1.5 (arXiv:2310.03744) and 1.6: CLIP up to the layer before the last, and two matrices.

1.6 also takes a picture in tiles, of which it leaves out the borders, and marks where a row of patches ends.
"""

import numpy as np

import ggml

from . import pixels
from .encoder import between, without_class

NEWLINES = ("v.image_newline", "model.image_newline")  # the name, and that in older files


def tiles(c, image):
    """The picture in one square: with borders of the mean color, or its middle ("crop"). Or the whole, then tiles."""
    side = c.own["image"]
    if c.own["pinpoints"]:
        size = best_size(image.size, c.own["pinpoints"])
        parts = pixels.bordered(pixels.resized(image, pixels.inside(image.size, size), pixels.BICUBIC), size)
        whole = pixels.resized(image, (side, side), pixels.BICUBIC)
        return [whole, *pixels.tiles_of(parts, side)], (image.size, (size[0] // side, size[1] // side))
    if c.own["fit"] == "pad":
        image = pixels.squared(image, [int(255 * mean) for mean in c.own["mean"]])
        return [pixels.resized(image, (side, side), pixels.BICUBIC)], None
    image = pixels.resized(image, pixels.shortest_edge(image.size, side), pixels.BICUBIC)
    return [pixels.cropped(image, (side, side))], None


def best_size(size, sizes):
    """The size of several that keeps most of a picture's pixels, and of these the one with the least borders."""
    width, height = size

    def kept(box):
        scale = min(box[0] / width, box[1] / height)
        pixels_kept = min(int(width * scale) * int(height * scale), width * height)
        return pixels_kept, pixels_kept - box[0] * box[1]

    return max(sizes, key=kept)


def project(g, x, columns):
    """W2 gelu(W0 x), of each patch; then the mark for the end of a row, where the file has one."""
    x = between(g, without_class(g, x), "mm.0", "mm.2")
    width = x.contents.ne[0]
    for name in filter(g.has, NEWLINES):
        end = ggml.ggml_cast(g.ctx, g.weight(name, width), ggml.GGML_TYPE_F32)
        return ggml.ggml_concat(g.ctx, x, ggml.ggml_reshape_2d(g.ctx, end, width, 1), 1)
    return x


def split(c, tiles, grid):
    """Of a picture in tiles the tokens of the whole of it, then row by row those of all tiles, without the borders."""
    side = c.own["image"] // c.own["patch"]
    if grid is None:
        return [tile[: side * side] for tile in tiles]
    (width, height), (columns, rows) = grid
    ends = np.repeat(tiles[0][side * side :], rows * side, 0)[: rows * side]
    parts = np.stack([tile[: side * side] for tile in tiles[1:]]).reshape(rows, columns, side, side, -1)
    across, down = columns * side, rows * side
    patches = parts.transpose(0, 2, 1, 3, 4).reshape(down, across, -1)
    if width / height > across / down:
        border = (down - int(round(height * (across / width), 7))) // 2
        patches = patches[border : down - border]
    else:
        border = (across - int(round(width * (down / height), 7))) // 2
        patches = patches[:, border : across - border]
    if len(ends):
        patches = np.concatenate([patches, ends[: len(patches), None]], 1)
    return [np.concatenate([tiles[0][: side * side], patches.reshape(-1, patches.shape[-1])])]


def prompt(grid):
    """The patches alone."""
    return [0]
