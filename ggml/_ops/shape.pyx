"""Copies, views, repeats, parts and rows of tensors, each with its gradient beside it."""
from libc.stdint cimport INT32_MAX, int64_t
from libc.string cimport memcpy

from .._core cimport (
    C, GGML_TYPE_F32, I32, NE, P, SZ, T, TYPE, draft, fail, gg_add, gg_contiguous, gg_extent, gg_is_float, gg_mul,
    gg_nbytes, gg_nelements, gg_row_size, gg_same_shape, gg_set_param_f32, gg_types,
    inplace1, like, node1, over, put, set_name, view_of,
)
from .elementwise cimport packed, reduced
from .._graph.grad cimport Backward, gradients

cdef enum:
    DUP = 1, ACC = 5, REPEAT = 20, CONCAT = 22, SET = 33, CPY = 34, CONT = 35, RESHAPE = 36, VIEW = 37, PERMUTE = 38
    TRANSPOSE = 39, GET_ROWS = 40, GET_ROWS_BACK = 41, SET_ROWS = 42, FILL = 73


cdef Ten *named(Ten *t, const Ten *a, const char *suffix) noexcept:
    set_name(t, a.name, suffix)
    return t

cdef int whole_blocks(int type, int64_t ne0) except -1:
    if ne0 % gg_types[type].blck:
        fail(ValueError,
             f"ne0 is {ne0}: need a multiple of {gg_types[type].name.decode()}'s block of {gg_types[type].blck}")
    return 0

cdef str shown(const Ten *t):
    return f"{gg_types[t.type].name.decode()} {[t.ne[i] for i in range(4)]}"

# ---- copies ----------------------------------------------------------------------------------------------------------
def ggml_dup(ctx, a):
    """A copy of a."""
    cdef Ctx *c = C(ctx, b"ggml_dup")
    return P(node1(c, DUP, T(a, b"a")))

def ggml_dup_inplace(ctx, a):
    """a over its own memory: a view that counts as a node."""
    cdef Ctx *c = C(ctx, b"ggml_dup_inplace")
    return P(inplace1(c, DUP, T(a, b"a")))

def ggml_cpy(ctx, a, b):
    """Writes a over b, which has as many elements, converted to b's type. The result is a view of b."""
    cdef Ctx *c = C(ctx, b"ggml_cpy")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    cdef Ten *y = T(b, b"b")
    like(&d, CPY, y.type, y)
    d.src[0], d.src[1] = x, y
    over(&d, y)
    cdef Ten *t = put(c, &d)
    if not y.name[0]:
        return P(named(t, x, b" (copy)"))
    named(named(t, y, b" (copy of "), t, x.name)
    return P(named(t, t, b")"))

cdef Ten *cast(Ctx *ctx, Ten *a, int type) except NULL:
    cdef Ten d
    whole_blocks(type, a.ne[0])
    like(&d, CPY, type, a)
    d.src[0] = a
    return named(put(ctx, &d), a, b" (copy)")

def ggml_cast(ctx, a, type_):
    """A copy of a with another type (GGML_TYPE_*)."""
    cdef Ctx *c = C(ctx, b"ggml_cast")
    return P(cast(c, T(a, b"a"), TYPE(type_, b"type_")))

