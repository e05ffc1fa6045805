"""JSON schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")  # schemas by other names
OPTIONS = "x-guidance"  # llguidance's own keyword of schemas
VALUES = ("enum", "const", "default", "examples", "example", "required")  # no schemas within


def with_white_space(schema: Mapping[str, Any], pattern: str) -> dict[str, Any]:
    """A schema whose JSON may have white space of a pattern, a regular expression, between its parts."""
    return {**schema, OPTIONS: {"whitespace_pattern": pattern}}


def closed(schema: Any) -> Any:
    """A schema whose objects have no other properties than those that it names, unless it says that they do.

    llama.cpp understands schemas so. One with `allOf` is left as it is.
    """
    text = schema if isinstance(schema, str) else None
    try:
        own = json.loads(text) if text is not None else schema
    except ValueError:  # the compiler says what is wrong
        return schema
    if not isinstance(own, Mapping) or '"allOf"' in (text or json.dumps(own, default=str)):
        return schema
    return _closed(own)


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {name: value if name in VALUES else _closed(value) for name, value in schema.items()}
    for name in NAMED:
        if isinstance(schema.get(name), Mapping):
            kept[name] = {key: _closed(value) for key, value in schema[name].items()}
    if isinstance(schema.get("properties"), Mapping) and schema["properties"]:
        kept.setdefault("additionalProperties", False)
    return kept
