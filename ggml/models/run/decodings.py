"""The sequences of a model with an encoder and a decoder: of each what was read, and what is written."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .decoder import STEP
from .encoder_decoder import Decoding, Reading, Steps, loaded
from .sequences import common_length
from .whole_texts import states_of

if TYPE_CHECKING:
    from .runner import Runner


class Decodings:
    """The n_seq sequences; see Sequences, whose place it takes. A text that was read is not read again.

    Attributes:
        items: what each of them holds; None for nothing.
        owners: the texts whose tokens they hold, by number.
        parked: what unfinished texts hold that gave their sequence away.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._ahead: weakref.WeakSet[Reading] = weakref.WeakSet()  # what was read for texts that have no sequence yet
        self._steps = Steps(runner.run, runner.threads, 2 * runner.n_seq + 2)
        self.items: list[Decoding | None] = [None] * runner.n_seq
        self.owners: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.parked: weakref.WeakKeyDictionary[Any, Decoding] = weakref.WeakKeyDictionary()

    def forget(self) -> None:
        """Empties all sequences; the texts that go on compute what they held again."""
        self.owners.clear()
        self.parked.clear()
        self._steps.forget()
        self._ahead = weakref.WeakSet()
        self.items[:] = [None] * len(self.items)

    def claim(self, number: int, owner: Any) -> None:
        """Gives a sequence to another owner, or to none; the former one gets back what it held when it goes on."""
        former = self.owners.get(number)
        if former is owner:
            return
        held = self.items[number]
        if former is not None and former.finish_reason is None and held is not None:
            self.parked[former] = held
            self.items[number] = held.copy()
        if owner is None:
            self.owners.pop(number, None)
            return
        self.owners[number] = owner
        own = self.parked.pop(owner, None)
        if own is not None:
            self.items[number] = own

    def free(self, read: Sequence[int], adapter: str | None) -> int:
        """The number of a sequence that no live text has: one that has read the same text, or nothing, if there is."""
        owners = map(self.owners.get, range(len(self.items)))
        free = [i for i, owner in enumerate(owners) if owner is None or owner.finish_reason is not None]

        def useful(number: int) -> int:
            held = self.items[number]
            return 1 if held is None else 2 * has_read(held.reading, read, adapter)

        return max(free, key=useful, default=0)

    def knows(self, read: Sequence[int], adapter: str | None) -> Reading | None:
        """What was read already, if it is this text."""
        readings = itertools.chain((held.reading for held in self._all()), list(self._ahead))
        return next((reading for reading in readings if has_read(reading, read, adapter)), None)

    def read(self, texts: Sequence[tuple[Sequence[int], str | None]]) -> list[Reading]:
        """What is read of texts with their adapters; those that nobody knows are read together.

        It is known as long as the caller holds it.
        """
        keys, found = [(adapter or "", tuple(ids)) for ids, adapter in texts], dict[tuple, Reading]()
        for key, text in zip(keys, texts, strict=True):
            if (known := self.knows(*text)) is not None:
                found[key] = known
        order = sorted(set(keys) - found.keys(), key=lambda key: (key[0], len(key[1]), key[1]))
        while order:  # texts of similar length, of about STEP tokens in all
            name, longest = order[-1]
            group = [key for key in order[-max(1, STEP // len(longest)) :] if key[0] == name]
            del order[-len(group) :]
            found.update(zip(group, self._read([ids for _, ids in group], name or None), strict=True))
        for reading in found.values():
            self._ahead.add(reading)
        return [found[key] for key in keys]

    def prepare(self, number: int, read: Sequence[int], ids: Sequence[int], adapter: str | None = None) -> list[int]:
        """Prepares a sequence to hold some tokens while it reads a text.

        Returns:
            The tokens that it lacks, at least the last one.
        """
        held = self._after_reading(number, read, adapter)
        held.shorten(common_length(held.ids, ids[:-1]))
        return list(ids[len(held.ids) :])

    def append(self, texts: Sequence[tuple[Decoding, Sequence[int]]]) -> list[np.ndarray]:
        """Appends tokens to texts, together where they have the same adapter.

        Returns:
            For each text the logits after its last token, f32 [n_vocab].
        """
        found = [np.empty(0)] * len(texts)
        for adapter in dict.fromkeys(held.reading.adapter for held, _ in texts):
            group = [i for i, (held, _) in enumerate(texts) if held.reading.adapter == adapter]
            for i, logits in zip(group, self._steps.append([texts[i] for i in group]), strict=True):
                found[i] = logits[-1].copy()
        return found

    def begun(self, number: int, read: Sequence[int]) -> Decoding:
        """Takes a sequence from its owner; it holds no tokens and reads a text."""
        self.claim(number, None)
        held = self._after_reading(number, read, None)
        held.shorten(0)
        return held

    def shorten(self, number: int, length: int) -> int:
        """Takes a sequence from its owner, and forgets all of its tokens but the first ones; how many it has then."""
        self.claim(number, None)
        held = self.items[number]
        if held is not None:
            held.shorten(length)
        return len(self.ids(number))

    def ids(self, number: int) -> list[int]:
        """The tokens that a sequence holds."""
        held = self.items[number]
        return [] if held is None else list(held.ids)

    def save(self, number: int) -> bytes:
        """What a sequence holds as bytes.

        Raises:
            ValueError: it has read nothing, or has an adapter of its own.
        """
        held = self.items[number]
        if held is None or held.reading.adapter is not None:
            what = "has read nothing" if held is None else f"has the adapter {held.reading.adapter!r}"
            raise ValueError(f"the sequence {what}: need one that has read a text, without an adapter")
        return held.save()

    def load(self, number: int, state: memoryview) -> None:
        """Makes a sequence hold what Decoding.save returned; nothing changes if that can't be read."""
        runner = self._runner
        found = loaded(runner.parts(), state, self._steps, runner.n_ctx)
        self.claim(number, None)
        self.items[number] = found

    def _after_reading(self, number: int, read: Sequence[int], adapter: str | None) -> Decoding:
        """What a sequence holds that reads a text."""
        held = self.items[number]
        if held is None or not has_read(held.reading, read, adapter):
            held = self.items[number] = self._new(self.read([(read, adapter)])[0])
        return held

    def _all(self) -> Iterator[Decoding]:
        return (held for held in (*self.items, *self.parked.values()) if held is not None)

    def _read(self, texts: Sequence[Sequence[int]], adapter: str | None) -> list[Reading]:
        runner, parts = self._runner, self._runner.parts()
        return [
            Reading(parts, ids, adapter).compute(parts, rows, runner.run, runner.threads)
            for ids, rows in zip(texts, states_of(runner, texts, adapter=adapter), strict=True)
        ]

    def _new(self, reading: Reading) -> Decoding:
        return Decoding(self._runner.parts(), reading, self._steps)


def has_read(reading: Reading, read: Sequence[int], adapter: str | None) -> bool:
    """Whether it is of a text with an adapter."""
    return reading.adapter == adapter and reading.ids == list(read)
