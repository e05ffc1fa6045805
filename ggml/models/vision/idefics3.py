"""Idefics 3 (arXiv:2408.12637) and SmolVLM: SigLIP on tiles of a large picture and on the whole of it."""

from . import pixels
from .encoder import linear, merged

LARGEST = 4096  # pixels of a side


def tiles(c, image):
    """Squares, row by row, then the whole picture as a square; a small picture is one square."""
    side = c.own["image"]
    width, height = enlarged(image.size, c.own["largest"] or 4 * side)
    image = pixels.resized(image, (width, height), pixels.LANCZOS)
    if width >= height:  # to whole squares
        across = pixels.ceil_to(width, side)
        down = pixels.ceil_to(int(across / (width / height)), side)
    else:
        down = pixels.ceil_to(height, side)
        across = pixels.ceil_to(int(down * (width / height)), side)
    image = pixels.resized(image, (across, down), pixels.LANCZOS)
    if across == down == side:
        return [image], (0, 0)
    whole = pixels.resized(image, (side, side), pixels.LANCZOS)
    return [*pixels.tiles_of(image, side), whole], (down // side, across // side)


def enlarged(size, longest):
    """The size with `longest` pixels at the longer side, at most LARGEST, and an even number at the shorter one."""
    width, height = size
    ratio = width / height
    if width >= height:
        width, height = longest, int(longest / ratio)
        height += height % 2
    else:
        width, height = int(longest * ratio), longest
        width += width % 2
    width, height = max(width, 1), max(height, 1)
    ratio = width / height
    if width >= height and width > LARGEST:
        width, height = LARGEST, int(LARGEST / ratio)
    elif height > width and height > LARGEST:
        width, height = int(LARGEST * ratio), LARGEST
    return max(width, 1), max(height, 1)


def project(g, x, columns):
    """W of the patches of each square of patches."""
    return linear(g, merged(g, x, columns, g.config.own["merge"] or 2), "mm.model.fc")


def prompt(grid):
    """The tiles with their places, then the whole picture."""
    rows, columns = grid
    parts = []
    for row in range(rows):
        for column in range(columns):
            parts += [f"<fake_token_around_image><row_{row + 1}_col_{column + 1}>", row * columns + column]
        parts.append("\n")
    start = "\n" if rows else ""
    return [*parts, f"{start}<fake_token_around_image><global-img>", rows * columns, "<fake_token_around_image>"]
