"""Normalisation of rows and of groups of channels, with gradients."""
from libc.math cimport sqrt
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_float, arg_int32, arg_tensor, gg_param_f32, gg_set_param_f32, ggml_context, ggml_tensor, node1,
    node_append, node_in_place, node_like, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_GROUP_NORM, GGML_OP_L2_NORM, GGML_OP_MEAN, GGML_OP_NORM, GGML_OP_RMS_NORM, GGML_OP_RMS_NORM_BACK,
    GGML_OP_SQRT, GGML_OP_SUM_ROWS, GGML_UNARY_OP_STEP,
)
from .._graph.grad cimport Backward, gradients
from .elementwise cimport add, div, mul, node_with_floats, scale, sqr, sub, unary
from .reduce cimport reduce_rows
from .shape cimport concat, contiguous, reshape, view_slice

# ---- norms -----------------------------------------------------------------------------------------------------------
cdef ggml_tensor *norm(ggml_context *ctx, int op, ggml_tensor *a, float eps, bint inplace) except NULL:
    return node_with_floats(ctx, op, a, 0, eps, 1, 0, inplace)

cdef ggml_tensor *rms_norm_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *x, float eps) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_RMS_NORM_BACK, g.type, g)
    gg_set_param_f32(&d, 0, eps)
    d.src[0], d.src[1] = g, x
    return node_append(ctx, &d)

def ggml_norm(ctx, a, eps):
    """Normalises each row to mean 0 and variance 1: (a - mean) / sqrt(variance + eps).

    This is layer normalisation (arXiv:1607.06450) without weights. The variance is that of the population, sum of
    squared deviations / ne0. Gradient: flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        eps: number added to the variance, 0 or more. With 0, a constant row gives zeros.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_norm")
    return wrap_tensor(norm(c, GGML_OP_NORM, arg_tensor(a, b"a"), arg_float(eps, b"eps"), False))

def ggml_norm_inplace(ctx, a, eps):
    """Shifts and scales the rows of a, where they are stored, to mean 0 and variance 1.

    The gradient needs the original rows: ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; overwritten.
        eps: number added to the variance, 0 or more.
    Returns:
        View of all of a.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_norm_inplace")
    return wrap_tensor(norm(c, GGML_OP_NORM, arg_tensor(a, b"a"), arg_float(eps, b"eps"), True))

cdef ggml_tensor *norm_back(ggml_context *c, ggml_tensor *g, ggml_tensor *x, float eps) except NULL:
    """norm(x) is rms_norm of the centred x, and centring is its own adjoint."""
    cdef ggml_tensor *centred = sub(c, x, reduce_rows(c, GGML_OP_MEAN, x))
    cdef ggml_tensor *gradient = rms_norm_back(c, g, centred, eps)
    return sub(c, gradient, reduce_rows(c, GGML_OP_MEAN, gradient))

cdef int grad_norm(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], norm_back(b.ctx, g, t.src[0], gg_param_f32(t, 0)))

def ggml_rms_norm(ctx, a, eps):
    """Divides each row by its root mean square (arXiv:1910.07467): a / sqrt(mean(a^2) + eps).

    Weights are not included; multiply the result by them. Gradient: flows to a, as ggml_rms_norm_back computes
    it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        eps: number added to the mean square, 0 or more. With 0, a row of zeros stays zero.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_rms_norm")
    return wrap_tensor(norm(c, GGML_OP_RMS_NORM, arg_tensor(a, b"a"), arg_float(eps, b"eps"), False))

def ggml_rms_norm_inplace(ctx, a, eps):
    """Divides the rows of a by their root mean square without a second tensor.

    Training needs ggml_rms_norm instead: ggml_build_backward_expand raises ValueError if a needs a gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; the normalised rows take its memory.
        eps: number added to the mean square, 0 or more.
    Returns:
        View of all of a.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_rms_norm_inplace")
    return wrap_tensor(norm(c, GGML_OP_RMS_NORM, arg_tensor(a, b"a"), arg_float(eps, b"eps"), True))

