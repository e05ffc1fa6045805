"""How bytes get from rank to rank: by MPI, or not at all where there is one rank.

All buffers are NumPy arrays of bytes. Calls wait by polling with pauses, not in MPI: so waiting costs no CPU time that
other ranks of the same machine need, Ctrl-C works, and the end of another rank is noticed.
"""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

END = 1  # tag of the message that a rank sends when it ends
GRACE = 3.0  # seconds that a rank which failed waits for the others to report, before it ends all of them
LARGEST_MESSAGE = 512  # bytes of the reason that the message names


class Alone:
    """The transport of one rank, without MPI."""

    rank, size, threaded = 0, 1, False

    def exchange(self, packet: np.ndarray, what: str) -> np.ndarray:
        return packet[None]

    def all_gather(self, send: np.ndarray, receive: np.ndarray, counts: Sequence[int], what: str) -> None:
        receive[...] = send

    def all_to_all(
        self, send: np.ndarray, sent: Sequence[int], receive: np.ndarray, received: Sequence[int], what: str
    ) -> None:
        receive[...] = send

    def gather(self, send: np.ndarray, receive: np.ndarray | None, root: int, what: str) -> None:
        assert receive is not None
        receive[...] = send

    def broadcast(self, memory: np.ndarray, root: int, what: str) -> None:
        """Nothing to do: the root has the values."""

    def threads(self, available: set[int]) -> int:
        return len(available)

    def close(self) -> None:
        """Nothing to do."""


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
        self.threaded = MPI.Query_thread() >= MPI.THREAD_MULTIPLE
        self.data, self.pairs, self.control = (communicator.Dup() for _ in range(3))
        self.rank, self.size = self.data.Get_rank(), self.data.Get_size()
        self.ended: dict[int, str] = {}  # ranks that ended, and why
        self.reason: str | None = None  # why this rank fails
        self._closed = False
        previous = sys.excepthook

        def report(kind: Any, error: Any, trace: Any) -> None:
            self.reason = f"{kind.__name__}: {error}"
            previous(kind, error, trace)

        sys.excepthook = report
        atexit.register(self.close)

    # ---- collectives -------------------------------------------------------------------------------------------------
    def exchange(self, packet: np.ndarray, what: str) -> np.ndarray:
        """The packets of all ranks: [size, len(packet)]."""
        out = np.empty((self.size, packet.size), np.uint8)
        self.wait(self.data.Iallgather(self._bytes(packet), self._bytes(out)), what)
        return out

    def all_gather(self, send: np.ndarray, receive: np.ndarray, counts: Sequence[int], what: str) -> None:
        """Concatenates what the ranks send, counts[rank] bytes each."""
        self.wait(self.data.Iallgatherv(self._bytes(send), self._parts(receive, counts)), what)

    def all_to_all(
        self, send: np.ndarray, sent: Sequence[int], receive: np.ndarray, received: Sequence[int], what: str
    ) -> None:
        """Sends consecutive parts of sent[rank] bytes to the ranks, and receives received[rank] bytes from each.

        These are messages between two ranks, because libraries send a rank's part for itself over the network too.
        """
        source, target = (memory.reshape(-1).view(np.uint8) for memory in (send, receive))
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
        for request in requests:
            self.wait(request, what)

    def gather(self, send: np.ndarray, receive: np.ndarray | None, root: int, what: str) -> None:
        """Concatenates what the ranks send, equally many bytes each, at the root; the others give no `receive`."""
        target = None if receive is None else self._bytes(receive)
        self.wait(self.data.Igather(self._bytes(send), target, root), what)

    def broadcast(self, memory: np.ndarray, root: int, what: str) -> None:
        """Copies the root's bytes to all ranks."""
        self.wait(self.data.Ibcast(self._bytes(memory), root), what)

    def all_reduce(self, send: np.ndarray, receive: np.ndarray, op: str, what: str) -> None:
        """The reduction of MPI, in an order of its own choice: f32 or i32 arrays; op is sum, max or min."""
        operation = {"sum": self.MPI.SUM, "max": self.MPI.MAX, "min": self.MPI.MIN}[op]
        self.wait(self.data.Iallreduce(send, receive, operation), what)

    # ---- messages between two ranks ----------------------------------------------------------------------------------
    def send(self, packet: np.ndarray, memory: np.ndarray, dest: int, tag: int, what: str) -> None:
        """Sends a packet that describes the message, then the message."""
        requests = [self.pairs.Isend(self._bytes(part), dest, tag) for part in (packet, memory)]
        for request in requests:
            self.wait(request, what)

    def receive(self, memory: np.ndarray, source: int, tag: int, what: str) -> None:
        """Receives a packet or a message."""
        self.wait(self.pairs.Irecv(self._bytes(memory), source, tag), what)

    # ---- waiting and failing -----------------------------------------------------------------------------------------
    def wait(self, request: Any, what: str) -> None:
        """Waits for a request. Raises if a rank has ended, or after the timeout."""
        begin, polls = time.monotonic(), 0
        while not request.Test():
            polls += 1
            elapsed = time.monotonic() - begin
            if polls % 16 == 0:
                self.check(what)
                if self.timeout is not None and elapsed > self.timeout:
                    raise RuntimeError(f"{what}: the other ranks did not take part within {self.timeout:g} s")
            time.sleep(0 if polls < 64 else min(1e-3, elapsed / 16))

    def check(self, what: str) -> None:
        """Raises if another rank has ended."""
        self._listen()
        if self.ended:
            ranks = "; ".join(f"rank {rank} {reason}" for rank, reason in sorted(self.ended.items()))
            self.reason = self.reason or f"another rank ended ({ranks})"[:LARGEST_MESSAGE]
            raise RuntimeError(f"{what}: {ranks}")

    def _listen(self) -> None:
        """Receives the messages of ranks that end."""
        status = self.MPI.Status()
        while self.control.Iprobe(self.MPI.ANY_SOURCE, END, status):
            text = bytearray(status.Get_count(self.MPI.BYTE))
            self.control.Recv([text, self.MPI.BYTE], status.Get_source(), END)
            self.ended[status.Get_source()] = text.decode(errors="replace")

    def close(self) -> None:
        """Ends this rank's part: tells the others and waits for them. After a failure it ends all ranks."""
        if self._closed or self.MPI.Is_finalized():
            return
        self._closed = True
        text = "has ended" if self.reason is None else f"raised {self.reason}"
        message = bytearray(text.encode()[:LARGEST_MESSAGE])
        others = [rank for rank in range(self.size) if rank != self.rank]
        requests = [self.control.Isend([message, self.MPI.BYTE], rank, END) for rank in others]
        begin = time.monotonic()
        while len(self.ended) < len(others) and (self.reason is None or time.monotonic() - begin < GRACE):
            self._listen()
            self.MPI.Request.Testall(requests)
            time.sleep(2e-3)
        if self.reason is not None and others:
            sys.stdout.flush()
            sys.stderr.flush()
            self.data.Abort(1)

    # ---- buffers -----------------------------------------------------------------------------------------------------
    def _bytes(self, memory: np.ndarray) -> list[Any]:
        return [memory.reshape(-1).view(np.uint8), self.MPI.BYTE]

    def _parts(self, memory: np.ndarray, counts: Sequence[int]) -> list[Any]:
        return [memory.reshape(-1).view(np.uint8), list(counts), self.MPI.BYTE]

    def threads(self, available: set[int]) -> int:
        """This rank's share of the CPUs on which it may run: ranks of one machine share theirs."""
        local = self.data.Split_type(self.MPI.COMM_TYPE_SHARED)
        users = [cpu for cpus in local.allgather(available) for cpu in cpus]
        local.Free()
        return max(1, int(sum(1 / users.count(cpu) for cpu in available) + 1e-6))


def started_by_launcher() -> bool:
    """Whether the environment says that this process is one of several ranks."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS", "PALS_NRANKS"):
        if os.environ.get(name, "1").isdigit() and int(os.environ.get(name, "1")) > 1:
            return True
    return "PMIX_RANK" in os.environ or "PMI_RANK" in os.environ
