"""Sample functions and small references that several case modules use."""

import itertools

import numpy as np


def tiled(b, a):
    """b repeated to the shape of a."""
    return np.tile(b, [n // m if m else 1 for n, m in zip(a.shape, b.shape)])


def sized(scale=2.0, **how):
    """One operand: small, odd, long enough to be cut for threads, one element, none."""
    how = how or {"scale": scale}
    return (
        lambda r: [r(7, 3, 2, **how)],
        lambda r: [r(67, 5, 3, 2, **how)],
        lambda r: [r(1031, 97, **how)],
        lambda r: [r(1, **how)],
        lambda r: [r(5, 0, 2, **how)],
    )


def with_numbers(sizes, *numbers):
    return tuple(lambda r, s=s: [*s(r), *numbers] for s in sizes)


EXACT = {"tol": 0, "diff": (0,)}  # of rows whose operation moves elements and computes nothing


# ---- windows of convolutions and pooling -----------------------------------------------------------------------------
def output_sizes(n, k, s, p, d):
    return [(n[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(len(n))]


def taps(k):
    """All taps of a kernel of size k (innermost first), the innermost fastest."""
    return [t[::-1] for t in itertools.product(*(range(n) for n in k[::-1]))]


def tap_view(x, tap, out, s, p, d):
    """A view of x, padded, as tap sees it: x has len(out) dimensions of places at its end."""
    dims = len(out)
    at = [slice(tap[i] * d[i], tap[i] * d[i] + (out[i] - 1) * s[i] + 1, s[i]) for i in range(dims)]
    return x[(..., *at[::-1])]
