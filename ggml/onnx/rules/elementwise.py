"""Arithmetic, functions, comparisons and selection, element by element."""

import functools
import math
from dataclasses import replace

import numpy as np

from ..graph import numpy_type
from ..recording import ggml
from ..values import (
    BOOL,
    EXACT,
    F32,
    F64,
    I64,
    NARROW,
    Known,
    OnHost,
    Tensor,
    count,
    floats,
    is_float,
    is_integer,
    ml_dtypes,
)
from . import RULES, rule
from .doubles import widened

FUNCTIONS = "Sqrt Exp Log Sin Cos Tanh Sigmoid HardSwish Softplus Floor Ceil".split()
rule(*FUNCTIONS, on_floats=True)(lambda b, node, x: b.unary(getattr(ggml, "ggml_" + node.op.lower()), x))


@rule("Dropout")
def dropout(b, node, x, ratio=None, training=None):
    if training is not None and np.any(b.known(training)) or node.version < 7:
        raise OnHost("dropout of training is random")
    mask = b.full(x.shape, True, BOOL) if len(node.outputs) > 1 else None
    return (x, mask) if mask else x


@rule("Abs")
def absolute(b, node, x):
    return b.unary(ggml.ggml_abs, x, bounds=x.bounds and (0, max(-x.bounds[0], x.bounds[1])))


rule("Neg")(lambda b, node, x: b.negative(x))
rule("Sign")(lambda b, node, x: b.unary(ggml.ggml_sgn, x, bounds=x.bounds and (-1, 1)))
rule("Round", on_floats=True)(lambda b, node, x: round_half_even(b, x))


def round_half_even(b, x):
    """The nearest whole numbers; halves become even."""
    unit = b.use(b.full((), 1.0)).t
    return b.unary(lambda ctx, t: ggml.ext.quantize_linear(ctx, t, unit, None, -math.inf, math.inf), x)


rule("Reciprocal", on_floats=True)(lambda b, node, x: b.reciprocal(x))
rule("Tan", on_floats=True)(lambda b, node, x: b.div(b.unary(ggml.ggml_sin, x), b.unary(ggml.ggml_cos, x)))


def where_more(b, x, limit, y, otherwise):
    """y where x is more than a number, another value elsewhere and for NaN; the number need not be one of x's type."""
    return b.select(b.less(b.full((), limit, F32), x), y, otherwise)


def log1p(b, x):
    """log(1 + x), as exact as log: the rounding of 1 + x is made good by what it makes of x."""
    total = b.affine(x, 1.0, 1.0)
    rounded, value = b.affine(total, 1.0, -1.0), b.unary(ggml.ggml_log, total)
    y = b.select(b.equal(rounded, b.full((), 0, x.dtype)), x, b.mul(value, b.div(x, rounded)))
    return where_more(b, rounded, 2.0**24, value, y)


def signed(b, y, x):
    """y, of an odd function of |x|, with the sign of x."""
    return b.mul(y, b.unary(ggml.ggml_sgn, x))


@rule("Sinh", "Cosh", on_floats=True)
def hyperbolic(b, node, x):
    power, joint = (ggml.ggml_expm1, b.sub) if node.op == "Sinh" else (ggml.ggml_exp, b.add)
    size = b.unary(ggml.ggml_abs, x)
    root = b.unary(ggml.ggml_exp, b.affine(size, 0.5))
    large = b.mul(b.affine(root, 0.5), root)  # half of exp(|x|), which alone has no float
    y = b.affine(joint(b.unary(power, x), b.unary(power, b.negative(x))), 0.5)
    return where_more(b, size, 88.0, signed(b, large, x) if node.op == "Sinh" else large, y)


@rule("Asinh", "Acosh", "Atanh", on_floats=True)
def area(b, node, x):
    if node.op == "Acosh":  # NaN below 1
        above = b.affine(x, 1, -1)
        leg = b.mul(b.unary(ggml.ggml_sqrt, above), b.unary(ggml.ggml_sqrt, b.affine(x, 1, 1)))
        return area_of_large(b, x, log1p(b, b.add(above, leg)))
    size = b.unary(ggml.ggml_abs, x)
    if node.op == "Atanh":
        return signed(b, b.affine(log1p(b, b.div(b.affine(size, 2), b.affine(size, -1, 1))), 0.5), x)
    square = b.unary(ggml.ggml_sqr, size)
    leg = b.affine(b.unary(ggml.ggml_sqrt, b.affine(square, 1, 1)), 1, 1)
    return signed(b, area_of_large(b, size, log1p(b, b.add(size, b.div(square, leg)))), x)


