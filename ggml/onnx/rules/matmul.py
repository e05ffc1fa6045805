"""Matrix products."""

import ctypes

import numpy as np

from ..recording import ggml
from ..thin import PAIRED, PRODUCT, WIDTH
from ..values import (
    F32,
    Known,
    OnHost,
    Tensor,
    broadcast,
    count,
    extents,
    is_constant,
    is_float,
    is_integer,
    require_held,
)
from . import rule

ROWS, DEEP, LEAST = 256, 32, 3  # rows of a thin product, elements of each, columns of the matrix
SHARED = 1 << 18  # multiplications that threads share
FEW = 16  # products with each element from which it pays to make bytes of computed integers


def weight(b, x, y):
    """The transposed matrices of y as a ggml tensor to multiply x with, in the type that weights are stored in."""
    if not isinstance(y, Known):
        view = b.transpose(y, [*range(len(y.shape) - 2), len(y.shape) - 1, len(y.shape) - 2])
        return b.use(view).t
    require_held(y)
    last = len(y.shape) - 1
    return stored(b, y, (*range(last - 1), last, last - 1), stored_type(b, x, y) if y.arena else ggml.GGML_TYPE_F32)


def stored(b, y, axes, kind=ggml.GGML_TYPE_F32):
    """The constant y with its axes in an order, as a tensor of a type (I8: of unsigned bytes minus 128)."""
    if (axes, kind) not in y.tensors:
        home = y.arena or b.arena
        array = y.array.transpose(axes)
        if (kind, y.dtype) == (ggml.GGML_TYPE_I8, np.uint8):
            array = np.bitwise_xor(array, 128, out=home.room(array.shape, y.dtype)).view(np.int8)
        y.tensors[axes, kind] = home, stored_as(home, array, kind)
        if kind == ggml.GGML_TYPE_I8 or kind == ggml.GGML_TYPE_F32 and y.dtype == F32:
            y.held = home.arrays[-1].transpose(np.argsort(axes))  # so that the weights are held once
    return y.tensors[axes, kind][1]


def stored_type(b, x, y):
    """The type that a matrix of weights is stored in: rows of a quantised type must be whole blocks."""
    kind = b.weights
    if is_integer(y.dtype) and max(map(abs, y.bounds + (x.bounds or (0,)))) <= 2048:
        return ggml.GGML_TYPE_F16  # represents them exactly, and products with it are summed in F32
    if kind is None or len(y.shape) < 2 or y.shape[-2] % ggml.ggml_blck_size(kind) or y.shape[-1] < 2:
        return ggml.GGML_TYPE_F32
    return kind if is_float(y.dtype) else ggml.GGML_TYPE_F32


def stored_as(arena, array, kind):
    """A tensor with the values of an array in a type, or of bytes in I8."""
    if kind in (ggml.GGML_TYPE_F32, ggml.GGML_TYPE_I8):
        return arena.hold(array, array.shape, np.int8 if kind == ggml.GGML_TYPE_I8 else np.float32)
    array = np.require(array, np.float32, ["C", "A"])
    t = ggml.ggml_new_tensor_4d(arena.ctx, kind, *extents(array.shape))
    rows = count(array.shape[:-1])
    ggml.ggml_quantize_chunk(
        kind,
        array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
        ctypes.c_void_p(ggml.ggml_get_data(t)),
        0,
        rows,
        array.shape[-1],
        None,
    )
    return t


def bytes_of(b, x, y, zero, k, axes):
    """The constant bytes y with its axes in an order, as an I8 tensor, and what products add to its elements.

    None if y, its zero point, or what it is multiplied with are of another kind.
    """
    if not (
        isinstance(y, Known)
        and y.dtype in (np.uint8, np.int8)
        and x.bounds
        and max(map(abs, x.bounds)) <= 255
        and (zero is None or isinstance(zero, Known) and zero.array.size == 1)
        and k <= 1 << 14
    ):
        return None
    offset = (0 if y.dtype == np.int8 else 128) - (0 if zero is None else int(zero.array.reshape(())))
    return stored(b, y, axes, ggml.GGML_TYPE_I8), offset


