/* Convolutions of floats that read the kernel as it is stored and pack no patches. The input is copied once for each
 * column of taps, shifted by that column: in such a copy the elements that a tap reads for neighbouring positions are
 * contiguous, also from one row of the result to the next. With a stride along y, every remainder of rows modulo the
 * stride is a copy of its own. A tile of the result is some vectors of positions times a few output channels. Tiles
 * that are packed may come straight from a large image (image.h). */
#ifndef GG_OPS_CONV_SHIFTED_H
#define GG_OPS_CONV_SHIFTED_H
#include "image.h"
#include "plan.h"

enum {
    SHIFTED_V = MV * NR < 24 ? 2 : 4,       /* vectors of positions and */
    SHIFTED_N = 6,                  /* output channels of a tile: the accumulators fill the registers */
    SHIFTED_NARROW_N = 8,           /* the same where one vector is all (winograd.h): fewer sums would wait for each
                                     * other */
    SHIFTED_PLACES = 256,           /* positions of the same output channels in succession, whose kernel is in L1 */
    SHIFTED_TILES = SHIFTED_PLACES / (SHIFTED_V * VW),
    SHIFTED_LANES = SHIFTED_V * VW,
    SHIFTED_K = SHIFTED_V == 2 ? 192 : 288,     /* taps of a block of input channels, about, and */
    SHIFTED_PACKED_K = SHIFTED_V == 2 ? 384 : 144,      /* the same if tiles are packed */
    SHIFTED_TOGETHER = SHIFTED_V == 2 ? 64 : 1,         /* most tiles that are packed together: one stays in L1, */
    SHIFTED_PACKED_FLOATS = 32 << 10,   /* several, which have so many floats at most, in L2, */
    SHIFTED_PACKED_LEAST = 64,          /* and so many taps at least, if there are as many */
    SHIFTED_MOST = SHIFTED_TILES < SHIFTED_TOGETHER ? SHIFTED_TOGETHER : SHIFTED_TILES,
    SHIFTED_PACKED = SHIFTED_V == 2 ? 18 : 96,  /* output channels for which tiles are packed: those that are not lie
                                     * in so many lines and pages that reading them for each group takes longer */
    SHIFTED_REST = VW < 8 ? 0 : VW / 4,         /* most positions for which products along k take less time than
                                     * another vector, */
    SHIFTED_REST_K = 4 * VW,        /* if there are so many taps */
    SHIFTED_DEPTH =                 /* the larger of SHIFTED_K and SHIFTED_PACKED_K */
        SHIFTED_PACKED_K < SHIFTED_K ? SHIFTED_K : SHIFTED_PACKED_K,
    SHIFTED_LINE = 16,              /* floats between prefetches */
    SHIFTED_UNROLLED =              /* accumulators of a tile whose loop is worth unrolling */
        SHIFTED_V == 2 && VW == 8 ? 10 : 99,
    SHIFTED_FLOATS = 80 << 10,      /* of the copies of a block, so that these stay in the L2 cache */
    SHIFTED_TAPS = 16,              /* most columns of taps, and copies for rows */
    SHIFTED_STRIPS = 4,             /* strips for each thread, if these have SHIFTED_PLACES positions at least */
    SHIFTED_LEAST = SHIFTED_LANES * 3 / 2,      /* positions of a strip at least, where each thread gets one */
    SHIFTED_CHANNELS = 24,          /* output channels of a task at least, where each thread gets one, */
    SHIFTED_SHARED = 48,            /* or several, whose tiles stay packed */
    SHIFTED_WORK = 1 << 18,         /* products of one of several tasks at least */
    SHIFTED_COMMON = 1 << 20,       /* floats at most that threads prepare together, so that they stay in L3, */
    SHIFTED_COMMON_LEAST = 1 << 14, /* and at least, which take longer than to wait for each other */
    SHIFTED_SMALL = 8 * VW,         /* positions of an image up to which images are computed together, and */
    SHIFTED_RESULTS = 2 * SHIFTED_FLOATS,       /* floats of their results, which are copied afterwards */
    SHIFTED_CROWDED = 1024,         /* channels that are a multiple of so many bytes apart share few sets of L1 */
};

typedef struct shifted {
    patches seen;                   /* those of the plan, or with images as the rows of one, or rows of a vector */
    bool apart;                     /* rows of the result do not follow each other: they are computed elsewhere */
    int64_t remainders, halo;     /* copies for rows; rows of a copy beyond those of the result */
    int64_t strips, rows;           /* tasks of an image, and the most rows of the result that one computes */
    int64_t chunks;                 /* tasks of a strip, among which the output channels are divided */
    int64_t plane, depth;           /* floats of a copy; channels of a block */
    int64_t rest;                   /* positions behind the last whole vector whose sums are computed by shifted_rest */
    bool in_place;                  /* elements need not be copied, */
    bool from_image;                /* nor where tiles are packed from the image (image.h) */
    bool packs;                     /* tiles are packed */
    int64_t together;               /* tiles that are computed before the next output channels */
    int64_t held;                   /* floats of a packed strip that is kept for the next task; 0: it is not */
    int64_t common;                 /* floats of a strip that its threads prepare together: packed tiles, or copies;
                                     * 0: each of them prepares the strip */
} shifted;

/* Whether a tap reads neighbouring positions from neighbouring floats. crowded: channels may share few sets of L1. */
static bool shifted_in_place(const patches *v, const gemm *g, bool crowded) {
    const patch_axis *ax = v->ax;
    for (int i = 0; i < 2; i++)
        if (ax[i].taps != 1 || ax[i].stride != 1 || ax[i].base || ax[i].in != ax[i].out) return false;
    return g->a.type == GGML_TYPE_F32 && v->nb[0] == sizeof(float) && v->nb[1] == sizeof(float) * (size_t)ax[0].in
        && v->nb_c % sizeof(float) == 0 && (crowded || v->nb_c % SHIFTED_CROWDED)
        && v->nb_c <= INT32_MAX / SHIFTED_DEPTH && v->nb_c >= v->nb[1] * (size_t)ax[1].in;
}

