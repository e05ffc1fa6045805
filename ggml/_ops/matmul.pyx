"""Matrix products, also with matrices selected by index, with their gradients."""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_int32, arg_tensor, enter, fail, gg_is_float, gg_same_shape, ggml_context, ggml_tensor, node_append,
    node_init, tensor_text, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_MUL_MAT, GGML_OP_MUL_MAT_ID, GGML_OP_MUL_MAT_ID_BACK, GGML_OP_MUL_MAT_ID_BACK_AS, GGML_OP_OUT_PROD,
    GGML_TYPE_F32, GGML_TYPE_I8,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport mul_mat_params
from .reduce cimport sum_to_shape, sum_to_sizes
from .shape cimport contiguous, reshape, transpose
from .. import _constants

cdef int PREC_DEFAULT = _constants.GGML_PREC_DEFAULT, PREC_F32 = _constants.GGML_PREC_F32
cdef int HINT_NONE = _constants.GGML_HINT_NONE, HINT_SRC0_IS_HADAMARD = _constants.GGML_HINT_SRC0_IS_HADAMARD

# ---- MUL_MAT, OUT_PROD -----------------------------------------------------------------------------------------------
cdef ggml_tensor *mul_mat(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL:
    cdef ggml_tensor node
    node_init(&node, GGML_OP_MUL_MAT, GGML_TYPE_F32, a.ne[1], b.ne[1], b.ne[2], b.ne[3])
    node.src[0], node.src[1] = a, b
    return node_append(ctx, &node)

cdef ggml_tensor *out_prod(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL:
    cdef ggml_tensor node
    node_init(&node, GGML_OP_OUT_PROD, GGML_TYPE_F32, a.ne[0], b.ne[0], b.ne[2], b.ne[3])
    node.src[0], node.src[1] = a, b
    return node_append(ctx, &node)

def ggml_mul_mat(ctx, a, b):
    """Multiplies matrices: each row of the result holds the dot products of one row of b with all rows of a.

    In NumPy's order of dimensions, result = b @ a.T. Sums are f32. With quantised a, the rows of b are rounded to
    blocks of 8-bit integers if b has only a few rows or if the instruction set multiplies bytes; else a is unpacked to
    f32. The gradient flows to b, and to a if it is not quantised.

    A rounded block whose elements are all at most 2^-120 (8e-37) counts as zero. The products with one or two rows of b
    keep the scales of blocks of 32 as f16, as the C library does: types other than the K, IQ and ternary ones lose
    precision there if all elements of a block are below 8e-3, and the block counts as zero if they are below 4e-6.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or quantised, [k, n, ne2, ne3]; unlike in the C library it may be a transposed view. Or a
            matrix [k, n] of type i8 with contiguous rows, as ggml.ext.mul_mat_i8 takes it.
        b: f32, f16 or bf16, [k, m, b2, b3]; b2 is a multiple of ne2 and b3 of ne3. Consecutive matrices of b
            share one of a.
    Returns:
        f32 tensor [n, m, b2, b3].
    Raises:
        ValueError: the rows of a and b differ in length, b2 or b3 is not a multiple, or a type is not supported.
        MemoryError: the context is full.
    See also:
        ggml_out_prod, which sums over dimension 1.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_mul_mat")
    return wrap_tensor(mul_mat(c, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

def ext_mul_mat_i8(ctx, a, b, offset=0):
    """Multiplies a matrix of 8-bit integers, to each of which an offset is added, with floats.

    In NumPy's order of dimensions, result = b @ (a + offset).T. Rows of b whose elements are whole numbers that span
    at most 255 with 0 are multiplied exactly, in 32-bit integers, which are rounded to f32; other rows are multiplied
    in f32. The gradient flows to b.

    Args:
        ctx: context that receives the result.
        a: i8 matrix [k, n] with contiguous rows.
        b: f32, f16 or bf16, [k, m, b2, b3].
        offset: int from -255 to 255.
    Returns:
        f32 tensor [n, m, b2, b3].
    Raises:
        ValueError: a is not of type i8, the rows of a and b differ in length, or the type of b or the offset is not
            supported.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.mul_mat_i8")
    cdef ggml_tensor *matrix = arg_tensor(a, b"a")
    cdef int more = arg_int32(offset, b"offset")
    if matrix.type != GGML_TYPE_I8:
        fail(ValueError, f"a is {tensor_text(matrix)}: need type i8")
    if not -255 <= more <= 255:
        fail(ValueError, f"offset is {more}: need -255 to 255")
    cdef ggml_tensor *product = mul_mat(c, matrix, arg_tensor(b, b"b"))
    mul_mat_params(product).offset = more
    return wrap_tensor(product)

def ext_mul_mat_whole(ctx, a, b):
    """Multiplies matrices of floats most of which are small whole numbers, such as those that quantisation makes.

    In NumPy's order of dimensions, result = b @ a.T. Products of rows of a and b whose elements are whole numbers that
    span at most 255 with 0 are exact sums of 32-bit integers, which are rounded to f32; others are multiplied in f32,
    which takes longer than ggml_mul_mat. The gradient flows to a and b.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [k, n, ne2, ne3].
        b: f32, f16 or bf16, [k, m, b2, b3]; b2 is a multiple of ne2 and b3 of ne3. Consecutive matrices of b
            share one of a.
    Returns:
        f32 tensor [n, m, b2, b3].
    Raises:
        ValueError: the rows of a and b differ in length, b2 or b3 is not a multiple, or a type is not supported.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.mul_mat_whole")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    if not gg_is_float(x.type):
        fail(ValueError, f"a is {tensor_text(x)}: need f32, f16 or bf16")
    cdef ggml_tensor *product = mul_mat(c, x, arg_tensor(b, b"b"))
    mul_mat_params(product).whole = 1
    return wrap_tensor(product)

def ggml_out_prod(ctx, a, b):
    """Sums outer products: result[i, j] = sum over k of a[i, k] * b[j, k].

    In NumPy's order of dimensions, result = b.T @ a. Sums are f32; a quantised a is unpacked to f32. The gradient flows
    to b, and to a if it is not quantised.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or quantised, [m, k, ne2, ne3].
        b: f32, f16 or bf16, [n, k, b2, b3]; b2 is a multiple of ne2 and b3 of ne3. Consecutive matrices of b
            share one of a.
    Returns:
        f32 tensor [m, n, b2, b3].
    Raises:
        ValueError: ne1 of a and b differ, b2 or b3 is not a multiple, or a type is not supported.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_out_prod")
    return wrap_tensor(out_prod(c, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

cdef ggml_tensor *sum_shared(ggml_context *ctx, ggml_tensor *g, ggml_tensor *a) except NULL:
    """g summed over the matrices that shared one of a: products repeat each matrix of a for consecutive ones of b."""
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

cdef int grad_mul_mat(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[i, j] = sum over k of x[k, i] y[k, j]: dx = out_prod(y, g), dy = out_prod(x, g^T)."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    if b.needs(x):
        b.require_not_overwritten(t, y)
        b.add(x, sum_shared(b.ctx, out_prod(b.ctx, y, g), x))
    if b.needs(y):
        b.require_not_overwritten(t, x)
        b.add(y, out_prod(b.ctx, x, transpose(b.ctx, g)))
    return 0

cdef int grad_out_prod(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[i, j] = sum over k of x[i, k] y[j, k]: dx = mul_mat(g^T, y), dy = mul_mat(x, g)^T."""
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    if b.needs(x):
        b.require_not_overwritten(t, y)
        b.add(x, sum_shared(b.ctx, mul_mat(b.ctx, transpose(b.ctx, g), y), x))
    if b.needs(y):
        b.require_not_overwritten(t, x)
        b.add(y, transpose(b.ctx, mul_mat(b.ctx, x, g)))
    return 0

cdef int arg_prec(object prec) except -1:
    cdef int value = arg_int32(prec, b"prec")
    if value not in (PREC_DEFAULT, PREC_F32):
        fail(ValueError, f"prec is {value}: need GGML_PREC_DEFAULT ({PREC_DEFAULT}) or GGML_PREC_F32 ({PREC_F32})")
    return value

cdef int arg_hint(object hint) except -1:
    """The argument hint, GGML_HINT_*."""
    cdef int value = arg_int32(hint, b"hint")
    if value not in (HINT_NONE, HINT_SRC0_IS_HADAMARD):
        fail(ValueError, f"hint is {value}: need GGML_HINT_NONE ({HINT_NONE}) or GGML_HINT_SRC0_IS_HADAMARD "
                         f"({HINT_SRC0_IS_HADAMARD})")
    return value

cdef ggml_tensor *arg_product(object a) except NULL:
    """The argument a, which must be a result of ggml_mul_mat."""
    cdef ggml_tensor *t = arg_tensor(a, b"a")
    if t.op != GGML_OP_MUL_MAT:
        fail(ValueError, "a is not a result of ggml_mul_mat")
    return t

def ggml_mul_mat_set_prec(a, prec):
    """Chooses the precision of a matrix product.

    Sums are f32 with any precision. By default, the second operand of a quantised matrix is rounded to 8 bits, which is
    fast. With GGML_PREC_F32 it is not: the matrix is unpacked to f32 instead.

    Args:
        a: result of ggml_mul_mat, f32, [n, m, b2, b3].
        prec: GGML_PREC_DEFAULT or GGML_PREC_F32.
    Returns:
        None.
    Raises:
        TypeError: a is not a tensor, or prec is not an integer.
        ValueError: a is not the result of ggml_mul_mat (ggml_mul_mat_id does not count), or prec is another number.
        RuntimeError: a was freed.
    """
    enter(b"ggml_mul_mat_set_prec")
    mul_mat_params(arg_product(a)).prec = arg_prec(prec)

def ggml_mul_mat_set_hint(a, hint):
    """Gives a hint about the first operand of a matrix product.

    The number is stored in the node and ignored by the computation.

    Args:
        a: result of ggml_mul_mat, f32, [n, m, b2, b3].
        hint: GGML_HINT_NONE or GGML_HINT_SRC0_IS_HADAMARD.
    Returns:
        None.
    Raises:
        TypeError: a is not a tensor, or hint is not an integer.
        ValueError: a is not the result of ggml_mul_mat, or hint is another number.
        RuntimeError: a was freed.
    """
    enter(b"ggml_mul_mat_set_hint")
    mul_mat_params(arg_product(a)).hint = arg_hint(hint)

# ---- MUL_MAT_ID ------------------------------------------------------------------------------------------------------
cdef ggml_tensor *mul_mat_id_node(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b, ggml_tensor *ids,
                                  int64_t ne0, int64_t ne1, int64_t ne2) except NULL:
    """A node of MUL_MAT_ID or of one of its gradients, with the result [ne0, ne1, ne2]."""
    cdef ggml_tensor node
    node_init(&node, op, GGML_TYPE_F32, ne0, ne1, ne2, 1)
    node.src[0], node.src[1], node.src[2] = a, b, ids
    return node_append(ctx, &node)

def ggml_mul_mat_id(ctx, as_, b, ids):
    """Multiplies each row of b by the matrix that an index selects, as mixtures of experts do.

    result[:, i, j] holds the dot products of the rows of as_[:, :, ids[i, j]] with b[:, i % b1, j]. Rows are grouped by
    matrix, and each group is one product, with the rounding of ggml_mul_mat. The gradient flows to b, and to as_ if it
    is not quantised. An index out of range makes the compute call raise RuntimeError.

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
    return wrap_tensor(mul_mat_id_node(c, GGML_OP_MUL_MAT_ID, x, y, index, x.ne[1], index.ne[0], y.ne[2]))

cdef int grad_mul_mat_id(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[:, i, j] = x[ids[i, j]]^T y[:, i mod y1, j].

    dy[:, i mod y1, j] is the sum of x[ids[i, j]] g[:, i, j] over the i that share it, and dx[e] the sum of
    y[:, i mod y1, j] g[:, i, j]^T over all i and j with ids[i, j] = e.
    """
    cdef ggml_tensor *x = t.src[0]
    cdef ggml_tensor *y = t.src[1]
    cdef ggml_tensor *ids = t.src[2]
    cdef ggml_tensor *dy
    b.require_not_overwritten(t, ids)
    if b.needs(x):
        b.require_not_overwritten(t, y)
        b.add(x, mul_mat_id_node(b.ctx, GGML_OP_MUL_MAT_ID_BACK_AS, y, g, ids, x.ne[0], x.ne[1], x.ne[2]))
    if b.needs(y):
        b.require_not_overwritten(t, x)
        dy = mul_mat_id_node(b.ctx, GGML_OP_MUL_MAT_ID_BACK, x, g, ids, x.ne[0], ids.ne[0], y.ne[2])
        b.add(y, sum_to_shape(b.ctx, dy, y))
    return 0

gradients[GGML_OP_MUL_MAT] = grad_mul_mat
gradients[GGML_OP_OUT_PROD] = grad_out_prod
gradients[GGML_OP_MUL_MAT_ID] = grad_mul_mat_id
