"""Answers in parts: server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse

from .errors import ServeError
from .service import Session

DONE = "data: [DONE]\n\n"


def event(data: Any, name: str | None = None) -> str:
    """An event; with a name as Anthropic's and OpenAI's newer clients want it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"


class EventStream(StreamingResponse):
    """An answer as server-sent events. The texts of its session end with it, however it ends.

    Args:
        request: that is answered.
        session: the texts.
        events: texts of events.
    """

    media_type = "text/event-stream"

    def __init__(self, request: Request, session: Session, events: AsyncIterator[str]) -> None:
        self._session = session
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # proxies shall not keep events back
        super().__init__(with_errors(events, request.url.path), headers=headers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._session.close()


async def with_errors(events: AsyncIterator[str], path: str) -> AsyncIterator[str]:
    """Events; an error becomes the last one, as the status has been sent already."""
    try:
        async for text in events:
            yield text
    except ServeError as error:
        content = error.content(path)
        yield event(content, "error" if "type" in content else None)
