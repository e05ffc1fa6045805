"""The graphs of a fine-tuning: the model in segments, each with its backward pass.

The model is a chain of segments y = f(x); x and y [C, N] are the residual stream between two layers (ggml order). Each
segment gives, from dy, the gradient of the loss with respect to y, dx and the gradients of its adapters. With one
segment for each layer, only the activations of one layer are kept: those of the others are computed again from x
(activation checkpointing, arXiv:1604.06174). The last segment, the head, gives the loss of a group of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..._owners import Held, keep
from ..arch import FAMILIES, caches_of
from ..arch.base import Builder, Inputs
from ..arch.keeps import Shared
from ..arch.prepared import Prepared
from ..files.config import Config
from ..run.graphs import NODES_PER_LAYER, Parts
from .adapter import Adapter
from .data import PairRow, Row
from .segment import Segment
from .texts import TextsRow

F16, F32, I32 = ggml.GGML_TYPE_F16, ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32
HEAD_FLOATS = 1 << 22  # most logits that are computed together
AnyRow = Row | PairRow | TextsRow


class Loss(Protocol):
    """The end of the chain: the loss of the last layer's result."""

    segment: Segment

    def loss(self, x: np.ndarray, row: Any, total: int, dx: np.ndarray | None) -> float:
        """See Head."""

    def close(self) -> None:
        """Frees the graphs."""


class RowInputs:
    """The tensors that a row of tokens fills in.

    Args:
        ctx: context that receives them.
        config: sizes of the model.
        tokens: N, the length of a row.
        pictures: whether rows may have embeddings of pictures.
        texts: S, the texts of a row, of N / S places each; 1 if a row is one, or divides itself.

    Attributes:
        inputs: Inputs; the tensors as architectures take them.
    """

    def __init__(self, ctx: Any, config: Config, tokens: int, pictures: bool = False, texts: int = 1) -> None:
        self._config, size = config, tokens // texts
        ids, positions, types = (ggml.ggml_new_tensor_1d(ctx, I32, tokens) for _ in range(3))
        masks: dict[bool, Any] = {False: None, True: None}
        masks |= {local: ggml.ggml_new_tensor_4d(ctx, F16, size, size, 1, texts) for local in set(config.local)}
        vectors = ggml.ggml_new_tensor_2d(ctx, F32, config.n_input, tokens) if pictures else None
        without = ggml.ggml_new_tensor_2d(ctx, F32, 1, tokens) if pictures else None
        places = ggml.ggml_new_tensor_1d(ctx, I32, 4 * tokens) if pictures and config.sections else None
        buckets = buckets_of(ctx, config, size, True) if "buckets" in config.own else None
        self.inputs = Inputs(ids, positions, masks, texts, vectors=vectors, texts=without, places=places,
                             buckets=buckets, types=types)  # fmt: skip
        self._vectors, self._texts, self._places = (
            None if t is None else to_numpy(t) for t in (vectors, without, places)
        )
        self._ids, self._positions, self._types = to_numpy(ids), to_numpy(positions), to_numpy(types)
        self._types[:] = 0
        self._masks = {k: to_numpy(mask).reshape(-1, size, size) for k, mask in masks.items() if mask is not None}

    def fill(self, row: AnyRow) -> None:
        """Makes the graphs compute a row."""
        self._ids[:], self._positions[:] = row.ids, row.positions[0]
        if isinstance(row, TextsRow):
            self._types[:] = row.types
        if self._places is not None:
            self._places[:] = row.positions.reshape(-1)
        if self._vectors is not None and self._texts is not None:
            self._vectors[...], self._texts[...] = 0, 1
            for at, token in row.pictures.items():
                self._vectors[at], self._texts[at] = token.vector, 0
        for local, mask in self._masks.items():
            mask[...] = row.mask(self._config, local)


def buckets_of(ctx: Any, config: Config, tokens: int, both: bool) -> Any:
    """The buckets of the distances between tokens, i32 [N N], see arch/t5.py; `both`: also to later ones."""
    place = np.arange(tokens)
    tensor = ggml.ggml_new_tensor_1d(ctx, I32, tokens * tokens)
    found = FAMILIES[config.arch].module.bucket(place - place[:, None], config.own["buckets"], both)
    to_numpy(tensor)[:] = found.reshape(-1)
    return tensor


