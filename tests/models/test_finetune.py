"""Fine-tuning of language models: gradients, data, files, the command."""

import errno
import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

for library in ("gguf", "jinja2", "tokenizers"):  # of the extra [test]; not installed on emulated CPUs
    pytest.importorskip(library)

import gguf  # noqa: E402
import tiny_models  # noqa: E402
from python_command import PYTHON  # noqa: E402
from tiny_models import IDS, VOCAB  # noqa: E402

from ggml._cli import main  # noqa: E402
from ggml._io import files  # noqa: E402
from ggml.models import FinetuneStep, NotSaved, load, merge, read_chats  # noqa: E402
from ggml.models.chat.template import ChatTemplate  # noqa: E402
from ggml.models.train import run  # noqa: E402
from ggml.models.train.adapter import Adapter  # noqa: E402
from ggml.models.train.data import Example, chat_example, divide, rows, whole  # noqa: E402
from ggml.models.train.graph import Trainer  # noqa: E402
from ggml.models.train.state import load_state  # noqa: E402
from ggml.utils import to_numpy  # noqa: E402

DECODERS = [kind for kind in tiny_models.SIZES if "bert" not in kind]
TEXT = np.random.default_rng(5).integers(3, 12, 400).tolist()  # few different tokens: a short training learns them
QUICK = {"steps": 6, "tokens": 32, "rate": 1e-2, "rank": 2}
TEMPLATE = (
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{{ '</s>' if m.role == 'assistant' else ';' }}"
    "{% endfor %}{% if add_generation_prompt %}a:{% endif %}"
)


@pytest.fixture
def open_model(tmp_path):
    """Writes and opens tiny models, closes them at the end."""
    models = []

    def run(kind="llama", type_="F32", **options):
        path = tiny_models.write(tmp_path / "model.gguf", kind, type_, **options)
        models.append(load(path, threads=1, kv_type="f32"))
        return models[-1]

    yield run
    for model in models:
        model.close()


@pytest.fixture
def trainer_of():
    """Makes trainers of models with random adapters; closes them at the end."""
    made = []

    def run(model, tokens, checkpoint=False, targets="blk.*", rank=2, alpha=3.0):
        adapter = Adapter(model.finetuning.shapes(targets), rank, alpha, 0, 1)
        made.append(adapter)
        rng = np.random.default_rng(1)
        for tensor in adapter.tensors.values():
            values = to_numpy(tensor)
            values[...] = rng.standard_normal(values.shape) / 8
        made.append(Trainer(model.runner.parts(), adapter, tokens, checkpoint, 1))
        return made[-1]

    yield run
    for item in reversed(made):
        item.close()


def gradients(trainer, row, total=None):
    """The loss of a row and the gradients of all matrices."""
    trainer.adapter.zero_gradients()
    loss = trainer.loss(row, total or row.n_targets)
    return loss, {name: to_numpy(t).copy() for name, t in trainer.adapter.gradients.items()}