def area_of_large(b, x, y):
    """log(2 x) where squares of x may have no float, which acosh(x) and asinh(x) are from there on; y elsewhere."""
    return where_more(b, x, 2.0**14, b.affine(b.unary(ggml.ggml_log, x), 1.0, math.log(2)), y)


# atan(x) / x on [0, 1] as a polynomial of x^2, highest power first: a Chebyshev fit, error below 1e-7.
ATAN = (
    np.polynomial.Chebyshev.interpolate(lambda u: np.arctan(np.sqrt(u)) / np.sqrt(u), 10, domain=[0, 1])
    .convert(kind=np.polynomial.Polynomial)
    .coef[::-1]
)


def arctan(b, x):
    """atan: a polynomial of min(|x|, 1/|x|), reflected."""
    size = b.unary(ggml.ggml_abs, x)
    large = b.less(b.full((), 1.0, x.dtype), size)
    small = b.select(large, b.reciprocal(size), size)
    square = b.unary(ggml.ggml_sqr, small)
    y = b.affine(square, ATAN[0], ATAN[1])
    for c in ATAN[2:]:
        y = b.affine(b.mul(y, square), 1.0, c)
    y = b.mul(y, small)
    y = b.select(large, b.affine(y, -1.0, math.pi / 2), y)
    return signed(b, y, x)


@rule("Atan", "Asin", "Acos", on_floats=True)
def inverse_circular(b, node, x):
    if node.op == "Atan":
        return arctan(b, x)
    below, above = b.affine(x, -1, 1), b.affine(x, 1, 1)
    if node.op == "Acos":
        return b.affine(arctan(b, b.unary(ggml.ggml_sqrt, b.div(below, above))), 2.0)
    return arctan(b, b.div(x, b.unary(ggml.ggml_sqrt, b.mul(below, above))))


rule("Erf", on_floats=True)(lambda b, node, x: b.unary(ggml.ext.erf, x))


@rule("Gelu", "com.microsoft.Gelu", "com.microsoft.BiasGelu", "com.microsoft.FastGelu", on_floats=True)
def gelu(b, node, x, bias=None):
    tanh = node.attr("approximate", "none") == "tanh" or node.op.endswith("FastGelu")
    x = x if bias is None else b.add(x, bias)
    return b.unary(ggml.ggml_gelu if tanh else ggml.ggml_gelu_erf, x)


@rule("Relu")
def relu(b, node, x):
    return b.unary(ggml.ggml_relu, x, bounds=x.bounds and (max(x.bounds[0], 0), max(x.bounds[1], 0)))


rule("LeakyRelu", on_floats=True)(
    lambda b, node, x: b.unary(lambda ctx, t: ggml.ggml_leaky_relu(ctx, t, node.attr("alpha", 0.01), False), x)
)


@rule("PRelu", on_floats=True)
def prelu(b, node, x, slope):
    if node.version < 7 and len(slope.shape) == 1:
        slope = b.reshape(slope, (*slope.shape, *(1,) * (len(x.shape) - 2)))
    return b.binary(ggml.ext.prelu, x, slope)


@rule("ThresholdedRelu", on_floats=True)
def thresholded_relu(b, node, x):
    return b.select(b.less(b.full((), node.attr("alpha", 1.0), x.dtype), x), x, b.full((), 0, x.dtype))


@rule("Elu", "Selu", on_floats=True)
def elu(b, node, x):
    below = b.unary(ggml.ggml_expm1, b.clamp(x, -math.inf, 0.0))
    if node.op == "Elu":
        return b.add(b.unary(ggml.ggml_relu, x), b.affine(below, node.attr("alpha", 1.0)))
    alpha, gamma = (1.6732, 1.0507) if node.version < 6 else (1.67326319217681884765625, 1.05070102214813232421875)
    alpha, gamma = node.attr("alpha", alpha), node.attr("gamma", gamma)
    return b.add(b.affine(b.unary(ggml.ggml_relu, x), gamma), b.affine(below, alpha * gamma))


@rule("Celu", on_floats=True)
def celu(b, node, x):
    alpha = node.attr("alpha", 1.0)
    below = b.affine(b.unary(ggml.ggml_expm1, b.affine(x, 1 / alpha)), alpha)
    return b.add(b.unary(ggml.ggml_relu, x), b.clamp(below, -math.inf, 0.0))


