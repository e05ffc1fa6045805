"""Operators of float64, which compiled code computes in the graph (doubles.pyx); the others of them run on the host."""

import functools
from typing import Any

import numpy as np

from .. import doubles
from ..doubles import FUNCTIONS
from ..graph import numpy_type
from ..layout import in_groups
from ..recording import ggml
from ..replaying import compiled_node
from ..values import (
    BOOL,
    F32,
    F64,
    I64,
    Double,
    Known,
    OnHost,
    Tensor,
    broadcast,
    count,
    extents,
    is_constant,
    place_of,
)
from . import RULES as OTHERS

RULES: dict[str, Any] = {}
WORK = 1 << 14  # elements that threads share
CODES = {op: np.array([i], np.int32) for i, op in enumerate(FUNCTIONS)}


def rule(*ops):
    """Decorator: registers the rule of operators, as rules.rule; not all of its operands need to be float64."""

    def register(function):
        RULES.update(dict.fromkeys(ops, function))
        return function

    return register


def results(b, node, values):
    """What the rule of a node makes of values, of which some are float64; None if there is none, or it declines."""
    function = RULES.get(node.op)
    if function is None or b.trains or any(0 in getattr(v, "shape", ()) for v in values):
        return None
    try:
        found = function(b, node, *values)
    except OnHost:
        return None
    return found if isinstance(found, tuple) else (found,)


def used(b, value):
    """The tensor of a value, contiguous, in F64 or F32."""
    if isinstance(value, Double):
        return value.t
    if value.dtype != F64:
        return b.contiguous(value).t
    if not isinstance(value, Known):
        return b.fed(value, ggml.GGML_TYPE_F64).t
    if value.trace:
        raise OnHost("a float64 that depends on sizes")
    if "f64" not in value.tensors:
        home = value.arena or b.arena
        value.tensors["f64"] = home, home.hold(value.array, value.shape, np.float64)
    return value.tensors["f64"][1]


def made(b, shape, function, *operands, data=None, kind=None):
    """The tensor of a shape that a function of compiled code computes, F64 unless another kind is asked for."""
    kind = ggml.GGML_TYPE_F64 if kind is None else kind
    tasks = ggml.GGML_N_TASKS_MAX if count(shape) >= WORK else 1
    return b.call(compiled_node, kind, *extents(shape), function, tasks, data, *operands)


def each(b, op, *values, truth=False):
    """A function of one or two values, element by element."""
    shape = values[0].shape if len(values) == 1 else broadcast(values[0].shape, values[1].shape)
    if len(shape) > 4 or shape and shape[-1] > doubles.WIDEST and any(v.shape != shape for v in values):
        raise OnHost("float64 of more than four axes, or wide rows that are broadcast")
    for v in values:
        own = (1,) * (len(shape) - len(v.shape)) + v.shape
        kept = own == shape or count(own) == 1 or own[-1] == count(own) or own == (*shape[:-1], 1)
        if not kept:
            raise OnHost("float64 that are broadcast along several axes")
    kind = ggml.GGML_TYPE_F32 if truth else None
    return made(b, shape, doubles.EACH, *(used(b, v) for v in values), data=CODES[op], kind=kind), shape


@rule("Add", "Sub", "Mul", "Div", "Sum", "Max", "Min")
def arithmetic(b, node, x, *others):
    op = "Add" if node.op == "Sum" else node.op
    for y in others:
        x = Double(*each(b, op, x, y))
    return x


@rule("Less", "Greater", "Equal")
def compare(b, node, x, y):
    t, shape = each(b, node.op, x, y, truth=True)
    return Tensor(t, shape, BOOL, (0, 1))


@rule("Neg", "Abs", "Sqrt", "Exp", "Log", "Reciprocal", "Sigmoid", "Tanh")
def unary(b, node, x):
    return Double(*each(b, node.op, x))


@rule("Cast")
def cast(b, node, x):
    """From and to floats, and to integers where these are known to be whole."""
    return converted(b, x, numpy_type(node.attr("to"), str(node)))


def converted(b, x, dtype):
    """A float64 in another type."""
    if dtype == F64:
        return Double(used(b, x), x.shape, x.bounds)
    if dtype == F32 or x.bounds and dtype.kind == "i":
        t, shape = each(b, "Cast", x, truth=True)
        return Tensor(t, shape, F32) if dtype == F32 else Tensor(t, shape, dtype, x.bounds)
    raise OnHost(f"conversion of float64 to {dtype}")


