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
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._progress import COLLECTIVE, Operation, Progress, Steps


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
        """The packets of all ranks: [size, len(packet)]."""
        out = np.empty((self.size, packet.size), np.uint8)
        yield self._ended(self.data.Iallgather(self._bytes(packet), self._bytes(out)))
        return out

    def all_gather(self, send: np.ndarray, counts: Sequence[int]) -> Steps:
        """What the ranks send, counts[rank] bytes each, one after the other."""
        out = np.empty(sum(counts), np.uint8)
        yield self._ended(self.data.Iallgatherv(self._bytes(send), [out, list(counts), self.MPI.BYTE]))
        return out

    def all_to_all(self, send: np.ndarray, sent: Sequence[int], received: Sequence[int]) -> Steps:
        """Sends consecutive parts of sent[rank] bytes to the ranks. Returns received[rank] bytes from each.

        These are messages between two ranks, because libraries send a rank's part for itself over the network too.
        """
        source, target = send.reshape(-1).view(np.uint8), np.empty(sum(received), np.uint8)
        first, place = ([0, *itertools.accumulate(counts)] for counts in (sent, received))
        requests = []
        for step in range(1, self.size):
            peer = (self.rank - step) % self.size
            part = target[place[peer] : place[peer + 1]]
            requests.append(self.data.Irecv(self._bytes(part), peer))
        target[place[self.rank] : place[self.rank + 1]] = source[first[self.rank] : first[self.rank + 1]]
        for step in range(1, self.size):
            peer = (self.rank + step) % self.size
            requests.append(self.data.Isend(self._bytes(source[first[peer] : first[peer + 1]]), peer))
        yield self._ended(*requests)
        return target

    def gather(self, send: np.ndarray, root: int) -> Steps:
        """At the root what the ranks send, [size, bytes], equally many bytes each; elsewhere None."""
        out = np.empty((self.size, send.nbytes), np.uint8) if self.rank == root else None
        target = None if out is None else self._bytes(out)
        yield self._ended(self.data.Igather(self._bytes(send), target, root))
        return out

    def broadcast(self, memory: np.ndarray, root: int) -> Steps:
        """The root's bytes, which arrive in `memory`."""
        yield self._ended(self.data.Ibcast(self._bytes(memory), root))
        return memory

    def all_reduce(self, send: np.ndarray, op: str) -> Steps:
        """The reduction of MPI, in an order of its own choice: f32 or i32 arrays; op is sum, max or min."""
        operation = {"sum": self.MPI.SUM, "max": self.MPI.MAX, "min": self.MPI.MIN}[op]
        out = np.empty_like(send)
        yield self._ended(self.data.Iallreduce(send, out, operation))
        return out

    # ---- messages between two ranks ----------------------------------------------------------------------------------
    def send(self, message: np.ndarray, dest: int, tag: int) -> Steps:
        yield self._ended(self.pairs.Isend(self._bytes(message), dest, tag))

    def receive(self, source: int, tag: int) -> Steps:
        """The next message, whatever its size."""
        found, status = [], self.MPI.Status()

        def arrived() -> bool:
            message = self.pairs.Improbe(source, tag, status)
            if message is not None:
                found.append(message)
            return bool(found)

        yield arrived
        out = np.empty(status.Get_count(self.MPI.BYTE), np.uint8)
        yield self._ended(found[0].Irecv(self._bytes(out)))
        return out

    # ---- MPI's requests and buffers ----------------------------------------------------------------------------------
    def _ended(self, *requests: Any) -> Callable[[], bool]:
        """A function that tells whether requests have ended. It keeps them and with them their buffers."""
        return lambda: self.MPI.Request.Testall(requests)

    def _bytes(self, memory: np.ndarray) -> list[Any]:
        return [memory.reshape(-1).view(np.uint8), self.MPI.BYTE]

    def threads(self, available: set[int]) -> int:
        """This rank's share of the CPUs on which it may run: ranks of one machine share theirs."""
        with self._calls:
            local = self.data.Split_type(self.MPI.COMM_TYPE_SHARED)
            users = [cpu for cpus in local.allgather(available) for cpu in cpus]
            local.Free()
        return max(1, int(sum(1 / users.count(cpu) for cpu in available) + 1e-6))


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
