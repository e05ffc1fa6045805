"""Quantised operators: integers of 8 bits and fewer are exact in F32, and so are their sums up to 2^24."""

from dataclasses import replace

import numpy as np

import ggml

from ..graph import numpy_type
from ..values import EXACT, F32, NARROW, Known, OnHost, Tensor, count, integer_range, is_float, is_integer
from . import RULES, rule
from .matmul import centred, matmul


def along(b, v, x, axis, block):
    """A scale or zero point in a shape that broadcasts to x: one number, one per entry of an axis, or per block."""
    if v is None or count(v.shape) == 1:
        return v and b.reshape(v, ())
    rank = len(x.shape)
    axis %= rank
    if block:
        n = -(-x.shape[axis] // block)
        wide = b.reshape(v, (*v.shape[: axis + 1], 1, *v.shape[axis + 1 :]))
        wide = b.expand(wide, (*v.shape[: axis + 1], block, *v.shape[axis + 1 :]))
        return b.slice(b.reshape(wide, (*v.shape[:axis], n * block, *v.shape[axis + 1 :])), axis, 0, x.shape[axis])
    return b.reshape(v, [v.shape[0] if a == axis else 1 for a in range(rank)])


def as_float(b, x):
    """The numbers of a quantised tensor as F32."""
    if isinstance(x, Known):
        return x.derived("float", lambda a: a.astype(np.float32))
    x = b.use(x)
    return Tensor(x.t, x.shape, F32)


def dequantized(b, x, scale, zero=None, axis=1, block=0):
    """(x - zero) * scale, which knows the integers that it was made of: products are computed with those."""
    operands = along(b, scale, x, axis, block), along(b, zero, x, axis, block)
    if scale.dtype == F32 and all(v is None or isinstance(v, Known) for v in (x, *operands)):
        s, z = (np.float32(0) if v is None else v.array.astype(np.float32) for v in operands)
        y = x.derived(("float", s.shape, s.tobytes(), z.tobytes()), lambda a: (a.astype(np.float32) - z) * s)
        y.tensors["codes"] = x, scale, zero, axis
        return y
    y = as_float(b, x)
    y = y if zero is None else b.sub(y, as_float(b, operands[1]))
    y = Tensor(b.mul(y, as_float(b, operands[0])).t, x.shape, scale.dtype)
    if count(scale.shape) == 1 and x.dtype in (np.uint8, np.int8) and scale.dtype == F32:
        y.made = "codes", centred(b, x, operands[1], -1), operands[0]
    return y


def quantized(b, x, scale, zero, dtype):
    """x / scale rounded half to even, plus zero, limited to a type."""
    if not is_integer(dtype):
        raise OnHost(f"conversion to {dtype}")
    y = b.clamp(b.div(as_float(b, x), as_float(b, scale)), -EXACT / 16, EXACT / 16)
    y = b.affine(b.affine(y, 1.0, 0.75 * EXACT), 1.0, -0.75 * EXACT)  # rounds: F32 has no fractions there
    if zero is not None:
        y = b.add(y, as_float(b, zero))
    lo, hi = integer_range(dtype)
    if max(-lo, hi) > 1 << 16:
        raise OnHost(f"conversion to {dtype}")
    y = b.clamp(y, lo, hi)
    return Tensor(y.t, y.shape, dtype, (lo, hi))


@rule("DequantizeLinear", "com.microsoft.DequantizeLinear")
def dequantize(b, node, x, scale, zero=None):
    if not (is_integer(x.dtype) or x.dtype in NARROW) or not is_float(scale.dtype):
        raise OnHost(f"{x.dtype} is computed on the host")
    return dequantized(b, x, scale, zero, node.attr("axis", 1), node.attr("block_size", 0))


@rule("QuantizeLinear", "com.microsoft.QuantizeLinear")
def quantize(b, node, x, scale, zero=None):
    kind = node.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else numpy_type(kind, str(node)) if kind else np.dtype(np.uint8)
    if x.bounds is None and not is_float(x.dtype):
        raise OnHost(f"{x.dtype} is computed on the host")
    axis, block = node.attr("axis", 1), node.attr("block_size", 0)
    return quantized(b, x, along(b, scale, x, axis, block), along(b, zero, x, axis, block), dtype)


@rule("DynamicQuantizeLinear")
def dynamic_quantize(b, node, x):
    axes = list(range(len(x.shape)))
    top = b.unary(ggml.ggml_relu, b.reduce_max(x, axes, False))
    low = b.negative(b.unary(ggml.ggml_relu, b.reduce_max(b.negative(x), axes, False)))
    scale = b.affine(b.sub(top, low), 1 / 255)
    point = quantized(b, b.negative(low), scale, None, np.dtype(np.uint8))
    return quantized(b, x, scale, point, np.dtype(np.uint8)), scale, point


@rule("QLinearMatMul", "QLinearConv", *(f"com.microsoft.QLinear{n}" for n in ("Add", "Mul", "Sigmoid", "LeakyRelu")))
def qlinear(b, node, x, x_scale, x_zero, *rest):
    """An operator of floats: its operands with scales and zero points, then those of the result, then a bias."""
    name = node.op.split("QLinear")[1]
    axes = {"MatMul": (-2, -1), "Conv": (1, 0)}.get(name, (0, 0))
    operands = [dequantized(b, x, x_scale, x_zero, axes[0])]
    if name not in ("Sigmoid", "LeakyRelu"):
        operands.append(dequantized(b, rest[0], rest[1], rest[2], axes[1]))
        y_scale, rest = rest[1], rest[3:]
    scale, zero, bias = [*rest, None, None][:3]
    if bias is not None:
        operands.append(b.mul(as_float(b, bias), b.mul(x_scale, b.reshape(y_scale, (count(y_scale.shape),)))))
    y = RULES[name](b, replace(node, op=name), *operands)
    return quantized(b, y, scale, zero, x.dtype if zero is None else zero.dtype)


@rule("com.microsoft.QLinearGlobalAveragePool")
def qlinear_global_pool(b, node, x, x_scale, x_zero, y_scale, y_zero):
    first = 1 if node.attr("channels_last", 0) else 2
    y = b.reduce_sum(dequantized(b, x, x_scale, x_zero), range(first, len(x.shape) - (first == 1)), True, mean=True)
    return quantized(b, y, y_scale, y_zero, x.dtype)


@rule("com.microsoft.QLinearConcat")
def qlinear_concat(b, node, y_scale, y_zero, *parts):
    values = [dequantized(b, *parts[i : i + 3]) for i in range(0, len(parts), 3)]
    return quantized(b, b.concat(values, node.attr("axis")), y_scale, y_zero, y_zero.dtype)


@rule("com.microsoft.MatMulIntegerToFloat")
def matmul_integer_to_float(b, node, x, y, x_scale, y_scale, x_zero=None, y_zero=None, bias=None):
    z = matmul(b, dequantized(b, x, x_scale, x_zero, -2), dequantized(b, y, y_scale, y_zero, -1))
    return z if bias is None else b.add(z, bias)


@rule("com.microsoft.DynamicQuantizeMatMul")
def dynamic_quantize_matmul(b, node, x, y, y_scale, y_zero=None, bias=None):
    """The weights are converted to floats once; the inputs are not rounded to 8 bits."""
    z = matmul(b, x, dequantized(b, y, y_scale, y_zero, -1))
    return z if bias is None else b.add(z, bias)


@rule("com.microsoft.MatMulNBits")
def matmul_nbits(b, node, x, y, scales, zeros=None, groups=None, bias=None):
    """Weights of a few bits per number, converted once."""
    n, k, bits, block = (node.attr(a) for a in ("N", "K", "bits", "block_size"))
    if bits not in (None, 4, 8) or groups is not None or not all(
            v is None or isinstance(v, Known) for v in (y, scales, zeros)):
        raise OnHost("weights of other than 4 or 8 bits, or that are computed")

    def unpacked(array, per_row):
        flat = array if bits == 8 else np.stack([array & 15, array >> 4], -1)
        return flat.reshape(n, -1)[:, :per_row]

    def floats(array):
        blocks = -(-k // block)
        q = unpacked(array, blocks * block).reshape(n, blocks, block).astype(np.float32)
        z = np.float32(1 << (bits or 4) - 1)
        if zeros is not None:
            z = (unpacked(zeros.array, blocks) if zeros.dtype == np.uint8 else zeros.array).reshape(n, blocks, 1)
        w = (q - z) * scales.array.astype(np.float32).reshape(n, blocks, 1)
        return w.reshape(n, -1)[:, :k].T

    z = matmul(b, x, y.derived("nbits", floats))
    return z if bias is None else b.add(z, bias)
