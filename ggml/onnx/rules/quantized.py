"""Quantised operators: integers of 8 bits and fewer are exact in F32, and so are their sums up to 2^24."""

from dataclasses import replace

import numpy as np

from ..graph import numpy_type
from ..recording import ggml
from ..values import F32, NARROW, Known, OnHost, Tensor, count, integer_range, is_constant, is_float, is_integer
from . import RULES, rule
from .conv import byte_conv
from .elementwise import convert
from .matmul import byte_gemm, byte_matmul, centred, gemm, is_scale, matmul, product_of

SMOOTH = {"Add", "Sigmoid", "LeakyRelu"}  # of floats, whose results do not jump
TINY = float(np.finfo(np.float32).tiny)  # the unit of a tensor of zeros


def along(b, v, x, axis, block):
    """A scale or zero point in a shape that broadcasts to x: one number, one per entry of an axis, or per block."""
    if v is None or count(v.shape) == 1:
        return v and b.reshape(v, ())
    rank = len(x.shape)
    axis %= rank
    if not block and v.shape != (x.shape[axis],):
        raise ValueError(
            f"a scale or zero point is {list(v.shape)}: need one number or {x.shape[axis]}, as of axis {axis}"
        )
    if block:
        n = -(-x.shape[axis] // block)
        wide = b.reshape(v, (*v.shape[: axis + 1], 1, *v.shape[axis + 1 :]))
        wide = b.expand(wide, (*v.shape[: axis + 1], block, *v.shape[axis + 1 :]))
        return b.slice(b.reshape(wide, (*v.shape[:axis], n * block, *v.shape[axis + 1 :])), axis, 0, x.shape[axis])
    return b.reshape(v, [v.shape[0] if a == axis else 1 for a in range(rank)])


def dequantized(b, x, scale, zero=None, axis=1, block=0):
    """(x - zero) * scale."""
    operands = along(b, scale, x, axis, block), along(b, zero, x, axis, block)
    if scale.dtype == F32 and all(v is None or isinstance(v, Known) for v in (x, *operands)):
        s, z = (np.float32(0) if v is None else v.array.astype(np.float32) for v in operands)
        return x.derived(("float", s.shape, s.tobytes(), z.tobytes()), lambda a: (a.astype(np.float32) - z) * s)
    whole = is_integer(x.dtype) and x.dtype.itemsize == 1
    codes = centred(b, x, operands[1], -1) if whole else x
    y = b.as_float(codes)
    y = y if zero is None or whole else b.sub(y, b.as_float(operands[1]))
    return Tensor(b.mul(y, b.as_float(operands[0])).t, x.shape, scale.dtype)


def nearly(b, x, scale, zero, axis):
    """The same up to rounding, in one pass where it has one scale, for what becomes codes again."""
    numbers = [v for v in (scale, zero) if v is not None]
    plain = all(is_constant(v) and count(v.shape) == 1 for v in numbers)
    if isinstance(x, Known) or scale.dtype != F32 or not plain:
        return dequantized(b, x, scale, zero, axis)
    s, z = float(scale.array.reshape(())), 0.0 if zero is None else float(zero.array.reshape(()))
    return b.affine(b.as_float(x), s, -z * s)


def quantized(b, x, scale, zero, dtype, less=0):
    """x / scale rounded half to even, plus zero, limited to a type; then less zero if `less` is 1."""
    if not is_integer(dtype):
        raise OnHost(f"conversion to {dtype}")
    lo, hi = integer_range(dtype)
    if max(-lo, hi) > 1 << 16:
        raise OnHost(f"conversion to {dtype}")
    factors = x.factors if isinstance(x, Tensor) else None
    if factors and is_constant(scale) and scale.dtype == F32 and is_scale(scale.array):
        x, by = factors
        scale = scale.derived(("over", by.shape, by.array.tobytes()), lambda a: a / by.array)
    x, scale, one = b.as_float(x), b.as_float(scale), zero is None or count(zero.shape) == 1
    z, (low, high) = zero and one and b.use(b.as_float(zero)).t or None, (lo, hi) if one else (-np.inf, np.inf)
    y = b.binary(lambda ctx, a, s: ggml.ext.quantize_linear(ctx, a, s, z, low, high, less), x, scale)
    if not one:
        y = b.clamp(b.add(y, b.as_float(zero)), lo, hi)
    return Tensor(y.t, y.shape, dtype, (lo, hi))


def less_zero(b, x, scale, zero, codes):
    """The same less its zero point, as int32; codes: with it."""
    if zero is None or count(zero.shape) > 1:
        return centred(b, codes, zero, -1)
    t = quantized(b, x, scale, zero, codes.dtype, 1).t
    bounds = tuple(n - z for n, z in zip(codes.bounds, zero.bounds[::-1]))
    return Tensor(t, codes.shape, np.dtype(np.int32), bounds)


@rule("DequantizeLinear")
def dequantize(b, node, x, scale, zero=None):
    if not (is_integer(x.dtype) or x.dtype in NARROW) or not is_float(scale.dtype):
        raise OnHost(f"{x.dtype} is computed on the host")
    return dequantized(b, x, scale, zero, node.attr("axis", 1), node.attr("block_size", 0))


@rule("QuantizeLinear")
def quantize(b, node, x, scale, zero=None):
    kind = node.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else numpy_type(kind, str(node)) if kind else np.dtype(np.uint8)
    if x.bounds is None and not is_float(x.dtype):
        raise OnHost(f"{x.dtype} is computed on the host")
    axis, block = node.attr("axis", 1), node.attr("block_size", 0)
    scale, zero = along(b, scale, x, axis, block), along(b, zero, x, axis, block)
    y = quantized(b, x, scale, zero, dtype)
    return y if len(node.outputs) < 2 else (y, less_zero(b, x, scale, zero, y))


rule("DynamicQuantizeLinear")(lambda b, node, x: dynamically_quantized(b, x)[: max(len(node.outputs), 3)])


def dynamically_quantized(b, x):
    """Codes, their scale, their zero point, and the codes less that."""
    ends = Tensor(ggml.ext.min_max(b.ctx, b.use(x).t), (2,), F32)
    sizes = b.unary(ggml.ggml_relu, b.mul(ends, b.constant([-1, 1], F32)))  # below and above 0
    scale = b.clamp(b.div(b.reduce_sum(sizes, [0], False), b.full((), 255.0)), TINY)
    point = quantized(b, b.entry(sizes, 0, 0), scale, None, np.dtype(np.uint8))
    y = quantized(b, x, scale, point, np.dtype(np.uint8))
    return y, scale, point, less_zero(b, x, scale, point, y)


@rule(
    "QLinearMatMul",
    "QLinearConv",
    *(
        f"com.microsoft.QLinear{n}"
        for n in (
            "Conv",
            "Add",
            "Mul",
            "Sigmoid",
            "LeakyRelu",
            "Softmax",
            "AveragePool",
            "GlobalAveragePool",
            "ReduceMean",
        )
    ),
)
def qlinear(b, node, x, x_scale, x_zero, *rest):
    """An operator of floats: its operands with scales and zero points, then those of the result, then a bias."""
    name, last = node.op.split("QLinear")[1], node.attr("channels_last", 0)
    axes = {"MatMul": (-2, -1), "Conv": (1, 0)}.get(name, (0, 0))
    integers = [b.move(x, -1, 1) if last else x, x_scale, x_zero]
    if name in ("MatMul", "Conv", "Add", "Mul"):
        integers, rest = integers + list(rest[:3]), rest[3:]
    scale, zero, bias = [*rest, None, None][:3]
    if bias is not None:
        bias = dequantized(b, bias, product_of(b, x_scale, integers[4]), None, 0)
    product = {"Conv": byte_conv, "MatMul": byte_matmul}.get(name)
    y = product and product(b, node, *integers, bias)
    if y is None:
        threes = zip(integers[::3], integers[1::3], integers[2::3], axes)
        operands = [(nearly if name in SMOOTH else dequantized)(b, *three) for three in threes]
        plain = replace(node, op=name, version=node.attr("opset", node.version))
        y = RULES[name](b, plain, *operands, *(() if bias is None else (bias,)))
    y = quantized(b, y, scale, zero, x.dtype if zero is None else zero.dtype)
    return b.move(y, 1, -1) if last else y


@rule("com.microsoft.QLinearConcat")
def qlinear_concat(b, node, scale, zero, *parts):
    values = [dequantized(b, *parts[i : i + 3]) for i in range(0, len(parts), 3)]
    return quantized(b, b.concat(values, node.attr("axis")), scale, zero, zero.dtype)


@rule("com.microsoft.QLinearWhere")
def qlinear_where(b, node, condition, *operands):
    x, y, (scale, zero) = dequantized(b, *operands[:3]), dequantized(b, *operands[3:6]), operands[6:]
    return quantized(b, b.select(condition, x, y), scale, zero, zero.dtype)


@rule("com.microsoft.QGemm")
def qgemm(b, node, x, x_scale, x_zero, y, y_scale, y_zero, c=None, scale=None, zero=None):
    factor = b.affine(b.mul(x_scale, y_scale), node.attr("alpha", 1.0))
    c = c and b.mul(convert(b, c, F32), factor)
    z = byte_gemm(b, node, x, x_scale, x_zero, y, y_scale, y_zero, c)
    if z is None:
        y = dequantized(b, y, y_scale, y_zero, 0 if node.attr("transB", 0) else 1)
        z = gemm(b, node, dequantized(b, x, x_scale, x_zero), y, c)
    return z if scale is None else quantized(b, z, scale, zero, zero.dtype)


@rule("com.microsoft.MatMulIntegerToFloat")
def matmul_integer_to_float(b, node, x, y, x_scale, y_scale, x_zero=None, y_zero=None, bias=None):
    z = byte_matmul(b, node, x, x_scale, x_zero, y, y_scale, y_zero)
    if z is None:
        z = matmul(b, dequantized(b, x, x_scale, x_zero, -2), dequantized(b, y, y_scale, y_zero, -1))
    return z if bias is None else b.add(z, bias)


@rule("com.microsoft.DynamicQuantizeMatMul")
def dynamic_quantize_matmul(b, node, x, y, y_scale, y_zero=None, bias=None):
    _, x_scale, _, x = dynamically_quantized(b, x)
    return matmul_integer_to_float(b, node, x, y, x_scale, y_scale, None, y_zero, bias)


def converted(codes, scales, zeros, bits, width, block):
    """The numbers (rows, width) of rows of codes, 8 / bits of them in a byte, with a scale for each block."""
    rows = codes.shape[0]
    if bits not in (2, 4, 8) or not all(v is None or isinstance(v, Known) for v in (codes, scales, zeros)):
        raise OnHost("weights of other than 2, 4 or 8 bits, or that are computed")

    def unpacked(array):
        if array.dtype == np.uint8:
            array = array[..., None] >> np.arange(0, 8, bits).astype(np.uint8) & np.uint8((1 << bits) - 1)
        return array.reshape(rows, -1)

    def spread(array):
        return np.repeat(array.astype(np.float32).reshape(rows, -1), block, 1)[:, :width]

    def floats(array):
        z = np.float32(1 << bits - 1 if array.dtype == np.uint8 else 0)
        z = z if zeros is None else spread(unpacked(zeros.array))
        return (unpacked(array)[:, :width].astype(np.float32) - z) * spread(scales.array)

    others = (None if v is None else hash(v.array.tobytes()) for v in (scales, zeros))
    return codes.derived(("blocks", bits, width, block, *others), floats)


@rule("com.microsoft.MatMulNBits")
def matmul_nbits(b, node, x, y, scales, zeros=None, groups=None, bias=None):
    if groups is not None:
        raise OnHost("an order of the inputs")
    w = converted(y, scales, zeros, node.attr("bits", 4), node.attr("K"), node.attr("block_size"))
    z = matmul(b, x, b.transpose(w, (1, 0)))
    return z if bias is None else b.add(z, bias)


@rule("com.microsoft.GatherBlockQuantized")
def gather_blocks(b, node, codes, index, scales, zeros=None):
    bits, width = node.attr("bits", 4), codes.shape[1]
    if len(codes.shape) != 2 or node.attr("gather_axis", 0) or not node.attr("quantize_axis", 1):
        raise OnHost("blocks that are not along the last of two axes")
    width *= 8 // bits if codes.dtype == np.uint8 else 1
    return RULES["Gather"](b, node, converted(codes, scales, zeros, bits, width, node.attr("block_size", 128)), index)
