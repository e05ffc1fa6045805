/* Element-wise operations of one or two operands. */
#ifndef GG_OPS_ELEMENTWISE_H
#define GG_OPS_ELEMENTWISE_H
#include "elements.h"

GG_ELEM_2(ADD, vf_add(x, z))
GG_ELEM_2(ADD1, vf_add(x, z))
GG_ELEM_2(SUB, vf_sub(x, z))
GG_ELEM_2(MUL, vf_mul(x, z))
GG_ELEM_2(DIV, vf_div(x, z))

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

#endif
