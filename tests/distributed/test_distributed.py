"""Collectives of `ggml.distributed`: values, gradients and errors.

These tests run on any number of ranks, each of which runs all of them: `mpiexec -n 3 python -m pytest
tests/distributed/test_distributed.py`. Without mpiexec there is one rank. test_mpi.py starts them with several.
"""

import numpy as np
import pytest
from cases.harness import compute, graph_of
from ranks import comm

import ggml
from ggml.distributed import mpi
from ggml.utils import from_numpy, to_numpy

RANK, SIZE = comm.rank, comm.size
F32 = ggml.GGML_TYPE_F32
several = pytest.mark.skipif(SIZE == 1, reason="needs two ranks")


def of_rank(rank, shape, seed=0):
    """The values that a rank contributes: all ranks know those of all."""
    return np.random.default_rng([seed, rank]).standard_normal(shape).astype(np.float32)


def in_rank_order(parts):
    total = np.zeros(parts[0].shape, np.float32)
    for part in parts:
        total = total + part
    return total


def test_all_ranks_are_there():
    assert comm.collect(np.array([RANK, SIZE])).tolist() == [[rank, SIZE] for rank in range(SIZE)]
    assert comm.share(np.array([RANK + 7.0]), root=SIZE - 1).tolist() == [SIZE + 6]
    assert 1 <= comm.threads
    comm.barrier()


@pytest.mark.parametrize("shape", [(3, 5), (100_003,)], ids=["one round", "shares"])
def test_all_reduce_adds_in_rank_order(ctx, shape):
    x = from_numpy(of_rank(RANK, shape), ctx)
    y = comm.all_reduce(ctx, x)
    z = comm.all_reduce(ctx, x, "mean")
    by_mpi = comm.all_reduce(ctx, x, order="mpi")
    compute(ctx, graph_of(ctx, y, z, by_mpi), 2)
    wanted = in_rank_order([of_rank(rank, shape) for rank in range(SIZE)])
    np.testing.assert_array_equal(to_numpy(y), wanted)
    np.testing.assert_allclose(to_numpy(z), wanted / SIZE, rtol=1e-6)
    np.testing.assert_allclose(to_numpy(by_mpi), wanted, rtol=1e-5, atol=1e-6)


def test_all_reduce_max_min_and_integers(ctx):
    parts = [of_rank(rank, (4, 6)) for rank in range(SIZE)]
    whole = [np.arange(5, dtype=np.int32) * (rank + 1) for rank in range(SIZE)]
    x, i = from_numpy(parts[RANK], ctx), from_numpy(whole[RANK], ctx)
    high, low, total = comm.all_reduce(ctx, x, "max"), comm.all_reduce(ctx, x, "min"), comm.all_reduce(ctx, i)
    compute(ctx, graph_of(ctx, high, low, total), 2)
    np.testing.assert_array_equal(to_numpy(high), np.max(parts, 0))
    np.testing.assert_array_equal(to_numpy(low), np.min(parts, 0))
    np.testing.assert_array_equal(to_numpy(total), np.sum(whole, 0))


@pytest.mark.parametrize("kind", [ggml.GGML_TYPE_F16, ggml.GGML_TYPE_BF16])
def test_half_precision_is_rounded_once(ctx, kind):
    shape = (3, 40)
    narrow = ggml.ggml_cast(ctx, from_numpy(of_rank(RANK, shape), ctx), kind)
    values = [ggml.ggml_cast(ctx, from_numpy(of_rank(rank, shape), ctx), kind) for rank in range(SIZE)]
    y = comm.all_reduce(ctx, narrow)
    gathered = comm.all_gather(ctx, narrow, 0)
    compute(ctx, graph_of(ctx, y, gathered, *values), 2)
    arrays = [np.asarray(to_numpy(v), np.float32) for v in values]
    wanted = ggml.ggml_cast(ctx, from_numpy(in_rank_order(arrays), ctx), kind)
    compute(ctx, graph_of(ctx, wanted), 2)
    assert y.contents.type == kind
    np.testing.assert_array_equal(to_numpy(y), to_numpy(wanted))
    np.testing.assert_array_equal(np.asarray(to_numpy(gathered), np.float32), np.concatenate(arrays, 1))


