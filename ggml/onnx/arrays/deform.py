"""Convolutions whose taps lie at places that another operand moves."""

from __future__ import annotations

import math

import numpy as np

from ..boxes import deformed
from . import operator


@operator("DeformConv", "")
def deform_conv(node):
    """A convolution of elements between others: each tap of each result has an offset, and may have a factor."""
    group, groups = node.attr("group", 1), node.attr("offset_group", 1)
    steps = [
        node.attr(name) or default
        for name, default in (("strides", [1] * 2), ("dilations", [1] * 2), ("pads", [0] * 4))
    ]

    def function(x, w, offset, bias=None, mask=None):
        if x.ndim != 4:
            raise ValueError(f"the images have {x.ndim - 2} axes: need 2")
        (batch, channels, *_), (outputs, _, *taps), size = x.shape, w.shape, offset.shape[2:]
        n, dtype = math.prod(taps), x.dtype if x.dtype == np.float64 else np.float32
        moved = np.ascontiguousarray(offset, dtype).reshape(batch, groups, n, 2, *size)
        factors = np.empty((batch, 0, n, *size)) if mask is None else mask.reshape(batch, groups, n, *size)
        columns = np.zeros((batch, channels, n, *size), dtype)
        window = np.ascontiguousarray(np.array([*(s[:2] for s in steps), taps], np.int64).T)
        deformed(np.ascontiguousarray(x, dtype), moved, np.ascontiguousarray(factors, dtype), window, columns)
        columns = columns.reshape(batch, group, channels // group * n, math.prod(size))
        y = np.matmul(w.reshape(group, outputs // group, -1), columns).reshape(batch, outputs, *size)
        return (y if bias is None else y + bias.reshape(-1, 1, 1)).astype(x.dtype, copy=False)

    return function
