"""Runs with operands like those of the run before, which compiled code repeats (repeating.pyx)."""

import pickle

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402
from onnx.helper import make_node as node  # noqa: E402
from small_onnx import model  # noqa: E402

import ggml.onnx  # noqa: E402

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def repeated(own, *arrays):
    """The outputs of a run that has to be a repetition."""
    found = own.repeat(arrays)
    assert found is not None
    return found


@pytest.fixture
def sums():
    """y = x + z, and whether x < z, its sum rounded, and its sum as bytes."""
    nodes = [
        node("Add", ["x", "z"], ["y"]),
        node("Less", ["x", "z"], ["less"]),
        node("Cast", ["y"], ["long"], to=TensorProto.INT64),
        node("Cast", ["y"], ["int"], to=TensorProto.INT32),
    ]
    made = model(nodes, {"x": floats(3, 5), "z": floats(5)}, ["y", "less", "long", "int"])
    for value in made.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = value.name
    return ggml.onnx.load(made, threads=1)


def check(found, x, z):
    wanted = [x + z, x < z, (x + z).astype(np.int64), (x + z).astype(np.int32)]
    for a, want in zip(found, wanted):
        assert a.dtype == want.dtype and a.shape == want.shape
        np.testing.assert_array_equal(a, want)


def test_values_change_and_results_stay(sums):
    inputs = [(10 * floats(3, 5), 10 * floats(5)) for _ in range(4)]
    results = [sums.run(*inputs[0])] + [repeated(sums, x, z) for x, z in inputs[1:3]]
    results.append(sums.run({"z": inputs[3][1], "x": inputs[3][0]}))
    for found, (x, z) in zip(results, inputs):
        check(found, x, z)
        assert all(a.flags.writeable and a.flags.c_contiguous for a in found)
    results[1][0][...] = 0
    check(results[2], *inputs[2])


def test_any_layout(sums):
    x, z = floats(3, 5), floats(10)[::2]
    sums.run(x, z)
    for a in (np.asfortranarray(x), np.pad(x, 1)[1:-1, 1:-1], x[::-1]):
        check(repeated(sums, a, z), a, z)
    x.flags.writeable = False
    check(repeated(sums, x, z), x, z)


def test_other_operands_are_no_repetition(sums):
    x, z = floats(3, 5), floats(5)
    sums.run(x, z)
    for arrays in ((floats(4, 5), z), (x[0:1], z), (x.tolist(), z), (x,), (x, z, z), ({"x": x},), ({"x": x, "y": z},)):
        assert sums.repeat(arrays) is None
    check(sums.run(x[:1], z), x[:1], z)
    check(sums.run(x, z), x, z)  # back to the plan before
    check(repeated(sums, x, z), x, z)
    with pytest.raises(TypeError, match="input 'x' is float64: need float32"):
        sums.run(x.astype(float), z)
    with pytest.raises(ValueError, match="inputs are missing: 'z'"):
        sums.run(x)
    with pytest.raises(ValueError, match="input 'u' is not one of"):
        sums.run({"x": x, "u": z})
    check(repeated(sums, x, z), x, z)


def test_integers_in_another_interval():
    nodes = [node("Mul", ["i", "i"], ["y"])]
    own = ggml.onnx.load(model(nodes, {"i": np.arange(4)}), threads=1)
    for values in ([1, 2, 3, 4], [4, 3, 2, 1], [1 << 20, 1, 2, 1 << 31], [-5, 2, 1, 0], [1, 2, 3, 4]):
        i = np.array(values)
        for _ in range(3):
            np.testing.assert_array_equal(own.run(i)[0], i * i)


def test_types_of_arrays_that_were_pickled():
    """They are equal to NumPy's own, but others."""
    own = ggml.onnx.load(model([node("Add", ["x", "x"], ["y"])], {"x": np.arange(3)}))
    other = pickle.loads(pickle.dumps(np.arange(3)))
    for first, second in ((np.arange(3), other), (other, np.arange(3))):
        own.run(first)
        np.testing.assert_array_equal(repeated(own, second)[0], 2 * second)
        assert own.repeat((second.astype(np.int32),)) is None


