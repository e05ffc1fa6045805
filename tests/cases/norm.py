"""Normalisation of rows and of groups of channels."""

import numpy as np

from . import As, Op
from .samples import tiled, with_numbers

OPERANDS = (lambda r: [r(7, 3, 2)], lambda r: [r(67, 5, 3, 2)], lambda r: [r(1030, 97, scale=30)], lambda r: [r(3, 0)])


def norm(x, eps):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + eps)


def rms_norm(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rms_norm_back(g, x, eps):
    """The gradient of rms_norm by its argument x, times g."""
    n = x.shape[-1]
    s = (x * x).mean(-1, keepdims=True) + eps
    return g / np.sqrt(s) - x * (g * x).sum(-1, keepdims=True) / (n * s**1.5)


def group_norm(x, groups, eps):
    """Each group of channels has mean 0 and variance 1. The last group may have fewer channels."""
    each = -(-x.shape[1] // groups)
    parts = [x[:, c : c + each] for c in range(0, x.shape[1], each)]
    flat = [norm(p.reshape(p.shape[0], 1, 1, -1), eps).reshape(p.shape) for p in parts]
    return np.concatenate(flat, 1)


def channel_norm(x, scale, bias, eps):
    """Each group of channels has mean 0 and variance 1, then each channel has a factor and a bias."""
    flat = norm(x.reshape(*x.shape[:2], 1, x.shape[2] * x.shape[3]), eps).reshape(x.shape)
    return flat * tiled(scale, x[..., :1]) + tiled(bias, x[..., :1])


def l2_norm(x, eps):
    return x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), eps)


OPS = [
    Op(
        "norm",
        norm,
        with_numbers(OPERANDS, 1e-5),
        diff=(0,),
        inplace="norm_inplace",
        tol=1e-5,
        bad=((lambda r: [r(4), -1.0], ValueError, "eps is -1"), (lambda r: [r(4)], TypeError, "")),
    ),
    Op("rms_norm", rms_norm, with_numbers(OPERANDS, 1e-5), diff=(0,), inplace="rms_norm_inplace", tol=4e-6),
    Op(
        "rms_norm_back",
        rms_norm_back,
        (lambda r: [r(7, 3, 2), r(7, 3, 2), 1e-5], lambda r: [r(1031, 97), r(1031, 97), 1e-3]),
        diff=(0, 1),
        tol=1e-5,
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
        "ext.channel_norm",
        channel_norm,
        (
            lambda r: [r(35, 1, 4, 2), r(1, 1, 4), r(1, 1, 4), 1e-5],
            lambda r: [r(35, 3, 4, 2, scale=9), r(1, 3, 4), r(1, 3, 1, 2), 1e-6],
            lambda r: [r(1031, 2, 3) + 5, r(1, 2, 3), r(1, 2, 3), 1e-5],
            lambda r: [r(1 << 16, 3), r(1, 3), r(1, 3), 1e-5],
            lambda r: [r(7, 5, 0), r(1, 5), r(1, 5), 1e-5],
        ),
        types=("F32",),
        tol=1e-5,
        strided=(1, 2),
        bad=(
            (lambda r: [r(7, 3), r(1, 2), r(1, 3), 1e-5], ValueError, "need one for each channel, [1, 3, ...]"),
            (lambda r: [r(7, 3), r(7, 3), r(1, 3), 1e-5], ValueError, "need one for each channel, [1, 3, ...]"),
            (lambda r: [r(7, 3), r(1, 3), r(1, 3), -1.0], ValueError, "eps is -1"),
            (lambda r: [As("F16", r(7, 3)), r(1, 3), r(1, 3), 1e-5], ValueError, "need f32"),
        ),
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
]
