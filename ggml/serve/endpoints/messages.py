"""`/v1/messages`: conversations in Anthropic's form."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field

from ...models import Answer, Model
from ..errors import ServeError
from ..schemas import STOPS, Body, ChatRequest, Stop
from ..service import Session, service_of, unless_hung_up
from ..streaming import EventStream, event
from .blocks import Block, Blocks, Change
from .chat import answers, begun, parts_of

router = APIRouter(tags=["text"])
Content = str | list[dict[str, Any]]


class CountRequest(Body):
    """A conversation."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=10000)]
    system: Content | None = None
    tools: Annotated[list[dict[str, Any]], Field(max_length=128)] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None


class MessagesRequest(CountRequest):
    """A conversation to answer."""

    max_tokens: int = Field(ge=1)
    stop_sequences: Annotated[list[Stop], Field(max_length=STOPS)] | None = None
    stream: bool = False
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = None
    top_k: int | None = None


def text_of(content: Any, place: str) -> str:
    """The text of content that has nothing else."""
    if isinstance(content, str):
        return content
    texts = []
    for block in content if isinstance(content, list) else [None]:
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if not isinstance(text, str):
            raise ServeError(400, f"{place}: need text: a string, or blocks of the type 'text'", place)
        texts.append(text)
    return "\n".join(texts)


