"""Gated linear units: an activation of one half of each row times the other half."""

import numpy as np

import ggml

from . import Op
from .unary import gelu, gelu_erf, gelu_quick, sigmoid, silu

ACTIVATIONS = {
    "reglu": lambda x: np.maximum(x, 0),
    "geglu": gelu,
    "swiglu": silu,
    "geglu_erf": gelu_erf,
    "geglu_quick": gelu_quick,
}


def glu_id(name):
    return getattr(ggml, "GGML_GLU_OP_" + name.upper())


def halves(x):
    """The two halves of each row."""
    return np.split(x, 2, -1)


def swiglu_oai(a, b, alpha, limit):
    """The variant of gpt-oss: both operands clipped, and one added to the linear one."""
    x = np.minimum(a, limit)
    return x * sigmoid(alpha * x) * (np.clip(b, -limit, limit) + 1)


def glu_rows():
    """The four constructors of each activation: of one operand, of one with its halves swapped, of two operands, and
    `ggml_glu` by the number of the activation.
    """
    for name, f in ACTIVATIONS.items():
        op = glu_id(name)
        kinks = (0.0,) if name == "reglu" else ()
        whole = (lambda r: [r(14, 3, 2, scale=2)], lambda r: [r(134, 5, 2, scale=3)], lambda r: [r(2062, 9)])
        split = (lambda r: [r(7, 3, 2, scale=2), r(7, 3, 2)], lambda r: [r(1031, 9), r(1031, 9)])
        odd = ((lambda r: [r(7)], ValueError, "ne[0] must be even"),)
        common = {"kinks": kinks, "tol": 4e-6}
        yield Op(name, lambda x, f=f: f(halves(x)[0]) * halves(x)[1], whole, diff=(0,), bad=odd, **common)
        yield Op(name + "_swapped", lambda x, f=f: f(halves(x)[1]) * halves(x)[0], whole, diff=(0,), bad=odd, **common)
        yield Op(
            name + "_split",
            lambda a, b, f=f: f(a) * b,
            split,
            diff=(0, 1),
            bad=((lambda r: [r(7), r(8)], ValueError, "shapes must be equal"),),
            **common,
        )
        yield Op(
            "glu",
            lambda x, op, swapped, f=f: f(halves(x)[swapped]) * halves(x)[1 - swapped],
            (lambda r, op=op: [r(14, 3), op, True], lambda r, op=op: [r(66, 5), op, False]),
            diff=(0,),
            name="glu_" + name,
            **common,
        )


OPS = [
    *glu_rows(),
    Op(
        "glu_split",
        lambda a, b, op: silu(a) * b,
        (lambda r: [r(7, 3), r(7, 3), glu_id("swiglu")],),
        diff=(0, 1),
        tol=4e-6,
        bad=((lambda r: [r(7), r(7), 9], ValueError, "9 is not a GLU operation"),),
    ),
    Op(
        "swiglu_oai",
        swiglu_oai,
        (
            lambda r: [r(7, 3, 2, scale=3), r(7, 3, 2, scale=3), 1.702, 2.5],
            lambda r: [r(131, 9), r(131, 9), 1.702, 7.0],
        ),
        diff=(0, 1),
        kinks=(-2.5, 2.5),
        tol=4e-6,
    ),
]
