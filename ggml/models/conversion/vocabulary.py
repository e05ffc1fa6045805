"""The keys tokenizer.* of a file, from the tokenizer that a folder has."""

from __future__ import annotations

import base64
import json
import os
import struct
import warnings
from collections.abc import Iterator
from typing import Any

from ..text.encoders import BYTE, BYTE_NAME, CONTROL, NORMAL, SPACE, UNKNOWN, UNUSED, USER_DEFINED, Clip
from ..text.normal import BARE_WORDS, LOWERCASE
from ..text.pretokenizers import CLIP_WORDS
from .checkpoint import Checkpoint, optional
from .clip import SIGLIP
from .fields import Fields, optional_json, read_json, shown
from .parts import Keys
from .pretokenizer import name_of

PREFIX = "tokenizer.ggml."
# Setting of tokenizer_config.json: part of the key of its id, with GGUF's spelling
SPECIAL = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "sep_token": "seperator",
           "pad_token": "padding", "mask_token": "mask"}  # fmt: skip
NEVER = -1e6  # score of a token that merging never makes
CLASSES = {"GPT2Tokenizer": "gpt-2", "Qwen2Tokenizer": "qwen2", "CodeGenTokenizer": "phi-2",
           "CLIPTokenizer": "clip"}  # without tokenizer.json  # fmt: skip
CLIP_SPECIAL = ("<|startoftext|>", "<|endoftext|>")
BARE_WORDS_CLASSES = ("SiglipModel", "Siglip2Model")
FILES = "tokenizer.json, tokenizer.model, vocab.json and merges.txt, or vocab.txt"


