"""Convolutions."""

import itertools

import numpy as np

from ..layout import SHARED
from ..recording import ggml
from ..sizes import int_of
from ..thin import ALTERNATE, PARTS
from ..values import F32, Known, OnHost, count, extents, is_constant
from . import rule
from .matmul import bytes_of, centred, codes_of, is_scale, matmul, scaled
from .shape import padded

ALONE = 4  # where taps that are 0 would be more than a 1/ALONE of a kernel's, each remainder is a convolution
GROUPS = 2  # of channels for each thread from which a thread computes groups alone
FEW = 8  # output places of a convolution that is computed as a product of vectors
BATCH, PAIRS, MATRIX = 8, 64, 1 << 20  # pictures, pairs of positions and elements of a product of whole pictures


def window(node, size, kernel):
    """Strides, dilations and pairs of padding before and after: one entry per spatial dimension of a window."""
    rank = len(size)
    strides, dilations = node.attr("strides") or [1] * rank, node.attr("dilations") or [1] * rank
    auto = node.attr("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = []
        for n, k, s, d in zip(size, kernel, strides, dilations):
            total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            less, more = total // 2, total - total // 2
            pads.append((less, more) if auto == "SAME_UPPER" else (more, less))
    else:
        flat = auto == "NOTSET" and node.attr("pads") or [0] * 2 * rank
        pads = list(zip(flat[:rank], flat[rank:]))
    return strides, dilations, pads


def places(size, kernel, strides, dilations, pads):
    """The number of places of a window along each spatial dimension."""
    out = [(n + p + q - d * (k - 1) - 1) // s + 1 for n, k, s, d, (p, q) in zip(size, kernel, strides, dilations, pads)]
    if min(out) < 1:
        raise ValueError(f"a window of {list(kernel)} does not fit into {list(size)}")
    return out


def windows(size, kernel, strides, dilations, pads, out):
    """Positions (out..., kernel...) flattened to (windows, elements); -1 in the padding, -2 beyond it."""
    place, beyond, inside = np.zeros((1, 1), np.int64), np.zeros((1, 1), bool), np.ones((1, 1), bool)
    for n, k, s, d, (p, q), o in zip(size, kernel, strides, dilations, pads, out):
        at = np.arange(o)[:, None] * s + np.arange(k) * d - p
        joined = [np.multiply.outer(place, np.ones_like(at)) * n + at]
        joined += [np.logical_or.outer(beyond, (at >= n + q)), np.logical_and.outer(inside, (at >= 0) & (at < n))]
        place, beyond, inside = (j.transpose(0, 2, 1, 3).reshape(place.shape[0] * o, -1) for j in joined)
    return np.where(inside, place, np.where(beyond, -2, -1))


@rule("Conv", on_floats=True)
def conv(b, node, x, w, bias=None):
    kernel = node.attr("kernel_shape")
    if kernel and list(kernel) != list(w.shape[2:]):
        raise ValueError(f"kernel_shape is {list(kernel)}, for weights of {list(w.shape)}")
    strides, dilations, pads = window(node, x.shape[2:], w.shape[2:])
    y = convolve(b, x, w, strides, dilations, pads, node.attr("group", 1), bias=bias)
    left_out = node.attr("ggml.squeezed")
    return y if left_out is None else b.reshape(y, [n for i, n in enumerate(y.shape) if i not in left_out])


def byte_conv(b, node, *operands):
    """A convolution of 8-bit integers, each with scale and zero point, and a bias; None if bytes do not give it."""
    codes, groups = codes_of(b, 0, *operands[:6]), node.attr("group", 1)
    if codes is None or groups == codes[0].shape[1] == codes[1].shape[0]:  # depthwise: there is no kernel of bytes
        return None
    x, w, zero, scale = codes
    strides, dilations, pads = window(node, x.shape[2:], w.shape[2:])
    bias, factor = [*operands[6:], None][0], b.reshape(scale, (count(scale.shape), *(1,) * (len(x.shape) - 2)))
    if not is_constant(scale) or not (bias is None or is_constant(bias)) or not is_scale(scale.array):
        return finished(b, scaled(b, convolve(b, x, w, strides, dilations, pads, groups, zero), factor), bias)
    s = scale.array
    row = bias and bias.derived(("over", s.tobytes()), lambda a: a.reshape(-1) / s)
    return scaled(b, convolve(b, x, w, strides, dilations, pads, groups, zero, row), factor)


def convolve(b, x, w, strides, dilations, pads, groups, zero=None, bias=None):
    """The convolution of x (n, c, spatial...) with w (m, c / groups, kernel...) - zero, with a bias per channel."""
    rank = len(x.shape) - 2
    if rank > 3 or rank < 1:
        raise OnHost(f"convolution in {rank} dimensions")
    if len(w.shape) != len(x.shape) or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ValueError(f"convolution of {list(x.shape)} with {list(w.shape)} in {groups} groups")
    if rank == 1:
        y = convolve(
            b,
            b.reshape(x, (*x.shape[:2], 1, x.shape[2])),
            b.reshape(w, (*w.shape[:2], 1, w.shape[2])),
            [1, *strides],
            [1, *dilations],
            [(0, 0), *pads],
            groups,
            zero,
            bias,
        )
        return b.reshape(y, (*y.shape[:2], y.shape[3]))
    if rank == 2 and 1 == w.shape[3] == x.shape[3] < x.shape[2] and not any(pads[1]):  # a column: as a row
        x, w = (b.reshape(v, (*v.shape[:2], 1, v.shape[2])) for v in (x, w))
        y = convolve(b, x, w, strides[::-1], dilations[::-1], pads[::-1], groups, zero, bias)
        return b.reshape(y, (*y.shape[:2], y.shape[3], 1))
    if not b.trains:
        w, pads = reading(b, x, w, strides, dilations, pads)
    depthwise = groups == x.shape[1] == w.shape[0] and rank == 2
    if groups == 1 and not depthwise and zero is None and (y := whole_product(b, x, w, strides, dilations, pads, bias)):
        return y
    if any(p != q for p, q in pads):
        x, pads = padded(b, x, pads), [(0, 0)] * rank
    before = [p for p, _ in pads]
    together = groups >= GROUPS * b.workers and rank == 2 and zero is None and x.bounds is None and not b.trains
    if groups > 1 and not depthwise and not together:
        c, m = x.shape[1] // groups, w.shape[0] // groups
        parts = [
            convolve(b, b.slice(x, 1, g * c, c), b.slice(w, 0, g * m, m), strides, dilations, pads, 1, zero)
            for g in range(groups)
        ]
        return finished(b, b.concat(parts, 1), bias)
    x = b.contiguous(x)
    size = places(x.shape[2:], w.shape[2:], strides, dilations, pads)
    sizes = [*strides[::-1], *before[::-1], *dilations[::-1]]
    shape = (x.shape[0], w.shape[0], *size)
    if rank == 2 and not depthwise and groups == 1 and x.shape[0] * count(size) <= FEW:
        return finished(b, columns(b, x, w, sizes, shape, zero), bias)
    row = None if bias is None else b.contiguous(b.reshape(bias, (shape[1],))).t
    codes = rank == 2 and not depthwise and groups == 1 and bytes_of(b, x, w, zero, count(w.shape[1:]), (0, 2, 3, 1))
    if codes:
        kernel = ggml.ggml_permute(b.ctx, codes[0], 2, 0, 1, 3)
        t = ggml.ext.conv_2d(b.ctx, kernel, x.t, *sizes, row, None, codes[1])  # type: ignore[call-arg]
        return b.with_shape(t, shape, x)
    w = w if zero is None else centred(b, w, zero, -1, np.int16)
    if rank == 3:
        kernel = b.use(b.reshape(w, (w.shape[0] * w.shape[1], *w.shape[2:])))
        data = b.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
        channels = x.shape[1], x.shape[0], w.shape[0]
        t = ggml.ggml_conv_3d_direct(b.ctx, kernel.t, data.t, *sizes, *channels)  # type: ignore[call-arg]
        return finished(b, b.with_shape(ggml.ggml_reshape_4d(b.ctx, t, *extents(shape)), shape, x), bias)
    w = b.contiguous(w)
    if b.trains or zero is not None or x.bounds:
        plain = ggml.ggml_conv_2d_dw_direct if depthwise else ggml.ggml_conv_2d
        return finished(b, b.with_shape(plain(b.ctx, w.t, x.t, *sizes), shape, x), bias)
    function, more = (ggml.ext.conv_2d_dw, ()) if depthwise else (ggml.ext.conv_2d, (0, 4, groups))
    return b.with_shape(function(b.ctx, w.t, x.t, *sizes, row, None, *more), shape, x)  # type: ignore[call-arg]


def reading(b, x, w, strides, dilations, pads):
    """The weights without outer taps that read padding alone, as with large dilations, and the padding that remains."""
    rest = list(pads)
    for i, (n, k, s, d, (p, q)) in enumerate(zip(x.shape[2:], w.shape[2:], strides, dilations, pads)):
        size = int_of(n)
        last = (size + p + q - d * (k - 1) - 1) // s * s  # where the last window begins, with the padding
        first = max(min(-((last - p) // d), p // d), 0)
        end = min(max(-(-(size + p) // d), k - q // d), k)
        if last >= 0 and 0 < end - first < k and n == size:  # a condition
            w = b.slice(w, 2 + i, first, end - first)
            rest[i] = p - first * d, q - (k - end) * d
    return w, rest


def whole_product(b, x, w, strides, dilations, pads, bias):
    """A convolution as the product of whole pictures with a matrix; None where other ways take less time.

    That of several pictures of few positions, most pairs of which (one of x, one of the result) a tap connects.
    """
    if not is_weight(b, w) or {x.dtype, w.dtype} != {F32}:
        return None
    size = places(x.shape[2:], w.shape[2:], strides, dilations, pads)
    pairs = count(x.shape[2:]) * count(size)
    few = x.shape[0] >= BATCH and pairs <= PAIRS and pairs * count(w.shape[:2]) <= MATRIX
    if not few or x.shape[0] * count(size) <= FEW:
        return None
    before, after = ([int_of(n) for n in shape if n == int_of(n)] for shape in (x.shape[2:], size))  # a condition
    place = windows(before, w.shape[2:], strides, dilations, pads, after)
    if 3 * count(before) * count(after) > 5 * (place >= 0).sum():
        return None

    def spread(array):
        """The matrix, with the kernel at each position of the result."""
        taps = array.reshape(*array.shape[:2], -1)
        matrix = np.zeros((taps.shape[1], count(before), taps.shape[0], len(place)), np.float32)
        for at, tap in zip(*np.nonzero(place >= 0)):
            matrix[:, place[at, tap], :, at] = taps[:, :, tap].T
        return matrix.reshape(taps.shape[1] * matrix.shape[1], -1)

    matrix = w.derived(("pictures", place.tobytes()), spread)
    y = matmul(b, b.reshape(x, (x.shape[0], matrix.shape[0])), matrix)
    if bias is not None:
        channels = b.expand(b.reshape(bias, (w.shape[0], 1)), (w.shape[0], count(after)))
        y = b.add(y, b.reshape(channels, (matrix.shape[1],)))
    return b.reshape(y, (x.shape[0], w.shape[0], *after))


def finished(b, y, bias=None):
    """A convolution with its bias."""
    return y if bias is None else b.add(y, b.reshape(bias, (1, y.shape[1], *(1,) * (len(y.shape) - 2))))


@rule("ConvTranspose", on_floats=True)
def conv_transpose(b, node, x, w, bias=None):
    rank, groups = len(x.shape) - 2, node.attr("group", 1)
    kernel = w.shape[2:]
    if rank < 1 or len(w.shape) != len(x.shape):
        raise ValueError(f"images {list(x.shape)} and a kernel {list(w.shape)}: both need the same 3 or more axes")
    strides, dilations, pads = window(node, x.shape[2:], kernel)
    extra = node.attr("output_padding") or [0] * rank
    extent = [d * (k - 1) for d, k in zip(dilations, kernel)]
    full = [(n - 1) * s + r + 1 + e for n, s, r, e in zip(x.shape[2:], strides, extent, extra)]
    auto, size = node.attr("auto_pad", "NOTSET"), node.attr("output_shape")
    if size or auto in ("SAME_UPPER", "SAME_LOWER"):
        size = size[-rank:] if size else [n * s for n, s in zip(x.shape[2:], strides)]
        total = [max(f - o, 0) for f, o in zip(full, size)]
        pads = [(t // 2, t - t // 2) if auto == "SAME_UPPER" else (t - t // 2, t // 2) for t in total]
        extra = [e + max(o - f, 0) for e, f, o in zip(extra, full, size)]
    m = w.shape[1]
    if not x.shape[0]:  # no images, which the reference does not take
        ends = [(n - 1) * s + r + 1 + e for n, s, r, e in zip(x.shape[2:], strides, extent, extra)]
        return Known(np.empty((0, groups * m, *(end - p - q for end, (p, q) in zip(ends, pads))), x.dtype))
    if set(dilations) == {1} and is_weight(b, w) and by_phases(x, kernel, strides, groups, m, any(extra)):
        ends = [f - p - q for f, (p, q) in zip(full, pads)]
        if min(ends) > 0:
            return phases(b, x, w, strides, [p for p, _ in pads], ends, groups, bias)
    if rank <= 2 and groups == 1 and len(set(strides)) == 1 < strides[0] and set(dilations) == {1} and not any(extra):
        return finished(b, cropped(b, transposed(b, x, w, strides[-1]), pads), bias)
    x = spaced(b, x, strides)
    kernels = b.reshape(w, (groups, w.shape[0] // groups, m, *kernel))
    kernels = b.reshape(b.move(kernels, 1, 2), (groups * m, w.shape[0] // groups, *kernel))
    for axis in range(2, 2 + rank):
        kernels = b.flip(kernels, axis)
    padding = [(r - p, r - q + e) for r, (p, q), e in zip(extent, pads, extra)]
    less = [(max(-p, 0), max(-q, 0)) for p, q in padding]
    padding = [(max(p, 0), max(q, 0)) for p, q in padding]
    if any(map(any, less)):  # from what is padded, of which more may be left out than x has
        x, padding = cropped(b, padded(b, x, padding), less), [(0, 0)] * rank
    return finished(b, convolve(b, x, kernels, [1] * rank, dilations, padding, groups), bias)


def by_phases(x, kernel, strides, groups, m, extra):
    """Whether a transposed convolution takes less time as a convolution with more channels."""
    rank = len(kernel)
    if rank > 2 or max(strides) == 1 or min(kernel) < 1:
        return False
    if rank == 1:
        return strides[0] > 4 or groups < x.shape[1] or m > 1  # else zeros between neighbours are few
    return list(kernel) != list(strides) or groups > 1 or extra or len(set(strides)) > 1


def is_weight(b, w):
    """Whether a value is constant, so that what is made of it is made once."""
    return is_constant(w) and w.arena and not (b.trains or b.weights)


def phases(b, x, w, strides, starts, size, groups, bias):
    """A transposed convolution as a convolution with a channel for each remainder of a position modulo the stride, or
    as a convolution for each of them.

    starts: how many positions of the whole result are left out along each axis; size: how many follow.
    """
    if len(strides) == 1:
        x, w = b.reshape(x, (*x.shape[:2], 1, x.shape[2])), b.reshape(w, (*w.shape[:2], 1, w.shape[2]))
        y = phases(b, x, w, [1, *strides], [0, *starts], [1, *size], groups, bias)
        return b.reshape(y, (*y.shape[:2], y.shape[3]))
    m, (high, wide), kernel = groups * w.shape[1], strides, w.shape[2:]
    taps = [-(-k // s) for k, s in zip(kernel, strides)]
    alone = groups == 1 and high * wide <= PARTS and all(min(k, n) >= s for k, n, s in zip(kernel, size, strides))
    if alone and ALONE * count(taps) * high * wide > (ALONE + 1) * count(kernel):  # many taps would be zeros
        planes, *begins = remainders(b, x, w, strides, starts, size, bias)
    else:
        first = [p // s for p, s in zip(starts, strides)]  # blocks of a stride that are left out
        blocks = [-(-(p + n) // s) - f for p, n, s, f in zip(starts, size, strides, first)]
        pads = [(t - 1 - f, f + c - n) for t, f, c, n in zip(taps, first, blocks, x.shape[2:])]

        def split(array):
            """The kernels (m * high * wide, channels, taps...): those of a remainder are a stride apart, in reverse."""
            room = [(0, t * s - k) for t, s, k in zip(taps, strides, array.shape[2:])]
            array = np.pad(array, [(0, 0), (0, 0), *room])
            array = array.reshape(groups, -1, m // groups, taps[0], high, taps[1], wide)[:, :, :, ::-1, :, ::-1]
            return array.transpose(0, 2, 4, 6, 1, 3, 5).reshape(m * high * wide, -1, *taps)

        if bias is not None:
            bias = b.reshape(b.expand(b.reshape(bias, (m, 1)), (m, high * wide)), (m * high * wide,))
        planes = [planes_of(b, x, w.derived(("phases", groups, *strides), split), pads, groups, bias)]
        begins = [[int(r < p % s) for r in range(s)] for p, s in zip(starts, strides)]
    return alternating(b, x, planes, strides, [p % s for p, s in zip(starts, strides)], begins, (x.shape[0], m, *size))


def remainders(b, x, w, strides, starts, size, bias):
    """A transposed convolution as one for each remainder; and where its planes begin to be read, along each axis."""
    along = [sides(*axis) for axis in zip(w.shape[2:], strides, starts, x.shape[2:], size)]
    planes = []
    for (down, *pads, _), (across, *more, _) in itertools.product(*along):

        def part(array, down=down, across=across):
            return array[:, :, down, across][:, :, ::-1, ::-1].swapaxes(0, 1)

        kernel = w.derived(("remainder", down.start, across.start, *strides), part)
        planes.append(planes_of(b, x, kernel, pads + more, 1, bias))
    return planes, *([begin for *_, begin in axis] for axis in along)


def sides(taps, stride, start, n, size):
    """The taps of each remainder, its padding, and where what is read of it begins.

    n: entries of x along the axis; start, size: what is read of the whole result.
    """
    found = []
    for r in range(stride):
        first, end = -(-(start - r) // stride), -(-(start + size - r) // stride)
        before, after = -(-(taps - r) // stride) - 1 - first, end - n
        more = max(int(after - before), 0)  # positions that are computed in vain, so that both sides are alike
        found.append((slice(r, None, stride), (before + more, max(after, before)), more))
    return found


def planes_of(b, x, kernels, pads, groups, bias):
    """A convolution with a stride of 1, whose padding may be less than nothing, as a tensor of planes."""
    x = cropped(b, x, [(max(-p, 0), max(-q, 0)) for p, q in pads])
    pads = [(max(p, 0), max(q, 0)) for p, q in pads]
    y = b.contiguous(convolve(b, x, kernels, [1, 1], [1, 1], pads, groups, bias=bias))
    return b.reshape(y, (count(y.shape[:2]), *y.shape[2:])).t


def alternating(b, x, planes, strides, rest, begins, shape):
    """The value of a shape whose rows and columns are those of planes in turns."""
    numbers = np.array([int(n) for n in itertools.chain(strides, rest, *begins)], np.int32)
    t = b.compiled(shape[3], count(shape[:3]), ALTERNATE, count(shape) >= SHARED, *planes, data=numbers)
    return b.with_shape(t, shape, x)


def columns(b, x, w, sizes, shape, zero):
    """A convolution of few output places, as a product with a matrix of windows."""
    s0, s1, p0, p1, d0, d1 = sizes
    depth, points = count(w.shape[1:]), count(shape[2:])
    codes = bytes_of(b, x, w, zero, depth, (0, 1, 2, 3))
    matrix = codes or (b.contiguous(w if zero is None else centred(b, w, zero, -1, np.int16)).t,)
    kernel = ggml.ggml_reshape_4d(b.ctx, matrix[0], *extents(w.shape))
    windows = ggml.ggml_im2col(b.ctx, kernel, x.t, s0, s1, p0, p1, d0, d1, True, ggml.GGML_TYPE_F32)
    windows = ggml.ggml_reshape_2d(b.ctx, windows, depth, shape[0] * points)
    flat = ggml.ggml_reshape_2d(b.ctx, kernel, depth, shape[1])
    product = (ggml.ext.mul_mat_i8 if codes else ggml.ggml_mul_mat)(b.ctx, flat, windows, *matrix[1:])
    y = b.with_shape(product, (shape[0] * points, shape[1]), x)
    return b.reshape(b.transpose(b.reshape(y, (shape[0], points, shape[1])), (0, 2, 1)), shape)


def cropped(b, x, pads):
    """x without what lies in the padding."""
    for axis, (p, q) in enumerate(pads, 2):
        x = b.slice(x, axis, p, x.shape[axis] - p - q)
    return x


def transposed(b, x, w, stride):
    """The transposed convolution of planes, or of rows: planes of one row whose other stride does not matter."""
    flat = len(x.shape) == 3
    if flat:
        x, w = b.reshape(x, (*x.shape[:2], 1, x.shape[2])), b.reshape(w, (*w.shape[:2], 1, w.shape[2]))
    t = ggml.ggml_conv_transpose_2d_p0(b.ctx, b.contiguous(w).t, b.contiguous(x).t, stride)
    size = [(n - 1) * stride + k for n, k in zip(x.shape[2:], w.shape[2:])]
    shape = (x.shape[0], w.shape[1], *size)
    return b.reshape(b.with_shape(t, shape, x), (*shape[:2], size[1]) if flat else shape)


def spaced(b, x, strides):
    """x with stride - 1 zeros between neighbours."""
    for axis, s in enumerate(strides, 2):
        n = x.shape[axis]
        if s == 1 or n == 1:
            continue
        outer, inner = count(x.shape[:axis]), count(x.shape[axis + 1 :])
        wide = padded(b, b.reshape(x, (outer * n, 1, inner)), [(0, s - 1), (0, 0)])
        wide = b.reshape(wide, (*x.shape[:axis], n * s, *x.shape[axis + 1 :]))
        x = b.slice(wide, axis, 0, (n - 1) * s + 1)
    return x


@rule("ConvInteger")
def conv_integer(b, node, x, w, x_zero=None, w_zero=None, bias=None):
    if bias is not None and bias.shape != (1, w.shape[0], *(1,) * (len(w.shape) - 2)):
        raise OnHost("what is added is no bias")
    if w_zero is not None and count(w_zero.shape) > 1:
        raise OnHost("a zero point per channel")
    x = centred(b, x, x_zero, -1)
    strides, dilations, pads = window(node, x.shape[2:], w.shape[2:])
    terms, groups = count(w.shape[1:]), node.attr("group", 1)
    zeros = (0,) if w_zero is None else w_zero.bounds
    corners = [p * (q - z) * terms for p in (*x.bounds, 0) for q in w.bounds for z in zeros]

    def sums(b, x, w):
        y = convolve(b, x, w, strides, dilations, pads, groups, w_zero, bias)
        return b.like(y.t, y.shape, y.dtype, y.bounds and (min(corners), max(corners)))

    return b.sums(node, sums, x, w)


@rule("ggml.ByteConv")
def bytes_convolved(b, node, *operands):
    y = byte_conv(b, node, *operands)
    if y is None:
        raise OnHost("a convolution of floats")
    return y
