"""Convolutions and their patches (im2col), each with its gradient."""
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.string cimport memcpy, memset

from .._core cimport (
    GG_FLAG_PLAN, GG_MESSAGE, arg_bool, arg_buffer, arg_context, arg_int, arg_int32, arg_tensor, arg_type, engine,
    enter, fail, gg_types, ggml_context, ggml_tensor, node_append, node_init, node_like, tensor_text, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_COL2IM_1D, GGML_OP_CONV_2D, GGML_OP_CONV_2D_DW, GGML_OP_CONV_3D, GGML_OP_CONV_BACK_DATA,
    GGML_OP_CONV_BACK_KERNEL, GGML_OP_CONV_TRANSPOSE_1D, GGML_OP_CONV_TRANSPOSE_2D, GGML_OP_IM2COL, GGML_OP_IM2COL_3D,
    GGML_OP_IM2COL_3D_BACK, GGML_OP_IM2COL_BACK, GGML_TYPE_F32, GGML_TYPE_I8,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport (
    col2im_params, conv_2d_params, conv_3d_params, conv_back_params, conv_transpose_1d_params,
    conv_transpose_2d_params, gg_col2im_params, gg_conv_2d_params, gg_conv_3d_params, gg_conv_back_params,
    gg_conv_transpose_1d_params, gg_im2col_3d_params, gg_im2col_params, im2col_3d_params, im2col_params,
)

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
    bint gg_conv_function_ok(int id)
    int64_t gg_conv_groups(const ggml_tensor *t)

# Strides are s, paddings p, dilations d, and kernels have k elements.

# ---- sizes -----------------------------------------------------------------------------------------------------------
cdef int64_t conv_size(int64_t n, int64_t k, int s, int p, int d) except -1:
    """The size of the result of a convolution over n elements."""
    if s < 1 or d < 1:
        fail(ValueError, f"stride is {s}, dilation is {d}: need 1 or more")
    if p < 0:
        fail(ValueError, f"padding is {p}: must not be negative")
    cdef int64_t size = gg_conv_out(n, k, s, p, d)
    if size < 0:
        fail(ValueError, f"a window of {k} elements (dilation {d}) does not fit into {n} with a padding of {p}")
    return size

cdef int64_t transposed_size(int64_t n, int64_t k, int s, int p, int d) except -1:
    """The size of the result of a transposed convolution of n elements."""
    if s < 1 or d < 1 or p < 0:
        fail(ValueError, f"stride is {s}, padding is {p}, dilation is {d}: need 1, 0 and 1 or more")
    if n < 1 or k < 1:
        fail(ValueError, f"a window of {k} elements at {n} places: need 1 or more of both")
    cdef int64_t size = checked_product(n - 1, s) + checked_product(k - 1, d) + 1 - 2 * <int64_t>p
    if size < 0:
        fail(ValueError, f"padding is {p}: more than windows of {k} at {n} places cover")
    return size

cdef int64_t patch_size(ggml_tensor *kernel, bint is_2d) except -1:
    """The number of elements that a kernel covers."""
    return checked_product(checked_product(kernel.ne[0], kernel.ne[1]), kernel.ne[2] if is_2d else 1)

cdef int64_t checked_product(int64_t a, int64_t b) except -1:
    if b and a > (<int64_t>1 << 62) // b:
        fail(ValueError, f"{a} x {b} elements are more than any memory holds")
    return a * b

cdef int kernel_size(ggml_tensor *kernel, int dim) except -1:
    """The size of a kernel in a dimension, as a stride or a padding."""
    if kernel.ne[dim] > INT32_MAX:
        fail(ValueError, f"the kernel has {kernel.ne[dim]} elements in a row: too many")
    return <int>kernel.ne[dim]

# ---- parameters ------------------------------------------------------------------------------------------------------
cdef int arg_steps_2d(int32_t *s, int32_t *p, int32_t *d, object s0, object s1, object p0, object p1, object d0,
                      object d1) except -1:
    s[0], s[1] = arg_int32(s0, b"s0"), arg_int32(s1, b"s1")
    p[0], p[1] = arg_int32(p0, b"p0"), arg_int32(p1, b"p1")
    d[0], d[1] = arg_int32(d0, b"d0"), arg_int32(d1, b"d1")
    return 0

cdef int arg_steps_3d(int32_t *s, int32_t *p, int32_t *d, object s0, object s1, object s2, object p0, object p1,
                      object p2, object d0, object d1, object d2) except -1:
    s[0], s[1], s[2] = arg_int32(s0, b"s0"), arg_int32(s1, b"s1"), arg_int32(s2, b"s2")
    p[0], p[1], p[2] = arg_int32(p0, b"p0"), arg_int32(p1, b"p1"), arg_int32(p2, b"p2")
    d[0], d[1], d[2] = arg_int32(d0, b"d0"), arg_int32(d1, b"d1"), arg_int32(d2, b"d2")
    return 0

# ---- nodes -----------------------------------------------------------------------------------------------------------
cdef ggml_tensor *conv(ggml_context *ctx, int kind, ggml_tensor *kernel, ggml_tensor *data, int s0, int s1, int p0,
                       int p1, int d0, int d1, int groups=1) except NULL:
    """A convolution in 1 or 2 dimensions of data [n..., ic, batch].

    kernel: [k..., ic / groups, oc], depthwise [k..., 1, c].
    """
    cdef ggml_tensor node
    cdef gg_conv_2d_params *q = conv_2d_params(&node)
    cdef bint is_1d = gg_conv_is_1d(kind)
    cdef int op = GGML_OP_CONV_2D_DW if gg_conv_is_depthwise(kind) else GGML_OP_CONV_2D
    cdef int64_t width = conv_size(data.ne[0], kernel.ne[0], s0, p0, d0)
    if is_1d:
        node_init(&node, op, GGML_TYPE_F32, width, kernel.ne[2], data.ne[2], 1)
    else:
        node_init(&node, op, GGML_TYPE_F32, width, conv_size(data.ne[1], kernel.ne[1], s1, p1, d1), kernel.ne[3],
                  data.ne[3])
    q.s[0], q.s[1], q.p[0], q.p[1], q.d[0], q.d[1] = s0, s1, p0, p1, d0, d1
    q.is_1d, q.groups = is_1d, groups
    node.src[0], node.src[1] = kernel, data
    return node_append(ctx, &node)

cdef ggml_tensor *conv_3d(ggml_context *ctx, ggml_tensor *kernel, ggml_tensor *data,
                          const gg_conv_3d_params *q) except NULL:
    """A convolution of q.n volumes with q.ic channels to q.oc channels."""
    cdef ggml_tensor node
    cdef int i
    node_init(&node, GGML_OP_CONV_3D, GGML_TYPE_F32, 1, 1, 1, checked_product(q.n, q.oc) if q.n > 0 and q.oc > 0 else 0)
    for i in range(3):
        node.ne[i] = conv_size(data.ne[i], kernel.ne[i], q.s[i], q.p[i], q.d[i])
    conv_3d_params(&node)[0] = q[0]
    node.src[0], node.src[1] = kernel, data
    return node_append(ctx, &node)

cdef ggml_tensor *conv_of_geometry(ggml_context *ctx, const gg_conv *geometry, ggml_tensor *kernel,
                                   ggml_tensor *data) except NULL:
    cdef gg_conv_3d_params q
    cdef int i
    for i in range(3):
        q.s[i], q.p[i], q.d[i] = <int>geometry.s[i], <int>geometry.p[i], <int>geometry.d[i]
    if geometry.kind == GG_CONV_3D:
        q.ic, q.n, q.oc = <int>geometry.ic, <int>geometry.n, <int>geometry.oc
        return conv_3d(ctx, kernel, data, &q)
    return conv(ctx, geometry.kind, kernel, data, q.s[0], q.s[1], q.p[0], q.p[1], q.d[0], q.d[1])

cdef ggml_tensor *conv_back(ggml_context *ctx, int op, const gg_conv *geometry, ggml_tensor *a, ggml_tensor *b,
                            ggml_tensor *like) except NULL:
    """CONV_BACK_DATA of a kernel and a gradient, or CONV_BACK_KERNEL of data and a gradient, in the shape of `like`."""
    cdef ggml_tensor node
    cdef gg_conv_back_params *q = conv_back_params(&node)
    cdef int i
    node_like(&node, op, GGML_TYPE_F32, like)
    q.kind = geometry.kind
    for i in range(3):
        q.s[i], q.p[i], q.d[i] = <int>geometry.s[i], <int>geometry.p[i], <int>geometry.d[i]
    q.ic, q.n, q.oc = <int>geometry.ic, <int>geometry.n, <int>geometry.oc
    node.src[0], node.src[1] = a, b
    return node_append(ctx, &node)

# ---- gradients: y = conv(w, x) is linear in the kernel w and in the data x -------------------------------------------
cdef int grad_conv(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = conv(w, x): dw = back_kernel(x, g), dx = back_data(w, g)."""
    cdef gg_conv geometry = gg_conv_of(t)
    cdef ggml_tensor *w = t.src[0]
    cdef ggml_tensor *x = t.src[1]
    cdef bint tail = t.op != GGML_OP_CONV_3D and (t.src[2] != NULL or conv_2d_params(t).function)
    if tail or w.type == GGML_TYPE_I8 or gg_conv_groups(t) > 1:
        fail(ValueError, "a convolution with a bias, a function, a kernel of bytes or groups has no gradient")
    if b.needs(w):
        b.require_not_overwritten(t, x)
        b.add(w, conv_back(b.ctx, GGML_OP_CONV_BACK_KERNEL, &geometry, x, g, w))
    if b.needs(x):
        b.require_not_overwritten(t, w)
        b.add(x, conv_back(b.ctx, GGML_OP_CONV_BACK_DATA, &geometry, w, g, x))
    return 0

cdef int grad_conv_data(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """Transposed convolutions and CONV_BACK_DATA, t = back_data(w, y): dw = back_kernel(g, y), dy = conv(w, g)."""
    cdef gg_conv geometry = gg_conv_of(t)
    cdef ggml_tensor *w = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    if b.needs(w):
        b.require_not_overwritten(t, y)
        b.add(w, conv_back(b.ctx, GGML_OP_CONV_BACK_KERNEL, &geometry, g, y, w))
    if b.needs(y):
        b.require_not_overwritten(t, w)
        b.add(y, conv_of_geometry(b.ctx, &geometry, w, g))
    return 0

cdef int grad_conv_kernel(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """CONV_BACK_KERNEL, t = back_kernel(x, y): dx = back_data(g, y), dy = conv(g, x)."""
    cdef gg_conv geometry = gg_conv_of(t)
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    if b.needs(x):
        b.require_not_overwritten(t, y)
        b.add(x, conv_back(b.ctx, GGML_OP_CONV_BACK_DATA, &geometry, g, y, x))
    if b.needs(y):
        b.require_not_overwritten(t, x)
        b.add(y, conv_of_geometry(b.ctx, &geometry, g, x))
    return 0

cdef int add_tail(ggml_tensor *t, object bias, object function) except -1:
    """Lets a convolution add a bias to its channels and apply a function to the sums."""
    cdef int id = -1 if function is None else arg_int32(function, b"function")
    if function is not None and (id < 0 or not gg_conv_function_ok(id)):
        fail(ValueError, f"function is {id}: need GGML_UNARY_OP_RELU, SIGMOID, SILU, HARDSWISH or GELU_ERF")
    if bias is not None:
        t.src[2] = arg_tensor(bias, b"bias")
        if t.src[2].type != GGML_TYPE_F32 or t.src[2].ne[0] != t.ne[2] or not gg_is_row(t.src[2]):
            t.src[2] = NULL
            fail(ValueError, f"bias must be a contiguous f32 tensor of {t.ne[2]} elements, one for each channel")
    conv_2d_params(t).function = 1 + id
    return 0

cdef bint gg_is_row(const ggml_tensor *t) noexcept:
    return t.nb[0] == sizeof(float) and t.ne[1] == 1 and t.ne[2] == 1 and t.ne[3] == 1

# ---- convolutions of signals -----------------------------------------------------------------------------------------
cdef object conv_1d_of(object ctx, const char *name, int kind, object a, object b, object s0, object p0, object d0):
    """What the public function `name` returns: a convolution with the given padding."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    return wrap_tensor(conv(c, kind, kernel, data, arg_int32(s0, b"s0"), 1, arg_int32(p0, b"p0"), 0,
                            arg_int32(d0, b"d0"), 1))

