/* Activation layouts: how dot products with quantised rows (generic.h) read their second operand. Codes come first,
 * then the scales, which are f32 whatever the scales of the activation type are: an activation may have any magnitude.
 * A layout is made from floats (<type>_lay_out_f32), as in products of matrices, or from a row of the activation type
 * (<type>_lay_out), as in vec_dot of the type traits. */
#ifndef GG_QUANTS_ACTIVATION_H
#define GG_QUANTS_ACTIVATION_H
#include "encode.h"

/* Q8_0 and Q8_1: the codes of all blocks, then for each block its scale d and d times the sum of its codes. */
typedef struct { float d, sum; } layout_scale;

static inline void small_lay_out(int block, const void *row, void *laid_out, int64_t n) {
    const char *a = row;
    int8_t *qs = laid_out;
    layout_scale *scale = (layout_scale *)(qs + n);
    for (; n > 0; n -= 32, a += block, qs += 32, scale++) {
        const vb q = vb_load(a + block - 32);
        vb_store(qs, q);
        scale->d = gg_half_of_two(a, 0);
        scale->sum = scale->d * vb_sum(q);
    }
}
static void q8_0_lay_out(const void *row, void *out, int64_t n) { small_lay_out(sizeof(block_q8_0), row, out, n); }
static void q8_1_lay_out(const void *row, void *out, int64_t n) { small_lay_out(sizeof(block_q8_1), row, out, n); }

static void q8_0_lay_out_f32(const float *x, void *laid_out, int64_t n) {
    int8_t *qs = laid_out;
    layout_scale *scale = (layout_scale *)(qs + n);
    for (q8_scales s; n > 0;) {
        const int count = q8_scales_of(x, n, false, &s);
        for (int k = 0; k < count; k++, x += 32, qs += 32, scale++, n -= 32) {
            const vb q = round_levels(x, s.inverse[k], 127);
            vb_store(qs, q);
            scale->d = s.d[k], scale->sum = s.d[k] * vb_sum(q);
        }
    }
}
static void q8_1_lay_out_f32(const float *x, void *laid_out, int64_t n) { q8_0_lay_out_f32(x, laid_out, n); }

/* Q8_K: a q8_K_layout for each block, then d of all blocks, padded with zeros to a multiple of four. bsums[i] is the
 * sum of codes 16 i .. 16 i + 15, pairs[i] the sum of codes 2 i and 2 i + 1 of all chunks. */
typedef struct { int8_t qs[256]; int16_t bsums[16], pairs[16]; } q8_K_layout;
_Static_assert(sizeof(q8_K_layout) + 4 * sizeof(float) <= 256 / 32 * GG_LAYOUT_BYTES, "room for d");

static inline void sum_pairs(const int8_t *qs, int16_t pairs[16]) {
    memset(pairs, 0, 16 * sizeof *pairs);
    for (int j = 0; j < 256; j += 32)
        for (int i = 0; i < 16; i++) pairs[i] = (int16_t)(pairs[i] + qs[j + 2 * i] + qs[j + 2 * i + 1]);
}
static inline void pad_scales(float *d, int64_t blocks) { memset(d, 0, (size_t)(-blocks & 3) * sizeof *d); }

static void q8_K_lay_out(const void *row, void *laid_out, int64_t n) {
    const block_q8_K *a = row, *end = a + n / 256;
    q8_K_layout *w = laid_out;
    float *d = (float *)(w + n / 256);
    for (; a < end; a++, w++, d++) {
        memcpy(w->qs, a->qs, sizeof w->qs);
        memcpy(w->bsums, a->bsums, sizeof w->bsums);
        sum_pairs(w->qs, w->pairs);
        *d = a->d;
    }
    pad_scales(d, n / 256);
}
static void q8_K_lay_out_f32(const float *x, void *laid_out, int64_t n) {
    q8_K_layout *w = laid_out, *end = w + n / 256;
    float *d = (float *)end;
    for (; w < end; w++, x += 256, d++) {
        *d = q8_K_codes(x, max_abs_or_inf(x, 256), w->qs, w->bsums);
        sum_pairs(w->qs, w->pairs);
    }
    pad_scales(d, n / 256);
}

#endif
