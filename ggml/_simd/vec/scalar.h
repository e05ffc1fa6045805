/* The vocabulary in the vector extensions of GCC and clang, 16 bytes wide: any machine, no flags (SSE2 on x86-64). */
#ifndef GG_VEC_SCALAR_H
#define GG_VEC_SCALAR_H

enum { VW = 4 };
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef vi vm;                                           /* lanes are 0 or -1 */
typedef uint32_t gg_vu __attribute__((vector_size(16)));
typedef uint16_t gg_vu16 __attribute__((vector_size(8)));
typedef double gg_vd __attribute__((vector_size(32)));

/* ---- load, store, make */
static inline vf vf_load(const float *p) { vf v; memcpy(&v, p, sizeof v); return v; }
static inline void vf_store(float *p, vf v) { memcpy(p, &v, sizeof v); }
static inline vi vi_load(const int32_t *p) { vi v; memcpy(&v, p, sizeof v); return v; }
static inline void vi_store(int32_t *p, vi v) { memcpy(p, &v, sizeof v); }
static inline vf vf_set1(float x) { return (vf){x, x, x, x}; }
static inline vf vf_zero(void) { return vf_set1(0); }
static inline vi vi_set1(int32_t i) { return (vi){i, i, i, i}; }
static inline vi vi_iota(void) { return (vi){0, 1, 2, 3}; }

/* ---- int32; sums and products wrap */
static inline vi vi_add(vi a, vi b) { return (vi)((gg_vu)a + (gg_vu)b); }
static inline vi vi_sub(vi a, vi b) { return (vi)((gg_vu)a - (gg_vu)b); }
static inline vi vi_mul(vi a, vi b) { return (vi)((gg_vu)a * (gg_vu)b); }
static inline vi vi_and(vi a, vi b) { return a & b; }
static inline vi vi_or(vi a, vi b) { return a | b; }
static inline vi vi_xor(vi a, vi b) { return a ^ b; }
static inline vi vi_shl(vi a, int k) { return (vi)((gg_vu)a << k); }
static inline vi vi_sra(vi a, int k) { return a >> k; }
static inline vi vi_srl(vi a, int k) { return (vi)((gg_vu)a >> k); }
static inline vm vi_gt(vi a, vi b) { return a > b; }
static inline vm vi_eq(vi a, vi b) { return a == b; }
static inline vi vf_bits(vf v) { return (vi)v; }
static inline vf vi_float(vi v) { return (vf)v; }

/* ---- masks */
static inline vm vm_and(vm a, vm b) { return a & b; }
static inline vm vm_not(vm m) { return ~m; }
static inline bool vm_any(vm m) { uint64_t h[2]; memcpy(h, &m, sizeof h); return (h[0] | h[1]) != 0; }
static inline bool vm_all(vm m) { uint64_t h[2]; memcpy(h, &m, sizeof h); return (h[0] & h[1]) == UINT64_MAX; }
static inline vi vi_select(vm m, vi a, vi b) { return (m & a) | (~m & b); }
static inline vi vi_max(vi a, vi b) { return vi_select(a > b, a, b); }
static inline vf vf_select(vm m, vf a, vf b) { return (vf)vi_select(m, (vi)a, (vi)b); }

