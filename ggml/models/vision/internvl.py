"""InternVL (arXiv:2312.14238) with InternViT-300M: tiles in the arrangement nearest to the picture's shape."""

from . import pixels
from .encoder import between, layer_norm, merged, without_class


def tiles(c, image):
    """Squares, row by row, then the whole picture as a square; the whole alone if that is the best arrangement."""
    side = c.own["image"]
    least, most = c.own["tiles"]
    columns, rows = arrangement(image.size, side, least or 1, most or 12)
    whole = pixels.resized(image, (side, side), pixels.BICUBIC)
    if columns == rows == 1:
        return [whole], (1, 1)
    image = pixels.resized(image, (columns * side, rows * side), pixels.BICUBIC)
    return [*pixels.tiles_of(image, side), whole], (columns, rows)


def arrangement(size, side, least, most):
    """The columns and rows of least to most tiles whose ratio is nearest to that of a picture's sides.

    Of equal ratios, more tiles are taken as long as half of their area is less than the picture's.
    """
    width, height = size
    best, difference = (1, 1), float("inf")
    grids = [(x, y) for x in range(1, most + 1) for y in range(1, most + 1) if least <= x * y <= most]
    for x, y in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        found = abs(width / height - x / y)
        if found < difference or (found == difference and width * height > 0.5 * side * side * x * y):
            best, difference = (x, y), found
    return best


def project(g, x, columns):
    """W3 gelu(W1 norm(the patches of each square of patches))."""
    x = merged(g, without_class(g, x), columns, g.config.own["merge"] or 2)
    x = layer_norm(g, x, "mm.model.mlp.0", 1e-5)
    return between(g, x, "mm.model.mlp.1", "mm.model.mlp.3")


def prompt(grid):
    """All tiles between marks."""
    columns, rows = grid
    return ["<img>", *range(columns * rows + (columns * rows > 1)), "</img>"]
