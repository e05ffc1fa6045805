"""The decoder of a model whose encoder reads another text: its keys and values, and those of the encoder's states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..._owners import Owner
from ..arch import FAMILIES
from ..arch.base import Inputs
from ..files.config import Config
from .graphs import Parts

F32, I32, I64 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32, ggml.GGML_TYPE_I64
PLACES = 64  # for keys and values at first; doubled when they are full


def has_decoder(config: Config) -> bool:
    """Whether a model has an encoder and a decoder."""
    return "decoder_layers" in config.own


class Step:
    """A graph that appends n tokens."""

    def __init__(self, ctx: Any, inputs: dict[str, np.ndarray], graph: Any, out: Any) -> None:
        self.ctx, self.inputs, self.graph, self.out = ctx, inputs, graph, to_numpy(out)

    def close(self) -> None:
        self.inputs, self.out = {}, np.empty(0)
        ggml.ggml_free(self.ctx)


class Decoding(Owner):
    """A text that is written while another is read.

    Args:
        parts: what the model consists of.
        states: f32 [T, C] (NumPy order), what the encoder made of the other text.
        threads: threads to compute with.

    Attributes:
        ids: the tokens so far.
    """

    def __init__(self, parts: Parts, states: np.ndarray, threads: int) -> None:
        self.parts, self.threads = parts, threads
        self.module, self.layers = FAMILIES[parts.config.arch].module, parts.config.own["decoder_layers"]
        self.ids: list[int] = []
        self.steps: dict[int, Step] = {}
        self.places = 0
        self._held: Any = None  # context of keys and values
        self._kept: list[tuple[Any, ...]] = []
        self._cross_ctx: Any = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        try:
            self._read(states)
        except BaseException:
            self.close()
            raise

    def _builder(self, ctx: Any, ids: Any) -> Any:
        p = self.parts
        return p.builder(ctx, p.config, p.weights, Inputs(ids, ids, {False: None}, 1), None, p.adapters)

    def _read(self, states: np.ndarray) -> None:
        """Computes the keys and values of the encoder's states, once."""
        ctx = self._cross_ctx
        x = ggml.ggml_new_tensor_2d(ctx, F32, states.shape[1], len(states))
        to_numpy(x).reshape(states.shape)[...] = states
        g = self._builder(ctx, ggml.ggml_new_tensor_1d(ctx, I32, len(states)))
        self._cross = [self.module.cross_keys_values(g, i, x) for i in range(self.layers)]
        graph = ggml.ggml_new_graph_custom(ctx, 64 * self.layers + 64, False)
        for pair in self._cross:
            for tensor in pair:
                ggml.ggml_build_forward_expand(graph, tensor)
        ggml.ggml_graph_compute_with_ctx(ctx, graph, self.threads)

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
        kept = [tuple(ggml.ggml_new_tensor_2d(ctx, F32, size, places) for _ in "kv") for _ in range(self.layers)]
        for new, old in zip(kept, self._kept or [()] * self.layers, strict=True):
            for i, tensor in enumerate(new):
                values = to_numpy(tensor).reshape(places, size)
                values[...] = 0
                if old:
                    values[: self.places] = to_numpy(old[i]).reshape(self.places, size)
        former, self._held, self._kept, self.places = self._held, ctx, kept, places
        if former is not None:
            ggml.ggml_free(former)

    def append(self, tokens: Sequence[int]) -> np.ndarray:
        """Appends tokens; returns the logits after each, f32 [n, n_vocab], valid until the next call."""
        n, past = len(tokens), len(self.ids)
        self._grow(past + n)
        step = self.steps.get(n)
        if step is None:
            self._forget_steps()
            step = self.steps[n] = self._step(n)
        query, key = np.arange(past, past + n)[:, None], np.arange(self.places)
        step.inputs["ids"][:], step.inputs["rows"][:] = tokens, query[:, 0]
        buckets = self.module.bucket(key - query, self.parts.config.own["buckets"], False)
        step.inputs["buckets"][:] = buckets.reshape(-1)
        step.inputs["mask"].reshape(n, -1)[...] = np.where(key <= query, np.float32(0), np.float32(-np.inf))
        ggml.ggml_graph_compute_with_ctx(step.ctx, step.graph, self.threads)
        self.ids += list(tokens)
        return step.out.reshape(n, -1)

    def _step(self, n: int) -> Step:
        """The graph that appends n tokens."""
        ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        try:
            tensors = {
                "ids": ggml.ggml_new_tensor_1d(ctx, I32, n), "rows": ggml.ggml_new_tensor_1d(ctx, I64, n),
                "buckets": ggml.ggml_new_tensor_1d(ctx, I32, self.places * n),
                "mask": ggml.ggml_new_tensor_2d(ctx, F32, self.places, n),
            }  # fmt: skip
            g = self._builder(ctx, tensors["ids"])
            x = g.embedding(tensors["ids"], "token_embd", self.parts.config.n_vocab)
            for i in range(self.layers):

                def store(k: Any, v: Any, places: tuple[Any, ...] = self._kept[i]) -> tuple[Any, ...]:
                    pairs = zip(places, (k, v), strict=True)
                    return tuple(ggml.ggml_set_rows(ctx, place, new, tensors["rows"]) for place, new in pairs)

                x = self.module.decoder_layer(
                    g, i, x, tensors["buckets"], tensors["mask"], store, self._cross[i]
                )  # fmt: skip
            out = self.module.logits(g, x)
            graph = ggml.ggml_new_graph_custom(ctx, 128 * self.layers + 128, False)
            ggml.ggml_build_forward_expand(graph, out)
            return Step(ctx, {name: to_numpy(tensor) for name, tensor in tensors.items()}, graph, out)
        except BaseException:
            ggml.ggml_free(ctx)
            raise

    def _forget_steps(self) -> None:
        while self.steps:
            self.steps.popitem()[1].close()

    def __del__(self) -> None:
        if hasattr(self, "steps"):
            self.close()

    def close(self) -> None:
        """Frees the graphs and what was kept."""
        self._forget_steps()
        self._kept, self._cross, self.places = [], [], 0
        for name in ("_held", "_cross_ctx"):
            if getattr(self, name) is not None:
                ggml.ggml_free(getattr(self, name))
                setattr(self, name, None)
