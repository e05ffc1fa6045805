/* Convolutions with 3x3 taps and a stride of 1 by F(2x2, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional
 * Neural Networks" (2015). A square of 2x2 positions of the result is
 *     A' [(G w G') . (B' x B)] A
 * where w are the taps of two channels, x the 4x4 elements of the input that the square reads, and . multiplies
 * elements: 16 multiplications instead of 36. Their sums over the input channels are 16 products of matrices, computed
 * by the tiles of shifted.h. The threads transform the kernel together; each of them transforms a strip of the input
 * and multiplies it while it is in the cache. */
#ifndef GG_OPS_WINOGRAD_H
#define GG_OPS_WINOGRAD_H
#include "shifted.h"

enum {
    WINOGRAD_SIDE = 4,              /* of the squares that are multiplied */
    WINOGRAD_PRODUCTS = WINOGRAD_SIDE * WINOGRAD_SIDE,
    WINOGRAD_FLOATS = 128 << 10,    /* of the transformed input of a strip, so that it stays in the L2 cache */
    WINOGRAD_KERNEL = 1 << 20,      /* of the transformed kernel, so that it stays in the L3 cache */
    WINOGRAD_N = 4 * SHIFTED_N,     /* output channels that are transformed together */
    WINOGRAD_TRIES = 32,            /* divisions of an image that are compared */
    WINOGRAD_TASKS = 8,             /* for each thread at least, if there are enough output channels */
};

typedef struct winograd {
    int64_t across, down;           /* squares in a row of an image, rows of squares */
    int64_t strips, plane;          /* tasks of an image; floats for the squares of one channel of a strip */
    int64_t blocks;                 /* of WINOGRAD_N output channels */
    int64_t input, sums;            /* floats of one of the products: of the transformed input, of a block's sums */
    int64_t line;                   /* floats of a row of the input with its padding */
    const float *kernel;            /* the transformed kernel: products, output channels, input channels */
} winograd;

static inline int64_t winograd_first(const winograd *s, int64_t strip) { return s->down * strip / s->strips; }
static inline int64_t winograd_vectors(const winograd *s, int64_t strip) {
    return gg_ceil_div((winograd_first(s, strip + 1) - winograd_first(s, strip)) * s->across, VW);
}

/* Divides an image into strips that waste few lanes of vectors; returns their vectors, 0: no strip fits. */
static int64_t winograd_strips(const patches *v, winograd *s) {
    const int64_t most = WINOGRAD_FLOATS / WINOGRAD_PRODUCTS / v->c / s->across;         /* rows of squares */
    int64_t best = 0;
    if (most < 1) return 0;
    const int64_t least = gg_ceil_div(s->down, most);
    for (int64_t n = least; n <= gg_min(s->down, least + WINOGRAD_TRIES); n++) {
        const int64_t rows = s->down / n, taller = s->down % n, size = rows * s->across;
        const int64_t vectors = n * gg_ceil_div(size, VW)
            + taller * (gg_ceil_div(size + s->across, VW) - gg_ceil_div(size, VW));
        if (best && size < SHIFTED_V * VW) break;
        if (best && vectors > best) continue;
        best = vectors, s->strips = n, s->plane = gg_ceil_div(size + (taller > 0) * s->across, VW) * VW;
    }
    return best;
}

/* Whether the convolution can be computed so, and in less time. The plan does not depend on the number of threads, and
 * so the result does not either. */
static bool winograd_plan(const patches *v, const gemm *g, winograd *s) {
    const patch_axis *ax = v->ax;
    for (int i = 0; i < 2; i++)
        if (ax[i].taps != 3 || ax[i].stride != 1 || ax[i].dilation != 1 || ax[i].out < 1) return false;
    if (ax[2].out != 1 || ax[2].taps != 1 || ax[2].base || v->c < 1 || v->n < 1 || g->n < 1) return false;
    if (v->c > WINOGRAD_KERNEL / WINOGRAD_PRODUCTS / g->n) return false;
    if (!gg_is_float(g->b.type) || v->to[0] != sizeof(float) || v->to[1] != sizeof(float) * (size_t)ax[0].out)
        return false;
    *s = (winograd){.across = gg_ceil_div(ax[0].out, 2), .down = gg_ceil_div(ax[1].out, 2),
                    .blocks = gg_ceil_div(g->n, WINOGRAD_N)};
    const int64_t vectors = winograd_strips(v, s);
    s->input = v->c * s->plane + VW, s->sums = WINOGRAD_N * s->plane + VW;      /* not a multiple of a page apart */
    s->line = gg_ceil_div(s->across, VW) * 2 * VW + 2 * VW;
    /* cycles for each pair of channels: of the products, the transformed input, sums and kernel */
    const double direct = 4.5 * (double)(gg_ceil_div(ax[0].out * ax[1].out, VW) * v->n);
    const double mine = (8 + 30.0 / (double)g->n + 40.0 / (double)v->c) * (double)(vectors * v->n) + 7;
    return vectors && mine < 0.9 * direct;
}
static size_t winograd_work(const patches *v, const gemm *g) {
    return (size_t)(WINOGRAD_PRODUCTS * v->c * g->n) * sizeof(float);
}

