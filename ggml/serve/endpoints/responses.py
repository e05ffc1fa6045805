"""`/v1/responses`: OpenAI's newer form. Nothing is stored: a request has the whole conversation."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field

from ...models import Answer
from ..errors import ServeError
from ..schemas import Body, ChatRequest
from ..service import Session, unless_hung_up
from ..streaming import EventStream, event
from .blocks import Block, Blocks, Change
from .chat import begun, parts_of

router = APIRouter(tags=["text"])
Items = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=10000)]
PARTS = ("input_text", "output_text", "text")


class ResponsesRequest(Body):
    """A conversation to answer."""

    input: str | Items
    instructions: str | None = None
    max_output_tokens: int | None = Field(None, ge=0)
    stream: bool = False
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = None
    tools: Annotated[list[dict[str, Any]], Field(max_length=128)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = True
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    previous_response_id: str | None = None
    metadata: dict[str, Any] | None = None
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 64)
    exact: bool | None = None


def content_of(content: Any, place: str) -> str:
    """The text of a message."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else [None]:
        text = part.get("text") if isinstance(part, dict) and part.get("type") in PARTS else None
        if not isinstance(text, str):
            raise ServeError(400, f"{place}: need text: a string, or parts of the type 'input_text'", place)
        texts.append(text)
    return "\n".join(texts)


def messages_of(body: ResponsesRequest) -> list[dict[str, Any]]:
    """The conversation in the form of chats."""
    found: list[dict[str, Any]] = []
    if body.instructions:
        found.append({"role": "system", "content": body.instructions})
    if isinstance(body.input, str):
        return [*found, {"role": "user", "content": body.input}]
    reasoning = ""
    for i, item in enumerate(body.input):
        kind, place = item.get("type", "message"), f"input[{i}]"
        if kind == "message":
            content = content_of(item.get("content"), f"{place}.content")
            message: dict[str, Any] = {"role": str(item.get("role")), "content": content}
        elif kind == "function_call":
            function = {"name": str(item.get("name")), "arguments": str(item.get("arguments"))}
            call = {"id": str(item.get("call_id")), "type": "function", "function": function}
            if found and found[-1].get("tool_calls"):
                found[-1]["tool_calls"].append(call)
                continue
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        elif kind == "function_call_output":
            output = content_of(item.get("output"), f"{place}.output")
            message = {"role": "tool", "tool_call_id": str(item.get("call_id")), "content": output}
        elif kind == "reasoning":
            parts = item.get("content")
            for part in parts if isinstance(parts, list) else ():
                reasoning += str(part.get("text") or "") if isinstance(part, dict) else ""
            continue
        else:
            raise ServeError(400, f"{place}.type is {str(kind)[:40]!r}: need 'message' or a call of a function", place)
        if reasoning and message["role"] == "assistant":
            message["reasoning_content"], reasoning = reasoning, ""
        found.append(message)
    return found


def tool_of(tool: Mapping[str, Any], place: str) -> dict[str, Any]:
    """A tool in the form of chats."""
    if tool.get("type") != "function":
        raise ServeError(400, f"{place}.type is {str(tool.get('type'))[:40]!r}: need 'function'", place)
    keys = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {key: tool[key] for key in keys if tool.get(key) is not None}}


def as_chat(body: ResponsesRequest) -> ChatRequest:
    """The same request in the form of chats."""
    if body.previous_response_id is not None:
        message = "previous_response_id: nothing is stored: need the whole conversation in `input`"
        raise ServeError(400, message, "previous_response_id")
    format = (body.text or {}).get("format")
    effort = (body.reasoning or {}).get("effort")
    return ChatRequest(
        model=body.model, messages=messages_of(body), max_tokens=body.max_output_tokens, temperature=body.temperature,
        top_p=body.top_p, tools=[tool_of(tool, f"tools[{i}]") for i, tool in enumerate(body.tools or ())] or None,
        tool_choice=body.tool_choice, parallel_tool_calls=body.parallel_tool_calls, seed=body.seed, exact=body.exact,
        response_format=format if isinstance(format, dict) else None,
        reasoning_effort=effort if isinstance(effort, str) else None,
    )  # fmt: skip


KINDS = {"content": "message", "reasoning": "reasoning", "call": "function_call"}
PREFIXES = {"content": "msg", "reasoning": "rs", "call": "fc"}


