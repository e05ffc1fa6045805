"""What limits a program, in words."""

from __future__ import annotations

from typing import NamedTuple

from .calls import Computed
from .machine import Machine
from .table import OUTSIDE, WAITING, Row, Table

LIMIT = 0.3  # a share above which something is called the limit
SMALL_NS = 2000  # nodes below it cost more to start than to compute


class Totals(NamedTuple):
    """Times of a profile in ns."""

    wall: int  # from start to end of the profile
    computing: int  # in at least one compute call
    calls: int  # number of calls
    thread_ns: int  # time of all threads in calls
    waited: int  # of it at barriers
    threads: int  # most threads of a call


def totals(calls: list[Computed], wall: int) -> Totals:
    """Sums over calls. Calls that several Python threads make simultaneously count once in `computing`."""
    computing, end = 0, 0
    for c in sorted(calls, key=lambda c: c.start):
        computing += max(0, c.end - max(c.start, end))
        end = max(end, c.end)
    thread_ns = sum(c.ns * len(c.lanes) for c in calls)
    return Totals(wall, computing, len(calls), thread_ns, sum(c.waited() for c in calls),
                  max((len(c.lanes) for c in calls), default=0))  # fmt: skip


def computing(rows: Table) -> list[Row]:
    """The rows of nodes."""
    return [r for r in rows if r.key not in (OUTSIDE, WAITING)]


def limit(t: Totals, rows: Table, machine: Machine) -> str:
    """The sentence that names the limit."""
    outside = 1 - t.computing / max(t.wall, 1)
    waiting = t.waited / max(t.thread_ns, 1)
    nodes = computing(rows)
    if not nodes:
        return "The graphs have no nodes that compute."
    ns = max(sum(r.ns for r in nodes), 1)
    count = sum(r.calls for r in nodes)
    arithmetic, memory = (sum(getattr(r, key) * r.ns for r in nodes) / ns for key in ("of_peak", "of_memory"))
    if outside > 0.5:
        return (f"Python limits: {outside:.0%} of the time passed between compute calls, in the program that calls "
                "them, in NumPy, or in tokenizers.")  # fmt: skip
    if waiting > LIMIT:
        return (f"Waiting limits: threads waited for each other {waiting:.0%} of their time. Other programs may use "
                "the processors; fewer threads, or larger nodes (more tokens together), may be faster.")  # fmt: skip
    if max(arithmetic, memory) < LIMIT and ns / max(count, 1) < SMALL_NS:
        return (f"The number of nodes limits: a node takes {ns / max(count, 1):,.0f} ns on average. Larger batches, or "
                "fewer and larger operations, are faster.")  # fmt: skip
    if memory > max(arithmetic, LIMIT):
        return (f"Memory limits: nodes read and write at {memory:.0%} of the {machine.gbytes:.0f} GB/s that this "
                "machine reaches. Quantised weights, or more tokens together, are faster.")  # fmt: skip
    if arithmetic > LIMIT:
        return (f"Arithmetic limits: nodes compute at {arithmetic:.0%} of the {machine.gflops:.0f} GFLOP/s of an f32 "
                "product on this machine. Only less work, more threads or smaller types are faster.")  # fmt: skip
    heavy = max(nodes, key=lambda r: r.ns)
    return (f"Neither memory ({memory:.0%}) nor arithmetic ({arithmetic:.0%}) is near its limit: most time goes to "
            f"{heavy.key}. Look at table(by='name').")  # fmt: skip


def summary(t: Totals, rows: Table, machine: Machine, dropped: str) -> str:
    """Some sentences on a profile."""
    if not t.calls:
        return "Nothing was computed during the profile." + (" " + dropped if dropped else "")
    lines = [
        f"{t.wall / 1e6:,.1f} ms, of which {t.computing / 1e6:,.1f} ms ({t.computing / max(t.wall, 1):.0%}) in "
        f"{t.calls:,} compute calls on up to {t.threads} threads.",
        "Most time: " + ", ".join(f"{r.key} {r.share:.0%}" for r in computing(rows)[:4]) + ".",
        f"Threads waited for each other {t.waited / max(t.thread_ns, 1):.0%} of their time in compute calls.",
        limit(t, rows, machine),
    ]
    return "\n".join([*lines, dropped] if dropped else lines)
