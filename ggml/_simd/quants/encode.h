/* <type>_from_f32 of the types whose scales follow directly from the extreme values of a block: no search, no
 * importance weights. A level is the number to which an element is rounded once it is divided by the scale. */
#ifndef GG_QUANTS_ENCODE_H
#define GG_QUANTS_ENCODE_H
#include "../runtime/kernel.h"
#include "bytes/bytes.h"
#include "quantize.h"
#include <math.h>

/* ---- over n floats, n a multiple of 16 --------------------------------------------------------------------------- */
/* A NaN among the elements makes their sum NaN. So do infinities of both signs, which are not finite either. */
static inline void note_nan(vf sum) { if (vm_any(vf_isnan(sum))) gg_note_beyond_range(); }
/* The largest magnitude, without NaN. */
static inline float max_abs(const float *x, int n) {
    vf m = vf_zero(), sum = m;
    for (int i = 0; i < n; i += VW) {
        const vf v = vf_load(x + i);
        m = vf_max(vf_abs(v), m), sum = vf_add(sum, v);
    }
    note_nan(sum);
    return vf_hmax(m);
}
/* Likewise, but infinity if an element is NaN. */
static inline float max_abs_or_inf(const float *x, int64_t n) {
    vf m = vf_zero(), sum = m;
    for (int64_t i = 0; i < n; i += VW) {
        const vf v = vf_load(x + i);
        m = vf_max(vf_abs(v), m), sum = vf_add(sum, v);
    }
    return vf_hmax(vf_select(vf_isnan(sum), vf_set1(GG_INF), m));
}
static inline void min_max(const float *x, int n, float *min, float *max) {
    vf lo = vf_set1(x[0]), hi = lo, sum = vf_zero();
    for (int i = 0; i < n; i += VW) {
        const vf v = vf_load(x + i);
        lo = vf_min(v, lo), hi = vf_max(v, hi), sum = vf_add(sum, v);
    }
    note_nan(sum);
    *min = vf_hmin(lo), *max = vf_hmax(hi);
    for (int i = 0; *min == 0 && i < n; i++) if (x[i] == 0) { *min = x[i]; break; }   /* the first of 0 and -0 */
}
/* first ? a : b without a branch, which would be mispredicted half of the time. */
static inline uint32_t select_u32(bool first, uint32_t a, uint32_t b) { return b ^ ((a ^ b) & -(uint32_t)first); }
/* The value of the largest magnitude, the first of several; 0 if all are 0. */
static inline float extreme(const float *x, int n) {
    float lo, hi;
    min_max(x, n, &lo, &hi);
    if (hi != -lo) return gg_bits_f32(select_u32(hi > -lo, gg_f32_bits(hi), gg_f32_bits(lo)));
    if (hi == 0) return 0;
    for (int i = 0; i < n; i++) if (x[i] == lo || x[i] == hi) return x[i];
    return 0;
}
static inline float reciprocal(float d) { return d != 0 ? 1 / d : 0; }

/* v limited to lo..hi; NaN becomes lo. */
static inline vf clamp(vf v, float lo, float hi) { return vf_min(vf_max(v, vf_set1(lo)), vf_set1(hi)); }
/* Stores integer levels as bytes, limited to lo..hi. */
static inline void store_levels(uint8_t *q, vf v, float lo, float hi) { vi_store_u8(q, vf_to_vi(clamp(v, lo, hi))); }

/* The levels of 32 elements as bytes. The formats prescribe three ways of rounding. */
#define LEVELS(level)                                                                                              \
    vi l[32 / VW];                                                                                                 \
    for (int i = 0; i < 32 / VW; i++) { const vf v = vf_load(x + i * VW); l[i] = level; }                          \
    return vb_from_i32(l)
/* floor((x - off) scale + bias) */
static inline vb floor_levels(const float *x, float off, float scale, float bias, float hi) {
    LEVELS(vf_whole(clamp(vf_add(vf_mul(vf_sub(v, vf_set1(off)), vf_set1(scale)), vf_set1(bias)), 0, hi)));
}
/* x scale, rounded to nearest, half away from zero */
static inline vb round_levels(const float *x, float scale, float limit) {
    LEVELS(vf_whole(clamp(v_half_away(vf_mul(v, vf_set1(scale))), -limit, limit)));
}
/* x scale, rounded to nearest, half to even */
static inline vb even_levels(const float *x, float scale, float limit) {
    LEVELS(vf_to_vi(clamp(vf_mul(v, vf_set1(scale)), -limit, limit)));
}
#undef LEVELS

