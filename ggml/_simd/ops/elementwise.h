/* Element-wise operations of one or two operands. */
#ifndef GG_OPS_ELEMENTWISE_H
#define GG_OPS_ELEMENTWISE_H
#include "elements.h"
#include "rows_shared.h"
#include <math.h>

GG_ELEM_2(ADD, none, vf_add(x, z))
GG_ELEM_2(ADD1, none, vf_add(x, z))
GG_ELEM_2(SUB, none, vf_sub(x, z))
GG_ELEM_2(MUL, none, vf_mul(x, z))
GG_ELEM_2(DIV, none, vf_div(x, z))

/* The larger or smaller of both (`before`: whether it is x), NaN where one of them is */
static inline vf chosen_or_nan(vm before, vf x, vf z) {
    return vf_select(vf_eq(x, x), vf_select(before, x, z), x);
}
GG_ELEM_2(MAXIMUM, none, chosen_or_nan(vf_gt(x, z), x, z))
GG_ELEM_2(MINIMUM, none, chosen_or_nan(vf_lt(x, z), x, z))
GG_ELEM_2(PRELU, none, v_prelu(x, z))
GG_ELEM_2(POW, none, v_pow(x, z))
GG_ELEM_2(LESS, none, vf_select(vf_lt(x, z), vf_set1(1), vf_zero()))
GG_ELEM_2(EQUAL, none, vf_select(vf_eq(x, z), vf_set1(1), vf_zero()))

/* The remainder of the quotient rounded toward zero, which is exact for quotients of any size. */
static inline vf each_fmod(vf x, vf z) {
    float a[VW], b[VW];
    vf_store(a, x), vf_store(b, z);
    for (int i = 0; i < VW; i++) a[i] = fmodf(a[i], b[i]);
    return vf_load(a);
}
/* Where the quotient is small, it is exact, or rounded up to the next whole number, and a fused product is exact. */
static inline vf v_fmod(vf x, vf z) {
    const vf size = vf_abs(x), unit = vf_abs(z), n = vf_trunc(vf_div(size, unit));
    if (!vm_all(vm_and(vf_lt(n, vf_set1(0x1p22f)), vf_lt(unit, vf_set1(GG_INF))))) return each_fmod(x, z);
    const vf r = vf_fnma_exact(n, unit, size);
    return vf_copysign(vf_select(vf_lt(r, vf_zero()), vf_add(r, unit), r), x);
}
GG_ELEM_2(FMOD, none, v_fmod(x, z))

GG_ELEM_1(SQR, none, vf_mul(x, x))
GG_ELEM_1(SQRT, none, vf_sqrt(x))
GG_ELEM_1(ERF, none, v_erf(x))
GG_ELEM_1(LOG, none, v_log(x))
GG_ELEM_1(SIN, none, v_sin(x))
GG_ELEM_1(COS, none, v_cos(x))
GG_ELEM_1(SCALE, scale, vf_fma(x, vf_set1(k->factor), vf_set1(k->bias)))
GG_ELEM_1(CLAMP, clamp, gg_clamp(x, k->min, k->max))
GG_ELEM_1(LEAKY_RELU, leaky_relu, vf_select(vf_gt(x, vf_zero()), x, vf_mul(x, vf_set1(k->negative_slope))))

/* x is the gradient of the result, z the argument */
GG_ELEM_2(CLAMP_BACK, clamp, vf_select(vm_and(vf_ge(z, vf_set1(k->min)), vf_le(z, vf_set1(k->max))), x, vf_zero()))

/* Whole numbers of units s, limited so that they lie from min to max once z is added */
static inline vf whole_units(vf x, vf s, vf z, const gg_quantize_linear_params *k) {
    const vf n = vf_round(vf_div(x, s)), lo = vf_sub(vf_set1(k->min), z), hi = vf_sub(vf_set1(k->max), z);
    return vf_fma(z, vf_set1(k->zero_factor), vf_max(lo, vf_min(hi, n)));
}
GG_TILE_XZ(QUANTIZE, quantize_linear, whole_units(x, z, vf_zero(), k))
GG_TILE_XYZ(QUANTIZE_ZERO, quantize_linear, whole_units(x, y, z, k))
/* The same with one scale and one zero point. x times 1 / s is within 2^-12 of the rounded quotient where that is at
 * most 2^10, so it has the same nearest integer unless it lies as close to a half. */
enum { UNITS_MOST = 1000 };
typedef struct gg_units_params { float scale, inverse, lo, hi, zero; } gg_units_params;
static inline vf limited_units(vf n, const gg_units_params *k) {
    return vf_add(vf_set1(k->zero), vf_max(vf_set1(k->lo), vf_min(vf_set1(k->hi), n)));
}
static void tile_UNITS(float *const *p, int64_t n, bool stream, const void *params) {
    const float *const x = p[1];
    gg_units_params k;
    int64_t i = 0;
    memcpy(&k, params, sizeof k);
    const vf scale = vf_set1(k.scale), inverse = vf_set1(k.inverse), near = vf_set1(0.5f - 0x1p-12f);
    const vf shift = vf_set1(0x1.8p23f);                 /* floats of this size are integers */
    for (; i + 4 * VW <= n; i += 4 * VW) {
        vf v[4];
        vm all[4];
        for (int j = 0; stream && j < 4 * VW; j += 16) prefetch_floats(x + i + j);
        GG_FOUR(j) {
            const vf a = vf_load(x + i + j * VW);
            v[j] = vf_sub(vf_fma(a, inverse, shift), shift);
            all[j] = vf_lt(vf_abs(vf_fnma(a, inverse, v[j])), near);
        }
        if (__builtin_expect(!vm_all(vm_and(vm_and(all[0], all[1]), vm_and(all[2], all[3]))), 0))
            GG_FOUR(j) v[j] = vf_round(vf_div(vf_load(x + i + j * VW), scale));
        GG_FOUR(j) gg_put(p[0] + i + j * VW, limited_units(v[j], &k), stream);
    }
    for (; i < n; i += VW) st(p[0] + i, limited_units(vf_round(vf_div(ld(x + i, n - i), scale)), &k), n - i);
}
/* A single element, or 0 without a tensor. */
static inline float element_of(const ggml_tensor *t) {
    float x = 0;
    if (t) gg_to_floats(t->type, t->data, t->nb[0], 1, &x);
    return x;
}
static int op_QUANTIZE_LINEAR(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *const scale = dst->src[1], *const zero = dst->src[2];
    if (gg_nelements(scale) == 1 && (!zero || gg_nelements(zero) == 1)) {
        const gg_quantize_linear_params *const q = quantize_linear_params(dst);
        const float s = element_of(scale), z = element_of(zero);
        const gg_units_params k = {s, 1 / s, q->min - z, q->max - z, z * q->zero_factor};
        if (fabsf(s) >= 0x1p-100f && fabsf(s) <= 0x1p100f && k.lo >= -UNITS_MOST && k.hi <= UNITS_MOST) {
            ggml_tensor *t[] = {dst, dst->src[0]};
            return gg_map(w, dst, t, 2, 1, false, tile_UNITS, &k);
        }
    }
    return zero ? gg_map_sources(w, dst, 3, tile_QUANTIZE_ZERO) : gg_map_sources(w, dst, 2, tile_QUANTIZE);
}

#endif
