"""Winograd's F(2x2, 3x3), F(4x4, 3x3), F(4, 3) and F(4, 5): convolutions of another way of computing."""

import numpy as np
import pytest
from cases import Random
from cases.conv import PLAIN, correlate
from cases.harness import ISAS, context, convolved, gradients, isa, load, tensor

import ggml

# width, height, channels of the input and the output, images, padding
IMAGES = [(24, 24, 32, 32, 1, 1), (25, 23, 20, 50, 2, 0), (70, 9, 33, 30, 1, 2), (20, 40, 17, 49, 3, 1),
          (12, 12, 130, 64, 2, 1), (330, 11, 66, 30, 1, 1), (14, 14, 130, 75, 1, 1),
          (27, 28, 50, 64, 1, 1), (10, 10, 130, 150, 1, 1), (9, 17, 75, 70, 1, 2)]  # fmt: skip
STRIDED = [(64, 64, 64, 64, 1, 1), (47, 66, 77, 54, 2, 0), (81, 34, 58, 85, 1, 2), (31, 79, 56, 84, 3, 0)]


@pytest.mark.core
@pytest.mark.parametrize(("squares", "stride", "image"), [
    *[(squares, 1, image) for squares in (2, 4) for image in IMAGES], *[(2, 2, image) for image in STRIDED],
    (4, 1, (9, 40, 17, 49, 3, 1)),
])  # fmt: skip
@pytest.mark.parametrize("name", ISAS)
def test_winograd_is_a_convolution(name, squares, stride, image):
    width, height, channels, out, images, padding = image
    with isa(name), context() as ctx:
        r, places = Random(width), (stride, stride, padding, padding, 1, 1)
        kernel, data, shift = r(3, 3, channels, out), r(width, height, channels, images), r(out, 1, 1, 1)
        w, x, bias = (tensor(ctx, v, "F32") for v in (kernel, data, shift))
        want = correlate(kernel, data, [stride] * 2, [padding] * 2, [1, 1])
        found = convolved(ctx, w, x, places, 1, squares)
        assert np.abs(found - want).max() <= 3e-6 * np.abs(want).max()
        assert (found != convolved(ctx, w, x, places, 1, 0)).any()  # another way of computing it
        for threads in (2, 3, 5):
            np.testing.assert_array_equal(convolved(ctx, w, x, places, threads, squares), found)
        want = np.maximum(want + shift.reshape(out, 1, 1), 0)
        found = convolved(ctx, w, x, places, 2, squares, bias, ggml.GGML_UNARY_OP_RELU)
        assert np.abs(found - want).max() <= 3e-6 * np.abs(want).max()


# width, height, channels of the input and the output, images, padding, dilation along y
DILATED = [(64, 47, 32, 48, 1, (1, 1), 2), (33, 40, 41, 50, 2, (0, 3), 3), (50, 61, 60, 60, 1, (1, 7), 5)]


