"""Normalisations, softmax and reductions."""

import functools
from typing import Any

import numpy as np

from ..builder import Builder
from ..recording import ggml
from ..reducing import EXPONENTIALS, SQUARES
from ..values import F32, Known, OnHost, count, is_float, place_of
from . import rule
from .elementwise import absolute
from .index import place_of_max
from .pool import norm_of
from .shape import padded, parameter


@rule("Softmax", "LogSoftmax", "Hardmax", on_floats=True)
def softmax(b, node, x):
    axis = node.attr("axis", 1 if node.version < 13 else -1) % max(len(x.shape), 1)
    if node.version < 13:  # all axes from this one on are one
        flat = b.reshape(x, (count(x.shape[:axis]), count(x.shape[axis:])))
        return b.reshape(log_softmax(b, flat, 1) if node.op == "LogSoftmax" else softmax_of(b, node.op, flat), x.shape)
    if node.op == "LogSoftmax":
        return log_softmax(b, x, axis)
    return b.move(softmax_of(b, node.op, b.move(x, axis, -1)), -1, axis)


def softmax_of(b, op, x):
    """Softmax, or 1 for the maximum, over the last axis."""
    x = b.contiguous(x)
    if op == "Hardmax":
        place = place_of_max(b, b.reshape(x, (count(x.shape[:-1]), x.shape[-1])))
        hot = b.equal(b.reshape(place, (*x.shape[:-1], 1)), b.made(np.arange, x.shape[-1:], x.shape[-1:]))
        return b.like(hot.t, hot.shape, x.dtype)
    return b.with_shape(ggml.ggml_soft_max(b.ctx, x.t), x.shape, x)


def log_softmax(b, x, axis):
    """The logarithm of the softmax over an axis."""
    x = b.contiguous(x)
    if axis % len(x.shape) == len(x.shape) - 1 and count(x.shape):
        return b.with_shape(ggml.ext.log_soft_max(b.ctx, x.t), x.shape, x)
    x = b.sub(x, b.reduce_max(x, [axis], True))
    return b.sub(x, b.unary(ggml.ggml_log, b.reduce_sum(b.unary(ggml.ggml_exp, x), [axis], True)))


def normalised(b, x, axes, epsilon, root_mean_square=False, scale=None, bias=None):
    """(x - mean) / sqrt(variance + epsilon) over the last axes; or x / sqrt(mean of squares + epsilon).

    Then times scale, plus bias. The engine computes these nodes row by row where they have one shape.
    """
    kept = len(x.shape) - axes
    rows = x.shape[:kept] if kept < 4 else (count(x.shape[:kept]),)
    flat = b.contiguous(b.reshape(x, (*rows, count(x.shape[kept:]))))
    function = ggml.ggml_rms_norm if root_mean_square else ggml.ggml_norm
    y = b.with_shape(function(b.ctx, flat.t, epsilon), flat.shape, x)
    for operation, v in ((b.mul, scale), (b.add, bias)):
        if v is not None:
            whole = tuple(v.shape) == tuple(x.shape[kept:])
            y = operation(y, b.reshape(v, flat.shape[-1:])) if whole else operation(b.reshape(y, x.shape), v)
    return b.reshape(y, x.shape)


@rule("LayerNormalization", "com.microsoft.LayerNormalization", on_floats=True)
def layer_norm(b, node, x, scale, bias=None):
    axis, epsilon = node.attr("axis", -1) % len(x.shape), node.attr("epsilon", 1e-5)
    y = normalised(b, x, len(x.shape) - axis, epsilon, False, scale, bias)
    if len(node.outputs) < 2:
        return y
    mean, variance = moments(b, x, range(axis, len(x.shape)))
    return y, mean, b.reciprocal(b.unary(ggml.ggml_sqrt, b.affine(variance, 1.0, epsilon)))


@rule("RMSNormalization", "SimplifiedLayerNormalization", on_floats=True)
def rms_norm(b, node, x, scale):
    axis = node.attr("axis", -1) % len(x.shape)
    return normalised(b, x, len(x.shape) - axis, node.attr("epsilon", 1e-5), True, scale)


rule("ggml.Normalise", on_floats=True)(
    lambda b, node, x: normalised(b, x, node.attr("axes"), node.attr("epsilon"), not node.attr("centred"))
)


def by_channel(b, x, *vectors):
    """x with one axis behind its channels, and vectors of channels that fit it."""
    rows, inner = x.shape[:2], x.shape[2:]
    flat = b.reshape(x, (*rows, count(inner)) if inner else rows)
    return flat, *(b.reshape(v, (*rows[1:], 1) if inner else rows[1:]) for v in vectors)


