/* Panels of 8-bit integers: a quantised matrix times floats, where the ISA multiplies bytes (vi_dot of its vec header).
 *
 * A step is a group of 16, 32 or 64 elements, scaled together. Of each vector its panel holds, four bytes to a word,
 *   a: the integers as the type has them (gg_ints); their scale d; with mins, m: an element is d (q - bias) - m
 *   b: integers p in -127..127; their scale e; -bias times the sum of p; with mins, -e times the sum of p
 * so that a step adds d e (sum of q p - bias p), whose bracket is exact, and -m e (sum of p). b's scale is its own for
 * each group: that is no less exact than the dot products of one vector, which share it among 32 to 256 elements. */
#ifndef GG_GEMM_INT8_H
#define GG_GEMM_INT8_H
#include "blocks.h"
#if GG_VEC_DOT

/* VW columns. */
static inline void int8_group(const gemm_form *f, const float *x, float *out) {
    const int8_scale s = int8_scale_of(x, f->group);
    vi sum = vi_set1(0);
    for (int k = 0; k < f->group; k += 4, x += 4 * MICRO_C, out += MICRO_C) {
        const vi first = int8_half(s, x, &sum);
        vf_store(out, vi_float(int8_word(first, int8_half(s, x + 2 * MICRO_C, &sum))));
    }
    vf_store(out, s.scale);
    vf_store(out + MICRO_C, vi_float(vi_mul(sum, vi_set1(-f->bias))));
    if (f->mins) vf_store(out + 2 * MICRO_C, vf_neg(vf_mul(s.scale, vi_to_vf(sum))));
}
static void int8_convert_b(const gemm_form *f, const float *x, int kn, float *out) {
    for (int k = 0; k < kn; k += f->group, out += f->b_words * MICRO_C)
        for (int i = 0; i < MICRO_C; i += VW) int8_group(f, x + k * MICRO_C + i, out + i);
}

/* How the products of a step are summed: four at a time in 32 bits; likewise, with a as signed as b; or two at a time
 * in 16 bits while they fit, which takes two instructions where four products take three. */
enum { INT8_DOT, INT8_SIGNED, INT8_PAIRS };
#if defined GG_VEC_PAIRS && GG_VEC_DOT < 256
#define INT8_PAIRED                                 /* there are all three */
#endif
#ifdef INT8_PAIRED

