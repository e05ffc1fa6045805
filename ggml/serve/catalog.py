"""The models of a server by name: opened when they are first asked for, closed when memory is needed for others."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
        encoder: a file, or None.
        draft: what guesses tokens ahead, see Options.drafts, or None.
        base, adapter: of a model with an adapter, the one without, the adapter's name and its file; else None.
        model: None while it is not open.
        users: requests that use it now.
        used: when the last one began, of time.monotonic.
        bytes: of its weights, keys and values.
    """

    def __init__(
        self, name: str, source: Source, encoder: str | Path | None = None, draft: Source | None = None,
        base: Entry | None = None, adapter: tuple[str, str | Path] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.source, self.encoder, self.draft = name, source, encoder, draft
        self.base, self.adapter = base, adapter
        self.created = int(time.time())
        self.model: Model | None = None
        self.users, self.used, self.bytes = 0, 0.0, 0


class Lease:
    """The use of a model by one request: it is not closed before `release`.

    Attributes:
        name: by which it was asked for.
        model: computes.
        adapter: the one that the texts of the request have, or None.
    """

    def __init__(self, entry: Entry, name: str, adapter: str | None) -> None:
        assert entry.model is not None
        self.name, self.model, self.adapter, self._entry = name, entry.model, adapter, entry
        entry.users += 1
        entry.used = time.monotonic()
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            self._entry.users -= 1


@contextmanager
def held(lease: Lease) -> Iterator[None]:
    """Releases a lease at the end of a `with` statement."""
    try:
        yield
    finally:
        lease.release()


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
            self.entries[name] = Entry(name, source, options.encoders.get(name), options.drafts.get(name))
        files = [name for name, entry in self.entries.items() if not isinstance(entry.source, Model)]
        for name in options.encoders:
            if name not in files:
                raise ValueError(f"serve: encoders: {name!r} is no model of a file: need one of {', '.join(files)}")
        for name in options.drafts:
            if name not in self.entries:
                raise ValueError(f"serve: drafts: {name!r} is no model: need one of {', '.join(self.entries)}")
        for base in [self.entries[name] for name in files]:
            for item in options.adapters.items():
                name = f"{base.name}:{item[0]}"
                self.entries[name] = Entry(name, base.source, base.encoder, None, base, item)
        if not self.entries:
            raise ValueError("serve: need at least one model")
        for entry in self.entries.values():
            if isinstance(entry.source, Model):
                if not (entry.draft in (None, "ngram") or isinstance(entry.draft, Model)):
                    raise ValueError(f"serve: drafts: {entry.name!r} is an open model: need 'ngram' or another one")
                self._opened(entry, entry.source, [], entry.draft)

    async def lease(self, name: str | None) -> Lease:
        """A model for a request, opened if need be."""
        entry = next(iter(self.entries.values())) if name is None else self.entries.get(name)
        if entry is None:
            known = ", ".join(map(repr, self.entries))
            raise ServeError(404, f"there is no model {name!r}: need one of {known}", "model", "model_not_found")
        if (lease := self._lease_of_open(entry)) is not None:
            return lease
        async with self._opening:
            base = entry.base or entry
            if base.model is None:
                await self._open(base)
            assert base.model is not None
            if entry.base is not None:
                with held(Lease(base, base.name, None)):  # it is not closed meanwhile
                    if base.model.runner.sequences is not None:
                        await self._add_adapter(entry, base)
                    elif entry.model is None:  # gives embeddings only: such a model has one adapter for all texts
                        await self._open(entry)
            lease = self._lease_of_open(entry)
            assert lease is not None
            return lease

    @staticmethod
    def _lease_of_open(entry: Entry) -> Lease | None:
        """A model that is open, with the adapter that is asked for; None if it is not."""
        if entry.model is not None:
            return Lease(entry, entry.name, None)
        if entry.base is None or entry.base.model is None or entry.adapter is None:
            return None
        name = entry.adapter[0]
        return Lease(entry.base, entry.name, name) if name in entry.base.model.runner.named_loras else None

    async def _add_adapter(self, entry: Entry, base: Entry) -> None:
        """Makes a model know the adapter of a name."""
        assert base.model is not None and entry.adapter is not None
        model, (name, file) = base.model, entry.adapter
        if name in model.runner.named_loras:  # another request was faster
            return
        try:
            await asyncio.wrap_future(self._engine.compute(model, lambda model: model.add_adapter(name, file)))
        except (OSError, ValueError, MemoryError) as error:
            raise ServeError(503, f"the adapter of {entry.name!r} cannot be opened: {error}") from error
        base.bytes += sum(map(ggml.ggml_nbytes, model.runner.named_loras[name].file.tensors.values()))

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
        }
        own = {"lora": [entry.adapter[1]] if entry.adapter else [], "mmproj": entry.encoder}
        draft: Any = entry.draft
        opened: list[Model] = []
        try:
            opened.append(await run_in_threadpool(load, entry.source, **settings, **own))
            if draft is not None and draft != "ngram" and not isinstance(draft, Model):
                draft = await run_in_threadpool(load, draft, **settings)
                opened.append(draft)
            self._opened(entry, opened[0], opened, draft)
        except (OSError, TypeError, ValueError, MemoryError) as error:
            for model in opened:
                model.close()
            raise ServeError(503, f"the model {entry.name!r} cannot be opened: {error}") from error
        await self._make_room(entry)

    def _opened(self, entry: Entry, model: Model, owned: Sequence[Model], draft: Any) -> None:
        self._engine.open(entry.name, model, owned, draft)
        entry.model, entry.bytes = model, sum(bytes_of(m, self._options) for m in owned or [model])

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
