/* Depthwise convolutions of images whose rows fill few lanes of a vector, or for which vectors of positions take more
 * time. The lanes are VW channels. A padded copy of rows of the image has a vector for each position, and so has the
 * result before it is transposed. */
#ifndef GG_OPS_CONV_DEPTHWISE_LANES_H
#define GG_OPS_CONV_DEPTHWISE_LANES_H
#include "depthwise.h"

enum {
    LANES_FLOATS = 1 << 15,         /* of the copy, so that it stays in the second cache */
    LANES_MOST = 8,                 /* outputs that are computed together */
    LANES_WIDE_3 = 28,              /* outputs of a row that fill vectors of positions as well, of 3x3 taps */
    LANES_WIDE_5 = 80, LANES_HIGH_5 = 12,   /* and of 5x5 taps, in so many rows */
};

typedef struct lanes {
    int64_t width, height, rows;    /* positions of a row of the copy; its rows; rows of outputs at a time */
    size_t *from;                   /* bytes from the first element of a channel's kernel to each tap */
    int64_t *at;                    /* floats from the first position that an output reads to those of each tap */
    float *taps, *bias;             /* vectors: the kernel, and a bias */
    float *copy, *sums;
} lanes;

/* The positions of a row that its outputs read. */
static inline int64_t lanes_width(const patch_axis *ax) { return (ax->out - 1) * ax->stride + patch_extent(ax) + 1; }
/* Whether blocks of positions take less time than transposing: sums of 5x5 taps hide more of it than those of 3x3. */
static bool lanes_are_few(const patch_axis *ax) {
    if (ax[0].taps == 3 ? ax[0].out < LANES_WIDE_3 : ax[0].out < LANES_WIDE_5 || ax[1].out < LANES_HIGH_5) return false;
    return depthwise_choose(ax) != NULL;
}
/* Short vectors are filled by short rows as well: with 4 lanes, transposing takes longer than it saves. */
static bool lanes_can(const conv_plan *p) {
    const patches *const v = &p->product.seen;
    const patch_axis *ax = v->ax;
    return VW >= 8 && p->v.x->type == GGML_TYPE_F32 && v->nb[0] == sizeof(float) && gg_contiguous(p->dst)
        && 2 * v->c > VW && !lanes_are_few(ax) && lanes_width(&ax[0]) * (patch_extent(&ax[1]) + 1) <= LANES_FLOATS / VW;
}
/* Plans for as many rows of outputs as fit and give all threads work. */
static CONV_ONCE bool lanes_fits(const conv_plan *p, void *part) {
    const patches *const v = &p->product.seen;
    const patch_axis *ax = v->ax;
    lanes *const l = part;
    if (!lanes_can(p)) return false;
    const int64_t extent = patch_extent(&ax[1]) + 1;
    const int64_t parts = plane_parts(p->threads, gg_ceil_div(v->c, VW) * v->n);
    *l = (lanes){.width = lanes_width(&ax[0])};
    const int64_t fit = (LANES_FLOATS / VW / l->width - extent) / ax[1].stride + 1;
    l->rows = gg_max(gg_min(fit, gg_ceil_div(ax[1].out, parts)), 1);
    l->height = (l->rows - 1) * ax[1].stride + extent;
    return true;
}
/* Takes the memory of a thread; false: there is none. */
static bool lanes_prepare(const gg_conv *q, const patches *v, lanes *l) {
    const patch_axis *ax = v->ax;
    const int64_t taps = ax[0].taps * ax[1].taps;
    const int64_t positions = l->height * l->width, sums = gg_max(l->rows * ax[0].out, VW);
    float *const room = gg_scratch((size_t)((positions + sums + taps + 1) * VW) * sizeof(float)
                                   + (size_t)taps * (sizeof *l->at + sizeof *l->from));
    if (!room) return false;
    l->copy = room, l->sums = l->copy + positions * VW, l->taps = l->sums + sums * VW;
    l->bias = l->taps + taps * VW, l->at = (int64_t *)(l->bias + VW), l->from = (size_t *)(l->at + taps);
    for (int64_t t = 0; t < taps; t++) {
        const int64_t x = t % ax[0].taps, y = t / ax[0].taps;
        l->at[t] = (y * ax[1].dilation * l->width + x * ax[0].dilation) * VW;
        l->from[t] = (size_t)x * gg_conv_w(q).nb[0] + (size_t)y * gg_conv_w(q).nb[1];
    }
    return true;
}
/* The kernels and biases of n channels from c on; lanes beyond them are 0. */
static void lanes_kernels(const gg_conv *q, const patches *v, const lanes *l, int64_t c, int64_t n) {
    const int64_t taps = v->ax[0].taps * v->ax[1].taps;
    memset(l->taps, 0, (size_t)(taps + 1) * VW * sizeof *l->taps);
    for (int64_t i = 0; i < n; i++) {
        const char *const kernel = (const char *)q->w->data + (size_t)(c + i) * gg_conv_w(q).nb_n;
        for (int64_t t = 0; t < taps; t++) l->taps[t * VW + i] = pack_value(q->w->type, kernel + l->from[t]);
        if (v->tail.bias) l->bias[i] = v->tail.bias[c + i];
    }
}
/* The copy of n channels, the first of which is at x, for the rows of outputs o to end. */
static void lanes_load(const patches *v, const lanes *l, const char *x, int64_t n, int64_t o, int64_t end) {
    const patch_axis *ax = v->ax;
    const int64_t top = ax[1].base + o * ax[1].stride, height = (end - o - 1) * ax[1].stride + patch_extent(&ax[1]) + 1;
    const patch_range in = patch_inside(ax[0].in, ax[0].base, 1, l->width);
    for (int64_t y = 0; y < height; y++) {
        float *const row = l->copy + y * l->width * VW;
        const bool inside = top + y >= 0 && top + y < ax[1].in && in.lo < in.hi;
        const patch_range part = inside ? in : (patch_range){l->width, l->width};
        const float *from[VW];
        memset(row, 0, (size_t)part.lo * VW * sizeof *row);
        memset(row + part.hi * VW, 0, (size_t)(l->width - part.hi) * VW * sizeof *row);
        if (!inside) continue;
        for (int64_t i = 0; i < VW; i++)
            from[i] = (const float *)(x + (size_t)(i < n ? i : 0) * v->nb_c + (size_t)(top + y) * v->nb[1])
                + ax[0].base + in.lo;
        pack_transpose(from, in.hi - in.lo, row + in.lo * VW, VW);
    }
}
/* n outputs; each sums its taps in their order. */
GG_INLINE void lanes_some(const int n, const lanes *l, int64_t taps, const float *x, int64_t step, float *out) {
    vf sum[LANES_MOST];
    GG_UNROLL for (int j = 0; j < n; j++) sum[j] = vf_zero();
    for (int64_t t = 0; t < taps; t++) {
        const float *from = x + l->at[t];
        const vf w = vf_keep(vf_load(l->taps + t * VW));
        GG_UNROLL for (int j = 0; j < n; j++) sum[j] = vf_fma(w, vf_load(from + j * step), sum[j]);
    }
    GG_UNROLL for (int j = 0; j < n; j++) vf_store(out + j * VW, vf_add(sum[j], vf_load(l->bias)));
}
/* F(n) for n up to LANES_MOST */
#define LANES_ALL(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8)
#define LANES(n) \
    static void lanes_##n(const lanes *l, int64_t taps, const float *x, int64_t step, float *out) { \
        lanes_some(n, l, taps, x, step, out); \
    }
