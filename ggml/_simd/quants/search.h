/* Searches for the scales that minimise the weighted squared error of a scale group. Scale groups are independent,
 * so each takes a lane. Its sums add the elements in their order on every ISA, so all ISAs give the same bytes. x:
 * values, w: importance weights, l: levels, q: codes. */
#ifndef GG_QUANTS_SEARCH_H
#define GG_QUANTS_SEARCH_H
#include "encode.h"
#include <math.h>

enum { LANES = 16, MAX_GROUP = 32 };
/* Up to LANES scale groups of n elements, transposed: element i of group j is x[i][j]. */
typedef struct { int count, n; float x[MAX_GROUP][LANES], w[MAX_GROUP][LANES]; } groups;

/* Lanes without a group hold zeros. */
static inline void set_groups(groups *g, const float *x, const float *w, int count, int n) {
    g->count = count, g->n = n;
    if (count < LANES) memset(g->x, 0, sizeof g->x), memset(g->w, 0, sizeof g->w);
    for (int j = 0; j < count; j++)
        for (int i = 0; i < n; i++) g->x[i][j] = x[j * n + i], g->w[i][j] = w[j * n + i];
}

/* The integer in lo..hi nearest to v; NaN gives lo. */
static inline int level(float v, float lo, float hi) {
    v = v > lo ? v : lo;
    return (int)lrintf(v < hi ? v : hi);
}
static inline vf levels(vf v, vf lo, vf hi) { return vf_min(vf_max(vf_round(v), lo), hi); }
static inline vf madd(vf a, vf b, vf c) { return vf_add(vf_mul(a, b), c); }   /* a b + c; the product is rounded, too */

static inline float sum_squares(const float *x, int64_t n) {
    float s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i] * x[i];
    return s;
}
static inline float sum(const float *x, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s += x[i];
    return s;
}
/* w = im sqrt(sigma2 + x^2) */
static inline void importance(float *w, const float *x, const float *im, int n, float sigma2) {
    for (int i = 0; i < n; i += VW) {
        const vf v = vf_load(x + i);
        vf_store(w + i, vf_mul(vf_load(im + i), vf_sqrt(madd(v, v, vf_set1(sigma2)))));
    }
}

/* quantize(x, y, n, im) for elements of any magnitude: sums over elements beyond 2^28 may overflow. No type whose
 * scales are f16 holds larger ones; they are limited to it, and NaN becomes 0, block by block. */
static void quantize_limited(gg_quantize_fn quantize, int64_t block, size_t bytes, const float *x, void *y, int64_t n,
                             const float *im) {
    const float most = 0x1p28f;
    if (max_abs_or_inf(x, n) < most) { quantize(x, y, n, im); return; }
    float near[256];
    gg_note_beyond_range();
    for (char *b = y; n > 0; n -= block, x += block, b += bytes, im = im ? im + block : NULL) {
        for (int64_t i = 0; i < block; i++) near[i] = x[i] != x[i] ? 0 : fminf(fmaxf(x[i], -most), most);
        quantize(near, b, block, im);
    }
}

/* ---- affine: x = scale l + min, l = 0..top, min <= 0 ------------------------------------------------------------- */
/* The inverse scales (top + first + k step) / (max - min) for k = 0..count; the error is absolute or squared. */
typedef struct { float first, step; int count; bool absolute; } candidates;
/* The result for each group. Levels are (x - from) inv, rounded. */
typedef struct { float scale[LANES], minus_min[LANES], inv[LANES], from[LANES]; } affine;

/* The weighted error of scale l + min where l are the levels by (inv, from). */
static inline vf affine_error(const groups *g, int c, vf inv, vf from, vf top, vf scale, vf min, bool absolute) {
    vf e = vf_zero();
    for (int i = 0; i < g->n; i++) {
        const vf v = vf_load(g->x[i] + c), l = levels(vf_mul(inv, vf_sub(v, from)), vf_zero(), top);
        const vf diff = vf_sub(madd(scale, l, min), v);
        e = madd(vf_load(g->w[i] + c), absolute ? vf_abs(diff) : vf_mul(diff, diff), e);
    }
    return e;
}
/* Each candidate inverse scale gives levels, and these give the least-squares scale and min. A pair of smaller error
 * also replaces the min from which later candidates count their levels. */
