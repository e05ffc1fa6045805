"""Padding, distinct elements, and reductions: what the reference refuses, or computes of some types and sizes only."""

from __future__ import annotations

import sys

import numpy as np

from . import operator
from .whole import as_words


@operator("Pad", "")
def pad(node):
    """Widths below 0 crop."""
    given, mode = node.attr("pads"), node.attr("mode", "constant")

    def function(x, widths=None, value=None, axes=None):
        flat = given if widths is None else widths.tolist()
        axes = range(x.ndim) if axes is None else axes.tolist()
        pairs = np.zeros((x.ndim, 2), np.int64)
        pairs[list(axes)] = np.reshape(flat, (2, len(axes))).T
        inner = x[tuple(slice(max(-p, 0), n - max(-q, 0)) for n, (p, q) in zip(x.shape, pairs))]
        if mode != "constant":
            return np.pad(inner, np.maximum(pairs, 0), mode)
        fill = node.attr("value", "" if x.dtype == object else 0) if value is None else value.reshape(())
        return np.pad(inner, np.maximum(pairs, 0), constant_values=fill)

    return function


@operator("Softsign", "")
def softsign(node):
    return lambda x: np.asarray(x / (1 + np.abs(x)), x.dtype)


@operator("GlobalMaxPool", "")
def global_max_pool(node):
    return lambda x: x.max(tuple(range(2, x.ndim)), keepdims=True)


def as_keys(x, axis):
    """The slices of an axis as bytes in the same order; None if there are none.

    Numbers become unsigned, with the most significant byte first: those of floats are negated below 0.
    """
    rows = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    if not rows.size or x.dtype.kind not in "biuf" or x.dtype.kind == "f" and np.isnan(rows).any():
        return None
    if x.dtype.kind == "f":
        numbers = as_words(rows + rows.dtype.type(0))  # -0.0 is 0.0
        numbers = np.where(numbers < 0, ~numbers, numbers ^ np.iinfo(numbers.dtype).min)
    else:
        numbers = rows ^ np.iinfo(x.dtype).min if x.dtype.kind == "i" else rows
    numbers = as_words(np.ascontiguousarray(numbers), ">u")
    if sys.byteorder == "little":
        numbers = numbers.byteswap()
    return numbers.view(f"V{numbers.itemsize * numbers.shape[1]}")[:, 0]


@operator("Unique", "")
def unique(node):
    """The distinct elements (or slices of an axis), where each is first, which one each is, and how many there are."""
    axis = node.attr("axis")

    def function(x):
        keys = None if axis is None or x.ndim == 1 else as_keys(x, axis)
        y, first, place, counts = np.unique(
            x if keys is None else keys, True, True, True, axis if keys is None else None
        )
        if not node.attr("sorted", 1):  # in the order of their first places
            order = np.argsort(first)
            y, first, counts = y.take(order, axis or 0) if keys is None else y, first[order], counts[order]
            place = np.argsort(order)[place]
        return y if keys is None else x.take(first, axis), first, place.reshape(-1), counts

    return function


def log_sum_exp(x, axes, keep):
    x = x.astype(np.float64)
    top = x.max(axes, keepdims=True, initial=np.finfo(np.float64).min)
    total = np.log(np.exp(x - top).sum(axes, keepdims=True)) + top
    return total if keep else total.squeeze(axes)


REDUCTIONS = {
    "ReduceLogSum": lambda x, axes, keep: np.log(x.sum(axes, np.float64, keepdims=keep)),
    "ReduceLogSumExp": log_sum_exp,
    "ReduceSumSquare": lambda x, axes, keep: np.square(x).sum(axes, x.dtype, keepdims=keep),
}


def reduced(name):
    """Registers an operator that reduces axes."""

    @operator(name, "")
    def prepare(node):
        given, keep = node.attr("axes"), bool(node.attr("keepdims", 1))

        def function(x, axes=None):
            chosen = given if axes is None else axes.tolist()
            every = () if node.attr("noop_with_empty_axes", 0) else range(x.ndim)
            return np.asarray(REDUCTIONS[name](x, tuple(chosen or every), keep)).astype(x.dtype)

        return function


for name in REDUCTIONS:
    reduced(name)
