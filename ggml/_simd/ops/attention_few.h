/* Attention of tiles of few rows (attention.h): scores and sums of values by kernels that read keys and values where
 * they are. Those of floats are the kernels for few vectors of gemm/gemv.h. Codes of Q8_0 are converted in registers;
 * rows of other types are unpacked to floats first. */
#ifndef GG_OPS_ATTENTION_FEW_H
#define GG_OPS_ATTENTION_FEW_H
#include "../quants/bytes/bytes.h"
#include "../gemm/gemv.h"

enum {
    FEW_KEYS = 4,                   /* keys or values that a kernel reads simultaneously */
    FEW_BLOCK = 32,                 /* elements of a block of Q8_0 */
    FEW_IN_PLACE = 6,               /* rows for which Q8_0 is not unpacked: kernels would convert codes twice */
};

/* out[j*ld + i] = the product of key i, nb bytes apart, and row j of q. A score does not depend on the other keys, so
 * fewer keys than FEW_KEYS may be computed one by one with nb = 0. */
#define FEW_SCORES_ARGS int64_t d, const char *k, size_t nb, const float *q, int64_t q_ld, float *out, int64_t ld
typedef void (*few_scores_fn)(FEW_SCORES_ARGS);

static inline float few_scale(const char *block) { return gg_half_f32(((const block_q8_0 *)block)->d); }
static inline vf few_codes(const char *block, int i) { return vf_load_i8(((const block_q8_0 *)block)->qs + i); }

GG_INLINE void few_scores_q8_0(const int n, FEW_SCORES_ARGS) {
    vf sum[FEW_KEYS][GEMV_NR];
    GG_UNROLL for (int i = 0; i < FEW_KEYS; i++)
        GG_UNROLL for (int j = 0; j < n; j++) sum[i][j] = vf_zero();
    for (; d > 0; d -= FEW_BLOCK, k += sizeof(block_q8_0), q += FEW_BLOCK)
        GG_UNROLL for (int i = 0; i < FEW_KEYS; i++) {
            const char *const block = k + (size_t)i * nb;
            const vf scale = vf_set1(few_scale(block));
            vf part = vf_zero();
            GG_UNROLL for (int e = 0; e < FEW_BLOCK; e += VW) {
                const vf x = few_codes(block, e);
                if (n == 1) {                   /* one multiplication by the scale for the whole block */
                    part = e ? vf_fma(x, vf_load(q + e), part) : vf_mul(x, vf_load(q));
                    continue;
                }
                const vf scaled = vf_keep(vf_mul(x, scale));
                GG_UNROLL for (int j = 0; j < n; j++) sum[i][j] = vf_fma(scaled, vf_load(q + j * q_ld + e), sum[i][j]);
            }
            if (n == 1) sum[i][0] = vf_fma(part, scale, sum[i][0]);
        }
    GG_UNROLL for (int j = 0; j < n; j++) vf_hsum4(out + j * ld, sum[0][j], sum[1][j], sum[2][j], sum[3][j]);
}
/* out[j*GEMV_ROWS + e] += the sum over m values, nb bytes apart, of element e times y[j][first + value]. */
GG_INLINE void few_values_q8_0(const int n, const int m, int64_t dv, const char *v, size_t nb, const float *const *y,
                               int64_t first, float *out) {
    for (; dv > 0; dv -= FEW_BLOCK, v += sizeof(block_q8_0), out += FEW_BLOCK) {
        float w[FEW_KEYS][GEMV_VECTORS];
        GG_UNROLL for (int i = 0; i < m; i++) {
            const float scale = few_scale(v + (size_t)i * nb);
            GG_UNROLL for (int j = 0; j < n; j++) w[i][j] = y[j][first + i] * scale;
        }
        GG_UNROLL for (int e = 0; e < FEW_BLOCK; e += VW) {
            vf sum[GEMV_VECTORS];
            GG_UNROLL for (int j = 0; j < n; j++) sum[j] = vf_load(out + j * GEMV_ROWS + e);
            GG_UNROLL for (int i = 0; i < m; i++) {
                const vf x = few_codes(v + (size_t)i * nb, e);
                GG_UNROLL for (int j = 0; j < n; j++) sum[j] = vf_fma(x, vf_set1(w[i][j]), sum[j]);
            }
            GG_UNROLL for (int j = 0; j < n; j++) vf_store(out + j * GEMV_ROWS + e, sum[j]);
        }
    }
}

/* Two sums for each key hide the latency of additions where there is one row. */
#define FEW_FLOATS(T, n) \
    static void few_scores_##T##_##n(FEW_SCORES_ARGS) { \
        const gemv_ahead ahead = {0}; \
        gemv_rows(GGML_TYPE_##T, FEW_KEYS, n < GEMV_NR ? n : GEMV_NR, n > 1 ? 1 : 2, d, k, nb, &ahead, q, q_ld, VW, \
                  out, ld, false); \
    }
#define FEW_Q8_0_SCORES(n) \
    static void few_scores_Q8_0_##n(FEW_SCORES_ARGS) { \
        few_scores_q8_0(n < GEMV_NR ? n : GEMV_NR, d, k, nb, q, q_ld, out, ld); \
    }
