/* Panels of quantised rows whose scales are part of the codes, for the tiles of AMX: the panel format "folded" of
 * gemm.h, for types with blocks of 256 elements. */
#ifndef GG_GEMM_INT8_FOLDED_H
#define GG_GEMM_INT8_FOLDED_H

enum {
    FOLDED_STEP = 256,              /* elements of k of a step: a block */
    FOLDED_DEPTH = 2 * FOLDED_STEP, /* of a panel: one of a stays in L1 */
    FOLDED_ROW = 16,                /* words of a row of a tile: 64 elements, or the minima of a step */
    FOLDED_TILES = FOLDED_STEP / 4 / FOLDED_ROW,    /* tiles of upper bytes of a step, and of lower ones */
    FOLDED_CODES = 2 * FOLDED_TILES * FOLDED_ROW,   /* words of codes of a step */
    FOLDED_LEAST = 48,              /* columns that are worth the packing */
    FOLDED_MOST = 127 << 8,         /* the largest code of b */
};
/* Of b: its codes are multiples of the same number then as codes of 8 bits. */
#define FOLDED_LEAST_MAGNITUDE (GG_LEAST_MAGNITUDE * (FOLDED_MOST / INT8_MOST))

/* ---- packing ----------------------------------------------------------------------------------------------------- */
/* The bytes of two words of two codes plus 128 each: the upper ones, and the lower ones minus 128. Both are signed. In
 * either operand the elements of a word are in the order 0, 2, 1, 3. */
static inline void folded_split(vi first, vi second, vi *upper, vi *lower) {
    const vi even = vi_set1(0x00ff00ff), odd = vi_set1((int32_t)0xff00ff00);
    *upper = vi_or(vi_and(vi_srl(first, 8), even), vi_and(second, odd));
    *lower = vi_xor(vi_or(vi_and(first, even), vi_and(vi_shl(second, 8), odd)), vi_set1((int32_t)0x80808080));
}
/* Where word w of the upper bytes is; the lower ones are FOLDED_ROW words behind. */
static inline int folded_word(int w) { return w / FOLDED_ROW * 2 * FOLDED_ROW + w % FOLDED_ROW; }
/* Words of a step for a row of a: codes, 256 d, and with minima -dmin and the minima. */
static inline int folded_words(bool minima) { return FOLDED_CODES + 1 + minima * (1 + FOLDED_ROW); }
/* Transposes blocks of VW rows into a panel. */
static inline void folded_lay_out(const gg_folded *const row[VW], bool minima, float *out, int width) {
    const float *x[VW];
    vf col[4];
    for (int i = 0; i < VW; i++) x[i] = (const float *)(const void *)row[i]->codes;
    for (int w = 0; w < FOLDED_CODES; w += 4) {
        float *const to = out + folded_word(w / 2) * width;
        vf_transpose4(x, w, col);
        for (int i = 0; i < 2; i++) {
            vi upper, lower;
            folded_split(vf_bits(col[2 * i]), vf_bits(col[2 * i + 1]), &upper, &lower);
            vf_store(to + i * width, vi_float(upper));
            vf_store(to + (FOLDED_ROW + i) * width, vi_float(lower));
        }
    }
    out += FOLDED_CODES * width;
    vf_transpose4(x, FOLDED_CODES, col);
    vf_store(out, vf_mul(col[0], vf_set1(256)));
    if (!minima) return;
    vf_store(out + width, vf_neg(col[1]));
    for (int w = 0; w < FOLDED_ROW; w += 4) {
        vf_transpose4(x, FOLDED_CODES + 4 + w, col);
        for (int i = 0; i < 4; i++) {       /* as two bf16: an integer below 256 is one */
            const vi m = vf_bits(col[i]);
            vf_store(out + (2 + w + i) * width, vi_float(vi_or(m, vi_srl(m, 16))));
        }
    }
}
static void pack_folded(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out, int width) {
    const gg_ints *const ints = &s->kernels->ints[s->type];
    const size_t bytes = (size_t)gg_types[s->type].bytes;
    gg_folded blocks[VW] __attribute__((aligned(64)));
    for (int64_t k = k0; k < k0 + kn; k += FOLDED_STEP, out += folded_words(ints->minima) * width)
        for (int g = 0; g < n; g += VW) {
            const gg_folded *row[VW];
            for (int i = 0; i < VW; i++) {
                row[i] = blocks + (g + i < n ? i : 0);
                if (g + i >= n) continue;
                const char *const from = pack_at(s, i0 + g + i, k / FOLDED_STEP);
                for (size_t p = 0; p < bytes; p += 64) {    /* for the next call, and for the next panel */
                    __builtin_prefetch(from + bytes + p);
                    __builtin_prefetch(from + (size_t)width * s->nb_i + p, 0, 2);
                }
                ints->fold(from, &blocks[i], FOLDED_STEP);
            }
            folded_lay_out(row, ints->minima, out + g, width);
        }
}
/* Transposes FOLDED_ROW words of all columns: those of a column are side by side then. */
static inline void folded_columns(const float *words, float *out) {
    const float *rows[VW];
    _Static_assert((int)NR_PAD == (int)VW && (int)FOLDED_ROW == (int)VW, "a tile is a square of words");
    for (int w = 0; w < VW; w++) rows[w] = words + w * VW;
    pack_transpose(rows, VW, out, VW);
}
static void folded_convert_b(const panel_format *f, const float *x, int kn, float *out) {
    float upper[VW * VW] __attribute__((aligned(64))), lower[VW * VW] __attribute__((aligned(64)));
    float sums[VW * VW] __attribute__((aligned(64)));
    for (; kn > 0; kn -= FOLDED_STEP, out += VW) {
        const int8_scale s = int8_scale_of(x, FOLDED_STEP, FOLDED_MOST, FOLDED_LEAST_MAGNITUDE);
        for (int w = 0; w < FOLDED_STEP / 4; w += 4) {      /* 16 elements, which may have a minimum of their own */
            vi sum = vi_set1(0);
            for (int i = w; i < w + 4; i++, x += 4 * VW) {
                vi p[4], high, low;
                for (int k = 0; k < 4; k++) p[k] = vi_add(int8_round(s, x + k * VW, &sum), vi_set1(GG_FOLDED_BIAS));
                const vi mask = vi_set1(0xffff);
                folded_split(int8_word(vi_and(p[0], mask), p[1]), int8_word(vi_and(p[2], mask), p[3]), &high, &low);
                vf_store(upper + i % FOLDED_ROW * VW, vi_float(high));
                vf_store(lower + i % FOLDED_ROW * VW, vi_float(low));
            }
            const vf all = vi_to_vf(sum);
            const vi first = vi_and(vf_bits(all), vi_set1((int32_t)0xffff0000));      /* two bf16 */
            const vi rest = vi_and(vf_bits(vf_sub(all, vi_float(first))), vi_set1((int32_t)0xffff0000));
            vf_store(sums + w / 4 * VW, vi_float(vi_or(vi_srl(first, 16), rest)));
            if (w % FOLDED_ROW != FOLDED_ROW - 4) continue;
            folded_columns(upper, out);
            folded_columns(lower, out + VW * VW);
            out += 2 * VW * VW;
        }
        if (f->minima) folded_columns(sums, out), out += VW * VW;
        vf_store(out, s.scale);
    }
}

