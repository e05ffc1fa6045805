"""The settings in a JSON file of a folder, read one by one and checked: ValueError names a wrong one."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

LARGEST = 1 << 24  # of an integer: no dimension is near it
LARGEST_NUMBER = 1e12
MISSING: Any = object()


def shown(value: Any) -> str:
    """The beginning of a value, for a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def read_json(path: str) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise ValueError(f"convert: {path}: not a JSON file: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"convert: {path}: the file has a {type(value).__name__}: need a JSON object")
    return value


def optional_json(folder: str, name: str) -> dict[str, Any]:
    """The object in a JSON file of a folder; an empty one if there is no such file."""
    path = os.path.join(folder, name)
    return read_json(path) if os.path.exists(path) else {}


class Fields:
    """Reads settings by name. Of several names the first that has a value counts; null is no value.

    Args:
        values: the settings.
        where: what errors name: the file and, for settings within a setting, its name.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values, self.where = values, where

    def wrong(self, name: str, value: Any, need: str) -> ValueError:
        return ValueError(f"convert: {self.where}: {name!r} is {shown(value)}: need {need}")

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def find(self, names: tuple[str, ...], default: Any) -> tuple[str, Any]:
        """The first name with a value, and the value."""
        for name in names:
            if self.has(name):
                return name, self.values[name]
        if default is MISSING:
            raise ValueError(f"convert: {self.where}: {' or '.join(map(repr, names))} is missing")
        return names[0], default

    def integer(self, *names: str, default: Any = MISSING, low: int = 1, high: int = LARGEST) -> int:
        """An integer in a range."""
        name, value = self.find(names, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, value, f"an integer from {low} to {high}")
        return value

    def number(self, *names: str, default: Any = MISSING, low: float = 0.0, high: float = LARGEST_NUMBER) -> float:
        """A number in a range, which excludes NaN and infinities."""
        name, value = self.find(names, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise self.wrong(name, value, f"a number from {low:g} to {high:g}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """A truth value."""
        value = self.find((name,), default)[1]
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def text(self, name: str, default: Any = MISSING) -> str:
        """A string."""
        value = self.find((name,), default)[1]
        if value is not default and not isinstance(value, str):
            raise self.wrong(name, value, "a string")
        return value

    def array(self, name: str, kind: type | tuple[type, ...], count: int = 0, default: Any = MISSING) -> list[Any]:
        """A list of values of a type, of `count` of them unless it is 0."""
        value = self.find((name,), default)[1]
        if value is default:
            return value
        if not isinstance(value, list) or (count and len(value) != count):
            raise self.wrong(name, value, f"a list of {count}" if count else "a list")
        for item in value:
            if not isinstance(item, kind) or (isinstance(item, float) and not math.isfinite(item)):
                raise self.wrong(name, item, "other items")
        return value

    def inside(self, name: str) -> Fields:
        """The settings within a setting; none if it is missing."""
        value = self.find((name,), {})[1]
        if not isinstance(value, dict):
            raise self.wrong(name, value, "an object")
        return Fields(value, f"{self.where}: {name}")

    def require(self, name: str, *allowed: Any, default: Any = None) -> None:
        """Refuses a setting that changes what is computed in a way that is not supported."""
        value = self.find((name,), default)[1]
        if value not in allowed:
            raise self.wrong(name, value, " or ".join(map(repr, allowed)))
