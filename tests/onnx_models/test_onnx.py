"""ggml.onnx: import, lowering, plans, bad input, the backend interface and the command."""

import math
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")  # part of the [test] extra; not installed on emulated CPUs

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import ggml.onnx  # noqa: E402
from ggml._cli import main  # noqa: E402

F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, info = helper.make_node, helper.make_tensor_value_info


def model_of(nodes, inputs, outputs, constants=(), opset=22, **more):
    """A ModelProto; constants are pairs of a name and an array."""
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants]
    graph = helper.make_graph(nodes, "test", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset), *more.pop("opsets", [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)


def one(op, *shapes, out=None, kind=F, opset=22, **attrs):
    """A model of one node with inputs a, b, ..."""
    names = "abcdef"[: len(shapes)]
    inputs = [info(n, kind, s) for n, s in zip(names, shapes)]
    return model_of([node(op, list(names), ["y"], **attrs)], inputs, [info("y", out or kind, None)], opset=opset)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def places(model, *arrays):
    """Operator -> set of where its nodes ran."""
    found = {}
    for entry in model.report(*arrays):
        found.setdefault(entry.op, set()).add(entry.where)
    return found


def whole_pictures(x, w, strides, dilations, pads):
    """The convolution of planes, from its definition, in float64."""
    x = np.pad(x.astype(float), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    extent = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:])]
    size = [(n - e) // s + 1 for n, e, s in zip(x.shape[2:], extent, strides)]
    y = np.empty((len(x), len(w), *size))
    for i, j in np.ndindex(*size):
        top, left = i * strides[0], j * strides[1]
        part = x[:, :, top : top + extent[0] : dilations[0], left : left + extent[1] : dilations[1]]
        y[:, :, i, j] = np.einsum("ncij,mcij->nm", part, w)
    return y


# ---- Values ----------------------------------------------------------------------------------------------------------
def test_a_network_equals_the_reference():
    w, bias = floats(4, 3, 3, 3, seed=1), floats(4, seed=2)
    nodes = [
        node("Conv", ["x", "w", "bias"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c"], ["r"]),
        node("Shape", ["r"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Concat", ["n", "minus"], ["dims"], axis=0),
        node("Reshape", ["r", "dims"], ["flat"]),
        node("MatMul", ["flat", "m"], ["p"]),
        node("Softmax", ["p"], ["y"]),
    ]
    constants = [("w", w), ("bias", bias), ("zero", np.array([0])), ("minus", np.array([-1])), ("m", floats(64, 5))]
    proto = model_of(nodes, [info("x", F, ["n", 3, 8, 8])], [info("y", F, ["n", 5])], constants)
    model = ggml.onnx.load(proto, strict=True, threads=2)
    for n in (1, 3, 1):
        x = floats(n, 3, 8, 8, seed=n)
        (want,) = ReferenceEvaluator(proto).run(None, {"x": x})
        (got,) = model.run({"x": x})
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert len(model.program.plans) == 2
    assert places(model, x)["Shape"] == {"folded"} and places(model, x)["MatMul"] == {"graph"}


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "f16"])
def test_weights_are_stored_smaller(kind):
    m = floats(64, 32)
    proto = model_of([node("MatMul", ["x", "m"], ["y"])], [info("x", F, [2, 64])], [info("y", F, None)], [("m", m)])
    x = floats(2, 64, seed=3)
    (y,) = ggml.onnx.load(proto, weights=kind).run(x)
    error = np.abs(y - x @ m).max() / np.abs(x @ m).max()
    assert 0 < error < {"q8_0": 0.02, "q4_0": 0.2, "f16": 0.002}[kind]


def test_ranks_above_four_and_broadcasting():
    a, b = floats(2, 1, 3, 1, 2, 2), floats(3, 3, 5, 1, 2, seed=1)
    model = ggml.onnx.load(one("Add", a.shape, b.shape), strict=True)
    np.testing.assert_array_equal(model.run(a, b)[0], a + b)
    model = ggml.onnx.load(one("Transpose", a.shape, perm=[5, 2, 0, 4, 1, 3]), strict=True)
    np.testing.assert_array_equal(model.run(a)[0], a.transpose(5, 2, 0, 4, 1, 3))


def test_exclusive_sums_leave_out_the_entry_itself():
    x = np.array([1, 1e8, 3, np.inf, 2], np.float32)
    constants = [("axis", np.array(0))]
    for exclusive, reverse, want in ((1, 0, [0, 1, 1e8, 1e8, np.inf]), (1, 1, [np.inf, np.inf, np.inf, 2, 0]),
                                     (0, 1, [np.inf] * 4 + [2])):  # fmt: skip
        sums = node("CumSum", ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
        model = ggml.onnx.load(model_of([sums], [info("x", F, [5])], [info("y", F, None)], constants), strict=True)
        np.testing.assert_array_equal(model.run(x)[0], np.float32(want))


def test_exclusive_products_keep_the_type():
    products = node("CumProd", ["x", "axis"], ["y"], exclusive=1)
    half, constants = TensorProto.FLOAT16, [("axis", np.array(0))]
    proto = model_of([products], [info("x", half, [3])], [info("y", half, None)], constants, opset=26)
    (y,) = ggml.onnx.load(proto, strict=True).run(np.array([2, 3, 4], np.float16))
    assert y.dtype == np.float16 and y.tolist() == [1, 2, 6]


@pytest.mark.parametrize("op", ["MatMulInteger", "MatMulNBits"])
def test_nodes_that_share_weights_but_not_what_belongs_to_them(op):
    """What is computed from a constant is kept with it: for each of its zero points, and for each of its scales."""
    random = np.random.default_rng(0)
    if op == "MatMulInteger":
        x, w = random.integers(0, 255, (32, 4)).astype(np.uint8), random.integers(-5, 5, (3, 32)).astype(np.int8)
        constants = [("w", w), ("one", np.int8(1)), ("two", np.int8(3))]
        nodes = [node(op, ["w", "x", z], [y]) for z, y in (("one", "y"), ("two", "z"))]
        want = [(w.astype(np.int64) - z) @ x for z in (1, 3)]
    else:
        x, w = floats(2, 32), random.integers(0, 256, (3, 1, 16)).astype(np.uint8)
        constants = [("w", w), ("one", np.float32([1, 2, 3])), ("two", np.float32([5, 7, 9]))]
        nodes = [
            node(op, ["x", "w", s], [y], domain="com.microsoft", N=3, K=32, bits=4, block_size=32)
            for s, y in (("one", "y"), ("two", "z"))
        ]
        numbers = np.stack([w & 15, w >> 4], -1).reshape(3, 32).astype(np.float32) - 8
        want = [x @ (numbers * scale[:, None]).T for scale in (constants[1][1], constants[2][1])]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    outputs = [onnx.ValueInfoProto(name=n, type=onnx.TypeProto()) for n in "yz"]
    proto = model_of(
        nodes, [info("x", kind, x.shape)], outputs, constants, opsets=[helper.make_opsetid("com.microsoft", 1)]
    )
    for got, expected in zip(ggml.onnx.load(proto).run(x), want):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def gelu_parts(form, cubic=0.044715):
    """The nodes that exporters write for a GELU of x, as operator and operands; numbers are constants."""
    root = math.sqrt(2 / math.pi)
    inner = {
        "pow": [("Pow", "x", 3.0), ("Mul", "_", cubic), ("Add", "x", "_"), ("Mul", root, "_")],
        "mul": [("Mul", "x", "x"), ("Mul", "x", "_"), ("Mul", cubic, "_"), ("Add", "_", "x"), ("Mul", "_", root)],
        "fast": [("Mul", "x", cubic), ("Mul", "_", "x"), ("Add", 1.0, "_"), ("Mul", "x", "_"), ("Mul", "_", root)],
        "erf": [("Div", "x", math.sqrt(2.0))],
        "erf mul": [("Mul", "x", math.sqrt(0.5))],
    }[form]
    return [*inner, ("Erf" if form.startswith("erf") else "Tanh", "_"), ("Add", "_", 1.0)]


GELU_ENDS = {  # of x and the gate, "_"
    "half gate": [("Mul", "_", 0.5), ("Mul", "x", "_")],
    "half product": [("Mul", "x", "_"), ("Mul", 0.5, "_")],
    "product / 2": [("Mul", "_", "x"), ("Div", "_", 2.0)],
    "half x": [("Mul", "x", 0.5), ("Mul", "<", "_")],
}


def chain_of(steps, shape=(3, 5)):
    """A model of operators, of which each reads what the last has made ("_") or the one before it ("<")."""
    nodes, constants, made = [], [], ["x"]
    for op, *operands in steps:
        names = []
        for v in operands:
            if isinstance(v, float):
                constants.append((f"c{len(constants)}", np.float32(v)))
                names.append(constants[-1][0])
            else:
                names.append({"_": made[-1], "<": made[max(len(made) - 2, 0)]}.get(v, v))
        made.append(f"v{len(made)}")
        nodes.append(node(op, names, [made[-1]]))
    return model_of(nodes, [info("x", F, shape)], [info(made[-1], F, None)], constants)


def operations(model, x):
    """The operations of the model's graph by name; unary ones by their function."""
    graph = model.graph(x)
    nodes = [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]
    found = {ggml.ggml_op_desc(n).decode() for n in nodes if ggml.ggml_op_name(n.contents.op) != b"RESHAPE"}
    return found - {"NONE", "RESHAPE", "VIEW"}


@pytest.mark.parametrize("end", GELU_ENDS)
@pytest.mark.parametrize("form", ["pow", "mul", "fast", "erf", "erf mul"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 1, 3, 2, 4)])
def test_the_parts_of_a_gelu_become_one_operation(shape, form, end):
    proto, x = chain_of([*gelu_parts(form), *GELU_ENDS[end]], shape), 3 * floats(*shape)
    model = ggml.onnx.load(proto, strict=True)
    (got,), (want,) = model.run(x), ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert operations(model, x) == {"GELU_ERF" if form.startswith("erf") else "GELU"}


@pytest.mark.parametrize("steps", [
    [*gelu_parts("pow", 0.0447), *GELU_ENDS["half gate"]],
    [*gelu_parts("pow")[:-1], ("Add", "_", 1.5), *GELU_ENDS["half gate"]],
    [*gelu_parts("pow"), ("Mul", "_", 0.5), ("Add", "_", 0.25), ("Mul", "x", "_")],
    [*gelu_parts("erf"), ("Add", "x", "_")],
    [("Exp", "x"), *gelu_parts("mul"), ("Mul", "v1", "_")],
])  # fmt: skip
def test_what_only_resembles_a_gelu_stays(steps):
    proto, x = chain_of(steps), floats(3, 5)
    model = ggml.onnx.load(proto, strict=True)
    (got,), (want,) = model.run(x), ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert "GELU" not in operations(model, x)


PERMUTATIONS = [[(0, 2, 1, 3)], [(0, 2, 1, 3), (0, 1, 3, 2)], [(3, 1, 2, 0), (1, 0, 3, 2), (2, 0, 1, 3)]]


@pytest.mark.parametrize("perms", PERMUTATIONS)
def test_operations_by_element_are_computed_before_the_axes_are_in_another_order(perms):
    """Transposed tensors are multiplied, rounded and so on as they lie, and agree with NumPy."""
    nodes = [node("Add", ["x", "x"], ["t0"])]
    nodes += [node("Transpose", [f"t{i}"], [f"t{i + 1}"], perm=perm) for i, perm in enumerate(perms)]
    nodes += [node("Mul", [f"t{len(perms)}", "half"], ["m"]), node("Exp", ["m"], ["e"])]
    nodes += [node("QuantizeLinear", ["e", "scale"], ["q"]), node("DequantizeLinear", ["q", "scale"], ["d"])]
    nodes.append(node("Max", ["d", "half"], ["y"]))
    constants = [("half", np.float32(0.5)), ("scale", np.float32(0.25))]
    proto = model_of(nodes, [info("x", F, (2, 3, 4, 5))], [info("y", F, None)], constants)
    model = ggml.onnx.load(proto, strict=True)
    x = floats(2, 3, 4, 5)
    want = x
    for perm in perms:
        want = want.transpose(perm)
    want = np.maximum(0.25 * np.clip(np.rint(np.exp(want) / 0.25), 0, 255), 0.5)
    np.testing.assert_allclose(model.run(x)[0], want, atol=1e-6)
    graph = model.graph(x)
    nodes = [ggml.ggml_graph_node(graph, i).contents for i in range(ggml.ggml_graph_n_nodes(graph))]
    readers = {n.op for n in nodes if n.src[0] and n.src[0].contents.op == ggml.GGML_OP_PERMUTE}
    assert readers <= {ggml.GGML_OP_PERMUTE, ggml.GGML_OP_CONT}


@pytest.mark.filterwarnings("error")
def test_products_with_infinity_are_no_polynomials():
    proto = chain_of([("Mul", "x", math.inf), ("Add", "_", 1.0), ("Mul", "_", "x"), ("Tanh", "_"), ("Mul", "x", "_")])
    x = floats(3, 5)
    np.testing.assert_allclose(ggml.onnx.load(proto, strict=True).run(x)[0], x, rtol=1e-6)


def test_integers_without_dimensions_are_compared():
    proto = model_of(
        [node("Equal", ["x", "c"], ["y"])],
        [info("x", TensorProto.INT32, [])],
        [info("y", B, None)],
        [("c", np.int32(3))],
    )
    model = ggml.onnx.load(proto, strict=True)
    assert [bool(model.run(np.int32(k))[0]) for k in (2, 3)] == [False, True]


def test_integers_are_exact_at_any_size():
    model = ggml.onnx.load(one("Add", [3], [3], kind=I64))
    for a in ([1, -2, 3], [(1 << 24) - 1, 1 << 24, 5], [(1 << 53) + 1, -(1 << 62), 0]):
        a = np.array(a, np.int64)
        np.testing.assert_array_equal(model.run(a, np.ones(3, np.int64))[0], a + 1)
    assert places(model, np.arange(3), np.arange(3))["Add"] == {"graph"}
    assert places(model, np.arange(3) << 30, np.arange(3))["Add"] == {"host"}


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16"])
def test_narrow_integers_wrap(kind):
    dtype = np.dtype(kind)
    r = np.random.default_rng(0)
    a, b = (r.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 50, dtype, endpoint=True) for _ in range(2))
    for op, function in (("Add", np.add), ("Sub", np.subtract)):
        model = ggml.onnx.load(one(op, [50], [50], kind=helper.np_dtype_to_tensor_dtype(dtype)), strict=True)
        np.testing.assert_array_equal(model.run(a, b)[0], function(a, b))


def test_division_of_integers_is_exact():
    r = np.random.default_rng(0)
    a = np.concatenate([r.integers(-(1 << 23), 1 << 23, 5000), np.arange(-2000, 2000)])
    b = np.concatenate([r.integers(1, 1 << 12, 5000), np.arange(4000) % 97 + 1]) * r.choice([-1, 1], 9000)
    (q,) = ggml.onnx.load(one("Div", [9000], [9000], kind=I64), strict=True).run(a, b)
    np.testing.assert_array_equal(q, np.sign(a) * np.sign(b) * (abs(a) // abs(b)))
    (m,) = ggml.onnx.load(one("Mod", [9000], [9000], kind=I64), strict=True).run(a, b)
    np.testing.assert_array_equal(m, a % b)


def test_infinities_and_nan():
    x = np.array([np.inf, -np.inf, np.nan, 0, 1, -1], np.float32)
    y = np.array([np.inf, np.inf, np.nan, np.nan, 1, 2], np.float32)
    for op, function in (("Equal", np.equal), ("Less", np.less), ("GreaterOrEqual", np.greater_equal)):
        got = ggml.onnx.load(one(op, [6], [6], out=B), strict=True).run(x, y)[0]
        np.testing.assert_array_equal(got, function(x, y), err_msg=op)
    inputs = [info("c", B, [6]), info("x", F, [6]), info("y", F, [6])]
    where = ggml.onnx.load(model_of([node("Where", ["c", "x", "y"], ["z"])], inputs, [info("z", F, None)]), strict=True)
    c = np.array([1, 0, 1, 0, 1, 0], bool)
    np.testing.assert_array_equal(where.run(c, x, y)[0], np.where(c, x, y))
    top = ggml.onnx.load(one("ReduceMax", [2, 3], keepdims=0, axes=[1], opset=13), strict=True)
    np.testing.assert_array_equal(top.run(np.full((2, 3), -np.inf, np.float32))[0], [-np.inf] * 2)


def test_rounding_is_half_to_even():
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 2**22 + 0.5, 2**22 + 1.5, 2**23 - 0.5, 1e30, np.inf], np.float32)
    np.testing.assert_array_equal(ggml.onnx.load(one("Round", [10]), strict=True).run(x)[0], np.round(x))


NARROW = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn"]


@pytest.mark.parametrize("opset", [10, 13, 17, 22])
def test_constants_of_quantised_models(opset):
    w, scale, zero = np.arange(-6, 6, dtype=np.int8).reshape(3, 4), np.float32(0.5), np.int8(3)
    nodes = [node("DequantizeLinear", ["w", "s", "z"], ["f"]), node("MatMul", ["x", "f"], ["y"])]
    constants = [("w", w), ("s", scale), ("z", zero)]
    model = ggml.onnx.load(model_of(nodes, [info("x", F, (2, 3))], [info("y", F, None)], constants, opset))
    x = floats(2, 3)
    np.testing.assert_allclose(model.run(x)[0], x @ (0.5 * (w - 3.0)), rtol=1e-5)


@pytest.mark.parametrize("name", NARROW)
def test_narrow_floats_are_rounded_half_to_even(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = getattr(ml_dtypes, name)
    codes = np.arange(16 if "4" in name[:6] else 256, dtype=np.uint8).view(dtype).astype(np.float32)
    grid = np.unique(codes[np.isfinite(codes)])
    middle = (grid[1:] + grid[:-1]) / 2
    x = np.concatenate([grid, middle, np.nextafter(middle, np.float32(9e9)), np.nextafter(middle, np.float32(-9e9))])
    x = x.astype(np.float32)
    nodes = [
        node("Cast", ["x"], ["n"], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype))),
        node("Cast", ["n"], ["y"], to=F),
    ]
    model = ggml.onnx.load(model_of(nodes, [info("x", F, ["k"])], [info("y", F, None)], opset=24), strict=True)
    np.testing.assert_array_equal(model.run(x)[0], x.astype(dtype).astype(np.float32))


# ---- Plans -----------------------------------------------------------------------------------------------------------
def test_the_cache_of_plans_is_bounded():
    model = ggml.onnx.load(one("Neg", ["n"]))
    for n in range(1, 40):
        np.testing.assert_array_equal(model.run(np.ones(n, np.float32))[0], -np.ones(n))
    assert len(model.program.plans) == 16


def test_an_input_that_is_a_shape():
    inputs = [info("x", F, ["n"]), info("s", I64, ["r"])]
    proto = model_of([node("Reshape", ["x", "s"], ["y"])], inputs, [info("y", F, None)])
    model = ggml.onnx.load(proto, strict=True)
    x = floats(12)
    for shape in ([3, 4], [2, -1], [1, 2, 6]):
        np.testing.assert_array_equal(model.run(x, np.array(shape))[0], x.reshape(shape))


def test_shapes_that_depend_on_values():
    nodes = [
        node("NonZero", ["x"], ["i"]),
        node("Transpose", ["i"], ["t"]),
        node("GatherND", ["x", "t"], ["v"]),
        node("Mul", ["v", "v"], ["y"]),
    ]
    proto = model_of(nodes, [info("x", F, [2, 3])], [info("y", F, ["n"])])
    model = ggml.onnx.load(proto)
    for x in (np.array([[1, 0, 2], [0, 0, 3]], np.float32), np.array([[0, 0, 0], [0, 5, 0]], np.float32)):
        np.testing.assert_array_equal(model.run(x)[0], x[x != 0] ** 2)
    assert places(model, x)["NonZero"] == {"host"} and places(model, x)["Mul"] == {"graph"}
    with pytest.raises(ggml.onnx.HostRefused, match="NonZero"):
        ggml.onnx.load(proto, strict=True).run(x)


def test_if_on_a_computed_condition():
    branches = [helper.make_graph([node(op, ["x"], ["b"])], op, [], [info("b", F, None)]) for op in ("Neg", "Abs")]
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    proto = model_of(nodes, [info("x", F, [3])], [info("y", F, None)], [("zero", np.float32(0))])
    model = ggml.onnx.load(proto, strict=True)
    for x in (np.array([1, 2, -1], np.float32), np.array([-1, -2, 1], np.float32)):
        np.testing.assert_array_equal(model.run(x)[0], -x if x.sum() > 0 else abs(x))


def test_loop_until_a_computed_condition_fails():
    body = helper.make_graph(
        [node("Add", ["v", "v"], ["d"]), node("Less", ["d", "limit"], ["again"]), node("Identity", ["d"], ["scan"])],
        "body",
        [info("i", I64, []), info("go", B, []), info("v", F, [])],
        [info("again", B, []), info("d", F, []), info("scan", F, [])],
    )
    outputs = [info("last", F, []), info("all", F, ["n"])]
    loop = node("Loop", ["", "", "x"], ["last", "all"], body=body)
    proto = model_of([loop], [info("x", F, []), info("limit", F, [])], outputs)
    model = ggml.onnx.load(proto, strict=True)
    for limit in (20, 3, 100):
        last, history = model.run(np.float32(3), np.float32(limit))
        want = [6.0]
        while want[-1] < limit:
            want.append(2 * want[-1])
        assert last == want[-1] and history.tolist() == want


def test_a_long_loop_keeps_its_plan():
    body = helper.make_graph(
        [node("Add", ["v", "step"], ["w"]), node("Identity", ["go"], ["again"])],
        "body",
        [info("i", I64, []), info("go", B, []), info("v", F, [2])],
        [info("again", B, []), info("w", F, [2])],
    )
    proto = model_of(
        [node("Loop", ["n", "", "x"], ["y"], body=body)],
        [info("n", I64, []), info("x", F, [2]), info("step", F, [2])],
        [info("y", F, [2])],
    )
    model = ggml.onnx.load(proto, strict=True)
    x, step = np.zeros(2, np.float32), np.float32([1, 2])
    for n in (0, 3, 200):
        np.testing.assert_array_equal(model.run(np.array(n), x, step)[0], n * step)
    assert places(model, np.array(200), x, step)["Loop"] == {"control"}


@pytest.mark.parametrize("turns", [3, 70, 200])
def test_loops_whose_values_never_change(turns):
    """The body returns p and w as it gets them, and reads x: the first one is computed, the others are not."""
    x, w, p = floats(2, 5, seed=1), floats(5, 5, seed=2), floats(2, 5, seed=3)
    nodes = [
        node("MatMul", ["s", "w"], ["t"]),
        node("Add", ["t", "p"], ["u"]),
        node("Tanh", ["u"], ["v"]),
        node("Mul", ["v", "x"], ["scan"]),
        node("Identity", ["go"], ["again"]),
    ]
    state = [info(n, F, None) for n in "spw"]
    body = helper.make_graph(
        nodes,
        "body",
        [info("i", I64, []), info("go", B, []), *state],
        [info("again", B, []), info("v", F, None), *state[1:], info("scan", F, [2, 5])],
    )
    loop = node("Loop", ["n", "", "x", "double", "w0"], ["last", "p1", "w1", "all"], body=body)
    proto = model_of(
        [node("Add", ["p0", "p0"], ["double"]), loop],
        [info(n, F, [2, 5]) for n in ("x", "p0")] + [info("n", I64, [])],
        [info(n, F, None) for n in ("last", "p1", "w1", "all")],
        [("w0", w)],
    )
    model, want = ggml.onnx.load(proto, strict=True), [x]
    for _ in range(turns):
        want.append(np.tanh(want[-1] @ w + 2 * p))
    for _ in range(3):
        last, same, matrix, history = model.run(x, p, np.array(turns))
        np.testing.assert_allclose(last, want[-1], atol=1e-4)
        np.testing.assert_allclose(history, np.stack(want[1:]) * x, atol=1e-4)
        np.testing.assert_array_equal(same, 2 * p)
        np.testing.assert_array_equal(matrix, w)
        for array in (last, same, matrix, history):  # outputs belong to the caller
            array[:] = 9


@pytest.mark.parametrize("turns", [3, 70, 200])
def test_loops_that_slice_by_their_turn(turns):
    """Each turn needs a plan of its own; from the second run on they are parts of one graph."""
    nodes = [
        node("Unsqueeze", ["i", "zero"], ["first"]),
        node("Add", ["first", "one"], ["end"]),
        node("Slice", ["x", "first", "end", "zero"], ["row"]),
        node("Concat", ["s", "row"], ["t"], axis=0),
        node("ReduceSum", ["row"], ["sum"], keepdims=0),
        node("Identity", ["go"], ["again"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [info("i", I64, []), info("go", B, []), info("s", F, None)],
        [info("again", B, []), info("t", F, None), info("sum", F, [])],
    )
    proto = model_of(
        [node("Loop", ["n", "", "x0"], ["rows", "sums"], body=body)],
        [info("x", F, [None, 3]), info("n", I64, []), info("x0", F, [None, 3])],
        [info("rows", F, None), info("sums", F, None)],
        [("zero", np.array([0])), ("one", np.array([1]))],
    )
    model, x = ggml.onnx.load(proto, strict=True), floats(turns + 5, 3)
    for _ in range(3):
        rows, sums = model.run(x, np.array(turns), x[:1])
        np.testing.assert_array_equal(rows, np.concatenate([x[:1], x[:turns]]))
        np.testing.assert_allclose(sums, x[:turns].sum(1), atol=1e-5)
    assert places(model, x, np.array(turns), x[:1]).get("Loop", {"expanded"}) == {"expanded"}


@pytest.mark.parametrize("counted", [True, False])
def test_loops_that_become_too_long_for_a_graph(counted):
    """A loop that was unrolled, because its shapes depend on the turn, runs from the host once it has many turns."""
    nodes = [
        node("Unsqueeze", ["k", "zero"], ["first"]),
        node("Add", ["first", "one"], ["end"]),
        node("Slice", ["x", "first", "end", "zero"], ["row"]),
        node("ReduceSum", ["row"], ["sum"], keepdims=0),
        node("Add", ["k", "step"], ["next"]),
        node("Less", ["next", "n"], ["again"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [info("i", I64, []), info("go", B, []), info("k", I64, [])],
        [info("again", B, []), info("next", I64, []), info("sum", F, [])],
    )
    loop = node("Loop", ["n" if counted else "", "", "start"], ["", "sums"], body=body)
    constants = [(n, np.array(v)) for n, v in (("zero", [0]), ("one", [1]), ("step", 1), ("start", 0))]
    proto = model_of([loop], [info("x", F, [None, 2]), info("n", I64, [])], [info("sums", F, None)], constants)
    model, x = ggml.onnx.load(proto, strict=True), floats(4000, 2)
    for turns, place in ((100, "expanded"), (3600, "control"), (100, "control")):
        np.testing.assert_allclose(model.run(x, np.array(turns))[0], x[:turns].sum(1), atol=1e-5)
        assert places(model, x, np.array(turns)).get("Loop", {"expanded"}) == {place}


@pytest.mark.parametrize(
    ("size", "kernel", "strides", "dilations", "pads", "product"),
    [
        ((1, 4), (1, 3), (1, 1), (1, 1), (0, 1, 0, 1), True),
        ((1, 4), (1, 3), (1, 2), (1, 1), (0, 1, 0, 1), True),
        ((1, 1), (1, 3), (1, 1), (1, 1), (0, 1, 0, 1), True),
        ((3, 1), (3, 1), (1, 1), (1, 1), (1, 0, 1, 0), True),
        ((2, 2), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), True),
        ((3, 2), (3, 2), (1, 2), (1, 1), (1, 0, 0, 1), True),
        ((2, 2), (2, 2), (1, 1), (1, 1), (1, 0, 0, 1), False),
        ((3, 3), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), False),
        ((3, 5), (2, 2), (1, 2), (2, 2), (0, 0, 0, 0), False),
        ((2, 3), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), False),
        ((9, 9), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), False),
    ],
)
@pytest.mark.parametrize("batch", [3, 20])
def test_convolutions_of_small_pictures(batch, size, kernel, strides, dilations, pads, product):
    """Several pictures of few positions are multiplied with a matrix that has the kernel at each of them."""
    x, w, bias = floats(batch, 5, *size, seed=1), floats(6, 5, *kernel, seed=2), floats(6, seed=3)
    attrs = {"strides": strides, "dilations": dilations, "pads": pads}
    nodes = [node("Conv", ["x", "w", "b"], ["c"], **attrs), node("Relu", ["c"], ["y"])]
    proto = model_of(nodes, [info("x", F, [None, 5, *size])], [info("y", F, None)], [("w", w), ("b", bias)])
    model = ggml.onnx.load(proto, strict=True)
    want = np.maximum(whole_pictures(x, w, strides, dilations, pads) + bias[:, None, None], 0)
    np.testing.assert_allclose(model.run(x)[0], want, atol=1e-5)
    graph = model.graph(x)
    ops = {ggml.ggml_graph_node(graph, i).contents.op for i in range(ggml.ggml_graph_n_nodes(graph))}
    if batch == 20:
        assert (ggml.GGML_OP_CONV_2D in ops) != product and (ggml.GGML_OP_MUL_MAT in ops) == product


@pytest.mark.parametrize("turns", [5, 70])
@pytest.mark.parametrize("place", ["turn", "counter", "pair", "carried", "twice", "matrix", "few"])
def test_products_of_entries_in_loops(place, turns):
    """They are computed for all turns together: if a counter says which entry, and the matrix stays the same."""
    index, many = {"turn": "i", "matrix": "i", "few": "i"}.get(place, "k"), 500 if place == "few" else turns
    nodes = [
        node("Gather", ["x", index], ["row"]),
        node("MatMul", ["row", "m"], ["p"]),
        node("Add", ["s", "p"], ["t"]),
        node("Add", ["two" if place == "twice" else "one", "k"], ["l"]),
        node("Mod" if place == "carried" else "Min", ["l", "many"], ["next"]),
        node("Mul", ["m", "half"], ["changed"]),
        node("Identity", ["go"], ["again"]),
    ]
    if place != "carried":
        nodes[4] = node("Identity", ["l"], ["next"])
    state = [info("k", I64, None), info("s", F, None), info("m", F, None)]
    outputs = [info("next", I64, None), info("t", F, None), info("changed" if place == "matrix" else "m", F, None)]
    loop_inputs = [info("i", I64, []), info("go", B, []), *state]
    body = helper.make_graph(nodes, "body", loop_inputs, [info("again", B, []), *outputs])
    begin, rows, m = np.array([0] if place == "pair" else 0), floats(2 * many, 2, 4, seed=1), floats(4, 3, seed=2)
    constants = [("zero", begin), ("one", np.array(1)), ("two", np.array(2)), ("half", np.float32(0.5)), ("m0", m)]
    constants += [("many", np.array(turns // 2 + 1)), ("s0", np.zeros((1, 1), np.float32))]
    proto = model_of(
        [node("Neg", ["rows"], ["x"]), node("Loop", ["n", "", "zero", "s0", "m0"], ["", "y", ""], body=body)],
        [info("rows", F, [None, 2, 4]), info("n", I64, [])],
        [info("y", F, None)],
        constants,
    )
    model, want = ggml.onnx.load(proto, strict=True), 0
    for turn in range(turns):
        entry = {"twice": 2 * turn, "carried": turn % (turns // 2 + 1)}.get(place, turn)
        want = want - rows[entry] @ m * (0.5**turn if place == "matrix" else 1)
    for _ in range(2):
        y = model.run(rows, np.array(turns))[0]
        np.testing.assert_allclose(y, want.reshape(y.shape), rtol=1e-4, atol=1e-4)
    found = [e for e in model.report(rows, np.array(turns)) if e.op == "MatMul" and "Loop" not in e.name]
    assert len(found) == (place in ("turn", "counter", "pair"))


@pytest.mark.parametrize("inside", [True, False])
def test_conditions_that_are_not_one_element(inside):
    """The condition of a loop that runs from the host, and the one that its body computes."""
    nodes = [node("Identity", ["go"], ["again"]), node("Identity", ["c" if inside else "s"], ["t"])]
    body = helper.make_graph(
        nodes,
        "body",
        [info("i", I64, []), info("go", B, None), info("s", B, None)],
        [info("t" if inside else "again", B, None), info("t", B, None)],
    )
    proto = model_of(
        [node("Loop", ["n", "" if inside else "c", "s0"], ["y"], body=body, name="turns")],
        [info("n", I64, []), info("c", B, [None]), info("s0", B, [])],
        [info("y", B, None)],
    )
    with pytest.raises(ValueError, match=r"node 'turns' \(Loop\): its condition has the shape \[0\]: need one element"):
        ggml.onnx.load(proto).run(np.array(100), np.zeros(0, bool), np.array(True))


def test_a_loop_with_a_number_of_turns_only():
    body = helper.make_graph(
        [node("Cast", ["i"], ["scan"], to=F), node("Identity", ["go"], ["again"])],
        "body",
        [info("i", I64, []), info("go", B, [])],
        [info("again", B, []), info("scan", F, [])],
    )
    proto = model_of([node("Loop", ["n"], ["y"], body=body)], [info("n", I64, [])], [info("y", F, None)])
    model = ggml.onnx.load(proto, strict=True)
    for n in (0, 5, 100):
        np.testing.assert_array_equal(model.run(np.array(n))[0], np.arange(n))


@pytest.mark.parametrize("activations", [None, ["Sigmoid", "Tanh", "Relu"], ["Tanh", "Sigmoid", "Tanh"]])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_both_directions_are_what_each_is_alone(op, activations):
    """Those with the same activations are computed together, others one after the other."""
    gates, kinds = {"RNN": (1, 1), "GRU": (3, 2), "LSTM": (4, 3)}[op]
    x, lengths = floats(6, 3, 5), np.array([6, 4, 1], np.int32)
    parts = [floats(2, gates * 4, 5, seed=1), floats(2, gates * 4, 4, seed=2), floats(2, 2 * gates * 4, seed=3)]
    state = [floats(2, 3, 4, seed=4)] + [floats(2, 3, 4, seed=5), floats(2, 12, seed=6)] * (op == "LSTM")
    names = ["w", "r", "b", "lengths", "h", "c", "p"][: 4 + len(state)]
    outputs = ["y", "last", "cell"][: 3 if op == "LSTM" else 2]

    def run(direction, first, end, functions):
        constants = [(n, v[first:end]) for n, v in zip(("w", "r", "b", "h", "c", "p"), (*parts, *state))]
        attrs = {"activations": functions} if functions else {}
        proto = model_of(
            [node(op, ["x", *names], outputs, hidden_size=4, direction=direction, **attrs)],
            [info("x", F, None)],
            [info(n, F, None) for n in outputs],
            [*constants, ("lengths", lengths)],
        )
        return ggml.onnx.load(proto, strict=True).run(x)

    own = activations and [activations[:kinds], activations[::-1][:kinds]]
    both = run("bidirectional", 0, 2, own and own[0] + own[1])
    alone = [run(("forward", "reverse")[d], d, d + 1, own and own[d]) for d in range(2)]
    for k, found in enumerate(both):
        np.testing.assert_allclose(found, np.concatenate([a[k] for a in alone], 1 if k == 0 else 0), atol=1e-6)


def windows_of(x, kernel_shape, strides=(1, 1), pads=(0, 0, 0, 0), ceil_mode=0, auto_pad="NOTSET"):
    """The windows of planes, as an array (n, c, rows, columns, elements) with NaN outside of the planes."""
    first, sizes = list(pads[:2]), []
    for i, (n, k, s) in enumerate(zip(x.shape[2:], kernel_shape, strides)):
        room = n + pads[i] + pads[i + 2] - k
        size = -(-room // s) + 1 if ceil_mode else room // s + 1
        if auto_pad != "NOTSET":
            size = -(-n // s)
            total = max((size - 1) * s + k - n, 0)
            first[i] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        sizes.append(size)
    wide = np.pad(x, [(0, 0), (0, 0), *((p, 20) for p in first)], constant_values=np.nan)
    rows = [
        [
            wide[:, :, r * strides[0] :, c * strides[1] :][:, :, : kernel_shape[0], : kernel_shape[1]]
            for c in range(sizes[1])
        ]
        for r in range(sizes[0])
    ]
    return np.moveaxis(np.array(rows), (0, 1), (2, 3)).reshape(*x.shape[:2], *sizes, -1)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("case", [
    {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}, {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}, {"kernel_shape": [3, 3], "strides": [3, 1]},
    {"kernel_shape": [2, 3], "strides": [2, 1], "auto_pad": "SAME_LOWER"}, {"kernel_shape": [4, 1], "strides": [4, 1]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [5, 3], "strides": [3, 2], "pads": [2, 0, 1, 1], "ceil_mode": 1},
])  # fmt: skip
def test_pools_with_any_padding(op, case):
    x = floats(2, 3, 12, 10)
    want = (np.nanmax if op == "MaxPool" else np.nanmean)(windows_of(x, **case), -1)
    np.testing.assert_allclose(ggml.onnx.load(one(op, x.shape, **case), strict=True).run(x)[0], want, atol=1e-6)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("case", [
    {"kernel_shape": [3], "dilations": [2], "pads": [2, 0]}, {"kernel_shape": [4, 2], "pads": [2, 1, 3, 0]},
    {"kernel_shape": [2, 2], "strides": [1, 2], "dilations": [3, 1]},
    {"kernel_shape": [2, 3, 2], "strides": [1, 2, 1], "pads": [1, 0, 0, 0, 2, 1]},
    {"kernel_shape": [3, 2, 2], "strides": [2, 1, 2], "dilations": [1, 3, 2], "pads": [0, 2, 1, 0, 0, 1]},
])  # fmt: skip
def test_pools_of_any_axes(op, case):
    kernel, rank = case["kernel_shape"], len(case["kernel_shape"])
    strides, dilations = (case.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = case.get("pads", [0] * 2 * rank)
    x = floats(2, 3, *[11, 8, 9][:rank])
    widths = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])]
    wide = np.pad(x, widths, constant_values=np.nan)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations)]
    windows = np.lib.stride_tricks.sliding_window_view(wide, reach, tuple(range(2, 2 + rank)))
    steps = (slice(None), slice(None), *(slice(None, None, n) for n in [*strides, *dilations]))
    own = tuple(range(-rank, 0))
    want = {
        "MaxPool": lambda v: np.nanmax(v, own),
        "AveragePool": lambda v: np.nanmean(v, own),
        "LpPool": lambda v: np.sqrt(np.nansum(v * v, own)),
    }[op](windows[steps])
    np.testing.assert_allclose(ggml.onnx.load(one(op, x.shape, **case), strict=True).run(x)[0], want, atol=1e-6)
    if op == "AveragePool":
        want = np.nan_to_num(windows[steps]).mean(own)
        proto = one(op, x.shape, count_include_pad=1, **case)
        np.testing.assert_allclose(ggml.onnx.load(proto, strict=True).run(x)[0], want, atol=1e-6)


@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]])
def test_maxima_over_any_axes(axes):
    x = floats(4, 5, 6)
    x[1, 2, :] = x[:, 1, 3] = -np.inf
    proto = model_of(
        [node("ReduceMax", ["x", "axes"], ["y"])],
        [info("x", F, [4, 5, 6])],
        [info("y", F, None)],
        [("axes", np.array(axes))],
    )
    want = x.max(tuple(axes), keepdims=True)
    np.testing.assert_array_equal(ggml.onnx.load(proto, strict=True).run(x)[0], want)
    other = floats(5, 1, seed=1)
    got = ggml.onnx.load(one("Max", [4, 5, 6], [5, 1]), strict=True).run(x, other)[0]
    np.testing.assert_array_equal(got, np.maximum(x, other))


def test_functions_that_call_themselves():
    function = helper.make_function(
        "own", "Again", ["p"], ["q"], [node("Again", ["p"], ["q"], domain="own")], [helper.make_opsetid("own", 1)]
    )
    proto = model_of(
        [node("Again", ["x"], ["y"], domain="own")],
        [info("x", F, [1])],
        [info("y", F, [1])],
        functions=[function],
        opsets=[helper.make_opsetid("own", 1)],
    )
    with pytest.raises(ggml.onnx.NodeError, match="nested more than"):
        ggml.onnx.load(proto).run(floats(1))


def test_sequences_inside_a_model():
    nodes = [
        node("SplitToSequence", ["x", "two"], ["s"], axis=0),
        node("SequenceInsert", ["s", "x"], ["t"]),
        node("SequenceAt", ["t", "one"], ["a"]),
        node("ConcatFromSequence", ["t"], ["c"], axis=0),
        node("SequenceLength", ["t"], ["n"]),
    ]
    outputs = [info("a", F, None), info("c", F, None), info("n", I64, None)]
    proto = model_of(nodes, [info("x", F, [5, 2])], outputs, [("two", np.array(2)), ("one", np.array(1))])
    x = floats(5, 2)
    a, c, n = ggml.onnx.load(proto, strict=True).run(x)
    np.testing.assert_array_equal(a, x[2:4])
    np.testing.assert_array_equal(c, np.concatenate([x, x]))
    assert n == 4


def test_several_outputs_constants_and_passed_inputs():
    nodes = [node("Split", ["x"], ["a", "b"], num_outputs=2), node("Identity", ["x"], ["same"])]
    outputs = [info(n, F, None) for n in ("b", "a", "same", "k")]
    proto = model_of(nodes, [info("x", F, [4])], outputs, [("k", floats(2))])
    x = floats(4, seed=1)
    b, a, same, k = ggml.onnx.load(proto, strict=True).run(x)
    for got, want in ((a, x[:2]), (b, x[2:]), (same, x), (k, floats(2))):
        np.testing.assert_array_equal(got, want)


def test_outputs_belong_to_the_caller():
    """Writing into outputs, or reusing the arrays that were inputs, does not change later results."""
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("SequenceConstruct", ["x", "k"], ["s"]),
        node("SequenceAt", ["s", "one"], ["kept"]),
    ]
    outputs = [info(n, F, None) for n in ("same", "k", "kept")]
    model = ggml.onnx.load(model_of(nodes, [info("x", F, [2])], outputs, [("k", floats(2)), ("one", np.array(1))]))
    x = floats(2, seed=1)
    for array in model.run(x):
        array[:] = 9
    same, k, kept = model.run(x)
    np.testing.assert_array_equal(x, floats(2, seed=1))
    for got, want in ((same, x), (k, floats(2)), (kept, floats(2))):
        np.testing.assert_array_equal(got, want)


