"""LLaVA 1.5 (arXiv:2310.03744): CLIP up to the layer before the last, and two matrices."""

import ggml

from . import pixels
from .encoder import linear, without_class


def tiles(c, image):
    """The picture in one square: with borders of the mean color, or its middle ("crop")."""
    side = c.own["image"]
    if c.own["fit"] == "pad":
        image = pixels.squared(image, [int(255 * mean) for mean in c.own["mean"]])
        return [pixels.resized(image, (side, side), pixels.BICUBIC)], (1, 1)
    image = pixels.resized(image, pixels.shortest_edge(image.size, side), pixels.BICUBIC)
    return [pixels.cropped(image, (side, side))], (1, 1)


def project(g, x, columns):
    """W2 gelu(W0 x), of each patch."""
    x = linear(g, without_class(g, x), "mm.0")
    return linear(g, ggml.ggml_gelu_erf(g.ctx, x), "mm.2")


def prompt(grid):
    """The patches alone."""
    return [0]
