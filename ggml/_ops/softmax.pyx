"""Softmax, its logarithm and the cross entropy, with their gradients."""
from libc.math cimport INFINITY

from .._core cimport (
    arg_context, arg_float, arg_tensor, arg_tensor_or_null, enter, fail, gg_nrows, ggml_context, ggml_tensor, node1,
    node_append, node_in_place, node_init, node_like, shape_text, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ACC, GGML_OP_CROSS_ENTROPY_LOSS, GGML_OP_CROSS_ENTROPY_LOSS_BACK, GGML_OP_LOG_SOFT_MAX, GGML_OP_SOFT_MAX,
    GGML_OP_SOFT_MAX_BACK, GGML_TYPE_F32,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport soft_max_params
from .elementwise cimport clamp, mul, scale as scaled, sub
from .fill cimport zeros
from .reduce cimport sum_rows, sum_to_shape, sum_to_sizes
from .shape cimport broadcast_to, reshape, update

# ---- SOFT_MAX --------------------------------------------------------------------------------------------------------
cdef ggml_tensor *soft_max_node(ggml_context *ctx, ggml_tensor *a, ggml_tensor *mask, float factor, float max_bias,
                                bint inplace) except NULL:
    cdef ggml_tensor node
    node_like(&node, GGML_OP_SOFT_MAX, a.type, a)
    soft_max_params(&node).scale = factor
    soft_max_params(&node).max_bias = max_bias
    node.src[0], node.src[1] = a, mask
    if inplace:
        node_in_place(&node, a)
    return node_append(ctx, &node)

cdef ggml_tensor *soft_max(ggml_context *ctx, ggml_tensor *a) except NULL:
    return soft_max_node(ctx, a, NULL, 1, 0, False)

cdef object soft_max_ext_of(object ctx, const char *name, object a, object mask, object factor, object max_bias,
                            bint inplace):
    """What the public function `name` returns: the softmax of a * factor + slope * mask."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef ggml_tensor *m = arg_tensor_or_null(mask, b"mask")
    return wrap_tensor(soft_max_node(c, x, m, arg_float(factor, b"scale"), arg_float(max_bias, b"max_bias"), inplace))

def ggml_soft_max(ctx, a):
    """Computes the softmax of each row: exp(a) / sum(exp(a)).

    The largest element of a row is subtracted first, so exp does not overflow. A row that is -inf throughout gives
    zeros. The gradient flows to a, as ggml_soft_max_back computes it.

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
    return wrap_tensor(soft_max(c, arg_tensor(a, b"a")))

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
    return wrap_tensor(soft_max_node(c, arg_tensor(a, b"a"), NULL, 1, 0, True))

def ggml_soft_max_ext(ctx, a, mask, scale, max_bias):
    """Computes the softmax of each row of a * scale + slope * mask.

    An element is hidden where the mask is -inf, whatever its value; a row that is hidden throughout gives zeros.
    The slope is 1 if max_bias is 0. Otherwise it implements ALiBi (arXiv:2108.12409): where p is the largest
    power of two up to n_heads, head h has the slope

        2^(-max_bias * (h + 1) / p)                     for h < p,
        2^(-max_bias * (2 * (h - p) + 1) / (2 * p))     for the heads beyond.

    The gradient flows to a, mask and sinks (see ggml_soft_max_add_sinks).

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
    return soft_max_ext_of(ctx, b"ggml_soft_max_ext", a, mask, scale, max_bias, False)

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
    return soft_max_ext_of(ctx, b"ggml_soft_max_ext_inplace", a, mask, scale, max_bias, True)

def ggml_soft_max_add_sinks(a, sinks):
    """Gives a softmax node attention sinks: one additional logit for each head.

    The node itself changes. exp(sink) is added to the sum that divides each row of the head but has no element in the
    result, so these rows sum to less than 1. The gradient flows to sinks.

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
        fail(ValueError, "a is not a result of ggml_soft_max or ggml_soft_max_ext")
    if s != NULL and (s.type != GGML_TYPE_F32 or s.ne[0] != t.src[0].ne[2] or gg_nrows(s) != 1):
        fail(ValueError, f"sinks is {shape_text(s)}: need f32 [{t.src[0].ne[2]}], one for each head")
    t.src[2] = s

cdef ggml_tensor *soft_max_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *y, float factor, float max_bias,
                                bint by_mask, bint inplace) except NULL:
    """The gradient with respect to the logits of y = soft_max(factor * logits + slope * mask), or to the mask.

    The slope, which max_bias determines, enters into the gradient with respect to the mask only.
    """
    cdef ggml_tensor node
    node_like(&node, GGML_OP_SOFT_MAX_BACK, g.type, g)
    soft_max_params(&node).by_mask = by_mask
    soft_max_params(&node).scale = factor
    soft_max_params(&node).max_bias = max_bias
    node.src[0], node.src[1] = g, y
    if inplace:
        node_in_place(&node, g)
    return node_append(ctx, &node)

