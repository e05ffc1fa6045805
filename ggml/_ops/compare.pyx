"""Comparisons whose results are bytes, and selection, each with its gradient."""
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_tensor, fail, ggml_context, ggml_tensor, node_append, node_init, node_like, wrap_tensor,
)
from .._enums cimport GGML_OP_COMPARE, GGML_OP_SELECT, GGML_TYPE_I8
from .._graph.grad cimport Backward, gradients
from .._params cimport compare_params
from .fill cimport zeros
from .reduce cimport sum_to_shape

cdef extern from "runtime/relations.h" nogil:
    enum: GG_COMPARE_EQUAL, GG_COMPARE_UNEQUAL, GG_COMPARE_LESS, GG_COMPARE_LESS_EQUAL, GG_COMPARE_GREATER
    enum: GG_COMPARE_GREATER_EQUAL, GG_COMPARE_AND, GG_COMPARE_OR

cdef dict relations = {
    "==": GG_COMPARE_EQUAL, "!=": GG_COMPARE_UNEQUAL, "<": GG_COMPARE_LESS, "<=": GG_COMPARE_LESS_EQUAL,
    ">": GG_COMPARE_GREATER, ">=": GG_COMPARE_GREATER_EQUAL, "and": GG_COMPARE_AND, "or": GG_COMPARE_OR,
}

def ext_compare(ctx, a, b, relation):
    """Compares two tensors element by element, with b repeated to the shape of a. The result holds bytes.

    A comparison with NaN is false, except "!=". "and" and "or" take each operand for true where it is not 0. The
    result passes no gradient on.

    Args:
        ctx: context that receives the result.
        a: f32, f16, bf16 or i8, any shape.
        b: f32, f16, bf16 or i8; each dimension of the shape of a is a multiple of b's.
        relation: "==", "!=", "<", "<=", ">", ">=", "and" or "or".
    Returns:
        Tensor of a's shape, i8: 1 where the relation holds, else 0.
    Raises:
        TypeError: relation is no text.
        ValueError: relation is not one of these, the shapes do not fit, or a type is not supported.
        MemoryError: the context is full.
    See also:
        ggml.ext.less and ggml.ext.equal, whose results are floats.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml.ext.compare")
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    cdef ggml_tensor node
    if not isinstance(relation, str):
        fail(TypeError, f"relation is {relation!r}: need one of {', '.join(map(repr, relations))}")
    if relation not in relations:
        fail(ValueError, f"relation is {relation!r}: need one of {', '.join(map(repr, relations))}")
    node_like(&node, GGML_OP_COMPARE, GGML_TYPE_I8, x)
    compare_params(&node).relation = relations[relation]
    node.src[0], node.src[1] = x, arg_tensor(b, b"b")
    return wrap_tensor(node_append(c, &node))

cdef int grad_compare(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t is 0 or 1: constant wherever it has a derivative."""
    return 0

cdef ggml_tensor *select(ggml_context *ctx, ggml_tensor *condition, ggml_tensor *a, ggml_tensor *b) except NULL:
    cdef ggml_tensor node
    cdef int64_t[4] ne
    cdef int i
    for i in range(4):
        ne[i] = max(condition.ne[i], a.ne[i], b.ne[i])
        if condition.ne[i] == 0 or a.ne[i] == 0 or b.ne[i] == 0:
            ne[i] = 0
    node_init(&node, GGML_OP_SELECT, a.type, ne[0], ne[1], ne[2], ne[3])
    node.src[0], node.src[1], node.src[2] = condition, a, b
    return node_append(ctx, &node)

def ext_select(ctx, a, b, c):
    """Takes the elements of b where those of a are not 0, and those of c where they are.

    Each operand is repeated to the largest of their extents in each dimension. The gradient flows to the elements of b
    and c that are taken, summed over the repeats.

    Args:
        ctx: context that receives the result.
        a: condition, f32, f16, bf16 or i8, any shape; NaN is not 0.
        b: f32, f16 or bf16, any shape.
        c: f32, f16 or bf16, any shape.
    Returns:
        Tensor of b's type, in the shape that all three have together.
    Raises:
        ValueError: an extent is no multiple of another operand's, or a type is not supported.
        MemoryError: the context is full.
    """
    cdef ggml_context *context = arg_context(ctx, b"ggml.ext.select")
    return wrap_tensor(select(context, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor(c, b"c")))

cdef int grad_select(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t = x ? y : z: dy = g where x is not 0, dz = g elsewhere."""
    cdef ggml_tensor *condition = t.src[0]
    cdef ggml_tensor *nothing = zeros(b.ctx, 1, 1, 1, 1)
    b.require_not_overwritten(t, condition)
    if b.needs(t.src[1]):
        b.add(t.src[1], sum_to_shape(b.ctx, select(b.ctx, condition, g, nothing), t.src[1]))
    if b.needs(t.src[2]):
        b.add(t.src[2], sum_to_shape(b.ctx, select(b.ctx, condition, nothing, g), t.src[2]))
    return 0

gradients[GGML_OP_COMPARE] = grad_compare
gradients[GGML_OP_SELECT] = grad_select
