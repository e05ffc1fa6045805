"""Element-by-element operations: arithmetic, functions and activations."""

import ctypes

import ggml

from .._api import api
from .._arena import Context, Tensor, binary, exchanged, shapes_text, unary


@api
def ggml_sqr(ctx: Context, a: Tensor) -> Tensor:
    """Squares each element.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_sqr", "SQR", a)


@api
def ggml_sqrt(ctx: Context, a: Tensor) -> Tensor:
    """Computes the square root of each element.

    NaN for negative elements. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_sqrt", "SQRT", a)


@api
def ggml_log(ctx: Context, a: Tensor) -> Tensor:
    """Computes the natural logarithm of each element.

    -inf for 0, NaN for negative elements. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_log", "LOG", a)


@api
def ggml_log_inplace(ctx: Context, a: Tensor) -> Tensor:
    """Replaces each element by its natural logarithm, in the tensor's own memory.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape. Its values are overwritten when the graph is computed.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    return unary(ctx, "ggml_log_inplace", "LOG", a, grad=False)


@api
def ggml_abs(ctx: Context, a: Tensor) -> Tensor:
    """Computes the absolute value of each element.

    The gradient flows to a, times the sign.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_abs", "ABS", a)


@api
def ggml_sgn(ctx: Context, a: Tensor) -> Tensor:
    """Computes the sign of each element: -1, 0 or 1.

    The gradient is zero.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_sgn", "SGN", a)


@api
def ggml_neg(ctx: Context, a: Tensor) -> Tensor:
    """Negates each element.

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_neg", "NEG", a)


@api
def ggml_step(ctx: Context, a: Tensor) -> Tensor:
    """Computes the step function: 1 for elements greater than 0, else 0.

    The gradient is zero.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_step", "STEP", a)


@api
def ggml_gelu(ctx: Context, a: Tensor) -> Tensor:
    """Applies GELU to each element, by its approximation with tanh (arXiv:1606.08415).

    0.5 * a * (1 + tanh(sqrt(2 / pi) * (a + 0.044715 * a^3))). The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_gelu", "GELU", a)


@api
def ggml_silu(ctx: Context, a: Tensor) -> Tensor:
    """Applies SiLU to each element: a / (1 + exp(-a)).

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return unary(ctx, "ggml_silu", "SILU", a)


@api
def ggml_silu_back(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Computes the gradient of ggml_silu: b * s * (1 + a * (1 - s)) with s = 1 / (1 + exp(-a)).

    The current surface takes the two tensors in the other order. Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape: the argument of ggml_silu.
        b: f32 or f16, the shape of a: the gradient of its result.
    Returns:
        Tensor with the type and shape of b.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the shapes differ, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return exchanged(ctx, "ggml_silu_back", "SILU_BACK", a, b)


@api
def ggml_relu(ctx: Context, a: Tensor) -> Tensor:
    """Computes max(a, 0) of each element.

    Its gradient has the wrong sign, as in the library of May 2023: results of old programs are reproduced.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    result = ggml.ggml_relu(ctx.engine, a.engine)
    if a.struct.grad:
        result = ggml.ggml_map_custom1(ctx.engine, result, _copy, 1, None)
        ggml.ext.custom_set_backward(result, lambda e, t, g: ggml.ggml_neg(e, g))
    return ctx.node("RELU", result, a)


@ggml.ggml_custom1_op_t
def _copy(dst, a, ith, nth, userdata):
    """Copies a contiguous tensor. It is the forward pass of an operation that exists for its gradient."""
    ctypes.memmove(dst.contents.data, a.contents.data, ggml.ggml_nbytes(a))


@api
def ggml_add(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Adds two tensors element by element: a + b.

    Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or quantised, any shape.
        b: f32 or f16 (f32 if a is quantised), [n0, n1, n2, n3]; each dimension of a is a multiple of b's, which is
            tiled.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a dimension of a is not a multiple of b's, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return binary(ctx, "ggml_add", "ADD", a, b)


@api
def ggml_add_inplace(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Adds b to a, in a's own memory.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or quantised, any shape. Its values are overwritten when the graph is computed.
        b: f32 or f16 (f32 if a is quantised), [n0, n1, n2, n3]; each dimension of a is a multiple of b's, which is
            tiled.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a dimension of a is not a multiple of b's, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return binary(ctx, "ggml_add_inplace", "ADD", a, b, grad=False)


@api
def ggml_add1(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Adds the single element of b to all elements of a.

    Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
        b: f32 or f16 with one element, [1].
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: b has more than one element, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return binary(ctx, "ggml_add1", "ADD1", a, b)


@api
def ggml_sub(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Subtracts two tensors element by element: a - b.

    Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
        b: f32 or f16, [n0, n1, n2, n3]; each dimension of a is a multiple of b's, which is tiled.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a dimension of a is not a multiple of b's, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return binary(ctx, "ggml_sub", "SUB", a, b)


@api
def ggml_mul(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Multiplies two tensors element by element: a * b.

    Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
        b: f32 or f16, [n0, n1, n2, n3]; each dimension of a is a multiple of b's, which is tiled.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a dimension of a is not a multiple of b's, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return binary(ctx, "ggml_mul", "MUL", a, b)


@api
def ggml_div(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Divides two tensors element by element: a / b.

    Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
        b: f32 or f16, [n0, n1, n2, n3]; each dimension of a is a multiple of b's, which is tiled.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a dimension of a is not a multiple of b's, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return binary(ctx, "ggml_div", "DIV", a, b)


@api
def ggml_scale(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Multiplies all elements of a tensor by the element of another: a * b.

    The current surface takes a number instead of b. Gradients flow to a and b.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape.
        b: f32 or f16 with one element, [1]. It is read when the graph is computed.
    Returns:
        Tensor with the type and shape of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: b has more than one element, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena or the scratch buffer is full.
    """
    return ctx.node("SCALE", ggml.ggml_mul(ctx.engine, a.engine, _one(b).engine), a, b)


@api
def ggml_scale_inplace(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Multiplies a tensor by the element of another and stores the products in the tensor itself.

    No gradient.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape. Its values are overwritten when the graph is computed.
        b: f32 or f16 with one element, [1].
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: b has more than one element, or a type is not supported.
        RuntimeError: ctx or a tensor was freed.
        MemoryError: the arena is full.
    """
    return ctx.node("SCALE", ggml.ggml_mul_inplace(ctx.engine, a.engine, _one(b).engine), a, b, grad=False)


def _one(b):
    """b, which must have one element."""
    if ggml.ggml_nelements(b.engine) != 1:
        raise ValueError(f"{shapes_text(b=b)}: need one element")
    return b


@api
def ggml_clamp(ctx: Context, a: Tensor, min: float, max: float) -> Tensor:
    """Limits the elements of a to [min, max], in a's own memory.

    The current surface's function of this name creates a new tensor. A gradient through it is not possible, because
    a is overwritten: ggml_build_backward raises ValueError if one is needed.

    Args:
        ctx: context that receives the result.
        a: f32 or f16, any shape. Its values are overwritten when the graph is computed.
        min: lower limit.
        max: upper limit, not less than min.
    Returns:
        View of a.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: min is greater than max or one of them is NaN, or the type is not supported.
        RuntimeError: ctx or a was freed.
        MemoryError: the arena is full.
    """
    result = ggml.ggml_clamp_inplace(ctx.engine, a.engine, min, max)
    return ctx.node("CLAMP", result, a, ctx.filled((ctypes.c_float * 3)(min, max)))
