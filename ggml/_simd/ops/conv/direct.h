/* Convolutions without packed panels: gathering them costs much of the time of the product if there are few output
 * channels. Some rows of an image are copied with their padding, and positions are counted through the padded rows, so
 * that the elements that a tap reads for neighbouring positions are contiguous. With a stride, every remainder of rows
 * and of columns modulo the stride is a plane of its own. Positions in the padding are computed and dropped. */
#ifndef GG_OPS_CONV_DIRECT_H
#define GG_OPS_CONV_DIRECT_H
#include "plan.h"

enum {
    DIRECT_K = 1 << 12,             /* most taps of all channels */
    DIRECT_FLOATS = 1 << 17,        /* of the copy, and */
    DIRECT_KERNEL = 1 << 17,        /* of the kernel, so that both stay in the L2 cache */
    DIRECT_DEPTH = 128,             /* taps whose elements stay in the L1 cache for all channels */
    DIRECT_WASTE = 12,              /* positions in the padding, times channels, that cost less than gathering */
};

typedef struct direct {
    int64_t low[2], width, height;  /* the first element that output 0 reads; a plane of the copy */
    int64_t planes;                 /* of a channel */
    int64_t rows, strips;           /* rows of outputs that a copy is for; copies of an image */
    int64_t panels;                 /* of a strip, from the first position to the last, padding included */
    int64_t groups;                 /* of columns of the kernel, each a panel */
} direct;

/* False: a product of panels is faster, or is the only way. */
static bool direct_plan(const patches *v, const gemm *g, direct *d) {
    const patch_axis *ax = v->ax;
    if (g->k < 1 || g->k > DIRECT_K || g->n < 1 || v->to[0] != sizeof(float)) return false;
    if (ax[0].out < 1 || ax[1].out < 1 || ax[2].out != 1 || ax[2].taps != 1 || ax[2].base) return false;
    const int64_t halo = patch_extent(&ax[1]) / ax[1].stride;
    d->width = ax[0].out + patch_extent(&ax[0]) / ax[0].stride, d->planes = ax[0].stride * ax[1].stride;
    d->groups = gg_ceil_div(g->n, NR);
    if (2 * d->width > 3 * ax[0].out || g->n > DIRECT_WASTE * ax[0].out
        || (d->width - ax[0].out) * g->n > DIRECT_WASTE * ax[0].out || g->k * d->groups * NR_PAD > DIRECT_KERNEL)
        return false;
    if (d->planes > DIRECT_FLOATS || d->width > DIRECT_FLOATS / d->planes / v->c) return false;
    d->rows = gg_min(ax[1].out, DIRECT_FLOATS / d->planes / v->c / d->width - halo);
    if (d->rows < gg_min(ax[1].out, 1 + halo)) return false;
    d->strips = gg_ceil_div(ax[1].out, d->rows), d->rows = gg_ceil_div(ax[1].out, d->strips);
    d->height = d->rows + halo;
    for (int i = 0; i < 2; i++) d->low[i] = ax[i].base - (ax[i].dilation < 0 ? patch_extent(&ax[i]) : 0);
    d->panels = gg_ceil_div((d->rows - 1) * d->width + ax[0].out, MR);
    return true;
}

/* The tile of gemm/tile.h over a copy: row k of a begins at x + at[k]. */
GG_INLINE void direct_tile(const int n, int64_t k, const int32_t *at, const float *x, const float *b, float *out,
                           bool add) {
    vf sum[NR][MV];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < MV; i++) sum[j][i] = add ? vf_load(out + j * MR + i * VW) : vf_zero();
    for (; k > 0; k--, at++, b += NR_PAD) {
        vf a[MV];
        GG_UNROLL for (int i = 0; i < MV; i++) a[i] = vf_load(x + *at + i * VW);
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vf y = vf_set1_at(b, j);
            GG_UNROLL for (int i = 0; i < MV; i++) sum[j][i] = vf_fma(a[i], y, sum[j][i]);
        }
    }
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < MV; i++) vf_store(out + j * MR + i * VW, sum[j][i]);
}
#define DIRECT(n, v) \
    static void direct_##n(int64_t k, const int32_t *at, const float *x, const float *b, float *out, bool add) { \
        direct_tile(n < NR ? n : NR, k, at, x, b, out, add); \
    }
MICRO_SIZES(DIRECT, 2)
#undef DIRECT
#define DIRECT(n, v) [n] = n <= NR ? direct_##n : NULL,
static void (*const direct_table[])(int64_t, const int32_t *, const float *, const float *, float *, bool) = {
    MICRO_SIZES(DIRECT, 2)
};
#undef DIRECT

