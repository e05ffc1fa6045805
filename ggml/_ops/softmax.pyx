"""Soft-max, its logarithm and the cross entropy, with their gradients."""
from libc.math cimport INFINITY

from .._core cimport (
    arg_context, arg_float, arg_tensor, arg_tensor_or_null, enter, fail, gg_nrows, gg_param_f32, gg_set_param_f32,
    ggml_context, ggml_tensor, node1, node_append, node_in_place, node_init, node_like, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ACC, GGML_OP_CROSS_ENTROPY_LOSS, GGML_OP_CROSS_ENTROPY_LOSS_BACK, GGML_OP_LOG_SOFT_MAX, GGML_OP_SOFT_MAX,
    GGML_OP_SOFT_MAX_BACK, GGML_OP_SUM_ROWS, GGML_TYPE_F32,
)
from .._graph.grad cimport Backward, gradients
from .elementwise cimport clamp, mul, scale, sub
from .fill cimport zeros
from .reduce cimport reduce_rows, sum_to_shape, sum_to_sizes
from .shape cimport broadcast_to, reshape, update

cdef float LEAST_LOG = -1e30
# ---- masks and soft-max ----------------------------------------------------------------------------------------------
cdef ggml_tensor *soft_max(ggml_context *ctx, ggml_tensor *a, ggml_tensor *mask, float factor, float max_bias, bint inplace) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_SOFT_MAX, a.type, a)
    gg_set_param_f32(&d, 0, factor)
    gg_set_param_f32(&d, 1, max_bias)
    d.src[0], d.src[1] = a, mask
    if inplace:
        node_in_place(&d, a)
    return node_append(ctx, &d)

def ggml_soft_max(ctx, a):
    """Computes the softmax of each row: exp(a) / sum(exp(a)).

    The largest element of a row is subtracted first, so exp does not overflow. A row that is -inf throughout
    gives zeros. Gradient: flows to a, as ggml_soft_max_back computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_soft_max_ext for a mask and a scale, ggml_soft_max_add_sinks for sinks.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max")
    return wrap_tensor(soft_max(c, arg_tensor(a, b"a"), NULL, 1, 0, False))

def ggml_soft_max_inplace(ctx, a):
    """Replaces each row of a by its softmax.

    The gradient is computed from the result, so attention may use this form in training.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; overwritten.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_inplace")
    return wrap_tensor(soft_max(c, arg_tensor(a, b"a"), NULL, 1, 0, True))

def ggml_soft_max_ext(ctx, a, mask, scale, max_bias):
    """Computes the softmax of each row of a * scale + slope * mask.

    An element is hidden where the mask is -inf, whatever its value; a row that is hidden throughout gives zeros.
    The slope is 1 if max_bias is 0. Otherwise it implements ALiBi (arXiv:2108.12409): where p is the largest
    power of two up to n_heads, head h has the slope

        2^(-max_bias * (h + 1) / p)                     for h < p,
        2^(-max_bias * (2 * (h - p) + 1) / (2 * p))     for the heads beyond.

    Gradient: flows to a, mask and sinks (see ggml_soft_max_add_sinks).

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [n_keys, n_queries, n_heads, batch].
        mask: f32 or f16, [n_keys, n_queries or more, m2, m3], where n_heads is a multiple of m2 and batch of m3;
            None or NULL for no mask.
        scale: factor of a, a number.
        max_bias: ALiBi's largest exponent, 0 or more; 0 without a mask.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: scale or max_bias is not a number.
        ValueError: mask does not fit a, max_bias is negative or needs a mask, or a type is not supported.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_ext")
    return wrap_tensor(soft_max(c, arg_tensor(a, b"a"), arg_tensor_or_null(mask, b"mask"), arg_float(scale, b"scale"), arg_float(max_bias, b"max_bias"), False))

def ggml_soft_max_ext_inplace(ctx, a, mask, scale, max_bias):
    """Replaces each row of a by the softmax of a * scale + slope * mask.

    Scale, mask and slopes are those of ggml_soft_max_ext. The gradients of a and mask are computed from the
    result and remain available.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [n_keys, n_queries, n_heads, batch]; overwritten.
        mask: f32 or f16, [n_keys, n_queries or more, m2, m3], where n_heads is a multiple of m2 and batch of m3;
            None or NULL for no mask.
        scale: factor of a, a number.
        max_bias: ALiBi's largest exponent, 0 or more; 0 without a mask.
    Returns:
        View of all of a.
    Raises:
        TypeError: scale or max_bias is not a number.
        ValueError: mask does not fit a, max_bias is negative or needs a mask, or a type is not supported.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_ext_inplace")
    return wrap_tensor(soft_max(c, arg_tensor(a, b"a"), arg_tensor_or_null(mask, b"mask"), arg_float(scale, b"scale"), arg_float(max_bias, b"max_bias"), True))

