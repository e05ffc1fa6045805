/* A quantised matrix times a few columns, where the type has gg_ints.times: VW rows are unpacked to registers and
 * multiplied by up to GG_TIMES_MOST columns without panels of rows, which would take longer to pack than to multiply.
 *
 * The panel of the columns has, for each scale group, one column after the other: the words of codes, the scale e, and
 * -bias (sum of the codes p) or, if the type has minima, -e (sum of p), as in the panel format "groups" (gemm.h). Where
 * codes of a need two bytes, they are as they are in the type, those of b have 16 bits, and a group has GG_SIGNED_GROUP
 * elements. */
#ifndef GG_GEMM_INT8_FEW_H
#define GG_GEMM_INT8_FEW_H
#include "gemv.h"
#include "int8_groups.h"

enum { FEW_ROWS = VW };
#if GG_VEC_INT8

enum {
    FEW_BATCH = VW,                 /* scale groups that are rounded together */
    FEW_MOST_SIGNED = INT16_MAX,    /* the largest code of b where codes have 16 bits */
};
_Static_assert((int)FEW_MAX_N <= (int)GG_TIMES_MOST, "kernels multiply so many columns");

static inline bool few_fits(const gemm *g) {
    const gg_ints *const ints = gemm_has_ints(&g->a) ? &g->a.kernels->ints[g->a.type] : NULL;
    return FEW_MAX_N && ints && ints->times && g->n >= ints->times_least
        && g->n <= (ints->is_signed ? GG_TIMES_MOST_SIGNED : FEW_MAX_N) && g->m >= FEW_ROWS && g->k > 0 && !g->exact
        && g->a.pack == pack_along_k && g->b.pack != pack_blocks_along_i
        && g->c_m == sizeof(float) && !g->add;
}

static inline int few_group(const gg_ints *ints) { return ints->is_signed ? GG_SIGNED_GROUP : ints->group; }
static inline int few_words(const gg_ints *ints) { return few_group(ints) / (ints->is_signed ? 2 : 4); }

/* Lane i of out: the reduction of x[i], in two halves: of the first and of the last two of each four lanes. */
typedef vi (*few_fold_fn)(vi a, vi b);
GG_INLINE void few_lanes(few_fold_fn fold, float x[FEW_BATCH][VW], vi out[2]) {
    const float *row[VW];
    for (int i = 0; i < VW; i++) row[i] = x[i];
    out[0] = out[1] = vi_set1(0);
    for (int k = 0; k < VW; k += 4) {
        vf t[4];
        vf_transpose4(row, k, t);
        for (int i = 0; i < 4; i++) out[i / 2] = fold(out[i / 2], vf_bits(t[i]));
    }
}
/* Rounds `count` scale groups of a column; group s goes to out + s * stride. */
static void few_round(const gg_ints *ints, const float *x, int count, int32_t *out, int64_t stride) {
    float lanes[FEW_BATCH][VW] __attribute__((aligned(64))) = {{0}}, inverse[VW];
    const int vectors = few_group(ints) / VW, words = few_words(ints);
    const float most = ints->is_signed ? FEW_MOST_SIGNED : INT8_MOST;
    vi two[2];
    for (int s = 0; s < count; s++) {
        vi max = vi_set1(0);
        for (int i = 0; i < vectors; i++)       /* magnitudes are ordered like their bits, NaN last */
            max = vi_max(max, vf_bits(vf_abs(vf_load(x + (s * vectors + i) * VW))));
        vf_store(lanes[s], vi_float(max));
    }
    few_lanes(vi_max, lanes, two);
    const vf least = vf_set1(GG_LEAST_MAGNITUDE / INT8_MOST * most);
    const vf max = vi_float(vi_max(vi_max(two[0], two[1]), vf_bits(least)));
    const vf scale = vf_mul(max, vf_set1(1 / most));
    vf_store(inverse, vf_div(vf_set1(most), max));
    for (int s = 0; s < count; s++) {
        vi sum = vi_set1(0);
        for (int i = 0; i < vectors; i++) {
            const vi p = vf_to_vi(vf_mul(vf_load(x + (s * vectors + i) * VW), vf_set1(inverse[s])));
            if (ints->is_signed) vi_store_u16((uint16_t *)(out + s * stride) + i * VW, vi_and(p, vi_set1(0xffff)));
            else vi_store_u8((uint8_t *)(out + s * stride) + i * VW, p);
            sum = vi_add(sum, p);
        }
        vf_store(lanes[s], vi_float(sum));
    }
    few_lanes(vi_add, lanes, two);
    int32_t scales[VW], last[VW];
    vi_store(scales, vf_bits(scale));
    vi_store(last, ints->minima ? vf_bits(vf_neg(vf_mul(scale, vi_to_vf(vi_add(two[0], two[1])))))
                                : groups_bias(ints->bias, two[0], two[1]));
    for (int s = 0; s < count; s++) out[s * stride + words] = scales[s], out[s * stride + words + 1] = last[s];
}

