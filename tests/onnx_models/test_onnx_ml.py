"""ai.onnx.ml: models of scikit-learn answer as scikit-learn does; ensembles of trees in all forms."""

import functools
import re
import threading

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import sklearn_models  # noqa: E402
from ggml.onnx.trees import LARGEST  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from small_onnx import model, one  # noqa: E402

import ggml.onnx  # noqa: E402

one_ml = functools.partial(one, domain="ai.onnx.ml")


@functools.cache
def recorded():
    """Arrays by name, in dicts by model."""
    found: dict = {}
    with np.load(sklearn_models.DATA) as file:
        for key in file.files:
            name, part = key.rsplit("/", 1)
            found.setdefault(name, {})[part] = file[key]
    return found


def check(found, want):
    """Results against those of scikit-learn, whose arrays of one column may lack that axis."""
    assert len(found) >= len(want)
    for a, b in zip(found, want):
        if b.dtype.kind in "OUS":
            assert a.ravel().tolist() == b.ravel().tolist()
        elif a.size == 2 * b.size:  # a decision about two classes, which ONNX gives for both
            np.testing.assert_allclose(np.abs(a), np.stack([np.abs(b)] * 2, 1), rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_allclose(a.reshape(b.shape), b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", recorded())
@pytest.mark.parametrize("rows", [None, 1])
def test_models_of_scikit_learn(name, rows):
    parts = recorded()[name]
    x = parts["x"].astype(object) if parts["x"].dtype.kind == "U" else parts["x"]
    want = [parts[k][:rows] for k in sorted(parts) if k.isdigit()]
    check(ggml.onnx.load(parts["model"].tobytes()).run(x[:rows]), want)


def test_models_of_the_installed_scikit_learn():
    pytest.importorskip("skl2onnx")
    for _, estimator, x, proto in sklearn_models.trained():
        check(ggml.onnx.load(proto).run(x), sklearn_models.expected(estimator, x))


# ---- ensembles of trees ----------------------------------------------------------------------------------------------
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
HOLDS = {"BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater,
         "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal}  # fmt: skip
AGGREGATES = {"SUM": np.sum, "AVERAGE": np.mean, "MIN": np.min, "MAX": np.max}


def random_tree(rng, modes, features, targets, depth):
    """A tree as nested tuples: (mode, feature, split, missing, true, false), or a dict of weights by target."""
    if depth == 0 or rng.random() < 0.15:
        chosen = rng.choice(targets, rng.integers(1, targets + 1), replace=False)
        return {int(t): float(np.float32(rng.normal())) for t in chosen}
    split = float(np.float32(rng.integers(-4, 5) / 2))
    both = [random_tree(rng, modes, features, targets, depth - 1) for _ in range(2)]
    return (str(rng.choice(modes)), int(rng.integers(features)), split, int(rng.integers(2)), *both)


def leaf_of(tree, row):
    """The weights that a row gets from a tree."""
    while isinstance(tree, tuple):
        mode, feature, split, missing, true, false = tree
        x = row[feature]
        tree = true if HOLDS[mode](x, split) or missing and np.isnan(x) else false
    return tree


def answer(trees, x, targets, aggregate):
    """The aggregated weights of all trees; a target that no leaf names gets 0."""
    out = np.zeros((len(x), targets))
    for i, row in enumerate(x):
        leaves = [leaf_of(tree, row) for tree in trees]
        for t in range(targets):
            weights = [leaf[t] for leaf in leaves if t in leaf]
            if aggregate == "AVERAGE":
                out[i, t] = sum(weights) / len(trees)
            elif weights:
                out[i, t] = AGGREGATES[aggregate](weights)
    return out


def described(trees, prefix):
    """The attributes of TreeEnsembleRegressor and TreeEnsembleClassifier."""
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                             "missing_value_tracks_true")}  # fmt: skip
    leaves = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}

    def add(number, tree, count):
        place = next(count)
        row = len(nodes["modes"])
        for key in nodes:
            nodes[key].append(0)
        nodes["treeids"][row], nodes["nodeids"][row] = number, place
        if isinstance(tree, dict):
            nodes["modes"][row] = "LEAF"
            for target, weight in tree.items():
                for key, value in zip(leaves, (number, place, target, weight)):
                    leaves[key].append(value)
            return place
        for key, value in zip(("modes", "featureids", "values", "missing_value_tracks_true"), tree):
            nodes[key][row] = value
        nodes["falsenodeids"][row] = add(number, tree[5], count)
        nodes["truenodeids"][row] = add(number, tree[4], count)
        return place

    for number, tree in enumerate(trees):
        add(10 * number + 3, tree, iter(range(7, 1 << 20, 2)))
    nodes["values"] = [float(v) for v in nodes["values"]]
    return {f"nodes_{k}": v for k, v in nodes.items()} | {f"{prefix}_{k}": v for k, v in leaves.items()}


