/* 32 bytes in portable C. */
typedef struct { uint8_t b[32]; } vb;
typedef struct { int32_t lo, hi; } vq;
typedef struct { int16_t v[16]; } vs;
typedef float va;

#define VB_EACH(expr) vb r; for (int i = 0; i < 32; i++) r.b[i] = (uint8_t)(expr); return r

static inline float gg_half_f32(gg_half h) { return gg_f16_to_f32(h); }
static inline gg_half gg_f32_half(float x) { return gg_f32_to_f16(x); }
static inline float gg_half_of_two(const void *p, int i) { gg_half h[2]; memcpy(h, p, 4); return gg_half_f32(h[i]); }
static inline vb vb_load(const void *p) { vb r; memcpy(r.b, p, 32); return r; }
static inline void vb_store(void *p, vb v) { memcpy(p, v.b, 32); }
static inline void vb_store_lo_hi(void *p, void *q, vb v) { memcpy(p, v.b, 16); memcpy(q, v.b + 16, 16); }
static inline void vb_store_nibbles(void *p, vb v) {
    uint8_t *c = p;
    for (int i = 0; i < 16; i++) c[i] = (uint8_t)(v.b[i] | v.b[16 + i] << 4);
}
static inline vb vb_from_i32(const vi *v) { const int32_t *x = (const int32_t *)v; VB_EACH(x[i]); }
static inline vb vb_nibbles(const void *p) { const uint8_t *c = p; VB_EACH(i < 16 ? c[i] & 15 : c[i - 16] >> 4); }
static inline vb vb_u64(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    vb r;
    for (int i = 0; i < 8; i++) {
        r.b[i] = (uint8_t)(a >> 8 * i), r.b[8 + i] = (uint8_t)(b >> 8 * i);
        r.b[16 + i] = (uint8_t)(c >> 8 * i), r.b[24 + i] = (uint8_t)(d >> 8 * i);
    }
    return r;
}
static inline vb vb_load_4x4(const void *p, const void *four) {
    const uint8_t *b = p, *f = four;
    VB_EACH(i < 16 ? b[i] : f[i % 4]);
}
static inline vb vb_join_lo(vb a, vb b) { VB_EACH(i < 16 ? a.b[i] : b.b[i - 16]); }
static inline vb vb_blend(vb a, vb b, int bits) { VB_EACH(bits >> i / 4 & 1 ? b.b[i] : a.b[i]); }
static inline vb vb_fill_halves(uint16_t u) { VB_EACH(u >> i / 16 * 8); }
static inline vb vb_set1(int x) { VB_EACH(x); }
static inline vb vb_mask(uint32_t bits) { VB_EACH(-(int)(bits >> i & 1)); }
static inline uint32_t vb_bits(vb a) {
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++) bits |= (uint32_t)(a.b[i] >> 7) << i;
    return bits;
}
static inline vb vb_and(vb a, vb b) { VB_EACH(a.b[i] & b.b[i]); }
static inline vb vb_or(vb a, vb b) { VB_EACH(a.b[i] | b.b[i]); }
static inline vb vb_add(vb a, vb b) { VB_EACH(a.b[i] + b.b[i]); }
static inline vb vb_min(vb a, vb b) { VB_EACH(a.b[i] < b.b[i] ? a.b[i] : b.b[i]); }
static inline vb vb_sub(vb a, vb b) { VB_EACH(a.b[i] - b.b[i]); }
static inline vb vb_field(vb a, int k, int mask) { VB_EACH((k < 0 ? a.b[i] << -k : a.b[i] >> k) & mask); }
static inline vb vb_lut(const int8_t *table, vb a) { VB_EACH(table[a.b[i]]); }
static inline vb vb_gt(vb a, vb b) { VB_EACH(-((int8_t)a.b[i] > (int8_t)b.b[i])); }
static inline vb vb_negate(vb a, uint32_t bits) { VB_EACH(bits >> i & 1 ? -a.b[i] : a.b[i]); }

static inline vq vq_dot_ss(vb a, vb b) {
    vq r = {0, 0};
    for (int i = 0; i < 16; i++) r.lo += (int8_t)a.b[i] * (int8_t)b.b[i];
    for (int i = 16; i < 32; i++) r.hi += (int8_t)a.b[i] * (int8_t)b.b[i];
    return r;
}
static inline vq vq_dot_us(vb u, vb s) { return vq_dot_ss(u, s); }
static inline vq vq_dot_from(vq from, vb u, vb s) {
    const vq q = vq_dot_ss(u, s);
    return (vq){from.lo + q.lo, from.hi + q.hi};
}
static inline vq vq_offset(int k, vb s) { return vq_dot_ss(vb_set1(-k), s); }
static inline vq vq_dot_signed(vq from, vb a, vb s) { (void)from; return vq_dot_ss(a, s); }

static inline vs vs_set(uint64_t lo, uint64_t hi) {
    vs r;
    for (int i = 0; i < 8; i++) r.v[i] = (int8_t)(lo >> 8 * i), r.v[8 + i] = (int8_t)(hi >> 8 * i);
    return r;
}
static inline vs vs_set_pairs(uint64_t a) {
    vs r;
    for (int i = 0; i < 16; i++) r.v[i] = (int8_t)(a >> i / 2 * 8);
    return r;
}
static inline void vs_to_f32(float *d, vs s, float x) { for (int i = 0; i < 16; i++) d[i] = x * (float)s.v[i]; }
static inline vq vq_zero(void) { return (vq){0, 0}; }
static inline vq vq_madd_ss(vq acc, vb a, vb b, vs s, int j) {
    const vq q = vq_dot_ss(a, b);
    return (vq){acc.lo + q.lo * s.v[2 * j], acc.hi + q.hi * s.v[2 * j + 1]};
}
static inline vq vq_madd_us(vq acc, vb u, vb b, vs s, int j) { return vq_madd_ss(acc, u, b, s, j); }
static inline vq vq_dot_vs(vs s, const int16_t *p) {
    vq r = {0, 0};
    for (int i = 0; i < 16; i++) r.lo += s.v[i] * p[i];
    return r;
}
static inline vq vq_add(vq a, vq b) { return (vq){a.lo + b.lo, a.hi + b.hi}; }
static inline vq vq_sub(vq a, vq b) { return (vq){a.lo - b.lo, a.hi - b.hi}; }

static inline va va_zero(void) { return 0; }
static inline va va_scale(va acc, va a, float x) { return acc + a * x; }
static inline float va_sum(va a) { return a; }
static inline va va_madd(va acc, vq q, float lo, float hi) { return acc + ((float)q.lo * lo + (float)q.hi * hi); }
static inline va va_madd1(va acc, vq q, float x) { return acc + (float)(q.lo + q.hi) * x; }
static inline va va_madd_sums(va acc, const vq *q, const float *x) {
    for (int i = 0; i < 4; i++) acc = va_madd1(acc, q[i], x[i]);
    return acc;
}
static inline void vb_store_f32(float *y, vb v, float lo, float hi, float off_lo, float off_hi) {
    for (int i = 0; i < 16; i++) y[i] = (float)(int8_t)v.b[i] * lo - off_lo;
    for (int i = 16; i < 32; i++) y[i] = (float)(int8_t)v.b[i] * hi - off_hi;
}
#undef VB_EACH
#include "portable.h"