class Tokens:
    """The tokens of a vocabulary, by id.

    Attributes:
        texts: of the tokens.
        types: of the tokens, as in tokenizer.ggml.token_type.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.found: dict[int, tuple[str, int]] = {}

    def add(self, token: Any, text: Any, kind: int = NORMAL) -> None:
        """Adds a token, or replaces one."""
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < 1 << 24:
            raise ValueError(f"convert: {self.where}: token {shown(text)} has the id {shown(token)}")
        if not isinstance(text, str):
            raise ValueError(f"convert: {self.where}: token {token} is {shown(text)}: need a string")
        self.found[token] = text, kind

    def add_special(self, added: Any) -> None:
        """Adds a list of special and user-defined tokens, as tokenizer.json has it."""
        if not isinstance(added, list) or not all(isinstance(item, dict) for item in added):
            raise ValueError(f"convert: {self.where}: 'added_tokens' is {shown(added)}: need a list of objects")
        for item in added:
            token, text = item.get("id"), item.get("content")
            is_unknown = isinstance(token, int) and self.found.get(token, ("", NORMAL))[1] == UNKNOWN
            self.add(token, text, UNKNOWN if is_unknown else CONTROL if item.get("special") else USER_DEFINED)

    def keys(self, rows: int) -> Keys:
        """Texts and types of all tokens; there are as many as the embedding has rows."""
        count = max(self.found, default=-1) + 1
        if rows and count > rows:
            raise ValueError(f"convert: {self.where}: the vocabulary has {count} tokens, the embedding {rows} rows")
        every = [self.found.get(i, (f"[PAD{i}]", UNUSED)) for i in range(max(count, rows))]
        return {f"{PREFIX}tokens": [text for text, _ in every], f"{PREFIX}token_type": [kind for _, kind in every]}


def vocabulary(checkpoint: Checkpoint, rows: int) -> Keys:
    """The keys of a folder's tokenizer, special tokens and chat templates.

    Args:
        checkpoint: the folder.
        rows: of the embedding; 0 if they are not known.
    Raises:
        ValueError: a file is damaged, or the tokenizer is of a kind that no GGUF file can have.
    """
    folder = checkpoint.folder
    path = os.path.join(folder, "tokenizer.json")
    whole = read_json(path) if os.path.exists(path) else {}
    pieces, name = optional(folder, "tokenizer.model"), "tokenizer.model"
    if pieces is None and checkpoint.names[0] in BARE_WORDS_CLASSES:
        pieces, name = optional(folder, "spiece.model"), "spiece.model"
    settings = Fields(optional_json(folder, "tokenizer_config.json"), os.path.join(folder, "tokenizer_config.json"))
    model = whole.get("model")
    kind = kind_of(whole, path) if whole else ""
    if pieces is not None and kind in ("", "llama", "t5"):
        keys = sentencepiece(pieces, os.path.join(folder, name), whole, rows)
    elif whole:
        assert isinstance(model, dict)
        read = {"gpt2": byte_level, "clip": clip, "llama": byte_fallback, "bert": word_piece, "t5": unigram}[kind]
        keys = read(whole, path, rows)
    elif os.path.exists(os.path.join(folder, "vocab.json")):
        keys = vocabulary_and_merges(folder, settings, rows)
    elif (lines := optional(folder, "vocab.txt")) is not None:
        keys = word_list(lines, os.path.join(folder, "vocab.txt"), rows)
    else:
        warnings.warn(f"convert: {folder} has no tokenizer ({FILES}): prompts will be token ids", stacklevel=4)
        return {f"{PREFIX}model": "no_vocab"}
    keys |= special_ids(checkpoint, settings, keys)
    keys |= added_around(whole, settings, keys)
    if checkpoint.names[0] in BARE_WORDS_CLASSES:
        keys |= cleaned(checkpoint, keys)
    return keys | templates(folder, settings)


def kind_of(whole: dict[str, Any], path: str) -> str:
    """The value of tokenizer.ggml.model."""
    model = whole.get("model")
    if not isinstance(model, dict):
        raise ValueError(f"convert: {path}: 'model' is {shown(model)}: need an object")
    kind = model.get("type")
    if kind == "BPE" and model.get("end_of_word_suffix") == Clip.END:
        return "clip"
    if kind == "BPE":
        return "llama" if model.get("byte_fallback") else "gpt2"
    if kind not in ("WordPiece", "Unigram"):
        raise ValueError(f"convert: {path}: the tokenizer's model is {shown(kind)}: need BPE, WordPiece or Unigram")
    return "bert" if kind == "WordPiece" else "t5"


def steps(part: Any, name: str) -> Iterator[dict[str, Any]]:
    """The steps of a normalizer, pre-tokenizer or post-processor, which may be a sequence of them."""
    if isinstance(part, dict):
        if part.get("type") == "Sequence" and isinstance(part.get(name), list):
            for inner in part[name]:
                yield from steps(inner, name)
        else:
            yield part


def table(model: dict[str, Any], where: str) -> dict[str, Any]:
    """The vocabulary of a model, ids by texts."""
    vocab = model.get("vocab")
    if not isinstance(vocab, dict):
        raise ValueError(f"convert: {where}: 'vocab' is {shown(vocab)}: need an object")
    return vocab


def merges_of(model: dict[str, Any], where: str) -> list[tuple[str, str]]:
    """The pairs that are merged, in their order."""
    pairs, merges = [], model.get("merges") or []
    if not isinstance(merges, list):
        raise ValueError(f"convert: {where}: 'merges' is {shown(merges)}: need a list")
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise ValueError(f"convert: {where}: a merge is {shown(merge)}: need two tokens")
        pairs.append((pair[0], pair[1]))
    return pairs


def byte_level(whole: dict[str, Any], path: str, rows: int) -> Keys:
    """Byte-level BPE: tokens, merges, and the pre-tokenizer by what it does."""
    model, tokens = whole["model"], Tokens(path)
    for step in steps(whole.get("normalizer"), "normalizers"):
        if step.get("type") not in ("NFC",):  # programs that read GGUF files leave it out
            raise ValueError(f"convert: {path}: the normalizer is not known: it has {shown(step)}")
    for text, token in table(model, path).items():
        tokens.add(token, text)
    tokens.add_special(whole.get("added_tokens", []))
    pre = name_of(whole.get("pre_tokenizer"), bool(model.get("ignore_merges")), path)
    merges = [f"{a} {b}" for a, b in merges_of(model, path)]
    return {f"{PREFIX}model": "gpt2", f"{PREFIX}pre": pre, **tokens.keys(rows), f"{PREFIX}merges": merges}


def clip(whole: dict[str, Any], path: str, rows: int) -> Keys:
    """CLIP's BPE: tokens and merges. What is done before is the same for all of this kind."""
    model, tokens = whole["model"], Tokens(path)
    words = [step for step in steps(whole.get("pre_tokenizer"), "pretokenizers") if step.get("type") == "Split"]
    pattern = words[0].get("pattern") if len(words) == 1 else None
    regex = pattern.get("Regex") if isinstance(pattern, dict) else None
    if not isinstance(regex, str) or not regex.replace(r"[\p{L}]", r"\p{L}").replace(r"[\p{N}]", r"\p{N}").endswith(
        CLIP_WORDS
    ):
        raise ValueError(f"convert: {path}: the pre-tokenizer is not known: it has {shown(words)}")
    for text, token in table(model, path).items():
        tokens.add(token, text)
    tokens.add_special(whole.get("added_tokens", []))
    merges = [f"{a} {b}" for a, b in merges_of(model, path)]
    return {f"{PREFIX}model": "clip", **tokens.keys(rows), f"{PREFIX}merges": merges}


