"""Numbers of float64, which compiled code computes in the graph (doubles.pyx), against NumPy."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, numpy_helper  # noqa: E402
from onnx.helper import make_node as node  # noqa: E402
from small_onnx import model as model_of  # noqa: E402

import ggml.onnx  # noqa: E402


def numbers(*shape, seed=0):
    """Doubles that F32 does not represent, some NaN and infinite."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return np.where(rng.random(shape) < 0.05, rng.choice([np.nan, np.inf, -np.inf, 0.0], shape), x)


def computed(nodes, inputs, outputs=("y",), threads=1, **more):
    """The outputs of a model, whose nodes are all in its graph."""
    loaded = ggml.onnx.load(model_of(nodes, inputs, outputs, **more), threads=threads, strict=True)
    found = loaded.run(inputs)
    for a, b in zip(found, loaded.run(inputs)):  # which is repeated
        np.testing.assert_array_equal(a, b)
    return found


PAIRS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum, "Min": np.minimum,
         "Less": np.less, "Greater": np.greater, "Equal": np.equal}  # fmt: skip
SHAPES = [((7, 20), (7, 20)), ((7, 20), (20,)), ((7, 20), (1,)), ((7, 20), ()), ((7, 20), (7, 1)), ((20,), (7, 20)),
          ((3, 4, 5), (3, 4, 1)), ((1, 20), (7, 20)), ((5000, 3), (3,)), ((5000, 3), (5000, 1)), ((2, 1500), (2, 1500)),
          ((), ())]  # fmt: skip


@pytest.mark.parametrize("op", PAIRS)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_pairs(op, shapes, threads):
    x, z = (numbers(*s, seed=i) for i, s in enumerate(shapes))
    with np.errstate(all="ignore"):
        want = PAIRS[op](x, z)
    (y,) = computed([node(op, ["x", "z"], ["y"])], {"x": x, "z": z}, threads=threads)
    assert y.dtype == want.dtype and y.shape == want.shape
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize(
    "op, function",
    [("Neg", np.negative), ("Abs", np.abs), ("Sqrt", np.sqrt), ("Exp", np.exp), ("Log", np.log), ("Tanh", np.tanh),
     ("Reciprocal", np.reciprocal), ("Sigmoid", lambda x: 1 / (1 + np.exp(-x)))],
)  # fmt: skip
def test_functions(op, function):
    x = np.concatenate([numbers(900), [710.0, -710.0, -746.0, 1e300]])
    with np.errstate(all="ignore"):
        want = function(x)
    np.testing.assert_allclose(computed([node(op, ["x"], ["y"])], {"x": x})[0], want, rtol=1e-15)


