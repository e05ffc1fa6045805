"""Opening a folder as Hugging Face saves a model, without a file in between."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import ggml

from ..._errors import rename
from ..._owners import Held, Owner
from ..files.large_pages import in_large_pages, is_tied
from ..files.model_file import ModelFile
from .checkpoint import Checkpoint
from .clip_example import is_example, read_example
from .images import plan_images
from .plan import Weight, check, new_tensor, plan_keys, plan_weights, row_of
from .search import with_pictures
from .stored import as_bf16, as_floats
from .vocabulary import vocabulary

Plan = Callable[[Checkpoint], tuple[dict[str, Any], dict[str, Weight]]]
ALIGNMENT = 4  # bytes: what the values of a mapped tensor lie at


def is_folder(path: Any) -> bool:
    """Whether a path is that of a folder with a model."""
    return isinstance(path, (str, bytes, os.PathLike)) and os.path.exists(
        os.path.join(os.fsdecode(path), "config.json")
    )


def open_images(path: str | os.PathLike[str], mmap: bool = True) -> ModelFile | FolderFile:
    """Opens a file with an encoder of pictures, or a folder with a model that has one."""
    return FolderFile(path, mmap, plan_images) if is_folder(path) else ModelFile(path, mmap)


def open_model(path: str | os.PathLike[str], mmap: bool = True) -> ModelFile | FolderFile:
    """Opens a GGUF file, a folder with a model, or a file of the bindings' example clip."""
    if is_example(path):
        return ExampleFile(path, False)
    return FolderFile(path, mmap) if is_folder(path) else ModelFile(path, mmap)


def plan_text(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Weight]]:
    """The keys and tensors of the language model, checked."""
    row = row_of(checkpoint)
    keys = plan_keys(checkpoint, row)
    weights = plan_weights(checkpoint, row)
    check(checkpoint, keys, weights, row)
    keys |= vocabulary(checkpoint, weights["token_embd.weight"].shape[0])
    return with_pictures(checkpoint, keys, weights)


class Keys(dict[str, Any]):
    """The keys that a file of the folder would have."""

    def detach(self) -> None:
        """For a file: forgets it. These are in memory."""


class FolderFile(Owner):
    """A folder with a model in place of a ModelFile: `metadata`, and `tensors` by name.

    Tensors that a file would have as they are stay in the pages of their shards; `places` has the path of the shard and
    the offset of the data. The others are in memory.
    """

    def __init__(self, path: str | os.PathLike[str], mmap: bool = True, plan: Plan | None = None) -> None:
        self.path = os.fsdecode(path)
        self.tensors: dict[str, Any] = {}
        self.places: dict[str, tuple[str, int]] = {}
        self._values: dict[str, np.ndarray] = {}  # those in the pages of shards
        self._contexts, self._buffers = Held(ggml.ggml_free), Held(ggml.ggml_backend_buffer_free)
        self._ctx = self._contexts.new(ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
        try:
            with warnings.catch_warnings(record=True) as caught:
                self._open(mmap, plan or plan_text)
        except ValueError as error:
            self.close()
            raise ValueError(as_load(str(error))) from None
        except OSError as error:
            self.close()
            error.strerror = (error.strerror or "").removeprefix("convert: ")
            raise rename(error, "load") from None
        except BaseException:
            self.close()
            raise
        for item in caught:
            warnings.warn(as_load(str(item.message)), stacklevel=6)

    def _open(self, mmap: bool, plan: Plan) -> None:
        checkpoint = Checkpoint(self.path)
        self._add_all(checkpoint, *plan(checkpoint), mmap)
        checkpoint.close()

    def _add_all(self, checkpoint: Any, keys: dict[str, Any], weights: dict[str, Weight], mmap: bool) -> None:
        """Adds the keys and tensors."""
        self.metadata = Keys({k: list(v) if isinstance(v, bytes) else v for k, v in keys.items()})
        for name, weight in weights.items():
            self._add(checkpoint, name, weight, mmap)

    def _add(self, checkpoint: Any, name: str, weight: Weight, mmap: bool) -> None:
        """Adds a tensor, in the pages of its shard if it needs no change."""
        memory, part = None, weight.part
        stays = len(weight.parts) == 1 and part.unchanged and weight.parts[0].scales is None
        if mmap and stays and weight.kind == weight.source and weight.parts[0].offset % ALIGNMENT == 0:
            memory = self._values[name] = checkpoint.read(weight.parts[0])
            self.places[name] = weight.parts[0].path, weight.parts[0].offset
        if memory is None:
            matrices = weight.matrices(checkpoint)
            kept = weight.kind == weight.source
            change = as_floats if weight.kind == ggml.GGML_TYPE_F32 else (lambda m: m) if kept else as_bf16
            memory = np.concatenate([change(m).reshape(-1) for m in matrices])
        self._place(name, new_tensor(self._ctx, weight.shape, weight.kind), memory)

    def _place(self, name: str, tensor: Any, memory: np.ndarray) -> None:
        """Makes a tensor, whose values lie in memory, that of a name."""
        data: Any = memory
        buffer = self._buffers.new(ggml.ggml_backend_cpu_buffer_from_ptr, data, memory.nbytes)
        ggml.ggml_set_name(tensor, name.encode())
        ggml.ggml_backend_tensor_alloc(buffer, tensor, memory.ctypes.data)
        self.tensors[name] = tensor

    def use_large_pages(self) -> bool:
        """Copies weights to large pages; whether other tensors took the place of some."""
        moved = False
        for name, copy in in_large_pages(self._values, is_tied(self.tensors)):
            self._place(name, ggml.ggml_dup_tensor(self._ctx, self.tensors[name]), copy)
            moved = True
        return moved

    def close(self) -> None:
        """Releases the memory and the mappings."""
        self.tensors.clear()
        self._values.clear()
        self._buffers.free()
        self._contexts.free()


class ExampleFile(FolderFile):
    """A file of the bindings' example clip in place of a ModelFile. Its tensors are in memory."""

    def _open(self, mmap: bool, plan: Plan) -> None:
        self._add_all(None, *read_example(self.path), False)


def as_load(message: str) -> str:
    """A message of the conversion as one of `load`."""
    return "load: " + message.removeprefix("convert: ")
