"""Sums, norms, masks, soft-max, losses."""

import numpy as np

from . import As, Op
from .elementwise import sized, tiled, with_numbers

ROWS = sized(scale=1.5)
EMPTY_ROWS = (lambda r: [r(0, 3)],)


def norm(x, eps):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + eps)


def rms_norm(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rms_norm_back(g, x, eps):
    n = x.shape[-1]
    s = (x * x).mean(-1, keepdims=True) + eps
    return g / np.sqrt(s) - x * (g * x).sum(-1, keepdims=True) / (n * s**1.5)


def soft_max(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def log_soft_max(x):
    c = x - x.max(-1, keepdims=True, initial=-np.inf)
    return c - np.log(np.exp(c).sum(-1, keepdims=True))


def slopes(heads, max_bias):
    """ALiBi (arXiv:2108.12409): a geometric series for the largest power of two of heads, its odd halves for the
    others.
    """
    if max_bias == 0:
        return np.ones(heads)
    base = 1 << (heads.bit_length() - 1)
    first = [2.0 ** (-max_bias * (h + 1) / base) for h in range(base)]
    rest = [2.0 ** (-max_bias / 2 * (2 * h + 1) / base) for h in range(heads - base)]
    return np.array(first + rest)


def soft_max_ext(x, mask, scale, max_bias):
    x = x * scale
    if mask is not None:
        mask = tiled(mask[:, :, : x.shape[2]], x)
        x = x + slopes(x.shape[1], max_bias)[:, None, None] * mask
    return soft_max(x)


def soft_max_back(g, y, scale, max_bias):
    return scale * y * (g - (g * y).sum(-1, keepdims=True))


def probabilities(x):
    return soft_max(x).astype(np.float32).astype(np.float64)


def diag_mask(value):
    def ref(x, n_past):
        i1, i0 = np.indices(x.shape[-2:])
        return np.where(i0 > n_past + i1, value, x)

    return ref


def repeat_back(a, b):
    for axis, n in enumerate(b.shape):
        a = a.reshape(*a.shape[:axis], a.shape[axis] // n if n else 1, n, *a.shape[axis + 1 :]).sum(axis)
    return a


def cross_entropy(x, labels):
    return -(labels * log_soft_max(x)).sum() / max(1, np.prod(x.shape[:-1]))


def cross_entropy_back(g, x, labels):
    """By the definition: with labels that need not sum to one."""
    return g.reshape(()) * (soft_max(x) * labels.sum(-1, keepdims=True) - labels) / max(1, np.prod(x.shape[:-1]))


def argmax(x):
    """The last of equals."""
    greatest = x[0, 0] == x[0, 0].max(-1, keepdims=True, initial=-np.inf)
    return (greatest * np.arange(x.shape[-1])).max(-1, initial=0)


def masked(r, *ne):
    """An attention mask: some -inf, never a whole row."""
    m = r(*ne)
    m[r.rng.random(m.shape) < 0.2] = -np.inf
    m[..., 0] = 0
    return m


def causal(value, name):
    return Op(
        name,
        diag_mask(value),
        (lambda r: [r(7, 5, 2), 1], lambda r: [r(67, 33, 3), 0], lambda r: [r(513, 257), 7], lambda r: [r(0, 3), 0]),
        diff=(0,) if value == 0 else (),
        inplace=name + "_inplace",
        bad=((lambda r: [r(3), 1 << 40], ValueError, "n_past is"), (lambda r: [r(3), "1"], TypeError, "n_past is '1'")),
    )


NORMED = (lambda r: [r(7, 3, 2)], lambda r: [r(67, 5, 3, 2)], lambda r: [r(1030, 97, scale=30)], lambda r: [r(3, 0)])
SOFT = (
    lambda r: [r(7, 3, 2, scale=3)],
    lambda r: [r(67, 5, 3, 2, scale=9)],
    lambda r: [r(1031, 97, scale=4)],
    lambda r: [r(3, 0)],
)

OPS = [
    Op(
        "sum",
        lambda x: x.sum(),
        (*ROWS, *EMPTY_ROWS),
        diff=(0,),
        tol=4e-6,
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
    Op(
        "norm",
        norm,
        with_numbers(NORMED, 1e-5),
        diff=(0,),
        inplace="norm_inplace",
        tol=1e-5,
        bad=((lambda r: [r(4), -1.0], ValueError, "eps is -1"), (lambda r: [r(4)], TypeError, "")),
    ),
    Op("rms_norm", rms_norm, with_numbers(NORMED, 1e-5), diff=(0,), inplace="rms_norm_inplace", tol=4e-6),
    Op(
        "rms_norm_back",
        rms_norm_back,
        (lambda r: [r(7, 3, 2), r(7, 3, 2), 1e-5], lambda r: [r(1031, 97), r(1031, 97), 1e-3]),
        diff=(0, 1),
        tol=1e-5,
    ),
    causal(-np.inf, "diag_mask_inf"),
    causal(0.0, "diag_mask_zero"),
    Op("soft_max", soft_max, SOFT, diff=(0,), inplace="soft_max_inplace", tol=5e-6),
    Op(
        "soft_max_ext",
        soft_max_ext,
        (
            lambda r: [r(7, 5, 2), None, 0.5, 0.0],
            lambda r: [r(7, 5, 2, 2), As("F32", masked(r, 7, 5)), 0.5, 0.0],
            lambda r: [r(7, 5, 6, 2), As("F16", masked(r, 7, 8, 2, 1)), 0.5, 8.0],
            lambda r: [r(67, 33, 12, 2), As("F32", masked(r, 67, 40, 1, 2)), 0.25, 8.0],
            lambda r: [r(257, 33, 4), As("F16", masked(r, 257, 33)), 3.0, 4.0],
        ),
        diff=(0,),
        inplace="soft_max_ext_inplace",
        tol=5e-6,
        bad=(
            (lambda r: [r(7, 5), r(6, 5), 1.0, 0.0], ValueError, "mask is f32 [6, 5]"),
            (lambda r: [r(7, 5), r(7, 4), 1.0, 0.0], ValueError, "at least as many rows"),
            (lambda r: [r(7, 5), r.ints(3, 7, 5), 1.0, 0.0], ValueError, "mask is i32"),
            (lambda r: [r(7, 5), None, 1.0, 8.0], ValueError, "ALiBi needs a mask"),
            (lambda r: [r(7, 5, 3), r(7, 5, 2), 1.0, 0.0], ValueError, "multiples of the mask's"),
        ),
    ),
    Op(
        "soft_max_ext",
        soft_max_ext,
        (lambda r: [r(7, 5, 2, 2), r(7, 5), 0.5, 0.0], lambda r: [r(7, 5, 2, 2), r(7, 5, 2, 1), 0.5, 0.0]),
        diff=(0, 1),
        types=("F32",),
        tol=5e-6,
        name="soft_max_ext_by_mask",
    ),
    Op(
        "soft_max_ext_back",
        soft_max_back,
        (
            lambda r: [r(7, 5), probabilities(r(7, 5)), 1.0, 0.0],
            lambda r: [r(7, 5, 2), probabilities(r(7, 5, 2)), 0.25, 0.0],
            lambda r: [r(67, 33, 3), probabilities(r(67, 33, 3)), 0.25, 0.0],
            lambda r: [r(1031, 97), probabilities(r(1031, 97)), 0.25, 0.0],
        ),
        diff=(0, 1),
        inplace="soft_max_ext_back_inplace",
        types=("F32",),
        tol=1e-5,
    ),
    Op(
        "cross_entropy_loss",
        cross_entropy,
        tuple(lambda r, ne=ne: [r(*ne, scale=2), probabilities(r(*ne))] for ne in ((7, 5), (10, 33, 2), (1031, 97))),
        diff=(0, 1),
        types=("F32",),
        tol=5e-6,
        bad=((lambda r: [r(7, 5), r(7, 4)], ValueError, "shapes must be equal"),),
    ),
    Op(
        "cross_entropy_loss_back",
        cross_entropy_back,
        tuple(
            lambda r, ne=ne: [r(1), r(*ne, scale=2), probabilities(r(*ne))] for ne in ((7, 5), (10, 33, 2), (1031, 97))
        ),
        diff=(0, 1, 2),
        types=("F32",),
        tol=1e-5,
    ),
]