def values(rng, rows, features):
    """Numbers that often equal splits, and NaN."""
    x = (rng.integers(-5, 6, (rows, features)) / 2).astype(np.float32)
    return np.where(rng.random(x.shape) < 0.1, np.float32(np.nan), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("modes", [MODES[:1], MODES, MODES[:4], *([m] for m in MODES[1:])])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_regression_trees(aggregate, modes, dtype):
    rng = np.random.default_rng(len(modes))
    trees = [random_tree(rng, modes, 4, 3, 5) for _ in range(6)]
    x = values(rng, 150, 4)
    x = np.nan_to_num(x).astype(dtype) if dtype == np.int64 else x.astype(dtype)
    base = [0.5, -1.0, 0.25]
    found = one_ml("TreeEnsembleRegressor", x, n_targets=3, aggregate_function=aggregate, base_values=base,
                   **described(trees, "target"))  # fmt: skip
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, answer(trees, x, 3, aggregate) + base, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("missing", [0, 1])
def test_splits_at_the_ends(mode, missing, dtype):
    """Comparisons with infinite splits, NaN, zeros and the smallest numbers, as NumPy makes them."""
    numbers = [np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, -0.5, np.float32(1e-45), np.finfo(np.float32).max]
    numbers += [np.nextafter(np.float32(0.5), np.float32(1)), np.nextafter(np.float32(0.5), np.float32(0))]
    x = np.array(numbers, dtype)[:, None]
    for split in numbers:
        trees = [(mode, 0, split, missing, {0: 1.0}, {0: 2.0})]
        for rows in (x, np.tile(x, (9, 1)), x[2:3], x[5:6]):
            found = one_ml("TreeEnsembleRegressor", rows, n_targets=1, **described(trees, "target"))
            np.testing.assert_array_equal(found, answer(trees, rows, 1, "SUM"), str(split))


@pytest.mark.parametrize("missing", [(0, 0, 0), (0, 1, 0), (1, 1, 1)])
@pytest.mark.parametrize("rows", [1, 9, 300])
def test_nodes_that_share_a_child(rows, missing):
    """LightGBM's converter makes a node for each value of a set; they share the child for those in the set."""
    rng = np.random.default_rng(rows)
    x = np.where(rng.random((rows, 2)) < 0.1, np.nan, rng.integers(0, 6, (rows, 2))).astype(np.float32)
    attrs = described([("BRANCH_LEQ", 1, 2.0, 0, {0: 1.0}, {0: 2.0})], "target")
    ids = [101, 103, 105]  # which ask whether feature 0 is 4, 1 or 3; node 7 and node 13, a leaf, follow
    nodes = {
        "treeids": [3] * 4,
        "nodeids": [*ids, 13],
        "featureids": [0] * 4,
        "values": [4.0, 1.0, 3.0, 0.0],
        "modes": ["BRANCH_EQ"] * 3 + ["LEAF"],
        "truenodeids": [7, 7, 7, 0],
        "falsenodeids": [103, 105, 13, 0],
        "missing_value_tracks_true": [*missing, 0],
    }
    for key, more in nodes.items():
        attrs[f"nodes_{key}"] = [*attrs[f"nodes_{key}"], *more]
    for key, value in {"treeids": 3, "nodeids": 13, "ids": 0, "weights": 5.0}.items():
        attrs[f"target_{key}"] = [*attrs[f"target_{key}"], value]
    found = one_ml("TreeEnsembleRegressor", x, n_targets=1, **attrs)
    inside = np.isin(x[:, 0], [1, 3, 4]) | (np.isnan(x[:, 0]) if any(missing) else False)
    np.testing.assert_array_equal(found[:, 0], np.where(inside, np.where(x[:, 1] <= 2, 1, 2), 5))
    attrs["nodes_falsenodeids"][3 + 2] = 103  # the chain leads back
    with pytest.raises(ValueError, match="the nodes are no trees|targets|name nodes"):
        one_ml("TreeEnsembleRegressor", x, n_targets=1, **attrs)


def test_one_weight_of_a_leaf_counts():
    """skl2onnx writes which leaf a row ends in as a regression whose weights it repeats for each class."""
    attrs = {
        "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3, "nodes_values": [0.0] * 3,
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0] * 6, "target_nodeids": [1, 1, 1, 2, 2, 2], "target_weights": [1.0] * 3 + [2.0] * 3,
    }  # fmt: skip
    x = np.float32([[-1], [1]])
    found = one_ml("TreeEnsembleRegressor", x, n_targets=1, target_ids=[0] * 6, **attrs)
    np.testing.assert_array_equal(found, [[1], [2]])
    found = one_ml("TreeEnsembleRegressor", x, n_targets=2, target_ids=[0, 0, 1] * 2, **attrs)  # others are sums
    np.testing.assert_array_equal(found, [[2, 1], [4, 2]])


def test_many_rows_are_shared_among_threads(monkeypatch):
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, MODES, 4, 1, 6) for _ in range(40)]
    x, columns = values(rng, 20000, 4).astype(np.float64), LARGEST + 1  # which no graph computes
    attrs, started = described(trees, "target"), []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread), start(thread)))
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=columns, **attrs)
    proto = model([node], {"x": x}, domains=[("ai.onnx.ml", 3)])
    want = answer(trees, x[::500], columns, "SUM")
    for threads in (1, 2, 3):
        started.clear()
        (found,) = ggml.onnx.load(proto, threads=threads).run(x)
        np.testing.assert_allclose(found[::500], want, rtol=1e-4, atol=1e-5)
        assert len(started) == threads - 1


