"""ggml.onnx.Training against what PyTorch computed for networks that it exported: scripts/record_onnx_training.py."""

import copy
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")  # part of the [test] extra; not installed on emulated CPUs

from forks import FORK  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import ggml  # noqa: E402
import ggml.onnx  # noqa: E402

DATA = Path(__file__).resolve().parents[1] / "data" / "onnx_training.npz"
LOSSES = {"pictures": "cross_entropy", "words": "mean_squared_error"}


@pytest.fixture(scope="module")
def recorded():
    with np.load(DATA) as arrays:
        return dict(arrays)


def part(recorded, *path):
    """The arrays below a path, by the rest of their names."""
    prefix = "/".join(path) + "/"
    return {k.removeprefix(prefix): v for k, v in recorded.items() if k.startswith(prefix)}


def near(got, want, tolerance=2e-5):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_and_steps_are_those_of_pytorch(name, recorded):
    saved = part(recorded, name)
    model = ggml.onnx.load(saved["model"].tobytes(), threads=2)
    near(model.run(saved["x"])[0], saved["y"])  # with the weights folded
    want = part(recorded, name, "gradient")
    parameters = model.parameters(list(want))
    near(model.run(saved["x"])[0], saved["y"])  # with the weights as parameters
    batch = {"x": saved["x"]}, saved["target"]
    training = ggml.onnx.Training(model, LOSSES[name], *batch)
    assert training.evaluate(*batch) == pytest.approx(float(saved["loss"]), rel=1e-5)
    near(training.outputs[0], saved["y"])
    assert training.gradients.keys() == want.keys()
    for key, gradient in want.items():
        near(training.gradients[key], gradient, 1e-4)
    rate, decay, steps = recorded["settings"]
    losses = [training.step(*batch, rate=rate, decay=decay) for _ in range(int(steps))]
    assert losses[0] == pytest.approx(float(saved["loss"]), rel=1e-5) and losses == sorted(losses, reverse=True)
    for key, value in part(recorded, name, "trained").items():
        # AdamW divides a gradient by its size. Where it is 0 but for rounding, as that of the bias of keys, a step may
        # have any sign; it is at most the rate.
        rounding = (want[key] != 0) & (np.abs(want[key]) < 1e-6 * np.abs(want[key]).max())
        away = np.abs(parameters[key] - value)
        assert away[~rounding].max() <= 0.005 * rate
        assert away[rounding].max(initial=0) <= 2 * rate * steps
    assert training.evaluate(*batch) < losses[-1]
    near(model.run(saved["x"])[0], training.outputs[0])


def test_what_was_trained_can_be_saved(recorded, tmp_path):
    saved = part(recorded, "pictures")
    proto = onnx.ModelProto.FromString(saved["model"].tobytes())
    model = ggml.onnx.load(proto)
    assert not any("running" in n or "num_batches" in n for n in model.parameters())
    batch = saved["x"], saved["target"]
    training = ggml.onnx.Training(model, "cross_entropy", *batch)
    for _ in range(5):
        training.step(*batch, rate=0.01)
    path = tmp_path / "trained.onnx"
    onnx.save(model.update(proto), path)
    want = model.run(saved["x"])[0]
    near(ggml.onnx.load(path).run(saved["x"])[0], want)
    assert np.abs(want - saved["y"]).max() > 0.01
    with pytest.raises(ValueError, match=r"Model.update: the ModelProto has no initialiser"):
        model.update(onnx.ModelProto())


def tiny(op="MatMul"):
    """y = op(x, w) with w of 3 rows and 2 columns, then Relu."""
    node, info = helper.make_node, helper.make_tensor_value_info
    w = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "w")
    nodes = [node(op, ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])]
    graph = helper.make_graph(
        nodes, "tiny", [info("x", TensorProto.FLOAT, ["n", 3])], [info("y", TensorProto.FLOAT, None)], [w]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def test_a_loss_of_ones_own():
    model, x = ggml.onnx.load(tiny()), np.float32([[1, 2, 3], [-1, 0, 2]])
    factor = np.float32([[1, 2], [3, 4]])

    def weighted(ctx, outputs, targets):
        return ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, outputs[0], targets[0]))

    training = ggml.onnx.Training(model, weighted, x, factor)
    y = x @ np.arange(6, dtype=np.float32).reshape(3, 2)
    assert training.evaluate(x, factor) == (np.maximum(y, 0) * factor).sum()
    np.testing.assert_array_equal(training.gradients["w"], x.T @ (factor * (y > 0)))
    model.parameters()["w"][:] = 0  # a view: the model computes with it
    assert training.evaluate(x, factor) == 0 and not model.run(x)[0].any()


def test_wrong_arguments_of_training():
    model, x, y = ggml.onnx.load(tiny()), np.ones((2, 3), np.float32), np.ones((2, 2), np.float32)
    with pytest.raises(ValueError, match="Model.parameters: 'none': no initialiser"):
        model.parameters(["none"])
    for loss in ("hinge", ["mean_squared_error"]):
        with pytest.raises(ValueError, match="loss is .*: need one of cross_entropy"):
            ggml.onnx.Training(model, loss, x, y)
    training = ggml.onnx.Training(model, "mean_squared_error", x, y)
    with pytest.raises(ValueError, match=r"has inputs \[\(3, 3\)\]"):
        training.step(np.ones((3, 3), np.float32), y)
    with pytest.raises(ValueError, match=r"targets \[\(2, 3\)\]: need"):
        training.step(x, x)
    with pytest.raises(ValueError, match="inputs are missing: 'x'"):
        training.step({}, y)
    with pytest.raises(ValueError, match="other parameters"):
        model.parameters(["v"])
    proto = tiny()
    proto.graph.node[1].op_type = "Bernoulli"
    with pytest.raises(ggml.onnx.NodeError, match="not one graph: node 'Bernoulli_1/RandomUniform.* runs outside"):
        ggml.onnx.Training(ggml.onnx.load(proto), "mean_squared_error", x, y)


# ---- copies and forks ------------------------------------------------------------------------------------------------
def test_models_and_trainings_are_not_copied():
    model, x = ggml.onnx.load(tiny()), np.ones((2, 3), np.float32)
    expected = model.run(x)[0]
    training = ggml.onnx.Training(model, "mean_squared_error", x, expected)
    for owner, name in ((model, "Model"), (training, "Training")):
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"^{name}: a {name} owns memory and can't be copied or pickled"):
                make(owner)
    np.testing.assert_array_equal(model.run(x)[0], expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("call", ["model.run(x)", "training.evaluate(x, y)"])
def test_a_fork_while_a_thread_computes(call, child, tmp_path):
    path = tmp_path / "tiny.onnx"
    onnx.save(tiny(), path)
    code = (
        FORK
        + f"""
    import ggml.onnx
    model = ggml.onnx.load(sys.argv[1], threads=2)
    x = np.ones((2000, 3), np.float32)
    y = model.run(x)[0]
    training = ggml.onnx.Training(model, "mean_squared_error", x, y)
    def check():
        np.testing.assert_array_equal(model.run(x)[0], y)
        assert training.evaluate(x, y) == 0
    end = beside(lambda: {call})
    for _ in range(8):
        in_child(check)
    end()
    """
    )
    child(code, str(path))
