/* A matrix times one to GEMV_MOST vectors. The matrix is read once, in the order in which it is stored, without
 * packing. */
#ifndef GG_GEMM_GEMV_H
#define GG_GEMM_GEMV_H
#include "gemm.h"

enum {
    GEMV_VECTORS = 4,               /* vectors that a kernel multiplies simultaneously */
    GEMV_MAX_VECTORS = 8,           /* vectors up to which reading float rows without packing is faster; */
    GEMV_INT8_VECTORS = 2,          /* rows that unpack fast to panels of bytes; elsewhere GEMV_VECTORS */
    GEMV_LONG_K = 512,              /* sums of that many products are so long that GEMV_MOST vectors are worth it */
    GEMV_LEAST_BYTES = 8 << 10,     /* of a matrix that a thread claims at a time */
    GEMV_MOST_BYTES = 256 << 10,
    GEMV_AHEAD = 16 << 10,          /* bytes of four rows, up to which the rows after them are prefetched, */
    GEMV_AHEAD_SECOND = 128 << 10,  /* to the second cache */
    GEMV_SMALL = 128 << 10,         /* bytes of a matrix that is not prefetched */
    GEMV_ROWS = 1024,               /* sums that a product by columns keeps for each vector */
};

/* Loads n values as floats; n >= VW: a whole vector. */
GG_INLINE vf gemv_load(const int type, const char *p, int64_t n) {
    const uint16_t *h = (const uint16_t *)p;
    if (type == GGML_TYPE_F32) return n >= VW ? vf_load((const float *)p) : vf_loadn((const float *)p, (int)n);
    if (type == GGML_TYPE_F16) return n >= VW ? vf_load_f16(h) : vf_load_f16n(h, (int)n);
    return n >= VW ? vf_load_bf16(h) : vf_load_bf16n(h, (int)n);
}

/* What is prefetched during a product: for one row and one vector what lies `far` bytes ahead; for four rows `each`
 * bytes from `at` on for every vector of k, to the first cache or, with `second`, to the second one. */
typedef struct gemv_ahead {
    size_t far, each;
    const char *at;
    bool second;
} gemv_ahead;
/* Prefetches what lies from *done to `end` bytes behind at. */
GG_INLINE void gemv_prefetch(const gemv_ahead *ahead, size_t *done, size_t end) {
    for (; *done < end; *done += 64)
        if (ahead->second) __builtin_prefetch(ahead->at + *done, 0, 2);
        else __builtin_prefetch(ahead->at + *done);
}

/* out[r*GEMV_VECTORS + j] = row r times vector j, each in `accumulators` vectors of sums. The result of a row does not
 * depend on the number of rows. */
