"""The thread that computes: all models, one step after another. Others hand it work and get back what came of it."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from ..models import Model
from .disk import Folder
from .errors import ServeError, lacks_memory, without_memory
from .lane import Delivery, Lane, Progress, Ticket
from .metrics import Metrics
from .options import Options

R = TypeVar("R")
log = logging.getLogger("ggml.serve")


class Engine:
    """Computes texts in a thread of its own. Without work it waits; it never polls.

    Args:
        options: of the server.
        metrics: are kept up to date.
    """

    def __init__(self, options: Options, metrics: Metrics) -> None:
        self._options, self._metrics = options, metrics
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lanes: dict[Model, Lane] = {}
        self._owned: dict[Model, list[Model]] = {}
        self._admission = threading.Lock()
        self._coming = 0  # texts that were admitted and have not been added to a lane yet
        self._closing = False
        self._folder = None if options.cache_dir is None else Folder(options.cache_dir, options.cache_bytes)
        self._thread = threading.Thread(target=self._run, name="ggml-serve", daemon=True)
        self._thread.start()

    # ---- called by other threads -------------------------------------------------------------------------------------
    def open(self, name: str, model: Model, owned: Sequence[Model], draft: str | Model | None = None) -> None:
        """Begins to compute texts of a model.

        Args:
            name: of the model in metrics.
            model: computes the texts.
            owned: models that are closed when the texts of this one end.
            draft: see Lane.
        """
        lane = Lane(name, model, self._options, self._metrics, draft, self._folder)

        def add() -> None:
            self._lanes[model], self._owned[model] = lane, list(owned)

        self._do(add)

    def drop(self, model: Model) -> Future[None]:
        """Ends the texts of a model and closes it, unless others own it."""
        return self.call(lambda: self._drop(model))

    def admit(self, count: int) -> None:
        """Refuses texts beyond those that may wait."""
        if self._closing:
            raise ServeError(503, "the server is shutting down", headers={"Retry-After": "10"})
        with self._admission:
            waiting = self._coming + sum(lane.waiting for lane in list(self._lanes.values()))
            if waiting + count > self._options.queue + self._options.sequences:
                seconds = str(min(60, 1 + waiting // self._options.sequences))
                raise ServeError(
                    429, f"{waiting} texts wait already: try again later", headers={"Retry-After": seconds}
                )
            self._coming += count

    def withdraw(self, count: int) -> None:
        """Takes back what was admitted and will not come."""
        with self._admission:
            self._coming -= count

    def submit(self, model: Model, ticket: Ticket) -> None:
        """Adds a text that was admitted."""

        def add() -> None:
            self.withdraw(1)
            try:
                if model not in self._lanes:
                    raise _ended()
                self._lanes[model].add(ticket)
            except Exception as error:
                refused = error if isinstance(error, ServeError) else _failed(error)
                self._deliver([(ticket, Progress([], [], None, refused))])

        self._do(add)

    def wake(self) -> None:
        """Makes the thread look for what others changed."""
        self._do(lambda: None)

    def compute(self, model: Model, function: Callable[[Model], R]) -> Future[R]:
        """What a function computes with a model, between two steps."""

        def work() -> R:
            if model not in self._lanes:
                raise _ended()
            return self._lanes[model].compute(function)

        return self.call(work)

    def call(self, function: Callable[[], R]) -> Future[R]:
        """Calls a function between two steps."""
        if not self.alive():
            raise _ended()
        future: Future[R] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self._do(run)
        return future

    def close(self) -> None:
        """Ends all texts and the thread; closes the models."""
        self._closing = True
        self._work.put(None)
        self._thread.join()
        if self._folder is not None:
            self._folder.close()

    def refuse(self) -> None:
        """Refuses further texts; those that there are go on."""
        self._closing = True

    def end_texts(self) -> None:
        """Ends the texts that have not ended."""

        def end() -> None:
            for lane in self._lanes.values():
                self._deliver(lane.fail(_ended()))

        self._do(end)

    def alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    def _do(self, work: Callable[[], None]) -> None:
        self._work.put(work)

    # ---- the thread --------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while self._take_work():
            for lane in list(self._lanes.values()):
                if lane.busy:
                    try:
                        self._deliver(lane.step())
                    except Exception as error:  # of all its texts
                        log.exception("a step of %s failed", lane.name)
                        self._deliver(lane.fail(_failed(error)))
        for model in list(self._lanes):
            self._drop(model)
        while not self._work.empty():
            if (work := self._work.get()) is not None:
                work()

    def _take_work(self) -> bool:
        """Does what others handed over; waits for it if nothing is to be computed. False: the thread shall end."""
        idle = not any(lane.busy for lane in self._lanes.values())
        while idle or not self._work.empty():
            work = self._work.get()
            if work is None:
                return False
            work()
            idle = False
        return True

    def _drop(self, model: Model) -> None:
        lane = self._lanes.pop(model, None)
        if lane is not None:
            self._deliver(lane.fail(_ended()))
            for owned in self._owned.pop(model):
                owned.close()

    @staticmethod
    def _deliver(news: list[Delivery]) -> None:
        """Hands news to the loops that wait for them, with one call for each loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Delivery]] = defaultdict(list)
        for ticket, progress in news:
            by_loop[ticket.loop].append((ticket, progress))
        for loop, items in by_loop.items():
            try:
                loop.call_soon_threadsafe(_hand_over, items)
            except RuntimeError:  # the loop is closed
                for ticket, _ in items:
                    ticket.cancelled = True


def _ended() -> ServeError:
    return ServeError(503, "the server is shutting down, or the model was closed")


def _failed(error: Exception) -> ServeError:
    if lacks_memory(error):
        return without_memory()
    return ServeError(500, f"the computation failed: {type(error).__name__}: {error}")


def _hand_over(items: list[Delivery]) -> None:
    for ticket, progress in items:
        ticket.deliver(progress)
