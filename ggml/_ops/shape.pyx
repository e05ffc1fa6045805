"""Copies, views, repeated and joined tensors, updates of a part, each with its gradient."""
from libc.stdint cimport INT32_MAX, int64_t
from libc.string cimport memcpy

from .._core cimport (
    arg_context, arg_extent, arg_int32, arg_size, arg_tensor, arg_type, fail, gg_add, gg_contiguous, gg_extent, gg_mul,
    gg_nbytes, gg_nelements, gg_row_size, gg_same_shape, gg_types, ggml_context, ggml_tensor, node1, node1_in_place,
    node_append, node_in_place, node_init, node_like, node_view, set_name, shape_text, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ACC, GGML_OP_CONCAT, GGML_OP_CONT, GGML_OP_CPY, GGML_OP_DUP, GGML_OP_PERMUTE, GGML_OP_REPEAT,
    GGML_OP_RESHAPE, GGML_OP_SET, GGML_OP_TRANSPOSE, GGML_OP_VIEW,
)
from .._graph.grad cimport Backward, gradients
from .fill cimport zeros
from .reduce cimport sum_to_shape

cdef ggml_tensor *named_after(ggml_tensor *t, const ggml_tensor *a, const char *suffix) noexcept:
    set_name(t, a.name, suffix)
    return t

cdef int whole_blocks(int type, int64_t ne0) except -1:
    if ne0 % gg_types[type].blck:
        fail(ValueError,
             f"ne0 is {ne0}: need a multiple of {gg_types[type].name.decode()}'s block of {gg_types[type].blck}")
    return 0

# ---- copies ----------------------------------------------------------------------------------------------------------
def ggml_dup(ctx, a):
    """A copy of a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_dup")
    return wrap_tensor(node1(c, GGML_OP_DUP, arg_tensor(a, b"a")))

def ggml_dup_inplace(ctx, a):
    """a over its own memory: a view that counts as a node."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_dup_inplace")
    return wrap_tensor(node1_in_place(c, GGML_OP_DUP, arg_tensor(a, b"a")))

def ggml_cpy(ctx, a, b):
    """Writes a over b, which has as many elements, converted to b's type. The result is a view of b."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_cpy")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef ggml_tensor *y = arg_tensor(b, b"b")
    node_like(&d, GGML_OP_CPY, y.type, y)
    d.src[0], d.src[1] = x, y
    node_in_place(&d, y)
    cdef ggml_tensor *t = node_append(c, &d)
    if not y.name[0]:
        return wrap_tensor(named_after(t, x, b" (copy)"))
    named_after(named_after(t, y, b" (copy of "), t, x.name)
    return wrap_tensor(named_after(t, t, b")"))

cdef ggml_tensor *cast(ggml_context *ctx, ggml_tensor *a, int type) except NULL:
    cdef ggml_tensor d
    whole_blocks(type, a.ne[0])
    node_like(&d, GGML_OP_CPY, type, a)
    d.src[0] = a
    return named_after(node_append(ctx, &d), a, b" (copy)")

def ggml_cast(ctx, a, type_):
    """A copy of a with another type (GGML_TYPE_*)."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_cast")
    return wrap_tensor(cast(c, arg_tensor(a, b"a"), arg_type(type_, b"type_")))

