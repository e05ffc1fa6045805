"""The element-wise functions of GGML_OP_UNARY and the gradients of the activations among them."""
import textwrap

from libc.math cimport INFINITY, exp, log1p

from .._core cimport (
    GG_DERIVATIVE_ARGUMENT, GG_DERIVATIVE_NUMBER, GG_DERIVATIVE_RESULT, GG_DERIVATIVE_ZERO, arg_context, arg_float,
    arg_int32, arg_tensor, engine, fail, ggml_context, ggml_tensor, node2, node_append, node_in_place, node_like,
    wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ELU_BACK, GGML_OP_GELU_BACK, GGML_OP_GELU_ERF_BACK, GGML_OP_GELU_QUICK_BACK, GGML_OP_NONE,
    GGML_OP_SILU_BACK, GGML_OP_UNARY, GGML_UNARY_OP_ABS, GGML_UNARY_OP_EXP, GGML_UNARY_OP_EXPM1,
    GGML_UNARY_OP_HARDSIGMOID, GGML_UNARY_OP_HARDSWISH, GGML_UNARY_OP_NEG, GGML_UNARY_OP_RELU, GGML_UNARY_OP_SGN,
    GGML_UNARY_OP_SIGMOID, GGML_UNARY_OP_SOFTPLUS, GGML_UNARY_OP_STEP, GGML_UNARY_OP_TANH,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport gg_unary_params, unary_params
from .elementwise cimport add, clamp, clamp_back, mul, scale, sqr, sub

cdef extern from "runtime/engine.h" nogil:
    enum: GGML_UNARY_OP_COUNT, GGML_UNARY_OP_XIELU

# ---- functions without parameters ------------------------------------------------------------------------------------
cdef ggml_tensor *unary(ggml_context *ctx, int function, ggml_tensor *a, bint inplace) except NULL:
    cdef ggml_tensor node
    node_like(&node, GGML_OP_UNARY, a.type, a)
    unary_params(&node).function = function
    node.src[0] = a
    if inplace:
        node_in_place(&node, a)
    return node_append(ctx, &node)

cdef ggml_tensor *neg(ggml_context *ctx, ggml_tensor *a) except NULL:
    return unary(ctx, GGML_UNARY_OP_NEG, a, False)

cdef ggml_tensor *step(ggml_context *ctx, ggml_tensor *a) except NULL:
    return unary(ctx, GGML_UNARY_OP_STEP, a, False)

cdef ggml_tensor *exp_of(ggml_context *ctx, ggml_tensor *a) except NULL:
    return unary(ctx, GGML_UNARY_OP_EXP, a, False)

cdef ggml_tensor *sigmoid(ggml_context *ctx, ggml_tensor *a) except NULL:
    return unary(ctx, GGML_UNARY_OP_SIGMOID, a, False)

cdef inline object unary_of(object ctx, const char *name, int function, object a, bint inplace):
    """What the public function `name` returns: a UNARY node with the given function of a."""
    cdef ggml_context *c = arg_context(ctx, name)
    return wrap_tensor(unary(c, function, arg_tensor(a, b"a"), inplace))

cdef int arg_function(object op) except? -1:
    """GGML_UNARY_OP_* of a function without parameters."""
    cdef int function = arg_int32(op, b"op")
    if function == GGML_UNARY_OP_XIELU:
        fail(ValueError, "op is XIELU, which takes parameters: use ggml_xielu")
    return function

def ggml_unary(ctx, a, op):
    """Applies the element-wise function that a number selects.

    ggml_unary(ctx, a, GGML_UNARY_OP_EXP) builds the same node as ggml_exp(ctx, a), and so on. The gradient is that of
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
    return wrap_tensor(unary(c, arg_function(op), arg_tensor(a, b"a"), False))

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
    return wrap_tensor(unary(c, arg_function(op), arg_tensor(a, b"a"), True))

# Text of the docstrings: what a function computes, remarks, the slope that the gradient is multiplied by, the values of
# the result, other functions. Rows are those of tables/unary.h without XIELU.
cdef dict TEXTS = {
    "abs": ("Takes the absolute value of each element", "", "multiplied by the sign of a, which is 0 at 0", "", ""),
    "sgn": ("Gives the sign of each element as -1, 0 or 1", "NaN stays NaN.", "", "", ""),
    "neg": ("Negates each element: -a", "", "negated", "", ""),
    "step": ("Computes the unit step: 1 where a > 0, else 0", "NaN stays NaN.", "", "", ""),
    "tanh": ("Computes the hyperbolic tangent of each element", "",
             "multiplied by 1 - y^2, where y is the result", ", with values from -1 to 1", ""),
    "elu": ("Computes the exponential linear unit (arXiv:1511.07289): a where a > 0, else exp(a) - 1", "",
            "multiplied by 1 where a > 0, else by exp(a)", ", with values above or equal to -1",
            "ggml_elu_back, its gradient."),
    "relu": ("Computes the rectifier: max(a, 0)", "NaN stays NaN.", "where a > 0", ", without negative values", ""),
    "sigmoid": ("Computes the logistic function: 1 / (1 + exp(-a))", "",
                "multiplied by y * (1 - y), where y is the result", ", with values from 0 to 1", ""),
    "gelu": ("Computes GELU in its tanh form (arXiv:1606.08415)",
             "The formula is 0.5 * a * (1 + tanh(sqrt(2/pi) * (a + 0.044715 * a^3))). It is evaluated in f32 rather "
             "than read from a table of f16 values; f16 tensors use a shorter polynomial.",
             "as ggml_gelu_back computes it", "",
             "ggml_gelu_erf, the exact form; ggml_gelu_quick, a cheaper approximation."),
    "gelu_quick": ("Computes the sigmoid approximation of GELU (arXiv:1606.08415): a * sigmoid(1.702 * a)", "",
                   "as ggml_gelu_quick_back computes it", "", ""),
    "silu": ("Computes SiLU, also called swish (arXiv:1702.03118): a * sigmoid(a)", "",
             "as ggml_silu_back computes it", "",
             "ggml_swiglu, which multiplies the result by a second operand in the same pass."),
    "hardswish": ("Computes hard swish (arXiv:1905.02244): a * min(1, max(0, (a + 3) / 6))", "",
                  "multiplied by 0 below -3, by 1 above 3 and by (2 * a + 3) / 6 between", "", ""),
    "hardsigmoid": ("Computes hard sigmoid, a piecewise linear sigmoid: min(1, max(0, (a + 3) / 6))", "",
                    "divided by 6, where a lies between -3 and 3", ", with values from 0 to 1", ""),
    "exp": ("Computes the exponential of each element: e^a",
            "It underflows gradually and becomes inf where f32 overflows, above about 88.7.",
            "multiplied by the result", "", ""),
    "expm1": ("Computes e^a - 1 without the cancellation of ggml_exp and a subtraction near 0", "",
              "multiplied by the result plus 1", ", with values above or equal to -1", ""),
    "softplus": ("Computes the smooth rectifier log(1 + exp(a))",
                 "It neither overflows for large a nor rounds to 0 for negative a before exp(a) itself underflows.",
                 "multiplied by sigmoid(a)", ", without negative values", ""),
    "gelu_erf": ("Computes the exact GELU (arXiv:1606.08415): a * Phi(a), with the normal distribution function Phi",
                 "Phi(a) is 0.5 * (1 + erf(a / sqrt(2))).", "as ggml_gelu_erf_back computes it", "", ""),
    "floor": ("Rounds each element down to an integer", "", "", ", with integral values", ""),
    "ceil": ("Rounds each element up to an integer", "", "", ", with integral values", ""),
    "round": ("Rounds each element to the nearest integer, halves away from 0",
              "This is C's roundf, not NumPy's round, which takes halves to even.", "", ", with integral values", ""),
    "trunc": ("Rounds each element towards 0", "", "", ", with integral values", ""),
}
cdef tuple WITHOUT_INPLACE = ("hardswish", "hardsigmoid")       # the C library has no ggml_NAME_inplace

cdef dict INPLACE_GRADIENTS = {     # by what the derivative is computed from
    GG_DERIVATIVE_ZERO: "No gradient flows to a.",
    GG_DERIVATIVE_NUMBER: "The gradient needs no element of a, so a node in place keeps it.",
    GG_DERIVATIVE_RESULT: "The gradient is computed from the result, so a node in place keeps it.",
    GG_DERIVATIVE_ARGUMENT:
        "The gradient would need the original elements: ggml_build_backward_expand raises ValueError if a needs one.",
}

cdef str docstring(str summary, str text, str a, str returns, str see):
    sections = [summary, textwrap.fill(text, 116), f"""Args:
    ctx: context that receives the result.
    a: f32, f16 or bf16, any shape{a}.
Returns:
    {returns}.
Raises:
    ValueError: a is not f32, f16 or bf16.
    MemoryError: the context is full."""]
    return "\n\n".join(sections) + (f"\nSee also:\n    {see}" if see else "")

cdef object builder(int function, str name, bint inplace):
    """ggml_NAME or ggml_NAME_inplace, which build a node of a function without parameters."""
    cdef bytes public = f"ggml_{name}{'_inplace' if inplace else ''}".encode()

    def build(ctx, a):
        return unary_of(ctx, public, function, a, inplace)

    does, remarks, slope, values, see = TEXTS[name]
    build.__name__ = build.__qualname__ = public.decode()
    if inplace:
        text = f"The values are those of ggml_{name}. {INPLACE_GRADIENTS[engine.unary(function).derivative]}"
        summary = f"Computes ggml_{name} in the memory of a."
        build.__doc__ = docstring(summary, text, "; overwritten", "View of all of a", "")
    else:
        gradient = f"The gradient flows to a, {slope}." if slope else \
            "The derivative is 0 wherever it exists, so no gradient flows to a."
        build.__doc__ = docstring(does + ".", f"{remarks} {gradient}".strip(), "",
                                  f"Tensor of a's shape and type{values}", see)
    return build

cdef int add_builders(dict space) except -1:
    cdef int function
    cdef bint inplace
    for function in range(GGML_UNARY_OP_COUNT):
        name = engine.unary_name(function).decode().lower()
        for inplace in range(2 if name in TEXTS and name not in WITHOUT_INPLACE else name in TEXTS):
            build = builder(function, name, inplace)
            space[build.__name__] = build
    return 0

add_builders(globals())

# ---- xIELU -----------------------------------------------------------------------------------------------------------
cdef float softplus(float x) noexcept:
    return <float>(x if x > 20 else log1p(exp(x)))

def ggml_xielu(ctx, a, alpha_n, alpha_p, beta, eps):
    """Computes xIELU (arXiv:2411.13010), a quadratic unit with an expanded exponential below 0.

    With p = softplus(alpha_p) and n = beta + softplus(alpha_n), an element x becomes

        p * x^2 + beta * x                          where x > 0,
        n * (expm1(min(x, eps)) - x) + beta * x     elsewhere.

    The gradient flows to a only; the parameters are numbers.

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
    cdef ggml_tensor node
    cdef gg_unary_params *q = unary_params(&node)
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef float linear = arg_float(beta, b"beta")
    node_like(&node, GGML_OP_UNARY, x.type, x)
    q.function = GGML_UNARY_OP_XIELU
    q.alpha_n = linear + softplus(arg_float(alpha_n, b"alpha_n"))
    q.alpha_p = softplus(arg_float(alpha_p, b"alpha_p"))
    q.beta = linear
    q.eps = arg_float(eps, b"eps")
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

cdef ggml_tensor *xielu_gradient(ggml_context *ctx, ggml_tensor *t, ggml_tensor *g) except NULL:
    """dx = g (beta + 2 p x) where x > 0, else g (beta + n (exp(x) [x <= eps] - 1)), with the p and n of ggml_xielu.

    Each side is computed from a clamped x: that of the other sign would overflow, and 0 times infinity is NaN.
    """
    cdef ggml_tensor *x = t.src[0]
    cdef gg_unary_params *q = unary_params(t)
    cdef float n = q.alpha_n, p = q.alpha_p, beta = q.beta, eps = q.eps
    cdef ggml_tensor *positive = step(ctx, x)
    cdef ggml_tensor *slope_above = scale(ctx, clamp(ctx, x, 0, INFINITY, False), 2 * p, 0, False)
    cdef ggml_tensor *low = clamp(ctx, x, -INFINITY, 0, False)
    cdef ggml_tensor *expm1_slope = clamp_back(ctx, exp_of(ctx, low), low, -INFINITY, eps)
    cdef ggml_tensor *not_positive = scale(ctx, positive, -1, 1, False)
    cdef ggml_tensor *slope_below = mul(ctx, not_positive, scale(ctx, expm1_slope, n, -n, False))
    return mul(ctx, g, scale(ctx, add(ctx, slope_above, slope_below), 1, beta, False))

# ---- gradients of activations: nodes SILU_BACK, GELU_BACK, ... = a f'(b) ---------------------------------------------
cdef inline object back_of(object ctx, const char *name, int op, object a, object b):
    """What the public function `name` returns: a node that multiplies a by f'(b)."""
    cdef ggml_context *c = arg_context(ctx, name)
    return wrap_tensor(node2(c, op, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ggml_silu_back(ctx, a, b):
    """Computes the gradient of ggml_silu: a * s * (1 + b * (1 - s)) with s = sigmoid(b).

    The gradient flows to a and to b, so second derivatives are available.

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
    return back_of(ctx, b"ggml_silu_back", GGML_OP_SILU_BACK, a, b)

def ggml_gelu_back(ctx, a, b):
    """Computes the gradient of ggml_gelu: a times the derivative of the tanh form at b.

    The gradient flows to a and to b.

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
    return back_of(ctx, b"ggml_gelu_back", GGML_OP_GELU_BACK, a, b)

def ggml_gelu_quick_back(ctx, a, b):
    """Computes the gradient of ggml_gelu_quick: a * s * (1 + 1.702 * b * (1 - s)) with s = sigmoid(1.702 * b).

    The gradient flows to a and to b.

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
    return back_of(ctx, b"ggml_gelu_quick_back", GGML_OP_GELU_QUICK_BACK, a, b)

def ggml_gelu_erf_back(ctx, a, b):
    """Computes the gradient of ggml_gelu_erf: a * (Phi(b) + b * phi(b)).

    Phi is the normal distribution function and phi its density. The gradient flows to a and to b.

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
    return back_of(ctx, b"ggml_gelu_erf_back", GGML_OP_GELU_ERF_BACK, a, b)

def ggml_elu_back(ctx, a, b):
    """Computes the gradient of ggml_elu: a where b > 0, else a * exp(b).

    The gradient flows to a and to b.

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
    return back_of(ctx, b"ggml_elu_back", GGML_OP_ELU_BACK, a, b)

cdef ggml_tensor *activation_back(ggml_context *ctx, int function, ggml_tensor *g, ggml_tensor *x) except NULL:
    cdef int back = engine.unary(function).back
    if function == GGML_UNARY_OP_RELU:
        return mul(ctx, g, step(ctx, x))
    if back == GGML_OP_NONE:
        fail(ValueError, f"UNARY function {function} has no operation for its gradient")
    return node2(ctx, back, g, x)

cdef float GELU_K = 1.5957691216057308      # 2 sqrt(2 / pi), of the tanh form written with the logistic function
cdef float GELU_A = 0.044715                # factor of x^3 in the tanh form
cdef float GELU_QUICK_K = 1.702
cdef float INV_SQRT_2PI = 0.3989422804014327

cdef ggml_tensor *second_derivative(ggml_context *ctx, int op, ggml_tensor *x) except NULL:
    """f''(x) of the function f whose gradient the operation `op` computes.

    x is clamped first: beyond the bounds f'' is 0 in f32, while powers of x would overflow.
    """
    if op == GGML_OP_ELU_BACK:              # exp(x) where x < 0, else 0
        return mul(ctx, exp_of(ctx, clamp(ctx, x, -INFINITY, 0, False)), step(ctx, neg(ctx, x)))
    if op == GGML_OP_GELU_ERF_BACK:         # (2 - x^2) exp(-x^2 / 2) / sqrt(2 pi)
        x = sqr(ctx, clamp(ctx, x, -20, 20, False))
        return mul(ctx, scale(ctx, x, -INV_SQRT_2PI, 2 * INV_SQRT_2PI, False),
                   exp_of(ctx, scale(ctx, x, -0.5, 0, False)))
    return gate_second_derivative(ctx, op, x)

cdef ggml_tensor *gate_second_derivative(ggml_context *ctx, int op, ggml_tensor *x) except NULL:
    """f''(x) of f(x) = x s(v(x)) with the logistic function s: SiLU, GELU's sigmoid and tanh forms.

    f'' = s' (2 v' + x v'' + x v'^2 (1 - 2 s)) with s' = s - s^2.
    """
    cdef float k
    cdef ggml_tensor *s
    cdef ggml_tensor *factor      # of s'
    cdef ggml_tensor *x2
    cdef ggml_tensor *v_slope
    if op == GGML_OP_GELU_BACK:   # v = k (x + a x^3), v' = k + 3 k a x^2, x v'' = 6 k a x^2
        k = GELU_K
        x = clamp(ctx, x, -20, 20, False)
        x2 = sqr(ctx, x)
        v_slope = scale(ctx, x2, 3 * k * GELU_A, k, False)
        s = sigmoid(ctx, mul(ctx, x, scale(ctx, x2, k * GELU_A, k, False)))
        factor = add(ctx, scale(ctx, x2, 12 * k * GELU_A, 2 * k, False),
                     mul(ctx, mul(ctx, x, sqr(ctx, v_slope)), scale(ctx, s, -2, 1, False)))
    else:                         # v = k x
        k = GELU_QUICK_K if op == GGML_OP_GELU_QUICK_BACK else 1
        x = clamp(ctx, x, -100, 100, False)
        s = sigmoid(ctx, scale(ctx, x, k, 0, False))
        factor = scale(ctx, mul(ctx, x, scale(ctx, s, -2, 1, False)), k * k, 2 * k, False)
    return mul(ctx, factor, sub(ctx, s, sqr(ctx, s)))

cdef int grad_activation_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = dy f'(x): d(dy) = g f'(x), dx = g dy f''(x)."""
    cdef ggml_tensor *dy = t.src[0]
    cdef ggml_tensor *x = t.src[1]
    b.require_not_overwritten(t, x)
    if b.needs(dy):
        b.add(dy, node2(b.ctx, t.op, g, x))
    if b.needs(x):
        b.require_not_overwritten(t, dy)
        b.add(x, mul(b.ctx, mul(b.ctx, g, dy), second_derivative(b.ctx, t.op, x)))
    return 0

# ---- the gradient of UNARY -------------------------------------------------------------------------------------------
cdef int grad_unary(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = f(x): dx = g f'(x)."""
    cdef int function = unary_params(t).function, derivative = engine.unary(function).derivative
    if derivative == GG_DERIVATIVE_ZERO:
        return 0
    if derivative == GG_DERIVATIVE_NUMBER:      # NEG
        return b.add(t.src[0], neg(b.ctx, g))
    if derivative == GG_DERIVATIVE_RESULT:
        b.require_not_overwritten(t, t)
        return b.add(t.src[0], gradient_from_result(b.ctx, function, g, t))
    b.require_not_overwritten(t, t.src[0])
    if function == GGML_UNARY_OP_XIELU:
        return b.add(t.src[0], xielu_gradient(b.ctx, t, g))
    return b.add(t.src[0], gradient_from_argument(b.ctx, function, g, t.src[0]))

cdef ggml_tensor *gradient_from_result(ggml_context *ctx, int function, ggml_tensor *g, ggml_tensor *y) except NULL:
    """g f'(x), where y = f(x)."""
    if function == GGML_UNARY_OP_TANH:      # g (1 - y^2)
        return sub(ctx, g, mul(ctx, g, sqr(ctx, y)))
    if function == GGML_UNARY_OP_SIGMOID:   # g (y - y^2)
        return mul(ctx, g, sub(ctx, y, sqr(ctx, y)))
    if function == GGML_UNARY_OP_EXP:       # g y
        return mul(ctx, g, y)
    if function == GGML_UNARY_OP_EXPM1:     # g (1 + y)
        return add(ctx, g, mul(ctx, g, y))
    return mul(ctx, g, step(ctx, y))        # RELU: g step(x), and step(x) = step(y)

cdef ggml_tensor *gradient_from_argument(ggml_context *ctx, int function, ggml_tensor *g, ggml_tensor *x) except NULL:
    """g f'(x)."""
    cdef ggml_tensor *slope
    if function == GGML_UNARY_OP_ABS:       # g sgn(x)
        return mul(ctx, g, unary(ctx, GGML_UNARY_OP_SGN, x, False))
    if function == GGML_UNARY_OP_SOFTPLUS:  # g sigmoid(x)
        return mul(ctx, g, sigmoid(ctx, x))
    if function not in (GGML_UNARY_OP_HARDSIGMOID, GGML_UNARY_OP_HARDSWISH):
        return activation_back(ctx, function, g, x)
    slope = scale(ctx, clamp_back(ctx, g, x, -3, 3), 1.0 / 6, 0, False)     # g hardsigmoid'(x)
    if function == GGML_UNARY_OP_HARDSIGMOID:
        return slope
    # HARDSWISH is x hardsigmoid(x): g hardsigmoid(x) + g hardsigmoid'(x) x; an infinite x times a slope of 0 is NaN
    return add(ctx, mul(ctx, g, unary(ctx, GGML_UNARY_OP_HARDSIGMOID, x, False)),
               mul(ctx, slope, clamp(ctx, x, -3, 3, False)))

gradients[GGML_OP_UNARY] = grad_unary
gradients[GGML_OP_SILU_BACK] = gradients[GGML_OP_ELU_BACK] = grad_activation_back
gradients[GGML_OP_GELU_BACK] = gradients[GGML_OP_GELU_QUICK_BACK] = grad_activation_back
gradients[GGML_OP_GELU_ERF_BACK] = grad_activation_back
