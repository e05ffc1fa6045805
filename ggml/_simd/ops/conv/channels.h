/* Convolutions of several small images, whose positions would fill few lanes of a vector: lanes are output channels.
 * Each thread packs the kernel once; the elements of the images are read where they are, or in a padded copy of an
 * image. A tile of the result is some vectors of output channels times a few positions. */
#ifndef GG_OPS_CONV_CHANNELS_H
#define GG_OPS_CONV_CHANNELS_H
#include "depthwise_lanes.h"
#include "shifted.h"

enum {
    CHANNELS_PLACES = 8 * VW,       /* most positions of an image; those of more images together fill */
    CHANNELS_LEAST = 8 * VW,        /* vectors of output channels often enough to pack these, */
    CHANNELS_KERNEL = 1 << 16,      /* whose floats stay in the L2 cache, */
    CHANNELS_FLOATS = 1 << 16,      /* as those of the copy and of the sums of an image do */
    CHANNELS_N = SHIFTED_N,         /* positions of a tile, and */
    CHANNELS_FEW = SHIFTED_N / 2,   /* those of one behind the last whole tile, if these suffice */
};

typedef struct channels {
    bool copied;                    /* images are padded, or have rows at other distances than whole floats */
    int64_t low[2], width, height;  /* the first element that output 0 reads; a plane of the copy */
    int64_t row, plane;             /* floats from a row to the next and from a channel to the next, as they are read */
    int64_t vectors;                /* of output channels */
} channels;

/* sums[j*ldo + i*VW] = the sum over k of w[k*v*VW + i*VW] x[place[j] + at[k]] for v vectors of output channels and n
 * positions. */
GG_INLINE void channels_tile(const int v, const int n, int64_t k, const int32_t *at,
                             const float *const place[CHANNELS_N], const float *w, float *sums, int64_t ldo) {
    vf sum[CHANNELS_N][SHIFTED_V];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_zero();
    for (; k > 0; k--, at++, w += v * VW) {
        vf a[SHIFTED_V];
        GG_UNROLL for (int i = 0; i < v; i++) a[i] = vf_load(w + i * VW);
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vf y = vf_set1(place[j][*at]);
            GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_fma(a[i], y, sum[j][i]);
        }
    }
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) vf_store(sums + j * ldo + i * VW, sum[j][i]);
}
typedef void (*channels_fn)(int64_t k, const int32_t *at, const float *const place[CHANNELS_N], const float *w,
                            float *sums, int64_t ldo);
