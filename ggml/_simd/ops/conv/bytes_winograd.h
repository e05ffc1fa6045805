/* Convolutions of codes with 3x3 taps by F(2x2, 3x3) (winograd.h), for ISAs that multiply pairs of 16 bits: 16
 * multiplications instead of 36 for a square of 2x2 positions. All numbers are whole: the transformed kernel is
 * multiplied by 4, so that it has no fractions, and the sums are divided by 4 at the end. The elements of transformed
 * windows and kernels are four and nine times the largest ones at most, which fit into 16 bits. */
#ifndef GG_OPS_CONV_BYTES_WINOGRAD_H
#define GG_OPS_CONV_BYTES_WINOGRAD_H
#include "codes.h"
#include "winograd.h"

enum {
    SQUARES_WORDS = 32 << 10,       /* of the transformed input of a strip, so that it stays in the L2 cache */
    SQUARES_NEAR = 1 << 18,         /* words of a transformed kernel that stays in the L2 caches */
    SQUARES_N = NR < 8 ? 4 * NR : 2 * NR,       /* output channels that are transformed together */
};

typedef struct bytes_winograd { codes_plan q; winograd s; } bytes_winograd;

#ifdef GG_VEC_PAIRS
static bool bytes_winograd_fits(const conv_plan *p, void *part) {
    bytes_winograd *const own = part;
    codes_plan *const q = &own->q;
    winograd *const s = &own->s;
    if (!codes_plan_make(q, p, CODES_OF, NR)) return false;
    const patches *const v = q->v;
    const patch_axis *const ax = v->ax;
    for (int i = 0; i < 2; i++) if (ax[i].taps != 3 || ax[i].stride != 1 || ax[i].dilation != 1) return false;
    const int64_t largest = 36 * v->c * (128 + llabs(q->w_offset)) * 255;       /* four times a sum */
    if (winograd_most(p) < 2 || largest > INT32_MAX || v->to[0] != sizeof(float)
        || v->to[1] != sizeof(float) * (size_t)ax[0].out) return false;
    *s = (winograd){.products = 16, .taps = 1, .across = gg_ceil_div(ax[0].out, 2), .down = gg_ceil_div(ax[1].out, 2)};
    const int64_t fit = SQUARES_WORDS / s->products / q->words / s->across;        /* rows of squares */
    if (fit < 1) return false;
    s->strips = gg_ceil_div(s->down, fit);
    const int64_t rows = gg_ceil_div(s->down, s->strips);
    s->plane = s->windows = gg_ceil_div(rows * s->across, MR) * MR, s->lines = (2 * rows + 2) * q->width + 4 * VW;
    winograd_sizes(s, q->words, q->columns, NR, SQUARES_N);
    /* cycles for each image: of the products, and of the transforms of the input, the sums and the kernel, which is
     * written to the L3 cache and read from there if it is large */
    const bool large = s->products * q->words * q->columns > SQUARES_NEAR;
    const double words = (double)q->words, columns = (double)q->columns;
    const double vectors = (double)(s->strips * s->plane / VW);
    const double cycles = vectors * (8 * words * columns + 60 * words + 40 * columns)
        + (large ? 40 : 8) * words * columns;
    return cycles < 0.9 * 4.5 * words * columns * (double)gg_ceil_div(ax[1].out * q->width, VW);
}
static size_t bytes_winograd_work(const conv_plan *p, const void *part) {
    const bytes_winograd *const own = part;
    return codes_work(&own->q, p->threads, own->s.products * own->s.kernels);
}
static inline int64_t squares_room(const codes_plan *q, const winograd *s) {
    return s->products * (s->input + s->sums) + gg_max(s->lines, q->steps);
}