static void fit_affine(const groups *g, int levels_top, candidates try, affine *out) {
    const vf zero = vf_zero(), top = vf_set1((float)levels_top);
    for (int c = 0; c < g->count; c += VW) {
        vf min = vf_load(g->x[0] + c), max = min, sw = zero, sx = zero;
        for (int i = 0; i < g->n; i++) {
            const vf v = vf_load(g->x[i] + c), w = vf_load(g->w[i] + c);
            min = vf_select(vf_lt(v, min), v, min), max = vf_max(v, max);    /* the first of 0 and -0 */
            sw = vf_add(sw, w), sx = madd(w, v, sx);
        }
        min = vf_select(vf_gt(min, zero), zero, min);
        const vm nonzero = vf_gt(max, min);
        vf inv = vf_div(top, vf_sub(max, min)), scale = vf_div(vf_set1(1), inv), best_inv = inv, from = min;
        vf best = affine_error(g, c, inv, min, top, scale, min, try.absolute);
        for (int k = 0; k <= try.count; k++) {
            inv = vf_div(vf_set1(try.first + try.step * (float)k + (float)levels_top), vf_sub(max, min));
            vf sl = zero, sl2 = zero, sxl = zero;
            for (int i = 0; i < g->n; i++) {
                const vf v = vf_load(g->x[i] + c), l = levels(vf_mul(inv, vf_sub(v, min)), zero, top);
                const vf wl = vf_mul(vf_load(g->w[i] + c), l);
                sl = vf_add(sl, wl), sl2 = madd(wl, l, sl2), sxl = madd(wl, v, sxl);
            }
            const vf det = vf_sub(vf_mul(sw, sl2), vf_mul(sl, sl));
            vf new_scale = vf_div(vf_sub(vf_mul(sw, sxl), vf_mul(sx, sl)), det);
            vf new_min = vf_div(vf_sub(vf_mul(sl2, sx), vf_mul(sl, sxl)), det);
            const vm above = vf_gt(new_min, zero);
            new_scale = vf_select(above, vf_div(sxl, sl2), new_scale), new_min = vf_select(above, zero, new_min);
            const vf error = affine_error(g, c, inv, min, top, new_scale, new_min, try.absolute);
            const vm better = vm_and(vf_gt(det, zero), vf_lt(error, best));
            best = vf_select(better, error, best);
            best_inv = vf_select(better, inv, best_inv), from = vf_select(better, min, from);
            scale = vf_select(better, new_scale, scale), min = vf_select(better, new_min, min);
        }
        vf_store(out->scale + c, vf_select(nonzero, scale, zero));
        vf_store(out->minus_min + c, vf_neg(min));
        vf_store(out->inv + c, vf_select(nonzero, best_inv, zero));
        vf_store(out->from + c, from);
    }
}
static inline void affine_levels(uint8_t *q, const float *x, const affine *a, int j, int n, int top) {
    for (int i = 0; i < n; i += VW)
        store_levels(q + i, vf_round(vf_mul(vf_set1(a->inv[j]), vf_sub(vf_load(x + i), vf_set1(a->from[j])))), 0,
                   (float)top);
}

/* ---- symmetric: x = scale l, l = -half .. half - 1 --------------------------------------------------------------- */
typedef struct { float scale[LANES], inv[LANES]; } symmetric;             /* levels are x inv, rounded */

static inline void symmetric_sums(const groups *g, int c, vf half, vf inv, vf *xl, vf *l2) {
    const vf lo = vf_neg(half), hi = vf_sub(half, vf_set1(1));
    *xl = *l2 = vf_zero();
    for (int i = 0; i < g->n; i++) {
        const vf v = vf_load(g->x[i] + c), w = vf_load(g->w[i] + c), l = levels(vf_mul(inv, v), lo, hi);
        *xl = madd(vf_mul(w, v), l, *xl), *l2 = madd(vf_mul(w, l), l, *l2);
    }
}
static void fit_symmetric(const groups *g, int half, symmetric *out) {
    const vf zero = vf_zero(), h = vf_set1((float)half);
    for (int c = 0; c < g->count; c += VW) {
        vf peak = zero, xl, l2;
        for (int i = 0; i < g->n; i++) {
            const vf v = vf_load(g->x[i] + c);
            peak = vf_select(vf_gt(vf_abs(v), vf_abs(peak)), v, peak);
        }
        const vm nonzero = vf_ge(vf_abs(peak), vf_set1(1e-15f));
        vf best_inv = vf_div(vf_neg(h), peak);
        symmetric_sums(g, c, h, best_inv, &xl, &l2);
        vf scale = vf_select(vf_gt(l2, zero), vf_div(xl, l2), zero), best = vf_mul(scale, xl);
        for (int k = -9; k <= 9; k++) {
            if (!k) continue;
            const vf inv = vf_div(vf_set1(-((float)half + 0.1f * (float)k)), peak);
            symmetric_sums(g, c, h, inv, &xl, &l2);
            const vm better = vm_and(vf_gt(l2, zero), vf_gt(vf_mul(xl, xl), vf_mul(best, l2)));
            const vf new = vf_div(xl, l2);
            scale = vf_select(better, new, scale), best = vf_select(better, vf_mul(new, xl), best);
            best_inv = vf_select(better, inv, best_inv);
        }
        vf_store(out->scale + c, vf_select(nonzero, scale, zero));
        vf_store(out->inv + c, vf_select(nonzero, best_inv, zero));
    }
}
/* The codes, levels plus half; 0 in a group of zeros. */
static inline void symmetric_levels(uint8_t *q, const float *x, const symmetric *s, int j, int n, int half) {
    const vf h = vf_set1((float)half), lo = vf_neg(h), hi = vf_sub(h, vf_set1(1));
    if (s->inv[j] == 0) memset(q, 0, (size_t)n);
    else for (int i = 0; i < n; i += VW)
        store_levels(q + i, vf_add(levels(vf_mul(vf_set1(s->inv[j]), vf_load(x + i)), lo, hi), h), 0,
                   (float)(2 * half - 1));
}

