"""The memory of sequences: their tokens, and where what the layers keep of them lies.

Sequences with equal beginnings share pages. States that each token changes are in slots, one for a sequence; copies of
them are kept at the ends of chunks, so that a sequence can be shortened: what follows the nearest copy is computed
again.
"""

from __future__ import annotations

import copy
import json
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import ggml

from ..arch.keeps import Latent, Paged, parts_of
from .batch import taken
from .cache import PagedCache, StateCache, layer_caches
from .pages import PAGE, SCRAP, PagePool, PageTable, living
from .token_bytes import packed, unpacked

TYPES = {
    "f32": ggml.GGML_TYPE_F32, "f16": ggml.GGML_TYPE_F16, "bf16": ggml.GGML_TYPE_BF16, "q8_0": ggml.GGML_TYPE_Q8_0,
    "q5_1": ggml.GGML_TYPE_Q5_1, "q5_0": ggml.GGML_TYPE_Q5_0, "q4_1": ggml.GGML_TYPE_Q4_1, "q4_0": ggml.GGML_TYPE_Q4_0,
    "iq4_nl": ggml.GGML_TYPE_IQ4_NL,
}  # fmt: skip
MAGIC = b"GGKV\x02\0\0\0"
KEPT_STATES = 64  # tokens of a sequence whose states are kept, at most
APART = 32  # tokens between two copies of the states of a sequence, at least


class Slot:
    """The states of a sequence.

    Attributes:
        number: where they lie.
        length: they are those after so many tokens; -1 while a compute changes them.
        snapshots: copies of them by numbers of tokens, the oldest first.
    """

    def __init__(self, number: int) -> None:
        self.number, self.length = number, 0
        self.snapshots: dict[int, list[bytes]] = {}


class LastStates:
    """The states at the end of the model of the last tokens of a sequence: f32 [tokens, C]."""

    def __init__(self) -> None:
        self._rows = np.empty((0, 0), np.float32)
        self._end = 0  # they are those of the tokens before this one

    def add(self, start: int, rows: np.ndarray) -> None:
        """Takes over the states of the tokens from `start` on."""
        known = self._rows[: max(0, len(self._rows) - (self._end - start))] if start <= self._end else self._rows[:0]
        self._rows = np.concatenate([known, rows])[-KEPT_STATES:] if len(known) else rows[-KEPT_STATES:].copy()
        self._end = start + len(rows)

    def of(self, token: int) -> np.ndarray | None:
        """The state of a token, if it is known."""
        place = token - self._end + len(self._rows)
        return self._rows[place] if 0 <= place < len(self._rows) else None


class Held:
    """A sequence: its tokens, and where what the layers keep of them lies.

    Attributes:
        ids: the tokens; changed by `append` and `cut`.
        exact: so many of them, the first ones, were computed with `exact`.
        further: so many of them, the first ones, the layer has seen that predicts further tokens.
        states: the states of the last tokens, as far as these were computed for that layer.
        tables: its pages by window, 0 for layers that attend to everything.
        slot: its states, of a model that has some.
        adapter: name of the one that its tokens have beside those of all sequences, or None.
    """

    def __init__(self, tables: dict[int, PageTable], slot: Slot | None) -> None:
        self.ids: list[int] = []
        self._more = 0, 0  # of so many tokens, by how much their positions exceed their number
        self.exact = self.further = 0
        self.states = LastStates()
        self.adapter: str | None = None
        self.tables, self.slot = tables, slot

    @property
    def position(self) -> int:
        """That of the token that follows the others."""
        known, more = self._more
        new = self.ids[known:]
        if new:
            more += taken(new) - len(new)
            self._more = len(self.ids), more
        return len(self.ids) + more

    def append(self, tokens: Sequence[int]) -> None:
        self.ids.extend(tokens)

    def cut(self, length: int) -> None:
        """Keeps the first `length` tokens."""
        self._more = 0, 0  # before the ids change: an interrupt may come in between
        del self.ids[length:]