def fits_bytes(x):
    """Whether an operand holds whole numbers that differ by 255 at most, or integers of bytes less a zero point."""
    return x.bounds is not None and max(map(abs, x.bounds)) <= 255


def computed_codes(b, x, x_scale, y, y_scale, y_zero):
    """`codes_of` where y is computed, too; it has one scale and one zero point."""
    one = [v is None or count(v.shape) == 1 for v in (y_scale, y_zero)]
    if not (is_integer(y.dtype) and all(one) and y_scale.dtype == F32 and whole(x, y)):
        return None
    codes = centred(b, y, y_zero and b.reshape(y_zero, ()), -1)
    return x, Tensor(b.use(codes).t, y.shape, F32, codes.bounds), None, product_of(b, x_scale, y_scale)


def whole(x, y):
    """Whether the product of computed x and y is that of small integers, of which it pays to make bytes."""
    if isinstance(y, Known) or min(len(x.shape), len(y.shape)) < 2 or not (fits_bytes(x) and fits_bytes(y)):
        return False
    m, n = x.shape[-2], y.shape[-1]
    return bool(x.shape[-1] <= 1 << 14 and m * n >= FEW * (m + n))


def codes_of(b, along, x, x_scale, x_zero, y, y_scale, y_zero):
    """The factors of a product of integers: x less its zero point, y, its zero point, and the product of both scales.

    None if bytes do not give it: x has one scale, or is F32; y has one zero point, and one scale or, if it is constant,
    a vector of them for its axis `along`.
    """
    one = [v is None or count(v.shape) == 1 for v in (x_scale, x_zero)]
    if not (is_integer(x.dtype) and fits_bytes(x) and all(one) and x_scale.dtype == F32 and not b.trains):
        return None
    integers = centred(b, x, x_zero and b.reshape(x_zero, ()), -1)
    integers = Tensor(b.use(integers).t, x.shape, F32, integers.bounds)
    if isinstance(y, Tensor):
        return computed_codes(b, integers, x_scale, y, y_scale, y_zero)
    if not (isinstance(y, Known) and count(y.shape)):
        return None
    constant = isinstance(y_scale, Known) and (y_zero is None or isinstance(y_zero, Known) and not np.ptp(y_zero.array))
    if y.dtype not in (np.uint8, np.int8) or not constant or len(y_scale.shape) > 1:
        return None
    if count(y_scale.shape) > 1 and count(y_scale.shape) != y.shape[along]:
        return None
    return integers, y, y_zero and Known(y_zero.array.reshape(-1)[0]), product_of(b, x_scale, y_scale)


def product_of(b, x_scale, y_scale):
    """The product of one scale and another one or a vector of them."""
    if is_constant(x_scale) and is_constant(y_scale):
        s = x_scale.array.reshape(())
        return y_scale.derived(("times", s.tobytes()), lambda a: np.ravel(a) * s)
    return b.mul(b.reshape(x_scale, ()), b.reshape(y_scale, (count(y_scale.shape),)))


def byte_matmul(b, node, *operands):
    """The product of 8-bit integers, each with scale and zero point; None if bytes do not give it."""
    x, y = operands[0], operands[3]
    matrices = len(x.shape) > 1 and (len(y.shape) == 2 or isinstance(y, Tensor))
    codes = codes_of(b, 1, *operands[:6]) if matrices else None
    if codes is None:
        return None
    return scaled(b, matmul(b, *codes[:3]), codes[3])


def scaled(b, sums, scale):
    """Sums of products of integers times a scale, or scales, as F32."""
    sums = Tensor(sums.t, sums.shape, F32)
    factors = (sums, scale) if is_constant(scale) and is_scale(scale.array) else None
    return Tensor(b.mul(sums, scale).t, sums.shape, F32, factors=factors)


def is_scale(array):
    """Whether quotients by scales are finite."""
    return bool((array > 1e-20).all() and (array < 1e20).all())


