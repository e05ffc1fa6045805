"""Images split into windows, and relative positions between them (arXiv:2304.02643), with their gradients."""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_extent, arg_int32, arg_tensor, fail, gg_nrows, ggml_context, ggml_tensor, node_append,
    node_in_place, node_init, node_like, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ADD_REL_POS, GGML_OP_GET_REL_POS, GGML_OP_WIN_PART, GGML_OP_WIN_UNPART, GGML_TYPE_F32, GGML_TYPE_I32,
)
from .._graph.grad cimport Backward, gradients
from .elementwise cimport add
from .fill cimport arange
from .index cimport get_rows_back
from .reduce cimport sum_to_shape
from .shape cimport cast, contiguous, repeat, reshape

# ---- windows and relative positions (arXiv:2304.02643) ---------------------------------------------------------------
cdef ggml_tensor *win_part(ggml_context *ctx, ggml_tensor *a, int w) except NULL:
    cdef ggml_tensor d
    if w < 1:
        fail(ValueError, f"w is {w}: must be positive")
    cdef int64_t across = (a.ne[1] + w - 1) // w, down = (a.ne[2] + w - 1) // w
    if across > 0x7fffffff or down > 0x7fffffff:
        fail(ValueError, f"windows of {w}: {across} by {down} are too many")
    node_init(&d, GGML_OP_WIN_PART, a.type, a.ne[0], w, w, across * down)
    d.op_params[0], d.op_params[1], d.op_params[2] = <int>across, <int>down, w
    d.src[0] = a
    return node_append(ctx, &d)

def ggml_win_part(ctx, a, w):
    """Partitions an image into square windows that do not overlap (window attention of SAM, arXiv:2304.02643).

    Windows follow one another row by row. Those at the right and the lower edge are filled up with zeros. The
    gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: image [channels, width, height] of any type that is not quantised.
        w: side of a window in pixels, 1 or more.
    Returns:
        tensor [channels, w, w, n_windows] of a's type with n_windows = ceil(width / w) * ceil(height / w).
    Raises:
        ValueError: w is less than 1, a.ne[3] is not 1, or a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_win_part")
    return wrap_tensor(win_part(c, arg_tensor(a, b"a"), arg_int32(w, b"w")))

cdef int grad_win_part(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    return b.add(t.src[0], win_unpart(b.ctx, g, t.src[0].ne[1], t.src[0].ne[2], t.op_params[2]))

cdef ggml_tensor *win_unpart(ggml_context *ctx, ggml_tensor *a, int64_t w0, int64_t h0, int w) except NULL:
    cdef ggml_tensor d
    node_init(&d, GGML_OP_WIN_UNPART, a.type, a.ne[0], w0, h0, 1)
    d.op_params[0] = w
    d.src[0] = a
    return node_append(ctx, &d)

def ggml_win_unpart(ctx, a, w0, h0, w):
    """Assembles an image from the windows that ggml_win_part made of it.

    What the windows hold beyond the edges of the image is dropped. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: windows [channels, w, w, n_windows] of any type that is not quantised.
        w0: width of the image.
        h0: height of the image.
        w: side of a window in pixels, 1 or more.
    Returns:
        tensor [channels, w0, h0] of a's type.
    Raises:
        ValueError: a is not [channels, w, w, ceil(w0 / w) * ceil(h0 / w)], or it is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_win_unpart")
    return wrap_tensor(win_unpart(c, arg_tensor(a, b"a"), arg_extent(w0, b"w0"), arg_extent(h0, b"h0"), arg_int32(w, b"w")))

