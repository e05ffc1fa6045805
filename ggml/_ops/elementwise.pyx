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
    """Adds two tensors element by element: a + b, with b repeated to the shape of a.

    The sum is computed in f32 and rounded to the type of a. A quantised a is unpacked and quantised again.
    Gradient: flows to a and b; that of b is summed over its repeats. Quantised tensors pass no gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or quantised, any shape.
        b: f32, f16 or bf16 (f32 if a is quantised); each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes do not fit, a type is not supported, or the quantised type of a needs importance
            weights.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_add")
    return wrap_tensor(node2(c, GGML_OP_ADD, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_add_inplace(ctx, a, b):
    """Adds b to a and stores the sums in the memory of a.

    The memory is written when the graph is computed, so every computation of the graph adds b once more unless
    the graph also computes a. The gradient needs none of the overwritten values and flows to a and b.

    Args:
        ctx: context that receives the node; it needs no memory for data.
        a: f32, f16, bf16 or quantised, any shape; overwritten.
        b: f32, f16 or bf16 (f32 if a is quantised); each dimension of the shape of a is a multiple of b's.
    Returns:
        View of all of a, with a's type and strides.
    Raises:
        ValueError: b cannot be repeated to a's shape, a type is not supported, or no conversion to a's type
            exists.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_add_inplace")
    return wrap_tensor(node2_in_place(c, GGML_OP_ADD, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_add_cast(ctx, a, b, type):
    """Adds b to a and stores the sums as another type.

    A typical use is the f32 sum of quantised weights and an f32 update. Gradient: flows to a and b as for
    ggml_add; a quantised operand receives none, and a quantised result passes none on.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or quantised, any shape.
        b: f32, f16 or bf16 (f32 if a is quantised); each dimension of the shape of a is a multiple of b's.
        type: GGML_TYPE_* of the result: f32, f16, bf16, or the type of a.
    Returns:
        Tensor of a's shape and of the given type.
    Raises:
        ValueError: the shapes do not fit, an operand's type is not supported, or type is unknown or not one of
            those above.
        MemoryError: the context is full.
    """
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
    """Adds the single element of b to every element of a.

    Gradient: flows to a unchanged, and to b as the sum over all elements.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: scalar tensor, f32, f16 or bf16, [1].
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: b has more or less than one element, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_scale_bias, which adds a Python number.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_add1")
    return wrap_tensor(node2(c, GGML_OP_ADD1, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_add1_inplace(ctx, a, b):
    """Adds the single element of b to a, overwriting a.

    The gradient reads no overwritten value, so the node may be used in training.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; its memory holds the result.
        b: scalar tensor, f32, f16 or bf16, [1].
    Returns:
        View of all of a.
    Raises:
        ValueError: b does not have exactly one element, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_add1_inplace")
    return wrap_tensor(node2_in_place(c, GGML_OP_ADD1, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_sub(ctx, a, b):
    """Subtracts two tensors element by element: a - b, with b repeated to the shape of a.

    Gradient: flows to a unchanged, and to b negated and summed over its repeats.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sub")
    return wrap_tensor(node2(c, GGML_OP_SUB, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_sub_inplace(ctx, a, b):
    """Subtracts b from a and keeps the differences in a.

    The gradient needs neither operand, so it is available although a is overwritten.

    Args:
        ctx: context that receives the node.
        a: minuend, f32, f16 or bf16, any shape; holds the difference afterwards.
        b: subtrahend, f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        View of all of a.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sub_inplace")
    return wrap_tensor(node2_in_place(c, GGML_OP_SUB, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

cdef int grad_sub(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.add(t.src[0], g)
    if b.needs(t.src[1]):
        b.add(t.src[1], neg(b.ctx, sum_to_shape(b.ctx, g, t.src[1])))
    return 0

def ggml_mul(ctx, a, b):
    """Multiplies two tensors element by element: a * b, with b repeated to the shape of a.

    Gradient: flows to a, multiplied by b, and to b, multiplied by a and summed over the repeats of b.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_mul_mat for matrix products, ggml_scale for a Python number.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_mul")
    return wrap_tensor(node2(c, GGML_OP_MUL, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_mul_inplace(ctx, a, b):
    """Multiplies a by b element by element, replacing the factors in a by the products.

    The gradient of a is available. That of b needs the overwritten factors: ggml_build_backward_expand raises
    ValueError if b needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with a * b.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        View of all of a.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
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
    """Divides two tensors element by element: a / b, with b repeated to the shape of a.

    Division by zero gives infinities, or NaN for 0 / 0. Gradient: flows to a, divided by b, and to b, multiplied
    by -a / b^2 and summed over the repeats of b.

    Args:
        ctx: context that receives the result.
        a: dividend, f32, f16 or bf16, any shape.
        b: divisor, f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_div")
    return wrap_tensor(node2(c, GGML_OP_DIV, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_div_inplace(ctx, a, b):
    """Divides a by b element by element and leaves the quotients in a.

    The gradients of a and b are computed from the quotient and b, so both are available.

    Args:
        ctx: context that receives the node.
        a: dividend, f32, f16 or bf16, any shape; the quotient takes its memory.
        b: divisor, f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        View of all of a.
    Raises:
        ValueError: b cannot be repeated to a's shape, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
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
    """Squares each element: a^2.

    Gradient: flows to a, multiplied by 2 * a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sqr")
    return wrap_tensor(node1(c, GGML_OP_SQR, arg_tensor(a, b"a")))

def ggml_sqr_inplace(ctx, a):
    """Replaces each element of a by its square.

    The gradient would need the values before squaring: ggml_build_backward_expand raises ValueError if a needs
    one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; holds the squares afterwards.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sqr_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_SQR, arg_tensor(a, b"a")))

cdef int grad_sqr(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], scale(b.ctx, mul(b.ctx, g, t.src[0]), 2, 0, False))

def ggml_sqrt(ctx, a):
    """Takes the square root of each element.

    Negative elements give NaN. Gradient: flows to a, multiplied by 0.5 / sqrt(a), which is infinite at 0.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sqrt")
    return wrap_tensor(node1(c, GGML_OP_SQRT, arg_tensor(a, b"a")))

def ggml_sqrt_inplace(ctx, a):
    """Replaces each element of a by its square root, NaN where it is negative.

    The gradient is computed from the roots, so overwriting the radicands does not prevent it.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; holds the roots afterwards.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sqrt_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_SQRT, arg_tensor(a, b"a")))

cdef int grad_sqrt(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t)
    return b.add(t.src[0], scale(b.ctx, div(b.ctx, g, t), 0.5, 0, False))

def ggml_log(ctx, a):
    """Takes the natural logarithm of each element.

    The logarithm of 0 is -inf, that of a negative element NaN. Gradient: flows to a, multiplied by 1 / a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_log")
    return wrap_tensor(node1(c, GGML_OP_LOG, arg_tensor(a, b"a")))

def ggml_log_inplace(ctx, a):
    """Replaces each element of a by its natural logarithm.

    The gradient divides by the original element, which is lost: ggml_build_backward_expand raises ValueError if a
    needs a gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with log(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_log_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_LOG, arg_tensor(a, b"a")))

cdef int grad_log(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], div(b.ctx, g, t.src[0]))

