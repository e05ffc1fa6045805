"""Rotary positions and attention, each with its gradient beside it."""
from libc.math cimport M_PI, ceil, floor, log
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from .._core cimport (
    BOOL, C, F, GGML_TYPE_F32, I32, P, T, T0, buffer_of, check_node, draft, enter, fail, gg_set_param_f32,
    ggml_context as Ctx, ggml_tensor as Ten, like, over, put,
)
from .._graph.grad cimport Backward, gradients
from .reduce cimport mask_gradient, sinks_gradient
from .shape cimport view

cdef extern from "runtime/attention_layout.h" nogil:
    enum: GG_ATTN_MASK, GG_ATTN_SINKS, GG_ATTN_END
    enum: GG_ATTN_WANT_Q, GG_ATTN_WANT_KV, GG_ATTN_WANT_MASK, GG_ATTN_WANT_SINKS
    bint gg_attn_layout(const Ten *q, const Ten *k, const Ten *v, int want, size_t *offset)

cdef enum:
    ROPE = 48, ROPE_BACK = 49, FLASH_ATTN_EXT = 74, FLASH_ATTN_BACK = 75
    ROPE_FACTORS_BACK = 133, FLASH_ATTN_EXT_BACK = 134

# ---- rotary positions ------------------------------------------------------------------------------------------------
cdef Ten *turn(Ctx *ctx, int op, Ten *a, Ten *b, Ten *c, const int32_t *params, bint inplace) except NULL:
    cdef Ten d
    like(&d, op, a.type, a)
    memcpy(d.op_params, params, sizeof(d.op_params))
    d.src[0], d.src[1], d.src[2] = a, b, c
    if inplace:
        over(&d, a)
    return put(ctx, &d)

cdef object rope(Ctx *ctx, int op, a, b, c, n_dims, sections, mode, n_ctx_orig, tuple floats, bint inplace):
    """A ROPE or ROPE_BACK node; floats: freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow."""
    cdef Ten d
    cdef void *p
    cdef int i
    draft(&d, op, GGML_TYPE_F32, 1, 1, 1, 1)
    d.op_params[1], d.op_params[2] = I32(n_dims, b"n_dims"), I32(mode, b"mode")
    d.op_params[4] = I32(n_ctx_orig, b"n_ctx_orig")
    for i, name in enumerate((b"freq_base", b"freq_scale", b"ext_factor", b"attn_factor", b"beta_fast", b"beta_slow")):
        gg_set_param_f32(&d, 5 + i, F(floats[i], name))
    if sections is not None:
        buffer_of(sections, b"sections", 16, &p)
        if p == NULL:
            fail(ValueError, "sections is NULL: need four int")
        memcpy(&d.op_params[11], p, 16)
    return P(turn(ctx, op, T(a, b"a"), T(b, b"b"), T0(c, b"c"), d.op_params, inplace))

cdef tuple PLAIN = (10000.0, 1.0, 0.0, 1.0, 0.0, 0.0)

def ggml_rope(ctx, a, b, n_dims, mode):
    """Rotary position embedding: pairs of a row's first n_dims elements turned by position * 10000^(-2 pair / n_dims).

    a [ne0, heads, tokens, batch] (floats), b i32 [tokens]: the positions. mode GGML_ROPE_TYPE_NORMAL: pairs (0, 1),
    (2, 3) ...; GGML_ROPE_TYPE_NEOX: pairs (0, n_dims/2), (1, n_dims/2 + 1) ...; others need ggml_rope_multi."""
    cdef Ctx *x = C(ctx, b"ggml_rope")
    return rope(x, ROPE, a, b, None, n_dims, None, mode, 0, PLAIN, False)

def ggml_rope_inplace(ctx, a, b, n_dims, mode):
    """ggml_rope, written over a."""
    cdef Ctx *x = C(ctx, b"ggml_rope_inplace")
    return rope(x, ROPE, a, b, None, n_dims, None, mode, 0, PLAIN, True)

