"""What the names of a model stand for while it is lowered, and the exceptions by which a rule declines.

Every value in a ggml graph is F32, whatever type the model gives it (exceptions are weights, which may be F16 or
quantised, the bytes that booleans have besides, and float64, which is `Double`). That is exact: booleans are 0 and 1;
integers carry the interval [lo, hi] that they lie in, and a rule may hold them in F32 only while the interval proves
that F32 represents them; half precision is widened, and rounded where the model casts or returns it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

try:
    import ml_dtypes
except ImportError:  # onnx before 1.17 knows no types beyond NumPy's
    ml_dtypes = None

ONES = tuple((1,) * (4 - rank) for rank in range(5))  # dimensions that a shape of a rank lacks
EXACT = 1 << 24  # F32 represents every integer up to this magnitude
BOOL, F32, F64, I64 = np.dtype(bool), np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)


def extra_types(*names):
    """Those of the named types that ml_dtypes has."""
    return {np.dtype(getattr(ml_dtypes, n)) for n in names if hasattr(ml_dtypes, n)}


WIDENED = {np.dtype(np.float16)} | extra_types("bfloat16")
NARROW = extra_types(
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"
)
SMALL_INTEGERS = extra_types("int4", "uint4", "int2", "uint2")


class InPieces(Exception):
    """A rule declines: the nodes of the function that defines the operator compute it."""


class OnHost(Exception):
    """A rule declines: the node runs on the host. Its message is the reason."""


class NeedValue(Exception):
    """A rule needs the values of an operand before it can build anything: a shape, an axis, a condition."""

    def __init__(self, value):
        super().__init__("the values of an operand decide the graph")
        self.value = value


def is_float(dtype):
    """Whether a type is held with rounding: F32, F16 or BF16."""
    return dtype == F32 or dtype in WIDENED


def floats(*values):
    """The values; raises OnHost unless they are floats, or None."""
    for v in values:
        if v is not None and not is_float(v.dtype):
            raise OnHost(f"{v.dtype} is computed on the host")
    return values


def is_integer(dtype):
    """Whether a type is an integer of any width, not a boolean."""
    return dtype.kind in "iu" or dtype in SMALL_INTEGERS


@functools.cache
def integer_range(dtype):
    """The smallest and largest value of a boolean or integer type."""
    if dtype == BOOL:
        return 0, 1
    info = ml_dtypes.iinfo(dtype) if dtype in SMALL_INTEGERS else np.iinfo(dtype)
    return int(info.min), int(info.max)


def rough_bounds(array):
    """An interval that the values of an array of integers or booleans lie in, one of few."""
    if array.dtype == BOOL or not array.size:
        return 0, 1
    lo, hi = int(array.min()), int(array.max())
    limit = EXACT if -EXACT <= lo and hi <= EXACT else 1 << 63
    return (0 if lo >= 0 else -limit), limit


def require_held(value):
    """Raises OnHost if F32 does not represent the values exactly."""
    dtype = value.dtype
    if dtype == BOOL or is_float(dtype) or dtype in NARROW:
        return
    if not is_integer(dtype):
        raise OnHost(f"{dtype} is computed on the host")
    lo, hi = value.bounds
    if max(-lo, hi) > EXACT:
        raise OnHost(f"integers from {lo} to {hi} are beyond F32: they stay exact on the host")


def wrapped(dtype, bounds):
    """The bounds of computed integers, and the number of values of a type that they leave and so wrap around in."""
    if dtype == BOOL:
        return (0, 1), None
    if bounds is None or not is_integer(dtype):
        return None, None
    (lo, hi), (smallest, largest) = bounds, integer_range(dtype)
    if max(-lo, hi) > EXACT:
        raise OnHost(f"integers from {lo} to {hi} are beyond F32: they stay exact on the host")
    if lo >= smallest and hi <= largest:
        return bounds, None
    size = largest - smallest + 1
    if size > EXACT:
        raise OnHost(f"integers from {lo} to {hi} wrap around in {dtype}")
    return (smallest, largest), size


def unsigned(array, dtype):
    """Floats as unsigned integers, where negative ones count from the end of the type's range; C leaves them open."""
    y, far = array.astype(np.int64).astype(dtype), array >= 1 << 63
    if far.any():
        y[far] = array[far].astype(dtype)
    return y


class Drive(Exception):
    """A rule of control flow runs its body repeatedly from the host: step maps arrays by name to outputs by name."""

    def __init__(self, step):
        super().__init__("the body runs once per iteration")
        self.step = step


class Later(NamedTuple):
    """An array of a shape and a type that make() gives when something reads it."""

    make: Callable[[], np.ndarray]
    shape: tuple[int, ...]
    dtype: np.dtype


