/* A tensor as convolutions read it: images, their channels, the positions of a channel, and windows of positions. */
#ifndef GG_OPS_PATCHES_H
#define GG_OPS_PATCHES_H
#include "../../gemm/gemm.h"
#include "../../runtime/geometry.h"
#include "tail.h"

/* One dimension: tap t of output o reads element o*stride + base + t*dilation, which is 0 outside the input. The
 * dilation is negative where a gradient goes through the taps in reverse. */
typedef struct patch_axis { int64_t in, out, taps, stride, base, dilation; } patch_axis;
/* Elements from the first tap that a window reads to the last. */
static inline int64_t patch_extent(const patch_axis *ax) {
    return ax->taps ? (ax->taps - 1) * (ax->dilation < 0 ? -ax->dilation : ax->dilation) : 0;
}
/* The stride of one output is never used; 1 keeps buffers small. */
static inline int64_t patch_step(int64_t out, int64_t step) { return out > 1 ? step : 1; }

typedef struct patches {
    patch_axis ax[3];
    int64_t c, n;                   /* channels, images */
    size_t nb[3], nb_c, nb_n;       /* byte strides of positions, channels, images */
    size_t to[3], to_n;             /* the same of the result */
    conv_tail tail;
    int more;                       /* is added to each element of a kernel of bytes */
} patches;

static inline int64_t patches_places(const patches *v) { return v->ax[0].out * v->ax[1].out * v->ax[2].out; }
static inline int64_t patches_taps(const patches *v) { return v->ax[0].taps * v->ax[1].taps * v->ax[2].taps; }

/* The lanes l of n for which x + l*step lies within a row of `in` elements. */
typedef struct { int64_t lo, hi; } patch_range;
static inline patch_range patch_inside(int64_t in, int64_t x, int64_t step, int64_t n) {
    patch_range r = {0, n};
    if (x < 0) r.lo = gg_min(n, step == 1 ? -x : (step - 1 - x) / step);
    if (x + (n - 1) * step < in) return r;
    r.hi = x >= in ? r.lo : gg_max(r.lo, step == 1 ? in - x : (in - x + step - 1) / step);
    return r;
}
static inline void patch_copy(const float *p, int64_t n, float *out) {
    int64_t l = 0;
    for (; l + VW <= n; l += VW) vf_store(out + l, vf_load(p + l));
    if (l < n) vf_storen(out + l, vf_loadn(p + l, (int)(n - l)), (int)(n - l));
}
/* out[l] = element x + l*step of a row, `rest` outside the row. */
static inline void patch_row(int type, const char *row, size_t nb, int64_t in, int64_t x, int64_t step, int64_t n,
                             float rest, float *out) {
    const patch_range r = patch_inside(in, x, step, n);
    const size_t stride = nb * (size_t)step;
    const char *p = row + (ptrdiff_t)nb * (x + r.lo * step);
    const int64_t m = r.hi - r.lo;
    for (int64_t l = 0; l < r.lo; l++) out[l] = rest;
    for (int64_t l = r.hi; l < n; l++) out[l] = rest;
    out += r.lo;
    if (m <= 0) return;
    if (type != GGML_TYPE_F32) {
        gg_to_floats(type, p, stride, m, out);
    } else if (stride == sizeof(float)) {
        patch_copy((const float *)p, m, out);
    } else if (stride == 2 * sizeof(float)) {
        const float *f = (const float *)p;
        for (int64_t l = 0; l < m; l++) out[l] = f[2 * l];
    } else if (stride == 4 * sizeof(float)) {
        const float *f = (const float *)p;
        for (int64_t l = 0; l < m; l++) out[l] = f[4 * l];
    } else {
        for (int64_t l = 0; l < m; l++) memcpy(out + l, p + (size_t)l * stride, sizeof *out);
    }
}

/* A run: `n` neighbouring positions in one row, from lane `at` on; x, y, z: what tap 0 reads. */
typedef struct patch_run { int32_t at, n; int64_t x, y, z, image; } patch_run;