def ggml_sin(ctx, a):
    """Computes the sine of each element, given in radians.

    Infinite elements give NaN; large finite ones are reduced accurately. Gradient: flows to a, multiplied by
    cos(a).

    Args:
        ctx: context that receives the result.
        a: angles in radians, f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from -1 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sin")
    return wrap_tensor(node1(c, GGML_OP_SIN, arg_tensor(a, b"a")))

def ggml_sin_inplace(ctx, a):
    """Overwrites the angles in a with their sines.

    The gradient needs the angles, so ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: angles in radians, f32, f16 or bf16, any shape; overwritten.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sin_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_SIN, arg_tensor(a, b"a")))

cdef int grad_sin(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], mul(b.ctx, g, node1(b.ctx, GGML_OP_COS, t.src[0])))

def ggml_cos(ctx, a):
    """Computes the cosine of each element, given in radians.

    Infinite elements give NaN. Gradient: flows to a, multiplied by -sin(a).

    Args:
        ctx: context that receives the result.
        a: angles in radians, f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from -1 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cos")
    return wrap_tensor(node1(c, GGML_OP_COS, arg_tensor(a, b"a")))

def ggml_cos_inplace(ctx, a):
    """Overwrites the angles in a with their cosines.

    Since the angles are lost, ggml_build_backward_expand raises ValueError if a needs a gradient.

    Args:
        ctx: context that receives the node.
        a: angles in radians, f32, f16 or bf16, any shape; its memory holds the cosines.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cos_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_COS, arg_tensor(a, b"a")))

