"""Quantised operators of the domain com.microsoft, against NumPy or the reference and against onnxruntime."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")  # part of the [test] extra; not installed on emulated CPUs

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import ggml.onnx  # noqa: E402

STEPS, BATCH, SIZE, HIDDEN = 5, 2, 64, 32


def model_of(op, x, constants, outputs=("y",), domain="com.microsoft", **attrs):
    """A model of one operator whose operands are constants but for the first; None: an operand that is left out."""
    names = [f"c{i}" if c is not None else "" for i, c in enumerate(constants)]
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *names], list(outputs), domain=domain, **attrs)], "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(c, n) for c, n in zip(constants, names) if c is not None])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def bytes_of(*shape, kind=np.uint8, seed=1):
    limits = np.iinfo(kind)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(kind)


def nbits(bits, zero, block=32, k=70, n=12):
    """MatMulNBits: its model, its input, and its output in NumPy."""
    x, blocks = floats(3, k), -(-k // block)
    q = np.random.default_rng(2).integers(0, 1 << bits, (n, blocks, block))
    z = np.random.default_rng(3).integers(0, 1 << bits, (n, blocks)) if zero else np.full((n, blocks), 1 << bits - 1)
    scales = np.abs(floats(n, blocks, seed=4)) + np.float32(0.1)

    def packed(codes):
        if bits == 8:
            return codes.astype(np.uint8)
        even = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, codes.shape[-1] % 2)])
        return (even[..., ::2] | even[..., 1::2] << 4).astype(np.uint8)

    weights = ((q - z[..., None]) * scales[..., None]).reshape(n, -1)[:, :k]
    constants = [packed(q), scales.reshape(-1), packed(z).reshape(-1) if zero else None]
    model = model_of("MatMulNBits", x, constants, N=n, K=k, bits=bits, block_size=block)
    return model, x, [x @ weights.T.astype(np.float32)]


def dynamic_matmul(kind, per_column):
    """DynamicQuantizeMatMul: the same."""
    x, codes = floats(4, 40), bytes_of(40, 10, kind=kind)
    shape = (10,) if per_column else ()
    scale = np.abs(floats(*shape, seed=5)) + np.float32(0.01)
    zero = bytes_of(*shape, kind=kind, seed=6)
    bias = floats(10, seed=7)
    model = model_of("DynamicQuantizeMatMul", x, [codes, np.asarray(scale), np.asarray(zero), bias])
    return model, x, [x @ ((codes.astype(np.float32) - zero) * scale) + bias]


def dynamic_lstm(kind, directions):
    """DynamicQuantizeLSTM: the same, with the output of LSTM over weights of floats in the reference."""
    x = floats(STEPS, BATCH, SIZE)
    codes = [bytes_of(directions, n, 4 * HIDDEN, kind=kind, seed=n) for n in (SIZE, HIDDEN)]
    scales = [np.full(directions, s, np.float32) for s in (0.004, 0.006)]
    zeros = [np.full(directions, 128 + i if kind == np.uint8 else i, kind) for i in (-3, 4)]
    bias = floats(directions, 8 * HIDDEN, seed=8) / 4
    attrs = {"hidden_size": HIDDEN, "direction": "bidirectional" if directions == 2 else "forward"}
    outputs = "y", "h", "c"
    model = model_of("DynamicQuantizeLSTM", x, [*codes, bias, None, None, None, None, scales[0], zeros[0], scales[1],
                                                zeros[1]], outputs, **attrs)
    weights = [((q.astype(np.float32) - z[:, None, None]) * s[:, None, None]).transpose(0, 2, 1)
               for q, s, z in zip(codes, scales, zeros)]
    plain = model_of("LSTM", x, [*weights, bias], outputs, domain="", **attrs)
    return model, x, ReferenceEvaluator(plain).run(None, {"x": x})


CASES = {  # name: a function, the largest difference, relative to the largest element
    "MatMulNBits, 4 bits": (lambda: nbits(4, False), 1e-5),
    "MatMulNBits, 4 bits and zero points": (lambda: nbits(4, True), 1e-5),
    "MatMulNBits, 8 bits": (lambda: nbits(8, False), 1e-5),
    "DynamicQuantizeMatMul, unsigned": (lambda: dynamic_matmul(np.uint8, False), 1e-5),
    "DynamicQuantizeMatMul, a scale per column": (lambda: dynamic_matmul(np.int8, True), 1e-5),
    "DynamicQuantizeLSTM, unsigned": (lambda: dynamic_lstm(np.uint8, 1), 1e-4),
    "DynamicQuantizeLSTM, two directions": (lambda: dynamic_lstm(np.int8, 2), 1e-4),
}


def near(got, wanted, tolerance):
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert np.abs(a - b).max() <= tolerance * np.abs(b).max()


@pytest.mark.parametrize("case", CASES)
def test_quantised_operators(case):
    make, tolerance = CASES[case]
    model, x, wanted = make()
    near(ggml.onnx.load(model, strict=True).run(x), wanted, tolerance)


@pytest.mark.parametrize("case", CASES)
def test_quantised_operators_as_onnxruntime(case):
    """Which rounds the inputs of the operators Dynamic* to 8 bits, in every step of an LSTM: up to 0.036 from exact."""
    runtime = pytest.importorskip("onnxruntime")
    model, x, _ = CASES[case][0]()
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    near(ggml.onnx.load(model, strict=True).run(x), session.run(None, {"x": x}), 5e-2 if "LSTM" in case else 2e-2)
