"""Graphs whose results have the same bits whatever else they compute.

A row of a product depends on the other rows in one way only: few rows are multiplied by other kernels than many, in
another order. A product with a quantised matrix has the same bits for any number of rows from 5 on, with AVX2 up to 24
(`columns_alike`); with a matrix of f16 or bf16 from 41 on, with one of f32 for equal numbers. So rows that nobody needs
are added to small batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import ggml
from ggml import _core

ROWS, ROWS_QUANTISED = 48, 8
HALVES = (ggml.GGML_TYPE_F16, ggml.GGML_TYPE_BF16)


class Rows(NamedTuple):
    """The rows of a graph: at least so many, and at most so many."""

    least: int
    most: int


def rows_of(weights: Mapping[str, Any], adapted: bool, even: bool, most: int) -> Rows:
    """The rows of graphs with exact results.

    Args:
        weights: the tensors of the model by name.
        adapted: whether adapters are in use, whose matrices are f32.
        even: whether all sequences of a batch have the same number of tokens.
        most: most rows of a graph.
    """
    types = {t.contents.type for t in weights.values() if t.contents.ne[1] > 1}
    if adapted or even or any(not ggml.ggml_is_quantized(t) and t not in HALVES for t in types):
        return Rows(ROWS, ROWS)
    if types & set(HALVES):
        return Rows(ROWS, most)
    return Rows(ROWS_QUANTISED, _core.columns_alike() or most)
