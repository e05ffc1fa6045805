"""Products with matrices of bytes (I8) are exact for whole numbers, and right for others."""

import numpy as np
import pytest
from cases.harness import ISAS, isa

import ggml
from ggml.utils import from_numpy, to_numpy

pytestmark = pytest.mark.core


@pytest.fixture(autouse=True, params=ISAS)
def _on_every_instruction_set(request):
    with isa(request.param):
        yield


def product(a, b, offset=0, threads=1):
    """The values of ggml.ext.mul_mat_i8 of two arrays."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    y = ggml.ext.mul_mat_i8(ctx, from_numpy(a, ctx), from_numpy(b, ctx), offset)
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


@pytest.mark.parametrize("m", range(1, 14))
def test_every_number_of_columns(m):
    dice = np.random.default_rng(m)
    for n, k in ((19, 2 * 16 * m + m), (150, 1024)):  # the second matrix is prefetched
        a, b = bytes_of(dice, n, k), dice.integers(-100, 156, (m, k)).astype(np.float32)
        wanted = b.astype(np.int64) @ (a.astype(np.int64) - 9).T
        for threads in (1, 2):
            np.testing.assert_array_equal(product(a, b, -9, threads).reshape(m, n), wanted.astype(np.float32))


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


def whole_product(a, b, threads=1, permuted=False):
    """The values of ggml.ext.mul_mat_whole of two arrays of up to four dimensions; permuted: k lies outermost."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    x, y = (from_numpy(np.ascontiguousarray(np.moveaxis(v, -1, 0)) if permuted else v, ctx) for v in (a, b))
    if permuted:
        order = {2: (1, 0, 2, 3), 3: (1, 2, 0, 3), 4: (1, 2, 3, 0)}[a.ndim]
        x, y = (ggml.ggml_permute(ctx, t, *order) for t in (x, y))
    z = ggml.ext.mul_mat_whole(ctx, x, y)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, z)
    assert ggml.ggml_graph_compute_with_ctx(ctx, graph, threads) == ggml.GGML_STATUS_SUCCESS
    result = np.array(to_numpy(z)).reshape(z.contents.ne[3::-1])
    ggml.ggml_free(ctx)
    return result.reshape((*b.shape[:-1], a.shape[-2]))


