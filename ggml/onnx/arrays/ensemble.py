"""Ensembles of decision trees, in both forms that ai.onnx.ml has: nodes in attributes, and TreeEnsemble."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from ..trees import FILLED, MASKED, TOPS, Forest
from . import THREADS, available, kept, operator
from .columns import vector
from .labels import chosen, labels_of
from .linear import transform_of

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER"]
AGGREGATES = ["AVERAGE", "SUM", "MIN", "MAX"]  # numbered as by TreeEnsemble
NODE = np.dtype([("split", np.float64), ("feature", np.int32), ("left", np.int32)], align=True)
FLOATS = np.dtype(np.float32), np.dtype(np.float64)
START = 0.0, np.inf, -np.inf  # of sums, of what is least, and largest
STEPS = 1 << 18  # visits of nodes that are worth a thread
FORMS = {None: 0, True: 1, False: 2}  # of results in a graph, by what `classification` says of two classes


@dataclass
class Trees:
    """Nodes of all trees in any order, with what leaves give.

    Args:
        splits, features, modes, missing: one entry per node.
        children: (nodes, 2): the nodes where the comparison holds and where it does not; -1 for leaves.
        roots: a node for each tree.
        leaf: for each node its number as a leaf.
        sets: a list of the members of the set of each node, or None if no node has one.
        first, targets, weights: where the entries of each leaf begin, and the end; their columns and weights.
        columns: number of columns of the result.
        aggregate: one of AGGREGATES.
    """

    splits: np.ndarray
    features: np.ndarray
    modes: np.ndarray
    missing: np.ndarray
    children: np.ndarray
    roots: np.ndarray
    leaf: np.ndarray
    sets: list | None
    first: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    columns: int
    aggregate: str


class Ensemble:
    """Trees whose nodes are in the order that ggml.onnx.trees needs."""

    def __init__(self, t):
        require_fitting(t)
        compare_alike(t)
        use_masks(t)
        count, self.trees = len(t.splits), len(t.roots)
        order, lefts, level, begin, self.depth = [t.roots], [], np.asarray(t.roots), 0, 1
        while True:
            inner = t.children[level, 0] >= 0
            begin += len(level)
            left = np.where(inner, begin + 2 * (np.cumsum(inner) - 1), -1)
            lefts.append(left)
            level = t.children[level[inner]].reshape(-1)
            if not len(level):
                break
            if begin + len(level) > 2 * count + 1:
                raise ValueError("the nodes are no trees: one is its own child, or that of several")
            order.append(level)
            self.depth += 1
        place, left = np.concatenate(order), np.concatenate(lefts)
        self.nodes = np.zeros(len(place), NODE)
        inner = left >= 0
        self.nodes["split"] = t.splits[place]
        self.nodes["feature"] = np.where(inner, t.features[place], -1)
        self.nodes["left"] = np.where(inner, left, t.leaf[place])
        self.features = int(self.nodes["feature"].max()) + 1
        modes, missing = np.where(inner, t.modes[place], 0).astype(np.uint8), t.missing[place].astype(np.uint8)
        if not modes.any():
            modes, missing = np.empty(0, np.uint8), missing if missing[inner].any() else np.empty(0, np.uint8)
        sets = [t.sets[i] for i in place] if t.sets else []
        ends = np.cumsum([0, *map(len, sets)] if sets else [0] * (len(place) + 1)).astype(np.int32)
        members = np.concatenate([np.empty(0), *sets]) if sets else np.empty(0)
        self.columns, self.kind, self.base = t.columns, max(AGGREGATES.index(t.aggregate) - 1, 0), None
        self.shares = max(self.trees, 1) if t.aggregate == "AVERAGE" else 1
        kept = np.ones(len(t.weights), bool) if self.kind else t.weights != 0
        first = np.concatenate([[0], np.cumsum(kept)])[t.first].astype(np.int64)
        targets, weights = t.targets[kept].astype(np.int64), t.weights[kept].astype(np.float64)
        parts = self.nodes, self.trees, modes, missing, ends, members, first, targets, weights
        self.forest = Forest(*parts, self.kind)
        dense = None
        if not self.kind and self.columns <= FILLED:
            dense = np.zeros((len(first) - 1, self.columns))
            np.add.at(dense, (np.repeat(np.arange(len(dense)), np.diff(first)), targets), weights)
        tops = (None,) * 4
        if not len(modes) or np.isin(modes, [0, MASKED]).all():
            ways = (missing != 0) + 2 * (modes == MASKED) if len(modes) else missing != 0
            tops = complete(self.nodes, ways.astype(np.uint8), self.trees)
        self.forest.hasten(*tops, dense)

    def scores(self, x):
        """The aggregated weights (rows, columns) in float64 for rows x of features."""
        if x.ndim < 2:
            x = np.atleast_2d(x)
        if x.dtype not in FLOATS or not x.flags.c_contiguous:
            x = np.ascontiguousarray(x, x.dtype if x.dtype in FLOATS else np.float32)
        if x.ndim != 2 or x.shape[1] < max(self.features, 1):
            raise ValueError(f"{list(x.shape)} for trees of {self.features} features")
        out = np.full((len(x), self.columns), START[self.kind]) if self.kind else np.zeros((len(x), self.columns))
        steps = len(x) * self.trees * self.depth
        if steps >= 2 * STEPS:
            share(len(x), steps, lambda begin, end: self.forest.add(x, begin, end, out))
        elif steps:
            self.forest.add(x, 0, len(x), out)
        if self.shares > 1:
            out /= self.shares
        out = np.where(np.isinf(out), 0, out) if self.kind else out
        return out if self.base is None else out + self.base

    def add_to_scores(self, base):
        """Adds numbers to all scores: one, or one for each column; None for nothing."""
        if base is not None and base.any():
            self.base = np.broadcast_to(base.astype(np.float64), self.columns).copy()

    def settle(self, classes=0, form=0):
        """Says what a node of a graph gives; see Forest.give."""
        self.forest.give(self.features, self.columns, 1 / self.shares, classes, form, self.base)
        return self


def compare_alike(t):
    """Makes nodes of Trees that compare by <, >= and > ask whether a feature is at most a split.

    The next smaller split stands for <; >= and > ask the opposite, and the children change places. NaN is at most no
    split, and is missing where it has to choose the first child.
    """
    less, opposite = t.modes == MODES.index("BRANCH_LT"), t.modes == MODES.index("BRANCH_GT")
    both = t.modes == MODES.index("BRANCH_GTE")
    if not (less | opposite | both).any():
        return
    below, opposite = less | both, opposite | both
    splits = t.splits.astype(np.float64)
    splits[below] = np.where(np.isneginf(splits[below]), np.nan, np.nextafter(splits[below], -np.inf))
    splits[opposite & np.isnan(t.splits)] = np.inf
    t.splits, t.modes = splits, np.where(below | opposite, 0, t.modes)
    t.children = np.where(opposite[:, None], t.children[:, ::-1], t.children)
    t.missing = np.where(opposite, t.missing == 0, t.missing).astype(np.uint8)


def use_masks(t):
    """Lets nodes of Trees that ask for one value, or for a set, look for bits, where all values are integers below 64.

    The mask stands in place of the split.
    """
    equal, member = (t.modes == MODES.index(name) for name in ("BRANCH_EQ", "BRANCH_MEMBER"))
    if not (equal | member).any():
        return
    t.splits, t.modes = t.splits.astype(np.float64), t.modes.copy()
    for place in np.flatnonzero(equal | member):
        values = t.sets[place] if member[place] else t.splits[place : place + 1]
        if all(v in range(64) for v in values.tolist()):
            t.splits[place] = np.uint64(sum(1 << int(v) for v in {*values.tolist()})).view(np.float64)
            t.modes[place] = MASKED


def complete(nodes, ways, trees):
    """The first levels of trees as Forest.hasten takes them, as far as at least half of the nodes of each exist."""
    tops, taken, exits, levels = [], [], [], np.zeros(trees, np.int32)
    for tree in range(trees):
        level, found = np.array([tree]), []
        while levels[tree] < TOPS and 2 * (nodes["feature"][level] >= 0).sum() >= len(level):
            top, leaf = nodes[level], nodes["feature"][level] < 0
            top["feature"] = np.maximum(top["feature"], 0)
            found.append(top)
            taken.append(ways[level] if len(ways) else ways)
            left = np.where(leaf, level, nodes["left"][level])
            level = np.stack([left, np.where(leaf, level, left + 1)], 1).reshape(-1)
            levels[tree] += 1
        tops += found
        exits.append(level)
    if not tops:
        return (None,) * 4
    return np.concatenate(tops), np.concatenate(taken), np.concatenate(exits).astype(np.int32), levels


def share(rows, steps, function):
    """Calls function(begin, end) for parts of the rows, in as many threads as the steps are worth."""
    count = min(steps // STEPS, rows)
    if count > 1:
        count = min(count, available(THREADS.get()))
    if count < 2:
        function(0, rows)
        return
    ends = [rows * i // count for i in range(count + 1)]
    others = [threading.Thread(target=function, args=part) for part in zip(ends[1:], ends[2:])]
    for thread in others:
        thread.start()
    function(ends[0], ends[1])
    for thread in others:
        thread.join()


def require_fitting(t):
    """Raises ValueError for numbers of nodes, leaves, columns and features that do not exist."""
    count, leaves = len(t.splits), len(t.first) - 1
    inner = t.children[:, 0] >= 0
    checks = [
        ("features", t.features[inner], 0, 1 << 30),
        ("children", t.children[inner], 0, count - 1),
        ("roots", t.roots, 0, count - 1),
        ("leaves", t.leaf[~inner], 0, leaves - 1),
        ("targets", t.targets, 0, t.columns - 1),
        ("modes", t.modes[inner], 0, len(MODES) - 1),
    ]
    for what, array, lo, hi in checks:
        if len(array) and (array.min() < lo or array.max() > hi):
            raise ValueError(f"{what} are from {array.min()} to {array.max()}: need {lo} to {hi}")
    if len(t.targets) != len(t.weights) or not 0 < t.columns < 1 << 24:
        raise ValueError(f"{len(t.targets)} targets, {len(t.weights)} weights and {t.columns} columns")


# ---- nodes in attributes ---------------------------------------------------------------------------------------------
def described(node, prefix, columns, aggregate):
    """The Trees of an operator whose leaves have attributes that begin with a prefix."""
    tree, ids = (vector(node, f"nodes_{n}") for n in ("treeids", "nodeids"))
    splits = vector(node, "nodes_values_as_tensor", "nodes_values")
    parts = [vector(node, f"nodes_{n}") for n in ("truenodeids", "falsenodeids", "featureids")]
    modes = np.array([MODES.index(m) if m != "LEAF" else -1 for m in node.attr("nodes_modes") or []], np.int64)
    count = len(modes)
    if any(v is None or len(v) != count for v in (tree, ids, splits, *parts)) or not count:
        raise ValueError("the attributes of nodes differ in their lengths")
    missing = vector(node, "nodes_missing_value_tracks_true")
    missing = np.zeros(count, np.uint8) if missing is None or len(missing) != count else missing
    find, leaf = Finder(tree, ids), modes < 0
    children = np.stack([find(tree, v) for v in parts[:2]], 1)
    children[leaf] = -1
    if (children[~leaf] < 0).any():
        raise ValueError("a child is none of the nodes of its tree")
    child = np.zeros(count, bool)
    child[children[~leaf].ravel()] = True
    alone = np.flatnonzero(~child)
    roots = alone[np.sort(np.unique(tree[alone], return_index=True)[1])]
    entries = [vector(node, f"{prefix}_{n}") for n in ("treeids", "nodeids", "ids")]
    weights = vector(node, f"{prefix}_weights_as_tensor", f"{prefix}_weights")
    if any(v is None for v in (*entries, weights)):
        raise ValueError(f"need {prefix}_treeids, {prefix}_nodeids, {prefix}_ids and {prefix}_weights")
    place = find(entries[0], entries[1])
    if not len(place) == len(entries[2]) == len(weights) or (place < 0).any():
        raise ValueError(f"{prefix}_nodeids and {prefix}_treeids name nodes that there are not")
    order = np.argsort(place, kind="stable")
    if columns == 1:  # skl2onnx repeats the weight of a leaf for each class: only one counts
        order = order[np.unique(place[order], return_index=True)[1]]
    first = np.searchsorted(place[order], np.arange(count + 1))
    return Trees(
        splits,
        parts[2],
        modes,
        missing,
        children,
        roots,
        np.arange(count),
        None,
        first,
        entries[2][order],
        weights[order],
        columns,
        aggregate,
    )


class Finder:
    """Finds nodes by the numbers of their trees and their own."""

    def __init__(self, tree, ids):
        self.order = np.lexsort((ids, tree))
        self.known, self.ids = np.unique(tree), np.unique(ids)
        self.keys = self.key(tree, ids)[self.order]
        if (np.diff(self.keys) == 0).any():
            raise ValueError("two nodes of a tree have one number")

    def key(self, tree, ids):
        """A number for each node, in the order of trees and nodes; -1 for those that cannot be."""
        t, i = (np.minimum(np.searchsorted(k, v), len(k) - 1) for k, v in ((self.known, tree), (self.ids, ids)))
        there = (self.known[t] == tree) & (self.ids[i] == ids)
        return np.where(there, t * len(self.ids) + i, -1)

    def __call__(self, tree, ids):
        """The places of nodes, -1 for those that are not there."""
        keys = self.key(tree, ids)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.order[at], -1)


def join_chains(t):
    """Lets one node ask for a set instead of nodes that follow each other, ask for one value each, and share a child.

    That is what LightGBM's converter makes of categories. Returns the number of nodes that are left out.
    """
    member, (first, second), one = MODES.index("BRANCH_MEMBER"), t.children.T, t.modes == MODES.index("BRANCH_EQ")
    after = np.where(one, second, 0)
    alike = one & one[after] & (t.features[after] == t.features) & (first[after] == first)
    left, t.missing = 0, t.missing.copy()
    for head in np.setdiff1d(np.flatnonzero(alike), second[alike]):
        places = [head]
        while alike[places[-1]] and len(places) <= len(alike):  # a cycle is found later
            places.append(second[places[-1]])
        t.sets = t.sets or [np.empty(0)] * len(alike)
        t.sets[head] = t.splits[places].astype(np.float64)
        t.modes[head], t.missing[head] = member, t.missing[places].any()
        t.children[head, 1] = second[places[-1]]
        left += len(places) - 1
    return left


def whole(t):
    """The Ensemble of Trees whose roots reach every node once."""
    left = join_chains(t)
    ensemble = Ensemble(t)
    if len(ensemble.nodes) != len(t.splits) - left:
        raise ValueError("the nodes are no trees: one is its own child, or that of several")
    return ensemble


def base_of(node, columns):
    """What is added to the scores, one number or one for each column; None for nothing."""
    base = vector(node, "base_values_as_tensor", "base_values")
    if base is not None and len(base) not in (1, columns):
        raise ValueError(f"{len(base)} base_values for {columns} columns")
    return base


@kept
def regression(node):
    """The Ensemble of a TreeEnsembleRegressor."""
    columns = node.attr("n_targets", 1)
    ensemble = whole(described(node, "target", columns, node.attr("aggregate_function", "SUM")))
    ensemble.add_to_scores(base_of(node, columns))
    return ensemble.settle()


@operator("TreeEnsembleRegressor")
def regressor(node):
    ensemble, transform = regression(node), transform_of(node)
    return lambda x: transform(ensemble.scores(x)).astype(np.float32)


@kept
def classification(node):
    """The labels and the Ensemble of a TreeEnsembleClassifier, and how two classes have one score.

    None: each class has its score; True: it is the probability of the second; False: its sign decides.
    """
    labels = labels_of(node)
    if labels is None:
        raise ValueError("need classlabels_int64s or classlabels_strings")
    classes, ids = len(labels), vector(node, "class_ids")
    weights = vector(node, "class_weights_as_tensor", "class_weights")
    one = classes <= 2 and ids is not None and len(np.unique(ids)) == 1  # the weights are those of the second class
    found = described(node, "class", classes, "SUM")
    if one:
        found.targets, found.columns = np.zeros_like(found.targets), 1
    ensemble, base = whole(found), base_of(node, classes)
    ensemble.add_to_scores(base if base is None or not one else base[-1:])
    positive = bool((weights >= 0).all()) if one else None
    return labels, ensemble.settle(classes, FORMS[positive]), positive


@operator("TreeEnsembleClassifier")
def classifier(node):
    (labels, ensemble, positive), transform = classification(node), transform_of(node)

    def function(x):
        scores = ensemble.scores(x)
        if positive is None:
            return chosen(labels, scores.argmax(1)), transform(scores).astype(np.float32)
        place = (scores[:, 0] > (0.5 if positive else 0)).astype(np.int64)
        if positive:
            scores = np.hstack([1 - scores, scores])
        else:
            scores = transform(np.hstack([-scores, scores]))
        return chosen(labels, np.minimum(place, len(labels) - 1)), scores.astype(np.float32)

    return function


# ---- TreeEnsemble ----------------------------------------------------------------------------------------------------
@kept
def ensemble_of(node):
    """The Ensemble of a TreeEnsemble, and the type of its results."""
    splits, modes, leaf_weights = (vector(node, n) for n in ("nodes_splits", "nodes_modes", "leaf_weights"))
    names = "truenodeids", "falsenodeids", "trueleafs", "falseleafs", "featureids"
    parts = [vector(node, f"nodes_{n}") for n in names]
    targets, roots = vector(node, "leaf_targetids"), vector(node, "tree_roots")
    count, leaves = len(splits), len(leaf_weights)
    if any(len(v) != count for v in (modes, *parts)) or len(targets) != leaves:
        raise ValueError("the attributes of nodes or those of leaves differ in their lengths")
    missing = vector(node, "nodes_missing_value_tracks_true")
    missing = np.zeros(count, np.uint8) if missing is None else missing
    children = np.stack(parts[:2], 1)
    leaf = np.stack(parts[2:4], 1).astype(bool)
    most = np.where(leaf, leaves, count)
    if (children < 0).any() or (children >= most).any() or len(missing) != count:
        raise ValueError("a child is none of the nodes or leaves")
    children = np.where(leaf, children + count, children)
    sets = None
    if (modes == MODES.index("BRANCH_MEMBER")).any():
        sets = sets_of(modes, vector(node, "membership_values")) + [np.empty(0)] * leaves

    def concatenated(array, fill):  # the leaves are nodes behind the others
        return np.concatenate([array, np.full(leaves, fill, array.dtype)])

    children = np.concatenate([children, np.full((leaves, 2), -1)])
    aggregate = AGGREGATES[node.attr("aggregate_function", 1)]
    columns = node.attr("n_targets", 1)
    number = np.concatenate([np.zeros(count, np.int64), np.arange(leaves)])
    ensemble = Ensemble(
        Trees(
            concatenated(splits, 0),
            concatenated(parts[4], -1),
            concatenated(modes, 0),
            concatenated(missing, 0),
            children,
            roots,
            number,
            sets,
            np.arange(leaves + 1),
            targets,
            leaf_weights,
            columns,
            aggregate,
        )
    )
    return ensemble.settle(), splits.dtype


@operator("TreeEnsemble")
def tree_ensemble(node):
    (ensemble, dtype), transform = ensemble_of(node), transform_of(node)
    return lambda x: transform(ensemble.scores(x)).astype(dtype)


def sets_of(modes, members):
    """The members of the set of each node: those of nodes that have one stand in order, with NaN behind each set."""
    if members is None:
        raise ValueError("need membership_values")
    ends = np.flatnonzero(np.isnan(members))
    begins = np.concatenate([[0], ends + 1])
    ends = np.append(ends, len(members))
    found = [np.asarray(members[a:b], np.float64) for a, b in zip(begins, ends)]
    wanted = np.flatnonzero(modes == MODES.index("BRANCH_MEMBER"))
    if len(found) < len(wanted):
        raise ValueError(f"{len(found)} sets for {len(wanted)} nodes")
    sets = [np.empty(0)] * len(modes)
    for place, values in zip(wanted, found):
        sets[place] = values
    return sets
