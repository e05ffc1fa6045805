"""Resize and Upsample of every version and mode, against the formulas of the specification, one element at a time."""

import math

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper  # noqa: E402
from small_onnx import model, one  # noqa: E402

import ggml.onnx  # noqa: E402

MODES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
         "tf_crop_and_resize"]  # fmt: skip
NEAREST = {"round_prefer_floor": lambda x: math.ceil(x - 0.5), "round_prefer_ceil": lambda x: math.floor(x + 0.5),
           "floor": math.floor, "ceil": math.ceil}  # fmt: skip


def original(mode, x, n, size, scale, start, end):
    """The coordinate on an axis of n entries of the resized one x."""
    return {
        "half_pixel": lambda: (x + 0.5) / scale - 0.5,
        "half_pixel_symmetric": lambda: n / 2 * (1 - size / (scale * n)) + (x + 0.5) / scale - 0.5,
        "pytorch_half_pixel": lambda: (x + 0.5) / scale - 0.5 if size > 1 else 0.0,
        "align_corners": lambda: x * (n - 1) / (scale * n - 1) if scale * n != 1 else 0.0,
        "asymmetric": lambda: x / scale,
        "tf_half_pixel_for_nn": lambda: (x + 0.5) / scale,
        "tf_crop_and_resize": lambda: (
            start * (n - 1) + x * (end - start) * (n - 1) / (size - 1) if size > 1 else 0.5 * (start + end) * (n - 1)
        ),
    }[mode]()


def cubic(d, a):
    """Keys' kernel."""
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def sample(
    row,
    x,
    scale,
    mode="nearest",
    nearest_mode="round_prefer_floor",
    antialias=0,
    exclude_outside=0,
    cubic_coeff_a=-0.75,
    **_,
):
    """The value of a row of numbers at a coordinate."""
    n = len(row)
    if mode == "nearest":
        return row[min(max(NEAREST[nearest_mode](x), 0), n - 1)]
    shrink = min(scale, 1.0) if antialias else 1.0
    far = math.ceil((1 if mode == "linear" else 2) / shrink) + 1
    total = weights = 0.0
    for i in range(math.floor(x) - far, math.floor(x) + far + 1):
        d = (i - x) * shrink
        w = max(0.0, 1 - abs(d)) if mode == "linear" else cubic(d, cubic_coeff_a)
        if not (exclude_outside and not 0 <= i < n):
            total, weights = total + w * row[min(max(i, 0), n - 1)], weights + w
    return total / weights


def resized(array, scales, sizes, roi, attrs):
    """The array resized along each axis in turn."""
    mode, y = attrs.get("coordinate_transformation_mode", "half_pixel"), array.astype(np.float64)
    outside = np.zeros(sizes, bool)
    for axis, (scale, size) in enumerate(zip(scales, sizes)):
        n, (start, end) = y.shape[axis], roi[axis]
        at = [original(mode, type(scale)(x), n, size, scale, start, end) for x in range(size)]
        if scale != 1 or mode == "tf_crop_and_resize":
            y = np.apply_along_axis(
                lambda row, at=at, scale=scale: np.array([sample(row, x, scale, **attrs) for x in at]), axis, y
            )
        if mode == "tf_crop_and_resize":
            beyond = [not 0 <= x <= n - 1 for x in at]
            outside |= np.array(beyond).reshape([-1 if a == axis else 1 for a in range(y.ndim)])
    return np.where(outside, attrs.get("extrapolation_value", 0.0), y)


def check(array, attrs, scales=None, sizes=None, roi=None, opset=19):
    """Compares Resize by scales, or by sizes, of all axes."""
    if sizes is None:
        sizes = [math.floor(n * s) for n, s in zip(array.shape, scales)]
        operands = [np.array(scales, np.float32)]
        scales = list(np.array(scales, np.float32))
        if attrs["mode"] != "nearest" or "crop" in attrs.get("coordinate_transformation_mode", ""):
            scales = [float(s) for s in scales]  # else coordinates are rounded to F32
    else:
        operands = [None, np.array(sizes)]
        scales = [s / n for n, s in zip(array.shape, sizes)]
    spans = [(0.0, 1.0)] * array.ndim if roi is None else roi
    given = None if roi is None else np.array([r[0] for r in roi] + [r[1] for r in roi], np.float32)
    found = one("Resize", array, given, *operands, opset=opset, **attrs)
    want = resized(array, scales, sizes, spans, attrs)
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-5)


