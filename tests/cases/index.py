"""Operations that read or make indices: rows by index, sorting, the largest elements."""

import numpy as np

from . import As, Op


def get_rows(a, index):
    """The rows of a that the indices name, separately for each matrix."""
    i3, i2, i1 = np.indices(a.shape[:2] + index.shape[-1:])
    return a[i3, i2, index[0][i3, i2, i1]]


def get_rows_back(g, index, like):
    """The adjoint of get_rows: the gradient of a row is the sum over all indices that name it."""
    out = np.zeros(like.shape)
    i3, i2, i1 = np.indices(g.shape[:3])
    np.add.at(out, (i3, i2, index[0][i3, i2, i1]), g)
    return out


def set_rows(a, b, index):
    """A copy of a in which row index[i] is row i of b. The indices repeat along their outer dimensions."""
    out = a.copy()
    n3, n2 = index.shape[1:3]
    for i3, i2, i1 in np.ndindex(b.shape[:3]):
        out[i3, i2, index[0, i3 % n3, i2 % n2, i1]] = b[i3, i2, i1]
    return out


def add_id(a, b, ids):
    """Adds the row of b that each index names."""
    return a + b[0, 0][ids[0]]


def with_nan(r, n):
    """Rows of n values, infinities and NaN."""
    x = r.ints(40, n, 9).astype(float)
    return np.select([x == 3, x == 5, x == 7], [np.nan, np.inf, -np.inf], x)


OPS = [
    Op(
        "get_rows",
        get_rows,
        (
            lambda r: [r(7, 5), r.ints(5, 9)],
            lambda r: [r(7, 5, 2, 3), r.ints(5, 4, 2, 3)],
            lambda r: [r(515, 97), r.ints(97, 200, dtype=np.int64)],
            lambda r: [r(7, 5), r.ints(5, 0)],
        ),
        diff=(0,),
        tol=0,
        strided=(0, 1),
        bad=(
            (lambda r: [r(7, 5), r(3)], ValueError, "b is f32 [3]"),
            (lambda r: [r(7, 5, 2), r.ints(5, 4, 3)], ValueError, "a is f32 [7, 5, 2], b is i32 [4, 3]"),
        ),
    ),
    Op(
        "get_rows_back",
        get_rows_back,
        (
            lambda r: [r(7, 9), r.ints(5, 9), As("F32", r(7, 5))],
            lambda r: [r(515, 200), r.ints(97, 200), As("F32", r(515, 97))],
            lambda r: [r(7, 9, 2), r.ints(5, 9, 2), As("F32", r(7, 5, 2))],
            lambda r: [r(7, 0), r.ints(5, 0), As("F32", r(7, 5))],
        ),
        diff=(0,),
        tol=4e-6,
        bad=((lambda r: [r(7, 9), r.ints(5, 8), r(7, 5)], ValueError, "a is f32 [7, 9], b is i32 [8]"),),
    ),
    Op(
        "set_rows",
        set_rows,
        (
            lambda r: [As("F32", r(7, 9)), r(7, 4), r.order(9, 4, dtype=np.int64)],
            lambda r: [As("F32", r(7, 9, 4, 2)), r(7, 3, 4, 2), r.order(9, 3, 2, 1, dtype=np.int64)],
            lambda r: [As("F32", r(515, 200)), r(515, 97), r.order(200, 97)],
        ),
        types=("F32",),
        aliased=True,
        tol=0,
        diff=(1,),
        bad=(
            (lambda r: [r(7, 9), r(7, 4), r(4)], ValueError, "need i64 or i32"),
            (lambda r: [r(7, 9), r(6, 4), r.ints(9, 4)], ValueError, "must be equal"),
        ),
    ),
    Op(
        "add_id",
        add_id,
        (
            lambda r: [r(5, 3, 4), r(5, 6), r.ints(6, 3, 4)],
            lambda r: [r(67, 2, 9), r(67, 33), r.ints(33, 2, 9)],
        ),
        diff=(0, 1),
        bad=((lambda r: [r(5, 3, 4), r(5, 6), r.ints(6, 3, 3)], ValueError, "need an index for each row"),),
    ),
    Op(
        "argsort",
        lambda x, order: np.argsort(-x if order else x, -1, kind="stable"),
        (
            lambda r: [r(7, 3, 2), 0],
            lambda r: [r(7, 3, 2), 1],
            lambda r: [r.ints(9, 257, 5).astype(float), 1],
            lambda r: [r(1031, 9), 0],
        ),
        bad=((lambda r: [r(3), 2], ValueError, "order is 2"),),
    ),
    Op(
        "ext.argsort",
        lambda x, order, k=None: np.lexsort((-x, ~np.isnan(x)) if order else (x, np.isnan(x)), -1)[..., :k],
        (
            *(lambda r, order=o: [r.ints(9, 257, 5).astype(float), order] for o in (0, 1)),
            *(lambda r, order=o, n=n: [with_nan(r, n), order] for o in (0, 1) for n in (9, 70, 1031)),
            *(lambda r, order=o, n=n: [with_nan(r, n), order, 4] for o in (0, 1) for n in (9, 70, 1031)),
        ),
        name="argsort with nan",
        bad=(
            (lambda r: [r(3), 2], ValueError, "order is 2"),
            (lambda r: [r(3), 0, 4], ValueError, "k is 4"),
        ),
    ),
    *(
        Op(
            name,
            lambda x, k: np.argsort(-x, -1, kind="stable")[..., :k],
            (lambda r: [r(7, 3, 2), 3], lambda r: [r(257, 5), 9], lambda r: [r(1031, 9), 1031]),
            bad=((lambda r: [r(7), 8], ValueError, "k is 8"), (lambda r: [r(7), -1], ValueError, "k is -1")),
        )
        for name in ("top_k", "argsort_top_k")
    ),
]
