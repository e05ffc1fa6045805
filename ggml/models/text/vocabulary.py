"""The vocabulary in a model's GGUF file, and its special tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..._owners import Owner
from .encoders import CONTROL, ENCODERS, NORMAL, UNKNOWN, USER_DEFINED, to_bytes
from .keys import array, flag, integer, special_id, wrong
from .normal import cleaner
from .tokens import TokenTable

# The texts of tokens that end an answer in one of the common chat formats.
END_TEXTS = (
    "<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s> <|eom_id|>"
    " <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <|tool_response>"
    " <\uff5cend\u2581of\u2581sentence\uff5c> [e~["
).split()
EOT_TEXTS = (  # those that end a turn, if the file does not name the token
    "<|eot_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|end_of_text|> <EOT> _<EOT> [EOT]"
    " <\uff5cend\u2581of\u2581sentence\uff5c> <end_of_utterance>"
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
    "clip": (None, None, None, None, None),
    "t5": (None, 1, 2, None, 0),
    "rwkv": (None, None, None, None, None),
}
PAIRS_HAVE_SEPARATORS = ("jina-v2-de", "jina-v2-es", "jina-v2-code", "roberta-bpe")
WHITE = b" \t\n\v\f\r"


class Vocabulary(Owner):
    """Tokens by id, the rules to make them of text, and the ids with a special meaning; see Tokenizer."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        model = metadata.get("tokenizer.ggml.model")
        if not isinstance(model, str) or model not in ENCODERS:
            known = ", ".join(map(repr, ENCODERS))
            raise wrong("model", model, f"one of {known}")
        self.model = model
        tokens = array(metadata, "tokens", "strings")
        if not tokens:
            raise ValueError("Tokenizer: tokenizer.ggml.tokens is missing or empty")
        types = array(metadata, "token_type", "integers", len(tokens))
        self.n_vocab = len(tokens)
        self._tokens = tokens
        self._types = types[: len(tokens)] if types is not None else [NORMAL] * len(tokens)
        self._ids = {text: i for i, text in enumerate(tokens)}
        self._reserved = self._special_ids()
        self._find_ends(metadata)
        self._reserved |= self._special_ids()
        self._encoder = ENCODERS[self.model](metadata, tokens, self._types, self._reserved)
        self._read_ids(metadata)
        self._clean = cleaner(metadata) if self.model != "bert" else bytes
        eot, eom = (special_id(metadata, key, None, self.n_vocab) for key in ("eot", "eom"))
        by_text = (token for text in EOT_TEXTS if (token := self.find(text)) >= 0)
        self.eot = next(by_text, None) if eot is None else eot
        stops = [self.eos, eot, eom]
        self.eog |= {token for token in stops if token is not None}

    def find(self, text: str) -> int:
        """The token of a name, or -1."""
        return self._ids.get(text, -1)

    def _special_ids(self) -> set[int]:
        """The tokens that are of a type whose texts do not become tokens unless asked for."""
        return {i for i, kind in enumerate(self._types) if kind in (CONTROL, UNKNOWN)}

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
        self.add_bos = flag(metadata, "add_bos_token", self._encoder.add_bos)
        self.add_eos = flag(metadata, "add_eos_token", self.model in ("t5", "clip"))
        self.filled_to = integer(metadata, "filled_to", 0, 1 << 16)
        usual = metadata.get("tokenizer.ggml.pre") in PAIRS_HAVE_SEPARATORS
        self.add_separator = flag(metadata, "add_sep_token", usual)
        if self.model == "bert":  # always between [CLS] and [SEP], and one [SEP] between texts
            self.add_bos, self.add_eos, self.add_separator = True, True, False
        if self.model == "gemma4":
            self.add_bos = True

    def _find_ends(self, metadata: Mapping[str, Any]) -> None:
        """Finds the tokens that end a generation, from the file's keys and from well-known texts."""
        by_text = {text: token for text in END_TEXTS if (token := self.find(text)) >= 0}
        ends = set(by_text.values())
        for key, texts in END_KEYS.items():
            named = [special_id(metadata, key, None, self.n_vocab), *map(self.find, texts)]
            ends |= set([token for token in named if token is not None and token >= 0][:1])
        for token in ends:  # not all files mark these as control tokens
            self._types[token] = CONTROL
        for text in SHOWN:
            if (token := self.find(text)) >= 0:
                self._types[token] = USER_DEFINED
                self._reserved.add(token)
        has = by_text.keys()
        if "<|end|>" in has and ({"<|return|>", "<|call|>"} <= has or {"<|calls|>", "<|flush|>"} <= has):
            ends.discard(by_text["<|end|>"])  # ends a part of an answer
            self._types[by_text["<|end|>"]] = USER_DEFINED
            self._reserved.add(by_text["<|end|>"])
        if "</s>" in has and "<|tool_response>" in has:
            ends.discard(by_text["</s>"])  # HTML
            self._types[by_text["</s>"]] = NORMAL
        self.eog = ends


