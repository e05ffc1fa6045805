"""Element-wise operations, each with its gradient."""
from libc.math cimport INFINITY, exp, log1p

from .._core cimport (
    arg_bool, arg_context, arg_float, arg_int32, arg_tensor, arg_type, fail, gg_param_f32, gg_set_param_f32,
    ggml_context, ggml_tensor, node1, node1_in_place, node2, node2_in_place, node_append, node_in_place, node_like,
    wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ADD, GGML_OP_ADD1, GGML_OP_CLAMP, GGML_OP_CLAMP_BACK, GGML_OP_COS, GGML_OP_DIV, GGML_OP_ELU_BACK,
    GGML_OP_GELU_BACK, GGML_OP_GELU_ERF_BACK, GGML_OP_GELU_QUICK_BACK, GGML_OP_LEAKY_RELU, GGML_OP_LOG, GGML_OP_MUL,
    GGML_OP_SCALE, GGML_OP_SILU_BACK, GGML_OP_SIN, GGML_OP_SQR, GGML_OP_SQRT, GGML_OP_SUB, GGML_OP_UNARY,
    GGML_UNARY_OP_ABS, GGML_UNARY_OP_CEIL, GGML_UNARY_OP_ELU, GGML_UNARY_OP_EXP, GGML_UNARY_OP_EXPM1,
    GGML_UNARY_OP_FLOOR, GGML_UNARY_OP_GELU, GGML_UNARY_OP_GELU_ERF, GGML_UNARY_OP_GELU_QUICK,
    GGML_UNARY_OP_HARDSIGMOID, GGML_UNARY_OP_HARDSWISH, GGML_UNARY_OP_NEG, GGML_UNARY_OP_RELU, GGML_UNARY_OP_ROUND,
    GGML_UNARY_OP_SGN, GGML_UNARY_OP_SIGMOID, GGML_UNARY_OP_SILU, GGML_UNARY_OP_SOFTPLUS, GGML_UNARY_OP_STEP,
    GGML_UNARY_OP_TANH, GGML_UNARY_OP_TRUNC,
)
from .._graph.grad cimport Backward, gradients
from .reduce cimport sum_to_shape

cdef extern from "runtime/engine.h" nogil:
    enum: GGML_UNARY_OP_XIELU

