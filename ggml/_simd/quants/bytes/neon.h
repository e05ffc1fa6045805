/* 32 bytes in two NEON registers. */
#include <arm_neon.h>
typedef struct { uint8x16_t lo, hi; } vb;
typedef struct { int32x4_t lo, hi; } vq;
typedef struct { int16_t v[16]; } vs;
typedef float32x4_t va;

#define VB_EACH(f) ((vb){f(a.lo, b.lo), f(a.hi, b.hi)})

static inline float gg_half_f32(gg_half h) { __fp16 f; memcpy(&f, &h, 2); return (float)f; }
static inline gg_half gg_f32_half(float x) { const __fp16 f = (__fp16)x; gg_half h; memcpy(&h, &f, 2); return h; }
static inline float gg_half_of_two(const void *p, int i) { gg_half h[2]; memcpy(h, p, 4); return gg_half_f32(h[i]); }
static inline vb vb_load(const void *p) { return (vb){vld1q_u8(p), vld1q_u8((const uint8_t *)p + 16)}; }
static inline void vb_store_lo_hi(void *p, void *q, vb v) { vst1q_u8(p, v.lo), vst1q_u8(q, v.hi); }
static inline void vb_store(void *p, vb v) { vb_store_lo_hi(p, (uint8_t *)p + 16, v); }
static inline void vb_store_nibbles(void *p, vb v) { vst1q_u8(p, vsliq_n_u8(v.lo, v.hi, 4)); }
static inline uint8x16_t vb_from_i32_lanes(const vi *v) {
    const int16x8_t lo = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
    const int16x8_t hi = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
    return vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
}
static inline vb vb_from_i32(const vi *v) { return (vb){vb_from_i32_lanes(v), vb_from_i32_lanes(v + 4)}; }
static inline vb vb_nibbles(const void *p) {
    const uint8x16_t c = vld1q_u8(p);
    return (vb){vandq_u8(c, vdupq_n_u8(15)), vshrq_n_u8(c, 4)};
}
static inline vb vb_u64(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return (vb){vcombine_u8(vcreate_u8(a), vcreate_u8(b)), vcombine_u8(vcreate_u8(c), vcreate_u8(d))};
}
static inline vb vb_load_4x4(const void *p, const void *four) {
    uint32_t x;
    memcpy(&x, four, 4);
    return (vb){vld1q_u8(p), vreinterpretq_u8_u32(vdupq_n_u32(x))};
}
static inline vb vb_join_lo(vb a, vb b) { return (vb){a.lo, b.lo}; }
static inline vb vb_blend(vb a, vb b, int bits) {
    const uint32x4_t bit = {1, 2, 4, 8};
#define HALF(h, k) vbslq_u8(vreinterpretq_u8_u32(vtstq_u32(vdupq_n_u32((uint32_t)(bits >> k)), bit)), b.h, a.h)
    return (vb){HALF(lo, 0), HALF(hi, 4)};
#undef HALF
}
static inline vb vb_fill_halves(uint16_t u) { return (vb){vdupq_n_u8((uint8_t)u), vdupq_n_u8((uint8_t)(u >> 8))}; }
static inline vb vb_set1(int x) { const uint8x16_t v = vdupq_n_u8((uint8_t)x); return (vb){v, v}; }
static inline vb vb_mask(uint32_t bits) {
    const uint8x16_t bit = vcombine_u8(vcreate_u8(0x8040201008040201), vcreate_u8(0x8040201008040201));
    const uint8x16_t lo = vcombine_u8(vdup_n_u8((uint8_t)bits), vdup_n_u8((uint8_t)(bits >> 8)));
    const uint8x16_t hi = vcombine_u8(vdup_n_u8((uint8_t)(bits >> 16)), vdup_n_u8((uint8_t)(bits >> 24)));
    return (vb){vtstq_u8(lo, bit), vtstq_u8(hi, bit)};
}
static inline uint32_t vb_bits16(uint8x16_t a) {
    const uint8x16_t bit = vcombine_u8(vcreate_u8(0x8040201008040201), vcreate_u8(0x8040201008040201));
    const uint8x16_t set = vandq_u8(vcltzq_s8(vreinterpretq_s8_u8(a)), bit);
    return vaddv_u8(vget_low_u8(set)) | (uint32_t)vaddv_u8(vget_high_u8(set)) << 8;
}
static inline uint32_t vb_bits(vb a) { return vb_bits16(a.lo) | vb_bits16(a.hi) << 16; }
static inline vb vb_and(vb a, vb b) { return VB_EACH(vandq_u8); }
static inline vb vb_or(vb a, vb b) { return VB_EACH(vorrq_u8); }
static inline vb vb_add(vb a, vb b) { return VB_EACH(vaddq_u8); }
static inline vb vb_min(vb a, vb b) { return VB_EACH(vminq_u8); }
static inline vb vb_sub(vb a, vb b) { return VB_EACH(vsubq_u8); }
static inline vb vb_field(vb a, int k, int mask) {
    const int8x16_t s = vdupq_n_s8((int8_t)-k);
    return vb_and((vb){vshlq_u8(a.lo, s), vshlq_u8(a.hi, s)}, vb_set1(mask));
}
static inline vb vb_lut(const int8_t *table, vb a) {
    const uint8x16_t t = vreinterpretq_u8_s8(vld1q_s8(table));
    return (vb){vqtbl1q_u8(t, a.lo), vqtbl1q_u8(t, a.hi)};
}
static inline vb vb_gt(vb a, vb b) {
    return (vb){vcgtq_s8(vreinterpretq_s8_u8(a.lo), vreinterpretq_s8_u8(b.lo)),
                vcgtq_s8(vreinterpretq_s8_u8(a.hi), vreinterpretq_s8_u8(b.hi))};
}
static inline vb vb_negate(vb a, uint32_t bits) {
    const vb m = vb_mask(bits);
    return vb_sub((vb){veorq_u8(a.lo, m.lo), veorq_u8(a.hi, m.hi)}, m);
}