/* ---- the micro-kernel -------------------------------------------------------------------------------------------- */
/* Tile registers, each for VW rows of a and for the next VW: the sums of products of upper bytes; of an upper and a
 * lower byte; the upper bytes of b, and its lower ones; bytes of a. */
static void folded_shape(int n) {
    const uint8_t columns = (uint8_t)n;
    const tile_shape shape = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                              .rows = {columns, columns, columns, columns, columns, columns, FOLDED_ROW, FOLDED_ROW}};
    tile_shape_load(&shape, n);
}
typedef int32_t folded_sums[NR_PAD][VW] __attribute__((aligned(64)));
typedef struct folded_products { folded_sums upper[MV], mixed[MV], minima[MV]; } folded_products;
#define FOLDED_LOAD_A(a) do { \
        _tile_loadd(6, a, MR * 4); \
        _tile_loadd(7, (a) + VW, MR * 4); \
    } while (0)
/* The products of the codes of a step, and of its minima. Those of lower bytes are not added: together they are smaller
 * than the rounding of b. */
static inline void folded_multiply(bool minima, const float *a, const float *b, folded_products *p) {
    __asm__ volatile("" : : : "memory");
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    for (int t = 0; t < FOLDED_TILES; t++, a += 2 * FOLDED_ROW * MR, b += 2 * FOLDED_ROW * NR_PAD) {
        _tile_loadd(5, b + FOLDED_ROW * NR_PAD, 64);
        FOLDED_LOAD_A(a);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
        _tile_loadd(4, b, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        FOLDED_LOAD_A(a + FOLDED_ROW * MR);
        _tile_dpbssd(2, 4, 6);
        _tile_dpbssd(3, 4, 7);
    }
    _tile_stored(0, p->upper[0], 64);
    _tile_stored(1, p->upper[1], 64);
    _tile_stored(2, p->mixed[0], 64);
    _tile_stored(3, p->mixed[1], 64);
    if (minima) {
        _tile_loadd(4, b, 64);
        FOLDED_LOAD_A(a + 2 * MR);
        _tile_zero(0); _tile_zero(1);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_stored(0, p->minima[0], 64);
        _tile_stored(1, p->minima[1], 64);
    }
    __asm__ volatile("" : : : "memory");
}
/* Adds the products of a step to the sums; d and e: the words of a and b behind the codes. */
typedef float folded_total[MV][NR_PAD][VW] __attribute__((aligned(64)));
GG_INLINE void folded_add(const bool minima, int n, const float *d, const float *e, const folded_products *p,
                          folded_total sum, bool first) {
    for (int i = 0; i < MV; i++, d += VW) {
        const vf scale = vf_load(d), dmin = minima ? vf_load(d + MR) : scale;
        for (int j = 0; j < n; j++) {
            const vf by = vf_set1_at(e, j);
            const vi dot = vi_add(vi_shl(vi_load(p->upper[i][j]), 8), vi_load(p->mixed[i][j]));
            vf to = vf_fma(vi_to_vf(dot), vf_mul(scale, by), first ? vf_zero() : vf_load(sum[i][j]));
            if (minima) to = vf_fma(vi_float(vi_load(p->minima[i][j])), vf_mul(dmin, by), to);
            vf_store(sum[i][j], to);
        }
    }
}
static inline void folded_store(int n, folded_total sum, float *c, int64_t ldc, int64_t m, bool add) {
    for (int j = 0; j < n; j++)
        for (int i = 0; i * VW < m; i++) {
            float *const y = c + j * ldc + i * VW;
            const int left = (int)gg_min(m - i * VW, VW);
            const vf x = vf_load(sum[i][j]);
            if (left == VW) vf_store(y, add ? vf_add(vf_load(y), x) : x);
            else vf_storen(y, add ? vf_add(vf_loadn(y, left), x) : x, left);
        }
}
GG_INLINE void folded_kernel(const bool minima, int n, MICRO_ARGS) {
    folded_products products;
    folded_total sum;
    if (add) micro_prefetch(n, c, ldc, m);
    for (int64_t s = 0; s < steps; s++, a += format->a_words * MR, b += format->b_words * NR_PAD) {
        folded_multiply(minima, a, b, &products);
        folded_add(minima, n, a + FOLDED_CODES * MR, b + (format->b_words - 1) * NR_PAD, &products, sum, s == 0);
    }
    folded_store(n, sum, c, ldc, m, add);
}
static __attribute__((noinline)) void folded_plain(int n, MICRO_ARGS) {
    folded_kernel(false, n, format, steps, a, b, c, ldc, m, add);
}
static __attribute__((noinline)) void folded_minima(int n, MICRO_ARGS) {
    folded_kernel(true, n, format, steps, a, b, c, ldc, m, add);
}
#define FOLDED_MICRO(n, kind) \
    static void folded_##kind##_##n(MICRO_ARGS) { folded_##kind(n, format, steps, a, b, c, ldc, m, add); }
#define FOLDED_ENTRY(n, kind) [n] = folded_##kind##_##n,
#define FOLDED_TABLE(kind) \
    MICRO_SIZES(FOLDED_MICRO, kind) \
    static const micro_fn folded_table_##kind[][NR_MAX + 1] = {[1] = {MICRO_SIZES(FOLDED_ENTRY, kind)}, \
                                                               [2] = {MICRO_SIZES(FOLDED_ENTRY, kind)}};
FOLDED_TABLE(plain)
FOLDED_TABLE(minima)

static inline panel_format folded_format(bool minima) {
    return (panel_format){.kernels = minima ? folded_table_minima : folded_table_plain, .columns = NR,
                          .task_columns = NC, .packed_columns = NC_ALL, .depth = FOLDED_DEPTH, .step = FOLDED_STEP,
                          .a_words = folded_words(minima), .b_words = FOLDED_CODES + minima * FOLDED_ROW + 1,
                          .convert_b = folded_convert_b, .shape = folded_shape, .minima = minima};
}
#endif
