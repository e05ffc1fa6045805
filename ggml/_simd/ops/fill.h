/* Tensors made from parameters alone (FILL, ARANGE) or from a few numbers (TIMESTEP_EMBEDDING). */
#ifndef GG_OPS_FILL_H
#define GG_OPS_FILL_H
#include "rows.h"
#include <math.h>

static void tile_FILL(float *const *p, int64_t n, bool stream, const void *arg) {
    const vf c = vf_set1(((const gg_fill_params *)arg)->value);
    int64_t i = 0;
    for (; i + VW <= n; i += VW) gg_put(p[0] + i, c, stream);
    if (i < n) vf_storen(p[0] + i, c, (int)(n - i));
}
static int op_FILL(const gg_work *w, ggml_tensor *dst) {
    return gg_map(w, dst, &dst, 1, 1, false, tile_FILL, dst->op_params);
}
static int op_ARANGE(const gg_work *w, ggml_tensor *dst) {
    const float start = arange_params(dst)->start, step = arange_params(dst)->step;
    float *y = dst->data;
    int64_t i0, i1;
    while (gg_claim_chunk(w, dst->ne[0], 4096, &i0, &i1)) {
        int64_t i = i0;
        for (; i + VW <= i1 && i1 <= INT32_MAX; i += VW) {               /* the index as int32 */
            const vf at = vi_to_vf(vi_add(vi_set1((int32_t)i), vi_iota()));
            vf_store(y + i, vf_add(vf_set1(start), vf_mul(vf_set1(step), at)));
        }
        for (; i < i1; i++) y[i] = start + step * (float)i;
    }
    return GGML_STATUS_SUCCESS;
}
/* Row t: cos(t f_j), then sin(t f_j), with f_j = max_period^(-j/half), in double because t f_j may be large. */
static int op_TIMESTEP_EMBEDDING(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const int64_t dim = timestep_params(dst)->dim, half = dim / 2;
    const double rate = half ? -log((double)timestep_params(dst)->max_period) / (double)half : 0;
    double *freq = gg_scratch((size_t)(half + 1) * sizeof *freq);
    int64_t r0, r1;
    if (!freq) return gg_no_memory(dst, "no memory for %lld frequencies", (long long)half);
    for (int64_t j = 0; j < half; j++) freq[j] = exp(rate * (double)j);
    while (gg_claim_chunk(w, dst->ne[1], 1, &r0, &r1))
        for (int64_t r = r0; r < r1; r++) {
            float *y = (float *)((char *)dst->data + (size_t)r * dst->nb[1]), t;
            memcpy(&t, (const char *)a->data + (size_t)r * a->nb[0], sizeof t);
            for (int64_t j = 0; j < half; j++) y[j] = (float)cos(t * freq[j]), y[j + half] = (float)sin(t * freq[j]);
            if (dim % 2) y[dim - 1] = 0;
        }
    return GGML_STATUS_SUCCESS;
}

#endif
