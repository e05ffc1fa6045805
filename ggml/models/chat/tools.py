"""Calls of tools in answers: a row for each form in which models write them.

A form is found from the chat template, which shows the models' own calls in it. It reads calls out of a text, and makes
a grammar of the calls that are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .renderer import plain
from .syntaxes import NAME, Gemma, Json, Keyed, Named, Nested, Pythonic, Schemas, Syntax, Tagged, Words, control_names


@dataclass(frozen=True)
class Heads:
    """How answers are written that consist of messages, each with a head that says to whom it is.

    Attributes:
        head: regular expression of a head; `{names}` stands for the names that messages can be to.
        name: regular expression whose group is the name in a head.
        ends: texts of which one ends a message; `{}` stands for its name, `{names}` for each name.
        reasoning, content: names for reasoning, and for what the user reads; other names are those of tools.
        tags: texts around reasoning, or None if there is none.
        said: head of a message that calls nothing, in a grammar; `{}` stands for its name.
        between: text between messages, in a grammar.
    """

    head: str
    name: str
    ends: tuple[str, ...]
    reasoning: tuple[str, ...]
    content: tuple[str, ...]
    tags: tuple[str, str] | None = None
    said: str = ""
    between: str = ""

    @property
    def texts(self) -> list[str]:
        """The texts of these that may have control tokens."""
        return [*self.ends, *(self.tags or ()), self.said, self.between]


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
        closing: what may end an answer without calls, in a grammar.
        heads: of answers that consist of messages, or None.
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
    closing: str = ""
    heads: Heads | None = None

    def skipped(self, mark: str) -> int:
        """The length of a text that begins calls, 0 if it is part of the first call."""
        return 0 if str(getattr(self.syntax, "before", "")).startswith(mark) else len(mark)

    @property
    def control(self) -> list[str]:
        """Texts that are control tokens in many vocabularies."""
        texts = [*self.begin, self.first, self.between, self.last, *(self.heads.texts if self.heads else ())]
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
        if not must and self.heads is not None and self.heads.said:
            calls, lines = self._among_messages(self.heads, calls, words)
        elif not must:
            around = self._around(calls, more, schemas, words)
            if around is None:
                return None
            calls, lines = around
        if tags is not None:
            calls, lines = f"thought? ({calls})", [*lines, f"thought: {words(tags[0])} ANY {words(tags[1])}", ANY]
        lines = [f"start: {calls}", "call: " + " | ".join(rules), *dict.fromkeys(lines)]
        return "\n".join([*lines, *(f"{name}: {rule}" for name, rule in rules.items())])

    def _around(self, calls: str, more: str, schemas: Schemas, words: Words) -> tuple[str, list[str]] | None:
        """The rule of a text that may end with calls, and further lines; None where a grammar cannot tell that."""
        before = str(getattr(self.syntax, "before", ""))
        begin = (self.first or before).lstrip()
        mark = self.begin[0] if self.begin else ""
        token = words(mark) if words(mark).startswith("<[") else ""  # no text has a control token
        without = "" if token or not mark else f" & ~/(?s:.*){pattern_of(mark)}(?s:.*)/"
        if self.bare:
            text = rf"TEXT: /\s*([^\s{re.escape(self.bare)}](?s:.*))?/{without}"
            return f"TEXT | SPACE {token + '?' if token else ''} {calls}", [text, r"SPACE: /\s*/"]
        if words(begin).startswith("<["):
            return f"ANY {f'({words(self.closing)})? ' if self.closing else ''}| ANY {calls}", [ANY]
        if not mark or not begin.startswith(mark):
            return None
        lines = [f"TEXT: /(?s:.*)/{without}", f"HEAD: (/(?s:.*)/{without}) /{pattern_of(mark)}/"]
        rest = begin.removeprefix(mark)
        if self.first:
            return f"TEXT | HEAD {words(rest)} {calls.removeprefix(words(self.first))}", lines
        tail = self.syntax.after_mark(mark)
        rules = [tail.rule(name, schema, words) for name, schema in schemas.items()]  # of a call whose mark was read
        return f"TEXT | HEAD ({' | '.join(rules)}){more} {words(self.last)}", lines

    def _among_messages(self, heads: Heads, calls: str, words: Words) -> tuple[str, list[str]]:
        """The rule of messages whose last ones may be calls, and further lines."""
        mark = next(iter(control_names([heads.between])), heads.between)
        rest = heads.between.removeprefix(mark)
        said = " | ".join(words(heads.said.replace("{}", name)) for name in (*heads.reasoning, *heads.content))
        if words(mark).startswith("<["):
            text, more, lines = "ANY", f"ANY {words(heads.between)}", [ANY]
        else:
            without = f"/(?s:.*)/ & ~/(?s:.*){pattern_of(mark)}(?s:.*)/"
            text, more = "TEXT", f"HEAD {words(rest)}"
            lines = [f"TEXT: {without}", f"HEAD: ({without}) /{pattern_of(mark)}/"]
        return f"(said {more})* (said {text} | {calls})", [*lines, f"said: {said}"]


def pattern_of(mark: str) -> str:
    """A text as a regular expression of a grammar."""
    return re.escape(mark).replace("/", "\\/").replace("\n", "n").replace("\\ ", " ")


ANY = "ANY: /(?s:.*)/"
LIST = r"\s*[\[,]?\s*"  # before a call in a JSON list
D = "\uff5c"  # the bar in DeepSeek's marks
MINIMAX = "]<]minimax[>["  # before each tag of MiniMax M3


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
           Named("<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "",
                 rf"(?s).*?to=(?:functions\.)?(?P<name>{NAME}?)(?=<\||\s).*?<\|message\|>",
                 ((" to=functions.", "<|channel|>commentary json<|message|>"),)),
           between="<|call|><|start|>assistant", heads=Heads(
               r".*?<\|message\|>", r".*to=(?:functions\.)?([\w.:-]+?)(?=<\||\s|$)|.*<\|channel\|>\s*(\w+)",
               ("<|end|>", "<|call|>", "<|return|>", "<|start|>"), ("analysis",), ("final", "commentary"),
               ("<|channel|>analysis<|message|>", "<|end|>"), "<|channel|>{}<|message|>", "<|end|><|start|>assistant")),
    Format("kimi-k3", ("<|open|>", "<|close|>", "<|sep|>"), ("<|close|>response<|sep|><|open|>tools<|sep|>",),
           Tagged("<|open|>call tool=\"{}\" index=\"{n}\"<|sep|>", "<|open|>argument key=\"{}\" type=\"{kind}\"<|sep|>",
                  "<|close|>argument<|sep|>", "<|close|>call<|sep|>",
                  {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null",
                   "array": "array", "": "object"}),
           first="<|close|>response<|sep|><|open|>tools<|sep|>", last="<|close|>tools<|sep|><|close|>message<|sep|>",
           closing="<|close|>response<|sep|><|close|>message<|sep|>", heads=Heads(
               r"<\|open\|>(?:think|response|call)\b[^<]*<\|sep\|>", r"<\|open\|>(\w+)", ("<|close|>{}<|sep|>",),
               ("think",), ("response",),
               ("<|open|>think<|sep|>", "<|close|>think<|sep|><|open|>response<|sep|>"))),
    Format("muse", ("<atem:function_calls>",), (),
           Tagged(" to={}<|message|><atem:function_calls>\n<atem:invoke name=\"{}\">\n", "<atem:parameter name=\"{}\">",
                  "</atem:parameter>\n", "</atem:invoke>"),
           last="\n</atem:function_calls>", between="\n</atem:function_calls><|eom|><|start|>assistant", heads=Heads(
               rf"\bto={NAME}\s*<\|message\|>", rf"to=({NAME})",
               ("<|eom|>", "<|eot|>", "<|start|>"), ("self",), ("user",),
               (" to=self<|message|>", "<|eom|>"), " to={}<|message|>", "<|eom|><|start|>assistant")),
    Format("functionary-3.2", (">>>${recipient}",), (), Named("", "\n", "", rf"(?:>>>)?(?P<name>{NAME})\n"),
           between=">>>", heads=Heads(r"\A(?:>>>)?(?:{names})\n", r"(?:>>>)?(.*)\n", (">>>{names}\n",), (),
                                      ("all",), None, "{}\n", ">>>")),
    Format("kimi", ("<|tool_calls_section_begin|>",), ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
           Named("functions.", ":0<|tool_call_argument_begin|>", "<|tool_call_end|>",
                 rf"\s*(?:<\|tool_call_begin\|>)?\s*(?:functions\.)?(?P<name>{NAME}?)(?::\d+)?"
                 r"\s*<\|tool_call_argument_begin\|>"),
           end=r"\s*<\|tool_calls_section_end\|>", between="<|tool_call_begin|>",
           first="<|tool_calls_section_begin|><|tool_call_begin|>", last="<|tool_calls_section_end|>"),
    Format("deepseek-dsml", (f"{D}DSML{D}",), (f"<{D}DSML{D}function_calls>", f"<{D}DSML{D}tool_calls>"),
           Tagged(f"<{D}DSML{D}invoke name=\"{{}}\">\n", f"<{D}DSML{D}parameter name=\"{{}}\" string=\"{{kind}}\">",
                  f"</{D}DSML{D}parameter>\n", f"</{D}DSML{D}invoke>", {"string": "true", "": "false"}),
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
    Format("minimax-m3", (MINIMAX, "<mm:think>"), (f"{MINIMAX}<tool_call>",), Nested(MINIMAX),
           end=rf"\s*{re.escape(MINIMAX)}</tool_call>", first=f"{MINIMAX}<tool_call>\n", between="\n",
           last=f"\n{MINIMAX}</tool_call>"),
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
