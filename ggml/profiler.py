"""Where the time and the memory of computes go.

    with ggml.profile() as p:
        ...  # any computes: graphs, models, training, ONNX, from any threads
    print(p.summary())
    print(p.table(by="op"))
    p.chrome_trace("trace.json")

While a profile is on, each thread that computes reads the clock after each node. Without one, a node costs one more
test of a pointer. The parts are in ggml._profile.
"""

from __future__ import annotations

import operator
import os
import time
import weakref
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._owners import Owner

if TYPE_CHECKING:
    import numpy as np

    from ._profile.calls import Computed, Graph
    from ._profile.machine import Machine
    from ._profile.memory import Memory
    from ._profile.table import Table

LIMIT = 4_000_000  # records of 32 bytes


def profile(*, memory: bool = False, limit: int = LIMIT) -> Profile:
    """Profiles all computes of this process while the result is used in a `with` statement.

    Profiles may be nested: each has what is computed while it is on. A compute call that is stopped or fails is part of
    the profile as far as it came; one that still runs in another thread when the profile ends is not.

    Args:
        memory: True to record also where the tensors of each graph lie (see Profile.memory).
        limit: most records (int), one for each thread and node, of 32 bytes each. Further compute calls are only
            counted, and summary() says so.
    Returns:
        A Profile.
    Raises:
        TypeError: limit is not an integer.
        ValueError: limit is negative.
    """
    try:
        number = operator.index(limit)
    except TypeError:
        raise TypeError(f"profile: limit is {limit!r}: need an integer") from None
    if not 0 <= number < 1 << 62:
        raise ValueError(f"profile: limit is {limit}: need 0 or more records")
    return Profile(bool(memory), number)


_last: list[weakref.ref[Profile]] = []  # the profile that ended last, which colours graphs


def graph_svg(graph: Any, profile: Profile | None = None) -> str | None:
    """Draws a graph: a box for each node or, of large graphs, for each layer. Notebooks show graphs so.

    Boxes are coloured by the mean time of the nodes of the same operation, name and shape in a profile.

    Args:
        graph: graph pointer.
        profile: Profile; None for the one that ended last, if it still exists.
    Returns:
        SVG text; None if the graph was freed.
    """
    from ._view.graph import svg

    if profile is None and _last:
        profile = _last[0]()
    try:
        return svg(graph, profile.node_times() if profile is not None else None)
    except (RuntimeError, ValueError, TypeError):
        return None


