/* Mathematics over the vocabulary: within 4 ulp of the true value over all floats in every ISA, NaN for NaN, gradual
 * underflow kept. Written once; the polynomials are minimax fits of the relative error, which scripts/fit_math.py
 * computes again.
 *
 * Two ideas carry the tails, where a rounded intermediate would cost many ulp:
 *   - exp takes its argument as an unevaluated sum hi + lo and gives r with exp = exp(r) 2^n, so that a
 *     caller can multiply by exp(r) first and scale last: products of a subnormal exponential keep all their bits;
 *   - x * Phi(x) and erfc come from one smooth function, M(t) = Phi(-t) exp(t*t/2). */
#ifndef GG_VEC_MATH_H
#define GG_VEC_MATH_H

#define GG_INF __builtin_inff()
#define GG_NAN __builtin_nanf("")

#define GG_FOUR(j) _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++)
/* c[0] + c[1] x + ... + c[n-1] x^(n-1) */
static inline vf gg_poly(vf x, int n, const float *c) {
    vf y = vf_set1(c[n - 1]);
#pragma GCC unroll 16
    for (int i = n - 2; i >= 0; i--) y = vf_fma(y, x, vf_set1(c[i]));
    return y;
}
/* The same of m vectors x, up to four, each step for all of them. */
#define GG_UP_TO(j, m) _Pragma("GCC unroll 4") for (int j = 0; j < m; j++)
static inline __attribute__((always_inline)) void gg_polys(const int m, const vf *x, int n, const float *c, vf *y) {
    GG_UP_TO(j, m) y[j] = vf_set1(c[n - 1]);
#pragma GCC unroll 16
    for (int i = n - 2; i >= 0; i--) {
        const vf term = vf_set1(c[i]);
        GG_UP_TO(j, m) y[j] = vf_fma(y[j], x[j], term);
    }
}
/* v 2^n for an integer n in [-126, 127]; a smaller n may count as -126 */
static inline vf gg_times_pow2(vf v, vf n) {
#ifdef GG_VEC_LDEXP
    return vf_ldexp(v, n);
#else
    return vf_mul(v, vi_float(vi_shl(vi_add(vf_to_vi(vf_max(vf_set1(-126), n)), vi_set1(127)), 23)));
#endif
}
/* v 2^n where neither is subnormal or beyond the floats; the low bits of t hold n. */
static inline vf gg_times_pow2_of(vf v, vf t) { return vi_float(vi_add(vf_bits(v), vi_shl(vf_bits(t), 23))); }
/* keeps NaN */
static inline vf gg_clamp(vf x, float lo, float hi) { return vf_max(vf_set1(lo), vf_min(vf_set1(hi), x)); }

