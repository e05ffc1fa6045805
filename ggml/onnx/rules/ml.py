"""Linear models and trees of ai.onnx.ml, and what stands before them, in the graph; arrays/ has the others."""

from typing import Any

import numpy as np

from .. import trees
from ..arrays.columns import vector
from ..arrays.ensemble import classification, ensemble_of, regression
from ..arrays.labels import labels_of
from ..arrays.linear import matrix_of
from ..recording import ggml
from ..values import F32, OnHost, Tensor, count, is_float, is_integer
from . import rule
from .index import place_of_max
from .matmul import matmul
from .norm import softmax_of

VISITS = 1 << 14  # of nodes of trees that are worth several threads
MANY = 300  # rows from which leaving the graph is worth the time
TRANSFORMS = {
    "NONE": lambda b, x: x,
    "SOFTMAX": lambda b, x: softmax_of(b, "Softmax", x),
    "LOGISTIC": lambda b, x: b.unary(ggml.ggml_sigmoid, x),
}


def features(b, x, columns=None):
    """The numbers of an operand as floats; columns: it must be a matrix of so many."""
    if not (is_float(x.dtype) or is_integer(x.dtype)):
        raise OnHost(f"{x.dtype} is computed on the host")
    if columns is not None and (len(x.shape) != 2 or x.shape[1] != columns):
        raise OnHost("operands that are not rows of features")
    if count(x.shape[:-1]) >= MANY and not b.stays:
        raise OnHost("rows of few features take less time there, if there are many")
    return b.as_float(x)


def transform_of(node):
    """How a model transforms its scores."""
    kind = node.attr("post_transform", "NONE")
    if kind not in TRANSFORMS:
        raise OnHost(f"scores transformed by {kind}")
    return TRANSFORMS[kind]


def linear(b, x, weights, bias):
    """The scores of a linear model."""
    return b.add(matmul(b, x, b.constant(weights, F32)), b.constant(bias, F32))


@rule("ai.onnx.ml.Scaler")
def scaler(b, node, x):
    x, offset, scale = features(b, x), vector(node, "offset"), vector(node, "scale")
    x = x if offset is None else b.sub(x, b.constant(offset, F32))
    return x if scale is None else b.mul(x, b.constant(scale, F32))


@rule("ai.onnx.ml.Normalizer")
def normalizer(b, node, x):
    x, kind = features(b, x), node.attr("norm", "MAX")
    if kind == "L2":
        size = b.unary(ggml.ggml_sqrt, b.reduce_sum(b.unary(ggml.ggml_sqr, x), [-1], True))
    else:
        sizes = b.unary(ggml.ggml_abs, x)
        size = b.reduce_max(sizes, [-1], True) if kind == "MAX" else b.reduce_sum(sizes, [-1], True)
    zero = b.equal(size, b.full((), 0.0))
    return b.div(x, b.add(size, b.as_float(zero)))


@rule("ai.onnx.ml.Binarizer", on_floats=True)
def binarizer(b, node, x):
    hit = b.less(b.full((), node.attr("threshold", 0.0), x.dtype), x)
    return Tensor(hit.t, x.shape, x.dtype)


@rule("ai.onnx.ml.Imputer", on_floats=True)
def imputer(b, node, x):
    values, missing = vector(node, "imputed_value_floats"), node.attr("replaced_value_float", 0.0)
    if values is None:
        raise OnHost("floats filled with integers")
    x = b.use(x)
    lacking = b.unequal(x, x) if missing != missing else b.equal(x, b.full((), missing))
    return b.select(lacking, b.constant(values, F32), x)


@rule("ai.onnx.ml.LinearRegressor")
def linear_regressor(b, node, x):
    weights, bias = matrix_of(node, node.attr("targets", 1))
    transform = transform_of(node)
    return transform(b, linear(b, features(b, x, len(weights)), weights, bias))