cdef int grad_cos(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], neg(b.ctx, mul(b.ctx, g, node1(b.ctx, GGML_OP_SIN, t.src[0]))))

def ggml_scale(ctx, a, s):
    """Multiplies each element by a number: a * s.

    Gradient: flows to a, multiplied by s.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        s: factor, rounded to f32.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: s is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_scale")
    return wrap_tensor(scale(c, arg_tensor(a, b"a"), arg_float(s, b"s"), 0, False))

def ggml_scale_inplace(ctx, a, s):
    """Multiplies a by a number and stores the products in a.

    Unless the graph also computes a, each computation of the graph scales it once more. The gradient of a is that
    of the result times s; it needs no element of a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with a * s.
        s: factor, rounded to f32.
    Returns:
        View of all of a.
    Raises:
        TypeError: s is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_scale_inplace")
    return wrap_tensor(scale(c, arg_tensor(a, b"a"), arg_float(s, b"s"), 0, True))

def ggml_scale_bias(ctx, a, s, b):
    """Multiplies each element by one number and adds another: a * s + b.

    Gradient: flows to a, multiplied by s.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        s: factor, rounded to f32.
        b: summand, a number rounded to f32.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: s or b is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_scale_bias")
    return wrap_tensor(scale(c, arg_tensor(a, b"a"), arg_float(s, b"s"), arg_float(b, b"b"), False))

def ggml_scale_bias_inplace(ctx, a, s, b):
    """Applies x * s + b to each element x of a, where it is stored.

    The gradient does not depend on the elements and remains available.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten.
        s: factor, rounded to f32.
        b: summand, a number rounded to f32.
    Returns:
        View of all of a.
    Raises:
        TypeError: s or b is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_scale_bias_inplace")
    return wrap_tensor(scale(c, arg_tensor(a, b"a"), arg_float(s, b"s"), arg_float(b, b"b"), True))

cdef int grad_scale(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    return b.add(t.src[0], scale(b.ctx, g, gg_param_f32(t, 0), 0, False))

cdef ggml_tensor *clamp(ggml_context *ctx, ggml_tensor *a, float low, float high, bint inplace) except NULL:
    if not low <= high:
        fail(ValueError, f"min is {low}, max is {high}: min must not be above max")
    return node_with_floats(ctx, GGML_OP_CLAMP, a, 0, low, 1, high, inplace)

def ggml_clamp(ctx, a, min, max):
    """Limits each element to a range: min(max(a, min), max).

    NaN stays NaN. The result is a new tensor, whereas the function of this name in the C library overwrites a;
    see ggml_clamp_inplace. Gradient: flows to a where it lies in the range, bounds included.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        min: lower bound, a number; -inf for none.
        max: upper bound, a number not below min; inf for none.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: min or max is not a number.
        ValueError: min is above max, one of them is NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_clamp")
    return wrap_tensor(clamp(c, arg_tensor(a, b"a"), arg_float(min, b"min"), arg_float(max, b"max"), False))

def ggml_clamp_inplace(ctx, a, min, max):
    """Limits the elements of a to a range and stores them back to a, as the C library's ggml_clamp does.

    The gradient depends on which elements were in the range: ggml_build_backward_expand raises ValueError if a
    needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten.
        min: lower bound, a number; -inf for none.
        max: upper bound, a number not below min; inf for none.
    Returns:
        View of all of a.
    Raises:
        TypeError: min or max is not a number.
        ValueError: min is above max, one of them is NaN, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
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
    """Computes the gradient of ggml_clamp: a where min <= b <= max, else 0.

    The result is 0 as well where b is NaN. Gradient: flows to a where b lies in the range; b has none.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_clamp, f32, f16 or bf16, any shape.
        b: argument that was clamped, f32, f16 or bf16, of the shape of a.
        min: lower bound of the clamp, a number.
        max: upper bound of the clamp, a number.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: min or max is not a number.
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_clamp_back")
    return wrap_tensor(clamp_back(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_float(min, b"min"), arg_float(max, b"max")))

cdef int grad_clamp(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], clamp_back(b.ctx, g, t.src[0], gg_param_f32(t, 0), gg_param_f32(t, 1)))

def ggml_leaky_relu(ctx, a, negative_slope, inplace):
    """Computes the leaky rectifier: a where a > 0, else negative_slope * a.

    Gradient: flows to a, multiplied by 1 or negative_slope. It needs the original elements, so with inplace set
    ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        negative_slope: factor for elements that are not positive, a number, often 0.01.
        inplace: True to write the result over a.
    Returns:
        Tensor of a's shape and type, or a view of all of a with inplace set.
    Raises:
        TypeError: negative_slope is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_leaky_relu")
    return wrap_tensor(node_with_floats(c, GGML_OP_LEAKY_RELU, arg_tensor(a, b"a"), 0, arg_float(negative_slope, b"negative_slope"), 1, 0, arg_bool(inplace, b"inplace")))

cdef int grad_leaky_relu(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """slope + (1 - slope) step(x)"""
    cdef float slope = gg_param_f32(t, 0)
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], mul(b.ctx, g, scale(b.ctx, step_of(b.ctx, t.src[0]), 1 - slope, slope, False)))

