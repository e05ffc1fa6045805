"""Collectives on NumPy arrays: what the nodes of graphs compute, the check that all ranks do the same, and the queue.

Arrays are contiguous; bf16 is seen as bits (uint16). All ranks call the same methods in the same order.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from zlib import crc32

import numpy as np

import ggml

from ._reduce import DTYPES, reduce, shares

PACKET = 192  # bytes of the text by which ranks compare what they are about to do
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
    def _run(self, label: str, function: Callable[[], Any]) -> Any:
        """Calls function() after the jobs of the queue, when all ranks have agreed on the label."""
        self._finish_jobs()
        return self._agreed(label, function)

    def _agreed(self, label: str, function: Callable[[], Any]) -> Any:
        with self._lock:
            self._agree(label)
            return function()

    def _agree(self, label: str) -> None:
        """Raises on every rank if the ranks do not have the same label."""
        if self.size == 1:
            return
        mine = packet(label)
        found = self._transport.exchange(mine, label.partition(" ")[0])
        if (found != mine).any():
            texts = [label_of(row) for row in found]
            ranks = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
            raise RuntimeError(f"{label.partition(' ')[0]}: the ranks do not compute the same: {ranks}")

    def _start(self, label: str, function: Callable[[], Any]) -> Future:
        """Queues a collective, which runs while the caller goes on; the result raises what it raised."""
        if not self._transport.threaded:  # one rank, or an MPI that takes calls from one thread at a time
            done: Future = Future()
            done.set_result(self._run(label, function))
            return done
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "ggml.distributed")
        job = self._worker.submit(self._agreed, label, function)
        self._jobs.append(job)
        return job

    def _finish_jobs(self) -> None:
        """Waits for the queue, so that all ranks keep one order. A job that failed raises where its result is used."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.exception()

    # ---- collectives -------------------------------------------------------------------------------------------------
    def _reduce_all(self, x: np.ndarray, out: np.ndarray, op: str, kind: int, order: str, what: str) -> None:
        """out = the reduction of x over all ranks; x and out may be the same array. Sends 2 (N - 1) / N of x's bytes.

        In rank order each rank receives its share from all ranks, reduces it, and all ranks collect the shares. Where
        latency counts more than bytes, all ranks collect everything and reduce it: (N - 1) times the bytes.
        """
        n, size, transport = x.size, self.size, self._transport
        if size > 1 and order == "mpi" and kind in (ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32):
            send = x.copy() if x is out else x
            self.sent += 2 * x.nbytes * (size - 1) // size
            transport.all_reduce(send, out, op, what)
        elif size == 1 or x.nbytes <= SMALL:
            parts = np.empty((size, n), x.dtype)
            self.sent += x.nbytes * (size - 1)
            transport.all_gather(x, parts, [x.nbytes] * size, what)
            reduce(parts, out, op, kind)
        else:
            sizes = shares(n, size)
            mine = np.empty(sizes[self.rank], x.dtype)
            self._reduce_shares(x, mine, sizes, op, kind, what)
            counts = [k * x.itemsize for k in sizes]
            self.sent += mine.nbytes * (size - 1)
            transport.all_gather(mine, out, counts, what)

    def _reduce_shares(
        self, x: np.ndarray, out: np.ndarray, sizes: Sequence[int], op: str, kind: int, what: str
    ) -> None:
        """out = this rank's share of the reduction of x over all ranks; sizes[rank] elements each."""
        parts = np.empty((self.size, sizes[self.rank]), x.dtype)
        sent = [k * x.itemsize for k in sizes]
        self.sent += x.nbytes - sent[self.rank]
        self._transport.all_to_all(x, sent, parts, [sent[self.rank]] * self.size, what)
        reduce(parts, out, op, kind)

    def _gather_all(self, x: np.ndarray, out: np.ndarray, sizes: Sequence[int], what: str) -> None:
        """out = what all ranks have, one after the other; sizes[rank] elements each."""
        self.sent += x.nbytes * (self.size - 1)
        self._transport.all_gather(x, out, [k * x.itemsize for k in sizes], what)

    def _exchange_all(self, x: np.ndarray, out: np.ndarray, what: str) -> None:
        """Part r of x [size, ...] goes to rank r; out[r] is what rank r sent."""
        part = x.nbytes // self.size
        self.sent += x.nbytes - part
        self._transport.all_to_all(x, [part] * self.size, out, [part] * self.size, what)

    def _reduce_to(self, x: np.ndarray, out: np.ndarray, root: int, kind: int, what: str) -> None:
        """At the root, out = the sum of x over all ranks; elsewhere 0."""
        parts = np.empty((self.size, x.size), x.dtype) if self.rank == root else None
        self.sent += x.nbytes * (self.rank != root)
        self._transport.gather(x, parts, root, what)
        if parts is None:
            out[...] = 0
        else:
            reduce(parts, out, "sum", kind)

    def _send(self, label: str, x: np.ndarray, dest: int, tag: int) -> None:
        self._finish_jobs()
        with self._lock:
            self.sent += x.nbytes
            self._transport.send(packet(label), x, dest, tag, "send")

    def _receive(self, label: str, out: np.ndarray, source: int, tag: int) -> None:
        self._finish_jobs()
        with self._lock:
            found = np.empty(PACKET, np.uint8)
            self._transport.receive(found, source, tag, "recv")
            if (found != packet(label)).any():
                raise RuntimeError(f"recv: rank {self.rank} waits for {label}, rank {source} sent {label_of(found)}")
            self._transport.receive(out, source, tag, "recv")

    # ---- for programs ------------------------------------------------------------------------------------------------
    def barrier(self) -> None:
        """Waits until all ranks have called it.

        Raises:
            RuntimeError: another rank has ended, or called something else.
        """
        self._run("barrier", lambda: None)

    def agree(self, label: str) -> None:
        """Compares a text between the ranks.

        Args:
            label: what must be equal on all ranks, such as the sizes of a program's data.
        Raises:
            RuntimeError: on every rank, if the texts differ; the message has the beginning of each.
        """
        self._run(label, lambda: None)

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
        self._run(label, lambda: self._transport.broadcast(out, root, "share"))
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
        sizes = [values.size] * self.size
        self._run(label, lambda: self._gather_all(values.reshape(-1), out.reshape(-1), sizes, "collect"))
        return out


def packet(label: str) -> np.ndarray:
    """A label as bytes of fixed size: a checksum of all of it, and its beginning."""
    text = label.encode()
    raw = crc32(text).to_bytes(4, "little") + text[: PACKET - 4]
    return np.frombuffer(raw.ljust(PACKET, b"\0"), np.uint8)


def label_of(row: np.ndarray) -> str:
    return row[4:].tobytes().rstrip(b"\0").decode(errors="replace")


def elements(tensor: Any) -> np.ndarray:
    """The elements of a contiguous tensor as a flat array over its memory, not a copy."""
    t = tensor.contents
    dtype = DTYPES[t.type]
    n = ggml.ggml_nelements(tensor)
    memory = (ctypes.c_uint8 * (n * dtype.itemsize)).from_address(t.data)
    return np.frombuffer(memory, dtype)