/* In one chain or two. */
GG_INLINE void int8_sum_pairs(const int v, const int n, const gemm_form *form, const float *a, const float *b,
                              vi dot[MICRO_N][MICRO_V]) {
    const int quads = form->group / 4, chain = form->chain;
    vi first[MICRO_N][MICRO_V];
    const vi one = vi_set1(0x00010001);
    if (chain < quads) {
        int8_chain(v, n, true, quads - chain, a, b, first);
        GG_UNROLL for (int j = 0; j < n; j++)
            GG_UNROLL for (int i = 0; i < v; i++) first[j][i] = vi_madd_pairs(vi_set1(0), first[j][i], one);
    }
    int8_chain(v, n, true, chain, a + (quads - chain) * MICRO_R, b + (quads - chain) * MICRO_C, dot);
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vi bias = vf_bits(micro_value(b + (quads + 1) * MICRO_C, j));
        GG_UNROLL for (int i = 0; i < v; i++) {
            dot[j][i] = vi_madd_pairs(bias, dot[j][i], one);
            if (chain < quads) dot[j][i] = vi_add(dot[j][i], first[j][i]);
        }
    }
}
#endif
/* dot + the products of the bytes of x and y. */
GG_INLINE vi int8_add(const int kind, vi dot, vi x, vi y) {
#ifdef INT8_PAIRED
    if (kind == INT8_SIGNED) return vi_dot(dot, vi_abs_bytes(x), vi_sign_bytes(y, x));
#endif
    (void)kind;
    return vi_dot(dot, x, y);
}
GG_INLINE void int8_sum(const int v, const int n, const int kind, const gemm_form *form, const float *a, const float *b,
                        vi dot[MICRO_N][MICRO_V]) {
    const int quads = form->group / 4;
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) dot[j][i] = vf_bits(micro_value(b + (quads + 1) * MICRO_C, j));
    for (int q = 0; q < quads; q++, a += MICRO_R, b += MICRO_C) {
        vi x[MICRO_V];
        GG_UNROLL for (int i = 0; i < v; i++) x[i] = vf_bits(vf_load(a + i * VW));
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vi y = vf_bits(micro_value(b, j));
            GG_UNROLL for (int i = 0; i < v; i++) dot[j][i] = int8_add(kind, dot[j][i], x[i], y);
        }
    }
}
GG_INLINE void int8_step(const int v, const int n, const int kind, const gemm_form *form, const float *a,
                         const float *b, vf sum[MICRO_N][MICRO_V]) {
    const int quads = form->group / 4;
    vi dot[MICRO_N][MICRO_V];
#ifdef INT8_PAIRED
    if (kind == INT8_PAIRS) int8_sum_pairs(v, n, form, a, b, dot);
    else
#endif
        int8_sum(v, n, kind, form, a, b, dot);
    a += quads * MICRO_R, b += quads * MICRO_C;
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vf e = micro_value(b, j);
        GG_UNROLL for (int i = 0; i < v; i++)
            sum[j][i] = vf_fma(vi_to_vf(dot[j][i]), vf_mul(vf_load(a + i * VW), e), sum[j][i]);
    }
    if (form->mins)
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vf e = micro_value(b + 2 * MICRO_C, j);
            GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_fma(vf_load(a + MICRO_R + i * VW), e, sum[j][i]);
        }
}
INT8_TABLE(int8_step, DOT)
#ifdef INT8_PAIRED
INT8_TABLE(int8_step, SIGNED)
INT8_TABLE(int8_step, PAIRS)
#endif

static inline gemm_form int8_form(const gg_ints *ints) {
    const int words = ints->group / 4 + 1 + ints->minima;
    gemm_form f = {.depth = 2 * GEMM_K, .group = ints->group, .a_words = words, .b_words = words + 1, .bias = ints->bias,
                   .convert_b = int8_convert_b, .mins = ints->minima, .tiles = int8_table_DOT};
#ifdef GG_VEC_PAIRS
    if (ints->scale_group) return blocks_form(ints);
#endif
#ifdef INT8_PAIRED
    const int fit = INT16_MAX / (2 * 127 * ints->max);
    if (ints->is_signed || fit > 1) f.tiles = ints->is_signed ? int8_table_SIGNED : int8_table_PAIRS;
    for (f.chain = 1; 2 * f.chain <= fit && 2 * f.chain <= f.group / 4;) f.chain *= 2;
#endif
    return f;
}

/* Transposes rows of words, as pack_along_k does those of floats. */
static void pack_ints(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    const gg_ints *ints = &s->kernels->ints[s->type];
    const gemm_form form = int8_form(ints);
    const int words = kn / form.group * form.a_words;
    const int64_t block = k0 / gg_types[s->type].blck;
    float tmp[VW][GEMM_K / 16 * (4 + 2)] __attribute__((aligned(64)));     /* at most */
    for (int g = 0; g < n; g += VW) {
        const float *row[VW];
        for (int i = 0; i < VW; i++) {
            if (g + i >= n) { row[i] = tmp[0]; continue; }
            ints->unpack(pack_at(s, i0 + g + i, block), tmp[i], kn);
            row[i] = tmp[i];
        }
        pack_transpose(row, words, pack_lane(out, g, words, width), width);
    }
}

/* Goes by integers if a has such. */
static inline void gemm_use_ints(gemm *g) {
    if (!gemm_has_ints(&g->a) || g->a.pack != pack_along_k) return;
    g->a.pack = pack_ints;
    g->form = int8_form(&g->a.kernels->ints[g->a.type]);
}
#else
static inline void gemm_use_ints(gemm *g) { (void)g; }
#endif
#endif
