"""Padding with zeros, circular or reflected, and rolling, with their gradients."""
from libc.stdint cimport int32_t, int64_t

from .._core cimport (
    arg_context, arg_int32, arg_tensor, gg_nrows, ggml_context, ggml_tensor, node1, node_append, node_like, wrap_tensor,
)
from .._enums cimport GGML_OP_ACC, GGML_OP_DUP, GGML_OP_PAD, GGML_OP_PAD_REFLECT_1D, GGML_OP_ROLL, GGML_TYPE_I32
from .._graph.grad cimport Backward, gradients
from .fill cimport arange
from .index cimport get_rows_back
from .shape cimport cast, concat, contiguous, reshape, transpose, update, view_slice

# ---- padding ---------------------------------------------------------------------------------------------------------
cdef ggml_tensor *pad(ggml_context *ctx, ggml_tensor *a, const int *left_right, bint circular) except NULL:
    cdef ggml_tensor d
    cdef int i
    node_like(&d, GGML_OP_PAD, a.type, a)
    for i in range(8):
        d.op_params[i] = left_right[i]
        d.ne[i // 2] += left_right[i]
    d.op_params[8] = circular
    d.src[0] = a
    return node_append(ctx, &d)

cdef object right(object ctx, object a, object p0, object p1, object p2, object p3, const char *fn, bint circular):
    cdef ggml_context *c = arg_context(ctx, fn)
    cdef int[8] p = [0, arg_int32(p0, b"p0"), 0, arg_int32(p1, b"p1"), 0, arg_int32(p2, b"p2"), 0, arg_int32(p3, b"p3")]
    return wrap_tensor(pad(c, arg_tensor(a, b"a"), p, circular))

def ggml_pad(ctx, a, p0, p1, p2, p3):
    """Appends zeros to each dimension of a tensor.

    The gradient with respect to a is that part of the result's gradient which a covers.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        p0: zeros after the elements of dimension 0, 0 or more.
        p1: zeros after those of dimension 1.
        p2: zeros after those of dimension 2.
        p3: zeros after those of dimension 3.
    Returns:
        tensor [ne0 + p0, ne1 + p1, ne2 + p2, ne3 + p3] of a's type.
    Raises:
        ValueError: a padding is negative, or a is quantised.
        MemoryError: the context is full.
    See also:
        ggml_pad_ext, which pads both ends.
    """
    return right(ctx, a, p0, p1, p2, p3, b"ggml_pad", False)

def ggml_pad_circular(ctx, a, p0, p1, p2, p3):
    """Extends each dimension of a tensor at its end by its own first elements: result[i] = a[i mod a.ne].

    A padding may exceed the size of its dimension; the elements then repeat. The gradient with respect to a is the
    sum over all copies of an element.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        p0: elements to add to dimension 0, 0 or more.
        p1: elements to add to dimension 1.
        p2: elements to add to dimension 2.
        p3: elements to add to dimension 3.
    Returns:
        tensor [ne0 + p0, ne1 + p1, ne2 + p2, ne3 + p3] of a's type.
    Raises:
        ValueError: a padding is negative, a is quantised, or a dimension to extend is empty.
        MemoryError: the context is full.
    """
    return right(ctx, a, p0, p1, p2, p3, b"ggml_pad_circular", True)

def ggml_pad_ext(ctx, a, lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3):
    """Adds zeros at both ends of each dimension of a tensor.

    The gradient with respect to a is that part of the result's gradient which a covers.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        lp0: zeros before the elements of dimension 0, 0 or more.
        rp0: zeros after them, 0 or more.
        lp1: zeros before the elements of dimension 1.
        rp1: zeros after them.
        lp2: zeros before the elements of dimension 2.
        rp2: zeros after them.
        lp3: zeros before the elements of dimension 3.
        rp3: zeros after them.
    Returns:
        tensor [lp0 + ne0 + rp0, lp1 + ne1 + rp1, lp2 + ne2 + rp2, lp3 + ne3 + rp3] of a's type.
    Raises:
        ValueError: a padding is negative, or a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_pad_ext")
    cdef int[8] p = [arg_int32(lp0, b"lp0"), arg_int32(rp0, b"rp0"), arg_int32(lp1, b"lp1"), arg_int32(rp1, b"rp1"),
                     arg_int32(lp2, b"lp2"), arg_int32(rp2, b"rp2"), arg_int32(lp3, b"lp3"), arg_int32(rp3, b"rp3")]
    return wrap_tensor(pad(c, arg_tensor(a, b"a"), p, False))

def ggml_pad_ext_circular(ctx, a, lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3):
    """Extends each dimension of a tensor at both ends as if it were periodic: result[i] = a[(i - lp) mod a.ne].

    The elements before the first one come from the end of a, those after the last one from its beginning. The
    gradient with respect to a is the sum over all copies of an element.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        lp0: elements to add at the beginning of dimension 0, 0 or more.
        rp0: elements to add at its end, 0 or more.
        lp1: elements to add at the beginning of dimension 1.
        rp1: elements to add at its end.
        lp2: elements to add at the beginning of dimension 2.
        rp2: elements to add at its end.
        lp3: elements to add at the beginning of dimension 3.
        rp3: elements to add at its end.
    Returns:
        tensor [lp0 + ne0 + rp0, lp1 + ne1 + rp1, lp2 + ne2 + rp2, lp3 + ne3 + rp3] of a's type.
    Raises:
        ValueError: a padding is negative, a is quantised, or a dimension to extend is empty.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_pad_ext_circular")
    cdef int[8] p = [arg_int32(lp0, b"lp0"), arg_int32(rp0, b"rp0"), arg_int32(lp1, b"lp1"), arg_int32(rp1, b"rp1"),
                     arg_int32(lp2, b"lp2"), arg_int32(rp2, b"rp2"), arg_int32(lp3, b"lp3"), arg_int32(rp3, b"rp3")]
    return wrap_tensor(pad(c, arg_tensor(a, b"a"), p, True))

cdef ggml_tensor *folded(ggml_context *ctx, ggml_tensor *g, int dim, int64_t left, int64_t n) except NULL:
    """g summed along dim over a ring of n elements, the first of them at `left`."""
    cdef int64_t total = g.ne[dim], at = left % n - n, start, end
    cdef ggml_tensor *sum = node1(ctx, GGML_OP_DUP, view_slice(ctx, g, dim, left, n))
    while at < total:
        start, end = max(at, 0), min(at + n, total)
        if at != left and end > start:
            sum = update(ctx, GGML_OP_ACC, sum, view_slice(ctx, g, dim, start, end - start), sum.nb[1], sum.nb[2], sum.nb[3],
                         <size_t>(start - at) * sum.nb[dim], True)
        at += n
    return sum

cdef int grad_pad(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_tensor *a = t.src[0]
    cdef int i
    for i in range(4):
        if g.ne[i] == a.ne[i]:
            continue
        if t.op_params[8]:
            g = folded(b.ctx, g, i, t.op_params[2 * i], a.ne[i])
        else:
            g = view_slice(b.ctx, g, i, t.op_params[2 * i], a.ne[i])
    return b.add(a, g)

def ggml_pad_reflect_1d(ctx, a, p0, p1):
    """Extends the rows of a tensor at both ends by their mirror images.

    The row is reflected at its first and last element, which are not repeated: [a, b, c] with p0 = 1 and p1 = 2
    becomes [b, a, b, c, b, a]. The gradient with respect to a is the sum over all copies of an element.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        p0: elements to add before each row, 0 to ne0 - 1.
        p1: elements to add after each row, 0 to ne0 - 1.
    Returns:
        tensor [p0 + ne0 + p1, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: p0 or p1 is not 0 to ne0 - 1, or a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_pad_reflect_1d")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&d, GGML_OP_PAD_REFLECT_1D, x.type, x)
    d.op_params[0], d.op_params[1] = arg_int32(p0, b"p0"), arg_int32(p1, b"p1")
    d.ne[0] += <int64_t>d.op_params[0] + d.op_params[1]
    d.src[0] = x
    return wrap_tensor(node_append(c, &d))

cdef int grad_pad_reflect(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """Each element of g is added to the one that it mirrors: as rows by index of the transposed matrix of all rows."""
    cdef ggml_tensor *a = t.src[0]
    cdef ggml_context *c = b.ctx
    cdef int64_t n = a.ne[0], rows = gg_nrows(a)
    cdef int before = t.op_params[0], after = t.op_params[1]
    cdef ggml_tensor *index = arange(c, 0, n, 1)
    if before:
        index = concat(c, arange(c, before, 0, -1), index, 0)
    if after:
        index = concat(c, index, arange(c, n - 2, n - 2 - after, -1), 0)
    g = transpose(c, reshape(c, contiguous(c, g), t.ne[0], rows, 1, 1))
    g = get_rows_back(c, g, cast(c, index, GGML_TYPE_I32), n)
    return b.add(a, reshape(c, contiguous(c, transpose(c, g)), a.ne[0], a.ne[1], a.ne[2], a.ne[3]))

def ggml_roll(ctx, a, shift0, shift1, shift2, shift3):
    """Shifts the elements of a tensor cyclically: result[(i + shift) mod ne] = a[i] in each dimension.

    Elements that leave a dimension at one end enter it at the other. The gradient is shifted back to a.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        shift0: places to shift dimension 0 by; negative shifts towards index 0.
        shift1: places to shift dimension 1 by.
        shift2: places to shift dimension 2 by.
        shift3: places to shift dimension 3 by.
    Returns:
        tensor of a's type and shape.
    Raises:
        ValueError: a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_roll")
    return wrap_tensor(roll(c, arg_tensor(a, b"a"), arg_int32(shift0, b"shift0"), arg_int32(shift1, b"shift1"), arg_int32(shift2, b"shift2"),
                  arg_int32(shift3, b"shift3")))

cdef ggml_tensor *roll(ggml_context *ctx, ggml_tensor *a, int64_t s0, int64_t s1, int64_t s2, int64_t s3) except NULL:
    cdef ggml_tensor d
    cdef int64_t[4] shifts = [s0, s1, s2, s3]
    cdef int i
    node_like(&d, GGML_OP_ROLL, a.type, a)
    for i in range(4):
        d.op_params[i] = <int>(shifts[i] % a.ne[i]) if a.ne[i] else 0
    d.src[0] = a
    return node_append(ctx, &d)

cdef int grad_roll(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef int32_t *s = t.op_params
    return b.add(t.src[0], roll(b.ctx, g, -<int64_t>s[0], -<int64_t>s[1], -<int64_t>s[2], -<int64_t>s[3]))

gradients[GGML_OP_PAD] = grad_pad
gradients[GGML_OP_PAD_REFLECT_1D] = grad_pad_reflect
gradients[GGML_OP_ROLL] = grad_roll