def test_arrays_that_decide_shapes_may_be_used_again():
    nodes = [
        node("Reshape", ["x", "s"], ["a"]),
        node("NonZero", ["z"], ["i"]),
        node("Size", ["i"], ["n"]),
        node("Cast", ["n"], ["m"], to=F),
        node("Add", ["a", "m"], ["y"]),
        node("Cast", ["s"], ["t"], to=F),
    ]
    inputs = [info("x", F, [12]), info("s", I64, [2]), info("z", F, [2])]
    model = ggml.onnx.load(model_of(nodes, inputs, [info("y", F, None), info("t", F, None)]))
    x, s = floats(12), np.array([3, 4])
    model.run(x, s, np.float32([1, 0]))
    s[:] = 2, 6
    for shape, z in (((2, 6), [1, 0]), ((3, 4), [1, 1]), ((3, 4), [1, 0])):  # the second one makes another plan
        y, t = model.run(x, np.array(shape), np.float32(z))
        np.testing.assert_array_equal(y, (x + np.float32(sum(z))).reshape(shape))
        np.testing.assert_array_equal(t, shape)
    nodes = [node("Resize", ["x", "", "s"], ["y"]), node("Mul", ["x", "s"], ["z"])]
    inputs = [info("x", F, [1, 1, 1, 4]), info("s", F, [4])]
    model = ggml.onnx.load(model_of(nodes, inputs, [info("y", F, None), info("z", F, None)]))
    x, s = floats(1, 1, 1, 4), np.float32([1, 1, 2, 3])
    model.run(x, s)
    s[:] = 1
    np.testing.assert_array_equal(model.run(x, np.float32([1, 1, 2, 3]))[1], x * np.float32([1, 1, 2, 3]))


