/* 32 bytes in two NEON registers. */
#include <arm_neon.h>
typedef struct { uint8x16_t lo, hi; } vb;
typedef struct { int32x4_t lo, hi; } vq;
typedef float32x4_t va;

#define VB_EACH(f) ((vb){f(a.lo, b.lo), f(a.hi, b.hi)})

static inline float gg_half_f32(gg_half h) { __fp16 f; memcpy(&f, &h, 2); return (float)f; }
static inline vb vb_load2(const void *p, const void *q) { return (vb){vld1q_u8(p), vld1q_u8(q)}; }
static inline vb vb_load(const void *p) { return vb_load2(p, (const uint8_t *)p + 16); }
static inline vb vb_nibbles(const void *p) {
    const uint8x16_t c = vld1q_u8(p);
    return (vb){vandq_u8(c, vdupq_n_u8(15)), vshrq_n_u8(c, 4)};
}
static inline vb vb_u64(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return (vb){vcombine_u8(vcreate_u8(a), vcreate_u8(b)), vcombine_u8(vcreate_u8(c), vcreate_u8(d))};
}
static inline vb vb_set1(int x) { const uint8x16_t v = vdupq_n_u8((uint8_t)x); return (vb){v, v}; }
static inline vb vb_mask(uint32_t bits) {
    const uint8x16_t bit = vcombine_u8(vcreate_u8(0x8040201008040201), vcreate_u8(0x8040201008040201));
    const uint8x16_t lo = vcombine_u8(vdup_n_u8((uint8_t)bits), vdup_n_u8((uint8_t)(bits >> 8)));
    const uint8x16_t hi = vcombine_u8(vdup_n_u8((uint8_t)(bits >> 16)), vdup_n_u8((uint8_t)(bits >> 24)));
    return (vb){vtstq_u8(lo, bit), vtstq_u8(hi, bit)};
}
static inline vb vb_and(vb a, vb b) { return VB_EACH(vandq_u8); }
static inline vb vb_or(vb a, vb b) { return VB_EACH(vorrq_u8); }
static inline vb vb_add(vb a, vb b) { return VB_EACH(vaddq_u8); }
static inline vb vb_sub(vb a, vb b) { return VB_EACH(vsubq_u8); }
static inline vb vb_shl(vb a, int k) {
    const int8x16_t s = vdupq_n_s8((int8_t)k);
    return (vb){vshlq_u8(a.lo, s), vshlq_u8(a.hi, s)};
}
static inline vb vb_field(vb a, int k, int mask) { return vb_and(vb_shl(a, -k), vb_set1(mask)); }
static inline vb vb_lut(const int8_t *table, vb a) {
    const uint8x16_t t = vreinterpretq_u8_s8(vld1q_s8(table));
    return (vb){vqtbl1q_u8(t, a.lo), vqtbl1q_u8(t, a.hi)};
}
static inline vb vb_ge(vb a, int k) { const vb b = vb_set1(k); return VB_EACH(vcgeq_u8); }
static inline vb vb_negate(vb a, vb m) {
    return vb_sub((vb){veorq_u8(a.lo, m.lo), veorq_u8(a.hi, m.hi)}, m);
}

static inline int32x4_t vq_dot16(uint8x16_t a, uint8x16_t b) {
    const int8x16_t x = vreinterpretq_s8_u8(a), y = vreinterpretq_s8_u8(b);
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(vdupq_n_s32(0), x, y);
#else
    return vpadalq_s16(vpaddlq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y))), vmull_s8(vget_high_s8(x), vget_high_s8(y)));
#endif
}
static inline vq vq_dot_ss(vb a, vb b) { return (vq){vq_dot16(a.lo, b.lo), vq_dot16(a.hi, b.hi)}; }
static inline vq vq_dot_us(vb u, vb s) { return vq_dot_ss(u, s); }

static inline va va_zero(void) { return vdupq_n_f32(0); }
static inline va va_add(va a, va b) { return vaddq_f32(a, b); }
static inline va va_scale(va acc, va a, float x) { return vfmaq_n_f32(acc, a, x); }
static inline float va_sum(va a) { return vaddvq_f32(a); }
static inline va va_madd(va acc, vq q, float lo, float hi) {
    return vfmaq_n_f32(vfmaq_n_f32(acc, vcvtq_f32_s32(q.lo), lo), vcvtq_f32_s32(q.hi), hi);
}
static inline va va_dot16(va acc, const float *m, const int16_t *s) {
    for (int i = 0; i < 16; i += 4) acc = vfmaq_f32(acc, vld1q_f32(m + i), vcvtq_f32_s32(vmovl_s16(vld1_s16(s + i))));
    return acc;
}
static inline void vb_store16(float *y, uint8x16_t v, float scale, float off) {
    const int16x8_t h[2] = {vmovl_s8(vreinterpret_s8_u8(vget_low_u8(v))), vmovl_s8(vreinterpret_s8_u8(vget_high_u8(v)))};
    for (int i = 0; i < 2; i++) {
        const float32x4_t a = vcvtq_f32_s32(vmovl_s16(vget_low_s16(h[i]))), b = vcvtq_f32_s32(vmovl_s16(vget_high_s16(h[i])));
        vst1q_f32(y + 8 * i, vsubq_f32(vmulq_n_f32(a, scale), vdupq_n_f32(off)));
        vst1q_f32(y + 8 * i + 4, vsubq_f32(vmulq_n_f32(b, scale), vdupq_n_f32(off)));
    }
}
static inline void vb_store_f32(float *y, vb v, float lo, float hi, float off_lo, float off_hi) {
    vb_store16(y, v.lo, lo, off_lo);
    vb_store16(y + 16, v.hi, hi, off_hi);
}
#undef VB_EACH
