"""Text to token ids, one class for each kind of vocabulary.

The text comes as bytes and need not be valid UTF-8.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from ..._extras import require
from .keys import array, flag, special_id, wrong
from .pretokenizers import CLIP_WORDS, PRE_TOKENIZERS
from .tokens import CharsMap, TokenTable, repair
from .unicode import base, category, lower

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # values in tokenizer.ggml.token_type
SPACE = "\u2581"  # stands for a space in SentencePiece vocabularies
SURROGATES = re.compile("[\ud800-\udfff]")
MISSING = "\U0010fffe"  # a code point that no text has: stands for what has no token, or cannot be read
LONG_NUMBER = 300  # digits; a multiple of three
BYTE_NAME = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def optional_module(name: str) -> Any:
    """A module of the extra `llm`."""
    require("", [name.partition(".")[0]], "'ggml-cython[llm]'")
    return import_module(name)


def to_bytes(text: str) -> bytes:
    """A token or text in UTF-8; escaped and other surrogates become the bytes that they stand for."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")


def to_text(data: bytes) -> str:
    """Text from bytes that need not be valid UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return repair(data)


def byte_of(text: str) -> bytes:
    """The byte that a token such as <0x0A> stands for; other tokens of that type stand for their text."""
    match = BYTE_NAME.fullmatch(text)
    return bytes([int(match[1], 16)]) if match else to_bytes(text)


def byte_characters() -> dict[int, str]:
    """The character that stands for each byte in byte-level vocabularies: printable Latin-1, then U+0100 and on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(0x100 + i) for i, b in enumerate(others)}


class Encoder(ABC):
    """One kind of vocabulary.

    Args:
        metadata: the file's keys.
        tokens: names of the tokens.
        types: type of each token.
        reserved: tokens that no text becomes.
    """

    add_bos = True  # unless the file says otherwise
    space_prefix = False  # whether decoding drops the space before a text

    def __init__(self, metadata: Mapping[str, Any], tokens: list[str], types: list[int], reserved: set[int]) -> None:
        self.tokens, self.types, self.reserved = tokens, types, reserved

    def table(self, kinds: set[int] | None = None, scores: list[float] | None = None) -> TokenTable:
        """The tokens that text can become, if they are of one of the types."""
        usable = [
            b"" if i in self.reserved or (kinds is not None and kind not in kinds) else to_bytes(text)
            for i, (text, kind) in enumerate(zip(self.tokens, self.types, strict=True))
        ]
        return TokenTable(usable, scores)

    @abstractmethod
    def encode(self, data: bytes, after_special: bool) -> list[int]:
        """The tokens of text without special tokens."""

    def piece(self, token: int) -> bytes:
        """The bytes of a token; none for tokens that are not text."""
        kind = self.types[token]
        if kind == BYTE:
            return byte_of(self.tokens[token])
        return to_bytes(self.tokens[token].replace(SPACE, " ")) if kind == NORMAL else b""


class Spm(Encoder):
    """SentencePiece BPE with byte fallback (`llama`)."""

    def __init__(self, metadata: Mapping[str, Any], tokens: list[str], types: list[int], reserved: set[int]) -> None:
        super().__init__(metadata, tokens, types, reserved)
        self.words = self.table(scores=array(metadata, "scores", "numbers", len(tokens)))
        self.space_prefix = flag(metadata, "add_space_prefix", True)
        unknown = special_id(metadata, "unknown", 0, len(tokens))
        self.unknown = -1 if unknown is None else unknown

    def encode(self, data: bytes, after_special: bool) -> list[int]:
        if self.space_prefix and after_special:
            data = b" " + data
        return self.words.merge(data.replace(b" ", SPACE.encode()), self.unknown)


