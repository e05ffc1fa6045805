/* MUL_MAT with a matrix of bytes (I8), to whose elements the parameter `offset` is added. Rows of b that hold whole
 * numbers whose range is 255 at most are multiplied exactly: their elements become codes, element = code + offset, and
 *     sum((a + p) * element) = sum(a * code) + offset * sum(a) + p * sum(element)
 * in int32. Where an ISA multiplies pairs of 16 bits, codes have 16 bits and the offset is 0, unless rows of a are
 * clipped (matmul_clipped.h). Other rows are multiplied in f32. With the parameter `whole`, a has floats, whose rows
 * become bytes in the same way: p is a number of each row. Threads make the codes of a large b together. */
#ifndef GG_OPS_MATMUL_BYTES_H
#define GG_OPS_MATMUL_BYTES_H
#include "../gemm/gemm.h"
#include "rows.h"
#ifdef GG_VEC_PAIRS
#include "matmul_clipped.h"
#endif

enum {
    BYTES_K = 1 << 14,              /* most elements of a row: sums of 2^14 products of 383 and 255 fit into int32 */
    BYTES_LINE = 64,
    BYTES_NEAR = 1 << 17,           /* bytes of a matrix that is not prefetched */
    BYTES_SHARED = 1 << 14,         /* least elements of b whose codes threads make together */
    BYTES_SAMPLES = 8,              /* rows of either operand that are looked at */
    BYTES_LARGE = 1 << 20,          /* least products for which they are */
#ifdef GG_VEC_PAIRS
    BYTES_PAIRS = 1,
    BYTES_PACKED = 24,              /* rows of b for which rows of a are packed */
    BYTES_N = VW == 16 ? 12 : 6,    /* columns of a register tile */
#else
    BYTES_PAIRS = 0,
    BYTES_PACKED = 0,
    BYTES_N = VW == 16 ? 12 : VW == 8 ? 4 : 8,  /* columns of a register tile of MR rows */
#endif
#if defined GG_VEC_DOT && GG_VEC_DOT < 256
    BYTES_SIGNED = 128,             /* codes are signed: this much lower */
#else
    BYTES_SIGNED = 0,
#endif
};

/* How a is read: row by row; in panels of words; in panels of words that are clipped. The codes of b have 16 bits for
 * pairs that are not clipped; NONE: they have not been made. */
typedef enum bytes_format { BYTES_NONE, BYTES_ROWS, BYTES_PANELS, BYTES_CLIPPED } bytes_format;
typedef struct bytes_row {          /* of b */
    int32_t offset, sum;            /* element - code; the sum of the elements */
    int32_t range;                  /* the largest code, where they have 8 bits */
    bool whole;
} bytes_row;
typedef struct bytes_work {
    int64_t k, line, rows, words;   /* bytes of a line of codes; rows of b that a is multiplied with; 32-bit words of a
                                     * row of a */
    int64_t lines;                  /* of codes for these rows */
    bytes_format format;
    size_t ahead;                   /* bytes between a row of a and what is prefetched; 0: a stays in the caches */
    int32_t more;                   /* what is added to a matrix of bytes */
    bytes_row *row;
    uint8_t *codes;                 /* their lines of codes */
    uint8_t *ones;                  /* a line of codes that are all 1: it sums the elements of a */
    float *copies, *panel, *floats; /* VW rows; words of rows of a, transposed; a row of floats */
#ifdef GG_VEC_PAIRS
    clipped_panel clipped;
#endif
    int32_t *sums, *totals;         /* sums of products of columns; sums of the rows of a */
    const int8_t *a;                /* the rows of a panel, and the bytes from one to the next */
    size_t nb;
    int32_t *from;                  /* what is added to the elements of each of its rows */
    bool added;                     /* any of that is not 0 */
    int8_t *narrow;                 /* of a matrix of floats: the bytes of a panel's rows */
    bool whole;                     /* all of these are whole numbers */
} bytes_work;
/* Whether codes have 16 bits. */
static inline bool bytes_wide(const bytes_work *q) { return BYTES_PAIRS && q->format != BYTES_CLIPPED; }
/* What is added to the sums of products of a vector of rows of a and a row of b; totals, from: of these rows of a. */
static inline vi bytes_more(bool wide, bool added, const int32_t *totals, const int32_t *from, const bytes_row *row) {
    const vi more = wide ? vi_set1(0) : vi_mul(vi_load(totals), vi_set1(row->offset));
    return added ? vi_add(more, vi_mul(vi_load(from), vi_set1(row->sum))) : more;
}
/* Sets the sums of a panel and n rows of b to what is added. */
static inline void bytes_begin(const bytes_work *q, const bytes_row *row, int n) {
    const bool wide = bytes_wide(q), added = q->added;  /* stores of vectors may change *q, as far as compilers know */
    const int32_t *const totals = q->totals, *const from = q->from;
    int32_t *sums = q->sums;
    for (; n > 0; n--, row++, sums += MR)
        for (int i = 0; i < MR; i += VW) vi_store(sums + i, bytes_more(wide, added, totals + i, from + i, row));
}
/* Stores the floats of m sums. */
static void bytes_store(const bytes_work *q, const bytes_row *row, const int32_t *sums, int64_t m, float *y) {
    for (int i = 0; i < m; i += VW) {
        const vi more = bytes_more(bytes_wide(q), q->added, q->totals + i, q->from + i, row);
        const vf v = vi_to_vf(vi_add(vi_load(sums + i), more));
        if (m - i >= VW) vf_store(y + i, v); else vf_storen(y + i, v, (int)(m - i));
    }
}

