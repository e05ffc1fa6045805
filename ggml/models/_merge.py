"""Merging an adapter into the weights of a model file."""

from __future__ import annotations

import ctypes
import fnmatch
import os
from typing import Any

import numpy as np

import ggml

from .._errors import named, naming
from .._io.files import write_file
from .._io.interop import dequantize_row
from .._io.tensor_types import NUMBERS, PLAIN, UNCHANGED
from .._owners import Held
from .arch.base import Pair
from .files.model_file import ModelFile
from .model import Model
from .run.lora import Lora

ONE_TYPE = [name for name in PLAIN if not ggml.ggml_quantize_requires_imatrix(NUMBERS[name])]


@named("merge")
def merge(
    model: Model | str | os.PathLike[str],
    lora: str | os.PathLike[str],
    out: str | os.PathLike[str],
    type: str | None = None,
    *,
    scale: float = 1.0,
) -> None:
    """Writes a model file whose weights contain an adapter: W + scale B A.

    Args:
        model: GGUF file, or an open Model of one.
        lora: GGUF file of the adapter.
        out: the file to write; an existing one is replaced once the new one is complete.
        type: type of all matrices in the new file, such as "F16" or "Q8_0"; None to keep the type of each. Rows that
            are not a whole number of blocks become F16.
        scale: factor of what the adapter adds.
    Raises:
        OSError: a file cannot be read or written.
        ValueError: a file is not valid, the adapter does not fit the model, type is unknown, a mixture such as
            Q4_K_M, or one that needs an importance matrix, or a weight is beyond the range of its type.
    """
    if type is not None and type.upper() not in ONE_TYPE:
        raise ValueError(
            f"merge: type is {type!r}: need None or one of {', '.join(ONE_TYPE)}; `ggml quantize` knows mixtures"
        )
    source = ModelFile(model.runner.file.path if isinstance(model, Model) else model, caller="merge")
    try:
        arch = str(source.metadata.get("general.architecture"))
        adapter = Lora(lora, source.tensors, arch, scale)
        try:
            _write(source, adapter.pairs, os.fspath(out), type and type.upper())
        finally:
            adapter.close()
    finally:
        source.close()


def _write(source: ModelFile, pairs: dict[str, Pair], out: str, kind: str | None) -> None:
    """Writes the keys of the source and its tensors, those with a pair changed."""
    files = Held(ggml.gguf_free)
    try:
        new = files.new(ggml.gguf_init_empty)
        ggml.gguf_set_kv(new, source.handle)
        for key in [key for key in source.metadata if key.startswith("split.")]:
            ggml.gguf_remove_key(new, key)
        if kind is not None:
            ggml.gguf_set_val_u32(new, "general.file_type", PLAIN[kind])
        types = {name: _type(name, tensor, kind) for name, tensor in source.tensors.items()}
        for name, tensor in source.tensors.items():
            ggml.gguf_add_tensor(new, tensor)
            ggml.gguf_set_tensor_type(new, tensor.contents.name, types[name])
        meta = ctypes.create_string_buffer(ggml.gguf_get_meta_size(new))
        ggml.gguf_get_meta_data(new, meta)
        alignment = ggml.gguf_get_alignment(new)

        def body(write: Any) -> None:
            write(meta.raw)
            for i, (name, tensor) in enumerate(source.tensors.items()):
                if name in pairs or types[name] != tensor.contents.type:
                    write(_converted(name, _values(tensor, pairs.get(name), name), types[name]))
                else:
                    write((ctypes.c_ubyte * ggml.ggml_nbytes(tensor)).from_address(tensor.contents.data))
                write(bytes(-ggml.gguf_get_tensor_size(new, i) % alignment))

        write_file(out, body)
    finally:
        files.free()


def _type(name: str, tensor: Any, kind: str | None) -> int:
    """The number of the type that a tensor gets."""
    t = tensor.contents
    matrix = name.endswith(".weight") and any(n > 1 for n in t.ne[1:])
    if kind is None or not matrix or any(fnmatch.fnmatchcase(name, pattern) for pattern in UNCHANGED):
        return t.type
    return NUMBERS[kind] if t.ne[0] % ggml.ggml_blck_size(NUMBERS[kind]) == 0 else ggml.GGML_TYPE_F16


def _values(tensor: Any, pair: Pair | None, name: str) -> np.ndarray:
    """The values of a weight, with its adapter: f32 [experts, n_out, n_in] (NumPy order)."""
    values = _floats(tensor)
    if pair is not None:
        a, b = _floats(pair.a), _floats(pair.b)
        if name == "token_embd.weight":  # its table is transposed
            values += pair.scale * (a @ b.swapaxes(-1, -2))
        else:
            values += pair.scale * (b @ a)
    return values


def _floats(tensor: Any) -> np.ndarray:
    """A copy of a tensor as f32 [ne2, ne1, ne0]."""
    t = tensor.contents
    out = np.empty((t.ne[2], t.ne[1], t.ne[0]), np.float32)
    if t.type == ggml.GGML_TYPE_F32:
        ctypes.memmove(out.ctypes.data, t.data, out.nbytes)
    else:
        dequantize_row(t.data, out.size, t.type, out)
    return out


def _converted(name: str, values: np.ndarray, kind: int) -> memoryview:
    """The bytes of a tensor's values in a type."""
    rows, width = values.size // values.shape[-1], values.shape[-1]
    out = (ctypes.c_uint8 * (rows * ggml.ggml_row_size(kind, width)))()
    source = np.ascontiguousarray(values)
    with naming(f"tensor {name!r}"):
        ggml.ggml_quantize_chunk(kind, source.ctypes.data, out, 0, rows, width, None)
    return memoryview(out)