def forest(rng, op, columns, features=4, trees=7, **attrs):
    """A node of trees and the answer to rows of features."""
    found = [random_tree(rng, MODES[:1], features, columns, 6) for _ in range(trees)]
    prefix = "target" if op == "TreeEnsembleRegressor" else "class"
    node = helper.make_node(op, ["x"], ["y", "z"][: 1 + (prefix == "class")], domain="ai.onnx.ml",
                            **described(found, prefix), **attrs)  # fmt: skip
    return node, found


@pytest.mark.parametrize("rows", [1, 3, 64, 65, 2000])
@pytest.mark.parametrize("threads", [1, 2])
def test_trees_are_a_node_of_the_graph(rows, threads):
    rng = np.random.default_rng(rows)
    x = values(rng, rows, 4)
    for columns in (1, 3):
        node, trees = forest(rng, "TreeEnsembleRegressor", columns, n_targets=columns, base_values=[0.5] * columns)
        loaded = ggml.onnx.load(model([node], {"x": x}, domains=[("ai.onnx.ml", 3)]), threads=threads, strict=True)
        assert {e.where for e in loaded.report(x)} == {"graph"}
        want = answer(trees, x, columns, "SUM") + 0.5
        for _ in range(3):
            np.testing.assert_allclose(loaded.run(x)[0], want, rtol=1e-5, atol=1e-6)
    node, trees = forest(rng, "TreeEnsembleClassifier", 3, classlabels_int64s=[5, -1, 2], post_transform="SOFTMAX")
    loaded = ggml.onnx.load(model([node], {"x": x}, ["y", "z"], domains=[("ai.onnx.ml", 3)]), threads=threads)
    labels, scores = loaded.run(x)
    want = answer(trees, x, 3, "SUM")
    assert labels.dtype == np.int64 and labels.tolist() == [[5, -1, 2][k] for k in want.argmax(1)]
    np.testing.assert_allclose(scores, transformed("SOFTMAX", want), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("used", [False, True])
def test_labels_that_are_texts_are_looked_up_last(used):
    rng = np.random.default_rng(5)
    names = ["red", "green", "blue"]
    node, trees = forest(rng, "TreeEnsembleClassifier", 3, classlabels_strings=names)
    nodes = [node, helper.make_node("Identity", ["y"], ["label"]), helper.make_node("Neg", ["z"], ["minus"])]
    if used:  # in between
        nodes.insert(1, helper.make_node("LabelEncoder", ["y"], ["code"], domain="ai.onnx.ml", keys_strings=names,
                                         values_int64s=[7, 8, 9]))  # fmt: skip
    x = values(rng, 20, 4)
    outputs = ["label", "y", "minus", *(["code"] if used else [])]
    loaded = ggml.onnx.load(model(nodes, {"x": x}, outputs, domains=[("ai.onnx.ml", 3)]))
    want = answer(trees, x, 3, "SUM")
    for _ in range(3):
        label, same, minus, *code = loaded.run(x)
        assert label.tolist() == same.tolist() == [names[k] for k in want.argmax(1)]
        np.testing.assert_allclose(minus, -want, rtol=1e-5, atol=1e-6)
        assert not used or code[0].tolist() == (want.argmax(1) + 7).tolist()
    host = [e.op for e in loaded.report(x) if e.where == "host"]
    assert host == (["ggml.Labels", "ggml.Labels"] if not used else ["ggml.Labels", "ai.onnx.ml.LabelEncoder"])


def test_trees_of_other_numbers_of_rows():
    """A graph that was recorded is built again, on one thread or several."""
    rng = np.random.default_rng(1)
    node, trees = forest(rng, "TreeEnsembleClassifier", 2, trees=40, classlabels_int64s=[0, 1])
    x = values(rng, 3000, 4)
    loaded = ggml.onnx.load(model([node], {"x": []}, ["y", "z"], domains=[("ai.onnx.ml", 3)]), threads=2)
    want = answer(trees, x, 2, "SUM")
    for rows in (2, 5, 9, 3000, 1, 70, 700):
        labels, scores = loaded.run(x[:rows])
        np.testing.assert_array_equal(labels, want[:rows].argmax(1))
        np.testing.assert_allclose(scores, want[:rows], rtol=1e-5, atol=1e-6)
    for none in loaded.run(x[:0]):
        assert len(none) == 0
    assert [len(v) for v in loaded.run(x[0])] == [1, 1]


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("classes", [2, 3])
def test_classification_trees(classes, transform):
    rng = np.random.default_rng(classes)
    trees = [random_tree(rng, MODES, 4, classes, 4) for _ in range(5)]
    x, names = values(rng, 50, 4), ["red", "green", "blue"][:classes]
    labels, scores = one_ml("TreeEnsembleClassifier", x, outputs=2, classlabels_strings=names, post_transform=transform,
                            **described(trees, "class"))  # fmt: skip
    want = answer(trees, x, classes, "SUM")
    assert labels.tolist() == [names[k] for k in want.argmax(1)]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(scores, transformed(transform, want), rtol=2e-3, atol=1e-5)


def transformed(kind, s):
    """The functions as the specification of ai.onnx.ml and its reference write them."""
    e = np.exp(s - s.max(1, keepdims=True))
    if kind == "SOFTMAX":
        return e / e.sum(1, keepdims=True)
    if kind == "SOFTMAX_ZERO":
        e = np.where(np.abs(s) > 1e-7, e, s * np.exp(-s.max(1, keepdims=True)))
        return np.divide(e, e.sum(1, keepdims=True), out=e, where=e.sum(1, keepdims=True) != 0)
    if kind == "LOGISTIC":
        return 1 / (1 + np.exp(-s))
    if kind == "PROBIT":  # quantiles of the normal distribution
        from statistics import NormalDist

        inside = (s > 0) & (s < 1)
        exact = np.array([NormalDist().inv_cdf(v) if ok else np.nan for v, ok in zip(s.ravel(), inside.ravel())])
        return exact.reshape(s.shape)
    return s


@pytest.mark.parametrize("positive", [False, True])
def test_two_classes_from_one_weight(positive):
    rng = np.random.default_rng(3)
    trees = [random_tree(rng, MODES, 3, 1, 4) for _ in range(4)]
    if positive:
        trees = [absolute(tree, 0.2) for tree in trees]
    x = values(rng, 60, 3)
    labels, scores = one_ml("TreeEnsembleClassifier", x, outputs=2, classlabels_int64s=[4, 9],
                            **described(trees, "class"))  # fmt: skip
    s = answer(trees, x, 1, "SUM")
    np.testing.assert_array_equal(labels, np.where(s[:, 0] > (0.5 if positive else 0), 9, 4))
    np.testing.assert_allclose(scores, np.hstack([1 - s if positive else -s, s]), rtol=1e-5, atol=1e-6)


def absolute(tree, factor):
    if isinstance(tree, dict):
        return {t: float(np.float32(abs(w) * factor)) for t, w in tree.items()}
    return (*tree[:4], absolute(tree[4], factor), absolute(tree[5], factor))


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_ensembles_of_version_5(aggregate, dtype):
    rng = np.random.default_rng(7)
    trees = [random_tree(rng, MODES, 4, 2, 4) for _ in range(5)]
    trees = [(MODES[0], 0, 0.5, 0, first_only(t), first_only(t)) for t in trees]  # a root is no leaf
    nodes, leaves, roots = [], [], []

    def add(tree):
        if isinstance(tree, dict):
            leaves.append(next(iter(tree.items())))
            return len(leaves) - 1, 1
        place = len(nodes)
        nodes.append(None)
        true, false = add(tree[4]), add(tree[5])
        nodes[place] = (*tree[:4], *true, *false)
        return place, 0

    for tree in trees:
        roots.append(add(tree)[0])
    modes, features, splits, missing, true, true_leaf, false, false_leaf = map(list, zip(*nodes))
    x = values(rng, 80, 4).astype(dtype)
    found = one_ml(
        "TreeEnsemble",
        x,
        version=5,
        n_targets=2,
        aggregate_function=["AVERAGE", "SUM", "MIN", "MAX"].index(aggregate),
        nodes_modes=numpy_helper.from_array(np.array([MODES.index(m) for m in modes], np.uint8)),
        nodes_featureids=features,
        nodes_splits=numpy_helper.from_array(np.array(splits, dtype)),
        nodes_missing_value_tracks_true=missing,
        nodes_truenodeids=true,
        nodes_trueleafs=true_leaf,
        nodes_falsenodeids=false,
        nodes_falseleafs=false_leaf,
        tree_roots=roots,
        leaf_targetids=[t for t, _ in leaves],
        leaf_weights=numpy_helper.from_array(np.array([w for _, w in leaves], dtype)),
    )
    assert found.dtype == dtype
    tolerance = 2e-3 if dtype == np.float16 else 1e-5
    np.testing.assert_allclose(found, answer(trees, x, 2, aggregate), rtol=tolerance, atol=tolerance)


def first_only(tree):
    """The tree with one target for each leaf, as version 5 has them."""
    if isinstance(tree, dict):
        return dict([next(iter(tree.items()))])
    return (*tree[:4], first_only(tree[4]), first_only(tree[5]))


def test_broken_trees():
    tree = ("BRANCH_LEQ", 0, 0.0, 0, {0: 1.0}, {0: 2.0})
    good = described([tree], "target")
    x = np.zeros((2, 1), np.float32)
    np.testing.assert_array_equal(one_ml("TreeEnsembleRegressor", x, n_targets=1, **good), [[1], [1]])
    for words, change in {
        "a child is none of the nodes": {"nodes_truenodeids": [99, 0, 0]},
        "the nodes are no trees": {"nodes_truenodeids": [7, 0, 0]},
        "differ in their lengths": {"nodes_values": [0.0]},
        "targets are from 5 to 5": {"target_ids": [5, 5]},
        "name nodes that there are not": {"target_nodeids": [1, 1]},
        "model of 4 features": {"nodes_featureids": [3, 0, 0]},
        "features are from -2": {"nodes_featureids": [-2, 0, 0]},
        "one number": {"nodes_nodeids": [7, 9, 9]},
        "2 base_values for 1": {"base_values": [1.0, 2.0]},
    }.items():
        with pytest.raises(ValueError, match=words):
            one_ml("TreeEnsembleRegressor", x, n_targets=1, **{**good, **change})


# ---- other operators -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("change, function", [("LOWER", str.lower), ("UPPER", str.upper), ("NONE", str)])
def test_texts_in_one_case(change, function):
    """Empty texts stay, unless they are stop words."""
    texts = ["The cat", "", "ÄRGER", "on", "ON", "straße"]
    wanted = [function(t) for t in texts]
    for shape in ((6,), (1, 6), (3, 2)):
        found = one("StringNormalizer", np.array(texts, object).reshape(shape), case_change_action=change)
        assert found.dtype == object and found.shape == shape and found.ravel().tolist() == wanted
    stops = {"stopwords": ["On", ""], "case_change_action": change}
    for sensitive, left in ((0, [0, 2, 5]), (1, [0, 2, 3, 4, 5])):
        for shape in ((6,), (1, 6)):
            x = np.array(texts, object).reshape(shape)
            found = one("StringNormalizer", x, is_case_sensitive=sensitive, **stops)
            assert found.shape == (*shape[:-1], len(left)) and found.ravel().tolist() == [wanted[k] for k in left]
    found = one("StringNormalizer", np.array(["ON", "on"], object), is_case_sensitive=0, **stops)
    assert found.tolist() == [""]
    with pytest.raises(RuntimeError, match="the texts are .3, 2.: without stop words they can be"):
        one("StringNormalizer", np.array(texts, object).reshape(3, 2), is_case_sensitive=0, **stops)
    assert one("StringNormalizer", np.array([], object), case_change_action=change).shape == (0,)


def test_characters_are_tokens():
    attrs = {"tokenexp": ".", "mark": 0, "mincharnum": 1, "pad_value": ""}
    x = np.array(["ab", "ä\nc.", ""], object)
    found = one("Tokenizer", x, domain="com.microsoft", version=1, **attrs)
    assert found.tolist() == [["a", "b", ""], ["ä", "c", "."], [""] * 3]


def test_labels_and_categories():
    words = np.array([["b", "x"], ["a", "b"]], object)
    found = one_ml("LabelEncoder", words, keys_strings=["a", "b"], values_floats=[0.5, 1.5], default_float=-2.0)
    np.testing.assert_array_equal(found, np.array([[1.5, -2], [0.5, 1.5]], np.float32))
    numbers = np.array([3, 1, np.nan, 7], np.float32)
    names = ["one", "none", "three"]
    found = one_ml("LabelEncoder", numbers, keys_floats=[1.0, float("nan"), 3.0], values_strings=names)
    assert found.tolist() == ["three", "one", "none", "_Unused"]
    tensors = {"keys_tensor": np.array([1, 5], np.int16), "values_tensor": np.array([10, 50], np.int32),
               "default_tensor": np.array([42], np.int32)}  # fmt: skip
    found = one_ml("LabelEncoder", np.array([5, 2, 1], np.int16), version=4,
                   **{k: numpy_helper.from_array(v) for k, v in tensors.items()})  # fmt: skip
    assert found.tolist() == [50, 42, 10] and found.dtype == np.int32
    assert one_ml("LabelEncoder", words, version=1, classes_strings=["a", "b"]).tolist() == [[1, -1], [0, 1]]
    cats = {"cats_strings": ["a", "b"], "cats_int64s": [4, 8], "default_int64": 0}
    assert one_ml("CategoryMapper", words, **cats).tolist() == [[8, 0], [4, 8]]
    assert one_ml("CategoryMapper", np.array([8, 5]), **cats).tolist() == ["b", "_Unused"]
    found = one_ml("OneHotEncoder", np.array([[2.0], [7.0]], np.float32), cats_int64s=[1, 2])
    np.testing.assert_array_equal(found, [[[0, 1]], [[0, 0]]])
    with pytest.raises(RuntimeError, match=r"'x' is none of the categories"):
        one_ml("OneHotEncoder", words, cats_strings=["a", "b"], zeros=0)


def test_columns():
    x = np.array([[1, -4, 0], [2, 2, np.nan]], np.float32)
    np.testing.assert_array_equal(one_ml("Binarizer", x, threshold=1.0), [[0, 0, 0], [1, 1, 0]])
    np.testing.assert_array_equal(one_ml("Scaler", x, offset=[1.0, 0.0, 0.0], scale=[2.0]), (x - [1, 0, 0]) * 2)
    found = one_ml("Imputer", x, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"))
    np.testing.assert_array_equal(found, [[1, -4, 0], [2, 2, 9]])
    found = one_ml("Imputer", np.array([[3, -1], [-1, 4]]), imputed_value_int64s=[5], replaced_value_int64=-1)
    np.testing.assert_array_equal(found, [[3, 5], [5, 4]])
    found = one_ml("FeatureVectorizer", x, np.array([[6], [7]]), inputdimensions=[2, 2])
    np.testing.assert_array_equal(found, [[1, -4, 6, 0], [2, 2, 7, 0]])
    np.testing.assert_array_equal(one_ml("ArrayFeatureExtractor", x, np.array([2, 0])), x[:, [2, 0]])
    np.testing.assert_array_equal(one_ml("ArrayFeatureExtractor", x[0], np.array([[1]])), [[-4]])


@pytest.mark.parametrize("labels", [[0, 1, 2], [[0, 1, 2]], [2, 1, 0], [0, 1, 2, 3], [[0, 1, 2], [3, 4, 5]]])
def test_labels_by_their_places(labels):
    """As exporters of classifiers write them: labels that count are the places themselves."""
    labels, x = np.array(labels), np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    nodes = [helper.make_node("ArgMax", ["x"], ["place"], axis=1, keepdims=0),
             helper.make_node("ArrayFeatureExtractor", ["labels", "place"], ["y"], domain="ai.onnx.ml")]  # fmt: skip
    proto = model(nodes, {"x": x}, constants={"labels": labels}, domains=[("ai.onnx.ml", 3)])
    (found,) = ggml.onnx.load(proto, strict=True).run(x)
    want = np.atleast_2d(labels[..., x.argmax(1)])
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


def test_maps():
    x = np.array([[0.5, 1.5], [2.5, 3.5]], np.float32)
    assert one_ml("ZipMap", x, classlabels_strings=["a", "b"]) == [{"a": 0.5, "b": 1.5}, {"a": 2.5, "b": 3.5}]
    zipped = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_strings=["a", "b"])
    found = both(zipped, x, "DictVectorizer", string_vocabulary=["b", "c", "a"])
    np.testing.assert_array_equal(found, [[1.5, 0, 0.5], [3.5, 0, 2.5]])
    zipped = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[3, 1])
    np.testing.assert_array_equal(both(zipped, x, "CastMap", cast_to="TO_INT64"), [[1, 0], [3, 2]])
    found = both(zipped, x, "CastMap", cast_to="TO_FLOAT", map_form="SPARSE", max_map=5)
    np.testing.assert_array_equal(found, [[0, 1.5, 0, 0.5, 0], [0, 3.5, 0, 2.5, 0]])


