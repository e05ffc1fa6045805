"""Comparisons, logic and selection."""

import numpy as np

import ggml

from ..values import BOOL, F32, Known, count, floats, is_float
from . import rule

rule("Less", "Greater")(lambda b, node, x, y: b.less(x, y) if node.op == "Less" else b.less(y, x))


@rule("LessOrEqual", "GreaterOrEqual")
def less_or_equal(b, node, x, y):
    if node.op == "GreaterOrEqual":
        x, y = y, x
    inside = b.logical_not(b.less(y, x))
    return b.logical_and(inside, b.logical_and(b.number(x), b.number(y))) if is_float(x.dtype) else inside


@rule("Equal")
def equal(b, node, x, y):
    z, made, n = b.equal(x, y), getattr(x, "made", None), y.shape[-1] if y.shape else 0
    if made and made[0] == "expanded" and count(y.shape) == n and isinstance(y, Known) and (
            np.ravel(y.array) == np.arange(n)).all():
        z.made = "one hot", made[1], n
    return z


rule("Not")(lambda b, node, x: b.logical_not(x))
rule("And", "Or")(lambda b, node, x, y: b.logical_and(x, y) if node.op == "And" else b.logical_or(x, y))
rule("Xor")(lambda b, node, x, y: b.unary(ggml.ggml_abs, b.binary(ggml.ggml_sub, x, y, dtype=F32), dtype=BOOL))


@rule("IsNaN")
def is_nan(b, node, x):
    floats(x)
    return b.logical_not(b.number(x))


@rule("IsInf")
def is_inf(b, node, x):
    floats(x)
    both = [node.attr("detect_positive", 1), node.attr("detect_negative", 1)]
    if not any(both):
        return b.full(x.shape, False, BOOL)
    x = b.use(x)
    size = b.unary(ggml.ggml_abs, x) if all(both) else x if both[0] else b.negative(x)
    return b.less(b.scalar(np.finfo(np.float32).max, b.constant(0, F32)), b.like(size.t, size.shape, F32))


rule("Where")(lambda b, node, condition, x, y: b.select(condition, x, y))
