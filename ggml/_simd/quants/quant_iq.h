/* Encoders of the IQ types. IQ1 to IQ3 round groups of eight or four elements to points of a grid, IQ4 rounds
 * elements to 16 levels of unequal distance. */
#ifndef GG_QUANTS_QUANT_IQ_H
#define GG_QUANTS_QUANT_IQ_H
#include "quantize.h"
#include "search.h"
#include "tables.h"

/* ---- points of grids --------------------------------------------------------------------------------------------- */
/* Packs levels, one a byte, to a point: eight times two bits or four times three. unpack_point is the inverse. */
static inline uint32_t pack_point(const gg_grid *g, const uint8_t *l) {
    uint64_t v = 0;
    memcpy(&v, l, (size_t)g->dims);
    if (g->bits == 2) {
        v = (v | v >> 6) & 0x000f000f000f000f;
        v = (v | v >> 12) & 0x000000ff000000ff;
        return (uint32_t)(v | v >> 24) & 0xffff;
    }
    v = (v | v >> 5) & 0x003f003f;
    return (uint32_t)(v | v >> 10) & 0xfff;
}
static inline void unpack_point(const gg_grid *g, uint32_t point, uint8_t *l) {
    for (int i = 0; i < g->dims; i++) l[i] = (uint8_t)(point >> i * g->bits & ((1u << g->bits) - 1));
}

/* The index of the grid point with the least weighted error among the neighbours of a point that is not on the grid.
 * Level l stands for value[l] scale. */
static int nearest_neighbour(const gg_grid *g, uint32_t point, const float *x, const float *w, float scale,
                             const float *value) {
    const uint16_t *list = g->lists + (-g->map[point] - 1);
    float cost[8][8], best = 0;
    for (int i = 0; i < g->dims; i++)
        for (int l = 0; l < g->levels; l++) {
            const float diff = scale * value[l] - x[i];
            cost[i][l] = w[i] * diff * diff;
        }
    int found = -1;
    for (int k = 1; k <= list[0]; k++) {
        const uint32_t u = g->points[list[k]];
        float sum;
        if (g->bits == 2) {
            sum = cost[0][u & 3] + cost[1][u >> 2 & 3] + cost[2][u >> 4 & 3] + cost[3][u >> 6 & 3];
            sum = sum + cost[4][u >> 8 & 3] + cost[5][u >> 10 & 3] + cost[6][u >> 12 & 3] + cost[7][u >> 14 & 3];
        } else {
            sum = cost[0][u & 7] + cost[1][u >> 3 & 7] + cost[2][u >> 6 & 7] + cost[3][u >> 9 & 7];
        }
        if (found < 0 || sum < best) best = sum, found = list[k];
    }
    return found;
}
/* The index of the grid point for levels l. If they are not on the grid, *on_grid becomes false and l that point. */
static inline int to_grid(const gg_grid *g, uint8_t *l, const float *x, const float *w, float scale, const float *value,
                          bool *on_grid) {
    const uint32_t u = pack_point(g, l);
    *on_grid = g->map[u] >= 0;
    if (*on_grid) return g->map[u];
    const int i = nearest_neighbour(g, u, x, w, scale, value);
    unpack_point(g, g->points[i], l);
    return i;
}

/* ---- IQ2 and IQ3 ------------------------------------------------------------------------------------------------- */
typedef struct {
    int grid, n;            /* GG_GRID_...; elements of a scale group */
    bool even;              /* the number of minus signs of eight elements must be even */
    bool fit_first;         /* candidate scales lie around a fit instead of around the maximum */
    /* points that are rounded again by the final scale: those off the grid; all if one is off the grid; all */
    enum { OFF_GRID, ALL_IF_OFF, ALL } last;
    int steps;              /* candidate scales on each side, */
    float step;             /* and the distance between them */
} iq_spec;
static const float odd_values[8] = {1, 3, 5, 7, 9, 11, 13, 15};

/* Stores absolute values in a and the signs of each eight elements in a byte. Where the number of minus signs must be
 * even, the least important element takes the wrong sign if necessary. */
