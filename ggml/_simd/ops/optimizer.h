/* Optimiser steps, which update their parameter and its moments in place. */
#ifndef GG_OPS_OPTIMIZER_H
#define GG_OPS_OPTIMIZER_H
#include "rows.h"

/* The elements of source 4 of OPT_STEP_ADAMW. beta1h and beta2h are 1 / (1 - beta^step). */
typedef struct { float alpha, beta1, beta2, eps, wd, beta1h, beta2h; } gg_adamw_params;
/* The elements of source 2 of OPT_STEP_SGD, and what is derived from them. */
typedef struct { float alpha, wd; } gg_sgd_numbers;
typedef struct { float alpha, keep; } gg_sgd_params;

/* Whether a step is taken: not if there is a loss (the last source, which is optional) that is NaN or infinite. */
static bool gg_step_is_due(const ggml_tensor *loss) {
    const float x = loss ? *(const float *)loss->data : 0;
    return x - x == 0;
}

static void tile_ADAMW(float *const *p, int64_t n, bool stream, const void *arg) {
    (void)stream;
    gg_adamw_params k;
    memcpy(&k, arg, sizeof k);
    const vf alpha = vf_set1(k.alpha), b1 = vf_set1(k.beta1), b2 = vf_set1(k.beta2), eps = vf_set1(k.eps);
    const vf keep = vf_set1(1 - k.alpha * k.wd);
    const vf c1 = vf_set1(1 - k.beta1), c2 = vf_set1(1 - k.beta2), h1 = vf_set1(k.beta1h), h2 = vf_set1(k.beta2h);
    for (int64_t i = 0; i < n; i += VW) {
        const int l = n - i < VW ? (int)(n - i) : VW;
        const vf g = ld(p[3] + i, l);
        const vf m = vf_fma(g, c1, vf_mul(ld(p[1] + i, l), b1));
        const vf v = vf_fma(vf_mul(g, g), c2, vf_mul(ld(p[2] + i, l), b2));
        const vf step = vf_div(vf_mul(m, h1), vf_add(vf_sqrt(vf_mul(v, h2)), eps));
        st(p[0] + i, vf_fnma(alpha, step, vf_mul(ld(p[0] + i, l), keep)), l);
        st(p[1] + i, m, l);
        st(p[2] + i, v, l);
    }
}
static int op_OPT_STEP_ADAMW(const gg_work *w, ggml_tensor *dst) {
    if (!gg_step_is_due(dst->src[5])) return GGML_STATUS_SUCCESS;
    ggml_tensor *t[] = {dst->src[0], dst->src[2], dst->src[3], dst->src[1]};
    return gg_map(w, dst, t, 4, 3, true, tile_ADAMW, dst->src[4]->data);
}
GG_TILE_XZ(SGD, sgd, vf_fnma(vf_set1(k->alpha), z, vf_mul(x, vf_set1(k->keep))))
static int op_OPT_STEP_SGD(const gg_work *w, ggml_tensor *dst) {
    if (!gg_step_is_due(dst->src[3])) return GGML_STATUS_SUCCESS;
    ggml_tensor *const x = dst->src[0];
    gg_sgd_numbers q;
    memcpy(&q, dst->src[2]->data, sizeof q);
    const gg_sgd_params k = {q.alpha, 1 - q.alpha * q.wd};
    return gg_map(w, dst, (ggml_tensor *[]){x, x, dst->src[1]}, 3, 1, false, tile_SGD, &k);
}

#endif
