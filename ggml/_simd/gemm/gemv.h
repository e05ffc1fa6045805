/* A matrix times one to a few vectors: the matrix is read once, in the order in which it is stored. */
#ifndef GG_GEMM_GEMV_H
#define GG_GEMM_GEMV_H
#include "gemm.h"

enum {
    GEMV_N = 4,                     /* vectors that are multiplied at a time */
    GEMV_N_MAX = 8,                 /* vectors at most, for a matrix that needs no unpacking */
    GEMV_ROWS = 1024,               /* sums of a vector that are kept at a time when going by columns */
};

/* n < VW values, or a whole vector of them with n = VW */
GG_INLINE vf gemv_load(const int type, const char *p, int64_t n) {
    const uint16_t *h = (const uint16_t *)p;
    if (type == GGML_TYPE_F32) return n >= VW ? vf_load((const float *)p) : vf_loadn((const float *)p, (int)n);
    if (type == GGML_TYPE_F16) return n >= VW ? vf_load_f16(h) : vf_load_f16n(h, (int)n);
    return n >= VW ? vf_load_bf16(h) : vf_load_bf16n(h, (int)n);
}

/* out[r*GEMV_N + j] = row r times vector j, in `chains` sums each. A row's result is the same in a group of any
 * size. */
GG_INLINE void gemv_rows(const int type, const int rows, const int n, const int chains, int64_t k, const char *a,
                         size_t nb, const float *const *y, float *out) {
    const int64_t unit = gg_types[type].bytes;
    vf sum[4][GEMV_N][4];
    GG_UNROLL for (int r = 0; r < rows; r++)
        GG_UNROLL for (int j = 0; j < n; j++)
            GG_UNROLL for (int c = 0; c < chains; c++) sum[r][j][c] = vf_zero();
    int64_t i = 0;
    for (; i + chains * VW <= k; i += chains * VW) {
        for (int64_t p = 0; rows == 1 && n == 1 && p < chains * VW * unit; p += 64)
            __builtin_prefetch(a + i * unit + p + GG_AHEAD);
        GG_UNROLL for (int c = 0; c < chains; c++)
            GG_UNROLL for (int r = 0; r < rows; r++) {
                const vf x = gemv_load(type, a + (size_t)r * nb + (i + c * VW) * unit, VW);
                GG_UNROLL for (int j = 0; j < n; j++)
                    sum[r][j][c] = vf_fma(x, vf_load(y[j] + i + c * VW), sum[r][j][c]);
            }
    }
    for (; i < k; i += VW)
        GG_UNROLL for (int r = 0; r < rows; r++) {
            const vf x = gemv_load(type, a + (size_t)r * nb + i * unit, k - i);
            GG_UNROLL for (int j = 0; j < n; j++) {
                const vf v = k - i >= VW ? vf_load(y[j] + i) : vf_loadn(y[j] + i, (int)(k - i));
                sum[r][j][0] = vf_fma(x, v, sum[r][j][0]);
            }
        }
    GG_UNROLL for (int r = 0; r < rows; r++)
        GG_UNROLL for (int j = 0; j < n; j++) {
            GG_UNROLL for (int c = 1; c < chains; c++) sum[r][j][0] = vf_add(sum[r][j][0], sum[r][j][c]);
            out[r * GEMV_N + j] = vf_hsum(sum[r][j][0]);
        }
}

/* out[j*GEMV_ROWS + i] += element i of each column times its y[j][k + column], for the first m elements. */
GG_INLINE void gemv_columns(const int type, const int columns, const int n, int64_t m, const char *a, size_t nb,
                            const float *const *y, int64_t k, float *out) {
    for (int64_t i = 0; i < m; i += VW) {
        vf sum[GEMV_N];
        GG_UNROLL for (int j = 0; j < n; j++) sum[j] = vf_load(out + j * GEMV_ROWS + i);
        GG_UNROLL for (int q = 0; q < columns; q++) {
            const vf x = gemv_load(type, a + (size_t)q * nb + i * gg_types[type].bytes, m - i);
            GG_UNROLL for (int j = 0; j < n; j++) sum[j] = vf_fma(x, vf_set1(y[j][k + q]), sum[j]);
        }
        GG_UNROLL for (int j = 0; j < n; j++) vf_store(out + j * GEMV_ROWS + i, sum[j]);
    }
}

/* The two for every type and number of vectors: m <= 4 rows; all k columns, m <= GEMV_ROWS elements of each. With one
 * vector memory sets the pace, and rows come fastest one after the other; several vectors are loaded for four rows at
 * once. */