/* How many tiles of k taps are packed together. */
static inline int64_t shifted_together(int64_t k) {
    return gg_min(gg_max(SHIFTED_PACKED_FLOATS / (k * SHIFTED_LANES), 1), SHIFTED_TOGETHER);
}

/* Small images of one dimension, several of them. */
static bool shifted_short(const gemm *g, const patches *v) {
    const patch_axis *const x = &v->ax[0], *const y = &v->ax[1];
    return y->in == 1 && y->out == 1 && y->taps == 1 && !y->base && v->n > 1 && x->out > 0 && x->out <= SHIFTED_SMALL
        && g->n <= SHIFTED_RESULTS / x->out;
}
/* They become the rows of one image, as whole vectors of an image would be few. */
static void shifted_join(patches *v) {
    v->ax[1] = (patch_axis){.in = v->n, .out = v->n, .taps = 1, .stride = 1, .dilation = 1};
    v->nb[1] = v->nb_n, v->to[1] = v->to_n, v->n = 1;
}

/* An image of whole vectors whose positions are the elements of a channel has vectors for rows: any of them may begin a
 * strip. */
static void shifted_flatten(patches *v) {
    const int64_t places = v->ax[0].out * v->ax[1].out;
    if (places % VW) return;
    v->ax[0].in = v->ax[0].out = VW, v->ax[1].in = v->ax[1].out = places / VW;
    v->nb[1] = v->to[1] = VW * sizeof(float);
}

/* Into how many strips threads divide a small image: a thread that computes all channels of its positions reads only
 * these, most of which it has computed itself if the node before is a convolution, too. Where the kernel is larger than
 * the image, it is divided, if that is enough for all threads. */
static int64_t shifted_parts(const patches *v, const gemm *g, int nth) {
    const int64_t rows = v->ax[1].out, most = gg_min(v->ax[0].out * rows / SHIFTED_LEAST, rows);
    int64_t parts = 1;
    if (g->n > v->ax[0].out * rows && v->n * (g->n / SHIFTED_CHANNELS) >= nth) return 1;
    for (int64_t i = 2; i <= most && i * v->n <= nth; i++)
        if (nth % (i * v->n) == 0 && 16 * gg_ceil_div(rows, i) * i <= 17 * rows) parts = i;
    return parts;
}

/* Into how many tasks the output channels of a strip are divided: several for each thread if the strip stays packed, as
 * threads may differ in speed. */
static int64_t shifted_chunks(const shifted *s, const gemm *g, int nth) {
    const int64_t strips = s->strips * s->seen.n, products = g->m / strips * g->k * g->n;
    const int64_t several = gg_min(gg_ceil_div(SHIFTED_STRIPS * nth, strips), g->n / SHIFTED_SHARED);
    const int64_t one = gg_min(gg_ceil_div(nth, strips), g->n / SHIFTED_CHANNELS);
    return gg_max(nth > 1 && s->held ? gg_max(gg_min(several, products / SHIFTED_WORK), one) : one, 1);
}

/* Divides the input channels into blocks, and the tiles of a strip into batches that are packed together: the kernel is
 * read once for each batch, results are read and written once for each block. */
static void shifted_balance(shifted *s, int64_t taps) {
    const int64_t tiles = gg_ceil_div(s->rows * s->seen.ax[0].out - s->rest, SHIFTED_LANES), most = s->depth;
    const int64_t read = s->seen.c * taps, written = tiles * SHIFTED_LANES;
    int64_t least = INT64_MAX;
    for (int64_t n = gg_ceil_div(tiles, SHIFTED_TOGETHER); n <= tiles && n * read < least; n++) {
        const int64_t together = gg_ceil_div(tiles, n);
        const int64_t depth = gg_min(SHIFTED_PACKED_FLOATS / (together * taps * SHIFTED_LANES), most);
        if (depth * taps < gg_min(SHIFTED_PACKED_LEAST, most * taps)) continue;
        const int64_t blocks = gg_ceil_div(s->seen.c, depth), floats = n * read + (2 * blocks - 1) * written;
        if (floats < least) least = floats, s->together = together, s->depth = gg_ceil_div(s->seen.c, blocks);
        if (depth == most) break;                        /* more batches only read more */
    }
}

/* Floats of a strip that is not read where it is, for threads that compute different output channels of it. */
static int64_t shifted_common(const shifted *s, const gemm *g, int nth) {
    const int64_t strips = s->strips * s->seen.n, places = s->rows * s->seen.ax[0].out - s->rest;
    if (s->chunks < 2 || strips >= nth || s->in_place || s->from_image) return 0;
    const int64_t all = s->packs ? g->k * (gg_ceil_div(places, SHIFTED_LANES) * SHIFTED_LANES + s->rest)
                                 : s->seen.c * s->seen.ax[0].taps * s->remainders * (s->plane + VW);
    return all < SHIFTED_COMMON_LEAST || strips * all > SHIFTED_COMMON ? 0 : gg_ceil_div(all, 16) * 16;
}

