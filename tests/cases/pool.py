"""Maximum and average pooling."""

import numpy as np

from . import Op
from .samples import tap_view, taps


def pool(x, op, k, s, p, inside):
    """Pooling over two dimensions. k, s and p are the kernel, strides and paddings of dimensions 0 and 1; p may be a
    multiple of 0.5. An average counts only the elements inside the image if `inside` is true, else the whole kernel.
    """
    n = x.shape[:-3:-1]
    out = [int((n[i] + 2 * p[i] - k[i]) // s[i]) + 1 for i in range(2)]
    whole = [int(q) for q in p]
    more = [max(0, (out[i] - 1) * s[i] + k[i] - n[i] - whole[i]) for i in range(2)]
    edges = [(0, 0), (0, 0), *((whole[i], more[i]) for i in (1, 0))]
    x, present = np.pad(x, edges, constant_values=0 if op else -np.inf), np.pad(np.ones(x.shape), edges)
    views = [(tap_view(x, t, out, s, [1, 1]), tap_view(present, t, out, s, [1, 1])) for t in taps(k)]
    if op == 0:
        return np.max([v for v, _ in views], 0)
    return sum(v for v, _ in views) / (sum(m for _, m in views) if inside else k[0] * k[1])


def pool_1d(x, op, k, s, p):
    return pool(x, op, [k, 1], [s, 1], [p, 0], True)


def pool_2d(x, op, k0, k1, s0, s1, p0, p1):
    return pool(x, op, [k0, k1], [s0, s1], [p0, p1], False)


def pool_2d_back(g, x, op, *how):
    """By one-sided differences of the function itself, which is piecewise linear."""
    grad, h = np.zeros(x.shape), 1e-6
    at = pool_2d(x, op, *how)
    for i in np.ndindex(x.shape):
        y = x.copy()
        y[i] += h
        grad[i] = np.sum(g * (pool_2d(y, op, *how) - at)) / h
    return grad


def distinct(*ne):
    """Makes values that are so far apart that no step of a finite difference changes their order."""
    return lambda r: r.order(int(np.prod(ne)), int(np.prod(ne))).reshape((*ne, 1, 1, 1)[:4][::-1]) * 0.05 - 1.0


def with_distinct(ne, *numbers):
    """A sample: an operand of distinct values, followed by numbers."""
    return lambda r: [distinct(*ne)(r), *numbers]


def odd_values(r, *ne):
    """Values of which half are -inf and few are NaN."""
    x = r(*ne)
    return np.where(r.ints(60, *ne) == 7, np.nan, np.where(x < 0, -np.inf, x))


OPS = [
    Op(
        "ext.max_pool_2d",
        lambda x, *how: pool(x, 0, how[:2], how[2:4], how[4:], False),
        tuple(
            lambda r, ne=ne, how=how: [odd_values(r, *ne), *how]
            for ne, how in (
                ((20, 9, 2, 2), (2, 2, 2, 2, 0, 0)),
                ((21, 9, 3), (3, 3, 1, 2, 1, 1)),
                ((150, 5, 2), (150, 1, 150, 1, 0, 0)),
                ((90, 40), (40, 3, 20, 1, 0.5, 1)),
                ((33, 70, 2), (1, 70, 1, 70, 0, 0)),
            )
        ),
        bad=((lambda r: [r(3, 3), 4, 1, 1, 1, 0, 0], ValueError, "a window of 4 does not fit"),),
    ),
    *(
        Op(
            "pool_1d",
            pool_1d,
            (
                with_distinct((20, 4), op, 2, 2, 0),
                with_distinct((11, 3, 2), op, 3, 2, 1),
                with_distinct((9, 2), op, 4, 1, 2),
                lambda r, op=op: [r(401, 33, 2), op, 5, 3, 2],
                with_distinct((37, 3), op, 30, 9, 2),
                lambda r, op=op: [r(1030, 3), op, 70, 50, 6],
            ),
            diff=(0,),
            name=f"pool_1d_{name}",
            bad=(
                (lambda r: [r(6, 4), 2, 2, 1, 0], ValueError, "op is 2"),
                (lambda r: [r(6, 4), 0, 0, 1, 0], ValueError, "window is 0"),
                (lambda r: [r(6, 4), 0, 7, 1, 0], ValueError, "does not fit"),
            ),
        )
        for op, name in enumerate(("max", "avg"))
    ),
    *(
        Op(
            "pool_2d",
            pool_2d,
            (
                with_distinct((8, 6, 2, 2), op, 2, 2, 2, 2, 0.0, 0.0),
                with_distinct((7, 9, 2), op, 3, 3, 2, 2, 1.0, 1.0),
                with_distinct((8, 5), op, 2, 2, 2, 2, 0.5, 0.5),
                with_distinct((6, 7, 2), op, 3, 2, 1, 3, 1.0, 0.0),
                lambda r, op=op: [r(112, 57, 9, 2), op, 3, 3, 2, 2, 1.0, 1.0],
                lambda r, op=op: [r(83, 7, 3, 2), op, 2, 2, 2, 2, 0.0, 0.0],
                lambda r, op=op: [r(11, 7, 3), op, 11, 7, 11, 7, 0.0, 0.0],
                lambda r, op=op: [r(19, 13, 2), op, 12, 9, 9, 5, 2.0, 1.0],
                lambda r, op=op: [r(400, 9, 2), op, 66, 3, 60, 2, 5.0, 1.0],
            ),
            diff=(0,),
            name=f"pool_2d_{name}",
            bad=(
                (lambda r: [r(6, 4), 2, 2, 2, 1, 1, 0.0, 0.0], ValueError, "op is 2"),
                (lambda r: [r(6, 4), 0, 2, 2, 0, 1, 0.0, 0.0], ValueError, "stride is 0"),
                (lambda r: [r(6, 4), 0, 2, 5, 1, 1, 0.0, 0.0], ValueError, "does not fit"),
                (lambda r: [r(6, 4), 0, 2, 2, 1, 1, -1.0, 0.0], ValueError, "padding is -1"),
                (lambda r: [r(6, 4), 0, 2, 2, 1, 1, 0.0, (1 << 24) + 1], ValueError, "need less than 2"),
            ),
        )
        for op, name in enumerate(("max", "avg"))
    ),
    *(
        Op(
            "pool_2d_back",
            pool_2d_back,
            (
                lambda r, op=op: [r(4, 3, 2, 2), distinct(8, 6, 2, 2)(r), op, 2, 2, 2, 2, 0.0, 0.0],
                lambda r, op=op: [r(20, 2, 2), distinct(41, 5, 2)(r), op, 2, 2, 2, 2, 0.0, 0.0],
                lambda r, op=op: [r(4, 5, 2), distinct(7, 9, 2)(r), op, 3, 3, 2, 2, 1.0, 1.0],
                lambda r, op=op: [r(8, 3), distinct(8, 5)(r), op, 3, 2, 1, 2, 1.0, 0.5],
            ),
            types=("F32",),
            tol=1e-5,
            name=f"pool_2d_back_{name}",
            bad=((lambda r: [r(4, 2), r(8, 6), 0, 2, 2, 2, 2, 0.0, 0.0], ValueError, "a has rows of 4 and 2 of them"),),
        )
        for op, name in enumerate(("max", "avg"))
    ),
]