/* ---- exponentials ------------------------------------------------------------------------------------------------ */
/* x (+ lo) = n ln 2 + r, n whole, |r| <= ln 2 / 2; |x| < 2^21. ln 2 in two parts, n times the first is exact. */
static inline vf gg_exp_rest(vf x, const vf *lo, vf *n) {
    const vf shift = vf_set1(0x1.8p23f);                 /* floats of this size are integers */
    *n = vf_sub(vf_fma(x, vf_set1(1.44269504f), shift), shift);
    const vf r = vf_fnma(*n, vf_set1(0x1.7f7d1cp-20f), vf_fnma(*n, vf_set1(0x1.62e4p-1f), x));
    return lo ? vf_add(r, *lo) : r;
}
/* x (+ lo) = r - n ln 2 likewise: exp(-x) is exp(-r) 2^n. The low bits of t hold n as well. */
static inline vf gg_exp_minus(vf x, const vf *lo, vf *n, vf *t) {
    const vf shift = vf_set1(0x1.8p23f);
    *t = vf_fma(x, vf_set1(-1.44269504f), shift), *n = vf_sub(*t, shift);
    const vf r = vf_fma(*n, vf_set1(0x1.7f7d1cp-20f), vf_fma(*n, vf_set1(0x1.62e4p-1f), x));
    return lo ? vf_add(r, *lo) : r;
}
static const float gg_exp_c[] = {1, 1, 0.49999997f, 0.166665435f, 0.0416672006f, 0.00836654752f, 0.00138825097f};
static inline vf gg_exp_small(vf r) { return gg_poly(r, 7, gg_exp_c); }
static inline vf gg_expm1_small(vf r) { return vf_fma(vf_mul(r, r), gg_poly(r, 5, gg_exp_c + 2), r); }
/* exp(x): gg_exp_below for x up to 89, gg_exp_negative for x up to 0 */
static inline vf gg_exp_any(vf x) {
    vf n;
    const vm gone = vf_lt(x, vf_set1(-104));             /* to underflow takes a hundred times as long */
    const vf r = gg_exp_rest(vf_select(gone, vf_zero(), x), NULL, &n);
    return vf_select(gone, vf_zero(), vf_ldexp(gg_exp_small(r), n));
}
#ifdef GG_VEC_LDEXP
static inline vf gg_exp_below(vf x) { return gg_exp_any(x); }
static inline vf gg_exp_negative(vf x) { return gg_exp_any(x); }
#else       /* the same bits in fewer instructions where no lane is subnormal, infinite or NaN */
/* x = n ln 2 + r as in gg_exp_rest; the low bits of t hold n. */
static inline vf gg_exp_near_rest(vf x, vf *t) {
    const vf shift = vf_set1(0x1.8p23f);
    *t = vf_fma(x, vf_set1(1.44269504f), shift);
    const vf n = vf_sub(*t, shift);
    return vf_fnma(n, vf_set1(0x1.7f7d1cp-20f), vf_fnma(n, vf_set1(0x1.62e4p-1f), x));
}
static inline vf gg_exp_near(vf x) {
    vf t;
    const vf r = gg_exp_near_rest(x, &t);
    return gg_times_pow2_of(gg_exp_small(r), t);
}
static __attribute__((noinline, unused)) vf gg_exp_far(vf x) { return gg_exp_any(x); }
static inline vf gg_exp_below(vf x) {
    return __builtin_expect(vm_all(vf_lt(vf_abs(x), vf_set1(87))), 1) ? gg_exp_near(x) : gg_exp_far(x);
}
static inline vf gg_exp_negative(vf x) {
    const vm near = vf_gt(x, vf_set1(-87));
    if (__builtin_expect(vm_all(near), 1)) return gg_exp_near(x);
    /* Masked logits are -inf, which takes no longer where their neighbours are near. */
    if (vm_any(vm_and(vm_not(near), vm_not(vf_lt(x, vf_set1(-104)))))) return gg_exp_far(x);
    return vf_select(near, gg_exp_near(x), vf_zero());
}
#endif
/* gg_exp_negative of four vectors, each step for all of them: so none waits for the latency of its last step. */
static inline __attribute__((always_inline)) void gg_exp_negative_4(vf x[4]) {
    vf n[4], r[4];
#ifdef GG_VEC_LDEXP
    vm gone[4];
    GG_FOUR(j) gone[j] = vf_lt(x[j], vf_set1(-104));
    GG_FOUR(j) r[j] = gg_exp_rest(vf_select(gone[j], vf_zero(), x[j]), NULL, &n[j]);
#else
    vm near = vf_gt(x[0], vf_set1(-87));
    for (int j = 1; j < 4; j++) near = vm_and(near, vf_gt(x[j], vf_set1(-87)));
    if (__builtin_expect(!vm_all(near), 0)) {
        GG_FOUR(j) x[j] = gg_exp_negative(x[j]);
        return;
    }
    GG_FOUR(j) r[j] = gg_exp_near_rest(x[j], &n[j]);
#endif
    GG_FOUR(j) x[j] = vf_set1(gg_exp_c[6]);
_Pragma("GCC unroll 6")
    for (int i = 5; i >= 0; i--) {
        const vf c = vf_set1(gg_exp_c[i]);
        GG_FOUR(j) x[j] = vf_fma(x[j], r[j], c);
    }
#ifdef GG_VEC_LDEXP
    GG_FOUR(j) x[j] = vf_select(gone[j], vf_zero(), vf_ldexp(x[j], n[j]));
#else
    GG_FOUR(j) x[j] = gg_times_pow2_of(x[j], n[j]);
#endif
}
static inline vf v_exp(vf x) { return gg_exp_below(vf_min(vf_set1(89), x)); }
static inline vf v_expm1(vf x) {
    vf n;
    const vf q = gg_expm1_small(gg_exp_rest(gg_clamp(x, -25, 89), NULL, &n));
    /* 2^128 is not a float */
    const vf s = gg_times_pow2(vf_set1(1), vf_sub(n, vf_set1(1))), half = vf_fma(s, q, vf_sub(s, vf_set1(0.5f)));
    return vf_copysign(vf_select(vf_eq(n, vf_zero()), q, vf_add(half, half)), x);
}
/* t / (t + 2) with t = exp(-2 |x|) - 1 */
static inline vf v_tanh(vf x) {
    vf n;
    const vf q = gg_expm1_small(gg_exp_rest(vf_max(vf_set1(-25), vf_mul(vf_abs(x), vf_set1(-2))), NULL, &n));
    const vf s = gg_times_pow2(vf_set1(1), n), t = vf_fma(s, q, vf_sub(s, vf_set1(1)));
    return vf_copysign(vf_div(t, vf_add(t, vf_set1(2))), x);
}
static inline vf v_prelu(vf x, vf slope) { return vf_select(vf_lt(x, vf_zero()), vf_mul(x, slope), x); }
static inline vf v_elu(vf x) { return vf_select(vf_gt(x, vf_zero()), x, v_expm1(x)); }