cdef int reshaped(ggml_tensor *d, int op, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except -1:
    """Drafts a node over a, with its type and elements in another shape."""
    cdef size_t n
    node_init(d, op, a.type, ne0, ne1, ne2, ne3)
    cdef bint fits = gg_mul(<size_t>ne0, <size_t>ne1, &n) and gg_mul(n, <size_t>ne2, &n) and gg_mul(n, <size_t>ne3, &n)
    if not fits or n != <size_t>gg_nelements(a):
        fail(ValueError, f"a is {shape_text(a)}: {[ne0, ne1, ne2, ne3]} does not have as many elements")
    whole_blocks(a.type, ne0)
    d.src[0] = a
    return 0

cdef ggml_tensor *cont(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef ggml_tensor d
    reshaped(&d, GGML_OP_CONT, a, ne0, ne1, ne2, ne3)
    return named_after(node_append(ctx, &d), a, b" (cont)")

def ggml_cont(ctx, a):
    """A contiguous copy of a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_cont")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(cont(c, x, x.ne[0], x.ne[1], x.ne[2], x.ne[3]))

def ggml_cont_1d(ctx, a, ne0):
    """A contiguous copy of a, shaped [ne0]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_cont_1d")
    return wrap_tensor(cont(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), 1, 1, 1))

def ggml_cont_2d(ctx, a, ne0, ne1):
    """A contiguous copy of a, shaped [ne0, ne1]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_cont_2d")
    return wrap_tensor(cont(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), 1, 1))

def ggml_cont_3d(ctx, a, ne0, ne1, ne2):
    """A contiguous copy of a, shaped [ne0, ne1, ne2]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_cont_3d")
    return wrap_tensor(cont(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), 1))

def ggml_cont_4d(ctx, a, ne0, ne1, ne2, ne3):
    """A contiguous copy of a, shaped [ne0, ne1, ne2, ne3]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_cont_4d")
    return wrap_tensor(cont(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3")))

cdef int grad_copy(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """DUP, CPY, CONT, RESHAPE: the same elements, perhaps in another shape. CPY's b has no part in the result."""
    cdef ggml_tensor *a = t.src[0]
    if not b.needs(a):
        return 0
    if not gg_same_shape(g, a):
        g = reshape(b.ctx, contiguous(b.ctx, g), a.ne[0], a.ne[1], a.ne[2], a.ne[3])
    return b.add(a, g)

# ---- other shapes and strides over the same memory -------------------------------------------------------------------
cdef ggml_tensor *reshape(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef ggml_tensor d
    if not gg_contiguous(a):
        fail(ValueError, f"a is {shape_text(a)}, not contiguous: use ggml_cont first")
    reshaped(&d, GGML_OP_RESHAPE, a, ne0, ne1, ne2, ne3)
    packed_strides(&d)
    node_view(&d, a, 0)
    return named_after(node_append(ctx, &d), a, b" (reshaped)")

cdef void packed_strides(ggml_tensor *d) noexcept:
    cdef int i
    d.nb[0] = <size_t>gg_types[d.type].bytes
    d.nb[1] = gg_row_size(d.type, d.ne[0])
    for i in range(1, 3):
        d.nb[i + 1] = d.nb[i] * <size_t>d.ne[i]

def ggml_reshape(ctx, a, b):
    """a, which must be contiguous, in the shape of b, over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_reshape")
    cdef ggml_tensor *s = arg_tensor(b, b"b")
    return wrap_tensor(reshape(c, arg_tensor(a, b"a"), s.ne[0], s.ne[1], s.ne[2], s.ne[3]))

def ggml_reshape_1d(ctx, a, ne0):
    """a, which must be contiguous, as [ne0], over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_reshape_1d")
    return wrap_tensor(reshape(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), 1, 1, 1))

def ggml_reshape_2d(ctx, a, ne0, ne1):
    """a, which must be contiguous, as [ne0, ne1], over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_reshape_2d")
    return wrap_tensor(reshape(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), 1, 1))

def ggml_reshape_3d(ctx, a, ne0, ne1, ne2):
    """a, which must be contiguous, as [ne0, ne1, ne2], over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_reshape_3d")
    return wrap_tensor(reshape(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), 1))