/* G w: the transformed values of three taps. */
static inline void winograd_taps(vf a, vf b, vf c, vf out[WINOGRAD_SIDE]) {
    const vf half = vf_set1(0.5f), outer = vf_mul(half, vf_add(a, c)), inner = vf_mul(half, b);
    out[0] = a, out[1] = vf_add(outer, inner), out[2] = vf_sub(outer, inner), out[3] = c;
}
/* The taps of output channel j with all input channels as contiguous floats: where they are, or in `room`. */
static const float *winograd_floats(const patches *v, const gemm *g, int64_t j, float *room) {
    const gemm_src *const b = &g->b;
    const patches *const kernel = b->context;
    if (b->pack == pack_along_k && b->type == GGML_TYPE_F32) return (const float *)pack_at(b, j, 0);
    if (b->pack == pack_along_k) return b->kernels->to_f32[b->type](pack_at(b, j, 0), room, g->k), room;
    const char *channel = b->data + (size_t)j * kernel->nb_c;
    for (int64_t c = 0; c < v->c; c++, channel += kernel->nb_n)
        for (size_t t = 0; t < 9; t++)
            room[9 * c + (int64_t)t] = pack_value(b->type, channel + t / 3 * kernel->nb[1] + t % 3 * kernel->nb[0]);
    return room;
}
/* Transforms them; room: for so many floats. */
static void winograd_kernel(const patches *v, const gemm *g, int64_t j, float *room, float *to) {
    const float *w = winograd_floats(v, g, j, room);
    const int64_t product = g->n * v->c;
    to += j * v->c;
    for (int64_t c = 0; c < v->c; c += VW, w += 9 * VW) {
        const int64_t n = gg_min(v->c - c, VW);
        const float *channel[VW];
        vf taps[3][4], rows[3][WINOGRAD_SIDE], u[WINOGRAD_SIDE];
        for (int64_t l = 0; l < VW; l++) channel[l] = w + 9 * gg_min(l, n - 1);
        for (int y = 0; y < 3; y++) {                   /* four taps from tap 0, 3, 5: none beyond the ninth */
            vf_transpose4(channel, y < 2 ? 3 * y : 5, taps[y]);
            const vf *const t = taps[y] + (y == 2);
            winograd_taps(t[0], t[1], t[2], rows[y]);
        }
        for (int x = 0; x < WINOGRAD_SIDE; x++) {
            winograd_taps(rows[0][x], rows[1][x], rows[2][x], u);
            for (int y = 0; y < WINOGRAD_SIDE; y++) st(to + (y * WINOGRAD_SIDE + x) * product + c, u[y], n);
        }
    }
}

