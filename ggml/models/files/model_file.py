"""GGUF files of language models: metadata as a mapping, tensors mapped into memory, files split into parts."""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import ggml

from ..._errors import bare, rename
from ..._io.gguf_types import TYPES as VALUE_TYPES
from ..._owners import Owner, free_all, keep_in
from .large_pages import use_large_pages

PART = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


class Metadata(Mapping[str, Any]):
    """The keys of an open GGUF file. A value is read when it is first asked for, and then kept.

    Strings are `str` (invalid UTF-8 as surrogate escapes), arrays are lists, numbers are `int`, `float` or `bool`.
    """

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle
        count = ggml.gguf_get_n_kv(handle)
        self._index = {ggml.gguf_get_key(handle, i).decode(errors="surrogateescape"): i for i in range(count)}
        self._values: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._values:
            index = self._index[key]
            if self._handle is None:
                raise RuntimeError(f"Metadata: {key!r} was not read before the model was closed")
            self._values[key] = _value(self._handle, index)
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def override(self, values: Mapping[str, Any], caller: str = "load") -> None:
        """Replaces values of keys, or adds keys: integers, numbers, truth values or texts.

        Raises:
            TypeError: a value is of another kind, or of another one than the file's.
        """
        for key, value in values.items():
            own = self.get(key)
            kinds = (bool, int, float, str)
            if (
                not isinstance(key, str)
                or type(value) not in kinds
                or (own is not None and type(own) is not type(value))
            ):
                need = "a bool, an int, a float or a str" if own is None else f"a {type(own).__name__}, as in the file"
                raise TypeError(f"{caller}: kv_overrides: {key!r} is {str(value)[:60]!r}: need {need}")
        self._values |= values
        self._index |= {key: -1 for key in values if key not in self._index}

    def detach(self) -> None:
        """Forgets the file: values that were read stay."""
        self._handle = None


def _value(handle: int, index: int) -> Any:
    """The value of key number `index` as a Python object."""
    kind = VALUE_TYPES[ggml.gguf_get_kv_type(handle, index)].name
    if kind != "arr":
        value = getattr(ggml, f"gguf_get_val_{kind}")(handle, index)
        return value.decode(errors="surrogateescape") if kind == "str" else value
    count = ggml.gguf_get_arr_n(handle, index)
    element = VALUE_TYPES[ggml.gguf_get_arr_type(handle, index)]
    if element.name == "str":
        read = ggml.gguf_get_arr_str
        return [read(handle, index, i).decode(errors="surrogateescape") for i in range(count)]
    form = struct.Struct(f"={count}{element.code}")
    address = ggml.gguf_get_arr_data(handle, index)
    return list(form.unpack(ctypes.string_at(address, form.size))) if count and address else []


