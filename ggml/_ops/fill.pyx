"""Tensors of constants, ranges and timestep embeddings, with their gradients."""
from libc.math cimport ceil, log
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_extent, arg_float, arg_int32, arg_tensor, fail, ggml_context, ggml_tensor,
    node_append, node_in_place, node_init, node_like, wrap_tensor,
)
from .._enums cimport GGML_OP_ARANGE, GGML_OP_FILL, GGML_OP_TIMESTEP_EMBEDDING, GGML_TYPE_F32
from .._graph.grad cimport Backward, gradients
from .._params cimport arange_params, fill_params, gg_arange_params, timestep_params
from .elementwise cimport mul, scale, sub
from .reduce cimport sum_to_sizes
from .shape cimport reshape, view_slice
from .unary cimport exp_of

# ---- constants -------------------------------------------------------------------------------------------------------
cdef ggml_tensor *zeros(ggml_context *ctx, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef ggml_tensor node
    node_init(&node, GGML_OP_FILL, GGML_TYPE_F32, ne0, ne1, ne2, ne3)
    fill_params(&node).value = 0
    return node_append(ctx, &node)

cdef object fill_of(object ctx, const char *name, object a, object value, bint inplace):
    """What the public function `name` returns: a node whose elements all have the value."""
    cdef ggml_context *c = arg_context(ctx, name)
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(a, b"a")
    node_like(&node, GGML_OP_FILL, x.type, x)
    fill_params(&node).value = arg_float(value, b"c")
    node.src[0] = x
    if inplace:
        node_in_place(&node, x)
    return wrap_tensor(node_append(c, &node))

def ggml_fill(ctx, a, c):
    """Creates a tensor like another one with all elements equal to c.

    The elements of a are not read, so no gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16 tensor whose shape [ne0, ne1, ne2, ne3] is used.
        c: value of every element.
    Returns:
        Contiguous tensor of a's type and shape.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return fill_of(ctx, b"ggml_fill", a, c, False)

def ggml_fill_inplace(ctx, a, c):
    """Sets every element of a to c.

    No gradient flows to the old elements of a.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; it is overwritten.
        c: value of every element.
    Returns:
        View of all of a, after it was filled.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    return fill_of(ctx, b"ggml_fill_inplace", a, c, True)

cdef int grad_fill(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """t does not depend on the elements of x: dx = 0."""
    return 0

# ---- ranges ----------------------------------------------------------------------------------------------------------
cdef ggml_tensor *arange(ggml_context *ctx, float start, float stop, float step) except NULL:
    cdef ggml_tensor node
    cdef gg_arange_params *q = arange_params(&node)
    cdef double n = ceil((<double>stop - start) / step) if step else -1
    if not 0 <= n < 1e15:
        fail(ValueError, f"start is {start}, stop is {stop}: steps of {step} do not lead there")
    node_init(&node, GGML_OP_ARANGE, GGML_TYPE_F32, <int64_t>n, 1, 1, 1)
    q.start, q.stop, q.step = start, stop, step
    return node_append(ctx, &node)

cdef ggml_tensor *index_range(ggml_context *ctx, int64_t start, int64_t stop, int64_t step) except NULL:
    cdef int64_t largest = max(start, stop)
    if largest > 1 << 24:
        fail(ValueError, f"a gradient needs indices up to {largest}, which f32 holds exactly up to 2^24")
    return arange(ctx, <float>start, <float>stop, <float>step)

def ggml_arange(ctx, start, stop, step):
    """Creates a sequence with constant steps: result[i] = start + i * step.

    The sequence ends before stop, which it does not contain. There is no gradient.

    Args:
        ctx: context that receives the result.
        start: first element.
        stop: end of the sequence.
        step: difference of neighbouring elements, not 0; negative where stop is less than start.
    Returns:
        f32 vector [ceil((stop - start) / step)].
    Raises:
        ValueError: step is 0, or it leads away from stop.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_arange")
    return wrap_tensor(arange(c, arg_float(start, b"start"), arg_float(stop, b"stop"), arg_float(step, b"step")))

# ---- timestep embeddings ---------------------------------------------------------------------------------------------
def ggml_timestep_embedding(ctx, timesteps, dim, max_period):
    """Computes sinusoidal embeddings of timesteps: row t is cos(t f_0), cos(t f_1), ..., sin(t f_0), sin(t f_1), ...

    The dim // 2 frequencies are f_j = max_period^(-j / (dim // 2)). If dim is odd, the last element is 0. The
    gradient flows to timesteps.

    Args:
        ctx: context that receives the result.
        timesteps: f32 vector [n].
        dim: length of an embedding, 0 or more.
        max_period: determines the lowest frequency; 1 or more.
    Returns:
        f32 tensor [dim, n].
    Raises:
        ValueError: timesteps is not an f32 vector, dim is negative, or max_period is not positive.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_timestep_embedding")
    cdef ggml_tensor node
    cdef ggml_tensor *x = arg_tensor(timesteps, b"timesteps")
    node_init(&node, GGML_OP_TIMESTEP_EMBEDDING, GGML_TYPE_F32, arg_extent(dim, b"dim"), x.ne[0], 1, 1)
    timestep_params(&node).dim = arg_int32(dim, b"dim")
    timestep_params(&node).max_period = arg_int32(max_period, b"max_period")
    node.src[0] = x
    return wrap_tensor(node_append(c, &node))

cdef int grad_timestep_embedding(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """Rows of t are c = cos(x f), s = sin(x f) for the frequencies f: dx = sum over f of f (ds c - dc s)."""
    cdef ggml_context *c = b.ctx
    cdef int64_t half = t.ne[0] // 2, n = t.ne[1]
    if half == 0:
        return 0
    b.require_not_overwritten(t, t)
    cdef float rate = <float>(-log(<double>timestep_params(t).max_period) / half)      # f_j = exp(rate j)
    cdef ggml_tensor *frequencies = exp_of(c, scale(c, arange(c, 0, half, 1), rate, 0, False))
    cdef ggml_tensor *from_sin = mul(c, view_slice(c, g, 0, half, half), view_slice(c, t, 0, 0, half))
    cdef ggml_tensor *from_cos = mul(c, view_slice(c, g, 0, 0, half), view_slice(c, t, 0, half, half))
    cdef ggml_tensor *dx = sum_to_sizes(c, mul(c, sub(c, from_sin, from_cos), frequencies), 1, n, 1, 1)
    return b.add(t.src[0], reshape(c, dx, n, 1, 1, 1))

gradients[GGML_OP_FILL] = grad_fill
gradients[GGML_OP_TIMESTEP_EMBEDDING] = grad_timestep_embedding
