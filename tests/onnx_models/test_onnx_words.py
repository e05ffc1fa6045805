"""What ggml.onnx says about files and models that it cannot run, and what it returns for ZipMap."""

import gzip
import re
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402
from python_command import PYTHON  # noqa: E402
from small_onnx import model  # noqa: E402

import ggml.onnx  # noqa: E402
from ggml._cli import main  # noqa: E402

X = {"x": np.ones((2, 3), np.float32)}


# ---- files -----------------------------------------------------------------------------------------------------------
def relu():
    return model([helper.make_node("Relu", ["x"], ["y"])], X).SerializeToString()


@pytest.mark.parametrize("data, words", [
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12345\n", "a pointer of Git LFS"),
    (gzip.compress(relu()), "compressed by gzip"), (b" \0\0\0ORTM" + bytes(200), "the format of onnxruntime"),
    (b"just some words\n", "a file of text"), (b"<!DOCTYPE html><html>", "a page of HTML"),
    (b'{"a": 1}', "a JSON file"),
    (b"GGUF\3\0\0\0" + bytes(60), "a GGUF file"), (b"PK\3\4" + bytes(80), "an archive or a pickle"),
])  # fmt: skip
def test_other_files_are_named(data, words, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    for given, place in ((data, "ggml.onnx.load"), (path, f"ggml.onnx.load: {path}")):
        with pytest.raises(ggml.onnx.ModelError, match=f"^{re.escape(place)}: not an ONNX model: .*{words}"):
            ggml.onnx.load(given)


# ---- models ----------------------------------------------------------------------------------------------------------
def unknown():
    inner = helper.make_node("Bar", ["x"], ["b"], domain="my")
    output = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    branches = {name: helper.make_graph([inner], name, [], [output]) for name in ("then_branch", "else_branch")}
    condition = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.BOOL, [], [True]))
    nodes = [helper.make_node("Foo", ["x"], ["f"], name="first"), helper.make_node("Foo", ["f"], ["g"], name="second"),
             condition, helper.make_node("If", ["c"], ["y"], **branches)]  # fmt: skip
    return model(nodes, X, domains=[("my", 1)])


def test_models_for_one_kind_of_cpu():
    node = helper.make_node("ReorderInput", ["x"], ["y"], domain="com.microsoft.nchwc")
    with pytest.raises(ggml.onnx.ModelError, match=r"com.microsoft.nchwc.ReorderInput .*: .* with ORT_ENABLE_EXTENDED"):
        ggml.onnx.load(model([node], X, domains=[("com.microsoft.nchwc", 1)]))


def test_all_unknown_operators_are_named_at_loading(tmp_path, capsys):
    words = r"^ggml.onnx.load: there is no implementation of Foo \(node 'first' and 1 more\), my.Bar \(node 'Bar_0'"
    with pytest.raises(ggml.onnx.ModelError, match=words):
        ggml.onnx.load(unknown())
    onnx.save(unknown(), tmp_path / "m.onnx")
    assert main(["onnx", str(tmp_path / "m.onnx")]) == 1
    listed = capsys.readouterr().out.splitlines()
    assert [line.split() for line in listed[1:]] == [["Foo", "first"], ["Foo", "second"], *[["my.Bar", "Bar_0"]] * 2]


@pytest.mark.parametrize("body, words", [
    ([helper.make_node("Neg", ["x"], ["o"])], r"\(Neg\) of function 'F' reads 'x', which nothing defines"),
    ([helper.make_node("Neg", ["a"], ["b"])], "output 'o' of function 'F' is defined by nothing"),
    ([helper.make_node("Neg", ["b"], ["o"]), helper.make_node("Abs", ["a"], ["b"])], r"\(Neg\) of .* reads 'b'"),
])  # fmt: skip
def test_functions_that_read_what_nothing_defines(body, words):
    """A function does not see the names of the graph that calls it."""
    function = helper.make_function("my", "F", ["a"], ["o"], body, [helper.make_opsetid("", 21)])
    call = helper.make_node("F", ["x"], ["y"], domain="my")
    with pytest.raises(ggml.onnx.ModelError, match=words):
        ggml.onnx.load(model([call], X, domains=[("my", 1)], functions=[function]))


def test_an_operator_that_a_function_defines_is_known():
    body = helper.make_node("Neg", ["a"], ["o"])
    function = helper.make_function("my", "F", ["a"], ["o"], [body], [helper.make_opsetid("", 21)])
    call = helper.make_node("F", ["x"], ["y"], domain="my")
    (found,) = ggml.onnx.load(model([call], X, domains=[("my", 1)], functions=[function])).run(X)
    np.testing.assert_array_equal(found, -X["x"])


