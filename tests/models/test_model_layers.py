"""The structure of ggml.models, from its syntax trees: who imports whom, and who touches whose fields."""

import ast
from pathlib import Path

import pytest

for library in ("jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

from ggml import models  # noqa: E402
from ggml.models import Model  # noqa: E402

FOLDER = Path(models.__file__).parent
FILES = sorted(path for path in FOLDER.rglob("*.py"))
LAYERS = [{"files"}, {"text"}, {"chat"}, {"arch"}, {"vision"}, {"conversion"}, {"run"}, {"sample"}, {"generate"},
          {"train", "score", "state", "trace"}, {"ranking", "search"}, {"model", "_merge"}, {"llama_cpp"},
          {"__init__"}]  # fmt: skip
LIBRARY = {"sys._getframe", "os._exit", "Form._make", "super()._parse"}  # of Python and jinja2, not ours


def nodes(path):
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def foreign_fields(tree):
    """The attributes x._name of a tree where x is neither self nor cls."""
    for node in tree:
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            owner = node.value
            if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls")):
                yield ast.unparse(node)


def rank(name):
    return next(i for i, layer in enumerate(LAYERS) if name in layer)


def imported(path):
    """The parts of ggml.models that a file imports when it runs, not for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    types = {id(part) for node in tree.body if isinstance(node, ast.If) for part in ast.walk(node)}
    depth = len(path.relative_to(FOLDER).parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == depth and id(node) not in types:
            yield from [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]


def compared_names(tree):
    """Comparisons of an architecture with a name."""
    for node in tree:
        if isinstance(node, ast.Compare):
            parts = list(ast.walk(node))
            asked = any(getattr(part, "attr", getattr(part, "id", None)) == "arch" for part in parts)
            if asked and any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts):
                yield ast.unparse(node)


def test_a_model_has_its_parts_and_is_not_made_of_them():
    assert len(Model.__mro__) <= 3


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_private_fields_are_touched_by_their_class_alone(path):
    assert not set(foreign_fields(nodes(path))) - LIBRARY


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_imports_go_down(path):
    own = rank(path.relative_to(FOLDER).parts[0].removesuffix(".py"))
    for name in imported(path):
        assert rank(name) <= own, f"{path.name} imports {name}, which stands above it"


SHARED = [path for path in FILES if "arch" not in path.parent.name]


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_architectures_are_known_to_their_modules_alone(path):
    assert not list(compared_names(nodes(path)))


def test_the_checks_find_what_they_look_for():
    tree = list(ast.walk(ast.parse("self._a; x._b; x.__c__; c.arch == 'llama'; c.arch in ('gpt2', 'x')")))
    assert list(foreign_fields(tree)) == ["x._b"]
    assert len(list(compared_names(tree))) == 2
