"""Images resized by interpolation, with the gradient."""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_extent, arg_int32, arg_tensor, fail, ggml_context, ggml_tensor, node_append, node_init,
    wrap_tensor,
)
from .._enums cimport GGML_OP_UPSCALE, GGML_OP_UPSCALE_BACK, GGML_TYPE_F32
from .._graph.grad cimport Backward, gradients
from .._params cimport upscale_params

cdef ggml_tensor *resize_node(ggml_context *ctx, int op, ggml_tensor *a, int type, const int64_t *ne,
                              int mode) except NULL:
    """A node of UPSCALE, or of its gradient UPSCALE_BACK, with the result [ne0, ne1, ne2, ne3]."""
    cdef ggml_tensor node
    node_init(&node, op, type, ne[0], ne[1], ne[2], ne[3])
    upscale_params(&node).mode = mode
    node.src[0] = a
    return node_append(ctx, &node)

cdef object interpolate_of(object ctx, const char *name, object a, object ne0, object ne1, object ne2, object ne3,
                           object mode):
    """What the public function `name` returns: a interpolated to the sizes."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef int64_t[4] ne = [arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"),
                          arg_extent(ne3, b"ne3")]
    return wrap_tensor(resize_node(c, GGML_OP_UPSCALE, x, x.type, ne, arg_int32(mode, b"mode")))

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
        Tensor [width * scale_factor, height * scale_factor, channels, batch] of a's type.
    Raises:
        ValueError: scale_factor is less than 1, mode is invalid, a is not of a float type, or the result is too
            large.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_upscale")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef int64_t factor = arg_int32(scale_factor, b"scale_factor"), limit = <int64_t>1 << 31
    if factor < 1:
        fail(ValueError, f"scale_factor is {factor}: need 1 or more")
    if x.ne[0] >= limit or x.ne[1] >= limit:
        fail(ValueError, f"a is too large: {x.ne[0]} by {x.ne[1]}")
    cdef int64_t[4] ne = [x.ne[0] * factor, x.ne[1] * factor, x.ne[2], x.ne[3]]
    return wrap_tensor(resize_node(c, GGML_OP_UPSCALE, x, x.type, ne, arg_int32(mode, b"mode")))

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
        Tensor [ne0, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: a size is negative, mode is invalid, or a is empty or not of a float type.
        MemoryError: the context is full.
    See also:
        ggml_interpolate, the later name of this operation.
    """
    return interpolate_of(ctx, b"ggml_upscale_ext", a, ne0, ne1, ne2, ne3, mode)

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
        Tensor [ne0, ne1, ne2, ne3] of a's type.
    Raises:
        ValueError: a size is negative, mode is invalid, or a is empty or not of a float type.
        MemoryError: the context is full.
    """
    return interpolate_of(ctx, b"ggml_interpolate", a, ne0, ne1, ne2, ne3, mode)

cdef int grad_upscale(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = W x with the weights W of the interpolation, dx = W^T g: UPSCALE_BACK applies W^T, so its gradient is W g."""
    cdef ggml_tensor *x = t.src[0]
    cdef int op = GGML_OP_UPSCALE_BACK if t.op == GGML_OP_UPSCALE else GGML_OP_UPSCALE
    return b.add(x, resize_node(b.ctx, op, g, GGML_TYPE_F32, x.ne, upscale_params(t).mode))

gradients[GGML_OP_UPSCALE] = gradients[GGML_OP_UPSCALE_BACK] = grad_upscale