/* x B for VW squares of a row, where x is one row of the input. */
static inline void winograd_row(const float *x, vf out[WINOGRAD_SIDE]) {
    vf x0, x1, x2, x3;
    vf_load_pairs(x, &x0, &x1), vf_load_pairs(x + 2, &x2, &x3);
    out[0] = vf_sub(x0, x2), out[1] = vf_add(x1, x2), out[2] = vf_sub(x2, x1), out[3] = vf_sub(x1, x3);
}
/* Transforms channel c of `rows` rows of squares from row `first` on. lines: room for their rows of the input. */
static void winograd_input(const patches *v, const gemm *g, const winograd *s, int64_t image, int64_t c, int64_t first,
                           int64_t rows, float *lines, float *to) {
    const patch_axis *ax = v->ax;
    const char *const channel = g->a.data + (size_t)image * v->nb_n + (size_t)c * v->nb_c;
    const int64_t y = ax[1].base + 2 * first;
    const patch_range in = patch_inside(ax[0].in, ax[0].base, 1, s->line);
    const bool plain = patch_is_plain(&g->a, v);
    for (int64_t r = 0; r < 2 * rows + 2; r++) {
        float *line = lines + r * s->line;
        const char *const row = channel + (y + r) * (ptrdiff_t)v->nb[1];
        if (y + r < 0 || y + r >= ax[1].in) memset(line, 0, (size_t)s->line * sizeof *line);
        else if (plain) patch_span((const float *)row + ax[0].base, in, s->line, line);
        else patch_row(g->a.type, row, v->nb[0], ax[0].in, ax[0].base, 1, s->line, 0, line);
    }
    to += c * s->plane;
    const int64_t last = (gg_ceil_div(rows * s->across, VW) - 1) * VW;
    for (int i = 0; i < WINOGRAD_PRODUCTS; i++) vf_store(to + i * s->input + last, vf_zero());
    for (int64_t t = 0; t < s->across; t += VW) {
        const int64_t n = gg_min(s->across - t, VW);
        const float *x = lines + 2 * t;
        vf h[4][WINOGRAD_SIDE];
        winograd_row(x, h[0]), winograd_row(x + s->line, h[1]);
        for (int64_t r = 0; r < rows; r++) {
            float *u = to + r * s->across + t;
            x += 2 * s->line;
            winograd_row(x, h[2]), winograd_row(x + s->line, h[3]);
            GG_UNROLL for (int i = 0; i < WINOGRAD_SIDE; i++, u += s->input) {
                st(u, vf_sub(h[0][i], h[2][i]), n);
                st(u + WINOGRAD_SIDE * s->input, vf_add(h[1][i], h[2][i]), n);
                st(u + 2 * WINOGRAD_SIDE * s->input, vf_sub(h[2][i], h[1][i]), n);
                st(u + 3 * WINOGRAD_SIDE * s->input, vf_sub(h[1][i], h[3][i]), n);
                h[0][i] = h[2][i], h[1][i] = h[3][i];
            }
        }
    }
}

/* A' m: what four sums give for two positions. */
static inline void winograd_pair(const vf m[WINOGRAD_SIDE], vf out[2]) {
    out[0] = vf_add(vf_add(m[0], m[1]), m[2]), out[1] = vf_sub(vf_sub(m[1], m[2]), m[3]);
}
/* Stores the positions of `rows` rows of squares of an output channel; room: positions up to the end of the rows of the
 * result. Returns whether all are finite. */
static bool winograd_output(const winograd *s, const float *sums, int64_t rows, int64_t width, int64_t height,
                            float *y) {
    vf test = vf_zero();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = 0; t < s->across; t += VW) {
            const float *const m = sums + r * s->across + t;
            const int64_t squares = s->across - t;
            vf half[2][WINOGRAD_SIDE], out[2], pair[2];
            GG_UNROLL for (int x = 0; x < WINOGRAD_SIDE; x++) {
                vf column[WINOGRAD_SIDE];
                GG_UNROLL for (int i = 0; i < WINOGRAD_SIDE; i++)
                    column[i] = ld(m + (i * WINOGRAD_SIDE + x) * s->sums, squares);
                winograd_pair(column, out);
                half[0][x] = out[0], half[1][x] = out[1];
            }
            GG_UNROLL for (int i = 0; i < 2; i++) {
                if (2 * r + i >= height) break;
                float *const to = y + (2 * r + i) * width + 2 * t;
                const int64_t n = width - 2 * t;
                winograd_pair(half[i], out);
                test = vf_fma(vf_add(out[0], out[1]), vf_zero(), test);
                vf_pairs(out[0], out[1], &pair[0], &pair[1]);
                st(to, pair[0], n);
                if (n > VW) st(to + VW, pair[1], n - VW);
            }
        }
    return !vm_any(vf_isnan(test));
}

/* Rows of squares first .. first+rows-1 of a block of output channels, from channel j on, as a product of panels. */
typedef struct winograd_part { patches seen; gemm g; gemm_tiling tiling; } winograd_part;
static void winograd_part_make(const patches *v, const gemm *g, int64_t image, int64_t first, int64_t rows, int64_t j,
                               winograd_part *p) {
    p->seen = *v, p->g = *g;
    p->seen.n = 1, p->seen.ax[1].out = gg_min(2 * rows, v->ax[1].out - 2 * first), p->seen.ax[1].base += 2 * first;
    if (v->tail.bias) p->seen.tail.bias += j;
    p->g.m = patches_places(&p->seen), p->g.n = gg_min(WINOGRAD_N, g->n - j);
    p->g.a.context = &p->seen, p->g.a.data += (size_t)image * v->nb_n;
    p->g.b.data += (size_t)j * ((const patches *)g->b.context)->nb_c;
    p->g.c += (size_t)image * v->to_n + (size_t)j * g->c_n + 2 * (size_t)first * v->to[1];
    p->tiling = gemm_plan(&p->g, 1, false);
}

