/* Encoders that search: Q4_0 to Q5_1 with importance weights, the K types with and without. im holds the importance
 * weight of each element of the row, or is NULL. */
#ifndef GG_QUANTS_QUANT_K_H
#define GG_QUANTS_QUANT_K_H
#include "search.h"

/* ---- Q4_0, Q4_1, Q5_0, Q5_1 -------------------------------------------------------------------------------------- */
static const candidates fine_candidates = {-0.9f, 0.05f, 36, false};

/* Loads the next LANES blocks of 32 elements from a row: their weights to w, values and weights to g. Returns the
 * number of blocks, 0 at the end of the row. */
static inline int load_groups(const float *x, const float *im, int64_t n, int64_t at, float sigma2, float *w,
                              groups *g) {
    const int count = n - at < 32 * LANES ? (int)((n - at) / 32) : LANES;
    if (!count) return 0;
    importance(w, x + at, im + at, 32 * count, sigma2);
    set_groups(g, x + at, w, count, 32);
    return count;
}
#define WEIGHTED_QUANTIZE(t) \
    static void t##_quantize(const float *x, void *y, int64_t n, const float *im) { \
        if (im) quantize_limited(t##_fit, 32, sizeof(block_##t), x, y, n, im); \
        else t##_from_f32(x, y, n); \
    }
#define SYMMETRIC_QUANTIZE(t, HALF, PACK) \
    static void t##_fit(const float *x, void *y, int64_t n, const float *im) { \
        const float sigma2 = sum_squares(x, n) / (float)n; \
        block_##t *b = y; \
        groups g; \
        symmetric s; \
        float w[32 * LANES]; \
        uint8_t q[32]; \
        for (int64_t at = 0; load_groups(x, im, n, at, sigma2, w, &g);) { \
            fit_symmetric(&g, HALF, &s); \
            for (int j = 0; j < g.count; j++, b++, at += 32) { \
                symmetric_levels(q, x + at, &s, j, 32, HALF); \
                b->d = scale_half(s.scale[j]); \
                PACK; \
            } \
        } \
    } \
    WEIGHTED_QUANTIZE(t)
#define AFFINE_QUANTIZE(t, TOP, PACK) \
    static void t##_fit(const float *x, void *y, int64_t n, const float *im) { \
        const float sigma2 = sum_squares(x, n) / (float)n; \
        block_##t *b = y; \
        groups g; \
        affine a; \
        float w[32 * LANES]; \
        uint8_t q[32]; \
        for (int64_t at = 0; load_groups(x, im, n, at, sigma2, w, &g);) { \
            fit_affine(&g, TOP, fine_candidates, &a); \
            for (int j = 0; j < g.count; j++, b++, at += 32) { \
                affine_levels(q, x + at, &a, j, 32, TOP); \
                b->d = scale_half(a.scale[j]), b->m = scale_half(-a.minus_min[j]); \
                PACK; \
            } \
        } \
    } \
    WEIGHTED_QUANTIZE(t)
SYMMETRIC_QUANTIZE(q4_0, 8, vb_store_nibbles(b->qs, vb_load(q)))
SYMMETRIC_QUANTIZE(q5_0, 16, pack_five_bits(b->qs, &b->qh, vb_load(q)))
AFFINE_QUANTIZE(q4_1, 15, vb_store_nibbles(b->qs, vb_load(q)))
AFFINE_QUANTIZE(q5_1, 31, pack_five_bits(b->qs, &b->qh, vb_load(q)))

