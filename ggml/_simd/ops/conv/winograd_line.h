/* Convolutions with 3 or 5 taps along x by F(4, 3) and F(4, 5), as winograd.h explains: 6 multiplications instead of 12
 * and 8 instead of 20 for four positions beside each other, which take the place of a square. The products of all rows
 * of taps are added before they become positions. A long row is divided into segments; strips are rows of a segment.
 *
 * A dilation along x makes so many rows of one, whose elements alternate: their windows follow each other. A dilation
 * along y makes images, as in winograd.h.
 *
 * The points of F(4, 5) are 0, 1/2, 1, 2, the negative ones, and infinity. Its rounding errors are about twice those of
 * the sums of all products (for random data of 256 channels). */
#ifndef GG_OPS_CONV_WINOGRAD_LINE_H
#define GG_OPS_CONV_WINOGRAD_LINE_H
#include "winograd.h"

enum {
    LINE_M = 4,                     /* positions that are computed together */
    LINE_SIDE = 8,                  /* the most products of them */
    LINE_N = 12 * SHIFTED_N,        /* most output channels of which all products are computed before the next ones */
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

/* Transforms the taps of output channel j, row by row; room: for those of all input channels. */
GG_INLINE void line_kernel(const int taps, const patches *v, const gemm *g, const winograd *s, int64_t j,
                           float *room, float *to) {
    const float *const w = winograd_floats(v, g, j, room);
    for (int64_t y = 0; y < s->taps; y++)
        for (int64_t c = 0; c < v->c; c += VW) {
            const int64_t n = gg_min(v->c - c, VW);
            float lanes[5][VW] = {{0}};
            vf x[5], u[LINE_SIDE];
            for (int64_t l = 0; l < n; l++)
                GG_UNROLL for (int t = 0; t < taps; t++) lanes[t][l] = w[((c + l) * s->taps + y) * taps + t];
            GG_UNROLL for (int t = 0; t < taps; t++) x[t] = vf_load(lanes[t]);
            line_taps(taps, x, u);
            for (int i = 0; i < LINE_M + taps - 1; i++) st(to + i * s->kernels + y * v->c + c, u[i], n);
        }
}

/* Rows r0 .. r1-1 of the positions from x on, `width` of each. */
typedef struct line_strip { int64_t x, width, r0, r1; } line_strip;
static inline line_strip line_strip_of(const patches *v, const winograd *s, int64_t strip) {
    const int64_t each = s->strips / s->segments, i = strip % each, x = strip / each * s->across * LINE_M;
    return (line_strip){.x = x, .width = gg_min(s->width, v->ax[0].out - x), .r0 = s->down * i / each,
                        .r1 = gg_min(s->down * (i + 1) / each, v->ax[1].out)};
}
/* Copies the elements that row y of a strip reads of a channel, with those of the padding, to `line`: s->line for each
 * of the rows that the dilation makes. */
static void line_load(const patches *v, const gemm *g, const winograd *s, const char *channel, int64_t x, int64_t y,
                      float *line) {
    const int64_t rows = v->ax[0].dilation;
    y += v->ax[1].base, x += v->ax[0].base;
    if (y < 0 || y >= v->ax[1].in) memset(line, 0, (size_t)(rows * s->line) * sizeof *line);
    else for (int64_t i = 0; i < rows; i++, line += s->line)
        patch_row(g->a.type, channel + y * (ptrdiff_t)v->nb[1], v->nb[0], v->ax[0].in, x + i, rows, s->line, 0, line);
}
/* Transforms channel c of a strip. Vectors are stored whole: what they write beyond a row is overwritten by the next
 * row or channel, or ignored; that of the last channel is not written. */
GG_INLINE void line_input(const int taps, const patches *v, const gemm *g, const winograd *s, int64_t image,
                          int64_t c, bool last, const line_strip *strip, float *energy, float *line, float *to) {
    const char *const channel = g->a.data + (size_t)image * v->nb_n + (size_t)c * v->nb_c;
    to += c * s->windows;
    for (int i = 0; i < s->products; i++) vf_store(to + i * s->input + s->windows - VW, vf_zero());
    for (int64_t r = strip->r0; r < strip->r1 + s->taps - 1; r++, to += s->across, energy += s->pitch) {
        const float *at = line;
        line_load(v, g, s, channel, strip->x, r, line);
        for (int64_t t = 0, left = s->beside; t < s->across; t += VW) {
            const float *window[VW];
            vf x[2 * WINOGRAD_MOST], out[LINE_SIDE];
            for (int l = 0; l < VW; l++) {
                window[l] = at, at += LINE_M;
                if (!--left) left = s->beside, at += taps - 1;
            }
            winograd_elements(window, 0, x);
            vf sum = vf_load(energy + t);
            GG_UNROLL for (int i = 0; i < LINE_M + taps - 1; i++) sum = vf_fma(x[i], x[i], sum);
            vf_store(energy + t, sum);
            line_window(taps, x, out);
            const int64_t n = last ? (strip->r1 + s->taps - 1 - r) * s->across - t : VW;
            float *p = to + t;
            if (n >= VW) GG_UNROLL for (int i = 0; i < LINE_M + taps - 1; i++, p += s->input) vf_store(p, out[i]);
            else for (int i = 0; i < LINE_M + taps - 1; i++, p += s->input) vf_storen(p, out[i], (int)n);
        }
    }
}
/* Stores `width` positions of a row of an output channel. Returns whether all are finite. */
GG_INLINE bool line_positions(const int taps, const winograd *s, const float *sums, int64_t width, float *y) {
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
/* The same for the rows that a dilation makes, whose positions alternate in y; `line` is for them. */
GG_INLINE bool line_output(const int taps, const winograd *s, int64_t dilation, const float *sums, int64_t width,
                           float *line, float *y) {
    if (dilation == 1) return line_positions(taps, s, sums, width, y);
    const bool good = line_positions(taps, s, sums, LINE_M * s->across, line);
    for (int64_t i = 0; i < gg_min(dilation, width); i++, line += LINE_M * s->beside)
        for (int64_t x = i, l = 0; x < width; x += dilation, l++) y[x] = line[l];
    return good;
}

/* Like winograd_products, for several rows of taps: vectors that begin anywhere are packed, a block of k at a time. */
static void line_products(const winograd *s, int64_t channels, const float *kernel, const float *x, int64_t n,
                          int64_t vectors, int64_t tiles, float *tile, float *sums) {
    const int64_t depth = channels * s->taps, plane = s->plane;
    int32_t at[SHIFTED_PACKED_K];
    const int64_t blocks = gg_ceil_div(depth, SHIFTED_PACKED_K), groups = gg_ceil_div(n, SHIFTED_N);
    const int64_t together = shifted_together(gg_ceil_div(depth, blocks));
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t k0 = depth * b / blocks, k = depth * (b + 1) / blocks - k0;
        for (int64_t i = 0; i < k; i++)
            at[i] = (int32_t)((k0 + i) % channels * s->windows + (k0 + i) / channels * s->across);
        shifted_batch batch = {.at = at, .x = x, .tile = tile, .k = k, .places = vectors * VW};
        for (int64_t t0 = 0, t1; t0 < tiles; t0 = t1) {
            t1 = gg_min(t0 + together, tiles);
            shifted_divide(vectors, tiles, t0, t1, &batch);
            for (int64_t q = 0; q < groups; q++) {
                const int64_t j = n * q / groups, few = n * (q + 1) / groups - j;
                shifted_group(&batch, !q, few, kernel + j * depth + k0, depth, sums + j * plane, plane, b > 0, NULL);
            }
        }
    }
}

static void line_input_channel(const patches *v, const gemm *g, const winograd *s, const winograd_piece *task,
                               int64_t c, bool last, float *energy, float *lines) {
    const line_strip strip = line_strip_of(v, s, task->strip);
    LINE(line_input, s, v, g, s, task->image / s->phases, c, last, &strip, energy, lines, task->input);
}
/* Like winograd_task. */
static void line_task(const patches *all, const gemm *whole, const winograd *s, winograd_piece *task, float *sums) {
    winograd_view view = winograd_view_of(all, whole, s, task);
    const patches *const v = &view.v;
    gemm *const g = &view.g;
    const int64_t image = view.image, depth = v->c * s->taps;
    const line_strip strip = line_strip_of(v, s, task->strip);
    const int64_t rows = strip.r1 - strip.r0, vectors = gg_ceil_div(rows * s->across, VW),
        tiles = gg_ceil_div(vectors, SHIFTED_V);
    float *const room = sums + s->products * s->sums, *const tile = room + s->room;
    if (rows < 1) return;                               /* the last phases may have a row less */
    for (int64_t q = 0; q < s->groups && !task->ready && !s->common; q++)
        winograd_group(&view, s, task, q, NULL, room);
    if (!task->ready)
        task->even = winograd_even(s, winograd_energies(s, task), rows + s->taps - 1, s->across);
    for (int64_t b = task->b0; b < task->b1; b++) {
        const int64_t j0 = winograd_first_channel(s, g->n, b), n = winograd_first_channel(s, g->n, b + 1) - j0;
        for (int i = 0; task->even && i < s->products; i++) {
            const float *const kernel = s->kernel + i * s->kernels + j0 * depth;
            const float *const windows = task->input + i * s->input;
            float *const to = sums + i * s->sums;
            if (s->taps == 1) winograd_products(kernel, windows, depth, n, vectors, tiles, s->windows, to, s->plane);
            else line_products(s, v->c, kernel, windows, n, vectors, tiles, tile, to);
        }
        for (int64_t r = strip.r0; r < strip.r1; r++) {
            char *const to = g->c + (size_t)image * v->to_n + (size_t)r * v->to[1] + (size_t)strip.x * v->to[0];
            const float *const row = sums + (r - strip.r0) * s->across;
            bool good = task->even;
            for (int64_t j = 0; task->even && j < n; j++) {
                float *const y = (float *)(to + (size_t)(j0 + j) * g->c_n);
                good &= LINE(line_output, s, s, v->ax[0].dilation, row + j * s->plane, strip.width, room, y);
                conv_finish(&v->tail, j0 + j, y, 0, 1, strip.width);
            }
            if (good) continue;
            winograd_part p;
            winograd_part_make(v, g, image, strip.x, strip.width, r, 1, j0, n, &p);
            gemm_rows(&p.g, &p.tiling, 0, p.tiling.rows, room);
        }
    }
}

static void line_transform(const patches *v, const gemm *g, const winograd *s, int64_t j, float *room, float *to) {
    LINE(line_kernel, s, v, g, s, j, room, to);
}
/* Divides the rows into segments, if they are long, and these into strips whose transformed input has WINOGRAD_FLOATS
 * at most; returns the most rows of a strip, 0: none fits. */
static int64_t line_strips(const patches *v, winograd *s) {
    const int64_t halo = s->taps - 1, fit = WINOGRAD_FLOATS / s->products / gg_max(v->c, SHIFTED_N);
    const int64_t all = v->ax[0].dilation * s->beside, few = gg_max(fit / (halo + gg_min(s->down, 2 * halo + 1)), 1);
    s->across = all;
    if (v->ax[0].dilation == 1 && all > few && few >= VW)
        s->beside = s->across = gg_min(gg_ceil_div(gg_ceil_div(all, gg_ceil_div(all, few)), VW) * VW, few / VW * VW);
    if (s->across * (halo + 1) > fit) return 0;
    s->segments = gg_ceil_div(all, s->across);
    const int64_t strips = gg_ceil_div(s->down, fit / s->across - halo);
    s->strips = strips * s->segments;
    return gg_ceil_div(s->down, strips);
}
/* The plan does not depend on the number of threads. */
static CONV_ONCE bool line_fits(const conv_plan *p, void *part) {
    const patches *const v = &p->product.seen;
    const gemm *const g = &p->product.g;
    winograd *const s = part;
    const patch_axis *ax = v->ax;
    const int64_t taps = ax[0].taps, rows = ax[1].taps, side = LINE_M + taps - 1;
    if (winograd_most(p) < LINE_M || (taps != 3 && taps != 5) || rows < 1 || ax[2].out != 1 || ax[2].taps != 1
        || ax[2].base) return false;
    for (int i = 0; i < 2; i++)
        if (ax[i].stride != 1 || ax[i].out < 1 || ax[i].dilation < 1 || ax[i].dilation > ax[i].out) return false;
    if (v->c < 1 || v->n < 1 || g->n < 1 || !gg_is_float(g->b.type) || v->to[0] != sizeof(float)
        || v->c > WINOGRAD_KERNEL / side / rows / g->n) return false;
    const int64_t phases = rows > 1 ? ax[1].dilation : 1;
    *s = (winograd){.m = LINE_M, .stride = 1, .phases = phases, .step = LINE_M, .side = (int)side, .taps = rows,
                    .products = (int)side, .transformed = (int)side, .down = gg_ceil_div(ax[1].out, phases),
                    .beside = gg_ceil_div(gg_ceil_div(ax[0].out, ax[0].dilation), LINE_M),
                    .transform = line_transform, .channel = line_input_channel, .compute = line_task};
    const int64_t high = line_strips(v, s), halo = rows - 1;
    if (!high) return false;
    s->width = gg_min(s->across * LINE_M, ax[0].out);
    s->line = s->beside * LINE_M + taps - 1;
    s->lines = ax[0].dilation * s->line + LINE_M * VW + VW * taps + LINE_SIDE;
    s->plane = gg_ceil_div(high * s->across, VW) * VW, s->windows = s->plane + halo * s->across;
    s->pitch = gg_ceil_div(s->across, VW) * VW, s->energies = (high + halo) * s->pitch, s->height = 1;
    s->packed = rows > 1 ? SHIFTED_PACKED_FLOATS : 0;       /* a tile has fewer */
    const int64_t groups = WINOGRAD_FLOATS / (side * s->plane) / SHIFTED_N;     /* whose sums stay in the L2 cache */
    winograd_sizes(s, v->c, g->n, SHIFTED_N, gg_max(gg_min(groups * SHIFTED_N, LINE_N), SHIFTED_N));
    winograd_share(s, s->strips * v->n * phases, v->c, p->threads);
    /* cycles for each pair of channels: of the products, of the transforms, of the kernel's */
    const double vectors = (double)(s->strips * s->plane / VW * v->n * phases);
    const double again = (double)s->windows / (double)s->plane;         /* rows are transformed for several strips */
    const double cycles = vectors * (0.5 * (double)(side * rows) + 50 * again / (double)g->n + 40 / (double)v->c)
        + 8 * (double)rows;
    const double positions = (double)(ax[0].out * ax[1].out) * (double)v->n;
    return cycles < 0.9 * 0.5 * (double)(taps * rows) * positions / VW;
}

static const gg_algorithm conv_winograd_line = {
    .bytes = sizeof(winograd), .fits = line_fits, .work = winograd_work, .run = winograd_run,
};

#endif