#define GEMV_ARGS int64_t m, int64_t k, const char *a, size_t nb, const float *const *y, float *out
typedef void (*gemv_fn)(GEMV_ARGS);
#define GEMV(T, n) \
    static void gemv_rows_##T##_##n(GEMV_ARGS) { \
        if (m == 4 && n > 1) gemv_rows(GGML_TYPE_##T, 4, n, 1, k, a, nb, y, out); \
        else for (int64_t r = 0; r < m; r++) \
            gemv_rows(GGML_TYPE_##T, 1, n, n > 1 ? 1 : 4, k, a + (size_t)r * nb, nb, y, out + r * GEMV_N); \
    } \
    static void gemv_columns_##T##_##n(GEMV_ARGS) { \
        int64_t q = 0; \
        for (; q + 4 <= k; q += 4) gemv_columns(GGML_TYPE_##T, 4, n, m, a + (size_t)q * nb, nb, y, q, out); \
        for (; q < k; q++) gemv_columns(GGML_TYPE_##T, 1, n, m, a + (size_t)q * nb, nb, y, q, out); \
    }
#define GEMV_TYPES(F, n) F(F32, n) F(F16, n) F(BF16, n)
#define GEMV_ALL(F) GEMV_TYPES(F, 1) GEMV_TYPES(F, 2) GEMV_TYPES(F, 3) GEMV_TYPES(F, 4)
GEMV_ALL(GEMV)
#undef GEMV
#define GEMV(T, n) [GGML_TYPE_##T][n] = {gemv_rows_##T##_##n, gemv_columns_##T##_##n},
static const struct { gemv_fn rows, columns; } gemv_table[GGML_TYPE_BF16 + 1][GEMV_N + 1] = {GEMV_ALL(GEMV)};
#undef GEMV

/* So many vectors are multiplied singly by a: by its rows or by its columns. */
static inline int64_t gemv_most(const gemm_src *a) {
    if (a->pack == pack_along_i) return GEMV_N;
    if (a->pack != pack_along_k) return 0;
    return gg_is_float(a->type) ? GEMV_N_MAX : GEMV_N;
}
/* Whether g is such a product as it stands: a's rows or columns lie in one piece, b's vectors can be read singly. */
static inline bool gemv_fits(const gemm *g) {
    return g->n <= gemv_most(&g->a) && g->b.pack != pack_blocks_along_i && !g->add;
}

/* The vectors as the kernels want them: as f32, and for a quantised matrix as the partner type of its dot product. */
typedef struct gemv_vectors {
    const float *f32[GEMV_N_MAX];
    const void *partner[GEMV_N_MAX];
    gg_dot_fn dot;                  /* NULL: go by f32 */
    float *row;                     /* room for an unpacked row of a */
} gemv_vectors;

static inline size_t gemv_round(size_t bytes) { return (bytes | 63) + 1; }   /* a multiple of 64, never 0 */
static inline bool gemv_has_dot(const gemm_src *s) {
    const gg_kernels *k = s->kernels;
    return !gg_is_float(s->type) && k->dot[s->type] && k->from_f32[gg_types[s->type].activation];
}
static inline size_t gemv_partner_size(const gemm *g) {
    return gemv_has_dot(&g->a) ? gemv_round(gg_row_size(gg_types[g->a.type].activation, g->k)) : 0;
}
static inline size_t gemv_wide_size(const gemm *g) {
    return gemv_has_dot(&g->a) ? gemv_round((size_t)g->k / 32 * GG_LAYOUT_BYTES) : 0;
}
static inline size_t gemv_scratch(const gemm *g) {
    return (size_t)(g->n + 1) * gemv_round((size_t)g->k * sizeof(float))
        + (size_t)g->n * (gemv_partner_size(g) + gemv_wide_size(g));
}

/* x_i as f32, in place if it is that already, else in tmp[k]. */
static const float *gemv_vector(const gemm_src *s, int64_t i, int64_t k, float *tmp) {
    const bool packed = s->nb_k == (size_t)gg_types[s->type].bytes;
    if (packed && s->type == GGML_TYPE_F32) return (const float *)pack_at(s, i, 0);
    if (packed) s->kernels->to_f32[s->type](pack_at(s, i, 0), tmp, k);
    else for (int64_t j = 0; j < k; j++) tmp[j] = pack_value(s->type, pack_at(s, i, j));
    return tmp;
}
static void gemv_prepare(const gemm *g, char *own, gemv_vectors *v) {
    const size_t size = gemv_round((size_t)g->k * sizeof(float)), partner_size = gemv_partner_size(g),
        wide_size = gemv_wide_size(g);
    v->dot = gemv_has_dot(&g->a) ? g->a.kernels->dot[g->a.type] : NULL;
    v->row = (float *)own;
    for (int64_t j = 0; j < g->n; j++) v->f32[j] = gemv_vector(&g->b, j, g->k, (float *)(own += size));
    own += size;
    for (int64_t j = 0; v->dot && j < g->n; j++, own += partner_size + wide_size) {
        const gg_kernels *const kernels = g->a.kernels;
        const int32_t type = gg_types[g->a.type].activation;
        kernels->from_f32[type](v->f32[j], own, g->k);
        kernels->lay_out[type](own, own + partner_size, g->k);
        v->partner[j] = own + partner_size;
    }
}

static void gemv_by_columns(const gemm *g, const gemv_vectors *v, int64_t i0, int64_t i1) {
    float out[GEMV_N * GEMV_ROWS] __attribute__((aligned(64)));
    for (; i0 < i1; i0 += GEMV_ROWS) {
        const int64_t m = gemm_min(i1 - i0, GEMV_ROWS);
        memset(out, 0, (size_t)g->n * GEMV_ROWS * sizeof(float));
        gemv_table[g->a.type][g->n].columns(m, g->k, pack_at(&g->a, i0, 0), g->a.nb_k, v->f32, out);
        for (int64_t j = 0; j < g->n; j++)
            for (int64_t i = 0; i < m; i++) *gemm_c(g, i0 + i, j) = out[j * GEMV_ROWS + i];
    }
}
/* Rows i to i+m, m <= 4, at a: those after the first GEMV_N vectors find them in the cache. */
static void gemv_few_rows(const gemm *g, const gemv_vectors *v, int type, const char *a, int64_t i, int64_t m) {
    for (int64_t j0 = 0; j0 < g->n; j0 += GEMV_N) {
        const int64_t n = gemm_min(g->n - j0, GEMV_N);
        float out[4 * GEMV_N];
        gemv_table[type][n].rows(m, g->k, a, g->a.nb_i, v->f32 + j0, out);
        for (int64_t r = 0; r < m; r++)
            for (int64_t j = 0; j < n; j++) *gemm_c(g, i + r, j0 + j) = out[r * GEMV_N + j];
    }
}
static void gemv_by_rows(const gemm *g, const gemv_vectors *v, int64_t i0, int64_t i1) {
    const int type = g->a.type, step = gg_is_float(type) ? 4 : 1;
    for (int64_t i = i0; i < i1; i += step) {
        const char *a = pack_at(&g->a, i, 0);
        if (gg_is_float(type)) {
            gemv_few_rows(g, v, type, a, i, gemm_min(i1 - i, step));
        } else if (v->dot) {
            for (int64_t j = 0; j < g->n; j++) v->dot(g->k, gemm_c(g, i, j), a, v->partner[j]);
        } else {
            g->a.kernels->to_f32[type](a, v->row, g->k);
            gemv_few_rows(g, v, GGML_TYPE_F32, (const char *)v->row, i, 1);
        }
    }
}

/* Each thread prepares the vectors for itself: that costs about as much as a row. */
static bool gemv_run(const gg_work *w, const gemm *g) {
    char *const own = gg_scratch(gemv_scratch(g));
    if (!own) return false;
    const bool by_rows = g->a.pack == pack_along_k;
    const int64_t batch = g->ne2 * g->ne3, least = by_rows ? 16 : 64, want = w->nth * (by_rows ? 8 : 2) * least;
    const int64_t size = w->nth == 1 ? g->m : gemm_ceil(g->m * batch, want) * least, cuts = gemm_ceil(g->m, size);
    int64_t ready = -1;
    gemm one = *g;
    gemv_vectors v;
    for (int64_t t; (t = gemm_next_task(w)) < batch * cuts;) {
        if (t / cuts != ready) one = gemm_matrix(g, ready = t / cuts), gemv_prepare(&one, own, &v);
        const int64_t i0 = t % cuts * size, i1 = gemm_min(i0 + size, g->m);
        if (by_rows) gemv_by_rows(&one, &v, i0, i1);
        else gemv_by_columns(&one, &v, i0, i1);
    }
    return true;
}

#endif
