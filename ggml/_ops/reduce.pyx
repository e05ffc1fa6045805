"""Reductions, norms, soft-max, losses, each with its gradient beside it."""
from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from .._core cimport (
    C, F, GGML_TYPE_F32, GGML_TYPE_I32, GGML_TYPE_I64, I32, P, T, T0, draft, enter, fail, gg_nrows,
    gg_param_f32, gg_set_param_f32, like, node1, over, put, ggml_tensor as Ten, ggml_context as Ctx,
)
from .elementwise cimport add, clamp, div, floats, mul, reduced, scale, spread, sub
from .._graph.grad cimport Backward, gradients
from .shape cimport reshape, update, zeros

cdef float LEAST_LOG = -1e30

cdef enum:
    ACC = 5, SQRT = 10, SUM = 14, SUM_ROWS = 15, MEAN = 17, ARGMAX = 18, COUNT_EQUAL = 19, REPEAT_BACK = 21, NORM = 24, RMS_NORM = 25, RMS_NORM_BACK = 26
    DIAG_MASK_INF = 44, DIAG_MASK_ZERO = 45, SOFT_MAX = 46, SOFT_MAX_BACK = 47, CROSS_ENTROPY = 92, CROSS_ENTROPY_BACK = 93
    LOG_SOFT_MAX = 151

# ---- sums ------------------------------------------------------------------------------------------------------------
def ggml_sum(ctx, a):
    """Sum of all elements, [1]."""
    cdef Ctx *c = C(ctx, b"ggml_sum")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    draft(&d, SUM, x.type, 1, 1, 1, 1)
    d.src[0] = x
    return P(put(c, &d))

cdef int grad_sum(Backward b, Ten *t, Ten *g) except -1:
    return b.add(t.src[0], spread(b.ctx, g, t.src[0]))

cdef Ten *rows1(Ctx *ctx, int op, Ten *a) except NULL:
    """A node with one f32 element for each row of a."""
    cdef Ten d
    draft(&d, op, GGML_TYPE_F32, 1, a.ne[1], a.ne[2], a.ne[3])
    d.src[0] = a
    return put(ctx, &d)

def ggml_sum_rows(ctx, a):
    """Sum of each row: [1, ne1, ne2, ne3]."""
    cdef Ctx *c = C(ctx, b"ggml_sum_rows")
    return P(rows1(c, SUM_ROWS, T(a, b"a")))

def ggml_mean(ctx, a):
    """Mean of each row: [1, ne1, ne2, ne3]."""
    cdef Ctx *c = C(ctx, b"ggml_mean")
    return P(rows1(c, MEAN, T(a, b"a")))

cdef int grad_mean(Backward b, Ten *t, Ten *g) except -1:
    if t.src[0].ne[0] == 0:
        return 0
    return b.add(t.src[0], spread(b.ctx, scale(b.ctx, g, <float>(1.0 / t.src[0].ne[0]), 0, False), t.src[0]))

def ggml_argmax(ctx, a):
    """Index of the largest element of each row of a matrix, the last of equals: i32 [ne1]."""
    cdef Ctx *c = C(ctx, b"ggml_argmax")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    draft(&d, ARGMAX, GGML_TYPE_I32, x.ne[1], 1, 1, 1)
    d.src[0] = x
    return P(put(c, &d))

def ggml_count_equal(ctx, a, b):
    """How many elements of a and b (i32) are equal: i64 [1]."""
    cdef Ctx *c = C(ctx, b"ggml_count_equal")
    cdef Ten d
    draft(&d, COUNT_EQUAL, GGML_TYPE_I64, 1, 1, 1, 1)
    d.src[0], d.src[1] = T(a, b"a"), T(b, b"b")
    return P(put(c, &d))

def ggml_repeat_back(ctx, a, b):
    """Sum of the tiles of a that have the shape of b: the gradient of ggml_repeat."""
    cdef Ctx *c = C(ctx, b"ggml_repeat_back")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    like(&d, REPEAT_BACK, GGML_TYPE_F32, T(b, b"b"))
    d.src[0] = x
    return P(put(c, &d))

cdef int grad_repeat_back(Backward b, Ten *t, Ten *g) except -1:
    return b.add(t.src[0], spread(b.ctx, g, t.src[0]))

# ---- norms -----------------------------------------------------------------------------------------------------------
cdef Ten *norm(Ctx *ctx, int op, Ten *a, float eps, bint inplace) except NULL:
    return floats(ctx, op, a, 0, eps, 1, 0, inplace)

