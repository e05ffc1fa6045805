/* MUL_MAT with a matrix of bytes (I8), to whose elements the parameter `offset` is added. Rows of b that hold whole
 * numbers whose range is 255 at most are multiplied exactly: their elements become codes, element = code + offset, and
 *     sum((a + p) * element) = sum(a * code) + offset * sum(a) + p * sum(element)
 * in int32. Where an ISA multiplies pairs of 16 bits, codes have 16 bits and the offset is 0. Other rows are multiplied
 * in f32. */
#ifndef GG_OPS_MATMUL_BYTES_H
#define GG_OPS_MATMUL_BYTES_H
#include "../gemm/gemm.h"
#include "rows.h"

enum {
    BYTES_K = 1 << 14,              /* most elements of a row: sums of 2^14 products of 383 and 255 fit into int32 */
    BYTES_LINE = 64,
    BYTES_NEAR = 1 << 17,           /* bytes of a matrix that is not prefetched */
#ifdef GG_VEC_PAIRS
    BYTES_PAIRS = 1,                /* codes have 16 bits */
    BYTES_N = VW == 16 ? 12 : 6,    /* columns of a register tile */
#else
    BYTES_PAIRS = 0,
    BYTES_N = VW == 16 ? 12 : VW == 8 ? 4 : 8,  /* columns of a register tile of MR rows */
#endif
#if defined GG_VEC_DOT && GG_VEC_DOT < 256
    BYTES_SIGNED = 128,             /* codes are signed: this much lower */
#else
    BYTES_SIGNED = 0,
#endif
};

typedef struct bytes_row {
    const char *x;                  /* a row of b */
    float *y;                       /* the column of the result */
    int32_t add, offset;            /* what corrects the sums of products */
    bool whole;
} bytes_row;
typedef struct bytes_work {
    int64_t k, line, rows, words;   /* bytes of a line of codes; rows of b; 32-bit words of a row of a */
    size_t ahead;                   /* bytes between a row of a and what is prefetched; 0: a stays in the caches */
    int32_t more;                   /* what is added to a */
    bytes_row *row;
    uint8_t *codes;                 /* lines of codes; the codes of the last one are all 1: it sums the elements of a */
    float *copies, *panel, *floats; /* rows of a; their words, transposed; a row of b */
    int32_t *sums, *totals;         /* sums of products of BYTES_N columns; sums of the rows of a */
} bytes_work;

#ifdef GG_VEC_PAIRS
/* The lanes of a vector are elements of k, so that rows of a are read as they are. A tile is two rows and up to BYTES_N
 * columns, whose sums fill the registers, or BYTES_M rows and one column. Tiles of at most BYTES_FEW columns compute
 * four steps, which read a line of the cache, in succession. */
