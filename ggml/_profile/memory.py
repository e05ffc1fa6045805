"""Which node holds which memory over the steps of a graph, from the addresses of its tensors."""

from __future__ import annotations

import os
from functools import cached_property
from typing import NamedTuple

import numpy as np

import ggml
from ggml._graph import record

from .._extras import require
from .calls import Computed, Graph, Node

PLACE = np.dtype([("tensor", "u8"), ("data", "u8"), ("nbytes", "u8")])
PLACES = record.SIZES["places"] // PLACE.itemsize  # of a node: its own, and those of its operands
UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1))  # of pictures
COLOURS = 9  # operations with a colour of their own in pictures


class Block(NamedTuple):
    """Memory of a result.

    Attributes:
        node: Node that computes it.
        offset: bytes from the start of all memory of results, without the gaps between buffers.
        nbytes: its size.
        first, last: the steps (indices of nodes) at which it is written first and read last.
    """

    node: Node
    offset: int
    nbytes: int
    first: int
    last: int


class Memory:
    """The memory of the results of a graph.

    Attributes:
        title: words for the graph.
        blocks: list of Block in the order of the nodes.
        nbytes: bytes of memory that results lie in; each byte counts once.
        outside: bytes of tensors that the graph reads but does not compute: weights, inputs, caches.
        live: array of the bytes that are held at each step.
        peak, peak_step: the most of them, and where.
    """

    def __init__(self, graph: Graph, places: bytes) -> None:
        self.title, self._graph = graph.title, graph
        self._places = np.frombuffer(places, PLACE).reshape(-1, PLACES)
        ranges, self.outside = self._ranges()
        offsets, self.nbytes = compact(ranges)
        nodes = graph.nodes
        self.blocks = [Block(nodes[i], o, hi - lo, i, last) for (i, lo, hi, last), o in zip(ranges, offsets)]

    def _ranges(self) -> tuple[list[tuple[int, int, int, int]], int]:
        """The memory of each result as (node, begin, end, last step), and the bytes of other tensors."""
        computes = self._graph.facts["computes"]
        own = {int(p["tensor"]) for p in self._places[:, 0]}
        other: dict[int, int] = {}  # of tensors that are not computed: address, size
        found: dict[int, list[int]] = {}  # by node
        live: list[int] = []

        def holders(lo: int, hi: int) -> list[int]:
            return [i for i in live if found[i][0] < hi and lo < found[i][1]]

        for step, row in enumerate(self._places):
            spans = [(int(p["tensor"]), int(p["data"]), int(p["data"]) + int(p["nbytes"])) for p in row if p["tensor"]]
            for tensor, lo, hi in spans[1:]:
                used = holders(lo, hi)
                for i in used:
                    found[i][2] = step
                if not used and tensor not in own:
                    other[lo] = max(hi - lo, other.get(lo, 0))
            _, lo, hi = spans[0]
            if not computes[step]:
                if not holders(lo, hi):
                    other[lo] = max(hi - lo, other.get(lo, 0))  # a view of something that is not computed
                continue
            if hi == lo or any(a <= lo < a + size for a, size in other.items()):
                continue  # it writes into such a tensor
            for i in holders(lo, hi):  # in place, or no longer needed
                found[i][2] = min(found[i][2], step - 1)
                live.remove(i)
            found[step] = [lo, hi, -1]
            live.append(step)
        end = len(self._places) - 1
        rows = [(i, lo, hi, last if last >= 0 else end if i in live else i) for i, (lo, hi, last) in found.items()]
        return rows, covered(other)

    @cached_property
    def live(self) -> np.ndarray:
        change = np.zeros(len(self._places) + 1, np.int64)
        for b in self.blocks:
            change[b.first] += b.nbytes
            change[max(b.last, b.first) + 1] -= b.nbytes
        return change.cumsum()[:-1]

    @property
    def peak_step(self) -> int:
        return int(self.live.argmax()) if len(self.live) else 0

    @property
    def peak(self) -> int:
        return int(self.live.max(initial=0))

    def holders(self, step: int | None = None) -> list[Block]:
        """The blocks that are held at a step, the largest first.

        Args:
            step: int, index of a node; None for the step with the peak.
        """
        at = self.peak_step if step is None else step
        return sorted((b for b in self.blocks if b.first <= at <= max(b.last, b.first)), key=lambda b: -b.nbytes)

    def __repr__(self) -> str:
        return f"<Memory of a {self.title}: peak {self.peak:,} bytes at node {self.peak_step}>"

    def __str__(self) -> str:
        nodes = self._graph.nodes
        where = nodes[self.peak_step].name if nodes else ""
        head = [
            f"{self.title}: results lie in {self.nbytes:,} bytes, weights and inputs in {self.outside:,} bytes",
            f"peak {self.peak:,} bytes at node {self.peak_step} ({where}), held by:",
        ]
        rows = [
            f"  {b.nbytes:>14,} bytes  nodes {b.first} to {b.last}  {b.node.op:<16} {b.node.name}"
            for b in self.holders()[:20]
        ]
        return "\n".join(head + rows)

    def picture(self, path: str | os.PathLike[str]) -> None:
        """Draws the blocks over the steps, by matplotlib (extra [profile]).

        Args:
            path: file to write; the ending says how, as .png or .svg.
        Raises:
            ImportError: matplotlib is not installed.
            ValueError: matplotlib cannot write such files.
            OSError: the file cannot be written.
        """
        require("picture: ", ["matplotlib"], "'ggml-cython[profile]'")
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch

        sizes: dict[str, int] = {}
        for b in self.blocks:
            sizes[b.node.op] = sizes.get(b.node.op, 0) + b.nbytes
        order = sorted(sizes, key=lambda op: -sizes[op])
        colour = {op: f"C{min(i, COLOURS)}" for i, op in enumerate(order)}
        figure = Figure(figsize=(11, 6), layout="constrained")
        axes = figure.subplots()
        lengths = [max(b.last, b.first) - b.first + 1 for b in self.blocks]
        unit, scale = next((u, s) for u, s in UNITS if self.peak >= s or s == 1)
        axes.bar([b.first for b in self.blocks], [b.nbytes / scale for b in self.blocks], lengths,
                 [b.offset / scale for b in self.blocks], align="edge", edgecolor="white", linewidth=0.3,
                 color=[colour[b.node.op] for b in self.blocks])  # fmt: skip
        steps = np.arange(len(self.live) + 1)
        axes.stairs(self.live / scale, steps, color="black", label="held")
        peak = f"peak: {self.peak / scale:,.3g} {unit} at node {self.peak_step}"
        axes.axvline(self.peak_step + 0.5, color="black", linestyle=":")
        axes.plot(self.peak_step + 0.5, self.peak / scale, "kv", label=peak, clip_on=False, zorder=3)
        axes.set(xlabel="node", ylabel=f"memory of results, {unit}", title=self.title)
        axes.set_xlim(0, max(len(self.live), 1))
        shown = [Patch(color=colour[op], label=op) for op in order[:COLOURS]]
        shown += [Patch(color=f"C{COLOURS}", label="others")] if len(order) > COLOURS else []
        figure.legend(handles=[*shown, *axes.get_legend_handles_labels()[0]], loc="outside right upper")
        figure.savefig(path, dpi=120)