@pytest.mark.parametrize(
    "op, shapes, shape",
    [
        ("Pow", [(0, 2), (2,)], (0, 2)),
        ("Where", [(1, 2), (0, 2)], (0, 2)),
        ("LSTM", [(3, 0, 2), (1, 8, 2), (1, 8, 2)], (3, 1, 0, 2)),
    ],
)
def test_operands_without_elements(op, shapes, shape):
    model = one(op, *[[None] * len(s) for s in shapes], **({"hidden_size": 2} if op == "LSTM" else {}))
    arrays = [floats(*s) for s in shapes]
    if op == "Where":
        model.graph.node[0].input.insert(0, "c")
        model.graph.input.insert(0, info("c", B, [2]))
        arrays.insert(0, np.array([True, False]))
    (y,) = ggml.onnx.load(model).run(*arrays)
    assert y.shape == shape and y.dtype == np.float32


def test_functions_of_the_model():
    opsets = [helper.make_opsetid("", 22)]
    body = [node("Mul", ["p", "p"], ["q"]), helper.make_node("Elu", ["q"], ["r"])]
    alpha = body[1].attribute.add()
    alpha.name, alpha.ref_attr_name, alpha.type = "alpha", "strength", onnx.AttributeProto.FLOAT
    function = helper.make_function("own", "Twice", ["p"], ["r"], body, opsets, ["strength"])
    nodes = [node("Twice", ["x"], ["t"], domain="own", strength=2.0), node("Neg", ["t"], ["y"])]
    proto = model_of(
        nodes, [info("x", F, [3])], [info("y", F, [3])], functions=[function], opsets=[helper.make_opsetid("own", 1)]
    )
    x = floats(3)
    np.testing.assert_allclose(ggml.onnx.load(proto, strict=True).run(x)[0], -(x * x), rtol=1e-6)


