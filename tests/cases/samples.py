"""Sample functions and small references that several case modules use."""

import itertools

import numpy as np

from . import Op


def tiled(b, a):
    """b, repeated along each axis to the shape of a."""
    return np.tile(b, [n // m if m else 1 for n, m in zip(a.shape, b.shape)])


def sized(scale=2.0, **how):
    """One operand: small, of odd sizes, large enough to be split between threads, with one element, and empty."""
    how = how or {"scale": scale}
    return (
        lambda r: [r(7, 3, 2, **how)],
        lambda r: [r(67, 5, 3, 2, **how)],
        lambda r: [r(1031, 97, **how)],
        lambda r: [r(1, **how)],
        lambda r: [r(5, 0, 2, **how)],
    )


def with_numbers(sizes, *numbers):
    """The samples, each followed by the same numbers."""
    return tuple(lambda r, s=s: [*s(r), *numbers] for s in sizes)


# Keyword arguments of rows whose operation copies elements, so that the result is exact.
EXACT = {"tol": 0, "diff": (0,)}


# ---- windows of convolutions and pooling; sizes, strides and taps are written innermost first ------------------------
def output_sizes(n, k, s, p, d):
    """The sizes of a convolution's result: input n, kernel k, strides s, paddings p, dilations d."""
    return [(n[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(len(n))]


def taps(k):
    """The positions of all taps of a kernel of size k (innermost first); the innermost index runs fastest."""
    return [t[::-1] for t in itertools.product(*(range(n) for n in k[::-1]))]


def tap_view(x, tap, out, s, d):
    """The elements that one tap of the kernel multiplies: a strided view of the padded input x, whose last len(out)
    axes become the positions of the output.
    """
    dims = len(out)
    at = [slice(tap[i] * d[i], tap[i] * d[i] + (out[i] - 1) * s[i] + 1, s[i]) for i in range(dims)]
    return x[(..., *at[::-1])]


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
