"""Running sums along rows, with their gradient."""
from .._core cimport arg_context, arg_tensor, ggml_context, ggml_tensor, node_append, node_like, wrap_tensor
from .._enums cimport GGML_OP_CUMSUM
from .._graph.grad cimport Backward, gradients
from .._params cimport cumsum_params

cdef ggml_tensor *cumsum(ggml_context *ctx, ggml_tensor *a, bint from_end) except NULL:
    cdef ggml_tensor node
    node_like(&node, GGML_OP_CUMSUM, a.type, a)
    cumsum_params(&node).from_end = from_end
    node.src[0] = a
    return node_append(ctx, &node)

def ggml_cumsum(ctx, a):
    """Computes the running sums of each row: y[i] = a[0] + ... + a[i].

    The sums are accumulated in double precision. The gradient flows to a as the running sums from the end of the row.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3].
    Returns:
        Tensor of a's shape and type.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_cumsum")
    return wrap_tensor(cumsum(c, arg_tensor(a, b"a"), False))

cdef int grad_cumsum(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t[i] = x[0] + ... + x[i]: dx[i] = g[i] + ... + g[n - 1], the running sums from the other end."""
    return b.add(t.src[0], cumsum(b.ctx, g, not cumsum_params(t).from_end))

gradients[GGML_OP_CUMSUM] = grad_cumsum
