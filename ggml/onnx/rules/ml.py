"""Linear models and trees of ai.onnx.ml, and what stands before them, in the graph; arrays/ has the others."""

import numpy as np

from .. import machines, trees
from ..arrays import svm
from ..arrays.columns import vector
from ..arrays.ensemble import classification, ensemble_of, regression
from ..arrays.labels import encoding, labels_of
from ..arrays.linear import matrix_of
from ..recording import ggml
from ..reducing import MAGNITUDES_OF, SQUARES
from ..values import F32, F64, I64, OnHost, Tensor, count, is_float, is_integer
from . import rule
from .doubles import used
from .elementwise import convert
from .index import place_of_max
from .matmul import is_thin, matmul, thin
from .norm import softmax_of

WORK = 1 << 16  # multiplications that are worth several threads
TABLE = 1 << 16  # most entries of a table of labels
VISITS = 1 << 14  # of nodes of trees that are worth several threads
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
    return b.as_float(x)


def transform_of(node):
    """How a model transforms its scores."""
    kind = node.attr("post_transform", "NONE")
    if kind not in TRANSFORMS:
        raise OnHost(f"scores transformed by {kind}")
    return TRANSFORMS[kind]


def linear(b, x, weights, bias):
    """The scores of a linear model."""
    weights, bias = b.constant(weights, F32), b.constant(np.broadcast_to(bias, weights.shape[1]), F32)
    return thin(b, x, weights, bias) if is_thin(b, x, weights) else b.add(matmul(b, x, weights), bias)


@rule("ai.onnx.ml.Scaler")
def scaler(b, node, x):
    x, offset, scale = features(b, x), vector(node, "offset"), vector(node, "scale")
    x = x if offset is None else b.sub(x, b.constant(offset, F32))
    return x if scale is None else b.mul(x, b.constant(scale, F32))


@rule("ai.onnx.ml.Normalizer")
def normalizer(b, node, x):
    x, kind = features(b, x), node.attr("norm", "MAX")
    if kind != "MAX" and len(x.shape) == 2 and b.is_short(x, [1]):
        size = b.for_each_row(x, SQUARES if kind == "L2" else MAGNITUDES_OF)[0]
    else:
        sizes = b.unary(ggml.ggml_sqr if kind == "L2" else ggml.ggml_abs, x)
        size = b.reduce_max(sizes, [-1], True) if kind == "MAX" else b.reduce_sum(sizes, [-1], True)
    size = b.unary(ggml.ggml_sqrt, size) if kind == "L2" else size
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


@rule("ai.onnx.ml.LabelEncoder")
def label_encoder(b, node, x):
    """Integers of a small interval, which a table holds."""
    if node.version < 2 or not is_integer(x.dtype):
        raise OnHost(f"labels of {x.dtype} are looked up on the host")
    keys, values, default = encoding(node)
    if keys.dtype.kind != "i" or values.dtype.kind not in "if" or not 0 < len(keys) or np.ptp(keys) > TABLE:
        raise OnHost("keys or values that are no numbers, or far apart")
    return looked_up(b, x, keys, values, default)


def looked_up(b, x, keys, values, default):
    """The entries of `values` (numbers, or rows of them) whose keys are the integers x, of equal keys the last's."""
    least, size = int(keys.min()), int(np.ptp(keys)) + 3
    table = np.full((size, *values.shape[1:]), default, values.dtype)
    table[keys - least + 1] = values
    place = b.sub(b.clamp(x, least - 1, least + size - 2), b.constant(least - 1, x.dtype))
    return b.gather(b.constant(table), 0, place)


@rule("ai.onnx.ml.OneHotEncoder")
def one_hot_encoder(b, node, x):
    """Integers of a small interval.

    Where zeros do not stand for what is no category, it is a row that the table does not have: the engine refuses it.
    """
    keys = np.asarray(node.attr("cats_int64s") or [], np.int64)
    if node.attr("cats_strings") or not len(keys) or np.ptp(keys) > TABLE:
        raise OnHost("categories that are no numbers, or far apart")
    rows, least, n = np.eye(len(keys), dtype=np.float32), int(keys.min()), len(keys)
    x = convert(b, x, I64)
    if node.attr("zeros", 1):
        return looked_up(b, x, keys, rows, 0)
    if np.ptp(keys) + 1 == n == len(np.unique(keys)):
        return b.gather(b.constant(rows[np.argsort(keys)]), 0, b.sub(x, b.constant(least, I64)))
    return b.gather(b.constant(rows), 0, looked_up(b, x, keys, np.arange(n), n))


