"""The keys `tokenizer.ggml.*` of a GGUF file, checked: a wrong one raises ValueError, which names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "tokenizer.ggml."
KINDS: dict[str, tuple[type, ...]] = {"strings": (str,), "integers": (int,), "numbers": (int, float)}


def wrong(name: str, value: Any, need: str) -> ValueError:
    """The error of a key with a value of the wrong kind."""
    return ValueError(f"Tokenizer: {PREFIX}{name} is {shown(value)}: need {need}")


def shown(value: Any) -> str:
    """The beginning of a value, for a message."""
    text = repr(value[:20] if isinstance(value, (str, list)) else value)
    return text if len(text) <= 60 else text[:60] + "..."


def array(metadata: Mapping[str, Any], name: str, kind: str, count: int = 0) -> list | None:
    """An array, None where the file has none.

    Args:
        metadata: the file's keys.
        name: what follows `tokenizer.ggml.`.
        kind: key of KINDS; what the items are. Those of a GGUF array are all of one type: the first is checked.
        count: least number of items.
    """
    value = metadata.get(PREFIX + name)
    if value is None:
        return None
    if not isinstance(value, list) or (value and type(value[0]) not in KINDS[kind]):
        raise wrong(name, value, f"an array of {kind}")
    if len(value) < count:
        raise ValueError(f"Tokenizer: {PREFIX}{name} has {len(value)} items: need {count}")
    return value


def flag(metadata: Mapping[str, Any], name: str, default: bool) -> bool:
    """A truth value, the default where the file has none."""
    value = metadata.get(PREFIX + name, default)
    if not isinstance(value, bool):
        raise wrong(name, value, "a bool")
    return value


def integer(metadata: Mapping[str, Any], name: str, default: int, high: int) -> int:
    """An integer from 0 to `high`, the default where the file has none."""
    value = metadata.get(PREFIX + name, default)
    if type(value) is not int or not 0 <= value <= high:
        raise wrong(name, value, f"an integer from 0 to {high}")
    return value


def special_id(metadata: Mapping[str, Any], name: str, default: int | None, count: int) -> int | None:
    """The id of a special token; the default if the file names none or one beyond the vocabulary of `count` tokens."""
    key = f"{name}_token_id"
    value = metadata.get(PREFIX + key)
    if value is not None and type(value) is not int:
        raise wrong(key, value, "an integer")
    if value is None or not 0 <= value < count:
        value = default
    return value if value is not None and value < count else None