#ifdef GG_VEC_PAIRS
/* Where b has few rows, the lanes of a vector are elements of k, so that rows of a are read as they are. A tile is two
 * rows and up to BYTES_N columns, whose sums fill the registers, or BYTES_M rows and one column. Tiles of at most
 * BYTES_FEW columns compute four steps, which read a line of the cache, in succession. */
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
GG_INLINE void bytes_rows_tile(const int m, const int n, const bytes_work *q, const int8_t *const *x,
                               const uint8_t *codes, int32_t *sums) {
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
typedef void (*bytes_rows_fn)(const bytes_work *q, const int8_t *const *x, const uint8_t *codes, int32_t *sums);
#define BYTES(n, v) \
    static void bytes_rows_##n(const bytes_work *q, const int8_t *const *x, const uint8_t *codes, int32_t *sums) { \
        bytes_rows_tile(n > 1 ? 2 : BYTES_M, n < BYTES_N ? n : BYTES_N, q, x, codes, sums); \
    }
MICRO_SIZES(BYTES, 2)
#undef BYTES
#define BYTES(n, v) [n] = n <= BYTES_N ? bytes_rows_##n : NULL,
static const bytes_rows_fn bytes_rows_table[] = {MICRO_SIZES(BYTES, 2)};
#undef BYTES

/* Prefetches bytes k0 to k1 of the rows of a tile that follows MR rows later than the one at x. */
static inline void bytes_prefetch(const bytes_work *q, const char *x, size_t nb, int64_t k0, int64_t k1) {
    if (!q->ahead) return;
    x += q->ahead;
    for (int r = 0; r < 2; r++, x += nb)
        for (int64_t k = k0; k < k1; k += BYTES_LINE) __builtin_prefetch(x + k);
}
/* The products of the m rows of a panel and rows j to j+n of b, which lie ldy floats apart. */
static void bytes_rows_products(const bytes_work *q, int64_t m, int64_t j, int n, float *y, int64_t ldy) {
    const bool all = n == q->rows;              /* otherwise the tiles of all columns share the prefetches of a row */
    const int64_t k0 = all ? 0 : q->k * j / q->rows, k1 = all ? q->k : q->k * (j + n) / q->rows;
    for (int64_t r = 0; r < m; r += bytes_rows(n)) {
        const int8_t *x[BYTES_M];
        for (int i = 0; i < bytes_rows(n); i++) x[i] = q->a + (size_t)gg_min(r + i, m - 1) * q->nb;
        if (n > BYTES_FEW) bytes_prefetch(q, (const char *)x[0], q->nb, k0, k1);
        bytes_rows_table[n](q, x, q->codes + j * q->line, q->sums + r);
    }
    for (int l = 0; l < n; l++) bytes_store(q, &q->row[j + l], q->sums + l * MR, m, y + l * ldy);
}
/* The same of a panel that is clipped, n <= VW. */
static void bytes_clipped_products(const bytes_work *q, int64_t m, int64_t j, int n, float *y, int64_t ldy) {
    const int32_t *const codes = (const int32_t *)(const void *)(q->codes + j * q->line);
    for (int l = 0; l < n; l++) __builtin_prefetch(y + l * ldy, 1), __builtin_prefetch(y + l * ldy + m - 1, 1);
    bytes_begin(q, q->row + j, n);
    if (clipped_any(&q->clipped)) clipped_lists(&q->clipped, codes, q->sums);
    for (int l = 0; l < n; l += CLIPPED_N, y += CLIPPED_N * ldy) {
        float *const sums = (float *)(void *)(q->sums + l * MR);
        const bool direct = m == MR && n - l >= CLIPPED_N;
        clipped_tile(&q->clipped, codes + l, q->sums + l * MR, direct ? y : sums, direct ? ldy : MR);
        for (int i = 0; !direct && i < gg_min(n - l, CLIPPED_N); i++)
            memcpy(y + i * ldy, sums + i * MR, (size_t)m * sizeof *y);
    }
}
#endif