class Memory:
    """The memory of all sequences of a model.

    Args:
        specs: what the layers keep, see arch/keeps.py.
        format: what must be equal for a saved sequence to be loaded.
        n_ctx: most tokens of a sequence.
        n_seq: how many sequences there usually are.
        kv_type: see load.
        margin: so many tokens before a sliding window are kept.
        n_vocab: number of tokens that there are.
        n_input: elements of an embedding in place of a token.
        before_change: called before memory moves that graphs use.
        snapshots: most copies of the states of a sequence.

    Attributes:
        layers: the caches of each layer, see layer_caches.
        pools: pages by window, 0 for layers that attend to everything.
        states: the caches of layers with a state.
    """

    def __init__(
        self, specs: Sequence[Any], format: dict[str, Any], n_ctx: int, n_seq: int, kv_type: str | Sequence[str],
        margin: int, n_vocab: int, n_input: int, before_change: Callable[[], Any], snapshots: int = 4,
    ) -> None:  # fmt: skip
        names = kv_type if isinstance(kv_type, (tuple, list)) else (kv_type, kv_type)
        kinds = kinds_of(names, specs)
        self.n_ctx, self.n_vocab, self.n_input = n_ctx, n_vocab, n_input
        self._kinds = kinds
        self._further: PagedCache | None = None
        self.layers = layer_caches(specs, kinds)
        self.format = {**format, "layers": [repr(spec) for spec in specs], "type": "/".join(dict.fromkeys(names))}
        caches = [cache for layer in self.layers for cache in layer.values()]
        self.paged = [cache for cache in caches if isinstance(cache, PagedCache)]
        self.states = [cache for cache in caches if isinstance(cache, StateCache)]
        self.pools = {
            window: PagePool([c for c in self.paged if c.window == window], window, n_ctx, margin, n_seq, before_change)
            for window in sorted({cache.window for cache in self.paged})
        }
        self.sequences: weakref.WeakSet[Held] = weakref.WeakSet()
        self._before_change, self._snapshots = before_change, snapshots
        self._slots = 0

    def add_further(self, spec: Any) -> None:
        """Adds a layer that predicts further tokens; no sequence has been seen by it."""
        (layer,) = layer_caches([spec], self._kinds)
        pool = self.pools.get(0)
        if pool is None or list(layer) != ["attention"] or not isinstance(spec, Paged | Latent):
            raise ValueError("load: the layer that predicts further tokens keeps other things than keys and values")
        pool.add(layer["attention"])
        self.layers.append(layer)
        self._further = layer["attention"]

    def remove_further(self) -> None:
        """Removes it again."""
        self.pools[0].remove(self.layers.pop()["attention"])
        self._further = None

    def close(self) -> None:
        for layer in self.layers:
            for cache in layer.values():
                cache.close()

    # ---- sequences ---------------------------------------------------------------------------------------------------
    def living(self) -> list[Held]:
        """Those of which somebody knows."""
        return living(self.sequences)

    def new(self) -> Held:
        """An empty sequence."""
        held = Held({window: pool.table() for window, pool in self.pools.items()}, self._new_slot())
        self.sequences.add(held)
        return held

    def copy(self, source: Held, length: int) -> Held:
        """A sequence of the first `length` tokens of another one, or of none if these can't be kept."""
        length = self.reachable(source, length)
        tables = {window: pool.copy(source.tables[window], length) for window, pool in self.pools.items()}
        held = Held(tables, self._new_slot())
        if held.slot is not None and source.slot is not None:
            if source.slot.length == length:
                self._snapshot(source.slot)
            held.slot.snapshots = {n: states for n, states in source.slot.snapshots.items() if n <= length}
            held.slot.length = -1
        held.exact, held.further = min(source.exact, length), min(source.further, length)
        held.states, held.adapter = copy.copy(source.states), source.adapter
        held.append(source.ids[:length])
        self.sequences.add(held)
        return held

    def _new_slot(self) -> Slot | None:
        if not self.states:
            return None
        taken = {SCRAP} | {held.slot.number for held in self.living() if held.slot is not None}
        number = next(i for i in range(len(taken) + 1) if i not in taken)
        if number >= self._slots:
            self._before_change()
            more = max(4, 2 * self._slots)
            for cache in self.states:
                cache.resize(more)
            self._slots = more
        for cache in self.states:
            cache.load(number, None)
        return Slot(number)

    def reachable(self, held: Held, length: int) -> int:
        """How many of the first `length` tokens of a sequence can be kept."""
        length = min(length, len(held.ids))
        return min((pool.reachable(held.tables[w], length) for w, pool in self.pools.items()), default=length)

    def shorten(self, held: Held, length: int) -> int:
        """Shortens a sequence to its first `length` tokens; returns how many remain.

        That is 0 if a layer with a sliding window no longer has the tokens that it would need.
        """
        length = self.reachable(held, length)
        held.exact, held.further = min(held.exact, length), min(held.further, length)
        if not length:
            held.adapter = None
        if length < len(held.ids):
            held.cut(length)
        for window, pool in self.pools.items():
            pool.shorten(held.tables[window], length)
        if held.slot is not None:
            held.slot.snapshots = {n: states for n, states in held.slot.snapshots.items() if n <= length}
        return length

    def limit(self, tokens: int) -> None:
        """Limits the tokens that all sequences hold together: more of them raise MemoryError.

        Args:
            tokens: at least n_ctx.
        """
        for pool in self.pools.values():
            pool.limit = 2 + -(-max(tokens, self.n_ctx) // PAGE)  # SCRAP, and one that is copied

    # ---- computing ---------------------------------------------------------------------------------------------------
    def restored(self, held: Held) -> int:
        """Restores states; returns how many tokens they have seen: the others must be computed again."""
        slot = held.slot
        if slot is None or slot.length == len(held.ids):
            return len(held.ids)
        nearest = max((n for n in slot.snapshots if n <= len(held.ids)), default=0)
        slot.length = -1
        for i, cache in enumerate(self.states):
            cache.load(slot.number, slot.snapshots[nearest][i] if nearest else None)
        slot.length = nearest
        return nearest

    @contextmanager
    def caught_up(self, sequences: Sequence[Held]) -> Iterator[list[list[int]]]:
        """Computes, in a `with` statement, first the tokens again that the states of sequences have not seen.

        Yields:
            These tokens of each sequence, without which it is until they are computed.
        """
        former = [list(held.ids) if held.slot is not None else held.ids for held in sequences]
        again = []
        try:
            for held in sequences:
                seen = self.restored(held)
                again.append(held.ids[seen:])
                held.exact = min(held.exact, seen)  # whether the others are again exact depends on the caller
                held.cut(seen)
            yield again
        except BaseException:
            for held, ids in zip(sequences, former, strict=True):
                if len(held.ids) < len(ids):
                    held.append(ids[len(held.ids) :])
            raise

    def reserve(self, held: Held, count: int) -> None:
        """Before a compute that appends `count` tokens to a sequence."""
        start = len(held.ids)
        for window, pool in self.pools.items():
            pool.reserve(held.tables[window], start, start + count)

    def begin(self, held: Held, count: int) -> None:
        """Notes that a compute begins, which changes the states of a sequence."""
        if held.slot is not None:
            latest = max(held.slot.snapshots, default=0)
            if count > 1 or held.slot.length - latest >= APART:
                self._snapshot(held.slot)
            held.slot.length = -1

    def end(self, held: Held, tokens: Sequence[int], exact: bool) -> None:
        """Notes that a compute appended tokens to a sequence."""
        exact = exact and held.exact == len(held.ids)
        held.append(tokens)
        if exact:
            held.exact = len(held.ids)
        if held.slot is not None:
            held.slot.length = len(held.ids)

    def snapshot(self, held: Held) -> None:
        """Keeps a copy of the states of a sequence, to which it can be shortened without computing tokens again."""
        if held.slot is not None and held.slot.length == len(held.ids):
            self._snapshot(held.slot)

    def _snapshot(self, slot: Slot) -> None:
        if slot.length <= 0 or slot.length in slot.snapshots or not self._snapshots:
            return
        kept = sorted(slot.snapshots)[max(0, len(slot.snapshots) + 1 - self._snapshots) :]
        copies = [cache.save(slot.number) for cache in self.states]
        slot.snapshots = {**{n: slot.snapshots[n] for n in kept}, slot.length: copies}

    # ---- saving ------------------------------------------------------------------------------------------------------
    @property
    def divisible(self) -> bool:
        """Whether parts of sequences can be saved: all layers keep keys and values of all tokens."""
        return not self.states and set(self.pools) == {0}

    def save_part(self, held: Held, start: int, end: int) -> bytes:
        """The keys and values of the tokens from `start` to before `end` of a sequence, if it is divisible."""
        cells = held.tables[0].cells(start, end)
        return b"".join(part for cache in self.paged for part in cache.save(cells))

    def append_part(self, held: Held, ids: Sequence[int], data: memoryview, exact: bool) -> None:
        """Appends tokens to a sequence whose keys and values are what save_part returned.

        Raises:
            ValueError: there are more or less bytes than these tokens have.
            MemoryError: there is no memory for them.
        """
        start, sizes = len(held.ids), [cache.sizes(len(ids)) for cache in self.paged]
        if (need := sum(map(sum, sizes))) != len(data):
            raise ValueError(f"{len(data)} bytes are given, {len(ids)} tokens have {need}")
        self.reserve(held, len(ids))
        cells, offset = held.tables[0].cells(start, start + len(ids)), 0
        for cache, each in zip(self.paged, sizes, strict=True):
            parts = []
            for size in each:
                parts.append(np.frombuffer(data[offset : offset + size], np.uint8))
                offset += size
            cache.load(cells, parts)
        self.end(held, ids, exact)

    def save(self, held: Held) -> bytes:
        """The token ids of a sequence with what the layers keep of them; not the name of its adapter."""
        length = self.restored(held)
        ids, slot = held.ids, held.slot
        first = {str(window): table.gone for window, table in held.tables.items()}
        seen = self._further is not None and held.further >= len(ids)
        further = self._further.save(held.tables[0].last_cells(len(ids))) if self._further is not None and seen else []
        counts = {"tokens": len(ids), "exact": held.exact, "states": length, "further": sum(map(len, further))}
        header = json.dumps({**self.format, **counts, "gone": first})
        parts = [MAGIC, struct.pack("<I", len(header)), header.encode(), packed(ids)]
        for cache in self.paged:
            parts += cache.save(held.tables[cache.window].last_cells(len(ids)))
        if slot is not None:
            parts += [cache.save(slot.number) for cache in self.states]
        return b"".join(parts + further)

    def load(self, state: memoryview, caller: str) -> Held:
        """A sequence of what save returned. A state of another model or cache is refused."""
        try:
            return self._loaded(state)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
            raise ValueError(f"{caller}: {error}") from None

    def _loaded(self, view: memoryview) -> Held:
        if bytes(view[:8]) != MAGIC:
            raise ValueError("the first bytes are not those of a state")
        (length,) = struct.unpack("<I", view[8:12])
        if len(view) < 12 + length:
            raise ValueError("the state is incomplete")
        header = json.loads(bytes(view[12 : 12 + length]))
        tokens, exact, gone, seen = (header.pop(name) for name in ("tokens", "exact", "gone", "states"))
        further = header.pop("further", 0)  # bytes; they are left out by a model that does not use the layer
        if header != self.format:
            raise ValueError(f"the state is of {header}, the model has {self.format}")
        for name, value, most in (("tokens", tokens, self.n_ctx), ("exact", exact, tokens), ("seen", seen, tokens)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
                raise ValueError(f"the state has {value!r} {name}: need an integer from 0 to {most}")
        if {int(window) for window in gone} != set(self.pools):
            raise ValueError(f"the state has the windows {list(gone)}: need {list(self.pools)}")
        offset = 12 + length
        ids, length = unpacked(view[offset:], tokens, self.n_vocab, self.n_input)
        offset += length
        held = self.new()
        for window, pool in self.pools.items():
            before, table = gone[str(window)], held.tables[window]
            if isinstance(before, bool) or not isinstance(before, int) or before < 0 or (before and not window):
                raise ValueError(f"the state lacks {before!r} pages of window {window}")
            table.count = table.gone = before = min(before, -(-tokens // PAGE))
            if pool.reachable(table, tokens) != tokens:
                raise ValueError(f"the state lacks {before} pages of window {window}")
            pool.reserve(table, before * PAGE, tokens)
        items: list[tuple[Any, Any, list[int]]] = []
        for cache in self.paged:
            cells = held.tables[cache.window].last_cells(tokens)
            items.append((cache, cells, cache.sizes(len(cells))))
        items += [(cache, None, [4 * cache.size]) for cache in self.states]
        if isinstance(further, bool) or not isinstance(further, int) or further < 0:
            raise ValueError(f"the state has {further!r} bytes of a further layer")
        unused = further if self._further is None else 0
        if further and self._further is not None:
            cells = held.tables[0].last_cells(tokens)
            items.append((self._further, cells, self._further.sizes(len(cells))))
        if len(view) != offset + sum(sum(sizes) for *_, sizes in items) + unused or len(ids) != tokens:
            raise ValueError("the state is incomplete")
        for cache, cells, sizes in items:
            parts = []
            for size in sizes:
                parts.append(np.frombuffer(view[offset : offset + size], np.uint8))
                offset += size
            if cells is None:
                assert held.slot is not None
                cache.load(held.slot.number, parts[0].tobytes())
            else:
                cache.load(cells, parts)
        if held.slot is not None:
            held.slot.length = seen
            self._snapshot(held.slot)
        held.exact = exact
        held.append(ids)
        if further and self._further is not None:
            held.further = tokens
        return held


def kinds_of(names: Sequence[Any], specs: Sequence[Any]) -> tuple[int, int]:
    """The types of keys and of values."""
    wrong = [name for name in names if not isinstance(name, str) or name not in TYPES]
    if wrong or len(names) != 2:
        raise ValueError(f"load: kv_type is {(wrong or [names])[0]!r}: need one of {', '.join(TYPES)}, or two of them")
    kinds = TYPES[names[0]], TYPES[names[1]]
    parts = [part for spec in specs for part in parts_of(spec)]
    for part in parts:
        which = (0, 0) if isinstance(part, Latent) else (0, 1)  # the type of its values is that of the keys
        for dim, number in zip((getattr(part, what, 0) for what in ("key_dim", "value_dim")), which):
            name, block = names[number], ggml.ggml_blck_size(kinds[number])
            if dim % block:
                raise ValueError(f"load: kv_type is {name!r}, a head has {dim} elements: need a multiple of {block}")
    return kinds