def ggml_reshape_4d(ctx, a, ne0, ne1, ne2, ne3):
    """a, which must be contiguous, as [ne0, ne1, ne2, ne3], over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_reshape_4d")
    return wrap_tensor(reshape(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3")))

cdef ggml_tensor *view(ggml_context *ctx, ggml_tensor *a, const int64_t *ne, const size_t *nb, size_t offset) except NULL:
    """Any elements of the memory that a lies in: of its view_src, where it is a view itself."""
    cdef ggml_tensor d
    cdef int i
    cdef size_t end, bytes = <size_t>gg_types[a.type].bytes
    node_init(&d, GGML_OP_VIEW, a.type, ne[0], ne[1], ne[2], ne[3])
    memcpy(d.nb, nb, sizeof(d.nb))
    whole_blocks(a.type, ne[0])
    for i in range(1, 4):
        if ne[i] > 1 and nb[i] % bytes:
            fail(ValueError, f"nb{i} is {nb[i]}: need a multiple of {gg_types[a.type].name.decode()}'s {bytes} bytes")
    if offset % bytes:
        fail(ValueError, f"offset is {offset}: need a multiple of {gg_types[a.type].name.decode()}'s {bytes} bytes")
    node_view(&d, a, offset)
    if not (gg_extent(&d, &end) and gg_add(end, d.view_offs, &end)) or end > gg_nbytes(d.view_src):
        fail(ValueError, f"a is {shape_text(a)}: the view {[ne[0], ne[1], ne[2], ne[3]]} at offset {offset} ends beyond it")
    memcpy(d.op_params, &offset, sizeof(offset))
    d.src[0] = a
    return named_after(node_append(ctx, &d), a, b" (view)")

cdef ggml_tensor *view_slice(ggml_context *ctx, ggml_tensor *a, int dim, int64_t start, int64_t n) except NULL:
    cdef int64_t[4] ne = [a.ne[0], a.ne[1], a.ne[2], a.ne[3]]
    ne[dim] = n
    return view(ctx, a, ne, a.nb, <size_t>start * a.nb[dim])

cdef ggml_tensor *plain_view(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, int given, size_t nb1,
                     size_t nb2, size_t nb3, size_t offset) except NULL:
    """A view with the first `given` of the strides nb1 to nb3, contiguous in the dimensions above."""
    cdef int64_t[4] ne = [ne0, ne1, ne2, ne3]
    cdef size_t[4] nb = [<size_t>gg_types[a.type].bytes, nb1, nb2, nb3]
    cdef int i
    # A product that overflows is the stride of a dimension of size 1, or the view is too large anyway.
    for i in range(given + 1, 4):
        nb[i] = nb[i - 1] * <size_t>ne[i - 1] if i > 1 else gg_row_size(a.type, ne0)
    return view(ctx, a, ne, nb, offset)

def ggml_view_1d(ctx, a, ne0, offset):
    """ne0 elements from byte `offset` of a on, over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_view_1d")
    return wrap_tensor(plain_view(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), 1, 1, 1, 0, 0, 0, 0, arg_size(offset, b"offset")))

def ggml_view_2d(ctx, a, ne0, ne1, nb1, offset):
    """[ne0, ne1] from byte `offset` of a on, rows nb1 bytes apart, over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_view_2d")
    return wrap_tensor(plain_view(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), 1, 1, 1, arg_size(nb1, b"nb1"), 0, 0,
                        arg_size(offset, b"offset")))

def ggml_view_3d(ctx, a, ne0, ne1, ne2, nb1, nb2, offset):
    """[ne0, ne1, ne2] from byte `offset` of a on, with the strides nb1 and nb2 in bytes, over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_view_3d")
    return wrap_tensor(plain_view(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), 1, 2, arg_size(nb1, b"nb1"),
                        arg_size(nb2, b"nb2"), 0, arg_size(offset, b"offset")))

