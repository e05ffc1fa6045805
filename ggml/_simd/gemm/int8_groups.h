/* Panels of 8-bit integers in steps of a scale group: the panel format "groups" of gemm.h, and the choice between the
 * formats. */
#ifndef GG_GEMM_INT8_GROUPS_H
#define GG_GEMM_INT8_GROUPS_H
#include "int8_blocks.h"
#if GG_VEC_INT8

/* The word of a step that subtracts the bias; low, high: the sums of the codes in the halves of the words. */
static inline vi groups_bias(int bias, vi low, vi high) {
    const vi by = vi_set1(-bias);
#ifdef GG_VEC_PAIRS
    return int8_word(vi_and(vi_mul(low, by), vi_set1(0xffff)), vi_mul(high, by));
#else
    return vi_mul(vi_add(low, high), by);
#endif
}
/* Converts a step of VW columns of b. */
static inline void groups_quantise(const panel_format *f, const float *x, float *out) {
    /* the scales are constants, which saves a division */
    const float least = GG_LEAST_MAGNITUDE * INT8_MOST_SCALED / INT8_MOST;
    const int8_scale s = f->codes16 ? int8_scale_of(x, f->step, INT8_MOST_SCALED, least)
                                    : int8_scale_of(x, f->step, INT8_MOST, GG_LEAST_MAGNITUDE);
    vi sum = vi_set1(0), low = sum;         /* low: of the elements in the lower halves of the words */
    for (int k = 0; f->codes16 && k < f->step; k += 2, x += 2 * NR_PAD, out += NR_PAD) {
        const vi p = int8_round(s, x, &sum), q = int8_round(s, x + NR_PAD, &sum);
        vf_store(out, vi_float(int8_word(vi_and(p, vi_set1(0xffff)), q)));
    }
    for (int k = 0; !f->codes16 && k < f->step; k += 4, x += 4 * NR_PAD, out += NR_PAD) {
        const vi first = int8_two(s, x, &low);
        vf_store(out, vi_float(int8_word(first, int8_two(s, x + 2 * NR_PAD, &sum))));
    }
    vf_store(out, s.scale);
    vf_store(out + NR_PAD, vi_float(groups_bias(f->bias, low, sum)));
    sum = vi_add(sum, low);
    if (f->minima) vf_store(out + 2 * NR_PAD, vf_neg(vf_mul(s.scale, vi_to_vf(sum))));
}
static void groups_convert_b(const panel_format *f, const float *x, int kn, float *out) {
    for (int k = 0; k < kn; k += f->step, out += f->b_words * NR_PAD)
        for (int i = 0; i < NR_PAD; i += VW) groups_quantise(f, x + k * NR_PAD + i, out + i);
}

/* How the products of a step are added: DOT_<words of codes> four at a time in 32 bits; PAIRS two at a time in 16 bits
 * up to the accumulation depth; BIASED_PAIRS likewise, from the bias on, for the whole step: sums may wrap temporarily,
 * the final one fits; WIDE two codes of 16 bits at a time in 32 bits. */
enum { INT8_PAIRS, INT8_BIASED_PAIRS, INT8_WIDE, INT8_DOT_4 = 4, INT8_DOT_8 = 8 };
#ifdef GG_VEC_PAIRS
/* The step is one accumulation depth, or two. */
GG_INLINE void groups_sum_pairs(const int v, const int n, const panel_format *format, const float *a, const float *b,
                                vi dot[NR][MV]) {
    const int words = format->step / 4, acc_depth = format->acc_depth;
    vi first[NR][MV];
    if (acc_depth < words) int8_add_words(v, n, true, words - acc_depth, a, b, first);
    if (acc_depth < words)
        GG_UNROLL for (int j = 0; j < n; j++)
            GG_UNROLL for (int i = 0; i < v; i++) first[j][i] = vi_sum_pairs(first[j][i]);
    int8_add_words(v, n, true, acc_depth, a + (words - acc_depth) * MR, b + (words - acc_depth) * NR_PAD, dot);
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) {
            dot[j][i] = vi_sum_pairs(dot[j][i]);
            if (acc_depth < words) dot[j][i] = vi_add(dot[j][i], first[j][i]);
        }
}
GG_INLINE void groups_sum_biased(const int v, const int n, const panel_format *format, const float *a, const float *b,
                                 vi dot[NR][MV]) {
    const int words = format->step / 4;
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vi bias = vi_word_at(b + (words + 1) * NR_PAD, j);
        GG_UNROLL for (int i = 0; i < v; i++) dot[j][i] = bias;
    }
    int8_add_words(v, n, false, words, a, b, dot);
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) dot[j][i] = vi_sum_pairs(dot[j][i]);
}
#endif
/* groups_add(dot, x, y): dot + the products of the codes of two words. Where `words` is a constant, the loop over them
 * is unrolled because processors mispredict the end of so short a one. */