def ggml_rope_ext(ctx, a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast,
                  beta_slow):
    """ggml_rope with angles times freq_scale, over the factors c (f32 [n_dims/2] or None), and as YaRN has them.

    ext_factor > 0 (YaRN, arXiv:2309.00071): pairs that turn more than beta_fast times within n_ctx_orig positions keep
    their angle, those that turn less than beta_slow times get it times freq_scale. Results are multiplied by
    attn_factor, with YaRN also by 1 - 0.1 log(freq_scale)."""
    cdef Ctx *x = C(ctx, b"ggml_rope_ext")
    return rope(x, ROPE, a, b, c, n_dims, None, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_ext_inplace(ctx, a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                          beta_fast, beta_slow):
    """ggml_rope_ext, written over a."""
    cdef Ctx *x = C(ctx, b"ggml_rope_ext_inplace")
    return rope(x, ROPE, a, b, c, n_dims, None, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), True)

def ggml_rope_multi(ctx, a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                    beta_fast, beta_slow):
    """ggml_rope_ext with four positions a token: b i32 [4 * tokens], all of the first kind, then all of the second ...

    sections: four int, how many pairs each position turns. mode GGML_ROPE_TYPE_MROPE: one section after the other;
    GGML_ROPE_TYPE_IMROPE: interleaved; GGML_ROPE_TYPE_VISION: angles begin anew in each, n_dims is half of ne0."""
    cdef Ctx *x = C(ctx, b"ggml_rope_multi")
    return rope(x, ROPE, a, b, c, n_dims, sections, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_multi_inplace(ctx, a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor,
                            attn_factor, beta_fast, beta_slow):
    """ggml_rope_multi, written over a."""
    cdef Ctx *x = C(ctx, b"ggml_rope_multi_inplace")
    return rope(x, ROPE, a, b, c, n_dims, sections, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), True)

def ggml_rope_custom(ctx, a, b, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast,
                     beta_slow):
    """ggml_rope_ext without factors."""
    cdef Ctx *x = C(ctx, b"ggml_rope_custom")
    return rope(x, ROPE, a, b, None, n_dims, None, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_custom_inplace(ctx, a, b, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                             beta_fast, beta_slow):
    """ggml_rope_custom, written over a."""
    cdef Ctx *x = C(ctx, b"ggml_rope_custom_inplace")
    return rope(x, ROPE, a, b, None, n_dims, None, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), True)

