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
    """Multiplies matrices: each row of the result holds the dot products of one row of b with all rows of a.

    In NumPy's order of dimensions, result = b @ a.T. Sums are f32. With quantised a, the rows of b are rounded to
    blocks of 8-bit integers if b has only a few rows or if the instruction set multiplies bytes; else a is
    unpacked to f32. Gradient: flows to b, and to a if it is not quantised.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or quantised, [k, n, ne2, ne3]; unlike in the C library it may be a transposed view.
        b: f32, f16 or bf16, [k, m, b2, b3]; b2 is a multiple of ne2 and b3 of ne3. Consecutive matrices of b
            share one of a.
    Returns:
        f32 tensor [n, m, b2, b3].
    Raises:
        ValueError: the rows of a and b differ in length, b2 or b3 is no multiple, or a type is not supported.
        MemoryError: the context is full.
    See also:
        ggml_out_prod, which sums over dimension 1.
    """
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
    """Sums outer products: result[i, j] = sum over k of a[i, k] * b[j, k].

    In NumPy's order of dimensions, result = b.T @ a. Sums are f32; a quantised a is unpacked to f32. Gradient:
    flows to b, and to a if it is not quantised.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or quantised, [m, k, ne2, ne3].
        b: f32, f16 or bf16, [n, k, b2, b3]; b2 is a multiple of ne2 and b3 of ne3. Consecutive matrices of b
            share one of a.
    Returns:
        f32 tensor [m, n, b2, b3].
    Raises:
        ValueError: ne1 of a and b differ, b2 or b3 is no multiple, or a type is not supported.
        MemoryError: the context is full.
    """
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
    """Multiplies each row of b by the matrix that an index selects, as mixtures of experts do.

    result[:, i, j] holds the dot products of the rows of as_[:, :, ids[i, j]] with b[:, i % b1, j]. Rows are
    grouped by matrix, and each group is one product, with the rounding of ggml_mul_mat. Gradient: flows to b, and
    to as_ if it is not quantised. An index out of range makes the compute call raise RuntimeError.

    Args:
        ctx: context that receives the result.
        as_: matrices, f32, f16, bf16 or quantised, [k, n, n_matrices].
        b: f32, f16 or bf16, [k, b1, n_tokens], where n_used is a multiple of b1.
        ids: i32 [n_used, n_tokens], with values from 0 to n_matrices - 1.
    Returns:
        f32 tensor [n, n_used, n_tokens].
    Raises:
        ValueError: the shapes do not fit, as_ has four dimensions, or a type is not supported.
        MemoryError: the context is full.
    """
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
    """Requests a precision of a matrix product.

    The number is stored in the node. It changes nothing here: sums are f32 with any precision.

    Args:
        a: result of ggml_mul_mat, f32, [n, m, b2, b3].
        prec: GGML_PREC_DEFAULT or GGML_PREC_F32; other 32-bit integers are stored as well.
    Returns:
        None.
    Raises:
        TypeError: a is not a tensor, or prec is not an integer.
        ValueError: a is not the result of ggml_mul_mat (ggml_mul_mat_id does not count), or prec does not fit
            into 32 bits.
        RuntimeError: a was freed.
    """
    enter(b"ggml_mul_mat_set_prec")
    product(a).op_params[0] = arg_int32(prec, b"prec")

def ggml_mul_mat_set_hint(a, hint):
    """Gives a hint about the first operand of a matrix product.

    The number is stored in the node and ignored by the computation.

    Args:
        a: result of ggml_mul_mat, f32, [n, m, b2, b3].
        hint: GGML_HINT_NONE or GGML_HINT_SRC0_IS_HADAMARD; other 32-bit integers are stored as well.
    Returns:
        None.
    Raises:
        TypeError: a is not a tensor, or hint is not an integer.
        ValueError: a is not the result of ggml_mul_mat, or hint does not fit into 32 bits.
        RuntimeError: a was freed.
    """
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
