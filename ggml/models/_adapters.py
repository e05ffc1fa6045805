"""Adapters of a running model."""

from __future__ import annotations

import os

from ._compute import Computing
from ._lora import Lora


class Adapting(Computing):
    """Methods of Model for adapters."""

    def set_lora(self, *adapters: str | os.PathLike[str] | tuple[str | os.PathLike[str], float]) -> None:
        """Replaces the adapters that are in use; without arguments there are none.

        Args:
            adapters: paths of GGUF files, or pairs of a path and a factor.
        Raises:
            ValueError: a file is not an adapter, or does not fit the model; the adapters in use stay.
            OSError: a file cannot be read.
        """
        with self._lock:
            self._check_undivided("set_lora")
            loaded: list[Lora] = []
            try:
                for item in adapters:
                    path, scale = item if isinstance(item, tuple) else (item, 1.0)
                    loaded.append(Lora(path, self._weights, self.config.arch, scale, self._mmap))
            except BaseException:
                for lora in loaded:
                    lora.close()
                raise
            self._changed("set_lora")
            self._loras, former = loaded, self._loras
            for lora in former:
                lora.close()