#define FEW_Q8_0_VALUES(n) \
    static void few_values_Q8_0_##n(GEMV_COLUMNS_ARGS) { \
        int64_t i = 0; \
        for (; i + FEW_KEYS <= k; i += FEW_KEYS) \
            few_values_q8_0(n, FEW_KEYS, m, a + (size_t)i * nb, nb, y, i, out); \
        for (; i < k; i++) few_values_q8_0(n, 1, m, a + (size_t)i * nb, nb, y, i, out); \
    }
GEMV_SIX(FEW_FLOATS)
FEW_Q8_0_SCORES(1) FEW_Q8_0_SCORES(2) FEW_Q8_0_SCORES(3) FEW_Q8_0_SCORES(4) FEW_Q8_0_SCORES(5) FEW_Q8_0_SCORES(6)
FEW_Q8_0_VALUES(1) FEW_Q8_0_VALUES(2) FEW_Q8_0_VALUES(3) FEW_Q8_0_VALUES(4)
#undef FEW_FLOATS
#undef FEW_Q8_0_SCORES
#undef FEW_Q8_0_VALUES

/* The kernels of a type for n rows. */
static few_scores_fn few_scores(int type, int64_t n) {
#define FEW(T, n) [GGML_TYPE_##T][n] = n <= GEMV_NR ? few_scores_##T##_##n : NULL,
    static const few_scores_fn table[][7] = {
        GEMV_SIX(FEW) FEW(Q8_0, 1) FEW(Q8_0, 2) FEW(Q8_0, 3) FEW(Q8_0, 4) FEW(Q8_0, 5) FEW(Q8_0, 6)
    };
#undef FEW
    return table[type][n];
}
static gemv_columns_fn few_values(int type, int64_t n) {
    static const gemv_columns_fn q8_0[] = {NULL, few_values_Q8_0_1, few_values_Q8_0_2, few_values_Q8_0_3,
                                           few_values_Q8_0_4};
    return type == GGML_TYPE_Q8_0 ? q8_0[n] : gemv_columns_table[type][n];
}

/* n rows of keys or values as a type that the kernels take */
static const char *attn_unpack(const attn *a, const attn_tile *t, const ggml_tensor *x, const char *p, int64_t n,
                               int *type, size_t *nb) {
    *type = x->type, *nb = x->nb[1];
    if (gg_is_float(x->type) || (x->type == GGML_TYPE_Q8_0 && t->n <= FEW_IN_PLACE)) return p;
    for (int64_t i = 0; i < n; i++)
        a->kernels->to_f32[x->type](p + (size_t)i * *nb, t->unpacked + i * x->ne[0], x->ne[0]);
    *type = GGML_TYPE_F32, *nb = (size_t)x->ne[0] * sizeof *t->unpacked;
    return (const char *)t->unpacked;
}
/* Prefetches n rows, the first of which is ATTN_AHEAD rows after p. Rows are short, and far apart where other heads lie
 * between them. */
static inline void attn_prefetch(const ggml_tensor *x, const char *p, int64_t n) {
    const size_t bytes = gg_row_size(x->type, x->ne[0]);
    for (int64_t i = ATTN_AHEAD; i < n + ATTN_AHEAD; i++)
        for (size_t b = 0; b < bytes; b += 64) __builtin_prefetch(p + (size_t)i * x->nb[1] + b);
}
static void attn_few_scores(const attn *a, const attn_tile *t, int64_t first, int64_t n) {
    const int64_t ld = attn_round(a->d);
    int type;
    size_t nb;
    for (int64_t i = 0; i < n; i += FEW_KEYS) {
        const int64_t m = gg_min(n - i, FEW_KEYS);
        const char *k = attn_data(&a->k, t->set, first + i);
        attn_prefetch(&a->k, k, m);
        k = attn_unpack(a, t, &a->k, k, m, &type, &nb);
        for (int64_t r = 0; r < t->n; r += GEMV_NR) {
            const int64_t rows = gg_min(t->n - r, GEMV_NR);
            const few_scores_fn kernel = few_scores(type, rows);
            const float *const q = t->q + r * ld;
            float *const s = t->s + r * ATTN_KEYS + i, one[GEMV_NR * FEW_KEYS];
            if (m == FEW_KEYS) kernel(a->d, k, nb, q, ld, s, ATTN_KEYS);
            else for (int64_t key = 0; key < m; key++) {
                kernel(a->d, k + (size_t)key * nb, 0, q, ld, one, FEW_KEYS);
                for (int64_t j = 0; j < rows; j++) s[j * ATTN_KEYS + key] = one[j * FEW_KEYS];
            }
        }
    }
}
static void attn_few_values(const attn *a, const attn_tile *t, int64_t first, const float *s, int64_t n) {
    int type;
    size_t nb;
    for (int64_t i = 0; i < n; i += ATTN_UNPACK) {
        const int64_t m = gg_min(n - i, ATTN_UNPACK);
        const char *v = attn_data(&a->v, t->set, first + i);
        attn_prefetch(&a->v, v, m);
        v = attn_unpack(a, t, &a->v, v, m, &type, &nb);
        for (int64_t r = 0; r < t->n; r += GEMV_VECTORS) {
            const int64_t rows = gg_min(t->n - r, GEMV_VECTORS);
            const float *weights[GEMV_VECTORS];
            for (int64_t j = 0; j < rows; j++) weights[j] = s + (r + j) * ATTN_KEYS + i;
            few_values(type, rows)(a->dv, m, v, nb, weights, t->out + r * GEMV_ROWS);
        }
    }
}

#endif