def ggml_rms_norm_back(ctx, a, b, eps):
    """Computes the gradient of ggml_rms_norm by its argument.

    Per row, with r = 1 / sqrt(mean(b^2) + eps), the result is r * (a - b * r^2 * mean(a * b)). Gradient: flows to
    a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_rms_norm, f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        b: argument of ggml_rms_norm, f32, f16 or bf16, of the shape of a.
        eps: the eps of ggml_rms_norm, a number; it is not checked here.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: eps is not a number.
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_rms_norm_back")
    return wrap_tensor(rms_norm_back(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_float(eps, b"eps")))

cdef int grad_rms_norm(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], rms_norm_back(b.ctx, g, t.src[0], gg_param_f32(t, 0)))

cdef int grad_rms_norm_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = (dy - x mean(dy x) / m) / sqrt(m) by rows, m = mean(x^2) + eps: linear and symmetric in dy."""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *dy = t.src[0]
    cdef ggml_tensor *x = t.src[1]
    cdef ggml_tensor *m
    cdef ggml_tensor *gx
    cdef ggml_tensor *dx
    cdef ggml_tensor *along
    b.require_not_overwritten(t, x)
    if b.needs(dy):
        b.add(dy, rms_norm_back(c, g, x, gg_param_f32(t, 0)))
    if b.needs(x):          # (x (3 mean(g x) mean(dy x) / m - mean(g dy)) - g mean(dy x) - dy mean(g x)) / m^1.5
        b.require_not_overwritten(t, dy)
        m = scale(c, reduce_rows(c, GGML_OP_MEAN, mul(c, x, x)), 1, gg_param_f32(t, 0), False)
        gx, dx = reduce_rows(c, GGML_OP_MEAN, mul(c, g, x)), reduce_rows(c, GGML_OP_MEAN, mul(c, dy, x))
        along = sub(c, scale(c, div(c, mul(c, gx, dx), m), 3, 0, False), reduce_rows(c, GGML_OP_MEAN, mul(c, g, dy)))
        along = sub(c, mul(c, x, along), add(c, mul(c, g, dx), mul(c, dy, gx)))
        b.add(x, div(c, along, mul(c, m, node1(c, GGML_OP_SQRT, m))))
    return 0

# ---- GROUP_NORM ------------------------------------------------------------------------------------------------------
cdef ggml_tensor *group_norm(ggml_context *ctx, ggml_tensor *a, int n_groups, float eps, bint inplace) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_GROUP_NORM, a.type, a)
    d.op_params[0] = n_groups
    gg_set_param_f32(&d, 1, eps)
    d.src[0] = a
    if inplace:
        node_in_place(&d, a)
    return node_append(ctx, &d)

def ggml_group_norm(ctx, a, n_groups, eps):
    """Normalises groups of channels to mean 0 and variance 1 (arXiv:1803.08494).

    Channels are dimension 2. Each group has ceil(channels / n_groups) of them, the last one what remains; mean
    and variance are taken over all elements of the group in one item of the batch. Gradient: flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [width, height, channels, batch].
        n_groups: number of groups, 1 or more.
        eps: number added to the variance, 0 or more.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: n_groups is not an integer, or eps is not a number.
        ValueError: n_groups is less than 1, eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_group_norm")
    return wrap_tensor(group_norm(c, arg_tensor(a, b"a"), arg_int32(n_groups, b"n_groups"), arg_float(eps, b"eps"), False))

def ggml_group_norm_inplace(ctx, a, n_groups, eps):
    """Normalises groups of channels where they are stored.

    The gradient needs the original elements: ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [width, height, channels, batch]; overwritten.
        n_groups: number of groups, 1 or more; the last group is smaller if the channels do not divide evenly.
        eps: number added to the variance, 0 or more.
    Returns:
        View of all of a.
    Raises:
        TypeError: n_groups is not an integer, or eps is not a number.
        ValueError: n_groups is less than 1, eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_group_norm_inplace")
    return wrap_tensor(group_norm(c, arg_tensor(a, b"a"), arg_int32(n_groups, b"n_groups"), arg_float(eps, b"eps"), True))