cdef Ten *rms_norm_back(Ctx *ctx, Ten *g, Ten *x, float eps) except NULL:
    cdef Ten d
    like(&d, RMS_NORM_BACK, g.type, g)
    gg_set_param_f32(&d, 0, eps)
    d.src[0], d.src[1] = g, x
    return put(ctx, &d)

def ggml_norm(ctx, a, eps):
    """Each row made to mean 0 and variance 1: (x - mean) / sqrt(variance + eps)."""
    cdef Ctx *c = C(ctx, b"ggml_norm")
    return P(norm(c, NORM, T(a, b"a"), F(eps, b"eps"), False))

def ggml_norm_inplace(ctx, a, eps):
    """ggml_norm, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_norm_inplace")
    return P(norm(c, NORM, T(a, b"a"), F(eps, b"eps"), True))

cdef Ten *norm_back(Ctx *c, Ten *g, Ten *x, float eps) except NULL:
    """norm(x) is rms_norm of the centred x, and centring is its own adjoint."""
    cdef Ten *centred = sub(c, x, rows1(c, MEAN, x))
    cdef Ten *gradient = rms_norm_back(c, g, centred, eps)
    return sub(c, gradient, rows1(c, MEAN, gradient))

cdef int grad_norm(Backward b, Ten *t, Ten *g) except -1:
    b.overwritten(t, t.src[0])
    return b.add(t.src[0], norm_back(b.ctx, g, t.src[0], gg_param_f32(t, 0)))

def ggml_rms_norm(ctx, a, eps):
    """Each row divided by its root mean square: x / sqrt(mean(x^2) + eps)."""
    cdef Ctx *c = C(ctx, b"ggml_rms_norm")
    return P(norm(c, RMS_NORM, T(a, b"a"), F(eps, b"eps"), False))

def ggml_rms_norm_inplace(ctx, a, eps):
    """ggml_rms_norm, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_rms_norm_inplace")
    return P(norm(c, RMS_NORM, T(a, b"a"), F(eps, b"eps"), True))

def ggml_rms_norm_back(ctx, a, b, eps):
    """Gradient of ggml_rms_norm: a is the gradient of its result, b its argument."""
    cdef Ctx *c = C(ctx, b"ggml_rms_norm_back")
    return P(rms_norm_back(c, T(a, b"a"), T(b, b"b"), F(eps, b"eps")))

cdef int grad_rms_norm(Backward b, Ten *t, Ten *g) except -1:
    b.overwritten(t, t.src[0])
    return b.add(t.src[0], rms_norm_back(b.ctx, g, t.src[0], gg_param_f32(t, 0)))

cdef int grad_rms_norm_back(Backward b, Ten *t, Ten *g) except -1:
    """t = (dy - x mean(dy x) / m) / sqrt(m) by rows, m = mean(x^2) + eps: linear and symmetric in dy."""
    cdef Ctx *c = b.ctx
    cdef Ten *dy = t.src[0]
    cdef Ten *x = t.src[1]
    cdef Ten *m
    cdef Ten *gx
    cdef Ten *dx
    cdef Ten *along
    b.overwritten(t, x)
    if b.needs(dy):
        b.add(dy, rms_norm_back(c, g, x, gg_param_f32(t, 0)))
    if b.needs(x):          # (x (3 mean(g x) mean(dy x) / m - mean(g dy)) - g mean(dy x) - dy mean(g x)) / m^1.5
        b.overwritten(t, dy)
        m = scale(c, rows1(c, MEAN, mul(c, x, x)), 1, gg_param_f32(t, 0), False)
        gx, dx = rows1(c, MEAN, mul(c, g, x)), rows1(c, MEAN, mul(c, dy, x))
        along = sub(c, scale(c, div(c, mul(c, gx, dx), m), 3, 0, False), rows1(c, MEAN, mul(c, g, dy)))
        along = sub(c, mul(c, x, along), add(c, mul(c, g, dx), mul(c, dy, gx)))
        b.add(x, div(c, along, mul(c, m, node1(c, SQRT, m))))
    return 0

# ---- masks and soft-max ----------------------------------------------------------------------------------------------
cdef Ten *diag_mask(Ctx *ctx, int op, Ten *a, int n_past, bint inplace) except NULL:
    cdef Ten d
    like(&d, op, a.type, a)
    d.op_params[0] = n_past
    d.src[0] = a
    if inplace:
        over(&d, a)
    return put(ctx, &d)

