"""Images resized by interpolation, with the gradient."""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_extent, arg_int32, arg_tensor, fail, ggml_context, ggml_tensor, node_append, node_init,
    wrap_tensor,
)
from .._enums cimport GGML_OP_UPSCALE, GGML_OP_UPSCALE_BACK, GGML_TYPE_F32
from .._graph.grad cimport Backward, gradients

# ---- images to other sizes -------------------------------------------------------------------------------------------
cdef ggml_tensor *interpolate(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, int mode) except NULL:
    return sized(ctx, GGML_OP_UPSCALE, a, a.type, ne0, ne1, ne2, ne3, mode)

cdef ggml_tensor *sized(ggml_context *ctx, int op, ggml_tensor *a, int type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, int mode) except NULL:
    cdef ggml_tensor d
    node_init(&d, op, type, ne0, ne1, ne2, ne3)
    d.op_params[0] = mode
    d.src[0] = a
    return node_append(ctx, &d)

cdef int grad_upscale(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """UPSCALE and UPSCALE_BACK: each is the other's adjoint."""
    cdef ggml_tensor *a = t.src[0]
    cdef int op = GGML_OP_UPSCALE_BACK if t.op == GGML_OP_UPSCALE else GGML_OP_UPSCALE
    return b.add(a, sized(b.ctx, op, g, GGML_TYPE_F32, a.ne[0], a.ne[1], a.ne[2], a.ne[3], t.op_params[0]))

def ggml_upscale(ctx, a, scale_factor, mode):
    """a with dimensions 0 and 1 `scale_factor` times as large, by interpolation (GGML_SCALE_MODE_* and _FLAG_*)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_upscale")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef int64_t k = arg_int32(scale_factor, b"scale_factor"), most = <int64_t>1 << 31
    if k < 1:
        fail(ValueError, f"scale_factor is {k}: need 1 or more")
    if x.ne[0] >= most or x.ne[1] >= most:
        fail(ValueError, f"a is too large: {x.ne[0]} by {x.ne[1]}")
    return wrap_tensor(interpolate(c, x, x.ne[0] * k, x.ne[1] * k, x.ne[2], x.ne[3], arg_int32(mode, b"mode")))

cdef object resized(ggml_context *c, object a, object ne0, object ne1, object ne2, object ne3, object mode):
    return wrap_tensor(interpolate(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3"),
                         arg_int32(mode, b"mode")))

def ggml_upscale_ext(ctx, a, ne0, ne1, ne2, ne3, mode):
    """a in another size, by interpolation in dimensions 0 and 1 (GGML_SCALE_MODE_*, _FLAG_*), nearest in 2 and 3."""
    return resized(arg_context(ctx, b"ggml_upscale_ext"), a, ne0, ne1, ne2, ne3, mode)

def ggml_interpolate(ctx, a, ne0, ne1, ne2, ne3, mode):
    """The same as ggml_upscale_ext; sizes may be smaller, too."""
    return resized(arg_context(ctx, b"ggml_interpolate"), a, ne0, ne1, ne2, ne3, mode)

gradients[GGML_OP_UPSCALE] = gradients[GGML_OP_UPSCALE_BACK] = grad_upscale