/* Blocks b0 .. b1-1 of output channels of a strip of an image. x: the transformed input, which is there if `ready`; the
 * sums, the rows of the input and then the panels of a part follow it. A sum that is not finite makes others of its
 * square wrong: a product of panels computes the block again. */
static void winograd_task(const patches *v, const gemm *g, const winograd *s, int64_t image, int64_t strip, int64_t b0,
                          int64_t b1, bool ready, const int32_t *at, float *x) {
    const int64_t first = winograd_first(s, strip), rows = winograd_first(s, strip + 1) - first;
    const int64_t vectors = winograd_vectors(s, strip), tiles = gg_ceil_div(vectors, SHIFTED_V);
    const int64_t width = v->ax[0].out, height = gg_min(2 * rows, v->ax[1].out - 2 * first);
    float *const sums = x + WINOGRAD_PRODUCTS * s->input, *const room = sums + WINOGRAD_PRODUCTS * s->sums;
    for (int64_t c = 0; c < v->c && !ready; c++) winograd_input(v, g, s, image, c, first, rows, room, x);
    for (int64_t j0 = b0 * WINOGRAD_N; j0 < gg_min(b1 * WINOGRAD_N, g->n); j0 += WINOGRAD_N) {
        const int64_t n = gg_min(WINOGRAD_N, g->n - j0), ldo = (int64_t)(g->c_n / sizeof(float));
        float *const y = (float *)(g->c + (size_t)image * v->to_n + (size_t)j0 * g->c_n) + 2 * first * width;
        for (int64_t i = 0; i < WINOGRAD_PRODUCTS; i++)
            for (int64_t j = 0; j < n; j += SHIFTED_N)
                for (int64_t t = 0; t < tiles; t++) {
                    const int64_t from = vectors * t / tiles, wide = vectors * (t + 1) / tiles - from;
                    shifted_table[wide][gg_min(n - j, SHIFTED_N)](
                        v->c, at, x + i * s->input + from * VW, s->kernel + (i * g->n + j0 + j) * v->c, v->c,
                        sums + i * s->sums + j * s->plane + from * VW, s->plane, VW, false);
                }
        bool finite = true;
        for (int64_t j = 0; j < n; j++) {
            finite &= winograd_output(s, sums + j * s->plane, rows, width, height, y + j * ldo);
            if (v->tail.bias || v->tail.function) conv_finish(&v->tail, j0 + j, y + j * ldo, height * width);
        }
        if (finite) continue;
        winograd_part p;
        winograd_part_make(v, g, image, first, rows, j0, &p);
        gemm_rows(&p.g, &p.tiling, 0, p.tiling.rows, room);
    }
}

/* Computes what gemm_run would, with winograd_work bytes that the threads share; false: no memory. */
static bool winograd_run(const gg_work *w, const patches *v, const gemm *g, winograd *s) {
    const int64_t rows = gg_ceil_div(s->down, s->strips);
    winograd_part most;
    winograd_part_make(v, g, 0, 0, rows, 0, &most);
    const int64_t room = gg_max((2 * rows + 2) * s->line, gemm_scratch_floats(&most.g, &most.tiling));
    const int64_t floats = WINOGRAD_PRODUCTS * (s->input + s->sums) + room;
    float *const x = gg_scratch((size_t)(floats + v->c) * sizeof *x);
    for (int64_t j = g->n * w->ith / w->nth; x && j < g->n * (w->ith + 1) / w->nth; j++)
        winograd_kernel(v, g, j, x, w->wdata);
    gg_barrier(w);
    if (!x) return false;
    int32_t *const at = (int32_t *)(x + floats);
    for (int64_t c = 0; c < v->c; c++) at[c] = (int32_t)(c * s->plane);
    s->kernel = w->wdata;
    const int64_t strips = s->strips * v->n, chunks = gg_min(gg_ceil_div(WINOGRAD_TASKS * w->nth, strips), s->blocks);
    for (int64_t u, held = -1; (u = gg_claim_piece(w, strips * chunks)) >= 0; held = u / chunks) {
        const int64_t chunk = u % chunks, strip = u / chunks;
        winograd_task(v, g, s, strip / s->strips, strip % s->strips, s->blocks * chunk / chunks,
                      s->blocks * (chunk + 1) / chunks, strip == held, at, x);
    }
    return true;
}

#endif
