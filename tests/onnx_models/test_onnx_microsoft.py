"""Fused and quantised operators of the domain com.microsoft, against NumPy or the reference and against onnxruntime."""

import math

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")  # part of the [test] extra; not installed on emulated CPUs

from one_operator import codes, floats, halved, model_of, near, other_sizes, through_onnxruntime  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import ggml.onnx  # noqa: E402

STEPS, BATCH, SIZE, HIDDEN = 5, 2, 64, 32


def reference(op, operands, outputs=1, **attrs):
    """The outputs of an operator of ONNX itself."""
    model, feeds = model_of(op, operands, outputs, domain="", **attrs)
    return ReferenceEvaluator(model).run(None, feeds)


# Weights of a few bits


def packed(numbers, bits):
    per = 8 // bits
    whole = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % per)])
    return sum(whole[..., k::per] << bits * k for k in range(per)).astype(np.uint8)


def blocks(bits, zero, rows, width, block):
    """Rows of codes, their scales and zero points, and the numbers that they stand for."""
    n = -(-width // block)
    q = np.random.default_rng(2).integers(0, 1 << bits, (rows, n, block))
    z = np.random.default_rng(3).integers(0, 1 << bits, (rows, n)) if zero else np.full((rows, n), 1 << bits - 1)
    scales = np.abs(floats(rows, n, seed=4)) + np.float32(0.1)
    numbers = ((q - z[..., None]) * scales[..., None]).reshape(rows, -1)[:, :width]
    return packed(q, bits), scales, packed(z, bits) if zero else None, numbers


def nbits(bits, zero, block=32, k=70, n=12):
    """MatMulNBits: the operator, its operands, its attributes, and its outputs."""
    x = floats(3, k)
    q, scales, zeros, w = blocks(bits, zero, n, k, block)
    operands = [x, q, scales.reshape(-1), zeros.reshape(-1) if zero else None]
    return "MatMulNBits", operands, {"N": n, "K": k, "bits": bits, "block_size": block}, [x @ w.T]


def gathered(bits, zero, rows=9, width=64, block=16):
    """GatherBlockQuantized: the same."""
    index = np.array([[3, 8], [0, 3]])
    q, scales, zeros, w = blocks(bits, zero, rows, width, block)
    operands = [q.reshape(rows, -1), index, scales, zeros]
    return "GatherBlockQuantized", operands, {"bits": bits, "block_size": block, "quantize_axis": 1}, [w[index]]


# Integers: operands with scales and zero points


def scaled(*shape, seed=0, kind=np.uint8, scale=0.02, zero=None, n=()):
    """An operand, its scale and zero point (n: their shapes), and the numbers that it stands for, in float64."""
    random = np.random.default_rng([seed, *shape])
    q, scale = codes(*shape, kind=kind, seed=seed), np.asarray(scale * random.uniform(0.5, 1, n), np.float32)
    middle = 120 if kind == np.uint8 else -3
    zero = np.asarray(middle if zero is None else zero, kind) + np.zeros(n, kind)
    return [q, scale, zero], q.astype(np.float64), scale.astype(np.float64), zero.astype(np.float64)


def numbers(x):
    return (x[1] - x[3]) * x[2]


def rounded(y, scale, zero):
    """Numbers as codes of a type."""
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(np.asarray(y, np.float64) / np.float64(scale)) + zero, limits.min, limits.max)


def result_of(y, kind=np.uint8):
    """A scale and a zero point for numbers."""
    return np.float32((y.max() - y.min()) / 250), np.asarray(125 if kind == np.uint8 else -2, kind)


def binary(op, kind=np.uint8):
    """QLinearAdd and QLinearMul: the same."""
    x, y = scaled(2, 5, 7, kind=kind), scaled(5, 1, kind=kind, seed=1)
    z = numbers(x) + numbers(y) if op == "Add" else numbers(x) * numbers(y)
    end = result_of(z, kind)
    return f"QLinear{op}", [*x[0], *y[0], *end], {}, [rounded(z, *end)]


def single(op, *shape, kind=np.uint8, **attrs):
    """QLinear operators of one operand: the same; computed by the operator of floats, with channels first."""
    x = scaled(*shape, kind=kind)
    last, plain = attrs.get("channels_last"), {k: v for k, v in attrs.items() if k not in ("channels_last", "opset")}
    y = numbers(x)
    (z,) = reference(op, [(np.moveaxis(y, -1, 1) if last else y).astype(np.float32)], **plain)
    z = np.moveaxis(z, 1, -1) if last else z
    end = result_of(z, kind)
    return f"QLinear{op}", [*x[0], *end], attrs, [rounded(z, *end)]


