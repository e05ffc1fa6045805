"""Prepared graphs: a graph for a number of tokens and sequences, built once and computed many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..._owners import Owner
from ..arch import FAMILIES
from ..arch.base import Builder, Inputs, Pair
from ..files.config import Config
from .cache import Cache, CacheView
from .inputs import Layers, TokenInputs

F16, I32, I64 = ggml.GGML_TYPE_F16, ggml.GGML_TYPE_I32, ggml.GGML_TYPE_I64
NODES_PER_LAYER = 128  # room in a graph; experts and adapters take more


class Shape(NamedTuple):
    """What distinguishes prepared graphs.

    `result` is "none" (only keys and values are stored), "last" (logits of the last token of each sequence), "all"
    (logits of all tokens), "scores" (also their soft_max and argmax), or "hidden" (the state before the output matrix).
    """

    tokens: int  # of each sequence
    first: int  # sequence of the cache
    sequences: int
    keys: int  # cells read in layers that attend to everything; 0 without a cache
    keys_local: int  # cells read in layers with a sliding window
    result: str


class Parts(NamedTuple):
    """What graphs are built of."""

    config: Config
    weights: Mapping[str, Any]
    adapters: Mapping[str, Sequence[Pair]]
    edits: Mapping[str, Sequence[Callable]]
    traced: frozenset[str]
    builder: Callable[..., Builder] = Builder


def build(g: Builder, result: str = "all") -> Any:
    """Adds the nodes of the whole model to a context: its logits [vocabulary, N], or its state [C, N] (see Shape)."""
    module = FAMILIES[g.config.arch].module
    x = module.embed(g)
    for i in range(g.config.n_layer):
        x = module.layer(g, i, x)
    if result == "none":
        return x
    x = g.point("output_norm", module.head(g, g.last(x)))
    return x if result == "hidden" else g.point("logits", g.output(x))


class Step(Owner):
    """A prepared graph: its inputs and results are NumPy views, `run` computes it.

    Attributes:
        ids, positions: i32 [N] (NumPy order here and below).
        cells: i64 [S, 1, T] by "has a sliding window".
        masks: f16 [S, 1, T, keys] by "has a sliding window".
        tokens: fills in these inputs where T is 1 and there is a cache.
        out: f32 [rows, vocabulary or C].
        extra: further results, of "scores".
        traced: arrays of the points that are looked at.
    """

    def __init__(self, shape: Shape, parts: Parts, cache: Cache | None, threads: int) -> None:
        self.shape, self.threads = shape, threads
        self.inputs_ctx: Any = None
        self.ctx: Any = None
        self.allocator: Any = None
        try:
            self._build(shape, parts, cache)
        except BaseException:
            self.close()
            raise

    def _build(self, shape: Shape, parts: Parts, cache: Cache | None) -> None:
        self.inputs_ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        self.ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=True))
        n, s = shape.tokens * shape.sequences, shape.sequences
        ids, positions = (ggml.ggml_new_tensor_1d(self.inputs_ctx, I32, n) for _ in range(2))
        self.ids, self.positions = to_numpy(ids), to_numpy(positions)
        masks: dict[bool, Any] = {False: None, True: None}
        cells: dict[bool, Any] = {}
        self.masks: dict[bool, np.ndarray] = {}
        self.cells: dict[bool, np.ndarray] = {}
        keys = {False: shape.keys, True: shape.keys_local} if cache else {False: shape.tokens, True: shape.tokens}
        for local in set(parts.config.local):
            masks[local] = ggml.ggml_new_tensor_4d(self.inputs_ctx, F16, keys[local], shape.tokens, 1, s)
            self.masks[local] = to_numpy(masks[local]).reshape(s, 1, shape.tokens, keys[local])
            if cache:
                cells[local] = ggml.ggml_new_tensor_3d(self.inputs_ctx, I64, shape.tokens, 1, s)
                self.cells[local] = to_numpy(cells[local]).reshape(s, 1, shape.tokens)
        self.tokens: TokenInputs | None = None
        if cache and shape.tokens == 1:
            self.tokens = TokenInputs(self.ids, self.positions, [
                Layers(self.masks[local], self.cells[local], cache.sizes[local],
                       parts.config.window if local else cache.sizes[local])
                for local in self.masks
            ])  # fmt: skip
        view = CacheView(cache, shape.first, s, keys, cells) if cache else None
        builder = parts.builder(
            self.ctx, parts.config, parts.weights, Inputs(ids, positions, masks, s), view, parts.adapters,
            parts.traced, parts.edits, last_only=shape.result in ("none", "last"),
        )  # fmt: skip
        result = build(builder, shape.result)
        results = [result]
        if shape.result == "scores":
            results += [ggml.ggml_soft_max(self.ctx, result), ggml.ggml_argmax(self.ctx, result)]
        self.points = tuple(builder.points)
        size = parts.config.n_layer * NODES_PER_LAYER * (1 + parts.config.n_expert_used) + 1024
        self.graph = ggml.ggml_new_graph_custom(self.ctx, size, False)
        for tensor in results:
            ggml.ggml_set_output(tensor)
            ggml.ggml_build_forward_expand(self.graph, tensor)
        self.allocator = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())
        if not ggml.ggml_gallocr_alloc_graph(self.allocator, self.graph):
            raise MemoryError(f"load: no memory for a graph of {n} tokens")
        self.bytes = ggml.ggml_gallocr_get_buffer_size(self.allocator, 0)
        self.out, *self.extra = (to_numpy(t) for t in results)
        self.out = self.out.reshape(-1, self.out.shape[-1])
        self.traced = {
            name: (lambda a: a.reshape(-1, a.shape[-1]))(to_numpy(builder.points[name]))
            for name in parts.traced
            if name in builder.points
        }

    def run(self) -> None:
        """Computes the graph."""
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.graph, self.threads)

    def close(self) -> None:
        """Frees the graph and its memory."""
        self.out = self.ids = self.positions = np.empty(0)
        self.extra, self.traced, self.masks, self.cells, self.tokens = [], {}, {}, {}, None
        if self.allocator is not None:
            ggml.ggml_gallocr_free(self.allocator)
        for ctx in (self.ctx, self.inputs_ctx):
            if ctx is not None:
                ggml.ggml_free(ctx)
        self.allocator = self.ctx = self.inputs_ctx = None
