"""Prompts: texts and lists of ids as the tokens that a runner takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..._errors import named, naming
from ..run.batch import ImageToken
from ..run.runner import Runner
from ..text.keys import PREFIX, special_id

MODEL = PREFIX + "model"
RERANK = "tokenizer.chat_template.rerank"
NO_VOCABULARY = (None, "no_vocab", "none")  # values of MODEL; None: the file does not have the key


def integers(values: Any) -> list[int] | None:
    """A list of integers from a list or an array of them, None for anything else. Tokens of pictures stay these."""
    if isinstance(values, list) and any(type(value) is ImageToken for value in values):
        pictures = {i: value for i, value in enumerate(values) if type(value) is ImageToken}
        plain = integers([0 if i in pictures else value for i, value in enumerate(values)])
        return None if plain is None else [pictures.get(i, value) for i, value in enumerate(plain)]
    try:
        found = np.asarray(values)
    except ValueError:  # lists of different lengths
        return None
    return found.tolist() if found.ndim == 1 and (not found.size or found.dtype.kind in "iu") else None


class Prompts:
    """The tokens of prompts.

    Args:
        runner: what they are for.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._tokenizer: Any = None

    @property
    def tokenizer(self) -> Any:
        if self._tokenizer is None:  # once it is there, nobody waits for a call that computes
            with self.runner.lock:
                if self._tokenizer is None:
                    self.runner.check("tokenizer")
                    self._tokenizer = self._read_tokenizer()
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def has_vocabulary(self) -> bool:
        """Whether the file has tokens with texts."""
        return self.runner.metadata.get(MODEL) not in NO_VOCABULARY

    def decoding(self, shown: Collection[int] = ()) -> tuple[Collection[int], Any]:
        """The tokens that end a text, and what makes a text of tokens: None for a file without a vocabulary.

        Control tokens of `shown` have texts.
        """
        if self.has_vocabulary():
            return self.tokenizer.eog, self.tokenizer.decoder(shown) if shown else self.tokenizer.decoder()
        end = special_id(self.runner.metadata, "eos", None, self.runner.config.n_vocab)
        return () if end is None else (end,), None

    @named("Tokenizer")
    def _read_tokenizer(self) -> Any:
        """The tokenizer of the file, whose name errors have."""
        path, rows, kind = self.runner.file.path, self.runner.config.n_vocab, self.runner.metadata.get(MODEL)
        if kind in NO_VOCABULARY:
            raise ValueError(f"{path} has no vocabulary ({MODEL} is {kind!r}): need token ids, not texts")
        from ..text.tokenizer import Tokenizer

        with naming(path):
            tokenizer = Tokenizer(self.runner.metadata)
        if tokenizer.n_vocab != rows:
            raise ValueError(
                f"{path}: tokenizer.ggml.tokens has {tokenizer.n_vocab} items: need {rows}, as many as "
                "token_embd.weight has rows"
            )
        return tokenizer

    def ids(self, caller: str, prompt: str | bytes | Sequence[int], special: bool = False) -> list[int]:
        """The token ids of a prompt, checked."""
        if isinstance(prompt, (str, bytes)):
            ids = self.tokenizer.encode(prompt, None, special)
        else:
            ids = integers(prompt)
            if ids is None:
                raise TypeError(f"{caller}: the tokens are {str(prompt)[:60]}: need a text or a list of integers")
        if not ids:
            raise ValueError(f"{caller}: need at least one token")
        bad = [i for i in ids if not 0 <= i < self.runner.config.n_vocab and type(i) is not ImageToken]
        if bad:
            raise ValueError(f"{caller}: token {bad[0]}: need ids from 0 to {self.runner.config.n_vocab - 1}")
        return ids

    def answering(self, query: str | bytes, document: str | bytes) -> list[int]:
        """The token ids of a query and a document: by the file's template for it, else as a pair with a separator."""
        template = self.runner.metadata.get(RERANK)
        if template is None:
            return self.tokenizer.pair(query, document)
        return self.tokenizer.filled(template, {"query": query, "document": document})

    def types(self, ids: Sequence[int]) -> list[int]:
        """Which text of a pair each token is of: what follows the first separator is of the second."""
        separator = self.tokenizer.separator if self.has_vocabulary() else None
        end = ids.index(separator) + 1 if separator is not None and separator in ids else len(ids)
        return [0] * end + [1] * (len(ids) - end)

    def tokenize(self, text: str | bytes, add_bos: bool | None = None, special: bool = False) -> list[int]:
        """Splits a text into tokens.

        Args:
            text: str, or bytes that need not be valid UTF-8.
            add_bos: True to begin with the token for the beginning of a text; None for what the file says.
            special: True to recognise the names of control tokens in the text.
        Returns:
            List of token ids.
        """
        return self.tokenizer.encode(text, add_bos, special)

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of token ids; invalid UTF-8 is replaced by U+FFFD."""
        return self.tokenizer.decode(ids)