class ModelFile(Owner):
    """An open GGUF file, or all parts of one: `metadata` of the first part, `tensors` of all by name.

    The tensors live in the file's pages (mapped) or in memory (`mmap=False`, or a file that cannot be used in place).
    Of those that are mapped, `places` has the path of the file and the offset of the data.
    """

    def __init__(self, path: str | os.PathLike[str], mmap: bool = True, caller: str = "load") -> None:
        try:
            self.path = os.fsdecode(path)
        except TypeError:
            raise TypeError(f"{caller}: path is {str(path)[:60]}: need a str, bytes or os.PathLike") from None
        self._handles: list[Any] = []
        self._contexts: list[ctypes.c_void_p] = []
        self.tensors: dict[str, Any] = {}
        self.places: dict[str, tuple[str, int]] = {}
        self.mapped: list[Any] = []  # the GGUF contexts of files that are mapped
        try:
            first, *rest = _parts(self.path, caller)
            self.handle = self._open(first, mmap, caller)
            self.metadata = Metadata(self.handle)  # of the first part
            announced = _split_key(self.metadata, "split.count", 0, first, caller)
            if announced and announced != 1 + len(rest):
                raise ValueError(
                    f"{caller}: {self.path} is one of {announced} parts: need a name that ends in "
                    f"-00001-of-{announced:05d}.gguf, and all parts in one folder"
                )
            _check_part(self.metadata, 0, 1 + len(rest), first, caller)
            for i, part in enumerate(rest, 1):
                _check_part(Metadata(self._open(part, mmap, caller)), i, 1 + len(rest), part, caller)
            total = _split_key(self.metadata, "split.tensors.count", len(self.tensors), first, caller)
            if total != len(self.tensors):
                raise ValueError(
                    f"{caller}: {first}: key 'split.tensors.count' is {total}: the parts have {len(self.tensors)}"
                )
        except BaseException:
            self.close()
            raise

    def _open(self, path: str, mmap: bool, caller: str) -> Any:
        """Opens one file and adds its tensors."""
        context = ctypes.c_void_p()
        self._contexts.append(context)  # before there is one: see keep_in
        params = ggml.gguf_init_params(no_alloc=False, ctx=ctypes.pointer(context))
        try:
            read = ggml.ext.gguf_init_from_file_mmap if mmap else ggml.gguf_init_from_file
            try:
                keep_in(self._handles, read, path, params)
            except ValueError as error:
                if not mmap or "in place" not in str(error):
                    raise
                mmap = False
                keep_in(self._handles, ggml.gguf_init_from_file, path, params)
        except ValueError as error:
            raise ValueError(f"{caller}: {path}: {bare(error)}") from None
        except OSError as error:
            raise rename(error, caller, path) from None
        handle = self._handles[-1]
        if context.value is None:
            raise ValueError(f"{caller}: {path} has no tensors")
        if mmap:
            self.mapped.append(handle)
        for i in range(ggml.gguf_get_n_tensors(handle)):
            raw = ggml.gguf_get_tensor_name(handle, i)
            name = raw.decode(errors="surrogateescape")
            if name in self.tensors:
                raise ValueError(f"{caller}: {path}: tensor {name!r} is also in an earlier part")
            self.tensors[name] = ggml.ggml_get_tensor(context.value, raw)
            if mmap:
                self.places[name] = (path, ggml.gguf_get_data_offset(handle) + ggml.gguf_get_tensor_offset(handle, i))
        return handle

    def use_large_pages(self) -> bool:
        """Moves weights to large pages, at the same addresses; whether other tensors took the place of some: no."""
        use_large_pages(self.mapped)
        return False

    def close(self) -> None:
        """Releases the memory or the mapping."""
        if hasattr(self, "metadata"):
            self.metadata.detach()
        self.tensors.clear()
        self.mapped.clear()
        free_all(self._handles, ggml.gguf_free)
        self._contexts = [context for context in self._contexts if context.value is not None]
        free_all(self._contexts, ggml.ggml_free)

    def __del__(self) -> None:
        if hasattr(self, "places"):
            self.close()


def _split_key(metadata: Metadata, key: str, default: int, path: str, caller: str) -> int:
    """A key `split.*`, which is an integer."""
    value = metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{caller}: {path}: key {key!r} is {str(value)[:60]}: need an integer")
    return value


def _check_part(metadata: Metadata, number: int, count: int, path: str, caller: str) -> None:
    """Refuses a file whose keys say that it is another part than its name says, counted from 0."""
    for key, wanted in {"split.no": number, "split.count": count}.items():
        value = _split_key(metadata, key, wanted, path, caller)
        if value != wanted and (count > 1 or value > 0):
            raise ValueError(f"{caller}: {path}: key {key!r} is {value}: need {wanted}, as the file's name says")


def _parts(path: str, caller: str) -> list[str]:
    """The paths of all parts of a split file, or the path alone."""
    match = PART.match(path)
    if match is None:
        return [path]
    count = int(match["count"])
    if not 1 <= int(match["number"]) <= count:
        raise ValueError(f"{caller}: {path}: part {int(match['number'])} of {count} does not exist")
    parts = [f"{match['stem']}-{i:05d}-of-{count:05d}.gguf" for i in range(1, count + 1)]
    for part in parts:
        if not os.path.exists(part):
            raise FileNotFoundError(2, f"{caller}: a part of the model is missing", part)
    return parts
