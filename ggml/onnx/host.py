"""Evaluation on the host: constants, shapes, and operators that no rule lowers.

Operators of machine learning and of text are our own (arrays). The reference implementation of the onnx package
computes all others, so that what is folded means what ONNX says.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
import warnings
from typing import Any

import numpy as np
from onnx import TypeProto, ValueInfoProto, helper
from onnx.reference import ReferenceEvaluator

from . import arrays
from .graph import copied, numpy_type
from .opsets import ALIGN, aligned
from .reducing import extremes
from .repeating import called
from .values import place_of, unsigned

OPERATORS = arrays.load()

RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
# Versions of operators that the reference computes wrong or not at all, from the first number to below the second: it
# computes them as the second version
LEAST = {
    "AveragePool": (1, 7),
    "BatchNormalization": (9, 14),
    "DequantizeLinear": (1, 19),
    "QuantizeLinear": (1, 19),
}
NARROW = 8  # elements at a time from which NumPy reduces quickly
EXTREMES, WORDS = (np.maximum, np.minimum), (np.dtype(np.int32), np.dtype(np.int64))
NUMBERS = {np.dtype(t) for t in "? i1 u1 i2 u2 i4 u4 i8 u8 f4 f8".split()}


class HostError(RuntimeError):
    """An operator that could not be evaluated."""


def evaluator(node):
    """The reference evaluator of one node, kept with it."""
    found = node.attrs.get("ggml.evaluator")
    if found is None:
        proto = copied(node.proto)
        inputs = [f"i{k}" if name else "" for k, name in enumerate(node.inputs)]
        outputs = [f"o{k}" if name else "" for k, name in enumerate(node.outputs)]
        del proto.input[:], proto.output[:]
        proto.input.extend(inputs)
        proto.output.extend(outputs)
        infos = [[ValueInfoProto(name=n, type=TypeProto()) for n in names if n] for names in (inputs, outputs)]
        versions = {**node.scope.opsets, node.proto.domain: node.version}
        first, least = LEAST.get(node.op, (0, 0))
        opsets = [
            helper.make_opsetid(d, least if d == node.proto.domain and first <= v < least else v)
            for d, v in versions.items()
        ]
        model = helper.make_model(helper.make_graph([proto], "one node", *infos), opset_imports=opsets)
        node.attrs["ggml.evaluator"] = found = ReferenceEvaluator(model)
    return found


def quiet(threads):
    """What calls a function with NumPy's warnings off, and a number of threads for our operators."""
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # whose settings belong to a context
        context = contextvars.Context()
        context.run(np.seterr, all="ignore")
        context.run(arrays.THREADS.set, threads)
        return context.run

    def run(function, *args):
        token = arrays.THREADS.set(threads)
        try:
            with np.errstate(all="ignore"):
                return function(*args)
        finally:
            arrays.THREADS.reset(token)

    return run


class UnfitError(ValueError):
    """What the reference refuses, in words of our own: its messages are meant for its developers."""


def function_of(node):
    """The function that computes the outputs of a node from arrays, kept with it."""
    found = node.attrs.get("ggml.function")
    if found is None:
        found = made(node)
        if ALIGN in node.attrs:
            found = after_alignment(node, found)
        node.attrs["ggml.function"] = found
    return found


def made(node):
    """A function of the operands of a node that returns its output, or a tuple of them."""
    if node.proto is None:
        return lambda: node.attrs["value"]
    if node.op in OPERATORS:
        return OPERATORS[node.op](node)
    if node.op == "Cast":
        return conversion(node)
    if node.op == "DequantizeLinear":
        return floats(node)
    if node.op == "QuantizeLinear":
        return codes(node)
    if node.op in ("Softmax", "LogSoftmax", "Hardmax") and node.version < 13:
        return along_all_axes(node)
    return directly(node) or by_reference(node)


def directly(node):
    """The function of a node that NumPy computes, or None; what it does not take goes to the reference."""
    function: Any = MADE[node.op](node) if node.op in MADE else DIRECT.get(node.op) or OF_FLOATS.get(node.op)
    if function is None:
        return None
    others, types = by_reference(node), {np.dtype(np.float32)} if node.op in OF_FLOATS else NUMBERS

    def quickly(*values):
        dtypes = [getattr(v, "dtype", None) for v in values if v is not None]
        if dtypes[0] in types and NUMBERS.issuperset(dtypes) and (node.op in MADE or len(set(dtypes)) == 1):
            with contextlib.suppress(TypeError, ValueError, LookupError, ArithmeticError):  # the reference says why
                return function(*values)
        return others(*values)

    return quickly


