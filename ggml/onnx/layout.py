"""Values as tensors of a plan's graph, their shapes, and elements that are moved by index."""

import functools
import itertools
from typing import Any

import numpy as np

from .. import ggml_free, ggml_init, ggml_init_params
from .._owners import Owner, keep
from ..utils import from_numpy, to_numpy
from .recording import Recorder, ggml
from .replaying import compiled_node, dense_rows, input_tensor, part_of
from .sizes import Size, UnrecordedError, integer
from .thin import CHOOSE, JOIN, PARTS
from .values import (
    BOOL,
    EXACT,
    F32,
    Double,
    Feed,
    Known,
    NeedValue,
    OnHost,
    Tensor,
    count,
    extents,
    is_constant,
    require_held,
    wrapped,
)

VIEWS = {ggml.GGML_OP_VIEW, ggml.GGML_OP_PERMUTE, ggml.GGML_OP_TRANSPOSE}
COLUMNS, NARROW = 8, 1024  # from which columns are joined as rows; elements of rows that compiled code joins
MANY, SHARED = 64, 1 << 16  # rows from which columns are chosen by compiled code; elements that threads share
KNOWN = 1 << 18  # bytes of constants up to which they lie in a context
GROWING = [ggml_init_params(mem_size=0, no_alloc=no_alloc) for no_alloc in (False, True)]  # of a context
PARAMETER = 4096  # operands up to this many elements may decide the shape of a graph


class Arena(Owner):
    """Contexts that own tensors with data, or views of arrays; made when they are needed, freed with the object."""

    def __init__(self):
        self.contexts = {}  # by no_alloc
        self.arrays = []  # that tensors lie over

    def context(self, no_alloc):
        """One of both contexts."""
        if no_alloc not in self.contexts:
            self.contexts[no_alloc] = ggml_init(GROWING[no_alloc])
        return self.contexts[no_alloc]

    @property
    def ctx(self):
        """The context of tensors with data."""
        return self.context(False)

    @property
    def views(self):
        """The context of tensors over arrays."""
        return self.context(True)

    def upload(self, array):
        """A tensor with the values of an array of up to 4 dimensions."""
        return from_numpy(np.ascontiguousarray(array), self.ctx)

    def hold(self, array, shape, dtype=np.float32):
        """A tensor (F32, F64 or I8) of a shape over an array's memory, copied if that is not laid out like `room`."""
        if array.dtype != dtype or not array.flags.c_contiguous or array.ctypes.data % 64:
            array, source = self.room(array.shape, np.dtype(dtype)), array
            array[...] = source
        self.arrays.append(array)
        kind = {4: ggml.GGML_TYPE_F32, 8: ggml.GGML_TYPE_F64, 1: ggml.GGML_TYPE_I8}[array.itemsize]
        t = ggml.ggml_new_tensor_4d(self.views, kind, *extents(shape))
        t.contents.data = array.ctypes.data
        return t

    def room(self, shape, dtype):
        """As `room`, in memory that the engine knows: whether it can read other memory, it asks the system.

        That takes a microsecond, while the context may take more pages than large arrays need.
        """
        if count(shape) * dtype.itemsize > KNOWN:
            return room(shape, dtype)
        t = ggml.ggml_new_tensor_1d(self.ctx, ggml.GGML_TYPE_I8, count(shape) * dtype.itemsize + 63)
        return within(to_numpy(t).view(np.uint8), shape, dtype)

    def held(self, array):
        """An F32 tensor of the numbers of an array."""
        large = array.size * 4 > KNOWN
        return self.hold(array, array.shape) if large else self.numbers(array, np.float32)

    def index(self, array):
        """An I32 tensor of integers."""
        return self.numbers(array, np.int32)

    def numbers(self, array, dtype):
        """A tensor of the numbers of an array as another type, in the memory of the context."""
        return self.upload(np.asarray(array, dtype).reshape(extents(array.shape)[::-1]))

    def __del__(self):
        for ctx in vars(self).pop("contexts", {}).values():
            ggml_free(ctx)


def room(shape, dtype):
    """An empty array at a multiple of 64 bytes, where vectors of a row lie in few lines of the cache."""
    return within(np.empty(count(shape) * dtype.itemsize + 63, np.uint8), shape, dtype)


