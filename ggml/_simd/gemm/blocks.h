/* Panels of blocks of 256 integers whose scales are integers, where the ISA adds up products of bytes in 16 bits
 * (vi_pairs of its vec header): K, IQ and ternary types.
 *
 * A step is a block. Each run of its words shares a word of scales, two int16: one for the low halves of the words, one
 * for the high ones. Word w of 32 elements holds elements 2w and 2w + 1, and above them 16 + 2w and 17 + 2w, so that
 * scales of 16 elements take no more than those of 32. Of each vector its panel holds
 *   a: of each run the integers as the type has them (gg_ints), then the scales s; then d; with mins, each m: an element
 *      is d s (q - bias) - m
 *   b: integers p in -127..127, with a bias before each chain of them its products with their sums, negative; then e;
 *      with mins, -e times each sum of p
 * so that a step adds d e (sum of s (q p - bias p)), whose bracket is exact, and -m e (sum of p). b has one scale for
 * 256 elements, as in the dot products of one vector. */
#ifndef GG_GEMM_BLOCKS_H
#define GG_GEMM_BLOCKS_H
#include "ints.h"
#ifdef GG_VEC_PAIRS

enum { BLOCK_WORDS = GEMM_K / 4 };

/* VW columns. */
static inline void blocks_columns(const gemm_form *f, const float *x, float *out) {
    const int8_scale s = int8_scale_of(x, GEMM_K);
    const int unit = f->mins ? 8 : f->chain;        /* words whose sums are asked for */
    float *min = out + (f->b_words - f->mins) * MICRO_C;
    vf_store(min - MICRO_C, s.scale);
    for (int w = 0; w < BLOCK_WORDS;) {
        float *const bias = out;
        vi low = vi_set1(0), high = low;
        if (f->bias) out += MICRO_C;
        for (const int end = w + unit; w < end; w++, out += MICRO_C) {
            const float *const y = x + (w / 8 * 32 + w % 8 * 2) * MICRO_C;
            const vi first = int8_half(s, y, &low);
            vf_store(out, vi_float(int8_word(first, int8_half(s, y + 16 * MICRO_C, &high))));
        }
        if (f->bias) {
            const vi by = vi_set1(-f->bias);
            vf_store(bias, vi_float(int8_word(vi_and(vi_mul(low, by), vi_set1(0xffff)), vi_mul(high, by))));
        }
        if (f->mins == BLOCK_WORDS / 4) {
            vf_store(min, vf_neg(vf_mul(s.scale, vi_to_vf(low)))), min += MICRO_C;
            low = vi_set1(0);
        }
        if (f->mins) vf_store(min, vf_neg(vf_mul(s.scale, vi_to_vf(vi_add(low, high))))), min += MICRO_C;
    }
}
static void blocks_convert_b(const gemm_form *f, const float *x, int kn, float *out) {
    for (int k = 0; k < kn; k += GEMM_K, out += f->b_words * MICRO_C)
        for (int i = 0; i < MICRO_C; i += VW) blocks_columns(f, x + k * MICRO_C + i, out + i);
}

/* Sums of whole runs stay in memory, too. */
enum { INT8_BLOCKS, INT8_BIASED_BLOCKS };
GG_INLINE void blocks_step(const int v, const int n, const int kind, const gemm_form *form, const float *a,
                           const float *b, vf sum[MICRO_N][MICRO_V]) {
    const bool biased = kind == INT8_BIASED_BLOCKS;
    const int chain = form->chain, run = form->run;
    vi total[MICRO_N][MICRO_V];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) total[j][i] = vi_set1(0);
    for (int words = BLOCK_WORDS; words > 0; words -= run, a += MICRO_R) {
        const float *const end = a + run * MICRO_R;
        while (a < end) {
            vi part[MICRO_N][MICRO_V];
            if (biased) {
                GG_UNROLL for (int j = 0; j < n; j++) {
                    const vi bias = vf_bits(micro_value(b, j));
                    GG_UNROLL for (int i = 0; i < v; i++) part[j][i] = bias;
                }
                b += MICRO_C;
            }
            int8_chain(v, n, !biased, chain, a, b, part);
            a += chain * MICRO_R, b += chain * MICRO_C;
            GG_UNROLL for (int j = 0; j < n; j++)
                GG_UNROLL for (int i = 0; i < v; i++)
                    total[j][i] = vi_madd_pairs(total[j][i], part[j][i], vf_bits(vf_load(end + i * VW)));
        }
    }
    vf local[MICRO_N][MICRO_V];     /* for the compiler cannot know that sum is not among a or b */
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vf e = micro_value(b, j);
        GG_UNROLL for (int i = 0; i < v; i++)
            local[j][i] = vf_fma(vi_to_vf(total[j][i]), vf_mul(vf_load(a + i * VW), e), sum[j][i]);
    }
    for (int k = 0; k < form->mins; k++) {
        a += MICRO_R, b += MICRO_C;
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vf e = micro_value(b, j);
            GG_UNROLL for (int i = 0; i < v; i++) local[j][i] = vf_fma(vf_load(a + i * VW), e, local[j][i]);
        }
    }
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = local[j][i];
}
INT8_TABLE(blocks_step, BLOCKS)
INT8_TABLE(blocks_step, BIASED_BLOCKS)

/* A chain is as long as its sums fit: they wrap on the way, but with the bias they are small again. */
static inline gemm_form blocks_form(const gg_ints *ints) {
    const int far = ints->max - ints->bias > ints->bias ? ints->max - ints->bias : ints->bias;
    const int fit = INT16_MAX / (2 * 127 * far), mins = ints->minima ? GEMM_K / ints->group : 0;
    gemm_form f = {.depth = 2 * GEMM_K, .group = GEMM_K, .convert_b = blocks_convert_b, .run = ints->scale_group, .chain = ints->scale_group,
                   .bias = ints->bias, .mins = mins, .tiles = ints->bias ? int8_table_BIASED_BLOCKS : int8_table_BLOCKS};
    while (f.chain > fit) f.chain /= 2;
    f.a_words = BLOCK_WORDS + BLOCK_WORDS / f.run + 1 + mins;
    f.b_words = BLOCK_WORDS + (f.bias ? BLOCK_WORDS / f.chain : 0) + 1 + mins;
    return f;
}
#endif
#endif
