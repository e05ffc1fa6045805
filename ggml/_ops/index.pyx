"""Operations along or across rows: running sums, sorting, triangular systems, rows added by index."""
from libc.stdint cimport int64_t

from .._core cimport (
    BOOL, C, GGML_TYPE_F32, GGML_TYPE_I32, I32, NE, P, T, draft, fail, ggml_context as Ctx, ggml_tensor as Ten, like,
    node1, put,
)
from .elementwise cimport neg, packed
from .._graph.grad cimport Backward, gradients
from .matmul cimport mul_mat
from .shape cimport get_rows_back, reshape, window

cdef enum:
    ADD_ID = 3, CUMSUM = 16, DIAG_MASK_ZERO = 45, ARGSORT = 69, TOP_K = 70, SOLVE_TRI = 85
    DESCENDING = 1

# ---- CUMSUM ----------------------------------------------------------------------------------------------------------
cdef Ten *cumsum(Ctx *ctx, Ten *a, bint backwards) except NULL:
    cdef Ten d
    like(&d, CUMSUM, a.type, a)
    d.op_params[0] = backwards
    d.src[0] = a
    return put(ctx, &d)

def ggml_cumsum(ctx, a):
    """Running sums of each row: y[i] = x[0] + ... + x[i]."""
    cdef Ctx *c = C(ctx, b"ggml_cumsum")
    return P(cumsum(c, T(a, b"a"), False))

cdef int grad_cumsum(Backward b, Ten *t, Ten *g) except -1:
    return b.add(t.src[0], cumsum(b.ctx, g, not t.op_params[0]))

# ---- ARGSORT, TOP_K --------------------------------------------------------------------------------------------------
cdef Ten *argsort(Ctx *ctx, Ten *a, int order) except NULL:
    cdef Ten d
    like(&d, ARGSORT, GGML_TYPE_I32, a)
    d.op_params[0] = order
    d.src[0] = a
    return put(ctx, &d)

def ggml_argsort(ctx, a, order):
    """The indices that sort each row (GGML_SORT_ORDER_ASC or _DESC), i32 in a's shape. Equal values keep their order, NaN is last."""
    cdef Ctx *c = C(ctx, b"ggml_argsort")
    return P(argsort(c, T(a, b"a"), I32(order, b"order")))

cdef int64_t at_most(object k, Ten *a) except -1:
    cdef int64_t n = NE(k, b"k")
    if n > a.ne[0]:
        fail(ValueError, f"k is {n}, a has rows of {a.ne[0]}: need at most as many")
    return n

def ggml_argsort_top_k(ctx, a, k):
    """The indices of the k largest values of each row, largest first: i32 [k, ne1, ne2, ne3], a view of an argsort."""
    cdef Ctx *c = C(ctx, b"ggml_argsort_top_k")
    cdef Ten *x = T(a, b"a")
    cdef int64_t n = at_most(k, x)
    return P(window(c, argsort(c, x, DESCENDING), 0, 0, n))

def ggml_top_k(ctx, a, k):
    """The indices of the k largest values of each row, i32 [k, ne1, ne2, ne3]. The order is not promised; here it is largest first."""
    cdef Ctx *c = C(ctx, b"ggml_top_k")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    draft(&d, TOP_K, GGML_TYPE_I32, at_most(k, x), x.ne[1], x.ne[2], x.ne[3])
    d.src[0] = x
    return P(put(c, &d))

# ---- SOLVE_TRI -------------------------------------------------------------------------------------------------------
cdef Ten *solve_tri(Ctx *ctx, Ten *a, Ten *b, bint transposed) except NULL:
    cdef Ten d
    like(&d, SOLVE_TRI, GGML_TYPE_F32, b)
    d.op_params[0] = transposed
    d.src[0], d.src[1] = a, b
    return put(ctx, &d)

def ggml_solve_tri(ctx, a, b, left, lower, uni):
    """X of A X = B, A lower triangular (what is above its diagonal is not read).

    a [n, n, ne2, ne3], b [columns, n, ne2, ne3]. left and lower must be true, uni (a diagonal of ones) false."""
    cdef Ctx *c = C(ctx, b"ggml_solve_tri")
    if not BOOL(left, b"left") or not BOOL(lower, b"lower") or BOOL(uni, b"uni"):
        fail(ValueError, "only left = True, lower = True and uni = False are supported")
    return P(solve_tri(c, T(a, b"a"), T(b, b"b"), False))

cdef int grad_solve_tri(Backward b, Ten *t, Ten *g) except -1:
    """X = A^-1 B: by B, H = A^-T g; by A, the lower triangle of -H X^T. If A was transposed, so is the latter."""
    cdef Ctx *c = b.ctx
    cdef Ten *product
    cdef bint transposed = t.op_params[0]
    b.overwritten(t, t.src[0])
    cdef Ten *h = solve_tri(c, t.src[0], g, not transposed)
    b.add(t.src[1], h)
    if b.needs(t.src[0]):
        b.overwritten(t, t)
        product = mul_mat(c, h, t) if transposed else mul_mat(c, t, h)
        b.add(t.src[0], node1(c, DIAG_MASK_ZERO, neg(c, product)))
    return 0

# ---- ADD_ID ----------------------------------------------------------------------------------------------------------
def ggml_add_id(ctx, a, b, ids):
    """a, and to each row a row of b: result[:, i, j] = a[:, i, j] + b[:, ids[i, j]].

    a [n, used, tokens], b [n, rows], ids i32 [used, tokens]."""
    cdef Ctx *c = C(ctx, b"ggml_add_id")
    cdef Ten d
    cdef Ten *x = T(a, b"a")
    like(&d, ADD_ID, x.type, x)
    d.src[0], d.src[1], d.src[2] = x, T(b, b"b"), T(ids, b"ids")
    return P(put(c, &d))

cdef int grad_add_id(Backward b, Ten *t, Ten *g) except -1:
    cdef Ctx *c = b.ctx
    cdef Ten *ids = t.src[2]
    cdef int64_t n = ids.ne[0] * ids.ne[1]
    b.add(t.src[0], g)
    if b.needs(t.src[1]):
        b.overwritten(t, ids)
        ids = reshape(c, packed(c, ids), n, 1, 1, 1)
        g = reshape(c, packed(c, g), g.ne[0], n, 1, 1)
        b.add(t.src[1], get_rows_back(c, g, ids, t.src[1].ne[1]))
    return 0

gradients[CUMSUM] = grad_cumsum
gradients[SOLVE_TRI] = grad_solve_tri
gradients[ADD_ID] = grad_add_id