def test_a_required_attribute_that_is_missing():
    node = helper.make_node("Concat", ["x", "x"], ["y"], name="joined")
    words = r"node 'joined' \(Concat\) lacks the attribute 'axis', which version 13"
    with pytest.raises(ggml.onnx.ModelError, match=words):
        ggml.onnx.load(model([node], X))
    with pytest.raises(ggml.onnx.ModelError, match="lacks the attribute 'to'"):
        ggml.onnx.load(model([helper.make_node("Cast", ["x"], ["y"])], X))


def test_a_dimension_with_two_sizes():
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 2]) for n in "ab"]

    def loaded(node):
        graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        return ggml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))

    a, b = np.ones((2, 2), np.float32), np.ones((1, 2), np.float32)
    with pytest.raises(ValueError, match=r"dimension 'N' is 2 in input 'a' and 1 in input 'b'"):
        loaded(helper.make_node("Concat", ["a", "b"], ["y"], axis=1)).run(a, b)
    np.testing.assert_array_equal(loaded(helper.make_node("Add", ["a", "b"], ["y"])).run(a, b)[0], a + b)  # allowed


def test_messages_of_the_reference_do_not_come_through():
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1)
    with pytest.raises((RuntimeError, ValueError)) as raised:
        ggml.onnx.load(model([node], X, domains=[("ai.onnx.ml", 99)])).run(X)
    assert "recompile" not in str(raised.value) and "known functions" not in str(raised.value)


@pytest.mark.parametrize(("node", "shapes"), [
    (helper.make_node("Det", ["a"], ["y"], name="n"), ((2, 3),)),
    (helper.make_node("Einsum", ["a", "b"], ["y"], name="n", equation="ij,jk->ik"), ((2, 3), (4, 5)))])  # fmt: skip
def test_operands_that_do_not_fit_on_the_host(node, shapes):
    """Numbers of 64 bits are computed by the reference, whose messages name its own functions."""
    values = {n: np.ones(s) for n, s in zip("ab", shapes)}
    with pytest.raises((RuntimeError, ValueError)) as raised:
        ggml.onnx.load(model([node], values)).run(values)
    text = str(raised.value)
    assert text.startswith(f"Model.run: node 'n' ({node.op_type}) with 'a' ({shapes[0][0]}, ")
    assert "operands of float64" in text and "do not fit the operator" in text


@pytest.mark.parametrize(("equation", "shapes", "words"), [
    ("ij,jk->ik", ((2, 3), (4, 5)), "the equation 'ij,jk->ik' has 'j' of 3 and of 4 entries"),
    ("ij,jk->ik", ((2, 3),), "has 2 terms for 1 operands"),
    ("...i,i", ((2, 3), (4,)), "has 'i' of 3 and of 4 entries"),
    ("ijk->i", ((2, 3),), r"has the term 'ijk' for an operand of shape \[2, 3\]"),
    ("ij->z", ((2, 3),), "gives 'z', which no term has"), ("ij->ii", ((2, 3),), "gives 'i', which no .* or twice"),
])  # fmt: skip
def test_equations_that_do_not_fit(equation, shapes, words):
    values = {n: np.ones(s, np.float32) for n, s in zip("ab", shapes)}
    node = helper.make_node("Einsum", list(values), ["y"], name="n", equation=equation)
    with pytest.raises(ggml.onnx.NodeError, match=rf"^Model.run: node 'n' \(Einsum\) with 'a' \[2, 3\].*{words}"):
        ggml.onnx.load(model([node], values)).run(values)


