"""Padding and rolling."""

import numpy as np

from . import Op
from .samples import EXACT


def padded(mode):
    """A reference with the arguments (a, left and right padding of dimension 0, of dimension 1, ...)."""

    def ref(a, *sides):
        return np.pad(a, [sides[i : i + 2] for i in (6, 4, 2, 0)], mode)

    return ref


def right(mode):
    """A reference that takes only the padding behind the elements of each dimension."""
    return lambda a, *p: padded(mode)(a, 0, p[0], 0, p[1], 0, p[2], 0, p[3])


def roll(a, *shifts):
    return np.roll(a, shifts[::-1], (0, 1, 2, 3))


ROLLS = ((1, 0, 0, 0), (-3, 2, 0, 1), (12, -9, 3, -1))

OPS = [
    Op(
        "pad",
        right("constant"),
        (lambda r: [r(5, 4, 3, 2), 2, 1, 3, 1], lambda r: [r(67, 33), 9, 0, 0, 1], lambda r: [r(0, 3), 2, 0, 0, 0]),
        bad=((lambda r: [r(5), -1, 0, 0, 0], ValueError, "must not be negative"),),
        **EXACT,
    ),
    Op(
        "pad_circular",
        right("wrap"),
        (lambda r: [r(5, 4, 3, 2), 2, 9, 0, 1], lambda r: [r(67, 33), 90, 1, 0, 0]),
        **EXACT,
    ),
    Op(
        "pad_ext",
        padded("constant"),
        (lambda r: [r(5, 4, 3, 2), 2, 1, 0, 3, 1, 1, 0, 2], lambda r: [r(67, 33), 9, 5, 1, 1, 0, 0, 0, 0]),
        **EXACT,
    ),
    Op(
        "pad_ext_circular",
        padded("wrap"),
        (
            lambda r: [r(5, 4, 3, 2), 2, 1, 6, 3, 0, 1, 0, 2],
            lambda r: [r(3, 2), 7, 8, 5, 5, *[0] * 4],
            lambda r: [r(5, 0), 2, 1, *[0] * 6],
        ),
        **EXACT,
    ),
    *(
        Op(
            "ext.pad",
            lambda a, sides, mode: np.pad(a, [sides[i : i + 2] for i in (6, 4, 2, 0)], mode),
            (
                lambda r, mode=mode: [r(5, 4, 3, 2), [2, 1, 3, 2, 0, 1, 1, 0], mode],
                lambda r, mode=mode: [r(67, 33), [9, 5, 1, 1, 0, 0, 0, 0], mode],
                lambda r, mode=mode: [r(3, 2, 2), [2, 2, 0, 1, 1, 1, 0, 0], mode],
                lambda r, mode=mode: [r(3, 1, 2), [0] * 8, mode],
                lambda r, mode=mode: [r(3, 0), [2, 1, *[0] * 6], mode],
            ),
            name=f"pad {mode}",
            bad=(
                (lambda r: [r(5), [0] * 7, "edge"], TypeError, "need a list of eight integers"),
                (lambda r: [r(5), [0] * 8, "wrap"], ValueError, "mode is 'wrap': need 'reflect', 'edge' or a number"),
                (lambda r, mode=mode: [r(5), [-1, *[0] * 7], mode], ValueError, "must not be negative"),
                (lambda r, mode=mode: [r(5, 0), [0, 0, 1, *[0] * 5], mode], ValueError, "an element to repeat"),
                (lambda r: [r(5, 3), [0, 0, 3, *[0] * 5], "reflect"], ValueError, "a reflection must be smaller"),
            ),
            **EXACT,
        )
        for mode in ("reflect", "edge")
    ),
    Op(
        "ext.pad",
        lambda a, sides, value: np.pad(a, [sides[i : i + 2] for i in (6, 4, 2, 0)], constant_values=value),
        (
            lambda r: [r(5, 4, 3, 2), [2, 1, 3, 2, 0, 1, 1, 0], -1.5],
            lambda r: [r(67, 33), [9, 5, 1, 1, 0, 0, 0, 0], np.inf],
            lambda r: [r(3, 1, 2), [0] * 8, 7],
            lambda r: [r(3, 0), [2, 1, 0, 2, *[0] * 4], 0.25],
        ),
        name="pad with a number",
        types=("F32",),
        tol=0,
        bad=((lambda r: [r(5), [-1, *[0] * 7], 0.5], ValueError, "must not be negative"),),
    ),
    Op(
        "pad_reflect_1d",
        lambda a, p0, p1: np.pad(a, [(0, 0)] * 3 + [(p0, p1)], "reflect"),
        (lambda r: [r(5, 4, 3, 2), 2, 4], lambda r: [r(67, 33), 66, 0], lambda r: [r(5, 3), 0, 0]),
        bad=((lambda r: [r(5), 5, 0], ValueError, "must be less than"),),
        **EXACT,
    ),
    Op("roll", roll, tuple(lambda r, s=s: [r(5, 4, 3, 2), *s] for s in ROLLS), **EXACT),
]