cdef float GELU_K = 1.5957691216057308, GELU_A = 0.044715, INV_SQRT_2PI = 0.3989422804014327     # GELU_K: 2 sqrt(2 / pi)
# ---- builders --------------------------------------------------------------------------------------------------------
cdef ggml_tensor *add(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL: return node2(ctx, GGML_OP_ADD, a, b)
cdef ggml_tensor *sub(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL: return node2(ctx, GGML_OP_SUB, a, b)
cdef ggml_tensor *mul(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL: return node2(ctx, GGML_OP_MUL, a, b)
cdef ggml_tensor *div(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL: return node2(ctx, GGML_OP_DIV, a, b)
cdef ggml_tensor *sqr(ggml_context *ctx, ggml_tensor *a) except NULL: return node1(ctx, GGML_OP_SQR, a)
cdef ggml_tensor *neg(ggml_context *ctx, ggml_tensor *a) except NULL: return unary(ctx, GGML_UNARY_OP_NEG, a, False)

cdef ggml_tensor *node_with_floats(ggml_context *ctx, int op, ggml_tensor *a, int i0, float f0, int i1, float f1, bint inplace) except NULL:
    """A node of one source with two float parameters, at indices i0 and i1 of op_params."""
    cdef ggml_tensor d
    node_like(&d, op, a.type, a)
    gg_set_param_f32(&d, i0, f0)
    gg_set_param_f32(&d, i1, f1)
    d.src[0] = a
    if inplace:
        node_in_place(&d, a)
    return node_append(ctx, &d)

cdef ggml_tensor *scale(ggml_context *ctx, ggml_tensor *a, float s, float bias, bint inplace) except NULL:
    return node_with_floats(ctx, GGML_OP_SCALE, a, 0, s, 1, bias, inplace)

cdef ggml_tensor *unary(ggml_context *ctx, int fn, ggml_tensor *a, bint inplace) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_UNARY, a.type, a)
    d.op_params[0] = fn
    d.src[0] = a
    if inplace:
        node_in_place(&d, a)
    return node_append(ctx, &d)

cdef ggml_tensor *step_of(ggml_context *ctx, ggml_tensor *a) except NULL: return unary(ctx, GGML_UNARY_OP_STEP, a, False)
# ---- two operands ----------------------------------------------------------------------------------------------------
def ggml_add(ctx, a, b):
    """a + b; b is tiled to the shape of a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_add")
    return wrap_tensor(node2(c, GGML_OP_ADD, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_add_inplace(ctx, a, b):
    """ggml_add, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_add_inplace")
    return wrap_tensor(node2_in_place(c, GGML_OP_ADD, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_add_cast(ctx, a, b, type):
    """a + b as a tensor of another type (quantised, f16 or bf16 a)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_add_cast")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&d, GGML_OP_ADD, arg_type(type, b"type"), x)
    d.src[0], d.src[1] = x, arg_tensor(b, b"b")
    return wrap_tensor(node_append(c, &d))

cdef int grad_add(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.add(t.src[0], g)
    if b.needs(t.src[1]):
        b.add(t.src[1], sum_to_shape(b.ctx, g, t.src[1]))
    return 0

def ggml_add1(ctx, a, b):
    """a + b, where b has one element."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_add1")
    return wrap_tensor(node2(c, GGML_OP_ADD1, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_add1_inplace(ctx, a, b):
    """ggml_add1, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_add1_inplace")
    return wrap_tensor(node2_in_place(c, GGML_OP_ADD1, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_sub(ctx, a, b):
    """a - b; b is tiled to the shape of a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sub")
    return wrap_tensor(node2(c, GGML_OP_SUB, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_sub_inplace(ctx, a, b):
    """ggml_sub, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sub_inplace")
    return wrap_tensor(node2_in_place(c, GGML_OP_SUB, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

cdef int grad_sub(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.add(t.src[0], g)
    if b.needs(t.src[1]):
        b.add(t.src[1], neg(b.ctx, sum_to_shape(b.ctx, g, t.src[1])))
    return 0

def ggml_mul(ctx, a, b):
    """a * b element by element; b is tiled to the shape of a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_mul")
    return wrap_tensor(node2(c, GGML_OP_MUL, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_mul_inplace(ctx, a, b):
    """ggml_mul, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_mul_inplace")
    return wrap_tensor(node2_in_place(c, GGML_OP_MUL, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

cdef int grad_mul(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    if b.needs(t.src[0]):
        b.require_not_overwritten(t, t.src[1])
        b.add(t.src[0], mul(b.ctx, g, t.src[1]))
    if b.needs(t.src[1]):
        b.require_not_overwritten(t, t.src[0])
        b.add(t.src[1], sum_to_shape(b.ctx, mul(b.ctx, g, t.src[0]), t.src[1]))
    return 0

def ggml_div(ctx, a, b):
    """a / b element by element; b is tiled to the shape of a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_div")
    return wrap_tensor(node2(c, GGML_OP_DIV, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_div_inplace(ctx, a, b):
    """ggml_div, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_div_inplace")
    return wrap_tensor(node2_in_place(c, GGML_OP_DIV, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

cdef int grad_div(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """d(a/b) = da/b - (a/b) db/b"""
    b.require_not_overwritten(t, t.src[1])
    cdef ggml_tensor *over_b = div(b.ctx, g, t.src[1])
    b.add(t.src[0], over_b)
    if b.needs(t.src[1]):
        b.require_not_overwritten(t, t)
        b.add(t.src[1], neg(b.ctx, sum_to_shape(b.ctx, mul(b.ctx, over_b, t), t.src[1])))
    return 0

# ---- one operand: operations of their own -----------------------------------------------------------------------------
def ggml_sqr(ctx, a):
    """a squared, element by element."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sqr")
    return wrap_tensor(node1(c, GGML_OP_SQR, arg_tensor(a, b"a")))

def ggml_sqr_inplace(ctx, a):
    """ggml_sqr, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sqr_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_SQR, arg_tensor(a, b"a")))

cdef int grad_sqr(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], scale(b.ctx, mul(b.ctx, g, t.src[0]), 2, 0, False))

def ggml_sqrt(ctx, a):
    """Square root of each element; NaN below 0."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sqrt")
    return wrap_tensor(node1(c, GGML_OP_SQRT, arg_tensor(a, b"a")))

def ggml_sqrt_inplace(ctx, a):
    """ggml_sqrt, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sqrt_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_SQRT, arg_tensor(a, b"a")))

cdef int grad_sqrt(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t)
    return b.add(t.src[0], scale(b.ctx, div(b.ctx, g, t), 0.5, 0, False))

def ggml_log(ctx, a):
    """Natural logarithm of each element."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_log")
    return wrap_tensor(node1(c, GGML_OP_LOG, arg_tensor(a, b"a")))

def ggml_log_inplace(ctx, a):
    """ggml_log, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_log_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_LOG, arg_tensor(a, b"a")))

cdef int grad_log(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], div(b.ctx, g, t.src[0]))

def ggml_sin(ctx, a):
    """Sine of each element (radians)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sin")
    return wrap_tensor(node1(c, GGML_OP_SIN, arg_tensor(a, b"a")))

def ggml_sin_inplace(ctx, a):
    """ggml_sin, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sin_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_SIN, arg_tensor(a, b"a")))

cdef int grad_sin(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], mul(b.ctx, g, node1(b.ctx, GGML_OP_COS, t.src[0])))

def ggml_cos(ctx, a):
    """Cosine of each element (radians)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_cos")
    return wrap_tensor(node1(c, GGML_OP_COS, arg_tensor(a, b"a")))

def ggml_cos_inplace(ctx, a):
    """ggml_cos, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_cos_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_COS, arg_tensor(a, b"a")))

cdef int grad_cos(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], neg(b.ctx, mul(b.ctx, g, node1(b.ctx, GGML_OP_SIN, t.src[0]))))

def ggml_scale(ctx, a, s):
    """a * s, s a number."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_scale")
    return wrap_tensor(scale(c, arg_tensor(a, b"a"), arg_float(s, b"s"), 0, False))

def ggml_scale_inplace(ctx, a, s):
    """ggml_scale, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_scale_inplace")
    return wrap_tensor(scale(c, arg_tensor(a, b"a"), arg_float(s, b"s"), 0, True))

def ggml_scale_bias(ctx, a, s, b):
    """a * s + b, s and b numbers."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_scale_bias")
    return wrap_tensor(scale(c, arg_tensor(a, b"a"), arg_float(s, b"s"), arg_float(b, b"b"), False))

def ggml_scale_bias_inplace(ctx, a, s, b):
    """ggml_scale_bias, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_scale_bias_inplace")
    return wrap_tensor(scale(c, arg_tensor(a, b"a"), arg_float(s, b"s"), arg_float(b, b"b"), True))

cdef int grad_scale(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    return b.add(t.src[0], scale(b.ctx, g, gg_param_f32(t, 0), 0, False))

cdef ggml_tensor *clamp(ggml_context *ctx, ggml_tensor *a, float low, float high, bint inplace) except NULL:
    if not low <= high:
        fail(ValueError, f"min is {low}, max is {high}: min must not be above max")
    return node_with_floats(ctx, GGML_OP_CLAMP, a, 0, low, 1, high, inplace)

def ggml_clamp(ctx, a, min, max):
    """a limited to [min, max]. A new tensor, other than in the C library: see ggml_clamp_inplace."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_clamp")
    return wrap_tensor(clamp(c, arg_tensor(a, b"a"), arg_float(min, b"min"), arg_float(max, b"max"), False))

def ggml_clamp_inplace(ctx, a, min, max):
    """ggml_clamp, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_clamp_inplace")
    return wrap_tensor(clamp(c, arg_tensor(a, b"a"), arg_float(min, b"min"), arg_float(max, b"max"), True))

cdef ggml_tensor *clamp_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *x, float low, float high) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_CLAMP_BACK, g.type, g)
    gg_set_param_f32(&d, 0, low)
    gg_set_param_f32(&d, 1, high)
    d.src[0], d.src[1] = g, x
    return node_append(ctx, &d)

def ggml_clamp_back(ctx, a, b, min, max):
    """Gradient of ggml_clamp: a (the gradient of its result) where b (its argument) lies in [min, max], else 0."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_clamp_back")
    return wrap_tensor(clamp_back(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_float(min, b"min"), arg_float(max, b"max")))

cdef int grad_clamp(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], clamp_back(b.ctx, g, t.src[0], gg_param_f32(t, 0), gg_param_f32(t, 1)))

def ggml_leaky_relu(ctx, a, negative_slope, inplace):
    """a where it is positive, else negative_slope * a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_leaky_relu")
    return wrap_tensor(node_with_floats(c, GGML_OP_LEAKY_RELU, arg_tensor(a, b"a"), 0, arg_float(negative_slope, b"negative_slope"), 1, 0, arg_bool(inplace, b"inplace")))

cdef int grad_leaky_relu(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """slope + (1 - slope) step(x)"""
    cdef float slope = gg_param_f32(t, 0)
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], mul(b.ctx, g, scale(b.ctx, step_of(b.ctx, t.src[0]), 1 - slope, slope, False)))

# ---- one operand: the functions of UNARY -------------------------------------------------------------------------------
def ggml_unary(ctx, a, op):
    """The element-wise function `op` (GGML_UNARY_OP_*) of a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_unary")
    return wrap_tensor(unary(c, plain_unary(op), arg_tensor(a, b"a"), False))

def ggml_unary_inplace(ctx, a, op):
    """ggml_unary, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_unary_inplace")
    return wrap_tensor(unary(c, plain_unary(op), arg_tensor(a, b"a"), True))

cdef int plain_unary(object op) except? -1:
    cdef int fn = arg_int32(op, b"op")
    if fn == GGML_UNARY_OP_XIELU:
        fail(ValueError, "op is XIELU, which takes parameters: use ggml_xielu")
    return fn

def ggml_abs(ctx, a):
    """Absolute value of each element."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_abs")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ABS, arg_tensor(a, b"a"), False))

def ggml_abs_inplace(ctx, a):
    """ggml_abs, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_abs_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ABS, arg_tensor(a, b"a"), True))

def ggml_sgn(ctx, a):
    """-1, 0 or 1: the sign of each element."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sgn")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SGN, arg_tensor(a, b"a"), False))

