"""A conversation as a prompt, and how its answer is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .reasoning import Addressed, Plain, Reader, tags_of
from .schemas import closed
from .syntaxes import Words, control_names
from .telling import switched, told
from .template import ChatTemplate, conversation_of, prompt_tokens
from .tools import GENERIC, Format, checked_tools, format_of, schemas_of, strict_schemas, takes_tools

CHOICES = ("auto", "none", "required")


@dataclass
class Question:
    """What is asked of the model.

    Attributes:
        ids: tokens of the prompt.
        new_reader: makes a Reader of the answer.
        shown: control tokens that the reader reads.
        lark: grammar of an answer that must call tools, or whose calls are strict; None for any.
        each: returns for each tool its name, the grammar of its calls, and the schema of its arguments.
        thinking: whether the prompt ends within reasoning.
        begin, end: tokens around reasoning; empty if there is none.
        short_ids: whether ids of calls have nine characters, as Mistral's templates want.
    """

    ids: list[int]
    new_reader: Callable[[], Reader]
    shown: set[int]
    lark: str | None
    each: Callable[[], Iterator[tuple[str, str, Any]]]
    thinking: bool
    begin: list[int]
    end: list[int]
    short_ids: bool


def chosen_tools(caller: str, tools: list[dict[str, Any]], choice: Any) -> tuple[list[dict[str, Any]], bool]:
    """The tools that may be called, and whether one must be, for OpenAI's `tool_choice`."""
    if choice is None or choice == "auto":
        return tools, False
    if choice == "none":
        return [], False
    if choice == "required":
        if not tools:
            raise ValueError(f"{caller}: tool_choice is 'required', and there are no tools")
        return tools, True
    function = choice.get("function", choice) if isinstance(choice, Mapping) else {"name": choice}
    name = function.get("name") if isinstance(function, Mapping) else None
    found = [tool for tool in tools if tool["function"]["name"] == name]
    if not found:
        known = ", ".join(map(repr, [*CHOICES, *schemas_of(tools)]))
        raise ValueError(f"{caller}: tool_choice is {str(choice)[:60]!r}: need one of {known}")
    return found, True


