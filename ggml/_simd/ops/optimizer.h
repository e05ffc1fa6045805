/* Optimiser steps, which update their parameter and its moments in place. */
#ifndef GG_OPS_OPTIMIZER_H
#define GG_OPS_OPTIMIZER_H
#include "rows.h"

static void tile_ADAMW(float *const *p, int64_t n, bool stream, const void *arg) {
    (void)stream;
    const float *k = arg;
    const vf alpha = vf_set1(k[0]), b1 = vf_set1(k[1]), b2 = vf_set1(k[2]), eps = vf_set1(k[3]);
    const vf keep = vf_set1(1 - k[0] * k[4]);
    const vf c1 = vf_set1(1 - k[1]), c2 = vf_set1(1 - k[2]), h1 = vf_set1(k[5]), h2 = vf_set1(k[6]);
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
    ggml_tensor *t[] = {dst->src[0], dst->src[2], dst->src[3], dst->src[1]};
    return gg_map(w, dst, t, 4, 3, true, tile_ADAMW, dst->src[4]->data);
}
GG_TILE_XZ(SGD, vf_fnma(vf_set1(k[0]), z, vf_mul(x, vf_set1(k[1]))))
static int op_OPT_STEP_SGD(const gg_work *w, ggml_tensor *dst) {
    ggml_tensor *const x = dst->src[0];
    const float *alpha = dst->src[2]->data, k[GG_TILE_PARAMS] = {alpha[0], 1 - alpha[0] * alpha[1]};
    return gg_map(w, dst, (ggml_tensor *[]){x, x, dst->src[1]}, 3, 1, false, tile_SGD, k);
}

#endif