@rule("ai.onnx.ml.LinearRegressor")
def linear_regressor(b, node, x):
    weights, bias = matrix_of(node, node.attr("targets", 1))
    transform = transform_of(node)
    return transform(b, linear(b, features(b, x, len(weights)), weights, bias))


@rule("ai.onnx.ml.LinearClassifier")
def linear_classifier(b, node, x):
    labels, bias = numbered(labels_of(node)), node.attr("intercepts")
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
    return labelled(b, place, labels), transform(b, scores)


def rows_through(b, x, model, function, width, places, shared):
    """What compiled code gives for rows of features.

    Args:
        model: Forest or Machine; function: that of its module.
        width: numbers for each row; behind those of all rows are as many places for each, 0 or 1.
        shared: the number of rows from which threads share them.
    Returns:
        The numbers (rows, width), and the places.
    """
    rows = x.shape[0]
    if b.trains or rows == 0:
        raise OnHost("gradients, or no rows")
    size = rows * (width + places)
    operand = used(b, x) if x.dtype == F64 else b.contiguous(b.as_float(x)).t
    t = b.compiled(size, 1, function, rows >= shared, operand, data=model)
    y = Tensor(t, (size,), F32)
    found = b.reshape(b.slice(y, 0, 0, rows * width), (rows, width))
    return found, b.slice(y, 0, rows * width, rows) if places else None


def rows_of(b, x, least, most=None):
    """The rows of an operand, whose features are numbers from `least` to `most`."""
    if not (x.dtype in (F32, F64) or is_integer(x.dtype)):
        raise OnHost(f"{x.dtype} is computed on the host")
    x = b.reshape(x, (1, count(x.shape))) if len(x.shape) < 2 else x
    if len(x.shape) != 2 or x.shape[1] < max(least, 1) or most is not None and x.shape[1] > most:
        raise ValueError(f"{list(x.shape)} for a model of {least} features")
    return x


def labelled(b, place, labels):
    """The labels of classes, by a Tensor of their numbers."""
    place = Tensor(place.t, place.shape, labels.dtype, (0, len(labels) - 1))
    return place if np.array_equal(labels, np.arange(len(labels))) else b.gather(b.constant(labels), 0, place)


def numbered(labels):
    """Labels that are numbers, or that there are none."""
    if labels is None or labels.dtype.kind not in "iu":
        raise OnHost("labels that are no numbers")
    return labels


def forest_of(b, x, ensemble, width, places=0):
    """What an ensemble gives: see rows_through."""
    if ensemble.columns > trees.LARGEST:
        raise OnHost(f"{ensemble.columns} results are computed on the host")
    shared = -(-VISITS // (ensemble.trees * ensemble.depth))
    x = rows_of(b, x, ensemble.features)
    return rows_through(b, x, ensemble.forest, trees.RUN, width, places, shared)


@rule("ai.onnx.ml.TreeEnsembleRegressor")
def tree_regressor(b, node, x):
    transform, ensemble = transform_of(node), regression(node)
    return transform(b, forest_of(b, x, ensemble, ensemble.columns)[0])


@rule("ai.onnx.ml.TreeEnsemble")
def tree_ensemble(b, node, x):
    ensemble, dtype = ensemble_of(node)
    if dtype != F32 or node.attr("post_transform", 0) not in (0, "NONE"):
        raise OnHost("results of another type, or that are transformed")
    return forest_of(b, x, ensemble, ensemble.columns)[0]


@rule("ai.onnx.ml.TreeEnsembleClassifier")
def tree_classifier(b, node, x):
    (labels, ensemble, positive), transform = classification(node), transform_of(node)
    labels = numbered(labels)
    scores, place = forest_of(b, x, ensemble, ensemble.columns if positive is None else 2, 1)
    return labelled(b, place, labels), scores if positive else transform(b, scores)


def machine_of(b, x, machine):
    """What support vector machines give: see rows_through."""
    if not machine.in_graph:
        raise OnHost("too many classes or features")
    x = rows_of(b, x, machine.features, machine.features)
    places = int(machine.classes > 0)
    return rows_through(b, x, machine, machines.RUN, machine.width, places, -(-WORK // machine.work))


@rule("ai.onnx.ml.SVMRegressor")
def svm_regressor(b, node, x):
    transform = transform_of(node) if not node.attr("one_class", 0) else TRANSFORMS["NONE"]
    return transform(b, machine_of(b, x, svm.regression(node))[0])


@rule("ai.onnx.ml.SVMClassifier")
def svm_classifier(b, node, x):
    (labels, machine, likely), transform = svm.classification(node), transform_of(node)
    if likely is None:
        raise OnHost("classes without support vectors")
    labels = numbered(labels)
    scores, place = machine_of(b, x, machine)
    return labelled(b, place, labels), scores if likely else transform(b, scores)
