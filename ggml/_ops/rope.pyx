"""Rotary position embeddings (arXiv:2104.09864), with their gradient."""
from libc.math cimport M_PI, ceil, floor, log
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from .._core cimport (
    arg_bool, arg_buffer, arg_context, arg_float, arg_int32, arg_tensor, arg_tensor_or_null, enter, fail,
    gg_set_param_f32, ggml_context, ggml_tensor, node_append, node_in_place, node_init, node_like, wrap_tensor,
)
from .._enums cimport GGML_OP_ROPE, GGML_OP_ROPE_BACK, GGML_OP_ROPE_FACTORS_BACK, GGML_TYPE_F32
from .._graph.grad cimport Backward, gradients

# ---- rotary positions ------------------------------------------------------------------------------------------------
cdef ggml_tensor *turn(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b, ggml_tensor *c, const int32_t *params, bint inplace) except NULL:
    cdef ggml_tensor d
    node_like(&d, op, a.type, a)
    memcpy(d.op_params, params, sizeof(d.op_params))
    d.src[0], d.src[1], d.src[2] = a, b, c
    if inplace:
        node_in_place(&d, a)
    return node_append(ctx, &d)

cdef object rope(ggml_context *ctx, int op, a, b, c, n_dims, sections, mode, n_ctx_orig, tuple floats, bint inplace):
    """A ROPE or ROPE_BACK node; floats: freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow."""
    cdef ggml_tensor d
    cdef void *p
    cdef int i
    node_init(&d, op, GGML_TYPE_F32, 1, 1, 1, 1)
    d.op_params[1], d.op_params[2] = arg_int32(n_dims, b"n_dims"), arg_int32(mode, b"mode")
    d.op_params[4] = arg_int32(n_ctx_orig, b"n_ctx_orig")
    for i, name in enumerate((b"freq_base", b"freq_scale", b"ext_factor", b"attn_factor", b"beta_fast", b"beta_slow")):
        gg_set_param_f32(&d, 5 + i, arg_float(floats[i], name))
    if sections is not None:
        arg_buffer(sections, b"sections", 16, &p)
        if p == NULL:
            fail(ValueError, "sections is NULL: need four int")
        memcpy(&d.op_params[11], p, 16)
    return wrap_tensor(turn(ctx, op, arg_tensor(a, b"a"), arg_tensor(b, b"b"), arg_tensor_or_null(c, b"c"), d.op_params, inplace))

cdef tuple PLAIN = (10000.0, 1.0, 0.0, 1.0, 0.0, 0.0)

def ggml_rope(ctx, a, b, n_dims, mode):
    """Rotary position embedding: pairs of a row's first n_dims elements turned by position * 10000^(-2 pair / n_dims).

    a [ne0, heads, tokens, batch] (floats), b i32 [tokens]: the positions. mode GGML_ROPE_TYPE_NORMAL: pairs (0, 1),
    (2, 3) ...; GGML_ROPE_TYPE_NEOX: pairs (0, n_dims/2), (1, n_dims/2 + 1) ...; others need ggml_rope_multi."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope")
    return rope(x, GGML_OP_ROPE, a, b, None, n_dims, None, mode, 0, PLAIN, False)

def ggml_rope_inplace(ctx, a, b, n_dims, mode):
    """ggml_rope, written over a."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope_inplace")
    return rope(x, GGML_OP_ROPE, a, b, None, n_dims, None, mode, 0, PLAIN, True)

def ggml_rope_ext(ctx, a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast,
                  beta_slow):
    """ggml_rope with angles times freq_scale, over the factors c (f32 [n_dims/2] or None), and as YaRN has them.

    ext_factor > 0 (YaRN, arXiv:2309.00071): pairs that turn more than beta_fast times within n_ctx_orig positions keep
    their angle, those that turn less than beta_slow times get it times freq_scale. Results are multiplied by
    attn_factor, with YaRN also by 1 - 0.1 log(freq_scale)."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope_ext")
    return rope(x, GGML_OP_ROPE, a, b, c, n_dims, None, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_ext_inplace(ctx, a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                          beta_fast, beta_slow):
    """ggml_rope_ext, written over a."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope_ext_inplace")
    return rope(x, GGML_OP_ROPE, a, b, c, n_dims, None, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), True)

def ggml_rope_multi(ctx, a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                    beta_fast, beta_slow):
    """ggml_rope_ext with four positions a token: b i32 [4 * tokens], all of the first kind, then all of the second ...

    sections: four int, how many pairs each position turns. mode GGML_ROPE_TYPE_MROPE: one section after the other;
    GGML_ROPE_TYPE_IMROPE: interleaved; GGML_ROPE_TYPE_VISION: angles begin anew in each, n_dims is half of ne0."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope_multi")
    return rope(x, GGML_OP_ROPE, a, b, c, n_dims, sections, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_multi_inplace(ctx, a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor,
                            attn_factor, beta_fast, beta_slow):
    """ggml_rope_multi, written over a."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope_multi_inplace")
    return rope(x, GGML_OP_ROPE, a, b, c, n_dims, sections, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), True)