#ifdef GG_VEC_PAIRS
#define groups_add vi_madd_pairs
#define UNROLL_WORDS _Pragma("GCC unroll 1")
#else
#define groups_add vi_dot
#define UNROLL_WORDS GG_UNROLL
#endif
GG_INLINE void groups_sum(const int v, const int n, const int words, const float *a, const float *b, vi dot[NR][MV]) {
    GG_UNROLL for (int j = 0; j < n; j++)       /* loaded as floats: else GCC keeps the sums of AVX2 in memory */
        GG_UNROLL for (int i = 0; i < v; i++) dot[j][i] = vf_bits(vf_set1_at(b + (words + 1) * NR_PAD, j));
    UNROLL_WORDS for (int q = 0; q < words; q++, a += MR, b += NR_PAD) {
        vi x[MV];
        if (INT8_AHEAD) __builtin_prefetch(b + INT8_AHEAD);
        GG_UNROLL for (int i = 0; i < v; i++) x[i] = vi_words(a + i * VW);
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vi y = vi_word_at(b, j);
            GG_UNROLL for (int i = 0; i < v; i++) dot[j][i] = groups_add(dot[j][i], x[i], y);
        }
    }
}
GG_INLINE void groups_step(const int v, const int n, const int kind, const panel_format *format, const float *a,
                           const float *b, vf sum[NR][MV]) {
    const int words = kind >= INT8_DOT_4 ? kind : format->step / (kind == INT8_WIDE ? 2 : 4);
    vi dot[NR][MV];
#ifdef GG_VEC_PAIRS
    if (kind == INT8_PAIRS) groups_sum_pairs(v, n, format, a, b, dot);
    else if (kind == INT8_BIASED_PAIRS) groups_sum_biased(v, n, format, a, b, dot);
    else
#endif
        groups_sum(v, n, words, a, b, dot);
    a += words * MR, b += words * NR_PAD;
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vf e = vf_set1_at(b, j);
        GG_UNROLL for (int i = 0; i < v; i++)
            sum[j][i] = vf_fma(vi_to_vf(dot[j][i]), vf_mul(vf_load(a + i * VW), e), sum[j][i]);
    }
    if (format->minima)
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vf e = vf_set1_at(b + 2 * NR_PAD, j);
            GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_fma(vf_load(a + MR + i * VW), e, sum[j][i]);
        }
}
#ifdef GG_VEC_PAIRS
INT8_TABLE(groups_step, PAIRS)
INT8_TABLE(groups_step, BIASED_PAIRS)
INT8_TABLE(groups_step, WIDE)
#else
INT8_TABLE(groups_step, DOT_4)
INT8_TABLE(groups_step, DOT_8)
#endif

#ifdef __AMX_INT8__
#include "int8_tiles.h"
#include "int8_folded.h"
#endif

