"""The states of texts whose tokens see those after them: nothing is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..files.config import Config

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
    for local, mask in step.masks.items():
        mask[:, 0] = mask_of(config, local, [len(text) for text in texts], length)
    for i, text in enumerate(texts):
        step.ids[i * length : i * length + len(text)] = text
        if types is not None:
            step.types[i * length : i * length + len(text)] = types[i]
    step.padded = np.concatenate([i * length + np.arange(len(text)) for i, text in enumerate(texts)])
    runner.run(step)
    return [rows[: len(text)] for rows, text in zip(step.out.reshape(len(texts), length, -1), texts, strict=True)]


def mask_of(
    config: Config, local: bool, lengths: Sequence[int] | np.ndarray, places: int, filled: bool = False
) -> np.ndarray:
    """What is added to the scores of attention, a view f16 [S, T, T] of S texts in T places; -inf for what is not seen.

    Args:
        config: sizes of the model.
        local: whether it is of layers with a sliding window.
        lengths: tokens of each text.
        places: T.
        filled: True if places without a token see themselves; else they may see nothing, and their states be NaN.
    """
    position = np.arange(places)
    distance = position - position[:, None]  # of keys from queries
    seen = position < np.asarray(lengths)[:, None, None]
    if config.causal:
        seen = seen & (distance <= 0)
    if local and config.chunked:
        seen = seen & (position // config.window == position[:, None] // config.window)
    elif local:  # of a model whose tokens see those after them, it is as wide in both directions
        seen = seen & (np.abs(distance) < (config.window if config.causal else config.window // 2 + 1))
    visible = (-np.abs(distance)).astype(np.float16) if "alibi" in config.own else np.float16(0)
    found = np.broadcast_to(np.where(seen, visible, np.float16(-np.inf)), (len(lengths), places, places))
    if filled:
        found = found.copy()
        found[:, position, position] = 0
    return found


def normalized(rows: np.ndarray) -> np.ndarray:
    """Rows of Euclidean length 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
