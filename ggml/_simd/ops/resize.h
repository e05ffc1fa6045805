/* UPSCALE: images to another size by nearest, bilinear (with or without antialiasing) or bicubic interpolation of
 * dimensions 0 and 1, and nearest of dimensions 2 and 3. It is separable: a row of the result is a weighted sum of
 * source rows, then of the elements of that sum. UPSCALE_BACK is its gradient. */
#ifndef GG_OPS_RESIZE_H
#define GG_OPS_RESIZE_H
#include "copy.h"
#include <math.h>

enum { SCALE_NEAREST, SCALE_BILINEAR, SCALE_BICUBIC, SCALE_ALIGN_CORNERS = 256, SCALE_ANTIALIAS = 512 };

typedef struct { int64_t n, src; float factor, centre, support; int mode, taps; } scale_axis;

/* The mapping of dimension `dim` from `from` to `to`. */
static scale_axis scale_of(const ggml_tensor *from, const ggml_tensor *to, int dim, int flags) {
    const int mode = flags & 0xff;
    scale_axis x = {.n = to->ne[dim], .src = from->ne[dim], .centre = 0.5f};
    x.mode = dim < 2 ? mode : SCALE_NEAREST;
    x.factor = (float)x.n / (float)x.src;
    if (flags & SCALE_ALIGN_CORNERS && dim < 2) {
        x.centre = 0;
        if (x.n > 1 && x.src > 1) x.factor = (float)(x.n - 1) / (float)(x.src - 1);
    }
    x.taps = x.mode == SCALE_NEAREST ? 1 : x.mode == SCALE_BILINEAR ? 2 : 4;
    /* a triangle filter as wide as a pixel of the result */
    if (x.mode == SCALE_BILINEAR && flags & SCALE_ANTIALIAS) {
        x.support = x.factor < 1 ? 1 / x.factor : 1;
        x.taps = (int)(2 * x.support) + 2;
    }
    return x;
}
static inline int64_t clamp_index(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }
static inline int64_t nearest(const scale_axis *x, int64_t i) {
    return clamp_index((int64_t)((float)i / x->factor), x->src);
}

/* Keys' cubic with a = -0.75, at distance 0..1 and 1..2. */
static inline float cubic_near(float x) { return (1.25f * x - 2.25f) * x * x + 1; }
static inline float cubic_far(float x) { return ((-0.75f * x + 3.75f) * x - 6) * x + 3; }

/* The source elements of element i and their weights: x->taps of each. */
static void scale_taps(const scale_axis *x, int64_t i, int32_t *at, float *weight) {
    if (x->mode == SCALE_NEAREST) {
        at[0] = (int32_t)nearest(x, i), weight[0] = 1;
        return;
    }
    if (x->support > 0) {
        const float mid = ((float)i + x->centre) / x->factor;
        const float first = mid - x->support + x->centre, end = mid + x->support + x->centre;
        const int64_t lo = first > 0 ? (int64_t)first : 0, hi = end < (float)x->src ? (int64_t)end : x->src;
        float total = 0;
        for (int k = 0; k < x->taps; k++) {
            const float away = fabsf(((float)(lo + k) - mid + x->centre) / x->support);
            at[k] = (int32_t)clamp_index(lo + k, x->src);
            weight[k] = lo + k < hi && away < 1 ? 1 - away : 0;
            total += weight[k];
        }
        for (int k = 0; k < x->taps && total > 0; k++) weight[k] /= total;
        return;
    }
    const float pos = ((float)i + x->centre) / x->factor - x->centre;
    const int64_t p = (int64_t)floorf(pos);
    if (x->mode == SCALE_BILINEAR) {
        at[0] = (int32_t)clamp_index(p, x->src), at[1] = (int32_t)clamp_index(p + 1, x->src);
        const float d = pos - (float)at[0];
        weight[1] = d < 0 ? 0 : d > 1 ? 1 : d, weight[0] = 1 - weight[1];
        return;
    }
    const float d = pos - (float)p;
    for (int k = 0; k < 4; k++) at[k] = (int32_t)clamp_index(p - 1 + k, x->src);
    weight[0] = cubic_far(d + 1), weight[1] = cubic_near(d);
    weight[2] = cubic_near(1 - d), weight[3] = cubic_far(2 - d);
}
/* y = the weighted sum of the source rows at[]. */
static void mix_rows(const box *row, const char *src, size_t nb, int64_t n, int taps, const int32_t *at,
                     const float *weight, float *tmp, float *y) {
    for (int k = 0; k < taps; k++) {
        if (k && weight[k] == 0) continue;
        row_copy(row, (char *)tmp, src + (size_t)at[k] * nb, n);
        const vf c = vf_set1(weight[k]);
        int64_t j = 0;
        for (; j + VW <= n; j += VW) vf_store(y + j, vf_fma(vf_load(tmp + j), c, k ? vf_load(y + j) : vf_zero()));
        for (; j < n; j++) y[j] = tmp[j] * weight[k] + (k ? y[j] : 0);
    }
}