def convolution(last, groups=1, channels=6, bias=1000):
    """QLinearConv: the same."""
    x, n = scaled(1, channels, 9, 8), 2 * channels
    w = scaled(n, channels // groups, 3, 3, kind=np.int8, zero=0, scale=0.01, n=(n,))
    c = np.random.default_rng(5).integers(-bias, bias, n).astype(np.int32)
    scales = w[2].reshape(n, 1, 1, 1)
    operands = [numbers(x), w[1] * scales, c * w[2] * x[2]]
    (y,) = reference("Conv", [v.astype(np.float32) for v in operands], pads=[1] * 4, group=groups)
    end, attrs = result_of(y), {"pads": [1] * 4, "group": groups}
    if last:
        x[0][0], y = np.moveaxis(x[0][0], 1, -1).copy(), np.moveaxis(y, 1, -1)
        attrs["channels_last"] = 1
    return "QLinearConv", [*x[0], *w[0], *end, c], attrs, [rounded(y, *end)]


def joined():
    """QLinearConcat: the same."""
    x, y = scaled(2, 3, 4), scaled(2, 5, 4, seed=1, scale=0.03, zero=100)
    z = np.concatenate([numbers(x), numbers(y)], 1)
    end = result_of(z)
    return "QLinearConcat", [*end, *x[0], *y[0]], {"axis": 1}, [rounded(z, *end)]


def chosen(shape=(4, 1)):
    """QLinearWhere: the same."""
    x, y = scaled(4, 5), scaled(*shape, seed=1, scale=0.03, zero=100)
    condition = codes(5, seed=2) > 128
    z = np.where(condition, numbers(x), numbers(y))
    end = result_of(z)
    return "QLinearWhere", [condition, *x[0], *y[0], *end], {}, [rounded(z, *end)]


def gemm(quantised, kind=np.int8, n=()):
    """QGemm: the same."""
    x, w = scaled(4, 24), scaled(10, 24, kind=kind, seed=1, scale=0.01, zero=5, n=n)
    c = np.random.default_rng(5).integers(-1000, 1000, 10).astype(np.int32)
    factor = w[2].reshape(-1, 1) if n else w[2]
    y = numbers(x) @ ((w[1] - 5) * factor).T * 0.5 + c * x[2] * w[2] * 0.5
    end = result_of(y) if quantised else ()
    operands = [*x[0], *w[0], c, *end]
    return "QGemm", operands, {"transB": 1, "alpha": 0.5}, [rounded(y, *end) if quantised else y]


def to_float(n=()):
    """MatMulIntegerToFloat: the same."""
    x, w, bias = scaled(2, 4, 24), scaled(24, 10, kind=np.int8, seed=1, zero=7, n=n), floats(10)
    y = numbers(x) @ numbers(w) + bias
    return "MatMulIntegerToFloat", [x[0][0], w[0][0], x[0][1], w[0][1], x[0][2], w[0][2], bias], {}, [y]


def dynamic_matmul(kind, n=()):
    """DynamicQuantizeMatMul, which rounds its inputs to bytes: the same."""
    x, w, bias = floats(4, 40), scaled(40, 10, kind=kind, n=n), floats(10, seed=7)
    scale = (max(x.max(), 0) - min(x.min(), 0)) / np.float32(255)
    zero = np.clip(np.rint(-x.min() / scale), 0, 255).astype(np.uint8)
    y = (rounded(x, scale, zero) - zero) * scale @ numbers(w) + bias
    return "DynamicQuantizeMatMul", [x, *w[0], bias], {}, [y]


def dynamic_lstm(kind, directions, points=(-3, 4), per_column=False):
    """DynamicQuantizeLSTM: the same, with the output of LSTM over weights of floats in the reference."""
    x = floats(STEPS, BATCH, SIZE)
    whole = [codes(directions, n, 4 * HIDDEN, kind=kind, seed=n) for n in (SIZE, HIDDEN)]
    shape = (directions, 4 * HIDDEN) if per_column else directions
    scales = [np.full(shape, s, np.float32) for s in (0.004, 0.006)]
    if per_column:
        scales = [(s * np.linspace(0.5, 1, 4 * HIDDEN)).astype(np.float32) for s in scales]
    zeros = [np.full(shape, 128 + i if kind == np.uint8 else i, kind) for i in points]
    bias = floats(directions, 8 * HIDDEN, seed=8) / 4
    attrs = {"hidden_size": HIDDEN, "direction": "bidirectional" if directions == 2 else "forward"}
    weights = [
        ((q - z.reshape(directions, 1, -1).astype(np.float32)) * s.reshape(directions, 1, -1)).transpose(0, 2, 1)
        for q, s, z in zip(whole, scales, zeros)
    ]
    operands = [x, *whole, bias, None, None, None, None, scales[0], zeros[0], scales[1], zeros[1]]
    return "DynamicQuantizeLSTM", operands, attrs, reference("LSTM", [x, *weights, bias], 3, **attrs)


# Floats: what optimisers of models fuse


def gelu(op):
    """Gelu in its forms: the same."""
    x, bias = floats(3, 16), floats(16, seed=1)
    y = x.astype(np.float64) + (bias if op in ("BiasGelu", "FastGelu") else 0)
    inner = {
        "FastGelu": 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))),
        "QuickGelu": 1 / (1 + np.exp(-1.702 * y)),
    }
    exact = 0.5 * (1 + np.array([math.erf(v / math.sqrt(2)) for v in y.ravel()]).reshape(y.shape))
    return op, [x, bias] if op in ("BiasGelu", "FastGelu") else [x], {}, [y * inner.get(op, exact)]