/* acc + the products of the codes of each lane */
GG_INLINE vi bytes_dot(vi acc, vi u, vi s) {
#if defined GG_VEC_PAIRS
    return vi_madd_pairs(acc, u, s);
#elif defined GG_VEC_DOT
    return vi_dot(acc, u, s);
#else
    acc = vi_add(acc, vi_mul(vi_srl(u, 24), vi_sra(s, 24)));
    acc = vi_add(acc, vi_mul(vi_and(vi_srl(u, 16), vi_set1(255)), vi_sra(vi_shl(s, 8), 24)));
    acc = vi_add(acc, vi_mul(vi_and(vi_srl(u, 8), vi_set1(255)), vi_sra(vi_shl(s, 16), 24)));
    return vi_add(acc, vi_mul(vi_and(u, vi_set1(255)), vi_sra(vi_shl(s, 24), 24)));
#endif
}
/* The products of a panel and n lines of codes, which lie ldy floats apart; q->sums are added. */
GG_INLINE void bytes_tile(const int n, const bytes_work *q, const uint8_t *codes, float *y, int64_t ldy) {
    vi sum[BYTES_N][MV];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < MV; i++) sum[j][i] = vi_load(q->sums + j * MR + i * VW);
    const int32_t *a = (const int32_t *)q->panel;
    for (int64_t w = 0; w < q->words; w++, a += MR, codes += 4) {
        vi x[MV];
        GG_UNROLL for (int i = 0; i < MV; i++) x[i] = vi_load(a + i * VW);
        GG_UNROLL for (int j = 0; j < n; j++) {
            int32_t word;
            memcpy(&word, codes + j * q->line, sizeof word);
            const vi b = vi_set1(word);
            GG_UNROLL for (int i = 0; i < MV; i++) sum[j][i] = bytes_dot(sum[j][i], b, x[i]);
        }
    }
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < MV; i++) vf_store(y + j * ldy + i * VW, vi_to_vf(sum[j][i]));
}
#define BYTES(name, n) \
    static void bytes_tile_##name(const bytes_work *q, const uint8_t *codes, float *y, int64_t ldy) { \
        bytes_tile(n, q, codes, y, ldy); \
    }
BYTES(most, BYTES_N)
BYTES(4, 4)
BYTES(1, 1)
#undef BYTES