cdef int reshaped(Ten *d, int op, Ten *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except -1:
    """Drafts a node over a, with its type and elements in another shape."""
    cdef size_t n
    draft(d, op, a.type, ne0, ne1, ne2, ne3)
    cdef bint fits = gg_mul(<size_t>ne0, <size_t>ne1, &n) and gg_mul(n, <size_t>ne2, &n) and gg_mul(n, <size_t>ne3, &n)
    if not fits or n != <size_t>gg_nelements(a):
        fail(ValueError, f"a is {shown(a)}: {[ne0, ne1, ne2, ne3]} does not have as many elements")
    whole_blocks(a.type, ne0)
    d.src[0] = a
    return 0

cdef Ten *cont(Ctx *ctx, Ten *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef Ten d
    reshaped(&d, CONT, a, ne0, ne1, ne2, ne3)
    return named(put(ctx, &d), a, b" (cont)")

def ggml_cont(ctx, a):
    """A contiguous copy of a."""
    cdef Ctx *c = C(ctx, b"ggml_cont")
    cdef Ten *x = T(a, b"a")
    return P(cont(c, x, x.ne[0], x.ne[1], x.ne[2], x.ne[3]))

def ggml_cont_1d(ctx, a, ne0):
    """A contiguous copy of a, shaped [ne0]."""
    cdef Ctx *c = C(ctx, b"ggml_cont_1d")
    return P(cont(c, T(a, b"a"), NE(ne0, b"ne0"), 1, 1, 1))

def ggml_cont_2d(ctx, a, ne0, ne1):
    """A contiguous copy of a, shaped [ne0, ne1]."""
    cdef Ctx *c = C(ctx, b"ggml_cont_2d")
    return P(cont(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), 1, 1))

def ggml_cont_3d(ctx, a, ne0, ne1, ne2):
    """A contiguous copy of a, shaped [ne0, ne1, ne2]."""
    cdef Ctx *c = C(ctx, b"ggml_cont_3d")
    return P(cont(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), NE(ne2, b"ne2"), 1))

def ggml_cont_4d(ctx, a, ne0, ne1, ne2, ne3):
    """A contiguous copy of a, shaped [ne0, ne1, ne2, ne3]."""
    cdef Ctx *c = C(ctx, b"ggml_cont_4d")
    return P(cont(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), NE(ne2, b"ne2"), NE(ne3, b"ne3")))

cdef int grad_copy(Backward b, Ten *t, Ten *g) except -1:
    """DUP, CPY, CONT, RESHAPE: the same elements, perhaps in another shape. CPY's b has no part in the result."""
    cdef Ten *a = t.src[0]
    if not b.needs(a):
        return 0
    if not gg_same_shape(g, a):
        g = reshape(b.ctx, packed(b.ctx, g), a.ne[0], a.ne[1], a.ne[2], a.ne[3])
    return b.add(a, g)

# ---- other shapes and strides over the same memory -------------------------------------------------------------------
cdef Ten *reshape(Ctx *ctx, Ten *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef Ten d
    if not gg_contiguous(a):
        fail(ValueError, f"a is {shown(a)}, not contiguous: use ggml_cont first")
    reshaped(&d, RESHAPE, a, ne0, ne1, ne2, ne3)
    packed_strides(&d)
    view_of(&d, a, 0)
    return named(put(ctx, &d), a, b" (reshaped)")

cdef void packed_strides(Ten *d) noexcept:
    cdef int i
    d.nb[0] = <size_t>gg_types[d.type].bytes
    d.nb[1] = gg_row_size(d.type, d.ne[0])
    for i in range(1, 3):
        d.nb[i + 1] = d.nb[i] * <size_t>d.ne[i]

def ggml_reshape(ctx, a, b):
    """a, which must be contiguous, in the shape of b, over the same memory."""
    cdef Ctx *c = C(ctx, b"ggml_reshape")
    cdef Ten *s = T(b, b"b")
    return P(reshape(c, T(a, b"a"), s.ne[0], s.ne[1], s.ne[2], s.ne[3]))

def ggml_reshape_1d(ctx, a, ne0):
    """a, which must be contiguous, as [ne0], over the same memory."""
    cdef Ctx *c = C(ctx, b"ggml_reshape_1d")
    return P(reshape(c, T(a, b"a"), NE(ne0, b"ne0"), 1, 1, 1))

def ggml_reshape_2d(ctx, a, ne0, ne1):
    """a, which must be contiguous, as [ne0, ne1], over the same memory."""
    cdef Ctx *c = C(ctx, b"ggml_reshape_2d")
    return P(reshape(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), 1, 1))

