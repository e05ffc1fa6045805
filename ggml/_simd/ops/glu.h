/* GLU: act(a) * b of two tensors or of the halves of one. ADD_ID: a, and to each row the row of b that ids choose. */
#ifndef GG_OPS_GATE_H
#define GG_OPS_GATE_H
#include "rowwise.h"

enum { GLU_PARAM_SWAPPED = 1, GLU_PARAM_ALPHA = 2, GLU_PARAM_LIMIT = 3 };

static inline vf swiglu_oai(vf x, vf g, float alpha, float limit) {
    x = vf_min(vf_set1(limit), x);
    const vf silu = vf_mul(x, v_sigmoid(vf_mul(vf_set1(alpha), x)));
    return vf_mul(silu, vf_add(gg_clamp(g, -limit, limit), vf_set1(1)));
}
/* x: the side with the function, z: the gate, k: op_params */
GG_TILE_XZ(reglu, vf_mul(v_relu(x), z))
GG_TILE_XZ(geglu, vf_mul(v_gelu(x), z))
GG_TILE_XZ(swiglu, vf_mul(v_silu(x), z))
GG_TILE_XZ(swiglu_oai, swiglu_oai(x, z, k[GLU_PARAM_ALPHA], k[GLU_PARAM_LIMIT]))
GG_TILE_XZ(geglu_erf, vf_mul(v_gelu_erf(x), z))
GG_TILE_XZ(geglu_quick, vf_mul(v_gelu_quick(x), z))

static int op_GLU(const gg_work *w, ggml_tensor *dst) {
    static const gg_tile_fn fn[] = {tile_reglu,      tile_geglu,     tile_swiglu,
                                    tile_swiglu_oai, tile_geglu_erf, tile_geglu_quick};
    ggml_tensor x = *dst->src[0], g = dst->src[1] ? *dst->src[1] : x;
    if (!dst->src[1]) {                                  /* the halves of each row */
        ggml_tensor *second = dst->op_params[GLU_PARAM_SWAPPED] ? &x : &g;
        x.ne[0] = g.ne[0] = dst->ne[0];
        second->data = (char *)second->data + (size_t)dst->ne[0] * second->nb[0];
    }
    return gg_map(w, dst, (ggml_tensor *[]){dst, &x, &g}, 3, 1, false, fn[dst->op_params[0]], dst->op_params);
}

static int op_ADD_ID(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *b = dst->src[1], *ids = dst->src[2];
    const int64_t n = dst->ne[0];
    float *tmp[3];
    if (!row_scratch(tmp, 3, (const ggml_tensor *[]){dst, a, b})) return no_memory(dst);
    for EACH_ROW(w, dst, r) {
        const row_at at = nth_row(dst, r);
        const int32_t id = *(const int32_t *)(gg_row_ptr(ids, at.i2, 0, 0) + (size_t)at.i1 * ids->nb[0]);
        if (id < 0 || id >= b->ne[1])
            return gg_fail(dst, "index [%lld, %lld] is %d: b has %lld rows", (long long)at.i1, (long long)at.i2, id,
                           (long long)b->ne[1]);
        const float *x = row_in(a, at, tmp[1]), *z = row_in(b, (row_at){id, 0, 0}, tmp[2]);
        float *y = row_out(dst, at, tmp[0]);
        EACH_VEC(i, n) st(y + i, vf_add(ld(x + i, n - i), ld(z + i, n - i)), n - i);
        row_store(dst, at, y);
    }
    return GGML_STATUS_SUCCESS;
}

#endif
