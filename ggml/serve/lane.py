"""The texts of one model: which wait, which are computed, what came of them. Used by the thread that computes alone."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from ..models import Generation, Model, TokenProbability
from ..models.generate.batching import Scheduler
from ..models.generate.speculative import speculation
from .disk import Beginnings, Folder
from .errors import ServeError, served
from .metrics import Metrics
from .options import Options


class Progress(NamedTuple):
    """What a step brought for a text: pieces of it, their probabilities, and at its end the reason or an error."""

    pieces: Sequence[str]
    logprobs: Sequence[TokenProbability]
    finish: str | None = None
    error: ServeError | None = None

    @property
    def last(self) -> bool:
        return self.finish is not None or self.error is not None


def token_limit(model: Model, options: Options) -> int:
    """The most tokens whose keys and values are kept for a model."""
    return max(model.n_ctx, options.tokens or model.n_seq * model.n_ctx // 2)


@dataclass(eq=False)
class Ticket:
    """A text that shall be computed.

    Attributes:
        text: its Generation.
        client: who asks.
        priority: texts with smaller numbers come first.
        timeout: seconds after which it is given up.
        deliver: is called with each Progress, in the loop.
        cancelled: set by other threads: nobody wants it any more.
        arrived, first, last: when it came, when its first token came, and its last so far; 0 for not yet.
    """

    text: Generation
    client: str
    priority: int
    timeout: float
    loop: asyncio.AbstractEventLoop
    deliver: Callable[[Progress], None]
    cancelled: bool = False
    arrived: float = field(default_factory=time.monotonic)
    first: float = 0.0
    last: float = 0.0
    _tokens: int = 0
    _logprobs: int = 0

    def progress(self, now: float) -> Progress | None:
        """What is new of the text, None if nothing is."""
        text = self.text
        pieces, text.pending = text.pending, []
        logprobs, self._logprobs = text.logprobs[self._logprobs :], len(text.logprobs)
        if len(text.ids) > self._tokens:
            self.first, self.last = self.first or now, now
            self._tokens = len(text.ids)
        found = Progress([piece for piece in pieces if piece], logprobs, text.finish_reason)
        return found if found.pieces or found.logprobs or found.finish else None


R = TypeVar("R")
Delivery = tuple[Ticket, Progress]


class Lane:
    """The texts of one model.

    Args:
        name: of the model in metrics.
        model: computes them.
        options: of the server.
        metrics: are kept up to date.
        draft: what guesses tokens ahead for all texts, see Options.drafts.
        folder: has beginnings of texts, or None.
    Raises:
        TypeError, ValueError: `draft` does not fit the model.
    """

    def __init__(
        self, name: str, model: Model, options: Options, metrics: Metrics, draft: str | Model | None = None,
        folder: Folder | None = None,
    ) -> None:  # fmt: skip
        self.name, self.model, self._draft, self._metrics = name, model, draft, metrics
        if draft is not None:
            model.runner.causal("draft")
            speculation("draft", model.runner, draft, False)
        keeps = model.runner.memory is not None and model.split is None  # a rank has a part of the keys and values only
        self._store = Beginnings(folder, model) if folder is not None and keeps else None
        self._scheduler = Scheduler(model.writer, max(options.chunk, model.n_seq), options.kept, self._store)
        self._waiting: list[Ticket] = []
        self._active: dict[Generation, Ticket] = {}
        memory = model.runner.memory
        if memory is not None:
            memory.limit(token_limit(model, options))

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._active)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, ticket: Ticket) -> None:
        if self._draft is not None:
            ticket.text.speculation = speculation("draft", self.model.runner, self._draft, ticket.text.exact)
        self._waiting.append(ticket)

    def _next(self) -> Ticket:
        """The ticket that begins next: by priority, then of the client with the fewest texts, then the oldest."""
        having = Counter(ticket.client for ticket in self._active.values())
        best = min(self._waiting, key=lambda t: (t.priority, having[t.client], t.arrived))
        self._waiting.remove(best)
        return best

    def step(self) -> list[Delivery]:
        """Computes once for all active texts, after others took the places of those that have ended.

        Returns:
            What is new, by ticket.
        """
        out = self._drop(time.monotonic())
        while self._waiting and self._scheduler.has_room():
            ticket = self._next()
            self._active[ticket.text] = ticket
            self._scheduler.start(ticket.text)
        begin = time.monotonic()
        failed, put_back = self._scheduler.step()
        now = time.monotonic()
        self._metrics.step.labels(self.name).observe(now - begin)
        for text, error in failed.items():
            ticket = self._active.pop(text)
            out.append((ticket, Progress([], [], None, served(error))))
        for text in put_back:
            self._wait_again(text)
        for text, ticket in list(self._active.items()):
            before = ticket.last
            progress = ticket.progress(now)
            if ticket.last > before:
                kind = self._metrics.between if before else self._metrics.first
                kind.labels(self.name).observe(now - (before or ticket.arrived))
            if progress is not None:
                out.append((ticket, progress))
                if progress.last:
                    del self._active[text]
                    self._count(text)
        if self._store is not None:
            self._metrics.read.labels(self.name).inc(self._store.read)
            self._store.read = 0
        self._metrics.waiting.labels(self.name).set(len(self._waiting))
        self._metrics.active.labels(self.name).set(len(self._active))
        return out

    def _count(self, text: Generation) -> None:
        """Adds a text that ended to the numbers."""
        self._metrics.texts.labels(self.name).inc()
        self._metrics.prompt.labels(self.name).inc(len(text.prompt_ids))
        self._metrics.cached.labels(self.name).inc(text.cached or 0)
        self._metrics.generated.labels(self.name).inc(len(text.ids))
        if text.speculation is not None:
            self._metrics.guessed.labels(self.name).inc(text.speculation.guessed)
            self._metrics.accepted.labels(self.name).inc(text.speculation.accepted)

    def _drop(self, now: float) -> list[Delivery]:
        """Ends the texts that nobody wants any more, and those whose time is over."""
        out = []
        for ticket in [*self._waiting, *self._active.values()]:
            if not ticket.cancelled and now < ticket.arrived + ticket.timeout:
                continue
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            else:
                del self._active[ticket.text]
            ticket.text.close()
            if not ticket.cancelled:
                error = ServeError(504, f"the request took longer than {ticket.timeout:g} s")
                out.append((ticket, Progress([], [], None, error)))
        return out

    def compute(self, function: Callable[[Model], R]) -> R:
        """What a function computes with the model; texts make room for it if need be."""
        while True:
            try:
                return function(self.model)
            except MemoryError:
                if self._scheduler.make_room():
                    continue
                if not self._scheduler.active:
                    raise
            self._wait_again(self._scheduler.put_back())

    def _wait_again(self, text: Generation) -> None:
        """Lets a text wait that was put back; it is older than those that came since."""
        self._waiting.append(self._active.pop(text))
        self._metrics.put_back.labels(self.name).inc()

    def fail(self, error: ServeError) -> list[Delivery]:
        """Ends all texts with an error."""
        tickets = [*self._waiting, *self._active.values()]
        for ticket in tickets:
            ticket.text.close()
        self._waiting, self._active = [], {}
        self._scheduler.forget()
        return [(ticket, Progress([], [], None, error)) for ticket in tickets]
