"""Operations with the signatures of May 2023. Each builds its twin with the engine's and names sources as they were then."""

import ctypes
import math
import struct

import numpy as np

import ggml

from ._arena import Context, Tensor, api
from ._structs import ggml_binary_op_f32_t, ggml_unary_op_f32_t

NORM_EPS, RMS_NORM_EPS = 1e-5, 1e-6


# ---- one or two sources, element by element --------------------------------------------------------------------------
def _unary(name, op, doc, grad=True, n_dims=None):
    build = getattr(ggml, name)

    def function(ctx: Context, a: Tensor) -> Tensor:
        return ctx.node(op, build(ctx.engine, a.twin), a, grad=grad, n_dims=n_dims)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return api(function)


def _binary(name, op, doc, grad=True):
    build = getattr(ggml, name)

    def function(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
        return ctx.node(op, build(ctx.engine, a.twin, b.twin), a, b, grad=grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return api(function)


ggml_dup = _unary("ggml_dup", "DUP", "A copy of a.")
ggml_sqr = _unary("ggml_sqr", "SQR", "a squared, element by element.")
ggml_sqrt = _unary("ggml_sqrt", "SQRT", "Square root of each element.")
ggml_log = _unary("ggml_log", "LOG", "Natural logarithm of each element.")
ggml_log_inplace = _unary("ggml_log_inplace", "LOG", "ggml_log, written over a.", grad=False)
ggml_sum = _unary("ggml_sum", "SUM", "Sum of all elements.", n_dims=1)
ggml_sum_rows = _unary("ggml_sum_rows", "SUM_ROWS", "Sum of each row.")
ggml_mean = _unary("ggml_mean", "MEAN", "Mean of each row.")
ggml_abs = _unary("ggml_abs", "ABS", "Absolute value of each element.")
ggml_sgn = _unary("ggml_sgn", "SGN", "Sign of each element: -1, 0 or 1.")
ggml_neg = _unary("ggml_neg", "NEG", "-a.")
ggml_step = _unary("ggml_step", "STEP", "1 where an element is above 0, else 0.")
ggml_gelu = _unary("ggml_gelu", "GELU", "GELU of each element, by the approximation with tanh.")
ggml_silu = _unary("ggml_silu", "SILU", "SiLU of each element: a / (1 + exp(-a)).")
ggml_cont = _unary("ggml_cont", "CONT", "A copy of a that is contiguous.")
ggml_transpose = _unary("ggml_transpose", "TRANSPOSE", "a with its first two dimensions exchanged, over the same data.")
ggml_soft_max = _unary("ggml_soft_max", "SOFT_MAX", "Soft-max of each row.")
ggml_soft_max_inplace = _unary("ggml_soft_max_inplace", "SOFT_MAX", "ggml_soft_max, written over a.")
ggml_add = _binary("ggml_add", "ADD", "a + b; a may be quantised.")
ggml_add_inplace = _binary("ggml_add_inplace", "ADD", "ggml_add, written over a.", grad=False)
ggml_add1 = _binary("ggml_add1", "ADD1", "a + b, where b has one element.")
ggml_sub = _binary("ggml_sub", "SUB", "a - b.")
ggml_mul = _binary("ggml_mul", "MUL", "a * b, element by element.")
ggml_div = _binary("ggml_div", "DIV", "a / b, element by element.")


@api
def ggml_cpy(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Copies a into b, in b's type; the result is a view of b."""
    return ctx.node("CPY", ggml.ggml_cpy(ctx.engine, a.twin, b.twin), a, b, n_dims=b.struct.n_dims)


@api
def ggml_silu_back(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Gradient of ggml_silu: a is its argument, b the gradient of its result."""
    return ctx.node("SILU_BACK", ggml.ggml_silu_back(ctx.engine, b.twin, a.twin), a, b)


@api
def ggml_relu(ctx: Context, a: Tensor) -> Tensor:
    """max(a, 0), element by element. Its gradient has the wrong sign, as it had then."""
    twin = ggml.ggml_relu(ctx.engine, a.twin)
    if a.struct.grad:
        twin = ggml.ggml_map_custom1(ctx.engine, twin, _copy, 1, None)
        ggml.ggml_custom_set_backward(twin, lambda e, t, g: ggml.ggml_neg(e, g))
    return ctx.node("RELU", twin, a)


@ggml.ggml_custom1_op_t
def _copy(dst, a, ith, nth, userdata):
    """Copies a, of the same layout: for a node that is there for its gradient."""
    ctypes.memmove(dst.contents.data, a.contents.data, ggml.ggml_nbytes(a))


@api
def ggml_scale(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """a * b, where b has one element."""
    return ctx.node("SCALE", ggml.ggml_mul(ctx.engine, a.twin, _one(b).twin), a, b)


@api
def ggml_scale_inplace(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_scale, written over a."""
    return ctx.node("SCALE", ggml.ggml_mul_inplace(ctx.engine, a.twin, _one(b).twin), a, b, grad=False)


def _one(b):
    if ggml.ggml_nelements(b.twin) != 1:
        raise ValueError(f"b has {ggml.ggml_nelements(b.twin)} elements: need one")
    return b


@api
def ggml_clamp(ctx: Context, a: Tensor, min: float, max: float) -> Tensor:
    """Each element brought into min ... max, written over a."""
    twin = ggml.ggml_clamp_inplace(ctx.engine, a.twin, min, max)
    return ctx.node("CLAMP", twin, a, ctx.filled((ctypes.c_float * 3)(min, max)))


# ---- norms and products ----------------------------------------------------------------------------------------------
@api
def ggml_norm(ctx: Context, a: Tensor) -> Tensor:
    """Each row made to mean 0 and variance 1 (eps 1e-5)."""
    return ctx.node("NORM", ggml.ggml_norm(ctx.engine, a.twin, NORM_EPS), a)


@api
def ggml_rms_norm(ctx: Context, a: Tensor) -> Tensor:
    """Each row divided by its root mean square (eps 1e-6)."""
    return ctx.node("RMS_NORM", ggml.ggml_rms_norm(ctx.engine, a.twin, RMS_NORM_EPS), a)


@api
def ggml_rms_norm_back(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Gradient of ggml_rms_norm: a is its argument, b the gradient of its result."""
    return ctx.node("RMS_NORM_BACK", ggml.ggml_rms_norm_back(ctx.engine, b.twin, a.twin, RMS_NORM_EPS), a, b)


@api
def ggml_mul_mat(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Matrix product: result[m, n] = sum_k a[k, m] b[k, n]."""
    n_dims = min(a.struct.n_dims, b.struct.n_dims)
    return ctx.node("MUL_MAT", ggml.ggml_mul_mat(ctx.engine, a.twin, b.twin), a, b, n_dims=n_dims)


# ---- parts of tensors ------------------------------------------------------------------------------------------------
def _update(ctx, name, a, b, *place):
    nb1, nb2, nb3, offset = place
    inplace = name.endswith("_inplace")
    twin = getattr(ggml, name)(ctx.engine, a.twin, b.twin, nb1, nb2, nb3, offset)
    if max(nb1, nb2, nb3, offset) >= 1 << 31:
        raise ValueError(f"nb1 is {nb1}, nb2 {nb2}, nb3 {nb3}, offset {offset}: need 31-bit numbers")
    params = ctx.ints(nb1, nb2, nb3, offset, inplace)
    return ctx.node("ACC" if "acc" in name else "SET", twin, a, b, params, grad=not inplace)


@api
def ggml_acc(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """A copy of a to whose view with those strides and offset, in bytes, b is added."""
    return _update(ctx, "ggml_acc", a, b, nb1, nb2, nb3, offset)


@api
def ggml_acc_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """ggml_acc, written over a."""
    return _update(ctx, "ggml_acc_inplace", a, b, nb1, nb2, nb3, offset)


@api
def ggml_set(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """A copy of a whose view with those strides and offset, in bytes, is replaced by b."""
    return _update(ctx, "ggml_set", a, b, nb1, nb2, nb3, offset)


@api
def ggml_set_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """ggml_set, written over a."""
    return _update(ctx, "ggml_set_inplace", a, b, nb1, nb2, nb3, offset)


@api
def ggml_set_1d(ctx: Context, a: Tensor, b: Tensor, offset: int) -> Tensor:
    """A copy of a whose elements from `offset` (bytes) on are replaced by b."""
    return _update(ctx, "ggml_set", a, b, *a.struct.nb[1:], offset)


@api
def ggml_set_1d_inplace(ctx: Context, a: Tensor, b: Tensor, offset: int) -> Tensor:
    """ggml_set_1d, written over a."""
    return _update(ctx, "ggml_set_inplace", a, b, *a.struct.nb[1:], offset)


@api
def ggml_set_2d(ctx: Context, a: Tensor, b: Tensor, nb1: int, offset: int) -> Tensor:
    """A copy of a whose part at `offset`, with rows nb1 bytes apart, is replaced by b."""
    return _update(ctx, "ggml_set", a, b, nb1, *a.struct.nb[2:], offset)


@api
def ggml_set_2d_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, offset: int) -> Tensor:
    """ggml_set_2d, written over a."""
    return _update(ctx, "ggml_set_inplace", a, b, nb1, *a.struct.nb[2:], offset)


@api
def ggml_repeat(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """a tiled to the shape of b; a itself where it has that and no gradient."""
    if a.struct.ne[:] == b.struct.ne[:] and not a.struct.grad:
        return a
    return ctx.node("REPEAT", ggml.ggml_repeat(ctx.engine, a.twin, b.twin), a, b, n_dims=b.struct.n_dims)


@api
def ggml_get_rows(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """The rows of a that b (i32) lists, as f32."""
    return ctx.node("GET_ROWS", ggml.ggml_get_rows(ctx.engine, a.twin, b.twin), a, b, n_dims=2)


@api
def ggml_get_rows_back(ctx: Context, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """c with the rows of a added where b (i32) says: what ggml_get_rows adds to the gradient c."""
    twin = ggml.ggml_add(ctx.engine, ggml.ggml_get_rows_back(ctx.engine, a.twin, b.twin, c.twin), c.twin)
    return ctx.node("GET_ROWS_BACK", twin, a, b, c, n_dims=2)


@api
def ggml_diag(ctx: Context, a: Tensor) -> Tensor:
    """A matrix with the row a as its diagonal, for each row."""
    return ctx.node("DIAG", ggml.ggml_diag(ctx.engine, a.twin), a, n_dims=max(a.struct.n_dims, 2))


# ---- the same data in another shape ----------------------------------------------------------------------------------
@api
def ggml_reshape(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """a in the shape of b, over the same data."""
    return ctx.node("RESHAPE", ggml.ggml_reshape(ctx.engine, a.twin, b.twin), a, n_dims=b.struct.n_dims)


def _reshape(ctx, a, *ne):
    twin = getattr(ggml, f"ggml_reshape_{len(ne)}d")(ctx.engine, a.twin, *ne)
    return ctx.node("RESHAPE", twin, a, n_dims=len(ne))


@api
def ggml_reshape_1d(ctx: Context, a: Tensor, ne0: int) -> Tensor:
    """a as a vector, over the same data."""
    return _reshape(ctx, a, ne0)


@api
def ggml_reshape_2d(ctx: Context, a: Tensor, ne0: int, ne1: int) -> Tensor:
    """a as a matrix, over the same data."""
    return _reshape(ctx, a, ne0, ne1)


@api
def ggml_reshape_3d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int) -> Tensor:
    """a with three dimensions, over the same data."""
    return _reshape(ctx, a, ne0, ne1, ne2)


@api
def ggml_reshape_4d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int) -> Tensor:
    """a with four dimensions, over the same data."""
    return _reshape(ctx, a, ne0, ne1, ne2, ne3)


def _view(ctx, n_dims, a, *args):
    twin = getattr(ggml, f"ggml_view_{n_dims}d")(ctx.engine, a.twin, *args)
    return ctx.node("VIEW", twin, a, n_dims=n_dims)


@api
def ggml_view_1d(ctx: Context, a: Tensor, ne0: int, offset: int) -> Tensor:
    """ne0 elements of a, from `offset` (bytes) on."""
    return _view(ctx, 1, a, ne0, offset)


@api
def ggml_view_2d(ctx: Context, a: Tensor, ne0: int, ne1: int, nb1: int, offset: int) -> Tensor:
    """A matrix in a, from `offset` on, with rows nb1 bytes apart."""
    return _view(ctx, 2, a, ne0, ne1, nb1, offset)


@api
def ggml_view_3d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, nb1: int, nb2: int, offset: int) -> Tensor:
    """A part of a with three dimensions, from `offset` on, with the strides nb1 and nb2, in bytes."""
    return _view(ctx, 3, a, ne0, ne1, ne2, nb1, nb2, offset)


@api
def ggml_view_4d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """A part of a with four dimensions, from `offset` on, with the strides nb1, nb2 and nb3, in bytes."""
    return _view(ctx, 4, a, ne0, ne1, ne2, ne3, nb1, nb2, nb3, offset)


@api
def ggml_permute(ctx: Context, a: Tensor, axis0: int, axis1: int, axis2: int, axis3: int) -> Tensor:
    """a with dimension i as dimension axis_i, over the same data."""
    return ctx.node("PERMUTE", ggml.ggml_permute(ctx.engine, a.twin, axis0, axis1, axis2, axis3), a)


# ---- attention -------------------------------------------------------------------------------------------------------
def _diag_mask(ctx, name, op, a, n_past):
    twin = getattr(ggml, name)(ctx.engine, a.twin, n_past)
    return ctx.node(op, twin, a, ctx.ints(n_past, name.endswith("_inplace")))


@api
def ggml_diag_mask_inf(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """a with -inf at [i0, i1] where i0 > n_past + i1."""
    return _diag_mask(ctx, "ggml_diag_mask_inf", "DIAG_MASK_INF", a, n_past)


@api
def ggml_diag_mask_inf_inplace(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """ggml_diag_mask_inf, written over a."""
    return _diag_mask(ctx, "ggml_diag_mask_inf_inplace", "DIAG_MASK_INF", a, n_past)


@api
def ggml_diag_mask_zero(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """a with 0 at [i0, i1] where i0 > n_past + i1."""
    return _diag_mask(ctx, "ggml_diag_mask_zero", "DIAG_MASK_ZERO", a, n_past)


@api
def ggml_diag_mask_zero_inplace(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """ggml_diag_mask_zero, written over a."""
    return _diag_mask(ctx, "ggml_diag_mask_zero_inplace", "DIAG_MASK_ZERO", a, n_past)


def _rotated(ctx, a, n_past, n_dims, mode, back, inplace):
    """Rows of dimension 2 rotated; with mode & 1 they have their own number as position, and the first n_past stay out."""
    if n_past < 0 or not 0 <= mode <= 3:
        raise ValueError(f"n_past is {n_past}, mode is {mode}: need n_past >= 0 and a mode of 0 to 3")
    e, ne, nb = ctx.engine, a.struct.ne[:], a.struct.nb[:]
    first = min(n_past, ne[2]) if mode & 1 else 0
    start = first if mode & 1 else n_past
    if start + ne[2] - first >= 1 << 31:
        raise ValueError(f"a is {ne}, n_past is {n_past}: positions must be less than 2^31")
    positions = ctx.constant(ggml.GGML_TYPE_I32, np.arange(start, start + ne[2] - first, dtype=np.int32))
    neox = ggml.GGML_ROPE_TYPE_NEOX if mode & 2 else 0
    part = a.twin
    if first:
        part = ggml.ggml_view_4d(e, part, *ne[:2], ne[2] - first, ne[3], *nb[1:], first * nb[2])
    if back:
        part = ggml.ggml_rope_back(e, part, positions, None, n_dims, neox, 0, 0, 10000.0, 1.0, 0.0, 1.0, 32.0, 1.0, 0.0, False)
    elif inplace and not first:
        part = ggml.ggml_rope_inplace(e, part, positions, n_dims, neox)
    else:
        part = ggml.ggml_rope(e, part, positions, n_dims, neox)
    if first and inplace:
        return ggml.ggml_set_inplace(e, a.twin, part, *nb[1:], first * nb[2])
    return ggml.ggml_pad_ext(e, part, 0, 0, 0, 0, first, 0, 0, 0) if first else part


@api
def ggml_rope(ctx: Context, a: Tensor, n_past: int, n_dims: int, mode: int) -> Tensor:
    """Rotary position embedding of a [n_embd, n_head, n_tokens]: token i has the position n_past + i.

    mode & 1: the tokens before n_past are left out (0 in the result), the others have the position i. mode & 2: GPT-NeoX.
    """
    twin = _rotated(ctx, a, n_past, n_dims, mode, False, False)
    return ctx.node("ROPE", twin, a, ctx.ints(n_past, n_dims, mode))


@api
def ggml_rope_inplace(ctx: Context, a: Tensor, n_past: int, n_dims: int, mode: int) -> Tensor:
    """ggml_rope, written over a."""
    twin = _rotated(ctx, a, n_past, n_dims, mode, False, True)
    return ctx.node("ROPE", twin, a, ctx.ints(n_past, n_dims, mode), grad=False)


@api
def ggml_rope_back(ctx: Context, a: Tensor, n_past: int, n_dims: int, mode: int) -> Tensor:
    """Gradient of ggml_rope: a is the gradient of its result."""
    twin = _rotated(ctx, a, n_past, n_dims, mode, True, False)
    return ctx.node("ROPE_BACK", twin, a, ctx.ints(n_past, n_dims, mode))


def alibi_slopes(n_head, bias_max):
    """What a column adds for each head (arXiv:2108.12409)."""
    whole = 2 ** int(math.log2(n_head))
    k = np.arange(n_head)
    slopes = np.where(k < whole, 2.0 ** (-bias_max * (k + 1) / whole), 2.0 ** (-bias_max * (2 * (k - whole) + 1) / (2 * whole)))
    return slopes.astype(np.float32)


@api
def ggml_alibi(ctx: Context, a: Tensor, n_past: int, n_head: int, bias_max: float) -> Tensor:
    """Adds to the scores a [n_past + n_tokens, n_tokens, n_head] each head's slope times (column - last column), written over a."""
    ne = a.struct.ne
    if n_past < 0 or n_head < 1 or n_head != ne[2] or ne[0] != n_past + ne[1]:
        raise ValueError(f"a is {ne[:]}, n_past is {n_past}, n_head is {n_head}: need [n_past + ne1, ne1, n_head]")
    bias = alibi_slopes(n_head, bias_max)[:, None, None] * np.arange(1 - ne[0], 1, dtype=np.float32)
    twin = ggml.ggml_add_inplace(ctx.engine, a.twin, ctx.constant(ggml.GGML_TYPE_F32, bias[None]))
    bits = struct.unpack("i", struct.pack("f", bias_max))[0]
    return ctx.node("ALIBI", twin, a, ctx.ints(n_past, n_head, bits), grad=False)


def _f32(e, t):
    """The right-hand side of a product as f32."""
    return ggml.ggml_cast(e, t.twin, ggml.GGML_TYPE_F32) if t.struct.type != ggml.GGML_TYPE_F32 else t.twin


@api
def ggml_flash_attn(ctx: Context, q: Tensor, k: Tensor, v: Tensor, masked: bool) -> Tensor:
    """Attention: q [D, N, H], k [D, M, H], v [M, D, H] (transposed) give [D, N, H]; masked: row i sees the first M - N + i + 1."""
    e, (d, n), m = ctx.engine, q.struct.ne[:2], k.struct.ne[1]
    if v.struct.ne[0] != m or v.struct.ne[1] != d or (masked and m < n):
        raise ValueError(f"q is {q.struct.ne[:]}, k {k.struct.ne[:]}, v {v.struct.ne[:]}: need [D, N], [D, M], [M, D], M >= N")
    scores = ggml.ggml_mul_mat(e, k.twin, _f32(e, q))
    if masked:
        scores = ggml.ggml_diag_mask_inf(e, scores, m - n)
    weights = ggml.ggml_soft_max_ext(e, scores, None, 1 / math.sqrt(d), 0.0)
    twin = ggml.ggml_mul_mat(e, v.twin, weights)
    return ctx.node("FLASH_ATTN", twin, q, k, v, ctx.ints(masked), n_dims=4)


@api
def ggml_flash_ff(ctx: Context, a: Tensor, b0: Tensor, b1: Tensor, c0: Tensor, c1: Tensor) -> Tensor:
    """A feed-forward block: c0 * gelu(b0 * a + b1) + c1, with products as in ggml_mul_mat."""
    e = ctx.engine
    hidden = ggml.ggml_gelu(e, ggml.ggml_add(e, ggml.ggml_mul_mat(e, b0.twin, _f32(e, a)), b1.twin))
    twin = ggml.ggml_add(e, ggml.ggml_mul_mat(e, c0.twin, hidden), c1.twin)
    return ctx.node("FLASH_FF", twin, a, b0, b1, c0, c1, n_dims=4)


# ---- convolution and callbacks ---------------------------------------------------------------------------------------
def _conv_1d(ctx, op, a, b, stride):
    """Kernels a [K, IC, OC] with odd K over b [L, IC], padded with zeros to [L / stride, OC]."""
    e, kernel, length = ctx.engine, a.struct.ne[0], b.struct.ne[0]
    if kernel % 2 == 0:
        raise ValueError(f"a is {a.struct.ne[:]}: its ne0 must be odd")
    twin = ggml.ggml_conv_1d(e, a.twin, b.twin, stride, kernel // 2, 1)
    if length % stride:
        ne, nb = twin.contents.ne[:], twin.contents.nb[:]
        twin = ggml.ggml_cont(e, ggml.ggml_view_2d(e, twin, length // stride, ne[1], nb[1], 0))
    return ctx.node(op, twin, a, b, n_dims=2)


@api
def ggml_conv_1d_1s(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Convolution of b [L, IC] by kernels a [K, IC, OC], K odd, with stride 1: [L, OC]."""
    return _conv_1d(ctx, "CONV_1D_1S", a, b, 1)


@api
def ggml_conv_1d_2s(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Convolution of b [L, IC] by kernels a [K, IC, OC], K odd, with stride 2: [L / 2, OC]."""
    return _conv_1d(ctx, "CONV_1D_2S", a, b, 2)


def _map(ctx, op, a, b, build, kind, fun):
    """The callback's address was kept in a tensor then, as two integers."""
    if callable(fun) and not isinstance(fun, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        fun = kind(fun)
    ctx.kept.append(fun)
    sources = [a.twin] if b is None else [a.twin, b.twin]
    twin = build(ctx.engine, *sources, fun)
    address = fun if isinstance(fun, int) else ctypes.cast(fun, ctypes.c_void_p).value
    return ctx.node(op, twin, a, b, ctx.ints(*struct.unpack("2i", struct.pack("Q", address))))


@api
def ggml_map_unary_f32(ctx: Context, a: Tensor, fun) -> Tensor:
    """A tensor like a, computed by fun(n, dst, a) for each row of n elements."""
    return _map(ctx, "MAP_UNARY", a, None, ggml.ggml_map_unary_f32, ggml_unary_op_f32_t, fun)


@api
def ggml_map_binary_f32(ctx: Context, a: Tensor, b: Tensor, fun) -> Tensor:
    """A tensor like a and b, computed by fun(n, dst, a, b) for each row of n elements."""
    return _map(ctx, "MAP_BINARY", a, b, ggml.ggml_map_binary_f32, ggml_binary_op_f32_t, fun)
