"""The decoder of a model whose encoder reads another text: its keys and values, and those of the encoder's states."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..._owners import Owner
from ..arch import FAMILIES
from ..arch.base import Builder, Inputs
from ..files.config import Config
from .graphs import NODES_PER_LAYER, Parts
from .token_bytes import packed, unpacked

F32, I32, I64 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32, ggml.GGML_TYPE_I64
PLACES = 64  # for keys and values at first; doubled when they are full
MAGIC = b"GGED\x01\0\0\0"
Run = Callable[[Any], None]  # computes a Step


def has_decoder(config: Config) -> bool:
    """Whether a model has an encoder and a decoder."""
    return "decoder_layers" in config.own


def points_of_decoder(parts: Parts) -> tuple[str, ...]:
    """The names of the values of the decoder that can be traced and changed.

    Raises:
        ValueError: a tensor is missing, or has the wrong shape.
    """
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=True))
    try:
        g = Builder(ctx, parts.config, parts.weights, _inputs(ggml.ggml_new_tensor_1d(ctx, I32, 1)))
        FAMILIES[parts.config.arch].module.beside(g, ggml.ggml_new_tensor_2d(ctx, F32, parts.config.n_embd, 1))
        return tuple(g.points)
    finally:
        ggml.ggml_free(ctx)


def _inputs(ids: Any) -> Inputs:
    return Inputs(ids, ids, {False: None}, 1)


def _builder(parts: Parts, ctx: Any, ids: Any, adapter: str | None) -> Builder:
    """What adds the decoder's nodes; all tokens of a text have its adapter."""
    adapters = parts.adapters_of_all(adapter)
    return parts.builder(ctx, parts.config, parts.weights, _inputs(ids), None, adapters, parts.traced, parts.edits)


class Step:
    """A graph of a builder's nodes, with its context, which it frees.

    Attributes:
        traced: the points that are looked at: f32 [tokens, elements].
    """

    def __init__(self, g: Builder, results: Sequence[Any], threads: int) -> None:
        self.ctx, self.threads = g.ctx, threads
        layers = g.config.own["decoder_layers"]
        self.graph = ggml.ggml_new_graph_custom(self.ctx, 2 * NODES_PER_LAYER * (layers + 1), False)
        for tensor in results:
            ggml.ggml_build_forward_expand(self.graph, tensor)
        values = {name: to_numpy(g.points[name]) for name in g.traced if name in g.points}
        self.traced = {name: array.reshape(-1, array.shape[-1]) for name, array in values.items()}

    def run(self) -> None:
        """Computes the graph."""
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, self.threads)

    def close(self) -> None:
        self.traced = {}
        ggml.ggml_free(self.ctx)


class Reading(Owner):
    """What the layers of the decoder read of another text: the keys and values of the encoder's states.

    Args:
        parts: what the model consists of.
        ids: the text that the encoder read.
        adapter: name of its adapter, or None.

    Attributes:
        cross: for each layer keys and values, f32 [T, D H] (NumPy order here and below) as tensors.
    """

    def __init__(self, parts: Parts, ids: Sequence[int], adapter: str | None) -> None:
        self.ids, self.adapter = list(ids), adapter
        self.cross: list[tuple[Any, Any]] = []
        c = parts.config
        self.ctx: Any = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        for _ in range(c.own["decoder_layers"]):
            k, v = (ggml.ggml_new_tensor_2d(self.ctx, F32, c.n_head * c.key_dim, len(ids)) for _ in "kv")
            self.cross.append((k, v))

    def compute(self, parts: Parts, states: np.ndarray, run: Run, threads: int) -> Reading:
        """Computes the keys and values of the encoder's states [T, C]."""
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        try:
            x = ggml.ggml_new_tensor_2d(ctx, F32, states.shape[1], len(states))
            to_numpy(x).reshape(states.shape)[...] = states
            g = _builder(parts, ctx, ggml.ggml_new_tensor_1d(ctx, I32, len(states)), self.adapter)
            found = FAMILIES[parts.config.arch].module.cross_keys_values(g, x)
            pairs = zip(self.cross, found, strict=True)
            run(Step(g, [ggml.ggml_cpy(ctx, new, old) for a, b in pairs for old, new in zip(a, b)], threads))
        finally:
            ggml.ggml_free(ctx)
        return self

    def arrays(self) -> list[np.ndarray]:
        """The keys and values as arrays."""
        return [to_numpy(tensor).reshape(len(self.ids), -1) for pair in self.cross for tensor in pair]

    def __del__(self) -> None:
        ctx, self.ctx, self.cross = getattr(self, "ctx", None), None, []
        if ctx is not None:
            ggml.ggml_free(ctx)


