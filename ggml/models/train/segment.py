"""A part of a model as a pair of graphs: forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..._owners import keep
from ..arch.prepared import Prepared
from .adapter import Adapter

F32 = ggml.GGML_TYPE_F32


class Segment(Prepared):
    """A part y = f(x) of the chain, and its backward pass.

    Args:
        x: the tensor that it reads, which has memory; None if it begins with the tokens.
        dy: tensor [C, N] with the gradient of the loss with respect to y; None if y is the loss, or if nothing in the
            segment is trained.
        make: function that adds the nodes of y to a context.
        adapter: the trained matrices, or None if nothing in the segment is trained.
        nodes: room in the graph.
        threads: threads to compute with.

    Attributes:
        x, y: f32 arrays [N, C] (NumPy order); y of the loss is [1].
        dx: the gradient of the loss with respect to x, if x is marked by ggml_set_param; else None.
    """

    def __init__(
        self, x: Any, dy: Any, make: Callable[[Any], Any], adapter: Adapter | None, nodes: int, threads: int
    ) -> None:
        super().__init__()
        self.threads, self.y = threads, np.empty(0)
        self.x = None if x is None else to_numpy(x)
        self.dx: np.ndarray | None = None
        keep(self, "ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
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
        keep(self, "inputs_ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
        one = ggml.ggml_new_tensor_1d(self.inputs_ctx, F32, 1)
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
        self.free()
