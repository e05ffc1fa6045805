"""Matrix products."""

import ctypes

import numpy as np

import ggml

from ..layout import room
from ..origins import Dequantized, OneHot, Quantized
from ..values import F32, Known, Tensor, count, extents, is_float, is_integer, require_held
from . import rule
from .fused import looked_up


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
            array = np.bitwise_xor(array, 128, out=room(array.shape, y.dtype)).view(np.int8)
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


def codes_of(b, x, y, axis):
    """Operands that were made of bytes: x less its zero point, y, its zero point, and the product of both scales.

    None if they were not. The scale of y is one number, or has one for each entry of the axis.
    """
    origin, parts = x.origin, isinstance(y, Known) and y.tensors.get("codes")
    if not isinstance(origin, Dequantized) or not parts or b.trains or not count(y.shape):
        return None
    codes, scale, zero, along = parts
    if (
        codes.dtype not in (np.uint8, np.int8)
        or zero is not None
        and np.ptp(zero.array)
        or scale.array.size > 1
        and (scale.array.ndim > 1 or along % len(y.shape) != axis)
    ):
        return None
    integers = b.use(origin.codes)
    return (
        Tensor(integers.t, x.shape, F32, origin.codes.bounds),
        codes,
        zero and Known(zero.array.reshape(-1)[0]),
        b.mul(origin.scale, scale.derived("flat", np.ravel)),
    )


def matmul(b, x, y, zero=None):
    """numpy.matmul of x and y - zero."""
    codes = codes_of(b, x, y, 1) if len(x.shape) > 1 and len(y.shape) == 2 else None
    if codes:
        z = matmul(b, *codes[:3])
        return b.mul(Tensor(z.t, z.shape, F32), codes[3])
    if len(y.shape) == 1:
        z = matmul(b, x, b.reshape(y, (*y.shape, 1)), zero)
        return b.reshape(z, z.shape[:-1])
    if len(x.shape) == 1:
        z = matmul(b, b.reshape(x, (1, *x.shape)), y, zero)
        return b.reshape(z, (*z.shape[:-2], z.shape[-1]))
    (m, k), n = x.shape[-2:], y.shape[-1]
    if y.shape[-2] != k:
        raise ValueError(f"ggml.onnx: the product of {list(x.shape)} and {list(y.shape)}: inner dimensions differ")
    if isinstance(x.origin, OneHot) and isinstance(y, Known) and len(y.shape) == 2:
        return looked_up(b, x, y)
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    known = bytes_of(b, x, y, zero, k, (1, 0)) if len(y.shape) == 2 else None
    y = y if zero is None or known else centred(b, y, zero, -1, np.int16)
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
    product = (ggml.ext.mul_mat_i8 if known else ggml.ggml_mul_mat)(b.ctx, matrix[0], b.contiguous(rows).t, *matrix[1:])
    return b.reshape(b.like(product, (*rows.shape[:-1], n), x.dtype, bounds), shape)


rule("MatMul")(lambda b, node, x, y: matmul(b, x, y))


@rule("Gemm", on_floats=True)
def gemm(b, node, x, y, c=None):
    x = b.transpose(x, (1, 0)) if node.attr("transA", 0) else x
    if node.attr("transB", 0):
        codes = y.tensors.get("codes") if isinstance(y, Known) else None
        y = b.transpose(y, (1, 0))
        if codes:
            y.tensors["codes"] = b.transpose(codes[0], (1, 0)), *codes[1:3], 1 - codes[3] % 2
    z = matmul(b, x, y)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    z = b.affine(z, alpha) if alpha != 1.0 else z
    if c is None or not beta:
        return z
    return b.add(z, b.affine(c, beta) if beta != 1.0 else c)


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
    if isinstance(x, Known) and (zero is None or isinstance(zero, Known)):
        held = held if x.dtype.itemsize == 1 else np.int32
        z = held(0) if zero is None else zero.array.astype(held)
        z = z.reshape((*z.shape, *(1,) * (-1 - axis))) if z.ndim == 1 and z.size > 1 else z
        return x.derived(("centred", held, z.shape, z.tobytes()), lambda a: a.astype(held) - z)
    origin, x = x.origin, b.use(x)
    own = origin.zero if isinstance(origin, Quantized) else None
    if (
        own
        and zero
        and (own is zero or all(isinstance(v, Known) for v in (own, zero)) and np.array_equal(own.array, zero.array))
    ):
        less = origin.less()
        return Tensor(less.t, shape, np.dtype(np.int32), tuple(n - z for n, z in zip(x.bounds, zero.bounds[::-1])))
    wide = b.like(x.t, shape, np.dtype(np.int32), x.bounds)
    if zero is None:
        return wide
    if len(zero.shape) == 1 and zero.shape[0] > 1:
        zero = b.reshape(zero, (*zero.shape, *(1,) * (-1 - axis)))
    return b.sub(wide, zero)
