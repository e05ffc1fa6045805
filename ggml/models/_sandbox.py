"""Jinja for templates from strangers: its immutable sandbox, with limits on time and on the size of values.

The sandbox keeps a template from reaching the machine. What is added here keeps it from taking the program's time or
memory: every loop turn, call and macro checks the time, and every operation that can make a large value is checked
before it does.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from ._encoders import optional_module

SECONDS = 10.0  # a template may take; the usual ones take milliseconds
SIZE = 4 << 20  # characters and items of a value with everything in it
NUMBER = 100_000  # largest number that a filter or method gets, such as a width
DIGITS = re.compile(r"\d{5}|\*")  # widths in format strings
CONTAINERS = (list, tuple, dict)


class TemplateError(ValueError):
    """A chat template is wrong, refuses the messages, or exceeds a limit."""


def require_total(total: int) -> None:
    """Raises if a value would have more than SIZE characters or items."""
    if total > SIZE:
        raise TemplateError(f"chat: the template makes a value of {total:,} items: the limit is {SIZE:,}")


def require_small(value: Any) -> Any:
    """Returns a value, if it has at most SIZE characters and items with everything in it."""
    if not isinstance(value, CONTAINERS):
        require_total(length(value))
        return value
    total, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        total += 1 + length(item)
        require_total(total)
        if isinstance(item, dict):
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, (list, tuple)):
            waiting += item
    return value


def require_numbers(values: Iterable[Any]) -> None:
    """Raises for arguments that are large numbers."""
    for value in values:
        if isinstance(value, (int, float)) and abs(value) > NUMBER:
            raise TemplateError(f"chat: the template passes the number {value:.6g} on: the limit is {NUMBER:,}")


def length(value: Any) -> int:
    """The characters or items of a value, without what is in the items."""
    return len(value) if isinstance(value, (str, bytes, *CONTAINERS)) else 0


def require_join(separator: Any, items: Any) -> list[Any]:
    """The items as a list, if the text that joins them is small."""
    items = list(items)
    require_total(length(separator) * len(items) + sum(map(length, items)))
    return items


def require_replace(text: str, old: str, new: str) -> None:
    """Raises if replacing makes a large text."""
    require_total(len(text) + text.count(old) * len(new))


def require_operation(operator: str, left: Any, right: Any) -> None:
    """Raises if the result of an arithmetic operation would be large."""
    if operator == "%" and isinstance(left, (str, bytes)):
        if DIGITS.search(str(left)):
            raise TemplateError("chat: the template formats text with a width that is too large")
        require_small(right)
    elif operator == "*" and (length(left) or length(right)):
        count = right if length(left) else left
        require_total(max(length(left), length(right)) * count if isinstance(count, int) else 0)
    elif operator in ("*", "**"):
        bits = [value.bit_length() for value in (left, right) if isinstance(value, int)]
        if sum(bits) > 10_000 or (operator == "**" and isinstance(right, int) and abs(right) * max(bits) > 10_000):
            raise TemplateError("chat: the template computes a number of thousands of digits")
    else:
        require_total(length(left) + length(right))


def require_call(function: Any, arguments: list[Any]) -> None:
    """Raises for calls of methods of strings whose result would be large."""
    function = getattr(function, "__wrapped__", function)  # Jinja wraps str.format
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if not isinstance(owner, str):
        return
    require_numbers(arguments)
    if name == "replace" and len(arguments) >= 2:
        require_replace(owner, str(arguments[0]), str(arguments[1]))
    elif name == "join" and arguments:
        require_join(owner, arguments[0])
    elif name in ("format", "format_map") and DIGITS.search(owner):
        raise TemplateError("chat: the template formats text with a width that is too large")
    elif name in ("translate", "expandtabs"):
        raise TemplateError(f"chat: the template calls str.{name}, which is not supported")


def raise_exception(message: str) -> None:
    """Templates call this for messages that they do not support."""
    raise TemplateError(f"chat: the template refuses the messages: {message}")


def strftime_now(form: str) -> str:
    """The time now, as templates write the date into a prompt."""
    return datetime.now().strftime(form)


def to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, sort_keys: bool = False, **_: Any
) -> str:
    """The filter `tojson`, without the escapes for HTML of Jinja's own."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, sort_keys=sort_keys)


