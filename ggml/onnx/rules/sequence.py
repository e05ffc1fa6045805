"""Sequences that a model makes and takes apart: lists of values while the graph is built."""

import numpy as np

from ..values import I64, Known, OnHost, Sequence
from . import rule


def sequence(function):
    """Decorator: the rule takes or makes sequences, which are never folded."""
    function.sequences = True
    return function


def position(b, where, n, default):
    """A known position in a sequence of n elements."""
    i = default if where is None else int(np.ravel(b.known(where))[0])
    if not -n <= i <= n:
        raise ValueError(f"ggml.onnx: position {i} of a sequence of {n} elements")
    return i + n if i < 0 else i


rule("SequenceConstruct")(sequence(lambda b, node, *values: Sequence(values)))
rule("SequenceEmpty")(sequence(lambda b, node: Sequence([])))
rule("SequenceLength")(sequence(lambda b, node, values: Known(np.array(len(values.items), I64))))


@rule("SequenceInsert")
@sequence
def insert(b, node, values, x, where=None):
    items = list(values.items)
    items.insert(position(b, where, len(items), len(items)), x)
    return Sequence(items)


@rule("SequenceErase")
@sequence
def erase(b, node, values, where=None):
    items = list(values.items)
    items.pop(position(b, where, len(items), len(items) - 1))
    return Sequence(items)


@rule("SequenceAt")
@sequence
def at(b, node, values, where):
    return values.items[position(b, where, len(values.items), 0)]


@rule("ConcatFromSequence")
@sequence
def concat_from(b, node, values):
    axis, items = node.attr("axis"), values.items
    if node.attr("new_axis", 0):
        axis %= len(items[0].shape) + 1
        items = [b.reshape(v, (*v.shape[:axis], 1, *v.shape[axis:])) for v in items]
    return b.concat(items, axis)


@rule("SplitToSequence")
@sequence
def split_to(b, node, x, split=None):
    axis = node.attr("axis", 0) % len(x.shape)
    n = x.shape[axis]
    keep = split is not None or node.attr("keepdims", 1)
    sizes = np.ones(n, int) if split is None else b.known(split)
    if sizes.ndim == 0:
        step = int(sizes)
        if step < 1:
            raise OnHost(f"parts of {step} entries")
        sizes = [min(step, n - i) for i in range(0, n, step)]
    starts = np.cumsum([0, *sizes])
    parts = [b.slice(x, axis, int(s), int(p)) for s, p in zip(starts, sizes)]
    return Sequence(parts if keep else [b.reshape(p, x.shape[:axis] + x.shape[axis + 1 :]) for p in parts])
