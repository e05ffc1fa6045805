"""Operations with the signatures of May 2023. Each builds its twin with the engine's and names sources as they were then."""

import ctypes
import math
import struct

import numpy as np

import ggml

from ._arena import Context, Tensor, api
from ._structs import ggml_binary_op_f32_t, ggml_unary_op_f32_t

NORM_EPS, RMS_NORM_EPS = 1e-5, 1e-6


# ---- one or two sources, element by element --------------------------------------------------------------------------
def _unary(name, op, doc, grad=True, n_dims=None):
    build = getattr(ggml, name)

    def function(ctx: Context, a: Tensor) -> Tensor:
        return ctx.node(op, build(ctx.engine, a.twin), a, grad=grad, n_dims=n_dims)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return api(function)


def _binary(name, op, doc, grad=True):
    build = getattr(ggml, name)

    def function(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
        return ctx.node(op, build(ctx.engine, a.twin, b.twin), a, b, grad=grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return api(function)


ggml_dup = _unary("ggml_dup", "DUP", "A copy of a.")
ggml_sqr = _unary("ggml_sqr", "SQR", "a squared, element by element.")
ggml_sqrt = _unary("ggml_sqrt", "SQRT", "Square root of each element.")
ggml_log = _unary("ggml_log", "LOG", "Natural logarithm of each element.")
ggml_log_inplace = _unary("ggml_log_inplace", "LOG", "ggml_log, written over a.", grad=False)
ggml_sum = _unary("ggml_sum", "SUM", "Sum of all elements.", n_dims=1)
ggml_sum_rows = _unary("ggml_sum_rows", "SUM_ROWS", "Sum of each row.")
ggml_mean = _unary("ggml_mean", "MEAN", "Mean of each row.")
ggml_abs = _unary("ggml_abs", "ABS", "Absolute value of each element.")
ggml_sgn = _unary("ggml_sgn", "SGN", "Sign of each element: -1, 0 or 1.")
ggml_neg = _unary("ggml_neg", "NEG", "-a.")
ggml_step = _unary("ggml_step", "STEP", "1 where an element is above 0, else 0.")
ggml_gelu = _unary("ggml_gelu", "GELU", "GELU of each element, by the approximation with tanh.")
ggml_silu = _unary("ggml_silu", "SILU", "SiLU of each element: a / (1 + exp(-a)).")
ggml_cont = _unary("ggml_cont", "CONT", "A copy of a that is contiguous.")
ggml_transpose = _unary("ggml_transpose", "TRANSPOSE", "a with its first two dimensions exchanged, over the same data.")
ggml_soft_max = _unary("ggml_soft_max", "SOFT_MAX", "Soft-max of each row.")
ggml_soft_max_inplace = _unary("ggml_soft_max_inplace", "SOFT_MAX", "ggml_soft_max, written over a.")
ggml_add = _binary("ggml_add", "ADD", "a + b; a may be quantised.")
ggml_add_inplace = _binary("ggml_add_inplace", "ADD", "ggml_add, written over a.", grad=False)
ggml_add1 = _binary("ggml_add1", "ADD1", "a + b, where b has one element.")
ggml_sub = _binary("ggml_sub", "SUB", "a - b.")
ggml_mul = _binary("ggml_mul", "MUL", "a * b, element by element.")
ggml_div = _binary("ggml_div", "DIV", "a / b, element by element.")


@api
def ggml_cpy(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Writes a over b, converted to b's type.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type, any shape.
        b: destination of any type and any shape with as many elements as a; if one of them is quantised, rows must
            be equally long or both contiguous. Values are not converted from one quantised type to another.
    Returns:
        View of b.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the numbers of elements differ, or there is no conversion.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return ctx.node("CPY", ggml.ggml_cpy(ctx.engine, a.twin, b.twin), a, b, n_dims=b.struct.n_dims)


@api
def ggml_silu_back(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Computes the gradient of ggml_silu: b * s * (1 + a * (1 - s)) with s = 1 / (1 + exp(-a)).

    The current surface takes the two tensors in the other order.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape: the argument of ggml_silu.
        b: f32 or f16, the shape of a: the gradient of its result.
    Returns:
        Tensor with the type and shape of b.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes differ, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("SILU_BACK", ggml.ggml_silu_back(ctx.engine, b.twin, a.twin), a, b)


@api
def ggml_relu(ctx: Context, a: Tensor) -> Tensor:
    """Computes max(a, 0) of each element.

    Its gradient has the wrong sign, as in the library of May 2023: results of old programs are reproduced.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    twin = ggml.ggml_relu(ctx.engine, a.twin)
    if a.struct.grad:
        twin = ggml.ggml_map_custom1(ctx.engine, twin, _copy, 1, None)
        ggml.ggml_custom_set_backward(twin, lambda e, t, g: ggml.ggml_neg(e, g))
    return ctx.node("RELU", twin, a)


@ggml.ggml_custom1_op_t
def _copy(dst, a, ith, nth, userdata):
    """Copies a, of the same layout: for a node that is there for its gradient."""
    ctypes.memmove(dst.contents.data, a.contents.data, ggml.ggml_nbytes(a))


@api
def ggml_scale(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Multiplies all elements of a tensor by the element of another: a * b.

    The current surface takes a number instead of b. Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
        b: f32 or f16 with one element, [1]. It is read when the graph is computed.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: b has more than one element, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("SCALE", ggml.ggml_mul(ctx.engine, a.twin, _one(b).twin), a, b)


@api
def ggml_scale_inplace(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Multiplies a tensor by the element of another and stores the products in the tensor itself.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape. Its values are overwritten when the graph is computed.
        b: f32 or f16 with one element, [1].
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: b has more than one element, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return ctx.node("SCALE", ggml.ggml_mul_inplace(ctx.engine, a.twin, _one(b).twin), a, b, grad=False)


def _one(b):
    if ggml.ggml_nelements(b.twin) != 1:
        raise ValueError(f"b has {ggml.ggml_nelements(b.twin)} elements: need one")
    return b


@api
def ggml_clamp(ctx: Context, a: Tensor, min: float, max: float) -> Tensor:
    """Limits the elements of a to [min, max], in a's own memory.

    The current surface's function of this name creates a new tensor. A gradient through it is not possible, because
    a is overwritten: ggml_build_backward raises ValueError if one is needed.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape. Its values are overwritten when the graph is computed.
        min: lower limit.
        max: upper limit, not less than min.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: min is greater than max or one of them is NaN, or the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    twin = ggml.ggml_clamp_inplace(ctx.engine, a.twin, min, max)
    return ctx.node("CLAMP", twin, a, ctx.filled((ctypes.c_float * 3)(min, max)))


# ---- norms and products ----------------------------------------------------------------------------------------------
@api
def ggml_norm(ctx: Context, a: Tensor) -> Tensor:
    """Normalises each row to mean 0 and variance 1: (a - mean) / sqrt(variance + 1e-5).

    The current surface takes eps as an argument.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3].
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("NORM", ggml.ggml_norm(ctx.engine, a.twin, NORM_EPS), a)


@api
def ggml_rms_norm(ctx: Context, a: Tensor) -> Tensor:
    """Divides each row by its root mean square: a / sqrt(mean(a^2) + 1e-6).

    The current surface takes eps as an argument. Formula: arXiv:1910.07467, without the gain.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3].
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("RMS_NORM", ggml.ggml_rms_norm(ctx.engine, a.twin, RMS_NORM_EPS), a)


@api
def ggml_rms_norm_back(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Computes the gradient of ggml_rms_norm: (b - a * mean(a * b) / m) / sqrt(m), m = mean(a^2) + 1e-6, by rows.

    The current surface takes the two tensors in the other order.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3]: the argument of ggml_rms_norm.
        b: f32 or f16, the shape of a: the gradient of its result.
    Returns:
        Tensor with the type and shape of b.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes differ, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("RMS_NORM_BACK", ggml.ggml_rms_norm_back(ctx.engine, b.twin, a.twin, RMS_NORM_EPS), a, b)


@api
def ggml_mul_mat(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Multiplies matrices: result[m, n] = sum over k of a[k, m] * b[k, n].

    In NumPy's order, result = b @ a.T. Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or quantised, [k, m, ne2, ne3].
        b: f32 or f16, [k, n, b2, b3]; b2 and b3 are multiples of ne2 and ne3.
    Returns:
        f32 tensor [m, n, b2, b3].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes do not fit, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    n_dims = min(a.struct.n_dims, b.struct.n_dims)
    return ctx.node("MUL_MAT", ggml.ggml_mul_mat(ctx.engine, a.twin, b.twin), a, b, n_dims=n_dims)


# ---- parts of tensors ------------------------------------------------------------------------------------------------
def _update(ctx, name, a, b, *place):
    nb1, nb2, nb3, offset = place
    inplace = name.endswith("_inplace")
    twin = getattr(ggml, name)(ctx.engine, a.twin, b.twin, nb1, nb2, nb3, offset)
    if max(nb1, nb2, nb3, offset) >= 1 << 31:
        raise ValueError(f"nb1 is {nb1}, nb2 {nb2}, nb3 {nb3}, offset {offset}: need 31-bit numbers")
    params = ctx.ints(nb1, nb2, nb3, offset, inplace)
    return ctx.node("ACC" if "acc" in name else "SET", twin, a, b, params, grad=not inplace)


@api
def ggml_acc(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """Copies a and adds b to a part of the copy.

    The part is the view [b.ne0, b.ne1, b.ne2, b.ne3] with the given strides and offset. Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32, any shape, contiguous.
        b: f32, any shape whose view lies within a.
        nb1: bytes between elements of the view along dimension 1.
        nb2: bytes between elements along dimension 2.
        nb3: bytes between elements along dimension 3.
        offset: where the view begins in a, in bytes. All four are 0 or more and less than 2^31.
    Returns:
        f32 tensor with the shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a type is not f32, a is not contiguous, a number is out of range, or the view does not lie
            within a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _update(ctx, "ggml_acc", a, b, nb1, nb2, nb3, offset)


@api
def ggml_acc_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """Adds b to a part of a, in a's own memory.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: f32, any shape, contiguous. The part is overwritten when the graph is computed.
        b: f32, any shape whose view lies within a.
        nb1: bytes between elements of the view along dimension 1.
        nb2: bytes between elements along dimension 2.
        nb3: bytes between elements along dimension 3.
        offset: where the view begins in a, in bytes. All four are 0 or more and less than 2^31.
    Returns:
        View of the whole of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a type is not f32, a is not contiguous, a number is out of range, or the view does not lie
            within a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return _update(ctx, "ggml_acc_inplace", a, b, nb1, nb2, nb3, offset)


@api
def ggml_set(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """Copies a and replaces a part of the copy by b.

    The part is the view [b.ne0, b.ne1, b.ne2, b.ne3] with the given strides and offset. Gradients flow to b and to
    the rest of a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous.
        b: same type as a, any shape whose view lies within a.
        nb1: bytes between elements of the view along dimension 1.
        nb2: bytes between elements along dimension 2.
        nb3: bytes between elements along dimension 3.
        offset: where the view begins in a, in bytes. All four are 0 or more and less than 2^31.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, a number is out of range, or the view
            does not lie within a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _update(ctx, "ggml_set", a, b, nb1, nb2, nb3, offset)


@api
def ggml_set_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """Replaces a part of a by b, in a's own memory.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous. The part is overwritten
            when the graph is computed.
        b: same type as a, any shape whose view lies within a.
        nb1: bytes between elements of the view along dimension 1.
        nb2: bytes between elements along dimension 2.
        nb3: bytes between elements along dimension 3.
        offset: where the view begins in a, in bytes. All four are 0 or more and less than 2^31.
    Returns:
        View of the whole of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, a number is out of range, or the view
            does not lie within a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return _update(ctx, "ggml_set_inplace", a, b, nb1, nb2, nb3, offset)


@api
def ggml_set_1d(ctx: Context, a: Tensor, b: Tensor, offset: int) -> Tensor:
    """Copies a and replaces consecutive elements of the copy by the vector b.

    This is ggml_set with the strides of a. Gradients flow to b and to the rest of a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous.
        b: same type as a, usually a vector [n].
        offset: where the elements begin in a, in bytes, less than 2^31.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, offset is out of range, or b reaches
            beyond a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _update(ctx, "ggml_set", a, b, *a.struct.nb[1:], offset)


@api
def ggml_set_1d_inplace(ctx: Context, a: Tensor, b: Tensor, offset: int) -> Tensor:
    """Replaces consecutive elements of a by the vector b, in a's own memory.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous. The elements are
            overwritten when the graph is computed.
        b: same type as a, usually a vector [n].
        offset: where the elements begin in a, in bytes, less than 2^31.
    Returns:
        View of the whole of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, offset is out of range, or b reaches
            beyond a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return _update(ctx, "ggml_set_inplace", a, b, *a.struct.nb[1:], offset)


@api
def ggml_set_2d(ctx: Context, a: Tensor, b: Tensor, nb1: int, offset: int) -> Tensor:
    """Copies a and replaces a rectangle of the copy by the matrix b.

    This is ggml_set with nb2 and nb3 of a. Gradients flow to b and to the rest of a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous.
        b: same type as a, usually a matrix [n, rows].
        nb1: bytes between rows of the rectangle, usually nb1 of a.
        offset: where the rectangle begins in a, in bytes. Both numbers are 0 or more and less than 2^31.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, a number is out of range, or b reaches
            beyond a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _update(ctx, "ggml_set", a, b, nb1, *a.struct.nb[2:], offset)


@api
def ggml_set_2d_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, offset: int) -> Tensor:
    """Replaces a rectangle of a by the matrix b, in a's own memory.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), any shape, contiguous. The rectangle is
            overwritten when the graph is computed.
        b: same type as a, usually a matrix [n, rows].
        nb1: bytes between rows of the rectangle, usually nb1 of a.
        offset: where the rectangle begins in a, in bytes. Both numbers are 0 or more and less than 2^31.
    Returns:
        View of the whole of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the types differ or are quantised, a is not contiguous, a number is out of range, or b reaches
            beyond a.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return _update(ctx, "ggml_set_inplace", a, b, nb1, *a.struct.nb[2:], offset)


@api
def ggml_repeat(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Tiles a to the shape of b.

    Only the shape of b is used. If a has that shape already and no gradient, a itself is returned. The gradient
    flows to a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), [n0, n1, n2, n3].
        b: tensor of any type, [m0, m1, m2, m3]; each size is a multiple of the one of a.
    Returns:
        Tensor with the type of a and the shape of b, or a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a size of b is not a multiple, or a is quantised.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    if a.struct.ne[:] == b.struct.ne[:] and not a.struct.grad:
        return a
    return ctx.node("REPEAT", ggml.ggml_repeat(ctx.engine, a.twin, b.twin), a, b, n_dims=b.struct.n_dims)


@api
def ggml_get_rows(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Collects rows of a matrix by their indices: result[:, i] = a[:, b[i]].

    The gradient flows to a. Indices are checked when the graph is computed.

    Args:
        ctx: context that receives the result.
        a: any type, [n, rows]. With more dimensions, ne2 and ne3 must equal ne1 and ne2 of b: each matrix has its
            own indices.
        b: i32, [k], or [k, a.ne2, a.ne3]: indices from 0 to rows - 1.
    Returns:
        Tensor [n, k, b.ne1, b.ne2], f32 for float and quantised types; integers keep their type.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes do not fit, or b is not i32.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("GET_ROWS", ggml.ggml_get_rows(ctx.engine, a.twin, b.twin), a, b, n_dims=2)


@api
def ggml_get_rows_back(ctx: Context, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Copies c and adds the rows of a to those rows of the copy that b lists.

    This is how a gradient passes through ggml_get_rows: result[:, b[i]] += a[:, i], rows that are listed repeatedly
    add up. The current surface's function adds to zeros and uses only the shape of c.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [n, k]: the gradient of the result of ggml_get_rows.
        b: i32, [k]: indices from 0 to rows - 1.
        c: f32 or f16, [n, rows]: what is added to.
    Returns:
        f32 tensor [n, rows].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes do not fit, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    twin = ggml.ggml_add(ctx.engine, ggml.ggml_get_rows_back(ctx.engine, a.twin, b.twin, c.twin), c.twin)
    return ctx.node("GET_ROWS_BACK", twin, a, b, c, n_dims=2)


@api
def ggml_diag(ctx: Context, a: Tensor) -> Tensor:
    """Builds square matrices with the rows of a on their diagonals and zeros elsewhere.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised (f32, f16 or integers), [n, 1, ne2, ne3].
    Returns:
        Tensor [n, n, ne2, ne3] with the type of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: ne1 of a is not 1, or a is quantised.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("DIAG", ggml.ggml_diag(ctx.engine, a.twin), a, n_dims=max(a.struct.n_dims, 2))


# ---- the same data in another shape ----------------------------------------------------------------------------------
@api
def ggml_reshape(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Gives a the shape of b, over a's own memory.

    Only the shape of b is used. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape, contiguous.
        b: tensor of any type and any shape with as many elements; rows of quantised types are whole blocks.
    Returns:
        View of a with the shape of b.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not contiguous, or the numbers of elements differ.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return ctx.node("RESHAPE", ggml.ggml_reshape(ctx.engine, a.twin, b.twin), a, n_dims=b.struct.n_dims)


def _reshape(ctx, a, *ne):
    twin = getattr(ggml, f"ggml_reshape_{len(ne)}d")(ctx.engine, a.twin, *ne)
    return ctx.node("RESHAPE", twin, a, n_dims=len(ne))


@api
def ggml_reshape_1d(ctx: Context, a: Tensor, ne0: int) -> Tensor:
    """Shows a contiguous tensor as a vector, over the same memory.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape, contiguous.
        ne0: number of elements, as many as a has.
    Returns:
        View [ne0] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not contiguous, or ne0 is not its number of elements.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _reshape(ctx, a, ne0)


@api
def ggml_reshape_2d(ctx: Context, a: Tensor, ne0: int, ne1: int) -> Tensor:
    """Shows a contiguous tensor as a matrix, over the same memory.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape, contiguous.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: number of rows; ne0 * ne1 is the number of elements of a.
    Returns:
        View [ne0, ne1] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not contiguous, or the sizes do not fit.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _reshape(ctx, a, ne0, ne1)


@api
def ggml_reshape_3d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int) -> Tensor:
    """Shows a contiguous tensor with three dimensions, over the same memory.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape, contiguous.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: rows per matrix.
        ne2: number of matrices; the product of the sizes is the number of elements of a.
    Returns:
        View [ne0, ne1, ne2] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not contiguous, or the sizes do not fit.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _reshape(ctx, a, ne0, ne1, ne2)


@api
def ggml_reshape_4d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int) -> Tensor:
    """Shows a contiguous tensor with four dimensions, over the same memory.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape, contiguous.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3; the product of the sizes is the number of elements of a.
    Returns:
        View [ne0, ne1, ne2, ne3] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not contiguous, or the sizes do not fit.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _reshape(ctx, a, ne0, ne1, ne2, ne3)


def _view(ctx, n_dims, a, *args):
    twin = getattr(ggml, f"ggml_view_{n_dims}d")(ctx.engine, a.twin, *args)
    return ctx.node("VIEW", twin, a, n_dims=n_dims)


@api
def ggml_view_1d(ctx: Context, a: Tensor, ne0: int, offset: int) -> Tensor:
    """Shows consecutive elements of a tensor's memory as a vector.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape.
        ne0: number of elements, whole blocks of a quantised type.
        offset: where the vector begins, in bytes from the data of a.
    Returns:
        View [ne0] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is negative or not a multiple of the element or block, or the view does not lie within
            a.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _view(ctx, 1, a, ne0, offset)


@api
def ggml_view_2d(ctx: Context, a: Tensor, ne0: int, ne1: int, nb1: int, offset: int) -> Tensor:
    """Shows a part of a tensor's memory as a matrix.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: number of rows.
        nb1: bytes from one row to the next.
        offset: where the matrix begins, in bytes from the data of a.
    Returns:
        View [ne0, ne1] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is negative or not a multiple of the element or block, or the view does not lie within
            a.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _view(ctx, 2, a, ne0, ne1, nb1, offset)


@api
def ggml_view_3d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, nb1: int, nb2: int, offset: int) -> Tensor:
    """Shows a part of a tensor's memory with three dimensions.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: rows per matrix.
        ne2: number of matrices.
        nb1: bytes from one row to the next.
        nb2: bytes from one matrix to the next.
        offset: where the view begins, in bytes from the data of a.
    Returns:
        View [ne0, ne1, ne2] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is negative or not a multiple of the element or block, or the view does not lie within
            a.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _view(ctx, 3, a, ne0, ne1, ne2, nb1, nb2, offset)


@api
def ggml_view_4d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """Shows a part of a tensor's memory with four dimensions.

    Args:
        ctx: context that receives the result.
        a: tensor of any type and any shape.
        ne0: elements per row, whole blocks of a quantised type.
        ne1: size of dimension 1.
        ne2: size of dimension 2.
        ne3: size of dimension 3.
        nb1: stride of dimension 1 in bytes.
        nb2: stride of dimension 2 in bytes.
        nb3: stride of dimension 3 in bytes.
        offset: where the view begins, in bytes from the data of a.
    Returns:
        View [ne0, ne1, ne2, ne3] of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is negative or not a multiple of the element or block, or the view does not lie within
            a.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _view(ctx, 4, a, ne0, ne1, ne2, ne3, nb1, nb2, nb3, offset)


@api
def ggml_permute(ctx: Context, a: Tensor, axis0: int, axis1: int, axis2: int, axis3: int) -> Tensor:
    """Reorders the dimensions of a tensor, over the same memory: dimension i of a becomes dimension axis_i.

    NumPy's transpose takes the inverse permutation. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: tensor of any type, [n0, n1, n2, n3]; of a quantised type only with axis0 = 0.
        axis0: new place of dimension 0. The four axes are 0 to 3, each once.
        axis1: new place of dimension 1.
        axis2: new place of dimension 2.
        axis3: new place of dimension 3.
    Returns:
        View of a, generally not contiguous.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the axes are not a permutation of 0 to 3, or rows of a quantised type would become columns.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return ctx.node("PERMUTE", ggml.ggml_permute(ctx.engine, a.twin, axis0, axis1, axis2, axis3), a)


# ---- attention -------------------------------------------------------------------------------------------------------
def _diag_mask(ctx, name, op, a, n_past):
    twin = getattr(ggml, name)(ctx.engine, a.twin, n_past)
    return ctx.node(op, twin, a, ctx.ints(n_past, name.endswith("_inplace")))


@api
def ggml_diag_mask_inf(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """Copies a and sets the elements above a diagonal to -inf: where i0 > n_past + i1.

    Before a soft-max, this is a causal mask: query i1 attends to the first n_past + i1 + 1 keys. The gradient flows
    to the other elements of a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [n_keys, n_queries, ne2, ne3].
        n_past: number of the diagonal, a 32-bit integer.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported, or n_past does not fit into 32 bits.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _diag_mask(ctx, "ggml_diag_mask_inf", "DIAG_MASK_INF", a, n_past)


@api
def ggml_diag_mask_inf_inplace(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """Sets the elements of a above a diagonal to -inf, in a's own memory: where i0 > n_past + i1.

    The gradient flows to the other elements of a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [n_keys, n_queries, ne2, ne3]. Its elements are overwritten when the graph is computed.
        n_past: number of the diagonal, a 32-bit integer.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported, or n_past does not fit into 32 bits.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _diag_mask(ctx, "ggml_diag_mask_inf_inplace", "DIAG_MASK_INF", a, n_past)


@api
def ggml_diag_mask_zero(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """Copies a and sets the elements above a diagonal to 0: where i0 > n_past + i1.

    The gradient flows to the other elements of a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3].
        n_past: number of the diagonal, a 32-bit integer; 0 keeps the lower triangle with the main diagonal.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported, or n_past does not fit into 32 bits.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _diag_mask(ctx, "ggml_diag_mask_zero", "DIAG_MASK_ZERO", a, n_past)


@api
def ggml_diag_mask_zero_inplace(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """Sets the elements of a above a diagonal to 0, in a's own memory: where i0 > n_past + i1.

    The gradient flows to the other elements of a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [ne0, ne1, ne2, ne3]. Its elements are overwritten when the graph is computed.
        n_past: number of the diagonal, a 32-bit integer; 0 keeps the lower triangle with the main diagonal.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported, or n_past does not fit into 32 bits.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return _diag_mask(ctx, "ggml_diag_mask_zero_inplace", "DIAG_MASK_ZERO", a, n_past)


def _rotated(ctx, a, n_past, n_dims, mode, back, inplace):
    """Rows of dimension 2 rotated; with mode & 1 they have their own number as position, and the first n_past stay out."""
    if n_past < 0 or not 0 <= mode <= 3:
        raise ValueError(f"n_past is {n_past}, mode is {mode}: need n_past >= 0 and a mode of 0 to 3")
    e, ne, nb = ctx.engine, a.struct.ne[:], a.struct.nb[:]
    first = min(n_past, ne[2]) if mode & 1 else 0
    start = first if mode & 1 else n_past
    if start + ne[2] - first >= 1 << 31:
        raise ValueError(f"a is {ne}, n_past is {n_past}: positions must be less than 2^31")
    positions = ctx.constant(ggml.GGML_TYPE_I32, np.arange(start, start + ne[2] - first, dtype=np.int32))
    neox = ggml.GGML_ROPE_TYPE_NEOX if mode & 2 else 0
    part = a.twin
    if first:
        part = ggml.ggml_view_4d(e, part, *ne[:2], ne[2] - first, ne[3], *nb[1:], first * nb[2])
    if back:
        part = ggml.ggml_rope_back(e, part, positions, None, n_dims, neox, 0, 0, 10000.0, 1.0, 0.0, 1.0, 32.0, 1.0, 0.0, False)
    elif inplace and not first:
        part = ggml.ggml_rope_inplace(e, part, positions, n_dims, neox)
    else:
        part = ggml.ggml_rope(e, part, positions, n_dims, neox)
    if first and inplace:
        return ggml.ggml_set_inplace(e, a.twin, part, *nb[1:], first * nb[2])
    return ggml.ggml_pad_ext(e, part, 0, 0, 0, 0, first, 0, 0, 0) if first else part


@api
def ggml_rope(ctx: Context, a: Tensor, n_past: int, n_dims: int, mode: int) -> Tensor:
    """Rotates pairs of each row's elements by angles that depend on the position (RoPE, arXiv:2104.09864).

    Pair p of the first n_dims elements is rotated by position * 10000^(-2 p / n_dims); the other elements are
    copied. Token i of dimension 2 has the position n_past + i. The current surface takes a tensor of positions
    instead of n_past.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [head_dim, n_heads, n_tokens, batch].
        n_past: 0 or more; n_past + n_tokens must be less than 2^31.
        n_dims: number of elements that are rotated, even, at most head_dim.
        mode: 0 to 3. Bit 1 (value 2): the pairs are (p, p + n_dims / 2), as in GPT-NeoX, instead of (2 p, 2 p + 1).
            Bit 0 (value 1): token i has the position i, and the first n_past tokens are zero in the result.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is out of range, or the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    twin = _rotated(ctx, a, n_past, n_dims, mode, False, False)
    return ctx.node("ROPE", twin, a, ctx.ints(n_past, n_dims, mode))


@api
def ggml_rope_inplace(ctx: Context, a: Tensor, n_past: int, n_dims: int, mode: int) -> Tensor:
    """Rotates pairs of each row's elements by their position, in the tensor's own memory.

    Angles, pairs and positions are those of ggml_rope; with bit 0 of mode, the first n_past tokens stay as they
    are. No gradient.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [head_dim, n_heads, n_tokens, batch]. Its values are overwritten when the graph is computed.
            With bit 0 of mode and n_past > 0 it must be contiguous.
        n_past: 0 or more; n_past + n_tokens must be less than 2^31.
        n_dims: number of elements that are rotated, even, at most head_dim.
        mode: 0 to 3, as in ggml_rope.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is out of range, or the type or layout is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    twin = _rotated(ctx, a, n_past, n_dims, mode, False, True)
    return ctx.node("ROPE", twin, a, ctx.ints(n_past, n_dims, mode), grad=False)


@api
def ggml_rope_back(ctx: Context, a: Tensor, n_past: int, n_dims: int, mode: int) -> Tensor:
    """Rotates pairs of elements by the negative angles: the gradient of ggml_rope, and its inverse.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, [head_dim, n_heads, n_tokens, batch]: the gradient of the result of ggml_rope.
        n_past: as given to ggml_rope.
        n_dims: as given to ggml_rope.
        mode: as given to ggml_rope, 0 to 3. With bit 0, the first n_past tokens are zero in the result.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a number is out of range, or the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    twin = _rotated(ctx, a, n_past, n_dims, mode, True, False)
    return ctx.node("ROPE_BACK", twin, a, ctx.ints(n_past, n_dims, mode))


def alibi_slopes(n_head, bias_max):
    """What a column adds for each head (arXiv:2108.12409)."""
    whole = 2 ** int(math.log2(n_head))
    k = np.arange(n_head)
    slopes = np.where(k < whole, 2.0 ** (-bias_max * (k + 1) / whole), 2.0 ** (-bias_max * (2 * (k - whole) + 1) / (2 * whole)))
    return slopes.astype(np.float32)


@api
def ggml_alibi(ctx: Context, a: Tensor, n_past: int, n_head: int, bias_max: float) -> Tensor:
    """Adds a bias to attention scores that grows with the distance (ALiBi, arXiv:2108.12409), in their own memory.

    result[i, j, h] = a[i, j, h] + slope(h) * (i - (ne0 - 1)). With n the largest power of two up to n_head,
    slope(h) is 2^(-bias_max * (h + 1) / n) for h < n and 2^(-bias_max * (2 * (h - n) + 1) / (2 * n)) for the heads
    after them. No gradient.

    Args:
        ctx: context that receives the result.
        a: f32 or f16 scores, [n_past + n_tokens, n_tokens, n_head]. They are overwritten when the graph is
            computed.
        n_past: number of earlier tokens, 0 or more: ne0 - ne1 of a.
        n_head: number of heads, 1 or more: ne2 of a.
        bias_max: exponent of the slopes, usually 8.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shape of a does not fit n_past and n_head, or the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    ne = a.struct.ne
    if n_past < 0 or n_head < 1 or n_head != ne[2] or ne[0] != n_past + ne[1]:
        raise ValueError(f"a is {ne[:]}, n_past is {n_past}, n_head is {n_head}: need [n_past + ne1, ne1, n_head]")
    bias = alibi_slopes(n_head, bias_max)[:, None, None] * np.arange(1 - ne[0], 1, dtype=np.float32)
    twin = ggml.ggml_add_inplace(ctx.engine, a.twin, ctx.constant(ggml.GGML_TYPE_F32, bias[None]))
    bits = struct.unpack("i", struct.pack("f", bias_max))[0]
    return ctx.node("ALIBI", twin, a, ctx.ints(n_past, n_head, bits), grad=False)


def _f32(e, t):
    """The right-hand side of a product as f32."""
    return ggml.ggml_cast(e, t.twin, ggml.GGML_TYPE_F32) if t.struct.type != ggml.GGML_TYPE_F32 else t.twin


@api
def ggml_flash_attn(ctx: Context, q: Tensor, k: Tensor, v: Tensor, masked: bool) -> Tensor:
    """Computes attention for all heads: soft_max(q k^T / sqrt(D)) v, by rows of q.

    It consists of two matrix products with a soft-max between them; the scores of all heads are stored. The current
    surface's ggml_flash_attn_ext takes v without transposition.

    Args:
        ctx: context that receives the result.
        q: f32 or f16 queries, [D, N, heads, batch].
        k: f32, f16 or quantised keys, [D, M, kv_heads, kv_batch]; heads and batch are multiples of these.
        v: f32, f16 or quantised values, transposed: [M, D, kv_heads, kv_batch].
        masked: True for a causal mask: query i attends to the first M - N + i + 1 keys. M must then be N or more.
    Returns:
        f32 tensor [D, N, heads, batch].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes do not fit, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    e, (d, n), m = ctx.engine, q.struct.ne[:2], k.struct.ne[1]
    if v.struct.ne[0] != m or v.struct.ne[1] != d or (masked and m < n):
        raise ValueError(f"q is {q.struct.ne[:]}, k {k.struct.ne[:]}, v {v.struct.ne[:]}: need [D, N], [D, M], [M, D], M >= N")
    scores = ggml.ggml_mul_mat(e, k.twin, _f32(e, q))
    if masked:
        scores = ggml.ggml_diag_mask_inf(e, scores, m - n)
    weights = ggml.ggml_soft_max_ext(e, scores, None, 1 / math.sqrt(d), 0.0)
    twin = ggml.ggml_mul_mat(e, v.twin, weights)
    return ctx.node("FLASH_ATTN", twin, q, k, v, ctx.ints(masked), n_dims=4)


@api
def ggml_flash_ff(ctx: Context, a: Tensor, b0: Tensor, b1: Tensor, c0: Tensor, c1: Tensor) -> Tensor:
    """Computes a feed-forward block: two matrix products with biases and a GELU between them.

    In NumPy's order, result = gelu(a @ b0.T + b1) @ c0.T + c1, with the approximation of GELU by tanh.

    Args:
        ctx: context that receives the result.
        a: f32 or f16 input, [n_in, n].
        b0: f32, f16 or quantised weights, [n_in, n_hidden].
        b1: f32 or f16 bias, [n_hidden].
        c0: f32, f16 or quantised weights, [n_hidden, n_out].
        c1: f32 or f16 bias, [n_out].
    Returns:
        f32 tensor [n_out, n].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes do not fit, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    e = ctx.engine
    hidden = ggml.ggml_gelu(e, ggml.ggml_add(e, ggml.ggml_mul_mat(e, b0.twin, _f32(e, a)), b1.twin))
    twin = ggml.ggml_add(e, ggml.ggml_mul_mat(e, c0.twin, hidden), c1.twin)
    return ctx.node("FLASH_FF", twin, a, b0, b1, c0, c1, n_dims=4)


# ---- convolution and callbacks ---------------------------------------------------------------------------------------
def _conv_1d(ctx, op, a, b, stride):
    """Kernels a [K, IC, OC] with odd K over b [L, IC], padded with zeros to [L / stride, OC]."""
    e, kernel, length = ctx.engine, a.struct.ne[0], b.struct.ne[0]
    if kernel % 2 == 0:
        raise ValueError(f"a is {a.struct.ne[:]}: its ne0 must be odd")
    twin = ggml.ggml_conv_1d(e, a.twin, b.twin, stride, kernel // 2, 1)
    if length % stride:
        ne, nb = twin.contents.ne[:], twin.contents.nb[:]
        twin = ggml.ggml_cont(e, ggml.ggml_view_2d(e, twin, length // stride, ne[1], nb[1], 0))
    return ctx.node(op, twin, a, b, n_dims=2)


@api
def ggml_conv_1d_1s(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Convolves a signal with kernels at stride 1, padded with zeros so that its length stays.

    result[i, o] = sum over c, k of a[k, c, o] * b[i + k - K // 2, c]: the kernel is not reversed.

    Args:
        ctx: context that receives the result.
        a: f32 or f16 kernels, [K, in_channels, out_channels] with an odd K.
        b: f32 or f16 signal, [length, in_channels].
    Returns:
        f32 tensor [length, out_channels].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: K is even, the channels differ, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _conv_1d(ctx, "CONV_1D_1S", a, b, 1)


@api
def ggml_conv_1d_2s(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Convolves a signal with kernels at stride 2, padded with zeros: half as many outputs as inputs.

    result[i, o] = sum over c, k of a[k, c, o] * b[2 i + k - K // 2, c]: the kernel is not reversed.

    Args:
        ctx: context that receives the result.
        a: f32 or f16 kernels, [K, in_channels, out_channels] with an odd K.
        b: f32 or f16 signal, [length, in_channels].
    Returns:
        f32 tensor [length // 2, out_channels].
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: K is even, the channels differ, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _conv_1d(ctx, "CONV_1D_2S", a, b, 2)


def _map(ctx, op, a, b, build, kind, fun):
    """The callback's address was kept in a tensor then, as two integers."""
    if callable(fun) and not isinstance(fun, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        fun = kind(fun)
    ctx.kept.append(fun)
    sources = [a.twin] if b is None else [a.twin, b.twin]
    twin = build(ctx.engine, *sources, fun)
    address = fun if isinstance(fun, int) else ctypes.cast(fun, ctypes.c_void_p).value
    return ctx.node(op, twin, a, b, ctx.ints(*struct.unpack("2i", struct.pack("Q", address))))


@api
def ggml_map_unary_f32(ctx: Context, a: Tensor, fun) -> Tensor:
    """Applies a callback to each row of a tensor.

    No gradient: ggml_build_backward raises ValueError if one is needed.

    Args:
        ctx: context that receives the result; it keeps fun alive.
        a: f32, any shape, with contiguous rows.
        fun: called as fun(n, dst, a) for each row when the graph is computed, on one thread: it reads n floats at a
            and writes n floats at dst. A Python callable, a ggml_unary_op_f32_t or the address of a C function. An
            exception raised in it leaves ggml_graph_compute.
    Returns:
        f32 tensor with the shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a is not f32 or its rows are not contiguous, or fun is NULL or not the address of a function.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _map(ctx, "MAP_UNARY", a, None, ggml.ggml_map_unary_f32, ggml_unary_op_f32_t, fun)


@api
def ggml_map_binary_f32(ctx: Context, a: Tensor, b: Tensor, fun) -> Tensor:
    """Applies a callback to each pair of rows of two tensors.

    No gradient: ggml_build_backward raises ValueError if one is needed.

    Args:
        ctx: context that receives the result; it keeps fun alive.
        a: f32, any shape, with contiguous rows.
        b: f32, the shape of a, with contiguous rows.
        fun: called as fun(n, dst, a, b) for each row when the graph is computed, on one thread: it reads n floats
            at a and at b and writes n floats at dst. A Python callable, a ggml_binary_op_f32_t or the address of a
            C function. An exception raised in it leaves ggml_graph_compute.
    Returns:
        f32 tensor with the shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a tensor is not f32 or its rows are not contiguous, the shapes differ, or fun is NULL or not the
            address of a function.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return _map(ctx, "MAP_BINARY", a, b, ggml.ggml_map_binary_f32, ggml_binary_op_f32_t, fun)
