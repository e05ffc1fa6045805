"""Many texts on one runner: texts begin and end between any two steps of the others (continuous batching)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ..run.memory import Held
from ..run.sequences import WORTHWHILE, Sequences, common_beginning
from .text import Generation

if TYPE_CHECKING:
    from .scheduler import Generating


class Store(Protocol):
    """Beginnings of texts outside of the model's memory, for others that begin alike."""

    def fetch(self, ids: Sequence[int], adapter: str | None, exact: bool, least: int) -> Held | None:
        """A sequence that holds at least `least` of the first tokens of a text; None if there is none."""

    def keep(self, held: Held, prompt: int) -> None:
        """Copies what a sequence holds whose text has ended; its prompt has so many tokens."""


class Scheduler:
    """Decides which texts are computed together, up to n_seq of them. A caller decides which one begins next.

    Where memory for keys and values runs out, beginnings that are remembered go first, then what unused sequences
    hold, then the text that began last is put back: it computes what it held again when it is started again.

    Args:
        writer: what computes the texts.
        chunk: most tokens of a step; None as for `Generating.advance`. A prompt that is longer is read in several
            steps, in which other texts get their next tokens.
        kept: most texts that are remembered after they ended, beside those that sequences hold, so that others begin
            like them without computing that again.
        store: has further beginnings, or None.

    Attributes:
        active: the texts that are computed, by their sequences, in the order in which they began.
    """

    def __init__(self, writer: Generating, chunk: int | None = None, kept: int = 0, store: Store | None = None) -> None:
        self.writer, self._chunk, self._most_kept, self._store = writer, chunk, kept, store
        self.active: dict[int, Generation] = {}
        self._kept: list[Held] = []  # the least recently used first
        self._full = False

    def has_room(self) -> bool:
        """Whether another text can begin. After one was put back, none can until another one ends."""
        return len(self.active) < self.writer.runner.n_seq and not (self._full and self.active)

    def start(self, text: Generation) -> None:
        """Gives a text a sequence, unless it has ended: the one that holds most of its beginning."""
        if text.finish_reason is not None:
            return
        items = self.writer.runner.causal("generate").items
        free = [i for i in range(self.writer.runner.n_seq) if i not in self.active]
        text.sequence = max(free, key=lambda i: common_beginning(items[i], text.context, text.adapter))
        self.active[text.sequence] = text
        if self._kept:
            best = max(self._kept, key=lambda held: common_beginning(held, text.context, text.adapter))
            self._kept.remove(best)
            self._kept.append(best)
        if self._store is not None:
            self._fetch(text, self._store)

    def _fetch(self, text: Generation, store: Store) -> None:
        """Gives a text the beginning that a store has, if that is longer than those in memory."""
        with self.writer.runner.lock:
            sequences, ids = self._sequences, text.context
            known = max(common_beginning(held, ids, text.adapter) for held in sequences.memory.living())
            try:
                held = store.fetch(ids, text.adapter, text.exact, known + WORTHWHILE)
            except MemoryError:  # it is computed when there is room
                return
            if held is not None and text.sequence is not None:
                sequences.empty(text.sequence)
                sequences.items[text.sequence] = held

    def step(self) -> tuple[dict[Generation, Exception], list[Generation]]:
        """Computes once for all active texts; those that have ended make room, also those that others closed.

        Returns:
            The texts that failed, which are closed, with the reasons; and those that were put back, the one that began
            first being the last of them. Neither is active any more.
        """
        with self.writer.runner.lock:
            self._release_ended()
            failed: dict[Generation, Exception] = {}
            put_back: list[Generation] = []
            while self.active:
                try:
                    failed = self.writer.advance(list(self.active.values()), self._chunk)
                    break
                except MemoryError as error:
                    if self.make_room():
                        continue
                    text = self.put_back()
                    if self.active:
                        put_back.append(text)
                    else:
                        failed = {text: error}
            for text in failed:
                text.close()
            self._release_ended()
            return failed, put_back

    def forget(self) -> None:
        """Forgets the beginnings that are remembered."""
        self._kept.clear()

    def _release_ended(self) -> None:
        """Makes the sequences free whose texts have ended."""
        ended = [number for number, text in self.active.items() if text.finish_reason is not None]
        for number in ended:
            held, text = self._sequences.items[number], self.active.pop(number)
            self._full = False
            with suppress(MemoryError):  # then it is not kept
                if self._store is not None:
                    self._store.keep(held, len(text.prompt_ids))
                self._remember(held)

    def _remember(self, held: Held) -> None:
        """Keeps a copy of what a text held; those that are its beginning are not needed any more."""
        if not self._most_kept or len(held.ids) < 2 * WORTHWHILE:
            return
        self._kept = [x for x in self._kept if common_beginning(x, held.ids, held.adapter) < len(x.ids)]
        self._kept.append(self._sequences.memory.copy(held, len(held.ids)))
        del self._kept[: -self._most_kept]

    @property
    def _sequences(self) -> Sequences:
        return self.writer.runner.causal("generate")

    def make_room(self) -> bool:
        """Frees pages that no active text needs; false if there are none."""
        if self._kept:
            del self._kept[0]
            return True
        sequences = self._sequences
        unused = [i for i, held in enumerate(sequences.items) if i not in self.active and held.ids]
        for number in unused:
            sequences.empty(number)
        return bool(unused)

    def put_back(self) -> Generation:
        """Takes the sequence from the active text that began last; it is not active any more."""
        number, text = self.active.popitem()
        self._sequences.empty(number)
        text.sequence, self._full = None, True
        return text
