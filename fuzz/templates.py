"""Renders random hostile chat templates: a text or a TemplateError each time, within the limits on time and memory.

    python fuzz/templates.py --seconds 600

Templates are random programs whose expressions and loops make large, deeply nested and slow values. After each one the
process that renders must answer a harmless template, and this process must not have grown. The exit status is 1 if a
template breaks a limit; the template is then in the file --last.
"""

import argparse
import json
import random
import re
import resource
import sys
import time
from collections import Counter
from pathlib import Path

from ggml.models.chat import sandbox
from ggml.models.chat.renderer import GRACE, Renderer
from ggml.models.chat.sandbox import MEMORY, SIZE, TemplateError

SLACK = 20.0  # seconds that a busy machine may add
GROWTH = 200 << 20  # bytes that this process may grow by
NUMBERS = ["0", "1", "-1", "3", "99", "9999", "100000", "4000000", "10**9", "10**99", "8000000000", "1e300", "none"]
LEAVES = [
    "'a'", "'ab\\n'", "''", "[]", "[1, 2]", "{}", "{'a': 1}", "()", "messages", "messages[0].content", "x", "y",
    "i", "true", "none", "loop", "namespace", "cycler", "range(99999)", "'%9999s'", "'{:9999}'", "'a'.encode()",
    "'<&>'", "'9' * 4000", "joiner", "dict", "varargs", "ns", "ns.x", "self", "caller", "\"\\ud800\"",
]  # fmt: skip
METHODS = [
    "upper", "split", "join", "replace", "format", "zfill", "ljust", "center", "encode", "find", "count", "items",
    "get", "expandtabs", "translate", "to_bytes", "title", "splitlines", "rjust", "partition", "fromkeys", "keys",
    "copy", "update", "append", "bit_length", "hex", "conjugate", "as_integer_ratio", "maketrans",
]  # fmt: skip
FILTERS = [
    "list", "join", "tojson", "string", "length", "sort", "unique", "batch(2)", "slice(3)", "map('string')", "sum",
    "map('list')", "groupby(0)", "indent(9999)", "wordwrap(1)", "urlize", "center(99999)", "int", "float", "abs",
    "reverse", "xmlattr", "pprint", "truncate(9)", "wordcount", "dictsort", "items", "first", "last", "max",
    "tojson(indent=9999)", "round(99, 'floor')", "selectattr('x')", "map(attribute='x')", "forceescape", "random",
    "replace('a', 'aaaaaaaa')", "striptags", "filesizeformat", "map('center', 9999)", "attr('format')",
    "format(1)", "default('a' * 9999)", "_small", "title", "trim", "escape", "safe", "urlencode",
]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "in", "==", "<", "and", "or"]


def expression(dice, depth):
    """A random expression."""
    if depth <= 0 or dice.random() < 0.15:
        return dice.choice(LEAVES + NUMBERS)
    how, a = dice.randrange(9), expression(dice, depth - 1)
    if how == 0:
        return f"({a} {dice.choice(OPERATORS)} {expression(dice, depth - 1)})"
    if how == 1:
        return f"{a}.{dice.choice(METHODS)}({', '.join(expression(dice, depth - 2) for _ in range(dice.randrange(3)))})"
    if how in (2, 3):
        return f"({a})|{dice.choice(FILTERS)}"
    if how == 4:
        return f"({a}) * {dice.choice(NUMBERS)}"
    if how == 5:
        forms = ["[{}]", "[{0}, {0}]", "({},)", "{{'k': {}}}", "namespace(x={})", "({0} ~ {0} ~ {0})"]
        return dice.choice(forms).format(a)
    if how == 6:
        return f"({a})[{expression(dice, depth - 2)}]"
    if how == 7:
        return f"m({a})"
    return f"({a} if {expression(dice, depth - 2)} else {expression(dice, depth - 2)})"


def statement(dice, depth):
    """A random statement."""
    if depth <= 0:
        jump = dice.choice(["{% break %}", "{% continue %}"])
        return jump if dice.random() < 0.03 else dice.choice(["a", "{{ " + expression(dice, 3) + " }}"])
    body = "".join(statement(dice, depth - 1) for _ in range(dice.choice([1, 1, 2])))
    value = expression(dice, 3)
    return dice.choice([
        "{{ " + value + " }}",
        f"{{% for i in {value} %}}{body}{{% endfor %}}",
        f"{{% for i in range({dice.choice(['3', '99', '99999'])}) %}}{body}{{% endfor %}}",
        f"{{% for i in [1] recursive %}}{body}{{{{ loop({value}) }}}}{{% endfor %}}",
        f"{{% if {value} %}}{body}{{% else %}}b{{% endif %}}",
        f"{{% set x = {value} %}}{body}",
        f"{{% set ns.x = {value} %}}{body}",
        f"{{% set x %}}{body}{{% endset %}}",
        f"{{% set y | {dice.choice(FILTERS)} %}}{body}{{% endset %}}",
        f"{{% macro m(a) %}}{body}{{% set ns.x = varargs %}}{{{{ a }}}}{{% endmacro %}}{{{{ m({value}) }}}}",
        f"{{% call(a) m({value}) %}}{body}{{% endcall %}}",
        f"{{% filter {dice.choice(FILTERS)} %}}{body}{{% endfilter %}}",
        f"{{% set _items = {value} %}}{{% set limited_items = 1 %}}{body}",
        f"{{% generation %}}{body}{{% endgeneration %}}",
    ])  # fmt: skip


