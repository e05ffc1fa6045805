"""Prompts for a text between two others, with the tokens that a file names for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..text.keys import special_id

# Keys of the tokens before the text before, before the text after, and before the text between; and their usual names.
PARTS = {
    "prefix": (
        ("fim_pre", "prefix"),
        "<|fim_prefix|> <fim-prefix> <fim_prefix> <PRE> \u2581<PRE> <\uff5cfim\u2581begin\uff5c>",
    ),
    "suffix": (
        ("fim_suf", "suffix"),
        "<|fim_suffix|> <fim-suffix> <fim_suffix> <SUF> \u2581<SUF> <\uff5cfim\u2581hole\uff5c>",
    ),
    "middle": (
        ("fim_mid", "middle"),
        "<|fim_middle|> <fim-middle> <fim_middle> <MID> \u2581<MID> <\uff5cfim\u2581end\uff5c>",
    ),
}


def infill_ids(
    caller: str, metadata: Mapping[str, Any], tokenizer: Any, prefix: str, suffix: str, spm: bool = False
) -> list[int]:
    """The tokens of a prompt for what stands between two texts.

    Args:
        caller: name of the function called.
        metadata: keys of the file.
        tokenizer: Tokenizer.
        prefix, suffix: the texts.
        spm: whether the text after comes first.
    Raises:
        ValueError: the file has no such tokens.
    """
    marks = {}
    for part, (keys, names) in PARTS.items():
        found = [special_id(metadata, key, None, tokenizer.n_vocab) for key in keys]
        found += [tokenizer.find(name) for name in names.split()]
        token = next((token for token in found if token is not None and token >= 0), None)
        if token is None:
            raise ValueError(f"{caller}: suffix: the file has no token for the {part} of a text to fill in")
        marks[part] = token
    before = [marks["prefix"], *tokenizer.encode(prefix, add_bos=False)]
    after = [marks["suffix"], *tokenizer.encode(suffix, add_bos=False)]
    parts = [*after, *before] if spm else [*before, *after]
    begin = [tokenizer.bos] if tokenizer.add_bos and tokenizer.bos is not None else []
    return [*begin, *parts, marks["middle"]]