@pytest.mark.parametrize("permuted", (False, True))
@pytest.mark.parametrize(
    "k, n, m, of_a, of_b",
    [
        (1, 1, 1, (), ()),
        (3, 5, 1, (), ()),
        (65, 70, 20, (), ()),
        (64, 33, 13, (2,), (6,)),  # three matrices of b share one of a
        (130, 40, 190, (2, 1), (2, 3)),  # threads make the codes together
    ],
)
def test_matrices_of_whole_numbers_are_multiplied_exactly(k, n, m, of_a, of_b, permuted):
    dice = np.random.default_rng(k + n)
    for low in (0, -128, -255):
        a = dice.integers(low, low + 256, (*of_a, n, k)).astype(np.float32)
        b = dice.integers(-100, 156, (*of_b, m, k)).astype(np.float32)
        matrices = a.astype(np.int64)
        for axis in range(len(of_a)):
            matrices = np.repeat(matrices, of_b[axis] // of_a[axis], axis)
        wanted = b.astype(np.int64) @ matrices.swapaxes(-1, -2)
        for threads in (1, 2):
            np.testing.assert_array_equal(whole_product(a, b, threads, permuted), wanted.astype(np.float32))
    halves = (v.astype(np.float16) for v in (a, b))
    np.testing.assert_array_equal(whole_product(*halves, 2, permuted), wanted.astype(np.float32))


def test_the_largest_sums_of_whole_numbers_do_not_overflow():
    k = 1 << 14
    a, b = np.full((2, k), 255, np.float32), np.full((3, k), -255, np.float32)
    assert (whole_product(a, b) == -255 * 255 * k).all()
    assert (whole_product(a, -b) == 255 * 255 * k).all()
    a, b = np.full((2, k + 1), 255, np.float32), np.full((1, k + 1), -255, np.float32)
    np.testing.assert_allclose(whole_product(a, b), -255.0 * 255 * (k + 1), rtol=1e-4)


@pytest.mark.parametrize("threads", (1, 2))
def test_rows_of_other_numbers_among_whole_ones(threads):
    dice = np.random.default_rng(1)
    for a_row, b_row in ((3, None), (None, 5), (69, 199)):
        a, b = (dice.integers(-90, 90, (n, 100)).astype(np.float32) for n in (70, 200))
        if a_row is not None:
            a[a_row] = dice.standard_normal(100)
        if b_row is not None:
            b[b_row, 0] = 300
        wanted = b.astype(np.float64) @ a.astype(np.float64).T
        np.testing.assert_allclose(whole_product(a, b, threads), wanted, rtol=1e-5, atol=0.02)
    a[0, 0] = np.nan
    got = whole_product(a, b, threads)
    assert np.isnan(got[:, 0]).all() and np.isfinite(got[:, 1:]).all()


def small_bytes(dice, n, k, spread):
    """Rows of bytes most of which are small, as those of quantised weights are; a few rows have the largest bytes."""
    a = np.clip(np.round(dice.standard_normal((n, k)) * spread), -128, 127).astype(np.int8)
    a[3], a[5], a[n // 2], a[-1] = 127, -128, dice.integers(-128, 128, k), np.where(np.arange(k) % 3, 127, -128)
    return a


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("k, n, m", [(67, 333, 61), (301, 130, 50), (640, 70, 24), (1027, 33, 45)])
def test_small_bytes_are_multiplied_exactly(k, n, m, threads):
    """Some instruction sets add products of small bytes in 16 bits, and multiply what is too large for that apart."""
    dice = np.random.default_rng(k)
    for spread in (5, 22, 30):
        a = small_bytes(dice, n, k, spread)
        for low, high in ((-128, 127), (-255, 0), (-20, 43), (0, 255), (0, 1), (0, 0)):
            b = dice.integers(low, high + 1, (m, k)).astype(np.float32)
            b[0], b[-1] = low, high  # 0 may be far from all elements of a row
            for offset in (0, -9):
                wanted = b.astype(np.int64) @ (a.astype(np.int64) + offset).T
                np.testing.assert_array_equal(product(a, b, offset, threads), wanted.astype(np.float32))


@pytest.mark.parametrize("threads", (1, 2))
def test_small_whole_numbers_and_others(threads):
    """Matrices of one product that differ in range, in size and in whether they hold whole numbers."""
    dice = np.random.default_rng(threads)
    a = np.stack([small_bytes(dice, 150, 130, spread) for spread in (4, 25, 15)]).astype(np.float32)
    a[1] += 100
    a[1:] = np.clip(a[1:], -120, 127)
    b = np.stack([dice.integers(-x, x + 1, (90, 130)) for x in (127, 3, 60)]).astype(np.float32)
    wanted = b.astype(np.int64) @ a.astype(np.int64).swapaxes(-1, -2)
    np.testing.assert_array_equal(whole_product(a, b, threads), wanted.astype(np.float32))
    a[2, 20, 5], b[0, 7, 0] = 0.5, 1000
    wanted = b.astype(np.float64) @ a.astype(np.float64).swapaxes(-1, -2)
    got = whole_product(a, b, threads)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=0.05)
    np.testing.assert_array_equal(got[1, :, :16], wanted[1, :, :16])  # not the rows that lie beside the other number


@pytest.mark.parametrize("order", ((0, 1), (1, 0), (0, 1, 0, 1)))
def test_matrices_of_small_and_large_bytes_share_rows(order):
    """Threads may make the codes of the same rows in two ways."""
    dice = np.random.default_rng(3)
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    b = dice.integers(-100, 156, (203, 200)).astype(np.float32)
    matrices = small_bytes(dice, 170, 200, 6), bytes_of(dice, 170, 200)
    x, graph, results = from_numpy(b, ctx), ggml.ggml_new_graph(ctx), []
    for i in order:
        y = ggml.ext.mul_mat_i8(ctx, from_numpy(matrices[i], ctx), x, 0)
        results.append((y, b.astype(np.int64) @ matrices[i].astype(np.int64).T))
        ggml.ggml_build_forward_expand(graph, y)
    for threads in (2, 1, 2):
        assert ggml.ggml_graph_compute_with_ctx(ctx, graph, threads) == ggml.GGML_STATUS_SUCCESS
        for y, wanted in results:
            np.testing.assert_array_equal(to_numpy(y), wanted.astype(np.float32))
    ggml.ggml_free(ctx)


def test_products_of_the_same_rows_share_their_codes():
    """Threads make the codes of b once for products that follow one another, with matrices of either kind."""
    dice = np.random.default_rng(2)
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    b = dice.integers(-100, 156, (300, 120)).astype(np.float32)
    x, graph, results = from_numpy(b, ctx), ggml.ggml_new_graph(ctx), []
    for offset in (0, 7, None, "floats", 3):
        a = dice.integers(-128, 128, (200, 120))
        if offset is None or offset == "floats":
            product = ggml.ggml_mul_mat if offset else ggml.ext.mul_mat_whole
            y = product(ctx, from_numpy(a.astype(np.float32), ctx), x)
        else:
            y = ggml.ext.mul_mat_i8(ctx, from_numpy(a.astype(np.int8), ctx), x, offset)
            a = a + offset
        results.append((y, b.astype(np.int64) @ a.T))
        ggml.ggml_build_forward_expand(graph, y)
    for _ in range(3):
        assert ggml.ggml_graph_compute_with_ctx(ctx, graph, 2) == ggml.GGML_STATUS_SUCCESS
        for y, wanted in results:
            np.testing.assert_array_equal(to_numpy(y), wanted.astype(np.float32))
    ggml.ggml_free(ctx)


def test_no_elements():
    assert not product(np.zeros((3, 0), np.int8), np.zeros((2, 0), np.float32)).any()
    assert not whole_product(np.zeros((3, 0), np.float32), np.zeros((2, 0), np.float32)).any()


@pytest.mark.parametrize("channels", [610, 611])  # four times the sums fit into 32 bits; not any more
def test_the_largest_sums_of_convolutions(channels):
    w, x = np.full((20, channels, 3, 3), -128, np.int8), np.full((1, channels, 12, 15), 255, np.float32)
    got = convolution(w, x, (1, 1, 0, 0, 1, 1), -255)
    assert (got == np.float32(-383 * 255 * 9 * channels)).all()
    w[::2], x[:, ::3, ::2] = 127, 0
    np.testing.assert_array_equal(
        convolution(w, x, (1, 1, 1, 1, 1, 1), -255, 2),
        np.float32(sums(w.astype(np.int64) - 255, x, (1, 1, 1, 1, 1, 1))),
    )


def test_no_input_channels():
    got = convolution(np.zeros((2, 0, 3, 3), np.int8), np.zeros((1, 0, 8, 8), np.float32), (1, 1, 0, 0, 1, 1), 3)
    assert got.shape == (1, 2, 6, 6) and not got.any()


def test_mistakes():
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    a = from_numpy(np.zeros((2, 3), np.int8), ctx)
    b = from_numpy(np.zeros((4, 3), np.float32), ctx)
    with pytest.raises(ValueError, match=r"^ggml\.ext\.mul_mat_i8: offset is 256"):
        ggml.ext.mul_mat_i8(ctx, a, b, 256)
    with pytest.raises(ValueError, match=r"^ggml\.ext\.mul_mat_whole: a is .*i8"):
        ggml.ext.mul_mat_whole(ctx, a, b)
    with pytest.raises(ValueError, match="contiguous rows"):
        ggml.ggml_mul_mat(ctx, ggml.ggml_transpose(ctx, from_numpy(np.zeros((3, 2), np.int8), ctx)), b)
    ggml.ggml_free(ctx)


def convolution(kernel, x, places, offset=0, threads=1, channels_first=False, **tail):
    """The values of ggml.ext.conv_2d; places: s0, s1, p0, p1, d0, d1; channels_first: how the kernel is stored."""
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    tail = {k: from_numpy(v, ctx) if isinstance(v, np.ndarray) else v for k, v in tail.items()}
    w = from_numpy(kernel, ctx)
    if channels_first:
        w = ggml.ggml_permute(ctx, from_numpy(np.ascontiguousarray(kernel.transpose(0, 2, 3, 1)), ctx), 2, 0, 1, 3)
    y = ggml.ext.conv_2d(ctx, w, from_numpy(x, ctx), *places, offset=offset, **tail)
    graph = ggml.ggml_new_graph(ctx)
    ggml.ggml_build_forward_expand(graph, y)
    assert ggml.ggml_graph_compute_with_ctx(ctx, graph, threads) == ggml.GGML_STATUS_SUCCESS
    result = np.array(to_numpy(y)).reshape(y.contents.ne[3::-1])
    ggml.ggml_free(ctx)
    return result


def sums(kernel, x, places):
    """The same in float64, tap by tap."""
    s0, s1, p0, p1, d0, d1 = places
    (n, _, h, w), (m, _, kh, kw) = x.shape, kernel.shape
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (p1, p1), (p0, p0)])
    height, width = (
        (size + 2 * p - d * (k - 1) - 1) // s + 1 for size, p, d, k, s in ((h, p1, d1, kh, s1), (w, p0, d0, kw, s0))
    )
    y = np.zeros((n, m, height, width))
    for i in range(kh):
        for j in range(kw):
            part = x[:, :, i * d1 :, j * d0 :][:, :, : (height - 1) * s1 + 1 : s1, : (width - 1) * s0 + 1 : s0]
            y += np.einsum("nchw,mc->nmhw", part, kernel[:, :, i, j].astype(np.float64))
    return y


