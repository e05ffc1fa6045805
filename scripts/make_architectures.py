"""Writes the table of architectures in docs/models.md from the rows of the conversion; --check compares.

    python scripts/make_architectures.py [--check]

A row has the value of general.architecture, the lines of the file that computes it, the classes of transformers that
`ggml convert` takes, the tiny models of tests/hf_models.py whose logits transformers has computed (or the tests, in
NumPy), and the error of llama.cpp's, the largest of those that agree, and which do not.
"""

import inspect
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import hf_models  # noqa: E402

from ggml.models import ARCHITECTURES  # noqa: E402
from ggml.models.arch import FAMILIES  # noqa: E402
from ggml.models.conversion.fields import Fields  # noqa: E402
from ggml.models.conversion.parts import Row  # noqa: E402
from ggml.models.conversion.rows import ROWS  # noqa: E402

PAGE = ROOT / "docs" / "models.md"
BEGIN = "<!-- written by scripts/make_architectures.py -->\n"
END = "<!-- end -->\n"
AGREES = 1e-4  # an error of llama.cpp, which has tables of F16 for some functions


def is_of(kind: str, row: Row) -> bool:
    """Whether a tiny model is converted by a row."""
    if hf_models.class_of(kind) not in row.classes.split():
        return False
    return row.when(Fields(hf_models.record(kind)["config"], kind))


def lines_of(arch: str) -> str:
    """The file that computes an architecture, and its lines."""
    module = FAMILIES[arch].module
    path = Path(str(inspect.getsourcefile(module if inspect.ismodule(module) else module.layer)))
    return f"{path.name}, {len(path.read_text(encoding='utf-8').splitlines())}"


def agreement(kinds: list[str]) -> str:
    """What llama.cpp computes from these kinds: its largest error, and which kinds it computes otherwise."""
    errors = json.loads(hf_models.LLAMA_CPP.read_text(encoding="utf-8"))
    same = [errors[kind] for kind in kinds if (errors.get(kind) or 1) < AGREES]
    others = [kind for kind in kinds if kind in errors and (errors[kind] or 1) >= AGREES]
    found = [f"{max(same):.0e}"] if same else []
    return "; ".join(found + ([f"not {', '.join(others)}"] if others else []))


def table() -> str:
    """The table in Markdown."""
    heads = ("architecture", "file, lines", "classes that `ggml convert` takes", "compared with transformers",
             "llama.cpp")  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for arch in sorted(ARCHITECTURES):
        rows = [row for row in ROWS if row.arch == arch]
        classes = " ".join(row.classes for row in rows).split()
        kinds = [kind for kind in hf_models.KINDS if any(is_of(kind, row) for row in rows)]
        by_numpy = [kind for kind, of in hf_models.BY_NUMPY.items() if of == arch]
        cells = (
            f"`{arch}`", lines_of(arch), ", ".join(f"`{name}`" for name in classes),
            ", ".join([*kinds, *(f"{kind} (NumPy)" for kind in by_numpy)]), agreement([*kinds, *by_numpy]),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    new = before + BEGIN + table() + END + after
    if "--check" in sys.argv[1:]:
        if new != text:
            print(f"{PAGE.relative_to(ROOT)} differs: run scripts/make_architectures.py")
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
