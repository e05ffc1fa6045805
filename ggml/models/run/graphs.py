"""Prepared graphs: a graph for a number of tokens, built once and computed many times with other tokens and lengths."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..._owners import keep
from ..arch import FAMILIES
from ..arch.base import Builder, Inputs, Pages, Pair
from ..arch.further import build_further, config_of_further
from ..arch.prepared import Prepared
from ..arch.t5 import bucket
from ..files.config import Config
from .batch import Piece, positions, runs
from .memory import Held, Memory
from .pages import SCRAP

F16, F32, I32, I64 = ggml.GGML_TYPE_F16, ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32, ggml.GGML_TYPE_I64
NODES_PER_LAYER = 128  # room in a graph; experts and adapters take more
KEPT_STEPS = 12  # most prepared graphs that are kept
KEPT_BYTES = 64 << 20  # most memory of theirs


class Shape(NamedTuple):
    """What distinguishes prepared graphs.

    `result` is "none" (only what the layers keep is computed), "logits", "scores" (also their soft_max and argmax), or
    "hidden" (the state before the output matrix).
    """

    tokens: int
    outputs: int  # tokens whose result is needed; as many as there are tokens: of all, in their order
    sequences: int  # most sequences that may have some of the tokens, where each token of a picture that sees more than
    # what precedes it counts as one; without caches the number of texts
    result: str
    exact: bool = False
    even: bool = False  # the sequences are as many, and have the same number of tokens each
    images: bool = False  # some tokens are embeddings of pictures
    states: bool = False  # the states of all tokens are a further result
    further: bool = False  # not the model: its layer that predicts further tokens; the states are a further result
    adapters: tuple[str, ...] = ()  # those that only some of the sequences have


class Parts(NamedTuple):
    """What graphs are built of."""

    config: Config
    weights: Mapping[str, Any]
    adapters: Mapping[str, Sequence[Pair]]
    edits: Mapping[str, Sequence[Callable]]
    traced: frozenset[str]
    builder: Callable[..., Builder] = Builder
    named: Mapping[str, Mapping[str, Pair]] = {}  # adapters that sequences may have, by name

    def adapters_with(self, names: Sequence[str]) -> Mapping[str, Sequence[Pair]]:
        """The adapters of all tokens, and those of some names."""
        found = {weight: list(pairs) for weight, pairs in self.adapters.items()}
        for name in names:
            for weight, pair in self.named[name].items():
                found.setdefault(weight, []).append(pair)
        return found

    def adapters_of_all(self, name: str | None) -> dict[str, list[Pair]]:
        """The adapters of graphs all of whose tokens have the one of a name, or none."""
        found = {weight: list(pairs) for weight, pairs in self.adapters.items()}
        for weight, pair in self.named[name].items() if name is not None else ():
            found.setdefault(weight, []).append(Pair(pair.a, pair.b, pair.scale))
        return found

    def further(self) -> Parts:
        """Those of the layer that predicts further tokens: its values are neither looked at nor changed."""
        return Parts(config_of_further(self.config), self.weights, self.adapters, {}, frozenset())


def build(g: Builder, result: str = "all") -> list[Any]:
    """Adds the nodes of the whole model to a context.

    Returns:
        The logits [vocabulary, M] or states [C, M] (see Shape), then the further results.
    """
    module = FAMILIES[g.config.arch].module
    x = g.with_pictures(module.embed(g))
    for i in range(g.config.n_layer):
        x = module.layer(g, i, x)
    states = [module.head(g, x)] if g.inputs.states else []
    if result == "none":
        return states or [x]
    before = set(g.points)
    x = g.point("output_norm", g.last(states[0]) if states else module.head(g, g.last(x)))
    if result != "hidden":
        x = g.point("logits", g.output(x))
    g.points_of_results = g.points.keys() - before
    if result == "scores":
        states += [ggml.ggml_soft_max(g.ctx, x), ggml.ggml_argmax(g.ctx, x)]
    return [x, *states]


class Step(Prepared):
    """A prepared graph: its inputs and results are NumPy views, `run` computes it.

    Attributes:
        ids, positions: i32 [N] (NumPy order here and below).
        types: i32 [N], of a graph without memory: which text of a pair a token is of.
        vectors, texts: f32 [N, inputs] and [N, 1], of a graph for pictures: embeddings with what layers add to them,
            and 1 where there is none, else 0.
        places: i32 [4, N], of a graph for pictures whose positions have several dimensions.
        before: f32 [N, C], of a graph that predicts further tokens: the states of the tokens before.
        adapters: f32 [N, 1] by name: 1 for the tokens that have an adapter, else 0.
        masks: f16 [S, 1, T, T] by "has a sliding window", of a graph without memory.
        filled: all inputs, in the order in which they were made.
        out: f32 [M, vocabulary or C]; `rows` of it are those that are wanted.
        extra: further results: the states, those of "scores".
        points: the names of the values that can be traced and changed.
    """

    def __init__(self, shape: Shape, parts: Parts, memory: Memory | None, threads: int) -> None:
        super().__init__()
        self.shape, self.threads = shape, threads
        self.used = shape.tokens  # tokens that count; those behind them only fill the shape
        self.padded: np.ndarray | None = None  # of texts without memory: the tokens that count
        self.rows: slice | list[int] = slice(None)
        self._windows_alone = parts.config.whole_pictures_in_windows
        self.filled: list[np.ndarray] = []
        try:
            self._build(shape, parts.further() if shape.further else parts, memory)
        except BaseException:
            self.close()
            raise

    def _input(self, kind: int, *ne: int) -> tuple[Any, np.ndarray]:
        tensor = ggml.ggml_new_tensor(self.inputs_ctx, kind, len(ne), (ctypes.c_int64 * len(ne))(*ne))
        values = to_numpy(tensor)
        values[...] = 0
        self.filled.append(values)
        return tensor, values

    def _inputs(self, shape: Shape, config: Config, memory: Memory | None) -> Inputs:
        """Makes the tensors that are filled in before each compute."""
        n, s = shape.tokens, shape.sequences
        ids, self.ids = self._input(I32, n)
        positions, self.positions = self._input(I32, n)
        self.masks: dict[bool, np.ndarray] = {}
        self.tables: dict[int, np.ndarray] = {}
        self.cells: dict[int, np.ndarray] = {}
        self.outputs: np.ndarray | None = None
        self.slots: np.ndarray | None = None
        self.vectors: np.ndarray | None = None
        self.before: np.ndarray | None = None
        self.places: np.ndarray | None = None
        self.adapters: dict[str, np.ndarray] = {}
        vectors = texts = before = places = None
        if shape.further:
            before, values = self._input(F32, config.n_embd, n)
            self.before = values.reshape(n, config.n_embd)
        if shape.images:
            vectors, self.vectors = self._input(F32, config.n_input, n)
            texts, self.texts = self._input(F32, 1, n)
            if config.sections:
                places, values = self._input(I32, 4 * n)
                self.places = values.reshape(4, n)
        masks: dict[bool, Any] = {False: None, True: None}
        if memory is None:
            for local in set(config.local):
                masks[local], mask = self._input(F16, n // s, n // s, 1, s)
                self.masks[local] = mask.reshape(s, 1, n // s, n // s)
            types, self.types = self._input(I32, n)
            buckets = None
            if "buckets" in config.own:
                buckets, values = self._input(I32, (n // s) ** 2)
                place = np.arange(n // s)
                values[:] = bucket(place - place[:, None], config.own["buckets"], True).reshape(-1)
            return Inputs(ids, positions, masks, s, types=types, buckets=buckets, adapters=self._adapters(shape))
        pages, outputs, slots = {}, None, None
        for window, pool in memory.pools.items():
            table, self.tables[window] = self._input(I32, 3 + pool.most, s)
            self.tables[window] = self.tables[window].reshape(s, 3 + pool.most)
            cells, self.cells[window] = self._input(I64, n)
            pages[window] = Pages(table, cells)
        if shape.outputs != n:
            outputs, self.outputs = self._input(I32, max(1, shape.outputs))
        if memory.states and not shape.further:
            slots, self.slots = self._input(I32, s)
        return Inputs(ids, positions, masks, s if shape.even else 1, outputs, pages, slots, shape.exact,
                      vectors=vectors, texts=texts, places=places, before=before, states=shape.states,
                      adapters=self._adapters(shape))  # fmt: skip

    def _adapters(self, shape: Shape) -> dict[str, Any]:
        """Makes the tensors that say which tokens have an adapter."""
        tensors = {}
        for name in shape.adapters:
            tensors[name], self.adapters[name] = self._input(F32, 1, shape.tokens)
        return tensors

    def _build(self, shape: Shape, parts: Parts, memory: Memory | None) -> None:
        keep(self, "inputs_ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
        keep(self, "ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
        inputs = self._inputs(shape, parts.config, memory)
        caches = memory.layers if memory is not None else None
        adapters = parts.adapters_with(shape.adapters) if shape.adapters else parts.adapters
        builder = parts.builder(
            self.ctx, parts.config, parts.weights, inputs, caches, adapters, parts.traced, parts.edits
        )
        if shape.further:
            results = build_further(builder, FAMILIES[parts.config.arch].module, shape.result)
        else:
            results = build(builder, shape.result)
        self.points = tuple(builder.points)
        size = parts.config.n_layer * NODES_PER_LAYER * (1 + parts.config.n_expert_used) + 1024
        self.graph = ggml.ggml_new_graph_custom(self.ctx, size, False)
        for tensor in results:
            ggml.ggml_set_output(tensor)
            ggml.ggml_build_forward_expand(self.graph, tensor)
        for tensor in builder.effects:
            ggml.ggml_build_forward_expand(self.graph, tensor)
        keep(self, "allocator", ggml.ggml_gallocr_new, ggml.ggml_backend_cpu_buffer_type())
        if not ggml.ggml_gallocr_alloc_graph(self.allocator, self.graph):
            raise MemoryError(f"load: no memory for a graph of {shape.tokens} tokens")
        self.bytes = ggml.ggml_gallocr_get_buffer_size(self.allocator, 0)
        self.out, *self.extra = (to_numpy(t) for t in results)
        self.out = self.out.reshape(-1, self.out.shape[-1])
        self._traced = {
            name: (lambda a: a.reshape(-1, a.shape[-1]))(to_numpy(builder.points[name]))
            for name in parts.traced
            if name in builder.points
        }
        self._of_results = builder.points_of_results

    def fill(self, pieces: Sequence[Piece], items: Sequence[Held]) -> None:
        """Makes the graph append pieces to sequences, of which `items` has memory for them."""
        row = out = column = 0
        rows: list[int] = []
        if self.vectors is not None:
            self.vectors[...], self.texts[...] = 0, 1
        for values in self.adapters.values():
            values[...] = 0
        for number, (sequence, tokens, wanted, _) in enumerate(pieces):
            held = items[sequence]
            start, n, place = len(held.ids), len(tokens), held.position
            if self.vectors is not None:
                self._fill_vectors(row, tokens)
                self.ids[row : row + n] = [max(token, 0) for token in tokens]
                places = positions(tokens, place)
                self.positions[row : row + n] = places[0]
                if self.places is not None:
                    self.places[:, row : row + n] = places
            elif n == 1:
                self.ids[row], self.positions[row] = tokens[0], place
            else:
                self.ids[row : row + n], self.positions[row : row + n] = tokens, np.arange(place, place + n)
            parts = ((0, n, 0),) if self.vectors is None else runs(tokens)
            for window, table in self.tables.items():
                pages = held.tables[window]
                seen = bool(window) or not self._windows_alone  # what follows within a picture
                for line, (first, count, after) in zip(table[column:], parts):
                    line[0], line[1], line[2] = row + first, count, start + first + count + after * seen
                    line[3 : 3 + pages.count] = pages.pages[: pages.count]
                if n == 1:
                    self.cells[window][row] = pages.cell(start)
                else:
                    self.cells[window][row : row + n] = pages.cells(start, start + n)
            if self.slots is not None and held.slot is not None:
                self.slots[number] = held.slot.number
            if held.adapter is not None:
                self.adapters[held.adapter][row : row + n] = 1
            rows += range(row + n - wanted, row + n)
            row, out, column = row + n, out + wanted, column + len(parts)
        if column < self.shape.sequences:
            for table in self.tables.values():
                table[column:, 1] = 0
        if self.slots is not None:
            self.slots[len(pieces) :] = SCRAP
        if row < self.shape.tokens:  # rows that only fill the shape write to a page that no sequence has
            self.ids[row:] = self.positions[row:] = 0
            if self.places is not None:
                self.places[:, row:] = 0
            for cells in self.cells.values():
                cells[row:] = SCRAP
        if self.outputs is not None:
            self.outputs[:out], self.outputs[out:] = rows, 0
        self.used = row
        self.rows = slice(out) if self.outputs is not None or out == row else rows

    def _fill_vectors(self, row: int, tokens: Sequence[int]) -> None:
        """Fills in the embeddings among tokens from a row on."""
        assert self.vectors is not None
        for i, token in enumerate(tokens, row):
            if token < 0:
                self.vectors[i], self.texts[i] = token.vector, 0  # type: ignore[attr-defined]

    @property
    def traced(self) -> dict[str, np.ndarray]:
        """The points that are looked at, of the tokens that count."""
        used, all_rows = self.used, self.shape.tokens

        def counting(values: np.ndarray) -> np.ndarray:
            if self.padded is None:
                return values[: len(values) * used // all_rows]
            return values.reshape(all_rows, -1)[self.padded].reshape(-1, values.shape[1])

        return {
            name: values[self.rows] if name in self._of_results and self.padded is None else counting(values)
            for name, values in self._traced.items()
        }

    def run(self) -> None:
        """Computes the graph."""
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, self.threads)

    def close(self) -> None:
        """Frees the graph and its memory."""
        self.out = self.ids = self.positions = self.types = self.texts = np.empty(0)
        self.outputs = self.slots = self.vectors = self.before = self.places = None
        self.filled = []
        self.extra, self._traced, self.masks, self.cells, self.tables, self.adapters = [], {}, {}, {}, {}, {}
        self.free()


class GraphPool:
    """The graphs that are kept.

    Args:
        parts: function that returns what graphs are built of.
        threads: threads to compute with.
    """

    def __init__(self, parts: Callable[[], Parts], threads: int) -> None:
        self.parts, self.threads = parts, threads
        self.steps: OrderedDict[Shape, Step] = OrderedDict()

    def get(self, shape: Shape, memory: Memory | None) -> Step:
        """The graph of a shape: one that was kept, or a new one."""
        step = self.steps.get(shape)
        if step is None:
            step = self.steps[shape] = Step(shape, self.parts(), memory, self.threads)
            while len(self.steps) > 1 and (
                len(self.steps) > KEPT_STEPS or sum(s.bytes for s in self.steps.values()) > KEPT_BYTES
            ):
                self.steps.popitem(last=False)[1].close()
        else:
            self.steps.move_to_end(shape)
        return step

    def forget(self) -> None:
        """Frees all graphs: what they are built of changes."""
        while self.steps:
            self.steps.popitem()[1].close()

    def abandon(self) -> None:
        """Leaves all graphs in memory, as they are: nobody knows what a call that is gone did with them."""
        for step in self.steps.values():
            step.abandon()
        self.steps = OrderedDict()