/* Packs 2 n levels of four bits into n bytes: elements 0..n-1 into the low, n..2n-1 into the high four bits. */
static inline void pack_nibbles(uint8_t *qs, const uint8_t *q, int n) {
    for (int i = 0; i < n; i++) qs[i] = (uint8_t)((q[i] & 15) | q[n + i] << 4);
}
/* Packs 32 levels of five bits: four bits into qs, the fifth into qh. */
static inline void pack_five_bits(uint8_t *qs, gg_u32 *qh, vb v) {
    *qh = vb_bits(vb_gt(v, vb_set1(15)));
    vb_store_nibbles(qs, vb_and(v, vb_set1(15)));
}

/* A scale (or minimum) that is stored as f16, limited to what that holds. NaN becomes 0. */
static inline float limit_scale(float d) {
    if (__builtin_expect(fabsf(d) < 65520, true)) return d;         /* from there on, rounding gives infinity */
    gg_note_beyond_range();
    return d > 0 ? 65504 : d < 0 ? -65504 : 0;
}
static inline gg_half scale_half(float d) { return gg_f32_half(limit_scale(d)); }

/* The sum of 32 signed bytes. */
static inline float vb_sum(vb v) { return va_sum(va_madd1(va_zero(), vq_dot_us(vb_set1(1), v), 1)); }

/* Packs the low two bits of 256 levels: byte i of a half holds elements i, i + 32, i + 64, i + 96 of it. */
static inline void pack_two_bits(uint8_t *qs, const uint8_t *q) {
    for (int h = 0; h < 2; h++, q += 128, qs += 32)
        for (int i = 0; i < 32; i++)
            qs[i] = (uint8_t)((q[i] & 3) | (q[i + 32] & 3) << 2 | (q[i + 64] & 3) << 4 | (q[i + 96] & 3) << 6);
}

/* ---- blocks of 32, 64 and 128 elements --------------------------------------------------------------------------- */
static void q4_0_from_f32(const float *x, void *y, int64_t n) {
    for (block_q4_0 *b = y; n > 0; b++, x += 32, n -= 32) {
        const float d = limit_scale(extreme(x, 32) / -8);
        vb_store_nibbles(b->qs, floor_levels(x, 0, reciprocal(d), 8.5f, 15));
        b->d = gg_f32_half(d);
    }
}
static void q4_1_from_f32(const float *x, void *y, int64_t n) {
    for (block_q4_1 *b = y; n > 0; b++, x += 32, n -= 32) {
        float lo, hi;
        min_max(x, 32, &lo, &hi);
        lo = limit_scale(lo);
        const float d = limit_scale((hi - lo) / 15);
        vb_store_nibbles(b->qs, floor_levels(x, lo, reciprocal(d), 0.5f, 15));
        b->d = gg_f32_half(d), b->m = gg_f32_half(lo);
    }
}
static void q5_0_from_f32(const float *x, void *y, int64_t n) {
    for (block_q5_0 *b = y; n > 0; b++, x += 32, n -= 32) {
        const float d = limit_scale(extreme(x, 32) / -16);
        pack_five_bits(b->qs, &b->qh, floor_levels(x, 0, reciprocal(d), 16.5f, 31));
        b->d = gg_f32_half(d);
    }
}
static void q5_1_from_f32(const float *x, void *y, int64_t n) {
    for (block_q5_1 *b = y; n > 0; b++, x += 32, n -= 32) {
        float lo, hi;
        min_max(x, 32, &lo, &hi);
        lo = limit_scale(lo);
        const float d = limit_scale((hi - lo) / 31);
        pack_five_bits(b->qs, &b->qh, floor_levels(x, lo, reciprocal(d), 0.5f, 31));
        b->d = gg_f32_half(d), b->m = gg_f32_half(lo);
    }
}
/* Computes the scales of Q8_0 and Q8_1 for a batch of blocks, because a block by itself waits for two divisions. A
 * NaN or infinity makes the scale infinite: products with such an activation must not become finite. in_half: finite
 * scales are limited to the range of f16. */
