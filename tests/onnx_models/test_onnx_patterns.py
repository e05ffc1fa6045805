"""The table of patterns: each finds its nodes, gives what they give, and stands back where shapes or types differ."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")  # part of the [test] extra; not installed on emulated CPUs

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import ggml.onnx  # noqa: E402
from ggml.onnx.patterns import PATTERNS  # noqa: E402

F32, F64 = TensorProto.FLOAT, TensorProto.DOUBLE
IMAGE = (1, 3, 6, 7)


def random(*shape, kind=np.float32):
    return np.random.default_rng(7).standard_normal(shape).astype(kind)


def model_of(lines, constants, shape, kind=F32, outputs=("y",), functions=()):
    """A model of lines "Op inputs -> outputs", with attributes behind them."""
    nodes = [helper.make_node(*parsed(line), **attrs) for line, attrs in lines]
    graph = helper.make_graph(
        nodes,
        "patterns",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(o, TensorProto.UNDEFINED, None) for o in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)


def parsed(line):
    left, right = line.split(" -> ")
    op, *inputs = left.split()
    return op, ["" if n == "_" else n for n in inputs], right.split()


def plain(*lines):
    return [(line, {}) for line in lines]


CONV = {"w": random(4, 3, 3, 3), "b": random(4), "s": np.abs(random(4)), "m": random(4), "v": np.abs(random(4))}
HALF, ONE, SIX, THREE, ZERO = (np.float32(v) for v in (0.5, 1, 6, 3, 0))
QUANTISED = {"sx": np.float32(0.02), "zx": np.uint8(120), "sw": np.float32(0.01), "zw": np.int8(0)}
BYTES = np.random.default_rng(0).integers(-9, 9, (4, 3, 3, 3)).astype(np.int8)
TABLE = random(5, 8)
SQUARES = ("Mul x x -> x2", "Mul x2 x -> x3", "Mul x3 k -> t", "Add x t -> u", "Mul u r -> g")

CASES = {  # name: lines, constants, shape of x, the operators that remain
    "numbers": (plain("Mul x h -> a", "Mul a t -> b", "Add b t -> y"), {"h": HALF, "t": THREE}, IMAGE, ["ggml.Line"]),
    "convolution, number": (
        [("Conv x w b -> a", {"pads": [1] * 4}), *plain("Mul a t -> c", "Sub c h -> y")],
        {**CONV, "t": THREE, "h": HALF},
        IMAGE,
        ["Conv"],
    ),
    "convolution, normalisation": (
        plain("Conv x w -> a", "BatchNormalization a s b m v -> c", "Relu c -> y"),
        CONV,
        IMAGE,
        ["Conv", "Relu"],
    ),
    "convolution, numbers of channels": (
        plain("Conv x w -> a", "Mul d a -> c", "Sub c e -> g", "Div g d -> h", "Add e h -> y"),
        {**CONV, "d": random(4, 1, 1) + 2, "e": random(1, 4, 1, 1)},
        IMAGE,
        ["Conv"],
    ),
    "convolution of a row": (
        [("Unsqueeze x p -> a", {}), ("Conv a w -> c", {}), ("Squeeze c p -> d", {})]
        + plain("Add d e -> g", "BatchNormalization g s b m v -> h", "Relu h -> y"),
        {**CONV, "w": random(4, 3, 1, 3), "e": random(1, 4, 1), "p": np.array([2])},
        (2, 3, 9),
        ["Unsqueeze", "Conv", "Relu"],
    ),
    "silu": (plain("Sigmoid x -> a", "Mul a x -> y"), {}, IMAGE, ["ggml.Line"]),
    "silu of a multiple": (plain("Mul x o -> a", "Sigmoid a -> b", "Mul x b -> y"), {"o": ONE}, IMAGE, ["ggml.Line"]),
    "silu between copies": (
        plain("Identity x -> a", "Sigmoid a -> b", "Dropout b half off -> c", "Mul a c -> d", "Identity d -> y"),
        {"half": HALF, "off": np.array(False)},
        IMAGE,
        ["ggml.Line", "Identity"],
    ),
    "hardswish": (
        plain("Add x t -> a", "Clip a z s -> b", "Div b s -> c", "Mul x c -> d", "Mul d h -> y"),
        {"t": THREE, "z": ZERO, "s": SIX, "h": HALF},
        IMAGE,
        ["ggml.Line"],
    ),
    "hardswish of HardSigmoid": (
        [("HardSigmoid x -> a", {"alpha": 1 / 6, "beta": 0.5}), *plain("Mul x a -> y")],
        {},
        IMAGE,
        ["ggml.Line"],
    ),
    "gelu": (
        plain("Div x q -> a", "Erf a -> b", "Add b o -> c", "Mul x c -> d", "Mul d h -> y"),
        {"q": np.float32(2**0.5), "o": ONE, "h": HALF},
        IMAGE,
        ["ggml.Line"],
    ),
    "gelu with tanh": (
        plain(*SQUARES, "Tanh g -> a", "Add a o -> b", "Mul x h -> c", "Mul c b -> y"),
        {"k": np.float32(0.044715), "r": np.float32((2 / np.pi) ** 0.5), "o": ONE, "h": HALF},
        IMAGE,
        ["ggml.Line"],
    ),
    "layer norm": (
        plain("ReduceMean x l -> m", "Sub x m -> d", "Pow d two -> q", "ReduceMean q l -> v", "Add v e -> w")
        + plain("Sqrt w -> r", "Div d r -> n", "Mul n s -> o", "Add o t -> y"),
        {"l": np.array([-1]), "two": np.float32(2), "e": np.float32(1e-5), "s": random(8), "t": random(8)},
        (2, 5, 8),
        ["ggml.Normalise", "Mul", "Add"],
    ),
    "layer norm of two axes whose difference is computed twice": (
        plain("ReduceMean x l -> m", "Sub x m -> d", "Sub x m -> k", "Mul d d -> q", "ReduceMean q l -> v")
        + plain("Add e v -> w", "Sqrt w -> r", "Div k r -> y"),
        {"l": np.array([-2, -1]), "e": np.array([0.3], np.float32)},
        (2, 5, 8),
        ["ggml.Normalise"],
    ),
    "root mean square": (
        plain("Pow x two -> q", "ReduceMean q l -> v", "Add v e -> w", "Sqrt w -> r", "Reciprocal r -> i")
        + plain("Mul x i -> n", "Mul s n -> y"),
        {"l": np.array([-1]), "two": np.float32(2), "e": np.float32(1e-5), "s": random(8)},
        (2, 5, 8),
        ["ggml.Normalise", "Mul"],
    ),
    "sum of squares": (
        plain("Pow x two -> q", "ReduceSum q l -> s", "Mul s s -> t", "ReduceSum t l -> y"),
        {"l": np.array([1]), "two": np.float32(2)},
        (3, 4),
        ["ReduceSumSquare", "ReduceSumSquare"],
    ),
    "attention": (
        [("Transpose x -> k", {"perm": [0, 1, 3, 2]}), *plain("Mul k h -> l", "MatMul x l -> a", "Div a t -> c")]
        + plain("Add m c -> d", "Softmax d -> p", "MatMul p x -> y"),
        {"h": HALF, "t": THREE, "m": random(3, 1, 1, 5)},
        (3, 2, 5, 4),
        ["ggml.Attention"],
    ),
    "attention that hides keys": (
        [("Transpose x -> k", {"perm": [0, 2, 1]}), *plain("MatMul x k -> a", "Where m a low -> c", "Softmax c -> p")]
        + plain("IsNaN p -> n", "Where n z p -> o", "MatMul o x -> y"),
        {"m": np.tri(5) > 0, "low": np.float32(-np.inf), "z": ZERO},
        (3, 5, 4),
        ["ggml.Attention"],
    ),
    "rows": (
        [("Cast x -> i", {"to": TensorProto.INT64}), ("Unsqueeze i l -> j", {}), ("Expand j n -> k", {})]
        + [("Equal k p -> e", {}), ("Cast e -> f", {"to": F32}), ("MatMul f w -> y", {})],
        {"l": np.array([-1]), "n": np.array([2, 3, 5]), "p": np.arange(5), "w": TABLE},
        (2, 3),
        ["Cast", "Unsqueeze", "ggml.Lookup"],
    ),
    "bytes": (
        [("QuantizeLinear x sx zx -> q", {}), ("DequantizeLinear q sx zx -> f", {})]
        + [("DequantizeLinear w sw zw -> g", {}), ("Conv f g -> y", {"pads": [1] * 4})],
        {**QUANTISED, "w": BYTES},
        IMAGE,
        ["QuantizeLinear", "ggml.ByteConv"],
    ),
    "sums with a bias": (
        [("DynamicQuantizeLinear x -> q s z", {}), ("ConvInteger q w z -> i", {"pads": [1] * 4})]
        + [("Add i b -> j", {}), ("Cast j -> f", {"to": F32}), ("Mul f s -> y", {})],
        {"w": BYTES, "b": np.array([5, -6, 70, 8], np.int32).reshape(1, 4, 1, 1)},
        IMAGE,
        ["DynamicQuantizeLinear", "ConvInteger", "Cast", "Mul"],
    ),
    "a shape of entries": (
        [("Shape x -> s", {}), ("Gather s one -> d", {}), ("Cast d -> e", {"to": TensorProto.INT64})]
        + [("Unsqueeze e zero -> f", {}), ("Gather s last -> g", {}), ("Concat f four g -> h", {"axis": 0})]
        + [("Reshape x h -> y", {})],
        {"one": np.array(0), "zero": np.array([0]), "last": np.array([-1]), "four": np.array([2, 2])},
        (3, 4, 5),
        ["ggml.Dims", "Reshape"],
    ),
}


def operators(nodes):
    return [n.op for n in nodes]


@pytest.mark.parametrize("name", CASES)
def test_a_pattern_is_found_and_gives_what_its_nodes_give(name):
    lines, constants, shape, remain = CASES[name]
    proto = model_of(lines, constants, shape)
    model, x = ggml.onnx.load(proto, strict=True), random(*shape)
    if name == "rows":
        x = np.array([[0, 4, 2], [-1, 5, 3]], np.float32)  # two of them are rows of zeros
    assert operators(model.program.nodes) == remain
    assert {e.name for e in model.report(x)} <= {n.name for n in model.nodes}, "a report names the model's nodes"
    np.testing.assert_allclose(model.run(x)[0], ReferenceEvaluator(proto).run(None, {"x": x})[0], 2e-4, 2e-5)


def test_every_pattern_has_a_case():
    """Without a row of the table, a case has other nodes."""

    def nodes():
        programs = (ggml.onnx.load(model_of(*case[:3])).program for case in CASES.values())
        return [[(n.op, len(n.outputs)) for n in program.nodes] for program in programs]

    wanted, rows = nodes(), list(PATTERNS)
    try:
        for row in rows:
            PATTERNS[:] = [r for r in rows if r is not row]
            assert nodes() != wanted, f"no case needs {row.build.__name__}"
    finally:
        PATTERNS[:] = rows


UNLIKE = {  # name: what is changed in the layer norm, which is then none
    "another axis": ("Reduce", "ReduceMean q k -> v"),
    "another mean": ("ReduceMean x l", "ReduceMean x k -> m"),
    "another square": ("Pow", "Pow x two -> q"),
    "a cube": ("Pow", "Pow d three -> q"),
    "a divisor of its own": ("Sqrt", "Sqrt v -> r"),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_what_is_like_a_layer_norm(name):
    begin, line = UNLIKE[name]
    lines, constants, shape, _ = CASES["layer norm"]
    found = [i for i, (old, _) in enumerate(lines) if old.startswith(begin)][-1]
    lines = [*lines[:found], (line, {}), *lines[found + 1 :]]
    proto, x = model_of(lines, {**constants, "k": np.array([1]), "three": np.float32(3)}, shape), random(*shape)
    model = ggml.onnx.load(proto)
    assert "Sqrt" in operators(model.program.nodes) or name == "another mean"
    np.testing.assert_allclose(model.run(x)[0], ReferenceEvaluator(proto).run(None, {"x": x})[0], 2e-4, 2e-5)


UNFOLDED = {  # name: lines, constants, shape of x
    "a number for each column": (
        plain("Conv x w -> a", "Mul a d -> c", "Add c e -> y"),
        {"w": CONV["w"], "d": random(4), "e": random(1, 1, 4, 1)},
        IMAGE[:2] + (6, 6),
    ),
    "images of a higher rank": (
        plain("Conv x w -> a", "Add a e -> y"),
        {"w": CONV["w"], "e": random(2, 1, 4, 1, 1)},
        IMAGE,
    ),
    "a squeeze of channels": (
        [*plain("Conv x w -> a"), ("Squeeze a p -> c", {}), *plain("Mul c d -> e", "Add e d -> y")],
        {"w": random(1, 3, 1, 3), "p": np.array([1, 2]), "d": random(4)},
        (2, 3, 1, 6),
    ),
    "a second squeeze": (
        plain("Conv x w -> a", "Squeeze a p -> c", "Add c e -> d", "Squeeze d p -> g", "Add g k -> y"),
        {"w": CONV["w"], "e": random(1, 4, 1), "k": random(4), "p": np.array([2])},
        (2, 3, 3, 3),
    ),
    "sums that others read": (
        plain("Conv x w -> a", "Squeeze a p -> c", "Add c e -> d", "Mul c d -> y"),
        {"w": random(4, 3, 1, 3), "e": random(1, 4, 1), "p": np.array([2])},
        (2, 3, 1, 6),
    ),
}


@pytest.mark.parametrize("name", UNFOLDED)
def test_what_is_like_numbers_of_channels(name):
    """What differs from a constant for each channel, or is read twice, stays a node."""
    lines, constants, shape = UNFOLDED[name]
    proto, x = model_of(lines, constants, shape), random(*shape)
    model = ggml.onnx.load(proto)
    assert operators(model.program.nodes)[-1] == lines[-1][0].split()[0]
    np.testing.assert_allclose(model.run(x)[0], ReferenceEvaluator(proto).run(None, {"x": x})[0], 1e-5, 1e-6)


STAND_BACK = {  # name: lines, constants, x
    "silu of doubles": (plain("Sigmoid x -> a", "Mul a x -> y"), {}, random(3, 4, kind=np.float64)),
    "numbers of a higher rank": (
        plain("Mul x h -> a", "Mul a h -> y"),
        {"h": np.full((1, 1, 1), 3, np.float32)},
        random(4),
    ),
    "an index of several columns": (
        plain("Equal x p -> e") + [("Cast e -> f", {"to": F32}), ("MatMul f w -> y", {})],
        {"p": np.arange(5), "w": TABLE},
        np.array([[0, 1, 2, 3, 0]]),
    ),
    "a softmax over another axis": (
        [*plain("Transpose x -> k", "MatMul x k -> a"), ("Softmax a -> p", {"axis": 0}), *plain("MatMul p x -> y")],
        {},
        random(5, 4),
    ),
    "scores that a mask repeats": (
        plain("Transpose x -> k", "MatMul x k -> a", "Add a m -> b", "Softmax b -> p", "MatMul p x -> y"),
        {"m": random(2, 1, 5)},
        random(5, 4),
    ),
    "a scale of a higher rank": (
        plain("Transpose x -> k", "MatMul x k -> a", "Mul a h -> b", "Softmax b -> p", "MatMul p x -> y"),
        {"h": np.full((1, 1, 1), 0.3, np.float32)},
        random(5, 4),
    ),
    "keys of one head for all": (
        plain("Transpose k -> l", "MatMul x l -> a", "Softmax a -> p", "MatMul p k -> y"),
        {"k": random(6, 4)},
        random(3, 5, 4),
    ),
    "attention without keys": (
        plain("Transpose k -> l", "MatMul x l -> a", "Softmax a -> p", "MatMul p k -> y"),
        {"k": random(0, 4)},
        random(5, 4),
    ),
    "a sum that is no bias": (
        [("Cast x -> q", {"to": TensorProto.UINT8}), ("ConvInteger q w -> i", {"pads": [1] * 4})]
        + [("Add i b -> j", {}), ("Cast j -> y", {"to": F32})],
        {"w": BYTES, "b": np.arange(7, dtype=np.int32)},
        np.full(IMAGE, 3, np.float32),
    ),
}


@pytest.mark.parametrize("name", STAND_BACK)
def test_a_pattern_stands_back(name):
    """Shapes and types that patterns do not see: then the nodes of the model are lowered."""
    lines, constants, x = STAND_BACK[name]
    proto = model_of(lines, constants, x.shape, helper.np_dtype_to_tensor_dtype(x.dtype))
    model = ggml.onnx.load(proto)
    assert any(n.parts for n in model.program.nodes)
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    (found,) = model.run(x)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


def test_what_others_read_is_computed():
    """A part of a pattern that is an output, or has a second reader, has its value."""
    lines = plain("Conv x w b -> a", "Mul a t -> c", "Sigmoid c -> d", "Mul c d -> y", "Neg d -> z")
    proto = model_of(lines, {**CONV, "t": THREE}, IMAGE, outputs=("y", "a", "z"))
    x = random(*IMAGE)
    for found, wanted in zip(ggml.onnx.load(proto).run(x), ReferenceEvaluator(proto).run(None, {"x": x})):
        np.testing.assert_allclose(found, wanted, 2e-5, 2e-5)


def test_copies_that_branches_and_outputs_read():
    body = [helper.make_node("Add", ["a", "b"], ["r"])]
    branch = helper.make_graph(body, "branch", [], [helper.make_tensor_value_info("r", F32, None)])
    lines = [*plain("Identity x -> a", "Sigmoid x -> s", "Identity s -> b", "Mul b a -> m", "Identity m -> y")]
    step = helper.make_graph(
        [helper.make_node("Add", ["v", "a"], ["w"]), helper.make_node("Identity", ["go_in"], ["go_out"])],
        "step",
        [helper.make_tensor_value_info(*info) for info in (("i", 7, ()), ("go_in", 9, ()), ("v", F32, None))],
        [helper.make_tensor_value_info(*info) for info in (("go_out", 9, ()), ("w", F32, None))],
    )
    lines += [("Loop two go a -> u", {"body": step}), *plain("Neg u -> o")]
    lines += [("If go -> t", {"then_branch": branch, "else_branch": branch}), *plain("Identity t -> z")]
    proto = model_of(lines, {"go": np.array(True), "two": np.array(2)}, (3, 4), outputs=("y", "z", "o"))
    x = random(3, 4)
    for found, wanted in zip(ggml.onnx.load(proto).run(x), ReferenceEvaluator(proto).run(None, {"x": x})):
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


def test_patterns_in_functions_and_branches():
    body = [helper.make_node(*parsed(line)) for line in ("Sigmoid a -> s", "Mul a s -> b")]
    own = helper.make_function("own", "Gate", ["a"], ["b"], body, [helper.make_opsetid("", 21)])
    branch = helper.make_graph(
        [helper.make_node("Gate", ["x"], ["s"], domain="own"), *(helper.make_node(*parsed(t)) for t in SQUARES[:1])]
        + [helper.make_node("Sigmoid", ["x2"], ["a"]), helper.make_node("Mul", ["a", "x2"], ["c"])]
        + [helper.make_node("Add", ["c", "s"], ["r"])],
        "branch",
        [],
        [helper.make_tensor_value_info("r", F32, None)],
    )
    lines = [("Gate x -> s", {"domain": "own"}), ("If go -> t", {"then_branch": branch, "else_branch": branch})]
    proto = model_of([*lines, *plain("Add s t -> y")], {"go": np.array(True)}, (3, 4), functions=[own])
    model, x = ggml.onnx.load(proto), random(3, 4)
    np.testing.assert_allclose(model.run(x)[0], ReferenceEvaluator(proto).run(None, {"x": x})[0], 1e-5, 1e-6)
    graph = model.graph(x)
    names = [ggml.ggml_op_desc(ggml.ggml_graph_node(graph, i)).decode() for i in range(ggml.ggml_graph_n_nodes(graph))]
    assert names.count("SILU") == 3 and "SIGMOID" not in names
