"""Training on several ranks: the losses and weights are those of one rank, bit for bit.

These tests run on any number of ranks, like those of test_distributed.py.
"""

import numpy as np
import pytest
from ranks import comm

import ggml
from ggml.training import Session, adamw
from ggml.utils import to_numpy

RANK, SIZE = comm.rank, comm.size
BATCH, WIDTH, CLASSES = 8, 12, 5
several = pytest.mark.skipif(SIZE == 1, reason="needs two ranks")


@pytest.fixture
def folder(tmp_path_factory):
    """A folder that all ranks share: that of rank 0."""
    path = str(tmp_path_factory.mktemp("shared")).encode() if RANK == 0 else b""
    padded = np.frombuffer(path.ljust(512, b"\0"), np.uint8)
    return comm.share(padded).tobytes().rstrip(b"\0").decode()


def data(n=100):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, WIDTH), dtype=np.float32)
    return x, np.eye(CLASSES, dtype=np.float32)[rng.integers(CLASSES, size=n)]


def network(session, optimizer=ggml.GGML_OPT_OPTIMIZER_TYPE_ADAMW, seed=0, loss=None):
    """A network with a matrix that occurs twice, whose gradient therefore has two terms, and many small tensors."""
    rng = np.random.default_rng(seed)
    w = session.parameter("w", rng.standard_normal((WIDTH, WIDTH)) / 3)
    gains = [session.parameter(f"gain {i}", np.ones(WIDTH) + 0.01 * i) for i in range(12)]
    out = session.parameter("out", rng.standard_normal((CLASSES, WIDTH)) / 3)

    def forward(ctx, x):
        for gain in gains:
            x = ggml.ggml_mul(ctx, x, gain)
        x = ggml.ggml_tanh(ctx, ggml.ggml_mul_mat(ctx, w, ggml.ggml_tanh(ctx, ggml.ggml_mul_mat(ctx, w, x))))
        return ggml.ggml_mul_mat(ctx, out, x)

    loss = ggml.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY if loss is None else loss
    return session.start(forward, WIDTH, BATCH, loss, adamw(1e-2, 0.01, 40), optimizer)


def run(epochs, **options):
    """Losses of all steps, results of the epochs, and the weights at the end."""
    x, y = data()
    losses = []
    with Session(threads=1, callbacks=lambda step: losses.append(step.loss), **options) as session:
        network(session)
        results = [session.epoch(x, y) for _ in range(epochs)]
        return losses, results, weights(session)


def weights(session):
    return {t.contents.name.decode(): to_numpy(t).copy() for t in session._trained()}


def assert_equal_weights(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], name)