def matmul(b, x, y, zero=None):
    """numpy.matmul of x and y - zero."""
    if len(y.shape) == 1:
        z = matmul(b, x, b.reshape(y, (*y.shape, 1)), zero)
        return b.reshape(z, z.shape[:-1])
    if len(x.shape) == 1:
        z = matmul(b, b.reshape(x, (1, *x.shape)), y, zero)
        return b.reshape(z, (*z.shape[:-2], z.shape[-1]))
    (m, k), n = x.shape[-2:], y.shape[-1]
    if y.shape[-2] != k:
        raise ValueError(f"the product of {list(x.shape)} and {list(y.shape)}: inner dimensions differ")
    if zero is None and is_thin(b, x, y):
        return thin(b, x, y)
    batch = broadcast(x.shape[:-2], y.shape[:-2])
    known = bytes_of(b, x, y, zero, k, (1, 0)) if len(y.shape) == 2 else None
    y = y if zero is None or known else centred(b, y, zero, -1, np.int16)
    integers = whole(x, y)
    bounds = None
    if x.bounds and y.bounds:
        ends = zero.bounds if zero is not None and known else (0,)
        corners = [a * (c - z) * k for a in x.bounds for c in y.bounds for z in ends]
        bounds = min(corners), max(corners)
    shape = (*batch, m, n)
    if count(y.shape[:-2]) == 1:
        matrix = known or (weight(b, x, b.reshape(y, (k, n)) if len(y.shape) > 2 else y),)
        rows = b.reshape(x, (count(x.shape[:-1]), k))
    else:
        both = count(batch)
        y = b.reshape(b.expand(y, (*batch, k, n)), (both, k, n)) if y.shape[:-2] != (both,) else y
        matrix = (weight(b, x, y),)
        rows = b.reshape(b.expand(x, (*batch, m, k)), (both, m, k))
    if integers:
        product = ggml.ext.mul_mat_whole(b.ctx, *(rows_of(b, t) for t in (matrix[0], b.use(rows).t)))
    else:
        multiply = ggml.ext.mul_mat_i8 if known else ggml.ggml_mul_mat
        product = multiply(b.ctx, matrix[0], b.contiguous(rows).t, *matrix[1:])
    return b.reshape(b.like(product, (*rows.shape[:-1], n), x.dtype, bounds), shape)


def rows_of(b, t):
    """A tensor whose rows have contiguous elements."""
    return t if b.ask(ggml.ggml_is_contiguous_rows, t) else ggml.ggml_cont(b.ctx, t)


def is_thin(b, x, y):
    """Whether x has many short rows, and y is a small constant matrix, for which there is compiled code."""
    if not is_constant(y) or len(y.shape) != 2 or {x.dtype, y.dtype} != {F32}:
        return False
    k, n = y.shape
    small = 0 < k <= DEEP and LEAST <= n <= 2 * WIDTH and b.weights is None and not b.trains
    return bool(small and count(x.shape) >= ROWS * k)


def thin(b, x, y, bias=None):
    """The product with such a matrix, plus a vector."""
    k, n = y.shape
    rows, last = count(x.shape[:-1]), np.zeros(n, np.float32) if bias is None else bias.array.reshape(n)
    w = b.use(y.derived(("thin", last.tobytes()), lambda a: padded(a, last)))
    t = b.compiled(n, rows, PRODUCT, rows * k * n >= SHARED, b.table(b.reshape(x, (rows, k))).t, w.t)
    return b.reshape(Tensor(t, (rows, n), F32), (*x.shape[:-1], n))


def padded(matrix, last):
    """The matrix and a last row in whole vectors; of few columns, rows in pairs, with 0 where the second is missing."""
    k, n = matrix.shape
    if n > PAIRED:
        return np.pad(np.vstack([matrix, last]), ((0, 0), (0, -n % WIDTH)))
    rows = np.pad(matrix, ((0, k % 2), (0, PAIRED - n))).reshape(-1, 2, PAIRED)
    last = np.stack([np.pad(last, (0, PAIRED - n)), np.zeros(PAIRED, np.float32)])[None]
    return np.concatenate([rows, last]).swapaxes(1, 2).reshape(-1, WIDTH)


rule("MatMul")(lambda b, node, x, y: matmul(b, x, y))


