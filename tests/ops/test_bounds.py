"""Operands and results that end where a page without access begins: nothing behind them is read or written."""

import ctypes
import mmap
import sys

import numpy as np
import pytest
from cases import Random
from cases.conv import correlate, correlate_each_channel
from cases.harness import ISAS, close, compute, context, graph_of, isa, load, memory, tensor

import ggml

pytestmark = [pytest.mark.core, pytest.mark.skipif(sys.platform == "win32", reason="needs mprotect")]
NO_ACCESS = 0

# width, height, channels of the input and the output, images
IMAGES = [(14, 14, 48, 50, 1), (7, 7, 20, 64, 2), (5, 9, 33, 7, 1), (13, 3, 300, 20, 1), (29, 31, 17, 19, 1),
          (16, 16, 24, 30, 1), (40, 1, 65, 18, 3), (9, 11, 64, 96, 1), (22, 19, 70, 100, 1)]  # fmt: skip
# taps, stride, padding, dilation
WINDOWS = [(1, 1, 0, 1), (3, 1, 1, 1), (3, 2, 0, 1), (5, 1, 2, 1), (3, 1, 2, 2)]


@pytest.fixture
def fenced():
    """Moves a tensor to the end of pages behind which nothing may be read."""
    libc, maps = ctypes.CDLL(None), []

    def move(t):
        values, size = memory(t).copy(), ggml.ggml_nbytes(t)
        whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        pages = mmap.mmap(-1, whole + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        maps.append(pages)
        assert not libc.mprotect(ctypes.c_void_p(start + whole), ctypes.c_size_t(mmap.PAGESIZE), NO_ACCESS)
        t.contents.data = start + whole - size
        memory(t)[:] = values
        return t

    return move


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("name", ISAS)
def test_convolutions(fenced, name, image):
    width, height, channels, filters, images = image
    r = Random(width)
    data = r(width, height, channels, images)
    for taps, stride, padding, dilation in WINDOWS:
        if min(width, height) + 2 * padding <= (taps - 1) * dilation:
            continue
        places = (stride, stride, padding, padding, dilation, dilation)
        kernel, single, shift = r(taps, taps, channels, filters), r(taps, taps, 1, channels), r(filters, 1, 1, 1)
        where = [stride] * 2, [padding] * 2, [dilation] * 2
        want, each = correlate(kernel, data, *where), correlate_each_channel(single, data, *where)
        with isa(name), context() as ctx:
            x, w, dw, bias = (fenced(tensor(ctx, v, "F32")) for v in (data, kernel, single, shift))
            out = fenced(ggml.ext.conv_2d(ctx, w, x, *places, bias, ggml.GGML_UNARY_OP_RELU))
            lanes = fenced(ggml.ggml_conv_2d_dw_direct(ctx, dw, x, *places))
            for threads in (1, 2):
                compute(ctx, graph_of(ctx, out, lanes), threads)
                close(load(out), np.maximum(want + shift.reshape(filters, 1, 1), 0), 1e-5)
                close(load(lanes), each, 1e-5)


@pytest.mark.parametrize("name", ISAS)
def test_products(fenced, name):
    r = Random(3)
    for m, n, k in [(1, 1, 1), (7, 5, 33), (64, 1, 100), (33, 17, 65), (100, 40, 30), (5, 300, 18), (256, 31, 256)]:
        a, b = r(k, m, 1, 1), r(k, n, 1, 1)
        with isa(name), context() as ctx:
            x, w = fenced(tensor(ctx, b, "F32")), [fenced(tensor(ctx, a, type)) for type in ("F32", "F16", "BF16")]
            outs = [fenced(ggml.ggml_mul_mat(ctx, t, x)) for t in w]
            compute(ctx, graph_of(ctx, *outs), 2)
            for out, bits in zip(outs, (1e-5, 2e-3, 2e-2)):
                close(load(out)[0, 0], b[0, 0] @ a[0, 0].T, bits)