class Nodes:
    """Adds parts of a model with its adapters to contexts.

    Args:
        parts: what the model consists of.
        adapter: the trained pairs, beside those that the model has.
        inputs: what a row fills in.
    """

    def __init__(self, parts: Parts, adapter: Adapter, inputs: Inputs) -> None:
        self._parts, self._inputs = parts, inputs
        self._adapters = {name: list(pairs) for name, pairs in parts.adapters.items()}
        for name, pair in adapter.pairs.items():
            self._adapters.setdefault(name, []).append(pair)
        self._module = FAMILIES[parts.config.arch].module

    def _builder(self, ctx: Any) -> Builder:
        return Builder(ctx, self._parts.config, self._parts.weights, self._inputs, adapters=self._adapters)

    def layers(self, first: int, end: int, x: Any) -> Callable[[Any], Any]:
        """A function that adds the layers from `first` to before `end`: of a state x [C, N], or None for the tokens."""

        def make(ctx: Any) -> Any:
            g = self._builder(ctx)
            y = g.with_pictures(self._module.embed(g)) if x is None else x
            for i in range(first, end):
                y = self._module.layer(g, i, y)
            return y

        return make

    def logits(self, ctx: Any, x: Any) -> Any:
        """Adds the logits [vocabulary, N] of the last layer's result x [C, N]."""
        g = self._builder(ctx)
        return g.output(self._module.head(g, x))


class Head:
    """The loss of the last layer's result, a group of targets at a time.

    Args:
        ctx: context that receives the inputs.
        config: sizes of the model.
        rows: targets of a group.
        logits: function that adds the nodes of the logits [vocabulary, rows] of a state [C, rows] to a context.
        adapter: the trained pairs.
        threads: threads to compute with.

    Attributes:
        segment: its graphs, which the caller places in memory.
    """

    def __init__(
        self, ctx: Any, config: Config, rows: int, logits: Callable[[Any, Any], Any], adapter: Adapter, threads: int
    ) -> None:
        x = ggml.ggml_new_tensor_2d(ctx, F32, config.n_streams * config.n_embd, rows)
        ggml.ggml_set_param(x)
        labels = ggml.ggml_new_tensor_2d(ctx, F32, config.n_vocab, rows)
        self._labels = to_numpy(labels)
        self._labels[...] = 0

        def loss(nodes: Any) -> Any:
            return ggml.ggml_cross_entropy_loss(nodes, logits(nodes, x), labels)

        self.segment = Segment(x, None, loss, adapter, 256, threads)

    def loss(self, x: np.ndarray, row: Any, total: int, dx: np.ndarray | None) -> float:
        """The sum of the losses of all targets, divided by `total`.

        Args:
            x: f32 [N, C], the last layer's result.
            row: has the targets.
            total: number by which the loss and its gradient are divided.
            dx: receives the gradient with respect to x; the adapter's gradients are added to. None for neither.
        """
        segment, loss, targets = self.segment, 0.0, row.targets
        assert segment.x is not None
        places = np.flatnonzero(targets >= 0)
        size = len(self._labels)
        if dx is not None:
            dx[...] = 0
        for begin in range(0, len(places), size):
            group = places[begin : begin + size]
            here = np.arange(len(group))
            segment.x[: len(group)], segment.x[len(group) :] = x[group], 0
            # the node divides by its number of rows, and rows without a label contribute nothing
            self._labels[here, targets[group]] = size / total
            loss += float(segment.forward().item())
            if dx is not None:
                segment.backward()
                assert segment.dx is not None
                dx[group] = segment.dx[: len(group)]
            self._labels[here, targets[group]] = 0
        return loss

    def close(self) -> None:
        self._labels = np.empty(0)
        self.segment.close()


