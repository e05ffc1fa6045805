"""Reductions in the order of the ranks: the result depends neither on timing nor on what algorithm MPI chooses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ggml

# The types that collectives take, and the NumPy types of their elements; bf16 is seen as bits
DTYPES: dict[int, np.dtype] = {
    ggml.GGML_TYPE_F32: np.dtype(np.float32),
    ggml.GGML_TYPE_F16: np.dtype(np.float16),
    ggml.GGML_TYPE_BF16: np.dtype(np.uint16),
    ggml.GGML_TYPE_I32: np.dtype(np.int32),
}
OPERATIONS: dict[str, Callable] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def floats(bits: np.ndarray) -> np.ndarray:
    """The values of bf16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bf16(values: np.ndarray) -> np.ndarray:
    """The bits of floats as bf16, rounded to nearest, ties to even; NaN stays NaN."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def reduced(parts: np.ndarray, op: str, kind: int) -> np.ndarray:
    """Reduces arrays one after the other, as `((0 + parts[0]) + parts[1]) + ...` for the sum.

    The sums of f16 and bf16 are of floats and rounded once.

    Args:
        parts: arrays of equal shape, in the order of the ranks: [size, ...].
        op: "sum", "max" or "min".
        kind: GGML_TYPE_* of the arrays.
    Returns:
        New array [...].
    """
    function = OPERATIONS[op]
    narrow = kind in (ggml.GGML_TYPE_F16, ggml.GGML_TYPE_BF16)
    total = np.empty(parts.shape[1:], np.float32 if narrow else parts.dtype)
    for i, part in enumerate(parts):
        if narrow:
            part = floats(part) if kind == ggml.GGML_TYPE_BF16 else part.astype(np.float32)
        if i == 0:
            np.add(part, total.dtype.type(0), out=total) if op == "sum" else np.copyto(total, part)
        else:
            function(total, part, out=total)
    return bf16(total) if kind == ggml.GGML_TYPE_BF16 else total.astype(parts.dtype, copy=False)


def shares(n: int, count: int) -> list[int]:
    """Divides n things into consecutive parts for `count` ranks, as equal as possible, the larger ones first."""
    return [n // count + (i < n % count) for i in range(count)]
