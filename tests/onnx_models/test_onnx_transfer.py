"""Large operands are not copied, nor are large results where a graph has few nodes."""

import gc
import tracemalloc
import warnings

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402
from onnx.helper import make_node as node  # noqa: E402
from small_onnx import model as model_of  # noqa: E402

import ggml  # noqa: E402
import ggml.onnx  # noqa: E402
from ggml.onnx import transfer  # noqa: E402

SHAPE = (3, 200, 256)


def values(seed=0):
    return np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)


def squares(nodes=(), outputs=(), constants=()):
    """y = x * x + x, and the outputs of further nodes."""
    nodes = [node("Mul", ["x", "x"], ["s"]), node("Add", ["s", "x"], ["y"]), *nodes]
    return ggml.onnx.load(model_of(nodes, {"x": values()}, ("y", *outputs), constants), threads=1)


def moving(model, x):
    """Whether operands and results of a model's plan move."""
    plan = model.program.plan([x])
    return all(p.moves for p in (*plan.transfer.feeds, *plan.transfer.results))


def test_results_are_the_callers():
    model, arrays = squares(), [values(seed) for seed in range(5)]
    kept = [model.run(x)[0] for x in arrays]
    assert moving(model, arrays[0])
    for i, (x, y) in enumerate(zip(arrays, kept)):
        np.testing.assert_array_equal(y, x * x + x)
        assert not any(np.shares_memory(y, other) for other in [*arrays, *kept[:i]])
        assert y.flags.writeable and y.flags.c_contiguous
    for x in arrays:
        x[...] = 0
    kept[0][...] = 5
    assert (model.run(values(7))[0] != 5).any() and (kept[0] == 5).all()


@pytest.mark.skipif(not transfer.COUNTS, reason="references are not counted exactly without a GIL")
def test_memory_is_used_again():
    model, x = squares(), values()
    part = model.run(x)[0][1:, ::2]  # keeps the whole array
    copy = part.copy()
    first = model.run(x)[0].ctypes.data
    assert model.run(x)[0].ctypes.data == first
    np.testing.assert_array_equal(part, copy)
    del part
    tracemalloc.start()
    try:
        for _ in range(20):
            y = model.run(x)[0]
        del y
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 3 * x.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not transfer.COUNTS, reason="references are not counted exactly without a GIL")
def test_sizes_share_memory():
    nodes = [node("Mul", ["x", "x"], ["s"]), node("Add", ["s", "x"], ["y"])]
    model = ggml.onnx.load(model_of(nodes, {"x": []}), threads=1)
    x, found, kept = np.random.default_rng(0).normal(size=(7, 20000)).astype(np.float32), set(), []
    for n in (2, 3, 4, 5, 6, 5, 2):
        found.add(model.run(x[:n])[0].ctypes.data)
    assert len(found) == 2  # when the second size is larger than the first, the new memory suffices for the others
    for n in (4, 5, 4, 6, 7, 1):
        kept.append(model.run(x[:n])[0])
        for i, y in enumerate(kept):
            np.testing.assert_array_equal(y, x[: len(y)] * x[: len(y)] + x[: len(y)])
            assert not any(np.shares_memory(y, other) for other in kept[:i])


def unaligned(x):
    memory = np.zeros(x.nbytes + 1, np.uint8)
    y = memory[1:].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


def read_only(x):
    y = x.copy()
    y.flags.writeable = False
    return y


LAYOUTS = {
    "as it is": lambda x: x,
    "read-only": read_only,
    "unaligned": unaligned,
    "in another order": np.asfortranarray,
    "every second": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "a list": lambda x: [list(v) for v in x],
}


def test_layouts_of_operands():
    model, x = squares(), values()
    want = x * x + x
    for name in [*LAYOUTS, *reversed(LAYOUTS)]:
        given = LAYOUTS[name](x)
        np.testing.assert_array_equal(model.run(given)[0], want, err_msg=name)
        del given
        gc.collect()