def within(memory, shape, dtype):
    """An array at the first multiple of 64 bytes of an array of bytes."""
    return memory[-memory.ctypes.data % 64 :][: count(shape) * dtype.itemsize].view(dtype).reshape(shape)


class Home(Owner):
    """The context of a graph, which is freed with the object; arena: owns the graph's constants."""

    def __init__(self):
        self.arena = Arena()
        self.context: Any = None
        keep(self, "context", ggml_init, GROWING[True])

    def __del__(self):
        if vars(self).get("context"):
            keep(self, "context", ggml_free, self.context)


class Layout(Home):
    """Tensors of values, and values whose elements are moved: what a Builder computes on.

    weights: the GGML_TYPE_* of matrices, None: F32; trains: for gradients; stays: rules build whatever a graph can
    compute, also what takes less time on the host; workers: threads that compute the graph.
    """

    def __init__(self, weights=None, trains=False, stays=False, workers=1):
        super().__init__()
        self.weights, self.trains, self.stays, self.workers = weights, trains, stays or trains, workers
        self.ctx: Any = self.context  # what rules pass: a Recorder while a graph is recorded
        self.recorder: Any = None  # the same, or None
        self.feeds = []

    def record(self, terms):
        """Records what is built from now on, for sizes of the terms."""
        self.ctx = self.recorder = Recorder(self.context, self.arena, terms)

    def stop(self):
        """Ends that; what has been recorded."""
        recorder, self.ctx, self.recorder = self.recorder, self.context, None
        return recorder

    def call(self, function, *args):
        """The tensor that function(ctx, *args) makes, which calls functions of ggml."""
        return self.recorder.call(function, *args) if self.recorder else function(self.ctx, *args)

    def compiled(self, n, rows, function, shared, *operands, data=None):
        """The tensor, F32 [n, rows], that a function of compiled code computes from tensors.

        Args:
            function: its address, for ggml.ext.compiled; data: what it reads besides.
            shared: whether threads share the work.
        """
        tasks = ggml.GGML_N_TASKS_MAX if shared else 1
        return self.call(compiled_node, ggml.GGML_TYPE_F32, n, rows, 1, 1, function, tasks, data, *operands)

    def ask(self, function, t):
        """What a function says about a tensor, for a rule that decides by it."""
        return self.recorder.ask(function, t) if self.recorder else function(t)

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
        if isinstance(value, Known) and value.trace and value.trace.sizes is not None:
            return list(value.trace.sizes)
        array = self.known(value)
        return default if array is None else [int(i) for i in np.ravel(array)]

    def derived(self, value, key, function, shape):
        """A Known value that a function makes of the array of another one, in a shape."""
        if value.trace:
            return self.recorder.array(function, [value], shape)
        return value.derived(key, function)

    def use(self, value):
        """A Tensor of any value; raises OnHost for types and magnitudes that F32 does not represent."""
        if isinstance(value, Tensor):
            return value
        require_held(value)
        if isinstance(value, Known):
            if value.trace:
                return Tensor(self.recorder.tensor(Arena.held, value), value.shape, value.dtype, value.bounds)
            if "f32" not in value.tensors:
                home = value.arena or self.arena
                value.tensors["f32"] = home, home.hold(value.array, value.shape)
                value.held = home.arrays[-1] if value.dtype == F32 else value.held
            return Tensor(value.tensors["f32"][1], value.shape, value.dtype, value.bounds)
        return self.fed(value, ggml.GGML_TYPE_F32)

    def fed(self, feed, kind):
        """The Tensor (or Double) of a Feed, made with a type of elements."""
        if feed.tensor is None:
            t = self.call(input_tensor, kind, *extents(feed.shape))
            double = kind == ggml.GGML_TYPE_F64
            feed.tensor = Double(t, feed.shape) if double else Tensor(t, feed.shape, feed.dtype, feed.bounds)
            self.feeds.append(feed)
        return feed.tensor

    def truth(self, value):
        """The booleans of a value as a Tensor of bytes where there is one, else of floats."""
        if isinstance(value, Feed) and value.dtype == BOOL and not self.trains:
            if value.truth is None:
                value.truth = Feed(value.name, value.shape, value.dtype, value.bounds)
            return self.fed(value.truth, ggml.GGML_TYPE_I8)
        return self.use(value).least

    def derived_by(self, function, values, shape, *more):
        """The Known value function(*arrays, *more) of the arrays of Known values, in a shape."""
        if self.recorder:
            return self.recorder.array(lambda *arrays: function(*arrays, *more), values, shape)
        return Known(function(*(v.array for v in values), *more))

    def as_float(self, x):
        """The numbers of a value as floats."""
        if isinstance(x, Known):
            require_held(x)
            return self.derived(x, "float", lambda a: a.astype(np.float32), x.shape)
        x = self.use(x)
        return Tensor(x.t, x.shape, F32)

    def constant(self, array, dtype=None):
        """A Known value that belongs to the plan."""
        if self.recorder:
            numbers = array if isinstance(array, list) else [array]
            if any(type(n) is Size for n in numbers):
                return self.recorder.numbers(numbers, (len(numbers),) if numbers is array else (), dtype)
            if isinstance(array, np.ndarray) and array.dtype.kind == "O":
                raise UnrecordedError("an array of sizes")
        return Known(np.asarray(array, dtype))

    def made(self, function, numbers, shape):
        """The Known value function(*numbers) of integers, or of sizes, in a shape."""
        if any(type(n) is Size for n in numbers):
            return self.recorder.array(function, [self.constant(n, np.int64) for n in numbers], shape)
        return Known(function(*numbers))

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
        moved = not self.recorder or x.t.contents.op in VIEWS  # others are contiguous, whatever their sizes are
        if not moved or self.ask(ggml.ggml_is_contiguous, x.t):
            return x
        return self.with_shape(ggml.ggml_cont(self.ctx, x.t), x.shape, x)

    def dense(self, x):
        """The Tensor whose rows have contiguous elements."""
        x = self.use(x)
        return x if self.ask(dense_rows, x.t) else self.contiguous(x)

    def with_shape(self, t, shape, like):
        """A Tensor of moved elements of another value."""
        return Tensor(t, shape, like.dtype, like.bounds)

    # Shapes

    def reshape(self, x, shape):
        """The same elements in another shape."""
        shape = tuple(map(integer, shape))
        if isinstance(x, Known):
            return self.reshaped(x, shape)
        if isinstance(x, Double):
            return Double(ggml.ggml_reshape_4d(self.ctx, x.t, *extents(shape)), shape, x.bounds)
        x = self.use(x)
        if x.shape == shape:
            return x
        size = extents(shape)
        if extents(x.shape) == size:
            return Tensor(x.t, shape, x.dtype, x.bounds, x.truth)
        x = self.contiguous(x)
        truth = None if x.truth is None else ggml.ggml_reshape_4d(self.ctx, x.truth, *size)
        return Tensor(ggml.ggml_reshape_4d(self.ctx, x.t, *size), shape, x.dtype, x.bounds, truth)

    def reshaped(self, x, shape):
        """A Known value in another shape."""
        if x.trace is None:
            shape = tuple(map(int, shape))
            return x.derived(("reshape", shape), lambda a: a.reshape(shape))
        return self.recorder.array(np.reshape, [x, self.constant(list(shape), np.int64)], shape)

    def transpose(self, x, perm):
        """The axes in another order, as a view where four dimensions suffice."""
        perm = [int(p) for p in perm]
        if sorted(perm) != list(range(len(x.shape))):
            raise ValueError(f"{perm} is no order of the {len(x.shape)} axes")
        if isinstance(x, Known):
            return self.derived(x, ("transpose", *perm), lambda a: a.transpose(perm), [x.shape[p] for p in perm])
        x = self.use(x)
        shape = tuple(x.shape[p] for p in perm)
        if perm == sorted(perm):
            return x
        source, axes, sizes = (transposition.__wrapped__ if self.recorder else transposition)(x.shape, tuple(perm))
        if axes is None:
            return self.reshape(x, shape)
        if len(sizes) > 4:
            return self.take(x, np.arange(count(x.shape)).reshape(x.shape).transpose(perm))
        y = self.reshape(x, source)
        return self.reshape(self.with_shape(ggml.ggml_permute(self.ctx, y.t, *axes), sizes, x), shape)

    def move(self, x, axis, to):
        """The value with one axis moved, as numpy.moveaxis."""
        order = list(range(len(x.shape)))
        order.insert(to % len(order), order.pop(axis % len(order)))
        return self.transpose(x, order)

    def expand(self, x, shape):
        """Broadcasts a value to a shape."""
        shape = tuple(map(integer, shape))
        if x.shape == shape:
            return self.use(x) if isinstance(x, Feed) else x
        if isinstance(x, Known):
            if self.recorder and (x.trace or any(type(n) is Size for n in shape)):
                return self.recorder.array(np.broadcast_to, [x, self.constant(list(shape), np.int64)], shape)
            return Known(np.broadcast_to(x.array, shape))
        x = self.use(x)
        own = (1,) * (len(shape) - len(x.shape)) + x.shape
        merged = collapse([own, shape])
        if not count(shape):
            return Known(np.empty(shape, x.dtype))
        if len(merged[1]) > 4:
            return self.take(x, np.broadcast_to(np.arange(count(own)).reshape(own), shape))
        y = self.reshape(x, merged[0])
        return self.reshape(
            self.with_shape(ggml.ggml_repeat_4d(self.ctx, y.t, *extents(merged[1])), merged[1], x), shape
        )

    def concat(self, values, axis):
        """Joins values along an axis."""
        if all(isinstance(v, Known) for v in values):
            return self.joined(values, axis)
        values = [self.use(v) for v in values if v.shape[axis]]
        rank = len(values[0].shape)
        axis %= rank
        shape = list(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)
        outer, inner = count(shape[:axis]), count(shape[axis + 1 :])
        if len(values) >= COLUMNS and inner == 1 and outer >= COLUMNS and all(v.shape[axis] == 1 for v in values):
            return self.side_by_side(values, outer, shape)
        if len(values) > 2 and inner == 1 and shape[axis] <= NARROW and not self.trains:
            parts = [self.reshape(v, (outer, v.shape[axis])) for v in values]
            return self.reshape(in_groups(parts, PARTS, self.joined_rows), shape)
        parts = [self.reshape(v, (outer, v.shape[axis], inner)).t for v in values]
        while len(parts) > 1:  # pairs, so that an element is moved as often as the logarithm of their number
            pairs = (parts[i : i + 2] for i in range(0, len(parts), 2))
            parts = [p[0] if len(p) == 1 else ggml.ggml_concat(self.ctx, p[0], p[1], 1) for p in pairs]
        y = Tensor(parts[0], (outer, shape[axis], inner), values[0].dtype, joint_bounds(values))
        return self.reshape(y, shape)

    def joined_rows(self, values):
        """The rows of some matrices, as many as a node has operands, beside each other, by compiled code."""
        rows, n = values[0].shape[0], sum(v.shape[1] for v in values)
        t = self.compiled(n, rows, JOIN, rows * n >= SHARED, *(self.table(v).t for v in values))
        return Tensor(t, (rows, n), values[0].dtype, joint_bounds(values))

    def side_by_side(self, values, outer, shape):
        """Columns of single elements as one value: as rows, each of which is one copy, and then the other way round."""
        columns = [v if v.shape == (outer, 1) else self.reshape(v, (outer, 1)) for v in values]
        t = self.call(transposed_rows, outer, len(values), *(v.t for v in columns))
        return self.reshape(Tensor(t, (outer, len(values)), values[0].dtype, joint_bounds(values)), shape)

    def joined(self, values, axis):
        """Known values joined along an axis."""
        if not any(v.trace for v in values):
            return Known(np.concatenate([v.array for v in values], axis))
        shape, axis = list(values[0].shape), axis % len(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)
        return self.recorder.array(lambda *arrays: np.concatenate(arrays, axis), values, shape)

    def stack(self, values, axis):
        """Joins values along a new axis."""
        axis %= len(values[0].shape) + 1
        return self.concat([self.reshape(v, (*v.shape[:axis], 1, *v.shape[axis:])) for v in values], axis)

    def slice(self, x, axis, start, size, step=1):
        """Elements start, start + step, ... of an axis; negative steps go backwards."""
        axis %= len(x.shape)
        if isinstance(x, Known):
            return self.sliced(x, axis, start, size, step)
        x = self.use(x)
        if start == 0 and step == 1 and size == x.shape[axis]:
            return x
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        if step < 0:
            return self.gather(
                x, axis, self.derived_by(entries, [self.constant([start, size, step], np.int64)], (size,))
            )
        place = len(shape) - 1 - axis
        if len(shape) > 4 or place == 0 and step > 1:  # rows of a view are contiguous: view rows of one element
            y = self.reshape(x, (count(x.shape[:axis]), x.shape[axis], count(x.shape[axis + 1 :])))
            return self.reshape(self.slice(y, 1, start, size, step), shape)
        y = self.dense(x)
        return self.with_shape(self.call(part_of, y.t, *extents(shape), place, start, step), shape, x)

    def sliced(self, x, axis, start, size, step):
        """A part of a Known value."""
        if self.recorder and (x.trace or Size in map(type, (start, size))):
            part = self.constant([axis, start, size, step], np.int64)
            return self.recorder.array(cut, [x, part], (*x.shape[:axis], size, *x.shape[axis + 1 :]))
        part = axis, int(start), int(size), step
        return x.derived(("slice", *part), lambda a: cut(a, part))

    def split(self, x, axis, sizes):
        """Parts of an axis."""
        sizes = list(map(integer, sizes))
        return [self.slice(x, axis, end - n, n) for end, n in zip(itertools.accumulate(sizes), sizes)]

    def flip(self, x, axis):
        """The entries of an axis in reverse order."""
        n = x.shape[axis]
        return self.slice(x, axis, n - 1, n, -1)

    def entry(self, x, axis, i):
        """One entry of an axis, without the axis."""
        axis %= len(x.shape)
        return self.reshape(self.slice(x, axis, i, 1), x.shape[:axis] + x.shape[axis + 1 :])

    # Moving elements by index

    def take(self, x, index):
        """Elements of the flattened value by a known array of positions; -1 gives zero.

        Moves the longest runs of neighbours that the index allows as rows.
        """
        index = np.asarray(index, np.int64)
        x = self.table(x)
        flat, total, bounds = index.reshape(-1), count(x.shape), x.bounds
        width = row_width(flat, index.shape, total)
        rows = flat[::width] // width
        source = ggml.ggml_reshape_2d(self.ctx, x.t, width, total // width)
        if (flat < 0).any():
            blank = self.use(self.constant(np.zeros((1, width), np.float32)))
            source = ggml.ggml_concat(self.ctx, source, blank.t, 1)
            rows = np.where(rows < 0, total // width, rows)
            bounds = bounds and (min(bounds[0], 0), max(bounds[1], 0))
        taken = ggml.ggml_get_rows(self.ctx, source, self.arena.upload(rows.astype(np.int32)))
        moved = ggml.ggml_reshape_4d(self.ctx, taken, *extents(index.shape))
        return Tensor(moved, index.shape, x.dtype, bounds)

    def table(self, x):
        """The Tensor with contiguous floats, whose rows can be taken: bytes are no rows of a table."""
        x = self.contiguous(x)
        if x.t.contents.type == ggml.GGML_TYPE_I8:
            x = self.with_shape(ggml.ggml_cast(self.ctx, x.t, ggml.GGML_TYPE_F32), x.shape, x)
        return x

    def gather(self, x, axis, index):
        """Entries of an axis by an index of positions, in the shape of the index."""
        n, outer, inner = count(index.shape), count(x.shape[:axis]), count(x.shape[axis + 1 :])
        shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
        if is_constant(index):
            places = index.array.reshape(-1)
            run = progression(places)
            if not (run and run[1] == 1) and inner == 1 and outer >= MANY and not self.trains:
                return self.reshape(self.chosen(self.reshape(x, (outer, x.shape[axis])), places), shape)
            if run:
                return self.reshape(self.slice(x, axis, run[0], n, run[1]), shape)
        if is_constant(x) and inner == 1 < outer and n >= MANY and not self.trains:
            rows = x.derived(("rows", axis), lambda a: np.ascontiguousarray(a.reshape(outer, -1).T))
            taken = self.gather(rows, 0, self.reshape(index, (n,)))  # whole rows, whose transposed view this is
            return self.reshape(self.transpose(taken, (1, 0)), shape)
        source = self.contiguous(self.reshape(x, (outer, x.shape[axis], inner)))
        rows = self.index(self.expand(self.reshape(index, (1, n)), (outer, n)))
        taken = ggml.ggml_get_rows(self.ctx, source.t, ggml.ggml_reshape_2d(self.ctx, rows, n, outer))
        return self.reshape(self.with_shape(taken, (outer, n, inner), source), shape)

    def chosen(self, x, places):
        """Known columns of a matrix."""
        rows, x = x.shape[0], self.table(x)
        numbers = np.array([len(places), *places], np.int32)
        t = self.compiled(len(places), rows, CHOOSE, rows * len(places) >= SHARED, x.t, data=numbers)
        return self.with_shape(t, (rows, len(places)), x)

    def index(self, x):
        """An I32 ggml tensor of an integer value, contiguous."""
        if isinstance(x, Known):
            if x.trace:
                return self.recorder.tensor(Arena.index, x)
            if "i32" not in x.tensors:
                home = x.arena or self.arena
                x.tensors["i32"] = home, home.index(x.array)
            return x.tensors["i32"][1]
        return ggml.ggml_cast(self.ctx, self.contiguous(x).t, ggml.GGML_TYPE_I32)

    def pick(self, x, positions):
        """Elements of the flattened value by a computed Tensor of positions, of any shape."""
        if count(x.shape) > EXACT:
            raise OnHost("more than 2^24 elements: F32 does not represent every position")
        return self.gather(self.reshape(x, (count(x.shape),)), 0, positions)


def progression(index):
    """The first of some positions and the step from each to the next, if that is always the same and positive."""
    steps = np.diff(index)
    if not index.size or steps.size and (steps[0] < 1 or (steps != steps[0]).any()):
        return None
    return int(index[0]), int(steps[0]) if steps.size else 1


def transposed_rows(ctx, n, rows, *parts):
    """The matrix of which some tensors of n elements are the columns."""
    t = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, n, rows)
    for i, part in enumerate(parts):
        t = ggml.ggml_set_2d_inplace(ctx, t, part, 4, 4 * n * i)
    return ggml.ggml_cont(ctx, ggml.ggml_transpose(ctx, t))


def joint_bounds(values):
    """Bounds of all elements of some values."""
    ends = list(zip(*(v.bounds for v in values if v.bounds)))
    return (min(ends[0]), max(ends[1])) if ends else None


def entries(part):
    """Places start, start + step, ..."""
    start, size, step = part
    return np.arange(size) * step + start


def cut(array, part):
    """Elements start, start + step, ... of an axis of an array."""
    axis, start, size, step = part
    end = start + size * step
    return array[(slice(None),) * axis + (slice(start, end if end >= 0 else None, step),)]


def in_groups(values, most, join):
    """The value that join(values) makes of at most `most` of them, of those that it has made, and so on."""
    while len(values) > 1:
        groups = [values[i : i + most] for i in range(0, len(values), most)]
        values = [g[0] if len(g) == 1 else join(g) for g in groups]
    return values[0]


@functools.lru_cache(1024)
def transposition(shape, perm):
    """How axes come into another order.

    Returns:
        The shape in which those that stay neighbours are one, without those of size 1; where ggml's dimensions of it
        go, None if they stay; and the shape afterwards.
    """
    order = [p for p in perm if shape[p] != 1]
    place = {p: i for i, p in enumerate(sorted(order))}
    groups: list[list[int]] = []
    for p in order:
        if groups and place[p] == place[groups[-1][-1]] + 1:
            groups[-1].append(p)
        else:
            groups.append([p])
    n, source = len(groups), sorted(groups)
    axes = [n - 1 - groups.index(g) for g in reversed(source)]  # where ggml's dimensions of the source go
    before, after = (tuple(count(shape[p] for p in g) for g in which) for which in (source, groups))
    return before, None if groups == source else (*axes, *range(n, 4)), after


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
