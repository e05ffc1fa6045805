"""Element-wise operations and optimiser steps, each with its gradient beside it."""
from libc.math cimport INFINITY, exp, log1p

from .._core cimport (
    BOOL, C, F, I32, GGML_TYPE_F32, P, T, TYPE, fail, gg_contiguous,
    gg_param_f32, gg_same_shape, gg_set_param_f32, ggml_context, ggml_tensor, inplace1, inplace2, like, node1,
    node2, over, put,
)
from .._graph.grad cimport Backward, gradients

cdef enum:
    ADD = 2, ADD1 = 4, SUB = 6, MUL = 7, DIV = 8, SQR = 9, SQRT = 10, LOG = 11, SIN = 12, COS = 13, SUM = 14, REPEAT = 20
    REPEAT_BACK = 21, SILU_BACK = 23, SCALE = 32, CONT = 35, CLAMP = 50, LEAKY_RELU = 71, UNARY = 87, ADAMW = 94, SGD = 95
    GELU_BACK = 128, GELU_QUICK_BACK = 129, GELU_ERF_BACK = 130, ELU_BACK = 131, CLAMP_BACK = 132
    ABS = 0, SGN = 1, NEG = 2, STEP = 3, TANH = 4, ELU = 5, RELU = 6, SIGMOID = 7, GELU = 8, GELU_QUICK = 9, SILU = 10
    HARDSWISH = 11, HARDSIGMOID = 12, EXP = 13, EXPM1 = 14, SOFTPLUS = 15, GELU_ERF = 16, XIELU = 17, FLOOR = 18, CEIL = 19
    ROUND = 20, TRUNC = 21

cdef float GELU_K = 1.5957691216057308, GELU_A = 0.044715, INV_SQRT_2PI = 0.3989422804014327     # GELU_K: 2 sqrt(2 / pi)

ctypedef ggml_context Ctx
ctypedef ggml_tensor Ten

# ---- builders --------------------------------------------------------------------------------------------------------
cdef Ten *add(Ctx *ctx, Ten *a, Ten *b) except NULL: return node2(ctx, ADD, a, b)
cdef Ten *sub(Ctx *ctx, Ten *a, Ten *b) except NULL: return node2(ctx, SUB, a, b)
cdef Ten *mul(Ctx *ctx, Ten *a, Ten *b) except NULL: return node2(ctx, MUL, a, b)
cdef Ten *div(Ctx *ctx, Ten *a, Ten *b) except NULL: return node2(ctx, DIV, a, b)
cdef Ten *sqr(Ctx *ctx, Ten *a) except NULL: return node1(ctx, SQR, a)
cdef Ten *neg(Ctx *ctx, Ten *a) except NULL: return unary(ctx, NEG, a, False)

cdef Ten *floats(Ctx *ctx, int op, Ten *a, int i0, float f0, int i1, float f1, bint inplace) except NULL:
    """A node of one source with two float parameters, at indices i0 and i1 of op_params."""
    cdef Ten d
    like(&d, op, a.type, a)
    gg_set_param_f32(&d, i0, f0)
    gg_set_param_f32(&d, i1, f1)
    d.src[0] = a
    if inplace:
        over(&d, a)
    return put(ctx, &d)

cdef Ten *scale(Ctx *ctx, Ten *a, float s, float bias, bint inplace) except NULL:
    return floats(ctx, SCALE, a, 0, s, 1, bias, inplace)

cdef Ten *unary(Ctx *ctx, int fn, Ten *a, bint inplace) except NULL:
    cdef Ten d
    like(&d, UNARY, a.type, a)
    d.op_params[0] = fn
    d.src[0] = a
    if inplace:
        over(&d, a)
    return put(ctx, &d)

cdef Ten *packed(Ctx *ctx, Ten *a) except NULL:
    return a if gg_contiguous(a) else node1(ctx, CONT, a)

cdef Ten *reduced(Ctx *ctx, Ten *g, Ten *to) except NULL:
    cdef Ten d
    if gg_same_shape(g, to):
        return g
    like(&d, REPEAT_BACK, GGML_TYPE_F32, to)
    d.src[0] = g
    return put(ctx, &d)

cdef Ten *spread(Ctx *ctx, Ten *a, Ten *to) except NULL:
    cdef Ten d
    if gg_same_shape(a, to):
        return a
    like(&d, REPEAT, a.type, to)
    d.src[0] = a
    return put(ctx, &d)