LANES_ALL(LANES)
#undef LANES
#define LANES(n) [n] = lanes_##n,
typedef void (*lanes_fn)(const lanes *l, int64_t taps, const float *x, int64_t step, float *out);
static const lanes_fn lanes_table[LANES_MOST + 1] = {LANES_ALL(LANES)};
#undef LANES
#ifdef GG_VEC_32
/* The same for `size` by `size` taps that are neighbours: an input is loaded once for all outputs that read it. */
GG_INLINE void lanes_near(const int n, const int size, const int step, const lanes *l, int64_t taps, const float *x,
                          float *out) {
    const int64_t pitch = l->width * VW;
    const float *w = l->taps;
    vf sum[LANES_MOST];
    GG_UNROLL for (int j = 0; j < n; j++) sum[j] = vf_zero();
    for (int64_t row = 0; row < taps; row += size, x += pitch, w += size * VW) {
        vf e[LANES_MOST * 2 + 3];
        GG_UNROLL for (int i = 0; i < step; i++)
            GG_UNROLL for (int j = i; j < (n - 1) * step + size; j += step) e[j] = vf_keep(vf_load(x + j * VW));
        GG_UNROLL for (int t = 0; t < size; t++) {
            const vf k = vf_keep(vf_load(w + t * VW));
            GG_UNROLL for (int j = 0; j < n; j++) sum[j] = vf_fma(k, e[j * step + t], sum[j]);
        }
    }
    const vf bias = vf_load(l->bias);
    GG_UNROLL for (int j = 0; j < n; j++) vf_store(out + j * VW, vf_add(sum[j], bias));
}
#define LANES(n, size, stride) \
    static void lanes_##size##_##stride##_##n(const lanes *l, int64_t taps, const float *x, int64_t step, \
                                              float *out) { \
        (void)step; \
        lanes_near(n, size, stride, l, taps, x, out); \
    }