def cleaned(checkpoint: Checkpoint, keys: Keys) -> Keys:
    """Of SigLIP: texts are of lower case, those of its first version have no punctuation, and all are filled up."""
    length = checkpoint.config.integer(
        "max_position_embeddings", default=SIGLIP["max_position_embeddings"], high=1 << 16
    )
    padding = keys.get(f"{PREFIX}padding_token_id", keys.get(f"{PREFIX}eos_token_id", 1))
    first = {f"{PREFIX}{BARE_WORDS}": True} if keys[f"{PREFIX}model"] == "t5" else {}
    return {f"{PREFIX}{LOWERCASE}": True, **first, f"{PREFIX}filled_to": length, f"{PREFIX}padding_token_id": padding,
            f"{PREFIX}add_bos_token": False, f"{PREFIX}add_eos_token": True}  # fmt: skip


def byte_fallback(whole: dict[str, Any], path: str, rows: int) -> Keys:
    """SentencePiece BPE as tokenizer.json has it: the scores are the order of the merges."""
    model, tokens = whole["model"], Tokens(path)
    unknown = model.get("unk_token")
    for text, token in table(model, path).items():
        kind = UNKNOWN if text == unknown else BYTE if BYTE_NAME.fullmatch(text) else NORMAL
        tokens.add(token, text, kind)
    tokens.add_special(whole.get("added_tokens", []))
    ranks: dict[str, int] = {}
    for a, b in merges_of(model, path):
        ranks.setdefault(a + b, len(ranks))
    keys = tokens.keys(rows)
    scores = [-float(ranks[text]) if text in ranks else NEVER for text in keys[f"{PREFIX}tokens"]]
    pre, spaces = whole.get("pre_tokenizer"), list(steps(whole.get("normalizer"), "normalizers"))
    prefix = any(step.get("type") == "Prepend" for step in spaces)
    for step in steps(pre, "pretokenizers"):
        if step.get("type") == "Metaspace":
            prefix |= step.get("prepend_scheme", "always") in ("always", "first")
    return {
        f"{PREFIX}model": "llama", f"{PREFIX}pre": "default", **keys, f"{PREFIX}scores": scores,
        f"{PREFIX}add_space_prefix": prefix,
    }  # fmt: skip


