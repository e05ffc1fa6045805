/* SOLVE_TRI: A X = B, A lower triangular, or A^T X = B. */
#ifndef GG_OPS_SOLVE_H
#define GG_OPS_SOLVE_H
#include "../gemm/pack.h"
#include "rowwise.h"

enum {
    TRI_COLS = 4 * VW,              /* most columns of X at a time: four accumulators */
    TRI_FEW = 4, TRI_BLOCK = 64,    /* most columns that are solved by products of rows, and rows of a block */
};

/* A, lower triangular, or (transposed) A^T, upper triangular, whose rows are solved in decreasing order. */
static ggml_tensor tri_matrix(const ggml_tensor *dst) {
    ggml_tensor a = *dst->src[0];
    if (solve_tri_params(dst)->transposed) a.nb[0] = dst->src[0]->nb[1], a.nb[1] = dst->src[0]->nb[0];
    return a;
}
static int64_t tri_row(const ggml_tensor *dst, int64_t step) {
    return solve_tri_params(dst)->transposed ? dst->src[0]->ne[1] - 1 - step : step;
}

/* Columns c to c + m of one system: x_i = (b_i - sum of a_ij x_j over the x_j solved before) / a_ii. The rows of x are
 * kept in `x`, `vecs` vectors wide. */
static inline __attribute__((always_inline))
void solve_vectors(const int vecs, ggml_tensor *dst, row_index at, int64_t c, int64_t m, float *x, float *arow) {
    const ggml_tensor *b = dst->src[1], a = tri_matrix(dst);
    float tmp[TRI_COLS];
    for (int64_t step = 0; step < a.ne[1]; step++) {
        /* a_i: from `first`, step + 1 long */
        const int64_t i = tri_row(dst, step), first = solve_tri_params(dst)->transposed ? i : 0;
        const float *ai = gg_row_in(&a, i, at.i2, at.i3, first, step + 1, arow);
        const float *bi = gg_row_in(b, i, at.i2, at.i3, c, m, tmp);
        float *xi = x + i * vecs * VW;
        vf s[4];
        for (int v = 0; v < vecs; v++) s[v] = m > v * VW ? ld(bi + v * VW, m - v * VW) : vf_zero();
        for (int64_t k = 0; k <= step; k++) {
            const int64_t j = first + k;
            if (j == i) continue;
            const vf f = vf_set1(ai[k]);
            for (int v = 0; v < vecs; v++) s[v] = vf_fnma(f, vf_load(x + (j * vecs + v) * VW), s[v]);
        }
        const vf pivot = vf_set1(ai[i - first]);
        for (int v = 0; v < vecs; v++) vf_store(xi + v * VW, vf_div(s[v], pivot));
        float *y = gg_row_out(dst, i, at.i2, at.i3, c, tmp);
        memcpy(y, xi, (size_t)m * sizeof *y);
        gg_row_store(dst, i, at.i2, at.i3, c, m, y);
    }
}
static void solve_columns(ggml_tensor *dst, row_index at, int64_t c, int64_t m, float *x, float *arow) {
    if (m > 2 * VW) solve_vectors(4, dst, at, c, m, x, arow);
    else if (m > VW) solve_vectors(2, dst, at, c, m, x, arow);
    else solve_vectors(1, dst, at, c, m, x, arow);
}

/* ---- few columns: each x_i is a dot product of two rows ---------------------------------------------------------- */
static float tri_dot(int64_t n, const float *a, const float *x) {
    vf sum[2] = {vf_zero(), vf_zero()};
    int64_t i = 0;
    for (; i + 2 * VW <= n; i += 2 * VW) {
        sum[0] = vf_fma(vf_load(a + i), vf_load(x + i), sum[0]);
        sum[1] = vf_fma(vf_load(a + i + VW), vf_load(x + i + VW), sum[1]);
    }
    for (; i < n; i += VW) sum[0] = vf_fma(ld(a + i, n - i), ld(x + i, n - i), sum[0]);
    return vf_hsum(vf_add(sum[0], sum[1]));
}
/* The dot product of row i of A and a column x of X, over the steps s0 to s1. */
static float tri_product(const ggml_tensor *dst, const ggml_tensor *a, row_index at, int64_t i, int64_t s0, int64_t s1,
                          const float *x, float *arow) {
    const int64_t first = solve_tri_params(dst)->transposed ? a->ne[1] - s1 : s0;
    return tri_dot(s1 - s0, gg_row_in(a, i, at.i2, at.i3, first, s1 - s0, arow), x + first);
}
/* Steps s to s + lanes of a block that begins at s0, one per lane. Columns of the transposed panel of A subtract known
 * values from all lanes at a time, so that a step depends on the one before and on no horizontal sum. */