/* Floats of the copies of a channel. */
static inline int64_t shifted_copies(const shifted *s) { return s->seen.ax[0].taps * s->remainders * s->plane; }
static CONV_ONCE bool shifted_fits(const conv_plan *p, void *part) {
    const gemm *const g = &p->product.g;
    const int nth = p->threads;
    shifted *const s = part;
    patches *const v = &s->seen;
    *v = p->product.seen;
    const bool many = shifted_short(g, v);
    s->apart = many && !v->tail.added;
    if (s->apart) shifted_join(v);
    const patch_axis *ax = v->ax;
    if (g->k < 1 || g->n < 1 || g->b.pack != pack_along_k || !gg_is_float(g->b.type) || v->n < 1) return false;
    if (ax[0].out < 1 || ax[1].out < 1 || ax[2].out != 1 || ax[2].taps != 1 || ax[2].base) return false;
    if (ax[0].dilation < 0 || ax[1].dilation < 0 || ax[0].taps > SHIFTED_TAPS || 2 * ax[0].out * ax[1].out <= VW
        || v->to[0] != sizeof(float) || !g->c_n) return false;
    if (!s->apart && v->to[1] != sizeof(float) * (size_t)ax[0].out) return false;
    const bool packs = SHIFTED_TOGETHER > 1 && g->n >= SHIFTED_PACKED;  /* however threads divide the channels */
    s->in_place = shifted_in_place(v, g, packs);
    if (s->in_place && !s->apart) shifted_flatten(v);
    s->from_image = packs && !s->in_place && image_fits(v, g->a.type);
    const bool copied = !packs || !(s->in_place || s->from_image);
    s->remainders = gg_min(ax[1].stride, patch_extent(&ax[1]) + 1);
    s->halo = patch_extent(&ax[1]) / ax[1].stride;
    const int64_t taps = ax[0].taps * ax[1].taps, block = g->n >= SHIFTED_PACKED ? SHIFTED_PACKED_K : SHIFTED_K;
    const int64_t copies = ax[0].taps * s->remainders;
    s->depth = gg_min(gg_max(block / taps, 1), v->c);
    if (copied) {
        const int64_t least = gg_min(ax[1].out, 1 + s->halo) + s->halo;         /* rows of a copy */
        if (s->remainders > SHIFTED_TAPS || least > SHIFTED_FLOATS || ax[0].out > SHIFTED_FLOATS) return false;
        const int64_t room = SHIFTED_FLOATS / copies / ax[0].out / least;       /* channels whose copies fit */
        if (room < gg_min(v->c, 4)) return false;
        s->depth = gg_min(s->depth, room);
    }
    s->depth = gg_ceil_div(v->c, gg_ceil_div(v->c, s->depth));
    int64_t fit = copied ? SHIFTED_FLOATS / (copies * s->depth * ax[0].out) - s->halo : ax[1].out;
    if (s->apart) fit = gg_min(fit, SHIFTED_RESULTS / (g->n * ax[0].out));
    const int64_t most = gg_max(ax[0].out * ax[1].out / SHIFTED_PLACES, 1);
    s->strips = gg_max(gg_ceil_div(ax[1].out, fit), gg_min(gg_ceil_div(SHIFTED_STRIPS * nth, v->n), most));
    if (s->strips > 1) s->strips = gg_min(gg_ceil_div(s->strips, nth) * nth, ax[1].out);
    const int64_t rest = ax[0].out * ax[1].out % VW;    /* of an image that more threads do not divide either */
    const int64_t bound = g->k < SHIFTED_REST_K ? gg_min(SHIFTED_REST, 1) : SHIFTED_REST;
    /* small images have none, nor have those that may be joined: their sums have the same bits in any layout, and where
     * another tensor is added */
    const bool exact = many || ax[0].out * ax[1].out < 2 * VW;
    s->rest = !exact && most == 1 && s->strips == 1 && rest <= bound ? rest : 0;
    if (s->strips == 1 && !s->rest) s->strips = shifted_parts(v, g, nth);
    s->rows = gg_ceil_div(ax[1].out, s->strips);
    s->plane = (s->rows + s->halo) * ax[0].out;
    const bool crowded = s->in_place && v->nb_c % SHIFTED_CROWDED == 0;
    s->held = gg_ceil_div(s->rows * ax[0].out, SHIFTED_LANES) * g->k * SHIFTED_LANES;
    if (SHIFTED_TOGETHER == 1 || g->n < SHIFTED_SHARED || s->held > SHIFTED_PACKED_FLOATS) s->held = 0;
    s->chunks = shifted_chunks(s, g, nth);
    s->packs = crowded || g->n / s->chunks >= SHIFTED_PACKED;
    s->together = s->packs ? 1 : SHIFTED_TILES;
    if (s->packs) shifted_balance(s, taps);
    s->common = shifted_common(s, g, nth);
    if (s->common) s->held = 0, s->plane += VW;         /* where a copy ends with a vector, another one may begin */
    return true;
}

/* A bias of each output channel is added to the sums, then hardswish is applied, or results are `least` at least. */
typedef struct shifted_end { const float *bias; float least; bool hardswish; } shifted_end;
static inline vf shifted_finish(vf x, const shifted_end *end, int j, bool hardswish) {
    const vf y = vf_add(x, vf_set1(end->bias[j]));
    return hardswish ? v_hardswish(y) : vf_max(vf_set1(end->least), y);
}

/* The same for n rows of sums. */
static __attribute__((noinline)) void shifted_finish_rows(float *out, int64_t ldo, int n, int places,
                                                          const shifted_end *end) {
    for (int j = 0; j < n; j++, out += ldo) {
        int i = 0;
        for (; i + VW <= places; i += VW) vf_store(out + i, shifted_finish(vf_load(out + i), end, j, end->hardswish));
        if (i == places) continue;
        vf_storen(out + i, shifted_finish(vf_loadn(out + i, places - i), end, j, end->hardswish), places - i);
    }
}

/* Where a tile reads the elements of tap k: at[k] floats from x, where it may also pack them, or k * step floats */
enum { SHIFTED_AT, SHIFTED_PACKS, SHIFTED_STEPS };

/* Adds the products of a tap of v vectors of positions and n output channels; tile: where its elements are packed. */
GG_INLINE void shifted_step(const int v, const int n, const float *x, const float *w, int64_t ldw, float *tile,
                            vf sum[][SHIFTED_V]) {
    vf a[SHIFTED_V];
    GG_UNROLL for (int i = 0; i < v; i++) a[i] = vf_load(x + i * VW);
    GG_UNROLL for (int i = 0; tile && i < v; i++) vf_store(tile + i * VW, a[i]);
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vf y = vf_set1(w[j * ldw]);
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_fma(a[i], y, sum[j][i]);
    }
}
/* out[j*ldo + i] (+)= the sum over k of x[at[k] + i] w[j*ldw + k], for v vectors of positions, the last of which has
 * `left` elements, and n output channels. tile: where elements are packed. end: what follows the sums; NULL: nothing
 * does. next: the kernel of the next n channels is prefetched. It may be in the L3 cache or in memory, and its rows are
 * too short for the processor to foresee them. Once is enough: rows whose distance is a power of two share sets of L1,
 * so that prefetched lines displace those that are read. */