CONVOLUTIONS = [  # kernel, data, places
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 0, 0, 1, 1)),
    ((13, 4, 3, 3), (1, 4, 40, 37), (1, 1, 1, 1, 1, 1)),
    ((14, 5, 3, 3), (2, 5, 9, 11), (2, 2, 1, 1, 1, 1)),
    ((30, 24, 1, 1), (1, 24, 7, 33), (1, 1, 0, 0, 1, 1)),
    ((3, 6, 1, 1), (2, 6, 9, 12), (2, 3, 0, 0, 1, 1)),
    ((5, 3, 2, 5), (1, 3, 12, 70), (3, 1, 2, 0, 2, 3)),
    ((2, 2, 2, 2), (1, 2, 12, 12), (1, 1, 9, 9, 20, 20)),
    ((7, 130, 3, 4), (3, 130, 5, 6), (4, 2, 3, 2, 1, 2)),
    ((8, 23, 3, 3), (1, 23, 70, 90), (1, 1, 1, 1, 1, 1)),  # several strips
    ((50, 32, 3, 3), (2, 32, 13, 21), (1, 1, 1, 1, 1, 1)),  # by F(2x2, 3x3) where an ISA has pairs of 16 bits
    ((29, 65, 3, 3), (1, 65, 30, 40), (1, 1, 0, 2, 1, 1)),
]


