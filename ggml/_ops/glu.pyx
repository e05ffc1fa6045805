"""Gated linear units (arXiv:2002.05202): f(x) * gate, of two tensors or of the two halves of each row of one."""
from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from .._core cimport (
    BOOL, C, F, I32, P, T, draft, gg_param_f32, gg_set_param_f32, ggml_context as Ctx, ggml_tensor as Ten, node2, put,
)
from .elementwise cimport clamp, clamp_back, mul, scale, unary
from .._graph.grad cimport Backward, gradients
from .shape cimport concat, window

cdef enum:
    STEP = 3, RELU = 6, SIGMOID = 7, GELU = 8, GELU_QUICK = 9, SILU = 10, GELU_ERF = 16     # unary operations
    SILU_BACK = 23, GELU_BACK = 128, GELU_QUICK_BACK = 129, GELU_ERF_BACK = 130, GLU_OP = 96
    REGLU = 0, GEGLU = 1, SWIGLU = 2, SWIGLU_OAI = 3, GEGLU_ERF = 4, GEGLU_QUICK = 5

cdef Ten *glu(Ctx *ctx, int op, Ten *a, Ten *b, bint swapped, float alpha, float limit) except NULL:
    cdef Ten d
    draft(&d, GLU_OP, a.type, a.ne[0] if b != NULL else a.ne[0] // 2, a.ne[1], a.ne[2], a.ne[3])
    d.op_params[0], d.op_params[1] = op, swapped
    gg_set_param_f32(&d, 2, alpha)
    gg_set_param_f32(&d, 3, limit)
    d.src[0], d.src[1] = a, b
    return put(ctx, &d)

def ggml_glu(ctx, a, op, swapped):
    """f(first half) * second half of each row, or f of the second half if swapped: [ne0 / 2, ...]. op: GGML_GLU_OP_*."""
    cdef Ctx *c = C(ctx, b"ggml_glu")
    return P(glu(c, I32(op, b"op"), T(a, b"a"), NULL, BOOL(swapped, b"swapped"), 0, 0))

def ggml_glu_split(ctx, a, b, op):
    """f(a) * b. op: GGML_GLU_OP_*."""
    cdef Ctx *c = C(ctx, b"ggml_glu_split")
    return P(glu(c, I32(op, b"op"), T(a, b"a"), T(b, b"b"), False, 0, 0))

def ggml_swiglu_oai(ctx, a, b, alpha, limit):
    """x sigmoid(alpha x) (y + 1) with x = min(a, limit) and y = b within -limit to limit: the unit of the gpt-oss models."""
    cdef Ctx *c = C(ctx, b"ggml_swiglu_oai")
    return P(glu(c, SWIGLU_OAI, T(a, b"a"), T(b, b"b"), False, F(alpha, b"alpha"), F(limit, b"limit")))

def ggml_reglu(ctx, a):
    """f(first half) * second half of each row, f(x) = max(x, 0)."""
    cdef Ctx *c = C(ctx, b"ggml_reglu")
    return P(glu(c, REGLU, T(a, b"a"), NULL, False, 0, 0))

def ggml_reglu_swapped(ctx, a):
    """ggml_reglu with f of the second half."""
    cdef Ctx *c = C(ctx, b"ggml_reglu_swapped")
    return P(glu(c, REGLU, T(a, b"a"), NULL, True, 0, 0))

def ggml_reglu_split(ctx, a, b):
    """f(a) * b, f(x) = max(x, 0)."""
    cdef Ctx *c = C(ctx, b"ggml_reglu_split")
    return P(glu(c, REGLU, T(a, b"a"), T(b, b"b"), False, 0, 0))

def ggml_geglu(ctx, a):
    """f(first half) * second half of each row, f(x) = gelu(x)."""
    cdef Ctx *c = C(ctx, b"ggml_geglu")
    return P(glu(c, GEGLU, T(a, b"a"), NULL, False, 0, 0))

def ggml_geglu_swapped(ctx, a):
    """ggml_geglu with f of the second half."""
    cdef Ctx *c = C(ctx, b"ggml_geglu_swapped")
    return P(glu(c, GEGLU, T(a, b"a"), NULL, True, 0, 0))

def ggml_geglu_split(ctx, a, b):
    """f(a) * b, f(x) = gelu(x)."""
    cdef Ctx *c = C(ctx, b"ggml_geglu_split")
    return P(glu(c, GEGLU, T(a, b"a"), T(b, b"b"), False, 0, 0))

def ggml_swiglu(ctx, a):
    """f(first half) * second half of each row, f(x) = silu(x)."""
    cdef Ctx *c = C(ctx, b"ggml_swiglu")
    return P(glu(c, SWIGLU, T(a, b"a"), NULL, False, 0, 0))

def ggml_swiglu_swapped(ctx, a):
    """ggml_swiglu with f of the second half."""
    cdef Ctx *c = C(ctx, b"ggml_swiglu_swapped")
    return P(glu(c, SWIGLU, T(a, b"a"), NULL, True, 0, 0))

def ggml_swiglu_split(ctx, a, b):
    """f(a) * b, f(x) = silu(x)."""
    cdef Ctx *c = C(ctx, b"ggml_swiglu_split")
    return P(glu(c, SWIGLU, T(a, b"a"), T(b, b"b"), False, 0, 0))

def ggml_geglu_erf(ctx, a):
    """f(first half) * second half of each row, f(x) = gelu(x), exact."""
    cdef Ctx *c = C(ctx, b"ggml_geglu_erf")
    return P(glu(c, GEGLU_ERF, T(a, b"a"), NULL, False, 0, 0))

def ggml_geglu_erf_swapped(ctx, a):
    """ggml_geglu_erf with f of the second half."""
    cdef Ctx *c = C(ctx, b"ggml_geglu_erf_swapped")
    return P(glu(c, GEGLU_ERF, T(a, b"a"), NULL, True, 0, 0))

def ggml_geglu_erf_split(ctx, a, b):
    """f(a) * b, f(x) = gelu(x), exact."""
    cdef Ctx *c = C(ctx, b"ggml_geglu_erf_split")
    return P(glu(c, GEGLU_ERF, T(a, b"a"), T(b, b"b"), False, 0, 0))

def ggml_geglu_quick(ctx, a):
    """f(first half) * second half of each row, f(x) = x sigmoid(1.702 x)."""
    cdef Ctx *c = C(ctx, b"ggml_geglu_quick")
    return P(glu(c, GEGLU_QUICK, T(a, b"a"), NULL, False, 0, 0))

def ggml_geglu_quick_swapped(ctx, a):
    """ggml_geglu_quick with f of the second half."""
    cdef Ctx *c = C(ctx, b"ggml_geglu_quick_swapped")
    return P(glu(c, GEGLU_QUICK, T(a, b"a"), NULL, True, 0, 0))

def ggml_geglu_quick_split(ctx, a, b):
    """f(a) * b, f(x) = x sigmoid(1.702 x)."""
    cdef Ctx *c = C(ctx, b"ggml_geglu_quick_split")
    return P(glu(c, GEGLU_QUICK, T(a, b"a"), T(b, b"b"), False, 0, 0))

# ---- the gradient ----------------------------------------------------------------------------------------------------
cdef Ten *activated(Ctx *c, int op, Ten *x) except NULL:
    return unary(c, SILU if op == SWIGLU else GELU if op == GEGLU else GELU_ERF if op == GEGLU_ERF
                 else GELU_QUICK if op == GEGLU_QUICK else RELU, x, False)

cdef Ten *activated_back(Ctx *c, int op, Ten *g, Ten *x) except NULL:
    if op == REGLU:
        return mul(c, g, unary(c, STEP, x, False))
    return node2(c, SILU_BACK if op == SWIGLU else GELU_BACK if op == GEGLU else GELU_ERF_BACK if op == GEGLU_ERF
                 else GELU_QUICK_BACK, g, x)

cdef Ten *by_gate(Ctx *c, Ten *t, Ten *g, Ten *x, Ten *y) except NULL:
    cdef float alpha = gg_param_f32(t, 2), limit = gg_param_f32(t, 3)
    if t.op_params[0] != SWIGLU_OAI:
        return mul(c, g, activated(c, t.op_params[0], x))
    x = clamp(c, x, -INFINITY, limit, False)
    x = mul(c, x, unary(c, SIGMOID, scale(c, x, alpha, 0, False), False))
    return clamp_back(c, mul(c, g, x), y, -limit, limit)

cdef Ten *by_x(Ctx *c, Ten *t, Ten *g, Ten *x, Ten *y) except NULL:
    cdef float alpha = gg_param_f32(t, 2), limit = gg_param_f32(t, 3)
    if t.op_params[0] != SWIGLU_OAI:
        return activated_back(c, t.op_params[0], mul(c, g, y), x)
    cdef Ten *low = scale(c, clamp(c, x, -INFINITY, limit, False), alpha, 0, False)     # x sigmoid(alpha x) = silu(alpha x) / alpha
    g = mul(c, g, scale(c, clamp(c, y, -limit, limit, False), 1, 1, False))
    return clamp_back(c, node2(c, SILU_BACK, g, low), x, -INFINITY, limit)

cdef int grad_glu(Backward b, Ten *t, Ten *g) except -1:
    cdef Ctx *c = b.ctx
    cdef Ten *x = t.src[0]
    cdef Ten *y = t.src[1]
    cdef int64_t n = t.ne[0]
    cdef bint swapped = t.op_params[1]
    b.overwritten(t, x)
    if y != NULL:
        b.overwritten(t, y)
        if b.needs(x):
            b.add(x, by_x(c, t, g, x, y))
        if b.needs(y):
            b.add(y, by_gate(c, t, g, x, y))
        return 0
    cdef Ten *first = window(c, x, 0, n if swapped else 0, n)
    cdef Ten *second = window(c, x, 0, 0 if swapped else n, n)
    cdef Ten *dx = by_x(c, t, g, first, second)
    cdef Ten *dy = by_gate(c, t, g, first, second)
    return b.add(x, concat(c, dy, dx, 0) if swapped else concat(c, dx, dy, 0))

gradients[GLU_OP] = grad_glu