# ---- one operand: the functions of UNARY -------------------------------------------------------------------------------
def ggml_unary(ctx, a, op):
    """Applies the element-wise function that a number selects.

    ggml_unary(ctx, a, GGML_UNARY_OP_EXP) builds the same node as ggml_exp(ctx, a), and so on. Gradient: that of
    the selected function.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        op: GGML_UNARY_OP_* except GGML_UNARY_OP_XIELU, which takes parameters.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: op is not an integer.
        ValueError: op selects no function or XIELU, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_xielu.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_unary")
    return wrap_tensor(unary(c, plain_unary(op), arg_tensor(a, b"a"), False))

def ggml_unary_inplace(ctx, a, op):
    """Applies the element-wise function that a number selects, with the result in a's memory.

    It also covers functions without an _inplace builder of their own, such as GGML_UNARY_OP_HARDSWISH. Functions
    whose gradient is computed from the result (tanh, sigmoid, exp, expm1, relu) or from neither operand nor
    result (neg) keep it; for the other ones that have a gradient, ggml_build_backward_expand raises ValueError if
    a needs it.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten.
        op: GGML_UNARY_OP_* except GGML_UNARY_OP_XIELU.
    Returns:
        View of all of a.
    Raises:
        TypeError: op is not an integer.
        ValueError: op selects no function or XIELU, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_unary_inplace")
    return wrap_tensor(unary(c, plain_unary(op), arg_tensor(a, b"a"), True))

cdef int plain_unary(object op) except? -1:
    cdef int fn = arg_int32(op, b"op")
    if fn == GGML_UNARY_OP_XIELU:
        fail(ValueError, "op is XIELU, which takes parameters: use ggml_xielu")
    return fn

def ggml_abs(ctx, a):
    """Takes the absolute value of each element.

    Gradient: flows to a, multiplied by the sign of a, which is 0 at 0.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_abs")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ABS, arg_tensor(a, b"a"), False))

def ggml_abs_inplace(ctx, a):
    """Removes the sign of each element of a.

    The gradient would need the signs: ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with its magnitudes.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_abs_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ABS, arg_tensor(a, b"a"), True))

def ggml_sgn(ctx, a):
    """Gives the sign of each element as -1, 0 or 1.

    NaN stays NaN. The derivative is 0 wherever it exists, so no gradient reaches a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sgn")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SGN, arg_tensor(a, b"a"), False))

def ggml_sgn_inplace(ctx, a):
    """Replaces each element of a by its sign, -1, 0 or 1.

    Like ggml_sgn it passes no gradient to a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with the signs.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sgn_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SGN, arg_tensor(a, b"a"), True))

def ggml_neg(ctx, a):
    """Negates each element: -a.

    Gradient: flows to a, negated.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_neg")
    return wrap_tensor(unary(c, GGML_UNARY_OP_NEG, arg_tensor(a, b"a"), False))

def ggml_neg_inplace(ctx, a):
    """Flips the sign of each element where it is stored.

    The gradient is the negated gradient of the result; it needs no element of a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with -a.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_neg_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_NEG, arg_tensor(a, b"a"), True))

def ggml_step(ctx, a):
    """Computes the unit step: 1 where a > 0, else 0.

    NaN stays NaN. The derivative is 0 wherever it exists, so no gradient reaches a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_step")
    return wrap_tensor(unary(c, GGML_UNARY_OP_STEP, arg_tensor(a, b"a"), False))

def ggml_step_inplace(ctx, a):
    """Turns a into a mask of its positive elements: 1 where positive, else 0.

    No gradient reaches a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with the mask.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_step_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_STEP, arg_tensor(a, b"a"), True))

