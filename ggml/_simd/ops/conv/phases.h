/* x from w and g with a stride: one product for each phase of the stride. The phases write interleaved positions. A
 * thread computes contiguous positions of all phases, because packing the kernel is expensive. */
#ifndef GG_OPS_CONV_PHASES_H
#define GG_OPS_CONV_PHASES_H
#include "plan.h"

static bool phases_fits(const conv_plan *p, void *part) { return (void)part, p->phases > 1; }
static int phases_run(const gg_work *w, const conv_plan *p, const void *part) {
    const int64_t panels = gg_ceil_div(p->product.g.m, MR);
    (void)part;
    for (int64_t r0, r1; gg_claim_chunk(w, panels, gg_ceil_div(panels, w->nth), &r0, &r1);)
        for (int64_t i = 0; i < p->phases; i++) {
            conv_product q;
            conv_phase(p->kernels, &p->v, i, p->dst->data, &q);
            const gemm_tiling tiling = gemm_plan(&q.g, 1, false);
            float *const room = gg_scratch((size_t)gemm_scratch_floats(&q.g, &tiling) * sizeof(float));
            if (!room) return conv_memory(p->dst);
            if (r0 < tiling.rows) gemm_rows(&q.g, &tiling, r0, gg_min(r1, tiling.rows), room);
        }
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_phases = {.fits = phases_fits, .run = phases_run};

#endif
