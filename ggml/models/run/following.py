"""Models that are divided among ranks, of which one decides what is computed and the others follow.

The first rank sends what changes memory that graphs use, in its order: graphs with their inputs, and pages that are
made or copied. The others need to know nothing of sequences or texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .graphs import Shape, Step
from .runner import Runner

if TYPE_CHECKING:
    from ...distributed import Communicator

PACKET = 2048  # bytes of a first message; a collective of this size is one round


class Leader:
    """The first rank's part: makes runners tell the other ranks what they compute.

    Args:
        runners: of the models, which all ranks have opened in the same order. This rank alone uses them from now on.
    """

    def __init__(self, runners: Sequence[Runner]) -> None:
        self._comm = communicator_of(runners)
        self._ended = False
        for number, runner in enumerate(runners):
            runner.leader = Voice(self, number)
            for window, pool in runner.memory.pools.items() if runner.memory is not None else ():
                pool.layers.append(Pages(self, number, window))

    def send(self, what: str, number: int, *values: Any, data: Sequence[np.ndarray] = ()) -> None:
        """Tells the others what to do with the model of a number."""
        head = json.dumps([what, number, *values]).encode()
        message = b"".join([len(head).to_bytes(4, "little"), head, *(array.tobytes() for array in data)])
        packet = np.zeros(PACKET, np.uint8)
        whole = len(message).to_bytes(8, "little") + message
        packet[: min(PACKET, len(whole))] = np.frombuffer(whole[:PACKET], np.uint8)
        self._comm.share(packet)
        if len(whole) > PACKET:
            self._comm.share(np.frombuffer(whole[PACKET:], np.uint8))

    def close(self) -> None:
        """Ends what the others do."""
        if not self._ended:
            self._ended = True
            self.send("end", 0)


class Voice:
    """What a runner of the first rank tells the others."""

    def __init__(self, leader: Leader, number: int) -> None:
        self._leader, self._number = leader, number

    def run(self, step: Step) -> None:
        """Before a graph is computed."""
        self._leader.send("run", self._number, list(step.shape), data=step.filled)


class Pages:
    """Stands among the layers of a pool of pages, and tells the others how it changes."""

    def __init__(self, leader: Leader, number: int, window: int) -> None:
        self._leader, self._number, self._window = leader, number, window

    def resize(self, cells: int) -> None:
        self._leader.send("resize", self._number, self._window, cells)

    def copy_cells(self, source: int, target: int, count: int) -> None:
        self._leader.send("copy", self._number, self._window, source, target, count)


def communicator_of(runners: Sequence[Runner]) -> Communicator:
    """The ranks among which models are divided."""
    found = {runner.comm for runner in runners}
    if len(found) != 1 or (comm := found.pop()) is None:
        raise ValueError("follow: need models that are divided among the same ranks")
    return comm


def received(comm: Communicator) -> tuple[list[Any], memoryview]:
    """What the first rank sends next."""
    packet = comm.share(np.zeros(PACKET, np.uint8)).tobytes()
    size = 8 + int.from_bytes(packet[:8], "little")
    if size > PACKET:
        packet += comm.share(np.zeros(size - PACKET, np.uint8)).tobytes()
    head = 12 + int.from_bytes(packet[8:12], "little")
    return json.loads(packet[12:head]), memoryview(packet)[head:size]


def follow(runners: Sequence[Runner]) -> None:
    """The part of the other ranks: computes what the first one computes, until that ends it."""
    comm = communicator_of(runners)
    while True:
        (what, number, *values), data = received(comm)
        if what == "end":
            return
        runner = runners[number]
        with runner.lock:
            if what == "run":
                _run(runner, values[0], data)
            else:
                _change(runner, what, *values)


def _run(runner: Runner, shape: list[Any], data: memoryview) -> None:
    values = [*shape[:-1], tuple(shape[-1])]  # JSON has no tuples
    step = runner.graphs.get(Shape(*values), runner.memory)
    offset = 0
    for array in step.filled:
        array[...] = np.frombuffer(data[offset : offset + array.nbytes], array.dtype).reshape(array.shape)
        offset += array.nbytes
    runner.run(step)


def _change(runner: Runner, what: str, window: int, *values: int) -> None:
    assert runner.memory is not None
    if what == "resize":
        runner.graphs.forget()
    for layer in runner.memory.pools[window].layers:
        (layer.resize if what == "resize" else layer.copy_cells)(*values)
