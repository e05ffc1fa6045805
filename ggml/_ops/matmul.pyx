"""Matrix products, also with matrices chosen by index, with their gradients."""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_int32, arg_tensor, enter, fail, gg_same_shape, ggml_context, ggml_tensor, node_append, node_init,
    wrap_tensor,
)
from .._enums cimport (
    GGML_OP_MUL_MAT, GGML_OP_MUL_MAT_ID, GGML_OP_MUL_MAT_ID_BACK, GGML_OP_MUL_MAT_ID_BACK_AS, GGML_OP_OUT_PROD,
    GGML_TYPE_F32,
)
from .._graph.grad cimport Backward, gradients
from .reduce cimport sum_to_shape, sum_to_sizes
from .shape cimport contiguous, reshape, transpose

cdef ggml_tensor *mul_mat(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL:
    cdef ggml_tensor d
    node_init(&d, GGML_OP_MUL_MAT, GGML_TYPE_F32, a.ne[1], b.ne[1], b.ne[2], b.ne[3])
    d.src[0], d.src[1] = a, b
    return node_append(ctx, &d)

cdef ggml_tensor *out_prod(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL:
    cdef ggml_tensor d
    node_init(&d, GGML_OP_OUT_PROD, GGML_TYPE_F32, a.ne[0], b.ne[0], b.ne[2], b.ne[3])
    d.src[0], d.src[1] = a, b
    return node_append(ctx, &d)

cdef ggml_tensor *ungrouped(ggml_context *ctx, ggml_tensor *g, ggml_tensor *a) except NULL:
    """g summed over the matrices that shared one of a: products broadcast a in dimensions 2 and 3 by groups of neighbours."""
    cdef int64_t size = g.ne[0] * g.ne[1], ne3 = g.ne[3]
    if gg_same_shape(g, a):
        return g
    g = contiguous(ctx, g)
    if g.ne[2] != a.ne[2]:
        g = reshape(ctx, g, size, g.ne[2] // a.ne[2], a.ne[2] * ne3, 1)
        g = sum_to_sizes(ctx, g, size, 1, a.ne[2] * ne3, 1)
    if ne3 != a.ne[3]:
        g = reshape(ctx, g, size * a.ne[2], ne3 // a.ne[3], a.ne[3], 1)
        g = sum_to_sizes(ctx, g, size * a.ne[2], 1, a.ne[3], 1)
    return reshape(ctx, g, a.ne[0], a.ne[1], a.ne[2], a.ne[3])

def ggml_mul_mat(ctx, a, b):
    """Matrix product: result[m, n] = sum_k a[k, m] b[k, n].

    a [k, m, ne2, ne3] (any float or quantised type), b [k, n, ne2 * r2, ne3 * r3] (floats): f32 [m, n, ne2 * r2, ne3 * r3]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_mul_mat")
    return wrap_tensor(mul_mat(c, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

cdef int grad_mul_mat(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    if b.needs(t.src[0]):
        b.require_not_overwritten(t, t.src[1])
        b.add(t.src[0], ungrouped(b.ctx, out_prod(b.ctx, t.src[1], g), t.src[0]))
    if b.needs(t.src[1]):
        b.require_not_overwritten(t, t.src[0])
        b.add(t.src[1], out_prod(b.ctx, t.src[0], transpose(b.ctx, g)))
    return 0

def ggml_out_prod(ctx, a, b):
    """Sum of outer products: result[i, j] = sum_k a[i, k] b[j, k].

    a [i, k, ne2, ne3] (any float or quantised type), b [j, k, ne2 * r2, ne3 * r3] (floats): f32 [i, j, ne2 * r2, ne3 * r3]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_out_prod")
    return wrap_tensor(out_prod(c, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

cdef int grad_out_prod(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_context *c = b.ctx
    if b.needs(t.src[0]):
        b.require_not_overwritten(t, t.src[1])
        b.add(t.src[0], ungrouped(c, mul_mat(c, transpose(c, g), t.src[1]), t.src[0]))
    if b.needs(t.src[1]):
        b.require_not_overwritten(t, t.src[0])
        b.add(t.src[1], transpose(c, mul_mat(c, t.src[0], g)))
    return 0

# ---- products by index -----------------------------------------------------------------------------------------------
cdef ggml_tensor *by_index(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b, ggml_tensor *ids, int64_t ne0, int64_t ne1, int64_t ne2) except NULL:
    cdef ggml_tensor d
    node_init(&d, op, GGML_TYPE_F32, ne0, ne1, ne2, 1)
    d.src[0], d.src[1], d.src[2] = a, b, ids
    return node_append(ctx, &d)

def ggml_mul_mat_id(ctx, as_, b, ids):
    """Products with the matrices that indices name: result[:, i, j] = as_[:, :, ids[i, j]] times b[:, i, j].

    as_ [k, m, matrices] (any float or quantised type), b [k, used, tokens], ids i32 [used, tokens]: f32 [m, used, tokens].
    b may have fewer rows for a token, a divisor of used: they are used again, as b[:, i % b.ne1, j]."""
    cdef ggml_context *c = arg_context(ctx, b"ggml_mul_mat_id")
    cdef ggml_tensor *x = arg_tensor(as_, b"as_")
    cdef ggml_tensor *y = arg_tensor(b, b"b")
    cdef ggml_tensor *index = arg_tensor(ids, b"ids")
    return wrap_tensor(by_index(c, GGML_OP_MUL_MAT_ID, x, y, index, x.ne[1], index.ne[0], y.ne[2]))

cdef int grad_mul_mat_id(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    cdef ggml_tensor *ids = t.src[2]
    b.require_not_overwritten(t, ids)
    if b.needs(x):
        b.require_not_overwritten(t, y)
        b.add(x, by_index(b.ctx, GGML_OP_MUL_MAT_ID_BACK_AS, y, g, ids, x.ne[0], x.ne[1], x.ne[2]))
    if b.needs(y):
        b.require_not_overwritten(t, x)
        b.add(y, sum_to_shape(b.ctx, by_index(b.ctx, GGML_OP_MUL_MAT_ID_BACK, x, g, ids, x.ne[0], ids.ne[0], y.ne[2]), y))
    return 0

def ggml_mul_mat_set_prec(a, prec):
    """Asks for a precision (GGML_PREC_*) of a matrix product. Products here sum in f32 either way."""
    enter(b"ggml_mul_mat_set_prec")
    product(a).op_params[0] = arg_int32(prec, b"prec")

def ggml_mul_mat_set_hint(a, hint):
    """Gives a hint (GGML_HINT_*) about a matrix product. It changes nothing here."""
    enter(b"ggml_mul_mat_set_hint")
    product(a).op_params[1] = arg_int32(hint, b"hint")

cdef ggml_tensor *product(object a) except NULL:
    cdef ggml_tensor *t = arg_tensor(a, b"a")
    if t.op != GGML_OP_MUL_MAT:
        fail(ValueError, "a is no result of ggml_mul_mat")
    return t

gradients[GGML_OP_MUL_MAT] = grad_mul_mat
gradients[GGML_OP_OUT_PROD] = grad_out_prod
gradients[GGML_OP_MUL_MAT_ID] = grad_mul_mat_id