/* ---- f32 */
static inline vf vf_add(vf a, vf b) { return a + b; }
static inline vf vf_sub(vf a, vf b) { return a - b; }
static inline vf vf_mul(vf a, vf b) { return a * b; }
static inline vf vf_div(vf a, vf b) { return a / b; }
static inline vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
static inline vf vf_fnma(vf a, vf b, vf c) { return c - a * b; }
static inline vf vf_fma_exact(vf a, vf b, vf c) {        /* the product of two f32 fits a double */
    const gg_vd x = __builtin_convertvector(a, gg_vd), y = __builtin_convertvector(b, gg_vd);
    return __builtin_convertvector(x * y + __builtin_convertvector(c, gg_vd), vf);
}
static inline vf vf_fnma_exact(vf a, vf b, vf c) { return vf_fma_exact(-a, b, c); }
static inline vm vf_lt(vf a, vf b) { return a < b; }
static inline vm vf_le(vf a, vf b) { return a <= b; }
static inline vm vf_gt(vf a, vf b) { return a > b; }
static inline vm vf_ge(vf a, vf b) { return a >= b; }
static inline vm vf_eq(vf a, vf b) { return a == b; }
static inline vm vf_isnan(vf a) { return a != a; }
static inline vf vf_min(vf a, vf b) { return vf_select(a < b, a, b); }
static inline vf vf_max(vf a, vf b) { return vf_select(a > b, a, b); }
static inline vf vf_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }
static inline vf vf_neg(vf a) { return -a; }
static inline vf vf_sqrt(vf a) {
    for (int i = 0; i < VW; i++) a[i] = __builtin_sqrtf(a[i]);
    return a;
}
static inline vf vf_copysign(vf mag, vf sign) { return (vf)(((vi)mag & 0x7fffffff) | ((vi)sign & INT32_MIN)); }
/* Floats from 2^23 on (and NaN) are their own integer parts. Below, conversion and float addition round. */
static inline vf vf_trunc(vf a) {
    const vm small = vf_abs(a) < 0x1p23f;
    const vf t = __builtin_convertvector(__builtin_convertvector(vf_select(small, a, vf_zero()), vi), vf);
    return vf_select(small, vf_copysign(t, a), a);
}
static inline vf vf_round(vf a) {
    const vf t = vf_abs(a);
    return vf_select(t < 0x1p23f, vf_copysign(t + 0x1p23f - 0x1p23f, a), a);
}
static inline vf vf_floor(vf a) { const vf t = vf_trunc(a); return t - vf_select(t > a, vf_set1(1), vf_zero()); }
static inline vf vf_ceil(vf a) { return -vf_floor(-a); }
static inline vi vf_to_vi(vf v) {
    const vm small = vf_abs(v) < 0x1p31f;                /* other values as x86 converts them: INT32_MIN */
    return vi_select(small, __builtin_convertvector(vf_select(small, vf_round(v), vf_zero()), vi), vi_set1(INT32_MIN));
}
static inline vi vf_whole(vf v) { return __builtin_convertvector(v, vi); }
static inline vf vi_to_vf(vi v) { return __builtin_convertvector(v, vf); }

/* ---- narrow types */
static inline vi vi_load_u16(const uint16_t *p) {
    gg_vu16 v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, vi);
}
static inline void vi_store_u16(uint16_t *p, vi v) {
    const gg_vu16 h = __builtin_convertvector((gg_vu)v, gg_vu16);
    memcpy(p, &h, sizeof h);
}
static inline vf vf_load_i8(const int8_t *p) { return (vf){p[0], p[1], p[2], p[3]}; }
static inline vf vf_load_f16(const uint16_t *p) {
    const vi h = vi_load_u16(p), mag = h & 0x7fff;
    const vi special = (mag >= 0x7c00) & (0x7f800000 | ((mag > 0x7c00) & 0x400000));
    const vf v = (vf)(mag << 13) * 0x1p112f;             /* rebias the exponent; right for subnormals too */
    return (vf)((vi)v | special | (h & 0x8000) << 16);
}
static inline void vf_store_f16(uint16_t *p, vf v) {     /* gg_f32_to_f16 for four values at a time */
    const vi u = (vi)v, mag = u & 0x7fffffff;
    const vi normal = (mag - 0x38000000 + 0xfff + ((mag >> 13) & 1)) >> 13;
    const vi sub = (vi)((vf)mag + 0.5f) - 0x3f000000;
    vi h = vi_select(mag < 0x38800000, sub, normal);
    h = vi_select(mag >= 0x477ff000, vi_set1(0x7c00), h);
    h = vi_select(mag > 0x7f800000, 0x7e00 | ((mag >> 13) & 0x3ff), h);
    vi_store_u16(p, h | (vi_srl(u, 16) & 0x8000));
}

/* ---- reduce */
static inline float vf_hsum(vf v) { return (v[0] + v[2]) + (v[1] + v[3]); }
static inline float vf_hmax(vf v) { v = vf_max(v, (vf){v[2], v[3], v[2], v[3]}); return v[0] > v[1] ? v[0] : v[1]; }
static inline float vf_hmin(vf v) { v = vf_min(v, (vf){v[2], v[3], v[2], v[3]}); return v[0] < v[1] ? v[0] : v[1]; }

#endif

static inline void vf_transpose4(const float *const row[VW], int64_t k, vf out[4]) {
    for (int j = 0; j < 4; j++) {
        float t[VW];
        for (int i = 0; i < VW; i++) t[i] = row[i][k + j];
        out[j] = vf_load(t);
    }
}
static inline vf vf_set1_at(const float *p, int i) { return vf_set1(p[i]); }
