"""Times summed by a property of the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

import numpy as np

from .calls import Computed, Graph, Node
from .machine import Machine

KEYS = {
    "op": lambda node: node.op,
    "name": lambda node: node.name,
    "layer": lambda node: "(no layer)" if node.layer < 0 else str(node.layer),
    "type": lambda node: node.operands[0].partition(" ")[0] if node.operands else node.type,
}
WAITING = "(waiting)"  # the first thread, between nodes, until the others have finished theirs
OUTSIDE = "(start and end)"  # of compute calls: threads start and end, work memory is allocated
HEAD = ("calls", "ms", "share", "GFLOP/s", "GB/s", "of peak", "of memory")


class Row(NamedTuple):
    """Nodes with the same key.

    Attributes:
        key: value of the property.
        calls: how often such a node was computed.
        ns: their time.
        share: of the time in compute calls.
        flops, bytes: estimates from the shapes.
        gflops, gbytes: 10^9 operations and bytes per second.
        of_peak, of_memory: these as a share of what the machine reaches.
    """

    key: str
    calls: int
    ns: int
    share: float
    flops: float
    bytes: float
    gflops: float
    gbytes: float
    of_peak: float
    of_memory: float


class Table:
    """Rows, the one with the most time first. It prints as text, and as HTML in notebooks."""

    def __init__(self, by: str, rows: list[Row], note: str = "") -> None:
        self.by, self.rows, self.note = by, rows, note

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: str) -> Row:
        for row in self.rows:
            if row.key == key:
                return row
        raise KeyError(key)

    def __repr__(self) -> str:
        return f"<Table by {self.by}: {len(self)} rows, {sum(r.ns for r in self.rows) / 1e6:.3f} ms>"

    def __str__(self) -> str:
        width = max([len(self.by), *(len(r.key) for r in self.rows)])
        lines = [f"{self.by:<{width}}" + "".join(f"{h:>11}" for h in HEAD)]
        lines += [f"{r.key:<{width}}" + "".join(f"{cell:>11}" for cell in cells(r)) for r in self.rows]
        return "\n".join([*lines, self.note] if self.note else lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(h)}</th>" for h in (self.by, *HEAD))
        body = "".join(
            f"<tr><td style='text-align:left'>{escape(r.key)}</td>"
            + "".join(f"<td>{c}</td>" for c in cells(r))
            + "</tr>"
            for r in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(self.note)}</p>"


def cells(r: Row) -> list[str]:
    """The cells of a row after the key; empty where nothing is known."""
    rates = [f"{r.gflops:.1f}" if r.flops else "", f"{r.gbytes:.1f}" if r.bytes else ""]
    shares = [f"{r.of_peak:.1%}" if r.flops else "", f"{r.of_memory:.1%}" if r.bytes else ""]
    return [f"{r.calls:,}", f"{r.ns / 1e6:.3f}", f"{r.share:.1%}", *rates, *shares]


def node_sums(calls: list[Computed]) -> Iterator[tuple[Graph, Node, int, int]]:
    """For each node of each graph that was computed: the graph, the node, how often, and its ns in sum."""
    graphs = {id(c.graph): c.graph for c in calls}
    for key, graph in graphs.items():
        n = len(graph.facts)
        count, ns = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for c in calls:
            if id(c.graph) == key:
                nodes, times = c.node_times()
                np.add.at(count, nodes, 1)
                np.add.at(ns, nodes, times)
        for i in np.flatnonzero(count):
            yield graph, graph.nodes[i], int(count[i]), int(ns[i])


def table(calls: list[Computed], by: str, machine: Machine, note: str = "") -> Table:
    """The table of some calls: rows by key, and two for the time in the calls between and outside nodes."""
    sums: dict[str, list[float]] = {}
    for _, node, count, ns in node_sums(calls):
        row = sums.setdefault(KEYS[by](node), [0, 0, 0.0, 0.0])
        for k, value in enumerate((count, ns, count * node.flops, count * node.bytes)):
            row[k] += value
    whole = sum(c.ns for c in calls)
    if calls:
        sums[WAITING] = [len(calls), sum(c.first_waited() for c in calls), 0.0, 0.0]
        sums[OUTSIDE] = [len(calls), whole - sum(s[1] for s in sums.values()), 0.0, 0.0]
    rows = [make_row(key, values, whole, machine) for key, values in sums.items()]
    return Table(by, sorted(rows, key=lambda r: -r.ns), note)


def make_row(key: str, sums: list[float], whole: int, machine: Machine) -> Row:
    """The row of a key, whose sums are calls, ns, operations and bytes."""
    calls, ns, flops, size = sums
    gflops, gbytes = flops / max(ns, 1), size / max(ns, 1)
    shares = gflops / machine.gflops, gbytes / machine.gbytes
    return Row(key, int(calls), int(ns), ns / max(whole, 1), flops, size, gflops, gbytes, *shares)
