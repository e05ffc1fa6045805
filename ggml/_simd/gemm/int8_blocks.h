/* Panels of 8-bit integers in steps of a block of 256 elements with integer scales: the panel format "blocks" of
 * gemm.h, for K, IQ and ternary types. */
#ifndef GG_GEMM_INT8_BLOCKS_H
#define GG_GEMM_INT8_BLOCKS_H
#include "int8.h"
#ifdef GG_VEC_PAIRS

enum { BLOCK_WORDS = KC / 4 };

/* Converts a step of VW columns of b. */
static inline void blocks_quantise(const panel_format *f, const float *x, float *out) {
    const int8_scale s = int8_scale_of(x, KC, INT8_MOST);
    const int unit = f->minima ? 8 : f->acc_depth;      /* words that share a sum */
    float *min = out + (f->b_words - f->minima) * NR_PAD;
    vf_store(min - NR_PAD, s.scale);
    for (int w = 0; w < BLOCK_WORDS;) {
        float *const bias = out;
        vi low = vi_set1(0), high = low;
        if (f->bias) out += NR_PAD;
        for (const int end = w + unit; w < end; w++, out += NR_PAD) {
            const float *const y = x + (w / 8 * 32 + w % 8 * 2) * NR_PAD;
            const vi first = int8_two(s, y, &low);
            vf_store(out, vi_float(int8_word(first, int8_two(s, y + 16 * NR_PAD, &high))));
        }
        if (f->bias) {
            const vi by = vi_set1(-f->bias);
            vf_store(bias, vi_float(int8_word(vi_and(vi_mul(low, by), vi_set1(0xffff)), vi_mul(high, by))));
        }
        if (f->minima == BLOCK_WORDS / 4) {
            vf_store(min, vf_neg(vf_mul(s.scale, vi_to_vf(low)))), min += NR_PAD;
            low = vi_set1(0);
        }
        if (f->minima) vf_store(min, vf_neg(vf_mul(s.scale, vi_to_vf(vi_add(low, high))))), min += NR_PAD;
    }
}
static void blocks_convert_b(const panel_format *f, const float *x, int kn, float *out) {
    for (int k = 0; k < kn; k += KC, out += f->b_words * NR_PAD)
        for (int i = 0; i < NR_PAD; i += VW) blocks_quantise(f, x + k * NR_PAD + i, out + i);
}

/* The sums of floats and the integer sums of scale groups stay in memory: the registers hold sums in 16 bits. */
enum { INT8_BLOCKS, INT8_BIASED_BLOCKS };
GG_INLINE void blocks_step(const int v, const int n, const int kind, const panel_format *format, const float *a,
                           const float *b, vf sum[NR][MV]) {
    const bool biased = kind == INT8_BIASED_BLOCKS;
    const int acc_depth = format->acc_depth, scale_group = format->scale_group;
    vi total[NR][MV];
    vf (*kept)[MV] = sum;
    __asm__("" : "+r"(kept) : : "memory");
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) total[j][i] = vi_set1(0);
    for (int words = BLOCK_WORDS; words > 0; words -= scale_group, a += MR) {
        const float *const end = a + scale_group * MR;
        while (a < end) {
            vi part[NR][MV];
            if (biased) {
                GG_UNROLL for (int j = 0; j < n; j++) {
                    const vi bias = vi_word_at(b, j);
                    GG_UNROLL for (int i = 0; i < v; i++) part[j][i] = bias;
                }
                b += NR_PAD;
            }
            int8_add_words(v, n, !biased, acc_depth, a, b, part);
            a += acc_depth * MR, b += acc_depth * NR_PAD;
            GG_UNROLL for (int j = 0; j < n; j++)
                GG_UNROLL for (int i = 0; i < v; i++)
                    total[j][i] = vi_madd_pairs(total[j][i], part[j][i], vi_words(end + i * VW));
        }
    }
    vf local[NR][MV];     /* because sum may alias a and b for the compiler */
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vf e = vf_set1_at(b, j);
        GG_UNROLL for (int i = 0; i < v; i++)
            local[j][i] = vf_fma(vi_to_vf(total[j][i]), vf_mul(vf_load(a + i * VW), e), kept[j][i]);
    }
    for (int k = 0; k < format->minima; k++) {
        a += MR, b += NR_PAD;
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vf e = vf_set1_at(b, j);
            GG_UNROLL for (int i = 0; i < v; i++) local[j][i] = vf_fma(vf_load(a + i * VW), e, local[j][i]);
        }
    }
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) kept[j][i] = local[j][i];
}
INT8_TABLE(blocks_step, BLOCKS)
INT8_TABLE(blocks_step, BIASED_BLOCKS)

/* The accumulation depth is as large as 16 bits allow. With a bias, sums may wrap temporarily: the final one fits. */
static inline panel_format blocks_format(const gg_ints *ints) {
    const int max = ints->max - ints->bias > ints->bias ? ints->max - ints->bias : ints->bias;
    const int fit = INT16_MAX / (2 * 127 * max), minima = ints->minima ? KC / ints->group : 0;
    panel_format f = {.columns = INT8_NR, .task_columns = NC, .packed_columns = NC_ALL, .depth = INT8_DEPTH,
                      .step = KC, .convert_b = blocks_convert_b, .bias = ints->bias, .minima = minima,
                      .scale_group = ints->scale_group, .acc_depth = ints->scale_group,
                      .kernels = ints->bias ? int8_table_BIASED_BLOCKS : int8_table_BLOCKS};
    while (f.acc_depth > fit) f.acc_depth /= 2;
    f.a_words = BLOCK_WORDS + BLOCK_WORDS / f.scale_group + 1 + minima;
    f.b_words = BLOCK_WORDS + (f.bias ? BLOCK_WORDS / f.acc_depth : 0) + 1 + minima;
    return f;
}
#endif
#endif
