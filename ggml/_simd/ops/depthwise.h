/* Convolutions of each channel by itself: CONV_2D_DW and its gradients. */
#ifndef GG_OPS_DEPTHWISE_H
#define GG_OPS_DEPTHWISE_H
#include "channel_plane.h"

/* out[i] = sum over the taps, n outputs of row o; out has room for whole vectors */
static void depthwise_row(const channel_plane *p, const float *weights, int64_t o, int64_t n, float *out) {
    const int64_t taps = p->ax[0].taps * p->ax[1].taps;
    int64_t i = 0;
    for (; i + 4 * VW <= n; i += 4 * VW) {
        vf sum[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
        for (int64_t t = 0; t < taps; t++) {
            const float *x = plane_at(p, o, t) + i;
            const vf w = vf_set1(weights[t]);
            for (int j = 0; j < 4; j++) sum[j] = vf_fma(w, vf_load(x + j * VW), sum[j]);
        }
        for (int j = 0; j < 4; j++) vf_store(out + i + j * VW, sum[j]);
    }
    for (; i < n; i += VW) {
        vf sum = vf_zero();
        for (int64_t t = 0; t < taps; t++) sum = vf_fma(vf_set1(weights[t]), vf_load(plane_at(p, o, t) + i), sum);
        vf_store(out + i, sum);
    }
}
/* The rows of results from o to end for channel c of image n, from what v sees of `data` and from taps first[],
 * first[] + step[] ... of the kernel. */
static bool depthwise_plane(const gg_conv *q, const patches *v, const ggml_tensor *data, const int64_t first[3],
                            const int64_t step[3], int64_t c, int64_t n, channel_plane p, int64_t o, int64_t end, char *out) {
    const gg_conv_part k = gg_conv_w(q);
    const int64_t across = v->ax[0].out, taps = (int64_t)plane_taps(&p);
    float *const row = (float *)plane_scratch(&p, (size_t)(plane_round(across) + taps) * sizeof *row);
    float *const weights = row + plane_round(across);
    if (!row) return false;
    for (int64_t t = 0; t < taps; t++) {
        const int64_t t0 = first[0] + t % v->ax[0].taps * step[0], t1 = first[1] + t / v->ax[0].taps * step[1];
        weights[t] = pack_value(q->w->type, (const char *)q->w->data + (size_t)t0 * k.nb[0] + (size_t)t1 * k.nb[1]
                                                + (size_t)c * k.nb_n);
    }
    const char *x = (const char *)data->data + (size_t)c * v->nb_c + (size_t)n * v->nb_n;
    for (; o < end; o += p.rows) {
        const int64_t rows = gg_min(p.rows, end - o);
        plane_load(&p, v, data->type, x, o, rows, 0);
        for (int64_t r = 0; r < rows; r++) {
            depthwise_row(&p, weights, r, across, row);
            char *to = out + (size_t)n * v->to_n + (size_t)(o + r) * v->to[1];
            if (v->to[0] == sizeof *row) memcpy(to, row, (size_t)across * sizeof *row);
            else gg_from_floats(GGML_TYPE_F32, row, across, to, v->to[0]);
        }
    }
    return true;
}
static int op_CONV_2D_DW(const gg_work *w, ggml_tensor *dst) {
    const gg_conv q = gg_conv_of(dst);
    const gg_conv_part g = gg_conv_g(&q);
    const int64_t first[3] = {0, 0, 0}, step[3] = {1, 1, 1};
    const patches v = patches_of_x(&q);
    const channel_plane p = plane_plan(&v, plane_parts(w, v.c * v.n));
    const int64_t strips = plane_strips(&p);
    int64_t i0, i1;
    while (gg_claim_chunk(w, v.c * v.n * strips, 1, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const int64_t c = i / strips % v.c, n = i / strips / v.c, o = i % strips * p.rows;
            char *out = (char *)dst->data + (size_t)c * g.nb_c;
            if (!depthwise_plane(&q, &v, q.x, first, step, c, n, p, o, gg_min(o + p.rows, v.ax[1].out), out))
                return plane_memory(dst);
        }
    return GGML_STATUS_SUCCESS;
}
/* x from w and g, phase by phase of the stride */
static int depthwise_data(const gg_work *w, ggml_tensor *dst) {
    const gg_conv q = gg_conv_of(dst);
    const gg_conv_part x = gg_conv_x(&q);
    const int64_t phases = patch_phases(&q);
    int64_t i0, i1;
    while (gg_claim_chunk(w, x.c * x.n * phases, phases, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const int64_t c = i / phases % x.c, n = i / phases / x.c;
            int64_t first[3], tap[3], step[3];
            patch_phase(&q, i % phases, first);
            const patches v = patches_of_g(&q, first, tap, step);
            char *out = (char *)dst->data + (size_t)c * x.nb_c;
            out += (size_t)first[0] * x.nb[0] + (size_t)first[1] * x.nb[1];
            if (!depthwise_plane(&q, &v, q.g, tap, step, c, n, plane_plan(&v, 1), 0, v.ax[1].out, out))
                return plane_memory(dst);
        }
    return GGML_STATUS_SUCCESS;
}

/* sums[t] += what tap t looks at, times the gradient, over a row of n outputs */
static void depthwise_dots(const channel_plane *p, int64_t o, int64_t n, const float *g, float *sums) {
    const int64_t taps = p->ax[0].taps * p->ax[1].taps;
    for (int64_t t = 0; t < taps; t++) {
        const float *x = plane_at(p, o, t);
        vf sum = vf_load(sums + t * VW);
        int64_t i = 0;
        for (; i + VW <= n; i += VW) sum = vf_fma(vf_load(x + i), vf_load(g + i), sum);
        if (i < n) sum = vf_fma(vf_loadn(x + i, (int)(n - i)), vf_loadn(g + i, (int)(n - i)), sum);
        vf_store(sums + t * VW, sum);
    }
}
/* The kernel of channel c: sums of a strip in f32, of all in double. */
static bool depthwise_channel(const gg_conv *q, const patches *v, int64_t c, float *y) {
    const gg_conv_part g = gg_conv_g(q);
    channel_plane p = plane_plan(v, 1);
    const int64_t taps = (int64_t)plane_taps(&p), across = plane_round(v->ax[0].out);
    const size_t size = (size_t)taps * (sizeof(double) + VW * sizeof(float)) + (size_t)across * sizeof(float);
    double *const total = (double *)plane_scratch(&p, size);
    if (!total) return false;
    float *const sums = (float *)(total + taps), *const row = sums + taps * VW;
    memset(total, 0, size);
    for (int64_t n = 0; n < v->n; n++)
        for (int64_t o = 0; o < v->ax[1].out; o += p.rows) {
            const int64_t rows = gg_min(p.rows, v->ax[1].out - o);
            const char *x = (const char *)q->x->data + (size_t)c * v->nb_c + (size_t)n * v->nb_n;
            plane_load(&p, v, q->x->type, x, o, rows, 0);
            for (int64_t r = 0; r < rows; r++) {
                const char *from = (const char *)q->g->data + (size_t)c * g.nb_c + (size_t)n * g.nb_n
                                 + (size_t)(o + r) * g.nb[1];
                gg_to_floats(q->g->type, from, g.nb[0], v->ax[0].out, row);
                depthwise_dots(&p, r, v->ax[0].out, row, sums);
            }
            for (int64_t t = 0; t < taps; t++) {
                total[t] += (double)vf_hsum(vf_load(sums + t * VW));
                vf_store(sums + t * VW, vf_zero());
            }
        }
    for (int64_t t = 0; t < taps; t++) y[t] = (float)total[t];
    return true;
}
static int depthwise_kernel(const gg_work *w, ggml_tensor *dst) {
    const gg_conv q = gg_conv_of(dst);
    const gg_conv_part k = gg_conv_w(&q);
    const patches v = patches_of_x(&q);
    int64_t i0, i1;
    while (gg_claim_chunk(w, v.c, 1, &i0, &i1))
        for (int64_t c = i0; c < i1; c++)
            if (!depthwise_channel(&q, &v, c, (float *)((char *)dst->data + (size_t)c * k.nb_n)))
                return plane_memory(dst);
    return GGML_STATUS_SUCCESS;
}

#endif
