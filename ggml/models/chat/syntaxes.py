"""How calls of tools are written: a class for each kind of syntax, which reads a call and makes a grammar of calls."""

from __future__ import annotations

import ast
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from .schemas import with_white_space

Schemas = Mapping[str, Mapping[str, Any]]  # of the arguments of each tool
NAME = r"[\w.:-]+"
CDATA = "<![CDATA["  # before text in XML that may have marks
LITERALS = {"True": True, "False": False, "None": None}
SEPARATED = 4000  # characters of a grammar whose optional parts can each be the first; it grows with their square


class Call(NamedTuple):
    """A call: the tool's name, its arguments, and where it ends in the text."""

    name: str
    arguments: dict[str, Any]
    end: int


class NoCallError(ValueError):
    """A text that is no call."""


class Words:
    """Writes texts of a grammar in Lark's form; control tokens become these tokens.

    Args:
        token: the id of a control token by its name, None for other texts.
        names: names of the control tokens that may occur.
    """

    def __init__(self, token: Callable[[str], int | None], names: Sequence[str]) -> None:
        self._token = token
        found = [name for name in names if token(name) is not None]
        self._split = re.compile("(" + "|".join(map(re.escape, found)) + ")") if found else None

    def __call__(self, text: str) -> str:
        parts = self._split.split(text) if self._split else [text]
        out = []
        for part in filter(None, parts):
            token = self._token(part) if self._split and self._split.fullmatch(part) else None
            out.append(json.dumps(part, ensure_ascii=False) if token is None else f"<[{token}]>")
        return " ".join(out) or '""'


def json_rule(schema: Any, root: Mapping[str, Any] | None = None) -> str:
    """JSON that is valid for a schema, in a grammar; definitions that it refers to are those of `root`."""
    found = {key: root[key] for key in ("$defs", "definitions") if key in root} if root is not None else {}
    return "%json " + json.dumps(with_white_space({**schema, **found}, " ?"))


def properties(schema: Mapping[str, Any]) -> list[tuple[str, Any, bool]]:
    """The names and schemas of arguments, and whether each is needed."""
    found, needed = schema.get("properties") or {}, schema.get("required") or ()
    return [(name, value if isinstance(value, Mapping) else {}, name in needed) for name, value in found.items()]


class Syntax(ABC):
    """How one call is written."""

    @abstractmethod
    def take(self, text: str, schemas: Schemas) -> Call | None:
        """The call with which a text begins, None if it may go on; raises NoCallError."""

    @abstractmethod
    def rule(self, name: str, schema: Mapping[str, Any], words: Words) -> str:
        """The calls of a tool, in a grammar."""

    def written(self, name: str, arguments: Any) -> str | None:
        """A call as a text; None of forms whose templates write calls themselves."""
        return None

    def after_mark(self, mark: str) -> Syntax:
        """How a call goes on after the mark that it begins with."""
        raise NotImplementedError


def take_json(text: str, begin: int = 0) -> tuple[dict[str, Any], int] | None:
    """The JSON object at a place of a text and its end, None if it is not complete."""
    found = re.compile(r"\s*").match(text, begin)
    begin = found.end() if found else begin
    if begin == len(text):
        return None
    if text[begin] != "{":
        raise NoCallError(text)
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, begin)
    except RecursionError:
        raise NoCallError(text) from None
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith(("Unterminated", "Invalid \\", "Invalid control")):
            return None
        if text[error.pos :].strip() in ("t", "tr", "tru", "f", "fa", "fal", "fals", "n", "nu", "nul", "-"):
            return None
        raise NoCallError(text) from None
    return value, end


