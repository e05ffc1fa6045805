"""Weights in large pages."""

import sys

import numpy as np
import pytest

for library in ("gguf", "jinja2", "safetensors", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import hf_models  # noqa: E402
import tiny_models  # noqa: E402

import ggml  # noqa: E402
from ggml.models import load  # noqa: E402
from ggml.models.conversion import folder as folder_module  # noqa: E402
from ggml.models.files import large_pages  # noqa: E402

IDS = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A model with 12 MiB of weights for each layer."""
    monkeypatch.setattr(tiny_models, "HIDDEN", 16384)
    return tiny_models.write(tmp_path / "model.gguf", "llama")


def of_the_file(model):
    """Bytes of the file that are mapped."""
    found = 0
    with open("/proc/self/maps") as lines:
        for line in lines:
            if line.rstrip().endswith(model.runner.file.path):
                low, high = (int(x, 16) for x in line.split()[0].split("-"))
                found += high - low
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="has no large pages")
@pytest.mark.parametrize("mmap", [True, "shared", False])
def test_weights_move_to_large_pages(mmap, path, monkeypatch):
    with load(path, threads=1, mmap="shared") as model:
        expected, whole = model.logits(IDS), of_the_file(model)
        assert whole >= 24 << 20
    monkeypatch.setattr(large_pages, "LEAST", 0)
    monkeypatch.setattr(large_pages, "BLOCK", 5 << 20)
    with load(path, threads=1, mmap=mmap) as model:
        assert np.array_equal(model.logits(IDS), expected)
        if mmap == "shared":
            assert of_the_file(model) == whole
        elif not mmap or large_pages.has_large_pages():
            assert of_the_file(model) <= 4 << 20  # what lies before the first and after the last


def test_what_takes_longer_than_a_second_stays(path, monkeypatch):
    monkeypatch.setattr(large_pages, "LEAST", 0)
    monkeypatch.setattr(large_pages, "BLOCK", 5 << 20)
    monkeypatch.setattr(large_pages, "has_large_pages", lambda: True)
    now, starts = [0.0], []

    def use(file, start, size):
        starts.append(start)
        now[0] += 0.4

    monkeypatch.setattr(large_pages.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(large_pages.ggml.ext, "gguf_use_large_pages", use)
    load(path, threads=1).close()
    assert [start - starts[0] for start in starts] == [0, 5 << 20, 10 << 20]


@pytest.mark.parametrize(("kind", "tied"), [("llama", False), ("mixtral", False), ("gemma2", True)])
def test_what_each_token_needs_moves_first_and_tables_of_rows_stay(kind, tied, tmp_path, monkeypatch):
    for name, value in (("LEAST", 0), ("has_large_pages", lambda: True), ("SECONDS", 1e9)):
        monkeypatch.setattr(large_pages, name, value)
    moved = []
    monkeypatch.setattr(large_pages.ggml.ext, "gguf_use_large_pages", lambda file, *part: moved.append(part))
    with load(tiny_models.write(tmp_path / "model.gguf", kind), threads=1) as model:
        (file,), order = model.runner.file.mapped, {}
        for i in range(ggml.gguf_get_n_tensors(file)):
            at = ggml.gguf_get_tensor_offset(file, i)
            inside = [k for k, (start, size) in enumerate(moved) if start <= at < start + size]
            order[ggml.gguf_get_tensor_name(file, i).decode()] = inside
    assert [name for name, found in order.items() if len(found) != 1] == ([] if tied else ["token_embd.weight"])
    experts = [found[0] for name, found in order.items() if "_exps" in name]
    assert bool(experts) == (kind == "mixtral")
    assert max(found[0] for name, found in order.items() if found and "_exps" not in name) < min(experts, default=99)


@pytest.mark.parametrize("where", ["free_memory", "has_large_pages"])
def test_weights_stay_where_memory_is_short_or_the_system_has_no_large_pages(where, path, monkeypatch):
    monkeypatch.setattr(large_pages, "LEAST", 0)
    monkeypatch.setattr(
        large_pages, where, lambda: ((1 << 30) + (12 << 20), 8 << 30) if where == "free_memory" else False
    )
    monkeypatch.setattr(large_pages.ggml.ext, "gguf_use_large_pages", lambda *a: pytest.fail("weights move"))
    load(path, threads=1).close()


@pytest.mark.skipif(sys.platform != "linux", reason="has no large pages")
@pytest.mark.filterwarnings("ignore:.*has no tokenizer")
@pytest.mark.parametrize(("kind", "tied"), [("qwen3", True), ("qwen3moe", False)])
def test_weights_of_folders_move_too(kind, tied, tmp_path, monkeypatch):
    """What each token needs first; tables of rows stay, and what the second is over for."""
    record = hf_models.record(kind)
    assert record["config"]["tie_word_embeddings"] == tied
    folder = hf_models.write_folder(tmp_path / "folder", record["config"], record["shapes"])
    with load(folder, threads=1, mmap="shared") as model:
        expected, places = model.logits(IDS), set(model.runner.file.places)
        stay = {name: tensor.contents.data for name, tensor in model.runner.weights.items()}
        assert "token_embd.weight" in places and stay
    for name, value in (("LEAST", 0), ("has_large_pages", lambda: True), ("SECONDS", 1e9)):
        monkeypatch.setattr(large_pages, name, value)
    moved, copies = [], large_pages.in_large_pages

    def noted(values, is_tied):
        for name, copy in copies(values, is_tied):
            assert copy.ctypes.data % 64 == 0 and np.array_equal(copy, values[name])
            moved.append((name, copy.ctypes.data))
            yield name, copy

    monkeypatch.setattr(folder_module, "in_large_pages", noted)
    with load(folder, threads=1) as model:
        assert {name for name, _ in moved} == places - (set() if tied else {"token_embd.weight"})
        assert all(model.runner.weights[name].contents.data == address for name, address in moved)
        assert np.array_equal(model.logits(IDS), expected)
        experts = [i for i, (name, _) in enumerate(moved) if "_exps" in name]
        assert experts == list(range(len(moved) - len(experts), len(moved)))
    moved.clear()
    monkeypatch.setattr(large_pages, "SECONDS", -1)
    with load(folder, threads=1) as model:
        assert not moved and np.array_equal(model.logits(IDS), expected)
    for change in ({"mmap": "shared"}, {"mmap": False}):
        monkeypatch.setattr(large_pages, "SECONDS", 1e9)
        with load(folder, threads=1, **change) as model:
            assert not moved and np.array_equal(model.logits(IDS), expected)


@pytest.mark.skipif(sys.platform != "linux", reason="has no control groups")
@pytest.mark.parametrize(("names", "line"), [(large_pages.V1, "4:cpu,memory:/a/b"), (large_pages.V2, "0::/a/b")])
def test_limits_of_control_groups(names, line, tmp_path, monkeypatch):
    free, total = large_pages.free_memory()
    assert 0 < free <= total
    root, most, now, dropped = names
    (tmp_path / "own").write_text(f"2:cpuset:/a\n{line}\n")
    monkeypatch.setattr(large_pages, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(large_pages, "V1" if names == large_pages.V1 else "V2", (tmp_path, *names[1:]))
    group = tmp_path / "a"
    group.mkdir()
    (group / most).write_text(f"{1 << 30}\n")
    (group / now).write_text(f"{600 << 20}\n")
    (group / "memory.stat").write_text(f"anon 5\n{dropped} {100 << 20}\n")
    assert large_pages.free_memory() == (min(free, 524 << 20), min(total, 1 << 30))
    (group / most).write_text("max\n")
    assert large_pages.free_memory()[1] == total
