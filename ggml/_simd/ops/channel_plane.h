/* A padded copy of rows of a channel plane (one channel of an image), in which the elements that neighbouring outputs
 * read are contiguous. With a stride of 2, a row holds its even elements, then its odd elements, so that tap t of the
 * outputs o, o+1 ... reads one contiguous piece. */
#ifndef GG_OPS_CHANNEL_PLANE_H
#define GG_OPS_CHANNEL_PLANE_H
#include "conv/patches.h"

enum {
    PLANE_FLOATS = 1 << 15,         /* of the copy, so that it stays in the L2 cache */
    PLANE_ROWS = 8,                 /* least rows of outputs of a part, if they fit */
};

typedef struct channel_plane {
    const patch_axis *ax;           /* two axes: within a row, and from row to row */
    int64_t low[2];                 /* the first element that output 0 reads */
    int64_t columns, width;         /* floats for each remainder modulo the stride; floats of a row */
    int64_t rows, height;           /* rows of outputs at a time; rows of the copy for these */
    int64_t *tap;                   /* where tap t reads, relative to output 0 */
    float *data;
} channel_plane;

static inline int64_t plane_round(int64_t n) { return (n + VW - 1) / VW * VW; }

/* Plans a copy for as many rows of outputs as fit in PLANE_FLOATS and give `parts` parts (0: all rows at a time). Rows
 * and element 0 of the plane lie at a multiple of `align` floats. */
static channel_plane plane_plan(const patches *v, int64_t parts, int64_t align) {
    channel_plane p = {.ax = v->ax};
    for (int i = 0; i < 2; i++) {
        const patch_axis *ax = &v->ax[i];
        p.low[i] = ax->base + (ax->dilation < 0 ? -patch_extent(ax) : 0);
    }
    const int64_t extent = patch_extent(&v->ax[1]), step = v->ax[1].stride;
    const int64_t unit = align * v->ax[0].stride, lead = align > 1 ? (p.low[0] % unit + unit) % unit : 0;
    p.low[0] -= lead;
    p.columns = plane_round(v->ax[0].out) + (lead + patch_extent(&v->ax[0])) / v->ax[0].stride + 1;
    p.columns = gg_ceil_div(p.columns, align) * align;
    p.width = p.columns * v->ax[0].stride;
    const int64_t fit = (PLANE_FLOATS / p.width - extent - 1) / step + 1;
    p.rows = gg_max(v->ax[1].out, 1);
    if (parts) p.rows = gg_max(1, gg_min(fit, gg_max(gg_ceil_div(p.rows, parts), gg_min(p.rows, PLANE_ROWS))));
    p.height = (p.rows - 1) * step + extent + 1;
    return p;
}
/* The number of parts to split each of n planes into, so that all threads have work. */
static inline int64_t plane_parts(int nth, int64_t n) {
    return nth > 1 && n > 0 && n < 4 * nth ? gg_ceil_div(4 * nth, n) : 1;
}
/* The number of strips of p.rows rows of outputs. */
static inline int64_t plane_strips(const channel_plane *p) { return gg_ceil_div(p->ax[1].out, p->rows); }
static inline size_t plane_taps(const channel_plane *p) { return (size_t)(p->ax[0].taps * p->ax[1].taps); }
static inline size_t plane_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }
static inline size_t plane_size(const channel_plane *p) {
    return plane_lines((size_t)(p->height * p->width) * sizeof(float)) + plane_lines(plane_taps(p) * sizeof(int64_t));
}
/* Places the copy in memory of plane_size bytes; returns the address after it. */
static char *plane_place(channel_plane *p, char *memory) {
    const patch_axis *ax = p->ax;
    p->tap = (int64_t *)memory;
    p->data = (float *)(memory + plane_lines(plane_taps(p) * sizeof(int64_t)));
    for (int64_t t = 0; t < ax[0].taps * ax[1].taps; t++) {
        const int64_t x = t % ax[0].taps * ax[0].dilation + ax[0].base - p->low[0];
        const int64_t y = t / ax[0].taps * ax[1].dilation + ax[1].base - p->low[1];
        p->tap[t] = y * p->width + x % ax[0].stride * p->columns + x / ax[0].stride;
    }
    return memory + plane_size(p);
}
/* What tap t reads for the outputs in row o of the copy. */
static inline float *plane_at(const channel_plane *p, int64_t o, int64_t t) {
    return p->data + o * p->ax[1].stride * p->width + p->tap[t];
}
/* Loads the copy for `rows` rows of outputs from o on; `rest` is the value outside the plane. */
static void plane_load(const channel_plane *p, const patches *v, int type, const char *data, int64_t o, int64_t rows,
                       float rest) {
    const patch_axis *ax = p->ax;
    const int64_t first = p->low[1] + o * ax[1].stride, height = (rows - 1) * ax[1].stride + patch_extent(&ax[1]) + 1;
    for (int64_t r = 0; r < height; r++) {
        const int64_t y = first + r, in = y >= 0 && y < ax[1].in ? ax[0].in : 0;
        const char *row = in ? data + (size_t)y * v->nb[1] : data;
        for (int64_t f = 0; f < ax[0].stride; f++)
            patch_row(type, row, v->nb[0], in, in ? p->low[0] + f : 0, ax[0].stride, p->columns, rest,
                      p->data + r * p->width + f * p->columns);
    }
}
/* Stores the copy, which holds all rows, to its plane; 0 where no window reads. */
static void plane_store(const channel_plane *p, float *y, size_t nb1) {
    const patch_axis *ax = p->ax;
    for (int64_t r = 0; r < ax[1].in; r++, y = (float *)((char *)y + nb1)) {
        const int64_t from = r - p->low[1];
        memset(y, 0, (size_t)ax[0].in * sizeof *y);
        for (int64_t f = 0; f < ax[0].stride && from >= 0 && from < p->height; f++) {
            const int64_t x = p->low[0] + f, step = ax[0].stride;
            const patch_range in = patch_inside(ax[0].in, x, step, p->columns);
            const float *s = p->data + from * p->width + f * p->columns;
            for (int64_t i = in.lo; i < in.hi; i++) y[x + i * step] = s[i];
        }
    }
}
/* Scratch memory for a plane, and `more` bytes after it. */
static char *plane_scratch(channel_plane *p, size_t more) {
    char *memory = gg_scratch(plane_size(p) + more);
    return memory ? plane_place(p, memory) : NULL;
}
static int plane_memory(const ggml_tensor *dst) { return gg_no_memory(dst, "no memory for a channel plane"); }

#endif
