/* Convolutions along x with 3 or 5 taps by F(4, 3) and F(4, 5), as winograd.h explains: 6 multiplications instead of 12
 * and 8 instead of 20 for four positions beside each other, which take the place of a square. A row is divided into
 * segments, which take the place of rows of squares.
 *
 * The points of F(4, 5) are 0, 1/2, 1, 2, the negative ones, and infinity. Its rounding errors are about twice those of
 * the sums of all products (for random data of 256 channels). */
#ifndef GG_OPS_CONV_WINOGRAD_LINE_H
#define GG_OPS_CONV_WINOGRAD_LINE_H
#include "winograd.h"

enum {
    LINE_M = 4,                     /* positions that are computed together */
    LINE_SIDE = 8,                  /* the most products of them */
};

/* F(taps, arguments) with taps as a constant */
#define LINE(F, s, ...) ((s)->side == LINE_M + 2 ? F(3, __VA_ARGS__) : F(5, __VA_ARGS__))

/* G w, of transposed taps */
GG_INLINE void line_taps(const int taps, const vf w[5], vf out[LINE_SIDE]) {
    if (taps == 3) {
        winograd_taps(LINE_M, 1, w[0], w[1], w[2], out);
        return;
    }
    const vf four = vf_set1(4), quarter = vf_set1(0.25f);
    const vf half = vf_fma(quarter, vf_fma(quarter, w[4], w[2]), w[0]), odd1 = vf_fma(quarter, w[3], w[1]);
    const vf one = vf_add(vf_add(w[0], w[2]), w[4]), odd2 = vf_add(w[1], w[3]);
    const vf two = vf_fma(four, vf_fma(four, w[4], w[2]), w[0]), odd3 = vf_fma(four, w[3], w[1]);
    const vf even1 = vf_mul(vf_set1(32 / 45.f), half), even3 = vf_mul(vf_set1(1 / 90.f), two);
    const vf f1 = vf_set1(16 / 45.f), f2 = vf_set1(-2 / 9.f), f3 = vf_set1(1 / 45.f);
    out[0] = vf_neg(w[0]);
    out[1] = vf_fma(f1, odd1, even1), out[2] = vf_fnma(f1, odd1, even1);
    out[3] = vf_mul(f2, vf_add(one, odd2)), out[4] = vf_mul(f2, vf_sub(one, odd2));
    out[5] = vf_fma(f3, odd3, even3), out[6] = vf_fnma(f3, odd3, even3);
    out[7] = w[4];
}
/* x B */
GG_INLINE void line_window(const int taps, const vf x[2 * WINOGRAD_MOST], vf out[LINE_SIDE]) {
    if (taps == 3) {
        winograd_window(LINE_M, 1, x, out);
        return;
    }
    const vf quarter = vf_set1(0.25f), half = vf_set1(0.5f), two = vf_set1(2), four = vf_set1(4);
    const vf five = vf_set1(5), most = vf_set1(4.25f), least = vf_set1(1.25f), c = vf_set1(5.25f);
    const vf even1 = vf_fma(four, x[2], vf_fnma(five, x[4], x[6]));
    const vf odd1 = vf_fma(four, x[1], vf_fnma(five, x[3], x[5]));
    const vf even2 = vf_add(x[2], vf_fnma(most, x[4], x[6])), odd2 = vf_add(x[1], vf_fnma(most, x[3], x[5]));
    const vf even3 = vf_fma(quarter, x[2], vf_fnma(least, x[4], x[6]));
    const vf odd3 = vf_fma(quarter, x[1], vf_fnma(least, x[3], x[5]));
    out[0] = vf_fma(c, vf_sub(x[2], x[4]), vf_sub(x[6], x[0]));
    out[7] = vf_fma(c, vf_sub(x[3], x[5]), vf_sub(x[7], x[1]));
    out[1] = vf_fma(half, odd1, even1), out[2] = vf_fnma(half, odd1, even1);
    out[3] = vf_add(even2, odd2), out[4] = vf_sub(even2, odd2);
    out[5] = vf_fma(two, odd3, even3), out[6] = vf_fnma(two, odd3, even3);
}
/* A' y */
GG_INLINE void line_sums(const int taps, const vf y[LINE_SIDE], vf out[WINOGRAD_MOST]) {
    if (taps == 3) {
        winograd_column(LINE_M, 1, y, out);
        return;
    }
    const vf half = vf_set1(0.5f), two = vf_set1(2), quarter = vf_set1(0.25f), four = vf_set1(4);
    const vf even1 = vf_add(y[1], y[2]), odd1 = vf_mul(half, vf_sub(y[1], y[2]));
    const vf even2 = vf_add(y[3], y[4]), odd2 = vf_sub(y[3], y[4]);
    const vf even3 = vf_add(y[5], y[6]), odd3 = vf_mul(two, vf_sub(y[5], y[6]));
    out[0] = vf_add(vf_add(y[0], even1), vf_add(even2, even3));
    out[1] = vf_add(odd1, vf_add(odd2, odd3));
    out[2] = vf_fma(quarter, even1, vf_fma(four, even3, even2));
    out[3] = vf_add(vf_fma(quarter, odd1, y[7]), vf_fma(four, odd3, odd2));
}

