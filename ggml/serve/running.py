"""Runs the application: limits of connections, and the end of the process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from .service import Service

CONNECTIONS = 16384  # most of them; beyond, those that wait longest for a request are closed
OTHER_FILES = 256  # open files that are no connections
HEAD_TIMEOUT = 20.0  # seconds in which the head of a request must arrive
KEEP_ALIVE = 75  # seconds that a connection may wait for its next request: longer than proxies keep theirs
READ_TIMEOUT = 60.0  # seconds after which a client that does not read its answer has gone
END_TIMEOUT = 30  # seconds that requests have to end when the process shall end
READ = 1 << 14  # bytes that are read at once: asyncio's 256 KiB fail, and end a connection, where memory runs out
LAST = 5  # of these, seconds for the answers of those that did not


def open_files() -> int:
    """How many files the process may open, after the limit was raised as far as it may be."""
    try:
        import resource
    except ImportError:  # Windows
        return CONNECTIONS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = CONNECTIONS + OTHER_FILES
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return most if soft == resource.RLIM_INFINITY else soft


def connection_class(most: int, head: float = HEAD_TIMEOUT, read: float = READ_TIMEOUT) -> type[asyncio.Protocol]:
    """The class of uvicorn's connections with limits.

    Args:
        most: connections; one more closes the one that waits longest for a request.
        head: seconds in which the head of a request must arrive.
        read: seconds after which a client that does not read is gone.
    """
    waiting: dict[Any, None] = {}  # connections without a request, the oldest first

    class Connection(AutoHTTPProtocol):
        _timer: asyncio.TimerHandle | None = None
        _reads: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if hasattr(transport, "max_size"):  # that of another loop may lack it
                transport.max_size = READ
            if len(self.connections) > most:
                other = next(iter(waiting), self)
                waiting.pop(other, None)
                other.transport.abort()
            if not transport.is_closing():
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            self.resume_writing()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
            elif self._timer is None and not self.transport.is_closing():
                self._wait()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            waiting[self] = None

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._reads is None:
                self._reads = self.loop.call_later(read, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._reads is not None:
                self._reads.cancel()
                self._reads = None

        def _wait(self) -> None:
            """Waits for the head of a request, for a limited time."""
            waiting[self] = None
            self._timer = self.loop.call_later(head, self.transport.abort)

        def _stop(self) -> None:
            waiting.pop(self, None)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Connection


class Server(uvicorn.Server):
    """A server whose requests end in time when the process shall end."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._engine = service.engine

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._engine.refuse()
        limit = max(0, (self.config.timeout_graceful_shutdown or END_TIMEOUT) - LAST)
        timer = asyncio.get_running_loop().call_later(limit, self._engine.end_texts)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()


def run(application: FastAPI, host: str, port: int, sockets: Sequence[socket.socket] | None = None) -> None:
    """Runs an application of `app` until the process shall end.

    Args:
        application: answers requests.
        host, port: where it listens.
        sockets: at which it listens instead.
    """
    config = uvicorn.Config(
        application, host=host, port=port, log_level="info", access_log=False,
        http=connection_class(min(CONNECTIONS, max(16, open_files() - OTHER_FILES))),
        timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=END_TIMEOUT,
    )  # fmt: skip
    Server(config, application.state.service).run(sockets=list(sockets) if sockets else None)
