"""Weights of mapped files and folders in pages of 2 MiB.

A step of one token reads all weights once. In pages of 4 KiB, as files are mapped, a processor spends a part of that
time on looking up where they are, in a virtual machine up to half.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ggml

BLOCK = 32 << 20  # bytes that one call copies
SECONDS = 1.0  # after which the rest stays: a virtual machine may get memory at less than half a gigabyte a second
LEAST = 32 << 20  # bytes of weights: fewer are found without delay
GAP = 4096  # bytes between tensors that lie side by side
PIECES = 16  # of a tensor of a folder
ALIGNMENT = 64  # bytes, of its copy
KEPT = 8  # memory of which a part of 1 / KEPT stays free
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
OUTPUT, TABLE, EXPERTS = b"output.weight", b"token_embd.weight", b"_exps."
ROWS = b"per_layer_token_embd.weight", b"position_embd.weight"  # tables of which a token needs a row
OWN_GROUPS = Path("/proc/self/cgroup")
V1 = (
    Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
)  # fmt: skip
V2 = Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"


def has_large_pages() -> bool:
    """Whether the system gives large pages to programs that ask for them."""
    try:
        return "[never]" not in SETTING.read_text()
    except OSError:
        return False


def _limits() -> Iterator[tuple[int, int]]:
    """Of each control group that limits memory: the bytes that are used and can't be dropped, and the limit."""
    for line in OWN_GROUPS.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, most, now, dropped = V1 if controllers else V2
        own = root / path.lstrip("/")
        for group in [root, *(folder for folder in (own, *own.parents) if root in folder.parents)]:
            try:
                statistics = dict(item.split() for item in (group / "memory.stat").read_text().splitlines())
                yield int((group / now).read_text()) - int(statistics[dropped]), int((group / most).read_text())
            except (OSError, KeyError, ValueError):  # no such folder here, or "max"
                continue


def free_memory() -> tuple[int, int]:
    """Bytes of memory that this process can still get, and those that it may have in all; 0, 0 if nobody knows."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free, total = (int(lines[key].split()[0]) << 10 for key in ("MemAvailable", "MemTotal"))
        for used, limit in _limits():
            free, total = min(free, limit - used), min(total, limit)
    except (OSError, KeyError, ValueError):
        return 0, 0
    return free, total


def use_large_pages(files: Sequence[Any]) -> None:
    """Moves the weights of mapped files to large pages, unless they are few or memory is short.

    It takes about a second at most, whatever the size: first what each token needs, then experts. Tables of which a
    token needs a row stay.

    Args:
        files: handles of GGUF contexts that map files.
    """
    tied = not any(ggml.gguf_find_tensor(file, OUTPUT) >= 0 for file in files)
    ranges = [(part, file) for file in files for part in _ranges(file, tied)]
    if not _is_worthwhile(sum(part.end - part.start for part, _ in ranges)):
        return
    end = time.monotonic() + SECONDS
    for part, file in sorted(ranges, key=lambda pair: pair[0].experts):
        for start in range(part.start, part.end, BLOCK):  # an interrupt comes between two blocks
            if time.monotonic() > end:
                return
            ggml.ext.gguf_use_large_pages(file, start, min(BLOCK, part.end - start))


def _is_worthwhile(size: int) -> bool:
    """Whether so many bytes of weights are not few, and the system has large pages and memory for them."""
    if size < LEAST or not has_large_pages():
        return False
    free, total = free_memory()
    return free - size >= total // KEPT


def is_tied(names: Collection[str]) -> bool:
    """Whether a model with tensors of these names has no output matrix: the embedding is that too."""
    return OUTPUT.decode() not in names


def in_large_pages(values: Mapping[str, np.ndarray], tied: bool) -> Iterator[tuple[str, np.ndarray]]:
    """Copies of tensors of mapped shards in large pages, with their names: of which, see use_large_pages."""
    rows = {row.decode() for row in (ROWS if tied else (TABLE, *ROWS))}
    chosen = {name: array for name, array in values.items() if name not in rows}
    sizes = [-(-array.nbytes // ALIGNMENT) * ALIGNMENT for array in chosen.values()]
    if not _is_worthwhile(sum(sizes)):
        return
    try:
        pages = mmap.mmap(-1, sum(sizes), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # the system has no such pages, or no memory
        return
    end, at = time.monotonic() + SECONDS, 0
    for name in sorted(chosen, key=lambda name: EXPERTS.decode() in name):
        if time.monotonic() > end:
            return
        array = chosen[name]
        copy = np.frombuffer(pages, array.dtype, array.size, at).reshape(array.shape)
        for source, place in zip(np.array_split(array.reshape(-1), PIECES), np.array_split(copy.reshape(-1), PIECES)):
            place[:] = source  # an interrupt comes between two of them
        at += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        yield name, copy


class Part(NamedTuple):
    """Bytes of a file's tensor data."""

    experts: bool  # of which a token needs some
    start: int
    end: int


def _ranges(file: Any, tied: bool) -> list[Part]:
    """The tensor data of a GGUF context that tokens read as a whole; what lies side by side is one part."""
    rows = ROWS if tied else (TABLE, *ROWS)
    found: list[Part] = []
    for i in range(ggml.gguf_get_n_tensors(file)):
        name = ggml.gguf_get_tensor_name(file, i)
        if name in rows:
            continue
        start, size = ggml.gguf_get_tensor_offset(file, i), ggml.gguf_get_tensor_size(file, i)
        part = Part(EXPERTS in name, start, start + size)
        if found and found[-1].experts == part.experts and 0 <= start - found[-1].end < GAP:
            part = Part(part.experts, found.pop().start, part.end)
        found.append(part)
    return found