/* 2 G w */
GG_INLINE void squares_taps(vi a, vi b, vi c, vi out[4]) {
    const vi even = vi_add_pairs(a, c);
    out[0] = vi_add_pairs(a, a), out[1] = vi_add_pairs(even, b), out[2] = vi_sub_pairs(even, b);
    out[3] = vi_add_pairs(c, c);
}
/* Transforms output channels j0 .. j1-1 of the kernel; tmp: q->steps words. */
static void squares_pack(const codes_plan *q, const winograd *s, int64_t j0, int64_t j1, float *tmp) {
    for (int64_t j = j0; j < j1; j++) {
        const float *const w = codes_row(q, j, tmp);
        float *const to = q->panels + j * q->words;
        q->totals[j] = 0;
        for (int64_t k = 0; k < q->words; k += VW) {
            const int64_t n = q->words - k;
            vi rows[3][4], u[4];
            for (int y = 0; y < 3; y++) {
                vi taps[3];
                for (int x = 0; x < 3; x++) taps[x] = vf_bits(ld(w + (3 * y + x) * q->words + k, n));
                squares_taps(taps[0], taps[1], taps[2], rows[y]);
            }
            for (int x = 0; x < 4; x++) {
                squares_taps(rows[0][x], rows[1][x], rows[2][x], u);
                for (int y = 0; y < 4; y++) st(to + (4 * y + x) * s->kernels + k, vi_float(u[y]), n);
            }
        }
    }
}

/* x B */
GG_INLINE void squares_window(vi a, vi b, vi c, vi d, vi out[4]) {
    out[0] = vi_sub_pairs(a, c), out[1] = vi_add_pairs(b, c), out[2] = vi_sub_pairs(c, b), out[3] = vi_sub_pairs(b, d);
}
/* Transforms a plane of words for `rows` rows of squares. Vectors are stored whole: what they write beyond a row of
 * squares is overwritten by the next row or word, or ignored. */
static void squares_input(const winograd *s, const float *plane, int64_t width, int64_t rows, float *to) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = 0; t < s->across; t += VW) {
            float *u = to + r * s->across + t;
            vi lines[4][4], out[4];
            GG_UNROLL for (int x = 0; x < 4; x += 2) {
                vf e[4], o[4];
                vi column[4];
                const float *row = plane + 2 * r * width + 2 * t + x;
                GG_UNROLL for (int y = 0; y < 4; y++, row += width) vf_load_pairs(row, &e[y], &o[y]);
                squares_window(vf_bits(e[0]), vf_bits(e[1]), vf_bits(e[2]), vf_bits(e[3]), column);
                GG_UNROLL for (int y = 0; y < 4; y++) lines[y][x] = column[y];
                squares_window(vf_bits(o[0]), vf_bits(o[1]), vf_bits(o[2]), vf_bits(o[3]), column);
                GG_UNROLL for (int y = 0; y < 4; y++) lines[y][x + 1] = column[y];
            }
            GG_UNROLL for (int y = 0; y < 4; y++) {
                squares_window(lines[y][0], lines[y][1], lines[y][2], lines[y][3], out);
                GG_UNROLL for (int x = 0; x < 4; x++, u += s->input) vf_store(u, vi_float(out[x]));
            }
        }
}
/* A' y */
GG_INLINE void squares_column(const vi y[4], vi out[2]) {
    out[0] = vi_add(vi_add(y[0], y[1]), y[2]), out[1] = vi_sub(vi_sub(y[1], y[2]), y[3]);
}
/* Stores `height` x `width` positions of `rows` rows of squares of an output channel, like winograd_output. */
static void squares_output(const winograd *s, const float *sums, int64_t rows, int64_t width, int64_t height,
                           float *y) {
    const float *const end = y + height * width;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = (s->across - 1) / VW * VW; t >= 0; t -= VW) {
            const float *const from = sums + r * s->across + t;
            vi half[2][4], column[4], out[2];
            GG_UNROLL for (int x = 0; x < 4; x++) {
                GG_UNROLL for (int i = 0; i < 4; i++) column[i] = vi_words(from + (4 * i + x) * s->sums);
                squares_column(column, out);
                half[0][x] = out[0], half[1][x] = out[1];
            }
            for (int i = 0; i < gg_min(2, height - 2 * r); i++) {
                vf pairs[2];
                squares_column(half[i], out);
                vf_pairs(vi_to_vf(vi_sra(out[0], 2)), vi_to_vf(vi_sra(out[1], 2)), &pairs[0], &pairs[1]);
                winograd_store(2, pairs, width - 2 * t, y + (2 * r + i) * width + 2 * t, end);
            }
        }
}

