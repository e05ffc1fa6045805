"""The vocabulary of the rules: ONNX's tensor algebra over ggml's functions.

A `Builder` appends nodes to the graph of one plan. Its methods take and return values (`Known`, `Feed`, `Tensor`), know
ONNX's shapes of any rank, broadcast as NumPy does, and keep the types and bounds of results true.
"""

from __future__ import annotations

import numpy as np

import ggml

from ..utils import from_numpy
from .values import BOOL, EXACT, F32, Known, NeedValue, OnHost, Tensor, count, extents, is_float, require_held, wrapped

PARAMETER = 4096  # operands up to this many elements may decide the shape of a graph


class Arena:
    """A ggml context that owns tensors with data, freed with the object."""

    def __init__(self):
        self.contexts = [ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=n)) for n in (False, True)]
        self.ctx, self.views = self.contexts
        self.arrays = []  # that tensors lie over

    def upload(self, array):
        """A tensor with the values of an array of up to 4 dimensions."""
        return from_numpy(np.ascontiguousarray(array), self.ctx)

    def hold(self, array, shape, dtype=np.float32):
        """A tensor (F32 or I8) of a shape over the memory of an array, copied only if it has another layout."""
        array = np.require(array, dtype, ["C", "A"])
        self.arrays.append(array)
        kind = ggml.GGML_TYPE_F32 if dtype == np.float32 else ggml.GGML_TYPE_I8
        t = ggml.ggml_new_tensor_4d(self.views, kind, *extents(shape))
        t.contents.data = array.ctypes.data
        return t

    def __del__(self):
        for ctx in vars(self).pop("contexts", ()):
            ggml.ggml_free(ctx)