enum { BYTES_M = 4, BYTES_FEW = 2 };
static inline int bytes_rows(int n) { return n > 1 ? 2 : BYTES_M; }
GG_INLINE void bytes_step(const int m, const int n, vi *sum, const int8_t *const *x, const uint8_t *codes,
                          int64_t line, int64_t k) {
    vi a[BYTES_M];
    GG_UNROLL for (int i = 0; i < m; i++) a[i] = vi_load_pairs(x[i] + k);
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vi b = vi_load((const int32_t *)(codes + j * line + 2 * k));
        GG_UNROLL for (int i = 0; i < m; i++) sum[j * m + i] = vi_madd_pairs(sum[j * m + i], a[i], b);
    }
}
/* Sums of products of m rows x of a and n lines of codes. */
GG_INLINE void bytes_tile(const int m, const int n, const bytes_work *q, const int8_t *const *x, const uint8_t *codes,
                          int32_t *sums) {
    enum { STEP = 2 * VW };
    vi sum[2 * BYTES_N + 2];
    int32_t total[2 * BYTES_N + 2];
    int8_t rest[BYTES_M][STEP];
    const int8_t *last[BYTES_M];
    const int64_t k = q->k / STEP * STEP;
    int64_t at = 0;
    GG_UNROLL for (int i = 0; i < (m * n + 3) / 4 * 4; i++) sum[i] = vi_set1(0);
    for (; n <= BYTES_FEW && at + 4 * STEP <= k; at += 4 * STEP) {
        GG_UNROLL for (int i = 0; i < m; i++) __builtin_prefetch(x[i] + at + q->ahead);
        GG_UNROLL for (int i = 0; i < 4; i++) bytes_step(m, n, sum, x, codes, q->line, at + i * STEP);
    }
    for (; at < k; at += STEP) bytes_step(m, n, sum, x, codes, q->line, at);
    if (k < q->k) {
        for (int i = 0; i < m; i++) {
            memset(rest[i], 0, sizeof rest[i]);
            memcpy(rest[i], x[i] + k, (size_t)(q->k - k));
            last[i] = rest[i];
        }
        bytes_step(m, n, sum, last, codes + 2 * k, q->line, 0);
    }
    GG_UNROLL for (int i = 0; i < m * n; i += 4)
        vi_hsum4(total + i, sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < m; i++) sums[j * MR + i] = total[j * m + i];
}
typedef void (*bytes_tile_fn)(const bytes_work *q, const int8_t *const *x, const uint8_t *codes, int32_t *sums);
#define BYTES(n, v) \
    static void bytes_tile_##n(const bytes_work *q, const int8_t *const *x, const uint8_t *codes, int32_t *sums) { \
        bytes_tile(n > 1 ? 2 : BYTES_M, n < BYTES_N ? n : BYTES_N, q, x, codes, sums); \
    }
MICRO_SIZES(BYTES, 2)
#undef BYTES
#define BYTES(n, v) [n] = n <= BYTES_N ? bytes_tile_##n : NULL,
static const bytes_tile_fn bytes_table[] = {MICRO_SIZES(BYTES, 2)};
#undef BYTES

/* The columns of the next tile: groups of nearly equal size. */
static inline int64_t bytes_columns(int64_t left) { return gg_ceil_div(left, gg_ceil_div(left, BYTES_N)); }
/* Prefetches bytes k0 to k1 of the rows of a tile that follows MR rows later than the one at x. */
static inline void bytes_prefetch(const bytes_work *q, const char *x, size_t nb, int64_t k0, int64_t k1) {
    if (!q->ahead) return;
    x += q->ahead;
    for (int r = 0; r < 2; r++, x += nb)
        for (int64_t k = k0; k < k1; k += BYTES_LINE) __builtin_prefetch(x + k);
}
/* Sums of products of rows i0 to i0+m of a and columns j to j+n. */
static void bytes_sums(const bytes_work *q, const ggml_tensor *a, int64_t i0, int64_t m, int64_t j, int n) {
    const bool all = n == q->rows;              /* otherwise the tiles of all columns share the prefetches of a row */
    const int64_t k0 = all ? 0 : q->k * j / q->rows, k1 = all ? q->k : q->k * (j + n) / q->rows;
    for (int64_t r = 0; r < m; r += bytes_rows(n)) {
        const int8_t *x[BYTES_M];
        for (int i = 0; i < bytes_rows(n); i++)
            x[i] = (const int8_t *)a->data + (size_t)(i0 + gg_min(r + i, m - 1)) * a->nb[1];
        if (n > BYTES_FEW) bytes_prefetch(q, (const char *)x[0], a->nb[1], k0, k1);
        bytes_table[n](q, x, q->codes + j * q->line, q->sums + r);
    }
}
#else
/* acc + the four products of bytes of each lane */
GG_INLINE vi bytes_dot(vi acc, vi u, vi s) {
#ifdef GG_VEC_DOT
    return vi_dot(acc, u, s);
#else
    acc = vi_add(acc, vi_mul(vi_srl(u, 24), vi_sra(s, 24)));
    acc = vi_add(acc, vi_mul(vi_and(vi_srl(u, 16), vi_set1(255)), vi_sra(vi_shl(s, 8), 24)));
    acc = vi_add(acc, vi_mul(vi_and(vi_srl(u, 8), vi_set1(255)), vi_sra(vi_shl(s, 16), 24)));
    return vi_add(acc, vi_mul(vi_and(u, vi_set1(255)), vi_sra(vi_shl(s, 24), 24)));
#endif
}
/* Sums of products of a panel and n lines of codes. */
GG_INLINE void bytes_tile(const int n, const bytes_work *q, const uint8_t *codes) {
    vi sum[BYTES_N][MV];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < MV; i++) sum[j][i] = vi_set1(0);
    const int32_t *a = (const int32_t *)q->panel;
    for (int64_t w = 0; w < q->words; w++, a += MR, codes += 4) {
        vi x[MV];
        GG_UNROLL for (int i = 0; i < MV; i++) x[i] = vi_load(a + i * VW);
        GG_UNROLL for (int j = 0; j < n; j++) {
            int32_t word;
            memcpy(&word, codes + j * q->line, sizeof word);
            const vi y = vi_set1(word);
            GG_UNROLL for (int i = 0; i < MV; i++) sum[j][i] = bytes_dot(sum[j][i], y, x[i]);
        }
    }
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < MV; i++) vi_store(q->sums + j * MR + i * VW, sum[j][i]);
}
static void bytes_tile_most(const bytes_work *q, const uint8_t *codes) { bytes_tile(BYTES_N, q, codes); }
static void bytes_tile_4(const bytes_work *q, const uint8_t *codes) { bytes_tile(4, q, codes); }
static void bytes_tile_1(const bytes_work *q, const uint8_t *codes) { bytes_tile(1, q, codes); }

