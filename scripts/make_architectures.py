"""Writes the table of architectures in docs/models.md from the rows of the conversion; --check compares.

    python scripts/make_architectures.py [--check]

A row has the value of general.architecture, the classes of transformers that `ggml convert` takes, and the tiny models
of tests/hf_models.py whose logits transformers has computed.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import hf_models  # noqa: E402

from ggml.models import ARCHITECTURES  # noqa: E402
from ggml.models.conversion.fields import Fields  # noqa: E402
from ggml.models.conversion.parts import Row  # noqa: E402
from ggml.models.conversion.rows import ROWS  # noqa: E402

PAGE = ROOT / "docs" / "models.md"
BEGIN = "<!-- written by scripts/make_architectures.py -->\n"
END = "<!-- end -->\n"


def is_of(kind: str, row: Row) -> bool:
    """Whether a tiny model is converted by a row."""
    if hf_models.class_of(kind) not in row.classes.split():
        return False
    return row.when(Fields(hf_models.record(kind)["config"], kind))


def table() -> str:
    """The table in Markdown."""
    lines = ["| architecture | classes that `ggml convert` takes | compared with transformers |", "|---|---|---|"]
    for arch in sorted(ARCHITECTURES):
        rows = [row for row in ROWS if row.arch == arch]
        classes = " ".join(row.classes for row in rows).split()
        kinds = [kind for kind in hf_models.KINDS if any(is_of(kind, row) for row in rows)]
        lines.append(f"| `{arch}` | {', '.join(f'`{name}`' for name in classes)} | {', '.join(kinds)} |")
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
