/* Gradients of kernels as products of panels: taps times channels of the gradient, summed over positions. */
#ifndef GG_OPS_CONV_CORRELATE_PANELS_H
#define GG_OPS_CONV_CORRELATE_PANELS_H
#include "cuts.h"

/* The product of a cut of the images, as a batch. */
typedef struct correlate_panels { conv_product product; int64_t cuts; } correlate_panels;

/* The number of partial sums, each over some of the images: a divisor of their number. It is more than 1 if the kernel
 * is too small for enough tasks. Neither it nor the result depends on the number of threads. */
static int64_t correlate_images(const gg_conv *v) {
    const gg_conv_part k = gg_conv_w(v), g = gg_conv_g(v);
    const int64_t tiles = gg_ceil_div(k.ne[0] * k.ne[1] * k.ne[2] * k.c, 32) * gg_ceil_div(k.n, 14);
    const int64_t want = gg_min(g.n, gg_ceil_div(16, gg_max(tiles, 1)));
    int64_t n = gg_max(want, 1);
    while (n < g.n && g.n % n) n++;
    return n;
}

static bool correlate_panels_fits(const conv_plan *p, void *part) {
    correlate_panels *const r = part;
    const gg_conv_part x = gg_conv_x(&p->v), g = gg_conv_g(&p->v);
    conv_kernel_gradient(p->kernels, &p->v, p->dst, &r->product);
    patches *const seen = &r->product.seen, *const other = &r->product.other;
    gemm *const product = &r->product.g;
    r->cuts = correlate_images(&p->v);
    seen->n = other->n = g.n / r->cuts;
    product->k = patches_places(seen) * seen->n, product->ne2 = r->cuts;
    product->a.nb2 = (size_t)seen->n * x.nb_n, product->b.nb2 = (size_t)seen->n * g.nb_n;
    return true;
}
static size_t correlate_panels_work(const conv_plan *p, const void *part) {
    return cuts_work(p, ((const correlate_panels *)part)->cuts);
}
static int correlate_panels_run(const gg_work *w, const conv_plan *p, const void *part) {
    const correlate_panels *const r = part;
    gemm g = r->product.g;
    g.c = cuts_place(w, p, r->cuts);
    const bool ok = gemm_run(w, &g, NULL);
    cuts_add(w, p, r->cuts);
    return ok ? GGML_STATUS_SUCCESS : conv_memory(p->dst);
}

static const gg_algorithm conv_correlate_panels = {
    .bytes = sizeof(correlate_panels), .fits = correlate_panels_fits, .work = correlate_panels_work,
    .run = correlate_panels_run,
};

#endif
