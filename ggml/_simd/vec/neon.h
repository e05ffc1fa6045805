/* The vocabulary in NEON of 64-bit Arm. */
#ifndef GG_VEC_NEON_H
#define GG_VEC_NEON_H
#include <arm_neon.h>

enum { VW = 4 };
typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint32x4_t vm;                                   /* lanes are all zeros or all ones */

/* ---- load, store, make */
static inline vf vf_load(const float *p) { return vld1q_f32(p); }
static inline void vf_store(float *p, vf v) { vst1q_f32(p, v); }
static inline vi vi_load(const int32_t *p) { return vld1q_s32(p); }
static inline void vi_store(int32_t *p, vi v) { vst1q_s32(p, v); }
static inline vf vf_zero(void) { return vdupq_n_f32(0); }
static inline vf vf_set1(float x) { return vdupq_n_f32(x); }
static inline vi vi_set1(int32_t i) { return vdupq_n_s32(i); }
static inline vi vi_iota(void) { return (vi){0, 1, 2, 3}; }

#define GG_VEC_PAIR_LOADS
static inline void vf_load_pairs(const float *p, vf *a, vf *b) {
    const float32x4x2_t pair = vld2q_f32(p);
    *a = pair.val[0], *b = pair.val[1];
}
static inline void vf_pairs(vf a, vf b, vf *lo, vf *hi) { *lo = vzip1q_f32(a, b), *hi = vzip2q_f32(a, b); }

/* ---- int32 */
static inline vi vi_add(vi a, vi b) { return vaddq_s32(a, b); }
static inline vi vi_sub(vi a, vi b) { return vsubq_s32(a, b); }
static inline vi vi_mul(vi a, vi b) { return vmulq_s32(a, b); }
static inline vi vi_and(vi a, vi b) { return vandq_s32(a, b); }
static inline vi vi_or(vi a, vi b) { return vorrq_s32(a, b); }
static inline vi vi_xor(vi a, vi b) { return veorq_s32(a, b); }
/* operators fold a constant k, intrinsics want a literal */
static inline vi vi_shl(vi a, int k) { return (vi)((uint32x4_t)a << k); }
static inline vi vi_sra(vi a, int k) { return a >> k; }
static inline vi vi_srl(vi a, int k) { return (vi)((uint32x4_t)a >> k); }
static inline vf vi_float(vi v) { return vreinterpretq_f32_s32(v); }
static inline vi vf_bits(vf v) { return vreinterpretq_s32_f32(v); }
static inline vi vi_max(vi a, vi b) { return vmaxq_s32(a, b); }
static inline vm vi_gt(vi a, vi b) { return vcgtq_s32(a, b); }
static inline vm vi_eq(vi a, vi b) { return vceqq_s32(a, b); }

#ifdef __ARM_FEATURE_MATMUL_INT8
#define GG_VEC_DOT 256
static inline vi vi_dot(vi acc, vi u, vi s) {
    return vusdotq_s32(acc, vreinterpretq_u8_s32(u), vreinterpretq_s8_s32(s));
}
#elif defined __ARM_FEATURE_DOTPROD
#define GG_VEC_DOT 128
static inline vi vi_dot(vi acc, vi u, vi s) { return vdotq_s32(acc, vreinterpretq_s8_s32(u), vreinterpretq_s8_s32(s)); }
#endif

/* ---- masks */
static inline vm vm_and(vm a, vm b) { return vandq_u32(a, b); }
static inline vm vm_not(vm m) { return vmvnq_u32(m); }
static inline bool vm_any(vm m) { return vmaxvq_u32(m) != 0; }
static inline bool vm_all(vm m) { return vminvq_u32(m) != 0; }
static inline vf vf_select(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }
static inline vi vi_select(vm m, vi a, vi b) { return vbslq_s32(m, a, b); }

/* ---- f32 */
static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
static inline vf vf_fma_exact(vf a, vf b, vf c) { return vf_fma(a, b, c); }
static inline vf vf_fnma_exact(vf a, vf b, vf c) { return vf_fnma(a, b, c); }
static inline vm vf_lt(vf a, vf b) { return vcltq_f32(a, b); }
static inline vm vf_le(vf a, vf b) { return vcleq_f32(a, b); }
static inline vm vf_gt(vf a, vf b) { return vcgtq_f32(a, b); }
static inline vm vf_ge(vf a, vf b) { return vcgeq_f32(a, b); }
static inline vm vf_eq(vf a, vf b) { return vceqq_f32(a, b); }
static inline vm vf_isnan(vf a) { return vmvnq_u32(vceqq_f32(a, a)); }
static inline vf vf_min(vf a, vf b) { return vf_select(vf_lt(a, b), a, b); }   /* vminq gives NaN where b is wanted */
static inline vf vf_max(vf a, vf b) { return vf_select(vf_gt(a, b), a, b); }
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
static inline vf vf_neg(vf a) { return vnegq_f32(a); }
static inline vf vf_sqrt(vf a) { return vsqrtq_f32(a); }
static inline vf vf_round(vf a) { return vrndnq_f32(a); }
static inline vf vf_floor(vf a) { return vrndmq_f32(a); }
static inline vf vf_ceil(vf a) { return vrndpq_f32(a); }
static inline vf vf_trunc(vf a) { return vrndq_f32(a); }
static inline vf vf_copysign(vf mag, vf sign) { return vbslq_f32(vdupq_n_u32(0x80000000), sign, mag); }
static inline vi vf_to_vi(vf v) { return vcvtnq_s32_f32(v); }
static inline vi vf_whole(vf v) { return vcvtq_s32_f32(v); }
static inline vf vi_to_vf(vi v) { return vcvtq_f32_s32(v); }

/* ---- narrow types */
static inline vi vi_load_u16(const uint16_t *p) { return vreinterpretq_s32_u32(vmovl_u16(vld1_u16(p))); }
static inline void vi_store_u16(uint16_t *p, vi v) { vst1_u16(p, vmovn_u32(vreinterpretq_u32_s32(v))); }
static inline vf vf_load_i8(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, 4);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))))));
}
static inline vf vf_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline void vf_store_f16(uint16_t *p, vf v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }

/* ---- reduce */
static inline float vf_hsum(vf v) { return vaddvq_f32(v); }
static inline float vf_hmax(vf v) { return vmaxvq_f32(v); }
static inline float vf_hmin(vf v) { return vminvq_f32(v); }

#endif

static inline void vf_transpose4(const float *const row[VW], int64_t k, vf out[4]) {
    const float32x4_t a = vld1q_f32(row[0] + k), b = vld1q_f32(row[1] + k);
    const float32x4_t c = vld1q_f32(row[2] + k), d = vld1q_f32(row[3] + k);
    const float64x2_t ab = vreinterpretq_f64_f32(vtrn1q_f32(a, b)), cd = vreinterpretq_f64_f32(vtrn1q_f32(c, d));
    const float64x2_t AB = vreinterpretq_f64_f32(vtrn2q_f32(a, b)), CD = vreinterpretq_f64_f32(vtrn2q_f32(c, d));
    out[0] = vreinterpretq_f32_f64(vtrn1q_f64(ab, cd));
    out[1] = vreinterpretq_f32_f64(vtrn1q_f64(AB, CD));
    out[2] = vreinterpretq_f32_f64(vtrn2q_f64(ab, cd));
    out[3] = vreinterpretq_f32_f64(vtrn2q_f64(AB, CD));
}
/* Loads four neighbours at a time: multiplications can address a lane of the vector. */
static inline vf vf_set1_at(const float *p, int i) { return vf_set1(vld1q_f32(p + (i & ~3))[i & 3]); }
