"""Columns of features: scaling, choosing, joining and filling them."""

from __future__ import annotations

import numpy as np

from . import operator


def vector(node, *names):
    """The first of some attributes that a node has, as an array; None if it has none."""
    for name in names:
        value = node.attr(name)
        if value is not None:
            return (
                value.reshape(-1)
                if isinstance(value, np.ndarray)
                else np.asarray(value, np.float32 if value and isinstance(value[0], float) else None)
            )
    return None


def as_float(x):
    """The numbers as float32."""
    return x.astype(np.float32, copy=False)


@operator("Scaler")
def scaler(node):
    offset, scale = (vector(node, name) for name in ("offset", "scale"))
    offset, scale = np.float32(0) if offset is None else offset, np.float32(1) if scale is None else scale
    return lambda x: as_float((x - offset) * scale)


@operator("Normalizer")
def normalizer(node):
    """Rows divided by their largest magnitude, the sum of magnitudes, or the root of the sum of squares."""
    sizes = {
        "MAX": lambda x: np.maximum.reduce(np.abs(x), 0, initial=0),
        "L1": lambda x: np.add.reduce(np.abs(x), 0),
        "L2": lambda x: np.sqrt(np.add.reduce(np.square(x), 0)),
    }
    size_of = sizes[node.attr("norm", "MAX")]

    def function(x):
        x = as_float(x)
        columns = x.T if x.ndim == 2 else np.moveaxis(x, -1, 0)
        size = size_of(np.ascontiguousarray(columns))[..., None]
        return x / (size + (size == 0))

    return function


@operator("Binarizer")
def binarizer(node):
    threshold = node.attr("threshold", 0.0)
    return lambda x: (x > threshold).astype(x.dtype)


@operator("Imputer")
def imputer(node):
    values, missing = vector(node, "imputed_value_floats"), node.attr("replaced_value_float", 0.0)
    if values is None:
        values, missing = vector(node, "imputed_value_int64s"), node.attr("replaced_value_int64", 0)
    if values is None:
        raise ValueError("need imputed_value_floats or imputed_value_int64s")

    def function(x):
        lacking = np.isnan(x) if missing != missing else x == missing
        return np.where(lacking, values.astype(x.dtype), x)

    return function


@operator("FeatureVectorizer")
def feature_vectorizer(node):
    sizes = node.attr("inputdimensions")

    def function(*values):
        parts = [as_float(v.reshape(len(v), -1) if v.ndim else v.reshape(1, 1)) for v in values]
        for i, (part, size) in enumerate(zip(parts, sizes or ())):
            parts[i] = np.pad(part[:, :size], ((0, 0), (0, max(size - part.shape[1], 0))))
        return np.concatenate(parts, 1)

    return function


@operator("ArrayFeatureExtractor")
def array_feature_extractor(node):
    def function(x, index):
        taken = x.take(index.reshape(-1), -1)
        return taken.reshape(1, -1) if x.ndim == 1 else taken

    return function


@operator("CDist", "com.microsoft")
def distances(node):
    """The distance of each row of x to each row of y, or its square, as neighbours of scikit-learn need it."""

    def function(x, y):
        wide = x.astype(np.float64), y.astype(np.float64)
        (first, second), products = ((v * v).sum(1) for v in wide), wide[0] @ wide[1].T
        squares = np.maximum(first[:, None] + second - 2 * products, 0)
        return (np.sqrt(squares) if node.attr("metric") == "euclidean" else squares).astype(x.dtype)

    return function
