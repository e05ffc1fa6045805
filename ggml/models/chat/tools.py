"""Calls of tools in answers: a row for each form in which models write them.

A form is found from the chat template, which shows the models' own calls in it. It reads calls out of a text, and makes
a grammar of the calls that are allowed.
"""

from __future__ import annotations

import ast
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .renderer import plain

Schemas = Mapping[str, Mapping[str, Any]]  # of the arguments of each tool
NAME = r"[\w.:-]+"
CDATA = "<![CDATA["  # before text in XML that may have marks
LITERALS = {"True": True, "False": False, "None": None}


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
    return "%json " + json.dumps({**schema, **found, "x-guidance": {"whitespace_pattern": " ?"}})


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
        before, after = words(self.before + name + self.between), words(self.after)
        return f"{before} {json_rule(schema)} {after}"


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
    """Tags around the name and around each argument; `{}` stands for a name."""

    before: str
    argument: str
    value_end: str
    after: str
    inside: str = ""  # between the tags of a name and of its value, if these are two

    def _pattern(self, text: str) -> str:
        """A regular expression for a tag, with a group for the name; white space around it is of no meaning."""
        name = r"(?P<name>[^<\n]+)" if text.strip().endswith("{}") else r"(?P<name>[^<>\"]*?)"
        pattern = re.escape(text.strip()).replace("\\\n", r"\s*").replace('"true"', r'"\w+"')
        return pattern.replace(r"\{\}", name)

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
            key = match["name"].strip()
            arguments[key] = value_of(match["value"], schema.get(key))
        return Call(name, arguments, end + len(self.after.strip()))

    def rule(self, name: str, schema: Mapping[str, Any], words: Words) -> str:
        parts = []
        for key, value, needed in properties(schema):
            inner = text_rule(value) if value.get("type") == "string" else json_rule(value, schema)
            part = f"{words(self.argument.replace('{}', key))} {inner} {words(self.value_end)}"
            parts.append(part if needed else f"({part})?")
        return " ".join([words(self.before.replace("{}", name)), *parts, words(self.after)])


def text_rule(schema: Mapping[str, Any]) -> str:
    """A text without quotes: one of those that the schema lists, or of the length that it allows."""
    if "enum" in schema:
        return choice(schema["enum"])
    least, most = schema.get("minLength", 0), schema.get("maxLength", "")
    return f"/[^<]{{{least},{most}}}/"


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
        parts: list[str] = []
        for key, value, needed in properties(schema):
            if needed or not parts:
                part = f"{words((', ' if parts else '') + key + '=')} {json_rule(value, schema)}"
                parts.append(part)
        return " ".join([words(name + "("), *parts, words(")")])


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
            parts: list[str] = []
            for key, value, needed in properties(schema):
                if needed or not parts:
                    parts.append(f"{words((',' if parts else '') + key + ':')} {self._rule(value, words)}")
            return " ".join(['"{"', *parts, '"}"'])
        return json_rule(schema if isinstance(schema, Mapping) and kind else {"type": ["number", "boolean", "null"]})


def control_names(texts: Sequence[str]) -> list[str]:
    """What stands in texts and is the name of a control token in many vocabularies."""
    pattern = r"<\|?[^<>\s]+\|?>|\[/?[A-Z_]+\]|<\|\"\|>|\u25c1[^\u25b7]*\u25b7"
    return list(dict.fromkeys(found for text in texts for found in re.findall(pattern, text)))


