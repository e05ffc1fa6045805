"""Adapters of a running model."""

from __future__ import annotations

import os

from ..._errors import named
from ..arch.base import Pair
from .graphs import Shape, Step
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

    @named("add_adapter")
    def add_adapter(self, name: str, path: str | os.PathLike[str], scale: float = 1.0) -> None:
        """Adds an adapter that single texts ask for: generate(adapter=name), embed(adapter=name).

        Other texts that are written are computed together with them. Encoders whose tasks have an adapter each
        (jina-embeddings-v3) have one for each task by its name.

        Args:
            name: by which texts ask for it; there is none of this name yet.
            path: GGUF file.
            scale: factor of what the adapter adds.
        Raises:
            TypeError: the name is no text.
            ValueError: there is an adapter of this name, the file is not an adapter, does not fit the model, or has
                matrices of experts; or the model is divided among ranks.
            OSError: the file cannot be read.
        """
        runner = self.runner
        if not isinstance(name, str):
            raise TypeError(f"add_adapter: the name is a {type(name).__name__}: need a str")
        with runner.lock:
            runner.check_undivided("add_adapter")
            if name in runner.named_loras:
                raise ValueError(f"add_adapter: there is an adapter {name!r} already")
            lora = Lora(path, runner.weights, runner.config.arch, scale, runner.mmap)
            lora.pairs = {weight: Pair(pair.a, pair.b, pair.scale, name) for weight, pair in lora.pairs.items()}
            runner.named_loras[name] = lora
            even = runner.memory is not None and bool(runner.memory.states)
            shape = Shape(2, 1, 1, "logits", even=even, adapters=(name,))
            if runner.memory is None:
                shape = Shape(2, 2, 1, "hidden", adapters=(name,))
            try:  # the first graph shows whether it can be computed
                Step(shape, runner.parts(), runner.memory, 1).close()
            except BaseException:
                del runner.named_loras[name]
                lora.close()
                raise
