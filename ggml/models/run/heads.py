"""Computes what follows the pooling of texts (arch/heads.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ggml
from ggml.utils import to_numpy

from ..._owners import Held
from ..arch.base import Inputs
from .graphs import Parts


def head_of(
    parts: Parts, make: Callable[[Any, Any], Any], pooled: np.ndarray, threads: int, adapter: str | None = None
) -> np.ndarray:
    """The result of a head, [M, width], of the pooled states of texts, f32 [M, C] (NumPy order).

    All texts have the adapter of a name.
    """
    contexts = Held(ggml.ggml_free)
    try:
        inputs_ctx, ctx = (contexts.new(ggml.ggml_init, ggml.ggml_init_params(mem_size=0)) for _ in range(2))
        x = ggml.ggml_new_tensor_2d(inputs_ctx, ggml.GGML_TYPE_F32, pooled.shape[1], len(pooled))
        to_numpy(x).reshape(pooled.shape)[...] = pooled
        ids = ggml.ggml_new_tensor_1d(inputs_ctx, ggml.GGML_TYPE_I32, len(pooled))
        g = parts.builder(
            ctx, parts.config, parts.weights, Inputs(ids, ids, {}, 1), None, parts.adapters_of_all(adapter)
        )
        y = make(g, x)
        graph = ggml.ggml_new_graph(ctx)
        ggml.ggml_build_forward_expand(graph, y)
        ggml.ggml_graph_compute_with_ctx(ctx, graph, threads)
        return to_numpy(y).reshape(len(pooled), -1).copy()
    finally:
        contexts.free()
