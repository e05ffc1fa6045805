"""What some vocabularies do with a text before it is split: lower case, no punctuation, single spaces."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from typing import Any

from .keys import flag

LOWERCASE, BARE_WORDS = "normalizer.lowercase", "normalizer.bare_words"
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def cleaner(metadata: Mapping[str, Any]) -> Callable[[bytes], bytes]:
    """The function of the file's keys: of text in UTF-8, which need not be valid."""
    lowercase, bare_words = flag(metadata, LOWERCASE, False), flag(metadata, BARE_WORDS, False)
    if not lowercase and not bare_words:
        return bytes

    def clean(data: bytes) -> bytes:
        text = data.decode(errors="surrogateescape")
        text = text.lower() if lowercase else text
        if bare_words:  # as SigLIP was trained
            text = " ".join(text.translate(WITHOUT_PUNCTUATION).split())
        return text.encode(errors="surrogateescape")

    return clean