/* The elements of a step: of codes times their scales as many as divide k, since steps are not filled in part. */
static inline int int8_step(const gg_ints *ints, int64_t k) {
    int step = ints->group;
    while (k % step) step /= 2;
    return step;
}
static inline panel_format int8_format(const gg_ints *ints, int step) {
    panel_format f = {.depth = INT8_DEPTH, .step = step, .bias = ints->bias, .convert_b = groups_convert_b,
                      .minima = ints->minima, .columns = INT8_NR, .task_columns = NC, .packed_columns = NC_ALL};
#ifdef GG_VEC_PAIRS
    if (ints->scale_group) return blocks_format(ints);
    const int fit = INT16_MAX / (2 * 127 * ints->max);
    f.codes16 = ints->is_signed;
    if (f.codes16) f.depth /= 2;
    f.kernels = f.codes16 ? int8_table_WIDE : f.bias ? int8_table_BIASED_PAIRS : int8_table_PAIRS;
    for (f.acc_depth = 1; 2 * f.acc_depth <= fit && 2 * f.acc_depth <= f.step / 4;) f.acc_depth *= 2;
#else
    f.kernels = f.step == 32 ? int8_table_DOT_8 : int8_table_DOT_4;
#endif
    f.a_words = step / (f.codes16 ? 2 : 4) + 1 + f.minima, f.b_words = f.a_words + 1;
    return f;
}

/* Unpacks n elements of a row; codes times their scales step by step. */
static inline void pack_unpack(const gemm_src *s, const panel_format *f, const char *from, int n, float *out) {
    const gg_ints *const ints = &s->kernels->ints[s->type];
    const int each = f->codes16 ? f->step : n;
    for (; n > 0; n -= each, from += gg_row_size(s->type, each), out += f->a_words) ints->unpack(from, out, each);
}
/* Packs rows of a, like pack_along_k for floats. */
static void pack_ints(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    const gg_ints *ints = &s->kernels->ints[s->type];
    const panel_format format = int8_format(ints, s->step);
    const size_t bytes = gg_row_size(s->type, kn);
    const int words = kn / format.step * format.a_words;
    const int64_t block = k0 / gg_types[s->type].blck;
    float tmp[VW][KC / 32 * (16 + 1)] __attribute__((aligned(64)));      /* at most */
    for (int g = 0; g < n; g += VW) {
        const float *row[VW];
        const bool together = ints->pack && g + VW <= n;
        for (int i = 0; i < VW; i++) {
            row[i] = tmp[g + i < n ? i : 0];
            if (g + i >= n) continue;
            const char *const from = pack_at(s, i0 + g + i, block);
            for (size_t p = 0; p < bytes; p += 64) {        /* for the next call, and for the next panel */
                __builtin_prefetch(from + bytes + p);
                if (!s->ahead) __builtin_prefetch(from + (size_t)width * s->nb_i + p, 0, 2);
            }
            if (!together) pack_unpack(s, &format, from, kn, tmp[i]);
        }
        float *const lane = pack_lane(out, g, words, width);
        if (together) ints->pack(pack_at(s, i0 + g, block), s->nb_i, kn, lane, width);
        else pack_transpose(row, words, lane, width);
    }
}

/* Chooses integer panels for g if the type of a has them. */
static inline void gemm_use_ints(gemm *g) {
    if (!gemm_has_ints(&g->a) || g->a.pack != pack_along_k) return;
    g->a.pack = pack_ints;
    g->a.step = int8_step(&g->a.kernels->ints[g->a.type], g->k);
    g->format = int8_format(&g->a.kernels->ints[g->a.type], g->a.step);
#ifdef __AMX_INT8__
    if (g->n >= FOLDED_LEAST && g->a.kernels->ints[g->a.type].fold)
        g->a.pack = pack_folded, g->format = folded_format(g->format.minima);
    else if (g->n >= TILES_LEAST) tiles_format(&g->format);
#endif
}
/* Lets the micro-kernels prefetch rows, if they do: worth it where these come from memory and columns are few. */
static inline void gemm_prefetch_rows(gemm *g) { g->a.ahead = g->format.shape && g->a.pack == pack_ints; }
#else
static inline void gemm_use_ints(gemm *g) { (void)g; }
static inline void gemm_prefetch_rows(gemm *g) { (void)g; }
#endif
#endif
