"""The files of a fine-tuning: the adapter (GGUF) and the state from which the training goes on (NumPy's npz)."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

import ggml

from ..._io.files import write_file
from .adapter import Adapter

FORMAT = 1


def save_adapter(path: str | os.PathLike[str], arch: str, adapter: Adapter) -> None:
    """Writes an adapter as llama.cpp reads it.

    Args:
        path: GGUF file; an existing one is replaced once the new one is complete.
        arch: general.architecture of the model.
        adapter: the trained pairs.
    Raises:
        OSError: the file cannot be written.
    """
    file: Any = ggml.gguf_init_empty()
    try:
        for key, value in {"general.architecture": arch, "general.type": "adapter", "adapter.type": "lora"}.items():
            ggml.gguf_set_val_str(file, key, value)
        ggml.gguf_set_val_f32(file, "adapter.lora.alpha", adapter.alpha)
        for tensor in adapter.tensors.values():
            ggml.gguf_add_tensor(file, tensor)
        if not ggml.gguf_write_to_file(file, os.fsencode(path), False):
            raise OSError(f"finetune: {os.fspath(path)} cannot be written")
    finally:
        ggml.gguf_free(file)


def save_state(
    path: str | os.PathLike[str], adapter: Adapter, fingerprint: Mapping[str, Any], progress: Mapping[str, Any]
) -> None:
    """Writes the state of a training.

    Args:
        path: the file; an existing one is replaced once the new one is complete.
        adapter: matrices and moments.
        fingerprint: settings that a training that goes on must share.
        progress: what was done so far.
    Raises:
        OSError: the file cannot be written.
    """
    about = {"format": FORMAT, "fingerprint": dict(fingerprint), "progress": dict(progress)}
    out = io.BytesIO()
    np.savez(out, about=np.array(json.dumps(about)), **adapter.arrays())  # type: ignore[arg-type]
    write_file(path, lambda write: write(out.getbuffer()))


def load_state(path: str | os.PathLike[str], adapter: Adapter, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Reads a state that save_state wrote; nothing changes unless all of it fits.

    Args:
        path: the file.
        adapter: receives matrices and moments.
        fingerprint: settings of this training.
    Returns:
        What was done so far.
    Raises:
        OSError: the file cannot be read.
        ValueError: the file is damaged, or belongs to another training.
    """
    place = os.fspath(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            saved = {name: file[name] for name in file.files if name != "about"}
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']}: need {FORMAT}")
        theirs, progress = about["fingerprint"], about["progress"]
        for name, kind in {"steps": int, "tokens": int, "losses": list, "validation": list}.items():
            if not isinstance(progress[name], kind):
                raise ValueError(f"its {name} are {progress[name]!r}")
        if not isinstance(theirs, dict):
            raise ValueError(f"its fingerprint is {theirs!r}")
        for name, width in {"losses": 1, "validation": 2}.items():
            np.asarray(progress[name], np.float64).reshape(-1, width)  # raises unless all are numbers
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"finetune: {place} is not a state of a training: {error}") from None
    for name, value in fingerprint.items():
        if theirs.get(name) != value:
            raise ValueError(f"finetune: {place} is of a training with {name} {theirs.get(name)!r}: this has {value!r}")
    arrays = adapter.arrays()
    for name in sorted(arrays.keys() | saved.keys()):
        shapes = [str(kind[name].shape) if name in kind else "missing" for kind in (saved, arrays)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"finetune: {place}: {name} is {shapes[0]}, in this training {shapes[1]}")
    for name, values in arrays.items():
        values[...] = saved[name]
    adapter.iteration = progress["steps"]
    return progress
