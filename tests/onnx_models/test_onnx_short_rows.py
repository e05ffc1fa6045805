"""Many short rows: products with small matrices, and sums of each, with vectors of every size that the CPU has."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper  # noqa: E402
from small_onnx import model  # noqa: E402

import ggml.onnx  # noqa: E402
from ggml.onnx import thin  # noqa: E402

RNG = np.random.default_rng(0)


@pytest.fixture(params=[16, 32, 64])
def vectors(request):
    """Vectors of so many bytes."""
    if not thin.use_vectors(request.param):
        pytest.skip(f"this CPU has no vectors of {request.param} bytes")
    yield request.param
    thin.use_vectors(0)


def numbers(*shape, kind=np.float32):
    return RNG.standard_normal(shape).astype(kind)


def computed(nodes, x, constants=(), threads=1, opset=21):
    made = model(nodes, {"x": x}, constants=constants, opset=opset, domains=[("ai.onnx.ml", 1)])
    return ggml.onnx.load(made, threads=threads).run(x)[0]


def agrees(found, want, x):
    """Rows with infinite elements or NaN have results that are not finite, and no others do."""
    odd = ~np.isfinite(x).all(1)
    assert found.dtype == x.dtype and found.shape == want.shape
    np.testing.assert_array_equal(np.isnan(found[odd]), np.isnan(want[odd]))
    np.testing.assert_array_equal(np.isinf(found[odd]), np.isinf(want[odd]))
    tolerance = 2e-5 if x.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(found[~odd], want[~odd], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 3, 8, 17, 20, 32])
def test_products(vectors, kind, k):
    for n in (3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 31, 32):
        for rows in (256, 259, 521):
            x, w, bias = numbers(rows, k, kind=kind), numbers(k, n, kind=kind), numbers(n, kind=kind)
            x[5, -1], x[7, 0], x[rows - 1, -1] = np.inf, np.nan, -np.inf
            constants = {"w": w, "bias": bias}
            with np.errstate(invalid="ignore"):
                want = x.astype(np.float64) @ w
            found = computed([helper.make_node("MatMul", ["x", "w"], ["y"])], x, constants, 1 + n % 2)
            agrees(found, want, x)
            found = computed([helper.make_node("Gemm", ["x", "w", "bias"], ["y"])], x, constants, 1 + n % 2)
            agrees(found, want + bias, x)


@pytest.mark.parametrize("norm", ["L1", "L2"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 15, 16, 17, 20, 33, 48, 64])
def test_sums(vectors, norm, n):
    node = helper.make_node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm=norm)
    for rows in (256, 263, 517):
        x = numbers(rows, n)
        x[3], x[rows - 1, 0] = 0, np.nan
        sizes = np.abs(x).sum(1) if norm == "L1" else np.sqrt(np.square(x.astype(np.float64)).sum(1))
        found = computed([node], x, threads=1 + n % 2)
        agrees(found, x / np.where(sizes == 0, 1, sizes)[:, None], x)


def test_rows_alone_are_as_those_among_others(vectors):
    """The last rows, behind which nothing may be read, are summed in the same order."""
    node = helper.make_node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="L1")
    x = numbers(600, 20)
    whole = computed([node], x)
    for rows in (300, 301, 307, 311):
        np.testing.assert_array_equal(computed([node], x[:rows]), whole[:rows])


def test_sizes_that_no_cpu_has():
    assert not thin.use_vectors(24) and thin.use_vectors(16) and thin.use_vectors(0)
