"""Optimiser steps as operations: AdamW and stochastic gradient descent."""
from .._core cimport (
    arg_context, arg_tensor, ggml_context, ggml_tensor, node_append, node_in_place, node_like, wrap_tensor,
)
from .._enums cimport GGML_OP_OPT_STEP_ADAMW, GGML_OP_OPT_STEP_SGD

def ggml_opt_step_adamw(ctx, a, grad, m, v, adamw_params):
    """Performs one AdamW step (arXiv:1711.05101) on a parameter and its two moments.

    Each element g of grad changes the elements of m, v and a at its position:

        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        a = a * (1 - alpha * wd) - alpha * (m * h1) / (sqrt(v * h2) + eps)

    The step takes place when the graph is computed; the caller updates h1 and h2 before each step. There is no
    gradient.

    Args:
        ctx: context that receives the node.
        a: parameter, f32, any shape, marked by ggml_set_param; overwritten.
        grad: its gradient, f32, of the shape of a.
        m: first moment, f32, of the shape of a, 0 before the first step; overwritten.
        v: second moment, f32, of the shape of a, 0 before the first step; overwritten.
        adamw_params: f32 [7], contiguous: alpha (learning rate), beta1, beta2, eps, wd (weight decay),
            h1 = 1 / (1 - beta1^t), h2 = 1 / (1 - beta2^t), where t counts the steps from 1.
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not a parameter, a shape differs, a type is not f32, or adamw_params is not 7 contiguous
            elements.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_opt_step_adamw")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&node, GGML_OP_OPT_STEP_ADAMW, x.type, x)
    node.src[0], node.src[1] = x, arg_tensor(grad, b"grad")
    node.src[2], node.src[3] = arg_tensor(m, b"m"), arg_tensor(v, b"v")
    node.src[4] = arg_tensor(adamw_params, b"adamw_params")
    node_in_place(&node, x)
    return wrap_tensor(node_append(c, &node))

def ggml_opt_step_sgd(ctx, a, grad, sgd_params):
    """Performs one step of gradient descent on a parameter: a = a * (1 - alpha * wd) - alpha * grad.

    The step takes place when the graph is computed. There is no gradient.

    Args:
        ctx: context that receives the node.
        a: parameter, f32, any shape, marked by ggml_set_param; overwritten.
        grad: its gradient, f32, of the shape of a.
        sgd_params: f32 [2], contiguous: alpha (learning rate) and wd (weight decay).
    Returns:
        View of all of a.
    Raises:
        ValueError: a is not a parameter, grad has another shape, a type is not f32, or sgd_params is not 2
            contiguous elements.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_opt_step_sgd")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&node, GGML_OP_OPT_STEP_SGD, x.type, x)
    node.src[0], node.src[1], node.src[2] = x, arg_tensor(grad, b"grad"), arg_tensor(sgd_params, b"sgd_params")
    node_in_place(&node, x)
    return wrap_tensor(node_append(c, &node))
