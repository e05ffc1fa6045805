"""Gathering and scattering: elements that are taken, replaced by others, or combined with them."""

from __future__ import annotations

import math

import numpy as np

from ..scattering import scatter
from . import operator

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


@operator("GatherElements", "")
def gather_elements(node):
    return lambda x, index: x[along(index, node.attr("axis", 0))]


def scatter_elements(node):
    reduction = node.attr("reduction", "none")

    def function(x, index, updates):
        axis = node.attr("axis", 0) % x.ndim
        if index.shape != updates.shape:
            raise ValueError(f"an index of {list(index.shape)} for updates of {list(updates.shape)}")
        rest = [s[:axis] + s[axis + 1 :] for s in (x.shape, index.shape)]
        if x.dtype in COMPILED and updates.dtype == x.dtype and rest[0] == rest[1]:
            outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
            y, shape = x.copy(), (outer, index.shape[axis], inner)
            place = np.ascontiguousarray(index, np.int64)
            parts = place.reshape(shape), np.ascontiguousarray(updates).reshape(shape)
            wrong = scatter(y.reshape(outer, x.shape[axis], inner), *parts, KINDS.index(reduction))
            if wrong >= 0:
                raise ValueError(f"index {place.reshape(-1)[wrong]} of an axis of {x.shape[axis]} entries")
            return y
        place = positions(x, along(index, axis))
        return scattered(node, x.reshape(-1, 1), place, updates.reshape(-1, 1)).reshape(x.shape)

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