@dataclass(frozen=True)
class Json(Syntax):
    """A JSON object with the name and the arguments."""

    name: str = "name"
    arguments: str = "arguments"

    def take(self, text: str, schemas: Schemas) -> Call | None:
        found = take_json(text)
        if found is None:
            return None
        value, end = found
        inner = value.get("function")
        if isinstance(inner, dict):  # OpenAI's own form
            value = inner
        name = value.get(self.name, value.get("name", value.get("tool_name", inner)))
        given = value.get(self.arguments, value.get("arguments", value.get("parameters", {})))
        if isinstance(given, str):
            given = take_json(given) or ({},)
            given = given[0]
        if not isinstance(name, str) or not isinstance(given, (dict, type(None))):
            raise NoCallError(text)
        return Call(name, given or {}, end)

    def written(self, name: str, arguments: Any) -> str:
        return json.dumps({self.name: name, self.arguments: arguments}, ensure_ascii=False)

    def rule(self, name: str, schema: Mapping[str, Any], words: Words) -> str:
        keys = {self.name: {"const": name}, self.arguments: schema}
        whole = {"type": "object", "properties": keys, "required": list(keys), "additionalProperties": False}
        return json_rule(whole, schema)


@dataclass(frozen=True)
class Keyed(Syntax):
    """A JSON object whose only key is the name, with the arguments as its value."""

    def take(self, text: str, schemas: Schemas) -> Call | None:
        found = take_json(text)
        if found is None:
            return None
        value, end = found
        name, arguments = next(iter(value.items()), ("", None))
        if len(value) != 1 or not isinstance(arguments, (dict, type(None))):
            raise NoCallError(text)
        return Call(name, arguments or {}, end)

    def rule(self, name: str, schema: Mapping[str, Any], words: Words) -> str:
        whole = {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
        return json_rule(whole, schema)


@dataclass(frozen=True)
class Named(Syntax):
    """The name between two texts, then the arguments in JSON, then a text."""

    before: str
    between: str
    after: str
    pattern: str = ""  # what precedes the arguments, if it varies; with a group `name`
    others: tuple[tuple[str, str], ...] = ()  # what else may stand before and after the name

    def take(self, text: str, schemas: Schemas) -> Call | None:
        head = self.pattern or rf"\s*{re.escape(self.before)}\s*(?P<name>{NAME}?)\s*{re.escape(self.between)}"
        found = re.match(head, text)
        if found is None:
            if "{" in text or len(text) > 300:
                raise NoCallError(text)
            return None
        value = take_json(text, found.end())
        if value is None:
            return None
        rest = re.compile(r"\s*" + re.escape(self.after.strip())).match(text, value[1])
        if rest is None and self.after.strip() and len(text) - value[1] < len(self.after) + 2:
            return None  # the text that ends a call is not complete
        return Call(found["name"], value[0], rest.end() if rest else value[1])

    def rule(self, name: str, schema: Mapping[str, Any], words: Words) -> str:
        pairs = (self.before, self.between), *self.others
        heads = " | ".join(words(before + name + between) for before, between in pairs)
        return f"({heads}) {json_rule(schema)} {words(self.after)}"

    def after_mark(self, mark: str) -> Syntax:
        return replace(self, before=self.before.removeprefix(mark), pattern="")


def value_of(text: str, schema: Any) -> Any:
    """An argument that is written as text: what its schema says, else JSON or a literal of Python if it is that."""
    text = text[len(CDATA) : -3] if text.startswith(CDATA) and text.endswith("]]>") else text
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if text.strip() in LITERALS:
        return LITERALS[text.strip()]
    try:
        return python_value(ast.parse(text.strip(), mode="eval").body) if text.lstrip()[:1] in ("[", "{") else text
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


@dataclass(frozen=True)
class Tagged(Syntax):
    """Tags around the name and around each argument.

    In tags, `{}` stands for a name, `{n}` for the number of a call, and `{kind}` for a word about the argument's type.
    """

    before: str
    argument: str
    value_end: str
    after: str
    kinds: Mapping[str, str] = field(default_factory=dict)  # the word for each type of JSON schemas; "": for others

    def _pattern(self, text: str) -> str:
        """A regular expression for a tag, with a group for the last name; white space around it is of no meaning."""
        text = text.strip()
        name = r"(?P<name>[^<\n]+)" if text.endswith("{}") else r"(?P<name>[^<>\"]*?)"
        pattern = re.escape(text).replace("\\\n", r"\s*").replace(r"\{kind\}", r"(?P<kind>\w+)")
        *others, last = pattern.replace(r"\{n\}", r"\w+").split(r"\{\}")
        return r"[^<>\"]*?".join(others) + name + last if others else last

    def take(self, text: str, schemas: Schemas) -> Call | None:
        end = text.find(self.after.strip())
        if end < 0:
            return None
        found = re.match(r"\s*" + self._pattern(self.before), text)
        if found is None:
            raise NoCallError(text)
        name, arguments = found["name"].strip(), {}
        schema = {key: value for key, value, _ in properties(schemas.get(name, {}))}
        tail = re.escape(self.value_end.strip())
        pattern = rf"{self._pattern(self.argument)}\n?(?P<value>.*?)\n?{tail}"
        for match in re.finditer(pattern, text[found.end() : end], re.S):
            key, of_text = match["name"].strip(), match.groupdict().get("kind") == self.kinds.get("string", "")
            arguments[key] = value_of(match["value"], schema.get(key) or ({"type": "string"} if of_text else None))
        return Call(name, arguments, end + len(self.after.strip()))

    def rule(self, name: str, schema: Mapping[str, Any], words: Words) -> str:
        before = " /[0-9]{1,3}/ ".join(map(words, self.before.replace("{}", name).split("{n}")))
        parts, end = [before], self.value_end.lstrip()
        white = self.value_end.removesuffix(end)
        for key, value, needed in properties(schema):
            kind = value.get("type")
            word = self.kinds.get(kind if isinstance(kind, str) else "", self.kinds.get("", ""))
            inner = text_rule(value, white=white) if kind == "string" else f"{json_rule(value, schema)} {words(white)}"
            tag = self.argument.replace("{}", key).replace("{kind}", word)
            part = f"{words(tag)} {inner} {words(end)}"
            parts.append(part if needed else f"({part})?")
        return " ".join([*parts, words(self.after)])

    def after_mark(self, mark: str) -> Syntax:
        return replace(self, before=self.before.removeprefix(mark))


def text_rule(schema: Mapping[str, Any], excluded: str = "<", white: str = "") -> str:
    """A text without quotes: one of those that a schema lists, or one of its pattern, or of the length that it allows.

    White space that ends it is part of the same terminal, which would take it for itself otherwise.
    """
    white = white.replace("\n", "\\n")
    listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if listed is not None:
        return choice(listed) + (f" /{white}/" if white else "")
    if isinstance(schema.get("pattern"), str):
        pattern = re.sub(r"(?<!\\)/", r"\/", schema["pattern"])
        before = "" if pattern.startswith("^") else f"[^{excluded}]*"
        after = "" if pattern.endswith("$") and not pattern.endswith("\\$") else f"[^{excluded}]*"
        pattern = pattern.removeprefix("^") if not before else pattern
        return f"/{before}(?:{pattern if after else pattern[:-1]}){after}{white}/"
    least, most = schema.get("minLength", 0), schema.get("maxLength", "")
    return f"/[^{excluded}]{{{least},{most}}}{white}/"


@dataclass(frozen=True)
class Nested(Syntax):
    """Elements whose tags follow a mark; objects have an element for each key, and lists elements named `item`."""

    mark: str

    def take(self, text: str, schemas: Schemas) -> Call | None:
        after = f"{self.mark}</invoke>"
        end = text.find(after)
        if end < 0:
            return None
        found = re.match(rf'\s*{re.escape(self.mark)}<invoke name="(?P<name>[^<>"]*)">', text)
        if found is None:
            raise NoCallError(text)
        try:
            value, at = self._value(text[:end], found.end(), schemas.get(found["name"], {}))
        except RecursionError:
            raise NoCallError(text) from None
        if text[at:end].strip():
            raise NoCallError(text)
        return Call(found["name"], value if isinstance(value, dict) else {}, end + len(after))

    def _value(self, text: str, at: int, schema: Any) -> tuple[Any, int]:
        """The value at a place, and its end."""
        tag = re.compile(rf"\s*{re.escape(self.mark)}<([^<>/]+)>")
        found, items = tag.match(text, at), list[tuple[str, Any]]()
        schema = schema if isinstance(schema, Mapping) else {}
        kind = schema.get("type")
        if found is None:
            end = text.find(self.mark, at)
            end = len(text) if end < 0 else end
            empty = {"array": list, "object": dict}.get(kind if isinstance(kind, str) else "")
            value = value_of(text[at:end], schema)
            return (empty() if empty is not None and not text[at:end].strip() else value), end
        of_keys = {key: value for key, value, _ in properties(schema)}
        while found is not None:
            key = found[1]
            value, at = self._value(text, found.end(), of_keys.get(key, schema.get("items")))
            close = re.compile(rf"\s*{re.escape(self.mark)}</{re.escape(key)}>").match(text, at)
            if close is None:
                raise NoCallError(text)
            items.append((key, value))
            found, at = tag.match(text, close.end()), close.end()
        listed = kind == "array" or (kind is None and all(key == "item" for key, _ in items))
        return [value for _, value in items] if listed else dict(items), at

    def rule(self, name: str, schema: Mapping[str, Any], words: Words) -> str:
        inner = self._rule({"type": "object", **schema}, schema, words)
        return f"""{words(f'{self.mark}<invoke name="{name}">')} {inner} {words(f"{self.mark}</invoke>")}"""

    def _rule(self, schema: Mapping[str, Any], root: Mapping[str, Any], words: Words) -> str:
        kind = schema.get("type")
        if kind == "string":
            return text_rule(schema, r"<\]")
        if kind == "object":
            parts = [
                element if needed else f"({element})?"
                for key, value, needed in properties(schema)
                for element in [self._element(key, value, root, words)]
            ]
            return " ".join(parts) or '""'
        if kind == "array" and isinstance(schema.get("items"), Mapping):
            least, most = schema.get("minItems", 0), schema.get("maxItems", "")
            return f"({self._element('item', schema['items'], root, words)}){{{least},{most}}}"
        return json_rule(schema, root)

    def _element(self, key: str, schema: Mapping[str, Any], root: Mapping[str, Any], words: Words) -> str:
        inner = self._rule(schema, root, words)
        return f"{words(f'{self.mark}<{key}>')} {inner} {words(f'{self.mark}</{key}>')}"


def separated(parts: Sequence[tuple[str, bool]], comma: str) -> str:
    """Parts of a list in a grammar, each with whether it is needed; those that are come first."""
    needed, others = ([part for part, need in parts if need is wanted] for wanted in (True, False))

    def tail(begin: int) -> str:
        return "".join(f" ({comma} {part})?" for part in others[begin:])

    if needed:
        return f" {comma} ".join(needed) + tail(0)
    count = len(others) if len(others) * sum(map(len, others)) < SEPARATED else 1
    firsts = [others[i] + tail(i + 1) for i in range(count if others else 0)]
    return f"({' | '.join(firsts)})?" if firsts else '""'


def choice(texts: Sequence[Any]) -> str:
    """One of several texts, in a grammar."""
    return "(" + " | ".join(json.dumps(str(text), ensure_ascii=False) for text in texts) + ")"


class Pythonic(Syntax):
    """A call in Python, with arguments by name."""

    def take(self, text: str, schemas: Schemas) -> Call | None:
        found = re.match(rf"\s*({NAME})\s*\(", text)
        if found is None:
            if len(text) > 200 or re.match(r"\s*[^\w\s]", text):
                raise NoCallError(text)
            return None
        end = closing(text, found.end() - 1)
        if end is None:
            return None
        arguments = {}
        try:
            call = ast.parse("_" + text[found.end() - 1 : end], mode="eval").body
            for keyword in call.keywords if isinstance(call, ast.Call) else ():
                arguments[keyword.arg or ""] = python_value(keyword.value)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise NoCallError(text) from None
        return Call(found[1], arguments, end)

    def written(self, name: str, arguments: Any) -> str | None:
        if not isinstance(arguments, Mapping):
            return None
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"

    def rule(self, name: str, schema: Mapping[str, Any], words: Words) -> str:
        parts = [
            (f"{words(key + '=')} {json_rule(value, schema)}", needed) for key, value, needed in properties(schema)
        ]
        return f"{words(name + '(')} {separated(parts, words(', '))} {words(')')}"


def closing(text: str, begin: int) -> int | None:
    """The end of the bracket that opens at a place, None if it is not closed; brackets in strings do not count."""
    depth, quote, i = 0, "", begin
    while i < len(text):
        c = text[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = ""
        elif c in "\"'":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return None


def python_value(node: ast.expr) -> Any:
    """A literal of Python, or of JSON."""
    if isinstance(node, ast.Name):
        if node.id not in ("true", "false", "null"):
            raise ValueError(node.id)
        return {"true": True, "false": False, "null": None}[node.id]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [python_value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {str(ast.literal_eval(key)): python_value(item) for key, item in zip(node.keys, node.values) if key}
    return ast.literal_eval(node)


@dataclass(frozen=True)
class Gemma(Syntax):
    """`call:NAME{key:value,...}`, where texts stand between two marks, and keys have none."""

    quote: str

    def take(self, text: str, schemas: Schemas) -> Call | None:
        found = re.match(rf"\s*call:\s*({NAME}?)\s*(?=\{{)", text)
        if found is None:
            if "{" in text or not "call:".startswith(text.strip()[:5]):
                raise NoCallError(text)
            return None
        value, end = self._value(text, found.end())
        return None if end < 0 else Call(found[1], value, end)

    def _value(self, text: str, at: int) -> tuple[Any, int]:
        """The value at a place and its end, -1 if it is not complete."""
        while at < len(text) and text[at].isspace():
            at += 1
        if text.startswith(self.quote, at):
            begin = at + len(self.quote)
            end = text.find(self.quote, begin)
            return text[begin:end], end + len(self.quote) if end >= 0 else -1
        if at < len(text) and text[at] in "{[":
            return self._several(text, at)
        found = re.compile(r"[^,}\]]*").match(text, at)
        end = found.end() if found else at
        return value_of(text[at:end].strip(), None), end if end < len(text) else -1

    def _several(self, text: str, at: int) -> tuple[Any, int]:
        close = "}" if text[at] == "{" else "]"
        items: list[tuple[str, Any]] = []
        at += 1
        while True:
            while at < len(text) and (text[at].isspace() or text[at] == ","):
                at += 1
            if at >= len(text):
                return None, -1
            if text[at] == close:
                return (dict(items) if close == "}" else [item for _, item in items]), at + 1
            key = ""
            if close == "}":
                colon = text.find(":", at)
                if colon < 0:
                    return None, -1
                key, at = text[at:colon].strip().removeprefix(self.quote).removesuffix(self.quote), colon + 1
            value, at = self._value(text, at)
            if at < 0:
                return None, -1
            items.append((key, value))

    def rule(self, name: str, schema: Mapping[str, Any], words: Words) -> str:
        return f"{words(f'call:{name}')} {self._rule({'type': 'object', **schema}, words)}"

    def _rule(self, schema: Any, words: Words) -> str:
        kind = schema.get("type") if isinstance(schema, Mapping) else None
        if kind == "string":
            return f"{words(self.quote)} {text_rule(schema)} {words(self.quote)}"
        if kind == "array":
            item = self._rule(schema.get("items", {}), words)
            return f'"[" ({item} ("," {item})*)? "]"'
        if kind == "object":
            parts = [(f"{words(key + ':')} {self._rule(value, words)}", needed)
                     for key, value, needed in properties(schema)]  # fmt: skip
            return f'"{{" {separated(parts, words(","))} "}}"'
        return json_rule(schema if isinstance(schema, Mapping) and kind else {"type": ["number", "boolean", "null"]})


def control_names(texts: Sequence[str]) -> list[str]:
    """What stands in texts and is the name of a control token in many vocabularies."""
    pattern = r"\]<\][^<>\s]+\[>\[|<\|?[^<>\s]+\|?>|\[/?[A-Z_]+\]|<\|\"\|>|\u25c1[^\u25b7]*\u25b7"
    return list(dict.fromkeys(found for text in texts for found in re.findall(pattern, text)))
