/* Conditions of the family ATTN; part of checks.c, whose macros it uses. */
#include "../runtime/attention_layout.h"

static bool is_vector(const ggml_tensor *t) { return t->ne[1] == 1 && t->ne[2] == 1 && t->ne[3] == 1; }

/* The parameters of a ROPE node, its positions and factors (may be NULL), for the tensor x that it turns */
static const char *rope_fits(const ggml_tensor *t, const ggml_tensor *x, const ggml_tensor *positions,
                             const ggml_tensor *factors, char *msg) {
    const int32_t n_dims = t->op_params[1], mode = t->op_params[2], *sections = t->op_params + 11;
    const bool known = mode == 0 || mode == 2 || mode == 8 || mode == 24 || mode == 40, multi = mode & 8;
    WANT(known, "mode is %d: need GGML_ROPE_TYPE_NORMAL, NEOX, MROPE, VISION or IMROPE (0, 2, 8, 24, 40)", mode);
    WANT(n_dims >= 0 && n_dims % 2 == 0 && n_dims <= x->ne[0], "n_dims is %d, a is %s: need an even number up to ne[0]",
         n_dims, S(x));
    WANT(mode != 24 || (int64_t)n_dims * 2 == x->ne[0], "n_dims is %d, a is %s: mode VISION needs half of ne[0]",
         n_dims, S(x));
    WANT(positions->type == GGML_TYPE_I32 && is_vector(positions) && positions->ne[0] == x->ne[2] * (multi ? 4 : 1),
         "b is %s, a is %s: need %s i32 for each of a's ne[2]", S(positions), S(x), multi ? "four" : "one");
    const int64_t pairs = mode == 24 ? n_dims : n_dims / 2;
    if (factors) WANT(factors->type == GGML_TYPE_F32 && is_vector(factors) && factors->ne[0] >= pairs,
                      "c is %s: need f32 [%" PRId64 "] or more", S(factors), pairs);
    int64_t sum = 0;
    for (int i = 0; multi && i < 4; i++) {
        WANT(sections[i] >= 0, "sections[%d] is %d: must not be negative", i, sections[i]);
        sum += sections[i];
    }
    WANT(!multi || sum > 0, "sections are all 0: mode %d needs some", mode);
    WANT(gg_param_f32(t, 5) > 0, "freq_base is %g: need more than 0", (double)gg_param_f32(t, 5));
    return NULL;
}
CK check_ROPE(const ggml_tensor *t, char *msg) {
    NEED(2);
    const char *problem = rope_fits(t, A, B, t->src[2], msg);
    return problem ? problem : check_UNARY(t, msg);
}
CK check_ROPE_FACTORS_BACK(const ggml_tensor *t, char *msg) {
    NEED(4);   /* src: gradient, a, positions, factors */
    const ggml_tensor *factors = t->src[3];
    FLOATS(A, "a");
    FLOATS(B, "b");
    WANT(gg_same_shape(A, B), "a is %s, b is %s: shapes must be equal", S(A), S(B));
    WANT(t->type == GGML_TYPE_F32 && gg_same_shape(t, factors), "result is %s, c is %s: need f32, equal shapes",
         S(t), S(factors));
    return rope_fits(t, B, t->src[2], factors, msg);
}

