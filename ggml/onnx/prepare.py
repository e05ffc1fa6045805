"""Preparation of a graph before it is lowered: constants are folded, labels looked up late, and patterns applied, in
its subgraphs as well."""

from __future__ import annotations

import contextlib
from collections import ChainMap
from dataclasses import replace

import numpy as np

from . import host
from .graph import Graph, Node
from .patterns import rewrite
from .values import F32, Known, Later

CLASSIFIERS = {f"ai.onnx.ml.{kind}Classifier" for kind in ("Linear", "SVM", "TreeEnsemble")}


def prepared(nodes, known, outputs, engine, trains=False):
    """The nodes that remain, in the order of execution.

    Args:
        nodes: list of Node.
        known: Known values by name; what is folded and what patterns make is added.
        outputs: names of the results.
        engine: model.Engine, whose arena holds new constants.
        trains: whether gradients are computed.
    Returns:
        list of Node.
    """
    nodes = [with_subgraphs(n, known, engine, trains) for n in fold(labels_apart(nodes, outputs), known, engine)]
    return rewrite(nodes, known, outputs, trains)


def labels_apart(nodes, outputs):
    """Classifiers whose labels are texts give numbers, and nodes of their own, as late as possible, the labels.

    So all else is computed in one graph: texts are no tensors.
    """
    done: list[Node] = []
    late: list[Node] = []  # what looks up labels, and copies of it for each Identity
    for node in nodes:
        source = next((n for n in late if n.outputs[0] in node.inputs), None)
        if node.op == "Identity" and source:
            late.append(replace(source, outputs=node.outputs))
            continue
        if node.uses().intersection(n.outputs[0] for n in late):
            done, late = done + late, []
        names = node.attr("classlabels_strings")
        if node.op in CLASSIFIERS and names and node.outputs and node.outputs[0]:
            number = f"{node.outputs[0]}#class"
            attrs = {k: v for k, v in node.attrs.items() if k != "classlabels_strings"}
            attrs["classlabels_ints"] = list(range(len(names)))
            done.append(replace(node, outputs=[number, *node.outputs[1:]], attrs=attrs))
            named = {"names": names}
            late.append(replace(node, op="ggml.Labels", inputs=[number], outputs=node.outputs[:1], attrs=named))
        else:
            done.append(node)
    return done + [n for n in late if n.outputs[0] in outputs]


def with_subgraphs(node, known, engine, trains):
    """The node with prepared subgraphs; names of the graph around them may be constants."""
    graphs = {k: prepared_graph(v, known, engine, trains) for k, v in node.attrs.items() if isinstance(v, Graph)}
    return replace(node, attrs={**node.attrs, **graphs}) if graphs else node


def prepared_graph(graph, known, engine, trains=False):
    """A subgraph, or the body of a function, with constants as Known values; known: those around it."""
    own = {n: v if isinstance(v, Known) else Known(v, engine.arena) for n, v in graph.constants.items()}
    hidden = dict.fromkeys([*(i.name for i in graph.inputs), *(graph.own() - own.keys())])
    names: ChainMap = ChainMap(own, hidden, known)
    nodes = prepared(graph.nodes, names, [o.name for o in graph.outputs], engine, trains)
    return replace(graph, nodes=nodes, constants=own)


def fold(nodes, known, engine):
    """Evaluates the nodes whose inputs are constants, once, and adds the results to them; returns the other nodes."""
    rest = []
    for node in nodes:
        source, name = (*node.inputs[:1], "")[0], (*node.outputs[:1], "")[0]
        if node.op == "Identity" and known.get(source) is not None and name:
            known[name] = known[source]  # its array and tensors are there once
            continue
        control, results = getattr(engine.rules.get(node.op), "expands", False), None
        if not (node.op in host.RANDOM or control or any(known.get(n) is None for n in node.uses())):
            with contextlib.suppress(host.HostError):
                results = results_of(node, [known[n] if n else None for n in node.inputs], engine.arena)
        if results is None:
            rest.append(node)
        else:
            known.update((n, v) for n, v in zip(node.outputs, results) if n)
    return rest


def results_of(node, operands, arena):
    """The Known results of a node for Known operands (None for omitted ones), or None if they are no tensors."""
    if node.op == "DequantizeLinear":
        return [floats_of(node, operands, arena)]
    arrays = host.evaluate(node, [None if v is None else v.array for v in operands])
    if not all(isinstance(a, np.ndarray) and a.dtype.kind not in "OUS" for a in arrays):
        return None
    return [Known(a, arena) for a in arrays]


def floats_of(node, operands, arena):
    """What a DequantizeLinear makes, at once or when something reads it: most products read the codes instead."""

    def make():
        return host.evaluate(node, [None if v is None else v.array for v in operands])[0]

    plain = host.is_plain(node, *(v.array for v in operands if v is not None))
    known = Known(Later(make, operands[0].shape, F32) if plain else make(), arena)
    known.tensors["codes"] = *operands[:2], [*operands, None][2], node.attr("axis", 1)
    return known