def both(first, x, op, **attrs):
    """The result of an operator of what a first node makes of x."""
    from small_onnx import run

    second = helper.make_node(op, ["z"], ["y"], domain="ai.onnx.ml", **attrs)
    return run([first, second], {"x": x}, domains=[("ai.onnx.ml", 3)])[0]


def test_linear_models():
    x, w = np.array([[1, 2], [-3, 0.5]], np.float32), np.array([[0.5, -1], [2, 0.25], [1, 1]], np.float32)
    bias = np.array([0.1, -0.2, 0.3], np.float32)
    scores = x @ w.T + bias
    flat = {"coefficients": w.ravel().tolist(), "intercepts": bias.tolist()}
    np.testing.assert_allclose(one_ml("LinearRegressor", x, targets=3, **flat), scores, rtol=1e-6)
    for transform in ("NONE", "SOFTMAX", "LOGISTIC"):
        attrs = {"classlabels_ints": [5, 6, 7], "post_transform": transform}
        labels, found = one_ml("LinearClassifier", x, outputs=2, **attrs, **flat)
        np.testing.assert_array_equal(labels, scores.argmax(1) + 5)
        np.testing.assert_allclose(found, transformed(transform, scores), rtol=1e-5)
    single = {"coefficients": w[0].tolist(), "intercepts": [0.1], "classlabels_strings": ["no", "yes"]}
    labels, found = one_ml("LinearClassifier", x, outputs=2, post_transform="LOGISTIC", **single)
    s = x @ w[0] + np.float32(0.1)
    assert labels.tolist() == np.where(s > 0, "yes", "no").tolist()
    np.testing.assert_allclose(found, 1 / (1 + np.exp(np.stack([s, -s], 1))), rtol=1e-5)


