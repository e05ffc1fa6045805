"""Sums, means, maxima and counts."""

import numpy as np

from . import Op
from .samples import sized

ROWS = sized(scale=1.5)
EMPTY_ROWS = (lambda r: [r(0, 3)],)


def repeat_back(a, b):
    """The adjoint of repeat: the sum of all tiles of the size of b."""
    for axis, n in enumerate(b.shape):
        a = a.reshape(*a.shape[:axis], a.shape[axis] // n if n else 1, n, *a.shape[axis + 1 :]).sum(axis)
    return a


def argmax(x):
    """The index of the greatest element of each row; of several equal ones the last."""
    greatest = x[0, 0] == x[0, 0].max(-1, keepdims=True, initial=-np.inf)
    return (greatest * np.arange(x.shape[-1])).max(-1, initial=0)


def argmax_of_numpy(x, last):
    """The index of the greatest element of each row, 0 for a row without elements."""
    n = x.shape[-1]
    return np.zeros(x.shape[2]) if not n else n - 1 - x[0, 0, :, ::-1].argmax(-1) if last else x[0, 0].argmax(-1)


def scattered_nan(r):
    """Rows of which some have no NaN, some one, some many."""
    x = r(61, 200)
    x[..., ::3, 17] = x[..., ::4, 40:55] = np.nan
    return x


OPS = [
    Op(
        "sum",
        lambda x: x.sum(),
        (*ROWS, *EMPTY_ROWS),
        diff=(0,),
        tol=4e-6,
        bad=((lambda r: [r.ints(4, 3)], ValueError, "a is i32"),),
    ),
    Op(
        "ext.min_max",
        lambda x: np.array([np.nanmin(x, initial=np.inf), np.nanmax(x, initial=-np.inf)]),
        (*ROWS, *EMPTY_ROWS, lambda r: [np.where(r(517, 3) > 1, np.nan, r(517, 3))]),
        diff=(0,),
        bad=((lambda r: [r.ints(4, 3)], ValueError, "a is i32"),),
    ),
    Op("sum_rows", lambda x: x.sum(-1, keepdims=True), (*ROWS, *EMPTY_ROWS), diff=(0,), tol=4e-6),
    Op("mean", lambda x: x.mean(-1, keepdims=True), ROWS, diff=(0,), tol=4e-6),
    Op(
        "argmax",
        argmax,
        (
            lambda r: [r(7, 3)],
            lambda r: [r(67, 5)],
            lambda r: [r(1031, 97)],
            lambda r: [r.ints(3, 200, 9).astype(float)],
            lambda r: [-np.abs(r(70, 9))],
        ),
        bad=((lambda r: [r(4, 3, 2)], ValueError, "a is f32 [4, 3, 2]: need a matrix"),),
    ),
    Op(
        "ext.argmax",
        argmax_of_numpy,
        (
            *(lambda r, v=v: [r(7, 3), v] for v in (False, True)),
            *(lambda r, v=v: [r.ints(3, 200, 9).astype(float), v] for v in (False, True)),
            *(lambda r, v=v: [scattered_nan(r), v] for v in (False, True)),
            lambda r: [np.full((1, 1, 5, 37), -np.inf), False],
        ),
        name="argmax with nan",
        bad=((lambda r: [r(4, 3, 2), False], ValueError, "a is f32 [4, 3, 2]: need a matrix"),),
    ),
    Op(
        "count_equal",
        lambda a, b: (a == b).sum(),
        (lambda r: [r.ints(3, 61, 5, 2), r.ints(3, 61, 5, 2)], lambda r: [r.ints(9, 1031, 97), r.ints(9, 1031, 97)]),
        types=(),
        bad=(
            (lambda r: [r.ints(3, 5), r.ints(3, 4)], ValueError, "shapes must be equal"),
            (lambda r: [r(5), r(5)], ValueError, "need i32"),
        ),
    ),
    Op(
        "repeat_back",
        repeat_back,
        (
            lambda r: [r(6, 4, 2, 3), r(3, 2, 2, 1)],
            lambda r: [r(134, 9, 2, 2), r(67, 3, 1, 2)],
            lambda r: [r(1031, 97), r(1, 97)],
        ),
        diff=(0,),
        tol=4e-6,
        bad=((lambda r: [r(7, 3), r(2, 3)], ValueError, "a is f32 [7, 3], result is f32 [2, 3]"),),
    ),
]
