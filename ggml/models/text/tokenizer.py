"""A model's tokenizer, built from the vocabulary in its GGUF file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..._errors import named
from .encoders import to_bytes
from .vocabulary import GUARD, SpecialTokens, Vocabulary


class Tokenizer(Vocabulary):
    """Text to token ids and back, by the rules of llama.cpp.

    Args:
        metadata: mapping of the file's keys to values; `tokenizer.ggml.*` are read. Arrays are lists, strings `str`
            (bytes that are not UTF-8 as surrogate escapes).

    Attributes:
        n_vocab: int; number of tokens.
        bos, eos, eot, unknown, separator, padding: int or None; ids of special tokens.
        eog: set of int; tokens that end a generation.
        control: set of int; special tokens, which have no text.
        add_bos, add_eos: bool; what `encode` adds unless told otherwise.
        filled_to: int; the number of tokens to which `encode` fills texts up that it adds tokens to; 0 for none.
        add_separator: bool; whether a separator follows the end of the first text of a pair.
        texts: dict; the tokens of whole characters that a Decoder has met, with their texts.

    Raises:
        ValueError: the file has no vocabulary, one of an unknown kind, or one that is inconsistent, or a key has a
            value of the wrong kind.
    """

    @named("Tokenizer")
    def __init__(self, metadata: Mapping[str, Any]) -> None:
        super().__init__(metadata)
        self._special = SpecialTokens(metadata, self._tokens, self._types, self._reserved, self.find)
        self.control = self._special.control
        self._pieces: dict[int, bytes] = {}
        self.texts: dict[int, str] = {}

    # ---- text to ids -------------------------------------------------------------------------------------------------
    def encode(self, text: str | bytes, add_bos: bool | None = None, special: bool = False) -> list[int]:
        """The tokens of a text.

        Args:
            text: str or bytes; bytes need not be valid UTF-8.
            add_bos: bool or None; None adds the tokens for the beginning and the end of a text as the file says, False
                adds neither, and True always adds the first.
            special: bool; whether the texts of special tokens such as <|im_end|> become these tokens. Otherwise they
                are text like any other, which is the safe choice for text from strangers, as are those that `guarded`
                returned.

        Returns:
            list of int.

        Raises:
            TypeError: text is neither str nor bytes.
            ValueError: add_bos is True and the vocabulary has no such token.
        """
        if isinstance(text, str):
            data = to_bytes(text)
        elif isinstance(text, (bytes, bytearray, memoryview)):
            data = bytes(text)
        else:
            raise TypeError(f"tokenize: text is a {type(text).__name__}: need str or bytes")
        ids = []
        if self.add_bos if add_bos is None else add_bos:
            if self.bos is None:
                raise ValueError("tokenize: the vocabulary has no token for the beginning of a text")
            ids.append(self.bos)
        after_special = True
        for part in self._special.split(data, special):
            if isinstance(part, int):
                ids.append(part)
                after_special = True
            elif part := part.replace(GUARD, b"") if special else part:
                ids += self._encoder.encode(self._clean(part), after_special)
                after_special = False
        if self.add_eos if add_bos is None else False:
            end = self.separator if self.model == "bert" else self.eos
            if end is not None:
                ids.append(end)
        if add_bos is None and self.padding is not None:
            ids += [self.padding] * (self.filled_to - len(ids))
        return ids

    def guarded(self, text: str) -> str:
        """A text as a part of one that is encoded with `special`: its own names of special tokens stay text there."""
        data = to_bytes(text)
        found = self._special.guarded(data)
        return text if found == data else found.decode(errors="surrogateescape")

    def pair(self, first: str | bytes, second: str | bytes) -> list[int]:
        """The tokens of a pair of texts: between them what ends a text, and the separator where the file says so."""
        end = self.separator if self.model == "bert" else self.eos
        ends = [end] if self.add_eos and end is not None else []
        separator = self.eos if self.separator is None else self.separator
        between = ends + ([separator] if self.add_separator and separator is not None else [])
        begin = [self.bos] if self.add_bos and self.bos is not None else []
        return [*begin, *self.encode(first, False), *between, *self.encode(second, False), *ends]

    def filled(self, template: str, texts: Mapping[str, str | bytes]) -> list[int]:
        """The tokens of a template, whose special tokens count, with texts, whose special tokens are text.

        Args:
            template: str; {name} stands for a text.
            texts: by name.
        """
        ids = []
        values = {f"{{{name}}}": to_bytes(text) if isinstance(text, str) else text for name, text in texts.items()}
        names = re.compile(b"|".join(re.escape(name.encode()) for name in values))
        for part in self._special.split(to_bytes(template), True):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self.encode(names.sub(lambda m: values[m[0].decode()], part), False)
        return ids

    def encode_within(self, text: str | bytes, special: bool = False) -> list[int]:
        """The tokens of a text that continues another: nothing is added before it.

        Args:
            text: str or bytes.
            special: bool; whether names of special tokens become these tokens; otherwise they are text.
        """
        data = to_bytes(text) if isinstance(text, str) else bytes(text)
        ids: list[int] = []
        for part in self._special.split(data, special) if special else [data]:
            ids += [part] if isinstance(part, int) else self._encoder.encode(self._clean(part), bool(ids))
        return ids

    # ---- ids to text -------------------------------------------------------------------------------------------------
    def piece(self, token: int, special: bool = False) -> bytes:
        """The bytes of a token, which can be a part of a character.

        Args:
            token: int.
            special: bool; whether special tokens have a text, such as <|im_end|>. Otherwise they are empty.

        Raises:
            IndexError: there is no such token.
        """
        if not 0 <= token < self.n_vocab:
            raise IndexError(f"detokenize: token {token} does not exist: need 0 to {self.n_vocab - 1}")
        if token in self.control:
            return self._special.texts[token] if special else b""
        piece = self._pieces.get(token)
        if piece is None:
            text = self._special.texts.get(token)  # of user-defined tokens
            piece = self._pieces[token] = self._encoder.piece(token) if text is None else text
        return piece

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of tokens; bytes that are not UTF-8 become U+FFFD.

        Args:
            ids: iterable of int.
            special: bool; whether special tokens are shown.

        Returns:
            str, without the space that `encode` puts before a text with vocabularies that do so.
        """
        return self.decode_bytes(ids, special).decode(errors="replace")

    def decode_bytes(self, ids: Iterable[int], special: bool = False) -> bytes:
        """The bytes of tokens, which need not be UTF-8; see decode."""
        try:
            tokens = [int(token) for token in ids]
        except (TypeError, ValueError):
            raise TypeError(f"detokenize: the tokens are {str(ids)[:60]}: need a list of integers") from None
        data = b"".join([self.piece(token, special) for token in tokens])
        return data[1:] if self._encoder.space_prefix and data[:1] == b" " else data

    def decoder(self, shown: Collection[int] = ()) -> Decoder:
        """Decodes tokens one after the other, as text that continues another; control tokens of `shown` have texts."""
        return Decoder(self, shown)

    def has(self, text: str) -> bool:
        """Whether the vocabulary has a token of this name."""
        return self.find(text) >= 0

    def text(self, token: int) -> str:
        """The name of a token in the vocabulary."""
        if not 0 <= token < self.n_vocab:
            raise IndexError(f"Tokenizer: token {token} does not exist: need 0 to {self.n_vocab - 1}")
        return self._tokens[token]


class Decoder:
    """Text of tokens that come one by one: a character is returned when its last byte is there."""

    def __init__(self, tokenizer: Tokenizer, shown: Collection[int] = ()) -> None:
        self._tokenizer, self._shown = tokenizer, frozenset(shown)
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._between = True  # whether no part of a character is held

    def push(self, token: int) -> str:
        """The text that a token completes, which can be empty."""
        if token in self._shown:
            return self.flush() + self._tokenizer.piece(token, True).decode(errors="replace")
        text = self._tokenizer.texts.get(token) if self._between else None
        if text is None:
            before, self._between = self._between, False
            text = self._utf8.decode(self._tokenizer.piece(token))
            self._between = not self._utf8.getstate()[0]
            if before and self._between:
                self._tokenizer.texts[token] = text
        return text

    def flush(self) -> str:
        """The replacement character if the last character is incomplete, else nothing."""
        self._between = True
        return self._utf8.decode(b"", final=True)
