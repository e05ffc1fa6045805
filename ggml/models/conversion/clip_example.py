"""Files of the example `clip` in the ctypes bindings' source distribution: CLIP as OpenAI published it.

Thirteen integers (magic, sizes), the tokens with their lengths, then of each tensor its sizes, name, type and values.
All numbers have 32 bits and the byte order of little-endian machines.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any, NamedTuple

import numpy as np

import ggml

from ..text.encoders import CONTROL, NORMAL
from .clip import LAST
from .images import CLIP_MEAN, CLIP_STD
from .parts import Keys
from .plan import Weight
from .vocabulary import CLIP_SPECIAL, PREFIX

MAGIC = b"lmgg"
SIZES = 12  # integers of the header
HEAD = 64  # elements of the heads of the encoder of pictures
TOP = {
    "token_embedding.weight": "token_embd.weight", "positional_embedding": "position_embd.weight",
    "ln_final.weight": "output_norm.weight", "ln_final.bias": "output_norm.bias", "text_projection": "dense_2.weight",
    "visual.class_embedding": "v.class_embd", "visual.positional_embedding": "v.position_embd.weight",
    "visual.conv1.weight": "v.patch_embd.weight", "visual.proj": "mm.model.fc.weight",
    **{f"visual.ln_{a}.{kind}": f"v.{b}.{kind}" for a, b in (("pre", "pre_ln"), ("post", "post_ln"))
       for kind in ("weight", "bias")},
}  # fmt: skip
TRANSPOSED = ("text_projection", "visual.proj")
BLOCK = re.compile(r"(visual\.)?transformer\.resblocks\.(\d{1,4})\.(.+?)[._](weight|bias)")
TEXT_PARTS = {"attn.in_proj": "attn_qkv", "attn.out_proj": "attn_output", "ln_1": "attn_norm", "ln_2": "ffn_norm",
              "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}  # fmt: skip
PARTS = {**TEXT_PARTS, "attn.out_proj": "attn_out", "ln_1": "ln1", "ln_2": "ln2"}


class Header(NamedTuple):
    """The sizes of a file, in its order."""

    vision_width: int
    vision_layers: int
    patch: int
    grid: int
    resolution: int
    dim: int
    context: int
    width: int
    heads: int
    layers: int
    ftype: int
    vocabulary: int


def is_example(path: Any) -> bool:
    """Whether a file begins as one of the example does."""
    if not isinstance(path, (str, bytes, os.PathLike)):  # open() takes the number of a file, too, and closes it
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, TypeError, ValueError):
        return False


class Reader:
    """Reads a file from its beginning; what is missing raises ValueError."""

    def __init__(self, path: str) -> None:
        self.path, self.file, self.left = path, open(path, "rb"), os.path.getsize(path)  # noqa: SIM115 - see close

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise self.wrong("it ends early, or has a wrong size")
        self.left -= size
        return self.file.read(size)

    def integers(self, count: int) -> list[int]:
        return np.frombuffer(self.take(4 * count), "<i4").tolist()

    def text(self, length: int) -> str:
        if not 0 <= length <= 1 << 12:
            raise self.wrong(f"a name has {length} bytes")
        return self.take(length).decode(errors="replace")

    def wrong(self, what: str) -> ValueError:
        return ValueError(f"convert: {self.path}: not a GGUF file, nor one of the bindings' example clip: {what}")

    def close(self) -> None:
        self.file.close()


def read_example(path: str) -> tuple[Keys, dict[str, Weight]]:
    """The keys and tensors of a file.

    Raises:
        ValueError: the file is damaged or of another kind.
    """
    reader = Reader(path)
    try:
        reader.take(len(MAGIC))
        header = Header(*reader.integers(SIZES))
        if min(header[:10]) < 1 or max(header) > 1 << 24 or header.ftype not in (0, 1) or header.vocabulary < 1:
            raise reader.wrong(f"its sizes are {list(header)}")
        tokens = [reader.text(reader.integers(1)[0]) for _ in range(header.vocabulary)]
        values = {}
        while reader.left:
            dims, length, half = reader.integers(3)
            if not 0 <= dims <= 4 or half not in (0, 1):
                raise reader.wrong(f"a tensor has {dims} dimensions, type {half}")
            ne = reader.integers(dims)
            name, dtype = reader.text(length), np.dtype("<f2" if half else "<f4")
            if min(ne, default=1) < 1:
                raise reader.wrong(f"tensor {name[:60]!r} is {ne}")
            size = math.prod(ne) * dtype.itemsize
            values[name] = np.frombuffer(reader.take(size), dtype).astype(dtype.newbyteorder("=")).reshape(ne[::-1])
        scale = values.pop("logit_scale", np.zeros(1)).reshape(-1)
        weights = {new: weight(new, array, old) for old, array in values.items() if (new := renamed(old, reader))}
        return keys_of(header, tokens, float(scale[0]), path), weights
    finally:
        reader.close()


def renamed(name: str, reader: Reader) -> str:
    """The name of a tensor in a GGUF file."""
    match = BLOCK.fullmatch(name)
    part = match and (PARTS if match[1] else TEXT_PARTS).get(match[3])
    if name not in TOP and not part:
        raise reader.wrong(f"it has a tensor {name[:60]!r}")
    return TOP[name] if match is None or name in TOP else f"{'v.' if match[1] else ''}blk.{match[2]}.{part}.{match[4]}"


def weight(name: str, values: np.ndarray, old: str) -> Weight:
    """A tensor of the file; vectors of it may have further dimensions of 1."""
    values = np.ascontiguousarray(values.T) if old in TRANSPOSED else values
    kind = ggml.GGML_TYPE_F16 if values.dtype == np.float16 else ggml.GGML_TYPE_F32
    return Weight(name, values.shape, kind, kind, values=values)


def keys_of(h: Header, tokens: list[str], scale: float, path: str) -> Keys:
    """The keys that a GGUF file would have."""
    vision = {
        "image_size": h.resolution, "patch_size": h.patch, "embedding_length": h.vision_width,
        "feed_forward_length": 4 * h.vision_width, "block_count": h.vision_layers,
        "attention.head_count": max(1, h.vision_width // HEAD), "attention.layer_norm_epsilon": 1e-5,
        "projection_dim": h.dim, "image_mean": CLIP_MEAN, "image_std": CLIP_STD, "image_aspect_ratio": "crop",
    }  # fmt: skip
    text = {
        "context_length": h.context, "embedding_length": h.width, "feed_forward_length": 4 * h.width,
        "block_count": h.layers, "attention.head_count": h.heads, "attention.layer_norm_epsilon": 1e-5,
        "pooling_type": LAST, "logit_scale": scale,
    }  # fmt: skip
    return {
        "general.architecture": "clip", "general.type": "model", "general.name": os.path.basename(path),
        "clip.has_vision_encoder": True, "clip.projector_type": "clip",
        **{f"clip.{name}": value for name, value in text.items()},
        **{f"clip.vision.{name}": value for name, value in vision.items()},
        **tokenizer_keys(tokens),
    }  # fmt: skip


def tokenizer_keys(tokens: list[str]) -> Keys:
    """The keys of the tokenizer: the last two tokens stand at the ends of texts."""
    types = [CONTROL if text in CLIP_SPECIAL else NORMAL for text in tokens]
    special = {name: len(tokens) - at for name, at in (("bos", 2), ("eos", 1), ("padding", 1)) if len(tokens) >= at}
    return {
        f"{PREFIX}model": "clip", f"{PREFIX}tokens": tokens, f"{PREFIX}token_type": types,
        **{f"{PREFIX}{name}_token_id": token for name, token in special.items()},
    }  # fmt: skip