#define CHANNELS(v, n) \
    static void channels_##v##_##n(int64_t k, const int32_t *at, const float *const place[CHANNELS_N], const float *w, \
                                   float *sums, int64_t ldo) { \
        channels_tile(v < SHIFTED_V ? v : SHIFTED_V, CHANNELS_##n, k, at, place, w, sums, ldo); \
    }
#define CHANNELS_SIZES(F) F(1, N) F(1, FEW) F(2, N) F(2, FEW) F(3, N) F(3, FEW) F(4, N) F(4, FEW)
CHANNELS_SIZES(CHANNELS)
#undef CHANNELS
static const channels_fn channels_table[][2] = {
    [1] = {channels_1_N, channels_1_FEW}, [2] = {channels_2_N, channels_2_FEW},
    [3] = {channels_3_N, channels_3_FEW}, [4] = {channels_4_N, channels_4_FEW},
};

static CONV_ONCE bool channels_fits(const conv_plan *p, void *part) {
    const patches *const v = &p->product.seen;
    const gemm *const g = &p->product.g;
    const patch_axis *ax = v->ax;
    channels *const s = part;
    const int64_t places = ax[0].out * ax[1].out, n = gg_ceil_div(g->n, VW) * VW;
    if (VW < 8 || p->computes != RESULT || g->k < 1 || g->n < 1 || g->b.pack != pack_along_k || !gg_is_float(g->b.type))
        return false;
    if (places < 1 || ax[2].out != 1 || ax[2].taps != 1 || ax[2].base || v->to[0] != sizeof(float)
        || v->to[1] != sizeof(float) * (size_t)ax[0].out) return false;
    if (g->a.type != GGML_TYPE_F32 || v->nb[0] != sizeof(float)) return false;
    if (v->n < 2 || places > CHANNELS_PLACES || v->n * places < CHANNELS_LEAST) return false;
    /* lanes without a channel, and those without a position if these are the lanes */
    if (n * places > g->n * gg_ceil_div(places, VW) * VW || n * g->k > CHANNELS_KERNEL) return false;
    /* images that may be joined, if tiles would waste a twentieth of their sums on no channel and no position */
    const int64_t rest = places % CHANNELS_N, last = rest > CHANNELS_FEW ? CHANNELS_N : CHANNELS_FEW;
    const int64_t sums = n * (places - rest + (rest ? last : 0));
    if (20 * g->n * places < 19 * sums && shifted_short(g, v)) return false;
    *s = (channels){.vectors = n / VW};
    for (int i = 0; i < 2; i++) {
        const int64_t extent = (ax[i].out - 1) * ax[i].stride + patch_extent(&ax[i]) + 1;
        s->low[i] = ax[i].base, *(i ? &s->height : &s->width) = extent;
        s->copied |= ax[i].base < 0 || ax[i].base + extent > ax[i].in;
    }
    s->copied |= v->nb[1] % sizeof(float) || v->nb_c % sizeof(float) || v->nb_c > INT32_MAX / (size_t)v->c;
    if (v->c > CHANNELS_FLOATS / s->width / s->height || n > CHANNELS_FLOATS / places) return false;
    s->row = s->copied ? s->width : (int64_t)(v->nb[1] / sizeof(float));
    s->plane = s->copied ? s->width * s->height : (int64_t)(v->nb_c / sizeof(float));
    return true;
}
/* The copy of an image. */
static void channels_load(const patches *v, const channels *s, const char *image, float *copy) {
    const patch_range inside = patch_inside(v->ax[0].in, s->low[0], 1, s->width), none = {s->width, s->width};
    for (int64_t c = 0; c < v->c; c++)
        for (int64_t r = 0; r < s->height; r++, copy += s->width) {
            const int64_t y = s->low[1] + r;
            const char *const row = image + (size_t)c * v->nb_c + y * (ptrdiff_t)v->nb[1];
            patch_span((const float *)row + s->low[0], y >= 0 && y < v->ax[1].in ? inside : none, s->width, copy);
        }
}
/* The sums of an image, whose first element that output 0 reads is at x. */
static void channels_sums(const patches *v, const gemm *g, const channels *s, const float *x, const int32_t *at,
                          const float *w, float *sums) {
    const patch_axis *ax = v->ax;
    const int64_t places = ax[0].out * ax[1].out, ldo = s->vectors * VW, groups = gg_ceil_div(s->vectors, SHIFTED_V);
    for (int64_t q = 0; q < groups; q++) {
        const int64_t first = s->vectors * q / groups, some = s->vectors * (q + 1) / groups - first;
        for (int64_t o = 0, n; o < places; o += n) {
            const float *place[CHANNELS_N];
            const bool few = places - o <= CHANNELS_FEW;
            n = few ? CHANNELS_FEW : CHANNELS_N;
            for (int64_t j = 0; j < n; j++) {           /* a tile may end with the last position several times */
                const int64_t i = gg_min(o + j, places - 1), y = i / ax[0].out;
                place[j] = x + y * ax[1].stride * s->row + (i - y * ax[0].out) * ax[0].stride;
            }
            channels_table[some][few](g->k, at, place, w + first * VW * g->k, sums + o * ldo + first * VW, ldo);
        }
    }
}
/* Computes what gemm_run would. */
static int channels_run(const gg_work *w, const conv_plan *plan, const void *part) {
    const patches *const v = &plan->product.seen;
    const gemm *const g = &plan->product.g;
    const channels *const s = part;
    const patch_axis *ax = v->ax;
    const int64_t places = ax[0].out * ax[1].out, n = s->vectors * VW, groups = gg_ceil_div(s->vectors, SHIFTED_V);
    const int64_t size = s->copied ? v->c * s->plane : 0, most = gg_max(places + CHANNELS_N, VW) * n;
    float *const kernel = gg_scratch((size_t)(n * g->k + most + size + g->k) * sizeof *kernel);
    if (!kernel) return conv_memory(plan->dst);
    float *const sums = kernel + n * g->k, *const copy = sums + most;
    int32_t *const at = (int32_t *)(copy + size);
    for (int64_t k = 0; k < g->k; k++) {
        int64_t t[3], c;
        patch_tap(v, k, t, &c);
        at[k] = (int32_t)(c * s->plane + t[1] * ax[1].dilation * s->row + t[0] * ax[0].dilation);
    }
    bool packed = false;
    for (int64_t u0, u1; gg_claim_chunk(w, v->n, 1, &u0, &u1);) {
        for (int64_t q = 0; q < groups && !packed; q++) {
            const int64_t first = s->vectors * q / groups * VW, width = s->vectors * (q + 1) / groups * VW - first;
            for (int64_t k = 0; k < g->k; k += KC)
                g->b.pack(&g->b, first, (int)gg_min(width, g->n - first), k, (int)gg_min(g->k - k, KC),
                          kernel + first * g->k + k * width, (int)width);
        }
        packed = true;
        for (int64_t u = u0; u < u1; u++) {
            const char *const image = g->a.data + (size_t)u * v->nb_n;
            const float *x = copy;
            if (s->copied) channels_load(v, s, image, copy);
            else x = (const float *)(image + s->low[1] * (ptrdiff_t)v->nb[1]) + s->low[0];
            channels_sums(v, g, s, x, at, kernel, sums);
            float *const to = (float *)(g->c + (size_t)u * v->to_n);
            const int64_t ldc = (int64_t)(g->c_n / sizeof(float));
            for (int64_t j = 0; j < g->n; j += VW)
                lanes_store(sums + j, n, places, gg_min(g->n - j, VW), to + j * ldc, ldc);
            conv_finish(&v->tail, 0, to, ldc, g->n, places);
        }
    }
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_channels = {
    .bytes = sizeof(channels), .fits = channels_fits, .run = VW < 8 ? NULL : channels_run,
};

#endif