@pytest.mark.parametrize("squares", [2, 4])
@pytest.mark.parametrize("image", DILATED)
@pytest.mark.parametrize("name", ISAS)
def test_winograd_with_a_dilation_along_y(name, image, squares):
    width, height, channels, out, images, padding, dilation = image
    with isa(name), context() as ctx:
        r, places = Random(width), (1, 1, *padding, 1, dilation)
        kernel, data, shift = r(3, 3, channels, out), r(width, height, channels, images), r(out, 1, 1, 1)
        data[0, 3, height // 2, 5] = 1000  # one strip is computed by sums of all products
        w, x, bias = (tensor(ctx, v, "F32") for v in (kernel, data, shift))
        want = np.maximum(correlate(kernel, data, [1, 1], padding, [1, dilation]) + shift.reshape(out, 1, 1), 0)
        tail = bias, ggml.GGML_UNARY_OP_RELU
        found = convolved(ctx, w, x, places, 1, squares, *tail)
        largest = np.abs(correlate(kernel, np.minimum(data, 10), [1, 1], padding, [1, dilation])).max()
        assert (np.abs(found - want) <= 3e-6 * np.maximum(largest, np.abs(want))).all()
        assert (found != convolved(ctx, w, x, places, 1, 0, *tail)).any()  # another way of computing it
        for threads in (2, 3, 5):
            np.testing.assert_array_equal(convolved(ctx, w, x, places, threads, squares, *tail), found)


# width, height, channels of the input and the output, images, taps, padding, dilation
LINES = [(508, 1, 64, 64, 1, (5, 1), (0, 0), (1, 1)), (300, 4, 70, 61, 2, (3, 1), (1, 0), (1, 1)),
         (61, 9, 49, 54, 1, (5, 1), (3, 0), (1, 1)), (1500, 1, 300, 26, 1, (5, 1), (2, 0), (1, 1)),
         (262, 5, 210, 80, 1, (3, 1), (1, 0), (1, 1)), (61, 45, 48, 50, 1, (5, 5), (2, 2), (1, 1)),
         (61, 45, 40, 50, 2, (5, 5), (6, 6), (3, 3)), (1400, 7, 70, 33, 1, (5, 3), (2, 1), (1, 1)),
         (63, 23, 40, 44, 1, (3, 3), (4, 5), (4, 4)), (48, 22, 64, 44, 1, (3, 3), (12, 6), (12, 6)),
         (41, 20, 37, 42, 2, (5, 2), (3, 0), (2, 5)), (250, 2, 100, 110, 1, (3, 1), (4, 0), (4, 1)),
         (70, 9, 64, 64, 1, (5, 7), (2, 3), (1, 1)), (64, 14, 220, 60, 1, (3, 5), (1, 2), (1, 1)),
         (12, 24, 118, 150, 1, (5, 1), (0, 0), (1, 1)), (16, 20, 61, 130, 1, (3, 2), (1, 0), (1, 1))]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", ISAS)
def test_winograd_along_one_axis(name, line):
    width, height, channels, out, images, taps, padding, dilation = line
    with isa(name), context() as ctx:
        r, places = Random(width), (1, 1, *padding, *dilation)
        kernel, data, shift = r(*taps, channels, out), r(width, height, channels, images), r(out, 1, 1, 1)
        w, x, bias = (tensor(ctx, v, "F32") for v in (kernel, data, shift))
        assert ggml.ext.conv_algorithm(ggml.ext.conv_2d(ctx, w, x, *places, winograd=4)) == "winograd_line"
        want = correlate(kernel, data, [1, 1], padding, dilation)
        found = convolved(ctx, w, x, places, 1, 4)
        assert np.abs(found - want).max() <= 4e-6 * np.abs(want).max()
        assert (found != convolved(ctx, w, x, places, 1, 0)).any()  # another way of computing it
        for threads in (2, 3, 5):
            np.testing.assert_array_equal(convolved(ctx, w, x, places, threads, 4), found)
        want = np.maximum(want + shift.reshape(out, 1, 1), 0)
        found = convolved(ctx, w, x, places, 2, 4, bias, ggml.GGML_UNARY_OP_RELU)
        assert np.abs(found - want).max() <= 4e-6 * np.abs(want).max()
        columns = ggml.ggml_permute(ctx, tensor(ctx, np.swapaxes(data, 2, 3), "F16"), 1, 0, 2, 3)
        half = tensor(ctx, kernel, "F16")
        want = correlate(load(half), load(columns), [1, 1], padding, dilation)
        found = convolved(ctx, half, columns, places, 2, 4)
        assert np.abs(found - want).max() <= 4e-6 * np.abs(want).max()


@pytest.mark.parametrize(("taps", "dilation"), [((3, 1), 1), ((5, 1), 1), ((5, 5), 1), ((3, 3), 2), ((5, 5), 2)])
@pytest.mark.parametrize("name", ISAS)
def test_winograd_along_one_axis_with_infinities(name, taps, dilation):
    with isa(name), context() as ctx:
        r = Random(4)
        kernel, data = r(*taps, 70, 60), r(150, 24, 70, 2)
        data[1, 5, 1, 100], data[0, 3, 0, 139], kernel[20, 5, 0, 1] = np.inf, np.nan, -np.inf
        w, x, places = tensor(ctx, kernel, "F32"), tensor(ctx, data, "F32"), (1, 1, 1, 0, dilation, dilation)
        assert ggml.ext.conv_algorithm(ggml.ext.conv_2d(ctx, w, x, *places, winograd=4)) == "winograd_line"
        want = convolved(ctx, w, x, places, 1, 0)
        for threads in (1, 3):
            found = convolved(ctx, w, x, places, threads, 4)
            finite = np.isfinite(want)
            np.testing.assert_array_equal(np.where(finite, 0, found), np.where(finite, 0, want))
            assert np.abs(found[finite] - want[finite]).max() <= 4e-6 * np.abs(want[finite]).max()


# squares, stride, width and height of the image, channels of the input and the output, taps, padding, dilation
UNEVEN = [(2, 1, (24, 24), 32, 32, (3, 3), (1, 1), 1), (4, 1, (24, 24), 32, 32, (3, 3), (1, 1), 1),
          (4, 1, (14, 14), 130, 50, (3, 3), (1, 1), 1), (2, 2, (64, 64), 64, 64, (3, 3), (1, 1), 1),
          (4, 1, (61, 9), 49, 54, (5, 1), (2, 0), 1), (4, 1, (262, 5), 210, 80, (3, 1), (1, 0), 1),
          (4, 1, (61, 45), 40, 50, (5, 5), (6, 6), 3), (4, 1, (64, 23), 40, 44, (3, 3), (4, 4), 4)]  # fmt: skip


@pytest.mark.parametrize("value", [1e3, 1e6])
@pytest.mark.parametrize("case", range(len(UNEVEN)))
@pytest.mark.parametrize("name", ISAS)
def test_a_large_pixel_changes_no_results_that_do_not_read_it(name, case, value):
    squares, stride, (width, height), channels, out, taps, padding, dilation = UNEVEN[case]
    with isa(name), context() as ctx:
        r, places = Random(case), (stride, stride, *padding, dilation, dilation)
        kernel = r(*taps, channels, out)
        w = tensor(ctx, kernel, "F32")
        for x, y in ((0, 0), (width // 2, height // 2), (width - 1, height - 2)):
            data = r(width, height, channels, 2)
            data[1, 7, y, x] = value
            image = tensor(ctx, data, "F32")
            reads = correlate(np.ones((1, 1, *kernel.shape[2:])), (np.abs(data) == abs(value)).any(1, keepdims=True),
                              [stride] * 2, padding, [dilation] * 2) > 0  # fmt: skip
            reads = np.broadcast_to(reads, (2, out, *reads.shape[2:]))
            node = ggml.ext.conv_2d(ctx, w, image, *places, winograd=squares)
            assert ggml.ext.conv_algorithm(node).startswith("winograd")
            want = correlate(kernel, data, [stride] * 2, padding, [dilation] * 2)
            found = convolved(ctx, w, image, places, 2, squares)
            for part in (reads, ~reads):
                assert np.abs(found - want)[part].max() <= 4e-6 * np.abs(want[part]).max()
            np.testing.assert_array_equal(convolved(ctx, w, image, places, 1, squares), found)


@pytest.mark.parametrize("squares", [2, 4])
def test_sparse_images_are_even(squares):
    """Winograd's algorithms compute them: the data of hidden layers, of which most are 0, and images on black."""
    with context() as ctx:
        r = Random(4)
        kernel, sparse, black = r(3, 3, 32, 32), r(24, 24, 32, 1), r(24, 24, 32, 1)
        sparse[r.ints(10, 24, 24, 32, 1) > 0] = 0
        black[:, :, :12], black[:, :, :, 9:] = 0, 0
        w = tensor(ctx, kernel, "F32")
        for data in (sparse, black):
            x = tensor(ctx, data, "F32")
            assert (convolved(ctx, w, x, PLAIN, 2, squares) != convolved(ctx, w, x, PLAIN, 2, 0)).any()


def test_larger_squares_are_another_way_of_computing():
    with context() as ctx:
        r = Random(9)
        w, x = tensor(ctx, r(3, 3, 32, 32), "F32"), tensor(ctx, r(24, 24, 32, 1), "F32")
        by = {squares: convolved(ctx, w, x, PLAIN, 2, squares) for squares in (0, 2, 4)}
        assert (by[4] != by[2]).any() and (by[4] != by[0]).any() and (by[2] != by[0]).any()
        np.testing.assert_array_equal(convolved(ctx, w, x, PLAIN, 2), by[2])
        for squares in (-1, 1, 3, 6):
            with pytest.raises(ValueError, match=rf"^ggml\.ext\.conv_2d: winograd is {squares}: need 0, 2 or 4"):
                ggml.ext.conv_2d(ctx, w, x, *PLAIN, winograd=squares)


@pytest.mark.parametrize(("squares", "stride"), [(2, 1), (4, 1), (2, 2)])
@pytest.mark.parametrize("name", ISAS)
def test_winograd_with_other_types_and_layouts(name, squares, stride):
    with isa(name), context() as ctx:
        r, n, c, places = Random(3), 40 * stride - 16, 32 * stride, (stride, stride, 1, 1, 1, 1)
        kernel, data = r(3, 3, c, c), r(n, n, c, 1)
        w, x = tensor(ctx, kernel, "F32"), tensor(ctx, data, "F32")
        halves = [tensor(ctx, v, kind) for kind in ("F16", "BF16") for v in (kernel, data)]
        rows = ggml.ggml_permute(ctx, tensor(ctx, r(n, c, n, 1), "F32"), 0, 2, 1, 3)
        columns = ggml.ggml_permute(ctx, tensor(ctx, r(n, n, c, 1), "F32"), 1, 0, 2, 3)
        for a, b in ((w, halves[1]), (w, halves[3]), (halves[0], x), (halves[2], halves[3]), (w, rows), (w, columns)):
            found = convolved(ctx, a, b, places, 2, squares)
            want = correlate(load(a), load(b), [stride] * 2, [1, 1], [1, 1])
            assert np.abs(found - want).max() <= 3e-6 * np.abs(want).max()
            assert (found != convolved(ctx, a, b, places, 2, 0)).any()


def test_other_convolutions_are_sums_of_all_products():
    with context() as ctx:
        r = Random(3)
        x, w, wide = (tensor(ctx, v, "F32") for v in (r(24, 24, 32, 1), r(3, 3, 32, 32), r(7, 7, 32, 32)))
        line = tensor(ctx, r(5, 1, 32, 32), "F32")
        others = ((w, (3, 3, 1, 1, 1, 1)), (w, (2, 1, 1, 1, 1, 1)), (w, (1, 1, 9, 9, 9, 9)), (wide, PLAIN),
                  (line, (2, 1, 0, 0, 1, 1)), (line, (1, 2, 0, 0, 1, 1)))  # fmt: skip
        for kernel, places in others:
            np.testing.assert_array_equal(
                convolved(ctx, kernel, x, places, 2, 4), convolved(ctx, kernel, x, places, 2, 0))  # fmt: skip


@pytest.mark.parametrize("stride", [1, 2])
def test_small_whole_numbers_are_convolved_exactly(stride):
    with context() as ctx:
        r, n, c = Random(6), 40 * stride - 16, 32 * stride
        kernel, data = r.ints(15, 3, 3, c, c) - 7.0, r.ints(255, n, n, c, 1) * 1.0
        w, x = tensor(ctx, kernel, "F32"), tensor(ctx, data, "F32")
        found = convolved(ctx, w, x, (stride, stride, 1, 1, 1, 1), 2)
        np.testing.assert_array_equal(found, correlate(kernel, data, [stride] * 2, [1, 1], [1, 1]))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("where", ["data", "kernel"])
@pytest.mark.parametrize(("squares", "stride", "n"), [(2, 1, 24), (4, 1, 24), (4, 1, 14), (2, 2, 64)])
@pytest.mark.parametrize("name", ISAS)
def test_winograd_with_infinities(name, squares, stride, n, where, value):
    """An infinity reaches those positions whose windows see it, and no others of their square."""
    with isa(name), context() as ctx:
        r, c, places = Random(4), 32 * stride, (stride, stride, 1, 1, 1, 1)
        kernel, data = r(3, 3, c, 60), r(n, n, c, 2)
        (data if where == "data" else kernel)[1, 5, 2, 1] = value  # its image or output channel, channel, row, column
        w, x = tensor(ctx, kernel, "F32"), tensor(ctx, data, "F32")
        want = convolved(ctx, w, x, places, 1, 0)
        found = convolved(ctx, w, x, places, 1, squares)
        assert not np.isfinite(want).all()
        np.testing.assert_array_equal(np.where(np.isfinite(found), 0, found), np.where(np.isfinite(want), 0, want))
        finite = np.isfinite(want)
        assert np.abs(found[finite] - want[finite]).max() <= 3e-6 * np.abs(want[finite]).max()
        across = ggml.ggml_permute(ctx, tensor(ctx, kernel.transpose(0, 2, 3, 1), "F32"), 2, 0, 1, 3)
        for threads, a in ((2, w), (3, w), (2, across)):
            np.testing.assert_array_equal(convolved(ctx, a, x, places, threads, squares), found)


def test_gradients_with_winograd():
    with context() as ctx:
        r = Random(5)
        w, x = tensor(ctx, r(3, 3, 16, 16), "F32"), tensor(ctx, r(24, 24, 16, 1), "F32")
        ggml.ggml_set_param(w), ggml.ggml_set_param(x)
        ways = []
        for winograd in (0, 2, 4):
            out = ggml.ext.conv_2d(ctx, w, x, *PLAIN, None, None, 0, winograd)
            ways.append([(note, grads) for note, grads in gradients(ctx, out, [w, x], [1, 2])])
        for way in ways[1:]:
            for (note, want), (_, found) in zip(ways[0], way):
                for one, other in zip(found, want):
                    np.testing.assert_array_equal(one, other, note)