def ggml_rope_custom(ctx, a, b, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast,
                     beta_slow):
    """ggml_rope_ext without factors."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope_custom")
    return rope(x, GGML_OP_ROPE, a, b, None, n_dims, None, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_custom_inplace(ctx, a, b, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                             beta_fast, beta_slow):
    """ggml_rope_custom, written over a."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope_custom_inplace")
    return rope(x, GGML_OP_ROPE, a, b, None, n_dims, None, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), True)

def ggml_rope_ext_back(ctx, a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                       beta_fast, beta_slow):
    """Gradient of ggml_rope_ext: a is the gradient of its result, which is turned back."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope_ext_back")
    return rope(x, GGML_OP_ROPE_BACK, a, b, c, n_dims, None, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_multi_back(ctx, a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor,
                         attn_factor, beta_fast, beta_slow):
    """Gradient of ggml_rope_multi: a is the gradient of its result, which is turned back."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope_multi_back")
    return rope(x, GGML_OP_ROPE_BACK, a, b, c, n_dims, sections, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_back(ctx, a, b, c, n_dims, mode, n_ctx, n_orig_ctx, freq_base, freq_scale, ext_factor, attn_factor,
                   beta_fast, beta_slow, xpos_base, xpos_down):
    """ggml_rope_ext_back as older releases had it. n_ctx has no meaning any more; xpos_base must be 0."""
    cdef ggml_context *x = arg_context(ctx, b"ggml_rope_back")
    arg_int32(n_ctx, b"n_ctx"), arg_bool(xpos_down, b"xpos_down")
    if arg_float(xpos_base, b"xpos_base") != 0:
        fail(ValueError, f"xpos_base is {xpos_base}: need 0, xPos is not supported")
    return rope(x, GGML_OP_ROPE_BACK, a, b, c, n_dims, None, mode, n_orig_ctx,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

cdef double corr_dim(int n_dims, int n_ctx, float base, float turns) noexcept:
    """The pair that makes so many turns within the context."""
    return n_dims * log(n_ctx / (turns * 2 * M_PI)) / (2 * log(base))

def ggml_rope_yarn_corr_dims(n_dims, n_orig_ctx, freq_base, beta_fast, beta_slow, dims):
    """Writes to dims (two c_float) the pairs between which YaRN goes over from extrapolated to interpolated angles."""
    enter(b"ggml_rope_yarn_corr_dims")
    cdef int n = arg_int32(n_dims, b"n_dims"), ctx = arg_int32(n_orig_ctx, b"n_orig_ctx")
    cdef float base = arg_float(freq_base, b"freq_base"), fast = arg_float(beta_fast, b"beta_fast"), slow = arg_float(beta_slow, b"beta_slow")
    cdef void *p
    arg_buffer(dims, b"dims", 8, &p)
    if p == NULL:
        fail(ValueError, "dims is NULL: need two c_float")
    if ctx <= 0 or not (base > 0 and base != 1 and fast > 0 and slow > 0):
        fail(ValueError, f"n_orig_ctx is {ctx}, freq_base {base}, beta_fast {fast}, beta_slow {slow}: "
                         "need more than 0, and freq_base not 1")
    (<float *>p)[0] = <float>max(0, floor(corr_dim(n, ctx, base, fast)))
    (<float *>p)[1] = <float>min(n - 1, ceil(corr_dim(n, ctx, base, slow)))

cdef int grad_rope(Backward b, ggml_tensor *t, ggml_tensor *g) except -1:
    cdef ggml_tensor d
    cdef int other = GGML_OP_ROPE if t.op == GGML_OP_ROPE_BACK else GGML_OP_ROPE_BACK
    if b.needs(t.src[0]):
        b.add(t.src[0], turn(b.ctx, other, g, t.src[1], t.src[2], t.op_params, False))
    if b.needs(t.src[2]):
        b.require_not_overwritten(t, t.src[0])
        b.require_not_overwritten(t, t.src[2])
        node_like(&d, GGML_OP_ROPE_FACTORS_BACK, GGML_TYPE_F32, t.src[2])
        memcpy(d.op_params, t.op_params, sizeof(d.op_params))
        d.op_params[15] = t.op == GGML_OP_ROPE_BACK
        d.src[0], d.src[1], d.src[2], d.src[3] = g, t.src[0], t.src[1], t.src[2]
        b.add(t.src[2], node_append(b.ctx, &d))
    return 0

gradients[GGML_OP_ROPE] = gradients[GGML_OP_ROPE_BACK] = grad_rope
