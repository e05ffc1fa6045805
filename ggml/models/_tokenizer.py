"""A model's tokenizer, built from the vocabulary in its GGUF file."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from typing import Any

from ._encoders import CONTROL, ENCODERS, NORMAL, UNKNOWN, USER_DEFINED, special_id, to_bytes
from ._tokens import TokenTable

# The texts of tokens that end an answer in one of the common chat formats.
END_TEXTS = (
    "<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s> <|eom_id|>"
    " <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <|tool_response>"
    " <\uff5cend\u2581of\u2581sentence\uff5c> [e~["
).split()
# Tokens that separate files and fill gaps in code models: of each line, the first that the vocabulary has ends a text.
END_KEYS = {
    "fim_pad": "<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]".split(),
    "fim_rep": "<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame>".split(),
    "fim_sep": "<|file_sep|>".split(),
}
SHOWN = "<|channel|> <|message|> <|start|> <|constrain|>".split()  # gpt-oss: text between these is part of the answer
DEFAULTS = {  # ids where the file names none: bos, eos, unknown, separator, padding
    "llama": (1, 2, 0, None, None),
    "gpt2": (11, 11, None, None, None),
    "gemma4": (None, None, None, None, None),
    "bert": (101, None, 100, 102, 0),
    "t5": (None, 1, 2, None, 0),
}
WHITE = b" \t\n\v\f\r"


class Tokenizer:
    """Text to token ids and back, by the rules of llama.cpp.

    Args:
        metadata: mapping of the file's keys to values; `tokenizer.ggml.*` are read. Arrays are sequences, strings `str`
            (bytes that are not UTF-8 as surrogate escapes).

    Attributes:
        n_vocab: int; number of tokens.
        bos, eos, unknown, separator, padding: int or None; ids of special tokens.
        eog: set of int; tokens that end a generation.
        control: set of int; special tokens, which have no text.
        add_bos, add_eos: bool; what `encode` adds unless told otherwise.

    Raises:
        ValueError: the file has no vocabulary, one of an unknown kind, or one that is inconsistent.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        model = metadata.get("tokenizer.ggml.model")
        if not isinstance(model, str) or model not in ENCODERS:
            known = ", ".join(map(repr, ENCODERS))
            raise ValueError(f"Tokenizer: tokenizer.ggml.model is {model!r}: need one of {known}")
        self.model = model
        tokens = metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list) or not tokens or not isinstance(tokens[0], str):
            raise ValueError("Tokenizer: tokenizer.ggml.tokens is missing or no array of strings")
        types = metadata.get("tokenizer.ggml.token_type")
        if types is not None and len(types) < len(tokens):
            raise ValueError(f"Tokenizer: tokenizer.ggml.token_type has {len(types)} items: need {len(tokens)}")
        self.n_vocab = len(tokens)
        self._tokens = tokens
        self._types = list(types) if types is not None else [NORMAL] * len(tokens)
        self._encoder = ENCODERS[self.model](metadata, tokens, self._types)
        self._read_ids(metadata)
        self._find_ends(metadata)
        self._sort_special(metadata)
        self._pieces: dict[int, bytes] = {}

    # ---- construction ------------------------------------------------------------------------------------------------
    def _read_ids(self, metadata: Mapping[str, Any]) -> None:
        """Reads the ids of special tokens, and what encode adds."""
        keys = ("bos", "eos", "unknown", "seperator", "padding")  # with GGUF's spelling
        found = [
            special_id(metadata, key, default, self.n_vocab)
            for key, default in zip(keys, DEFAULTS[self.model], strict=True)
        ]
        self.bos, self.eos, self.unknown, self.separator, self.padding = found
        if metadata.get("tokenizer.ggml.pre") in ("chatglm-bpe", "glm4", "glm5"):
            self.bos = special_id(metadata, "bos", None, self.n_vocab)  # without the default
        self.add_bos = bool(metadata.get("tokenizer.ggml.add_bos_token", self._encoder.add_bos))
        self.add_eos = bool(metadata.get("tokenizer.ggml.add_eos_token", self.model == "t5"))
        if self.model == "bert":  # always between [CLS] and [SEP]
            self.add_bos = self.add_eos = True
        if self.model == "gemma4":
            self.add_bos = True

    def _find_ends(self, metadata: Mapping[str, Any]) -> None:
        """Finds the tokens that end a generation, from the file's keys and from well-known texts."""
        find = self._encoder.find
        by_text = {text: token for text in END_TEXTS if (token := find(text.encode())) >= 0}
        ends = set(by_text.values())
        for key, texts in END_KEYS.items():
            named = [special_id(metadata, key, None, self.n_vocab), *(find(text.encode()) for text in texts)]
            ends |= set([token for token in named if token is not None and token >= 0][:1])
        for token in ends:  # not all files mark these as control tokens
            self._types[token] = CONTROL
        stops = [self.eos, *(special_id(metadata, key, None, self.n_vocab) for key in ("eot", "eom"))]
        ends |= {token for token in stops if token is not None}
        for text in SHOWN:
            if (token := find(text.encode())) >= 0:
                self._types[token] = USER_DEFINED
        has = by_text.keys()
        if "<|end|>" in has and ({"<|return|>", "<|call|>"} <= has or {"<|calls|>", "<|flush|>"} <= has):
            ends.discard(by_text["<|end|>"])  # ends a part of an answer
            self._types[by_text["<|end|>"]] = USER_DEFINED
        if "</s>" in has and "<|tool_response>" in has:
            ends.discard(by_text["</s>"])  # HTML
            self._types[by_text["</s>"]] = NORMAL
        self.eog = ends

    def _sort_special(self, metadata: Mapping[str, Any]) -> None:
        """Prepares the search for special tokens in text."""
        kinds = enumerate(self._types)
        found = [(i, kind) for i, kind in kinds if kind == USER_DEFINED or kind == CONTROL or kind == UNKNOWN]
        self.control = {i for i, kind in found if kind != USER_DEFINED}
        texts = {i: to_bytes(self._tokens[i]) for i, _ in found}
        order = sorted((i for i in texts if texts[i]), key=lambda i: -len(texts[i]))
        self._special = order, TokenTable([texts[i] for i in order])
        plain = [i for i in order if i not in self.control]
        self._user_defined = plain, TokenTable([texts[i] for i in plain])
        self._special_texts = texts
        name, pre = str(metadata.get("general.name", "")).lower(), str(metadata.get("tokenizer.ggml.pre", ""))
        self._strip_left: set[int] = set()
        self._strip_right: set[int] = set()
        find = self._encoder.find
        if pre in ("jina-v2-de", "jina-v2-es", "jina-v2-code"):
            self._strip_left.add(find(b"<mask>"))
        elif "phi-3" in name or "phi3" in name:
            self._strip_right = set(order) - {find(t) for t in (b"<unk>", b"<s>", b"<|endoftext|>")}
        elif "modern-bert" in name:
            self._strip_left.add(find(b"[MASK]"))

    # ---- text to ids -------------------------------------------------------------------------------------------------
    def encode(self, text: str | bytes, add_bos: bool | None = None, special: bool = False) -> list[int]:
        """The tokens of a text.

        Args:
            text: str or bytes; bytes need not be valid UTF-8.
            add_bos: bool or None; None adds the tokens for the beginning and the end of a text as the file says, False
                adds neither, and True always adds the first.
            special: bool; whether the texts of special tokens such as <|im_end|> become these tokens. Otherwise they
                are text like any other, which is the safe choice for text from strangers.

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
        for part in self._partition(data, special):
            if isinstance(part, int):
                ids.append(part)
                after_special = True
            else:
                ids += self._encoder.encode(part, after_special)
                after_special = False
        if self.add_eos if add_bos is None else False:
            end = self.separator if self.model == "bert" else self.eos
            if end is not None:
                ids.append(end)
        return ids

    def _partition(self, data: bytes, special: bool) -> list[bytes | int]:
        """Splits text at special tokens: the longest first, each from left to right."""
        ids, table = self._special if special else self._user_defined
        parts: list[bytes | int] = [data] if data else []
        if not ids:
            return parts
        for index in table.occurring(data):
            token = ids[index]
            text, split = self._special_texts[token], []
            for part in parts:
                if isinstance(part, int) or text not in part:
                    split.append(part)
                    continue
                first, *rest = part.split(text)
                pieces = [first]
                for piece in rest:
                    pieces += [token, piece]
                split += self._stripped(pieces, token)
            parts = split
        return parts

    def _stripped(self, pieces: list[Any], token: int) -> list[bytes | int]:
        """Text between special tokens, without white space where the token takes it, and without empty pieces."""
        for i, piece in enumerate(pieces):
            if i % 2 == 0 and token in self._strip_left and i + 1 < len(pieces):
                piece = piece.rstrip(WHITE)
            if i % 2 == 0 and token in self._strip_right and i > 0:
                piece = piece.lstrip(WHITE)
            pieces[i] = piece
        return [piece for piece in pieces if isinstance(piece, int) or piece]

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
            return self._special_texts[token] if special else b""
        piece = self._pieces.get(token)
        if piece is None:
            text = self._special_texts.get(token)  # of user-defined tokens
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
        data = b"".join([self.piece(int(token), special) for token in ids])
        if self._encoder.space_prefix and data[:1] == b" ":
            data = data[1:]
        return data.decode(errors="replace")

    def decoder(self) -> Decoder:
        """Decodes tokens one after the other, as text that continues another."""
        return Decoder(self)

    def has(self, text: str) -> bool:
        """Whether the vocabulary has a token of this name."""
        return self._encoder.find(to_bytes(text)) >= 0

    def text(self, token: int) -> str:
        """The name of a token in the vocabulary."""
        if not 0 <= token < self.n_vocab:
            raise IndexError(f"Tokenizer: token {token} does not exist: need 0 to {self.n_vocab - 1}")
        return self._tokens[token]


class Decoder:
    """Text of tokens that come one by one: a character is returned when its last byte is there."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._piece = tokenizer.piece
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """The text that a token completes, which can be empty."""
        return self._utf8.decode(self._piece(token))

    def flush(self) -> str:
        """The replacement character if the last character is incomplete, else nothing."""
        return self._utf8.decode(b"", final=True)


