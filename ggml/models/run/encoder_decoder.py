"""The decoder of a model whose encoder reads another text: its keys and values, and those of the encoder's states."""

from __future__ import annotations

import itertools
import json
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..._owners import Owner, keep
from ..arch import FAMILIES
from ..arch.base import Builder, Inputs
from ..arch.prepared import Prepared
from ..files.config import Config
from .graphs import NODES_PER_LAYER, Parts
from .token_bytes import packed, unpacked

F32, I32, I64 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32, ggml.GGML_TYPE_I64
NODES_PER_PART = 48  # of a layer, for each text
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
    held = Prepared()
    try:
        keep(held, "ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
        ids = ggml.ggml_new_tensor_1d(held.ctx, I32, 1)
        g = Builder(held.ctx, parts.config, parts.weights, _inputs(ids))
        FAMILIES[parts.config.arch].module.beside(g, ggml.ggml_new_tensor_2d(held.ctx, F32, parts.config.n_embd, 1))
        return tuple(g.points)
    finally:
        held.free()


def _inputs(ids: Any) -> Inputs:
    return Inputs(ids, ids, {False: None}, 1)


def _builder(parts: Parts, ctx: Any, ids: Any, adapter: str | None) -> Builder:
    """What adds the decoder's nodes; all tokens of a text have its adapter."""
    adapters = parts.adapters_of_all(adapter)
    return parts.builder(ctx, parts.config, parts.weights, _inputs(ids), None, adapters, parts.traced, parts.edits)


class Step(Prepared):
    """A graph of a builder's nodes.

    Args:
        make: function that adds the nodes to a context; it returns their builder, and the results.
        threads: threads to compute with.
        parts: texts of which the decoder appends tokens.

    Attributes:
        traced: the points that are looked at: f32 [tokens, elements].
    """

    def __init__(self, make: Callable[[Any], tuple[Builder, Sequence[Any]]], threads: int, parts: int = 1) -> None:
        super().__init__()
        self.threads = threads
        keep(self, "ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
        try:
            g, results = make(self.ctx)
            nodes = (g.config.own["decoder_layers"] + 1) * (2 * NODES_PER_LAYER + NODES_PER_PART * parts)
            self.graph = ggml.ggml_new_graph_custom(self.ctx, nodes, False)
            for tensor in (*g.effects, *results):
                ggml.ggml_build_forward_expand(self.graph, tensor)
        except BaseException:
            self.free()
            raise
        values = {name: to_numpy(g.points[name]) for name in g.traced if name in g.points}
        self.traced = {name: array.reshape(-1, array.shape[-1]) for name, array in values.items()}

    def run(self) -> None:
        """Computes the graph."""
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, self.threads)


class Reading(Prepared):
    """What the layers of the decoder read of another text: the keys and values of the encoder's states.

    Args:
        parts: what the model consists of.
        ids: the text that the encoder read.
        adapter: name of its adapter, or None.

    Attributes:
        cross: for each layer keys and values as tensors, f32 [T, D H] and [D H, T] (NumPy order here and below).
    """

    def __init__(self, parts: Parts, ids: Sequence[int], adapter: str | None) -> None:
        super().__init__()
        self.ids, self.adapter = list(ids), adapter
        self.cross: list[tuple[Any, ...]] = []
        c = parts.config
        keep(self, "ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
        for _ in range(c.own["decoder_layers"]):
            ne = (c.n_head * c.key_dim, len(ids))
            self.cross.append(tuple(ggml.ggml_new_tensor_2d(self.ctx, F32, *shape) for shape in (ne, ne[::-1])))

    def compute(self, parts: Parts, states: np.ndarray, run: Run, threads: int) -> Reading:
        """Computes the keys and values of the encoder's states [T, C]."""

        def make(ctx: Any) -> tuple[Builder, list[Any]]:
            x = ggml.ggml_new_tensor_2d(ctx, F32, states.shape[1], len(states))
            to_numpy(x).reshape(states.shape)[...] = states
            g = _builder(parts, ctx, ggml.ggml_new_tensor_1d(ctx, I32, len(states)), self.adapter)
            found = FAMILIES[parts.config.arch].module.cross_keys_values(g, x)
            pairs = zip(self.cross, found, strict=True)
            return g, [ggml.ggml_cpy(ctx, new, old) for a, b in pairs for old, new in zip(a, b)]

        step = Step(make, threads)
        try:
            run(step)
        finally:
            step.free()
        return self

    def arrays(self) -> list[np.ndarray]:
        """The keys and values as arrays, f32 [T, D H]."""
        n = len(self.ids)
        return [a for k, v in self.cross for a in (to_numpy(k).reshape(n, -1), to_numpy(v).reshape(-1, n).T)]


class Places(Prepared):
    """The keys and values of a text's tokens, zeros at first.

    Attributes:
        number: no other has it.
        count: tokens that there is room for.
        tensors: for each layer keys and values, f32 [count, D H].
    """

    _numbers = itertools.count()

    def __init__(self, config: Config, count: int) -> None:
        super().__init__()
        self.number, self.count = next(self._numbers), count
        keep(self, "ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
        size, layers = config.n_head * config.key_dim, config.own["decoder_layers"]
        self.tensors = [tuple(ggml.ggml_new_tensor_2d(self.ctx, F32, size, count) for _ in "kv") for _ in range(layers)]
        for array in self.rows(count):
            array[...] = 0

    def rows(self, n: int) -> list[np.ndarray]:
        """The keys and values of the first tokens, layer by layer: f32 [n, D H]."""
        return [to_numpy(tensor).reshape(self.count, -1)[:n] for pair in self.tensors for tensor in pair]


class Appending(Step):
    """A graph that appends tokens to texts.

    Args:
        texts: the texts, which have the same adapter, and how many tokens each of them gets.
    """

    def __init__(self, texts: Sequence[tuple[Decoding, int]], threads: int) -> None:
        self._inputs: list[dict[str, np.ndarray]] = []  # of each text
        super().__init__(lambda ctx: self._nodes(ctx, texts), threads, len(texts))
        self.single = all(n == 1 for _, n in texts)

    def _nodes(self, ctx: Any, texts: Sequence[tuple[Decoding, int]]) -> tuple[Builder, list[Any]]:
        model, adapter = texts[0][0].parts, texts[0][0].reading.adapter
        module = FAMILIES[model.config.arch].module
        ids = ggml.ggml_new_tensor_1d(ctx, I32, sum(n for _, n in texts))
        self._ids, parts, first = to_numpy(ids), [], 0
        for text, n in texts:
            parts.append(self._part(ctx, module, text, first, n))
            first += n
        g = _builder(model, ctx, ids, adapter)
        out = module.logits(g, module.decode(g, parts))
        self._out = to_numpy(out).reshape(first, -1)
        return g, [out]

    def _part(self, ctx: Any, module: Any, text: Decoding, first: int, n: int) -> Any:
        """The part of a text, and its inputs."""
        places = text.places
        tensors = {
            "rows": ggml.ggml_new_tensor_1d(ctx, I64, n),
            "buckets": ggml.ggml_new_tensor_1d(ctx, I32, places.count * n),
            "mask": ggml.ggml_new_tensor_2d(ctx, F32, places.count, n),
        }
        self._inputs.append({name: to_numpy(tensor) for name, tensor in tensors.items()})

        def store(i: int, k: Any, v: Any) -> tuple[Any, ...]:
            pairs = zip(places.tensors[i], (k, v), strict=True)
            return tuple(ggml.ggml_set_rows(ctx, place, new, tensors["rows"]) for place, new in pairs)

        return module.Part(first, n, tensors["buckets"], tensors["mask"], store, text.reading.cross)

    def fill(self, texts: Sequence[tuple[Decoding, Sequence[int]]]) -> None:
        """Fills in the tokens that the texts get."""
        self._ids[:] = [token for _, tokens in texts for token in tokens]
        for views, (text, tokens) in zip(self._inputs, texts, strict=True):
            n, past, config = len(tokens), len(text.ids), text.parts.config
            query, key = np.arange(past, past + n)[:, None], np.arange(text.places.count)
            views["rows"][:] = query[:, 0]
            before = FAMILIES[config.arch].module.buckets_before(len(key), config.own["buckets"])
            views["buckets"][:] = before[np.maximum(query - key, 0)].reshape(-1)
            views["mask"].reshape(n, -1)[...] = np.where(key <= query, np.float32(0), np.float32(-np.inf))

    def results(self, texts: Sequence[tuple[Decoding, Sequence[int]]]) -> list[np.ndarray]:
        """The logits after each token, for each text f32 [n, n_vocab], valid until the graph is computed again."""
        return np.split(self._out, np.cumsum([len(tokens) for _, tokens in texts])[:-1])


class Steps(Owner):
    """The graphs that append tokens; those of single tokens are kept.

    Args:
        run: function that computes a Step.
        threads: threads to compute with.
        most: graphs that are kept.
    """

    def __init__(self, run: Run, threads: int, most: int) -> None:
        self.run, self.threads, self._most = run, threads, most
        self._kept: OrderedDict[tuple, Appending] = OrderedDict()  # by what each text holds, and the tokens it gets

    def append(self, texts: Sequence[tuple[Decoding, Sequence[int]]]) -> list[np.ndarray]:
        """Appends tokens to texts that have the same adapter.

        Returns:
            The logits after each token, for each text f32 [n, n_vocab], valid until the next call.
        """
        for text, tokens in texts:
            text.grow(len(text.ids) + len(tokens))
        key = tuple((text.places.number, len(tokens)) for text, tokens in texts)
        step = self._kept.pop(key, None)
        if step is None:
            for other in [k for k, kept in self._kept.items() if not kept.single]:
                del self._kept[other]
            step = Appending([(text, len(tokens)) for text, tokens in texts], self.threads)
        self._kept[key] = step
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        step.fill(texts)
        self.run(step)
        for text, tokens in texts:
            text.ids += list(tokens)
        return step.results(texts)

    def forget(self) -> None:
        """Frees the graphs."""
        self._kept.clear()


class Decoding(Owner):
    """A text that is written while another is read.

    Args:
        parts: what the model consists of.
        reading: what the encoder read.
        steps: what appends tokens.

    Attributes:
        ids: the tokens so far.
        places: their keys and values.
    """

    def __init__(self, parts: Parts, reading: Reading, steps: Steps) -> None:
        self.parts, self.reading, self._steps = parts, reading, steps
        self.ids: list[int] = []
        self.places = Places(parts.config, PLACES)

    def grow(self, count: int) -> None:
        """Makes room for so many tokens."""
        places = self.places.count
        while places < count:
            places *= 2
        if places != self.places.count:
            grown = Places(self.parts.config, places)
            for new, values in zip(grown.rows(len(self.ids)), self.rows(), strict=True):
                new[...] = values
            self.places = grown

    def rows(self) -> list[np.ndarray]:
        """The keys and values of the tokens, layer by layer: f32 [n, D H]."""
        return self.places.rows(len(self.ids))

    def append(self, tokens: Sequence[int]) -> np.ndarray:
        """Appends tokens; returns the logits after each, f32 [n, n_vocab], valid until the next call."""
        return self._steps.append([(self, tokens)])[0]

    def shorten(self, length: int) -> None:
        """Forgets all tokens but the first ones."""
        del self.ids[length:]

    def copy(self) -> Decoding:
        """Another one that holds the same."""
        copy = Decoding(self.parts, self.reading, self._steps)
        copy.fill(self.ids, self.rows())
        return copy

    def fill(self, ids: Sequence[int], rows: Sequence[np.ndarray]) -> None:
        """Takes over tokens whose keys and values are known, see `rows`."""
        self.grow(len(ids))
        self.ids = list(ids)
        for place, values in zip(self.rows(), rows, strict=True):
            place[...] = values.reshape(place.shape)

    def save(self) -> bytes:
        """The tokens that were read and written, with their keys and values."""
        read, n = self.reading, len(self.ids)
        header = json.dumps({**form(self.parts.config), "read": len(read.ids), "tokens": n}).encode()
        arrays = [*read.arrays(), *self.rows()]
        parts = [MAGIC, struct.pack("<I", len(header)), header, packed(read.ids), packed(self.ids)]
        return b"".join(parts + [array.astype("<f4").tobytes() for array in arrays])


def form(config: Config) -> dict[str, Any]:
    """What a state must have in common with the model that loads it."""
    layers = config.own["decoder_layers"]
    return {"arch": config.arch, "layers": layers, "width": config.n_head * config.key_dim}


def loaded(parts: Parts, state: memoryview, steps: Steps, most: int) -> Decoding:
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
    decoding = Decoding(parts, reading, steps)
    decoding.fill(texts[1], np.split(written, 2 * len(reading.cross)))
    return decoding