/* ---- K types: scales and minima of a block of 256 elements are themselves quantised ------------------------------ */
/* Rounds a scale group again, by its quantised scale d and minimum m; if d is 0, the codes stay. */
static inline void final_levels(uint8_t *q, const float *x, int n, float d, float m, int lo, int hi) {
    if (d == 0) return;
    for (int i = 0; i < n; i += VW) {
        const vf l = vf_round(vf_div(vf_add(vf_load(x + i), vf_set1(m)), vf_set1(d)));
        store_levels(q + i, vf_add(levels(l, vf_set1((float)lo), vf_set1((float)hi)), vf_set1((float)-lo)), 0,
                   (float)(hi - lo));
    }
}
/* Quantises scales to multiples of their maximum / top; returns that unit. */
static inline float unit_scales(const float *scale, int n, int top, uint8_t *q) {
    float max = 0;
    for (int j = 0; j < n; j++) if (scale[j] > max) max = scale[j];
    const float inv = max > 0 ? (float)top / max : 0;
    for (int j = 0; j < n; j++) q[j] = (uint8_t)level(inv * scale[j], 0, (float)top);
    return max / (float)top;
}
static inline void offset_abs(float *w, const float *x, int n, float offset) {
    for (int i = 0; i < n; i += VW) vf_store(w + i, vf_add(vf_abs(vf_load(x + i)), vf_set1(offset)));
}

/* Fits a block of 256 elements in scale groups of n: scales and minima as multiples of d and dmin, codes to q. */
static inline void affine_block(const float *x, const float *im, const float *w, int n, int top, int scale_top,
                                candidates plain, gg_half *d, gg_half *dmin, uint8_t *qscale, uint8_t *qmin,
                                uint8_t *q) {
    const int count = 256 / n;
    groups g;
    affine a;
    float sw[LANES];
    set_groups(&g, x, w, count, n);
    fit_affine(&g, top, im ? fine_candidates : plain, &a);
    for (int j = 0; j < count; j++) sw[j] = sum(w + n * j, n);
    *d = scale_half(im ? fit_positive(a.scale, sw, count, scale_top, qscale)
                          : unit_scales(a.scale, count, scale_top, qscale));
    *dmin = scale_half(im ? fit_positive(a.minus_min, sw, count, scale_top, qmin)
                             : unit_scales(a.minus_min, count, scale_top, qmin));
    const float scale = gg_f16_to_f32(*d), min = gg_f16_to_f32(*dmin);
    for (int j = 0; j < count; j++) {
        affine_levels(q + n * j, x + n * j, &a, j, n, top);
        final_levels(q + n * j, x + n * j, n, scale * (float)qscale[j], min * (float)qmin[j], 0, top);
    }
}

static void q2_K_quantize(const float *x, void *y, int64_t n, const float *im) {
    uint8_t q[256], scale[16], min[16];
    float w[256];
    for (block_q2_K *b = y; n > 0; b++, x += 256, n -= 256) {
        if (im) importance(w, x, im, 256, sum_squares(x, 256) / 256);
        else offset_abs(w, x, 256, 0);
        affine_block(x, im, w, 16, 3, 15, (candidates){-0.5f, 0.1f, 15, true}, &b->d, &b->dmin, scale, min, q);
        for (int j = 0; j < 16; j++) b->scales[j] = (uint8_t)(scale[j] | min[j] << 4);
        pack_two_bits(b->qs, q);
        if (im) im += 256;
    }
}
static inline void k4_block(const float *x, const float *im, int top, candidates plain, gg_half *d, gg_half *dmin,
                            uint8_t *scales, uint8_t *q) {
    uint8_t scale[8], min[8];
    float w[256];
    if (im) importance(w, x, im, 256, 2 * sum_squares(x, 256) / 256);
    else for (int j = 0; j < 256; j += 32) offset_abs(w + j, x + j, 32, sqrtf(sum_squares(x + j, 32) / 32));
    affine_block(x, im, w, 32, top, 63, plain, d, dmin, scale, min, q);
    gg_k4_pack(scales, scale, min);
}
static void q4_K_quantize(const float *x, void *y, int64_t n, const float *im) {
    uint8_t q[256];
    for (block_q4_K *b = y; n > 0; b++, x += 256, n -= 256) {
        k4_block(x, im, 15, (candidates){-1, 0.1f, 20, false}, &b->d, &b->dmin, b->scales, q);
        for (int j = 0; j < 4; j++) pack_nibbles(b->qs + 32 * j, q + 64 * j, 32);
        if (im) im += 256;
    }
}
/* Packs bit k of 256 levels: byte i holds elements i, i + 32, ... */
static inline void pack_bit(uint8_t *h, const uint8_t *q, int k) {
    for (int i = 0; i < 32; i++) {
        int bits = 0;
        for (int j = 0; j < 8; j++) bits |= (q[32 * j + i] >> k & 1) << j;
        h[i] = (uint8_t)bits;
    }
}
static void q5_K_quantize(const float *x, void *y, int64_t n, const float *im) {
    uint8_t q[256];
    for (block_q5_K *b = y; n > 0; b++, x += 256, n -= 256) {
        k4_block(x, im, 31, (candidates){-0.5f, 0.1f, 15, false}, &b->d, &b->dmin, b->scales, q);
        for (int j = 0; j < 4; j++) pack_nibbles(b->qs + 32 * j, q + 64 * j, 32);
        pack_bit(b->qh, q, 4);
        if (im) im += 256;
    }
}