def ggml_reshape_3d(ctx, a, ne0, ne1, ne2):
    """a, which must be contiguous, as [ne0, ne1, ne2], over the same memory."""
    cdef Ctx *c = C(ctx, b"ggml_reshape_3d")
    return P(reshape(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), NE(ne2, b"ne2"), 1))

def ggml_reshape_4d(ctx, a, ne0, ne1, ne2, ne3):
    """a, which must be contiguous, as [ne0, ne1, ne2, ne3], over the same memory."""
    cdef Ctx *c = C(ctx, b"ggml_reshape_4d")
    return P(reshape(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), NE(ne2, b"ne2"), NE(ne3, b"ne3")))

cdef Ten *view(Ctx *ctx, Ten *a, const int64_t *ne, const size_t *nb, size_t offset) except NULL:
    """Any elements of the memory that a lies in: of its view_src, where it is a view itself."""
    cdef Ten d
    cdef int i
    cdef size_t end, bytes = <size_t>gg_types[a.type].bytes
    draft(&d, VIEW, a.type, ne[0], ne[1], ne[2], ne[3])
    memcpy(d.nb, nb, sizeof(d.nb))
    whole_blocks(a.type, ne[0])
    for i in range(1, 4):
        if ne[i] > 1 and nb[i] % bytes:
            fail(ValueError, f"nb{i} is {nb[i]}: need a multiple of {gg_types[a.type].name.decode()}'s {bytes} bytes")
    if offset % bytes:
        fail(ValueError, f"offset is {offset}: need a multiple of {gg_types[a.type].name.decode()}'s {bytes} bytes")
    view_of(&d, a, offset)
    if not (gg_extent(&d, &end) and gg_add(end, d.view_offs, &end)) or end > gg_nbytes(d.view_src):
        fail(ValueError, f"a is {shown(a)}: the view {[ne[0], ne[1], ne[2], ne[3]]} at offset {offset} ends beyond it")
    memcpy(d.op_params, &offset, sizeof(offset))
    d.src[0] = a
    return named(put(ctx, &d), a, b" (view)")

cdef Ten *window(Ctx *ctx, Ten *a, int dim, int64_t start, int64_t n) except NULL:
    cdef int64_t[4] ne = [a.ne[0], a.ne[1], a.ne[2], a.ne[3]]
    ne[dim] = n
    return view(ctx, a, ne, a.nb, <size_t>start * a.nb[dim])

cdef Ten *plain_view(Ctx *ctx, Ten *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, int given, size_t nb1,
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
    cdef Ctx *c = C(ctx, b"ggml_view_1d")
    return P(plain_view(c, T(a, b"a"), NE(ne0, b"ne0"), 1, 1, 1, 0, 0, 0, 0, SZ(offset, b"offset")))

def ggml_view_2d(ctx, a, ne0, ne1, nb1, offset):
    """[ne0, ne1] from byte `offset` of a on, rows nb1 bytes apart, over the same memory."""
    cdef Ctx *c = C(ctx, b"ggml_view_2d")
    return P(plain_view(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), 1, 1, 1, SZ(nb1, b"nb1"), 0, 0,
                        SZ(offset, b"offset")))

def ggml_view_3d(ctx, a, ne0, ne1, ne2, nb1, nb2, offset):
    """[ne0, ne1, ne2] from byte `offset` of a on, with the strides nb1 and nb2 in bytes, over the same memory."""
    cdef Ctx *c = C(ctx, b"ggml_view_3d")
    return P(plain_view(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), NE(ne2, b"ne2"), 1, 2, SZ(nb1, b"nb1"),
                        SZ(nb2, b"nb2"), 0, SZ(offset, b"offset")))

def ggml_view_4d(ctx, a, ne0, ne1, ne2, ne3, nb1, nb2, nb3, offset):
    """[ne0, ne1, ne2, ne3] from byte `offset` of a on, with the strides nb1 to nb3 in bytes, over the same memory."""
    cdef Ctx *c = C(ctx, b"ggml_view_4d")
    return P(plain_view(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), NE(ne2, b"ne2"), NE(ne3, b"ne3"), 3,
                        SZ(nb1, b"nb1"), SZ(nb2, b"nb2"), SZ(nb3, b"nb3"), SZ(offset, b"offset")))

