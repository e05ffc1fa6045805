"""Normalisation of rows and of groups of channels, with gradients."""
from libc.float cimport FLT_MAX
from libc.math cimport sqrt
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_float, arg_int32, arg_tensor, fail, ggml_context, ggml_tensor,
    node_append, node_in_place, node_like, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_CHANNEL_NORM, GGML_OP_GROUP_NORM, GGML_OP_L2_NORM, GGML_OP_NORM, GGML_OP_NORM_BACK, GGML_OP_RMS_NORM,
    GGML_OP_RMS_NORM_BACK,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport gg_norm_params, group_norm_params, norm_params
from .elementwise cimport add, div, mul, node_with_params, scale, sqr, sub
from .reduce cimport mean_rows, sum_rows
from .shape cimport concat, contiguous, reshape, view_slice
from .unary cimport step

cdef inline object norm_of(object ctx, const char *name, int op, object a, object eps, bint inplace):
    """What the public function `name` returns: a node that normalises the rows of a."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef gg_norm_params q
    q.eps = arg_float(eps, b"eps")
    return wrap_tensor(node_with_params(c, op, arg_tensor(a, b"a"), &q, sizeof(q), inplace))

# ---- NORM ------------------------------------------------------------------------------------------------------------
def ggml_norm(ctx, a, eps):
    """Normalises each row to mean 0 and variance 1: (a - mean) / sqrt(variance + eps).

    This is layer normalisation (arXiv:1607.06450) without weights. The variance is that of the population, sum of
    squared deviations / ne0. The gradient flows to a.

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
    return norm_of(ctx, b"ggml_norm", GGML_OP_NORM, a, eps, False)

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
    return norm_of(ctx, b"ggml_norm_inplace", GGML_OP_NORM, a, eps, True)

