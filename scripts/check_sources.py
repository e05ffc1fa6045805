"""Checks rules of the source files that no other tool checks; prints `file:line: reason` for each violation.

- A line has at most 120 columns, and a file at most 1,500 lines. Generated files, which say so in their first lines,
  are excepted.
- No Cython module contains the number of an operation or a type. The numbers are in ggml/_simd/tables, from which the
  names are generated.
- No division can end the process. Cython checks divisors (the directive cdivision stays off), except that a function
  declared noexcept would only print the error: divisors there are constants. The C checks of operations, which see
  fields that callers may have written, divide by a constant or by the helpers of checks/common.h.
- No `with` statement in Cython, except `with gil` and `with nogil`. Where there is no memory for a traceback, Cython's
  code passes a null pointer to __exit__, or does not call it. `try` and `finally` work.
- No `isinstance` in Cython with a tuple of classes that are not built in: Cython's code takes an exception, which a
  property __class__ or an abstract class may raise, for a yes. Calls joined by `or` work.

    python scripts/check_sources.py [FOLDER]

The exit status is 1 if a rule is violated. FOLDER is the root of a source tree, by default that of this script.
"""

import builtins
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("ggml", "tests", "scripts", "examples", "benchmarks", "fuzz", "docs")
CYTHON = (".pyx", ".pxd", ".pxi")
SUFFIXES = (".py", *CYTHON, ".c", ".h")
COLUMNS, LINES = 120, 1500
GENERATED = re.compile(r"\b(generated|written) by \S*(Cython|scripts/|setup\.py)", re.IGNORECASE)
PREFIX = re.compile(r"^GGML_(OP|UNARY_OP|GLU_OP|TYPE)_")

CONSTANT = re.compile(r"<?\(?\w*\)?>?\s*(\d|[A-Z][A-Z0-9_]+\b|sizeof\b|GGML_)")  # what a divisor may begin with
WITH = re.compile(r"\s*with\s+(?!(?:(?:no)?gil|cython\.critical_section)\b).*:\s*$")
ISINSTANCE = re.compile(r"\bisinstance\((?:[^()]|\([^()]*\))*?,\s*\(([^()]*)\)\s*\)")
BUILT_IN = {name for name, value in vars(builtins).items() if isinstance(value, type)}
DIVISION = re.compile(r"(?<![*/])(?://|[/%])=?\s*(?=\S)")

Violation = tuple[int, str]  # line number, reason


def sources(root: Path) -> Iterator[Path]:
    """The source files of a tree that were written by hand."""
    paths = [*root.glob("*"), *(path for folder in FOLDERS for path in (root / folder).rglob("*"))]
    for path in sorted(paths):
        if path.suffix in SUFFIXES and path.is_file():
            with path.open(encoding="utf-8") as file:
                head = "".join(line for line, _ in zip(file, range(5)))
            if not GENERATED.search(head):
                yield path


def table_numbers(root: Path) -> dict[str, set[str]]:
    """The numbers of each name in the tables of operations, unary and GLU operations, and types."""
    numbers: dict[str, set[str]] = {}
    for table in sorted((root / "ggml" / "_simd" / "tables").glob("*.h")):
        for number, name in re.findall(r"^[A-Z_]+\(\s*(\d+),\s*(\w+)", table.read_text(encoding="utf-8"), re.M):
            numbers.setdefault(name, set()).add(number)
    return numbers


def long_lines(text: str) -> Iterator[Violation]:
    for i, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            yield i, f"the line has {len(line)} columns: at most {COLUMNS}"


def long_file(text: str) -> Iterator[Violation]:
    count = len(text.splitlines())
    if count > LINES:
        yield count, f"the file has {count} lines: at most {LINES}"


