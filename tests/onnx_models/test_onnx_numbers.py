"""Numbers that are easily lost: NaN, infinities, large quotients, negative numbers as unsigned ones."""

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from small_onnx import model, one  # noqa: E402

import ggml.onnx  # noqa: E402

NAN, INF = np.float32(np.nan), np.float32(np.inf)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def planes(seed=0, size=(2, 3, 8, 9)):
    """Images of which some pixels are NaN and many -inf."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=size).astype(np.float32)
    return np.select([rng.random(size) < 0.05, rng.random(size) < 0.6], [NAN, -INF], x)


@pytest.mark.parametrize("axes", [(1,), (3,), (0, 2), (1, 2, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize(("op", "function"), [("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceSum", np.sum)])
def test_reductions(op, function, axes):
    for x in (planes(), -planes()):
        found = one(op, x, constants={"axes": np.array(axes)}, keepdims=0)
        np.testing.assert_allclose(found, function(x, axes), rtol=1e-5)


SIZES = [(700, n, 1) for n in (2, 3, 8, 31, 32, 33, 63, 64, 100)] + [(5, 30, 8), (1, 40, 600), (3, 300, 33), (4, 6, 7)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("op", "function"), [("ReduceMax", np.max), ("ReduceMin", np.min)])
def test_extremes_of_an_axis(op, function, size):
    """Along rows and down columns, of one and two threads, and of integers."""
    x, axes = planes(len(size), size), {"axes": np.array([1])}
    proto = model([helper.make_node(op, ["x", "axes"], ["y"])], {"x": x}, constants=axes)
    for threads in 1, 2:
        (found,) = ggml.onnx.load(proto, threads=threads).run(x)
        np.testing.assert_array_equal(found, function(x, 1, keepdims=True))
    rng = np.random.default_rng(size[1])
    for dtype in np.int32, np.int64:
        ends = np.iinfo(dtype)
        for low, high in ((-1000, 1000), (ends.min, ends.max)):
            x = rng.integers(low, high, size, dtype, endpoint=True)
            np.testing.assert_array_equal(one(op, x, constants=axes), function(x, 1, keepdims=True))


@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (8, 1), (1, 9), (5, 7)])
@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (2, 0), (2, 1)])
@pytest.mark.parametrize("indices", [False, True])
def test_max_pool(kernel, stride, pad, indices):
    x, pad = planes(), min(pad, min(kernel) // 2)
    found = one("MaxPool", x, outputs=1 + indices, kernel_shape=kernel, strides=[stride] * 2, pads=[pad] * 4)
    wide = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-INF)
    windows = np.lib.stride_tricks.sliding_window_view(wide, kernel, (2, 3))[:, :, ::stride, ::stride]
    np.testing.assert_array_equal(found[0] if indices else found, windows.max((-2, -1)))
    if indices:
        flat = x.reshape(-1)
        np.testing.assert_array_equal(flat[np.clip(found[1], 0, x.size - 1)], found[0])


def test_global_max_pool():
    x = planes()
    np.testing.assert_array_equal(one("GlobalMaxPool", x), x.max((2, 3), keepdims=True))


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("axis", [0, 3])
def test_places_of_extremes(axis, last):
    for x in (planes(), np.round(planes(1))):
        for op, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
            found = one(op, x, axis=axis, select_last_index=last, keepdims=0)
            want = x.shape[axis] - 1 - function(np.flip(x, axis), axis) if last else function(x, axis)
            np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("largest", [0, 1])
def test_sorted_values(largest):
    """NaN is larger than all numbers, as NumPy sorts it."""
    x = planes()
    values, places = one("TopK", x, outputs=2, constants={"k": np.array([7])}, largest=largest)
    want = np.sort(x, -1)
    np.testing.assert_array_equal(values, want[..., ::-1][..., :7] if largest else want[..., :7])
    np.testing.assert_array_equal(np.take_along_axis(x, places, -1), values)
    assert all(len(set(row)) == 7 for row in places.reshape(-1, 7).tolist())


@pytest.mark.parametrize("limits", [(-1.0, 0.5), (-np.inf, 0.0), (0.0, np.inf)])
@pytest.mark.parametrize("fixed", [False, True])
def test_clip(limits, fixed):
    x, (lo, hi) = planes(), map(np.float32, limits)
    found = one("Clip", x, constants={"lo": lo, "hi": hi}) if fixed else one("Clip", x, lo, hi)
    np.testing.assert_array_equal(found, np.clip(x, lo, hi))


COMPARISONS = {"Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal, "Equal": np.equal,
               "GreaterOrEqual": np.greater_equal, "Max": np.maximum, "Min": np.minimum}  # fmt: skip


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op):
    values = np.array([NAN, -INF, -1, 0, 2, INF], np.float32)
    x, y = (np.ascontiguousarray(v) for v in np.meshgrid(values, values))
    np.testing.assert_array_equal(one(op, x, y), COMPARISONS[op](x, y))


UNARY = {"Relu": lambda x: np.maximum(x, 0), "Sign": np.sign, "Abs": np.abs, "Floor": np.floor, "Round": np.rint,
         "LeakyRelu": lambda x: np.where(x < 0, x * np.float32(0.01), x), "IsNaN": np.isnan, "IsInf": np.isinf,
         "HardSigmoid": lambda x: np.clip(np.float32(0.2) * x + np.float32(0.5), 0, 1),
         "Shrink": lambda x: np.where(x < -0.5, x, np.where(x > 0.5, x, 0))}  # fmt: skip


@pytest.mark.parametrize("op", UNARY)
def test_functions(op):
    x = planes()
    np.testing.assert_allclose(one(op, x), UNARY[op](x), rtol=1e-6)


def test_nan_is_true():
    x = np.array([NAN, 0, -0.0, 1e-40, INF], np.float32)
    np.testing.assert_array_equal(one("Cast", x, to=TensorProto.BOOL), x.astype(bool))


@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_large_quotients(fmod):
    x = np.array([1e10, -1e10, 1e30, 7e37, 5.3, -5.3, INF, NAN, 3, -3, 0], np.float32)
    y = np.array([7, 0.3, 1e-3, -2.5, INF, -INF, -3], np.float32)[:, None]
    want = np.fmod(x, y) if fmod else np.mod(x, y)
    if not fmod:  # by arithmetic with numbers of any size, rounded once
        exact = [[float(np.float32(python_mod(a, b))) for a in x.tolist()] for b in y[:, 0].tolist()]
        np.testing.assert_allclose(want, exact, rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(one("Mod", x, y, fmod=fmod), want, rtol=2e-7)


def python_mod(a, b):
    """a mod b with the sign of b, exact."""
    from fractions import Fraction

    if not np.isfinite([a, b]).all():
        return float(np.mod(np.float64(a), np.float64(b)))
    return Fraction(a) % Fraction(b)


def test_one_to_any_power_is_one():
    x, y = np.array([1, 1, 1, 2], np.float32), np.array([NAN, INF, -INF, NAN], np.float32)
    np.testing.assert_array_equal(one("Pow", x, y), [1, 1, 1, NAN])


@pytest.mark.parametrize("size", [1, 5, 40])
@pytest.mark.parametrize(("to", "dtype"), [("UINT8", np.uint8), ("UINT16", np.uint16), ("UINT32", np.uint32),
                                           ("UINT64", np.uint64)])  # fmt: skip
def test_negative_numbers_as_unsigned_ones(to, dtype, size):
    x = np.resize(np.array([-1, -2.5, 300, -1e4, 7], np.float32), size)
    want = np.array([int(v) % (int(np.iinfo(dtype).max) + 1) for v in x], dtype)
    np.testing.assert_array_equal(one("Cast", x, to=getattr(TensorProto, to)), want)
    np.testing.assert_array_equal(one("Cast", x.astype(np.float16), to=getattr(TensorProto, to)), want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scattering(reduction, dtype):
    """Several updates of one element are combined; of elements that are replaced each has one."""
    rng = np.random.default_rng(0)
    x, combine = (
        (rng.normal(size=(5, 4, 3)) * 4).astype(dtype),
        {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction],
    )
    for axis in (0, 1, -1):
        shape = (3, 3, 2)
        index = rng.integers(-x.shape[axis], x.shape[axis], shape)
        if reduction == "none":
            index = np.argsort(rng.random(shape), axis)
        updates, want = (rng.normal(size=shape) * 4).astype(dtype), x.copy()
        if dtype != np.int64:
            updates[0, 0, 0] = np.nan
        for at in np.ndindex(shape):
            to = list(at)
            to[axis] = index[at]
            want[tuple(to)] = combine(want[tuple(to)], updates[at])
        found = one("ScatterElements", x, index, updates, axis=axis, reduction=reduction)
        np.testing.assert_allclose(found, want, rtol=1e-6)
    for depth in (1, 2, 3, 4):
        x = x if depth < 4 else (rng.normal(size=(3, 2, 2, 2, 11)) * 4).astype(dtype)  # wide slices
        index = np.stack([rng.integers(-n, n, 6) for n in x.shape[:depth]], 1)
        index = index if reduction != "none" else np.array([[k % n for n in x.shape[:depth]] for k in range(3)])
        updates, want = (rng.normal(size=(len(index), *x.shape[depth:])) * 4).astype(dtype), x.copy()
        for i, row in zip(index.tolist(), updates):
            want[tuple(i)] = combine(want[tuple(i)], row)
        found = one("ScatterND", x, index, updates, reduction=reduction)
        np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.int64, np.float16])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_many_elements_are_scattered(kind, reduction, axis):
    """In compiled code; of equal places each counts, the last one where elements are replaced."""
    rng, shape = np.random.default_rng(0), (5, 70, 6)
    wide = list(shape)
    wide[axis] = 300
    x = rng.integers(-3, 4, shape).astype(kind)
    index = rng.integers(-shape[axis], shape[axis], wide)
    updates = rng.integers(-1, 2, wide).astype(kind)
    if np.dtype(kind).kind == "f":
        updates.flat[::400] = np.nan
    want, function = np.moveaxis(x.copy(), axis, 0), {"add": np.add, "mul": np.multiply, "max": np.maximum}
    function |= {"min": np.minimum, "none": lambda a, b: b}
    for place, update in zip(np.moveaxis(index, axis, 0), np.moveaxis(updates, axis, 0)):
        rest = tuple(np.indices(place.shape))
        want[(place, *rest)] = function[reduction](want[(place, *rest)], update)
    found = one("ScatterElements", x, index, updates, axis=axis, reduction=reduction)
    np.testing.assert_array_equal(found, np.moveaxis(want, 0, axis))
    assert found.dtype == kind


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_whole_rows_are_scattered(kind, reduction):
    """Most rows of the index are one number, as where nodes of a graph collect messages; others are not."""
    rng = np.random.default_rng(0)
    x, updates = (rng.integers(-3, 4, (2, n, 24)).astype(kind) for n in (70, 600))
    index = np.repeat(rng.integers(-70, 70, (2, 600, 1)), 24, 2)
    index[:, ::7, 23] = rng.integers(0, 70, index[:, ::7, 23].shape)
    if kind == np.float32:
        updates.flat[::400], x.flat[::55] = np.nan, np.nan
    want, function = x.copy(), {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for i, j, k in np.ndindex(index.shape):
        old, new = want[i, index[i, j, k], k], updates[i, j, k]
        want[i, index[i, j, k], k] = new if reduction == "none" else function[reduction](old, new)
    np.testing.assert_array_equal(one("ScatterElements", x, index, updates, axis=1, reduction=reduction), want)
    for wrong in (70, -71):
        index[1, 598] = wrong
        with pytest.raises(RuntimeError, match=f"index {wrong} of an axis of 70 entries"):
            one("ScatterElements", x, index, updates, axis=1, reduction=reduction)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_many_rows_are_scattered(reduction, threads):
    """In the graph; an index that x lacks is an error, in a run that is repeated, too."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (300, 40)).astype(np.float32)
    index, updates = rng.integers(-300, 300, (3000, 1)), rng.integers(-1, 2, (3000, 40)).astype(np.float32)
    updates.flat[::999] = np.nan
    function = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    node = helper.make_node("ScatterND", ["x", "index", "updates"], ["y"], name="it", reduction=reduction)
    operands = {"x": x, "index": index, "updates": updates}
    loaded = ggml.onnx.load(model([node], operands), strict=True, threads=threads)
    for shift in (0, 0, 300):  # negative places and others, again, and those alone
        operands["index"], want = np.where(index < 0, index + shift, index), x.copy()
        for place, row in zip(index[:, 0], updates):
            want[place] = function[reduction](want[place], row)
        np.testing.assert_array_equal(loaded.run(operands)[0], want)
    for wrong in (300, 2000):
        operands["index"] = np.where(index == index[7], wrong, index % 300)
        with pytest.raises(RuntimeError, match=f"^Model.run: .*'it'.* row {wrong} of 300 does not exist"):
            loaded.run(operands)


