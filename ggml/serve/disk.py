"""Beginnings of texts in a folder, which survive the end of the server.

Keys and values of a model whose layers all attend to everything are files of BLOCK tokens, each named by a digest of
all tokens up to its end: texts that begin alike share files. Other models, which have sliding windows or states, have a
file for the whole of each prompt and of each text. A file is complete or has another name; its contents have a
checksum. Nothing in the folder can make a request fail: what can't be read is computed, and what can't be written is
not kept.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from ..models import Model
from ..models.run.memory import Held
from ..models.run.sequences import REPEATED, WORTHWHILE

MAGIC = b"GGPREFIX\x01\0\0\0\0\0\0\0"
BLOCK = 64  # tokens of a file
KEY, SUM = 20, 16  # bytes of the digests of tokens and of contents
NAME = re.compile(rf"ggml-([0-9a-f]{{{2 * KEY}}})-(\d{{1,9}})\.kv")
PART = re.compile(r"\.ggml-[0-9a-f]+-\d+\.kv\.part")  # a file that was being written
OLD = 60.0  # seconds after which nobody writes such a file any more
PENDING = 256 << 20  # most bytes that wait to be written; what comes beyond is not kept
QUIET = 30.0  # seconds between two warnings, and without writing after an error
log = logging.getLogger("ggml.serve")


class Folder:
    """Files of limited size in all, by digest and number of tokens. The least recently used are removed.

    Args:
        path: the folder; it is made if need be, for this user alone.
        limit: most bytes.

    Raises:
        OSError: there is no folder, and none can be made.
    """

    def __init__(self, path: str | Path, limit: int) -> None:
        self._path, self._limit, self._lock = Path(path), limit, threading.Lock()
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sizes: OrderedDict[tuple[str, int], int] = OrderedDict()  # the least recently used first
        self._pending: dict[tuple[str, int], int] = {}
        self._quiet = 0.0
        self._scan()
        self._work: SimpleQueue[tuple[tuple[str, int], bytes] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="ggml-serve-disk", daemon=True)
        self._thread.start()

    def _scan(self) -> None:
        """Finds the files of former servers."""
        found, others = [], 0
        with os.scandir(self._path) as entries:
            for entry in entries:
                match = NAME.fullmatch(entry.name)
                with contextlib.suppress(OSError):
                    if match and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_mtime, (match[1], int(match[2])), status.st_size))
                    elif PART.fullmatch(entry.name):
                        if entry.stat(follow_symlinks=False).st_mtime < time.time() - OLD:
                            os.unlink(entry.path)
                    else:
                        others += 1
        for _, key, size in sorted(found):
            self._sizes[key] = size
        if others:
            log.warning("%s: %d files are not of this cache and are ignored", self._path, others)
        self._make_room(0)

    def _file(self, key: tuple[str, int]) -> Path:
        return self._path / f"ggml-{key[0]}-{key[1]}.kv"

    def lengths(self, most: int) -> list[int]:
        """The numbers of tokens of which there are files, up to `most`, the largest first."""
        with self._lock:
            return sorted({length for _, length in self._sizes if length <= most}, reverse=True)

    def __contains__(self, key: tuple[str, int]) -> bool:
        """Whether there is a file, or will be soon."""
        with self._lock:
            return key in self._sizes or key in self._pending

    def read(self, key: tuple[str, int]) -> memoryview | None:
        """The contents of a file; None if there is none that is whole."""
        with self._lock:
            if key not in self._sizes:
                return None
        path = self._file(key)
        try:
            with open(path, "rb") as file:
                data = memoryview(file.read())
            os.utime(path)
            head = MAGIC + bytes.fromhex(key[0])
            body = data[len(head) + SUM :]
            if data[: len(head)] != head or data[len(head) : len(head) + SUM] != _checksum(body):
                raise ValueError("the file is damaged")
        except (OSError, ValueError) as error:
            log.warning("%s is ignored: %s", path, error)
            self.forget(key)
            return None
        with self._lock:
            if key in self._sizes:
                self._sizes.move_to_end(key)
        return body

    def forget(self, key: tuple[str, int]) -> None:
        """Treats a file as if it did not exist."""
        with self._lock:
            self._sizes.pop(key, None)

    def write(self, key: tuple[str, int], data: bytes) -> None:
        """Writes a file later, unless too much waits to be written."""
        with self._lock:
            if time.monotonic() < self._quiet or sum(self._pending.values()) + len(data) > PENDING:
                return
            self._pending[key] = len(data)
        self._work.put((key, data))

    def close(self) -> None:
        """Writes what waits; returns after some seconds in any case."""
        self._work.put(None)
        self._thread.join(10)

    # ---- the thread that writes --------------------------------------------------------------------------------------
    def _write_all(self) -> None:
        while (item := self._work.get()) is not None:
            key, data = item
            try:
                self._write(key, data)
            except OSError as error:  # such as a full disk
                now = time.monotonic()
                if now >= self._quiet:
                    log.warning("%s: beginnings of texts are not kept for a while: %s", self._path, error)
                self._quiet = now + QUIET
            finally:
                with self._lock:
                    del self._pending[key]

    def _write(self, key: tuple[str, int], data: bytes) -> None:
        path = self._file(key)
        part = path.with_name(f".{path.name}.part")
        size = len(MAGIC) + KEY + SUM + len(data)
        if size > self._limit:
            return
        self._make_room(size)
        try:
            with open(part, "wb") as file:
                file.write(MAGIC + bytes.fromhex(key[0]) + _checksum(data))
                file.write(data)
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
        with self._lock:
            self._sizes[key] = size

    def _make_room(self, size: int) -> None:
        """Removes the files that were used least recently, so that there is room for `size` bytes."""
        with self._lock:
            total, old = sum(self._sizes.values()) + size, []
            while total > self._limit and self._sizes:
                key, freed = self._sizes.popitem(last=False)
                total -= freed
                old.append(key)
        for key in old:
            with contextlib.suppress(OSError):
                os.unlink(self._file(key))


def _checksum(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=SUM).digest()


class Beginnings:
    """The beginnings of the texts of one model in a folder; see Store of ggml.models.generate.batching.

    Args:
        folder: has the files.
        model: whose texts they are.
    """

    def __init__(self, folder: Folder, model: Model) -> None:
        self._folder, self._model = folder, model
        self.read = 0  # tokens that were found in the folder

    def _keys(self, ids: Sequence[int], adapter: str | None, exact: bool, ends: Sequence[int]) -> Iterator[tuple]:
        """The keys of the files that end after some numbers of tokens, in increasing order."""
        digest = blake2b(self._model.states.digest(adapter), digest_size=KEY, person=b"exact" if exact else b"")
        data, start = np.array(ids, "<i4").tobytes(), 0
        for end in ends:
            digest.update(data[4 * start : 4 * end])
            start = end
            yield digest.hexdigest(), end

    def fetch(self, ids: Sequence[int], adapter: str | None, exact: bool, least: int) -> Held | None:
        """A sequence that holds at least so many of the first tokens of a text; None if there is none.

        Raises:
            MemoryError: there is no memory for it.
        """
        memory = self._model.runner.memory
        if memory is None or len(ids) <= least or min(ids) < 0:
            return None
        search = self._of_blocks if memory.divisible else self._whole
        for kind in (True,) if exact else (False, True):
            held = search(ids, adapter, kind, least)
            if held is not None:
                held.adapter = adapter
                self.read += len(held.ids)
                return held
        return None

    def _of_blocks(self, ids: Sequence[int], adapter: str | None, exact: bool, least: int) -> Held | None:
        memory = self._model.runner.memory
        assert memory is not None
        keys = []
        for key in self._keys(ids, adapter, exact, range(BLOCK, len(ids) + 1, BLOCK)):
            if key not in self._folder:
                break
            keys.append(key)
        if len(keys) * BLOCK < least:
            return None
        held = memory.new()
        for key in keys:
            data = self._folder.read(key)
            if data is None:
                break
            try:
                memory.append_part(held, ids[key[1] - BLOCK : key[1]], data, exact)
            except ValueError as error:
                log.warning("%s is ignored: %s", key[0], error)
                self._folder.forget(key)
                break
        return held if len(held.ids) >= least else None

    def _whole(self, ids: Sequence[int], adapter: str | None, exact: bool, least: int) -> Held | None:
        memory = self._model.runner.memory
        assert memory is not None
        ends = [length for length in self._folder.lengths(len(ids)) if length >= least]
        keys = [key for key in self._keys(ids, adapter, exact, ends[::-1]) if key in self._folder]
        for key in keys[::-1]:
            data = self._folder.read(key)
            if data is None:
                continue
            try:
                held = memory.load(data, "load_state")
            except ValueError as error:
                log.warning("%s is ignored: %s", key[0], error)
                self._folder.forget(key)
                continue
            if held.ids == list(ids[: key[1]]):
                return held
        return None

    def keep(self, held: Held, prompt: int) -> None:
        """Copies what a sequence holds, to be written later."""
        memory, exact, length = self._model.runner.memory, held.exact == len(held.ids), len(held.ids)
        if memory is None or length < 2 * WORTHWHILE or min(held.ids) < 0:
            return
        if memory.divisible:
            ends: Sequence[int] = range(BLOCK, length + 1, BLOCK)
        else:  # for the same prompt, and for a conversation that goes on
            ends = sorted({end for end in (prompt - REPEATED, length) if 2 * WORTHWHILE <= end <= length})
        for key in self._keys(held.ids, held.adapter, exact, ends):
            if key in self._folder:
                continue
            end = key[1]
            if memory.divisible:
                self._folder.write(key, memory.save_part(held, end - BLOCK, end))
            elif memory.reachable(held, end) == end:
                self._folder.write(key, memory.save(memory.copy(held, end)))
