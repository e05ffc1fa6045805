"""Sums, means, counts and the largest element of rows, with their gradients."""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_tensor, gg_same_shape, ggml_context, ggml_tensor, node_append, node_init, node_like, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ARGMAX, GGML_OP_COUNT_EQUAL, GGML_OP_MEAN, GGML_OP_REPEAT_BACK, GGML_OP_SUM, GGML_OP_SUM_ROWS,
    GGML_TYPE_F32, GGML_TYPE_I32, GGML_TYPE_I64,
)
from .._graph.grad cimport Backward, gradients
from .elementwise cimport scale
from .shape cimport broadcast_to

# ---- sums ------------------------------------------------------------------------------------------------------------
def ggml_sum(ctx, a):
    """Sum of all elements, [1]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sum")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_init(&d, GGML_OP_SUM, x.type, 1, 1, 1, 1)
    d.src[0] = x
    return wrap_tensor(node_append(c, &d))

cdef int grad_sum(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    return b.add(t.src[0], broadcast_to(b.ctx, g, t.src[0]))

cdef ggml_tensor *reduce_rows(ggml_context *ctx, int op, ggml_tensor *a) except NULL:
    """A node with one f32 element for each row of a."""
    cdef ggml_tensor d
    node_init(&d, op, GGML_TYPE_F32, 1, a.ne[1], a.ne[2], a.ne[3])
    d.src[0] = a
    return node_append(ctx, &d)

def ggml_sum_rows(ctx, a):
    """Sum of each row: [1, ne1, ne2, ne3]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sum_rows")
    return wrap_tensor(reduce_rows(c, GGML_OP_SUM_ROWS, arg_tensor(a, b"a")))

def ggml_mean(ctx, a):
    """Mean of each row: [1, ne1, ne2, ne3]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_mean")
    return wrap_tensor(reduce_rows(c, GGML_OP_MEAN, arg_tensor(a, b"a")))

cdef int grad_mean(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    if t.src[0].ne[0] == 0:
        return 0
    return b.add(t.src[0], broadcast_to(b.ctx, scale(b.ctx, g, <float>(1.0 / t.src[0].ne[0]), 0, False), t.src[0]))

def ggml_argmax(ctx, a):
    """Index of the largest element of each row of a matrix, the last of equals: i32 [ne1]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_argmax")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_init(&d, GGML_OP_ARGMAX, GGML_TYPE_I32, x.ne[1], 1, 1, 1)
    d.src[0] = x
    return wrap_tensor(node_append(c, &d))

def ggml_count_equal(ctx, a, b):
    """How many elements of a and b (i32) are equal: i64 [1]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_count_equal")
    cdef ggml_tensor d
    node_init(&d, GGML_OP_COUNT_EQUAL, GGML_TYPE_I64, 1, 1, 1, 1)
    d.src[0], d.src[1] = arg_tensor(a, b"a"), arg_tensor(b, b"b")
    return wrap_tensor(node_append(c, &d))

def ggml_repeat_back(ctx, a, b):
    """Sum of the tiles of a that have the shape of b: the gradient of ggml_repeat."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_repeat_back")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&d, GGML_OP_REPEAT_BACK, GGML_TYPE_F32, arg_tensor(b, b"b"))
    d.src[0] = x
    return wrap_tensor(node_append(c, &d))

cdef int grad_repeat_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    return b.add(t.src[0], broadcast_to(b.ctx, g, t.src[0]))

# ---- masks and soft-max ----------------------------------------------------------------------------------------------
cdef ggml_tensor *sum_to_sizes(ggml_context *ctx, ggml_tensor *g, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef ggml_tensor d
    node_init(&d, GGML_OP_REPEAT_BACK, GGML_TYPE_F32, ne0, ne1, ne2, ne3)
    d.src[0] = g
    return node_append(ctx, &d)

# ---- builders --------------------------------------------------------------------------------------------------------
cdef ggml_tensor *sum_to_shape(ggml_context *ctx, ggml_tensor *g, ggml_tensor *to) except NULL:
    cdef ggml_tensor d
    if gg_same_shape(g, to):
        return g
    node_like(&d, GGML_OP_REPEAT_BACK, GGML_TYPE_F32, to)
    d.src[0] = g
    return node_append(ctx, &d)

gradients[GGML_OP_SUM] = gradients[GGML_OP_SUM_ROWS] = grad_sum
gradients[GGML_OP_MEAN] = grad_mean
gradients[GGML_OP_REPEAT_BACK] = grad_repeat_back
