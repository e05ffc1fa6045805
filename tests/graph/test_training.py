"""ggml.training: callbacks, saving and loading, pictures, and errors that come before a training, not after it."""

import contextlib
import csv
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from interrupts import before_instruction
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
    rows = list(csv.reader(path.read_text().splitlines()))
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
    with training.Session(1) as fresh, pytest.raises(TypeError, match="^Session.save: call start first$"):
        fresh.save(tmp_path / "x.gguf")


def test_a_state_that_was_loaded_is_saved_again(tmp_path):
    """The order of the datapoints, too, which waits for the next epoch."""
    first, second = tmp_path / "first.gguf", tmp_path / "second.gguf"
    with session() as s:
        s.epoch(DATA, LABELS)
        s.save(first)
    with session() as s:
        s.load(first).save(second)
    assert first.read_bytes() == second.read_bytes()
    with session() as s:  # other data than before are shuffled anew
        assert np.isfinite(s.load(first).epoch(DATA[:16], LABELS[:16])[0])


def test_damaged_states_change_nothing(tmp_path):
    """One bit of each byte of a state is changed: it is refused as a whole, or the byte has no meaning."""
    path = tmp_path / "state.gguf"
    with session() as s:
        s.epoch(DATA, LABELS)
        s.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(2)
    damaged = [whole[:n] for n in rng.integers(len(whole), size=50)]
    for at in range(len(whole)):
        damaged.append(whole[:at] + bytes([whole[at] ^ (1 << rng.integers(8))]) + whole[at + 1 :])
    with session() as s:
        path.write_bytes(whole)
        right = s.load(path).epoch(DATA, LABELS)[0], weight_of(s).tolist()
    refused, s = 0, session()
    for content in damaged:
        path.write_bytes(content)
        weight_of(s)[...] = 0.5
        try:
            s.load(path)
        except (ValueError, MemoryError) as error:
            assert str(error).startswith("Session.load: ")
            assert (weight_of(s) == 0.5).all() and s.epochs == 0 and s.order is None and s.parameters.done == 0
            refused += 1
        else:
            assert (s.epoch(DATA, LABELS)[0], weight_of(s).tolist()) == right
            s.__exit__()
            s = session()
    s.__exit__()
    assert refused > 0.8 * len(damaged)


def weight_of(s):
    return to_numpy(ggml.ggml_get_tensor(s.weights, b"weight"))


def tensors_of(path):
    """The tensors of a GGUF file and the number of steps of a training run, as the package gguf reads them."""
    file = pytest.importorskip("gguf").GGUFReader(path)
    steps = file.fields["ggml.opt.iteration"]
    return {t.name: t.data.copy() for t in file.tensors}, int(steps.parts[steps.data[0]][0])


@pytest.mark.parametrize("optimizer", range(2))
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_a_loss_that_is_not_finite_leaves_weights_and_moments(tmp_path, bad, accumulate, optimizer):
    """In the first and in the last batch of a step; the training goes on with other data as if nothing had been."""
    loss = ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR

    def make():
        s = training.Session(2, accumulate=accumulate)
        w = s.parameter("w", np.full((2, WIDTH), 0.1))
        return s.start(lambda c, x: ggml.ggml_mul_mat(c, w, x), WIDTH, BATCH, loss, training.adamw(0.05), optimizer)

    size = BATCH * accumulate
    with make() as s:
        for row in (0, size - 1):
            s.epoch(DATA[:size], LABELS[:size])
            s.save(tmp_path / "before.gguf")
            data = DATA[:size].copy()
            data[row] = bad
            with pytest.raises(RuntimeError, match="^Session.epoch: 'loss' .*: the parameters were not changed"):
                s.epoch(data, LABELS[:size])
            s.save(tmp_path / "after.gguf")
            (before, steps), (after, steps_after) = (tensors_of(tmp_path / f"{n}.gguf") for n in ("before", "after"))
            assert steps == steps_after and before.keys() == after.keys()
            for name, values in before.items():
                assert np.isfinite(values).all() and (values == after[name]).all(), name
        assert np.isfinite(s.epoch(DATA[:size], LABELS[:size])[0])


