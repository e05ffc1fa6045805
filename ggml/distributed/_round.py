"""Messages between ranks that are under way at the same time, each of which is checked when it ends.

Collectives of MPI do not carry data: where a rank dies, MPICH 5.0 ends those of the others with success although the
part of the dead rank is missing. Of a message it reports the failure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np


class Lost(Exception):
    """MPI failed: the ranks with which nothing can be computed any more, and why."""

    def __init__(self, ranks: Sequence[int], reason: str) -> None:
        super().__init__(f"{' or '.join(f'rank {rank}' for rank in ranks)} {reason}")
        self.ranks, self.reason = ranks, reason


class Round:
    """Messages of a communicator. It must be kept until they have ended, and with it their buffers.

    Args:
        MPI: module mpi4py.MPI.
        comm: communicator.
    """

    def __init__(self, MPI: Any, comm: Any) -> None:
        self._MPI, self._comm, self._status = MPI, comm, MPI.Status()
        self._requests: list[tuple[Any, Sequence[int], int | None]] = []
        self._error: Lost | None = None

    def send(self, memory: Any, dest: int, tag: int = 0) -> None:
        """Starts to send bytes, which nobody may change until they have been sent."""
        self.start(lambda: self._comm.Isend([memory, self._MPI.BYTE], dest, tag), [dest])

    def receive(self, memory: np.ndarray, source: int, tag: int = 0) -> None:
        """Starts to receive as many bytes as memory has."""
        self.start(lambda: self._comm.Irecv([memory, self._MPI.BYTE], source, tag), [source], memory.nbytes)

    def start(self, function: Callable[[], Any], ranks: Sequence[int], size: int | None = None) -> None:
        """Starts something else.

        Args:
            function: starts it and returns the request.
            ranks: other ranks that take part.
            size: bytes that must arrive, if any.
        """
        try:
            with reported(self._MPI, ranks):
                self._requests.append((function(), ranks, size))
        except Lost as error:  # raised by `ended`: until then the round is kept, with the messages that are under way
            self._error = error

    def ended(self) -> bool:
        """Whether all have ended. Raises Lost if one failed, or had another size than was expected."""
        if self._error is not None:
            raise self._error
        self._requests = [request for request in self._requests if not self._test(*request)]
        return not self._requests

    def _test(self, request: Any, ranks: Sequence[int], size: int | None) -> bool:
        with reported(self._MPI, ranks):
            ended = request.Test(self._status)
        if ended and size is not None and self._status.Get_count(self._MPI.BYTE) != size:
            raise Lost(ranks, f"sent {self._status.Get_count(self._MPI.BYTE)} bytes: {size} are needed")
        return ended


@contextlib.contextmanager
def reported(MPI: Any, ranks: Sequence[int]) -> Iterator[None]:
    """Names the ranks in an error of MPI, and says what MPI says, whose last line has the cause."""
    try:
        yield
    except MPI.Exception as error:
        text = error.Get_error_string().strip().splitlines() or [str(error)]
        raise Lost(ranks, f"has ended, or a message to or from it failed: {text[-1]}") from None
