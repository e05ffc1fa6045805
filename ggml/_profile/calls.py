"""Compute calls as NumPy arrays: what the engine recorded, with names of operations, types and layers."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import ggml
from ggml._graph import record

SPAN = np.dtype([("arrived", "i8"), ("begin", "i8"), ("end", "i8"), ("node", "i4"), ("waited", "u4")])
FACTS = np.dtype(
    [("op", "i4"), ("function", "i4"), ("type", "i4"), ("computes", "i4"), ("src_type", "i4", 2), ("ne", "i8", 4),
     ("src_ne", "i8", (2, 4)), ("flops", "f8"), ("bytes", "f8"), ("name", "S64"), ("weight", "S64")]
)  # fmt: skip
if {"facts": FACTS.itemsize, "span": SPAN.itemsize} != {key: record.SIZES[key] for key in ("facts", "span")}:
    raise ImportError("ggml.profiler: the structs of the engine have another layout: reinstall ggml-cython")

LAYER = re.compile(r"(?:^|[./_])(?:blk|blocks?|layers?|h)[._](\d+)(?:[./_]|$)|-(\d+)$")
AUTOMATIC = re.compile(r"(?:(?:node|leaf)_\d+)?(?: \(\w+\))*$")  # "node_5", "leaf_2 (view)": nobody chose such names
GATHERED = ("NORM", "RMS_NORM", "L2_NORM", "GROUP_NORM")  # belong to the layer of what follows


class Node(NamedTuple):
    """A node of a graph. Shapes are in ggml order."""

    number: int  # index in the graph
    op: str
    type: str
    name: str
    layer: int  # -1: none
    shape: tuple[int, ...]
    operands: tuple[str, ...]  # type and shape of the first two
    flops: float
    bytes: float


def shape_of(ne) -> tuple[int, ...]:
    """The dimensions without trailing ones."""
    ne = [int(n) for n in ne]
    while len(ne) > 1 and ne[-1] == 1:
        ne.pop()
    return tuple(ne)


def type_name(number: int) -> str:
    return (ggml.ggml_type_name(number) or b"?").decode()


def op_name(op: int, function: int) -> str:
    """The name of an operation; of unary and GLU operations that of the function."""
    if op == ggml.GGML_OP_UNARY:
        return (ggml.ggml_unary_op_name(function) or b"UNARY").decode()
    if op == ggml.GGML_OP_GLU:
        return (ggml.ggml_glu_op_name(function) or b"GLU").decode()
    return (ggml.ggml_op_name(op) or b"?").decode()


def text(name: bytes) -> str:
    return name.decode(errors="replace")


def layer_in(name: str) -> int:
    """The number of the layer in a name such as "blk.3.attn_q.weight" or "Qcur-3"; -1 if there is none."""
    found = LAYER.search(name)
    return int(found[1] or found[2]) if found else -1


def layers_of(names: list[str], weights: list[str], ops: list[str]) -> list[int]:
    """The layer of each node: that in its name or its weight's, else that of the node before.

    A weight without a layer, such as that of the output, ends the last layer. Norms take the layer of what follows.
    """
    known: list[int | None] = []
    for name, weight in zip(names, weights):
        number = max(layer_in(name), layer_in(weight))
        outside = number < 0 and weight and not AUTOMATIC.match(weight)
        known.append(number if number >= 0 else -1 if outside else None)
    layers, current = [], -1
    for i, layer in enumerate(known):
        if layer is None and ops[i] in GATHERED:
            layer = next((k for k in known[i + 1 : i + 4] if k is not None), None)
        current = current if layer is None else layer
        layers.append(current)
    return layers


class Graph:
    """The nodes of a graph as it was computed."""

    def __init__(self, facts: bytes) -> None:
        self.facts = np.frombuffer(facts, FACTS)

    @cached_property
    def nodes(self) -> list[Node]:
        rows = self.facts
        ops = [op_name(int(r["op"]), int(r["function"])) for r in rows]
        own, weights = ([text(name) for name in rows[key].tolist()] for key in ("name", "weight"))
        found = []
        for i, (r, layer) in enumerate(zip(rows, layers_of(own, weights, ops))):
            name = own[i]
            if AUTOMATIC.match(name):
                name = f"{ops[i].lower()} {name if AUTOMATIC.match(weights[i]) else weights[i]}".rstrip()
            operands = tuple(
                f"{type_name(int(kind))} {list(shape_of(ne))}"
                for kind, ne in zip(r["src_type"], r["src_ne"])
                if kind >= 0
            )
            found.append(
                Node(i, ops[i], type_name(int(r["type"])), name, layer, shape_of(r["ne"]), operands, float(r["flops"]),
                     float(r["bytes"]))
            )  # fmt: skip
        return found

    @cached_property
    def title(self) -> str:
        """Words for the graph: the name of its last node and the numbers of nodes, all and those that compute."""
        last, count = self.nodes[-1].name if len(self.facts) else "", len(self.facts)
        return f"graph of {count} nodes ({int((self.facts['computes'] != 0).sum())} compute), to {last!r}"


class Computed:
    """A compute call.

    Attributes:
        graph: Graph.
        start, end: ns of time.monotonic_ns.
        lanes: for each thread the array of its spans (SPAN).
        thread: identifier of the Python thread.
        status: GGML_STATUS_*.
    """

    def __init__(self, call: Any, graph: Graph) -> None:
        self.graph, self.start, self.end = graph, call.start, call.end
        self.thread, self.status, self.places = call.thread, call.status, call.places
        spans, at = np.frombuffer(call.spans, SPAN), 0
        self.lanes = []
        for count in call.lanes:
            if count:
                self.lanes.append(spans[at : at + count])
            at += count

    @property
    def ns(self) -> int:
        return self.end - self.start

    def node_times(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes that were computed, and the ns of each in the first thread, which takes part in every node."""
        if not self.lanes:
            return np.empty(0, np.int32), np.empty(0, np.int64)
        first = self.lanes[0]
        return first["node"], first["end"] - first["begin"]

    def first_waited(self) -> int:
        """The ns for which the first thread waited for others between nodes."""
        return int((self.lanes[0]["begin"] - self.lanes[0]["arrived"]).sum()) if self.lanes else 0

    def waited(self) -> int:
        """The ns for which threads waited at barriers, in sum over the threads."""
        total = 0
        for lane in self.lanes:
            total += int((lane["begin"] - lane["arrived"]).sum()) + int(lane["waited"].sum(dtype=np.int64))
            total += max(0, int(self.lanes[0]["end"][-1] - lane["end"][-1]))  # at the end of the call
        return total
