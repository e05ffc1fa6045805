/* Packed tiles of a large image whose results have rows of whole vectors: what the taps of a kernel read, straight from
 * the image, with zeros where a tap lies outside. */
#ifndef GG_OPS_CONV_IMAGE_H
#define GG_OPS_CONV_IMAGE_H
#include "patches.h"

enum {
    IMAGE_SPAN = 8 * VW,            /* most floats of a row that a vector of positions reads */
    IMAGE_FLOATS = 1 << 19,         /* of an image at least: smaller ones, which are in the L2 cache, gain nothing */
};

/* Floats of a row from the first that the taps read for a vector of positions to the last. */
static inline int64_t image_reach(const patch_axis *ax) {
    return (ax->taps - 1) * ax->dilation + (VW - 1) * ax->stride + 1;
}
static inline bool image_fits(const patches *v, enum ggml_type type) {
    const patch_axis *const ax = v->ax;
    return type == GGML_TYPE_F32 && v->nb[0] == sizeof(float) && ax->out % VW == 0 && ax->taps > 1
        && (ax->stride == 1 || ax->stride == 2) && image_reach(ax) <= IMAGE_SPAN
        && v->c * ax[0].in >= IMAGE_FLOATS / gg_max(ax[1].in, 1);
}

/* What the taps along a row read for a vector of positions, `step` floats from tap to tap; from: what the first tap
 * reads for the first position. */
GG_INLINE void image_load(const int64_t stride, const int64_t taps, const int64_t dilation, const float *from,
                          float *to, int64_t step) {
    int64_t t = 0;
    vf even, odd;
    if (stride == 1) {
        for (; t < taps; t++, from += dilation, to += step) vf_store(to, vf_load(from));
        return;
    }
    for (; dilation == 1 && t + 2 <= taps; t += 2, from += 2, to += 2 * step) {
        vf_load_pairs(from, &even, &odd);
        vf_store(to, even), vf_store(to + step, odd);
    }
    for (; t < taps; t++, from += dilation, to += step) {
        if (!t) vf_load_pairs(from, &odd, &even);
        else vf_load_pairs(from - 1, &even, &odd);      /* nothing behind the last element that is read */
        vf_store(to, odd);
    }
}
/* The same for vectors i .. end-1 of a batch, of which `wide` are a tile; to: where the taps are in the first tile.
 * What the next channel has in their place is prefetched. */
GG_INLINE void image_run(const int64_t stride, const int64_t taps, const int64_t dilation, const float *from,
                         size_t next, int64_t i, int64_t end, const int64_t wide, int64_t tile, float *to) {
    for (; i < end; i++, from += stride * VW) {
        __builtin_prefetch((const char *)from + next);
        image_load(stride, taps, dilation, from, to + i / wide * tile + i % wide * VW, wide * VW);
    }
}
/* The same for vectors of one row of the result, from position x on. row: that of the image; NULL: it is outside. */
static inline void image_row(const patches *v, const float *row, int64_t x, int64_t i, int64_t end,
                             const int64_t wide, int64_t tile, float *to) {
    const patch_axis *const ax = v->ax;
    const int64_t reach = image_reach(ax), stride = ax->stride;
    float span[IMAGE_SPAN + VW];
    for (int64_t n; i < end; i += n, x += n * VW) {
        const int64_t first = x * stride + ax->base, left = ax->in - reach - first;
        if (row && first >= 0 && left >= 0) {
            n = gg_min(end - i, left / (stride * VW) + 1);
            if (stride == 2 && ax->taps == 3 && ax->dilation == 1)      /* as most that halve an image */
                image_run(2, 3, 1, row + first, v->nb_c, i, i + n, wide, tile, to);
            else image_run(stride, ax->taps, ax->dilation, row + first, v->nb_c, i, i + n, wide, tile, to);
            continue;
        }
        const int64_t lo = gg_max(-first, 0), hi = row ? gg_min(ax->in - first, reach) : 0;
        n = 1;
        for (int64_t l = 0; l < reach; l += VW) vf_store(span + l, vf_zero());
        if (lo < hi) patch_copy(row + first + lo, hi - lo, span + lo);
        image_load(stride, ax->taps, ax->dilation, span, to + i / wide * tile + i % wide * VW, wide * VW);
    }
}
/* Packs vectors v0 .. v0+n-1 of the positions from row `row` of the result on: `wide` of them are a tile of k taps.
 * channels: `depth` of them. */
static void image_pack(const patches *v, const char *channels, int64_t depth, int64_t row, int64_t v0, int64_t n,
                       const int64_t wide, int64_t k, float *tiles) {
    const patch_axis *const ax = v->ax, *const down = &v->ax[1];
    const int64_t vectors = ax->out / VW, step = wide * VW;
    for (int64_t c = 0; c < depth; c++, channels += v->nb_c)
        for (int64_t t = 0; t < down->taps; t++, tiles += ax->taps * step)
            for (int64_t i = 0, end; i < n; i = end) {
                const int64_t y = (v0 + i) / vectors, x = (v0 + i) % vectors;
                const int64_t at = (row + y) * down->stride + down->base + t * down->dilation;
                const char *const from = at < 0 || at >= down->in ? NULL : channels + (size_t)at * v->nb[1];
                end = gg_min(n, i + vectors - x);
                image_row(v, (const float *)from, x * VW, i, end, wide, k * step, tiles);
            }
}

#endif