cdef Ten *step_of(Ctx *ctx, Ten *a) except NULL: return unary(ctx, STEP, a, False)

# ---- two operands ----------------------------------------------------------------------------------------------------
def ggml_add(ctx, a, b):
    """a + b; b is tiled to the shape of a."""
    cdef Ctx *c = C(ctx, b"ggml_add")
    return P(node2(c, ADD, T(a, b"a"), T(b, b"b")))

def ggml_add_inplace(ctx, a, b):
    """ggml_add, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_add_inplace")
    return P(inplace2(c, ADD, T(a, b"a"), T(b, b"b")))

def ggml_add_cast(ctx, a, b, type):
    """a + b as a tensor of another type (quantised, f16 or bf16 a)."""
    cdef Ctx *c = C(ctx, b"ggml_add_cast")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    like(&d, ADD, TYPE(type, b"type"), x)
    d.src[0], d.src[1] = x, T(b, b"b")
    return P(put(c, &d))

cdef int grad_add(Backward b, Ten *t, Ten *g) except -1:
    b.add(t.src[0], g)
    if b.needs(t.src[1]):
        b.add(t.src[1], reduced(b.ctx, g, t.src[1]))
    return 0

def ggml_add1(ctx, a, b):
    """a + b, where b has one element."""
    cdef Ctx *c = C(ctx, b"ggml_add1")
    return P(node2(c, ADD1, T(a, b"a"), T(b, b"b")))

def ggml_add1_inplace(ctx, a, b):
    """ggml_add1, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_add1_inplace")
    return P(inplace2(c, ADD1, T(a, b"a"), T(b, b"b")))

def ggml_sub(ctx, a, b):
    """a - b; b is tiled to the shape of a."""
    cdef Ctx *c = C(ctx, b"ggml_sub")
    return P(node2(c, SUB, T(a, b"a"), T(b, b"b")))

def ggml_sub_inplace(ctx, a, b):
    """ggml_sub, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_sub_inplace")
    return P(inplace2(c, SUB, T(a, b"a"), T(b, b"b")))

cdef int grad_sub(Backward b, Ten *t, Ten *g) except -1:
    b.add(t.src[0], g)
    if b.needs(t.src[1]):
        b.add(t.src[1], neg(b.ctx, reduced(b.ctx, g, t.src[1])))
    return 0

def ggml_mul(ctx, a, b):
    """a * b element by element; b is tiled to the shape of a."""
    cdef Ctx *c = C(ctx, b"ggml_mul")
    return P(node2(c, MUL, T(a, b"a"), T(b, b"b")))

def ggml_mul_inplace(ctx, a, b):
    """ggml_mul, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_mul_inplace")
    return P(inplace2(c, MUL, T(a, b"a"), T(b, b"b")))

cdef int grad_mul(Backward b, Ten *t, Ten *g) except -1:
    if b.needs(t.src[0]):
        b.overwritten(t, t.src[1])
        b.add(t.src[0], mul(b.ctx, g, t.src[1]))
    if b.needs(t.src[1]):
        b.overwritten(t, t.src[0])
        b.add(t.src[1], reduced(b.ctx, mul(b.ctx, g, t.src[0]), t.src[1]))
    return 0

def ggml_div(ctx, a, b):
    """a / b element by element; b is tiled to the shape of a."""
    cdef Ctx *c = C(ctx, b"ggml_div")
    return P(node2(c, DIV, T(a, b"a"), T(b, b"b")))

def ggml_div_inplace(ctx, a, b):
    """ggml_div, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_div_inplace")
    return P(inplace2(c, DIV, T(a, b"a"), T(b, b"b")))

cdef int grad_div(Backward b, Ten *t, Ten *g) except -1:
    """d(a/b) = da/b - (a/b) db/b"""
    b.overwritten(t, t.src[1])
    cdef Ten *over_b = div(b.ctx, g, t.src[1])
    b.add(t.src[0], over_b)
    if b.needs(t.src[1]):
        b.overwritten(t, t)
        b.add(t.src[1], neg(b.ctx, reduced(b.ctx, mul(b.ctx, over_b, t), t.src[1])))
    return 0

# ---- one operand: operations of their own -----------------------------------------------------------------------------
def ggml_sqr(ctx, a):
    """a squared, element by element."""
    cdef Ctx *c = C(ctx, b"ggml_sqr")
    return P(node1(c, SQR, T(a, b"a")))

def ggml_sqr_inplace(ctx, a):
    """ggml_sqr, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_sqr_inplace")
    return P(inplace1(c, SQR, T(a, b"a")))