def per_channel(b, x, scale, bias):
    """x * scale + bias with vectors of channels."""
    y, scale, bias = by_channel(b, x, scale, bias)
    return b.reshape(b.add(b.mul(y, scale), bias), x.shape)


@rule("ImageScaler", on_floats=True)
def image_scaler(b, node, x):
    bias = np.asarray(node.attr("bias"), np.float32)
    return b.add(b.affine(x, node.attr("scale", 1.0)), b.constant(bias.reshape(1, -1, 1, 1)))


def moments(b, x, axes):
    """Mean and variance over axes."""
    mean = b.reduce_sum(x, axes, True, mean=True)
    return mean, mean_square(b, b.sub(x, mean), axes)


def mean_square(b, x, axes):
    return b.reduce_sum(b.unary(ggml.ggml_sqr, x), axes, True, mean=True)


@rule("MeanVarianceNormalization", on_floats=True)
def mean_variance_norm(b, node, x):
    axes = node.attr("axes") or [0, 2, 3]
    x = b.sub(x, b.reduce_sum(x, axes, True, mean=True))
    return b.div(x, b.affine(b.unary(ggml.ggml_sqrt, mean_square(b, x, axes)), 1.0, 1e-9))


@rule("InstanceNormalization", on_floats=True)
def instance_norm(b, node, x, scale, bias):
    return channel_norm(b, x, x.shape[1], scale, bias, node.attr("epsilon", 1e-5))


