"""Folding values that depend on sizes, while a graph is recorded (recording.py).

Numbers such as shapes are computed as sizes: arrays of them are NumPy's arrays of objects. Of larger arrays, what
evaluates the node becomes a step of the recording, and the shape of the result is computed here.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from . import host
from .graph import numpy_type
from .sizes import Size, UnrecordedError
from .values import BOOL, Known, broadcast

NUMBERS = 64  # elements up to which an array may be one of sizes
MOVES = {"Concat", "Expand", "Flatten", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}  # a rule moves arrays
BY_POSITION = {"Expand", "Gather", "Reshape", "Slice", "Squeeze", "Unsqueeze"}  # further operands say where
ELEMENTWISE = set(
    "Abs Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil Clip Cos CumSum Div Equal Exp Floor Greater "
    "GreaterOrEqual IsNaN Less LessOrEqual Log Max Min Mod Mul Neg Not Or Pow Reciprocal Relu Round Sigmoid Sign Sin "
    "Sqrt Sub Tanh Trilu Where Xor".split()
)  # operators whose result has the shape of their operands


def fold(b, node, values, rule):
    """The results of a node with values that depend on sizes, or None; rule: calls that of the operator."""
    if node.op in ("Shape", "Size"):
        return rule()
    if node.op in ON_NUMBERS and all(v is None or is_numbers(v) for v in values) and gives_numbers(node, values):
        return [numbers(b, node, ON_NUMBERS[node.op](node, *map(objects, values)), values)]
    if node.op in MOVES:
        return rule()
    if node.op == "TopK" and is_numbers(values[0]) and values[0].shape == (1,) and b.ints(values[1]) == [1]:
        return [values[0], Known(np.zeros(1, np.int64))]  # one number is sorted
    if node.op == "ConstantOfShape":
        shape = tuple(b.ints(values[0]))
    elif node.op in SHAPES:
        shape = SHAPES[node.op](node, *values)
    elif node.op in ELEMENTWISE:
        shape = functools.reduce(broadcast, [v.shape for v in values if v is not None])
    else:
        return None
    return [b.recorder.array(functools.partial(evaluate, node), values, shape)]


def gives_numbers(node, values):
    """Whether the result of a node has a number of elements that no size decides, and is of integers."""
    if node.op == "Cast":
        return numpy_type(node.attr("to"), str(node)).name in ("int32", "int64")
    return node.op not in BY_POSITION or not any(v is not None and v.trace for v in values[1:])


def evaluate(node, *arrays):
    return host.evaluate(node, arrays)[0]


def is_numbers(value):
    """Whether a Known value is a few integers, of which each one is known or a size."""
    if value.trace is not None:
        return value.trace.sizes is not None
    return value.dtype.kind in "biu" and value.held.size <= NUMBERS


def objects(value):
    """The integers and sizes of a Known value, as an array of objects."""
    if value is None:
        return None
    if value.trace is None:
        return value.array.astype(object)
    array = np.empty(len(value.trace.sizes), object)
    array[:] = value.trace.sizes
    return array.reshape(value.shape)


def numbers(b, node, array, values):
    """The Known value of an array of objects that a node makes of values."""
    array, dtype = np.asarray(array, object), values[-1 if node.op == "Where" else 0].dtype
    if node.op in COMPARISONS:
        dtype = BOOL
    elif node.op == "Cast":
        dtype = numpy_type(node.attr("to"), str(node))
    flat = list(array.reshape(-1))
    if any(type(n) is Size for n in flat):
        return b.recorder.numbers(flat, array.shape, dtype)
    return Known(np.array(flat, dtype).reshape(array.shape))


def unrecorded():
    raise UnrecordedError("no sizes")


def quotient(x, y):
    """A quotient of integers, which ONNX rounds toward zero."""
    if x < 0 or y < 1:
        raise UnrecordedError("a quotient of negative numbers")
    return x // y


def elementwise(function):
    """A function of numbers as one of arrays of objects."""
    return lambda node, *arrays: np.frompyfunc(function, len(arrays), 1)(*arrays)


def axes_of(node, axes):
    return node.attr("axes") if axes is None else [int(a) for a in axes.reshape(-1)]


def expanded(node, x, axes=None):
    axes = axes_of(node, axes)
    rank = x.ndim + len(axes)
    return np.expand_dims(x, tuple(a % rank for a in axes))


def squeezed(node, x, axes=None):
    return np.squeeze(x, None if (axes := axes_of(node, axes)) is None else tuple(axes))


def sliced(node, x, starts, ends, axes=None, steps=None):
    starts, ends = ([int(i) for i in v] for v in (starts, ends))
    axes = range(len(starts)) if axes is None else axes
    for start, end, axis, step in zip(starts, ends, axes, [1] * len(starts) if steps is None else steps):
        axis = int(axis) % x.ndim
        x = x[(slice(None),) * axis + (slice(max(start, -x.shape[axis]), end, int(step)),)]
    return x


def reshaped(node, x, dims):
    return x.reshape([int(d) for d in dims])


def product(node, x, axes=None):
    if x.ndim > 1 or node.attr("noop_with_empty_axes", 0):
        unrecorded()
    return np.asarray(x.prod(), object).reshape([1] * x.ndim if node.attr("keepdims", 1) else ())


COMPARISONS = {
    "Equal": operator.eq,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
}
ON_NUMBERS: dict[str, Any] = {
    "Add": elementwise(operator.add),
    "Sub": elementwise(operator.sub),
    "Mul": elementwise(operator.mul),
    "Div": elementwise(quotient),
    "Neg": elementwise(operator.neg),
    "Max": lambda node, *arrays: functools.reduce(np.frompyfunc(lambda a, b: max(a, b), 2, 1), arrays),
    "Min": lambda node, *arrays: functools.reduce(np.frompyfunc(lambda a, b: min(a, b), 2, 1), arrays),
    "Where": lambda node, c, x, y: np.frompyfunc(lambda c, a, b: a if c else b, 3, 1)(c, x, y),
    "Cast": lambda node, x: x,
    "Concat": lambda node, *arrays: np.concatenate(arrays, node.attr("axis")),
    "Gather": lambda node, x, index: np.take(x, index.astype(np.int64), node.attr("axis", 0)),
    "ReduceProd": product,
    "Unsqueeze": expanded,
    "Squeeze": squeezed,
    "Slice": sliced,
    "Reshape": reshaped,
    **{op: elementwise(function) for op, function in COMPARISONS.items()},
}


def gathered(node, x, index):
    axis = node.attr("axis", 0) % len(x.shape)
    return (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def ranged(node, start, limit, delta):
    """The number of entries of a Range of integers."""
    if not all(map(is_numbers, (start, limit, delta))):
        unrecorded()
    a, z, d = (objects(v).reshape(-1)[0] for v in (start, limit, delta))
    return (max(-((a - z) // d), 0),)


def summed(node, *values):
    """The shape of an Einsum whose equation names all axes with letters."""
    operands, arrow, result = node.attr("equation").replace(" ", "").partition("->")
    if not arrow or "." in operands:
        unrecorded()
    sizes = dict(zip(operands.replace(",", ""), [n for v in values for n in v.shape]))
    return tuple(sizes[letter] for letter in result)


SHAPES: dict[str, Any] = {"Gather": gathered, "Range": ranged, "Einsum": summed}
