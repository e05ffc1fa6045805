/* Kernels that lay a tensor out anew: pad, roll, windows, triangles; and those that make one from nothing. */
#ifndef GG_OPS_PAD_H
#define GG_OPS_PAD_H
#include "copy.h"
#include "rows.h"
#include <math.h>

/* ---- along each dimension a few pieces of the source ------------------------------------------------------------- */
/* n elements from `from` on, by `step` (0: zeros), rep times over, at `at` of the destination. */
typedef struct { int64_t at, from, n, rep; int step; } piece;
enum { PIECES = 3 };

static int assemble(const gg_work *w, ggml_tensor *dst, const ggml_tensor *src, piece p[4][PIECES]) {
    box b[PIECES * PIECES * PIECES * PIECES];
    int n = 0;
    for (int k = 0; k < PIECES * PIECES * PIECES * PIECES; k++) {
        const piece *cut[4] = {&p[0][k % 3], &p[1][k / 3 % 3], &p[2][k / 9 % 3], &p[3][k / 27]};
        bool any = true, zero = false;
        for (int i = 0; i < 4; i++) any &= cut[i]->n > 0 && cut[i]->rep > 0, zero |= !cut[i]->step;
        if (!any) continue;
        box_types(&b[n], dst->type, src->type);
        ptrdiff_t d = 0, s = 0;
        for (int i = 0; i < 4; i++) {
            const ptrdiff_t dn = (ptrdiff_t)dst->nb[i], sn = (ptrdiff_t)src->nb[i];
            d += cut[i]->at * dn, s += cut[i]->from * sn;
            box_dim(&b[n], cut[i]->n, dn, zero ? 0 : cut[i]->step * sn);
            box_dim(&b[n], cut[i]->rep, dn * cut[i]->n, 0);
        }
        b[n].dst = (char *)dst->data + d, b[n].src = zero ? NULL : (const char *)src->data + s;
        box_plan(&b[n++]);
    }
    boxes_run(w, b, n);
    return GGML_STATUS_SUCCESS;
}
/* n elements of a ring of ne, the first of the ring at `shift`. */
static void pieces_ring(piece p[PIECES], int64_t n, int64_t ne, int64_t shift) {
    const int64_t start = ((-shift) % ne + ne) % ne, first = min64(n, ne - start), rest = n - first;
    p[0] = (piece){0, start, first, 1, 1};
    p[1] = (piece){first, 0, ne, rest / ne, 1};
    p[2] = (piece){n - rest % ne, 0, rest % ne, 1, 1};
}
static int op_PAD(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    piece p[4][PIECES];
    for (int i = 0; i < 4; i++) {
        const int64_t left = dst->op_params[2 * i], right = dst->op_params[2 * i + 1], ne = a->ne[i];
        if (dst->op_params[8]) { pieces_ring(p[i], dst->ne[i], ne, left); continue; }
        p[i][0] = (piece){0, 0, left, 1, 0};
        p[i][1] = (piece){left, 0, ne, 1, 1};
        p[i][2] = (piece){left + ne, 0, right, 1, 0};
    }
    return assemble(w, dst, a, p);
}
static int op_ROLL(const gg_work *w, ggml_tensor *dst) {
    piece p[4][PIECES];
    for (int i = 0; i < 4; i++) pieces_ring(p[i], dst->ne[i], dst->ne[i], dst->op_params[i]);
    return assemble(w, dst, dst->src[0], p);
}
static int op_PAD_REFLECT_1D(const gg_work *w, ggml_tensor *dst) {
    const int64_t left = dst->op_params[0], right = dst->op_params[1], ne = dst->src[0]->ne[0];
    piece p[4][PIECES] = {{{0, left, left, 1, -1}, {left, 0, ne, 1, 1}, {left + ne, ne - 2, right, 1, -1}}};
    for (int i = 1; i < 4; i++) p[i][0] = (piece){0, 0, dst->ne[i], 1, 1};
    return assemble(w, dst, dst->src[0], p);
}

/* ---- each row from a row of the source, or zeros ----------------------------------------------------------------- */
/* n rows, one after the other along dimension 1, from rows of the source that are `step` bytes apart; p NULL: zeros. */
typedef struct { const char *p; ptrdiff_t step; int64_t n; } row_run;
typedef row_run row_source(const ggml_tensor *dst, row_index at);

