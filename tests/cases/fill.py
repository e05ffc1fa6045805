"""Tensors whose elements come from numbers: constants, ranges and embeddings of time steps."""

import numpy as np

from . import Op
from .samples import EXACT


def timestep_embedding(t, dim, period):
    """Cosines and sines of t at frequencies from 1 to 1 / period; an odd dimension ends with a zero."""
    half = dim // 2
    angle = t.reshape(-1, 1) * np.exp(-np.log(period) * np.arange(half) / max(1, half))
    return np.concatenate([np.cos(angle), np.sin(angle), np.zeros((t.size, dim % 2))], 1)


OPS = [
    Op(
        "fill",
        lambda a, c: np.full(a.shape, c),
        (lambda r: [r(7, 3), 1.5], lambda r: [r(1031, 97), -2.0]),
        inplace="fill_inplace",
        **EXACT,
    ),
    Op(
        "arange",
        lambda start, stop, step: np.arange(start, stop, step),
        (lambda r: [0.0, 7.0, 1.0], lambda r: [5.0, -3.0, -0.75]),
    ),
    Op(
        "timestep_embedding",
        timestep_embedding,
        (
            lambda r: [r(5, low=0, high=20), 8, 100],
            lambda r: [r(4, low=0, high=2), 7, 1000],
            lambda r: [r(33, low=0, high=20), 130, 100],
        ),
        diff=(0,),
        types=("F32",),
        tol=2e-5,
    ),
]
