"""LFM2 VL (arXiv:2511.23404): SigLIP 2 for pictures of any shape, large ones in tiles; squares of patches merge."""

import ggml

from . import pixels
from .encoder import between, layer, layer_norm, merged, norm, patches, resized_positions
from .internvl import arrangement

MODE = ggml.GGML_SCALE_MODE_BILINEAR | ggml.GGML_SCALE_FLAG_ANTIALIAS
FEWEST, MOST, TILE, LEAST, LARGEST = 64, 256, 512, 2, 10  # tokens, pixels of a tile, tiles, where the file does not say
TOLERANCE = 2  # pictures with so many times the most tokens are one tile yet


def sides(c):
    """The pixels of a patch, and how many patches a square has in a row."""
    return c.own["patch"], c.own["merge"] or 2


def tiles(c, image):
    """A large picture as squares, row by row, then the whole of it; a small one as whole squares of patches."""
    patch, side = sides(c)
    square = patch * side
    few, many = (given or n * square * square for given, n in zip(c.own["pixels"], (FEWEST, MOST), strict=True))
    size = image.size
    whole = pixels.resized(image, pixels.fitting(size, square, few, many, square), pixels.BILINEAR)
    least, most = (given or n for given, n in zip(c.own["tiles"], (LEAST, LARGEST), strict=True))
    width, height = (max(patch, round(n / square) * square) for n in size)
    if most == 1 or width * height <= TOLERANCE * many:
        return [whole], (1, 1)
    tile = c.own["largest"] or TILE
    columns, rows = arrangement(size, tile, least, most)
    image = pixels.resized(image, (columns * tile, rows * tile), pixels.BILINEAR)
    parts = pixels.tiles_of(image, tile)
    return [*parts, whole] if len(parts) > 1 else parts, (columns, rows)


def encode(g, given, columns):
    """The states of the patches after all layers: [C, N]."""
    x = patches(g, given)
    x = g.point("v.embd", g.add(x, resized_positions(g, columns, x.contents.ne[1] // columns, MODE)))
    for i in range(g.config.n_layer):
        x = layer(g, i, x)
    return norm(g, x, "v.post_ln")


def project(g, x, columns):
    """W2 gelu(W1 norm(the patches of each square of patches))."""
    x = merged(g, x, columns, sides(g.config)[1])
    if g.has("mm.input_norm.weight"):
        x = layer_norm(g, x, "mm.input_norm", 1e-5)
    return between(g, x, "mm.1", "mm.2")


def prompt(grid):
    """The tiles with their places, then the whole picture."""
    columns, rows = grid
    count = columns * rows
    if count == 1:
        return ["<|image_start|>", 0, "<|image_end|>"]
    places = [(row, column) for row in range(rows) for column in range(columns)]
    parts = [part for i, (row, column) in enumerate(places) for part in (f"<|img_row_{row + 1}_col_{column + 1}|>", i)]
    return ["<|image_start|>", *parts, "<|img_thumbnail|>", count, "<|image_end|>"]
