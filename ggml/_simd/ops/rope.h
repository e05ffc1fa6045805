/* ROPE rotates pairs of elements of a row by angles proportional to the position of the row. ROPE_BACK rotates by the
 * opposite angles, which is the gradient; ROPE_FACTORS_BACK is the gradient of the frequency factors. Every mode is a
 * table of pairs: the position that drives a pair, and its angle per unit of position. Angles are double and are
 * reduced modulo a full turn, so that large positions are as exact as small ones. */
#ifndef GG_OPS_ROPE_H
#define GG_OPS_ROPE_H
#include "rowwise.h"
#include <math.h>

enum { ROPE_NEOX = 2, ROPE_SECTIONS = 8, ROPE_VISION = 24, ROPE_IMROPE = 40 };
enum { ROPE_PARTS = 64 };           /* the number of partial sums over tokens, whatever the number of threads */

typedef struct rope {
    int64_t pairs, apart;           /* the distance of the elements of a pair */
    int64_t offset;                 /* of the first rotated element in a row */
    bool neighbours;                /* pairs are (0, 1), (2, 3) ...; otherwise (0, apart), (1, apart + 1) ... */
    double *rate;                   /* angle of a pair at position 1 */
    int32_t *section, *quarter;     /* the position that drives a pair; quarter turns of its angle */
    float *cos, *sin;
    float *wide_cos, *wide_sin;     /* neighbours: for each element */
    float *in, *out;                /* rows that are not contiguous f32 */
} rope;

/* The pair from which the angle of a pair is counted, and the position that drives it, by the sections. */
static int rope_section(const int32_t *sections, int mode, int64_t pair, int64_t *from) {
    const int64_t s0 = sections[0], s1 = s0 + sections[1], s2 = s1 + sections[2], at = pair % (s2 + sections[3]);
    *from = 0;
    if (mode == ROPE_IMROPE) {      /* interleaved: t h w t h w ... */
        for (int i = 0; i < 3; i++)
            if (at % 3 == i && at < 3 * (int64_t)sections[i]) return i;
        return 3;
    }
    const int64_t start[] = {0, s0, s1, s2};
    const int section = at < s0 ? 0 : at < s1 ? 1 : at < s2 ? 2 : 3;
    if (mode == ROPE_VISION) *from = pair - at + start[section];
    return section;
}
/* YaRN: the pair that makes `beta` full turns within the original context. It is fractional. */
static double rope_corr_dim(const ggml_tensor *t, double beta) {
    const double n_dims = rope_params(t)->n_dims, n_ctx = rope_params(t)->n_ctx_orig;
    return n_dims * log(n_ctx / (beta * 2 * 3.14159265358979323846)) / (2 * log((double)rope_params(t)->freq_base));
}
/* The fraction of the angle of a pair that is not scaled: ext_factor up to pair `low` (high frequencies), 0 from pair
 * `high` on. */
static double rope_extrapolated(const ggml_tensor *t, double low, double high, int64_t pair) {
    const double at = ((double)pair - low) / fmax(0.001, high - low);
    return (1 - fmin(1, fmax(0, at))) * (double)rope_params(t)->ext_factor;
}
static float rope_factor(const ggml_tensor *factors, int64_t pair) {
    return factors ? *(const float *)((const char *)factors->data + (size_t)pair * factors->nb[0]) : 1;
}

