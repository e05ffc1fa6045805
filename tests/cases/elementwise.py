"""Element-wise operations of one and two operands."""

import math

import numpy as np

from . import As, Op
from .samples import sized, tiled, unary_row, with_numbers

# ---- samples ---------------------------------------------------------------------------------------------------------
PAIRS = (
    lambda r: [r(7, 3, 2), r(7, 3, 2, low=0.5, high=2)],
    lambda r: [r(6, 4, 2, 3), r(3, 2, 1, 3, low=0.5, high=2)],
    lambda r: [r(9, 4), r(1, low=0.5, high=2)],
    lambda r: [r(9, 4), r(1, 4, low=0.5, high=2)],
    lambda r: [r(67, 5, 3, 2), r(67, 1, 3, 1, low=-2, high=-0.5)],
    lambda r: [r(1029, 99), r(1029, 1, low=0.5, high=2)],
    lambda r: [r(1031, 97), r(1031, 97, low=0.5, high=2)],
    lambda r: [r(3, 0), r(3, 1)],
)
MIXED = ("F32", "F16", "BF16", ("F16", "F32"), ("BF16", "F32"), ("F32", "F16"))


def binary_row(name, f, *samples, diff=(0, 1), in_place=True):
    """A row of a function of two operands, of which the second is repeated to the shape of the first."""
    return Op(
        name,
        lambda a, b: f(a, tiled(b, a)),
        (*PAIRS, *samples),
        diff=diff,
        inplace=name + "_inplace" if in_place else None,
        types=MIXED,
        bad=(
            (lambda r: [r(7, 3), r(7, 2)], ValueError, "a is f32 [7, 3], b is f32 [7, 2]"),
            (lambda r: [r(7, 3), r(14, 3)], ValueError, "a is f32 [7, 3], b is f32 [14, 3]"),
            (lambda r: [r(7, 3), r(7, 0)], ValueError, "b is f32 [7, 0]"),
            (lambda r: [r(7, 3), r.ints(4, 7, 3)], ValueError, "b is i32"),
            (lambda r: [r(7, 3), 5], TypeError, "b is 5"),
        ),
    )


def with_nan(r):
    """Two operands with numbers, infinities and NaN in all combinations: so many that no gradient is tested."""
    values = np.array([np.nan, -np.inf, -1, 0, 2, np.inf])
    pairs = np.meshgrid(values, values)
    return [np.tile(v.reshape(1, 1, 1, 36), (1, 1, 1, 12)) for v in pairs]


def prelu(a, b):
    with np.errstate(invalid="ignore"):
        return np.where(a < 0, a * tiled(b, a), a)


def far_from_zero(r):
    a = r(7, 3, 2)
    return [a + np.where(a < 0, -0.1, 0.1).astype(a.dtype), r(1, 3)]


def far_from_whole(r):
    """Operands whose quotients are not near whole numbers, where the remainder jumps."""
    b = r(7, 3, low=1, high=2)
    return [b * (r.ints(7, 7, 3) - 3 + r(7, 3, low=0.3, high=0.7)), b]


def near_whole(r):
    """Operands whose quotients are whole numbers, or nearly: a rounded quotient may be the next whole number."""
    b = r(67, 5, low=1, high=2)
    return [b * (r.ints(2000, 67, 5) - 1000.0), b]


def huge(r):
    """Operands of large quotients, exact in all types."""
    return [r.ints(9, 67, 5) * 2.0**12 + 2.0**15, r.ints(5, 67, 5) + 3.0]


def power(r, *ne):
    """Powers of two, which divide without rounding."""
    return 2.0 ** -(r.ints(3, *ne) + 1.0)


def whole(r, *ne):
    return r.ints(9, *ne).astype(float)


def units(x, s, z, low, high, less=False, by=np.round):
    """x in units s above z, limited; less z again."""
    z = 0 * x if z is None else tiled(z, x)
    return np.clip(by(x / tiled(s, x)) + z, low, high) - less * z


