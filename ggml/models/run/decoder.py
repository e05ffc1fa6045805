"""Appending the tokens of a batch to sequences: in as few graphs as it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..files.config import Config
from .batch import Limits, Piece, divided, runs
from .exact import Rows, rows_of
from .graphs import GraphPool, Parts, Shape, Step
from .memory import Held, Memory

STEP = 512  # most tokens that one graph takes
RESULT_FLOATS = 1 << 24  # most logits that one graph keeps
ROUNDED = 32  # graphs for hidden states have a multiple of so many tokens, which serves texts of many lengths
ANY = Rows(1, STEP)


class Decoder:
    """Computes batches.

    Args:
        config: sizes of the model.
        parts: function that returns what graphs are built of.
        memory: what the layers keep of the sequences.
        graphs: the graphs that are prepared.
        n_seq: most sequences of a graph.
        run: function that computes a graph.
    """

    def __init__(
        self, config: Config, parts: Callable[[], Parts], memory: Memory, graphs: GraphPool, n_seq: int,
        run: Callable[[Step], None],
    ) -> None:  # fmt: skip
        self.config, self.memory, self.graphs, self.n_seq = config, memory, graphs, n_seq
        self._parts, self._run = parts, run
        self.even = bool(memory.states)  # the sequences of a graph have the same number of tokens
        # the most tokens of a graph that keeps the logits of all of them
        self.most_results = max(1, min(STEP, RESULT_FLOATS // config.n_vocab))

    def results(
        self, pieces: Sequence[Piece], items: Sequence[Held], result: str = "logits", exact: bool = False
    ) -> np.ndarray:
        """Appends the tokens of pieces to sequences.

        Args:
            pieces: what is appended to each of some sequences.
            items: the sequences by number.
            result: "logits" or "hidden", see Shape.
            exact: see Runner.decode.
        Returns:
            f32 [rows, n_vocab or C]: the results that are wanted. They are valid until the next call.
        """
        width = self.config.n_embd if result == "hidden" else self.config.n_vocab
        wanted = pieces[0].wanted if len(pieces) == 1 else sum(piece.wanted for piece in pieces)
        out: np.ndarray | None = None
        for step, some in self.steps(pieces, items, result, exact):
            rows, row = step.out[step.rows], 0
            if wanted and len(rows) == wanted:  # one graph has all of them
                out = rows
                continue
            if out is None:
                out = np.empty((wanted, width), np.float32)
            for piece in some:
                if piece.wanted:
                    out[piece.first : piece.first + piece.wanted] = rows[row : row + piece.wanted]
                    row += piece.wanted
        return out if out is not None else np.empty((0, width), np.float32)

    def steps(
        self, pieces: Sequence[Piece], items: Sequence[Held], result: str, exact: bool = False
    ) -> Iterator[tuple[Step, Sequence[Piece]]]:
        """Appends the tokens of pieces to sequences; yields each graph after it was computed, and what it appended."""
        if not self.even:
            return self._steps(pieces, items, result, exact)
        return self._steps_after_states(pieces, items, result, exact)

    def _steps_after_states(
        self, pieces: Sequence[Piece], items: Sequence[Held], result: str, exact: bool
    ) -> Iterator[tuple[Step, Sequence[Piece]]]:
        """The same, after tokens that the states of the sequences have not seen."""
        with self.memory.caught_up([items[piece.sequence] for piece in pieces]) as again:
            pieces = [piece.after(tokens) for piece, tokens in zip(pieces, again, strict=True)]
            yield from self._steps(pieces, items, result, exact)

    def _steps(
        self, pieces: Sequence[Piece], items: Sequence[Held], result: str, exact: bool
    ) -> Iterator[tuple[Step, Sequence[Piece]]]:
        memory, rows = self.memory, self._exact_rows(bool(adapters_of(pieces, items))) if exact else ANY
        limits = Limits(rows.most, self._columns(result), max(rows.least, self.most_results), self.even, exact)
        for some in divided(pieces, limits):
            for piece in some:
                memory.reserve(items[piece.sequence], len(piece.tokens))
            shape = self._shape(some, result, rows.least, exact, adapters_of(some, items))
            step = self.graphs.get(shape, memory)
            step.fill(some, items)
            if self.even:
                for piece in some:
                    memory.begin(items[piece.sequence], len(piece.tokens))
            self._run(step)
            for piece in some:
                memory.end(items[piece.sequence], piece.tokens, exact)
            yield step, some

    def _exact_rows(self, adapted: bool) -> Rows:
        """The rows of graphs whose results are exact; `adapted`: some sequences have adapters of their own."""
        parts = self._parts()
        return rows_of(parts.weights, adapted or bool(parts.adapters), self.even, STEP)

    def _columns(self, result: str) -> int:
        """The most sequences of a graph."""
        return STEP // ROUNDED if result == "hidden" else self.n_seq

    def _shape(self, pieces: Sequence[Piece], result: str, least: int, exact: bool, adapters: tuple[str, ...]) -> Shape:
        """The shape of a graph that appends pieces, with at least so many rows."""
        tokens = wanted = 0
        for piece in pieces:
            tokens, wanted = tokens + len(piece.tokens), wanted + piece.wanted
        all_wanted, columns = wanted == tokens, self._columns(result)
        if result == "hidden" and not self.even:
            least = -(-tokens // ROUNDED) * ROUNDED
        if self.even:
            columns = max(len(pieces), least // len(pieces[0].tokens))
        images = any(min(piece.tokens) < 0 for piece in pieces)
        if images:
            columns = max(columns, sum(len(runs(piece.tokens)) for piece in pieces))
        tokens = max(tokens, least)
        columns = min(tokens, columns)
        outputs = tokens if all_wanted else wanted and max(wanted, least)
        return Shape(tokens, outputs, columns, result if wanted else "none", exact, self.even, images, adapters)


def adapters_of(pieces: Sequence[Piece], items: Sequence[Held]) -> tuple[str, ...]:
    """The names of the adapters that some sequences have, of those that get pieces."""
    return tuple(sorted({name for piece in pieces if (name := items[piece.sequence].adapter) is not None}))
