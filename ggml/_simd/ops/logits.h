/* What soft-max and attention share: rows of logits and their exponentials. */
#ifndef GG_OPS_LOGITS_H
#define GG_OPS_LOGITS_H
#include "rowwise.h"
#include <math.h>

/* x - m; of weights, -inf in place of numbers below -80, whose exponentials are 0 then: subnormal products take a
 * hundred times as long, and such keys add nothing to a sum of weights of 1 or more. */
static inline vf exponent(const bool of_weights, vf x, vf m) {
    const vf t = vf_sub(x, m);
    return of_weights ? vf_select(vf_lt(t, vf_set1(-80)), vf_set1(-GG_INF), t) : t;
}
static inline void exp_4(const bool of_weights, const float *x, float *y, vf m, vf t[4]) {
    GG_FOUR(j) t[j] = exponent(of_weights, vf_load(x + j * VW), m);
    gg_exp_negative_4(t);
    GG_FOUR(j) vf_store(y + j * VW, t[j]);
}
/* static double name(p, x, y, m): y = exp(x - m) for x <= m; returns the sum of y */
#define EXP_ROW(name, of_weights)                                                                              \
    ROW_SUM_OF(name, exp_4(of_weights, x + i, y + i, m, t_),                                                   \
               st(y + i, gg_exp_negative(exponent(of_weights, ld(x + i, k), m)), k), const float *x, float *y, vf m)
EXP_ROW(exp_row, false)
EXP_ROW(weights_row, true)
#undef EXP_ROW

/* y = scale x + slope mask (mask may be NULL; where it is -inf, y is -inf whatever x is); returns the maximum */
static float logits_row(const row_part *p, const float *x, const float *mask, float scale, float slope, float *y) {
    const vf vs = vf_set1(scale), vslope = vf_set1(slope), hidden = vf_set1(-GG_INF);
    vf m = hidden;
    EACH_PART(i, p) {
        const int64_t k = p->end - i;
        vf v = vf_mul(ld(x + i, k), vs);
        if (mask) {
            const vf b = ld(mask + i, k);
            v = vf_select(vf_eq(b, hidden), hidden, vf_fma(b, vslope, v));
        }
        st(y + i, v, k);
        m = vf_max(keep(v, -GG_INF, k), m);
    }
    return (float)row_largest(p, vf_hmax(m));
}
/* The ALiBi slope of head h: powers of m0; heads beyond a power of two take odd powers of m1 = sqrt(m0). */
static float alibi_slope(float max_bias, int64_t heads, int64_t h) {
    if (max_bias <= 0) return 1;
    int64_t two = 1;
    while (two * 2 <= heads) two *= 2;
    const double step = -(double)max_bias / (double)two;
    return (float)(h < two ? exp2(step * (double)(h + 1)) : exp2(step / 2 * (double)(2 * (h - two) + 1)));
}

#endif
