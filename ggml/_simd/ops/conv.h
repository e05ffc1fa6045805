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
static CONV_ONCE void conv_describe(conv_plan *p, const gg_kernels *k, ggml_tensor *dst, int threads) {
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
static size_t conv_whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }
/* Bytes of the largest part of a plan. */
static size_t conv_part_bytes(const gg_kernels *k) {
    size_t bytes = 0;
    for (int i = 0; i < GG_ALGORITHMS; i++) bytes = gg_max(bytes, k->algorithms[i]->bytes);
    return conv_whole_lines(bytes);
}
/* Fills in a plan; parts: room for two of them. */
static CONV_ONCE void conv_plan_fill(conv_plan *p, char *parts, const gg_kernels *k, ggml_tensor *dst, int nth) {
    conv_describe(p, k, dst, nth);
    p->part = parts, p->otherwise_part = parts + conv_part_bytes(k);
    const int chosen = conv_choose(p, false, p->part);
    p->algorithm = k->algorithms[chosen], p->node.algorithm = conv_rows[chosen].name;
    p->node.work = conv_work(p, p->algorithm, p->part);
    if (p->algorithm->by_values) {
        p->otherwise = k->algorithms[conv_choose(p, true, p->otherwise_part)];
        const size_t work = conv_work(p, p->otherwise, p->otherwise_part);
        if (work > p->node.work) p->node.work = work;
    }
}

/* Groups of channels: each is a convolution by one thread, of parts of the operands and of the result. */
enum { CONV_SOURCES = 5 };          /* kernel, images, bias, what is added, slopes */
typedef struct conv_group { conv_plan plan; ggml_tensor dst, src[CONV_SOURCES]; } conv_group;
typedef struct conv_groups {
    gg_node_plan node;
    int64_t n;
    size_t each, work;              /* bytes of a group's plan; of work memory for each thread */
} conv_groups;

static conv_group *conv_group_at(const conv_groups *q, int64_t i) {
    return (conv_group *)((char *)q + conv_whole_lines(sizeof *q) + (size_t)i * q->each);
}
/* Part i of n of a tensor, divided along a dimension. */
static ggml_tensor conv_group_part(const ggml_tensor *t, int dim, int64_t n, int64_t i) {
    ggml_tensor part = *t;
    part.ne[dim] /= n;
    if (part.data) part.data = (char *)part.data + (size_t)(i * part.ne[dim]) * part.nb[dim];
    return part;
}
static CONV_ONCE void conv_group_make(conv_group *g, const gg_kernels *k, const ggml_tensor *dst, int64_t n,
                                      int64_t i) {
    const int channels = conv_2d_params(dst)->is_1d ? 1 : 2;
    g->dst = conv_group_part(dst, channels, n, i);
    conv_2d_params(&g->dst)->groups = 1;
    for (int s = 0; s < CONV_SOURCES; s++) {
        const ggml_tensor *const t = dst->src[s];
        if (!t) continue;
        const bool row = s >= 2 && t->ne[channels] != dst->ne[channels];    /* a bias is one, or has channels */
        g->src[s] = conv_group_part(t, s == 0 ? channels + 1 : row ? 0 : channels, n, i);
        g->dst.src[s] = &g->src[s];
    }
    conv_plan_fill(&g->plan, (char *)g + conv_whole_lines(sizeof *g), k, &g->dst, 1);
}
static CONV_ONCE gg_node_plan *conv_groups_make(const gg_kernels *k, const ggml_tensor *dst, int nth) {
    const size_t each = conv_whole_lines(sizeof(conv_group)) + 2 * conv_part_bytes(k);
    const int64_t n = gg_conv_groups(dst);
    size_t bytes;
    if (__builtin_mul_overflow((size_t)n, each, &bytes)) return NULL;
    conv_groups *const q = gg_plan_memory(conv_whole_lines(sizeof *q) + bytes);
    if (!q) return NULL;
    *q = (conv_groups){.n = n, .each = each};
    for (int64_t i = 0; i < n; i++) {
        conv_group *const g = conv_group_at(q, i);
        conv_group_make(g, k, dst, n, i);
        q->work = gg_max(q->work, conv_whole_lines(g->plan.node.work));
    }
    q->node.algorithm = conv_group_at(q, 0)->plan.node.algorithm, q->node.work = (size_t)nth * q->work;
    return &q->node;
}
static int conv_groups_run(const gg_work *w) {
    const conv_groups *const q = (const conv_groups *)w->plan;
    for (int64_t i, end; gg_claim_chunk(w, q->n, 1, &i, &end);)
        for (; i < end; i++) {
            const conv_plan *const p = &conv_group_at(q, i)->plan;
            _Atomic int64_t chunk = 0;
            gg_work one = *w;
            one.plan = &p->node, one.chunk = &chunk, one.wdata = (char *)w->wdata + (size_t)w->ith * q->work;
            one.ith = 0, one.nth = 1, one.wsize = q->work, one.chain = NULL;
            const int status = p->algorithm->run(&one, p, p->part);
            if (status != GGML_STATUS_SUCCESS) return status;
        }
    return GGML_STATUS_SUCCESS;
}

static CONV_ONCE gg_node_plan *conv_plan_make(const gg_kernels *k, ggml_tensor *dst, int nth) {
    if (gg_conv_groups(dst) > 1) return conv_groups_make(k, dst, nth);
    const size_t head = conv_whole_lines(sizeof(conv_plan));
    char *const memory = gg_plan_memory(head + 2 * conv_part_bytes(k));
    if (!memory) return NULL;
    conv_plan_fill((conv_plan *)memory, memory + head, k, dst, nth);
    return &((conv_plan *)memory)->node;
}
static int conv_run(const gg_work *w, ggml_tensor *dst) {
    const conv_plan *const p = (const conv_plan *)w->plan;
    if (gg_conv_groups(dst) > 1) return conv_groups_run(w);
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
