"""Evaluation on the host: constants, shapes, and operators that no rule lowers.

The reference implementation of the onnx package computes them, so that what is folded means what ONNX says.
"""

from __future__ import annotations

import warnings

import numpy as np
from onnx import TypeProto, ValueInfoProto, helper
from onnx.reference import ReferenceEvaluator

from .._extras import require
from .graph import copied
from .opsets import ALIGN, aligned

RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
LEAST = {"QuantizeLinear": 19, "DequantizeLinear": 19}  # the versions from which the reference knows them


class HostError(RuntimeError):
    """An operator that could not be evaluated."""


def zip_map(node, x):
    """A list with a dict for each row of x: numbers by the labels of the classes."""
    labels = node.attr("classlabels_int64s") or node.attr("classlabels_strings") or []
    if x.ndim > 2 or x.shape[-1] != len(labels):
        raise ValueError(f"{len(labels)} labels for an array of {list(x.shape)}")
    return [dict(zip(labels, row.tolist())) for row in np.atleast_2d(x)]


def regex_full_match(node, x):
    """Whether each text matches a pattern as a whole, by RE2 in linear time; Python's `re` may take exponential."""
    require("", ["re2"], "google-re2")
    import re2

    if x.dtype.kind not in "UO":
        raise TypeError(f"x is {x.dtype}: need texts")
    options = re2.Options()
    options.log_errors = False
    text = node.attr("pattern") or ""
    try:
        pattern = re2.compile(text, options)
    except re2.error as error:
        raise ValueError(f"the pattern is {text[:60]!r}: {str(error)[:200]}") from None
    found = [pattern.fullmatch(str(text)) is not None for text in x.reshape(-1)]
    return np.array(found, bool).reshape(x.shape)


# What the reference lacks, or computes in another way than ONNX says.
OWN = {"ai.onnx.ml.ZipMap": zip_map, "RegexFullMatch": regex_full_match}


def evaluator(node):
    """The reference evaluator of one node, kept with it."""
    found = node.attrs.get("ggml.evaluator")
    if found is None:
        proto = copied(node.proto)
        inputs = [f"i{k}" if name else "" for k, name in enumerate(node.inputs)]
        outputs = [f"o{k}" if name else "" for k, name in enumerate(node.outputs)]
        del proto.input[:], proto.output[:]
        proto.input.extend(inputs)
        proto.output.extend(outputs)
        infos = [[ValueInfoProto(name=n, type=TypeProto()) for n in names if n] for names in (inputs, outputs)]
        versions = {**node.scope.opsets, node.proto.domain: node.version}
        opsets = [helper.make_opsetid(d, max(v, LEAST.get(node.op, v))) for d, v in versions.items()]
        model = helper.make_model(helper.make_graph([proto], "one node", *infos), opset_imports=opsets)
        node.attrs["ggml.evaluator"] = found = ReferenceEvaluator(model)
    return found


def evaluate(node, values):
    """The outputs of a node for one array, list or None per input, as a list of the same.

    Raises HostError if there is no implementation, or the operands do not fit.
    """
    if node.proto is None:
        return [node.attrs["value"]]
    try:
        if ALIGN in node.attrs:
            values = [values[0], values[1].reshape(aligned(node, values[0].shape, values[1].shape))]
        feeds = {f"i{k}": v for k, v in enumerate(values) if node.inputs[k]}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if node.op in OWN:
                results = iter([OWN[node.op](node, *values)])
            elif node.op == "GatherElements":  # the reference does not return for an index far out of range
                results = iter([np.take_along_axis(values[0], values[1], node.attr("axis", 0))])
            else:
                results = iter(evaluator(node).run(None, feeds))
    except Exception as error:
        shapes = ", ".join(f"{n!r} {getattr(v, 'shape', type(v).__name__)}" for n, v in zip(node.inputs, values))
        # What the reference says of an operator that it lacks is advice for its developers.
        lacks = isinstance(error, NotImplementedError) or "Did you recompile" in str(error)
        why = "there is no implementation of the operator" if lacks else f"{type(error).__name__}: {error}"
        raise HostError(f"ggml.onnx: {node} with {shapes}: {why}") from error
    outputs = [next(results) if name else None for name in node.outputs]
    return [np.asarray(o) if isinstance(o, np.generic) else o for o in outputs]