def ggml_diag_mask_inf(ctx, a, n_past):
    """a with -inf at [i0, i1] where i0 > n_past + i1: a causal mask of attention scores."""
    cdef Ctx *c = C(ctx, b"ggml_diag_mask_inf")
    return P(diag_mask(c, DIAG_MASK_INF, T(a, b"a"), I32(n_past, b"n_past"), False))

def ggml_diag_mask_inf_inplace(ctx, a, n_past):
    """ggml_diag_mask_inf, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_diag_mask_inf_inplace")
    return P(diag_mask(c, DIAG_MASK_INF, T(a, b"a"), I32(n_past, b"n_past"), True))

def ggml_diag_mask_zero(ctx, a, n_past):
    """a with 0 at [i0, i1] where i0 > n_past + i1."""
    cdef Ctx *c = C(ctx, b"ggml_diag_mask_zero")
    return P(diag_mask(c, DIAG_MASK_ZERO, T(a, b"a"), I32(n_past, b"n_past"), False))

def ggml_diag_mask_zero_inplace(ctx, a, n_past):
    """ggml_diag_mask_zero, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_diag_mask_zero_inplace")
    return P(diag_mask(c, DIAG_MASK_ZERO, T(a, b"a"), I32(n_past, b"n_past"), True))

cdef int grad_diag_mask(Backward b, Ten *t, Ten *g) except -1:
    return b.add(t.src[0], diag_mask(b.ctx, DIAG_MASK_ZERO, g, t.op_params[0], False))

cdef Ten *soft_max(Ctx *ctx, Ten *a, Ten *mask, float factor, float max_bias, bint inplace) except NULL:
    cdef Ten d
    like(&d, SOFT_MAX, a.type, a)
    gg_set_param_f32(&d, 0, factor)
    gg_set_param_f32(&d, 1, max_bias)
    d.src[0], d.src[1] = a, mask
    if inplace:
        over(&d, a)
    return put(ctx, &d)

def ggml_soft_max(ctx, a):
    """Soft-max of each row."""
    cdef Ctx *c = C(ctx, b"ggml_soft_max")
    return P(soft_max(c, T(a, b"a"), NULL, 1, 0, False))

def ggml_soft_max_inplace(ctx, a):
    """ggml_soft_max, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_soft_max_inplace")
    return P(soft_max(c, T(a, b"a"), NULL, 1, 0, True))

def ggml_soft_max_ext(ctx, a, mask, scale, max_bias):
    """Soft-max of each row of a * scale + slope * mask.

    mask: f32 or f16 [ne0, >= ne1, ...], broadcast over dimensions 2 and 3, or None. max_bias > 0: ALiBi (arXiv:2108.12409), slopes by head (dimension 2); 0: slope 1."""
    cdef Ctx *c = C(ctx, b"ggml_soft_max_ext")
    return P(soft_max(c, T(a, b"a"), T0(mask, b"mask"), F(scale, b"scale"), F(max_bias, b"max_bias"), False))

def ggml_soft_max_ext_inplace(ctx, a, mask, scale, max_bias):
    """ggml_soft_max_ext, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_soft_max_ext_inplace")
    return P(soft_max(c, T(a, b"a"), T0(mask, b"mask"), F(scale, b"scale"), F(max_bias, b"max_bias"), True))

def ggml_soft_max_add_sinks(a, sinks):
    """Gives a SOFT_MAX tensor attention sinks: one f32 a head, an extra logit of each row that gets no column. None takes them away."""
    enter(b"ggml_soft_max_add_sinks")
    cdef Ten *t = T(a, b"a")
    cdef Ten *s = T0(sinks, b"sinks")
    if t.op != SOFT_MAX:
        fail(ValueError, "a is no result of ggml_soft_max or ggml_soft_max_ext")
    if s != NULL and (s.type != GGML_TYPE_F32 or s.ne[0] != t.src[0].ne[2] or gg_nrows(s) != 1):
        fail(ValueError, f"sinks has ne[0] = {s.ne[0]}: need one f32 for each of the {t.src[0].ne[2]} heads")
    t.src[2] = s

cdef Ten *soft_max_back(Ctx *ctx, Ten *g, Ten *y, float factor, float max_bias, bint by_mask, bint inplace) except NULL:
    cdef Ten d
    like(&d, SOFT_MAX_BACK, g.type, g)
    d.op_params[2] = by_mask
    gg_set_param_f32(&d, 0, factor)
    gg_set_param_f32(&d, 1, max_bias)
    d.src[0], d.src[1] = g, y
    if inplace:
        over(&d, g)
    return put(ctx, &d)

