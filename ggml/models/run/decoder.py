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
        self, pieces: Sequence[Piece], items: Sequence[Held], result: str = "logits", exact: bool = False,
        further: bool = False,
    ) -> np.ndarray:  # fmt: skip
        """Appends the tokens of pieces to sequences.

        Args:
            pieces: what is appended to each of some sequences.
            items: the sequences by number.
            result: "logits" or "hidden", see Shape.
            exact: see Runner.decode.
            further: whether the layer that predicts further tokens sees them too.
        Returns:
            f32 [rows, n_vocab or C]: the results that are wanted. They are valid until the next call.
        """
        width = self.config.n_embd if result == "hidden" else self.config.n_vocab
        wanted = pieces[0].wanted if len(pieces) == 1 else sum(piece.wanted for piece in pieces)
        out: np.ndarray | None = None
        for step, some in self.steps(pieces, items, result, exact, further):
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
        self, pieces: Sequence[Piece], items: Sequence[Held], result: str, exact: bool = False, further: bool = False
    ) -> Iterator[tuple[Step, Sequence[Piece]]]:
        """Appends the tokens of pieces to sequences; yields each graph after it was computed, and what it appended."""
        if not self.even:
            return self._steps(pieces, items, result, exact, further)
        return self._steps_after_states(pieces, items, result, exact, further)

    def _steps_after_states(
        self, pieces: Sequence[Piece], items: Sequence[Held], result: str, exact: bool, further: bool
    ) -> Iterator[tuple[Step, Sequence[Piece]]]:
        """The same, after tokens that the states of the sequences have not seen."""
        with self.memory.caught_up([items[piece.sequence] for piece in pieces]) as again:
            pieces = [piece.after(tokens) for piece, tokens in zip(pieces, again, strict=True)]
            yield from self._steps(pieces, items, result, exact, further)

    def _steps(
        self, pieces: Sequence[Piece], items: Sequence[Held], result: str, exact: bool, further: bool
    ) -> Iterator[tuple[Step, Sequence[Piece]]]:
        memory, rows = self.memory, self._exact_rows(bool(adapters_of(pieces, items))) if exact else ANY
        limits = Limits(rows.most, self._columns(result), max(rows.least, self.most_results), self.even, exact)
        for some in divided(pieces, limits):
            for piece in some:
                memory.reserve(items[piece.sequence], len(piece.tokens))
            shape = self._shape(some, result, rows.least, exact, further, adapters_of(some, items))
            step = self.graphs.get(shape, memory)
            step.fill(some, items)
            if self.even:
                for piece in some:
                    memory.begin(items[piece.sequence], len(piece.tokens))
            self._run(step)
            seen = self._see(some, items, step.extra[0] if step.shape.result != "none" else step.out) if further else []
            for piece in some:
                memory.end(items[piece.sequence], piece.tokens, exact)
            for held in seen:
                held.further = len(held.ids)
            yield step, some

    def _see(self, pieces: Sequence[Piece], items: Sequence[Held], states: np.ndarray) -> list[Held]:
        """Lets the layer that predicts further tokens see those that a graph appends, whose states are given.

        Returns:
            The sequences all of whose tokens it has seen.
        """
        seen: list[Piece] = []
        before: list[np.ndarray] = []
        row, states = 0, states.reshape(-1, self.config.n_embd)
        for piece in pieces:
            held, own = items[piece.sequence], states[row : row + len(piece.tokens)]
            start, row = len(held.ids), row + len(piece.tokens)
            if held.further >= start:
                former = held.states.of(start - 1)
                before += [np.zeros_like(own[:1]) if former is None else former[None], own[:-1]]
                seen.append(Piece(piece.sequence, piece.tokens, 0, 0))
            held.states.add(start, own)
        if seen:
            self._further(seen, items, np.concatenate(before))
        return [items[piece.sequence] for piece in seen]

    def _further(self, pieces: Sequence[Piece], items: Sequence[Held], before: np.ndarray) -> Step:
        """Computes the layer that predicts further tokens; `before` has the states of the tokens before."""
        tokens, wanted = (sum(numbers) for numbers in zip(*((len(p.tokens), p.wanted) for p in pieces)))
        images = any(min(piece.tokens) < 0 for piece in pieces)
        columns = sum(len(runs(piece.tokens)) if images else 1 for piece in pieces)
        shape = Shape(tokens, wanted, columns, "logits" if wanted else "none", images=images, further=True)
        step = self.graphs.get(shape, self.memory)
        step.fill(pieces, items)
        assert step.before is not None
        step.before[: len(before)] = before
        self._run(step)
        return step

    def predicted(self, number: int, items: Sequence[Held], token: int, most: int, confident: float) -> list[int]:
        """Tokens that may follow a token behind a sequence, by the layer that predicts further ones.

        Args:
            number: of the sequence.
            items: the sequences by number.
            token: the token.
            most: most tokens.
            confident: least probability of each.
        """
        held = items[number]
        n, before = len(held.ids), held.states.of(len(held.ids) - 1)
        found: list[int] = []
        if held.further != n or before is None:
            return found
        try:
            while len(found) < most:
                self.memory.reserve(held, 1)
                step = self._further([Piece(number, [token], 1, 0)], items, before[None])
                held.append([token])
                logits, before = step.out[0], step.extra[0].reshape(-1).copy()
                token = int(logits.argmax())
                if not np.exp(logits - logits[token]).sum() * confident <= 1:
                    break
                found.append(token)
        except MemoryError:
            pass  # no room for more tokens
        finally:
            self.memory.shorten(held, n)
        return found

    def _exact_rows(self, adapted: bool) -> Rows:
        """The rows of graphs whose results are exact; `adapted`: some sequences have adapters of their own."""
        parts = self._parts()
        return rows_of(parts.weights, adapted or bool(parts.adapters), self.even, STEP)

    def _columns(self, result: str) -> int:
        """The most sequences of a graph."""
        return STEP // ROUNDED if result == "hidden" else self.n_seq

    def _shape(
        self,
        pieces: Sequence[Piece],
        result: str,
        least: int,
        exact: bool,
        states: bool,
        adapters: tuple[str, ...],
    ) -> Shape:
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
        kind = result if wanted else "none"
        return Shape(
            tokens, outputs, columns, kind, exact, self.even, images, states=states, adapters=adapters
        )  # fmt: skip


def adapters_of(pieces: Sequence[Piece], items: Sequence[Held]) -> tuple[str, ...]:
    """The names of the adapters that some sequences have, of those that get pieces."""
    return tuple(sorted({name for piece in pieces if (name := items[piece.sequence].adapter) is not None}))
