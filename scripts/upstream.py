"""Compares headers of the C library with the manifest of the surface, and lists what is new or changed.

    python scripts/upstream.py ggml.h gguf.h ggml-backend.h ...

The manifest, tests/data/api_current.json, has the functions and constants of the release that the ctypes bindings wrap.
Names that this package has beyond the manifest are marked "have".
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

MANIFEST = Path(__file__).resolve().parent.parent / "tests" / "data" / "api_current.json"
PROTOTYPE = re.compile(r"([\w\s*]+?)\b((?:ggml|gguf)_\w+)\s*\(([^(){};]*(?:\([^()]*\)[^(){};]*)*)\)\s*;")
ENUM = re.compile(r"\benum\s*(\w*)\s*\{([^{}]*)\}")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(GG(?:ML|UF)_\w+)[ \t]+(-?(?:0x)?[0-9a-fA-F]+)[ \t]*$", re.M)


@dataclass
class Surface:
    """The functions of headers, by name with the names of their parameters, and their constants with their values."""

    functions: dict = field(default_factory=dict)
    constants: dict = field(default_factory=dict)

    def add(self, text):
        """Adds the declarations of a header."""
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
        self.constants.update((name, int(value, 0)) for name, value in MACRO.findall(text))
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)  # directives, with continued lines
        text = re.sub(r"\bGGML_DEPRECATED\s*\((.*?),\s*\"[^\"]*\"\s*\)", r"\1", text, flags=re.S)
        for _, body in ENUM.findall(text):
            self._add_enum(body)
        for result, name, parameters in PROTOTYPE.findall(text):
            if "typedef" not in result and "return" not in result:
                self.functions[name] = parameter_names(parameters)

    def _add_enum(self, body):
        value: int | None = -1
        for item in filter(None, map(str.strip, body.split(","))):
            name, _, given = map(str.strip, item.partition("="))
            if given:
                known = {**self.constants, **{str(n): n for n in range(2)}}
                try:
                    value = known[given] if given in known else int(given, 0)
                except ValueError:
                    value = None
            elif value is not None:
                value += 1
            self.constants[name] = value


def parameter_names(text):
    """The names of the parameters of a prototype."""
    text = re.sub(r"\(\s*\*\s*(\w+)\s*\)\s*\([^()]*\)", r"\1", text)  # pointers to functions
    parts = [part.strip() for part in text.split(",")]
    if parts in ([""], ["void"]):
        return []
    return [match[1] if (match := re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", part)) else "..." for part in parts]


def report(surface, manifest, have=frozenset()):
    """The lines of the comparison."""
    known = {f["name"]: f["params"] for f in manifest["functions"]}
    mark = {True: "have", False: "    "}
    for name in sorted(surface.functions.keys() - known.keys()):
        yield f"new function  {mark[name in have]}  {name}({', '.join(surface.functions[name])})"
    for name in sorted(surface.functions.keys() & known.keys()):
        now, before = surface.functions[name], known[name]
        if len(now) != len(before):
            yield f"changed             {name}({', '.join(now)}), before ({', '.join(before)})"
    constants = manifest["constants"]
    for name, value in surface.constants.items():
        if name not in constants and name.startswith(("GGML_", "GGUF_")):
            yield f"new constant  {mark[name in have]}  {name} = {value}"
        elif value is not None and constants.get(name, value) != value:
            yield f"changed             {name} = {value}, before {constants[name]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("headers", nargs="+", type=Path, metavar="HEADER")
    options = parser.parse_args()
    surface = Surface()
    for path in options.headers:
        try:
            surface.add(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            parser.error(f"{path} is not read: {getattr(error, 'strerror', None) or error}")
    if not surface.functions:
        sys.exit(f"no functions in {', '.join(map(str, options.headers))}: need headers of ggml")
    try:
        have = set(dir(import_module("ggml")))
    except ImportError:
        have = set()
    print(*report(surface, json.loads(MANIFEST.read_text()), have), sep="\n")


if __name__ == "__main__":
    main()