def in_chats_form(message: Mapping[str, Any], place: str) -> Iterator[dict[str, Any]]:
    """A message as those of chats: results of tools become messages of their own."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        raise ServeError(400, f"{place}.role is {str(role)[:40]!r}: need 'user' or 'assistant'", place)
    if isinstance(content, str):
        yield {"role": role, "content": content}
        return
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise ServeError(400, f"{place}.content: need a string or a list of blocks", place)
    texts, calls, reasoning = [], [], ""
    for i, block in enumerate(content):
        kind = block.get("type")
        if kind == "tool_use":
            function = {"name": str(block.get("name")), "arguments": json.dumps(block.get("input") or {})}
            calls.append({"id": str(block.get("id")), "type": "function", "function": function})
        elif kind == "tool_result":
            result = text_of(block.get("content") or "", f"{place}.content[{i}].content")
            yield {"role": "tool", "tool_call_id": str(block.get("tool_use_id")), "content": result}
        elif kind == "thinking":
            reasoning += str(block.get("thinking") or "")
        elif kind != "redacted_thinking":
            texts.append(text_of([block], f"{place}.content[{i}]"))
    if texts or calls or reasoning or not content:
        found: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
        yield found | ({"tool_calls": calls} if calls else {}) | ({"reasoning_content": reasoning} if reasoning else {})


def as_chat(body: CountRequest) -> ChatRequest:
    """The same request in the form of chats."""
    messages: list[dict[str, Any]] = []
    if body.system:
        messages.append({"role": "system", "content": text_of(body.system, "system")})
    for i, message in enumerate(body.messages):
        messages += in_chats_form(message, f"messages[{i}]")
    tools = [
        {"type": "function", "function": {"name": tool.get("name"), "description": tool.get("description") or "",
                                          "parameters": tool.get("input_schema") or {"type": "object"}}}
        for tool in body.tools or ()
    ]  # fmt: skip
    choice, thinking = body.tool_choice or {}, body.thinking or {}
    kind = choice.get("type", "auto")
    if kind not in ("auto", "any", "none", "tool"):
        raise ServeError(400, "tool_choice.type: need 'auto', 'any', 'none' or 'tool'", "tool_choice")
    named = {"type": "function", "function": {"name": choice.get("name")}}
    budget = thinking.get("budget_tokens") if thinking.get("type") == "enabled" else None
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 0):
        raise ServeError(400, "thinking.budget_tokens: need an integer from 0", "thinking")
    more: dict[str, Any] = {}
    if isinstance(body, MessagesRequest):
        more = {"max_tokens": body.max_tokens, "stop": body.stop_sequences, "temperature": body.temperature,
                "top_p": body.top_p, "top_k": body.top_k}  # fmt: skip
    return ChatRequest(
        model=body.model, messages=messages, tools=tools or None,
        tool_choice={"any": "required", "tool": named}.get(kind, kind) if tools else None,
        parallel_tool_calls=not choice.get("disable_parallel_tool_use"), reasoning_budget=budget,
        enable_thinking={"enabled": True, "disabled": False}.get(str(thinking.get("type"))), **more,
    )  # fmt: skip


def reason_of(answer: Answer) -> dict[str, Any]:
    """Why an answer ended."""
    stop = answer.text.stopped_by
    reasons = {"length": "max_tokens", "tool_calls": "tool_use"}
    reason = reasons.get(answer.finish_reason or "", "end_turn" if stop is None else "stop_sequence")
    return {"stop_reason": reason, "stop_sequence": stop}


def usage_of(session: Session[Answer]) -> dict[str, int]:
    cached = session.texts[0].cached or 0
    return {"input_tokens": len(session.texts[0].prompt_ids) - cached, "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0, "output_tokens": len(session.texts[0].ids)}  # fmt: skip


def block_of(block: Block, empty: bool = False) -> dict[str, Any]:
    """A block; `empty`: as it begins in a stream."""
    text = "" if empty else block.text
    if block.call is None:
        if block.kind == "content":
            return {"type": "text", "text": text}
        return {"type": "thinking", "thinking": text, "signature": ""}
    arguments = {} if empty else json.loads(block.text)
    return {"type": "tool_use", "id": block.call["id"], "name": block.call["function"]["name"], "input": arguments}


def head_of(session: Session[Answer]) -> dict[str, Any]:
    name = f"msg_{secrets.token_hex(12)}"
    return {"id": name, "type": "message", "role": "assistant", "model": session.name}


async def whole(session: Session[Answer]) -> dict[str, Any]:
    """An answer as a whole."""
    (answer,), blocks = session.items, Blocks()
    async for _, progress in session:
        for delta in parts_of(answer, progress.pieces, progress.last):
            list(blocks.push(delta))
    content = [block_of(block) for block in blocks.items]
    return {**head_of(session), "content": content, **reason_of(answer), "usage": usage_of(session)}


DELTAS = {"content": ("text_delta", "text"), "reasoning": ("thinking_delta", "thinking"),
          "call": ("input_json_delta", "partial_json")}  # fmt: skip


def change_event(change: Change) -> str:
    """The event of a change of a block."""
    if change.what == "begin":
        content = {"type": "content_block_start", "content_block": block_of(change.block, True)}
    elif change.what == "text":
        kind, name = DELTAS[change.block.kind]
        content = {"type": "content_block_delta", "delta": {"type": kind, name: change.text}}
    else:
        content = {"type": "content_block_stop"}
    return event({**content, "index": change.number}, str(content["type"]))


async def chunks(session: Session[Answer]) -> AsyncIterator[str]:
    """An answer in parts."""
    (answer,), blocks = session.items, Blocks()
    start = {**head_of(session), "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage_of(session)}
    yield event({"type": "message_start", "message": start}, "message_start")
    async for _, progress in session:
        for delta in parts_of(answer, progress.pieces, progress.last):
            for change in blocks.push(delta):
                yield change_event(change)
    for change in blocks.finish():
        yield change_event(change)
    end = {"type": "message_delta", "delta": reason_of(answer), "usage": usage_of(session)}
    yield event(end, "message_delta")
    yield event({"type": "message_stop"}, "message_stop")


@router.post("/v1/messages", response_model=None)
async def messages(body: MessagesRequest, request: Request) -> EventStream | dict[str, Any]:
    """Answers a conversation in Anthropic's form."""
    session = await begun(request, as_chat(body))
    if body.stream:
        return EventStream(request, session, chunks(session))
    return await unless_hung_up(request, session, whole(session))


@router.post("/v1/messages/count_tokens")
async def count_tokens(body: CountRequest, request: Request) -> dict[str, int]:
    """The number of tokens of a conversation."""
    service, chat = service_of(request), as_chat(body)

    def count(model: Model) -> int:
        return len(answers(model, chat, service.options)[0].prompt_ids)

    return {"input_tokens": await service.prepare(body.model, count)}
