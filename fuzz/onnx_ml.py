"""Random operators of the domain ai.onnx.ml, and of texts, for onnx_operators.py."""

import math
from typing import Any

import numpy as np
from onnx_cases import Case, Constant, Input, sample
from onnx_peer import SIZES

DOMAIN = "ai.onnx.ml"
POST = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
COMPARISONS = [f"BRANCH_{c}" for c in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")]
WORDS = ["a", "b", "cat", "Dog", "ü", "", "a b", "dog"]


def machine_learning(*ops):
    """Decorator: like `sample`, for operators of ai.onnx.ml."""

    def register(function):
        def case(dice, op):
            made = function(dice, op.rpartition(".")[2])
            made.domain, made.opset, made.version = DOMAIN, 17, made.version if made.version > 1 else 3
            return made

        sample(*(f"{DOMAIN}.{op}" for op in ops))(case)
        return function

    return register


def rows(dice, columns, special=0.1):
    """A table of a type."""
    shape = (dice.choice([1, 2, 7, 33, 0 if dice.chance(0.1) else 5]), columns)
    return dice.array(shape, dice.choice([np.float32] * 4 + [np.float64, np.int64, np.int32]), special=special)


def numbers(dice, count, low=-1.0, high=1.0):
    return [float(v) for v in dice.array(count, low=low, high=high)]


@machine_learning("Scaler", "Normalizer", "Binarizer", "Imputer")
def columnwise(dice, op):
    columns = dice.choice(SIZES[:16])
    x = rows(dice, columns, 0)
    few = columns if dice.chance(0.7) else 1
    if op == "Scaler":
        return Case([x], {"offset": numbers(dice, few), "scale": numbers(dice, few)})
    if op == "Normalizer":
        return Case([x], {"norm": dice.choice(["MAX", "L1", "L2"])})
    if op == "Binarizer":
        return Case([x.astype(np.float32)], {"threshold": dice.choice([0.0, 0.5, -1.0])})
    if x.dtype.kind == "i":
        x = x.astype(np.int64)
        return Case([x], {"imputed_value_int64s": [7] * few, "replaced_value_int64": 3})
    missing = dice.choice([math.nan, 0.5])
    x = np.where(dice.numpy.random(x.shape) < 0.3, missing, x).astype(np.float32)
    return Case([x], {"imputed_value_floats": numbers(dice, few), "replaced_value_float": missing})


@machine_learning("ArrayFeatureExtractor")
def features(dice, op):
    columns = dice.choice(SIZES[:14])
    x = rows(dice, columns)
    index = dice.array(dice.choice([(1,), (3,), (1, 2)]), np.int64, 0, columns - 1)
    return Case([x, dice.choice([Constant, Input])(index)], {})


@machine_learning("LinearRegressor", "LinearClassifier")
def linear(dice, op):
    columns, targets = dice.choice(SIZES[:16]), dice.choice([1, 2, 3, 5])
    attributes: dict[str, Any] = {"post_transform": dice.choice(POST[:4] if targets > 1 else ["NONE", "LOGISTIC"])}
    attributes["coefficients"] = numbers(dice, columns * targets)
    if op == "LinearRegressor":
        attributes["targets"] = targets
        if dice.chance(0.7):
            attributes["intercepts"] = numbers(dice, targets)
        attributes["post_transform"] = "NONE"
        return Case([rows(dice, columns, 0).astype(np.float32)], attributes)
    attributes["intercepts"] = numbers(dice, targets)
    attributes.update(labels_of(dice, max(targets, 2)))
    attributes["multi_class"] = int(targets > 1)
    return Case([rows(dice, columns, 0).astype(np.float32)], attributes, outputs=2)


def labels_of(dice, count):
    """Attributes with the labels of classes."""
    if dice.chance(0.5):
        return {"classlabels_ints": [3 * i - 2 for i in range(count)]}
    return {"classlabels_strings": [f"c{i}" for i in range(count)]}


@machine_learning("OneHotEncoder")
def one_hot(dice, op):
    if dice.chance(0.5):
        x = dice.array(dice.shape(1, 3), dice.choice([np.int64, np.float32, np.int32]), 0, 5)
        return Case([np.round(x).astype(x.dtype)], {"cats_int64s": [0, 2, 3, 5, 1], "zeros": 1})
    return Case([texts(dice, dice.shape(1, 2))], {"cats_strings": WORDS[:5], "zeros": 1})


def texts(dice, shape):
    """An array of words."""
    found = np.empty(shape, object)
    for place in np.ndindex(*found.shape):
        found[place] = dice.choice(WORDS)
    return found


@machine_learning("LabelEncoder")
def labels(dice, op):
    keys = {"int64s": [0, 1, 3, 7], "strings": WORDS[:4], "floats": [0.0, 1.0, 2.5, math.nan]}
    values = {"int64s": [5, 6, 7, 8], "strings": ["x", "y", "z", "w"], "floats": [0.5, 1.5, 2.5, 3.5]}
    source, target = dice.choice(list(keys)), dice.choice(list(values))
    defaults = {"int64s": ("default_int64", -9), "strings": ("default_string", "?"), "floats": ("default_float", -0.5)}
    attributes = {f"keys_{source}": keys[source], f"values_{target}": values[target]}
    if dice.chance(0.6):
        name, value = defaults[target]
        attributes[name] = value
    shape = dice.shape(1, 2)
    if source == "strings":
        return Case([texts(dice, shape)], attributes, version=4)
    x = np.array([dice.choice(keys[source] + [9]) for _ in range(math.prod(shape))]).reshape(shape)
    return Case([x.astype(np.int64 if source == "int64s" else np.float32)], attributes, version=4)


def tree(dice, number, columns, comparisons, depth):
    """The nodes of a random tree: dicts; those of children follow their parent."""
    nodes: list[dict] = []

    def grow(left):
        place = len(nodes)
        node = {
            "treeids": number,
            "nodeids": place,
            "truenodeids": 0,
            "falsenodeids": 0,
            "modes": "LEAF",
            "values": 0.0,
        }
        node.update(featureids=0, missing_value_tracks_true=dice.randint(0, 1))
        nodes.append(node)
        if left and dice.chance(0.9):
            node.update(modes=dice.choice(comparisons), featureids=dice.randrange(columns))
            node["values"] = dice.choice([0.0, 0.5, 1.0, -1.0, dice.uniform(-2, 2)])
            node["truenodeids"] = grow(left - 1)
            node["falsenodeids"] = grow(left - 1)
        return place

    grow(depth)
    return nodes


@machine_learning("TreeEnsembleRegressor", "TreeEnsembleClassifier")
def trees(dice, op):
    columns, count, depth = dice.choice([1, 3, 8, 17]), dice.choice([1, 2, 5, 20]), dice.choice([0, 1, 3, 6])
    comparisons = COMPARISONS if dice.chance(0.3) else [dice.choice(COMPARISONS)]
    nodes = [n for i in range(count) for n in tree(dice, i, columns, comparisons, depth)]
    attributes: dict[str, Any] = {f"nodes_{k}": [n[k] for n in nodes] for k in nodes[0]}
    if dice.chance(0.5):
        del attributes["nodes_missing_value_tracks_true"]
    regressor = op.endswith("Regressor")
    targets = dice.choice([1, 1, 2, 3, 5])
    kind = "target" if regressor else "class"
    weights: dict[str, list] = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for node in nodes:
        if node["modes"] == "LEAF":
            for target in range(targets):
                values = (node["treeids"], node["nodeids"], target, dice.uniform(-1, 1))
                for key, value in zip(weights, values):
                    weights[key].append(value)
    attributes.update({f"{kind}_{k}": v for k, v in weights.items()})
    if not weights["ids"]:
        return trees(dice, op)
    x = rows(dice, columns, 0.2)
    if dice.chance(0.5) and x.dtype.kind == "f":
        x = np.round(x).astype(x.dtype)
    base = dice.chance(0.4)
    if base:
        attributes["base_values"] = numbers(dice, targets)
    if regressor:
        attributes.update(n_targets=targets, aggregate_function=dice.choice(["SUM", "SUM", "AVERAGE", "MIN", "MAX"]))
        return Case([x], attributes)
    attributes.update(labels_of(dice, max(targets, 2)))
    attributes["post_transform"] = dice.choice(POST[:4] if targets > 1 else ["NONE", "LOGISTIC"])
    return Case([x], attributes, outputs=2)


@machine_learning("SVMRegressor", "SVMClassifier")
def machines(dice, op):
    columns, kernel = dice.choice([1, 3, 8, 17]), dice.choice(["LINEAR", "POLY", "RBF", "SIGMOID"])
    attributes: dict[str, Any] = {"kernel_type": kernel, "kernel_params": [0.3, 0.2, 2.0]}
    x = rows(dice, columns, 0).astype(np.float32)
    if op == "SVMRegressor":
        count = dice.choice([1, 4, 9])
        attributes.update(support_vectors=numbers(dice, count * columns), coefficients=numbers(dice, count))
        attributes.update(rho=numbers(dice, 1), n_supports=count)
        return Case([x], attributes)
    classes = dice.choice([2, 3, 4])
    supports = [dice.randint(1, 4) for _ in range(classes)]
    total, pairs = sum(supports), classes * (classes - 1) // 2
    attributes.update(vectors_per_class=supports, support_vectors=numbers(dice, total * columns))
    attributes.update(coefficients=numbers(dice, total * (classes - 1)), rho=numbers(dice, pairs))
    attributes.update(labels_of(dice, classes))
    if dice.chance(0.4):
        attributes.update(prob_a=numbers(dice, pairs), prob_b=numbers(dice, pairs))
    return Case([x], attributes, outputs=2)


# Texts


@sample("StringNormalizer", "StringConcat", "StringSplit")
def strings(dice, op):
    if op == "StringNormalizer":
        attributes: dict[str, Any] = {"case_change_action": dice.choice(["NONE", "LOWER", "UPPER"])}
        attributes.update(is_case_sensitive=dice.randint(0, 1), stopwords=dice.some(WORDS[:5], 0))
        attributes = {k: v for k, v in attributes.items() if v != []}
        return Case([texts(dice, dice.choice([(4,), (1, 4), (1,)]))], attributes, 10)
    shape = dice.shape(0, 3, zero=0)
    shape = shape if math.prod(shape) < 200 else (3,)
    if op == "StringConcat":
        return Case([texts(dice, shape), texts(dice, dice.broadcast(shape))], {}, 20)
    attributes = {k: v for k, v in (("delimiter", dice.choice([" ", "a", ""])), ("maxsplit", 1)) if dice.chance(0.5)}
    return Case([texts(dice, shape)], attributes, 20, 2)


@sample("TfIdfVectorizer")
def grams(dice, op):
    pool = [2, 3, 5, 4, 2, 3, 5, 5, 2, 3, 4]  # three words, then four pairs
    longest = dice.choice([1, 2])
    attributes: dict[str, Any] = {"min_gram_length": dice.randint(1, longest), "max_gram_length": longest}
    attributes.update(max_skip_count=dice.randint(0, 2), mode=dice.choice(["TF", "IDF", "TFIDF"]))
    attributes.update(pool_int64s=pool, ngram_counts=[0, 3], ngram_indexes=dice.some(range(7), 7))
    if dice.chance(0.5):
        attributes["weights"] = numbers(dice, 7)
    shape = dice.choice([(9,), (3, 12), (1, 4)])
    return Case([dice.array(shape, dice.choice([np.int64, np.int32]), 1, 6)], attributes, 9)
