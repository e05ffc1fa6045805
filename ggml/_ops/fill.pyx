"""Tensors of constants, ranges and timestep embeddings, with their gradients."""
from libc.math cimport ceil, log
from libc.stdint cimport int64_t

from .._core cimport (
    arg_context, arg_extent, arg_float, arg_int32, arg_tensor, fail, gg_set_param_f32, ggml_context, ggml_tensor,
    node_append, node_in_place, node_init, node_like, wrap_tensor,
)
from .._enums cimport GGML_OP_ARANGE, GGML_OP_FILL, GGML_OP_TIMESTEP_EMBEDDING, GGML_TYPE_F32, GGML_UNARY_OP_EXP
from .._graph.grad cimport Backward, gradients
from .elementwise cimport mul, scale, sub, unary
from .reduce cimport sum_to_shape
from .shape cimport reshape, view_slice

# ---- tensors from nothing --------------------------------------------------------------------------------------------
cdef ggml_tensor *fill(ggml_context *ctx, ggml_tensor *a, float value, bint inplace) except NULL:
    cdef ggml_tensor d
    node_like(&d, GGML_OP_FILL, a.type, a)
    gg_set_param_f32(&d, 0, value)
    d.src[0] = a
    if inplace:
        node_in_place(&d, a)
    return node_append(ctx, &d)

def ggml_fill(ctx, a, c):
    """Creates a tensor like another one with all elements equal to c.

    The elements of a are not read, so no gradient flows to a.

    Args:
        ctx: context that receives the result.
        a: f32, f16 or bf16 tensor whose shape [ne0, ne1, ne2, ne3] is used.
        c: value of every element.
    Returns:
        contiguous tensor of a's type and shape.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *context = arg_context(ctx, b"ggml_fill")
    return wrap_tensor(fill(context, arg_tensor(a, b"a"), arg_float(c, b"c"), False))

def ggml_fill_inplace(ctx, a, c):
    """Sets every element of a to c.

    No gradient flows to the old elements of a.

    Args:
        ctx: context that receives the node; it needs room for the header only.
        a: f32, f16 or bf16, [ne0, ne1, ne2, ne3]; it is overwritten.
        c: value of every element.
    Returns:
        view of all of a, after it was filled.
    Raises:
        ValueError: a is not f32, f16 or bf16.
        MemoryError: the context is full.
    """
    cdef ggml_context *context = arg_context(ctx, b"ggml_fill_inplace")
    return wrap_tensor(fill(context, arg_tensor(a, b"a"), arg_float(c, b"c"), True))

cdef int grad_fill(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """Nothing of a reaches the result."""
    return 0

cdef ggml_tensor *arange(ggml_context *ctx, float start, float stop, float step) except NULL:
    cdef ggml_tensor d
    cdef double n = ceil((<double>stop - start) / step) if step else -1
    if not 0 <= n < 1e15:
        fail(ValueError, f"start is {start}, stop is {stop}: steps of {step} do not lead there")
    node_init(&d, GGML_OP_ARANGE, GGML_TYPE_F32, <int64_t>n, 1, 1, 1)
    gg_set_param_f32(&d, 0, start)
    gg_set_param_f32(&d, 1, stop)
    gg_set_param_f32(&d, 2, step)
    return node_append(ctx, &d)

def ggml_arange(ctx, start, stop, step):
    """Creates a sequence with constant steps: result[i] = start + i * step.

    The sequence ends before stop, which it does not contain. No gradient.

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
        ValueError: timesteps is no f32 vector, dim is negative, or max_period is not positive.
        MemoryError: the context is full.
    """
    cdef ggml_context *c = arg_context(ctx, b"ggml_timestep_embedding")
    cdef ggml_tensor d
    cdef ggml_tensor *x = arg_tensor(timesteps, b"timesteps")
    node_init(&d, GGML_OP_TIMESTEP_EMBEDDING, GGML_TYPE_F32, arg_extent(dim, b"dim"), x.ne[0], 1, 1)
    d.op_params[0], d.op_params[1] = arg_int32(dim, b"dim"), arg_int32(max_period, b"max_period")
    d.src[0] = x
    return wrap_tensor(node_append(c, &d))

cdef int grad_timestep_embedding(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    """The sum over the frequencies f of f (sin' cos - cos' sin), primes marking gradients."""
    cdef ggml_context *c = b.ctx
    cdef ggml_tensor shape
    cdef int64_t half = t.ne[0] // 2
    if half == 0:
        return 0
    b.require_not_overwritten(t, t)
    cdef float rate = <float>(-log(<double>t.op_params[1]) / half)
    cdef ggml_tensor *f = unary(c, GGML_UNARY_OP_EXP, scale(c, arange(c, 0, half, 1), rate, 0, False), False)
    cdef ggml_tensor *up = mul(c, view_slice(c, g, 0, half, half), view_slice(c, t, 0, 0, half))
    cdef ggml_tensor *down = mul(c, view_slice(c, g, 0, 0, half), view_slice(c, t, 0, half, half))
    node_init(&shape, 0, GGML_TYPE_F32, 1, t.ne[1], 1, 1)
    f = sum_to_shape(c, mul(c, sub(c, up, down), f), &shape)
    return b.add(t.src[0], reshape(c, f, t.ne[1], 1, 1, 1))

# ---- a tensor with another in a view of it ---------------------------------------------------------------------------
cdef ggml_tensor *zeros(ggml_context *ctx, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    cdef ggml_tensor d
    node_init(&d, GGML_OP_FILL, GGML_TYPE_F32, ne0, ne1, ne2, ne3)
    gg_set_param_f32(&d, 0, 0)
    return node_append(ctx, &d)

gradients[GGML_OP_FILL] = grad_fill
gradients[GGML_OP_TIMESTEP_EMBEDDING] = grad_timestep_embedding
