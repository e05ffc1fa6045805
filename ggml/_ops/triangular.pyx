"""Triangles, diagonals, causal masks and triangular systems of equations, with their gradients."""
from .._core cimport (
    arg_bool, arg_context, arg_int32, arg_tensor, fail, ggml_context, ggml_tensor, node1, node_append, node_in_place,
    node_init, node_like, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_DIAG, GGML_OP_DIAG_MASK_INF, GGML_OP_DIAG_MASK_ZERO, GGML_OP_SOLVE_TRI, GGML_OP_TRI, GGML_TYPE_F32,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport diag_mask_params, solve_tri_params, triangular_params
from .matmul cimport mul_mat
from .shape cimport view
from .unary cimport neg

# ---- triangles and diagonals -----------------------------------------------------------------------------------------
cdef ggml_tensor *tri(ggml_context *ctx, ggml_tensor *a, int kind) except NULL:
    cdef ggml_tensor node
    node_like(&node, GGML_OP_TRI, a.type, a)
    triangular_params(&node).kind = kind
    node.src[0] = a
    return node_append(ctx, &node)

def ggml_tri(ctx, a, type_):
    """Keeps the upper or lower triangle of each square matrix and sets the other elements to 0.

    The index of dimension 0 is the column, that of dimension 1 the row. The gradient with respect to a is the same
    triangle of the result's gradient.

    Args:
        ctx: context that receives the result.
        a: matrices [n, n, ne2, ne3] of any type that is not quantised.
        type_: which elements stay: GGML_TRI_TYPE_UPPER_DIAG (column >= row), GGML_TRI_TYPE_UPPER (column > row),
            GGML_TRI_TYPE_LOWER_DIAG (column <= row) or GGML_TRI_TYPE_LOWER (column < row).
    Returns:
        Tensor of a's type and shape.
    Raises:
        ValueError: the matrices are not square, type_ is not one of the four, or a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_tri")
    return wrap_tensor(tri(c, arg_tensor(a, b"a"), arg_int32(type_, b"type_")))

cdef int grad_tri(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = a triangle of x, else 0: dx = the same triangle of g."""
    return b.add(t.src[0], tri(b.ctx, g, triangular_params(t).kind))

def ggml_diag(ctx, a):
    """Builds diagonal matrices from rows: result[i, i] = a[i], all other elements are 0.

    The gradient with respect to a is the diagonal of the result's gradient.

    Args:
        ctx: context that receives the result.
        a: diagonals [n, 1, ne2, ne3] of any type that is not quantised.
    Returns:
        Tensor [n, n, ne2, ne3] of a's type.
    Raises:
        ValueError: a.ne[1] is not 1, or a is quantised.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_diag")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_init(&node, GGML_OP_DIAG, x.type, x.ne[0], x.ne[0], x.ne[2], x.ne[3])
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

cdef int grad_diag(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[i, i] = x[i]: dx[i] = g[i, i], a view whose elements are a row and an element apart."""
    cdef size_t[4] nb = [g.nb[0] + g.nb[1], g.nb[1], g.nb[2], g.nb[3]]
    return b.add(t.src[0], view(b.ctx, g, t.src[0].ne, nb, 0))

# ---- causal masks ----------------------------------------------------------------------------------------------------
cdef ggml_tensor *diag_mask(ggml_context *ctx, int op, ggml_tensor *a, int n_past, bint inplace) except NULL:
    cdef ggml_tensor node
    node_like(&node, op, a.type, a)
    diag_mask_params(&node).n_past = n_past
    node.src[0] = a
    if inplace:
        node_in_place(&node, a)
    return node_append(ctx, &node)

cdef object diag_mask_of(object ctx, const char *name, int op, object a, object n_past, bint inplace):
    """What the public function `name` returns: a with the elements above a diagonal replaced."""
    cdef ggml_context *c = arg_context(ctx, name)
    return wrap_tensor(diag_mask(c, op, arg_tensor(a, b"a"), arg_int32(n_past, b"n_past"), inplace))

def ggml_diag_mask_inf(ctx, a, n_past):
    """Sets the elements above a diagonal to -inf: a causal mask for attention scores.

    Element [i0, i1] of each matrix is masked where i0 > n_past + i1, so that query i1 sees the keys up to n_past + i1.
    The gradient flows to a where it is not masked.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [n_keys, n_queries, ne2, ne3].
        n_past: number of keys before the first query, a 32-bit integer.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: n_past is not an integer.
        ValueError: n_past does not fit into 32 bits, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return diag_mask_of(ctx, b"ggml_diag_mask_inf", GGML_OP_DIAG_MASK_INF, a, n_past, False)

def ggml_diag_mask_inf_inplace(ctx, a, n_past):
    """Writes -inf over the elements of a above a diagonal: those with i0 > n_past + i1.

    The other elements are not changed. The gradient needs no element of a and remains available.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [n_keys, n_queries, ne2, ne3]; partly overwritten.
        n_past: number of keys before the first query, a 32-bit integer.
    Returns:
        View of all of a.
    Raises:
        TypeError: n_past is not an integer.
        ValueError: n_past does not fit into 32 bits, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return diag_mask_of(ctx, b"ggml_diag_mask_inf_inplace", GGML_OP_DIAG_MASK_INF, a, n_past, True)

def ggml_diag_mask_zero(ctx, a, n_past):
    """Sets the elements above a diagonal to 0.

    Element [i0, i1] of each matrix becomes 0 where i0 > n_past + i1; with n_past = 0 the lower triangle remains. The
    gradient flows to a where it is not masked.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        n_past: distance of the last kept diagonal above the main one, a 32-bit integer.
    Returns:
        Tensor of a's shape and type.
    Raises:
        TypeError: n_past is not an integer.
        ValueError: n_past does not fit into 32 bits, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return diag_mask_of(ctx, b"ggml_diag_mask_zero", GGML_OP_DIAG_MASK_ZERO, a, n_past, False)

def ggml_diag_mask_zero_inplace(ctx, a, n_past):
    """Clears the elements of a above a diagonal: those with i0 > n_past + i1.

    Only the cleared elements change. The gradient is available.

    Args:
        ctx: context that receives the node.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; partly overwritten.
        n_past: distance of the last kept diagonal above the main one, a 32-bit integer.
    Returns:
        View of all of a.
    Raises:
        TypeError: n_past is not an integer.
        ValueError: n_past does not fit into 32 bits, or a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return diag_mask_of(ctx, b"ggml_diag_mask_zero_inplace", GGML_OP_DIAG_MASK_ZERO, a, n_past, True)

cdef int grad_diag_mask(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """DIAG_MASK_INF, DIAG_MASK_ZERO: dx = g with zeros above the diagonal."""
    return b.add(t.src[0], diag_mask(b.ctx, GGML_OP_DIAG_MASK_ZERO, g, diag_mask_params(t).n_past, False))

# ---- triangular systems ----------------------------------------------------------------------------------------------
cdef ggml_tensor *solve_tri(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b, bint transposed) except NULL:
    """X of A X = B, or of A^T X = B; A is lower triangular."""
    cdef ggml_tensor node
    node_like(&node, GGML_OP_SOLVE_TRI, GGML_TYPE_F32, b)
    solve_tri_params(&node).transposed = transposed
    node.src[0], node.src[1] = a, b
    return node_append(ctx, &node)

def ggml_solve_tri(ctx, a, b, left, lower, uni):
    """Solves A X = B for X by forward substitution, with A lower triangular.

    Row i of A is row i of a; elements above the diagonal are not read. A zero on the diagonal gives infinities or NaN,
    not an error. The gradient flows to a (its lower triangle) and to b.

    Args:
        ctx: context that receives the result.
        a: A, f32, f16 or bf16, [n, n, ne2, ne3].
        b: B, f32, f16 or bf16, [n_columns, n, ne2, ne3].
        left: must be True: A stands to the left of X.
        lower: must be True: A is lower triangular.
        uni: must be False: the diagonal of A is read, not taken to be 1.
    Returns:
        f32 tensor of b's shape: X.
    Raises:
        ValueError: left, lower or uni has another value, a is not square, the shapes do not fit, or a type is not
            f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_solve_tri")
    if not arg_bool(left, b"left") or not arg_bool(lower, b"lower") or arg_bool(uni, b"uni"):
        fail(ValueError, "only left = True, lower = True and uni = False are supported")
    return wrap_tensor(solve_tri(c, arg_tensor(a, b"a"), arg_tensor(b, b"b"), False))

cdef int grad_solve_tri(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = X = A^-1 B: dB = A^-T g, dA = the lower triangle of -dB X^T. For A^T X = B: dB = A^-1 g, dA = -X dB^T."""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *product
    cdef bint transposed = solve_tri_params(t).transposed
    b.require_not_overwritten(t, t.src[0])
    cdef ggml_tensor *d_rhs = solve_tri(c, t.src[0], g, not transposed)
    b.add(t.src[1], d_rhs)
    if b.needs(t.src[0]):
        b.require_not_overwritten(t, t)
        product = mul_mat(c, d_rhs, t) if transposed else mul_mat(c, t, d_rhs)
        b.add(t.src[0], node1(c, GGML_OP_DIAG_MASK_ZERO, neg(c, product)))
    return 0

gradients[GGML_OP_TRI] = grad_tri
gradients[GGML_OP_DIAG] = grad_diag
gradients[GGML_OP_DIAG_MASK_INF] = gradients[GGML_OP_DIAG_MASK_ZERO] = grad_diag_mask
gradients[GGML_OP_SOLVE_TRI] = grad_solve_tri
