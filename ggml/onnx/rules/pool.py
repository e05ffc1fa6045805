"""Pooling."""

import functools

import numpy as np

from ..recording import ggml
from ..values import F32, I64, Known, OnHost, Tensor, count, floats
from . import rule
from .conv import window, windows
from .index import place_of_max, scatter
from .shape import continued


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
    if 0 in out:
        return empty(x, out, x.dtype), empty(x, out, I64)
    if len(node.outputs) < 2 or not node.outputs[1]:
        return pooled(b, x, kernel, strides, dilations, pads, out, most=True)
    place = windows(x.shape[2:], kernel, strides, dilations, pads, out)
    place = np.take_along_axis(place, np.argsort(place < 0, 1, kind="stable"), 1)  # -inf comes before the padding
    y = unfolded(b, x, place)
    if (place < 0).any():
        nothing = b.constant(np.where(place < 0, -np.inf, 0)[..., None].astype(np.float32))
        y = Tensor(b.binary(ggml.ggml_add, y, nothing, dtype=F32).t, y.shape, x.dtype, x.bounds)
    return folded(b, b.reduce_max(y, [1], False), x, out), maxima(b, node, x, y, place, out)


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


def pooled(b, x, kernel, strides, dilations, pads, out, most):
    """The maximum (most) or the average of each window, with -inf or 0 around x.

    The windows of the last two axes are those of ggml_pool_2d, as are then those of each axis before. Its padding of
    both sides is one number, and what begins before the first element is its whole part.
    """
    if len(kernel) == 1:
        y = b.reshape(x, (*x.shape[:2], 1, *x.shape[2:]))
        y = pooled(b, y, [1, *kernel], [1, *strides], [1, *dilations], [(0, 0), *pads], [1, *out], most)
        return b.reshape(y, (*x.shape[:2], *out))
    kernel, strides, sides, widths = list(kernel), list(strides), [], [(0, 0), (0, 0)]
    for n, k, s, d, (p, _), o in zip(x.shape[2:], kernel, strides, dilations, pads, out):
        after = max((o - 1) * s + d * (k - 1) + 1 - n - p, 0)
        both = max(2 * p, p + after)
        alike = d == 1 and both // 2 == p and (n + both - k) // s + 1 == o
        sides.append(both / 2 if alike else 0)
        widths.append((0, 0) if alike else (p, after))
    y = continued(b, b.use(x), widths, -np.inf if most else 0.0)
    for i, d in enumerate(dilations):
        if d > 1:
            y = dilated(b, y, i + 2, kernel[i], strides[i], d, out[i], most)
            kernel[i] = strides[i] = 1
    rank = len(kernel)
    for first, end in [(rank - 2, rank), *((i, i + 1) for i in reversed(range(rank - 2)))]:
        numbers = [(*v[first:end], rest)[:2] for v, rest in ((kernel, 1), (strides, 1), (sides, 0))]
        if numbers == [(1, 1), (1, 1), (0, 0)]:
            continue
        lead, rest = y.shape[: first + 2], y.shape[end + 2 :]
        planes = b.contiguous(b.reshape(y, (count(lead), *y.shape[first + 2 : end + 2], *[count(rest)][: len(rest)])))
        function = ggml.ext.max_pool_2d if most else average_pool_2d
        t = function(b.ctx, planes.t, *(n for pair in numbers for n in reversed(pair)))
        size = (*lead, *out[first:end], *rest)
        y = b.reshape(b.with_shape(t, (count(lead), *out[first:end], *[count(rest)][: len(rest)]), x), size)
    return y


def average_pool_2d(ctx, t, *numbers):
    """As ggml.ext.max_pool_2d, of averages."""
    return ggml.ggml_pool_2d(ctx, t, ggml.GGML_OP_POOL_AVG, *numbers)


def dilated(b, x, axis, taps, stride, dilation, n, most):
    """The maximum or the average of entries of an axis that do not lie side by side, n times."""
    parts = [b.slice(x, axis, t * dilation, n, stride) for t in range(taps)]
    return functools.reduce(b.maximum, parts) if most else b.affine(functools.reduce(b.add, parts), 1 / taps)


@rule("AveragePool", on_floats=True)
def average_pool(b, node, x):
    kernel, strides, dilations, pads, out = geometry(node, x.shape[2:])
    if 0 in out:
        return empty(x, out, x.dtype)
    y = pooled(b, x, kernel, strides, dilations, pads, out, most=False)
    axes = list(zip(x.shape[2:], kernel, strides, dilations, pads, out))
    if not any(map(any, pads)) and all((o - 1) * s + d * (k - 1) < n for n, k, s, d, _, o in axes):
        return y
    counted = np.ones(())
    for n, k, s, d, (p, q), o in axes:
        at = np.arange(o)[:, None] * s + np.arange(k) * d
        inside = at < p + n + q if node.attr("count_include_pad", 0) else (at >= p) & (at < p + n)
        counted = np.multiply.outer(counted, inside.sum(1))
    whole = counted == count(kernel)
    return y if whole.all() else b.mul(y, b.constant((count(kernel) / counted).astype(np.float32)))


@rule("LpPool")
def lp_pool(b, node, x):
    kernel, strides, dilations, pads, out = geometry(node, x.shape[2:])
    if 0 in out:
        return empty(x, out, x.dtype)

    def sums(y):
        return b.affine(pooled(b, y, kernel, strides, dilations, pads, out, most=False), count(kernel))

    return norm_of(b, x, node.attr("p", 2), sums)


def norm_of(b, x, p, total):
    """The p-norm of the elements that the function total adds up."""
    floats(x)
    size = b.unary(ggml.ggml_abs, x)
    if p == 1:
        return total(size)
    if p == 2:
        return b.unary(ggml.ggml_sqrt, total(b.mul(x, x)))
    powers = b.unary(ggml.ggml_exp, b.affine(b.unary(ggml.ggml_log, size), p))
    return b.unary(ggml.ggml_exp, b.affine(b.unary(ggml.ggml_log, total(powers)), 1 / p))


def global_lp_pool(b, node, x):
    return norm_of(b, x, node.attr("p", 2), lambda y: b.reduce_sum(y, range(2, len(x.shape)), True))


rule("GlobalAveragePool")(lambda b, node, x: b.reduce_sum(x, range(2, len(x.shape)), True, mean=True))
rule("GlobalMaxPool")(lambda b, node, x: b.reduce_max(x, range(2, len(x.shape)), True))
rule("GlobalLpPool")(global_lp_pool)


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