@pytest.mark.parametrize("expanded", [False, True])
def test_rows_that_are_one_hot_are_looked_up(expanded):
    """Equal to 0, 1, 2 ..., converted to floats, times a matrix: rows of the matrix, or zeros."""
    w = floats(7, 5)
    nodes = [
        *([node("Expand", ["x", "dims"], ["wide"])] if expanded else []),
        node("Equal", ["wide" if expanded else "x", "all"], ["hot"]),
        node("Cast", ["hot"], ["one"], to=F),
        node("MatMul", ["one", "w"], ["y"]),
    ]
    constants = [("w", w), ("all", np.arange(7).reshape(1, 1, 7)), ("dims", np.array([2, 4, 7]))]
    model = ggml.onnx.load(model_of(nodes, [info("x", I64, (2, 4, 1))], [info("y", F, None)], constants), strict=True)
    x = np.array([0, 6, 7, -1, 3, 3, 1 << 20, -(1 << 20)]).reshape(2, 4, 1)
    want = np.where((x >= 0) & (x < 7), w[np.clip(x[..., 0], 0, 6)], 0)
    np.testing.assert_array_equal(model.run(x)[0], want)
    graph = model.graph(x)
    ops = {ggml.ggml_graph_node(graph, i).contents.op for i in range(ggml.ggml_graph_n_nodes(graph))}
    assert ggml.GGML_OP_GET_ROWS in ops and ggml.GGML_OP_MUL_MAT not in ops