def ggml_sgn_inplace(ctx, a):
    """ggml_sgn, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sgn_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SGN, arg_tensor(a, b"a"), True))

def ggml_neg(ctx, a):
    """The negative of each element."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_neg")
    return wrap_tensor(unary(c, GGML_UNARY_OP_NEG, arg_tensor(a, b"a"), False))

def ggml_neg_inplace(ctx, a):
    """ggml_neg, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_neg_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_NEG, arg_tensor(a, b"a"), True))

def ggml_step(ctx, a):
    """1 where a > 0, else 0."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_step")
    return wrap_tensor(unary(c, GGML_UNARY_OP_STEP, arg_tensor(a, b"a"), False))

def ggml_step_inplace(ctx, a):
    """ggml_step, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_step_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_STEP, arg_tensor(a, b"a"), True))

def ggml_tanh(ctx, a):
    """Hyperbolic tangent of each element."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_tanh")
    return wrap_tensor(unary(c, GGML_UNARY_OP_TANH, arg_tensor(a, b"a"), False))

def ggml_tanh_inplace(ctx, a):
    """ggml_tanh, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_tanh_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_TANH, arg_tensor(a, b"a"), True))

def ggml_elu(ctx, a):
    """a where it is positive, else exp(a) - 1."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_elu")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ELU, arg_tensor(a, b"a"), False))