/* How often each element of a row of m is repeated in a row of n with elements at[]; 0: not equally often. */
static int64_t equal_repeats(const int32_t *at, int64_t m, int64_t n) {
    const int64_t times = m && n % m == 0 ? n / m : 0;
    for (int64_t i = 0; times && i < n; i++)
        if (at[i] != i / times) return 0;
    return times;
}
static void repeat_elements(const float *x, int64_t m, int64_t times, float *restrict y) {
    if (times == 1) memcpy(y, x, (size_t)m * sizeof *x);
    else if (times == 2)
        for (int64_t i = 0; i < m; i++) y[2 * i] = x[i], y[2 * i + 1] = x[i];
    else if (times == 4)
        for (int64_t i = 0; i < m; i++) y[4 * i] = x[i], y[4 * i + 1] = x[i], y[4 * i + 2] = x[i], y[4 * i + 3] = x[i];
    else for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < times; j++) y[i * times + j] = x[i];
}

/* ---- linear, f32 ------------------------------------------------------------------------------------------------- */
/* In higher images, several rows lie between the same two source rows: those are stretched once, then mixed. In lower
 * ones, source rows are mixed, then stretched. */
typedef struct {
    scale_axis x;
    int32_t *at, *next;             /* of each element of a row: the two of the source */
    float *near, *far;              /* and their weights */
    const float *of[2];             /* source rows that are stretched */
    float *row[2];
} stretch;
static bool is_plain(const ggml_tensor *t) { return t->type == GGML_TYPE_F32 && t->nb[0] == sizeof(float); }
/* Twice as wide: the weights are 1/4 and 3/4, so that vectors of two elements each are stored. */
static void double_row(const float *x, int64_t m, float *restrict y) {
    y[0] = x[0];
    for (int64_t i = 0; i + 1 < m; i++) {
        y[2 * i + 1] = x[i] * 0.75f + x[i + 1] * 0.25f;
        y[2 * i + 2] = x[i] * 0.25f + x[i + 1] * 0.75f;
    }
    y[2 * m - 1] = x[m - 1];
}
static void stretch_row(const stretch *s, const float *x, float *restrict y) {
    if (s->x.centre != 0 && s->x.n == 2 * s->x.src) double_row(x, s->x.src, y);
    else for (int64_t i = 0; i < s->x.n; i++) y[i] = x[s->at[i]] * s->near[i] + x[s->next[i]] * s->far[i];
}
/* The stretched form of source row x, which takes the place of another one than `other`. */
static const float *stretched(stretch *s, const float *x, const float *other) {
    for (int k = 0; k < 2; k++)
        if (s->of[k] == x) return s->row[k];
    const int k = s->of[0] == other;
    s->of[k] = x;
    stretch_row(s, x, s->row[k]);
    return s->row[k];
}
static void mix(const float *a, const float *b, float near, float far, int64_t n, float *y) {
    const vf c = vf_set1(near), d = vf_set1(far);
    int64_t i = 0;
    for (; i + VW <= n; i += VW) vf_store(y + i, vf_fma(vf_load(a + i), c, vf_mul(vf_load(b + i), d)));
    for (; i < n; i++) y[i] = a[i] * near + b[i] * far;
}
static int upscale_linear(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const int flags = upscale_params(dst)->mode;
    const scale_axis y = scale_of(a, dst, 1, flags), z = scale_of(a, dst, 2, flags), v = scale_of(a, dst, 3, flags);
    const int64_t n = dst->ne[0], widest = gg_max(n, a->ne[0]);
    const bool higher = dst->ne[1] >= a->ne[1];
    stretch s = {.x = scale_of(a, dst, 0, flags)};
    float *const room = gg_scratch((size_t)(4 * n + 2 * widest) * 4);
    if (!room) return gg_no_memory(dst, "no memory for %lld weights", (long long)n);
    s.at = (int32_t *)room, s.next = s.at + n, s.near = room + 2 * n, s.far = s.near + n;
    s.row[0] = s.far + n, s.row[1] = s.row[0] + widest;
    for (int64_t i = 0; i < n; i++) {
        int32_t at[2];
        float weight[2];
        scale_taps(&s.x, i, at, weight);
        s.at[i] = at[0], s.next[i] = at[1], s.near[i] = weight[0], s.far[i] = weight[1];
    }
    for (int64_t r0, r1; gg_claim_chunk(w, gg_nrows(dst), 1 + 1024 / n, &r0, &r1);)
        for (int64_t r = r0; r < r1; r++) {
            const row_index at = nth_row(dst, r);
            const int64_t i2 = nearest(&z, at.i2), i3 = nearest(&v, at.i3);
            int32_t rows[2];
            float weight[2];
            scale_taps(&y, at.i1, rows, weight);
            const float *const p = (const float *)gg_row_ptr(a, rows[0], i2, i3);
            const float *const q = weight[1] == 0 ? p : (const float *)gg_row_ptr(a, rows[1], i2, i3);
            float *const out = (float *)gg_row_ptr(dst, at.i1, at.i2, at.i3);
            if (!higher) {
                if (p != q) mix(p, q, weight[0], weight[1], a->ne[0], s.row[0]);
                stretch_row(&s, p == q ? p : s.row[0], out);
                continue;
            }
            const float *const first = stretched(&s, p, q), *const second = stretched(&s, q, p);
            if (p == q) memcpy(out, first, (size_t)n * sizeof *out);
            else mix(first, second, weight[0], weight[1], n, out);
        }
    return GGML_STATUS_SUCCESS;
}