/* Like winograd_task. y: of the image; ldy: floats from one channel to the next. */
static void squares_task(const codes_plan *q, const winograd *s, const ggml_tensor *x, const winograd_piece *task,
                         float *y, int64_t ldy) {
    const int64_t first = winograd_first(s, task->strip), rows = winograd_first(s, task->strip + 1) - first;
    const int64_t width = q->v->ax[0].out, height = gg_min(2 * rows, q->v->ax[1].out - 2 * first);
    float *const input = q->copy, *const sums = input + s->products * s->input,
        *const plane = sums + s->products * s->sums;
    for (int64_t k = 0; k < q->words && !task->ready; k++) {
        codes_plane(q, x, task->image, 2 * first, 2 * rows + 2, k, 0, 0, plane);
        squares_input(s, plane, q->width, rows, input + k * s->plane);
    }
    for (int64_t b = task->b0; b < task->b1; b++) {
        const int64_t j0 = winograd_first_channel(s, q->columns, b),
            n = winograd_first_channel(s, q->columns, b + 1) - j0;
        for (int i = 0; i < s->products; i++)
            for (int64_t j = 0; j < n; j += NR)
                for (int64_t f = 0; f < rows * s->across; f += MR)
                    codes_table[gg_min(n - j, NR)](q->words, q->at, input + i * s->input + f,
                                                   q->panels + i * s->kernels + (j0 + j) * q->words,
                                                   sums + i * s->sums + j * s->plane + f, s->plane);
        for (int64_t j = 0; j < n; j++) {
            float *const to = y + (j0 + j) * ldy + 2 * first * width;
            squares_output(s, sums + j * s->plane, rows, width, height, to);
            conv_finish(&q->v->tail, j0 + j, to, ldy, 1, height * width);
        }
    }
}
static void squares_tasks(const gg_work *w, const codes_plan *q, const winograd *s, const ggml_tensor *x, char *y,
                          size_t nb_c) {
    for (int64_t k = 0; k < q->words; k++) q->at[k] = (int32_t)(k * s->plane);
    winograd_piece task = winograd_pieces(w, s->strips, q->v->n, s->blocks);
    while (winograd_claim(w, &task))
        squares_task(q, s, x, &task, (float *)(y + (size_t)task.image * q->v->to_n), (int64_t)(nb_c / sizeof(float)));
}
static int bytes_winograd_run(const gg_work *w, const conv_plan *p, const void *part) {
    const bytes_winograd *const own = part;
    const winograd *const s = &own->s;
    const ggml_tensor *const x = p->v.x;
    codes_plan q = own->q;
    const int64_t copy = squares_room(&q, s), floats = codes_floats(&q);
    codes_seen *const found = codes_shared(&q, w);
    if ((q.copy = gg_scratch((size_t)(copy + floats + q.steps) * sizeof(float)))) {
        q.floats = q.copy + copy, q.at = (int32_t *)(q.floats + floats);
        squares_pack(&q, s, q.columns * w->ith / w->nth, q.columns * (w->ith + 1) / w->nth, q.copy);
        found[w->ith] = codes_look(&q, x, w->ith, w->nth);
    }
    gg_barrier(w);
    if (!codes_ready(found, w->nth)) return conv_memory(p->dst);
    if (!codes_range(&q, found, w->nth)) return codes_give_up(w, p);
    squares_tasks(w, &q, s, x, p->dst->data, gg_conv_g(&p->v).nb_c);
    return GGML_STATUS_SUCCESS;
}
#else
static bool bytes_winograd_fits(const conv_plan *p, void *part) { return (void)p, (void)part, false; }
static size_t bytes_winograd_work(const conv_plan *p, const void *part) { return (void)p, (void)part, 0; }
static int bytes_winograd_run(const gg_work *w, const conv_plan *p, const void *part) {
    return (void)part, conv_otherwise(w, p);
}
#endif

static const gg_algorithm conv_bytes_winograd = {
    .bytes = sizeof(bytes_winograd), .fits = bytes_winograd_fits, .work = bytes_winograd_work,
    .run = bytes_winograd_run, .by_values = true,
};

#endif