#define SHIFTED_ARGS int64_t k, const int32_t *at, int64_t step, const float *x, const float *w, int64_t ldw, \
                     float *out, int64_t ldo, int left, bool add, bool next, float *tile, const shifted_end *end
GG_INLINE void shifted_tile(const int v, const int n, const int reads, SHIFTED_ARGS) {
    vf sum[SHIFTED_NARROW_N][SHIFTED_V];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) {
            const float *p = out + j * ldo + i * VW;
            sum[j][i] = !add ? vf_zero() : i < v - 1 || left == VW ? vf_load(p) : vf_loadn(p, left);
        }
    for (; k > 0; k -= SHIFTED_LINE) {
        if (n > 4 && next)
            GG_UNROLL for (int j = 0; j < n; j++) __builtin_prefetch(w + (n + j) * ldw);
        int64_t l = gg_min(k, SHIFTED_LINE);
        if (reads == SHIFTED_STEPS && v * n >= SHIFTED_UNROLLED) {
            _Pragma("GCC unroll 4")
            for (; l > 0; l--, w++, x += step) shifted_step(v, n, x, w, ldw, NULL, sum);
        } else if (reads == SHIFTED_STEPS) {
            for (; l > 0; l--, w++, x += step) shifted_step(v, n, x, w, ldw, NULL, sum);
        } else {
            for (; l > 0; l--, w++, at++) {
                shifted_step(v, n, x + *at, w, ldw, reads == SHIFTED_PACKS ? tile : NULL, sum);
                if (reads == SHIFTED_PACKS) tile += SHIFTED_LANES;
            }
        }
    }
    const bool now = n > 4 && reads != SHIFTED_PACKS;   /* other tiles are few, and need no code of their own */
    if (now && end && end->hardswish)
        GG_UNROLL for (int j = 0; j < n; j++)
            GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = shifted_finish(sum[j][i], end, j, true);
    else if (now && end)
        GG_UNROLL for (int j = 0; j < n; j++)
            GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = shifted_finish(sum[j][i], end, j, false);
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) {
            float *p = out + j * ldo + i * VW;
            if (i < v - 1 || left == VW) vf_store(p, sum[j][i]);
            else vf_storen(p, sum[j][i], left);
        }
    if (!now && end) shifted_finish_rows(out, ldo, n, (v - 1) * VW + left, end);
}
/* The sizes of tiles. Few groups have less than 5 output channels: they are not packed meanwhile. */
#define SHIFTED_MANY(F, reads) \
    F(1, 5, reads) F(2, 5, reads) F(3, 5, reads) F(4, 5, reads) F(1, 6, reads) F(2, 6, reads) F(3, 6, reads) \
    F(4, 6, reads)
#define SHIFTED_FEW(F, reads) \
    F(1, 1, reads) F(2, 1, reads) F(3, 1, reads) F(4, 1, reads) F(1, 2, reads) F(2, 2, reads) F(3, 2, reads) \
    F(4, 2, reads) F(1, 3, reads) F(2, 3, reads) F(3, 3, reads) F(4, 3, reads) F(1, 4, reads) F(2, 4, reads) \
    F(3, 4, reads) F(4, 4, reads)
#define SHIFTED_SIZES(F) \
    SHIFTED_FEW(F, AT) SHIFTED_MANY(F, AT) SHIFTED_MANY(F, PACKS) SHIFTED_FEW(F, STEPS) SHIFTED_MANY(F, STEPS) \
    F(1, 7, STEPS) F(1, 8, STEPS)
#define SHIFTED(v, n, reads) \
    static void shifted_##reads##_##v##_##n(SHIFTED_ARGS) { \
        shifted_tile(v < SHIFTED_V ? v : SHIFTED_V, n, SHIFTED_##reads, k, at, step, x, w, ldw, out, ldo, left, add, \
                     next, tile, end); \
    }
SHIFTED_SIZES(SHIFTED)
#undef SHIFTED
typedef void (*shifted_fn)(SHIFTED_ARGS);
#define SHIFTED(v, n, reads) [SHIFTED_##reads][v][n] = v <= SHIFTED_V ? shifted_##reads##_##v##_##n : NULL,
static const shifted_fn shifted_table[][5][SHIFTED_NARROW_N + 1] = {SHIFTED_SIZES(SHIFTED)};
#undef SHIFTED

/* Adds the products of a vector of taps, which has `left` elements, for m positions x[r] + i of each output channel. */
GG_INLINE void shifted_along_step(const int m, int64_t left, const float *const x[4], const float *const w[SHIFTED_N],
                                  int64_t i, vf *sum) {
    vf a[4];
    GG_UNROLL for (int r = 0; r < m; r++) a[r] = ld(x[r] + i, left);
    GG_UNROLL for (int j = 0; j < SHIFTED_N; j++) {
        const vf y = ld(w[j] + i, left);
        GG_UNROLL for (int r = 0; r < m; r++) sum[j * m + r] = vf_fma(a[r], y, sum[j * m + r]);
    }
}
/* Sums of k taps for m positions and SHIFTED_N channels: position r of channel j goes to sums[j*m + r]. */
GG_INLINE void shifted_along(const int m, int64_t few, int64_t n, int64_t k, const float *x, const float *w,
                             int64_t ldw, float *sums) {
    vf sum[SHIFTED_NARROW_N * 4];
    const float *position[4], *channel[SHIFTED_N];
    int64_t i = 0;
    GG_UNROLL for (int e = 0; e < SHIFTED_NARROW_N * m; e++) sum[e] = vf_zero();
    GG_UNROLL for (int r = 0; r < m; r++) position[r] = x + gg_min(r, few - 1) * k;
    GG_UNROLL for (int j = 0; j < SHIFTED_N; j++) channel[j] = w + gg_min(j, n - 1) * ldw;
    for (; i + VW <= k; i += VW) shifted_along_step(m, VW, position, channel, i, sum);
    if (i < k) shifted_along_step(m, k - i, position, channel, i, sum);
    GG_UNROLL for (int e = 0; e < SHIFTED_N * m; e += 4)
        vf_hsum4(sums + e, sum[e], sum[e + 1], sum[e + 2], sum[e + 3]);
}
/* What shifted_tile computes, for few positions, of which position r has the elements x[r*k] ...: the lanes of a vector
 * are taps. */
