"""Sums, means, counts, the smallest and the largest elements, with their gradients."""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_tensor, gg_same_shape, ggml_context, ggml_tensor, node_append, node_init, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ARGMAX, GGML_OP_COUNT_EQUAL, GGML_OP_MEAN, GGML_OP_MIN_MAX, GGML_OP_REPEAT_BACK, GGML_OP_SUM,
    GGML_OP_SUM_ROWS, GGML_TYPE_F32, GGML_TYPE_I32, GGML_TYPE_I64, GGML_UNARY_OP_ABS,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport argmax_params
from .elementwise cimport div, mul, scale, sub
from .shape cimport broadcast_to, view_slice
from .unary cimport step, unary

# ---- sums and means --------------------------------------------------------------------------------------------------
def ggml_sum(ctx, a):
    """Sums all elements of a tensor.

    Short blocks are summed in f32 and added up in double precision; the number of threads does not change the result.
    The gradient flows to every element of a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor [1] of a's type; 0 if a is empty.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sum")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_init(&node, GGML_OP_SUM, x.type, 1, 1, 1, 1)
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

cdef ggml_tensor *reduce_rows(ggml_context *ctx, int op, ggml_tensor *a) except NULL:
    cdef ggml_tensor node
    node_init(&node, op, GGML_TYPE_F32, 1, a.ne[1], a.ne[2], a.ne[3])
    node.src[0] = a
    return node_append(ctx, &node)

cdef ggml_tensor *sum_rows(ggml_context *ctx, ggml_tensor *a) except NULL:
    return reduce_rows(ctx, GGML_OP_SUM_ROWS, a)

cdef ggml_tensor *mean_rows(ggml_context *ctx, ggml_tensor *a) except NULL:
    return reduce_rows(ctx, GGML_OP_MEAN, a)

def ggml_sum_rows(ctx, a):
    """Sums the elements of each row.

    The gradient flows to every element of the row.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
    Returns:
        f32 tensor [1, ne1, ne2, ne3], also for f16 and bf16 input.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sum_rows")
    return wrap_tensor(sum_rows(c, arg_tensor(a, b"a")))

