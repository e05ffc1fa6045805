"""Support vector machines."""

from __future__ import annotations

import itertools

import numpy as np

from ..machines import Machine
from . import kept, operator
from .columns import vector
from .labels import chosen, labels_of
from .linear import matrix_of, rows_of, transform_of

EACH, SIGN, BOTH, CHANCES = range(4)  # results of a Machine


def kernel_of(node):
    """The name of a kernel, and its gamma, shift and degree."""
    return node.attr("kernel_type", "LINEAR"), [*(node.attr("kernel_params") or []), 0.0, 0.0, 0.0][:3]


def vectors_of(node, count):
    """The support vectors, `count` rows."""
    v = vector(node, "support_vectors")
    if v is None or not count or len(v) % count:
        raise ValueError(f"{0 if v is None else len(v)} numbers for {count} support vectors")
    return v.reshape(count, -1)


@kept
def classification(node):
    """The labels and the Machine of a classifier, and whether its scores are probabilities."""
    labels, sizes, rho = labels_of(node), node.attr("vectors_per_class"), vector(node, "rho")
    if not sizes:  # coefficients for each class instead of support vectors
        w, _ = matrix_of(node, 1 if labels is None else len(labels))
        rho = np.full(w.shape[1], 0 if rho is None else rho[0])
        return labels, Machine(*kernel_of(node), w.T, np.eye(w.shape[1]), rho), None
    sizes = np.asarray(sizes)
    k, count = len(sizes), int(sizes.sum())
    pairs = list(itertools.combinations(range(k), 2))
    a, b = vector(node, "prob_a"), vector(node, "prob_b")
    vectors, w = vectors_of(node, count), vector(node, "coefficients")
    if (
        w is None
        or len(w) != (k - 1) * count
        or len(rho) < len(pairs)
        or a is not None
        and not (len(a) == len(b) == len(pairs))
    ):
        raise ValueError(
            f"{0 if w is None else len(w)} coefficients, {len(rho)} rho and "
            f"{0 if a is None else len(a)} prob_a for {k} classes with {count} vectors"
        )
    ends, w = np.cumsum(sizes), w.reshape(k - 1, count)
    machines = np.zeros((len(pairs), count))  # for each pair of classes the factors of all vectors
    for m, (i, j) in enumerate(pairs):
        for here, row in ((i, j - 1), (j, i)):
            part = slice(ends[here] - sizes[here], ends[here])
            machines[m, part] = w[row, part]
    form = CHANCES if a is not None else BOTH if k == 2 else EACH
    chances = None if a is None else (a, b)
    return labels, Machine(*kernel_of(node), vectors, machines, rho[: len(pairs)], k, form, chances), a is not None


@operator("SVMClassifier")
def svm_classifier(node):
    (labels, machine, likely), transform = classification(node), transform_of(node)

    def function(x):
        scores, place = machine.compute(np.ascontiguousarray(rows_of(x, machine.features), np.float64))
        place = scores.argmax(1) if likely is None else place
        return chosen(labels, place), (scores if likely else transform(scores)).astype(np.float32)

    return function


@kept
def regression(node):
    """The Machine of a regressor."""
    count, rho = node.attr("n_supports", 0), vector(node, "rho")
    w = vector(node, "coefficients")
    vectors, w = (vectors_of(node, count), w) if count else (w.reshape(1, -1), np.ones(1))
    if count and len(w) != count:
        raise ValueError(f"{len(w)} coefficients for {count} support vectors")
    rho, form = np.zeros(1) if rho is None else rho[:1], SIGN if node.attr("one_class", 0) else EACH
    return Machine(*kernel_of(node), vectors, w[None], rho, 0, form)


@operator("SVMRegressor")
def svm_regressor(node):
    machine, transform = regression(node), transform_of(node)
    transform = transform if not node.attr("one_class", 0) else lambda scores: scores

    def function(x):
        x = np.ascontiguousarray(rows_of(x, machine.features), np.float64)
        return transform(machine.compute(x)[0]).astype(np.float32)

    return function
