"""Collectives on NumPy arrays: what the nodes of graphs compute, the check that all ranks do the same, and the queue.

Arrays are contiguous; bf16 is seen as bits (uint16). All ranks call the same methods in the same order.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from zlib import crc32

import numpy as np

import ggml

from ._reduce import DTYPES, reduce, shares

LABEL = 192  # bytes of the text by which ranks compare what they are about to do
INLINE = 3904  # bytes of data that travel with it
SMALL = 32 << 10  # bytes up to which a reduction is one round, in which every rank gets all parts


class Collectives:
    """See Communicator."""

    def __init__(self, transport: Any, order: str) -> None:
        self._transport, self.order = transport, order
        self.rank: int = transport.rank
        self.size: int = transport.size
        self._lock = threading.Lock()
        self._jobs: list[Future] = []
        self._worker: ThreadPoolExecutor | None = None
        self.sent = 0  # bytes of data that this rank has sent

    # ---- agreement and order -----------------------------------------------------------------------------------------
    def _agree(self, label: str, payload: np.ndarray | None = None) -> np.ndarray:
        """Raises on every rank if the ranks do not have the same label. Returns the payloads [size, INLINE] of all."""
        mine, what = packet(label, payload), re.split("[ (]", label, maxsplit=1)[0]
        found = self._transport.exchange(mine, what)
        if (found[:, :LABEL] != mine[:LABEL]).any():
            ranks = "; ".join(f"rank {rank}: {label_of(row)}" for rank, row in enumerate(found))
            raise RuntimeError(f"{what}: the ranks do not compute the same: {ranks}")
        return found[:, LABEL:]

    def _run(self, label: str, function: Callable[[], Any]) -> None:
        """Calls function() when all ranks have agreed on the label."""
        with self._lock:
            self._agree(label)
            function()

    def _start(self, function: Callable[[], Any]) -> Future:
        """Queues a collective, which runs while the caller goes on; without threads it runs before this returns."""
        if not self._transport.threaded:  # one rank, or an MPI that takes calls from one thread at a time
            done: Future = Future()
            done.set_result(function())
            return done
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "ggml.distributed")
        job = self._worker.submit(function)
        self._jobs.append(job)
        return job

    def _finish_jobs(self) -> None:
        """Waits for the queue, so that all ranks keep one order. A job that failed raises where its result is used."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.exception()

    # ---- collectives -------------------------------------------------------------------------------------------------
    def _reduce_all(self, label: str, x: np.ndarray, out: np.ndarray, op: str, kind: int, order: str) -> None:
        """out = the reduction of x over all ranks; x and out may be the same array. Sends 2 (N - 1) / N of x's bytes.

        In rank order each rank receives its share from all ranks, reduces it, and all ranks collect the shares. Where
        latency counts more than bytes, all ranks collect everything and reduce it: (N - 1) times the bytes.
        """
        n, size, transport = x.size, self.size, self._transport
        if size > 1 and order == "mpi" and kind in (ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32):
            send = x.copy() if x is out else x
            self.sent += 2 * x.nbytes * (size - 1) // size
            self._run(label, lambda: transport.all_reduce(send, out, op, "all_reduce"))
        elif size == 1 or x.nbytes <= SMALL:
            parts = np.empty((size, n), x.dtype)
            self._gather_all(label, x, parts.reshape(-1), [n] * size)
            reduce(parts, out, op, kind)
        else:
            sizes = shares(n, size)
            mine = np.empty(sizes[self.rank], x.dtype)
            self._reduce_shares(label, x, mine, sizes, op, kind)
            self.sent += mine.nbytes * (size - 1)
            transport.all_gather(mine, out, [k * x.itemsize for k in sizes], "all_reduce")

    def _reduce_shares(
        self, label: str, x: np.ndarray, out: np.ndarray, sizes: Sequence[int], op: str, kind: int
    ) -> None:
        """out = this rank's share of the reduction of x over all ranks; sizes[rank] elements each."""
        parts = np.empty((self.size, sizes[self.rank]), x.dtype)
        sent = [k * x.itemsize for k in sizes]
        self.sent += x.nbytes - sent[self.rank]
        received = [sent[self.rank]] * self.size
        self._run(label, lambda: self._transport.all_to_all(x, sent, parts, received, "reduce_scatter"))
        reduce(parts, out, op, kind)

    def _gather_all(self, label: str, x: np.ndarray, out: np.ndarray, sizes: Sequence[int]) -> None:
        """out = what the ranks have, one after the other: sizes[rank] elements. Few bytes travel with the label."""
        self.sent += x.nbytes * (self.size - 1)
        counts = [k * x.itemsize for k in sizes]
        if max(counts) > INLINE:
            self._run(label, lambda: self._transport.all_gather(x, out, counts, "all_gather"))
            return
        with self._lock:
            found = self._agree(label, x)
        target, first = out.view(np.uint8), 0
        for row, count in zip(found, counts, strict=True):
            target[first : first + count] = row[:count]
            first += count

    def _exchange_all(self, label: str, x: np.ndarray, out: np.ndarray) -> None:
        """Part r of x [size, ...] goes to rank r; out[r] is what rank r sent."""
        part = x.nbytes // self.size
        self.sent += x.nbytes - part
        counts = [part] * self.size
        self._run(label, lambda: self._transport.all_to_all(x, counts, out, counts, "all_to_all"))

    def _reduce_to(self, label: str, x: np.ndarray, out: np.ndarray, root: int, kind: int) -> None:
        """At the root, out = the sum of x over all ranks; elsewhere 0."""
        parts = np.empty((self.size, x.size), x.dtype) if self.rank == root else None
        self.sent += x.nbytes * (self.rank != root)
        self._run(label, lambda: self._transport.gather(x, parts, root, "broadcast"))
        if parts is None:
            out[...] = 0
        else:
            reduce(parts, out, "sum", kind)

    def _broadcast(self, label: str, x: np.ndarray, root: int) -> None:
        """x = what it is at the root."""
        self.sent += x.nbytes * (self.size - 1) * (self.rank == root)  # at most: other ranks may pass it on
        self._run(label, lambda: self._transport.broadcast(x, root, "broadcast"))

    def _send(self, label: str, x: np.ndarray, dest: int, tag: int) -> None:
        with self._lock:
            self.sent += x.nbytes
            self._transport.send(packet(label)[:LABEL], x, dest, tag, "send")

    def _receive(self, label: str, out: np.ndarray, source: int, tag: int) -> None:
        with self._lock:
            found = np.empty(LABEL, np.uint8)
            self._transport.receive(found, source, tag, "recv")
            if (found != packet(label)[:LABEL]).any():
                raise RuntimeError(f"recv: rank {self.rank} waits for {label}, rank {source} sent {label_of(found)}")
            self._transport.receive(out, source, tag, "recv")

    # ---- for programs ------------------------------------------------------------------------------------------------
    def barrier(self) -> None:
        """Waits until all ranks have called it.

        Raises:
            RuntimeError: another rank has ended, or called something else.
        """
        self.agree("barrier")

    def agree(self, label: str) -> None:
        """Compares a text between the ranks.

        Args:
            label: what must be equal on all ranks, such as the sizes of a program's data.
        Raises:
            RuntimeError: on every rank, if the texts differ; the message has the beginning of each.
        """
        self._finish_jobs()
        with self._lock:
            self._agree(label)

    def share(self, values: np.ndarray, root: int = 0) -> np.ndarray:
        """Gives all ranks the root's values of an array.

        Args:
            values: array of any type, with the same shape on all ranks; only the root's values count.
            root: rank whose values all get.
        Returns:
            New array.
        Raises:
            RuntimeError: shapes or types differ between ranks, or another rank has ended.
        """
        out = np.array(values, order="C")
        label = f"share {out.dtype.str} {list(out.shape)} of rank {root}"
        self._finish_jobs()
        self._broadcast(label, out, root)
        return out

    def collect(self, values: np.ndarray) -> np.ndarray:
        """Gives all ranks the arrays of all ranks.

        Args:
            values: array of any type, with the same shape on all ranks.
        Returns:
            New array [size, ...], in the order of the ranks.
        Raises:
            RuntimeError: shapes or types differ between ranks, or another rank has ended.
        """
        values = np.ascontiguousarray(values)
        out = np.empty((self.size, *values.shape), values.dtype)
        label = f"collect {values.dtype.str} {list(values.shape)}"
        self._finish_jobs()
        self._gather_all(label, values.reshape(-1), out.reshape(-1), [values.size] * self.size)
        return out


def packet(label: str, payload: np.ndarray | None = None) -> np.ndarray:
    """A label as LABEL bytes, a checksum of all of it and its beginning, and INLINE bytes for data."""
    text = label.encode()
    out = np.zeros(LABEL + INLINE, np.uint8)
    raw = crc32(text).to_bytes(4, "little") + text[: LABEL - 4]
    out[: len(raw)] = np.frombuffer(raw, np.uint8)
    if payload is not None:
        out[LABEL : LABEL + payload.nbytes] = payload.view(np.uint8)
    return out


def label_of(row: np.ndarray) -> str:
    return row[4:LABEL].tobytes().rstrip(b"\0").decode(errors="replace")


def elements(tensor: Any) -> np.ndarray:
    """The elements of a contiguous tensor as a flat array over its memory, not a copy."""
    t = tensor.contents
    dtype = DTYPES[t.type]
    n = ggml.ggml_nelements(tensor)
    memory: Any = (ctypes.c_uint8 * (n * dtype.itemsize)).from_address(t.data)
    return np.frombuffer(memory, dtype)
