"""What endpoints use: the models, the thread that computes, and the texts of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from ..models import Generation, Model
from .catalog import Catalog, Lease, Source
from .engine import Engine
from .errors import HUNG_UP, ServeError, asked_by_client
from .lane import Progress, Ticket
from .metrics import Metrics
from .options import Options

R = TypeVar("R")


class Service:
    """A server without its HTTP.

    Args:
        models: see Catalog.
        options: of the server.
    """

    def __init__(self, models: Source | Sequence[Source] | Mapping[str, Source], options: Options) -> None:
        self.options, self.metrics = options, Metrics()
        self.engine = Engine(options, self.metrics)
        try:
            self.catalog = Catalog(models, options, self.engine)
        except BaseException:
            self.engine.close()
            raise

    async def begin(
        self, request: Request, name: str | None, count: int, prepare: Callable[[Model], Sequence[R]],
        text_of: Callable[[R], Generation], priority: int = 0,
    ) -> Session[R]:  # fmt: skip
        """Begins to compute texts.

        Args:
            request: of the client.
            name: of the model.
            count: how many texts there will be.
            prepare: makes them, in a thread of its own.
            text_of: the Generation of one of them.
            priority: see Ticket.
        Raises:
            ServeError: there is no such model, too many texts wait, or `prepare` raised an error.
        """
        lease = await self.catalog.lease(name)
        try:
            self.engine.admit(count)
            try:
                with asked_by_client():
                    items = await run_in_threadpool(prepare, lease.model)
            except BaseException:
                self.engine.withdraw(count)
                raise
        except BaseException:
            lease.release()
            raise
        texts = [text_of(item) for item in items]
        for text in texts:
            text.adapter = lease.adapter
        return Session(self, lease, items, texts, request.state.client, priority)

    async def compute(self, name: str | None, function: Callable[[Model, str | None], R]) -> R:
        """What a function computes with a model and the name of an adapter, between two steps."""
        lease = await self.catalog.lease(name)
        try:
            with asked_by_client():
                work = self.engine.compute(lease.model, lambda model: function(model, lease.adapter))
                return await asyncio.wrap_future(work)
        finally:
            lease.release()

    async def prepare(self, name: str | None, function: Callable[[Model], R]) -> R:
        """What a function makes with a model without computing, in a thread of its own."""
        lease = await self.catalog.lease(name)
        try:
            with asked_by_client():
                return await run_in_threadpool(function, lease.model)
        finally:
            lease.release()


class Session(AsyncIterator[tuple[int, Progress]], Generic[R]):
    """The texts of a request while they are computed: yields a text's number and what is new of it.

    Attributes:
        name: of the model.
        items, texts: what was asked for, and the Generation of each.
    """

    def __init__(
        self, service: Service, lease: Lease, items: Sequence[R], texts: Sequence[Generation], client: str,
        priority: int,
    ) -> None:  # fmt: skip
        self.name, self.model, self.items, self.texts = lease.name, lease.model, items, texts
        self._engine, self._lease = service.engine, lease
        self._news: asyncio.Queue[tuple[int, Progress]] = asyncio.Queue()
        self._open = set(range(len(texts)))
        loop, timeout = asyncio.get_running_loop(), service.options.timeout

        def deliver(number: int, news: Progress) -> None:
            self._news.put_nowait((number, news))

        self._tickets = [
            Ticket(text, client, priority, timeout, loop, partial(deliver, i)) for i, text in enumerate(texts)
        ]
        for ticket in self._tickets:
            self._engine.submit(lease.model, ticket)

    async def __anext__(self) -> tuple[int, Progress]:
        if not self._open:
            raise StopAsyncIteration
        number, progress = await self._news.get()
        if progress.error is not None:
            raise progress.error
        if progress.last:
            self._open.discard(number)
        return number, progress

    def close(self) -> None:
        """Ends the texts that have not ended; their sequences are free at the next step."""
        if self._open:
            for number in self._open:
                self._tickets[number].cancelled = True
            self._open = set()
            self._engine.wake()
        self._lease.release()

    # ---- numbers -----------------------------------------------------------------------------------------------------
    def usage(self) -> dict[str, Any]:
        """The numbers of tokens."""
        asked, given = len(self.texts[0].prompt_ids), sum(len(text.ids) for text in self.texts)
        distinct = {tuple(text.prompt_ids) for text in self.texts}
        if len(distinct) > 1:
            asked = sum(map(len, distinct))
        return {
            "prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given,
            "prompt_tokens_details": {"cached_tokens": min((text.cached or 0 for text in self.texts), default=0)},
        }  # fmt: skip

    def timings(self) -> dict[str, Any]:
        """How long it took, as llama-server says it, of the first text."""
        ticket, text = self._tickets[0], self.texts[0]
        cached, count = text.cached or 0, len(text.ids)
        prompt, seconds = max(0.0, ticket.first - ticket.arrived), ticket.last - ticket.first
        read = len(text.prompt_ids) - cached
        guesses = text.speculation
        drafts = {} if guesses is None else {"draft_n": guesses.guessed, "draft_n_accepted": guesses.accepted}
        return {
            "cache_n": cached, "prompt_n": read, "prompt_ms": 1e3 * prompt,
            "prompt_per_second": read / prompt if prompt else 0.0,
            "predicted_n": count, "predicted_ms": 1e3 * seconds,
            "predicted_per_second": (count - 1) / seconds if seconds and count > 1 else 0.0, **drafts,
        }  # fmt: skip


async def unless_hung_up(request: Request, session: Session, answer: Awaitable[R]) -> R:
    """What an answer becomes; the texts of its session end with it, and at once if the client hangs up."""
    work = asyncio.ensure_future(answer)
    watch = asyncio.ensure_future(_hang_up(request))
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ServeError(HUNG_UP, "the client has hung up")
        return work.result()
    finally:
        for task in (work, watch):
            task.cancel()
        session.close()


async def _hang_up(request: Request) -> None:
    """Returns when the client closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def service_of(request: Request) -> Service:
    """The Service of the application that got a request."""
    return request.app.state.service
