"""Convolutions and patches (im2col).

The references add up one tap of the kernel at a time, in any number of dimensions. Sizes, strides and taps are
written innermost first.
"""

import ctypes

import numpy as np

from . import Op
from .samples import output_sizes, tap_view, taps

PLAIN = (1, 1, 1, 1, 1, 1)  # strides, padding and dilation of a convolution


# ---- references ------------------------------------------------------------------------------------------------------
def zero_padded(x, p):
    """x with p[i] zeros on both sides of its dimension i."""
    return np.pad(x, [(0, 0)] * (x.ndim - len(p)) + [(q, q) for q in p[::-1]])


def cropped(x, p):
    """The inverse of zero_padded."""
    return x[(..., *(slice(q, x.shape[-1 - i] - q) for i, q in reversed(list(enumerate(p)))))]


def correlate(w, x, s, p, d):
    """The correlation of x [n, ic, ...] with the kernels w [oc, ic, ...]: [n, oc, ...]."""
    dims = len(s)
    k = w.shape[: -dims - 1 : -1]
    out = output_sizes(x.shape[: -dims - 1 : -1], k, s, p, d)
    x, y = zero_padded(x, p), np.zeros((x.shape[0], w.shape[0], *out[::-1]))
    for t in taps(k):
        y += np.einsum("oc,nc...->no...", w[(..., *t[::-1])], tap_view(x, t, out, s, d), optimize=True)
    return y


def correlate_each_channel(w, x, s, p, d):
    """A correlation of each channel with a kernel of its own: x [n, c, ...], w [c, 1, ...]."""
    return np.concatenate([correlate(w[c : c + 1], x[:, c : c + 1], s, p, d) for c in range(x.shape[1])], 1)


def correlate_adjoint(w, y, s, p, d):
    """The adjoint of correlate (a transposed convolution): y [n, oc, ...], w [oc, ic, ...] give [n, ic, ...]."""
    dims = len(s)
    k, out = w.shape[: -dims - 1 : -1], y.shape[: -dims - 1 : -1]
    size = [(out[i] - 1) * s[i] + (k[i] - 1) * d[i] + 1 for i in range(dims)]
    x = np.zeros((y.shape[0], w.shape[1], *size[::-1]))
    for t in taps(k):
        tap_view(x, t, out, s, d)[...] += np.einsum("oc,no...->nc...", w[(..., *t[::-1])], y)
    return cropped(x, p)


def columns(x, k, s, p, d):
    """The patches of x [n, c, ...]: [n, positions..., c * taps]."""
    dims = len(s)
    out = output_sizes(x.shape[: -dims - 1 : -1], k, s, p, d)
    x = zero_padded(x, p)
    y = np.stack([tap_view(x, t, out, s, d) for t in taps(k)], 2)
    return np.moveaxis(y.reshape(y.shape[0], y.shape[1] * y.shape[2], *out[::-1]), 1, -1)


def columns_back(g, x_shape, k, s, p, d):
    """The adjoint of columns: adds the patches g up at their positions in an array of shape x_shape."""
    dims = len(s)
    out = output_sizes(x_shape[: -dims - 1 : -1], k, s, p, d)
    x = zero_padded(np.zeros(x_shape), p)
    g = np.moveaxis(g, -1, 1).reshape(x_shape[0], x_shape[1], -1, *out[::-1])
    for i, t in enumerate(taps(k)):
        tap_view(x, t, out, s, d)[...] += g[:, :, i]
    return cropped(x, p)


# ---- the conventions of the constructors -----------------------------------------------------------------------------
def line(f):
    """A reference of one dimension; dimension 3 of the operands is 1."""
    return lambda w, x, s, p, d: f(w[0], x[0], [s], [p], [d])


def plane(f):
    """A reference of two dimensions."""
    return lambda w, x, s0, s1, p0, p1, d0, d1: f(w, x, [s0, s1], [p0, p1], [d0, d1])


