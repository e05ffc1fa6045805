"""Operands of sizes that are seen for the first time: a graph that has been recorded is built again."""

import operator
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

import one_operator  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.helper import make_node as node  # noqa: E402

import ggml.onnx  # noqa: E402
from ggml.onnx import program, sizes  # noqa: E402
from ggml.onnx.sizes import Size, Terms, UnrecordedError  # noqa: E402

DICE = np.random.default_rng(0)


def model_of(nodes, inputs, constants, opset=18):
    """A model whose inputs have a type and a number of dimensions; the last node gives its output."""
    infos = [helper.make_tensor_value_info(n, t, [None] * rank) for n, (t, rank) in inputs.items()]
    output = onnx.ValueInfoProto(name=nodes[-1].output[0])
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "graph", infos, [output], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return made.SerializeToString()


def weights(*shape):
    return DICE.standard_normal(shape).astype(np.float32)


def transformer():
    """Words and their places, attention with a causal mask and one of the padding, and what exporters put around it."""
    constants = {
        "words": weights(50, 16),
        "places": np.arange(64)[None],
        "place": weights(64, 16),
        "wq": weights(16, 16),
        "wk": weights(16, 16),
        "zero": np.array([0]),
        "one": np.array([1]),
        "two": np.array([2]),
        "i0": np.array(0),
        "i1": np.array(1),
        "heads": np.array([4]),
        "width": np.array([4]),
        "least": np.float32(-np.inf),
        "axes": np.array([0, 1]),
        "last": np.array([16]),
    }
    nodes = [
        node("Shape", ["ids"], ["shape"]),
        node("Gather", ["shape", "i0"], ["batch0"]),
        node("Gather", ["shape", "i1"], ["n0"]),
        node("Unsqueeze", ["batch0", "zero"], ["batch"]),
        node("Unsqueeze", ["n0", "zero"], ["n"]),
        node("Slice", ["places", "zero", "n", "one"], ["where"]),
        node("Gather", ["place", "where"], ["p"]),
        node("Gather", ["words", "ids"], ["w"]),
        node("Add", ["w", "p"], ["x"]),
        node("MatMul", ["x", "wq"], ["q0"]),
        node("MatMul", ["x", "wk"], ["k0"]),
        node("Concat", ["batch", "n", "heads", "width"], ["split"], axis=0),
        node("Reshape", ["q0", "split"], ["q1"]),
        node("Reshape", ["k0", "split"], ["k1"]),
        node("Transpose", ["q1"], ["q"], perm=[0, 2, 1, 3]),
        node("Transpose", ["k1"], ["k"], perm=[0, 2, 3, 1]),
        node("MatMul", ["q", "k"], ["scores"]),
        node("Range", ["i0", "n0", "i1"], ["row"]),
        node("Unsqueeze", ["row", "one"], ["column"]),
        node("LessOrEqual", ["row", "column"], ["past"]),
        node("Unsqueeze", ["mask", "one"], ["m1"]),
        node("Unsqueeze", ["m1", "two"], ["m2"]),
        node("Cast", ["m2"], ["real"], to=TensorProto.BOOL),
        node("And", ["past", "real"], ["seen"]),
        node("Where", ["seen", "scores", "least"], ["masked"]),
        node("Softmax", ["masked"], ["attention"], axis=-1),
        node("MatMul", ["attention", "q"], ["mixed"]),
        node("Transpose", ["mixed"], ["joined"], perm=[0, 2, 1, 3]),
        node("Concat", ["batch", "n", "last"], ["flat"], axis=0),
        node("Reshape", ["joined", "flat"], ["z"]),
        node("Tanh", ["z"], ["y"]),
    ]
    return model_of(nodes, {"ids": (TensorProto.INT64, 2), "mask": (TensorProto.INT64, 2)}, constants)