def fmod(a, b):
    """The remainder; NaN where there is none."""
    with np.errstate(invalid="ignore"):
        return np.fmod(a, b)


def positive_powers(r):
    """Powers of positive numbers, whose gradients are finite."""
    return [r(7, 3, low=0.3, high=3), r(7, 1, low=-2, high=3)]


def signed_powers(r):
    """Whole powers of both signs of numbers of both signs."""
    return [2.0 ** (r.ints(5, 67, 5) - 2) * (2 * r.ints(2, 67, 5) - 1), r.ints(7, 67, 1) - 3.0]


def special_powers(r):
    """Powers of all pairs of numbers with cases of their own."""
    values = np.array([0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1.5, np.inf, -np.inf, np.nan])
    return [np.repeat(values[:, None], len(values), 1), values[None]]


def c_power(a, b):
    """a^b as C's pow defines it."""
    with np.errstate(all="ignore"):
        return np.power(a, tiled(b, a))


# ---- rows ------------------------------------------------------------------------------------------------------------


OPS = [
    binary_row("add", np.add),
    binary_row("sub", np.subtract),
    binary_row("mul", np.multiply),
    binary_row("div", np.divide),
    binary_row("ext.fmod", fmod, with_nan, huge, near_whole, diff=(), in_place=False),
    Op("ext.fmod", fmod, (far_from_whole,), diff=(0, 1), types=("F32",), name="fmod of smooth quotients"),
    binary_row("ext.pow", c_power, with_nan, signed_powers, special_powers, diff=(), in_place=False),
    Op("ext.pow", c_power, (positive_powers,), diff=(0, 1), types=("F32",), name="pow of positive numbers"),
    binary_row("ext.maximum", np.maximum, with_nan, in_place=False),
    binary_row("ext.minimum", np.minimum, with_nan, in_place=False),
    binary_row("ext.prelu", prelu, with_nan, diff=(), in_place=False),
    Op("ext.prelu", prelu, (far_from_zero,), diff=(0, 1), name="prelu far from its kink"),
    binary_row("ext.less", np.less, with_nan, diff=(), in_place=False),
    binary_row("ext.equal", np.equal, with_nan, lambda r: [whole(r, 67, 5), whole(r, 67, 5)], diff=(), in_place=False),
    Op(
        "add1",
        lambda a, b: a + b.reshape(()),
        (lambda r: [r(7, 3, 2), r(1)], lambda r: [r(1031, 97), r(1)], lambda r: [r(0), r(1)]),
        diff=(0, 1),
        inplace="add1_inplace",
        bad=((lambda r: [r(7, 3), r(2)], ValueError, "b is f32 [2]: need one element"),),
    ),
    Op(
        "add_cast",
        lambda a, b, _: a + b,
        (
            lambda r: [r(7, 3, 2), r(7, 1, 2), 0],
            lambda r: [As("F16", r(67, 5)), r(67, 5), 30],
            lambda r: [As("Q4_0", r(64, 3, 2)), As("F32", r(64, 3, 2)), 0],
            lambda r: [As("Q8_0", r(96, 5)), As("F32", r(96, 5)), 1],
            lambda r: [As("Q4_K", r(256, 3)), As("F32", r(256, 3)), 30],
        ),
        bad=(
            (lambda r: [As("Q8_0", r(32, 3)), As("F32", r(32, 3)), 2], ValueError, "a is q8_0 [32, 3], result is q4_0"),
        ),
    ),
    unary_row("sqr", np.square),
    unary_row("sqrt", np.sqrt, sizes=sized(low=0.1, high=9)),
    unary_row("log", np.log, sizes=sized(low=0.1, high=9)),
    unary_row("ext.erf", np.vectorize(math.erf, otypes=[float]), inplace=False),
    unary_row("sin", np.sin),
    unary_row("cos", np.cos),
    Op(
        "leaky_relu",
        lambda x, s, inplace: np.where(x > 0, x, s * x),
        with_numbers(sized(), 0.1, False),
        diff=(0,),
        kinks=(0,),
        bad=((lambda r: [r(3), "x", False], TypeError, "negative_slope is 'x'"),),
    ),
    Op(
        "leaky_relu",
        lambda x, s, inplace: np.where(x > 0, x, s * x),
        with_numbers(sized(), 0.1, True),
        aliased=True,
        name="leaky_relu_over_a",
    ),
    Op(
        "scale",
        lambda x, s: x * s,
        with_numbers(sized(), 0.375),
        diff=(0,),
        inplace="scale_inplace",
        bad=(
            (lambda r: [r(3), None], TypeError, "s is None"),
            (lambda r: [r.ints(4, 3), 2.0], ValueError, "a is i32 [3]"),
        ),
    ),
    Op(
        "scale_bias",
        lambda x, s, b: x * s + b,
        with_numbers(sized(), -1.5, 0.25),
        diff=(0,),
        inplace="scale_bias_inplace",
    ),
    Op(
        "clamp",
        lambda x, low, high: np.clip(x, low, high),
        (
            *with_numbers(sized(), -0.5, 0.875),
            lambda r: [r(33, 2), -np.inf, 0.25],
            lambda r: [r(33, 2), 0.5, 0.5],
        ),
        diff=(0,),
        inplace="clamp_inplace",
        kinks=(-0.5, 0.875, 0.25, 0.5),
        bad=(
            (lambda r: [r(3), 2.0, 1.0], ValueError, "min is 2.0, max is 1.0"),
            (lambda r: [r(3), np.nan, 1.0], ValueError, "min is nan"),
        ),
    ),
    Op(
        "ext.quantize_linear",
        lambda x, s, z, low, high, *less: units(x, s, z, low, high, *less, by=np.round),
        (
            lambda r: [4 * r(9, 5), power(r, 9, 1), whole(r, 9, 1), 0, 31, False],
            lambda r: [4 * r(9, 5), power(r, 1, 5), whole(r, 1), 0, 31, True],
            lambda r: [r(67, 5, 3, 2), power(r, 67, 1, 3), whole(r, 67, 1, 3), -8, 8, True],
            lambda r: [40 * r(1031, 97), power(r, 1), whole(r, 1), 0, 255],
            lambda r: [r(3, 0), power(r, 1), whole(r, 1), 0, 255],
        ),
        diff=(0, 1, 2),
        smooth=lambda x, s, z, low, high, *less: units(x, s, z, low, high, *less, by=np.array),
        bad=(
            (lambda r: [r(7, 3), r(7, 2), None, 0, 255], ValueError, "a is f32 [7, 3], scale is f32 [7, 2]"),
            (lambda r: [r(7, 3), r(1), r(2), 0, 255], ValueError, "a is f32 [7, 3], zero is f32 [2]"),
            (lambda r: [r(7, 3), r(1), r.ints(3, 1), 0, 255], ValueError, "zero is i32"),
            (lambda r: [r(7, 3), r(1), None, 2, 1], ValueError, "min is 2.0, max is 1.0"),
            (lambda r: [r(7, 3), None, None, 0, 1], TypeError, "scale is None"),
        ),
    ),
    Op(
        "ext.quantize_linear",
        lambda x, s, z, low, high: units(x, s, z, low, high),
        (
            lambda r: [4 * r(9, 5), power(r, 1), None, -7, 20],
            lambda r: [4 * r(67, 5, 3, 2), power(r, 1, 5, 1, 2), None, -128, 127],
        ),
        diff=(0, 1),
        smooth=lambda x, s, z, low, high: units(x, s, z, low, high, by=np.array),
        name="quantize_linear_from_zero",
    ),
    Op(
        "clamp_back",
        lambda g, x, low, high: g * ((x >= low) & (x <= high)),
        (lambda r: [r(33, 5), r(33, 5), -0.5, 0.875],),
        diff=(0, 1),
        kinks=(-0.5, 0.875),
    ),
]
