/* Panels of 8-bit integers: a quantised matrix times floats, where the ISA multiplies bytes (vi_dot of its vec header).
 *
 * A step is a group of 16, 32 or 64 elements, scaled together. Of each vector its panel holds, four bytes to a word,
 *   a: the integers as the type has them (gg_ints); their scale d; with mins, m: an element is d (q - bias) - m
 *   b: integers p in -127..127; their scale e; -bias times the sum of p; with mins, -e times the sum of p
 * so that a step adds d e (sum of q p - bias p), whose bracket is exact, and -m e (sum of p). b's scale is its own for
 * each group: that is no less exact than the dot products of one vector, which share it among 32 to 256 elements. */
#ifndef GG_GEMM_INT8_H
#define GG_GEMM_INT8_H
#include "gemm.h"
#if GG_VEC_DOT

enum { INT8_WORDS = GEMM_K / 16 * (4 + 2) };        /* of a row in a panel of a, at most */

/* Transposes rows of words, as pack_along_k does those of floats. */
static void pack_ints(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    const gg_ints *ints = &gg_active->ints[s->type];
    const int words = kn / ints->group * (ints->group / 4 + 1 + ints->mins);
    const int64_t block = k0 / gg_types[s->type].blck;
    float tmp[VW][INT8_WORDS] __attribute__((aligned(64)));
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

/* VW columns: `group` floats of each become words, scale and sums. A NaN or an infinity makes the scale NaN or
 * infinite, and so the result; numbers too small for the reciprocal of their scale become 0. */
static inline void int8_group(const gemm_form *f, const float *x, float *out) {
    vi most = vi_set1(0), sum = most;
    for (int k = 0; k < f->group; k++) {
        const vi bits = vf_bits(vf_abs(vf_load(x + k * MICRO_C)));      /* in the order of the values, NaN on top */
        most = vi_select(vi_gt(bits, most), bits, most);
    }
    const vf scale = vf_mul(vi_float(most), vf_set1(1 / 127.0f)), least = vf_set1(0x1p-120f);
    const vf inverse = vf_select(vf_gt(vi_float(most), least), vf_div(vf_set1(127), vi_float(most)), vf_zero());
    for (int k = 0; k < f->group; k += 4, out += MICRO_C) {
        vi word = vi_set1(0);
        GG_UNROLL for (int i = 0; i < 4; i++) {
            const vi q = vf_to_vi(vf_mul(vf_load(x + (k + i) * MICRO_C), inverse));
            sum = vi_add(sum, q);
            word = vi_or(word, vi_shl(vi_and(q, vi_set1(255)), 8 * i));
        }
        vf_store(out, vi_float(word));
    }
    vf_store(out, scale);
    vf_store(out + MICRO_C, vi_float(vi_mul(sum, vi_set1(-f->bias))));
    if (f->mins) vf_store(out + 2 * MICRO_C, vf_neg(vf_mul(scale, vi_to_vf(sum))));
}
static void int8_convert_b(const gemm_form *f, const float *x, int kn, float *out) {
    for (int k = 0; k < kn; k += f->group, out += f->b_words * MICRO_C)
        for (int i = 0; i < MICRO_C; i += VW) int8_group(f, x + k * MICRO_C + i, out + i);
}

/* How the products of a step are summed: four at a time in 32 bits; likewise, with a as signed as b; or two at a time
 * in 16 bits while they fit, which takes two instructions where four products take three. */
enum { INT8_DOT, INT8_SIGNED, INT8_PAIRS };
#ifdef GG_VEC_PAIRS

/* `quads` words, few enough for 16 bits; then sums in 32 bits. */
GG_INLINE void int8_chain(const int v, const int n, int quads, const float *a, const float *b,
                          vi sum[MICRO_N][MICRO_V]) {
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vi_set1(0);
    for (; quads > 0; quads--, a += MICRO_R, b += MICRO_C) {
        vi x[MICRO_V];
        GG_UNROLL for (int i = 0; i < v; i++) x[i] = vf_bits(vf_load(a + i * VW));
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vi y = vf_bits(micro_value(b, j));
            GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vi_add_pairs(sum[j][i], vi_pairs(x[i], y));
        }
    }
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vi_widen_pairs(sum[j][i]);
}
/* In one chain or two. */
GG_INLINE void int8_sum_pairs(const int v, const int n, const gemm_form *form, const float *a, const float *b,
                              vi dot[MICRO_N][MICRO_V]) {
    const int quads = form->group / 4, chain = form->chain;
    vi first[MICRO_N][MICRO_V];
    if (chain < quads) int8_chain(v, n, quads - chain, a, b, first);
    int8_chain(v, n, chain, a + (quads - chain) * MICRO_R, b + (quads - chain) * MICRO_C, dot);
    if (chain < quads)
        GG_UNROLL for (int j = 0; j < n; j++)
            GG_UNROLL for (int i = 0; i < v; i++) dot[j][i] = vi_add(dot[j][i], first[j][i]);
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vi bias = vf_bits(micro_value(b + (quads + 1) * MICRO_C, j));
        GG_UNROLL for (int i = 0; i < v; i++) dot[j][i] = vi_add(dot[j][i], bias);
    }
}
#endif
/* dot + the products of the bytes of x and y. */
GG_INLINE vi int8_add(const int kind, vi dot, vi x, vi y) {
#ifdef GG_VEC_PAIRS
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
/* One step. Sums of floats stay in memory, to leave the registers to those of integers. */
GG_INLINE void int8_step(const int v, const int n, const int kind, const gemm_form *form, const float *a,
                         const float *b, vf sum[MICRO_N][MICRO_V]) {
    const int quads = form->group / 4;
    vi dot[MICRO_N][MICRO_V];
#ifdef GG_VEC_PAIRS
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
typedef void (*int8_step_fn)(const gemm_form *form, const float *a, const float *b, void *sum);
GG_INLINE void int8_tile(const int v, const int n, int8_step_fn step, MICRO_ARGS) {
    vf sum[MICRO_N][MICRO_V];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_zero();
    if (add) micro_prefetch(n, c, ldc, m);
    for (; k > 0; k--, a += form->a_words * MICRO_R, b += form->b_words * MICRO_C) step(form, a, b, sum);
    micro_store(v, n, sum, c, ldc, m, add);
}
#define MICRO(n, v, KIND) \
    static __attribute__((noinline)) void int8_step_##KIND##_##v##_##n(const gemm_form *f, const float *a, \
                                                                       const float *b, void *sum) { \
        int8_step(v, n < MICRO_N ? n : MICRO_N, INT8_##KIND, f, a, b, sum); \
    } \
    static void int8_##KIND##_##v##_##n(MICRO_ARGS) { \
        int8_tile(v, n < MICRO_N ? n : MICRO_N, int8_step_##KIND##_##v##_##n, form, k, a, b, c, ldc, m, add); \
    }
#define ENTRY(n, v, KIND) [n] = n <= MICRO_N ? int8_##KIND##_##v##_##n : NULL,
#define INT8_TABLE(KIND) \
    MICRO_SIZES(MICRO, 1, KIND) MICRO_SIZES(MICRO, 2, KIND) \
    static const micro_fn int8_table_##KIND[][MICRO_N_MAX + 1] = {[1] = {MICRO_SIZES(ENTRY, 1, KIND)}, \
                                                                  [2] = {MICRO_SIZES(ENTRY, 2, KIND)}};
INT8_TABLE(DOT)
#ifdef GG_VEC_PAIRS
INT8_TABLE(SIGNED)
INT8_TABLE(PAIRS)
static inline void int8_set_tiles(gemm_form *f, const gg_ints *ints) {
    const int fit = INT16_MAX / (2 * 127 * ints->most);
    f->tiles = ints->is_signed ? int8_table_SIGNED : fit < 2 ? int8_table_DOT : int8_table_PAIRS;
    for (f->chain = 1; 2 * f->chain <= fit && 2 * f->chain <= f->group / 4;) f->chain *= 2;
}
#else
static inline void int8_set_tiles(gemm_form *f, const gg_ints *ints) { (void)ints, f->tiles = int8_table_DOT; }
#endif
#undef INT8_TABLE
#undef ENTRY
#undef MICRO

/* Goes by integers if a has such. */
static inline void gemm_use_ints(gemm *g) {
    const gg_ints *ints = &gg_active->ints[g->a.type];
    if (!gemm_has_ints(g->a.type) || g->a.pack != pack_along_k) return;
    const int words = ints->group / 4 + 1 + ints->mins;
    g->a.pack = pack_ints;
    g->form = (gemm_form){.depth = 2 * GEMM_K, .group = ints->group, .a_words = words, .b_words = words + 1, .convert_b = int8_convert_b,
                          .bias = ints->bias, .mins = ints->mins};
    int8_set_tiles(&g->form, ints);
}
#else
static inline void gemm_use_ints(gemm *g) { (void)g; }
#endif
#endif