/* ---- logarithms -------------------------------------------------------------------------------------------------- */
/* log(u) + c + e0 ln 2 for normal u > 0 and a small c: u = 2^e (1 + f), f in [-1/3, 1/3). */
static inline vf gg_log_core(vf u, vf c, vf e0) {
    static const float k[] = {0.333332151f, -0.249997973f, 0.200104207f, -0.166804999f,
                              0.140055984f, -0.121840417f, 0.139858782f, -0.128927916f};
    const vi bits = vf_bits(u), e = vi_sra(vi_sub(bits, vi_set1(0x3f2aaaab)), 23);
    const vf f = vf_sub(vi_float(vi_sub(bits, vi_shl(e, 23))), vf_set1(1)), ff = vf_mul(f, f);
    const vf ef = vf_add(vi_to_vf(e), e0);
    vf t = vf_fma(vf_mul(f, ff), gg_poly(f, 8, k), vf_fma(ef, vf_set1(0x1.7f7d1cp-20f), c));
    t = vf_add(f, vf_fnma(vf_set1(0.5f), ff, t));
    return vf_fma(ef, vf_set1(0x1.62e4p-1f), t);
}
static inline vf v_log(vf x) {
    const vm tiny = vf_lt(x, vf_set1(0x1p-126f));
    const vf u = vf_select(tiny, vf_mul(x, vf_set1(0x1p24f)), x), e0 = vf_select(tiny, vf_set1(-24), vf_zero());
    vf y = gg_log_core(u, vf_zero(), e0);
    y = vf_select(vf_lt(x, vf_set1(GG_INF)), y, x);
    y = vf_select(vf_lt(x, vf_zero()), vf_set1(GG_NAN), y);
    return vf_select(vf_eq(x, vf_zero()), vf_set1(-GG_INF), y);
}
/* max(x, 0) + log(1 + e); e <= 1, so an approximate 1/u is enough */
static inline vf v_softplus(vf x) {
    const vf one = vf_set1(1), e = v_exp(vf_neg(vf_abs(x))), u = vf_add(one, e), f = vf_sub(u, one);
    const vf inverse = vf_fma(f, vf_fma(f, vf_set1(0.5f), vf_neg(one)), one);
    return vf_add(vf_max(vf_zero(), x), gg_log_core(u, vf_mul(vf_sub(e, f), inverse), vf_zero()));
}

/* log2(x) + e0 = *hi + *lo for normal x > 0, within 2^-32 of it: x = 2^e m with m between 1 / sqrt(2) and sqrt(2), and
 * log2(m) = (2 / ln 2) (s + s^3 / 3 + s^5 / 5 + ...) with s = (m-1)/(m+1); the rounding of the first two is kept. */
static inline void gg_log2_parts(vf x, vf e0, vf *hi, vf *lo) {
    static const float k[] = {0.57707804f, 0.41219857f, 0.3205989f, 0.26230818f};
    const vf c1 = vf_set1(0x1.715476p+1f), c1l = vf_set1(0x1.4ae0cp-25f);
    const vf c3 = vf_set1(0x1.ec709ep-1f), c3l = vf_set1(-0x1.e2fep-28f);
    const vi bits = vf_bits(x), whole = vi_sra(vi_sub(bits, vi_set1(0x3f3504f3)), 23);
    const vf e = vf_add(vi_to_vf(whole), e0), f = vf_sub(vi_float(vi_sub(bits, vi_shl(whole, 23))), vf_set1(1));
    const vf d = vf_add(vf_set1(2), f), dl = vf_sub(f, vf_sub(d, vf_set1(2)));            /* m + 1 = d + dl */
    const vf s = vf_div(f, d), sl = vf_div(vf_fnma(s, dl, vf_fnma_exact(s, d, f)), d);
    const vf s2 = vf_mul(s, s), s2l = vf_fma_exact(s, s, vf_neg(s2)), s3 = vf_mul(s2, s);
    const vf s3l = vf_fma(s2l, s, vf_fma(vf_mul(vf_set1(3), s2), sl, vf_fma_exact(s2, s, vf_neg(s3))));
    const vf t1 = vf_mul(c1, s), t1l = vf_fma(c1l, s, vf_fma(c1, sl, vf_fma_exact(c1, s, vf_neg(t1))));
    const vf t3 = vf_mul(c3, s3), t3l = vf_fma(c3l, s3, vf_fma(c3, s3l, vf_fma_exact(c3, s3, vf_neg(t3))));
    const vf sum = vf_add(t1, t3), lost = vf_add(vf_sub(t1, sum), t3);
    const vf rest = vf_fma(vf_mul(s2, s3), gg_poly(s2, 4, k), vf_add(lost, vf_add(t1l, t3l)));
    *hi = vf_add(e, sum), *lo = vf_add(vf_add(vf_sub(e, *hi), sum), rest);
}
/* 2^(hi + lo) with one rounding; lo is small, and counts only where hi is no result beyond the floats. */
static inline vf gg_exp2_parts(vf hi, vf lo) {
    static const float k[] = {0.2402265f, 0.05550411f, 0.009618129f, 0.0013333558f, 0.0001540353f, 1.5252734e-05f,
                              1.3215487e-06f};
    const vf ln2 = vf_set1(0x1.62e43p-1f), near = gg_clamp(hi, -200, 200), n = vf_round(near), one = vf_set1(1);
    const vf a = vf_sub(near, n), b = vf_select(vf_eq(near, hi), lo, vf_zero());
    const vf r = vf_add(a, b), rl = vf_add(vf_sub(a, r), b), t = vf_mul(r, ln2), y = vf_add(one, t);
    const vf tl = vf_fma(rl, ln2, vf_fma(r, vf_set1(-0x1.05c61p-29f), vf_fma_exact(r, ln2, vf_neg(t))));
    const vf rest = vf_fma(vf_mul(r, r), gg_poly(r, 7, k), tl);
    return vf_ldexp(vf_add(y, vf_add(vf_add(vf_sub(one, y), t), rest)), n);
}
/* x^y with the special cases of C's pow; exact where x and y are small whole numbers and the power is an f32 */
static __attribute__((noinline, unused)) vf v_pow(vf x, vf y) {
    const vf one = vf_set1(1), zero = vf_zero(), inf = vf_set1(GG_INF), size = vf_abs(x);
    const vm normal = vm_and(vf_gt(size, zero), vf_lt(size, inf)), tiny = vf_lt(size, vf_set1(0x1p-126f));
    const vf scaled = vf_select(tiny, vf_mul(size, vf_set1(0x1p24f)), size), e0 = vf_select(tiny, vf_set1(-24), zero);
    const vf n = gg_clamp(y, -0x1p40f, 0x1p40f);         /* beyond, all powers but those of 1 are 0 or infinite */
    vf hi, lo;
    gg_log2_parts(vf_select(normal, scaled, one), e0, &hi, &lo);
    const vf t = vf_mul(n, hi), power = gg_exp2_parts(t, vf_fma(n, lo, vf_fma_exact(n, hi, vf_neg(t))));
    /* Powers of 0 and of infinity are the one or the other. */
    const vf above = vf_select(vf_gt(size, one), one, zero), positive = vf_select(vf_gt(y, zero), one, zero);
    vf p = vf_select(normal, power, vf_select(vf_eq(above, positive), inf, zero));
    const vf half = vf_mul(y, vf_set1(0.5f));
    const vm whole = vf_eq(vf_trunc(y), y), even = vf_eq(vf_trunc(half), half);
    p = vf_select(vm_and(whole, vm_not(even)), vf_copysign(p, x), p);
    p = vf_select(vm_and(vm_and(normal, vf_lt(x, zero)), vm_not(whole)), vf_set1(GG_NAN), p);
    p = vf_select(vf_isnan(x), x, vf_select(vf_isnan(y), y, p));
    return vf_select(vf_eq(x, one), one, vf_select(vf_eq(y, zero), one, p));
}

