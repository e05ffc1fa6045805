"""Norms of groups of channels and of rows by their length, with their gradients."""
from libc.math cimport sqrt
from libc.stdint cimport int64_t

from .._core cimport (
    C, F, I32, P, T, gg_param_f32, gg_set_param_f32, ggml_context as Ctx, ggml_tensor as Ten, like, node1, over, put,
)
from .elementwise cimport add, floats, mul, packed, scale, sqr, unary
from .._graph.grad cimport Backward, gradients
from .reduce cimport norm_back, rms_norm_back, rows1
from .shape cimport concat, reshape, window

cdef enum:
    STEP = 3
    SQRT = 10, SUM_ROWS = 15, GROUP_NORM = 27, L2_NORM = 28

# ---- GROUP_NORM ------------------------------------------------------------------------------------------------------
cdef Ten *group_norm(Ctx *ctx, Ten *a, int n_groups, float eps, bint inplace) except NULL:
    cdef Ten d
    like(&d, GROUP_NORM, a.type, a)
    d.op_params[0] = n_groups
    gg_set_param_f32(&d, 1, eps)
    d.src[0] = a
    if inplace:
        over(&d, a)
    return put(ctx, &d)

def ggml_group_norm(ctx, a, n_groups, eps):
    """Group normalisation (arXiv:1803.08494): ggml_norm over groups of channels, which are dimension 2.

    a [ne0, ne1, channels, items]. Groups have ceil(channels / n_groups) channels, the last one what is left."""
    cdef Ctx *c = C(ctx, b"ggml_group_norm")
    return P(group_norm(c, T(a, b"a"), I32(n_groups, b"n_groups"), F(eps, b"eps"), False))

def ggml_group_norm_inplace(ctx, a, n_groups, eps):
    """ggml_group_norm, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_group_norm_inplace")
    return P(group_norm(c, T(a, b"a"), I32(n_groups, b"n_groups"), F(eps, b"eps"), True))

cdef Ten *group_back(Ctx *c, Ten *g, Ten *x, int64_t start, int64_t n, int64_t each, float eps) except NULL:
    """The gradient by n channels in whole groups: each group becomes a row."""
    cdef Ten *xs = packed(c, window(c, x, 2, start, n))
    cdef Ten *gs = packed(c, window(c, g, 2, start, n))
    cdef int64_t row = x.ne[0] * x.ne[1] * each, rows = n // each * x.ne[3]
    cdef Ten *gradient = norm_back(c, reshape(c, gs, row, rows, 1, 1), reshape(c, xs, row, rows, 1, 1), eps)
    return reshape(c, gradient, x.ne[0], x.ne[1], n, x.ne[3])

cdef int grad_group_norm(Backward b, Ten *t, Ten *g) except -1:
    cdef Ten *x = t.src[0]
    cdef int64_t channels = x.ne[2], each = (channels + t.op_params[0] - 1) // t.op_params[0], rest
    cdef float eps = gg_param_f32(t, 1)
    cdef Ten *gradient
    b.overwritten(t, x)
    if each == 0:
        return 0
    rest = channels % each
    gradient = group_back(b.ctx, g, x, 0, channels - rest, each, eps)
    if rest:
        gradient = concat(b.ctx, gradient, group_back(b.ctx, g, x, channels - rest, rest, rest, eps), 2)
    return b.add(x, gradient)

# ---- L2_NORM ---------------------------------------------------------------------------------------------------------
def ggml_l2_norm(ctx, a, eps):
    """Each row divided by its length, or by eps where that is more: x / max(sqrt(sum(x^2)), eps)."""
    cdef Ctx *c = C(ctx, b"ggml_l2_norm")
    return P(floats(c, L2_NORM, T(a, b"a"), 0, F(eps, b"eps"), 1, 0, False))

def ggml_l2_norm_inplace(ctx, a, eps):
    """ggml_l2_norm, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_l2_norm_inplace")
    return P(floats(c, L2_NORM, T(a, b"a"), 0, F(eps, b"eps"), 1, 0, True))

cdef int grad_l2_norm(Backward b, Ten *t, Ten *g) except -1:
    """That of rms_norm / sqrt(n) for rows longer than eps, g / eps for the others."""
    cdef Ctx *c = b.ctx
    cdef Ten *x = t.src[0]
    cdef Ten *longer
    cdef float eps = gg_param_f32(t, 0)
    b.overwritten(t, x)
    if x.ne[0] == 0:
        return 0
    cdef Ten *gradient = scale(c, rms_norm_back(c, g, x, 0), <float>(1 / sqrt(<double>x.ne[0])), 0, False)
    if eps > 0:
        longer = unary(c, STEP, scale(c, node1(c, SQRT, rows1(c, SUM_ROWS, sqr(c, x))), 1, -eps, False), False)
        gradient = add(c, mul(c, gradient, longer), mul(c, g, scale(c, longer, -1 / eps, 1 / eps, False)))
    return b.add(x, gradient)

gradients[GROUP_NORM] = grad_group_norm
gradients[L2_NORM] = grad_l2_norm