def test_the_graph_can_be_had():
    model = ggml.onnx.load(one("Exp", [3]))
    assert ggml.ggml_graph_n_nodes(model.graph(floats(3))) >= 1


# ---- Bad input -------------------------------------------------------------------------------------------------------
def test_broken_models(tmp_path):
    with pytest.raises(ggml.onnx.ModelError, match="not an ONNX model"):
        ggml.onnx.load(b"no protobuf at all")
    with pytest.raises(ggml.onnx.ModelError, match="it has no graph"):
        ggml.onnx.load(b"")
    with pytest.raises(TypeError, match="model is int"):
        ggml.onnx.load(3)
    with pytest.raises(FileNotFoundError):
        ggml.onnx.load(tmp_path / "none.onnx")
    whole = one("Add", [2], [2]).SerializeToString()
    for size in range(0, len(whole), 3):
        with pytest.raises((ValueError, RuntimeError, TypeError)):
            ggml.onnx.load(whole[:size]).run(floats(2), floats(2))
            raise ValueError  # a shorter model may be a valid one


def test_broken_graphs():
    x, y = [info("x", F, [2])], [info("y", F, [2])]
    cycle = [node("Add", ["x", "b"], ["y"], name="first"), node("Neg", ["y"], ["b"])]
    with pytest.raises(ggml.onnx.ModelError, match="cycle through node 'first'"):
        ggml.onnx.load(model_of(cycle, x, y))
    with pytest.raises(ggml.onnx.ModelError, match="reads 'nowhere', which nothing defines"):
        ggml.onnx.load(model_of([node("Neg", ["nowhere"], ["y"])], x, y))
    with pytest.raises(ggml.onnx.ModelError, match="writes 'y', which node"):
        ggml.onnx.load(model_of([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])], x, y))
    with pytest.raises(ggml.onnx.ModelError, match="output 'z' is defined by nothing"):
        ggml.onnx.load(model_of([node("Neg", ["x"], ["y"])], x, [info("z", F, [2])]))
    unsorted = [node("Neg", ["a"], ["y"]), node("Abs", ["x"], ["a"])]
    np.testing.assert_array_equal(ggml.onnx.load(model_of(unsorted, x, y)).run(np.float32([1, -2]))[0], [-1, -2])
    with pytest.raises(ggml.onnx.ModelError, match="no implementation of Nothing .node 'Nothing_0'."):
        ggml.onnx.load(model_of([node("Nothing", ["x"], ["y"])], x, y))