/* The columns of the next tile. */
static inline int64_t bytes_columns(int64_t left) { return left >= BYTES_N ? BYTES_N : left >= 4 ? 4 : 1; }
/* Packs rows i0 to i0+m of a, and sums each. */
static void bytes_pack(const bytes_work *q, const ggml_tensor *a, int64_t i0, int64_t m) {
    for (int g = 0; g < MV; g++) {
        const float *row[VW];
        for (int i = 0; i < VW; i++) {
            char *const copy = (char *)q->copies + i * q->line;
            const char *const x = (const char *)a->data + (size_t)(i0 + gg_min(g * VW + i, m - 1)) * a->nb[1];
            row[i] = (const float *)x;
            if (q->k % 4 == 0 && (uintptr_t)x % 4 == 0) continue;
            memcpy(copy, x, (size_t)q->k);
            memset(copy + q->k, 0, (size_t)(q->words * 4 - q->k));
            row[i] = (const float *)copy;
        }
        pack_transpose(row, q->words, q->panel + g * VW, MR);
    }
    bytes_tile_1(q, q->codes + q->rows * q->line);
    memcpy(q->totals, q->sums, MR * sizeof *q->totals);
}
#ifdef GG_VEC_DOT
/* Four rows x of a times a line of codes, and the sums of the rows, without packing: the lanes are elements of k. */
static void bytes_vector(const bytes_work *q, const int8_t *const *x, const uint8_t *codes, int32_t *sums,
                         int32_t *totals) {
    enum { STEP = 4 * VW };
    const vi ones = vi_set1(0x01010101);
    const int64_t whole = q->k / STEP * STEP;
    int8_t rest[4][STEP];
    vi sum[4], total[4];
    for (int i = 0; i < 4; i++) {
        memset(rest[i], 0, sizeof rest[i]);
        memcpy(rest[i], x[i] + whole, (size_t)(q->k - whole));
        sum[i] = total[i] = vi_set1(0);
    }
    for (int64_t k = 0; k < q->k; k += STEP) {
        const vi b = vi_load((const int32_t *)(codes + k));
        GG_UNROLL for (int i = 0; i < 4; i++) {
            const vi a = vi_load((const int32_t *)(k < whole ? x[i] + k : rest[i]));
            sum[i] = vi_dot(sum[i], b, a), total[i] = vi_dot(total[i], ones, a);
        }
    }
    for (int i = 0; i < 4; i++) {
        int32_t lanes[2][VW];
        vi_store(lanes[0], sum[i]), vi_store(lanes[1], total[i]);
        sums[i] = totals[i] = 0;
        for (int l = 0; l < VW; l++) sums[i] += lanes[0][l], totals[i] += lanes[1][l];
    }
}
#endif
/* Sums of products of rows i0 to i0+m of a, which the first call for them packs, and columns j to j+n. */
static void bytes_sums(const bytes_work *q, const ggml_tensor *a, int64_t i0, int64_t m, int64_t j, int n) {
#ifdef GG_VEC_DOT
    for (int64_t r = 0; q->rows == 1 && r < m; r += 4) {
        const int8_t *x[4];
        for (int i = 0; i < 4; i++) x[i] = (const int8_t *)a->data + (size_t)(i0 + gg_min(r + i, m - 1)) * a->nb[1];
        bytes_vector(q, x, q->codes, q->sums + r, q->totals + r);
    }
    if (q->rows == 1) return;
#endif
    if (!j) bytes_pack(q, a, i0, m);
    (n == BYTES_N ? bytes_tile_most : n == 4 ? bytes_tile_4 : bytes_tile_1)(q, q->codes + j * q->line);
}
#endif

