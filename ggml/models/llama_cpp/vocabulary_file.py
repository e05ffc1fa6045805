"""A file of which only the vocabulary is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import ggml

from ..._errors import named, naming
from ..._owners import Owner
from ..files.model_file import Metadata
from ..text.tokenizer import Tokenizer


class VocabularyFile(Owner):
    """Stands for a Model of which only the vocabulary and the keys of the file are there.

    Args:
        path: path of a GGUF file, which need not have tensors.
        overrides: keys with values that replace those of the file, or None.

    Raises:
        OSError, ValueError, TypeError: as ggml.models.load.
    """

    @named("Llama")
    def __init__(self, path: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None) -> None:
        path = os.fspath(path)
        handle: Any = ggml.gguf_init_from_file(path, ggml.gguf_init_params(no_alloc=True, ctx=None))
        try:
            self.metadata = Metadata(handle)
            self.metadata.override(overrides or {}, "Llama")
            with naming(path):
                self.tokenizer = Tokenizer(self.metadata)
            arch = self.metadata.get("general.architecture")
            keys = {name: self.metadata.get(f"{arch}.{key}", 0) for name, key in
                    (("n_ctx_train", "context_length"), ("n_embd", "embedding_length"))}  # fmt: skip
            for key in self.metadata:  # the values that Llama shows
                self.metadata[key]
        finally:
            self.metadata.detach()
            ggml.gguf_free(handle)
        self.config = SimpleNamespace(arch=arch, n_vocab=self.tokenizer.n_vocab, **keys)
        self.n_ctx = self.config.n_ctx_train

    def detokenize(self, ids: Any) -> str:
        """The text of token ids."""
        return self.tokenizer.decode(ids)

    def close(self) -> None:
        """There is nothing to free."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"Llama: the model was opened with vocab_only=True: need vocab_only=False for {name!r}")
