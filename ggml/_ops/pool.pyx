"""Pooling of rows and of images, with its gradient."""
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from .._core cimport (
    arg_context, arg_float, arg_int32, arg_tensor, fail, ggml_context, ggml_tensor, node_append, node_init, node_like,
    wrap_tensor,
)
from .._enums cimport GGML_OP_POOL_1D, GGML_OP_POOL_2D, GGML_OP_POOL_2D_BACK, GGML_TYPE_F32
from .._graph.grad cimport Backward, gradients

cdef extern from "runtime/geometry.h" nogil:
    enum: GGML_OP_POOL_MAX

# ---- pooling -------------------------------------------------------------------------------------------------------------
cdef int64_t windows(int64_t n, int k, int s, float p) except -1:
    """Places of a window of k over n elements with p more (which may be half of one) at each end."""
    if k < 1 or s < 1:
        fail(ValueError, f"window is {k}, stride is {s}: need 1 or more")
    if not 0 <= p <= 1 << 30:
        fail(ValueError, f"padding is {p}: need 0 to 2^30")
    cdef double room = <double>n + 2 * <double>p - k
    if room < 0:
        fail(ValueError, f"a window of {k} does not fit into {n} with a padding of {p}")
    return <int64_t>(room / s) + 1

def ggml_pool_1d(ctx, a, op, k0, s0, p0):
    """The largest value (op GGML_OP_POOL_MAX) or the average (GGML_OP_POOL_AVG) of windows of k0 elements of each row, in steps of s0.

    p0 elements at each end lie outside; averages are over what lies inside."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_pool_1d")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef int k = arg_int32(k0, b"k0"), s = arg_int32(s0, b"s0"), p = arg_int32(p0, b"p0")
    node_init(&d, GGML_OP_POOL_1D, GGML_TYPE_F32, windows(x.ne[0], k, s, p), x.ne[1], x.ne[2], x.ne[3])
    d.op_params[0], d.op_params[1], d.op_params[2], d.op_params[3] = arg_int32(op, b"op"), k, s, p
    d.src[0] = x
    return wrap_tensor(node_append(c, &d))

def ggml_pool_2d(ctx, a, op, k0, k1, s0, s1, p0, p1):
    """The largest value (op GGML_OP_POOL_MAX) or the average (GGML_OP_POOL_AVG) of windows of k0 x k1 elements, in steps of s0 and s1.

    p0, p1: padding at each side. Half an element makes windows begin at the edge and may add one that reaches beyond the other. Averages
    are over whole windows, with 0 outside."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_pool_2d")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    pool_params(&d, GGML_OP_POOL_2D, arg_int32(op, b"op"), arg_int32(k0, b"k0"), arg_int32(k1, b"k1"), arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_float(p0, b"p0"), arg_float(p1, b"p1"), x)
    d.ne[2], d.ne[3] = x.ne[2], x.ne[3]
    d.src[0] = x
    return wrap_tensor(node_append(c, &d))

cdef int pool_params(ggml_tensor *d, int node, int op, int k0, int k1, int s0, int s1, float p0, float p1, ggml_tensor *x) except -1:
    node_init(d, node, GGML_TYPE_F32, windows(x.ne[0], k0, s0, p0), windows(x.ne[1], k1, s1, p1), 1, 1)
    d.op_params[0], d.op_params[1], d.op_params[2], d.op_params[3], d.op_params[4] = op, k0, k1, s0, s1
    d.op_params[5], d.op_params[6] = <int>p0, <int>p1
    return 0

def ggml_pool_2d_back(ctx, a, af, op, k0, k1, s0, s1, p0, p1):
    """The gradient of ggml_pool_2d: a is the gradient of its result, af its argument."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_pool_2d_back")
    cdef ggml_tensor d
    cdef ggml_tensor *g = arg_tensor(a, b"a")
    cdef ggml_tensor *x = arg_tensor(af, b"af")
    pool_params(&d, GGML_OP_POOL_2D_BACK, arg_int32(op, b"op"), arg_int32(k0, b"k0"), arg_int32(k1, b"k1"), arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_float(p0, b"p0"), arg_float(p1, b"p1"), x)
    if g.ne[0] != d.ne[0] or g.ne[1] != d.ne[1]:
        fail(ValueError, f"a has rows of {g.ne[0]} and {g.ne[1]} of them: the result of pooling af has {d.ne[0]} and {d.ne[1]}")
    memcpy(d.ne, x.ne, sizeof(d.ne))
    d.src[0], d.src[1] = g, x
    return wrap_tensor(node_append(c, &d))

cdef int grad_pool(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_tensor d
    cdef ggml_tensor *x = t.src[0]
    node_like(&d, GGML_OP_POOL_2D_BACK, GGML_TYPE_F32, x)
    memcpy(d.op_params, t.op_params, sizeof(d.op_params))
    if t.op == GGML_OP_POOL_1D:     # one of two dimensions whose windows are one row high
        d.op_params[1], d.op_params[2], d.op_params[3], d.op_params[4] = t.op_params[1], 1, t.op_params[2], 1
        d.op_params[5], d.op_params[6], d.op_params[7] = t.op_params[3], 0, 1
    if d.op_params[0] == GGML_OP_POOL_MAX:
        b.require_not_overwritten(t, x)
    d.src[0], d.src[1] = g, x
    return b.add(x, node_append(b.ctx, &d))

gradients[GGML_OP_POOL_1D] = gradients[GGML_OP_POOL_2D] = grad_pool