def ggml_soft_max_add_sinks(a, sinks):
    """Gives a softmax node attention sinks: one additional logit for each head.

    The node itself changes. exp(sink) is added to the sum that divides each row of the head but has no element in
    the result, so these rows sum to less than 1. Gradient: flows to sinks.

    Args:
        a: result of ggml_soft_max or ggml_soft_max_ext (or an _inplace form), f32, f16 or bf16, [ne0, ne1,
            n_heads, ne3].
        sinks: f32 [n_heads]; None or NULL removes the sinks.
    Returns:
        None.
    Raises:
        TypeError: a or sinks is not a tensor.
        ValueError: a is not the result of a softmax, or sinks is not one f32 for each head.
        RuntimeError: a or sinks was freed.
    """
    enter(b"ggml_soft_max_add_sinks")
    cdef ggml_tensor *t = arg_tensor(a, b"a")
    cdef ggml_tensor *s = arg_tensor_or_null(sinks, b"sinks")
    if t.op != GGML_OP_SOFT_MAX:
        fail(ValueError, "a is no result of ggml_soft_max or ggml_soft_max_ext")
    if s != NULL and (s.type != GGML_TYPE_F32 or s.ne[0] != t.src[0].ne[2] or gg_nrows(s) != 1):
        fail(ValueError, f"sinks has ne[0] = {s.ne[0]}: need one f32 for each of the {t.src[0].ne[2]} heads")
    t.src[2] = s

cdef ggml_tensor *soft_max_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *y, float factor, float max_bias, bint by_mask, bint inplace) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_SOFT_MAX_BACK, g.type, g)
    d.op_params[2] = by_mask
    gg_set_param_f32(&d, 0, factor)
    gg_set_param_f32(&d, 1, max_bias)
    d.src[0], d.src[1] = g, y
    if inplace:
        node_in_place(&d, g)
    return node_append(ctx, &d)

def ggml_soft_max_ext_back(ctx, a, b, scale, max_bias):
    """Computes the gradient of ggml_soft_max_ext by its a: scale * (a - sum(a * b)) * b, with the sum over each row.

    Gradient: flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_soft_max_ext, f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        b: result of ggml_soft_max_ext, f32, f16 or bf16, of the shape of a.
        scale: the scale of ggml_soft_max_ext, a number.
        max_bias: the max_bias of ggml_soft_max_ext, a number; it does not change this gradient.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: scale or max_bias is not a number.
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_ext_back")
    return wrap_tensor(soft_max_back(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_float(scale, b"scale"), arg_float(max_bias, b"max_bias"), False, False))

def ggml_soft_max_ext_back_inplace(ctx, a, b, scale, max_bias):
    """Turns the gradient of a ggml_soft_max_ext result into that of its a, in the same memory.

    The result is scale * (a - sum(a * b)) * b by rows. A further gradient flows to a; one of b would need the
    overwritten values, and ggml_build_backward_expand raises ValueError for it.

    Args:
        ctx: context that receives the node.
        a: gradient of the result of ggml_soft_max_ext, f32, f16 or bf16, [ne0, ne1, ne2, ne3]; overwritten.
        b: result of ggml_soft_max_ext, f32, f16 or bf16, of the shape of a.
        scale: the scale of ggml_soft_max_ext, a number.
        max_bias: the max_bias of ggml_soft_max_ext, a number; it does not change this gradient.
    Returns:
        View of all of a.
    Raises:
        TypeError: scale or max_bias is not a number.
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_ext_back_inplace")
    return wrap_tensor(soft_max_back(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_float(scale, b"scale"), arg_float(max_bias, b"max_bias"), False, True))

