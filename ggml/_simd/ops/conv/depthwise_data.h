/* x from w and g of depthwise convolutions, for each phase of the stride */
#ifndef GG_OPS_CONV_DEPTHWISE_DATA_H
#define GG_OPS_CONV_DEPTHWISE_DATA_H
#include "depthwise.h"

static bool depthwise_data_fits(const conv_plan *p, void *part) { return (void)p, (void)part, true; }
static int depthwise_data_run(const gg_work *w, const conv_plan *p, const void *part) {
    const gg_conv q = p->v;
    const gg_conv_part x = gg_conv_x(&q);
    const int64_t phases = patch_phases(&q);
    int64_t i0, i1;
    (void)part;
    while (gg_claim_chunk(w, x.c * x.n * phases, phases, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const int64_t c = i / phases % x.c, n = i / phases / x.c;
            int64_t first[3], tap[3], step[3];
            patch_phase(&q, i % phases, first);
            const patches v = patches_of_g(&q, first, tap, step);
            char *out = (char *)p->dst->data + (size_t)c * x.nb_c;
            out += (size_t)first[0] * x.nb[0] + (size_t)first[1] * x.nb[1];
            depthwise d;
            if (!depthwise_prepare(&q, &v, tap, step, q.g->type, plane_plan(&v, 1, 1), &d)) return plane_memory(p->dst);
            depthwise_plane(&q, &v, q.g, &d, c, n, 0, v.ax[1].out, out);
        }
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_depthwise_data = {.fits = depthwise_data_fits, .run = depthwise_data_run};

#endif
