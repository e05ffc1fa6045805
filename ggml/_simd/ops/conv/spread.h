/* x from w and g in one dimension with few channels: the product of every tap with the data, whose positions are
 * contiguous, so that nothing is gathered. Then the products that belong to one position of the result are added. */
#ifndef GG_OPS_CONV_SPREAD_H
#define GG_OPS_CONV_SPREAD_H
#include "plan.h"

enum {
    SPREAD_N = 64,                  /* most taps of all channels */
    SPREAD_PLACES = 256,            /* positions of a tile */
    SPREAD_EXTENT = 32, SPREAD_ROW = 304,
};

static CONV_ONCE bool spread_fits(const conv_plan *p, void *part) {
    const gg_conv *const v = &p->v;
    const gg_conv_part k = gg_conv_w(v);
    (void)part;
    return v->kind == GG_CONV_1D && k.ne[0] * k.c <= SPREAD_N && (k.ne[0] - 1) * v->d[0] <= SPREAD_EXTENT * v->s[0]
        && v->x->type == GGML_TYPE_F32;
}
static gemm_src spread_source(const gg_kernels *kernels, const ggml_tensor *t, size_t at, size_t nb_i, size_t nb_k) {
    gemm_src s = {.data = (const char *)t->data + at, .type = t->type, .kernels = kernels, .nb_i = nb_i,
                  .nb_k = nb_k};
    gemm_set_pack(&s, false);
    return s;
}
/* Positions o to o + n of a channel of the result; n is a multiple of the stride, or all that is left. products: of
 * each tap with positions l0 to l1 of the data. */
static void spread_sum(const gg_conv *v, const float *products, int64_t l0, int64_t l1, int64_t o, int64_t n, char *y,
                       size_t nb) {
    const int64_t taps = v->w->ne[0], s = v->s[0];
    for (int64_t f = 0; f < gg_min(s, n); f++) {       /* positions that the same taps reach */
        float sum[SPREAD_ROW];
        const int64_t count = (n - f + s - 1) / s;
        memset(sum, 0, (size_t)count * sizeof *sum);
        for (int64_t t = 0; t < taps; t++) {
            const int64_t at = o + f + v->p[0] - t * v->d[0];
            if (at % s) continue;
            const patch_range in = patch_inside(l1 - l0, at / s - l0, 1, count);
            const float *p = products + t * SPREAD_ROW + at / s - l0;
            for (int64_t i = in.lo; i < in.hi; i++) sum[i] += p[i];
        }
        for (int64_t i = 0; i < count; i++) *(float *)(y + (size_t)(f + i * s) * nb) = sum[i];
    }
}
static int spread_run(const gg_work *w, const conv_plan *plan, const void *part) {
    const gg_conv *const v = &plan->v;
    const ggml_tensor *const dst = plan->dst;
    (void)part;
    const gg_conv_part k = gg_conv_w(v), x = gg_conv_x(v), g = gg_conv_g(v);
    const int64_t s = v->s[0], extent = (k.ne[0] - 1) * v->d[0], columns = k.ne[0] * k.c;
    const int64_t each = gg_ceil_div(gg_ceil_div(x.ne[0], s), 16), places = gg_max(32, gg_min(SPREAD_PLACES, each));
    const int64_t tile = places * s, tiles = gg_ceil_div(x.ne[0], tile);
    /* channels whose taps are contiguous */
    const int64_t together = k.nb_c == (size_t)k.ne[0] * k.nb[0] ? k.c : 1;
    gemm p = {.n = together * k.ne[0], .k = g.c, .ne2 = 1, .ne3 = 1, .c_m = sizeof(float),
              .c_n = SPREAD_ROW * sizeof(float)};
    for (int64_t u0, u1; gg_claim_chunk(w, tiles * x.n, 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t image = u / tiles, o = u % tiles * tile, n = gg_min(tile, x.ne[0] - o);
            const int64_t l0 = gg_max(0, (o + v->p[0] - extent) / s),
                l1 = gg_min(g.ne[0], (o + n - 1 + v->p[0]) / s + 1);
            p.m = gg_max(l1 - l0, 0);
            p.a = spread_source(w->kernels, v->g, (size_t)image * g.nb_n + (size_t)l0 * g.nb[0], g.nb[0], g.nb_c);
            const gemm_tiling tiling = gemm_plan(&p, 1, false);
            const int64_t floats = columns * SPREAD_ROW + gemm_scratch_floats(&p, &tiling);
            float *const products = gg_scratch((size_t)floats * sizeof(float));
            if (!products) return conv_memory(dst);
            for (int64_t c = 0; p.m && c < k.c; c += together) {
                p.b = spread_source(w->kernels, v->w, (size_t)c * k.nb_c, k.nb[0], k.nb_n);
                p.c = (char *)(products + c * k.ne[0] * SPREAD_ROW);
                gemm_rows(&p, &tiling, 0, tiling.rows, products + columns * SPREAD_ROW);
            }
            for (int64_t c = 0; c < k.c; c++)
                spread_sum(v, products + c * k.ne[0] * SPREAD_ROW, l0, gg_max(l0, l1), o, n,
                           (char *)dst->data + (size_t)image * x.nb_n + (size_t)c * x.nb_c + (size_t)o * x.nb[0],
                           x.nb[0]);
        }
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_spread = {.fits = spread_fits, .run = spread_run};

#endif