/* ---- gates: x * sigmoid(z) --------------------------------------------------------------------------------------- */
/* exp(-z) = e 2^n for z = hi + lo, and d = 2^-n + e: sigmoid(z) is 2^-n / d and sigmoid(-z) is e / d, without
 * cancellation at either end. z is capped at 60, where both have reached their limits. */
typedef struct gg_gate { vf e, d, n; } gg_gate;
static inline gg_gate gg_gate_of(vf hi, const vf *lo) {
    gg_gate g;
    vf t;
    g.e = gg_exp_small(vf_neg(gg_exp_minus(gg_clamp(hi, -150, 60), lo, &g.n, &t)));
    g.d = vf_add(gg_times_pow2(vf_set1(1), vf_neg(g.n)), g.e);
    return g;
}
static inline __attribute__((always_inline)) vf gg_gate_mul_near(vf x, vf hi, const vf *lo) {    /* |z| < 87 */
    static const float c[] = {1, -0.9999997f, 0.49999148f, -0.16667652f, 0.041898176f, -0.008289362f};
    vf n, t;                                             /* a rounded exp(-z) is accurate enough */
    const vf e = gg_poly(gg_exp_minus(hi, lo, &n, &t), 6, c);      /* of exp(-r), relative error 1.6 * 2^-24 */
    return vf_div(x, vf_add(vf_set1(1), gg_times_pow2_of(e, t)));
}
/* Of any z. */
static inline vf gg_gate_mul_any(vf x, vf hi, vf lo) {
    const gg_gate g = gg_gate_of(hi, &lo);
    return vf_ldexp(vf_div(vf_max(vf_set1(-200), x), g.d), vf_neg(g.n));     /* the limit at -inf is -0 */
}
/* Where some z are large. Other lanes get the same bits as in a vector without: no result depends on neighbours. */
static __attribute__((noinline)) vf gg_gate_mul_far(vf x, vf hi, vf lo, bool has_lo) {
    const vf near = gg_gate_mul_near(x, hi, has_lo ? &lo : NULL);
    return vf_select(vf_lt(vf_abs(hi), vf_set1(87)), near, gg_gate_mul_any(x, hi, lo));
}
static inline __attribute__((always_inline)) vf gg_gate_mul(vf x, vf hi, const vf *lo) {
    if (__builtin_expect(!vm_all(vf_lt(vf_abs(hi), vf_set1(87))), 0))
        return gg_gate_mul_far(x, hi, lo ? *lo : vf_zero(), lo);
    return gg_gate_mul_near(x, hi, lo);
}
/* d/dx of x sigmoid(z(x)), w = x z'(x): sigmoid(z) (1 + w sigmoid(-z)) */
static inline vf gg_gate_slope(vf w, vf hi, const vf *lo) {
    const gg_gate g = gg_gate_of(hi, lo);
    return vf_ldexp(vf_div(vf_fma(w, vf_div(g.e, g.d), vf_set1(1)), g.d), vf_neg(g.n));
}
/* z of the tanh form of gelu, 2 sqrt(2/pi) (x + 0.044715 x^3), as hi + lo for |x| <= 14. All bits matter, as z reaches
 * -104 before the result underflows. Returns hi. The larger part of c0 has so few bits that t - c0 is exact. */
