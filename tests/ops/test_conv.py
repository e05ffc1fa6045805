"""What the generic tests of convolutions do not cover: operands without images, layouts, sizes beyond memory, and
gradients of gradients.
"""

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest
from cases import Random
from cases.conv import PLAIN, correlate, correlate_adjoint, correlate_each_channel
from cases.harness import (
    ISAS,
    close,
    compute,
    context,
    convolved,
    difference,
    gradients,
    graph_of,
    isa,
    load,
    shape,
    tensor,
)

import ggml
import ggml.utils

pytestmark = pytest.mark.core
ROOT = Path(__file__).resolve().parents[2]


def test_operands_without_images():
    with context() as ctx:
        r = Random(1)
        w, x = tensor(ctx, r(3, 3, 2, 4), "F32"), tensor(ctx, r(6, 5, 2, 0), "F32")
        for out in (
            ggml.ggml_conv_2d(ctx, w, x, *PLAIN),
            ggml.ggml_im2col(ctx, w, x, *PLAIN, True, 0),
            ggml.ggml_pool_2d(ctx, x, 0, 2, 2, 2, 2, 0, 0),
        ):
            compute(ctx, graph_of(ctx, out), 2)
            assert shape(out)[3] == 0


def test_conv_3d_without_channels():
    with context() as ctx:
        w, x = tensor(ctx, np.zeros((0, 1, 3, 3)), "F32"), tensor(ctx, Random(1)(6, 5, 2, 4), "F32")
        for out in (
            ggml.ggml_conv_3d(ctx, w, x, 2, *(1,) * 9),
            ggml.ggml_conv_3d_direct(ctx, w, x, *(1,) * 9, 2, 2, 0),
        ):
            compute(ctx, graph_of(ctx, out), 2)
            assert shape(out) == (6, 5, 4, 0)


def test_channels_last_stay_last():
    """Many images are stored as [c, w, h]. The result of the direct depthwise convolution has the same layout."""
    with context() as ctx:
        r = Random(2)
        w, x = r(3, 3, 1, 5), r(9, 7, 5, 2)
        inner = tensor(ctx, np.moveaxis(x, 1, -1), "F32")
        out = ggml.ggml_conv_2d_dw_direct(ctx, tensor(ctx, w, "F32"), ggml.ggml_permute(ctx, inner, 2, 0, 1, 3), *PLAIN)
        assert list(out.contents.nb[:4]) == [20, 180, 4, 1260]
        compute(ctx, graph_of(ctx, out), 2)
        close(load(out), correlate_each_channel(w, x, [1, 1], [1, 1], [1, 1]), 1e-5)


@pytest.mark.parametrize("huge", [1 << 40, (1 << 62) - 1])
def test_sizes_beyond_memory(huge):
    with context(no_alloc=True) as ctx:
        f32 = ggml.GGML_TYPE_F32
        row = ggml.ggml_new_tensor_4d(ctx, f32, huge >> 24, 1, 1, 1)
        kernel = ggml.ggml_new_tensor_4d(ctx, f32, 3, 1, 1, 1 << 30)
        with pytest.raises(ValueError):
            ggml.ggml_conv_2d(ctx, kernel, row, 1, 1, 1 << 30, 1 << 30, 1, 1)
        with pytest.raises(ValueError):
            ggml.ggml_conv_transpose_1d(
                ctx, ggml.ggml_new_tensor_4d(ctx, f32, 3, 1 << 30, 1, 1), row, (1 << 31) - 1, 0, 1
            )
        with pytest.raises(ValueError):
            ggml.ggml_im2col(
                ctx,
                ggml.ggml_new_tensor_4d(ctx, f32, 1 << 20, 1, 1 << 20, 0),
                ggml.ggml_new_tensor_4d(ctx, f32, 1 << 30, 1, 1 << 20, 0),
                1,
                0,
                1 << 30,
                0,
                1,
                0,
                False,
                f32,
            )


def test_a_kernel_that_changed_its_size_is_refused_at_compute():
    with context() as ctx:
        r = Random(3)
        w = tensor(ctx, r(3, 3, 2, 4), "F32")
        out = ggml.ggml_conv_2d(ctx, w, tensor(ctx, r(6, 5, 2, 2), "F32"), *PLAIN)
        graph = graph_of(ctx, out)
        w.contents.ne[2] = 1
        with pytest.raises(ValueError, match="channels must be equal"):
            compute(ctx, graph)


