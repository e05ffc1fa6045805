"""Operators that are computed together with those before them.

A Tensor may say what it was made from (`made`), and a rule that continues it builds the whole anew. The nodes of the
part are then used by nothing, and are not in the graph.
"""

import numpy as np

import ggml

from ..values import F32, Known, count, is_float


def number(x, v):
    """The value of a constant that is one number, as an operand of the float x; None for others."""
    if isinstance(v, Known) and v.array.size == 1 and is_float(x.dtype) and len(v.shape) <= len(x.shape):
        return float(v.array.reshape(()))
    return None


def linear(b, node, x, scale, shift):
    """x * scale + shift with numbers; follows a convolution or another product of a number in one step."""
    made = getattr(x, "made", None) or [None]
    if made[0] == "conv" and made[2] == 1 and np.isfinite([scale, shift]).all():
        return made[1](node, scale, shift)
    x, scale = (made[1], made[2] * scale) if made[0] == "scaled" else (x, scale)
    if scale == 1 and not shift:
        return x
    y = b.affine(x, scale, shift)
    y.made = ("plus", x, shift) if scale == 1 else None if shift else ("scaled", x, scale)
    return y


def product(b, node, x, y):
    """x * y, where one may be a gate of the other: sigmoid(x), or the clamped line of HardSwish."""
    for value, gate in ((x, y), (y, x)):
        made = getattr(gate, "made", None) or [None, None]
        if made[0] == "sigmoid" and made[1] is value:
            return function(b, node, "SILU", value, gate)
        if made[0] == "hard" and made[1] is value:
            return linear(b, node, function(b, node, "HARDSWISH", value, gate), made[2], 0.0)
        c = number(value, gate)
        if c is not None:
            return linear(b, node, value, c, 0.0)
    return b.mul(x, y)


def function(b, node, name, x, gate=None):
    """A function of x; of a convolution that nothing else reads, as a part of it. gate: what else was made of x."""
    x = b.use(x)
    made = x.made or [None, None, None]
    if made[0] == "conv" and not b.trains and made[2] == (1 if gate is None else 2) and (
            gate is None or gate.made[-1] == 1):
        return made[1](node, function=getattr(ggml, "GGML_UNARY_OP_" + name))
    return b.unary(getattr(ggml, "ggml_" + name.lower()), x)


def biased(b, node, convolve, w, bias, function=None):
    """A convolution, which what follows may scale, shift and apply a function to: w, bias, function -> the value."""
    y = convolve(w, bias, function)

    def again(node, scale=1.0, shift=0.0, function=None):
        if function is not None:
            return biased(b, node, convolve, w, bias, function)
        scale, shift = np.asarray(scale, np.float64), np.asarray(shift, np.float64)
        shift = shift if bias is None else shift + scale * bias.array.reshape(-1)
        kernel = w if (scale == 1).all() else w.derived(
            ("scaled", scale.tobytes()), lambda a: (a * scale.reshape(-1, *(1,) * (a.ndim - 1))).astype(np.float32))
        return biased(b, node, convolve, kernel, b.constant(np.broadcast_to(shift, y.shape[1]), F32))

    if function is None and count(w.shape) and all(v is None or isinstance(v, Known) for v in (w, bias)):
        y.made = "conv", again, node.attr("ggml.readers")
    return y
