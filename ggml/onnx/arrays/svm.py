"""Support vector machines."""

from __future__ import annotations

import itertools

import numpy as np

from ..coupling import least_squares
from . import operator
from .columns import vector
from .labels import chosen, labels_of
from .linear import matrix_of, rows_of, transform_of

BLOCK = 1 << 16  # values of a kernel that are computed at a time


def kernel_of(node, vectors):
    """The function of rows x that gives the kernel of each with each of the support vectors: (rows, vectors)."""
    gamma, shift, degree = [*(node.attr("kernel_params") or []), 0.0, 0.0, 0.0][:3]
    kind, columns = node.attr("kernel_type", "LINEAR"), np.ascontiguousarray(vectors.T, np.float64)
    if kind == "RBF":
        squares, doubled = np.square(columns).sum(0), -2 * columns

        def radial(x):
            distance = x @ doubled  # in place from here on: fresh memory would take longer
            distance += squares
            distance += np.square(x).sum(1, keepdims=True)
            np.maximum(distance, 0, out=distance)
            distance *= -gamma
            return np.exp(distance, out=distance)

        return radial
    functions = {
        "LINEAR": lambda p: p,
        "POLY": lambda p: power(gamma * p + shift, degree),
        "SIGMOID": lambda p: np.tanh(gamma * p + shift),
    }
    function = functions[kind]
    return lambda x: function(x @ columns)


def power(x, degree):
    """x ** degree; small whole degrees as products, which take a fiftieth of the time."""
    if degree not in range(1, 9):
        return x**degree
    y = x.copy()
    for bit in bin(int(degree))[3:]:
        y *= y
        if bit == "1":
            y *= x
    return y


def combined(kernel, x, factors):
    """The products of the kernel's values for rows x with factors (vectors, results), in blocks that caches hold."""
    block = max(BLOCK // len(factors), 1)
    if len(x) <= block:
        return kernel(x) @ factors
    return np.concatenate([kernel(x[i : i + block]) @ factors for i in range(0, len(x), block)])


def vectors_of(node, count):
    """The support vectors, `count` rows."""
    v = vector(node, "support_vectors")
    if v is None or not count or len(v) % count:
        raise ValueError(f"{0 if v is None else len(v)} numbers for {count} support vectors")
    return v.reshape(count, -1)


@operator("SVMClassifier")
def svm_classifier(node):
    labels, sizes, transform = labels_of(node), node.attr("vectors_per_class"), transform_of(node)
    rho = vector(node, "rho")
    if not sizes:
        return linear_svm(node, labels, transform)
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
    machines = np.zeros((count, len(pairs)))  # for each pair of classes the factors of all vectors
    for m, (i, j) in enumerate(pairs):
        for here, row in ((i, j - 1), (j, i)):
            part = slice(ends[here] - sizes[here], ends[here])
            machines[part, m] = w[row, part]
    kernel, (first, second) = kernel_of(node, vectors), np.array(pairs).T
    lost = np.eye(k)[second]  # the votes of the pairs if they are against their first classes
    won, all_lost = np.eye(k)[first] - lost, lost.sum(0)  # what changes by those that are not

    def function(x):
        x = rows_of(x, vectors.shape[1])
        scores = combined(kernel, x.astype(np.float64), machines) + rho[: len(pairs)]
        place = ((scores > 0) @ won + all_lost).argmax(1)
        if a is not None:
            r = np.zeros((len(x), k, k))
            with np.errstate(over="ignore"):
                r[:, first, second] = np.clip(1 / (1 + np.exp(scores * a + b)), 1e-7, 1 - 1e-7)
            r[:, second, first] = 1 - r[:, first, second]
            p = np.empty((len(x), k))
            least_squares(r, p, np.empty((k, k)), np.empty(k))
            return chosen(labels, place), p.astype(np.float32)
        if k == 2:
            scores = np.hstack([-scores, scores])
        return chosen(labels, place), transform(scores).astype(np.float32)

    return function


def linear_svm(node, labels, transform):
    """A classifier that has coefficients for each class instead of support vectors."""
    rho = vector(node, "rho")
    w, _ = matrix_of(node, 1 if labels is None else len(labels))
    kernel = kernel_of(node, w.T)

    def function(x):
        scores = kernel(rows_of(x, len(w)).astype(np.float64)) + (0 if rho is None else rho[0])
        return chosen(labels, scores.argmax(1)), transform(scores).astype(np.float32)

    return function


@operator("SVMRegressor")
def svm_regressor(node):
    count, rho, transform = node.attr("n_supports", 0), vector(node, "rho"), transform_of(node)
    w = vector(node, "coefficients").astype(np.float64)
    vectors = vectors_of(node, count) if count else w.reshape(1, -1)
    kernel = kernel_of(node, vectors)
    if count and len(w) != count:
        raise ValueError(f"{len(w)} coefficients for {count} support vectors")

    def function(x):
        x = rows_of(x, vectors.shape[1]).astype(np.float64)
        scores = (combined(kernel, x, w[:, None]) if count else kernel(x)) + (0 if rho is None else rho[0])
        if node.attr("one_class", 0):
            return np.where(scores > 0, np.float32(1), np.float32(-1))
        return transform(scores).astype(np.float32)

    return function
