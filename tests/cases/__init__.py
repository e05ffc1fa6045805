"""The test cases of the operations: a table of rows (`Op`), which drives every generic test of test_ops.py.

There is one module per family of operations. Its name is the stem that the family's builder (ggml/_ops), checks
(ggml/_simd/checks) and kernels (ggml/_simd/ops) have too; ggml/_simd/tables/ops.h says which operation belongs to
which family, and test_families.py holds the modules against it. To add an operation, add a row to the module of its
family. A new module needs no registration.

A row says how to make the arguments, computes the expected result in float64 with NumPy, and names the operands that
have gradients. The tests run the row on every ISA, with 1 and 2 threads, on permuted and padded operands, with every
type that it accepts, and in place. They compare its gradients with finite differences of the reference.

Arguments: a float64 array is an operand of the type under test (`types`), As(type, array) is an operand of a fixed
type, and an integer array is an i32 operand (int64: i64). Everything else is passed unchanged. Sizes are written in
ggml's order, innermost first. Arrays have four dimensions in NumPy's order, so the innermost dimension is axis -1.
The reference receives the values of the operands as float64 arrays.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import ggml


@dataclass
class As:
    """An operand of a fixed type (such as "F16" or "Q4_0"), independent of the type under test."""

    type: str
    array: np.ndarray


class Random:
    """Makes operands. r(4, 3) draws normally distributed numbers of that size, r(4, 3, low=1, high=2) uniformly
    distributed ones, and r.ints(9, 5) draws five integers below 9.
    """

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, *ne, low=None, high=None, scale=1.0):
        ne = (*ne, 1, 1, 1)[:4]
        if low is None:
            x = self.rng.standard_normal(ne[::-1]) * scale
        else:
            x = self.rng.uniform(low, high, ne[::-1])
        return x.astype(np.float32).astype(np.float64)

    def ints(self, below, *ne, dtype=np.int32):
        return self.rng.integers(0, below, (*ne, 1, 1, 1)[:4][::-1]).astype(dtype)

    def order(self, below, *ne, dtype=np.int32):
        """Like `ints`, but every row holds distinct numbers."""
        ne = (*ne, 1, 1, 1)[:4]
        rows = [self.rng.permutation(below)[: ne[0]] for _ in range(ne[1] * ne[2] * ne[3])]
        return np.array(rows, dtype).reshape(ne[::-1])


def public_name(fn):
    """The name of a constructor as errors have it, from that in Op.fn."""
    return f"ggml.{fn}" if fn.startswith("ext.") else f"ggml_{fn}"


def constructor(fn):
    """The constructor of a name as in Op.fn."""
    return operator.attrgetter(fn if fn.startswith("ext.") else f"ggml_{fn}")(ggml)


@dataclass
class Op:
    """A row of the table: one constructor with its samples and its reference."""

    fn: str  # the constructor, without "ggml_"; those of ggml.ext begin with "ext."
    ref: Callable  # ref(*args) computes the expected result
    samples: tuple  # functions of a Random that make the arguments; every test runs all of them, gradients the small
    diff: tuple = ()  # the numbers of the arguments that have gradients
    inplace: str | None = None  # the in-place constructor, which overwrites argument `target`
    target: int = 0
    types: tuple = ("F32", "F16", "BF16")  # types of the operands under test: a name for all, or a tuple of names
    tol: float = 2e-6  # the permitted relative error of an f32 result
    grad_tol: float = 2e-4  # and that of a gradient
    bad: tuple = ()  # invalid arguments: (function of a Random, exception, part of its message)
    kinks: tuple = ()  # the function is not differentiable at these values of an operand
    smooth: Callable | None = None  # the reference of the gradients, where `ref` rounds
    strided: tuple | None = None  # the arguments that may be permuted or padded; None: all operands
    aliased: bool = False  # the result lies in the memory of an argument
    name: str = ""  # the id in test reports, where a constructor has several rows

    def __post_init__(self):
        self.name = self.name or self.fn.removeprefix("ext.")

    def args(self, i) -> list[Any]:
        """The arguments of sample i."""
        return self.samples[i](Random([i, *self.name.encode()]))

    def small(self):
        """(i, arguments) of the samples whose gradients are tested: they have elements, but few."""
        for i in range(len(self.samples)):
            args = self.args(i)
            if 0 < max((args[k].size for k in self.diff), default=0) <= 400:
                yield i, args

    @property
    def public_name(self):
        """The name with which the constructor's errors begin."""
        return public_name(self.fn)

    @property
    def params(self):
        """The arguments that must be parameters whenever the constructor is called."""
        return (0,) if self.fn.startswith("opt_step") else ()


# The stems of the families: every module of this package but those that hold what the families share.
SHARED = ("__init__", "harness", "samples")
FAMILIES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in SHARED))


def families():
    """The rows of each family, by its stem."""
    return {stem: tuple(import_module(f"{__name__}.{stem}").OPS) for stem in FAMILIES}


def rows():
    """All rows, by name."""
    ops = [op for family in families().values() for op in family]
    by_name = {op.name: op for op in ops}
    assert len(by_name) == len(ops), "two rows have the same name"
    return by_name