cdef int grad_sqr(Backward b, Ten *t, Ten *g) except -1:
    b.overwritten(t, t.src[0])
    return b.add(t.src[0], scale(b.ctx, mul(b.ctx, g, t.src[0]), 2, 0, False))

def ggml_sqrt(ctx, a):
    """Square root of each element; NaN below 0."""
    cdef Ctx *c = C(ctx, b"ggml_sqrt")
    return P(node1(c, SQRT, T(a, b"a")))

def ggml_sqrt_inplace(ctx, a):
    """ggml_sqrt, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_sqrt_inplace")
    return P(inplace1(c, SQRT, T(a, b"a")))

cdef int grad_sqrt(Backward b, Ten *t, Ten *g) except -1:
    b.overwritten(t, t)
    return b.add(t.src[0], scale(b.ctx, div(b.ctx, g, t), 0.5, 0, False))

def ggml_log(ctx, a):
    """Natural logarithm of each element."""
    cdef Ctx *c = C(ctx, b"ggml_log")
    return P(node1(c, LOG, T(a, b"a")))

def ggml_log_inplace(ctx, a):
    """ggml_log, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_log_inplace")
    return P(inplace1(c, LOG, T(a, b"a")))

cdef int grad_log(Backward b, Ten *t, Ten *g) except -1:
    b.overwritten(t, t.src[0])
    return b.add(t.src[0], div(b.ctx, g, t.src[0]))

def ggml_sin(ctx, a):
    """Sine of each element (radians)."""
    cdef Ctx *c = C(ctx, b"ggml_sin")
    return P(node1(c, SIN, T(a, b"a")))

def ggml_sin_inplace(ctx, a):
    """ggml_sin, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_sin_inplace")
    return P(inplace1(c, SIN, T(a, b"a")))

cdef int grad_sin(Backward b, Ten *t, Ten *g) except -1:
    b.overwritten(t, t.src[0])
    return b.add(t.src[0], mul(b.ctx, g, node1(b.ctx, COS, t.src[0])))

def ggml_cos(ctx, a):
    """Cosine of each element (radians)."""
    cdef Ctx *c = C(ctx, b"ggml_cos")
    return P(node1(c, COS, T(a, b"a")))

def ggml_cos_inplace(ctx, a):
    """ggml_cos, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_cos_inplace")
    return P(inplace1(c, COS, T(a, b"a")))

cdef int grad_cos(Backward b, Ten *t, Ten *g) except -1:
    b.overwritten(t, t.src[0])
    return b.add(t.src[0], neg(b.ctx, mul(b.ctx, g, node1(b.ctx, SIN, t.src[0]))))

def ggml_scale(ctx, a, s):
    """a * s, s a number."""
    cdef Ctx *c = C(ctx, b"ggml_scale")
    return P(scale(c, T(a, b"a"), F(s, b"s"), 0, False))

def ggml_scale_inplace(ctx, a, s):
    """ggml_scale, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_scale_inplace")
    return P(scale(c, T(a, b"a"), F(s, b"s"), 0, True))

def ggml_scale_bias(ctx, a, s, b):
    """a * s + b, s and b numbers."""
    cdef Ctx *c = C(ctx, b"ggml_scale_bias")
    return P(scale(c, T(a, b"a"), F(s, b"s"), F(b, b"b"), False))

def ggml_scale_bias_inplace(ctx, a, s, b):
    """ggml_scale_bias, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_scale_bias_inplace")
    return P(scale(c, T(a, b"a"), F(s, b"s"), F(b, b"b"), True))

cdef int grad_scale(Backward b, Ten *t, Ten *g) except -1:
    return b.add(t.src[0], scale(b.ctx, g, gg_param_f32(t, 0), 0, False))

cdef Ten *clamp(Ctx *ctx, Ten *a, float low, float high, bint inplace) except NULL:
    if not low <= high:
        fail(ValueError, f"min is {low}, max is {high}: min must not be above max")
    return floats(ctx, CLAMP, a, 0, low, 1, high, inplace)

