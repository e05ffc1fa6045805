/* The maximum or the average of each window of a channel plane, and the gradients. */
#ifndef GG_OPS_POOL_H
#define GG_OPS_POOL_H
#include "channel_plane.h"
#include <math.h>

#define POOL_NOTHING (-0x1.fffffep127f)   /* the maximum of a window that lies in the padding */

/* The larger of both; r where either is NaN, with `nan` that NaN. */
static inline vf pool_larger(bool nan, vf x, vf r) {
    const vf y = vf_max(x, r);
    return nan ? vf_select(vf_eq(x, x), y, x) : y;
}
/* The maximum of no element. */
static inline float pool_nothing(const gg_pool *q) { return q->nan ? -GG_INF : POOL_NOTHING; }

/* Whether windows of one row tile contiguous rows, so that the tensor is one row. */
static bool pool_is_row(const gg_pool *q) {
    const ggml_tensor *x = q->x, *y = q->y;
    return q->k[1] == 1 && q->s[1] == 1 && q->k[0] == q->s[0] && !q->p[0] && !q->p[1] && y->ne[0] * q->s[0] == x->ne[0]
        && y->ne[1] == x->ne[1] && gg_contiguous(x) && gg_contiguous(y);
}
/* The planes of x and their windows, which have one row in 1-d pooling. */
static patches pool_view(const gg_pool *q) {
    const ggml_tensor *x = q->x, *y = q->y;
    patches v = {.c = x->ne[2], .n = x->ne[3], .nb_c = x->nb[2], .nb_n = x->nb[3], .to_n = y->nb[3]};
    for (int i = 0; i < 2; i++) {
        v.ax[i] = (patch_axis){x->ne[i], y->ne[i], q->k[i], patch_step(y->ne[i], q->s[i]), -q->p[i], 1};
        v.nb[i] = x->nb[i], v.to[i] = y->nb[i];
    }
    return v;
}

