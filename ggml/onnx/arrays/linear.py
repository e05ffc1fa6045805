"""Linear models, and how models transform their scores."""

from __future__ import annotations

import numpy as np

from . import operator
from .columns import vector
from .labels import chosen, labels_of

NAMES = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]  # numbered as by TreeEnsemble


def logistic(x):
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def each_row(function, x):
    """The reduction of each row of x by a ufunc, as a column: fast where x has few columns in Fortran's order."""
    return function.reduce(x.T, 0)[:, None]


def softmax(x):
    e = np.exp(x - each_row(np.maximum, x))
    return e / each_row(np.add, e)


def softmax_zero(x):
    """The softmax in which zeros stay zeros in comparison: they are multiplied by exp(-max) instead."""
    top = each_row(np.maximum, x)
    e = np.where(np.abs(x) > 1e-7, np.exp(x - top), x * np.exp(-top))
    total = each_row(np.add, e)
    return np.divide(e, total, out=e, where=total != 0)


def probit(p):
    """The quantiles of the normal distribution, by Winitzki's approximation of the inverse of erf."""
    x = 2 * p - 1
    log = np.log((1 - x) * (1 + x))
    v = 2 / (np.pi * 0.147) + log / 2
    return np.sqrt(2) * np.copysign(np.sqrt(np.sqrt(v * v - log / 0.147) - v), x)


TRANSFORMS = {
    "NONE": lambda x: x,
    "SOFTMAX": softmax,
    "LOGISTIC": logistic,
    "SOFTMAX_ZERO": softmax_zero,
    "PROBIT": probit,
}


def transform_of(node):
    """The function that an attribute of a node demands for its scores."""
    kind = node.attr("post_transform", "NONE")
    return TRANSFORMS[NAMES[kind] if isinstance(kind, int) else kind]


def matrix_of(node, targets):
    """Coefficients (features, targets) and intercepts of a linear model."""
    w, bias = vector(node, "coefficients"), vector(node, "intercepts")
    if targets < 1 or w is None or len(w) % targets or bias is not None and len(bias) != targets:
        raise ValueError(
            f"{0 if w is None else len(w)} coefficients and {0 if bias is None else len(bias)} intercepts "
            f"for {targets} targets"
        )
    return w.reshape(targets, -1).T.copy(), np.zeros(targets, np.float32) if bias is None else bias


def rows_of(x, features):
    """The operand of a model as rows of features: float32, or float64 where it is."""
    x = x if x.ndim > 1 else np.atleast_2d(x)
    if x.ndim != 2 or x.shape[1] != features:
        raise ValueError(f"{list(x.shape)} for a model of {features} features")
    return x if x.dtype == np.float64 else x.astype(np.float32, copy=False)


@operator("LinearRegressor")
def linear_regressor(node):
    w, bias = matrix_of(node, node.attr("targets", 1))
    transform = transform_of(node)
    return lambda x: transform(rows_of(x, len(w)) @ w + bias).astype(np.float32, copy=False)


@operator("LinearClassifier")
def linear_classifier(node):
    labels, bias = labels_of(node), node.attr("intercepts")
    w, bias = matrix_of(node, len(bias) if bias else 1 if labels is None else len(labels))
    by_class, column = np.ascontiguousarray(w.T), bias[:, None]
    transform, kind = transform_of(node), node.attr("post_transform", "NONE")

    def function(x):
        scores = (by_class @ rows_of(x, len(w)).T + column).T
        if scores.shape[1] > 1:
            return chosen(labels, scores.T.argmax(0)), np.ascontiguousarray(transform(scores), np.float32)
        place = (scores[:, 0] > 0).astype(np.int64)
        if labels is not None and len(labels) == 2:  # the score of the second class
            scores = np.hstack([1 - scores if kind in ("NONE", "PROBIT") else -scores, scores])
        return chosen(labels, place), transform(scores).astype(np.float32, copy=False)

    return function
