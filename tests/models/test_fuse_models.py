"""Language models compute the same bits with and without fusions."""

import os

import numpy as np
import pytest

pytest.importorskip("gguf")

import tiny_models  # noqa: E402

from ggml import _core  # noqa: E402
from ggml.models import load  # noqa: E402


@pytest.fixture
def fuse():
    yield _core.fuse
    _core.fuse(os.environ.get("GGML_FUSE") != "0")


@pytest.mark.parametrize("kind", [kind for kind in tiny_models.SIZES if "bert" not in kind])
def test_logits(kind, tmp_path, fuse):
    """Of a prompt, and of single tokens after it."""
    path, found = tiny_models.write(tmp_path / "model.gguf", kind), []
    for on in False, True:
        fuse(on)
        with load(path, threads=2) as model:
            found.append([model.feed(ids).copy() for ids in (tiny_models.IDS, *([i] for i in tiny_models.IDS[:4]))])
    assert all(np.array_equal(a.view(np.uint32), b.view(np.uint32)) for a, b in zip(*found, strict=True))