static void shifted_rest(int64_t few, int64_t n, int64_t k, const float *x, const float *w, int64_t ldw, float *out,
                         int64_t ldo, bool add, const shifted_end *end) {
    float sums[SHIFTED_NARROW_N * 4 + VW];
    const int64_t m = few == 1 ? 1 : SHIFTED_REST;
    if (few == 1) shifted_along(1, few, n, k, x, w, ldw, sums);
    else shifted_along(SHIFTED_REST, few, n, k, x, w, ldw, sums);
    for (int64_t j = 0; j < n; j++, out += ldo) {
        vf y = few == 1 ? vf_set1(sums[j]) : vf_loadn(sums + j * m, (int)few);
        if (add) y = vf_add(y, vf_loadn(out, (int)few));
        vf_storen(out, end ? shifted_finish(y, end, (int)j, end->hardswish) : y, (int)few);
    }
}

/* n floats, every second one of x. Nothing is read at `limit` or behind it. Stores a vector at least if that allows
 * it. */
static inline void shifted_pairs(const float *x, int64_t n, const float *limit, float *out) {
    vf even, odd;
    if (n <= VW && limit - x >= 2 * VW) {
        vf_load_pairs(x, &even, &odd), vf_store(out, even);
        return;
    }
    for (int64_t i = 0; n > VW && i < n - VW; i += VW) vf_load_pairs(x + 2 * i, &even, &odd), vf_store(out + i, even);
    if (n > VW) vf_load_pairs(x + 2 * (n - VW) - 1, &even, &odd), vf_store(out + n - VW, odd);
    else for (int64_t i = 0; i < n; i++) out[i] = x[2 * i];
}
/* n elements of each of some rows, `next` bytes apart, go to rows of `width` floats. limit: the end of the channel. Up
 * to VW elements may be stored. */
static void shifted_rows(const patches *v, const gemm *g, const char *row, size_t next, int64_t rows, int64_t n,
                         const char *limit, float *out, int64_t width) {
    const size_t step = v->nb[0] * (size_t)v->ax[0].stride;
    const bool plain = g->a.type == GGML_TYPE_F32, pairs = plain && step == 2 * sizeof *out;
    for (; pairs && n <= VW && rows > 0; rows--, row += next, out += width)     /* short rows take longest */
        shifted_pairs((const float *)row, n, (const float *)limit, out);
    for (; rows > 0; rows--, row += next, out += width) {
        if (!plain) gg_to_floats(g->a.type, row, step, n, out);
        else if (step == sizeof *out) patch_copy((const float *)row, n, out);
        else if (pairs) shifted_pairs((const float *)row, n, (const float *)limit, out);
        else for (int64_t i = 0; i < n; i++) memcpy(out + i, row + (size_t)i * step, sizeof *out);
    }
}
/* The part of a copy that lies within the input along an axis: its positions from lo to hi, the first of which reads
 * element `from`. All of it is empty if it has no position. */
typedef struct shifted_span { int64_t lo, hi, from; } shifted_span;
static shifted_span shifted_span_of(int64_t in, int64_t first, int64_t stride, int64_t n) {
    const patch_range r = patch_inside(in, first, stride, n);
    const int64_t lo = r.lo < r.hi ? r.lo : n;
    return (shifted_span){lo, gg_max(lo, r.hi), first + lo * stride};
}
/* A copy of a channel for a column of taps: `rows` rows, of input rows a stride apart, and a vector. */
static void shifted_copy(const patches *v, const gemm *g, const char *channel, const shifted_span *x,
                         const shifted_span *y, int64_t rows, float *out) {
    const patch_axis *ax = v->ax;
    const int64_t width = ax[0].out, first = y->lo, end = y->hi, lo = x->lo, hi = x->hi, seen = hi - lo;
    const size_t next = (size_t)ax[1].stride * v->nb[1];
    const bool whole = g->a.type == GGML_TYPE_F32 && ax[0].stride * ax[1].stride == 1 && ax[0].in == width && seen
        && v->nb[0] == sizeof(float) && v->nb[1] == sizeof(float) * (size_t)width;
    const char *const limit = channel + (size_t)gg_max(ax[1].in - 1, 0) * v->nb[1]
        + (size_t)gg_max(ax[0].in - 1, 0) * v->nb[0] + sizeof(float);
    const char *const row = channel + y->from * (ptrdiff_t)v->nb[1] + x->from * (ptrdiff_t)v->nb[0];
    for (int64_t i = 0; i < first * width; i++) out[i] = 0;
    if (whole && first < end) {     /* one run of elements, whose ends of rows are set to 0 below */
        const int64_t n = (end - first - 1) * width + seen;
        shifted_rows(v, g, row, next, 1, n, limit, out + first * width + lo, width);
    } else if (seen) {
        shifted_rows(v, g, row, next, end - first, seen, limit, out + first * width + lo, width);
    }
    for (int64_t i = 0; i < width; i++)
        if (i == lo) i = hi - 1;
        else for (int64_t r = first; r < end; r++) out[r * width + i] = 0;
    for (int64_t i = end * width; i < rows * width; i++) out[i] = 0;
    vf_store(out + rows * width, vf_zero());                 /* the last vector may read beyond */
}

/* Taps k .. k+n-1 of output channels j0 .. j1-1 as floats, *ldw of them from one channel to the next: where they are,
 * or converted to `room`. */
static const float *shifted_kernel(const gemm *g, int64_t j0, int64_t j1, int64_t k, int64_t n, float *room,
                                   int64_t *ldw) {
    if (g->b.type == GGML_TYPE_F32) {
        *ldw = (int64_t)(g->b.nb_i / sizeof(float));
        return (const float *)pack_at(&g->b, j0, k);
    }
    *ldw = n;
    for (int64_t j = j0; j < j1; j++) g->b.kernels->to_f32[g->b.type](pack_at(&g->b, j, k), room + (j - j0) * n, n);
    return room;
}