static inline void split_signs(const float *x, const float *w, int n, bool even, float *a, uint8_t *signs) {
    for (int k = 0; k < n / 8; k++, x += 8, w += 8, a += 8) {
        uint32_t s = 0;
        int least = 0;
        for (int i = 0; i < 8; i++) {
            s |= (uint32_t)!(x[i] >= 0) << i;
            a[i] = fabsf(x[i]);
            if (w[i] * x[i] * x[i] < w[least] * x[least] * x[least]) least = i;
        }
        if (even && __builtin_parity(s)) s ^= 1u << least, a[least] = -a[least];
        signs[k] = (uint8_t)(even ? s & 127 : s);
    }
}
/* sum w x q and sum w q^2 for q = value[l] */
static inline void level_sums(const float *x, const float *w, const uint8_t *l, int n, const float *value, float *xq,
                              float *q2) {
    *xq = *q2 = 0;
    for (int i = 0; i < n; i++) {
        const float q = value[l[i]];
        *xq += w[i] * x[i] * q, *q2 += w[i] * q * q;
    }
}
static inline void odd_levels(uint8_t *l, const float *a, int n, float inv, int top) {   /* x = scale (2 l + 1) */
    for (int i = 0; i < n; i += VW) {
        const vf v = vf_sub(vf_mul(vf_set1(inv), vf_load(a + i)), vf_set1(1));
        store_levels(l + i, vf_round(vf_mul(vf_set1(0.5f), v)), 0, (float)top);
    }
}
/* Fits one scale group: |x| = scale (2 l + 1), levels l on the grid. Returns the scale; if it is 0, so are index and
 * signs. */
static float fit_grid(const iq_spec *s, const gg_grid *g, const float *x, const float *w, uint16_t *index,
                      uint8_t *signs) {
    const int n = s->n, d = g->dims, top = g->levels - 1;
    float a[32], root[32], max = 0, xq, q2;
    uint8_t l[32], best_l[32] = {0};
    bool on_grid[8], best_on[8] = {0};
    split_signs(x, w, n, s->even, a, signs);
    for (int i = 0; i < n; i += VW) vf_store(root + i, vf_sqrt(vf_load(w + i)));
    for (int i = 0; i < n; i++) if (a[i] > max) max = a[i];
    float scale = s->fit_first ? fit_positive(a, w, n, top + 2, l) : max / (float)(2 * top + 1), best = 0;
    if (s->fit_first) max = scale * (float)(top + 1);
    memset(index, 0, (size_t)(n / d) * sizeof *index);
    if (!(max >= (s->fit_first ? 1e-30f : 1e-8f))) { memset(signs, 0, (size_t)n / 8); return 0; }
    for (int k = -s->steps; k <= s->steps; k++) {
        const float inv = ((float)(2 * top + 1) + (float)k * s->step) / max, here = 1 / inv;
        odd_levels(l, a, n, inv, top);
        for (int p = 0; p < n / d; p++) to_grid(g, l + d * p, a + d * p, root + d * p, here, odd_values, &on_grid[p]);
        level_sums(a, w, l, n, odd_values, &xq, &q2);
        if (!(q2 > 0 && xq * xq > best * q2)) continue;
        scale = xq / q2, best = scale * xq;
        memcpy(best_l, l, (size_t)n), memcpy(best_on, on_grid, sizeof on_grid);
    }
    bool again = s->last == ALL;
    for (int p = 0; p < n / d; p++) again |= !best_on[p];
    if (again && scale > 0) {               /* by the best scale */
        odd_levels(l, a, n, 1 / scale, top);
        for (int p = 0; p < n / d; p++) {
            if (best_on[p] && s->last == OFF_GRID) continue;
            to_grid(g, l + d * p, a + d * p, root + d * p, scale, odd_values, &on_grid[p]);
            memcpy(best_l + d * p, l + d * p, (size_t)d);
        }
        level_sums(a, w, best_l, n, odd_values, &xq, &q2);
        if (q2 > 0) scale = xq / q2;
    }
    if (scale < 0) {
        scale = -scale;
        for (int k = 0; k < n / 8; k++) signs[k] = (uint8_t)(~signs[k] & (s->even ? 127 : 255));
    }
    for (int p = 0; p < n / d; p++) {
        const int i = g->map[pack_point(g, best_l + d * p)];
        index[p] = (uint16_t)(i < 0 ? 0 : i);
    }
    return scale;
}

typedef struct { float scale[16]; uint8_t level[16], signs[32]; uint16_t index[64]; } iq_block;