@pytest.mark.parametrize("shape", [(1, 20, 1), (3, 20, 3), (70, 5, 8), (70, 1, 9), (9, 70, 17), (3000, 20, 2)])
@pytest.mark.parametrize("threads", [1, 2])
def test_products(shape, threads):
    rows, k, n = shape
    rng = np.random.default_rng(n)
    x, w, c = rng.normal(size=(rows, k)), rng.normal(size=(k, n)), rng.normal(size=n)
    (y,) = computed([node("MatMul", ["x", "w"], ["y"])], {"x": x}, constants={"w": w}, threads=threads)
    np.testing.assert_allclose(y, x @ w, rtol=1e-12, atol=1e-14)
    gemm = node("Gemm", ["x", "w", "c"], ["y"], transB=1)
    (y,) = computed([gemm], {"x": x}, constants={"w": np.ascontiguousarray(w.T), "c": c}, threads=threads)
    np.testing.assert_allclose(y, x @ w + c, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("rows", [1, 65, 3000])
@pytest.mark.parametrize("n", [1, 3, 70])
def test_rows(rows, n):
    """Probabilities and places of the largest numbers, of which some are equal."""
    x = np.round(3 * np.random.default_rng(n).normal(size=(rows, n)), 1) * 1.1
    nodes = [node("Softmax", ["x"], ["y"]), node("ArgMax", ["x"], ["place"], axis=1)]
    y, place = computed(nodes, {"x": x}, ["y", "place"], threads=2)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-14)
    np.testing.assert_array_equal(place, x.argmax(1)[:, None])
    x[rows // 2, n // 2] = np.nan
    y, place = computed(nodes, {"x": x}, ["y", "place"])
    assert np.isnan(y[rows // 2]).all() and not np.isnan(np.delete(y, rows // 2, 0)).any()
    np.testing.assert_array_equal(place, x.argmax(1)[:, None])


def test_columns():
    x = numbers(5, 6)
    nodes = [
        node("Gather", ["x", "one"], ["a"], axis=1),
        node("Gather", ["x", "some"], ["b"], axis=-1),
        node("ArrayFeatureExtractor", ["x", "some"], ["c"], domain="ai.onnx.ml"),
        node("Concat", ["x", "b", "c", *["x"] * 10], ["y"], axis=1),
        node("Reshape", ["y", "shape"], ["z"]),
    ]
    constants = {"one": np.array(2), "some": np.array([5, -6, 1]), "shape": np.array([5, -1, 3])}
    a, b, c, y, z = computed(nodes, {"x": x}, list("abcyz"), constants=constants, domains=[("ai.onnx.ml", 3)])
    np.testing.assert_array_equal(a, x[:, 2])
    np.testing.assert_array_equal(b, x[:, [5, 0, 1]])
    np.testing.assert_array_equal(c, b)
    np.testing.assert_array_equal(y, np.concatenate([x, b, c, *[x] * 10], 1))
    np.testing.assert_array_equal(z, y.reshape(5, -1, 3))


def test_types():
    """From other types and back: what is not known to be whole does not become an integer in the graph."""
    x, whole = numbers(4, 5), np.arange(-3, 17).reshape(4, 5)
    nodes = [
        node("Cast", ["x"], ["single"], to=TensorProto.FLOAT),
        node("Cast", ["single"], ["again"], to=TensorProto.DOUBLE),
        node("Cast", ["whole"], ["wide"], to=TensorProto.DOUBLE),
        node("Cast", ["wide"], ["back"], to=TensorProto.INT64),
        node("Less", ["x", "wide"], ["less"]),
        node("Cast", ["less"], ["truth"], to=TensorProto.DOUBLE),
    ]
    names = ["single", "again", "wide", "back", "truth"]
    found = dict(zip(names, computed(nodes, {"x": x, "whole": whole}, names)))
    wanted = [x.astype(np.float32), x.astype(np.float32).astype(float), whole.astype(float), whole, (x < whole) * 1.0]
    for name, want in zip(names, wanted):
        assert found[name].dtype == want.dtype
        np.testing.assert_array_equal(found[name], want)
    mixed = [node("Mul", ["x", "x"], ["square"]), node("Cast", ["square"], ["y"], to=TensorProto.INT64)]
    big = np.array([[3e9, 2.5], [-1e8, 7.0]])
    loaded = ggml.onnx.load(model_of(mixed, {"x": big}))
    np.testing.assert_array_equal(loaded.run(big)[0], (big * big).astype(np.int64))
    assert [e.where for e in loaded.report(big)] == ["graph", "host"]


@pytest.mark.parametrize("rows", [[0, 3, 0], [1, 2, 3, 5, 3000, 7]])
def test_sizes_that_change(rows):
    """Also without rows, which run on the host, and from recipes."""
    w, mean = np.random.default_rng(0).normal(size=(4, 3)), np.arange(4.0)
    nodes = [
        node("Sub", ["x", "mean"], ["centred"]),
        node("MatMul", ["centred", "w"], ["p"]),
        node("Softmax", ["p"], ["y"]),
    ]
    proto = model_of(nodes, {"x": np.zeros((1, 4))}, constants={"w": w, "mean": mean})
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    loaded = ggml.onnx.load(proto, threads=2)
    for n in rows:
        x = np.random.default_rng(n).normal(size=(n, 4))
        e = np.exp((x - mean) @ w)
        np.testing.assert_allclose(loaded.run(x)[0], e / e.sum(1, keepdims=True), rtol=1e-13)


def test_what_no_rule_takes_runs_on_the_host():
    x, z = numbers(2, 3, 4), numbers(2, 1, 4, seed=1)
    nodes = [node("Add", ["x", "z"], ["s"]), node("Transpose", ["s"], ["t"]), node("Mul", ["t", "t"], ["y"])]
    loaded = ggml.onnx.load(model_of(nodes, {"x": x, "z": z}), threads=1)
    for _ in range(3):
        np.testing.assert_array_equal(loaded.run(x, z)[0], np.square((x + z).T))
    assert [e.where for e in loaded.report(x, z)] == ["host", "host", "graph"]


@pytest.mark.parametrize("rows", [1, 3000])
def test_large_results_are_the_callers(rows):
    loaded = ggml.onnx.load(model_of([node("Add", ["x", "x"], ["y"])], {"x": np.zeros((rows, 8))}))
    results = [loaded.run(np.full((rows, 8), float(i)))[0] for i in range(4)]
    for i, y in enumerate(results):
        assert y.flags.writeable and (y == 2 * i).all()


def test_a_constant_of_the_model_stays():
    w = np.arange(6.0).reshape(2, 3)
    proto = model_of([node("Identity", ["w"], ["y"]), node("MatMul", ["x", "w"], ["z"])], {"x": np.ones((1, 2))},
                     ["y", "z"], constants={"w": w})  # fmt: skip
    assert numpy_helper.to_array(proto.graph.initializer[0]).dtype == np.float64
    loaded = ggml.onnx.load(proto)
    for _ in range(3):
        y, z = loaded.run(np.ones((1, 2)))
        np.testing.assert_array_equal(y, w)
        np.testing.assert_array_equal(z, np.ones((1, 2)) @ w)
        y[...] = 0