@pytest.mark.parametrize("kernel, data, places", CONVOLUTIONS)
def test_whole_numbers_are_convolved_exactly(kernel, data, places):
    dice = np.random.default_rng(kernel[0])
    w = dice.integers(-128, 128, kernel).astype(np.int8)
    for low in (0, -128, -255):
        x = dice.integers(low, low + 256, data).astype(np.float32)
        for offset in (0, 20, -255):
            wanted = sums(w.astype(np.int64) + offset, x, places)
            for threads in (1, 2):
                for first in (False, True):
                    got = convolution(w, x, places, offset, threads, first)
                    np.testing.assert_array_equal(got, wanted.astype(np.float32))
    half = x.astype(np.float16)
    np.testing.assert_array_equal(convolution(w, half, places, -255), wanted.astype(np.float32))
    bias = dice.integers(-9, 9, kernel[0]).astype(np.float32)
    full = np.maximum(wanted + bias[:, None, None], 0)
    got = convolution(w, x, places, -255, bias=bias, function=ggml.GGML_UNARY_OP_RELU)
    np.testing.assert_allclose(got, full, rtol=2e-7)  # the sums and those with the bias are rounded


LARGE = [  # kernel, data, places
    ((33, 64, 3, 3), (1, 64, 15, 17), (2, 2, 1, 1, 1, 1)),
    ((130, 50, 1, 1), (2, 50, 13, 9), (1, 1, 0, 0, 1, 1)),
    ((130, 300, 1, 1), (2, 300, 13, 9), (1, 1, 0, 0, 1, 1)),
    ((17, 3, 7, 7), (1, 3, 61, 70), (2, 2, 3, 3, 1, 1)),
    ((17, 3, 9, 9), (1, 3, 61, 70), (2, 2, 4, 4, 1, 1)),  # an odd number of words, a channel that does not exist
    ((95, 101, 3, 3), (1, 101, 7, 7), (1, 1, 1, 1, 1, 1)),  # a kernel larger than the data
    ((9, 18, 5, 2), (1, 18, 40, 33), (1, 3, 0, 2, 2, 1)),
    ((19, 30, 5, 2), (1, 30, 40, 33), (1, 3, 0, 2, 2, 1)),
]


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("kernel, data, places", LARGE)
def test_small_bytes_are_convolved_exactly(kernel, data, places, threads):
    """Some instruction sets add products of small bytes in 16 bits, and add what is too large for that apart."""
    dice = np.random.default_rng(kernel[1])
    for spread in (5, 22, 30, 60):
        w = small_bytes(dice, kernel[0], int(np.prod(kernel[1:])), spread).reshape(kernel)
        for low, high in ((0, 255), (-128, 127), (-255, 0), (-20, 43), (0, 0)):
            x = dice.integers(low, high + 1, data).astype(np.float32)
            x[:, :, ::3, 1::2] = high  # and 0 around it
            got = convolution(w, x, places, 0, threads, channels_first=True)
            np.testing.assert_array_equal(got, sums(w.astype(np.int64), x, places).astype(np.float32))
    bias = dice.integers(-9, 9, kernel[0]).astype(np.float32)
    got = convolution(w, x + 1, places, 0, threads, bias=bias, function=ggml.GGML_UNARY_OP_RELU)
    full = np.maximum(sums(w.astype(np.int64), x + 1, places) + bias[:, None, None], 0)
    np.testing.assert_array_equal(got, full.astype(np.float32))


