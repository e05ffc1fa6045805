/* Convolutions and columns. The algorithms of convolutions are in conv/, their order is that of tables/conv.h. A matrix
 * of patches is only stored if it is the result (IM2COL). runtime/geometry.h defines the geometry. */
#ifndef GG_OPS_CONV_H
#define GG_OPS_CONV_H
#include "conv/apart.h"
#include "conv/channels.h"
#include "conv/columns.h"
#include "conv/correlate.h"
#include "conv/correlate_panels.h"
#include "conv/depthwise.h"
#include "conv/depthwise_data.h"
#include "conv/depthwise_kernel.h"
#include "conv/depthwise_lanes.h"
#include "conv/direct.h"
#include "conv/panels.h"
#include "conv/phases.h"
#include "conv/shifted.h"
#include "conv/spread.h"
#include "conv/winograd.h"
#include "conv/winograd_line.h"

static const struct { const char *name; int computes; } conv_rows[] = {
#define ALGORITHM(name, computes, family) {#name, computes},
#include "../tables/conv.h"
#undef ALGORITHM
};

/* What a node computes. */
static int conv_computes(const ggml_tensor *dst, const gg_conv *v) {
    const int what = v->g == dst ? RESULT : v->x == dst ? DATA : KERNEL;
    return gg_conv_is_depthwise(v->kind) ? what * DEPTHWISE_RESULT : what;
}
static void conv_describe(conv_plan *p, const gg_kernels *k, ggml_tensor *dst, int threads) {
    const gg_conv v = gg_conv_of(dst);
    *p = (conv_plan){.kernels = k, .dst = dst, .threads = threads, .v = v, .phases = 1};
    p->computes = conv_computes(dst, &v);
    if (p->computes == RESULT) conv_result(k, &v, dst, &p->product);
    if (p->computes == DATA) p->phases = patch_phases(&v), conv_phase(k, &v, 0, dst->data, &p->product);
    if (p->computes == KERNEL) conv_kernel_gradient(k, &v, dst, &p->product);
    if (p->computes & (DEPTHWISE_RESULT | DEPTHWISE_KERNEL)) p->product.seen = patches_of_x(&v);
    if (p->computes == DEPTHWISE_RESULT && dst->op == GGML_OP_CONV_2D_DW) p->product.seen.tail = conv_tail_of(dst);
}
/* The first algorithm that fits: all values, or those of the node. The last row fits. */
static int conv_choose(const conv_plan *p, bool all_values, void *part) {
    for (int i = 0; i < GG_ALGORITHMS; i++) {
        const gg_algorithm *const a = p->kernels->algorithms[i];
        if (conv_rows[i].computes & p->computes && !(all_values && a->by_values) && a->fits(p, part)) return i;
    }
    return GG_ALGORITHMS - 1;
}
static size_t conv_work(const conv_plan *p, const gg_algorithm *a, const void *part) {
    return a->work ? a->work(p, part) : 0;
}
static gg_node_plan *conv_plan_make(const gg_kernels *k, ggml_tensor *dst, int nth) {
    const size_t head = (sizeof(conv_plan) + 63) / 64 * 64;
    size_t bytes = 0;                                   /* of the largest part */
    for (int i = 0; i < GG_ALGORITHMS; i++)
        if (k->algorithms[i]->bytes > bytes) bytes = (k->algorithms[i]->bytes + 63) / 64 * 64;
    char *const memory = gg_plan_memory(head + 2 * bytes);
    if (!memory) return NULL;
    conv_plan *const p = (conv_plan *)memory;
    conv_describe(p, k, dst, nth);
    p->part = memory + head, p->otherwise_part = memory + head + bytes;
    const int chosen = conv_choose(p, false, p->part);
    p->algorithm = k->algorithms[chosen], p->node.algorithm = conv_rows[chosen].name;
    p->node.work = conv_work(p, p->algorithm, p->part);
    if (p->algorithm->by_values) {
        p->otherwise = k->algorithms[conv_choose(p, true, p->otherwise_part)];
        const size_t work = conv_work(p, p->otherwise, p->otherwise_part);
        if (work > p->node.work) p->node.work = work;
    }
    return &p->node;
}
static int conv_run(const gg_work *w, ggml_tensor *dst) {
    const conv_plan *const p = (const conv_plan *)w->plan;
    (void)dst;
    return p->algorithm->run(w, p, p->part);
}

#define CONV(NAME)                                                                              \
    static gg_node_plan *plan_##NAME(const gg_kernels *k, ggml_tensor *dst, int nth) {          \
        return conv_plan_make(k, dst, nth);                                                     \
    }                                                                                           \
    static int op_##NAME(const gg_work *w, ggml_tensor *dst) { return conv_run(w, dst); }
CONV(CONV_2D)
CONV(CONV_2D_DW)
CONV(CONV_3D)
CONV(CONV_TRANSPOSE_1D)
CONV(CONV_TRANSPOSE_2D)
CONV(CONV_BACK_DATA)
CONV(CONV_BACK_KERNEL)
#undef CONV

static int op_IM2COL(const gg_work *w, ggml_tensor *dst) { return columns_write(w, dst); }
static int op_IM2COL_3D(const gg_work *w, ggml_tensor *dst) { return columns_write(w, dst); }
static int op_IM2COL_BACK(const gg_work *w, ggml_tensor *dst) { return columns_back(w, dst); }
static int op_IM2COL_3D_BACK(const gg_work *w, ggml_tensor *dst) { return columns_back(w, dst); }
static int op_COL2IM_1D(const gg_work *w, ggml_tensor *dst) { return columns_back(w, dst); }

#endif