static int op_UPSCALE(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const int flags = upscale_params(dst)->mode;
    if ((flags & ~SCALE_ALIGN_CORNERS) == SCALE_BILINEAR && is_plain(a) && is_plain(dst)) return upscale_linear(w, dst);
    const scale_axis x = scale_of(a, dst, 0, flags), y = scale_of(a, dst, 1, flags);
    const scale_axis z = scale_of(a, dst, 2, flags), v = scale_of(a, dst, 3, flags);
    const int64_t n = dst->ne[0], taps = n * x.taps;
    float *wx = gg_scratch((size_t)(2 * taps + 2 * y.taps + 2 * a->ne[0] + n) * 4);
    if (!wx) return gg_no_memory(dst, "no memory for %lld weights", (long long)taps);
    float *wy = wx + taps, *tmp = wy + y.taps, *mixed = tmp + a->ne[0], *out = mixed + a->ne[0];
    int32_t *ix = (int32_t *)(out + n), *iy = ix + taps;
    box in, store;
    int64_t r0, r1;
    const char *last = NULL;                             /* the source row that `out` was made from */
    if (!row_box(w->kernels, &in, GGML_TYPE_F32, 4, a->type, (ptrdiff_t)a->nb[0], a->ne[0]) ||
        !row_box(w->kernels, &store, dst->type, (ptrdiff_t)dst->nb[0], GGML_TYPE_F32, 4, n))
        return no_conversion(dst, a->type, dst->type);
    for (int64_t i = 0; i < n; i++) scale_taps(&x, i, ix + i * x.taps, wx + i * x.taps);
    const int64_t times = x.mode == SCALE_NEAREST ? equal_repeats(ix, a->ne[0], n) : 0;
    while (gg_claim_chunk(w, gg_nrows(dst), 1 + 1024 / n, &r0, &r1))
        for (int64_t r = r0; r < r1; r++) {
            const row_index at = nth_row(dst, r);
            const char *s = gg_row_ptr(a, 0, nearest(&z, at.i2), nearest(&v, at.i3));
            if (x.mode == SCALE_NEAREST) {
                s += (size_t)nearest(&y, at.i1) * a->nb[1];
                const bool plain = !in.convert && in.s[0] == sizeof(float);
                if (s != last && !plain) row_copy(&in, (char *)tmp, s, a->ne[0]);
                const float *from = plain ? (const float *)s : tmp;
                if (times && s != last) repeat_elements(from, a->ne[0], times, out);
                else for (int64_t i = 0; i < n && s != last; i++) out[i] = from[ix[i]];
                row_copy(&store, gg_row_ptr(dst, at.i1, at.i2, at.i3), (const char *)out, n);
                last = s;
                continue;
            }
            scale_taps(&y, at.i1, iy, wy);
            mix_rows(&in, s, a->nb[1], a->ne[0], y.taps, iy, wy, tmp, mixed);
            for (int64_t i = 0; i < n; i++) {
                float sum = mixed[ix[i * x.taps]] * wx[i * x.taps];
                for (int64_t k = i * x.taps + 1; k < (i + 1) * x.taps; k++) sum += mixed[ix[k]] * wx[k];
                out[i] = sum;
            }
            row_copy(&store, gg_row_ptr(dst, at.i1, at.i2, at.i3), (const char *)out, n);
        }
    return GGML_STATUS_SUCCESS;
}

