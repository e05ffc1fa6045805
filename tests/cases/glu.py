"""Norms of groups, gated linear units, running sums, sorting, triangular systems, products and sums by index."""

import math

import numpy as np

from . import Op
from .reduce import norm

GLU = {"reglu": 0, "geglu": 1, "swiglu": 2, "geglu_erf": 4, "geglu_quick": 5}


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


ACTIVATIONS = {
    "reglu": lambda x: np.maximum(x, 0),
    "geglu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "swiglu": lambda x: x * sigmoid(x),
    "geglu_erf": lambda x: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))),
    "geglu_quick": lambda x: x * sigmoid(1.702 * x),
}


def halves(x):
    return np.split(x, 2, -1)


def group_norm(x, groups, eps):
    each = -(-x.shape[1] // groups)
    parts = [x[:, c : c + each] for c in range(0, x.shape[1], each)]
    flat = [norm(p.reshape(p.shape[0], 1, 1, -1), eps).reshape(p.shape) for p in parts]
    return np.concatenate(flat, 1)


def l2_norm(x, eps):
    return x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), eps)


def swiglu_oai(a, b, alpha, limit):
    x = np.minimum(a, limit)
    return x * sigmoid(alpha * x) * (np.clip(b, -limit, limit) + 1)


def solve_tri(a, b, left, lower, uni):
    return np.linalg.solve(np.tril(a), b)


def triangle(r, n, *batch):
    a = r(n, n, *batch, scale=0.3)
    a[..., np.arange(n), np.arange(n)] = np.sign(a[..., np.arange(n), np.arange(n)]) + 1.5
    return a


def add_id(a, b, ids):
    return a + b[0, 0][ids[0]]


def mul_mat_id(matrices, b, ids):
    ids = ids[0, 0].astype(int)
    rows = b[0][:, np.arange(ids.shape[1]) % b.shape[2]]
    return np.einsum("tumk,tuk->tum", matrices[0][ids], rows)


def glu_rows():
    for name, op in GLU.items():
        f = ACTIVATIONS[name]
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
        lambda a, b, op: ACTIVATIONS["swiglu"](a) * b,
        (lambda r: [r(7, 3), r(7, 3), 2],),
        diff=(0, 1),
        tol=4e-6,
        bad=((lambda r: [r(7), r(7), 9], ValueError, "9 is no GLU operation"),),
    ),
    Op(
        "swiglu_oai",
        swiglu_oai,
        (lambda r: [r(7, 3, 2, scale=3), r(7, 3, 2, scale=3), 1.702, 2.5], lambda r: [r(131, 9), r(131, 9), 1.702, 7.0]),
        diff=(0, 1),
        kinks=(-2.5, 2.5),
        tol=4e-6,
    ),
    Op(
        "group_norm",
        group_norm,
        (
            lambda r: [r(3, 2, 4, 2), 2, 1e-5],
            lambda r: [r(3, 2, 5, 2), 2, 1e-5],
            lambda r: [r(17, 9, 12, 2, scale=9), 3, 1e-6],
        ),
        diff=(0,),
        inplace="group_norm_inplace",
        tol=1e-5,
        bad=((lambda r: [r(3, 2, 4), 0, 1e-5], ValueError, "n_groups is 0"),),
    ),
    Op(
        "l2_norm",
        l2_norm,
        (lambda r: [r(7, 3, 2), 1e-5], lambda r: [r(7, 3, 2), 3.0], lambda r: [r(1031, 9), 1e-12]),
        diff=(0,),
        inplace="l2_norm_inplace",
        tol=4e-6,
        bad=((lambda r: [r(3), -1.0], ValueError, "eps is -1"),),
    ),
    Op(
        "cumsum",
        lambda x: np.cumsum(x, -1),
        (lambda r: [r(7, 3, 2)], lambda r: [r(67, 5, 2)], lambda r: [r(1031, 9)], lambda r: [r(0, 3)]),
        diff=(0,),
        tol=4e-6,
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
    *(
        Op(
            name,
            lambda x, k: np.argsort(-x, -1, kind="stable")[..., :k],
            (lambda r: [r(7, 3, 2), 3], lambda r: [r(257, 5), 9], lambda r: [r(1031, 9), 1031]),
            bad=((lambda r: [r(7), 8], ValueError, "k is 8"), (lambda r: [r(7), -1], ValueError, "k is -1")),
        )
        for name in ("top_k", "argsort_top_k")
    ),
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
        "mul_mat_id",
        mul_mat_id,
        (
            lambda r: [r(5, 4, 3), r(5, 2, 4), r.ints(3, 2, 4)],
            lambda r: [r(5, 4, 3), r(5, 1, 4), r.ints(3, 2, 4)],
            lambda r: [r(67, 33, 2), r(67, 2, 41), r.ints(2, 2, 41)],
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
