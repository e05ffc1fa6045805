"""The states of texts whose tokens see those after them: nothing is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .runner import Runner


def states_of(
    runner: Runner,
    texts: Sequence[Sequence[int]],
    types: Sequence[Sequence[int]] | None = None,
    adapter: str | None = None,
) -> list[np.ndarray]:
    """The states [tokens, C] of texts after the last norm; views of the graph.

    Texts are padded to the longest one. `types` is, for each token, which text of a pair it is of; all texts have the
    adapter of a name.
    """
    config, length = runner.config, min(-(-max(map(len, texts)) // 8) * 8, runner.n_ctx)
    step, position = runner.texts_graph(length, len(texts), adapter), np.arange(length)
    step.ids[:] = step.types[:] = 0
    step.positions[:] = np.tile(position, len(texts))
    distance = np.abs(position - position[:, None])
    visible = (-distance if "alibi" in config.own else 0 * distance).astype(np.float16)
    for local, mask in step.masks.items():
        seen = position <= position[:, None] if config.causal else np.ones((length, length), bool)
        if local and config.chunked:
            seen &= position // config.window == position[:, None] // config.window
        elif local:  # of a model whose tokens see those after them, it is as wide in both directions
            seen &= distance < config.window if config.causal else distance <= config.window // 2
        for i, text in enumerate(texts):
            mask[i, 0] = np.where(seen & (position < len(text)), visible, np.float16(-np.inf))
    for i, text in enumerate(texts):
        step.ids[i * length : i * length + len(text)] = text
        if types is not None:
            step.types[i * length : i * length + len(text)] = types[i]
    step.padded = np.concatenate([i * length + np.arange(len(text)) for i, text in enumerate(texts)])
    runner.run(step)
    return [rows[: len(text)] for rows, text in zip(step.out.reshape(len(texts), length, -1), texts, strict=True)]


def normalized(rows: np.ndarray) -> np.ndarray:
    """Rows of Euclidean length 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