def test_counts_of_n_grams():
    x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])
    attrs = {"pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7], "ngram_counts": [0, 4], "min_gram_length": 1,
             "max_gram_length": 2, "ngram_indexes": list(range(7)), "mode": "TF"}  # fmt: skip
    for skips in (0, 1, 5):
        want = np.zeros((2, 7), np.float32)
        for row, words in enumerate(x.tolist()):
            for column, gram in enumerate([[2], [3], [5], [4], [5, 6], [7, 8], [6, 7]]):
                for gap in range(1, skips + 2 if len(gram) > 1 else 2):
                    starts = range(len(words) - gap * (len(gram) - 1))
                    want[row, column] += sum(words[i::gap][: len(gram)] == gram for i in starts)
        np.testing.assert_array_equal(one("TfIdfVectorizer", x, max_skip_count=skips, **attrs), want)
        weights = (np.arange(7) / 2).tolist()
        for mode, counts in (("IDF", np.minimum(want, 1)), ("TFIDF", want)):
            found = one("TfIdfVectorizer", x, max_skip_count=skips, **{**attrs, "mode": mode}, weights=weights)
            np.testing.assert_array_equal(found, counts * weights)


def test_tokens():
    x = np.array([["a bc  def"], ["gh"]], object)
    tokens = functools.partial(one, "Tokenizer", domain="com.microsoft", version=1, pad_value="#", mincharnum=1)
    assert tokens(x, separators=[" "], mark=0).tolist() == [[["a", "bc", "def"]], [["gh", "#", "#"]]]
    assert tokens(x[1], separators=[""], mark=1).tolist() == [["\x02", "g", "h", "\x03"]]
    found = tokens(x, tokenexp="[a-z]+", mark=0, mincharnum=2)
    assert found.tolist() == [[["bc", "def"]], [["gh", "#"]]]