def ggml_tanh(ctx, a):
    """Computes the hyperbolic tangent of each element.

    Gradient: flows to a, multiplied by 1 - y^2, where y is the result.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from -1 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_tanh")
    return wrap_tensor(unary(c, GGML_UNARY_OP_TANH, arg_tensor(a, b"a"), False))

def ggml_tanh_inplace(ctx, a):
    """Replaces each element of a by its hyperbolic tangent.

    The gradient is computed from the result alone, so hidden layers may use this form in training.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with tanh(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_tanh_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_TANH, arg_tensor(a, b"a"), True))

def ggml_elu(ctx, a):
    """Computes the exponential linear unit (arXiv:1511.07289): a where a > 0, else exp(a) - 1.

    Gradient: flows to a, multiplied by 1 where a > 0, else by exp(a).

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values above or equal to -1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_elu_back, its gradient.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_elu")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ELU, arg_tensor(a, b"a"), False))

def ggml_elu_inplace(ctx, a):
    """Applies the exponential linear unit to a where it is stored.

    The gradient reads the original elements: ggml_build_backward_expand raises ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with elu(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_elu_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ELU, arg_tensor(a, b"a"), True))

def ggml_relu(ctx, a):
    """Computes the rectifier: max(a, 0).

    NaN stays NaN. Gradient: flows to a where a > 0.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, without negative values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_relu")
    return wrap_tensor(unary(c, GGML_UNARY_OP_RELU, arg_tensor(a, b"a"), False))

def ggml_relu_inplace(ctx, a):
    """Sets the negative elements of a to 0.

    The gradient flows to a where the result is positive; the overwritten elements are not needed for it.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with max(a, 0).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_relu_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_RELU, arg_tensor(a, b"a"), True))

def ggml_sigmoid(ctx, a):
    """Computes the logistic function: 1 / (1 + exp(-a)).

    Gradient: flows to a, multiplied by y * (1 - y), where y is the result.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from 0 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sigmoid")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SIGMOID, arg_tensor(a, b"a"), False))

def ggml_sigmoid_inplace(ctx, a):
    """Turns the elements of a, as logits, into probabilities: 1 / (1 + exp(-a)).

    The gradient is computed from the probabilities, so it remains available.

    Args:
        ctx: context that receives the node.
        a: logits, f32, f16 or bf16, any shape; overwritten.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_sigmoid_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SIGMOID, arg_tensor(a, b"a"), True))

def ggml_gelu(ctx, a):
    """Computes GELU in its tanh form (arXiv:1606.08415).

    The formula is 0.5 * a * (1 + tanh(sqrt(2/pi) * (a + 0.044715 * a^3))). It is evaluated in f32 rather than
    read from a table of f16 values; f16 tensors use a shorter polynomial. Gradient: flows to a, as ggml_gelu_back
    computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_gelu_erf, the exact form; ggml_gelu_quick, a cheaper approximation.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU, arg_tensor(a, b"a"), False))

def ggml_gelu_inplace(ctx, a):
    """Applies GELU in its tanh form to a where it is stored.

    A gradient of a would need the original elements: ggml_build_backward_expand then raises ValueError. Use
    ggml_gelu in graphs that are trained.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with gelu(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU, arg_tensor(a, b"a"), True))

def ggml_gelu_erf(ctx, a):
    """Computes the exact GELU (arXiv:1606.08415): a * Phi(a), with the normal distribution function Phi.

    Phi(a) is 0.5 * (1 + erf(a / sqrt(2))). Gradient: flows to a, as ggml_gelu_erf_back computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_erf")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU_ERF, arg_tensor(a, b"a"), False))

def ggml_gelu_erf_inplace(ctx, a):
    """Applies the exact GELU to a where it is stored.

    The derivative at the original elements cannot be recovered from the result: ggml_build_backward_expand raises
    ValueError if a needs a gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with a * Phi(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_erf_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU_ERF, arg_tensor(a, b"a"), True))

