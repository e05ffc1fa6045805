"""Tokenizers under llama-cpp-python's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from .base import LlamaTokenizer


class BaseLlamaTokenizer(ABC):
    """What `Llama(tokenizer=)` takes."""

    @abstractmethod
    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = True) -> list[int]:
        """The tokens of a text."""

    @abstractmethod
    def detokenize(
        self, tokens: Sequence[int], prev_tokens: Sequence[int] | None = None, special: bool = False
    ) -> bytes:
        """The bytes of tokens."""


BaseLlamaTokenizer.register(LlamaTokenizer)


class LlamaHFTokenizer(BaseLlamaTokenizer):
    """A tokenizer of the package `transformers`.

    Args:
        hf_tokenizer: an object with `encode` and `decode`.
    """

    def __init__(self, hf_tokenizer: Any) -> None:
        self.hf_tokenizer = hf_tokenizer

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = True) -> list[int]:
        return self.hf_tokenizer.encode(text.decode(errors="ignore"), add_special_tokens=special)

    def detokenize(
        self, tokens: Sequence[int], prev_tokens: Sequence[int] | None = None, special: bool = False
    ) -> bytes:
        def text(ids: Sequence[int]) -> bytes:
            return self.hf_tokenizer.decode(list(ids), skip_special_tokens=not special).encode(errors="ignore")

        if prev_tokens is None:
            return text(tokens)
        before = text(prev_tokens)
        return text([*prev_tokens, *tokens])[len(before) :]

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str) -> LlamaHFTokenizer:
        """The tokenizer of a folder or a repository; needs `transformers`."""
        from transformers import AutoTokenizer  # type: ignore[import-not-found, unused-ignore]

        return cls(AutoTokenizer.from_pretrained(pretrained_model_name_or_path))
