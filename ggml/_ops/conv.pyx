"""Convolutions and their patches (im2col), each with its gradient."""
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from .._core cimport (
    arg_bool, arg_buffer, arg_context, arg_int, arg_int32, arg_tensor, arg_type, fail, gg_types, ggml_context,
    ggml_tensor, node_append, node_init, node_like, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_COL2IM_1D, GGML_OP_CONV_2D, GGML_OP_CONV_2D_DW, GGML_OP_CONV_3D, GGML_OP_CONV_BACK_DATA,
    GGML_OP_CONV_BACK_KERNEL, GGML_OP_CONV_TRANSPOSE_1D, GGML_OP_CONV_TRANSPOSE_2D, GGML_OP_IM2COL, GGML_OP_IM2COL_3D,
    GGML_OP_IM2COL_3D_BACK, GGML_OP_IM2COL_BACK, GGML_TYPE_F32,
)
from .._graph.grad cimport Backward, gradients

cdef extern from "runtime/geometry.h" nogil:
    enum: GG_CONV_2D, GG_CONV_1D, GG_CONV_3D, GG_CONV_DEPTHWISE, GG_CONV_DEPTHWISE_1D
    ctypedef struct gg_conv:
        int kind
        int64_t s[3]
        int64_t p[3]
        int64_t d[3]
        int64_t ic, oc, n
    gg_conv gg_conv_of(const ggml_tensor *t)
    int64_t gg_conv_out(int64_t n, int64_t k, int64_t s, int64_t p, int64_t d)
    bint gg_conv_is_1d(int kind)
    bint gg_conv_is_depthwise(int kind)

# ---- sizes -------------------------------------------------------------------------------------------------------------
cdef int64_t places(int64_t n, int64_t k, int s, int p, int d) except -1:
    """Places of a window of k elements, d apart, over n elements with p more at each end, in steps of s."""
    if s < 1 or d < 1:
        fail(ValueError, f"stride is {s}, dilation is {d}: need 1 or more")
    if p < 0:
        fail(ValueError, f"padding is {p}: must not be negative")
    cdef int64_t out = gg_conv_out(n, k, s, p, d)
    if out < 0:
        fail(ValueError, f"a window of {k} elements (dilation {d}) does not fit into {n} with a padding of {p}")
    return out

cdef int64_t product(int64_t a, int64_t b) except -1:
    """Of two sizes."""
    if b and a > (<int64_t>1 << 62) // b:
        fail(ValueError, f"{a} x {b} elements are more than any memory holds")
    return a * b

cdef int64_t spread_over(int64_t n, int64_t k, int s, int p, int d) except -1:
    """Elements that windows of k cover whose places are n: the other way round."""
    if s < 1 or d < 1 or p < 0:
        fail(ValueError, f"stride is {s}, padding is {p}, dilation is {d}: need 1, 0 and 1 or more")
    if n < 1 or k < 1:
        fail(ValueError, f"a window of {k} elements at {n} places: need 1 or more of both")
    cdef int64_t out = product(n - 1, s) + product(k - 1, d) + 1 - 2 * <int64_t>p
    if out < 0:
        fail(ValueError, f"padding is {p}: more than windows of {k} at {n} places cover")
    return out

# ---- convolutions --------------------------------------------------------------------------------------------------------
cdef ggml_tensor *conv(ggml_context *ctx, int kind, ggml_tensor *w, ggml_tensor *x, int s0, int s1, int p0, int p1, int d0, int d1) except NULL:
    """Of one or two dimensions. Kernel [k..., ic, oc] (depthwise [k..., 1, c]), data [n..., ic, images]."""
    cdef ggml_tensor d
    cdef bint line = gg_conv_is_1d(kind), alone = gg_conv_is_depthwise(kind)
    cdef int64_t out0 = places(x.ne[0], w.ne[0], s0, p0, d0)
    cdef int64_t channels = w.ne[2 if line else 3]
    node_init(&d, GGML_OP_CONV_2D_DW if alone else GGML_OP_CONV_2D, GGML_TYPE_F32, out0, channels, x.ne[2], 1)
    if not line:
        d.ne[1], d.ne[2], d.ne[3] = places(x.ne[1], w.ne[1], s1, p1, d1), channels, x.ne[3]
    d.op_params[0], d.op_params[1], d.op_params[2], d.op_params[3], d.op_params[4], d.op_params[5] = s0, s1, p0, p1, d0, d1
    d.op_params[6] = line
    d.src[0], d.src[1] = w, x
    return node_append(ctx, &d)

