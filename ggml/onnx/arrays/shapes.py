"""The arithmetic of shapes: operators that models compute sizes with, for each new size of an input anew.

The reference evaluator, which computes the others, takes longer for a few numbers, and 6 MB of memory.
"""

from __future__ import annotations

import math

import numpy as np

from . import operator


def simple(name, function):
    """Registers an operator that is a function of NumPy."""
    operator(name, "")(lambda node: function)


for name, ufunc in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Equal", np.equal)):
    simple(name, ufunc)
simple("Where", np.where)
simple("Identity", lambda x: x)
simple("Size", lambda x: np.array(x.size, np.int64))


@operator("Shape", "")
def shape(node):
    start, end = node.attr("start", 0), node.attr("end")
    return lambda x: np.array(x.shape[start:end], np.int64)


@operator("Concat", "")
def concat(node):
    axis = node.attr("axis", 1)
    return lambda *values: np.concatenate(values, axis)


@operator("Stack", "ggml")
def stack(node):
    axis = node.attr("axis", 0)
    return lambda *values: np.stack(values, axis)


@operator("Entry", "ggml")
def entry(node):
    axis, index = node.attr("axis"), node.attr("index")
    return lambda x: x.take(index, axis)


@operator("Gather", "")
def gather(node):
    axis = node.attr("axis", 0)
    return lambda x, index: x.take(index, axis)


@operator("Unsqueeze", "")
def unsqueeze(node):
    given = node.attr("axes")
    return lambda x, axes=None: np.expand_dims(x, tuple(given if axes is None else axes.tolist()))


@operator("Squeeze", "")
def squeeze(node):
    given = node.attr("axes")

    def function(x, axes=None):
        chosen = given if axes is None else axes.reshape(-1).tolist()
        return np.squeeze(x, None if chosen is None else tuple(chosen))

    return function


@operator("Slice", "")
def slices(node):
    given = [node.attr(name) for name in ("starts", "ends", "axes")]

    def function(x, *operands):
        lists = [v if v is None else v.tolist() for v in operands] if operands else given
        starts, ends, axes, steps = [*lists, None, None][:4]
        steps, part = steps or [1] * len(starts), [slice(None)] * x.ndim
        for start, end, axis, step in zip(starts, ends, range(len(starts)) if axes is None else axes, steps):
            n = x.shape[axis]
            part[axis] = slice(max(start, -n), None if step < 0 and end < -n else end, step)
        return x[tuple(part)]

    return function


@operator("Reshape", "")
def reshape(node):
    zeros = node.attr("allowzero", 0)

    def function(x, dims):
        dims = dims.tolist()
        if 0 in dims and not zeros:
            dims = [n or x.shape[i] for i, n in enumerate(dims)]
        return x.reshape(dims)

    return function


@operator("Flatten", "")
def flatten(node):
    axis = node.attr("axis", 1)

    def function(x):
        if not -x.ndim <= axis <= x.ndim:
            raise ValueError(f"axis is {axis}: need {-x.ndim} to {x.ndim}")
        place = axis + x.ndim if axis < 0 else axis
        return x.reshape(math.prod(x.shape[:place]), math.prod(x.shape[place:]))

    return function


@operator("Transpose", "")
def transpose(node):
    axes = node.attr("perm")
    return lambda x: x.transpose(axes)


@operator("ConstantOfShape", "")
def constant_of_shape(node):
    value = node.attr("value", np.zeros(1, np.float32)).reshape(())
    return lambda dims: np.full(dims.tolist(), value, value.dtype)


@operator("Split", "")
def split(node):
    given, axis = node.attr("split"), node.attr("axis", 0)

    def function(x, sizes=None):
        n, sizes = x.shape[axis], given if sizes is None else sizes.tolist()
        if sizes is None:
            parts = node.attr("num_outputs", len(node.outputs))
            sizes = [-(-n // parts)] * parts  # of which the last one may be smaller
        elif sum(sizes) != n or min(sizes) < 0:
            raise ValueError(f"parts of {sizes} of an axis of {n}")
        return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))

    return function


def grid_of(node, size):
    """The points from -1 to 1 of AffineGrid for operands of a size: x, y (and z) and 1 of each.

    align_corners: the outermost points of an axis are at its ends; otherwise these are edges. A single one is at 0.
    """
    near = bool(node.attr("align_corners", 0))
    lines = [(2 * np.arange(n) + 1 - n) / max(n - near, 1) for n in size[2:]]
    points = np.meshgrid(*lines, indexing="ij")[::-1]
    return np.stack([*points, np.ones(size[2:])], -1).reshape(-1, len(lines) + 1)


@operator("AffineGrid", "")
def affine_grid(node):
    def function(theta, size):
        points = grid_of(node, size.tolist()) @ theta.astype(np.float64).transpose(0, 2, 1)
        return points.reshape(*theta.shape[:1], *size[2:], len(size) - 2).astype(theta.dtype)

    return function