/* Transforms the taps of output channel j; room: for those of all input channels. */
GG_INLINE void line_kernel(const int taps, const patches *v, const gemm *g, const winograd *s, int64_t j,
                           float *room, float *to) {
    const float *w = winograd_floats(v, g, j, room);
    for (int64_t c = 0; c < v->c; c += VW, w += taps * VW) {
        const int64_t n = gg_min(v->c - c, VW);
        float lanes[5][VW] = {{0}};
        vf x[5], u[LINE_SIDE];
        for (int64_t l = 0; l < n; l++)
            GG_UNROLL for (int t = 0; t < taps; t++) lanes[t][l] = w[taps * l + t];
        GG_UNROLL for (int t = 0; t < taps; t++) x[t] = vf_load(lanes[t]);
        line_taps(taps, x, u);
        for (int i = 0; i < LINE_M + taps - 1; i++) st(to + i * s->kernels + c, u[i], n);
    }
}

/* The first position of a segment, and how many it has. */
static inline int64_t line_x(const winograd *s, int64_t segment) {
    return segment % s->segments * s->across * LINE_M;
}
static inline int64_t line_width(const patches *v, const winograd *s, int64_t segment) {
    return gg_min(s->across * LINE_M, v->ax[0].out - line_x(s, segment));
}
/* Copies the elements that a segment reads of a channel, with those of the padding, to `line`. */
static void line_load(const patches *v, const gemm *g, const winograd *s, const char *channel, int64_t segment,
                      float *line) {
    const int64_t x = line_x(s, segment) + v->ax[0].base, y = segment / s->segments + v->ax[1].base;
    const int64_t n = s->across * LINE_M + s->side - LINE_M;
    if (y < 0 || y >= v->ax[1].in) memset(line, 0, (size_t)n * sizeof *line);
    else patch_row(g->a.type, channel + y * (ptrdiff_t)v->nb[1], v->nb[0], v->ax[0].in, x, 1, n, 0, line);
}
/* Transforms channel c of segments u0 .. u1-1. Vectors are stored whole: what they write beyond a segment is
 * overwritten by the next segment or channel, or ignored. */
GG_INLINE void line_input(const int taps, const patches *v, const gemm *g, const winograd *s, int64_t image,
                          int64_t c, int64_t u0, int64_t u1, float *energy, float *line, float *to) {
    const char *const channel = g->a.data + (size_t)image * v->nb_n + (size_t)c * v->nb_c;
    to += c * s->plane;
    for (int64_t u = u0; u < u1; u++) {
        line_load(v, g, s, channel, u, line);
        for (int64_t t = 0; t < s->across; t += VW) {
            const float *window[VW];
            vf x[2 * WINOGRAD_MOST], out[LINE_SIDE];
            for (int l = 0; l < VW; l++) window[l] = line + LINE_M * (t + l);
            winograd_elements(window, 0, x);
            vf sum = vf_load(energy + (u - u0) * s->pitch + t);
            GG_UNROLL for (int i = 0; i < LINE_M + taps - 1; i++) sum = vf_fma(x[i], x[i], sum);
            vf_store(energy + (u - u0) * s->pitch + t, sum);
            line_window(taps, x, out);
            float *p = to + (u - u0) * s->across + t;
            GG_UNROLL for (int i = 0; i < LINE_M + taps - 1; i++, p += s->input) vf_store(p, out[i]);
        }
    }
}
/* Stores `width` positions of a segment of an output channel. Returns whether all are finite. */
GG_INLINE bool line_output(const int taps, const winograd *s, const float *sums, int64_t width, float *y) {
    vf test = vf_zero();
    for (int64_t t = 0; t < s->across; t += VW) {
        vf x[LINE_SIDE], out[WINOGRAD_MOST], pairs[WINOGRAD_MOST];
        GG_UNROLL for (int i = 0; i < LINE_M + taps - 1; i++) x[i] = vf_load(sums + t + i * s->sums);
        line_sums(taps, x, out);
        winograd_merge(LINE_M, out, pairs);
        for (int64_t j = 0, left; j < LINE_M && (left = width - LINE_M * t - j * VW) > 0; j++) {
            const vf stored = st(y + LINE_M * t + j * VW, pairs[j], left);
            test = vf_fma(left >= VW ? stored : vf_loadn(y + LINE_M * t + j * VW, (int)left), vf_zero(), test);
        }
    }
    return !vm_any(vf_isnan(test));
}

