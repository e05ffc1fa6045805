"""Diagonals, triangles, causal masks and triangular systems."""

import numpy as np

from . import Op
from .samples import EXACT


def tri(a, kind):
    """`kind`: the upper triangle with the diagonal, without it, the lower triangle with the diagonal, without it."""
    return [np.triu(a), np.triu(a, 1), np.tril(a), np.tril(a, -1)][kind]


def diag_mask(value):
    """A reference that replaces the elements above the diagonal, shifted right by n_past, by a value."""

    def ref(x, n_past):
        i1, i0 = np.indices(x.shape[-2:])
        return np.where(i0 > n_past + i1, value, x)

    return ref


def diag_mask_row(value, name):
    return Op(
        name,
        diag_mask(value),
        (lambda r: [r(7, 5, 2), 1], lambda r: [r(67, 33, 3), 0], lambda r: [r(513, 257), 7], lambda r: [r(0, 3), 0]),
        diff=(0,) if value == 0 else (),
        inplace=name + "_inplace",
        bad=((lambda r: [r(3), 1 << 40], ValueError, "n_past is"), (lambda r: [r(3), "1"], TypeError, "n_past is '1'")),
    )


def solve_tri(a, b, left, lower, uni):
    """X of A X = B; only the lower triangle of A counts."""
    return np.linalg.solve(np.tril(a), b)


def triangle(r, n, *batch):
    """Well-conditioned matrices: the off-diagonal elements are small, the diagonal ones are at least 0.5 in size."""
    a = r(n, n, *batch, scale=0.3)
    a[..., np.arange(n), np.arange(n)] = np.sign(a[..., np.arange(n), np.arange(n)]) + 1.5
    return a


OPS = [
    Op(
        "diag",
        lambda a: a.swapaxes(-1, -2) * np.eye(a.shape[-1]),
        (lambda r: [r(6, 1, 2, 3)], lambda r: [r(67)]),
        bad=((lambda r: [r(6, 2)], ValueError, "a is f32 [6, 2]"),),
        **EXACT,
    ),
    Op("tri", tri, tuple(lambda r, k=k: [r(6, 6, 2, 3), k] for k in range(4)), **EXACT),
    diag_mask_row(-np.inf, "diag_mask_inf"),
    diag_mask_row(0.0, "diag_mask_zero"),
    Op(
        "solve_tri",
        solve_tri,
        (
            lambda r: [triangle(r, 4, 2), r(3, 4, 2), True, True, False],
            lambda r: [triangle(r, 7), r(1, 7), True, True, False],
            lambda r: [triangle(r, 33, 2, 2), r(70, 33, 2, 2), True, True, False],
            lambda r: [triangle(r, 130), r(3, 130), True, True, False],
            lambda r: [triangle(r, 77, 2), r(1, 77, 2), True, True, False],
            lambda r: [triangle(r, 17), r(2, 17), True, True, False],
            lambda r: [triangle(r, 71), r(4, 71), True, True, False],
            lambda r: [triangle(r, 21, 3), r(13, 21, 3), True, True, False],
        ),
        diff=(0, 1),
        types=("F32",),
        tol=1e-4,
        bad=(
            (lambda r: [triangle(r, 4), r(3, 5), True, True, False], ValueError, "dimensions 1 to 3 must be equal"),
            (lambda r: [triangle(r, 4), r(3, 4), False, True, False], ValueError, "only left = True"),
            (lambda r: [r(4, 3), r(3, 3), True, True, False], ValueError, "need square matrices"),
        ),
    ),
]