static void rope_rates(rope *p, const ggml_tensor *t, const ggml_tensor *factors) {
    const int32_t *const sections = rope_params(t)->sections;
    const int mode = rope_params(t)->mode;
    const double base = rope_params(t)->freq_base, scale = rope_params(t)->freq_scale, n_dims = rope_params(t)->n_dims;
    const double low = fmax(0, floor(rope_corr_dim(t, rope_params(t)->beta_fast)));
    const double high = fmin(n_dims - 1, ceil(rope_corr_dim(t, rope_params(t)->beta_slow)));
    for (int64_t i = 0; i < p->pairs; i++) {
        int64_t from = 0;
        p->section[i] = mode & ROPE_SECTIONS ? rope_section(sections, mode, i, &from) : 0;
        const double mix = rope_params(t)->ext_factor != 0 ? rope_extrapolated(t, low, high, i) : 0;
        const double rate = pow(base, -2 * (double)(i - from) / n_dims) / (double)rope_factor(factors, i);
        p->rate[i] = rate * (scale * (1 - mix) + mix);
    }
}
static bool rope_make(rope *p, const ggml_tensor *t, const ggml_tensor *x, const ggml_tensor *factors) {
    const int64_t n = rope_params(t)->n_dims, mode = rope_params(t)->mode;
    p->pairs = mode == ROPE_VISION ? n : n / 2;
    p->apart = p->pairs;
    p->offset = rope_params(t)->offset;
    p->neighbours = !(mode & (ROPE_NEOX | ROPE_SECTIONS));
    const int64_t size = (p->pairs + 15) / 16 * 16, row = (x->ne[0] + 15) / 16 * 16;
    p->rate = gg_scratch((size_t)size * (sizeof(double) + 8 * sizeof(float)) + (size_t)row * 2 * sizeof(float));
    if (!p->rate) return false;
    p->section = (int32_t *)(p->rate + size), p->quarter = p->section + size;
    p->cos = (float *)(p->quarter + size), p->sin = p->cos + size;
    p->wide_cos = p->sin + size, p->wide_sin = p->wide_cos + 2 * size;
    p->in = p->wide_sin + 2 * size, p->out = p->in + row;
    rope_rates(p, t, factors);
    return true;
}
static double rope_position(const rope *p, const ggml_tensor *positions, int64_t n, int64_t token, int64_t pair) {
    const int64_t i = p->section[pair] * n + token;
    return *(const int32_t *)((const char *)positions->data + (size_t)i * positions->nb[0]);
}

/* Sines and cosines of the angles of a token, scaled as YaRN requires. */
static void rope_token(rope *p, const ggml_tensor *t, const ggml_tensor *positions, int64_t n, int64_t token,
                       float sign) {
    const double half_pi = 1.57079632679489661923, half_pi_rest = 6.123233995736766e-17;
    float size = rope_params(t)->attn_factor;
    if (rope_params(t)->ext_factor != 0) size *= (float)(1 - 0.1 * log((double)rope_params(t)->freq_scale));
    for (int64_t i = 0; i < p->pairs; i++) {
        const double angle = rope_position(p, positions, n, token, i) * p->rate[i];
        const bool known = fabs(angle) < 0x1p52;         /* otherwise even the number of turns is unknown */
        const double q = known ? nearbyint(angle / half_pi) : 0;
        p->cos[i] = known ? (float)(angle - q * half_pi - q * half_pi_rest) : GG_NAN;
        p->quarter[i] = (int32_t)((int64_t)q & 3);
    }
    for (int64_t i = 0; i < p->pairs; i += VW) {         /* the arrays are a multiple of VW long */
        const vf r = vf_load(p->cos + i);
        const vi q = vi_load(p->quarter + i);
        vf_store(p->cos + i, vf_mul(gg_sin_quarter(r, vi_add(q, vi_set1(1))), vf_set1(size)));
        vf_store(p->sin + i, vf_mul(gg_sin_quarter(r, q), vf_set1(sign * size)));
    }
    for (int64_t i = 0; p->neighbours && i < p->pairs; i++) {
        p->wide_cos[2 * i] = p->wide_cos[2 * i + 1] = p->cos[i];
        p->wide_sin[2 * i] = -p->sin[i], p->wide_sin[2 * i + 1] = p->sin[i];
    }
}

/* v[1] v[0] v[3] v[2] ... */
static inline vf rope_swap(vf v) {
    typedef uint64_t pair __attribute__((vector_size(sizeof(vf))));
    pair u;
    memcpy(&u, &v, sizeof u);
    u = u << 32 | u >> 32;
    memcpy(&v, &u, sizeof v);
    return v;
}
/* y may be x */
static void rope_row(const rope *p, int64_t n, const float *x, float *y) {
    const int64_t turned = 2 * p->pairs, end = p->offset + turned;
    if (x != y) {
        memcpy(y, x, (size_t)p->offset * sizeof *y);
        memcpy(y + end, x + end, (size_t)(n - end) * sizeof *y);
    }
    x += p->offset, y += p->offset;
    if (p->neighbours)
        EACH_VEC(i, turned) {
            const vf v = ld(x + i, turned - i), c = vf_load(p->wide_cos + i), s = vf_load(p->wide_sin + i);
            st(y + i, vf_fma(v, c, vf_mul(rope_swap(v), s)), turned - i);
        }
    else
        EACH_VEC(i, p->pairs) {
            const int64_t k = p->pairs - i;
            const vf a = ld(x + i, k), b = ld(x + p->apart + i, k), c = vf_load(p->cos + i), s = vf_load(p->sin + i);
            st(y + i, vf_fnma(b, s, vf_mul(a, c)), k);
            st(y + p->apart + i, vf_fma(b, c, vf_mul(a, s)), k);
        }
}
static int rope_run(const gg_work *w, ggml_tensor *dst, float sign) {
    const ggml_tensor *a = dst->src[0], *positions = dst->src[1];
    int64_t token = -1;
    rope p;
    if (!rope_make(&p, dst, a, dst->src[2])) return no_memory(dst);
    for EACH_ROW(w, dst, r) {
        const row_index at = nth_row(dst, r);
        if (at.i2 != token) rope_token(&p, dst, positions, a->ne[2], token = at.i2, sign);
        float *y = row_out(dst, at, p.out);
        rope_row(&p, a->ne[0], row_in(a, at, p.in), y);
        row_store(dst, at, y);
    }
    return GGML_STATUS_SUCCESS;
}
static int op_ROPE(const gg_work *w, ggml_tensor *dst) { return rope_run(w, dst, 1); }
static int op_ROPE_BACK(const gg_work *w, ggml_tensor *dst) { return rope_run(w, dst, -1); }