def test_values_that_decide_a_shape():
    made = model([node("Tile", ["x", "n"], ["y"])], {"x": floats(3), "n": np.array([2])})
    own, x = ggml.onnx.load(made, threads=1), floats(3)
    for n in (2, 2, 3, 3, 2, 1):
        np.testing.assert_array_equal(own.run(x, np.array([n]))[0], np.tile(x, n))


def test_a_step_on_the_host():
    """Results belong to the caller, also where they are the step's operand, and NumPy's warnings are off."""
    attrs = {"keys_floats": [1.0, 2.0], "values_int64s": [10, 20], "default_int64": -1}
    nodes = [node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **attrs)]
    made = model(nodes, {"x": floats(4)}, domains=[("ai.onnx.ml", 2)])
    own = ggml.onnx.load(made, threads=1)
    own.run(floats(4))
    for values, want in (([1, 2, 3, 1], [10, 20, -1, 10]), ([np.nan, 2, np.inf, 1], [-1, 20, -1, 10])):
        np.testing.assert_array_equal(repeated(own, np.array(values, np.float32))[0], want)
    first, second = repeated(own, floats(4)), repeated(own, floats(4))
    assert not np.shares_memory(first[0], second[0])


def test_outputs_that_are_inputs_or_constants():
    nodes = [node("Identity", ["x"], ["y"]), node("Identity", ["k"], ["z"]), node("Neg", ["x"], ["n"])]
    own, x = ggml.onnx.load(model(nodes, {"x": floats(3)}, "yzn", {"k": np.float32([1, 2])})), floats(3)
    for _ in range(3):
        y, z, n = own.run(x)
        np.testing.assert_array_equal(n, -x)
        np.testing.assert_array_equal(z, [1, 2])
        assert not np.shares_memory(x, y)
        y[...] = z[...] = 7


def test_parameters_start_anew():
    own = ggml.onnx.load(model([node("Mul", ["x", "w"], ["y"])], {"x": floats(3)}, constants={"w": floats(3)}))
    x = floats(3)
    for _ in range(3):
        own.run(x)
    weights = own.parameters()["w"]
    weights[...] = 2
    for factor in (2, 3):
        weights[...] = factor
        np.testing.assert_allclose(own.run(x)[0], factor * x, rtol=1e-6)


def test_some_outputs_only(sums):
    x, z = floats(3, 5), floats(5)
    sums.run(x, z)
    np.testing.assert_array_equal(sums.run(x, z, outputs="less")[0], x < z)
    assert sums.run(x, z, outputs=[]) == []
    check(repeated(sums, x, z), x, z)


def test_a_change_of_type():
    """An input of open type has another plan for each type."""
    made = model([node("Add", ["x", "x"], ["y"])], {"x": floats(3)})
    made.graph.input[0].CopyFrom(helper.make_empty_tensor_value_info("x"))
    own = ggml.onnx.load(made)
    for x in (floats(3), floats(3), np.arange(3), np.arange(3), np.arange(3.0), floats(3)):
        found = own.run(x)[0]
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, 2 * x)


def test_results_without_elements():
    nodes = [node("Cast", ["x"], ["long"], to=TensorProto.INT64), node("Sqrt", ["x"], ["y"])]
    made = model(nodes, {"x": floats(3, 5)}, ["long", "y"])
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    own = ggml.onnx.load(made, threads=1)
    for rows in (0, 0, 2, 0):
        long, y = own.run(np.abs(floats(rows, 5)))
        assert long.shape == y.shape == (rows, 5) and long.dtype == np.int64


def test_outputs_that_an_operator_does_not_give():
    domain, attrs = "ai.onnx.ml", {"cats_strings": ["a", "b"]}
    nodes = [node("OneHotEncoder", ["x"], ["y", "z"], domain=domain, **attrs)]
    made = model(nodes, {"x": []}, ["y", "z"], domains=[(domain, 3)])
    made.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.STRING, [None]))
    own = ggml.onnx.load(made)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="it has 2 outputs, the operator gives 1"):
            own.run(np.array(["b"], object))