static inline vf gg_gelu_arg(vf x, vf *lo) {
    const vf c0 = vf_set1(0x1.98845p+0f), c0l = vf_set1(0x1.9ea1b2p-23f);
    const vf c1 = vf_set1(0x1.2444f2p-4f), c1l = vf_set1(0x1.49b16ap-29f);
    const vf s = vf_mul(x, x), sl = vf_fma_exact(x, x, vf_neg(s));
    const vf t = vf_fma(c1, s, c0), rounding = vf_fma_exact(c1, s, vf_sub(c0, t));
    const vf tl = vf_add(rounding, vf_fma(c1, sl, vf_fma(c1l, s, c0l))), z = vf_mul(x, t);
    *lo = vf_fma(x, tl, vf_fma_exact(x, t, vf_neg(z)));
    return z;
}
static inline vf gg_gelu_quick_arg(vf x, vf *lo) {       /* 1.702 x as hi + lo */
    const vf c = vf_set1(0x1.b3b646p+0f), z = vf_mul(x, c);
    *lo = vf_fma(vf_set1(-0x1.78d4fep-26f), x, vf_fma_exact(x, c, vf_neg(z)));
    return z;
}
static inline vf v_sigmoid(vf x) { return gg_gate_mul(vf_set1(1), x, NULL); }
static inline vf v_silu(vf x) { return gg_gate_mul(x, x, NULL); }
/* The same for |x| < 9.5, in powers of 2: exp(-z) is 2^(x t) with t = -z / (x ln 2), whose constants are divided in the
 * same way. x t without its whole part is exact but for its last bit, so z itself is never needed. */
static inline vf gg_gelu_near(vf x) {
    static const float c[] = {1, 0.693147004f, 0.240222439f, 0.0555073246f, 0.00967151299f, 0.00132647273f};
    const vf c0 = vf_set1(-0x1.26aecp+1f), c1 = vf_set1(-0x1.a5a7dp-4f), shift = vf_set1(0x1.8p23f);
    const vf s = vf_mul(x, x), less = vf_fnma_exact(x, x, s), t = vf_fma(c1, s, c0);       /* x x = s - less */
    const vf lost = vf_fnma(c1, less, vf_fma(vf_set1(0x1.151aaep-29f), s, vf_set1(-0x1.0de73ap-22f)));
    const vf tl = vf_add(vf_fma_exact(c1, s, vf_sub(c0, t)), lost), n = vf_fma(x, t, shift);
    const vf rest = vf_fma(x, tl, vf_fma_exact(x, t, vf_sub(shift, n)));
    return vf_div(x, vf_add(vf_set1(1), gg_times_pow2_of(gg_poly(rest, 6, c), n)));
}
static inline vm gg_gelu_is_near(vf x) { return vf_lt(vf_abs(x), vf_set1(9.5f)); }
static __attribute__((noinline, unused)) vf gg_gelu_far(vf x) {
    vf lo;
    const vf z = gg_gelu_arg(gg_clamp(x, -14, 14), &lo);
    return vf_select(gg_gelu_is_near(x), gg_gelu_near(x), gg_gate_mul_any(x, z, lo));
}
static inline vf v_gelu(vf x) {
    return __builtin_expect(vm_all(gg_gelu_is_near(x)), 1) ? gg_gelu_near(x) : gg_gelu_far(x);
}
static inline vf v_gelu_quick(vf x) {
    vf lo;
    const vf z = gg_gelu_quick_arg(gg_clamp(x, -200, 200), &lo);
    return gg_gate_mul(x, z, &lo);
}
/* x * sigmoid(z) for a result that is rounded to half precision: relative error 2^-17, for |z| <= 60. */
static inline vf gg_gate_half(vf x, vf z) {
    static const float c[] = {1, -0.9999668f, 0.50003016f, -0.16787498f, 0.041513816f};
    const vf shift = vf_set1(0x1.8p23f), t = vf_fma(z, vf_set1(-1.44269504f), shift);
    const vf e = gg_poly(vf_fma(vf_sub(t, shift), vf_set1(0.693147181f), z), 5, c);
    return vf_div(x, vf_add(vf_set1(1), gg_times_pow2_of(e, t)));
}
static inline vf v_gelu_half(vf x) {                     /* values below -7 give -0 as well */
    x = vf_max(vf_set1(-7), x);
    const vf a = vf_min(vf_set1(7), x);
    return gg_gate_half(x, vf_mul(a, vf_fma(vf_mul(a, a), vf_set1(0x1.2444f2p-4f), vf_set1(0x1.988454p+0f))));
}
static inline vf v_gelu_quick_half(vf x) {
    x = vf_max(vf_set1(-21), x);
    return gg_gate_half(x, vf_mul(vf_min(vf_set1(21), x), vf_set1(1.702f)));
}
static inline vf v_silu_back(vf x, vf dy) {
    x = gg_clamp(x, -200, 200);
    return vf_mul(dy, gg_gate_slope(x, x, NULL));
}
static inline vf v_gelu_back(vf x, vf dy) {
    vf lo;
    x = gg_clamp(x, -14, 14);
    const vf z = gg_gelu_arg(x, &lo), cubic = vf_mul(vf_set1(0x1.2444f2p-4f), vf_mul(x, vf_mul(x, x)));
    return vf_mul(dy, gg_gate_slope(vf_fma(vf_set1(2), cubic, vf_add(z, lo)), z, &lo));
}
static inline vf v_gelu_quick_back(vf x, vf dy) {
    vf lo;
    const vf z = gg_gelu_quick_arg(gg_clamp(x, -200, 200), &lo);
    return vf_mul(dy, gg_gate_slope(z, z, &lo));
}
static inline vf v_elu_back(vf x, vf dy) { return vf_select(vf_gt(x, vf_zero()), dy, vf_mul(dy, v_exp(x))); }