/* Fits a block of 256 elements, with scales as multiples (2 level + 1) of the unit that it returns; 0: all is 0. */
static float fit_iq_block(const iq_spec *s, const float *x, const float *w, iq_block *b) {
    const gg_grid *g = gg_grid_get(s->grid);
    const int count = 256 / s->n;
    float max = 0;
    memset(b, 0, sizeof *b);
    if (!g) return 0;                       /* out of memory, which gg_quantizer_ready reports */
    for (int j = 0; j < count; j++) {
        b->scale[j] = fit_grid(s, g, x + j * s->n, w + j * s->n, b->index + j * s->n / g->dims,
                               b->signs + j * s->n / 8);
        if (b->scale[j] > max) max = b->scale[j];
    }
    if (max == 0) return 0;
    const float unit = max / 31;
    for (int j = 0; j < count; j++) b->level[j] = (uint8_t)level(0.5f * (1 / unit * b->scale[j] - 1), 0, 15);
    return unit;
}
/* Importance weights; without im x^2 + share. */
static inline void weights(float *w, const float *x, const float *im, float sigma2, float share) {
    if (im) importance(w, x, im, 256, sigma2);
    else for (int i = 0; i < 256; i++) w[i] = share + x[i] * x[i];
}

static void iq2_xxs_quantize(const float *x, void *y, int64_t n, const float *im) {
    static const iq_spec spec = {GG_GRID_IQ2XXS, 32, true, true, ALL, 6, 0.1f};
    float w[256];
    iq_block f;
    for (block_iq2_xxs *b = y; n > 0; b++, x += 256, im += 256, n -= 256) {
        weights(w, x, im, sum_squares(x, 256) / 256, 0);
        b->d = scale_half(fit_iq_block(&spec, x, w, &f));
        for (int j = 0; j < 8; j++) {
            uint32_t index = 0, signs = 0;
            for (int k = 0; k < 4; k++) {
                index |= (uint32_t)f.index[4 * j + k] << 8 * k;
                signs |= (uint32_t)f.signs[4 * j + k] << 7 * k;
            }
            b->qs[2 * j] = index, b->qs[2 * j + 1] = signs | (uint32_t)f.level[j] << 28;
        }
    }
}
static void iq2_xs_quantize(const float *x, void *y, int64_t n, const float *im) {
    static const iq_spec spec = {GG_GRID_IQ2XS, 16, true, false, OFF_GRID, 9, 0.1f};
    float w[256];
    iq_block f;
    for (block_iq2_xs *b = y; n > 0; b++, x += 256, im += 256, n -= 256) {
        weights(w, x, im, sum_squares(x, 256) / 256, 0);
        b->d = scale_half(fit_iq_block(&spec, x, w, &f));
        for (int i = 0; i < 32; i++) b->qs[i] = (uint16_t)(f.index[i] | f.signs[i] << 9);
        for (int j = 0; j < 8; j++) b->scales[j] = (uint8_t)(f.level[2 * j] | f.level[2 * j + 1] << 4);
    }
}
static void iq2_s_quantize(const float *x, void *y, int64_t n, const float *im) {
    static const iq_spec spec = {GG_GRID_IQ2S, 16, false, false, OFF_GRID, 9, 0.1f};
    float w[256];
    iq_block f;
    for (block_iq2_s *b = y; n > 0; b++, x += 256, n -= 256) {
        const float sigma2 = 2 * sum_squares(x, 256) / 256;
        weights(w, x, im, sigma2, 0.25f * sigma2);
        b->d = scale_half(fit_iq_block(&spec, x, w, &f) * 0.9875f);
        memset(b->qh, 0, sizeof b->qh);
        for (int i = 0; i < 32; i++) {
            b->qs[i] = (uint8_t)f.index[i];
            b->qh[i / 4] |= (uint8_t)(f.index[i] >> 8 << i % 4 * 2);
        }
        for (int j = 0; j < 8; j++) b->scales[j] = (uint8_t)(f.level[2 * j] | f.level[2 * j + 1] << 4);
        memcpy(b->signs, f.signs, 32);
        if (im) im += 256;
    }
}
static void iq3_xxs_quantize(const float *x, void *y, int64_t n, const float *im) {
    static const iq_spec spec = {GG_GRID_IQ3XXS, 32, true, false, OFF_GRID, 15, 0.2f};
    float w[256];
    iq_block f;
    for (block_iq3_xxs *b = y; n > 0; b++, x += 256, n -= 256) {
        weights(w, x, im, 2 * sum_squares(x, 256) / 256, 0);
        b->d = scale_half(fit_iq_block(&spec, x, w, &f) * 1.0125f);
        for (int i = 0; i < 64; i++) b->qs[i] = (uint8_t)f.index[i];
        for (int j = 0; j < 8; j++) {
            uint32_t u = (uint32_t)f.level[j] << 28;
            for (int k = 0; k < 4; k++) u |= (uint32_t)f.signs[4 * j + k] << 7 * k;
            b->gas[j] = u;
        }
        if (im) im += 256;
    }
}
static void iq3_s_quantize(const float *x, void *y, int64_t n, const float *im) {
    static const iq_spec spec = {GG_GRID_IQ3S, 32, false, false, ALL_IF_OFF, 9, 0.2f};
    float w[256];
    iq_block f;
    for (block_iq3_s *b = y; n > 0; b++, x += 256, n -= 256) {
        weights(w, x, im, 2 * sum_squares(x, 256) / 256, 0);
        b->d = scale_half(fit_iq_block(&spec, x, w, &f) * 1.033f);
        memset(b->qh, 0, sizeof b->qh);
        for (int i = 0; i < 64; i++) {
            b->qs[i] = (uint8_t)f.index[i];
            b->qh[i / 8] |= (uint8_t)(f.index[i] >> 8 << i % 8);
        }
        for (int j = 0; j < 4; j++) b->scales[j] = (uint8_t)(f.level[2 * j] | f.level[2 * j + 1] << 4);
        memcpy(b->signs, f.signs, 32);
        if (im) im += 256;
    }
}