def ggml_gelu_quick(ctx, a):
    """Computes the sigmoid approximation of GELU (arXiv:1606.08415): a * sigmoid(1.702 * a).

    Gradient: flows to a, as ggml_gelu_quick_back computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_quick")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU_QUICK, arg_tensor(a, b"a"), False))

def ggml_gelu_quick_inplace(ctx, a):
    """Replaces a by a * sigmoid(1.702 * a), the sigmoid approximation of GELU.

    This form is for inference: ggml_build_backward_expand raises ValueError if a needs a gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_quick_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_GELU_QUICK, arg_tensor(a, b"a"), True))

def ggml_silu(ctx, a):
    """Computes SiLU, also called swish (arXiv:1702.03118): a * sigmoid(a).

    Gradient: flows to a, as ggml_silu_back computes it.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_swiglu, which multiplies the result by a second operand in the same pass.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_silu")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SILU, arg_tensor(a, b"a"), False))

def ggml_silu_inplace(ctx, a):
    """Multiplies each element of a by its sigmoid and stores the products in a.

    SiLU is not monotonic, so its gradient needs the original elements: ggml_build_backward_expand raises
    ValueError if a needs one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with silu(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_silu_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SILU, arg_tensor(a, b"a"), True))

def ggml_hardswish(ctx, a):
    """Computes hard swish (arXiv:1905.02244): a * min(1, max(0, (a + 3) / 6)).

    Gradient: flows to a, multiplied by 0 below -3, by 1 above 3 and by (2 * a + 3) / 6 between.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_hardswish")
    return wrap_tensor(unary(c, GGML_UNARY_OP_HARDSWISH, arg_tensor(a, b"a"), False))

def ggml_hardsigmoid(ctx, a):
    """Computes hard sigmoid, a piecewise linear sigmoid: min(1, max(0, (a + 3) / 6)).

    Gradient: flows to a, divided by 6, where a lies between -3 and 3.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from 0 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_hardsigmoid")
    return wrap_tensor(unary(c, GGML_UNARY_OP_HARDSIGMOID, arg_tensor(a, b"a"), False))

def ggml_exp(ctx, a):
    """Computes the exponential of each element: e^a.

    It underflows gradually and becomes inf where f32 overflows, above about 88.7. Gradient: flows to a,
    multiplied by the result.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_exp")
    return wrap_tensor(unary(c, GGML_UNARY_OP_EXP, arg_tensor(a, b"a"), False))

def ggml_exp_inplace(ctx, a):
    """Replaces each element of a by its exponential.

    The result is its own derivative, so overwriting a does not prevent the gradient.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with e^a.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_exp_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_EXP, arg_tensor(a, b"a"), True))

def ggml_expm1(ctx, a):
    """Computes e^a - 1 without the cancellation of ggml_exp and a subtraction near 0.

    Gradient: flows to a, multiplied by the result plus 1.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values above or equal to -1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_expm1")
    return wrap_tensor(unary(c, GGML_UNARY_OP_EXPM1, arg_tensor(a, b"a"), False))

def ggml_expm1_inplace(ctx, a):
    """Replaces each element of a by e^a - 1, accurate near 0.

    The gradient is computed from the result and needs no copy of a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_expm1_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_EXPM1, arg_tensor(a, b"a"), True))

def ggml_softplus(ctx, a):
    """Computes the smooth rectifier log(1 + exp(a)).

    It neither overflows for large a nor rounds to 0 for negative a before exp(a) itself underflows. Gradient:
    flows to a, multiplied by sigmoid(a).

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, without negative values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_softplus")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SOFTPLUS, arg_tensor(a, b"a"), False))

def ggml_softplus_inplace(ctx, a):
    """Applies log(1 + exp(x)) to each element x of a where it is stored.

    The gradient is the sigmoid of the original elements: ggml_build_backward_expand raises ValueError if a needs
    one.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with softplus(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_softplus_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_SOFTPLUS, arg_tensor(a, b"a"), True))

def ggml_floor(ctx, a):
    """Rounds each element down to an integer.

    The derivative is 0 wherever it exists, so no gradient reaches a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with integral values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_floor")
    return wrap_tensor(unary(c, GGML_UNARY_OP_FLOOR, arg_tensor(a, b"a"), False))

def ggml_floor_inplace(ctx, a):
    """Rounds the elements of a down where they are stored.

    No gradient reaches a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with floor(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_floor_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_FLOOR, arg_tensor(a, b"a"), True))