/* ---- the normal distribution ------------------------------------------------------------------------------------- */
/* Phi(-t) exp(t*t/2) for t >= 0: 1/(t + 3.5) times a polynomial in (t - 3.5)/(t + 3.5). */
static inline vf gg_mills(vf t) {
    static const float c[] = {5.24432e-09f, -0.565561712f, 0.315425098f, -0.116053171f, 0.0174058229f,
                              0.00649372814f, -0.00317283138f, -0.000495042477f, 0.000418326119f, 0.000108696368f};
    const vf a = vf_set1(3.5f), w = vf_add(t, a), lost = vf_sub(vf_min(t, a), vf_sub(w, vf_max(t, a)));
    vf r = vf_div(vf_set1(1), w);
    r = vf_fma(r, vf_fnma(lost, r, vf_fma_exact(vf_neg(w), r, vf_set1(1))), r);        /* of t + 3.5 unrounded */
    const vf rest = vf_mul(r, gg_poly(vf_mul(vf_sub(t, a), r), 10, c));
    /* c[0] in two parts: the largest term is not rounded */
    return vf_fma_exact(r, vf_set1(0.744416058f), rest);
}
/* exp(-x*x/2) = (1 + q) 2^n; x is capped where larger values underflow; t = |x| */
typedef struct gg_bell { vf t, q, n; } gg_bell;
static inline gg_bell gg_bell_of(vf x) {
    gg_bell g;
    g.t = vf_min(vf_set1(15), vf_abs(x));
    const vf s = vf_mul(g.t, g.t), minus_half = vf_set1(-0.5f);
    const vf lost = vf_mul(vf_fma_exact(g.t, g.t, vf_neg(s)), minus_half);
    g.q = gg_expm1_small(gg_exp_rest(vf_mul(s, minus_half), &lost, &g.n));
    return g;
}
/* m exp(-x*x/2) for x < 0, 1 minus that for x > 0, where f32 precision is enough */
static inline vf gg_bell_side(gg_bell g, vm below, vf m) {
    const vf s = gg_times_pow2(vf_set1(1), vf_max(vf_set1(-60), g.n));  /* subnormal numbers would take long */
    return vf_select(below, vf_fma(m, g.q, m), vf_fnma(m, vf_fma(s, g.q, s), vf_set1(1)));
}
static inline vf gg_bell_scale(gg_bell g, vm below, vf y) { return vf_ldexp(y, vf_select(below, g.n, vf_zero())); }

/* (Phi(t) - 1/2) / t as a polynomial in t*t, for |t| < 0.7 */
static inline vf gg_phi_slope(vf s) {
    static const float c[] = {0.398942292f, -0.0664902553f, 0.009972197f, -0.00118121307f, 0.000103134611f};
    return gg_poly(s, 5, c);
}
/* Phi(-t) = 2^(-k t^2 + c0 + u q), times a factor if there is one, of m vectors, up to four, each step for all of them.
 * k = 1 / (2 ln 2) in two parts. The results replace q. */
static inline __attribute__((always_inline)) void gg_normal_tail(const int m, const vf *t, vf c0, const vf *u, vf *q,
                                                                 const vf *factor) {
    static const float e[] = {1, 0.693147182f, 0.240226477f, 0.0555033237f, 0.00961843692f, 0.00133988739f,
                              0.00015353362f};
    const vf k = vf_set1(0.721347511f), shift = vf_set1(0x1.8p23f);
    vf n[4], r[4];
    GG_UP_TO(j, m) n[j] = vf_add(vf_fma(u[j], q[j], vf_fnma(k, vf_mul(t[j], t[j]), c0)), shift);
    GG_UP_TO(j, m) {
        const vf s = vf_mul(t[j], t[j]), less = vf_fnma_exact(t[j], t[j], s);               /* t t = s - less */
        const vf rest = vf_fma(u[j], q[j], vf_fnma_exact(k, s, vf_sub(c0, vf_sub(n[j], shift))));
        r[j] = vf_add(rest, vf_fma(k, less, vf_mul(vf_set1(-9.62981517e-09f), s)));
    }
    gg_polys(m, r, 7, e, q);
    GG_UP_TO(j, m) q[j] = gg_times_pow2_of(factor ? vf_mul(q[j], *factor) : q[j], n[j]);
}
static const float gg_tail_near[] = {-0.59103775f, 0.0963927135f, -0.0173930097f, 0.00294130133f, -0.000427152641f,
                                     4.51502456e-05f, -5.58949012e-07f, -1.28847955e-06f, 3.61275397e-07f,
                                     -4.88556502e-08f, 2.75208167e-09f};
static const float gg_tail_far[] = {-0.1531782f, 0.00795797165f, -0.000539810339f, 4.03650811e-05f, -3.15341049e-06f,
                                    2.49237786e-07f, -1.99133492e-08f, 1.7648466e-09f, -1.55286492e-10f,
                                    7.52774058e-12f};
