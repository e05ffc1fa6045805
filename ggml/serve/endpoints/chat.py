"""`/v1/chat/completions`: conversations."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request

from ...models import Answer, Model, TokenProbability
from ..options import Options
from ..schemas import ChatRequest
from ..service import Session, service_of, unless_hung_up
from ..streaming import DONE, EventStream, event
from .logprobs import of_chat
from .sampling import seed_of, settings_of

router = APIRouter(tags=["text"])


def answers(model: Model, body: ChatRequest, options: Options) -> list[Answer]:
    """The answers that are asked for, before anything of them is computed."""
    given = dict(body.chat_template_kwargs or {})
    if body.reasoning_effort is not None:
        given["reasoning_effort"] = body.reasoning_effort
    thinking = body.enable_thinking
    if thinking is None and body.reasoning_effort == "none":
        thinking = False
    most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    settings = {**settings_of(model, body, options), "max_tokens": most,
                "logprobs": (body.top_logprobs or 0) if body.logprobs else None}  # fmt: skip
    return [
        model.writer.answer(
            "chat", body.messages, body.tools, body.tool_choice, body.parallel_tool_calls is not False, thinking,
            body.reasoning_budget, None, given, {**settings, "seed": seed_of(body.seed, i)},
        )
        for i in range(body.n)
    ]  # fmt: skip


async def begun(request: Request, body: ChatRequest) -> Session[Answer]:
    """Begins to compute the answers to a conversation."""
    service = service_of(request)
    return await service.begin(
        request, body.model, body.n, lambda model: answers(model, body, service.options), lambda answer: answer.text,
        body.priority,
    )  # fmt: skip


def parts_of(answer: Answer, pieces: Sequence[str], ended: bool) -> list[dict[str, Any]]:
    """The parts of an answer that pieces of its text bring."""
    found = [part for piece in pieces for part in answer.push(piece)]
    return found + answer.finish() if ended else found


def usage_of(session: Session[Answer]) -> dict[str, Any]:
    """The numbers of tokens, also of those that are reasoning."""
    thought = sum(answer.reasoning_tokens for answer in session.items)
    return {**session.usage(), "completion_tokens_details": {"reasoning_tokens": thought}}


def head_of(session: Session, kind: str) -> dict[str, Any]:
    """What all parts of an answer have in common."""
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": session.name,
    }


async def chunks(body: ChatRequest, session: Session[Answer]) -> AsyncIterator[str]:
    """An answer in parts."""
    head = head_of(session, "chat.completion.chunk")
    held: list[list[TokenProbability]] = [[] for _ in session.texts]

    def chunk(number: int, delta: Mapping[str, Any], reason: str | None = None) -> str:
        logprobs = None
        if body.logprobs:
            logprobs, held[number] = of_chat(session.model, held[number]), []
        choice = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return event({**head, "choices": [choice]})

    for number in range(len(session.texts)):
        yield chunk(number, {"role": "assistant", "content": ""})
    async for number, progress in session:
        answer = session.items[number]
        held[number] += progress.logprobs
        for delta in parts_of(answer, progress.pieces, progress.last):
            yield chunk(number, delta)
        if progress.last:
            yield chunk(number, {}, answer.finish_reason)
    if body.stream_options is not None and body.stream_options.include_usage:
        yield event({**head, "choices": [], "usage": usage_of(session), "timings": session.timings()})
    yield DONE


async def whole(body: ChatRequest, session: Session[Answer]) -> dict[str, Any]:
    """An answer as a whole."""
    async for number, progress in session:
        parts_of(session.items[number], progress.pieces, progress.last)
    found = []
    for number, answer in enumerate(session.items):
        message = {"refusal": None, **answer.message}
        logprobs = of_chat(session.model, answer.logprobs) if body.logprobs else None
        found.append({"index": number, "message": message, "logprobs": logprobs, "finish_reason": answer.finish_reason})
    head = head_of(session, "chat.completion")
    return {**head, "choices": found, "usage": usage_of(session), "timings": session.timings()}


@router.post("/v1/chat/completions", response_model=None)
async def chat_completions(body: ChatRequest, request: Request) -> EventStream | dict[str, Any]:
    """Answers a conversation."""
    session = await begun(request, body)
    if body.stream:
        return EventStream(request, session, chunks(body, session))
    return await unless_hung_up(request, session, whole(body, session))
