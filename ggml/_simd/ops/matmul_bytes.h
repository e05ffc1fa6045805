/* MUL_MAT with a matrix of bytes (I8), to whose elements op_params[2] is added. Rows of b that hold whole numbers whose
 * range is 255 at most are multiplied exactly: their elements become codes of 8 bits, element = code + offset, and
 *     sum((a + p) * element) = sum(a * code) + offset * sum(a) + p * sum(element)
 * in int32. Other rows are multiplied in f32. */
#ifndef GG_OPS_MATMUL_BYTES_H
#define GG_OPS_MATMUL_BYTES_H
#include "../gemm/gemm.h"
#include "rows.h"

enum {
    BYTES_K = 1 << 14,              /* most elements of a row: sums of 2^14 products of 383 and 255 fit into int32 */
    BYTES_N = VW == 16 ? 12 : VW == 8 ? 4 : 8,  /* columns of a register tile of MR rows */
    BYTES_LINE = 64,
#if defined GG_VEC_DOT && GG_VEC_DOT < 256
    BYTES_SIGNED = 128,             /* codes are signed: this much lower */
#else
    BYTES_SIGNED = 0,
#endif
#ifdef GG_VEC_PAIRS
    BYTES_RAISED = 128,             /* bytes of a are unsigned in products: this much higher */
#else
    BYTES_RAISED = 0,
#endif
};

typedef struct bytes_row { int32_t add, offset; bool whole; } bytes_row;   /* add: corrects the sum of products */
typedef struct bytes_work {
    int64_t k, line, rows, words;   /* bytes of a line of codes; rows of b; 32-bit words of a line */
    int32_t more;                   /* what is added to a */
    bytes_row *row;                 /* the last one is all 1, as are its codes: it sums the elements of a */
    uint8_t *codes;
    float *copies, *panel, *floats; /* rows of a; their words, transposed; a row of b */
    int32_t *sums, *totals;         /* sums of products of BYTES_N columns; sums of the rows of a */
} bytes_work;