class Writing(Nodes):
    """The loss of what a decoder writes, of the last layer's result of its encoder; takes the place of Head.

    Args:
        ctx: context that receives the inputs.
        parts: what the model consists of.
        sizes: N, the places of the encoder's text, and M, those of the decoder's.
        adapter: the trained pairs.
        threads: threads to compute with.
    """

    def __init__(self, ctx: Any, parts: Parts, sizes: tuple[int, int], adapter: Adapter, threads: int) -> None:
        config, (n_read, n) = parts.config, sizes
        module, layers = FAMILIES[config.arch].module, config.own["decoder_layers"]
        ids, buckets = ggml.ggml_new_tensor_1d(ctx, I32, n), buckets_of(ctx, config, n, False)
        x, labels = (ggml.ggml_new_tensor_2d(ctx, F32, *ne) for ne in ((config.n_embd, n_read), (config.n_vocab, n)))
        before, read = (ggml.ggml_new_tensor_2d(ctx, F32, places, n) for places in (n, n_read))
        ggml.ggml_set_param(x)
        super().__init__(parts, adapter, Inputs(ids, ids, {False: None}, 1))
        self._ids, self._labels, self._read = to_numpy(ids), to_numpy(labels), to_numpy(read)
        self._labels[...], to_numpy(before)[...] = 0, np.triu(np.full((n, n), -np.inf, np.float32), 1)

        def loss(nodes: Any) -> Any:
            g = self._builder(nodes)
            cross = module.cross_keys_values(g, module.head(g, x))
            states = module.decode(g, [module.Part(0, n, buckets, before, lambda i, k, v: (k, v), cross, read)])
            return ggml.ggml_cross_entropy_loss(nodes, module.logits(g, states), labels)

        self.segment = Segment(x, None, loss, adapter, NODES_PER_LAYER * (2 * layers + 1), threads)

    def loss(self, x: np.ndarray, row: Any, total: int, dx: np.ndarray | None) -> float:
        """See Head.loss."""
        assert isinstance(row, PairRow) and self.segment.x is not None
        places = np.flatnonzero(row.targets >= 0)
        self.segment.x[...], self._ids[:] = x, row.written
        self._read[...] = np.where(np.arange(len(row.ids)) < row.n_read, np.float32(0), np.float32(-np.inf))
        # the node divides by its number of rows, and rows without a label contribute nothing
        self._labels[places, row.targets[places]] = len(row.targets) / total
        loss = float(self.segment.forward().item())
        if dx is not None:
            self.segment.backward()
            assert self.segment.dx is not None
            dx[...] = self.segment.dx
        self._labels[places, row.targets[places]] = 0
        return loss

    def close(self) -> None:
        self._ids = self._labels = self._read = np.empty(0)
        self.segment.close()