GG_INLINE void gemv_rows(const int type, const int rows, const int n, const int accumulators, int64_t k, const char *a,
                         size_t nb, const gemv_ahead *ahead, const float *const *y, float *out) {
    const int64_t unit = gg_types[type].bytes;
    const size_t far = ahead->far, each = ahead->each;
    size_t done = 0, end = 0;
    vf sum[4][GEMV_VECTORS][4];
    GG_UNROLL for (int r = 0; r < rows; r++)
        GG_UNROLL for (int j = 0; j < n; j++)
            GG_UNROLL for (int c = 0; c < accumulators; c++) sum[r][j][c] = vf_zero();
    int64_t i = 0;
    for (; i + accumulators * VW <= k; i += accumulators * VW) {
        if (rows == 4) gemv_prefetch(ahead, &done, end += each);
        for (int64_t p = 0; rows == 1 && n == 1 && p < accumulators * VW * unit; p += 64)
            __builtin_prefetch(a + i * unit + p + far, 0, 2);
        if (rows == 1 && n == 1 && i * unit % GG_PAGE_BYTES == 0)
            __builtin_prefetch(a + i * unit + GG_PREFETCH_PAGES);
        GG_UNROLL for (int c = 0; c < accumulators; c++)
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
    GG_UNROLL for (int r = 0; r < rows; r++) {
        float *const s = out + r * GEMV_VECTORS;
        GG_UNROLL for (int j = 0; j < n; j++)
            GG_UNROLL for (int c = 1; c < accumulators; c++) sum[r][j][0] = vf_add(sum[r][j][0], sum[r][j][c]);
        if (n == 1) s[0] = vf_hsum(sum[r][0][0]);
        else vf_hsum4(s, sum[r][0][0], sum[r][1][0], sum[r][n > 2 ? 2 : 0][0], sum[r][n > 3 ? 3 : 0][0]);
    }
}

/* out[j*GEMV_ROWS + i] += the sum over columns q of element i of column q times y[j][k + q], for i < m. */
GG_INLINE void gemv_columns(const int type, const int columns, const int n, int64_t m, const char *a, size_t nb,
                            const float *const *y, int64_t k, float *out) {
    for (int64_t i = 0; i < m; i += VW) {
        vf sum[GEMV_VECTORS];
        GG_UNROLL for (int j = 0; j < n; j++) sum[j] = vf_load(out + j * GEMV_ROWS + i);
        GG_UNROLL for (int q = 0; q < columns; q++) {
            const vf x = gemv_load(type, a + (size_t)q * nb + i * gg_types[type].bytes, m - i);
            GG_UNROLL for (int j = 0; j < n; j++) sum[j] = vf_fma(x, vf_set1(y[j][k + q]), sum[j]);
        }
        GG_UNROLL for (int j = 0; j < n; j++) vf_store(out + j * GEMV_ROWS + i, sum[j]);
    }
}

/* The table of kernels by type and number of vectors: m <= 4 rows; or k columns of m <= GEMV_ROWS elements. With one
 * vector memory bandwidth is the limit, and reading row after row is fastest. Several vectors are loaded once for four
 * rows. */
#define GEMV_ARGS int64_t m, int64_t k, const char *a, size_t nb, const gemv_ahead *ahead, \
                  const float *const *y, float *out
typedef void (*gemv_fn)(GEMV_ARGS);
#define GEMV(T, n) \
    static void gemv_rows_##T##_##n(GEMV_ARGS) { \
        if (m == 4 && n > 1) gemv_rows(GGML_TYPE_##T, 4, n, 1, k, a, nb, ahead, y, out); \
        else for (int64_t r = 0; r < m; r++) \
            gemv_rows(GGML_TYPE_##T, 1, n, n > 1 ? 1 : 4, k, a + (size_t)r * nb, nb, ahead, y, \
                      out + r * GEMV_VECTORS); \
    } \
    static void gemv_columns_##T##_##n(GEMV_ARGS) { \
        (void)ahead; \
        int64_t q = 0; \
        for (; q + 4 <= k; q += 4) gemv_columns(GGML_TYPE_##T, 4, n, m, a + (size_t)q * nb, nb, y, q, out); \
        for (; q < k; q++) gemv_columns(GGML_TYPE_##T, 1, n, m, a + (size_t)q * nb, nb, y, q, out); \
    }
#define GEMV_TYPES(F, n) F(F32, n) F(F16, n) F(BF16, n)
#define GEMV_ALL(F) GEMV_TYPES(F, 1) GEMV_TYPES(F, 2) GEMV_TYPES(F, 3) GEMV_TYPES(F, 4)
GEMV_ALL(GEMV)
#undef GEMV
#define GEMV(T, n) [GGML_TYPE_##T][n] = {gemv_rows_##T##_##n, gemv_columns_##T##_##n},
static const struct { gemv_fn rows, columns; } gemv_table[GGML_TYPE_BF16 + 1][GEMV_VECTORS + 1] = {GEMV_ALL(GEMV)};
#undef GEMV

/* The number of vectors up to which this way is taken, by the rows or the columns of a. */
static inline int64_t gemv_max_vectors(const gemm_src *a) {
    if (a->pack == pack_along_i) return GEMV_VECTORS;
    if (a->pack != pack_along_k) return 0;
    return gg_is_float(a->type) ? GEMV_MAX_VECTORS : gemm_unpacks_fast(a) ? GEMV_INT8_VECTORS : GEMV_VECTORS;
}
/* Whether g is such a product: rows or columns of a are contiguous, and the vectors of b can be read one by one. */
static inline bool gemv_fits(const gemm *g) {
    const bool many = g->k >= GEMV_LONG_K && gg_is_float(g->a.type) && g->a.pack == pack_along_k;
    return g->n <= (many ? GEMV_MOST : gemv_max_vectors(&g->a)) && g->b.pack != pack_blocks_along_i && !g->add;
}

/* The vectors as kernels read them: as f32 and, for a quantised matrix with dot products, in the activation layout. */
typedef struct gemv_vectors {
    const float *f32[GEMV_MOST];
    const void *activation[GEMV_MOST];
    gg_dot_fn dot;                  /* NULL: rows are unpacked to f32 */
    float *row;                     /* an unpacked row of a */
} gemv_vectors;

static inline size_t gemv_round(size_t bytes) { return (bytes | 63) + 1; }   /* a multiple of 64, never 0 */
static inline bool gemv_has_dot(const gemm *g) {
    const gemm_src *const s = &g->a;
    const gg_kernels *const k = s->kernels;
    return !g->exact && !gg_is_float(s->type) && k->dot[s->type] && k->from_f32[gg_types[s->type].activation];
}
static inline size_t gemv_activation_size(const gemm *g) {
    return gemv_has_dot(g) ? gemv_round(gg_row_size(gg_types[g->a.type].activation, g->k)) : 0;
}
static inline size_t gemv_layout_size(const gemm *g) {
    return gemv_has_dot(g) ? gemv_round((size_t)g->k / 32 * GG_LAYOUT_BYTES) : 0;
}
static inline size_t gemv_scratch(const gemm *g) {
    return (size_t)(g->n + 1) * gemv_round((size_t)g->k * sizeof(float))
        + (size_t)g->n * (gemv_activation_size(g) + gemv_layout_size(g));
}

/* x_i as f32: where it is, if it is that, else in tmp. */
static const float *gemv_vector(const gemm_src *s, int64_t i, int64_t k, float *tmp) {
    const bool packed = s->nb_k == (size_t)gg_types[s->type].bytes;
    if (packed && s->type == GGML_TYPE_F32) return (const float *)pack_at(s, i, 0);
    if (packed) s->kernels->to_f32[s->type](pack_at(s, i, 0), tmp, k);
    else for (int64_t j = 0; j < k; j++) tmp[j] = pack_value(s->type, pack_at(s, i, j));
    return tmp;
}
static void gemv_prepare(const gemm *g, char *own, gemv_vectors *v) {
    const size_t size = gemv_round((size_t)g->k * sizeof(float)), activation_size = gemv_activation_size(g),
        layout_size = gemv_layout_size(g);
    v->dot = gemv_has_dot(g) ? g->a.kernels->dot[g->a.type] : NULL;
    v->row = (float *)own;
    for (int64_t j = 0; j < g->n; j++) v->f32[j] = gemv_vector(&g->b, j, g->k, (float *)(own += size));
    own += size;
    for (int64_t j = 0; v->dot && j < g->n; j++, own += activation_size + layout_size) {
        const gg_kernels *const kernels = g->a.kernels;
        const int32_t type = gg_types[g->a.type].activation;
        kernels->from_f32[type](v->f32[j], own, g->k);
        kernels->lay_out[type](own, own + activation_size, g->k);
        v->activation[j] = own + activation_size;
    }
}

static void gemv_by_columns(const gemm *g, const gemv_vectors *v, int64_t i0, int64_t i1) {
    float out[GEMV_VECTORS * GEMV_ROWS] __attribute__((aligned(64)));
    for (; i0 < i1; i0 += GEMV_ROWS) {
        const int64_t m = gg_min(i1 - i0, GEMV_ROWS);
        memset(out, 0, (size_t)g->n * GEMV_ROWS * sizeof(float));
        gemv_table[g->a.type][g->n].columns(m, g->k, pack_at(&g->a, i0, 0), g->a.nb_k, NULL, v->f32, out);
        for (int64_t j = 0; j < g->n; j++)
            for (int64_t i = 0; i < m; i++) *gemm_c(g, i0 + i, j) = out[j * GEMV_ROWS + i];
    }
}
/* Rows i .. i+m-1, m <= 4, at a. Several vectors are multiplied GEMV_TOGETHER at a time; from the second time on the
 * rows are in the cache, and all the time the next rows are read. */
static void gemv_few_rows(const gemm *g, const gemv_vectors *v, int type, const char *a, int64_t i, int64_t m) {
    const int64_t nb = (int64_t)g->a.nb_i, next = m * nb, parts = gg_ceil_div(g->n, GEMV_TOGETHER);
    const bool large = g->m * nb > GEMV_SMALL, second = parts > 2;
    const bool reads = g->n > 1 && next <= (second ? GEMV_AHEAD_SECOND : GEMV_AHEAD) && large;
    gemv_ahead ahead = {.far = large ? GG_PREFETCH_FAR : 0, .second = second};
    if (reads) ahead.each = (size_t)(4 * VW * gg_types[type].bytes / parts);
    for (int64_t p = 0; reads && p < next; p += GG_PAGE_BYTES) __builtin_prefetch(a + p + GG_PREFETCH_PAGES);
    for (int64_t part = 0, j0 = 0, n; part < parts; part++, j0 += n) {
        float out[4 * GEMV_VECTORS];
        n = g->n * (part + 1) / parts - j0;
        ahead.at = a + next + (ahead.second ? GG_PAGE_BYTES : 0) + next * part / parts;
        gemv_table[type][n].rows(m, g->k, a, g->a.nb_i, &ahead, v->f32 + j0, out);
        for (int64_t r = 0; r < m; r++)
            for (int64_t j = 0; j < n; j++) *gemm_c(g, i + r, j0 + j) = out[r * GEMV_VECTORS + j];
    }
}
static void gemv_by_rows(const gemm *g, const gemv_vectors *v, int64_t i0, int64_t i1) {
    const int type = g->a.type, step = gg_is_float(type) ? 4 : v->dot ? GG_DOT_ROWS : 1;
    for (int64_t i = i0; i < i1; i += step) {
        const char *a = pack_at(&g->a, i, 0);
        const int rows = (int)gg_min(i1 - i, step);
        if (gg_is_float(type)) {
            gemv_few_rows(g, v, type, a, i, rows);
        } else if (v->dot) {
            for (size_t p = 0; p < rows * g->a.nb_i; p += GG_PAGE_BYTES) __builtin_prefetch(a + p + GG_PREFETCH_PAGES);
            for (int64_t j = 0; j < g->n; j++) {
                float out[GG_DOT_ROWS];
                v->dot(g->k, rows, out, a, g->a.nb_i, v->activation[j]);
                for (int r = 0; r < rows; r++) *gemm_c(g, i + r, j) = out[r];
            }
        } else {
            g->a.kernels->to_f32[type](a, v->row, g->k);
            gemv_few_rows(g, v, GGML_TYPE_F32, (const char *)v->row, i, 1);
        }
    }
}

/* The rows of a piece. Threads end at about the same time if pieces are small; each should take about a microsecond, as
 * claiming one takes a tenth of that. */
static int64_t gemv_piece(const gg_work *w, const gemm *g) {
    if (g->a.pack != pack_along_k) return gg_ceil_div(g->m * g->ne2 * g->ne3, w->nth * 2 * 64) * 64;
    const int64_t row = gg_max((int64_t)gg_row_size(g->a.type, g->k), 1), step = GG_DOT_ROWS;
    const int64_t even = gg_ceil_div(g->m * g->ne2 * g->ne3, w->nth * 16);
    const int64_t size = gg_max(gg_min(even, GEMV_MOST_BYTES / row), GEMV_LEAST_BYTES / row);
    return gg_ceil_div(gg_max(size, 1), step) * step;
}
/* Each thread prepares the vectors for itself, which costs about as much as a row. */
static bool gemv_run(const gg_work *w, const gemm *g) {
    char *const own = gg_scratch(gemv_scratch(g));
    if (!own) return false;
    const bool by_rows = g->a.pack == pack_along_k;
    const int64_t batch = g->ne2 * g->ne3, size = w->nth == 1 ? g->m : gemv_piece(w, g), cuts = gg_ceil_div(g->m, size);
    int64_t ready = -1;
    gemm one = *g;
    gemv_vectors v;
    for (int64_t t; (t = gg_claim_piece(w, batch * cuts)) >= 0;) {
        if (t / cuts != ready) one = gemm_matrix(g, ready = t / cuts), gemv_prepare(&one, own, &v);
        const int64_t i0 = t % cuts * size, i1 = gg_min(i0 + size, g->m);
        if (by_rows) gemv_by_rows(&one, &v, i0, i1);
        else gemv_by_columns(&one, &v, i0, i1);
    }
    return true;
}

#endif