/* acc + the four products of bytes of each lane */
GG_INLINE vi bytes_dot(vi acc, vi u, vi s) {
#if defined GG_VEC_DOT
    return vi_dot(acc, u, s);
#elif defined GG_VEC_PAIRS
    const vi low = vi_set1(0x00ff00ff);
    s = vi_xor(s, vi_set1((int32_t)0x80808080));
    acc = vi_madd_pairs(acc, vi_and(u, low), vi_and(s, low));
    return vi_madd_pairs(acc, vi_and(vi_srl(u, 8), low), vi_and(vi_srl(s, 8), low));
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

/* Makes the codes of a row of floats. */
static void bytes_encode(const bytes_work *q, const float *x, uint8_t *codes, bytes_row *row) {
    vf low = vf_zero(), high = vf_zero();
    bool whole = true;
    for (int64_t i = 0; i < q->k; i += VW) {
        const vf v = q->k - i >= VW ? vf_load(x + i) : vf_loadn(x + i, (int)(q->k - i));
        whole = whole && vm_all(vf_eq(vf_round(v), v));
        low = vf_min(low, v), high = vf_max(high, v);
    }
    const float least = vf_hmin(low);
    *row = (bytes_row){.whole = whole && q->k <= BYTES_K && least >= -255 && vf_hmax(high) <= 255
                                && vf_hmax(high) - least <= 255};
    if (!row->whole) return;
    row->offset = (int32_t)least + BYTES_SIGNED;
    const vf from = vf_set1((float)row->offset);
    for (int64_t i = 0; i < q->k; i += VW) {
        const vf v = q->k - i >= VW ? vf_load(x + i) : vf_loadn(x + i, (int)(q->k - i));
        vi_store_u8(codes + i, vf_to_vi(vf_sub(v, from)));
    }
    memset(codes + q->k, 0, (size_t)(q->line - q->k));
    int32_t sum = 0;
    for (int64_t i = 0; i < q->k; i++) sum += BYTES_SIGNED ? (int8_t)codes[i] : codes[i];
    row->add = q->more * (sum + (int32_t)q->k * row->offset) - BYTES_RAISED * sum;
}
/* Memory for all of it; false: there is none. */
static bool bytes_prepare(const ggml_tensor *dst, bytes_work *q) {
    const ggml_tensor *b = dst->src[1];
    *q = (bytes_work){.k = b->ne[0], .rows = gg_nrows(b), .words = gg_ceil_div(b->ne[0], 4),
                      .more = dst->op_params[2]};
    q->line = gg_ceil_div(q->k + VW, BYTES_LINE) * BYTES_LINE;
    const int64_t sums = (BYTES_N + 1) * MR, panel = gg_ceil_div(q->words * MR, 16) * 16;
    const size_t room = (size_t)((q->rows + 1 + VW) * q->line) + (size_t)(sums + panel) * 4 + (size_t)q->line * 4;
    char *p = gg_scratch(room + (size_t)(q->rows + 1) * sizeof *q->row);
    if (!p) return false;
    q->sums = (int32_t *)p, q->totals = q->sums + BYTES_N * MR;
    q->panel = (float *)(q->sums + sums), q->floats = q->panel + panel;
    q->copies = q->floats + q->line, q->codes = (uint8_t *)q->copies + VW * q->line;
    q->row = (bytes_row *)(q->codes + (q->rows + 1) * q->line);
    for (int64_t j = 0; j < q->rows; j++) {
        const int64_t i2 = j / b->ne[1] % b->ne[2], i3 = j / b->ne[1] / b->ne[2];
        gg_to_floats(b->type, gg_row_ptr(b, j % b->ne[1], i2, i3), b->nb[0], q->k, q->floats);
        bytes_encode(q, q->floats, q->codes + j * q->line, &q->row[j]);
    }
    memset(q->codes + q->rows * q->line, 0, (size_t)q->line);
    memset(q->codes + q->rows * q->line, 1, (size_t)q->k);
    q->row[q->rows] = (bytes_row){.add = (int32_t)(-BYTES_RAISED * q->k)};
    return true;
}
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
    for (int i = 0; i < MR; i++) q->totals[i] = q->sums[i] + q->row[q->rows].add;
}
/* Stores column j of a tile as floats. */
static void bytes_store(const bytes_work *q, const bytes_row *row, const int32_t *sums, int64_t m, float *y) {
    for (int i = 0; i < m; i += VW) {
        const vi total = vi_mul(vi_load(q->totals + i), vi_set1(row->offset));
        const vf v = vi_to_vf(vi_add(vi_add(vi_load(sums + i), vi_set1(row->add)), total));
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
            bytes_pack(&q, a, i, m);
            for (int64_t j = 0, n; j < q.rows; j += n) {
                n = q.rows - j >= BYTES_N ? BYTES_N : q.rows - j >= 4 ? 4 : 1;
                (n == BYTES_N ? bytes_tile_most : n == 4 ? bytes_tile_4 : bytes_tile_1)(&q, q.codes + j * q.line);
                for (int64_t l = 0; l < n; l++) {
                    const int64_t i1 = (j + l) % b->ne[1], i2 = (j + l) / b->ne[1] % b->ne[2],
                        i3 = (j + l) / b->ne[1] / b->ne[2];
                    float *const y = (float *)gg_row_ptr(dst, i1, i2, i3) + i;
                    if (q.row[j + l].whole) {
                        bytes_store(&q, &q.row[j + l], q.sums + l * MR, m, y);
                    } else {
                        gg_to_floats(b->type, gg_row_ptr(b, i1, i2, i3), b->nb[0], q.k, q.floats);
                        bytes_floats(&q, a, i, m, y);
                    }
                }
            }
        }
    return GGML_STATUS_SUCCESS;
}

#endif