def word_piece(whole: dict[str, Any], path: str, rows: int) -> Keys:
    """BERT's vocabulary: the first part of a word begins with U+2581, the others have no "##"."""
    model, tokens = whole["model"], Tokens(path)
    for text, token in table(model, path).items():
        tokens.add(token, part_of_word(text))
    tokens.add_special(whole.get("added_tokens", []))
    keys: Keys = {f"{PREFIX}model": "bert", f"{PREFIX}pre": "default", **tokens.keys(rows)}
    for step in steps(whole.get("normalizer"), "normalizers"):
        if step.get("type") != "BertNormalizer":
            raise ValueError(f"convert: {path}: the normalizer is not known: it has {shown(step)}")
        lowercase = bool(step.get("lowercase", True))
        strip = step.get("strip_accents")
        if not lowercase:
            keys[f"{PREFIX}normalizer.lowercase"] = False
        if strip is not None and bool(strip) != lowercase:
            keys[f"{PREFIX}normalizer.strip_accents"] = bool(strip)
    return keys


def part_of_word(text: str) -> str:
    return text[2:] if text.startswith("##") else SPACE + text


def word_list(data: bytes, path: str, rows: int) -> Keys:
    """BERT's vocabulary in a text file, a token a line."""
    tokens = Tokens(path)
    for i, text in enumerate(data.decode(errors="replace").splitlines()):
        special = text.startswith("[") and text.endswith("]") and len(text) > 2
        tokens.add(i, text if special else part_of_word(text), CONTROL if special else NORMAL)
    return {f"{PREFIX}model": "bert", f"{PREFIX}pre": "default", **tokens.keys(rows)}


def unigram(whole: dict[str, Any], path: str, rows: int) -> Keys:
    """SentencePiece's Unigram model."""
    model, tokens, scores = whole["model"], Tokens(path), {}
    vocab, unknown = model.get("vocab"), model.get("unk_id")
    for i, item in enumerate(vocab if isinstance(vocab, list) else []):
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[1], (int, float)):
            raise ValueError(f"convert: {path}: token {i} is {shown(item)}: need a text and a score")
        tokens.add(i, item[0], UNKNOWN if i == unknown else NORMAL)
        scores[i] = float(item[1])
    tokens.add_special(whole.get("added_tokens", []))
    keys = tokens.keys(rows)
    kinds = list(steps(whole.get("pre_tokenizer"), "pretokenizers"))
    keys |= {
        f"{PREFIX}model": "t5",
        f"{PREFIX}pre": "default",
        f"{PREFIX}scores": [scores.get(i, 0.0) for i in range(len(keys[f"{PREFIX}tokens"]))],
        f"{PREFIX}remove_extra_whitespaces": any(step.get("type") == "WhitespaceSplit" for step in kinds),
        f"{PREFIX}add_space_prefix": any(
            step.get("type") == "Metaspace" and step.get("prepend_scheme", "always") != "never" for step in kinds
        ),
    }
    for step in steps(whole.get("normalizer"), "normalizers"):
        if step.get("type") == "Precompiled":
            try:
                data = base64.b64decode(step.get("precompiled_charsmap") or "", validate=True)
            except (ValueError, TypeError):
                raise ValueError(f"convert: {path}: 'precompiled_charsmap' is no base64") from None
            keys[f"{PREFIX}precompiled_charsmap"] = data
    return keys


def vocabulary_and_merges(folder: str, settings: Fields, rows: int) -> Keys:
    """Byte-level BPE in vocab.json and merges.txt, whose pre-tokenizer the tokenizer's class names."""
    path = os.path.join(folder, "vocab.json")
    name = settings.text("tokenizer_class", "").removesuffix("Fast")
    if name not in CLASSES:
        raise ValueError(
            f"convert: {settings.where}: 'tokenizer_class' is {name!r}: without tokenizer.json, "
            f"need one of {', '.join(CLASSES)}"
        )
    tokens = Tokens(path)
    for text, token in read_json(path).items():
        tokens.add(token, text, CONTROL if text in CLIP_SPECIAL else NORMAL)
    for text, token in optional_json(folder, "added_tokens.json").items():
        tokens.add(token, text, CONTROL)
    merges = []
    for line in (optional(folder, "merges.txt") or b"").decode(errors="replace").split("\n"):
        if line.strip() and not line.startswith("#version"):
            merges.append(line.rstrip("\r"))
    if not merges:
        raise ValueError(f"convert: {folder}: merges.txt is missing or empty")
    kind = {f"{PREFIX}model": "clip"}
    if CLASSES[name] != "clip":
        kind = {f"{PREFIX}model": "gpt2", f"{PREFIX}pre": CLASSES[name]}
    return {**kind, **tokens.keys(rows), f"{PREFIX}merges": merges}


