"""The sequences of a runner: what each of them holds, and for whom."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from .memory import Held, Memory

REPEATED = 8  # tokens at the end of a prompt that are computed together, as in a prompt of which nothing is kept
WORTHWHILE = 16  # tokens that another sequence must have more, so that its beginning is taken over


class Sequences:
    """The n_seq sequences that can be computed together.

    Args:
        memory: where what they hold lies.
        count: n_seq.

    Attributes:
        items: what each of them holds.
        owners: the texts whose tokens they hold, by number. An owner has an attribute `finish_reason`, None as long as
            it goes on.
        parked: what unfinished texts hold that gave their sequence away.
    """

    def __init__(self, memory: Memory, count: int) -> None:
        self.memory = memory
        self.items = [memory.new() for _ in range(count)]
        self.owners: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.parked: weakref.WeakKeyDictionary[Any, Held] = weakref.WeakKeyDictionary()

    def forget(self) -> None:
        """Empties all sequences, copies included; the texts that go on compute what they held again."""
        self.owners.clear()
        self.parked.clear()
        for held in self.memory.living():  # something may still hold on to one, as a scheduler does
            self.memory.shorten(held, 0)
        for number in range(len(self.items)):
            self.items[number] = self.memory.new()

    def claim(self, number: int, owner: Any) -> Held:
        """Gives a sequence to another owner, or to none; the former one gets back what it held when it goes on."""
        former = self.owners.get(number)
        if former is owner:
            return self.items[number]
        held = self.items[number]
        if former is not None and former.finish_reason is None:
            self.parked[former] = held
            self.items[number] = self.memory.copy(held, len(held.ids))
        if owner is None:
            del self.owners[number]
            return self.items[number]
        self.owners[number] = owner
        own = self.parked.pop(owner, None)
        if own is not None:
            self.items[number] = own
        return self.items[number]

    def empty(self, number: int) -> None:
        """Empties a sequence; its owner computes what it held again when it goes on."""
        self.owners.pop(number, None)
        self.items[number] = self.memory.new()

    def free(self, ids: Sequence[int], adapter: str | None = None) -> int:
        """The number of a sequence that no live text has, with the longest common beginning; 0 if there is none."""
        owners = map(self.owners.get, range(len(self.items)))
        free = [i for i, owner in enumerate(owners) if owner is None or owner.finish_reason is not None]
        return max(free, key=lambda i: common_beginning(self.items[i], ids, adapter), default=0)

    def lacking(
        self,
        number: int,
        ids: list[int],
        exact: bool = False,
        goes_on: bool = False,
        further: bool = False,
        adapter: str | None = None,
    ) -> list[int]:
        """Prepares a sequence to hold some tokens: shortens it to what is equal, or takes a beginning of another one.

        Quantised matrices times few columns are rounded otherwise than times many: the end of what is new is never
        computed alone, so that a prompt gives the same text again, unless the text `goes_on`. With `further`, only
        tokens count that the layer has seen which predicts further ones.

        The tokens of the sequence have the adapter of a name beside those of all sequences.

        Returns:
            The tokens that it lacks.
        """
        held = self.items[number]
        same = held.adapter == adapter
        lowest = min([held.exact] * exact + [held.further] * further, default=len(held.ids))
        if same and lacks_one(held.ids, ids) and lowest == len(held.ids):
            return ids[-1:]
        most = max(0, len(ids) - (1 if exact or goes_on else REPEATED))

        def useful(other: Held) -> int:
            limits = [other.exact] * exact + [other.further] * further
            return self.memory.reachable(other, min(common_beginning(other, ids, adapter), most, *limits))

        best = max(self.memory.living(), key=useful, default=held)
        if useful(best) >= useful(held) + WORTHWHILE:
            self.items[number] = held = self.memory.copy(best, useful(best))
        kept = self.memory.shorten(held, useful(held))
        held.adapter = adapter
        return ids[kept:]


def common_beginning(held: Held, ids: Sequence[int], adapter: str | None) -> int:
    """So many tokens, the first ones, are what a sequence holds, with the same adapter."""
    return common_length(held.ids, ids) if held.adapter == adapter else 0


def lacks_one(have: list[int], ids: list[int]) -> bool:
    """Whether a sequence that holds `have` lacks only the last of some ids."""
    return len(ids) - 1 == len(have) and ids[:-1] == have


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the common beginning of two lists."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # a[:low] == b[:low], and no more than `high` are equal
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
