"""Gathering and scattering: elements that are taken, replaced by others, or combined with them."""

from __future__ import annotations

import math

import numpy as np

from ..scattering import gather, places, scatter, scatter_rows
from ..values import place_of
from . import operator
from .whole import around, as_words

KINDS = ["none", "add", "mul", "max", "min"]  # numbered as by scattering.scatter,
COMPILED = {np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64)}  # for these types
LARGE = 1 << 16  # elements of a part of an array that are copied in less time than a few indices are looked at
UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def compiled(reduction, *arrays):
    """The arrays as compiled code combines them, if it does: those that only move as integers of as many bytes."""
    dtype = arrays[0].dtype
    if any(a.dtype != dtype for a in arrays):
        return None
    moved = [as_words(a) for a in arrays] if reduction == "none" and not dtype.hasobject else None
    return arrays if dtype in COMPILED else moved


def scattered(node, x, place, updates):
    """A copy of x (rows, width) whose rows at places are replaced by, or combined with, those of updates."""
    y, reduction = x.copy(), node.attr("reduction", "none")
    known = compiled(reduction, y, np.ascontiguousarray(updates))
    if known:
        scatter_rows(known[0], place, known[1], KINDS.index(reduction))
    elif reduction == "none":
        y[place] = updates
    else:
        UFUNCS[reduction].at(y, place, updates)
    return y


def numbered(x, index, batch=0):
    """The numbers of the slices of x that an index of axes, behind some of a batch, means."""
    depth = index.shape[-1]
    shape = math.prod(index.shape[:batch]), math.prod(index.shape[batch:-1]), depth
    y, sizes = np.empty(shape[:2], np.int64), np.array(x.shape[batch : batch + depth], np.int64)
    if len(sizes) < depth or x.shape[:batch] != index.shape[:batch]:
        raise ValueError(f"an index of {list(index.shape)} for an array of {list(x.shape)}")
    wrong = places(y, np.ascontiguousarray(index, np.int64).reshape(shape), sizes)
    if wrong >= 0:
        raise ValueError(f"index {index.reshape(-1)[wrong]} of an axis of {sizes[wrong % depth]} entries")
    return y.reshape(-1)


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
        shape = x.shape[batch + index.shape[-1] :]
        rows = x.reshape(math.prod(x.shape[: x.ndim - len(shape)]), math.prod(shape))
        return rows.take(numbered(x, index, batch), 0).reshape(*index.shape[:-1], *shape)

    return function


def scatter_elements(node):
    reduction = node.attr("reduction", "none")

    def function(x, index, updates):
        axis = place_of(node.attr("axis", 0), x.ndim)
        if index.shape != updates.shape:
            raise ValueError(f"an index of {list(index.shape)} for updates of {list(updates.shape)}")
        updates, index = np.ascontiguousarray(updates), np.ascontiguousarray(index, np.int64)
        known = compiled(reduction, x, updates)
        if not known or beside(x, index, axis).size > LARGE + 8 * index.size:
            place = numbered(x, np.stack(np.broadcast_arrays(*along(index, axis)), -1))
            return scattered(node, x.reshape(-1, 1), place, updates.reshape(-1, 1)).reshape(x.shape)
        y = x.copy()
        inside = beside(y, index, axis)
        part = np.ascontiguousarray(inside)
        before, after = parted(part, index, axis)
        operands = part.view(known[0].dtype).reshape(before), index.reshape(after), known[1].reshape(after)
        require_entries(index, scatter(*operands, KINDS.index(reduction)), x.shape[axis])
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
        n, width = math.prod(index.shape[:-1]), math.prod(x.shape[depth:])
        rows = x.reshape(math.prod(x.shape[:depth]), width)
        return scattered(node, rows, numbered(x, index), updates.reshape(n, width)).reshape(x.shape)

    return function