def test_expressions_of_tokens_take_linear_time():
    """Those that Python's `re` could take exponential or square time for are left to RE2, or refused."""
    from ggml.onnx.arrays import text

    for simple in ("[a-z]+", r"\w+", "[a-zA-Z0-9_]+", r"[^ \]]+", r"x\d[ab]+"):
        assert text.SIMPLE.fullmatch(simple), simple
    for other in ("(a+)+b", "a+b", "a+a+", "a*", "a|b", r"(?u)\b\w\w+\b", "[[:alpha:]]+", ".+", "a+?", ""):
        assert not text.SIMPLE.fullmatch(other), other
    found = text.expression("[a-z]+").findall("ab" * 100_000 + " c\u00e9")
    assert [len(token) for token in found] == [200_000, 1]


# ---- in the graph and on the host ------------------------------------------------------------------------------------
def ml_node(op, outputs=1, **attrs):
    return helper.make_node(op, ["x"], ["y", "z"][:outputs], "n", domain="ai.onnx.ml", **attrs)


def linear_node(op, columns, labels=3, **attrs):
    rng = np.random.default_rng(columns)
    weights = {"coefficients": rng.normal(size=4 * columns), "intercepts": rng.normal(size=columns)}
    if op == "LinearClassifier":
        weights["classlabels_ints"] = [7, 3, 5][:labels]
    return ml_node(op, 1 + (op == "LinearClassifier"), **weights, **attrs)