class Builder:
    """Builds the graph of one plan.

    Args:
        arena: Arena for the constants of this plan.
        weights: type that matrices are stored as: None (F32), or a GGML_TYPE_* to which they are converted.
        trains: the graph needs gradients.
    """

    def __init__(self, arena, weights=None, trains=False):
        self.arena, self.weights, self.trains = arena, weights, trains
        self.ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=True))
        self.feeds = []

    def __del__(self):
        if getattr(self, "ctx", None):
            ggml.ggml_free(self.ctx)
            self.ctx = None

    # Values -> tensors

    def known(self, value, default=None):
        """The array of an operand that decides the graph: a shape, axes, a condition.

        Raises NeedValue if it is computed: then the plan ends here, and continues when the values are there.
        """
        if value is None:
            return default
        if isinstance(value, Known):
            return value.array
        if count(value.shape) > PARAMETER:
            raise OnHost(f"an operand of {count(value.shape)} elements decides the shape of the result")
        raise NeedValue(value)

    def ints(self, value, default=None):
        """`known` as a list of Python integers."""
        array = self.known(value)
        return default if array is None else [int(i) for i in np.ravel(array)]

    def use(self, value):
        """A Tensor of any value; raises OnHost for types and magnitudes that F32 does not represent."""
        if isinstance(value, Tensor):
            return value
        require_held(value)
        if isinstance(value, Known):
            if "f32" not in value.tensors:
                home = value.arena or self.arena
                value.tensors["f32"] = home, home.hold(value.array, value.shape)
            return Tensor(value.tensors["f32"][1], value.shape, value.dtype, value.bounds)
        if value.tensor is None:
            t = ggml.ggml_new_tensor_4d(self.ctx, ggml.GGML_TYPE_F32, *extents(value.shape))
            ggml.ggml_set_input(t)
            value.tensor = Tensor(t, value.shape, value.dtype, value.bounds)
            self.feeds.append(value)
        return value.tensor

    def constant(self, array, dtype=None):
        """A Known value that belongs to the plan."""
        return Known(np.asarray(array, dtype))

    def like(self, t, shape, dtype, bounds=None):
        """A Tensor of a computed ggml tensor: integers, in an interval, wrap as their type does, or are refused."""
        bounds, size = wrapped(dtype, bounds)
        if size:
            turns = ggml.ggml_floor(self.ctx, ggml.ggml_scale_bias(self.ctx, t, 1 / size, -bounds[0] / size))
            t = ggml.ggml_add(self.ctx, t, ggml.ggml_scale(self.ctx, turns, -float(size)))
        return Tensor(t, shape, dtype, bounds)

    def contiguous(self, x):
        """The Tensor with contiguous memory."""
        x = self.use(x)
        if ggml.ggml_is_contiguous(x.t):
            return x
        return Tensor(ggml.ggml_cont(self.ctx, x.t), x.shape, x.dtype, x.bounds)

    def with_shape(self, t, shape, like):
        """A Tensor of moved elements of another value."""
        return Tensor(t, shape, like.dtype, like.bounds)

    # Shapes

    def reshape(self, x, shape):
        """The same elements in another shape."""
        shape = tuple(int(d) for d in shape)
        if isinstance(x, Known):
            return x.derived(("reshape", shape), lambda a: a.reshape(shape))
        x = self.use(x)
        if x.shape == shape:
            return x
        if extents(x.shape) == extents(shape):
            return self.with_shape(x.t, shape, x)
        x = self.contiguous(x)
        return self.with_shape(ggml.ggml_reshape_4d(self.ctx, x.t, *extents(shape)), shape, x)

    def transpose(self, x, perm):
        """The axes in another order, as a view where four dimensions suffice."""
        perm = [int(p) for p in perm]
        if isinstance(x, Known):
            return x.derived(("transpose", *perm), lambda a: a.transpose(perm))
        x = self.use(x)
        shape = tuple(x.shape[p] for p in perm)
        if perm == sorted(perm):
            return x
        groups: list[list[int]] = []  # runs of axes that stay neighbours, without those of size 1
        for p in perm:
            if x.shape[p] == 1:
                continue
            if groups and all(x.shape[q] == 1 for q in range(groups[-1][-1] + 1, p)) and p > groups[-1][-1]:
                groups[-1].append(p)
            else:
                groups.append([p])
        if len(groups) > 4:
            return self.take(x, np.arange(count(x.shape)).reshape(x.shape).transpose(perm))
        source = sorted(range(len(groups)), key=lambda g: groups[g][0])
        sizes = [count(x.shape[p] for p in groups[g]) for g in source]
        y = self.reshape(x, sizes)
        axes = [0, 1, 2, 3]  # axes[i]: where ggml's dimension i of the source goes
        n = len(groups)
        for position, g in enumerate(source):
            axes[n - 1 - position] = n - 1 - g
        view = ggml.ggml_permute(self.ctx, y.t, *axes) if axes != [0, 1, 2, 3] else y.t
        sizes = [count(x.shape[p] for p in g) for g in groups]
        return self.reshape(self.with_shape(view, sizes, x), shape)

    def move(self, x, axis, to):
        """The value with one axis moved, as numpy.moveaxis."""
        order = list(range(len(x.shape)))
        order.insert(to % len(order), order.pop(axis % len(order)))
        return self.transpose(x, order)

    def expand(self, x, shape):
        """Broadcasts a value to a shape."""
        shape = tuple(int(d) for d in shape)
        if isinstance(x, Known):
            return Known(np.broadcast_to(x.array, shape))
        x = self.use(x)
        if x.shape == shape:
            return x
        own = (1,) * (len(shape) - len(x.shape)) + x.shape
        merged = collapse([own, shape])
        if len(merged[1]) > 4:
            return self.take(x, np.broadcast_to(np.arange(count(own)).reshape(own), shape))
        y = self.reshape(x, merged[0])
        return self.reshape(
            self.with_shape(ggml.ggml_repeat_4d(self.ctx, y.t, *extents(merged[1])), merged[1], x), shape)

    def concat(self, values, axis):
        """Joins values along an axis."""
        if all(isinstance(v, Known) for v in values):
            return Known(np.concatenate([v.array for v in values], axis))
        values = [self.use(v) for v in values if v.shape[axis]]
        rank = len(values[0].shape)
        axis %= rank
        shape = list(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)
        outer, inner = count(shape[:axis]), count(shape[axis + 1 :])
        joined = self.reshape(values[0], (outer, values[0].shape[axis], inner)).t
        for v in values[1:]:
            joined = ggml.ggml_concat(self.ctx, joined, self.reshape(v, (outer, v.shape[axis], inner)).t, 1)
        ends = list(zip(*(v.bounds for v in values if v.bounds)))
        bounds = (min(ends[0]), max(ends[1])) if ends else None
        y = Tensor(joined, (outer, shape[axis], inner), values[0].dtype, bounds)
        return self.reshape(y, shape)

    def slice(self, x, axis, start, size, step=1):
        """Elements start, start + step, ... of an axis; negative steps go backwards."""
        axis %= len(x.shape)
        if isinstance(x, Known):
            end = start + size * step
            part = (slice(None),) * axis + (slice(start, end if end >= 0 else None, step),)
            return x.derived(("slice", axis, start, size, step), lambda a: a[part])
        x = self.use(x)
        if start == 0 and step == 1 and size == x.shape[axis]:
            return x
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        outer, inner = count(x.shape[:axis]), count(x.shape[axis + 1 :])
        if step < 0:
            return self.gather_known(x, axis, np.arange(start, start + size * step, step))
        y = self.contiguous(self.reshape(x, (outer, x.shape[axis], inner)))
        nb = y.t.contents.nb[1] if inner > 1 else 4
        if inner == 1 and step > 1:  # rows of a view are contiguous: view rows of one element
            view = ggml.ggml_view_3d(self.ctx, y.t, 1, size, outer, 4 * step, 4 * x.shape[axis], 4 * start)
        else:
            view = ggml.ggml_view_3d(self.ctx, y.t, inner, size, outer, nb * step, y.t.contents.nb[2], nb * start)
        return self.reshape(self.with_shape(view, (outer, size, inner), x), shape)

    # Moving elements by index

    def take(self, x, index):
        """Elements of the flattened value by a known array of positions; -1 gives zero.

        Moves the longest runs of neighbours that the index allows as rows.
        """
        index = np.asarray(index, np.int64)
        x = self.contiguous(x)
        flat, total, bounds = index.reshape(-1), count(x.shape), x.bounds
        zeros = bool((flat < 0).any())
        width = row_width(flat, index.shape, total)
        rows = flat[::width] // width
        source = ggml.ggml_reshape_2d(self.ctx, x.t, width, total // width)
        if zeros:
            blank = self.use(self.constant(np.zeros((1, width), np.float32)))
            source = ggml.ggml_concat(self.ctx, source, blank.t, 1)
            rows = np.where(rows < 0, total // width, rows)
            bounds = bounds and (min(bounds[0], 0), max(bounds[1], 0))
        taken = ggml.ggml_get_rows(self.ctx, source, self.arena.upload(rows.astype(np.int32)))
        moved = ggml.ggml_reshape_4d(self.ctx, taken, *extents(index.shape))
        return Tensor(moved, index.shape, x.dtype, bounds)

    def gather_known(self, x, axis, index):
        """Entries of an axis by a known 1-d index."""
        outer, inner = count(x.shape[:axis]), count(x.shape[axis + 1 :])
        source = self.contiguous(self.reshape(x, (outer, x.shape[axis], inner)))
        rows = self.arena.upload(np.tile(np.asarray(index, np.int32), (outer, 1)))
        taken = ggml.ggml_get_rows(self.ctx, source.t, rows)
        shape = (*x.shape[:axis], len(index), *x.shape[axis + 1 :])
        return self.reshape(self.with_shape(taken, (outer, len(index), inner), source), shape)

    def index(self, x):
        """An I32 ggml tensor of an integer value, contiguous."""
        if isinstance(x, Known):
            if "i32" not in x.tensors:
                home = x.arena or self.arena
                array = x.array.astype(np.int32).reshape(extents(x.shape)[::-1])
                x.tensors["i32"] = home, home.upload(array)
            return x.tensors["i32"][1]
        return ggml.ggml_cast(self.ctx, self.contiguous(x).t, ggml.GGML_TYPE_I32)

    def pick(self, x, positions):
        """Elements of the flattened value by a computed Tensor of positions, of any shape."""
        if count(x.shape) > EXACT:
            raise OnHost("more than 2^24 elements: F32 does not represent every position")
        x, rows = self.contiguous(x), self.index(self.reshape(positions, (count(positions.shape),)))
        source = ggml.ggml_reshape_2d(self.ctx, x.t, 1, count(x.shape))
        taken = ggml.ggml_get_rows(self.ctx, source, ggml.ggml_reshape_1d(self.ctx, rows, count(positions.shape)))
        return self.with_shape(
            ggml.ggml_reshape_4d(self.ctx, taken, *extents(positions.shape)), positions.shape, x)

    # Arithmetic

    def unary(self, function, x, dtype=None, bounds=None):
        """A ggml function of one tensor, element by element."""
        x = self.use(x)
        return self.like(function(self.ctx, x.t), x.shape, dtype or x.dtype, bounds)

    def affine(self, x, scale=1.0, bias=0.0, dtype=None, bounds=None):
        """x * scale + bias."""
        x = self.use(x)
        return self.like(ggml.ggml_scale_bias(self.ctx, x.t, scale, bias), x.shape, dtype or x.dtype, bounds)

    def binary(self, function, x, y, dtype=None, bounds=None):
        """A ggml function of two tensors, element by element, broadcast as NumPy does."""
        dtype = dtype or x.dtype
        shape = np.broadcast_shapes(x.shape, y.shape)
        rank = len(shape)
        own = [(1,) * (rank - len(v.shape)) + tuple(v.shape) for v in (x, y)]
        merged = collapse([*own, shape])
        if len(merged[2]) > 4:
            x, y = self.expand(x, shape), self.expand(y, shape)
            merged = [(count(shape),)] * 3
        a, b = self.reshape(self.use(x), merged[0]), self.reshape(self.use(y), merged[1])
        if merged[0] != merged[2]:
            if merged[1] == merged[2] and function in (ggml.ggml_add, ggml.ggml_mul):
                a, b = b, a
            else:
                a = self.expand(a, merged[2])
        return self.reshape(self.like(function(self.ctx, a.t, b.t), merged[2], dtype, bounds), shape)

    def add(self, x, y):
        return self.binary(ggml.ggml_add, x, y, bounds=combine(x, y, lambda a, b: a + b))

    def sub(self, x, y):
        return self.binary(ggml.ggml_sub, x, y, bounds=combine(x, y, lambda a, b: a - b))

    def mul(self, x, y):
        return self.binary(ggml.ggml_mul, x, y, bounds=combine(x, y, lambda a, b: a * b))

    def div(self, x, y):
        """The quotient of floats."""
        return self.binary(ggml.ggml_div, x, y)

    def full(self, shape, value, dtype=F32):
        """A Known array of one value."""
        return Known(np.full(shape, value, dtype))

    def scalar(self, value, like):
        """A Known number with the type of another value."""
        return Known(np.asarray(value).astype(like.dtype))

    def rounded(self, x, dtype=None):
        """A float rounded to the half precision that its type has."""
        dtype = dtype or x.dtype
        half = ggml.GGML_TYPE_F16 if dtype == np.float16 else ggml.GGML_TYPE_BF16
        t = ggml.ggml_cast(self.ctx, ggml.ggml_cast(self.ctx, self.use(x).t, half), ggml.GGML_TYPE_F32)
        return Tensor(t, x.shape, dtype)

    def negative(self, x):
        bounds = x.bounds and (-x.bounds[1], -x.bounds[0])
        return self.unary(ggml.ggml_neg, x, bounds=bounds)

    def reciprocal(self, x):
        x = self.use(x)
        return self.with_shape(ggml.ggml_div(self.ctx, ggml.ggml_fill(self.ctx, x.t, 1.0), x.t), x.shape, x)

    def number(self, x):
        """1 where a float is a number or infinite, 0 where it is NaN (whose conversion to an integer is 0)."""
        x = self.use(x)
        one = ggml.ggml_step(self.ctx, ggml.ggml_scale_bias(self.ctx, ggml.ggml_abs(self.ctx, x.t), 1.0, 1.0))
        whole = ggml.ggml_cast(self.ctx, one, ggml.GGML_TYPE_I32)
        return Tensor(ggml.ggml_cast(self.ctx, whole, ggml.GGML_TYPE_F32), x.shape, BOOL, (0, 1))

    def truth(self, x):
        """A 0 or 1 that may be NaN, as a boolean: NaN is 0."""
        whole = ggml.ggml_cast(self.ctx, x.t, ggml.GGML_TYPE_I32)
        return Tensor(ggml.ggml_cast(self.ctx, whole, ggml.GGML_TYPE_F32), x.shape, BOOL, (0, 1))

    def less(self, x, y):
        """x < y; false for NaN."""
        difference = self.binary(ggml.ggml_sub, y, x, dtype=F32)
        positive = self.unary(ggml.ggml_step, difference, dtype=BOOL)
        return self.truth(positive) if is_float(x.dtype) else positive

    def equal(self, x, y):
        """x == y; false for NaN, true for equal infinities."""
        if is_float(x.dtype):
            return self.logical_and(self.logical_not(self.logical_or(self.less(x, y), self.less(y, x))),
                                    self.logical_and(self.number(x), self.number(y)))
        distance = self.unary(ggml.ggml_abs, self.binary(ggml.ggml_sub, x, y, dtype=F32))
        return self.logical_not(self.unary(ggml.ggml_step, distance, dtype=BOOL))

    def logical_not(self, x):
        return self.affine(x, -1.0, 1.0, dtype=BOOL)

    def logical_and(self, x, y):
        return self.binary(ggml.ggml_mul, x, y, dtype=BOOL)

    def logical_or(self, x, y):
        return self.unary(ggml.ggml_step, self.binary(ggml.ggml_add, x, y, dtype=F32), dtype=BOOL)

    def clamp(self, x, lo=-np.inf, hi=np.inf):
        """x limited to an interval of numbers."""
        x = self.use(x)
        bounds = x.bounds and tuple(int(min(max(b, lo), hi)) for b in x.bounds)
        return self.like(ggml.ggml_clamp(self.ctx, x.t, lo, hi), x.shape, x.dtype, bounds)

    def select(self, condition, x, y):
        """x where the condition is 1, y where it is 0: moves elements, so that infinities and NaN do no harm."""
        shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
        n = count(shape)
        if isinstance(condition, Known):
            chosen = np.broadcast_to(condition.array, shape)
            if chosen.all() or not chosen.any():
                return self.expand(x if chosen.all() else y, shape)
        both = self.concat([self.reshape(self.expand(v, shape), (n,)) for v in (x, y)], 0)
        place = np.arange(n).reshape(shape)
        if isinstance(condition, Known):
            return self.take(both, place + n * ~chosen.astype(bool))
        if 2 * n > EXACT:
            raise OnHost("more than 2^24 elements: F32 does not represent every position")
        offset = self.affine(self.expand(condition, shape), -float(n), float(n), dtype=F32)
        place = self.binary(ggml.ggml_add, offset, self.constant(place.astype(np.float32)))
        return self.pick(both, place)

    def maximum(self, x, y):
        """The larger of two values, element by element."""
        shape = np.broadcast_shapes(x.shape, y.shape)
        bounds = combine(x, y, max, ends=True)
        pair = [self.reshape(self.expand(v, shape), (*shape, 1)) for v in (x, y)]
        top = self.reduce_max(self.concat(pair, -1), [len(shape)], False)
        return Tensor(top.t, shape, x.dtype, bounds)

    def sums(self, node, function, x, y):
        """Sums of products of integers, as int32: function(builder, x, y).

        They are exact, or the host computes them; except that sums which the model converts to a float right away may
        be rounded as that float is.
        """
        if node.attr("ggml.rounded"):
            x = self.use(x)
            y = y if isinstance(y, Known) else Tensor(self.use(y).t, y.shape, F32)
            z = function(self, Tensor(x.t, x.shape, F32, x.bounds), y)
            return Tensor(z.t, z.shape, np.dtype(np.int32), None)
        return function(self, x, y)

    # Reductions

    def rows(self, x, axes):
        """The value with the given axes moved to the end and flattened: (kept..., reduced), and the kept shape."""
        axes = sorted(a % len(x.shape) for a in axes)
        kept = [a for a in range(len(x.shape)) if a not in axes]
        shape = tuple(x.shape[a] for a in kept)
        y = self.transpose(x, kept + axes)
        return self.reshape(y, (count(shape), count(x.shape[a] for a in axes)))

    def reduced(self, t, x, axes, keep, dtype=None, bounds=None):
        """A Tensor of one ggml element per row of `rows`."""
        axes = {a % len(x.shape) for a in axes}
        shape = [1 if a in axes else d for a, d in enumerate(x.shape) if keep or a not in axes]
        y = self.like(t, (count(shape), 1), dtype or x.dtype, bounds)
        return self.reshape(y, shape)

    def reduce_sum(self, x, axes, keep, mean=False):
        """Sums (or means) over axes."""
        rows = self.rows(x, axes)
        n = rows.shape[1]
        bounds = x.bounds and not mean and (min(x.bounds[0] * n, 0), max(x.bounds[1] * n, 0)) or None
        function = ggml.ggml_mean if mean else ggml.ggml_sum_rows
        return self.reduced(function(self.ctx, rows.t), x, axes, keep, bounds=bounds)

    def reduce_max(self, x, axes, keep):
        """Maxima over axes."""
        rows = self.contiguous(self.rows(x, axes))
        top = ggml.ggml_pool_1d(self.ctx, rows.t, ggml.GGML_OP_POOL_MAX, rows.shape[1], rows.shape[1], 0)
        if is_float(x.dtype):  # a row of -inf gives the smallest number: log(0) restores -inf
            above = ggml.ggml_step(self.ctx, ggml.ggml_scale_bias(self.ctx, top, 1.0, float(np.finfo(np.float32).max)))
            top = ggml.ggml_add(self.ctx, top, ggml.ggml_log(self.ctx, above))
        return self.reduced(top, x, axes, keep, bounds=x.bounds)


def row_width(flat, shape, total):
    """The longest rows, aligned in the source, that an index of positions moves whole; -1 stands for a zero."""
    width = 1
    for size in reversed(shape):
        wider = width * size
        if total % wider:
            break
        rows = flat.reshape(-1, wider)
        first = rows[:, :1]
        whole = (rows == first + np.arange(wider)).all(1) & (first[:, 0] % wider == 0)
        if not (whole | (rows == -1).all(1)).all():
            break
        width = wider
    return width


def collapse(shapes):
    """Shapes of one rank, the last the result's, with neighbouring axes merged that are broadcast alike."""
    result = shapes[-1]
    merged: list[list[int]] = [[] for _ in shapes]
    last = None
    for axis, size in enumerate(result):
        if size == 1:
            continue
        pattern = tuple(s[axis] == size for s in shapes)
        for target, s in zip(merged, shapes):
            if pattern == last:
                target[-1] *= s[axis]
            else:
                target.append(s[axis])
        last = pattern
    return [tuple(m) or (1,) for m in merged]


def combine(x, y, function, ends=False):
    """Bounds of a monotonic function of two bounded values, or None."""
    if x.bounds is None or y.bounds is None:
        return None
    if ends:
        return function(x.bounds[0], y.bounds[0]), function(x.bounds[1], y.bounds[1])
    corners = [function(a, b) for a in x.bounds for b in y.bounds]
    return min(corners), max(corners)