def ggml_clamp(ctx, a, min, max):
    """a limited to [min, max]. A new tensor, other than in the C library: see ggml_clamp_inplace."""
    cdef Ctx *c = C(ctx, b"ggml_clamp")
    return P(clamp(c, T(a, b"a"), F(min, b"min"), F(max, b"max"), False))

def ggml_clamp_inplace(ctx, a, min, max):
    """ggml_clamp, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_clamp_inplace")
    return P(clamp(c, T(a, b"a"), F(min, b"min"), F(max, b"max"), True))

cdef Ten *clamp_back(Ctx *ctx, Ten *g, Ten *x, float low, float high) except NULL:
    cdef Ten d
    like(&d, CLAMP_BACK, g.type, g)
    gg_set_param_f32(&d, 0, low)
    gg_set_param_f32(&d, 1, high)
    d.src[0], d.src[1] = g, x
    return put(ctx, &d)

def ggml_clamp_back(ctx, a, b, min, max):
    """Gradient of ggml_clamp: a (the gradient of its result) where b (its argument) lies in [min, max], else 0."""
    cdef Ctx *c = C(ctx, b"ggml_clamp_back")
    return P(clamp_back(c, T(a, b"a"), T(b, b"b"), F(min, b"min"), F(max, b"max")))

cdef int grad_clamp(Backward b, Ten *t, Ten *g) except -1:
    b.overwritten(t, t.src[0])
    return b.add(t.src[0], clamp_back(b.ctx, g, t.src[0], gg_param_f32(t, 0), gg_param_f32(t, 1)))

def ggml_leaky_relu(ctx, a, negative_slope, inplace):
    """a where it is positive, else negative_slope * a."""
    cdef Ctx *c = C(ctx, b"ggml_leaky_relu")
    return P(floats(c, LEAKY_RELU, T(a, b"a"), 0, F(negative_slope, b"negative_slope"), 1, 0, BOOL(inplace, b"inplace")))

cdef int grad_leaky_relu(Backward b, Ten *t, Ten *g) except -1:
    """slope + (1 - slope) step(x)"""
    cdef float slope = gg_param_f32(t, 0)
    b.overwritten(t, t.src[0])
    return b.add(t.src[0], mul(b.ctx, g, scale(b.ctx, step_of(b.ctx, t.src[0]), 1 - slope, slope, False)))

# ---- one operand: the functions of UNARY -------------------------------------------------------------------------------
def ggml_unary(ctx, a, op):
    """The element-wise function `op` (GGML_UNARY_OP_*) of a."""
    cdef Ctx *c = C(ctx, b"ggml_unary")
    return P(unary(c, plain_unary(op), T(a, b"a"), False))

def ggml_unary_inplace(ctx, a, op):
    """ggml_unary, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_unary_inplace")
    return P(unary(c, plain_unary(op), T(a, b"a"), True))

cdef int plain_unary(object op) except? -1:
    cdef int fn = I32(op, b"op")
    if fn == XIELU:
        fail(ValueError, "op is XIELU, which takes parameters: use ggml_xielu")
    return fn

def ggml_abs(ctx, a):
    """Absolute value of each element."""
    cdef Ctx *c = C(ctx, b"ggml_abs")
    return P(unary(c, ABS, T(a, b"a"), False))

def ggml_abs_inplace(ctx, a):
    """ggml_abs, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_abs_inplace")
    return P(unary(c, ABS, T(a, b"a"), True))

def ggml_sgn(ctx, a):
    """-1, 0 or 1: the sign of each element."""
    cdef Ctx *c = C(ctx, b"ggml_sgn")
    return P(unary(c, SGN, T(a, b"a"), False))

def ggml_sgn_inplace(ctx, a):
    """ggml_sgn, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_sgn_inplace")
    return P(unary(c, SGN, T(a, b"a"), True))

def ggml_neg(ctx, a):
    """The negative of each element."""
    cdef Ctx *c = C(ctx, b"ggml_neg")
    return P(unary(c, NEG, T(a, b"a"), False))

def ggml_neg_inplace(ctx, a):
    """ggml_neg, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_neg_inplace")
    return P(unary(c, NEG, T(a, b"a"), True))

def ggml_step(ctx, a):
    """1 where a > 0, else 0."""
    cdef Ctx *c = C(ctx, b"ggml_step")
    return P(unary(c, STEP, T(a, b"a"), False))

def ggml_step_inplace(ctx, a):
    """ggml_step, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_step_inplace")
    return P(unary(c, STEP, T(a, b"a"), True))

