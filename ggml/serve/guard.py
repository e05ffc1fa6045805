"""What stands before every endpoint: keys, and limits of bodies."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import ServeError
from .options import Options

PUBLIC = ("/", "/page.js", "/page.css", "/docs", "/docs.js", "/health")  # paths that need no key
NOBODY = "-"  # the client of requests without a key and an address


BODIES = 64  # bodies of full size that may be in memory before further large ones are refused


@dataclass
class Arriving:
    """The body of a request: how much of it has come, and whether there is more."""

    size: int = 0
    more: bool = True


class Keys:
    """The keys of clients.

    Args:
        keys: the texts.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def client(self, given: str | None, address: str) -> str | None:
        """Who asks, for fairness: the number of the key, or the address if no keys are needed; None: nobody known.

        The time does not depend on how much of a key is right: digests are compared, with all of them.
        """
        if not self._digests:
            return address
        digest = _digest(given or "")
        same = [hmac.compare_digest(digest, known) for known in self._digests]
        return f"key {same.index(True)}" if any(same) else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()


def given_key(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """The key of a request: `Authorization: Bearer KEY`, or `x-api-key: KEY` as Anthropic's clients send it."""
    found = {name.lower(): value.decode("latin-1") for name, value in headers}
    kind, _, key = found.get(b"authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else found.get(b"x-api-key")


class Guard:
    """Middleware (ASGI) that refuses requests without a key, and bodies that are too large or too slow.

    Args:
        app: what gets the others; `scope["state"]["client"]` tells it who asks.
        options: of the server.
    """

    def __init__(self, app: Any, options: Options) -> None:
        self._app, self._options, self._keys = app, options, Keys(options.keys)
        self._held = 0  # bytes of the bodies of requests that are not answered yet

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, headers = scope["path"].removeprefix(scope.get("root_path", "")), scope["headers"]
        address = (scope.get("client") or (NOBODY,))[0]
        client = self._keys.client(given_key(headers), address)
        if client is None and path not in PUBLIC and scope["method"] != "OPTIONS":
            error = ServeError(
                401,
                "a key is missing or wrong: need `Authorization: Bearer KEY`",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
            await error.response(path)(scope, receive, send)
            return
        scope.setdefault("state", {})["client"] = client or NOBODY
        lengths = [value for name, value in headers if name.lower() == b"content-length"]
        if any(value.isdigit() and int(value) > self._options.body for value in lengths):
            await self._too_large().response(path)(scope, receive, send)
            return
        body = Arriving()
        try:
            await self._app(scope, self._limited(receive, body), send)
        finally:
            self._held -= body.size

    def _too_large(self) -> ServeError:
        return ServeError(413, f"the body is too large: need at most {self._options.body:,} bytes")

    def _limited(self, receive: Any, body: Arriving) -> Any:
        """What receives the messages of a request: it raises where the body is too large or too slow."""
        end = time.monotonic() + self._options.body_timeout

        async def limited() -> Any:
            if not body.more:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, end - time.monotonic()))
            except asyncio.TimeoutError:
                raise ServeError(408, f"the body did not arrive within {self._options.body_timeout:g} s") from None
            size = len(message.get("body", b""))
            body.size, self._held = body.size + size, self._held + size
            body.more = bool(message.get("more_body", False))
            if body.size > self._options.body:
                raise self._too_large()
            if self._held > BODIES * self._options.body and body.more:
                raise ServeError(503, "the bodies of other requests need too much memory", headers={"Retry-After": "5"})
            return message

        return limited
