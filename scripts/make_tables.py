"""Writes the text that is derived from the C tables: ggml/_enums.pxd, and README's tables of operations and types.

`--check` only compares, and fails if a file is out of date. It needs no build.
"""

import argparse
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
TABLES = ROOT / "ggml" / "_simd" / "tables"
ENUM_FILE = ROOT / "ggml" / "_enums.pxd"
ENUMS = (  # table, macro, prefix of the names in C
    ("types.h", "TYPE", "GGML_TYPE_"),
    ("ops.h", "OP", "GGML_OP_"),
    ("unary.h", "UNARY", "GGML_UNARY_OP_"),
    ("glu.h", "GLU", "GGML_GLU_OP_"),
)
GRADIENT = re.compile(r"\bgradients\[GGML_OP_(\w+)\]\s*=")


def rows(name, macro):
    """The arguments of each row of an X-macro table, as strings without quotes."""
    found = re.findall(rf"^{macro}\((.*)\)\s*(?:/\*.*)?$", (TABLES / name).read_text(encoding="utf-8"), re.M)
    cells = [re.findall(r'\s*("(?:[^"\\]|\\.)*"|[^,]+)\s*(?:,|$)', row) for row in found]
    return [[re.sub(r"\\+(.)", r"\1", cell.strip().strip('"')) for cell in row] for row in cells]


def table(head, lines):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *lines])


def code(text):
    return "`" + text.replace("|", "\\|") + "`"


def operations():
    differentiable = set()
    for path in (ROOT / "ggml" / "_ops").glob("*.pyx"):
        differentiable |= set(GRADIENT.findall(path.read_text(encoding="utf-8")))
    lines = []
    for _, name, symbol, *_ in rows("ops.h", "OP"):
        if name != "NONE":
            lines.append([code(name.lower()), code(symbol), "yes", "yes" if name in differentiable else "–"])
    unary = ", ".join(code(name.lower()) for _, name, _ in rows("unary.h", "UNARY"))
    return table(["operation", "shown in graphs as", "forward", "gradient"], lines) + f"\n\n`unary` is one of {unary}."


def types():
    def line(name, block, size, kind):
        bits = f"{8 * int(size) / int(block):.6g}"
        return [code(name), block, size, bits, "quantised" if kind in ("WEIGHT", "ACTIVATION", "BOTH") else "plain"]

    lines = [line(*cells[2:6]) for cells in rows("types.h", "TYPE")]
    return table(["type", "elements a block", "bytes a block", "bits an element", "kind"], lines)


def enums():
    """The text of ggml/_enums.pxd: the names of the constants. Only the tables contain their numbers."""
    lines = [
        "# Written by scripts/make_tables.py from ggml/_simd/tables: run it again instead of editing this file.",
        'cdef extern from "runtime/engine.h" nogil:',
    ]
    for file, macro, prefix in ENUMS:
        names = [prefix + name for _, name, *_ in rows(file, macro)]
        lines += textwrap.wrap(", ".join(names), 120, initial_indent="    enum: ", subsequent_indent="    enum: ")
    return "\n".join(line.rstrip(",") for line in lines) + "\n"


def updated(text):
    """The text of README with both tables up to date."""
    for name, content in (("ops", operations()), ("types", types())):
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            sys.exit(f"README.md must contain {begin} and {end} once each")
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare the files")
    options = parser.parse_args()
    readme = README.read_text(encoding="utf-8")
    for path, text in ((README, updated(readme)), (ENUM_FILE, enums())):
        if options.check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            sys.exit(f"{path.relative_to(ROOT)} is out of date: run scripts/make_tables.py")
        if not options.check:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
