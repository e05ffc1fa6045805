/* Panels of 8-bit integers: a quantised matrix times floats, where the ISA multiplies bytes (vi_dot of its vec header).
 * What those of groups (int8.h) and those of blocks (blocks.h) have in common. */
#ifndef GG_GEMM_INTS_H
#define GG_GEMM_INTS_H
#include "gemm.h"
#if GG_VEC_DOT

/* VW columns whose n floats become integers in -127..127. A NaN or an infinity makes the scale NaN or infinite, and so
 * the result; numbers too small for the reciprocal of their scale become 0. */
typedef struct { vf scale, inverse; } int8_scale;
static inline int8_scale int8_scale_of(const float *x, int n) {
    vi most = vi_set1(0);
    for (int k = 0; k < n; k++) {
        const vi bits = vf_bits(vf_abs(vf_load(x + k * MICRO_C)));      /* in the order of the values, NaN on top */
        most = vi_select(vi_gt(bits, most), bits, most);
    }
    const vm fits = vf_gt(vi_float(most), vf_set1(0x1p-120f));
    return (int8_scale){vf_mul(vi_float(most), vf_set1(1 / 127.0f)),
                        vf_select(fits, vf_div(vf_set1(127), vi_float(most)), vf_zero())};
}
/* Two elements of each column, as the low half of a word; adds them to sum. */
static inline vi int8_half(int8_scale s, const float *x, vi *sum) {
    const vi p = vf_to_vi(vf_mul(vf_load(x), s.inverse)), q = vf_to_vi(vf_mul(vf_load(x + MICRO_C), s.inverse));
    *sum = vi_add(*sum, vi_add(p, q));
    return vi_or(vi_and(p, vi_set1(255)), vi_shl(vi_and(q, vi_set1(255)), 8));
}
static inline vi int8_word(vi low, vi high) { return vi_or(low, vi_shl(high, 16)); }

/* Steps of a tile. Sums of floats stay in memory, to leave the registers to those of integers. */
typedef void (*int8_step_fn)(const gemm_form *form, const float *a, const float *b, void *sum);
GG_INLINE void int8_tile(const int v, const int n, int8_step_fn step, MICRO_ARGS) {
    vf sum[MICRO_N][MICRO_V];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_zero();
    if (add) micro_prefetch(n, c, ldc, m);
    for (; k > 0; k--, a += form->a_words * MICRO_R, b += form->b_words * MICRO_C) step(form, a, b, sum);
    micro_store(v, n, sum, c, ldc, m, add);
}

/* int8_table_KIND: tiles of all sizes whose steps are STEP(v, n, INT8_KIND, form, a, b, sum). */
#define INT8_MICRO(n, v, STEP, KIND) \
    static __attribute__((noinline)) void int8_step_##KIND##_##v##_##n(const gemm_form *f, const float *a, \
                                                                       const float *b, void *sum) { \
        STEP(v, n < MICRO_N ? n : MICRO_N, INT8_##KIND, f, a, b, sum); \
    } \
    static void int8_##KIND##_##v##_##n(MICRO_ARGS) { \
        int8_tile(v, n < MICRO_N ? n : MICRO_N, int8_step_##KIND##_##v##_##n, form, k, a, b, c, ldc, m, add); \
    }
#define INT8_ENTRY(n, v, KIND) [n] = n <= MICRO_N ? int8_##KIND##_##v##_##n : NULL,
#define INT8_TABLE(STEP, KIND) \
    MICRO_SIZES(INT8_MICRO, 1, STEP, KIND) MICRO_SIZES(INT8_MICRO, 2, STEP, KIND) \
    static const micro_fn int8_table_##KIND[][MICRO_N_MAX + 1] = {[1] = {MICRO_SIZES(INT8_ENTRY, 1, KIND)}, \
                                                                  [2] = {MICRO_SIZES(INT8_ENTRY, 2, KIND)}};

#ifdef GG_VEC_PAIRS
/* Adds products in 16 bits, two words at a time: of `words` words, an even number; to sum, or over it. */
GG_INLINE void int8_pairs(const int v, const int n, const bool over, const float *a, const float *b,
                          vi sum[MICRO_N][MICRO_V]) {
    GG_UNROLL for (int w = 0; w < 2; w++) {
        vi x[MICRO_V];
        GG_UNROLL for (int i = 0; i < v; i++) x[i] = vf_bits(vf_load(a + w * MICRO_R + i * VW));
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vi y = vf_bits(micro_value(b + w * MICRO_C, j));
            GG_UNROLL for (int i = 0; i < v; i++) {
                const vi pairs = vi_pairs(x[i], y);
                sum[j][i] = over && w == 0 ? pairs : vi_add_pairs(sum[j][i], pairs);
            }
        }
    }
}
GG_INLINE void int8_chain(const int v, const int n, const bool over, int words, const float *a, const float *b,
                          vi sum[MICRO_N][MICRO_V]) {
    if (over) int8_pairs(v, n, true, a, b, sum), words -= 2, a += 2 * MICRO_R, b += 2 * MICRO_C;
    for (; words > 0; words -= 2, a += 2 * MICRO_R, b += 2 * MICRO_C) int8_pairs(v, n, false, a, b, sum);
}
#endif
#endif
#endif
