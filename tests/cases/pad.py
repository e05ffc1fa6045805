"""Padding, rolling, triangles, windows, relative positions, tensors from nothing."""

import numpy as np

from . import Op


def padded(mode):
    """A reference of (a, left and right of dimension 0, of dimension 1, ...)."""

    def ref(a, *sides):
        return np.pad(a, [sides[i : i + 2] for i in (6, 4, 2, 0)], mode)

    return ref


def right(mode):
    return lambda a, *p: padded(mode)(a, 0, p[0], 0, p[1], 0, p[2], 0, p[3])


def roll(a, *shifts):
    return np.roll(a, shifts[::-1], (0, 1, 2, 3))


def tri(a, kind):
    """Kinds: from the diagonal up, above it, from it down, below it."""
    return [np.triu(a), np.triu(a, 1), np.tril(a), np.tril(a, -1)][kind]


def windows(a, w):
    """[1, rows, columns, channels] with zeros to whole windows: [windows, w, w, channels]."""
    down, across = -a.shape[1] % w, -a.shape[2] % w
    a = np.pad(a[0], [(0, down), (0, across), (0, 0)])
    a = a.reshape(a.shape[0] // w, w, a.shape[1] // w, w, -1).swapaxes(1, 2)
    return a.reshape(-1, w, w, a.shape[-1])


def unwindowed(a, w0, h0, w):
    across, down = -(-w0 // w), -(-h0 // w)
    a = a.reshape(down, across, w, w, -1).swapaxes(1, 2).reshape(down * w, across * w, -1)
    return a[:h0, :w0]


def rel_pos(a, n, _):
    """Row n - 1 + query - key of a for each pair: [queries, keys, channels]."""
    return a[0, 0, n - 1 + np.arange(n)[:, None] - np.arange(n)]


def add_rel_pos(a, pw, ph):
    n, rows, cols = a.shape[1], a.shape[2], a.shape[3]
    cube = a.reshape(n, rows, ph.shape[-1], pw.shape[-1])
    cube = cube + ph.reshape(n, rows, ph.shape[-1], 1) + pw.reshape(n, rows, 1, pw.shape[-1])
    return cube.reshape(1, n, rows, cols)


def timestep_embedding(t, dim, period):
    half = dim // 2
    angle = t.reshape(-1, 1) * np.exp(-np.log(period) * np.arange(half) / max(1, half))
    return np.concatenate([np.cos(angle), np.sin(angle), np.zeros((t.size, dim % 2))], 1)


EXACT = {"tol": 0, "diff": (0,)}
ROLLS = ((1, 0, 0, 0), (-3, 2, 0, 1), (12, -9, 3, -1))

OPS = [
    Op(
        "pad",
        right("constant"),
        (lambda r: [r(5, 4, 3, 2), 2, 1, 3, 1], lambda r: [r(67, 33), 9, 0, 0, 1], lambda r: [r(0, 3), 2, 0, 0, 0]),
        bad=((lambda r: [r(5), -1, 0, 0, 0], ValueError, "must not be negative"),),
        **EXACT,
    ),
    Op("pad_circular", right("wrap"), (lambda r: [r(5, 4, 3, 2), 2, 9, 0, 1], lambda r: [r(67, 33), 90, 1, 0, 0]), **EXACT),
    Op(
        "pad_ext",
        padded("constant"),
        (lambda r: [r(5, 4, 3, 2), 2, 1, 0, 3, 1, 1, 0, 2], lambda r: [r(67, 33), 9, 5, 1, 1, 0, 0, 0, 0]),
        **EXACT,
    ),
    Op(
        "pad_ext_circular",
        padded("wrap"),
        (lambda r: [r(5, 4, 3, 2), 2, 1, 6, 3, 0, 1, 0, 2], lambda r: [r(3, 2), 7, 8, 5, 5, *[0] * 4], lambda r: [r(5, 0), 2, 1, *[0] * 6]),
        **EXACT,
    ),
    Op(
        "pad_reflect_1d",
        lambda a, p0, p1: np.pad(a, [(0, 0)] * 3 + [(p0, p1)], "reflect"),
        (lambda r: [r(5, 4, 3, 2), 2, 4], lambda r: [r(67, 33), 66, 0], lambda r: [r(5, 3), 0, 0]),
        bad=((lambda r: [r(5), 5, 0], ValueError, "must be less than"),),
        **EXACT,
    ),
    Op("roll", roll, tuple(lambda r, s=s: [r(5, 4, 3, 2), *s] for s in ROLLS), **EXACT),
    Op("tri", tri, tuple(lambda r, k=k: [r(6, 6, 2, 3), k] for k in range(4)), **EXACT),
    Op(
        "diag",
        lambda a: a.swapaxes(-1, -2) * np.eye(a.shape[-1]),
        (lambda r: [r(6, 1, 2, 3)], lambda r: [r(67)]),
        bad=((lambda r: [r(6, 2)], ValueError, "a is f32 [6, 2]"),),
        **EXACT,
    ),
    Op(
        "fill", lambda a, c: np.full(a.shape, c), (lambda r: [r(7, 3), 1.5], lambda r: [r(1031, 97), -2.0]), inplace="fill_inplace", **EXACT
    ),
    Op("win_part", windows, (lambda r: [r(3, 7, 6), 4], lambda r: [r(5, 8, 4), 2]), types=("F32",), **EXACT),
    Op(
        "win_unpart",
        unwindowed,
        (lambda r: [r(3, 4, 4, 4), 7, 6, 4], lambda r: [r(5, 2, 2, 8), 8, 4, 2]),
        types=("F32",),
        **EXACT,
    ),
    Op("get_rel_pos", rel_pos, (lambda r: [r(5, 7), 4, 4], lambda r: [r(33, 25), 13, 13]), **EXACT),
    Op(
        "add_rel_pos",
        add_rel_pos,
        (
            lambda r: [r(9, 12, 2), r(3, 4, 3, 2), r(3, 4, 3, 2)],
            lambda r: [r(16, 6), r(4, 2, 3), r(4, 2, 3)],
            lambda r: [r(9, 0, 2), r(3, 0, 3, 2), r(3, 0, 3, 2)],
        ),
        diff=(0, 1, 2),
        types=("F32",),
        inplace="add_rel_pos_inplace",
        strided=(),
    ),
    Op(
        "timestep_embedding",
        timestep_embedding,
        (lambda r: [r(5, low=0, high=20), 8, 100], lambda r: [r(4, low=0, high=2), 7, 1000], lambda r: [r(33, low=0, high=20), 130, 100]),
        diff=(0,),
        types=("F32",),
        tol=2e-5,
    ),
    Op("arange", lambda start, stop, step: np.arange(start, stop, step), (lambda r: [0.0, 7.0, 1.0], lambda r: [5.0, -3.0, -0.75])),
]