cdef ggml_tensor *group_back(ggml_context *c, ggml_tensor *g, ggml_tensor *x, int64_t start, int64_t n, int64_t each, float eps) except NULL:
    """The gradient by n channels in whole groups: each group becomes a row."""
    cdef ggml_tensor *xs = contiguous(c, view_slice(c, x, 2, start, n))
    cdef ggml_tensor *gs = contiguous(c, view_slice(c, g, 2, start, n))
    cdef int64_t row = x.ne[0] * x.ne[1] * each, rows = n // each * x.ne[3]
    cdef ggml_tensor *gradient = norm_back(c, reshape(c, gs, row, rows, 1, 1), reshape(c, xs, row, rows, 1, 1), eps)
    return reshape(c, gradient, x.ne[0], x.ne[1], n, x.ne[3])

cdef int grad_group_norm(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_tensor *x = t.src[0]
    cdef int64_t channels = x.ne[2], each = (channels + t.op_params[0] - 1) // t.op_params[0], rest
    cdef float eps = gg_param_f32(t, 1)
    cdef ggml_tensor *gradient
    b.require_not_overwritten(t, x)
    if each == 0:
        return 0
    rest = channels % each
    gradient = group_back(b.ctx, g, x, 0, channels - rest, each, eps)
    if rest:
        gradient = concat(b.ctx, gradient, group_back(b.ctx, g, x, channels - rest, rest, rest, eps), 2)
    return b.add(x, gradient)

# ---- L2_NORM ---------------------------------------------------------------------------------------------------------
def ggml_l2_norm(ctx, a, eps):
    """Divides each row by its Euclidean length: a / max(sqrt(sum(a^2)), eps).

    Gradient: flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        eps: least divisor, 0 or more. With 0, a row of zeros stays zero.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_l2_norm")
    return wrap_tensor(node_with_floats(c, GGML_OP_L2_NORM, arg_tensor(a, b"a"), 0, arg_float(eps, b"eps"), 1, 0, False))

def ggml_l2_norm_inplace(ctx, a, eps):
    """Scales the rows of a to length 1 where they are stored.

    Rows shorter than eps are divided by eps. The original rows are lost, so ggml_build_backward_expand raises
    ValueError if a needs a gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; overwritten.
        eps: least divisor, 0 or more.
    Returns:
        View of all of a.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_l2_norm_inplace")
    return wrap_tensor(node_with_floats(c, GGML_OP_L2_NORM, arg_tensor(a, b"a"), 0, arg_float(eps, b"eps"), 1, 0, True))

cdef int grad_l2_norm(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """That of rms_norm / sqrt(n) for rows longer than eps, g / eps for the others."""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *longer
    cdef float eps = gg_param_f32(t, 0)
    b.require_not_overwritten(t, x)
    if x.ne[0] == 0:
        return 0
    cdef ggml_tensor *gradient = scale(c, rms_norm_back(c, g, x, 0), <float>(1 / sqrt(<double>x.ne[0])), 0, False)
    if eps > 0:
        longer = unary(c, GGML_UNARY_OP_STEP, scale(c, node1(c, GGML_OP_SQRT, reduce_rows(c, GGML_OP_SUM_ROWS, sqr(c, x))), 1, -eps, False), False)
        gradient = add(c, mul(c, gradient, longer), mul(c, g, scale(c, longer, -1 / eps, 1 / eps, False)))
    return b.add(x, gradient)

gradients[GGML_OP_NORM] = grad_norm
gradients[GGML_OP_RMS_NORM] = grad_rms_norm
gradients[GGML_OP_RMS_NORM_BACK] = grad_rms_norm_back
gradients[GGML_OP_GROUP_NORM] = grad_group_norm
gradients[GGML_OP_L2_NORM] = grad_l2_norm