static bool attn_type(const ggml_tensor *t) {
    return gg_is_float(t->type) || (gg_types[t->type].quantized && gg_rows_packed(t));
}
/* q, k and v [dv, n_kv, heads, batch] fit each other. */
static const char *attn_fits(const ggml_tensor *q, const ggml_tensor *k, const ggml_tensor *v, const int64_t v_keys,
                             char *msg) {
    FLOATS(q, "q");
    WANT(attn_type(k), "k is %s: need a float type, or a quantised one with packed rows", S(k));
    WANT(attn_type(v), "v is %s: need a float type, or a quantised one with packed rows", S(v));
    WANT(q->ne[0] == k->ne[0], "q is %s, k is %s: ne[0] must be equal", S(q), S(k));
    WANT(v_keys == k->ne[1] && v->ne[2] == k->ne[2] && v->ne[3] == k->ne[3],
         "k is %s, v is %s: need as many values as keys, in as many heads and batches", S(k), S(v));
    WANT(multiple(q->ne[2], k->ne[2]) && multiple(q->ne[3], k->ne[3]),
         "q is %s, k is %s: dimensions 2 and 3 of q must be multiples of k's", S(q), S(k));
    return NULL;
}
static const char *attn_options(const ggml_tensor *t, char *msg) {
    const ggml_tensor *q = A, *k = B, *mask = t->src[3], *sinks = t->src[4];
    const float max_bias = gg_param_f32(t, 1);
    if (mask) {
        FLOATS(mask, "mask");
        WANT(mask->ne[0] >= k->ne[1] && mask->ne[1] >= q->ne[1],
             "mask is %s, q is %s, k is %s: need a row for each query, with a column for each key", S(mask), S(q),
             S(k));
        WANT(multiple(q->ne[2], mask->ne[2]) && multiple(q->ne[3], mask->ne[3]),
             "mask is %s, q is %s: dimensions 2 and 3 of q must be multiples of the mask's", S(mask), S(q));
    }
    WANT(max_bias >= 0, "max_bias is %g: need 0 or more", (double)max_bias);
    WANT(mask || max_bias == 0, "max_bias is %g: ALiBi needs a mask", (double)max_bias);
    if (sinks) WANT(sinks->type == GGML_TYPE_F32 && is_vector(sinks) && sinks->ne[0] == q->ne[2],
                    "sinks is %s, q is %s: need an f32 for each of q's ne[2]", S(sinks), S(q));
    return NULL;
}
CK check_FLASH_ATTN_EXT(const ggml_tensor *t, char *msg) {
    NEED(3);   /* src: q, k, v, mask, sinks */
    const ggml_tensor *v = t->src[2];
    const char *problem = attn_fits(A, B, v, v->ne[1], msg);
    if (!problem) problem = attn_options(t, msg);
    if (problem) return problem;
    F32(t, "result");
    WANT(t->ne[0] == v->ne[0] && t->ne[1] == A->ne[2] && t->ne[2] == A->ne[1] && t->ne[3] == A->ne[3],
         "result is %s, q is %s, v is %s", S(t), S(A), S(v));
    return NULL;
}
static const char *attn_back_fits(const ggml_tensor *t, int want, char *msg) {
    size_t at[GG_ATTN_END + 1];
    WANT(gg_attn_layout(A, B, t->src[2], want, at), "q is %s, k is %s: the result would be too large", S(A), S(B));
    WANT(t->type == GGML_TYPE_F32 && gg_contiguous(t) && gg_nbytes(t) == at[GG_ATTN_END],
         "result is %s: need f32, contiguous, %zu bytes", S(t), at[GG_ATTN_END]);
    return NULL;
}
CK check_FLASH_ATTN_EXT_BACK(const ggml_tensor *t, char *msg) {
    NEED(3);   /* src: q, k, v, mask, sinks, gradient of FLASH_ATTN_EXT */
    const ggml_tensor *v = t->src[2], *d = t->src[5];
    const char *problem = attn_fits(A, B, v, v->ne[1], msg);
    if (!problem) problem = attn_options(t, msg);
    if (problem) return problem;
    WANT(d, "source f is missing");
    FLOATS(d, "d");
    WANT(d->ne[0] == v->ne[0] && d->ne[1] == A->ne[2] && d->ne[2] == A->ne[1] && d->ne[3] == A->ne[3],
         "d is %s, q is %s, v is %s: need the shape of the attention", S(d), S(A), S(v));
    return attn_back_fits(t, t->op_params[3], msg);
}
CK check_FLASH_ATTN_BACK(const ggml_tensor *t, char *msg) {
    NEED(4);   /* src: q, k, v (transposed), gradient [dv, n_q, heads, batch] */
    const ggml_tensor *v = t->src[2], *d = t->src[3];
    FLOATS(B, "k");
    FLOATS(v, "v");
    FLOATS(d, "d");
    const char *problem = attn_fits(A, B, v, v->ne[0], msg);
    if (problem) return problem;
    WANT(d->ne[0] == v->ne[1] && d->ne[1] == A->ne[1] && d->ne[2] == A->ne[2] && d->ne[3] == A->ne[3],
         "d is %s, q is %s, v is %s: need a row of v's ne[1] for each of q", S(d), S(A), S(v));
    WANT(!t->op_params[0] || A->ne[1] <= B->ne[1], "q is %s, k is %s: masked needs no more queries than keys", S(A),
         S(B));
    return attn_back_fits(t, 3, msg);
}
