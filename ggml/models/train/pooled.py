"""The loss of whole texts: of the classes that a model finds, and of how near texts are that belong together."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..arch import heads
from ..arch.base import Builder, Inputs
from ..run.graphs import Parts
from .adapter import Adapter
from .graph import Nodes
from .segment import Segment
from .texts import Texts, TextsRow

F32, I32 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32
NODES = 256
SMALLEST = 1e-12  # length of an embedding from which on it is divided by its length


class Pooled(Nodes):
    """The loss of texts, of the last layer's result; takes the place of Head.

    Texts with labels: the cross entropy of the classes (arch/heads.py), of one score y the logistic loss, which is the
    cross entropy of two classes with the scores 0 and y. Texts that belong together: the cross entropy of the documents
    for each query, whose scores are the cosines of their embeddings, divided by a temperature (arXiv:1807.03748).

    Args:
        ctx: context that receives the inputs.
        parts: what the model consists of.
        texts: sizes of the rows.
        temperature: number by which cosines are divided.
        adapter: the trained pairs.
        threads: threads to compute with.

    Attributes:
        segment: its graphs, which the caller places in memory.
    """

    def __init__(
        self, ctx: Any, parts: Parts, texts: Texts, temperature: float, adapter: Adapter, threads: int
    ) -> None:
        c, n = parts.config, texts.places * texts.count
        self._texts, self._temperature = texts, temperature
        self._kind = heads.pooling_of(c) if texts.compares else heads.pooled_by(c)
        ids = ggml.ggml_new_tensor_1d(ctx, I32, n)
        super().__init__(parts, adapter, Inputs(ids, ids, {False: None, True: None}, texts.count))
        x = ggml.ggml_new_tensor_2d(ctx, F32, c.n_streams * c.n_embd, n)
        ggml.ggml_set_param(x)
        weights = ggml.ggml_new_tensor_3d(ctx, F32, texts.places, 1, texts.count)
        labels, hidden = (ggml.ggml_new_tensor_2d(ctx, F32, texts.n_classes, texts.group) for _ in range(2))
        unit = ggml.ggml_new_tensor_2d(ctx, F32, 1, 2)  # makes two scores of one
        to_numpy(unit).reshape(-1)[:] = 0, 1
        self._weights = to_numpy(weights).reshape(texts.count, texts.places)
        self._labels, self._hidden = (to_numpy(t).reshape(texts.group, -1) for t in (labels, hidden))

        def loss(nodes: Any) -> Any:
            g = self._builder(nodes)
            pooled = self._pooled(g, self._module.head(g, x), weights)
            if texts.compares:
                scores = ggml.ggml_add(nodes, self._cosines(g, heads.dense(g, pooled)), hidden)
            else:
                scores = heads.scores(g, pooled)
                if scores.contents.ne[0] == 1:
                    scores = ggml.ggml_mul_mat(nodes, unit, scores)
            return ggml.ggml_cross_entropy_loss(nodes, scores, labels)

        self.segment = Segment(x, None, loss, adapter, NODES, threads)

    def _pooled(self, g: Builder, states: Any, weights: Any) -> Any:
        """The states of the texts, [C, S] of those of their tokens [C, S T]: sums with the weights [T, 1, S]."""
        width, (places, _, count) = states.contents.ne[0], weights.contents.ne[:3]
        states = ggml.ggml_permute(g.ctx, ggml.ggml_reshape_3d(g.ctx, states, width, places, count), 1, 0, 2, 3)
        sums = ggml.ggml_mul_mat(g.ctx, ggml.ggml_cont(g.ctx, states), weights)  # [C, 1, S]
        return ggml.ggml_reshape_2d(g.ctx, sums, width, count)

    def _cosines(self, g: Builder, x: Any) -> Any:
        """The scores of all documents for each query, [K, M] of the embeddings [W, S]."""
        x, queries = ggml.ggml_l2_norm(g.ctx, x, SMALLEST), self._texts.group
        (width, count), row = x.contents.ne[:2], x.contents.nb[1]
        first = ggml.ggml_view_2d(g.ctx, x, width, queries, row, 0)
        others = ggml.ggml_view_2d(g.ctx, x, width, count - queries, row, queries * row)
        return ggml.ggml_scale(g.ctx, ggml.ggml_mul_mat(g.ctx, others, first), 1 / self._temperature)

    def loss(self, x: np.ndarray, row: Any, total: int, dx: np.ndarray | None) -> float:
        """See Head.loss."""
        assert isinstance(row, TextsRow) and self.segment.x is not None
        self.segment.x[...] = x
        place, length = np.arange(self._texts.places), row.lengths[:, None]
        if self._kind == "mean":
            self._weights[...] = (place < length) / length
        else:
            self._weights[...] = place == (0 if self._kind == "cls" else length - 1)
        # the node divides by its number of rows, and rows without a label contribute nothing
        self._labels[...], self._hidden[...] = row.shares * np.float32(len(row.shares) / total), row.hidden
        loss = float(self.segment.forward().item())
        if dx is not None:
            self.segment.backward()
            assert self.segment.dx is not None
            dx[...] = self.segment.dx
        return loss

    def close(self) -> None:
        self._weights = self._labels = self._hidden = np.empty((0, 0))
        self.segment.close()