@pytest.mark.parametrize("kernel, data, places", CONVOLUTIONS)
def test_other_numbers_are_convolved_as_floats(kernel, data, places):
    dice = np.random.default_rng(kernel[0])
    w = dice.integers(-128, 128, kernel).astype(np.int8)
    for x in (dice.standard_normal(data), dice.integers(0, 300, data) - 1.0 * (np.arange(data[3]) == 0) * 200):
        x = x.astype(np.float32)
        wanted = sums(w.astype(np.int64) + 7, x, places)
        np.testing.assert_allclose(convolution(w, x, places, 7, 2), wanted, rtol=1e-5, atol=1e-6 * abs(wanted).max())
    x[:] = np.nan
    assert np.isnan(convolution(w, x, places)).any()


def test_mistakes_of_convolutions():
    ctx = ggml.ggml_init(ggml.ggml_init_params(mem_size=0))
    w, x = from_numpy(np.zeros((2, 3, 2, 2), np.int8), ctx), from_numpy(np.zeros((1, 3, 4, 4), np.float32), ctx)
    with pytest.raises(ValueError, match=r"^ggml\.ext\.conv_2d: offset is -256"):
        ggml.ext.conv_2d(ctx, w, x, 1, 1, 0, 0, 1, 1, offset=-256)
    with pytest.raises(ValueError, match="a is i8"):
        ggml.ggml_conv_2d_dw_direct(ctx, w, x, 1, 1, 0, 0, 1, 1)
    ggml.ggml_set_param(x)
    loss = ggml.ggml_sum(ctx, ggml.ggml_conv_2d_direct(ctx, w, x, 1, 1, 0, 0, 1, 1))
    ggml.ggml_set_loss(loss)
    graph = ggml.ggml_new_graph_custom(ctx, 64, True)
    ggml.ggml_build_forward_expand(graph, loss)
    with pytest.raises(ValueError, match="has no gradient"):
        ggml.ggml_build_backward_expand(ctx, graph, None)
    ggml.ggml_free(ctx)
