/* A matrix times one to GEMV_MAX_N vectors. The matrix is read once, in the order in which it is stored, without
 * packing. Several vectors that rows of floats are multiplied by are packed instead: chunk by chunk of k, so that a
 * chunk of all vectors stays in the first cache while the rows of a block are multiplied by it. */
#ifndef GG_GEMM_GEMV_H
#define GG_GEMM_GEMV_H
#include "gemm.h"

enum {
    GEMV_VECTORS = 4,               /* vectors that a kernel by columns multiplies simultaneously */
    GEMV_MAX_VECTORS = 8,           /* vectors up to which reading float rows without packing is faster; */
    GEMV_INT8_VECTORS = 2,          /* rows that unpack fast to panels of bytes; elsewhere GEMV_VECTORS */
    GEMV_LONG_K = 256,              /* sums of that many products are so long that GEMV_MAX_N vectors are worth it */
    GEMV_MIN_BYTES = 32 << 10,    /* of a matrix that a thread claims at a time */
    GEMV_CHUNK = 20 << 10,          /* bytes of a chunk of the vectors, */
    GEMV_BLOCK = 128 << 10,         /* of a block of rows, which stay in the second cache */
    GEMV_BLOCK_NEAR = 16 << 10,     /* or, where vectors are few, in the first one */
    GEMV_BLOCK_ROWS = 64,
    GEMV_SMALL = 128 << 10,         /* bytes of a matrix that is not prefetched */
    GEMV_LONG_ROW = 8 << 10,             /* of a row: longer ones are left to the CPU where vectors are few */
    GEMV_ROWS = 1024,               /* sums that a product by columns keeps for each vector */
};

/* Loads n values as floats; n >= VW: a whole vector. */
GG_INLINE vf gemv_load(const int type, const char *p, int64_t n) {
    const uint16_t *h = (const uint16_t *)p;
    if (type == GGML_TYPE_F32) return n >= VW ? vf_load((const float *)p) : vf_loadn((const float *)p, (int)n);
    if (type == GGML_TYPE_F16) return n >= VW ? vf_load_f16(h) : vf_load_f16n(h, (int)n);
    return n >= VW ? vf_load_bf16(h) : vf_load_bf16n(h, (int)n);
}

/* What is prefetched during a product: for one vector what lies `far` bytes ahead, to the second cache; for several
 * `each` bytes from `at` on for every vector of k of four rows. */
typedef struct gemv_ahead {
    size_t far, each;
    const char *at;
} gemv_ahead;

/* sums[j*ld + r] (+)= row r times vector j, each in `accumulators` vectors of sums. VW elements of vector j from i on
 * are at y + j*next + i/VW*step. The result of a row does not depend on the number of rows. */
