/* w from x and g of depthwise convolutions */
#ifndef GG_OPS_CONV_DEPTHWISE_KERNEL_H
#define GG_OPS_CONV_DEPTHWISE_KERNEL_H
#include "../channel_plane.h"
#include "plan.h"

/* sums[t] += the elements that tap t reads, times the gradient, over a row of n outputs */
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
/* The gradient of the kernel of channel c: sums of a strip in f32, of all strips in double. */
static bool depthwise_channel(const gg_conv *q, const patches *v, int64_t c, float *y) {
    const gg_conv_part g = gg_conv_g(q);
    channel_plane p = plane_plan(v, 1, 1);
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
static bool depthwise_kernel_fits(const conv_plan *p, void *part) { return (void)p, (void)part, true; }
static int depthwise_kernel_run(const gg_work *w, const conv_plan *p, const void *part) {
    const size_t nb = gg_conv_w(&p->v).nb_n;
    const patches *const v = &p->product.seen;
    int64_t i0, i1;
    (void)part;
    while (gg_claim_chunk(w, v->c, 1, &i0, &i1))
        for (int64_t c = i0; c < i1; c++)
            if (!depthwise_channel(&p->v, v, c, (float *)((char *)p->dst->data + (size_t)c * nb)))
                return plane_memory(p->dst);
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_depthwise_kernel = {.fits = depthwise_kernel_fits, .run = depthwise_kernel_run};

#endif