@pytest.mark.parametrize("dim", range(4))
def test_parts_along_each_dimension(ctx, dim):
    """all_gather joins what reduce_scatter divides; all_to_all is its own inverse."""
    ne = [2, 3, 2, 3]
    shape = tuple(ne[::-1])
    parts = [of_rank(rank, shape) for rank in range(SIZE)]
    axis = 3 - dim
    x = from_numpy(parts[RANK], ctx)
    joined = comm.all_gather(ctx, x, dim)
    part = comm.reduce_scatter(ctx, joined, dim)
    exchanged = comm.all_to_all(ctx, joined, dim)
    back = comm.all_to_all(ctx, exchanged, dim)
    compute(ctx, graph_of(ctx, joined, part, exchanged, back), 2)
    whole = np.concatenate(parts, axis)
    np.testing.assert_array_equal(to_numpy(joined), whole)
    np.testing.assert_allclose(to_numpy(part), SIZE * parts[RANK], rtol=1e-6)
    np.testing.assert_array_equal(to_numpy(exchanged), np.concatenate([parts[RANK]] * SIZE, axis))
    np.testing.assert_array_equal(to_numpy(back), whole)


@pytest.mark.parametrize("dim", [0, 1])
def test_unequal_parts(ctx, dim):
    sizes = [2 + rank for rank in range(SIZE)]
    shapes = [(4, size) if dim == 0 else (size, 4) for size in sizes]
    parts = [of_rank(rank, shape) for rank, shape in enumerate(shapes)]
    joined = comm.all_gather(ctx, from_numpy(parts[RANK], ctx), dim, sizes)
    part = comm.reduce_scatter(ctx, joined, dim, sizes)
    compute(ctx, graph_of(ctx, joined, part), 2)
    np.testing.assert_array_equal(to_numpy(joined), np.concatenate(parts, 1 - dim))
    np.testing.assert_allclose(to_numpy(part), SIZE * parts[RANK], rtol=1e-6)


def test_broadcast_and_operands_that_are_not_contiguous(ctx):
    parts = [of_rank(rank, (4, 5)) for rank in range(SIZE)]
    x = ggml.ggml_transpose(ctx, from_numpy(parts[RANK], ctx))
    y, z = comm.broadcast(ctx, x, SIZE - 1), comm.all_reduce(ctx, x)
    compute(ctx, graph_of(ctx, y, z), 2)
    np.testing.assert_array_equal(to_numpy(y), parts[-1].T)
    np.testing.assert_array_equal(to_numpy(z), in_rank_order([p.T for p in parts]))


# ---- gradients -------------------------------------------------------------------------------------------------------
COLLECTIVES = {
    "sum": lambda ctx, x: comm.all_reduce(ctx, x),
    "mean": lambda ctx, x: comm.all_reduce(ctx, x, "mean"),
    "max": lambda ctx, x: comm.all_reduce(ctx, x, "max"),
    "min": lambda ctx, x: comm.all_reduce(ctx, x, "min"),
    "all_gather 0": lambda ctx, x: comm.all_gather(ctx, x, 0),
    "all_gather 1": lambda ctx, x: comm.all_gather(ctx, x, 1),
    "reduce_scatter 0": lambda ctx, x: comm.reduce_scatter(ctx, x, 0),
    "reduce_scatter 1": lambda ctx, x: comm.reduce_scatter(ctx, x, 1),
    "all_to_all 0": lambda ctx, x: comm.all_to_all(ctx, x, 0),
    "all_to_all 1": lambda ctx, x: comm.all_to_all(ctx, x, 1),
    "broadcast": lambda ctx, x: comm.broadcast(ctx, x, SIZE - 1),
    "sum of a sum": lambda ctx, x: comm.all_reduce(ctx, ggml.ggml_sqr(ctx, comm.all_reduce(ctx, x))),
}