def test_wrong_operands():
    model = ggml.onnx.load(one("Add", [2], ["n"]))
    x = floats(2)
    for arguments, text in (
        (({"a": x},), "missing: 'b'"),
        (({"a": x, "b": x, "q": x},), "'q' is not one of 'a', 'b'"),
        ((x, x, x), "3 arrays were given"),
        ((floats(3), x), "'a' is .3.: need .2."),
        ((x, floats(2, 2)), "'b' is .2, 2.: need"),
    ):
        with pytest.raises(ValueError, match=text):
            model.run(*arguments)
    with pytest.raises(ValueError, match="^Model.run: input 'a' is no array: "):
        model.run([[1], [2, 3]], x)
    with pytest.raises(TypeError, match="'a' is float64: need float32"):
        model.run(x.astype(float), x)
    with pytest.raises((ValueError, RuntimeError)):
        model.run(x, floats(3))
    np.testing.assert_array_equal(model.run(x, x)[0], 2 * x)  # the model still works
    with pytest.raises(ValueError, match="weights is 'q9'"):
        ggml.onnx.load(one("Neg", [1]), weights="q9")
    with pytest.raises(ValueError, match="weights is .'q8_0'."):
        ggml.onnx.load(one("Neg", [1]), weights=["q8_0"])
    with pytest.raises(ValueError, match="threads is 0"):
        ggml.onnx.load(one("Neg", [1]), threads=0)