def conversion(node):
    """The function of a Cast."""
    to, others = numpy_type(node.attr("to"), str(node)), by_reference(node)
    if to not in NUMBERS:
        return others
    if to.kind == "u" and to.itemsize > 2:
        return lambda x: unsigned(x, to) if x.dtype.kind == "f" else others(x)
    if to == np.bool_:
        return lambda x: x != 0 if x.dtype in NUMBERS else others(x)
    return lambda x: x.astype(to) if x.dtype in NUMBERS else others(x)


def contraction(node):
    return functools.partial(contracted, node.attr("equation").strip())


def contracted(equation, *values):
    """numpy.einsum, which looks for the best order only where there is much to compute."""
    return np.einsum(equation, *values, optimize=sum(v.size for v in values) > 1 << 12)


def reduction(function):
    """A function that makes those of nodes which combine elements along axes, as numpy.sum does."""

    def make(node):
        given, kept, whole = node.attr("axes"), bool(node.attr("keepdims", 1)), not node.attr("noop_with_empty_axes", 0)

        def reduced(x, axes=None):
            chosen = given if axes is None else axes.tolist()
            return function(x, axis=tuple(chosen or ()) or (None if whole else ()), dtype=x.dtype, keepdims=kept)

        return reduced

    return make


def joined(ufunc):
    """How a function of two elements combines all along axes, as its reduce does.

    The outer axes come first, which leave less for the others. Where NumPy would combine a few elements at a time,
    the halves of an axis are, and so on.
    """

    def function(x, axis, dtype, keepdims):
        axes = sorted(range(x.ndim) if axis is None else [place_of(a, x.ndim) for a in axis])
        for a in axes:
            outer, n, inner = math.prod(x.shape[:a]), x.shape[a], math.prod(x.shape[a + 1 :])
            if n and ufunc in EXTREMES and x.dtype in WORDS and (inner == 1 or inner >= NARROW):
                found = np.empty((outer, inner), x.dtype)
                numbers = np.ascontiguousarray(x).reshape(outer, n, inner)
                extremes(found.view(np.int8), numbers.view(np.int8), x.itemsize == 8, ufunc is np.minimum)
                x = found.reshape(*x.shape[:a], 1, *x.shape[a + 1 :])
            elif 0 < (inner if inner > 1 else n) < NARROW < x.size and n:
                x = halved(ufunc, x.reshape(outer, n, inner)).reshape(*x.shape[:a], 1, *x.shape[a + 1 :])
            else:
                x = ufunc.reduce(x, axis=a, dtype=dtype, keepdims=True)
        return x if keepdims else x.squeeze(tuple(axes))

    return function


