/* Windows of images and relative positions: each row of the result is a row of the source, or zeros. */
#ifndef GG_OPS_WINDOW_H
#define GG_OPS_WINDOW_H
#include "copy.h"

/* n consecutive rows along dimension 1, from rows of the source that are `step` bytes apart; p NULL: zeros. */
typedef struct { const char *p; ptrdiff_t step; int64_t n; } row_run;
typedef row_run row_source(const ggml_tensor *dst, row_index at);

static inline int rows_from(const gg_work *w, ggml_tensor *dst, row_source from) {
    const ggml_tensor *a = dst->src[0];
    const int64_t ne0 = dst->ne[0];
    box b;
    int64_t r, r1;
    row_box(w->kernels, &b, dst->type, (ptrdiff_t)dst->nb[0], a->type, (ptrdiff_t)a->nb[0], ne0);
    while (gg_claim_chunk(w, gg_nrows(dst), 1 + 4096 / ne0, &r, &r1))
        for (row_index at = nth_row(dst, r); r < r1;) {
            const row_run s = from(dst, at);
            const int64_t n = gg_min(s.n, r1 - r);
            const ptrdiff_t dy = (ptrdiff_t)dst->nb[1];
            const bool one = dy == ne0 * b.d[0] && s.step == ne0 * b.s[0];      /* both sides are contiguous */
            char *d = gg_row_ptr(dst, at.i1, at.i2, at.i3);
            if (!s.p) tile_zero(d, b.d[0], dy, ne0, n, b.du);
            else if (one) row_copy(&b, d, s.p, n * ne0);
            else rows_copy(&b, d, dy, s.p, s.step, ne0, n);
            r += n;
            row_step(dst, &at, n);
        }
    return GGML_STATUS_SUCCESS;
}
/* Windows of w x w pixels. */
static inline row_run window_of(const ggml_tensor *t, row_index at) {
    const ggml_tensor *a = t->src[0];
    const int64_t across = win_part_params(t)->columns, w = win_part_params(t)->w;
    const int64_t x = at.i3 % across * w + at.i1, y = at.i3 / across * w + at.i2;
    if (x >= a->ne[1] || y >= a->ne[2]) return (row_run){NULL, 0, w - at.i1};
    return (row_run){gg_row_ptr(a, x, y, 0), (ptrdiff_t)a->nb[1], gg_min(w - at.i1, a->ne[1] - x)};
}
static inline row_run pixel_of(const ggml_tensor *t, row_index at) {
    const ggml_tensor *a = t->src[0];
    const int64_t w = win_unpart_params(t)->w, across = gg_ceil_div(t->ne[1], w), x = at.i1 % w;
    return (row_run){gg_row_ptr(a, x, at.i2 % w, at.i2 / w * across + at.i1 / w), (ptrdiff_t)a->nb[1],
                     gg_min(w - x, t->ne[1] - at.i1)};
}
static inline row_run distance_of(const ggml_tensor *t, row_index at) {
    const ggml_tensor *a = t->src[0];
    return (row_run){gg_row_ptr(a, t->ne[1] - 1 - at.i1 + at.i2, 0, 0), -(ptrdiff_t)a->nb[1], t->ne[1] - at.i1};
}
static int op_WIN_PART(const gg_work *w, ggml_tensor *dst) { return rows_from(w, dst, window_of); }
static int op_WIN_UNPART(const gg_work *w, ggml_tensor *dst) { return rows_from(w, dst, pixel_of); }
static int op_GET_REL_POS(const gg_work *w, ggml_tensor *dst) { return rows_from(w, dst, distance_of); }

/* Views a as [w, h, rows] and adds to each row its pw along w and its ph along h. */
static int op_ADD_REL_POS(const gg_work *w, ggml_tensor *dst) {
    const int64_t n = dst->src[1]->ne[0];
    const float *a = dst->src[0]->data, *pw = dst->src[1]->data, *ph = dst->src[2]->data;
    float *y = dst->data;
    int64_t i0, i1;
    while (gg_claim_chunk(w, gg_nrows(dst) * n, 1 + 4096 / n, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const float *x = a + i * n, *px = pw + i / n * n;
            const vf h = vf_set1(ph[i]);
            float *out = y + i * n;
            int64_t j = 0;
            for (; j + VW <= n; j += VW) vf_store(out + j, vf_add(vf_add(vf_load(x + j), vf_load(px + j)), h));
            for (; j < n; j++) out[j] = x[j] + px[j] + ph[i];
        }
    return GGML_STATUS_SUCCESS;
}

#endif