def test_an_index_out_of_range_raises():
    inputs = [info("x", F, [3, 2]), info("i", I64, [1])]
    nodes = [node("Gather", ["x", "i"], ["g"]), node("Neg", ["g"], ["y"])]
    model = ggml.onnx.load(model_of(nodes, inputs, [info("y", F, None)]), strict=True)
    x = floats(3, 2)
    np.testing.assert_array_equal(model.run(x, np.array([-1]))[0], -x[[2]])
    for i in (3, -4, 1 << 23):
        with pytest.raises((RuntimeError, ValueError), match="'Gather_0'"):
            model.run(x, np.array([i]))


@pytest.mark.parametrize(
    "op, good, bad",
    [
        ("GatherElements", [[2, 0]], [[2, 3]]),
        ("GatherElements", [[-3, 1]], [[-4, 1]]),
        ("GatherND", [[2, 1]], [[0, 2]]),
        ("GatherND", [[-1, -2]], [[1, -3]]),
        ("ScatterElements", [[2, 0]], [[0, -4]]),
        ("ScatterND", [[2, 1]], [[0, 3]]),
    ],
)
def test_an_index_beyond_an_axis_raises_though_it_would_be_in_the_tensor(op, good, bad):
    inputs = [info("x", F, [3, 2]), info("i", I64, [1, 2])]
    updates = {"ScatterElements": [1, 2], "ScatterND": [1]}.get(op)
    operands = ["x", "i", *(["u"] if updates else [])]
    constants = [("u", np.full(updates, 7, np.float32))] if updates else []
    proto = model_of([node(op, operands, ["y"])], inputs, [info("y", F, None)], constants)
    model, x = ggml.onnx.load(proto, strict=True), floats(3, 2)
    want = ReferenceEvaluator(proto).run(None, {"x": x, "i": np.array(good)})[0]
    np.testing.assert_array_equal(model.run(x, np.array(good))[0], want)
    with pytest.raises(RuntimeError, match=f"({op}_0|y)'.*does not exist"):
        model.run(x, np.array(bad))


@pytest.mark.parametrize(
    "op, attrs, text",
    [
        ("Softmax", {"axis": 2}, "axis is 2: need -2 to 1"),
        ("Split", {"axis": -3}, "axis is -3"),
        ("Transpose", {"perm": [0, 0]}, "no order of the 2 axes"),
        ("Transpose", {"perm": [1]}, "no order"),
        ("Split", {"split": [1, 1]}, "parts of .1, 1. of an axis of 3"),
    ],
)
def test_axes_that_do_not_exist(op, attrs, text):
    model = one(op, [3, 2], opset=11, **attrs)
    if "split" in attrs:
        model.graph.node[0].output.append("z")
    with pytest.raises(ggml.onnx.NodeError, match=f"^Model.run: node '{op}_0' .*{text}"):
        ggml.onnx.load(model).run(floats(3, 2))


def test_sizes_that_overflow():
    inputs = [info("x", F, [1]), info("s", I64, [3])]
    proto = model_of([node("Expand", ["x", "s"], ["y"])], inputs, [info("y", F, None)])
    with pytest.raises((ValueError, MemoryError, RuntimeError)):
        ggml.onnx.load(proto).run(floats(1), np.array([1 << 40, 1 << 40, 1 << 40]))


@pytest.mark.parametrize(
    "location, offset, length",
    [
        ("../secret.bin", 0, 8),
        ("/etc/hostname", 0, 4),
        ("w.bin", 4, 8),
        ("w.bin", -4, 8),
        ("w.bin", 0, 1 << 62),
        ("missing.bin", 0, 8),
    ],
)
def test_external_data_must_lie_in_the_folder(tmp_path, location, offset, length):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"12345678")
    (folder / "w.bin").write_bytes(np.float32([1, 2]).tobytes())
    path = folder / "m.onnx"

    def write(location, offset, length):
        proto = model_of([node("Add", ["x", "w"], ["y"])], [info("x", F, [2])], [info("y", F, [2])], [("w", floats(2))])
        w = proto.graph.initializer[0]
        w.ClearField("raw_data")
        w.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
            entry = w.external_data.add()
            entry.key, entry.value = key, value
        path.write_bytes(proto.SerializeToString())

    write("w.bin", 0, 8)
    np.testing.assert_array_equal(ggml.onnx.load(path).run(np.float32([1, 1]))[0], [2, 3])
    write(location, offset, length)
    with pytest.raises(ggml.onnx.ModelError, match="tensor 'w'"):
        ggml.onnx.load(path)
    with pytest.raises(ggml.onnx.ModelError, match="load the model from its path"):
        ggml.onnx.load(path.read_bytes())


# ---- Interfaces ------------------------------------------------------------------------------------------------------
def test_backend(tmp_path):
    from ggml.contrib.onnx import GgmlRuntimeBackend

    proto = one("Add", [2], [2])
    x = floats(2)
    assert issubclass(GgmlRuntimeBackend, ggml.onnx.Backend) and GgmlRuntimeBackend.supports_device("CPU")
    assert not GgmlRuntimeBackend.supports_device("CUDA") and GgmlRuntimeBackend.is_compatible(proto)
    with pytest.raises(ValueError, match="device is 'CUDA'"):
        GgmlRuntimeBackend.prepare(proto, "CUDA")
    with pytest.raises(ggml.onnx.ModelError, match="^ggml.onnx.load: not an ONNX model"):
        GgmlRuntimeBackend.prepare(b"junk")
    assert not GgmlRuntimeBackend.is_compatible(b"junk")
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    np.testing.assert_array_equal(GgmlRuntimeBackend.prepare(path).run([x, x])[0], 2 * x)
    rep = GgmlRuntimeBackend.prepare(proto, "CPU")
    for inputs in ([x, x], {"a": x, "b": x}):
        np.testing.assert_array_equal(rep.run(inputs)[0], 2 * x)
    np.testing.assert_array_equal(GgmlRuntimeBackend.run_model(proto, [x, x])[0], 2 * x)
    (y,) = GgmlRuntimeBackend.run_node(node("Mul", ["p", "q"], ["r"]), [x, x])
    np.testing.assert_array_equal(y, x * x)


def test_the_bindings_module():
    from ggml.contrib import onnx as bindings

    rep = bindings.GgmlRuntimeBackend.prepare(one("NonZero", ["n"], out=I64), "CPU")
    (y,) = rep.run({"a": np.float32([0, 2])})
    assert y.tolist() == [[1]] and [n.op_type for n in rep.fallback_nodes] == ["NonZero"]
    with pytest.raises(ValueError, match="Unexpected input data type"):
        rep.run([np.zeros(2)])
    with pytest.raises(ValueError, match="fallback_policy is 'none': need one of 'compat', 'strict'"):
        bindings.GgmlRuntimeBackend.prepare(one("Neg", [1]), fallback_policy="none")
    strict = bindings.GgmlRuntimeBackend.prepare(one("NonZero", ["n"], out=I64), fallback_policy="strict")
    with pytest.raises(ggml.onnx.HostRefused):
        strict.run([np.float32([0, 2])])
    relu = bindings.onnx_operators.get("Relu")
    (y,) = relu.eval_numpy(node("Relu", ["x"], ["y"]), [np.float32([-1, 2])])
    assert y.tolist() == [0, 2] and bindings.onnx_operators.get("Nothing") is None


EXTENSIONS = ["SiLU", "QuickGelu", "ReGLU", "GeGLU", "SwiGLU", "GeGLUErf", "GeGLUQuick", "Roll", "ArgSort"]


