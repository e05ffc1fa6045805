"""The families of operations: each has a builder, checks, kernels and test cases under one file stem.

The table of operations, ggml/_simd/tables/ops.h, says which family an operation belongs to. These tests hold the
source files and the test cases against it.
"""

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from cases import FAMILIES, families
from cases.harness import Call, context, graph_of

import ggml
from ggml._graph import grad

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "ggml" / "_simd" / "tables" / "ops.h"
BUILDERS, CHECKS, KERNELS = ROOT / "ggml" / "_ops", ROOT / "ggml" / "_simd" / "checks", ROOT / "ggml" / "_simd" / "ops"


# ---- the table -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Operation:
    """A row of the table: OP(id, NAME, "symbol", stem, CHECK, cost, OVERWRITES, FLAGS)."""

    name: str
    stem: str
    check: str
    flags: frozenset

    @property
    def has_kernel(self):
        """Views compute nothing, and the function of a custom operation is a callback."""
        return self.name != "NONE" and not self.flags & {"VIEW", "CALLBACK"}


def operations(text):
    """The operations of the text of a table; test_the_table_is_read_completely finds rows of another form."""
    rows = re.findall(r"^OP\((.*)\)[ \t]*(?:/\*.*\*/[ \t]*)?$", text, re.M)
    for fields in csv.reader(rows, skipinitialspace=True, escapechar="\\"):
        if len(fields) == 8:
            _, name, _, stem, check, _, _, flags = (field.strip() for field in fields)
            yield Operation(name, stem, check, frozenset(re.findall(r"[A-Z]+", flags)))


TABLE_ROWS = tuple(operations(TABLE.read_text(encoding="utf-8")))
STEMS = frozenset(op.stem for op in TABLE_ROWS)
# the families that are compiled, some of which have kernels for the operations of others
UNITS = frozenset(
    family
    for families in re.findall(r"^ +X\(\w+, +\w+, +([\w ]*)\)", TABLE.with_name("families.h").read_text("utf-8"), re.M)
    for family in families.split()
)
each_operation = pytest.mark.parametrize("op", TABLE_ROWS, ids=lambda op: op.name)


def test_the_table_is_read_completely():
    """Every row is parsed, and the package was built from the same table."""
    text = TABLE.read_text(encoding="utf-8")
    assert len(TABLE_ROWS) == len(re.findall(r"^OP\(", text, re.M)) > 90
    names = {ggml.ggml_op_name(i).decode() for i in range(ggml.GGML_OP_COUNT)}
    assert names <= {op.name for op in TABLE_ROWS}
    assert all(re.fullmatch("[a-z]+", stem) for stem in STEMS), "a stem is a lower-case word"


# ---- the source files ------------------------------------------------------------------------------------------------
def read(path):
    return path.read_text(encoding="utf-8") if path.exists() else ""


@cache
def headers(path):
    """The paths of a family's header and of the headers of its folder and those below that it includes, those of other
    families excepted.
    """
    found = [path]
    for header in found:
        for name in re.findall(r'^#include "([^"]+)"', read(header), re.M):
            included = (header.parent / name).resolve()
            if path.parent in included.parents and included.exists() and included not in found:
                if included.stem not in STEMS:
                    found.append(included)
    return tuple(found)


@cache
def header_text(path):
    return "\n".join(read(header) for header in headers(path))


def defines(text, function):
    """Whether C text defines a function: by its name, or by a macro that pastes the second part of the name."""
    prefix, _, name = function.partition("_")
    if re.search(rf"\b{function}\s*\([^;{{}}]*\)\s*\{{", text):
        return True
    macros = re.findall(rf"^#define (\w+)\((\w+)[^)]*\)(?:[^\n]*\\\n)*[^\n]*\b{prefix}_##\2\b", text, re.M)
    return any(re.search(rf"^(?!#define)[^\n]*\b{macro}\(\s*{name}\b", text, re.M) for macro, _ in macros)


def test_definitions_are_found():
    text = """
static int op_COPY(const gg_work *w, ggml_tensor *dst) { return copy(w, dst); }
static int op_MOVE(const gg_work *w, ggml_tensor *dst);
#define ELEMENT_WISE(NAME, value)                                                 \\
    static int tile_##NAME(const float *x, float *y) { return value; }            \\
    static int op_##NAME(const gg_work *w, ggml_tensor *dst) { return map(w, dst, tile_##NAME); }
ELEMENT_WISE(SQR, x * x)
OTHER(ABS)
"""
    found = {name for name in ("COPY", "MOVE", "SQR", "ABS", "NAME") if defines(text, "op_" + name)}
    assert found == {"COPY", "SQR"}


@each_operation
def test_builder(op):
    """The builder module of the family makes nodes of the operation, or gives them their gradient."""
    if op.name != "NONE":
        path = BUILDERS / f"{op.stem}.pyx"
        assert path.exists()
        assert re.search(rf"\bGGML_OP_{op.name}\b", read(path)), f"{path.name} does not use GGML_OP_{op.name}"


@each_operation
def test_check(op):
    path = CHECKS / f"{op.stem}.h"
    assert path.exists()
    assert defines(header_text(path), f"check_{op.check}"), f"{path.name} does not define check_{op.check}"


@each_operation
def test_kernel(op):
    if op.has_kernel:
        path = KERNELS / f"{op.stem}.h"
        assert path.exists()
        assert defines(header_text(path), f"op_{op.name}"), f"{path.name} does not define op_{op.name}"


def test_no_file_without_a_family():
    """Each builder and each module of test cases belongs to a family; each header belongs to one or is included."""
    assert {path.stem for path in BUILDERS.glob("*.pyx")} <= STEMS
    assert set(FAMILIES) == STEMS
    for folder in (CHECKS, KERNELS):
        stems = STEMS | UNITS if folder == KERNELS else STEMS
        used = {header for stem in stems for header in headers(folder / f"{stem}.h")}
        assert sorted(path.name for path in set(folder.rglob("*.h")) - used) == []


# ---- the test cases --------------------------------------------------------------------------------------------------
def operation(t):
    return ggml.ggml_op_name(t.contents.op).decode()


def subjects(row):
    """The operations that a row tests: the one that its constructor makes, and the internal ones of its gradients."""
    made = set()
    with context() as ctx:
        made.add(operation(Call(ctx, row, row.args(0), param=row.params).out))
    for _, args in row.small():
        with context() as ctx:
            nodes = gradient_nodes(ctx, Call(ctx, row, args, param=row.diff).out)
            made.update(name for name in map(operation, nodes) if not hasattr(ggml, f"ggml_{name.lower()}"))
    return made


def gradient_nodes(ctx, out):
    """The nodes of a graph with the gradients of a result."""
    loss = ggml.ggml_sum(ctx, ggml.ggml_cast(ctx, out, ggml.GGML_TYPE_F32))
    ggml.ggml_set_loss(loss)
    graph = graph_of(ctx, loss, grads=True)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    return [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]


@cache
def covered(stem):
    """The operations that the rows of a family's module test."""
    return frozenset().union(*(subjects(row) for row in families().get(stem, ())))


@each_operation
def test_cases(op):
    """The family's module of test cases has a row for the operation, or one whose gradient makes it."""
    if op.name != "NONE":
        assert op.name in covered(op.stem), f"cases/{op.stem}.py has no row for {op.name}"


@each_operation
def test_the_flag_of_a_gradient_tells_whether_one_is_registered(op):
    assert ("GRAD" in op.flags) == grad.has_gradient(getattr(ggml, "GGML_OP_" + op.name))