cdef int grad_win_unpart(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    return b.add(t.src[0], win_part(b.ctx, g, t.op_params[0]))

def ggml_get_rel_pos(ctx, a, qh, kh):
    """Looks up relative position embeddings: result[:, k, q] = a[:, kh - 1 - k + q] (SAM, arXiv:2304.02643).

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: embedding of each distance, [channels, 2 * kh - 1], any type that is not quantised.
        qh: number of query positions along the axis; must equal kh.
        kh: number of key positions, 1 or more.
    Returns:
        tensor [channels, kh, qh] of a's type.
    Raises:
        ValueError: qh differs from kh, one is less than 1, a has another number of rows, or a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_get_rel_pos")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_init(&d, GGML_OP_GET_REL_POS, x.type, x.ne[0], arg_int32(kh, b"kh"), arg_int32(qh, b"qh"), 1)
    if d.ne[1] < 1 or d.ne[2] < 1:
        fail(ValueError, f"qh is {d.ne[2]}, kh is {d.ne[1]}: must be positive")
    d.src[0] = x
    return wrap_tensor(node_append(c, &d))

cdef int grad_get_rel_pos(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """Each row of g is added to the row of a that it came from: n - 1 - key + query."""
    cdef ggml_context *c = b.ctx
    cdef int64_t n = t.ne[1]
    cdef ggml_tensor *index = repeat(c, arange(c, n - 1, -1, -1), n, n, 1, 1)
    index = cast(c, add(c, index, reshape(c, arange(c, 0, n, 1), 1, n, 1, 1)), GGML_TYPE_I32)
    g = reshape(c, contiguous(c, g), t.ne[0], n * n, 1, 1)
    return b.add(t.src[0], get_rows_back(c, g, reshape(c, index, n * n, 1, 1, 1), 2 * n - 1))

cdef ggml_tensor *add_rel_pos(ggml_context *ctx, ggml_tensor *a, ggml_tensor *pw, ggml_tensor *ph, bint inplace) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_ADD_REL_POS, a.type, a)
    d.op_params[0] = inplace
    d.src[0], d.src[1], d.src[2] = a, pw, ph
    if inplace:
        node_in_place(&d, a)
    return node_append(ctx, &d)

def ggml_add_rel_pos(ctx, a, pw, ph):
    """Adds decomposed relative position scores to attention scores.

    result[y * k + x, i, n] = a[y * k + x, i, n] + pw[x, i, n] + ph[y, i, n], where x and y are column and row of
    the key and i = qw * y_q + x_q counts the queries of a window (SAM, arXiv:2304.02643). The gradient flows to a,
    pw and ph.

    Args:
        ctx: context that receives the result.
        a: contiguous f32 scores [k * k, qw * qh, n].
        pw: contiguous f32 scores by column of the key, [k, qw, qh, n].
        ph: contiguous f32 scores by row of the key, in the shape of pw.
    Returns:
        f32 tensor in the shape of a.
    Raises:
        ValueError: a shape does not fit, or a tensor is not f32 or not contiguous.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_add_rel_pos")
    return wrap_tensor(add_rel_pos(c, arg_tensor(a, b"a"), arg_tensor(pw, b"pw"), arg_tensor(ph, b"ph"), False))

def ggml_add_rel_pos_inplace(ctx, a, pw, ph):
    """Adds decomposed relative position scores to the attention scores in a itself: a[y * k + x, i, n] += pw + ph.

    The terms are pw[x, i, n] and ph[y, i, n]; see ggml_add_rel_pos. The gradient flows to a, pw and ph.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous f32 scores [k * k, qw * qh, n]; they are modified.
        pw: contiguous f32 scores by column of the key, [k, qw, qh, n].
        ph: contiguous f32 scores by row of the key, in the shape of pw.
    Returns:
        view of all of a, after the addition.
    Raises:
        ValueError: a shape does not fit, or a tensor is not f32 or not contiguous.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_add_rel_pos_inplace")
    return wrap_tensor(add_rel_pos(c, arg_tensor(a, b"a"), arg_tensor(pw, b"pw"), arg_tensor(ph, b"ph"), True))

cdef int grad_add_rel_pos(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """With g as [width, height, rows]: by pw its sum over the height, by ph over the width."""
    cdef ggml_tensor *pw = t.src[1]
    cdef ggml_tensor *cube
    cdef int64_t n = pw.ne[0], rows = gg_nrows(pw)
    b.add(t.src[0], g)
    if b.needs(pw) or b.needs(t.src[2]):
        cube = reshape(b.ctx, contiguous(b.ctx, g), n, n, rows, 1)
        add_sum(b, pw, cube, n, 1)
        add_sum(b, t.src[2], cube, 1, n)
    return 0

cdef int add_sum(Backward b, ggml_tensor *t, ggml_tensor *cube, int64_t ne0, int64_t ne1) except -1:
    """Adds to the gradient by t the cube, summed to [ne0, ne1, rows]."""
    cdef ggml_tensor shape
    if not b.needs(t):
        return 0
    node_init(&shape, 0, GGML_TYPE_F32, ne0, ne1, cube.ne[2], 1)
    return b.add(t, reshape(b.ctx, sum_to_shape(b.ctx, cube, &shape), t.ne[0], t.ne[1], t.ne[2], t.ne[3]))

gradients[GGML_OP_WIN_PART] = grad_win_part
gradients[GGML_OP_WIN_UNPART] = grad_win_unpart
gradients[GGML_OP_GET_REL_POS] = grad_get_rel_pos
gradients[GGML_OP_ADD_REL_POS] = grad_add_rel_pos
