/* Element-wise operations of one or two operands. */
#ifndef GG_OPS_ELEMENTWISE_H
#define GG_OPS_ELEMENTWISE_H
#include "elements.h"
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
GG_ELEM_2(LESS, none, vf_select(vf_lt(x, z), vf_set1(1), vf_zero()))
GG_ELEM_2(EQUAL, none, vf_select(vf_eq(x, z), vf_set1(1), vf_zero()))

/* The remainder of the quotient rounded toward zero, which is exact for quotients of any size. */
static inline vf each_fmod(vf x, vf z) {
    float a[VW], b[VW];
    vf_store(a, x), vf_store(b, z);
    for (int i = 0; i < VW; i++) a[i] = fmodf(a[i], b[i]);
    return vf_load(a);
}
GG_ELEM_2(FMOD, none, each_fmod(x, z))

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
static int op_QUANTIZE_LINEAR(const gg_work *w, ggml_tensor *dst) {
    return dst->src[2] ? gg_map_sources(w, dst, 3, tile_QUANTIZE_ZERO) : gg_map_sources(w, dst, 2, tile_QUANTIZE);
}

#endif