/* The columns of the next tile: of a panel, or groups of nearly equal size; or of several tiles. */
static inline int64_t bytes_columns(const bytes_work *q, int64_t left) {
    if (q->format == BYTES_ROWS) return gg_ceil_div(left, gg_ceil_div(left, BYTES_N));
    if (q->format == BYTES_CLIPPED) return gg_min(left, VW);
    return left >= BYTES_N ? BYTES_N : left >= 4 ? 4 : 1;
}
/* Packs the m rows of a panel, and sums each. */
static void bytes_pack(const bytes_work *q, int64_t m) {
    for (int g = 0; g < MV; g++) {
        const float *row[VW];
        for (int i = 0; i < VW; i++) {
            char *const copy = (char *)q->copies + i * q->line;
            const int8_t *const x = q->a + (size_t)gg_min(g * VW + i, m - 1) * q->nb;
            row[i] = (const float *)copy;
#ifdef GG_VEC_PAIRS
            int64_t k = 0;
            for (; k + 2 * VW <= q->k; k += 2 * VW) vi_store((int32_t *)copy + k / 2, vi_load_pairs(x + k));
            for (; k < 2 * q->words; k++) ((int16_t *)copy)[k] = k < q->k ? x[k] : 0;
#else
            if (q->k % 4 == 0 && (uintptr_t)x % 4 == 0) {
                row[i] = (const float *)x;
                continue;
            }
            memcpy(copy, x, (size_t)q->k);
            memset(copy + q->k, 0, (size_t)(q->words * 4 - q->k));
#endif
        }
        pack_transpose(row, q->words, q->panel + g * VW, MR);
    }
    if (BYTES_PAIRS) return;
    float *const totals = (float *)q->totals;            /* exact as floats */
    memset(q->sums, 0, MR * sizeof *q->sums);
    bytes_tile_1(q, q->ones, totals, MR);
    for (int i = 0; i < MR; i += VW) vi_store(q->totals + i, vf_to_vi(vf_load(totals + i)));
}
#if defined GG_VEC_DOT && !defined GG_VEC_PAIRS
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
/* The products of the m rows of a panel, which the first call for them packs, and rows j to j+n of b, which lie ldy
 * floats apart. */
static void bytes_products(bytes_work *q, int64_t m, int64_t j, int n, float *y, int64_t ldy) {
    const bytes_row *const row = q->row + j;
#if defined GG_VEC_PAIRS
    if (!j && q->format == BYTES_CLIPPED) clipped_pack(&q->clipped, q->a, q->nb, m, q->totals);
    if (q->format != BYTES_PANELS) {
        (q->format == BYTES_CLIPPED ? bytes_clipped_products : bytes_rows_products)(q, m, j, n, y, ldy);
        return;
    }
#elif defined GG_VEC_DOT
    for (int64_t r = 0; q->rows == 1 && r < m; r += 4) {
        const int8_t *x[4];
        for (int i = 0; i < 4; i++) x[i] = q->a + (size_t)gg_min(r + i, m - 1) * q->nb;
        bytes_vector(q, x, q->codes, q->sums + r, q->totals + r);
    }
    if (q->rows == 1) {
        bytes_store(q, row, q->sums, m, y);
        return;
    }
#endif
    if (!j) bytes_pack(q, m);
    const bool direct = m == MR;
    float *const z = direct ? y : (float *)q->sums;
    bytes_begin(q, row, n);
    (n == BYTES_N ? bytes_tile_most : n == 4 ? bytes_tile_4 : bytes_tile_1)
        (q, q->codes + j * q->line, z, direct ? ldy : MR);
    for (int l = 0; !direct && l < n; l++) memcpy(y + l * ldy, z + l * MR, (size_t)m * sizeof *y);
}

/* What is known of k elements: the smallest, the largest and 0 lie from least to most. The sum is exact of BYTES_K
 * elements at most that are whole. */
