"""How bytes get from rank to rank: by MPI, or not at all where there is one rank.

Each method is a generator of steps (see Steps), whose buffers are NumPy arrays of bytes. Arrays that are sent belong to
the operation: nobody writes to them later. Arrays that are received are new ones.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._progress import COLLECTIVE, Operation, Progress, Steps
from ._reduce import shares
from ._round import Round, reported


class Alone:
    """The transport of one rank, without MPI."""

    rank, size = 0, 1
    timeout = None

    def start(self, what: str, steps: Steps, lane: Any = COLLECTIVE) -> Operation:
        """Carries out an operation, which never waits."""
        operation = Operation(what, lane, steps)
        operation.advance()
        return operation

    def exchange(self, packet: np.ndarray) -> Steps:
        yield from ()
        return packet[None]

    def all_gather(self, send: np.ndarray, counts: Sequence[int]) -> Steps:
        yield from ()
        return send

    def all_to_all(self, send: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> Steps:
        yield from ()
        return send

    def gather(self, send: np.ndarray, root: int) -> Steps:
        yield from ()
        return send[None]

    def broadcast(self, memory: np.ndarray, root: int) -> Steps:
        yield from ()
        return memory

    def threads(self, available: set[int]) -> int:
        return len(available)


class Mpi:
    """The transport over MPI.

    Three duplicates of the communicator keep apart collectives, messages between two ranks, and the messages by which
    ranks tell each other that they end.

    Args:
        communicator: mpi4py communicator; all its ranks must create the transport.
        timeout: seconds after which waiting for other ranks raises, or None.
    """

    def __init__(self, communicator: Any, timeout: float | None) -> None:
        from mpi4py import MPI

        if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
            raise RuntimeError("mpi: MPI was initialised for calls from one thread only: need MPI_THREAD_SERIALIZED")
        self.MPI, self.timeout = MPI, timeout
        self._calls = CALLS if MPI.Query_thread() < MPI.THREAD_MULTIPLE else contextlib.nullcontext()
        with self._calls:
            self.data, self.pairs, control = (communicator.Dup() for _ in range(3))
        self.rank, self.size = self.data.Get_rank(), self.data.Get_size()
        self.progress = Progress(MPI, control, self._calls)
        watch_the_end(self)

    def start(self, what: str, steps: Steps, lane: Any = COLLECTIVE) -> Operation:
        """Starts an operation; its wait(timeout) returns the result."""
        return self.progress.start(what, lane, steps)

    # ---- collectives -------------------------------------------------------------------------------------------------
    def exchange(self, packet: np.ndarray) -> Steps:
        """The packets of all ranks: [size, len(packet)]. After round i a rank has those of 2**i ranks."""
        found = np.empty((self.size, packet.size), np.uint8)  # the first is this rank's, the next that of the next rank
        found[0], count = packet, 1
        while count < self.size:
            n = min(count, self.size - count)
            messages = self._round()
            messages.receive(found[count : count + n], (self.rank + count) % self.size)
            messages.send(found[:n], (self.rank - count) % self.size)
            yield messages.ended
            count += n
        return np.roll(found, self.rank, 0)

    def all_gather(self, send: np.ndarray, counts: Sequence[int]) -> Steps:
        """What the ranks send, counts[rank] bytes each, one after the other."""
        source = send.reshape(-1).view(np.uint8)
        return (yield from self._swap([source] * self.size, counts))

    def all_to_all(self, send: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> Steps:
        """Sends consecutive parts of sent[rank] bytes to the ranks. Returns received[rank] bytes from each."""
        return (yield from self._swap(parts(send.reshape(-1).view(np.uint8), sent), received))

    def _swap(self, sent: Sequence[np.ndarray], received: Sequence[int], ranks: Sequence[int] | None = None) -> Steps:
        """Sends sent[i] to rank i. Returns received[i] bytes of each, one after the other.

        Args:
            sent, received: for each of the ranks that take part.
            ranks: these, of which this rank is one; None for all.
        """
        ranks = range(self.size) if ranks is None else ranks
        target, mine, count = np.empty(sum(received), np.uint8), ranks.index(self.rank), len(ranks)
        places, messages = parts(target, received), self._round()
        for step in range(1, count):
            peer = (mine - step) % count
            messages.receive(places[peer], ranks[peer])
        places[mine][...] = sent[mine]
        for step in range(1, count):
            peer = (mine + step) % count
            messages.send(sent[peer], ranks[peer])
        yield messages.ended
        return target

    def gather(self, send: np.ndarray, root: int) -> Steps:
        """At the root what the ranks send, [size, bytes], equally many bytes each; elsewhere None."""
        messages, source = self._round(), send.reshape(-1).view(np.uint8)
        if self.rank != root:
            messages.send(source, root)
            yield messages.ended
            return None
        out = np.empty((self.size, send.nbytes), np.uint8)
        out[root] = source
        for rank in others(self.size, root):
            messages.receive(out[rank], rank)
        yield messages.ended
        return out

    def broadcast(self, memory: np.ndarray, root: int) -> Steps:
        """The root's bytes: it sends each other rank a part, and these gather the parts."""
        ranks = others(self.size, root)
        source = memory.reshape(-1).view(np.uint8)
        counts, messages = shares(source.size, len(ranks)), self._round()
        if self.rank == root:
            for rank, part in zip(ranks, parts(source, counts), strict=True):
                messages.send(part, rank)
            yield messages.ended
            return memory
        part = np.empty(counts[ranks.index(self.rank)], np.uint8)
        messages.receive(part, root)
        yield messages.ended
        found = yield from self._swap([part] * len(ranks), counts, ranks)
        return found.view(memory.dtype).reshape(memory.shape)

    def all_reduce(self, send: np.ndarray, op: str) -> Steps:
        """The reduction of MPI, in an order of its own choice: f32 or i32 arrays; op is sum, max or min.

        It may end with success although a rank died. So the ranks tell each other twice that they have the result: who
        sent the second packet was alive when all had it.
        """
        operation = {"sum": self.MPI.SUM, "max": self.MPI.MAX, "min": self.MPI.MIN}[op]
        out, messages = np.empty_like(send), self._round()
        messages.start(lambda: self.data.Iallreduce(send, out, operation), others(self.size, self.rank))
        yield messages.ended
        for _ in range(2):
            yield from self.exchange(np.zeros(1, np.uint8))
        return out

    def _round(self) -> Round:
        return Round(self.MPI, self.data)

    # ---- messages between two ranks ----------------------------------------------------------------------------------
    def send(self, message: np.ndarray, dest: int, tag: int) -> Steps:
        messages = Round(self.MPI, self.pairs)
        messages.send(message, dest, tag)
        yield messages.ended

    def receive(self, source: int, tag: int) -> Steps:
        """The next message, whatever its size."""
        found, status = [], self.MPI.Status()

        def arrived() -> bool:
            with reported(self.MPI, [source]):
                message = self.pairs.Improbe(source, tag, status)
            if message is not None:
                found.append(message)
            return bool(found)

        yield arrived
        out, messages = np.empty(status.Get_count(self.MPI.BYTE), np.uint8), Round(self.MPI, self.pairs)
        messages.start(lambda: found[0].Irecv([out, self.MPI.BYTE]), [source], out.nbytes)
        yield messages.ended
        return out

    def threads(self, available: set[int]) -> int:
        """This rank's share of the CPUs on which it may run: ranks of one machine share theirs."""
        with self._calls:
            local = self.data.Split_type(self.MPI.COMM_TYPE_SHARED)
            users = [cpu for cpus in local.allgather(available) for cpu in cpus]
            local.Free()
        return max(1, int(sum(1 / users.count(cpu) for cpu in available) + 1e-6))