cdef int grad_view(Backward b, Ten *t, Ten *g) except -1:
    """g goes where the view lies, into zeros laid out as the source's memory, which are then seen as the source is."""
    cdef Ten *a = t.src[0]
    cdef Ten *flat
    cdef Ten *row
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
        flat = update(b.ctx, ACC, flat, g, nb[1], nb[2], nb[3], offset, True)
    else:                # ACC adds to dense rows only: here each element is a row
        for i in range(t.ne[3]):
            row = view(b.ctx, g, [1, g.ne[0], g.ne[1], g.ne[2]], [4, g.nb[0], g.nb[1], g.nb[2]], <size_t>i * g.nb[3])
            flat = update(b.ctx, ACC, flat, row, nb[0], nb[1], nb[2], offset + <size_t>i * nb[3], True)
    for i in range(4):
        nb[i] = a.nb[i] // bytes * 4
    return b.add(a, view(b.ctx, flat, a.ne, nb, 0))

cdef int whole_rows(const Ten *a) except -1:
    if gg_types[a.type].quantized:
        fail(ValueError, f"a is {shown(a)}: quantised rows can't become columns")
    return 0

cdef Ten *permute(Ctx *ctx, Ten *a, int axis0, int axis1, int axis2, int axis3) except NULL:
    cdef Ten d
    cdef int[4] axes = [axis0, axis1, axis2, axis3]
    cdef int i, seen = 0
    for i in range(4):
        seen |= 1 << axes[i] if 0 <= axes[i] < 4 else 0
    if seen != 15:
        fail(ValueError, f"axes are {axis0}, {axis1}, {axis2}, {axis3}: need 0 to 3, each once")
    if axis0:
        whole_rows(a)
    draft(&d, PERMUTE, a.type, 0, 0, 0, 0)
    for i in range(4):
        d.ne[axes[i]], d.nb[axes[i]] = a.ne[i], a.nb[i]
        d.op_params[i] = axes[i]
    d.src[0] = a
    view_of(&d, a, 0)
    return named(put(ctx, &d), a, b" (permuted)")

def ggml_permute(ctx, a, axis0, axis1, axis2, axis3):
    """a with dimension i moved to the place axis_i, over the same memory."""
    cdef Ctx *c = C(ctx, b"ggml_permute")
    return P(permute(c, T(a, b"a"), I32(axis0, b"axis0"), I32(axis1, b"axis1"), I32(axis2, b"axis2"),
                     I32(axis3, b"axis3")))

cdef int grad_permute(Backward b, Ten *t, Ten *g) except -1:
    cdef int[4] back
    cdef int i
    for i in range(4):
        back[t.op_params[i]] = i
    return b.add(t.src[0], permute(b.ctx, g, back[0], back[1], back[2], back[3]))

cdef Ten *transpose(Ctx *ctx, Ten *a) except NULL:
    cdef Ten d
    whole_rows(a)
    draft(&d, TRANSPOSE, a.type, a.ne[1], a.ne[0], a.ne[2], a.ne[3])
    d.nb[0], d.nb[1], d.nb[2], d.nb[3] = a.nb[1], a.nb[0], a.nb[2], a.nb[3]
    d.src[0] = a
    view_of(&d, a, 0)
    return named(put(ctx, &d), a, b" (transposed)")

def ggml_transpose(ctx, a):
    """a with dimensions 0 and 1 swapped, over the same memory."""
    cdef Ctx *c = C(ctx, b"ggml_transpose")
    return P(transpose(c, T(a, b"a")))

cdef int grad_transpose(Backward b, Ten *t, Ten *g) except -1:
    return b.add(t.src[0], transpose(b.ctx, g))

