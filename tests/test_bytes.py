"""Products with matrices of bytes (I8) are exact for whole numbers, and right for others."""

import numpy as np
import pytest

import ggml
from ggml.utils import from_numpy, to_numpy


def product(a, b, offset=0, threads=1):
    """The values of ggml_mul_mat of two arrays."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    y = ggml.ggml_mul_mat(ctx, from_numpy(a, ctx), from_numpy(b, ctx), offset)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, y)
    assert ggml.ggml_graph_compute_with_ctx(ctx, graph, threads) == ggml.GGML_STATUS_SUCCESS
    result = np.array(to_numpy(y))
    ggml.ggml_free(ctx)
    return result


def bytes_of(dice, n, k):
    return dice.integers(-128, 128, (n, k)).astype(np.int8)


@pytest.mark.parametrize("k, n, m", [(1, 1, 1), (3, 5, 2), (4, 33, 7), (63, 64, 13), (65, 70, 20), (1024, 40, 5)])
def test_whole_numbers_are_multiplied_exactly(k, n, m):
    dice = np.random.default_rng(k)
    a = bytes_of(dice, n, k)
    for low in (0, -128, -255):  # 0 must lie within the range of 255
        b = dice.integers(low, low + 256, (2, m, k)).astype(np.float32)
        for offset in (0, 20, -255):
            wanted = b.astype(np.int64) @ (a.astype(np.int64) + offset).T
            for threads in (1, 2):
                np.testing.assert_array_equal(product(a, b, offset, threads), wanted.astype(np.float32))


def test_the_largest_sums_do_not_overflow():
    k = 1 << 14
    a, b = np.full((2, k), -128, np.int8), np.full((1, k), 255, np.float32)
    assert (product(a, b, -255) == -383 * 255 * k).all()
    a, b = np.full((2, k + 1), 127, np.int8), np.full((1, k + 1), -255, np.float32)
    np.testing.assert_allclose(product(a, b, 255), -382.0 * 255 * (k + 1), rtol=1e-4)


def test_other_rows_are_multiplied_as_floats():
    dice = np.random.default_rng(0)
    a, b = bytes_of(dice, 37, 100), dice.standard_normal((9, 100)).astype(np.float32)
    b[1], b[2] = np.arange(100) - 50, np.arange(100) * 3.0  # exact; a range above 255
    wanted = b.astype(np.float64) @ (a.astype(np.float64) + 7).T
    np.testing.assert_allclose(product(a, b, 7), wanted, rtol=1e-5, atol=0.02)
    np.testing.assert_array_equal(product(a, b, 7)[1], wanted[1])
    strange = np.array([[np.nan, 1, 2], [np.inf, 1, 2]], np.float32)
    assert not np.isfinite(product(np.ones((1, 3), np.int8), strange)).any()


def test_no_elements():
    assert not product(np.zeros((3, 0), np.int8), np.zeros((2, 0), np.float32)).any()


def test_mistakes():
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    a = from_numpy(np.zeros((2, 3), np.int8), ctx)
    b = from_numpy(np.zeros((4, 3), np.float32), ctx)
    with pytest.raises(ValueError, match="ggml_mul_mat: offset is 256"):
        ggml.ggml_mul_mat(ctx, a, b, 256)
    with pytest.raises(ValueError, match="contiguous rows"):
        ggml.ggml_mul_mat(ctx, ggml.ggml_transpose(ctx, from_numpy(np.zeros((3, 2), np.int8), ctx)), b)
    ggml.ggml_free(ctx)