IN_GRAPH = [
    *(linear_node("LinearClassifier", 3, post_transform=t) for t in ("NONE", "SOFTMAX", "LOGISTIC")),
    *(linear_node("LinearClassifier", 1, 2, post_transform=t) for t in ("NONE", "LOGISTIC", "SOFTMAX")),
    linear_node("LinearRegressor", 2, targets=2),
    linear_node("LinearRegressor", 1),
    *(ml_node("Normalizer", norm=n) for n in ("L1", "L2", "MAX")),
    ml_node("Scaler", offset=[1.0, 2, 0, -1], scale=[0.5, 3, 1, 2]),
    ml_node("Scaler", offset=[1.0], scale=[0.5]),
    ml_node("Binarizer", threshold=0.25),
]


@pytest.mark.parametrize("values", [{"values_floats": [1.5, -2.0, 7.0]}, {"values_int64s": [10, -20, 30]}])
def test_labels_of_integers_in_the_graph(values):
    node = ml_node("LabelEncoder", keys_int64s=[5, -1, 8], default_float=0.25, default_int64=77, **values)
    x = np.array([[5, 8, -1, 0], [-1, 9, -3, 1 << 20]])
    loaded = ggml.onnx.load(model([node], {"x": x}, domains=[("ai.onnx.ml", 2)]), strict=True)
    (found,) = loaded.run(x)
    numbers = next(iter(values.values()))
    table = dict(zip([5, -1, 8], numbers))
    default = 0.25 if "values_floats" in values else 77
    np.testing.assert_array_equal(found, [[table.get(int(v), default) for v in row] for row in x])
    assert found.dtype == (np.float32 if "values_floats" in values else np.int64)


def test_imputed_in_the_graph():
    x = np.array([[0, 1, np.nan], [2, 0, np.inf]], np.float32)
    for missing in (0.0, float("nan")):
        node = ml_node("Imputer", imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=missing)
        loaded = ggml.onnx.load(model([node], {"x": x}, domains=[("ai.onnx.ml", 3)]), strict=True)
        lacking = np.isnan(x) if missing != missing else x == missing
        np.testing.assert_array_equal(loaded.run(x)[0], np.where(lacking, [7, 8, 9], x))


