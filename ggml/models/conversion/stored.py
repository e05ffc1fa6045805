"""A tensor of a folder as it lies in its shard, and values of bf16, which NumPy has no type for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Stored(NamedTuple):
    """A tensor in a shard.

    Attributes:
        name: of the tensor.
        shape: in NumPy order.
        dtype: name of its type, as in safetensors.
        path, offset: where its bytes lie.
        scales: of MXFP4 the tensor of the scales.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    path: str
    offset: int
    scales: Stored | None = None


def as_floats(values: np.ndarray) -> np.ndarray:
    """Values as f32; those of u16 are the bits of bf16."""
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def as_bf16(values: np.ndarray) -> np.ndarray:
    """The bits of f32 values as bf16, rounded to the nearest, of two equally near ones to the even one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)
