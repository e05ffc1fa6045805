"""Training: datasets, contexts, optimisers against NumPy in float64, epochs, checkpoints, and messages for invalid
input.
"""

import ctypes
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import ggml
from ggml import training
from ggml.utils import to_numpy

F32 = ggml.GGML_TYPE_F32
N_IN, N_OUT, BATCH, NDATA = 5, 3, 4, 24


class Model:
    """out = w x + b, with its scheduler and a dataset of random data."""

    def __init__(self, seed=0, shard=1, one_hot=True):
        rng = np.random.default_rng(seed)
        self.backend = ggml.ggml_backend_cpu_init()
        self.sched = ggml.ggml_backend_sched_new((ctypes.c_void_p * 1)(self.backend), None, 1, 1024, False)
        self.weights = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
        self.w = ggml.ggml_new_tensor_2d(self.weights, F32, N_IN, N_OUT)
        self.b = ggml.ggml_new_tensor_1d(self.weights, F32, N_OUT)
        for name, tensor in (("w", self.w), ("b", self.b)):
            to_numpy(tensor)[:] = rng.normal(size=to_numpy(tensor).shape)
            ggml.ggml_set_name(tensor, name.encode())
            ggml.ggml_set_param(tensor)
        self.ctx = self.context()
        self.inputs, self.outputs = self.forward(self.ctx)
        self.dataset = ggml.ggml_opt_dataset_init(F32, F32, N_IN, N_OUT, NDATA, shard)
        self.data = to_numpy(ggml.ggml_opt_dataset_data(self.dataset))
        self.labels = to_numpy(ggml.ggml_opt_dataset_labels(self.dataset))
        self.data[:] = rng.normal(size=self.data.shape)
        self.labels[:] = (
            np.eye(N_OUT)[rng.integers(N_OUT, size=NDATA)] if one_hot else rng.normal(size=self.labels.shape)
        )
        self.contexts = []

    @staticmethod
    def context():
        return ggml.ggml_init(ggml.ggml_init_params(mem_size=0, no_alloc=True))

    def forward(self, ctx, batch=BATCH):
        x = ggml.ggml_new_tensor_2d(ctx, F32, N_IN, batch)
        ggml.ggml_set_name(x, b"x")
        ggml.ggml_set_input(x)
        return x, ggml.ggml_add(ctx, ggml.ggml_mul_mat(ctx, self.w, x), self.b)

    def opt(self, loss=ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, static=True, rates=None, **fields):
        params = ggml.ggml_opt_default_params(self.sched, loss)
        if static:
            params.ctx_compute, params.inputs, params.outputs = self.ctx, self.inputs, self.outputs
        if rates:
            params.get_opt_pars = ggml.ggml_opt_get_optimizer_params(rates)
        for name, value in fields.items():
            setattr(params, name, value)
        self.contexts.append(ggml.ggml_opt_init(params))
        return self.contexts[-1]

    def values(self):
        return np.concatenate([to_numpy(self.w).ravel(), to_numpy(self.b)]).copy()

    def close(self):
        for c in self.contexts:
            ggml.ggml_opt_free(c)
        ggml.ggml_opt_dataset_free(self.dataset)
        ggml.ggml_backend_sched_free(self.sched)
        ggml.ggml_backend_free(self.backend)
        for c in (self.ctx, self.weights):
            ggml.ggml_free(c)


@pytest.fixture
def model():
    m = Model()
    yield m
    m.close()


def rates(alpha=0.05, wd=0.1, beta1=0.9, beta2=0.999):
    made = ggml.ggml_opt_optimizer_params()
    made.adamw.alpha, made.adamw.beta1, made.adamw.beta2, made.adamw.eps, made.adamw.wd = alpha, beta1, beta2, 1e-8, wd
    made.sgd.alpha, made.sgd.wd = alpha, wd
    return made


def doubles(function, result):
    a, b = ctypes.c_double(), ctypes.c_double()
    function(result, ctypes.byref(a), ctypes.byref(b))
    return a.value, b.value


def step(m, opt, i, result=None, train=True):
    ggml.ggml_opt_alloc(opt, train)
    ggml.ggml_opt_dataset_get_batch(m.dataset, ggml.ggml_opt_inputs(opt), ggml.ggml_opt_labels(opt), i)
    ggml.ggml_opt_eval(opt, result)


