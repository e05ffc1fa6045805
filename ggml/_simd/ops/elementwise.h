/* Element-wise operations of one or two operands. */
#ifndef GG_OPS_ELEMENTWISE_H
#define GG_OPS_ELEMENTWISE_H
#include "elements.h"

GG_ELEM_2(ADD, vf_add(x, z))
GG_ELEM_2(ADD1, vf_add(x, z))
GG_ELEM_2(SUB, vf_sub(x, z))
GG_ELEM_2(MUL, vf_mul(x, z))
GG_ELEM_2(DIV, vf_div(x, z))

/* The larger or smaller of both (`before`: whether it is x), NaN where one of them is */
static inline vf chosen_or_nan(vm before, vf x, vf z) {
    return vf_select(vf_eq(x, x), vf_select(before, x, z), x);
}
GG_ELEM_2(MAXIMUM, chosen_or_nan(vf_gt(x, z), x, z))
GG_ELEM_2(MINIMUM, chosen_or_nan(vf_lt(x, z), x, z))
GG_ELEM_2(LESS, vf_select(vf_lt(x, z), vf_set1(1), vf_zero()))
GG_ELEM_2(EQUAL, vf_select(vf_eq(x, z), vf_set1(1), vf_zero()))

GG_ELEM_1(SQR, vf_mul(x, x))
GG_ELEM_1(SQRT, vf_sqrt(x))
GG_ELEM_1(LOG, v_log(x))
GG_ELEM_1(SIN, v_sin(x))
GG_ELEM_1(COS, v_cos(x))
GG_ELEM_1(SCALE, vf_fma(x, vf_set1(k[0]), vf_set1(k[1])))
GG_ELEM_1(CLAMP, gg_clamp(x, k[0], k[1]))
GG_ELEM_1(LEAKY_RELU, vf_select(vf_gt(x, vf_zero()), x, vf_mul(x, vf_set1(k[0]))))

/* x is the gradient of the result, z the argument */
GG_ELEM_2(CLAMP_BACK, vf_select(vm_and(vf_ge(z, vf_set1(k[0])), vf_le(z, vf_set1(k[1]))), x, vf_zero()))

/* Whole numbers of units s, limited to k[0] to k[1] with z added; k[2]: 1 to leave z added, or 0 */
static inline vf whole_units(vf x, vf s, vf z, const float *k) {
    const vf n = vf_round(vf_div(x, s)), lo = vf_sub(vf_set1(k[0]), z), hi = vf_sub(vf_set1(k[1]), z);
    return vf_fma(z, vf_set1(k[2]), vf_max(lo, vf_min(hi, n)));
}
GG_TILE_XZ(QUANTIZE, whole_units(x, z, vf_zero(), k))
GG_TILE_XYZ(QUANTIZE_ZERO, whole_units(x, y, z, k))
static int op_QUANTIZE_LINEAR(const gg_work *w, ggml_tensor *dst) {
    return dst->src[2] ? gg_map_sources(w, dst, 3, tile_QUANTIZE_ZERO) : gg_map_sources(w, dst, 2, tile_QUANTIZE);
}

#endif
