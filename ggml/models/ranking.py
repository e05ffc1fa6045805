"""Classifiers: the classes of texts, and how well documents answer a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import named
from .arch import heads
from .generate.prompts import Prompts
from .run.heads import head_of
from .run.runner import Runner
from .score import Embedding, pooled

Text = str | bytes | Sequence[int]


class Ranking:
    """Classes of texts; see Model."""

    def __init__(self, runner: Runner, prompts: Prompts, embedding: Embedding) -> None:
        self.runner, self.prompts, self.embedding = runner, prompts, embedding

    def _check(self, caller: str) -> None:
        self.runner.check_undivided(caller)
        if not heads.has_classes(self.runner.weights):
            raise ValueError(f"{caller}: the model has no classifier (no tensor 'cls.weight' or 'cls.output.weight')")

    def classify(
        self,
        texts: Sequence[Text | tuple[str | bytes, str | bytes]],
        *,
        types: Sequence[Sequence[int]] | None = None,
        adapter: str | None = None,
    ) -> np.ndarray:
        """The scores of classes, which `labels` names.

        Args:
            texts: texts, pairs of texts, or lists of token ids; several are computed together.
            types: for each text, which of a pair each of its tokens is of, 0 or 1. None: what follows the first
                separator is of the second. Models of one text have no use for it.
            adapter: name of an adapter (see add_adapter) that these texts have beside those of all texts.
        Returns:
            f32 [n_texts, n_classes]: logits; of a model that answers yes or no, the two probabilities.
        Raises:
            TypeError, ValueError: the model has no classifier, a text is empty or too long, or an argument is of the
                wrong kind.
            RuntimeError: the model is closed.
        """
        self._check("classify")
        if isinstance(texts, (str, bytes)):
            raise TypeError("classify: need a list of texts, a single text was given")
        return self._scores("classify", [self._ids("classify", text) for text in texts], types, adapter)

    def rank(self, query: str | bytes, documents: Sequence[str | bytes], *, adapter: str | None = None) -> np.ndarray:
        """How well documents answer a query, by a model that was trained to tell (a cross-encoder).

        Query and document become one text: by the file's template for it, else as a pair with a separator. What they
        contain never becomes special tokens.

        Args:
            query: text.
            documents: texts.
            adapter: as for classify.
        Returns:
            f32 [n_documents]: the score of the first class, the higher the better: a logit, or the probability of "yes"
            of a model that answers yes or no.
        Raises:
            TypeError, ValueError, RuntimeError: as classify.
        """
        self._check("rank")
        if isinstance(documents, (str, bytes)):
            raise TypeError("rank: need a list of documents, a single text was given")
        for text in (query, *documents):
            if not isinstance(text, (str, bytes)):
                raise TypeError(f"rank: a text is a {type(text).__name__}: need str or bytes")
        ids = [self.prompts.answering(query, document) for document in documents]
        return np.ascontiguousarray(self._scores("rank", ids, None, adapter)[:, 0])

    def _ids(self, caller: str, text: Any) -> list[int]:
        """The tokens of a text or of a pair of texts."""
        is_pair = isinstance(text, tuple) and len(text) == 2 and all(isinstance(t, (str, bytes)) for t in text)
        return self.prompts.ids(caller, self.prompts.tokenizer.pair(*text) if is_pair else text)

    def _scores(self, caller: str, ids: list[list[int]], types: Any, adapter: str | None) -> np.ndarray:
        """The scores of the classes, [n_texts, n_classes]."""
        self.runner.check_adapter(caller, adapter)
        config = self.runner.config
        found = [self.prompts.types(row) for row in ids] if types is None else [list(row) for row in types]
        if [len(row) for row in found] != [len(row) for row in ids]:
            raise ValueError(f"{caller}: types: need one for each token of {len(ids)} texts")
        if any(kind not in (0, 1) for row in found for kind in row):
            raise ValueError(f"{caller}: types: need 0 and 1")
        kind = heads.pooled_by(config)
        rows = [pooled(states, kind) for states in self.embedding.in_order(caller, ids, found, "none", adapter)]
        states = np.array(rows, np.float32).reshape(len(ids), config.n_embd)
        if not len(ids):  # the number of classes is known from a graph
            return self._head(caller, np.zeros((1, config.n_embd), np.float32), None)[:0]
        return self._head(caller, states, adapter)

    def _head(self, caller: str, states: np.ndarray, adapter: str | None) -> np.ndarray:
        with self.runner.lock, named(caller):
            self.runner.check(caller)
            return head_of(self.runner.parts(), heads.classes, states, self.runner.threads, adapter)