def widened(b, x):
    """A value of another type as float64."""
    if b.trains:
        raise OnHost("conversion to float64 has no gradient")
    t, shape = each(b, "Cast", x)
    return Double(t, shape, x.bounds)


@rule("MatMul")
def matmul(b, node, x, y):
    return product(b, x, y)


@rule("Gemm")
def gemm(b, node, x, y, c=None):
    if node.attr("alpha", 1.0) != 1 or node.attr("beta", 1.0) != 1 or node.attr("transA", 0) or not constant(y):
        raise OnHost("a Gemm of float64 with factors")
    z = product(b, x, y.derived("transposed", np.transpose) if node.attr("transB", 0) else y)
    return z if c is None else Double(*each(b, "Add", z, c))


def constant(y):
    """Whether a value is a matrix that does not depend on sizes."""
    return is_constant(y) and len(y.shape) == 2


def product(b, x, y):
    """The product of a matrix and a constant one."""
    if not constant(y) or len(x.shape) != 2 or x.shape[1] != y.shape[0] or x.dtype != y.dtype:
        raise OnHost("a product of float64 that is not one of a matrix and a constant one")
    shape = x.shape[0], y.shape[1]
    groups = y if shape[1] == 1 else y.derived("groups", grouped)
    return Double(made(b, shape, doubles.PRODUCT, used(b, x), used(b, groups)), shape)


def grouped(array):
    """The columns of a matrix in groups of eight: (groups, rows, 8)."""
    padded = np.pad(array, ((0, 0), (0, -array.shape[1] % 8)))
    return np.ascontiguousarray(padded.reshape(len(array), -1, 8).transpose(1, 0, 2))


@rule("Softmax")
def softmax(b, node, x):
    if node.version < 13 and len(x.shape) != 2 or place_of(node.attr("axis", -1), len(x.shape)) != len(x.shape) - 1:
        raise OnHost("a softmax of float64 along another axis than the last")
    return Double(made(b, x.shape, doubles.SOFTMAX, used(b, x)), x.shape)


@rule("ArgMax")
def arg_max(b, node, x):
    if place_of(node.attr("axis", 0), len(x.shape)) != len(x.shape) - 1 or node.attr("select_last_index", 0):
        raise OnHost("places of float64 along another axis than the last")
    shape = x.shape[:-1] + ((1,) if node.attr("keepdims", 1) else ())
    t = made(b, shape, doubles.PLACE, used(b, x), kind=ggml.GGML_TYPE_F32)
    return Tensor(t, shape, I64, (0, x.shape[-1] - 1))


@rule("Gather", "ai.onnx.ml.ArrayFeatureExtractor")
def columns(b, node, x, index):
    """Known entries of the last axis of a matrix."""
    axis = place_of(node.attr("axis", 0), len(x.shape)) if node.op == "Gather" else len(x.shape) - 1
    if not is_constant(index) or len(x.shape) != 2 or axis != 1:
        raise OnHost("float64 by index")
    n = x.shape[1]
    places = index.array.reshape(-1)
    places = np.where(places < 0, places + n, places)
    if not places.size or places.min() < 0 or places.max() >= n:
        raise OnHost("an index out of range")
    data = np.array([places.size, *places], np.int32)
    t = made(b, (x.shape[0], places.size), doubles.CHOOSE, used(b, x), data=data)
    shape = (x.shape[0], *(index.shape if node.op == "Gather" else (places.size,)))
    return b.reshape(Double(t, (x.shape[0], places.size), x.bounds), shape)


@rule("Concat")
def concat(b, node, *parts):
    if any(len(v.shape) != 2 or v.dtype != F64 for v in parts) or place_of(node.attr("axis"), 2) != 1:
        raise OnHost("float64 that are joined along another axis than the last")
    return in_groups(parts, doubles.MOST, functools.partial(joined, b))


def joined(b, values):
    """The columns of matrices beside each other, of as many as a node has operands."""
    shape = values[0].shape[0], sum(v.shape[1] for v in values)
    return Double(made(b, shape, doubles.JOIN, *(used(b, v) for v in values)), shape)


@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(b, node, x, *more):
    return OTHERS[node.op](b, node, Double(used(b, x), x.shape, x.bounds), *more)