cdef object soft_max_back_of(object ctx, const char *name, object a, object b, object factor, object max_bias,
                             bint inplace):
    """What the public function `name` returns: factor * (a - sum(a * b)) * b."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor *g = arg_tensor(a, b"a")
    cdef ggml_tensor *y = arg_tensor(b, b"b")
    return wrap_tensor(soft_max_back(c, g, y, arg_float(factor, b"scale"), arg_float(max_bias, b"max_bias"), False,
                                     inplace))

def ggml_soft_max_ext_back(ctx, a, b, scale, max_bias):
    """Computes the gradient of ggml_soft_max_ext with respect to its a: scale * (a - sum(a * b)) * b.

    The sum is taken over each row. The gradient flows to a and to b.

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
    return soft_max_back_of(ctx, b"ggml_soft_max_ext_back", a, b, scale, max_bias, False)

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
    return soft_max_back_of(ctx, b"ggml_soft_max_ext_back_inplace", a, b, scale, max_bias, True)

def ggml_soft_max_back(ctx, a, b):
    """Computes the gradient of ggml_soft_max with respect to its argument: (a - sum(a * b)) * b.

    The sum is taken over each row. The gradient flows to a and to b.

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
    return soft_max_back_of(ctx, b"ggml_soft_max_back", a, b, 1.0, 0.0, False)

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
    return soft_max_back_of(ctx, b"ggml_soft_max_back_inplace", a, b, 1.0, 0.0, True)

cdef ggml_tensor *mask_gradient(ggml_context *ctx, ggml_tensor *g, ggml_tensor *mask) except NULL:
    cdef ggml_tensor *sum = sum_to_sizes(ctx, g, g.ne[0], g.ne[1], mask.ne[2], mask.ne[3])
    if g.ne[0] == mask.ne[0] and g.ne[1] == mask.ne[1]:
        return sum
    cdef ggml_tensor *d_mask = zeros(ctx, mask.ne[0], mask.ne[1], mask.ne[2], mask.ne[3])
    return update(ctx, GGML_OP_ACC, d_mask, sum, d_mask.nb[1], d_mask.nb[2], d_mask.nb[3], 0, False)

cdef ggml_tensor *sinks_gradient(ggml_context *ctx, ggml_tensor *g, ggml_tensor *sinks) except NULL:
    return reshape(ctx, sum_to_sizes(ctx, g, 1, 1, g.ne[2], 1), sinks.ne[0], 1, 1, 1)

cdef int grad_soft_max(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = soft_max(k x + slope m), sinks s: with z = t (g - sum(g t)), dx = k z, dm = slope z, ds = -w sum(g t).

    w = 1 - sum(t) is the weight of the sink, whose value is 0. dm and ds are summed over the rows that share an
    element of m or s.
    """
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *mask = t.src[1]
    cdef ggml_tensor *sinks = t.src[2]
    cdef ggml_tensor *minus_weight
    cdef float factor = soft_max_params(t).scale, max_bias = soft_max_params(t).max_bias
    b.require_not_overwritten(t, t)
    if b.needs(x):
        b.add(x, soft_max_back(c, g, t, factor, max_bias, False, False))
    if b.needs(mask):
        b.add(mask, mask_gradient(c, soft_max_back(c, g, t, 1, max_bias, True, False), mask))
    if b.needs(sinks):
        minus_weight = scaled(c, sum_rows(c, t), 1, -1, False)
        b.add(sinks, sinks_gradient(c, mul(c, minus_weight, sum_rows(c, mul(c, g, t))), sinks))
    return 0

cdef int grad_soft_max_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = k (dy - sum(dy y)) y by rows: d(dy) = k (g - sum(g y)) y, dy' = k (g (dy - sum(dy y)) - dy sum(g y)).

    dy' is the gradient with respect to y. k is the factor, or, for the gradient of a mask, the slope.
    """
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *dy = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    cdef ggml_tensor *first
    cdef ggml_tensor *second
    cdef float factor = soft_max_params(t).scale, max_bias = soft_max_params(t).max_bias
    cdef bint by_mask = soft_max_params(t).by_mask
    b.require_not_overwritten(t, y)
    if b.needs(dy):
        b.add(dy, soft_max_back(c, g, y, factor, max_bias, by_mask, False))
    if b.needs(y):
        if by_mask and max_bias > 0:
            fail(ValueError, "SOFT_MAX has no second gradient with respect to a mask with ALiBi")
        b.require_not_overwritten(t, dy)
        first = mul(c, g, sub(c, dy, sum_rows(c, mul(c, dy, y))))
        second = mul(c, dy, sum_rows(c, mul(c, g, y)))
        b.add(y, scaled(c, sub(c, first, second), 1 if by_mask else factor, 0, False))
    return 0

# ---- LOG_SOFT_MAX ----------------------------------------------------------------------------------------------------
cdef ggml_tensor *log_soft_max(ggml_context *ctx, ggml_tensor *a) except NULL:
    return node1(ctx, GGML_OP_LOG_SOFT_MAX, a)

def ext_log_soft_max(ctx, a):
    """Computes the logarithm of the softmax of each row: a - max(a) - log(sum(exp(a - max(a)))).

    A row that is -inf throughout gives NaN. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.log_soft_max")
    return wrap_tensor(log_soft_max(c, arg_tensor(a, b"a")))