def mean(x, axis, dtype, keepdims):
    """The mean, which of integers is rounded toward zero."""
    if dtype.kind == "f" or not x.size:
        return np.mean(x, axis=axis, dtype=dtype, keepdims=keepdims)
    total = joined(np.add)(x, axis, dtype, keepdims)
    return np.true_divide(total, x.size // max(total.size, 1), out=np.empty_like(total), casting="unsafe")


def halved(ufunc, x):
    """What a function of two elements makes of those of the middle axis of x, of which one or more are there."""
    while x.shape[1] > 1:
        half = x.shape[1] // 2
        rest, x = x[:, 2 * half :], ufunc(x[:, :half], x[:, half : 2 * half])
        if rest.size:
            x[:, :1] = ufunc(x[:, :1], rest)
    return x


def top(node):
    """The function of a TopK of integers; of equal ones, the first come first."""
    axis, largest = node.attr("axis", -1), node.attr("largest", 1)

    def function(x, k):
        if x.dtype.kind != "i" or not 0 <= k.item() <= x.shape[axis]:
            raise TypeError("no integers, or not as many")
        order = np.argsort(~x if largest else x, axis, kind="stable")
        order = np.take(order, range(k.item()), axis)
        return np.take_along_axis(x, order, axis), order

    return function


def is_plain(node, x, scale, *zero):
    """Whether a DequantizeLinear makes floats of integers with one scale, or with one for each entry of an axis."""
    if x.dtype not in CODES or scale.dtype != np.float32 or node.attr("block_size", 0) or node.attr("output_dtype", 0):
        return False
    return all(z.dtype == x.dtype for z in zero) and fit_axis(node, x, scale, *zero)


def fit_axis(node, x, *numbers):
    """Whether each operand is one number, or has one for each entry of the node's axis of x."""
    entries = x.shape[node.attr("axis", 1) :][:1]
    return all(n.size == 1 or n.shape == entries for n in numbers)


def alongside(x, rank, axis):
    """A vector in the shape of a rank that is broadcast along all axes but one."""
    shape = [1] * rank
    shape[axis] = -1
    return x.reshape(shape)


def floats(node):
    """The function of a DequantizeLinear."""
    others, axis = by_reference(node), node.attr("axis", 1)

    def function(x, *numbers):
        numbers = tuple(n for n in numbers if n is not None)
        if not is_plain(node, x, *numbers):
            return others(x, *numbers)
        scale, *zero = [n.reshape(()) if n.size == 1 else alongside(n, x.ndim, axis) for n in numbers]
        y = x.astype(np.float32)
        for z in zero:
            y -= z.astype(np.float32)
        y *= scale
        return y

    return function


def codes(node):
    """The function of a QuantizeLinear, which limits all floats; the reference's are those of integers that wrap."""
    others, axis = by_reference(node), node.attr("axis", 1)

    def function(x, scale, zero=None):
        zero = np.array(0, np.uint8) if zero is None else zero
        plain = x.dtype == scale.dtype == np.float32 and zero.dtype in CODES and zero.dtype.itemsize < 4
        other = node.attr("block_size", 0) or node.attr("output_dtype", 0)
        if other or not plain or not fit_axis(node, x, scale, zero):
            return others(x, scale, zero)
        scale, zero = (n.reshape(()) if n.size == 1 else alongside(n, x.ndim, axis) for n in (scale, zero))
        span = np.iinfo(zero.dtype)
        return np.clip(np.rint(np.nan_to_num(x / scale, nan=0.0)) + zero, span.min, span.max).astype(zero.dtype)

    return function


def along_all_axes(node):
    """The function of a Softmax, LogSoftmax or Hardmax for which all axes from one on are one, as before version 13."""
    axis = node.attr("axis", 1)

    def function(x):
        if not x.size:
            return x
        first = axis % x.ndim if x.ndim else 0
        rows = x.reshape(math.prod(x.shape[:first]), math.prod(x.shape[first:]))
        if node.op == "Hardmax":
            y = np.zeros_like(rows)
            np.put_along_axis(y, rows.argmax(1)[:, None], 1, 1)
            return y.reshape(x.shape)
        rows = rows - rows.max(1, keepdims=True)
        y = np.exp(rows)
        total = y.sum(1, keepdims=True)
        return (y / total if node.op == "Softmax" else rows - np.log(total)).reshape(x.shape)

    return function


def place_of_extreme(node):
    """The function of an ArgMax or ArgMin."""
    axis, kept = node.attr("axis", 0), bool(node.attr("keepdims", 1))
    find, last = np.argmax if node.op == "ArgMax" else np.argmin, node.attr("select_last_index", 0)

    def function(x):
        place = find(np.flip(x, axis) if last else x, axis, keepdims=kept)
        return x.shape[axis] - 1 - place if last else place

    return function


def shift(node):
    """The function of a BitShift; the reference knows more types."""
    ufunc = np.left_shift if node.attr("direction") == "LEFT" else np.right_shift

    def function(x, y):
        if x.dtype.kind != "u" or y.dtype != x.dtype:
            raise TypeError("no unsigned integers")
        return ufunc(x, y)

    return function


def limits(node):
    """The function of a Clip."""

    def function(x, lo=None, hi=None):
        if node.version < 11:
            raise TypeError("limits that are attributes")
        x = x if lo is None else np.maximum(x, lo)
        return x if hi is None else np.minimum(x, hi)

    return function


def on_bytes(ufunc):
    """A function of booleans as a function of bytes computes it, in less time if one of them is broadcast."""
    return lambda x, y: ufunc(x.view(np.uint8), y.view(np.uint8)).view(bool)


def non_zero(x):
    """Where elements are not 0, a row for each axis."""
    if not x.ndim:
        raise TypeError("no axes")
    places = np.flatnonzero(x if x.dtype == bool else x != 0)
    return np.array(np.unravel_index(places, x.shape), np.int64) if x.ndim > 1 else places[None]


def ranged(start, limit, delta):
    return np.arange(start.item(), limit.item(), delta.item()).astype(start.dtype)


def after_alignment(node, function):
    """The function for a second operand in the shape that older versions of operators broadcast."""
    return lambda x, y: function(x, y.reshape(aligned(node, x.shape, y.shape)))


def by_reference(node):
    """The function of a node as onnx's reference evaluator computes it."""

    def function(*values):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = iter(evaluator(node).run(None, {f"i{k}": v for k, v in enumerate(values) if node.inputs[k]}))
        except Exception as error:
            if isinstance(error, NotImplementedError) or "Did you recompile" in str(error):
                raise UnfitError("there is no implementation of the operator") from error
            raise UnfitError(misfit(node, values)) from error
        return tuple(as_objects(next(found)) if name else None for name in node.outputs)

    return function


def as_objects(value):
    """A value with texts as objects, which have any length."""
    return value.astype(object) if isinstance(value, np.ndarray) and value.dtype.kind == "U" else value


def misfit(node, values):
    """Words for operands of a node (arrays, or values of a graph) that something has refused in words of its own."""
    types = [getattr(v, "dtype", type(v).__name__) for v in values if v is not None]
    attrs = {k: v for k, v in node.attrs.items() if not k.startswith("ggml.") and not hasattr(v, "nodes")}
    return (
        f"operands of {', '.join(map(str, types)) or 'no type'} in these shapes, with "
        f"{shown(attrs) or 'no attributes'}, do not fit the operator"
    )


def shown(attrs):
    """Attributes in words, each in a few characters."""
    return ", ".join(f"{k}={v!r}" if len(repr(v)) < 60 else f"{k}=..." for k, v in sorted(attrs.items()))


def evaluate(node, values):
    """The outputs of a node for one array, list or None per input, as a list of the same.

    Raises HostError if there is no implementation, or the operands do not fit.
    """
    with np.errstate(all="ignore"):
        return called(node, values, function_of, fail)


def fail(node, values, error):
    """Raises the HostError of an error."""
    shapes = ", ".join(f"{n!r} {getattr(v, 'shape', type(v).__name__)}" for n, v in zip(node.inputs, values))
    why = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    raise HostError(f"{node} with {shapes}: {why}") from error


# Functions of NumPy that give what the reference gives for operands of one type of NUMBERS, in a tenth of the time:
# a recipe calls them for each length that is new
DIRECT = {
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "And": on_bytes(np.bitwise_and),
    "Or": on_bytes(np.bitwise_or),
    "Xor": on_bytes(np.bitwise_xor),
    "Not": np.logical_not,
    "Neg": np.negative,
    "Abs": np.abs,
    "Sign": np.sign,
    "Relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "BitwiseNot": np.invert,
    "Det": np.linalg.det,
    "NonZero": non_zero,
    "Range": ranged,
    "Sum": lambda *values: functools.reduce(np.add, values),
    "Max": lambda *values: functools.reduce(np.maximum, values),
    "Min": lambda *values: functools.reduce(np.minimum, values),
}
OF_FLOATS = {"Sin": np.sin, "Cos": np.cos, "Exp": np.exp, "Sqrt": np.sqrt, "Div": np.divide, "MatMul": np.matmul}
MADE = {  # from a node
    "ArgMax": place_of_extreme,
    "ArgMin": place_of_extreme,
    "BitCast": lambda node: functools.partial(np.ndarray.view, dtype=numpy_type(node.attr("to"), str(node))),
    "BitShift": shift,
    "Clip": limits,
    "Einsum": contraction,
    "Mod": lambda node: np.fmod if node.attr("fmod", 0) else np.mod,
    "ReduceL1": reduction(lambda x, **how: joined(np.add)(np.abs(x), **how)),
    "ReduceMax": reduction(joined(np.maximum)),
    "ReduceMean": reduction(mean),
    "ReduceMin": reduction(joined(np.minimum)),
    "ReduceProd": reduction(joined(np.multiply)),
    "ReduceSum": reduction(joined(np.add)),
    "TopK": top,
}
CODES = {np.dtype(t) for t in (np.int8, np.uint8, np.int16, np.uint16, np.int32)}  # that DequantizeLinear reads
# Operators that take less time here than in a graph, which makes floats of integers and integers of the results
OF_INTEGERS = set(
    "Abs Add And ArgMax ArgMin BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CenterCropPad Clip "
    "Concat CumProd CumSum Equal Expand Flatten Gather GatherElements GatherND Greater GreaterOrEqual Less LessOrEqual "
    "Max MaxUnpool Min Mod Mul Neg NonZero Not OneHot Or ReduceL1 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "Relu Reshape ReverseSequence Scatter ScatterElements ScatterND Sign Slice Split Squeeze Sub Sum TensorScatter "
    "Tile TopK Trilu Unsqueeze Xor".split()
)
GROWING = {"Expand", "OneHot", "Tile"}  # those whose results are large for small operands
TAKING = {"Gather", "GatherElements", "GatherND"}  # those of which it is the first operand that would be converted
