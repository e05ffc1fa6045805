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

static int op_GLU(const gg_work *w, ggml_tensor *dst) {
    static const gg_tile_fn fn[] = {
#define GLU(id, NAME) [id] = tile_##NAME,
#include "../tables/glu.h"
#undef GLU
    };
    ggml_tensor x = *dst->src[0], g = dst->src[1] ? *dst->src[1] : x;
    if (!dst->src[1]) {                                  /* the halves of each row */
        ggml_tensor *second = glu_params(dst)->swapped ? &x : &g;
        x.ne[0] = g.ne[0] = dst->ne[0];
        second->data = (char *)second->data + (size_t)dst->ne[0] * second->nb[0];
    }
    return gg_map(w, dst, (ggml_tensor *[]){dst, &x, &g}, 3, 1, false, fn[glu_params(dst)->function], dst->op_params);
}

#endif