/* Copies channels c .. c+depth-1 for `rows` rows of the result, of which the first reads input row y. */
static void shifted_block(const patches *v, const gemm *g, const shifted *s, int64_t image, int64_t c, int64_t depth,
                          int64_t y, int64_t rows, float *copy) {
    const patch_axis *ax = v->ax;
    shifted_span across[SHIFTED_TAPS], down[SHIFTED_TAPS];
    rows += s->halo;
    for (int64_t t = 0; t < ax[0].taps; t++)
        across[t] = shifted_span_of(ax[0].in, ax[0].base + t * ax[0].dilation, ax[0].stride, ax[0].out);
    for (int64_t r = 0; r < s->remainders; r++) down[r] = shifted_span_of(ax[1].in, y + r, ax[1].stride, rows);
    for (int64_t i = c; i < c + depth; i++)
        for (int64_t t = 0; t < ax[0].taps; t++)
            for (int64_t r = 0; r < s->remainders; r++, copy += s->plane)
                shifted_copy(v, g, g->a.data + (size_t)image * v->nb_n + (size_t)i * v->nb_c, &across[t], &down[r],
                             rows, copy);
}

/* The offset of each tap, and the step from each to the next; 0: it varies. Of the two, the first is for copies, the
 * second for the input where it is read in place. */
typedef struct shifted_offsets { int32_t *at; int64_t step; } shifted_offsets;

/* Tiles that are computed before the next output channels: `count` of them, which `first` divides, from x. If they are
 * packed, a tile of k taps follows the other, and the first group of output channels packs what it reads. */
typedef struct shifted_batch {
    const int32_t *at;              /* the offsets of taps from x, */
    int64_t step;                   /* from each to the next; 0: it varies */
    const float *x;
    float *tile;                    /* NULL: tiles are not packed */
    int64_t k, count, places;       /* taps; tiles; positions up to the end of the strip */
    int64_t ahead;                  /* tiles of the next batch */
    int64_t from, to;               /* taps whose elements for those are prefetched meanwhile */
    bool ready;                     /* all tiles are packed already */
    bool end_ready;                 /* the last one is */
    int32_t first[SHIFTED_MOST + 1];
} shifted_batch;
/* Divides vectors of positions into tiles: first[i] is the first vector of tile t0 + i; the last is where tile t1 - 1
 * ends. Of pairs the last has one, others are as even as possible. */
static inline void shifted_divide(int64_t vectors, int64_t tiles, int64_t t0, int64_t t1, shifted_batch *b) {
    b->count = t1 - t0;
    for (int64_t t = t0; t <= t1; t++)
        b->first[t - t0] = (int32_t)(SHIFTED_V == 2 ? gg_min(2 * t, vectors) : vectors * t / tiles);
}
/* Packs a tile. Its last vector is not read behind the last channel. */
static void shifted_pack(const shifted_batch *b, int64_t t, float *to) {
    const int64_t p = b->first[t] * VW, wide = b->first[t + 1] - b->first[t], n = b->places - p;
    int64_t k = 0;
    for (; wide == SHIFTED_V && k < b->k - (n < SHIFTED_LANES); k++, to += SHIFTED_LANES)
        GG_UNROLL for (int i = 0; i < SHIFTED_LANES; i += VW) vf_store(to + i, vf_load(b->x + b->at[k] + p + i));
    for (; k < b->k; k++, to += SHIFTED_LANES)
        for (int64_t i = 0; i < wide * VW; i += VW) {
            const float *const from = b->x + b->at[k] + p + i;
            vf_store(to + i, k == b->k - 1 && n - i < VW ? vf_loadn(from, (int)(n - i)) : vf_load(from));
        }
}
/* Prefetches to L2 what taps from .. to-1 of vectors v0 .. v1-1 read. Each tile reads little of a channel, whose parts
 * may lie in many pages, so that the processor does not foresee it. */
static inline void shifted_ahead(const shifted_batch *b, int64_t v0, int64_t v1, int64_t from, int64_t to) {
    for (int64_t k = from; k < to; k++)
        for (int64_t i = v0 * VW; i < v1 * VW; i += SHIFTED_LINE) __builtin_prefetch(b->x + b->at[k] + i, 0, 2);
}
/* Computes n output channels of all tiles. packs: tiles that are not ready are packed meanwhile. */
static void shifted_group(const shifted_batch *b, bool packs, int64_t n, const float *w, int64_t ldw, float *out,
                          int64_t ldo, bool add, const shifted_end *end) {
    for (int64_t t = 0; t < b->count; t++) {
        const int64_t p = b->first[t] * VW, wide = b->first[t + 1] - b->first[t];
        const int left = (int)gg_min(b->places - p - (wide - 1) * VW, VW);
        if (t < b->ahead) {
            const int64_t v = b->first[t] + b->first[b->count] - b->first[0];
            shifted_ahead(b, v, v + SHIFTED_V, b->from, b->to);
        }
        float *const tile = b->tile ? b->tile + t * b->k * SHIFTED_LANES : NULL;
        bool new = tile && packs && !b->ready && !(b->end_ready && t == b->count - 1);
        if (new && !shifted_table[SHIFTED_PACKS][wide][n]) shifted_pack(b, t, tile), new = false;
        const bool packed = tile && !new;
        const int reads = new ? SHIFTED_PACKS : packed || b->step ? SHIFTED_STEPS : SHIFTED_AT;
        shifted_table[reads][wide][n](b->k, b->at, packed ? SHIFTED_LANES : b->step, packed ? tile : b->x + p, w, ldw,
                                      out + p, ldo, left, add, !t, tile, end);
    }
}

/* Packs the last tile, whose last vector must not be read behind the last channel. */
static void shifted_pack_end(shifted_batch *b) {
    shifted_pack(b, b->count - 1, b->tile + (b->count - 1) * b->k * SHIFTED_LANES);
    b->end_ready = true;
}

