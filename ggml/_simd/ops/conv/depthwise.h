/* Depthwise convolutions by planes: the lanes of a vector are positions of a row. */
#ifndef GG_OPS_CONV_DEPTHWISE_H
#define GG_OPS_CONV_DEPTHWISE_H
#include "../channel_plane.h"
#include "plan.h"

enum { DEPTHWISE_ROWS = 4 };    /* rows of outputs of a block */

/* A bias is added to the outputs of a channel, then they are `least` at least. */
typedef struct depthwise_end { float bias, least; } depthwise_end;

/* Rows 0 to rows - 1 of n outputs of a kernel of `size` by `size` taps: each vector that is loaded serves all rows.
 * Each output sums its taps in the same order as depthwise_some. Rows of out are `pitch` floats apart; the last vector
 * of a row overlaps with the one before, so that none ends behind the row, unless it is the only one. */
GG_INLINE void depthwise_block(const int rows, const int size, const int step, const channel_plane *p,
                               const float *weights, const float *x, int64_t n, depthwise_end end, float *out,
                               int64_t pitch) {
    vf w[5][5];
    const vf bias = vf_set1(end.bias), least = vf_set1(end.least);
    GG_UNROLL for (int t = 0; t < size * size; t++) w[t / size][t % size] = vf_set1(weights[t]);
    for (int64_t i = 0; i < n; i += VW) {
        vf sum[DEPTHWISE_ROWS];
        if (n >= VW) i = gg_min(i, n - VW);
        GG_UNROLL for (int r = 0; r < rows; r++) sum[r] = vf_zero();
        GG_UNROLL for (int y = 0; y < (rows - 1) * step + size; y++) {
            const float *const row = x + y * p->width + i;
            GG_UNROLL for (int t = 0; t < size; t++) {
                const vf e = vf_load(row + p->tap[t]);
                GG_UNROLL for (int r = 0; r < rows; r++)
                    if (y >= r * step && y < r * step + size) sum[r] = vf_fma(w[y - r * step][t], e, sum[r]);
            }
        }
        GG_UNROLL for (int r = 0; r < rows; r++)
            vf_store(out + r * pitch + i, vf_max(least, vf_add(sum[r], bias)));
    }
}
typedef void (*depthwise_fn)(int64_t rows, const channel_plane *p, const float *weights, const float *x, int64_t n,
                             depthwise_end end, float *out, int64_t pitch);
#define DEPTHWISE(size, step) \
    static void depthwise_##size##_##step(int64_t rows, const channel_plane *p, const float *weights, const float *x, \
                                          int64_t n, depthwise_end end, float *out, int64_t pitch) { \
        if (rows == 4) depthwise_block(4, size, step, p, weights, x, n, end, out, pitch); \
        else if (rows == 3) depthwise_block(3, size, step, p, weights, x, n, end, out, pitch); \
        else if (rows == 2) depthwise_block(2, size, step, p, weights, x, n, end, out, pitch); \
        else depthwise_block(1, size, step, p, weights, x, n, end, out, pitch); \
    }
DEPTHWISE(3, 1) DEPTHWISE(3, 2) DEPTHWISE(5, 1) DEPTHWISE(5, 2)
#undef DEPTHWISE
static depthwise_fn depthwise_choose(const patch_axis *ax) {
    static const depthwise_fn functions[2][2] = {{depthwise_3_1, depthwise_3_2}, {depthwise_5_1, depthwise_5_2}};
    const int64_t size = ax[0].taps;
    if ((size != 3 && size != 5) || ax[1].taps != size || ax[0].dilation != 1 || ax[1].dilation != 1
        || ax[1].stride > 2 || 2 * plane_round(ax[0].out) > 3 * ax[0].out) return NULL;
    return functions[size == 5][ax[1].stride == 2];
}

/* A part of the convolution of one channel: the plane that it reads, and the taps of the kernel. */
typedef struct depthwise {
    channel_plane plane;
    float *out, *weights;           /* results of a part; the kernel of a channel */
    size_t *from;                   /* byte offsets of the taps in a kernel */
    int64_t span;                   /* outputs that are computed together: a row, or all rows with their padding */
    depthwise_fn block;             /* computes blocks of rows; NULL: there is no function for these taps */
} depthwise;