/* Splits n positions from i0 on (over all images) into runs; returns their number, at most n. */
static int patch_runs(const patches *v, int64_t i0, int n, patch_run *runs) {
    const patch_axis *ax = v->ax;
    int64_t o0 = i0 % ax[0].out, row = i0 / ax[0].out;
    int count = 0;
    for (int at = 0; at < n; row++, o0 = 0) {
        const int64_t o1 = row % ax[1].out, plane = row / ax[1].out, o2 = plane % ax[2].out;
        patch_run *r = &runs[count++];
        r->at = at, r->n = (int)gg_min(n - at, ax[0].out - o0);
        r->x = o0 * ax[0].stride + ax[0].base, r->y = o1 * ax[1].stride + ax[1].base,
            r->z = o2 * ax[2].stride + ax[2].base;
        r->image = plane / ax[2].out;
        at += r->n;
    }
    return count;
}
/* n floats: those from lo to hi are copied from p, the others are 0. */
static inline void patch_span(const float *p, patch_range in, int64_t n, float *out) {
    if (in.hi - in.lo < n) {
        int64_t l = 0;
        for (; l + VW <= n; l += VW) vf_store(out + l, vf_zero());
        if (l < n) vf_storen(out + l, vf_zero(), (int)(n - l));
    }
    if (in.lo < in.hi) patch_copy(p + in.lo, in.hi - in.lo, out + in.lo);
}
static inline bool patch_is_plain(const gemm_src *s, const patches *v) {
    return s->type == GGML_TYPE_F32 && v->nb[0] * (size_t)v->ax[0].stride == sizeof(float);
}
/* What tap t of channel c reads in a run; `in`: the lanes that lie within the row. */
static inline void patch_fill(const gemm_src *s, const patches *v, const patch_run *r, int64_t c, const int64_t t[3],
                              bool plain, patch_range in, float *out) {
    const int64_t x = r->x + t[0] * v->ax[0].dilation, y = r->y + t[1] * v->ax[1].dilation,
        z = r->z + t[2] * v->ax[2].dilation;
    const char *row = s->data + (size_t)r->image * v->nb_n + (size_t)c * v->nb_c + y * (ptrdiff_t)v->nb[1]
                    + z * (ptrdiff_t)v->nb[2];
    if (y < 0 || y >= v->ax[1].in || z < 0 || z >= v->ax[2].in) in.lo = in.hi = r->n;
    if (plain || in.lo >= in.hi) patch_span((const float *)row + x, in, r->n, out);
    else patch_row(s->type, row, v->nb[0], v->ax[0].in, x, v->ax[0].stride, r->n, 0, out);
}
static inline void patch_tap(const patches *v, int64_t k, int64_t t[3], int64_t *c) {
    for (int i = 0; i < 3; i++) t[i] = k % v->ax[i].taps, k /= v->ax[i].taps;
    *c = k;
}
/* The next tap in dimension `from` and those above. */
static inline void patch_next(const patches *v, int from, int64_t t[3], int64_t *c) {
    for (int i = from; i < 3; i++) {
        if (++t[i] < v->ax[i].taps) return;
        t[i] = 0;
    }
    ++*c;
}

/* n floats, n <= MR. From VW on the last vector overlaps with the one before, as masked stores are slow. */
static inline void patch_lanes(const float *p, int64_t n, float *out) {
    if (n < VW) {
        vf_storen(out, vf_loadn(p, (int)n), (int)n);
        return;
    }
    vf_store(out, vf_load(p));
    if (n > VW) vf_store(out + n - VW, vf_load(p + n - VW));
}
/* For every k from `first` on whose tap has the same x: what these taps read in a run, `width` floats apart for each k.
 * They read the same lanes, and in contiguous f32 the same columns of each row, which takes few instructions: narrow
 * convolutions spend most of their time here. */
static void patch_stripe(const gemm_src *s, const patches *v, const patch_run *r, int64_t k0, int64_t first, int64_t kn,
                         float *out, int width) {
    static const float zeros[MR];
    const int64_t taps = v->ax[0].taps, in1 = v->ax[1].in, dilation1 = v->ax[1].dilation, n = r->n;
    const ptrdiff_t next_row = dilation1 * (ptrdiff_t)v->nb[1];
    int64_t t[3], c;
    patch_tap(v, k0 + first, t, &c);
    const int64_t x = r->x + t[0] * v->ax[0].dilation;
    const patch_range in = patch_inside(v->ax[0].in, x, v->ax[0].stride, n);
    const int64_t seen = in.hi - in.lo;
    const bool plain = patch_is_plain(s, v);
    for (int64_t k = first; seen < n && k < kn; k += taps) patch_lanes(zeros, n, out + k * width);
    if (seen <= 0) return;
    for (int64_t k = first; k < kn; patch_next(v, 2, t, &c)) {
        const int64_t z = r->z + t[2] * v->ax[2].dilation;
        const bool deep = z >= 0 && z < v->ax[2].in;
        int64_t y = r->y + t[1] * dilation1;
        const char *row = s->data + (size_t)r->image * v->nb_n + (size_t)c * v->nb_c + z * (ptrdiff_t)v->nb[2]
                        + y * (ptrdiff_t)v->nb[1];
        for (; t[1] < v->ax[1].taps && k < kn; t[1]++, y += dilation1, row += next_row, k += taps) {
            const bool inside = deep && y >= 0 && y < in1;
            float *to = out + k * width;
            if (plain || !inside) patch_lanes(inside ? (const float *)row + x + in.lo : zeros, seen, to + in.lo);
            else patch_row(s->type, row, v->nb[0], v->ax[0].in, x, v->ax[0].stride, n, 0, to);
        }
        t[1] = 0;
    }
}
/* Whether the taps of a row read contiguous floats, and the positions of a vector are elsewhere: then windows are
 * transposed, instead of gathering the positions of each tap. */
