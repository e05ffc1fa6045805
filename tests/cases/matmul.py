"""Matrix products."""

import numpy as np

from . import Op


def broadcast_matrices(a, b):
    """a with its matrices repeated to as many as b has: neighbouring matrices of b share one."""
    for axis in (0, 1):
        if b.shape[axis] != a.shape[axis]:
            a = np.repeat(a, b.shape[axis] // a.shape[axis], axis)
    return a


def mul_mat(a, b):
    """b a^T for each matrix."""
    return b @ broadcast_matrices(a, b).swapaxes(-1, -2)


def out_prod(a, b):
    """b^T a for each matrix: the sum of the outer products of their rows."""
    return b.swapaxes(-1, -2) @ broadcast_matrices(a, b)


def mul_mat_id(matrices, b, ids):
    """Each row of b times the transposed matrix that its id selects. Rows of b repeat where ids has more columns."""
    ids = ids[0, 0].astype(int)
    rows = b[0][:, np.arange(ids.shape[1]) % b.shape[2]]
    return np.einsum("tumk,tuk->tum", matrices[0][ids], rows)


MIXED = ("F32", ("F16", "F32"), ("BF16", "F32"), "F16", "BF16", ("F32", "F16"))
SHAPES = (  # k, m, n, then dimensions 2 and 3 of a and of b
    (7, 5, 3, 1, 1, 1, 1),
    (4, 3, 5, 2, 1, 4, 3),
    (6, 3, 1, 1, 2, 3, 2),
    (1, 9, 17, 1, 1, 1, 1),
    (64, 33, 1, 1, 1, 1, 1),
    (131, 67, 2, 1, 1, 2, 1),
    (129, 70, 65, 2, 1, 2, 1),
    (517, 130, 35, 1, 1, 1, 1),
    (600, 70, 20, 1, 1, 1, 1),
    (600, 31, 150, 1, 1, 1, 1),
    (400, 47, 45, 1, 1, 1, 1),
    (1101, 37, 77, 2, 1, 2, 1),
    (70, 13, 12, 2, 1, 2, 3),
    (40, 5, 16, 1, 1, 1, 1),
    (0, 5, 3, 1, 1, 1, 1),
    (8, 0, 3, 1, 1, 1, 1),
    (8, 3, 0, 1, 1, 1, 1),
)

OPS = [
    Op(
        "mul_mat",
        mul_mat,
        tuple(
            lambda r, k=k, m=m, n=n, a=a, b=b: [r(k, m, *a), r(k, n, *b)]
            for k, m, n, *ab in SHAPES
            for a, b in [(ab[:2], ab[2:])]
        ),
        diff=(0, 1),
        types=MIXED,
        tol=1e-5,
        bad=(
            (lambda r: [r(7, 5), r(6, 3)], ValueError, "a is f32 [7, 5], b is f32 [6, 3]"),
            (lambda r: [r(7, 5, 2), r(7, 3, 3)], ValueError, "multiples of a's"),
            (lambda r: [r(7, 5), r.ints(3, 7, 3)], ValueError, "b is i32"),
            (lambda r: [r.ints(3, 7, 5), r(7, 3)], ValueError, "a is i32"),
            (lambda r: [r(7, 5), None], TypeError, "b is None"),
        ),
    ),
    Op(
        "out_prod",
        out_prod,
        tuple(
            lambda r, k=k, m=m, n=n, a=a, b=b: [r(m, k, *a), r(n, k, *b)]
            for k, m, n, *ab in SHAPES
            for a, b in [(ab[:2], ab[2:])]
        ),
        diff=(0, 1),
        types=MIXED,
        tol=1e-5,
        bad=((lambda r: [r(7, 5), r(3, 6)], ValueError, "a is f32 [7, 5], b is f32 [3, 6]"),),
    ),
    Op(
        "mul_mat_id",
        mul_mat_id,
        (
            lambda r: [r(5, 4, 3), r(5, 2, 4), r.ints(3, 2, 4)],
            lambda r: [r(5, 4, 3), r(5, 1, 4), r.ints(3, 2, 4)],
            lambda r: [r(67, 33, 2), r(67, 2, 41), r.ints(2, 2, 41)],
            lambda r: [r(67, 33, 6), r(67, 1, 40), r.ints(6, 2, 40)],
            lambda r: [r(131, 70, 9), r(131, 1, 1), r.ints(9, 4, 1)],
            lambda r: [r(8, 5, 4), r(8, 2, 0), r.ints(4, 2, 0)],
        ),
        diff=(0, 1),
        types=("F32", ("F16", "F32"), ("BF16", "F32"), "F16"),
        tol=1e-5,
        bad=(
            (lambda r: [r(5, 4, 3), r(6, 2, 4), r.ints(3, 2, 4)], ValueError, "as.ne[0] must be b.ne[0]"),
            (lambda r: [r(5, 4, 3), r(5, 3, 4), r.ints(3, 2, 4)], ValueError, "multiple of b.ne[1]"),
            (lambda r: [r(5, 4, 3), r(5, 2, 4), r(2, 4)], ValueError, "ids is f32"),
        ),
    ),
]
