/* Checks of attention. */
#ifndef GG_CHECKS_ATTENTION_H
#define GG_CHECKS_ATTENTION_H
#include "../runtime/attention_layout.h"
#include "common.h"

static bool attn_type(const ggml_tensor *t) {
    return gg_is_float(t->type) || (gg_types[t->type].quantized && gg_rows_packed(t));
}
/* q, k and v [dv, n_kv, heads, batch] fit each other. */
static const char *attn_fits(const ggml_tensor *q, const ggml_tensor *k, const ggml_tensor *v, const int64_t v_keys,
                             char *msg) {
    REQUIRE_FLOAT(q, "q");
    REQUIRE(attn_type(k), "k is %s: need a float type, or a quantised one with packed rows", SHAPE(k));
    REQUIRE(attn_type(v), "v is %s: need a float type, or a quantised one with packed rows", SHAPE(v));
    REQUIRE(q->ne[0] == k->ne[0], "q is %s, k is %s: ne[0] must be equal", SHAPE(q), SHAPE(k));
    REQUIRE(v_keys == k->ne[1] && v->ne[2] == k->ne[2] && v->ne[3] == k->ne[3],
            "k is %s, v is %s: need as many values as keys, in as many heads and batches", SHAPE(k), SHAPE(v));
    REQUIRE(multiple(q->ne[2], k->ne[2]) && multiple(q->ne[3], k->ne[3]),
            "q is %s, k is %s: dimensions 2 and 3 of q must be multiples of k's", SHAPE(q), SHAPE(k));
    return NULL;
}
static const char *attn_options(const ggml_tensor *t, char *msg) {
    const ggml_tensor *q = t->src[0], *k = t->src[1], *mask = t->src[3], *sinks = t->src[4];
    const float max_bias = attention_params(t)->max_bias;
    if (mask) {
        REQUIRE_FLOAT(mask, "mask");
        REQUIRE(mask->ne[0] >= k->ne[1] && mask->ne[1] >= q->ne[1],
                "mask is %s, q is %s, k is %s: need a row for each query, with a column for each key", SHAPE(mask),
                SHAPE(q), SHAPE(k));
        REQUIRE(multiple(q->ne[2], mask->ne[2]) && multiple(q->ne[3], mask->ne[3]),
                "mask is %s, q is %s: dimensions 2 and 3 of q must be multiples of the mask's", SHAPE(mask), SHAPE(q));
    }
    REQUIRE(max_bias >= 0, "max_bias is %g: need 0 or more", (double)max_bias);
    REQUIRE(mask || max_bias == 0, "max_bias is %g: ALiBi needs a mask", (double)max_bias);
    if (sinks) REQUIRE(sinks->type == GGML_TYPE_F32 && is_vector(sinks) && sinks->ne[0] == q->ne[2],
                       "sinks is %s, q is %s: need an f32 for each of q's ne[2]", SHAPE(sinks), SHAPE(q));
    return NULL;
}
CHECK(FLASH_ATTN_EXT) {
    REQUIRE_SOURCES(3);   /* src: q, k, v, mask, sinks */
    const ggml_tensor *v = t->src[2];
    const char *problem = attn_fits(a, b, v, v->ne[1], msg);
    if (!problem) problem = attn_options(t, msg);
    if (problem) return problem;
    REQUIRE_F32(t, "result");
    REQUIRE(t->ne[0] == v->ne[0] && t->ne[1] == a->ne[2] && t->ne[2] == a->ne[1] && t->ne[3] == a->ne[3],
            "result is %s, q is %s, v is %s", SHAPE(t), SHAPE(a), SHAPE(v));
    return NULL;
}
CHECK(PAGED_ATTN) {
    REQUIRE_SOURCES(4);   /* src: q, k, v, table, sinks */
    const ggml_tensor *v = t->src[2], *table = t->src[3], *sinks = t->src[4];
    const int page = paged_attn_params(t)->page_size, window = paged_attn_params(t)->window;
    REQUIRE_FLOAT(a, "q");
    REQUIRE(attn_type(b), "k is %s: need a float type, or a quantised one with packed rows", SHAPE(b));
    REQUIRE(attn_type(v), "v is %s: need a float type, or a quantised one with packed rows", SHAPE(v));
    REQUIRE(a->ne[0] == b->ne[0], "q is %s, k is %s: ne[0] must be equal", SHAPE(a), SHAPE(b));
    REQUIRE(a->ne[3] == 1 && b->ne[3] == 1 && v->ne[3] == 1, "q is %s, k is %s, v is %s: need three dimensions",
            SHAPE(a), SHAPE(b), SHAPE(v));
    REQUIRE(v->ne[1] == b->ne[1] && v->ne[2] == b->ne[2], "k is %s, v is %s: need as many values as keys, in as many "
            "heads", SHAPE(b), SHAPE(v));
    REQUIRE(multiple(a->ne[1], b->ne[2]), "q is %s, k is %s: the heads of q must be a multiple of k's", SHAPE(a),
            SHAPE(b));
    REQUIRE(page > 0 && multiple(b->ne[1], page), "page_size is %d, k is %s: need a divisor of the cells", page,
            SHAPE(b));
    REQUIRE(window >= 0, "window is %d: need 0 or more", window);
    REQUIRE(window || !paged_attn_params(t)->chunked, "window is %d: need 1 or more keys of a chunk", window);
    REQUIRE(table->type == GGML_TYPE_I32 && table->nb[0] == 4 && table->ne[0] >= 3 && table->ne[2] == 1 &&
            table->ne[3] == 1, "table is %s: need i32 [3 + pages, sequences]", SHAPE(table));
    if (sinks) REQUIRE(sinks->type == GGML_TYPE_F32 && is_vector(sinks) && sinks->ne[0] == a->ne[1],
                       "sinks is %s, q is %s: need an f32 for each of q's ne[1]", SHAPE(sinks), SHAPE(a));
    REQUIRE_F32(t, "result");
    REQUIRE(gg_contiguous(t) && t->ne[0] == v->ne[0] && t->ne[1] == a->ne[1] && t->ne[2] == a->ne[2] && t->ne[3] == 1,
            "result is %s, q is %s, v is %s", SHAPE(t), SHAPE(a), SHAPE(v));
    return NULL;
}
static const char *attn_back_fits(const ggml_tensor *t, int want, char *msg) {
    const ggml_tensor *q = t->src[0], *k = t->src[1];
    size_t at[GG_ATTN_END + 1];
    REQUIRE(gg_attn_layout(q, k, t->src[2], want, at),
            "q is %s, k is %s: the result would be too large", SHAPE(q), SHAPE(k));
    REQUIRE(t->type == GGML_TYPE_F32 && gg_contiguous(t) && gg_nbytes(t) == at[GG_ATTN_END],
            "result is %s: need f32, contiguous, %zu bytes", SHAPE(t), at[GG_ATTN_END]);
    return NULL;
}
CHECK(FLASH_ATTN_EXT_BACK) {
    REQUIRE_SOURCES(3);   /* src: q, k, v, mask, sinks, gradient of FLASH_ATTN_EXT */
    const ggml_tensor *v = t->src[2], *d = t->src[5];
    const char *problem = attn_fits(a, b, v, v->ne[1], msg);
    if (!problem) problem = attn_options(t, msg);
    if (problem) return problem;
    REQUIRE(d, "source f is missing");
    REQUIRE_FLOAT(d, "d");
    REQUIRE(d->ne[0] == v->ne[0] && d->ne[1] == a->ne[2] && d->ne[2] == a->ne[1] && d->ne[3] == a->ne[3],
            "d is %s, q is %s, v is %s: need the shape of the attention", SHAPE(d), SHAPE(a), SHAPE(v));
    return attn_back_fits(t, attention_params(t)->want, msg);
}
CHECK(FLASH_ATTN_BACK) {
    REQUIRE_SOURCES(4);   /* src: q, k, v (transposed), gradient [dv, n_q, heads, batch] */
    const ggml_tensor *v = t->src[2], *d = t->src[3];
    REQUIRE_FLOAT(b, "k");
    REQUIRE_FLOAT(v, "v");
    REQUIRE_FLOAT(d, "d");
    const char *problem = attn_fits(a, b, v, v->ne[0], msg);
    if (problem) return problem;
    REQUIRE(d->ne[0] == v->ne[1] && d->ne[1] == a->ne[1] && d->ne[2] == a->ne[2] && d->ne[3] == a->ne[3],
            "d is %s, q is %s, v is %s: need a row of v's ne[1] for each of q", SHAPE(d), SHAPE(a), SHAPE(v));
    REQUIRE(!attention_back_params(t)->masked || a->ne[1] <= b->ne[1],
            "q is %s, k is %s: masked needs no more queries than keys", SHAPE(a), SHAPE(b));
    return attn_back_fits(t, 3, msg);
}

#endif