/* ---- the gradient of the frequency factors ----------------------------------------------------------------------- */
/* src: gradient g of the result, a, positions, factors. An angle is a constant divided by its factor, and it moves the
 * rotated pair (y0, y1) by (-y1, y0), so a pair contributes (y0 g1 - y1 g0) times -angle / factor. */
static void rope_turning(const rope *p, const float *x, const float *g, double *sum) {
    for (int64_t i = 0; i < p->pairs; i++) {
        const int64_t i0 = p->offset + (p->neighbours ? 2 * i : i), i1 = i0 + (p->neighbours ? 1 : p->apart);
        const double c = (double)p->cos[i], s = (double)p->sin[i], x0 = (double)x[i0], x1 = (double)x[i1];
        sum[i] += (x0 * c - x1 * s) * (double)g[i1] - (x0 * s + x1 * c) * (double)g[i0];
    }
}
static size_t work_ROPE_FACTORS_BACK(const ggml_tensor *dst, int nth) {
    (void)nth;
    return (size_t)ROPE_PARTS * 2 * (size_t)dst->src[1]->ne[0] * sizeof(double);
}
static void rope_part(rope *p, const ggml_tensor *t, int64_t part, float sign, double *sum, double *turning) {
    const ggml_tensor *g = t->src[0], *a = t->src[1], *positions = t->src[2], *factors = t->src[3];
    const int64_t n = a->ne[2] * a->ne[3];
    memset(sum, 0, (size_t)p->pairs * sizeof *sum);
    for (int64_t u = n * part / ROPE_PARTS; u < n * (part + 1) / ROPE_PARTS; u++) {
        const int64_t token = u % a->ne[2];
        rope_token(p, t, positions, a->ne[2], token, sign);
        memset(turning, 0, (size_t)p->pairs * sizeof *turning);
        for (int64_t i1 = 0; i1 < a->ne[1]; i1++) {
            const row_index at = {i1, token, u / a->ne[2]};
            rope_turning(p, row_in(a, at, p->in), row_in(g, at, p->out), turning);
        }
        for (int64_t i = 0; i < p->pairs; i++)
            sum[i] -= (double)sign * turning[i] * rope_position(p, positions, a->ne[2], token, i) * p->rate[i]
                    / (double)rope_factor(factors, i);
    }
}
static int op_ROPE_FACTORS_BACK(const gg_work *w, ggml_tensor *dst) {
    const int64_t n = dst->src[1]->ne[0];
    const float sign = rope_params(dst)->back ? -1 : 1;       /* 1: of ROPE_BACK */
    double *const parts = w->wdata;
    rope p;
    const bool ok = rope_make(&p, dst, dst->src[1], dst->src[3]);
    for (int64_t i0, i1; ok && gg_claim_chunk(w, ROPE_PARTS, 1, &i0, &i1);)
        for (; i0 < i1; i0++) rope_part(&p, dst, i0, sign, parts + 2 * i0 * n, parts + (2 * i0 + 1) * n);
    gg_barrier(w);                                       /* also on failure: the other threads wait */
    if (!ok) return no_memory(dst);
    for (int64_t i = 0; !w->ith && i < dst->ne[0]; i++) {
        double sum = 0;
        for (int64_t k = 0; k < ROPE_PARTS && i < p.pairs; k++) sum += parts[2 * k * n + i];
        *(float *)((char *)dst->data + (size_t)i * dst->nb[0]) = (float)sum;
    }
    return GGML_STATUS_SUCCESS;
}

#endif
