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
    """Image a [c, width, height] cut into windows [c, w, w, n], the last ones filled up with zeros."""
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
    """Windows a [c, w, w, n] put together again to an image [c, w0, h0]: undoes ggml_win_part."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_win_unpart")
    return wrap_tensor(win_unpart(c, arg_tensor(a, b"a"), arg_extent(w0, b"w0"), arg_extent(h0, b"h0"), arg_int32(w, b"w")))

cdef int grad_win_unpart(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    return b.add(t.src[0], win_part(b.ctx, g, t.op_params[0]))

def ggml_get_rel_pos(ctx, a, qh, kh):
    """[c, kh, qh]: for each query and key the row of a [c, 2 * kh - 1] that stands for their distance. qh is kh."""
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
    """Scores a [kw * kh, qw * qh, n] plus those by width (pw) and height (ph), both [kw, qw, qh, n]; kw is kh."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_add_rel_pos")
    return wrap_tensor(add_rel_pos(c, arg_tensor(a, b"a"), arg_tensor(pw, b"pw"), arg_tensor(ph, b"ph"), False))

def ggml_add_rel_pos_inplace(ctx, a, pw, ph):
    """ggml_add_rel_pos, written over a."""
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