static inline int64_t few_panel_words(const gemm *g) {
    const gg_ints *const ints = &g->a.kernels->ints[g->a.type];
    return g->k / few_group(ints) * g->n * (few_words(ints) + 2);
}
static void few_pack(const gemm *g, int32_t *out, float *tmp) {
    const gg_ints *const ints = &g->a.kernels->ints[g->a.type];
    const int64_t groups = g->k / few_group(ints), column = few_words(ints) + 2, stride = g->n * column;
    for (int64_t j = 0; j < g->n; j++) {
        const float *const x = gemv_vector(&g->b, j, g->k, tmp);
        for (int64_t s = 0; s < groups; s += FEW_BATCH)
            few_round(ints, x + s * few_group(ints), (int)gg_min(groups - s, FEW_BATCH), out + s * stride + j * column,
                      stride);
    }
}
/* Rows i .. i+VW-1; those before `from` are in place already. */
static void few_rows(const gemm *g, const gemv_stream *stream, int64_t i, int64_t from, const int32_t *panel) {
    float sums[GG_TIMES_MOST * VW] __attribute__((aligned(64)));
    const int64_t skip = from - i, m = VW - skip;
    const char *const a = pack_at(&g->a, i, 0);
    const char *const ahead = gemv_later(stream, a, gg_max(VW * g->a.nb_i, (size_t)GG_PREFETCH_NEAR));
    g->a.kernels->ints[g->a.type].times(a, g->a.nb_i, g->k, (int)g->n, panel, sums, ahead);
    if (g->finish) g->finish(g, from, m, 0, g->n, sums + skip, VW);
    for (int64_t j = 0; j < g->n; j++) memcpy(gemm_c(g, from, j), sums + j * VW + skip, (size_t)m * sizeof *sums);
}
/* Each thread packs the columns for itself, which costs about as much as some rows. */
static bool few_run(const gg_work *w, const gemm *g) {
    const int64_t words = few_panel_words(g);
    const int64_t size = gemv_piece(w->nth, g, FEW_ROWS), cuts = gg_ceil_div(g->m, size);
    int32_t *const own = gg_scratch((size_t)(words + g->k) * sizeof *own);
    int64_t ready = -1;
    gemm one = *g;
    if (!own) return false;
    for (int64_t t; (t = gg_claim_piece(w, g->ne2 * g->ne3 * cuts)) >= 0;) {
        if (t / cuts != ready) one = gemm_matrix(g, ready = t / cuts), few_pack(&one, own, (float *)(own + words));
        const int64_t i1 = gg_min(t % cuts * size + size, g->m);
        const gemv_stream stream = gemv_stream_of(w, &one, t % cuts, cuts, size);
        for (int64_t i = t % cuts * size; i < i1; i += FEW_ROWS)
            few_rows(&one, &stream, gg_min(i, g->m - FEW_ROWS), i, own);
    }
    return true;
}
#else
static inline bool few_fits(const gemm *g) { (void)g; return false; }
static inline bool few_run(const gg_work *w, const gemm *g) { (void)w, (void)g; return false; }
#endif
#endif