def ggml_tanh(ctx, a):
    """Hyperbolic tangent of each element."""
    cdef Ctx *c = C(ctx, b"ggml_tanh")
    return P(unary(c, TANH, T(a, b"a"), False))

def ggml_tanh_inplace(ctx, a):
    """ggml_tanh, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_tanh_inplace")
    return P(unary(c, TANH, T(a, b"a"), True))

def ggml_elu(ctx, a):
    """a where it is positive, else exp(a) - 1."""
    cdef Ctx *c = C(ctx, b"ggml_elu")
    return P(unary(c, ELU, T(a, b"a"), False))

def ggml_elu_inplace(ctx, a):
    """ggml_elu, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_elu_inplace")
    return P(unary(c, ELU, T(a, b"a"), True))

def ggml_relu(ctx, a):
    """max(a, 0)."""
    cdef Ctx *c = C(ctx, b"ggml_relu")
    return P(unary(c, RELU, T(a, b"a"), False))

def ggml_relu_inplace(ctx, a):
    """ggml_relu, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_relu_inplace")
    return P(unary(c, RELU, T(a, b"a"), True))

def ggml_sigmoid(ctx, a):
    """1 / (1 + exp(-a))."""
    cdef Ctx *c = C(ctx, b"ggml_sigmoid")
    return P(unary(c, SIGMOID, T(a, b"a"), False))

def ggml_sigmoid_inplace(ctx, a):
    """ggml_sigmoid, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_sigmoid_inplace")
    return P(unary(c, SIGMOID, T(a, b"a"), True))

def ggml_gelu(ctx, a):
    """GELU by its tanh form (arXiv:1606.08415): 0.5 a (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3)))."""
    cdef Ctx *c = C(ctx, b"ggml_gelu")
    return P(unary(c, GELU, T(a, b"a"), False))

def ggml_gelu_inplace(ctx, a):
    """ggml_gelu, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_gelu_inplace")
    return P(unary(c, GELU, T(a, b"a"), True))

def ggml_gelu_erf(ctx, a):
    """GELU, exactly: a Phi(a), Phi the normal distribution function."""
    cdef Ctx *c = C(ctx, b"ggml_gelu_erf")
    return P(unary(c, GELU_ERF, T(a, b"a"), False))

def ggml_gelu_erf_inplace(ctx, a):
    """ggml_gelu_erf, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_gelu_erf_inplace")
    return P(unary(c, GELU_ERF, T(a, b"a"), True))

def ggml_gelu_quick(ctx, a):
    """a sigmoid(1.702 a)."""
    cdef Ctx *c = C(ctx, b"ggml_gelu_quick")
    return P(unary(c, GELU_QUICK, T(a, b"a"), False))

def ggml_gelu_quick_inplace(ctx, a):
    """ggml_gelu_quick, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_gelu_quick_inplace")
    return P(unary(c, GELU_QUICK, T(a, b"a"), True))

def ggml_silu(ctx, a):
    """a sigmoid(a)."""
    cdef Ctx *c = C(ctx, b"ggml_silu")
    return P(unary(c, SILU, T(a, b"a"), False))

def ggml_silu_inplace(ctx, a):
    """ggml_silu, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_silu_inplace")
    return P(unary(c, SILU, T(a, b"a"), True))

def ggml_hardswish(ctx, a):
    """a min(1, max(0, (a + 3) / 6))."""
    cdef Ctx *c = C(ctx, b"ggml_hardswish")
    return P(unary(c, HARDSWISH, T(a, b"a"), False))

def ggml_hardsigmoid(ctx, a):
    """min(1, max(0, (a + 3) / 6))."""
    cdef Ctx *c = C(ctx, b"ggml_hardsigmoid")
    return P(unary(c, HARDSIGMOID, T(a, b"a"), False))

def ggml_exp(ctx, a):
    """e to the power of each element."""
    cdef Ctx *c = C(ctx, b"ggml_exp")
    return P(unary(c, EXP, T(a, b"a"), False))

def ggml_exp_inplace(ctx, a):
    """ggml_exp, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_exp_inplace")
    return P(unary(c, EXP, T(a, b"a"), True))

def ggml_expm1(ctx, a):
    """exp(a) - 1, exact near 0."""
    cdef Ctx *c = C(ctx, b"ggml_expm1")
    return P(unary(c, EXPM1, T(a, b"a"), False))

def ggml_expm1_inplace(ctx, a):
    """ggml_expm1, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_expm1_inplace")
    return P(unary(c, EXPM1, T(a, b"a"), True))

