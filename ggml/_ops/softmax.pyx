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
    """Soft-max of each row."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max")
    return wrap_tensor(soft_max(c, arg_tensor(a, b"a"), NULL, 1, 0, False))

def ggml_soft_max_inplace(ctx, a):
    """ggml_soft_max, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_inplace")
    return wrap_tensor(soft_max(c, arg_tensor(a, b"a"), NULL, 1, 0, True))

def ggml_soft_max_ext(ctx, a, mask, scale, max_bias):
    """Soft-max of each row of a * scale + slope * mask.

    mask: f32 or f16 [ne0, >= ne1, ...], broadcast over dimensions 2 and 3, or None. max_bias > 0: ALiBi (arXiv:2108.12409), slopes by head (dimension 2); 0: slope 1."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_ext")
    return wrap_tensor(soft_max(c, arg_tensor(a, b"a"), arg_tensor_or_null(mask, b"mask"), arg_float(scale, b"scale"), arg_float(max_bias, b"max_bias"), False))

def ggml_soft_max_ext_inplace(ctx, a, mask, scale, max_bias):
    """ggml_soft_max_ext, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_ext_inplace")
    return wrap_tensor(soft_max(c, arg_tensor(a, b"a"), arg_tensor_or_null(mask, b"mask"), arg_float(scale, b"scale"), arg_float(max_bias, b"max_bias"), True))

def ggml_soft_max_add_sinks(a, sinks):
    """Gives a SOFT_MAX tensor attention sinks: one f32 a head, an extra logit of each row that gets no column. None takes them away."""
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
    """Gradient of ggml_soft_max_ext by its a: a is the gradient of its result, b its result."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_ext_back")
    return wrap_tensor(soft_max_back(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_float(scale, b"scale"), arg_float(max_bias, b"max_bias"), False, False))

def ggml_soft_max_ext_back_inplace(ctx, a, b, scale, max_bias):
    """ggml_soft_max_ext_back, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_ext_back_inplace")
    return wrap_tensor(soft_max_back(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_float(scale, b"scale"), arg_float(max_bias, b"max_bias"), False, True))

def ggml_soft_max_back(ctx, a, b):
    """Gradient of ggml_soft_max by its a: a is the gradient of its result, b its result."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_soft_max_back")
    return wrap_tensor(soft_max_back(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), 1, 0, False, False))

def ggml_soft_max_back_inplace(ctx, a, b):
    """ggml_soft_max_back, written over a."""
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
    """Mean over the rows of -sum(b * log_soft_max(a)): logits a against probabilities b, [1]."""
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
    """Gradient of ggml_cross_entropy_loss by its logits: a is the gradient of the loss, b the logits, c the labels."""
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
