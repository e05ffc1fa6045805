"""Arithmetic along axes, and moving elements: operators that take less time on arrays of integers than in a graph.

There, integers become floats and integers again; and some have results that no float represents.
"""

from __future__ import annotations

import math

import numpy as np

from ..reducing import accumulate
from ..scattering import mark, reverse, scatter, triangle
from ..values import place_of
from . import operator


def as_words(x, sign="i"):
    """The elements of an array as integers of as many bytes; sign: "u" for unsigned ones."""
    return x.view(f"{sign}{x.itemsize}")


def around(shape, axis):
    """A shape as that of three axes, of which an axis is the middle one."""
    axis = place_of(axis, len(shape))
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def cumulated(node):
    given = node.op == "CumProd", node.attr("exclusive", 0), node.attr("reverse", 0)

    def function(x, axis):
        plain = np.ascontiguousarray(x, np.float32 if x.dtype.itemsize < 4 else None)
        numbers = plain if plain.dtype.kind == "f" else as_words(plain, "u")
        y, shape = np.empty_like(numbers), around(x.shape, axis.item())
        accumulate(y.reshape(shape), numbers.reshape(shape), *given)
        return y.view(plain.dtype).astype(x.dtype, copy=False)

    return function


for name in ("CumSum", "CumProd"):
    operator(name, "")(cumulated)


@operator("Trilu", "")
def trilu(node):
    """A part of each matrix, and zeros."""
    upper = node.attr("upper", 1)

    def function(x, k=None):
        x, shape = np.ascontiguousarray(x), (math.prod(x.shape[:-2]), *x.shape[-2:])
        y, k = np.empty_like(x), 0 if k is None else k.item()
        triangle(*(as_words(v).reshape(shape) for v in (y, x)), min(max(k, -shape[1]), shape[2]), upper)
        return y

    return function


@operator("ReverseSequence", "")
def reverse_sequence(node):
    """The first entries of an axis in reverse order, for each entry of another axis as many as it says."""
    batch, time = node.attr("batch_axis", 1), node.attr("time_axis", 0)

    def function(x, lengths):
        if {batch, time} != {0, 1}:
            raise ValueError(f"axes {batch} and {time}: need 0 and 1")
        x, shape = np.ascontiguousarray(x), (*x.shape[:2], math.prod(x.shape[2:]))
        y = np.empty_like(x)
        if x.size:
            rows = (v.reshape(shape).view(np.int8) for v in (y, x))
            reverse(*rows, np.ascontiguousarray(lengths, np.int64), batch == 1)
        return y

    return function


def spread(x, shape):
    """An array of a shape that one is broadcast to: what stays beside each other moves as a whole."""
    own = (1,) * (len(shape) - x.ndim) + x.shape
    lead = next((i for i in range(len(shape), 0, -1) if own[i - 1] != shape[i - 1]), 0)
    y, rest = np.empty(shape, x.dtype), math.prod(shape[lead:])
    source, target = np.ascontiguousarray(x).reshape(own), y
    if y.size and rest > 1 and not x.dtype.hasobject:
        whole = f"V{rest * x.itemsize}"
        source, target = source.reshape(*own[:lead], rest).view(whole), y.reshape(*shape[:lead], rest).view(whole)
    target[...] = source
    return y


@operator("Expand", "")
def expand(node):
    return lambda x, dims: spread(x, np.broadcast_shapes(x.shape, tuple(dims)))


@operator("Tile", "")
def tile(node):
    def function(x, repeats):
        repeats = repeats.tolist()
        if len(repeats) != x.ndim:
            raise ValueError(f"{len(repeats)} repeats of {x.ndim} axes")
        doubled, wide = ([n for pair in zip(many, x.shape) for n in pair] for many in ([1] * x.ndim, repeats))
        return spread(x.reshape(doubled), tuple(wide)).reshape([n * m for n, m in zip(repeats, x.shape)])

    return function


@operator("OneHot", "")
def one_hot(node):
    """An array of one value, and another one at the places that an index means; those out of range mean none."""

    def function(index, depth, values):
        if values.shape != (2,):
            raise ValueError(f"values have the shape {list(values.shape)}: need [2]")
        n, axis = int(depth.item()), node.attr("axis", -1) % (index.ndim + 1)
        shape = math.prod(index.shape[:axis]), math.prod(index.shape[axis:])
        y = np.full((*index.shape[:axis], n, *index.shape[axis:]), values[0], values.dtype)
        place = np.ascontiguousarray(index, np.int64).reshape(shape)
        mark(as_words(y).reshape(shape[0], n, shape[1]), place, as_words(values[1:]))
        return y

    return function


@operator("TensorScatter", "")
def tensor_scatter(node):
    """A copy of a cache with entries of an axis replaced from a place on, another for each entry of the first axis."""
    circular, axis = node.attr("mode", "linear") == "circular", node.attr("axis", -2)

    def function(x, updates, starts=None):
        far = axis % x.ndim
        rest = [s[:far] + s[far + 1 :] for s in (x.shape, updates.shape)]
        n, m = x.shape[far], updates.shape[far]
        if rest[0] != rest[1] or m > n or not far:
            raise ValueError(f"updates of {list(updates.shape)} of an axis of a cache of {list(x.shape)}")
        y = x.copy()
        rows, sources = np.moveaxis(y, far, 1), np.moveaxis(updates, far, 1)
        for i, start in enumerate([0] * len(x) if starts is None else starts.tolist()):
            place = np.arange(start, start + m)
            rows[i, place % n if circular else place] = sources[i]
        return y

    return function


@operator("MaxUnpool", "")
def max_unpool(node):
    """Elements at places of a larger array, which has zeros elsewhere; a shape that is given may be larger still."""
    kernel = node.attr("kernel_shape")
    strides, pads = node.attr("strides", [1] * len(kernel)), node.attr("pads", [0] * 2 * len(kernel))

    def function(x, index, dims=None):
        sides = zip(x.shape[2:], kernel, strides, pads, pads[len(kernel) :])
        shape = (*x.shape[:2], *((n - 1) * s - p - q + k for n, k, s, p, q in sides))
        y, n = np.zeros(shape, x.dtype), math.prod(shape)
        operands = as_words(y).reshape(1, n, 1), index.reshape(1, -1, 1), as_words(x).reshape(1, -1, 1)
        if scatter(*map(np.ascontiguousarray, operands), 0) >= 0:
            raise ValueError(f"places beyond the {n} elements of {list(shape)}")
        if dims is None or tuple(dims.tolist()) == shape:
            return y
        wide = np.zeros(dims.tolist(), x.dtype)
        wide[tuple(map(slice, shape))] = y
        return wide

    return function


@operator("CenterCropPad", "")
def center_crop_pad(node):
    """The middle of some axes, or zeros around them."""

    def function(x, sizes):
        axes = node.attr("axes") or range(x.ndim)
        shape, source, target = list(x.shape), [slice(None)] * x.ndim, [slice(None)] * x.ndim
        for axis, n in zip(axes, sizes.tolist()):
            size = shape[axis]
            start, shape[axis] = abs(size - n) // 2, n
            (source if size > n else target)[axis] = slice(start, start + min(n, size))
        if tuple(shape) == tuple(map(min, shape, x.shape)):
            return x[tuple(source)]
        y = np.zeros(shape, x.dtype)
        y[tuple(target)] = x[tuple(source)]
        return y

    return function