@dataclass(frozen=True)
class Format:
    """A form of calls.

    Attributes:
        name: of the form.
        marks: texts that a template of this form has, each of them; of "a or b" one.
        begin: texts of which one begins calls in an answer.
        syntax: of one call.
        before: regular expression of what may stand before a call.
        end: regular expression of what ends the calls; nothing may stand for it.
        first, between, last: texts around and between calls, in a grammar.
        bare: with what an answer begins that is nothing but calls.
    """

    name: str
    marks: tuple[str, ...]
    begin: tuple[str, ...]
    syntax: Syntax
    before: str = r"\s*"
    end: str = r"\s*"
    first: str = ""
    between: str = ""
    last: str = ""
    bare: str = ""

    def skipped(self, mark: str) -> int:
        """The length of a text that begins calls, 0 if it is part of the first call."""
        return 0 if str(getattr(self.syntax, "before", "")).startswith(mark) else len(mark)

    @property
    def control(self) -> list[str]:
        """Texts that are control tokens in many vocabularies."""
        texts = [*self.begin, self.first, self.between, self.last]
        texts += [value for value in vars(self.syntax).values() if isinstance(value, str)] if self.syntax else []
        return control_names(texts)

    def grammar(
        self, schemas: Schemas, words: Words, parallel: bool, must: bool = True, tags: tuple[str, str] | None = None
    ) -> str | None:
        """The grammar of an answer that calls at least one of some tools.

        If it need not, the grammar of any text that may end with such calls; None where a grammar cannot tell that.

        Args:
            schemas: of the arguments, by the tools' names.
            words: writes texts of the grammar.
            parallel: whether there may be several calls.
            must: whether there must be one.
            tags: control tokens around reasoning that may come before; None if there are none.
        """
        rules = {f"call{i}": self.syntax.rule(name, schema, words) for i, (name, schema) in enumerate(schemas.items())}
        more = f" ({words(self.between)} call)*" if parallel else ""
        calls, lines = f"{words(self.first)} call{more} {words(self.last)}", list[str]()
        if not must:
            around = self._around(calls, words)
            if around is None:
                return None
            calls, lines = around
        if tags is not None:
            calls, lines = f"thought? ({calls})", [*lines, f"thought: {words(tags[0])} ANY {words(tags[1])}", ANY]
        lines = [f"start: {calls}", "call: " + " | ".join(rules), *dict.fromkeys(lines)]
        return "\n".join([*lines, *(f"{name}: {rule}" for name, rule in rules.items())])

    def _around(self, calls: str, words: Words) -> tuple[str, list[str]] | None:
        """The rule of a text that may end with calls, and further lines; None where a grammar cannot tell that."""
        begin = (self.first or str(getattr(self.syntax, "before", ""))).lstrip()
        mark = self.begin[0] if self.begin else ""
        token = words(mark) if words(mark).startswith("<[") else ""  # no text has a control token
        pattern = re.escape(mark).replace("/", "\\/")
        without = "" if token or not mark else f" & ~/(?s:.*){pattern}(?s:.*)/"
        if self.bare:
            text = rf"TEXT: /\s*([^\s{re.escape(self.bare)}](?s:.*))?/{without}"
            return f"TEXT | SPACE {token + '?' if token else ''} {calls}", [text, r"SPACE: /\s*/"]
        if words(begin).startswith("<["):
            return f"ANY | ANY {calls}", [ANY]
        if not mark or not self.first.lstrip().startswith(mark):
            return None
        rest = f"{words(self.first.lstrip().removeprefix(mark))} {calls.removeprefix(words(self.first))}"
        head = f"HEAD: (/(?s:.*)/{without}) /{pattern}/"
        return f"TEXT | HEAD {rest}", [f"TEXT: /(?s:.*)/{without}", head]


ANY = "ANY: /(?s:.*)/"
LIST = r"\s*[\[,]?\s*"  # before a call in a JSON list
D = "\uff5c"  # the bar in DeepSeek's marks


def tagged(open_: str, close: str) -> dict[str, Any]:
    """What rows have in common whose calls stand in tags, one call in each."""
    return {"begin": (open_,), "end": rf"\s*{re.escape(close)}", "first": open_ + "\n", "last": "\n" + close,
            "between": f"\n{close}\n{open_}\n"}  # fmt: skip


def listed(open_: str, close: str = "", begin: tuple[str, ...] = ()) -> dict[str, Any]:
    """What rows have in common whose calls are a JSON list."""
    return {"begin": begin or (open_,), "before": LIST, "end": rf"\s*\]?\s*({re.escape(close)})?", "between": ", ",
            "first": open_ + "[", "last": "]" + close}  # fmt: skip


