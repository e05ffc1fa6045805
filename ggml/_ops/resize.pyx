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
    """Enlarges images by a whole factor with interpolation.

    Dimensions 0 and 1 are interpolated, dimensions 2 and 3 stay. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: images [width, height, channels, batch], f32, f16 or bf16.
        scale_factor: factor for width and height, 1 or more.
        mode: GGML_SCALE_MODE_NEAREST, GGML_SCALE_MODE_BILINEAR or GGML_SCALE_MODE_BICUBIC (Keys' cubic, a = -0.75);
            add GGML_SCALE_FLAG_ALIGN_CORNERS to let the centres of the corner pixels coincide.
    Returns:
        tensor [width * scale_factor, height * scale_factor, channels, batch] of a's type.
    Raises:
        ValueError: scale_factor is less than 1, mode is invalid, a is not of a float type, or the result is too
            large.
        MemoryError: the context is full.
    """
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
    """Interpolates a tensor to the sizes given.

    Dimensions 0 and 1 are interpolated according to mode, dimensions 2 and 3 take the nearest element. Sizes may be
    larger or smaller than those of a. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: images [width, height, channels, batch], f32, f16 or bf16.
        ne0: new width.
        ne1: new height.
        ne2: new size of dimension 2.
        ne3: new size of dimension 3.
        mode: GGML_SCALE_MODE_NEAREST, GGML_SCALE_MODE_BILINEAR or GGML_SCALE_MODE_BICUBIC, plus
            GGML_SCALE_FLAG_ALIGN_CORNERS where wanted.
    Returns:
        tensor [ne0, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: a size is negative, mode is invalid, or a is empty or not of a float type.
        MemoryError: the context is full.
    See also:
        ggml_interpolate, the later name of this operation.
    """
    return resized(arg_context(ctx, b"ggml_upscale_ext"), a, ne0, ne1, ne2, ne3, mode)

def ggml_interpolate(ctx, a, ne0, ne1, ne2, ne3, mode):
    """Resizes images to a larger or smaller size.

    The operation is that of ggml_upscale_ext: interpolation of dimensions 0 and 1, nearest elements in dimensions 2
    and 3. GGML_SCALE_FLAG_ANTIALIAS makes bilinear interpolation weight every source pixel that an output pixel
    covers when the image shrinks. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: images [width, height, channels, batch], f32, f16 or bf16.
        ne0: new width.
        ne1: new height.
        ne2: new size of dimension 2.
        ne3: new size of dimension 3.
        mode: GGML_SCALE_MODE_* plus any of GGML_SCALE_FLAG_ALIGN_CORNERS and GGML_SCALE_FLAG_ANTIALIAS; the latter
            has no effect on the modes nearest and bicubic.
    Returns:
        tensor [ne0, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: a size is negative, mode is invalid, or a is empty or not of a float type.
        MemoryError: the context is full.
    """
    return resized(arg_context(ctx, b"ggml_interpolate"), a, ne0, ne1, ne2, ne3, mode)

gradients[GGML_OP_UPSCALE] = gradients[GGML_OP_UPSCALE_BACK] = grad_upscale