def ggml_soft_max_back(ctx, a, b):
    """Computes the gradient of ggml_soft_max by its argument: (a - sum(a * b)) * b, with the sum over each row.

    Gradient: flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_soft_max, f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        b: result of ggml_soft_max, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_back")
    return wrap_tensor(soft_max_back(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), 1, 0, False, False))

def ggml_soft_max_back_inplace(ctx, a, b):
    """Turns the gradient of a ggml_soft_max result into that of its argument, in the same memory.

    The result is (a - sum(a * b)) * b by rows. b is only read.

    Args:
        ctx: context that receives the node.
        a: gradient of the result of ggml_soft_max, f32, f16 or bf16, [ne0, ne1, ne2, ne3]; overwritten.
        b: result of ggml_soft_max, f32, f16 or bf16, of the shape of a.
    Returns:
        View of all of a.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_back_inplace")
    return wrap_tensor(soft_max_back(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), 1, 0, False, True))

cdef int grad_soft_max_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = k (dy - sum(dy y)) y by rows: linear and symmetric in dy; by y: k (g (dy - sum(dy y)) - dy sum(g y))"""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *dy = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    cdef ggml_tensor *by_y
    cdef float factor = gg_param_f32(t, 0), max_bias = gg_param_f32(t, 1)
    b.require_not_overwritten(t, y)
    if b.needs(dy):
        b.add(dy, soft_max_back(c, g, y, factor, max_bias, t.op_params[2], False))
    if b.needs(y):
        if t.op_params[2] and max_bias > 0:
            fail(ValueError, "SOFT_MAX has no second gradient by a mask with ALiBi")
        b.require_not_overwritten(t, dy)
        by_y = sub(c, mul(c, g, sub(c, dy, reduce_rows(c, GGML_OP_SUM_ROWS, mul(c, dy, y)))), mul(c, dy, reduce_rows(c, GGML_OP_SUM_ROWS, mul(c, g, y))))
        b.add(y, scale(c, by_y, 1 if t.op_params[2] else factor, 0, False))
    return 0

cdef ggml_tensor *mask_gradient(ggml_context *ctx, ggml_tensor *g, ggml_tensor *mask) except NULL:
    cdef ggml_tensor *sum = sum_to_sizes(ctx, g, g.ne[0], g.ne[1], mask.ne[2], mask.ne[3])
    if g.ne[0] == mask.ne[0] and g.ne[1] == mask.ne[1]:
        return sum
    cdef ggml_tensor *all = zeros(ctx, mask.ne[0], mask.ne[1], mask.ne[2], mask.ne[3])
    return update(ctx, GGML_OP_ACC, all, sum, all.nb[1], all.nb[2], all.nb[3], 0, False)

cdef ggml_tensor *sinks_gradient(ggml_context *ctx, ggml_tensor *g, ggml_tensor *sinks) except NULL:
    return reshape(ctx, sum_to_sizes(ctx, g, 1, 1, g.ne[2], 1), sinks.ne[0], 1, 1, 1)

cdef int grad_soft_max(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_tensor *rest
    b.require_not_overwritten(t, t)
    if b.needs(t.src[0]):
        b.add(t.src[0], soft_max_back(b.ctx, g, t, gg_param_f32(t, 0), gg_param_f32(t, 1), False, False))
    if b.needs(t.src[1]):
        b.add(t.src[1], mask_gradient(b.ctx, soft_max_back(b.ctx, g, t, 1, gg_param_f32(t, 1), True, False), t.src[1]))
    if b.needs(t.src[2]):     # the sink has the rest of the weight, and its value is 0
        rest = scale(b.ctx, reduce_rows(b.ctx, GGML_OP_SUM_ROWS, t), 1, -1, False)
        b.add(t.src[2], sinks_gradient(b.ctx, mul(b.ctx, rest, reduce_rows(b.ctx, GGML_OP_SUM_ROWS, mul(b.ctx, g, t))), t.src[2]))
    return 0

# ---- cross entropy ---------------------------------------------------------------------------------------------------
def ggml_cross_entropy_loss(ctx, a, b):
    """Computes the cross entropy of logits and labels: the mean over the rows of -sum(b * log(softmax(a))).

    A label of 0 contributes nothing, even where the logit is -inf. Gradient: flows to a, as
    ggml_cross_entropy_loss_back computes it, and to b.

    Args:
        ctx: context that receives the result.
        a: logits, f32, [n_classes, ne1, ne2, ne3].
        b: labels, probabilities of the classes, f32, of the shape of a.
    Returns:
        f32 tensor [1].
    Raises:
        ValueError: the shapes differ, or a type is not f32.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cross_entropy_loss")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_init(&d, GGML_OP_CROSS_ENTROPY_LOSS, x.type, 1, 1, 1, 1)
    d.src[0], d.src[1] = x, arg_tensor(b, b"b")
    return wrap_tensor(node_append(c, &d))