def test_ranks_train_as_one_that_accumulates():
    losses, results, trained = run(3, comm=comm)
    alone, wanted, of_one = run(3, accumulate=SIZE)
    assert len(losses) == 3 * (100 // (BATCH * SIZE)) and len(set(losses)) > 1
    assert losses == alone  # floats, bit for bit
    assert [loss for loss, _ in results] == [loss for loss, _ in wanted]
    assert [accuracy for _, accuracy in results] == pytest.approx([accuracy for _, accuracy in wanted])
    assert_equal_weights(trained, of_one)


def test_several_batches_on_each_rank():
    losses, _, trained = run(2, comm=comm, accumulate=2 * SIZE)
    alone, _, of_one = run(2, accumulate=2 * SIZE)
    np.testing.assert_allclose(losses, alone, rtol=1e-5)
    for name, values in trained.items():
        np.testing.assert_allclose(values, of_one[name], rtol=1e-4, atol=1e-5)
    for values in trained.values():
        ranks = comm.collect(values)
        np.testing.assert_array_equal(ranks, np.broadcast_to(ranks[0], ranks.shape))


@pytest.mark.parametrize("loss", ["SUM", "MEAN", "MEAN_SQUARED_ERROR"])
def test_other_losses(loss):
    kind = getattr(ggml, f"GGML_OPT_LOSS_TYPE_{loss}")
    x, y = data()
    labels = y if loss == "MEAN_SQUARED_ERROR" else None
    found = []
    for options in ({"comm": comm}, {"accumulate": SIZE}):
        with Session(threads=1, **options) as session:
            network(session, ggml.GGML_OPT_OPTIMIZER_TYPE_SGD, loss=kind)
            found.append(([session.epoch(x, labels)[0] for _ in range(2)], weights(session)))
    assert found[0][0] == found[1][0]
    assert_equal_weights(found[0][1], found[1][1])


def test_weights_of_rank_0_count():
    with Session(comm=comm) as session:
        network(session, seed=RANK)
        found = weights(session)
    with Session() as session:
        network(session, seed=0)
        assert_equal_weights(found, weights(session))


def test_checkpoints_resume_with_another_number_of_ranks(folder):
    x, y = data()
    with Session(comm=comm, threads=1) as session:
        network(session)
        session.epoch(x, y)
        session.save(f"{folder}/state.gguf")
        wanted = [session.epoch(x, y)[0] for _ in range(2)], weights(session)
    for options in ({"comm": comm}, {"accumulate": SIZE}):
        with Session(threads=1, **options) as session:
            network(session).load(f"{folder}/state.gguf")
            assert session.epochs == 1
            assert [session.epoch(x, y)[0] for _ in range(2)] == wanted[0]
            assert_equal_weights(weights(session), wanted[1])
    refused = pytest.raises(ValueError, match=f"'ggml.opt.period' of .* is {SIZE}:")
    with Session(accumulate=3 * SIZE) as session, refused:
        network(session).load(f"{folder}/state.gguf")


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("row", [0, -1])
def test_a_loss_that_is_not_finite_on_one_rank_stops_all(row, batches):
    """No rank takes the step, and all go on together with other data."""
    x, y = data(BATCH * SIZE * batches)
    with Session(comm=comm, threads=1, accumulate=SIZE * batches) as session:
        network(session)
        session.epoch(x, y)
        before = weights(session)
        bad = x.copy()
        bad[row] = np.nan
        with pytest.raises(RuntimeError, match="'loss' .*: the parameters were not changed"):
            session.epoch(bad, y)
        assert_equal_weights(before, weights(session))
        found = [session.epoch(x, y)[0] for _ in range(2)]
        assert np.isfinite(found).all() and (comm.collect(np.array(found)) == found).all()


def test_a_file_that_cannot_be_written_raises_on_all_ranks(folder):
    with Session(comm=comm) as session:
        network(session)
        with pytest.raises(OSError if RANK == 0 else RuntimeError, match="missing"):
            session.save(f"{folder}/missing/state.gguf")
    comm.barrier()


def test_bad_arguments():
    with pytest.raises(ValueError, match="Session: accumulate is -1"):
        Session(comm=comm, accumulate=-1)
    with Session(comm=comm, accumulate=2 * SIZE) as session:
        network(session)
        with pytest.raises(ValueError, match=f"data has 5 rows: need {2 * SIZE} batches of 8"):
            session.epoch(*(part[:5] for part in data()))
        params = ggml.ggml_opt_default_params(session.sched, ggml.GGML_OPT_LOSS_TYPE_SUM)
        with pytest.raises(TypeError, match=r"^ggml\.ext\.opt_init: comm is 5"):
            ggml.ext.opt_init(params, comm=5)


def test_gradients_travel_while_the_backward_pass_runs(monkeypatch):
    """The last layers' gradients are under way when the gradient of the first layer is computed."""
    events = []
    start = comm._start

    def started(label, *rest):
        if label.startswith("gradients"):
            events.append("start")
        return start(label, *rest)

    monkeypatch.setattr(comm, "_start", started)

    def copy(result, operand, ith, nth, userdata):
        to_numpy(result)[...] = to_numpy(operand)

    def copy_gradient(result, operand, ith, nth, userdata):
        copy(result, operand, ith, nth, userdata)
        events.append("first layer")

    with Session(comm=comm, threads=1) as session:
        gains = [session.parameter(f"gain {i}", np.ones(WIDTH)) for i in range(14)]

        def forward(ctx, x):
            x = ggml.ggml_map_custom1(ctx, ggml.ggml_mul(ctx, x, gains[0]), copy, 1, None)
            ggml.ext.custom_set_backward(x, lambda ctx, y, g: ggml.ggml_map_custom1(ctx, g, copy_gradient, 1, None))
            for gain in gains[1:]:
                x = ggml.ggml_mul(ctx, x, gain)
            return x

        loss = ggml.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR
        session.start(forward, WIDTH, BATCH * SIZE, loss, adamw(1e-2))
        x, _ = data(BATCH * SIZE * SIZE)
        session.epoch(x, x)
    assert events == ["start", "first layer", "start"]


@several
def test_a_model_that_differs_between_ranks_is_named():
    with Session(comm=comm) as session:
        session.parameter("w", np.ones((CLASSES, WIDTH + (RANK == 1))))

        def forward(ctx, x):
            raise AssertionError("not reached")

        with pytest.raises(RuntimeError, match=r"share: .*rank 0: share <f4 \[5, 12\].*rank 1: share <f4 \[5, 13\]"):
            session.start(forward, WIDTH, BATCH, ggml.GGML_OPT_LOSS_TYPE_SUM, adamw(1e-2))
    comm.barrier()
