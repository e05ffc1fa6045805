"""The unary functions, and the operations of their gradients."""

import math

import numpy as np

from . import Op
from .samples import sized, unary_row, with_numbers


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


# ---- rows ------------------------------------------------------------------------------------------------------------
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


OPS = [
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
            (lambda r: [r(3), 99], ValueError, "99 is not a unary operation"),
            (lambda r: [r(3), -1], ValueError, "-1 is not a unary operation"),
            (lambda r: [r(3), 17], ValueError, "use ggml_xielu"),
            (lambda r: [r(3), 1.5], TypeError, "op is 1.5"),
        ),
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