def test_errors_of_files_name_what_was_called_and_what_was_given(tmp_path, capfd):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(50))
    with session() as s:
        reading = {"Session.load": s.load, "load_weights": lambda path: training.load_weights(s.weights, path)}
        writing = {"Session.save": s.save, "save_weights": lambda path: training.save_weights(s.weights, path)}
        cases = [(name, call, tmp_path / "none.gguf", FileNotFoundError) for name, call in reading.items()]
        cases += [(name, call, str(tmp_path), IsADirectoryError) for name, call in (reading | writing).items()]
        cases += [(name, call, tmp_path / "no" / "x.gguf", FileNotFoundError) for name, call in writing.items()]
        for name, call, path, kind in cases:
            with pytest.raises(kind, match=rf"\] {name}: ") as raised:
                call(path)
            assert raised.value.filename == path
        for name, call in reading.items():
            with pytest.raises(ValueError, match=f"^{name}: .*bad.gguf'.*version 0 is not known"):
                call(tmp_path / "bad.gguf")
        for name, call in (reading | writing).items():
            with pytest.raises(ValueError, match=f"^{name}: .*contains no NUL"):
                call("a\0b")
            with pytest.raises(TypeError, match=f"^{name}: fname is 3"):
                call(3)
    assert capfd.readouterr().err == ""  # an error is raised, not printed as well


def test_mistakes_with_a_session():
    def wrong(kind, message, call, *args, **options):
        with pytest.raises(kind, match=f"^{message}"):
            call(*args, **options)

    with session() as s:
        wrong(ValueError, r"Session.epoch: the shape of labels is \(5, 2\): need \(40, 2\)", s.epoch, DATA, LABELS[:5])
        wrong(ValueError, r"Session.epoch: the shape of labels is \(40,\): need", s.epoch, DATA, LABELS[:, 0])
        wrong(ValueError, r"Session.epoch: the shape of labels is None: need \(40, 2\)", s.epoch, DATA)
        wrong(RuntimeError, "Session.start: start was called before", s.start, None, WIDTH, BATCH, 0, None)
        assert s.predict(DATA.tolist()).shape == (40, 2)
        assert np.isfinite(s.epoch(DATA.tolist(), LABELS.tolist())[0])
    with training.Session(1) as s:
        loss, rates = ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR, training.adamw(0.1)
        wrong(TypeError, "Session.start: parameters is 0.1: need a function", s.start, None, 5, 8, loss, 0.1)
        wrong(TypeError, "Session.start: forward returned None: need a tensor",
              s.start, lambda ctx, x: None, 5, 8, loss, rates)  # fmt: skip
        for call in (s.epoch, s.predict, s.load):
            wrong(TypeError, f"Session.{call.__name__}: call start first", call, DATA)
        wrong(TypeError, "Session.parameter: name is 3", s.parameter, 3, DATA)
        wrong(ValueError, "Session.parameter: x has 5 dimensions", s.parameter, "w", np.zeros((1, 1, 1, 1, 1)))
        wrong(ValueError, r"Session.frozen: values has the shape \(2, 0\)", s.frozen, "w", np.zeros((2, 0)))
        wrong(ValueError, "Session.frozen: ne0 is 5: need a multiple", s.frozen, "w", DATA, ggml.GGML_TYPE_Q4_0)
    wrong(ValueError, "Session: threads is -1: need 0 or more", training.Session, -1)
    wrong(TypeError, "Session: 3 is among the callbacks: need functions", training.Session, callbacks=3)


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
    for function in (training.save_weights, training.load_weights):
        with pytest.raises(TypeError, match=f"^{function.__name__}: ctx is None"):
            function(None, path)
    for ctx in (source, *(c for c, _ in cases)):
        ggml.ggml_free(ctx)


# Python ignores what a handler raises where a weak dictionary forgets an object that was collected; then nothing stops.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <function WeakValueDictionary")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ctrl_c_while_the_network_is_built_leaves_no_memory_behind():
    """The signal waits until the call that builds it returns: what it made must be stored by then."""

    def stop(number, frame):
        raise KeyboardInterrupt

    def begun():
        made = training.Session(1)
        weight = made.parameter("weight", np.full((2, WIDTH), 0.1))
        loss = ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR

        def forward(ctx, x):
            signal.setitimer(signal.ITIMER_REAL, 5e-4)  # the call takes some milliseconds
            return ggml.ggml_mul_mat(ctx, weight, x)

        with made, contextlib.suppress(KeyboardInterrupt):
            try:
                made.start(forward, WIDTH, BATCH, loss, training.adamw(0.05))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def memory():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    previous = signal.signal(signal.SIGALRM, stop)
    try:
        begun()
        before = memory()
        for _ in range(20):
            begun()
        assert memory() - before < 20 << 20  # each network has 3 MB
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_a_callback_may_begin_an_epoch():
    inner = []

    def begin(step):
        if step.batch == 1 and not inner:
            inner.append(None)
            inner[0] = s.epoch(DATA, LABELS)[0]

    with session(callbacks=begin) as s:
        outer = s.epoch(DATA, LABELS)[0]
    assert 0 < outer < inner[0] and s.epochs == 2  # most of the outer one comes after the inner one


