/* Depthwise convolutions by planes: the lanes of a vector are positions of a row. */
#ifndef GG_OPS_CONV_DEPTHWISE_H
#define GG_OPS_CONV_DEPTHWISE_H
#include "../channel_plane.h"
#include "plan.h"

enum {
    DEPTHWISE_FLOATS = 5 << 10,     /* of the copy of a plane, so that it stays in the L1 cache */
    DEPTHWISE_ROWS = 16,            /* of outputs at least, as strips share rows of the copy */
    DEPTHWISE_MOST = 8,             /* rows of a block */
    DEPTHWISE_LINE = 16,            /* floats of a line of the cache */
    DEPTHWISE_FAR = 64,             /* floats between rows from which processors do not foresee what is stored next */
};

/* A bias is added to the outputs of a channel, then they are `least` at least. */
typedef struct depthwise_end { float bias, least; } depthwise_end;
/* Rows of n outputs, `pitch` floats apart. Those that begin at offset `whole` or before are stored in whole vectors: a
 * row that is shorter than a vector ends within the next one, which is stored later. */
typedef struct depthwise_to {
    float *out;
    int64_t n, rows, pitch, whole;
} depthwise_to;
/* What tap 0 and tap 1 read, floats from these to tap 2 and tap 3, and from row to row. By value: compilers have to
 * assume that a vector that is stored changes what a pointer reads. */
typedef struct depthwise_from { const float *even, *odd; int64_t hop, width; } depthwise_from;

/* `count` blocks of a vector in each of `rows` rows, from at[] to offset[]; rows behind the last are not stored. Each
 * vector of the input is loaded once for all rows. Each output sums its taps in the same order, in whatever block. */
GG_INLINE void depthwise_block(const int rows, const int count, const int size, const int step, depthwise_from x,
                               const vf w[5][5], vf bias, vf least, const int64_t at[2], const depthwise_to to,
                               const int64_t offset[2]) {
    vf sum[DEPTHWISE_MOST][2];
    GG_UNROLL for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = vf_zero();
    GG_UNROLL for (int y = 0; y < (rows - 1) * step + size; y++, x.even += x.width, x.odd += x.width) {
        GG_UNROLL for (int t = 0; t < size; t++) {
            const float *const from = (t % 2 ? x.odd : x.even) + t / 2 * x.hop;
            vf e[2];
            GG_UNROLL for (int i = 0; i < count; i++) e[i] = vf_keep(vf_load(from + at[i]));
            GG_UNROLL for (int r = 0; r < rows; r++)
                if (y >= r * step && y < r * step + size)
                    GG_UNROLL for (int i = 0; i < count; i++) sum[r][i] = vf_fma(w[y - r * step][t], e[i], sum[r][i]);
        }
    }
    GG_UNROLL for (int i = 0; i < count; i++) {
        GG_UNROLL for (int r = 0; r < rows; r++) sum[r][i] = vf_max(least, vf_add(sum[r][i], bias));
        if (offset[i] + (rows - 1) * to.pitch <= to.whole) {
            GG_UNROLL for (int r = 0; r < rows; r++) vf_store(to.out + offset[i] + r * to.pitch, sum[r][i]);
        } else {
            float y[DEPTHWISE_MOST * VW];
            GG_UNROLL for (int r = 0; r < rows; r++) vf_store(y + r * VW, sum[r][i]);
            const float *from = y;
            for (int64_t o = offset[i]; from < y + rows * VW && o < to.rows * to.pitch; from += VW, o += to.pitch)
                if (o <= to.whole) vf_store(to.out + o, vf_load(from));
                else vf_storen(to.out + o, vf_load(from), (int)to.n);
        }
    }
}
/* Rows r to end in blocks of `rows` rows, `count` blocks together. The last vector of a row and the last block overlap
 * with those before. */