cdef int grad_sum(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """SUM, SUM_ROWS: t = sum(x); dx = g, repeated to the shape of x."""
    return b.add(t.src[0], broadcast_to(b.ctx, g, t.src[0]))

def ggml_mean(ctx, a):
    """Averages the elements of each row.

    Rows without elements give NaN. The gradient flows to every element of the row, divided by ne0.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
    Returns:
        f32 tensor [1, ne1, ne2, ne3].
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_mean")
    return wrap_tensor(mean_rows(c, arg_tensor(a, b"a")))

cdef int grad_mean(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = sum(x) / n for rows of n elements: dx = g / n, repeated to the shape of x."""
    cdef ggml_tensor *x = t.src[0]
    if x.ne[0] == 0:
        return 0
    return b.add(x, broadcast_to(b.ctx, scale(b.ctx, g, <float>(1.0 / x.ne[0]), 0, False), x))

# ---- the smallest and the largest element ----------------------------------------------------------------------------
def ext_min_max(ctx, a):
    """Finds the smallest and the largest element of a tensor in one pass.

    NaN is skipped. The gradient of each flows to the elements that are equal to it, in equal parts.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        f32 tensor [2]: the smallest and the largest element; inf and -inf if a is empty.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.min_max")
    cdef ggml_tensor node
    node_init(&node, GGML_OP_MIN_MAX, GGML_TYPE_F32, 2, 1, 1, 1)
    node.src[0] = arg_tensor(a, b"a")
    return wrap_tensor(node_append(c, &node))

cdef int grad_min_max(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = (min x, max x): dx = g[i] / n at each of the n elements that are equal to t[i]."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *other
    cdef ggml_tensor *equal
    cdef int i
    b.require_not_overwritten(t, x)
    b.require_not_overwritten(t, t)
    for i in range(2):
        other = sub(b.ctx, x, view_slice(b.ctx, t, 0, i, 1))
        equal = scale(b.ctx, step(b.ctx, unary(b.ctx, GGML_UNARY_OP_ABS, other, False)), -1, 1, False)
        b.add(x, mul(b.ctx, equal, div(b.ctx, view_slice(b.ctx, g, 0, i, 1), sum_to_sizes(b.ctx, equal, 1, 1, 1, 1))))
    return 0

# ---- integers --------------------------------------------------------------------------------------------------------
cdef object argmax(ggml_context *ctx, ggml_tensor *x, bint nan, bint first):
    """The index of the largest element of each row; nan: NaN is larger than all; first: the first of equal ones."""
    cdef ggml_tensor node
    node_init(&node, GGML_OP_ARGMAX, GGML_TYPE_I32, x.ne[1], 1, 1, 1)
    argmax_params(&node).nan, argmax_params(&node).first = nan, first
    node.src[0] = x
    return wrap_tensor(node_append(ctx, &node))

def ggml_argmax(ctx, a):
    """Finds the index of the largest element of each row of a matrix.

    Of equal elements the last one counts, unlike in NumPy. NaN is skipped; a row that is NaN throughout gives 0. There
    is no gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1].
    Returns:
        i32 tensor [ne1], with indices from 0 to ne0 - 1.
    Raises:
        ValueError: a has more than two dimensions, rows too long for an i32 index, or a type other than f32, f16,
            bf16.
        MemoryError: the context is full.
    """
    return argmax(arg_context(ctx, b"ggml_argmax"), arg_tensor(a, b"a"), False, False)

def ext_argmax(ctx, a, last=False):
    """Finds the index of the largest element of each row of a matrix, as NumPy does.

    NaN is larger than all numbers. There is no gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1].
        last: of equal elements the last one counts instead of the first.
    Returns:
        i32 tensor [ne1], with indices from 0 to ne0 - 1.
    Raises:
        ValueError: a has more than two dimensions, rows too long for an i32 index, or a type other than f32, f16,
            bf16.
        MemoryError: the context is full.
    """
    return argmax(arg_context(ctx, b"ggml.ext.argmax"), arg_tensor(a, b"a"), True, not last)

def ggml_count_equal(ctx, a, b):
    """Counts the positions at which two integer tensors are equal.

    With results of ggml_argmax this gives the number of correct predictions. There is no gradient.

    Args:
        ctx: context that receives the result.
        a: i32, any shape.
        b: i32, of the shape of a.
    Returns:
        i64 tensor [1].
    Raises:
        ValueError: the shapes differ, or a type is not i32.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_count_equal")
    cdef ggml_tensor node
    node_init(&node, GGML_OP_COUNT_EQUAL, GGML_TYPE_I64, 1, 1, 1, 1)
    node.src[0], node.src[1] = arg_tensor(a, b"a"), arg_tensor(b, b"b")
    return wrap_tensor(node_append(c, &node))

# ---- sums of repeats -------------------------------------------------------------------------------------------------
cdef ggml_tensor *sum_to_sizes(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2,
                               int64_t ne3) except NULL:
    cdef ggml_tensor node
    node_init(&node, GGML_OP_REPEAT_BACK, GGML_TYPE_F32, ne0, ne1, ne2, ne3)
    node.src[0] = a
    return node_append(ctx, &node)

cdef ggml_tensor *sum_to_shape(ggml_context *ctx, ggml_tensor *a, ggml_tensor *like) except NULL:
    return a if gg_same_shape(a, like) else sum_to_sizes(ctx, a, like.ne[0], like.ne[1], like.ne[2], like.ne[3])

def ggml_repeat_back(ctx, a, b):
    """Sums the repeats that ggml_repeat made: the gradient of ggml_repeat.

    a is cut into blocks of b's shape, and the blocks are added up element by element. The gradient flows to a,
    repeated.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16; each dimension of its shape [ne0, ne1, ne2, ne3] is a multiple of b's.
        b: any tensor of the shape of the result; its elements and type do not matter.
    Returns:
        f32 tensor of b's shape.
    Raises:
        ValueError: a dimension of a is not a multiple of b's, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_repeat_back")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef ggml_tensor *like = arg_tensor(b, b"b")
    return wrap_tensor(sum_to_sizes(c, x, like.ne[0], like.ne[1], like.ne[2], like.ne[3]))

cdef int grad_repeat_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = the sum of the repeats in x: dx = g, repeated to the shape of x."""
    return b.add(t.src[0], broadcast_to(b.ctx, g, t.src[0]))

gradients[GGML_OP_SUM] = gradients[GGML_OP_SUM_ROWS] = grad_sum
gradients[GGML_OP_MEAN] = grad_mean
gradients[GGML_OP_MIN_MAX] = grad_min_max
gradients[GGML_OP_REPEAT_BACK] = grad_repeat_back