def gradient_of(build, x_values):
    """This rank's loss and gradient: the loss of a rank is sum(w_rank * collective(x)^2)."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    try:
        x = from_numpy(x_values, ctx)
        ggml.ggml_set_param(x)
        y = build(ctx, x)
        shape = tuple(y.contents.ne[:2])[::-1]
        w = from_numpy(of_rank(RANK, shape, seed=9), ctx)
        loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, ggml.ggml_sqr(ctx, y), w))
        ggml.ggml_set_loss(loss)
        graph = ggml.ggml_new_graph_custom(ctx, 256, True)
        ggml.ggml_build_forward_expand(graph, loss)
        ggml.ggml_build_backward_expand(ctx, graph, None)
        ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
        return float(to_numpy(loss).item()), to_numpy(ggml.ggml_graph_get_grad(graph, x)).copy()
    finally:
        ggml.ggml_free(ctx)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_gradients_are_those_of_the_sum_of_all_losses(name):
    """Numerically: one element of one rank is changed, and the losses of all ranks change."""
    build, shape, step = COLLECTIVES[name], (2 * SIZE, SIZE), 1e-2
    values = of_rank(RANK, shape, seed=1)
    _, gradient = gradient_of(build, values)
    for rank in range(SIZE):
        for index in ((0, 0), (2 * SIZE - 1, SIZE - 1)):
            losses = []
            for sign in (1, -1):
                changed = values.copy()
                if rank == RANK:
                    changed[index] += sign * step
                losses.append(comm.collect(np.array(gradient_of(build, changed)[0])).sum())
            found = comm.collect(gradient)[rank][index]
            assert found == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=2e-2, abs=5e-2 * SIZE)


@several
def test_send_and_recv_carry_gradients(ctx):
    """Rank 0 computes y = a x and sends it; rank 1 computes the loss sum(w y): d/da = sum(w x), seen by rank 0."""
    a, x, w = of_rank(0, (3, 4), 2), of_rank(0, (3, 4), 3), of_rank(1, (3, 4), 4)
    if RANK == 0:
        param = from_numpy(a, ctx)
        ggml.ggml_set_param(param)
        loss = comm.send(ctx, ggml.ggml_mul(ctx, param, from_numpy(x, ctx)), 1, tag=5)
    elif RANK == 1:
        y = comm.recv(ctx, F32, [4, 3], 0, tag=5)
        loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, y, from_numpy(w, ctx)))
    if RANK < 2:
        ggml.ggml_set_loss(loss)
        graph = ggml.ggml_new_graph_custom(ctx, 64, True)
        ggml.ggml_build_forward_expand(graph, loss)
        ggml.ggml_build_backward_expand(ctx, graph, None)
        ggml.ggml_graph_compute_with_ctx(ctx, graph, 1)
        if RANK == 0:
            np.testing.assert_allclose(to_numpy(ggml.ggml_graph_get_grad(graph, param)), w * x, rtol=1e-6)
            assert to_numpy(loss).item() == 0
        else:
            assert to_numpy(loss).item() == pytest.approx((w * a * x).sum(), rel=1e-4)
    comm.barrier()


# ---- errors ----------------------------------------------------------------------------------------------------------
@several
def test_ranks_that_differ_are_named_and_all_raise(ctx):
    x = from_numpy(np.ones((2, 3 + (RANK == 1)), np.float32), ctx)
    ggml.ggml_set_name(x, b"hidden state")
    with pytest.raises(RuntimeError, match=r"do not compute the same: rank 0: all_reduce.*f32 \[3, 2.*rank 1.*\[4, 2"):
        compute(ctx, graph_of(ctx, comm.all_reduce(ctx, x)), 2)
    y = from_numpy(np.ones((2, SIZE), np.float32), ctx)
    with pytest.raises(RuntimeError, match="rank 0: all_reduce.*rank 1: all_gather"):
        compute(ctx, graph_of(ctx, comm.all_gather(ctx, y) if RANK == 1 else comm.all_reduce(ctx, y)), 2)
    comm.barrier()  # the communicator remains usable


@several
def test_recv_of_another_shape_is_named(ctx):
    if RANK == 0:
        compute(ctx, graph_of(ctx, comm.send(ctx, from_numpy(np.ones(6, np.float32), ctx), 1)), 2)
    elif RANK == 1:
        with pytest.raises(RuntimeError, match=r"waits for send f32 \[5, .*rank 0 sent send f32 \[6, "):
            compute(ctx, graph_of(ctx, comm.recv(ctx, F32, [5], 0)), 2)
    comm.barrier()


def test_bad_arguments(ctx):
    x, q = ggml.ggml_new_tensor_1d(ctx, F32, 7), ggml.ggml_new_tensor_1d(ctx, ggml.GGML_TYPE_Q8_0, 32)
    for error, text, call in [
        (TypeError, "all_reduce: x is q8_0", lambda: comm.all_reduce(ctx, q)),
        (TypeError, "broadcast: x is 5", lambda: comm.broadcast(ctx, 5)),
        (ValueError, "all_reduce: op is 'product'", lambda: comm.all_reduce(ctx, x, "product")),
        (ValueError, "order is 'any'", lambda: comm.all_reduce(ctx, x, order="any")),
        (ValueError, "all_gather: dim is 4", lambda: comm.all_gather(ctx, x, 4)),
        (ValueError, "all_gather: sizes is", lambda: comm.all_gather(ctx, x, 0, [0] * SIZE)),
        (ValueError, "sizes has 8", lambda: comm.reduce_scatter(ctx, x, 0, [8 - SIZE + 1] + [1] * (SIZE - 1))),
        (ValueError, "broadcast: root is", lambda: comm.broadcast(ctx, x, SIZE)),
        (ValueError, "send: dest is .* this rank itself", lambda: comm.send(ctx, x, RANK)),
        (ValueError, "recv: source is -1", lambda: comm.recv(ctx, F32, [3], -1)),
        (ValueError, "mpi: order is", lambda: mpi(order="x")),
        (ValueError, "mpi: timeout is", lambda: mpi(timeout=0)),
    ]:
        with pytest.raises(error, match=text):
            call()
