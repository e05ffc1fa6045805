"""`LlamaGrammar` and `response_format`: the language of an answer in the forms that programs use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

LLAMA_GRAMMAR_DEFAULT_ROOT = "root"


class LlamaGrammar:
    """A language that limits a text. It is compiled, and errors are found, where it is used.

    Attributes:
        language: dict; the argument of `ggml.models.Model.generate` that means it.
    """

    def __init__(self, *args: Any, _grammar: str = "", language: Mapping[str, Any] | None = None, **_: Any) -> None:
        self._grammar, self._root = _grammar, LLAMA_GRAMMAR_DEFAULT_ROOT
        self.language = dict(language) if language is not None else {"grammar": _grammar}

    @classmethod
    def from_string(cls, grammar: str, verbose: bool = True) -> LlamaGrammar:
        """The language of a grammar in llama.cpp's GBNF, or in Lark's form."""
        if not isinstance(grammar, str):
            raise TypeError(f"LlamaGrammar.from_string: grammar is a {type(grammar).__name__}: need a string")
        return cls(_grammar=grammar)

    @classmethod
    def from_file(cls, file: str | os.PathLike[str], verbose: bool = True) -> LlamaGrammar:
        """The language of a grammar in a file."""
        with open(file, encoding="utf-8") as stream:
            grammar = stream.read()
        if not grammar:
            raise ValueError(f"LlamaGrammar.from_file: {os.fspath(file)} is empty")
        return cls.from_string(grammar, verbose)

    @classmethod
    def from_json_schema(cls, json_schema: Any, verbose: bool = True) -> LlamaGrammar:
        """JSON that is valid for a schema: JSON text, or a dict."""
        return cls(language={"json_schema": json_schema})


def language_of(caller: str, grammar: Any, response_format: Any = None) -> dict[str, Any]:
    """The argument of Model.generate for a LlamaGrammar and OpenAI's response_format, of which the second counts."""
    if response_format is not None and response_format != {"type": "text"}:
        return _of_format(caller, response_format)
    if grammar is None:
        return {}
    if not isinstance(grammar, LlamaGrammar):
        raise TypeError(f"{caller}: grammar is a {type(grammar).__name__}: need a LlamaGrammar")
    return grammar.language


def _of_format(caller: str, given: Any) -> dict[str, Any]:
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind not in ("json_object", "json_schema"):
        raise ValueError(
            f"{caller}: response_format is {str(given)[:60]}: need a dict with the type 'text', 'json_object' or "
            "'json_schema'"
        )
    inner = given.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, Mapping) and "schema" in inner else given.get("schema", inner)
    if schema is None and kind == "json_schema":
        raise ValueError(f"{caller}: response_format has no schema: need {{'json_schema': {{'schema': ...}}}}")
    return {"json": True} if schema is None else {"json_schema": schema}
