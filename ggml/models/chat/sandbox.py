"""Jinja for templates from strangers: its immutable sandbox, in a process of its own with limits.

The sandbox keeps a template from reaching the machine. Every loop turn, call and macro checks the time, and operations
that can make a large value are checked before they do, so that most templates that go too far end with a message that
says where. The operating system's limits on the process hold for the others: see `serve`, which `renderer.py` runs.

This file is also a program, which imports the standard library and Jinja alone.
"""

from __future__ import annotations

import json
import os
import re
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from importlib import import_module
from typing import IO, Any

SECONDS = 10.0  # a template may take; the usual ones take milliseconds
SIZE = 4 << 20  # characters and items of a value with everything in it
MEMORY = 512 << 20  # bytes of the process that renders, where the system limits them
STACK = 8 << 20  # bytes
LENGTH = struct.Struct(">I")  # precedes each message between the processes
TEXT, ERROR, REFUSAL = b"T", b"E", b"R"  # first byte of an answer: a text, or the message of one of the errors
NUMBER = 100_000  # largest number that a filter or method gets, such as a width
DIGITS = re.compile(r"\d{5}|\*")  # widths in format strings
CONTAINERS = (list, tuple, dict)
LIST_METHODS = ("append", "pop")  # with which some templates keep what they need later; others change nothing


class TemplateError(ValueError):
    """A chat template is wrong, refuses the messages, or exceeds a limit."""


class MessagesError(TemplateError):
    """A chat template fails for the messages or refuses them: it may take them in another form."""


def too_slow(seconds: float) -> TemplateError:
    """The error of a template that exceeds the limit on time."""
    return TemplateError(f"chat: the template takes more than {seconds:g} seconds")


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
    raise MessagesError(f"chat: the template refuses the messages: {message}")


def strftime_now(form: str) -> str:
    """The time now, as templates write the date into a prompt."""
    return datetime.now().strftime(form)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter `tojson`, without the escapes for HTML of Jinja's own."""
    value = list(value) if isinstance(value, Iterator) else value  # what filters such as `map` make
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Budget:
    """The time that is left to a template."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.start()

    def start(self) -> None:
        self.end = time.monotonic() + self.seconds

    def check(self) -> str:
        if time.monotonic() > self.end:
            raise too_slow(self.seconds)
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


def environment(budget: Budget) -> Any:
    """A new Jinja environment with the functions that chat templates expect, limited by `budget`."""
    nodes = import_module("jinja2.nodes")
    base: Any = import_module("jinja2.sandbox").ImmutableSandboxedEnvironment
    extension: Any = import_module("jinja2.ext").Extension
    transformer: Any = import_module("jinja2.visitor").NodeTransformer

    class Generation(extension):
        """`{% generation %} ... {% endgeneration %}` marks the text to train on; here it is only text."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def call(name: str, *args: Any) -> Any:
        """The call of a method of the sandbox, by no name that a template could assign to."""
        return nodes.Call(nodes.EnvironmentAttribute(name), list(args), [], None, None)

    class Limits(transformer):
        """Adds the checks to a parsed template."""

        def visit_For(self, node: Any) -> Any:
            self.generic_visit(node)
            node.iter = call("limited_items", node.iter)
            return node

        def visit_Macro(self, node: Any) -> Any:
            self.generic_visit(node)
            node.body.insert(0, nodes.Output([call("limited_time")]))
            return node

        visit_CallBlock = visit_Macro

        def visit_AssignBlock(self, node: Any) -> Any:
            self.generic_visit(node)
            node.filter = nodes.Filter(node.filter, "_small", [], [], None, None)
            return node

        def visit_List(self, node: Any) -> Any:
            self.generic_visit(node)
            return call("limited_size", node)

        visit_Dict = visit_Concat = visit_List

        def visit_Tuple(self, node: Any) -> Any:
            self.generic_visit(node)
            return call("limited_size", node) if node.ctx == "load" else node

    class Sandbox(base):
        intercepted_binops = frozenset(["+", "*", "**", "%"])
        limited_items = staticmethod(budget.items)
        limited_time = staticmethod(budget.check)
        limited_size = staticmethod(require_small)

        def _parse(self, source: str, name: str | None, filename: str | None) -> Any:
            return Limits().visit(super()._parse(source, name, filename)).set_environment(self)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            require_operation(operator, left, right)
            return require_small(super().call_binop(context, operator, left, right))

        def is_safe_attribute(self, value: Any, name: str, attribute: Any) -> bool:
            allowed = type(value) is list and name in LIST_METHODS
            return allowed or super().is_safe_attribute(value, name, attribute)

        def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            budget.check()
            require_call(function, [*args, *kwargs.values()])
            result = require_small(super().call(context, function, *args, **kwargs))
            if type(owner := getattr(function, "__self__", None)) is list:
                require_small(owner)
            return result

    jinja = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    jinja.filters |= {"tojson": to_json, "_small": require_small}
    jinja.filters = {name: limited_filter(name, function, budget) for name, function in jinja.filters.items()}
    del jinja.globals["lipsum"]
    jinja.globals |= {"raise_exception": raise_exception, "strftime_now": strftime_now}
    return jinja