def ggml_elu_inplace(ctx, a):
    """ggml_elu, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_elu_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ELU, arg_tensor(a, b"a"), True))

def ggml_relu(ctx, a):
    """max(a, 0)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_relu")
    return wrap_tensor(unary(c, GGML_UNARY_OP_RELU, arg_tensor(a, b"a"), False))

def ggml_relu_inplace(ctx, a):
    """ggml_relu, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_relu_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_RELU, arg_tensor(a, b"a"), True))

def ggml_sigmoid(ctx, a):
    """1 / (1 + exp(-a))."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sigmoid")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SIGMOID, arg_tensor(a, b"a"), False))

def ggml_sigmoid_inplace(ctx, a):
    """ggml_sigmoid, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_sigmoid_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SIGMOID, arg_tensor(a, b"a"), True))

def ggml_gelu(ctx, a):
    """GELU by its tanh form (arXiv:1606.08415): 0.5 a (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3)))."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU, arg_tensor(a, b"a"), False))

def ggml_gelu_inplace(ctx, a):
    """ggml_gelu, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU, arg_tensor(a, b"a"), True))

def ggml_gelu_erf(ctx, a):
    """GELU, exactly: a Phi(a), Phi the normal distribution function."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_erf")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU_ERF, arg_tensor(a, b"a"), False))

