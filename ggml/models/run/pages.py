"""Pages of keys and values that sequences share.

The keys and values of a layer lie in cells of a pool; a page is PAGE consecutive cells, and has the same number in all
layers of a pool. A sequence has a table of pages: its token at position p lies in cell p mod PAGE of page p // PAGE of
the table. Equal beginnings of sequences are the same pages; one that several tables name is copied before a token is
written to it. A page that no table names is free: nothing counts, so an interrupted call loses no page.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

PAGE = 64  # cells; a block of attention has 256
LEAST = 8  # pages of a pool at first
SCRAP = 0  # the page that rows without a token write to
# Without a GIL, an object that one thread lets go of lives until the thread that made it runs, or garbage is collected.
GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
T = TypeVar("T")


class Layer(Protocol):
    """The memory of a layer, as a pool of pages uses it."""

    def resize(self, cells: int) -> None: ...

    def copy_cells(self, source: int, target: int, count: int) -> None: ...


class PageTable:
    """The pages of a sequence.

    Attributes:
        pages: i32 [most]; of these `count` are in use, the first `gone` of which are -1: they lie before the window.
        shared: so many pages, the first ones, may be in other tables too.
    """

    def __init__(self, most: int) -> None:
        self.pages = np.full(most, -1, np.int32)
        self.count = self.gone = self.shared = 0

    def used(self) -> np.ndarray:
        """The numbers of the pages."""
        return self.pages[self.gone : self.count]

    def cell(self, position: int) -> int:
        """The cell of a position."""
        return int(self.pages[position // PAGE]) * PAGE + position % PAGE

    def cells(self, start: int, end: int) -> np.ndarray:
        """The cells of the positions from start to before end: i64."""
        positions = np.arange(start, end)
        return self.pages[positions // PAGE].astype(np.int64) * PAGE + positions % PAGE

    def last_cells(self, length: int) -> np.ndarray:
        """The cells of the tokens of a sequence that were not dropped: i64."""
        return self.cells(min(self.gone * PAGE, length), length)


def living(objects: weakref.WeakSet[T]) -> list[T]:
    """What a set has. Where an object ends in another thread meanwhile, `list` may find that the set has changed."""
    while True:
        try:
            return list(objects)
        except RuntimeError:
            continue


class PagePool:
    """The pages of some layers.

    Args:
        layers: their memory; all with the same window.
        window: most tokens that a token attends to; 0 for all.
        most: most tokens of a sequence.
        margin: so many tokens before the window are kept, so that a sequence can be shortened by as many.
        sequences: how many sequences there usually are.
        before_change: called before the memory of the layers moves.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        window: int,
        most: int,
        margin: int,
        sequences: int,
        before_change: Callable[[], Any],
    ) -> None:
        self.layers, self.window, self.margin = list(layers), window, margin
        self.most = -(-most // PAGE)  # pages of a sequence
        self.pages = 0
        self.limit: int | None = None  # most pages, if it is limited
        self._usual = 1 + sequences * (self.most if not window else min(self.most, (window + 2 * margin) // PAGE + 3))
        self._tables: weakref.WeakSet[PageTable] = weakref.WeakSet()
        self._before_change = before_change
        self._grow(min(self.most, LEAST) + 1)

    def _grow(self, pages: int) -> None:
        self._before_change()
        for layer in self.layers:
            layer.resize(pages * PAGE)
        self.pages = pages

    def _more(self) -> int:
        """How many pages a full pool gets: each time it grows, what it holds is copied."""
        return max(min(2 * self.pages, self._usual), self.pages + self.pages // 8)

    def add(self, layer: Layer) -> None:
        """Adds the memory of a further layer, of which no cell was written."""
        layer.resize(self.pages * PAGE)
        self.layers.append(layer)

    def remove(self, layer: Layer) -> None:
        """Removes the memory of a layer."""
        self.layers.remove(layer)

    def table(self) -> PageTable:
        """The table of a new sequence."""
        table = PageTable(self.most)
        self._tables.add(table)
        return table

    def free(self) -> np.ndarray:
        """bool [pages]: which pages no table names."""
        free = np.ones(self.pages, bool)
        free[SCRAP] = False
        for table in living(self._tables):
            free[table.used()] = False
        return free

    def _take(self, count: int, after: int) -> list[int]:
        """`count` free pages, consecutive ones behind page `after` as far as possible; the pool grows if need be."""
        free = self.free()
        if self.limit is not None and self.pages + count - int(free.sum()) > self.limit and not GIL:
            gc.collect()
            free = self.free()
        if (found := int(free.sum())) < count:
            need = self.pages + count - found
            if self.limit is not None and need > self.limit:
                raise MemoryError(f"generate: {need} pages of {PAGE} tokens are needed, {self.limit} are allowed")
            more = max(need, self._more() if self.limit is None else min(self._more(), self.limit))
            try:
                self._grow(more)
            except MemoryError:
                if more == need:
                    raise
                self._grow(need)
            free = self.free()
        taken: list[int] = []
        while len(taken) < count:
            after += 1
            if not (0 < after < self.pages and free[after]):
                after = _longest_run(free)
            taken.append(after)
            free[after] = False
        return taken

    def reserve(self, table: PageTable, start: int, end: int) -> None:
        """Gives a table pages of its own for the positions from `start`, its length, to before `end`."""
        if start // PAGE + 1 == table.count > table.shared and end <= table.count * PAGE:
            return  # as for most tokens: the last page is its own, and has room
        self.shorten(table, start)  # a call that was interrupted may have left more
        if self.window:
            self._release(table, start)
        if start % PAGE and start // PAGE < table.shared:
            place = start // PAGE
            (page,) = self._take(1, int(table.pages[place - 1]) if place else -1)
            for layer in self.layers:
                layer.copy_cells(int(table.pages[place]) * PAGE, page * PAGE, start % PAGE)
            table.pages[place] = page
            table.shared = place
        more = -(-end // PAGE) - table.count
        if more > 0:
            taken = self._take(more, int(table.pages[table.count - 1]) if table.count else SCRAP)
            table.pages[table.count : table.count + more] = taken
            table.count += more

    def _release(self, table: PageTable, length: int) -> None:
        """Drops the pages before the window of a sequence of `length` tokens, but for the margin."""
        gone = min((length - self.window - self.margin) // PAGE, table.count)
        if gone > table.gone:
            first, table.gone = table.gone, gone
            table.pages[first:gone] = -1

    def reachable(self, table: PageTable, length: int) -> int:
        """How many of the first `length` tokens of a sequence can be kept: all, or none without their window."""
        needed = max(0, length - self.window + 1) // PAGE if self.window else 0
        return length if table.gone <= needed else 0

    def shorten(self, table: PageTable, length: int) -> None:
        """Drops the pages behind the first `length` tokens."""
        table.count = min(table.count, -(-length // PAGE))
        table.gone, table.shared = min(table.gone, table.count), min(table.shared, table.count)

    def copy(self, source: PageTable, length: int) -> PageTable:
        """A table of the first `length` tokens of another one: the same pages."""
        count = -(-length // PAGE)
        source.shared = max(source.shared, count)
        table = PageTable(self.most)
        table.pages[:count] = source.pages[:count]
        table.count, table.gone, table.shared = count, min(source.gone, count), count
        self._tables.add(table)
        return table


def _longest_run(free: np.ndarray) -> int:
    """Where to begin in the longest run of free pages: at its beginning, or where others go on, in its middle."""
    edges = np.flatnonzero(np.diff(free.astype(np.int8), prepend=0, append=0))
    starts, ends = edges[::2], edges[1::2]
    i = int((ends - starts).argmax())
    start, length = int(starts[i]), int(ends[i] - starts[i])
    return start if start == SCRAP + 1 or length < LEAST else start + length // 2
