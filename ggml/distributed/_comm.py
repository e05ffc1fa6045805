"""`Communicator`: the ranks that compute together; `mpi` makes one."""

from __future__ import annotations

import os
from typing import Any

from ._gradients import Gradients
from ._nodes import ORDERS
from ._transport import Alone, Mpi, started_by_launcher


class Communicator(Gradients):
    """The ranks that compute together. Made by `mpi`.

    Its methods add collectives to a graph: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send and
    recv. All ranks must compute the same collectives in the same order. Before each of them the ranks compare its kind,
    type and shape; where these differ, all ranks raise RuntimeError and name what each rank was about to do. A rank
    that waits for one that has ended or failed raises RuntimeError too.

    Attributes:
        rank: number of this rank, from 0.
        size: number of ranks.
        order: default of all_reduce.
        threads: this rank's share of the CPUs of its machine; a good number of threads.
        sent: bytes that the collectives of this rank have sent so far, by the formulas of docs/distributed.md.
    """

    def __init__(self, transport: Any, order: str) -> None:
        super().__init__(transport, order)
        available = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
        self.threads: int = transport.threads(available)

    def __repr__(self) -> str:
        return f"<Communicator: rank {self.rank} of {self.size}>"


def mpi(communicator: Any = None, *, order: str = "rank", timeout: float | None = None) -> Communicator:
    """Creates a communicator over MPI. All ranks must call it.

    A program that was not started by mpiexec is one rank; it needs neither mpi4py nor an MPI library.

    Args:
        communicator: mpi4py communicator; None for MPI.COMM_WORLD.
        order: default order of sums, see Communicator.all_reduce: "rank" or "mpi".
        timeout: seconds after which a rank that waits for others raises RuntimeError; None to wait as long as they
            live.
    Returns:
        Communicator.
    Raises:
        ImportError: there are several ranks, but mpi4py or an MPI library is missing; the message says what to install.
        ValueError: order is unknown, or timeout is not positive.
    """
    if order not in ORDERS:
        raise ValueError(f"mpi: order is {order!r}: need one of {', '.join(ORDERS)}")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"mpi: timeout is {timeout!r}: need a positive number of seconds, or None")
    if communicator is None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            if started_by_launcher():
                raise ImportError(
                    f"mpi: {str(error).splitlines()[0]}: pip install 'ggml-cython[mpi]', and an MPI library: that of "
                    "the cluster or system, or pip install mpich"
                ) from None
            return Communicator(Alone(), order)
        communicator = MPI.COMM_WORLD
    if communicator.Get_size() == 1:
        return Communicator(Alone(), order)
    return Communicator(Mpi(communicator, timeout), order)