def ggml_gelu_erf_inplace(ctx, a):
    """ggml_gelu_erf, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_erf_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU_ERF, arg_tensor(a, b"a"), True))

def ggml_gelu_quick(ctx, a):
    """a sigmoid(1.702 a)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_quick")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU_QUICK, arg_tensor(a, b"a"), False))

def ggml_gelu_quick_inplace(ctx, a):
    """ggml_gelu_quick, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_quick_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU_QUICK, arg_tensor(a, b"a"), True))

def ggml_silu(ctx, a):
    """a sigmoid(a)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_silu")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SILU, arg_tensor(a, b"a"), False))

def ggml_silu_inplace(ctx, a):
    """ggml_silu, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_silu_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SILU, arg_tensor(a, b"a"), True))

def ggml_hardswish(ctx, a):
    """a min(1, max(0, (a + 3) / 6))."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_hardswish")
    return wrap_tensor(unary(c, GGML_UNARY_OP_HARDSWISH, arg_tensor(a, b"a"), False))

def ggml_hardsigmoid(ctx, a):
    """min(1, max(0, (a + 3) / 6))."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_hardsigmoid")
    return wrap_tensor(unary(c, GGML_UNARY_OP_HARDSIGMOID, arg_tensor(a, b"a"), False))

def ggml_exp(ctx, a):
    """e to the power of each element."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_exp")
    return wrap_tensor(unary(c, GGML_UNARY_OP_EXP, arg_tensor(a, b"a"), False))

def ggml_exp_inplace(ctx, a):
    """ggml_exp, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_exp_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_EXP, arg_tensor(a, b"a"), True))

def ggml_expm1(ctx, a):
    """exp(a) - 1, exact near 0."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_expm1")
    return wrap_tensor(unary(c, GGML_UNARY_OP_EXPM1, arg_tensor(a, b"a"), False))

def ggml_expm1_inplace(ctx, a):
    """ggml_expm1, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_expm1_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_EXPM1, arg_tensor(a, b"a"), True))

def ggml_softplus(ctx, a):
    """log(1 + exp(a)), exact in both tails."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_softplus")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SOFTPLUS, arg_tensor(a, b"a"), False))

def ggml_softplus_inplace(ctx, a):
    """ggml_softplus, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_softplus_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SOFTPLUS, arg_tensor(a, b"a"), True))

def ggml_floor(ctx, a):
    """The largest integer not above each element."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_floor")
    return wrap_tensor(unary(c, GGML_UNARY_OP_FLOOR, arg_tensor(a, b"a"), False))

