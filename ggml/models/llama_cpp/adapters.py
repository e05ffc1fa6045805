"""The functions `llama_adapter_*` of llama.h. An adapter is an integer here, so that arrays of ctypes can have it."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

from ..._errors import named
from ..model import Model
from ..run.lora import Lora
from .contexts import Context, context_of, model_of, path_of, shown, write_text

llama_adapter_lora_p, llama_adapter_lora_p_ctypes = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
_handles = itertools.count(1)


class Adapter(int):
    """A file of an adapter that fits a model.

    Attributes:
        model: Model.
        path: of the file.
        keys: texts of the keys of the file by name.
    """

    model: Model
    path: str
    keys: dict[str, bytes]


_adapters: dict[int, Adapter] = {}  # those that were not freed


def _adapter(adapter: Any, caller: str) -> Adapter:
    number = getattr(adapter, "value", adapter)
    found = _adapters.get(number) if isinstance(number, int) else None
    if found is None:
        raise ValueError(f"{caller}: the adapter is {adapter!r}: need what llama_adapter_lora_init gave, not freed")
    return found


def llama_adapter_lora_init(model: Model, path_lora: bytes) -> Adapter:
    """Opens an adapter for a model.

    Raises:
        OSError, ValueError: there is no such file, or it does not fit the model.
    """
    own, path = model_of(model, "llama_adapter_lora_init"), path_of(path_lora)
    runner = own.runner
    with runner.lock, named("llama_adapter_lora_init"):
        runner.check("llama_adapter_lora_init")
        lora = Lora(path, runner.weights, runner.config.arch, 1.0, runner.mmap)
        keys = {key: shown(value) for key, value in lora.file.metadata.items() if not isinstance(value, list)}
        lora.close()
    found = Adapter(next(_handles))
    found.model, found.path, found.keys = own, path, keys
    _adapters[int(found)] = found
    return found


def llama_adapter_lora_free(adapter: Adapter) -> None:
    """Frees an adapter. A context that uses it goes on to do so."""
    _adapters.pop(int(getattr(adapter, "value", adapter) or 0), None)


def llama_set_adapters_lora(ctx: Context, adapters: Any, n_adapters: int, scales: Any) -> int:
    """Sets the adapters that a context uses, by an array of them and one of their factors; returns 0."""
    own = context_of(ctx, "llama_set_adapters_lora")
    for array in (adapters, scales):
        if n_adapters < 0 or n_adapters and (array is None or hasattr(array, "__len__") and n_adapters > len(array)):
            raise ValueError(f"llama_set_adapters_lora: {n_adapters} adapters: an array has fewer items")
    some = [_adapter(adapters[i], "llama_set_adapters_lora") for i in range(n_adapters)]
    with named("llama_set_adapters_lora"):
        own.model.set_lora(*((adapter.path, float(scales[i])) for i, adapter in enumerate(some)))
    own.clear()
    return 0


def llama_set_adapter_lora(ctx: Context, adapter: Adapter, scale: float) -> int:
    """Lets a context use one adapter; returns 0."""
    return llama_set_adapters_lora(ctx, [adapter], 1, [scale])


def llama_adapter_meta_count(adapter: Adapter) -> int:
    """The number of keys of the file that are no arrays."""
    return len(_adapter(adapter, "llama_adapter_meta_count").keys)


def llama_adapter_meta_val_str(adapter: Adapter, key: bytes, buf: Any, buf_size: int) -> int:
    """Writes the value of a key; returns the length of the text, -1 if there is no such key."""
    keys = _adapter(adapter, "llama_adapter_meta_val_str").keys
    return write_text("llama_adapter_meta_val_str", buf, buf_size, keys.get(key.decode(errors="surrogateescape")))


def llama_adapter_meta_key_by_index(adapter: Adapter, i: int, buf: Any, buf_size: int) -> int:
    """Writes the name of a key; returns its length, -1 if there is no such key."""
    keys = list(_adapter(adapter, "llama_adapter_meta_key_by_index").keys)
    name = keys[i].encode() if 0 <= i < len(keys) else None
    return write_text("llama_adapter_meta_key_by_index", buf, buf_size, name)


def llama_adapter_meta_val_str_by_index(adapter: Adapter, i: int, buf: Any, buf_size: int) -> int:
    """Writes the value of a key; returns the length of the text, -1 if there is no such key."""
    values = list(_adapter(adapter, "llama_adapter_meta_val_str_by_index").keys.values())
    value = values[i] if 0 <= i < len(values) else None
    return write_text("llama_adapter_meta_val_str_by_index", buf, buf_size, value)


def llama_adapter_get_alora_n_invocation_tokens(adapter: Adapter) -> int:
    """Always 0: adapters of a model's own tokens are not known."""
    return 0 * _adapter(adapter, "llama_adapter_get_alora_n_invocation_tokens")