# ---- tokenizer.model -------------------------------------------------------------------------------------------------
def sentencepiece(data: bytes, path: str, whole: dict[str, Any], rows: int) -> Keys:
    """The model of SentencePiece: a message of protocol buffers; tokenizer.json may add tokens."""
    tokens = Tokens(path)
    scores: list[float] = []
    keys: Keys = {f"{PREFIX}model": "llama", f"{PREFIX}pre": "default"}
    prefix, extra = True, True
    for field, value in messages(data, path):
        if field == 1:  # a piece: text, score, type
            piece = dict(messages(value, path))
            text = piece.get(1, b"")
            tokens.add(len(scores), text.decode(errors="replace") if isinstance(text, bytes) else None,
                       piece.get(3, NORMAL))  # fmt: skip
            score = piece.get(2, 0.0)
            scores.append(score if isinstance(score, float) else 0.0)
        elif field == 2:
            if dict(messages(value, path)).get(3, 1) == 1:  # the kind of model: 1 Unigram, 2 BPE
                keys[f"{PREFIX}model"] = "t5"
        elif field == 3:
            normalizer = dict(messages(value, path))
            prefix, extra = bool(normalizer.get(3, 1)), bool(normalizer.get(4, 1))
            if normalizer.get(2):
                keys[f"{PREFIX}precompiled_charsmap"] = normalizer[2]
    if not scores:
        raise ValueError(f"convert: {path}: not a model of SentencePiece")
    tokens.add_special(whole.get("added_tokens", []))
    keys |= tokens.keys(rows)
    scores += [NEVER] * (len(keys[f"{PREFIX}tokens"]) - len(scores))
    keys |= {f"{PREFIX}scores": scores, f"{PREFIX}add_space_prefix": prefix}
    if keys[f"{PREFIX}model"] == "t5":
        keys[f"{PREFIX}remove_extra_whitespaces"] = extra
    return keys


def messages(data: Any, path: str) -> Iterator[tuple[int, Any]]:
    """The fields of a message of protocol buffers: number and value (int, float, or bytes)."""
    if not isinstance(data, bytes):
        raise ValueError(f"convert: {path}: not a model of SentencePiece")
    at = 0

    def varint() -> int:
        nonlocal at
        value, shift = 0, 0
        while shift < 70 and at < len(data):
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError(f"convert: {path}: not a model of SentencePiece, or an incomplete one")

    while at < len(data):
        tag = varint()
        wire = tag & 7
        if wire == 0:
            yield tag >> 3, varint()
            continue
        length = {1: 8, 5: 4}.get(wire) or (varint() if wire == 2 else len(data))
        if length > len(data) - at:
            raise ValueError(f"convert: {path}: not a model of SentencePiece, or an incomplete one")
        part, at = data[at : at + length], at + length
        yield tag >> 3, part if wire == 2 else struct.unpack("<f" if wire == 5 else "<d", part)[0]


# ---- special tokens, templates ---------------------------------------------------------------------------------------
def special_ids(checkpoint: Checkpoint, settings: Fields, keys: Keys) -> Keys:
    """The ids of special tokens: by their texts in tokenizer_config.json, else by the ids in config.json."""
    ids = {text: i for i, text in enumerate(keys[f"{PREFIX}tokens"])}
    found: Keys = {}
    named = dict(settings.values)
    if keys[f"{PREFIX}model"] == "bert" and settings.has("cls_token"):
        named["bos_token"] = settings.values["cls_token"]
    for setting, name in SPECIAL.items():
        value = named.get(setting)
        text = value.get("content") if isinstance(value, dict) else value
        token: Any = ids.get(text) if isinstance(text, str) else None
        if token is None and isinstance(text, str):
            token = ids.get(SPACE + text)
        if token is None:
            token = checkpoint.config.values.get(f"{setting}_id")
            token = token[0] if isinstance(token, list) and token else token
        if isinstance(token, int) and not isinstance(token, bool) and 0 <= token < len(ids):
            found[f"{PREFIX}{name}_token_id"] = token
    return found