#define LANES_OF(size, stride) LANES(4, size, stride) LANES(5, size, stride) LANES(6, size, stride) \
    LANES(7, size, stride) LANES(8, size, stride)
LANES_OF(3, 1) LANES_OF(3, 2) LANES_OF(5, 1) LANES_OF(5, 2)
#undef LANES
#define LANES(n, size, stride) [n] = lanes_##size##_##stride##_##n,
static const lanes_fn lanes_near_table[2][2][LANES_MOST + 1] = {
    {{LANES_OF(3, 1)}, {LANES_OF(3, 2)}}, {{LANES_OF(5, 1)}, {LANES_OF(5, 2)}},
};
#undef LANES
#undef LANES_OF
#endif
/* A row of n outputs, which read positions `step` floats apart. The last ones are in two parts of equal size, as the
 * sums of few outputs wait for each other. */
static void lanes_row(const lanes_fn *table, const lanes *l, int64_t taps, const float *x, int64_t step, int64_t n,
                      float *out) {
    for (int64_t few; n > 0; n -= few, x += few * step, out += few * VW) {
        few = n >= 2 * LANES_MOST ? LANES_MOST : n > LANES_MOST ? (n + 1) / 2 : n;
        const lanes_fn some = table[few] ? table[few] : lanes_table[few];
        some(l, taps, x, step, out);
    }
}
/* The functions for numbers of outputs; where one is NULL, lanes_table has it. */
static const lanes_fn *lanes_choose(const patch_axis *ax) {
#ifdef GG_VEC_32
    const int64_t size = ax[0].taps, step = ax[0].stride;
    const bool near = ax[0].dilation == 1 && ax[1].dilation == 1;
    if (near && (size == 3 || size == 5) && ax[1].taps == size && step <= 2)
        return lanes_near_table[size == 5][step == 2];
#endif
    (void)ax;
    return lanes_table;
}
/* Stores n positions of m channels, which are `plane` floats apart; those of a position are ld floats behind those of
 * the one before. The last vector overlaps with the one before. */
static __attribute__((noinline)) void lanes_store(const float *sums, int64_t ld, int64_t n, int64_t m, float *y,
                                                  int64_t plane) {
    for (int64_t p = 0; p < n; p += VW) {
        const float *row[VW];
        float last[VW * VW];
        if (n >= VW) p = gg_min(p, n - VW);
        for (int64_t j = 0; j < VW; j++) row[j] = sums + (p + j) * ld;
        pack_transpose(row, m, n < VW ? last : y + p, n < VW ? VW : (int)plane);
        for (int64_t c = 0; n < VW && c < m; c++) memcpy(y + c * plane, last + c * VW, (size_t)n * sizeof *y);
    }
}
static int lanes_run(const gg_work *w, const conv_plan *p, const void *part) {
    const gg_conv *const q = &p->v;
    const patches *const v = &p->product.seen;
    const patch_axis *ax = v->ax;
    const int64_t blocks = gg_ceil_div(v->c, VW), taps = ax[0].taps * ax[1].taps, plane = ax[0].out * ax[1].out;
    lanes l = *(const lanes *)part;
    if (!lanes_prepare(q, v, &l)) return plane_memory(p->dst);
    const int64_t strips = gg_ceil_div(ax[1].out, l.rows);
    const lanes_fn *const table = lanes_choose(ax);
    int64_t i0, i1, ready = -1;
    while (gg_claim_chunk(w, blocks * v->n * strips, 1, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const int64_t c = i / strips / v->n * VW, n = i / strips % v->n, o = i % strips * l.rows;
            const int64_t end = gg_min(o + l.rows, ax[1].out), m = gg_min(v->c - c, VW), count = (end - o) * ax[0].out;
            if (c != ready) lanes_kernels(q, v, &l, ready = c, m);
            lanes_load(v, &l, (const char *)q->x->data + (size_t)c * v->nb_c + (size_t)n * v->nb_n, m, o, end);
            for (int64_t r = 0; r < end - o; r++)
                lanes_row(table, &l, taps, l.copy + r * ax[1].stride * l.width * VW, ax[0].stride * VW, ax[0].out,
                          l.sums + r * ax[0].out * VW);
            if (v->tail.function) v->tail.finish(NULL, NULL, NULL, 0, l.sums, 0, 1, count * VW);
            float *const y = (float *)((char *)p->dst->data + (size_t)c * gg_conv_g(q).nb_c + (size_t)n * v->to_n);
            lanes_store(l.sums, VW, count, m, y + o * ax[0].out, plane);
        }
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_depthwise_lanes = {.bytes = sizeof(lanes), .fits = lanes_fits, .run = lanes_run};

#endif
