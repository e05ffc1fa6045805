"""Soft-max with masks and ALiBi, its gradient, and the cross-entropy loss."""

import numpy as np

from . import As, Op
from .samples import tiled


def soft_max(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def log_soft_max(x):
    c = x - x.max(-1, keepdims=True, initial=-np.inf)
    return c - np.log(np.exp(c).sum(-1, keepdims=True))


def slopes(heads, max_bias):
    """The slopes of ALiBi (arXiv:2108.12409): a geometric series for the largest power of two of heads; the other heads
    take every second slope of the series for twice as many heads.
    """
    if max_bias == 0:
        return np.ones(heads)
    base = 1 << (heads.bit_length() - 1)
    first = [2.0 ** (-max_bias * (h + 1) / base) for h in range(base)]
    rest = [2.0 ** (-max_bias / 2 * (2 * h + 1) / base) for h in range(heads - base)]
    return np.array(first + rest)


def soft_max_ext(x, mask, scale, max_bias):
    """Soft-max of scale * x plus the mask, which heads weight with their slopes of ALiBi."""
    x = x * scale
    if mask is not None:
        mask = tiled(mask[:, :, : x.shape[2]], x)
        x = x + slopes(x.shape[1], max_bias)[:, None, None] * mask
    return soft_max(x)


def soft_max_back(g, y, scale, max_bias):
    """The gradient of soft_max by its argument, from its result y, times g."""
    return scale * y * (g - (g * y).sum(-1, keepdims=True))


def probabilities(x):
    """Rows that sum to one, rounded to f32."""
    return soft_max(x).astype(np.float32).astype(np.float64)


def cross_entropy(x, labels):
    """The mean over the rows of -sum(labels * log_soft_max(x))."""
    return -(labels * log_soft_max(x)).sum() / max(1, np.prod(x.shape[:-1]))


def cross_entropy_back(g, x, labels):
    """The gradient of cross_entropy by x, for labels that need not sum to one."""
    return g.reshape(()) * (soft_max(x) * labels.sum(-1, keepdims=True) - labels) / max(1, np.prod(x.shape[:-1]))


def mask_without_hidden_rows(r, *ne):
    """An attention mask that hides a fifth of the keys, but never a whole row."""
    m = r(*ne)
    m[r.rng.random(m.shape) < 0.2] = -np.inf
    m[..., 0] = 0
    return m


OPERANDS = (
    lambda r: [r(7, 3, 2, scale=3)],
    lambda r: [r(67, 5, 3, 2, scale=9)],
    lambda r: [r(1031, 97, scale=4)],
    lambda r: [r(3, 0)],
)

OPS = [
    Op("soft_max", soft_max, OPERANDS, diff=(0,), inplace="soft_max_inplace", tol=5e-6),
    Op("ext.log_soft_max", log_soft_max, OPERANDS, diff=(0,), tol=5e-6),
    Op(
        "soft_max_ext",
        soft_max_ext,
        (
            lambda r: [r(7, 5, 2), None, 0.5, 0.0],
            lambda r: [r(7, 5, 2, 2), As("F32", mask_without_hidden_rows(r, 7, 5)), 0.5, 0.0],
            lambda r: [r(7, 5, 6, 2), As("F16", mask_without_hidden_rows(r, 7, 8, 2, 1)), 0.5, 8.0],
            lambda r: [r(67, 33, 12, 2), As("F32", mask_without_hidden_rows(r, 67, 40, 1, 2)), 0.25, 8.0],
            lambda r: [r(257, 33, 4), As("F16", mask_without_hidden_rows(r, 257, 33)), 3.0, 4.0],
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
        "soft_max_ext",
        soft_max_ext,
        (lambda r: [r(7, 5, 6, 2), r(7, 8, 2, 1), 0.5, 8.0], lambda r: [r(7, 5, 3, 2), r(7, 5, 1, 2), 0.5, 4.0]),
        diff=(0, 1),
        types=("F32",),
        tol=5e-6,
        name="soft_max_ext_by_mask_with_alibi",
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
