"""Pixels as encoders take them: the steps of which the preprocessing of a model consists.

Images are those of Pillow in RGB, whose resizing the models were trained with. Sizes are (width, height).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

BILINEAR, BICUBIC, LANCZOS = 2, 3, 1  # numbers of Pillow's kernels

Size = tuple[int, int]


def resized(image: Any, size: Size, kernel: int) -> Any:
    """An image of another size; itself if it has that size."""
    return image if image.size == size else image.resize(size, resample=kernel)


def shortest_edge(size: Size, edge: int) -> Size:
    """The size with `edge` pixels at the shorter side."""
    width, height = size
    other = int(edge * max(size) / min(size))
    return (edge, other) if width <= height else (other, edge)


def fitting(size: Size, square: int, least: int, most: int, smallest: int = 0) -> Size:
    """The size in multiples of `square` nearest to a size, of `least` to `most` pixels, where that has `smallest` ones
    in each direction."""
    width, height = (max(smallest, round(n / square) * square) for n in size)
    ratio = 1.0
    if width * height > most:
        ratio = math.sqrt(size[0] * size[1] / most)
        width, height = (max(square, math.floor(n / ratio / square) * square) for n in size)
    elif width * height < least:
        ratio = math.sqrt(least / (size[0] * size[1]))
        width, height = (math.ceil(n * ratio / square) * square for n in size)
    return width, height


def inside(size: Size, box: Size) -> Size:
    """The largest size of the same shape within another one, with its fractions of pixels."""
    across, down = (b / n for n, b in zip(size, box, strict=True))
    if across < down:
        return box[0], min(math.ceil(size[1] * across), box[1])
    return min(math.ceil(size[0] * down), box[0]), box[1]


def bordered(image: Any, size: Size) -> Any:
    """An image in the middle of a black one of another size."""
    from PIL import Image

    larger = Image.new("RGB", size)
    larger.paste(image, tuple((a - b) // 2 for a, b in zip(size, image.size)))
    return larger


def cropped(image: Any, size: Size) -> Any:
    """The middle of an image that is at least as large as `size`."""
    left, top = ((a - b) // 2 for a, b in zip(image.size, size))
    return image.crop((left, top, left + size[0], top + size[1]))


def squared(image: Any, color: Sequence[int]) -> Any:
    """An image in the middle of a square of a color."""
    from PIL import Image

    side = max(image.size)
    if image.size == (side, side):
        return image
    square = Image.new("RGB", (side, side), tuple(color))
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return square


def tiles_of(image: Any, side: int) -> list[Any]:
    """The squares of an image of whole squares, row by row."""
    width, height = image.size
    return [
        image.crop((x, y, x + side, y + side)) for y in range(0, height, side) for x in range(0, width, side)
    ]  # fmt: skip


def normalized(image: Any, mean: Sequence[float], std: Sequence[float]) -> np.ndarray:
    """(x / 255 - mean) / std by channels: f32 [height, width, 3]."""
    values = np.array(image, np.float32)
    values *= np.float32(1 / 255)
    values -= np.array(mean, np.float32)
    values /= np.array(std, np.float32)
    return values


def patches(values: np.ndarray, side: int, out: np.ndarray) -> None:
    """Writes the squares of pixels [height, width, 3], row by row, each by channels: to f32 [n, 3 * side * side]."""
    height, width = (n // side for n in values.shape[:2])
    squares = values[: height * side, : width * side].reshape(height, side, width, side, 3)
    out.reshape(height, width, 3, side, side)[...] = squares.transpose(0, 2, 4, 1, 3)


def ceil_to(value: int, multiple: int) -> int:
    """The smallest multiple that is not less."""
    return math.ceil(value / multiple) * multiple