def floats(*shape):
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(("op", "operands", "attrs", "words"), [
    ("MatMul", (floats(2, 3), floats(4, 5)), {}, r"the product of \[2, 3\] and \[4, 5\]: inner dimensions differ"),
    ("MatMul", (floats(2, 3), floats()), {}, "do not fit the operator"),
    ("Gemm", (floats(2, 3, 4), floats(4, 5)), {}, "both must have two axes"),
    ("Conv", (floats(1, 3, 8, 8), floats(4, 2, 3, 3)), {}, "in 1 groups"),
    ("Conv", (floats(1, 3, 8, 8), floats(4, 3, 3, 3)), {"kernel_shape": [5, 5]}, r"kernel_shape is \[5, 5\]"),
    ("Conv", (floats(1, 3, 8), floats(4, 3, 3, 3)), {}, ""),
    ("MaxPool", (floats(1, 3, 8, 8),), {"kernel_shape": [2]}, ""),
    ("LSTM", (floats(5, 1, 3), floats(1, 16, 2), floats(1, 16, 4)), {"hidden_size": 4}, r"need \[1, 16, 3\]"),
    ("GRU", (floats(5, 1, 3), floats(1, 12, 3), floats(1, 12, 4), floats(1, 20)), {"hidden_size": 4}, "the bias"),
    ("Add", (floats(2, 3), floats(4)), {}, "cannot be broadcast"),
    ("Add", (floats(2, 3), np.ones(3)), {}, "'x0' is float32, and 'x1' is float64: both must have one type"),
    ("Sigmoid", (np.arange(3),), {}, "'x0' is int64, which the operator does not take"),
    ("Where", (floats(2), floats(2), floats(2)), {}, "'x0' is float32, which"),
    ("Concat", (floats(2, 3), floats(2, 4)), {"axis": 0}, ""),
    ("Concat", (floats(2, 3), floats(2, 3)), {"axis": 2}, "axis is 2: need -2 to 1"),
    ("Reshape", (floats(2, 3), np.array([4, 2])), {}, r"\[2, 3\] cannot become \[4, 2\]"),
    ("Unsqueeze", (floats(2, 3), np.array([5])), {}, "axis is 5: need -3 to 2"),
    ("Squeeze", (floats(1, 3), np.array([-4])), {}, "axis is -4"),
    ("Flatten", (floats(2, 3),), {"axis": 3}, "axis is 3"),
    ("Slice", (floats(4, 3), *map(np.array, ([0], [2], [5]))), {}, "axis is 5"),
    ("Pad", (floats(2, 3), np.array([1, 1])), {}, ""),
    ("GatherElements", (floats(4, 3), np.array([1])), {}, ""),
    ("ScatterND", (floats(4, 3), np.zeros((2, 1), np.int64), floats(2, 2)), {}, ""),
    ("ScatterND", (floats(4, 3), np.zeros((2, 1), np.int64), floats(2, 3)), {"reduction": "x"}, "reduction='x'"),
    ("OneHot", (np.arange(2), np.array([3]), floats(3)), {}, r"values have the shape \[3\]"),
    ("CumSum", (floats(4, 3), np.array(3)), {}, "axis is 3"),
    ("ReduceSum", (floats(4, 3), np.array([2])), {}, "axis is 2"),
    ("Softmax", (floats(4, 3),), {"axis": -3}, "axis is -3"),
    ("LayerNormalization", (floats(4, 3), floats(4)), {}, "cannot be broadcast"),
    ("BatchNormalization", (floats(1, 3, 4), *[floats(4)] * 4), {}, ""),
    ("DepthToSpace", (floats(1, 3, 4, 4),), {"blocksize": 2}, ""),
    ("MatMulInteger", (np.ones((2, 3), np.uint8), np.ones((4, 2), np.uint8)), {}, "inner dimensions differ"),
    ("And", (floats(2), floats(2)), {}, "'x0' is float32, which"),
    ("Upsample", (floats(1, 3, 4, 4), floats(3)), {}, "need one for each of 4 axes"),
    ("Upsample", (floats(1, 3, 4, 4), floats(4)), {"mode": "fine"}, "mode is 'fine': need one of 'nearest'"),
])  # fmt: skip
@pytest.mark.parametrize("constant", [False, True])
def test_operands_that_do_not_fit(op, operands, attrs, words, constant):
    """The message has the node, the operands, and no name of a function that a reader of models does not know."""
    names = [f"x{i}" for i in range(len(operands))]
    node, values = helper.make_node(op, names, ["y"], name="n", **attrs), dict(zip(names, operands))
    given = {"x0": values["x0"]} if constant else values
    start = rf"^Model.run: node 'n' \({op}\) with 'x0' "
    with pytest.raises((RuntimeError, ValueError), match=f"{start}.*{words}") as raised:
        ggml.onnx.load(model([node], given, constants={k: v for k, v in values.items() if k not in given})).run(given)
    assert "ggml_" not in str(raised.value) and "Error" not in str(raised.value)