GUARD = "\ufdd0\ufdd1".encode()  # stands in names that are text; Unicode has these for no characters


class SpecialTokens:
    """The tokens that text is split at before it is encoded: control tokens, and those that the user defined.

    Args:
        metadata: mapping of the file's keys to values.
        tokens: texts of all tokens.
        types: kinds of all tokens.
        reserved: tokens that text only becomes if special tokens are asked for.
        find: the token of a name, or -1.

    Attributes:
        control: set of int; special tokens, which have no text.
        texts: bytes of the special tokens by id.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        tokens: list[str],
        types: list[int],
        reserved: set[int],
        find: Callable[[str], int],
    ) -> None:
        kinds = enumerate(types)
        found = [(i, kind) for i, kind in kinds if kind == USER_DEFINED or kind == CONTROL or kind == UNKNOWN]
        self.control = {i for i, kind in found if kind != USER_DEFINED}
        self.texts = {i: to_bytes(tokens[i]) for i, _ in found}
        order = sorted((i for i, text in self.texts.items() if text), key=lambda i: -len(self.texts[i]))
        name, pre = str(metadata.get("general.name", "")).lower(), str(metadata.get("tokenizer.ggml.pre", ""))
        left: set[int] = set()
        right: set[int] = set()
        if pre in ("jina-v2-de", "jina-v2-es", "jina-v2-code"):
            left.add(find("<mask>"))
        elif "phi-3" in name or "phi3" in name:
            right = set(order) - {find(text) for text in ("<unk>", "<s>", "<|endoftext|>")}
        elif "modern-bert" in name:
            left.add(find("[MASK]"))
        guarded = self.control | reserved
        self._all = self._splitter(order, left, right)
        self._guarded = self._splitter([i for i in order if i in guarded], set(), set())
        self._user_defined = self._splitter([i for i in order if i not in guarded], left, right)

    def _splitter(self, ids: list[int], left: set[int], right: set[int]) -> Callable[[bytes], list[bytes | int]]:
        """A function that splits text at tokens; those of `left` and `right` take the white space beside them."""
        table = TokenTable([self.texts[i] for i in ids])
        strips = bytes(i in left for i in ids), bytes(i in right for i in ids), WHITE

        def split(data: bytes) -> list[bytes | int]:
            return [ids[part] if isinstance(part, int) else part for part in table.split(data, *strips)]

        return split

    def split(self, data: bytes, special: bool) -> list[bytes | int]:
        """Splits text at special tokens: the longest first, each from left to right.

        Args:
            data: text.
            special: bool; False to split only at the tokens that the user defined.

        Returns:
            list of texts (bytes) and tokens (int).
        """
        return self._all(data) if special else self._user_defined(data)

    def guarded(self, data: bytes) -> bytes:
        """A text whose names of control tokens stay text also where they would become these tokens: see GUARD."""
        out = []
        for part in self._guarded(data.replace(GUARD, b"")):
            if isinstance(part, int):
                name = self.texts[part]
                first = len(name.decode(errors="surrogateescape")[:1].encode(errors="surrogateescape"))
                part = name[:first] + GUARD + name[first:]
            out.append(part)
        return b"".join(out)