def image(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


GROWTH = [(2.0, 3.0), (0.5, 0.6), (2.7, 0.8), (1.0, 0.4), (3.0, 1.0)]


@pytest.mark.parametrize("factors", GROWTH)
@pytest.mark.parametrize("mode", [*MODES, "tf_half_pixel_for_nn"])
@pytest.mark.parametrize("nearest_mode", NEAREST)
def test_nearest(nearest_mode, mode, factors):
    opset = 11 if mode == "tf_half_pixel_for_nn" else 19
    roi = [(0.0, 1.0), (0.0, 1.0), (0.1, 0.77), (-0.3, 1.13)] if mode == "tf_crop_and_resize" else None
    attrs = {"mode": "nearest", "nearest_mode": nearest_mode, "coordinate_transformation_mode": mode}
    if opset == 11 and roi is None:
        roi = [(0.0, 1.0)] * 4  # the operand is required there
    check(image(1, 2, 5, 7), attrs, scales=[1.0, 1.0, *factors], roi=roi, opset=opset)


@pytest.mark.parametrize("by", ["scales", "sizes"])
@pytest.mark.parametrize("factors", GROWTH)
@pytest.mark.parametrize("exclude_outside", [0, 1])
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_weighted_sums(kind, mode, antialias, exclude_outside, factors, by):
    attrs = {"mode": kind, "coordinate_transformation_mode": mode, "antialias": antialias,
             "exclude_outside": exclude_outside, "cubic_coeff_a": -0.5}  # fmt: skip
    x, roi = image(1, 2, 5, 7), None
    if mode == "tf_crop_and_resize":
        roi, attrs["extrapolation_value"] = [(0.0, 1.0), (0.0, 1.0), (0.2, 0.7), (0.0, 0.9)], 9.0
        attrs["exclude_outside"] = 0
    if by == "scales":
        check(x, attrs, scales=[1.0, 1.0, *factors], roi=roi)
    else:
        check(x, attrs, sizes=[1, 2, *(math.floor(n * f) for n, f in zip(x.shape[2:], factors))], roi=roi)


@pytest.mark.parametrize("kind", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("shape", [(7,), (3, 6), (2, 4, 5), (1, 2, 3, 4, 5)])
def test_other_ranks(shape, kind):
    check(image(*shape), {"mode": kind}, sizes=[max(1, 2 * n - 3) for n in shape])
    check(image(*shape), {"mode": kind}, sizes=[1] * len(shape))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("sizes", [(7, 8), (3, 3), (4, 20)])
@pytest.mark.parametrize("kind", ["nearest", "linear", "cubic"])
def test_kept_ratios(kind, sizes, policy):
    x = image(2, 3, 5, 7)
    pick = min if policy == "not_larger" else max
    scale = pick(s / n for s, n in zip(sizes, (5, 7)))
    size = [math.floor(scale * n + 0.5) for n in (5, 7)]
    found = one("Resize", x, None, None, np.array(sizes), mode=kind, axes=[2, 3], keep_aspect_ratio_policy=policy)
    want = resized(x, [1, 1, scale, scale], [2, 3, *size], [(0, 1)] * 4, {"mode": kind})
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("axes", [[2, 3], [3, 2], [-1], [1, 3]])
def test_axes(axes):
    x, factors = image(2, 3, 5, 7), [2.0, 0.7][: len(axes)]
    scales = [1.0] * 4
    for a, f in zip(axes, factors):
        scales[a] = float(np.float32(f))
    found = one("Resize", x, None, np.array(factors, np.float32), mode="linear", axes=axes)
    sizes = [math.floor(n * s) for n, s in zip(x.shape, scales)]
    np.testing.assert_allclose(found, resized(x, scales, sizes, [(0, 1)] * 4, {"mode": "linear"}), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("factors", [(2.0, 3.0), (1.0, 2.5), (1.6, 1.0)])
@pytest.mark.parametrize(("opset", "kind"), [(1, "nearest"), (1, "bilinear"), *(
    (n, kind) for n in (7, 9, 10) for kind in ("nearest", "linear"))])  # fmt: skip
def test_older_versions(opset, kind, factors):
    """Their coordinates are those of "asymmetric", rounded down."""
    x, scales = image(1, 2, 5, 7), [1.0, 1.0, *factors]
    given = {"constants": {"s": np.array(scales, np.float32)}} if opset > 7 else {}
    attrs = {1: {"height_scale": factors[0], "width_scale": factors[1]}, 7: {"scales": scales}}.get(opset, {})
    found = one("Resize" if opset == 10 else "Upsample", x, opset=opset, mode=kind, **attrs, **given)
    rule = {"mode": kind.removeprefix("bi"), "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    scales = np.array(scales, np.float32).astype(float).tolist()
    sizes = [math.floor(n * s) for n, s in zip(x.shape, scales)]
    np.testing.assert_allclose(found, resized(x, scales, sizes, [(0, 1)] * 4, rule), rtol=2e-5, atol=2e-5)


def test_images_after_one_without_a_result():
    """A width of 1 that is halved leaves nothing; the region, which is not used, has no elements either."""
    nodes = [
        helper.make_node(
            "Resize",
            ["x", "roi", "scales"],
            ["y"],
            mode="cubic",
            coordinate_transformation_mode="pytorch_half_pixel",
            exclude_outside=1,
        )
    ]
    constants = {"roi": np.zeros(0, np.float32), "scales": np.float32([1, 1, 1, 0.5])}
    made = model(nodes, {"x": np.zeros((1, 1, 5, 1), np.float32)}, constants=constants, opset=11)
    for dim in made.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_param = "n"
    loaded = ggml.onnx.load(made)
    for shape in ((1, 1, 5, 1), (2, 2, 5, 2), (2, 1, 3, 3)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        (y,) = loaded.run(x)
        assert y.shape == (*shape[:3], shape[3] // 2)
        np.testing.assert_array_equal(y, x[..., : y.shape[3]])  # one column lies at the first one


@pytest.mark.parametrize("n", [10, 20])
@pytest.mark.parametrize("tenths", [1, 2, 3, 7, 17, 26])
@pytest.mark.parametrize("kind", ["nearest", "linear"])
def test_scales_that_are_no_floats(kind, tenths, n):
    """A size and coordinates that are whole numbers for the scale that is meant, such as 0.7, and not for its F32."""
    x, size = image(2, 3, 4, n), n * tenths // 10
    attrs = {"mode": kind, "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    found = one("Resize", x, None, np.array([1, 1, 1, tenths / 10], np.float32), opset=19, **attrs)
    assert found.shape == (2, 3, 4, size)
    if kind == "nearest":
        np.testing.assert_array_equal(found, x[..., [10 * i // tenths for i in range(size)]])


@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("kind", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16])
def test_integers(dtype, kind, antialias):
    """Sums of entries are truncated, or rounded with antialiasing, and limited to what the type has."""
    span, scales = np.iinfo(dtype), [1.0, 1.0, 0.5, 2.3]
    x = np.random.default_rng(1).integers(span.min, span.max + 1, (2, 3, 6, 8)).astype(dtype)
    attrs = {"mode": kind, "antialias": antialias}
    found = one("Resize", x, None, np.array(scales, np.float32), opset=19, **attrs)
    want = resized(x, np.float32(scales).astype(float).tolist(), [2, 3, 3, 18], [(0, 1)] * 4, attrs)
    whole = np.floor(want + 0.5) if antialias else np.trunc(want)
    sure = np.abs(want - np.round(want) if not antialias else want - np.floor(want) - 0.5) > 0.01
    assert found.dtype == dtype and found.shape == want.shape and sure.mean() > 0.9
    np.testing.assert_array_equal(found[sure], np.clip(whole, span.min, span.max)[sure])


def test_regions_that_end_at_the_last_entry():
    """The end of a region of which F32 rounds the beginning is no entry outside."""
    x = image(1, 2, 6, 7)
    found = one("Resize", x, np.float32([0, 0, 0.2, 0.3, 1, 1, 1, 1]), None, np.array([1, 2, 4, 5]), mode="linear",
                coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=99.0)  # fmt: skip
    np.testing.assert_allclose(found[..., -1, -1], x[..., -1, -1], rtol=1e-6)
    assert (found < 9).all()