static inline int rows_from(const gg_work *w, ggml_tensor *dst, row_source from) {
    const ggml_tensor *a = dst->src[0];
    const int64_t ne0 = dst->ne[0];
    box b;
    int64_t r, r1;
    row_box(&b, dst->type, (ptrdiff_t)dst->nb[0], a->type, (ptrdiff_t)a->nb[0], ne0);
    while (gg_next(w, gg_nrows(dst), 1 + 4096 / ne0, &r, &r1))
        for (row_index at = row_of(dst, r); r < r1;) {
            const row_run s = from(dst, at);
            const int64_t n = min64(s.n, r1 - r);
            const ptrdiff_t dy = (ptrdiff_t)dst->nb[1];
            const bool one = dy == ne0 * b.d[0] && s.step == ne0 * b.s[0];      /* they make one long row */
            char *d = row_at(dst, at.i1, at.i2, at.i3);
            if (!s.p) tile_zero(d, b.d[0], dy, ne0, n, b.du);
            else if (one) row_copy(&b, d, s.p, n * ne0);
            else rows_copy(&b, d, dy, s.p, s.step, ne0, n);
            r += n;
            row_step(dst, &at, n);
        }
    return GGML_STATUS_SUCCESS;
}
/* Windows of w x w pixels: op_params windows across, windows down, w. */
static inline row_run window_of(const ggml_tensor *t, row_index at) {
    const ggml_tensor *a = t->src[0];
    const int64_t across = t->op_params[0], w = t->op_params[2];
    const int64_t x = at.i3 % across * w + at.i1, y = at.i3 / across * w + at.i2;
    if (x >= a->ne[1] || y >= a->ne[2]) return (row_run){NULL, 0, w - at.i1};
    return (row_run){row_at(a, x, y, 0), (ptrdiff_t)a->nb[1], min64(w - at.i1, a->ne[1] - x)};
}
static inline row_run pixel_of(const ggml_tensor *t, row_index at) {
    const ggml_tensor *a = t->src[0];
    const int64_t w = t->op_params[0], across = ceil_div(t->ne[1], w), x = at.i1 % w;
    return (row_run){row_at(a, x, at.i2 % w, at.i2 / w * across + at.i1 / w), (ptrdiff_t)a->nb[1],
                     min64(w - x, t->ne[1] - at.i1)};
}
static inline row_run distance_of(const ggml_tensor *t, row_index at) {
    const ggml_tensor *a = t->src[0];
    return (row_run){row_at(a, t->ne[1] - 1 - at.i1 + at.i2, 0, 0), -(ptrdiff_t)a->nb[1], t->ne[1] - at.i1};
}
static int op_WIN_PART(const gg_work *w, ggml_tensor *dst) { return rows_from(w, dst, window_of); }
static int op_WIN_UNPART(const gg_work *w, ggml_tensor *dst) { return rows_from(w, dst, pixel_of); }
static int op_GET_REL_POS(const gg_work *w, ggml_tensor *dst) { return rows_from(w, dst, distance_of); }

