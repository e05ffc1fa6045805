"""Answers as dictionaries of the shape that OpenAI's interface has."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from ..generate.answer import Answer
from ..generate.text import Generation, TokenProbability, probability
from ..model import Model


class Completion:
    """An answer, whole or in parts.

    Args:
        model: what wrote the text.
        name: name of the model in the answer.
        text: the generation.
        prompt: text before it.
        echo: True to begin the answer with the prompt.
        chat: Answer for the shape of chats, None for that of completions.
        legacy: whether the first call is also given as `function_call`, as where a function was named.
        done: is called when the text has ended.
    """

    def __init__(
        self, model: Model, name: str, text: Generation, prompt: str = "", echo: bool = False,
        chat: Answer | None = None, legacy: bool = False, done: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.model, self.text, self.chat, self._legacy, self._done = model, text, chat, legacy, done
        self.prefix = prompt if echo else ""
        self._offset = 0 if echo else len(prompt)  # of the next token that gets a log-probability
        kind = "chat.completion" if chat is not None else "text_completion"
        answer = f"{'' if chat is None else 'chat'}cmpl-{uuid.uuid4()}"
        self.head: dict[str, Any] = {"id": answer, "object": kind, "created": int(time.time()), "model": name}

    def whole(self) -> dict[str, Any]:
        """The finished answer."""
        first = self._of_the_prompt() if self.prefix and self.text.top is not None else []
        content = self.prefix + "".join(self.text if self.chat is None else self.chat)
        self._done()
        logprobs = self._logprobs([*first, *self.text.logprobs], first=bool(first))
        part: dict[str, Any] = {"text": content}
        if self.chat is not None:
            part = {"message": self.chat.message}
            if self._legacy and self.chat.tool_calls:
                part["message"]["function_call"] = self.chat.tool_calls[0]["function"]
        asked, given = len(self.text.prompt_ids), len(self.text.ids)
        usage = {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given}
        return {**self._chunk(part, self._reason(), logprobs), "usage": usage}

    def _reason(self) -> str | None:
        """Why the answer ended."""
        return self.text.finish_reason if self.chat is None else self.chat.finish_reason

    def _parts(self) -> Iterator[dict[str, Any]]:
        """The pieces of the answer in the shape of a stream."""
        if self.chat is None:
            for piece in self.text:
                yield {"text": piece}
            return
        for delta in self.chat.deltas():
            if self._legacy and "tool_calls" in delta:
                delta["function_call"] = delta["tool_calls"][0]["function"]
            yield {"delta": delta}

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The parts of the answer as they come; the last one has the reason of the end and no text."""
        if self.chat is not None:
            self.head["object"] += ".chunk"
            yield self._chunk({"delta": {"role": "assistant"}}, None)
        if self.prefix:
            tokens = self._of_the_prompt() if self.text.top is not None else []
            yield self._chunk({"text": self.prefix}, None, self._logprobs(tokens, first=True))
        done = 0
        for part in self._parts():
            probabilities = self._logprobs(self.text.logprobs[done:])
            done = len(self.text.logprobs)
            yield self._chunk(part, None, probabilities)
        self._done()
        yield self._chunk({"text": ""} if self.chat is None else {"delta": {}}, self._reason())

    def _chunk(self, part: dict[str, Any], reason: str | None, logprobs: Any = None) -> dict[str, Any]:
        part = {**part, "index": 0} if self.chat is None else {"index": 0, **part}
        return {**self.head, "choices": [{**part, "logprobs": logprobs, "finish_reason": reason}]}

    def _of_the_prompt(self) -> list[TokenProbability]:
        """The tokens of the prompt, without the one for the beginning of a text; nothing precedes the first."""
        model, ids, count = self.model, self.text.prompt_ids, self.text.top or 0
        rows = model.logits(ids)
        found = [probability(rows[max(0, i - 1)], token, "", count) for i, token in enumerate(ids)]
        return found[1:] if ids[0] == model.tokenizer.bos else found

    def _logprobs(self, tokens: Sequence[TokenProbability], first: bool = False) -> dict[str, Any] | None:
        """Log-probabilities of tokens in the shape of the interface, None if none were asked for.

        With `first`, the first of them is the prompt's first token: there is no probability of it.
        """
        if self.text.top is None:
            return None
        name = self.model.tokenizer.piece
        texts = [name(t.id).decode(errors="ignore") for t in tokens]
        tops = [{name(i).decode(errors="ignore"): value for i, value in t.top} for t in tokens]
        if self.chat is not None:
            content = [
                {"token": text, "bytes": None, "logprob": t.logprob,
                 "top_logprobs": [{"token": k, "logprob": v, "bytes": None} for k, v in top.items()]}
                for text, t, top in zip(texts, tokens, tops)
            ]  # fmt: skip
            return {"content": content, "refusal": None}
        for top, text, token in zip(tops, texts, tokens):
            top[text] = token.logprob
        offsets = list(accumulate(map(len, texts), initial=self._offset))
        self._offset = offsets.pop()
        probabilities: list[float | None] = [t.logprob for t in tokens]
        alternatives: list[dict[str, float] | None] = [*tops]
        if first and tokens:
            probabilities[0] = alternatives[0] = None
        return {"tokens": texts, "text_offset": offsets, "token_logprobs": probabilities, "top_logprobs": alternatives}