class Bpe(Encoder):
    """Byte-level BPE (`gpt2`) with the library `tokenizers`."""

    def __init__(self, metadata: Mapping[str, Any], tokens: list[str], types: list[int], reserved: set[int]) -> None:
        library = optional_module("tokenizers")
        name = metadata.get("tokenizer.ggml.pre", "default")
        name = "default" if name == "" else name
        if metadata.get("tokenizer.ggml.model") == "gemma4":
            name = "gemma4"
        if not isinstance(name, str) or name not in PRE_TOKENIZERS:
            known = ", ".join(sorted(PRE_TOKENIZERS))
            raise wrong("pre", name, f"one of {known}")
        merges = array(metadata, "merges", "strings")
        if merges is None:
            raise ValueError("Tokenizer: the file has no tokenizer.ggml.merges, which byte-level BPE needs")
        self.rules = PRE_TOKENIZERS[name]
        self.add_bos = self.rules.add_bos
        super().__init__(metadata, tokens, types, reserved)
        vocabulary = {t: i for i, t in enumerate(tokens) if i not in reserved}
        self.characters = byte_characters()
        self.bytes = {character: byte for byte, character in self.characters.items()}
        # some vocabularies lack bytes that no text has: the library must not merge what stands around them
        self.complete = self.rules.plain or self.bytes.keys() <= vocabulary.keys()
        self.model = self._model(library, vocabulary, merges)
        splits = [library.pre_tokenizers.Split(library.Regex(pattern), "isolated") for pattern in self.rules.patterns]
        self.split = library.pre_tokenizers.Sequence(splits)
        self.pipeline = library.Tokenizer(self.model)
        if not self.rules.plain:
            splits.append(library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        self.pipeline.pre_tokenizer = library.pre_tokenizers.Sequence(splits)
        if self.rules.thousands:
            long_number = library.Regex(rf"{self.rules.thousands}{{{LONG_NUMBER + 1},}}")
            self.between_numbers = library.pre_tokenizers.Split(long_number, "removed")

    def _model(self, library: Any, vocabulary: dict[str, int], merges: list[str]) -> Any:
        """The library's model; merges of or into texts that are not tokens are left out, which it would refuse."""
        pairs = []
        for merge in merges:
            at = merge.find(" ", 1)
            pairs.append((merge[:at], merge[at + 1 :]))
        options: dict[str, Any] = {"ignore_merges": self.rules.ignore_merges, "byte_fallback": self.rules.plain}
        if not self.complete:
            vocabulary = {**vocabulary, MISSING: len(self.tokens)}
            options["unk_token"] = MISSING
        longest = max(map(len, vocabulary), default=0)
        if len(set(pairs)) == len(pairs) and all(len(a) + len(b) <= longest for a, b in pairs):
            try:
                return self.guarded(library.models.BPE, vocab=vocabulary, merges=pairs, **options)
            except ValueError:
                pass
        vocabulary = {t: i for t, i in vocabulary.items() if not SURROGATES.search(t)}
        pairs = [(a, b) for a, b in dict.fromkeys(pairs) if {a, b, a + b} <= vocabulary.keys()]
        return self.guarded(library.models.BPE, vocab=vocabulary, merges=pairs, **options)

    @staticmethod
    def guarded(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The result of a function of the library, whose errors are of no class of their own, and whose panics are no
        Exception."""
        try:
            return function(*args, **options)
        except BaseException as error:
            if type(error).__name__ != "PanicException" and (
                isinstance(error, MemoryError) or not isinstance(error, Exception)
            ):
                raise
            raise ValueError(f"Tokenizer: tokenizer.ggml.merges: {error}") from None

    def encode(self, data: bytes, after_special: bool) -> list[int]:
        text = to_text(data)
        if self.rules.plain:
            text = SURROGATES.sub("\ufffd", text.replace(" ", SPACE))
        ids = self.guarded(self._encode, text)
        return ids if self.complete else [token for token in ids if token < len(self.tokens)]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in self._parts(text):
            if SURROGATES.search(part):
                ids += self._encode_surrogates(part)
            else:
                ids += self.pipeline.encode(part, add_special_tokens=False).ids
        return ids

    def _parts(self, text: str) -> list[str]:
        """The text, cut within long numbers where the rules cut them too.

        The patterns look ahead to the end of a number from each of its digits.
        """
        if not self.rules.thousands or len(text) <= LONG_NUMBER:
            return [text]
        between = [place for _, place in self.between_numbers.pre_tokenize_str(SURROGATES.sub("\u0378", text))]
        starts, ends = [0, *(end for _, end in between)], [*(start for start, _ in between), len(text)]
        cuts = [0]
        for start, end in zip(starts, ends, strict=True):  # of the numbers
            if end > start:
                cuts += range(end - (end - start - 1) // LONG_NUMBER * LONG_NUMBER, end, LONG_NUMBER)
        return [text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]

    def _encode_surrogates(self, text: str) -> list[int]:
        """Encodes text that the library cannot take: it splits a copy, in which an unassigned code point replaces
        surrogates, and gets the bytes of each word one by one."""
        ids = []
        for _, (start, end) in self.split.pre_tokenize_str(SURROGATES.sub("\u0378", text)):
            word = text[start:end].encode(errors="surrogatepass")
            spelled = "".join(self.characters[b] for b in word)
            ids += [token.id for token in self.model.tokenize(spelled)]
        return ids

    def piece(self, token: int) -> bytes:
        if self.rules.plain or self.types[token] != NORMAL:
            return super().piece(token)
        return b"".join(bytes([self.bytes[c]]) if c in self.bytes else to_bytes(c) for c in self.tokens[token])


class Clip(Encoder):
    """CLIP's BPE (`clip`) with the library `tokenizers`: of lower case, and "</w>" ends the last part of a word.

    Where the file has no merges, they follow from the order of the tokens: each of more than one character is made of
    the two that those before it make of its text.
    """

    END = "</w>"

    def __init__(self, metadata: Mapping[str, Any], tokens: list[str], types: list[int], reserved: set[int]) -> None:
        super().__init__(metadata, tokens, types, reserved)
        library = optional_module("tokenizers")
        merges = array(metadata, "merges", "strings")
        pairs = merged_pairs(tokens, reserved) if merges is None else [tuple(m.split(" ", 1)) for m in merges]
        ids = {text: i for i, text in enumerate(tokens)}
        options: dict[str, Any] = {"end_of_word_suffix": self.END}
        unknown = special_id(metadata, "unknown", None, len(tokens))
        if unknown is not None:
            options["unk_token"] = tokens[unknown]
        self.pipeline = library.Tokenizer(Bpe.guarded(library.models.BPE, vocab=ids, merges=pairs, **options))
        normal, before = library.normalizers, library.pre_tokenizers
        spaces = normal.Replace(library.Regex(r"\s+"), " ")
        self.pipeline.normalizer = normal.Sequence([normal.NFC(), spaces, normal.Lowercase()])
        words = before.Split(library.Regex(CLIP_WORDS), "removed", invert=True)
        self.pipeline.pre_tokenizer = before.Sequence([words, before.ByteLevel(add_prefix_space=False)])
        self.bytes = {character: byte for byte, character in byte_characters().items()}

    def encode(self, data: bytes, after_special: bool) -> list[int]:
        text = SURROGATES.sub("\ufffd", to_text(data))
        return Bpe.guarded(self.pipeline.encode, text, add_special_tokens=False).ids

    def piece(self, token: int) -> bytes:
        if self.types[token] != NORMAL:
            return super().piece(token)
        text = self.tokens[token].removesuffix(self.END)
        space = b" " if text != self.tokens[token] else b""
        return b"".join(bytes([self.bytes[c]]) if c in self.bytes else to_bytes(c) for c in text) + space


def merged_pairs(tokens: list[str], reserved: set[int]) -> list[tuple[str, str]]:
    """The merges of a vocabulary in whose order they were learned."""
    ranks = {text: i for i, text in enumerate(tokens) if i not in reserved}
    pairs = []
    for text, rank in ranks.items():
        stem = text.removesuffix(Clip.END)
        parts = list(stem)
        if len(parts) < 2:
            continue
        if stem != text:
            parts[-1] += Clip.END
        while len(parts) > 2:
            found = [(ranks.get(a + b, rank), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))]
            best, i = min(found)
            if best >= rank:
                break
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2 and all(ranks.get(part, rank) < rank for part in parts):
            pairs.append((parts[0], parts[1]))
    return pairs


class WordPiece(Encoder):
    """BERT's vocabulary (`bert`): the longest token that fits, word by word, with U+2581 before the first of a word.

    The library's WordPiece takes quadratic time for long words, and replaces words of more than 100 characters.
    """

    space_prefix = True  # of the first word

    def __init__(self, metadata: Mapping[str, Any], tokens: list[str], types: list[int], reserved: set[int]) -> None:
        super().__init__(metadata, tokens, types, reserved)
        self.words = self.table()
        unknown = special_id(metadata, "unknown", 100, len(tokens))
        self.unknown = [] if unknown is None else [unknown]
        lowercase = flag(metadata, "normalizer.lowercase", True)
        strip = flag(metadata, "normalizer.strip_accents", lowercase)
        self.normalized = lru_cache(maxsize=1 << 16)(lambda character: normalized(character, lowercase, strip))

    def encode(self, data: bytes, after_special: bool) -> list[int]:
        ids: list[int] = []
        for word in "".join(map(self.normalized, to_text(data))).split(" "):
            if word:
                found = self.words.longest_first(to_bytes(SPACE + word))
                ids += self.unknown if found is None else found  # where a part of the word has no token
        return ids


def normalized(character: str, lowercase: bool, strip: bool) -> str:
    """What BERT's normalizer makes of a character: nothing, a space, a word of its own between spaces, or a letter.

    With `strip`, a character with an accent is replaced by the first of its decomposition.
    """
    if strip:
        character = base(character)
    kind, point = category(character), ord(character)
    if character.isspace() and point not in range(0x1C, 0x20):
        return " "
    if point in (0, 0xFFFD) or (kind[0] == "C" and kind != "Cn") or (strip and kind[0] == "M"):
        return ""
    alone = kind[0] == "P" or (kind[0] == "S" and point < 0x7F) or is_ideograph(point)
    if lowercase:
        character = lower(character)
    return f" {character} " if alone else character


def is_ideograph(point: int) -> bool:
    """Whether BERT makes a word of each character: the CJK ideographs (with the gap of the original program)."""
    return (
        0x4E00 <= point <= 0x9FFF
        or 0x3400 <= point <= 0x4DBF
        or 0x20000 <= point <= 0x2A6DF
        or 0x2A700 <= point <= 0x2B73F
        or 0x2B740 <= point <= 0x2B81F
        or 0x2B920 <= point <= 0x2CEAF
        or 0xF900 <= point <= 0xFAFF
        or 0x2F800 <= point <= 0x2FA1F
    )


class Unigram(Encoder):
    """SentencePiece's Unigram model (`t5`)."""

    add_bos = False

    def __init__(self, metadata: Mapping[str, Any], tokens: list[str], types: list[int], reserved: set[int]) -> None:
        scores = array(metadata, "scores", "numbers", len(tokens))
        if scores is None:
            raise ValueError("Tokenizer: the file has no tokenizer.ggml.scores, which Unigram needs")
        super().__init__(metadata, tokens, types, reserved)
        lowest = min((s for s, kind in zip(scores, types, strict=False) if kind == NORMAL), default=0.0)
        self.unknown_score = float(lowest) - 10
        known = zip(scores, types, strict=False)
        self.words = self.table(
            {NORMAL, UNUSED, USER_DEFINED}, [0.0 if kind == USER_DEFINED else score for score, kind in known]
        )
        unknown = special_id(metadata, "unknown", 2, len(tokens))
        if unknown is None:
            raise ValueError("Tokenizer: the vocabulary has no token for unknown text (unknown_token_id)")
        self.unknown = unknown
        self.charsmap = self._charsmap(array(metadata, "precompiled_charsmap", "integers"))
        self.space_prefix = flag(metadata, "add_space_prefix", False)
        self.merge_spaces = flag(metadata, "remove_extra_whitespaces", False)

    @staticmethod
    def _charsmap(data: list[int] | None) -> CharsMap | None:
        """The replacements of characters, None where the file has none."""
        if not data:
            return None
        try:
            return CharsMap(bytes(b & 255 for b in data))
        except ValueError as error:
            raise ValueError(f"Tokenizer: tokenizer.ggml.precompiled_charsmap: {error}") from None

    def encode(self, data: bytes, after_special: bool) -> list[int]:
        try:
            data.decode()
        except UnicodeDecodeError:
            data = repair(data, strict=True, replacement=ord(MISSING)).encode()
        if self.charsmap is not None:
            data = self.charsmap.normalize(data)
        data = data.replace(MISSING.encode(), b"\xef\xbf\xbd")  # what stands for wrong bytes is not normalized
        if self.merge_spaces:
            data = b"".join(SPACE.encode() + word for word in data.split(b" ") if word)
        else:
            start = len(data) - len(data.lstrip(b" "))
            if self.space_prefix and start < len(data):
                data = data[:start] + b" " + data[start:]
            data = data.replace(b" ", SPACE.encode())
        return self.words.most_likely(data, self.unknown, self.unknown_score)


class World(Encoder):
    """The vocabulary of RWKV World (`rwkv`): at each place the longest token. Names are escaped bytes, as in Python."""

    add_bos = False
    ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{2}|.)", re.DOTALL)
    ESCAPED = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}

    def __init__(self, metadata: Mapping[str, Any], tokens: list[str], types: list[int], reserved: set[int]) -> None:
        super().__init__(metadata, tokens, types, reserved)
        self.pieces = [self.unescaped(to_bytes(text)) for text in tokens]
        usable = [(piece, i) for i, piece in enumerate(self.pieces) if types[i] == NORMAL and i not in reserved]
        self.words = dict(reversed(usable))
        lengths: dict[bytes, set[int]] = {}
        for piece in self.words:
            lengths.setdefault(piece[:2], set()).add(len(piece))
        # the lengths of tokens by their first two bytes, the longest first; a token of one byte fits any second one
        self.lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        unknown = special_id(metadata, "unknown", None, len(tokens))
        self.unknown = [] if unknown is None else [unknown]

    @classmethod
    def unescaped(cls, name: bytes) -> bytes:
        """The bytes of a token from its name."""

        def byte(match: re.Match[bytes]) -> bytes:
            text = match[1]
            return bytes([int(text[1:], 16)]) if len(text) == 3 else cls.ESCAPED.get(text, text)

        return cls.ESCAPE.sub(byte, name)

    def encode(self, data: bytes, after_special: bool) -> list[int]:
        ids: list[int] = []
        at = 0
        while at < len(data):
            for length in (*self.lengths.get(data[at : at + 2], ()), 1):
                token = self.words.get(data[at : at + length])
                if token is not None:
                    break
            ids += self.unknown if token is None else [token]
            at += length
        return ids

    def piece(self, token: int) -> bytes:
        return self.pieces[token] if self.types[token] == NORMAL else b""


ENCODERS: dict[str, type[Encoder]] = {
    "llama": Spm,
    "gpt2": Bpe,
    "gemma4": Bpe,
    "bert": WordPiece,
    "clip": Clip,
    "t5": Unigram,
    "rwkv": World,
}