cdef object conv_1d_half_of(object ctx, const char *name, int kind, object a, object b, object s, const char *s_name,
                            object d, const char *d_name):
    """What the public function `name` returns: a convolution with a padding of half the kernel's length."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    return wrap_tensor(conv(c, kind, kernel, data, arg_int32(s, s_name), 1, kernel_size(kernel, 0) // 2, 0,
                            arg_int32(d, d_name), 1))

def ggml_conv_1d(ctx, a, b, s0, p0, d0):
    """Convolves signals along dimension 0.

    result[o, f, n] = sum over j, c of a[j, c, f] * b[o * s0 - p0 + j * d0, c, n]. The kernel is not mirrored (a
    cross-correlation), and elements outside b count as 0. The gradient flows to a and b.

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
    return conv_1d_of(ctx, b"ggml_conv_1d", GG_CONV_1D, a, b, s0, p0, d0)

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
    return conv_1d_half_of(ctx, b"ggml_conv_1d_ph", GG_CONV_1D, a, b, s, b"s", d, b"d")

def ggml_conv_1d_dw(ctx, a, b, s0, p0, d0):
    """Convolves each channel of signals with a kernel of its own (depthwise convolution).

    result[o, c, n] = sum over j of a[j, 0, c] * b[o * s0 - p0 + j * d0, c, n], with 0 for elements outside b.
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
    return conv_1d_of(ctx, b"ggml_conv_1d_dw", GG_CONV_DEPTHWISE_1D, a, b, s0, p0, d0)

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
    return conv_1d_half_of(ctx, b"ggml_conv_1d_dw_ph", GG_CONV_DEPTHWISE_1D, a, b, s0, b"s0", d0, b"d0")

# ---- convolutions of images ------------------------------------------------------------------------------------------
cdef object conv_2d_of(object ctx, const char *name, int kind, object a, object b, object s0, object s1, object p0,
                       object p1, object d0, object d1):
    """What the public function `name` returns: a convolution of the kind."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    cdef gg_conv_2d_params q
    arg_steps_2d(q.s, q.p, q.d, s0, s1, p0, p1, d0, d1)
    return wrap_tensor(conv(c, kind, kernel, data, q.s[0], q.s[1], q.p[0], q.p[1], q.d[0], q.d[1]))