def skipped(simple, bias, moments=False):
    """SkipLayerNormalization and the one without a mean: the same, with the sum as the fourth output.

    moments: also the mean, 0 without one, and what the elements are multiplied by.
    """
    x, skip, gamma, beta = floats(BATCH, 3, 16), floats(BATCH, 3, 16, seed=1), floats(16, seed=2), floats(16, seed=3)
    c = floats(16, seed=4) if bias else None
    total = x.astype(np.float64) + skip + (c if bias else 0)
    centre = total if simple else total - total.mean(-1, keepdims=True)
    factor = 1 / np.sqrt((centre**2).mean(-1, keepdims=True) + 1e-5)
    y = centre * factor * gamma + (0 if simple else beta)
    operands = [x, skip, gamma, c] if simple else [x, skip, gamma, beta, c]
    return (
        "SkipSimplifiedLayerNormalization" if simple else "SkipLayerNormalization",
        operands,
        {"epsilon": 1e-5},
        [y, *([(total - centre).mean(-1, keepdims=True), factor] if moments else [None, None]), total],
    )


ACTIVATIONS = {
    "Relu": (lambda y: np.maximum(y, 0), []),
    "LeakyRelu": (lambda y: np.where(y < 0, 0.3 * y, y), [0.3]),
    "Clip": (lambda y: np.clip(y, -0.5, 0.75), [-0.5, 0.75]),
    "Tanh": (np.tanh, []),
    "HardSigmoid": (lambda y: np.clip(0.3 * y + 0.4, 0, 1), [0.3, 0.4]),
}


def fused_convolution(activation, sum_with=False, last=False):
    """FusedConv and NhwcFusedConv: the same."""
    x, w, bias, z = floats(1, 4, 7, 6), floats(5, 4, 3, 3, seed=1) / 4, floats(5, seed=2), floats(1, 5, 7, 6, seed=3)
    (y,) = reference("Conv", [x, w, bias], pads=[1] * 4)
    function, parameters = ACTIVATIONS[activation]
    y, operands = function(y + z if sum_with else y), [x, w, bias, z] if sum_with else [x, w, bias]
    attrs = {"pads": [1] * 4, "activation": activation, **({"activation_params": parameters} if parameters else {})}
    if not last:
        return "FusedConv", operands, attrs, [y]
    operands = [np.moveaxis(v, 1, -1).copy() if i in (0, 3) else v for i, v in enumerate(operands)]
    return "NhwcFusedConv", operands, attrs, [np.moveaxis(y, 1, -1)]