GG_INLINE void depthwise_blocks(const int rows, const int count, const int size, const int step, const depthwise_from x,
                                const vf w[5][5], vf bias, vf least, int64_t r, int64_t end, const depthwise_to to) {
    int64_t at[2], offset[2];
    int ready = 0;
    for (; r < end; r += rows) {
        r = gg_max(gg_min(r, end - rows), 0);
        for (int64_t i = 0; i < to.n; i += VW) {
            i = gg_max(gg_min(i, to.n - VW), 0);
            if (to.pitch >= DEPTHWISE_FAR && i % DEPTHWISE_LINE < VW)           /* the lines of the next block */
                GG_UNROLL for (int l = 0; l < rows; l++) __builtin_prefetch(to.out + (r + rows + l) * to.pitch + i, 1);
            at[ready] = r * step * x.width + i, offset[ready] = r * to.pitch + i;
            if (++ready < count) continue;
            depthwise_block(rows, count, size, step, x, w, bias, least, at, to, offset), ready = 0;
        }
    }
    if (count > 1 && ready) depthwise_block(rows, 1, size, step, x, w, bias, least, at, to, offset);
}
/* Sums that wait for each other take most of the time, so as many as registers hold are computed together. */
#define DEPTHWISE(size, step) \
    static void depthwise_##size##_##step(const channel_plane *p, const float *weights, depthwise_end end, \
                                          const depthwise_to *place) { \
        const depthwise_to to = *place; \
        const depthwise_from x = {p->data + p->tap[0], p->data + p->tap[1], p->ax[0].stride == 1 ? 2 : 1, p->width}; \
        const int64_t few = to.rows % DEPTHWISE_MOST, most = few > 4 ? to.rows : to.rows - few; \
        const vf bias = vf_set1(end.bias), least = vf_set1(end.least); \
        vf w[5][5]; \
        GG_UNROLL for (int y = 0; y < size; y++) \
            GG_UNROLL for (int t = 0; t < size; t++) w[y][t] = vf_set1(weights[y * size + t]); \
        if (size == 3) depthwise_blocks(DEPTHWISE_MOST, 1, 3, step, x, w, bias, least, 0, most, to); \
        if (size == 3) depthwise_blocks(4, 1, 3, step, x, w, bias, least, most, to.rows, to); \
        if (size == 5) depthwise_blocks(4, 2, 5, step, x, w, bias, least, 0, to.rows, to); \
    }
typedef void (*depthwise_fn)(const channel_plane *p, const float *weights, depthwise_end end, const depthwise_to *to);
DEPTHWISE(3, 1) DEPTHWISE(3, 2) DEPTHWISE(5, 1) DEPTHWISE(5, 2)
#undef DEPTHWISE
static depthwise_fn depthwise_choose(const patch_axis *ax) {
    static const depthwise_fn functions[2][2] = {{depthwise_3_1, depthwise_3_2}, {depthwise_5_1, depthwise_5_2}};
    const int64_t size = ax[0].taps;
    if ((size != 3 && size != 5) || ax[1].taps != size || ax[0].dilation != 1 || ax[1].dilation != 1
        || ax[0].stride > 2 || ax[1].stride > 2 || 2 * plane_round(ax[0].out) > 3 * ax[0].out) return NULL;
    return functions[size == 5][ax[1].stride == 2];
}

/* A part of the convolution of one channel: the plane that it reads, and the taps of the kernel. */
typedef struct depthwise {
    channel_plane plane;
    float *out, *weights;           /* results of a part; the kernel of a channel */
    size_t *from;                   /* byte offsets of the taps in a kernel */
    int64_t span;                   /* outputs that are computed together: a row, or all rows with their padding */
    depthwise_fn block;             /* computes all rows of a part; NULL: there is no function for these taps */
    bool padded;                    /* the padding of the copy is 0 already (depthwise_load) */
} depthwise;

/* The copy for a function that computes blocks; vectors of its rows are aligned. */
static channel_plane depthwise_plan(const patches *v, int64_t parts) {
    channel_plane p = plane_plan(v, parts, VW);
    const int64_t step = v->ax[1].stride, extent = patch_extent(&v->ax[1]);
    p.rows = gg_min(p.rows, gg_max(((int64_t)DEPTHWISE_FLOATS / p.width - extent - 1) / step + 1, DEPTHWISE_ROWS));
    p.height = (gg_max(p.rows, DEPTHWISE_MOST) - 1) * step + extent + 1;
    return p;
}
/* plane_load for rows of contiguous floats into a copy whose padding is 0 already. A stride of 2 takes the even and the
 * odd elements of a row apart. Vectors are stored whole: what is behind the row is padding. */
static void depthwise_load(const channel_plane *p, const patches *v, const char *data, int64_t o, int64_t rows) {
    const patch_axis *ax = p->ax;
    const int64_t in = gg_min(ax[0].in, p->width + p->low[0]), width = p->width, columns = p->columns;
    const int64_t first = p->low[1] + o * ax[1].stride, height = (rows - 1) * ax[1].stride + patch_extent(&ax[1]) + 1;
    const patch_range inside = patch_inside(ax[1].in, first, 1, height);
    const size_t pitch = v->nb[1];
    const bool halves = ax[0].stride == 2;
    float *to = p->data - p->low[0] / ax[0].stride + inside.lo * width;
    data += (size_t)(first + inside.lo) * pitch;
    if (p->rows < ax[1].out) {
        memset(p->data, 0, (size_t)(inside.lo * width) * sizeof *to);
        memset(p->data + inside.hi * width, 0, (size_t)((height - inside.hi) * width) * sizeof *to);
    }
    for (int64_t y = inside.lo; y < inside.hi; y++, to += width, data += pitch) {
        const float *const row = (const float *)data;
        int64_t i = 0;
        if (halves) {
            vf even, odd;
            for (; 2 * (i + VW) <= in; i += VW)
                vf_load_pairs(row + 2 * i, &even, &odd), vf_store(to + i, even), vf_store(to + columns + i, odd);
            if (2 * i >= in) continue;
            vf_load_pairsn(row + 2 * i, (int)(in - 2 * i), &even, &odd);
            vf_store(to + i, even), vf_store(to + columns + i, odd);
        } else {
            for (; i + VW <= in; i += VW) vf_store(to + i, vf_load(row + i));
            if (i < in) vf_store(to + i, vf_loadn(row + i, (int)(in - i)));
        }
    }
}

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
/* Prepares for the patches v of data of a type and the taps first[], first[] + step[] ... of the kernel; false: no
 * memory. */
