"""Recurrent networks of few sequences, all steps of which are one node of compiled code (recurrence.pyx)."""

import itertools

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx.helper import make_node as node  # noqa: E402
from small_onnx import model as model_of  # noqa: E402

import ggml  # noqa: E402
import ggml.onnx  # noqa: E402
from ggml.onnx.rules import recurrent  # noqa: E402

STEPS, INPUTS = 6, 5
KINDS = {"RNN": 1, "LSTM": 4, "LSTM, peepholes": 4, "GRU": 3, "GRU, reset after": 3}


def network(kind, hidden, batch, directions, bias, states):
    """A model of one operator and its operands."""
    dice, op, gates = np.random.default_rng(hidden), kind[:4].strip(","), KINDS[kind]

    def numbers(*shape):
        return (dice.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    constants = {"w": numbers(directions, gates * hidden, INPUTS), "r": numbers(directions, gates * hidden, hidden)}
    inputs = {"x": 3 * numbers(STEPS, batch, INPUTS)}
    if bias:
        constants["b"] = numbers(directions, 2 * gates * hidden)
    names = ["h", "c"][: 2 if op == "LSTM" else 1] if states else []
    inputs.update((n, numbers(directions, batch, hidden)) for n in names)
    attrs = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "reverse"}
    if op == "GRU":
        attrs["linear_before_reset"] = int(kind != "GRU")
    outputs = ["y", "last", "cell"][: 3 if op == "LSTM" else 2]
    operands = ["x", "w", "r", "b" if bias else "", "", *names]
    if kind == "LSTM, peepholes":
        constants["p"] = 3 * numbers(directions, 3 * hidden)
        operands = [*operands, *[""] * (7 - len(operands)), "p"]
    return model_of([node(op, operands, outputs, **attrs)], inputs, outputs, constants), inputs


def operations(model, inputs):
    """The operations of a model's graph."""
    graph = model.graph(inputs)
    return [ggml.ggml_graph_node(graph, i).contents.op for i in range(ggml.ggml_graph_n_nodes(graph))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [1, 3, 18, 256])
def test_against_single_nodes(kind, hidden, monkeypatch):
    for batch, directions, bias, states in itertools.product((1, 3), (1, 2), (False, True), (False, True)):
        proto, inputs = network(kind, hidden, batch, directions, bias, states)
        monkeypatch.setattr(recurrent, "BATCH", 4)
        models = [ggml.onnx.load(proto, threads=n) for n in (1, 2)]
        one, threads = (m.run(inputs) for m in models)
        assert operations(models[0], inputs).count(ggml.GGML_OP_COMPILED) == 1
        monkeypatch.setattr(recurrent, "BATCH", 0)
        nodes = ggml.onnx.load(proto, threads=1)
        for a, b, c in zip(one, threads, nodes.run(inputs)):
            assert a.shape == c.shape and a.tobytes() == b.tobytes()
            np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-6)
        # states of one element are columns, which compiled code joins
        assert hidden == 1 or ggml.GGML_OP_COMPILED not in operations(nodes, inputs)


@pytest.mark.parametrize("kind", KINDS)
def test_large_states(kind, monkeypatch):
    """They are one node for one row, and for as many threads as directions."""
    for batch, directions, threads in itertools.product((1, 2), (1, 2), (1, 2, 3)):
        proto, inputs = network(kind, 300, batch, directions, True, False)
        model = ggml.onnx.load(proto, threads=threads)
        one = batch == 1 and threads <= directions
        assert operations(model, inputs).count(ggml.GGML_OP_COMPILED) == one
        if one:
            found = model.run(inputs)
            monkeypatch.setattr(recurrent, "BATCH", 0)
            for a, b in zip(found, ggml.onnx.load(proto, threads=threads).run(inputs)):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
            monkeypatch.undo()


@pytest.mark.parametrize("kind", KINDS)
def test_special_numbers(kind):
    """NaN goes through, gates are limited where exponentials overflow, and numbers near 0 keep their digits."""
    proto, inputs = network(kind, 4, 2, 1, True, True)
    model = ggml.onnx.load(proto)
    inputs["x"][3, 0, 0] = np.nan
    y = model.run(inputs)[0]
    assert np.isnan(y[:4, :, 0]).all() and np.isfinite(y[4:]).all() and np.isfinite(y[:, :, 1]).all()  # in reverse
    inputs["x"][...] = 1e6
    assert np.isfinite(model.run(inputs)[0]).all() and abs(model.run(inputs)[0]).max() <= 1.01
    tiny = {"x": np.zeros((2, 1, INPUTS), np.float32)}
    tiny["x"][0, 0, 0] = 1e-12
    w = np.zeros((1, 4, INPUTS), np.float32)
    w[0, 3, 0] = 1  # only the candidate: c is sigmoid(0) tanh(x), and y is sigmoid(0) tanh(c)
    operands = {"w": w, "r": np.zeros((1, 4, 1), np.float32)}
    found = ggml.onnx.load(model_of([node("LSTM", ["x", "w", "r"], ["y"], hidden_size=1)], tiny, ("y",), operands))
    np.testing.assert_allclose(found.run(tiny)[0].ravel(), [0.25e-12, 0.125e-12], rtol=1e-5)