def reference(m, w, b, rows, loss):
    """The loss and the gradients in float64, for rows of the dataset."""
    x, y = m.data[rows].astype(float), m.labels[rows].astype(float)
    out = x @ w.T + b
    if loss == ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY:
        p = np.exp(out - out.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        value, g = -(y * np.log(p)).sum() / len(x), (p - y) / len(x)
    elif loss == ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR:
        value, g = np.mean((out - y) ** 2), 2 * (out - y) / out.size
    elif loss == ggml.GGML_OPT_LOSS_TYPE_MEAN:
        value, g = out.mean(), np.full(out.shape, 1 / out.size)
    else:
        value, g = out.sum(), np.ones(out.shape)
    return value, np.concatenate([(g.T @ x).ravel(), g.sum(0)])


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("loss", range(4))
@pytest.mark.parametrize("optimizer", range(2))
@pytest.mark.parametrize("period", [1, 3])
def test_steps_as_in_numpy(loss, optimizer, period, static):
    m = Model(one_hot=loss == ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY)
    opt = m.opt(loss, static, lambda _: rates(), optimizer=optimizer, opt_period=period)
    assert ggml.ggml_opt_static_graphs(opt) is static and ggml.ggml_opt_context_optimizer_type(opt) == optimizer
    labelled = loss >= ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY
    p, mean, square = m.values().astype(float), 0.0, 0.0
    result = ggml.ggml_opt_result_init()
    expected = []
    for t in range(1, 3):
        gradient = 0.0
        for i in range(period):
            if not static:
                ctx = m.context()
                x, out = m.forward(ctx)
                gf = ggml.ggml_new_graph(ctx)
                ggml.ggml_build_forward_expand(gf, out)
                ggml.ggml_opt_prepare_alloc(opt, ctx, gf, x, out)
            ggml.ggml_opt_alloc(opt, True)
            k = (t - 1) * period + i
            x = np.zeros((BATCH, N_IN), np.float32)
            y = np.zeros((BATCH, N_OUT), np.float32)
            ggml.ggml_opt_dataset_get_batch_host(m.dataset, x, x.nbytes, y, k)
            assert np.array_equal(x, m.data[k * BATCH : (k + 1) * BATCH])
            ggml.ggml_backend_tensor_set(ggml.ggml_opt_inputs(opt), x, 0, x.nbytes)
            assert bool(ggml.ggml_opt_labels(opt)) is labelled
            if labelled:
                ggml.ggml_backend_tensor_set(ggml.ggml_opt_labels(opt), y, 0, y.nbytes)
            ggml.ggml_opt_eval(opt, result)
            rows = slice(k * BATCH, (k + 1) * BATCH)
            value, g = reference(m, p[: N_IN * N_OUT].reshape(N_OUT, N_IN), p[N_IN * N_OUT :], rows, loss)
            expected.append(value)
            gradient = gradient + (g if loss == ggml.GGML_OPT_LOSS_TYPE_SUM else g / period)
        if optimizer == ggml.GGML_OPT_OPTIMIZER_TYPE_SGD:
            p = p * (1 - 0.05 * 0.1) - 0.05 * gradient
        else:
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            update = mean / (1 - 0.9**t) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
            p = p * (1 - 0.05 * 0.1) - 0.05 * update
        np.testing.assert_allclose(m.values(), p, rtol=2e-4, atol=2e-5)
    got, unc = doubles(ggml.ggml_opt_result_loss, result)
    n = len(expected)
    scale = n if loss == ggml.GGML_OPT_LOSS_TYPE_SUM else 1
    np.testing.assert_allclose(got, scale * np.mean(expected), rtol=1e-4)
    np.testing.assert_allclose(unc, scale * np.std(expected, ddof=1) / np.sqrt(n), rtol=1e-3)
    ggml.ggml_opt_result_free(result)
    m.close()


def test_evaluation_predicts_and_changes_nothing(model):
    opt, result = model.opt(), ggml.ggml_opt_result_init()
    before = model.values()
    for i in range(NDATA // BATCH):
        step(model, opt, i, result, train=False)
    assert np.array_equal(before, model.values())
    out = model.data @ to_numpy(model.w).T + to_numpy(model.b)
    n, pred = ctypes.c_int64(), (ctypes.c_int32 * NDATA)()
    ggml.ggml_opt_result_ndata(result, ctypes.byref(n))
    ggml.ggml_opt_result_pred(result, pred)
    right = np.mean(out.argmax(1) == model.labels.argmax(1))
    assert n.value == NDATA and list(pred) == list(out.argmax(1))
    accuracy, unc = doubles(ggml.ggml_opt_result_accuracy, result)
    np.testing.assert_allclose([accuracy, unc], [right, np.sqrt(right * (1 - right) / (NDATA - 1))])
    ggml.ggml_opt_result_reset(result)
    assert np.isnan(doubles(ggml.ggml_opt_result_accuracy, result)[0])
    ggml.ggml_opt_result_free(result)


@pytest.mark.parametrize("shard", [1, 2, 4])
def test_shuffle_moves_shards_and_keeps_the_rest(shard):
    m = Model(shard=shard)
    opt, first = m.opt(), 16

    def order():
        x = np.zeros((NDATA, N_IN), np.float32)
        y = np.zeros((NDATA, N_OUT), np.float32)
        ggml.ggml_opt_dataset_get_batch_host(m.dataset, x, x.nbytes, y, 0)
        rows = [np.flatnonzero((m.data == row).all(1))[0] for row in x]
        assert np.array_equal(m.labels[rows], y)
        return np.array(rows)

    assert np.array_equal(order(), np.arange(NDATA))
    ggml.ggml_opt_dataset_shuffle(opt, m.dataset, first)
    after = order()
    assert np.array_equal(after[first:], np.arange(first, NDATA)) and not np.array_equal(after, np.arange(NDATA))
    assert sorted(after) == list(range(NDATA))
    assert np.array_equal(after.reshape(-1, shard) % shard, np.tile(np.arange(shard), (NDATA // shard, 1)))
    m.close()


def test_fit_and_epoch_callbacks(model, capfd):
    teacher = np.random.default_rng(1).normal(size=(N_IN, N_OUT))
    model.labels[:] = np.eye(N_OUT)[(model.data @ teacher).argmax(1)]
    epochs = []

    def schedule(userdata):
        epochs.append(ctypes.c_int64.from_address(userdata).value)
        return rates(alpha=0.2, wd=0)

    ggml.ggml_opt_fit(
        model.sched,
        model.ctx,
        model.inputs,
        model.outputs,
        model.dataset,
        ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY,
        ggml.GGML_OPT_OPTIMIZER_TYPE_ADAMW,
        schedule,
        30,
        8,
        0.0,
        False,
    )
    assert epochs == [e for e in range(1, 31) for _ in range(3)]
    assert "epoch 30/30" in capfd.readouterr().err
    opt, result, seen = model.opt(), ggml.ggml_opt_result_init(), []
    ggml.ggml_opt_epoch(opt, model.dataset, None, result, 0, None, lambda *args: seen.append(args[:6]))
    assert seen == [(False, opt, model.dataset, result, i, 6) for i in range(1, 7)]
    assert doubles(ggml.ggml_opt_result_accuracy, result)[0] > 0.9

    def stop(*args):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        ggml.ggml_opt_epoch(opt, model.dataset, None, None, -1, ggml.ggml_opt_epoch_callback(stop), None)


def test_errors_of_builders_begin_with_the_public_name(model):
    model.outputs = ggml.ggml_argmax(model.ctx, model.outputs)  # has no gradient
    with pytest.raises(ValueError, match=r"^ggml_opt_init: ggml_\w+: "):
        model.opt(ggml.GGML_OPT_LOSS_TYPE_SUM)
    with pytest.raises(RuntimeError, match="^ggml_opt_loss: "):  # later errors do not
        ggml.ggml_opt_loss(12345)


@pytest.mark.parametrize("loss", ["MEAN", "SUM", "MEAN_SQUARED_ERROR", "CROSS_ENTROPY"])
def test_outputs_without_elements(model, loss):
    model.inputs, model.outputs = model.forward(model.ctx, batch=0)
    opt = model.opt(getattr(ggml, "GGML_OPT_LOSS_TYPE_" + loss))
    assert ggml.ggml_nelements(ggml.ggml_opt_outputs(opt)) == 0


@pytest.mark.parametrize(
    "batch, epochs, message",
    [(0, 1, "inputs hold a batch of 0 datapoints: need 1 or more"), (8, -1, "nepoch is -1: must not be negative")],
)
def test_fit_refuses_empty_batches_and_negative_epochs(model, batch, epochs, message):
    inputs = ggml.ggml_new_tensor_2d(model.ctx, ggml.GGML_TYPE_F32, N_IN, batch)
    cross_entropy, adamw = ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, ggml.GGML_OPT_OPTIMIZER_TYPE_ADAMW
    with pytest.raises(ValueError, match=f"^ggml_opt_fit: {message}$"):
        ggml.ggml_opt_fit(
            model.sched, model.ctx, inputs, model.outputs, model.dataset, cross_entropy, adamw,
            ggml.ggml_opt_get_default_optimizer_params, epochs, 8, 0.0, True,
        )  # fmt: skip


def test_constant_parameters_by_address(model):
    constant = rates(alpha=0.5, wd=0)
    assert ggml.ggml_opt_get_constant_optimizer_params(ctypes.byref(constant)).adamw.alpha == 0.5
    default = ggml.ggml_opt_get_default_optimizer_params(None)
    assert (default.adamw.wd, default.sgd.wd) == (0, 0) and default.adamw.alpha == default.sgd.alpha == np.float32(1e-3)
    opt = model.opt(rates=ggml.ggml_opt_get_constant_optimizer_params, get_opt_pars_ud=ctypes.addressof(constant))
    before = model.values()
    step(model, opt, 0)
    # The first step of Adam has the size of the learning rate.
    np.testing.assert_allclose(np.abs(model.values() - before), 0.5, rtol=1e-3)


def test_gradients_accumulate_until_reset(model):
    opt = model.opt(build_type=ggml.GGML_OPT_BUILD_TYPE_GRAD)
    acc = ggml.ggml_opt_grad_acc(opt, model.b)
    step(model, opt, 0)
    once = to_numpy(acc).copy()
    step(model, opt, 0)
    np.testing.assert_allclose(to_numpy(acc), 2 * once, rtol=1e-6)
    ggml.ggml_opt_reset(opt, False)
    assert not to_numpy(acc).any() and once.any()


@pytest.mark.parametrize("optimizer", range(2))
@pytest.mark.parametrize("period", [1, 3])
def test_resumed_run_is_the_same(tmp_path, optimizer, period):
    def run(m, opt, steps):
        for k in range(steps):
            ggml.ggml_opt_dataset_shuffle(opt, m.dataset, -1)
            step(m, opt, k % 6)

    fields = {"optimizer": optimizer, "opt_period": period, "rates": lambda _: rates()}
    a, b = Model(), Model()
    whole, path = a.opt(**fields), tmp_path / "run.gguf"
    run(a, whole, 7)
    ggml.ext.opt_save(whole, path, a.dataset)
    run(a, whole, 5)
    resumed = b.opt(**fields)
    ggml.ext.opt_load(resumed, path, b.dataset)
    run(b, resumed, 5)
    assert np.array_equal(a.values(), b.values())
    assert os.listdir(tmp_path) == ["run.gguf"]
    a.close()
    b.close()


WIDE = """
import sys, numpy as np, ggml
from ggml.training import Session, adamw
def wide(s):
    w = s.parameter("w", np.ones((64, 512)))
    loss = ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY
    return s.start(lambda ctx, t: ggml.ggml_mul_mat(ctx, w, t), 512, 4, loss, adamw(1e-3)).opt
"""


def test_a_checkpoint_is_complete_after_a_kill(tmp_path):
    """Processes that save repeatedly are killed. The file that they leave is always a complete checkpoint."""
    code = (
        WIDE
        + """
with Session(1) as s:
    opt = wide(s)
    while True:
        ggml.ext.opt_save(opt, sys.argv[1])
        print("saved", flush=True)
"""
    )
    path, rng, here = tmp_path / "run.gguf", np.random.default_rng(0), {}
    exec(WIDE, here)
    with training.Session(1) as s:
        opt = here["wide"](s)
        for _ in range(5):
            with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, cwd=tmp_path) as saving:
                assert saving.stdout.readline()
                time.sleep(rng.uniform(0.01, 0.2))
                saving.kill()
            ggml.ext.opt_load(opt, path)


def test_checkpoints_that_do_not_fit(model, tmp_path):
    opt, path = model.opt(), tmp_path / "run.gguf"
    ggml.ext.opt_save(opt, path)
    whole, before = path.read_bytes(), model.values()
    with pytest.raises(ValueError, match=r"key 'ggml.opt.order'"):
        ggml.ext.opt_load(opt, path, model.dataset)
    with pytest.raises(ValueError, match=r"key 'ggml.opt.optimizer'"):
        ggml.ext.opt_load(model.opt(optimizer=ggml.GGML_OPT_OPTIMIZER_TYPE_SGD), path)
    with pytest.raises(ValueError, match=r"key 'ggml.opt.period'"):
        ggml.ext.opt_load(model.opt(opt_period=2), path)
    ggml.ggml_set_name(model.w, b"other")
    with pytest.raises(ValueError, match="tensor 'other' is missing"):
        ggml.ext.opt_load(opt, path)
    ggml.ggml_set_name(model.w, b"w")
    for n in (0, 3, len(whole) // 2, len(whole) - 64):
        path.write_bytes(whole[:n])
        with pytest.raises(ValueError, match="^ggml.ext.opt_load: .*run.gguf"):
            ggml.ext.opt_load(opt, path)
    for at, match in (
        (whole.index(b"ggml.opt.random") + 20, r"ggml.opt.random.* damaged"),
        (len(whole) - 32, r"tensor '.*is damaged"),
    ):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=match):
            ggml.ext.opt_load(opt, path)
    foreign = ggml.gguf_init_empty()
    ggml.gguf_write_to_file(foreign, path, False)
    ggml.gguf_free(foreign)
    with pytest.raises(ValueError, match=r"not a checkpoint of a training run: key 'ggml.opt.version' is missing"):
        ggml.ext.opt_load(opt, path)
    with pytest.raises(OSError):
        ggml.ext.opt_load(opt, tmp_path / "none.gguf")
    with pytest.raises(OSError):
        ggml.ext.opt_save(opt, tmp_path / "no" / "folder.gguf")
    assert np.array_equal(before, model.values())


@pytest.mark.parametrize("bad", [{"alpha": -1}, {"alpha": float("nan")}, {"alpha": float("inf")}, {"wd": 2}])
@pytest.mark.parametrize("optimizer", range(2))
def test_rates_out_of_range(model, bad, optimizer):
    opt, before = model.opt(rates=lambda _: rates(**bad), optimizer=optimizer), model.values()
    with pytest.raises(
        ValueError, match=rf"ggml_opt_eval: get_opt_pars: {('adamw', 'sgd')[optimizer]}\.{next(iter(bad))}"
    ):
        step(model, opt, 0)
    assert np.array_equal(before, model.values())


def test_rates_from_a_callback_that_frees_the_context(model):
    def free_all(_):
        ggml.ggml_opt_free(model.contexts.pop())
        return rates()

    opt, before = model.opt(rates=free_all), model.values()
    with pytest.raises(RuntimeError, match="^ggml_opt_eval: get_opt_pars freed the context"):
        step(model, opt, 0)
    assert np.array_equal(before, model.values())


def test_nan_loss_names_the_tensor(model):
    model.data[1, 2] = np.nan
    with pytest.raises(RuntimeError, match=r"^ggml_opt_eval: 'loss' .* is nan .*'x'"):
        step(model, model.opt(), 0)
    with pytest.raises(RuntimeError, match=r"^ggml_opt_epoch: 'loss' .* is nan .*'x'"):
        ggml.ggml_opt_epoch(model.opt(), model.dataset, None, None, -1, None, None)


def test_shapes_that_disagree(model):
    opt = model.opt()
    for ne, label, ndata, match in (
        (N_IN + 1, N_OUT, NDATA, "inputs 'x'"),
        (N_IN, N_OUT + 1, NDATA, "labels 'labels'"),
        (N_IN, N_OUT, NDATA + 1, "whole number of batches"),
        (N_IN, 0, NDATA, "dataset has none"),
    ):
        d = ggml.ggml_opt_dataset_init(F32, F32, ne, label, ndata, 1)
        with pytest.raises(ValueError, match=match):
            ggml.ggml_opt_epoch(opt, d, None, None, -1, None, None)
        ggml.ggml_opt_dataset_free(d)
    with pytest.raises(ValueError, match="ndata_shard is 5"):
        ggml.ggml_opt_dataset_init(F32, F32, 1, 1, 24, 5)
    with pytest.raises(ValueError, match="^ggml_opt_dataset_init: ne0 is 33: need a multiple of q4_0's block of 32$"):
        ggml.ggml_opt_dataset_init(ggml.GGML_TYPE_Q4_0, F32, 33, 1, 24, 1)
    with pytest.raises(ValueError, match="^ggml_opt_dataset_init: the tensor is larger than any memory$"):
        ggml.ggml_opt_dataset_init(F32, F32, 1 << 40, 1, 1 << 40, 1)
    with pytest.raises(IndexError, match="ibatch is 6"):
        ggml.ggml_opt_dataset_get_batch(
            model.dataset, *(ggml.ggml_opt_alloc(opt, True) or ggml.ggml_opt_inputs(opt), ggml.ggml_opt_labels(opt)), 6
        )


def test_handles_are_checked(model):
    opt = model.opt()
    with pytest.raises(TypeError, match="ggml_opt_eval: opt_ctx is a dataset: need an optimisation context"):
        ggml.ggml_opt_eval(model.dataset, None)
    with pytest.raises(TypeError, match="ggml_opt_dataset_free: dataset is an optimisation context: need a dataset"):
        ggml.ggml_opt_dataset_free(opt)
    with pytest.raises(RuntimeError, match="call ggml_opt_alloc first"):
        ggml.ggml_opt_eval(opt, None)
    ggml.ggml_opt_free(model.contexts.pop())
    with pytest.raises(RuntimeError, match="not a live optimisation context"):
        ggml.ggml_opt_reset(opt, True)
    for free in (ggml.ggml_opt_free, ggml.ggml_opt_dataset_free, ggml.ggml_opt_result_free):
        free(None)


def test_sessions_refuse_data_that_do_not_fit():
    x, y = np.zeros((8, N_IN), np.float32), np.eye(N_OUT, dtype=np.float32)[np.arange(8) % N_OUT]
    with training.Session(1) as s:
        w = s.parameter("w", np.ones((N_OUT, N_IN)))
        s.start(
            lambda ctx, t: ggml.ggml_mul_mat(ctx, w, t),
            N_IN,
            BATCH,
            ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY,
            training.adamw(1e-3),
        )
        assert np.isclose(s.epoch(x, y)[0], np.log(N_OUT))
        for data, labels, match in (
            (x[:, 1:], y, rf"Session.epoch: data is \(8, {N_IN - 1}\): need rows of {N_IN}"),
            (x[: BATCH - 1], y[: BATCH - 1], f"need a batch of {BATCH} or more"),
            (x, y[:, 1:], "labels"),
            (x, None, r"the shape of labels is None: need \(8, 3\)"),
            (x, y[:5], r"the shape of labels is \(5, 3\): need \(8, 3\)"),
        ):
            with pytest.raises(ValueError, match=match):
                s.epoch(data, labels)
        with pytest.raises(ValueError, match="Session.predict: data is"):
            s.predict(x[:, 1:])
        with pytest.raises(ValueError, match="^Session.predict: data has 0 rows: need 1 or more$"):
            s.predict(x[:0])
        assert s.predict(x[:1]).shape == (1, N_OUT) and s.predict(x[: BATCH + 1]).shape == (BATCH + 1, N_OUT)


def test_functions_of_the_library_can_be_cast_to_pointers(model, capfd):
    """As in the bindings, where a function is passed as a void pointer."""
    constant = rates(alpha=0.25)
    start, ends = [to_numpy(t).copy() for t in (model.w, model.b)], []
    for fields in (
        {"rates": lambda userdata: constant},
        {
            "get_opt_pars": ctypes.cast(ggml.ggml_opt_get_constant_optimizer_params, ctypes.c_void_p),
            "get_opt_pars_ud": ctypes.addressof(constant),
        },
        {"rates": lambda userdata: ggml.ggml_opt_get_default_optimizer_params(None)},
        {"get_opt_pars": ctypes.cast(ggml.lib.ggml_opt_get_default_optimizer_params, ctypes.c_void_p)},
    ):
        for tensor, values in zip((model.w, model.b), start):
            to_numpy(tensor)[:] = values
        step(model, model.opt(**fields), 0)
        ends.append(model.values())
    assert (ends[0] == ends[1]).all() and (ends[2] == ends[3]).all() and not (ends[0] == ends[2]).any()
    bar = ctypes.cast(ggml.ggml_opt_epoch_callback_progress_bar, ggml.ggml_opt_epoch_callback)
    ggml.ggml_opt_epoch(model.opt(), model.dataset, None, None, -1, bar, None)
    assert "train [====" in capfd.readouterr().err