static bool depthwise_prepare(const gg_conv *q, const patches *v, const int64_t first[3], const int64_t step[3],
                              int type, channel_plane p, depthwise *d) {
    const gg_conv_part k = gg_conv_w(q);
    const int64_t taps = (int64_t)plane_taps(&p), across = v->ax[0].out;
    d->block = depthwise_choose(v->ax);
    const bool together = !d->block && v->ax[1].stride == 1 && 2 * p.width < 3 * across;
    d->span = d->block ? p.rows * across : together ? (p.rows - 1) * p.width + across : across;
    const size_t room = plane_lines((size_t)plane_round(d->span) * sizeof(float));
    char *const more = plane_scratch(&p, room + (size_t)taps * (sizeof(size_t) + sizeof(float)));
    if (!more) return false;
    const bool aligned = p.low[0] <= 0 && p.low[0] % (v->ax[0].stride * VW) == 0;
    d->padded = d->block && aligned && type == GGML_TYPE_F32 && v->nb[0] == sizeof(float);
    if (d->block) memset(p.data, 0, (size_t)(p.height * p.width) * sizeof *p.data);
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
    const bool in_place = d->block && v->to[0] == sizeof(float);
    const int64_t pitch = in_place ? (int64_t)(v->to[1] / sizeof(float)) : across;
    const conv_tail *const tail = &v->tail;
    const bool in_block = d->block && (tail->finish == conv_tail_NONE || tail->finish == conv_tail_RELU);
    const depthwise_end last = {in_block && tail->bias ? tail->bias[c] : 0,
                                in_block && tail->function ? 0 : -GG_INF};
    out += (size_t)n * v->to_n;
    for (; o < end; o += p->rows) {
        const int64_t rows = gg_min(p->rows, end - o), next = p->width * v->ax[1].stride;
        if (d->padded) depthwise_load(p, v, x, o, rows); else plane_load(p, v, data->type, x, o, rows, 0);
        float *const to = in_place ? (float *)(out + (size_t)o * v->to[1]) : d->out;
        if (d->block) {
            const int64_t whole = across >= VW ? (rows - 1) * pitch + across : pitch == across ? rows * across : 0;
            d->block(p, d->weights, last, &(depthwise_to){to, across, rows, pitch, whole - VW});
        }
        if (in_place) {
            if (in_block) continue;
            if (pitch == across) conv_finish(tail, c, to, 0, 1, rows * across);
            else for (int64_t i = 0; i < rows; i++) conv_finish(tail, c, to + i * pitch, 0, 1, across);
            continue;
        }
        const bool together = !d->block && d->span > across;
        if (together) depthwise_row(p, d->weights, p->data, (rows - 1) * p->width + across, d->out);
        for (int64_t r = 0; r < rows; r++) {
            float *row = d->out;
            if (d->block) row += r * across;
            else if (together) row += r * p->width;
            else depthwise_row(p, d->weights, p->data + r * next, across, row);
            if (!in_block) conv_finish(tail, c, row, across, 1, across);
            char *y = out + (size_t)(o + r) * v->to[1];
            if (v->to[0] == sizeof *row) patch_copy(row, across, (float *)y);
            else gg_from_floats(GGML_TYPE_F32, row, across, y, v->to[0]);
        }
    }
}
/* The part of the plan is a copy of rows, without its memory. */
static CONV_ONCE bool depthwise_fits(const conv_plan *p, void *part) {
    const patches *const v = &p->product.seen;
    const int64_t parts = plane_parts(p->threads, v->c * v->n);
    *(channel_plane *)part = depthwise_choose(v->ax) ? depthwise_plan(v, parts) : plane_plan(v, parts, 1);
    return true;
}
static int depthwise_run(const gg_work *w, const conv_plan *plan, const void *part) {
    const patches *const v = &plan->product.seen;
    const channel_plane p = *(const channel_plane *)part;
    const int64_t first[3] = {0, 0, 0}, step[3] = {1, 1, 1}, strips = plane_strips(&p);
    const size_t nb_c = gg_conv_g(&plan->v).nb_c;
    depthwise d;
    int64_t i0, i1;
    if (!depthwise_prepare(&plan->v, v, first, step, plan->v.x->type, p, &d)) return plane_memory(plan->dst);
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
