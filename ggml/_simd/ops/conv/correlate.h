/* Gradients of kernels without packed panels (see direct.h): gathering and transposing these costs more than the
 * product if there are few output channels. Rows of x and of the gradient g are copied with the padding of x, and zeros
 * in g where x has padding, so that the gradient by a tap is the dot product of two contiguous ranges. The lanes of a
 * vector are positions; a tile of sums, some taps of some channels, stays in registers for all positions of a few
 * images. */
#ifndef GG_OPS_CONV_CORRELATE_H
#define GG_OPS_CONV_CORRELATE_H
#include "cuts.h"
#include "direct.h"

enum {
    CORRELATE_TAPS = NR > 8 ? 5 : 3, CORRELATE_COLUMNS = NR > 8 ? 5 : 3,     /* of a tile */
    CORRELATE_FLOATS = 1 << 16,     /* of the copies, so that they stay in the L2 cache */
    CORRELATE_MOST = 32,            /* channels of g; with more of them panels are faster */
    CORRELATE_TASKS = 16,
    CORRELATE_SUMS = 1 << 17,       /* most floats of all partial sums */
};

/* A unit is a strip of an image. */
typedef struct correlate {
    direct d;
    int64_t units, together;        /* all units; those that are copied at a time */
    int64_t positions;              /* of a unit, padding included, rounded up to vectors */
    int64_t x_size, g_size, g_row;  /* floats of a unit of x and of g, of a channel of g */
    int64_t cuts, parts, part;      /* cuts of the units, parts of the channels of g; channels of a part */
} correlate;

/* The partial sums of the cuts do not depend on the number of threads. */
static CONV_ONCE bool correlate_fits(const conv_plan *p, void *part) {
    const patches *const v = &p->product.seen;
    const gemm *const g = &p->product.g;
    correlate *const c = part;
    if (v->n < 1 || g->n > CORRELATE_MOST || !direct_plan(v, g, &c->d)) return false;
    direct *const d = &c->d;
    const int64_t out = v->ax[1].out, halo = d->height - d->rows;
    const int64_t most = gg_min(d->rows, gg_max(CORRELATE_FLOATS / (d->width * gg_max(g->n, v->c * d->planes)), 1));
    d->strips = gg_ceil_div(out, most), d->rows = gg_ceil_div(out, d->strips), d->height = d->rows + halo;
    c->units = v->n * d->strips;
    c->positions = gg_ceil_div((d->rows - 1) * d->width + v->ax[0].out, VW) * VW;
    c->cuts = gg_max(gg_min(gg_min(c->units, CORRELATE_TASKS), CORRELATE_SUMS / (g->k * g->n)), 1);
    c->parts = gg_min(gg_ceil_div(CORRELATE_TASKS, c->cuts), gg_ceil_div(g->n, CORRELATE_COLUMNS));
    c->part = gg_ceil_div(g->n, c->parts);
    c->x_size = v->c * d->planes * d->height * d->width;
    c->g_row = gg_ceil_div(d->rows * d->width, VW) * VW, c->g_size = c->part * c->g_row;
    c->together = gg_max(CORRELATE_FLOATS / (c->x_size + c->g_size), 1);
    c->together = gg_min(c->together, gg_ceil_div(c->units, c->cuts));
    return c->x_size + c->g_size <= 4 * CORRELATE_FLOATS;
}

/* The sums of n channels and CORRELATE_TAPS taps, over some units. */
GG_INLINE void correlate_tile(const int n, const correlate *c, int64_t units, const float *x, const int32_t *at,
                              const float *g, float out[CORRELATE_COLUMNS][CORRELATE_TAPS]) {
    vf sum[CORRELATE_COLUMNS][CORRELATE_TAPS];
    const float *p[CORRELATE_TAPS];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int t = 0; t < CORRELATE_TAPS; t++) sum[j][t] = vf_zero();
    for (; units > 0; units--, x += c->x_size, g += c->g_size) {
        GG_UNROLL for (int t = 0; t < CORRELATE_TAPS; t++) p[t] = x + at[t];
        for (int64_t i = 0; i < c->positions; i += VW) {
            vf y[CORRELATE_COLUMNS];
            GG_UNROLL for (int j = 0; j < n; j++) y[j] = vf_load(g + j * c->g_row + i);
            GG_UNROLL for (int t = 0; t < CORRELATE_TAPS; t++) {
                const vf seen = vf_load(p[t] + i);
                GG_UNROLL for (int j = 0; j < n; j++) sum[j][t] = vf_fma(seen, y[j], sum[j][t]);
            }
        }
    }
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int t = 0; t < CORRELATE_TAPS; t++) out[j][t] = vf_hsum(sum[j][t]);
}
#define CORRELATE(n) \
    static void correlate_##n(const correlate *c, int64_t units, const float *x, const int32_t *at, const float *g, \
                              float out[CORRELATE_COLUMNS][CORRELATE_TAPS]) { \
        correlate_tile(n < CORRELATE_COLUMNS ? n : CORRELATE_COLUMNS, c, units, x, at, g, out); \
    }
CORRELATE(1) CORRELATE(2) CORRELATE(3) CORRELATE(4) CORRELATE(5)
#undef CORRELATE
static void (*const correlate_table[])(const correlate *, int64_t, const float *, const int32_t *, const float *,
                                       float (*)[CORRELATE_TAPS]) = {
    NULL, correlate_1, correlate_2, correlate_3, correlate_4, correlate_5
};