def second(build, f, operands):
    """Checks second derivatives: the gradients of a total over the operands, sum(u * gradient of sum(y * v) by the
    operand). `build` makes y, and f computes its values in float64.
    """
    with context() as ctx:
        r = Random(4)
        tensors = [tensor(ctx, a, "F32") for a in operands]
        for t in tensors:
            ggml.ggml_set_param(t)
        y = build(ctx, *tensors)
        v = r(*shape(y))
        loss = ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, y, tensor(ctx, v, "F32")))
        ggml.ggml_set_loss(loss)
        first = ggml.ggml_new_graph_custom(ctx, 512, True)
        ggml.ggml_build_forward_expand(first, loss)
        ggml.ggml_build_backward_expand(ctx, first, None)
        us = [r(*shape(t)) for t in tensors]
        parts = [
            ggml.ggml_sum(ctx, ggml.ggml_mul(ctx, ggml.ggml_graph_get_grad(first, t), tensor(ctx, u, "F32")))
            for t, u in zip(tensors, us)
        ]
        total = ggml.ggml_add(ctx, *parts)
        ggml.ggml_graph_reset(first)
        loss.contents.flags &= ~8  # a graph has one loss
        ggml.ggml_set_loss(total)
        graph = ggml.ggml_new_graph_custom(ctx, 1024, True)
        ggml.ggml_build_forward_expand(graph, total)
        ggml.ggml_build_backward_expand(ctx, graph, None)
        ggml.ggml_graph_reset(graph)
        compute(ctx, graph, 2)
        values = [a.copy() for a in operands]

        def gradient(i):  # y is linear in each operand, so a difference with any step is exact
            keep, grad = values[i].copy(), np.zeros_like(values[i])
            base = np.sum(f(*values) * v)
            for at in np.ndindex(keep.shape):
                values[i][at] += 1
                grad[at] = np.sum(f(*values) * v) - base
                values[i][at] = keep[at]
            return grad

        for i, t in enumerate(tensors):
            want = difference(lambda: float(sum(np.sum(gradient(k) * us[k]) for k in range(len(us)))), values[i])
            close(load(ggml.ggml_graph_get_grad(graph, t)), want, 1e-4, f"operand {i}")


def test_second_order():
    r = Random(5)
    second(
        lambda ctx, w, x: ggml.ggml_conv_2d(ctx, w, x, 2, 1, 1, 0, 1, 2),
        lambda w, x: correlate(w, x, [2, 1], [1, 0], [1, 2]),
        [r(3, 2, 2, 2), r(4, 3, 2, 1)],
    )
    second(
        lambda ctx, w, x: ggml.ggml_conv_transpose_2d_p0(ctx, w, x, 2),
        lambda w, x: correlate_adjoint(w, x, [2, 2], [0, 0], [1, 1]),
        [r(2, 2, 2, 2), r(2, 2, 2, 1)],
    )


def test_im2col_back_takes_the_operands_in_the_order_of_the_header_too():
    """The C library computes with (columns, kernel); the parameters in its header are named (kernel, columns)."""
    with context() as ctx:
        r = Random(7)
        kernel, columns = tensor(ctx, r(3, 2, 2, 4), "F32"), tensor(ctx, r(12, 4, 4, 2), "F32")
        size = (ctypes.c_int64 * 4)(6, 5, 2, 2)
        outs = [
            ggml.ggml_im2col_back(ctx, *pair, size, *PLAIN[:2], 0, 0, 1, 1, True)
            for pair in ((columns, kernel), (kernel, columns))
        ]
        assert all(t.contents.src[0] == columns and t.contents.src[1] == kernel for t in outs)
        compute(ctx, graph_of(ctx, *outs))
        np.testing.assert_array_equal(load(outs[0]), load(outs[1]))


def test_sizes_argument_of_im2col_back_is_read_within_its_bounds():
    with context() as ctx:
        r = Random(6)
        w, g = tensor(ctx, r(3, 2, 2, 4), "F32"), tensor(ctx, r(12, 4, 4, 2), "F32")
        with pytest.raises(ValueError, match="ne"):
            ggml.ggml_im2col_back(ctx, w, g, (ctypes.c_int64 * 2)(6, 5), 1, 1, 0, 0, 1, 1, True)


def test_the_stride_of_a_single_window_takes_no_memory():
    far = 2**31 - 1
    with context() as ctx:
        r = Random(8)
        kernel, x = tensor(ctx, r(3, 3, 1, 2), "F32"), tensor(ctx, r(5, 5, 2), "F32")
        convolved = [ggml.ggml_conv_2d_dw_direct(ctx, kernel, x, step, step, 0, 0, 1, 1) for step in (far, 5)]
        pooled = [ggml.ggml_pool_2d(ctx, x, ggml.GGML_OP_POOL_MAX, 3, 3, step, step, 0, 0) for step in (far, 5)]
        compute(ctx, graph_of(ctx, *convolved, *pooled))
        for got, want in (convolved, pooled):
            assert shape(got)[:2] == (1, 1)
            np.testing.assert_array_equal(load(got), load(want))


KERNELS = (  # width, height, channels, images of x; kernel, channels of the result; stride, padding, dilation
    ((28, 28, 1, 20), (5, 5, 6), (1, 1), (2, 2), (1, 1)),
    ((14, 14, 6, 7), (5, 5, 16), (1, 1), (0, 0), (1, 1)),
    ((37, 20, 3, 3), (3, 2, 7), (2, 3), (1, 2), (2, 1)),
    ((300, 200, 2, 2), (3, 3, 32), (1, 1), (1, 1), (1, 1)),
    ((16, 16, 4, 3), (3, 3, 40), (1, 1), (1, 1), (1, 1)),
)