/* out[i] = sum over the taps, for `vecs` vectors of outputs */
GG_INLINE void depthwise_some(const int vecs, const channel_plane *p, const float *weights, const float *x,
                              float *out) {
    const int64_t taps = p->ax[0].taps * p->ax[1].taps;
    vf sum[4];
    GG_UNROLL for (int j = 0; j < vecs; j++) sum[j] = vf_zero();
    for (int64_t t = 0; t < taps; t++) {
        const float *from = x + p->tap[t];
        const vf w = vf_set1(weights[t]);
        GG_UNROLL for (int j = 0; j < vecs; j++) sum[j] = vf_fma(w, vf_load(from + j * VW), sum[j]);
    }
    GG_UNROLL for (int j = 0; j < vecs; j++) vf_store(out + j * VW, sum[j]);
}
/* The same for n outputs that follow each other in the copy; out has room for whole vectors. */
static void depthwise_row(const channel_plane *p, const float *weights, const float *x, int64_t n, float *out) {
    for (; n > 3 * VW; n -= 4 * VW, x += 4 * VW, out += 4 * VW) depthwise_some(4, p, weights, x, out);
    if (n > 2 * VW) depthwise_some(3, p, weights, x, out);
    else if (n > VW) depthwise_some(2, p, weights, x, out);
    else if (n > 0) depthwise_some(1, p, weights, x, out);
}
/* Prepares for the patches v and the taps first[], first[] + step[] ... of the kernel; false: no memory. */
static bool depthwise_prepare(const gg_conv *q, const patches *v, const int64_t first[3], const int64_t step[3],
                              channel_plane p, depthwise *d) {
    const gg_conv_part k = gg_conv_w(q);
    const int64_t taps = (int64_t)plane_taps(&p), across = v->ax[0].out;
    d->block = depthwise_choose(v->ax);
    const bool together = !d->block && v->ax[1].stride == 1 && 2 * p.width < 3 * across;
    d->span = d->block ? DEPTHWISE_ROWS * plane_round(across) : together ? (p.rows - 1) * p.width + across : across;
    const size_t room = plane_lines((size_t)plane_round(d->span) * sizeof(float));
    char *const more = plane_scratch(&p, room + (size_t)taps * (sizeof(size_t) + sizeof(float)));
    if (!more) return false;
    d->plane = p, d->out = (float *)more, d->from = (size_t *)(more + room), d->weights = (float *)(d->from + taps);
    for (int64_t t = 0; t < taps; t++) {
        const int64_t t0 = first[0] + t % v->ax[0].taps * step[0], t1 = first[1] + t / v->ax[0].taps * step[1];
        d->from[t] = (size_t)t0 * k.nb[0] + (size_t)t1 * k.nb[1];
    }
    return true;
}
/* Computes rows o to end of the result for channel c of image n of `data`. */
static void depthwise_plane(const gg_conv *q, const patches *v, const ggml_tensor *data, depthwise *d, int64_t c,
                            int64_t n, int64_t o, int64_t end, char *out) {
    const channel_plane *const p = &d->plane;
    const int64_t across = v->ax[0].out, taps = (int64_t)plane_taps(p);
    const char *const kernel = (const char *)q->w->data + (size_t)c * gg_conv_w(q).nb_n;
    for (int64_t t = 0; t < taps; t++) d->weights[t] = pack_value(q->w->type, kernel + d->from[t]);
    const char *x = (const char *)data->data + (size_t)c * v->nb_c + (size_t)n * v->nb_n;
    const bool in_place = d->block && across >= VW && v->to[0] == sizeof(float);
    const int64_t pitch = in_place ? (int64_t)(v->to[1] / sizeof(float)) : plane_round(across);
    const conv_tail *const tail = &v->tail;
    const bool in_block = d->block && (tail->finish == conv_tail_NONE || tail->finish == conv_tail_RELU);
    const depthwise_end last = {in_block && tail->bias ? tail->bias[c] : 0,
                                in_block && tail->function ? 0 : -GG_INF};
    out += (size_t)n * v->to_n;
    for (; o < end; o += p->rows) {
        const int64_t rows = gg_min(p->rows, end - o), next = p->width * v->ax[1].stride;
        plane_load(p, v, data->type, x, o, rows, 0);
        for (int64_t r = 0; in_place && r < rows; r += DEPTHWISE_ROWS) {
            const int64_t some = gg_min(rows - r, DEPTHWISE_ROWS);
            float *const to = (float *)(out + (size_t)(o + r) * v->to[1]);
            d->block(some, p, d->weights, p->data + r * next, across, last, to, pitch);
            if (in_block) continue;
            if (pitch == across) conv_finish(tail, c, to, 0, 1, some * across);
            else for (int64_t i = 0; i < some; i++) conv_finish(tail, c, to + i * pitch, 0, 1, across);
        }
        if (in_place) continue;
        const bool together = !d->block && d->span > across;
        if (together) depthwise_row(p, d->weights, p->data, (rows - 1) * p->width + across, d->out);
        for (int64_t r = 0; r < rows; r++) {
            const float *const from = p->data + r * next;
            float *row = d->out;
            if (d->block) {
                row += r % DEPTHWISE_ROWS * pitch;
                if (row == d->out)
                    d->block(gg_min(rows - r, DEPTHWISE_ROWS), p, d->weights, from, across, last, row, pitch);
            } else if (together) row += r * p->width;
            else depthwise_row(p, d->weights, from, across, row);
            if (!in_block) conv_finish(tail, c, row, across, 1, across);
            char *to = out + (size_t)(o + r) * v->to[1];
            if (v->to[0] == sizeof *row) patch_copy(row, across, (float *)to);
            else gg_from_floats(GGML_TYPE_F32, row, across, to, v->to[0]);
        }
    }
}
/* The part of the plan is a copy of rows, without its memory. */
static bool depthwise_fits(const conv_plan *p, void *part) {
    const patches *const v = &p->product.seen;
    *(channel_plane *)part = plane_plan(v, plane_parts(p->threads, v->c * v->n));
    return true;
}
static int depthwise_run(const gg_work *w, const conv_plan *plan, const void *part) {
    const patches *const v = &plan->product.seen;
    const channel_plane p = *(const channel_plane *)part;
    const int64_t first[3] = {0, 0, 0}, step[3] = {1, 1, 1}, strips = plane_strips(&p);
    const size_t nb_c = gg_conv_g(&plan->v).nb_c;
    depthwise d;
    int64_t i0, i1;
    if (!depthwise_prepare(&plan->v, v, first, step, p, &d)) return plane_memory(plan->dst);
    while (gg_claim_chunk(w, v->c * v->n * strips, 1, &i0, &i1))
        for (int64_t i = i0; i < i1; i++) {
            const int64_t c = i / strips % v->c, n = i / strips / v->c, o = i % strips * p.rows;
            char *out = (char *)plan->dst->data + (size_t)c * nb_c;
            depthwise_plane(&plan->v, v, plan->v.x, &d, c, n, o, gg_min(o + p.rows, v->ax[1].out), out);
        }
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_depthwise = {
    .bytes = sizeof(channel_plane), .fits = depthwise_fits, .run = depthwise_run,
};

#endif