def test_a_node_with_too_few_inputs():
    for node, words in ((helper.make_node("Add", ["x"], ["y"], name="n"), "1 inputs: version 14 .* needs 2"),
                        (helper.make_node("Relu", [], ["y"], name="n"), "0 inputs: .* needs 1"),
                        (helper.make_node("Clip", ["x"] * 4, ["y"], name="n"), "4 inputs: .* needs 1 to 3"),
                        (helper.make_node("Concat", [], ["y"], axis=0, name="n"), ".* needs 1 or more")):  # fmt: skip
        with pytest.raises(ggml.onnx.ModelError, match=rf"^ggml.onnx.load: node 'n' \({node.op_type}\) has {words}"):
            ggml.onnx.load(model([node], X))


def test_sizes_of_one_are_spread_by_an_equation():
    values = {"a": np.ones((2, 1), np.float32), "b": np.arange(6, dtype=np.float32).reshape(3, 2)}
    node = helper.make_node("Einsum", list(values), ["y"], equation="ij,jk->ik")
    np.testing.assert_array_equal(ggml.onnx.load(model([node], values)).run(values)[0], [[6, 9], [6, 9]])


def test_an_identity_of_nothing():
    with pytest.raises(ggml.onnx.ModelError, match=r"node 'n' \(Identity\) has 0 inputs: .* needs 1"):
        ggml.onnx.load(model([helper.make_node("Identity", [], ["y"], name="n")], X)).run(X)


# ---- ZipMap ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("labels", [{"classlabels_int64s": [3, 7]}, {"classlabels_strings": ["no", "yes"]}])
def test_zip_map(labels):
    x = np.array([[0.25, 0.75], [0.5, 0.125]], np.float32)
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **labels)
    scaled = helper.make_node("Mul", ["v", "v"], ["x"])
    (keys,) = labels.values()
    (found,) = ggml.onnx.load(model([scaled, node], {"v": x}, domains=[("ai.onnx.ml", 1)])).run(x)
    assert found == [dict(zip(keys, row)) for row in (x * x).tolist()]
    with pytest.raises(RuntimeError, match=r"2 labels for an array of \[2, 3\]"):
        ggml.onnx.load(model([node], X, domains=[("ai.onnx.ml", 1)])).run(X)


# ---- RegexFullMatch --------------------------------------------------------------------------------------------------
def matches(pattern, *texts):
    """A model that matches texts with a pattern."""
    x = helper.make_tensor_value_info("x", TensorProto.STRING, [len(texts)])
    y = helper.make_tensor_value_info("y", TensorProto.BOOL, [len(texts)])
    graph = helper.make_graph([helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def found(pattern, *texts):
    return ggml.onnx.load(matches(pattern, *texts)).run(np.array(texts, object))[0].tolist()


def test_regular_expressions_match_as_a_whole():
    """The texts and patterns of the specification of ONNX, and what RE2 says of others."""
    pytest.importorskip("re2")
    assert found(r"www\.[\w.-]+\.\bcom\b", "www.google.com", "www.facebook.com", "www.bbc.co.uk") == [True, True, False]
    mail = r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)"
    assert found(mail, "account@gmail.com", "account@hotmail.com", "not email", "account@yahoo.com") == [
        True, False, False, True,
    ]  # fmt: skip
    assert found("é+", "éé", "e", "") == [True, False, False]
    with pytest.raises(RuntimeError, match=r"the pattern is '\(a\+b'"):
        found("(a+b", "ab")
    with pytest.raises(RuntimeError, match="the pattern is"):
        found(r"(a)\1", "aa")  # RE2 has no references to groups: they cannot be matched in linear time


@pytest.mark.parametrize("hidden", [False, True])
def test_regular_expressions_end(hidden, tmp_path):
    """Those that take Python's `re` exponential time: in linear time, or with an error that says what to install."""
    if not hidden:
        pytest.importorskip("re2")
    path = tmp_path / "m.onnx"
    path.write_bytes(matches("(a+)+b", "", "").SerializeToString())
    code = f"""
import sys, numpy as np
if {hidden}: sys.modules["re2"] = None
import ggml.onnx
print(ggml.onnx.load(sys.argv[1]).run(np.array(["a" * 100_000, "a" * 100_000 + "b"], object))[0].tolist())"""
    done = subprocess.run([*PYTHON, "-c", code, path], capture_output=True, text=True, timeout=60)
    if hidden:
        assert done.returncode == 1 and "RegexFullMatch" in done.stderr
        assert done.stderr.splitlines()[-1].endswith("google-re2 is missing: pip install google-re2")
    else:
        assert (done.returncode, done.stdout) == (0, "[False, True]\n")