def enum_members(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, name, number) of the members with numbers of the enums that a Cython module defines itself."""
    indent = None  # of the current enum
    for i, line in enumerate(text.splitlines(), 1):
        code = line.split("#")[0]
        if not code.strip():
            continue
        depth = len(code) - len(code.lstrip())
        if start := re.match(r"\s*(?:cdef|cpdef)\s+enum\b[^:]*:(.*)", code):
            indent, members = depth, start[1]
        elif indent is not None and depth > indent:
            members = code
        else:
            indent = None
            continue
        for name, number in re.findall(r"(\w+)\s*=\s*(\d+)\b", members):
            yield i, name, number


def written_numbers(text: str, numbers: dict[str, set[str]]) -> Iterator[Violation]:
    """Numbers of operations and types in a Cython module: members of enums, and numbers compared with `.op`.

    A member of another enumeration may have the name of a type (GGUF's own types do) if its number differs.
    """
    for i, name, number in enum_members(text):
        plain = PREFIX.sub("", name).removesuffix("_OP")
        if plain in numbers and (plain != name or number in numbers[plain]):
            yield i, f"{name} = {number} repeats a number of the tables: cimport its name"
    for i, line in enumerate(text.splitlines(), 1):
        code = line.split("#")[0]
        compared = r"(?:[<>=!]=|[<>]|\bin\b)"
        if re.search(rf"\.op\s*{compared}\s*\(?\s*\d", code) or re.search(
            rf"\b\d+\s*{compared}\s*[\w.\[\]]*\.op\b", code
        ):
            yield i, "the number of an operation is compared with .op: cimport its name"


def code_lines(text: str, is_c: bool) -> Iterator[str]:
    """The lines of a source without comments, strings and docstrings."""
    pattern = (
        r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|//[^\n]*'
        if is_c
        else (r'""".*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*')
    )
    yield from re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL).splitlines()


def divides_by_variable(code: str) -> bool:
    return any(not CONSTANT.match(code[m.end() :]) for m in DIVISION.finditer(code))


def unchecked_divisions(path: Path, text: str) -> Iterator[Violation]:
    """Divisions that a zero, or the least integer divided by -1, would turn into the end of the process."""
    for i, line in enumerate(text.splitlines(), 1):
        if re.search(r"cdivision\W+True", line) and (path.suffix in CYTHON or path.name == "setup.py"):
            yield i, "the directive cdivision lets a division by zero end the process"
    if path.parent.name == "checks" and path.name != "common.h":
        for i, code in enumerate(code_lines(text, is_c=True), 1):
            if not code.lstrip().startswith("#") and divides_by_variable(code):
                yield i, "a check divides by a variable: use multiple() or quotient() of checks/common.h"
    if path.suffix in CYTHON:
        start = depth = None  # the indentation of the last definition, and of the noexcept function that the line is in
        for i, code in enumerate(code_lines(text, is_c=False), 1):
            indent = len(code) - len(code.lstrip())
            if depth is not None and code.strip() and indent <= depth:
                depth = None
            if re.match(r"\s*(cdef|cpdef|def)\b", code):
                start = indent
            if re.search(r"\bnoexcept(\s+nogil)?\s*:", code):
                depth = start
            if depth is not None and divides_by_variable(code):
                yield i, "a noexcept function divides by a variable: the error would only be printed"


def context_managers(text: str) -> Iterator[Violation]:
    for i, code in enumerate(code_lines(text, is_c=False), 1):
        if WITH.match(code):
            yield i, "a with statement in Cython ends the process where there is no memory: use try and finally"


def classes_in_tuples(text: str) -> Iterator[Violation]:
    code = "\n".join(code_lines(text, is_c=False))
    for m in ISINSTANCE.finditer(code):
        if {name.strip() for name in m[1].split(",")} - BUILT_IN - {""}:
            line = code.count("\n", 0, m.start()) + 1
            yield line, "isinstance with a tuple in Cython ignores exceptions: join calls with one class by `or`"


def violations(root: Path) -> Iterator[str]:
    """The violations of all rules in a tree, each as `file:line: reason`."""
    numbers = table_numbers(root)
    for path in sources(root):
        text = path.read_text(encoding="utf-8")
        found = [*long_lines(text), *long_file(text)]
        found += unchecked_divisions(path.relative_to(root), text)
        if path.suffix in (".pyx", ".pxi"):
            found += written_numbers(text, numbers)
            found += context_managers(text)
            found += classes_in_tuples(text)
        for line, reason in sorted(found):
            yield f"{path.relative_to(root).as_posix()}:{line}: {reason}"


def main() -> int:
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    found = list(violations(root))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