/* ---- IQ1: three levels, shifted up or down by an eighth ---------------------------------------------------------- */
static const float shifted[2][3] = {{-0.875f, 0.125f, 1.125f}, {-1.125f, -0.125f, 0.875f}};   /* [up, down][level] */

/* The indices of n values in ascending order; the order of equal values is kept. */
static inline void sort_order(const float *x, int n, uint8_t *order) {
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && x[i] < x[order[k - 1]]; k--) order[k] = order[k - 1];
        order[k] = (uint8_t)i;
    }
}
/* Levels 0, 1, 2 of the values before, between and behind two cuts in their order. A negative scale is negated and the
 * levels are reversed; then it returns true. */
static inline bool levels_of_cuts(const uint8_t *order, int n, int cut1, int cut2, float *scale, uint8_t *l) {
    const bool turn = *scale < 0;
    if (turn) *scale = -*scale;
    for (int j = 0; j < n; j++) {
        const int v = (j >= cut1) + (j >= cut2);
        l[order[j]] = (uint8_t)(turn ? 2 - v : v);
    }
    return turn;
}

/* Fits 32 elements by trying every pair of cuts and both shifts. Returns the scale; *down becomes the shift. */
static float fit_iq1_s(const gg_grid *g, const float *x, const float *w, uint16_t *index, int *down) {
    uint8_t order[32], l[32];
    float sx[33] = {0}, sw[33] = {0}, best = 0, scale = 0;
    int cut1 = -1, cut2 = -1;
    sort_order(x, 32, order);
    for (int j = 0; j < 32; j++) sx[j + 1] = sx[j] + w[order[j]] * x[order[j]], sw[j + 1] = sw[j] + w[order[j]];
    for (int i = 0; i <= 32; i++)
        for (int j = i; j <= 32; j++)
            for (int s = 0; s < 2; s++) {
                const float *v = shifted[s];
                const float xq = sx[i] * v[0] + (sx[j] - sx[i]) * v[1] + (sx[32] - sx[j]) * v[2];
                const float q2 = sw[i] * v[0] * v[0] + (sw[j] - sw[i]) * v[1] * v[1] + (sw[32] - sw[j]) * v[2] * v[2];
                if (q2 > 0 && (cut1 < 0 || xq * xq > best * q2))
                    scale = xq / q2, best = scale * xq, cut1 = i, cut2 = j, *down = s;
            }
    if (cut1 < 0) return 0;
    if (levels_of_cuts(order, 32, cut1, cut2, &scale, l)) *down = !*down;
    bool all_on = true, on;
    for (int p = 0; p < 4; p++) {
        index[p] = (uint16_t)to_grid(g, l + 8 * p, x + 8 * p, w + 8 * p, scale, shifted[*down], &on);
        all_on &= on;
    }
    if (!all_on) {
        float xq, q2;
        level_sums(x, w, l, 32, shifted[*down], &xq, &q2);
        if (xq > 0 && q2 > 0) scale = xq / q2;
    }
    return scale;
}
static void iq1_s_quantize(const float *x, void *y, int64_t n, const float *im) {
    const gg_grid *g = gg_grid_get(GG_GRID_IQ1S);
    if (!g) { memset(y, 0, (size_t)n / 256 * sizeof(block_iq1_s)); return; }
    float w[256], scale[8];
    for (block_iq1_s *b = y; n > 0; b++, x += 256, im += 256, n -= 256) {
        float max = 0;
        weights(w, x, im, 2 * sum_squares(x, 256) / 256, 0);
        memset(b, 0, sizeof *b);
        for (int j = 0; j < 8; j++) {
            uint16_t index[4] = {0};
            int down = 0;
            scale[j] = max_abs(x + 32 * j, 32) >= 1e-12f ? fit_iq1_s(g, x + 32 * j, w + 32 * j, index, &down) : 0;
            for (int k = 0; k < 4; k++) {
                b->qs[4 * j + k] = (uint8_t)index[k];
                b->qh[j] |= (uint16_t)(index[k] >> 8 << 3 * k);
            }
            b->qh[j] |= (uint16_t)(down << 15);
            if (scale[j] > max) max = scale[j];
        }
        if (max == 0) { memset(b, 0, sizeof *b); continue; }
        const float unit = max / 15;
        b->d = scale_half(unit * 1.125f);
        for (int j = 0; j < 8; j++) b->qh[j] |= (uint16_t)(level(0.5f * (1 / unit * scale[j] - 1), 0, 7) << 12);
    }
}