enum { BATCH = 64 };
typedef struct { float d[BATCH], inverse[BATCH]; } q8_scales;
static inline int q8_scales_of(const float *x, int64_t n, const bool in_half, q8_scales *s) {
    const int count = n < 32 * BATCH ? (int)(n / 32) : BATCH;
    for (int k = 0; k < count; k++) s->d[k] = max_abs_or_inf(x + 32 * k, 32);
    for (int k = count; k % VW; k++) s->d[k] = 0;
    for (int k = 0; k < count; k += VW) {
        vf d = vf_div(vf_max(vf_load(s->d + k), vf_set1(GG_LEAST_MAGNITUDE)), vf_set1(127));
        if (in_half && vm_any(vf_ge(d, vf_set1(65520)))) {
            gg_note_beyond_range();
            d = vf_select(vf_eq(d, vf_set1(GG_INF)), d, vf_min(d, vf_set1(65504)));
        }
        vf_store(s->d + k, d), vf_store(s->inverse + k, vf_div(vf_set1(1), d));
    }
    return count;
}
static void q8_0_from_f32(const float *x, void *y, int64_t n) {
    q8_scales s;
    for (block_q8_0 *b = y; n > 0;) {
        const int count = q8_scales_of(x, n, true, &s);
        for (int k = 0; k < count; k++, b++, x += 32, n -= 32) {
            vb_store(b->qs, round_levels(x, s.inverse[k], 127));
            b->d = gg_f32_half(s.d[k]);
        }
    }
}
static void q8_1_from_f32(const float *x, void *y, int64_t n) {
    q8_scales s;
    for (block_q8_1 *b = y; n > 0;) {
        const int count = q8_scales_of(x, n, true, &s);
        for (int k = 0; k < count; k++, b++, x += 32, n -= 32) {
            const vb q = round_levels(x, s.inverse[k], 127);
            vb_store(b->qs, q);
            b->d = gg_f32_half(s.d[k]);
            b->s = gg_f32_half(fminf(fmaxf(vb_sum(q) * s.d[k], -65504), 65504));    /* decoding does not need it */
        }
    }
}

/* Indices into GG_LEVELS_E2M1, whose values are doubled: the value nearest to x / half_d, the smaller magnitude in a
 * tie. half_d is half of the scale. */