def added_around(whole: dict[str, Any], settings: Fields, keys: Keys) -> Keys:
    """Whether texts begin and end with special tokens: what the post-processor does with one text and with two."""
    found: Keys = {}
    for step in steps(whole.get("post_processor"), "processors"):
        single = step.get("single")
        if step.get("type") == "TemplateProcessing" and isinstance(single, list):
            kinds = ["SpecialToken" in item for item in single if isinstance(item, dict)]
            first = kinds.index(False) if False in kinds else 0
            found |= {f"{PREFIX}add_bos_token": first > 0, f"{PREFIX}add_eos_token": True in kinds[first:]}
            return found | last_token(single, keys) | separator(step.get("pair"))
        if step.get("type") in ("BertProcessing", "RobertaProcessing"):
            doubled = {f"{PREFIX}add_sep_token": True} if step["type"] == "RobertaProcessing" else {}
            return {f"{PREFIX}add_bos_token": True, f"{PREFIX}add_eos_token": True, **doubled}
    default = {"llama": True, "gpt2": False}.get(keys[f"{PREFIX}model"])
    for name in ("bos", "eos"):
        if settings.has(f"add_{name}_token"):
            found[f"{PREFIX}add_{name}_token"] = settings.flag(f"add_{name}_token", False)
        elif name == "bos" and default is not None:
            found[f"{PREFIX}add_bos_token"] = default and not whole
    return found


def last_token(single: list[Any], keys: Keys) -> Keys:
    """The token that ends texts: where it is not that which ends an answer, the latter ends a turn."""
    last = single[-1].get("SpecialToken") if single and isinstance(single[-1], dict) else None
    text = last.get("id") if isinstance(last, dict) else None
    tokens, eos = keys[f"{PREFIX}tokens"], keys.get(f"{PREFIX}eos_token_id")
    if keys[f"{PREFIX}model"] == "bert" or text not in tokens or eos in (None, tokens.index(text)):
        return {}
    return {f"{PREFIX}eos_token_id": tokens.index(text), f"{PREFIX}eot_token_id": eos}


def separator(pair: Any) -> Keys:
    """Whether two special tokens lie between the texts of a pair."""
    items = [item for item in pair if isinstance(item, dict)] if isinstance(pair, list) else []
    places = [i for i, item in enumerate(items) if "Sequence" in item]
    return {f"{PREFIX}add_sep_token": True} if len(places) == 2 and places[1] - places[0] > 2 else {}


def templates(folder: str, settings: Fields) -> Keys:
    """The chat template, or several with names, the one called "default" first."""
    data = optional(folder, "chat_template.jinja")
    value: Any = settings.values.get("chat_template")
    if data is not None:
        value = data.decode(errors="replace")
    elif value is None and (other := optional(folder, "chat_template.json")) is not None:
        try:
            value = json.loads(other).get("chat_template")
        except (ValueError, AttributeError, RecursionError):
            raise ValueError(f"convert: {folder}: chat_template.json is no JSON object") from None
    if value is None:
        return {}
    if isinstance(value, str):
        return {"tokenizer.chat_template": value}
    found: Keys = {}
    for item in value if isinstance(value, list) else [value]:
        name, text = (item.get("name"), item.get("template")) if isinstance(item, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(text, str):
            raise settings.wrong("chat_template", value, "a string or a list of objects with 'name' and 'template'")
        found["tokenizer.chat_template" + ("" if name == "default" else f".{name}")] = text
    names = [key.removeprefix("tokenizer.chat_template.") for key in found if key != "tokenizer.chat_template"]
    return found | ({"tokenizer.chat_templates": names} if names else {})
