/* GLU: act(a) * b of two tensors, or of the halves of each row of one. */
#ifndef GG_OPS_GLU_H
#define GG_OPS_GLU_H
#include "rows.h"

static inline vf swiglu_oai(vf x, vf g, float alpha, float limit) {
    x = vf_min(vf_set1(limit), x);
    const vf silu = vf_mul(x, v_sigmoid(vf_mul(vf_set1(alpha), x)));
    return vf_mul(silu, vf_add(gg_clamp(g, -limit, limit), vf_set1(1)));
}
/* x: the operand of the activation, z: the gate */
GG_TILE_XZ(REGLU, glu, vf_mul(v_relu(x), z))
GG_TILE_XZ(GEGLU, glu, vf_mul(v_gelu(x), z))
GG_TILE_XZ(SWIGLU, glu, vf_mul(v_silu(x), z))
GG_TILE_XZ(SWIGLU_OAI, glu, swiglu_oai(x, z, k->alpha, k->limit))
GG_TILE_XZ(GEGLU_ERF, glu, vf_mul(v_gelu_erf(x), z))
GG_TILE_XZ(GEGLU_QUICK, glu, vf_mul(v_gelu_quick(x), z))

static gg_tile_fn glu_tile(const ggml_tensor *t) {
    static const gg_tile_fn tiles[] = {
#define GLU(id, NAME) [id] = tile_##NAME,
#include "../tables/glu.h"
#undef GLU
    };
    return tiles[glu_params(t)->function];
}
/* The halves of one tensor are no rows of the shape of the result. */
static gg_row_kernel rows_GLU(const ggml_tensor *node) {
    return (gg_row_kernel){.tile = node->src[1] ? glu_tile(node) : NULL};
}
static int op_GLU(const gg_work *w, ggml_tensor *dst) {
    ggml_tensor x = *dst->src[0], g = dst->src[1] ? *dst->src[1] : x;
    if (!dst->src[1]) {                                  /* the halves of each row */
        ggml_tensor *second = glu_params(dst)->swapped ? &x : &g;
        x.ne[0] = g.ne[0] = dst->ne[0];
        second->data = (char *)second->data + (size_t)dst->ne[0] * second->nb[0];
    }
    return gg_map(w, dst, (ggml_tensor *[]){dst, &x, &g}, 3, 1, false, glu_tile(dst), dst->op_params);
}

#endif
