/* Stored patches, one column for each position: IM2COL and its gradients. */
#ifndef GG_OPS_CONV_COLUMNS_H
#define GG_OPS_CONV_COLUMNS_H
#include "plan.h"

/* The patches of x; `to` is the byte offset of the column of a position. */
static patches columns_view(const gg_columns *q) {
    const gg_conv_part x = gg_conv_part_of(q->x, q->kind, q->ic);
    const size_t *nb = q->columns->nb;
    int64_t out[3];
    for (int i = 0; i < 3; i++) out[i] = gg_conv_out(x.ne[i], q->taps[i], q->s[i], q->p[i], q->d[i]);
    patches v = patches_of(&x, q->taps, out, q->s, q->p, q->d);
    v.to[0] = nb[1], v.to[1] = nb[2], v.to[2] = nb[3];
    v.to_n = q->kind == GG_CONV_1D ? nb[2] : q->kind == GG_CONV_2D ? nb[3] : (size_t)out[2] * nb[3];
    return v;
}
/* Transposes a panel of n positions by kn taps and stores it to the columns of the positions. */
static void columns_store(ggml_tensor *dst, const patches *v, int64_t i0, int n, int64_t k0, int kn,
                          const float *panel) {
    float tmp[4][KC + VW] __attribute__((aligned(64)));
    const size_t bytes = (size_t)gg_types[dst->type].bytes;
    for (int i = 0; i < n; i += 4) {
        for (int k = 0; k < kn; k += VW) {
            const float *row[VW];
            vf out[4];
            for (int j = 0; j < VW; j++) row[j] = panel + (k + j < kn ? k + j : kn - 1) * MR;
            vf_transpose4(row, i, out);
            for (int j = 0; j < 4; j++) vf_store(tmp[j] + k, out[j]);
        }
        for (int j = 0; j < 4 && i + j < n; j++)
            gg_from_floats(dst->type, tmp[j], kn, (char *)dst->data + patch_target(v, i0 + i + j) + (size_t)k0 * bytes,
                           bytes);
    }
}
static int columns_write(const gg_work *w, ggml_tensor *dst) {
    const gg_columns q = gg_columns_of(dst);
    const patches v = columns_view(&q);
    const gemm_src s = patch_source(w->kernels, q.x->data, q.x->type, &v, pack_places);
    const int64_t places = patches_places(&v) * v.n, depth = patches_taps(&v) * v.c;
    float panel[KC * MR] __attribute__((aligned(64)));
    int64_t i0, i1;
    while (gg_claim_chunk(w, gg_ceil_div(places, MR), 1, &i0, &i1))
        for (int64_t i = i0 * MR; i < gg_min(i1 * MR, places); i += MR)
            for (int64_t k = 0; k < depth; k += KC) {
                const int n = (int)gg_min(places - i, MR), kn = (int)gg_min(depth - k, KC);
                pack_places(&s, i, n, k, kn, panel, MR);
                columns_store(dst, &v, i, n, k, kn, panel);
            }
    return GGML_STATUS_SUCCESS;
}

/* Adds the values of one tap of all windows to the channel plane: n values, `step` floats apart. */
static void columns_add(int type, const char *p, size_t nb, int64_t n, float *y, int64_t step) {
    if (type == GGML_TYPE_F32)
        for (int64_t i = 0; i < n; i++, y += step, p += nb) {
            float f;
            memcpy(&f, p, sizeof f);
            *y += f;
        }
    else
        for (int64_t i = 0; i < n; i++) y[i * step] += pack_value(type, p + (size_t)i * nb);
}
/* Elements lo to hi of each row; plane: the address of the first of them. */
static void columns_sum(const gg_columns *q, const patches *v, int64_t c, int64_t image, int64_t lo, int64_t hi,
                        char *plane) {
    const patch_axis *ax = v->ax;
    const size_t unit = q->columns->nb[0];
    const int64_t taps = patches_taps(v);
    const char *column = (const char *)q->columns->data + (size_t)image * v->to_n + (size_t)(c * taps) * unit;
    const int64_t rows = ax[1].out * ax[2].out;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < taps; k++) {
            const int64_t o1 = r % ax[1].out, o2 = r / ax[1].out;
            int64_t t[3], none;
            patch_tap(v, k, t, &none);
            const int64_t x = ax[0].base + t[0] * ax[0].dilation - lo,
                y = o1 * ax[1].stride + ax[1].base + t[1] * ax[1].dilation;
            const int64_t z = o2 * ax[2].stride + ax[2].base + t[2] * ax[2].dilation;
            if (y < 0 || y >= ax[1].in || z < 0 || z >= ax[2].in) continue;
            const patch_range in = patch_inside(hi - lo, x, ax[0].stride, ax[0].out);
            if (in.lo >= in.hi) continue;
            const char *p = column + (size_t)k * unit + (size_t)o1 * v->to[1] + (size_t)o2 * v->to[2];
            float *to = (float *)(plane + (size_t)y * v->nb[1] + (size_t)z * v->nb[2]) + x + in.lo * ax[0].stride;
            columns_add(q->columns->type, p + (size_t)in.lo * v->to[0], v->to[0], in.hi - in.lo, to, ax[0].stride);
        }
}
enum { COLUMNS_PIECE = 4096 };  /* elements of a plane with one row that a thread computes at a time */
static int columns_back(const gg_work *w, ggml_tensor *dst) {
    const gg_columns q = gg_columns_of(dst);
    const patches v = columns_view(&q);
    const int64_t across = v.ax[0].in, rows = v.ax[1].in * v.ax[2].in;
    const int64_t piece = rows == 1 ? COLUMNS_PIECE : across, pieces = gg_ceil_div(across, gg_max(piece, 1));
    float *sums = NULL;             /* of a piece of f16 or bf16: one row, as only COL2IM_1D has */
    if (dst->type != GGML_TYPE_F32 && !(sums = gg_scratch((size_t)piece * sizeof(float)))) return conv_memory(dst);
    int64_t i0, i1;
    while (gg_claim_chunk(w, v.c * v.n * pieces, 1, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const int64_t lo = i % pieces * piece, hi = gg_min(lo + piece, across), c = i / pieces % v.c,
                n = i / pieces / v.c;
            char *y = (char *)dst->data + (size_t)c * v.nb_c + (size_t)n * v.nb_n + (size_t)lo * dst->nb[0];
            float *to = sums ? sums : (float *)y;
            memset(to, 0, (size_t)((hi - lo) * rows) * sizeof(float));
            columns_sum(&q, &v, c, n, lo, hi, (char *)to);
            if (sums) gg_from_floats(dst->type, sums, hi - lo, y, dst->nb[0]);
        }
    return GGML_STATUS_SUCCESS;
}

#endif
