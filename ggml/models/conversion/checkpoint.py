"""A folder as Hugging Face saves a model: its settings, and the weights in its shards, mapped into memory."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

import ggml

from ..._extras import require
from . import fp8, mxfp4
from .fields import Fields, optional_json, read_json
from .stored import Stored, as_floats

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
PICKLES = re.compile(r"(pytorch_model|adapter_model).*\.(bin|pt|pth)$")
SAVE = "load it with transformers and save it with save_pretrained(FOLDER, safe_serialization=True)"
# Type in a shard: number of the type in a GGUF file, and the type of arrays (that of bf16 holds its bits)
TYPES = {
    "F32": (ggml.GGML_TYPE_F32, np.float32),
    "F16": (ggml.GGML_TYPE_F16, np.float16),
    "BF16": (ggml.GGML_TYPE_BF16, np.uint16),
    "MXFP4": (ggml.GGML_TYPE_MXFP4, np.uint8),  # of two tensors, see mxfp4.join
    **dict.fromkeys(fp8.VALUES, (ggml.GGML_TYPE_F32, np.uint8)),  # read as what they stand for
}
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
         "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8}  # fmt: skip


class Shards:
    """Files of safetensors, mapped into memory.

    Attributes:
        stored: the tensors of all files by name.
        scales: of tensors of 8-bit floats, the tensors with their factors, by their names.
        blocks: rows and columns that have one factor.
    """

    def __init__(self) -> None:
        self._maps: dict[str, mmap.mmap] = {}
        self.stored: dict[str, Stored] = {}
        self.scales: dict[str, Stored] = {}
        self.blocks = fp8.BLOCKS

    def add(self, path: str, prefix: str = "") -> None:
        """Reads the header of a shard; its tensors get a prefix."""
        from safetensors import SafetensorError, safe_open

        if not os.path.exists(path):
            raise FileNotFoundError(2, "convert: a shard is missing", path)
        try:
            with safe_open(path, "numpy") as file:
                names = file.offset_keys()
                slices = [file.get_slice(name) for name in names]
                parts = [(name, tuple(s.get_shape()), s.get_dtype()) for name, s in zip(names, slices, strict=True)]
        except SafetensorError as error:
            raise ValueError(f"convert: {path}: not a complete file of safetensors: {error}") from None
        sizes = []
        for name, shape, dtype in parts:
            if dtype not in SIZES:
                raise ValueError(f"convert: {path}: tensor {name!r} is {dtype}: need {', '.join(TYPES)}")
            sizes.append(SIZES[dtype] * int(np.prod(shape, dtype=object)))
        offset = os.path.getsize(path) - sum(sizes)  # the library has checked that no byte is unused
        for (inner, shape, dtype), size in zip(parts, sizes, strict=True):
            name = prefix + inner
            if name in self.stored:
                raise ValueError(f"convert: {path}: tensor {name!r} is also in {self.stored[name].path}")
            self.stored[name] = Stored(name, shape, dtype, path, offset)
            offset += size

    def read(self, stored: Stored) -> np.ndarray:
        """The values of a tensor in the pages of its file; of bf16 their bits. Those of 8 bits become f32."""
        if stored.path not in self._maps:
            with open(stored.path, "rb") as file:
                self._maps[stored.path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        count = int(np.prod(stored.shape))
        if count == 0:
            return np.empty(stored.shape, TYPES[stored.dtype][1])
        values = np.frombuffer(self._maps[stored.path], TYPES[stored.dtype][1], count, stored.offset)
        values = values.reshape(stored.shape)
        if stored.dtype not in fp8.VALUES:
            return values
        scale = self.scales.get(stored.name)
        return fp8.floats(values, stored.dtype, scale and self.floats(scale), self.blocks)

    def matrices(self, stored: Stored, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
        """The values of a tensor in a shape, matrix by matrix if it is a stack; of bf16 their bits, of MXFP4 the blocks
        of ggml."""
        if stored.scales is None:
            whole = self.read(stored).reshape(shape)
            yield from whole if whole.ndim == 3 else [whole]
            return
        scales = self.read(stored.scales)
        blocks = self.read(Stored(stored.name, (*scales.shape, 16), "MXFP4", stored.path, stored.offset))
        for scale, block in zip(scales, blocks, strict=True) if scales.ndim == 3 else [(scales, blocks)]:
            yield mxfp4.blocks_of_ggml(scale, block)

    def floats(self, stored: Stored) -> np.ndarray:
        """The values of a tensor as f32."""
        return as_floats(self.read(stored))

    def close(self) -> None:
        """Forgets the mappings; arrays that were read keep theirs."""
        self._maps.clear()


class Checkpoint(Shards):
    """A folder with a model.

    Attributes:
        folder: its path.
        config: the settings of config.json; of a model of texts and images, those of its language model.
        names: the classes in transformers that the model is of, the first of which counts.
    """

    def __init__(self, folder: str | os.PathLike[str], weights: bool = True) -> None:
        super().__init__()
        try:
            self.folder = os.fsdecode(folder)
        except TypeError:
            raise TypeError(f"convert: folder is {str(folder)[:60]}: need a str, bytes or os.PathLike") from None
        if not os.path.isdir(self.folder):
            raise NotADirectoryError(20, "convert: need a folder as Hugging Face saves a model", self.folder)
        path = os.path.join(self.folder, "config.json")
        if not os.path.exists(path):
            raise FileNotFoundError(2, "convert: the folder has no config.json", self.folder)
        whole = Fields(read_json(path), path)
        classes = whole.array("architectures", str, default=[])
        if not classes:
            raise ValueError(f"convert: {path}: 'architectures' is missing: need a list with the model's class")
        self.names: tuple[str, ...] = tuple(classes)
        text = whole.inside("text_config")
        merged = {**{k: v for k, v in whole.values.items() if k != "text_config"}, **text.values}
        if whole.has("tie_word_embeddings"):  # as transformers, which asks the outer settings
            merged["tie_word_embeddings"] = whole.values["tie_word_embeddings"]
        self.has_images = bool(text.values) or whole.has("vision_config") or whole.has("mm_vision_tower")
        self.config = Fields(merged, path)
        quantised = whole.inside("quantization_config")
        if whole.has("quantization_config") and quantised.values.get("quant_method") != "mxfp4":
            self.blocks = fp8.blocks(quantised)
        if weights:
            self._open()

    def _open(self) -> None:
        """Reads the headers of all shards."""
        require("convert: ", ["safetensors"], "'ggml-cython[llm]'")
        index = optional_json(self.folder, INDEX)
        if index:
            where = os.path.join(self.folder, INDEX)
            places = index.get("weight_map")
            if not isinstance(places, dict) or not places:
                raise ValueError(f"convert: {where}: 'weight_map' is missing")
            for name in places.values():
                if not isinstance(name, str) or os.path.basename(name) != name or not name.endswith(".safetensors"):
                    raise ValueError(f"convert: {where}: {str(name)[:60]!r} is no file of the folder")
            files = sorted(set(places.values()))
        else:
            places = {}
            inside = sorted(os.listdir(self.folder))
            shards = [name for name in inside if name.endswith(".safetensors") and not name.startswith("consolidated")]
            files = [SINGLE] if SINGLE in inside else shards
            if not files:
                pickles = [name for name in inside if PICKLES.match(name)]
                if pickles:
                    raise ValueError(f"convert: {self.folder}: {pickles[0]} is a pickle, which may run code: {SAVE}")
                raise FileNotFoundError(2, "convert: the folder has no *.safetensors", self.folder)
        for file in files:
            self.add(os.path.join(self.folder, file))
        for name, file in places.items():
            if name not in self.stored or os.path.basename(self.stored[name].path) != file:
                raise ValueError(f"convert: {os.path.join(self.folder, file)}: tensor {name!r} is not in this file")
        mxfp4.join(self.stored)
        self.scales = fp8.take_scales(self.stored, self.blocks)


def optional(folder: str, name: str) -> Any:
    """The bytes of a file of a folder, None if there is none."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read()