/* Makes the codes of a row of floats. */
static void bytes_encode(const bytes_work *q, const float *x, uint8_t *codes, bytes_row *row) {
    vf low = vf_zero(), high = vf_zero(), sum = vf_zero();
    vm all = vf_eq(low, low);
    for (int64_t i = 0; i < q->k; i += VW) {
        const vf v = ld(x + i, q->k - i);
        all = vm_and(all, vf_eq(vf_round(v), v));
        low = vf_min(low, v), high = vf_max(high, v), sum = vf_add(sum, v);
    }
    const float least = vf_hmin(low), most = vf_hmax(high);
    row->whole = vm_all(all) && q->k <= BYTES_K && least >= -255 && most <= 255 && most - least <= 255;
    if (!row->whole) return;
    row->offset = BYTES_PAIRS ? 0 : (int32_t)least + BYTES_SIGNED;
    row->add = q->more * (int32_t)vf_hsum(sum);     /* the sum is exact: less than 2^24 */
    const vf from = vf_set1((float)row->offset);
    for (int64_t i = 0; i < q->k; i += VW) {
        const vi code = vf_to_vi(vf_sub(ld(x + i, q->k - i), from));
        if (BYTES_PAIRS) vi_store_u16((uint16_t *)codes + i, vi_and(code, vi_set1(0xffff)));
        else vi_store_u8(codes + i, code);
    }
    const int64_t used = q->k * (BYTES_PAIRS + 1);
    memset(codes + used, 0, (size_t)(q->line - used));
}
/* Memory for all of it; false: there is none. */
static bool bytes_prepare(const ggml_tensor *dst, bytes_work *q) {
    const ggml_tensor *b = dst->src[1];
    *q = (bytes_work){.k = b->ne[0], .rows = gg_nrows(b), .words = gg_ceil_div(b->ne[0], 4),
                      .more = mul_mat_params(dst)->offset};
    if (gg_nelements(dst->src[0]) > BYTES_NEAR) q->ahead = MR * dst->src[0]->nb[1];
    q->line = gg_ceil_div((q->k + 2 * VW) * (BYTES_PAIRS + 1), BYTES_LINE) * BYTES_LINE;
    const int64_t sums = (BYTES_N + 1) * MR, copies = BYTES_PAIRS ? 0 : VW;
    const int64_t panel = BYTES_PAIRS ? 0 : gg_ceil_div(q->words * MR, 16) * 16;
    const size_t room = (size_t)((q->rows + 1 + copies) * q->line) + (size_t)(sums + panel + q->line) * sizeof(float);
    char *p = gg_scratch(room + (size_t)q->rows * sizeof *q->row);
    if (!p) return false;
    q->sums = (int32_t *)p, q->totals = q->sums + BYTES_N * MR;
    q->panel = (float *)(q->sums + sums), q->floats = q->panel + panel;
    q->copies = q->floats + q->line, q->codes = (uint8_t *)q->copies + copies * q->line;
    q->row = (bytes_row *)(q->codes + (q->rows + 1) * q->line);
    for (int64_t j = 0; j < q->rows; j++) {
        const int64_t i2 = j / b->ne[1] % b->ne[2], i3 = j / b->ne[1] / b->ne[2];
        const bool plain = b->type == GGML_TYPE_F32 && b->nb[0] == sizeof(float);
        bytes_row *const row = &q->row[j];
        *row = (bytes_row){.x = gg_row_ptr(b, j % b->ne[1], i2, i3),
                           .y = (float *)gg_row_ptr(dst, j % b->ne[1], i2, i3)};
        if (!plain) gg_to_floats(b->type, row->x, b->nb[0], q->k, q->floats);
        bytes_encode(q, plain ? (const float *)row->x : q->floats, q->codes + j * q->line, row);
    }
    memset(q->codes + q->rows * q->line, 0, (size_t)q->line);
    memset(q->codes + q->rows * q->line, 1, (size_t)q->k);
    return true;
}
/* Stores column j of a tile as floats. */
static void bytes_store(const bytes_work *q, const bytes_row *row, const int32_t *sums, int64_t m, float *y) {
    for (int i = 0; i < m; i += VW) {
        vi sum = vi_add(vi_load(sums + i), vi_set1(row->add));
        if (row->offset) sum = vi_add(sum, vi_mul(vi_load(q->totals + i), vi_set1(row->offset)));
        const vf v = vi_to_vf(sum);
        if (m - i >= VW) vf_store(y + i, v); else vf_storen(y + i, v, (int)(m - i));
    }
}
static void bytes_floats(const bytes_work *q, const ggml_tensor *a, int64_t i0, int64_t m, float *y) {
    for (int64_t r = 0; r < m; r++) {
        const int8_t *x = (const int8_t *)a->data + (size_t)(i0 + r) * a->nb[1];
        vf sum = vf_zero();
        int64_t i = 0;
        for (; i + VW <= q->k; i += VW)
            sum = vf_fma(vf_add(vf_load_i8(x + i), vf_set1((float)q->more)), vf_load(q->floats + i), sum);
        float rest = vf_hsum(sum);
        for (; i < q->k; i++) rest += (float)(x[i] + q->more) * q->floats[i];
        y[r] = rest;
    }
}
static int bytes_run(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *b = dst->src[1];
    bytes_work q;
    int64_t p0, p1;
    if (!bytes_prepare(dst, &q)) return gg_no_memory(dst, "no memory for panels");
    while (gg_claim_chunk(w, gg_ceil_div(a->ne[1], MR), 1, &p0, &p1))
        for (int64_t i = p0 * MR; i < gg_min(p1 * MR, a->ne[1]); i += MR) {
            const int64_t m = gg_min(a->ne[1] - i, MR);
            for (int64_t j = 0, n; j < q.rows; j += n) {
                n = bytes_columns(q.rows - j);
                bytes_sums(&q, a, i, m, j, (int)n);
                for (int64_t l = 0; l < n; l++) {
                    const bytes_row *const row = &q.row[j + l];
                    if (row->whole) {
                        bytes_store(&q, row, q.sums + l * MR, m, row->y + i);
                    } else {
                        gg_to_floats(b->type, row->x, b->nb[0], q.k, q.floats);
                        bytes_floats(&q, a, i, m, row->y + i);
                    }
                }
            }
        }
    return GGML_STATUS_SUCCESS;
}

#endif