enum { WINDOW_TAPS = 8 };
static inline bool patch_is_window(const gemm_src *s, const patches *v) {
    const patch_axis *const ax = &v->ax[0];
    return s->type == GGML_TYPE_F32 && v->nb[0] == sizeof(float) && ax->dilation == 1 && ax->taps >= WINDOW_TAPS
        && (ax->stride > 1 || ax->out < VW);
}
/* Taps t to t+n of the window of a position; in tmp if some of them are outside the input. */
static const float *patch_window(const gemm_src *s, const patches *v, const patch_run *r, int64_t at, int64_t c,
                                 const int64_t t[3], int64_t n, float *tmp) {
    const int64_t x = r->x + at * v->ax[0].stride + t[0], y = r->y + t[1] * v->ax[1].dilation,
        z = r->z + t[2] * v->ax[2].dilation;
    const char *row = s->data + (size_t)r->image * v->nb_n + (size_t)c * v->nb_c + y * (ptrdiff_t)v->nb[1]
                    + z * (ptrdiff_t)v->nb[2];
    patch_range in = patch_inside(v->ax[0].in, x, 1, n);
    if (y < 0 || y >= v->ax[1].in || z < 0 || z >= v->ax[2].in) in.lo = in.hi = n;
    const float *const p = (const float *)row + x;
    if (in.hi - in.lo == n) return p;
    patch_span(p, in, n, tmp);
    return tmp;
}
/* Packs a panel whose vectors are windows. */
static void pack_windows(const gemm_src *s, int n, const patch_run *runs, int64_t k0, int kn, float *out, int width) {
    const patches *v = s->context;
    float tmp[VW][KC] __attribute__((aligned(64)));
    const float *row[VW];
    int64_t t[3], c, m;
    patch_tap(v, k0, t, &c);
    for (int64_t k = 0; k < kn; k += m, t[0] += m - 1, patch_next(v, 0, t, &c)) {
        const patch_run *r = runs;
        m = gg_min(v->ax[0].taps - t[0], kn - k);
        for (int g = 0; g < n; g += VW) {
            for (int i = 0; i < VW; i++) {
                if (g + i == r->at + r->n && g + i < n) r++;
                row[i] = g + i < n ? patch_window(s, v, r, g + i - r->at, c, t, m, tmp[i]) : row[0];
            }
            pack_transpose(row, m, pack_lane(out, g, kn, width) + k * width, width);
        }
    }
}
/* Packs a panel whose vectors are positions; k runs over the taps of all channels. One panel at a time. */
static void pack_places(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    const patches *v = s->context;
    patch_run runs[MR];
    const int count = kn ? patch_runs(v, i0, n, runs) : 0;
    if (kn && patch_is_window(s, v)) {
        pack_windows(s, n, runs, k0, kn, out, width);
        return;
    }
    for (int r = 0; r < count; r++)
        for (int64_t first = 0; first < gg_min(v->ax[0].taps, kn); first++)
            patch_stripe(s, v, &runs[r], k0, first, kn, out + runs[r].at, width);
}
/* The transpose: vectors are taps, k runs over the positions of all images. */
static void pack_taps(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    const patches *v = s->context;
    const bool plain = patch_is_plain(s, v);
    patch_run runs[KC];
    float tmp[VW][KC] __attribute__((aligned(64)));
    const float *row[VW];
    if (!kn) return;
    const int count = patch_runs(v, k0, kn, runs);
    int64_t t[3], c;
    patch_tap(v, i0, t, &c);
    for (int g = 0; g < n; g += VW) {
        for (int i = 0; i < VW; i++) {
            row[i] = g + i < n ? tmp[i] : tmp[0];
            if (g + i >= n) continue;
            patch_range in = {0, 0};
            for (int r = 0; r < count; r++) {
                if (r < 2 || r == count - 1)            /* the runs in between are whole rows */
                    in = patch_inside(v->ax[0].in, runs[r].x + t[0] * v->ax[0].dilation, v->ax[0].stride, runs[r].n);
                patch_fill(s, v, &runs[r], c, t, plain, in, tmp[i] + runs[r].at);
            }
            patch_next(v, 0, t, &c);
        }
        pack_transpose(row, kn, pack_lane(out, g, kn, width), width);
    }
}
static inline gemm_src patch_source(const gg_kernels *k, const void *data, int type, const patches *v,
                                    gemm_pack_fn pack) {
    return (gemm_src){.data = data, .type = type, .kernels = k, .share2 = 1, .share3 = 1, .pack = pack, .panels = 1,
                      .context = v};
}

