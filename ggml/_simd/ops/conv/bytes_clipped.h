/* Convolutions of codes whose kernel is clipped as in matmul_clipped.h, for ISAs that multiply pairs of 16 bits: a word
 * of the copy holds the codes of four channels, and sums of the first half of the words that a position is made of are
 * added to those of the second half in 16 bits. What is clipped is added first. */
#ifndef GG_OPS_CONV_BYTES_CLIPPED_H
#define GG_OPS_CONV_BYTES_CLIPPED_H
#include "codes.h"

#ifdef GG_VEC_PAIRS
enum { CLIPPED_STEPS = 64 };        /* least words that a position is made of: tiles of fewer take longer than pairs */
/* The list of an output channel. */
typedef struct codes_list { const clipped_word *first; int64_t n; } codes_list;
/* Where the packed kernel has them: behind its rows, which are twice as long as the clipped half. */
typedef struct codes_lists { int64_t half; codes_list *of; clipped_word *words; } codes_lists;
static inline codes_lists codes_lists_of(const codes_plan *q) {
    codes_lists l = {.half = clipped_half(4 * q->steps)};
    l.of = (codes_list *)(((uintptr_t)(q->panels + 2 * l.half * q->columns) + 15) / 16 * 16);
    l.words = (clipped_word *)(l.of + q->columns);
    return l;
}
/* Words for all of it. */
static int64_t clipped_kernel_words(const codes_plan *q) {
    const int64_t k = 4 * q->steps, lists = 4 + q->columns * (int64_t)(sizeof(codes_list) / sizeof(float));
    return q->columns * (2 * clipped_half(k) + 2 * clipped_list(k)) + lists;
}
/* How kernels are clipped; tmp: room for two rows. */
static clipped_panel clipped_kernel(const codes_plan *q, float *tmp) {
    const int64_t k = 4 * q->steps;
    return (clipped_panel){.half = clipped_half(k), .k = k, .most = clipped_most(q->range), .copies = (int8_t *)tmp,
                           .line = clipped_line(k)};
}
/* False: clipping does not pay for any values. */
static bool clipped_plan_make(codes_plan *q, const conv_plan *p) {
    if (!codes_plan_make(q, p, CODES_MOST, CLIPPED_N) || q->w_offset || q->steps < CLIPPED_STEPS) return false;
    const patches *const v = q->v;
    return v->n * v->ax[0].out * v->ax[1].out * q->columns * q->taps * v->c >= BYTES_LARGE;
}
/* Whether it pays, as far as a few output channels tell. */
static bool clipped_pays(const codes_plan *q, float *tmp) {
    const clipped_panel p = clipped_kernel(q, tmp);
    int64_t clipped = 0;
    for (int64_t i = 0; i < BYTES_SAMPLES; i++) {
        const float *const row = codes_row(q, q->columns * i / BYTES_SAMPLES, tmp + p.line / (int64_t)sizeof *tmp);
        clipped += clipped_count(&p, (const int8_t *)(const void *)row);
    }
    return 5 * clipped < 2 * BYTES_SAMPLES * p.half;
}
/* Clips output channels j0 .. j1-1 of the kernel, and sums each. */
static void clipped_pack_kernel(const codes_plan *q, int64_t j0, int64_t j1, float *tmp) {
    const clipped_panel p = clipped_kernel(q, tmp);
    const codes_lists l = codes_lists_of(q);
    clipped_word *next = l.words + j0 * clipped_list(p.k);
    for (int64_t j = j0; j < j1; j++) {
        const float *const row = codes_row(q, j, tmp + p.line / (int64_t)sizeof *tmp);
        int8_t *const x = clipped_copy(&p, 0, (const int8_t *)(const void *)row);
        l.of[j] = (codes_list){next, clipped_row(&p, x, next, 1, q->totals + j)};
        next += l.of[j].n;
        memcpy(q->panels + 2 * p.half * j, x, (size_t)(2 * p.half) * sizeof(float));
    }
}

/* The sums of n output channels from j on, of MR positions from x on, to q->tile. */
GG_INLINE void clipped_codes_tile(const int n, const codes_plan *q, const codes_lists *l, int64_t j, const float *x) {
    const vi ones = vi_set1(0x00010001);
    const int64_t half = l->half;
    const int32_t *const at = q->at;
    const float *const w = q->panels + 2 * half * j;
    vi sum[CLIPPED_N][MV];
    GG_UNROLL for (int c = 0; c < n; c++) {
        const codes_list list = l->of[j + c];
        GG_UNROLL for (int i = 0; i < MV; i++) sum[c][i] = vi_set1(0);
        for (int64_t e = 0; e < list.n; e++) {
            const vi word = vi_set1(list.first[e].word);
            const float *const from = x + at[list.first[e].at];
            GG_UNROLL for (int i = 0; i < MV; i++)
                sum[c][i] = vi_madd_pairs(sum[c][i], vi_pairs(vi_words(from + i * VW), word), ones);
        }
    }
    for (int64_t s = 0; s < half; s++) {
        vi a[MV], b[MV];
        GG_UNROLL for (int i = 0; i < MV; i++)
            a[i] = vi_words(x + at[s] + i * VW), b[i] = vi_words(x + at[s + half] + i * VW);
        GG_UNROLL for (int c = 0; c < n; c++) {
            const vi u = vi_word_at(w + 2 * half * c + s, 0), v = vi_word_at(w + 2 * half * c + half + s, 0);
            GG_UNROLL for (int i = 0; i < MV; i++)
                sum[c][i] = vi_madd_pairs(sum[c][i], vi_add_pairs(vi_pairs(a[i], u), vi_pairs(b[i], v)), ones);
        }
    }
    GG_UNROLL for (int c = 0; c < n; c++)
        GG_UNROLL for (int i = 0; i < MV; i++) vf_store(q->tile + c * MR + i * VW, vi_float(sum[c][i]));
}
static void clipped_codes(const codes_plan *q, int64_t j, int64_t n, const float *x) {
    const codes_lists l = codes_lists_of(q);
    if (n == CLIPPED_N) clipped_codes_tile(CLIPPED_N, q, &l, j, x);
    else if (n == 3) clipped_codes_tile(3, q, &l, j, x);
    else if (n == 2) clipped_codes_tile(2, q, &l, j, x);
    else clipped_codes_tile(1, q, &l, j, x);
}
#else
static bool clipped_plan_make(codes_plan *q, const conv_plan *p) { return (void)q, (void)p, false; }
static int64_t clipped_kernel_words(const codes_plan *q) { return (void)q, 0; }
static bool clipped_pays(const codes_plan *q, float *tmp) { return (void)q, (void)tmp, false; }
static void clipped_pack_kernel(const codes_plan *q, int64_t j0, int64_t j1, float *tmp) {
    (void)q, (void)j0, (void)j1, (void)tmp;
}
static void clipped_codes(const codes_plan *q, int64_t j, int64_t n, const float *x) {
    (void)q, (void)j, (void)n, (void)x;
}
#endif

#endif