static inline __attribute__((always_inline))
void solve_panel(const int m, const ggml_tensor *dst, const ggml_tensor *a, row_index at, int64_t s0, int64_t s,
                 int lanes,
                 const float *rest, float *x) {
    const int64_t n = a->ne[1], known = s - s0;
    _Alignas(64) float panel[TRI_BLOCK * VW], start[TRI_FEW][VW] = {{0}}, pivots[VW], y[VW];
    const char *row[VW];
    for (int k = 0; k < VW; k++)
        row[k] = gg_element_ptr(a, tri_row(dst, s + (k < lanes ? k : 0)), at.i2, at.i3, tri_row(dst, s0));
    const ptrdiff_t step = solve_tri_params(dst)->transposed ? -(ptrdiff_t)a->nb[0] : (ptrdiff_t)a->nb[0];
    if (step == sizeof(float)) {
        pack_transpose((const float *const *)row, known + lanes, panel, VW);
    } else {
        for (int64_t j = 0; j < known + lanes; j++)
            for (int k = 0; k < VW; k++) panel[j * VW + k] = *(const float *)(row[k] + j * step);
    }
    for (int k = 0; k < VW; k++) pivots[k] = k < lanes ? panel[(known + k) * VW + k] : 1;
    for (int k = 0; k < lanes; k++) {
        float tmp[TRI_COLS];
        const float *bi = gg_row_in(dst->src[1], tri_row(dst, s + k), at.i2, at.i3, 0, m, tmp);
        for (int c = 0; c < m; c++) start[c][k] = s0 ? bi[c] - rest[c * n + s + k] : bi[c];
    }
    const vf pivot = vf_load(pivots);
    /* independent sums hide the latency of additions for every m */
    const int parts = TRI_FEW / m;
    vf sum[TRI_FEW], part[TRI_FEW];
    for (int c = 0; c < TRI_FEW; c++) part[c] = vf_zero();
    int64_t j = 0;
    for (; j + parts <= known; j += parts)
        for (int c = 0; c < m * parts; c++) {
            const float *xj = x + c % m * n + tri_row(dst, s0 + j + c / m);
            part[c] = vf_fma(vf_load(panel + (j + c / m) * VW), vf_set1(*xj), part[c]);
        }
    for (; j < known; j++)
        for (int c = 0; c < m; c++)
            part[c] = vf_fma(vf_load(panel + j * VW), vf_set1(x[c * n + tri_row(dst, s0 + j)]), part[c]);
    for (int c = 0; c < m; c++) {
        for (int q = 1; q < parts; q++) part[c] = vf_add(part[c], part[q * m + c]);
        sum[c] = vf_sub(vf_load(start[c]), part[c]);
    }
    for (int k = 0; k < lanes; k++)
        for (int c = 0; c < m; c++) {
            vf_store(y, vf_div(sum[c], pivot));
            x[c * n + tri_row(dst, s + k)] = y[k];
            sum[c] = vf_fnma(vf_load(panel + (known + k) * VW), vf_set1(y[k]), sum[c]);
        }
}
static void solve_lanes(const ggml_tensor *dst, const ggml_tensor *a, row_index at, int64_t s0, int64_t s, int lanes,
                        const float *rest, float *x) {
    switch (dst->ne[0]) {
    case 1: solve_panel(1, dst, a, at, s0, s, lanes, rest, x); return;
    case 2: solve_panel(2, dst, a, at, s0, s, lanes, rest, x); return;
    case 3: solve_panel(3, dst, a, at, s0, s, lanes, rest, x); return;
    default: solve_panel(TRI_FEW, dst, a, at, s0, s, lanes, rest, x);
    }
}
/* Solves one system with the threads of w. They share the contribution of all earlier blocks to a block, in `rest`,
 * which all can read; each thread then solves the block itself. The first block has no contribution, but its barrier
 * keeps a thread from writing `rest` while others still solve the system before. x: the columns of X, one after
 * another. */
