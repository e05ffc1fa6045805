"""Beginnings of texts in a folder: servers that start later find them; nothing in it makes a request fail."""

import logging
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

for library in ("gguf", "jinja2", "tokenizers", "llguidance", "fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(library)  # of the extra [test]

import tiny_models  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402
from server import GREEDY, SETTINGS  # noqa: E402

from ggml.models import load  # noqa: E402
from ggml.serve import app  # noqa: E402
from ggml.serve.disk import Folder  # noqa: E402

PROMPT = [3 + i * i % 90 for i in range(200)]
KINDS = ["llama", "gemma3"]  # files of blocks, and of whole texts: gemma3 has sliding windows


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disk")
    return {kind: tiny_models.write(folder / f"{kind}.gguf", kind) for kind in KINDS}


def ask(application, prompt, name=None, **more):
    """The tokens of an answer, and how many of the prompt were known."""
    with TestClient(application) as client:
        body = {"prompt": prompt, "max_tokens": 8, **GREEDY, **more} | ({"model": name} if name else {})
        answer = client.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        return found["choices"][0]["text"], found["usage"]["prompt_tokens_details"]["cached_tokens"]


def expected(path, prompt, **options):
    with load(path, n_ctx=256, threads=1, **options) as model:
        return "".join(model.generate(prompt, max_tokens=8, **GREEDY))


def files(folder):
    return sorted(folder.glob("ggml-*.kv"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_starts_later(kind, paths, tmp_path):
    settings = {**SETTINGS, "cache_dir": tmp_path / "cache"}
    answer = [ord(c) - 30 for c in expected(paths[kind], PROMPT)]
    assert ask(app(paths[kind], **settings), PROMPT) == (expected(paths[kind], PROMPT), 0)
    assert len(files(tmp_path / "cache")) == (3 if kind == "llama" else 2)
    for prompt in (PROMPT, [*PROMPT, *answer, 7], PROMPT[:-9] + [7] * 20):
        text, known = ask(app(paths[kind], **settings), prompt)
        assert text == expected(paths[kind], prompt)
        assert known >= (128 if kind == "llama" else 0 if prompt[:200] != PROMPT else 192)
    assert os.stat(tmp_path / "cache").st_mode & 0o077 == 0


@pytest.mark.parametrize("kind", KINDS)
def test_others_do_not_get_it(kind, paths, tmp_path):
    """Another model, type of keys and values, adapter, or inexact beginnings for exact answers."""
    lora = tiny_models.write_lora(tmp_path / "l.gguf", kind)
    other = tiny_models.write(tmp_path / "other.gguf", kind, seed=4)
    settings = {**SETTINGS, "cache_dir": tmp_path / "cache", "adapters": {"x": lora}}
    assert ask(app({"a": paths[kind]}, **settings), PROMPT, exact=False)[1] == 0
    for change in ({"models": {"a": other}}, {"kv_type": "f32"}, {"name": "a:x"}, {}):
        change = dict(change)
        models, name = change.pop("models", {"a": paths[kind]}), change.pop("name", None)
        assert ask(app(models, **{**settings, **change}), PROMPT, name)[1] == 0
    for name, options in (("a:x", {"lora": [lora]}), ("a", {})):
        text, known = ask(app({"a": paths[kind]}, **settings), PROMPT, name)
        assert known == 192 and text == expected(paths[kind], PROMPT, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_and_foreign_files_are_ignored(kind, paths, tmp_path, caplog):
    settings, right = {**SETTINGS, "cache_dir": tmp_path}, expected(paths[kind], PROMPT)
    ask(app(paths[kind], **settings), PROMPT)
    (tmp_path / "notes.txt").write_text("of somebody else")
    (tmp_path / f"ggml-{'0' * 40}-64.kv").mkdir()
    dice = random.Random(0)
    for damage in ("cut", "bit", "empty", "other", "gone"):
        caplog.clear()
        path = min(filter(Path.is_file, files(tmp_path)), key=lambda path: int(path.stem.rpartition("-")[2]))
        data = bytearray(path.read_bytes())
        if damage == "bit":
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        elif damage == "cut":
            del data[-dice.randrange(1, 100) :]
        elif damage == "empty":
            data.clear()
        elif damage == "other":
            data = bytearray(os.urandom(len(data)))
        application = app(paths[kind], **settings)
        path.write_bytes(data)
        if damage == "gone":
            path.unlink()
        with caplog.at_level(logging.WARNING, "ggml.serve"):
            assert ask(application, PROMPT)[0] == right
        assert f"{path} is ignored" in caplog.text
        assert path.is_file()  # written again
    assert (tmp_path / "notes.txt").read_text() == "of somebody else"


def test_the_size_is_limited(paths, tmp_path):
    settings = {**SETTINGS, "cache_dir": tmp_path}
    ask(app(paths["llama"], **settings), PROMPT)
    size = files(tmp_path)[0].stat().st_size
    limited = {**settings, "cache_bytes": 4 * size}
    for first in (5, 6):
        assert ask(app(paths["llama"], **limited), [first, *PROMPT])[1] == 0
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 4 * size
    assert ask(app(paths["llama"], **limited), [6, *PROMPT])[1] == 192  # the one that was used last is there


FULL = """
import os, resource, sys
sys.path[:0] = [sys.argv[1], os.path.dirname(sys.argv[1])]
import test_disk
from ggml.serve import app
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
settings = {**test_disk.SETTINGS, "cache_dir": sys.argv[3]}
print(test_disk.ask(app(sys.argv[2], **settings), test_disk.PROMPT)[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of processes")
def test_a_full_disk(paths, tmp_path):
    """A limit on the size of files fails as a full disk does."""
    tests = os.path.dirname(__file__)
    command = [sys.executable, "-c", FULL, tests, str(paths["llama"]), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected(paths["llama"], PROMPT).strip()
    assert "are not kept for a while" in done.stderr and not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Folder(tmp_path / "file" / "x", 1)