class Budget:
    """The time that is left to a template."""

    def __init__(self) -> None:
        self.end = 0.0

    def start(self) -> None:
        self.end = time.monotonic() + SECONDS

    def check(self) -> str:
        if time.monotonic() > self.end:
            raise TemplateError(f"chat: the template takes more than {SECONDS:.0f} seconds")
        return ""

    def items(self, values: Iterable[Any]) -> Iterator[Any]:
        """The items of a loop; each turn checks the time."""
        for value in values:
            self.check()
            yield value


def limited_filter(name: str, function: Callable[..., Any], budget: Budget) -> Callable[..., Any]:
    """A filter that checks its arguments and its result."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0  # Jinja passes its context to some

    def checked(*args: Any, **kwargs: Any) -> Any:
        budget.check()
        given, value = list(args), args[first] if len(args) > first else None
        rest = [*args[first + 1 :], *kwargs.values()]
        require_numbers(rest)
        if name in ("join", "sum"):
            given[first] = require_join(kwargs.get("d", args[first + 1] if len(args) > first + 1 else ""), value)
        elif name == "replace" and len(args) > first + 2:
            require_replace(str(value), str(args[first + 1]), str(args[first + 2]))
        elif name == "format" and DIGITS.search(str(value)):
            raise TemplateError("chat: the template formats text with a width that is too large")
        elif name == "indent":
            require_total(length(value) + str(value).count("\n") * max(map(size_or_length, rest), default=4))
        return require_small(function(*given, **kwargs))

    if first:
        checked.jinja_pass_arg = function.jinja_pass_arg  # type: ignore[attr-defined]
    return checked


def size_or_length(value: Any) -> int:
    """A number itself, or the length of a text: the width of an indentation is given either way."""
    return value if isinstance(value, int) else length(value)


def environment() -> Any:
    """A new Jinja environment with the functions that chat templates expect; `budget` limits its time."""
    nodes = optional_module("jinja2.nodes")
    base = optional_module("jinja2.sandbox").ImmutableSandboxedEnvironment
    extension = optional_module("jinja2.ext").Extension

    class Generation(extension):  # type: ignore[misc, valid-type]
        """`{% generation %} ... {% endgeneration %}` marks the text to train on; here it is only text."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def call(name: str, *args: Any) -> Any:
        return nodes.Call(nodes.Name(name, "load"), list(args), [], None, None)

    class Limits(optional_module("jinja2.visitor").NodeTransformer):  # type: ignore[misc]
        """Adds the checks to a parsed template."""

        def visit_For(self, node: Any) -> Any:
            self.generic_visit(node)
            node.iter = call("_items", node.iter)
            return node

        def visit_Macro(self, node: Any) -> Any:
            self.generic_visit(node)
            node.body.insert(0, nodes.Output([call("_check")]))
            return node

        visit_CallBlock = visit_Macro

        def visit_AssignBlock(self, node: Any) -> Any:
            self.generic_visit(node)
            node.filter = nodes.Filter(node.filter, "_small", [], [], None, None)
            return node

        def visit_List(self, node: Any) -> Any:
            self.generic_visit(node)
            return call("_small", node)

        visit_Dict = visit_Concat = visit_List

        def visit_Tuple(self, node: Any) -> Any:
            self.generic_visit(node)
            return call("_small", node) if node.ctx == "load" else node

    class Sandbox(base):  # type: ignore[misc, valid-type]
        intercepted_binops = frozenset(["+", "*", "**", "%"])

        def _parse(self, source: str, name: str | None, filename: str | None) -> Any:
            return Limits().visit(super()._parse(source, name, filename)).set_environment(self)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            require_operation(operator, left, right)
            return require_small(super().call_binop(context, operator, left, right))

        def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            self.budget.check()
            require_call(function, [*args, *kwargs.values()])
            return require_small(super().call(context, function, *args, **kwargs))

    jinja = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    jinja.budget = budget = Budget()
    jinja.filters |= {"tojson": to_json, "_small": require_small}
    jinja.filters = {name: limited_filter(name, function, budget) for name, function in jinja.filters.items()}
    del jinja.globals["lipsum"]
    jinja.globals |= {"raise_exception": raise_exception, "strftime_now": strftime_now}
    jinja.globals |= {"_items": budget.items, "_check": budget.check, "_small": require_small}
    return jinja
