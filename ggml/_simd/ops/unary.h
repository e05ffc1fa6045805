/* The functions of GGML_OP_UNARY, and the operations of their gradients. */
#ifndef GG_OPS_UNARY_H
#define GG_OPS_UNARY_H
#include "elements.h"

/* The builder has made both alphas positive. */
static inline vf gg_xielu_of(vf x, const gg_unary_params *k) {
    const vf beta = vf_set1(k->beta), pos = vf_fma(vf_set1(k->alpha_p), x, beta);
    const vf neg = vf_mul(vf_sub(v_expm1(vf_min(vf_set1(k->eps), x)), x), vf_set1(k->alpha_n));
    return vf_select(vf_gt(x, vf_zero()), vf_mul(pos, x), vf_fma(beta, x, neg));
}
#define gg_xielu(x) gg_xielu_of(x, k)

#define UNARY(id, NAME, fn, derivative, back) GG_TILE_X(unary_##NAME, unary, fn(x))
#include "../tables/unary.h"
#undef UNARY
#undef gg_xielu

/* In place of tile_unary_GELU_ERF: four vectors at a time */
#define tile_unary_GELU_ERF tile_gelu_erf
static void tile_gelu_erf(float *const *p, int64_t n, bool stream, const void *params) {
    int64_t i = 0;
    (void)params;
    for (; i + 4 * VW <= n; i += 4 * VW) {
        vf v[4];
        for (int j = 0; stream && j < 4 * VW; j += 16) prefetch_floats(p[1] + i + j);
        GG_FOUR(j) v[j] = vf_load(p[1] + i + j * VW);
        v_gelu_erf_4(v);
        GG_FOUR(j) gg_put(p[0] + i + j * VW, v[j], stream);
    }
    for (; i < n; i += VW) st(p[0] + i, gg_gelu_erf_one(ld(p[1] + i, n - i)), n - i);
}
GG_TILE_X(half_GELU, none, v_gelu_half(x))
GG_TILE_X(half_GELU_QUICK, none, v_gelu_quick_half(x))

/* NULL: there is no such function. */
static gg_tile_fn unary_tile(const ggml_tensor *t) {
    static const gg_tile_fn tiles[] = {
#define UNARY(id, NAME, fn, derivative, back) [id] = tile_unary_##NAME,
#include "../tables/unary.h"
#undef UNARY
    };
    const int32_t id = unary_params(t)->function;
    return id >= 0 && id < (int32_t)(sizeof tiles / sizeof *tiles) ? tiles[id] : NULL;
}
static gg_row_kernel rows_UNARY(const ggml_tensor *node) { return (gg_row_kernel){.tile = unary_tile(node)}; }
static int op_UNARY(const gg_work *w, ggml_tensor *dst) {
    const int32_t id = unary_params(dst)->function;
    gg_tile_fn fn = unary_tile(dst);
    if (!fn) return gg_fail(dst, "%d is not a unary operation", (int)id);
    if (dst->type == GGML_TYPE_F16 && dst->src[0]->type == GGML_TYPE_F16) {      /* 11 bits of precision are enough */
        if (id == GGML_UNARY_OP_GELU) fn = tile_half_GELU;
        if (id == GGML_UNARY_OP_GELU_QUICK) fn = tile_half_GELU_QUICK;
    }
    return gg_map_sources(w, dst, 1, fn);
}

/* ---- gradients: x is the gradient of the result, z the argument -------------------------------------------------- */
GG_ELEM_2(SILU_BACK, none, v_silu_back(z, x))
GG_ELEM_2(GELU_BACK, none, v_gelu_back(z, x))
GG_ELEM_2(GELU_QUICK_BACK, none, v_gelu_quick_back(z, x))
GG_ELEM_2(GELU_ERF_BACK, none, v_gelu_erf_back(z, x))
GG_ELEM_2(ELU_BACK, none, v_elu_back(z, x))

#endif
