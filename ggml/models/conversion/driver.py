"""Writing a GGUF file from a folder: `convert`."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ggml

from ..._extras import require
from ..._io import quantization
from ..._io.files import check_outputs, write_file
from ..._io.quantization import MIXES, Request
from ..._io.tensor_types import NUMBERS, PLAIN, TYPES
from ..._owners import Held
from .checkpoint import Checkpoint
from .images import plan_images
from .parts import Keys
from .peft import from_peft, is_adapter, is_gguf, to_peft
from .plan import Weight, check, new_tensor, plan_keys, plan_weights, row_of
from .search import with_pictures
from .tasks import from_task
from .vocabulary import vocabulary


def convert(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    type: str | None = None,
    *,
    imatrix: str | os.PathLike[str] | None = None,
    vocab_only: bool = False,
    base: str | os.PathLike[str] | None = None,
    task: str | None = None,
    progress: bool = False,
    mmproj: str | os.PathLike[str] | None = None,
) -> None:
    """Writes a GGUF file from a folder as Hugging Face saves a model, or a folder of PEFT's adapters; or the reverse.

    A GGUF file with an adapter becomes a folder with adapter_config.json and adapter_model.safetensors.

    The folder has config.json, the weights in *.safetensors, and a tokenizer. Nothing of it is run. Tensors are read,
    changed and written one by one.

    Args:
        folder: the folder, or a GGUF file with an adapter.
        out: the file to write; an existing one is replaced once the new one is complete. Of a GGUF adapter the folder.
        type: type of the matrices, or mixture of types, such as "F16", "Q8_0" or "Q4_K_M"; None for the one that each
            has in the folder. Rows that are not a whole number of blocks get another one.
        imatrix: file with an importance matrix, or None.
        vocab_only: True to write the keys and the vocabulary without weights.
        base: of an adapter, the folder of its model; None for the one that it names, if that is here.
        task: of a folder that has an adapter for each of some tasks (jina-embeddings-v3), the task whose adapter is
            written in place of the model; it is for the file that is written without a task.
        progress: True to show a bar on standard error, if that is a terminal.
        mmproj: of a model that takes pictures, a second file to write: the encoder of pictures, for `load(mmproj=...)`.
            Its matrices stay as they are in the folder.
    Raises:
        OSError: a file cannot be read or written.
        TypeError: folder is not a path.
        ValueError: the class of the model is not known, a file is damaged, a setting, tensor or shape is missing or
            wrong, the pre-tokenizer is not known, or type is not known. The message names what is wrong.
        ModuleNotFoundError: the package safetensors is missing.
    """
    if type is not None and (not isinstance(type, str) or type.upper() not in MIXES):
        raise ValueError(f"convert: type is {type!r}: need None or one of {', '.join(MIXES)}")
    adapts = is_adapter(folder) or is_gguf(folder)
    if adapts or task is not None:
        if type is not None or imatrix is not None or vocab_only:
            raise ValueError("convert: an adapter has no type, imatrix or vocab_only")
    if task is not None:
        return from_task(folder, os.fsdecode(out), task)
    if adapts:
        change = from_peft if is_adapter(folder) else to_peft
        return change(os.fsdecode(folder), os.fsdecode(out), base)
    if base is not None:
        raise ValueError(f"convert: base is given, but {os.fspath(folder)!r} is no adapter")
    checkpoint = Checkpoint(folder, weights=not vocab_only)
    try:
        check_outputs([out, mmproj])
        images = plan_images(checkpoint) if mmproj is not None else None
        row = row_of(checkpoint)
        keys = plan_keys(checkpoint, row)
        weights = {} if vocab_only else plan_weights(checkpoint, row)
        if not vocab_only:
            check(checkpoint, keys, weights, row)
        rows = weights["token_embd.weight"].shape[0] if weights else 0
        if rows:
            keys.setdefault(f"{row.arch}.vocab_size", rows)
        keys, weights = with_pictures(checkpoint, keys | vocabulary(checkpoint, rows), weights)
        importance = quantization.read_importance(imatrix, "convert") if imatrix is not None else {}
        write(checkpoint, os.fspath(out), keys, weights, type and type.upper(), importance, progress)
        if mmproj is not None and images is not None:
            write(checkpoint, os.fspath(mmproj), *images, None, {}, progress)
    finally:
        checkpoint.close()


def write(
    checkpoint: Checkpoint,
    out: str,
    keys: Keys,
    weights: dict[str, Weight],
    kind: str | None,
    importance: dict[str, Any],
    progress: bool,
) -> None:
    """Writes a planned file."""
    files, contexts = Held(ggml.gguf_free), Held(ggml.ggml_free)
    try:
        file = files.new(ggml.gguf_init_empty)
        ctx = contexts.new(ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
        for name, weight in weights.items():
            tensor = new_tensor(ctx, weight.shape, weight.kind)
            ggml.ggml_set_name(tensor, name.encode())
            ggml.gguf_add_tensor(file, tensor)
        types = {name: weight.kind for name, weight in weights.items()}
        if kind is not None:
            try:
                new, _ = quantization.plan(file, Request(kind))
            except ValueError as error:
                raise ValueError(f"convert: {error}") from None
            types |= {name: NUMBERS[new_kind] for name, new_kind in new.items()}
        for name, number in types.items():
            ggml.gguf_set_tensor_type(file, name, number)
        if weights:
            keys = {**keys, "general.quantization_version": ggml.GGML_QNT_VERSION}
            keys["general.file_type"] = MIXES[kind][1] if kind else PLAIN[TYPES[main_type(types)]]
        for key, value in keys.items():
            set_key(file, key, value)
        meta = ctypes.create_string_buffer(ggml.gguf_get_meta_size(file))
        ggml.gguf_get_meta_data(file, meta)
        alignment = ggml.gguf_get_alignment(file)

        def body(write: Callable[[Any], None]) -> None:
            write(meta.raw)
            with Bar(sum(int(np.prod(w.shape)) for w in weights.values()), progress) as advance:
                for number, (name, weight) in enumerate(weights.items()):
                    write_weight(checkpoint, weight, types[name], importance, write, advance)
                    write(bytes(-ggml.gguf_get_tensor_size(file, number) % alignment))

        write_file(out, body)
    finally:
        files.free()
        contexts.free()


def main_type(types: dict[str, int]) -> int:
    """The type that a file is said to have: that of the embedding, or of the first matrix of an encoder."""
    return types.get("token_embd.weight", types.get("v.blk.0.attn_q.weight", ggml.GGML_TYPE_F32))


def write_weight(
    checkpoint: Checkpoint,
    weight: Weight,
    kind: int,
    importance: dict[str, Any],
    write: Callable[[Any], None],
    advance: Callable[[int], None],
) -> None:
    """Writes one tensor in a type."""
    matrices = weight.matrices(checkpoint)
    if kind == weight.source:
        for matrix in matrices:
            write(matrix.reshape(-1).view(np.uint8).data)
            advance(matrix.size)
        return
    ne = (*weight.shape[::-1], 1, 1, 1)[:4]

    def addresses() -> Iterator[int]:
        size = ne[1] * ggml.ggml_row_size(weight.source, ne[0])
        for values in matrices:  # those of a convolution come as a whole
            yield from range(values.ctypes.data, values.ctypes.data + values.nbytes, size)

    try:
        quantization.convert(weight.name, ne, weight.source, addresses(), TYPES[kind], importance, write, advance)
    except ValueError as error:
        raise ValueError(f"convert: {error}") from None


def set_key(file: Any, key: str, value: Any) -> None:
    """Sets a key: the type follows from that of the value; np.int32 and lists of integers are I32, bytes are U8."""
    if isinstance(value, bool):
        ggml.gguf_set_val_bool(file, key, value)
    elif isinstance(value, np.int32):
        ggml.gguf_set_val_i32(file, key, int(value))
    elif isinstance(value, int):
        ggml.gguf_set_val_u32(file, key, value)
    elif isinstance(value, float):
        ggml.gguf_set_val_f32(file, key, value)
    elif isinstance(value, str):
        ggml.gguf_set_val_str(file, key, value.encode(errors="surrogatepass"))
    elif isinstance(value, bytes):
        ggml.gguf_set_arr_data(file, key, ggml.GGUF_TYPE_UINT8, value, len(value))
    elif value and isinstance(value[0], str):
        texts = (ctypes.c_char_p * len(value))(*(text.encode(errors="surrogatepass") for text in value))
        ggml.gguf_set_arr_str(file, key, texts, len(value))
    else:
        kinds: dict[Any, tuple[int, Any]] = {
            bool: (ggml.GGUF_TYPE_BOOL, np.bool_), int: (ggml.GGUF_TYPE_INT32, np.int32),
            float: (ggml.GGUF_TYPE_FLOAT32, np.float32),
        }  # fmt: skip
        number, dtype = kinds[type(value[0]) if value else int]
        array = np.array(value, dtype)
        ggml.gguf_set_arr_data(file, key, number, array.ctypes.data, len(value))


class Bar:
    """A progress bar of tqdm, in elements of weights."""

    def __init__(self, total: int, shown: bool) -> None:
        self.bar: Any = None
        if shown:
            require("convert: ", ["tqdm"], "'ggml-cython[llm]'")
            from tqdm import tqdm

            self.bar = tqdm(total=total, unit="", unit_scale=True, desc="convert", disable=None, leave=False)

    def __enter__(self) -> Callable[[int], None]:
        return self.bar.update if self.bar is not None else lambda n: None

    def __exit__(self, *exception: object) -> None:
        if self.bar is not None:
            self.bar.close()
