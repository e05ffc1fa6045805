/* The plan of a convolution: what is decided once, when the plan of a call is made, and what all threads read. It
 * describes the convolution as a matrix product whose operands are gathered while they are packed, which is what
 * algorithms look at when they decide whether they fit. */
#ifndef GG_OPS_CONV_PLAN_H
#define GG_OPS_CONV_PLAN_H
#include "patches.h"

/* A function that is called once for a plan: its code is small rather than fast. */
#define CONV_ONCE __attribute__((cold))

/* What a node computes, and what a row of tables/conv.h can compute */
enum {
    RESULT = 1, DATA = 2, KERNEL = 4, DEPTHWISE_RESULT = 8, DEPTHWISE_DATA = 16, DEPTHWISE_KERNEL = 32,
};

/* Patches `seen` times `other`: a kernel, or the gradient that the gradient of a kernel is made of. Its sources point
 * to both, so it is not copied. */
typedef struct conv_product { patches seen, other; gemm g; } conv_product;

typedef struct conv_plan {
    gg_node_plan node;
    const gg_algorithm *algorithm;
    const gg_algorithm *otherwise;  /* computes the node if its values do not suit the algorithm; NULL: all do */
    void *part, *otherwise_part;    /* of the plan, of these algorithms */
    const gg_kernels *kernels;
    const ggml_tensor *dst;
    int threads;                    /* that compute the node, or fewer */
    int computes;                   /* RESULT, ... */
    gg_conv v;
    int64_t phases;                 /* of the stride, where DATA are computed; else 1 */
    conv_product product;           /* of DATA, that of the first phase, which has most positions. Of depthwise
                                     * convolutions there are only the patches of RESULT and KERNEL. */
} conv_plan;

static int conv_memory(const ggml_tensor *dst) { return gg_no_memory(dst, "no memory for panels"); }
/* Computes the node by another algorithm, after all threads found that its values do not suit this one. */
static inline int conv_otherwise(const gg_work *w, const conv_plan *p) {
    return p->otherwise->run(w, p, p->otherwise_part);
}

static size_t conv_at(const gemm *g, int64_t i, int64_t j) {
    return patch_target(g->a.context, i) + (size_t)j * g->c_n;
}
/* The kernel as the second operand: its vectors are output channels (input channels for the gradient), k runs over the
 * taps of the other channels. Only the taps first[], first[] + step[] ... are used. */