cdef ggml_tensor *conv_3d(ggml_context *ctx, ggml_tensor *w, ggml_tensor *x, const int *q, int ic, int n, int oc) except NULL:
    """q: strides, paddings, dilations."""
    cdef ggml_tensor d
    cdef int i
    node_init(&d, GGML_OP_CONV_3D, GGML_TYPE_F32, 1, 1, 1, product(n, oc) if n > 0 and oc > 0 else 0)
    for i in range(3):
        d.ne[i] = places(x.ne[i], w.ne[i], q[i], q[3 + i], q[6 + i])
    memcpy(d.op_params, q, 9 * sizeof(int))
    d.op_params[9], d.op_params[10], d.op_params[11] = ic, n, oc
    d.src[0], d.src[1] = w, x
    return node_append(ctx, &d)

cdef ggml_tensor *back(ggml_context *ctx, int op, const gg_conv *v, ggml_tensor *a, ggml_tensor *b, ggml_tensor *to) except NULL:
    """The gradient of a convolution by its data or its kernel, in the shape of `to`."""
    cdef ggml_tensor d
    cdef int i
    node_like(&d, op, GGML_TYPE_F32, to)
    d.op_params[0] = v.kind
    for i in range(3):
        d.op_params[1 + i], d.op_params[4 + i], d.op_params[7 + i] = <int>v.s[i], <int>v.p[i], <int>v.d[i]
    d.op_params[10], d.op_params[11], d.op_params[12] = <int>v.ic, <int>v.n, <int>v.oc
    d.src[0], d.src[1] = a, b
    return node_append(ctx, &d)

cdef ggml_tensor *again(ggml_context *ctx, const gg_conv *v, ggml_tensor *w, ggml_tensor *x) except NULL:
    """The convolution that v describes, of other tensors."""
    cdef int q[9]
    cdef int i
    for i in range(3):
        q[i], q[3 + i], q[6 + i] = <int>v.s[i], <int>v.p[i], <int>v.d[i]
    if v.kind == GG_CONV_3D:
        return conv_3d(ctx, w, x, q, <int>v.ic, <int>v.n, <int>v.oc)
    return conv(ctx, v.kind, w, x, q[0], q[1], q[3], q[4], q[6], q[7])

