/* A quantised matrix times a few columns, where the type has gg_ints.times: VW rows are unpacked to registers and
 * multiplied by up to GG_TIMES_MOST columns without panels of rows, which would take longer to pack than to multiply.
 *
 * The panel of the columns has, for each scale group, the words of codes of one column after the other, then the scale
 * e of each column, then for each column -bias (sum of its codes p) or, if the type has minima, -e (sum of p). Codes
 * and scales are those of the panel format "groups" (gemm.h). There are 1, 2, 4, 6 or 8 columns; the last one may be
 * empty. */
#ifndef GG_GEMM_INT8_FEW_H
#define GG_GEMM_INT8_FEW_H
#include "gemv.h"
#include "int8_groups.h"
#if GG_VEC_INT8

enum {
    FEW_BATCH = VW,                 /* scale groups that are rounded together */
    FEW_ROWS = VW,
};

static inline bool few_fits(const gemm *g) {
    const gg_ints *const ints = gemm_has_ints(&g->a) ? &g->a.kernels->ints[g->a.type] : NULL;
    return FEW_MAX_N && ints && ints->times && g->n >= ints->times_least && g->n <= FEW_MAX_N && g->m >= FEW_ROWS
        && g->k > 0 && !g->exact && g->a.pack == pack_along_k && g->b.pack != pack_blocks_along_i
        && g->c_m == sizeof(float) && !g->add;
}

/* out[i] = the reduction of the lanes of x[i] */
typedef vi (*few_fold_fn)(vi a, vi b);
static inline vi few_max(vi a, vi b) { return vi_select(vi_gt(a, b), a, b); }
GG_INLINE vi few_lanes(few_fold_fn fold, float x[FEW_BATCH][VW]) {
    const float *row[VW];
    vi all = vi_set1(0);
    for (int i = 0; i < VW; i++) row[i] = x[i];
    for (int k = 0; k < VW; k += 4) {
        vf t[4];
        vf_transpose4(row, k, t);
        for (int i = 0; i < 4; i++) all = fold(all, vf_bits(t[i]));
    }
    return all;
}
/* Rounds `count` scale groups of a column; group s goes to out + s * stride, its scale to e + s * stride. */
static void few_round(const gg_ints *ints, const float *x, int count, int32_t *out, int32_t *e, int64_t stride,
                      int columns) {
    float lanes[FEW_BATCH][VW] __attribute__((aligned(64))) = {{0}}, inverse[VW];
    const int vectors = ints->group / VW;
    for (int s = 0; s < count; s++) {
        vi max = vi_set1(0);
        for (int i = 0; i < vectors; i++)       /* magnitudes are ordered like their bits, NaN last */
            max = few_max(max, vf_bits(vf_abs(vf_load(x + (s * vectors + i) * VW))));
        vf_store(lanes[s], vi_float(max));
    }
    const vf max = vi_float(few_max(few_lanes(few_max, lanes), vf_bits(vf_set1(GG_LEAST_MAGNITUDE))));
    const vf scale = vf_mul(max, vf_set1(1.0f / INT8_MOST));
    vf_store(inverse, vf_div(vf_set1(INT8_MOST), max));
    for (int s = 0; s < count; s++) {
        vi sum = vi_set1(0);
        for (int i = 0; i < vectors; i++) {
            const vi p = vf_to_vi(vf_mul(vf_load(x + (s * vectors + i) * VW), vf_set1(inverse[s])));
            vi_store_u8((uint8_t *)(out + s * stride) + i * VW, p);
            sum = vi_add(sum, p);
        }
        vf_store(lanes[s], vi_float(sum));
    }
    const vi sums = few_lanes(vi_add, lanes);
    int32_t scales[VW], last[VW];
    vi_store(scales, vf_bits(scale));
    vi_store(last, ints->minima ? vf_bits(vf_neg(vf_mul(scale, vi_to_vf(sums)))) : vi_mul(sums, vi_set1(-ints->bias)));
    for (int s = 0; s < count; s++) e[s * stride] = scales[s], e[s * stride + columns] = last[s];
}

/* The columns are divided into panels of about equal size. */
static inline int few_panels(const gemm *g) { return (int)gg_ceil_div(g->n, GG_TIMES_MOST); }
static inline int few_columns(const gemm *g) {
    return g->n == 1 ? 1 : (int)(gg_ceil_div(gg_ceil_div(g->n, few_panels(g)), 2) * 2);
}
static inline int64_t few_panel_words(const gemm *g) {
    const int group = g->a.kernels->ints[g->a.type].group;
    return g->k / group * few_columns(g) * (group / 4 + 2);
}
static void few_pack(const gemm *g, int32_t *out, float *tmp) {
    const gg_ints *const ints = &g->a.kernels->ints[g->a.type];
    const int columns = few_columns(g), words = ints->group / 4;
    const int64_t groups = g->k / ints->group, stride = columns * (words + 2);
    memset(out, 0, (size_t)(few_panels(g) * few_panel_words(g)) * sizeof *out);
    for (int64_t j = 0; j < g->n; j++) {
        const float *const x = gemv_vector(&g->b, j, g->k, tmp);
        int32_t *const panel = out + j / columns * few_panel_words(g);
        for (int64_t s = 0, q = j % columns; s < groups; s += FEW_BATCH)
            few_round(ints, x + s * ints->group, (int)gg_min(groups - s, FEW_BATCH), panel + s * stride + q * words,
                      panel + s * stride + columns * words + q, stride, columns);
    }
}
/* Rows i .. i+VW-1; those before `from` are in place already. */
static void few_rows(const gemm *g, int64_t i, int64_t from, const int32_t *panels) {
    float sums[GG_TIMES_MOST * VW] __attribute__((aligned(64)));
    const int columns = few_columns(g);
    const int64_t skip = from - i, m = VW - skip;
    for (int64_t j = 0; j < g->n; j += columns, panels += few_panel_words(g)) {
        const int64_t n = gg_min(g->n - j, columns);
        g->a.kernels->ints[g->a.type].times(pack_at(&g->a, i, 0), g->a.nb_i, g->k, columns, panels, sums);
        if (g->finish) g->finish(g, from, m, j, n, sums + skip, VW);
        for (int64_t q = 0; q < n; q++) memcpy(gemm_c(g, from, j + q), sums + q * VW + skip, (size_t)m * sizeof *sums);
    }
}
/* Each thread packs the columns for itself, which costs about as much as some rows. */
static bool few_run(const gg_work *w, const gemm *g) {
    const int64_t panels = few_panels(g) * few_panel_words(g);
    const int64_t size = gemv_piece(w, g, FEW_ROWS), cuts = gg_ceil_div(g->m, size);
    int32_t *const own = gg_scratch((size_t)(panels + g->k) * sizeof *own);
    int64_t ready = -1;
    gemm one = *g;
    if (!own) return false;
    for (int64_t t; (t = gg_claim_piece(w, g->ne2 * g->ne3 * cuts)) >= 0;) {
        if (t / cuts != ready) one = gemm_matrix(g, ready = t / cuts), few_pack(&one, own, (float *)(own + panels));
        const int64_t i1 = gg_min(t % cuts * size + size, g->m);
        for (int64_t i = t % cuts * size; i < i1; i += FEW_ROWS)
            few_rows(&one, gg_min(i, g->m - FEW_ROWS), i, own);
    }
    return true;
}
#else
static inline bool few_fits(const gemm *g) { (void)g; return false; }
static inline bool few_run(const gg_work *w, const gemm *g) { (void)w, (void)g; return false; }
#endif
#endif
