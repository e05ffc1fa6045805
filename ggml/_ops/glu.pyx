"""Gated linear units (arXiv:2002.05202), with their gradient."""
from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from .._core cimport (
    arg_bool, arg_context, arg_float, arg_int32, arg_tensor, ggml_context, ggml_tensor,
    node2, node_append, node_init, wrap_tensor,
)
from .._enums cimport (
    GGML_GLU_OP_GEGLU, GGML_GLU_OP_GEGLU_ERF, GGML_GLU_OP_GEGLU_QUICK, GGML_GLU_OP_REGLU, GGML_GLU_OP_SWIGLU,
    GGML_GLU_OP_SWIGLU_OAI, GGML_OP_GLU, GGML_OP_SILU_BACK, GGML_UNARY_OP_GELU, GGML_UNARY_OP_GELU_ERF,
    GGML_UNARY_OP_GELU_QUICK, GGML_UNARY_OP_RELU, GGML_UNARY_OP_SILU,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport glu_params
from .elementwise cimport clamp, clamp_back, mul, scale
from .shape cimport concat, view_slice
from .unary cimport activation_back, sigmoid, unary

# ---- builders --------------------------------------------------------------------------------------------------------
cdef ggml_tensor *glu(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b, bint swapped, float alpha,
                      float limit) except NULL:
    """f(a) * b, or with b = NULL the same of the two halves of each row of a; alpha, limit: of SWIGLU_OAI."""
    cdef ggml_tensor node
    node_init(&node, GGML_OP_GLU, a.type, a.ne[0] if b != NULL else a.ne[0] // 2, a.ne[1], a.ne[2], a.ne[3])
    glu_params(&node).function, glu_params(&node).swapped = op, swapped
    glu_params(&node).alpha, glu_params(&node).limit = alpha, limit
    node.src[0], node.src[1] = a, b
    return node_append(ctx, &node)

cdef inline object glu_of_halves(object ctx, const char *name, int op, object a, bint swapped):
    """What the public function `name` returns: the unit of the two halves of each row of a."""
    cdef ggml_context *c = arg_context(ctx, name)
    return wrap_tensor(glu(c, op, arg_tensor(a, b"a"), NULL, swapped, 0, 0))

cdef inline object glu_of_pair(object ctx, const char *name, int op, object a, object b):
    """What the public function `name` returns: the unit of a and b."""
    cdef ggml_context *c = arg_context(ctx, name)
    return wrap_tensor(glu(c, op, arg_tensor(a, b"a"), arg_tensor(b, b"b"), False, 0, 0))

def ggml_glu(ctx, a, op, swapped):
    """Computes a gated linear unit (arXiv:2002.05202) over the two halves of each row: f(x) * gate.

    x is the first half of the row and the gate is the second half; with swapped set, the gate comes first. op selects
    f. As in the C library, GGML_GLU_OP_SWIGLU_OAI has alpha = limit = 0 here, so its result is min(x, 0) / 2: use
    ggml_swiglu_oai instead. The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
        op: GGML_GLU_OP_*.
        swapped: True if f is applied to the second half.
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        TypeError: op is not an integer.
        ValueError: ne0 of a is odd, op selects no unit, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    See also:
        ggml_glu_split for halves in separate tensors.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_glu")
    return wrap_tensor(glu(c, arg_int32(op, b"op"), arg_tensor(a, b"a"), NULL, arg_bool(swapped, b"swapped"), 0, 0))

def ggml_glu_split(ctx, a, b, op):
    """Computes a gated linear unit (arXiv:2002.05202) of two tensors: f(a) * b.

    op selects f. As in the C library, GGML_GLU_OP_SWIGLU_OAI has alpha = limit = 0 here, so its result is min(a, 0) /
    2: use ggml_swiglu_oai instead. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: argument of f, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
        op: GGML_GLU_OP_*.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: op is not an integer.
        ValueError: the shapes of a and b differ, op selects no unit, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_glu_split")
    return wrap_tensor(glu(c, arg_int32(op, b"op"), arg_tensor(a, b"a"), arg_tensor(b, b"b"), False, 0, 0))

def ggml_swiglu_oai(ctx, a, b, alpha, limit):
    """Computes the clamped SwiGLU of the gpt-oss models: x * sigmoid(alpha * x) * (y + 1).

    x is min(a, limit), y is b clamped to -limit .. limit. The gradient flows to a and b where they are within their
    bounds.

    Args:
        ctx: context that receives the result.
        a: argument of the activation, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
        alpha: factor inside the sigmoid, a number; gpt-oss uses 1.702.
        limit: bound of a and b, a number; gpt-oss uses 7.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: alpha or limit is not a number.
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_swiglu_oai")
    return wrap_tensor(glu(c, GGML_GLU_OP_SWIGLU_OAI, arg_tensor(a, b"a"), arg_tensor(b, b"b"), False,
                           arg_float(alpha, b"alpha"), arg_float(limit, b"limit")))

def ggml_reglu(ctx, a):
    """Computes ReGLU of each row: max(first half, 0) * second half.

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: argument and gate side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_halves(ctx, b"ggml_reglu", GGML_GLU_OP_REGLU, a, False)

def ggml_reglu_swapped(ctx, a):
    """Computes ReGLU of rows that begin with the gate: first half * max(second half, 0).

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: gate and argument side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_halves(ctx, b"ggml_reglu_swapped", GGML_GLU_OP_REGLU, a, True)

def ggml_reglu_split(ctx, a, b):
    """Computes ReGLU of two tensors: max(a, 0) * b.

    The gradient flows to a where it is positive, and to b.

    Args:
        ctx: context that receives the result.
        a: argument of the rectifier, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_pair(ctx, b"ggml_reglu_split", GGML_GLU_OP_REGLU, a, b)

def ggml_geglu(ctx, a):
    """Computes GEGLU of each row: gelu(first half) * second half, with the tanh form of ggml_gelu.

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: argument and gate side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_halves(ctx, b"ggml_geglu", GGML_GLU_OP_GEGLU, a, False)

def ggml_geglu_swapped(ctx, a):
    """Computes GEGLU of rows that begin with the gate: first half * gelu(second half).

    gelu is the tanh form of ggml_gelu. The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: gate and argument side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_halves(ctx, b"ggml_geglu_swapped", GGML_GLU_OP_GEGLU, a, True)

def ggml_geglu_split(ctx, a, b):
    """Computes GEGLU of two tensors: gelu(a) * b, with the tanh form of ggml_gelu.

    The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: argument of gelu, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_pair(ctx, b"ggml_geglu_split", GGML_GLU_OP_GEGLU, a, b)

def ggml_swiglu(ctx, a):
    """Computes SwiGLU of each row: silu(first half) * second half.

    silu(x) is x * sigmoid(x). The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: argument and gate side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_halves(ctx, b"ggml_swiglu", GGML_GLU_OP_SWIGLU, a, False)

def ggml_swiglu_swapped(ctx, a):
    """Computes SwiGLU of rows that begin with the gate: first half * silu(second half).

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: gate and argument side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_halves(ctx, b"ggml_swiglu_swapped", GGML_GLU_OP_SWIGLU, a, True)

def ggml_swiglu_split(ctx, a, b):
    """Computes SwiGLU of two tensors: silu(a) * b.

    This is the gate of LLaMA's feed-forward layers in one pass instead of ggml_silu and ggml_mul. The gradient
    flows to a and b.

    Args:
        ctx: context that receives the result.
        a: argument of silu, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_pair(ctx, b"ggml_swiglu_split", GGML_GLU_OP_SWIGLU, a, b)

def ggml_geglu_erf(ctx, a):
    """Computes GEGLU of each row with the exact GELU: gelu_erf(first half) * second half.

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: argument and gate side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_halves(ctx, b"ggml_geglu_erf", GGML_GLU_OP_GEGLU_ERF, a, False)

def ggml_geglu_erf_swapped(ctx, a):
    """Computes GEGLU with the exact GELU of rows that begin with the gate: first half * gelu_erf(second half).

    The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: gate and argument side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_halves(ctx, b"ggml_geglu_erf_swapped", GGML_GLU_OP_GEGLU_ERF, a, True)

def ggml_geglu_erf_split(ctx, a, b):
    """Computes GEGLU of two tensors with the exact GELU: gelu_erf(a) * b.

    The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: argument of the exact GELU, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_pair(ctx, b"ggml_geglu_erf_split", GGML_GLU_OP_GEGLU_ERF, a, b)

def ggml_geglu_quick(ctx, a):
    """Computes GEGLU of each row with the sigmoid form of GELU: x * sigmoid(1.702 * x) * second half.

    x is the first half of the row. The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: argument and gate side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_halves(ctx, b"ggml_geglu_quick", GGML_GLU_OP_GEGLU_QUICK, a, False)

def ggml_geglu_quick_swapped(ctx, a):
    """Computes GEGLU with the sigmoid form of GELU of rows that begin with the gate: first half * gelu_quick(x).

    x is the second half of the row, gelu_quick(x) = x * sigmoid(1.702 * x). The gradient flows to both halves.

    Args:
        ctx: context that receives the result.
        a: gate and argument side by side, f32, f16 or bf16, [2 * n, ne1, ne2, ne3].
    Returns:
        Tensor [n, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: ne0 of a is odd, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_halves(ctx, b"ggml_geglu_quick_swapped", GGML_GLU_OP_GEGLU_QUICK, a, True)

def ggml_geglu_quick_split(ctx, a, b):
    """Computes GEGLU of two tensors with the sigmoid form of GELU: a * sigmoid(1.702 * a) * b.

    The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: argument of the activation, f32, f16 or bf16, any shape.
        b: gate, f32, f16 or bf16, of the shape of a.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: the shapes of a and b differ, or a type is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return glu_of_pair(ctx, b"ggml_geglu_quick_split", GGML_GLU_OP_GEGLU_QUICK, a, b)

# ---- the gradient ----------------------------------------------------------------------------------------------------
cdef int activation_of(int op) noexcept:
    """The function of UNARY that a unit applies; SWIGLU_OAI has one of its own."""
    if op == GGML_GLU_OP_SWIGLU:
        return GGML_UNARY_OP_SILU
    if op == GGML_GLU_OP_GEGLU:
        return GGML_UNARY_OP_GELU
    if op == GGML_GLU_OP_GEGLU_ERF:
        return GGML_UNARY_OP_GELU_ERF
    if op == GGML_GLU_OP_GEGLU_QUICK:
        return GGML_UNARY_OP_GELU_QUICK
    return GGML_UNARY_OP_RELU

cdef ggml_tensor *gate_gradient(ggml_context *c, ggml_tensor *t, ggml_tensor *g, ggml_tensor *x,
                                ggml_tensor *y) except NULL:
    """With respect to y: g f(x), for SWIGLU_OAI only where |y| <= limit."""
    cdef float alpha = glu_params(t).alpha, limit = glu_params(t).limit
    if glu_params(t).function != GGML_GLU_OP_SWIGLU_OAI:
        return mul(c, g, unary(c, activation_of(glu_params(t).function), x, False))
    x = clamp(c, x, -INFINITY, limit, False)
    x = mul(c, x, sigmoid(c, scale(c, x, alpha, 0, False)))
    return clamp_back(c, mul(c, g, x), y, -limit, limit)

cdef ggml_tensor *argument_gradient(ggml_context *c, ggml_tensor *t, ggml_tensor *g, ggml_tensor *x,
                                    ggml_tensor *y) except NULL:
    """With respect to x: g y f'(x), for SWIGLU_OAI g (y + 1) f'(x) where x <= limit.

    The function of SWIGLU_OAI is f(x) = x sigmoid(alpha x) = silu(alpha x) / alpha, so f'(x) = silu'(alpha x).
    """
    cdef float alpha = glu_params(t).alpha, limit = glu_params(t).limit
    if glu_params(t).function != GGML_GLU_OP_SWIGLU_OAI:
        return activation_back(c, activation_of(glu_params(t).function), mul(c, g, y), x)
    cdef ggml_tensor *alpha_x = scale(c, clamp(c, x, -INFINITY, limit, False), alpha, 0, False)
    g = mul(c, g, scale(c, clamp(c, y, -limit, limit, False), 1, 1, False))
    return clamp_back(c, node2(c, GGML_OP_SILU_BACK, g, alpha_x), x, -INFINITY, limit)

cdef int grad_glu(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = f(x) y: dx = g y f'(x), dy = g f(x)."""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *a = t.src[0]
    cdef ggml_tensor *gate = t.src[1]
    cdef int64_t n = t.ne[0]
    cdef bint swapped = glu_params(t).swapped
    b.require_not_overwritten(t, a)
    if gate != NULL:
        b.require_not_overwritten(t, gate)
        if b.needs(a):
            b.add(a, argument_gradient(c, t, g, a, gate))
        if b.needs(gate):
            b.add(gate, gate_gradient(c, t, g, a, gate))
        return 0
    cdef ggml_tensor *x = view_slice(c, a, 0, n if swapped else 0, n)
    cdef ggml_tensor *y = view_slice(c, a, 0, 0 if swapped else n, n)
    cdef ggml_tensor *dx = argument_gradient(c, t, g, x, y)
    cdef ggml_tensor *dy = gate_gradient(c, t, g, x, y)
    return b.add(a, concat(c, dy, dx, 0) if swapped else concat(c, dx, dy, 0))

gradients[GGML_OP_GLU] = grad_glu