class Profile(Owner):
    """What was computed while it was on.

    It can be read during the `with` statement too, and then has what was computed so far. Used in a second `with`
    statement, it goes on.
    """

    def __init__(self, memory: bool, limit: int) -> None:
        from ._graph.record import Recorder

        self._recorder = Recorder(limit, memory)
        self._memory, self._began, self._wall, self._origin = memory, 0, 0, 0
        self._read: list[Computed] = []
        self._graphs: dict[bytes, Graph] = {}

    def __enter__(self) -> Profile:
        if self._recorder.on:
            raise RuntimeError("profile: this profile is on already: make another one to nest them")
        self._began = time.monotonic_ns()
        self._origin = self._origin or self._began
        self._recorder.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._recorder.stop()
        self._wall += time.monotonic_ns() - self._began
        _last[:] = [weakref.ref(self)]

    def __repr__(self) -> str:
        state = "on" if self._recorder.on else "off"
        return f"<ggml.Profile {state}: {len(self._recorder.calls):,} compute calls in {self.seconds:.3f} s>"

    @property
    def seconds(self) -> float:
        """The time for which the profile was on."""
        running = time.monotonic_ns() - self._began if self._recorder.on else 0
        return (self._wall + running) / 1e9

    @property
    def calls(self) -> list[Computed]:
        """The compute calls, in the order in which they ended."""
        from ._profile.calls import Computed, Graph

        for call in self._recorder.calls[len(self._read) :]:
            if call.facts not in self._graphs:
                self._graphs[call.facts] = Graph(call.facts)
            self._read.append(Computed(call, self._graphs[call.facts]))
        return self._read

    @property
    def dropped(self) -> int:
        """The number of compute calls that were not kept, because of `limit` or for want of memory."""
        return self._recorder.dropped_calls

    def _note(self) -> str:
        if not self.dropped:
            return ""
        return (f"{self.dropped:,} more compute calls of {self._recorder.dropped_ns / 1e6:,.1f} ms in all are not in "
                "the figures: use a larger limit.")  # fmt: skip

    @cached_property
    def machine(self) -> Machine:
        """What this machine reaches at most with the threads of this profile; measured in about a second, once."""
        from ._profile.machine import measured

        return measured(max((len(c.lanes) for c in self.calls), default=1) or 1)

    def table(self, by: str = "op") -> Table:
        """Times summed by a property of the nodes.

        The rows sum up to the time in compute calls. Times are those of the first thread of a call, which takes part in
        every node; "(waiting)" is its time at barriers between nodes, "(start and end)" that before the first node and
        after the last. Operations and bytes are estimates from the shapes: products count two for each multiplication,
        other nodes one for each element, and each operand is read once. Products of quantised types use integers, so
        that they can exceed the peak, which is measured in f32; so can memory that is in caches.

        Args:
            by: "op" (unary and GLU operations by function), "name" (of the node, or of the weight that it uses),
                "layer" (from the number in names such as "blk.3.attn_q.weight"), or "type" (of the first operand).
        Returns:
            Table of rows, the one with the most time first. str() is text.
        Raises:
            ValueError: by is none of these.
        """
        from ._profile.table import KEYS, table

        if by not in KEYS:
            raise ValueError(f"table: by is {by!r}: need one of {', '.join(map(repr, KEYS))}")
        return table(self.calls, by, self.machine, self._note())

    def node_times(self) -> dict[tuple[int, bytes, tuple[int, ...]], float]:
        """The mean ns of nodes by operation (number), name (bytes) and shape (ggml order)."""
        from ._profile.calls import shape_of
        from ._profile.table import node_sums

        sums: dict[tuple[int, bytes, tuple[int, ...]], list[int]] = {}
        for graph, node, count, ns in node_sums(self.calls):
            facts = graph.facts[node.number]
            row = sums.setdefault((int(facts["op"]), bytes(facts["name"]), shape_of(facts["ne"])), [0, 0])
            row[0] += count
            row[1] += ns
        return {key: ns / count for key, (count, ns) in sums.items()}

    def timeline(self) -> np.recarray:
        """One record for each thread and node.

        Returns:
            NumPy record array with the fields call (number of the compute call), thread (of the call, 0 for the first),
            python_thread, node (index in the graph), op, name, layer (-1: none), type, ne (shape in ggml order),
            arrived, begin, end (ns since the profile began; from arrived to begin the thread waited for others; begin
            equals end if other threads computed the node), waited (ns at barriers inside the node), flops and
            bytes (estimates, of the whole node).
        """
        from ._profile.trace import timeline

        return timeline(self.calls, self._origin)

    def chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace for https://ui.perfetto.dev or chrome://tracing, with one track for each thread.

        Args:
            path: JSON file in the Trace Event format to write; an existing file is replaced.
        Raises:
            OSError: the file cannot be written.
        """
        from . import __version__
        from ._io.files import save
        from ._profile.trace import trace

        about = {"program": f"ggml-cython {__version__}", "dropped calls": self.dropped}
        save(path, trace(self.calls, self._origin, about), "chrome_trace")

    def summary(self) -> str:
        """Says in words what limits: memory, arithmetic, waiting, many small nodes, or Python between computes."""
        from ._profile.words import summary, totals

        calls = self.calls
        return summary(totals(calls, round(self.seconds * 1e9)), self.table("op"), self.machine, self._note())

    def memory(self) -> list[Memory]:
        """Which node holds which memory over the steps of each graph.

        Returns:
            A list of Memory, one for each graph, the one with the highest peak first. str() is a table of what is held
            at the peak; picture(path) draws it.
        Raises:
            RuntimeError: the profile was made without memory=True.
        """
        from ._profile.memory import memories

        if not self._memory:
            raise RuntimeError("memory: this profile has recorded times only: use ggml.profile(memory=True)")
        return memories(self.calls)
