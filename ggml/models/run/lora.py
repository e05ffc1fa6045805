"""Low-rank adapters (arXiv:2106.09685) from GGUF files: beside the weights at run time, or merged into them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..._errors import named
from ..._owners import Owner
from ..arch.base import Pair
from ..files.model_file import ModelFile


class Lora(Owner):
    """An adapter file: `pairs` by the name of the weight. It stays open until `close`.

    Args:
        path: GGUF file with general.type "adapter".
        weights: tensors of the model by name, with which the adapter must fit.
        arch: the model's general.architecture.
        scale: factor of what the adapter adds.
        mmap: whether to map the file instead of copying it into memory.
    Raises:
        ValueError: the file is not an adapter, or does not fit the model.
    """

    @named("load_lora")
    def __init__(
        self,
        path: str | os.PathLike[str],
        weights: Mapping[str, Any],
        arch: str,
        scale: float = 1.0,
        mmap: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        self.scale = float(scale)
        self.file = ModelFile(path, mmap, "load_lora")
        try:
            self.pairs = self._read(weights, arch)
        except BaseException:
            self.file.close()
            raise

    def _read(self, weights: Mapping[str, Any], arch: str) -> dict[str, Pair]:
        keys = self.file.metadata
        for key, wanted in {"general.type": "adapter", "adapter.type": "lora", "general.architecture": arch}.items():
            if keys.get(key) != wanted:
                raise ValueError(f"load_lora: {self.path}: key {key!r} is {keys.get(key)!r}: need {wanted!r}")
        alpha = keys.get("adapter.lora.alpha", 0.0)
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)):
            raise ValueError(f"load_lora: {self.path}: key 'adapter.lora.alpha' is {str(alpha)[:60]}: need a number")
        names = {name.rsplit(".lora_", 1)[0] for name in self.file.tensors}
        pairs = {}
        for name in sorted(names):
            a, b = (self.file.tensors.get(f"{name}.lora_{part}") for part in "ab")
            if a is None or b is None:
                raise ValueError(f"load_lora: {self.path}: need tensors '{name}.lora_a' and '{name}.lora_b'")
            if name not in weights:
                raise ValueError(f"load_lora: {self.path}: the model has no tensor {name!r}")
            self._check(name, a, b, weights[name])
            rank = b.contents.ne[0]
            pairs[name] = Pair(a, b, self.scale * (alpha / rank if alpha else 1.0))
        return pairs

    def _check(self, name: str, a: Any, b: Any, w: Any) -> None:
        """Shapes: A [n_in, rank], B [rank, n_out] for W [n_in, n_out]; of an embedding A [rank, rows], B [rank, C]."""
        a, b, w = (list(t.contents.ne[:3]) for t in (a, b, w))
        if name == "token_embd.weight":
            fits = a[1] == w[1] and b[1] == w[0] and a[0] == b[0]
        else:
            fits = a[0] == w[0] and b[1] == w[1] and a[1] == b[0]
        fits = fits and b[0] > 0  # the rank
        if not fits or a[2] != w[2] or b[2] != w[2]:
            raise ValueError(f"load_lora: {self.path}: {name!r} is {w}, its adapter {a} and {b}: they don't fit")

    def close(self) -> None:
        self.pairs.clear()
        self.file.close()
