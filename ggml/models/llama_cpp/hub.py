"""Files of repositories on the Hugging Face Hub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatch
from importlib import import_module

from ..._extras import require


def fetch(
    caller: str,
    repo_id: str,
    patterns: Sequence[str],
    local_dir: str | os.PathLike[str] | None,
    cache_dir: str | os.PathLike[str] | None,
) -> str:
    """Downloads files by name or pattern; returns the path of the first."""
    require(f"{caller}: ", ["huggingface_hub"], "'ggml-cython[hub]'")
    hub = import_module("huggingface_hub")
    names = hub.list_repo_files(repo_id)
    paths = []
    for pattern in patterns:
        found = [name for name in names if fnmatch(name, pattern)]
        if len(found) != 1:
            known = ", ".join(found or [name for name in names if name.endswith(".gguf")])
            raise ValueError(f"{caller}: {len(found)} files of {repo_id} match {pattern!r}: need one of {known}")
        paths.append(hub.hf_hub_download(repo_id, found[0], local_dir=local_dir, cache_dir=cache_dir))
    return paths[0]
