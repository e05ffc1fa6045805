/* Panels of 8-bit integers: what groups (int8_groups.h) and blocks (int8_blocks.h) have in common. gemm.h defines the
 * panel formats. */
#ifndef GG_GEMM_INT8_H
#define GG_GEMM_INT8_H
#include "gemm.h"
#if GG_VEC_INT8

enum {
    INT8_DEPTH = 4 * KC,            /* elements of k of a panel; half as many if codes have 16 bits */
    INT8_MOST = 127,                /* the largest code of b; */
    INT8_MOST_SCALED = 16 * 127,    /* where those of a are scaled: 256 products of it and 2^12 fit into 32 bits, and
                                     * what is whole with the codes above is so with these */
};

/* The scale with which n floats of VW columns become integers in -most..most. A NaN or infinity makes the scale, and
 * with it the result, NaN or infinite. No scale is so small that its reciprocal is infinite. */
typedef struct { vf scale, inverse; } int8_scale;
static inline int8_scale int8_scale_of(const float *x, int n, float most, float least) {
    vi max = vf_bits(vf_set1(least));
    for (int k = 0; k < n; k++)         /* magnitudes are ordered like their bits, NaN last */
        max = vi_max(max, vf_bits(vf_abs(vf_load(x + k * NR_PAD))));
    return (int8_scale){vf_mul(vi_float(max), vf_set1(1 / most)), vf_div(vf_set1(most), vi_float(max))};
}
/* Rounds an element of each column to a code, which is added to sum. */
static inline vi int8_round(int8_scale s, const float *x, vi *sum) {
    const vi p = vf_to_vi(vf_mul(vf_load(x), s.inverse));
    *sum = vi_add(*sum, p);
    return p;
}
/* Rounds two elements of each column to the low half of a word. */
static inline vi int8_two(int8_scale s, const float *x, vi *sum) {
    const vi p = int8_round(s, x, sum), q = int8_round(s, x + NR_PAD, sum);
    return vi_or(vi_and(p, vi_set1(255)), vi_shl(vi_and(q, vi_set1(255)), 8));
}
static inline vi int8_word(vi low, vi high) { return vi_or(low, vi_shl(high, 16)); }

/* The micro-kernel. step adds the products of a step to the sums. */
typedef void (*int8_step_fn)(const int v, const int n, const int kind, const panel_format *format, const float *a,
                             const float *b, vf sum[NR][MV]);
GG_INLINE void int8_kernel(const int v, const int n, const int kind, int8_step_fn step, MICRO_ARGS) {
    vf sum[NR][MV];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_zero();
    if (add) micro_prefetch(n, c, ldc, m);
    for (; steps > 0; steps--, a += format->a_words * MR, b += format->b_words * NR_PAD)
        step(v, n, kind, format, a, b, sum);
    micro_store(v, n, sum, c, ldc, m, add);
}

/* int8_table_KIND: the micro-kernels of all sizes whose steps are STEP(v, n, INT8_KIND, format, a, b, sum). */
#define INT8_MICRO(n, v, STEP, KIND) \
    static void int8_##KIND##_##v##_##n(MICRO_ARGS) { \
        int8_kernel(v, n < INT8_NR ? n : INT8_NR, INT8_##KIND, STEP, format, steps, a, b, c, ldc, m, add); \
    }
#define INT8_ENTRY(n, v, KIND) [n] = n <= INT8_NR ? int8_##KIND##_##v##_##n : NULL,
#define INT8_TABLE(STEP, KIND) \
    MICRO_SIZES(INT8_MICRO, 1, STEP, KIND) MICRO_SIZES(INT8_MICRO, 2, STEP, KIND) \
    static const micro_fn int8_table_##KIND[][NR_MAX + 1] = {[1] = {MICRO_SIZES(INT8_ENTRY, 1, KIND)}, \
                                                             [2] = {MICRO_SIZES(INT8_ENTRY, 2, KIND)}};

#ifdef GG_VEC_PAIRS
/* sum[j][i] += the products of two words in 16 bits; overwrite: the first word overwrites sum. */
GG_INLINE void int8_add_two_words(const int v, const int n, const bool overwrite, const float *a, const float *b,
                                  vi sum[NR][MV]) {
    if (INT8_AHEAD) __builtin_prefetch(b + INT8_AHEAD);
    GG_UNROLL for (int w = 0; w < 2; w++) {
        vi x[MV];
        GG_UNROLL for (int i = 0; i < v; i++) x[i] = vi_words(a + w * MR + i * VW);
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vi y = vi_word_at(b + w * NR_PAD, j);
            GG_UNROLL for (int i = 0; i < v; i++) {
                const vi pairs = vi_pairs(x[i], y);
                sum[j][i] = overwrite && w == 0 ? pairs : vi_add_pairs(sum[j][i], pairs);
            }
        }
    }
}
/* Likewise for an even number of words. */
GG_INLINE void int8_add_words(const int v, const int n, const bool overwrite, int words, const float *a, const float *b,
                              vi sum[NR][MV]) {
    if (overwrite) int8_add_two_words(v, n, true, a, b, sum), words -= 2, a += 2 * MR, b += 2 * NR_PAD;
    for (; words > 0; words -= 2, a += 2 * MR, b += 2 * NR_PAD) int8_add_two_words(v, n, false, a, b, sum);
}
#endif
#endif
#endif
