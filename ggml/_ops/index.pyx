"""Rows selected by index, sorting and the largest elements of rows, with their gradients."""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_extent, arg_int32, arg_tensor, fail, gg_is_empty, gg_is_float, gg_types, ggml_context,
    ggml_tensor, node1, node_append, node_in_place, node_init, node_like, shape_text, wrap_tensor,
)
from .._enums cimport (
    GGML_OP_ADD_ID, GGML_OP_ARGSORT, GGML_OP_DUP, GGML_OP_GET_ROWS, GGML_OP_GET_ROWS_BACK, GGML_OP_SET_ROWS,
    GGML_OP_TOP_K, GGML_TYPE_F32, GGML_TYPE_I32,
)
from .._graph.grad cimport Backward, gradients
from .._params cimport argsort_params
from .fill cimport index_range, zeros
from .shape cimport cast, contiguous, repeat, reshape, view_slice
from .. import _constants

cdef int SORT_ORDER_DESC = _constants.GGML_SORT_ORDER_DESC

# ---- GET_ROWS --------------------------------------------------------------------------------------------------------
cdef ggml_tensor *get_rows(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b) except NULL:
    cdef ggml_tensor node
    cdef bint decoded = gg_is_float(a.type) or gg_types[a.type].quantized
    node_init(&node, GGML_OP_GET_ROWS, GGML_TYPE_F32 if decoded else a.type, a.ne[0], b.ne[0], b.ne[1], b.ne[2])
    node.src[0], node.src[1] = a, b
    return node_append(ctx, &node)

cdef ggml_tensor *get_rows_back(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b, int64_t n_rows) except NULL:
    cdef ggml_tensor node
    node_init(&node, GGML_OP_GET_ROWS_BACK, GGML_TYPE_F32, a.ne[0], n_rows, a.ne[2], a.ne[3])
    node.src[0], node.src[1] = a, b
    return node_append(ctx, &node)

def ggml_get_rows(ctx, a, b):
    """Looks up rows by index: result[:, i, j, k] = a[:, b[i, j, k], j, k].

    Quantised rows are decoded. An index outside a's rows makes the compute fail. The gradient flows to a; rows
    that are named several times receive the sum.

    Args:
        ctx: context that receives the result.
        a: table, any type, [ne0, n_rows, ne2, ne3].
        b: indices, i32 or i64, [n, ne2, ne3]: each matrix of a has its own.
    Returns:
        Tensor [ne0, n, ne2, ne3]: f32, but integers and f64 keep their type.
    Raises:
        ValueError: b is neither i32 nor i64, or a.ne[2] = b.ne[1], a.ne[3] = b.ne[2], b.ne[3] = 1 does not hold.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_get_rows")
    return wrap_tensor(get_rows(c, arg_tensor(a, b"a"), arg_tensor(b, b"b")))

cdef int grad_get_rows(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[:, i] = x[:, index[i]]: dx[:, r] = the sum of g[:, i] over all i with index[i] = r."""
    b.require_not_overwritten(t, t.src[1])
    return b.add(t.src[0], get_rows_back(b.ctx, g, t.src[1], t.src[0].ne[1]))

def ggml_get_rows_back(ctx, a, b, c):
    """Computes the gradient of ggml_get_rows with respect to its table.

    Starting from zeros, result[:, b[i, j, k], j, k] += a[:, i, j, k] for all i, j and k. An index outside c's
    rows makes the compute fail. The gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: gradient of the rows looked up, f32, f16 or bf16, [ne0, n, ne2, ne3].
        b: indices, i32 or i64, [n, ne2, ne3].
        c: the table or any tensor of its shape [ne0, n_rows, ne2, ne3], any type; its elements are not used.
    Returns:
        f32 tensor in the shape of c.
    Raises:
        ValueError: ne[0], ne[2] or ne[3] of a and c differ, b's shape or type does not fit, or a is not of a float
            type.
        MemoryError: the context is full.
    """
    cdef ggml_context *context = arg_context(ctx, b"ggml_get_rows_back")
    cdef ggml_tensor *g = arg_tensor(a, b"a")
    cdef ggml_tensor *table = arg_tensor(c, b"c")
    if table.ne[0] != g.ne[0] or table.ne[2] != g.ne[2] or table.ne[3] != g.ne[3]:
        fail(ValueError, f"a is {shape_text(g)}, c is {shape_text(table)}: only ne[1] may differ")
    return wrap_tensor(get_rows_back(context, g, arg_tensor(b, b"b"), table.ne[1]))

