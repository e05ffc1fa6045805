"""What a fine-tuning does where its files cannot be written: the space is checked before, and the result is kept."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence

from .report import FinetuneResult

Path = str | os.PathLike[str]
MIB = 1 << 20


def check_space(files: Sequence[tuple[Path, int]]) -> None:
    """Raises OSError if the disks have no room for files.

    Args:
        files: paths, and bytes that each will need; several may lie on one disk.
    """
    needs: dict[int, list[tuple[Path, int]]] = {}
    folders: dict[int, str] = {}
    for path, size in files:
        folder = os.path.dirname(os.path.realpath(path))
        try:
            disk = os.stat(folder).st_dev
        except OSError:
            continue
        folders[disk] = folder
        needs.setdefault(disk, []).append((path, size))
    for disk, parts in needs.items():
        need = sum(size for _, size in parts)
        free = shutil.disk_usage(folders[disk]).free
        if free < need:
            names = " and ".join(os.fspath(path) for path, _ in parts)
            verb = "need" if len(parts) > 1 else "needs"
            text = f"finetune: {names} {verb} {need / MIB:,.1f} MiB, and the disk has {free / MIB:,.1f} MiB"
            raise OSError(errno.ENOSPC, text, os.fspath(parts[0][0]))


class NotSaved(OSError):
    """A fine-tuning is complete, but its files could not be written. Nothing is lost: `save` tries again.

    Attributes:
        result: FinetuneResult.

    Example:
        try:
            model.finetune(data, "adapter.gguf")
        except NotSaved as error:
            error.save("/elsewhere/adapter.gguf")
    """

    def __init__(
        self, error: OSError, result: FinetuneResult, write: Callable[[Path, Path | None], None],
        close: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__(error.errno, error.strerror or str(error), error.filename)
        self.result, self._write, self._close = result, write, close

    def __reduce__(self) -> tuple:
        return OSError, self.args

    def save(self, lora: Path, state: Path | None = None) -> None:
        """Writes the adapter, and the state of the training if it gets a file. It may be called several times.

        Args:
            lora: GGUF file of the adapter.
            state: file of the state, or None.
        Raises:
            OSError: a file cannot be written.
            RuntimeError: close was called.
        """
        self._write(lora, state)

    def close(self) -> None:
        """Frees the adapter's memory, which happens by itself when nobody holds this exception any longer."""
        self._close()

    def __del__(self) -> None:
        if hasattr(self, "_close"):
            self._close()