def ggml_rope_ext_back(ctx, a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
                       beta_fast, beta_slow):
    """Gradient of ggml_rope_ext: a is the gradient of its result, which is turned back."""
    cdef Ctx *x = C(ctx, b"ggml_rope_ext_back")
    return rope(x, ROPE_BACK, a, b, c, n_dims, None, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_multi_back(ctx, a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor,
                         attn_factor, beta_fast, beta_slow):
    """Gradient of ggml_rope_multi: a is the gradient of its result, which is turned back."""
    cdef Ctx *x = C(ctx, b"ggml_rope_multi_back")
    return rope(x, ROPE_BACK, a, b, c, n_dims, sections, mode, n_ctx_orig,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

def ggml_rope_back(ctx, a, b, c, n_dims, mode, n_ctx, n_orig_ctx, freq_base, freq_scale, ext_factor, attn_factor,
                   beta_fast, beta_slow, xpos_base, xpos_down):
    """ggml_rope_ext_back as older releases had it. n_ctx has no meaning any more; xpos_base must be 0."""
    cdef Ctx *x = C(ctx, b"ggml_rope_back")
    I32(n_ctx, b"n_ctx"), BOOL(xpos_down, b"xpos_down")
    if F(xpos_base, b"xpos_base") != 0:
        fail(ValueError, f"xpos_base is {xpos_base}: need 0, xPos is not supported")
    return rope(x, ROPE_BACK, a, b, c, n_dims, None, mode, n_orig_ctx,
                (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow), False)

cdef double corr_dim(int n_dims, int n_ctx, float base, float turns) noexcept:
    """The pair that makes so many turns within the context."""
    return n_dims * log(n_ctx / (turns * 2 * M_PI)) / (2 * log(base))

def ggml_rope_yarn_corr_dims(n_dims, n_orig_ctx, freq_base, beta_fast, beta_slow, dims):
    """Writes to dims (two c_float) the pairs between which YaRN goes over from extrapolated to interpolated angles."""
    enter(b"ggml_rope_yarn_corr_dims")
    cdef int n = I32(n_dims, b"n_dims"), ctx = I32(n_orig_ctx, b"n_orig_ctx")
    cdef float base = F(freq_base, b"freq_base"), fast = F(beta_fast, b"beta_fast"), slow = F(beta_slow, b"beta_slow")
    cdef void *p
    buffer_of(dims, b"dims", 8, &p)
    if p == NULL:
        fail(ValueError, "dims is NULL: need two c_float")
    if ctx <= 0 or not (base > 0 and base != 1 and fast > 0 and slow > 0):
        fail(ValueError, f"n_orig_ctx is {ctx}, freq_base {base}, beta_fast {fast}, beta_slow {slow}: "
                         "need more than 0, and freq_base not 1")
    (<float *>p)[0] = <float>max(0, floor(corr_dim(n, ctx, base, fast)))
    (<float *>p)[1] = <float>min(n - 1, ceil(corr_dim(n, ctx, base, slow)))

cdef int grad_rope(Backward b, Ten *t, Ten *g) except -1:
    cdef Ten d
    cdef int other = ROPE if t.op == ROPE_BACK else ROPE_BACK
    if b.needs(t.src[0]):
        b.add(t.src[0], turn(b.ctx, other, g, t.src[1], t.src[2], t.op_params, False))
    if b.needs(t.src[2]):
        b.overwritten(t, t.src[0])
        b.overwritten(t, t.src[2])
        like(&d, ROPE_FACTORS_BACK, GGML_TYPE_F32, t.src[2])
        memcpy(d.op_params, t.op_params, sizeof(d.op_params))
        d.op_params[15] = t.op == ROPE_BACK
        d.src[0], d.src[1], d.src[2], d.src[3] = g, t.src[0], t.src[1], t.src[2]
        b.add(t.src[2], put(b.ctx, &d))
    return 0

# ---- attention -------------------------------------------------------------------------------------------------------
def ggml_flash_attn_ext(ctx, q, k, v, mask, scale, max_bias, logit_softcap):
    """Attention: soft_max(scale * q k + slope * mask) v, without holding the scores of all keys at once.

    q [d, n_q, heads, batch] (floats), k [d, n_kv, kv_heads, kv_batch], v [dv, n_kv, kv_heads, kv_batch] (any float or
    quantised type); heads and batch are multiples of k's: neighbours share keys. mask [>= n_kv, >= n_q, ...] floats,
    repeated over heads and batch, or None. max_bias > 0: ALiBi slopes by head. logit_softcap c != 0: scores s become
    c * tanh(s / c).
    Result: f32 [dv, heads, n_q, batch]. A query whose keys are all masked gets zeros. Keys and values that the mask hides
    from all queries may hold anything."""
    cdef Ctx *c = C(ctx, b"ggml_flash_attn_ext")
    cdef Ten d
    cdef Ten *a = T(q, b"q")
    cdef Ten *values = T(v, b"v")
    draft(&d, FLASH_ATTN_EXT, GGML_TYPE_F32, values.ne[0], a.ne[2], a.ne[1], a.ne[3])
    gg_set_param_f32(&d, 0, F(scale, b"scale"))
    gg_set_param_f32(&d, 1, F(max_bias, b"max_bias"))
    gg_set_param_f32(&d, 2, F(logit_softcap, b"logit_softcap"))
    d.src[0], d.src[1], d.src[2], d.src[3] = a, T(k, b"k"), values, T0(mask, b"mask")
    return P(put(c, &d))

cdef Ten *attention(object a) except NULL:
    cdef Ten *t = T(a, b"a")
    if t.op != FLASH_ATTN_EXT:
        fail(ValueError, "a is no result of ggml_flash_attn_ext")
    return t

def ggml_flash_attn_ext_set_prec(a, prec):
    """Asks for a precision (GGML_PREC_*) of an attention. Sums are f32 either way."""
    enter(b"ggml_flash_attn_ext_set_prec")
    attention(a).op_params[3] = I32(prec, b"prec")

def ggml_flash_attn_ext_get_prec(a):
    """The precision that was asked for."""
    enter(b"ggml_flash_attn_ext_get_prec")
    return attention(a).op_params[3]

def ggml_flash_attn_ext_add_sinks(a, sinks):
    """Gives an attention sinks: an f32 a head, an extra logit of each row that gets no value. None takes them away."""
    enter(b"ggml_flash_attn_ext_add_sinks")
    cdef char message[512]
    cdef Ten *t = attention(a)
    cdef Ten *before = t.src[4]
    t.src[4] = T0(sinks, b"sinks")
    if check_node(t, message) != NULL:
        t.src[4] = before
        fail(ValueError, message.decode(errors="replace"))

cdef Ten *part(Ctx *ctx, Ten *a, size_t offset, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) except NULL:
    """Packed floats of a."""
    cdef int64_t[4] ne = [ne0, ne1, ne2, ne3]
    cdef size_t[4] nb = [4, 4 * ne0, 4 * ne0 * ne1, 4 * ne0 * ne1 * ne2]
    return view(ctx, a, ne, nb, offset)

cdef int grad_attention(Backward b, Ten *t, Ten *g) except -1:
    cdef Ten d
    cdef Ten *q = t.src[0]
    cdef Ten *k = t.src[1]
    cdef Ten *v = t.src[2]
    cdef Ten *x
    cdef Ten *s
    cdef size_t[6] at
    cdef int i, want = 0
    want |= GG_ATTN_WANT_Q if b.needs(q) else 0
    want |= GG_ATTN_WANT_KV if b.needs(k) or b.needs(v) else 0
    want |= GG_ATTN_WANT_MASK if b.needs(t.src[3]) else 0
    want |= GG_ATTN_WANT_SINKS if b.needs(t.src[4]) else 0
    if not gg_attn_layout(q, k, v, want, at):
        fail(ValueError, "the gradients of an attention are too large")
    draft(&d, FLASH_ATTN_EXT_BACK, GGML_TYPE_F32, <int64_t>(at[<int>GG_ATTN_END] // 4), 1, 1, 1)
    memcpy(d.op_params, t.op_params, sizeof(d.op_params))
    d.op_params[3] = want
    for i in range(5):
        d.src[i] = t.src[i]
        if t.src[i] != NULL:
            b.overwritten(t, t.src[i])
    d.src[5] = g
    x = put(b.ctx, &d)
    for i in range(3):        # q, k and v in the shapes of the sources
        s = t.src[i]
        if b.needs(s):
            b.add(s, part(b.ctx, x, at[i], s.ne[0], s.ne[1], s.ne[2], s.ne[3]))
    if b.needs(t.src[3]):
        s = part(b.ctx, x, at[<int>GG_ATTN_MASK], k.ne[1], q.ne[1], q.ne[2], q.ne[3])
        b.add(t.src[3], mask_gradient(b.ctx, s, t.src[3]))
    if b.needs(t.src[4]):
        s = part(b.ctx, x, at[<int>GG_ATTN_SINKS], 1, q.ne[1], q.ne[2], q.ne[3])
        b.add(t.src[4], sinks_gradient(b.ctx, s, t.src[4]))
    return 0

def ggml_flash_attn_back(ctx, q, k, v, d, masked):
    """Gradients of soft_max(q k / sqrt(D)) v by q, k and v, from the gradient d of its result; causal mask or none.

    q [D, n_q, heads, batch], k [D, n_kv, kv_heads, kv_batch], v [n_kv, dv, kv_heads, kv_batch],
    d [dv, n_q, heads, batch], floats. masked: query i sees the keys up to i + n_kv - n_q. The result is f32 and has one
    dimension: the gradients by q, k and v in the shapes of these, one after the other, each beginning at the next
    multiple of 16 bytes."""
    cdef Ctx *c = C(ctx, b"ggml_flash_attn_back")
    cdef Ten t
    cdef Ten *a = T(q, b"q")
    cdef Ten *keys = T(k, b"k")
    cdef Ten *values = T(v, b"v")
    cdef size_t[6] at
    if not gg_attn_layout(a, keys, values, GG_ATTN_WANT_Q | GG_ATTN_WANT_KV, at):
        fail(ValueError, "the gradients are too large")
    draft(&t, FLASH_ATTN_BACK, GGML_TYPE_F32, <int64_t>(at[<int>GG_ATTN_END] // 4), 1, 1, 1)
    t.op_params[0] = BOOL(masked, b"masked")
    t.src[0], t.src[1], t.src[2], t.src[3] = a, keys, values, T(d, b"d")
    return P(put(c, &t))

gradients[ROPE] = gradients[ROPE_BACK] = grad_rope
gradients[FLASH_ATTN_EXT] = grad_attention
