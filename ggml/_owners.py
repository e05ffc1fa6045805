"""Objects that own native memory or a lock: they are not copied, and a forked child can use them."""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from typing import Any

_locked: weakref.WeakSet = weakref.WeakSet()


class Owner:
    """Base of classes whose objects own native memory, or part of the state of one that does: no copies."""

    def __reduce_ex__(self, protocol):
        name = type(self).__name__
        raise TypeError(f"{name}: a {name} owns memory and can't be copied or pickled: make another one")


def keep(owner: object, name: str, function: Callable[..., Any], *args: Any) -> None:
    """Makes what a function returns an attribute: what it created, or None if it frees.

    The interpreter takes no step between them: Ctrl-C there would lose what was created, or have it freed twice.
    """
    vars(owner).update(zip((name,), starmap(function, (args,))))


def keep_in(held: list[Any], function: Callable[..., Any], *args: Any) -> None:
    """Appends what a function creates to a list, as `keep`."""
    held.extend(starmap(function, (args,)))


def free_all(held: list[Any], free: Callable[[Any], Any]) -> None:
    """Frees what a list holds, the last first, as `keep`: what was freed is not in the list any more."""
    deque(map(free, map(list.pop, repeat(held, len(held)))), 0)


class Held(Owner):
    """Native objects of one kind, which are freed with this object at the latest, the last first.

    Args:
        free: function that frees one.
    """

    def __init__(self, free: Callable[[Any], Any]) -> None:
        self._items: list[Any] = []
        self._free = free

    def new(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function creates, which is held as with `keep`."""
        keep_in(self._items, function, *args)
        return self._items[-1]

    def free(self) -> None:
        """Frees them."""
        free_all(self._items, self._free)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __del__(self) -> None:
        if hasattr(self, "_free"):
            self.free()


class LockOwner(Owner):
    """An Owner whose calls take turns.

    Attributes:
        _lock: a re-entrant lock. In a forked child it is free, unless the thread that forked holds it.
    """

    def __init__(self):
        self._lock = threading.RLock()
        _locked.add(self)

    def _after_lost_call(self):
        """In a forked child: a call held the lock in a thread that the child does not have."""


def _free_locks():
    for owner in list(_locked):
        if owner._lock.acquire(blocking=False):
            owner._lock.release()
        else:
            owner._lock = threading.RLock()
            owner._after_lost_call()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_free_locks)
