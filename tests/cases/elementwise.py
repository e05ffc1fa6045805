"""Element-wise operations of one and two operands, and the operations of their gradients."""

import math

import numpy as np

from . import As, Op
from .samples import sized, tiled, with_numbers


# ---- references, accurate in the tails -------------------------------------------------------------------------------
def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def gate(x, s):
    """x * s, and 0 where s underflows: s decreases faster than |x| grows."""
    with np.errstate(invalid="ignore"):
        return np.where((s == 0) & ~np.isnan(x), np.copysign(0.0, x), x * s)


_erfc = np.vectorize(math.erfc, otypes=[float])


def phi(x):
    """The normal distribution function."""
    return 0.5 * _erfc(-x / math.sqrt(2))


def gelu(x):
    return gate(x, sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return gate(x, phi(x))


def gelu_quick(x):
    return gate(x, sigmoid(1.702 * x))


def silu(x):
    return gate(x, sigmoid(x))


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def hardsigmoid(x):
    return np.clip((x + 3) / 6, 0, 1)


def hardswish(x):
    return x * hardsigmoid(x)


def round_away(x):
    """Rounds half away from zero."""
    return np.trunc(x + np.copysign(0.5, x))


def xielu(x, alpha_n, alpha_p, beta, eps):
    an, ap = beta + np.log1p(np.exp(alpha_n)), np.log1p(np.exp(alpha_p))
    below = an * (np.expm1(np.minimum(x, eps)) - x) + beta * x
    return np.where(x > 0, ap * x * x + beta * x, below)


def times_derivative(f, h=1e-5):
    """The function (g, x) -> g * f'(x), by differences of fourth order: the reference of the *_back operations."""

    def back(g, x):
        return g * (8 * (f(x + h) - f(x - h)) - f(x + 2 * h) + f(x - 2 * h)) / (12 * h)

    return back


# ---- samples ---------------------------------------------------------------------------------------------------------
def unary_row(name, ref, *, sizes=None, inplace=True, **more):
    """A row of a function of one operand, and of its in-place form."""
    more.setdefault("diff", (0,))
    return Op(
        name,
        ref,
        sizes or sized(),
        inplace=name + "_inplace" if inplace else None,
        bad=((lambda r: [r.ints(5, 4, 3)], ValueError, "a is i32 [4, 3]"), (lambda r: [None], TypeError, "a is None")),
        **more,
    )


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


def binary_row(name, f):
    """A row of a function of two operands, of which the second is repeated to the shape of the first."""
    return Op(
        name,
        lambda a, b: f(a, tiled(b, a)),
        PAIRS,
        diff=(0, 1),
        inplace=name + "_inplace",
        types=MIXED,
        bad=(
            (lambda r: [r(7, 3), r(7, 2)], ValueError, "a is f32 [7, 3], b is f32 [7, 2]"),
            (lambda r: [r(7, 3), r(14, 3)], ValueError, "a is f32 [7, 3], b is f32 [14, 3]"),
            (lambda r: [r(7, 3), r(7, 0)], ValueError, "b is f32 [7, 0]"),
            (lambda r: [r(7, 3), r.ints(4, 7, 3)], ValueError, "b is i32"),
            (lambda r: [r(7, 3), 5], TypeError, "b is 5"),
        ),
    )


def back_row(name, f):
    """A row of an operation that multiplies a gradient g by f'(x). Its own gradient by x takes f''."""
    return Op(
        name,
        times_derivative(f),
        (
            lambda r: [r(7, 3, 2), r(7, 3, 2, scale=2)],
            lambda r: [r(1031, 97), r(1031, 97, scale=2)],
            lambda r: [r(0, 3), r(0, 3)],
        ),
        diff=(0, 1),
        tol=5e-6,
        bad=((lambda r: [r(7, 3), r(7, 1)], ValueError, "a is f32 [7, 3], b is f32 [7]"),),
    )


# ---- rows ------------------------------------------------------------------------------------------------------------
OPS = [
    binary_row("add", np.add),
    binary_row("sub", np.subtract),
    binary_row("mul", np.multiply),
    binary_row("div", np.divide),
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
    unary_row("sin", np.sin),
    unary_row("cos", np.cos),
    unary_row("abs", np.abs, kinks=(0,)),
    unary_row("sgn", np.sign, kinks=(0,)),
    unary_row("neg", np.negative),
    unary_row("step", lambda x: (x > 0) * 1.0, kinks=(0,)),
    unary_row("relu", lambda x: np.maximum(x, 0), kinks=(0,)),
    unary_row("tanh", np.tanh),
    unary_row("sigmoid", sigmoid),
    unary_row("elu", elu, kinks=(0,)),
    unary_row("gelu", gelu),
    unary_row("gelu_erf", gelu_erf),
    unary_row("gelu_quick", gelu_quick),
    unary_row("silu", silu),
    unary_row("exp", np.exp),
    unary_row("expm1", np.expm1),
    unary_row("softplus", softplus),
    unary_row("hardswish", hardswish, kinks=(-3, 3), inplace=False),
    unary_row("hardsigmoid", hardsigmoid, kinks=(-3, 3), inplace=False),
    unary_row("floor", np.floor, kinks=range(-20, 20)),
    unary_row("ceil", np.ceil, kinks=range(-20, 20)),
    unary_row("round", round_away, kinks=[i + 0.5 for i in range(-20, 20)]),
    unary_row("trunc", np.trunc, kinks=range(-20, 20)),
    Op("xielu", xielu, with_numbers(sized(), 0.8, 0.7, 0.5, -1e-6), diff=(0,), kinks=(0,)),
    Op(
        "unary",
        lambda x, op: np.exp(x),
        with_numbers(sized(), 13),
        diff=(0,),
        inplace="unary_inplace",
        bad=(
            (lambda r: [r(3), 99], ValueError, "99 is no unary operation"),
            (lambda r: [r(3), -1], ValueError, "-1 is no unary operation"),
            (lambda r: [r(3), 17], ValueError, "use ggml_xielu"),
            (lambda r: [r(3), 1.5], TypeError, "op is 1.5"),
        ),
    ),
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
        "clamp_back",
        lambda g, x, low, high: g * ((x >= low) & (x <= high)),
        (lambda r: [r(33, 5), r(33, 5), -0.5, 0.875],),
        diff=(0, 1),
        kinks=(-0.5, 0.875),
    ),
    back_row("silu_back", silu),
    back_row("gelu_back", gelu),
    back_row("gelu_erf_back", gelu_erf),
    back_row("gelu_quick_back", gelu_quick),
    Op(
        "elu_back",
        lambda g, x: g * np.where(x > 0, 1, np.exp(np.minimum(x, 0))),
        (lambda r: [r(7, 3, 2), r(7, 3, 2, scale=2)], lambda r: [r(1031, 97), r(1031, 97)]),
        diff=(0, 1),
        kinks=(0,),
    ),
]