class Response:
    """The answer to a request."""

    def __init__(self, body: ResponsesRequest, session: Session[Answer]) -> None:
        self.body, self.session, self.blocks = body, session, Blocks()
        self._id, self._created = f"resp_{secrets.token_hex(16)}", int(time.time())
        self._names: dict[int, str] = {}
        self._events = 0

    def object(self, done: bool) -> dict[str, Any]:
        """The answer so far."""
        (answer,), body = self.session.items, self.body
        full = done and answer.finish_reason == "length"
        return {
            "id": self._id, "object": "response", "created_at": self._created, "model": self.session.name,
            "status": "incomplete" if full else "completed" if done else "in_progress", "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if full else None,
            "instructions": body.instructions, "max_output_tokens": body.max_output_tokens,
            "output": [self.item(i, block, True) for i, block in enumerate(self.blocks.items)] if done else [],
            "parallel_tool_calls": body.parallel_tool_calls is not False, "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None}, "store": False, "temperature": body.temperature,
            "text": body.text or {"format": {"type": "text"}}, "tool_choice": body.tool_choice or "auto",
            "tools": body.tools or [], "top_p": body.top_p, "truncation": "disabled", "metadata": body.metadata or {},
            "usage": self.usage() if done else None,
        }  # fmt: skip

    def usage(self) -> dict[str, Any]:
        (text,), (answer,) = self.session.texts, self.session.items
        asked, given = len(text.prompt_ids), len(text.ids)
        return {
            "input_tokens": asked, "input_tokens_details": {"cached_tokens": text.cached or 0}, "output_tokens": given,
            "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens}, "total_tokens": asked + given,
        }  # fmt: skip

    def item(self, number: int, block: Block, done: bool) -> dict[str, Any]:
        """A block as an item of the output."""
        name = self._names.setdefault(number, f"{PREFIXES[block.kind]}_{secrets.token_hex(12)}")
        found = {"id": name, "type": KINDS[block.kind], "status": "completed" if done else "in_progress"}
        if block.call is not None:
            function = block.call["function"]
            return {**found, "call_id": block.call["id"], "name": function["name"], "arguments": block.text}
        parts = [self.part(block)] if done else []
        if block.kind == "reasoning":
            return {**found, "summary": [], "content": parts}
        return {**found, "role": "assistant", "content": parts}

    @staticmethod
    def part(block: Block, text: str | None = None) -> dict[str, Any]:
        """The part of a block of text."""
        text = block.text if text is None else text
        if block.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def event(self, kind: str, **more: Any) -> str:
        """An event with its number."""
        self._events += 1
        return event({"type": kind, "sequence_number": self._events - 1, **more}, kind)

    def change(self, change: Change) -> Iterator[str]:
        """The events of a change of a block."""
        block, number = change.block, change.number
        item = self.item(number, block, change.what == "end")
        place: dict[str, Any] = {"item_id": item["id"], "output_index": number}
        texts = {"content": "output_text", "reasoning": "reasoning_text", "call": "function_call_arguments"}
        name = f"response.{texts[block.kind]}"
        inner = {} if block.kind == "call" else {"content_index": 0}
        more: dict[str, Any] = {"logprobs": []} if block.kind == "content" else {}
        if change.what == "begin":
            yield self.event("response.output_item.added", output_index=number, item=item)
            if inner:
                yield self.event("response.content_part.added", **place, **inner, part=self.part(block, ""))
        elif change.what == "text":
            yield self.event(f"{name}.delta", **place, **inner, **more, delta=change.text)
        else:
            whole = {"text": block.text} if inner else {"arguments": block.text, "name": item["name"]}
            yield self.event(f"{name}.done", **place, **inner, **more, **whole)
            if inner:
                yield self.event("response.content_part.done", **place, **inner, part=self.part(block))
            yield self.event("response.output_item.done", output_index=number, item=item)

    async def whole(self) -> dict[str, Any]:
        """The answer as a whole."""
        async for _, progress in self.session:
            for delta in parts_of(self.session.items[0], progress.pieces, progress.last):
                list(self.blocks.push(delta))
        return self.object(True)

    async def chunks(self) -> AsyncIterator[str]:
        """The answer in parts."""
        for kind in ("response.created", "response.in_progress"):
            yield self.event(kind, response=self.object(False))
        async for _, progress in self.session:
            for delta in parts_of(self.session.items[0], progress.pieces, progress.last):
                for change in self.blocks.push(delta):
                    for text in self.change(change):
                        yield text
        for change in self.blocks.finish():
            for text in self.change(change):
                yield text
        found = self.object(True)
        yield self.event(f"response.{found['status']}", response=found)


@router.post("/v1/responses", response_model=None)
async def responses(body: ResponsesRequest, request: Request) -> EventStream | dict[str, Any]:
    """Answers a conversation in OpenAI's newer form."""
    session = await begun(request, as_chat(body))
    response = Response(body, session)
    if body.stream:
        return EventStream(request, session, response.chunks())
    return await unless_hung_up(request, session, response.whole())