def parts(memory: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    """Consecutive parts of counts[i] elements each."""
    places = itertools.accumulate(counts)
    return [memory[place - count : place] for place, count in zip(places, counts, strict=True)]


def others(size: int, rank: int) -> list[int]:
    """The other ranks, from that after `rank` on, so that not all ranks turn to the same one first."""
    return [(rank + step) % size for step in range(1, size)]


# ---- the end of this process -----------------------------------------------------------------------------------------
CALLS = threading.Lock()  # held during calls of MPI, if the library takes them from one thread at a time only
transports: list[Mpi] = []


def watch_the_end(transport: Mpi) -> None:
    """Sees to it that the ranks of a transport learn when this process ends, and why."""
    transports.append(transport)
    if len(transports) > 1:
        return
    previous = sys.excepthook

    def report(kind: Any, error: Any, trace: Any) -> None:
        for transport in transports:
            transport.progress.reason = f"{kind.__name__}: {error}"
        previous(kind, error, trace)

    sys.excepthook = report
    for _ in range(2):  # the second call finishes what an interrupt of the first one left: no thread may outlive MPI
        atexit.register(close_all)


def close_all() -> None:
    """Ends this rank's part: tells the others and waits for them. After a failure it ends all ranks.

    Ctrl-C in the meantime is a failure.
    """
    if transports[0].MPI.Is_finalized():
        return
    for transport in transports:  # first tell the ranks of all: they may wait for this one in any of them
        transport.progress.close()
    for transport in transports:
        transport.progress.join()
    for transport in transports:
        if transport.progress.reason is not None and transport.size > 1:
            sys.stdout.flush()
            sys.stderr.flush()
            transport.data.Abort(1)


def started_by_launcher() -> bool:
    """Whether the environment says that this process is one of several ranks."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS", "PALS_NRANKS"):
        if os.environ.get(name, "1").isdigit() and int(os.environ.get(name, "1")) > 1:
            return True
    return "PMIX_RANK" in os.environ or "PMI_RANK" in os.environ