# ---- a tensor with another in a view of it ---------------------------------------------------------------------------
cdef Ten *zeros(Ctx *ctx, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef Ten d
    draft(&d, FILL, GGML_TYPE_F32, ne0, ne1, ne2, ne3)
    gg_set_param_f32(&d, 0, 0)
    return put(ctx, &d)

cdef Ten *update(Ctx *ctx, int op, Ten *a, Ten *b, size_t nb1, size_t nb2, size_t nb3, size_t offset,
                 bint inplace) except NULL:
    cdef Ten d
    cdef size_t[4] p = [nb1, nb2, nb3, offset]
    cdef int i
    like(&d, op, a.type, a)
    for i in range(4):
        if p[i] > INT32_MAX and i < 3 and b.ne[i + 1] == 1:
            p[i] = 0        # the stride of a single element: never used
        if p[i] > INT32_MAX:
            fail(ValueError, f"{('nb1', 'nb2', 'nb3', 'offset')[i]} is {p[i]}: need less than 2 GiB")
        d.op_params[i] = <int>p[i]
    d.op_params[4] = inplace
    d.src[0], d.src[1] = a, b
    if inplace:
        over(&d, a)
    return put(ctx, &d)

cdef object updated(Ctx *c, int op, object a, object b, object nb1, object nb2, object nb3, object offset,
                    bint inplace):
    return P(update(c, op, T(a, b"a"), T(b, b"b"), SZ(nb1, b"nb1"), SZ(nb2, b"nb2"), SZ(nb3, b"nb3"),
                    SZ(offset, b"offset"), inplace))

def ggml_acc(ctx, a, b, nb1, nb2, nb3, offset):
    """a with b added to the view of it that starts at byte `offset` and has the strides nb1 to nb3."""
    cdef Ctx *c = C(ctx, b"ggml_acc")
    return updated(c, ACC, a, b, nb1, nb2, nb3, offset, False)

def ggml_acc_inplace(ctx, a, b, nb1, nb2, nb3, offset):
    """ggml_acc, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_acc_inplace")
    return updated(c, ACC, a, b, nb1, nb2, nb3, offset, True)

def ggml_set(ctx, a, b, nb1, nb2, nb3, offset):
    """a with b in the view of it that starts at byte `offset` and has the strides nb1 to nb3."""
    cdef Ctx *c = C(ctx, b"ggml_set")
    return updated(c, SET, a, b, nb1, nb2, nb3, offset, False)

def ggml_set_inplace(ctx, a, b, nb1, nb2, nb3, offset):
    """ggml_set, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_set_inplace")
    return updated(c, SET, a, b, nb1, nb2, nb3, offset, True)

def ggml_set_1d(ctx, a, b, offset):
    """a with b from byte `offset` on."""
    cdef Ctx *c = C(ctx, b"ggml_set_1d")
    cdef Ten *x = T(a, b"a")
    return P(update(c, SET, x, T(b, b"b"), x.nb[1], x.nb[2], x.nb[3], SZ(offset, b"offset"), False))

def ggml_set_1d_inplace(ctx, a, b, offset):
    """ggml_set_1d, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_set_1d_inplace")
    cdef Ten *x = T(a, b"a")
    return P(update(c, SET, x, T(b, b"b"), x.nb[1], x.nb[2], x.nb[3], SZ(offset, b"offset"), True))

def ggml_set_2d(ctx, a, b, nb1, offset):
    """a with b from byte `offset` on, rows nb1 bytes apart."""
    cdef Ctx *c = C(ctx, b"ggml_set_2d")
    cdef Ten *x = T(a, b"a")
    return P(update(c, SET, x, T(b, b"b"), SZ(nb1, b"nb1"), x.nb[2], x.nb[3], SZ(offset, b"offset"), False))

def ggml_set_2d_inplace(ctx, a, b, nb1, offset):
    """ggml_set_2d, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_set_2d_inplace")
    cdef Ten *x = T(a, b"a")
    return P(update(c, SET, x, T(b, b"b"), SZ(nb1, b"nb1"), x.nb[2], x.nb[3], SZ(offset, b"offset"), True))

cdef int grad_update(Backward b, Ten *t, Ten *g) except -1:
    """By b: what g has in the view. By a: g, for SET without what it has there."""
    cdef Ten *x = t.src[0]
    cdef Ten *y = t.src[1]
    cdef size_t[4] nb
    cdef size_t bytes = <size_t>gg_types[t.type].bytes, offset = <size_t>t.op_params[3] // bytes * 4
    cdef int i
    nb[0] = 4
    for i in range(3):
        nb[i + 1] = <size_t>t.op_params[i] // bytes * 4
    g = packed(b.ctx, g)
    if b.needs(y):
        b.add(y, view(b.ctx, g, y.ne, nb, offset))
    if b.needs(x) and t.op == SET:
        g = update(b.ctx, SET, g, zeros(b.ctx, y.ne[0], y.ne[1], y.ne[2], y.ne[3]), nb[1], nb[2], nb[3], offset, False)
    return b.add(x, g)

# ---- repeats and joins -----------------------------------------------------------------------------------------------
cdef Ten *repeat(Ctx *ctx, Ten *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef Ten d
    draft(&d, REPEAT, a.type, ne0, ne1, ne2, ne3)
    d.src[0] = a
    return put(ctx, &d)

def ggml_repeat(ctx, a, b):
    """a tiled to the shape of b."""
    cdef Ctx *c = C(ctx, b"ggml_repeat")
    cdef Ten *x = T(a, b"a")
    cdef Ten *s = T(b, b"b")
    return P(repeat(c, x, s.ne[0], s.ne[1], s.ne[2], s.ne[3]))

def ggml_repeat_4d(ctx, a, ne0, ne1, ne2, ne3):
    """a tiled to [ne0, ne1, ne2, ne3]."""
    cdef Ctx *c = C(ctx, b"ggml_repeat_4d")
    return P(repeat(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), NE(ne2, b"ne2"), NE(ne3, b"ne3")))

cdef int grad_repeat(Backward b, Ten *t, Ten *g) except -1:
    return b.add(t.src[0], reduced(b.ctx, g, t.src[0]))

cdef Ten *concat(Ctx *ctx, Ten *a, Ten *b, int dim) except NULL:
    cdef Ten d
    like(&d, CONCAT, a.type, a)
    if 0 <= dim < 4:
        d.ne[dim] += b.ne[dim]
    d.op_params[0] = dim
    d.src[0], d.src[1] = a, b
    return put(ctx, &d)

def ggml_concat(ctx, a, b, dim):
    """a and b, one after the other along dimension `dim`."""
    cdef Ctx *c = C(ctx, b"ggml_concat")
    return P(concat(c, T(a, b"a"), T(b, b"b"), I32(dim, b"dim")))

cdef int grad_concat(Backward b, Ten *t, Ten *g) except -1:
    cdef int dim = t.op_params[0]
    cdef Ten *x = t.src[0]
    cdef Ten *y = t.src[1]
    if b.needs(x):
        b.add(x, window(b.ctx, g, dim, 0, x.ne[dim]))
    if b.needs(y):
        b.add(y, window(b.ctx, g, dim, x.ne[dim], y.ne[dim]))
    return 0

# ---- rows by index ---------------------------------------------------------------------------------------------------
cdef Ten *get_rows(Ctx *ctx, Ten *a, Ten *b) except NULL:
    cdef Ten d
    cdef bint decoded = gg_is_float(a.type) or gg_types[a.type].quantized
    draft(&d, GET_ROWS, GGML_TYPE_F32 if decoded else a.type, a.ne[0], b.ne[0], b.ne[1], b.ne[2])
    d.src[0], d.src[1] = a, b
    return put(ctx, &d)

def ggml_get_rows(ctx, a, b):
    """The rows of a that b (i32 or i64) names, as f32 (integers and f64 keep their type): [a.ne0, b.ne0, b.ne1, b.ne2].

    For b with more dimensions, a.ne2 must be b.ne1 and a.ne3 b.ne2: each matrix of a has its own indices.
    """
    cdef Ctx *c = C(ctx, b"ggml_get_rows")
    return P(get_rows(c, T(a, b"a"), T(b, b"b")))

cdef int grad_get_rows(Backward b, Ten *t, Ten *g) except -1:
    b.overwritten(t, t.src[1])
    return b.add(t.src[0], get_rows_back(b.ctx, g, t.src[1], t.src[0].ne[1]))

cdef Ten *get_rows_back(Ctx *ctx, Ten *a, Ten *b, int64_t n) except NULL:
    cdef Ten d
    draft(&d, GET_ROWS_BACK, GGML_TYPE_F32, a.ne[0], n, a.ne[2], a.ne[3])
    d.src[0], d.src[1] = a, b
    return put(ctx, &d)

def ggml_get_rows_back(ctx, a, b, c):
    """Gradient of ggml_get_rows: zeros in the shape of c, with the rows of a added to those that b names."""
    cdef Ctx *context = C(ctx, b"ggml_get_rows_back")
    cdef Ten *x = T(a, b"a")
    cdef Ten *s = T(c, b"c")
    if s.ne[0] != x.ne[0] or s.ne[2] != x.ne[2] or s.ne[3] != x.ne[3]:
        fail(ValueError, f"a is {shown(x)}, c is {shown(s)}: only ne[1] may differ")
    return P(get_rows_back(context, x, T(b, b"b"), s.ne[1]))

cdef int grad_get_rows_back(Backward b, Ten *t, Ten *g) except -1:
    b.overwritten(t, t.src[1])
    return b.add(t.src[0], get_rows(b.ctx, g, t.src[1]))

cdef Ten *set_rows(Ctx *ctx, Ten *a, Ten *b, Ten *c) except NULL:
    cdef Ten d
    like(&d, SET_ROWS, a.type, a)
    d.src[0], d.src[1], d.src[2] = b, c, a
    over(&d, a)
    return put(ctx, &d)

def ggml_set_rows(ctx, a, b, c):
    """Writes the rows of b, converted, over the rows of a that c (i64 or i32) names. The result is a view of a.

    Dimensions 2 and 3 of b are multiples of c's 1 and 2: the indices are used again. The rows named must differ.
    """
    cdef Ctx *context = C(ctx, b"ggml_set_rows")
    return P(set_rows(context, T(a, b"a"), T(b, b"b"), T(c, b"c")))

cdef int grad_set_rows(Backward b, Ten *t, Ten *g) except -1:
    """By the rows: those of g. By what they are written over: g with zeros in them."""
    cdef Ten *rows = t.src[0]
    cdef Ten *index = t.src[1]
    cdef Ten *each = index
    b.overwritten(t, index)
    if b.needs(rows):
        if index.ne[1] != rows.ne[2] or index.ne[2] != rows.ne[3]:
            each = repeat(b.ctx, index, index.ne[0], rows.ne[2], rows.ne[3], 1)
        b.add(rows, get_rows(b.ctx, g, each))
    if b.needs(t.src[2]):
        each = zeros(b.ctx, rows.ne[0], rows.ne[1], rows.ne[2], rows.ne[3])
        b.add(t.src[2], set_rows(b.ctx, node1(b.ctx, DUP, g), each, index))
    return 0

gradients[DUP] = gradients[CPY] = gradients[CONT] = gradients[RESHAPE] = grad_copy
gradients[VIEW] = grad_view
gradients[PERMUTE] = grad_permute
gradients[TRANSPOSE] = grad_transpose
gradients[ACC] = gradients[SET] = grad_update
gradients[REPEAT] = grad_repeat
gradients[CONCAT] = grad_concat
gradients[GET_ROWS] = grad_get_rows
gradients[GET_ROWS_BACK] = grad_get_rows_back
gradients[SET_ROWS] = grad_set_rows