def ggml_softplus(ctx, a):
    """log(1 + exp(a)), exact in both tails."""
    cdef Ctx *c = C(ctx, b"ggml_softplus")
    return P(unary(c, SOFTPLUS, T(a, b"a"), False))

def ggml_softplus_inplace(ctx, a):
    """ggml_softplus, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_softplus_inplace")
    return P(unary(c, SOFTPLUS, T(a, b"a"), True))

def ggml_floor(ctx, a):
    """The largest integer not above each element."""
    cdef Ctx *c = C(ctx, b"ggml_floor")
    return P(unary(c, FLOOR, T(a, b"a"), False))

def ggml_floor_inplace(ctx, a):
    """ggml_floor, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_floor_inplace")
    return P(unary(c, FLOOR, T(a, b"a"), True))

def ggml_ceil(ctx, a):
    """The smallest integer not below each element."""
    cdef Ctx *c = C(ctx, b"ggml_ceil")
    return P(unary(c, CEIL, T(a, b"a"), False))

def ggml_ceil_inplace(ctx, a):
    """ggml_ceil, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_ceil_inplace")
    return P(unary(c, CEIL, T(a, b"a"), True))

def ggml_round(ctx, a):
    """The nearest integer, halves away from 0."""
    cdef Ctx *c = C(ctx, b"ggml_round")
    return P(unary(c, ROUND, T(a, b"a"), False))

def ggml_round_inplace(ctx, a):
    """ggml_round, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_round_inplace")
    return P(unary(c, ROUND, T(a, b"a"), True))

def ggml_trunc(ctx, a):
    """Each element without its fraction."""
    cdef Ctx *c = C(ctx, b"ggml_trunc")
    return P(unary(c, TRUNC, T(a, b"a"), False))

def ggml_trunc_inplace(ctx, a):
    """ggml_trunc, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_trunc_inplace")
    return P(unary(c, TRUNC, T(a, b"a"), True))

def ggml_xielu(ctx, a, alpha_n, alpha_p, beta, eps):
    """xIELU (arXiv:2411.13010): alpha_p' x^2 + beta x for x > 0, else alpha_n' (expm1(min(x, eps)) - x) + beta x.

    alpha_p' = softplus(alpha_p), alpha_n' = beta + softplus(alpha_n)."""
    cdef Ctx *c = C(ctx, b"ggml_xielu")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    cdef float b = F(beta, b"beta")
    like(&d, UNARY, x.type, x)
    d.op_params[0] = XIELU
    gg_set_param_f32(&d, 1, b + softplus(F(alpha_n, b"alpha_n")))
    gg_set_param_f32(&d, 2, softplus(F(alpha_p, b"alpha_p")))
    gg_set_param_f32(&d, 3, b)
    gg_set_param_f32(&d, 4, F(eps, b"eps"))
    d.src[0] = x
    return P(put(c, &d))

cdef float softplus(float x) noexcept:
    return <float>(x if x > 20 else log1p(exp(x)))

cdef int grad_xielu(Backward b, Ten *t, Ten *g) except -1:
    """beta + 2 alpha_p x for x > 0, else beta + alpha_n (exp(x) [x <= eps] - 1)"""
    cdef Ctx *c = b.ctx
    cdef Ten *x = t.src[0]
    cdef float an = gg_param_f32(t, 1), ap = gg_param_f32(t, 2), beta = gg_param_f32(t, 3), eps = gg_param_f32(t, 4)
    cdef Ten *positive = step_of(c, x)
    cdef Ten *above = mul(c, positive, scale(c, x, 2 * ap, 0, False))
    cdef Ten *low = clamp(c, x, -INFINITY, 0, False)
    cdef Ten *slope = clamp_back(c, unary(c, EXP, low, False), low, -INFINITY, eps)
    cdef Ten *below = mul(c, scale(c, positive, -1, 1, False), scale(c, slope, an, -an, False))
    return b.add(x, mul(c, g, scale(c, add(c, above, below), 1, beta, False)))

def ggml_silu_back(ctx, a, b):
    """Gradient of ggml_silu: a (the gradient of its result) times silu'(b)."""
    cdef Ctx *c = C(ctx, b"ggml_silu_back")
    return P(node2(c, SILU_BACK, T(a, b"a"), T(b, b"b")))