def pool(kind):
    """NhwcMaxPool: the same."""
    x = codes(1, 3, 9, 8, kind=kind)
    (y,) = reference("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    return "NhwcMaxPool", [np.moveaxis(x, 1, -1).copy()], attrs, [np.moveaxis(y, 1, -1)]


def product(turned=(0, 0), batches=(0, 0)):
    """FusedMatMul and TransposeMatMul, which knows no batches: the same."""
    x, y = floats(2, 3, 4, 5), floats(2, 3, 5, 6, seed=1)
    z = 0.5 * x.astype(np.float64) @ y

    def moved(v, turn, batch):
        v = v.swapaxes(-1, -2) if turn else v
        return np.moveaxis(v, -2, 0).copy() if batch else v.copy()

    operands = [moved(v, *how) for v, *how in zip((x, y), turned, batches or (0, 0))]
    attrs = dict(zip(("transA", "transB", "transBatchA", "transBatchB"), (*turned, *(batches or ()))))
    return "FusedMatMul" if batches else "TransposeMatMul", operands, {"alpha": 0.5, **attrs}, [z]


def fused_gemm():
    """FusedGemm: the same."""
    x, y, c = floats(3, 5), floats(4, 5, seed=1), floats(4, seed=2)
    z = 0.5 * x.astype(np.float64) @ y.T + 2 * c
    attrs = {"alpha": 0.5, "beta": 2.0, "transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.3}
    return "FusedGemm", [x, y, c], attrs, [np.where(z < 0, 0.3 * z, z)]


WINDOW = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
CASES = {  # name: a function and its arguments
    "MatMulNBits, 4 bits": (nbits, 4, False),
    "MatMulNBits, 4 bits and zero points": (nbits, 4, True),
    "MatMulNBits, 8 bits": (nbits, 8, False),
    "MatMulNBits, 2 bits": (nbits, 2, False),
    "MatMulNBits, 2 bits and zero points": (nbits, 2, True, 16),
    "GatherBlockQuantized, 4 bits": (gathered, 4, False),
    "GatherBlockQuantized, 4 bits and zero points": (gathered, 4, True),
    "GatherBlockQuantized, 8 bits": (gathered, 8, True),
    "QLinearAdd": (binary, "Add"),
    "QLinearMul": (binary, "Mul", np.int8),
    "QLinearSigmoid": (single, "Sigmoid", 3, 40),
    "QLinearLeakyRelu": (lambda: single("LeakyRelu", 3, 40, alpha=0.3)),
    "QLinearSoftmax": (lambda: single("Softmax", 3, 4, 10, axis=-1, opset=13)),
    "QLinearAveragePool": (lambda: single("AveragePool", 1, 3, 9, 8, **WINDOW)),
    "QLinearAveragePool, channels last": (lambda: single("AveragePool", 1, 9, 8, 3, channels_last=1, **WINDOW)),
    "QLinearGlobalAveragePool": (lambda: single("GlobalAveragePool", 2, 3, 9, 8, channels_last=0)),
    "QLinearGlobalAveragePool, channels last": (lambda: single("GlobalAveragePool", 2, 9, 8, 3, channels_last=1)),
    "QLinearReduceMean": (lambda: single("ReduceMean", 3, 4, 10, axes=[1], keepdims=1)),
    "QLinearConv": (convolution, False),
    "QLinearConv, groups": (convolution, False, 3),
    "QLinearConv, large biases": (convolution, False, 1, 6, 1 << 30),
    "QLinearConv, channels last": (convolution, True),
    "QLinearConv, a channel per group, channels last": (convolution, True, 6),
    "QLinearConcat": (joined,),
    "QLinearWhere": (chosen,),
    "QLinearWhere, one number": (chosen, ()),
    "QGemm": (gemm, True),
    "QGemm, a scale per column": (gemm, True, np.int8, (10,)),
    "QGemm, floats": (gemm, False, np.uint8),
    "MatMulIntegerToFloat": (to_float,),
    "MatMulIntegerToFloat, a scale per column": (to_float, (10,)),
    "DynamicQuantizeMatMul, unsigned": (dynamic_matmul, np.uint8),
    "DynamicQuantizeMatMul, a scale per column": (dynamic_matmul, np.int8, (10,)),
    "DynamicQuantizeLSTM, unsigned": (dynamic_lstm, np.uint8, 1),
    "DynamicQuantizeLSTM, two directions": (dynamic_lstm, np.int8, 2),
    "DynamicQuantizeLSTM, rounded inputs": (dynamic_lstm, np.int8, 2, (0, 0)),  # bytes without zero points
    "DynamicQuantizeLSTM, a scale per column": (dynamic_lstm, np.uint8, 2, (-3, 4), True),
    "DynamicQuantizeLSTM, a scale per column, rounded inputs": (dynamic_lstm, np.int8, 1, (0, 0), True),
    **{op: (gelu, op) for op in ("Gelu", "BiasGelu", "FastGelu", "QuickGelu")},
    "SkipLayerNormalization": (skipped, False, False),
    "SkipLayerNormalization, bias": (skipped, False, True),
    "SkipSimplifiedLayerNormalization": (skipped, True, False),
    "SkipSimplifiedLayerNormalization, bias": (skipped, True, True),
    "SkipLayerNormalization, moments": (skipped, False, True, True),
    "SkipSimplifiedLayerNormalization, moments": (skipped, True, False, True),
    **{f"FusedConv, {a}": (fused_convolution, a, a == "Relu") for a in ACTIVATIONS},
    "NhwcFusedConv": (fused_convolution, "Relu", True, True),
    "NhwcMaxPool": (pool, np.int8),
    "FusedMatMul": (product,),
    "FusedMatMul, transposed": (product, (1, 1)),
    "TransposeMatMul": (product, (1, 0), None),
    "FusedMatMul, batches transposed": (product, (0, 0), (1, 1)),
    "FusedMatMul, all transposed": (product, (1, 1), (1, 1)),
    "FusedGemm": (fused_gemm,),
}


def case_of(name, fed):
    """A model, its inputs, and the outputs: those that are not None."""
    make = CASES[name]
    op, operands, attrs, wanted = make[0](*make[1:]) if isinstance(make, tuple) else make()
    model, feeds = model_of(op, operands, len(wanted), fed, **attrs)
    for name, value in zip(list(model.graph.node[0].output), wanted):
        if value is None:
            model.graph.node[0].output[int(name[1:])] = ""
            del model.graph.output[[o.name for o in model.graph.output].index(name)]
    return model, feeds, [w for w in wanted if w is not None]


def inputs(name):
    """The operands that are not weights."""
    return [1] if name.startswith("GatherBlock") else [0]


@pytest.mark.parametrize("name", CASES)
def test_operators(name):
    model, feeds, wanted = case_of(name, inputs(name))
    tolerance = 5e-2 if "rounded" in name else 1e-4 if "LSTM" in name else 1e-5
    near(ggml.onnx.load(model, strict=True).run(feeds), wanted, tolerance)


@pytest.mark.parametrize("name", [n for n in CASES if n != "QLinearConcat"])  # whose first operand is a scale
def test_other_sizes(name):
    model, feeds, _ = case_of(name, inputs(name))
    assert other_sizes(model, list(feeds.values())) > 0


WEIGHTS = "MatMulNBits", "GatherBlock", "DynamicQuantizeLSTM", "QLinearConv, large"  # must be constants
FED = [n for n in CASES if not n.startswith(WEIGHTS)]


@pytest.mark.parametrize("name", FED)
def test_operators_without_constants(name):
    model, feeds, wanted = case_of(name, range(99))
    near(ggml.onnx.load(model, strict=True).run(feeds), wanted, 1e-5)


DECLINED = "NhwcFusedConv", "QLinearReduceMean"  # onnxruntime does not compute these on CPUs


@pytest.mark.parametrize("name", [n for n in CASES if n not in DECLINED])
def test_operators_as_onnxruntime(name):
    """onnxruntime rounds the inputs of DynamicQuantizeLSTM to 8 bits in every step: errors of up to 0.036."""
    model, feeds, _ = case_of(name, inputs(name))
    model, feeds = halved(model, feeds)
    tolerance = 5e-2 if "LSTM" in name else 1e-4
    near(ggml.onnx.load(model, strict=True).run(feeds), through_onnxruntime(model, feeds), tolerance)


COPIES = {
    "GatherND": ([floats(3, 4), np.array([[2], [0]])], {}, lambda x, index: x[[2, 0]]),
    "Pad": ([floats(2, 3), np.array([0, 1, 2, 0]), np.float32([1.5])], {}, lambda x, *_: np.pad(
        x, [(0, 2), (1, 0)], constant_values=1.5)),
    "Range": ([np.float32(v) for v in (1, 4, 0.75)], {}, np.arange),
    "Trilu": ([floats(2, 4, 4), np.array(1)], {"upper": 0}, np.tril),
}  # fmt: skip


@pytest.mark.parametrize("op", COPIES)
def test_copies_of_operators_of_onnx(op):
    operands, attrs, function = COPIES[op]
    for fed in (range(99), [0]):
        model, feeds = model_of(op, operands, 1, fed, **attrs)
        np.testing.assert_array_equal(ggml.onnx.load(model).run(feeds)[0], function(*operands))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances(dtype):
    x, y = floats(7, 5).astype(dtype), floats(4, 5, seed=1).astype(dtype)
    squares = np.square(x[:, None].astype(np.float64) - y).sum(2)
    for metric, wanted in (("euclidean", np.sqrt(squares)), ("sqeuclidean", squares)):
        model, feeds = model_of("CDist", [x, y], 1, metric=metric)
        (found,) = ggml.onnx.load(model).run(feeds)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
