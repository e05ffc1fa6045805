"""`LlamaGrammar` and `response_format`: the language of an answer in the forms that programs use."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ..chat.schemas import closed, with_white_space

LLAMA_GRAMMAR_DEFAULT_ROOT = "root"
JSON_GBNF = r"""
root ::= object
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (pair ("," ws pair)*)? "}" ws
pair ::= string ws ":" ws value ws
array ::= "[" ws (value ws ("," ws value ws)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" hex hex hex hex))* "\""
hex ::= [0-9a-fA-F]
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= [ \t\n]{0,20}
"""
JSON_ARR_GBNF = JSON_GBNF.replace("root ::= object", "root ::= array")
# White space that llama-cpp-python allows between the parts of JSON: for a schema, and for any object.
WHITE, WHITE_OF_OBJECTS = " ?", r" ?|\n[ \t]{0,20}"
LIST_GBNF = r"""
root ::= item+
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
"""


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
        """JSON that is valid for a schema: JSON text, or a dict. See `closed`."""
        return cls(language={"json_schema": spaced(closed(json_schema))})


def json_schema_to_gbnf(schema: str | Mapping[str, Any], prop_order: Any = None) -> str:
    """A grammar of JSON that is valid for a schema, for LlamaGrammar.from_string: in Lark's form, with the schema.

    Properties come in the order of the schema.
    """
    own = spaced(closed(schema))
    return f"start: %json {own if isinstance(own, str) else json.dumps(own)}"


def spaced(schema: Any, white: str = WHITE) -> Any:
    """A schema whose JSON has white space as llama-cpp-python allows it; what is no object stays."""
    try:
        own = json.loads(schema) if isinstance(schema, str) else schema
    except ValueError:  # the compiler says what is wrong
        return schema
    return with_white_space(own, white) if isinstance(own, Mapping) else schema


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
    own = spaced({"type": "object"}, WHITE_OF_OBJECTS) if schema is None else spaced(closed(schema))
    return {"json_schema": own}
