"""Choosing the next token from logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from .choice import choose

Filter = Callable[[Sequence[int], np.ndarray], "np.ndarray | None"]


@dataclass
class Sampler:
    """Draws token ids. The order is logits_filter, repeat_penalty, top_k, top_p, min_p, temperature.

    Args:
        temperature: divides the logits before drawing: below 1 favours likely tokens. 0: always the best.
        top_k: keep the k best tokens; 0 for all.
        top_p: keep the best tokens whose probabilities add up to at least this; 1 for all (arXiv:1904.09751).
        min_p: keep tokens with at least this share of the best one's probability; 0 for all (arXiv:2407.01082).
        repeat_penalty: logits of recent tokens are divided by it if positive, else multiplied; 1 for none.
        repeat_last_n: number of recent tokens to which the penalty applies.
        seed: seed of the random numbers, or None for a new one.
        logits_filter: called with the ids so far and the logits [n_vocab], a copy; it changes them in place or
            returns others. -inf excludes a token.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    seed: int | None = None
    logits_filter: Filter | None = None
    _rng: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, low, high in (("temperature", 0, 1e6), ("top_k", 0, 1 << 31), ("top_p", 0, 1), ("min_p", 0, 1),
                                ("repeat_penalty", 1e-6, 1e6), ("repeat_last_n", 0, 1 << 31)):  # fmt: skip
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not low <= value <= high:
                raise ValueError(f"generate: {name} is {value!r}: need a number from {low} to {high}")
        seed = self.seed
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
            raise ValueError(f"generate: seed is {str(seed)[:60]}: need an integer from 0, or None")
        if self.logits_filter is not None and not callable(self.logits_filter):
            raise TypeError(f"generate: logits_filter is {self.logits_filter!r}: need a function")
        self._rng = np.random.default_rng(seed)

    def __call__(self, logits: np.ndarray, history: Sequence[int]) -> int:
        """The id of the next token.

        Args:
            logits: f32 [n_vocab]; not changed.
            history: ids of the tokens so far.
        Returns:
            A token id.
        Raises:
            ValueError: logits_filter excluded all tokens, or returned an array of another size.
        """
        logits = self._filtered(logits, history)
        recent: set[int] | None = None
        if self.repeat_penalty != 1 and self.repeat_last_n:
            recent = set(history[-self.repeat_last_n :])
            if not logits.flags.writeable:
                logits = logits.copy()
        random = self._rng.random() if self.temperature else 0.0
        return choose(logits, recent, self.repeat_penalty, self.temperature, self.top_k, self.top_p, self.min_p, random)

    def _filtered(self, logits: np.ndarray, history: Sequence[int]) -> np.ndarray:
        """The logits after logits_filter, contiguous."""
        if self.logits_filter is None:
            return np.ascontiguousarray(logits, np.float32)
        own = logits.copy()
        changed = self.logits_filter(list(history), own)
        result = np.ascontiguousarray(own if changed is None else changed, np.float32)
        if result.shape != logits.shape:
            raise ValueError(f"generate: logits_filter returned an array {result.shape}: need {logits.shape}")
        return result


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """The logarithms of the probabilities, by rows, in float64."""
    values = logits.astype(np.float64)
    values -= values.max(-1, keepdims=True)
    return values - np.log(np.exp(values).sum(-1, keepdims=True))