# ---- gradients -------------------------------------------------------------------------------------------------------
def reference(w, pairs, ids):
    """The loss of a tiny `llama` with adapters in float64 or complex128, written apart from ggml.models."""
    heads, groups, size = tiny_models.HEADS, 2, tiny_models.WIDTH // tiny_models.HEADS
    n = len(ids) - 1

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5)) * w[name]

    def linear(x, name):
        a, b, scale = pairs[name]
        return x @ w[name].T + scale * (x @ a.T @ b.T)

    def rotate(x):
        angle = np.arange(n)[:, None, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
        even, odd = x[..., ::2], x[..., 1::2]
        pair = even * np.cos(angle) - odd * np.sin(angle), even * np.sin(angle) + odd * np.cos(angle)
        return np.stack(pair, -1).reshape(x.shape)

    def log_softmax(x):
        x = x - x.real.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))

    x = w["token_embd.weight"][ids[:-1]]
    for i in range(tiny_models.LAYERS):
        b = f"blk.{i}."
        h = norm(x, b + "attn_norm.weight")
        q, k, v = (linear(h, f"{b}attn_{name}.weight").reshape(n, -1, size) for name in "qkv")
        q, k, v = rotate(q), np.repeat(rotate(k), heads // groups, 1), np.repeat(v, heads // groups, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size) + np.triu(np.full((n, n), -1e300), 1)
        h = np.einsum("hqk,khd->qhd", np.exp(log_softmax(scores)), v).reshape(n, -1)
        x = x + linear(h, b + "attn_output.weight")
        h = norm(x, b + "ffn_norm.weight")
        gate = linear(h, b + "ffn_gate.weight")
        h = gate / (1 + np.exp(-gate)) * linear(h, b + "ffn_up.weight")
        x = x + linear(h, b + "ffn_down.weight")
    logits = norm(x, "output_norm.weight") @ w["output.weight"].T
    return -log_softmax(logits)[np.arange(n), ids[1:]].mean()


def test_gradients_equal_a_float64_reference(open_model, trainer_of):
    """Derivatives in a random direction of each matrix, by complex steps: f'(x) = Im f(x + ih) / h without rounding."""
    ids = IDS[:21]
    trainer = trainer_of(open_model(), 20)
    loss, found = gradients(trainer, *rows([whole(ids)], 20))
    w = {name: values.astype(np.float64) for name, values in tiny_models.weights("llama").items()}
    values = {name: to_numpy(t).astype(np.complex128) for name, t in trainer.adapter.tensors.items()}

    def at():
        pairs = {name: (values[name + ".lora_a"], values[name + ".lora_b"], pair.scale)
                 for name, pair in trainer.adapter.pairs.items()}  # fmt: skip
        return reference(w, pairs, ids)

    assert np.isclose(loss, at().real, rtol=1e-5)
    rng = np.random.default_rng(2)
    assert len(found) == 2 * 7 * tiny_models.LAYERS
    for name, gradient in found.items():
        direction = rng.standard_normal(gradient.shape)
        values[name] += 1e-20j * direction
        slope = at().imag / 1e-20
        values[name] = values[name].real.astype(np.complex128)
        assert abs((gradient * direction).sum() - slope) < 1e-5 * np.linalg.norm(gradient) * np.sqrt(gradient.size)


def test_gradients_equal_pytorch(open_model, trainer_of):
    """All elements, against what PyTorch computes in float64 (scripts/record_lora_gradients.py)."""
    trainer = trainer_of(open_model(), len(IDS) - 1, rank=tiny_models.LORA_RANK, alpha=tiny_models.LORA_ALPHA)
    for name, values in tiny_models.lora_weights("llama").items():
        to_numpy(trainer.adapter.tensors[name])[...] = values
    loss, found = gradients(trainer, *rows([whole(IDS)], len(IDS) - 1))
    with np.load(Path(__file__).parents[1] / "data" / "models" / "lora_gradients.npz") as recorded:
        assert np.isclose(loss, recorded["loss"], rtol=1e-6)
        assert set(recorded.files) == found.keys() | {"loss"}
        for name, gradient in found.items():
            assert np.abs(gradient - recorded[name]).max() < 1e-5 * np.abs(recorded[name]).max(), name


@pytest.mark.parametrize("kind", [kind for kind in DECODERS if kind != "llama"])
def test_gradients_equal_differences(kind, open_model, trainer_of):
    trainer = trainer_of(open_model(kind), 24, checkpoint=True)
    (row,) = rows([whole(IDS[:15]), whole(IDS[20:28])], 24)
    _, found = gradients(trainer, row)
    rng, sides = np.random.default_rng(3), []
    directions = {name: g / np.linalg.norm(g) + rng.standard_normal(g.shape) / np.sqrt(g.size)
                  for name, g in found.items()}  # fmt: skip
    for sign in (1, -2):
        for name, direction in directions.items():
            to_numpy(trainer.adapter.tensors[name])[...] += np.float32(sign * 2e-3) * direction.astype(np.float32)
        sides.append(trainer.loss(row, row.n_targets, gradients=False))
    slope = sum(float((found[name] * direction).sum()) for name, direction in directions.items())
    assert np.isclose((sides[0] - sides[1]) / 4e-3, slope, rtol=0.01)


@pytest.mark.parametrize("targets", ["blk.*", "blk.1.attn_v", "blk.2.ffn_down"])
@pytest.mark.parametrize("type_", ["F32", "Q8_0"])
def test_checkpoints_change_nothing(type_, targets, open_model, trainer_of):
    model = open_model("gemma3", type_)
    (row,) = rows([whole(IDS)], len(IDS))
    kept, again = (gradients(trainer_of(model, len(IDS), c, targets), row) for c in (False, True))
    assert kept[0] == again[0]
    assert kept[1].keys() == again[1].keys()
    for name, values in kept[1].items():
        assert np.array_equal(values, again[1][name]) and values.any()


def test_checkpoints_need_less_memory(open_model, trainer_of):
    model = open_model()
    assert trainer_of(model, 200, True).bytes < 0.6 * trainer_of(model, 200, False).bytes


def test_gradients_of_rows_add_up(open_model, trainer_of):
    trainer = trainer_of(open_model(), 20)
    first, second = rows([whole(IDS)], 20)
    (loss_1, one), (loss_2, two) = gradients(trainer, first, 39), gradients(trainer, second, 39)
    trainer.adapter.zero_gradients()
    total = trainer.loss(first, 39) + trainer.loss(second, 39)
    assert np.isclose(total, loss_1 + loss_2)
    for name, tensor in trainer.adapter.gradients.items():
        assert np.allclose(to_numpy(tensor), one[name] + two[name], atol=1e-6)


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt2"])
def test_texts_of_a_row_do_not_see_each_other(kind, open_model, trainer_of):
    model = open_model(kind)
    trainer = trainer_of(model, 48)
    for tensor in trainer.adapter.tensors.values():
        to_numpy(tensor)[...] = 0
    (row,) = rows([whole(IDS[:21]), whole(IDS[21:])], 48)
    assert row.n_targets == 20 + 18 and (row.texts < 0).sum() == 10
    wanted = -sum(model.log_probabilities(ids).sum() for ids in (IDS[:21], IDS[21:]))
    assert np.isclose(trainer.loss(row, 1, gradients=False), wanted, rtol=1e-5)


# ---- training --------------------------------------------------------------------------------------------------------
def test_an_adapter_learns_and_can_be_loaded(open_model, tmp_path):
    model = open_model("qwen2", "Q8_0")
    before = model.logits(TEXT[-40:])
    result = model.finetune(TEXT[:-40], tmp_path / "a.gguf", steps=25, tokens=64, rate=1e-2, validation=TEXT[-40:],
                            validate_every=10, plot=tmp_path / "loss.png")  # fmt: skip
    assert [step for step, _ in result.validation] == [0, 10, 20, 25]
    assert len(result.losses) == result.steps == 25 and result.tokens > 20 * 64
    assert result.validation[-1][1] < result.validation[0][1] - 1
    assert (tmp_path / "loss.png").stat().st_size > 1000
    assert np.array_equal(model.logits(TEXT[-40:]), before)  # the model itself is unchanged

    def loss(model):
        return -model.log_probabilities(TEXT[-40:]).mean()

    model.set_lora(tmp_path / "a.gguf")
    assert np.isclose(loss(model), result.validation[-1][1], rtol=1e-4)
    merge(model, tmp_path / "a.gguf", tmp_path / "merged.gguf", "F32")
    with load(tmp_path / "merged.gguf", threads=1) as merged:
        assert np.isclose(loss(merged), result.validation[-1][1], atol=0.05)  # the other one multiplies 8-bit integers

    reader = gguf.GGUFReader(tmp_path / "a.gguf")
    values = {name: reader.fields[name].contents() for name in reader.fields if not name.startswith("GGUF.")}
    assert values == {"general.architecture": "qwen2", "general.type": "adapter", "adapter.type": "lora",
                      "adapter.lora.alpha": 16.0}  # fmt: skip
    shapes = {tensor.name: tensor.shape.tolist() for tensor in reader.tensors}
    assert len(shapes) == 2 * 7 * tiny_models.LAYERS
    assert shapes["blk.0.ffn_down.weight.lora_a"] == [tiny_models.HIDDEN, 8]
    assert shapes["blk.0.ffn_down.weight.lora_b"] == [8, tiny_models.WIDTH]


@pytest.mark.parametrize("kind", ["mixtral", "gemma3", "gpt2"])
def test_adapters_of_other_architectures(kind, open_model, tmp_path):
    model = open_model(kind, "Q4_0")
    result = model.finetune(TEXT, tmp_path / "a.gguf", **QUICK | {"steps": 12})
    assert result.validation[-1][1] < result.validation[0][1] - 0.05
    model.set_lora(tmp_path / "a.gguf")
    assert np.isclose(-model.log_probabilities(TEXT[360:393]).mean(), result.validation[-1][1], rtol=0.2)


@pytest.mark.parametrize("targets", ["output", ["output", "blk.2.*"]])
def test_the_output_matrix_can_be_trained(targets, open_model, trainer_of, tmp_path):
    model = open_model()
    trainer = trainer_of(model, 20, targets=targets)
    (row,) = rows([whole(IDS[:21])], 20)
    _, found = gradients(trainer, row)
    values = to_numpy(trainer.adapter.tensors["output.weight.lora_b"])
    step = np.zeros_like(values)
    step[::3] = 5e-3  # the losses, which are f32, differ by hundreds of their last bits
    values += step
    above = trainer.loss(row, row.n_targets, gradients=False)
    values -= 2 * step
    below = trainer.loss(row, row.n_targets, gradients=False)
    assert np.isclose(above - below, 2 * (found["output.weight.lora_b"] * step).sum(), rtol=1e-2)
    result = model.finetune(TEXT, tmp_path / "a.gguf", **QUICK | {"steps": 12}, targets=targets)
    assert result.validation[-1][1] < result.validation[0][1] - 0.05
    model.set_lora(tmp_path / "a.gguf")
    assert np.isclose(-model.log_probabilities(TEXT[360:393]).mean(), result.validation[-1][1], rtol=0.2)


def test_training_on_top_of_an_adapter(open_model, tmp_path):
    model = open_model()
    first = model.finetune(TEXT, tmp_path / "a.gguf", **QUICK)
    model.set_lora(tmp_path / "a.gguf")
    second = model.finetune(TEXT, tmp_path / "b.gguf", **QUICK)
    assert np.isclose(second.validation[0][1], first.validation[-1][1], rtol=1e-5)
    model.set_lora(tmp_path / "a.gguf", tmp_path / "b.gguf")
    wanted = -model.log_probabilities(TEXT[360:393]).sum() - model.log_probabilities(TEXT[392:]).sum()
    assert np.isclose(wanted / 39, second.validation[-1][1], rtol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e25])
