"""The arithmetic of shapes: operators that models compute sizes with, for each new size of an input anew.

The reference evaluator, which computes the others, takes longer for a few numbers.
"""

from __future__ import annotations

import numpy as np

from . import operator


def simple(name, function):
    """Registers an operator that is a function of NumPy."""
    operator(name, "")(lambda node: function)


for name, ufunc in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Equal", np.equal)):
    simple(name, ufunc)
simple("Where", np.where)


@operator("Shape", "")
def shape(node):
    start, end = node.attr("start", 0), node.attr("end")
    return lambda x: np.array(x.shape[start:end], np.int64)


@operator("Concat", "")
def concat(node):
    axis = node.attr("axis", 1)
    return lambda *values: np.concatenate(values, axis)


@operator("Gather", "")
def gather(node):
    axis = node.attr("axis", 0)
    return lambda x, index: np.take(x, index, axis)


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
            part[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
        return x[tuple(part)]

    return function
