"""Pooling of rows and of images, with its gradient."""
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from .._core cimport (
    arg_context, arg_float, arg_int32, arg_tensor, fail, ggml_context, ggml_tensor, node_append, node_init, node_like,
    wrap_tensor,
)
from .._enums cimport GGML_OP_POOL_1D, GGML_OP_POOL_2D, GGML_OP_POOL_2D_BACK, GGML_TYPE_F32
from .._graph.grad cimport Backward, gradients
from .._params cimport gg_pool_1d_params, gg_pool_2d_params, pool_1d_params, pool_2d_params

cdef extern from "runtime/geometry.h" nogil:
    enum: GGML_OP_POOL_MAX

cdef int64_t n_windows(int64_t n, int k, int s, double p) except -1:
    """The number of windows of k elements, s apart, over n elements with a padding of p at each end.

    The padding may be fractional.
    """
    if k < 1 or s < 1:
        fail(ValueError, f"window is {k}, stride is {s}: need 1 or more")
    if not 0 <= p <= 1 << 30:
        fail(ValueError, f"padding is {p}: need 0 to 2^30")
    cdef double last_start = <double>n + 2 * p - k
    if last_start < 0:
        fail(ValueError, f"a window of {k} does not fit into {n} with a padding of {p}")
    return <int64_t>(last_start / s) + 1

def ggml_pool_1d(ctx, a, op, k0, s0, p0):
    """Reduces windows of each row to their largest value or their average.

    Averages are taken over the elements that lie inside of the row. The gradient flows to a; that of a maximum goes
    to the first largest element.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        op: GGML_OP_POOL_MAX or GGML_OP_POOL_AVG.
        k0: length of a window, 1 or more.
        s0: stride, 1 or more.
        p0: elements outside the row at each end, 0 or more.
    Returns:
        f32 tensor [(ne0 + 2 * p0 - k0) // s0 + 1, ne1, ne2, ne3].
    Raises:
        ValueError: op, k0, s0 or p0 is invalid, a window is longer than the padded row, or a is not of a float
            type.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_pool_1d")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef gg_pool_1d_params *q = pool_1d_params(&node)
    cdef int k = arg_int32(k0, b"k0"), s = arg_int32(s0, b"s0"), p = arg_int32(p0, b"p0")
    node_init(&node, GGML_OP_POOL_1D, GGML_TYPE_F32, n_windows(x.ne[0], k, s, p), x.ne[1], x.ne[2], x.ne[3])
    q.kind, q.k, q.s, q.p = arg_int32(op, b"op"), k, s, p
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

cdef int init_pool_2d(ggml_tensor *node, int node_op, ggml_tensor *x, object op, object k0, object k1, object s0,
                      object s1, object p0, object p1) except -1:
    """Initialises a node with the parameters of the pooling of x and the shape of its result."""
    cdef gg_pool_2d_params *q = pool_2d_params(node)
    cdef int width = arg_int32(k0, b"k0"), height = arg_int32(k1, b"k1")
    cdef int step0 = arg_int32(s0, b"s0"), step1 = arg_int32(s1, b"s1")
    cdef float pad0 = arg_float(p0, b"p0"), pad1 = arg_float(p1, b"p1")
    if max(pad0, pad1) >= 1 << 24:       # f32 does not hold every number of pixels beyond
        fail(ValueError, f"p0 is {p0}, p1 is {p1}: need less than 2^24")
    node_init(node, node_op, GGML_TYPE_F32, n_windows(x.ne[0], width, step0, pad0),
              n_windows(x.ne[1], height, step1, pad1), x.ne[2], x.ne[3])
    q.kind = arg_int32(op, b"op")
    q.k[0], q.k[1], q.s[0], q.s[1], q.p[0], q.p[1] = width, height, step0, step1, <int>pad0, <int>pad1
    return 0

def ggml_pool_2d(ctx, a, op, k0, k1, s0, s1, p0, p1):
    """Reduces windows of each image to their largest value or their average.

    Averages divide by k0 * k1 and count pixels outside the image as 0. The gradient flows to a; that of a
    maximum goes to the first largest pixel.

    Args:
        ctx: context that receives the result.
        a: images [width, height, channels, batch], f32, f16 or bf16.
        op: GGML_OP_POOL_MAX or GGML_OP_POOL_AVG.
        k0: width of a window, 1 or more.
        k1: height of a window, 1 or more; k0 * k1 is at most 2^24.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: padding at each side, 0 or more, less than 2^24; it may be fractional. The first window begins floor(p0)
            pixels outside of the image, while the number of windows follows from p0 itself.
        p1: padding above and below, likewise.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = floor((width + 2 * p0 - k0) / s0) + 1 and oh likewise.
    Raises:
        ValueError: op, a size, stride or padding is invalid, a window is larger than the padded image, or a is not
            of a float type.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_pool_2d")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    init_pool_2d(&node, GGML_OP_POOL_2D, x, op, k0, k1, s0, s1, p0, p1)
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