def solid(w, x, ic, *q):
    """conv_3d, whose operands have channels and images (or kernels) in one dimension."""
    w, x = (t.reshape(len(t) // ic, ic, *t.shape[1:]) for t in (w, x))
    y = correlate(w, x, q[:3], q[3:6], q[6:9])
    return y.reshape(y.shape[0] * y.shape[1], *y.shape[2:])


def im2col(a, b, s0, s1, p0, p1, d0, d1, is_2d, _):
    if is_2d:
        return columns(b, a.shape[:-3:-1], [s0, s1], [p0, p1], [d0, d1])
    return columns(b[0], a.shape[:-2:-1], [s0], [p0], [d0])


def im2col_3d(a, b, ic, *q):
    y = columns(b.reshape(len(b) // ic, ic, *b.shape[1:]), a.shape[:-4:-1], q[:3], q[3:6], q[6:9])
    return y.reshape(y.shape[0] * y.shape[1], *y.shape[2:])


def im2col_back(a, b, ne, s0, s1, p0, p1, d0, d1, is_2d):
    shape = tuple(ne)[::-1]
    if is_2d:
        return columns_back(a, shape, b.shape[:-3:-1], [s0, s1], [p0, p1], [d0, d1])
    return columns_back(a[0], shape[1:], b.shape[:-2:-1], [s0], [p0], [d0])


def col2im_1d(a, s, oc, p):
    a = a[0]
    k = a.shape[-1] // oc
    return columns_back(a, (a.shape[0], oc, (a.shape[1] - 1) * s + k - 2 * p), [k], [s], [p], [1])


def conv_transpose_1d(w, x, s, p, d):
    return correlate_adjoint(w[0], x[0], [s], [p], [d])


def conv_transpose_2d(w, x, s):
    return correlate_adjoint(w, x, [s, s], [0, 0], [1, 1])


def ne(*sizes):
    """Four sizes as a ctypes array."""
    return (ctypes.c_int64 * 4)(*sizes, *[1] * (4 - len(sizes)))


MIXED = ("F32", ("F16", "F32"), ("BF16", "F32"), "F16", "BF16")
WRONG_STEPS = (
    (lambda r: [r(3, 3, 2, 4), r(8, 7, 2, 2), 0, 1, 0, 0, 1, 1], ValueError, "stride is 0"),
    (lambda r: [r(3, 3, 2, 4), r(8, 7, 2, 2), 1, 1, -1, 0, 1, 1], ValueError, "padding is -1"),
    (lambda r: [r(3, 3, 2, 4), r(8, 7, 2, 2), 1, 1, 0, 0, 1, 0], ValueError, "dilation is 0"),
    (
        lambda r: [r(3, 9, 2, 4), r(8, 7, 2, 2), 1, 1, 0, 0, 1, 1],
        ValueError,
        "a window of 9 elements (dilation 1) does not fit into 7",
    ),
    (lambda r: [r(3, 0, 2, 4), r(8, 7, 2, 2), 1, 1, 0, 0, 1, 1], ValueError, "a window of 0"),
    (lambda r: [r(3, 3, 2, 4), None, 1, 1, 0, 0, 1, 1], TypeError, "b is None"),
)
WRONG_CHANNELS = ((lambda r: [r(3, 3, 3, 4), r(8, 7, 2, 2), 1, 1, 0, 0, 1, 1], ValueError, "channels must be equal"),)
WRONG_ALONE = ((lambda r: [r(3, 3, 1, 3), r(8, 7, 2, 2), 1, 1, 0, 0, 1, 1], ValueError, "one kernel a channel"),)


def conv_2d_row(fn, f, kernel, wrong):
    """A row of a 2-d convolution. kernel(kw, kh, ic, oc) gives the sizes of the kernels."""

    def sample(k, x, *steps):
        return lambda r: [r(*kernel(*k)), r(*x), *steps]

    return Op(
        fn,
        plane(f),
        (
            sample((3, 2, 2, 3), (6, 5, 2, 2), 1, 1, 0, 0, 1, 1),
            sample((3, 3, 2, 2), (7, 6, 2, 1), 2, 1, 1, 2, 1, 1),
            sample((2, 3, 1, 1), (9, 8, 1, 2), 2, 3, 1, 0, 3, 2),
            sample((3, 2, 2, 2), (7, 5, 2, 2), 3, 2, 2, 1, 2, 1),
            sample((2, 2, 2, 2), (6, 6, 2, 2), 4, 3, 0, 0, 1, 1),
            sample((3, 3, 35, 19), (41, 37, 35, 2), 1, 1, 1, 1, 1, 1),
            sample((5, 3, 7, 66), (70, 9, 7, 3), 2, 1, 2, 0, 1, 2),
            sample((4, 4, 40, 33), (11, 9, 40, 5), 2, 2, 1, 1, 1, 1),
            sample((3, 3, 2, 2), (0, 5, 2, 2), 1, 1, 2, 1, 1, 1),
            *(() if kernel is depthwise else (sample((3, 3, 0, 2), (6, 5, 0, 2), 1, 1, 1, 1, 1, 1),)),
        ),
        diff=(0, 1),
        types=MIXED,
        tol=1e-5,
        bad=WRONG_STEPS + wrong,
    )


def full(kw, kh, ic, oc):
    return kw, kh, ic, oc


def depthwise(kw, kh, ic, oc):
    return kw, kh, 1, ic


LINES = (
    lambda r: [r(3, 2, 4), r(9, 2), 1, 0, 1],
    lambda r: [r(3, 2, 4), r(9, 2, 3), 2, 1, 1],
    lambda r: [r(4, 3, 2), r(11, 3, 2), 3, 4, 2],
    lambda r: [r(7, 33, 18), r(150, 33, 2), 2, 3, 1],
)
LINES_ALONE = (
    lambda r: [r(3, 1, 2), r(9, 2), 1, 0, 1],
    lambda r: [r(3, 1, 2), r(9, 2, 3), 2, 1, 1],
    lambda r: [r(4, 1, 3), r(11, 3, 2), 3, 4, 2],
    lambda r: [r(7, 1, 33), r(1500, 33, 2), 2, 3, 1],
    lambda r: [r(3, 1, 2), r(9, 2, 0), 1, 0, 1],
)


def halved(f):
    """A reference without a padding argument: the padding is half the kernel."""
    return lambda w, x, *q: f(w, x, q[0], w.shape[-1] // 2, q[1])


SOLIDS = (
    lambda r: [r(3, 2, 2, 2 * 3), r(5, 4, 3, 2 * 2), 2, 1, 1, 1, 0, 0, 0, 1, 1, 1],
    lambda r: [r(2, 3, 2, 1 * 2), r(6, 5, 4, 1 * 2), 1, 2, 1, 2, 1, 1, 2, 2, 1, 1],
    lambda r: [r(3, 3, 3, 6 * 20), r(13, 12, 9, 6 * 2), 6, 1, 2, 1, 1, 1, 0, 1, 1, 2],
    lambda r: [r(3, 2, 2, 2 * 3), r(5, 4, 3, 0), 2, 1, 1, 1, 0, 0, 0, 1, 1, 1],
)
WRONG_SOLID = (lambda r: [r(3, 2, 2, 5), r(5, 4, 3, 4), 2, 1, 1, 1, 0, 0, 0, 1, 1, 1], ValueError, "IC is 2")

OPS = [
    conv_2d_row("conv_2d", correlate, full, WRONG_CHANNELS),
    conv_2d_row("conv_2d_direct", correlate, full, WRONG_CHANNELS),
    conv_2d_row("conv_2d_dw", correlate_each_channel, depthwise, WRONG_ALONE),
    conv_2d_row("conv_2d_dw_direct", correlate_each_channel, depthwise, WRONG_ALONE),
    conv_2d_row("conv_depthwise_2d", correlate_each_channel, depthwise, WRONG_ALONE),
    Op(
        "conv_2d_sk_p0",
        lambda w, x: correlate(w, x, w.shape[:-3:-1], [0, 0], [1, 1]),
        (lambda r: [r(3, 2, 2, 4), r(9, 6, 2, 2)], lambda r: [r(4, 4, 3, 33), r(64, 60, 3, 2)]),
        diff=(0, 1),
        tol=1e-5,
        bad=((lambda r: [r(3, 2, 2, 4), r(2, 6, 2, 2)], ValueError, "does not fit"),),
    ),
    Op(
        "conv_2d_s1_ph",
        lambda w, x: correlate(w, x, [1, 1], [n // 2 for n in w.shape[:-3:-1]], [1, 1]),
        (lambda r: [r(3, 2, 2, 4), r(6, 5, 2, 2)], lambda r: [r(3, 3, 9, 33), r(64, 60, 9, 1)]),
        diff=(0, 1),
        tol=1e-5,
        bad=((lambda r: [r(3, 3, 3, 4), r(6, 5, 2, 2)], ValueError, "channels must be equal"),),
    ),
    Op(
        "conv_1d",
        line(correlate),
        LINES,
        diff=(0, 1),
        types=MIXED,
        tol=1e-5,
        bad=(
            (lambda r: [r(3, 2, 4), r(9, 3), 1, 0, 1], ValueError, "channels must be equal"),
            (lambda r: [r(3, 2, 4), r(9, 2, 2, 2), 1, 0, 1], ValueError, "ne[3] must be 1"),
            (lambda r: [r(3, 2, 4), r(2, 2), 1, 0, 1], ValueError, "does not fit"),
        ),
    ),
    Op(
        "conv_1d_ph",
        halved(line(correlate)),
        tuple(lambda r, f=f: [*f(r)[:2], f(r)[2], f(r)[4]] for f in LINES[:2]),
        diff=(0, 1),
        tol=1e-5,
    ),
    Op(
        "conv_1d_dw",
        line(correlate_each_channel),
        LINES_ALONE,
        diff=(0, 1),
        types=MIXED,
        tol=1e-5,
        bad=((lambda r: [r(3, 1, 3), r(9, 2), 1, 0, 1], ValueError, "one kernel a channel"),),
    ),
    Op(
        "conv_1d_dw_ph",
        halved(line(correlate_each_channel)),
        tuple(lambda r, f=f: [*f(r)[:2], f(r)[2], f(r)[4]] for f in (*LINES_ALONE[:2], LINES_ALONE[-1])),
        diff=(0, 1),
        tol=1e-5,
    ),
    Op("conv_3d", solid, SOLIDS, diff=(0, 1), types=MIXED, tol=1e-5, bad=(WRONG_SOLID,)),
    Op(
        "conv_3d_direct",
        lambda w, x, *q: solid(w, x, q[9], *q[:9]),
        tuple(
            lambda r, f=f, n=n: [*f(r)[:2], *f(r)[3:], *n]
            for f, n in zip(SOLIDS, ((2, 2, 3), (1, 2, 2), (6, 2, 20), (2, 0, 3)))
        ),
        diff=(0, 1),
        types=MIXED,
        tol=1e-5,
        bad=(
            (
                lambda r: [r(3, 2, 2, 6), r(5, 4, 3, 4), 1, 1, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2],
                ValueError,
                "channels are 2 and 2",
            ),
            (
                lambda r: [r(3, 2, 2, 6), r(5, 4, 3, 4), 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 2, 3],
                ValueError,
                "need 1 or more",
            ),
        ),
    ),
    Op(
        "conv_transpose_1d",
        conv_transpose_1d,
        (
            lambda r: [r(3, 5, 4), r(9, 4), 2, 0, 1],
            lambda r: [r(2, 3, 2), r(5, 2, 2), 3, 0, 1],
            lambda r: [r(4, 3, 2), r(6, 2, 2), 2, 1, 2],
            lambda r: [r(16, 33, 40), r(70, 40), 8, 0, 1],
        ),
        diff=(0, 1),
        types=MIXED,
        tol=1e-5,
        bad=(
            (lambda r: [r(3, 5, 4), r(9, 3), 2, 0, 1], ValueError, "channels must be equal"),
            (lambda r: [r(3, 5, 4), r(9, 4), 0, 0, 1], ValueError, "stride is 0"),
            (lambda r: [r(3, 5, 4), r(1, 4), 1, 2, 1], ValueError, "padding is 2"),
        ),
    ),
    Op(
        "conv_transpose_2d_p0",
        conv_transpose_2d,
        (
            lambda r: [r(2, 2, 5, 4), r(6, 5, 4), 2],
            lambda r: [r(3, 2, 2, 3), r(4, 3, 3, 2), 1],
            lambda r: [r(2, 3, 2, 2), r(3, 2, 2, 2), 3],
            lambda r: [r(4, 4, 33, 40), r(17, 13, 40, 2), 2],
            lambda r: [r(3, 3, 2, 3), r(5, 61, 3, 2), 3],
        ),
        diff=(0, 1),
        types=MIXED,
        tol=1e-5,
        bad=(
            (lambda r: [r(2, 2, 5, 4), r(6, 5, 3), 2], ValueError, "channels must be equal"),
            (lambda r: [r(2, 2, 5, 4), r(6, 5, 4), -1], ValueError, "stride is -1"),
            (lambda r: [r(2, 2, 5, 4), r(0, 5, 4), 1], ValueError, "at 0 places"),
        ),
    ),
    Op(
        "im2col",
        im2col,
        (
            lambda r: [r(3, 2, 2, 4), r(6, 5, 2, 2), 1, 1, 0, 0, 1, 1, True, 0],
            lambda r: [r(3, 3, 2, 1), r(7, 6, 2), 2, 1, 1, 2, 1, 2, True, 0],
            lambda r: [r(3, 2, 4), r(9, 2, 3), 2, 0, 1, 0, 1, 0, False, 0],
            lambda r: [r(3, 3, 35, 2), r(41, 37, 35, 2), 1, 2, 1, 0, 1, 1, True, 0],
        ),
        diff=(1,),
        types=MIXED,
        bad=(
            (lambda r: [r(3, 2, 3, 4), r(6, 5, 2, 2), 1, 1, 0, 0, 1, 1, True, 0], ValueError, "channels must be equal"),
            (lambda r: [r(3, 2, 2, 4), r(6, 5, 2, 2), 1, 1, 0, 0, 1, 1, True, 26], ValueError, "i32"),
            (lambda r: [r(3, 2, 2, 4), r(2, 5, 2, 2), 1, 1, 0, 0, 1, 1, True, 0], ValueError, "does not fit"),
        ),
    ),
    Op(
        "im2col",
        im2col,
        (
            lambda r: [r(3, 2, 2, 4), r(6, 5, 2, 2), 1, 1, 0, 0, 1, 1, True, 1],
            lambda r: [r(3, 3, 9, 2), r(41, 37, 9, 2), 1, 2, 1, 0, 1, 1, True, 30],
        ),
        name="im2col_halves",
    ),
    Op(
        "im2col_back",
        im2col_back,
        (
            lambda r: [r(12, 4, 4, 2), r(3, 2, 2, 4), ne(6, 5, 2, 2), 1, 1, 0, 0, 1, 1, True],
            lambda r: [r(18, 4, 6, 1), r(3, 3, 2, 1), ne(7, 6, 2), 2, 1, 1, 2, 1, 2, True],
            lambda r: [r(6, 5, 3), r(3, 2, 4), ne(9, 2, 3), 2, 0, 1, 0, 1, 0, False],
        ),
        diff=(0,),
        tol=1e-5,
        bad=(
            (
                lambda r: [r(12, 4, 4, 2), r(3, 2, 2, 4), ne(6, 5, 2, 3), 1, 1, 0, 0, 1, 1, True],
                ValueError,
                "columns are",
            ),
            (
                lambda r: [r(12, 4, 4, 2), r(3, 2, 2, 4), ne(6, -5, 2, 2), 1, 1, 0, 0, 1, 1, True],
                ValueError,
                "must not be negative",
            ),
            (lambda r: [r(12, 4, 4, 2), r(3, 2, 2, 4), None, 1, 1, 0, 0, 1, 1, True], ValueError, "ne is None"),
        ),
    ),
    Op(
        "im2col_3d",
        im2col_3d,
        tuple(lambda r, f=f: [*f(r), 0] for f in SOLIDS),
        diff=(1,),
        types=MIXED,
        bad=((lambda r: [*WRONG_SOLID[0](r), 0], ValueError, "IC is 2"),),
    ),
    Op(
        "col2im_1d",
        col2im_1d,
        (
            lambda r: [r(6, 4), 2, 2, 0],
            lambda r: [r(12, 5, 2), 1, 3, 1],
            lambda r: [r(160, 70), 2, 40, 1],
        ),
        diff=(0,),
        tol=1e-5,
        bad=(
            (lambda r: [r(6, 4), 2, 4, 0], ValueError, "oc is 4"),
            (lambda r: [r(6, 4), 0, 2, 0], ValueError, "stride is 0"),
        ),
    ),
]
