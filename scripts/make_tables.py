"""Writes README's tables of operations and types from the C tables and the gradients registered in the Cython modules.

`--check` compares instead, and fails where README is out of date. Needs no build.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
TABLES = ROOT / "ggml" / "_simd" / "tables"
GRADIENT = re.compile(r"\bgradients\[(\w+)\]\s*=")


def rows(name, macro):
    """The arguments of each row of an X-macro table, as text without quotes."""
    found = re.findall(rf"^{macro}\((.*)\)\s*(?:/\*.*)?$", (TABLES / name).read_text(encoding="utf-8"), re.M)
    cells = [re.findall(r'\s*("(?:[^"\\]|\\.)*"|[^,]+)\s*(?:,|$)', row) for row in found]
    return [[re.sub(r"\\+(.)", r"\1", cell.strip().strip('"')) for cell in row] for row in cells]


def table(head, lines):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *lines])


def code(text):
    return "`" + text.replace("|", "\\|") + "`"


def operations():
    differentiable = set()  # by id: modules may call an operation by a shorter name than the table
    for path in (ROOT / "ggml").rglob("*.pyx"):
        text = path.read_text(encoding="utf-8")
        ids = dict(re.findall(r"\b([A-Z]\w*) = (\d+)", text))
        differentiable |= {ids[name] for name in GRADIENT.findall(text) if name in ids}
    lines = []
    for number, name, symbol, *_ in rows("ops.h", "OP"):
        if name != "NONE":
            lines.append([code(name.lower()), code(symbol), "yes", "yes" if number in differentiable else "–"])
    unary = ", ".join(code(name.lower()) for _, name, _ in rows("unary.h", "UNARY"))
    return table(["operation", "shown in graphs as", "forward", "gradient"], lines) + f"\n\n`unary` is one of {unary}."


def types():
    def line(name, block, size, kind):
        bits = f"{8 * int(size) / int(block):.6g}"
        return [code(name), block, size, bits, "quantised" if kind in ("WEIGHT", "ACTIVATION", "BOTH") else "plain"]

    lines = [line(*cells[2:6]) for cells in rows("types.h", "TYPE")]
    return table(["type", "elements a block", "bytes a block", "bits an element", "kind"], lines)


def updated(text):
    """README's text with both tables as they should be."""
    for name, content in (("ops", operations()), ("types", types())):
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            sys.exit(f"README.md: need {begin} and {end}, once each")
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    old = README.read_text(encoding="utf-8")
    new = updated(old)
    if options.check and new != old:
        sys.exit("README.md: its tables are out of date: run scripts/make_tables.py")
    if not options.check:
        README.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