/* Memory of a thread: the copies, packed tiles, the elements of positions behind the last whole vector, a converted
 * kernel, and the results of a strip if they lie apart. */
typedef struct shifted_room {
    float *copies, *tile, *one, *kernel, *results;
    int64_t held;                   /* the strip that is packed, counted through the images; -1: none */
} shifted_room;

/* Rows of an image that are a task, and their positions without the rest. */
typedef struct shifted_strip { int64_t first, rows, places, vectors, tiles; } shifted_strip;
static shifted_strip shifted_strip_of(const shifted *s, int64_t strip) {
    const patch_axis *const ax = s->seen.ax;
    const int64_t first = ax[1].out * strip / s->strips, rows = ax[1].out * (strip + 1) / s->strips - first;
    const int64_t places = rows * ax[0].out - s->rest, vectors = gg_ceil_div(places, VW);
    return (shifted_strip){first, rows, places, vectors, gg_ceil_div(vectors, SHIFTED_V)};
}
/* The elements of the rest, `pitch` floats apart: k taps, which read x + at[k]. */
static void shifted_pack_rest(const shifted *s, const shifted_strip *strip, const float *x, const int32_t *at,
                              int64_t k, float *to, int64_t pitch) {
    for (int64_t i = 0; i < k && s->rest; i++)
        for (int64_t r = 0; r < s->rest; r++) to[r * pitch + i] = x[at[i] + strip->places + r];
}
/* Prepares the share of thread ith in a strip: some channels, in copies, or in tiles, which the rest follows. */
static void shifted_prepare(const gemm *g, const shifted *s, int64_t image, int64_t strip, int ith, int nth,
                            const int32_t *at, float *copies, float *to) {
    const patches *const v = &s->seen;
    const shifted_strip x = shifted_strip_of(s, strip);
    const int64_t taps = v->ax[0].taps * v->ax[1].taps;
    const int64_t end = v->c * (ith + 1) / nth, lanes = x.tiles * SHIFTED_LANES;
    for (int64_t c = v->c * ith / nth, next; c < end; c = next) {
        const int64_t block = c / s->depth * s->depth, deep = gg_min(s->depth, v->c - block) * taps;
        next = gg_min(block + s->depth, end);
        float *const from = s->packs ? copies : to + c * shifted_copies(s);
        shifted_block(v, g, s, image, c, next - c, v->ax[1].base + x.first * v->ax[1].stride, x.rows, from);
        if (!s->packs) continue;
        shifted_batch batch = {.at = at, .x = from, .k = (next - c) * taps, .places = x.places};
        float *const tile = to + block * taps * lanes + (c - block) * taps * SHIFTED_LANES;
        for (int64_t t = 0; t < x.tiles; t++) {
            shifted_divide(x.vectors, x.tiles, t, t + 1, &batch);
            shifted_pack(&batch, 0, tile + t * deep * SHIFTED_LANES);
        }
        shifted_pack_rest(s, &x, from, at, batch.k, to + g->k * lanes + block * taps * s->rest + (c - block) * taps,
                          deep);
    }
}

/* Output channels j0 .. j1-1 of a strip of rows of an image. common: what its threads have prepared; or NULL. */
static void shifted_task(const gemm *g, const shifted *s, int64_t image, int64_t strip, int64_t j0, int64_t j1,
                         const shifted_offsets at[2], float *common, shifted_room *room) {
    const patches *const v = &s->seen;
    const patch_axis *ax = v->ax;
    const shifted_strip part = shifted_strip_of(s, strip);
    const int64_t first = part.first, rows = part.rows, places = part.places, vectors = part.vectors,
        tiles = part.tiles;
    const int64_t taps = ax[0].taps * ax[1].taps, n = j1 - j0;
    const int64_t ldo = s->apart ? s->rows * ax[0].out : (int64_t)(g->c_n / sizeof(float));
    char *const to = g->c + (size_t)image * v->to_n + (size_t)j0 * g->c_n + (size_t)first * v->to[1];
    float *const out = s->apart ? room->results : (float *)to;
    static const float zeros[SHIFTED_N];
    const conv_tail *const tail = &v->tail;
    const bool relu = tail->finish == conv_tail_RELU, hardswish = tail->finish == conv_tail_HARDSWISH;
    const bool in_tile = !tail->added && (relu || hardswish || tail->finish == conv_tail_NONE);
    float *const packed = s->packs ? common : NULL, *const tile = packed ? packed : room->tile;
    const bool ready = packed || (s->held && room->held == image * s->strips + strip);
    if (s->held) room->held = image * s->strips + strip;
    for (int64_t c = 0; c < v->c; c += s->depth) {
        const int64_t depth = gg_min(s->depth, v->c - c);
        const bool last = c + depth == v->c;
        /* the last vector may end behind the strip, but not behind the tensor */
        const bool beyond = last && vectors * VW > (ax[1].out - first) * ax[0].out;
        const bool in_place = s->in_place && (s->packs || !beyond);
        const char *const channels = g->a.data + (size_t)image * v->nb_n + (size_t)c * v->nb_c;
        const float *const from = in_place ? (const float *)channels + first * ax[0].out
            : common ? common + c * shifted_copies(s) : room->copies;
        const int32_t *const offsets = at[in_place].at;
        if (!common && !in_place && !s->from_image && !(ready && !s->rest))
            shifted_block(v, g, s, image, c, depth, ax[1].base + first * ax[1].stride, rows, room->copies);
        int64_t ldw;
        const float *const w = shifted_kernel(g, j0, j1, c * taps, depth * taps, room->kernel, &ldw);
        const float *const one = packed ? packed + g->k * tiles * SHIFTED_LANES + c * taps * s->rest : room->one;
        if (!packed) shifted_pack_rest(s, &part, from, offsets, depth * taps, room->one, depth * taps);
        shifted_batch batch = {.at = offsets, .step = at[in_place].step, .x = from, .k = depth * taps, .places = places,
                               .tile = s->packs ? tile : NULL, .ready = ready || s->from_image};
        const int64_t groups = gg_ceil_div(n, SHIFTED_N);
        const bool far = SHIFTED_TOGETHER > 1 && s->packs && in_place && !ready;    /* not in the caches */
        for (int64_t t0 = 0, t1; t0 < tiles; t0 = t1) {
            t1 = gg_min(t0 + s->together, tiles);
            shifted_divide(vectors, tiles, t0, t1, &batch);
            if (s->held || packed) batch.tile = tile + (c * taps * tiles + t0 * batch.k) * SHIFTED_LANES;
            if (far && !t0) shifted_ahead(&batch, batch.first[0], batch.first[batch.count], 0, batch.k);
            batch.ahead = far ? gg_min(tiles - t1, s->together) : 0;
            if (in_place && beyond && t1 == tiles && !ready) shifted_pack_end(&batch);
            if (s->from_image && !ready)
                image_pack(v, channels, depth, first, batch.first[0], batch.first[batch.count] - batch.first[0],
                           SHIFTED_V, batch.k, batch.tile);
            for (int64_t q = 0; q < groups; q++) {
                const int64_t j = n * q / groups, few = n * (q + 1) / groups - j;
                batch.from = batch.k * q / groups, batch.to = batch.k * (q + 1) / groups;
                const shifted_end end = {tail->bias ? tail->bias + j0 + j : zeros, relu ? 0 : -GG_INF, hardswish};
                shifted_group(&batch, !q, few, w + j * ldw, ldw, out + j * ldo, ldo, c > 0,
                              last && in_tile ? &end : NULL);
                if (SHIFTED_REST > 0 && t1 == tiles && s->rest)
                    shifted_rest(s->rest, few, depth * taps, one, w + j * ldw, ldw, out + j * ldo + places, ldo,
                                 c > 0, last && in_tile ? &end : NULL);
                if (last && !in_tile) {                 /* while these positions are in the L1 cache */
                    const int64_t p = batch.first[0] * VW;
                    const int64_t stop = t1 < tiles ? batch.first[batch.count] * VW : places + s->rest;
                    conv_finish(tail, j0 + j, out + j * ldo + p, ldo, few, stop - p);
                }
            }
        }
    }
    for (int64_t j = 0; s->apart && j < n; j++)
        for (int64_t r = 0; r < rows; r++)
            patch_copy(out + j * ldo + r * ax[0].out, ax[0].out,
                       (float *)(to + (size_t)j * g->c_n + (size_t)r * v->to[1]));
}