/* Fits 16 elements, whose halves have different shifts: bit 1 of the variant is the shift of the first eight, bit 0
 * that of the last eight. */
static float fit_iq1_m(const gg_grid *g, const float *x, const float *w, uint16_t *index, uint8_t *l, int *variant) {
    uint8_t order[16];
    float term[3][16][8];       /* [level][rank]: w v x of the four variants, then w v^2 */
    sort_order(x, 16, order);
    for (int v = 0; v < 3; v++)
        for (int j = 0; j < 16; j++)
            for (int k = 0; k < 4; k++) {
                const int i = order[j];
                const float q = shifted[i < 8 ? k >> 1 : k & 1][v];
                term[v][j][k] = w[i] * q * x[i], term[v][j][4 + k] = w[i] * q * q;
            }
    float low[8] = {0}, best = 0, scale = 0;
    int cut1 = -1, cut2 = -1;
    for (int a = 0; a <= 16; a++) {
        float middle[8];
        memcpy(middle, low, sizeof low);
        for (int b = a; b <= 16; b++) {
            float s[8];
            memcpy(s, middle, sizeof s);
            for (int j = b; j < 16; j++) for (int k = 0; k < 8; k++) s[k] += term[2][j][k];
            for (int k = 0; k < 4; k++)
                if (s[4 + k] > 0 && (cut1 < 0 || s[k] * s[k] > best * s[4 + k]))
                    scale = s[k] / s[4 + k], best = scale * s[k], cut1 = a, cut2 = b, *variant = k;
            if (b < 16) for (int k = 0; k < 8; k++) middle[k] += term[1][b][k];
        }
        if (a < 16) for (int k = 0; k < 8; k++) low[k] += term[0][a][k];
    }
    if (cut1 < 0) return 0;
    if (levels_of_cuts(order, 16, cut1, cut2, &scale, l)) *variant = 3 - *variant;
    bool all_on = true, on;
    for (int p = 0; p < 2; p++) {
        index[p] = (uint16_t)to_grid(g, l + 8 * p, x + 8 * p, w + 8 * p, scale,
                                     shifted[p ? *variant & 1 : *variant >> 1], &on);
        all_on &= on;
    }
    if (!all_on) {
        float xq = 0, q2 = 0;
        for (int i = 0; i < 16; i++) {
            const float q = shifted[i < 8 ? *variant >> 1 : *variant & 1][l[i]];
            xq += w[i] * q * x[i], q2 += w[i] * q * q;
        }
        if (xq > 0 && q2 > 0) scale = xq / q2;
    }
    return scale;
}
static void iq1_m_quantize(const float *x, void *y, int64_t n, const float *im) {
    static const uint8_t shift_bits[4] = {0x00, 0x80, 0x08, 0x88};
    const gg_grid *g = gg_grid_get(GG_GRID_IQ1S);
    if (!g) { memset(y, 0, (size_t)n / 256 * sizeof(block_iq1_m)); return; }
    float w[256], scale[16];
    uint8_t l[256];
    for (block_iq1_m *b = y; n > 0; b++, x += 256, n -= 256) {
        float max = 0, xq = 0, q2 = 0;
        int variant[16] = {0};
        weights(w, x, im, 2 * sum_squares(x, 256) / 256, 0);
        memset(b, 0, sizeof *b);
        memset(l, 0, sizeof l);                 /* grid index 0 means level 0 for all elements */
        for (int j = 0; j < 16; j++) {
            uint16_t index[2] = {0};
            scale[j] = 0;
            if (max_abs(x + 16 * j, 16) >= 1e-7f)
                scale[j] = fit_iq1_m(g, x + 16 * j, w + 16 * j, index, l + 16 * j, &variant[j]);
            b->qs[2 * j] = (uint8_t)index[0], b->qs[2 * j + 1] = (uint8_t)index[1];
            b->qh[j] = (uint8_t)(index[0] >> 8 | index[1] >> 8 << 4);
            if (scale[j] > max) max = scale[j];
        }
        if (im) im += 256;
        if (max == 0) { memset(b, 0, sizeof *b); continue; }
        float unit = max / 15;
        for (int j = 0; j < 16; j++) {
            const int m = level(0.5f * (1 / unit * scale[j] - 1), 0, 7);
            b->scales[j / 4] |= (uint16_t)(m << j % 4 * 3);
            b->qh[j] |= shift_bits[variant[j]];
            for (int i = 0; i < 16; i++) {      /* least-squares unit of the decoded values */
                const int e = 16 * j + i;
                const float q = shifted[i < 8 ? variant[j] >> 1 : variant[j] & 1][l[e]] * (float)(2 * m + 1);
                xq += w[e] * q * x[e], q2 += w[e] * q * q;
            }
        }
        if (q2 > 0) unit = xq / q2;
        const uint16_t h = scale_half(unit * 1.1125f);
        for (int k = 0; k < 4; k++) b->scales[k] |= (uint16_t)(h >> 4 * k << 12);
    }
}

