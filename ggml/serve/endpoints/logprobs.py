"""Log-probabilities of tokens in OpenAI's forms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ...models import Model, TokenProbability

LEAST = -9999.0  # stands for the logarithm of 0, which JSON cannot express


def shown(model: Model, token: int) -> tuple[str, list[int]]:
    """The text of a token and its bytes."""
    if not model.prompts.has_vocabulary():
        return "", []
    piece = model.tokenizer.piece(token, True)
    return piece.decode(errors="replace"), list(piece)


def of_chat(model: Model, tokens: Sequence[TokenProbability]) -> dict[str, Any]:
    """In the form of chats."""

    def item(token: int, value: float) -> dict[str, Any]:
        text, data = shown(model, token)
        return {"token": text, "logprob": max(value, LEAST), "bytes": data, "id": token}

    content = [
        {**item(t.id, t.logprob), "top_logprobs": [item(other, value) for other, value in t.top]} for t in tokens
    ]
    return {"content": content, "refusal": None}


def of_completion(model: Model, tokens: Sequence[TokenProbability], offset: int) -> dict[str, Any]:
    """In the form of completions; `offset`: characters before the first token."""
    texts = [shown(model, t.id)[0] for t in tokens]
    tops = [{shown(model, other)[0]: max(value, LEAST) for other, value in t.top} for t in tokens]
    for top, text, t in zip(tops, texts, tokens, strict=True):
        top[text] = max(t.logprob, LEAST)
    offsets = list(accumulate(map(len, texts), initial=offset))[:-1]
    values = [max(t.logprob, LEAST) for t in tokens]
    return {"tokens": texts, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}