class Decoding(Owner):
    """A text that is written while another is read.

    Args:
        parts: what the model consists of.
        reading: what the encoder read.
        run: function that computes a Step.
        threads: threads to compute with.

    Attributes:
        ids: the tokens so far.
    """

    def __init__(self, parts: Parts, reading: Reading, run: Run, threads: int) -> None:
        self.parts, self.reading, self.threads = parts, reading, threads
        self._run = run
        self.module, self.layers = FAMILIES[parts.config.arch].module, parts.config.own["decoder_layers"]
        self.ids: list[int] = []
        self.steps: dict[int, Step] = {}
        self._views: dict[str, np.ndarray] = {}
        self.places = 0
        self._held: Any = None  # context of keys and values
        self._kept: list[tuple[Any, ...]] = []

    def _grow(self, count: int) -> None:
        """Makes room for the keys and values of so many tokens."""
        places = max(PLACES, self.places)
        while places < count:
            places *= 2
        if places == self.places:
            return
        self._forget_steps()
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        size = self.parts.config.n_head * self.parts.config.key_dim
        old = self.rows(len(self.ids))
        kept = [tuple(ggml.ggml_new_tensor_2d(ctx, F32, size, places) for _ in "kv") for _ in range(self.layers)]
        former, self._held, self._kept, self.places = self._held, ctx, kept, places
        for array in self.rows(places):
            array[...] = 0
        for new, values in zip(self.rows(places), old):
            new[: len(values)] = values
        if former is not None:
            old.clear()
            ggml.ggml_free(former)

    def rows(self, count: int) -> list[np.ndarray]:
        """The keys and values of the first tokens, layer by layer: f32 [count, D H]."""
        return [to_numpy(tensor).reshape(self.places, -1)[:count] for pair in self._kept for tensor in pair]

    def append(self, tokens: Sequence[int]) -> np.ndarray:
        """Appends tokens; returns the logits after each, f32 [n, n_vocab], valid until the next call."""
        n, past = len(tokens), len(self.ids)
        self._grow(past + n)
        step = self.steps.get(n)
        if step is None:
            self._forget_steps()
            step = self.steps[n] = self._step(n)
        views, query, key = self._views, np.arange(past, past + n)[:, None], np.arange(self.places)
        views["ids"][:], views["rows"][:] = tokens, query[:, 0]
        buckets = self.module.bucket(key - query, self.parts.config.own["buckets"], False)
        views["buckets"][:] = buckets.reshape(-1)
        views["mask"].reshape(n, -1)[...] = np.where(key <= query, np.float32(0), np.float32(-np.inf))
        self._run(step)
        self.ids += list(tokens)
        return views["out"].reshape(n, -1)

    def _step(self, n: int) -> Step:
        """The graph that appends n tokens."""
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        try:
            tensors = {
                "ids": ggml.ggml_new_tensor_1d(ctx, I32, n), "rows": ggml.ggml_new_tensor_1d(ctx, I64, n),
                "buckets": ggml.ggml_new_tensor_1d(ctx, I32, self.places * n),
                "mask": ggml.ggml_new_tensor_2d(ctx, F32, self.places, n),
            }  # fmt: skip

            def store(i: int, k: Any, v: Any) -> tuple[Any, ...]:
                pairs = zip(self._kept[i], (k, v), strict=True)
                return tuple(ggml.ggml_set_rows(ctx, place, new, tensors["rows"]) for place, new in pairs)

            g = _builder(self.parts, ctx, tensors["ids"], self.reading.adapter)
            x = self.module.decode(g, tensors["buckets"], tensors["mask"], store, self.reading.cross)
            tensors["out"] = self.module.logits(g, x)
            step = Step(g, [tensors["out"]], self.threads)
            self._views = {name: to_numpy(tensor) for name, tensor in tensors.items()}
            return step
        except BaseException:
            ggml.ggml_free(ctx)
            raise

    def shorten(self, length: int) -> None:
        """Forgets all tokens but the first ones."""
        del self.ids[length:]

    def copy(self) -> Decoding:
        """Another one that holds the same."""
        copy = Decoding(self.parts, self.reading, self._run, self.threads)
        copy.fill(self.ids, self.rows(len(self.ids)))
        return copy

    def fill(self, ids: Sequence[int], rows: Sequence[np.ndarray]) -> None:
        """Takes over tokens whose keys and values are known, see `rows`."""
        self._grow(len(ids))
        for place, values in zip(self.rows(len(ids)), rows):
            place[...] = values.reshape(place.shape)
        self.ids = list(ids)

    def save(self) -> bytes:
        """The tokens that were read and written, with their keys and values."""
        read, n = self.reading, len(self.ids)
        header = json.dumps({**form(self.parts.config), "read": len(read.ids), "tokens": n}).encode()
        arrays = [*read.arrays(), *self.rows(n)]
        parts = [MAGIC, struct.pack("<I", len(header)), header, packed(read.ids), packed(self.ids)]
        return b"".join(parts + [array.astype("<f4").tobytes() for array in arrays])

    def _forget_steps(self) -> None:
        self._views = {}
        while self.steps:
            self.steps.popitem()[1].close()

    def __del__(self) -> None:
        if hasattr(self, "_held"):
            self.close()

    def close(self) -> None:
        """Frees the graphs and what was kept."""
        self._forget_steps()
        self._kept, self.places = [], 0
        held, self._held = self._held, None
        if held is not None:
            ggml.ggml_free(held)


