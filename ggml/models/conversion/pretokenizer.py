"""Finds the name of a pre-tokenizer by what it does: its patterns and options in tokenizer.json."""

from __future__ import annotations

from typing import Any

from ..text.pretokenizers import BYTE_LEVEL, ORIGINALS, PRE_TOKENIZERS, contractions
from .fields import shown

PUNCTUATION = "<punctuation>"  # stands for the library's own class of characters


def name_of(pre: Any, ignore_merges: bool, where: str) -> str:
    """The value of tokenizer.ggml.pre.

    Args:
        pre: what tokenizer.json has as `pre_tokenizer`.
        ignore_merges: whether a word that is a token is not merged.
        where: path of the file, for messages.
    Raises:
        ValueError: no pre-tokenizer does the same; the message shows this one.
    """
    patterns = tuple(rules(pre, where))
    for name, known in PRE_TOKENIZERS.items():
        if (known.patterns, known.ignore_merges, known.plain) == (patterns, ignore_merges, False):
            return name
    original = ORIGINALS.get(patterns)
    if original is not None and PRE_TOKENIZERS[original].ignore_merges == ignore_merges:
        return original
    raise ValueError(
        f"convert: {where}: the pre-tokenizer is not known: patterns {list(patterns)}, ignore_merges {ignore_merges}"
    )


def rules(pre: Any, where: str) -> list[str]:
    """The patterns that a pre-tokenizer of the library splits at, one after the other."""
    if not isinstance(pre, dict):
        raise ValueError(f"convert: {where}: 'pre_tokenizer' is {shown(pre)}: need an object")
    kind = pre.get("type")
    if kind == "Sequence":
        parts = pre.get("pretokenizers")
        if not isinstance(parts, list):
            raise ValueError(f"convert: {where}: 'pretokenizers' is {shown(parts)}: need a list")
        return [pattern for part in parts for pattern in rules(part, where)]
    if kind == "ByteLevel" and not pre.get("add_prefix_space", True):
        return [BYTE_LEVEL] if pre.get("use_regex", True) else []
    if kind == "Digits":
        return [r"\p{N}" if pre.get("individual_digits", False) else r"\p{N}+"]
    if kind == "Punctuation":
        return [f"{PUNCTUATION} {pre.get('behavior')}"]
    pattern = pre.get("pattern")
    if kind == "Split" and isinstance(pattern, dict) and pre.get("behavior") == "Isolated" and not pre.get("invert"):
        regex = pattern.get("Regex")
        if isinstance(regex, str):
            return [contractions(regex)]
    raise ValueError(f"convert: {where}: the pre-tokenizer is not known: it has {shown(pre)}")