static void q3_K_quantize(const float *x, void *y, int64_t n, const float *im) {
    uint8_t q[256], qscale[16] = {0};
    float w[256], scale[16], sw[16], d;
    groups g;
    symmetric s;
    for (block_q3_K *b = y; n > 0; b++, x += 256, n -= 256) {
        if (im) {
            importance(w, x, im, 256, 2 * sum_squares(x, 256) / 256);
            set_groups(&g, x, w, 16, 16);
            fit_symmetric(&g, 4, &s);
            for (int j = 0; j < 16; j++) {
                symmetric_levels(q + 16 * j, x + 16 * j, &s, j, 16, 4);
                scale[j] = s.scale[j], sw[j] = sum(w + 16 * j, 16);
            }
            set_groups(&g, scale, sw, 1, 16);           /* the scales are fitted like elements */
            fit_symmetric(&g, 32, &s);
            symmetric_levels(qscale, scale, &s, 0, 16, 32);
            d = s.scale[0];
            im += 256;
        } else {
            for (int j = 0; j < 16; j++) scale[j] = fit_by_moves(x + 16 * j, 16, 4, q + 16 * j);
            const float peak = extreme(scale, 16), inv = peak != 0 ? -32 / peak : 0;
            for (int j = 0; j < 16; j++) qscale[j] = peak != 0 ? (uint8_t)(level(inv * scale[j], -32, 31) + 32) : 0;
            d = reciprocal(inv);
        }
        b->d = scale_half(d);
        gg_k3_pack(b->scales, qscale);
        for (int j = 0; j < 16; j++)
            final_levels(q + 16 * j, x + 16 * j, 16, gg_f16_to_f32(b->d) * (float)(qscale[j] - 32), 0, -4, 3);
        pack_bit(b->hmask, q, 2);
        pack_two_bits(b->qs, q);
    }
}

static void q6_K_quantize(const float *x, void *y, int64_t n, const float *im) {
    uint8_t q[256];
    float w[256];
    groups g;
    symmetric s;
    for (block_q6_K *b = y; n > 0; b++, x += 256, n -= 256) {
        for (int i = 0; i < 256; i++) w[i] = im ? im[i] : x[i] * x[i];
        if (im) im += 256;
        set_groups(&g, x, w, 16, 16);
        fit_symmetric(&g, 32, &s);
        const float peak = extreme(s.scale, 16), inv = -128 / peak;
        if (!(fabsf(peak) >= 1e-15f)) { memset(b, 0, sizeof *b); continue; }
        b->d = scale_half(1 / inv);
        for (int j = 0; j < 16; j++) {
            b->scales[j] = (int8_t)level(inv * s.scale[j], -128, 127);
            symmetric_levels(q + 16 * j, x + 16 * j, &s, j, 16, 32);
            final_levels(q + 16 * j, x + 16 * j, 16, gg_f16_to_f32(b->d) * (float)b->scales[j], 0, -32, 31);
        }
        for (int h = 0; h < 2; h++) {
            const uint8_t *p = q + 128 * h;
            pack_nibbles(b->ql + 64 * h, p, 64);
            for (int i = 0; i < 32; i++)
                b->qh[32 * h + i] = (uint8_t)(p[i] >> 4 | p[i + 32] >> 4 << 2 | p[i + 64] >> 4 << 4
                                              | p[i + 96] >> 4 << 6);
        }
    }
}

#endif