# ---- learning rates --------------------------------------------------------------------------------------------------
def test_ctrl_c_before_any_instruction_of_a_session_loses_nothing(monkeypatch):
    """The interrupt comes before every seventh bytecode in turn; what was created by then is freed, and once."""
    alive = set()

    def creates(name):
        function = getattr(ggml, name)

        def counted(*args):
            alive.add(made := function(*args))
            return made

        monkeypatch.setattr(training.ggml, name, counted)

    def frees(function):
        def counted(handle):
            alive.remove(handle)
            return function(handle)

        return counted

    created = ("backend_cpu_init", "backend_sched_new", "init", "opt_dataset_init", "opt_result_init")
    monkeypatch.setattr(training.Session, "_FREE", {k: frees(f) for k, f in training.Session._FREE.items()})
    monkeypatch.setattr(training.ggml, "ggml_opt_result_free", frees(ggml.ggml_opt_result_free))
    for name in created:
        creates(f"ggml_{name}")
    build = ggml.ext.opt_init
    monkeypatch.setattr(ggml.ext, "opt_init", lambda *args: (alive.add(made := build(*args)), made)[1])

    def life():
        with session() as s:
            s.epoch(DATA[:BATCH], LABELS[:BATCH])

    count, reached = 0, True
    while reached:
        count += 7
        reached = before_instruction(count, training.__file__, life)
        gc.collect()
        assert not alive, f"the interrupt before instruction {count} left {len(alive)} objects"
    assert count > 300


def test_a_session_that_has_ended():
    with session() as s:
        pass
    calls = [lambda: s.epoch(DATA, LABELS), lambda: s.predict(DATA), lambda: s.parameter("x", [1.0])]
    for call, name in zip(calls, ("epoch", "predict", "parameter")):
        with pytest.raises(RuntimeError, match=f"^Session.{name}: the session has ended"):
            call()


def test_a_negative_number_of_steps():
    with pytest.raises(ValueError, match="^adamw: steps is -4: need 0 or more"):
        training.adamw(0.1, steps=-4)


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
NEEDS = [(p, "matplotlib", "matplotlib", "profile") for p in PROGRAMS]
NEEDS += [(p, "tqdm", "tqdm", "demo") for p in [*PROGRAMS, "distributed/train.py"] if "gemma" not in p]
NEEDS += [
    (f"{p}.py", "sklearn", "scikit-learn", "demo")
    for p in ("digits/main", "distributed/train", "lora/main", "svm/main")
]


@pytest.mark.parametrize("program, module, package, extra", NEEDS)
def test_examples_name_missing_packages_before_they_train(program, module, package, extra, tmp_path):
    for needed in {"sklearn", "tqdm", "matplotlib"} - {module}:
        pytest.importorskip(needed)
    code = f"""
import sys
sys.modules[{module!r}] = None
sys.argv = ["main.py"]
sys.path.insert(0, {str(Path(EXAMPLES, program).parent)!r})
import ggml.training
ggml.training.Session.start = ggml.training.ggml.ggml_new_graph_custom = None  # nothing may be trained
import runpy
runpy.run_path({str(Path(EXAMPLES, program))!r}, run_name="__main__")"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    last = done.stderr.splitlines()[-1]
    message = f"{package} is missing: pip install 'ggml-cython[{extra}]'"
    assert done.returncode == 1 and last.endswith(message), done.stderr


def test_all_missing_packages_are_named(monkeypatch):
    for module in ("tqdm", "sklearn"):
        monkeypatch.setitem(sys.modules, module, None)
    training.check_packages("numpy")
    message = "^check_packages: scikit-learn and tqdm are missing: pip install 'ggml-cython\\[demo\\]'$"
    with pytest.raises(ModuleNotFoundError, match=message):
        training.check_packages("sklearn", "numpy", "tqdm")
    with pytest.raises(ModuleNotFoundError, match="^check_packages: pillow is missing: pip install pillow scipy$"):
        monkeypatch.setitem(sys.modules, "PIL", None)
        training.check_packages("PIL", install="pillow scipy")