cdef ggml_tensor *cross_entropy_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *logits, ggml_tensor *labels) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_CROSS_ENTROPY_LOSS_BACK, logits.type, logits)
    d.src[0], d.src[1], d.src[2] = g, logits, labels
    return node_append(ctx, &d)

def ggml_cross_entropy_loss_back(ctx, a, b, c):
    """Computes the gradient of ggml_cross_entropy_loss by its logits.

    With n rows the result is a / n * (softmax(b) * sum(c) - c), with the sum over each row; labels need not sum
    to 1. Gradient: flows to a, b and c.

    Args:
        ctx: context that receives the result.
        a: gradient of the loss, f32 [1].
        b: logits, f32, [n_classes, ne1, ne2, ne3].
        c: labels, f32, of the shape of b.
    Returns:
        f32 tensor of b's shape.
    Raises:
        ValueError: a is not one f32, the shapes of b and c differ, or their type is not f32.
        MemoryError: the context is full.
    """
    cdef ggml_context *x = arg_context(ctx, b"ggml_cross_entropy_loss_back")
    return wrap_tensor(cross_entropy_back(x, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c")))

cdef ggml_tensor *log_soft_max(ggml_context *ctx, ggml_tensor *a) except NULL: return node1(ctx, GGML_OP_LOG_SOFT_MAX, a)

cdef int grad_log_soft_max(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_tensor *p
    b.require_not_overwritten(t, t.src[0])
    p = soft_max(b.ctx, t.src[0], NULL, 1, 0, False)
    return b.add(t.src[0], sub(b.ctx, g, mul(b.ctx, p, reduce_rows(b.ctx, GGML_OP_SUM_ROWS, g))))

cdef int grad_cross_entropy(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *logs
    b.require_not_overwritten(t, t.src[0])
    if b.needs(t.src[0]):
        b.require_not_overwritten(t, t.src[1])
        b.add(t.src[0], cross_entropy_back(c, g, t.src[0], t.src[1]))
    if b.needs(t.src[1]):    # a masked logit has the log -inf: bounded, so that what is zero beyond stays zero
        logs = clamp(c, log_soft_max(c, t.src[0]), LEAST_LOG, INFINITY, False)
        b.add(t.src[1], mul(c, scale(c, logs, -1 / per_loss(t.src[0]), 0, False), g))
    return 0

cdef float per_loss(ggml_tensor *logits) noexcept:
    """How many rows a cross entropy is the mean of."""
    return <float>max(1, gg_nrows(logits))

cdef int grad_cross_entropy_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = dy / rows * (p sum(labels) - labels) with p = soft_max(logits)"""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *dy = t.src[0]
    cdef ggml_tensor *x = t.src[1]
    cdef ggml_tensor *labels = t.src[2]
    cdef ggml_tensor *p
    cdef int i
    for i in range(3):
        b.require_not_overwritten(t, t.src[i])
    if b.needs(dy):
        p = cross_entropy_back(c, scale(c, dy, 0, 1, False), x, labels)
        b.add(dy, sum_to_shape(c, mul(c, p, g), dy))
    if not b.needs(x) and not b.needs(labels):
        return 0
    p = soft_max(c, x, NULL, 1, 0, False)
    dy = scale(c, dy, 1 / per_loss(x), 0, False)
    if b.needs(x):
        b.add(x, mul(c, mul(c, soft_max_back(c, g, p, 1, 0, False, False), reduce_rows(c, GGML_OP_SUM_ROWS, labels)), dy))
    if b.needs(labels):
        p = broadcast_to(c, reduce_rows(c, GGML_OP_SUM_ROWS, mul(c, g, p)), g)
        b.add(labels, mul(c, sub(c, p, g), dy))
    return 0

gradients[GGML_OP_SOFT_MAX] = grad_soft_max
gradients[GGML_OP_SOFT_MAX_BACK] = grad_soft_max_back
gradients[GGML_OP_CROSS_ENTROPY_LOSS] = grad_cross_entropy
gradients[GGML_OP_CROSS_ENTROPY_LOSS_BACK] = grad_cross_entropy_back
gradients[GGML_OP_LOG_SOFT_MAX] = grad_log_soft_max