cdef int grad_get_rows_back(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[:, r] = the sum of x[:, i] over all i with index[i] = r: dx[:, i] = g[:, index[i]]."""
    b.require_not_overwritten(t, t.src[1])
    return b.add(t.src[0], get_rows(b.ctx, g, t.src[1]))

# ---- SET_ROWS --------------------------------------------------------------------------------------------------------
cdef ggml_tensor *set_rows(ggml_context *ctx, ggml_tensor *a, ggml_tensor *b, ggml_tensor *c) except NULL:
    cdef ggml_tensor node
    node_like(&node, GGML_OP_SET_ROWS, a.type, a)
    node.src[0], node.src[1], node.src[2] = b, c, a
    node_in_place(&node, a)
    return node_append(ctx, &node)

def ggml_set_rows(ctx, a, b, c):
    """Overwrites rows of a by index, converting to its type: a[:, c[i, j mod c1, k mod c2], j, k] = b[:, i, j, k].

    Where an index occurs more than once, the last row wins. An index outside a's rows makes the compute fail. If a is
    quantised, the scales of its blocks are limited to the largest finite ones.
    The gradient flows to b from the rows that stay, if b has fewer than 2^24, and to a from the rows that are not
    written.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: destination [ne0, n_rows, ne2, ne3] of any type that does not need importance weights; it is modified.
        b: new rows, f32, f16 or bf16, [ne0, n, ne2, ne3].
        c: indices, i64 or i32, [n, c1, c2]; ne2 is a multiple of c1 and ne3 of c2.
    Returns:
        View of all of a, after the rows were written.
    Raises:
        ValueError: a shape does not fit, b is not of a float type, c is neither i64 nor i32, or there is no
            conversion to a's type.
        MemoryError: the context is full.
    """
    cdef ggml_context *context = arg_context(ctx, b"ggml_set_rows")
    return wrap_tensor(set_rows(context, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c")))

cdef ggml_tensor *rows_back(ggml_context *ctx, ggml_tensor *t, ggml_tensor *g) except NULL:
    """The gradient of the rows that a SET_ROWS node writes: zeros for those that a later row overwrites.

    A SET_ROWS of the rows' numbers, from 1, at the same indices gives for each place the number of the row that stays
    there, 0 for none. A second SET_ROWS stores each row of g at that number; row 0 receives those that belong to no
    row.
    """
    cdef ggml_tensor *rows = t.src[0]
    cdef ggml_tensor *number = reshape(ctx, index_range(ctx, 1, rows.ne[1] + 1, 1), 1, rows.ne[1], 1, 1)
    number = repeat(ctx, number, 1, rows.ne[1], rows.ne[2], rows.ne[3])
    cdef ggml_tensor *stays = set_rows(ctx, zeros(ctx, 1, t.ne[1], t.ne[2], t.ne[3]), number, t.src[1])
    stays = reshape(ctx, cast(ctx, stays, GGML_TYPE_I32), t.ne[1], t.ne[2], t.ne[3], 1)
    cdef ggml_tensor *sorted = set_rows(ctx, zeros(ctx, t.ne[0], rows.ne[1] + 1, t.ne[2], t.ne[3]), g, stays)
    return contiguous(ctx, view_slice(ctx, sorted, 1, 1, rows.ne[1]))

cdef int grad_set_rows(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x with t[:, index[i]] = rows[:, i]: d(rows)[:, i] = g[:, index[i]], dx = g with zeros in these rows.

    Of rows with the same index, only the last has a gradient.
    """
    cdef ggml_tensor *rows = t.src[0]
    cdef ggml_tensor *index = t.src[1]
    cdef ggml_tensor *x = t.src[2]
    cdef ggml_tensor *no_rows
    b.require_not_overwritten(t, index)
    if b.needs(x):
        no_rows = zeros(b.ctx, rows.ne[0], rows.ne[1], rows.ne[2], rows.ne[3])
        b.add(x, set_rows(b.ctx, node1(b.ctx, GGML_OP_DUP, g), no_rows, index))
    if b.needs(rows):
        if gg_is_empty(rows):
            return b.add(rows, zeros(b.ctx, rows.ne[0], rows.ne[1], rows.ne[2], rows.ne[3]))
        b.add(rows, rows_back(b.ctx, t, g))
    return 0

# ---- ADD_ID ----------------------------------------------------------------------------------------------------------
def ggml_add_id(ctx, a, b, ids):
    """Adds to each row of a the row of b that an index selects.

    result[:, i, j] = a[:, i, j] + b[:, ids[i, j]], such as the bias of the expert that token j uses as its i-th. The
    gradient flows to a and to b. An index out of range makes the compute call raise RuntimeError.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [n, n_used, n_tokens].
        b: f32, f16 or bf16, [n, n_rows].
        ids: i32 [n_used, n_tokens], with values from 0 to n_rows - 1.
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: b is not a matrix with rows of a's length, a has four dimensions, ids does not hold one index for
            each row of a, or a type is not supported.
        MemoryError: the context is full.
    See also:
        ggml_mul_mat_id, the product with the expert's matrix.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_add_id")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef ggml_tensor *rows = arg_tensor(b, b"b")
    cdef ggml_tensor *index = arg_tensor(ids, b"ids")
    if x.ne[3] != 1 or index.ne[2] != 1 or index.ne[3] != 1:
        fail(ValueError, f"a is {shape_text(x)}, ids is {shape_text(index)}: need a 3-d a and 2-d ids")
    node_like(&node, GGML_OP_ADD_ID, x.type, x)
    node.src[0], node.src[1], node.src[2] = x, rows, index
    return wrap_tensor(node_append(c, &node))

cdef int grad_add_id(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[:, i, j] = x[:, i, j] + y[:, ids[i, j]]: dx = g, dy[:, r] = the sum of g[:, i, j] over all ids[i, j] = r."""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor *y = t.src[1]
    cdef ggml_tensor *ids = t.src[2]
    cdef int64_t n = ids.ne[0] * ids.ne[1]
    b.add(t.src[0], g)
    if b.needs(y):
        b.require_not_overwritten(t, ids)
        ids = reshape(c, contiguous(c, ids), n, 1, 1, 1)
        g = reshape(c, contiguous(c, g), g.ne[0], n, 1, 1)
        b.add(y, get_rows_back(c, g, ids, y.ne[1]))
    return 0

# ---- ARGSORT, TOP_K --------------------------------------------------------------------------------------------------
cdef ggml_tensor *argsort(ggml_context *ctx, ggml_tensor *a, int order) except NULL:
    return sorted_places(ctx, a, order, False, a.ne[0])

cdef ggml_tensor *sorted_places(ggml_context *ctx, ggml_tensor *a, int order, bint nan, int64_t k) except NULL:
    cdef ggml_tensor node
    node_init(&node, GGML_OP_ARGSORT, GGML_TYPE_I32, k, a.ne[1], a.ne[2], a.ne[3])
    argsort_params(&node).order, argsort_params(&node).nan = order, nan
    node.src[0] = a
    return node_append(ctx, &node)

def ggml_argsort(ctx, a, order):
    """Computes the indices that sort each row.

    The sort is stable in both directions, and NaN comes last. There is no gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        order: GGML_SORT_ORDER_ASC or GGML_SORT_ORDER_DESC.
    Returns:
        i32 tensor of a's shape.
    Raises:
        TypeError: order is not an integer.
        ValueError: order is unknown, a is not f32, f16 or bf16, or its rows are too long for an i32 index.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_argsort")
    return wrap_tensor(argsort(c, arg_tensor(a, b"a"), arg_int32(order, b"order")))

cdef int64_t arg_top_k(object k, ggml_tensor *a) except -1:
    """The argument k: a number of elements of each row of a."""
    cdef int64_t n = arg_extent(k, b"k")
    if n > a.ne[0]:
        fail(ValueError, f"k is {n}, a has rows of {a.ne[0]}: need at most as many")
    return n

def ext_argsort(ctx, a, order, k=None):
    """Computes the indices that sort each row, where NaN is larger than all numbers.

    The sort is stable in both directions: NaN comes last in ascending order, and first in descending order. There is
    no gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        order: GGML_SORT_ORDER_ASC or GGML_SORT_ORDER_DESC.
        k: number of indices for each row, the first ones, 0 to ne0; None for all.
    Returns:
        i32 tensor [k, ne1, ne2, ne3].
    Raises:
        TypeError: order or k is not an integer.
        ValueError: order is unknown, k is out of range, a is not f32, f16 or bf16, or its rows are too long for an i32
            index.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.argsort")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef int64_t n = x.ne[0] if k is None else arg_top_k(k, x)
    return wrap_tensor(sorted_places(c, x, arg_int32(order, b"order"), True, n))

def ggml_argsort_top_k(ctx, a, k):
    """Gives the indices of the k largest elements of each row as a view of a complete sort.

    The indices are in descending order of their elements, equal elements in order of their index, NaN last. The call
    adds two nodes: ggml_argsort and a view of it. There is no gradient.

    Args:
        ctx: context that receives both nodes.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        k: number of indices for each row, 0 to ne0.
    Returns:
        i32 tensor [k, ne1, ne2, ne3], not contiguous for k < ne0 and several rows.
    Raises:
        TypeError: k is not an integer.
        ValueError: k is out of range, a is not f32, f16 or bf16, or its rows are too long for an i32 index.
        MemoryError: the context is full.
    See also:
        ggml_top_k, which need not sort whole rows.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_argsort_top_k")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef int64_t n = arg_top_k(k, x)
    return wrap_tensor(view_slice(c, argsort(c, x, SORT_ORDER_DESC), 0, 0, n))

def ggml_top_k(ctx, a, k):
    """Finds the indices of the k largest elements of each row.

    Here they are in descending order of their elements, but the C library does not promise an order. Equal elements
    keep their order, NaN comes last. There is no gradient.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
        k: number of indices for each row, 0 to ne0.
    Returns:
        i32 tensor [k, ne1, ne2, ne3], contiguous.
    Raises:
        TypeError: k is not an integer.
        ValueError: k is out of range, a is not f32, f16 or bf16, or its rows are too long for an i32 index.
        MemoryError: the context is full.
    See also:
        ggml_argsort_top_k.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_top_k")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_init(&node, GGML_OP_TOP_K, GGML_TYPE_I32, arg_top_k(k, x), x.ne[1], x.ne[2], x.ne[3])
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

gradients[GGML_OP_GET_ROWS] = grad_get_rows
gradients[GGML_OP_GET_ROWS_BACK] = grad_get_rows_back
gradients[GGML_OP_SET_ROWS] = grad_set_rows
gradients[GGML_OP_ADD_ID] = grad_add_id
