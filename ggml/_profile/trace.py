"""Profiles in the Trace Event format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .calls import Computed, Node

WAIT = "wait"


def events(calls: list[Computed], origin: int) -> Iterator[dict[str, Any]]:
    """The events of some calls; times are in us since `origin`."""
    pid, tracks, python = os.getpid(), {}, {}  # type: ignore[var-annotated]

    def track(thread: int, lane: int) -> int:
        """The number of a track: one for each thread of the compute calls of a Python thread."""
        return tracks.setdefault((thread, lane), len(tracks) + 1)

    def event(name: str, kind: str, tid: int, begin: int, end: int, args: dict[str, Any]) -> dict[str, Any]:
        times = {"ts": (begin - origin) / 1e3, "dur": (end - begin) / 1e3}
        return {"name": name, "cat": kind, "ph": "X", "pid": pid, "tid": tid, **times, "args": args}

    yield {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": "ggml"}}
    for number, call in enumerate(calls):
        python.setdefault(call.thread, len(python) + 1)
        arguments = {"call": number, "status": call.status, "nodes": len(call.graph.facts)}
        yield event(call.graph.title, "graph", track(call.thread, 0), call.start, call.end, arguments)
        for lane, spans in enumerate(call.lanes):
            tid = track(call.thread, lane)
            for arrived, begin, end, node, waited in spans.tolist():
                if begin > arrived:
                    yield event(WAIT, WAIT, tid, arrived, begin, {"call": number, "before node": node})
                if end > begin:
                    found = call.graph.nodes[node]
                    yield event(
                        found.name, found.op, tid, begin, end, node_arguments(found, number, end - begin, waited)
                    )
            last = int(call.lanes[0]["end"][-1])
            if len(spans) and last > int(spans["end"][-1]):
                yield event(WAIT, WAIT, tid, int(spans["end"][-1]), last, {"call": number, "before node": "end"})
    for (thread, lane), tid in tracks.items():
        name = f"Python thread {python[thread]}" if lane == 0 else f"worker {lane} of Python thread {python[thread]}"
        yield {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
        yield {"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": {"sort_index": tid}}


def node_arguments(node: Node, call: int, ns: int, waited: int) -> dict[str, Any]:
    """What a viewer shows of a node."""
    found: dict[str, Any] = {"call": call, "node": node.number, "op": node.op, "type": node.type}
    found |= {"shape": str(list(node.shape)), "operands": ", ".join(node.operands)}
    if node.layer >= 0:
        found["layer"] = node.layer
    if waited:
        found["waited inside us"] = waited / 1e3
    return found


def trace(calls: list[Computed], origin: int, about: dict[str, Any]) -> bytes:
    """The JSON of a trace."""
    content = {"traceEvents": list(events(calls, origin)), "displayTimeUnit": "ns", "otherData": about}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def timeline(calls: list[Computed], origin: int) -> np.recarray:
    """One record for each thread and node, in the order of calls and threads."""
    kinds = [("call", "i4"), ("thread", "i4"), ("python_thread", "u8"), ("node", "i4"), ("op", "O"), ("name", "O"),
             ("layer", "i4"), ("type", "O"), ("ne", "O"), ("arrived", "i8"), ("begin", "i8"), ("end", "i8"),
             ("waited", "i8"), ("flops", "f8"), ("bytes", "f8")]  # fmt: skip
    rows: list[tuple] = []
    for number, call in enumerate(calls):
        for lane, spans in enumerate(call.lanes):
            for arrived, begin, end, index, waited in spans.tolist():
                n = call.graph.nodes[index]
                times = arrived - origin, begin - origin, end - origin, waited
                rows.append((number, lane, call.thread, index, n.op, n.name, n.layer, n.type, n.shape, *times, n.flops,
                             n.bytes))  # fmt: skip
    return np.array(rows, np.dtype(kinds)).view(np.recarray)
