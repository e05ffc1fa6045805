/* Panels of groups (int8_groups.h) whose codes the tiles of AMX multiply: the words of codes of a column of b are side
 * by side, as a row of a tile. Everything else is as where vectors multiply them, and so are the sums. */
#ifndef GG_GEMM_INT8_TILES_H
#define GG_GEMM_INT8_TILES_H

/* Tile registers: the sums of products of two steps that follow each other, for VW rows and for the next VW; then the
 * codes of b, and those of a for VW rows and for the next VW. */
enum {
    TILES_WORDS = 8,                /* words of codes of a step: 32 elements */
    TILES_LEAST = 8,                /* columns from which the tiles are faster than vectors */
};

static void tiles_convert_b(const panel_format *f, const float *x, int kn, float *out) {
    for (int k = 0; k < kn; k += f->step, out += f->b_words * NR_PAD) {
        float codes[TILES_WORDS][NR_PAD];
        groups_quantise(f, x + k * NR_PAD, out);
        memcpy(codes, out, sizeof codes);
        for (int j = 0; j < NR_PAD; j++)
            for (int w = 0; w < TILES_WORDS; w++) out[j * TILES_WORDS + w] = codes[w][j];
    }
}
static void tiles_shape(int n) {
    const uint8_t columns = (uint8_t)n;
    const tile_shape shape = {.palette = 1, .bytes = {64, 64, 64, 64, 4 * TILES_WORDS, 64, 64},
                              .rows = {columns, columns, columns, columns, columns, TILES_WORDS, TILES_WORDS}};
    tile_shape_load(&shape, n);
}

typedef int32_t tiles_sums[MV][NR_PAD][VW] __attribute__((aligned(64)));
/* The sums of products of the codes of a step, by the tile registers x and y. */
#define TILES_STEP(x, y, dot) do { \
        _tile_loadd(4, b, 4 * TILES_WORDS); \
        _tile_zero(x); \
        _tile_loadd(5, a, MR * 4); \
        _tile_dpbsud(x, 4, 5); \
        if (v > 1) { \
            _tile_zero(y); \
            _tile_loadd(6, a + VW, MR * 4); \
            _tile_dpbsud(y, 4, 6); \
        } \
        _tile_stored(x, dot[0], 64); \
        if (v > 1) _tile_stored(y, dot[1], 64); \
        __asm__ volatile("" : : : "memory"); \
    } while (0)
/* Adds the products of a step to the sums; a and b: behind its codes. */
GG_INLINE void tiles_scale(const int v, const int n, const bool bias, const bool minima, const float *a, const float *b,
                           tiles_sums dot, vf sum[NR][MV]) {
    vf d[MV];
    GG_UNROLL for (int i = 0; i < v; i++) d[i] = vf_load(a + i * VW);
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vf e = vf_set1_at(b, j);
        GG_UNROLL for (int i = 0; i < v; i++) {
            vi x = vi_load(dot[i][j]);
            if (bias) x = vi_add(x, vi_word_at(b + NR_PAD, j));
            sum[j][i] = vf_fma(vi_to_vf(x), vf_mul(d[i], e), sum[j][i]);
        }
    }
    if (!minima) return;
    GG_UNROLL for (int i = 0; i < v; i++) d[i] = vf_load(a + MR + i * VW);
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vf e = vf_set1_at(b + 2 * NR_PAD, j);
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_fma(d[i], e, sum[j][i]);
    }
}
/* The tiles multiply the codes of a step while vectors scale the sums of the last one. */
GG_INLINE void tiles_kernel(const int v, const int n, const bool bias, const bool minima, MICRO_ARGS) {
    const int64_t a_step = (TILES_WORDS + 1 + minima) * MR, b_step = (TILES_WORDS + 2 + minima) * NR_PAD;
    tiles_sums dots[2];
    vf sum[NR][MV];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_zero();
    if (add) micro_prefetch(n, c, ldc, m);
    __asm__ volatile("" : : : "memory");
    TILES_STEP(0, 1, dots[0]);
    for (int64_t s = 0; s < steps; s += 2) {
        const float *const a0 = a + TILES_WORDS * MR, *const b0 = b + TILES_WORDS * NR_PAD;
        a += a_step, b += b_step;
        if (s + 1 < steps) TILES_STEP(2, 3, dots[1]);
        pack_prefetch(format->ahead);
        tiles_scale(v, n, bias, minima, a0, b0, dots[0], sum);
        if (s + 1 == steps) break;
        const float *const a1 = a + TILES_WORDS * MR, *const b1 = b + TILES_WORDS * NR_PAD;
        a += a_step, b += b_step;
        if (s + 2 < steps) TILES_STEP(0, 1, dots[0]);
        pack_prefetch(format->ahead);
        tiles_scale(v, n, bias, minima, a1, b1, dots[1], sum);
    }
    micro_store(v, n, sum, c, ldc, m, add);
}

/* tiles_table_BIAS_MINIMA. No type has both. */
#define TILES_MICRO(n, v, bias, minima) \
    static void tiles_##bias##_##minima##_##v##_##n(MICRO_ARGS) { \
        tiles_kernel(v, n, bias, minima, format, steps, a, b, c, ldc, m, add); \
    }
#define TILES_ENTRY(n, v, bias, minima) [n] = tiles_##bias##_##minima##_##v##_##n,
#define TILES_TABLE(bias, minima) \
    MICRO_SIZES(TILES_MICRO, 1, bias, minima) MICRO_SIZES(TILES_MICRO, 2, bias, minima) \
    static const micro_fn tiles_table_##bias##_##minima[][NR_MAX + 1] = { \
        [1] = {MICRO_SIZES(TILES_ENTRY, 1, bias, minima)}, [2] = {MICRO_SIZES(TILES_ENTRY, 2, bias, minima)}};
TILES_TABLE(1, 0)
TILES_TABLE(0, 1)

/* Half a step fills half of a row of a tile, and scaling takes longer than vectors take for the products then. */
static inline void tiles_format(panel_format *f) {
    if (f->step != 4 * TILES_WORDS) return;
    f->kernels = f->minima ? tiles_table_0_1 : tiles_table_1_0;
    f->columns = NR, f->convert_b = tiles_convert_b, f->shape = tiles_shape;
}
#endif