# Functions that ONNX defined as operators until version 1, most for recurrent networks.
rule("Affine")(lambda b, node, x: b.affine(x, node.attr("alpha", 1.0), node.attr("beta", 0.0)))
rule("ScaledTanh")(
    lambda b, node, x: b.affine(b.unary(ggml.ggml_tanh, b.affine(x, node.attr("beta"))), node.attr("alpha"))
)
rule("ParametricSoftplus")(
    lambda b, node, x: b.affine(
        b.unary(ggml.ggml_softplus, b.affine(*floats(x), node.attr("beta"))), node.attr("alpha")
    )
)
rule("Softsign")(lambda b, node, x: b.div(x, b.affine(b.unary(ggml.ggml_abs, *floats(x)), 1.0, 1.0)))


def activation(node, name, *parameters):
    """A function (builder, value) that other operators apply to their results, by its name and its attributes in order.

    None stands for the default of an attribute.
    """
    names = {"Clip": ("min", "max")}.get(name, ("alpha", "beta"))
    if name not in ACTIVATIONS:
        raise ValueError(f"there is no activation {name!r}: need one of {', '.join(map(repr, ACTIVATIONS))}")
    attrs = {k: v for k, v in zip(names, parameters) if v is not None}
    build, own = RULES[name], replace(node, op=name, attrs=attrs, version=7)
    return lambda b, x: build(b, own, x)


def activated(b, node, x, name, *parameters):
    """The result of such a function."""
    return activation(node, name, *parameters)(b, x)


ACTIVATIONS = {
    "Sigmoid": 0,
    "Tanh": 0,
    "Relu": 0,
    "Softplus": 0,
    "Softsign": 0,
    "LeakyRelu": 1,
    "ThresholdedRelu": 1,
    "Elu": 1,
    "Affine": 2,
    "HardSigmoid": 2,
    "ScaledTanh": 2,
    "Clip": 2,
}  # with the number of their parameters


@rule("HardSigmoid", on_floats=True)
def hard_sigmoid(b, node, x):
    alpha, beta = node.attr("alpha", 0.2), node.attr("beta", 0.5)
    return b.clamp(b.affine(x, alpha, beta), 0.0, 1.0)


@rule("Swish", "com.microsoft.QuickGelu", on_floats=True)
def swish(b, node, x):
    alpha = node.attr("alpha", 1.0 if node.op == "Swish" else 1.702)
    if alpha == 1.0:
        return b.unary(ggml.ggml_silu, x)
    return b.mul(x, b.unary(ggml.ggml_sigmoid, b.affine(x, alpha)))


@rule("Add", "Sub", "Mul")
def arithmetic(b, node, x, y):
    for value, other in ((x, y), (y, x))[: 1 if node.op == "Sub" else 2]:
        c = number(value, other)
        if c is not None:
            return affine(b, value, *{"Add": (1.0, c), "Sub": (1.0, -c), "Mul": (c, 0.0)}[node.op])
    return getattr(b, node.op.lower())(x, y)


def number(x, v):
    """The value of a constant that is one number, as an operand of the float x; None for others."""
    if isinstance(v, Known) and count(v.shape) == 1 and is_float(x.dtype) and len(v.shape) <= len(x.shape):
        return float(v.array.reshape(()))
    return None


def affine(b, x, scale, shift):
    """x * scale + shift."""
    return x if scale == 1 and not shift else b.affine(x, scale, shift)


@rule("ggml.Line", on_floats=True)
def line(b, node, x):
    """x, or a function of it, times a number, plus a number. rank: of the numbers in the model."""
    if len(x.shape) < node.attr("rank"):
        raise OnHost("numbers of a higher rank")
    y = b.unary(getattr(ggml, "ggml_" + node.attr("function")), x) if node.attr("function") else x
    return affine(b, y, node.attr("scale"), node.attr("shift"))


@rule("Div")
def div(b, node, x, y):
    if not is_integer(x.dtype):
        floats(x, y)
        return b.div(x, y)
    q = whole_quotient(b, x, y)
    largest = max(map(abs, x.bounds))
    return b.like(q.t, q.shape, x.dtype, (-largest if min(*x.bounds, *y.bounds) < 0 else 0, largest))


def whole_quotient(b, x, y):
    """The quotient of integers rounded toward zero, as F32.

    The quotient of F32 rounds to a whole number only if it is one: otherwise its distance to the next is at least
    1/|y|, and half a unit in the last place is less, because |x| <= 2^24.
    """
    return b.unary(ggml.ggml_trunc, b.binary(ggml.ggml_div, x, y, dtype=F32))