def covered(ranges: dict[int, int]) -> int:
    """The bytes that lie in one or several of some ranges, given as sizes by address."""
    total, end = 0, 0
    for lo in sorted(ranges):
        hi = lo + ranges[lo]
        total += max(0, hi - max(lo, end))
        end = max(end, hi)
    return total


def compact(ranges: list[tuple[int, int, int, int]]) -> tuple[list[int], int]:
    """The offset of each range (node, begin, end, last step) without gaps, and the bytes of all."""
    starts: list[tuple[int, int]] = []  # begin of a stretch without gaps, its offset
    total, end = 0, -1
    for _, lo, hi, _ in sorted(ranges, key=lambda r: r[1]):
        if lo > end:
            starts.append((lo, total))
            end = lo
        total += max(0, hi - end)
        end = max(end, hi)
    begins = [lo for lo, _ in starts]
    found = []
    for _, lo, _, _ in ranges:
        begin, offset = starts[int(np.searchsorted(begins, lo, side="right")) - 1]
        found.append(offset + lo - begin)
    return found, total


def memories(calls: list[Computed]) -> list[Memory]:
    """The memory of each graph, the one with the highest peak first."""
    last = {id(c.graph): c for c in calls if c.places is not None and c.status == ggml.GGML_STATUS_SUCCESS}
    return sorted((Memory(c.graph, c.places) for c in last.values()), key=lambda m: -m.peak)