class Known:
    """A value that is known when the graph is built: a constant, a shape, or what follows from them."""

    __slots__ = ("made", "shape", "dtype", "arena", "tensors", "trace")

    def __init__(self, array, arena=None):
        self.made, self.shape, self.dtype = array, array.shape, array.dtype  # made: an array, or a Later
        self.arena = arena  # where its tensors live, None: with the plan that uses it
        self.tensors: dict = {}  # by layout
        self.trace: Any = None  # a recording.Trace, if it depends on sizes for which a graph is recorded

    @property
    def held(self):
        """The array; unsigned bytes maybe less 128."""
        if type(self.made) is Later:
            self.made = self.made.make()
        return self.made

    @held.setter
    def held(self, array):
        self.made = array

    @property
    def array(self):
        if self.trace is not None:
            self.trace.read()
        held = self.held
        return held if held.dtype == self.dtype else held.view(self.dtype) ^ 128

    def derived(self, key, function):
        """A Known value computed from this one by array -> array; that of a weight is made once for each key."""
        if self.arena is None:
            return Known(np.asarray(function(self.array)))  # functions of NumPy give no arrays without axes
        if key not in self.tensors:
            self.tensors[key] = Known(np.asarray(function(self.array)), self.arena)
        return self.tensors[key]

    @property
    def bounds(self):
        if not (self.dtype == BOOL or is_integer(self.dtype)):
            return None
        if self.trace is not None:
            return self.trace.recorder.bounds(self)
        array = self.array
        return (int(array.min()), int(array.max())) if array.size else (0, 0)


def is_constant(value):
    """Whether a value is known, whatever the sizes are for which a graph is recorded."""
    return isinstance(value, Known) and value.trace is None


class Tensor:
    """A value in a ggml graph: t of type F32, with ONNX's shape and type, and (lo, hi) for booleans and integers.

    Up to rank 4, the dimensions of t are those of shape reversed; beyond that, t is contiguous and has the leading
    dimensions of shape collapsed into ne3. truth: the same booleans as a tensor of bytes, where a comparison gives it.
    factors: a Tensor and a Known scale whose product it is, for what divides it by another scale.
    """

    __slots__ = ("t", "shape", "dtype", "bounds", "truth", "factors")

    def __init__(self, t, shape, dtype, bounds=None, truth=None, factors=None):
        self.t, self.shape, self.dtype, self.bounds = t, tuple(shape), dtype, bounds
        self.truth, self.factors = truth, factors

    @property
    def least(self):
        """The value with the fewest bytes that there are of it."""
        return self if self.truth is None else Tensor(self.truth, self.shape, self.dtype, self.bounds)


class Double:
    """A value of float64 in a graph: t is contiguous, of type F64. bounds: (lo, hi) if all are whole numbers there.

    Only the rules of float64 (rules/doubles.py) and those that know ensembles and machines take it.
    """

    __slots__ = ("t", "shape", "bounds")
    dtype = F64

    def __init__(self, t, shape, bounds=None):
        self.t, self.shape, self.bounds = t, tuple(shape), bounds


class Parameter(Tensor):
    """A constant that is trained: a tensor with data, which every plan and Training of the model reads."""

    __slots__ = ()


class Feed:
    """An input of a program: it becomes a tensor when the first rule uses it in a graph."""

    __slots__ = ("name", "shape", "dtype", "bounds", "tensor", "truth")

    def __init__(self, name, shape, dtype, bounds):
        self.name, self.shape, self.dtype, self.bounds = name, tuple(shape), dtype, bounds
        self.tensor = None
        self.truth: Any = None  # another Feed of the same input, whose tensor has bytes


class Opaque:
    """An input that no tensor can hold: strings, sequences, optionals. Nodes that read it run on the host."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name


class Sequence:
    """A sequence that the model makes itself: its elements are values, so that it costs nothing in a graph."""

    __slots__ = ("items",)

    def __init__(self, items):
        self.items = list(items)


def place_of(axis, rank):
    """An axis counted from the first one."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis is {axis}: need {-rank} to {rank - 1}")
    return axis % rank


def count(shape):
    """The number of elements of a shape."""
    return math.prod(shape)


def extents(shape):
    """The four dimensions of a tensor that holds a shape: ne0 first."""
    shape = tuple(shape)
    if len(shape) > 4:
        shape = (math.prod(shape[:-3]), *shape[-3:])
    return shape[::-1] + ONES[len(shape)]


def broadcast(a, b):
    """The shape that two shapes have together, as numpy.broadcast_shapes."""
    if a == b:
        return a
    a, b = (1,) * (len(b) - len(a)) + a, (1,) * (len(a) - len(b)) + b
    if any(n != m and n != 1 != m for n, m in zip(a, b)):
        raise ValueError(f"the shapes {list(a)} and {list(b)} cannot be broadcast to a single shape")
    return tuple(m if n == 1 else n for n, m in zip(a, b))
