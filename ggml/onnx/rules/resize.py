"""Resize, Upsample and sampling at computed coordinates."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays.shapes import grid_of
from ..layout import SHARED
from ..recording import ggml
from ..replaying import compiled_node
from ..scattering import SAMPLES
from ..values import EXACT, F32, F64, OnHost, count, extents, is_float, place_of
from . import rule
from .elementwise import convert, round_half_even
from .matmul import matmul


def coordinates(mode, n, size, scale, span, kind=np.float64):
    """Where the size positions of a resized axis lie on the original one of n entries, computed in a type of floats."""
    i, scale = np.arange(size, dtype=kind), kind(scale)
    if mode == "align_corners":
        return i * (n - 1) / (scale * n - 1) if scale * n > 1 else i * 0
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, end = span
        part = i / (size - 1) if size > 1 else i + 0.5
        return (start + part * (end - start)) * (n - 1)
    if mode == "pytorch_half_pixel" and size == 1:
        return i * 0
    offset = n / 2 * (1 - size / (scale * n)) if mode == "half_pixel_symmetric" else 0
    return offset + (i + 0.5) / scale - 0.5  # in this order of the specification: they may be rounded to whole numbers


NEAREST: dict[str, Any] = {  # how coordinates become entries
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
}


def cubic(t, a):
    """The cubic convolution kernel at distances t."""
    t = np.abs(t)
    inner = (a + 2) * t**3 - (a + 3) * t**2 + 1
    outer = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return np.where(t <= 1, inner, np.where(t < 2, outer, 0))


def weights(node, x, n, scale):
    """The matrix (resized, original) of an axis."""
    mode, out = node.attr("mode", "nearest"), np.zeros((len(x), n))
    rows = np.arange(len(x))
    if mode == "nearest":
        how = node.attr("nearest_mode", "round_prefer_floor")
        if how == "outer":  # until version 10
            how = "floor" if scale >= 1 else "ceil"
        place = NEAREST[how](x)
        out[rows, np.clip(place, 0, n - 1).astype(int)] = 1
        return out
    stretch = min(scale, 1.0) if node.attr("antialias", 0) else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) / stretch)
    first = np.floor(x).astype(int)
    taps = first[:, None] + np.arange(1 - reach, reach + 1)
    distance = (taps - x[:, None]) * stretch
    w = np.maximum(1 - np.abs(distance), 0) if mode == "linear" else cubic(distance, node.attr("cubic_coeff_a", -0.75))
    if node.attr("exclude_outside", 0):
        w = np.where((taps < 0) | (taps >= n), 0, w)
    w /= w.sum(1, keepdims=True)
    np.add.at(out, (rows[:, None], np.clip(taps, 0, n - 1)), w)
    return out


def repeats(node, mode, scale):
    """Whether a scale repeats each entry of an axis, however many there are."""
    if node.attr("mode", "nearest") != "nearest" or mode not in ("asymmetric", "half_pixel") or scale % 1 or scale < 2:
        return False
    n, wide = 4, 4 * int(scale)  # in these modes, coordinates do not depend on the size
    matrix = weights(node, coordinates(mode, n, wide, scale, (0, 1)), n, scale)
    return bool((matrix[np.arange(wide), np.arange(wide) // int(scale)] == 1).all())


def apply(b, x, axis, matrix):
    """Multiplies an axis by a matrix that is mostly zeros: by gathering, weighted sums, or a product."""
    used = matrix != 0
    taps = int(used.sum(1).max())
    if taps > 4 and matrix.shape[1] > 8:
        return b.move(matmul(b, b.move(x, axis, -1), b.constant(matrix.T.astype(np.float32))), -1, axis)
    order = np.argsort(~used, 1, kind="stable")[:, :taps]
    rows = np.arange(len(matrix))
    total = None
    for k in range(taps):
        part = b.gather(x, axis, b.constant(order[:, k]))
        w = matrix[rows, order[:, k]].astype(np.float32)
        if not (w == 1).all():
            part = b.mul(part, b.constant(w.reshape([-1 if a == axis else 1 for a in range(len(x.shape))])))
        total = part if total is None else b.add(total, part)
    return total


def interpolated(b, node, x, axes, sizes, scales, mode):
    """Linear interpolation of images as one operation, where it means the same; else None."""
    flags = {"half_pixel": 0, "pytorch_half_pixel": 0, "align_corners": ggml.GGML_SCALE_FLAG_ALIGN_CORNERS}
    rank, shape = len(x.shape), list(x.shape)
    if (
        node.attr("mode") != "linear"
        or mode not in flags
        or node.attr("antialias", 0)
        or rank > 4
        or rank < 2
        or node.attr("exclude_outside", 0)
    ):
        return None
    for a, size, scale in zip(axes, sizes, scales):
        n = x.shape[a]
        if scale != 1 and (a < rank - 2 or size == 1 or abs(scale * n - size) > 1e-7 * size):
            return None
        shape[a] = size
    ne0, ne1, ne2, ne3 = extents(shape)
    t = ggml.ggml_interpolate(b.ctx, b.contiguous(x).t, ne0, ne1, ne2, ne3, ggml.GGML_SCALE_MODE_BILINEAR | flags[mode])
    return b.with_shape(t, shape, x)


MODES = "nearest", "linear", "cubic"


@rule("Resize", "Upsample")
def resize(b, node, x, *operands):
    if node.op == "Upsample" or node.version < 11:
        scales = b.known(operands[0]) if operands else np.array(node.attr("scales"))
        attrs = {
            "mode": node.attr("mode", "nearest").replace("bilinear", "linear"),
            "nearest_mode": "outer",
            "coordinate_transformation_mode": "asymmetric",
        }
        node = replace(node, attrs={**node.attrs, **attrs})
        roi, sizes = None, None
    else:
        roi, scales, sizes = (b.known(v) for v in (*operands, None, None, None)[:3])
        roi = None if roi is None else roi.astype(np.float64)
    if not (is_float(x.dtype) or node.attr("mode", "nearest") == "nearest"):
        return of_integers(b, node, x, operands)
    rank = len(x.shape)
    axes = [place_of(a, rank) for a in node.attr("axes", range(rank))]
    if (kind := node.attr("mode", "nearest")) not in MODES:
        raise ValueError(f"mode is {kind!r}: need one of {', '.join(map(repr, MODES))}")
    wanted = sizes if sizes is not None and sizes.size else np.asarray(scales)
    if wanted.shape != (len(axes),):
        raise ValueError(f"sizes or scales have the shape {list(wanted.shape)}: need one for each of {len(axes)} axes")
    mode, narrow = node.attr("coordinate_transformation_mode", "half_pixel"), False
    if sizes is not None and sizes.size:
        scales, sizes = policy(node, [x.shape[a] for a in axes], sizes.astype(int))
    else:
        scales = np.asarray(scales, np.float32).tolist()
        sizes = [scaled_size(x.shape[a], s) for a, s in zip(axes, scales)]
        # As the nearest F32 to a scale such as 0.7 is not the scale, what should be whole numbers is so in F32 alone.
        narrow = kind == "nearest" and mode != "tf_crop_and_resize"
    if 0 in sizes:
        old_and_new = dict(enumerate(x.shape)) | dict(zip(axes, sizes))
        return b.full(list(old_and_new.values()), 0, x.dtype)
    y = interpolated(b, node, x, axes, sizes, scales, mode)
    if y:
        return y
    inside, beyond = np.ones((1,) * rank, bool), node.attr("extrapolation_value", 0.0)
    result, repeated = x, list(x.shape)
    for i, (a, size, scale) in enumerate(zip(axes, sizes, scales)):
        n = x.shape[a]
        if rank <= 4 and repeats(node, mode, scale):
            repeated[a] = size
            continue
        span = (roi[i], roi[i + len(axes)]) if mode == "tf_crop_and_resize" and roi is not None else (0, 1)
        if scale == 1 and mode != "tf_crop_and_resize":  # whatever the mode says of coordinates
            continue
        at = coordinates(mode, n, size, scale, span, np.float32 if narrow else np.float64)
        if n != size or not np.allclose(at, np.arange(n)):
            matrix = weights(node, at, n, scale)
            if rank <= 4 and size % n == 0 and (matrix[np.arange(size), np.arange(size) // (size // n)] == 1).all():
                repeated[a] = size
            else:
                result = apply(b, result, a, matrix)
        if mode == "tf_crop_and_resize":
            fits = (at >= 0) & (at <= n - 1)
            inside = inside & fits.reshape([-1 if k == a else 1 for k in range(rank)])
    if repeated != list(x.shape):
        shape = [n if r == p else r for r, n, p in zip(repeated, result.shape, x.shape)]
        ne0, ne1, ne2, ne3 = extents(shape)
        t = ggml.ggml_interpolate(b.ctx, b.contiguous(result).t, ne0, ne1, ne2, ne3, ggml.GGML_SCALE_MODE_NEAREST)
        result = b.with_shape(t, shape, x)
    if inside.all():
        return result
    return b.select(b.constant(np.broadcast_to(inside, result.shape)), result, b.full((), beyond, x.dtype))


def of_integers(b, node, x, operands):
    """Weighted sums of small integers: truncated, or rounded with antialiasing, as image libraries do."""
    if x.dtype.kind not in "iu" or x.dtype.itemsize > 2:
        raise OnHost(f"{x.dtype} is computed on the host")
    y, span = resize(b, node, convert(b, x, F32), *operands), np.iinfo(x.dtype)
    if 0 in y.shape:
        return convert(b, y, x.dtype)
    if node.attr("antialias", 0):
        y = b.unary(ggml.ggml_floor, b.affine(y, 1.0, 0.5))
    y = b.clamp(b.unary(ggml.ggml_trunc, y), float(span.min), float(span.max))
    return b.like(y.t, y.shape, x.dtype, (int(span.min), int(span.max)))


def scaled_size(n, scale):
    """The size of a resized axis, whose product is rounded to F32 as the scale is."""
    return n * int(scale) if scale == int(scale) else math.floor(np.float32(int(n)) * np.float32(scale))


def policy(node, old, sizes):
    """Scales and sizes that keep the aspect ratio as asked for."""
    keep = node.attr("keep_aspect_ratio_policy", "stretch")
    scales = [s / n for s, n in zip(sizes, old)]
    if keep != "stretch":
        scale = min(scales) if keep == "not_larger" else max(scales)
        return [scale] * len(old), [int(math.floor(scale * n + 0.5)) for n in old]
    return scales, [int(s) for s in sizes]


@rule("AffineGrid", on_floats=True)
def affine_grid(b, node, theta, size):
    if theta.dtype == F64:
        raise OnHost("grids of float64")
    size = b.known(size).tolist()
    y = matmul(b, b.constant(grid_of(node, size).astype(np.float32)), b.transpose(theta, (0, 2, 1)))
    return b.reshape(b.like(y.t, y.shape, theta.dtype), (*theta.shape[:1], *size[2:], len(size) - 2))


PADDINGS = ["zeros", "border", "reflection"]  # numbered as by grid_sample.h


@rule("GridSample", on_floats=True)
def grid_sample(b, node, x, grid):
    """Samples at computed coordinates. In nodes, the taps of each are picked by their positions and weighted."""
    mode, padding = node.attr("mode", "linear").removeprefix("bi"), node.attr("padding_mode", "zeros")
    corners = node.attr("align_corners", 0)
    rank, batch, channels, size = len(x.shape) - 2, x.shape[0], x.shape[1], x.shape[2:]
    shape, points = grid.shape[1:-1], count(grid.shape[1:-1])
    if len(grid.shape) != rank + 2 or grid.shape[0] != batch or grid.shape[-1] != rank:
        raise ValueError(f"coordinates {list(grid.shape)} for images {list(x.shape)}: need [{batch}, ..., {rank}]")
    if mode != "cubic" and rank == 2 and size[1] > 1 and count(size) <= EXACT and not b.trains:
        flags = np.array([mode == "nearest", PADDINGS.index(padding), corners], np.int32)
        tasks = ggml.GGML_N_TASKS_MAX if channels * points >= SHARED else 1
        result, operands = (batch, channels, *shape), (b.contiguous(x).t, b.contiguous(grid).t)
        t = b.call(compiled_node, ggml.GGML_TYPE_F32, *extents(result), SAMPLES, tasks, flags, *operands)
        return b.like(t, result, x.dtype)
    grid = b.reshape(grid, (batch, points, rank))
    axes = []
    for d, n in enumerate(size):  # the grid has x first
        at = b.reshape(b.slice(grid, 2, rank - 1 - d, 1), (batch, 1, points))
        at = b.affine(at, (n - 1) / 2, (n - 1) / 2) if corners else b.affine(at, n / 2, (n - 1) / 2)
        axes.append(list(taps_of(b, at, n, mode, padding, corners)))
    base = b.constant((np.arange(batch * channels, dtype=np.float32) * count(size)).reshape(batch, channels, 1))
    total, plane = None, b.contiguous(x)
    for taps in itertools.product(*axes):
        place, weight = b.full((1, 1, 1), 0.0), None
        for (index, w), n in zip(taps, size):
            place = b.add(b.affine(place, float(n)), index)
            weight = w if weight is None or w is None else b.mul(weight, w)
        part = b.pick(plane, b.binary(ggml.ggml_add, base, place, dtype=F32))
        part = part if weight is None else b.mul(part, weight)
        total = part if total is None else b.add(total, part)
    return b.reshape(total, (batch, channels, *shape))


def reflected(b, at, low, high):
    """Coordinates reflected at two borders until they lie between them."""
    span = high - low
    if span <= 0:
        return b.affine(at, 0.0, low)
    away = b.unary(ggml.ggml_abs, b.affine(at, 1.0, -low))
    turns = b.unary(ggml.ggml_floor, b.affine(away, 1 / span))
    rest = b.sub(away, b.affine(turns, span))
    odd = b.affine(b.sub(b.affine(turns, 0.5), b.unary(ggml.ggml_floor, b.affine(turns, 0.5))), 2.0)
    return b.affine(b.add(rest, b.mul(odd, b.affine(rest, -2.0, span))), 1.0, low)


def taps_of(b, at, n, mode, padding, corners):
    """Pairs of an index and a weight (None: 1, of nearest without zeros) for the taps of one axis."""
    low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
    if padding == "border" and mode != "cubic":
        at = b.clamp(at, 0.0, n - 1.0)
    if padding == "reflection" and mode != "cubic":
        at = b.clamp(reflected(b, at, low, high), 0.0, n - 1.0)
    if mode == "nearest":
        at = round_half_even(b, at)
        offsets = [(at, None)]
    else:
        first = b.unary(ggml.ggml_floor, at)
        part = b.sub(at, first)
        offsets = [
            (b.affine(first, 1.0, float(k)), kernel(b, part, k, mode))
            for k in (range(2) if mode == "linear" else range(-1, 3))
        ]
    for index, w in offsets:
        if padding == "reflection" and mode == "cubic":
            index = reflected(b, index, low, high)
        inside = b.clamp(index, 0.0, n - 1.0)
        if padding == "zeros":
            hit = b.equal(inside, index)
            hit = b.like(hit.t, hit.shape, F32)
            w = hit if w is None else b.mul(w, hit)
        yield inside, w


def kernel(b, part, k, mode):
    """The weight of the tap k entries from the floor of a coordinate with this fractional part."""
    if mode == "linear":
        return b.affine(part, 1.0) if k else b.affine(part, -1.0, 1.0)
    a = -0.75
    t = b.affine(part, 1.0 if k < 1 else -1.0, float(-k) if k < 1 else float(k))  # distance |part - k|
    inner = k in (0, 1)
    c3, c2, c1, c0 = (a + 2, -(a + 3), 0.0, 1.0) if inner else (a, -5 * a, 8 * a, -4 * a)
    y = b.affine(b.mul(b.affine(t, c3, c2), t), 1.0, c1)
    return b.affine(b.mul(y, t), 1.0, c0)
