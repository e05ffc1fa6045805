"""Adapters of a running model."""

from __future__ import annotations

import os

from ..._errors import named
from .lora import Lora
from .runner import Runner


class Adapting:
    """The adapters that a runner uses; see Model."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    @named("set_lora")
    def set_lora(self, *adapters: str | os.PathLike[str] | tuple[str | os.PathLike[str], float]) -> None:
        """Replaces the adapters that are in use; without arguments there are none.

        Args:
            adapters: paths of GGUF files, or pairs of a path and a factor.
        Raises:
            ValueError: a file is not an adapter, or does not fit the model; the adapters in use stay.
            OSError: a file cannot be read.
        """
        with self.runner.lock:
            self.runner.check_undivided("set_lora")
            loaded: list[Lora] = []
            try:
                for item in adapters:
                    path, scale = item if isinstance(item, tuple) else (item, 1.0)
                    loaded.append(Lora(path, self.runner.weights, self.runner.config.arch, scale, self.runner.mmap))
            except BaseException:
                for lora in loaded:
                    lora.close()
                raise
            self.runner.changed("set_lora")
            self.runner.loras, former = loaded, self.runner.loras
            for lora in former:
                lora.close()
