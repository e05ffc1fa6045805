"""Answers as dictionaries of the shape that OpenAI's interface has."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ._generate import Generation, TokenProbability


class Completion:
    """An answer, whole or in parts.

    Args:
        model: name in the answer.
        text: the generation.
        prefix: text before it.
        chat: True for the shape of chats, False for that of completions.
    """

    def __init__(self, model: str, text: Generation, prefix: str, chat: bool = False) -> None:
        self.text, self.prefix, self.chat = text, prefix, chat
        kind = "chat.completion" if chat else "text_completion"
        name = f"{'chat' if chat else ''}cmpl-{uuid.uuid4()}"
        self.head = {"id": name, "object": kind, "created": int(time.time()), "model": model}

    def whole(self) -> dict[str, Any]:
        """The finished answer."""
        content = self.prefix + "".join(self.text)
        choice: dict[str, Any] = {"index": 0}
        choice |= {"message": {"role": "assistant", "content": content}} if self.chat else {"text": content}
        choice |= {"logprobs": self._logprobs(self.text.logprobs), "finish_reason": self.text.finish_reason}
        asked, given = len(self.text.prompt_ids), len(self.text.ids)
        usage = {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given}
        return {**self.head, "choices": [choice], "usage": usage}

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The parts of the answer as they come; the last one has the reason of the end and no text."""
        if self.chat:
            self.head["object"] = "chat.completion.chunk"
            yield self._chunk({"delta": {"role": "assistant"}}, None)
        if self.prefix:
            yield self._chunk({"text": self.prefix}, None)
        done = 0
        for piece in self.text:
            probabilities = self._logprobs(self.text.logprobs[done:])
            done = len(self.text.logprobs)
            yield self._chunk({"delta": {"content": piece}} if self.chat else {"text": piece}, None, probabilities)
        yield self._chunk({"delta": {}} if self.chat else {"text": ""}, self.text.finish_reason)

    def _chunk(self, part: dict[str, Any], reason: str | None, logprobs: Any = None) -> dict[str, Any]:
        return {**self.head, "choices": [{"index": 0, **part, "logprobs": logprobs, "finish_reason": reason}]}

    def _logprobs(self, tokens: Sequence[TokenProbability]) -> dict[str, Any] | None:
        """Log-probabilities of tokens in the shape of the interface, None if none were asked for."""
        if self.text._top is None:
            return None
        name = self.text.model.tokenizer.piece
        texts = [name(t.id).decode(errors="ignore") for t in tokens]
        tops = [{name(i).decode(errors="ignore"): value for i, value in t.top} for t in tokens]
        if self.chat:
            content = [
                {"token": text, "logprob": t.logprob, "bytes": None,
                 "top_logprobs": [{"token": k, "logprob": v, "bytes": None} for k, v in top.items()]}
                for text, t, top in zip(texts, tokens, tops)
            ]  # fmt: skip
            return {"content": content, "refusal": None}
        for top, text, token in zip(tops, texts, tokens):
            top[text] = token.logprob
        offsets = np.cumsum([len(self.prefix), *map(len, texts)])[:-1].tolist()
        probabilities = [t.logprob for t in tokens]
        return {"tokens": texts, "text_offset": offsets, "token_logprobs": probabilities, "top_logprobs": tops}