cdef int grad_conv(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef gg_conv v = gg_conv_of(t)
    cdef ggml_tensor *w = t.src[0]
    cdef ggml_tensor *x = t.src[1]
    if b.needs(w):
        b.require_not_overwritten(t, x)
        b.add(w, back(b.ctx, GGML_OP_CONV_BACK_KERNEL, &v, x, g, w))
    if b.needs(x):
        b.require_not_overwritten(t, w)
        b.add(x, back(b.ctx, GGML_OP_CONV_BACK_DATA, &v, w, g, x))
    return 0

cdef int grad_data(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """Of what makes the data from kernel and result: transposed convolutions, and CONV_BACK_DATA."""
    cdef gg_conv v = gg_conv_of(t)
    cdef ggml_tensor *w = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    if b.needs(w):
        b.require_not_overwritten(t, y)
        b.add(w, back(b.ctx, GGML_OP_CONV_BACK_KERNEL, &v, g, y, w))
    if b.needs(y):
        b.require_not_overwritten(t, w)
        b.add(y, again(b.ctx, &v, w, g))
    return 0

cdef int grad_kernel(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """Of CONV_BACK_KERNEL, which makes the kernel from data and result."""
    cdef gg_conv v = gg_conv_of(t)
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    if b.needs(x):
        b.require_not_overwritten(t, y)
        b.add(x, back(b.ctx, GGML_OP_CONV_BACK_DATA, &v, g, y, x))
    if b.needs(y):
        b.require_not_overwritten(t, x)
        b.add(y, again(b.ctx, &v, g, x))
    return 0

def ggml_conv_1d(ctx, a, b, s0, p0, d0):
    """Convolves signals along dimension 0.

    result[o, f, n] = sum over j, c of a[j, c, f] * b[o * s0 - p0 + j * d0, c, n]. The kernel is not mirrored (a
    cross-correlation), and elements outside of b count as 0. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [k, in_channels, out_channels], f32, f16 or bf16.
        b: data [length, in_channels, batch], f32, f16 or bf16.
        s0: stride, 1 or more.
        p0: zeros at each end of the data, 0 or more.
        d0: dilation, the distance of neighbouring kernel elements, 1 or more.
    Returns:
        f32 tensor [(length + 2 * p0 - d0 * (k - 1) - 1) // s0 + 1, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is longer than the padded
            data.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_1d")
    return wrap_tensor(conv(c, GG_CONV_1D, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_int32(s0, b"s0"), 1, arg_int32(p0, b"p0"), 0, arg_int32(d0, b"d0"), 1))

def ggml_conv_1d_ph(ctx, a, b, s, d):
    """Convolves signals along dimension 0 with a padding of half the kernel's length.

    This is ggml_conv_1d with p0 = k // 2. With an odd k, s = 1 and d = 1 the result is as long as the data. The
    gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [k, in_channels, out_channels], f32, f16 or bf16.
        b: data [length, in_channels, batch], f32, f16 or bf16.
        s: stride, 1 or more.
        d: dilation, 1 or more.
    Returns:
        f32 tensor [(length + 2 * (k // 2) - d * (k - 1) - 1) // s + 1, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is longer than the padded
            data.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_1d_ph")
    cdef ggml_tensor *w = arg_tensor(a, b"a")
    return wrap_tensor(conv(c, GG_CONV_1D, w, arg_tensor(b, b"b"), arg_int32(s, b"s"), 1, size(w.ne[0]) // 2, 0, arg_int32(d, b"d"), 1))

def ggml_conv_1d_dw(ctx, a, b, s0, p0, d0):
    """Convolves each channel of signals with a kernel of its own (depthwise convolution).

    result[o, c, n] = sum over j of a[j, 0, c] * b[o * s0 - p0 + j * d0, c, n], with 0 for elements outside of b.
    The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernels [k, 1, channels], f32, f16 or bf16.
        b: data [length, channels, batch], f32, f16 or bf16.
        s0: stride, 1 or more.
        p0: zeros at each end of the data, 0 or more.
        d0: dilation, 1 or more.
    Returns:
        f32 tensor [(length + 2 * p0 - d0 * (k - 1) - 1) // s0 + 1, channels, batch].
    Raises:
        ValueError: there is not one kernel for each channel, a type or parameter is invalid, or the kernel is
            longer than the padded data.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_1d_dw")
    return wrap_tensor(conv(c, GG_CONV_DEPTHWISE_1D, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_int32(s0, b"s0"), 1, arg_int32(p0, b"p0"), 0, arg_int32(d0, b"d0"), 1))

def ggml_conv_1d_dw_ph(ctx, a, b, s0, d0):
    """Convolves each channel of signals with a kernel of its own and a padding of half the kernel's length.

    This is ggml_conv_1d_dw with p0 = k // 2. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernels [k, 1, channels], f32, f16 or bf16.
        b: data [length, channels, batch], f32, f16 or bf16.
        s0: stride, 1 or more.
        d0: dilation, 1 or more.
    Returns:
        f32 tensor [(length + 2 * (k // 2) - d0 * (k - 1) - 1) // s0 + 1, channels, batch].
    Raises:
        ValueError: there is not one kernel for each channel, a type or parameter is invalid, or the kernel is
            longer than the padded data.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_1d_dw_ph")
    cdef ggml_tensor *w = arg_tensor(a, b"a")
    return wrap_tensor(conv(c, GG_CONV_DEPTHWISE_1D, w, arg_tensor(b, b"b"), arg_int32(s0, b"s0"), 1, size(w.ne[0]) // 2, 0, arg_int32(d0, b"d0"), 1))

cdef int size(int64_t k) except -1:
    """Of a kernel, where it is a stride or a padding."""
    if k > 2147483647:
        fail(ValueError, f"the kernel has {k} elements in a row: too many")
    return <int>k

def ggml_conv_2d(ctx, a, b, s0, s1, p0, p1, d0, d1):
    """Convolves images: each output channel is the sum of all input channels, each correlated with its kernel.

    The kernel is not mirrored, and pixels outside of b count as 0. The convolution is direct: no intermediate
    tensor of patches is stored. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], f32, f16 or bf16.
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: columns of zeros at each side, 0 or more.
        p1: rows of zeros above and below, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
    Returns:
        f32 tensor [ow, oh, out_channels, batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh
            likewise.
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is larger than the padded
            image.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_2d")
    return wrap_tensor(conv(c, GG_CONV_2D, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_int32(p0, b"p0"), arg_int32(p1, b"p1"), arg_int32(d0, b"d0"),
                  arg_int32(d1, b"d1")))

def ggml_conv_2d_direct(ctx, a, b, s0, s1, p0, p1, d0, d1):
    """Convolves images without an intermediate tensor of patches, as ggml_conv_2d does in this library.

    Both names make the same node, so they do not differ in speed or memory. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], f32, f16 or bf16.
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: columns of zeros at each side, 0 or more.
        p1: rows of zeros above and below, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
    Returns:
        f32 tensor [ow, oh, out_channels, batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh
            likewise.
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is larger than the padded
            image.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_2d_direct")
    return wrap_tensor(conv(c, GG_CONV_2D, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_int32(p0, b"p0"), arg_int32(p1, b"p1"), arg_int32(d0, b"d0"),
                  arg_int32(d1, b"d1")))

def ggml_conv_2d_sk_p0(ctx, a, b):
    """Convolves images patch by patch: the stride is the kernel's size and there is no padding.

    Patches do not overlap; columns and rows that fill no whole patch are ignored. This is the patch embedding of a
    vision transformer. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], f32, f16 or bf16.
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
    Returns:
        f32 tensor [width // kw, height // kh, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type is not a float type, or the kernel is larger than the image.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_2d_sk_p0")
    cdef ggml_tensor *w = arg_tensor(a, b"a")
    return wrap_tensor(conv(c, GG_CONV_2D, w, arg_tensor(b, b"b"), size(w.ne[0]), size(w.ne[1]), 0, 0, 1, 1))

def ggml_conv_2d_s1_ph(ctx, a, b):
    """Convolves images with stride 1 and a padding of half the kernel's size.

    With a kernel of odd width and height the result is as large as the image. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], f32, f16 or bf16.
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
    Returns:
        f32 tensor [width + 2 * (kw // 2) - kw + 1, height + 2 * (kh // 2) - kh + 1, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type is not a float type, or the kernel is larger than the padded image.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_2d_s1_ph")
    cdef ggml_tensor *w = arg_tensor(a, b"a")
    return wrap_tensor(conv(c, GG_CONV_2D, w, arg_tensor(b, b"b"), 1, 1, size(w.ne[0]) // 2, size(w.ne[1]) // 2, 1, 1))

def ggml_conv_2d_dw(ctx, a, b, s0, s1, p0, p1, d0, d1):
    """Convolves each channel of images with a kernel of its own (depthwise convolution).

    The kernel is not mirrored, and pixels outside of b count as 0. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernels [kw, kh, 1, channels], f32, f16 or bf16.
        b: images [width, height, channels, batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: columns of zeros at each side, 0 or more.
        p1: rows of zeros above and below, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh
            likewise.
    Raises:
        ValueError: there is not one kernel for each channel, a type or parameter is invalid, or the kernel is
            larger than the padded image.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_2d_dw")
    return wrap_tensor(conv(c, GG_CONV_DEPTHWISE, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_int32(p0, b"p0"), arg_int32(p1, b"p1"), arg_int32(d0, b"d0"),
                  arg_int32(d1, b"d1")))

def ggml_conv_depthwise_2d(ctx, a, b, s0, s1, p0, p1, d0, d1):
    """Convolves each channel of images with a kernel of its own, under the name that older releases used.

    ggml_conv_2d_dw makes the same node. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernels [kw, kh, 1, channels], f32, f16 or bf16.
        b: images [width, height, channels, batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: columns of zeros at each side, 0 or more.
        p1: rows of zeros above and below, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh
            likewise.
    Raises:
        ValueError: there is not one kernel for each channel, a type or parameter is invalid, or the kernel is
            larger than the padded image.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_depthwise_2d")
    return wrap_tensor(conv(c, GG_CONV_DEPTHWISE, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_int32(p0, b"p0"), arg_int32(p1, b"p1"), arg_int32(d0, b"d0"),
                  arg_int32(d1, b"d1")))

def ggml_conv_2d_dw_direct(ctx, a, b, stride0, stride1, pad0, pad1, dilation0, dilation1):
    """Convolves each channel of images with its own kernel and keeps the memory layout of the images.

    Computes the same as ggml_conv_2d_dw. Where the channels of b are adjacent in memory (a permuted view of
    contiguous [channels, width, height, batch]), those of the result are, too. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernels [kw, kh, 1, channels], f32, f16 or bf16.
        b: images [width, height, channels, batch], f32, f16 or bf16.
        stride0: stride along the width, 1 or more.
        stride1: stride along the height, 1 or more.
        pad0: columns of zeros at each side, 0 or more.
        pad1: rows of zeros above and below, 0 or more.
        dilation0: dilation along the width, 1 or more.
        dilation1: dilation along the height, 1 or more.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = (width + 2 * pad0 - dilation0 * (kw - 1) - 1) // stride0 + 1
            and oh likewise.
    Raises:
        ValueError: there is not one kernel for each channel, a type or parameter is invalid, or the kernel is
            larger than the padded image.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_2d_dw_direct")
    cdef ggml_tensor *x = arg_tensor(b, b"b")
    cdef ggml_tensor *t = conv(c, GG_CONV_DEPTHWISE, arg_tensor(a, b"a"), x, arg_int32(stride0, b"stride0"), arg_int32(stride1, b"stride1"), arg_int32(pad0, b"pad0"),
                       arg_int32(pad1, b"pad1"), arg_int32(dilation0, b"dilation0"), arg_int32(dilation1, b"dilation1"))
    if x.ne[2] > 1 and x.nb[2] == <size_t>gg_types[x.type].bytes and x.nb[0] == x.nb[2] * x.ne[2] and x.nb[1] == x.nb[0] * x.ne[0]:
        t.nb[2], t.nb[0], t.nb[1] = sizeof(float), sizeof(float) * t.ne[2], sizeof(float) * t.ne[2] * t.ne[0]
    return wrap_tensor(t)

def ggml_conv_3d(ctx, a, b, IC, s0, s1, s2, p0, p1, p2, d0, d1, d2):
    """Convolves volumes whose dimension 3 holds channels and batch.

    The kernel is not mirrored, and voxels outside of b count as 0. Within dimension 3 the input channel varies
    fastest in a and b, the output channel in the result. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, kd, IC * out_channels], f32, f16 or bf16.
        b: volumes [width, height, depth, IC * batch], f32, f16 or bf16.
        IC: number of input channels, a divisor of a.ne[3] and b.ne[3].
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        s2: stride along the depth, 1 or more.
        p0: zeros at each end of the width, 0 or more.
        p1: zeros at each end of the height, 0 or more.
        p2: zeros at each end of the depth, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
        d2: dilation along the depth, 1 or more.
    Returns:
        f32 tensor [ow, oh, od, out_channels * batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1, oh
            and od likewise.
    Raises:
        ValueError: IC is no divisor, a type or parameter is invalid, or the kernel is larger than the padded
            volume.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_3d")
    cdef int q[9]
    cdef int64_t ic = arg_int(IC, b"IC")
    cdef ggml_tensor *w = arg_tensor(a, b"a")
    cdef ggml_tensor *x = arg_tensor(b, b"b")
    if ic < 1 or w.ne[3] % ic or x.ne[3] % ic:
        fail(ValueError, f"IC is {ic}: must divide ne[3] of a ({w.ne[3]}) and of b ({x.ne[3]})")
    if w.ne[3] > 2147483647 or x.ne[3] > 2147483647:
        fail(ValueError, f"a has ne[3] = {w.ne[3]}, b has ne[3] = {x.ne[3]}: too many")
    q[0], q[1], q[2], q[3], q[4], q[5] = arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_int32(s2, b"s2"), arg_int32(p0, b"p0"), arg_int32(p1, b"p1"), arg_int32(p2, b"p2")
    q[6], q[7], q[8] = arg_int32(d0, b"d0"), arg_int32(d1, b"d1"), arg_int32(d2, b"d2")
    return wrap_tensor(conv_3d(c, w, x, q, <int>ic, <int>(x.ne[3] // ic), <int>(w.ne[3] // ic)))

def ggml_conv_3d_direct(ctx, a, b, s0, s1, s2, p0, p1, p2, d0, d1, d2, n_channels, n_batch, n_channels_out):
    """Convolves volumes with the numbers of channels and the batch size given explicitly.

    Computes the same as ggml_conv_3d, which derives these numbers from the shapes. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, kd, n_channels * n_channels_out], f32, f16 or bf16.
        b: volumes [width, height, depth, n_channels * n_batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        s2: stride along the depth, 1 or more.
        p0: zeros at each end of the width, 0 or more.
        p1: zeros at each end of the height, 0 or more.
        p2: zeros at each end of the depth, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
        d2: dilation along the depth, 1 or more.
        n_channels: number of input channels, 1 or more.
        n_batch: number of volumes.
        n_channels_out: number of output channels.
    Returns:
        f32 tensor [ow, oh, od, n_channels_out * n_batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1,
            oh and od likewise.
    Raises:
        ValueError: dimension 3 of a or b is not the product given, a type or parameter is invalid, or the kernel is
            larger than the padded volume.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_3d_direct")
    cdef int q[9]
    q[0], q[1], q[2], q[3], q[4], q[5] = arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_int32(s2, b"s2"), arg_int32(p0, b"p0"), arg_int32(p1, b"p1"), arg_int32(p2, b"p2")
    q[6], q[7], q[8] = arg_int32(d0, b"d0"), arg_int32(d1, b"d1"), arg_int32(d2, b"d2")
    return wrap_tensor(conv_3d(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), q, arg_int32(n_channels, b"n_channels"), arg_int32(n_batch, b"n_batch"), arg_int32(n_channels_out, b"n_channels_out")))

def ggml_conv_transpose_1d(ctx, a, b, s0, p0, d0):
    """Computes the transposed convolution of signals.

    Each element of b adds a scaled copy of the kernel to the result:
    result[i * s0 - p0 + j * d0, f, n] += a[j, f, c] * b[i, c, n] for all i, j and c. The operation is the gradient
    of ggml_conv_1d with respect to its data. Its own gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [k, out_channels, in_channels], f32, f16 or bf16.
        b: data [length, in_channels, batch], f32, f16 or bf16.
        s0: distance of the copies in the result, 1 or more.
        p0: elements to cut off at each end of the result, 0 or more.
        d0: dilation of the kernel, 1 or more.
    Returns:
        f32 tensor [(length - 1) * s0 + (k - 1) * d0 + 1 - 2 * p0, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, a or b is empty, or p0 leaves nothing.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_transpose_1d")
    cdef ggml_tensor d
    cdef ggml_tensor *w = arg_tensor(a, b"a")
    cdef ggml_tensor *x = arg_tensor(b, b"b")
    cdef int s = arg_int32(s0, b"s0"), p = arg_int32(p0, b"p0"), step = arg_int32(d0, b"d0")
    node_init(&d, GGML_OP_CONV_TRANSPOSE_1D, GGML_TYPE_F32, spread_over(x.ne[0], w.ne[0], s, p, step), w.ne[1], x.ne[2], 1)
    d.op_params[0], d.op_params[1], d.op_params[2] = s, p, step
    d.src[0], d.src[1] = w, x
    return wrap_tensor(node_append(c, &d))

def ggml_conv_transpose_2d_p0(ctx, a, b, stride):
    """Computes the transposed convolution of images: each input pixel adds a scaled copy of the kernel to the result.

    There is no padding: nothing is cut off. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, out_channels, in_channels], f32, f16 or bf16.
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
        stride: distance of the copies in the result along width and height, 1 or more.
    Returns:
        f32 tensor [(width - 1) * stride + kw, (height - 1) * stride + kh, out_channels, batch].
    Raises:
        ValueError: the channels differ, a type is not a float type, stride is less than 1, or a or b is empty.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_transpose_2d_p0")
    cdef ggml_tensor d
    cdef ggml_tensor *w = arg_tensor(a, b"a")
    cdef ggml_tensor *x = arg_tensor(b, b"b")
    cdef int s = arg_int32(stride, b"stride")
    node_init(&d, GGML_OP_CONV_TRANSPOSE_2D, GGML_TYPE_F32, spread_over(x.ne[0], w.ne[0], s, 0, 1), spread_over(x.ne[1], w.ne[1], s, 0, 1), w.ne[2], x.ne[3])
    d.op_params[0] = s
    d.src[0], d.src[1] = w, x
    return wrap_tensor(node_append(c, &d))

# ---- patches written down ------------------------------------------------------------------------------------------------
def ggml_im2col(ctx, a, b, s0, s1, p0, p1, d0, d1, is_2D, dst_type):
    """Writes the patches of images that a convolution looks at as columns: dimension 0 of the result is one patch.

    ggml_mul_mat of the columns with the flattened kernel is then the convolution. Within a patch the column of the
    kernel varies fastest, then its row, then the channel. The gradient flows to b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels, out_channels], without is_2D [k, in_channels, out_channels], of any type;
            only its shape is used.
        b: images [width, height, in_channels, batch], without is_2D [length, in_channels, batch], f32, f16 or bf16.
        s0: stride along dimension 0, 1 or more.
        s1: stride along dimension 1; used with is_2D only, like p1 and d1.
        p0: zeros at each end of dimension 0, 0 or more.
        p1: zeros at each end of dimension 1.
        d0: dilation along dimension 0, 1 or more.
        d1: dilation along dimension 1.
        is_2D: True for images, False for signals.
        dst_type: type of the result, GGML_TYPE_F32, GGML_TYPE_F16 or GGML_TYPE_BF16.
    Returns:
        tensor [kw * kh * in_channels, ow, oh, batch], without is_2D [k * in_channels, ow, batch], of type dst_type,
            with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh likewise.
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is larger than the padded
            image.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_im2col")
    cdef ggml_tensor d
    cdef ggml_tensor *w = arg_tensor(a, b"a")
    cdef ggml_tensor *x = arg_tensor(b, b"b")
    cdef bint plane = arg_bool(is_2D, b"is_2D")
    cdef int q[6]
    q[0], q[1], q[2], q[3], q[4], q[5] = arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_int32(p0, b"p0"), arg_int32(p1, b"p1"), arg_int32(d0, b"d0"), arg_int32(d1, b"d1")
    node_init(&d, GGML_OP_IM2COL, arg_type(dst_type, b"dst_type"), patch_size(w, plane), places(x.ne[0], w.ne[0], q[0], q[2], q[4]), x.ne[2], 1)
    if plane:
        d.ne[2], d.ne[3] = places(x.ne[1], w.ne[1], q[1], q[3], q[5]), x.ne[3]
    memcpy(d.op_params, q, sizeof(q))
    d.op_params[6] = plane
    d.src[0], d.src[1] = w, x
    return wrap_tensor(node_append(c, &d))

cdef ggml_tensor *other_way(ggml_context *ctx, int op, ggml_tensor *t, ggml_tensor *a, ggml_tensor *to, int type) except NULL:
    """IM2COL for IM2COL_BACK and the reverse: the parameters and the kernel's shape of t."""
    cdef ggml_tensor d
    node_like(&d, op, type, to)
    memcpy(d.op_params, t.op_params, sizeof(d.op_params))
    if op == GGML_OP_IM2COL_BACK or op == GGML_OP_IM2COL_3D_BACK:
        d.src[0], d.src[1] = a, t.src[0]
    else:
        d.src[0], d.src[1] = t.src[1], a
    return node_append(ctx, &d)

cdef int64_t patch_size(ggml_tensor *w, bint plane) except -1:
    """Elements of a patch that the kernel w covers."""
    return product(product(w.ne[0], w.ne[1]), w.ne[2] if plane else 1)

def ggml_im2col_back(ctx, a, b, ne, s0, s1, p0, p1, d0, d1, is_2D):
    """Computes the gradient of ggml_im2col with respect to its images.

    Each element of a column is added to the pixel that it came from. The C header names a and b in the opposite
    order; that order is accepted where the shapes fit it only. The gradient flows to the columns.

    Args:
        ctx: context that receives the result.
        a: columns in the shape [kw * kh * in_channels, ow, oh, batch] of ggml_im2col's result, f32, f16 or bf16.
        b: kernel [kw, kh, in_channels, out_channels] of any type; only its shape is used.
        ne: shape of the images, an array of four int64.
        s0: stride along dimension 0, as in the forward call.
        s1: stride along dimension 1.
        p0: padding of dimension 0.
        p1: padding of dimension 1.
        d0: dilation along dimension 0.
        d1: dilation along dimension 1.
        is_2D: True for images, False for signals, whose shapes are as in ggml_im2col.
    Returns:
        f32 tensor with the four sizes of ne.
    Raises:
        ValueError: ne is None, too short or negative, or columns, kernel, ne and parameters do not fit one another.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_im2col_back")
    cdef ggml_tensor d
    cdef void *sizes = NULL
    cdef ggml_tensor *g = arg_tensor(a, b"a")
    cdef ggml_tensor *w = arg_tensor(b, b"b")
    cdef bint plane = arg_bool(is_2D, b"is_2D")
    arg_buffer(ne, b"ne", 4 * sizeof(int64_t), &sizes)
    if sizes == NULL:
        fail(ValueError, "ne is None: need four sizes")
    cdef int64_t n[4]
    memcpy(n, sizes, sizeof(n))
    if min(n[0], n[1], n[2], n[3]) < 0:
        fail(ValueError, f"ne is {[n[0], n[1], n[2], n[3]]}: must not be negative")
    node_init(&d, GGML_OP_IM2COL_BACK, GGML_TYPE_F32, n[0], n[1], n[2], n[3])
    d.op_params[0], d.op_params[1], d.op_params[2] = arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_int32(p0, b"p0")
    d.op_params[3], d.op_params[4], d.op_params[5] = arg_int32(p1, b"p1"), arg_int32(d0, b"d0"), arg_int32(d1, b"d1")
    d.op_params[6] = plane
    if g.ne[0] != patch_size(w, plane) and w.ne[0] == patch_size(g, plane):
        w, g = g, w
    d.src[0], d.src[1] = g, w
    return wrap_tensor(node_append(c, &d))

def ggml_im2col_3d(ctx, a, b, IC, s0, s1, s2, p0, p1, p2, d0, d1, d2, dst_type):
    """Writes the patches of volumes that a three-dimensional convolution looks at as columns.

    Within a patch the index along the kernel's width varies fastest, then height, depth and channel. The gradient
    flows to b.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, kd, IC * out_channels] of any type; only its shape is used.
        b: volumes [width, height, depth, IC * batch], f32, f16 or bf16.
        IC: number of input channels, a divisor of a.ne[3] and b.ne[3].
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        s2: stride along the depth, 1 or more.
        p0: zeros at each end of the width, 0 or more.
        p1: zeros at each end of the height, 0 or more.
        p2: zeros at each end of the depth, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
        d2: dilation along the depth, 1 or more.
        dst_type: type of the result, GGML_TYPE_F32, GGML_TYPE_F16 or GGML_TYPE_BF16.
    Returns:
        tensor [kw * kh * kd * IC, ow, oh, od * batch] of type dst_type, with
            ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1, oh and od likewise.
    Raises:
        ValueError: IC is no divisor, a type or parameter is invalid, or the kernel is larger than the padded
            volume.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_im2col_3d")
    cdef ggml_tensor d
    cdef ggml_tensor *w = arg_tensor(a, b"a")
    cdef ggml_tensor *x = arg_tensor(b, b"b")
    cdef int64_t ic = arg_int32(IC, b"IC")
    cdef int q[9]
    q[0], q[1], q[2], q[3], q[4], q[5] = arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_int32(s2, b"s2"), arg_int32(p0, b"p0"), arg_int32(p1, b"p1"), arg_int32(p2, b"p2")
    q[6], q[7], q[8] = arg_int32(d0, b"d0"), arg_int32(d1, b"d1"), arg_int32(d2, b"d2")
    if ic < 1 or x.ne[3] % ic or w.ne[3] % ic:
        fail(ValueError, f"IC is {ic}: must divide ne[3] of a ({w.ne[3]}) and of b ({x.ne[3]})")
    node_init(&d, GGML_OP_IM2COL_3D, arg_type(dst_type, b"dst_type"), product(product(w.ne[0], w.ne[1]), product(w.ne[2], ic)),
          places(x.ne[0], w.ne[0], q[0], q[3], q[6]), places(x.ne[1], w.ne[1], q[1], q[4], q[7]),
          product(places(x.ne[2], w.ne[2], q[2], q[5], q[8]), x.ne[3] // ic))
    memcpy(d.op_params, q, sizeof(q))
    d.op_params[9] = <int>ic
    d.src[0], d.src[1] = w, x
    return wrap_tensor(node_append(c, &d))

cdef int grad_im2col(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef int op = GGML_OP_IM2COL_BACK if t.op == GGML_OP_IM2COL else GGML_OP_IM2COL_3D_BACK
    return b.add(t.src[1], other_way(b.ctx, op, t, g, t.src[1], GGML_TYPE_F32))

cdef int grad_im2col_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef int op = GGML_OP_IM2COL if t.op == GGML_OP_IM2COL_BACK else GGML_OP_IM2COL_3D
    return b.add(t.src[0], other_way(b.ctx, op, t, g, t.src[0], GGML_TYPE_F32))

def ggml_col2im_1d(ctx, a, s0, oc, p0):
    """Adds overlapping columns up to signals: result[i * s0 - p0 + j, c, n] += a[c * k + j, i, n].

    After ggml_mul_mat with a flattened kernel this completes a transposed convolution. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: columns [k * oc, length, batch], f32, f16 or bf16.
        s0: distance of neighbouring columns in the result, 1 or more.
        oc: number of output channels, a divisor of a.ne[0].
        p0: elements to cut off at each end of the result, 0 or more.
    Returns:
        tensor [(length - 1) * s0 + k - 2 * p0, oc, batch] of a's type.
    Raises:
        ValueError: oc is no divisor, s0 or p0 is invalid, a is empty or not of a float type, or p0 leaves nothing.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_col2im_1d")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef int s = arg_int32(s0, b"s0"), channels = arg_int32(oc, b"oc"), p = arg_int32(p0, b"p0")
    if channels < 1 or x.ne[0] % channels:
        fail(ValueError, f"oc is {channels}: must divide ne[0] of a, {x.ne[0]}")
    node_init(&d, GGML_OP_COL2IM_1D, x.type, spread_over(x.ne[1], x.ne[0] // channels, s, p, 1), channels, x.ne[2], 1)
    d.op_params[0], d.op_params[1], d.op_params[2] = s, channels, p
    d.src[0] = x
    return wrap_tensor(node_append(c, &d))

cdef int grad_col2im(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_tensor d
    cdef ggml_tensor *x = t.src[0]
    node_like(&d, GGML_OP_IM2COL, GGML_TYPE_F32, x)
    d.op_params[0], d.op_params[2], d.op_params[4] = t.op_params[0], t.op_params[2], 1
    d.op_params[7] = <int>(x.ne[0] // t.op_params[1])
    d.src[1] = g
    return b.add(x, node_append(b.ctx, &d))

gradients[GGML_OP_CONV_2D] = gradients[GGML_OP_CONV_2D_DW] = gradients[GGML_OP_CONV_3D] = grad_conv
gradients[GGML_OP_CONV_TRANSPOSE_1D] = gradients[GGML_OP_CONV_TRANSPOSE_2D] = gradients[GGML_OP_CONV_BACK_DATA] = grad_data
gradients[GGML_OP_CONV_BACK_KERNEL] = grad_kernel
gradients[GGML_OP_IM2COL] = gradients[GGML_OP_IM2COL_3D] = grad_im2col
gradients[GGML_OP_IM2COL_BACK] = gradients[GGML_OP_IM2COL_3D_BACK] = grad_im2col_back
gradients[GGML_OP_COL2IM_1D] = grad_col2im