@pytest.mark.parametrize("op", EXTENSIONS)
def test_operators_of_the_bindings(op):
    from ggml.contrib.onnx import GgmlRuntimeBackend

    x, attrs = floats(3, 4, seed=5), {"shifts": [1, -1]} if op == "Roll" else {}
    a, c = x[:, :2], x[:, 2:]
    want = {
        "SiLU": lambda: x / (1 + np.exp(-x)),
        "QuickGelu": lambda: x / (1 + np.exp(-1.702 * x)),
        "ReGLU": lambda: np.maximum(a, 0) * c,
        "SwiGLU": lambda: a / (1 + np.exp(-a)) * c,
        "GeGLU": lambda: a / (1 + np.exp(-np.sqrt(8 / np.pi) * (a + 0.044715 * a**3))) * c,
        "GeGLUErf": lambda: a * (1 + np.vectorize(math.erf)(a / np.sqrt(2))) / 2 * c,
        "GeGLUQuick": lambda: a / (1 + np.exp(-1.702 * a)) * c,
        "Roll": lambda: np.roll(x, (1, -1), (0, 1)),
        "ArgSort": lambda: x.argsort(1).astype(np.int32),
    }[op]()
    (y,) = GgmlRuntimeBackend.run_node(node(op, ["x"], ["y"], domain="com.ggml", **attrs), [x], strict=True)
    assert y.dtype == (np.int32 if op == "ArgSort" else np.float32)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_flash_attention_of_the_bindings():
    from ggml.contrib.onnx import GgmlRuntimeBackend

    q, k, v = (floats(2, 3, n, 8, seed=n) for n in (4, 5, 5))
    mask = np.where(np.arange(5) > np.arange(4)[:, None] + 1, -np.inf, 0).astype(np.float32)[None, None]
    scores = q @ k.swapaxes(2, 3) / np.sqrt(8) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ v
    attention = node("FlashAttention", ["q", "k", "v", "mask"], ["y"], domain="com.ggml")
    (y,) = GgmlRuntimeBackend.run_node(attention, [q, k, v, mask], strict=True)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def test_command(tmp_path, capsys):
    path, data, out = tmp_path / "m.onnx", tmp_path / "in.npz", tmp_path / "out.npz"
    path.write_bytes(one("NonZero", ["n", 2], out=I64).SerializeToString())
    assert main(["onnx", str(path), "--shape", "a=3,2"]) == 0
    text = capsys.readouterr().out
    assert "float32 [n, 2]" in text and "on the host: NonZero_0 (NonZero)" in text
    np.savez(data, a=np.float32([[0, 1], [2, 0]]))
    assert main(["onnx", str(path), "--run", str(data), "--out", str(out)]) == 0
    assert "y: int64 [2, 2]" in capsys.readouterr().out
    np.testing.assert_array_equal(np.load(out)["y"], [[0, 1], [1, 0]])
    assert main(["onnx", str(path), "--strict"]) == 1
    assert "strict" in capsys.readouterr().err
    whole, array = data.read_bytes(), tmp_path / "a.npy"
    np.save(array, [0])
    for damaged in (b"", b"PK", whole[:-30], whole[:99] + b"x" + whole[100:], array.read_bytes()):
        data.write_bytes(damaged)
        assert main(["onnx", str(path), "--run", str(data)]) == 1
        assert f"{data}: need an .npz file" in capsys.readouterr().err


def test_mistakes_with_the_command(tmp_path, capsys, monkeypatch):
    path, data = tmp_path / "m.onnx", tmp_path / "in.npz"
    path.write_bytes(one("NonZero", ["n", 2], out=I64).SerializeToString())

    def error(*arguments):
        assert main(["onnx", str(path), *map(str, arguments)]) == 1
        return capsys.readouterr().err.removeprefix("ggml onnx: ").rstrip()

    data.write_text("a text")
    assert error("--run", data) == f"{data}: need an .npz file: arrays by their names, as numpy.savez writes them"
    np.savez(data, a=np.array([{}], object))
    assert error("--run", data) == f"{data}: need an .npz file: array 'a' cannot be read: it has Python objects"
    np.savez(data, a=np.float32([[0, 1], [2, 0]]))
    assert error("-o", tmp_path / "out.npz").startswith("--out needs --run")
    assert error("--run", data, "--shape", "a=2,2").startswith("--shape is for the overview")
    assert error("--shape", "b=2,2") == "--shape names 'b': need an input of the model: a"
    # the name that was given, although numpy.savez would add ".npz"; and an output that is called "file"
    model = one("Neg", ["n", 2])
    model.graph.output[0].name = model.graph.node[0].output[0] = "file"
    path.write_bytes(model.SerializeToString())
    assert main(["onnx", str(path), "--run", str(data), "-o", str(tmp_path / "out")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out")["file"], [[0, -1], [-2, 0]])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.npz", "m.onnx", "out"]
    package = tmp_path / "has_onnx"
    package.mkdir()
    (package / "__init__.py").touch()
    path.rename(package / "m.onnx")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["onnx", "has-onnx", "--run", str(data)]) == 0
    (tmp_path / "g.onnx").write_bytes(b"GGUF")
    path = tmp_path / "g.onnx"
    assert error() == f"{path}: a GGUF file: need an ONNX model"


# ---- ONNX's own tests ------------------------------------------------------------------------------------------------
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "onnx_operators.md"
SHARE = 7  # one case in so many runs here, all of them nightly (scripts/onnx_report.py)


def test_a_share_of_onnx_own_tests():
    """The cases that docs/onnx_operators.md does not list pass."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("onnx_report", DOCUMENT.parent.parent / "scripts" / "onnx_report.py")
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    text = DOCUMENT.read_text(encoding="utf-8")
    if f"of onnx {onnx.__version__} " not in text:
        pytest.skip(f"{DOCUMENT.name} is of another release of onnx than {onnx.__version__}")
    failed, ran = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in report.KINDS:
            for case in report.load_model_tests(kind=kind):
                if zlib.crc32(case.name.encode()) % SHARE or case.name in report.listed():
                    continue
                ran += 1
                reason = report.attempt(report.through_ggml(False), case, report.model_of(case))
                if reason:
                    failed[case.name] = reason
    assert ran > 200 and not failed


def test_some_outputs_alone():
    """Nodes that no wanted output needs do not run, and inputs that only they read may be left out."""
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Add", ["y", "b"], ["z"]),
             helper.make_node("Gather", ["y", "i"], ["w"])]  # fmt: skip
    info = helper.make_tensor_value_info
    inputs = [info("x", 1, ["n"]), info("b", 1, ["n"]), info("i", 7, [1])]
    graph = helper.make_graph(nodes, "g", inputs, [info(n, 1, None) for n in "yzw"])
    model = ggml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    x, b = np.array([1, 2], np.float32), np.array([5, 7], np.float32)
    (y,) = model.run(x, outputs=["y"])
    np.testing.assert_array_equal(y, -x)
    z, y = model.run({"x": x, "b": b}, outputs=["z", "y"])
    np.testing.assert_array_equal(z, b - x)
    np.testing.assert_array_equal(y, -x)
    y[:] = 0
    (z,) = model.run(x=x, b=b, i=np.array([9]), outputs="z")  # this index would be an error
    np.testing.assert_array_equal(z, b - x)
    with pytest.raises(ValueError, match="Model.run: output 'v' is not one of 'y', 'z', 'w'"):
        model.run(x, outputs=["v"])
    with pytest.raises(ValueError, match="Model.run: inputs are missing: 'b'"):
        model.run(x, outputs=["z"])
    assert len(model.run(x, b, np.array([1]))) == 3


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4, 5), (2, 1, 3, 2, 4), (1, 2, 1, 2, 1, 3)])
@pytest.mark.parametrize("fill", [0.0, 2.5, -math.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_constant_padding(shape, fill, dtype):
    """Some axes, all axes, and negative widths, which crop."""
    rng = np.random.default_rng(len(shape))
    x = (rng.normal(size=shape) * 9).astype(dtype)
    fill = np.array(fill if dtype == np.float32 else int(max(fill, -7)), dtype)
    for least in (-1, 0, 1):
        pads = rng.integers(least, 3, (2, len(shape)))
        pads[:, : len(shape) // 2] *= rng.integers(0, 2)
        small = np.array(shape) + np.minimum(pads, 0).sum(0) < 1
        pads[:, small] = 0
        info = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), shape)
        node = helper.make_node("Pad", ["x", "p", "v"], ["y"])
        constants = [numpy_helper.from_array(a, n) for n, a in (("p", pads.ravel()), ("v", fill))]
        graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name="y")], constants)
        (found,) = ggml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])).run(x)
        cut = x[tuple(slice(-min(p, 0), n + min(q, 0)) for n, p, q in zip(shape, *pads))]
        np.testing.assert_array_equal(found, np.pad(cut, np.maximum(pads, 0).T, constant_values=fill))


def test_identities_of_a_constant_share_it():
    """Two products by one matrix under three names, which is held once."""
    w, x = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32), np.ones((2, 256), np.float32)
    nodes = [helper.make_node("Identity", ["w"], ["a"]), helper.make_node("Identity", ["a"], ["b"]),
             helper.make_node("MatMul", ["x", "a"], ["y"]), helper.make_node("MatMul", ["y", "b"], ["z"])]  # fmt: skip
    info = helper.make_tensor_value_info
    outputs = [info("z", 1, None), info("a", 1, None)]
    graph = helper.make_graph(nodes, "g", [info("x", 1, [2, 256])], outputs, [numpy_helper.from_array(w, "w")])
    model = ggml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    z, a = model.run(x)
    np.testing.assert_allclose(z, x @ w @ w, rtol=1e-3, atol=1e-2)
    np.testing.assert_array_equal(a, w)
    a[:] = 0  # the caller's own
    np.testing.assert_allclose(model.run(x)[0], z)
    assert sum(array.nbytes for array in model.engine.arena.arrays if array.size == w.size) == w.nbytes