def ggml_soft_max_ext_back(ctx, a, b, scale, max_bias):
    """Gradient of ggml_soft_max_ext by its a: a is the gradient of its result, b its result."""
    cdef Ctx *c = C(ctx, b"ggml_soft_max_ext_back")
    return P(soft_max_back(c, T(a, b"a"), T(b, b"b"), F(scale, b"scale"), F(max_bias, b"max_bias"), False, False))

def ggml_soft_max_ext_back_inplace(ctx, a, b, scale, max_bias):
    """ggml_soft_max_ext_back, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_soft_max_ext_back_inplace")
    return P(soft_max_back(c, T(a, b"a"), T(b, b"b"), F(scale, b"scale"), F(max_bias, b"max_bias"), False, True))

def ggml_soft_max_back(ctx, a, b):
    """Gradient of ggml_soft_max by its a: a is the gradient of its result, b its result."""
    cdef Ctx *c = C(ctx, b"ggml_soft_max_back")
    return P(soft_max_back(c, T(a, b"a"), T(b, b"b"), 1, 0, False, False))

def ggml_soft_max_back_inplace(ctx, a, b):
    """ggml_soft_max_back, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_soft_max_back_inplace")
    return P(soft_max_back(c, T(a, b"a"), T(b, b"b"), 1, 0, False, True))

cdef int grad_soft_max_back(Backward b, Ten *t, Ten *g) except -1:
    """t = k (dy - sum(dy y)) y by rows: linear and symmetric in dy; by y: k (g (dy - sum(dy y)) - dy sum(g y))"""
    cdef Ctx *c = b.ctx
    cdef Ten *dy = t.src[0]
    cdef Ten *y = t.src[1]
    cdef Ten *by_y
    cdef float factor = gg_param_f32(t, 0), max_bias = gg_param_f32(t, 1)
    b.overwritten(t, y)
    if b.needs(dy):
        b.add(dy, soft_max_back(c, g, y, factor, max_bias, t.op_params[2], False))
    if b.needs(y):
        if t.op_params[2] and max_bias > 0:
            fail(ValueError, "SOFT_MAX has no second gradient by a mask with ALiBi")
        b.overwritten(t, dy)
        by_y = sub(c, mul(c, g, sub(c, dy, rows1(c, SUM_ROWS, mul(c, dy, y)))), mul(c, dy, rows1(c, SUM_ROWS, mul(c, g, y))))
        b.add(y, scale(c, by_y, 1 if t.op_params[2] else factor, 0, False))
    return 0

