"""Element-wise arithmetic of one and two operands, each operation with its gradient."""
from libc.math cimport INFINITY, M_2_SQRTPI
from libc.string cimport memcpy

from .._core cimport (
    arg_bool, arg_context, arg_float, arg_tensor, arg_type, fail, ggml_context,
    ggml_tensor, node1, node1_in_place, node2, node2_in_place, node_append, node_in_place, node_like, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ADD, GGML_OP_ADD1, GGML_OP_CLAMP, GGML_OP_CLAMP_BACK, GGML_OP_COS, GGML_OP_DIV, GGML_OP_EQUAL,
    GGML_OP_ERF, GGML_OP_FMOD, GGML_OP_LEAKY_RELU, GGML_OP_LESS, GGML_OP_LOG, GGML_OP_MAXIMUM, GGML_OP_MINIMUM,
    GGML_OP_MUL, GGML_OP_POW, GGML_OP_PRELU, GGML_OP_QUANTIZE_LINEAR, GGML_OP_SCALE, GGML_OP_SIN, GGML_OP_SQR,
    GGML_OP_SQRT, GGML_OP_SUB, GGML_UNARY_OP_RELU, GGML_UNARY_OP_STEP,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport (
    clamp_params, gg_clamp_params, gg_leaky_relu_params, gg_quantize_linear_params, gg_scale_params,
    leaky_relu_params, quantize_linear_params, scale_params,
)
from .reduce cimport sum_to_shape
from .unary cimport exp_of, neg, unary

# ---- two operands ----------------------------------------------------------------------------------------------------
cdef ggml_tensor *add(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL:
    return node2(ctx, GGML_OP_ADD, a, b)

cdef ggml_tensor *sub(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL:
    return node2(ctx, GGML_OP_SUB, a, b)

cdef ggml_tensor *mul(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL:
    return node2(ctx, GGML_OP_MUL, a, b)

cdef ggml_tensor *div(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL:
    return node2(ctx, GGML_OP_DIV, a, b)

cdef inline object binary_of(object ctx, const char *name, int op, object a, object b):
    """What the public function `name` returns: a new tensor."""
    cdef ggml_context *c = arg_context(ctx, name)
    return wrap_tensor(node2(c, op, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

cdef inline object binary_in_place(object ctx, const char *name, int op, object a, object b):
    """What the public function `name` returns: a view of all of a."""
    cdef ggml_context *c = arg_context(ctx, name)
    return wrap_tensor(node2_in_place(c, op, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_add(ctx, a, b):
    """Adds two tensors element by element: a + b, with b repeated to the shape of a.

    The sum is computed in f32 and rounded to the type of a. A quantised a is unpacked and quantised again. The gradient
    flows to a and b; that of b is summed over its repeats. Quantised tensors pass no gradient.

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
    return binary_of(ctx, b"ggml_add", GGML_OP_ADD, a, b)

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
        ValueError: the shapes do not fit, a type is not supported, or the quantised type of a needs importance
            weights.
        MemoryError: the context is full.
    """
    return binary_in_place(ctx, b"ggml_add_inplace", GGML_OP_ADD, a, b)

def ggml_add_cast(ctx, a, b, type):
    """Adds b to a and stores the sums as another type.

    A typical use is the f32 sum of quantised weights and an f32 update. The gradient flows to a and b as for ggml_add;
    a quantised operand receives none, and a quantised result passes none on.

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
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&node, GGML_OP_ADD, arg_type(type, b"type"), x)
    node.src[0], node.src[1] = x, arg_tensor(b, b"b")
    return wrap_tensor(node_append(c, &node))

def ggml_add1(ctx, a, b):
    """Adds the single element of b to every element of a.

    The gradient flows to a unchanged, and to b as the sum over all elements.

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
    return binary_of(ctx, b"ggml_add1", GGML_OP_ADD1, a, b)

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
    return binary_in_place(ctx, b"ggml_add1_inplace", GGML_OP_ADD1, a, b)

cdef int grad_add(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """ADD, ADD1: t = x + y; dx = g, dy = g summed over the repeats of y."""
    b.add(t.src[0], g)
    if b.needs(t.src[1]):
        b.add(t.src[1], sum_to_shape(b.ctx, g, t.src[1]))
    return 0

def ggml_sub(ctx, a, b):
    """Subtracts two tensors element by element: a - b, with b repeated to the shape of a.

    The gradient flows to a unchanged, and to b negated and summed over its repeats.

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
    return binary_of(ctx, b"ggml_sub", GGML_OP_SUB, a, b)

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
    return binary_in_place(ctx, b"ggml_sub_inplace", GGML_OP_SUB, a, b)

cdef int grad_sub(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x - y: dx = g, dy = -g summed over the repeats of y."""
    b.add(t.src[0], g)
    if b.needs(t.src[1]):
        b.add(t.src[1], neg(b.ctx, sum_to_shape(b.ctx, g, t.src[1])))
    return 0

def ggml_mul(ctx, a, b):
    """Multiplies two tensors element by element: a * b, with b repeated to the shape of a.

    The gradient flows to a, multiplied by b, and to b, multiplied by a and summed over the repeats of b.

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
    return binary_of(ctx, b"ggml_mul", GGML_OP_MUL, a, b)

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
    return binary_in_place(ctx, b"ggml_mul_inplace", GGML_OP_MUL, a, b)

cdef int grad_mul(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x y: dx = g y, dy = g x summed over the repeats of y."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    if b.needs(x):
        b.require_not_overwritten(t, y)
        b.add(x, mul(b.ctx, g, y))
    if b.needs(y):
        b.require_not_overwritten(t, x)
        b.add(y, sum_to_shape(b.ctx, mul(b.ctx, g, x), y))
    return 0

def ggml_div(ctx, a, b):
    """Divides two tensors element by element: a / b, with b repeated to the shape of a.

    Division by zero gives infinities, or NaN for 0 / 0. The gradient flows to a, divided by b, and to b, multiplied by
    -a / b^2 and summed over the repeats of b.

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
    return binary_of(ctx, b"ggml_div", GGML_OP_DIV, a, b)

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
    return binary_in_place(ctx, b"ggml_div_inplace", GGML_OP_DIV, a, b)

cdef int grad_div(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x / y: dx = g / y, dy = -(g / y) t summed over the repeats of y."""
    cdef ggml_tensor *y = t.src[1]
    b.require_not_overwritten(t, y)
    cdef ggml_tensor *dx = div(b.ctx, g, y)
    b.add(t.src[0], dx)
    if b.needs(y):
        b.require_not_overwritten(t, t)
        b.add(y, neg(b.ctx, sum_to_shape(b.ctx, mul(b.ctx, dx, t), y)))
    return 0

# ---- one operand -----------------------------------------------------------------------------------------------------
cdef ggml_tensor *sqr(ggml_context *ctx, ggml_tensor *a) except NULL:
    return node1(ctx, GGML_OP_SQR, a)

cdef inline object map_of(object ctx, const char *name, int op, object a):
    """What the public function `name` returns: a new tensor."""
    cdef ggml_context *c = arg_context(ctx, name)
    return wrap_tensor(node1(c, op, arg_tensor(a, b"a")))

cdef inline object map_in_place(object ctx, const char *name, int op, object a):
    """What the public function `name` returns: a view of all of a."""
    cdef ggml_context *c = arg_context(ctx, name)
    return wrap_tensor(node1_in_place(c, op, arg_tensor(a, b"a")))

def ggml_sqr(ctx, a):
    """Squares each element: a^2.

    The gradient flows to a, multiplied by 2 * a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return map_of(ctx, b"ggml_sqr", GGML_OP_SQR, a)

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
    return map_in_place(ctx, b"ggml_sqr_inplace", GGML_OP_SQR, a)

cdef int grad_sqr(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x^2: dx = 2 g x."""
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], scale(b.ctx, mul(b.ctx, g, t.src[0]), 2, 0, False))

def ggml_sqrt(ctx, a):
    """Takes the square root of each element.

    Negative elements give NaN. The gradient flows to a, multiplied by 0.5 / sqrt(a), which is infinite at 0.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return map_of(ctx, b"ggml_sqrt", GGML_OP_SQRT, a)

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
    return map_in_place(ctx, b"ggml_sqrt_inplace", GGML_OP_SQRT, a)

cdef int grad_sqrt(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = sqrt(x): dx = g / (2 t)."""
    b.require_not_overwritten(t, t)
    return b.add(t.src[0], scale(b.ctx, div(b.ctx, g, t), 0.5, 0, False))

def ggml_log(ctx, a):
    """Takes the natural logarithm of each element.

    The logarithm of 0 is -inf, that of a negative element NaN. The gradient flows to a, multiplied by 1 / a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return map_of(ctx, b"ggml_log", GGML_OP_LOG, a)

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
    return map_in_place(ctx, b"ggml_log_inplace", GGML_OP_LOG, a)

cdef int grad_log(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = log(x): dx = g / x."""
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], div(b.ctx, g, t.src[0]))

def ext_erf(ctx, a):
    """Computes the error function of each element: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to a.

    The gradient flows to a, multiplied by 2 / sqrt(pi) exp(-a^2).

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the type of a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return map_of(ctx, b"ggml.ext.erf", GGML_OP_ERF, a)

cdef int grad_erf(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = erf(x): dx = g 2 / sqrt(pi) exp(-x^2)."""
    b.require_not_overwritten(t, t.src[0])
    cdef ggml_tensor *bell = exp_of(b.ctx, neg(b.ctx, sqr(b.ctx, t.src[0])))
    return b.add(t.src[0], mul(b.ctx, g, scale(b.ctx, bell, M_2_SQRTPI, 0, False)))

def ggml_sin(ctx, a):
    """Computes the sine of each element, given in radians.

    Infinite elements give NaN; large finite ones are reduced accurately. The gradient flows to a, multiplied by cos(a).

    Args:
        ctx: context that receives the result.
        a: angles in radians, f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from -1 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return map_of(ctx, b"ggml_sin", GGML_OP_SIN, a)

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
    return map_in_place(ctx, b"ggml_sin_inplace", GGML_OP_SIN, a)

cdef int grad_sin(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = sin(x): dx = g cos(x)."""
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], mul(b.ctx, g, node1(b.ctx, GGML_OP_COS, t.src[0])))

def ggml_cos(ctx, a):
    """Computes the cosine of each element, given in radians.

    Infinite elements give NaN. The gradient flows to a, multiplied by -sin(a).

    Args:
        ctx: context that receives the result.
        a: angles in radians, f32, f16 or bf16, any shape.
    Returns:
        Tensor of a's shape and type, with values from -1 to 1.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return map_of(ctx, b"ggml_cos", GGML_OP_COS, a)

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
    return map_in_place(ctx, b"ggml_cos_inplace", GGML_OP_COS, a)

cdef int grad_cos(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = cos(x): dx = -g sin(x)."""
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], neg(b.ctx, mul(b.ctx, g, node1(b.ctx, GGML_OP_SIN, t.src[0]))))

# ---- one operand and numbers -----------------------------------------------------------------------------------------
cdef ggml_tensor *node_with_params(ggml_context *ctx, int op, ggml_tensor *a, const void *params, size_t size,
                                   bint inplace) except NULL:
    cdef ggml_tensor node
    node_like(&node, op, a.type, a)
    memcpy(node.op_params, params, size)
    node.src[0] = a
    if inplace:
        node_in_place(&node, a)
    return node_append(ctx, &node)

cdef ggml_tensor *scale(ggml_context *ctx, ggml_tensor *a, float s, float bias, bint inplace) except NULL:
    cdef gg_scale_params q
    q.factor, q.bias = s, bias
    return node_with_params(ctx, GGML_OP_SCALE, a, &q, sizeof(q), inplace)

def ggml_scale(ctx, a, s):
    """Multiplies each element by a number: a * s.

    The gradient flows to a, multiplied by s.

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

    The gradient flows to a, multiplied by s.

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
    """t = s x + bias: dx = s g."""
    return b.add(t.src[0], scale(b.ctx, g, scale_params(t).factor, 0, False))

cdef int check_range(float low, float high) except -1:
    if not low <= high:
        fail(ValueError, f"min is {low}, max is {high}: min must not be above max")
    return 0

cdef ggml_tensor *clamp(ggml_context *ctx, ggml_tensor *a, float low, float high, bint inplace) except NULL:
    check_range(low, high)
    cdef gg_clamp_params q
    q.min, q.max = low, high
    return node_with_params(ctx, GGML_OP_CLAMP, a, &q, sizeof(q), inplace)

cdef ggml_tensor *clamp_back(ggml_context *ctx, ggml_tensor *g, ggml_tensor *x, float low, float high) except NULL:
    cdef ggml_tensor node
    check_range(low, high)
    node_like(&node, GGML_OP_CLAMP_BACK, g.type, g)
    clamp_params(&node).min, clamp_params(&node).max = low, high
    node.src[0], node.src[1] = g, x
    return node_append(ctx, &node)

def ggml_clamp(ctx, a, min, max):
    """Limits each element to a range: min(max(a, min), max).

    NaN stays NaN. The result is a new tensor, whereas the function of this name in the C library overwrites a; see
    ggml_clamp_inplace. The gradient flows to a where it lies in the range, bounds included.

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

def ggml_clamp_back(ctx, a, b, min, max):
    """Computes the gradient of ggml_clamp: a where min <= b <= max, else 0.

    The result is also 0 where b is NaN. The gradient flows to a where b lies in the range; b has none.

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
        ValueError: min is above max, one of them is NaN, the shapes of a and b differ, or a type is not f32, f16 or
            bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_clamp_back")
    cdef ggml_tensor *g = arg_tensor(a, b"a")
    return wrap_tensor(clamp_back(c, g, arg_tensor(b, b"b"), arg_float(min, b"min"), arg_float(max, b"max")))

cdef int grad_clamp(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = clamp(x): dx = g where low <= x <= high, else 0."""
    b.require_not_overwritten(t, t.src[0])
    return b.add(t.src[0], clamp_back(b.ctx, g, t.src[0], clamp_params(t).min, clamp_params(t).max))

cdef int grad_clamp_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = dy where low <= x <= high, else 0: d(dy) = g there, dx = 0."""
    b.require_not_overwritten(t, t.src[1])
    if not b.needs(t.src[0]):
        return 0
    return b.add(t.src[0], clamp_back(b.ctx, g, t.src[1], clamp_params(t).min, clamp_params(t).max))

def ext_quantize_linear(ctx, a, scale, zero, min, max, centred=False):
    """Expresses numbers as whole units above a zero point, as ONNX's QuantizeLinear: round(a / scale) + zero.

    Halves are rounded to even. The result holds floats, limited to the range of an integer type. NaN stays NaN. The
    gradient is that of the function without rounding: it flows to a where the result is not limited, divided by scale,
    to scale, and to zero.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        scale: units, f32, f16 or bf16; each dimension of the shape of a is a multiple of scale's.
        zero: what 0 becomes, f32, f16 or bf16, likewise repeated to a's shape; None for 0.
        min: lower bound of the result, a number.
        max: upper bound of the result, a number not below min.
        centred: subtract zero again, so that the result is about a / scale.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: min or max is not a number.
        ValueError: min is above max, one of them is NaN, scale or zero cannot be repeated to a's shape, or a type is
            not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.quantize_linear")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef gg_quantize_linear_params *q = quantize_linear_params(&node)
    node_like(&node, GGML_OP_QUANTIZE_LINEAR, x.type, x)
    node.src[0], node.src[1] = x, arg_tensor(scale, b"scale")
    node.src[2] = NULL if zero is None else arg_tensor(zero, b"zero")
    q.min, q.max = arg_float(min, b"min"), arg_float(max, b"max")
    q.zero_factor = not arg_bool(centred, b"centred")
    check_range(q.min, q.max)
    return wrap_tensor(node_append(c, &node))

cdef int grad_quantize_linear(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = clamp(x / s + z), less z if it is centred: dx = g / s where t is not limited, ds = -dx x / s, dz = g where
    it is not limited, less g if it is centred."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *s = t.src[1]
    cdef ggml_tensor *z = t.src[2]
    cdef gg_quantize_linear_params *q = quantize_linear_params(t)
    cdef ggml_tensor *units
    cdef ggml_tensor *inside
    cdef ggml_tensor *dx
    b.require_not_overwritten(t, x)
    b.require_not_overwritten(t, s)
    units = div(b.ctx, x, s)
    if z != NULL:
        b.require_not_overwritten(t, z)
    inside = clamp_back(b.ctx, g, units if z == NULL else add(b.ctx, units, z), q.min, q.max)
    dx = div(b.ctx, inside, s)
    b.add(x, dx)
    if b.needs(s):
        b.add(s, neg(b.ctx, sum_to_shape(b.ctx, mul(b.ctx, dx, units), s)))
    if z != NULL and b.needs(z):
        b.add(z, sum_to_shape(b.ctx, inside if q.zero_factor else sub(b.ctx, inside, g), z))
    return 0

def ggml_leaky_relu(ctx, a, negative_slope, inplace):
    """Computes the leaky rectifier: a where a > 0, else negative_slope * a.

    The gradient flows to a, multiplied by 1 or negative_slope. It needs the original elements, so with inplace set
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
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef gg_leaky_relu_params q
    q.negative_slope = arg_float(negative_slope, b"negative_slope")
    return wrap_tensor(node_with_params(c, GGML_OP_LEAKY_RELU, x, &q, sizeof(q), arg_bool(inplace, b"inplace")))

cdef float LEAST_POSITIVE = 1.4e-45      # of f32

cdef int grad_leaky_relu(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x where x > 0, else slope x: dx = g where x > 0, plus slope g where x <= 0."""
    cdef ggml_tensor *x = t.src[0]
    b.require_not_overwritten(t, x)
    cdef ggml_tensor *above = clamp_back(b.ctx, g, x, LEAST_POSITIVE, INFINITY)
    cdef ggml_tensor *below = clamp_back(b.ctx, g, x, -INFINITY, 0)
    return b.add(x, add(b.ctx, above, scale(b.ctx, below, leaky_relu_params(t).negative_slope, 0, False)))

def ext_fmod(ctx, a, b):
    """Computes the remainder of a / b element by element, with b repeated to the shape of a.

    The quotient is rounded toward zero, so that the remainder has the sign of a; it is exact, as that of C's fmod. The
    gradient of a is that of the result; b gets it multiplied by minus the whole quotient.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
    return binary_of(ctx, b"ggml.ext.fmod", GGML_OP_FMOD, a, b)

cdef int grad_fmod(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x - y q with the whole quotient q: dx = g, dy = -g q, q = (x - t) / y."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    b.add(x, g)
    if b.needs(y):
        b.require_not_overwritten(t, x)
        b.require_not_overwritten(t, y)
        b.require_not_overwritten(t, t)
        b.add(y, neg(b.ctx, sum_to_shape(b.ctx, mul(b.ctx, g, div(b.ctx, sub(b.ctx, x, t), y)), y)))
    return 0

def ext_pow(ctx, a, b):
    """Raises a tensor to a power element by element, a^b, with b repeated to the shape of a.

    The special cases are those of C's pow: a^0 and 1^b are 1 also for NaN, a fractional power of a negative number is
    NaN. The gradient of a is that of the result times b a^(b-1); b gets it multiplied by the result and log(a), 0 where
    a is 0.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
    return binary_of(ctx, b"ggml.ext.pow", GGML_OP_POW, a, b)

cdef int grad_pow(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x^y: dx = g y x^(y-1), dy = g t log(x); y = 0 gives dx = 0, x = 0 gives dy = 0."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    cdef ggml_tensor *zero
    cdef ggml_tensor *less_one
    b.require_not_overwritten(t, x)
    b.require_not_overwritten(t, y)
    if b.needs(x):
        zero = node2(b.ctx, GGML_OP_EQUAL, y, scale(b.ctx, y, 0, 0, False))     # where x^0 is taken instead of x^-1
        less_one = add(b.ctx, scale(b.ctx, y, 1, -1, False), zero)
        b.add(x, mul(b.ctx, g, mul(b.ctx, node2(b.ctx, GGML_OP_POW, x, less_one), y)))
    if b.needs(y):
        b.require_not_overwritten(t, t)
        zero = node2(b.ctx, GGML_OP_EQUAL, x, scale(b.ctx, x, 0, 0, False))     # where log(1) is taken
        b.add(y, sum_to_shape(b.ctx, mul(b.ctx, g, mul(b.ctx, t, node1(b.ctx, GGML_OP_LOG, add(b.ctx, x, zero)))), y))
    return 0

# ---- comparisons -----------------------------------------------------------------------------------------------------
def ext_maximum(ctx, a, b):
    """Takes the larger of two tensors element by element, with b repeated to the shape of a.

    NaN where one of both is NaN. The gradient flows to the larger of both, and to a where they are equal.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
    return binary_of(ctx, b"ggml.ext.maximum", GGML_OP_MAXIMUM, a, b)

def ext_minimum(ctx, a, b):
    """Takes the smaller of two tensors element by element, with b repeated to the shape of a.

    NaN where one of both is NaN. The gradient flows to the smaller of both, and to a where they are equal.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
    return binary_of(ctx, b"ggml.ext.minimum", GGML_OP_MINIMUM, a, b)

def ext_prelu(ctx, a, b):
    """Multiplies the negative elements of a tensor by slopes (arXiv:1502.01852): a < 0 ? a b : a, with b repeated.

    Behind a convolution with a bias, slopes of its channels are applied while its sums are in the cache.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
    return binary_of(ctx, b"ggml.ext.prelu", GGML_OP_PRELU, a, b)

def ext_less(ctx, a, b):
    """Compares two tensors element by element: a < b, with b repeated to the shape of a.

    False where one of both is NaN. The result passes no gradient on.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type: 1 where a is less than b, else 0.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
    return binary_of(ctx, b"ggml.ext.less", GGML_OP_LESS, a, b)

def ext_equal(ctx, a, b):
    """Compares two tensors element by element: a == b, with b repeated to the shape of a.

    False where one of both is NaN. The result passes no gradient on.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, any shape.
        b: f32, f16 or bf16; each dimension of the shape of a is a multiple of b's.
    Returns:
        Tensor of a's shape and type: 1 where both are equal, else 0.
    Raises:
        ValueError: the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    """
    return binary_of(ctx, b"ggml.ext.equal", GGML_OP_EQUAL, a, b)

cdef int grad_extreme(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = max(x, y) or min(x, y): dy = g where y is beyond x, dx = g elsewhere."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    cdef ggml_tensor *beyond
    b.require_not_overwritten(t, x)
    b.require_not_overwritten(t, y)
    if t.op == GGML_OP_MAXIMUM:
        beyond = node2(b.ctx, GGML_OP_LESS, x, y)
    else:
        beyond = node2(b.ctx, GGML_OP_LESS, neg(b.ctx, x), neg(b.ctx, y))
    if b.needs(y):
        b.add(y, sum_to_shape(b.ctx, mul(b.ctx, g, beyond), y))
    return b.add(x, mul(b.ctx, g, scale(b.ctx, beyond, -1, 1, False)))

cdef int grad_prelu(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x < 0 ? x y : x: dx = g (x < 0 ? y : 1), dy = g min(x, 0)."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    b.require_not_overwritten(t, x)
    b.require_not_overwritten(t, y)
    cdef ggml_tensor *below
    if b.needs(y):
        below = neg(b.ctx, unary(b.ctx, GGML_UNARY_OP_RELU, neg(b.ctx, x), False))
        b.add(y, sum_to_shape(b.ctx, mul(b.ctx, g, below), y))
    if b.needs(x):
        below = unary(b.ctx, GGML_UNARY_OP_STEP, neg(b.ctx, x), False)
        b.add(x, add(b.ctx, mul(b.ctx, g, scale(b.ctx, below, -1, 1, False)), mul(b.ctx, mul(b.ctx, g, below), y)))
    return 0

cdef int grad_comparison(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t is 0 or 1: constant wherever it has a derivative."""
    return 0

gradients[GGML_OP_ADD] = gradients[GGML_OP_ADD1] = grad_add
gradients[GGML_OP_SUB] = grad_sub
gradients[GGML_OP_MUL] = grad_mul
gradients[GGML_OP_DIV] = grad_div
gradients[GGML_OP_SQR] = grad_sqr
gradients[GGML_OP_SQRT] = grad_sqrt
gradients[GGML_OP_LOG] = grad_log
gradients[GGML_OP_ERF] = grad_erf
gradients[GGML_OP_SIN] = grad_sin
gradients[GGML_OP_COS] = grad_cos
gradients[GGML_OP_SCALE] = grad_scale
gradients[GGML_OP_CLAMP] = grad_clamp
gradients[GGML_OP_CLAMP_BACK] = grad_clamp_back
gradients[GGML_OP_QUANTIZE_LINEAR] = grad_quantize_linear
gradients[GGML_OP_LEAKY_RELU] = grad_leaky_relu
gradients[GGML_OP_FMOD] = grad_fmod
gradients[GGML_OP_POW] = grad_pow
gradients[GGML_OP_MAXIMUM] = gradients[GGML_OP_MINIMUM] = grad_extreme
gradients[GGML_OP_PRELU] = grad_prelu
gradients[GGML_OP_LESS] = gradients[GGML_OP_EQUAL] = grad_comparison