/* x Phi(x) = max(x, 0) - t Phi(-t), t = |x|, of m vectors x > -5.5; beyond 5.5, Phi changes no result. */
static inline __attribute__((always_inline)) void gg_gelu_erf_near(const int m, vf *x) {
    vf t[4], u[4], q[4];
    GG_UP_TO(j, m) t[j] = vf_min(vf_set1(5.5f), vf_abs(x[j])), u[j] = vf_sub(t[j], vf_set1(1.70509565f));
    gg_polys(m, u, 11, gg_tail_near, q);
    gg_normal_tail(m, t, vf_set1(-2.40625f), u, q, NULL);
    GG_UP_TO(j, m) x[j] = vf_fnma(t[j], q[j], vf_max(vf_zero(), x[j]));
}
/* Of the lanes below -5.5, those of NaN too; y in the others. Below -14.5, the result is -0, and to underflow to it
 * would take long. */
static __attribute__((noinline, unused)) vf gg_gelu_erf_far(vf x, vf y) {
    const vm near = vf_gt(x, vf_set1(-5.5f)), gone = vf_lt(x, vf_set1(-14.5f));
    const vf factor = vf_set1(0x1p32f);                 /* Phi of far x may be subnormal */
    const vf t = vf_select(gone, vf_set1(6), vf_min(vf_set1(14.5f), vf_abs(vf_select(near, vf_set1(6), x))));
    const vf u = vf_sub(t, vf_set1(9.2083292f));
    vf tail = gg_poly(u, 10, gg_tail_far);
    gg_normal_tail(1, &t, vf_set1(-4.54522705078125f), &u, &tail, &factor);
    const vf z = vf_fnma(t, tail, vf_max(vf_zero(), x));
#ifdef GG_VEC_LDEXP
    return vf_select(near, y, vf_select(gone, vf_set1(-0.0f), vf_ldexp(z, vf_set1(-32))));
#else
    /* The bits of a subnormal number are how many times it is 2^-149. A product with such a result takes long. */
    const vm low = vf_lt(vf_abs(z), vf_set1(0x1p-94f));
    const vf tiny = vf_neg(vi_float(vf_to_vi(vf_select(low, vf_mul(vf_abs(z), vf_set1(0x1p117f)), vf_zero()))));
    const vf scaled = vf_mul(vf_keep(vf_select(low, vf_set1(1), z)), vf_set1(0x1p-32f));
    return vf_select(near, y, vf_select(gone, vf_set1(-0.0f), vf_select(low, tiny, scaled)));
#endif
}
/* m vectors, up to four, each step for all of them: so none waits for the latency of its last step. */
static inline __attribute__((always_inline)) void gg_gelu_erf_of(const int m, vf *x) {
    vf y[4];
    vm near = vf_gt(x[0], vf_set1(-5.5f));
    for (int j = 1; j < m; j++) near = vm_and(near, vf_gt(x[j], vf_set1(-5.5f)));
    GG_UP_TO(j, m) y[j] = x[j];
    gg_gelu_erf_near(m, y);
    if (__builtin_expect(!vm_all(near), 0))
        GG_UP_TO(j, m) if (!vm_all(vf_gt(x[j], vf_set1(-5.5f)))) y[j] = gg_gelu_erf_far(x[j], y[j]);
    GG_UP_TO(j, m) x[j] = y[j];
}
static inline vf v_gelu_erf(vf x) {
    gg_gelu_erf_of(1, &x);
    return x;
}
static __attribute__((noinline, unused)) vf gg_gelu_erf_one(vf x) { return v_gelu_erf(x); }
static inline __attribute__((always_inline)) void v_gelu_erf_4(vf x[4]) { gg_gelu_erf_of(4, x); }
/* erf(x) = 1 - exp(-x p(x)); where x is small, 2 (Phi(t) - 1/2) with t = x sqrt(2); beyond 3.95, it is 1 */
static inline vf v_erf(vf x) {
    static const float c[] = {1.12847781f, 0.635906994f, 0.104904272f, -0.0225741502f, 0.00308381813f, -0.00019338842f};
    const vf size = vf_min(vf_set1(3.95f), vf_abs(x));
    const vf large = vf_sub(vf_set1(1), gg_exp_below(vf_mul(vf_neg(size), gg_poly(size, 6, c))));
    const vf slope = vf_mul(vf_set1(2.82842712f), gg_phi_slope(vf_mul(vf_add(size, size), size)));
    return vf_select(vf_lt(size, vf_set1(0.5f)), vf_mul(x, slope), vf_copysign(large, x));
}
static inline vf v_gelu_erf_back(vf x, vf dy) {
    const gg_bell g = gg_bell_of(x);
    const vm below = vf_lt(x, vf_zero());
    const vf m = vf_fnma(g.t, vf_set1(0.398942280f), gg_mills(g.t));   /* (Phi(-t) - t phi(t)) exp(t*t/2) */
    return vf_mul(dy, gg_bell_scale(g, below, gg_bell_side(g, below, m)));
}