def pictures():
    """Convolutions, pools, a larger picture, parts of pictures, and norms."""
    constants = {
        "w": weights(4, 3, 3, 3),
        "v": weights(4, 4, 1, 1),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "zero": np.array([0, 0]),
        "cut": np.array([-1, -2]),
        "axes": np.array([2, 3]),
        "flat": np.array([0, -1]),
    }
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["c", "v"], ["d"]),
        node(
            "Resize",
            ["d", "", "scales"],
            ["e"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        node("AveragePool", ["e"], ["f"], kernel_shape=[2, 2], strides=[1, 1]),
        node("Slice", ["f", "zero", "cut", "axes"], ["g"]),
        node("GlobalAveragePool", ["g"], ["h"]),
        node("Sub", ["g", "h"], ["i"]),
        node("Reshape", ["i", "flat"], ["y"]),
    ]
    return model_of(nodes, {"x": (TensorProto.FLOAT, 4)}, constants)


def texts(n, batch=1):
    mask = np.ones((batch, n), np.int64)
    mask[:, n - n // 3 :] = 0
    return {"ids": DICE.integers(0, 50, (batch, n)), "mask": mask}


@pytest.fixture
def lowered(monkeypatch):
    """A list that grows with each program that is lowered."""
    found, plan = [], program.Lowering.plan

    def counting(self):
        found.append(self)
        return plan(self)

    monkeypatch.setattr(program.Lowering, "plan", counting)
    return found


def agree(data, operands, lowered):
    """How often a model was lowered for operands one after the other; a fresh model computes the same for each."""
    model, times = ggml.onnx.load(data, threads=1), 0
    for feeds in operands:
        before = len(lowered)
        results = model.run(feeds)
        times += len(lowered) - before
        for mine, fresh in zip(results, ggml.onnx.load(data, threads=1).run(feeds)):
            assert mine.dtype == fresh.dtype and mine.shape == fresh.shape
            assert mine.tobytes() == fresh.tobytes()
        np.testing.assert_array_equal(model.run(feeds)[0], results[0])
    return times


def test_lengths(lowered):
    assert agree(transformer(), [texts(n) for n in (5, 7, 8, 9, 12, 20, 33, 6)], lowered) == 2


def test_lengths_and_batches(lowered):
    """A batch of another size is another pattern, which is recorded too."""
    sizes_ = [(5, 2), (7, 2), (9, 3), (11, 4), (6, 5), (9, 9), (13, 2), (1, 1), (2, 1)]
    assert agree(transformer(), [texts(*s) for s in sizes_], lowered) <= 7


def test_pictures(lowered):
    shapes = [(8, 8), (10, 12), (12, 10), (9, 7), (16, 16), (31, 20), (6, 40), (40, 6), (17, 18), (18, 17)]
    operands = [{"x": weights(2, 3, *s)} for s in shapes]
    assert agree(pictures(), operands, lowered) <= 7


def test_names_and_report(lowered):
    model = ggml.onnx.load(transformer(), threads=1)
    graphs = [model.graph(texts(n)) for n in (5, 6, 7)]
    assert len(lowered) == 2
    names = [[ggml.ggml_graph_node(g, i).contents.name for i in range(ggml.ggml_graph_n_nodes(g))] for g in graphs]
    assert names[1] == names[2] and any(names[2])
    assert model.report(texts(8)) == model.report(texts(9))


def test_dropped_plans(lowered):
    """Plans that were dropped leave recipes that work."""
    data = transformer()
    model = ggml.onnx.load(data, threads=1)
    for n in range(2, 50):
        model.run(texts(n))
    assert len(model.program.plans) == program.PLANS and len(lowered) == 2
    again, fresh = texts(3), ggml.onnx.load(data, threads=1)
    np.testing.assert_array_equal(model.run(again)[0], fresh.run(again)[0])


def test_conditions(lowered):
    """A convolution of few places is computed in another way, and so are recurrent networks of many rows."""
    data = model_of([node("Conv", ["x", "w"], ["y"])], {"x": (TensorProto.FLOAT, 4)}, {"w": weights(5, 2, 3, 3)})
    agree(data, [{"x": weights(1, 2, 3, n)} for n in (5, 6, 8, 12, 10, 11, 13, 30, 4)], lowered)
    agree(data, [{"x": weights(9, 2, 3, n)} for n in (3, 4, 5, 30)], lowered)
    assert agree(data, [{"x": weights(n, 2, 3, 3)} for n in (9, 10, 12, 30)], lowered) == 2
    constants = {"w": weights(1, 12, 3), "r": weights(1, 12, 3)}
    data = model_of([node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3)], {"x": (TensorProto.FLOAT, 3)}, constants)
    agree(data, [{"x": weights(3, n, 3)} for n in (3, 4, 5, 2, 9)], lowered)
    agree(data, [{"x": weights(n, 9, 3)} for n in (3, 4, 5, 2)], lowered)


def test_steps(lowered):
    """A recurrent network of one sequence is one node; its number of steps is also an operand."""
    constants = {"w": weights(2, 9, 3), "r": weights(2, 9, 3)}
    attrs = {"hidden_size": 3, "direction": "bidirectional"}
    nodes = [node("GRU", ["x", "w", "r", "", "n"], ["s"], **attrs), node("Sin", ["s"], ["y"])]
    data = model_of(nodes, {"x": (TensorProto.FLOAT, 3), "n": (TensorProto.INT32, 1)}, constants)
    operands = [{"x": weights(n, 1, 3), "n": np.array([n], np.int32)} for n in (3, 4, 5, 2, 11, 30)]
    assert agree(data, operands, lowered) <= 3


def test_ranks():
    """Operands may have another number of dimensions, or none."""
    made = onnx.load_from_string(model_of([node("Tanh", ["x"], ["y"])], {"x": (TensorProto.FLOAT, 2)}, {}))
    made.graph.input[0].type.tensor_type.ClearField("shape")
    model = ggml.onnx.load(made)
    for shape in ((2, 3), (2, 4), (2, 5), (2,), (2, 5, 3), (), (2, 7), (3, 4, 5), (3, 4, 6), (3, 4, 7), (0, 7), (2, 0)):
        x = np.asarray(weights(*shape), np.float32)
        np.testing.assert_allclose(model.run(x)[0], np.tanh(x), rtol=1e-5, atol=1e-7)


def test_values_that_decide(lowered):
    """NonZero ends a plan; the nodes behind it are another program."""
    nodes = [node("NonZero", ["x"], ["i"]), node("Transpose", ["i"], ["t"]), node("GatherND", ["x", "t"], ["y"])]
    data = model_of(nodes, {"x": (TensorProto.FLOAT, 2)}, {})
    agree(data, [{"x": weights(n, 3)} for n in (2, 3, 4, 5)], lowered)


def test_values_that_cross_the_end_of_a_plan(lowered):
    """Numbers and arrays that depend on sizes are computed before NonZero, and used behind it, and so is an operand."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "i0"], ["n"]),
        node("ReduceProd", ["shape"], ["many"], keepdims=0),
        node("Range", ["i0", "many", "i1"], ["places"]),
        node("Cast", ["places"], ["numbers"], to=TensorProto.FLOAT),
        node("Sin", ["numbers"], ["waves"]),
        node("Tanh", ["x"], ["t"]),
        node("NonZero", ["t"], ["i"]),
        node("Transpose", ["i"], ["at"]),
        node("GatherND", ["x", "at"], ["found"]),
        node("Mul", ["found", "waves"], ["m"]),
        node("Unsqueeze", ["n", "zero"], ["rows"]),
        node("Concat", ["rows", "minus"], ["size"], axis=0),
        node("Reshape", ["m", "size"], ["z"]),
        node("Add", ["z", "t"], ["y"]),
    ]
    constants = {"i0": np.array(0), "i1": np.array(1), "zero": np.array([0]), "minus": np.array([-1])}
    data = model_of(nodes, {"x": (TensorProto.FLOAT, 2)}, constants)
    times = agree(data, [{"x": weights(n, 3)} for n in (2, 3, 4, 5, 9, 40, 7)], lowered)
    assert times < 14  # those of two programs, for each length
    model = ggml.onnx.load(data)
    for n in (2, 3, 4, 5, 9):
        x = weights(n, 3)
        want = x * np.sin(np.arange(3 * n)).reshape(n, 3) + np.tanh(x)
        np.testing.assert_allclose(model.run(x)[0], want, atol=1e-5)


def recurrent_loop():
    """A recurrent network from a framework that writes it as a Loop, once forward and once backward, and a head."""
    body = helper.make_graph(
        [
            node("Gather", ["rows", "k"], ["row"]),
            node("MatMul", ["row", "w"], ["a"]),
            node("MatMul", ["h", "r"], ["b"]),
            node("Add", ["a", "b"], ["c"]),
            node("Tanh", ["c"], ["next"]),
            node("Add", ["k", "i1"], ["later"]),
            node("Less", ["later", "n"], ["again"]),
            node("Identity", ["next"], ["scan"]),
        ],
        "body",
        [
            helper.make_tensor_value_info(name, kind, None)
            for name, kind in (
                ("i", TensorProto.INT64),
                ("go", TensorProto.BOOL),
                ("k", TensorProto.INT64),
                ("h", TensorProto.FLOAT),
            )
        ],
        [onnx.ValueInfoProto(name=n) for n in ("again", "later", "next", "scan")],
    )
    other = helper.make_graph(
        [node("Gather", ["back", "k"], ["row"]), *list(body.node)[1:]], "other", list(body.input), list(body.output)
    )
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "i0"], ["n"]),
        node("Gather", ["shape", "i0b"], ["n1"]),
        node("Tanh", ["x"], ["rows"]),
        node("Loop", ["", "", "i0", "h0"], ["", "", "all"], body=body),
        node("ReverseSequence", ["all", "n1"], ["back"], time_axis=0, batch_axis=1),
        node("Loop", ["", "", "i0", "h0"], ["", "last", "more"], body=other),
        node("Concat", ["n1", "minus"], ["flat"], axis=0),
        node("Reshape", ["more", "flat"], ["f"]),
        node("Mul", ["f", "last"], ["y"]),
    ]
    constants = {"w": weights(8, 8), "r": 0.1 * weights(8, 8), "h0": weights(1, 8), "minus": np.array([-1])}
    constants |= {"i0": np.array(0), "i1": np.array(1), "i0b": np.array([0])}
    return model_of(nodes, {"x": (TensorProto.FLOAT, 3)}, constants)


def test_plans_that_end(lowered):
    """Loops end plans; those before and behind them, and their bodies, are recorded as well."""
    agree(recurrent_loop(), [{"x": weights(n, 1, 8)} for n in (70, 71, 72, 73, 74)], lowered)
    model = ggml.onnx.load(recurrent_loop(), threads=1)
    for n in (70, 71, 72, 73, 74, 75, 76):
        model.run(weights(n, 1, 8))
    before = len(lowered)
    for n in (80, 90, 69, 200):
        model.run(weights(n, 1, 8))
    assert len(lowered) == before


def test_pools_whose_padding_depends_on_sizes(lowered):
    node_ = node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[0, 0, 1, 1], strides=[1, 1])
    data = model_of([node_], {"x": (TensorProto.FLOAT, 4)}, {})
    assert agree(data, [{"x": weights(1, 2, 8, n)} for n in (4, 8, 12, 9, 30)], lowered) == 2


def test_wrong_sizes():
    """An error is that of a model that has seen no other sizes."""
    data = model_of([node("Add", ["x", "z"], ["y"])], {"x": (TensorProto.FLOAT, 1), "z": (TensorProto.FLOAT, 1)}, {})
    model = ggml.onnx.load(data)
    for n in (3, 4, 5):
        model.run(weights(n), weights(n))
    with pytest.raises(ValueError) as error:
        model.run(weights(6), weights(7))
    with pytest.raises(ValueError) as fresh:
        ggml.onnx.load(data).run(weights(6), weights(7))
    assert str(error.value) == str(fresh.value)
    assert model.run(weights(8), np.ones(1, np.float32))[0].shape == (8,)


BINARY = [getattr(operator, n) for n in "add sub mul floordiv mod eq ne lt le gt ge".split()]


def test_arithmetic_of_sizes():
    """Random expressions of sizes have the values of integers, again for other numbers where the conditions hold."""
    for seed in range(300):
        dice = np.random.default_rng(seed)
        steps = [(BINARY[dice.integers(5)], *dice.integers(0, 6, 2), dice.integers(3)) for _ in range(8)]
        compared = [(BINARY[5 + dice.integers(6)], *dice.integers(0, 8, 2)) for _ in range(3)]

        def expression(values, steps=steps, compared=compared):
            found = [*values, 3, 1, 0]
            for function, a, b, kind in steps:
                x, y = found[a], found[b]
                found.append(function(x, y) if kind else function(int(y) if type(y) is int else y, x))
            return found, [bool(function(found[a], found[b])) for function, a, b in compared]

        numbers = [int(n) for n in dice.integers(1, 20, 3)]
        terms = Terms(numbers)
        try:
            found, outcomes = expression([Size(terms, i, n) for i, n in enumerate(numbers)])
        except ZeroDivisionError:
            continue
        assert ([sizes.int_of(f) for f in found], outcomes) == expression(numbers)
        for _ in range(5):
            other = [int(n) for n in dice.integers(1, 20, 3)]
            values = terms.arithmetic()(other)
            if values is None:
                continue
            expected, same = expression(other)
            assert [values[f.place] if type(f) is Size else f for f in found] == expected and same == outcomes


def test_values_of_sizes():
    """The value of a size is not there for rules; that of a result of arithmetic becomes a condition."""
    terms = Terms([6])
    size = Size(terms, 0, 6)
    for function in (int, operator.index, float, range, np.arange, lambda n: np.zeros((2, n)), hash):
        with pytest.raises((UnrecordedError, TypeError)):
            function(size)
    assert int(size // 4) == 1 and size == size and not size != size and size + 0 is size and 1 * size is size
    found = terms.arithmetic()
    assert found([7]) and found([8]) is None
    assert np.int64(3) * size == 18 and repr(size) == "6"


def test_rules_pass_a_context():
    """Functions of ggml that a rule calls get the context, which may be a recorder; else they are in this list."""
    allowed = {"ggml_blck_size", "ggml_quantize_chunk", "ggml_get_data", "ggml_flash_attn_ext_add_sinks"}
    folder = Path(program.__file__).parent / "rules"
    for path in folder.glob("*.py"):
        for name, first in re.findall(r"ggml\.(?:ext\.)?(\w+)\(\s*([\w.]+)", path.read_text("utf-8")):
            assert first in ("b.ctx", "ctx", "self.ctx", "arena.ctx") or name in allowed, (path.name, name, first)


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("op", ["Hardmax", "Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_operators_of_other_sizes(op, axis, opset):
    x = (weights(3, 4, 5),)
    made, _ = one_operator.model_of(op, x, 1, domain="", axis=axis)
    made.opset_import[0].version = opset
    assert one_operator.other_sizes(made, x) == 12
