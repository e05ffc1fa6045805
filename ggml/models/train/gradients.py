"""The gradients of a text's loss by all weights of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ggml
from ggml.utils import dequantize_row, to_numpy

from ..._errors import named
from ..._owners import keep
from ..arch import FAMILIES
from ..arch.base import Builder, Inputs
from ..arch.prepared import Prepared
from ..generate.prompts import Prompts
from ..run.graphs import NODES_PER_LAYER
from ..run.runner import Runner
from .data import Row
from .graph import RowInputs

F32, I32 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I32
FIXED = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")  # divisors of frequencies


class Gradients:
    """Gradients of texts; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts) -> None:
        self.runner, self.prompts = runner, prompts

    def gradients(
        self, ids: str | bytes | Sequence[int], *, decoder: str | bytes | Sequence[int] | None = None
    ) -> dict[str, np.ndarray]:
        """The gradients of the mean loss of a text by all weights.

        The loss is the mean over all tokens but the first of the negative logarithm of their probability after those
        before them. Quantised weights are taken for what they stand for. The memory is that of three copies of the
        weights in f32, and of the activations of all layers. Adapters in use count; edits do not.

        Args:
            ids: token ids or text, from 2 to n_ctx tokens.
            decoder: of a model with an encoder, which reads ids, and a decoder, the text of the latter, whose loss it
                is; its first token is that with which texts begin (`config.own["decoder_start"]`).
        Returns:
            For each weight by name its gradient, f32, in the shape of the tensor in NumPy order; zeros for one that the
            loss does not depend on in a way that has a derivative, such as a bias that only chooses experts.
        Raises:
            TypeError, ValueError: the tokens are of the wrong kind, out of range, too few or too many.
            RuntimeError: the model is closed.
        """
        with self.runner.lock:
            self.runner.check_undivided("gradients")
            read: list[int] = []
            if self.runner.decodings is not None:
                if decoder is None:
                    raise ValueError("gradients: decoder is missing: need the text of the decoder")
                read, ids = self.prompts.ids("gradients", ids), decoder
                self.runner.check_room("gradients", 0, len(read))
            else:
                self.runner.causal("gradients")
                if decoder is not None:
                    raise ValueError("gradients: decoder is given: the model has no encoder beside it")
            tokens = self.prompts.ids("gradients", ids)
            if min(tokens) < 0:
                raise ValueError("gradients: the tokens have embeddings of pictures: need token ids")
            if len(tokens) < 2:
                raise ValueError(f"gradients: need at least 2 tokens, got {len(tokens)}")
            self.runner.check_room("gradients", 0, len(tokens))
            with named("gradients"):
                return self._computed(tokens, read)

    def _computed(self, tokens: list[int], read: list[int]) -> dict[str, np.ndarray]:
        held = Prepared()
        try:
            keep(held, "inputs_ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0))
            keep(held, "ctx", ggml.ggml_init, ggml.ggml_init_params(mem_size=0, no_alloc=True))
            keep(held, "allocator", ggml.ggml_gallocr_new, ggml.ggml_backend_cpu_buffer_type())
            return self._graph(held.inputs_ctx, held.ctx, held.allocator, tokens, read)
        finally:
            held.free()

    def _logits(self, values: Any, nodes: Any, weights: dict[str, Any], tokens: list[int]) -> Any:
        """The logits after each token [vocabulary, n]."""
        config, n = self.runner.config, len(tokens)
        row, places = RowInputs(values, config, n), np.arange(n, dtype=np.int32)
        row.fill(Row(np.array(tokens), np.array(tokens), np.tile(places, (4, 1)), np.zeros_like(places)))
        g = Builder(nodes, config, weights, row.inputs, adapters=self.runner.parts().adapters)
        return g.output(FAMILIES[config.arch].module.head(g, self._layers(g)))

    def _logits_of_decoder(
        self, values: Any, nodes: Any, weights: dict[str, Any], read: list[int], tokens: list[int]
    ) -> Any:
        """The logits after each of the decoder's tokens [vocabulary, n], while the encoder has read others."""
        config, module = self.runner.config, FAMILIES[self.runner.config.arch].module
        adapters, buckets = self.runner.parts().adapters, config.own["buckets"]

        def builder(ids: list[int], both: bool) -> tuple[Any, Any]:
            place = np.arange(len(ids), dtype=np.int32)
            ids_, places, between = (
                with_values(values, I32, data)
                for data in (np.array(ids), place, module.bucket(place - place[:, None], buckets, both))
            )
            return Builder(nodes, config, weights, Inputs(ids_, places, {False: None}, 1, buckets=between),
                           adapters=adapters), between  # fmt: skip

        encoder, _ = builder(read, True)
        states = module.head(encoder, self._layers(encoder))
        g, between = builder(tokens, False)
        hidden = np.triu(np.full((len(tokens), len(tokens)), -np.inf), 1)
        mask = ggml.ggml_reshape_2d(values, with_values(values, F32, hidden), len(tokens), len(tokens))
        cross = module.cross_keys_values(g, states)
        part = module.Part(0, len(tokens), between, mask, lambda i, k, v: (k, v), cross)
        return module.logits(g, module.decode(g, [part]))

    def _layers(self, g: Builder) -> Any:
        """The result of the last layer."""
        module = FAMILIES[self.runner.config.arch].module
        x = module.embed(g)
        for i in range(self.runner.config.n_layer):
            x = module.layer(g, i, x)
        return x

    def _graph(
        self, values: Any, nodes: Any, allocator: Any, tokens: list[int], read: list[int]
    ) -> dict[str, np.ndarray]:
        config, n = self.runner.config, len(tokens) - 1
        weights = {name: copied(values, tensor, name) for name, tensor in self.runner.weights.items()}
        labels = ggml.ggml_new_tensor_2d(values, F32, config.n_vocab, n)
        target = to_numpy(labels)
        target[...] = 0
        target.reshape(n, -1)[np.arange(n), tokens[1:]] = 1
        if read:
            logits = self._logits_of_decoder(values, nodes, weights, read, tokens[:-1])
        else:
            logits = self._logits(values, nodes, weights, tokens[:-1])
        loss = ggml.ggml_cross_entropy_loss(nodes, logits, labels)
        ggml.ggml_set_loss(loss)
        layers = config.n_layer + 2 * config.own.get("decoder_layers", 0)
        size = 1024 + 16 * layers * NODES_PER_LAYER * (1 + config.n_expert_used)
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


def with_values(ctx: Any, kind: int, values: np.ndarray) -> Any:
    """A tensor of one dimension with values."""
    tensor = ggml.ggml_new_tensor_1d(ctx, kind, values.size)
    to_numpy(tensor)[:] = values.reshape(-1)
    return tensor


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