cdef Ten *summed(Ctx *ctx, Ten *g, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef Ten d
    draft(&d, REPEAT_BACK, GGML_TYPE_F32, ne0, ne1, ne2, ne3)
    d.src[0] = g
    return put(ctx, &d)

cdef Ten *mask_gradient(Ctx *ctx, Ten *g, Ten *mask) except NULL:
    cdef Ten *sum = summed(ctx, g, g.ne[0], g.ne[1], mask.ne[2], mask.ne[3])
    if g.ne[0] == mask.ne[0] and g.ne[1] == mask.ne[1]:
        return sum
    cdef Ten *all = zeros(ctx, mask.ne[0], mask.ne[1], mask.ne[2], mask.ne[3])
    return update(ctx, ACC, all, sum, all.nb[1], all.nb[2], all.nb[3], 0, False)

cdef Ten *sinks_gradient(Ctx *ctx, Ten *g, Ten *sinks) except NULL:
    return reshape(ctx, summed(ctx, g, 1, 1, g.ne[2], 1), sinks.ne[0], 1, 1, 1)

cdef int grad_soft_max(Backward b, Ten *t, Ten *g) except -1:
    cdef Ten *rest
    b.overwritten(t, t)
    if b.needs(t.src[0]):
        b.add(t.src[0], soft_max_back(b.ctx, g, t, gg_param_f32(t, 0), gg_param_f32(t, 1), False, False))
    if b.needs(t.src[1]):
        b.add(t.src[1], mask_gradient(b.ctx, soft_max_back(b.ctx, g, t, 1, gg_param_f32(t, 1), True, False), t.src[1]))
    if b.needs(t.src[2]):     # the sink has the rest of the weight, and its value is 0
        rest = scale(b.ctx, rows1(b.ctx, SUM_ROWS, t), 1, -1, False)
        b.add(t.src[2], sinks_gradient(b.ctx, mul(b.ctx, rest, rows1(b.ctx, SUM_ROWS, mul(b.ctx, g, t))), t.src[2]))
    return 0

# ---- cross entropy ---------------------------------------------------------------------------------------------------
def ggml_cross_entropy_loss(ctx, a, b):
    """Mean over the rows of -sum(b * log_soft_max(a)): logits a against probabilities b, [1]."""
    cdef Ctx *c = C(ctx, b"ggml_cross_entropy_loss")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    draft(&d, CROSS_ENTROPY, x.type, 1, 1, 1, 1)
    d.src[0], d.src[1] = x, T(b, b"b")
    return P(put(c, &d))

cdef Ten *cross_entropy_back(Ctx *ctx, Ten *g, Ten *logits, Ten *labels) except NULL:
    cdef Ten d
    like(&d, CROSS_ENTROPY_BACK, logits.type, logits)
    d.src[0], d.src[1], d.src[2] = g, logits, labels
    return put(ctx, &d)

def ggml_cross_entropy_loss_back(ctx, a, b, c):
    """Gradient of ggml_cross_entropy_loss by its logits: a is the gradient of the loss, b the logits, c the labels."""
    cdef Ctx *x = C(ctx, b"ggml_cross_entropy_loss_back")
    return P(cross_entropy_back(x, T(a, b"a"), T(b, b"b"), T(c, b"c")))

cdef Ten *log_soft_max(Ctx *ctx, Ten *a) except NULL: return node1(ctx, LOG_SOFT_MAX, a)

cdef int grad_log_soft_max(Backward b, Ten *t, Ten *g) except -1:
    cdef Ten *p
    b.overwritten(t, t.src[0])
    p = soft_max(b.ctx, t.src[0], NULL, 1, 0, False)
    return b.add(t.src[0], sub(b.ctx, g, mul(b.ctx, p, rows1(b.ctx, SUM_ROWS, g))))

cdef int grad_cross_entropy(Backward b, Ten *t, Ten *g) except -1:
    cdef Ctx *c = b.ctx
    cdef Ten *logs
    b.overwritten(t, t.src[0])
    if b.needs(t.src[0]):
        b.overwritten(t, t.src[1])
        b.add(t.src[0], cross_entropy_back(c, g, t.src[0], t.src[1]))
    if b.needs(t.src[1]):    # a masked logit has the log -inf: bounded, so that what is zero beyond stays zero
        logs = clamp(c, log_soft_max(c, t.src[0]), LEAST_LOG, INFINITY, False)
        b.add(t.src[1], mul(c, scale(c, logs, -1 / per_loss(t.src[0]), 0, False), g))
    return 0

cdef float per_loss(Ten *logits) noexcept:
    """How many rows a cross entropy is the mean of."""
    return <float>max(1, gg_nrows(logits))

cdef int grad_cross_entropy_back(Backward b, Ten *t, Ten *g) except -1:
    """t = dy / rows * (p sum(labels) - labels) with p = soft_max(logits)"""
    cdef Ctx *c = b.ctx
    cdef Ten *dy = t.src[0]
    cdef Ten *x = t.src[1]
    cdef Ten *labels = t.src[2]
    cdef Ten *p
    cdef int i
    for i in range(3):
        b.overwritten(t, t.src[i])
    if b.needs(dy):
        p = cross_entropy_back(c, scale(c, dy, 0, 1, False), x, labels)
        b.add(dy, reduced(c, mul(c, p, g), dy))
    if not b.needs(x) and not b.needs(labels):
        return 0
    p = soft_max(c, x, NULL, 1, 0, False)
    dy = scale(c, dy, 1 / per_loss(x), 0, False)
    if b.needs(x):
        b.add(x, mul(c, mul(c, soft_max_back(c, g, p, 1, 0, False, False), rows1(c, SUM_ROWS, labels)), dy))
    if b.needs(labels):
        p = spread(c, rows1(c, SUM_ROWS, mul(c, g, p)), g)
        b.add(labels, mul(c, sub(c, p, g), dy))
    return 0

gradients[SUM] = gradients[SUM_ROWS] = grad_sum
gradients[MEAN] = grad_mean
gradients[REPEAT_BACK] = grad_repeat_back
gradients[NORM] = grad_norm
gradients[RMS_NORM] = grad_rms_norm
gradients[RMS_NORM_BACK] = grad_rms_norm_back
gradients[DIAG_MASK_INF] = gradients[DIAG_MASK_ZERO] = grad_diag_mask
gradients[SOFT_MAX] = grad_soft_max
gradients[SOFT_MAX_BACK] = grad_soft_max_back
gradients[CROSS_ENTROPY] = grad_cross_entropy
gradients[CROSS_ENTROPY_BACK] = grad_cross_entropy_back
gradients[LOG_SOFT_MAX] = grad_log_soft_max