def ggml_view_4d(ctx, a, ne0, ne1, ne2, ne3, nb1, nb2, nb3, offset):
    """[ne0, ne1, ne2, ne3] from byte `offset` of a on, with the strides nb1 to nb3 in bytes, over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_view_4d")
    return wrap_tensor(plain_view(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3"), 3,
                        arg_size(nb1, b"nb1"), arg_size(nb2, b"nb2"), arg_size(nb3, b"nb3"), arg_size(offset, b"offset")))

cdef int grad_view(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """g goes where the view lies, into zeros laid out as the source's memory, which are then seen as the source is."""
    cdef ggml_tensor *a = t.src[0]
    cdef ggml_tensor *flat
    cdef ggml_tensor *row
    cdef size_t[4] nb
    cdef size_t bytes = <size_t>gg_types[a.type].bytes, end = gg_nbytes(a)
    cdef size_t offset = t.view_offs - (a.view_offs if a.view_src != NULL else 0)
    cdef int64_t i
    if not b.needs(a):
        return 0
    end = max(end, offset + gg_nbytes(t))     # a view may reach elements of a's memory that a skips
    flat = zeros(b.ctx, <int64_t>(end // bytes), 1, 1, 1)
    for i in range(4):
        nb[i] = t.nb[i] // bytes * 4
    offset = offset // bytes * 4
    if t.nb[0] == bytes or t.ne[0] < 2:
        flat = update(b.ctx, GGML_OP_ACC, flat, g, nb[1], nb[2], nb[3], offset, True)
    else:                # ACC adds to dense rows only: here each element is a row
        for i in range(t.ne[3]):
            row = view(b.ctx, g, [1, g.ne[0], g.ne[1], g.ne[2]], [4, g.nb[0], g.nb[1], g.nb[2]], <size_t>i * g.nb[3])
            flat = update(b.ctx, GGML_OP_ACC, flat, row, nb[0], nb[1], nb[2], offset + <size_t>i * nb[3], True)
    for i in range(4):
        nb[i] = a.nb[i] // bytes * 4
    return b.add(a, view(b.ctx, flat, a.ne, nb, 0))

cdef int whole_rows(const ggml_tensor *a) except -1:
    if gg_types[a.type].quantized:
        fail(ValueError, f"a is {shape_text(a)}: quantised rows can't become columns")
    return 0

cdef ggml_tensor *permute(ggml_context *ctx, ggml_tensor *a, int axis0, int axis1, int axis2, int axis3) except NULL:
    cdef ggml_tensor d
    cdef int[4] axes = [axis0, axis1, axis2, axis3]
    cdef int i, seen = 0
    for i in range(4):
        seen |= 1 << axes[i] if 0 <= axes[i] < 4 else 0
    if seen != 15:
        fail(ValueError, f"axes are {axis0}, {axis1}, {axis2}, {axis3}: need 0 to 3, each once")
    if axis0:
        whole_rows(a)
    node_init(&d, GGML_OP_PERMUTE, a.type, 0, 0, 0, 0)
    for i in range(4):
        d.ne[axes[i]], d.nb[axes[i]] = a.ne[i], a.nb[i]
        d.op_params[i] = axes[i]
    d.src[0] = a
    node_view(&d, a, 0)
    return named_after(node_append(ctx, &d), a, b" (permuted)")

def ggml_permute(ctx, a, axis0, axis1, axis2, axis3):
    """a with dimension i moved to the place axis_i, over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_permute")
    return wrap_tensor(permute(c, arg_tensor(a, b"a"), arg_int32(axis0, b"axis0"), arg_int32(axis1, b"axis1"), arg_int32(axis2, b"axis2"),
                     arg_int32(axis3, b"axis3")))

cdef int grad_permute(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef int[4] back
    cdef int i
    for i in range(4):
        back[t.op_params[i]] = i
    return b.add(t.src[0], permute(b.ctx, g, back[0], back[1], back[2], back[3]))

cdef ggml_tensor *transpose(ggml_context *ctx, ggml_tensor *a) except NULL:
    cdef ggml_tensor d
    whole_rows(a)
    node_init(&d, GGML_OP_TRANSPOSE, a.type, a.ne[1], a.ne[0], a.ne[2], a.ne[3])
    d.nb[0], d.nb[1], d.nb[2], d.nb[3] = a.nb[1], a.nb[0], a.nb[2], a.nb[3]
    d.src[0] = a
    node_view(&d, a, 0)
    return named_after(node_append(ctx, &d), a, b" (transposed)")

def ggml_transpose(ctx, a):
    """a with dimensions 0 and 1 swapped, over the same memory."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_transpose")
    return wrap_tensor(transpose(c, arg_tensor(a, b"a")))

cdef int grad_transpose(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    return b.add(t.src[0], transpose(b.ctx, g))

# ---- a tensor with another in a view of it ---------------------------------------------------------------------------
cdef ggml_tensor *update(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b, size_t nb1, size_t nb2, size_t nb3, size_t offset,
                 bint inplace) except NULL:
    cdef ggml_tensor d
    cdef size_t[4] p = [nb1, nb2, nb3, offset]
    cdef int i
    node_like(&d, op, a.type, a)
    for i in range(4):
        if p[i] > INT32_MAX and i < 3 and b.ne[i + 1] == 1:
            p[i] = 0        # the stride of a single element: never used
        if p[i] > INT32_MAX:
            fail(ValueError, f"{('nb1', 'nb2', 'nb3', 'offset')[i]} is {p[i]}: need less than 2 GiB")
        d.op_params[i] = <int>p[i]
    d.op_params[4] = inplace
    d.src[0], d.src[1] = a, b
    if inplace:
        node_in_place(&d, a)
    return node_append(ctx, &d)

cdef object updated(ggml_context *c, int op, object a, object b, object nb1, object nb2, object nb3, object offset,
                    bint inplace):
    return wrap_tensor(update(c, op, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_size(nb1, b"nb1"), arg_size(nb2, b"nb2"), arg_size(nb3, b"nb3"),
                    arg_size(offset, b"offset"), inplace))

def ggml_acc(ctx, a, b, nb1, nb2, nb3, offset):
    """a with b added to the view of it that starts at byte `offset` and has the strides nb1 to nb3."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_acc")
    return updated(c, GGML_OP_ACC, a, b, nb1, nb2, nb3, offset, False)

def ggml_acc_inplace(ctx, a, b, nb1, nb2, nb3, offset):
    """ggml_acc, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_acc_inplace")
    return updated(c, GGML_OP_ACC, a, b, nb1, nb2, nb3, offset, True)

def ggml_set(ctx, a, b, nb1, nb2, nb3, offset):
    """a with b in the view of it that starts at byte `offset` and has the strides nb1 to nb3."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_set")
    return updated(c, GGML_OP_SET, a, b, nb1, nb2, nb3, offset, False)

def ggml_set_inplace(ctx, a, b, nb1, nb2, nb3, offset):
    """ggml_set, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_set_inplace")
    return updated(c, GGML_OP_SET, a, b, nb1, nb2, nb3, offset, True)

def ggml_set_1d(ctx, a, b, offset):
    """a with b from byte `offset` on."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_set_1d")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(update(c, GGML_OP_SET, x, arg_tensor(b, b"b"), x.nb[1], x.nb[2], x.nb[3], arg_size(offset, b"offset"), False))

def ggml_set_1d_inplace(ctx, a, b, offset):
    """ggml_set_1d, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_set_1d_inplace")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(update(c, GGML_OP_SET, x, arg_tensor(b, b"b"), x.nb[1], x.nb[2], x.nb[3], arg_size(offset, b"offset"), True))

def ggml_set_2d(ctx, a, b, nb1, offset):
    """a with b from byte `offset` on, rows nb1 bytes apart."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_set_2d")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(update(c, GGML_OP_SET, x, arg_tensor(b, b"b"), arg_size(nb1, b"nb1"), x.nb[2], x.nb[3], arg_size(offset, b"offset"), False))

def ggml_set_2d_inplace(ctx, a, b, nb1, offset):
    """ggml_set_2d, written over a."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_set_2d_inplace")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    return wrap_tensor(update(c, GGML_OP_SET, x, arg_tensor(b, b"b"), arg_size(nb1, b"nb1"), x.nb[2], x.nb[3], arg_size(offset, b"offset"), True))

cdef int grad_update(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """By b: what g has in the view. By a: g, for SET without what it has there."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    cdef size_t[4] nb
    cdef size_t bytes = <size_t>gg_types[t.type].bytes, offset = <size_t>t.op_params[3] // bytes * 4
    cdef int i
    nb[0] = 4
    for i in range(3):
        nb[i + 1] = <size_t>t.op_params[i] // bytes * 4
    g = contiguous(b.ctx, g)
    if b.needs(y):
        b.add(y, view(b.ctx, g, y.ne, nb, offset))
    if b.needs(x) and t.op == GGML_OP_SET:
        g = update(b.ctx, GGML_OP_SET, g, zeros(b.ctx, y.ne[0], y.ne[1], y.ne[2], y.ne[3]), nb[1], nb[2], nb[3], offset, False)
    return b.add(x, g)

# ---- repeats and joins -----------------------------------------------------------------------------------------------
cdef ggml_tensor *repeat(ggml_context *ctx, ggml_tensor *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef ggml_tensor d
    node_init(&d, GGML_OP_REPEAT, a.type, ne0, ne1, ne2, ne3)
    d.src[0] = a
    return node_append(ctx, &d)

def ggml_repeat(ctx, a, b):
    """a tiled to the shape of b."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_repeat")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef ggml_tensor *s = arg_tensor(b, b"b")
    return wrap_tensor(repeat(c, x, s.ne[0], s.ne[1], s.ne[2], s.ne[3]))

def ggml_repeat_4d(ctx, a, ne0, ne1, ne2, ne3):
    """a tiled to [ne0, ne1, ne2, ne3]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_repeat_4d")
    return wrap_tensor(repeat(c, arg_tensor(a, b"a"), arg_extent(ne0, b"ne0"), arg_extent(ne1, b"ne1"), arg_extent(ne2, b"ne2"), arg_extent(ne3, b"ne3")))

cdef int grad_repeat(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    return b.add(t.src[0], sum_to_shape(b.ctx, g, t.src[0]))

cdef ggml_tensor *concat(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b, int dim) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_CONCAT, a.type, a)
    if 0 <= dim < 4:
        d.ne[dim] += b.ne[dim]
    d.op_params[0] = dim
    d.src[0], d.src[1] = a, b
    return node_append(ctx, &d)

def ggml_concat(ctx, a, b, dim):
    """a and b, one after the other along dimension `dim`."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_concat")
    return wrap_tensor(concat(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_int32(dim, b"dim")))

