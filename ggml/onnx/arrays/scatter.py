"""Scattering: elements that are replaced by others, or combined with them."""

from __future__ import annotations

import numpy as np

from . import operator

UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scattered(node, x, place, updates):
    """A copy of x whose flattened elements at places are replaced by, or combined with, those of updates."""
    y, reduction = np.array(x, order="C"), node.attr("reduction", "none")
    flat, place, updates = y.reshape(-1), place.reshape(-1), updates.reshape(-1)
    if reduction == "none":
        flat[place] = updates
    else:
        UFUNCS[reduction].at(flat, place, updates)
    return y


def positions(x, index):
    """Numbers of the flattened elements of x that an index, one array for each axis, means; negative ones count back."""
    parts = [np.where(i < 0, i + n, i) for i, n in zip(index, x.shape)]
    return np.ravel_multi_index(np.broadcast_arrays(*parts), x.shape)


def scatter_elements(node):
    def function(x, index, updates):
        grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
        grid[node.attr("axis", 0)] = index
        return scattered(node, x, positions(x, grid), updates)

    return function


for name in ("ScatterElements", "Scatter"):
    operator(name, "")(scatter_elements)


@operator("ScatterND", "")
def scatter_nd(node):
    def function(x, index, updates):
        depth = index.shape[-1]
        rest = np.ogrid[tuple(slice(n) for n in x.shape[depth:])]
        whole = (slice(None),) * (index.ndim - 1) + (None,) * len(rest)
        grid = [index[..., k][whole] for k in range(depth)] + list(rest)
        return scattered(node, x, positions(x, grid), updates)

    return function