/* sum += weight times the row of g */
static void add_weighted(const box *row, const char *g, int64_t n, float weight, float *tmp, float *sum) {
    row_copy(row, (char *)tmp, g, n);
    const vf c = vf_set1(weight);
    int64_t j = 0;
    for (; j + VW <= n; j += VW) vf_store(sum + j, vf_fma(vf_load(tmp + j), c, vf_load(sum + j)));
    for (; j < n; j++) sum[j] += tmp[j] * weight;
}
/* src: the gradient of the larger image. The result has the shape of the smaller one. A thread collects everything that
 * its rows contributed, so that no two threads write to the same row. */
static int op_UPSCALE_BACK(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *g = dst->src[0];
    const int flags = upscale_params(dst)->mode;
    const scale_axis x = scale_of(dst, g, 0, flags), y = scale_of(dst, g, 1, flags);
    const scale_axis z = scale_of(dst, g, 2, flags), v = scale_of(dst, g, 3, flags);
    const int64_t n = g->ne[0], m = dst->ne[0], nx = n * x.taps, ny = g->ne[1] * y.taps;
    float *wx = gg_scratch((size_t)(2 * nx + 2 * ny + 2 * n + m) * 4);
    if (!wx) return gg_no_memory(dst, "no memory for %lld weights", (long long)(nx + ny));
    float *wy = wx + nx, *tmp = wy + ny, *sum = tmp + n, *out = sum + n;
    int32_t *ix = (int32_t *)(out + m), *iy = ix + nx;
    box in, store;
    int64_t r0, r1;
    if (!row_box(w->kernels, &in, GGML_TYPE_F32, 4, g->type, (ptrdiff_t)g->nb[0], n) ||
        !row_box(w->kernels, &store, dst->type, (ptrdiff_t)dst->nb[0], GGML_TYPE_F32, 4, m))
        return no_conversion(dst, g->type, dst->type);
    for (int64_t i = 0; i < n; i++) scale_taps(&x, i, ix + i * x.taps, wx + i * x.taps);
    for (int64_t i = 0; i < g->ne[1]; i++) scale_taps(&y, i, iy + i * y.taps, wy + i * y.taps);
    while (gg_claim_chunk(w, gg_nrows(dst), 1 + 1024 / (n + ny + 1), &r0, &r1))
        for (int64_t r = r0; r < r1; r++) {
            const row_index at = nth_row(dst, r);
            memset(sum, 0, (size_t)n * sizeof *sum);
            memset(out, 0, (size_t)m * sizeof *out);
            for (int64_t i3 = 0; i3 < g->ne[3]; i3++)
                for (int64_t i2 = 0; i2 < g->ne[2] && nearest(&v, i3) == at.i3; i2++)
                    for (int64_t k = 0; k < ny && nearest(&z, i2) == at.i2; k++)
                        if (iy[k] == at.i1 && wy[k] != 0)
                            add_weighted(&in, gg_row_ptr(g, k / y.taps, i2, i3), n, wy[k], tmp, sum);
            for (int64_t k = 0; k < nx; k++) out[ix[k]] += sum[k / x.taps] * wx[k];
            row_copy(&store, gg_row_ptr(dst, at.i1, at.i2, at.i3), (const char *)out, m);
        }
    return GGML_STATUS_SUCCESS;
}

#endif
