"""An answer in a conversation: its reasoning, its content, and the tools that it calls."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from ..._owners import Owner
from ..chat.conversation import Question, call_message
from ..chat.reasoning import Part, reasoning_tokens
from .text import Generation, TokenProbability


class Answer(Owner, Iterator[str]):
    """Yields the pieces of an answer's content. Other calls of the model may come between the pieces.

    Attributes:
        text: the Generation of the whole text.
        content: what came so far.
        reasoning: what the model wrote before, between its marks for reasoning.
        tool_calls: list of dict, in OpenAI's form: `{"id", "type", "function": {"name", "arguments"}}`, with the
            arguments in JSON.
    """

    def __init__(self, text: Generation, question: Question) -> None:
        self.text, self._question, self._reader = text, question, question.new_reader()
        self.content, self.reasoning = "", ""
        self.tool_calls: list[dict[str, Any]] = []
        self._parts: list[Part] = []
        self._ended = False

    @property
    def ids(self) -> list[int]:
        """The token ids that were generated so far, without the one that ended the text."""
        return self.text.ids

    @property
    def prompt_ids(self) -> list[int]:
        """The token ids of the prompt."""
        return self.text.prompt_ids

    @property
    def logprobs(self) -> list[TokenProbability]:
        """A TokenProbability for each id, if log-probabilities were asked for."""
        return self.text.logprobs

    @property
    def finish_reason(self) -> str | None:
        """None while it goes on, then "stop", "length", or "tool_calls" if the answer ended and calls tools."""
        if not self._ended or self._parts:
            return None
        return "tool_calls" if self.tool_calls and self.text.finish_reason == "stop" else self.text.finish_reason

    @property
    def reasoning_tokens(self) -> int:
        """How many of `ids` are reasoning, with those of the mark that ends it."""
        return reasoning_tokens(self._question.new_reader(), self.text.texts()) if self.reasoning else 0

    @property
    def message(self) -> dict[str, Any]:
        """The answer so far as a message in OpenAI's form."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message |= {"content": self.content or None, "tool_calls": self.tool_calls}
        return message | ({"reasoning_content": self.reasoning} if self.reasoning else {})

    def __next__(self) -> str:
        for delta in self.deltas():
            if "content" in delta:
                return delta["content"]
        raise StopIteration

    def deltas(self) -> Iterator[dict[str, Any]]:
        """The parts of the answer as they come: each a dict with `content`, `reasoning_content` or `tool_calls`."""
        while True:
            while self._parts:
                yield self._delta(self._parts.pop(0))
            if self._ended:
                return
            try:
                self._parts += self._reader.push(next(self.text))
            except StopIteration:
                self._ended = True
                self._parts += self._reader.finish()

    def push(self, piece: str) -> list[dict[str, Any]]:
        """The parts that are certain after another piece of the text, for programs that compute `text` themselves."""
        return [self._delta(part) for part in self._reader.push(piece)]

    def finish(self) -> list[dict[str, Any]]:
        """The parts that are left at the end of the text."""
        self._ended = True
        return [self._delta(part) for part in self._reader.finish()]

    def _delta(self, part: Part) -> dict[str, Any]:
        if part.call is None:
            if part.kind == "content":
                self.content += part.text
                return {"content": part.text}
            self.reasoning += part.text
            return {"reasoning_content": part.text}
        identifier = secrets.token_hex(8)[:9] if self._question.short_ids else f"call_{secrets.token_hex(12)}"
        found = identifier, part.call.name, part.call.arguments
        self.tool_calls.append(call_message(*found))
        return {"tool_calls": [call_message(*found, index=len(self.tool_calls) - 1)]}

    def close(self) -> None:
        """Ends the answer here and releases its memory."""
        self.text.close()
        self._parts, self._ended = [], True