/* a as [rows, h, w]: to each of its rows the row's pw along w and ph along h. */
static int op_ADD_REL_POS(const gg_work *w, ggml_tensor *dst) {
    const int64_t n = dst->src[1]->ne[0];
    const float *a = dst->src[0]->data, *pw = dst->src[1]->data, *ph = dst->src[2]->data;
    float *y = dst->data;
    int64_t i0, i1;
    while (gg_next(w, gg_nrows(dst) * n, 1 + 4096 / n, &i0, &i1))
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

/* ---- triangles and diagonals ------------------------------------------------------------------------------------- */
enum { TRI_UPPER_DIAG, TRI_UPPER, TRI_LOWER_DIAG, TRI_LOWER };

static int op_TRI(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const int kind = dst->op_params[0];
    const int64_t n = dst->ne[0];
    box b;
    int64_t r0, r1;
    row_box(&b, dst->type, (ptrdiff_t)dst->nb[0], a->type, (ptrdiff_t)a->nb[0], n);
    while (gg_next(w, gg_nrows(dst), 1 + 4096 / n, &r0, &r1))
        for (int64_t r = r0; r < r1; r++) {
            const row_index at = row_of(dst, r);
            const int64_t cut = min64(n, at.i1 + (kind == TRI_UPPER || kind == TRI_LOWER_DIAG));
            const bool upper = kind == TRI_UPPER_DIAG || kind == TRI_UPPER;
            const int64_t lo = upper ? cut : 0, hi = upper ? n : cut;
            char *d = row_at(dst, at.i1, at.i2, at.i3);
            tile_zero(d, b.d[0], 0, lo, 1, b.du);
            row_copy(&b, d + lo * b.d[0], row_at(a, at.i1, at.i2, at.i3) + lo * b.s[0], hi - lo);
            tile_zero(d + hi * b.d[0], b.d[0], 0, n - hi, 1, b.du);
        }
    return GGML_STATUS_SUCCESS;
}
static int op_DIAG(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const ptrdiff_t dx = (ptrdiff_t)dst->nb[0], unit = gg_types[dst->type].bytes;
    int64_t r0, r1;
    while (gg_next(w, gg_nrows(dst), 1 + 4096 / dst->ne[0], &r0, &r1))
        for (int64_t r = r0; r < r1; r++) {
            const row_index at = row_of(dst, r);
            char *d = row_at(dst, at.i1, at.i2, at.i3);
            tile_zero(d, dx, 0, dst->ne[0], 1, unit);
            memcpy(d + at.i1 * dx, row_at(a, 0, at.i2, at.i3) + (size_t)at.i1 * a->nb[0], (size_t)unit);
        }
    return GGML_STATUS_SUCCESS;
}

/* ---- from nothing ------------------------------------------------------------------------------------------------ */
static void tile_FILL(float *const *p, int64_t n, bool stream, const void *arg) {
    const vf c = vf_set1(*(const float *)arg);
    int64_t i = 0;
    for (; i + VW <= n; i += VW) gg_put(p[0] + i, c, stream);
    if (i < n) vf_storen(p[0] + i, c, (int)(n - i));
}
static int op_FILL(const gg_work *w, ggml_tensor *dst) {
    return gg_map(w, dst, &dst, 1, 1, false, tile_FILL, dst->op_params);
}
static int op_ARANGE(const gg_work *w, ggml_tensor *dst) {
    const float start = gg_param_f32(dst, 0), step = gg_param_f32(dst, 2);
    float *y = dst->data;
    int64_t i0, i1;
    while (gg_next(w, dst->ne[0], 4096, &i0, &i1)) {
        int64_t i = i0;
        for (; i + VW <= i1 && i1 <= INT32_MAX; i += VW) {               /* the index as int32 */
            const vf at = vi_to_vf(vi_add(vi_set1((int32_t)i), vi_iota()));
            vf_store(y + i, vf_add(vf_set1(start), vf_mul(vf_set1(step), at)));
        }
        for (; i < i1; i++) y[i] = start + step * (float)i;
    }
    return GGML_STATUS_SUCCESS;
}
/* Row t: cos(t f_j), then sin(t f_j), f_j = max_period^(-j/half); in double, because t f_j may be large. */
static int op_TIMESTEP_EMBEDDING(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const int64_t dim = dst->op_params[0], half = dim / 2;
    const double rate = half ? -log((double)dst->op_params[1]) / (double)half : 0;
    double *freq = gg_scratch((size_t)(half + 1) * sizeof *freq);
    int64_t r0, r1;
    if (!freq) return gg_fail(dst, "out of memory for %lld frequencies", (long long)half);
    for (int64_t j = 0; j < half; j++) freq[j] = exp(rate * (double)j);
    while (gg_next(w, dst->ne[1], 1, &r0, &r1))
        for (int64_t r = r0; r < r1; r++) {
            float *y = (float *)((char *)dst->data + (size_t)r * dst->nb[1]), t;
            memcpy(&t, (const char *)a->data + (size_t)r * a->nb[0], sizeof t);
            for (int64_t j = 0; j < half; j++) y[j] = (float)cos(t * freq[j]), y[j + half] = (float)sin(t * freq[j]);
            if (dim % 2) y[dim - 1] = 0;
        }
    return GGML_STATUS_SUCCESS;
}

#endif