@pytest.mark.parametrize("node", IN_GRAPH, ids=lambda n: f"{n.op_type} {n.attribute[-1].name}")
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
def test_the_graph_computes_what_the_host_does(node, dtype):
    """Floats run in the graph, float64 on the host; both find the same."""
    x = (np.random.default_rng(0).normal(size=(9, 4)) * 3).astype(dtype)
    x[2] = 0
    if node.op_type == "Binarizer" and dtype == np.int32:
        pytest.skip("operands of Binarizer are floats here")
    protos = (model([node], {"x": v}, node.output, domains=[("ai.onnx.ml", 3)]) for v in (x, x.astype(np.float64)))
    found, want = map(ggml.onnx.load, protos)
    assert {e.where for e in found.report(x)} == {"host" if dtype == np.float64 else "graph"}
    for a, b in zip(found.run(x), want.run(x.astype(np.float64))):
        assert a.shape == b.shape and (node.op_type == "Binarizer" or a.dtype == b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# ---- columns, categories, maps and texts -----------------------------------------------------------------------------
@pytest.mark.parametrize("rows", [1, 2, 255, 3000])
@pytest.mark.parametrize("widths", [(1, 2, 3), (5,) * 9, (3,) * 11, (16, 1, 17, 20, 4), (1,) * 25, (600, 7, 300)])
def test_joined_columns(rows, widths):
    rng = np.random.default_rng(rows)
    parts = {f"x{i}": rng.normal(size=(rows, w)).astype(np.float32) for i, w in enumerate(widths)}
    node = helper.make_node("Concat", [*parts], ["y"], axis=1)
    for threads in (1, 2):
        loaded = ggml.onnx.load(model([node], parts), threads=threads, strict=True)
        np.testing.assert_array_equal(loaded.run(parts)[0], np.concatenate([*parts.values()], 1))


@pytest.mark.parametrize("k, n", [(20, 3), (31, 7), (5, 16), (8, 30)])
@pytest.mark.parametrize("rows", [256, 1003])
def test_products_of_short_rows(rows, k, n):
    rng = np.random.default_rng(n)
    x, w, c = (rng.normal(size=s).astype(np.float32) for s in ((rows, k), (k, n), (n,)))
    node = helper.make_node("Gemm", ["x", "w", "c"], ["y"])
    (y,) = ggml.onnx.load(model([node], {"x": x}, constants={"w": w, "c": c}), threads=2).run(x)
    np.testing.assert_allclose(y, x @ w.astype(np.float64) + c, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("keys", [[3, 4, 5], [5, 3, 4], [0, 7, -2], [1, 1, 2], [1 << 40, 5]])
@pytest.mark.parametrize("rows", [1, 500])
def test_one_hot_rows(keys, rows):
    rng = np.random.default_rng(rows)
    x = rng.choice(keys, (rows, 2))
    last = {key: i for i, key in enumerate(keys)}
    want = np.eye(len(keys), dtype=np.float32)[[[last[int(v)] for v in row] for row in x]]
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", cats_int64s=keys, zeros=0)
    loaded = ggml.onnx.load(model([node], {"x": x}, domains=[("ai.onnx.ml", 3)]))
    for _ in range(2):
        np.testing.assert_array_equal(loaded.run(x)[0], want)
    for unknown in (min(keys) - 1, max(keys) + 1, 6):
        other = x.copy()
        other[-1, 1] = unknown
        with pytest.raises(RuntimeError):
            loaded.run(other)
        zeros = want.copy()
        zeros[-1, 1] = 0
        np.testing.assert_array_equal(one_ml("OneHotEncoder", other, cats_int64s=keys, zeros=1), zeros)
    assert {e.where for e in loaded.report(x)} == {"host" if max(keys) > 1 << 30 else "graph"}


@pytest.mark.parametrize("zeros", [0, 1])
def test_one_hot_rows_of_texts(zeros):
    x = np.array([["red", "blue"], ["green", "red"]], object)
    names = ["blue", "green", "red"]
    found = one_ml("OneHotEncoder", x, cats_strings=names, zeros=zeros)
    np.testing.assert_array_equal(found, np.eye(3, dtype=np.float32)[[[2, 0], [1, 2]]])
    x[1, 0] = "pink"
    if not zeros:
        with pytest.raises(RuntimeError, match="'pink' is none of the categories"):
            one_ml("OneHotEncoder", x, cats_strings=names, zeros=zeros)
    else:
        found = one_ml("OneHotEncoder", x, cats_strings=names, zeros=zeros)
        np.testing.assert_array_equal(found[1], [[0, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("labels", [{"classlabels_int64s": [7, 5]}, {"classlabels_strings": ["no", "yes"]}])
def test_maps_of_rows(labels, dtype):
    x = np.arange(6).reshape(3, 2).astype(dtype)
    names = [*labels.values()][0]
    want = [dict(zip(names, row)) for row in x.tolist()]
    assert one_ml("ZipMap", x, **labels) == want
    found = one_ml("ZipMap", x[0], **labels)
    assert found == want[:1] and {type(v) for v in found[0].values()} == {float if dtype == np.float32 else int}


@pytest.mark.parametrize("expression", ["[a-zA-Z0-9_]+", r"\w+", "[^ ]+", r"[\w']+", "[a-c]"])
@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("mark", [0, 1])
def test_tokens_of_one_class(expression, least, mark):
    """Characters of ASCII are looked up; the expression finds the parts of texts with others."""
    texts = ["", "one two", " it's  a_b cab ", "naïve café on", "ünï", "x", "日本 go", "tab\tnew\nline\x7f\x00end"]
    found = one("Tokenizer", np.array(texts, object), domain="com.microsoft", version=1, tokenexp=expression,
                mincharnum=least, mark=mark, pad_value="#")  # fmt: skip
    want = [[t for t in re.findall(expression, text, re.ASCII) if len(t) >= least] for text in texts]
    want = [["\x02", *row, "\x03"] for row in want] if mark else want
    assert [[t for t in row if t != "#"] for row in found.tolist()] == want
    assert found.shape == (len(texts), max(map(len, want)))


def test_sequences_and_maps_are_repeated():
    """Runs of several plans, of maps and of lists of arrays: results are the caller's."""
    rng = np.random.default_rng(0)
    names = ["no", "yes", "maybe"]
    node, trees = forest(rng, "TreeEnsembleClassifier", 3, classlabels_strings=names)
    nodes = [
        node,
        helper.make_node("ZipMap", ["z"], ["maps"], domain="ai.onnx.ml", classlabels_strings=names),
        helper.make_node("SequenceConstruct", ["z", "x"], ["both"]),
    ]
    x = values(rng, 3, 4)
    loaded = ggml.onnx.load(model(nodes, {"x": x}, ["y", "maps", "both", "z"], domains=[("ai.onnx.ml", 3)]), threads=1)
    for seed in range(4):
        x = values(np.random.default_rng(seed), 3, 4)
        before = x.copy()
        labels, maps, both, z = loaded.run(x)
        np.testing.assert_allclose(z, answer(trees, before, 3, "SUM"), rtol=1e-5, atol=1e-6)
        assert labels.tolist() == [names[k] for k in z.argmax(1)]
        assert maps == [dict(zip(names, row)) for row in z.tolist()]
        np.testing.assert_array_equal(both[0], z)
        np.testing.assert_array_equal(both[1], before)
        both[1][...] = both[0][...] = 0
        np.testing.assert_array_equal(x, before)
    loaded.run(x)
    assert loaded.repeat((x,)) is not None
