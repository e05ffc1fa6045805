"""Images split into windows, and relative positions within them (SAM, arXiv:2304.02643), with their gradients."""
from libc.stdint cimport INT32_MAX, int64_t

from .._core cimport (
    arg_context, arg_extent, arg_int32, arg_tensor, fail, gg_nrows, ggml_context, ggml_tensor, node_append,
    node_in_place, node_init, node_like, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ADD_REL_POS, GGML_OP_GET_REL_POS, GGML_OP_WIN_PART, GGML_OP_WIN_UNPART, GGML_TYPE_I32,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport add_rel_pos_params, gg_win_part_params, win_part_params, win_unpart_params
from .elementwise cimport add
from .fill cimport index_range
from .index cimport get_rows_back
from .reduce cimport sum_to_sizes
from .shape cimport cast, contiguous, repeat, reshape

# ---- WIN_PART, WIN_UNPART --------------------------------------------------------------------------------------------
cdef ggml_tensor *win_part(ggml_context *ctx, ggml_tensor *a, int w) except NULL:
    cdef ggml_tensor node
    cdef gg_win_part_params *q = win_part_params(&node)
    if w < 1:
        fail(ValueError, f"w is {w}: must be positive")
    cdef int64_t columns = (a.ne[1] + w - 1) // w, rows = (a.ne[2] + w - 1) // w
    if columns > INT32_MAX or rows > INT32_MAX:
        fail(ValueError, f"windows of {w}: {columns} by {rows} are too many")
    node_init(&node, GGML_OP_WIN_PART, a.type, a.ne[0], w, w, columns * rows)
    q.columns, q.rows, q.w = <int>columns, <int>rows, w
    node.src[0] = a
    return node_append(ctx, &node)

cdef ggml_tensor *win_unpart(ggml_context *ctx, ggml_tensor *a, int64_t width, int64_t height, int w) except NULL:
    cdef ggml_tensor node
    node_init(&node, GGML_OP_WIN_UNPART, a.type, a.ne[0], width, height, 1)
    win_unpart_params(&node).w = w
    node.src[0] = a
    return node_append(ctx, &node)

def ggml_win_part(ctx, a, w):
    """Partitions an image into square windows that do not overlap (window attention of SAM, arXiv:2304.02643).

    Windows follow one another row by row. Those at the right and the lower edge are filled up with zeros. The
    gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: image [channels, width, height] of any type that is not quantised.
        w: side of a window in pixels, 1 or more.
    Returns:
        Tensor [channels, w, w, n_windows] of a's type with n_windows = ceil(width / w) * ceil(height / w).
    Raises:
        ValueError: w is less than 1, a.ne[3] is not 1, or a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_win_part")
    return wrap_tensor(win_part(c, arg_tensor(a, b"a"), arg_int32(w, b"w")))

cdef int grad_win_part(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = the windows of the image x: dx = the image of the windows g, without the padding."""
    return b.add(t.src[0], win_unpart(b.ctx, g, t.src[0].ne[1], t.src[0].ne[2], win_part_params(t).w))

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
        Tensor [channels, w0, h0] of a's type.
    Raises:
        ValueError: a is not [channels, w, w, ceil(w0 / w) * ceil(h0 / w)], or it is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_win_unpart")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(win_unpart(c, x, arg_extent(w0, b"w0"), arg_extent(h0, b"h0"), arg_int32(w, b"w")))

cdef int grad_win_unpart(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = the image of the windows x: dx = the windows of g, with zeros for the padding."""
    return b.add(t.src[0], win_part(b.ctx, g, win_unpart_params(t).w))

# ---- GET_REL_POS, ADD_REL_POS ----------------------------------------------------------------------------------------
def ggml_get_rel_pos(ctx, a, qh, kh):
    """Looks up relative position embeddings: result[:, k, q] = a[:, kh - 1 - k + q] (SAM, arXiv:2304.02643).

    The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: embedding of each distance, [channels, 2 * kh - 1], any type that is not quantised.
        qh: number of query positions along the axis; must equal kh.
        kh: number of key positions, 1 or more.
    Returns:
        Tensor [channels, kh, qh] of a's type.
    Raises:
        ValueError: qh differs from kh, one is less than 1, a has another number of rows, or a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_get_rel_pos")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_init(&node, GGML_OP_GET_REL_POS, x.type, x.ne[0], arg_int32(kh, b"kh"), arg_int32(qh, b"qh"), 1)
    if node.ne[1] < 1 or node.ne[2] < 1:
        fail(ValueError, f"qh is {node.ne[2]}, kh is {node.ne[1]}: must be positive")
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

cdef int grad_get_rel_pos(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[:, k, q] = x[:, n - 1 - k + q]: dx[:, r] = the sum of g[:, k, q] over all n - 1 - k + q = r."""
    cdef ggml_context *c = b.ctx
    cdef int64_t n = t.ne[1]
    cdef ggml_tensor *from_keys = repeat(c, index_range(c, n - 1, -1, -1), n, n, 1, 1)
    cdef ggml_tensor *from_queries = reshape(c, index_range(c, 0, n, 1), 1, n, 1, 1)
    cdef ggml_tensor *index = cast(c, add(c, from_keys, from_queries), GGML_TYPE_I32)
    cdef ggml_tensor *rows = reshape(c, contiguous(c, g), t.ne[0], n * n, 1, 1)
    return b.add(t.src[0], get_rows_back(c, rows, reshape(c, index, n * n, 1, 1, 1), 2 * n - 1))

cdef object add_rel_pos_of(object ctx, const char *name, object a, object pw, object ph, bint inplace):
    """What the public function `name` returns: a + pw + ph."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&node, GGML_OP_ADD_REL_POS, x.type, x)
    add_rel_pos_params(&node).inplace = inplace
    node.src[0], node.src[1], node.src[2] = x, arg_tensor(pw, b"pw"), arg_tensor(ph, b"ph")
    if inplace:
        node_in_place(&node, x)
    return wrap_tensor(node_append(c, &node))

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
    return add_rel_pos_of(ctx, b"ggml_add_rel_pos", a, pw, ph, False)

def ggml_add_rel_pos_inplace(ctx, a, pw, ph):
    """Adds decomposed relative position scores to the attention scores in a itself: a[y * k + x, i, n] += pw + ph.

    The terms are pw[x, i, n] and ph[y, i, n]; see ggml_add_rel_pos. The gradient flows to a, pw and ph.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: contiguous f32 scores [k * k, qw * qh, n]; they are modified.
        pw: contiguous f32 scores by column of the key, [k, qw, qh, n].
        ph: contiguous f32 scores by row of the key, in the shape of pw.
    Returns:
        View of all of a, after the addition.
    Raises:
        ValueError: a shape does not fit, or a tensor is not f32 or not contiguous.
        MemoryError: the context is full.
    """
    return add_rel_pos_of(ctx, b"ggml_add_rel_pos_inplace", a, pw, ph, True)

cdef int grad_add_rel_pos(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[y k + x, i] = a[y k + x, i] + pw[x, i] + ph[y, i]: da = g, d(pw) = g summed over y, d(ph) = g summed over x."""
    cdef ggml_tensor *pw = t.src[1]
    cdef ggml_tensor *ph = t.src[2]
    cdef ggml_tensor *g_xy
    cdef int64_t k = pw.ne[0], rows = gg_nrows(pw)
    b.add(t.src[0], g)
    if not b.needs(pw) and not b.needs(ph):
        return 0
    g_xy = reshape(b.ctx, contiguous(b.ctx, g), k, k, rows, 1)      # [x, y, i]
    if b.needs(pw):
        b.add(pw, reshape(b.ctx, sum_to_sizes(b.ctx, g_xy, k, 1, rows, 1), pw.ne[0], pw.ne[1], pw.ne[2], pw.ne[3]))
    if b.needs(ph):
        b.add(ph, reshape(b.ctx, sum_to_sizes(b.ctx, g_xy, 1, k, rows, 1), ph.ne[0], ph.ne[1], ph.ne[2], ph.ne[3]))
    return 0

gradients[GGML_OP_WIN_PART] = grad_win_part
gradients[GGML_OP_WIN_UNPART] = grad_win_unpart
gradients[GGML_OP_GET_REL_POS] = grad_get_rel_pos
gradients[GGML_OP_ADD_REL_POS] = grad_add_rel_pos