def grown(dice):
    """A loop that makes a value larger or deeper in each turn."""
    step = dice.choice(["ns.x", "[ns.x, ns.x]", "(ns.x,)", "ns.x ~ ns.x", "ns.x + ns.x", "{'a': ns.x}", "m(ns.x)",
                        "varargs", "ns.x|string ~ ns.x|string", "[ns.x]|list", "ns.x * 9", "namespace(x=ns.x)",
                        "ns.x|tojson", "ns.x|replace('a', 'aaaa')", "ns.x ** 3", "dict(a=ns.x)",
                        "ns.x|list|join('a')"])  # fmt: skip
    last = dice.choice(["ns.x", "{}.get(ns.x)", "ns.x == ns.x|list", "ns.x|tojson", "ns.x|length", "ns.x == ns.y"])
    turns, call = dice.choice([9, 99, 9999, 99999]), dice.choice(["m()", "m(ns.x)", "m(ns.x, ns.x)", "n(ns.y, ns.y)"])
    return (
        "{% set ns = namespace(x=" + dice.choice(["'a'", "[]", "()", "2", "{}", "['a']"]) + ") %}"
        "{% set ns.y = ns.x %}{% macro m() %}{% set ns.x = varargs %}{% endmacro %}"
        "{% macro n() %}{% set ns.y = varargs %}{{ m(ns.x, ns.x) }}{% endmacro %}"
        f"{{% for i in range({turns}) %}}{{% set ns.x = {step} %}}{{{{ {call} }}}}{{% endfor %}}{{{{ {last} }}}}"
    )


def template(dice):
    """A random template."""
    how = dice.random()
    if how < 0.25:
        return grown(dice)
    if how < 0.3:
        count = dice.choice([5, 20, 25, 99, 999])
        blocks = ["for i in [1]", "if 1", "set x", "filter list"]
        blocks = [(f"{{% {block} %}}", f"{{% end{block.split()[0]} %}}") for block in blocks]
        begin, end = dice.choice([*blocks, ("{{ [", "] }}")])
        return begin * count + "1" + end * count
    source = "{% set ns = namespace(x='a') %}{% set x = 'a' * 99999 %}"
    source += "{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}"
    source += "".join(statement(dice, 3) for _ in range(dice.choice([1, 2, 4])))
    if dice.random() < 0.05:
        at = dice.randrange(len(source))
        source = source[:at] + chr(dice.randrange(1, 256)) + source[at + 1 :]
    return source


def peak(who):
    """The most memory that a process had, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * unit


def attempt(source, messages):
    """How the rendering of a template ended."""
    try:
        text = Renderer(source).render({"messages": messages})
    except TemplateError as error:
        if not str(error).startswith("chat: the "):
            raise AssertionError(f"the message does not begin with the function's name: {error}") from error
        return re.sub(r"(not valid|failed|refuses the messages|nested too deeply).*|[\d,]{2,}", r"\1", str(error))[:70]
    if len(text) > SIZE:
        raise AssertionError(f"the text has {len(text)} characters")
    return "a text"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=1.0, help="seconds that a template may take")
    parser.add_argument("--last", type=Path, default=Path("last-template"), help="file for a template at fault")
    options = parser.parse_args()
    sandbox.SECONDS = options.limit
    messages = [{"role": "user", "content": "Hello \N{GREEK SMALL LETTER PHI}"}]
    harmless = Renderer("{% for m in messages %}{{ m.role }}: {{ m.content | trim }}{% endfor %}")
    wanted, found, tried = harmless.render({"messages": messages}), Counter(), 0
    before, end = peak(resource.RUSAGE_SELF), time.monotonic() + options.seconds
    while time.monotonic() < end:
        seed = options.seed + tried
        source, begin = template(random.Random(seed)), time.monotonic()
        try:
            found[attempt(source, messages)] += 1
            if (seconds := time.monotonic() - begin) > 2 * (options.limit + GRACE) + SLACK:  # compiling and rendering
                raise AssertionError(f"{seconds:.1f} seconds")
            if harmless.render({"messages": messages}) != wanted:
                raise AssertionError("another template renders something else")
            if (more := peak(resource.RUSAGE_SELF) - before) > GROWTH:
                raise AssertionError(f"this process grew by {more:,} bytes")
            if sys.platform == "linux" and (most := peak(resource.RUSAGE_CHILDREN)) > MEMORY:
                raise AssertionError(f"a process that renders had {most:,} bytes")
        except Exception as error:
            options.last.write_text(source, encoding="utf-8")
            print(f"seed {seed}: {type(error).__name__}: {error}; {options.last}")
            return 1
        tried += 1
    print(f"{tried} templates, no fault:", json.dumps(dict(found.most_common()), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
