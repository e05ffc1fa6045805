"""Padding with zeros, circular or reflected, and rolling, with their gradients."""
from libc.stdint cimport int32_t, int64_t

from .._core cimport (
    arg_context, arg_float, arg_int32, arg_tensor, fail, gg_is_empty, gg_nrows, ggml_context, ggml_tensor, node1,
    node_append, node_like, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ACC, GGML_OP_DUP, GGML_OP_PAD, GGML_OP_PAD_REFLECT_1D, GGML_OP_ROLL, GGML_TYPE_I32, GGML_UNARY_OP_ABS,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport gg_pad_reflect_params, pad_params, pad_reflect_params, roll_params
from .elementwise cimport clamp, scale
from .fill cimport index_range, zeros
from .index cimport get_rows_back
from .shape cimport cast, concat, contiguous, permute, reshape, transpose, update, view_slice
from .unary cimport unary

# ---- PAD -------------------------------------------------------------------------------------------------------------
cdef extern from "runtime/pad_modes.h" nogil:
    enum: GG_PAD_ZERO, GG_PAD_CIRCULAR, GG_PAD_REFLECT, GG_PAD_EDGE

cdef ggml_tensor *pad(ggml_context *ctx, ggml_tensor *a, const int *before_after, int mode,
                      float value=0) except NULL:
    cdef ggml_tensor node
    cdef int i
    node_like(&node, GGML_OP_PAD, a.type, a)
    for i in range(8):
        pad_params(&node).ends[i] = before_after[i]
        node.ne[i // 2] += before_after[i]
    pad_params(&node).mode, pad_params(&node).value = mode, value
    node.src[0] = a
    return node_append(ctx, &node)

cdef object pad_end_of(object ctx, const char *name, object a, object p0, object p1, object p2, object p3,
                       bint circular):
    """What the public function `name` returns: a padded at the end of each dimension."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef int[8] before_after = [0, arg_int32(p0, b"p0"), 0, arg_int32(p1, b"p1"), 0, arg_int32(p2, b"p2"),
                                0, arg_int32(p3, b"p3")]
    return wrap_tensor(pad(c, arg_tensor(a, b"a"), before_after, GG_PAD_CIRCULAR if circular else GG_PAD_ZERO))

cdef object pad_ext_of(object ctx, const char *name, object a, object lp0, object rp0, object lp1, object rp1,
                       object lp2, object rp2, object lp3, object rp3, bint circular):
    """What the public function `name` returns: a padded at both ends of each dimension."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef int[8] before_after = [
        arg_int32(lp0, b"lp0"), arg_int32(rp0, b"rp0"), arg_int32(lp1, b"lp1"), arg_int32(rp1, b"rp1"),
        arg_int32(lp2, b"lp2"), arg_int32(rp2, b"rp2"), arg_int32(lp3, b"lp3"), arg_int32(rp3, b"rp3")]
    return wrap_tensor(pad(c, arg_tensor(a, b"a"), before_after, GG_PAD_CIRCULAR if circular else GG_PAD_ZERO))

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
        Tensor [ne0 + p0, ne1 + p1, ne2 + p2, ne3 + p3] of a's type.
    Raises:
        ValueError: a padding is negative, or a is quantised.
        MemoryError: the context is full.
    See also:
        ggml_pad_ext, which pads both ends.
    """
    return pad_end_of(ctx, b"ggml_pad", a, p0, p1, p2, p3, False)

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
        Tensor [ne0 + p0, ne1 + p1, ne2 + p2, ne3 + p3] of a's type.
    Raises:
        ValueError: a padding is negative, a is quantised, or a dimension to extend is empty.
        MemoryError: the context is full.
    """
    return pad_end_of(ctx, b"ggml_pad_circular", a, p0, p1, p2, p3, True)

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
        Tensor [lp0 + ne0 + rp0, lp1 + ne1 + rp1, lp2 + ne2 + rp2, lp3 + ne3 + rp3] of a's type.
    Raises:
        ValueError: a padding is negative, or a is quantised.
        MemoryError: the context is full.
    """
    return pad_ext_of(ctx, b"ggml_pad_ext", a, lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3, False)

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
        Tensor [lp0 + ne0 + rp0, lp1 + ne1 + rp1, lp2 + ne2 + rp2, lp3 + ne3 + rp3] of a's type.
    Raises:
        ValueError: a padding is negative, a is quantised, or a dimension to extend is empty.
        MemoryError: the context is full.
    """
    return pad_ext_of(ctx, b"ggml_pad_ext_circular", a, lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3, True)

cdef ggml_tensor *sum_periods(ggml_context *ctx, ggml_tensor *g, int dim, int64_t before, int64_t n) except NULL:
    """The sum over the periods of n elements of g along dim; element 0 of a period is at `before` modulo n."""
    cdef int64_t total = g.ne[dim], start = before % n - n, first, end
    cdef ggml_tensor *sum = node1(ctx, GGML_OP_DUP, view_slice(ctx, g, dim, before, n))
    while start < total:
        first, end = max(start, 0), min(start + n, total)      # the first and the last period may be cut off
        if start != before and end > first:
            sum = update(ctx, GGML_OP_ACC, sum, view_slice(ctx, g, dim, first, end - first), sum.nb[1], sum.nb[2],
                         sum.nb[3], <size_t>(first - start) * sum.nb[dim], True)
        start += n
    return sum

def ext_pad(ctx, a, sides, mode):
    """Extends each dimension of a tensor at both ends by its own elements, or by a number.

    The gradient with respect to a is the sum over all copies of an element; dimensions that are extended have at most
    2^24 elements there.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        sides: eight numbers of elements, 0 or more: before and after dimension 0, before and after dimension 1, ...
        mode: "reflect": the mirror image, without the element at the end, so that a side is smaller than its
            dimension; "edge": the element at the end; or a number, for a of type f32.
    Returns:
        Tensor [sides[0] + ne0 + sides[1], sides[2] + ne1 + sides[3], ...] of a's type.
    Raises:
        TypeError: sides are not eight integers.
        ValueError: mode is another one or a number for a of another type, a side is negative or too large, a is
            quantised, or a dimension to extend is empty.
        MemoryError: the context is full.
    See also:
        ggml_pad_ext and ggml_pad_ext_circular.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.pad")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef int[8] before_after
    cdef int i
    if not isinstance(sides, (list, tuple)) or len(sides) != 8:
        fail(TypeError, f"sides is {sides!r}: need a list of eight integers")
    cdef bint number = isinstance(mode, (int, float))
    if not number and mode not in ("reflect", "edge"):
        fail(ValueError, f"mode is {mode!r}: need 'reflect', 'edge' or a number")
    for i in range(8):
        before_after[i] = arg_int32(sides[i], b"sides")
    if number:
        return wrap_tensor(pad(c, x, before_after, GG_PAD_ZERO, arg_float(mode, b"mode")))
    return wrap_tensor(pad(c, x, before_after, GG_PAD_REFLECT if mode == "reflect" else GG_PAD_EDGE))

cdef ggml_tensor *sum_copies(ggml_context *ctx, ggml_tensor *g, int dim, ggml_tensor *index, int64_t n) except NULL:
    """The sums of those elements of g along dim that have the same index below n."""
    cdef int i
    cdef int[4] order = [0, 1, 2, 3]       # GET_ROWS_BACK adds whole rows: the dimension takes the last place
    cdef int[4] ends = [0, 1, 2, 3]
    for i in range(4):
        order[i] = 3 if i == dim else i - (i > dim)
        ends[order[i]] = i
    cdef ggml_tensor *last = contiguous(ctx, permute(ctx, g, order[0], order[1], order[2], order[3]))
    cdef int64_t m = last.ne[0] * last.ne[1] * last.ne[2]
    cdef ggml_tensor *sums = get_rows_back(ctx, reshape(ctx, last, m, last.ne[3], 1, 1), index, n)
    return permute(ctx, reshape(ctx, sums, last.ne[0], last.ne[1], last.ne[2], n), ends[0], ends[1], ends[2], ends[3])

cdef ggml_tensor *sources(ggml_context *ctx, int mode, int64_t before, int64_t n, int64_t after) except NULL:
    """I32 [before + n + after]: the element of a dimension of n that each of the padded one shows."""
    cdef ggml_tensor *i = index_range(ctx, -before, n + after, 1)
    if mode == GG_PAD_EDGE:
        i = clamp(ctx, i, 0, n - 1, False)
    else:                                  # n - 1 - |n - 1 - |i||
        i = scale(ctx, unary(ctx, GGML_UNARY_OP_ABS, i, False), -1, n - 1, False)
        i = scale(ctx, unary(ctx, GGML_UNARY_OP_ABS, i, False), -1, n - 1, False)
    return cast(ctx, i, GGML_TYPE_I32)

cdef int grad_pad(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x padded: dx[i] = g[before + i], or the sum of g over all copies of x[i]."""
    cdef ggml_tensor *x = t.src[0]
    cdef int dim, mode = pad_params(t).mode
    cdef int64_t before, after
    if gg_is_empty(x):
        return b.add(x, zeros(b.ctx, x.ne[0], x.ne[1], x.ne[2], x.ne[3]))
    for dim in range(4):
        if g.ne[dim] == x.ne[dim]:
            continue
        before, after = pad_params(t).ends[2 * dim], pad_params(t).ends[2 * dim + 1]
        if mode == GG_PAD_CIRCULAR:
            g = sum_periods(b.ctx, g, dim, before, x.ne[dim])
        elif mode == GG_PAD_ZERO:
            g = view_slice(b.ctx, g, dim, before, x.ne[dim])
        else:
            g = sum_copies(b.ctx, g, dim, sources(b.ctx, mode, before, x.ne[dim], after), x.ne[dim])
    return b.add(x, g)

# ---- PAD_REFLECT_1D --------------------------------------------------------------------------------------------------
def ggml_pad_reflect_1d(ctx, a, p0, p1):
    """Extends the rows of a tensor at both ends by their mirror images.

    The row is reflected at its first and last element, which are not repeated: [a, b, c] with p0 = 1 and p1 = 2
    becomes [b, a, b, c, b, a]. The gradient with respect to a is the sum over all copies of an element; it needs rows
    of at most 2^24 elements.

    Args:
        ctx: context that receives the result.
        a: any type that is not quantised, [ne0, ne1, ne2, ne3].
        p0: elements to add before each row, 0 to ne0 - 1.
        p1: elements to add after each row, 0 to ne0 - 1.
    Returns:
        Tensor [p0 + ne0 + p1, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: p0 or p1 is not 0 to ne0 - 1, or a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_pad_reflect_1d")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef gg_pad_reflect_params *q = pad_reflect_params(&node)
    node_like(&node, GGML_OP_PAD_REFLECT_1D, x.type, x)
    q.before, q.after = arg_int32(p0, b"p0"), arg_int32(p1, b"p1")
    node.ne[0] += <int64_t>q.before + q.after
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

cdef int grad_pad_reflect(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[i] = x[index[i]] by rows: dx[j] = the sum of g[i] over all i with index[i] = j.

    GET_ROWS_BACK adds whole rows by index, so it is applied to the transposed matrix of all rows.
    """
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_context *c = b.ctx
    cdef int64_t n = x.ne[0], rows = gg_nrows(x)
    cdef int before = pad_reflect_params(t).before, after = pad_reflect_params(t).after
    cdef ggml_tensor *index = index_range(c, 0, n, 1)
    if before:
        index = concat(c, index_range(c, before, 0, -1), index, 0)
    if after:
        index = concat(c, index, index_range(c, n - 2, n - 2 - after, -1), 0)
    cdef ggml_tensor *columns = transpose(c, reshape(c, contiguous(c, g), t.ne[0], rows, 1, 1))
    cdef ggml_tensor *sums = get_rows_back(c, columns, cast(c, index, GGML_TYPE_I32), n)
    return b.add(x, reshape(c, contiguous(c, transpose(c, sums)), x.ne[0], x.ne[1], x.ne[2], x.ne[3]))

# ---- ROLL ------------------------------------------------------------------------------------------------------------
cdef ggml_tensor *roll(ggml_context *ctx, ggml_tensor *a, int64_t shift0, int64_t shift1, int64_t shift2,
                       int64_t shift3) except NULL:
    cdef ggml_tensor node
    cdef int64_t[4] shifts = [shift0, shift1, shift2, shift3]
    cdef int i
    node_like(&node, GGML_OP_ROLL, a.type, a)
    for i in range(4):
        roll_params(&node).shifts[i] = <int>(shifts[i] % a.ne[i]) if a.ne[i] else 0
    node.src[0] = a
    return node_append(ctx, &node)

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
        Tensor of a's type and shape.
    Raises:
        ValueError: a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_roll")
    return wrap_tensor(roll(c, arg_tensor(a, b"a"), arg_int32(shift0, b"shift0"), arg_int32(shift1, b"shift1"),
                            arg_int32(shift2, b"shift2"), arg_int32(shift3, b"shift3")))

cdef int grad_roll(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[(i + shift) mod n] = x[i]: dx[i] = g[(i + shift) mod n], g rolled back."""
    cdef int32_t *shift = roll_params(t).shifts
    return b.add(t.src[0], roll(b.ctx, g, -<int64_t>shift[0], -<int64_t>shift[1], -<int64_t>shift[2],
                                -<int64_t>shift[3]))

gradients[GGML_OP_PAD] = grad_pad
gradients[GGML_OP_PAD_REFLECT_1D] = grad_pad_reflect
gradients[GGML_OP_ROLL] = grad_roll