def test_gradients_and_losses_that_are_not_finite_change_nothing(value, open_model, trainer_of, monkeypatch, tmp_path):
    model = open_model()
    trainer = trainer_of(model, 20)
    gradients(trainer, *rows([whole(IDS[:21])], 20))
    adapter = trainer.adapter
    to_numpy(next(iter(adapter.gradients.values())))[0, 0] = value
    before = {name: a.copy() for name, a in adapter.arrays().items()}
    if value == 1e25:  # its square exceeds f32, not the norm
        assert adapter.step(1e-3, 0, 1) == pytest.approx(1e25)
        assert all(np.isfinite(a).all() for a in adapter.arrays().values()) and adapter.iteration == 1
        return
    with pytest.raises(ValueError, match="^finetune: the norm of the gradients of step 1 is .*: the matrices were not"):
        adapter.step(1e-3, 0, 1)
    assert adapter.iteration == 0
    for name, values in adapter.arrays().items():
        assert np.array_equal(values, before[name])
    monkeypatch.setattr(Trainer, "loss", lambda *args, **options: float(value))
    with pytest.raises(ValueError, match="^finetune: the loss of step 1 is .*: the matrices were not changed"):
        model.finetune(TEXT, tmp_path / "a.gguf", **QUICK)
    assert not (tmp_path / "a.gguf").exists()