def form(config: Config) -> dict[str, Any]:
    """What a state must have in common with the model that loads it."""
    layers = config.own["decoder_layers"]
    return {"arch": config.arch, "layers": layers, "width": config.n_head * config.key_dim}


def loaded(parts: Parts, state: memoryview, run: Run, threads: int, most: int) -> Decoding:
    """What Decoding.save returned, of at most so many tokens each.

    Raises:
        ValueError: the bytes are no state, or one of another model.
    """
    config = parts.config
    if bytes(state[:8]) != MAGIC:
        raise ValueError("the first bytes are not those of a state")
    try:
        (length,) = struct.unpack("<I", state[8:12])
        header = json.loads(bytes(state[12 : 12 + length]))
        counts = [header.pop(name) for name in ("read", "tokens")]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, struct.error) as error:
        raise ValueError(f"the state is damaged ({type(error).__name__})") from None
    if header != form(config):
        raise ValueError(f"the state is of {header}, the model has {form(config)}")
    if any(type(n) is not int or not low <= n <= most for n, low in zip(counts, (1, 0))):
        raise ValueError(f"the state has {counts} tokens: need up to {most}")
    size, at, texts = 8 * config.own["decoder_layers"] * header["width"], 12 + length, []
    for n in counts:
        ids, taken = unpacked(state[at:], n, config.n_vocab, 0)
        texts.append(ids)
        at += taken
    if len(state) != at + size * sum(counts) or any(token < 0 for ids in texts for token in ids):
        raise ValueError("the state is incomplete")
    values = np.frombuffer(state[at:], "<f4")
    read, written = np.split(values, [size // 4 * counts[0]])
    reading = Reading(parts, texts[0], None)
    for place, part in zip(reading.arrays(), np.split(read, 2 * len(reading.cross))):
        place[...] = part.reshape(place.shape)
    decoding = Decoding(parts, reading, run, threads)
    decoding.fill(texts[1], np.split(written, 2 * len(reading.cross)))
    return decoding
