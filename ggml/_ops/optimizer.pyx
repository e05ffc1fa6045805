"""Optimiser steps as operations: AdamW and stochastic gradient descent."""
from .._core cimport (
    arg_context, arg_tensor, ggml_context, ggml_tensor, node_append, node_in_place, node_like, wrap_tensor,
)
from .._enums cimport GGML_OP_OPT_STEP_ADAMW, GGML_OP_OPT_STEP_SGD

# ---- optimiser steps ---------------------------------------------------------------------------------------------------
def ggml_opt_step_adamw(ctx, a, grad, m, v, adamw_params):
    """One AdamW step (arXiv:1711.05101) on parameter a, written over a and the moments m and v.

    adamw_params: f32 [7]: alpha, beta1, beta2, eps, weight decay, 1/(1-beta1^t), 1/(1-beta2^t)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_opt_step_adamw")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&d, GGML_OP_OPT_STEP_ADAMW, x.type, x)
    d.src[0], d.src[1], d.src[2], d.src[3], d.src[4] = x, arg_tensor(grad, b"grad"), arg_tensor(m, b"m"), arg_tensor(v, b"v"), arg_tensor(adamw_params, b"adamw_params")
    node_in_place(&d, x)
    return wrap_tensor(node_append(c, &d))

def ggml_opt_step_sgd(ctx, a, grad, sgd_params):
    """One step of gradient descent on parameter a, written over a. sgd_params: f32 [2]: alpha, weight decay."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_opt_step_sgd")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&d, GGML_OP_OPT_STEP_SGD, x.type, x)
    d.src[0], d.src[1], d.src[2] = x, arg_tensor(grad, b"grad"), arg_tensor(sgd_params, b"sgd_params")
    node_in_place(&d, x)
    return wrap_tensor(node_append(c, &d))