GG_INLINE void gemv_rows(const int type, const int rows, const int n, const int accumulators, int64_t k, const char *a,
                         size_t nb, const gemv_ahead *ahead, const float *y, int64_t next, int64_t step, float *sums,
                         int64_t ld, bool add) {
    const int64_t unit = gg_types[type].bytes;
    const size_t far = ahead->far, each = ahead->each;
    size_t done = 0, end = 0;
    vf sum[4][GEMV_NR][4], v[GEMV_NR];
    GG_UNROLL for (int r = 0; r < rows; r++)
        GG_UNROLL for (int j = 0; j < n; j++)
            GG_UNROLL for (int c = 0; c < accumulators; c++) sum[r][j][c] = vf_zero();
    int64_t i = 0;
    for (; i + accumulators * VW <= k; i += accumulators * VW) {
        if (rows == 4) for (end += each; done < end; done += 64) __builtin_prefetch(ahead->at + done);
        for (int64_t p = 0; rows == 1 && n == 1 && p < accumulators * VW * unit; p += 64)
            __builtin_prefetch(a + i * unit + p + far, 0, 2);
        if (rows == 1 && n == 1 && i * unit % GG_PAGE_BYTES == 0)
            __builtin_prefetch(a + i * unit + GG_PREFETCH_PAGES);
        GG_UNROLL for (int c = 0; c < accumulators; c++, y += step) {
            GG_UNROLL for (int j = 0; j < n; j++) {
                v[j] = vf_load(y + j * next);
                if (rows > 1) v[j] = vf_keep(v[j]);
            }
            GG_UNROLL for (int r = 0; r < rows; r++) {
                vf x = gemv_load(type, a + (size_t)r * nb + (i + c * VW) * unit, VW);
                if (n > 1) x = vf_keep(x);
                GG_UNROLL for (int j = 0; j < n; j++) sum[r][j][c] = vf_fma(x, v[j], sum[r][j][c]);
            }
        }
    }
    for (; i < k; i += VW, y += step) {
        GG_UNROLL for (int j = 0; j < n; j++)
            v[j] = k - i >= VW ? vf_load(y + j * next) : vf_loadn(y + j * next, (int)(k - i));
        GG_UNROLL for (int r = 0; r < rows; r++) {
            const vf x = gemv_load(type, a + (size_t)r * nb + i * unit, k - i);
            GG_UNROLL for (int j = 0; j < n; j++) sum[r][j][0] = vf_fma(x, v[j], sum[r][j][0]);
        }
    }
    GG_UNROLL for (int r = 0; r < rows; r++)
        GG_UNROLL for (int j = 0; j < n; j++)
            GG_UNROLL for (int c = 1; c < accumulators; c++) sum[r][j][0] = vf_add(sum[r][j][0], sum[r][j][c]);
    GG_UNROLL for (int j = 0; j < n; j++, sums += ld) {
        float t[4];
        if (rows == 4) vf_hsum4(t, sum[0][j][0], sum[1][j][0], sum[2][j][0], sum[3][j][0]);
        else if (n > 1) vf_hsum4(t, sum[0][j][0], sum[0][j][0], sum[0][j][0], sum[0][j][0]);    /* in the same order */
        else t[0] = vf_hsum(sum[0][j][0]);
        GG_UNROLL for (int r = 0; r < rows; r++) sums[r] = add ? sums[r] + t[r] : t[r];
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

/* The kernels by type and number of vectors: m rows, four at most with several vectors; or k columns of m <= GEMV_ROWS
 * elements. With one vector memory bandwidth is the limit, and reading row after row is fastest. Several vectors are
 * loaded once for four rows. */
#define GEMV_ROWS_ARGS int64_t m, int64_t k, const char *a, size_t nb, const gemv_ahead *ahead, const float *y, \
                       int64_t next, int64_t step, float *sums, int64_t ld, bool add
#define GEMV_COLUMNS_ARGS int64_t m, int64_t k, const char *a, size_t nb, const float *const *y, float *out
typedef void (*gemv_rows_fn)(GEMV_ROWS_ARGS);
typedef void (*gemv_columns_fn)(GEMV_COLUMNS_ARGS);
#define GEMV_TYPES(F, n) F(F32, n) F(F16, n) F(BF16, n)
#define GEMV_FOUR(F) GEMV_TYPES(F, 1) GEMV_TYPES(F, 2) GEMV_TYPES(F, 3) GEMV_TYPES(F, 4)
#define GEMV_SIX(F) GEMV_FOUR(F) GEMV_TYPES(F, 5) GEMV_TYPES(F, 6)
#define GEMV(T, n) \
    static void gemv_rows_##T##_##n(GEMV_ROWS_ARGS) { \
        enum { N = n < GEMV_NR ? n : GEMV_NR }; \
        if (m == 4 && n > 1) gemv_rows(GGML_TYPE_##T, 4, N, 1, k, a, nb, ahead, y, next, step, sums, ld, add); \
        else for (int64_t r = 0; r < m; r++) \
            gemv_rows(GGML_TYPE_##T, 1, N, n > 1 ? 1 : 4, k, a + (size_t)r * nb, nb, ahead, y, next, step, sums + r, \
                      ld, add); \
    }
GEMV_SIX(GEMV)
#undef GEMV
#define GEMV(T, n) \
    static void gemv_columns_##T##_##n(GEMV_COLUMNS_ARGS) { \
        int64_t q = 0; \
        for (; q + 4 <= k; q += 4) gemv_columns(GGML_TYPE_##T, 4, n, m, a + (size_t)q * nb, nb, y, q, out); \
        for (; q < k; q++) gemv_columns(GGML_TYPE_##T, 1, n, m, a + (size_t)q * nb, nb, y, q, out); \
    }
GEMV_FOUR(GEMV)
#undef GEMV
#define GEMV(T, n) [GGML_TYPE_##T][n] = n <= GEMV_NR ? gemv_rows_##T##_##n : NULL,
static const gemv_rows_fn gemv_rows_table[][7] = {GEMV_SIX(GEMV)};
#undef GEMV
#define GEMV(T, n) [GGML_TYPE_##T][n] = gemv_columns_##T##_##n,
static const gemv_columns_fn gemv_columns_table[][GEMV_VECTORS + 1] = {GEMV_FOUR(GEMV)};
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
    return g->n <= (many ? GEMV_MAX_N : gemv_max_vectors(&g->a)) && g->b.pack != pack_blocks_along_i && !g->add;
}

/* The vectors as kernels read them: as f32; packed, if rows of floats are multiplied by several; and, for a quantised
 * matrix with dot products, in the activation layout. */
typedef struct gemv_vectors {
    const float *f32[GEMV_MAX_N];
    const void *activation[GEMV_MAX_N];
    gg_dot_fn dot;                  /* NULL: rows are unpacked to f32 */
    float *packed;                  /* VW elements of each vector of a part, and so on; part by part, chunk by chunk */
    int64_t chunk, parts;           /* elements of k of a chunk; parts that the vectors are divided into */
    float *row;                     /* an unpacked row of a */
} gemv_vectors;

/* What a thread reads: rows up to `end`, then from `next` on. gemv_later is what it reads so many bytes after `at`. */
typedef struct gemv_stream { uintptr_t end, next; } gemv_stream;
static inline const char *gemv_later(const gemv_stream *s, const char *at, size_t bytes) {
    const uintptr_t p = (uintptr_t)at + bytes;
    return (const char *)(p < s->end ? p : s->next + (p - s->end));
}

static inline size_t gemv_round(size_t bytes) { return (bytes | 63) + 1; }   /* a multiple of 64, never 0 */
static inline bool gemv_has_dot(const gemm *g) {
    const gemm_src *const s = &g->a;
    const gg_kernels *const k = s->kernels;
    return !g->exact && !gg_is_float(s->type) && k->dot[s->type];
}
static inline size_t gemv_layout_size(const gemm *g) {
    return gemv_has_dot(g) ? gemv_round((size_t)g->k / 32 * GG_LAYOUT_BYTES) : 0;
}
static inline size_t gemv_scratch(const gemm *g) {
    return (size_t)(2 * g->n + 1) * gemv_round((size_t)g->k * sizeof(float))
        + (size_t)g->n * gemv_layout_size(g);
}

/* x_i as f32: where it is, if it is that, else in tmp. */
static const float *gemv_vector(const gemm_src *s, int64_t i, int64_t k, float *tmp) {
    return pack_floats(s, s->offset ? s->data + s->offset(s, i) : pack_at(s, i, 0), k, tmp);
}
static inline int64_t gemv_part(const gemm *g, const gemv_vectors *v, int64_t part) { return g->n * part / v->parts; }
static void gemv_pack(const gemm *g, gemv_vectors *v) {
    const int64_t most = GEMV_CHUNK / (int64_t)sizeof(float) / g->n / KC * KC;
    float *out = v->packed;
    v->parts = gg_ceil_div(g->n, GEMV_NR), v->chunk = gg_max(most, KC);
    for (int64_t k0 = 0, k1; k0 < g->k; k0 = k1) {
        k1 = gg_min(k0 + v->chunk, g->k);
        for (int64_t part = 0; part < v->parts; part++)
            for (int64_t i = k0; i < k1; i += VW)
                for (int64_t j = gemv_part(g, v, part); j < gemv_part(g, v, part + 1); j++, out += VW)
                    vf_store(out, gemv_load(GGML_TYPE_F32, (const char *)(v->f32[j] + i), k1 - i));
    }
}
static void gemv_prepare(const gemm *g, char *own, gemv_vectors *v) {
    const size_t size = gemv_round((size_t)g->k * sizeof(float)), layout_size = gemv_layout_size(g);
    v->dot = gemv_has_dot(g) ? g->a.kernels->dot[g->a.type] : NULL;
    v->row = (float *)own;
    for (int64_t j = 0; j < g->n; j++) v->f32[j] = gemv_vector(&g->b, j, g->k, (float *)(own += size));
    own += size;
    v->packed = (float *)own;
    if (g->n > 1 && !v->dot && g->a.pack == pack_along_k) gemv_pack(g, v);
    own += (size_t)g->n * size;
    for (int64_t j = 0; v->dot && j < g->n; j++, own += layout_size) {
        g->a.kernels->lay_out_f32[gg_types[g->a.type].activation](v->f32[j], own, g->k);
        v->activation[j] = own;
    }
}

/* Column j of c from row i on = m sums. */
static inline void gemv_store(const gemm *g, int64_t i, int64_t j, int64_t m, float *sums) {
    if (g->finish) g->finish(g, i, m, j, 1, sums, m);
    if (gemm_c_packed(g, i, m)) memcpy(gemm_c(g, i, j), sums, (size_t)m * sizeof *sums);
    else for (int64_t r = 0; r < m; r++) *gemm_c(g, i + r, j) = sums[r];
}
static void gemv_by_columns(const gemm *g, const gemv_vectors *v, int64_t i0, int64_t i1) {
    float out[GEMV_VECTORS * GEMV_ROWS] __attribute__((aligned(64)));
    for (; i0 < i1; i0 += GEMV_ROWS) {
        const int64_t m = gg_min(i1 - i0, GEMV_ROWS);
        memset(out, 0, (size_t)g->n * GEMV_ROWS * sizeof(float));
        gemv_columns_table[g->a.type][g->n](m, g->k, pack_at(&g->a, i0, 0), g->a.nb_k, v->f32, out);
        for (int64_t j = 0; j < g->n; j++) gemv_store(g, i0, j, m, out + j * GEMV_ROWS);
    }
}
/* Rows i .. i+m-1, m <= GEMV_BLOCK_ROWS, at a, which are nb bytes apart; meanwhile what follows them is prefetched. */
static void gemv_block(const gemm *g, const gemv_vectors *v, int type, const char *a, size_t nb, int64_t i, int64_t m,
                       bool prefetch) {
    float sums[GEMV_MAX_N * GEMV_BLOCK_ROWS];
    const int64_t unit = gg_types[type].bytes;
    gemv_ahead ahead = {.each = prefetch ? (size_t)(4 * VW * unit / v->parts) : 0, .at = a + (size_t)m * nb};
    for (int64_t p = 0; prefetch && p < m * (int64_t)nb; p += GG_PAGE_BYTES)
        __builtin_prefetch(ahead.at + p + GG_PREFETCH_PAGES);
    int64_t k = 0;
    do {                            /* at least once, because k = 0 makes c 0 */
        const int64_t kn = gg_min(g->k - k, v->chunk), vectors = gg_ceil_div(kn, VW);
        for (int64_t r = 0; r < m; r += 4)
            for (int64_t part = 0; part < v->parts; part++) {
                const int64_t j = gemv_part(g, v, part), n = gemv_part(g, v, part + 1) - j;
                gemv_rows_table[type][n](gg_min(m - r, 4), kn, a + (size_t)r * nb + k * unit, nb, &ahead,
                                         v->packed + k * g->n + j * vectors * VW, VW, n * VW,
                                         sums + j * GEMV_BLOCK_ROWS + r, GEMV_BLOCK_ROWS, k > 0);
                ahead.at += ahead.each * (size_t)vectors;
            }
    } while ((k += v->chunk) < g->k);
    for (int64_t j = 0; j < g->n; j++) gemv_store(g, i, j, m, sums + j * GEMV_BLOCK_ROWS);
}
/* Rows i .. i+m-1 of floats times one vector, m <= GEMV_BLOCK_ROWS. */
static void gemv_single(const gemm *g, const gemv_vectors *v, int type, const char *a, int64_t i, int64_t m) {
    float sums[GEMV_BLOCK_ROWS];
    const gemv_ahead ahead = {.far = g->m * (int64_t)g->a.nb_i > GEMV_SMALL ? GG_PREFETCH_FAR : 0};
    gemv_rows_table[type][1](m, g->k, a, g->a.nb_i, &ahead, v->f32[0], 0, VW, sums, 0, false);
    gemv_store(g, i, 0, m, sums);
}
static void gemv_dots(const gemm *g, const gemv_vectors *v, const gemv_stream *stream, const char *a, int64_t i,
                      int64_t m) {
    const size_t bytes = (size_t)m * g->a.nb_i;
    const char *const ahead = gemv_later(stream, a, gg_max(bytes, (size_t)GG_PREFETCH_FAR));
    for (size_t p = 0; p < bytes; p += GG_PAGE_BYTES) __builtin_prefetch(gemv_later(stream, a + p, GG_PREFETCH_PAGES));
    for (int64_t j = 0; j < g->n; j++) {
        float out[GG_DOT_ROWS];
        v->dot(g->k, (int)m, out, a, g->a.nb_i, v->activation[j], ahead);
        gemv_store(g, i, j, m, out);
    }
}
/* The rows of a block. With few vectors the next block is prefetched into the first cache, so it has to be small. */
static int64_t gemv_step(const gemm *g, const gemv_vectors *v, bool prefetch) {
    const int64_t bytes = prefetch && g->n <= GEMV_NR ? GEMV_BLOCK_NEAR : GEMV_BLOCK;
    if (v->dot) return GG_DOT_ROWS;
    if (!gg_is_float(g->a.type)) return 1;
    if (g->n == 1) return GEMV_BLOCK_ROWS;
    return gg_max(gg_min(bytes / 4 / (int64_t)gg_max(g->a.nb_i, 1), GEMV_BLOCK_ROWS / 4), 1) * 4;
}
static void gemv_by_rows(const gemm *g, const gemv_vectors *v, const gemv_stream *stream, int64_t i0, int64_t i1) {
    const int type = g->a.type;
    const bool large = g->m * (int64_t)g->a.nb_i > GEMV_SMALL;
    const bool prefetch = large && (g->n > GEMV_NR || g->a.nb_i <= GEMV_LONG_ROW);
    const int64_t step = gemv_step(g, v, prefetch);
    for (int64_t i = i0; i < i1; i += step) {
        const char *a = pack_at(&g->a, i, 0);
        const int64_t m = gg_min(i1 - i, step);
        if (v->dot) {
            gemv_dots(g, v, stream, a, i, m);
        } else if (gg_is_float(type)) {
            if (g->n == 1) gemv_single(g, v, type, a, i, m);
            else gemv_block(g, v, type, a, g->a.nb_i, i, m, prefetch);
        } else {
            g->a.kernels->to_f32[type](a, v->row, g->k);
            if (g->n == 1) gemv_single(g, v, GGML_TYPE_F32, (const char *)v->row, i, 1);
            else gemv_block(g, v, GGML_TYPE_F32, (const char *)v->row, 0, i, 1, false);
        }
    }
}

/* The rows of a piece. Threads end at about the same time if pieces are small; each should take about a microsecond, as
 * claiming one takes a tenth of that. There are so few that a thread's own follow one another: what is prefetched
 * behind the end of a run of memory is lost, unless it is what the thread reads next (gemv_stream). */
static int64_t gemv_piece(int nth, const gemm *g, int64_t step) {
    if (nth == 1) return g->m;
    if (g->a.pack != pack_along_k) return gg_ceil_div(g->m * g->ne2 * g->ne3, nth * 2 * 64) * 64;
    const int64_t row = gg_max((int64_t)gg_row_size(g->a.type, g->k), 1);
    const int64_t even = gg_ceil_div(g->m * g->ne2 * g->ne3, GG_OWN_PIECES);
    return gg_ceil_div(gg_max(gg_max(even, GEMV_MIN_BYTES / row), 1), step) * step;
}
/* What a thread reads from piece t on, one of n of `size` rows: its own pieces, then those of the next matrix. */
static gemv_stream gemv_stream_of(const gg_work *w, const gemm *g, int64_t t, int64_t n, int64_t size) {
    const int64_t own = n * (w->ith + 1) / w->nth, last = w->down || t >= own ? t + 1 : own;
    const uintptr_t end = (uintptr_t)pack_at(&g->a, gg_min(last * size, g->m), 0);
    return (gemv_stream){end, w->next ? (uintptr_t)w->next : end};
}
/* Each thread prepares the vectors for itself, which costs about as much as a row. */
static bool gemv_run(const gg_work *w, const gemm *g) {
    char *const own = gg_scratch(gemv_scratch(g));
    if (!own) return false;
    const bool by_rows = g->a.pack == pack_along_k;
    const int64_t size = gemv_piece(w->nth, g, GG_DOT_ROWS), cuts = gg_ceil_div(g->m, size);
    const int64_t batch = g->ne2 * g->ne3;
    int64_t ready = -1;
    gemm one = *g;
    gemv_vectors v;
    for (int64_t t; (t = gg_claim_piece(w, batch * cuts)) >= 0;) {
        if (t / cuts != ready) one = gemm_matrix(g, ready = t / cuts), gemv_prepare(&one, own, &v);
        const int64_t i0 = t % cuts * size, i1 = gg_min(i0 + size, g->m);
        const gemv_stream stream = gemv_stream_of(w, &one, t % cuts, cuts, size);
        if (by_rows) gemv_by_rows(&one, &v, &stream, i0, i1);
        else gemv_by_columns(&one, &v, i0, i1);
    }
    return true;
}

#endif
