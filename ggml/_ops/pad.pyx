"""Padding, rolling, triangles, windows, images to other sizes, tensors from nothing; gradients beside them."""
from libc.math cimport ceil, log
from libc.stdint cimport int32_t, int64_t

from .._core cimport (
    C, F, GGML_TYPE_F32, GGML_TYPE_I32, I32, NE, P, T, draft, fail, gg_nrows, gg_set_param_f32, ggml_context,
    ggml_tensor, like, node1, over, put,
)
from .elementwise cimport add, mul, packed, reduced, scale, sub, unary
from .._graph.grad cimport Backward, gradients
from .shape cimport cast, concat, get_rows_back, repeat, reshape, transpose, update, view, window

cdef enum:
    ACC = 5, DIAG = 43, UPSCALE = 63, PAD = 64, PAD_REFLECT_1D = 65, ROLL = 66, ARANGE = 67, TIMESTEP_EMBEDDING = 68,
    TRI = 72, FILL = 73, UPSCALE_BACK = 150, EXP = 13
    WIN_PART = 78, WIN_UNPART = 79, GET_REL_POS = 80, ADD_REL_POS = 81, DUP = 1

ctypedef ggml_context Ctx
ctypedef ggml_tensor Ten

# ---- padding ---------------------------------------------------------------------------------------------------------
cdef Ten *pad(Ctx *ctx, Ten *a, const int *left_right, bint circular) except NULL:
    cdef Ten d
    cdef int i
    like(&d, PAD, a.type, a)
    for i in range(8):
        d.op_params[i] = left_right[i]
        d.ne[i // 2] += left_right[i]
    d.op_params[8] = circular
    d.src[0] = a
    return put(ctx, &d)

cdef object right(object ctx, object a, object p0, object p1, object p2, object p3, const char *fn, bint circular):
    cdef Ctx *c = C(ctx, fn)
    cdef int[8] p = [0, I32(p0, b"p0"), 0, I32(p1, b"p1"), 0, I32(p2, b"p2"), 0, I32(p3, b"p3")]
    return P(pad(c, T(a, b"a"), p, circular))

def ggml_pad(ctx, a, p0, p1, p2, p3):
    """a with p0 to p3 zeros after its elements in each dimension."""
    return right(ctx, a, p0, p1, p2, p3, b"ggml_pad", False)

def ggml_pad_circular(ctx, a, p0, p1, p2, p3):
    """a with p0 to p3 more elements in each dimension, begun anew from the first."""
    return right(ctx, a, p0, p1, p2, p3, b"ggml_pad_circular", True)

def ggml_pad_ext(ctx, a, lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3):
    """a with zeros before (lp) and after (rp) its elements in each dimension."""
    cdef Ctx *c = C(ctx, b"ggml_pad_ext")
    cdef int[8] p = [I32(lp0, b"lp0"), I32(rp0, b"rp0"), I32(lp1, b"lp1"), I32(rp1, b"rp1"),
                     I32(lp2, b"lp2"), I32(rp2, b"rp2"), I32(lp3, b"lp3"), I32(rp3, b"rp3")]
    return P(pad(c, T(a, b"a"), p, False))

def ggml_pad_ext_circular(ctx, a, lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3):
    """a with elements before (lp) and after (rp) its own in each dimension, as if a went round in a ring."""
    cdef Ctx *c = C(ctx, b"ggml_pad_ext_circular")
    cdef int[8] p = [I32(lp0, b"lp0"), I32(rp0, b"rp0"), I32(lp1, b"lp1"), I32(rp1, b"rp1"),
                     I32(lp2, b"lp2"), I32(rp2, b"rp2"), I32(lp3, b"lp3"), I32(rp3, b"rp3")]
    return P(pad(c, T(a, b"a"), p, True))

cdef Ten *folded(Ctx *ctx, Ten *g, int dim, int64_t left, int64_t n) except NULL:
    """g summed along dim over a ring of n elements, the first of them at `left`."""
    cdef int64_t total = g.ne[dim], at = left % n - n, start, end
    cdef Ten *sum = node1(ctx, DUP, window(ctx, g, dim, left, n))
    while at < total:
        start, end = max(at, 0), min(at + n, total)
        if at != left and end > start:
            sum = update(ctx, ACC, sum, window(ctx, g, dim, start, end - start), sum.nb[1], sum.nb[2], sum.nb[3],
                         <size_t>(start - at) * sum.nb[dim], True)
        at += n
    return sum

cdef int grad_pad(Backward b, Ten *t, Ten *g) except -1:
    cdef Ten *a = t.src[0]
    cdef int i
    for i in range(4):
        if g.ne[i] == a.ne[i]:
            continue
        if t.op_params[8]:
            g = folded(b.ctx, g, i, t.op_params[2 * i], a.ne[i])
        else:
            g = window(b.ctx, g, i, t.op_params[2 * i], a.ne[i])
    return b.add(a, g)

def ggml_pad_reflect_1d(ctx, a, p0, p1):
    """a with p0 elements before and p1 after its rows, mirrored at the first and last element, not repeating them."""
    cdef Ctx *c = C(ctx, b"ggml_pad_reflect_1d")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    like(&d, PAD_REFLECT_1D, x.type, x)
    d.op_params[0], d.op_params[1] = I32(p0, b"p0"), I32(p1, b"p1")
    d.ne[0] += <int64_t>d.op_params[0] + d.op_params[1]
    d.src[0] = x
    return P(put(c, &d))

cdef int grad_pad_reflect(Backward b, Ten *t, Ten *g) except -1:
    """Each element of g is added to the one that it mirrors: as rows by index of the transposed matrix of all rows."""
    cdef Ten *a = t.src[0]
    cdef Ctx *c = b.ctx
    cdef int64_t n = a.ne[0], rows = gg_nrows(a)
    cdef int before = t.op_params[0], after = t.op_params[1]
    cdef Ten *index = arange(c, 0, n, 1)
    if before:
        index = concat(c, arange(c, before, 0, -1), index, 0)
    if after:
        index = concat(c, index, arange(c, n - 2, n - 2 - after, -1), 0)
    g = transpose(c, reshape(c, packed(c, g), t.ne[0], rows, 1, 1))
    g = get_rows_back(c, g, cast(c, index, GGML_TYPE_I32), n)
    return b.add(a, reshape(c, packed(c, transpose(c, g)), a.ne[0], a.ne[1], a.ne[2], a.ne[3]))

def ggml_roll(ctx, a, shift0, shift1, shift2, shift3):
    """a with its elements moved on by the shifts in each dimension; those that leave at one end enter at the other."""
    cdef Ctx *c = C(ctx, b"ggml_roll")
    return P(roll(c, T(a, b"a"), I32(shift0, b"shift0"), I32(shift1, b"shift1"), I32(shift2, b"shift2"),
                  I32(shift3, b"shift3")))

cdef Ten *roll(Ctx *ctx, Ten *a, int64_t s0, int64_t s1, int64_t s2, int64_t s3) except NULL:
    cdef Ten d
    cdef int64_t[4] shifts = [s0, s1, s2, s3]
    cdef int i
    like(&d, ROLL, a.type, a)
    for i in range(4):
        d.op_params[i] = <int>(shifts[i] % a.ne[i]) if a.ne[i] else 0
    d.src[0] = a
    return put(ctx, &d)

cdef int grad_roll(Backward b, Ten *t, Ten *g) except -1:
    cdef int32_t *s = t.op_params
    return b.add(t.src[0], roll(b.ctx, g, -<int64_t>s[0], -<int64_t>s[1], -<int64_t>s[2], -<int64_t>s[3]))

# ---- triangles and diagonals -----------------------------------------------------------------------------------------
cdef Ten *tri(Ctx *ctx, Ten *a, int kind) except NULL:
    cdef Ten d
    like(&d, TRI, a.type, a)
    d.op_params[0] = kind
    d.src[0] = a
    return put(ctx, &d)

def ggml_tri(ctx, a, type_):
    """Of each square matrix the part above or below the diagonal, with or without it (GGML_TRI_TYPE_*)."""
    cdef Ctx *c = C(ctx, b"ggml_tri")
    return P(tri(c, T(a, b"a"), I32(type_, b"type_")))

cdef int grad_tri(Backward b, Ten *t, Ten *g) except -1:
    return b.add(t.src[0], tri(b.ctx, g, t.op_params[0]))

def ggml_diag(ctx, a):
    """Square matrices with the rows of a (a.ne1 is 1) on their diagonals."""
    cdef Ctx *c = C(ctx, b"ggml_diag")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    draft(&d, DIAG, x.type, x.ne[0], x.ne[0], x.ne[2], x.ne[3])
    d.src[0] = x
    return P(put(c, &d))

cdef int grad_diag(Backward b, Ten *t, Ten *g) except -1:
    cdef size_t[4] nb = [g.nb[0] + g.nb[1], g.nb[1], g.nb[2], g.nb[3]]
    return b.add(t.src[0], view(b.ctx, g, t.src[0].ne, nb, 0))

# ---- tensors from nothing --------------------------------------------------------------------------------------------
cdef Ten *fill(Ctx *ctx, Ten *a, float value, bint inplace) except NULL:
    cdef Ten d
    like(&d, FILL, a.type, a)
    gg_set_param_f32(&d, 0, value)
    d.src[0] = a
    if inplace:
        over(&d, a)
    return put(ctx, &d)

def ggml_fill(ctx, a, c):
    """A tensor in the type and shape of a, all elements c."""
    cdef Ctx *context = C(ctx, b"ggml_fill")
    return P(fill(context, T(a, b"a"), F(c, b"c"), False))

def ggml_fill_inplace(ctx, a, c):
    """ggml_fill, written over a."""
    cdef Ctx *context = C(ctx, b"ggml_fill_inplace")
    return P(fill(context, T(a, b"a"), F(c, b"c"), True))

cdef int grad_fill(Backward b, Ten *t, Ten *g) except -1:
    """Nothing of a reaches the result."""
    return 0

cdef Ten *arange(Ctx *ctx, float start, float stop, float step) except NULL:
    cdef Ten d
    cdef double n = ceil((<double>stop - start) / step) if step else -1
    if not 0 <= n < 1e15:
        fail(ValueError, f"start is {start}, stop is {stop}: steps of {step} do not lead there")
    draft(&d, ARANGE, GGML_TYPE_F32, <int64_t>n, 1, 1, 1)
    gg_set_param_f32(&d, 0, start)
    gg_set_param_f32(&d, 1, stop)
    gg_set_param_f32(&d, 2, step)
    return put(ctx, &d)

def ggml_arange(ctx, start, stop, step):
    """start, start + step, ... up to but not with stop (f32)."""
    cdef Ctx *c = C(ctx, b"ggml_arange")
    return P(arange(c, F(start, b"start"), F(stop, b"stop"), F(step, b"step")))

def ggml_timestep_embedding(ctx, timesteps, dim, max_period):
    """[dim, n] from n timesteps (f32): cosines, then sines of each at dim/2 frequencies from 1 to 1/max_period."""
    cdef Ctx *c = C(ctx, b"ggml_timestep_embedding")
    cdef Ten d
    cdef Ten *x = T(timesteps, b"timesteps")
    draft(&d, TIMESTEP_EMBEDDING, GGML_TYPE_F32, NE(dim, b"dim"), x.ne[0], 1, 1)
    d.op_params[0], d.op_params[1] = I32(dim, b"dim"), I32(max_period, b"max_period")
    d.src[0] = x
    return P(put(c, &d))

cdef int grad_timestep_embedding(Backward b, Ten *t, Ten *g) except -1:
    """The sum over the frequencies f of f (sin' cos - cos' sin), primes marking gradients."""
    cdef Ctx *c = b.ctx
    cdef Ten shape
    cdef int64_t half = t.ne[0] // 2
    if half == 0:
        return 0
    b.overwritten(t, t)
    cdef float rate = <float>(-log(<double>t.op_params[1]) / half)
    cdef Ten *f = unary(c, EXP, scale(c, arange(c, 0, half, 1), rate, 0, False), False)
    cdef Ten *up = mul(c, window(c, g, 0, half, half), window(c, t, 0, 0, half))
    cdef Ten *down = mul(c, window(c, g, 0, 0, half), window(c, t, 0, half, half))
    draft(&shape, 0, GGML_TYPE_F32, 1, t.ne[1], 1, 1)
    f = reduced(c, mul(c, sub(c, up, down), f), &shape)
    return b.add(t.src[0], reshape(c, f, t.ne[1], 1, 1, 1))

# ---- images to other sizes -------------------------------------------------------------------------------------------
cdef Ten *interpolate(Ctx *ctx, Ten *a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, int mode) except NULL:
    return sized(ctx, UPSCALE, a, a.type, ne0, ne1, ne2, ne3, mode)

cdef Ten *sized(Ctx *ctx, int op, Ten *a, int type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, int mode) except NULL:
    cdef Ten d
    draft(&d, op, type, ne0, ne1, ne2, ne3)
    d.op_params[0] = mode
    d.src[0] = a
    return put(ctx, &d)

cdef int grad_upscale(Backward b, Ten *t, Ten *g) except -1:
    """UPSCALE and UPSCALE_BACK: each is the other's adjoint."""
    cdef Ten *a = t.src[0]
    cdef int op = UPSCALE_BACK if t.op == UPSCALE else UPSCALE
    return b.add(a, sized(b.ctx, op, g, GGML_TYPE_F32, a.ne[0], a.ne[1], a.ne[2], a.ne[3], t.op_params[0]))

def ggml_upscale(ctx, a, scale_factor, mode):
    """a with dimensions 0 and 1 `scale_factor` times as large, by interpolation (GGML_SCALE_MODE_* and _FLAG_*)."""
    cdef Ctx *c = C(ctx, b"ggml_upscale")
    cdef Ten *x = T(a, b"a")
    cdef int64_t k = I32(scale_factor, b"scale_factor"), most = <int64_t>1 << 31
    if k < 1:
        fail(ValueError, f"scale_factor is {k}: need 1 or more")
    if x.ne[0] >= most or x.ne[1] >= most:
        fail(ValueError, f"a is too large: {x.ne[0]} by {x.ne[1]}")
    return P(interpolate(c, x, x.ne[0] * k, x.ne[1] * k, x.ne[2], x.ne[3], I32(mode, b"mode")))

cdef object resized(Ctx *c, object a, object ne0, object ne1, object ne2, object ne3, object mode):
    return P(interpolate(c, T(a, b"a"), NE(ne0, b"ne0"), NE(ne1, b"ne1"), NE(ne2, b"ne2"), NE(ne3, b"ne3"),
                         I32(mode, b"mode")))

def ggml_upscale_ext(ctx, a, ne0, ne1, ne2, ne3, mode):
    """a in another size, by interpolation in dimensions 0 and 1 (GGML_SCALE_MODE_*, _FLAG_*), nearest in 2 and 3."""
    return resized(C(ctx, b"ggml_upscale_ext"), a, ne0, ne1, ne2, ne3, mode)

def ggml_interpolate(ctx, a, ne0, ne1, ne2, ne3, mode):
    """The same as ggml_upscale_ext; sizes may be smaller, too."""
    return resized(C(ctx, b"ggml_interpolate"), a, ne0, ne1, ne2, ne3, mode)

# ---- windows and relative positions (arXiv:2304.02643) ---------------------------------------------------------------
cdef Ten *win_part(Ctx *ctx, Ten *a, int w) except NULL:
    cdef Ten d
    if w < 1:
        fail(ValueError, f"w is {w}: must be positive")
    cdef int64_t across = (a.ne[1] + w - 1) // w, down = (a.ne[2] + w - 1) // w
    if across > 0x7fffffff or down > 0x7fffffff:
        fail(ValueError, f"windows of {w}: {across} by {down} are too many")
    draft(&d, WIN_PART, a.type, a.ne[0], w, w, across * down)
    d.op_params[0], d.op_params[1], d.op_params[2] = <int>across, <int>down, w
    d.src[0] = a
    return put(ctx, &d)

def ggml_win_part(ctx, a, w):
    """Image a [c, width, height] cut into windows [c, w, w, n], the last ones filled up with zeros."""
    cdef Ctx *c = C(ctx, b"ggml_win_part")
    return P(win_part(c, T(a, b"a"), I32(w, b"w")))

cdef int grad_win_part(Backward b, Ten *t, Ten *g) except -1:
    return b.add(t.src[0], win_unpart(b.ctx, g, t.src[0].ne[1], t.src[0].ne[2], t.op_params[2]))

cdef Ten *win_unpart(Ctx *ctx, Ten *a, int64_t w0, int64_t h0, int w) except NULL:
    cdef Ten d
    draft(&d, WIN_UNPART, a.type, a.ne[0], w0, h0, 1)
    d.op_params[0] = w
    d.src[0] = a
    return put(ctx, &d)

def ggml_win_unpart(ctx, a, w0, h0, w):
    """Windows a [c, w, w, n] put together again to an image [c, w0, h0]: undoes ggml_win_part."""
    cdef Ctx *c = C(ctx, b"ggml_win_unpart")
    return P(win_unpart(c, T(a, b"a"), NE(w0, b"w0"), NE(h0, b"h0"), I32(w, b"w")))

cdef int grad_win_unpart(Backward b, Ten *t, Ten *g) except -1:
    return b.add(t.src[0], win_part(b.ctx, g, t.op_params[0]))

def ggml_get_rel_pos(ctx, a, qh, kh):
    """[c, kh, qh]: for each query and key the row of a [c, 2 * kh - 1] that stands for their distance. qh is kh."""
    cdef Ctx *c = C(ctx, b"ggml_get_rel_pos")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    draft(&d, GET_REL_POS, x.type, x.ne[0], I32(kh, b"kh"), I32(qh, b"qh"), 1)
    if d.ne[1] < 1 or d.ne[2] < 1:
        fail(ValueError, f"qh is {d.ne[2]}, kh is {d.ne[1]}: must be positive")
    d.src[0] = x
    return P(put(c, &d))

cdef int grad_get_rel_pos(Backward b, Ten *t, Ten *g) except -1:
    """Each row of g is added to the row of a that it came from: n - 1 - key + query."""
    cdef Ctx *c = b.ctx
    cdef int64_t n = t.ne[1]
    cdef Ten *index = repeat(c, arange(c, n - 1, -1, -1), n, n, 1, 1)
    index = cast(c, add(c, index, reshape(c, arange(c, 0, n, 1), 1, n, 1, 1)), GGML_TYPE_I32)
    g = reshape(c, packed(c, g), t.ne[0], n * n, 1, 1)
    return b.add(t.src[0], get_rows_back(c, g, reshape(c, index, n * n, 1, 1, 1), 2 * n - 1))

cdef Ten *add_rel_pos(Ctx *ctx, Ten *a, Ten *pw, Ten *ph, bint inplace) except NULL:
    cdef Ten d
    like(&d, ADD_REL_POS, a.type, a)
    d.op_params[0] = inplace
    d.src[0], d.src[1], d.src[2] = a, pw, ph
    if inplace:
        over(&d, a)
    return put(ctx, &d)

def ggml_add_rel_pos(ctx, a, pw, ph):
    """Scores a [kw * kh, qw * qh, n] plus those by width (pw) and height (ph), both [kw, qw, qh, n]; kw is kh."""
    cdef Ctx *c = C(ctx, b"ggml_add_rel_pos")
    return P(add_rel_pos(c, T(a, b"a"), T(pw, b"pw"), T(ph, b"ph"), False))

def ggml_add_rel_pos_inplace(ctx, a, pw, ph):
    """ggml_add_rel_pos, written over a."""
    cdef Ctx *c = C(ctx, b"ggml_add_rel_pos_inplace")
    return P(add_rel_pos(c, T(a, b"a"), T(pw, b"pw"), T(ph, b"ph"), True))

cdef int grad_add_rel_pos(Backward b, Ten *t, Ten *g) except -1:
    """With g as [width, height, rows]: by pw its sum over the height, by ph over the width."""
    cdef Ten *pw = t.src[1]
    cdef Ten *cube
    cdef int64_t n = pw.ne[0], rows = gg_nrows(pw)
    b.add(t.src[0], g)
    if b.needs(pw) or b.needs(t.src[2]):
        cube = reshape(b.ctx, packed(b.ctx, g), n, n, rows, 1)
        add_sum(b, pw, cube, n, 1)
        add_sum(b, t.src[2], cube, 1, n)
    return 0

cdef int add_sum(Backward b, Ten *t, Ten *cube, int64_t ne0, int64_t ne1) except -1:
    """Adds to the gradient by t the cube, summed to [ne0, ne1, rows]."""
    cdef Ten shape
    if not b.needs(t):
        return 0
    draft(&shape, 0, GGML_TYPE_F32, ne0, ne1, cube.ne[2], 1)
    return b.add(t, reshape(b.ctx, reduced(b.ctx, cube, &shape), t.ne[0], t.ne[1], t.ne[2], t.ne[3]))

gradients[PAD] = grad_pad
gradients[PAD_REFLECT_1D] = grad_pad_reflect
gradients[ROLL] = grad_roll
gradients[TRI] = grad_tri
gradients[DIAG] = grad_diag
gradients[FILL] = grad_fill
gradients[TIMESTEP_EMBEDDING] = grad_timestep_embedding
gradients[UPSCALE] = gradients[UPSCALE_BACK] = grad_upscale
gradients[WIN_PART] = grad_win_part
gradients[WIN_UNPART] = grad_win_unpart
gradients[GET_REL_POS] = grad_get_rel_pos
gradients[ADD_REL_POS] = grad_add_rel_pos
