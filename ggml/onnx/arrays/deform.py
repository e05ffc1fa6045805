"""Convolutions whose taps lie at places that another operand moves."""

from __future__ import annotations

import math

import numpy as np

from . import operator


def places(node, axis, taps, n, moved):
    """Coordinates (batch, groups, kernel rows, kernel columns, rows, columns) of all taps along an axis of an image.

    taps: of the kernel along this axis; n: places of the result along it; moved: what is added.
    """
    stride, dilation = ((node.attr(name) or [1, 1])[axis] for name in ("strides", "dilations"))
    start = np.arange(n) * stride - (node.attr("pads") or [0] * 4)[axis]
    tap = np.arange(taps) * dilation
    return (
        moved + (tap.reshape(-1, 1, 1, 1) if axis == 0 else tap.reshape(-1, 1, 1)) + start.reshape([n, 1][: 2 - axis])
    )


def between(image, y, x):
    """Elements of images (batch, groups, channels, rows, columns) between four others, 0 outside.

    y, x: coordinates (batch, groups, ...). The result is (batch, groups, channels, number of coordinates).
    """
    *lead, height, width = image.shape
    flat = image.reshape(*lead, height * width)
    y, x = (v.reshape(*v.shape[:2], 1, -1) for v in (y, x))
    top, left = np.floor(y), np.floor(x)
    total = np.zeros((*lead, y.shape[-1]), image.dtype)
    for row, weight in ((top, top + 1 - y), (top + 1, y - top)):
        for column, other in ((left, left + 1 - x), (left + 1, x - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            place = np.where(inside, row * width + column, 0).astype(np.int64)
            factor = np.where(inside, weight * other, 0).astype(image.dtype)
            total += np.take_along_axis(flat, np.broadcast_to(place, total.shape), 3) * factor
    return total


@operator("DeformConv", "")
def deform_conv(node):
    """A convolution of elements between others: each tap of each result has an offset, and may have a factor."""
    group, groups = node.attr("group", 1), node.attr("offset_group", 1)

    def function(x, w, offset, bias=None, mask=None):
        if x.ndim != 4:
            raise ValueError(f"the images have {x.ndim - 2} axes: need 2")
        (batch, channels, *_), (outputs, _, rows, columns), size = x.shape, w.shape, offset.shape[2:]
        moved = offset.reshape(batch, groups, rows, columns, 2, *size)
        y, z = (places(node, i, n, size[i], moved[:, :, :, :, i]) for i, n in enumerate((rows, columns)))
        taps = between(x.reshape(batch, groups, channels // groups, *x.shape[2:]), y, z)
        if mask is not None:
            taps = taps * mask.reshape(batch, groups, 1, -1)
        taps = taps.reshape(batch, group, channels // group * rows * columns, math.prod(size))
        y = np.matmul(w.reshape(group, outputs // group, -1), taps).reshape(batch, outputs, *size)
        return y if bias is None else y + bias.reshape(-1, 1, 1)

    return function