def test_views_of_an_operand_move_along():
    nodes = [
        node("Reshape", ["x", "flat"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[1, 0]),
        node("Slice", ["x", "from", "to", "axis"], ["part"]),
    ]
    constants = {"flat": np.array([-1, SHAPE[2]]), "from": np.array([1]), "to": np.array([3]), "axis": np.array([0])}
    model = squares(nodes, ("t", "part"), constants)
    for seed in range(3):
        x = values(seed)
        y, t, part = model.run(x)
        assert moving(model, x)
        np.testing.assert_array_equal(y, x * x + x)
        np.testing.assert_array_equal(t, x.reshape(-1, SHAPE[2]).T)
        np.testing.assert_array_equal(part, x[1:3])
        assert not np.shares_memory(t, x) and not np.shares_memory(part, x)


@pytest.mark.parametrize(("elements", "together"), [(30000, True), (17000, True), (10000, False)])
def test_sizes_count_together(elements, together):
    """Four nodes: what is not copied has 160,000 bytes or more in all, and an array 65,536."""
    arrays = {n: np.random.default_rng(i).normal(size=elements).astype(np.float32) for i, n in enumerate("ab")}
    nodes = [node("Mul", ["a", "b"], ["s"])]
    nodes += [node("Sin", [old], [new]) for old, new in zip(("s", "t", "u"), ("t", "u", "y"))]
    model = ggml.onnx.load(model_of(nodes, arrays, ("y",), {}), threads=1)
    want = np.sin(np.sin(np.sin(arrays["a"].astype(float) * arrays["b"])))
    for _ in range(3):
        np.testing.assert_allclose(model.run(*arrays.values())[0], want, atol=1e-5)
    plan = model.program.plan(list(arrays.values()))
    assert {p.moves for p in (*plan.transfer.feeds, *plan.transfer.results)} == {together}


def test_operands_of_many_nodes():
    """Results are copied, the operand is read where it is."""
    names = [f"t{i}" for i in range(60)]
    nodes = [node("Sin", [a], [b]) for a, b in zip(["x", *names], names)]
    nodes += [
        node("Add", [names[-1], "x"], ["y"]),
        node("Transpose", ["x"], ["t"], perm=[2, 0, 1]),
        node("Slice", ["x", "from", "to", "axis"], ["part"]),
    ]
    constants = {"from": np.array([1]), "to": np.array([3]), "axis": np.array([0])}
    model = ggml.onnx.load(model_of(nodes, {"x": values()}, ("y", "t", "part"), constants), threads=1)
    for seed, name in enumerate([*LAYOUTS, *reversed(LAYOUTS), "as it is", "as it is"]):
        x = values(seed)
        want = x.astype(float)
        for _ in names:
            want = np.sin(want)
        y, t, part = model.run(LAYOUTS[name](x))
        np.testing.assert_allclose(y, want + x, atol=1e-4, err_msg=name)
        np.testing.assert_array_equal(t, x.transpose(2, 0, 1), err_msg=name)
        np.testing.assert_array_equal(part, x[1:3], err_msg=name)
    plan = model.program.plan([x])
    assert [f.moves for f in plan.transfer.feeds] == [True] and not any(r.moves for r in plan.transfer.results)


def test_results_of_one_tensor_are_apart():
    nodes = [node("Identity", ["y"], ["same"]), node("Reshape", ["y", "flat"], ["long"])]
    model = squares(nodes, ("same", "long"), {"flat": np.array([-1])})
    x = values()
    for _ in range(2):
        y, same, long = model.run(x)
        assert not (np.shares_memory(y, same) or np.shares_memory(y, long) or np.shares_memory(same, long))
        np.testing.assert_array_equal(long.reshape(SHAPE), y)
        np.testing.assert_array_equal(same, y)


def test_the_graph_has_its_own_memory():
    model, x = squares(), values()
    y = model.run(x)[0]
    graph = model.graph(x)
    kept = y.copy()
    x[...] = 3
    backend = ggml.ggml_backend_cpu_init()
    assert ggml.ggml_backend_graph_compute(backend, graph) == ggml.GGML_STATUS_SUCCESS
    ggml.ggml_backend_free(backend)
    np.testing.assert_array_equal(y, kept)
    np.testing.assert_array_equal(model.run(x)[0], x * x + x)
    np.testing.assert_array_equal(y, kept)


@pytest.mark.parametrize("kind", [getattr(TensorProto, n) for n in ("BOOL", "INT64", "FLOAT16", "DOUBLE", "UINT8")])
def test_results_of_other_types(kind):
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    x = np.abs(values()) * 3
    x[0, :2, :2] = [[0, -0.0], [1, 2]]
    model = squares([node("Cast", ["x"], ["z"], to=kind)], ["z"])
    for _ in range(3):
        z = model.run(x)[1]
        assert z.dtype == dtype
        np.testing.assert_array_equal(z, x.astype(dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_and_results_of_half_precision(layout):
    x = np.resize(np.arange(1 << 16, dtype=np.uint16).view(np.float16), (4, 128, 130))  # every half
    model = ggml.onnx.load(model_of([node("Neg", ["x"], ["y"])], {"x": x}), threads=1)
    for _ in range(3):
        (y,) = model.run(LAYOUTS[layout](x))
        assert y.dtype == np.float16
        np.testing.assert_array_equal(y, -x)


@pytest.mark.parametrize("size", [4, 40000])
def test_conversions_do_not_warn(size):
    x = np.resize(np.float32([np.nan, np.inf, 1e9, 3]), size)
    nodes = [node("Cast", ["x"], [k], to=getattr(TensorProto, k)) for k in ("FLOAT16", "UINT8", "INT16", "INT64")]
    model = ggml.onnx.load(model_of(nodes, {"x": x}, [n.output[0] for n in nodes]), threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [model.run(x) for _ in range(4)]
    for results in found:
        assert [y.dtype.itemsize for y in results] == [2, 1, 2, 8]
        for y, first in zip(results, found[0]):
            np.testing.assert_array_equal(y, first)
            assert y[3] == 3


def test_operands_that_are_results():
    model, x = squares(), values() / 10
    want = x
    for _ in range(4):
        x, want = model.run(x)[0], want * want + want
    np.testing.assert_allclose(x, want, rtol=1e-5, atol=1e-6)


def test_a_failed_call_loses_nothing():
    model, x = squares(), values()
    y = model.run(x)[0]
    with pytest.raises(ValueError, match=r"Model\.run: input 'x' is"):
        model.run(x[:2])
    np.testing.assert_array_equal(model.run(x)[0], y)
