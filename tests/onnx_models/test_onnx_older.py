"""Models of older and newer formats: operator sets before 7, functions with overloads, packed and sparse tensors."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from small_onnx import model, one, run  # noqa: E402

import ggml.onnx  # noqa: E402


def ramp(*shape):
    return np.arange(np.prod(shape)).reshape(shape).astype(np.float32)


# ---- operator sets before 7 ------------------------------------------------------------------------------------------
BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power,
          "Less": np.less, "Greater": np.greater}  # fmt: skip


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("axis", [1, 2, -2, None])
@pytest.mark.parametrize("fixed", [False, True])
def test_broadcasting_from_an_axis(op, axis, fixed):
    x, sizes = ramp(2, 3, 3, 5) / 30 + 0.5, {1: (3, 1), 2: (3, 5), -2: (3,), None: (5,)}
    y = ramp(*sizes[axis]) / 4 + 0.75
    attrs = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    node = helper.make_node(op, ["x", "b"], ["y"], **attrs)
    inputs, constants = ({"x": x}, {"b": y}) if fixed else ({"x": x, "b": y}, {})
    (found,) = run([node], inputs, constants=constants, opset=6, ir=3)
    start = x.ndim - y.ndim if axis is None else axis % x.ndim
    want = BINARY[op](x, y.reshape(*y.shape, *(1,) * (x.ndim - start - y.ndim)))
    np.testing.assert_allclose(found, want, rtol=1e-6)
    assert found.dtype == want.dtype


def test_constants_with_an_axis_are_folded():
    nodes = [helper.make_node("Add", ["a", "b"], ["c"], broadcast=1, axis=0)]
    nodes.append(helper.make_node("Add", ["c", "x"], ["y"]))
    x = ramp(2, 3)
    (found,) = run(nodes, {"x": x}, constants={"a": ramp(2, 3), "b": ramp(2)}, opset=6, ir=3)
    np.testing.assert_array_equal(found, 2 * x + [[0], [1]])


def test_an_axis_that_does_not_fit():
    node = helper.make_node("Add", ["x", "b"], ["y"], broadcast=1, axis=2)
    with pytest.raises(ValueError, match=r"node 'Add_0' \(Add\).*axis is 2: the 2 dimensions .* exceed the 3"):
        run([node], {"x": ramp(2, 3, 4), "b": ramp(3, 4)}, opset=6, ir=3)


def test_attributes_with_other_names():
    x = ramp(1, 2, 2, 3)
    pad = helper.make_node("Pad", ["x"], ["y"], paddings=[0, 0, 1, 2, 0, 0, 0, 1], value=7.0)
    np.testing.assert_array_equal(run([pad], {"x": x}, opset=1, ir=3)[0],
                                  np.pad(x, ((0, 0), (0, 0), (1, 0), (2, 1)), constant_values=7))  # fmt: skip
    upsample = helper.make_node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0, mode="nearest")
    np.testing.assert_array_equal(run([upsample], {"x": x}, opset=1, ir=3)[0], x.repeat(2, 2).repeat(3, 3))
    cast = helper.make_node("Cast", ["x"], ["y"], to="INT32")
    (found,) = run([cast], {"x": x + 0.5}, opset=1, ir=3)
    np.testing.assert_array_equal(found, x.astype(np.int32))
    assert found.dtype == np.int32
    dropout = helper.make_node("Dropout", ["x"], ["y"], ratio=0.3, is_test=1, consumed_inputs=[0])
    np.testing.assert_array_equal(run([dropout], {"x": x}, opset=1, ir=3)[0], x)


def test_batch_normalisation_of_each_element():
    r = np.random.default_rng(1)
    x = r.standard_normal((4, 2, 3)).astype(np.float32)
    scale, bias, mean, variance = (r.uniform(0.5, 2, (2, 3)).astype(np.float32) for _ in range(4))
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], spatial=0, epsilon=1e-3)
    want = (x - mean) / np.sqrt(variance + 1e-3) * scale + bias
    for known in (True, False):
        given = dict(zip("sbmv", (scale, bias, mean, variance)))
        inputs, constants = ({"x": x}, given) if known else ({"x": x, **given}, {})
        (found,) = run([node], inputs, constants=constants, opset=7, ir=3)
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=1e-5)


# ONNX 1.5: upsampling takes floor(x / scale), downsampling ceil(x / scale)
@pytest.mark.parametrize("scale, want", [(0.6, [[1, 3]]), (0.5, [[1, 3]]), (1.5, [[1, 1, 2, 3, 3, 4]] * 2)])
def test_nearest_in_version_10(scale, want):
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    want = np.array(want, np.float32)
    if scale > 1:
        want = x[0, 0][np.floor(np.arange(3) / scale).astype(int)][:, np.floor(np.arange(6) / scale).astype(int)]
    node = helper.make_node("Resize", ["x", "s"], ["y"], mode="nearest")
    scales = np.array([1, 1, scale, scale], np.float32)
    np.testing.assert_array_equal(run([node], {"x": x}, constants={"s": scales}, opset=10, ir=5)[0], want[None, None])


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -2])
def test_all_axes_from_one_on(op, axis):
    """Constants are folded by other code than operands."""
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    first = 1 if axis is None else axis % 3
    rows = x.reshape(np.prod(x.shape[:first], dtype=int), -1)
    e = np.exp(rows.astype(np.float64))
    want = e / e.sum(1, keepdims=True)
    want = {"Softmax": want, "LogSoftmax": np.log(want), "Hardmax": rows == rows.max(1, keepdims=True)}[op]
    check_folded(op, {"x": x}, want.reshape(x.shape), 11, **({} if axis is None else {"axis": axis}))


def check_folded(op, operands, want, opset, **attrs):
    """Compares the result of an operator for operands, and for constants."""
    call = helper.make_node(op, list(operands), ["c"], **attrs)
    nodes = [call, helper.make_node("Add", ["c", "zero"], ["y"])]
    zero = np.zeros((), np.float32)
    for fed, constants in ((operands, {"zero": zero}), ({"zero": zero}, operands)):
        (found,) = run(nodes, fed, constants=constants, opset=opset, ir=4)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_constant_images():
    """The first AveragePool leaves its padding out; version 9 of BatchNormalization does not train."""
    x, means = ramp(1, 2, 3, 3), np.array([1, 2], np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (1, 0)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 2), (2, 3))
    attrs = {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}
    nodes = [helper.make_node("AveragePool", ["x"], ["c"], **attrs), helper.make_node("Identity", ["c"], ["y"])]
    for operands, constants in (({"x": x}, {}), ({}, {"x": x})):
        (found,) = run(nodes, operands, constants=constants, opset=1, ir=3)
        np.testing.assert_allclose(found, np.nanmean(windows, (4, 5)), rtol=1e-6)
    operands = {"x": x, "scale": means + 1, "bias": means, "mean": 3 * means, "variance": means / 2}
    scale, bias, mean, variance = (v.reshape(1, 2, 1, 1) for v in list(operands.values())[1:])
    want = scale * (x - mean) / np.sqrt(variance + 1e-5) + bias
    check_folded("BatchNormalization", operands, want, 9)


# ---- newer files -----------------------------------------------------------------------------------------------------
def test_overloads_of_functions():
    def function(op, overload):
        node, opset = helper.make_node(op, ["a"], ["o"]), helper.make_opsetid("", 21)
        made = helper.make_function("my", "F", ["a"], ["o"], [node], [opset])
        made.overload = overload
        return made

    calls = [helper.make_node("F", ["x"], [name], domain="my") for name in "yzw"]
    for call, overload in zip(calls, ("abs", "neg", "")):
        call.overload = overload
    functions = [function("Neg", "neg"), function("Abs", "abs"), function("Sign", "")]
    x = np.array([-2, 3], np.float32)
    found = run(calls, {"x": x}, list("yzw"), domains=[("my", 1)], functions=functions)
    np.testing.assert_array_equal(found, [[2, 3], [2, -3], [-1, 1]])


def test_functions_of_constants():
    """The model's own functions are none of onnx."""
    body = [helper.make_node("Mul", ["a", "a"], ["b"]), helper.make_node("Add", ["b", "a"], ["o"])]
    function = helper.make_function("my", "F", ["a"], ["o"], body, [helper.make_opsetid("", 21)])
    nodes = [helper.make_node("F", ["w"], ["v"], domain="my"), helper.make_node("Add", ["x", "v"], ["y"])]
    x, w = ramp(2, 3), ramp(3)
    options = {"constants": {"w": w}, "domains": [("my", 1)], "functions": [function]}
    np.testing.assert_array_equal(run(nodes, {"x": x}, **options)[0], x + w * w + w)
    nodes = [helper.make_node("F", ["x"], ["y"], domain="my")]
    assert run(nodes, {"x": ramp(0, 3)}, domains=[("my", 1)], functions=[function])[0].shape == (0, 3)


