/* F32, F16 and BF16: conversions of rows and dot products. */
#ifndef GG_QUANTS_FLOATS_H
#define GG_QUANTS_FLOATS_H
#include "../vec/vec.h"

static inline vf f32_load(const float *p) { return vf_load(p); }
static inline vf f32_loadn(const float *p, int n) { return vf_loadn(p, n); }
static inline vf f16_load(const uint16_t *p) { return vf_load_f16(p); }
static inline vf f16_loadn(const uint16_t *p, int n) { return vf_load_f16n(p, n); }
static inline vf bf16_load(const uint16_t *p) { return vf_load_bf16(p); }
static inline vf bf16_loadn(const uint16_t *p, int n) { return vf_load_bf16n(p, n); }

#define FLOAT_TYPE(t, T) \
    static void t##_dot_row(int64_t n, float *s, const void *vx, const void *vy) { \
        const T *x = vx, *y = vy; \
        vf a = vf_zero(), b = a, c = a, d = a; \
        int64_t i = 0; \
        for (; i + 4 * VW <= n; i += 4 * VW) { \
            a = vf_fma(t##_load(x + i), t##_load(y + i), a); \
            b = vf_fma(t##_load(x + i + VW), t##_load(y + i + VW), b); \
            c = vf_fma(t##_load(x + i + 2 * VW), t##_load(y + i + 2 * VW), c); \
            d = vf_fma(t##_load(x + i + 3 * VW), t##_load(y + i + 3 * VW), d); \
        } \
        for (; i + VW <= n; i += VW) a = vf_fma(t##_load(x + i), t##_load(y + i), a); \
        if (i < n) b = vf_fma(t##_loadn(x + i, (int)(n - i)), t##_loadn(y + i, (int)(n - i)), b); \
        *s = vf_hsum(vf_add(vf_add(a, b), vf_add(c, d))); \
    } \
    static void t##_dot(int64_t n, int rows, float *s, const void *x, size_t nb, const void *y, const void *ahead) { \
        (void)ahead; \
        for (int r = 0; r < rows; r++) t##_dot_row(n, s + r, (const char *)x + (size_t)r * nb, y); \
    }
#define HALF_TYPE(t) FLOAT_TYPE(t, uint16_t) \
    static void t##_to_f32(const void *vx, float *y, int64_t n) { \
        const uint16_t *x = vx; \
        int64_t i = 0; \
        for (; i + VW <= n; i += VW) vf_store(y + i, vf_load_##t(x + i)); \
        if (i < n) vf_storen(y + i, vf_load_##t##n(x + i, (int)(n - i)), (int)(n - i)); \
    } \
    static void t##_from_f32(const float *x, void *vy, int64_t n) { \
        uint16_t *y = vy; \
        int64_t i = 0; \
        for (; i + VW <= n; i += VW) vf_store_##t(y + i, vf_load(x + i)); \
        if (i < n) vf_store_##t##n(y + i, vf_loadn(x + i, (int)(n - i)), (int)(n - i)); \
    }

FLOAT_TYPE(f32, float)
HALF_TYPE(f16)
HALF_TYPE(bf16)

static void f32_to_f32(const void *x, float *y, int64_t n) { memcpy(y, x, (size_t)n * sizeof *y); }
static void f32_from_f32(const float *x, void *y, int64_t n) { memcpy(y, x, (size_t)n * sizeof *x); }

#endif