@rule("Mod")
def mod(b, node, x, y):
    if not is_integer(x.dtype):
        floats(x)
        rest = b.binary(ggml.ext.fmod, x, y)
        if node.attr("fmod", 0):
            return rest
        zero = b.full((), 0, x.dtype)  # where the signs differ, the remainder of the quotient rounded down is larger
        return b.select(b.less(b.mul(rest, b.unary(ggml.ggml_sgn, b.use(y))), zero), b.add(rest, y), rest)
    fmod, largest = node.attr("fmod", 0), max(map(abs, y.bounds))
    rest = b.binary(ggml.ggml_sub, x, b.binary(ggml.ggml_mul, whole_quotient(b, x, y), y, dtype=F32), dtype=F32)
    if not fmod:  # the sign is the divisor's
        other = b.unary(ggml.ggml_step, b.negative(b.mul(rest, b.unary(ggml.ggml_sgn, b.as_float(y)))))
        rest = b.add(rest, b.binary(ggml.ggml_mul, other, y, dtype=F32))
    signed = (x if fmod else y).bounds
    return b.like(rest.t, rest.shape, x.dtype, (-largest if signed[0] < 0 else 0, largest if signed[1] > 0 else 0))


def power_of_two(b, exponent):
    """2^exponent, exact, for whole numbers from -32 to 32."""
    table = b.constant(2.0 ** np.arange(-32, 33), F32)
    return b.pick(table, b.affine(b.clamp(exponent, -32.0, 32.0), 1.0, 32.0))


@rule("BitShift")
def bit_shift(b, node, x, places):
    """x * 2^places or floor(x / 2^places): scaling by a power of two is exact. Negative places shift everything out."""
    bits, left = 8 * x.dtype.itemsize, node.attr("direction") == "LEFT"
    most = min(max(places.bounds), bits) if left and bits > 16 else 0
    if max(map(abs, x.bounds)) << most > EXACT:
        raise OnHost("integers beyond F32: they stay exact on the host")
    exponent = b.as_float(places)
    exponent = b.clamp(b.add(exponent, b.affine(b.unary(ggml.ggml_step, b.negative(exponent)), 2.0**12)), 0.0, 32.0)
    power = power_of_two(b, exponent)
    if not left:
        moved = b.unary(ggml.ggml_floor, b.binary(ggml.ggml_div, x, power, dtype=F32))
        return b.like(moved.t, moved.shape, x.dtype, (min(x.bounds[0], 0), max(x.bounds[1], 0)))
    moved = b.binary(ggml.ggml_mul, x, power, dtype=F32)
    if bits > 16:
        return b.like(moved.t, moved.shape, x.dtype, tuple(v << most for v in x.bounds))
    rest = b.sub(moved, b.affine(b.unary(ggml.ggml_floor, b.affine(moved, 0.5**bits)), 2.0**bits))
    return b.like(rest.t, rest.shape, x.dtype, (0, 2**bits - 1))


@rule("Pow")
def power(b, node, x, y):
    single = isinstance(y, Known) and count(y.shape) == 1 and len(y.shape) <= len(x.shape)
    e = float(y.array.reshape(())) if single else math.nan
    most = 4 if x.dtype == F32 else 2 if is_float(x.dtype) else 16  # products take less time, but round each time
    if e in range(1, most + 1):
        return whole_power(b, x, int(e))
    if not is_float(x.dtype):
        raise OnHost("powers of integers")
    if e == -1.0:
        return b.reciprocal(x)
    return b.binary(ggml.ext.pow, x, b.as_float(y))