cdef int grad_concat(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef int dim = t.op_params[0]
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    if b.needs(x):
        b.add(x, view_slice(b.ctx, g, dim, 0, x.ne[dim]))
    if b.needs(y):
        b.add(y, view_slice(b.ctx, g, dim, x.ne[dim], y.ne[dim]))
    return 0

# ---- builders --------------------------------------------------------------------------------------------------------
cdef ggml_tensor *contiguous(ggml_context *ctx, ggml_tensor *a) except NULL:
    return a if gg_contiguous(a) else node1(ctx, GGML_OP_CONT, a)

cdef ggml_tensor *broadcast_to(ggml_context *ctx, ggml_tensor *a, ggml_tensor *to) except NULL:
    cdef ggml_tensor d
    if gg_same_shape(a, to):
        return a
    node_like(&d, GGML_OP_REPEAT, a.type, to)
    d.src[0] = a
    return node_append(ctx, &d)

gradients[GGML_OP_DUP] = gradients[GGML_OP_CPY] = gradients[GGML_OP_CONT] = gradients[GGML_OP_RESHAPE] = grad_copy
gradients[GGML_OP_VIEW] = grad_view
gradients[GGML_OP_PERMUTE] = grad_permute
gradients[GGML_OP_TRANSPOSE] = grad_transpose
gradients[GGML_OP_ACC] = gradients[GGML_OP_SET] = grad_update
gradients[GGML_OP_REPEAT] = grad_repeat
gradients[GGML_OP_CONCAT] = grad_concat