def ggml_gelu_back(ctx, a, b):
    """Gradient of ggml_gelu: a (the gradient of its result) times gelu'(b)."""
    cdef Ctx *c = C(ctx, b"ggml_gelu_back")
    return P(node2(c, GELU_BACK, T(a, b"a"), T(b, b"b")))

def ggml_gelu_quick_back(ctx, a, b):
    """Gradient of ggml_gelu_quick: a (the gradient of its result) times its derivative at b."""
    cdef Ctx *c = C(ctx, b"ggml_gelu_quick_back")
    return P(node2(c, GELU_QUICK_BACK, T(a, b"a"), T(b, b"b")))

def ggml_gelu_erf_back(ctx, a, b):
    """Gradient of ggml_gelu_erf: a (the gradient of its result) times its derivative at b."""
    cdef Ctx *c = C(ctx, b"ggml_gelu_erf_back")
    return P(node2(c, GELU_ERF_BACK, T(a, b"a"), T(b, b"b")))

def ggml_elu_back(ctx, a, b):
    """Gradient of ggml_elu: a (the gradient of its result) times elu'(b): 1 for b >= 0, else exp(b)."""
    cdef Ctx *c = C(ctx, b"ggml_elu_back")
    return P(node2(c, ELU_BACK, T(a, b"a"), T(b, b"b")))

# ---- gradients of gradients: a *_BACK node is dy f'(x), linear in dy ----------------------------------------------------
cdef int grad_back(Backward b, Ten *t, Ten *g) except -1:
    cdef Ten *dy = t.src[0]
    cdef Ten *x = t.src[1]
    b.overwritten(t, x)
    if b.needs(dy):
        b.add(dy, node2(b.ctx, t.op, g, x))
    if b.needs(x):
        b.overwritten(t, dy)
        b.add(x, mul(b.ctx, mul(b.ctx, g, dy), second(b.ctx, t.op, x)))
    return 0

cdef Ten *second(Ctx *c, int op, Ten *x) except NULL:
    """f'' of the function whose gradient `op` is. Beyond the bounds it is 0 in f32, and powers of x would overflow."""
    cdef Ten *s
    cdef Ten *v
    cdef Ten *dv
    if op == ELU_BACK:                  # exp(x) below 0
        return mul(c, unary(c, EXP, clamp(c, x, -INFINITY, 0, False), False), step_of(c, neg(c, x)))
    if op == GELU_ERF_BACK:             # (2 - x^2) exp(-x^2 / 2) / sqrt(2 pi)
        x = sqr(c, clamp(c, x, -20, 20, False))
        return mul(c, scale(c, x, -INV_SQRT_2PI, 2 * INV_SQRT_2PI, False), unary(c, EXP, scale(c, x, -0.5, 0, False), False))
    # f is x s(v(x)) with the logistic s: f'' = s' (2 v' + x v'' + x v'^2 (1 - 2 s)), s' = s - s^2
    x = clamp(c, x, -100, 100, False) if op != GELU_BACK else clamp(c, x, -20, 20, False)
    cdef float k = 1 if op == SILU_BACK else <float>1.702 if op == GELU_QUICK_BACK else GELU_K
    cdef Ten *bend
    if op != GELU_BACK:                 # v = k x
        s = unary(c, SIGMOID, scale(c, x, k, 0, False), False)
        bend = scale(c, mul(c, x, scale(c, s, -2, 1, False)), k * k, 2 * k, False)
    else:                               # v = k (x + a x^3), v' = k + 3 k a x^2, x v'' = 6 k a x^2
        v = sqr(c, x)
        dv = scale(c, v, 3 * k * GELU_A, k, False)
        s = unary(c, SIGMOID, mul(c, x, scale(c, v, k * GELU_A, k, False)), False)
        bend = add(c, scale(c, v, 12 * k * GELU_A, 2 * k, False), mul(c, mul(c, x, sqr(c, dv)), scale(c, s, -2, 1, False)))
    return mul(c, bend, sub(c, s, sqr(c, s)))

cdef int grad_clamp_back(Backward b, Ten *t, Ten *g) except -1:
    """Passes what the clamp passes; by the clamped argument it is 0 wherever there is a derivative."""
    b.overwritten(t, t.src[1])
    if not b.needs(t.src[0]):
        return 0
    return b.add(t.src[0], clamp_back(b.ctx, g, t.src[1], gg_param_f32(t, 0), gg_param_f32(t, 1)))

