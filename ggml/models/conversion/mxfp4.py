"""Checkpoints of MXFP4: a tensor of blocks of 4-bit floats, and one of their scales."""

from __future__ import annotations

import numpy as np

from .stored import Stored

BLOCKS, SCALES = "_blocks", "_scales"  # at the ends of the names


def join(stored: dict[str, Stored]) -> None:
    """Makes one tensor [..., n] of each pair of blocks, u8 [..., n / 32, 16], and scales, u8 [..., n / 32]."""
    for name in [name.removesuffix(BLOCKS) for name in stored if name.endswith(BLOCKS)]:
        blocks, scales = stored.pop(name + BLOCKS), stored.pop(name + SCALES, None)
        if scales is None:
            raise ValueError(f"convert: {blocks.path}: tensor {blocks.name!r} has no {name + SCALES!r} beside it")
        if (blocks.dtype, scales.dtype) != ("U8", "U8") or blocks.shape != (*scales.shape, 16) or not scales.shape:
            raise ValueError(
                f"convert: {blocks.path}: tensor {blocks.name!r} is {list(blocks.shape)} of {blocks.dtype}, "
                f"{scales.name!r} {list(scales.shape)} of {scales.dtype}: need U8, and 16 bytes for each scale"
            )
        shape = (*scales.shape[:-1], 32 * scales.shape[-1])
        exponents = Stored(scales.name, scales.shape, "MXFP4", scales.path, scales.offset)
        stored[name] = Stored(name, shape, "MXFP4", blocks.path, blocks.offset, exponents)


def blocks_of_ggml(scales: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """The rows of a matrix in blocks of ggml: u8 [rows, bytes], from scales u8 [rows, n / 32] and blocks
    u8 [rows, n / 32, 16].

    A block of a checkpoint has the elements 2j and 2j + 1 in its byte j; one of ggml has a byte with the scale, and in
    byte j of those that follow the elements j and j + 16.
    """
    pairs = np.stack([blocks & 15, blocks >> 4], -1).reshape(*scales.shape, 2, 16)
    both = np.concatenate([scales[..., None], pairs[..., 0, :] | pairs[..., 1, :] << 4], -1)
    return both.reshape(*scales.shape[:-1], -1)
