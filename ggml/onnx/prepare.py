"""Preparation of a graph before it is lowered: constants are folded, and patterns applied, in its subgraphs as well."""

from __future__ import annotations

import contextlib
from collections import ChainMap
from dataclasses import replace

import numpy as np

from . import host
from .graph import Graph
from .patterns import rewrite
from .values import Known


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
    nodes = [with_subgraphs(n, known, engine, trains) for n in fold(nodes, known, engine)]
    return rewrite(nodes, known, outputs, trains)


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
        control, arrays = getattr(engine.rules.get(node.op), "expands", False), None
        if not (node.op in host.RANDOM or control or any(known.get(n) is None for n in node.uses())):
            with contextlib.suppress(host.HostError):
                arrays = host.evaluate(node, [known[n].array if n else None for n in node.inputs])
        if arrays is not None and all(isinstance(a, np.ndarray) and a.dtype.kind not in "OUS" for a in arrays):
            operands = [known.get(n) for n in node.inputs]
            known.update((n, Known(a, engine.arena)) for n, a in zip(node.outputs, arrays) if n)
            if node.op == "DequantizeLinear" and node.outputs[0]:
                known[node.outputs[0]].tensors["codes"] = *operands[:2], [*operands, None][2], node.attr("axis", 1)
        else:
            rest.append(node)
    return rest