/* Like winograd_task. */
static void line_task(const patches *v, const gemm *g, const winograd *s, winograd_piece *task,
                      const int32_t *at, float *x) {
    const int64_t image = task->image, u0 = winograd_first(s, task->strip), u1 = winograd_first(s, task->strip + 1);
    const int64_t vectors = winograd_vectors(s, task->strip), tiles = gg_ceil_div(vectors, SHIFTED_V);
    float *const sums = x + s->products * s->input, *const room = sums + s->products * s->sums;
    float *const energy = winograd_energies(s, task, room);
    for (int64_t c = 0; c < v->c && !task->ready; c++) LINE(line_input, s, v, g, s, image, c, u0, u1, energy, room, x);
    if (!task->ready) task->even = winograd_even(energy, u1 - u0, s->across, s->pitch);
    for (int64_t j0 = task->b0 * s->each; j0 < gg_min(task->b1 * s->each, g->n); j0 += s->each) {
        const int64_t n = gg_min(s->each, g->n - j0);
        for (int i = 0; task->even && i < s->products; i++)
            winograd_products(s->kernel + i * s->kernels + j0 * v->c, x + i * s->input, v->c, n, vectors, tiles, at,
                              sums + i * s->sums, s->plane);
        for (int64_t u = u0; u < u1; u++) {
            const int64_t first = line_x(s, u), width = line_width(v, s, u), row = u / s->segments;
            char *const to = g->c + (size_t)image * v->to_n + (size_t)row * v->to[1] + (size_t)first * v->to[0];
            bool good = task->even;
            for (int64_t j = 0; task->even && j < n; j++) {
                float *const y = (float *)(to + (size_t)(j0 + j) * g->c_n);
                good &= LINE(line_output, s, s, sums + j * s->plane + (u - u0) * s->across, width, y);
                conv_finish(&v->tail, j0 + j, y, 0, 1, width);
            }
            if (good) continue;
            winograd_part p;
            winograd_part_make(v, g, image, first, width, row, 1, j0, n, &p);
            gemm_rows(&p.g, &p.tiling, 0, p.tiling.rows, room);
        }
    }
}

static void line_transform(const patches *v, const gemm *g, const winograd *s, int64_t j, float *room, float *to) {
    LINE(line_kernel, s, v, g, s, j, room, to);
}
/* The plan does not depend on the number of threads. */
static bool line_fits(const conv_plan *p, void *part) {
    const patches *const v = &p->product.seen;
    const gemm *const g = &p->product.g;
    winograd *const s = part;
    const patch_axis *ax = v->ax;
    const int64_t taps = ax[0].taps, side = LINE_M + taps - 1;
    if (winograd_most(p) < LINE_M || (taps != 3 && taps != 5) || ax[0].stride != 1 || ax[0].dilation != 1
        || ax[1].taps != 1 || ax[1].stride != 1 || ax[2].out != 1 || ax[2].taps != 1 || ax[2].base) return false;
    if (v->c < 1 || v->n < 1 || g->n < 1 || ax[0].out < 1 || ax[1].out < 1 || !gg_is_float(g->b.type)
        || v->to[0] != sizeof(float) || v->c > WINOGRAD_KERNEL / side / g->n) return false;
    const int64_t all = gg_ceil_div(ax[0].out, LINE_M), fit = WINOGRAD_FLOATS / side / v->c;
    if (fit < VW) return false;
    int64_t across = gg_ceil_div(all, gg_ceil_div(all, fit));
    if (across < all) across = gg_min(gg_ceil_div(across, VW) * VW, fit / VW * VW);
    const int64_t segments = gg_ceil_div(all, across), down = segments * ax[1].out;
    *s = (winograd){.m = LINE_M, .stride = 1, .phases = 1, .step = LINE_M, .side = (int)side, .products = (int)side,
                    .transformed = (int)side, .across = across, .down = down, .segments = segments,
                    .strips = gg_ceil_div(down, gg_max(fit / across, 1)),
                    .width = gg_min(across * LINE_M, ax[0].out), .height = 1,
                    .lines = LINE_M * (across + VW) + LINE_SIDE,
                    .transform = line_transform, .compute = line_task};
    s->plane = gg_ceil_div(gg_ceil_div(down, s->strips) * across, VW) * VW;
    s->pitch = gg_ceil_div(across, VW) * VW, s->energies = gg_ceil_div(down, s->strips) * s->pitch;
    winograd_sizes(s, v->c, g->n, WINOGRAD_N);
    /* cycles for each pair of channels: of the products, of the transforms, of the kernel's */
    const double vectors = (double)(s->strips * s->plane / VW * v->n), positions = (double)(ax[0].out * ax[1].out);
    const double cycles = vectors * (0.5 * (double)side + 50 / (double)g->n + 40 / (double)v->c) + 8;
    return cycles < 0.9 * 0.5 * (double)taps * positions / VW * (double)v->n;
}

static const gg_algorithm conv_winograd_line = {
    .bytes = sizeof(winograd), .fits = line_fits, .work = winograd_work, .run = winograd_run,
};

#endif