def ext_max_pool_2d(ctx, a, k0, k1, s0, s1, p0, p1):
    """Finds the largest pixel of windows of each image, as NumPy's max: NaN where a pixel is NaN.

    A window of nothing but -inf gives -inf, where that of ggml_pool_2d gives the smallest number of f32. The gradient
    goes to the first largest pixel; that of NaN and -inf is 0.

    Args:
        ctx: context that receives the result.
        a: images [width, height, channels, batch], f32, f16 or bf16.
        k0: width of a window, 1 or more; the parameters are those of ggml_pool_2d.
        k1: height of a window, 1 or more; k0 * k1 is at most 2^24.
        s0: stride along the width, 1 or more.
        s1: stride along the height, 1 or more.
        p0: padding at each side, 0 or more, less than 2^24; it may be fractional.
        p1: padding above and below, likewise.
    Returns:
        f32 tensor [ow, oh, channels, batch] with ow = floor((width + 2 * p0 - k0) / s0) + 1 and oh likewise.
    Raises:
        ValueError: a size, stride or padding is invalid, a window is larger than the padded image, or a is not of a
            float type.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.max_pool_2d")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    init_pool_2d(&node, GGML_OP_POOL_2D, x, GGML_OP_POOL_MAX, k0, k1, s0, s1, p0, p1)
    pool_2d_params(&node).nan = True
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

def ggml_pool_2d_back(ctx, a, af, op, k0, k1, s0, s1, p0, p1):
    """Computes the gradient of ggml_pool_2d with respect to its images.

    The gradient of a maximum goes to the first largest pixel of the window, that of an average equally to all
    pixels. The operation has no gradient of its own.

    Args:
        ctx: context that receives the result.
        a: gradient of the pooled images [ow, oh, channels, batch], f32, f16 or bf16.
        af: images that were pooled, [width, height, channels, batch], f32, f16 or bf16.
        op: GGML_OP_POOL_MAX or GGML_OP_POOL_AVG; this and the parameters below as in the forward call.
        k0: width of a window.
        k1: height of a window.
        s0: stride along the width.
        s1: stride along the height.
        p0: padding at each side.
        p1: padding above and below.
    Returns:
        f32 tensor in the shape of af.
    Raises:
        ValueError: the shape of a is not that of the pooled images, or a parameter or type is invalid.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_pool_2d_back")
    cdef ggml_tensor node
    cdef ggml_tensor *g = arg_tensor(a, b"a")
    cdef ggml_tensor *x = arg_tensor(af, b"af")
    init_pool_2d(&node, GGML_OP_POOL_2D_BACK, x, op, k0, k1, s0, s1, p0, p1)
    if g.ne[0] != node.ne[0] or g.ne[1] != node.ne[1]:
        fail(ValueError, f"a has rows of {g.ne[0]} and {g.ne[1]} of them: "
                         f"the result of pooling af has {node.ne[0]} and {node.ne[1]}")
    memcpy(node.ne, x.ne, sizeof(node.ne))
    node.src[0], node.src[1] = g, x
    return wrap_tensor(node_append(c, &node))

cdef int grad_pool(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = the maximum or the average of each window of x.

    dx receives g of each window: at its first largest element, or divided by the window's size at each element.
    """
    cdef ggml_tensor node
    cdef ggml_tensor *x = t.src[0]
    cdef gg_pool_2d_params *q = pool_2d_params(&node)
    cdef const gg_pool_1d_params *row
    node_like(&node, GGML_OP_POOL_2D_BACK, GGML_TYPE_F32, x)
    if t.op == GGML_OP_POOL_1D:     # as POOL_2D with windows of height 1
        row = pool_1d_params(t)
        q.kind, q.k[0], q.k[1], q.s[0], q.s[1], q.p[0], q.p[1] = row.kind, row.k, 1, row.s, 1, row.p, 0
        q.inside = True
    else:
        q[0] = pool_2d_params(t)[0]
    if q.kind == GGML_OP_POOL_MAX:
        b.require_not_overwritten(t, x)
    node.src[0], node.src[1] = g, x
    return b.add(x, node_append(b.ctx, &node))

gradients[GGML_OP_POOL_1D] = gradients[GGML_OP_POOL_2D] = grad_pool
