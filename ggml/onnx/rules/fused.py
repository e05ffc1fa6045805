"""Operators that are computed together with those before them, which the origins of their operands tell."""

import math
import operator

import numpy as np

import ggml

from ..origins import Convolution, Gate, GeluGate, Polynomial
from ..values import F32, Known, count, is_float

X = np.poly1d([1, 0])
GELU = {
    "Tanh": (ggml.ggml_gelu, math.sqrt(2 / math.pi) * np.poly1d([0.044715, 0, 1, 0])),
    "Erf": (ggml.ggml_gelu_erf, math.sqrt(0.5) * X),
}  # what the gates of GELU's two forms are functions of


def number(x, v):
    """The value of a constant that is one number, as an operand of the float x; None for others."""
    if isinstance(v, Known) and v.array.size == 1 and is_float(x.dtype) and len(v.shape) <= len(x.shape):
        return float(v.array.reshape(()))
    return None


def polynomial(x):
    """The value x as a polynomial of another one, or of itself: that value and an np.poly1d."""
    return (x.origin.base, x.origin.p) if isinstance(x.origin, Polynomial) else (x, X)


def polynomial_of(function, y, *operands):
    """The value y = function(*operands), which is a polynomial if they are those of one value."""
    (base, p), (other, q) = map(polynomial, operands)
    if base is other and (r := function(p, q)).order <= 3:
        y.origin = Polynomial(base, r)
    return y


def linear(b, node, x, scale, shift):
    """x * scale + shift with numbers; follows a convolution or another product of a number in one step."""
    if isinstance(x.origin, Convolution) and x.origin.readers == 1 and np.isfinite([scale, shift]).all():
        return x.origin.again(node, scale, shift)
    base, p = polynomial(x)
    if p.order == 1 and not p[0]:
        x, scale, p = base, p[1] * scale, X
    if scale == 1 and not shift:
        return x
    y = b.affine(x, scale, shift)
    y.origin = Polynomial(base, p * scale + shift)
    return y


def product(b, node, x, y):
    """x * y, where one may be a gate of the other: sigmoid(x), the clamped line of HardSwish, or that of a GELU."""
    for value, gate in ((x, y), (y, x)):
        if isinstance(gate.origin, Gate) and gate.origin.x is value:
            return linear(b, node, function(b, node, gate.origin.name, value, gate), gate.origin.factor, 0.0)
        c = number(value, gate)
        if c is not None:
            return linear(b, node, value, c, 0.0)
        (base, p), (root, q) = polynomial(value), polynomial(gate)
        gelu = isinstance(root.origin, GeluGate) and root.origin.base is base
        if gelu and p.order == q.order == 1 and p[0] == 0 and q[0] == q[1]:
            return linear(b, node, b.unary(root.origin.function, base), 2 * p[1] * q[1], 0.0)
    return polynomial_of(operator.mul, b.mul(x, y), x, y)


def odd(y, x, op):
    """The value y = op(x), Tanh or Erf, which may be part of GELU(v) = v (1 + op(polynomial of v)) / 2."""
    function, wanted = GELU[op]
    base, p = polynomial(x)
    if p.order == wanted.order and np.allclose(p.c, wanted.c, 1e-6, 0):
        y.origin = GeluGate(base, function)
    return y


def function(b, node, name, x, gate=None):
    """A function of x; of a convolution that nothing else reads, as a part of it. gate: what else was made of x."""
    x = b.use(x)
    alone = x.origin.readers == (1 if gate is None else 2) if isinstance(x.origin, Convolution) else False
    if alone and not b.trains and (gate is None or gate.origin.readers == 1):
        return x.origin.again(node, function=getattr(ggml, "GGML_UNARY_OP_" + name))
    return b.unary(getattr(ggml, "ggml_" + name.lower()), x)


def looked_up(b, x, w):
    """The product of one-hot rows x with the constant matrix w: rows of w, or zeros."""
    index = b.reshape(x.origin.index, x.shape[:-1])
    inside = b.clamp(index, 0, x.shape[-1] - 1)
    there = b.like(b.equal(index, inside).t, index.shape, F32)
    return b.mul(b.gather(w, 0, inside), b.reshape(there, (*index.shape, 1)))


def biased(b, node, convolve, w, bias, function=None):
    """A convolution, which what follows may scale, shift and apply a function to: w, bias, function -> the value."""
    y = convolve(w, bias, function)

    def again(node, scale=1.0, shift=0.0, function=None):
        if function is not None:
            return biased(b, node, convolve, w, bias, function)
        scale, shift = np.asarray(scale, np.float64), np.asarray(shift, np.float64)
        shift = shift if bias is None else shift + scale * bias.array.reshape(-1)
        kernel = (
            w
            if (scale == 1).all()
            else w.derived(
                ("scaled", scale.tobytes()), lambda a: (a * scale.reshape(-1, *(1,) * (a.ndim - 1))).astype(np.float32)
            )
        )
        return biased(b, node, convolve, kernel, b.constant(np.broadcast_to(shift, y.shape[1]), F32))

    if function is None and count(w.shape) and all(v is None or isinstance(v, Known) for v in (w, bias)):
        y.origin = Convolution(again, node.attr("ggml.readers"))
    return y