def test_others_are_single_nodes():
    """Many rows, large states, one step and further functions."""
    one = {"x": np.ones((1, 1, INPUTS), np.float32)}
    cases = [(network("LSTM", 4, 1, 1, False, False)[0], one)]
    cases[0][0].graph.input[0].type.tensor_type.ClearField("shape")
    cases += [network("LSTM", 4, 5, 1, False, False), network("GRU", 257, 1, 1, False, False)]
    proto, inputs = network("GRU", 4, 1, 1, False, False)
    proto.graph.node[0].attribute.extend(node("GRU", [], [], activations=["HardSigmoid", "Tanh"]).attribute)
    for case in (*cases, (proto, inputs)):
        assert ggml.GGML_OP_COMPILED not in operations(ggml.onnx.load(case[0]), case[1])


FUNCTIONS = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Softsign": lambda x: x / (1 + abs(x)),
    "LeakyRelu": lambda x, a=0.01: np.where(x < 0, a * x, x),
    "ThresholdedRelu": lambda x, a=1.0: np.where(x > a, x, 0),
    "Elu": lambda x, a=1.0: np.where(x < 0, a * np.expm1(x), x),
    "HardSigmoid": lambda x, a=0.2, b=0.5: np.clip(a * x + b, 0, 1),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Affine": lambda x, a=1.0, b=0.0: a * x + b,
}


@pytest.mark.parametrize(
    ("names", "alphas", "betas", "own"),
    [
        (["Sigmoid", "LeakyRelu", "Elu"], [0.3, 0.5], [], [(), (0.3,), (0.5,)]),
        (["HardSigmoid", "Tanh", "ScaledTanh"], [0.3, 0.7], [0.4, 2], [(0.3, 0.4), (), (0.7, 2)]),
        (["Sigmoid", "Affine", "ThresholdedRelu"], [0.5, 0.1], [0.2], [(), (0.5, 0.2), (0.1,)]),
        (["HardSigmoid", "Softsign", "LeakyRelu"], [], [], [(), (), ()]),
    ],
)
def test_parameters_of_activations(names, alphas, betas, own):
    """Only the functions that have parameters take some of the lists."""
    proto, inputs = network("LSTM", 3, 2, 1, False, True)
    given = {"activations": names, "activation_alpha": alphas, "activation_beta": betas}
    proto.graph.node[0].attribute.extend(node("LSTM", [], [], **{k: v for k, v in given.items() if v}).attribute)
    w, r = (np.frombuffer(t.raw_data, np.float32).reshape(t.dims)[0] for t in proto.graph.initializer)
    f, g, k = (lambda x, n=n, a=a: FUNCTIONS[n](x, *a) for n, a in zip(names, own))
    h, c, want = inputs["h"][0], inputs["c"][0], []
    for x in inputs["x"][::-1]:
        i, o, forget, candidate = np.split(x @ w.T + h @ r.T, 4, 1)
        c = f(forget) * c + f(i) * g(candidate)
        h = f(o) * k(c)
        want.insert(0, h)
    np.testing.assert_allclose(ggml.onnx.load(proto).run(inputs)[0][:, 0], want, rtol=1e-4, atol=1e-5)


def test_unknown_activation():
    proto, inputs = network("GRU", 4, 1, 1, False, False)
    proto.graph.node[0].attribute.extend(node("GRU", [], [], activations=["Sigmoid", "Tangent"]).attribute)
    with pytest.raises(ValueError, match=r"^Model\.run: .*there is no activation 'Tangent': need one of 'Sigmoid'"):
        ggml.onnx.load(proto).run(inputs)


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize(("batch", "hidden"), [(2, 8), (6, 8)])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_results_of_half_precision(op, batch, hidden, steps):
    """Two operators, one after the other: each way to compute them keeps the type, and rounds to it."""
    rng, gates = np.random.default_rng(3), {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    constants, nodes, source = {}, [], "x"
    for k, inputs in enumerate((4, hidden)):
        for name, width in (("w", inputs), ("r", hidden)):
            constants[f"{name}{k}"] = (rng.standard_normal((1, gates * hidden, width)) / 4).astype(np.float16)
        nodes.append(node(op, [source, f"w{k}", f"r{k}"], [f"y{k}", f"h{k}"], hidden_size=hidden))
        nodes.append(node("Squeeze", [f"y{k}", "axis"], [f"s{k}"]))
        source = f"s{k}"
    feeds = {"x": rng.standard_normal((steps, batch, 4)).astype(np.float16)}
    outputs = ["y0", "h0", "y1", "h1"]
    halves = ggml.onnx.load(model_of(nodes, feeds, outputs, {**constants, "axis": np.array([1])})).run(feeds)
    wide = {name: v.astype(np.float32) for name, v in constants.items()}
    feeds = {"x": feeds["x"].astype(np.float32)}
    singles = ggml.onnx.load(model_of(nodes, feeds, outputs, {**wide, "axis": np.array([1])})).run(feeds)
    assert {y.dtype for y in halves} == {np.dtype(np.float16)}
    for y, want in zip(halves, singles):
        np.testing.assert_allclose(y, want, rtol=1e-2, atol=1e-2)
