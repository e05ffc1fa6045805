"""What is checked when a model is opened."""

from __future__ import annotations

import warnings
from typing import Any

from ..arch import FAMILIES
from ..conversion.folder import FolderFile
from ..files.config import Config, read_config
from ..files.model_file import ModelFile


def config_of(file: ModelFile | FolderFile) -> Config:
    """The sizes and settings of a model."""
    path, arch = file.path, file.metadata.get("general.architecture")
    if arch is None:
        raise ValueError(f"load: {path}: the file is not a model: it has no key 'general.architecture'")
    if not isinstance(arch, str) or arch not in FAMILIES:
        raise ValueError(f"load: {path}: architecture {str(arch)[:60]!r}: need one of {', '.join(FAMILIES)}")
    if file.metadata.get("general.type") == "adapter":
        raise ValueError(f"load: {path}: the file is an adapter: need a model; load(..., lora=) takes adapters")
    if "token_embd.weight" not in file.tensors and file.metadata.get("clip.has_vision_encoder") is True:
        raise ValueError(f"load: {path}: the file is an encoder of pictures: need a model; load(..., mmproj=) takes it")
    if "token_embd.weight" not in file.tensors:
        raise ValueError(f"load: {path}: tensor 'token_embd.weight' is missing")
    n_vocab = file.tensors["token_embd.weight"].contents.ne[1]
    return read_config(file.metadata, arch, n_vocab, path, FAMILIES[arch])


def check_context(n_ctx: int, config: Config, path: str) -> None:
    """Warns of, or refuses, more tokens than a model was trained with."""
    limit = config.n_ctx_train
    if n_ctx > limit and config.rope_mode is None:
        raise ValueError(f"load: n_ctx is {n_ctx}: {path} has positions for {limit} tokens")
    if n_ctx > limit:
        warnings.warn(f"load: n_ctx is {n_ctx}: {path} was trained with {limit} tokens", stacklevel=7)


def positive(name: str, value: Any, high: int, low: int = 1) -> int:
    """An argument of load that must be an integer from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"load: {name} is {value!r}: need an integer from {low} to {high}")
    return value