@pytest.mark.parametrize("name", ["int4", "uint4", "float4_e2m1fn", "int2", "uint2"])
@pytest.mark.parametrize("count", [15, 16])
def test_packed_types_in_files(name, count, tmp_path):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    values = np.array([-2, -1, 0, 1] if name[0] != "u" else [0, 1, 2, 3], np.float32)
    whole = np.resize(values, count)
    node = helper.make_node("Cast", ["w"], ["c"], to=TensorProto.FLOAT)
    add = helper.make_node("Add", ["c", "x"], ["y"])
    x = np.ones(count, np.float32)
    try:
        opset = 25 if "2" in name else 23
        made = model([node, add], {"x": x}, constants={"w": whole.astype(dtype)}, opset=opset, ir=11)
    except (KeyError, ValueError, TypeError):
        pytest.skip(f"this onnx has no {name}")
    onnx.save_model(made, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert (tmp_path / "w.bin").stat().st_size < count  # several elements in a byte
    np.testing.assert_array_equal(ggml.onnx.load(tmp_path / "m.onnx").run(x)[0], whole + 1)
    (tmp_path / "w.bin").write_bytes((tmp_path / "w.bin").read_bytes()[:-1])
    with pytest.raises(ggml.onnx.ModelError, match="'w' needs bytes 0 to"):
        ggml.onnx.load(tmp_path / "m.onnx")


def test_sparse_constants():
    values, x = helper.make_tensor("v", TensorProto.FLOAT, [2], [1.0, 2.0]), np.ones((2, 4), np.float32)
    for indices in ([1, 7], [[0, 1], [1, 3]]):
        places = numpy_helper.from_array(np.array(indices, np.int64), "i")
        sparse = helper.make_sparse_tensor(values, places, [2, 4])
        constant = helper.make_node("Constant", [], ["w"], sparse_value=sparse)
        (found,) = run([constant, helper.make_node("Add", ["x", "w"], ["y"])], {"x": x})
        np.testing.assert_array_equal(found, x + [[0, 1, 0, 0], [0, 0, 0, 2]])


# ---- recurrent operators without time steps --------------------------------------------------------------------------
@pytest.mark.parametrize("op, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("started", [False, True])
def test_no_time_steps(op, gates, direction, started):
    n, batch, hidden = (2 if direction == "bidirectional" else 1), 3, 4
    constants = {"w": ramp(n, gates * hidden, 5), "r": ramp(n, gates * hidden, hidden)}
    names = ["x", "w", "r"]
    if started:
        names += ["", "", "h"]
        constants["h"] = ramp(n, batch, hidden)
    outputs = ["y", "last"] + ["cell"] * (op == "LSTM")
    node = helper.make_node(op, names, outputs, hidden_size=hidden, direction=direction)
    found = run([node], {"x": np.zeros((0, batch, 5), np.float32)}, outputs, constants=constants)
    assert found[0].shape == (0, n, batch, hidden)
    np.testing.assert_array_equal(found[1], constants.get("h", np.zeros((n, batch, hidden))))
    assert op != "LSTM" or not found[2].any()


# ---- NaN -------------------------------------------------------------------------------------------------------------
COMPARISONS = {"Max": np.maximum, "Min": np.minimum, "Less": np.less, "Greater": np.greater, "Equal": np.equal,
               "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal}  # fmt: skip


@pytest.mark.parametrize("op, function", COMPARISONS.items())
def test_nan_is_compared_as_in_numpy(op, function):
    values = np.array([np.nan, -np.inf, -1, 0, 2, np.inf], np.float32)
    x, y = np.repeat(values[:, None], 6, 1), np.broadcast_to(values, (6, 6)).copy()
    node = helper.make_node(op, ["x", "b"], ["y"])
    for a, b in ((x, y), (x, values), (x, values[4:5])):
        (found,) = run([node], {"x": a, "b": b}, opset=17, ir=8)
        np.testing.assert_array_equal(found, function(a, b))


# ---- what onnxruntime runs besides -----------------------------------------------------------------------------------
@pytest.mark.parametrize(("n", "kernel", "stride", "pad", "values"), [
    (2, 3, 1, 0, []), (2, 4, 3, 0, [2.0, 1.5, 1.5]), (2, 3, 2, 0, [2.0, 1.5, 1.5]), (2, 5, 2, 1, [2.0, 1.5, 0.75]),
    (3, 7, 5, 1, [3.0, 2.0, 1.2]), (3, 9, 4, 0, [])])  # fmt: skip
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_windows_larger_than_the_image(n, kernel, stride, pad, values, ceil_mode):
    """They are cut, if they are too large by less than a stride. The values are those of onnxruntime 1.32."""
    attrs = {"kernel_shape": [kernel], "strides": [stride], "pads": [pad, pad], "ceil_mode": ceil_mode}
    x = np.arange(1, n + 1, dtype=np.float32).reshape(1, 1, n)
    found = [one("MaxPool", x, **attrs)]
    found += [one("AveragePool", x, count_include_pad=k, **attrs) for k in (0, 1)]
    assert [f.shape for f in found] == [(1, 1, 1 if values else 0)] * 3
    np.testing.assert_allclose(np.ravel(found), values, rtol=1e-6)
    with pytest.raises(ValueError, match=r"a window of \[6\] does not fit into \[2\]"):
        one("MaxPool", np.zeros((1, 1, 2), np.float32), kernel_shape=[6], strides=[2])


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("given", [1, 2, 3])
def test_boxes_that_do_not_overlap(centred, given):
    rng = np.random.default_rng(given)
    low = rng.random((2, 30, 2), np.float32)
    size = rng.random((2, 30, 2), np.float32) / 2
    boxes = np.concatenate([low, size] if centred else [low, low + size], 2)
    scores = rng.random((2, 3, 30), np.float32).round(2)
    limits = [np.array([7]), np.array([0.3], np.float32), np.array([0.4], np.float32)][:given]
    found = one("NonMaxSuppression", boxes, scores, *limits, center_point_box=centred)
    share, least = (0.3 if given > 1 else 0.0), (0.4 if given > 2 else -1.0)
    start = low - size / 2 if centred else low
    want = [[i, j, k] for i in range(2) for j in range(3) for k in kept(start[i], size[i], scores[i, j], share, least)]
    assert found.tolist() == want and found.dtype == np.int64


def kept(low, size, scores, share, least, most=7):
    """The numbers of at most so many boxes."""
    chosen = []
    for k in sorted(range(len(scores)), key=lambda k: -scores[k]):
        if scores[k] <= least or len(chosen) == most:
            break
        for c in chosen:
            both = np.prod(np.maximum(np.minimum(low[k] + size[k], low[c] + size[c]) - np.maximum(low[k], low[c]), 0))
            if both / (np.prod(size[k]) + np.prod(size[c]) - both) > share:
                break
        else:
            chosen.append(k)
    return chosen


@pytest.mark.parametrize("share", [0.0, 0.25, 0.7])
def test_many_boxes_that_do_not_overlap(share):
    rng = np.random.default_rng(5)
    low, size = rng.random((300, 2), np.float32) * 6, rng.random((300, 2), np.float32)
    size[::9, 0] = 0  # without area
    boxes = np.concatenate([low + size, low], 1)  # the larger corner first
    scores = rng.random(300, np.float32).round(2)
    limits = np.array([250]), np.array([share], np.float32)
    found = one("NonMaxSuppression", np.asfortranarray(boxes[None]), scores[None, None], *limits)
    with np.errstate(invalid="ignore"):
        want = kept(low, size, scores, share, -1.0, 250)
    assert found[:, 2].tolist() == want and len(want) > 100 and not found[:, :2].any()


@pytest.mark.parametrize("least", [None, -np.inf, -0.5, 0.0])
def test_boxes_of_any_scores(least):
    """Equal scores, of which -0 and 0 are two, keep the order of the boxes; NaN comes last, and is above no limit."""
    scores = np.array([0, -1, np.nan, np.inf, -0.0, -np.inf, 2, -1, np.nan, 0, 2, 1e-40, -1e-40], np.float32)
    low = np.arange(len(scores), dtype=np.float32)[:, None].repeat(2, 1)
    limits = [np.array([20]), np.array([0.5], np.float32)] + ([] if least is None else [np.array([least], np.float32)])
    found = one("NonMaxSuppression", np.concatenate([low, low + 1], 1)[None], scores[None, None], *limits)
    order = [k for k in (-scores).argsort(kind="stable") if least is None or scores[k] > least]
    assert found[:, 2].tolist() == order


def test_boxes_without_a_limit_are_none():
    found = one("NonMaxSuppression", np.ones((1, 4, 4), np.float32), np.ones((1, 1, 4), np.float32))
    assert found.shape == (0, 3)


def test_operators_of_version_1_alone():
    x = ramp(2, 3, 4, 5)
    found = one("ImageScaler", x, scale=0.5, bias=[1.0, 2.0, 3.0])
    np.testing.assert_array_equal(found, x * 0.5 + np.array([1, 2, 3], np.float32)[:, None, None])
    np.testing.assert_array_equal(one("Crop", x, border=[1, 0, 2, 1]), x[:, :, 0:3, 1:3])
    np.testing.assert_array_equal(one("Crop", x, border=[1, 2, 0, 0], scale=[2, 3]), x[:, :, 2:4, 1:4])
    with pytest.raises(ValueError, match="entries 4 to 6 of an axis of 5"):
        one("Crop", x, border=[4, 0, 0, 0], scale=[2, 2])
    found = one("ParametricSoftplus", x, alpha=2.0, beta=0.1)
    np.testing.assert_allclose(found, 2 * np.log1p(np.exp(0.1 * x)), rtol=1e-6)
