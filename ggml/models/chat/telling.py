"""How a model is told about tools, and about calls that its template does not write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .tools import GENERIC, Format, format_of, way_of

RESULT = "<tool_response>", "</tool_response>"
INSTRUCTIONS = (
    "You can call these functions, each described by a JSON schema of its arguments:\n{tools}\n"
    "To call a function, answer with a JSON object of its name and arguments within tags, one for each call:\n"
    '<tool_call>\n{{"name": "NAME", "arguments": {{...}}}}\n</tool_call>'
)
SWITCHES = {"thinking": (False, True), "thinking_mode": ("disabled", "enabled")}  # other names of enable_thinking
Messages = list[dict[str, Any]]


def told(source: str, messages: Sequence[Mapping[str, Any]], tools: Any) -> tuple[Messages, dict[str, Any]]:
    """Messages and variables with which a chat template shows tools, and calls of the conversation.

    Args:
        source: of the template.
        messages: the conversation.
        tools: descriptions in OpenAI's form; none if there are none.
    """
    way, shown = way_of(source), [dict(message) for message in messages]
    if tools and way is None:
        return with_instructions(shown, tools, takes_system(source)), {}
    if way is not None and "tool_calls" not in source:
        form = format_of(source)
        shown = [with_calls(message, form) for message in shown]
    if way == "functions":  # of Firefunction, which needs both
        now = datetime.now().strftime("%b %d %Y %H:%M:%S GMT")
        return shown, {"functions": json.dumps(tools, indent=2) if tools else "", "datetime": now}
    if tools and way == "message":  # of Phi-4-mini
        described = json.dumps([tool["function"] for tool in tools], ensure_ascii=False)
        if not shown or shown[0].get("role") != "system":
            shown.insert(0, {"role": "system", "content": ""})
        shown[0]["tools"] = described
        return shown, {}
    return shown, {way: tools} if tools and way else {}


def switched(source: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Variables of a template, with `enable_thinking` under the names by which templates know it."""
    on = variables.get("enable_thinking")
    if on is None or "enable_thinking" in source:
        return dict(variables)
    return {**{name: values[bool(on)] for name, values in SWITCHES.items()}, **variables}


def takes_system(source: str) -> bool:
    """Whether a chat template takes a first message of the role `system`."""
    return "System role not supported" not in source


def with_calls(message: dict[str, Any], form: Format) -> dict[str, Any]:
    """A message whose calls are part of its text, in the form in which the model writes them."""
    texts = []
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        arguments = function.get("arguments") or {}
        try:
            arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        except ValueError:  # it stays as it is
            pass
        texts.append(form.syntax.written(str(function.get("name")), arguments))
    content = message.get("content") or ""
    if not texts or None in texts or not isinstance(content, str):
        return message
    calls = form.first + form.between.join(map(str, texts)) + form.last
    return {**message, "content": f"{content}\n{calls}" if content else calls}


def as_text(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose calls are text in Hermes' form, and a result as a message of the user."""
    if message.get("role") == "tool":
        return {"role": "user", "content": f"{RESULT[0]}\n{message.get('content')}\n{RESULT[1]}"}
    if not message.get("tool_calls"):
        return message
    shown = with_calls(message, GENERIC)
    return {key: value for key, value in shown.items() if key != "tool_calls"}


def with_instructions(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], system: bool = True
) -> Messages:
    """Messages whose first one describes the tools, for templates that do not; calls and results become text.

    Args:
        messages: the conversation.
        tools: descriptions.
        system: whether the template takes messages of the role `system`.
    """
    text = INSTRUCTIONS.format(tools="\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools))
    out: Messages = []
    for message in messages:
        shown = as_text(dict(message))
        if message.get("role") == "tool" and out and out[-1].get("role") == "user" and RESULT[0] in out[-1]["content"]:
            out[-1]["content"] += "\n" + shown["content"]
        else:
            out.append(shown)
    first = out[0] if out else {}
    if isinstance(first.get("content"), str):
        if first.get("role") in ("system", "developer"):
            first["content"] += "\n\n" + text
            return out
        if not system and first.get("role") == "user":
            first["content"] = text + "\n\n" + first["content"]
            return out
    return [{"role": "system", "content": text}, *out]