/* 1 / the number of elements of each window of a row of outputs; in 1-d pooling the padding does not count. */
static void pool_scales(const gg_pool *q, const patches *v, float *scale) {
    for (int64_t o = 0; o < v->ax[0].out; o++) {
        const patch_range in = patch_inside(v->ax[0].in, o * q->s[0] - q->p[0], 1, q->k[0]);
        const int64_t n = q->inside ? in.hi - in.lo : q->k[0] * q->k[1];
        scale[o] = n ? 1.0f / (float)n : 0;
    }
}
static inline vf pool_sum(const channel_plane *p, int64_t o, int64_t i) {
    const int64_t taps = p->ax[0].taps * p->ax[1].taps;
    vf r = vf_zero();
    for (int64_t t = 0; t < taps; t++) r = vf_add(r, vf_load(plane_at(p, o, t) + i));
    return r;
}
/* The maximum of each window of `rows` rows: first along the rows of the copy into `best`, then across them. */
static void pool_maxima(const channel_plane *p, bool nan, int64_t rows, int64_t across, float *best) {
    const patch_axis *ax = p->ax;
    const int64_t height = (rows - 1) * ax[1].stride + ax[1].taps;
    for (int64_t y = 0; y < height; y++)
        for (int64_t i = 0; i < across; i += VW) {
            vf r = vf_set1(nan ? -GG_INF : POOL_NOTHING);
            for (int64_t t = 0; t < ax[0].taps; t++)
                r = pool_larger(nan, vf_load(p->data + y * p->width + p->tap[t] + i), r);
            vf_store(best + y * across + i, r);
        }
    for (int64_t o = 0; o < rows; o++)
        for (int64_t i = 0; i < across; i += VW) {
            const float *const from = best + o * ax[1].stride * across + i;
            vf r = vf_load(from);
            for (int64_t t = 1; t < ax[1].taps; t++) r = pool_larger(nan, vf_load(from + t * across), r);
            vf_store(best + o * across + i, r);     /* no later row reads this one */
        }
}
/* One window at a time, without its padding: for wide windows, few of which are neighbours. */
static float pool_window(const gg_pool *q, const patches *v, const char *x, patch_range across, patch_range down) {
    const bool max = q->kind == GGML_OP_POOL_MAX;
    const vf nothing = vf_set1(max ? pool_nothing(q) : 0);
    vf r = nothing;
    for (int64_t y = down.lo; y < down.hi; y++)
        for (int64_t i = across.lo; i < across.hi; i += VW) {
            const float *p = (const float *)(x + (size_t)y * v->nb[1]) + i;
            const int64_t n = across.hi - i;
            const vf e = n >= VW ? vf_load(p) : vf_select(vi_gt(vi_set1((int32_t)n), vi_iota()), vf_loadn(p, (int)n),
                                                          nothing);
            r = max ? pool_larger(q->nan, e, r) : vf_add(r, e);
        }
    if (max && q->nan && vm_any(vf_isnan(r))) return NAN;
    return max ? vf_hmax(r) : vf_hsum(r);
}
static int pool_windows(const gg_work *w, ggml_tensor *dst, const gg_pool *q, const patches *v) {
    const bool max = q->kind == GGML_OP_POOL_MAX;
    const int64_t columns = v->ax[0].out, rows = v->ax[1].out;
    int64_t i0, i1;
    while (gg_claim_chunk(w, columns * rows * v->c * v->n, 1, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const int64_t j = i % columns, o = i / columns % rows, c = i / columns / rows % v->c;
            const int64_t n = i / columns / rows / v->c, x0 = j * q->s[0] - q->p[0], y0 = o * q->s[1] - q->p[1];
            const patch_range across = patch_inside(v->ax[0].in, x0, 1, q->k[0]);
            const patch_range down = patch_inside(v->ax[1].in, y0, 1, q->k[1]);
            const char *x = (const char *)q->x->data + (size_t)c * v->nb_c + (size_t)n * v->nb_n;
            char *y = (char *)dst->data + (size_t)c * dst->nb[2] + (size_t)n * v->to_n;
            const float r = pool_window(q, v, x, (patch_range){across.lo + x0, across.hi + x0},
                                        (patch_range){down.lo + y0, down.hi + y0});
            const int64_t taps = q->inside ? across.hi - across.lo : q->k[0] * q->k[1];
            *(float *)(y + (size_t)o * v->to[1] + (size_t)j * v->to[0]) = max ? r : taps ? r * (1.0f / (float)taps) : 0;
        }
    return GGML_STATUS_SUCCESS;
}
/* The maxima of windows that are pieces of one row, side by side. */
GG_INLINE float pool_piece(const bool nan, const float nothing, const float *x, int64_t n) {
    vf r[4];
    int64_t i = 0;
    GG_FOUR(j) r[j] = vf_set1(nothing);
    for (; i + 4 * VW <= n; i += 4 * VW) GG_FOUR(j) r[j] = pool_larger(nan, vf_load(x + i + j * VW), r[j]);
    for (; i < n; i += VW) r[0] = pool_larger(nan, vf_load(x + gg_min(i, n - VW)), r[0]);
    r[0] = pool_larger(nan, pool_larger(nan, r[0], r[1]), pool_larger(nan, r[2], r[3]));
    return nan && vm_any(vf_isnan(r[0])) ? NAN : vf_hmax(r[0]);
}
static bool pool_is_pieces(const gg_pool *q) {
    return q->kind == GGML_OP_POOL_MAX && q->k[0] >= VW && q->x->type == GGML_TYPE_F32 && pool_is_row(q);
}
static int pool_pieces(const gg_work *w, ggml_tensor *dst, const gg_pool *q) {
    const float *const x = q->x->data, nothing = pool_nothing(q);
    const int64_t n = q->k[0];
    for (int64_t i0, i1; gg_claim_chunk(w, gg_nelements(dst), 4096 / (n + 1) + 1, &i0, &i1);)
        for (int64_t i = i0; i < i1; i++)
            ((float *)dst->data)[i] = q->nan ? pool_piece(true, nothing, x + i * n, n)
                                             : pool_piece(false, nothing, x + i * n, n);
    return GGML_STATUS_SUCCESS;
}
/* Rows of outputs from o to end; row: room for a row, and for maxima a row for each of the copy. */
static void pool_strip(const gg_pool *q, const patches *v, const channel_plane *p, const char *x, int64_t o,
                       int64_t end, const float *scale, float *row, char *y) {
    const bool max = q->kind == GGML_OP_POOL_MAX;
    const int64_t across = plane_round(v->ax[0].out);
    plane_load(p, v, q->x->type, x, o, end - o, max ? pool_nothing(q) : 0);
    if (max) pool_maxima(p, q->nan, end - o, across, row);
    for (int64_t r = 0; r < end - o; r++) {
        for (int64_t j = 0; !max && j < across; j += VW)
            vf_store(row + j, vf_mul(pool_sum(p, r, j), vf_load(scale + j)));
        if (max && r) row += across;
        char *const to = y + (size_t)(o + r) * v->to[1];
        if (v->to[0] == sizeof *row) memcpy(to, row, (size_t)v->ax[0].out * sizeof *row);
        else gg_from_floats(GGML_TYPE_F32, row, v->ax[0].out, to, v->to[0]);
    }
}

/* ---- windows of 2 by 2 that tile contiguous rows of f32, without a copy of the plane ----------------------------- */
static bool pool_halves(const gg_pool *q) {
    if (q->kind == GGML_OP_POOL_MAX && q->nan && q->y->ne[0] < VW) return false;    /* there are no vectors */
    for (int i = 0; i < 2; i++)
        if (q->k[i] != 2 || q->s[i] != 2 || q->p[i] != 0 || 2 * q->y->ne[i] > q->x->ne[i]) return false;
    return gg_row_direct(q->x) && gg_row_direct(q->y);
}
/* n outputs of two rows. The compiler makes vectors of these loops. */
static void pool_halve_maxima(const float *a, const float *b, int64_t n, float *restrict y) {
    for (int64_t j = 0; j < n; j++) {
        float r = a[2 * j] > POOL_NOTHING ? a[2 * j] : POOL_NOTHING;
        r = a[2 * j + 1] > r ? a[2 * j + 1] : r;
        r = b[2 * j] > r ? b[2 * j] : r;
        y[j] = b[2 * j + 1] > r ? b[2 * j + 1] : r;
    }
}
static inline float larger_or_nan(float x, float r) { return ((x > r) | (x != x)) ? x : r; }
static void pool_halve_maxima_nan(const float *a, const float *b, int64_t n, float *restrict y) {
    int64_t j = 0;
    for (; j + VW <= n; j += VW) {                            /* the compiler makes no vectors of such conditions */
        vf a0, a1, b0, b1;
        vf_load_pairs(a + 2 * j, &a0, &a1), vf_load_pairs(b + 2 * j, &b0, &b1);
        vf_store(y + j, pool_larger(true, pool_larger(true, a0, a1), pool_larger(true, b0, b1)));
    }
    for (; j < n; j++)
        y[j] = larger_or_nan(larger_or_nan(a[2 * j], a[2 * j + 1]), larger_or_nan(b[2 * j], b[2 * j + 1]));
}
static void pool_halve_row(const gg_pool *q, const float *a, const float *b, int64_t n, float *restrict y) {
    if (q->kind == GGML_OP_POOL_MAX) {
        if (q->nan) pool_halve_maxima_nan(a, b, n, y); else pool_halve_maxima(a, b, n, y);
        return;
    }
    for (int64_t j = 0; j < n; j++)
        y[j] = (0.0f + a[2 * j] + a[2 * j + 1] + b[2 * j] + b[2 * j + 1]) * 0.25f;
}
static int pool_halve(const gg_work *w, ggml_tensor *dst, const gg_pool *q) {
    const ggml_tensor *x = q->x;
    for (int64_t u0, u1; gg_claim_chunk(w, gg_nrows(dst), 2048 / (dst->ne[0] + 1) + 1, &u0, &u1);) {
        row_index at = nth_row(dst, u0);
        for (int64_t u = u0; u < u1; u++, at = next_row(dst, at)) {
            const float *a = (const float *)gg_row_ptr(x, 2 * at.i1, at.i2, at.i3);
            pool_halve_row(q, a, (const float *)((const char *)a + x->nb[1]), dst->ne[0],
                           (float *)gg_row_ptr(dst, at.i1, at.i2, at.i3));
        }
    }
    return GGML_STATUS_SUCCESS;
}
/* Masks instead of conditions, so that the compiler makes vectors of this loop too. */
static inline uint32_t pool_mask(bool yes) { return 0u - (uint32_t)yes; }
static inline float pool_masked(float x, uint32_t mask) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof x), bits &= mask, memcpy(&x, &bits, sizeof x);
    return x;
}
/* The gradients ya and yb of two rows from that of their n outputs: the first maximum of a window gets it. */
static void pool_double_row(bool max, const float *a, const float *b, const float *g, int64_t n, float *restrict ya,
                            float *restrict yb) {
    for (int64_t j = 0; max && j < n; j++) {
        const float a0 = a[2 * j], a1 = a[2 * j + 1], b0 = b[2 * j], b1 = b[2 * j + 1], share = 0.0f + g[j];
        const float m0 = a0 > POOL_NOTHING ? a0 : POOL_NOTHING, m1 = a1 > m0 ? a1 : m0, m2 = b0 > m1 ? b0 : m1;
        const uint32_t is_a1 = pool_mask(a1 > m0), is_b0 = pool_mask(b0 > m1), is_b1 = pool_mask(b1 > m2);
        ya[2 * j] = pool_masked(share, pool_mask(a0 > POOL_NOTHING) & ~(is_a1 | is_b0 | is_b1));
        ya[2 * j + 1] = pool_masked(share, is_a1 & ~(is_b0 | is_b1));
        yb[2 * j] = pool_masked(share, is_b0 & ~is_b1);
        yb[2 * j + 1] = pool_masked(share, is_b1);
    }
    for (int64_t j = 0; !max && j < n; j++)
        ya[2 * j] = ya[2 * j + 1] = yb[2 * j] = yb[2 * j + 1] = 0.0f + g[j] * 0.25f;
}
static int pool_double(const gg_work *w, ggml_tensor *dst, const gg_pool *q) {
    const ggml_tensor *g = q->y, *f = dst->src[1];
    const int64_t n = g->ne[0], pairs = gg_ceil_div(dst->ne[1], 2), rest = dst->ne[0] - 2 * n;
    for (int64_t u0, u1; gg_claim_chunk(w, pairs * dst->ne[2] * dst->ne[3], 2048 / (dst->ne[0] + 1) + 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t o = u % pairs, i2 = u / pairs % dst->ne[2], i3 = u / pairs / dst->ne[2];
            float *const ya = (float *)gg_row_ptr(dst, 2 * o, i2, i3), *const yb = (float *)((char *)ya + dst->nb[1]);
            if (o >= g->ne[1]) {                          /* the last row, if there is an odd number of them */
                memset(ya, 0, (size_t)dst->ne[0] * sizeof *ya);
                continue;
            }
            const float *a = (const float *)gg_row_ptr(f, 2 * o, i2, i3);
            pool_double_row(q->kind == GGML_OP_POOL_MAX, a, (const float *)((const char *)a + f->nb[1]),
                            (const float *)gg_row_ptr(g, o, i2, i3), n, ya, yb);
            for (int64_t i = 0; i < rest; i++) ya[2 * n + i] = yb[2 * n + i] = 0;
        }
    return GGML_STATUS_SUCCESS;
}

/* ---- every window, or every second one, of rows of f32, without a copy of the plane ------------------------------ */
enum { POOL_ROW = 2048 };       /* elements of a row with its padding */
static bool pool_is_near(const gg_pool *q) {
    const int64_t reach = 2 * (q->y->ne[0] - 1) + q->k[0];
    const bool near = q->s[0] == 2 || (q->s[0] == 1 && q->y->ne[0] > VW / 4);
    return near && !(q->inside && q->p[0]) && gg_row_direct(q->x) && gg_row_direct(q->y)
        && q->x->ne[0] + q->p[0] <= POOL_ROW && reach <= POOL_ROW;
}
enum { POOL_SUMS, POOL_MAXIMA, POOL_MAXIMA_NAN };
static inline vf pool_both(const int kind, vf x, vf r) {
    return kind == POOL_SUMS ? vf_add(r, x) : pool_larger(kind == POOL_MAXIMA_NAN, x, r);
}
static inline vf pool_start(const int kind, const gg_pool *q) {
    return vf_set1(kind == POOL_SUMS ? 0 : pool_nothing(q));
}
/* The sums or maxima of the columns of some rows. */
GG_INLINE void pool_columns(const int kind, const gg_pool *q, const char *x, patch_range rows, float *most) {
    const vf nothing = pool_start(kind, q);
    const size_t pitch = q->x->nb[1];
    const char *const first = x + (size_t)rows.lo * pitch;
    const int64_t height = rows.hi - rows.lo;
    for (int64_t i = 0, n = q->x->ne[0]; i < n; i += VW) {
        if (n >= VW) i = gg_min(i, n - VW);             /* masked loads are slow */
        const float *from = (const float *)first + i;
        vf r = nothing;
        for (int64_t y = 0; y < height; y++, from = (const float *)((const char *)from + pitch))
            r = pool_both(kind, ld(from, n - i), r);
        st(most + i, r, n - i);
    }
}
/* The averages or maxima of n windows, from those of the columns. */
GG_INLINE void pool_row(const int kind, const gg_pool *q, const float *most, int64_t n, float *y) {
    const vf nothing = pool_start(kind, q), scale = vf_set1(1.0f / (float)(q->k[0] * q->k[1]));
    const int64_t taps = q->k[0];
    const bool every = q->s[0] == 1;
    for (int64_t j = 0; j < n; j += VW) {
        vf r = nothing;
        for (int64_t t = 0; every && t < taps; t++) r = pool_both(kind, vf_load(most + j + t), r);
        for (int64_t t = 0; !every && t < taps; t += 2) {
            vf even, odd;
            vf_load_pairs(most + 2 * j + t, &even, &odd);
            r = pool_both(kind, even, r);
            if (t + 1 < taps) r = pool_both(kind, odd, r);
        }
        st(y + j, kind == POOL_SUMS ? vf_mul(r, scale) : r, n - j);
    }
}
/* First the columns of as many rows as there is room for, then the windows: a load that crosses recent stores waits. */
GG_INLINE int pool_near(const int kind, const gg_work *w, ggml_tensor *dst, const gg_pool *q) {
    enum { ROOM = POOL_ROW + 2 * VW };                  /* vectors may begin at the last element */
    const ggml_tensor *x = q->x;
    const int64_t n = dst->ne[0], lead = q->p[0], pitch = gg_max(lead + x->ne[0], 2 * (n - 1) + q->k[0]) + 2 * VW;
    const int64_t most_rows = ROOM / pitch;
    _Alignas(64) float most[ROOM];
    float *to[ROOM / (2 * VW)];
    for (int64_t i = 0; i < most_rows * pitch; i++) most[i] = kind == POOL_SUMS ? 0 : pool_nothing(q);
    for (int64_t u0, u1; gg_claim_chunk(w, gg_nrows(dst), 2048 / (x->ne[0] + 1) + 1, &u0, &u1);) {
        row_index at = nth_row(dst, u0);
        for (int64_t rows; u0 < u1; u0 += rows) {
            rows = gg_min(u1 - u0, most_rows);
            for (int64_t r = 0; r < rows; r++, at = next_row(dst, at)) {
                const int64_t top = at.i1 * q->s[1] - q->p[1];
                const patch_range down = patch_inside(x->ne[1], top, 1, q->k[1]);
                pool_columns(kind, q, (const char *)gg_row_ptr(x, 0, at.i2, at.i3),
                             (patch_range){down.lo + top, down.hi + top}, most + r * pitch + lead);
                to[r] = (float *)gg_row_ptr(dst, at.i1, at.i2, at.i3);
            }
            for (int64_t r = 0; r < rows; r++) pool_row(kind, q, most + r * pitch, n, to[r]);
        }
    }
    return GGML_STATUS_SUCCESS;
}

enum { POOL_PIECE = 1024 };     /* outputs of a long row at a time */
static int pool_forward(const gg_work *w, ggml_tensor *dst) {
    const gg_pool q = gg_pool_of(dst);
    if (pool_halves(&q)) return pool_halve(w, dst, &q);
    if (pool_is_near(&q) && q.kind == GGML_OP_POOL_AVG) return pool_near(POOL_SUMS, w, dst, &q);
    if (pool_is_near(&q))
        return q.nan ? pool_near(POOL_MAXIMA_NAN, w, dst, &q) : pool_near(POOL_MAXIMA, w, dst, &q);
    if (pool_is_pieces(&q)) return pool_pieces(w, dst, &q);
    patches v = pool_view(&q);
    if (pool_is_row(&q)) {
        v.ax[0].in = gg_nelements(q.x), v.ax[0].out = gg_nelements(q.y), v.ax[0].stride = q.s[0];
        v.ax[1].in = v.ax[1].out = v.c = v.n = 1;
    }
    const bool few = v.ax[0].out <= VW / 4 && q.k[0] > v.ax[0].out, apart = q.k[0] >= 4 * VW && 2 * q.s[0] >= q.k[0];
    if ((few || apart) && gg_row_direct(q.x)) return pool_windows(w, dst, &q, &v);
    patches part = v;
    part.ax[0].out = gg_min(v.ax[0].out, POOL_PIECE);
    const int64_t pieces = gg_ceil_div(v.ax[0].out, POOL_PIECE), items = v.c * v.n * pieces;
    channel_plane p = plane_plan(&part, plane_parts(w->nth, items), 1);
    const int64_t across = plane_round(v.ax[0].out), strips = plane_strips(&p), low = p.low[0];
    const size_t room = (size_t)(across + p.height * plane_round(part.ax[0].out));
    float *const scale = (float *)plane_scratch(&p, room * sizeof *scale);
    float *const row = scale + across;
    if (!scale) return plane_memory(dst);
    pool_scales(&q, &v, scale);
    int64_t i0, i1;
    while (gg_claim_chunk(w, items * strips, 1, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const int64_t c = i / strips / pieces % v.c, n = i / strips / pieces / v.c, o = i % strips * p.rows;
            const int64_t end = gg_min(o + p.rows, v.ax[1].out), first = i / strips % pieces * POOL_PIECE;
            const char *x = (const char *)q.x->data + (size_t)c * v.nb_c + (size_t)n * v.nb_n;
            char *y = (char *)dst->data + (size_t)c * dst->nb[2] + (size_t)n * v.to_n + (size_t)first * v.to[0];
            part.ax[0].out = gg_min(v.ax[0].out - first, POOL_PIECE);
            part.ax[0].base = v.ax[0].base + first * v.ax[0].stride, p.low[0] = low + first * v.ax[0].stride;
            pool_strip(&q, &part, &p, x, o, end, scale + first, row, y);
        }
    return GGML_STATUS_SUCCESS;
}
static int op_POOL_1D(const gg_work *w, ggml_tensor *dst) { return pool_forward(w, dst); }
static int op_POOL_2D(const gg_work *w, ggml_tensor *dst) { return pool_forward(w, dst); }

/* The number of the tap that holds the first maximum of the window, for a vector of windows. */
static inline vi pool_argmax(const channel_plane *p, int64_t o, int64_t i) {
    const int64_t taps = p->ax[0].taps * p->ax[1].taps;
    vf most = vf_set1(POOL_NOTHING);
    vi at = vi_set1(-1);
    for (int64_t t = 0; t < taps; t++) {
        const vf x = vf_load(plane_at(p, o, t) + i);
        const vm more = vf_gt(x, most);
        most = vf_select(more, x, most), at = vi_select(more, vi_set1((int32_t)t), at);
    }
    return at;
}
/* Adds a row of gradients to the windows in `sum`; x (for maxima) has the same layout. */
static void pool_spread(const channel_plane *sum, const channel_plane *x, int kind, int64_t o, int64_t n,
                        const float *g) {
    const int64_t taps = sum->ax[0].taps * sum->ax[1].taps;
    for (int64_t i = 0; i < n; i += VW) {
        const vf share = vf_load(g + i);
        const vi at = kind == GGML_OP_POOL_MAX ? pool_argmax(x, o, i) : vi_set1(0);
        for (int64_t t = 0; t < taps; t++) {
            float *y = plane_at(sum, o, t) + i;
            const vf part = kind == GGML_OP_POOL_MAX ? vf_select(vi_eq(at, vi_set1((int32_t)t)), share, vf_zero())
                : share;
            vf_store(y, vf_add(vf_load(y), part));
        }
    }
}
static int op_POOL_2D_BACK(const gg_work *w, ggml_tensor *dst) {
    const gg_pool q = gg_pool_of(dst);
    const ggml_tensor *g = q.y, *f = dst->src[1];
    if (pool_halves(&q) && gg_row_direct(f) && dst->ne[1] <= 2 * g->ne[1] + 1) return pool_double(w, dst, &q);
    patches v = pool_view(&q);
    for (int i = 0; i < 2; i++) v.nb[i] = f->nb[i];
    channel_plane sum = plane_plan(&v, 0, 1), x = sum;
    const bool max = q.kind == GGML_OP_POOL_MAX;
    const int64_t across = plane_round(v.ax[0].out);
    const size_t size = (size_t)across * 2 * sizeof(float);
    char *const memory = plane_scratch(&sum, size + (max ? plane_size(&sum) : 0));
    if (!memory) return plane_memory(dst);
    float *const row = (float *)memory, *const scale = row + across;
    if (max) plane_place(&x, memory + size);
    pool_scales(&q, &v, scale);
    memset(row, 0, (size_t)across * sizeof *row);
    int64_t i0, i1;
    while (gg_claim_chunk(w, v.c * v.n, 1, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const int64_t c = i % v.c, n = i / v.c;
            const char *from = (const char *)g->data + (size_t)c * g->nb[2] + (size_t)n * g->nb[3];
            memset(sum.data, 0, (size_t)(sum.height * sum.width) * sizeof(float));
            if (max) plane_load(&x, &v, f->type, (const char *)f->data + (size_t)c * f->nb[2] + (size_t)n * f->nb[3], 0,
                                v.ax[1].out, POOL_NOTHING);
            for (int64_t o = 0; o < v.ax[1].out; o++) {
                gg_to_floats(g->type, from + (size_t)o * g->nb[1], g->nb[0], v.ax[0].out, row);
                for (int64_t j = 0; !max && j < v.ax[0].out; j++) row[j] *= scale[j];
                pool_spread(&sum, &x, q.kind, o, v.ax[0].out, row);
            }
            char *const to = (char *)dst->data + (size_t)c * dst->nb[2] + (size_t)n * dst->nb[3];
            plane_store(&sum, (float *)to, dst->nb[1]);
        }
    return GGML_STATUS_SUCCESS;
}

#endif
