"""Messages in the forms that programs use, as a chat template takes them.

OpenAI's form has the arguments of a tool call as a JSON string, null for no content, and content as a list of parts.
Most templates are written for arguments that are objects, messages without what is null, and content that is a string.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

from .sandbox import MessagesError

Message = dict[str, Any]
REASONING = ("reasoning_content", "thinking", "reasoning")  # names of an answer's reasoning


class Form(NamedTuple):
    """A form of messages; the first of each is the one that is tried first."""

    joined: bool  # whether content in parts is one text
    empty: bool  # whether content that is null is an empty text; otherwise there is none
    strings: bool  # whether arguments of tool calls are JSON strings; otherwise they are objects


def render_messages(messages: list[Message], render: Callable[[list[Message]], str]) -> str:
    """The text of messages in the first form that the template takes and shows without flaws.

    Args:
        messages: dicts of plain values.
        render: the template.

    Raises:
        TemplateError: the template takes none of the forms.
        ValueError: the template takes text alone and there are other parts.
    """
    parts = any(isinstance(message.get("content"), list) for message in messages)
    nulls = any(message.get("content", "") is None for message in messages)
    calls = any(True for message in messages for _ in functions(message))
    best, failure = None, None
    for form in map(Form._make, product(*([False, True][: 1 + given] for given in (parts, nulls, calls)))):
        shown = [in_form(message, form) for message in messages]
        try:
            text = render(shown)
        except MessagesError as error:
            failure = failure or error
            continue
        found = sum(flaws(message, text) for message in shown)
        if best is None or found < best[0]:
            best = found, text
        if not found:
            break
    others = [(i, kind) for i, message in enumerate(messages) for kind in other_parts(message)]
    if others and (best is None or best[0]):
        raise ValueError(
            f"chat: messages[{others[0][0]}] has a part of the type {others[0][1]!r}: the model's template takes text"
        )
    if best is None:
        assert failure is not None
        raise failure
    return best[1]


def functions(message: Message) -> Iterator[dict[str, Any]]:
    """The functions that a message calls, with their arguments."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function", call) if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("arguments"), (str, dict)):
            yield function


def other_parts(message: Message) -> list[str]:
    """The types of the parts of a message that are not text."""
    content = message.get("content")
    found = content if isinstance(content, list) else []
    return [str(part.get("type")) for part in found if isinstance(part, dict) and part_text(part) is None]


def part_text(part: Any) -> str | None:
    """The text of a part of a message; None if it is something else."""
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return part["text"]
    return part if isinstance(part, str) else None


def in_form(message: Message, form: Form) -> Message:
    """A message in a form, with its reasoning under the names that templates read."""
    out = {key: value for key, value in message.items() if value is not None}
    if form.empty and message.get("content", "") is None:
        out["content"] = ""
    reasoning = next((out[name] for name in REASONING if name in out), None)
    if reasoning is not None:
        out = {"thinking": reasoning, **out, "reasoning_content": reasoning}
    content = out.get("content")
    if form.joined and isinstance(content, list):
        texts = [part_text(part) for part in content]
        if None not in texts:
            out["content"] = "\n".join(text for text in texts if text is not None)
    if any(True for _ in functions(message)):
        out["tool_calls"] = json.loads(json.dumps(out["tool_calls"]))  # a copy
        for function in functions(out):
            function["arguments"] = arguments_in_form(function["arguments"], form)
    return out


def arguments_in_form(arguments: str | dict[str, Any], form: Form) -> str | dict[str, Any]:
    """The arguments of a call as a JSON string or as an object; text that is no object stays."""
    if form.strings:
        return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        value = None
    return value if isinstance(value, dict) else arguments


def flaws(message: Message, text: str) -> int:
    """How many values of a message a text has as no template means them: spelled by Python, escaped, or not at all."""
    found = 0
    for function in functions(message):
        arguments = function["arguments"]
        spelled = str(arguments) if isinstance(arguments, dict) else json.dumps(arguments, ensure_ascii=False)[1:-1]
        found += bool(arguments) and spelled not in ("{}", arguments) and spelled in text
    content = message.get("content")
    for part in content if isinstance(content, list) else []:
        own = part_text(part)
        spellings = [str(part), *(json.dumps(part, ensure_ascii=ascii_) for ascii_ in (False, True))]
        found += (isinstance(part, dict) and any(s in text for s in spellings)) or bool(own and own.strip() not in text)
    return found
