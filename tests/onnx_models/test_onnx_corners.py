"""Operators with attributes, types and sizes that few models have, against the formulas of the specification."""

import math

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper  # noqa: E402
from small_onnx import model, one  # noqa: E402

import ggml.onnx  # noqa: E402

INT64 = np.iinfo(np.int64)


def floats(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


# Boxes

BOXES = np.array([[0, 0, 7, 6], [1.3, 2.2, 4.9, 3.1], [-3, -4, 2.5, 3], [5, 5, 12, 11], [3, 3, 3.2, 3.1]], np.float32)
IMAGES = np.array([0, 1, 1, 0, 1])


def between(plane, y, x, greatest):
    """An element between four others, or the greatest of their weighted values; 0 outside of the plane."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    rows = (top, 1 - (y - top)), (min(top + 1, height - 1), y - top)
    columns = (left, 1 - (x - left)), (min(left + 1, width - 1), x - left)
    parts = [plane[r, c] * v * w for r, v in rows for c, w in columns]
    return max(parts) if greatest else sum(parts)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_roi_align_of_other_floats(dtype, mode):
    """Each sample of a box as large as its bins is one element."""
    x, boxes = floats(2, 3, 8, 9).astype(dtype), np.array([[2, 3, 4, 6], [-99, 0, -90, 4]], dtype)
    attrs = {"output_height": 3, "output_width": 2, "sampling_ratio": 1, "mode": mode}
    found = one("RoiAlign", x, boxes, np.array([-1, 0]), opset=16, **attrs)
    weighted = np.where(x[1, :, 3:6, 2:4] < 0, 0, x[1, :, 3:6, 2:4]) if mode == "max" else x[1, :, 3:6, 2:4]
    assert found.dtype == dtype and not found[1].any()
    np.testing.assert_array_equal(found[0], weighted)


def test_boxes_in_images_that_are_not_there():
    x, boxes = floats(2, 3, 8, 9), floats(2, 4)
    with pytest.raises(RuntimeError, match="a box is in image 2 of 2"):
        one("RoiAlign", x, boxes, np.array([0, 2]))
    with pytest.raises(RuntimeError, match=r"need \[n, 4\], \[n\]"):
        one("RoiAlign", x, boxes, np.array([0]))
    infinite = one("RoiAlign", x, np.full((1, 4), np.nan, np.float32), np.array([0]), output_height=2, output_width=2)
    assert infinite.shape == (1, 3, 2, 2)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 1, 3])
@pytest.mark.parametrize(("opset", "given"), [(10, None), (16, None), (16, "output_half_pixel"), (22, "half_pixel")])
def test_roi_align(opset, given, ratio, mode):
    x, size, scale = floats(2, 3, 8, 9), (2, 3), 0.75
    half = opset > 10 and given != "output_half_pixel"
    attrs = {"output_height": size[0], "output_width": size[1], "sampling_ratio": ratio, "spatial_scale": scale}
    attrs |= {"coordinate_transformation_mode": given} if given else {}
    want = np.zeros((len(BOXES), 3, *size))
    for i, box in enumerate(BOXES.astype(float) * scale - half / 2):
        extent = [box[3 - k] - box[1 - k] if half else max(box[3 - k] - box[1 - k], 1) for k in range(2)]
        counts = [ratio or math.ceil(e / n) for e, n in zip(extent, size)]
        for c, row, column in np.ndindex(3, *size):
            values = [
                between(
                    x[IMAGES[i], c],
                    box[1] + (row + (p + 0.5) / counts[0]) * extent[0] / size[0],
                    box[0] + (column + (q + 0.5) / counts[1]) * extent[1] / size[1],
                    mode == "max",
                )
                for p, q in np.ndindex(*counts)
            ]
            want[i, c, row, column] = max(values) if mode == "max" else sum(values) / len(values)
    np.testing.assert_allclose(one("RoiAlign", x, BOXES, IMAGES, opset=opset, mode=mode, **attrs), want, atol=1e-5)


def test_roi_align_of_no_boxes():
    found = one("RoiAlign", floats(1, 3, 5, 5), BOXES[:0], IMAGES[:0], opset=16, output_height=2, output_width=4)
    assert found.shape == (0, 3, 2, 4)


def test_max_roi_pool():
    x, size = floats(2, 3, 8, 9), (2, 3)
    found = one("MaxRoiPool", x, np.column_stack([IMAGES, BOXES]).astype(np.float32), opset=1, pooled_shape=size)
    for i, box in enumerate(np.floor(BOXES + np.float32(0.5)).astype(int)):
        extent = [max(box[3 - k] - box[1 - k] + 1, 1) for k in range(2)]
        for row, column in np.ndindex(*size):
            ranges = [
                slice(*np.clip([box[1 - k] + k0 * e // n, box[1 - k] - (-(k0 + 1) * e // n)], 0, x.shape[2 + k]))
                for k, (k0, e, n) in enumerate(zip((row, column), extent, size))
            ]
            part = x[(IMAGES[i], slice(None), *ranges)]
            want = part.max((1, 2)) if part.size else np.zeros(3)
            np.testing.assert_array_equal(found[i, :, row, column], want)


# Sizes


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint64, np.int8])
def test_elements_by_a_smaller_index(dtype):
    x, index = np.arange(24).reshape(2, 3, 4).astype(dtype), np.array([[[0, -1]], [[3, 1]]])
    np.testing.assert_array_equal(one("GatherElements", x, index, axis=2), np.array([[[0, 3]], [[15, 13]]], dtype))
    assert one("GatherElements", x, index[:0], axis=2).shape == (0, 1, 2)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("shape", "index"),
    [
        ((5,), (3,)),  # blocks of one matrix of the index
        ((30, 4, 5), (30, 2, 5)),  # of several
        ((4, 30), (70, 30)),  # of several rows
        ((4, 256), (7, 256)),  # of one
        ((3, 4, 600), (2, 5, 600)),  # of parts of a row
        ((70000, 2), (70000, 3)),
        ((3, 1, 2, 1, 2), (2, 1, 2, 1, 1)),
    ],
)
def test_elements_by_a_computed_index(shape, index, threads):
    rng, x = np.random.default_rng(4), floats(*shape)
    for axis, n in enumerate(shape):
        if any(i > k for a, (i, k) in enumerate(zip(index, shape)) if a != axis):
            continue
        places = rng.integers(-n, n, index)
        node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=axis)
        loaded = ggml.onnx.load(model([node], {"x": x, "i": places}), threads=threads, strict=True)
        along = list(np.ogrid[tuple(map(slice, index))])
        along[axis] = places
        np.testing.assert_array_equal(loaded.run(x, places)[0], x[tuple(along)])
        for wrong in (n, -n - 1):
            places.flat[places.size // 2] = wrong
            with pytest.raises(RuntimeError, match="does not exist"):
                loaded.run(x, places)


def test_elements_by_an_index_of_other_sizes():
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=-2)
    loaded = ggml.onnx.load(model([node], {"x": [], "i": []}), strict=True)
    for n in (3, 8, 5, 1, 300, 7):
        x, places = floats(2, n, n + 1), np.random.default_rng(n).integers(-n, n, (2, 4, n))
        np.testing.assert_array_equal(loaded.run(x, places)[0], np.take_along_axis(x[..., :n], places, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint16])
def test_slices_of_which_several_are_empty(dtype):
    x = np.arange(42).reshape(7, 3, 2).astype(dtype)
    for ends, shape in (([0, 0, 0], (0, 0, 0)), ([0, 2, -9], (0, 2, 0))):
        constants = {"starts": np.zeros(3, np.int64), "ends": np.array(ends), "axes": np.array([0, 1, 2])}
        assert one("Slice", x, constants=constants).shape == shape


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint16])
def test_slices_from_before_the_start(dtype):
    """A start is limited to the first element, also for steps backwards."""
    x = np.arange(3).astype(dtype)
    constants = {"starts": np.array([-9]), "ends": np.array([-9]), "axes": np.array([0]), "steps": np.array([-1])}
    np.testing.assert_array_equal(one("Slice", x, constants=constants), x[:1])


def test_tiles_of_no_repeats():
    assert one("Tile", floats(1, 2, 3, 4), constants={"repeats": np.array([2, 1, 3, 0])}).shape == (2, 2, 9, 0)


def test_resized_to_nothing():
    assert one("Resize", floats(1, 2, 2, 4), None, constants={"s": np.float32([1, 1, 0.4, 2])}).shape == (1, 2, 0, 8)


def test_one_row_of_a_crop():
    """Of one element, the middle of the span of the region is taken."""
    x, region = np.arange(5, dtype=np.float32).reshape(1, 1, 5), np.float32([0, 0, 0.25, 1, 1, 0.75])
    attrs = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    found = one("Resize", x, constants={"r": region, "none": np.float32([]), "s": np.array([1, 1, 1])}, **attrs)
    np.testing.assert_allclose(found, [[[2]]])


@pytest.mark.parametrize("opset", [1, 11, 13])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_of_nothing(op, opset):
    assert one(op, floats(2, 0, 3), opset=opset, axis=1).shape == (2, 0, 3)


@pytest.mark.parametrize("group", [1, 2])
def test_transposed_convolution_of_no_images(group):
    """As after a detector that found nothing."""
    attrs = {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2], "group": group}
    w = floats(4, 3, 3, 2)
    want = one("ConvTranspose", floats(1, 4, 5, 6), constants={"w": w}, **attrs).shape
    assert one("ConvTranspose", floats(0, 4, 5, 6), constants={"w": w}, **attrs).shape == (0, *want[1:])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
def test_codes_of_constants_beyond_all_codes(kind):
    x, span = np.float32([np.inf, -np.inf, 1e30, -1e30, 3e9, 0.25, 1.25, -0.75]), np.iinfo(kind)
    zero = kind(3)
    whole = np.clip(np.rint(np.clip(x.astype(float) / 0.5, -1e9, 1e9)) + 3, span.min, span.max)
    for constants in ([("x", x)], []):
        operands = () if constants else (x,)
        found = one("QuantizeLinear", *operands, constants=[*constants, ("s", np.float32(0.5)), ("z", zero)])
        np.testing.assert_array_equal(found, whole.astype(kind))


def test_masked_doubles_have_no_weight():
    x = np.array([[-np.inf, 0, 0, -800], [3, -np.inf, 1, -np.inf]])
    want = np.exp(x - x.max(1, keepdims=True))
    want[0, 3] = 0
    np.testing.assert_allclose(one("Softmax", x), want / want.sum(1, keepdims=True), 1e-14, 0)


def test_a_shape_of_two_dimensions():
    with pytest.raises(Exception, match=r"^Model\.run: .*ConstantOfShape.*the operand has the shape \[3, 4\]"):
        one("ConstantOfShape", np.full((3, 4), 30))


@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_of_strided_operands(ratio):
    x, images = floats(2, 3, 8, 9), np.array([0, 1, 1, 0])
    boxes = np.float32([[1, 1, 6, 5], [0, 2, 8, 7], [3, 3, 4, 4], [2, 0, 7, 3]])
    attrs = {"output_height": 2, "output_width": 3, "sampling_ratio": ratio}
    strided = np.asfortranarray(x), np.asfortranarray(boxes), np.repeat(images, 2)[::2]
    found, want = (one("RoiAlign", *operands, opset=16, **attrs) for operands in (strided, (x, boxes, images)))
    np.testing.assert_array_equal(found, want)


def test_transposed_convolution_that_leaves_more_out_than_there_is():
    """What the output padding adds is behind what the padding takes away."""
    x, w = floats(1, 2, 1), floats(2, 3, 1)
    found = one("ConvTranspose", x, w, strides=[3], pads=[2, 0], output_padding=[2])
    whole = np.concatenate([np.einsum("ncx,cmk->nmx", x.astype(float), w.astype(float)), np.zeros((1, 3, 2))], 2)
    np.testing.assert_allclose(found, whole[:, :, 2:], 1e-6)


def test_maximum_of_no_images():
    assert one("GlobalMaxPool", floats(0, 4, 5, 6)).shape == (0, 4, 1, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_pads_that_crop(dtype):
    x = np.arange(1, 13).reshape(3, 4).astype(dtype)
    for pads, want in (
        ([-1, 1, 2, -2], np.pad(x[1:, :2], [(0, 2), (1, 0)])),
        ([1, 0, -3, 0], np.zeros((1, 4))),
        ([-3, -1, 4, -1], np.zeros((4, 2))),  # nothing of x is left, whichever axes are cropped
        ([3, 0, -5, 0], np.zeros((1, 4))),
        ([-5, 2, 6, -6], np.zeros((4, 0))),
        ([4, 0, -4, 0], np.zeros((3, 4))),
    ):
        np.testing.assert_array_equal(one("Pad", x, constants={"pads": np.array(pads)}), want.astype(dtype))
        given = {"pads": np.array(pads), "v": np.array(5, dtype)}
        found = one("Pad", x, constants=given)
        np.testing.assert_array_equal(found, np.where(want.astype(dtype) == 0, dtype(5), want.astype(dtype)))
    with pytest.raises(ggml.onnx.NodeError, match="9 of 3 entries are left out"):
        one("Pad", x, constants={"pads": np.array([-9, 0, 0, 0])})
    found = one("Pad", x, constants={"pads": np.array([0, -1, 1, 2])}, mode="edge")
    np.testing.assert_array_equal(found, np.pad(x[:, 1:], [(0, 1), (0, 2)], "edge"))


# Types


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64])
def test_distinct_elements(dtype, ordered, axis):
    x = np.array([[2, 1, 2, 2], [0, 0, 0, 0], [2, 1, 2, 2]]).astype(dtype)
    attrs = {} if axis is None else {"axis": axis}
    y, first, place, counts = one("Unique", x, outputs=4, sorted=ordered, **attrs)
    parts = [tuple(np.ravel(v)) for v in (x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0))]
    distinct = sorted(set(parts)) if ordered else list(dict.fromkeys(parts))
    np.testing.assert_array_equal(first, [parts.index(v) for v in distinct])
    np.testing.assert_array_equal(place, [distinct.index(v) for v in parts])
    np.testing.assert_array_equal(counts, [parts.count(v) for v in distinct])
    np.testing.assert_array_equal(y, x.reshape(-1)[first] if axis is None else x.take(first, axis))


REDUCTIONS = {
    "ReduceLogSum": lambda x, axes: np.log(x.sum(axes)),
    "ReduceLogSumExp": lambda x, axes: np.log(np.exp(x).sum(axes)),
    "ReduceSumSquare": lambda x, axes: np.square(x).sum(axes),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions(op, dtype):
    x = np.arange(1, 25).reshape(2, 3, 4).astype(dtype)
    for axes in ((0,), (1, -1)):
        want, found = REDUCTIONS[op](x.astype(float), axes), one(op, x, constants={"axes": np.array(axes)}, keepdims=0)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, want.astype(dtype), rtol=1e-6)
    found = one(op, x, noop_with_empty_axes=1)  # each element is a sum of its own
    np.testing.assert_allclose(found, REDUCTIONS[op](x.astype(float), ()).astype(dtype), rtol=1e-6)


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_extremes_of_one_number(op):
    for x in (np.array(INT64.max), np.array(-2.5, np.float32)):
        assert one(op, x) == x
    x = floats(2, 3)
    np.testing.assert_array_equal(one(op, x, noop_with_empty_axes=1), x)


def test_places_of_fractions():
    """An index of floats is converted to integers first, toward zero."""
    found = one("OneHot", np.float32([-1.9, -0.5, 0.9, 1.99, 2.5]), np.array(2), np.array([7, 8]))
    np.testing.assert_array_equal(found, [[7, 8], [8, 7], [8, 7], [7, 8], [7, 7]])


# Functions


def test_area_hyperbolic_cosine():
    x = np.float32([-30, -1.5, -0.5, 0.99, 1, 1.0001, 2, 1e30])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(one("Acosh", x), np.arccosh(x.astype(float)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (7,)])
@pytest.mark.parametrize("alpha", [1.0, 2.5, -0.5])
def test_continuously_differentiable_unit(alpha, shape):
    x = np.resize(np.float32([-1.5, -0.25, 0, 0.5, 2, 30, -30]), shape)
    with np.errstate(over="ignore"):
        want = np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x.astype(float) / alpha))
    found = one("Celu", x, alpha=alpha)
    assert found.shape == shape
    np.testing.assert_allclose(found, want.astype(np.float32), rtol=1e-5)


def test_powers_of_all_pairs_of_special_numbers():
    x = np.float32([0, -0.0, 0.5, -0.5, 1, -1, 2, -2, 3, np.inf, -np.inf, np.nan])[:, None]
    y = np.float32([0, 0.5, -0.5, 1, -1, 2, 3, -3, 1.5, 1e10, 16777215, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        want = np.power(x.astype(float), y.astype(float)).astype(np.float32)
    found = one("Pow", x, y)
    np.testing.assert_array_equal(found, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(want[number]))


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.int64, np.float16])
def test_powers_by_exponents_of_other_types(kind):
    x, y = np.float32([0.3, 1.7, 2, 9]), np.array([3, -2, 10, 1], kind)
    np.testing.assert_allclose(one("Pow", x, y), x.astype(float) ** y.astype(float), rtol=1.2e-7)
    wide = one("Pow", x.astype(np.float16), y)
    assert wide.dtype == np.float16
    np.testing.assert_array_equal(wide, (x.astype(np.float16).astype(float) ** y.astype(float)).astype(np.float16))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 12])
@pytest.mark.parametrize("shape", [(2, 7, 3, 5), (1, 6, 4), (3, 5, 2, 3, 4)])
def test_local_responses(shape, size):
    """NaN reaches the channels whose windows hold it, no others."""
    x = floats(*shape) * 3
    x[0, 1].flat[0], x[0, 4].flat[1] = np.nan, np.inf
    before, after = (size - 1) // 2, size // 2
    squares = np.square(x.astype(float))
    with np.errstate(invalid="ignore"):
        total = np.stack([squares[:, max(0, c - before) : c + after + 1].sum(1) for c in range(shape[1])], 1)
        want = x / (1.5 + 0.3 / size * total) ** 0.6
    found = one("LRN", x, size=size, alpha=0.3, beta=0.6, bias=1.5)
    np.testing.assert_allclose(found, want.astype(np.float32), rtol=1e-6)


def test_normalised_by_mean_and_variance():
    x = floats(2, 3, 4, 5) * 1e-3 + 30
    for axes in (None, [0], [1, 3]):
        chosen, wide = tuple(axes or (0, 2, 3)), x.astype(float)
        want = (wide - wide.mean(chosen, keepdims=True)) / (wide.std(chosen, keepdims=True) + 1e-9)
        found = one("MeanVarianceNormalization", x, opset=13, **({"axes": axes} if axes else {}))
        np.testing.assert_allclose(found, want, atol=2e-2)


# Control flow and sequences

WIDE = [np.float64, np.int64, np.float32]  # integers that no float holds


def value(name, dtype):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", WIDE)
def test_scans(dtype, axis, backwards):
    total = helper.make_node("Add", ["sum", "part"], ["next"]), helper.make_node("Identity", ["next"], ["step"])
    body = helper.make_graph(total, "body", *[[value(n, dtype) for n in names] for names in
                                              (("sum", "part"), ("next", "step"))])  # fmt: skip
    attrs = {"scan_input_axes": [axis], "scan_output_axes": [axis]}
    attrs |= {"scan_input_directions": [backwards], "scan_output_directions": [backwards]}
    node = helper.make_node("Scan", ["first", "x"], ["last", "y"], body=body, num_scan_inputs=1, **attrs)
    first, x = np.array([1, 2], dtype), (np.arange(12).reshape(6, 2) * 2**40 + 1).astype(dtype)
    order = slice(None, None, -1 if backwards else 1)
    sums = first + np.cumsum(x[order], 0, dtype)
    feeds = {"first": first, "x": np.ascontiguousarray(x if axis == 0 else x.T)}
    last, y = ggml.onnx.load(model([node], feeds, ("last", "y"))).run(feeds)
    np.testing.assert_array_equal(last, sums[-1])
    np.testing.assert_array_equal(y if axis == 0 else y.T, sums[order])


@pytest.mark.parametrize("dtype", WIDE)
def test_each_element_of_a_sequence_of_the_model(dtype):
    body = helper.make_graph([helper.make_node("Neg", ["e"], ["n"])], "body", [value("e", dtype)], [value("n", dtype)])
    nodes = [
        helper.make_node("SequenceConstruct", ["a", "b"], ["s"]),
        helper.make_node("SequenceMap", ["s"], ["t"], body=body),
        helper.make_node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    feeds = {"a": np.arange(4).reshape(2, 2).astype(dtype), "b": np.full((1, 2), 7, dtype)}
    (y,) = ggml.onnx.load(model(nodes, feeds)).run(feeds)
    np.testing.assert_array_equal(y, -np.concatenate(list(feeds.values())))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_bodies_of_sequences_read_what_is_outside(n):
    """The body of SequenceMap captures a tensor and a constant, and reads a second sequence and a tensor."""
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["e", "outer"], ["m"]),
            helper.make_node("Add", ["m", "f"], ["p"]),
            helper.make_node("Sub", ["p", "t"], ["q"]),
            helper.make_node("Gather", ["q", "first"], ["r"]),
        ],
        "body",
        [value(name, np.float32) for name in "eft"],
        [value(name, np.float32) for name in "qr"],
    )
    parts = [f"x{i}" for i in range(n)]
    nodes = [
        helper.make_node("Relu", ["scale"], ["outer"]),
        helper.make_node("SequenceConstruct", parts, ["s"]) if n else helper.make_node("SequenceEmpty", [], ["s"]),
        helper.make_node("SequenceMap", ["s", "s", "scale"], ["whole", "firsts"], body=body),
        helper.make_node("SequenceLength", ["firsts"], ["length"]),
    ]
    outputs = ["length"]
    if n:
        nodes.append(helper.make_node("ConcatFromSequence", ["whole"], ["y"], axis=0))
        nodes.append(helper.make_node("ConcatFromSequence", ["firsts"], ["z"], axis=0, new_axis=1))
        outputs += ["y", "z"]
    feeds = {"scale": np.float32([3]), **{name: floats(i + 1) for i, name in enumerate(parts)}}
    loaded = ggml.onnx.load(model(nodes, feeds, outputs, constants={"first": np.array(0)}))
    for _ in range(3):
        found = loaded.run(feeds)
        assert found[0] == n
        if n:
            want = [feeds[name] * 3 + feeds[name] - 3 for name in parts]
            np.testing.assert_allclose(found[1], np.concatenate(want), rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(found[2], [w[0] for w in want], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("within", ["then_branch", "else_branch"])
def test_names_of_branches_are_their_own(within):
    """A branch in a function reads an operand whose name outside is the one of its own result."""
    result = [value("X", np.float32)]
    inner = {
        "then_branch": helper.make_graph([helper.make_node("Neg", ["x"], ["X"])], "then", [], result),
        "else_branch": helper.make_graph([helper.make_node("Abs", ["x"], ["X"])], "else", [], result),
    }
    opsets = [helper.make_opsetid("", 21)]
    body = [helper.make_node("If", ["c"], ["z"], **inner)]
    function = helper.make_function("own", "choose", ["c", "x"], ["z"], body, opsets)
    nodes = [
        helper.make_node("Relu", ["input"], ["X"]),
        helper.make_node("choose", ["c", "X"], ["y"], domain="own"),
    ]
    feeds = {"input": np.float32([-1, 2]), "c": np.array(within == "then_branch")}
    (y,) = ggml.onnx.load(model(nodes, feeds, domains=[("own", 1)], functions=[function])).run(feeds)
    np.testing.assert_array_equal(y, [0, -2] if within == "then_branch" else [0, 2])


# Convolutions


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(("dilation", "pads", "stride"), [
    (6, (6, 6), 1), (4, (9, 4), 1), (1, (1, 1), 2), (3, (0, 7), 2)])  # fmt: skip
def test_taps_that_read_padding_alone(dilation, pads, stride, groups):
    """Sizes of an axis for which some taps of large dilations never meet the image, one after the other."""
    w, bias = floats(4, 4 // groups, 3, 3), floats(4)
    attrs = {"dilations": [dilation, 1], "pads": [pads[0], 1, pads[1], 1], "strides": [stride, 1], "group": groups}
    node, x = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attrs), floats(2, 4, 1, 1)
    proto = model([node], {"x": x}, constants={"w": w, "b": bias})
    for i, name in enumerate("nchw"):
        proto.graph.input[0].type.tensor_type.shape.dim[i].dim_param = name
    loaded = ggml.onnx.load(proto)
    for high, wide in [(7, 4), (1, 1), (13, 5), (3, 4), (4, 4), (7, 4), (20, 3), (3, 4)]:
        if high + sum(pads) < 2 * dilation + 1:
            continue
        x = floats(2, 4, high, wide)
        padded = np.pad(x, [(0, 0), (0, 0), pads, (1, 1)]).astype(float)
        rows = range(0, padded.shape[2] - 2 * dilation, stride)
        want = np.empty((2, 4, len(rows), wide))
        for m in range(4):
            part = slice(m // (4 // groups) * (4 // groups), (m // (4 // groups) + 1) * (4 // groups))
            for i, row in enumerate(rows):
                for column in range(wide):
                    seen = padded[:, part, row : row + 2 * dilation + 1 : dilation, column : column + 3]
                    want[:, m, i, column] = (seen * w[m]).sum((1, 2, 3)) + bias[m]
        np.testing.assert_allclose(loaded.run(x)[0], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (3, 2), (7, 0)])
@pytest.mark.parametrize(
    ("kernel", "stride"), [(4, 2), (3, 2), (2, 2), (16, 8), (2, 5), (3, 1), (7, 4), (5, 3), (21, 16)]
)
@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("rank", [1, 2])
def test_transposed_convolutions_with_constant_weights(rank, extra, kernel, stride, pads, groups):
    """Every entry adds its multiple of the kernel to the result, of which the padding is left out."""
    extra *= stride - 1
    attrs = {"strides": [stride] * rank, "group": groups, "output_padding": [extra] * rank}
    attrs["pads"] = [p for p in pads for _ in range(rank)]
    w, bias = floats(4, 2, *[kernel] * rank), floats(2 * groups)
    node, per = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attrs), 4 // groups
    for n in (3, 5):
        x = floats(2, 4, *[n] * rank)
        whole = np.zeros((2, 2 * groups, *[(n - 1) * stride + kernel + extra] * rank))
        for c in range(4):
            part = slice(c // per * 2, c // per * 2 + 2)
            for place in np.ndindex(*[n] * rank):
                to = (slice(None), part, *(slice(p * stride, p * stride + kernel) for p in place))
                whole[to] += x[(slice(None), c, *place)].reshape(-1, 1, *[1] * rank) * w[c]
        end = whole.shape[-1] - pads[1]
        if end <= pads[0]:
            continue
        want = whole[(..., *[slice(pads[0], end)] * rank)] + bias.reshape(-1, *[1] * rank)
        (found,) = ggml.onnx.load(model([node], {"x": x}, constants={"w": w, "b": bias})).run(x)
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


# Functions

FLOATS = np.array([10.0**e for e in range(-38, 39)] + [88.8, 89.3, 0.9999, 1 - 2**-24, 1 + 2**-23, 1.0004], np.float32)
MATHS = {
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "Selu": lambda x: np.float32(1.0507009) * np.where(x > 0, x, np.float64(np.float32(1.6732632)) * np.expm1(x)),
}


@pytest.mark.parametrize("name", MATHS)
def test_functions_of_small_and_large_numbers(name):
    special = [0, 1, -1, 0.5, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38]
    x = np.concatenate([FLOATS, -FLOATS, np.float32(special), floats(500) * 3])
    with np.errstate(all="ignore"):
        wanted = MATHS[name](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(one(name, x), wanted, rtol=4e-7, atol=0)


@pytest.mark.parametrize("n", [-1, *range(1, 18)])
def test_whole_powers(n):
    x = np.concatenate([floats(300) * 4, np.float32([0, 1, -1, np.inf, -np.inf, np.nan])])
    with np.errstate(all="ignore"):
        wanted = (x.astype(np.float64) ** n).astype(np.float32)
    y = one("Pow", x, constants=[("n", np.float32(n))])
    rounding = 2.0**-24  # of each product; squares double the error that they have
    np.testing.assert_allclose(y, wanted, rtol=(n if 2 < n < 5 else 2) * rounding, atol=0)
    if n > 0:
        whole = np.arange(-3, 4)
        np.testing.assert_array_equal(one("Pow", whole, constants=[("n", np.int64(n))]), whole**n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 3, 1), (1, 2, 3, 1, 2), (1, 1, 1, 1)])
@pytest.mark.parametrize("corners", [0, 1])
def test_grids_of_matrices(size, dtype, corners):
    images, _, *extents = size
    theta = floats(images, len(extents), len(extents) + 1).astype(dtype)
    wanted = np.empty((images, *extents, len(extents)))
    for place in np.ndindex(*extents):
        point = [
            (2 * i / (n - 1) - 1 if n > 1 else 0) if corners else (2 * i + 1) / n - 1 for i, n in zip(place, extents)
        ]
        wanted[(slice(None), *place)] = theta.astype(np.float64) @ [*point[::-1], 1]
    error = 1e-2 if dtype == np.float16 else 1e-6
    for y in (
        one("AffineGrid", theta, np.array(size), align_corners=corners),
        one("AffineGrid", theta, constants=[("size", np.array(size))], align_corners=corners),
    ):
        assert y.dtype == dtype
        np.testing.assert_allclose(y, wanted, rtol=error, atol=error)


def test_softsign_of_one_float64():
    y = one("Softsign", np.array(-2.0))
    assert y.dtype == np.float64 and y.shape == ()
    assert y == -2 / 3


@pytest.mark.parametrize("name", ["Asinh", "Acosh", "Atanh"])
def test_area_functions_of_halves(name):
    x = np.concatenate([np.float16([0, 1, -1, 0.5, np.inf, -np.inf, 65504, 3e4]), floats(100).astype(np.float16)])
    with np.errstate(all="ignore"):
        wanted = MATHS[name](x.astype(np.float64)).astype(np.float16)
    np.testing.assert_allclose(one(name, x), wanted, rtol=2e-3, atol=0)


@pytest.mark.parametrize("attrs", [{}, {"min": -1.0}, {"max": 1.5}])
def test_limits_that_old_models_omit(attrs):
    """The attributes of Clip default to the outermost floats; the operands of its newer form to no limit."""
    x, most = np.float32([-np.inf, -3, 0, 2, np.inf, np.nan]), np.finfo(np.float32).max
    wanted = np.clip(x, attrs.get("min", -most), attrs.get("max", most))
    np.testing.assert_array_equal(one("Clip", x, opset=6, **attrs), wanted)
    limits = [None if v is None else np.float32(v) for v in (attrs.get("min"), attrs.get("max"))]
    wanted = np.clip(x, attrs.get("min", -np.inf), attrs.get("max", np.inf))
    np.testing.assert_array_equal(one("Clip", x, *limits), wanted)


@pytest.mark.parametrize(("group", "offset_group"), [(1, 1), (2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("given", [2, 4])
def test_deformable_convolution(given, group, offset_group):
    """Each tap reads between four elements, at its own place plus an offset, times a factor; zeros are outside."""
    (stride, pads, dilation), kernel, outputs = ((2, 1), (1, 2, 0, 1), (1, 2)), (3, 2), 4
    x, w = floats(2, 4, 6, 7), floats(outputs, 4 // group, *kernel)
    size = [
        (n + pads[i] + pads[i + 2] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i, n in enumerate((6, 7))
    ]
    taps = offset_group * kernel[0] * kernel[1]
    offset, bias, mask = 2 * floats(2, 2 * taps, *size), floats(outputs), floats(2, taps, *size)
    attrs = {"strides": stride, "pads": pads, "dilations": dilation, "group": group, "offset_group": offset_group}
    y = one("DeformConv", *(x, w, offset, bias, mask)[: given + 1 if given > 2 else 3], opset=22, **attrs)
    wanted = np.zeros((2, outputs, *size))
    for n, o, row, column, c, i, j in np.ndindex(2, outputs, *size, 4 // group, *kernel):
        channel = o // (outputs // group) * (4 // group) + c
        tap = (channel // (4 // offset_group) * kernel[0] + i) * kernel[1] + j
        at = [
            place * stride[k] - pads[k] + t * dilation[k] + offset[n, 2 * tap + k, row, column]
            for k, (place, t) in enumerate(((row, i), (column, j)))
        ]
        corners = [(math.floor(at[0]) + a, math.floor(at[1]) + b) for a in (0, 1) for b in (0, 1)]
        value = sum(
            x[n, channel, r, s] * (1 - abs(at[0] - r)) * (1 - abs(at[1] - s))
            for r, s in corners
            if 0 <= r < 6 and 0 <= s < 7
        )
        wanted[n, o, row, column] += value * w[o, c, i, j] * (mask[n, tap, row, column] if given == 4 else 1)
    wanted += bias[:, None, None] if given == 4 else 0
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


def test_parts_of_texts():
    x = np.array([["a b  c", ""], ["b", " d-e"]], object)
    parts, counts = one("StringSplit", x, outputs=2)
    assert parts.tolist() == [[["a", "b", "c"], ["", "", ""]], [["b", "", ""], ["d-e", "", ""]]]
    assert counts.tolist() == [[3, 0], [1, 1]]
    parts, counts = one("StringSplit", np.array("d-e-f", object), outputs=2, delimiter="-", maxsplit=1)
    assert parts.tolist() == ["d", "e-f"] and counts == 2


@pytest.mark.parametrize(
    ("x", "op", "wanted"),
    [
        (np.array([1.5, -2.0]), "Abs", [1.5, 2.0]),
        (np.array([2**40, -3]), "Add", [2**41, -6]),
        (np.array([2**63], np.uint64), "Identity", [2**63]),
        (np.array(["a", "B"], object), "StringConcat", ["aa", "BB"]),
    ],
)
@pytest.mark.parametrize("behind", [False, True])
def test_functions_of_values_that_stay_on_the_host(x, op, wanted, behind):
    inputs = ["a", "a"] if op in ("Add", "StringConcat") else ["a"]
    body = [helper.make_node(op, inputs, ["b"])]
    function = helper.make_function("own", "f", ["a"], ["b"], body, [helper.make_opsetid("", 21)])
    nodes = [helper.make_node("f", ["z" if behind else "x"], ["y"], domain="own")]
    if behind:
        plain = {"case_change_action": "NONE"} if x.dtype == object else {}
        nodes.insert(0, helper.make_node("StringNormalizer" if plain else "Identity", ["x"], ["z"], **plain))
    loaded = ggml.onnx.load(model(nodes, {"x": x}, domains=[("own", 1)], functions=[function]))
    for _ in range(3):
        (y,) = loaded.run(x)
        assert y.dtype == x.dtype and y.tolist() == wanted


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize(
    ("image", "kernel"), [((1,), (1, 40, 3)), ((1, 1, 8), (1, 1, 3, 3)), ((1, 1, 8, 8), (1, 1, 3))]
)
def test_kernels_of_other_images(op, image, kernel):
    with pytest.raises((ValueError, RuntimeError), match=op):
        one(op, floats(*image), floats(*kernel))
