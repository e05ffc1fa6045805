"""The graphs of a fine-tuning: the model in segments, each with its backward pass, and the steps of the optimiser.

The model is a chain of segments y = f(x); x and y [C, N] are the residual stream between two layers (ggml order). Each
segment gives, from dy, the gradient of the loss with respect to y, dx and the gradients of its adapters. With one
segment for each layer, only the activations of one layer are kept: those of the others are computed again from x
(activation checkpointing, arXiv:1604.06174).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import ggml
from ggml.utils import to_numpy

from ._arch import FAMILIES
from ._graph import Builder, Inputs, Pair
from ._step import NODES_PER_LAYER, Parts
from ._train_data import Row

F16, F32, I32 = ggml.GGML_TYPE_F16, ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32
HEAD_FLOATS = 1 << 22  # most logits that are computed together
BETAS, EPSILON = (0.9, 0.999), 1e-8  # of AdamW


class Adapter:
    """The trained pairs of matrices, their gradients, and the optimiser's state.

    Args:
        shapes: (n_in, n_out, experts) of each weight that gets a pair, by its name.
        rank: inner dimension of the pairs.
        alpha: the pairs are scaled by alpha / rank.
        seed: seed of the first values: A is uniform in +-1 / sqrt(n_in), B is 0.
        threads: threads of the optimiser's steps.
    """

    def __init__(
        self, shapes: Mapping[str, tuple[int, int, int]], rank: int, alpha: float, seed: int, threads: int
    ) -> None:
        self.alpha, self.threads, self.iteration = alpha, threads, 0
        self.ctx: Any = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        try:
            self._build(shapes, rank, seed)
        except BaseException:
            self.close()
            raise

    def _build(self, shapes: Mapping[str, tuple[int, int, int]], rank: int, seed: int) -> None:
        self.pairs: dict[str, Pair] = {}
        self.tensors: dict[str, Any] = {}  # by the names that they have in a file
        rng = np.random.default_rng([seed, 0])
        for name, (n_in, n_out, experts) in shapes.items():
            a = self._matrix(f"{name}.lora_a", n_in, rank, experts)
            b = self._matrix(f"{name}.lora_b", rank, n_out, experts)
            values = to_numpy(a)
            values[...] = rng.uniform(-1, 1, values.shape) / np.sqrt(n_in)
            self.pairs[name] = Pair(a, b, self.alpha / rank)
        kinds = ({name: ggml.ggml_dup_tensor(self.ctx, t) for name, t in self.tensors.items()} for _ in range(3))
        self.gradients, self.first_moments, self.second_moments = kinds
        self._gradient_arrays = [to_numpy(t) for t in self.gradients.values()]
        for kind in (self.gradients, self.first_moments, self.second_moments):
            for tensor in kind.values():
                ggml.ggml_set_zero(tensor)
        rates = ggml.ggml_new_tensor_1d(self.ctx, F32, 7)
        self._rates = to_numpy(rates)
        self._graph = ggml.ggml_new_graph_custom(self.ctx, 4 * len(self.tensors) + 16, False)
        for name, tensor in self.tensors.items():
            moments = self.first_moments[name], self.second_moments[name]
            step = ggml.ggml_opt_step_adamw(self.ctx, tensor, self.gradients[name], *moments, rates)
            ggml.ggml_build_forward_expand(self._graph, step)

    def _matrix(self, name: str, *ne: int) -> Any:
        """A trained tensor of zeros; the third dimension is there for experts only."""
        if ne[2] == 1:
            tensor = ggml.ggml_new_tensor_2d(self.ctx, F32, *ne[:2])
        else:
            tensor = ggml.ggml_new_tensor_3d(self.ctx, F32, *ne)
        ggml.ggml_set_name(tensor, name.encode())
        ggml.ggml_set_param(tensor)
        ggml.ggml_set_zero(tensor)
        self.tensors[name] = tensor
        return tensor

    def arrays(self) -> dict[str, np.ndarray]:
        """Views of everything that a resumed training needs, by names that are unique."""
        kinds = {"value": self.tensors, "m": self.first_moments, "v": self.second_moments}
        return {f"{kind}/{name}": to_numpy(t) for kind, tensors in kinds.items() for name, t in tensors.items()}

    def zero_gradients(self) -> None:
        for values in self._gradient_arrays:
            values[...] = 0

    def step(self, rate: float, decay: float, clip: float) -> float:
        """One step of AdamW; returns the norm of all gradients, which are first scaled down to `clip` if it is larger.

        Args:
            rate: learning rate.
            decay: weight decay.
            clip: largest norm of the gradients; 0 for no limit.
        """
        norm = float(np.sqrt(sum(float(np.vdot(g, g)) for g in self._gradient_arrays)))
        if clip and norm > clip:
            for values in self._gradient_arrays:
                values *= np.float32(clip / norm)
        self.iteration += 1
        corrections = [1 / (1 - beta**self.iteration) for beta in BETAS]
        self._rates[:] = [rate, *BETAS, EPSILON, decay, *corrections]
        ggml.ggml_graph_compute_with_ctx(self.ctx, self._graph, self.threads)
        return norm

    def close(self) -> None:
        self._gradient_arrays, self._rates = [], np.empty(0)
        if self.ctx is not None:
            ggml.ggml_free(self.ctx)
        self.ctx = None


class Segment:
    """A part y = f(x) of the chain, and its backward pass.

    Args:
        x: the tensor that it reads, which has memory; None if it begins with the tokens.
        dy: tensor [C, N] with the gradient of the loss with respect to y; None if y is the loss, or if nothing in the
            segment is trained.
        make: function that adds the nodes of y to a context.
        adapter: the trained matrices.
        nodes: room in the graph.
        threads: threads to compute with.

    Attributes:
        x, y: f32 arrays [N, C] (NumPy order); y of the loss is [1].
        dx: the gradient of the loss with respect to x, if x is marked by ggml_set_param; else None.
    """

    def __init__(
        self, x: Any, dy: Any, make: Callable[[Any], Any], adapter: Adapter | None, nodes: int, threads: int
    ) -> None:
        self.threads, self.y = threads, np.empty(0)
        self._constants: Any = None
        self.x = None if x is None else to_numpy(x)
        self.dx: np.ndarray | None = None
        self.ctx: Any = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=True))
        try:
            self._build(x, dy, make, adapter, nodes)
        except BaseException:
            self.close()
            raise

    def _build(self, x: Any, dy: Any, make: Callable[[Any], Any], adapter: Adapter | None, nodes: int) -> None:
        self._tensors: dict[str, Any] = {"y": make(self.ctx)}
        self.graph = ggml.ggml_new_graph_custom(self.ctx, nodes * (8 if adapter else 1), adapter is not None)
        y = self._tensors["y"]
        ggml.ggml_set_output(y)
        ggml.ggml_build_forward_expand(self.graph, y)
        self.forward_graph: Any = self.graph
        self.backward_graph: Any = None
        if adapter is not None:
            self._add_backward(x, y, dy, adapter, nodes)

    def _add_backward(self, x: Any, y: Any, dy: Any, adapter: Adapter, nodes: int) -> None:
        """Adds the backward pass of the loss, or of sum(y dy), and divides the nodes among two graphs."""
        n_forward = ggml.ggml_graph_n_nodes(self.graph)
        loss = y if dy is None else ggml.ggml_sum(self.ctx, ggml.ggml_mul(self.ctx, y, dy))
        ggml.ggml_set_loss(loss)
        ggml.ggml_build_forward_expand(self.graph, loss)
        self._constants = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        one = ggml.ggml_new_tensor_1d(self._constants, F32, 1)
        ggml.ggml_set_f32(one, 1.0)
        sums = {tensor: adapter.gradients[name] for name, tensor in adapter.tensors.items()}
        sums[loss] = one
        expanded = [ggml.ggml_graph_node(self.graph, i) for i in range(ggml.ggml_graph_n_nodes(self.graph))]
        ggml.ggml_build_backward_expand(self.ctx, self.graph, [sums.get(node) for node in expanded])
        if x is not None and ggml.ggml_graph_get_grad(self.graph, x):
            self._tensors["dx"] = ggml.ggml_graph_get_grad(self.graph, x)
            ggml.ggml_set_output(self._tensors["dx"])
        count = ggml.ggml_graph_n_nodes(self.graph)
        self.forward_graph, self.backward_graph = (
            ggml.ggml_new_graph_custom(self.ctx, count, False) for _ in range(2)
        )  # fmt: skip
        for i in range(count):
            half = self.forward_graph if i < n_forward else self.backward_graph
            ggml.ggml_graph_add_node(half, ggml.ggml_graph_node(self.graph, i))

    def place(self, allocator: Any) -> None:
        """Places the nodes in the memory of an allocator."""
        if not ggml.ggml_gallocr_alloc_graph(allocator, self.graph):
            raise MemoryError("finetune: there is no memory for the graphs")
        self.y = to_numpy(self._tensors["y"])
        self.dx = to_numpy(self._tensors["dx"]) if "dx" in self._tensors else None

    def forward(self) -> np.ndarray:
        """Computes y from x."""
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.forward_graph, self.threads)
        return self.y

    def backward(self) -> None:
        """Computes dx, and adds to the gradients of the adapter. It follows forward, whose activations it reads."""
        ggml.ggml_graph_compute_with_ctx(self.ctx, self.backward_graph, self.threads)

    def close(self) -> None:
        self.x, self.dx, self.y = None, None, np.empty(0)
        for name in ("ctx", "_constants"):
            if getattr(self, name) is not None:
                ggml.ggml_free(getattr(self, name))
                setattr(self, name, None)


class Trainer:
    """Computes the loss of rows of tokens and its gradients with respect to an adapter.

    Args:
        parts: what the model consists of.
        adapter: the trained pairs.
        tokens: N, the length of a row.
        checkpoint: True to keep the activations of one layer at a time and to compute the others again.
        threads: threads to compute with.
    """

    def __init__(self, parts: Parts, adapter: Adapter, tokens: int, checkpoint: bool, threads: int) -> None:
        self.config, self.adapter, self.tokens, self.threads = parts.config, adapter, tokens, threads
        self.segments: list[Segment] = []
        self._allocators: list[Any] = []
        self._ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        try:
            self._build(parts, checkpoint)
        except BaseException:
            self.close()
            raise

    def _build(self, parts: Parts, checkpoint: bool) -> None:
        c, n = self.config, self.tokens
        ids, positions = (ggml.ggml_new_tensor_1d(self._ctx, I32, n) for _ in range(2))
        masks: dict[bool, Any] = {False: None, True: None}
        masks |= {local: ggml.ggml_new_tensor_4d(self._ctx, F16, n, n, 1, 1) for local in set(c.local)}
        inputs = Inputs(ids, positions, masks, 1)
        self._ids, self._positions = to_numpy(ids), to_numpy(positions)
        self._masks = {local: to_numpy(mask).reshape(n, n) for local, mask in masks.items() if mask is not None}
        adapters = {name: list(pairs) for name, pairs in parts.adapters.items()}
        for name, pair in self.adapter.pairs.items():
            adapters.setdefault(name, []).append(pair)
        module = FAMILIES[c.arch].module

        def builder(ctx: Any) -> Builder:
            return Builder(ctx, c, parts.weights, inputs, adapters=adapters)

        def layers(first: int, end: int, x: Any) -> Callable[[Any], Any]:
            def make(ctx: Any) -> Any:
                g = builder(ctx)
                y = module.embed(g) if x is None else x
                for i in range(first, end):
                    y = module.layer(g, i, y)
                return y

            return make

        def state(is_input: bool, rows: int = n) -> Any:
            tensor = ggml.ggml_new_tensor_2d(self._ctx, F32, c.n_embd, rows)
            if is_input:
                ggml.ggml_set_param(tensor)
            return tensor

        trained = [int(name.split(".")[1]) for name in self.adapter.pairs if name.startswith("blk.")]
        dy = state(False)
        self._dy = to_numpy(dy)
        room = NODES_PER_LAYER * (1 + c.n_expert_used)
        first = min(trained, default=c.n_layer)  # all are computed without gradients if only the head is trained
        self._embedding = Segment(None, None, layers(0, first, None), None, first * room + 64, self.threads)
        size = 1 if checkpoint else c.n_layer
        for begin in range(first, c.n_layer, size):
            end = min(begin + size, c.n_layer)
            x = state(begin > first)
            make = layers(begin, end, x)
            self.segments.append(Segment(x, dy, make, self.adapter, (end - begin) * room + 64, self.threads))

        rows = max(1, min(n, HEAD_FLOATS // c.n_vocab))
        x, labels = state(True, rows), ggml.ggml_new_tensor_2d(self._ctx, F32, c.n_vocab, rows)
        self._labels = to_numpy(labels)
        self._labels[...] = 0

        def loss(ctx: Any) -> Any:
            g = builder(ctx)
            return ggml.ggml_cross_entropy_loss(ctx, g.output(module.head(g, x)), labels)

        self._head = Segment(x, None, loss, self.adapter, 256, self.threads)
        self._place([self._embedding, *self.segments])
        self._place([self._head])  # its memory is apart: it is computed while the activations of a segment are kept

    def _place(self, segments: Sequence[Segment]) -> None:
        """Places segments in the same memory: they are computed one after the other."""
        allocator = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())
        self._allocators.append(allocator)
        for segment in segments:
            if not ggml.ggml_gallocr_reserve(allocator, segment.graph):
                raise MemoryError(f"finetune: there is no memory for graphs of {self.tokens} tokens")
        for segment in segments:
            segment.place(allocator)

    @property
    def bytes(self) -> int:
        """The memory of activations and gradients."""
        return sum(ggml.ggml_gallocr_get_buffer_size(a, 0) for a in self._allocators) + ggml.ggml_used_mem(self._ctx)

    def loss(self, row: Row, total: int, gradients: bool = True) -> float:
        """The sum of the losses of a row's targets, divided by `total`.

        Args:
            row: tokens and targets.
            total: number by which the loss, and with it the gradients, are divided: the targets of a step.
            gradients: True to add the gradients to those of the adapter.
        Returns:
            The loss in nats.
        """
        self._ids[:], self._positions[:] = row.ids, row.positions
        for local, mask in self._masks.items():
            mask[...] = np.where(row.seen(self.config.window if local else 0), np.float16(0), np.float16(-np.inf))
        x = self._embedding.forward()
        for segment in self.segments:
            assert segment.x is not None
            segment.x[...] = x
            x = segment.forward()
        loss = self._score(x, row, total, gradients)
        if gradients:
            for i in reversed(range(len(self.segments))):
                segment = self.segments[i]
                if i + 1 < len(self.segments):
                    segment.forward()
                segment.backward()
                if segment.dx is not None:
                    self._dy[...] = segment.dx
        return loss

    def _score(self, x: np.ndarray, row: Row, total: int, gradients: bool) -> float:
        """The loss of the last state x [N, C], a group of targets at a time; fills in dy."""
        head, loss = self._head, 0.0
        assert head.x is not None
        places = np.flatnonzero(row.targets >= 0)
        size = len(self._labels)
        self._dy[...] = 0
        for begin in range(0, len(places), size):
            group = places[begin : begin + size]
            here = np.arange(len(group))
            head.x[: len(group)], head.x[len(group) :] = x[group], 0
            # the node divides by its number of rows, and rows without a label contribute nothing
            self._labels[here, row.targets[group]] = size / total
            loss += float(head.forward().item())
            if gradients:
                head.backward()
                assert head.dx is not None
                self._dy[group] = head.dx[: len(group)]
            self._labels[here, row.targets[group]] = 0
        return loss

    def close(self) -> None:
        """Frees the graphs and their memory."""
        for segment in [*self.segments, *(getattr(self, name, None) for name in ("_embedding", "_head"))]:
            if segment is not None:
                segment.close()
        self.segments = []
        self._masks, self._ids, self._positions = {}, np.empty(0), np.empty(0)
        self._dy = self._labels = np.empty(0)
        while self._allocators:
            ggml.ggml_gallocr_free(self._allocators.pop())
        if self._ctx is not None:
            ggml.ggml_free(self._ctx)
        self._ctx = None