/* ---- IQ4: sixteen levels of unequal distance --------------------------------------------------------------------- */
static const float iq4_values[16] = {GG_LEVELS_IQ4NL};
static inline float iq4_middle(int k) { return 0.5f * (iq4_values[k] + iq4_values[k + 1]); }

static inline vf iq4_nearest(vf v) {            /* the value of the nearest level */
    vf q = vf_set1(iq4_values[0]);
#pragma GCC unroll 15
    for (int k = 0; k < 15; k++) q = vf_select(vf_ge(v, vf_set1(iq4_middle(k))), vf_set1(iq4_values[k + 1]), q);
    return q;
}
static inline void iq4_levels(uint8_t *q, const float *x, int n, float inv) {
    for (int i = 0; i < n; i += VW) {
        const vf v = vf_mul(vf_load(x + i), vf_set1(inv));
        vf l = vf_zero();
        for (int k = 0; k < 15; k++) l = vf_select(vf_ge(v, vf_set1(iq4_middle(k))), vf_add(l, vf_set1(1)), l);
        store_levels(q + i, l, 0, 15);
    }
}
static inline void iq4_sums(const groups *g, int c, vf inv, vf *xq, vf *q2) {
    *xq = *q2 = vf_zero();
    for (int i = 0; i < g->n; i++) {
        const vf v = vf_load(g->x[i] + c), q = iq4_nearest(vf_mul(inv, v)), wq = vf_mul(vf_load(g->w[i] + c), q);
        *xq = madd(wq, v, *xq), *q2 = madd(wq, q, *q2);
    }
}
/* The scale of each group and the factor `inverse` by which its elements are rounded. Without a search, the value of
 * the largest magnitude is mapped to the lowest level, and the scale is fitted once to the resulting levels. */
