/* SOLVE_TRI: A X = B, A lower triangular, or A^T X = B. */
#ifndef GG_OPS_TRIANGLE_H
#define GG_OPS_TRIANGLE_H
#include "rowwise.h"

enum { TRI_COLS = 4 * VW };   /* columns of X at a time: four accumulators */

/* Columns c to c + m of one system: x_i = (b_i - sum over the x_j before it of a_ij x_j) / a_ii, rows of x kept in `x`.
 * Transposed (op_params[0]), A is an upper triangle, and the rows come in falling order. */
static void solve_columns(ggml_tensor *dst, row_at at, int64_t c, int64_t m, float *x, float *arow, float *tmp) {
    const ggml_tensor *b = dst->src[1];
    ggml_tensor a = *dst->src[0];
    const bool upper = dst->op_params[0];
    const int64_t n = a.ne[1];
    if (upper) a.nb[0] = dst->src[0]->nb[1], a.nb[1] = dst->src[0]->nb[0];
    for (int64_t step = 0; step < n; step++) {
        const int64_t i = upper ? n - 1 - step : step, first = upper ? i : 0;      /* a_i: from `first`, step + 1 long */
        const float *ai = gg_row_in(&a, i, at.i2, at.i3, first, step + 1, arow);
        const float *bi = gg_row_in(b, i, at.i2, at.i3, c, m, tmp);
        float *xi = x + i * TRI_COLS;
        vf s[4];
        for (int v = 0; v < 4; v++) s[v] = m > v * VW ? ld(bi + v * VW, m - v * VW) : vf_zero();
        for (int64_t k = 0; k <= step; k++) {
            const int64_t j = first + k;
            if (j == i) continue;
            const vf f = vf_set1(ai[k]);
            for (int v = 0; v < 4; v++) s[v] = vf_fnma(f, vf_load(x + j * TRI_COLS + v * VW), s[v]);
        }
        const vf pivot = vf_set1(ai[i - first]);
        for (int v = 0; v < 4; v++) vf_store(xi + v * VW, vf_div(s[v], pivot));
        float *y = gg_row_out(dst, i, at.i2, at.i3, c, tmp);
        memcpy(y, xi, (size_t)m * sizeof *y);
        gg_row_store(dst, i, at.i2, at.i3, c, m, y);
    }
}
static int op_SOLVE_TRI(const gg_work *w, ggml_tensor *dst) {
    const int64_t n = dst->src[0]->ne[1], cols = dst->ne[0], tiles = (cols + TRI_COLS - 1) / TRI_COLS;
    float *x = gg_scratch((size_t)(n * TRI_COLS + n) * sizeof *x), tmp[TRI_COLS];
    if (!x) return no_memory(dst);
    for (int64_t u0, u1; gg_next(w, tiles * dst->ne[2] * dst->ne[3], 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t c = u % tiles * TRI_COLS, item = u / tiles;
            const row_at at = {0, item % dst->ne[2], item / dst->ne[2]};
            solve_columns(dst, at, c, cols - c < TRI_COLS ? cols - c : TRI_COLS, x, x + n * TRI_COLS, tmp);
        }
    return GGML_STATUS_SUCCESS;
}

#endif
