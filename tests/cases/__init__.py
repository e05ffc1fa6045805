"""The table of operations: one row (Op) each, which drives every generic test of test_ops.py.

To add an operation, add a row to a file of this package (a new file: to FAMILIES below). A row says how to make
arguments, what the result is by a float64 NumPy reference, and which operands have gradients; the tests run it on
every ISA, with 1 and 2 threads, on permuted and padded operands, in the types it takes, in place, and hold its
gradient against differences of the reference.

Arguments: a float64 array is an operand in the type under test (`types`), As(type, array) one of a fixed type, an
integer array an i32 (int64: i64) operand; None and numbers are passed as they are. Sizes are written in ggml's
order, innermost first; arrays have four dimensions in NumPy's order, so that the innermost is axis -1. The
reference gets the operands' values as float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class As:
    """An operand of one type (as "F16", "Q4_0"), whatever type is under test."""

    type: str
    array: np.ndarray


class Random:
    """Makes operands: r(4, 3) normal numbers of that size, r(4, 3, low=1, high=2) uniform ones, r.ints(9, 5)
    integers below 9.
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
        """Like ints, but no number twice in a row."""
        ne = (*ne, 1, 1, 1)[:4]
        rows = [self.rng.permutation(below)[: ne[0]] for _ in range(ne[1] * ne[2] * ne[3])]
        return np.array(rows, dtype).reshape(ne[::-1])


@dataclass
class Op:
    """One operation. `samples`: functions of Random that give the arguments, each run by every test; gradients by the
    small ones.

    fn: the constructor, without "ggml_"; ref(*args): the result; diff: the arguments with gradients; inplace: the
    in-place form, which writes over argument `target`; types: the types of the operands under test, one for all or
    a tuple; tol: relative error in f32; bad: (function of Random, exception, part of the message); kinks: values of
    operands that samples for gradients keep away from; strided: which operands may be permuted or padded (None:
    all); aliased: the result lies in the memory of an argument; smooth: the reference for gradients, where `ref`
    rounds; name: where one constructor has several rows.
    """

    fn: str
    ref: Callable
    samples: tuple
    diff: tuple = ()
    inplace: str | None = None
    target: int = 0
    types: tuple = ("F32", "F16", "BF16")
    tol: float = 2e-6
    grad_tol: float = 2e-4
    bad: tuple = ()
    kinks: tuple = ()
    smooth: Callable | None = None
    strided: tuple | None = None
    aliased: bool = False
    name: str = ""

    def __post_init__(self):
        self.name = self.name or self.fn

    def args(self, i) -> list[Any]:
        """The arguments of sample i."""
        return self.samples[i](Random([i, *self.name.encode()]))


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