static patches conv_kernel(const gg_conv *v, bool back, const int64_t taps[3], const int64_t first[3],
                           const int64_t step[3]) {
    gg_conv_part w = gg_conv_w(v);
    const int64_t ic = w.c;
    const size_t nb_ic = w.nb_c;
    if (!back) w.c = w.n, w.n = ic, w.nb_c = w.nb_n, w.nb_n = nb_ic;
    patches r = patches_plain(&w);
    for (int i = 0; i < 3; i++) r.ax[i].out = taps[i], r.ax[i].base = first[i], r.ax[i].stride = step[i];
    return r;
}
/* Packs a kernel of bytes as floats, with what is added to it. */
static void pack_taps_more(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    const vf more = vf_set1((float)((const patches *)s->context)->more);
    pack_taps(s, i0, n, k0, kn, out, width);
    for (int64_t i = 0; i < (int64_t)kn * width; i += VW) vf_store(out + i, vf_add(vf_load(out + i), more));
}
static gemm_src conv_kernel_source(const gg_kernels *k, const gg_conv *v, const patches *kernel) {
    gemm_src s = patch_source(k, v->w->data, v->w->type, kernel, pack_taps);
    if (s.type == GGML_TYPE_I8) return s.pack = pack_taps_more, s;
    size_t next = (size_t)gg_types[s.type].bytes;     /* are the taps, then the channels, contiguous? */
    for (int i = 0; i < 4; i++) {
        const patch_axis *ax = &kernel->ax[i < 3 ? i : 0];
        const int64_t n = i < 3 ? ax->out : kernel->n;
        if (n > 1 && ((i < 3 ? kernel->nb[i] : kernel->nb_n) != next || (i < 3 && ax->stride != 1))) return s;
        next *= (size_t)(i < 3 ? ax->in : n);
        if (i < 3 && ax->out != ax->in) return s;
    }
    s.nb_i = kernel->nb_c, s.nb_k = (size_t)gg_types[s.type].bytes, s.pack = pack_along_k;
    return s;
}
/* Applies the tail to m positions of channels j .. j+n-1: to all, or row by row where another tensor is added. */
static void conv_finish_tile(const gemm *g, int64_t i, int64_t m, int64_t j, int64_t n, float *tile, int64_t ldc) {
    const patches *const v = g->a.context;
    for (int64_t few; m > 0; m -= few, i += few, tile += few) {
        few = v->tail.added ? gg_min(m, v->ax[0].out - i % v->ax[0].out) : m;
        conv_finish_for(&v->tail, j, g->c + conv_at(g, i, j), tile, ldc, n, few);
    }
}
/* Positions of all images times channels of the result: the product of the patches with the kernel. */
static void conv_multiply(const gg_kernels *k, const gg_conv *v, const ggml_tensor *data, char *out, size_t nb_c,
                          conv_product *p) {
    const patches *const seen = &p->seen;
    p->g = (gemm){.m = patches_places(seen) * seen->n, .n = p->other.c, .k = patches_taps(seen) * seen->c,
                  .ne2 = 1, .ne3 = 1, .a = patch_source(k, data->data, data->type, seen, pack_places),
                  .b = conv_kernel_source(k, v, &p->other), .c = out, .c_n = nb_c, .c_at = conv_at,
                  .finish = seen->tail.finish ? conv_finish_tile : NULL};
}
/* g from w and x */
static CONV_ONCE void conv_result(const gg_kernels *k, const gg_conv *v, const ggml_tensor *dst, conv_product *p) {
    const int64_t first[3] = {0, 0, 0}, step[3] = {1, 1, 1};
    p->other = conv_kernel(v, false, gg_conv_w(v).ne, first, step), p->seen = patches_of_x(v);
    if (dst->op == GGML_OP_CONV_2D) p->seen.tail = conv_tail_of(dst), p->other.more = conv_2d_params(dst)->offset;
    conv_multiply(k, v, v->x, dst->data, gg_conv_g(v).nb_c, p);
}
/* x from w and g, phase i of the stride. The phases write interleaved positions; out: the first position of x. */
static void conv_phase(const gg_kernels *k, const gg_conv *v, int64_t i, char *out, conv_product *p) {
    const gg_conv_part x = gg_conv_x(v);
    int64_t first[3], tap[3], step[3], taps[3];
    patch_phase(v, i, first);
    p->seen = patches_of_g(v, first, tap, step);
    for (int d = 0; d < 3; d++) {
        taps[d] = p->seen.ax[d].taps;
        if (first[d]) out += (size_t)first[d] * x.nb[d];
    }
    p->other = conv_kernel(v, true, taps, tap, step);
    conv_multiply(k, v, v->g, out, x.nb_c, p);
}
/* w from x and g, over the positions of all images */
static CONV_ONCE void conv_kernel_gradient(const gg_kernels *k, const gg_conv *v, const ggml_tensor *dst,
                                           conv_product *p) {
    const gg_conv_part w = gg_conv_w(v), g = gg_conv_g(v);
    p->seen = patches_of_x(v), p->other = patches_plain(&g);
    const int64_t taps = patches_taps(&p->seen) * p->seen.c;
    p->g = (gemm){.m = taps, .n = g.c, .k = taps /* which direct.h counts along k */, .ne2 = 1, .ne3 = 1,
                  .a = patch_source(k, v->x->data, v->x->type, &p->seen, pack_taps),
                  .b = patch_source(k, v->g->data, v->g->type, &p->other, pack_taps),
                  .c = dst->data, .c_m = sizeof(float), .c_n = w.nb_n,
                  .c_2 = (size_t)gg_nelements(dst) * sizeof(float)};
}

#endif