/* Copies channels j0 to j1 of a strip of g. The copy has zeros already; the padding of rows keeps them. */
static void correlate_load(const patches *v, const gemm *g, const correlate *c, const patches *other, int64_t unit,
                           int64_t j0, int64_t j1, float *out) {
    const int64_t width = c->d.width, first = unit % c->d.strips * c->d.rows, n = v->ax[0].out;
    const int64_t rows = gg_min(c->d.rows, v->ax[1].out - first);
    const char *const strip = g->b.data + (size_t)(unit / c->d.strips) * other->nb_n + (size_t)first * other->nb[1];
    const bool plain = g->b.type == GGML_TYPE_F32 && other->nb[0] == sizeof(float);
    for (int64_t j = j0; j < j1; j++, out += c->g_row) {
        for (int64_t r = 0; r < rows; r++) {
            const char *const from = strip + (size_t)j * other->nb_c + (size_t)r * other->nb[1];
            if (plain) patch_copy((const float *)from, n, out + r * width);
            else gg_to_floats(g->b.type, from, other->nb[0], n, out + r * width);
        }
        if (rows < c->d.rows) memset(out + rows * width, 0, (size_t)((c->d.rows - rows) * width) * sizeof *out);
    }
}
/* Adds the products of some units to the sums of channels j0 to j1, or stores them; k, nb: taps of a channel of the
 * result and the bytes from one to the next. */
static void correlate_block(const correlate *c, int64_t units, const float *x, const int32_t *at, const float *g,
                            int64_t n, int64_t k, char *to, size_t nb, bool add) {
    const int64_t each = gg_ceil_div(n, gg_ceil_div(n, CORRELATE_COLUMNS));
    float tile[CORRELATE_COLUMNS][CORRELATE_TAPS];
    for (int64_t j0 = 0; j0 < n; j0 += each)
        for (int64_t t0 = 0; t0 < k; t0 += CORRELATE_TAPS) {
            const int64_t m = gg_min(each, n - j0);
            correlate_table[m](c, units, x, at + t0, g + j0 * c->g_row, tile);
            for (int64_t j = 0; j < m; j++) {
                float *const y = (float *)(to + (size_t)(j0 + j) * nb) + t0;
                const int64_t taps = gg_min(CORRELATE_TAPS, k - t0);
                for (int64_t t = 0; t < taps; t++) y[t] = add ? y[t] + tile[j][t] : tile[j][t];
            }
        }
}

static size_t correlate_work(const conv_plan *p, const void *part) {
    return cuts_work(p, ((const correlate *)part)->cuts);
}
/* Computes one result for each cut; false: no memory. */
static bool correlate_cuts(const gg_work *w, const conv_plan *plan, const correlate *c) {
    const patches *const v = &plan->product.seen, *const other = &plan->product.other;
    const gemm *const g = &plan->product.g;
    char *const out = cuts_place(w, plan, c->cuts);
    const int64_t plane = c->d.height * c->d.width, taps = gg_ceil_div(g->m, CORRELATE_TAPS) * CORRELATE_TAPS;
    const int64_t x_all = gg_ceil_div(c->together * c->x_size + 2 * VW, VW) * VW, g_all = c->together * c->g_size;
    float *const x = gg_scratch((size_t)(x_all + g_all + taps) * sizeof *x);
    if (!x) return false;
    float *const y = x + x_all;
    int32_t *const at = (int32_t *)(y + g_all);
    memset(x, 0, (size_t)(x_all + g_all) * sizeof *x);   /* what the last lanes read beyond a copy must be finite */
    for (int64_t k = 0; k < taps; k++) at[k] = direct_offset(v, &c->d, plane, gg_min(k, g->m - 1));
    for (int64_t u; (u = gemm_next_task(w)) < c->cuts * c->parts;) {
        const int64_t cut = u / c->parts, j0 = u % c->parts * c->part, j1 = gg_min(j0 + c->part, g->n);
        const int64_t first = c->units * cut / c->cuts, end = c->units * (cut + 1) / c->cuts;
        for (int64_t i = first; i < end; i += c->together) {
            const int64_t n = gg_min(c->together, end - i);
            for (int64_t k = 0; k < n; k++) {
                direct_load(v, g, &c->d, (i + k) / c->d.strips, (i + k) % c->d.strips, x + k * c->x_size);
                correlate_load(v, g, c, other, i + k, j0, j1, y + k * c->g_size);
            }
            correlate_block(c, n, x, at, y, j1 - j0, g->m, out + (size_t)cut * g->c_2 + (size_t)j0 * g->c_n, g->c_n,
                            i > first);
        }
    }
    return true;
}
static int correlate_run(const gg_work *w, const conv_plan *p, const void *part) {
    const correlate *const c = part;
    const bool ok = correlate_cuts(w, p, c);
    cuts_add(w, p, c->cuts);
    return ok ? GGML_STATUS_SUCCESS : conv_memory(p->dst);
}

static const gg_algorithm conv_correlate = {
    .bytes = sizeof(correlate), .fits = correlate_fits, .work = correlate_work, .run = correlate_run,
};

#endif
