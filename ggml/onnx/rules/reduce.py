"""Reductions over axes."""

from typing import Any

import numpy as np

import ggml

from ..values import OnHost, is_float
from . import rule
from .shape import parameter


def axes_of(b, node, x, axes):
    """The axes to reduce, or None if there is nothing to do."""
    axes = parameter(b, node, "axes", axes)
    if axes is None or len(axes) == 0:
        return None if node.attr("noop_with_empty_axes", 0) else list(range(len(x.shape)))
    return list(axes)


@rule("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
      "ReduceLogSum", "ReduceLogSumExp")
def reduce(b, node, x, axes=None):
    axes, keep, kind = axes_of(b, node, x, axes), bool(node.attr("keepdims", 1)), node.op.removeprefix("Reduce")
    if axes is None:
        axes, keep = [], True
    if not is_float(x.dtype) and kind not in ("Sum", "Max", "Min", "SumSquare", "L1", "Prod"):
        raise OnHost(f"{x.dtype} is computed on the host")
    return REDUCTIONS[kind](b, x, axes, keep)


def sum_of(function):
    """The sum of a function of the elements."""
    return lambda b, x, axes, keep: b.reduce_sum(function(b, x), axes, keep)


def absolute(b, x):
    return b.unary(ggml.ggml_abs, x, bounds=x.bounds and (0, max(-x.bounds[0], x.bounds[1])))


def log_sum_exp(b, x, axes, keep):
    """log(sum(exp(x - top))) + top, so that nothing overflows."""
    top = b.reduce_max(x, axes, True)
    top = b.clamp(top, float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))
    total = b.unary(ggml.ggml_log, b.reduce_sum(b.unary(ggml.ggml_exp, b.sub(x, top)), axes, True))
    result = b.add(total, top)
    return result if keep else b.reshape(result, [d for a, d in enumerate(x.shape)
                                                  if a not in {i % len(x.shape) for i in axes}])


def product(b, x, axes, keep):
    """Products by halving: log2(n) multiplications of halves."""
    if x.bounds:
        raise OnHost("products of integers")
    rows = b.rows(x, axes)
    while rows.shape[1] > 1:
        n = rows.shape[1]
        half = b.mul(b.slice(rows, 1, 0, n // 2), b.slice(rows, 1, n // 2, n // 2))
        rows = b.concat([half, b.slice(rows, 1, n - 1, 1)], 1) if n % 2 else half
    return b.reduced(b.contiguous(rows).t, x, axes, keep)


def minimum(b, x, axes, keep):
    from ..values import F32

    held = b.use(x)
    top = b.reduce_max(b.with_shape(ggml.ggml_neg(b.ctx, held.t), x.shape, b.constant(0, F32)), axes, keep)
    return b.unary(ggml.ggml_neg, top, dtype=x.dtype, bounds=x.bounds)


REDUCTIONS: dict[str, Any] = {
    "Sum": lambda b, x, axes, keep: b.reduce_sum(x, axes, keep),
    "Mean": lambda b, x, axes, keep: b.reduce_sum(x, axes, keep, mean=True),
    "Max": lambda b, x, axes, keep: b.reduce_max(x, axes, keep),
    "Min": minimum,
    "Prod": product,
    "L1": sum_of(absolute),
    "L2": lambda b, x, axes, keep: b.unary(ggml.ggml_sqrt, REDUCTIONS["SumSquare"](b, x, axes, keep)),
    "SumSquare": sum_of(lambda b, x: b.mul(x, x)),
    "LogSum": lambda b, x, axes, keep: b.unary(ggml.ggml_log, b.reduce_sum(x, axes, keep)),
    "LogSumExp": log_sum_exp,
}