def with_known_roles(source: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages for a template that may not know OpenAI's newer name of system messages."""
    if "developer" in source:
        return messages
    return [{**message, "role": "system"} if message["role"] == "developer" else message for message in messages]


class Conversations:
    """Makes prompts of conversations with a model.

    Args:
        metadata: mapping of the file's keys to values.
        tokenizer: Tokenizer.
    """

    def __init__(self, metadata: Mapping[str, Any], tokenizer: Any) -> None:
        self._metadata, self._tokenizer = metadata, tokenizer
        self._templates: dict[str | None, ChatTemplate] = {}

    def template(self, source: str | None = None) -> ChatTemplate:
        """The chat template of the file, one of its further ones by name, or another one by its text."""
        if source is not None and not isinstance(source, str):
            raise TypeError(f"chat: chat_template is a {type(source).__name__}: need a string")
        if source not in self._templates:
            named = f"tokenizer.chat_template.{source}"
            text = self._metadata.get(named) if source is not None and len(source) < 100 else None
            keys = self._metadata if source is None else {"tokenizer.chat_template": text or source}
            if len(self._templates) > 8:
                self._templates.clear()
            self._templates[source] = ChatTemplate(keys, self._tokenizer)
        return self._templates[source]

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Any = None,
        source: str | None = None,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
        guarded: bool = False,
    ) -> str:
        """The prompt of a conversation; tools are told in the first message where the template knows none.

        If it is `guarded`, names of control tokens in messages and tools stay text when it is encoded.
        """
        template = self.template(source)
        written = template.source_with_tools if tools else template.source
        shown = with_known_roles(written, conversation_of(messages))
        if guarded:
            shown, tools = self._guarded(shown), self._guarded(tools)
        shown, given = told(written, shown, tools)
        return template.render(shown, add_generation_prompt, **{**given, **switched(written, variables or {})})

    def question(
        self,
        caller: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Any = None,
        choice: Any = None,
        parallel: bool = True,
        source: str | None = None,
        variables: Mapping[str, Any] | None = None,
        reasoning: bool = True,
        seen: Callable[..., tuple[str, list[int]]] | None = None,
    ) -> Question:
        """A conversation with the tools that the answer may call; see Generating.chat.

        With `reasoning` false, reasoning stays part of the content. `seen` makes the text and the tokens of messages
        with pictures, from the function that renders messages.
        """
        template = self.template(source)
        known = checked_tools(caller, tools) if tools else []
        allowed, must = chosen_tools(caller, known, choice)
        parallel = parallel and not (must and choice != "required")  # a named tool is called once

        def render(shown: Sequence[Mapping[str, Any]]) -> str:
            return self.render(shown, allowed, source, True, variables, guarded=True)

        text, ids = seen(caller, messages, render) if seen is not None else (render(messages), None)
        written = template.source_with_tools if allowed else template.source
        form = format_of(written) if takes_tools(written) else GENERIC
        heads = form.heads if reasoning or allowed else None
        tags = heads.tags if heads is not None else tags_of(template.source) if reasoning else None
        return self.asked(text, allowed, must, parallel, form, tags, heads is not None, ids)

    def asked(
        self,
        text: str,
        allowed: Sequence[Mapping[str, Any]] = (),
        must: bool = False,
        parallel: bool = True,
        form: Format = GENERIC,
        tags: tuple[str, str] | None = None,
        addressed: bool = False,
        ids: list[int] | None = None,
    ) -> Question:
        """What a prompt asks for.

        Args:
            text: of the prompt.
            allowed: the tools that may be called.
            must: whether one has to be.
            parallel: whether several may be.
            form: of calls.
            tags: around reasoning, or None.
            addressed: whether answers are read as messages with the heads of the form.
            ids: the tokens of the prompt; None for those of the text.
        """
        tokenizer = self._tokenizer
        thinking = tags is not None and text.rstrip().endswith(tags[0].rstrip())
        of_tags = control_names(tags or ())
        marks = [*(form.control if allowed or addressed else ()), *of_tags]
        schemas, words = schemas_of(allowed), Words(self._control, marks)
        limits = {name: closed(schema) for name, schema in schemas.items()} if must else strict_schemas(allowed)
        within = not must and not addressed and any(self._control(tag) is not None for tag in of_tags)
        before = tags if within else None

        def each() -> Iterator[tuple[str, str, Any]]:
            for name, schema in (limits or {}).items():
                yield name, form.grammar({name: schema}, words, False) or "", schema

        return Question(
            prompt_tokens(tokenizer, text) if ids is None else ids,
            partial(Addressed, form, schemas, text)
            if addressed
            else partial(Plain, form if allowed else None, tags, thinking, schemas),
            {token for mark in marks if (token := tokenizer.find(mark)) >= 0},
            form.grammar(limits, words, parallel, must, before) if limits else None,
            each,
            thinking,
            self._tokens(tags[0]) if tags else [],
            self._tokens(tags[1]) if tags else [],
            form.name.startswith("mistral"),
        )

    def _guarded(self, value: Any) -> Any:
        """A value whose texts have no names of control tokens that are such when they are encoded."""
        if isinstance(value, str):
            return self._tokenizer.guarded(value)
        if isinstance(value, dict):
            return {key: self._guarded(item) for key, item in value.items()}
        return [self._guarded(item) for item in value] if isinstance(value, list) else value

    def _control(self, name: str) -> int | None:
        """The id of a control token, None for texts that are none."""
        token = self._tokenizer.find(name)
        return token if token in self._tokenizer.control else None

    def _tokens(self, text: str) -> list[int]:
        """The tokens of a mark, as the model writes it."""
        token = self._tokenizer.find(text.strip())
        return [token] if token >= 0 else self._tokenizer.encode_within(text.strip(), True)


def call_message(identifier: str, name: str, arguments: Mapping[str, Any], index: int | None = None) -> dict[str, Any]:
    """A call in OpenAI's form; with its index, as part of a stream."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {**({} if index is None else {"index": index}), "id": identifier, "type": "function", "function": function}