cdef int grad_norm(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = c / sqrt(mean(c^2) + eps) with c = x - mean(x), by rows: dx is NORM_BACK of g and x."""
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], norm_back(b.ctx, GGML_OP_NORM_BACK, g, t.src[0], norm_params(t).eps))

cdef ggml_tensor *centred(ggml_context *ctx, ggml_tensor *x) except NULL:
    """The rows of x minus their means."""
    return sub(ctx, x, mean_rows(ctx, x))

cdef int grad_norm_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = centred(rms_norm_back(dy, c)) with c = centred(x), by rows.

    t is linear in dy and symmetric in dy and g, so d(dy) = NORM_BACK of g and x. dx is the centred gradient of
    rms_norm_back with respect to c, for the centred g.
    """
    cdef ggml_context *ctx = b.ctx
    cdef ggml_tensor *dy = t.src[0]
    cdef ggml_tensor *x = t.src[1]
    cdef float eps = norm_params(t).eps
    b.require_not_overwritten(t, x)
    if b.needs(dy):
        b.add(dy, norm_back(ctx, GGML_OP_NORM_BACK, g, x, eps))
    if b.needs(x):
        b.require_not_overwritten(t, dy)
        b.add(x, centred(ctx, rms_norm_back_slope(ctx, centred(ctx, g), dy, centred(ctx, x), eps)))
    return 0

# ---- RMS_NORM --------------------------------------------------------------------------------------------------------
cdef ggml_tensor *norm_back(ggml_context *ctx, int op, ggml_tensor *g, ggml_tensor *x, float eps) except NULL:
    """The gradient with respect to x of norm(x) or rms_norm(x), where op is NORM_BACK or RMS_NORM_BACK."""
    cdef ggml_tensor node
    node_like(&node, op, g.type, g)
    norm_params(&node).eps = eps
    node.src[0], node.src[1] = g, x
    return node_append(ctx, &node)

def ggml_rms_norm(ctx, a, eps):
    """Divides each row by its root mean square (arXiv:1910.07467): a / sqrt(mean(a^2) + eps).

    Weights are not included; multiply the result by them. The gradient flows to a, as ggml_rms_norm_back computes it.

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
    return norm_of(ctx, b"ggml_rms_norm", GGML_OP_RMS_NORM, a, eps, False)

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
    return norm_of(ctx, b"ggml_rms_norm_inplace", GGML_OP_RMS_NORM, a, eps, True)

def ggml_rms_norm_back(ctx, a, b, eps):
    """Computes the gradient of ggml_rms_norm with respect to its argument.

    Per row, with r = 1 / sqrt(mean(b^2) + eps), the result is r * (a - b * r^2 * mean(a * b)). The gradient flows to a
    and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_rms_norm, f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        b: argument of ggml_rms_norm, f32, f16 or bf16, of the shape of a.
        eps: the eps of ggml_rms_norm, 0 or more.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN, the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_rms_norm_back")
    cdef ggml_tensor *g = arg_tensor(a, b"a")
    cdef ggml_tensor *x = arg_tensor(b, b"b")
    cdef float epsilon = arg_float(eps, b"eps")
    if not epsilon >= 0:
        fail(ValueError, f"eps is {epsilon}: need 0 or more")
    return wrap_tensor(norm_back(c, GGML_OP_RMS_NORM_BACK, g, x, epsilon))

cdef int grad_rms_norm(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x / sqrt(m) by rows, m = mean(x^2) + eps: dx = (g - x mean(g x) / m) / sqrt(m)."""
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], norm_back(b.ctx, GGML_OP_RMS_NORM_BACK, g, t.src[0], norm_params(t).eps))

cdef ggml_tensor *rms_norm_back_slope(ggml_context *c, ggml_tensor *g, ggml_tensor *dy, ggml_tensor *x,
                                      float eps) except NULL:
    """The gradient with respect to x of rms_norm_back(dy, x) = (dy - x mean(dy x) / m) / sqrt(m), by rows.

    m = mean(x^2) + eps. With y = x / sqrt(m), dx = (y (3 mean(g y) mean(dy y) - mean(g dy)) - g mean(dy y)
    - dy mean(g y)) / m.
    """
    cdef gg_norm_params q
    q.eps = eps
    cdef ggml_tensor *m = scale(c, mean_rows(c, mul(c, x, x)), 1, eps, False)
    cdef ggml_tensor *y = node_with_params(c, GGML_OP_RMS_NORM, x, &q, sizeof(q), False)
    cdef ggml_tensor *mean_gy = mean_rows(c, mul(c, g, y))
    cdef ggml_tensor *mean_dyy = mean_rows(c, mul(c, dy, y))
    cdef ggml_tensor *factor = sub(c, scale(c, mul(c, mean_gy, mean_dyy), 3, 0, False), mean_rows(c, mul(c, g, dy)))
    return div(c, sub(c, mul(c, y, factor), add(c, mul(c, g, mean_dyy), mul(c, dy, mean_gy))), m)

cdef int grad_rms_norm_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = rms_norm_back(dy, x) is linear in dy and symmetric in dy and g: d(dy) = rms_norm_back(g, x)."""
    cdef ggml_tensor *dy = t.src[0]
    cdef ggml_tensor *x = t.src[1]
    cdef float eps = norm_params(t).eps
    b.require_not_overwritten(t, x)
    if b.needs(dy):
        b.add(dy, norm_back(b.ctx, GGML_OP_RMS_NORM_BACK, g, x, eps))
    if b.needs(x):
        b.require_not_overwritten(t, dy)
        b.add(x, rms_norm_back_slope(b.ctx, g, dy, x, eps))
    return 0

# ---- GROUP_NORM ------------------------------------------------------------------------------------------------------
cdef object group_norm_of(object ctx, const char *name, object a, object n_groups, object eps, bint inplace):
    """What the public function `name` returns: a node that normalises groups of channels of a."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&node, GGML_OP_GROUP_NORM, x.type, x)
    group_norm_params(&node).n_groups = arg_int32(n_groups, b"n_groups")
    group_norm_params(&node).eps = arg_float(eps, b"eps")
    node.src[0] = x
    if inplace:
        node_in_place(&node, x)
    return wrap_tensor(node_append(c, &node))

def ggml_group_norm(ctx, a, n_groups, eps):
    """Normalises groups of channels to mean 0 and variance 1 (arXiv:1803.08494).

    Channels are dimension 2. Each group has ceil(channels / n_groups) of them, the last one what remains; mean and
    variance are taken over all elements of the group in one item of the batch. The gradient flows to a.

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
    return group_norm_of(ctx, b"ggml_group_norm", a, n_groups, eps, False)

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
    return group_norm_of(ctx, b"ggml_group_norm_inplace", a, n_groups, eps, True)

cdef ggml_tensor *group_norm_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *x, int64_t start, int64_t n,
                                  int64_t group_size, float eps) except NULL:
    """The gradient with respect to the channels start to start + n, which are whole groups: each becomes a row."""
    cdef int64_t row = x.ne[0] * x.ne[1] * group_size, rows = n // group_size * x.ne[3]
    cdef ggml_tensor *x_rows = reshape(ctx, contiguous(ctx, view_slice(ctx, x, 2, start, n)), row, rows, 1, 1)
    cdef ggml_tensor *g_rows = reshape(ctx, contiguous(ctx, view_slice(ctx, g, 2, start, n)), row, rows, 1, 1)
    return reshape(ctx, norm_back(ctx, GGML_OP_NORM_BACK, g_rows, x_rows, eps), x.ne[0], x.ne[1], n, x.ne[3])

cdef int grad_group_norm(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """The gradient of NORM with each group of channels as a row; the last group may have fewer channels."""
    cdef ggml_tensor *x = t.src[0]
    cdef int n_groups = group_norm_params(t).n_groups
    cdef int64_t channels = x.ne[2], group_size = (channels + n_groups - 1) // n_groups, rest
    cdef float eps = group_norm_params(t).eps
    cdef ggml_tensor *dx
    b.require_not_overwritten(t, x)
    if group_size == 0:
        return 0
    rest = channels % group_size
    dx = group_norm_back(b.ctx, g, x, 0, channels - rest, group_size, eps)
    if rest:
        dx = concat(b.ctx, dx, group_norm_back(b.ctx, g, x, channels - rest, rest, rest, eps), 2)
    return b.add(x, dx)

# ---- CHANNEL_NORM ----------------------------------------------------------------------------------------------------
def ext_channel_norm(ctx, a, factor, bias, eps):
    """Normalises groups of channels to mean 0 and variance 1, and multiplies and shifts each channel.

    A channel is a row; mean and variance are those of all rows of a matrix. With one row in each matrix, this is
    instance normalisation with weights. There is no gradient: use ggml_norm or ggml_group_norm, and ggml_mul and
    ggml_add.

    Args:
        ctx: context that receives the result.
        a: f32, contiguous, [area, channels, groups, batch].
        factor: what each channel is multiplied by, f32 [1, channels, groups, batch]; the last two may also be 1.
        bias: what is added to each channel, f32, [1, channels, groups, batch] likewise.
        eps: number added to the variance, 0 or more.
    Returns:
        Tensor of a's shape, f32.
    Raises:
        TypeError: eps is not a number.
        ValueError: the shapes do not fit, a is not contiguous, eps is negative or NaN, or a type is not f32.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.channel_norm")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&node, GGML_OP_CHANNEL_NORM, x.type, x)
    norm_params(&node).eps = arg_float(eps, b"eps")
    node.src[0], node.src[1], node.src[2] = x, arg_tensor(factor, b"factor"), arg_tensor(bias, b"bias")
    return wrap_tensor(node_append(c, &node))

# ---- L2_NORM ---------------------------------------------------------------------------------------------------------
def ggml_l2_norm(ctx, a, eps):
    """Divides each row by its Euclidean length: a / max(sqrt(sum(a^2)), eps).

    The gradient flows to a.

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
    return norm_of(ctx, b"ggml_l2_norm", GGML_OP_L2_NORM, a, eps, False)

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
    return norm_of(ctx, b"ggml_l2_norm_inplace", GGML_OP_L2_NORM, a, eps, True)

cdef ggml_tensor *divided(ggml_context *ctx, ggml_tensor *a, float divisor) except NULL:
    """a / divisor, in two steps if 1 / divisor is beyond the range of f32: 0 times infinity is NaN."""
    cdef double factor = 1 / <double>divisor
    if factor > FLT_MAX:
        factor = sqrt(factor)
        a = scale(ctx, a, <float>factor, 0, False)
    return scale(ctx, a, <float>factor, 0, False)

cdef int grad_l2_norm(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x / max(|x|, eps) by rows of n: dx = rms_norm_back(g, x) / sqrt(n) where |x| > eps, else g / eps."""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *longer = x             # with the rows that are not longer than eps as zeros, whose dx is 0
    cdef ggml_tensor *is_longer
    cdef ggml_tensor *dx
    cdef float eps = norm_params(t).eps
    b.require_not_overwritten(t, x)
    if x.ne[0] == 0:
        return 0
    if eps > 0:
        is_longer = step(c, scale(c, sum_rows(c, sqr(c, divided(c, x, eps))), 1, -1, False))
        longer = mul(c, x, is_longer)
    dx = scale(c, norm_back(c, GGML_OP_RMS_NORM_BACK, g, longer, 0), <float>(1 / sqrt(<double>x.ne[0])), 0, False)
    if eps > 0:
        dx = add(c, dx, divided(c, mul(c, g, scale(c, is_longer, -1, 1, False)), eps))
    return b.add(x, dx)

gradients[GGML_OP_NORM] = grad_norm
gradients[GGML_OP_NORM_BACK] = grad_norm_back
gradients[GGML_OP_RMS_NORM] = grad_rms_norm
gradients[GGML_OP_RMS_NORM_BACK] = grad_rms_norm_back
gradients[GGML_OP_GROUP_NORM] = grad_group_norm
gradients[GGML_OP_L2_NORM] = grad_l2_norm
