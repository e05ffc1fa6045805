"""Quantised operators: integers of 8 bits and fewer are exact in F32, and so are their sums up to 2^24."""

import numpy as np

import ggml

from ..values import EXACT, F32, NARROW, Known, OnHost, Tensor, count, integer_range, is_float, is_integer
from . import rule
from .conv import convolve, window
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


def dequantized(b, x, scale, zero):
    """(x - zero) * scale with operands that broadcast."""
    y = as_float(b, x)
    if zero is not None:
        y = b.sub(y, as_float(b, zero))
    return b.mul(y, as_float(b, scale))


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
    axis, block = node.attr("axis", 1), node.attr("block_size", 0)
    y = dequantized(b, x, along(b, scale, x, axis, block), along(b, zero, x, axis, block))
    return Tensor(y.t, y.shape, scale.dtype)


@rule("QuantizeLinear", "com.microsoft.QuantizeLinear")
def quantize(b, node, x, scale, zero=None):
    from ..graph import numpy_type

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


def rescaled(b, sums, scale, out_scale, out_zero):
    """Sums of products as quantised numbers of the result's scale."""
    return quantized(b, b.mul(Tensor(sums.t, sums.shape, F32), scale), out_scale, out_zero, out_zero.dtype)


def raw(b, x, zero, axis):
    """x - zero as F32."""
    return as_float(b, centred(b, x, zero, axis))


@rule("QLinearMatMul")
def qlinear_matmul(b, node, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero):
    sums = matmul(b, raw(b, x, x_zero, -2), raw(b, y, y_zero, -1))
    columns = [b.reshape(s, (*s.shape, 1)) if len(s.shape) == 1 and s.shape[0] > 1 else s for s in (x_scale,)]
    return rescaled(b, sums, b.mul(as_float(b, columns[0]), as_float(b, y_scale)), z_scale, z_zero)


@rule("QLinearConv")
def qlinear_conv(b, node, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias=None):
    strides, dilations, pads = window(node, x.shape[2:], w.shape[2:])
    rank = len(x.shape)
    w_zero, w_scale = (along(b, v, w, 0, 0) for v in (w_zero, w_scale))
    kernel = b.sub(as_float(b, w), as_float(b, w_zero))
    sums = convolve(b, raw(b, x, x_zero, -1), kernel, strides, dilations, pads, node.attr("group", 1))
    if bias is not None:
        sums = b.add(sums, b.reshape(as_float(b, bias), (1, bias.shape[0], *(1,) * (rank - 2))))
    if count(w_scale.shape) > 1:
        w_scale = b.reshape(w_scale, (1, count(w_scale.shape), *(1,) * (rank - 2)))
    return rescaled(b, sums, b.mul(as_float(b, x_scale), as_float(b, w_scale)), y_scale, y_zero)


@rule("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def qlinear_arithmetic(b, node, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero=None):
    operands = dequantized(b, x, x_scale, x_zero), dequantized(b, y, y_scale, y_zero)
    z = (b.add if node.op.endswith("Add") else b.mul)(*operands)
    return quantized(b, z, z_scale, z_zero, x.dtype)


@rule("com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu")
def qlinear_activation(b, node, x, x_scale, x_zero, y_scale, y_zero=None):
    y = dequantized(b, x, x_scale, x_zero)
    if node.op.endswith("Sigmoid"):
        y = b.unary(ggml.ggml_sigmoid, y)
    else:
        y = b.with_shape(ggml.ggml_leaky_relu(b.ctx, y.t, node.attr("alpha", 0.01), False), y.shape, y)
    return quantized(b, y, y_scale, y_zero, x.dtype)


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
    sums = matmul(b, raw(b, x, x_zero, -2), raw(b, y, y_zero, -1))
    z = b.mul(sums, b.mul(as_float(b, x_scale), as_float(b, y_scale)))
    return z if bias is None else b.add(z, bias)


@rule("com.microsoft.DynamicQuantizeMatMul")
def dynamic_quantize_matmul(b, node, x, y, y_scale, y_zero=None, bias=None):
    """The weights are converted to floats once; the inputs are not rounded to 8 bits."""
    return matmul_integer_to_float(b, node, x, y, b.full((), 1.0), y_scale, None, y_zero, bias)


@rule("com.microsoft.MatMulNBits")
def matmul_nbits(b, node, x, y, scales, zeros=None, groups=None, bias=None):
    """Weights of a few bits per number, converted once."""
    n, k, bits, block = (node.attr(a) for a in ("N", "K", "bits", "block_size"))
    if bits not in (None, 4, 8) or groups is not None or not all(
            v is None or isinstance(v, Known) for v in (y, scales, zeros)):
        raise OnHost("weights of other than 4 or 8 bits, or that are computed")

    def unpacked(array, per_row):
        flat = array.reshape(n, -1)
        if bits == 8:
            return flat[:, :per_row]
        return np.stack([flat & 15, flat >> 4], -1).reshape(n, -1)[:, :per_row]

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