static inline void e2m1_levels(uint8_t *q, const float *x, int n, float half_d) {
    static const float middle[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
    for (int i = 0; i < n; i += VW) {
        const vf v = vf_load(x + i), a = vf_abs(v), one = vf_set1(1);
        vf level = vf_zero();
        for (int k = 0; k < 7; k++) level = vf_select(vf_gt(a, vf_set1(middle[k] * half_d)), vf_add(level, one), level);
        const vm minus = vm_and(vf_lt(v, vf_zero()), vf_gt(level, vf_zero()));
        store_levels(q + i, vf_select(minus, vf_add(level, vf_set1(8)), level), 0, 15);
    }
}
static void mxfp4_from_f32(const float *x, void *y, int64_t n) {
    uint8_t q[32];
    for (block_mxfp4 *b = y; n > 0; b++, x += 32, n -= 32) {
        /* the exponent of the maximum, minus that of the largest level, 6 = 1.5 * 2^2 */
        const int exponent = (int)(gg_f32_bits(max_abs(x, 32)) >> 23) - 2;
        if (exponent > 252) gg_note_beyond_range();         /* the maximum is infinite */
        b->e = (uint8_t)(exponent < 0 ? 0 : exponent > 252 ? 252 : exponent);
        e2m1_levels(q, x, 32, gg_e8m0_half(b->e));
        pack_nibbles(b->qs, q, 16);
    }
}

/* The nearest UE4M3, half up; the largest is 0x7e, 448. */
static inline uint8_t ue4m3(float x) {
    if (!(x > 0)) return 0;
    if (x >= 464) gg_note_beyond_range();           /* nearer to the next code, which would be 480 */
    if (x >= 448) return 0x7e;
    if (x < 0x1p-6f) {
        const int m = (int)(x * 512 + 0.5f);
        return (uint8_t)(m > 7 ? 7 : m);
    }
    const uint32_t u = ((gg_f32_bits(x) + (1u << 19)) >> 20) - (120 << 3);
    return (uint8_t)(u > 0x7e ? 0x7e : u);
}
static void nvfp4_from_f32(const float *x, void *y, int64_t n) {
    uint8_t q[16];
    for (block_nvfp4 *b = y; n > 0; b++, n -= 64)
        for (int j = 0; j < 4; j++, x += 16) {
            b->d[j] = ue4m3(max_abs(x, 16) / 6);
            const float half_d = gg_ue4m3_half(b->d[j]);
            e2m1_levels(q, x, 16, half_d > 0 ? half_d : 3e38f);     /* scale 0: all levels are 0 */
            pack_nibbles(b->qs + 8 * j, q, 8);
        }
}

/* Rounds n elements to the codes 0, 1, 2 of -d, 0, d; returns d. */
static inline float ternary(uint8_t *q, const float *x, int n) {
    const float d = limit_scale(max_abs(x, n));
    for (int i = 0; i < n; i += 32) vb_store(q + i, vb_add(round_levels(x + i, reciprocal(d), 1), vb_set1(1)));
    return d;
}
static void q1_0_from_f32(const float *x, void *y, int64_t n) {
    for (block_q1_0 *b = y; n > 0; b++, x += 128, n -= 128) {
        float sum = 0;
        for (int i = 0; i < 128; i++) sum += x[i] < 0 ? -x[i] : x[i];
        b->d = scale_half(sum / 128);
        for (int i = 0; i < 16; i++) {
            int bits = 0;
            for (int k = 0; k < 8; k++) bits |= (x[8 * i + k] >= 0) << k;
            b->qs[i] = (uint8_t)bits;
        }
    }
}

/* Rounds to -d, 0, d, where d is the largest absolute value; the fourth code, 2 d, is left to other encoders. */
static void q2_0_from_f32(const float *x, void *y, int64_t n) {
    uint8_t q[64];
    for (block_q2_0 *b = y; n > 0; b++, x += 64, n -= 64) {
        b->d = gg_f32_half(ternary(q, x, 64));
        for (int i = 0; i < 16; i++)
            b->qs[i] = (uint8_t)(q[4 * i] | q[4 * i + 1] << 2 | q[4 * i + 2] << 4 | q[4 * i + 3] << 6);
    }
}

/* ---- blocks of 256 elements -------------------------------------------------------------------------------------- */
/* Rounds 256 elements to the codes of Q8_K, and sums each 16 of them; returns the scale. top: the element of the
 * largest magnitude, with either sign, or an infinity if an element is NaN. */
static inline float q8_K_codes(const float *x, float top, int8_t *qs, int16_t *bsums) {
    const float magnitude = fabsf(top) > GG_LEAST_MAGNITUDE ? fabsf(top) : GG_LEAST_MAGNITUDE;
    const float scale = -127 / copysignf(magnitude, top);
    for (int i = 0; i < 256; i += 32) vb_store(qs + i, even_levels(x + i, scale, 127));
    for (int j = 0; j < 16; j++) {
        int sum = 0;
        for (int i = 0; i < 16; i++) sum += qs[16 * j + i];
        bsums[j] = (int16_t)sum;
    }
    return top == 0 ? 0 : magnitude < GG_INF ? 1 / scale : GG_INF;
}
static void q8_K_from_f32(const float *x, void *y, int64_t n) {
    for (block_q8_K *b = y; n > 0; b++, x += 256, n -= 256) {
        const bool finite = max_abs_or_inf(x, 256) < GG_INF;
        if (!finite) gg_note_beyond_range();
        b->d = q8_K_codes(x, finite ? extreme(x, 256) : GG_INF, b->qs, b->bsums);
    }
}
/* The base-3 digits q[0], q[step], ... as a fraction of 256, rounded up, so that a multiplication by 3^k makes digit
 * k the first one (tq1_0_chunk). */
static inline uint8_t pack_trits(const uint8_t *q, int step, int count) {
    int v = 0;
    for (int k = 0; k < 5; k++) v = 3 * v + (k < count ? q[k * step] : 0);
    return (uint8_t)((v * 256 + 242) / 243);
}
static void tq1_0_from_f32(const float *x, void *y, int64_t n) {
    uint8_t q[256];
    for (block_tq1_0 *b = y; n > 0; b++, x += 256, n -= 256) {
        b->d = gg_f32_half(ternary(q, x, 256));
        for (int i = 0; i < 32; i++) b->qs[i] = pack_trits(q + i, 32, 5);
        for (int i = 0; i < 16; i++) b->qs[32 + i] = pack_trits(q + 160 + i, 16, 5);
        for (int i = 0; i < 4; i++) b->qh[i] = pack_trits(q + 240 + i, 4, 4);
    }
}
static void tq2_0_from_f32(const float *x, void *y, int64_t n) {
    uint8_t q[256];
    for (block_tq2_0 *b = y; n > 0; b++, x += 256, n -= 256) {
        b->d = gg_f32_half(ternary(q, x, 256));
        pack_two_bits(b->qs, q);
    }
}

#endif