cdef int grad_unary(Backward b, Ten *t, Ten *g) except -1:
    cdef Ctx *c = b.ctx
    cdef Ten *x = t.src[0]
    cdef int fn = t.op_params[0]
    if fn in (SGN, STEP, FLOOR, CEIL, ROUND, TRUNC):
        return 0                                       # 0 wherever there is a derivative
    if fn in (TANH, SIGMOID, EXP, EXPM1, RELU):        # by the result
        b.overwritten(t, t)
    elif fn != NEG:
        b.overwritten(t, x)
    if fn == NEG: return b.add(x, neg(c, g))
    if fn == ABS: return b.add(x, mul(c, g, unary(c, SGN, x, False)))
    if fn == RELU: return b.add(x, mul(c, g, step_of(c, t)))
    if fn == TANH: return b.add(x, sub(c, g, mul(c, g, sqr(c, t))))
    if fn == SIGMOID: return b.add(x, mul(c, g, sub(c, t, sqr(c, t))))
    if fn == EXP: return b.add(x, mul(c, g, t))
    if fn == EXPM1: return b.add(x, add(c, g, mul(c, g, t)))
    if fn == SOFTPLUS: return b.add(x, mul(c, g, unary(c, SIGMOID, x, False)))
    if fn == SILU: return b.add(x, node2(c, SILU_BACK, g, x))
    if fn == GELU: return b.add(x, node2(c, GELU_BACK, g, x))
    if fn == GELU_QUICK: return b.add(x, node2(c, GELU_QUICK_BACK, g, x))
    if fn == GELU_ERF: return b.add(x, node2(c, GELU_ERF_BACK, g, x))
    if fn == ELU: return b.add(x, node2(c, ELU_BACK, g, x))
    if fn == XIELU: return grad_xielu(b, t, g)
    cdef Ten *inside = scale(c, clamp_back(c, g, x, -3, 3), 1.0 / 6, 0, False)
    if fn == HARDSIGMOID: return b.add(x, inside)
    return b.add(x, add(c, mul(c, g, unary(c, HARDSIGMOID, x, False)), mul(c, inside, x)))     # HARDSWISH: x hardsigmoid(x)

# ---- optimiser steps ---------------------------------------------------------------------------------------------------
def ggml_opt_step_adamw(ctx, a, grad, m, v, adamw_params):
    """One AdamW step (arXiv:1711.05101) on parameter a, written over a and the moments m and v.

    adamw_params: f32 [7]: alpha, beta1, beta2, eps, weight decay, 1/(1-beta1^t), 1/(1-beta2^t)."""
    cdef Ctx *c = C(ctx, b"ggml_opt_step_adamw")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    like(&d, ADAMW, x.type, x)
    d.src[0], d.src[1], d.src[2], d.src[3], d.src[4] = x, T(grad, b"grad"), T(m, b"m"), T(v, b"v"), T(adamw_params, b"adamw_params")
    over(&d, x)
    return P(put(c, &d))

def ggml_opt_step_sgd(ctx, a, grad, sgd_params):
    """One step of gradient descent on parameter a, written over a. sgd_params: f32 [2]: alpha, weight decay."""
    cdef Ctx *c = C(ctx, b"ggml_opt_step_sgd")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    like(&d, SGD, x.type, x)
    d.src[0], d.src[1], d.src[2] = x, T(grad, b"grad"), T(sgd_params, b"sgd_params")
    over(&d, x)
    return P(put(c, &d))

gradients[ADD] = gradients[ADD1] = grad_add
gradients[SUB] = grad_sub
gradients[MUL] = grad_mul
gradients[DIV] = grad_div
gradients[SQR] = grad_sqr
gradients[SQRT] = grad_sqrt
gradients[LOG] = grad_log
gradients[SIN] = grad_sin
gradients[COS] = grad_cos
gradients[SCALE] = grad_scale
gradients[CLAMP] = grad_clamp
gradients[LEAKY_RELU] = grad_leaky_relu
gradients[UNARY] = grad_unary
gradients[SILU_BACK] = gradients[GELU_BACK] = gradients[GELU_QUICK_BACK] = gradients[GELU_ERF_BACK] = gradients[ELU_BACK] = grad_back
gradients[CLAMP_BACK] = grad_clamp_back
