"""Checkpoints of 8-bit floats: matrices of F8_E4M3 or F8_E5M2 with a factor for each block, each row, or all of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .fields import Fields
from .stored import Stored

BLOCKS = [128, 128]
METHODS = ("fp8", "fbgemm_fp8", "compressed-tensors")
SCALES = (".weight_scale_inv", ".weight_scale")  # both are what the values are multiplied by
UNUSED = (".input_scale", ".activation_scale", ".k_scale", ".v_scale", ".input_scale_ub")  # of what is multiplied


def decoded(exponent: int, mantissa: int, bias: int, infinities: bool) -> np.ndarray:
    """The values of all bytes of a float with a sign and so many bits of exponent and mantissa: f32 [256]."""
    byte = np.arange(256)
    e, m = byte >> mantissa & (1 << exponent) - 1, byte & (1 << mantissa) - 1
    fraction = m / (1 << mantissa)
    values = np.where(e > 0, (1 + fraction) * 2.0 ** (e - bias), fraction * 2.0 ** (1 - bias))
    if infinities:
        values = np.where(e == (1 << exponent) - 1, np.where(m == 0, np.inf, np.nan), values)
    else:
        values = np.where(byte & 127 == 127, np.nan, values)
    return np.where(byte > 127, -values, values).astype(np.float32)


# Type in a shard: value of each byte (arXiv:2209.05433; E4M3 without infinities)
VALUES = {"F8_E4M3": decoded(4, 3, 7, False), "F8_E5M2": decoded(5, 2, 15, True)}


def blocks(config: Fields) -> list[int]:
    """The size of the blocks with one factor, rows and columns; checkpoints quantised in another way are refused."""
    config.require("quant_method", *METHODS)
    size = config.array("weight_block_size", int, 2, default=BLOCKS)
    if min(size) < 1:
        raise config.wrong("weight_block_size", size, "positive numbers")
    if config.text("quant_method") != "compressed-tensors":
        return size
    for name, group in config.inside("config_groups").values.items():
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict) or (weights.get("type"), weights.get("num_bits")) != ("float", 8):
            raise config.wrong(f"config_groups: {name}", weights, "weights of type 'float' with 8 bits")
    return size


def take_scales(stored: dict[str, Stored], blocks: Sequence[int]) -> dict[str, Stored]:
    """Takes the factors out of the tensors of a folder; returns them by the names of what they belong to."""
    scales = {}
    for name in [name for name, tensor in stored.items() if tensor.dtype in VALUES]:
        stem = name.removesuffix(".weight")
        found = [stored.pop(stem + end) for end in SCALES if stem + end in stored]
        for end in UNUSED:
            stored.pop(stem + end, None)
        if len(found) > 1:
            raise ValueError(f"convert: {found[0].path}: {name!r} has two tensors of factors")
        if found:
            check_scale(stored[name], found[0], blocks)
            scales[name] = found[0]
    return scales


def check_scale(weight: Stored, scale: Stored, blocks: Sequence[int]) -> None:
    """Refuses factors whose number does not fit the matrix."""
    shape = (*scale.shape, 1) if len(scale.shape) == 1 else scale.shape
    sizes = blocks_of(weight.shape, blocks)
    counts = [(1, whole, -(-whole // size)) for whole, size in zip(weight.shape, sizes, strict=True)]
    fits = all(n == 1 for n in shape) or (
        len(shape) == len(counts) and all(n in allowed for n, allowed in zip(shape, counts, strict=True))
    )
    if scale.dtype not in ("F32", "F16", "BF16") or not fits:
        raise ValueError(
            f"convert: {scale.path}: tensor {scale.name!r} is {list(scale.shape)} of {scale.dtype}: "
            f"need factors for {list(weight.shape)} in blocks of {list(blocks)}"
        )


def blocks_of(shape: Sequence[int], blocks: Sequence[int]) -> list[int]:
    """The size of a block in each dimension; experts are apart."""
    return [1] * (len(shape) - 2) + list(blocks)[-len(shape) :]


def floats(values: np.ndarray, dtype: str, scale: np.ndarray | None, blocks: Sequence[int]) -> np.ndarray:
    """What a tensor stands for, f32: each value times the factor of its block."""
    out = VALUES[dtype][values]
    if scale is None:
        return out
    if scale.size == 1:
        out *= scale.reshape(())
        return out
    scale = scale[:, None] if scale.ndim == 1 else scale
    for axis, size in enumerate(blocks_of(values.shape, blocks)):
        if scale.shape[axis] not in (1, values.shape[axis]):
            scale = np.repeat(scale, size, axis).take(np.arange(values.shape[axis]), axis)
    out *= scale
    return out