def ggml_floor_inplace(ctx, a):
    """ggml_floor, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_floor_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_FLOOR, arg_tensor(a, b"a"), True))

def ggml_ceil(ctx, a):
    """The smallest integer not below each element."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_ceil")
    return wrap_tensor(unary(c, GGML_UNARY_OP_CEIL, arg_tensor(a, b"a"), False))

def ggml_ceil_inplace(ctx, a):
    """ggml_ceil, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_ceil_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_CEIL, arg_tensor(a, b"a"), True))

def ggml_round(ctx, a):
    """The nearest integer, halves away from 0."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_round")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ROUND, arg_tensor(a, b"a"), False))

def ggml_round_inplace(ctx, a):
    """ggml_round, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_round_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ROUND, arg_tensor(a, b"a"), True))

def ggml_trunc(ctx, a):
    """Each element without its fraction."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_trunc")
    return wrap_tensor(unary(c, GGML_UNARY_OP_TRUNC, arg_tensor(a, b"a"), False))

def ggml_trunc_inplace(ctx, a):
    """ggml_trunc, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_trunc_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_TRUNC, arg_tensor(a, b"a"), True))

def ggml_xielu(ctx, a, alpha_n, alpha_p, beta, eps):
    """xIELU (arXiv:2411.13010): alpha_p' x^2 + beta x for x > 0, else alpha_n' (expm1(min(x, eps)) - x) + beta x.

    alpha_p' = softplus(alpha_p), alpha_n' = beta + softplus(alpha_n)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_xielu")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef float b = arg_float(beta, b"beta")
    node_like(&d, GGML_OP_UNARY, x.type, x)
    d.op_params[0] = GGML_UNARY_OP_XIELU
    gg_set_param_f32(&d, 1, b + softplus(arg_float(alpha_n, b"alpha_n")))
    gg_set_param_f32(&d, 2, softplus(arg_float(alpha_p, b"alpha_p")))
    gg_set_param_f32(&d, 3, b)
    gg_set_param_f32(&d, 4, arg_float(eps, b"eps"))
    d.src[0] = x
    return wrap_tensor(node_append(c, &d))

cdef float softplus(float x) noexcept:
    return <float>(x if x > 20 else log1p(exp(x)))

