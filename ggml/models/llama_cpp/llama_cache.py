"""Caches of states: prompts that begin like an earlier one continue from there."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from ..run.sequences import common_length
from .steps import LlamaState


class BaseLlamaCache(ABC):
    """States by their tokens; a key finds the state with the longest common beginning.

    Args:
        capacity_bytes: most bytes of all states; the oldest go first.
    """

    def __init__(self, capacity_bytes: int = 2 << 30) -> None:
        self.capacity_bytes = capacity_bytes

    @property
    @abstractmethod
    def cache_size(self) -> int:
        """Bytes of all states."""

    @abstractmethod
    def keys(self) -> list[tuple[int, ...]]:
        """The tokens of all states."""

    @abstractmethod
    def __getitem__(self, key: Sequence[int]) -> LlamaState:
        """The state with the longest common beginning; KeyError if none begins alike."""

    @abstractmethod
    def __setitem__(self, key: Sequence[int], value: LlamaState) -> None:
        """Keeps a state."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, Sequence) and self._nearest(key) is not None

    def _nearest(self, key: Sequence[int]) -> tuple[int, ...] | None:
        """The tokens with the longest common beginning, None if there are none."""
        wanted = list(map(int, key))
        lengths = [(common_length(list(known), wanted), known) for known in self.keys()]
        length, best = max(lengths, key=lambda found: found[0], default=(0, None))
        return best if length else None


class LlamaRAMCache(BaseLlamaCache):
    """States in memory."""

    def __init__(self, capacity_bytes: int = 2 << 30) -> None:
        super().__init__(capacity_bytes)
        self.cache_state: OrderedDict[tuple[int, ...], LlamaState] = OrderedDict()

    @property
    def cache_size(self) -> int:
        return sum(state.llama_state_size for state in self.cache_state.values())

    def keys(self) -> list[tuple[int, ...]]:
        return list(self.cache_state)

    def __getitem__(self, key: Sequence[int]) -> LlamaState:
        nearest = self._nearest(key)
        if nearest is None:
            raise KeyError("Key not found")
        self.cache_state.move_to_end(nearest)
        return self.cache_state[nearest]

    def __setitem__(self, key: Sequence[int], value: LlamaState) -> None:
        tokens = tuple(map(int, key))
        self.cache_state.pop(tokens, None)
        self.cache_state[tokens] = value
        while self.cache_size > self.capacity_bytes and self.cache_state:
            self.cache_state.popitem(last=False)


class LlamaDiskCache(BaseLlamaCache):
    """States in the files of a folder, one for each.

    Args:
        cache_dir: the folder, which is made if need be.
        capacity_bytes: most bytes of all files.
    """

    def __init__(self, cache_dir: str = ".cache/llama_cache", capacity_bytes: int = 2 << 30) -> None:
        super().__init__(capacity_bytes)
        self._folder = Path(cache_dir)
        self._folder.mkdir(parents=True, exist_ok=True)

    def _files(self) -> list[Path]:
        """The files, the oldest first."""
        return sorted(self._folder.glob("*.npz"), key=lambda path: path.stat().st_mtime)

    @property
    def cache_size(self) -> int:
        return sum(path.stat().st_size for path in self._files())

    def _path(self, key: Sequence[int]) -> Path:
        return self._folder / (sha256(np.array(key, np.int64).tobytes()).hexdigest() + ".npz")

    def keys(self) -> list[tuple[int, ...]]:
        found = []
        for path in self._files():
            with np.load(path, allow_pickle=False) as data:
                found.append(tuple(data["key"].tolist()))
        return found

    def __getitem__(self, key: Sequence[int]) -> LlamaState:
        nearest = self._nearest(key)
        if nearest is None:
            raise KeyError("Key not found")
        path = self._path(nearest)
        os.utime(path)
        with np.load(path, allow_pickle=False) as data:
            state = data["state"].tobytes()
            return LlamaState(data["input_ids"], data["scores"], int(data["n_tokens"]), state, len(state))

    def __setitem__(self, key: Sequence[int], value: LlamaState) -> None:
        path = self._path(key)
        handle, name = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, key=np.array(key, np.int64), input_ids=value.input_ids, scores=value.scores,
                     n_tokens=value.n_tokens, state=np.frombuffer(value.llama_state, np.uint8))  # fmt: skip
        os.replace(name, path)
        for old in self._files():
            if self.cache_size <= self.capacity_bytes:
                break
            old.unlink()


LlamaCache = LlamaRAMCache
