"""Guesses of the next tokens, as programs pass them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class LlamaDraftModel(ABC):
    """What guesses the tokens that follow others."""

    @abstractmethod
    def __call__(self, input_ids: np.ndarray, /, **kwargs: Any) -> np.ndarray:
        """The guess: intc [some] after intc [n]."""


class LlamaPromptLookupDecoding(LlamaDraftModel):
    """Guesses that a text goes on as where its last tokens occurred before.

    Args:
        max_ngram_size: most tokens that have to agree; fewer do if there is no such place.
        num_pred_tokens: most tokens of a guess.
    """

    def __init__(self, max_ngram_size: int = 2, num_pred_tokens: int = 10) -> None:
        self.max_ngram_size, self.num_pred_tokens = max_ngram_size, num_pred_tokens

    def __call__(self, input_ids: np.ndarray, /, **kwargs: Any) -> np.ndarray:
        ids = np.asarray(input_ids, np.intc)
        for size in range(min(self.max_ngram_size, ids.size - 1), 0, -1):
            windows = np.lib.stride_tricks.sliding_window_view(ids[:-1], size)
            places = np.flatnonzero((windows == ids[-size:]).all(1))
            if places.size:
                begin = int(places[0]) + size
                return ids[begin : begin + self.num_pred_tokens]
        return np.array([], np.intc)