def rows_of_few(rows, n):
    """Rows some of which have elements that are not finite, or large."""
    x = np.random.default_rng(n).normal(size=(rows, n)).astype(np.float32)
    x[3, -1], x[4, 0], x[5, n // 2], x[6], x[7, 0] = INF, -INF, NAN, -INF, 1e4
    return x


@pytest.mark.parametrize("n", [1, 3, 16, 20, 64, 65])
@pytest.mark.parametrize("rows", [64, 100, 5000])
@pytest.mark.parametrize("keep", [0, 1])
def test_many_rows_of_few_elements(n, rows, keep):
    x = rows_of_few(rows, n)
    wide = x.astype(np.float64)
    logarithm = np.logaddexp.reduce(wide, 1, keepdims=bool(keep))
    for axis, operand in ((-1, x), (0, np.ascontiguousarray(x.T))):
        want = logarithm.T if axis == 0 else logarithm
        axes = {"axes": np.array([axis])}
        np.testing.assert_allclose(
            one("ReduceLogSumExp", operand, constants=axes, keepdims=keep), want, rtol=2e-6, atol=1e-6
        )
        power = (wide**2).sum(1, keepdims=bool(keep))
        power = power.T if axis == 0 else power
        np.testing.assert_allclose(one("ReduceSumSquare", operand, constants=axes, keepdims=keep), power, rtol=2e-6)
        for square in (helper.make_node("Mul", ["x", "x"], ["s"]), helper.make_node("Pow", ["x", "two"], ["s"])):
            nodes = [square, helper.make_node("ReduceSum", ["s", "axes"], ["y"], keepdims=keep)]
            proto = model(nodes, {"x": operand}, constants={**axes, "two": np.float32(2)})
            loaded = ggml.onnx.load(proto, strict=True, threads=2)
            np.testing.assert_allclose(loaded.run(operand)[0], power, rtol=2e-6)
            assert [e.op for e in loaded.report(operand)] == [square.op_type, "ReduceSum"]


def test_scattering_beyond_the_axis():
    index = np.zeros((100, 100), np.int64)
    index[50, 3] = 100
    with pytest.raises(RuntimeError, match="index 100 of an axis of 100 entries"):
        one("ScatterElements", np.zeros((100, 100), np.float32), index, np.ones((100, 100), np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_more_places_than_elements(dtype):
    for size in (2, 100):
        with pytest.raises((ggml.onnx.NodeError, ggml.onnx.HostError), match="40000 entries of an index for"):
            places = np.zeros((1, 1, 200, 200), np.int64)
            one("MaxUnpool", np.ones((1, 1, size, size), dtype), places, kernel_shape=[2, 2], strides=[2, 2])


@pytest.mark.parametrize("slopes", [(0.25, -2, 1), (0.25, 3, 0)])
def test_prelu(slopes):
    x, slope = planes(size=(2, 3, 4, 5)), np.array(slopes, np.float32).reshape(3, 1, 1)
    x[0, :, 0, :2] = INF, 0
    want = np.where(x < 0, x * slope, x)
    for found in (one("PRelu", x, constants={"slope": slope}), one("PRelu", x, slope)):
        np.testing.assert_array_equal(found[~np.isnan(want)], want[~np.isnan(want)])


INTEGERS, MATRIX = np.array([[3, -2, 0], [7, 5, -1]]), np.array([[0.5, -2.25, NAN], [7, 1e-3, -INF]], np.float32)
NAMED = "Equal Less LessOrEqual Greater GreaterOrEqual Add Sub Mul".split()


OUTPUTS = {"Split": 3, "TopK": 2}  # of the operators with several
EQUAL = np.array([[3, 1, 3, -(2**31)], [0, 2, 2, 2]])
SIZES: list = [
    *(("Max", (x, x[:1] * 2, x[:, ::-1]), {}) for x in (INTEGERS, MATRIX)),
    ("Min", (MATRIX, np.float32(np.nan)), {}),
    *((f"Reduce{op}", (x,), {"keepdims": 0}) for op in ("Max", "Min", "Prod") for x in (INTEGERS, MATRIX)),
    *(("ReduceMax", (INTEGERS.astype(np.int32),), {"keepdims": k}) for k in (0, 1)),
    ("ReduceSum", (INTEGERS, np.array([-1])), {}),
    ("ReduceSum", (INTEGERS, np.zeros(0, np.int64)), {"noop_with_empty_axes": 1}),
    ("MatMul", (MATRIX, MATRIX.T), {}),
    ("Div", (MATRIX, MATRIX[:1] - 5), {}),
    ("Size", (MATRIX,), {}),
    *(("Reshape", (INTEGERS, np.array(dims)), {}) for dims in ([-1], [0, -1, 1], [1, 0, INTEGERS.shape[0]])),
    ("Reshape", (INTEGERS[:0], np.array([0, 7])), {"allowzero": 1}),
    ("Reshape", (INTEGERS[0, :1], np.zeros(0, np.int64)), {}),
    *(("Transpose", (np.arange(24).reshape(2, 3, 4),), attrs) for attrs in ({}, {"perm": [1, 2, 0]})),
    ("ConstantOfShape", (np.array([2, 0, 3]),), {}),
    ("ConstantOfShape", (np.zeros(0, np.int64),), {"value": helper.make_tensor("seven", 6, [1], [7])}),
    *(("Expand", (x, np.array([3, 1, 4])), {}) for x in (EQUAL[:, :1], np.array(True), np.float32(2))),
    ("Split", (np.arange(14).reshape(2, 7),), {"axis": -1, "num_outputs": 3}),
    ("Split", (np.arange(14).reshape(2, 7), np.array([4, 0, 3])), {"axis": 1}),
    *(("TopK", (x, np.array([3])), {"largest": k}) for k in (0, 1) for x in (EQUAL, EQUAL.astype(np.int32))),
    ("TopK", (EQUAL, np.array([1])), {"axis": 0}),
    ("DequantizeLinear", (np.array([-128, 3, 127], np.int8), np.float32(0.3)), {}),
    ("DequantizeLinear", (np.arange(200, 206, dtype=np.uint8).reshape(2, 3), np.float32([0.1]), np.uint8([7])), {}),
    *(
        ("DequantizeLinear", (x, np.float32([0.1, 9]), np.array([3, 1], x.dtype)), {"axis": axis})
        for t, axis in ((np.int8, 0), (np.uint8, -2), (np.int32, 0))
        for x in (np.arange(6).reshape(2, 3).astype(t),)
    ),
]


def folded(op, operands, attrs):
    """A model of a node whose operands are constants."""
    names, outputs = [f"c{i}" for i in range(len(operands))], [f"y{i}" for i in range(OUTPUTS.get(op, 1))]
    node = helper.make_node(op, names, outputs, **attrs)
    proto = model([node], {}, outputs, dict(zip(names, operands)), opset=19)
    for output in proto.graph.output:
        output.type.CopyFrom(onnx.TypeProto())
    return proto


@pytest.mark.parametrize(
    ("op", "operands", "attrs"),
    [
        *((op, (x, x[:, ::-1][:1]), {}) for op in NAMED for x in (INTEGERS, INTEGERS.astype(np.int32), MATRIX)),
        *((op, (x > 0, x[0] > 1), {}) for op in ("And", "Or", "Equal") for x in (INTEGERS,)),
        *((op, (x,), {}) for op in ("Neg", "Abs") for x in (INTEGERS, MATRIX, MATRIX.astype(np.float64))),
        *((op, (x,), {}) for op in ("Sin", "Cos", "Exp", "Sqrt") for x in (MATRIX, MATRIX.astype(np.float16))),
        ("Not", (INTEGERS > 0,), {}),
        ("Where", (INTEGERS > 0, MATRIX, MATRIX[:1] * 2), {}),
        ("Where", (INTEGERS[0] > 0, INTEGERS, np.int64(9)), {}),
        *(("Gather", (x, np.array([[1, -1]])), {"axis": 1}) for x in (INTEGERS, MATRIX)),
        ("Gather", (MATRIX, np.zeros((0, 2), np.int64)), {"axis": 0}),
        *(("Range", tuple(map(t, (7, -3, -2))), {}) for t in (np.int64, np.int32, np.float32)),
        *(("Range", tuple(map(np.float32, (0, stop, 0.1))), {}) for stop in (0.3, 0.7, 1.1, 1.0, -1)),
        ("Einsum", (MATRIX[:, :2], MATRIX[:, 1:2]), {"equation": "ij, kl -> ik"}),
        ("Einsum", (INTEGERS, INTEGERS), {"equation": "...i,...i"}),
        *(("Cast", (x,), {"to": t}) for x in (INTEGERS, INTEGERS > 0) for t in (1, 6, 7, 9, 11)),
        *(("Cast", (MATRIX[:, :2],), {"to": t}) for t in (1, 6, 7, 9, 11)),
        *SIZES,
    ],
)
def test_what_is_folded_is_what_the_reference_gives(op, operands, attrs):
    proto = folded(op, operands, attrs)
    wanted = ReferenceEvaluator(proto).run(None, {})
    for got, want in zip(ggml.onnx.load(proto).run({}), wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("op", "operands", "attrs"), SIZES)
def test_sizes_need_no_evaluator(op, operands, attrs, monkeypatch):
    """Its modules take 6 MB of memory, and a call of it longer than one of NumPy."""
    monkeypatch.setattr(ggml.onnx.host, "ReferenceEvaluator", None)
    ggml.onnx.load(folded(op, operands, attrs)).run({})


@pytest.mark.parametrize(
    ("op", "operands"), [("Add", (INTEGERS, INTEGERS[:, :2])), ("Gather", (MATRIX, np.array([2])))]
)
def test_what_numpy_refuses_is_an_error(op, operands):
    node = helper.make_node(op, ["a", "b"], ["y"], name="it")
    with pytest.raises((ggml.onnx.NodeError, ggml.onnx.HostError), match="'it'"):
        ggml.onnx.load(model([node], {}, constants=dict(zip("ab", operands)))).run({})


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
@pytest.mark.parametrize("threads", [1, 2])
def test_columns_of_many_rows(dtype, threads):
    rng, index = np.random.default_rng(0), np.array([4, 0, -1, 4, 2])
    for rows in (64, 65, 20_000):
        x = (10 * rng.normal(size=(rows, 7))).astype(dtype)
        node = helper.make_node("Gather", ["x", "index"], ["y"], axis=-1)
        found = ggml.onnx.load(model([node], {"x": x}, constants={"index": index}), threads=threads).run(x)[0]
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x[:, index])
    node = helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Gather", ["t", "index"], ["y"], axis=-1)
    x = rng.normal(size=(7, 100)).astype(np.float32)
    (found,) = ggml.onnx.load(model(node, {"x": x}, constants={"index": index}), strict=True).run(x)
    np.testing.assert_array_equal(found, x.T[:, index])


@pytest.mark.parametrize("columns", [1, 2, 700, 1500])
def test_few_and_many_columns_of_many_rows(columns):
    rng = np.random.default_rng(0)
    x, index = rng.normal(size=(333, 2000)).astype(np.float32), rng.integers(0, 2000, columns)
    node = helper.make_node("Gather", ["x", "index"], ["y"], axis=1)
    (found,) = ggml.onnx.load(model([node], {"x": x}, constants={"index": index}), strict=True).run(x)
    np.testing.assert_array_equal(found, x[:, index])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("k", "n"), [(1, 8), (3, 16), (20, 20), (32, 32), (31, 17), (33, 20), (20, 33)])
def test_products_of_many_short_rows(k, n, threads):
    rng = np.random.default_rng(0)
    for rows in (255, 256, 5001):
        x, w, c = (rng.normal(size=s).astype(np.float32) for s in ((rows, k), (k, n), (n,)))
        x[7, 0], x[rows - 1, -1] = INF, NAN
        product, wanted = helper.make_node("MatMul", ["x", "w"], ["y"]), x.astype(np.float64) @ w
        sums = [helper.make_node("Gemm", ["x", "w", name], ["y"]) for name in ("c", "row", "one")]
        scaled = helper.make_node("Gemm", ["x", "wt", "c"], ["y"], transB=1, beta=0.5)
        constants = {"w": w, "wt": np.ascontiguousarray(w.T), "c": c, "row": c[None], "one": c[:1]}
        wants = [wanted, wanted + c, wanted + c, wanted + c[0], wanted + c * 0.5]
        for node, want in zip([product, *sums, scaled], wants):
            loaded = ggml.onnx.load(model([node], {"x": x}, constants=constants), threads=threads, strict=True)
            np.testing.assert_allclose(loaded.run(x)[0], want, rtol=1e-5, atol=1e-5)
    deep = rng.normal(size=(2, 3, 100, k)).astype(np.float32)
    (found,) = ggml.onnx.load(model([product], {"x": deep}, constants={"w": w})).run(deep)
    np.testing.assert_allclose(found, deep.astype(np.float64) @ w, rtol=1e-5, atol=1e-5)


WHOLE = np.random.default_rng(3).integers(-(2**40), 2**40, (3, 70, 50))
LOW, FAR = WHOLE.astype(np.int32), WHOLE / 7
PLACES = np.random.default_rng(4).integers(-50, 50, (2, 70, 50))
ENDS = np.array([[0, 70, 3], [1, 0, 70]])  # of the 3 and 2 sequences of two arrays


def axes_of(*axes):
    return np.array(axes, np.int64)


LARGE: list = [
    *(("CumSum", (x, np.array(a)), {}) for x in (WHOLE, LOW, LOW.astype(np.uint32), FAR) for a in (0, 1, -1)),
    *(("CumProd", (x, np.array(a)), {}) for x in (WHOLE, LOW, FAR / 1e10) for a in (0, -2, 2)),
    *(
        (op, (x, np.array(a)), {"exclusive": e, "reverse": r})
        for op in ("CumSum", "CumProd")
        for x in (LOW, FAR / 1e10)
        for a in (1, 2)
        for e, r in ((0, 1), (1, 0), (1, 1))
    ),
    *(
        ("Trilu", (x, np.array(k)), {"upper": u})
        for x in (WHOLE, LOW.astype(np.int8), LOW > 0, FAR.reshape(-1, 50, 3))
        for k in (0, 7, -7, 100, -100)
        for u in (0, 1)
    ),
    ("Trilu", (LOW,), {}),
    *(("ReverseSequence", (x[:, :, None], ENDS[0]), {"batch_axis": 0, "time_axis": 1}) for x in (WHOLE, LOW > 0)),
    ("ReverseSequence", (WHOLE.swapaxes(0, 1)[:, :2], ENDS[1, 1:]), {"batch_axis": 1, "time_axis": 0}),
    *(
        (f"Reduce{op}", (x,), {"keepdims": 0})
        for op in ("Max", "Min", "Sum", "Mean", "Prod", "L1")
        for x in (WHOLE, LOW)
    ),
    *(
        (f"Reduce{op}", (x.reshape(7, -1, 5, 2), axes_of(*axes)), {"keepdims": k})
        for op in ("Max", "Min", "Sum", "Mean")
        for x in (LOW, LOW.astype(np.int8), FAR)
        for axes in ((1,), (-1,), (0, 2), (3, 1))
        for k in (0, 1)
        if op in ("Max", "Min") or x.dtype != np.int8
    ),
    *((op, (x,), {}) for op in ("Abs", "Neg", "Sign") for x in (WHOLE, LOW, LOW.astype(np.int8))),
    *(
        (op, (WHOLE, WHOLE[:1, ::-1]), {})
        for op in ("Add", "Sub", "Mul", "Less", "Greater", "Equal", "Mod", "BitwiseXor")
    ),
    *(
        (op, (x, y), {})
        for op in ("And", "Or", "Xor")
        for x, y in ((LOW > 0, LOW[..., :1] > 0), (LOW > 9, np.array(True)))
    ),
    *(("BitShift", (x, x % 70), {"direction": d}) for x in (LOW.astype(np.uint64),) for d in ("LEFT", "RIGHT")),
    *(
        ("Clip", (LOW, *ends), {})
        for ends in ((np.int32(-9), np.int32(99)), (np.int32(9), np.int32(-9)), (np.int32(5),))
    ),
    *(("Cast", (x,), {"to": to}) for x in (WHOLE, FAR.astype(np.float32) / 2**20, LOW > 0) for to in (3, 6, 7, 9, 11)),
    *(
        (op, (x,), {"axis": a, "select_last_index": n})
        for op in ("ArgMax", "ArgMin")
        for x in (LOW % 9,)
        for a in (0, -1)
        for n in (0, 1)
    ),
    *(("NonZero", (x,), {}) for x in (LOW % 3, LOW > 0, FAR.reshape(-1))),
    *(("Expand", (x, axes_of(4, 3, 70, 6)), {}) for x in (LOW[:, :, :1], LOW[0, :, :6], LOW[:1, :1, 0].reshape(1))),
    *(("Tile", (LOW, axes_of(*n)), {}) for n in ((1, 2, 3), (2, 1, 1), (1, 1, 1), (0, 1, 1))),
    *(("GatherND", (WHOLE, np.stack([PLACES % n for n in (3, 70, 50)][:d], -1)), {}) for d in (1, 2, 3)),
    ("GatherND", (WHOLE[:2], PLACES[..., None, :1]), {"batch_dims": 1}),
    *(("Reshape", (x, axes_of(0, -1)), {}) for x in (WHOLE, LOW, LOW > 0)),
    *(
        ("Unique", (x,), {"axis": a, "sorted": 1})
        for x in (LOW % 2, FAR % 2 < 1, np.floor(FAR % 2))
        for a in (0, 1, -1)
    ),
]


def compare(op, operands, attrs, strict=False):
    """Compares the outputs of a node with those of the reference, and says where it ran."""
    names, outputs = [f"x{i}" for i in range(len(operands))], [f"y{i}" for i in range(4 if op == "Unique" else 1)]
    proto = model([helper.make_node(op, names, outputs, **attrs)], dict(zip(names, operands)), outputs, opset=26)
    loaded = ggml.onnx.load(proto, threads=1, strict=strict)
    operands = dict(zip(names, map(np.asarray, operands)))
    copies, wanted = {k: v.copy() for k, v in operands.items()}, ReferenceEvaluator(proto).run(None, operands)
    for _ in range(3):  # what a caller writes into outputs changes nothing
        for got, want in zip(loaded.run(operands), wanted, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-12 if want.dtype == np.float64 else 0)
            got[...] = 1
        assert all(np.array_equal(v, copies[k]) for k, v in operands.items())
    return {entry.where for entry in loaded.report(operands)}


@pytest.mark.parametrize(("op", "operands", "attrs"), LARGE)
def test_large_operands_of_integers(op, operands, attrs):
    """They stay on the host, where results are exact and wrap around as integers do."""
    assert compare(op, operands, attrs) == {"host"}


def test_parts_of_a_function_stay_in_the_graph():
    """Only an operator that is alone leaves it."""
    dice = np.random.default_rng(0)
    scores, classes = dice.normal(size=(9, 2, 40, 31)).astype(np.float32), dice.integers(0, 2, (9, 40, 31))
    assert compare("NegativeLogLikelihoodLoss", (scores, classes), {"reduction": "none"}) == {"expanded", "graph"}


def test_integers_of_strict_models_stay_in_the_graph():
    small = np.clip(LOW, -99, 99)
    for op, operands in (("Neg", (small,)), ("Less", (small, small[:1])), ("Trilu", (small,))):
        assert compare(op, operands, {}, strict=True) == {"graph"}


@pytest.mark.parametrize("op", ["ScatterElements", "GatherElements"])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.int64])
def test_elements_of_a_part_of_large_arrays(op, dtype):
    """An index may have fewer entries of the other axes, and few of many."""
    x = WHOLE.astype(dtype)
    for part in (PLACES, PLACES[:, :60, :40], PLACES[:1, :3, :2]):
        for axis, n in enumerate(x.shape):
            index = np.sort(part, axis) % n if op == "GatherElements" else np.argsort(part, axis) % n
            if op == "ScatterElements" and index.shape[axis] > n:
                continue
            grid = list(np.ogrid[tuple(map(slice, index.shape))])
            grid[axis], y = index, x.copy()
            if op == "GatherElements":
                np.testing.assert_array_equal(one(op, x, index, axis=axis), x[tuple(grid)])
                continue
            updates = np.random.default_rng(1).integers(-9, 9, index.shape).astype(dtype)
            y[tuple(grid)] = updates
            np.testing.assert_array_equal(one(op, x, index, updates, axis=axis), y)


def test_unique_slices_of_floats():
    """-0.0 is 0.0, and slices are in the order of their numbers."""
    x = np.array([[0.0, 1], [-2, 5], [-0.0, 1], [-2, -5]], np.float32)
    found = one("Unique", x, outputs=4, axis=0)
    for got, want in zip(found, ([[-2, -5], [-2, 5], [0, 1]], [3, 1, 0], [2, 1, 2, 0], [1, 1, 2]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_one_hot_of_places_out_of_range():
    index, values = np.array([[0, 3, -1], [-4, 4, -5]]), np.array([7, 9])
    for axis in (0, 1, -1):
        found = one("OneHot", index, np.array([4]), values, axis=axis)
        hot = np.stack([(index == k) | (index == k - 4) for k in range(4)], axis)
        np.testing.assert_array_equal(found, np.where(hot, 9, 7))
