"""Optimiser steps. Their result is the parameter, which they overwrite."""

import numpy as np

from . import As, Op


def adamw(x, g, m, v, p):
    """One step of AdamW; p holds the hyperparameters."""
    alpha, beta1, beta2, eps, decay, unbias1, unbias2 = p.ravel()
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    return x * (1 - alpha * decay) - alpha * m * unbias1 / (np.sqrt(v * unbias2) + eps)


def sgd(x, g, p):
    """One step of stochastic gradient descent with weight decay."""
    alpha, decay = p.ravel()
    return x * (1 - alpha * decay) - alpha * g


def adamw_args(*ne):
    """A sample: parameter, gradient, both moments, and the hyperparameters of the third step."""

    def make(r):
        p = np.array([0.1, 0.9, 0.999, 1e-8, 0.01, 1 / (1 - 0.9**3), 1 / (1 - 0.999**3)])
        return [As("F32", x) for x in (r(*ne), r(*ne), r(*ne), r(*ne, low=0.1, high=1), p)]

    return make


OPS = [
    Op(
        "opt_step_adamw",
        adamw,
        (adamw_args(37, 5), adamw_args(1031, 97), adamw_args(0)),
        types=(),
        aliased=True,
        strided=(),
        tol=5e-6,
    ),
    Op(
        "opt_step_sgd",
        sgd,
        tuple(
            lambda r, ne=ne: [As("F32", r(*ne)), As("F32", r(*ne)), As("F32", np.array([0.1, 0.01]))]
            for ne in ((37, 5), (1031, 97))
        ),
        types=(),
        aliased=True,
        strided=(),
    ),
]