/* ---- sine and cosine --------------------------------------------------------------------------------------------- */
/* x = q pi/2 + r (q modulo 4) for 2^17 < |x| < inf. Bits of 2/pi that only add multiples of 4 are skipped. */
__attribute__((noinline, unused)) static float gg_rem_pio2_big(float x, int32_t *q) {
    static const uint32_t bits[] = {0,          0xA2F9836E, 0x4E441529, 0xFC2757D1,
                                    0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB};
    const uint32_t u = gg_f32_bits(x);
    const uint64_t m = (u & 0x7fffff) | 0x800000;
    const int at = (int)(u >> 23 & 0xff) - 150 - 2 + 32, s = at & 31;      /* |x| = m 2^(exponent - 150) */
    const uint32_t *w = bits + (at >> 5);
    uint64_t win[3];
    for (int i = 0; i < 3; i++) win[i] = (uint32_t)(((uint64_t)w[i] << 32 | w[i + 1]) >> (32 - s));
    const uint64_t turn = (m * win[0] << 32) + m * win[1] + (m * win[2] >> 32);  /* |x| / (2 pi) modulo 1, times 2^64 */
    const uint64_t quarter = (turn + (1ull << 61)) >> 62;
    const float r = (float)((double)(int64_t)(turn - (quarter << 62)) * (1.5707963267948966 * 0x1p-62));
    *q = (int32_t)(x < 0 ? -quarter : quarter);
    return x < 0 ? -r : r;
}
/* x = q pi/2 + r, |r| <= pi/4 (approximately), r within one ulp even close to a multiple of pi/2; NaN for inf. */
static inline vf gg_rem_pio2(vf x, vi *q) {
    const vf n = vf_round(vf_mul(x, vf_set1(0.636619772f))), minus = vf_neg(n);
    vf r = vf_fma_exact(minus, vf_set1(0x1.921fb6p+0f), x);
    r = vf_fma_exact(minus, vf_set1(-0x1.777a5cp-25f), r);
    r = vf_fma_exact(minus, vf_set1(-0x1.ee59dap-50f), r);
    *q = vf_to_vi(n);
    const vm big = vf_gt(vf_abs(x), vf_set1(0x1p17f));
    if (__builtin_expect(vm_any(big), 0)) {
        float xs[VW], rs[VW];
        int32_t qs[VW];
        vf_store(xs, x), vf_store(rs, r), vi_store(qs, *q);
        for (int i = 0; i < VW; i++)
            if (__builtin_fabsf(xs[i]) > 0x1p17f)
                rs[i] = __builtin_fabsf(xs[i]) < GG_INF ? gg_rem_pio2_big(xs[i], &qs[i]) : GG_NAN;
        r = vf_load(rs), *q = vi_load(qs);
    }
    return r;
}
/* sin of q pi/2 + r */
static inline vf gg_sin_quarter(vf r, vi q) {
    static const float s[] = {-0.166666672f, 0.00833332911f, -0.000198393042f, 2.71804765e-06f};
    static const float c[] = {0.0416666456f, -0.00138873095f, 2.4432411e-05f};
    const vf rr = vf_mul(r, r);
    const vf sine = vf_fma(vf_mul(r, rr), gg_poly(rr, 4, s), r);
    const vf cosine = vf_add(vf_set1(1), vf_fma(vf_mul(rr, rr), gg_poly(rr, 3, c), vf_mul(rr, vf_set1(-0.5f))));
    const vf y = vf_select(vi_eq(vi_and(q, vi_set1(1)), vi_set1(0)), sine, cosine);
    return vi_float(vi_xor(vf_bits(y), vi_shl(vi_and(q, vi_set1(2)), 30)));
}
static inline vf v_sin(vf x) {
    vi q;
    const vf r = gg_rem_pio2(x, &q), y = gg_sin_quarter(r, q);
    return vf_select(vf_lt(vf_abs(x), vf_set1(0x1p-13f)), x, y);       /* keeps -0 and subnormals */
}
static inline vf v_cos(vf x) {
    vi q;
    const vf r = gg_rem_pio2(x, &q);
    return gg_sin_quarter(r, vi_add(q, vi_set1(1)));
}

/* ---- piecewise linear functions ---------------------------------------------------------------------------------- */
static inline vf v_relu(vf x) { return vf_max(vf_zero(), x); }
static inline vf v_sgn(vf x) {
    const vf z = vf_zero(), one = vf_set1(1);
    return vf_select(vf_gt(x, z), one, vf_select(vf_lt(x, z), vf_neg(one), vf_add(x, z)));
}
static inline vf v_step(vf x) {
    return vf_select(vf_gt(x, vf_zero()), vf_set1(1), vf_select(vf_isnan(x), x, vf_zero()));
}
/* x / 6, rounded as by a division where the quotient is not subnormal: the error of 1/6 as two floats is too small to
 * change the rounding. */
static inline vf gg_sixth(vf x) { return vf_fma_exact(x, vf_set1(1.0f / 6), vf_mul(x, vf_set1(-0x1.555556p-28f))); }
static inline vf v_hardsigmoid(vf x) { return gg_sixth(gg_clamp(vf_add(x, vf_set1(3)), 0, 6)); }
/* From -3 down the result is -0, also for -inf. */
static inline vf v_hardswish(vf x) {
    const vf y = vf_max(vf_set1(-3), x);
    return vf_mul(y, gg_sixth(vf_min(vf_set1(6), vf_add(y, vf_set1(3)))));
}
/* Rounds half away from zero. Adds the float just below 1/2: adding 1/2 would round up the float just below 1/2. */
static inline vf v_half_away(vf x) { return vf_add(x, vf_copysign(vf_set1(0x1.fffffep-2f), x)); }
static inline vf v_round_away(vf x) { return vf_trunc(v_half_away(x)); }

#endif
