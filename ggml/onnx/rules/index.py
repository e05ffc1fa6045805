"""Gathering, scattering, sorting."""

import numpy as np

from ..layout import SHARED
from ..recording import ggml
from ..reducing import ACCUMULATE, FIRST_PLACES, LAST_PLACES
from ..replaying import compiled_node
from ..scattering import FUNCTIONS as SCATTER
from ..scattering import TAKE
from ..values import EXACT, F32, I64, Known, OnHost, Tensor, count, extents, floats, is_integer, place_of
from . import rule

MANY = 1 << 13  # elements from which leaving the graph is worth the time


def wrapped(b, index, size):
    """An index whose negative entries count from the end."""
    if isinstance(index, Known):
        if index.trace:
            return b.recorder.array(counted, [index, b.constant(size, I64)], index.shape)
        return Known(counted(index.array, size), index.arena)
    index = b.use(index)
    if index.bounds and index.bounds[0] >= 0:
        return index
    below = b.unary(ggml.ggml_step, b.negative(b.as_float(index)))
    moved = b.binary(ggml.ggml_add, b.affine(below, float(size)), index, dtype=F32)
    return Tensor(moved.t, index.shape, I64, (0, size - 1))


def counted(array, size):
    """The same for an array."""
    array = np.where(array < 0, array + size, array)
    if array.size and (array.min() < 0 or array.max() >= size):
        raise ValueError(f"index {array.min()} to {array.max()} of an axis of {size} elements")
    return array


def within(b, index, size):
    """The same, for positions in all of a tensor: an entry beyond the axis becomes one that no tensor has."""
    index = wrapped(b, index, size)
    if isinstance(index, Known):
        return index
    far = b.unary(ggml.ggml_abs, b.affine(index, 1.0, (1 - size) / 2, dtype=F32))  # from the middle
    beyond = b.unary(ggml.ggml_step, b.affine(far, 1.0, (1 - size) / 2))
    return b.binary(ggml.ggml_add, b.affine(beyond, float(EXACT)), index, dtype=F32)


