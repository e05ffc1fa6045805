"""SigLIP 2 for pictures of any shape (arXiv:2502.14786, "NaFlex"): as many patches as there may be, one embedding."""

import math

from . import lfm2, pixels, siglip

TOLERANCE, LARGEST = 1e-5, 100.0  # of the factor by which a picture is resized: how near, and the largest one

prompt, project, encode = siglip.prompt, siglip.project, lfm2.encode


def sides(c):
    """The pixels of a patch, each of which is a square of its own."""
    return c.own["patch"], 1


def area(c):
    """The pixels that no picture has more of."""
    return c.own["pixels"][1] or c.own["image"] ** 2


def tiles(c, image):
    """The picture as whole patches, as large as it can be."""
    patch = c.own["patch"]
    size = largest(image.size, patch, area(c) // patch**2)
    return [pixels.resized(image, size, c.own["kernel"])], (1, 1)


def largest(size, patch, most):
    """The size of at most so many patches, by the largest factor within a tolerance: by halving, as in the training."""

    def scaled(factor):
        return tuple(max(1, math.ceil(n * factor / patch)) for n in size)

    low, high = TOLERANCE / 10, LARGEST
    while high - low >= TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if math.prod(scaled(middle)) <= most else (low, middle)
    return tuple(n * patch for n in scaled(low))
