"""The vocabulary of the rules: ONNX's tensor algebra over ggml's functions.

A `Builder` appends nodes to the graph of one plan. Its methods take and return values (`Known`, `Feed`, `Tensor`), know
ONNX's shapes of any rank, broadcast as NumPy does, and keep the types and bounds of results true.
"""

import functools

import numpy as np

from .layout import MANY, SHARED, Layout, collapse
from .recording import ggml
from .reducing import LONGEST, SMALLEST
from .sizes import Size
from .values import BOOL, F32, Feed, Known, Tensor, broadcast, count, extents, is_constant, is_float

MIRRORED = {"<": ">", "<=": ">="}  # the relation of the second operand to the first
TOGETHER = 8  # columns from which on they are summed side by side
COMMUTATIVE = {ggml.ggml_add, ggml.ggml_mul, ggml.ext.maximum, ggml.ext.minimum, ggml.ext.equal}


class Builder(Layout):
    """Builds the graph of one plan: arithmetic and reductions of values."""

    def unary(self, function, x, dtype=None, bounds=None):
        """A ggml function of one tensor, element by element."""
        x = self.use(x)
        return self.like(self.by_element(function, x.t), x.shape, dtype or x.dtype, bounds)

    def by_element(self, function, t):
        """What a function makes of the elements of t, which may be a view of a tensor in another shape or order.

        It is computed as that tensor lies, where the engine fuses the function with what made it.
        """
        op, source = t.contents.op, t.contents.src[0]
        if op == ggml.GGML_OP_RESHAPE:
            return ggml.ggml_reshape(self.ctx, function(self.ctx, source), t)
        if op == ggml.GGML_OP_PERMUTE:
            axes = list(t.contents.op_params)[: ggml.GGML_MAX_DIMS]
            return ggml.ggml_permute(self.ctx, self.by_element(function, source), *axes)
        return function(self.ctx, t)

    def affine(self, x, scale=1.0, bias=0.0, dtype=None, bounds=None):
        """x * scale + bias."""
        return self.unary(lambda ctx, t: ggml.ggml_scale_bias(ctx, t, scale, bias), x, dtype, bounds)

    def binary(self, function, x, y, dtype=None, bounds=None):
        """A ggml function of two tensors, element by element, broadcast as NumPy does."""
        shape = broadcast(x.shape, y.shape)
        if len(shape) <= 4:  # whose leading dimensions of 1 a tensor does not tell from others
            size = extents(shape)
            if extents(x.shape) != size:
                x, y = (y, x) if extents(y.shape) == size and function in COMMUTATIVE else (self.expand(x, shape), y)
            a, b = self.use(x).t, self.use(y).t
            alone = count(y.shape) == 1
            t = self.by_element(lambda ctx, v: function(ctx, v, b), a) if alone else function(self.ctx, a, b)
            return self.like(t, shape, dtype or x.dtype, bounds)
        own = [(1,) * (len(shape) - len(v.shape)) + tuple(v.shape) for v in (x, y)]
        merged = collapse([*own, shape])
        if len(merged[2]) > 4:
            x, y = self.expand(x, shape), self.expand(y, shape)
            merged = [(count(shape),)] * 3
        a, b = self.reshape(self.use(x), merged[0]), self.reshape(self.use(y), merged[1])
        if merged[0] != merged[2]:
            if merged[1] == merged[2] and function in COMMUTATIVE:
                a, b = b, a
            else:
                a = self.expand(a, merged[2])
        return self.reshape(self.like(function(self.ctx, a.t, b.t), merged[2], dtype or x.dtype, bounds), shape)

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

    def rounded(self, x, dtype=None):
        """A float rounded to the half precision that its type has."""
        dtype = dtype or x.dtype
        half = ggml.GGML_TYPE_F16 if dtype == np.float16 else ggml.GGML_TYPE_BF16
        t = ggml.ggml_cast(self.ctx, ggml.ggml_cast(self.ctx, self.use(x).t, half), ggml.GGML_TYPE_F32)
        return Tensor(t, x.shape, dtype)

    def negative(self, x):
        return self.unary(ggml.ggml_neg, x, bounds=x.bounds and (-x.bounds[1], -x.bounds[0]))

    def reciprocal(self, x):
        x = self.use(x)
        return self.with_shape(ggml.ggml_div(self.ctx, ggml.ggml_fill(self.ctx, x.t, 1.0), x.t), x.shape, x)

    def related(self, x, y, relation, floats):
        """Booleans: where a relation (of ggml.ext.compare) of x and y holds.

        floats: the same as floats, which remain where something else than a selection or a result needs them.
        """
        if self.trains:
            return floats
        shape, size = floats.shape, extents(floats.shape)
        if len(shape) <= 4 and extents(x.shape) != size and extents(y.shape) == size:
            x, y, relation = y, x, MIRRORED.get(relation, relation)
        bits = self.binary(lambda ctx, a, b: ggml.ext.compare(ctx, a, b, relation), x, y, dtype=BOOL)
        return Tensor(floats.t, shape, BOOL, (0, 1), bits.t)

    def number(self, x):
        """1 where a float is a number or infinite, 0 where it is NaN (whose conversion to an integer is 0)."""
        return self.equal(x, x)

    def less(self, x, y):
        """x < y; false for NaN."""
        return self.related(x, y, "<", self.binary(ggml.ext.less, x, y, dtype=BOOL))

    def equal(self, x, y):
        """x == y; false for NaN, true for equal infinities."""
        return self.related(x, y, "==", self.binary(ggml.ext.equal, x, y, dtype=BOOL))

    def unequal(self, x, y):
        """x != y; true for NaN."""
        floats = self.affine(self.binary(ggml.ext.equal, x, y, dtype=BOOL), -1.0, 1.0, dtype=BOOL)
        return self.related(x, y, "!=", floats)

    def less_or_equal(self, x, y):
        """x <= y; false for NaN."""
        less, equal = (self.binary(function, x, y, dtype=BOOL) for function in (ggml.ext.less, ggml.ext.equal))
        return self.related(x, y, "<=", self.binary(ggml.ggml_add, less, equal, dtype=BOOL))

    def logical_not(self, x):
        floats = self.affine(x, -1.0, 1.0, dtype=BOOL)
        return self.related(self.truth(x), self.full((), 0.0), "==", floats) if is_truth(x) else floats

    def logical_and(self, x, y):
        return self.connected(x, y, "and", self.binary(ggml.ggml_mul, x, y, dtype=BOOL))

    def logical_or(self, x, y):
        floats = self.unary(ggml.ggml_step, self.binary(ggml.ggml_add, x, y, dtype=F32), dtype=BOOL)
        return self.connected(x, y, "or", floats)

    def logical_xor(self, x, y):
        floats = self.unary(ggml.ggml_abs, self.binary(ggml.ggml_sub, x, y, dtype=F32), dtype=BOOL)
        return self.connected(x, y, "!=", floats)

    def connected(self, x, y, relation, floats):
        """Booleans that depend on two others, as floats or also as bytes; see related."""
        if not (is_truth(x) or is_truth(y)):
            return floats
        return self.related(self.truth(x), self.truth(y), relation, floats)

    def clamp(self, x, lo=-np.inf, hi=np.inf):
        """x limited to an interval of numbers."""
        x = self.use(x)
        bounds = x.bounds and tuple(int(min(max(b, lo), hi)) for b in x.bounds)
        return self.like(ggml.ggml_clamp(self.ctx, x.t, lo, hi), x.shape, x.dtype, bounds)

    def select(self, condition, x, y):
        """x where the condition is 1, y where it is 0: moves elements, so that infinities and NaN do no harm."""
        shape = broadcast(broadcast(condition.shape, x.shape), y.shape)
        if is_constant(condition):
            chosen = condition.array
            if chosen.all() or not chosen.any():
                return self.expand(x if chosen.all() else y, shape)
        operands, merged = [self.truth(condition), self.use(x), self.use(y)], shape
        if len(shape) > 4:
            own = [(1,) * (len(shape) - len(v.shape)) + tuple(v.shape) for v in operands]
            *own, merged = collapse([*own, shape])
            if len(merged) > 4:
                operands = [self.expand(v, shape) for v in operands]
                own, merged = [(count(shape),)] * 3, (count(shape),)
            operands = [self.reshape(v, s) for v, s in zip(operands, own)]
        bounds = x.bounds and y.bounds and (min(x.bounds[0], y.bounds[0]), max(x.bounds[1], y.bounds[1]))
        t = ggml.ext.select(self.ctx, *(v.t for v in operands))
        return self.reshape(self.like(t, merged, x.dtype, bounds), shape)

    def maximum(self, x, y, least=False):
        """The larger of two values, or the smaller, element by element; NaN where one of both is."""
        function = ggml.ext.minimum if least else ggml.ext.maximum
        return self.binary(function, x, y, bounds=combine(x, y, min if least else max, ends=True))

    def sums(self, node, function, x, y):
        """Sums of products of integers, function(builder, x, y): exact, or rounded as the float that they become."""
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

    def is_short(self, x, axes):
        """Whether what reduces axes of floats reduces many rows of few elements, for which there is compiled code."""
        n = count(x.shape[a] for a in axes)
        many = axes and 0 < n <= LONGEST and count(x.shape) >= MANY * n
        return bool(many and is_float(x.dtype) and not self.trains)

    def for_each_row(self, rows, function, results=1):
        """What a function of reducing.pyx gives for rows: for each kind of result one Tensor (rows, 1)."""
        n, length = rows.shape
        t = self.compiled(1, n * results, function, n * length >= SHARED, self.table(rows).t)
        return self.split(Tensor(t, (n * results, 1), F32), 0, [n] * results)

    def reduce_sum(self, x, axes, keep, mean=False):
        """Sums (or means) over axes."""
        runs = neighbours(axes, x.shape)
        if len(runs) > 1:
            return self.by_runs(lambda y, run: self.reduce_sum(y, run, True, mean), x, runs, axes, keep)
        function, end = ggml.ggml_mean if mean else ggml.ggml_sum_rows, runs[0][-1] + 1 if runs else 0
        n, inner = count(x.shape[a] for a in axes), count(x.shape[end:])
        bounds = x.bounds and not mean and (min(x.bounds[0] * n, 0), max(x.bounds[1] * n, 0)) or None
        if not runs or not n or inner < TOGETHER:
            t = function(self.ctx, self.use(self.rows(x, axes)).t)
        else:  # columns, which lie side by side
            outer = count(x.shape[: runs[0][0]])
            y = self.transpose(self.reshape(self.use(x), (outer, n, inner)), (0, 2, 1))
            t = ggml.ggml_reshape_2d(self.ctx, function(self.ctx, y.t), 1, outer * inner)
        return self.reduced(t, x, axes, keep, bounds=bounds)

    def by_runs(self, function, x, runs, axes, keep):
        """What a reduction of neighbouring axes, which keeps them, gives for the runs of axes, one after the other."""
        y, gone = functools.reduce(function, runs, x), {a % len(x.shape) for a in axes}
        return y if keep else self.reshape(y, [d for a, d in enumerate(x.shape) if a not in gone])

    def reduce_max(self, x, axes, keep):
        """Maxima over axes; NaN where an element is."""
        runs = neighbours(axes, x.shape)
        if len(runs) != 1:
            return self.by_runs(lambda y, run: self.reduce_max(y, run, True), x, runs, axes, keep)
        first, end = runs[0][0], runs[0][-1] + 1
        n, inner = count(x.shape[first:end]), count(x.shape[end:])
        k0, k1 = (1, n) if inner > 1 else (n, 1)  # down columns, or along rows
        planes = self.contiguous(self.reshape(x, (count(x.shape[:first]), n, inner)[: 2 + (inner > 1)]))
        top = ggml.ext.max_pool_2d(self.ctx, planes.t, k0, k1, k0, k1, 0, 0)
        top = ggml.ggml_reshape_2d(self.ctx, top, 1, count(x.shape) // n)
        return self.reduced(top, x, axes, keep, bounds=x.bounds)

    def reduce_min(self, x, axes, keep):
        """Minima over axes; works for unsigned types because the negation is held in F32."""
        runs = neighbours(axes, x.shape)
        if len(runs) > 1:
            return self.by_runs(lambda y, run: self.reduce_min(y, run, True), x, runs, axes, keep)
        if runs and not self.trains:
            first, end = runs[0][0], runs[0][-1] + 1
            n, inner = count(x.shape[first:end]), count(x.shape[end:])
            if n and inner >= TOGETHER:
                operand = self.table(self.reshape(x, (count(x.shape[:first]), n, inner))).t
                t = self.compiled(1, count(x.shape) // n, SMALLEST, count(x.shape) >= SHARED, operand)
                return self.reduced(t, x, axes, keep, bounds=x.bounds)
        top = self.reduce_max(self.negative(self.as_float(x)), axes, keep)
        return self.unary(ggml.ggml_neg, top, dtype=x.dtype, bounds=x.bounds)


def neighbours(axes, shape):
    """Axes in their order, as runs of neighbours; those of one entry are left out, and do not part others."""
    several = [type(n) is Size or n != 1 for n in shape]  # without a condition on sizes
    runs: list = []
    for a in sorted({a % len(shape) for a in axes}):
        if not several[a]:
            continue
        if runs and not any(several[runs[-1][-1] + 1 : a]):
            runs[-1].append(a)
        else:
            runs.append([a])
    return runs


def is_truth(x):
    """Whether the booleans of a value are there as bytes."""
    return isinstance(x, Feed) and x.dtype == BOOL or isinstance(x, Tensor) and x.truth is not None


def combine(x, y, function, ends=False):
    """Bounds of a monotonic function of two bounded values, or None."""
    if x.bounds is None or y.bounds is None:
        return None
    if ends:
        return function(x.bounds[0], y.bounds[0]), function(x.bounds[1], y.bounds[1])
    corners = [function(a, b) for a in x.bounds for b in y.bounds]
    return min(corners), max(corners)
