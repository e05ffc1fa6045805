"""GridSample of planes, against the formulas of the specification, one axis after the other."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper  # noqa: E402
from small_onnx import model, one  # noqa: E402

import ggml.onnx  # noqa: E402

OUTSIDE = ["zeros", "border", "reflection"]


def matrix(at, n, mode, outside, corners):
    """The weights of the n entries of an axis for coordinates in [-1, 1]."""
    at = (at.astype(np.float64) + 1) / 2 * (n - 1) if corners else ((at.astype(np.float64) + 1) * n - 1) / 2
    low, span = (0.0, n - 1.0) if corners else (-0.5, float(n))
    if outside == "reflection":
        rest = np.abs(at - low) % (2 * span) if span else at * 0
        at = low + np.minimum(rest, 2 * span - rest)
    if outside != "zeros":
        at = at.clip(0, n - 1)
    weights = np.zeros((len(at), n))
    for row, x in zip(weights, at):
        first = int(np.rint(x) if mode == "nearest" else np.floor(x))
        for k, w in [(first, 1.0)] if mode == "nearest" else [(first, first + 1 - x), (first + 1, x - first)]:
            if 0 <= k < n:
                row[k] += w
    return weights


def sampled(x, grid, mode, outside, corners):
    """Planes at places of a grid."""
    points = grid.reshape(len(grid), -1, 2)
    parts = []
    for planes, place in zip(x.astype(np.float64), points):
        rows, columns = (matrix(place[:, 1 - a], planes.shape[1 + a], mode, outside, corners) for a in (0, 1))
        parts.append(np.einsum("chw,ph,pw->cp", planes, rows, columns, optimize=True))
    return np.stack(parts).reshape(*x.shape[:2], *grid.shape[1:-1])


def planes(rng, shape, grid):
    """Random planes, and a grid of which a part lies outside of them, or at their borders."""
    x, g = rng.standard_normal(shape, np.float32), rng.uniform(-1.4, 1.4, grid).astype(np.float32)
    g.reshape(-1)[::7] = 1
    return x, g


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("shape", "grid"),
    [
        ((2, 3, 7, 9), (2, 5, 6, 2)),
        ((1, 2, 1, 5), (1, 4, 3, 2)),
        ((2, 1, 6, 1), (2, 3, 3, 2)),
        ((1, 70, 5, 4), (1, 31, 33, 2)),
    ],
)
def test_planes_at_places(shape, grid, threads, mode, outside, corners):
    x, g = planes(np.random.default_rng(1), shape, grid)
    attrs = {"mode": mode, "padding_mode": outside, "align_corners": corners}
    node = helper.make_node("GridSample", ["x", "g"], ["y"], **attrs)
    found = ggml.onnx.load(model([node], {"x": x, "g": g}), threads=threads).run(x, g)[0]
    np.testing.assert_allclose(found, sampled(x, g, mode, outside, corners), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_planes_of_other_sizes(mode):
    rng, node = np.random.default_rng(2), helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode)
    loaded = ggml.onnx.load(model([node], {"x": [], "g": []}))
    for n in (3, 9, 6, 1, 17, 2):
        x, g = planes(rng, (2, n, n + 1, 2 * n), (2, n, 5, 2))
        np.testing.assert_allclose(loaded.run(x, g)[0], sampled(x, g, mode, "zeros", 0), rtol=1e-5, atol=2e-5)


def test_planes_of_half_precision_and_strided_operands():
    x, g = planes(np.random.default_rng(3), (2, 3, 7, 9), (2, 5, 6, 2))
    want = sampled(x, g, "linear", "zeros", 0)
    np.testing.assert_allclose(one("GridSample", np.asfortranarray(x), np.asfortranarray(g)), want, atol=1e-5)
    found = one("GridSample", x.astype(np.float16), g.astype(np.float16))
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, want, atol=0.05)


@pytest.mark.parametrize(("shape", "grid"), [((0, 2, 4, 4), (0, 3, 3, 2)), ((1, 0, 4, 4), (1, 3, 3, 2)),
                                             ((1, 2, 4, 4), (1, 0, 3, 2))])  # fmt: skip
def test_planes_at_no_places(shape, grid):
    x, g = np.ones(shape, np.float32), np.zeros(grid, np.float32)
    assert one("GridSample", x, g).shape == (*shape[:2], *grid[1:3])


@pytest.mark.parametrize("outside", OUTSIDE)
def test_places_that_are_not_finite(outside):
    """They read no memory outside of a plane; elements that weigh nothing may be infinite."""
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    x[0, 0, 0, 0] = np.inf
    g = np.array([[np.nan, 0], [0, np.nan], [np.inf, 1e30], [-1e30, 1], [0.25, 0]], np.float32)[None, None]
    found = one("GridSample", x, g, padding_mode=outside)[0, 0, 0]
    assert np.isnan(found[:2]).all() and found[4] == 6
    assert outside == "reflection" or found[2:4].tolist() == ([0, 0] if outside == "zeros" else [11, 8])
    assert one("GridSample", x, g, padding_mode=outside, mode="nearest")[0, 0, 0, 4] == 6
