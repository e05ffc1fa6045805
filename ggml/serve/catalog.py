"""The models of a server by name: opened when they are first asked for, closed when memory is needed for others."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

import ggml

from ..models import Model, load
from .engine import Engine
from .errors import ServeError
from .lane import token_limit
from .options import Options

Source = str | os.PathLike[str] | Model


class Entry:
    """A model by name.

    Attributes:
        source: its file, or a model that a program opened, which stays open.
        adapter, encoder: files, or None.
        model: None while it is not open.
        users: requests that use it now.
        used: when the last one began, of time.monotonic.
        bytes: of its weights, keys and values.
    """

    def __init__(
        self, name: str, source: Source, encoder: str | Path | None = None, adapter: str | Path | None = None
    ) -> None:
        self.name, self.source, self.encoder, self.adapter = name, source, encoder, adapter
        self.created = int(time.time())
        self.model: Model | None = None
        self.users, self.used, self.bytes = 0, 0.0, 0


class Lease:
    """The use of a model by one request: it is not closed before `release`."""

    def __init__(self, entry: Entry) -> None:
        assert entry.model is not None
        self.name, self.model, self._entry = entry.name, entry.model, entry
        entry.users += 1
        entry.used = time.monotonic()
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._entry.users -= 1


def named_sources(models: Source | Sequence[Source] | Mapping[str, Source]) -> dict[str, Source]:
    """Models by name: a file's name is that of its model unless another one is given."""
    if isinstance(models, Mapping):
        return dict(models)
    items = [models] if isinstance(models, (str, os.PathLike, Model)) else list(models)
    found: dict[str, Source] = {}
    for item in items:
        path = item.runner.file.path if isinstance(item, Model) else item
        name = Path(path).name.removesuffix(".gguf")
        if name in found:
            raise ValueError(f"serve: two models have the name {name!r}: need names, as a dict or by --alias")
        found[name] = item
    return found


class Catalog:
    """The models of a server.

    Args:
        models: a file or Model, several, or these by name; the first one answers requests that name none.
        options: of the server.
        engine: computes.
    """

    def __init__(
        self, models: Source | Sequence[Source] | Mapping[str, Source], options: Options, engine: Engine
    ) -> None:
        self._options, self._engine, self._opening = options, engine, asyncio.Lock()
        self.entries: dict[str, Entry] = {}
        for name, source in named_sources(models).items():
            self.entries[name] = Entry(name, source, options.encoders.get(name))
        files = [name for name, entry in self.entries.items() if not isinstance(entry.source, Model)]
        for name in options.encoders:
            if name not in files:
                raise ValueError(f"serve: encoders: {name!r} is no model of a file: need one of {', '.join(files)}")
        for name, adapter in options.adapters.items():
            for base, entry in list(self.entries.items()):
                if entry.adapter is None and not isinstance(entry.source, Model):
                    self.entries[f"{base}:{name}"] = Entry(f"{base}:{name}", entry.source, entry.encoder, adapter)
        if not self.entries:
            raise ValueError("serve: need at least one model")
        for entry in self.entries.values():
            if isinstance(entry.source, Model):
                self._opened(entry, entry.source)

    async def lease(self, name: str | None) -> Lease:
        """A model for a request, opened if need be."""
        entry = next(iter(self.entries.values())) if name is None else self.entries.get(name)
        if entry is None:
            known = ", ".join(map(repr, self.entries))
            raise ServeError(404, f"there is no model {name!r}: need one of {known}", "model", "model_not_found")
        if entry.model is None:
            async with self._opening:
                if entry.model is None:
                    await self._open(entry)
        return Lease(entry)

    async def open_first(self) -> None:
        """Opens the model that answers requests that name none."""
        (await self.lease(None)).release()

    async def _open(self, entry: Entry) -> None:
        options = self._options
        settings: dict[str, Any] = {
            "n_ctx": options.n_ctx,
            "n_seq": options.sequences,
            "threads": options.threads,
            "kv_type": options.kv_type,
            "lora": [entry.adapter] if entry.adapter else [],
            "mmproj": entry.encoder,
        }
        try:
            model = await run_in_threadpool(load, entry.source, **settings)
        except (OSError, ValueError, MemoryError) as error:
            raise ServeError(503, f"the model {entry.name!r} cannot be opened: {error}") from error
        self._opened(entry, model)
        await self._make_room(entry)

    def _opened(self, entry: Entry, model: Model) -> None:
        self._engine.open(entry.name, model, keep=isinstance(entry.source, Model))
        entry.model, entry.bytes = model, bytes_of(model, self._options)

    async def _make_room(self, new: Entry) -> None:
        """Closes models that nobody uses, the least recently used first, until all fit."""
        limit = self._options.memory
        while limit is not None and sum(e.bytes for e in self.entries.values() if e.model) > limit:
            idle = [e for e in self.entries.values() if e.model and not e.users and e is not new]
            idle = [e for e in idle if not isinstance(e.source, Model)]
            if not idle:
                return
            oldest = min(idle, key=lambda e: e.used)
            assert oldest.model is not None
            model, oldest.model = oldest.model, None
            await asyncio.wrap_future(self._engine.drop(model))


def bytes_of(model: Model, options: Options) -> int:
    """The bytes of a model's weights, and of the most keys and values that it may have."""
    weights = sum(ggml.ggml_nbytes(tensor) for tensor in model.runner.weights.values())
    memory = model.runner.memory
    if memory is None:
        return weights
    return weights + token_limit(model, options) * sum(sum(cache.sizes(1)) for cache in memory.paged)