cdef int grad_log_soft_max(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = log(soft_max(x)) by rows: dx = g - soft_max(x) sum(g)."""
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], sub(b.ctx, g, mul(b.ctx, soft_max(b.ctx, t.src[0]), sum_rows(b.ctx, g))))

# ---- cross entropy ---------------------------------------------------------------------------------------------------
cdef float LEAST_LOG = -1e30      # bounds log(soft_max(x)), which is -inf for a masked logit: 0 * LEAST_LOG is 0

def ggml_cross_entropy_loss(ctx, a, b):
    """Computes the cross entropy of logits and labels: the mean over the rows of -sum(b * log(softmax(a))).

    A label of 0 contributes nothing, even where the logit is -inf. The gradient flows to a, as
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
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_init(&node, GGML_OP_CROSS_ENTROPY_LOSS, x.type, 1, 1, 1, 1)
    node.src[0], node.src[1] = x, arg_tensor(b, b"b")
    return wrap_tensor(node_append(c, &node))

cdef ggml_tensor *cross_entropy_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *logits,
                                     ggml_tensor *labels) except NULL:
    """The gradient of the cross entropy with respect to the logits."""
    cdef ggml_tensor node
    node_like(&node, GGML_OP_CROSS_ENTROPY_LOSS_BACK, logits.type, logits)
    node.src[0], node.src[1], node.src[2] = g, logits, labels
    return node_append(ctx, &node)

def ggml_cross_entropy_loss_back(ctx, a, b, c):
    """Computes the gradient of ggml_cross_entropy_loss with respect to its logits.

    With n rows the result is a / n * (softmax(b) * sum(c) - c), with the sum over each row; labels need not sum to 1.
    The gradient flows to a, b and c.

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
    cdef ggml_context *context = arg_context(ctx, b"ggml_cross_entropy_loss_back")
    return wrap_tensor(cross_entropy_back(context, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c")))

cdef float loss_rows(ggml_tensor *logits) noexcept:
    """The number of rows that a cross entropy is the mean of."""
    return <float>max(1, gg_nrows(logits))

cdef int grad_cross_entropy(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = -sum(l log(p)) / n with labels l, p = soft_max(x), n rows: dx = g (p sum(l) - l) / n, dl = -g log(p) / n."""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *labels = t.src[1]
    cdef ggml_tensor *logs
    b.require_not_overwritten(t, x)
    if b.needs(x):
        b.require_not_overwritten(t, labels)
        b.add(x, cross_entropy_back(c, g, x, labels))
    if b.needs(labels):
        logs = clamp(c, log_soft_max(c, x), LEAST_LOG, INFINITY, False)
        b.add(labels, mul(c, scaled(c, logs, -1 / loss_rows(x), 0, False), g))
    return 0

cdef int grad_cross_entropy_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = dy (p sum(l) - l) / n with labels l, p = soft_max(x), n rows.

    d(dy) = sum(g (p sum(l) - l)) / n, dx = dy sum(l) (g - sum(g p)) p / n, dl = dy (sum(g p) - g) / n.
    """
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *dy = t.src[0]
    cdef ggml_tensor *x = t.src[1]
    cdef ggml_tensor *labels = t.src[2]
    cdef ggml_tensor *p
    cdef ggml_tensor *unit
    cdef ggml_tensor *sum_gp
    cdef int i
    for i in range(3):
        b.require_not_overwritten(t, t.src[i])
    if b.needs(dy):
        unit = cross_entropy_back(c, scaled(c, dy, 0, 1, False), x, labels)      # t / dy
        b.add(dy, sum_to_shape(c, mul(c, unit, g), dy))
    if not b.needs(x) and not b.needs(labels):
        return 0
    p = soft_max(c, x)
    dy = scaled(c, dy, 1 / loss_rows(x), 0, False)
    if b.needs(x):
        b.add(x, mul(c, mul(c, soft_max_back(c, g, p, 1, 0, False, False), sum_rows(c, labels)), dy))
    if b.needs(labels):
        sum_gp = broadcast_to(c, sum_rows(c, mul(c, g, p)), g)
        b.add(labels, mul(c, sub(c, sum_gp, g), dy))
    return 0

gradients[GGML_OP_SOFT_MAX] = grad_soft_max
gradients[GGML_OP_SOFT_MAX_BACK] = grad_soft_max_back
gradients[GGML_OP_LOG_SOFT_MAX] = grad_log_soft_max
gradients[GGML_OP_CROSS_ENTROPY_LOSS] = grad_cross_entropy
gradients[GGML_OP_CROSS_ENTROPY_LOSS_BACK] = grad_cross_entropy_back