/* ---- one scale group --------------------------------------------------------------------------------------------- */
/* Changes single levels as long as that reduces the error. xl = sum w x l and l2 = sum w l^2 of the initial levels.
 * Returns the least-squares scale. */
static inline float refine_levels(const float *x, const float *w, int n, int lo, int hi, int *l, float xl, float l2) {
    for (int round = 0; round < 5; round++) {
        bool changed = false;
        for (int i = 0; i < n; i++) {
            float rest_xl = xl - w[i] * x[i] * (float)l[i], rest_l2 = l2 - w[i] * (float)l[i] * (float)l[i];
            if (!(rest_xl > 0 && rest_l2 > 0)) continue;
            const int new = level(x[i] * rest_l2 / rest_xl, (float)lo, (float)hi);
            if (new == l[i]) continue;
            rest_xl += w[i] * x[i] * (float)new, rest_l2 += w[i] * (float)new * (float)new;
            if (rest_l2 > 0 && rest_xl * rest_xl * l2 > xl * xl * rest_l2)
                l[i] = new, xl = rest_xl, l2 = rest_l2, changed = true;
        }
        if (!changed) break;
    }
    return l2 > 0 ? xl / l2 : 0;
}

/* Symmetric codes with weights x^2: rounds by the largest magnitude, then refines. Returns the scale. */
static float fit_by_moves(const float *x, int n, int half, uint8_t *q) {
    const float peak = extreme(x, n), inv = (float)-half / peak;
    if (!(fabsf(peak) >= 1e-15f)) { memset(q, 0, (size_t)n); return 0; }
    float w[MAX_GROUP], xl = 0, l2 = 0;
    int l[MAX_GROUP];
    for (int i = 0; i < n; i++) {
        l[i] = level(inv * x[i], (float)-half, (float)(half - 1));
        w[i] = x[i] * x[i];
        xl += w[i] * x[i] * (float)l[i], l2 += w[i] * (float)l[i] * (float)l[i];
    }
    const float scale = refine_levels(x, w, n, -half, half - 1, l, xl, l2);
    for (int i = 0; i < n; i++) q[i] = (uint8_t)(l[i] + half);
    return scale;
}

/* x = scale l, l = 0..top: rounds by the best of nine scales, then refines. Returns the scale. */
static float fit_positive(const float *x, const float *w, int n, int top, uint8_t *q) {
    float max = 0, best = 0, best_inv = 0;
    for (int i = 0; i < n; i++) if (x[i] > max) max = x[i];
    for (int i = 0; i < n; i++) q[i] = 0;
    if (!(max >= 1e-15f)) return 0;
    for (int k = 0; k <= 8; k++) {          /* first max / top, then scales around it */
        const int s = k ? k - 5 + (k > 4) : 0;
        const float inv = (0.1f * (float)s + (float)top) / max, scale = 1 / inv;
        float error = 0;
        for (int i = 0; i < n; i++) {
            const float diff = x[i] - scale * (float)level(inv * x[i], 0, (float)top);
            error += w[i] * diff * diff;
        }
        if (!k || error < best) best = error, best_inv = inv;
    }
    float xl = 0, l2 = 0;
    int l[MAX_GROUP];
    for (int i = 0; i < n; i++) {
        l[i] = level(best_inv * x[i], 0, (float)top);
        xl += w[i] * x[i] * (float)l[i], l2 += w[i] * (float)l[i] * (float)l[i];
    }
    const float scale = refine_levels(x, w, n, 0, top, l, xl, l2);
    for (int i = 0; i < n; i++) q[i] = (uint8_t)l[i];
    return scale;
}

#endif
