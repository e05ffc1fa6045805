"""Matrix products with their gradients."""
from libc.stdint cimport int64_t

from .._core cimport (
    C, GGML_TYPE_F32, I32, P, T, draft, enter, fail, gg_same_shape, ggml_context as Ctx, ggml_tensor as Ten, put,
)
from .elementwise cimport packed, reduced
from .._graph.grad cimport Backward, gradients
from .shape cimport reshape, transpose

cdef enum:
    REPEAT_BACK = 21, MUL_MAT = 29, MUL_MAT_ID = 30, OUT_PROD = 31, MUL_MAT_ID_BACK = 135, MUL_MAT_ID_BACK_AS = 136

cdef Ten *mul_mat(Ctx *ctx, Ten *a, Ten *b) except NULL:
    cdef Ten d
    draft(&d, MUL_MAT, GGML_TYPE_F32, a.ne[1], b.ne[1], b.ne[2], b.ne[3])
    d.src[0], d.src[1] = a, b
    return put(ctx, &d)

cdef Ten *out_prod(Ctx *ctx, Ten *a, Ten *b) except NULL:
    cdef Ten d
    draft(&d, OUT_PROD, GGML_TYPE_F32, a.ne[0], b.ne[0], b.ne[2], b.ne[3])
    d.src[0], d.src[1] = a, b
    return put(ctx, &d)

cdef Ten *summed(Ctx *ctx, Ten *g, int64_t ne0, int64_t ne1, int64_t ne2) except NULL:
    cdef Ten d
    draft(&d, REPEAT_BACK, GGML_TYPE_F32, ne0, ne1, ne2, 1)
    d.src[0] = g
    return put(ctx, &d)

cdef Ten *ungrouped(Ctx *ctx, Ten *g, Ten *a) except NULL:
    """g summed over the matrices that shared one of a: products broadcast a in dimensions 2 and 3 by groups of neighbours."""
    cdef int64_t size = g.ne[0] * g.ne[1], ne3 = g.ne[3]
    if gg_same_shape(g, a):
        return g
    g = packed(ctx, g)
    if g.ne[2] != a.ne[2]:
        g = reshape(ctx, g, size, g.ne[2] // a.ne[2], a.ne[2] * ne3, 1)
        g = summed(ctx, g, size, 1, a.ne[2] * ne3)
    if ne3 != a.ne[3]:
        g = reshape(ctx, g, size * a.ne[2], ne3 // a.ne[3], a.ne[3], 1)
        g = summed(ctx, g, size * a.ne[2], 1, a.ne[3])
    return reshape(ctx, g, a.ne[0], a.ne[1], a.ne[2], a.ne[3])

def ggml_mul_mat(ctx, a, b):
    """Matrix product: result[m, n] = sum_k a[k, m] b[k, n].

    a [k, m, ne2, ne3] (any float or quantised type), b [k, n, ne2 * r2, ne3 * r3] (floats): f32 [m, n, ne2 * r2, ne3 * r3]."""
    cdef Ctx *c = C(ctx, b"ggml_mul_mat")
    return P(mul_mat(c, T(a, b"a"), T(b, b"b")))

cdef int grad_mul_mat(Backward b, Ten *t, Ten *g) except -1:
    if b.needs(t.src[0]):
        b.overwritten(t, t.src[1])
        b.add(t.src[0], ungrouped(b.ctx, out_prod(b.ctx, t.src[1], g), t.src[0]))
    if b.needs(t.src[1]):
        b.overwritten(t, t.src[0])
        b.add(t.src[1], out_prod(b.ctx, t.src[0], transpose(b.ctx, g)))
    return 0

def ggml_out_prod(ctx, a, b):
    """Sum of outer products: result[i, j] = sum_k a[i, k] b[j, k].

    a [i, k, ne2, ne3] (any float or quantised type), b [j, k, ne2 * r2, ne3 * r3] (floats): f32 [i, j, ne2 * r2, ne3 * r3]."""
    cdef Ctx *c = C(ctx, b"ggml_out_prod")
    return P(out_prod(c, T(a, b"a"), T(b, b"b")))

cdef int grad_out_prod(Backward b, Ten *t, Ten *g) except -1:
    cdef Ctx *c = b.ctx
    if b.needs(t.src[0]):
        b.overwritten(t, t.src[1])
        b.add(t.src[0], ungrouped(c, mul_mat(c, transpose(c, g), t.src[1]), t.src[0]))
    if b.needs(t.src[1]):
        b.overwritten(t, t.src[0])
        b.add(t.src[1], transpose(c, mul_mat(c, t.src[0], g)))
    return 0

# ---- products by index -----------------------------------------------------------------------------------------------
cdef Ten *by_index(Ctx *ctx, int op, Ten *a, Ten *b, Ten *ids, int64_t ne0, int64_t ne1, int64_t ne2) except NULL:
    cdef Ten d
    draft(&d, op, GGML_TYPE_F32, ne0, ne1, ne2, 1)
    d.src[0], d.src[1], d.src[2] = a, b, ids
    return put(ctx, &d)

def ggml_mul_mat_id(ctx, as_, b, ids):
    """Products with the matrices that indices name: result[:, i, j] = as_[:, :, ids[i, j]] times b[:, i, j].

    as_ [k, m, matrices] (any float or quantised type), b [k, used, tokens], ids i32 [used, tokens]: f32 [m, used, tokens].
    b may have fewer rows for a token, a divisor of used: they are used again, as b[:, i % b.ne1, j]."""
    cdef Ctx *c = C(ctx, b"ggml_mul_mat_id")
    cdef Ten *x = T(as_, b"as_")
    cdef Ten *y = T(b, b"b")
    cdef Ten *index = T(ids, b"ids")
    return P(by_index(c, MUL_MAT_ID, x, y, index, x.ne[1], index.ne[0], y.ne[2]))

cdef int grad_mul_mat_id(Backward b, Ten *t, Ten *g) except -1:
    cdef Ten *x = t.src[0]
    cdef Ten *y = t.src[1]
    cdef Ten *ids = t.src[2]
    b.overwritten(t, ids)
    if b.needs(x):
        b.overwritten(t, y)
        b.add(x, by_index(b.ctx, MUL_MAT_ID_BACK_AS, y, g, ids, x.ne[0], x.ne[1], x.ne[2]))
    if b.needs(y):
        b.overwritten(t, x)
        b.add(y, reduced(b.ctx, by_index(b.ctx, MUL_MAT_ID_BACK, x, g, ids, x.ne[0], ids.ne[0], y.ne[2]), y))
    return 0

def ggml_mul_mat_set_prec(a, prec):
    """Asks for a precision (GGML_PREC_*) of a matrix product. Products here sum in f32 either way."""
    enter(b"ggml_mul_mat_set_prec")
    product(a).op_params[0] = I32(prec, b"prec")

def ggml_mul_mat_set_hint(a, hint):
    """Gives a hint (GGML_HINT_*) about a matrix product. It changes nothing here."""
    enter(b"ggml_mul_mat_set_hint")
    product(a).op_params[1] = I32(hint, b"hint")

cdef Ten *product(object a) except NULL:
    cdef Ten *t = T(a, b"a")
    if t.op != MUL_MAT:
        fail(ValueError, "a is no result of ggml_mul_mat")
    return t

gradients[MUL_MAT] = grad_mul_mat
gradients[OUT_PROD] = grad_out_prod
gradients[MUL_MAT_ID] = grad_mul_mat_id
