"""The gradients of a text's loss by all weights of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ggml
from ggml.utils import dequantize_row, to_numpy

from ..._errors import named
from ..arch import FAMILIES
from ..arch.base import Builder
from ..generate.prompts import Prompts
from ..run.graphs import NODES_PER_LAYER
from ..run.runner import Runner
from .data import Row
from .graph import RowInputs

F32 = ggml.GGML_TYPE_F32
FIXED = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")  # divisors of frequencies


class Gradients:
    """Gradients of texts; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.runner, self.prompts = runner, prompts

    def gradients(self, ids: str | bytes | Sequence[int]) -> dict[str, np.ndarray]:
        """The gradients of the mean loss of a text by all weights.

        The loss is the mean over all tokens but the first of the negative logarithm of their probability after those
        before them. Quantised weights are taken for what they stand for. The memory is that of three copies of the
        weights in f32, and of the activations of all layers. Adapters in use count; edits do not.

        Args:
            ids: token ids or text, from 2 to n_ctx tokens.
        Returns:
            For each weight by name its gradient, f32, in the shape of the tensor in NumPy order; zeros for one that the
            loss does not depend on in a way that has a derivative, such as a bias that only chooses experts.
        Raises:
            TypeError, ValueError: the tokens are of the wrong kind, out of range, too few or too many.
            RuntimeError: the model is closed.
        """
        with self.runner.lock:
            self.runner.causal("gradients")
            self.runner.check_undivided("gradients")
            tokens = self.prompts.ids("gradients", ids)
            if min(tokens) < 0:
                raise ValueError("gradients: the tokens have embeddings of pictures: need token ids")
            if len(tokens) < 2:
                raise ValueError(f"gradients: need at least 2 tokens, got {len(tokens)}")
            self.runner.check_room("gradients", 0, len(tokens))
            with named("gradients"):
                return self._computed(tokens)

    def _computed(self, tokens: list[int]) -> dict[str, np.ndarray]:
        values = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        nodes = ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=True))
        allocator = ggml.ggml_gallocr_new(ggml.ggml_backend_cpu_buffer_type())
        try:
            return self._graph(values, nodes, allocator, tokens)
        finally:
            ggml.ggml_gallocr_free(allocator)
            ggml.ggml_free(nodes)
            ggml.ggml_free(values)

    def _graph(self, values: Any, nodes: Any, allocator: Any, tokens: list[int]) -> dict[str, np.ndarray]:
        config, n = self.runner.config, len(tokens) - 1
        weights = {name: copied(values, tensor, name) for name, tensor in self.runner.weights.items()}
        row = RowInputs(values, config, n)
        places = np.arange(n, dtype=np.int32)
        row.fill(Row(np.array(tokens[:-1]), np.array(tokens[1:]), np.tile(places, (4, 1)), np.zeros_like(places), {}))
        labels = ggml.ggml_new_tensor_2d(values, F32, config.n_vocab, n)
        target = to_numpy(labels)
        target[...] = 0
        target.reshape(n, -1)[places, tokens[1:]] = 1
        module = FAMILIES[config.arch].module
        g = Builder(nodes, config, weights, row.inputs, adapters=self.runner.parts().adapters)
        x = module.embed(g)
        for i in range(config.n_layer):
            x = module.layer(g, i, x)
        loss = ggml.ggml_cross_entropy_loss(nodes, g.output(module.head(g, x)), labels)
        ggml.ggml_set_loss(loss)
        size = 1024 + 16 * config.n_layer * NODES_PER_LAYER * (1 + config.n_expert_used)
        graph = ggml.ggml_new_graph_custom(nodes, size, True)
        ggml.ggml_build_forward_expand(graph, loss)
        forward = [ggml.ggml_graph_node(graph, i) for i in range(ggml.ggml_graph_n_nodes(graph))]
        sums = {loss: one(values)}
        for tensor in weights.values():
            if tensor.contents.flags & ggml.GGML_TENSOR_FLAG_PARAM:
                sums[tensor] = ggml.ggml_set_zero(ggml.ggml_dup_tensor(values, tensor))
        ggml.ggml_build_backward_expand(nodes, graph, [sums.get(node) for node in forward])
        if not ggml.ggml_gallocr_alloc_graph(allocator, graph):
            raise MemoryError(f"gradients: no memory for graphs of {n} tokens")
        ggml.ggml_graph_compute_with_ctx(nodes, graph, self.runner.threads)
        return {
            name: to_numpy(sums[tensor] if tensor in sums else tensor).copy()
            for name, tensor in weights.items()
            if name not in FIXED
        }


def one(ctx: Any) -> Any:
    """The gradient of the loss by itself."""
    return ggml.ggml_set_f32(ggml.ggml_new_tensor_1d(ctx, F32, 1), 1.0)


def copied(ctx: Any, tensor: Any, name: str) -> Any:
    """A copy of a weight in f32, which is a parameter unless it is fixed."""
    t = tensor.contents
    copy = ggml.ggml_new_tensor(ctx, F32, ggml.ggml_n_dims(tensor), t.ne)
    out = to_numpy(copy)
    if t.type == F32:
        out[...] = to_numpy(tensor)
    else:
        dequantize_row(t.data, out.size, t.type, out)
    if name not in FIXED:
        ggml.ggml_set_param(copy)
    return copy