XML = Tagged("<function={}>\n", "<parameter={}>\n", "\n</parameter>\n", "</function>")
FORMATS = (
    Format("gpt-oss", ("<|channel|>", "<|message|>", "<|start|>"), (),
           Named("<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "")),
    Format("kimi", ("<|tool_calls_section_begin|>",), ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
           Named("functions.", ":0<|tool_call_argument_begin|>", "<|tool_call_end|>",
                 rf"\s*(?:<\|tool_call_begin\|>)?\s*(?:functions\.)?(?P<name>{NAME}?)(?::\d+)?"
                 r"\s*<\|tool_call_argument_begin\|>"),
           end=r"\s*<\|tool_calls_section_end\|>", between="<|tool_call_begin|>",
           first="<|tool_calls_section_begin|><|tool_call_begin|>", last="<|tool_calls_section_end|>"),
    Format("deepseek-dsml", (f"{D}DSML{D}",), (f"<{D}DSML{D}function_calls>", f"<{D}DSML{D}tool_calls>"),
           Tagged(f"<{D}DSML{D}invoke name=\"{{}}\">\n", f"<{D}DSML{D}parameter name=\"{{}}\" string=\"true\">",
                  f"</{D}DSML{D}parameter>\n", f"</{D}DSML{D}invoke>"),
           end=rf"\s*</{D}DSML{D}(function|tool)_calls>", first=f"<{D}DSML{D}function_calls>\n", between="\n",
           last=f"\n</{D}DSML{D}function_calls>"),
    Format("deepseek", ("tool\u2581calls\u2581begin", "```json"),
           (f"<{D}tool\u2581calls\u2581begin{D}>", f"<{D}tool\u2581call\u2581begin{D}>"),
           Named(f"<{D}tool\u2581call\u2581begin{D}>function<{D}tool\u2581sep{D}>", "\n```json\n",
                 f"\n```<{D}tool\u2581call\u2581end{D}>",
                 rf"\s*(?:<{D}tool\u2581call\u2581begin{D}>)?(?:function)?\s*<{D}tool\u2581sep{D}>"
                 rf"(?P<name>{NAME})\s*```(?:json)?"),
           end=rf"\s*<{D}tool\u2581calls\u2581end{D}>", first=f"<{D}tool\u2581calls\u2581begin{D}>",
           between="\n", last=f"<{D}tool\u2581calls\u2581end{D}>"),
    Format("deepseek-v3.1", ("tool\u2581calls\u2581begin",),
           (f"<{D}tool\u2581calls\u2581begin{D}>", f"<{D}tool\u2581call\u2581begin{D}>"),
           Named(f"<{D}tool\u2581call\u2581begin{D}>", f"<{D}tool\u2581sep{D}>", f"<{D}tool\u2581call\u2581end{D}>",
                 rf"\s*(?:<{D}tool\u2581call\u2581begin{D}>)?\s*(?P<name>{NAME}?)\s*<{D}tool\u2581sep{D}>"),
           end=rf"\s*<{D}tool\u2581calls\u2581end{D}>", first=f"<{D}tool\u2581calls\u2581begin{D}>",
           last=f"<{D}tool\u2581calls\u2581end{D}>"),
    Format("minimax", ("<minimax:tool_call> or <invoke name",), ("<minimax:tool_call>",),
           Tagged("<invoke name=\"{}\">\n", "<parameter name=\"{}\">", "</parameter>\n", "</invoke>"),
           end=r"\s*</minimax:tool_call>", first="<minimax:tool_call>\n", between="\n", last="\n</minimax:tool_call>"),
    Format("seed", ("<seed:tool_call>",), syntax=XML, **tagged("<seed:tool_call>", "</seed:tool_call>")),
    Format("glm", ("<arg_key>",),
           syntax=Tagged("{}\n", "<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>"),
           begin=("<tool_call>",), first="<tool_call>", between="\n<tool_call>"),
    Format("qwen-xml", ("<tool_call>", "<function="), syntax=XML, **tagged("<tool_call>", "</tool_call>")),
    Format("functionary", ("<function=", "</function>"), ("<function=",), Named("<function=", ">", "</function>",
           rf"\s*(?:<function=)?(?P<name>{NAME}?)>"), between="\n"),
    Format("tool-calls", ("<tool_calls>[",), syntax=Json(), **listed("<tool_calls>", "</tool_calls>")),
    Format("hermes", ("<tool_call>",), syntax=Json(), **tagged("<tool_call>", "</tool_call>")),
    Format("mistral", ("[TOOL_CALLS]", "[ARGS]"), ("[TOOL_CALLS]",), Named("[TOOL_CALLS]", "[ARGS]", "",
           rf"\s*(?:\[TOOL_CALLS\])?(?P<name>{NAME}?)\s*(?:\[CALL_ID\]\w*)?\[ARGS\]")),
    Format("mistral-list", ("[TOOL_CALLS]",), syntax=Json(), **listed("[TOOL_CALLS]")),
    Format("lfm2", ("<|tool_call_start|> or <|tool_list_start|> or List of tools: [",), ("<|tool_call_start|>",),
           Pythonic(), LIST, r"\s*\]?\s*(<\|tool_call_end\|>)?", "<|tool_call_start|>[", ", ", "]<|tool_call_end|>"),
    Format("gemma4", ("<|tool_call>",), ("<|tool_call>",), Gemma('<|"|>'), end=r"\s*<tool_call\|>",
           first="<|tool_call>", between="<tool_call|><|tool_call>", last="<tool_call|>"),
    Format("functiongemma", ("<start_function_call>",), ("<start_function_call>",), Gemma("<escape>"),
           end=r"\s*<end_function_call>", first="<start_function_call>",
           between="<end_function_call><start_function_call>", last="<end_function_call>"),
    Format("command-r", ("<|START_ACTION|>",), syntax=Json("tool_name", "parameters"),
           **listed("<|START_ACTION|>", "<|END_ACTION|>")),
    Format("command-r-plus", ("Action:", "tool_name"), syntax=Json("tool_name", "parameters"),
           begin=("Action:",), before=r"\s*(?:```json)?" + LIST, end=r"\s*\]?\s*(```)?", first="Action: ```json\n[",
           between=", ", last="]```"),
    Format("phi4", ("<|/tool_call|> or <|/tool|>",), syntax=Json(), **listed("<|tool_call|>", "<|/tool_call|>")),
    Format("granite", ("<|tool_call|>",), syntax=Json(), **listed("<|tool_call|>")),
    Format("nemotron", ("<TOOLCALL>",), syntax=Json(), **listed("<TOOLCALL>", "</TOOLCALL>")),
    Format("minimax-m1", ("<tool_calls>",), syntax=Json(), begin=("<tool_calls>",), end=r"\s*</tool_calls>",
           first="<tool_calls>\n", between="\n", last="\n</tool_calls>"),
    Format("gigachat", ("<|function_call|>",), ("<|function_call|>",), Json(), first="<|function_call|>",
           between="<|function_call|>"),
    Format("gigachat3", ("function call", "role_sep"),
           ("function call<|role_sep|>", "<|message_sep|>\n\nfunction call<|role_sep|>"), Json(),
           first="function call<|role_sep|>\n", between="<|message_sep|>\n\nfunction call<|role_sep|>\n"),
    Format("apertus", ("<|tools_prefix|>",), syntax=Keyed(), **listed("<|tools_prefix|>", "<|tools_suffix|>")),
    Format("hy3", ("<tool_calls{}>",), ("<tool_calls:opensource>",),
           Tagged("<tool_call:opensource>{}<tool_sep:opensource>\n",
                  "<arg_key:opensource>{}</arg_key:opensource>\n<arg_value:opensource>",
                  "</arg_value:opensource>\n", "</tool_call:opensource>"),
           end=r"\s*</tool_calls:opensource>", first="<tool_calls:opensource>\n", between="\n",
           last="\n</tool_calls:opensource>"),
    Format("minicpm", ("<function name=", "<param name="), ("<function",),
           Tagged("<function name=\"{}\">", "<param name=\"{}\">", "</param>", "</function>")),
    Format("solar", ("<|tool_call:begin|>",), ("<|tool_calls|>", "<|tool_call:begin|>"),
           Named("<|tool_call:begin|>1<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>",
                 rf"\s*(?:<\|tool_call:begin\|>)?[\w-]*<\|tool_call:name\|>(?P<name>{NAME})<\|tool_call:args\|>"),
           first="<|tool_calls|>"),
    Format("functools", ("functools",), syntax=Json(), **listed(" functools", begin=("functools",))),
    Format("llama3", ("<|python_tag|> or \"parameters\": dictionary",), ("<|python_tag|>",), Json("name", "parameters"),
           r"\s*[;,]?\s*(?:<\|python_tag\|>)?\s*", between="; ", bare="{"),
    Format("pythonic", ("<|python_start|> or python list",), ("<|python_start|>",), Pythonic(), LIST,
           r"\s*\]\s*(<\|python_end\|>)?", "[", ", ", "]", "["),
)  # fmt: skip
GENERIC = Format("generic", (), syntax=Json(), **tagged("<tool_call>", "</tool_call>"))


def format_of(source: str) -> Format:
    """The form of calls of the models that a chat template is for."""
    if takes_tools(source):
        for row in FORMATS:
            if all(any(text in source for text in mark.split(" or ")) for mark in row.marks):
                return row
    return GENERIC


WAYS = {  # in which templates take tools, and the variables of those that do
    "tools": r"(?<![.\w])tools\b",
    "xml_tools": r"\bxml_tools\b",
    "functions": r"(?<![.\w])functions\b(?=.*\bdatetime\b)",
    "message": r"message(\.tools\b|\[(['\"])tools\2\])",
}
STRINGS = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""


def way_of(source: str) -> str | None:
    """How a chat template takes tools: the first of WAYS that it has."""
    code = "\n".join(found[0] for found in re.finditer(r"\{[{%].*?[%}]\}", source, re.S))
    names = re.sub(STRINGS, "''", code)
    return next((way for way, name in WAYS.items() if re.search(name, code if way == "message" else names, re.S)), None)


def takes_tools(source: str) -> bool:
    """Whether a chat template shows tools to the model."""
    return way_of(source) is not None


def checked_tools(caller: str, tools: Any) -> list[dict[str, Any]]:
    """Descriptions of tools in OpenAI's form: {"type": "function", "function": {"name", "description", "parameters"}}.

    Raises:
        TypeError, ValueError: a description is wrong; the message names it.
    """
    if not isinstance(tools, (list, tuple)):
        raise TypeError(f"{caller}: tools is a {type(tools).__name__}: need a list of descriptions")
    found, names = [], set()
    for i, given in enumerate(tools):
        tool = plain(given, f"tools[{i}]")
        function = tool.get("function", tool) if isinstance(tool, dict) else {}
        function = function if isinstance(function, dict) else {}
        name = function.get("name")
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            raise ValueError(f"{caller}: tools[{i}] has the name {name!r}: need letters, digits, '_', '-', '.' or ':'")
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        if not isinstance(parameters, dict) or not isinstance(parameters.get("properties", {}), dict):
            raise ValueError(f"{caller}: tools[{i}] ({name}): parameters is {str(parameters)[:60]}: need a JSON schema")
        if name in names:
            raise ValueError(f"{caller}: tools[{i}]: there is another tool of the name {name!r}")
        names.add(name)
        found.append({"type": "function", "function": {**function, "parameters": parameters}})
    return found


def schemas_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The schemas of the tools' arguments by their names."""
    return {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}


def strict_schemas(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]] | None:
    """The schemas that calls must follow: those of the tools described as `strict`. None if there are none."""
    strict = {tool["function"]["name"]: bool(tool["function"].get("strict")) for tool in tools}
    if not any(strict.values()):
        return None
    return {name: schema if strict[name] else {"type": "object"} for name, schema in schemas_of(tools).items()}
