"""Computing with prepared graphs: appending tokens to the sequences of the cache."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from .._errors import without_function
from ._cache import Cache, round_up
from ._core import STEP, Parted
from ._generate import Generation
from ._step import Shape, Step

KEYS = 256  # attention reads a multiple of this many cells
KEPT_STEPS = 12  # most prepared graphs that are kept
KEPT_BYTES = 64 << 20  # most memory of theirs
REPEATED = 8  # tokens at the end of a prompt that are computed together, as in a prompt of which nothing is kept
RESULT_FLOATS = 1 << 24  # most logits that one graph keeps


class Graphs(Parted):
    """The prepared graphs of a model."""

    def _open(
        self, n_ctx: int | None, n_seq: int, kv_type: str, lora: Iterable[str | os.PathLike[str]], mmap: bool
    ) -> None:
        super()._open(n_ctx, n_seq, kv_type, lora, mmap)
        # the first graph shows whether all tensors are there and fit, and which points there are
        try:
            first = self._step(1, "last") if self._cache else self._step_without_cache(1, 1)
        except ValueError as error:
            raise ValueError(f"load: {self._file.path}: {without_function(str(error))}") from None
        self._points = first.points

    def _prepared(self, shape: Shape, cache: Cache | None) -> Step:
        """The graph of a shape: one that was kept, or a new one."""
        step = self._steps.get(shape)
        if step is None:
            step = self._steps[shape] = Step(shape, self._parts(), cache, self._threads)
            while len(self._steps) > 1 and (
                len(self._steps) > KEPT_STEPS or sum(s.bytes for s in self._steps.values()) > KEPT_BYTES
            ):
                self._steps.popitem(last=False)[1].close()
        else:
            self._steps.move_to_end(shape)
        return step

    def _step(self, tokens: int, result: str, first: int = 0, count: int = 1) -> Step:
        """A graph that appends `tokens` tokens to each of `count` sequences from `first` on."""
        cache = self._cache
        assert cache is not None
        held = len(cache.ids[first]) if count == 1 else max(map(len, cache.ids[first : first + count]))
        cells = round_up(held + tokens, KEYS)
        local = min(cache.sizes[True], cells) if self.config.window else 0
        return self._prepared(Shape(tokens, first, count, min(cache.sizes[False], cells), local, result), cache)

    def _step_without_cache(self, tokens: int, count: int) -> Step:
        return self._prepared(Shape(tokens, 0, count, 0, 0, "hidden"), None)


class Computing(Graphs):
    """The steps of which all calls consist."""

    def _run(self, step: Step) -> None:
        try:
            self._computing = threading.get_ident()
            step.run()
        finally:
            self._computing = None
        if self._trace is not None:
            self._trace._collect(step)

    def _feed(self, caller: str, sequence: int, ids: Sequence[int], result: str, size: int = STEP) -> Iterator[Step]:
        """Appends ids to a sequence, in steps of at most `size` tokens; yields the graph after each.

        Only the last step computes logits if result is "last".
        """
        cache = self._causal_cache(caller)
        have = cache.ids[sequence]
        self._check_room(caller, len(have), len(ids))
        for begin in range(0, len(ids), size):
            part = ids[begin : begin + size]
            final = begin + size >= len(ids)
            yield self._append(have, sequence, part, result if final or result != "last" else "none")

    def _check_room(self, caller: str, held: int, more: int) -> None:
        if held + more > self.n_ctx:
            raise ValueError(f"{caller}: {held} + {more} tokens exceed the context of {self.n_ctx} (n_ctx)")

    def _rows_of_a_step(self) -> int:
        """The most tokens of a graph that keeps the logits of all of them."""
        return max(1, min(STEP, RESULT_FLOATS // self.config.n_vocab))

    def _append(self, have: list[int], sequence: int, part: Sequence[int], result: str) -> Step:
        """Appends tokens that fit into one step to a sequence, which has the ids `have`; returns the graph."""
        cache = self._cache
        assert cache is not None
        start, count = len(have), len(part)
        step = self._step(count, result, sequence)
        if step.tokens is not None:
            step.tokens.fill(0, part[0], start, start)
        else:
            step.ids[:] = part
            step.positions[:] = np.arange(start, start + count)
            for local, mask in step.masks.items():
                cache.mask(mask[0, 0], local, start)
                step.cells[local][0, 0] = np.arange(start, start + count) % cache.sizes[local]
        cache.will_write(sequence, start + count)
        self._run(step)
        have.extend(part)
        return step

    def _feed_many(self, tokens: Mapping[int, int]) -> dict[int, np.ndarray]:
        """Appends one token to each of several sequences; returns the logits [n_vocab] of each."""
        cache = self._causal_cache("generate_many")
        first, last = min(tokens), max(tokens)
        step = self._step(1, "last", first, last - first + 1)
        assert step.tokens is not None
        limit = self.config.n_ctx_train - 1
        for sequence in range(first, last + 1):  # one that pauses gets token 0 behind its own
            start = len(cache.ids[sequence])
            step.tokens.fill(sequence - first, tokens.get(sequence, 0), start, min(start, limit))
            cache.will_write(sequence, start + 1)
        self._run(step)
        for sequence, token in tokens.items():
            cache.ids[sequence].append(token)
        return {sequence: step.out[sequence - first].copy() for sequence in tokens}

    def _claim(self, sequence: int, owner: Generation | None) -> None:
        """Gives a sequence to another owner; the former one gets its keys and values back when it goes on."""
        former = self._owners.get(sequence)
        if former is owner:
            return
        cache = self._cache
        assert cache is not None
        if former is not None and former.finish_reason is None:
            self._parked[former] = cache.save(sequence)
        if owner is None:
            del self._owners[sequence]
            return
        self._owners[sequence] = owner
        state = self._parked.pop(owner, None)
        if state is not None:
            cache.load(sequence, state)

    def _extend(self, caller: str, sequence: int, text: Generation) -> np.ndarray:
        """Makes a sequence hold exactly the tokens of a text, of which it keeps the beginning that it has.

        Quantised matrices times few columns are rounded otherwise than times many: the end of what is new is never
        computed alone, so that a prompt gives the same text again.

        Returns:
            f32 [n_vocab]: the logits of the last token.
        """
        cache = self._cache
        assert cache is not None
        have, ids = cache.ids[sequence], text._context
        if text._lacks_one(have):
            step = self._append(have, sequence, ids[-1:], "last")
        else:
            kept = cache.rewind(sequence, min(common_length(have, ids), max(0, len(ids) - REPEATED)))
            *_, step = self._feed(caller, sequence, ids[kept:], "last")
        return step.out[-1].copy()


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the common beginning of two lists."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    return next(i for i in range(n) if a[i] != b[i])
