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
    """a with p0 to p3 zeros after its elements in each dimension."""
    return right(ctx, a, p0, p1, p2, p3, b"ggml_pad", False)

def ggml_pad_circular(ctx, a, p0, p1, p2, p3):
    """a with p0 to p3 more elements in each dimension, begun anew from the first."""
    return right(ctx, a, p0, p1, p2, p3, b"ggml_pad_circular", True)

def ggml_pad_ext(ctx, a, lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3):
    """a with zeros before (lp) and after (rp) its elements in each dimension."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_pad_ext")
    cdef int[8] p = [arg_int32(lp0, b"lp0"), arg_int32(rp0, b"rp0"), arg_int32(lp1, b"lp1"), arg_int32(rp1, b"rp1"),
                     arg_int32(lp2, b"lp2"), arg_int32(rp2, b"rp2"), arg_int32(lp3, b"lp3"), arg_int32(rp3, b"rp3")]
    return wrap_tensor(pad(c, arg_tensor(a, b"a"), p, False))

def ggml_pad_ext_circular(ctx, a, lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3):
    """a with elements before (lp) and after (rp) its own in each dimension, as if a went round in a ring."""
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
    """a with p0 elements before and p1 after its rows, mirrored at the first and last element, not repeating them."""
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
    """a with its elements moved on by the shifts in each dimension; those that leave at one end enter at the other."""
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