@pytest.mark.parametrize("i", range(len(KERNELS)))
def test_gradients_of_kernels_of_few_and_of_many_channels(i):
    (width, height, channels, images), (k0, k1, n), s, p, d = KERNELS[i]
    r = Random(i)
    w, x = r(k0, k1, channels, n), r(width, height, channels, images)
    y = correlate(w, x, s, p, d)
    v = r(*y.shape[::-1])
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (p[1], p[1]), (p[0], p[0])))
    want = np.zeros(w.shape)
    for a in range(k1):
        for b in range(k0):
            down, across = slice(a * d[1], None, s[1]), slice(b * d[0], None, s[0])
            seen = padded[:, :, down, across][:, :, : y.shape[2], : y.shape[3]]
            want[:, :, a, b] = np.tensordot(v, seen, ((0, 2, 3), (0, 2, 3)))
    with context() as ctx:
        kernel = tensor(ctx, w, "F32")
        ggml.ggml_set_param(kernel)
        out = ggml.ggml_conv_2d_direct(ctx, kernel, tensor(ctx, x, "F32"), *s, *p, *d)
        weighted = ggml.ggml_mul(ctx, out, tensor(ctx, v, "F32"))
        for note, (got,) in gradients(ctx, weighted, [kernel], (1, 2, 5)):
            close(got, want, 1e-5, note)


