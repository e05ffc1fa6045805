"""Models of QuantizeLinear and DequantizeLinear, and QLinear operators: products are computed with bytes."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")  # part of the [test] extra; not installed on emulated CPUs

from one_operator import through_onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from small_onnx import one  # noqa: E402

import ggml  # noqa: E402
import ggml.onnx  # noqa: E402
from ggml._params import params_of  # noqa: E402

N, STEP = 10, 0.05  # output channels, the scale of the result
SHAPES = {
    "Conv": ((1, 6, 12, 14), (N, 6, 3, 3), 0),
    "MatMul": ((1, 15, 24), (24, N), 1),
    "Gemm": ((15, 24), (N, 24), 0),
}  # of the input and the weights, and the axis of the output channels


def model_of(nodes, constants, shape, outputs):
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(
        [helper.make_node(op, i.split(), [o], **attrs) for op, i, o, attrs in nodes],
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def constants_of(shape, axis, kind, vector):
    """Scales and zero points of an input x, weights w and a result y, a bias b of integers, and the codes of w."""
    random = np.random.default_rng(0)
    limits = np.iinfo(kind)
    n = shape[axis]
    middle = 0 if kind == np.int8 else 128
    return {
        "sx": np.float32(0.02),
        "zx": np.uint8(120),
        "sy": np.float32(STEP),
        "zy": np.uint8(128),
        "w": random.integers(limits.min, limits.max + 1, shape).astype(kind),
        "sw": random.uniform(0.001, 0.01, n).astype(np.float32) if vector else np.float32(0.004),
        "zw": np.full(n, middle, kind) if vector else kind(3),
        "b": random.integers(-1000, 1000, N).astype(np.int32),
    }


def floats(*shape):
    return np.random.default_rng(1).uniform(-2.5, 2.5, shape).astype(np.float32)


def weights_are_bytes(model, x):
    """Whether all products of the model read weights of bytes."""
    graph, kinds = model.graph(x), []
    for i in range(ggml.ggml_graph_n_nodes(graph)):
        node = ggml.ggml_graph_node(graph, i).contents
        if node.op in (ggml.GGML_OP_MUL_MAT, ggml.GGML_OP_CONV_2D):
            kinds.append(node.src[0].contents.type)
    assert kinds
    return set(kinds) == {ggml.GGML_TYPE_I8}


def near(got, wanted):
    """Results that are rounded to STEP: one step apart where the sums lie half way."""
    assert got.shape == wanted.shape
    apart = np.abs(got - wanted)
    assert apart.max() <= 1.01 * STEP and (apart > 1e-6).mean() < 0.01


@pytest.mark.parametrize("vector", [False, True], ids=["one scale", "scales"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("op", SHAPES)
def test_pairs_fold_onto_products_of_bytes(op, kind, vector):
    shape, w, axis = SHAPES[op]
    constants = {**constants_of(w, axis, kind, vector), "sb": np.full(N, 1e-3, np.float32), "zb": np.zeros(N, np.int32)}
    attrs = {"Conv": {"pads": [1] * 4}, "Gemm": {"transB": 1}}.get(op, {})
    last = [(op, "xf wf bf", "y", attrs)]
    if op == "MatMul":
        last = [(op, "xf wf", "m", {}), ("Add", "m bf", "y", {})]
    model = model_of(
        [
            ("QuantizeLinear", "x sx zx", "xq", {}),
            ("DequantizeLinear", "xq sx zx", "xf", {}),
            ("DequantizeLinear", "w sw zw", "wf", {"axis": axis}),
            ("DequantizeLinear", "b sb zb", "bf", {"axis": 0}),
            *last,
            ("QuantizeLinear", "y sy zy", "yq", {}),
            ("DequantizeLinear", "yq sy zy", "z", {}),
        ],
        constants,
        shape,
        "yz",
    )
    x = floats(*shape)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})
    ours = ggml.onnx.load(model, strict=True)
    y, z = ours.run(x)
    np.testing.assert_allclose(y, wanted[0], rtol=1e-5, atol=1e-5 * np.abs(wanted[0]).max())
    near(z, wanted[1])
    assert weights_are_bytes(ours, x)


def products_of_integers(model, x):
    """For each product of the model whether it is one of whole numbers."""
    graph = model.graph(x)
    nodes = [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]
    return [bool(params_of(t.contents).whole) for t in nodes if t.contents.op == ggml.GGML_OP_MUL_MAT]


@pytest.mark.parametrize("rows, whole", [(70, True), (3, False)])
@pytest.mark.parametrize("linear", [False, True], ids=["pairs", "QLinearMatMul"])
def test_products_of_computed_codes(linear, rows, whole):
    """Of computed operands, each with one scale: exact sums, unless there are few rows."""
    constants = {k: v for k, v in constants_of((24, N), 1, np.uint8, False).items() if k[0] in "sz"}
    quantised = [("QuantizeLinear", "x sx zx", "xq", {}), ("QuantizeLinear", "x sw zw", "wq", {})]
    turned = ("Transpose", "wq", "tq", {"perm": [0, 2, 1]})
    if linear:
        last = [("QLinearMatMul", "xq sx zx tq sw zw sy zy", "yq", {}), ("DequantizeLinear", "yq sy zy", "y", {})]
    else:
        pairs = [("DequantizeLinear", "xq sx zx", "xf", {}), ("DequantizeLinear", "tq sw zw", "tf", {})]
        last = [*pairs, ("MatMul", "xf tf", "y", {})]
    model = model_of([*quantised, turned, *last], constants, (3, rows, 40), ["xq", "wq", "y"])
    x = floats(3, rows, 40) / 4
    ours = ggml.onnx.load(model, strict=True, threads=2)
    xq, wq, y = ours.run(x)
    a, b = xq.astype(np.int64) - int(constants["zx"]), wq.astype(np.int64) - int(constants["zw"])
    wanted = (a @ b.swapaxes(1, 2)).astype(np.float32) * (constants["sx"] * constants["sw"])
    if linear:
        near(y, ((wanted / STEP).round() + 128).clip(0, 255).astype(np.float32) * np.float32(STEP) - 128 * STEP)
    elif whole:
        np.testing.assert_array_equal(y, wanted)
    else:
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
    assert products_of_integers(ours, x) == [whole]


def test_products_of_computed_codes_with_scales():
    """An operand with a scale for each row is one of floats."""
    constants = constants_of((24, 70), 1, np.uint8, True)
    model = model_of(
        [
            ("QuantizeLinear", "x sx zx", "xq", {}),
            ("DequantizeLinear", "xq sx zx", "xf", {}),
            ("Transpose", "x", "t", {"perm": [1, 0]}),
            ("QuantizeLinear", "t sw zw", "tq", {"axis": 1}),
            ("DequantizeLinear", "tq sw zw", "tf", {"axis": 1}),
            ("MatMul", "xf tf", "y", {}),
        ],
        {k: v for k, v in constants.items() if k in ("sx", "zx", "sw", "zw")},
        (70, 40),
        "y",
    )
    x = floats(70, 40) / 4
    ours = ggml.onnx.load(model, strict=True)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(ours.run(x)[0], wanted, rtol=1e-4, atol=1e-5)
    assert products_of_integers(ours, x) == [False]


def convolution_of_groups(groups, outputs, kind):
    """A convolution with a bias and Relu between pairs; the model gives its floats and what they are rounded to."""
    constants = constants_of((outputs, 6 // groups, 3, 3), 0, kind, True)
    constants.update(
        sb=constants["sw"] * constants["sx"], b=np.arange(outputs, dtype=np.int32) * 100, zb=np.zeros(outputs, np.int32)
    )
    return model_of(
        [
            ("QuantizeLinear", "x sx zx", "xq", {}),
            ("DequantizeLinear", "xq sx zx", "xf", {}),
            ("DequantizeLinear", "w sw zw", "wf", {"axis": 0}),
            ("DequantizeLinear", "b sb zb", "bf", {"axis": 0}),
            ("Conv", "xf wf bf", "y", {"group": groups, "pads": [1] * 4}),
            ("Relu", "y", "r", {}),
            ("QuantizeLinear", "r sy zy", "yq", {}),
            ("DequantizeLinear", "yq sy zy", "z", {}),
        ],
        constants,
        SHAPES["Conv"][0],
        "yz",
    ), floats(*SHAPES["Conv"][0])


GROUPS = pytest.mark.parametrize("groups, outputs", [(1, N), (2, N), (6, 12), (6, 6)])


@GROUPS
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_pairs_around_groups(groups, outputs, kind):
    """Products of bytes, except where each channel is a group of its own, which floats compute."""
    model, x = convolution_of_groups(groups, outputs, kind)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})
    ours = ggml.onnx.load(model, strict=True)
    y, z = ours.run(x)
    np.testing.assert_allclose(y, wanted[0], rtol=1e-5, atol=1e-5 * np.abs(wanted[0]).max())
    near(z, wanted[1])
    if groups < outputs:
        assert weights_are_bytes(ours, x)


@GROUPS
def test_pairs_as_onnxruntime(groups, outputs):
    model, x = convolution_of_groups(groups, outputs, np.int8)
    del model.graph.output[0]  # without this output of floats, onnxruntime computes with bytes too
    near(ggml.onnx.load(model, strict=True).run(x)[0], through_onnxruntime(model, {"x": x})[0])


def test_pairs_of_another_domain():
    """Older models have these operators of the domain com.microsoft, whose constants the onnx package cannot fold."""
    shape, w, axis = SHAPES["Conv"]
    constants = constants_of(w, axis, np.uint8, False)
    last = [
        ("Conv", "xf wf", "y", {"pads": [1] * 4}),
        ("QuantizeLinear", "y sy zy", "yq", {}),
        ("DequantizeLinear", "yq sy zy", "z", {}),
    ]
    model = model_of(
        [
            ("QuantizeLinear", "x sx zx", "xq", {}),
            ("DequantizeLinear", "xq sx zx", "xf", {}),
            ("DequantizeLinear", "w sw zw", "wf", {}),
            *last,
        ],
        constants,
        shape,
        "z",
    )
    x = floats(*shape)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    for node in model.graph.node:
        node.domain = "" if node.op_type == "Conv" else "com.microsoft"
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    ours = ggml.onnx.load(model, strict=True)
    near(ours.run(x)[0], wanted)
    assert weights_are_bytes(ours, x)


def test_scales_along_the_sums_do_not_fold():
    """Of a square matrix: as many scales as columns, but along the other axis."""
    constants = constants_of((N, N), 0, np.int8, True)
    model = model_of(
        [
            ("QuantizeLinear", "x sx zx", "xq", {}),
            ("DequantizeLinear", "xq sx zx", "xf", {}),
            ("DequantizeLinear", "w sw zw", "wf", {"axis": 0}),
            ("MatMul", "xf wf", "y", {}),
        ],
        constants,
        (4, N),
        "y",
    )
    x = floats(4, N)
    ours = ggml.onnx.load(model, strict=True)
    np.testing.assert_allclose(ours.run(x)[0], ReferenceEvaluator(model).run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)
    assert not weights_are_bytes(ours, x)


@pytest.mark.parametrize("vector", [False, True], ids=["one scale", "scales"])
@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_operators_of_bytes(op, vector):
    shape, w, axis = SHAPES[op]
    constants = constants_of(w, axis, np.int8, vector)
    attrs = {"pads": [1] * 4} if op == "Conv" else {}
    model = model_of(
        [
            ("QuantizeLinear", "x sx zx", "xq", {}),
            ("QLinear" + op, "xq sx zx w sw zw sy zy" + " b" * (op == "Conv"), "yq", attrs),
            ("DequantizeLinear", "yq sy zy", "y", {}),
        ],
        constants,
        shape,
        "y",
    )
    x = floats(*shape)
    codes = np.clip(np.rint(x / constants["sx"]) + 120, 0, 255) - 120
    scale, zero = (
        np.asarray(constants[n]).reshape([-1 if a == axis else 1 for a in range(len(w))]) for n in ("sw", "zw")
    )
    kernel = (constants["w"].astype(np.float64) - zero) * scale
    inner = model_of(
        [(op, "x w" + " b" * (op == "Conv"), "y", attrs)],
        {"w": kernel.astype(np.float32), "b": (constants["b"] * constants["sw"]).astype(np.float32)},
        shape,
        "y",
    )
    sums = ReferenceEvaluator(inner).run(None, {"x": codes.astype(np.float32)})[0] * constants["sx"]
    wanted = (np.clip(np.rint(sums / STEP) + 128, 0, 255) - 128) * STEP
    ours = ggml.onnx.load(model, strict=True)
    near(ours.run(x)[0], wanted)
    assert weights_are_bytes(ours, x)
    if op == "Conv":  # which adds the bias; the scales of its sums and of the result are one
        graph = ours.graph(x)
        nodes = [ggml.ggml_graph_node(graph, i).contents for i in range(ggml.ggml_graph_n_nodes(graph))]
        names = [ggml.ggml_op_name(t.op).decode() for t in nodes]
        conv = names.index("CONV_2D")
        assert nodes[conv].src[2] and names[conv + 1] == "QUANTIZE_LINEAR" and names.count("MUL") == 1


def test_floats_of_weights_are_made_where_something_reads_them():
    """A product of bytes reads the codes."""
    w = np.random.default_rng(2).integers(-128, 128, (24, N)).astype(np.int8)
    nodes = [
        ("QuantizeLinear", "x one middle", "q", {}),
        ("DequantizeLinear", "q one middle", "d", {}),
        ("DequantizeLinear", "w scale", "f", {"axis": 1}),
        ("MatMul", "d f", "y", {}),
    ]
    constants = {"w": w, "one": np.float32(1), "middle": np.uint8(128), "scale": np.full(N, 0.5, np.float32)}
    x = np.random.default_rng(3).integers(-128, 128, (7, 24)).astype(np.float32)
    for read in (False, True):
        more = [("Mul", "f one", "g", {})] * read
        model = ggml.onnx.load(model_of([*nodes, *more], constants, ("n", 24), ["y", "g"][: 1 + read]))
        got, *others = model.run(x)
        near(got, x @ w * 0.5)
        assert isinstance(model.program.known["f"].made, np.ndarray) == read
        assert all(np.array_equal(g, w * np.float32(0.5)) for g in others)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_weights_of_bytes_are_held_once(kind):
    """In the memory of the tensor, which has unsigned bytes less 128. A second shape of the input uses it too."""
    w = np.random.default_rng(2).integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, (24, N)).astype(kind)
    constants = {"w": w, "one": np.float32(1), "middle": np.uint8(128), "zx": np.uint8(3), "zw": kind(5)}
    model = ggml.onnx.load(
        model_of(
            [
                ("QuantizeLinear", "x one middle", "q", {}),
                ("MatMulInteger", "q w zx zw", "i", {}),
                ("Cast", "i", "y", {"to": TensorProto.FLOAT}),
            ],
            constants,
            ("n", 24),
            ["y"],
        )
    )
    x = np.random.default_rng(3).integers(-128, 128, (7, 24)).astype(np.float32)
    for n in (3, 7):
        (got,) = model.run(x[:n])
        np.testing.assert_array_equal(got, (x[:n] + 125) @ (w.astype(np.float32) - 5))
    weights = model.constants["w"]
    assert weights.array.dtype == kind
    assert np.array_equal(weights.array, w)
    graph = model.graph(x)
    tensors = (ggml.ggml_graph_node(graph, i).contents for i in range(ggml.ggml_graph_n_nodes(graph)))
    addresses = [ggml.ggml_get_data(t.src[0]) for t in tensors if t.op == ggml.GGML_OP_MUL_MAT]
    assert addresses == [weights.held.T.ctypes.data]


@pytest.mark.parametrize("readers", [1, 2])
def test_a_bias_of_whole_numbers_is_added_by_the_convolution(readers):
    """As quantisers write a convolution whose input is quantised when it is known. Sums that others read stay sums."""
    random = np.random.default_rng(1)
    constants = {"w": random.integers(-128, 128, (N, 6, 3, 3)).astype(np.int8), "zw": np.int8(0),
                 "b": random.integers(-9999, 9999, (1, N, 1, 1)).astype(np.int32)}  # fmt: skip
    nodes = [("ConvInteger", "q w z zw", "sums", {"pads": [1, 1, 1, 1]}), ("Add", "sums b", "all", {}),
             ("Cast", "all", "f", {"to": TensorProto.FLOAT}), ("Mul", "f s", "y", {})]  # fmt: skip
    if readers == 2:
        nodes.append(("Cast", "sums", "y2", {"to": TensorProto.FLOAT}))
    outputs = ["y", "y2"][:readers]
    proto = model_of(nodes, constants, (1, 6, 12, 14), outputs)
    quantise = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    proto.graph.node.insert(0, quantise)
    model, x = ggml.onnx.load(proto, strict=True), floats(1, 6, 12, 14)
    for got, wanted in zip(model.run(x), ReferenceEvaluator(proto).run(None, {"x": x})):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
    graph = model.graph(x)
    found = [ggml.ggml_graph_node(graph, i).contents for i in range(ggml.ggml_graph_n_nodes(graph))]
    biased = {bool(t.src[2]) for t in found if t.op == ggml.GGML_OP_CONV_2D}
    assert biased == {readers == 1}


@pytest.mark.parametrize("x", [np.zeros((2, 3), np.float32), np.full((4, 1, 2, 3, 5), 2.5, np.float32),
                               -np.abs(floats(3, 7)), floats(2, 3, 2, 3, 4)])  # fmt: skip
def test_dynamic_quantize_linear(x):
    """All results are those of the definition; tensors of zeros are codes of 0."""
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])]
    kinds = {"q": TensorProto.UINT8, "s": TensorProto.FLOAT, "z": TensorProto.UINT8}
    outputs = [helper.make_tensor_value_info(n, kind, None) for n, kind in kinds.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    graph = helper.make_graph(nodes, "test", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    codes, scale, zero = ggml.onnx.load(model, strict=True).run(x)
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    assert scale == (high - low) / np.float32(255) or not x.any() and 0 < scale < 1e-30
    assert codes.dtype == zero.dtype == np.uint8 and zero == np.round(-low / scale)
    np.testing.assert_array_equal(codes, np.clip(np.round(x / scale) + zero, 0, 255))


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("scales", [1, 3])
def test_codes_are_read_with_and_without_their_zero_point(kind, scales):
    """A QuantizeLinear whose result is an output, is converted, and is dequantised: by a zero point of its own too."""
    shape, axis = (2, 3, 5), 1
    scale = np.linspace(0.02, 0.05, scales, dtype=np.float32).reshape(() if scales == 1 else (3,))
    zero = np.full(scale.shape, 7, kind)
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=axis),
             helper.make_node("DequantizeLinear", ["q", "s", "other"], ["w"], axis=axis),
             helper.make_node("Cast", ["q"], ["f"], to=TensorProto.FLOAT)]  # fmt: skip
    constants = [numpy_helper.from_array(a, n) for n, a in (("s", scale), ("z", zero), ("other", zero - kind(3)))]
    kinds = {"q": helper.np_dtype_to_tensor_dtype(np.dtype(kind)), **dict.fromkeys("ywf", TensorProto.FLOAT)}
    outputs = [helper.make_tensor_value_info(n, k, shape) for n, k in kinds.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "test", inputs, outputs, constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model, x = ggml.onnx.load(proto, strict=True), 4 * floats(*shape)
    for got, wanted in zip(model.run(x), ReferenceEvaluator(proto).run(None, {"x": x})):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("length", [3, 8])
@pytest.mark.parametrize("constant", [False, True])
def test_parameters_for_other_columns(length, constant):
    """A zero point or a scale per column does not make a matrix of one column wider."""
    x, y = np.ones((4, 5), np.uint8), np.ones((5, 1), np.int8)
    zero, scale = np.zeros(length, np.int8), np.ones(length, np.float32)
    number = [("n", np.uint8(1))]
    cases = [
        ("MatMulInteger", [x, y], [*number, ("z", zero)], {}),
        ("DequantizeLinear", [y], [("s", scale), ("z", zero)], {"axis": 1}),
        ("QuantizeLinear", [y.astype(np.float32)], [("s", scale), ("z", zero)], {"axis": 1}),
    ]
    for op, operands, more, attrs in cases:
        given = {"constants": more} if constant else {}
        arrays = operands if constant else [*operands, *(v for _, v in more)]
        with pytest.raises(ValueError, match=f"{op}.*(zero point|scale)|shape"):
            one(op, *arrays, **given, **attrs)
