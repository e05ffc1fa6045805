"""Collectives on NumPy arrays: what the nodes of graphs compute, and the check that all ranks do the same.

Arrays are contiguous; bf16 is seen as bits (uint16). All ranks call the same methods in the same order.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

import ggml

from ._progress import COLLECTIVE, Lane, Operation, Steps
from ._reduce import DTYPES, reduced, shares

LABEL = 192  # bytes of the text by which ranks compare what they are about to do
INLINE = 3904  # bytes of data that travel with it
SMALL = 32 << 10  # bytes up to which a reduction is one round, in which every rank gets all parts


class Collectives:
    """See Communicator.

    Methods that return Steps are carried out by the transport. Their operands belong to it: flat arrays that nobody
    writes to afterwards. Their results are new flat arrays.
    """

    def __init__(self, transport: Any, order: str) -> None:
        self._transport, self.order = transport, order
        self.rank: int = transport.rank
        self.size: int = transport.size
        self.sent = 0  # bytes of data that this rank has sent

    # ---- agreement and order -----------------------------------------------------------------------------------------
    def _agree(self, label: str, payload: np.ndarray | None = None) -> Steps:
        """Raises on every rank if the ranks do not have the same label. Returns the payloads [size, INLINE] of all."""
        mine = packet(label, payload)
        found = yield from self._transport.exchange(mine)
        if (found[:, :LABEL] != mine[:LABEL]).any():
            ranks = "; ".join(f"rank {rank}: {label_of(row)}" for rank, row in enumerate(found))
            raise RuntimeError(f"{caller_of(label)}: the ranks do not compute the same: {ranks}")
        return found[:, LABEL:]

    def _start(self, label: str, steps: Steps, lane: Lane = COLLECTIVE) -> Operation:
        """Starts an operation. It takes place after those of its lane that were started before."""
        return self._transport.start(caller_of(label) if lane == COLLECTIVE else lane[0], steps, lane)

    def _wait(self, operation: Operation) -> Any:
        """The result of an operation. If waiting raises, the operation takes place all the same."""
        return operation.wait(self._transport.timeout)

    def _run(self, label: str, steps: Steps, lane: Lane = COLLECTIVE) -> Any:
        return self._wait(self._start(label, steps, lane))

    # ---- collectives -------------------------------------------------------------------------------------------------
    def _reduce_all(self, label: str, x: np.ndarray, op: str, kind: int, order: str) -> Steps:
        """The reduction of x over all ranks. Sends 2 (N - 1) / N of x's bytes.

        In rank order each rank receives its share from all ranks, reduces it, and all ranks collect the shares. Where
        latency counts more than bytes, all ranks collect everything and reduce it: (N - 1) times the bytes.
        """
        n, size = x.size, self.size
        if size > 1 and order == "mpi" and kind in (ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32):
            self.sent += 2 * x.nbytes * (size - 1) // size
            yield from self._agree(label)
            return (yield from self._transport.all_reduce(x, op))
        if size == 1 or x.nbytes <= SMALL:
            parts = yield from self._gather_all(label, x, [n] * size)
            return reduced(parts.reshape(size, n), op, kind)
        sizes = shares(n, size)
        mine = yield from self._reduce_shares(label, x, sizes, op, kind)
        self.sent += mine.nbytes * (size - 1)
        return (yield from self._transport.all_gather(mine, [k * x.itemsize for k in sizes])).view(x.dtype)

    def _reduce_shares(self, label: str, x: np.ndarray, sizes: Sequence[int], op: str, kind: int) -> Steps:
        """This rank's share of the reduction of x over all ranks; sizes[rank] elements each."""
        sent = [k * x.itemsize for k in sizes]
        self.sent += x.nbytes - sent[self.rank]
        yield from self._agree(label)
        parts = yield from self._transport.all_to_all(x, sent, [sent[self.rank]] * self.size)
        return reduced(parts.view(x.dtype).reshape(self.size, -1), op, kind)

    def _gather_all(self, label: str, x: np.ndarray, sizes: Sequence[int]) -> Steps:
        """What the ranks have, one after the other: sizes[rank] elements. Few bytes travel with the label."""
        self.sent += x.nbytes * (self.size - 1)
        counts = [k * x.itemsize for k in sizes]
        if max(counts) > INLINE:
            yield from self._agree(label)
            return (yield from self._transport.all_gather(x, counts)).view(x.dtype)
        found = yield from self._agree(label, x)
        return np.concatenate([row[:count] for row, count in zip(found, counts, strict=True)]).view(x.dtype)

    def _exchange_all(self, label: str, x: np.ndarray) -> Steps:
        """Part r of x [size, ...] goes to rank r; part r of the result is what rank r sent."""
        part = x.nbytes // self.size
        self.sent += x.nbytes - part
        counts = [part] * self.size
        yield from self._agree(label)
        return (yield from self._transport.all_to_all(x, counts, counts)).view(x.dtype)

    def _reduce_to(self, label: str, x: np.ndarray, root: int, kind: int) -> Steps:
        """At the root, the sum of x over all ranks; elsewhere 0."""
        self.sent += x.nbytes * (self.rank != root)
        yield from self._agree(label)
        parts = yield from self._transport.gather(x, root)
        return np.zeros_like(x) if parts is None else reduced(parts.view(x.dtype), "sum", kind)

    def _broadcast(self, label: str, x: np.ndarray, root: int) -> Steps:
        """What x is at the root."""
        others = self.size - 1  # each gets a part and passes it on to the rest
        self.sent += x.nbytes if self.rank == root and others else x.nbytes * max(0, others - 1) // max(1, others)
        yield from self._agree(label)
        return (yield from self._transport.broadcast(x, root))

    # ---- messages between two ranks ----------------------------------------------------------------------------------
    def _send(self, label: str, x: np.ndarray, dest: int, tag: int) -> Steps:
        self.sent += x.nbytes
        yield from self._transport.send(np.concatenate([packet(label)[:LABEL], x.view(np.uint8)]), dest, tag)
        return 0

    def _receive(self, label: str, dtype: np.dtype, source: int, tag: int) -> Steps:
        """What a rank sends with this label."""
        found = yield from self._transport.receive(source, tag)
        if (found[:LABEL] != packet(label)[:LABEL]).any():
            raise RuntimeError(f"recv: rank {self.rank} waits for {label}, rank {source} sent {label_of(found)}")
        return found[LABEL:].view(dtype)

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
        self._run(label, self._agree(label))

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
        values = np.array(values, order="C")
        label = f"share {values.dtype.str} {list(values.shape)} of rank {root}"
        return self._run(label, self._broadcast(label, values, root))

    def collect(self, values: np.ndarray) -> np.ndarray:
        """Gives all ranks the arrays of all ranks.

        Args:
            values: array of any type, with the same shape on all ranks.
        Returns:
            New array [size, ...], in the order of the ranks.
        Raises:
            RuntimeError: shapes or types differ between ranks, or another rank has ended.
        """
        values = np.array(values, order="C")
        label = f"collect {values.dtype.str} {list(values.shape)}"
        parts = self._run(label, self._gather_all(label, values.reshape(-1), [values.size] * self.size))
        return parts.reshape(self.size, *values.shape)


def packet(label: str, payload: np.ndarray | None = None) -> np.ndarray:
    """A label as LABEL bytes, a checksum of all of it and its beginning, and INLINE bytes for data."""
    text = label.encode()
    out = np.zeros(LABEL + INLINE, np.uint8)
    raw = crc32(text).to_bytes(4, "little") + text[: LABEL - 4]
    out[: len(raw)] = np.frombuffer(raw, np.uint8)
    if payload is not None:
        out[LABEL : LABEL + payload.nbytes] = payload.view(np.uint8)
    return out


def caller_of(label: str) -> str:
    """The name with which messages about a label begin."""
    return re.split("[ (]", label, maxsplit=1)[0]


def label_of(row: np.ndarray) -> str:
    return row[4:LABEL].tobytes().rstrip(b"\0").decode(errors="replace")


def elements(tensor: Any) -> np.ndarray:
    """The elements of a contiguous tensor as a flat array over its memory, not a copy."""
    t = tensor.contents
    dtype = DTYPES[t.type]
    n = ggml.ggml_nelements(tensor)
    memory: Any = (ctypes.c_uint8 * (n * dtype.itemsize)).from_address(t.data)
    return np.frombuffer(memory, dtype)