static void solve_few(const gg_work *w, ggml_tensor *dst, row_index at, float *rest, float *x, float *arow) {
    const ggml_tensor a = tri_matrix(dst);
    const int64_t n = a.ne[1], m = dst->ne[0];
    float tmp[TRI_COLS];
    for (int64_t s0 = 0; s0 < n; s0 += TRI_BLOCK) {
        const int64_t rows = n - s0 < TRI_BLOCK ? n - s0 : TRI_BLOCK;
        for (int64_t s = s0 + rows * w->ith / w->nth; s0 && s < s0 + rows * (w->ith + 1) / w->nth; s++)
            for (int64_t c = 0; c < m; c++)
                rest[c * n + s] = tri_product(dst, &a, at, tri_row(dst, s), 0, s0, x + c * n, arow);
        gg_barrier(w);
        for (int64_t s = s0; s < s0 + rows; s += VW)
            solve_lanes(dst, &a, at, s0, s, s0 + rows - s < VW ? (int)(s0 + rows - s) : VW, rest, x);
    }
    for (int64_t i = n * w->ith / w->nth; i < n * (w->ith + 1) / w->nth; i++) {
        float *y = gg_row_out(dst, i, at.i2, at.i3, 0, tmp);
        for (int64_t c = 0; c < m; c++) y[c] = x[c * n + i];
        gg_row_store(dst, i, at.i2, at.i3, 0, m, y);
    }
}
/* Bytes of a thread for few columns: `rest`, X, a row of A. */
static size_t tri_own(const ggml_tensor *dst) {
    return (size_t)((2 * dst->ne[0] + 1) * dst->ne[1]) * sizeof(float);
}
static size_t work_SOLVE_TRI(const ggml_tensor *dst, int nth) {
    return dst->ne[0] <= TRI_FEW ? (size_t)nth * tri_own(dst) : 0;
}
/* All threads solve each system together if there are fewer systems than threads. */
static void solve_few_all(const gg_work *w, ggml_tensor *dst) {
    const int64_t n = dst->ne[1], m = dst->ne[0], systems = dst->ne[2] * dst->ne[3];
    const bool together = systems < w->nth;
    float *const own = (float *)((char *)w->wdata + (size_t)w->ith * tri_own(dst)), *const x = own + m * n;
    float *const rest = together ? w->wdata : own;
    gg_work alone = *w;
    alone.ith = 0, alone.nth = 1;
    for (int64_t u0 = 0, u1 = systems; together || gg_claim_chunk(w, systems, 1, &u0, &u1);) {
        for (int64_t u = u0; u < u1; u++)
            solve_few(together ? w : &alone, dst, (row_index){0, u % dst->ne[2], u / dst->ne[2]}, rest, x, x + m * n);
        if (together) break;
    }
}
static int op_SOLVE_TRI(const gg_work *w, ggml_tensor *dst) {
    const int64_t n = dst->src[0]->ne[1], cols = dst->ne[0], systems = dst->ne[2] * dst->ne[3];
    if (cols <= TRI_FEW) { solve_few_all(w, dst); return GGML_STATUS_SUCCESS; }
    int64_t width = TRI_COLS;                            /* narrower if a thread would have no work otherwise */
    while (width > VW && (cols + width - 1) / width * systems < w->nth) width /= 2;
    const int64_t tiles = (cols + width - 1) / width;
    float *x = gg_scratch((size_t)(n * TRI_COLS + n) * sizeof *x);
    if (!x) return no_memory(dst);
    for (int64_t u0, u1; gg_claim_chunk(w, tiles * systems, 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t c = u % tiles * width, item = u / tiles;
            const row_index at = {0, item % dst->ne[2], item / dst->ne[2]};
            solve_columns(dst, at, c, cols - c < width ? cols - c : width, x, x + n * TRI_COLS);
        }
    return GGML_STATUS_SUCCESS;
}

#endif