@rule("Gather")
def gather(b, node, x, index):
    axis = node.attr("axis", 0) % len(x.shape)
    index = wrapped(b, index, x.shape[axis])
    if isinstance(index, Known) and count(index.shape) == 1:
        y = b.slice(x, axis, int(index.array.reshape(())), 1)
        return b.reshape(y, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    return b.gather(x, axis, index)


@rule("ai.onnx.ml.ArrayFeatureExtractor")
def columns(b, node, x, index):
    """Entries of the last axis; the result has two axes at least."""
    index = b.reshape(index, (count(index.shape),))
    if isinstance(index, Tensor) and counts(x, index):
        return b.reshape(Tensor(index.t, index.shape, x.dtype, index.bounds), (*(x.shape[:-1] or (1,)), *index.shape))
    y = b.gather(x, len(x.shape) - 1, wrapped(b, index, x.shape[-1]))
    return b.reshape(y, (1, *y.shape)) if len(x.shape) == 1 else y


def counts(x, index):
    """Whether x has the numbers 0, 1, 2 ... at the places that an index may have, so that each entry is its place."""
    n = x.shape[-1]
    if not (isinstance(x, Known) and is_integer(x.dtype) and index.bounds) or x.trace or count(x.shape) != n:
        return False
    return 0 <= index.bounds[0] and index.bounds[1] < n and np.array_equal(x.array.ravel(), np.arange(n))


def flat_positions(b, shape, index, axis):
    """Positions in the flattened value of the entries that GatherElements and ScatterElements mean."""
    grid, stride = np.indices(index.shape), count(shape[axis + 1 :])
    grid[axis] = 0
    rest = np.ravel_multi_index(tuple(grid), shape)
    if isinstance(index, Known):
        return Known(index.array.astype(np.int64) * stride + rest)
    scaled = b.affine(index, float(stride), dtype=F32)
    return b.binary(ggml.ggml_add, scaled, b.constant(rest.astype(np.float32)))


def nd_positions(b, shape, index, batch=0):
    """Positions of the slices that GatherND and ScatterND mean, and the number of elements of a slice."""
    depth = index.shape[-1]
    width = count(shape[batch + depth :])
    if isinstance(index, Known):
        return b.derived_by(nd_places, [index, b.constant(list(shape), I64)], index.shape[:-1], batch), width
    if depth == 1 and not batch:  # of rows, which the engine checks
        return wrapped(b, b.entry(index, -1, 0), shape[0]), width
    strides = [count(shape[batch + i + 1 : batch + depth]) for i in range(depth)]
    lead = index.shape[:-1]
    first = np.arange(count(shape[:batch])).reshape(shape[:batch] + (1,) * (len(lead) - batch))
    offset = np.zeros(lead, np.int64) + first * count(shape[batch : batch + depth])
    parts = [within(b, b.entry(index, -1, i), shape[batch + i]) for i in range(depth)]
    total = b.constant(offset.astype(np.float32))
    for part, stride in zip(parts, strides):
        total = b.binary(ggml.ggml_add, b.affine(part, float(stride), dtype=F32), total)
    return total, width


def nd_places(index, shape, batch=0):
    """The positions for an array of indices."""
    shape = tuple(map(int, shape))
    depth = index.shape[-1]
    grid = np.indices(index.shape[:-1], np.int64)[:batch]
    entries = [counted(index[..., i], shape[batch + i]) for i in range(depth)]
    return sum(
        (p * count(shape[i + 1 : batch + depth]) for i, p in enumerate([*grid, *entries])),
        np.zeros(index.shape[:-1], np.int64),
    )


@rule("Compress")
def compress(b, node, x, condition):
    x = b.reshape(x, (count(x.shape),)) if node.attr("axis") is None else x
    axis, chosen = node.attr("axis", 0) % len(x.shape), np.flatnonzero(b.known(condition))
    if not chosen.size or chosen[-1] >= x.shape[axis]:
        raise OnHost("a condition that chooses nothing, or more than there is")
    return b.gather(x, axis, b.constant(chosen))


@rule("GatherElements")
def gather_elements(b, node, x, index):
    axis = node.attr("axis", 0) % len(x.shape)
    if not isinstance(index, Known) and count(index.shape) and not b.trains:
        return taken(b, x, index, axis)
    place = flat_positions(b, x.shape, within(b, index, x.shape[axis]), axis)
    return b.take(x, place.array) if isinstance(place, Known) else b.pick(x, place)


def taken(b, x, index, axis):
    """The same for a computed index, by compiled code."""
    for a, n in enumerate(index.shape):
        x = x if a == axis else b.slice(x, a, 0, n)
    if count(x.shape) > EXACT:
        raise OnHost("more than 2^24 elements: F32 does not represent every position")
    x, index, n = b.table(x), b.contiguous(index), x.shape[axis]
    operands = [x.t, index.t]
    if not (index.bounds and 0 <= index.bounds[0] and index.bounds[1] < n):
        ends = Tensor(ggml.ext.min_max(b.ctx, index.t), (2,), I64, index.bounds)
        operands += existing(b, within(b, ends, n), b.reshape(x, (n, count(x.shape) // n)))
    outer, inner = count(x.shape[:axis]), count(x.shape[axis + 1 :])
    parts = [b.reshape(Tensor(t, v.shape, F32), (outer, v.shape[axis], inner)).t for t, v in zip(operands, (x, index))]
    extent = extents((outer, index.shape[axis], inner))
    tasks = ggml.GGML_N_TASKS_MAX if count(index.shape) >= SHARED else 1
    t = b.call(compiled_node, ggml.GGML_TYPE_F32, *extent, TAKE, tasks, None, *parts, *operands[2:])
    return b.reshape(b.with_shape(t, (outer, index.shape[axis], inner), x), index.shape)


@rule("GatherND")
def gather_nd(b, node, x, index):
    batch = node.attr("batch_dims", 0)
    place, width = nd_positions(b, x.shape, index, batch)
    taken = b.gather(b.reshape(x, (count(x.shape) // width, width)), 0, place)
    return b.reshape(taken, (*index.shape[:-1], *x.shape[batch + index.shape[-1] :]))


def scatter(b, x, place, updates, width, reduction):
    """x with rows of width elements that others replace, or are combined with."""
    n, rows = count(place.shape), count(x.shape) // width
    if not n:
        raise OnHost("scattering nothing")
    place = b.reshape(place, (n,))
    where = ggml.ggml_reshape_1d(b.ctx, b.index(place), n)
    target, source = b.table(b.reshape(x, (rows, width))), b.table(b.reshape(updates, (n, width)))
    (lo, hi), more = x.bounds or (0, 0), updates.bounds or (0, 0)
    if reduction == "add":
        lo, hi = lo + min(more[0] * n, 0), hi + max(more[1] * n, 0)
    else:
        lo, hi = min(lo, more[0]), max(hi, more[1])
    if reduction == "mul" and x.bounds and max(-lo, hi) > 1:
        raise OnHost(f"scattering products of {x.dtype}")
    if not b.trains:
        operands = [target.t, where, source.t, *existing(b, place, target)]
        t = b.compiled(width, rows, SCATTER[reduction], n * width >= SHARED, *operands)
    elif reduction == "none":
        t = ggml.ggml_set_rows(b.ctx, ggml.ggml_dup(b.ctx, target.t), source.t, where)
    elif reduction == "add":
        t = ggml.ggml_add(b.ctx, target.t, ggml.ggml_get_rows_back(b.ctx, source.t, where, target.t))
    else:
        raise OnHost(f"scattering with reduction {reduction!r}, which has no gradient")
    return b.reshape(b.like(t, (rows, width), x.dtype, x.bounds and (lo, hi)), x.shape)


def existing(b, place, target):
    """A tensor that can be computed only if a matrix has all rows of computed places; none where they are known."""
    if isinstance(place, Known):
        return []
    ends = ggml.ggml_cast(b.ctx, ggml.ext.min_max(b.ctx, place.t), ggml.GGML_TYPE_I32)
    return [ggml.ggml_get_rows(b.ctx, target.t, ends)]


@rule("ScatterElements", "Scatter")
def scatter_elements(b, node, x, index, updates):
    if count(index.shape) >= MANY and not b.stays:
        raise OnHost("scattering many single elements takes less time there")
    axis = node.attr("axis", 0) % len(x.shape)
    place = flat_positions(b, x.shape, within(b, index, x.shape[axis]), axis)
    return scatter(b, x, place, updates, 1, node.attr("reduction", "none"))


@rule("ScatterND")
def scatter_nd(b, node, x, index, updates):
    place, width = nd_positions(b, x.shape, index)
    return scatter(b, x, place, updates, width, node.attr("reduction", "none"))


def place_of_max(b, rows, last=False):
    """Where the maxima of rows are, or NaN: the first of equal ones, or the last."""
    count, n = rows.shape
    if b.is_short(rows, [1]):
        place = b.for_each_row(rows, LAST_PLACES if last else FIRST_PLACES)[0]
        return b.reshape(Tensor(place.t, place.shape, I64, (0, n - 1)), (count,))
    t = ggml.ggml_cast(b.ctx, ggml.ext.argmax(b.ctx, b.contiguous(rows).t, last), ggml.GGML_TYPE_F32)
    return Tensor(t, (count,), I64, (0, n - 1))


@rule("ArgMax", "ArgMin")
def arg_max(b, node, x):
    axis, keep = node.attr("axis", 0) % len(x.shape), node.attr("keepdims", 1)
    rows = b.rows(b.as_float(x), [axis])
    found = place_of_max(b, b.negative(rows) if node.op == "ArgMin" else rows, node.attr("select_last_index", 0))
    return b.reshape(found, [1 if a == axis else d for a, d in enumerate(x.shape) if keep or a != axis])


@rule("OneHot")
def one_hot(b, node, index, depth, values):
    n = int(b.known(depth).reshape(-1)[0])
    if values.shape != (2,):
        raise ValueError(f"values have the shape {list(values.shape)}: need [2]")
    axis = node.attr("axis", -1) % (len(index.shape) + 1)
    array = np.arange(n).reshape([-1 if a == axis else 1 for a in range(len(index.shape) + 1)])
    if not (index.bounds or index.dtype == F32):
        raise OnHost(f"an index of type {index.dtype}")
    index = index if index.bounds else b.unary(ggml.ggml_trunc, index)
    index = b.as_float(b.reshape(index, (*index.shape[:axis], 1, *index.shape[axis:])))
    below = b.affine(b.unary(ggml.ggml_step, b.negative(index)), float(n))
    hot = b.equal(b.add(index, below), b.constant(array.astype(np.float32)))
    return b.select(hot, b.entry(values, 0, 1), b.entry(values, 0, 0))


@rule("TopK")
def top_k(b, node, x, k=None):
    axis, k = node.attr("axis", -1) % len(x.shape), int(b.ints(k)[0]) if k is not None else node.attr("k")
    order = ggml.GGML_SORT_ORDER_DESC if node.attr("largest", 1) else ggml.GGML_SORT_ORDER_ASC
    n = x.shape[axis]
    rows = b.contiguous(b.move(x, axis, -1))
    flat = b.reshape(rows, (count(rows.shape) // n, n))
    if not 0 <= k <= n:
        raise ValueError(f"k is {k} of {n} elements")
    places = ggml.ggml_cast(b.ctx, ggml.ext.argsort(b.ctx, flat.t, order, k), ggml.GGML_TYPE_F32)
    chosen = Tensor(places, (flat.shape[0], k), I64, (0, n - 1))
    place = flat_positions(b, flat.shape, chosen, 1)
    values = b.pick(flat, place)
    shape = (*rows.shape[:-1], k)
    return tuple(b.move(b.reshape(v, shape), -1, axis) for v in (values, chosen))


@rule("CumSum", "CumProd")
def cumulated(b, node, x, axis):
    axis, product = place_of(b.ints(axis)[0], len(x.shape)), node.op == "CumProd"
    if product:
        floats(x)
    n, shape = x.shape[axis], (count(x.shape[:axis]), x.shape[axis], count(x.shape[axis + 1 :]))
    bounds = x.bounds and (min(x.bounds[0] * n, 0), max(x.bounds[1] * n, 0))
    flags = np.array([product, node.attr("exclusive", 0), node.attr("reverse", 0)], np.int32)
    tasks = ggml.GGML_N_TASKS_MAX if count(shape) >= SHARED else 1
    operand = b.contiguous(b.reshape(x, shape)).t
    t = b.call(compiled_node, ggml.GGML_TYPE_F32, *extents(shape), ACCUMULATE, tasks, flags, operand)
    return b.reshape(b.like(t, shape, x.dtype, bounds), x.shape)