@rule("ai.onnx.ml.LinearClassifier")
def linear_classifier(b, node, x):
    labels, bias = labels_of(node), node.attr("intercepts")
    if labels is None or labels.dtype.kind not in "iu":
        raise OnHost("labels that are no numbers")
    weights, bias = matrix_of(node, len(bias) if bias else len(labels))
    transform, columns = transform_of(node), weights.shape[1]
    if len(labels) != max(columns, 2):
        raise OnHost(f"{columns} scores for {len(labels)} labels")
    scores = linear(b, features(b, x, len(weights)), weights, bias)
    if columns > 1:
        place = place_of_max(b, scores)
    else:
        hit = b.less(b.full((), 0.0), scores)
        place = b.reshape(Tensor(hit.t, hit.shape, labels.dtype, (0, 1)), (x.shape[0],))
        first = b.affine(scores, -1.0, 1.0 if node.attr("post_transform", "NONE") == "NONE" else 0.0)
        scores = b.concat([first, scores], 1)
    known = np.array_equal(labels, np.arange(len(labels)))
    return place if known else b.gather(b.constant(labels), 0, place), transform(b, scores)


def forest_node(ctx, x, size, tasks, forest):
    """The node that trees.pyx computes."""
    operands: Any = [x]
    return ggml.ggml_custom_4d(ctx, ggml.GGML_TYPE_F32, size, 1, 1, 1, operands, 1, trees.RUN, tasks, forest)


def forest_of(b, x, ensemble, width, places=0):
    """The number of rows, and what an ensemble gives for them: `width` numbers for each, then `places` for each."""
    if b.trains or ensemble.columns > trees.LARGEST or not (x.dtype == F32 or is_integer(x.dtype)):
        raise OnHost(f"{ensemble.columns} results of {x.dtype} are computed on the host")
    x = b.reshape(x, (1, count(x.shape))) if len(x.shape) < 2 else x
    if len(x.shape) != 2 or x.shape[1] < ensemble.features:
        raise ValueError(f"{list(x.shape)} for trees of {ensemble.features} features")
    rows = x.shape[0]
    if rows == 0:
        raise OnHost("no rows")
    x = b.contiguous(b.as_float(x))
    size = rows * (width + places)
    tasks = ggml.GGML_N_TASKS_MAX if rows * ensemble.trees * ensemble.depth >= VISITS else 1
    return rows, Tensor(b.call(forest_node, x.t, size, tasks, ensemble.forest), (size,), F32)


@rule("ai.onnx.ml.TreeEnsembleRegressor")
def tree_regressor(b, node, x, ensemble=None):
    transform, ensemble = transform_of(node), ensemble or regression(node)
    rows, y = forest_of(b, x, ensemble, ensemble.columns)
    return transform(b, b.reshape(y, (rows, ensemble.columns)))


@rule("ai.onnx.ml.TreeEnsemble")
def tree_ensemble(b, node, x):
    ensemble, dtype = ensemble_of(node)
    if dtype != F32 or node.attr("post_transform", 0) not in (0, "NONE"):
        raise OnHost("results of another type, or that are transformed")
    return tree_regressor(b, node, x, ensemble)


@rule("ai.onnx.ml.TreeEnsembleClassifier")
def tree_classifier(b, node, x):
    (labels, ensemble, positive), transform = classification(node), transform_of(node)
    if labels.dtype.kind not in "iu":
        raise OnHost("labels that are no numbers")
    width = ensemble.columns if positive is None else 2
    rows, y = forest_of(b, x, ensemble, width, 1)
    scores = b.reshape(b.slice(y, 0, 0, rows * width), (rows, width))
    place = b.slice(y, 0, rows * width, rows)
    place = Tensor(place.t, place.shape, labels.dtype, (0, len(labels) - 1))
    known = np.array_equal(labels, np.arange(len(labels)))
    return place if known else b.gather(b.constant(labels), 0, place), scores if positive else transform(b, scores)