def stop_after(n):
    return lambda report: report.step == n


def test_a_resumed_training_equals_an_uninterrupted_one(open_model, tmp_path):
    model = open_model()
    options = QUICK | {"accumulate": 2, "seed": 3, "validate_every": 2, "decay": 0.01}
    whole_run = model.finetune(TEXT, tmp_path / "a.gguf", **options)
    files = {"lora": tmp_path / "b.gguf", "state": tmp_path / "state.npz"}
    stopped = model.finetune(TEXT, **files, **options, callbacks=stop_after(3))
    assert stopped.steps == 3
    resumed = model.finetune(TEXT, **files, **options, resume=True)
    assert resumed == whole_run
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    assert model.finetune(TEXT, tmp_path / "c.gguf", **options | {"seed": 4}).losses != whole_run.losses
    again = model.finetune(TEXT, **files, **options, resume=True)  # nothing is left to do
    assert again == whole_run


@pytest.mark.parametrize("change, message", [
    ({"seed": 1}, "seed"), ({"rank": 3}, "rank"), ({"tokens": 40}, "tokens"), ({"data": TEXT[:-1]}, "data"),
    ({"targets": "blk.*.attn_q"}, "missing"), ({"steps": 2}, "need more steps"),
])  # fmt: skip
def test_a_state_of_another_training_is_refused(change, message, open_model, tmp_path):
    model = open_model()
    options = {"data": TEXT, "lora": tmp_path / "a.gguf", "state": tmp_path / "s.npz", **QUICK, "validation": 0}
    model.finetune(**options, callbacks=stop_after(3))
    before = (tmp_path / "a.gguf").read_bytes()
    with pytest.raises(ValueError, match=f"finetune: .*s.npz.*{message}"):
        model.finetune(**options | change, resume=True)
    assert (tmp_path / "a.gguf").read_bytes() == before


def test_damaged_states_are_refused(open_model, tmp_path):
    model, state = open_model(), tmp_path / "s.npz"
    options = {"data": TEXT, "lora": tmp_path / "a.gguf", "state": state, **QUICK}
    with pytest.raises(FileNotFoundError):
        model.finetune(**options, resume=True)
    model.finetune(**options, callbacks=stop_after(3))
    good = state.read_bytes()
    for bad in (b"", b"nonsense", good[:100], good[: len(good) // 2], good[:-30]):
        state.write_bytes(bad)
        with pytest.raises(ValueError, match="finetune: .* is not a state of a training"):
            model.finetune(**options, resume=True)
    with pytest.raises(ValueError, match="resume needs the state file"):
        model.finetune(TEXT, tmp_path / "a.gguf", resume=True)


# ---- full disks ------------------------------------------------------------------------------------------------------
class Full:
    """Writing that fails as on a full disk: every time, or the first `times`."""

    def __init__(self, monkeypatch, times=10**9):
        self.times, self.write = times, files._write_all
        monkeypatch.setattr(files, "_write_all", self)

    def __call__(self, file, data):
        if self.times > 0:
            self.times -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.write(file, data)


def test_space_is_checked_before_the_training(open_model, tmp_path, monkeypatch):
    model, free = open_model(), []
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: types.SimpleNamespace(free=free[-1]))
    monkeypatch.setattr(Trainer, "loss", None)  # nothing may be computed
    for options, least in (({}, 20_000), ({"state": tmp_path / "s.npz"}, 80_000)):
        free.append(least)
        message = r"finetune: .*a.gguf.* needs? 0.\d MiB, and the disk has 0.[01] MiB"
        with pytest.raises(OSError, match=message) as raised:
            model.finetune(TEXT, tmp_path / "a.gguf", **QUICK, **options)
        assert raised.value.errno == errno.ENOSPC and raised.value.filename == str(tmp_path / "a.gguf")
    assert os.listdir(tmp_path) == ["model.gguf"]


def test_what_a_training_needs_is_what_its_files_have(open_model, tmp_path, monkeypatch):
    model, needed = open_model(), []
    monkeypatch.setattr(run, "check_space", needed.extend)
    paths = [tmp_path / "a.gguf", tmp_path / "s.npz"]
    model.finetune(TEXT, paths[0], state=paths[1], **QUICK)
    for (path, size), wanted in zip(needed, paths):
        assert path == wanted and path.stat().st_size <= size < 1.3 * path.stat().st_size + 4000


def test_a_result_that_cannot_be_written_is_kept(open_model, tmp_path, monkeypatch):
    model = open_model()
    wanted = model.finetune(TEXT, tmp_path / "a.gguf", **QUICK)
    full = Full(monkeypatch)
    with pytest.raises(NotSaved, match=r"\] finetune: No space left on device: '.*b.gguf'") as raised:
        model.finetune(TEXT, tmp_path / "b.gguf", **QUICK)
    error = raised.value
    assert error.result == wanted and error.errno == errno.ENOSPC
    with pytest.raises(OSError, match="finetune: No space left on device"):
        error.save(tmp_path / "c.gguf")
    model.close()
    full.times = 0
    error.save(tmp_path / "c.gguf", tmp_path / "c.npz")
    assert (tmp_path / "c.gguf").read_bytes() == (tmp_path / "a.gguf").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.gguf", "c.gguf", "c.npz", "model.gguf"]
    assert isinstance(pickle.loads(pickle.dumps(error)), OSError)
    error.close()
    with pytest.raises(RuntimeError, match="finetune: the adapter was freed"):
        error.save(tmp_path / "c.gguf")


def test_a_disk_that_is_full_in_the_middle_ends_no_training(open_model, tmp_path, monkeypatch):
    model = open_model()
    options = QUICK | {"validate_every": 2}
    model.finetune(TEXT, tmp_path / "a.gguf", **options)
    Full(monkeypatch, 1)
    with pytest.warns(UserWarning, match="^finetune: .*b.gguf cannot be written after step 2: No space left on device"):
        model.finetune(TEXT, tmp_path / "b.gguf", **options)
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


@pytest.mark.parametrize("asked", [None, "c.gguf\n", "\nc.gguf\n", ""])
def test_the_command_asks_for_another_file(asked, tmp_path, monkeypatch, capsys):
    """On a terminal; elsewhere, and without an answer, the adapter lies in the folder for temporary files."""
    path = tiny_models.write(tmp_path / "model.gguf", "llama")
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog " * 40)
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    Full(monkeypatch, 1 + (asked or "").startswith("\n"))
    if asked is not None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(asked))
        for stream in (sys.stdin, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: True)
        pytest.importorskip("tqdm")
    options = ["--lora", "a.gguf", "--steps", "3", "--tokens", "16", "--threads", "1"]
    assert main(["finetune", str(path), "text.txt", *options]) == 1
    out, err = capsys.readouterr()
    assert err.count("ggml finetune: a.gguf: No space left on device") == 1 + (asked or "").startswith("\n")
    name = out.partition(":")[0]
    assert (name == "c.gguf") if asked else re.fullmatch(r".*/temporary/a-\w+\.gguf", name)
    assert err.count("another file for the adapter") == (asked or "").count("\n") + (asked == "")
    keys = gguf.GGUFReader(name).fields
    assert keys["general.type"].contents() == "adapter" and not (tmp_path / "a.gguf").exists()


