"""Sums, places of maxima and soft-maxes of rows of few elements, for which kernels have loops of their own."""

import numpy as np
import pytest
from cases.harness import ISAS, compute, context, elements, graph_of, isa

import ggml
from ggml.utils import from_numpy

SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)
SPECIAL = (-np.inf, np.inf, np.nan, -0.0, 0.0)


def results(array, build):
    """What each instruction set computes on one and two threads."""
    with context() as ctx:
        out = build(ctx, from_numpy(array, ctx))
        graph = graph_of(ctx, out)
        for name in ISAS:
            for threads in (1, 2):
                with isa(name):
                    compute(ctx, graph, threads)
                    yield elements(out).copy()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("mean", [False, True])
def test_sums(n, mean):
    x = np.random.default_rng(n).normal(size=(700, n)).astype(np.float32)
    x[5, -1], x[6, 0], x[7] = np.nan, -np.inf, 3e38
    with np.errstate(over="ignore"):
        want = (x.astype(np.float64).sum(1) / (n if mean else 1)).astype(np.float32)
    for found in results(x, ggml.ggml_mean if mean else ggml.ggml_sum_rows):
        np.testing.assert_allclose(found.ravel(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("last", [False, True])
def test_places_of_maxima(n, last):
    """Of equal values the first or the last counts, 0 and -0 are equal, and NaN is the largest."""
    rng = np.random.default_rng(n)
    x = rng.integers(-3, 4, (900, n)).astype(np.float32) / 4
    special = rng.random(x.shape) < 0.1
    x[special] = rng.choice(SPECIAL, special.sum())
    x[0], x[1] = -np.inf, np.nan
    order = x[:, ::-1] if last else x
    want = order.argmax(1)  # NumPy's takes the first NaN, too
    want = n - 1 - want if last else want
    for found in results(x, lambda ctx, t: ggml.ext.argmax(ctx, t, last)):
        np.testing.assert_array_equal(found.ravel(), want)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_soft_maxes(n, scale):
    """The same bits as with a mask of zeros, for which each row is computed alone."""
    x = (np.random.default_rng(n).normal(size=(600, n)) * 40).astype(np.float32)
    x[3], x[4, 0], x[5, -1] = -np.inf, -np.inf, np.nan
    alone = results(x, lambda ctx, t: ggml.ggml_soft_max_ext(ctx, t, from_numpy(np.zeros_like(x), ctx), scale, 0.0))
    together = results(x, lambda ctx, t: ggml.ggml_soft_max_ext(ctx, t, None, scale, 0.0))
    for a, b in zip(alone, together):
        np.testing.assert_array_equal(a, b)


def apart(ctx, t):
    """The same elements with gaps between the rows, which are computed one by one."""
    n, rows = t.contents.ne[0], t.contents.ne[1]
    room = ggml.ggml_new_tensor_2d(ctx, ggml.GGML_TYPE_F32, n + 3, rows)
    view = ggml.ggml_view_2d(ctx, room, n, rows, room.contents.nb[1], 0)
    return ggml.ggml_cpy(ctx, t, view)


@pytest.mark.parametrize("n", [*SIZES, 100, 255, 256, 257])
@pytest.mark.parametrize(
    "function",
    [
        lambda ctx, t: ggml.ggml_norm(ctx, t, 1e-5),
        lambda ctx, t: ggml.ggml_rms_norm(ctx, t, 1e-5),
        lambda ctx, t: ggml.ggml_l2_norm(ctx, t, 1e-3),
        lambda ctx, t: ggml.ggml_soft_max_ext(ctx, t, None, 0.7, 0.0),
        ggml.ext.log_soft_max,
    ],
    ids=["norm", "rms_norm", "l2_norm", "soft_max", "log_soft_max"],
)
def test_rows_together_and_alone(n, function):
    """The same bits, also of rows without a deviation, of very large and small numbers, infinities and NaN."""
    x = (np.random.default_rng(n).normal(size=(307, n)) * 5 + 3).astype(np.float32)
    x[1], x[2], x[3, 0], x[4, -1], x[5], x[6, 0] = 0, 7.7, -np.inf, np.nan, -np.inf, np.inf
    for i, size in enumerate((1e30, 1e-30, 1e-40, 3e38)):
        x[10 + i] *= size / np.abs(x[10 + i]).max()
    alone = results(x, lambda ctx, t: function(ctx, apart(ctx, t)))
    together = results(x, function)
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))
