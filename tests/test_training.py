"""ggml.training: callbacks, saving and loading, pictures, and errors that come before a training, not after it."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from placed import EXAMPLES

import ggml
from ggml import training
from ggml.utils import to_numpy

BATCH, WIDTH = 8, 5
RNG = np.random.default_rng(1)
DATA = RNG.standard_normal((40, WIDTH)).astype(np.float32)
LABELS = (DATA @ RNG.standard_normal((WIDTH, 2)).astype(np.float32)).astype(np.float32)


def session(steps=0, **options):
    """A session with one dense layer, ready to train."""
    made = training.Session(1, **options)
    weight = made.parameter("weight", np.full((2, WIDTH), 0.1))
    loss = ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR
    rates = training.adamw(0.05, steps=steps)
    return made.start(lambda ctx, x: ggml.ggml_mul_mat(ctx, weight, x), WIDTH, BATCH, loss, rates)


# ---- callbacks -------------------------------------------------------------------------------------------------------
def test_callbacks_follow_every_step(tmp_path):
    seen, path = [], tmp_path / "losses.csv"
    with open(path, "w", newline="") as file, session(callbacks=[seen.append, seen.append]) as s:
        writer = csv.writer(file)
        s.callbacks = (*s.callbacks, lambda step: writer.writerow([step.epoch, step.batch, step.loss]))
        means = [s.epoch(DATA, LABELS)[0] for _ in range(2)]
    places = [(step.epoch, step.batch, step.batches) for step in seen[::2]]
    assert places == [(e, b, 5) for e in (0, 1) for b in range(5)]
    assert seen[::2] == seen[1::2]
    losses = np.array([step.loss for step in seen[::2]]).reshape(2, 5)
    np.testing.assert_allclose(losses.mean(1), means, rtol=1e-6)
    assert losses[1].mean() < losses[0].mean()
    rows = list(csv.reader(path.open()))
    assert len(rows) == 10 and float(rows[3][2]) == losses[0, 3]


def test_one_callback_and_its_exception():
    def stop(step):
        if step.batch == 2:
            raise KeyError("enough")

    with session(callbacks=stop) as s:
        with pytest.raises(KeyError, match="enough"):
            s.epoch(DATA, LABELS)
        s.callbacks = ()
        assert np.isfinite(s.epoch(DATA, LABELS)[0])  # the session remains usable


# ---- saving and loading ----------------------------------------------------------------------------------------------
def test_a_loaded_session_continues_exactly(tmp_path):
    with session(steps=20) as s:
        first = [s.epoch(DATA, LABELS)[0] for _ in range(2)]
        s.save(tmp_path / "state.gguf")
        rest = [s.epoch(DATA, LABELS)[0] for _ in range(2)]
        final = s.predict(DATA)
    steps = []
    with session(steps=20, callbacks=steps.append) as s:
        assert s.load(tmp_path / "state.gguf") is s
        assert [s.epoch(DATA, LABELS)[0] for _ in range(2)] == rest
        assert (s.predict(DATA) == final).all()
    assert steps[0].epoch == 2 and first[0] > rest[-1]


def test_loading_before_any_epoch_and_wrong_files(tmp_path):
    with session() as s:
        s.save(tmp_path / "new.gguf")
        s.load(tmp_path / "new.gguf")
        with pytest.raises(OSError, match="none.gguf"):
            s.load(tmp_path / "none.gguf")
        (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(50))
        with pytest.raises(ValueError):
            s.load(tmp_path / "bad.gguf")
    with training.Session(1) as fresh, pytest.raises(TypeError):
        fresh.save(tmp_path / "x.gguf")


def weights(**arrays):
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    for name, values in arrays.items():
        ggml.ggml_set_name(training.from_numpy(np.asarray(values, np.float32), ctx), name.encode())
    return ctx


def test_weights_as_gguf(tmp_path):
    path = tmp_path / "weights.gguf"
    with session() as s:
        s.epoch(DATA, LABELS)
        training.save_weights(s.weights, path)
        trained = to_numpy(ggml.ggml_get_tensor(s.weights, b"weight")).copy()
    with session() as s:
        training.load_weights(s.weights, str(path))
        np.testing.assert_array_equal(to_numpy(ggml.ggml_get_tensor(s.weights, b"weight")), trained)


def test_weights_that_do_not_fit_change_nothing(tmp_path):
    path = tmp_path / "weights.gguf"
    source, empty = weights(a=[1, 2], b=[[3, 4]]), weights()
    training.save_weights(source, path)
    cases = [
        (weights(a=[0, 0], c=[1]), r"has no tensor 'c'$"),
        (weights(a=[0, 0], b=[0, 0, 0]), r"tensor 'b' is f32 \[2\] in the file: need f32 \[3\]$"),
        (empty, "has no named tensor"),
    ]
    for ctx, message in cases:
        with pytest.raises(ValueError, match=f"^load_weights: .*{message}"):
            training.load_weights(ctx, path)
        if ctx != empty:
            assert to_numpy(ggml.ggml_get_tensor(ctx, b"a")).tolist() == [0, 0]
    with pytest.raises(ValueError, match="^save_weights: the context has no named tensor"):
        training.save_weights(empty, tmp_path / "empty.gguf")
    with pytest.raises(OSError):
        training.save_weights(source, tmp_path / "no" / "folder.gguf")
    ggml.ggml_set_name(ggml.ggml_new_tensor_1d(source, ggml.GGML_TYPE_F32, 1), b"a")
    with pytest.raises(ValueError, match="two tensors are named 'a'"):
        training.save_weights(source, path)
    for ctx in (source, *(c for c, _ in cases)):
        ggml.ggml_free(ctx)


# ---- learning rates --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rate", [1e30, 0, -1e-3, float("nan"), float("inf")])
def test_impossible_learning_rates(rate):
    with pytest.raises(ValueError, match="^adamw: rate is "):
        training.adamw(rate)

    def parameters(_):
        chosen = ggml.ggml_opt_get_default_optimizer_params(None)
        chosen.adamw.alpha = rate
        return chosen

    if rate != 0:  # the C library allows a rate of 0
        with training.Session(1) as s:
            weight = s.parameter("weight", np.full((2, WIDTH), 0.1))
            loss = ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR
            s.start(lambda ctx, x: ggml.ggml_mul_mat(ctx, weight, x), WIDTH, BATCH, loss, parameters)
            with pytest.raises(ValueError, match=r"adamw.alpha \(learning rate\) is .*: need 0 to 1e\+06"):
                s.epoch(DATA, LABELS)


# ---- pictures --------------------------------------------------------------------------------------------------------
def test_one_quantity_on_each_axes_and_whole_epochs(tmp_path, monkeypatch):
    figures = pytest.importorskip("matplotlib.figure")
    made = []
    savefig = figures.Figure.savefig
    monkeypatch.setattr(figures.Figure, "savefig", lambda self, *a, **k: made.append(self) or savefig(self, *a, **k))
    training.picture(
        tmp_path / "p.png",
        "Title",
        lambda axes: axes.set_title("wave"),
        mean_loss=[3.0, 2.0, 1.5],
        accuracy={"training": [0.1, 0.2, 0.3], "held out": [0.1, 0.1, 0.2]},
    )
    loss, accuracy, wave = made[0].axes
    assert [a.get_title() for a in made[0].axes] == ["mean loss", "accuracy", "wave"]
    assert len(loss.lines) == 1 and len(accuracy.lines) == 2 and loss.get_xlabel() == "epoch"
    assert list(loss.lines[0].get_xdata()) == [1, 2, 3]
    assert all(tick == int(tick) for tick in loss.get_xticks())
    assert [t.get_text() for t in accuracy.get_legend().get_texts()] == ["training", "held out"]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="nothing to draw"):
        training.picture(tmp_path / "q.png", "Empty")


def test_pictures_are_checked_before_the_training(tmp_path):
    pytest.importorskip("matplotlib")
    training.check_picture(tmp_path / "p.svg")
    with pytest.raises(ValueError, match="^check_picture: .*ends in 'xyz': need one of .*png"):
        training.check_picture("p.xyz")
    with pytest.raises(FileNotFoundError, match="^check_picture: the folder of "):
        training.check_picture(tmp_path / "no" / "p.png")


PROGRAMS = sorted(  # those in onnx/ train nothing
    str(p.relative_to(EXAMPLES))
    for p in Path(EXAMPLES).glob("*/*.py")
    if "--plot" in p.read_text() and p.parent.name != "onnx"
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_examples_need_matplotlib_at_once(program, tmp_path):
    for module in ("sklearn", "tqdm"):
        pytest.importorskip(module)
    code = f"""
import sys
sys.modules["matplotlib"] = None
sys.argv = ["main.py"]
sys.path.insert(0, {str(Path(EXAMPLES, program).parent)!r})
import ggml.training
ggml.training.Session.start = ggml.training.ggml.ggml_new_graph_custom = None  # nothing may be trained
import runpy
runpy.run_path({str(Path(EXAMPLES, program))!r}, run_name="__main__")"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "pip install 'ggml-cython[demo]'" in done.stderr.splitlines()[-1], done.stderr
