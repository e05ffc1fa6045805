"""The files of a fine-tuning: the adapter (GGUF) and the state from which the training goes on (NumPy's npz)."""

from __future__ import annotations

import io
import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import ggml

from ..._errors import named
from ..._io.files import open_regular, save
from ..._io.gguf_write import _write_to_file
from ..._owners import Held
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
    if adapter.ctx is None:
        raise RuntimeError("finetune: the adapter was freed")
    files = Held(ggml.gguf_free)
    try:
        file = files.new(ggml.gguf_init_empty)
        for key, value in {"general.architecture": arch, "general.type": "adapter", "adapter.type": "lora"}.items():
            ggml.gguf_set_val_str(file, key, value)
        ggml.gguf_set_val_f32(file, "adapter.lora.alpha", adapter.alpha)
        for tensor in adapter.tensors.values():
            ggml.gguf_add_tensor(file, tensor)
        with named("finetune", os.fspath(path)):
            _write_to_file(file, os.fsencode(path), False)
    finally:
        files.free()


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
    save(os.fspath(path), out.getbuffer(), "finetune")


def sizes(adapter: Adapter, steps: int) -> tuple[int, int]:
    """About how many bytes the files of an adapter and of the state of so many steps have."""
    matrices, tensors = adapter.nbytes(), len(adapter.tensors)
    return matrices + 200 * tensors + 1000, 3 * matrices + 1000 * tensors + 100 * min(steps, 10_000) + 1000


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
    with open_regular(path, "finetune") as file:
        data = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            saved = _read(archive, adapter.arrays(), fingerprint)
    except _Other as error:
        raise ValueError(f"finetune: {place}{error}") from None
    except MemoryError:
        raise MemoryError(f"finetune: there is no memory for the state in {place}") from None
    except (ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error,
            RecursionError, OverflowError) as error:  # fmt: skip
        text = str(error)
        raise ValueError(f"finetune: {place} is not a state of a training: {text or type(error).__name__}") from None
    for name, values in adapter.arrays().items():
        values[...] = saved.arrays[name]
    adapter.iteration = saved.progress["steps"]
    return saved.progress


class _Other(Exception):
    """The state is of another training; the message continues the file's name."""


class _Saved(NamedTuple):
    arrays: dict[str, np.ndarray]
    progress: dict[str, Any]


def _read(archive: zipfile.ZipFile, arrays: Mapping[str, np.ndarray], fingerprint: Mapping[str, Any]) -> _Saved:
    """The contents of a state that fits this training."""
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if "about" not in members:
        raise ValueError("it has no entry 'about'")
    about = _array(archive, members["about"])
    if about.ndim or about.dtype.kind != "U":
        raise ValueError(f"its entry 'about' is {about.dtype} {list(about.shape)}: need a text")
    text = about.astype(about.dtype.newbyteorder("<")).tobytes().decode("utf-32-le")  # str() trusts NumPy's characters
    progress = _progress(json.loads(text.rstrip("\0")), fingerprint)
    wanted = {name: _kind(a.dtype, a.shape) for name, a in arrays.items()}
    for name in sorted((arrays.keys() | members.keys()) - {"about"}):
        if name not in members or name not in arrays:
            here, there = ("there" if name in kind else "missing" for kind in (members, arrays))
            raise _Other(f": {name} is {here}, in this training {there}")
    found_arrays = {}
    for name in arrays:
        found = _array(archive, members[name])
        if _kind(found.dtype, found.shape) != wanted[name]:
            raise _Other(f": {name} is {_kind(found.dtype, found.shape)}, in this training {wanted[name]}")
        found_arrays[name] = found
    return _Saved(found_arrays, progress)


def _kind(dtype: np.dtype, shape: Sequence[int]) -> str:
    return f"{dtype} {list(shape)}"


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """An array of the archive. Entries are stored as they are, so none is larger than the file."""
    name = info.filename[:60]
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise ValueError(f"its entry {name!r} is compressed: those of a state are not")
    file = io.BytesIO(archive.read(info))
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        count = math.prod(shape)
    except Exception:  # the header is Python source, of which the parser may also say that it is too deep
        raise ValueError(f"its entry {name!r} is not an array") from None
    data = file.getbuffer()[file.tell() :]
    if dtype.hasobject or fortran or min(shape, default=0) < 0 or count * dtype.itemsize != len(data):
        raise ValueError(f"its entry {name!r} says {_kind(dtype, shape)[:60]}: its bytes do not fit")
    return np.frombuffer(data, dtype, count).reshape(shape)


def _progress(about: Any, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """What was done so far, after everything in the text of a state was found to be of the right kind."""
    parts = [about.get(name) if isinstance(about, dict) else None for name in ("format", "fingerprint", "progress")]
    form, theirs, progress = parts
    if form != FORMAT:
        raise ValueError(f"its format is {str(form)[:60]}: need {FORMAT}")
    if not isinstance(theirs, dict) or not isinstance(progress, dict):
        raise ValueError("its fingerprint or its progress is missing")
    for name, value in fingerprint.items():
        if theirs.get(name) != value:
            raise _Other(f" is of a training with {name} {str(theirs.get(name))[:60]!r}: this has {value!r}")
    for name in ("steps", "tokens"):
        value = progress.get(name)
        if type(value) is not int or not 0 <= value < 1 << 62:
            raise ValueError(f"its {name} are {str(value)[:60]}")
    for name, width in {"losses": (), "validation": (2,)}.items():
        values = progress.get(name)
        if not isinstance(values, list) or (values and not _numbers(values, (len(values), *width))):
            raise ValueError(f"its {name} are {str(values)[:60]}")
    if len(progress["losses"]) != progress["steps"]:
        raise ValueError(f"it has {progress['steps']} steps and {len(progress['losses'])} losses")
    return progress


def _numbers(values: list, shape: tuple[int, ...]) -> bool:
    """Whether nested lists are finite numbers of a shape."""
    found = np.asarray(values, np.float64)  # raises unless all are numbers
    return found.shape == shape and bool(np.isfinite(found).all())