@pytest.mark.parametrize("threads", [1, 2])
def test_bias_and_function_equal_nodes_of_their_own(threads):
    """Direct convolutions, products of panels, planes that end within a tile, blocks of rows of depthwise kernels."""
    functions = {
        None: lambda ctx, t: t, ggml.GGML_UNARY_OP_RELU: ggml.ggml_relu, ggml.GGML_UNARY_OP_SILU: ggml.ggml_silu,
        ggml.GGML_UNARY_OP_SIGMOID: ggml.ggml_sigmoid, ggml.GGML_UNARY_OP_HARDSWISH: ggml.ggml_hardswish,
        ggml.GGML_UNARY_OP_GELU_ERF: ggml.ggml_gelu_erf,
    }  # fmt: skip
    shapes = [
        (1, 5, 7, 3, 3, 1),
        (3, 70, 9, 4, 20, 1),
        (3, 33, 18, 4, 6, 2),
        (5, 17, 11, 2, 40, 1),
        (1, 1, 1, 6, 9, 1),
        (3, 2, 2, 150, 20, 1),
        (3, 4, 1, 70, 7, 2),
        # a last position on its own, with packed tiles and without; images of one row together
        (1, 7, 7, 150, 100, 1),
        (3, 7, 7, 30, 40, 1),
        (1, 21, 1, 40, 100, 1),
        # positions that threads share
        (1, 24, 16, 30, 100, 1),
        (3, 24, 17, 10, 20, 1),
        # lanes of output channels
        (5, 9, 8, 20, 48, 1),
    ]  # images of few positions
    for k, width, height, channels, out, step in shapes:
        for depthwise in (False, True):
            make = ggml.ext.conv_2d_dw if depthwise else ggml.ext.conv_2d
            out = channels if depthwise else out
            with context() as ctx:
                r = Random(k + width)
                w, x = tensor(ctx, r(k, k, 1 if depthwise else channels, out), "F32"), tensor(
                    ctx, r(width, height, channels, 2), "F32")  # fmt: skip
                bias = tensor(ctx, r(out, 1, 1, 1), "F32")
                places = (step, step, k // 2, k // 2, 1, 1)
                for bias_, (function, node) in ((b, f) for b in (bias, None) for f in functions.items()):
                    whole = make(ctx, w, x, *places, bias_, function)
                    parts = make(ctx, w, x, *places)
                    if bias_ is not None:
                        parts = ggml.ggml_add(ctx, parts, ggml.ggml_reshape_4d(ctx, bias, 1, 1, out, 1))
                    parts = node(ctx, parts)
                    compute(ctx, graph_of(ctx, whole, parts), threads)
                    np.testing.assert_array_equal(load(whole), load(parts))


# width, height, channels of the input and the output, images, taps, stride: threads prepare a small image together
SMALL = [(14, 14, 160, 130, 1, 3, 2), (7, 7, 300, 200, 1, 5, 1), (8, 6, 170, 130, 2, 3, 1), (13, 9, 90, 260, 1, 5, 2),
         (9, 11, 80, 61, 1, 4, 1)]  # fmt: skip


@pytest.mark.parametrize("case", SMALL)
@pytest.mark.parametrize("name", ISAS)
def test_threads_share_a_small_image(name, case):
    width, height, channels, out, images, taps, stride = case
    places = (stride, stride, taps // 2, taps // 2, 1, 1)
    r = Random(channels)
    kernel, data, shift = r(taps, taps, channels, out), r(width, height, channels, images), r(out, 1, 1, 1)
    want = correlate(kernel, data, [stride] * 2, [taps // 2] * 2, [1, 1]) + shift.reshape(out, 1, 1)
    for kind, tolerance in ("F32", 3e-6), ("F16", 3e-3):
        with isa(name), context() as ctx:
            w, x, bias = tensor(ctx, kernel, kind), tensor(ctx, data, "F32"), tensor(ctx, shift, "F32")
            for threads in (1, 2, 3, 5, 8):
                found = convolved(ctx, w, x, places, threads, 0, bias, None)
                assert np.abs(found - want).max() <= tolerance * np.abs(want).max()


@pytest.mark.parametrize(("width", "height", "channels", "out", "taps", "stride", "padding"), [
    # wide windows that are far apart, in part outside the input, or few in a row
    (832, 1, 1, 20, (256, 1), (128, 1), (0, 0)), (30, 1, 3, 20, (9, 1), (4, 1), (5, 0)),
    (21, 7, 2, 20, (11, 3), (5, 2), (4, 1)), (12, 3, 40, 20, (12, 2), (1, 1), (3, 1)),
    (600, 1, 2, 20, (300, 1), (100, 1), (150, 0)),
    # so many output channels that tiles are packed, in place and from copies
    (21, 13, 210, 67, (1, 1), (1, 1), (0, 0)), (33, 9, 50, 130, (3, 3), (2, 2), (1, 1)),
    (19, 5, 30, 62, (2, 3), (1, 2), (1, 0)), (21, 13, 210, 130, (1, 1), (1, 1), (0, 0)),
    # the first group has four output channels
    (28, 28, 40, 19, (1, 1), (1, 1), (0, 0)), (13, 15, 180, 19, (1, 1), (1, 1), (0, 0)),
    # one to four positions behind the last whole vector, and rows of images that are computed together
    (7, 7, 300, 130, (1, 1), (1, 1), (0, 0)), (7, 7, 40, 20, (5, 5), (1, 1), (2, 2)),
    (17, 2, 40, 30, (1, 1), (1, 1), (0, 0)), (21, 1, 32, 100, (8, 1), (1, 1), (0, 0)),
    (14, 14, 70, 30, (1, 1), (1, 1), (0, 0)), (13, 15, 180, 130, (1, 1), (1, 1), (0, 0)),
    (14, 14, 9, 30, (1, 1), (1, 1), (0, 0)), (5, 10, 40, 100, (3, 3), (1, 1), (1, 1)),
    # whole vectors of positions, and every second element of short rows
    (28, 28, 40, 70, (1, 1), (1, 1), (0, 0)), (40, 20, 70, 110, (1, 1), (1, 1), (0, 0)),
    (28, 28, 40, 70, (1, 1), (2, 2), (0, 0)), (14, 14, 80, 40, (3, 3), (2, 2), (1, 1)),
    (29, 13, 70, 40, (1, 1), (2, 2), (0, 0)), (15, 30, 50, 40, (2, 3), (2, 3), (1, 0)),
    (37, 1, 20, 40, (4, 1), (2, 1), (2, 0)), (9, 1, 150, 7, (1, 1), (1, 1), (0, 0)),
    # lanes of output channels, in place and from padded images
    (4, 5, 48, 64, (2, 2), (1, 1), (0, 0)), (9, 8, 20, 130, (3, 3), (2, 2), (1, 1)),
    (7, 6, 9, 33, (3, 4), (1, 2), (0, 2)), (8, 8, 5, 16, (1, 1), (2, 1), (0, 0)),
])  # fmt: skip
@pytest.mark.parametrize("name", ISAS)
def test_sizes_that_choose_another_way(name, width, height, channels, out, taps, stride, padding):
    with isa(name), context() as ctx:
        r = Random(width)
        kernel, data = r(*taps, channels, out), r(width, height, channels, 7)
        for kind in ("F32", "F16"):
            w, x = tensor(ctx, kernel, "F32"), tensor(ctx, data, kind)
            found = convolved(ctx, w, x, (*stride, *padding, 1, 1), 1)
            close(found, correlate(kernel, load(x), stride, padding, [1, 1]), 1e-5)
            np.testing.assert_array_equal(convolved(ctx, w, x, (*stride, *padding, 1, 1), 2), found)


@pytest.mark.parametrize(("width", "height", "channels", "out", "taps", "stride", "padding", "dilation"), [
    # more elements than the caches of a core hold, and rows of the result that are whole vectors
    (160, 112, 32, 24, (3, 3), (2, 2), (1, 1), (1, 1)), (128, 260, 16, 19, (5, 2), (2, 1), (2, 0), (1, 1)),
    (130, 130, 33, 20, (3, 2), (1, 2), (0, 1), (1, 1)), (134, 140, 30, 20, (3, 3), (2, 2), (0, 3), (3, 2)),
    (320, 90, 20, 18, (2, 2), (2, 2), (0, 0), (1, 1)), (64, 420, 20, 18, (9, 1), (1, 3), (4, 0), (1, 1)),
    (1, 9000, 60, 18, (3, 3), (2, 2), (8, 1), (1, 1)), (96, 60, 92, 18, (4, 3), (2, 1), (1, 3), (1, 2)),
])  # fmt: skip
@pytest.mark.parametrize("name", ISAS)
def test_large_images(name, width, height, channels, out, taps, stride, padding, dilation):
    with isa(name), context() as ctx:
        r = Random(width)
        kernel, data = r(*taps, channels, out), r(width, height, channels, 1)
        w, x = tensor(ctx, kernel, "F32"), tensor(ctx, data, "F32")
        found = convolved(ctx, w, x, (*stride, *padding, *dilation), 1)
        close(found, correlate(kernel, data, stride, padding, dilation), 1e-5)
        np.testing.assert_array_equal(convolved(ctx, w, x, (*stride, *padding, *dilation), 2), found)


GROUPED = {  # width, height, channels of a group and of its result, groups, images, taps, stride
    "few channels": (14, 14, 8, 8, 6, 1, 3, 1),
    "few positions": (3, 2, 5, 7, 5, 2, 3, 2),
    "one position": (1, 1, 4, 3, 4, 1, 1, 1),
    "1x1, more results": (9, 8, 20, 33, 3, 2, 1, 1),
    "wide images": (70, 5, 1, 2, 9, 1, 5, 1),
    "many channels": (12, 12, 40, 64, 2, 1, 3, 1),
}


@pytest.mark.parametrize("shape", GROUPED)
@pytest.mark.parametrize("name", ISAS)
def test_groups_are_convolutions_of_parts(name, shape):
    """By any number of threads, with what follows: a bias, an addition, a function, slopes."""
    width, height, c, m, groups, images, taps, stride = GROUPED[shape]
    r, places = Random(width), (stride, stride, taps // 2, taps // 2, 1, 1)
    kernel, data = r(taps, taps, c, m * groups), r(width, height, c * groups, images)
    shift, slopes = r(m * groups, 1, 1, 1), r(1, 1, m * groups, 1)
    parts = [correlate(kernel[g * m : g * m + m], data[:, g * c : g * c + c], [stride] * 2, [taps // 2] * 2, [1, 1])
             for g in range(groups)]  # fmt: skip
    want = np.concatenate(parts, 1)
    more = r(*want.shape[::-1])
    for kind in "F32", "F16":
        with isa(name), context() as ctx:
            w, x, bias, other, slope = (
                tensor(ctx, v, k)
                for v, k in ((kernel, kind), (data, "F32"), (shift, "F32"), (more, "F32"), (slopes, "F32"))
            )
            plain = ggml.ext.conv_2d(ctx, w, x, *places, groups=groups)
            relu = ggml.ext.conv_2d(ctx, w, x, *places, bias, ggml.GGML_UNARY_OP_RELU, groups=groups)
            row = ggml.ggml_reshape_4d(ctx, bias, 1, 1, m * groups, 1)
            sums = ggml.ggml_add(ctx, ggml.ext.conv_2d(ctx, w, x, *places, groups=groups), row)
            fused = ggml.ggml_relu(ctx, ggml.ggml_add(ctx, sums, other))
            bent = ggml.ext.prelu(ctx, ggml.ext.conv_2d(ctx, w, x, *places, bias, groups=groups), slope)
            shifted = want + shift.reshape(-1, 1, 1)
            for threads in 1, 2, 3:
                compute(ctx, graph_of(ctx, plain, relu, fused, bent), threads)
                tolerance = 1e-5 if kind == "F32" else 3e-3
                close(load(plain), want, tolerance)
                close(load(relu), np.maximum(shifted, 0), tolerance)
                close(load(fused), np.maximum(shifted + more, 0), tolerance)
                close(load(bent), np.where(shifted < 0, shifted * slopes.reshape(-1, 1, 1), shifted), tolerance)


def test_groups_of_bytes():
    dice = np.random.default_rng(4)
    kernel, data = dice.integers(-128, 128, (12, 5, 3, 3)).astype(np.int8), dice.integers(0, 200, (2, 15, 9, 8))
    for name in ISAS:
        with isa(name), context() as ctx:
            w, x = ggml.utils.from_numpy(kernel, ctx), ggml.utils.from_numpy(data.astype(np.float32), ctx)
            out = ggml.ext.conv_2d(ctx, w, x, 1, 1, 1, 1, 1, 1, offset=3, groups=3)
            compute(ctx, graph_of(ctx, out), 2)
            parts = [correlate(kernel[g * 4 : g * 4 + 4].astype(float) + 3, data[:, g * 5 : g * 5 + 5].astype(float),
                               [1, 1], [1, 1], [1, 1]) for g in range(3)]  # fmt: skip
            np.testing.assert_array_equal(load(out), np.concatenate(parts, 1))


def test_groups_that_do_not_fit():
    with context() as ctx:
        r = Random(1)
        w, x = tensor(ctx, r(3, 3, 2, 6), "F32"), tensor(ctx, r(6, 5, 8, 1), "F32")
        for groups in 0, -1:
            with pytest.raises(ValueError, match=r"^ggml\.ext\.conv_2d: groups is"):
                ggml.ext.conv_2d(ctx, w, x, *PLAIN, groups=groups)
        for groups in 1, 2, 3, 4, 8:
            with pytest.raises(ValueError, match=r"^ggml\.ext\.conv_2d: a is f32 \[3, 3, 2, 6\], b is"):
                ggml.ext.conv_2d(ctx, w, x, *PLAIN, groups=groups)
        w = tensor(ctx, r(3, 3, 2, 4), "F32")
        ggml.ggml_set_param(w)
        loss = ggml.ggml_sum(ctx, ggml.ext.conv_2d(ctx, w, x, *PLAIN, groups=4))
        ggml.ggml_set_loss(loss)
        graph = ggml.ggml_new_graph_custom(ctx, 64, True)
        ggml.ggml_build_forward_expand(graph, loss)
        with pytest.raises(ValueError, match="groups has no gradient"):
            ggml.ggml_build_backward_expand(ctx, graph, None)


def test_bias_and_function_that_do_not_fit():
    with context() as ctx:
        r = Random(1)
        w, x = tensor(ctx, r(3, 3, 2, 4), "F32"), tensor(ctx, r(6, 5, 2, 1), "F32")
        for size, kind in (((3, 1, 1, 1), "F32"), ((4, 1, 1, 1), "F16"), ((2, 2, 1, 1), "F32")):
            bias = tensor(ctx, r(*size), kind)
            with pytest.raises(ValueError, match=r"^ggml\.ext\.conv_2d: bias"):
                ggml.ext.conv_2d(ctx, w, x, *PLAIN, bias)
        for function in (-2, -1, ggml.GGML_UNARY_OP_TANH, 1 << 20):
            with pytest.raises(ValueError, match=r"^ggml\.ext\.conv_2d: function"):
                ggml.ext.conv_2d(ctx, w, x, *PLAIN, None, function)
        ggml.ggml_set_param(w)
        loss = ggml.ggml_sum(ctx, ggml.ext.conv_2d(ctx, w, x, *PLAIN, None, ggml.GGML_UNARY_OP_RELU))
        ggml.ggml_set_loss(loss)
        graph = ggml.ggml_new_graph_custom(ctx, 64, True)
        ggml.ggml_build_forward_expand(graph, loss)
        with pytest.raises(ValueError, match="has no gradient"):
            ggml.ggml_build_backward_expand(ctx, graph, None)


# ---- the choice of an algorithm --------------------------------------------------------------------------------------
def gradient_of_kernel(ctx, w, x):
    """The node that computes the gradient of the kernel of a convolution."""
    ggml.ggml_set_param(w)
    loss = ggml.ggml_sum(ctx, ggml.ggml_conv_2d(ctx, w, x, *PLAIN))
    ggml.ggml_set_loss(loss)
    graph = ggml.ggml_new_graph_custom(ctx, 64, True)
    ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    return ggml.ggml_graph_get_grad(graph, w)


def gradients_of_depthwise(ctx, w, x):
    """The nodes that compute the gradients of the kernel and of the data of a depthwise convolution."""
    ggml.ggml_set_param(w), ggml.ggml_set_param(x)
    loss = ggml.ggml_sum(ctx, ggml.ggml_conv_2d_dw(ctx, w, x, *PLAIN))
    ggml.ggml_set_loss(loss)
    graph = ggml.ggml_new_graph_custom(ctx, 64, True)
    ggml.ggml_build_forward_expand(graph, loss)
    ggml.ggml_build_backward_expand(ctx, graph, None)
    return [ggml.ggml_graph_get_grad(graph, t) for t in (w, x)]


def of(kind, *ne):
    return lambda ctx: ggml.ggml_new_tensor_4d(ctx, kind, *ne, *(1,) * (4 - len(ne)))


F32, I8 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I8
# a convolution that gets the algorithm; where only some instruction sets have it, how their names begin
CHOSEN = {
    "bytes_winograd": (lambda ctx, w, x: ggml.ext.conv_2d(ctx, w, x, *PLAIN), of(I8, 3, 3, 64, 64), of(F32, 24, 24, 64),
                       r"(avx2|avx512)$"),
    "bytes": (lambda ctx, w, x: ggml.ext.conv_2d(ctx, w, x, *PLAIN), of(I8, 5, 5, 8, 8), of(F32, 24, 24, 8)),
    "winograd": (lambda ctx, w, x: ggml.ggml_conv_2d(ctx, w, x, *PLAIN), of(F32, 3, 3, 64, 64), of(F32, 24, 24, 64)),
    "winograd_line": (lambda ctx, w, x: ggml.ext.conv_2d(ctx, w, x, 1, 1, 0, 0, 1, 1, winograd=4),
                      of(F32, 5, 1, 64, 64), of(F32, 508, 1, 64)),
    "spread": (lambda ctx, w, x: ggml.ggml_conv_transpose_1d(ctx, w, x, 2, 0, 1), of(F32, 4, 3, 5), of(F32, 70, 5)),
    "apart": (lambda ctx, w, x: ggml.ggml_conv_transpose_2d_p0(ctx, w, x, 2), of(F32, 2, 2, 3, 5), of(F32, 9, 8, 5)),
    "phases": (lambda ctx, w, x: ggml.ggml_conv_transpose_2d_p0(ctx, w, x, 2), of(F32, 3, 3, 3, 5), of(F32, 9, 8, 5)),
    "channels": (lambda ctx, w, x: ggml.ggml_conv_2d(ctx, w, x, *PLAIN), of(F32, 5, 5, 8, 48), of(F32, 5, 5, 8, 16),
                 r"avx|amx"),
    "shifted": (lambda ctx, w, x: ggml.ggml_conv_2d(ctx, w, x, *PLAIN), of(F32, 5, 5, 8, 8), of(F32, 40, 40, 8)),
    "direct": (lambda ctx, w, x: ggml.ggml_conv_2d(ctx, w, x, *PLAIN), of(F32, 17, 2, 4, 8), of(F32, 100, 40, 4)),
    "panels": (lambda ctx, w, x: ggml.ggml_conv_2d(ctx, w, x, *PLAIN), of(F32, 17, 2, 4, 80), of(F32, 20, 40, 4)),
    "correlate": (gradient_of_kernel, of(F32, 3, 3, 4, 8), of(F32, 40, 40, 4)),
    "correlate_panels": (gradient_of_kernel, of(F32, 3, 3, 4, 40), of(F32, 40, 40, 4)),
    "depthwise_lanes": (lambda ctx, w, x: ggml.ggml_conv_2d_dw(ctx, w, x, *PLAIN), of(F32, 3, 3, 1, 40),
                        of(F32, 14, 14, 40), r"avx|amx"),
    "depthwise": (lambda ctx, w, x: ggml.ggml_conv_2d_dw(ctx, w, x, *PLAIN), of(F32, 3, 3, 1, 2), of(F32, 70, 14, 2)),
    "depthwise_data": (lambda *a: gradients_of_depthwise(*a)[1], of(F32, 3, 3, 1, 2), of(F32, 70, 14, 2)),
    "depthwise_kernel": (lambda *a: gradients_of_depthwise(*a)[0], of(F32, 3, 3, 1, 2), of(F32, 70, 14, 2)),
}  # fmt: skip


def test_the_table_of_algorithms_the_documentation_and_the_files_agree():
    table = (ROOT / "ggml/_simd/tables/conv.h").read_text(encoding="utf-8")
    rows = re.findall(r"^ALGORITHM\((\w+), ", table, re.M)
    assert len(rows) == len(re.findall(r"^ALGORITHM", table, re.M))
    described = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/convolutions.md").read_text(encoding="utf-8"), re.M)
    assert described == rows == list(CHOSEN)
    for name in rows:
        file = ROOT / "ggml/_simd/ops/conv" / f"{name}.h"
        assert f"static const gg_algorithm conv_{name} = {{" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("algorithm", CHOSEN)
@pytest.mark.parametrize("name", ISAS)
def test_each_algorithm_has_convolutions_that_get_it(name, algorithm):
    make, kernel, data, *only = CHOSEN[algorithm]
    with isa(name), context(no_alloc=True) as ctx:
        found = ggml.ext.conv_algorithm(make(ctx, kernel(ctx), data(ctx)))
        assert (found == algorithm) == (not only or re.match(only[0], name) is not None)


# positions, channels, output channels, images, taps, and the algorithm of vectors of 8 lanes or more: tiles of output
# channels would be full, or a twentieth of their sums would be for nothing
LINES = [(21, 32, 200, 40, 4, "channels"), (21, 32, 200, 40, 8, "shifted"), (13, 20, 50, 33, 3, "shifted"),
         (12, 16, 64, 70, 1, "channels"), (7, 40, 130, 25, 1, "shifted")]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", ISAS)
def test_short_images_of_one_dimension(name, line):
    width, channels, out, images, taps, algorithm = line
    r = Random(width)
    kernel, data, shift = r(taps, 1, channels, out), r(width, 1, channels, images), r(out, 1, 1, 1)
    want = correlate(kernel, data, [1, 1], [0, 0], [1, 1])
    with isa(name), context() as ctx:
        w, x, bias = (tensor(ctx, v, "F32") for v in (kernel, data, shift))
        if re.match("avx|amx", name):
            assert ggml.ext.conv_algorithm(ggml.ggml_conv_2d(ctx, w, x, 1, 1, 0, 0, 1, 1)) == algorithm
        for threads in 1, 2, 3:
            found = convolved(ctx, w, x, (1, 1, 0, 0, 1, 1), threads, 0, bias, ggml.GGML_UNARY_OP_RELU)
            close(found, np.maximum(want + shift.reshape(-1, 1, 1), 0), 1e-5)


def test_algorithms_of_other_nodes():
    with context() as ctx:
        w, x = tensor(ctx, Random(1)(3, 3, 2, 4), "F32"), tensor(ctx, Random(2)(6, 5, 2, 0), "F32")
        assert ggml.ext.conv_algorithm(ggml.ggml_conv_2d(ctx, w, x, *PLAIN)) is None
        for t in (w, ggml.ggml_add(ctx, w, w), ggml.ggml_im2col(ctx, w, x, *PLAIN, True, 0)):
            with pytest.raises(ValueError, match=r"^ggml\.ext\.conv_algorithm: tensor .* is not the result of a conv"):
                ggml.ext.conv_algorithm(t)
        out = ggml.ggml_conv_2d(ctx, w, tensor(ctx, Random(2)(6, 5, 2, 1), "F32"), *PLAIN)
        w.contents.ne[2] = 1
        with pytest.raises(ValueError, match=r"^ggml\.ext\.conv_algorithm: tensor .*: .*channels must be equal"):
            ggml.ext.conv_algorithm(out)


# ---- depthwise convolutions of many channels, whose vectors hold channels --------------------------------------------
# width, height, channels, images, taps, strides, padding, dilation
DEPTHWISE = [(7, 7, 33, 2, (5, 5), (1, 1), (2, 2), (1, 1)), (14, 9, 40, 1, (3, 3), (2, 2), (1, 0), (1, 1)),
             (70, 5, 17, 1, (3, 3), (1, 1), (1, 1), (1, 1)), (23, 30, 9, 3, (2, 4), (1, 2), (3, 1), (2, 1)),
             (3, 40, 20, 1, (7, 1), (3, 1), (5, 0), (1, 2)),
             (200, 1, 18, 1, (9, 1), (1, 1), (4, 0), (1, 1)),
             # windows of neighbours, of which rows of 4 to 8 outputs are computed together
             (15, 11, 20, 1, (5, 5), (2, 2), (2, 2), (1, 1)), (25, 9, 40, 2, (3, 3), (1, 1), (1, 1), (1, 1)),
             (9, 5, 17, 1, (5, 5), (1, 1), (4, 4), (1, 1)), (24, 7, 33, 1, (3, 3), (2, 2), (0, 1), (1, 1)),
             # lanes of positions: rows and vectors that overlap, rows shorter than a vector, few rows, parts of a plane
             (33, 30, 3, 1, (3, 3), (1, 1), (1, 1), (1, 1)), (12, 14, 3, 2, (5, 5), (1, 1), (2, 2), (1, 1)),
             (7, 9, 2, 3, (3, 3), (1, 1), (1, 1), (1, 1)), (14, 3, 2, 3, (5, 5), (1, 1), (2, 2), (1, 1)),
             (46, 45, 3, 1, (3, 3), (2, 2), (1, 1), (1, 1)), (28, 2, 40, 2, (3, 3), (1, 1), (1, 1), (1, 1)),
             (91, 31, 2, 1, (5, 5), (2, 2), (0, 1), (1, 1)), (100, 200, 18, 1, (5, 5), (1, 1), (2, 2), (1, 1)),
             (64, 20, 2, 1, (3, 3), (2, 1), (1, 1), (1, 1)), (40, 21, 2, 1, (5, 5), (1, 2), (2, 2), (1, 1)),
             (30, 13, 2, 2, (3, 3), (1, 1), (0, 0), (1, 1)), (13, 6, 1, 2, (3, 3), (2, 2), (7, 3), (1, 1)),
             (400, 90, 2, 1, (3, 3), (2, 2), (1, 1), (1, 1))]  # fmt: skip


@pytest.mark.parametrize("case", DEPTHWISE)
@pytest.mark.parametrize("name", ISAS)
def test_depthwise_convolutions_of_many_channels(name, case):
    width, height, channels, images, taps, stride, padding, dilation = case
    with isa(name), context() as ctx:
        r = Random(width)
        kernel, data, shift = r(*taps, 1, channels), r(width, height, channels, images), r(channels, 1, 1, 1)
        w, x, bias = (tensor(ctx, v, "F32") for v in (kernel, data, shift))
        one = [correlate(kernel[c : c + 1], data[:, c : c + 1], stride, padding, dilation) for c in range(channels)]
        want = np.concatenate(one, 1)
        turned = ggml.ggml_permute(ctx, ggml.ggml_cont(ctx, ggml.ggml_permute(ctx, x, 1, 0, 2, 3)), 1, 0, 2, 3)
        for source in (x, turned):
            out = ggml.ggml_conv_2d_dw_direct(ctx, w, source, *stride, *padding, *dilation)
            tail = ggml.ext.conv_2d_dw(ctx, w, source, *stride, *padding, *dilation, bias, ggml.GGML_UNARY_OP_RELU)
            for threads in (1, 2, 3):
                compute(ctx, graph_of(ctx, out, tail), threads)
                np.testing.assert_allclose(load(out), want, atol=2e-6 * np.abs(want).max())
                found = np.maximum(want + shift.reshape(channels, 1, 1), 0)
                np.testing.assert_allclose(load(tail), found, atol=2e-6 * np.abs(want).max())