/* The byte offset of the result for position i, counted over all images. */
static inline size_t patch_target(const patches *v, int64_t i) {
    const int64_t row = i / v->ax[0].out, plane = row / v->ax[1].out, image = plane / v->ax[2].out;
    return (size_t)(i % v->ax[0].out) * v->to[0] + (size_t)(row % v->ax[1].out) * v->to[1]
         + (size_t)(plane % v->ax[2].out) * v->to[2] + (size_t)image * v->to_n;
}

/* ---- the views of a convolution ---------------------------------------------------------------------------------- */
/* x, as the windows of g read it. */
static inline patches patches_of(const gg_conv_part *x, const int64_t taps[3], const int64_t out[3], const int64_t s[3],
                                 const int64_t p[3], const int64_t d[3]) {
    patches v = {.c = x->c, .n = x->n, .nb_c = x->nb_c, .nb_n = x->nb_n};
    for (int i = 0; i < 3; i++) {
        v.ax[i] = (patch_axis){x->ne[i], out[i], taps[i], patch_step(out[i], s[i]), -p[i], d[i]};
        v.nb[i] = x->nb[i];
    }
    return v;
}
/* A tensor that is read element by element: windows of one element. */
static inline patches patches_plain(const gg_conv_part *t) {
    const int64_t one[3] = {1, 1, 1}, zero[3] = {0, 0, 0};
    return patches_of(t, one, t->ne, one, zero, one);
}
static inline patches patches_of_x(const gg_conv *v) {
    const gg_conv_part w = gg_conv_w(v), x = gg_conv_x(v), g = gg_conv_g(v);
    patches r = patches_of(&x, w.ne, g.ne, v->s, v->p, v->d);
    for (int i = 0; i < 3; i++) r.to[i] = g.nb[i];
    r.to_n = g.nb_n;
    return r;
}
static inline int64_t patch_gcd(int64_t a, int64_t b) {
    while (b) { const int64_t r = a % b; a = b, b = r; }
    return a;
}
/* g, as the positions of x that are `first` modulo the stride read it: tap t of w is multiplied by the element of g at
 * (position + p - t*d)/s, if that is an integer. It is for the taps first_tap, first_tap + tap_step ... */
static inline patches patches_of_g(const gg_conv *v, const int64_t first[3], int64_t first_tap[3],
                                   int64_t tap_step[3]) {
    const gg_conv_part w = gg_conv_w(v), x = gg_conv_x(v), g = gg_conv_g(v);
    patches r = {.c = g.c, .n = g.n, .nb_c = g.nb_c, .nb_n = g.nb_n, .to_n = x.nb_n};
    for (int i = 0; i < 3; i++) {
        const int64_t s = v->s[i], d = v->d[i], at = first[i] + v->p[i], step = s / patch_gcd(s, d),
            end = gg_min(step, w.ne[i]);
        int64_t t = 0;
        while (t < end && (at - t * d) % s) t++;
        first_tap[i] = t, tap_step[i] = step;
        r.ax[i] = (patch_axis){.in = g.ne[i], .out = (x.ne[i] - first[i] + s - 1) / s, .stride = 1,
                               .taps = t < end ? (w.ne[i] - t + step - 1) / step : 0,
                               .base = t < end ? (at - t * d) / s : 0, .dilation = -step * d / s};
        r.nb[i] = g.nb[i], r.to[i] = x.nb[i] * (size_t)s;
    }
    return r;
}
/* The phases of the stride: each consists of the positions of x that the same taps reach. */
static inline int64_t patch_phases(const gg_conv *v) {
    const gg_conv_part x = gg_conv_x(v);
    int64_t n = 1;
    for (int i = 0; i < 3; i++) n *= gg_min(v->s[i], x.ne[i]);
    return n;
}
static inline void patch_phase(const gg_conv *v, int64_t index, int64_t first[3]) {
    const gg_conv_part x = gg_conv_x(v);
    for (int i = 0; i < 3; i++) {
        const int64_t n = gg_min(v->s[i], x.ne[i]);
        first[i] = index % n, index /= n;
    }
}

#endif
