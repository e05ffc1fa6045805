"""Gathering and scattering: elements that are taken, replaced by others, or combined with them."""

from __future__ import annotations

import math

import numpy as np

from ..scattering import gather, scatter
from ..values import place_of
from . import operator
from .whole import around, as_words

KINDS = ["none", "add", "mul", "max", "min"]  # numbered as by scattering.scatter,
COMPILED = {np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64)}  # for these types
UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scattered(node, x, place, updates):
    """A copy of x (rows, width) whose rows at places are replaced by, or combined with, those of updates."""
    y, reduction = x.copy(), node.attr("reduction", "none")
    if reduction == "none":
        y[place] = updates
    elif y.shape[1] < 8:
        flat = place[:, None] * y.shape[1] + np.arange(y.shape[1])
        UFUNCS[reduction].at(y.reshape(-1), flat.ravel(), updates.ravel())
    elif len(place):  # the updates of a row are combined first
        order = np.argsort(place, kind="stable")
        rows, first = np.unique(place[order], return_index=True)
        y[rows] = UFUNCS[reduction](y[rows], UFUNCS[reduction].reduceat(updates[order], first, axis=0))
    return y


def positions(x, index):
    """Numbers of the slices of x that an index of its first axes means, an array for each; negative ones count back."""
    parts = [np.where(i < 0, i + n, i) for i, n in zip(index, x.shape)]
    return np.ravel_multi_index(np.broadcast_arrays(*parts), x.shape[: len(parts)]).reshape(-1)


def along(index, axis):
    """The index of each axis of the elements that an index of one axis means."""
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[axis] = index
    return tuple(grid)


def beside(x, index, axis):
    """The part of x in which an index of an axis finds elements: the other axes as far as the index has entries."""
    return x[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(index.shape))]


def parted(x, index, axis):
    """Shapes of x and an index of three axes each, of which an axis is the middle one."""
    shapes = around(x.shape, axis), around(index.shape, axis)
    if x.ndim != index.ndim or shapes[0][::2] != shapes[1][::2]:
        raise ValueError(f"an index of {list(index.shape)} for an array of {list(x.shape)}")
    return shapes


def require_entries(index, wrong, n):
    """Raises an error if an index has a position, that of what an axis lacks; -1: it has none."""
    if wrong >= 0:
        raise ValueError(f"index {index.reshape(-1)[wrong]} of an axis of {n} entries")


@operator("GatherElements", "")
def gather_elements(node):
    def function(x, index):
        axis = place_of(node.attr("axis", 0), x.ndim)
        if x.dtype == object:
            return x[along(index, axis)]
        part, y = np.ascontiguousarray(beside(x, index, axis)), np.empty(index.shape, x.dtype)
        before, after = parted(part, index, axis)
        index = np.ascontiguousarray(index)
        wrong = gather(as_words(y).reshape(after), as_words(part).reshape(before), index.reshape(after))
        require_entries(index, wrong, x.shape[axis])
        return y

    return function


@operator("GatherND", "")
def gather_nd(node):
    batch = node.attr("batch_dims", 0)

    def function(x, index):
        depth = index.shape[-1]
        grid = np.ogrid[tuple(map(slice, index.shape[:batch]))] if batch else []
        axes = [g.reshape(*g.shape, *[1] * (index.ndim - 1 - batch)) for g in grid]
        place = positions(x, [*axes, *(index[..., k] for k in range(depth))])
        rows = x.reshape(-1, math.prod(x.shape[batch + depth :]))
        return rows.take(place, 0).reshape(*index.shape[:-1], *x.shape[batch + depth :])

    return function


def scatter_elements(node):
    reduction = node.attr("reduction", "none")

    def function(x, index, updates):
        axis = place_of(node.attr("axis", 0), x.ndim)
        if index.shape != updates.shape:
            raise ValueError(f"an index of {list(index.shape)} for updates of {list(updates.shape)}")
        if updates.dtype != x.dtype or x.dtype not in COMPILED and (reduction != "none" or x.dtype == object):
            place = positions(x, along(index, axis))
            return scattered(node, x.reshape(-1, 1), place, updates.reshape(-1, 1)).reshape(x.shape)
        y = x.copy()
        inside = beside(y, index, axis)
        part, index = np.ascontiguousarray(inside), np.ascontiguousarray(index, np.int64)
        before, after = parted(part, index, axis)
        numbers = [part, np.ascontiguousarray(updates)]
        numbers = numbers if x.dtype in COMPILED else list(map(as_words, numbers))
        wrong = scatter(
            numbers[0].reshape(before), index.reshape(after), numbers[1].reshape(after), KINDS.index(reduction)
        )
        require_entries(index, wrong, x.shape[axis])
        if part is not inside:
            inside[...] = part
        return y

    return function


for name in ("ScatterElements", "Scatter"):
    operator(name, "")(scatter_elements)


@operator("ScatterND", "")
def scatter_nd(node):
    def function(x, index, updates):
        depth = index.shape[-1]
        width = math.prod(x.shape[depth:])
        place = positions(x, [index[..., k] for k in range(depth)])
        return scattered(node, x.reshape(-1, width), place, updates.reshape(-1, width)).reshape(x.shape)

    return function