def ggml_conv_2d(ctx, a, b, s0, s1, p0, p1, d0, d1):
    """Convolves images: each output channel is the sum of all input channels, each correlated with its kernel.

    The kernel is not mirrored, and pixels outside b count as 0. The convolution is direct: no intermediate
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
    return conv_2d_of(ctx, b"ggml_conv_2d", GG_CONV_2D, a, b, s0, s1, p0, p1, d0, d1)

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
    See also:
        ggml.ext.conv_2d, with a bias, a function, kernels of bytes and a choice of algorithms.
    """
    return conv_2d_of(ctx, b"ggml_conv_2d_direct", GG_CONV_2D, a, b, s0, s1, p0, p1, d0, d1)

def ext_conv_2d(ctx, a, b, s0, s1, p0, p1, d0, d1, bias=None, function=None, offset=0, winograd=2, groups=1):
    """Convolves images as ggml_conv_2d does, with a bias, a function, kernels of bytes, groups or chosen algorithms.

    The gradient flows to a and b; with a bias, a function, a kernel of bytes or groups there is none. A kernel of bytes
    is multiplied exactly with images of whole numbers whose range is 255 at most, and in f32 with others. Of several
    groups, each thread computes some alone.

    Args:
        ctx: context that receives the result.
        a: kernel [kw, kh, in_channels / groups, out_channels], f32, f16, bf16 or i8 (fastest if it is a view of
            contiguous [in_channels / groups, kw, kh, out_channels]).
        b: images [width, height, in_channels, batch], f32, f16 or bf16.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: columns of zeros at each side, 0 or more.
        p1: rows of zeros above and below, 0 or more.
        d0: dilation along the width, 1 or more.
        d1: dilation along the height, 1 or more.
        bias: f32 tensor [out_channels] that is added to the sums, or None.
        function: GGML_UNARY_OP_RELU, SIGMOID, SILU, HARDSWISH or GELU_ERF, applied to the result, or None.
        offset: int from -255 to 255 that is added to each element of a kernel of type i8; others ignore it.
        winograd: 2, 4 or 0: the largest side of the squares of positions that kernels of 3x3 with a stride of 1 or 2
            may compute together with fewer multiplications, where that takes less time (Winograd's F(2x2, 3x3) and
            F(4x4, 3x3)). 2, as in ggml_conv_2d, needs 16 multiplications instead of 36 (25 with a stride of 2): its
            rounding errors are smaller than those of the sum of all products, and small whole numbers are convolved
            exactly. 4 needs 36 instead of 144 with a stride of 1, and 6 instead of 12 or 8 instead of 20 for kernels of
            3x1 or 5x1 (F(4, 3) and F(4, 5)): its errors are about twice those of the sum. Parts of an image with
            elements that are some 16 times larger than the others are computed by the sum, which 0 chooses everywhere.
            Kernels of bytes are always convolved exactly.
        groups: of channels, 1 or more: each part of the output channels is computed from its part of the input
            channels.
    Returns:
        f32 tensor [ow, oh, out_channels, batch] with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh
            likewise.
    Raises:
        ValueError: the channels do not fit, a type, bias, function, offset, winograd, groups or another parameter is
            invalid, or the kernel is larger than the padded image.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.conv_2d")
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    cdef int more = arg_int32(offset, b"offset"), squares = arg_int32(winograd, b"winograd")
    cdef int parts = arg_int32(groups, b"groups")
    cdef gg_conv_2d_params q
    if parts < 1:
        fail(ValueError, f"groups is {parts}: need 1 or more")
    arg_steps_2d(q.s, q.p, q.d, s0, s1, p0, p1, d0, d1)
    cdef ggml_tensor *t = conv(c, GG_CONV_2D, kernel, data, q.s[0], q.s[1], q.p[0], q.p[1], q.d[0], q.d[1], parts)
    add_tail(t, bias, function)
    if squares not in (0, 2, 4):
        fail(ValueError, f"winograd is {squares}: need 0, 2 or 4")
    conv_2d_params(t).squares = squares or 1
    if kernel.type == GGML_TYPE_I8:
        if not -255 <= more <= 255:
            fail(ValueError, f"offset is {more}: need -255 to 255")
        conv_2d_params(t).offset = more
    return wrap_tensor(t)

def ext_conv_algorithm(tensor):
    """Names the algorithm that computes a convolution, a transposed convolution or the gradient of one.

    It depends on the shape, the types, the layout and the kernels in use, not on values or the number of threads.

    Args:
        tensor: result of a convolution, whose data need not be allocated.
    Returns:
        str, a name in the table of the documentation ("Convolutions"); None if the tensor has no elements.
    Raises:
        ValueError: the tensor is not the result of a convolution, or its node is invalid.
        RuntimeError: the tensor or a source of it belongs to no live context.
    """
    enter(b"ggml.ext.conv_algorithm")
    cdef ggml_tensor *t = arg_tensor(tensor, b"tensor")
    cdef char[GG_MESSAGE] message
    cdef int k
    if engine.op_name(t.op) == NULL or not engine.op(t.op).flags & GG_FLAG_PLAN:
        fail(ValueError, f"tensor {tensor_text(t)} is not the result of a convolution")
    for k in range(3):
        if t.src[k] != NULL and not engine.tensor_live(t.src[k]):
            fail(RuntimeError, f"source {k} of tensor {tensor_text(t)} is not a tensor of a live context")
    if engine.check(t, message) != NULL:
        fail(ValueError, f"tensor {tensor_text(t)}: {message.decode(errors='replace')}")
    cdef const char *name = engine.algorithm_of(t)
    return None if name == NULL else name.decode()

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
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    return wrap_tensor(conv(c, GG_CONV_2D, kernel, data, kernel_size(kernel, 0), kernel_size(kernel, 1), 0, 0, 1, 1))

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
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    return wrap_tensor(conv(c, GG_CONV_2D, kernel, data, 1, 1, kernel_size(kernel, 0) // 2,
                            kernel_size(kernel, 1) // 2, 1, 1))

def ggml_conv_2d_dw(ctx, a, b, s0, s1, p0, p1, d0, d1):
    """Convolves each channel of images with a kernel of its own (depthwise convolution).

    The kernel is not mirrored, and pixels outside b count as 0. The gradient flows to a and b.

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
    return conv_2d_of(ctx, b"ggml_conv_2d_dw", GG_CONV_DEPTHWISE, a, b, s0, s1, p0, p1, d0, d1)

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
    return conv_2d_of(ctx, b"ggml_conv_depthwise_2d", GG_CONV_DEPTHWISE, a, b, s0, s1, p0, p1, d0, d1)