/* The first output channel of a chunk. Chunks are whole groups, but for the last one. */
static inline int64_t shifted_channel(const gemm *g, const shifted *s, int64_t chunk) {
    return gg_min(gg_ceil_div(g->n, SHIFTED_N) * chunk / s->chunks * SHIFTED_N, g->n);
}
static size_t shifted_work(const conv_plan *p, const void *part) {
    const shifted *const s = part;
    return (void)p, (size_t)(s->seen.n * s->strips * s->common) * sizeof(float);
}
/* Computes what gemm_run would. */
static int shifted_run(const gg_work *w, const conv_plan *plan, const void *part) {
    const gemm *const g = &plan->product.g;
    const shifted *const s = part;
    const patches *const v = &s->seen;
    const patch_axis *ax = v->ax;
    const int64_t taps = ax[0].taps * ax[1].taps, deep = s->depth * taps;
    const int64_t each = gg_ceil_div(gg_ceil_div(g->n, SHIFTED_N), s->chunks) * SHIFTED_N;
    int64_t sizes[] = {
        s->from_image || (s->in_place && s->packs) || (s->common && !s->packs) ? 0
            : s->depth * shifted_copies(s) + VW,
        s->packs && !s->common ? gg_max(s->together * deep * SHIFTED_LANES, s->held) : 0,
        s->rest * deep, g->b.type == GGML_TYPE_F32 ? 0 : each * deep, s->apart ? each * s->rows * ax[0].out : 0,
    };
    int64_t size = 0;
    for (int i = 0; i < 5; i++) size += sizes[i] = gg_ceil_div(sizes[i], 16) * 16;     /* vectors are aligned */
    float *const x = gg_scratch((size_t)(size + 2 * deep) * sizeof *x);
    if (!x && s->common) gg_barrier(w);
    if (!x) return conv_memory(plan->dst);
    shifted_room room = {.copies = x, .held = -1};
    room.tile = room.copies + sizes[0], room.one = room.tile + sizes[1], room.kernel = room.one + sizes[2];
    room.results = room.kernel + sizes[3];
    int32_t *const first = (int32_t *)(x + size);
    const int64_t channel = s->in_place ? (int64_t)(v->nb_c / sizeof(float)) : 0;
    const shifted_offsets at[2] = {{first, taps == 1 ? s->remainders * s->plane : 0}, {first + deep, channel}};
    for (int64_t c = 0, k = 0; c < s->depth; c++)
        for (int64_t y = 0; y < ax[1].taps; y++)
            for (int64_t tx = 0; tx < ax[0].taps; tx++, k++) {
                const int64_t row = y * ax[1].dilation, copy = (c * ax[0].taps + tx) * s->remainders;
                at[0].at[k] = (int32_t)((copy + row % ax[1].stride) * s->plane + row / ax[1].stride * ax[0].out);
                at[1].at[k] = (int32_t)(k * channel);
            }
    float *const common = w->wdata;
    const int64_t strips = v->n * s->strips;
    for (int64_t i = 0; i < strips && s->common; i++)
        shifted_prepare(g, s, i / s->strips, i % s->strips, w->ith, w->nth, first, room.copies, common + i * s->common);
    if (s->common) gg_barrier(w);
    for (int64_t u; (u = gg_claim_piece(w, strips * s->chunks)) >= 0;) {
        const int64_t chunk = u % s->chunks, i = u / s->chunks;
        shifted_task(g, s, i / s->strips, i % s->strips, shifted_channel(g, s, chunk), shifted_channel(g, s, chunk + 1),
                     at, s->common ? common + i * s->common : NULL, &room);
    }
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_shifted = {
    .bytes = sizeof(shifted), .fits = shifted_fits, .work = shifted_work, .run = shifted_run,
};

#endif
