"""Weights of mapped files in pages of 2 MiB.

A step of one token reads all weights once. In pages of 4 KiB, as files are mapped, a processor spends a part of that
time on looking up where they are, in a virtual machine up to half.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ggml

BLOCK = 32 << 20  # bytes that one call copies
SECONDS = 1.0  # after which the rest stays: a virtual machine may get memory at less than half a gigabyte a second
LEAST = 32 << 20  # bytes of data: fewer are found without delay
KEPT = 8  # memory of which a part of 1 / KEPT stays free
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
OWN_GROUPS = Path("/proc/self/cgroup")
V1 = (
    Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
)  # fmt: skip
V2 = Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"


def has_large_pages() -> bool:
    """Whether the system gives large pages to who asks for them."""
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
    """Bytes that this process can still get without that others lose theirs, and those that it may have in all."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free, total = (int(lines[key].split()[0]) << 10 for key in ("MemAvailable", "MemTotal"))
        for used, limit in _limits():
            free, total = min(free, limit - used), min(total, limit)
    except (OSError, KeyError, ValueError):
        return 0, 0
    return free, total


def use_large_pages(files: Sequence[Any]) -> None:
    """Moves the tensor data of mapped files to large pages, unless they are small or memory is short.

    It takes about a second at most, whatever the size.

    Args:
        files: handles of GGUF contexts that map files.
    """
    sizes = [_data_size(file) for file in files]
    if sum(sizes) < LEAST or not has_large_pages():
        return
    free, total = free_memory()
    if free - sum(sizes) < total // KEPT:
        return
    end = time.monotonic() + SECONDS
    for file, size in zip(files, sizes, strict=True):
        for start in range(0, size, BLOCK):  # an interrupt comes between two blocks
            if time.monotonic() > end:
                return
            ggml.ext.gguf_use_large_pages(file, start, min(BLOCK, size - start))


def _data_size(file: Any) -> int:
    """The size of a GGUF context's tensor data."""
    tensors = range(ggml.gguf_get_n_tensors(file))
    ends = (ggml.gguf_get_tensor_offset(file, i) + ggml.gguf_get_tensor_size(file, i) for i in tensors)
    return max(ends, default=0)