def ggml_ceil(ctx, a):
    """Rounds each element up to an integer.

    The derivative is 0 wherever it exists, so no gradient reaches a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with integral values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_ceil")
    return wrap_tensor(unary(c, GGML_UNARY_OP_CEIL, arg_tensor(a, b"a"), False))

def ggml_ceil_inplace(ctx, a):
    """Rounds the elements of a up where they are stored.

    No gradient reaches a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with ceil(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_ceil_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_CEIL, arg_tensor(a, b"a"), True))

def ggml_round(ctx, a):
    """Rounds each element to the nearest integer, halves away from 0.

    This is C's roundf, not NumPy's round, which takes halves to even. The derivative is 0 wherever it exists, so
    no gradient reaches a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with integral values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_round")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ROUND, arg_tensor(a, b"a"), False))

def ggml_round_inplace(ctx, a):
    """Rounds the elements of a to the nearest integer where they are stored, halves away from 0.

    No gradient reaches a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with round(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_round_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_ROUND, arg_tensor(a, b"a"), True))

def ggml_trunc(ctx, a):
    """Rounds each element towards 0.

    The derivative is 0 wherever it exists, so no gradient reaches a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with integral values.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_trunc")
    return wrap_tensor(unary(c, GGML_UNARY_OP_TRUNC, arg_tensor(a, b"a"), False))

def ggml_trunc_inplace(ctx, a):
    """Drops the fraction of each element of a.

    No gradient reaches a.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, any shape; overwritten with trunc(a).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_trunc_inplace")
    return wrap_tensor(unary(c, GGML_UNARY_OP_TRUNC, arg_tensor(a, b"a"), True))

def ggml_xielu(ctx, a, alpha_n, alpha_p, beta, eps):
    """Computes xIELU (arXiv:2411.13010), a quadratic unit with an expanded exponential below 0.

    With p = softplus(alpha_p) and n = beta + softplus(alpha_n), an element x becomes

        p * x^2 + beta * x                          where x > 0,
        n * (expm1(min(x, eps)) - x) + beta * x     elsewhere.

    Gradient: flows to a only; the parameters are numbers.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        alpha_n: parameter of the negative side before softplus, a number.
        alpha_p: parameter of the positive side before softplus, a number.
        beta: factor of the linear term, a number.
        eps: upper bound of the argument of expm1, a number, usually a small negative one such as -1e-6.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: alpha_n, alpha_p, beta or eps is not a number.
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
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
    """Computes the gradient of ggml_silu: a * s * (1 + b * (1 - s)) with s = sigmoid(b).

    Gradient: flows to a and to b, so second derivatives are available.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_silu, f32, f16 or bf16, any shape.
        b: argument of ggml_silu, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type: the gradient of the argument.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_silu_back")
    return wrap_tensor(node2(c, GGML_OP_SILU_BACK, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_gelu_back(ctx, a, b):
    """Computes the gradient of ggml_gelu: a times the derivative of the tanh form at b.

    Gradient: flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_gelu, f32, f16 or bf16, any shape.
        b: argument of ggml_gelu, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type: the gradient of the argument.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_back")
    return wrap_tensor(node2(c, GGML_OP_GELU_BACK, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_gelu_quick_back(ctx, a, b):
    """Computes the gradient of ggml_gelu_quick: a * s * (1 + 1.702 * b * (1 - s)) with s = sigmoid(1.702 * b).

    Gradient: flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_gelu_quick, f32, f16 or bf16, any shape.
        b: argument of ggml_gelu_quick, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type: the gradient of the argument.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_quick_back")
    return wrap_tensor(node2(c, GGML_OP_GELU_QUICK_BACK, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_gelu_erf_back(ctx, a, b):
    """Computes the gradient of ggml_gelu_erf: a * (Phi(b) + b * phi(b)).

    Phi is the normal distribution function and phi its density. Gradient: flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_gelu_erf, f32, f16 or bf16, any shape.
        b: argument of ggml_gelu_erf, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type: the gradient of the argument.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_gelu_erf_back")
    return wrap_tensor(node2(c, GGML_OP_GELU_ERF_BACK, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_elu_back(ctx, a, b):
    """Computes the gradient of ggml_elu: a where b > 0, else a * exp(b).

    Gradient: flows to a and to b.

    Args:
        ctx: context that receives the result.
        a: gradient of the result of ggml_elu, f32, f16 or bf16, any shape.
        b: argument of ggml_elu, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type: the gradient of the argument.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
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
