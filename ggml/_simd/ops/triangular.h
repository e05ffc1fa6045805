/* DIAG, TRI, the causal masks DIAG_MASK_INF and DIAG_MASK_ZERO; SOLVE_TRI (solve.h). */
#ifndef GG_OPS_TRIANGULAR_H
#define GG_OPS_TRIANGULAR_H
#include "copy.h"
#include "solve.h"

/* ---- triangles and diagonals ------------------------------------------------------------------------------------- */
enum { TRI_UPPER_DIAG, TRI_UPPER, TRI_LOWER_DIAG, TRI_LOWER };

static int op_TRI(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const int kind = triangular_params(dst)->kind;
    const int64_t n = dst->ne[0];
    box b;
    int64_t r0, r1;
    row_box(w->kernels, &b, dst->type, (ptrdiff_t)dst->nb[0], a->type, (ptrdiff_t)a->nb[0], n);
    while (gg_claim_chunk(w, gg_nrows(dst), 1 + 4096 / n, &r0, &r1))
        for (int64_t r = r0; r < r1; r++) {
            const row_index at = nth_row(dst, r);
            const int64_t cut = gg_min(n, at.i1 + (kind == TRI_UPPER || kind == TRI_LOWER_DIAG));
            const bool upper = kind == TRI_UPPER_DIAG || kind == TRI_UPPER;
            const int64_t lo = upper ? cut : 0, hi = upper ? n : cut;
            char *d = gg_row_ptr(dst, at.i1, at.i2, at.i3);
            tile_zero(d, b.d[0], 0, lo, 1, b.du);
            row_copy(&b, d + lo * b.d[0], gg_row_ptr(a, at.i1, at.i2, at.i3) + lo * b.s[0], hi - lo);
            tile_zero(d + hi * b.d[0], b.d[0], 0, n - hi, 1, b.du);
        }
    return GGML_STATUS_SUCCESS;
}
static int op_DIAG(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const ptrdiff_t dx = (ptrdiff_t)dst->nb[0], unit = gg_types[dst->type].bytes;
    int64_t r0, r1;
    while (gg_claim_chunk(w, gg_nrows(dst), 1 + 4096 / dst->ne[0], &r0, &r1))
        for (int64_t r = r0; r < r1; r++) {
            const row_index at = nth_row(dst, r);
            char *d = gg_row_ptr(dst, at.i1, at.i2, at.i3);
            tile_zero(d, dx, 0, dst->ne[0], 1, unit);
            memcpy(d + at.i1 * dx, gg_row_ptr(a, 0, at.i2, at.i3) + (size_t)at.i1 * a->nb[0], (size_t)unit);
        }
    return GGML_STATUS_SUCCESS;
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */
enum { MASK_TILE = 1024 };
static int mask_rows(const gg_work *w, ggml_tensor *dst, float value) {
    const ggml_tensor *a = dst->src[0];
    float in[MASK_TILE], out[MASK_TILE];
    for EACH_ROW(w, dst, r) {
        const row_index at = nth_row(dst, r);
        const int64_t kept = diag_mask_params(dst)->n_past + at.i1 + 1;              /* elements that are kept */
        for (int64_t i0 = 0; i0 < dst->ne[0]; i0 += MASK_TILE) {
            const int64_t n = dst->ne[0] - i0 < MASK_TILE ? dst->ne[0] - i0 : MASK_TILE;
            const int64_t stay = kept < i0 ? 0 : kept - i0 < n ? kept - i0 : n;
            const float *x = gg_row_in(a, at.i1, at.i2, at.i3, i0, n, in);
            float *y = gg_row_out(dst, at.i1, at.i2, at.i3, i0, out);
            if (x != y) memmove(y, x, (size_t)stay * sizeof *y);
            for (int64_t i = stay; i < n; i++) y[i] = value;
            gg_row_store(dst, at.i1, at.i2, at.i3, i0, n, y);
        }
    }
    return GGML_STATUS_SUCCESS;
}
static void mask_row(const ggml_tensor *t, const float *x, float *y, int64_t i1, float value) {
    const int64_t n = t->ne[0], kept = gg_max(0, gg_min(n, diag_mask_params(t)->n_past + i1 + 1));
    if (x != y) memmove(y, x, (size_t)kept * sizeof *y);
    for (int64_t i = kept; i < n; i++) y[i] = value;
}
#define ROWS_OF_MASK(NAME, value)                                                                    \
    static void row_##NAME(const ggml_tensor *node, float *const *p, int64_t i1, int64_t i2) {       \
        (void)i2;                                                                                    \
        mask_row(node, p[1], p[0], i1, value);                                                       \
    }                                                                                                \
    static gg_row_kernel rows_##NAME(const ggml_tensor *node) {                                      \
        (void)node;                                                                                  \
        return (gg_row_kernel){.row = row_##NAME};                                                   \
    }
ROWS_OF_MASK(DIAG_MASK_INF, -GG_INF)
ROWS_OF_MASK(DIAG_MASK_ZERO, 0)
#undef ROWS_OF_MASK
static int op_DIAG_MASK_INF(const gg_work *w, ggml_tensor *dst) { return mask_rows(w, dst, -GG_INF); }
static int op_DIAG_MASK_ZERO(const gg_work *w, ggml_tensor *dst) { return mask_rows(w, dst, 0); }

#endif