class Trainer(Prepared):
    """Computes the loss of rows of tokens and its gradients with respect to an adapter.

    Args:
        parts: what the model consists of.
        adapter: the trained pairs.
        tokens: N, the length of a row.
        checkpoint: True to keep the activations of one layer at a time and to compute the others again.
        threads: threads to compute with.
        pictures: whether rows may have embeddings of pictures.
        written: of a model with an encoder and a decoder M, the places of what the decoder writes; else 0.
        texts: whole texts of a row, see RowInputs.
        head: for these, function of the arguments (ctx, parts, adapter, threads) that makes the loss.
    """

    def __init__(
        self, parts: Parts, adapter: Adapter, tokens: int, checkpoint: bool, threads: int, pictures: bool = False,
        written: int = 0, texts: int = 1, head: Callable[[Any, Parts, Adapter, int], Loss] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.config, self.adapter, self.tokens, self.threads = parts.config, adapter, tokens, threads
        self._pictures, self._written, self._texts, self._make_head = pictures, written, texts, head
        self.segments: list[Segment] = []
        self._embedding: Segment | None = None
        self._head: Loss | None = None
        self._allocators = Held(ggml.ggml_gallocr_free)
        keep(self, "inputs_ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
        try:
            self._build(parts, checkpoint)
        except BaseException:
            self.close()
            raise

    def _build(self, parts: Parts, checkpoint: bool) -> None:
        c, n = self.config, self.tokens
        self._row: RowInputs | None = RowInputs(self.inputs_ctx, c, n, self._pictures, self._texts)
        nodes = Nodes(parts, self.adapter, self._row.inputs)
        self._add_layers(nodes, 1 if checkpoint else c.n_layer)
        rows = max(1, min(n, HEAD_FLOATS // c.n_vocab))
        if self._make_head is not None:
            self._head = self._make_head(self.inputs_ctx, parts, self.adapter, self.threads)
        elif self._written:
            self._head = Writing(self.inputs_ctx, parts, (n, self._written), self.adapter, self.threads)
        else:
            self._head = Head(self.inputs_ctx, c, rows, nodes.logits, self.adapter, self.threads)
        assert self._embedding is not None
        self._place([self._embedding, *self.segments])
        self._place([self._head.segment])  # apart: it is computed while the activations of a segment are kept

    def _add_layers(self, nodes: Nodes, size: int) -> None:
        """Adds the segments: one without gradients before the first trained layer, then one for each `size` layers.

        Linked layers (see Family) are one segment.
        """
        c = self.config
        names = (name.removeprefix("enc.").split(".") for name in self.adapter.pairs)
        trained = [int(name[1]) for name in names if name[0] == "blk"]
        first = min(trained, default=c.n_layer)  # all are computed without gradients if only the head is trained
        shared = any(isinstance(kept, Shared) for kept in caches_of(c))
        if FAMILIES[c.arch].linked or (trained and shared):  # a layer reads what another one has: one segment
            first, size = 0, c.n_layer
        room = NODES_PER_LAYER * (1 + c.n_expert_used)
        width = c.n_streams * c.n_embd
        dy = ggml.ggml_new_tensor_2d(self.inputs_ctx, F32, width, self.tokens)
        self._dy = to_numpy(dy)
        self._embedding = Segment(None, None, nodes.layers(0, first, None), None, first * room + 64, self.threads)
        for begin in range(first, c.n_layer, size):
            end = min(begin + size, c.n_layer)
            x = ggml.ggml_new_tensor_2d(self.inputs_ctx, F32, width, self.tokens)
            if begin > first:
                ggml.ggml_set_param(x)
            make = nodes.layers(begin, end, x)
            self.segments.append(Segment(x, dy, make, self.adapter, (end - begin) * room + 64, self.threads))

    def _place(self, segments: Sequence[Segment]) -> None:
        """Places segments in the same memory: they are computed one after the other."""
        allocator = self._allocators.new(ggml.ggml_gallocr_new, ggml.ggml_backend_cpu_buffer_type())
        for segment in segments:
            if not ggml.ggml_gallocr_reserve(allocator, segment.graph):
                raise MemoryError(f"finetune: there is no memory for graphs of {self.tokens} tokens")
        for segment in segments:
            segment.place(allocator)

    @property
    def bytes(self) -> int:
        """The memory of activations and gradients."""
        nodes = sum(ggml.ggml_gallocr_get_buffer_size(allocator, 0) for allocator in self._allocators)
        return nodes + ggml.ggml_used_mem(self.inputs_ctx)

    def loss(self, row: AnyRow, total: int, gradients: bool = True) -> float:
        """The sum of the losses of a row's targets, divided by `total`.

        Args:
            row: tokens and targets.
            total: number by which the loss, and with it the gradients, are divided: the targets of a step.
            gradients: True to add the gradients to those of the adapter.
        Returns:
            The loss in nats.
        """
        assert self._row is not None and self._embedding is not None and self._head is not None
        self._row.fill(row)
        x = self._embedding.forward()
        for segment in self.segments:
            assert segment.x is not None
            segment.x[...] = x
            x = segment.forward()
        loss = self._head.loss(x, row, total, self._dy if gradients else None)
        if gradients:
            self._backward()
        return loss

    def _backward(self) -> None:
        """The gradients of the layers, from that of the last one's result."""
        for i in reversed(range(len(self.segments))):
            segment = self.segments[i]
            if i + 1 < len(self.segments):
                segment.forward()  # another segment's activations have taken the memory of its own
            segment.backward()
            if segment.dx is not None:
                self._dy[...] = segment.dx

    def close(self) -> None:
        """Frees the graphs and their memory."""
        for part in (*self.segments, self._embedding, self._head):
            if part is not None:
                part.close()
        self.segments, self._embedding, self._head, self._row, self._dy = [], None, None, None, np.empty(0)
        self._allocators.free()
        self.free()