cdef bint has_channels_innermost(const ggml_tensor *t) noexcept:
    """Whether t is a permuted view of contiguous [channels, width, height, batch]."""
    return (t.ne[2] > 1 and t.nb[2] == <size_t>gg_types[t.type].bytes and t.nb[0] == t.nb[2] * t.ne[2]
            and t.nb[1] == t.nb[0] * t.ne[0])

cdef ggml_tensor *conv_2d_dw_of(object ctx, const char *name, object a, object b, object s0, object s1, object p0,
                                object p1, object d0, object d1) except NULL:
    """A depthwise convolution of images whose result keeps the memory layout of the images."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    cdef ggml_tensor *t = conv(c, GG_CONV_DEPTHWISE, kernel, data, arg_int32(s0, b"stride0"), arg_int32(s1, b"stride1"),
                               arg_int32(p0, b"pad0"), arg_int32(p1, b"pad1"), arg_int32(d0, b"dilation0"),
                               arg_int32(d1, b"dilation1"))
    if has_channels_innermost(data):
        t.nb[2] = sizeof(float)
        t.nb[0] = t.nb[2] * t.ne[2]
        t.nb[1] = t.nb[0] * t.ne[0]
    return t

def ggml_conv_2d_dw_direct(ctx, a, b, stride0, stride1, pad0, pad1, dilation0, dilation1):
    """Convolves each channel of images with its own kernel and keeps the memory layout of the images.

    Computes the same as ggml_conv_2d_dw. Where the channels of b are adjacent in memory (a permuted view of
    contiguous [channels, width, height, batch]), so are those of the result. The gradient flows to a and b.

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
    See also:
        ggml.ext.conv_2d_dw, with a bias and a function.
    """
    return wrap_tensor(conv_2d_dw_of(ctx, b"ggml_conv_2d_dw_direct", a, b, stride0, stride1, pad0, pad1, dilation0,
                                     dilation1))

def ext_conv_2d_dw(ctx, a, b, stride0, stride1, pad0, pad1, dilation0, dilation1, bias=None, function=None):
    """Convolves each channel of images with its own kernel, and adds a bias or applies a function.

    Computes the same as ggml_conv_2d_dw_direct before that, in the same memory layout. The gradient flows to a and b;
    with a bias or a function there is none.

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
        bias: f32 tensor [channels] that is added to the sums, or None.
        function: GGML_UNARY_OP_RELU, SIGMOID, SILU, HARDSWISH or GELU_ERF, applied to the result, or None.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = (width + 2 * pad0 - dilation0 * (kw - 1) - 1) // stride0 + 1
            and oh likewise.
    Raises:
        ValueError: there is not one kernel for each channel, a type, bias, function or another parameter is invalid,
            or the kernel is larger than the padded image.
        MemoryError: the context is full.
    """
    cdef ggml_tensor *t = conv_2d_dw_of(ctx, b"ggml.ext.conv_2d_dw", a, b, stride0, stride1, pad0, pad1, dilation0,
                                        dilation1)
    add_tail(t, bias, function)
    return wrap_tensor(t)

# ---- convolutions of volumes -----------------------------------------------------------------------------------------
cdef int check_input_channels(int64_t ic, ggml_tensor *kernel, ggml_tensor *data) except -1:
    if ic < 1 or kernel.ne[3] % ic or data.ne[3] % ic:
        fail(ValueError, f"IC is {ic}: must divide ne[3] of a ({kernel.ne[3]}) and of b ({data.ne[3]})")
    return 0

def ggml_conv_3d(ctx, a, b, IC, s0, s1, s2, p0, p1, p2, d0, d1, d2):
    """Convolves volumes whose dimension 3 holds channels and batch.

    The kernel is not mirrored, and voxels outside b count as 0. Within dimension 3 the input channel varies
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
        ValueError: IC is not a divisor, a type or parameter is invalid, or the kernel is larger than the padded
            volume.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_conv_3d")
    cdef gg_conv_3d_params q
    cdef int64_t ic = arg_int(IC, b"IC")
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    check_input_channels(ic, kernel, data)
    if kernel.ne[3] > INT32_MAX or data.ne[3] > INT32_MAX:
        fail(ValueError, f"a has ne[3] = {kernel.ne[3]}, b has ne[3] = {data.ne[3]}: too many")
    arg_steps_3d(q.s, q.p, q.d, s0, s1, s2, p0, p1, p2, d0, d1, d2)
    q.ic, q.n, q.oc = <int>ic, <int>(data.ne[3] // ic), <int>(kernel.ne[3] // ic)
    return wrap_tensor(conv_3d(c, kernel, data, &q))

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
    cdef gg_conv_3d_params q
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    arg_steps_3d(q.s, q.p, q.d, s0, s1, s2, p0, p1, p2, d0, d1, d2)
    q.ic, q.n = arg_int32(n_channels, b"n_channels"), arg_int32(n_batch, b"n_batch")
    q.oc = arg_int32(n_channels_out, b"n_channels_out")
    return wrap_tensor(conv_3d(c, kernel, data, &q))

# ---- transposed convolutions -----------------------------------------------------------------------------------------
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
    cdef ggml_tensor node
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    cdef gg_conv_transpose_1d_params *q = conv_transpose_1d_params(&node)
    cdef int s = arg_int32(s0, b"s0"), p = arg_int32(p0, b"p0"), d = arg_int32(d0, b"d0")
    cdef int64_t length = transposed_size(data.ne[0], kernel.ne[0], s, p, d)
    node_init(&node, GGML_OP_CONV_TRANSPOSE_1D, GGML_TYPE_F32, length, kernel.ne[1], data.ne[2], 1)
    q.s, q.p, q.d = s, p, d
    node.src[0], node.src[1] = kernel, data
    return wrap_tensor(node_append(c, &node))

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
    cdef ggml_tensor node
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    cdef int s = arg_int32(stride, b"stride")
    node_init(&node, GGML_OP_CONV_TRANSPOSE_2D, GGML_TYPE_F32, transposed_size(data.ne[0], kernel.ne[0], s, 0, 1),
              transposed_size(data.ne[1], kernel.ne[1], s, 0, 1), kernel.ne[2], data.ne[3])
    conv_transpose_2d_params(&node).s = s
    node.src[0], node.src[1] = kernel, data
    return wrap_tensor(node_append(c, &node))

# ---- im2col ----------------------------------------------------------------------------------------------------------
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
        Tensor [kw * kh * in_channels, ow, oh, batch], without is_2D [k * in_channels, ow, batch], of type dst_type,
            with ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1 and oh likewise.
    Raises:
        ValueError: the channels differ, a type or parameter is invalid, or the kernel is larger than the padded
            image.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_im2col")
    cdef ggml_tensor node
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    cdef bint two_dims = arg_bool(is_2D, b"is_2D")
    cdef gg_im2col_params q
    memset(&q, 0, sizeof(q))
    arg_steps_2d(q.s, q.p, q.d, s0, s1, p0, p1, d0, d1)
    q.is_2d = two_dims
    node_init(&node, GGML_OP_IM2COL, arg_type(dst_type, b"dst_type"), patch_size(kernel, two_dims),
              conv_size(data.ne[0], kernel.ne[0], q.s[0], q.p[0], q.d[0]), data.ne[2], 1)
    if two_dims:
        node.ne[2], node.ne[3] = conv_size(data.ne[1], kernel.ne[1], q.s[1], q.p[1], q.d[1]), data.ne[3]
    im2col_params(&node)[0] = q
    node.src[0], node.src[1] = kernel, data
    return wrap_tensor(node_append(c, &node))

def ggml_im2col_back(ctx, a, b, ne, s0, s1, p0, p1, d0, d1, is_2D):
    """Computes the gradient of ggml_im2col with respect to its images.

    Each element of a column is added to the pixel that it came from. The C header names a and b in the opposite
    order; that order is accepted if the shapes fit no other. The gradient flows to the columns.

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
    cdef ggml_tensor node
    cdef void *address = NULL
    cdef ggml_tensor *columns = arg_tensor(a, b"a")
    cdef ggml_tensor *kernel = arg_tensor(b, b"b")
    cdef bint two_dims = arg_bool(is_2D, b"is_2D")
    cdef gg_im2col_params *q = im2col_params(&node)
    cdef int64_t sizes[4]
    arg_buffer(ne, b"ne", sizeof(sizes), &address)
    if address == NULL:
        fail(ValueError, "ne is None: need four sizes")
    memcpy(sizes, address, sizeof(sizes))
    if min(sizes[0], sizes[1], sizes[2], sizes[3]) < 0:
        fail(ValueError, f"ne is {[sizes[0], sizes[1], sizes[2], sizes[3]]}: must not be negative")
    node_init(&node, GGML_OP_IM2COL_BACK, GGML_TYPE_F32, sizes[0], sizes[1], sizes[2], sizes[3])
    arg_steps_2d(q.s, q.p, q.d, s0, s1, p0, p1, d0, d1)
    q.is_2d = two_dims
    if columns.ne[0] != patch_size(kernel, two_dims) and kernel.ne[0] == patch_size(columns, two_dims):
        columns, kernel = kernel, columns
    node.src[0], node.src[1] = columns, kernel
    return wrap_tensor(node_append(c, &node))

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
        Tensor [kw * kh * kd * IC, ow, oh, od * batch] of type dst_type, with
            ow = (width + 2 * p0 - d0 * (kw - 1) - 1) // s0 + 1, oh and od likewise.
    Raises:
        ValueError: IC is not a divisor, a type or parameter is invalid, or the kernel is larger than the padded
            volume.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_im2col_3d")
    cdef ggml_tensor node
    cdef ggml_tensor *kernel = arg_tensor(a, b"a")
    cdef ggml_tensor *data = arg_tensor(b, b"b")
    cdef int64_t ic = arg_int32(IC, b"IC"), patch, depth
    cdef gg_im2col_3d_params q
    memset(&q, 0, sizeof(q))
    arg_steps_3d(q.s, q.p, q.d, s0, s1, s2, p0, p1, p2, d0, d1, d2)
    q.ic = <int>ic
    check_input_channels(ic, kernel, data)
    patch = checked_product(patch_size(kernel, True), ic)
    depth = conv_size(data.ne[2], kernel.ne[2], q.s[2], q.p[2], q.d[2])
    node_init(&node, GGML_OP_IM2COL_3D, arg_type(dst_type, b"dst_type"), patch,
              conv_size(data.ne[0], kernel.ne[0], q.s[0], q.p[0], q.d[0]),
              conv_size(data.ne[1], kernel.ne[1], q.s[1], q.p[1], q.d[1]), checked_product(depth, data.ne[3] // ic))
    im2col_3d_params(&node)[0] = q
    node.src[0], node.src[1] = kernel, data
    return wrap_tensor(node_append(c, &node))

cdef int grad_im2col(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """IM2COL, IM2COL_3D: dx = each element of g added to the element of x that it is a copy of."""
    cdef ggml_tensor node
    cdef int op = GGML_OP_IM2COL_BACK if t.op == GGML_OP_IM2COL else GGML_OP_IM2COL_3D_BACK
    node_like(&node, op, GGML_TYPE_F32, t.src[1])
    memcpy(node.op_params, t.op_params, sizeof(node.op_params))
    node.src[0], node.src[1] = g, t.src[0]
    return b.add(t.src[1], node_append(b.ctx, &node))

cdef int grad_im2col_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """IM2COL_BACK, IM2COL_3D_BACK of columns: d(columns) = im2col(g)."""
    cdef ggml_tensor node
    cdef int op = GGML_OP_IM2COL if t.op == GGML_OP_IM2COL_BACK else GGML_OP_IM2COL_3D
    node_like(&node, op, GGML_TYPE_F32, t.src[0])
    memcpy(node.op_params, t.op_params, sizeof(node.op_params))
    node.src[0], node.src[1] = t.src[1], g
    return b.add(t.src[0], node_append(b.ctx, &node))

# ---- col2im ----------------------------------------------------------------------------------------------------------
def ggml_col2im_1d(ctx, a, s0, oc, p0):
    """Adds up overlapping columns to signals: result[i * s0 - p0 + j, c, n] += a[c * k + j, i, n].

    After ggml_mul_mat with a flattened kernel this completes a transposed convolution. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: columns [k * oc, length, batch], f32, f16 or bf16.
        s0: distance of neighbouring columns in the result, 1 or more.
        oc: number of output channels, a divisor of a.ne[0].
        p0: elements to cut off at each end of the result, 0 or more.
    Returns:
        Tensor [(length - 1) * s0 + k - 2 * p0, oc, batch] of a's type.
    Raises:
        ValueError: oc is not a divisor, s0 or p0 is invalid, a is empty or not of a float type, or p0 leaves nothing.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_col2im_1d")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef gg_col2im_params *q = col2im_params(&node)
    cdef int s = arg_int32(s0, b"s0"), channels = arg_int32(oc, b"oc"), p = arg_int32(p0, b"p0")
    if channels < 1 or x.ne[0] % channels:
        fail(ValueError, f"oc is {channels}: must divide ne[0] of a, {x.ne[0]}")
    cdef int64_t length = transposed_size(x.ne[1], x.ne[0] // channels, s, p, 1)
    node_init(&node, GGML_OP_COL2IM_1D, x.type, length, channels, x.ne[2], 1)
    q.s, q.oc, q.p = s, channels, p
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

cdef int grad_col2im(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[i s - p + j, c] += x[c k + j, i]: dx[c k + j, i] = g[i s - p + j, c], an im2col without a kernel tensor."""
    cdef ggml_tensor node
    cdef ggml_tensor *x = t.src[0]
    cdef gg_col2im_params *q = col2im_params(t)
    cdef gg_im2col_params *to = im2col_params(&node)
    node_like(&node, GGML_OP_IM2COL, GGML_TYPE_F32, x)
    to.s[0], to.p[0], to.d[0] = q.s, q.p, 1
    to.k[0] = <int>(x.ne[0] // q.oc)
    node.src[1] = g
    return b.add(x, node_append(b.ctx, &node))

gradients[GGML_OP_CONV_2D] = gradients[GGML_OP_CONV_2D_DW] = gradients[GGML_OP_CONV_3D] = grad_conv
gradients[GGML_OP_CONV_TRANSPOSE_1D] = gradients[GGML_OP_CONV_TRANSPOSE_2D] = grad_conv_data
gradients[GGML_OP_CONV_BACK_DATA] = grad_conv_data
gradients[GGML_OP_CONV_BACK_KERNEL] = grad_conv_kernel
gradients[GGML_OP_IM2COL] = gradients[GGML_OP_IM2COL_3D] = grad_im2col
gradients[GGML_OP_IM2COL_BACK] = gradients[GGML_OP_IM2COL_3D_BACK] = grad_im2col_back
gradients[GGML_OP_COL2IM_1D] = grad_col2im