def npy(header, data=b"", version=(1, 0)):
    """An array in NumPy's format, with a header as given."""
    text = header.encode("latin1")
    return b"\x93NUMPY" + bytes(version) + len(text).to_bytes(2, "little") + text + data


def header_of(descr, shape):
    return f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n"


def text_array(text):
    return npy(header_of(f"<U{max(len(text), 1)}", "()"), (text or "\0").encode("utf-32-le"))


def rewritten(source, target, **entries):
    """Copies a state; entries replace those of these names (None: left out), in the file's own form or compressed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        contents = {info.filename: old.read(info) for info in old.infolist()}
        method = entries.pop("method", zipfile.ZIP_STORED)
        contents |= {f"{name}.npy": value for name, value in entries.items()}
        for name, value in contents.items():
            if value is not None:
                new.writestr(name, value, method)


def hostile_states(source, target, about):
    """Writes hostile states, one after the other, and says which each is."""

    def changed(**changes):
        return text_array(json.dumps({**about, "progress": {**about["progress"], **changes}}))

    first = "value/blk.0.attn_q.weight.lora_a"
    deep = "[" * 100_000 + "]" * 100_000
    entries = {
        "128 MiB of zeros": {"method": zipfile.ZIP_DEFLATED, first: npy(header_of("<f4", (1 << 25,)), bytes(1 << 27))},
        "a shape that its bytes do not have": {first: npy(header_of("<f4", (1 << 40, 1 << 40)))},
        "a negative shape": {first: npy(header_of("<f4", (-1, -4)), bytes(16))},
        "elements without bytes": {first: npy(header_of("|V0", (1 << 40,)))},
        "Python objects": {first: npy(header_of("|O", (1,)), b"cos\nsystem\n(S'true'\ntR.")},
        "a deep header": {first: npy("-" * 20_000 + "1")},
        "a header of brackets": {first: npy("(" * 9_000)},
        "a header that is a call": {first: npy("__import__('os')")},
        "a header without a shape": {first: npy("{}")},
        "a header of another version": {first: npy(header_of("<f4", (1,)), bytes(4), (3, 0))},
        "no array at all": {first: b"nothing"},
        "an empty entry": {first: b""},
        "another type": {first: npy(header_of("<f8", (2, 16)), bytes(256))},
        "a text that is a number": {"about": npy(header_of("<i8", "()"), bytes(8))},
        "texts instead of one": {"about": npy(header_of("<U1", "(2,)"), bytes(8))},
        "a text without JSON": {"about": text_array("nonsense")},
        "an empty text": {"about": text_array("")},
        "surrogates": {"about": npy(header_of("<U1", "()"), b"\0\xd8\0\0")},
        "not a character": {"about": npy(header_of("<U1", "()"), b"\xff\xff\xff\x7f")},
        "a deep text": {"about": text_array(deep)},
        "a deep progress": {"about": text_array(json.dumps(about)[:-1] + f', "progress": {deep}}}')},
        "a list": {"about": text_array("[1, 2]")},
        "null": {"about": text_array("null")},
        "a number of 5000 digits": {"about": text_array('{"format": ' + "9" * 5000 + "}")},
        "no progress": {"about": text_array(json.dumps(about | {"progress": None}))},
        "no fingerprint": {"about": text_array(json.dumps(about | {"fingerprint": []}))},
        "another format": {"about": text_array(json.dumps(about | {"format": [[[]]]}))},
        "steps below 0": {"about": changed(steps=-1, losses=[])},
        "steps that are true": {"about": changed(steps=True, losses=[1.0])},
        "steps beyond 64 bits": {"about": changed(steps=1 << 70)},
        "more losses than steps": {"about": changed(losses=[1.0] * 9)},
        "nested losses": {"about": changed(losses=[[1.0], 2.0, 3.0])},
        "losses of 400 digits": {"about": changed(losses=[10**400, 1, 1])},
        "losses that are NaN": {"about": changed(losses=[float("nan")] * 3)},
        "losses that are texts": {"about": changed(losses=["a", "b", "c"])},
        "losses that are one text": {"about": changed(losses="abc")},
        "a validation without a loss": {"about": changed(validation=[1, 2])},
        "a deep validation": {"about": changed(validation=[[[[[[[[]]]]]]]])},
        "tokens that are missing": {"about": changed(tokens=None)},
        "no matrix": {first: None},
        "one matrix more": {"value/more": npy(header_of("<f4", (1,)), bytes(4))},
        "no text": {"about": None},
        "a compressed file": {"method": zipfile.ZIP_DEFLATED},
        "bzip2": {"method": zipfile.ZIP_BZIP2},
    }  # fmt: skip
    for name, changes in entries.items():
        rewritten(source, target, **changes)
        yield name
    with zipfile.ZipFile(target, "w") as file:
        for i in range(20_000):
            file.writestr(f"{i}.npy", b"")
    yield "20,000 entries"
    good, rng = source.read_bytes(), np.random.default_rng(4)
    for i in range(400):
        data = bytearray(good)
        for at in rng.integers(len(data), size=1 + i % 4):
            data[at] = rng.integers(256)
        if i % 3:  # what tells a reader how the file is divided lies at the end
            data[-rng.integers(1, 3000)] ^= 1 << rng.integers(8)
        target.write_bytes(data[: rng.integers(len(data)) if i % 20 == 0 else None])
        yield f"bytes, {i}"


def test_hostile_states_change_nothing(open_model, tmp_path):
    """Each is refused with a ValueError of finetune, before a matrix or a moment is changed, in little memory."""
    tracemalloc = pytest.importorskip("tracemalloc")
    model, good, bad = open_model(), tmp_path / "good.npz", tmp_path / "bad.npz"
    options = {"data": TEXT, "lora": tmp_path / "a.gguf", "state": good, **QUICK, "targets": "blk.0.attn_q"}
    model.finetune(**options, callbacks=stop_after(3))
    with np.load(good) as file:
        about = json.loads(str(file["about"]))
    adapter = Adapter(model.finetuning.shapes("blk.0.attn_q"), 2, 4.0, 0, 1)
    for values in adapter.arrays().values():
        values[...] = 0.25
    tracemalloc.start()
    refused = 0
    for name in hostile_states(good, bad, about):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            load_state(bad, adapter, about["fingerprint"])
        except ValueError as error:
            assert str(error).startswith(f"finetune: {bad}"), name
            assert len(str(error)) < 400, name
            assert all((values == 0.25).all() for values in adapter.arrays().values()) and adapter.iteration == 0, name
            refused += 1
        else:  # bytes between the entries mean nothing
            assert name.startswith("bytes"), name
            for values in adapter.arrays().values():
                values[...] = 0.25
            adapter.iteration = 0
        assert tracemalloc.get_traced_memory()[1] - before < 16 * bad.stat().st_size + (8 << 20), name
    tracemalloc.stop()
    adapter.close()
    assert refused > 300


def test_callbacks(open_model, tmp_path):
    model, reports = open_model(), []
    model.finetune(TEXT, tmp_path / "a.gguf", **QUICK, validate_every=1, callbacks=[reports.append, lambda _: None])
    assert all(isinstance(report, FinetuneStep) for report in reports)
    assert [report.step for report in reports] == [1, 2, 3, 4, 5, 6]
    assert [report.rate for report in reports] == pytest.approx(
        [1e-2 * (1 + np.cos(np.pi * i / 6)) / 2 for i in range(6)]
    )
    assert all(report.validation is not None and report.norm > 0 for report in reports)
    for call in (lambda: model.logits(IDS), model.close, model.set_lora):
        with pytest.raises(RuntimeError, match="a callback can't"):
            model.finetune(TEXT, tmp_path / "a.gguf", **QUICK, callbacks=lambda report, call=call: call())
    model.logits(IDS)  # the model can be used afterwards


@pytest.mark.parametrize("options", [
    {"rank": 0}, {"rank": 1.5}, {"rank": True}, {"steps": 0}, {"rate": 0}, {"rate": "1"}, {"rate": float("nan")},
    {"decay": 2}, {"clip": -1}, {"accumulate": 0}, {"tokens": 0}, {"tokens": 100000}, {"validation": 1.0},
    {"validation": -0.1}, {"validate_every": 0}, {"seed": -1}, {"alpha": 0}, {"targets": "blk.9.*"},
    {"data": []}, {"data": [5]}, {"data": [VOCAB, 3, 4]}, {"data": [[3], [4]]}, {"data": TEXT[:3]},
])  # fmt: skip
def test_bad_arguments(options, open_model, tmp_path):
    model = open_model()
    with pytest.raises(ValueError, match="^finetune: "):
        model.finetune(**{"data": TEXT, "lora": tmp_path / "a.gguf", **QUICK, **options})
    assert not (tmp_path / "a.gguf").exists()


def test_bad_data_and_models(open_model, tmp_path):
    model = open_model()
    for data in (None, 5, {"messages": []}, [None], [[1.5, 2.5]], 3.5):
        with pytest.raises(TypeError, match="^finetune: "):
            model.finetune(data, tmp_path / "a.gguf")
    for wrong in ({"lora": tmp_path / "no" / "a.gguf"}, {"state": tmp_path / "no" / "s.npz"}):
        with pytest.raises(FileNotFoundError, match="^finetune: .*the folder .* does not exist"):
            model.finetune(TEXT, **{"lora": tmp_path / "a.gguf", **QUICK, **wrong})
    for wrong, message in (
        ({"lora": model.runner.file.path}, "is the same file as .*gguf"),
        ({"plot": "a.xyz"}, "'xyz'"),
    ):
        with pytest.raises(ValueError, match="^finetune: .*" + message):
            model.finetune(TEXT, **{"lora": tmp_path / "a.gguf", **QUICK, **wrong})
    model.close()
    with pytest.raises(RuntimeError, match="finetune: the model is closed"):
        model.finetune(TEXT, tmp_path / "a.gguf")
    with pytest.raises(TypeError, match="need a list of pairs of texts that belong together"):
        open_model("bert").finetune(TEXT, tmp_path / "a.gguf")


# ---- data ------------------------------------------------------------------------------------------------------------
def test_long_texts_are_divided():
    made = rows([whole(range(10))], 4)
    assert [row.ids.tolist() for row in made] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 0, 0, 0]]
    assert [row.targets.tolist() for row in made] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, -1, -1, -1]]
    assert made[2].positions.tolist() == [[0, 0, 0, 0]] * 4 and made[2].texts.tolist() == [0, -1, -1, -1]


def test_masks():
    (row,) = rows([whole([1, 2, 3, 4]), whole([5, 6])], 6)
    wanted = np.zeros((6, 6), bool)
    wanted[:3, :3] = np.tri(3)
    wanted[3, 3] = True
    wanted[4:, 4:] = np.tri(2)  # unused places see each other: no row of a mask may be empty
    assert np.array_equal(row.seen(0), wanted)
    assert np.array_equal(row.seen(2), wanted & (np.subtract.outer(range(6), range(6)) < 2))


def test_the_end_is_kept_for_validation():
    train, held_out = divide([whole(range(100))], 0.1)
    assert train[0].ids == list(range(90)) and held_out[0].ids == list(range(90, 100))
    train, held_out = divide([whole([i, i]) for i in range(3)], 0.1)
    assert [e.ids[0] for e in train] == [0, 1] and [e.ids[0] for e in held_out] == [2]


def test_a_share_of_long_data_is_measured_in_few_rows(open_model):
    train, held_out = open_model().finetuning.rows(IDS * 100, 0.5, 20)
    assert len(train) == 100 and 6 <= len(held_out) <= 8
    train, held_out = open_model().finetuning.rows(IDS, IDS * 100, 20)
    assert len(train) == 2 and len(held_out) == 200


def chat(*contents):
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(contents)]


def test_only_answers_are_learned(open_model):
    model = open_model(change={"tokenizer.chat_template": TEMPLATE})
    template = ChatTemplate(model.metadata, model.tokenizer)
    example = chat_example(chat("hi", "yes", "why", "so"), template, model.tokenizer)
    assert model.tokenizer.decode(example.ids) == "u:hi;a:yesu:why;a:so"
    learned = [i for i, used in zip(example.ids, example.learned, strict=True) if used]
    assert learned == model.tokenizer.encode("yes</s>so</s>", special=True)
    (row,) = rows([example], 40)
    assert row.targets[row.targets >= 0].tolist() == learned
    assert model.tokenizer.decode(row.ids[row.targets >= 0].tolist()) == ":yes:so"  # each target follows its token
    for messages in (chat("hi"), []):
        with pytest.raises(ValueError, match="no message of the role 'assistant'"):
            chat_example(messages, template, model.tokenizer)


def test_a_template_that_changes_earlier_messages_is_refused(open_model):
    last_only = "{{ messages[-1].content }}</s>"
    model = open_model(change={"tokenizer.chat_template": last_only})
    with pytest.raises(ValueError, match="changes earlier messages"):
        chat_example(chat("hi", "yes", "why", "so"), ChatTemplate(model.metadata, model.tokenizer), model.tokenizer)


def test_conversations_are_learned(open_model, tmp_path):
    model = open_model(change={"tokenizer.chat_template": TEMPLATE})
    chats = [chat(f"{a}+{b}", "four") for a in range(4) for b in range(4)]
    model.finetune(chats, tmp_path / "a.gguf", steps=40, tokens=64, rate=1e-2)
    model.set_lora(tmp_path / "a.gguf")
    assert "".join(model.chat(chat("3+3"), max_tokens=10, temperature=0)) == "four"


def test_read_chats():
    messages = chat("hi", "yes")
    lines = [json.dumps({"messages": messages, "id": 3}), "", json.dumps(messages)]
    assert read_chats(lines) == [messages, messages]
    for bad in ("{", "[]", "3", '{"messages": 3}', '[{"role": "user"}]', '[{"role": 1, "content": "x"}]', '["text"]'):
        with pytest.raises(ValueError, match="read_chats: chats.jsonl, line 3"):
            read_chats([lines[0], "", bad], "chats.jsonl")


def test_parts_of_a_text_begin_as_the_text_does():
    text = whole([7, *range(10, 20)])
    made = rows([text], 4, bos=7)
    assert [row.ids.tolist() for row in made] == [[7, 10, 11, 12], [7, 13, 14, 15], [7, 16, 17, 18]]
    assert [row.targets.tolist() for row in made] == [[10, 11, 12, 13], [-1, 14, 15, 16], [-1, 17, 18, 19]]
    assert [row.ids.tolist() for row in rows([text], 4, bos=8)] == [[7, 10, 11, 12], [13, 14, 15, 16], [17, 18, 0, 0]]
    train, held_out = divide([text], 0.4, bos=7)
    assert train == [Example([7, 10, 11, 12, 13, 14, 15], [True] * 7)]
    assert held_out == [Example([7, 16, 17, 18, 19], [False, False, True, True, True])]


def test_texts_have_rows_of_their_own_where_states_go_on():
    made = rows([whole([5, 6, 7]), whole([8, 9])], 8, together=False)
    assert [row.ids.tolist() for row in made] == [[5, 6, *[0] * 6], [8, *[0] * 7]]
    assert [row.targets.tolist() for row in made] == [[6, 7, *[-1] * 6], [9, *[-1] * 7]]
    assert len(rows([whole([5, 6, 7]), whole([8, 9])], 8)) == 1


def test_rows_without_targets_are_left_out():
    assert rows([Example([1, 2, 3], [True, False, False])], 8) == []


# ---- the command -----------------------------------------------------------------------------------------------------
def command(*arguments):
    program = [*PYTHON, "-m", "ggml", "finetune", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=120)


def test_command(tmp_path):
    model = tiny_models.write(tmp_path / "m.gguf", "llama", "Q8_0", change={"tokenizer.chat_template": TEMPLATE})
    (tmp_path / "text.txt").write_text("Alice,was,beginning,to,get,very,tired." * 20)
    (tmp_path / "chats.jsonl").write_text("\n".join(json.dumps({"messages": chat("hi", "yes")}) for _ in range(9)))
    out = tmp_path / "a.gguf"
    settings = ["--lora", out, "--steps", 8, "--tokens", 64, "--rank", 2, "--rate", 0.01, "--threads", 1]
    done = command(model, tmp_path / "text.txt", *settings, "--state", tmp_path / "s.npz", "--plot", tmp_path / "l.png")
    found = re.fullmatch(r".*a\.gguf: [\d,]+ trained numbers, 8 steps, [\d,]+ tokens, loss on unseen text ([\d.]+) "
                         r"before, ([\d.]+) after\n", done.stdout)  # fmt: skip
    assert found, done.stderr
    assert float(found[2]) < float(found[1])
    assert (tmp_path / "s.npz").exists() and (tmp_path / "l.png").exists()
    load(model, lora=[out], threads=1).close()
    done = command(model, tmp_path / "chats.jsonl", *settings, "--validation", tmp_path / "chats.jsonl")
    assert "8 steps" in done.stdout, done.stderr
    for arguments, message in [
        ((tmp_path / "text.txt", tmp_path / "text.txt"), "is not a GGUF file"),
        ((model, tmp_path / "none.txt"), "none.txt"),
        ((model, tmp_path / "text.txt", "--chat"), "line 1 is not JSON"),
        ((model, tmp_path / "text.txt", "--resume"), "resume needs the state file"),
    ]:
        done = command(*arguments, *settings)
        assert done.returncode == 1 and done.stderr.startswith("ggml finetune: ") and message in done.stderr
        assert done.stderr.count("\n") == 1


def test_command_without_a_terminal_prints_lines(tmp_path):
    model = tiny_models.write(tmp_path / "m.gguf", "llama", "Q8_0")
    (tmp_path / "text.txt").write_text("Alice,was,beginning,to,get,very,tired." * 20)
    done = command(model, tmp_path / "text.txt", "--lora", tmp_path / "a.gguf", "--steps", 4, "--tokens", 64,
                   "--every", 2, "--threads", 1)  # fmt: skip
    lines = done.stderr.splitlines()
    assert [re.sub(r"[\d.]+(?=,| s$)", "X", line.split(" ", 3)[3]) for line in lines] == [
        "loss X, X s", "loss X, validation X, X s", "loss X, X s", "loss X, validation X, X s",
    ], done.stderr  # fmt: skip
    assert [line.split(",")[0] for line in lines] == [f"finetune: step {i}/4" for i in (1, 2, 3, 4)]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_command_stops_after_a_step_and_goes_on(tmp_path):
    model = tiny_models.write(tmp_path / "m.gguf", "llama", "Q8_0")
    (tmp_path / "text.txt").write_text("Alice,was,beginning,to,get,very,tired." * 20)
    arguments = [model, tmp_path / "text.txt", "--lora", tmp_path / "a.gguf", "--tokens", 64, "--threads", 1,
                 "--state", tmp_path / "s.npz", "--every", 1]  # fmt: skip
    program = [*PYTHON, "-m", "ggml", "finetune", *map(str, arguments), "--steps", "100000"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=buffered) as process:
        process.stderr.readline()  # in the report of the first step, or after it
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "--resume goes on" in err and "Traceback" not in err
    steps = int(re.search(r"(\d+) steps", out)[1])
    assert steps >= 1
    done = command(*arguments, "--steps", steps + 2, "--resume")
    assert f"{steps + 2} steps" in done.stdout and f"step {steps + 1}/{steps + 2}" in done.stderr, done.stderr