static void fit_iq4(const groups *g, bool search, float *out, float *inverse) {
    const vf zero = vf_zero(), lowest = vf_set1(iq4_values[0]);
    for (int c = 0; c < g->count; c += VW) {
        vf peak = zero, xq, q2;
        for (int i = 0; i < g->n; i++) {
            const vf v = vf_load(g->x[i] + c);
            peak = vf_select(vf_gt(vf_abs(v), vf_abs(peak)), v, peak);
        }
        const vf first = vf_div(vf_set1(1), vf_div(search ? vf_neg(peak) : peak, lowest));
        iq4_sums(g, c, first, &xq, &q2);
        vf scale = vf_div(xq, q2), best = vf_mul(scale, xq);
        for (int k = -7; search && k <= 7; k++) {
            iq4_sums(g, c, vf_div(vf_set1((float)k + iq4_values[0]), peak), &xq, &q2);
            const vm better = vm_and(vf_gt(q2, zero), vf_gt(vf_mul(xq, xq), vf_mul(best, q2)));
            const vf new = vf_div(xq, q2);
            scale = vf_select(better, new, scale), best = vf_select(better, vf_mul(new, xq), best);
        }
        const vm nonzero = vm_and(vf_ge(vf_abs(peak), vf_set1(1e-15f)), vf_eq(scale, scale));
        vf_store(out + c, vf_select(nonzero, scale, zero));
        const vm usable = vm_and(nonzero, vm_not(vf_eq(scale, zero)));
        vf_store(inverse + c, vf_select(usable, search ? vf_div(vf_set1(1), scale) : first, zero));
    }
}
static inline void iq4_weights(float *w, const float *x, const float *im, int n, int per_sigma) {
    for (int i = 0; i < n; i += per_sigma) {
        if (im) importance(w + i, x + i, im + i, per_sigma, 2 * sum_squares(x + i, per_sigma) / (float)per_sigma);
        else for (int k = i; k < i + per_sigma; k++) w[k] = x[k] * x[k];
    }
}
static inline void iq4_nl_fit(const float *x, block_iq4_nl *b, int64_t n, const float *im, bool search) {
    groups g;
    float w[32 * LANES], scale[LANES], inverse[LANES];
    uint8_t q[32];
    while (n > 0) {
        const int count = n < 32 * LANES ? (int)(n / 32) : LANES;
        iq4_weights(w, x, im, 32 * count, 32);
        set_groups(&g, x, w, count, 32);
        fit_iq4(&g, search, scale, inverse);
        for (int j = 0; j < count; j++, b++) {
            b->d = scale_half(scale[j]);
            iq4_levels(q, x + 32 * j, 32, inverse[j]);
            pack_nibbles(b->qs, q, 16);
        }
        n -= 32 * count, x += 32 * count;
        if (im) im += 32 * count;
    }
}
static void iq4_nl_round(const float *x, void *y, int64_t n, const float *im) { iq4_nl_fit(x, y, n, im, false); }
static void iq4_nl_search(const float *x, void *y, int64_t n, const float *im) { iq4_nl_fit(x, y, n, im, true); }
static void iq4_nl_quantize(const float *x, void *y, int64_t n, const float *im) {
    quantize_limited(iq4_nl_search, 32, sizeof(block_iq4_nl), x, y, n, im);
}
static void iq4_nl_from_f32(const float *x, void *y, int64_t n) {
    quantize_limited(iq4_nl_round, 32, sizeof(block_iq4_nl), x, y, n, NULL);
}

static void iq4_xs_quantize(const float *x, void *y, int64_t n, const float *im) {
    groups g;
    float w[256], scale[LANES], inverse[LANES];
    uint8_t q[32];
    for (block_iq4_xs *b = y; n > 0; b++, x += 256, n -= 256) {
        iq4_weights(w, x, im, 256, 256);
        if (im) im += 256;
        set_groups(&g, x, w, 8, 32);
        fit_iq4(&g, true, scale, inverse);
        float peak = 0;
        for (int j = 0; j < 8; j++) if (fabsf(scale[j]) > fabsf(peak)) peak = scale[j];
        const float unit = limit_scale(-peak / 32), inv = reciprocal(unit);
        memset(b, 0, sizeof *b);
        b->d = scale_half(unit);
        for (int j = 0; j < 8; j++) {
            const int m = level(inv * scale[j], -32, 31);
            iq4_levels(q, x + 32 * j, 32, reciprocal(unit * (float)m));
            pack_nibbles(b->qs + 16 * j, q, 16);
            b->scales_l[j / 2] |= (uint8_t)(((m + 32) & 15) << j % 2 * 4);
            b->scales_h |= (uint16_t)((m + 32) >> 4 << 2 * j);
        }
    }
}

#endif