static inline int32x4_t vq_dot16(int32x4_t from, uint8x16_t a, uint8x16_t b) {
    const int8x16_t x = vreinterpretq_s8_u8(a), y = vreinterpretq_s8_u8(b);
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(from, x, y);
#else
    return vpadalq_s16(vpadalq_s16(from, vmull_s8(vget_low_s8(x), vget_low_s8(y))),
                       vmull_s8(vget_high_s8(x), vget_high_s8(y)));
#endif
}
static inline vq vq_zero(void) { return (vq){vdupq_n_s32(0), vdupq_n_s32(0)}; }
static inline vq vq_dot_from(vq from, vb u, vb s) {
    return (vq){vq_dot16(from.lo, u.lo, s.lo), vq_dot16(from.hi, u.hi, s.hi)};
}
static inline vq vq_dot_ss(vb a, vb b) { return vq_dot_from(vq_zero(), a, b); }
static inline vq vq_dot_us(vb u, vb s) { return vq_dot_ss(u, s); }
static inline vq vq_offset(int k, vb s) { return vq_dot_ss(vb_set1(-k), s); }
static inline vq vq_dot_signed(vq from, vb a, vb s) { (void)from; return vq_dot_ss(a, s); }

static inline vs vs_set(uint64_t lo, uint64_t hi) {
    vs r;
    vst1q_s16(r.v, vmovl_s8(vcreate_s8(lo))), vst1q_s16(r.v + 8, vmovl_s8(vcreate_s8(hi)));
    return r;
}
static inline vs vs_set_pairs(uint64_t a) {
    const int8x8_t v = vcreate_s8(a);
    vs r;
    vst1q_s16(r.v, vmovl_s8(vzip1_s8(v, v))), vst1q_s16(r.v + 8, vmovl_s8(vzip2_s8(v, v)));
    return r;
}
static inline void vs_to_f32(float *d, vs s, float x) {
    for (int i = 0; i < 16; i += 4) vst1q_f32(d + i, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vld1_s16(s.v + i))), x));
}
static inline vq vq_madd_ss(vq acc, vb a, vb b, vs s, int j) {
    const vq q = vq_dot_ss(a, b);
    return (vq){vmlaq_n_s32(acc.lo, q.lo, s.v[2 * j]), vmlaq_n_s32(acc.hi, q.hi, s.v[2 * j + 1])};
}
static inline vq vq_madd_us(vq acc, vb u, vb b, vs s, int j) { return vq_madd_ss(acc, u, b, s, j); }
static inline vq vq_dot_vs(vs s, const int16_t *p) {
    vq r = vq_zero();
    for (int i = 0; i < 16; i += 8) {
        r.lo = vmlal_s16(r.lo, vld1_s16(s.v + i), vld1_s16(p + i));
        r.hi = vmlal_s16(r.hi, vld1_s16(s.v + i + 4), vld1_s16(p + i + 4));
    }
    return r;
}
static inline vq vq_add(vq a, vq b) { return (vq){vaddq_s32(a.lo, b.lo), vaddq_s32(a.hi, b.hi)}; }
static inline vq vq_sub(vq a, vq b) { return (vq){vsubq_s32(a.lo, b.lo), vsubq_s32(a.hi, b.hi)}; }

static inline va va_zero(void) { return vdupq_n_f32(0); }
static inline va va_scale(va acc, va a, float x) { return vfmaq_n_f32(acc, a, x); }
static inline float va_sum(va a) { return vaddvq_f32(a); }
static inline va va_madd(va acc, vq q, float lo, float hi) {
    return vfmaq_n_f32(vfmaq_n_f32(acc, vcvtq_f32_s32(q.lo), lo), vcvtq_f32_s32(q.hi), hi);
}
static inline va va_madd1(va acc, vq q, float x) { return vfmaq_n_f32(acc, vcvtq_f32_s32(vaddq_s32(q.lo, q.hi)), x); }
static inline va va_madd_sums(va acc, const vq *q, const float *x) {
#define LANES(i) vaddq_s32(q[i].lo, q[i].hi)
    const int32x4_t sums = vpaddq_s32(vpaddq_s32(LANES(0), LANES(1)), vpaddq_s32(LANES(2), LANES(3)));
#undef LANES
    return vfmaq_f32(acc, vcvtq_f32_s32(sums), vld1q_f32(x));
}
static inline void vb_store16(float *y, uint8x16_t v, float scale, float off) {
    const int16x8_t h[2] = {vmovl_s8(vreinterpret_s8_u8(vget_low_u8(v))),
                            vmovl_s8(vreinterpret_s8_u8(vget_high_u8(v)))};
    for (int i = 0; i < 2; i++) {
        const float32x4_t a = vcvtq_f32_s32(vmovl_s16(vget_low_s16(h[i])));
        const float32x4_t b = vcvtq_f32_s32(vmovl_s16(vget_high_s16(h[i])));
        vst1q_f32(y + 8 * i, vsubq_f32(vmulq_n_f32(a, scale), vdupq_n_f32(off)));
        vst1q_f32(y + 8 * i + 4, vsubq_f32(vmulq_n_f32(b, scale), vdupq_n_f32(off)));
    }
}
static inline void vb_store_f32(float *y, vb v, float lo, float hi, float off_lo, float off_hi) {
    vb_store16(y, v.lo, lo, off_lo);
    vb_store16(y + 16, v.hi, hi, off_hi);
}
#undef VB_EACH
#include "portable.h"