class Template:
    """A compiled template: Jinja in this process.

    Args:
        source: str.
        seconds: float; what compiling and each rendering may take.

    Raises:
        TemplateError: the template is not valid.
    """

    def __init__(self, source: str, seconds: float) -> None:
        require_total(len(source))
        self._budget = Budget(seconds)
        self._template = self._guarded("is not valid", lambda: environment(self._budget).from_string(source))

    def render(self, variables: dict[str, Any]) -> str:
        """The text for values of the template's variables.

        Raises:
            TemplateError: the template fails, refuses the values, or exceeds a limit that is checked.
        """
        return self._guarded("failed", lambda: self._text(variables))

    def _text(self, variables: dict[str, Any]) -> str:
        parts, total = [], 0
        for part in self._template.generate(variables):
            parts.append(part)
            total += len(part)
            require_total(total)
            self._budget.check()
        return "".join(parts)

    def _guarded(self, what: str, function: Callable[[], Any]) -> Any:
        """The result of a function; its exceptions as TemplateError."""
        self._budget.start()
        begin = "chat: the chat template "
        try:
            return function()
        except TemplateError:
            raise
        except MemoryError:
            raise TemplateError(f"{begin}makes values of more than {MEMORY >> 20} MiB") from None
        except RecursionError as error:
            message = "calls itself too often" if what == "failed" else "is nested too deeply"
            raise TemplateError(begin + message) from error
        except Exception as error:
            if isinstance(error, SyntaxError):  # of the Python code that Jinja makes, most often by too many blocks
                reason = "nested too deeply" if "too many" in error.msg else "not valid"
                raise TemplateError(f"{begin}is {reason}: {error.msg}") from error
            kind = MessagesError if what == "failed" else TemplateError
            own = type(error).__module__.startswith("jinja2.")
            message = str(error) if own else f"{type(error).__name__}: {error}"
            raise kind(f"{begin}{what}: {message}{line_of(error)}") from error


def line_of(error: Exception) -> str:
    """Where in the template an exception was raised, as " (line 3)"; nothing if that is not known."""
    line, place = getattr(error, "lineno", None), error.__traceback__
    while place is not None:
        if place.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = place.tb_lineno
        place = place.tb_next
    return f" (line {line})" if line else ""


# ---- the process that renders ----------------------------------------------------------------------------------------
def receive(stream: IO[bytes], most: int) -> bytes | None:
    """A message, None at the end of the stream or if it is longer than it may be."""
    head = read_exactly(stream, LENGTH.size)
    size = LENGTH.unpack(head)[0] if head else most + 1
    return read_exactly(stream, size) if size <= most else None


def read_exactly(stream: IO[bytes], size: int) -> bytes | None:
    """As many bytes as asked for, None if the stream ends before."""
    parts = []
    while size:
        part = stream.read(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def send(stream: IO[bytes], *parts: bytes) -> None:
    """Writes a message to an unbuffered stream, which may take less than it is given."""
    rest = memoryview(b"".join([LENGTH.pack(sum(map(len, parts))), *parts]))
    while rest:
        rest = rest[stream.write(rest) :]


def limit_process() -> None:
    """Limits the memory and stack of this process; it opens no more files or sockets, and starts no processes."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = {"AS": MEMORY, "STACK": STACK, "CORE": 0, "FSIZE": 0, "NOFILE": 3, "NPROC": 0}
    for name, most in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            try:
                resource.setrlimit(kind, (most, most))
            except (ValueError, OSError):  # macOS: less than the process has
                pass


def limit_time(seconds: float) -> None:
    """Ends this process after so many seconds of the processor from now on, also when the one that asked has ended."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    total = int(used.ru_utime + used.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (total, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def serve(seconds: float) -> None:
    """Renders one template until the input ends.

    The first message is the template's source, each further one the values of its variables in JSON. Each is answered
    by its kind and a text; another TEXT says at first that the process is ready.
    """
    requests, answers = open(0, "rb", 0, closefd=False), open(1, "wb", 0, closefd=False)
    for name in ("pprint", "textwrap"):  # loads what Jinja imports late, while files can be opened
        import_module(name)
    try:
        Template("{{ strftime_now('%Y') }}{{ none.a.b }}", seconds).render({})
    except TemplateError:
        pass
    limit_process()
    send(answers, TEXT)
    template = None
    while (data := receive(requests, (1 << 32) - 1)) is not None:
        limit_time(seconds)
        text, last = "", False
        try:
            if template is None:
                template = Template(data.decode(errors="surrogatepass"), seconds)
            else:
                text = template.render(json.loads(data))
            kind = TEXT
        except TemplateError as error:
            kind, text = REFUSAL if isinstance(error, MessagesError) else ERROR, str(error)
            last = template is None or isinstance(error.__context__, MemoryError)
        data = b""
        send(answers, kind, text.encode(errors="surrogatepass"))
        if last:
            return


if __name__ == "__main__":
    sys.path += sys.argv[2:]
    serve(float(sys.argv[1]))
    os._exit(0)