/* Where the elements that tap k of all channels reads begin in a copy, whose planes have `plane` floats. */
static int32_t direct_offset(const patches *v, const direct *d, int64_t plane, int64_t k) {
    int64_t t[3], c;
    patch_tap(v, k, t, &c);
    for (int i = 0; i < 2; i++) t[i] = t[i] * v->ax[i].dilation + v->ax[i].base - d->low[i];
    const int64_t s0 = v->ax[0].stride, s1 = v->ax[1].stride, which = t[1] % s1 * s0 + t[0] % s0;
    return (int32_t)((c * d->planes + which) * plane + t[1] / s1 * d->width + t[0] / s0);
}
static void direct_load(const patches *v, const gemm *g, const direct *d, int64_t image, int64_t strip, float *x) {
    const patch_axis *ax = v->ax;
    for (int64_t c = 0; c < v->c; c++)
        for (int64_t plane = 0; plane < d->planes; plane++)
            for (int64_t r = 0; r < d->height; r++, x += d->width) {
                const int64_t y = d->low[1] + (strip * d->rows + r) * ax[1].stride + plane / ax[0].stride;
                const int64_t in = y >= 0 && y < ax[1].in ? ax[0].in : 0;
                const char *row = g->a.data + (size_t)image * v->nb_n + (size_t)c * v->nb_c;
                if (in) row += (size_t)y * v->nb[1];
                patch_row(g->a.type, row, v->nb[0], in, in ? d->low[0] + plane % ax[0].stride : 0, ax[0].stride,
                          d->width, 0, x);
            }
}
/* Stores columns j0 to j0+n of the positions of a strip from f on, except those in the padding. */
static void direct_store(const patches *v, const gemm *g, const direct *d, char *strip, int64_t rows, int64_t f,
                         int64_t j0, int64_t n, float *tile) {
    if (!v->tail.added) conv_finish(&v->tail, j0, tile, MR, n, MR);
    const int64_t end = gg_min(f + MR, (rows - 1) * d->width + v->ax[0].out);
    for (int64_t i = f, m; i < end; i += m) {
        const int64_t y = i / d->width, x = i % d->width;
        m = gg_min(end - i, (x < v->ax[0].out ? v->ax[0].out : d->width) - x);
        if (x >= v->ax[0].out) continue;
        char *to = strip + (size_t)y * v->to[1] + (size_t)x * sizeof(float);
        if (v->tail.added) conv_finish_for(&v->tail, j0, to + (size_t)j0 * g->c_n, tile + (i - f), MR, n, m);
        for (int64_t j = 0; j < n; j++)
            patch_lanes(tile + j * MR + (i - f), m, (float *)(to + (size_t)(j0 + j) * g->c_n));
    }
}

static CONV_ONCE bool direct_fits(const conv_plan *p, void *part) {
    return direct_plan(&p->product.seen, &p->product.g, part);
}
/* Computes what gemm_run would. */
static int direct_run(const gg_work *w, const conv_plan *plan, const void *part) {
    const patches *const v = &plan->product.seen;
    const gemm *const g = &plan->product.g;
    const direct *const d = part;
    const int64_t each = gg_ceil_div(g->n, d->groups), panel = g->k * NR_PAD;
    /* the last lanes of the last panel read beyond the copy */
    const int64_t plane = d->height * d->width, size = gg_ceil_div(v->c * d->planes * plane + MR, VW) * VW;
    float *const x = gg_scratch((size_t)(size + d->groups * panel + d->groups * NR * MR + g->k) * sizeof *x);
    if (!x) return conv_memory(plan->dst);
    float *const b = x + size, *const tiles = b + d->groups * panel;
    int32_t *const at = (int32_t *)(tiles + d->groups * NR * MR);
    memset(x + size - MR - VW, 0, (MR + VW) * sizeof *x);
    for (int64_t k = 0; k < g->k; k++) at[k] = direct_offset(v, d, plane, k);
    for (int64_t p = 0; p < d->groups; p++)
        for (int64_t k = 0; k < g->k; k += KC)
            g->b.pack(&g->b, p * each, (int)gg_min(each, g->n - p * each), k, (int)gg_min(g->k - k, KC),
                      b + p * panel + k * NR_PAD, NR_PAD);
    int64_t have = -1;
    const int64_t units = v->n * d->strips * d->panels;
    for (int64_t u0, u1; gg_claim_chunk(w, units, GEMM_MIN_TASK / (MR * g->k * g->n) + 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t image = u / d->panels / d->strips, strip = u / d->panels % d->strips, f = u % d->panels * MR;
            const int64_t first = strip * d->rows, rows = gg_min(d->rows, v->ax[1].out - first);
            if (u / d->panels != have) direct_load(v, g, d, image, strip, x), have = u / d->panels;
            for (int64_t k = 0; k < g->k; k += DIRECT_DEPTH)
                for (int64_t p = 0; p < d->groups; p++)
                    direct_table[gg_min(each, g->n - p * each)](gg_min(g->k - k, DIRECT_DEPTH), at + k, x + f,
                                                                b + p * panel + k * NR_PAD, tiles + p * NR * MR, k > 0);
            for (int64_t p = 0; p < d->groups; p++)
                direct_store(v, g, d, g->c + (size_t)image * v->to_n + (size_t)first * v->to[1], rows, f, p * each,
                             gg_min(each, g->n - p * each), tiles + p * NR * MR);
        }
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_direct = {.bytes = sizeof(direct), .fits = direct_fits, .run = direct_run};

#endif