typedef struct bytes_range { float least, most, sum; bool whole; } bytes_range;
static bytes_range bytes_range_of(const float *x, int64_t k) {
    vf low[2] = {vf_zero(), vf_zero()}, high[2] = {vf_zero(), vf_zero()}, sum[2] = {vf_zero(), vf_zero()};
    vm all = vf_eq(low[0], low[0]);
    int64_t i = 0;
    for (; i + 2 * VW <= k; i += 2 * VW)
        GG_UNROLL for (int j = 0; j < 2; j++) {
            const vf v = vf_load(x + i + j * VW);
            all = vm_and(all, vf_eq(vf_round(v), v));
            low[j] = vf_min(low[j], v), high[j] = vf_max(high[j], v), sum[j] = vf_add(sum[j], v);
        }
    for (; i < k; i += VW) {
        const vf v = ld(x + i, k - i);
        all = vm_and(all, vf_eq(vf_round(v), v));
        low[0] = vf_min(low[0], v), high[0] = vf_max(high[0], v), sum[0] = vf_add(sum[0], v);
    }
    bytes_range r = {.least = vf_hmin(vf_min(low[0], low[1])), .most = vf_hmax(vf_max(high[0], high[1])),
                     .sum = vf_hsum(vf_add(sum[0], sum[1]))};
    r.whole = vm_all(all) && r.least >= -255 && r.most <= 255 && r.most - r.least <= 255;
    return r;
}
/* Makes the codes of a row of floats. */
static void bytes_encode(const bytes_work *q, const float *x, uint8_t *codes, bytes_row *row) {
    const bytes_range r = bytes_range_of(x, q->k);
    *row = (bytes_row){.whole = r.whole && q->k <= BYTES_K};
    if (!row->whole) {
        memset(codes, 0, (size_t)q->line);
        return;
    }
    row->offset = bytes_wide(q) ? 0 : (int32_t)r.least + BYTES_SIGNED;
    row->sum = (int32_t)r.sum, row->range = (int32_t)(r.most - r.least);
    const vf from = vf_set1((float)row->offset);
    for (int64_t i = 0; i < q->k; i += VW) {
        const vi code = vf_to_vi(vf_sub(ld(x + i, q->k - i), from));
        if (bytes_wide(q)) vi_store_u16((uint16_t *)codes + i, vi_and(code, vi_set1(0xffff)));
        else vi_store_u8(codes + i, code);
    }
    const int64_t used = q->k * (bytes_wide(q) + 1);
    memset(codes + used, 0, (size_t)(q->line - used));
}
static const char *bytes_nth_row(const ggml_tensor *t, int64_t n) {
    return gg_row_ptr(t, n % t->ne[1], n / t->ne[1] % t->ne[2], n / t->ne[1] / t->ne[2]);
}
/* A row of a tensor as floats that lie side by side: where it is, or in q->floats. */
static const float *bytes_as_floats(const bytes_work *q, const ggml_tensor *t, const char *row) {
    if (t->type == GGML_TYPE_F32 && t->nb[0] == sizeof(float)) return (const float *)row;
    gg_to_floats(t->type, row, t->nb[0], q->k, q->floats);
    return q->floats;
}
/* Makes the codes of n rows of b from row j on. row: of row 0; codes: of row j. */
static void bytes_encode_rows(const bytes_work *q, const ggml_tensor *b, int64_t j, int64_t n, bytes_row *row,
                              uint8_t *codes) {
    for (const int64_t end = j + n; j < end; j++, codes += q->line)
        bytes_encode(q, bytes_as_floats(q, b, bytes_nth_row(b, j)), codes, &row[j]);
}
/* Makes the lines u0 to u1 of codes; codes: line 0. Each matrix begins a group of lines that is transposed. */
static void bytes_encode_lines(const bytes_work *q, const ggml_tensor *b, int64_t u0, int64_t u1, bytes_row *row,
                               uint8_t *codes) {
#ifdef GG_VEC_PAIRS
    if (q->format == BYTES_CLIPPED) {
        for (int64_t u = u0; u < u1; u += VW) {
            const int64_t i = u % q->lines, n = gg_min(q->rows - i, VW);
            bytes_encode_rows(q, b, u / q->lines * q->rows + i, n, row, (uint8_t *)q->copies);
            memset((uint8_t *)q->copies + n * q->line, 0, (size_t)((VW - n) * q->line));
            clipped_transpose(q->k, (uint8_t *)q->copies, q->line, (int32_t *)(void *)(codes + u * q->line));
        }
        return;
    }
#endif
    bytes_encode_rows(q, b, u0, u1 - u0, row, codes + u0 * q->line);
}
/* Row i of the matrix of a that matrix n of b is multiplied with. */
static const char *bytes_row_of(const ggml_tensor *dst, int64_t i, int64_t n) {
    const ggml_tensor *const a = dst->src[0], *const b = dst->src[1];
    return gg_row_ptr(a, i, n % b->ne[2] / (b->ne[2] / a->ne[2]), n / b->ne[2] / (b->ne[3] / a->ne[3]));
}
/* Makes bytes of m rows of floats: 0 becomes 0 if it can, so that the bytes are small. */
static void bytes_narrow(bytes_work *q, const ggml_tensor *a, const char *row, int64_t m) {
    q->whole = q->added = true, q->a = q->narrow, q->nb = (size_t)q->line;
    for (int64_t r = 0; r < m && q->whole; r++, row += a->nb[1]) {
        const float *const x = bytes_as_floats(q, a, row);
        const bytes_range range = bytes_range_of(x, q->k);
        int8_t *const y = q->narrow + r * q->line;
        q->whole = range.whole && q->k <= BYTES_K;
        q->from[r] = (int32_t)gg_max(range.most - 127, gg_min(range.least + 128, 0));
        const vf from = vf_set1((float)q->from[r]);
        for (int64_t i = 0; i < q->k && q->whole; i += VW)
            vi_store_u8((uint8_t *)y + i, vf_to_vi(vf_sub(ld(x + i, q->k - i), from)));
        memset(y + q->k, 0, (size_t)(q->line - q->k));
    }
}
/* Memory: for the rows of b, which threads may share, and of a thread. */
static void bytes_set_format(bytes_work *q, bytes_format format) {
    q->format = format;
    q->words = gg_ceil_div(q->k, bytes_wide(q) ? 2 : 4);
    q->lines = format == BYTES_CLIPPED ? gg_ceil_div(q->rows, VW) * VW : q->rows;
    q->line = gg_ceil_div((q->k + 2 * VW) * (bytes_wide(q) + 1), BYTES_LINE) * BYTES_LINE;
}
static bytes_work bytes_layout(const ggml_tensor *dst) {
    const ggml_tensor *const b = dst->src[1];
    bytes_work q = {.k = b->ne[0], .rows = mul_mat_params(dst)->whole ? b->ne[1] : gg_nrows(b)};
    bytes_set_format(&q, BYTES_PAIRS && q.rows < BYTES_PACKED ? BYTES_ROWS : BYTES_PANELS);
    return q;
}
static int64_t bytes_lines(const bytes_work *q, const ggml_tensor *b) {
    return q->rows ? gg_nrows(b) / q->rows * q->lines : 0;
}
/* Bytes of what is known of the rows of b, and of this with their codes in any format. */
static size_t bytes_rows_room(const ggml_tensor *b) {
    return (size_t)(gg_ceil_div(gg_nrows(b) * (int64_t)sizeof(bytes_row), BYTES_LINE) * BYTES_LINE);
}
static size_t bytes_room(bytes_work q, const ggml_tensor *b) {
    int64_t codes = bytes_lines(&q, b) * q.line;
    if (BYTES_PAIRS && q.format == BYTES_PANELS) {
        bytes_set_format(&q, BYTES_CLIPPED);
        codes = gg_max(codes, bytes_lines(&q, b) * q.line);
    }
    return bytes_rows_room(b) + (size_t)codes;
}
static bool bytes_fits(const ggml_tensor *dst) {
    return dst->op == GGML_OP_MUL_MAT && (dst->src[0]->type == GGML_TYPE_I8 || mul_mat_params(dst)->whole);
}
static bool bytes_shares(const ggml_tensor *dst, int nth) {
    return nth > 1 && gg_nelements(dst->src[1]) >= BYTES_SHARED;
}
/* Of the format of each thread's codes. */
static int64_t bytes_formats(int nth) {
    return gg_ceil_div(nth * (int64_t)sizeof(bytes_format), BYTES_LINE) * BYTES_LINE;
}
static size_t bytes_work_size(const ggml_tensor *dst, int nth) {
    return bytes_shares(dst, nth) ? (size_t)bytes_formats(nth) + bytes_room(bytes_layout(dst), dst->src[1]) : 0;
}
#ifdef GG_VEC_PAIRS
/* The largest code of the rows of b. */
static int32_t bytes_largest(const bytes_work *q) {
    int32_t range = 0;
    for (int64_t j = 0; j < q->rows; j++) range = gg_max(range, q->row[j].range);
    return range;
}
/* Whether clipping pays, as far as a few rows of either operand tell. */
static bool bytes_clips(bytes_work *q, const ggml_tensor *dst) {
    const ggml_tensor *const a = dst->src[0], *const b = dst->src[1];
    const bool whole = mul_mat_params(dst)->whole;
    float range = 0;
    int64_t clipped = 0;
    for (int64_t i = 0; i < BYTES_SAMPLES; i++) {
        const char *const x = bytes_nth_row(b, gg_nrows(b) * i / BYTES_SAMPLES);
        const bytes_range r = bytes_range_of(bytes_as_floats(q, b, x), q->k);
        if (r.whole) range = gg_max(range, r.most - r.least);
    }
    q->clipped.most = clipped_most((int32_t)range);
    for (int64_t i = 0; i < BYTES_SAMPLES; i++) {
        const char *x = bytes_nth_row(a, gg_nrows(a) * i / BYTES_SAMPLES);
        if (whole) bytes_narrow(q, a, x, 1);
        clipped += clipped_count(&q->clipped, whole ? q->narrow : (const int8_t *)x);
    }
    /* less than 2 of 5 words; with few columns or a small k, a smaller share: fitted to measurements */
    return 5 * clipped * (q->rows + 96) < BYTES_SAMPLES * q->rows * (2 * q->clipped.half - 15);
}
#endif
/* Memory for all of it; false: there is none. */
static bool bytes_prepare(const gg_work *w, const ggml_tensor *dst, bytes_work *q) {
    const ggml_tensor *const b = dst->src[1];
    const bool whole = mul_mat_params(dst)->whole, shared = bytes_shares(dst, w->nth);
    *q = bytes_layout(dst);
    q->more = whole ? 0 : mul_mat_params(dst)->offset;
    if (!whole && gg_nelements(dst->src[0]) > BYTES_NEAR) q->ahead = MR * dst->src[0]->nb[1];
    const bool packs = q->format != BYTES_ROWS;
    const int64_t columns = gg_max(BYTES_N, VW), copies = packs ? VW : 0, narrow = whole ? MR : 0;
    const int64_t panel = packs ? gg_ceil_div(q->words * MR, 16) * 16 : 0;
    const int64_t lines = (1 + copies + narrow) * q->line, words = (columns + 2) * MR + panel + 2 * q->line;
    size_t room = (size_t)gg_ceil_div(lines + words * (int64_t)sizeof(float), BYTES_LINE) * BYTES_LINE;
#ifdef GG_VEC_PAIRS
    const size_t clipped = room;
    const bool clips = packs && q->k <= BYTES_K && q->k * q->rows * dst->src[0]->ne[1] >= BYTES_LARGE;
    if (clips) room += clipped_room(q->k);
#endif
    char *const p = gg_scratch(room + (shared ? 0 : bytes_room(*q, b)));
    if (!p) return false;
    q->sums = (int32_t *)p, q->totals = q->sums + columns * MR, q->from = q->totals + MR;
    q->panel = (float *)(q->from + MR), q->floats = q->panel + panel;
    q->copies = q->floats + 2 * q->line, q->ones = (uint8_t *)q->copies + copies * q->line;
    q->narrow = (int8_t *)q->ones + q->line;
#ifdef GG_VEC_PAIRS
    if (clips) q->clipped = clipped_panel_in(p + clipped, q->k);
#endif
    q->row = (bytes_row *)(shared ? (char *)w->wdata + bytes_formats(w->nth) : p + room);
    q->codes = (uint8_t *)q->row + bytes_rows_room(b);
    q->whole = true, q->added = q->more;
    for (int r = 0; r < MR; r++) q->from[r] = q->more;
    memset(q->ones, 0, (size_t)q->line);
    memset(q->ones, 1, (size_t)q->k);
#ifdef GG_VEC_PAIRS
    if (clips && bytes_clips(q, dst)) bytes_set_format(q, BYTES_CLIPPED);
#endif
    return true;
}
/* The products of m rows of a and a row of floats. */
static void bytes_floats(const bytes_work *q, int64_t m, const float *z, float *y) {
    for (int64_t r = 0; r < m; r++) {
        const int8_t *x = q->a + (size_t)r * q->nb;
        vf sum = vf_zero();
        int64_t i = 0;
        for (; i + VW <= q->k; i += VW)
            sum = vf_fma(vf_add(vf_load_i8(x + i), vf_set1((float)q->more)), vf_load(z + i), sum);
        float rest = vf_hsum(sum);
        for (; i < q->k; i++) rest += (float)(x[i] + q->more) * z[i];
        y[r] = rest;
    }
}
/* The same of rows of floats. */
static void bytes_rows_floats(const bytes_work *q, const ggml_tensor *a, const char *row, int64_t m, const float *z,
                              float *y) {
    float *const x = q->floats + q->line;
    for (int64_t r = 0; r < m; r++, row += a->nb[1]) {
        vf sum = vf_zero();
        gg_to_floats(a->type, row, a->nb[0], q->k, x);
        for (int64_t i = 0; i < q->k; i += VW) sum = vf_fma(ld(x + i, q->k - i), ld(z + i, q->k - i), sum);
        y[r] = vf_hsum(sum);
    }
}
/* The products of m rows of a, of which row i of its matrix, at x, is the first, with rows of b from row j0 on. */
static void bytes_panel(bytes_work *q, ggml_tensor *dst, const char *x, int64_t i, int64_t m, int64_t j0) {
    const ggml_tensor *const a = dst->src[0], *const b = dst->src[1];
    const bool whole = mul_mat_params(dst)->whole;
    const int64_t ldy = dst->ne[0];
    float *y = (float *)dst->data + j0 * ldy + i;
    if (whole) bytes_narrow(q, a, x, m);
    else q->a = (const int8_t *)x, q->nb = a->nb[1];
    for (int64_t j = 0, n; j < q->rows; j += n) {
        n = bytes_columns(q, q->rows - j);
        if (q->whole) bytes_products(q, m, j, (int)n, y, ldy);
        for (int64_t l = j; l < j + n; l++, y += ldy) {
            if (q->row[l].whole && q->whole) continue;
            gg_to_floats(b->type, bytes_nth_row(b, j0 + l), b->nb[0], q->k, q->floats);
            if (whole) bytes_rows_floats(q, a, x, m, q->floats, y);
            else bytes_floats(q, m, q->floats, y);
        }
    }
}
static int bytes_run(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *const a = dst->src[0], *const b = dst->src[1];
    const int64_t panels = gg_ceil_div(a->ne[1], MR);
    const bool shared = bytes_shares(dst, w->nth);
    bytes_work q;
    bool ok = bytes_prepare(w, dst, &q);
    bytes_row *const row = q.row;
    uint8_t *const codes = q.codes;
    if (shared) {
        const int64_t each = q.format == BYTES_CLIPPED ? VW : 1, n = bytes_lines(&q, b) / each;
        bytes_format *const made = w->wdata;
        bool held = w->packed;
        for (int t = 0; t < w->nth; t++) held = held && made[t] == q.format;
        if (w->packed) gg_barrier(w);                       /* other threads may still compare the formats */
        made[w->ith] = ok ? q.format : BYTES_NONE;
        if (ok && !held)
            bytes_encode_lines(&q, b, n * w->ith / w->nth * each, n * (w->ith + 1) / w->nth * each, row, codes);
        gg_barrier(w);
        for (int t = 0; t < w->nth; t++) ok &= made[t] != BYTES_NONE;
    }
    if (!ok) return gg_no_memory(dst, "no memory for panels");
    int64_t there = -1;                                  /* the first of the rows whose codes this thread looked at */
    for (int64_t u, end; gg_claim_chunk(w, gg_nrows(b) / q.rows * panels, 1, &u, &end);)
        for (; u < end; u++) {
            const int64_t matrix = u / panels, j0 = matrix * q.rows, l0 = matrix * q.lines, i = u % panels * MR;
            if (!shared && j0 != there) bytes_encode_lines(&q, b, l0, l0 + q.lines, row, codes);
            q.row = row + j0, q.codes = codes + l0 * q.line;
#ifdef GG_VEC_PAIRS
            if (j0 != there && q.format == BYTES_CLIPPED) q.clipped.most = clipped_most(bytes_largest(&q));
#endif
            there = j0;
            bytes_panel(&q, dst, bytes_row_of(dst, i, j0 / b->ne[1]), i, gg_min(a->ne[1] - i, MR), j0);
        }
    return GGML_STATUS_SUCCESS;
}

#endif