@rule("Gemm", on_floats=True)
def gemm(b, node, x, y, c=None):
    x = b.transpose(x, (1, 0)) if node.attr("transA", 0) else x
    y = b.transpose(y, (1, 0)) if node.attr("transB", 0) else y
    for v in (x, y):
        if len(v.shape) != 2:
            raise ValueError(f"the product of {list(x.shape)} and {list(y.shape)}: both must have two axes")
    alone = node.attr("alpha", 1.0) == 1 == node.attr("beta", 1.0) and x.shape[1] == y.shape[0]
    if alone and is_constant(c) and c.shape in (y.shape[1:], (1, *y.shape[1:])):
        if is_thin(b, x, y) and c.dtype == F32:
            return thin(b, x, y, c)
    return scaled_sum(b, node, matmul(b, x, y), c)


def scaled_sum(b, node, z, c):
    """The product z of a Gemm times alpha, plus c times beta."""
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    z = b.affine(z, alpha) if alpha != 1.0 else z
    if c is None or not beta:
        return z
    return b.add(z, b.affine(c, beta) if beta != 1.0 else c)


def byte_gemm(b, node, *operands):
    """A Gemm of 8-bit integers, each with scale and zero point, and c; None if bytes do not give it."""
    x, x_scale, x_zero, y, *rest = operands
    if node.attr("transA", 0):
        return None
    y = b.transpose(y, (1, 0)) if node.attr("transB", 0) else y
    z = byte_matmul(b, node, x, x_scale, x_zero, y, *rest[:2])
    return z and scaled_sum(b, node, z, *[*rest[2:], None][:1])


@rule("ggml.ByteMatMul", "ggml.ByteGemm")
def bytes_multiplied(b, node, *operands):
    z = (byte_gemm if node.op == "ggml.ByteGemm" else byte_matmul)(b, node, *operands)
    if z is None:
        raise OnHost("a product of floats")
    return z


@rule("ggml.Lookup")
def looked_up(b, node, index, dims, w):
    """Rows of the matrix w; rows of zeros for an index that it does not have. dims: what the index is expanded to."""
    n = w.shape[0]
    shape = broadcast(index.shape, () if dims is None else tuple(b.ints(dims)))
    if index.shape[-1:] != (1,) or shape[:-1] != index.shape[:-1] or shape[-1] not in (1, n):
        raise OnHost("no index of rows")
    index = b.reshape(index, index.shape[:-1])
    inside = b.clamp(index, 0, n - 1)
    there = b.like(b.equal(index, inside).t, index.shape, F32)
    return b.mul(b.gather(w, 0, inside), b.reshape(there, (*index.shape, 1)))


rule("MatMulInteger")(
    lambda b, node, x, y, x_zero=None, y_zero=None: b.sums(
        node, lambda b, x, y: matmul(b, x, y, y_zero), centred(b, x, x_zero, -2), y
    )
)


def centred(b, x, zero, axis, held=np.int32):
    """An integer operand minus its zero point, as int32; a zero point per row or column stands along an axis.

    A constant second operand of 8 bits may be held as int16: the first one gives the sums their type.
    """
    shape = x.shape
    if zero is not None and count(zero.shape) != 1:
        own = (*zero.shape, *(1,) * (-1 - axis)) if len(zero.shape) == 1 else zero.shape
        if broadcast(tuple(shape), own) != tuple(shape):
            rows = "rows" if axis == -2 else "columns"
            raise ValueError(f"the zero point {list(zero.shape)} is for other {rows} than {list(shape)} has")
    if isinstance(x, Known) and (zero is None or isinstance(zero, Known)):
        held = held if x.dtype.itemsize == 1 else np.int32
        z = held(0) if zero is None else zero.array.astype(held)
        z = z.reshape((*z.shape, *(1,) * (-1 - axis))) if z.ndim == 1 and z.size > 1 else z
        return x.derived(("centred", held, z.shape, z.tobytes()), lambda a: a.astype(held) - z)
    x = b.use(x)
    wide = b.like(x.t, shape, np.dtype(np.int32), x.bounds)
    if zero is None or is_constant(zero) and not zero.array.any():
        return wide
    if len(zero.shape) == 1 and zero.shape[0] > 1:
        zero = b.reshape(zero, (*zero.shape, *(1,) * (-1 - axis)))
    return b.sub(wide, zero)