def whole_power(b, x, n):
    """x^n by squares, n >= 1."""
    if n == 1:
        return x
    y = whole_power(b, b.mul(x, x), n // 2)
    return b.mul(y, x) if n % 2 else y


@rule("Sum", "Mean")
def total(b, node, *values):
    result = functools.reduce(b.add, values)
    return b.affine(*floats(result), 1 / len(values)) if node.op == "Mean" and len(values) > 1 else result


rule("Max")(lambda b, node, *values: functools.reduce(b.maximum, values))
rule("Min")(lambda b, node, *values: functools.reduce(functools.partial(b.maximum, least=True), values))


@rule("Clip")
def clip(b, node, x, lo=None, hi=None):
    if node.version < 11:  # the attributes default to the outermost floats, which bound infinite elements
        most = float(np.finfo(F32).max)
        return b.clamp(x, node.attr("min", -most), node.attr("max", most))
    if all(v is None or isinstance(v, Known) for v in (lo, hi)):
        limits = [
            default if v is None else float(v.array.reshape(())) for v, default in ((lo, -math.inf), (hi, math.inf))
        ]
        if limits[0] <= limits[1]:
            return b.clamp(x, *limits)
    if lo is not None:
        x = b.maximum(x, lo)
    return x if hi is None else b.maximum(x, hi, least=True)


rule("Cast")(lambda b, node, x: convert(b, x, numpy_type(node.attr("to"), str(node)), node.attr("saturate", 1)))
rule("CastLike")(lambda b, node, x, like: convert(b, x, like.dtype, node.attr("saturate", 1)))


def narrowed(b, x, dtype, saturate):
    """A float rounded to a type of 8 or fewer bits: to a multiple of the unit in the last place at its magnitude."""
    info = ml_dtypes.finfo(dtype)
    if info.nmant < 1:
        raise OnHost(f"conversion to {dtype}")
    size = b.unary(ggml.ggml_abs, b.like(x.t, x.shape, F32))
    exponent = b.unary(ggml.ggml_floor, b.affine(b.unary(ggml.ggml_log, size), 1 / math.log(2)))
    power = power_of_two(b, b.clamp(exponent, float(info.minexp), 31.0))
    for wrong, factor in ((b.less(size, power), -0.5), (b.less(power, b.affine(size, 0.5, 1e-30)), 1.0)):
        power = b.mul(power, b.affine(wrong, factor, 1.0, dtype=F32))  # the logarithm is rounded: one off at most
    power = b.clamp(power, 2.0**info.minexp, 2.0**32)
    unit = b.affine(power, 2.0**-info.nmant)
    y, largest = b.mul(round_half_even(b, b.div(b.like(x.t, x.shape, F32), unit)), unit), float(info.max)
    if saturate:
        return b.like(b.clamp(y, -largest, largest).t, x.shape, dtype)
    over = b.like(b.less(b.full((), largest, y.dtype), b.unary(ggml.ggml_abs, y)).t, x.shape, F32)
    if dtype.name == "float8_e5m2":  # the only one with infinities: -log(0)
        far = b.negative(b.unary(ggml.ggml_log, b.affine(over, -1.0, 1.0)))
        return b.like(b.add(y, b.mul(far, b.unary(ggml.ggml_sgn, y))).t, x.shape, dtype)
    return b.like(b.add(y, b.unary(ggml.ggml_sqrt, b.negative(over))).t, x.shape, dtype)


def convert(b, x, dtype, saturate=1):
    """The value in another type."""
    if isinstance(x, Known) or dtype == x.dtype:
        return x if dtype == x.dtype else Known(x.array.astype(dtype), x.arena)
    if dtype == F64:
        return widened(b, x)
    x = b.use(x)
    if dtype == F32:
        return b.like(x.t, x.shape, F32)
    if dtype == BOOL:
        return b.unequal(Tensor(x.t, x.shape, F32), b.full((), 0.0))  # NaN is true
    if is_float(dtype):
        return b.rounded(x, dtype)
    if dtype in NARROW:
        return narrowed(b, x, dtype, saturate)
    if not is_integer(dtype):
        raise OnHost(f"conversion to {dtype}")
    if x.bounds:
        return b.like(x.t, x.shape, dtype, x.bounds)
    if dtype.kind == "u" and dtype.itemsize > 2:
        raise OnHost(f"negative numbers wrap around in {dtype}")
    y = b.unary(ggml.ggml_trunc, x)
    if dtype.itemsize < 4:  # what lies beyond the type wraps around
        return b.like(y.t, x.shape, dtype, (-EXACT, EXACT))
    y = b.like(y.t, y.shape, dtype)
    y.bounds = (-(1 << 62), 1 << 62) if dtype == I64 else (-(1 << 31), (1 << 31) - 1)
    return y


# Comparisons, logic and selection

rule("Less")(lambda b, node, x, y: b.less(x, y))
rule("Greater")(lambda b, node, x, y: b.less(y, x))
rule("LessOrEqual")(lambda b, node, x, y: b.less_or_equal(x, y))
rule("GreaterOrEqual")(lambda b, node, x, y: b.less_or_equal(y, x))
rule("Equal")(lambda b, node, x, y: b.equal(x, y))
rule("Not")(lambda b, node, x: b.logical_not(x))
rule("And", "Or")(lambda b, node, x, y: b.logical_and(x, y) if node.op == "And" else b.logical_or(x, y))
rule("Xor")(lambda b, node, x, y: b.logical_xor(x, y))
rule("IsNaN", on_floats=True)(lambda b, node, x: b.unequal(x, x))


@rule("IsInf", on_floats=True)
def is_inf(b, node, x):
    both = [node.attr("detect_positive", 1), node.attr("detect_negative", 1)]
    if not any(both):
        return b.full(x.shape, False, BOOL)
    x = b.use(x)
    size = b.unary(ggml.ggml_abs, x) if all(both) else x if both[0] else b.negative(x)
    return b.less(b.full((), np.finfo(np.float32).max), b.as_float(size))


rule("Where")(lambda b, node, condition, x, y: b.select(condition, x, y))
