/* Convolutions as products of panels: the matrix driver gathers patches while it packs them. */
#ifndef GG_OPS_CONV_PANELS_H
#define GG_OPS_CONV_PANELS_H
#include "plan.h"

static bool panels_fits(const conv_plan *p, void *part) { return (void)p, (void)part, true; }
static int panels_run(const gg_work *w, const conv_plan *p, const void *part) {
    (void)part;
    return gemm_run(w, &p->product.g, NULL) ? GGML_STATUS_SUCCESS : conv_memory(p->dst);
}

static const gg_algorithm conv_panels = {.fits = panels_fits, .run = panels_run};

#endif
