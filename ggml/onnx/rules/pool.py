"""Pooling."""

import numpy as np

from ..recording import ggml
from ..values import F32, I64, Known, OnHost, Tensor, count, floats, is_float
from . import rule
from .conv import window, windows
from .index import place_of_max, scatter


def geometry(node, size):
    """Kernel, strides, dilations, pads and result size of a pooling operator."""
    kernel = node.attr("kernel_shape")
    strides, dilations, pads = window(node, size, kernel)
    far = [n + p + q - d * (k - 1) - 1 for n, k, d, (p, q) in zip(size, kernel, dilations, pads)]
    # A window that is too large by less than a stride is cut.
    out = [(f // s if f >= 0 else -(-f // s)) + 1 for f, s in zip(far, strides)]
    if min(out) < 0:
        raise ValueError(f"a window of {list(kernel)} does not fit into {list(size)}")
    if node.attr("ceil_mode", 0):  # one more that is not whole, unless it starts in the padding
        out = [o + (f > 0 and f % s > 0 and o * s < n + p) for n, s, (p, _), o, f in zip(size, strides, pads, out, far)]
    return kernel, strides, dilations, pads, out


def unfolded(b, x, place):
    """The elements of each window: (windows, elements, n * c), zeros where place is negative."""
    channels = count(x.shape[:2])
    y = b.contiguous(b.transpose(b.reshape(x, (channels, count(x.shape[2:]))), (1, 0)))
    index = np.where(place < 0, -1, place)[..., None] * channels + np.arange(channels)
    return b.take(y, np.where(place[..., None] < 0, -1, index))


def empty(x, out, dtype):
    """The result of windows of which there are none."""
    return Known(np.empty((*x.shape[:2], *out), dtype))


def folded(b, y, x, out):
    """(windows, n * c) as (n, c, out...)."""
    return b.reshape(b.transpose(y, (1, 0)), (*x.shape[:2], *out))


@rule("MaxPool")
def max_pool(b, node, x):
    kernel, strides, dilations, pads, out = geometry(node, x.shape[2:])
    indices = len(node.outputs) > 1 and node.outputs[1]
    if 0 in out:
        return empty(x, out, x.dtype), empty(x, out, I64)
    plain = (is_float(x.dtype) or x.bounds) and not indices
    y = plain and pooled(b, ggml.GGML_OP_POOL_MAX, x, kernel, strides, dilations, pads, out)
    if y:
        return y
    place = windows(x.shape[2:], kernel, strides, dilations, pads, out)
    place = np.take_along_axis(place, np.argsort(place < 0, 1, kind="stable"), 1)  # -inf comes before the padding
    y = unfolded(b, x, place)
    if (place < 0).any():
        nothing = b.constant(np.where(place < 0, -np.inf, 0)[..., None].astype(np.float32))
        y = Tensor(b.binary(ggml.ggml_add, y, nothing, dtype=F32).t, y.shape, x.dtype, x.bounds)
    top = folded(b, b.reduce_max(y, [1], False), x, out)
    return (top, maxima(b, node, x, y, place, out)) if indices else top


def maxima(b, node, x, y, place, out):
    """Where the maxima are, as positions in the flattened input."""
    n, k, channels = y.shape
    found = place_of_max(b, b.reshape(b.transpose(y, (0, 2, 1)), (n * channels, k)))
    if node.attr("storage_order", 0):
        spatial = np.unravel_index(np.maximum(place, 0), x.shape[2:])
        place = np.ravel_multi_index(spatial[::-1], x.shape[:1:-1])
    chosen = b.pick(b.constant(place), b.add(found, b.constant(np.repeat(np.arange(n) * k, channels))))
    plane = np.tile(np.arange(channels) * count(x.shape[2:]), n)
    return folded(b, b.reshape(b.add(chosen, b.constant(plane)), (n, channels)), x, out)


def pooled(b, kind, x, kernel, strides, dilations, pads, out):
    """ggml_pool_2d, for which one dimension is a plane of one row; None if it has no such windows.

    The padding of both sides is one number, and what begins before the first element is its whole part.
    """
    most = [(o - 1) * s + k - n for n, k, s, o in zip(x.shape[2:], kernel, strides, out)]
    both = [2 * p if m <= 2 * p else m for m, (p, _) in zip(most, pads)]
    ends = [(n + p - k) // s + 1 for n, k, s, p in zip(x.shape[2:], kernel, strides, both)]
    if len(kernel) > 2 or max(dilations) > 1 or ends != out or any(e // 2 != p for e, (p, _) in zip(both, pads)):
        return None
    lead = (*x.shape[:2], *(1,) * (2 - len(out)))
    if len(kernel) == 1:
        kernel, strides, both = [1, *kernel], [1, *strides], [0, *both]
    numbers = *kernel[::-1], *strides[::-1], *(p / 2 for p in both[::-1])
    planes = b.contiguous(b.reshape(x, (*lead, *x.shape[2:]))).t
    if kind == ggml.GGML_OP_POOL_MAX:
        t = ggml.ext.max_pool_2d(b.ctx, planes, *numbers)
    else:
        t = ggml.ggml_pool_2d(b.ctx, planes, kind, *numbers)
    return b.reshape(b.with_shape(t, (*lead, *out), x), (*x.shape[:2], *out))


@rule("AveragePool", on_floats=True)
def average_pool(b, node, x):
    kernel, strides, dilations, pads, out = geometry(node, x.shape[2:])
    if 0 in out:
        return empty(x, out, x.dtype)
    y = pooled(b, ggml.GGML_OP_POOL_AVG, x, kernel, strides, dilations, pads, out)
    inside = not any(map(any, pads)) and all(
        (o - 1) * s + k <= n for n, k, s, o in zip(x.shape[2:], kernel, strides, out)
    )
    if y and inside:
        return y
    place = windows(x.shape[2:], kernel, strides, dilations, pads, out)
    counted = (place >= (-1 if node.attr("count_include_pad", 0) else 0)).sum(1)
    if y:
        whole = b.constant((count(kernel) / counted).reshape(out).astype(np.float32))
        return y if (counted == count(kernel)).all() else b.mul(y, whole)
    total = b.reduce_sum(unfolded(b, x, place), [1], False)
    return folded(b, b.mul(total, b.constant((1 / counted)[:, None].astype(np.float32))), x, out)


@rule("LpPool")
def lp_pool(b, node, x):
    kernel, strides, dilations, pads, out = geometry(node, x.shape[2:])
    if 0 in out:
        return empty(x, out, x.dtype)
    place = windows(x.shape[2:], kernel, strides, dilations, pads, out)
    return folded(b, norm_of(b, unfolded(b, x, place), [1], False, node.attr("p", 2)), x, out)


def norm_of(b, x, axes, keep, p):
    """The p-norm over axes."""
    floats(x)
    size = b.unary(ggml.ggml_abs, x)
    if p == 1:
        return b.reduce_sum(size, axes, keep)
    if p == 2:
        return b.unary(ggml.ggml_sqrt, b.reduce_sum(b.mul(x, x), axes, keep))
    total = b.reduce_sum(b.unary(ggml.ggml_exp, b.affine(b.unary(ggml.ggml_log, size), p)), axes, keep)
    return b.unary(ggml.ggml_exp, b.affine(b.unary(ggml.ggml_log, total), 1 / p))


rule("GlobalAveragePool")(lambda b, node, x: b.reduce_sum(x, range(2, len(x.shape)), True, mean=True))
rule("GlobalMaxPool")(lambda b, node, x: b.reduce_max(x, range(2, len(x.shape)), True))
rule("GlobalLpPool")(lambda b, node, x: norm_of(b, x, range(2, len(x.shape)), True, node.attr("p", 2)))


@rule("MaxUnpool")
def max_unpool(b, node, x, index, shape=None):
    size = b.ints(shape)
    kernel = node.attr("kernel_shape")
    strides, _, pads = window(node, x.shape[2:], kernel)
    inferred = [(n - 1) * s + k - p - q for n, s, k, (p, q) in zip(x.shape[2:], strides, kernel, pads)]
    inferred = [*x.shape[:2], *inferred]
    y = scatter(b, b.full(inferred, 0, x.dtype), b.reshape(index, (count(index.shape),)), x, 1, "none")
    if size is None or size == inferred:
        return y
    if any(a < c for a, c in zip(size, inferred)):
        raise OnHost("an output shape smaller than the pooled one")
    place = np.arange(count(inferred)).reshape(inferred)
    return b.take(y, np.pad(place, [(0, a - c) for a, c in zip(size, inferred)], constant_values=-1))
