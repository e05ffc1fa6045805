/* x from w and g in two dimensions where windows do not overlap, because the stride is the size of the kernel: every
 * product of a tap with the data is an element of the result. */
#ifndef GG_OPS_CONV_APART_H
#define GG_OPS_CONV_APART_H
#include "spread.h"

static CONV_ONCE bool apart_fits(const conv_plan *p, void *part) {
    const gg_conv *const v = &p->v;
    (void)part;
    const gg_conv_part k = gg_conv_w(v), x = gg_conv_x(v), g = gg_conv_g(v);
    if (v->kind != GG_CONV_2D || v->x->type != GGML_TYPE_F32 || g.nb[1] != (size_t)g.ne[0] * g.nb[0]) return false;
    for (int i = 0; i < 2; i++)
        if (v->s[i] != k.ne[i] || v->p[i] || v->d[i] != 1 || x.ne[i] != g.ne[i] * k.ne[i]) return false;
    return k.nb[1] == (size_t)k.ne[0] * k.nb[0] && k.nb_c == (size_t)k.ne[1] * k.nb[1];
}
/* Stores n products of each tap with positions from `first` on; `image` is the result for the image. */
static void apart_store(const gg_conv *v, const float *products, int64_t first, int64_t n, char *image) {
    const gg_conv_part k = gg_conv_w(v), x = gg_conv_x(v);
    const int64_t across = gg_conv_g(v).ne[0], s = k.ne[0];
    for (int64_t i = 0, m; i < n; i += m) {
        const int64_t row = (first + i) / across, column = (first + i) % across;
        m = gg_min(n - i, across - column);
        const float *p = products + i;
        for (int64_t j = 0; j < k.c * k.ne[1]; j++, p += s * SPREAD_PLACES) {
            const int64_t line = row * k.ne[1] + j % k.ne[1];
            float *y = (float *)(image + (size_t)(j / k.ne[1]) * x.nb_c + (size_t)line * x.nb[1]) + column * s;
            if (s == 2)
                for (int64_t l = 0; l < m; l++) y[2 * l] = p[l], y[2 * l + 1] = p[SPREAD_PLACES + l];
            else for (int64_t t = 0; t < s; t++)
                for (int64_t l = 0; l < m; l++) y[l * s + t] = p[t * SPREAD_PLACES + l];
        }
    }
}
static int apart_run(const gg_work *w, const conv_plan *plan, const void *part) {
    const gg_conv *const v = &plan->v;
    const ggml_tensor *const dst = plan->dst;
    (void)part;
    const gg_conv_part k = gg_conv_w(v), x = gg_conv_x(v), g = gg_conv_g(v);
    const int64_t places = g.ne[0] * g.ne[1], tiles = gg_ceil_div(places, SPREAD_PLACES);
    gemm p = {.n = k.ne[0] * k.ne[1] * k.c, .k = g.c, .ne2 = 1, .ne3 = 1, .c_m = sizeof(float),
              .c_n = SPREAD_PLACES * sizeof(float), .b = spread_source(w->kernels, v->w, 0, k.nb[0], k.nb_n)};
    for (int64_t u0, u1; gg_claim_chunk(w, tiles * x.n, 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t image = u / tiles, first = u % tiles * SPREAD_PLACES;
            p.m = gg_min(places - first, SPREAD_PLACES);
            p.a = spread_source(w->kernels, v->g, (size_t)image * g.nb_n + (size_t)first * g.nb[0], g.nb[0], g.nb_c);
            const gemm_tiling tiling = gemm_plan(&p, 1, false);
            const int64_t floats = p.n * SPREAD_PLACES + gemm_scratch_floats(&p, &tiling);
            float *const products = gg_scratch((size_t)floats * sizeof(float));
            if (!products) return conv_memory(dst);
            p.c = (char *)products;
            gemm_rows(&p, &tiling, 0, tiling.rows, products + p.n * SPREAD_PLACES);
            apart_store(v, products, first, p.m, (char *)dst->data + (size_t)image * x.nb_n);
        }
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_apart = {.fits = apart_fits, .run = apart_run};

#endif
