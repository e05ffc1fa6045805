/* Gradients of kernels that are too small for enough tasks: partial sums, each over a cut of the data. */
#ifndef GG_OPS_CONV_CUTS_H
#define GG_OPS_CONV_CUTS_H
#include "plan.h"

static size_t cuts_work(const conv_plan *p, int64_t cuts) {
    return cuts > 1 ? (size_t)cuts * (size_t)gg_nelements(p->dst) * sizeof(float) : 0;
}
/* Where the partial sums go. */
static char *cuts_place(const gg_work *w, const conv_plan *p, int64_t cuts) {
    return cuts > 1 ? w->wdata : p->dst->data;
}
/* Adds the partial sums of all threads. */
static void cuts_add(const gg_work *w, const conv_plan *p, int64_t cuts) {
    const int64_t size = gg_nelements(p->dst);
    const float *part = w->wdata;
    float *y = p->dst->data;
    if (cuts < 2) return;
    gg_barrier(w);
    for (int64_t i = size * w->ith / w->nth; i < size * (w->ith + 1) / w->nth; i++) {
        float sum = 0;
        for (int64_t j = 0; j < cuts; j++) sum += part[j * size + i];
        y[i] = sum;
    }
}

#endif