cdef int grad_xielu(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """beta + 2 alpha_p x for x > 0, else beta + alpha_n (exp(x) [x <= eps] - 1)"""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *x = t.src[0]
    cdef float an = gg_param_f32(t, 1), ap = gg_param_f32(t, 2), beta = gg_param_f32(t, 3), eps = gg_param_f32(t, 4)
    cdef ggml_tensor *positive = step_of(c, x)
    cdef ggml_tensor *above = mul(c, positive, scale(c, x, 2 * ap, 0, False))
    cdef ggml_tensor *low = clamp(c, x, -INFINITY, 0, False)
    cdef ggml_tensor *slope = clamp_back(c, unary(c, GGML_UNARY_OP_EXP, low, False), low, -INFINITY, eps)
    cdef ggml_tensor *below = mul(c, scale(c, positive, -1, 1, False), scale(c, slope, an, -an, False))
    return b.add(x, mul(c, g, scale(c, add(c, above, below), 1, beta, False)))

def ggml_silu_back(ctx, a, b):
    """Gradient of ggml_silu: a (the gradient of its result) times silu'(b)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_silu_back")
    return wrap_tensor(node2(c, GGML_OP_SILU_BACK, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_gelu_back(ctx, a, b):
    """Gradient of ggml_gelu: a (the gradient of its result) times gelu'(b)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_back")
    return wrap_tensor(node2(c, GGML_OP_GELU_BACK, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_gelu_quick_back(ctx, a, b):
    """Gradient of ggml_gelu_quick: a (the gradient of its result) times its derivative at b."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_quick_back")
    return wrap_tensor(node2(c, GGML_OP_GELU_QUICK_BACK, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_gelu_erf_back(ctx, a, b):
    """Gradient of ggml_gelu_erf: a (the gradient of its result) times its derivative at b."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_erf_back")
    return wrap_tensor(node2(c, GGML_OP_GELU_ERF_BACK, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_elu_back(ctx, a, b):
    """Gradient of ggml_elu: a (the gradient of its result) times elu'(b): 1 for b >= 0, else exp(b)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_elu_back")
    return wrap_tensor(node2(c, GGML_OP_ELU_BACK, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

# ---- gradients of gradients: a *_BACK node is dy f'(x), linear in dy ----------------------------------------------------
cdef int grad_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_tensor *dy = t.src[0]
    cdef ggml_tensor *x = t.src[1]
    b.require_not_overwritten(t, x)
    if b.needs(dy):
        b.add(dy, node2(b.ctx, t.op, g, x))
    if b.needs(x):
        b.require_not_overwritten(t, dy)
        b.add(x, mul(b.ctx, mul(b.ctx, g, dy), second(b.ctx, t.op, x)))
    return 0

cdef ggml_tensor *second(ggml_context *c, int op, ggml_tensor *x) except NULL:
    """f'' of the function whose gradient `op` is. Beyond the bounds it is 0 in f32, and powers of x would overflow."""
    cdef ggml_tensor *s
    cdef ggml_tensor *v
    cdef ggml_tensor *dv
    if op == GGML_OP_ELU_BACK:                  # exp(x) below 0
        return mul(c, unary(c, GGML_UNARY_OP_EXP, clamp(c, x, -INFINITY, 0, False), False), step_of(c, neg(c, x)))
    if op == GGML_OP_GELU_ERF_BACK:             # (2 - x^2) exp(-x^2 / 2) / sqrt(2 pi)
        x = sqr(c, clamp(c, x, -20, 20, False))
        return mul(c, scale(c, x, -INV_SQRT_2PI, 2 * INV_SQRT_2PI, False), unary(c, GGML_UNARY_OP_EXP, scale(c, x, -0.5, 0, False), False))
    # f is x s(v(x)) with the logistic s: f'' = s' (2 v' + x v'' + x v'^2 (1 - 2 s)), s' = s - s^2
    x = clamp(c, x, -100, 100, False) if op != GGML_OP_GELU_BACK else clamp(c, x, -20, 20, False)
    cdef float k = 1 if op == GGML_OP_SILU_BACK else <float>1.702 if op == GGML_OP_GELU_QUICK_BACK else GELU_K
    cdef ggml_tensor *bend
    if op != GGML_OP_GELU_BACK:                 # v = k x
        s = unary(c, GGML_UNARY_OP_SIGMOID, scale(c, x, k, 0, False), False)
        bend = scale(c, mul(c, x, scale(c, s, -2, 1, False)), k * k, 2 * k, False)
    else:                               # v = k (x + a x^3), v' = k + 3 k a x^2, x v'' = 6 k a x^2
        v = sqr(c, x)
        dv = scale(c, v, 3 * k * GELU_A, k, False)
        s = unary(c, GGML_UNARY_OP_SIGMOID, mul(c, x, scale(c, v, k * GELU_A, k, False)), False)
        bend = add(c, scale(c, v, 12 * k * GELU_A, 2 * k, False), mul(c, mul(c, x, sqr(c, dv)), scale(c, s, -2, 1, False)))
    return mul(c, bend, sub(c, s, sqr(c, s)))

cdef int grad_clamp_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """Passes what the clamp passes; by the clamped argument it is 0 wherever there is a derivative."""
    b.require_not_overwritten(t, t.src[1])
    if not b.needs(t.src[0]):
        return 0
    return b.add(t.src[0], clamp_back(b.ctx, g, t.src[1], gg_param_f32(t, 0), gg_param_f32(t, 1)))

cdef int grad_unary(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *x = t.src[0]
    cdef int fn = t.op_params[0]
    if fn in (GGML_UNARY_OP_SGN, GGML_UNARY_OP_STEP, GGML_UNARY_OP_FLOOR, GGML_UNARY_OP_CEIL, GGML_UNARY_OP_ROUND, GGML_UNARY_OP_TRUNC):
        return 0                                       # 0 wherever there is a derivative
    if fn in (GGML_UNARY_OP_TANH, GGML_UNARY_OP_SIGMOID, GGML_UNARY_OP_EXP, GGML_UNARY_OP_EXPM1, GGML_UNARY_OP_RELU):        # by the result
        b.require_not_overwritten(t, t)
    elif fn != GGML_UNARY_OP_NEG:
        b.require_not_overwritten(t, x)
    if fn == GGML_UNARY_OP_NEG: return b.add(x, neg(c, g))
    if fn == GGML_UNARY_OP_ABS: return b.add(x, mul(c, g, unary(c, GGML_UNARY_OP_SGN, x, False)))
    if fn == GGML_UNARY_OP_RELU: return b.add(x, mul(c, g, step_of(c, t)))
    if fn == GGML_UNARY_OP_TANH: return b.add(x, sub(c, g, mul(c, g, sqr(c, t))))
    if fn == GGML_UNARY_OP_SIGMOID: return b.add(x, mul(c, g, sub(c, t, sqr(c, t))))
    if fn == GGML_UNARY_OP_EXP: return b.add(x, mul(c, g, t))
    if fn == GGML_UNARY_OP_EXPM1: return b.add(x, add(c, g, mul(c, g, t)))
    if fn == GGML_UNARY_OP_SOFTPLUS: return b.add(x, mul(c, g, unary(c, GGML_UNARY_OP_SIGMOID, x, False)))
    if fn == GGML_UNARY_OP_SILU: return b.add(x, node2(c, GGML_OP_SILU_BACK, g, x))
    if fn == GGML_UNARY_OP_GELU: return b.add(x, node2(c, GGML_OP_GELU_BACK, g, x))
    if fn == GGML_UNARY_OP_GELU_QUICK: return b.add(x, node2(c, GGML_OP_GELU_QUICK_BACK, g, x))
    if fn == GGML_UNARY_OP_GELU_ERF: return b.add(x, node2(c, GGML_OP_GELU_ERF_BACK, g, x))
    if fn == GGML_UNARY_OP_ELU: return b.add(x, node2(c, GGML_OP_ELU_BACK, g, x))
    if fn == GGML_UNARY_OP_XIELU: return grad_xielu(b, t, g)
    cdef ggml_tensor *inside = scale(c, clamp_back(c, g, x, -3, 3), 1.0 / 6, 0, False)
    if fn == GGML_UNARY_OP_HARDSIGMOID: return b.add(x, inside)
    return b.add(x, add(c, mul(c, g, unary(c, GGML_UNARY_OP_HARDSIGMOID, x, False)), mul(c, inside, x)))     # HARDSWISH: x hardsigmoid(x)

gradients[GGML_OP_ADD] = gradients[GGML_OP_ADD1] = grad_add
gradients[GGML_OP_SUB] = grad_sub
gradients[GGML_OP_MUL] = grad_mul
gradients[GGML_OP_DIV] = grad_div
gradients[GGML_OP_SQR] = grad_sqr
gradients[GGML_OP_SQRT] = grad_sqrt
gradients[GGML_OP_LOG] = grad_log
gradients[GGML_OP_SIN] = grad_sin
gradients[GGML_OP_COS] = grad_cos
gradients[GGML_OP_SCALE] = grad_scale
gradients[GGML_OP_CLAMP] = grad_clamp
gradients[GGML_OP_LEAKY_RELU] = grad_leaky_relu
gradients[GGML_OP_UNARY] = grad_unary
gradients[GGML_OP_SILU_BACK] = gradients[GGML_OP_GELU_BACK] = gradients[GGML_OP_GELU_QUICK_BACK] = gradients[GGML_OP_GELU_ERF_BACK] = gradients[GGML_OP_ELU_BACK] = grad_back
gradients[GGML_OP_CLAMP_BACK] = grad_clamp_back
