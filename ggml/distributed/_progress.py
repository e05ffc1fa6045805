"""The thread that carries out what a rank does together with others, and how the ranks tell each other that they end.

Only this thread calls MPI while a program computes. An operation owns its buffers and takes place even if its caller no
longer waits for it: an exception in the caller (Ctrl-C, a timeout) neither frees memory that MPI uses nor leaves the
ranks out of step. The n-th operation of a lane always meets the n-th one of the other ranks.

The thread waits by polling with pauses, not in MPI: so waiting costs no CPU time that other ranks of the same machine
need, and the end of another rank is noticed.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator
from typing import Any

from ._round import Lost, Round, reported

END = 1  # tag of the message that a rank sends when it ends
GRACE = 3.0  # seconds that a rank which failed waits for the others to report, before it ends all of them
LARGEST_REASON = 512  # characters of the reason that the message names
BUSY_POLLS = 64  # polls without a pause
LISTEN = 16  # polls between two looks at the messages of ranks that end
TWINS = {"collective": "collective", "send": "recv", "recv": "send"}  # what one rank does, and what the other does

Lane = tuple[str, int, int]  # a key of TWINS, the other rank, tag; rank and tag of collectives are 0
# Yields functions that tell whether what it waits for has ended, and returns the result. It owns all memory of MPI's.
Steps = Generator[Callable[[], bool], None, Any]

COLLECTIVE: Lane = ("collective", 0, 0)


class Operation:
    """Something that a rank does together with others.

    Args:
        what: beginning of messages.
        lane: operations of one lane run one after the other, those of different lanes independently.
        steps: what it does.
    """

    def __init__(self, what: str, lane: Lane, steps: Steps) -> None:
        self.what, self.lane, self.steps = what, lane, steps
        self.number = 0  # in its lane, from 1
        self.test: Callable[[], bool] | None = None  # whether what it waits for has ended
        self.lost: Lost | None = None  # the failure of MPI that has ended it
        self._value: Any = None
        self._error: BaseException | None = None
        self._finished = False
        self._signal = threading.Lock()  # released when the operation has finished
        self._signal.acquire()

    def advance(self) -> bool:
        """Does what can be done without waiting. Returns whether the operation has finished."""
        try:
            while self.test is None or self.test():
                self.test = None
                self.test = next(self.steps)
            return False
        except StopIteration as end:
            self.finish(end.value)
        except Lost as error:
            self.lost = error
            self.finish(None, RuntimeError(f"{self.what}: {error}"))
        except BaseException as error:  # it belongs to the thread that waits
            self.finish(None, error)
        return True

    def finish(self, value: Any, error: BaseException | None = None) -> None:
        self._value, self._error, self._finished = value, error, True
        self._signal.release()

    def wait(self, timeout: float | None = None) -> Any:
        """The result. Raises what the operation raised, or RuntimeError after timeout seconds; then it goes on."""
        if not self._finished:
            self._signal.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        if not self._finished:
            raise RuntimeError(f"{self.what}: the other ranks did not take part within {timeout:g} s")
        if self._error is not None:
            raise self._error
        return self._value


class Progress:
    """Carries out operations in a thread.

    A rank that ends says how many operations of each lane it has started. It has left alone only those ranks that wait
    for a later one: it takes part in all others until everybody has ended.

    Args:
        MPI: module mpi4py.MPI.
        control: communicator for the messages by which ranks tell each other that they end.
        calls: context manager in which MPI may be called.
    """

    def __init__(self, MPI: Any, control: Any, calls: Any) -> None:
        self._MPI, self._control, self._calls = MPI, control, calls
        self._rank = control.Get_rank()
        self._others = [rank for rank in range(control.Get_size()) if rank != self._rank]
        self._arrived: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()  # its put can't be interrupted
        self._lanes: dict[Lane, deque[Operation]] = {}
        self._started: Counter[Lane] = Counter()
        self._failed: list[Operation] = []  # kept, because MPI may still use their buffers
        self._ended: dict[int, dict[str, Any]] = {}  # the messages of ranks that ended
        self._last: dict[int, Round] = {}  # those of this rank, for each other one
        self._closing = self._given_up = False
        self.reason: str | None = None  # why this rank fails
        self._thread = threading.Thread(target=self._work, name="ggml.distributed", daemon=True)
        self._thread.start()

    def start(self, what: str, lane: Lane, steps: Steps) -> Operation:
        """Starts an operation."""
        if self._closing:
            raise RuntimeError(f"{what}: this rank is ending")
        operation = Operation(what, lane, steps)
        self._arrived.put(operation)
        return operation

    def close(self) -> None:
        """Begins to end this rank's part: tells the others, and takes part in what was started until all have ended."""
        self._closing = True
        self._arrived.put(None)

    def join(self) -> None:
        """Waits until all ranks have ended or, after a failure, for a moment."""
        try:
            self._thread.join()
        except BaseException as error:
            self.reason, self._given_up = type(error).__name__, True
            self._thread.join()

    # ---- in the thread -----------------------------------------------------------------------------------------------
    def _work(self) -> None:
        begin, polls = 0.0, 0
        while not self._closing:
            if not self._lanes:
                pause = None
            else:
                pause = 0 if polls < BUSY_POLLS else min(1e-3, (time.monotonic() - begin) / 16)
            arrived = self._receive(pause)
            with self._calls:
                self._fail()
                advanced = self._advance()
                if polls % LISTEN == LISTEN - 1:
                    self._listen()
            if arrived or advanced:
                begin, polls = time.monotonic(), 0
            else:
                polls += 1
        self._end()

    def _receive(self, pause: float | None) -> bool:
        """Receives operations that were started; waits for one, at most `pause` seconds."""
        if pause == 0 and self._arrived.empty():
            time.sleep(0)
            return False
        try:
            operation = self._arrived.get(timeout=pause)
        except queue.Empty:
            return False
        while operation is not None:
            self._started[operation.lane] += 1
            operation.number = self._started[operation.lane]
            self._lanes.setdefault(operation.lane, deque()).append(operation)
            operation = None if self._arrived.empty() else self._arrived.get()
        return True

    def _advance(self) -> bool:
        """Advances the first operation of each lane. Returns whether one has finished."""
        finished = [lane for lane, operations in self._lanes.items() if operations[0].advance()]
        for lane in finished:
            self._remove(lane)
        return bool(finished)

    def _remove(self, lane: Lane) -> None:
        """Removes the first operation of a lane, which has finished."""
        operation = self._lanes[lane].popleft()
        if operation.test is not None:
            self._failed.append(operation)
        if operation.lost is not None:
            self._lose(operation.lost, operation.what)
        if not self._lanes[lane]:
            del self._lanes[lane]

    def _lose(self, lost: Lost, what: str) -> None:
        """Notes that MPI failed. Messages of an operation may be left over, so no later one may take place."""
        for rank in lost.ranks:
            self._ended[rank] = {"failed": True, "reason": lost.reason, "started": {}}
        if self.reason is None:
            self.reason = f"RuntimeError: {what}: {lost}"

    def _listen(self) -> None:
        """Receives the messages of ranks that end."""
        status, missing = self._MPI.Status(), [rank for rank in self._others if rank not in self._ended]
        try:
            with reported(self._MPI, missing):
                while missing and self._control.Iprobe(self._MPI.ANY_SOURCE, END, status):
                    text = bytearray(status.Get_count(self._MPI.BYTE))
                    self._control.Recv([text, self._MPI.BYTE], status.Get_source(), END)
                    self._ended[status.Get_source()] = json.loads(text)
        except Lost as error:
            self._lose(error, "mpi")

    def _fail(self) -> None:
        """Ends the operations for which a rank is needed that has ended."""
        for lane in list(self._lanes) if self._ended else ():
            operation = self._lanes[lane][0]
            missing = [f"rank {rank} {end['reason']}" for rank, end in sorted(self._ended.items())
                       if end["failed"] or self._left_alone(operation, rank, end["started"])]  # fmt: skip
            if missing:
                operation.finish(None, RuntimeError(f"{operation.what}: {'; '.join(missing)}"))
                self._remove(lane)

    def _left_alone(self, operation: Operation, rank: int, started: dict[str, int]) -> bool:
        """Whether a rank that has ended, and that had started so much, will never take part in an operation."""
        kind, peer, tag = operation.lane
        concerned = operation.lane == COLLECTIVE or peer == rank
        return concerned and started.get(f"{TWINS[kind]} {tag}", 0) < operation.number

    def _end(self) -> None:
        """Tells the others that this rank ends, and goes on until all have ended."""
        self._receive(0)  # what was started last
        for rank in self._others:
            end = {
                "failed": self.reason is not None,
                "reason": "has ended" if self.reason is None else f"raised {self.reason[:LARGEST_REASON]}",
                "started": {
                    f"{kind} {tag}": count
                    for (kind, peer, tag), count in self._started.items()
                    if kind == "collective" or peer == rank
                },
            }
            with self._calls:
                text = bytearray(json.dumps(end).encode())
                self._last[rank] = Round(self._MPI, self._control)
                self._last[rank].send(text, rank, END)
        begin = time.monotonic()
        while len(self._ended) < len(self._others) and not self._given_up:
            if self.reason is not None and time.monotonic() - begin > GRACE:
                break
            with self._calls:
                self._listen()
                self._fail()
                self._advance()
                self._tell()
            time.sleep(1e-3)

    def _tell(self) -> None:
        """Goes on with the messages by which this rank tells that it ends."""
        for rank, messages in self._last.items():
            try:
                if rank not in self._ended:
                    messages.ended()
            except Lost as error:
                self._lose(error, "mpi")