def channel_norm(b, x, groups, scale, bias, epsilon):
    """Groups of channels with mean 0 and variance 1, times a factor and plus a bias of each channel."""
    if b.trains:
        y = normalised(b, b.reshape(x, (x.shape[0], groups, count(x.shape[1:]) // groups)), 1, epsilon)
        return per_channel(b, b.reshape(y, x.shape), scale, bias)
    channels = (groups, x.shape[1] // groups)
    rows = b.contiguous(b.reshape(x, (x.shape[0], *channels, count(x.shape[2:]))))
    factor, shift = (b.use(b.reshape(v, (*channels, 1))).t for v in (scale, bias))
    t = ggml.ext.channel_norm(b.ctx, rows.t, factor, shift, epsilon)
    return b.reshape(b.with_shape(t, rows.shape, x), x.shape)


@rule("GroupNormalization", on_floats=True)
def group_norm(b, node, x, scale, bias):
    groups = node.attr("num_groups")
    flat = x
    if node.version < 21:  # one factor per group
        flat = b.reshape(x, (x.shape[0], groups, count(x.shape[1:]) // groups))
    return b.reshape(channel_norm(b, flat, groups, scale, bias, node.attr("epsilon", 1e-5)), x.shape)


@rule("BatchNormalization", on_floats=True)
def batch_norm(b, node, x, scale, bias, mean, variance):
    epsilon = node.attr("epsilon", 1e-5)
    if node.attr("training_mode", 0):
        return trained_batch_norm(b, node, x, scale, bias, mean, variance)
    if len([o for o in node.outputs if o]) > 1:
        raise OnHost("batch normalisation of training")
    if not node.attr("spatial", 1):  # until version 7: statistics of each element of the channels
        deviation = b.unary(ggml.ggml_sqrt, b.affine(variance, 1.0, epsilon))
        return b.add(b.mul(b.div(b.sub(x, mean), deviation), scale), bias)
    if all(isinstance(v, Known) for v in (scale, bias, mean, variance)):
        x = b.use(x)
        arrays = [v.array.astype(np.float64) for v in (scale, bias, mean, variance)]
        factor = arrays[0] / np.sqrt(arrays[3] + epsilon)
        return per_channel(b, x, b.constant(factor, F32), b.constant(arrays[1] - arrays[2] * factor, F32))
    return scaled(b, x, scale, bias, mean, variance, epsilon)


def scaled(b, x, scale, bias, mean, variance, epsilon):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias with vectors of channels."""
    factor = b.div(scale, b.unary(ggml.ggml_sqrt, b.affine(variance, 1.0, epsilon)))
    y, mean, factor, bias = by_channel(b, x, mean, factor, bias)
    return b.reshape(b.add(b.mul(b.sub(y, mean), factor), bias), x.shape)


def trained_batch_norm(b, node, x, scale, bias, mean, variance):
    """Normalises by the batch's own statistics, and returns the running ones."""
    axes, momentum = [0, *range(2, len(x.shape))], node.attr("momentum", 0.9)
    own, spread = moments(b, x, axes)
    own, spread = (b.reshape(v, mean.shape) for v in (own, spread))
    y = scaled(b, x, scale, bias, own, spread, node.attr("epsilon", 1e-5))
    running = [
        b.add(b.affine(old, momentum), b.affine(new, 1 - momentum)) for old, new in ((mean, own), (variance, spread))
    ]
    return y, *running


@rule("LpNormalization", on_floats=True)
def lp_norm(b, node, x):
    axis, p = node.attr("axis", -1), node.attr("p", 2)
    if p == 2 and axis % len(x.shape) == len(x.shape) - 1 and x.shape[-1] >= 64:  # shorter rows take longer
        x = b.contiguous(x)
        return b.with_shape(ggml.ggml_l2_norm(b.ctx, x.t, 0.0), x.shape, x)
    size = norm_of(b, x, p, lambda y: b.reduce_sum(y, [axis], True))
    zero = b.equal(size, b.full((), 0, x.dtype))
    return b.div(x, b.select(zero, b.full((), 1, x.dtype), size))


@rule("LRN", on_floats=True)
def local_response(b, node, x):
    size, c = node.attr("size"), x.shape[1]
    planes = b.reshape(x, (x.shape[0], c, count(x.shape[2:])))
    squares = padded(b, b.unary(ggml.ggml_sqr, planes), [((size - 1) // 2, size // 2), (0, 0)])
    total = functools.reduce(b.add, [b.slice(squares, 1, k, c) for k in range(size)])
    base = b.affine(total, node.attr("alpha", 1e-4) / size, node.attr("bias", 1.0))
    power = b.binary(ggml.ext.pow, base, b.full((), -node.attr("beta", 0.75)))
    return b.reshape(b.mul(planes, power), x.shape)


# Reductions over axes


def axes_of(b, node, x, axes):
    """The axes to reduce, or None if there is nothing to do."""
    axes = parameter(b, node, "axes", axes)
    if axes is None or len(axes) == 0:
        return None if node.attr("noop_with_empty_axes", 0) else list(range(len(x.shape)))
    return [place_of(a, len(x.shape)) for a in axes]


@rule(
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
)
def reduce(b, node, x, axes=None):
    axes, keep, kind = axes_of(b, node, x, axes), bool(node.attr("keepdims", 1)), node.op.removeprefix("Reduce")
    if axes is None:
        axes, keep = [], True
    if not is_float(x.dtype) and kind not in ("Sum", "Max", "Min", "SumSquare", "L1", "Prod"):
        raise OnHost(f"{x.dtype} is computed on the host")
    return REDUCTIONS[kind](b, x, axes, keep)


def square_sum(b, x, axes, keep):
    """The sum of squares."""
    if not b.is_short(x, axes):
        return b.reduce_sum(b.mul(x, x), axes, keep)
    return b.reduced(b.for_each_row(b.rows(x, axes), SQUARES)[0].t, x, axes, keep)


def log_sum_exp(b, x, axes, keep):
    """log(sum(exp(x - top))) + top, so that nothing overflows."""
    if b.is_short(x, axes):
        total, top = b.for_each_row(b.rows(x, axes), EXPONENTIALS, 2)
        return b.reduced(b.add(b.unary(ggml.ggml_log, total), top).t, x, axes, keep)
    top = b.reduce_max(x, axes, True)
    top = b.clamp(top, float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))
    total = b.unary(ggml.ggml_log, b.reduce_sum(b.unary(ggml.ggml_exp, b.sub(x, top)), axes, True))
    return b.reduce_sum(b.add(total, top), axes, keep)


def product(b, x, axes, keep):
    """Products: of the first half with the second, until one column is left."""
    rows = b.use(b.rows(x, axes))
    n = int(rows.shape[1])
    if not n:
        raise OnHost("a product of nothing")
    while n > 1:
        half = n // 2
        found = b.mul(b.slice(rows, 1, 0, half), b.slice(rows, 1, half, half))
        rows, n = b.concat([found, b.slice(rows, 1, n - 1, 1)], 1) if n % 2 else found, n - half
    return b.reduced(b.contiguous(rows).t, x, axes, keep, bounds=rows.bounds)


REDUCTIONS: dict[str, Any] = {
    "Sum": Builder.reduce_sum,
    "Mean": functools.partial(Builder.reduce_sum, mean=True),
    "Prod": product,
    "Max": Builder.reduce_max,
    "Min": Builder.reduce_min,
    "L1": lambda b, x, axes, keep: b.reduce_sum(absolute(b, None, x), axes, keep),
    "L2": lambda b, x, axes, keep: norm_of(b, x, 2, lambda y: b.reduce_sum(y, axes, keep)),
    "SumSquare": square_sum,
    "LogSum": lambda b, x, axes, keep: b.unary(ggml.ggml_log, b.reduce_sum(x, axes, keep)),
    "LogSumExp": log_sum_exp,
}
