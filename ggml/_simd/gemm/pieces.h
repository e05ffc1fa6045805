/* Panels of pieces: products of floats by the tiles of AMX, which multiply numbers of 16 bits (bf16) and add the
 * products as floats. The significand of a float has 24 bits, that of a bf16 has 8. So a float is the sum of three
 * pieces, its leading bits first; a number of 16 bits is the sum of two (F16) or one (BF16). A product of two floats is
 * the sum of those six products of pieces that are not smaller than its last bit. The panel format "pieces" of gemm.h.
 *
 * The tiles take numbers below the least normal float as zero, and an infinity times a piece that is zero is NaN. So
 * the last word of a step says whether a row or column of it has an infinity, or nothing but tiny numbers. Then vectors
 * multiply the floats: where there would be three pieces, such a step holds them instead, because the last bits of tiny
 * numbers are in no piece. Another word of the first of each PIECES_GROUP steps says it of all of them. */
#ifndef GG_GEMM_PIECES_H
#define GG_GEMM_PIECES_H
#include "pack.h"
#ifdef __AMX_BF16__

enum {
    PIECES_K = 32,                  /* elements of k of a step: */
    PIECES_WORDS = PIECES_K / 2,    /* words of a piece of a row or column, */
    PIECES_B = 3,                   /* pieces of an element of b, */
    PIECES_B_WORDS = PIECES_B * PIECES_WORDS + 1,
    PIECES_ROW = 64,                /* bytes of a row of a tile */
    PIECES_DEPTH = 512,             /* elements of k of a panel, */
    PIECES_NC = 320, PIECES_NC_ALL = 400,   /* columns that a task packs: they stay in L2 */
    PIECES_GROUP = KC / PIECES_K,   /* steps that say together whether one of them is special */
    PIECES_LEAST = 112,             /* m n / (m + n) from which the tiles are faster than vectors, */
    PIECES_LEAST_HALF = 80,         /* and with a of 16 bits */
    PIECES_INFINITY = 0x7f800000,   /* bits of an infinity, */
    PIECES_TINY = 49 << 23,         /* and of 2^-78: the last bit of such a number is 2^-102, and pieces are normal */
};

/* ---- packing ----------------------------------------------------------------------------------------------------- */
/* The pieces of each element of x, in the upper halves of words. The rest of an infinity is zero. */
GG_INLINE void pieces_split(const int pieces, vf x, vi *out) {
    const vm infinite = vi_eq(vf_bits(vf_abs(x)), vi_set1(PIECES_INFINITY));
    GG_UNROLL for (int p = 0; p < pieces; p++) {
        out[p] = vi_and(vf_bits(x), vi_set1((int32_t)0xffff0000));
        x = vi_float(vi_select(infinite, vi_set1(0), vf_bits(vf_sub(x, vi_float(out[p])))));
    }
}
static inline vi pieces_larger(vi most, vf x) {
    const vi bits = vf_bits(vf_abs(x));     /* ordered like the values, NaN last */
    return vi_max(bits, most);
}
/* Word w of each piece for VW rows or columns from x on: elements 2w and 2w + 1 of k of a step, of which kn are left.
 * most: the bits of their largest magnitude so far. */
GG_INLINE void pieces_word(const int pieces, const float *x, int width, int w, int kn, vi *out, vi *most) {
    const vf first = 2 * w < kn ? vf_load(x + 2 * w * width) : vf_zero();
    const vf second = 2 * w + 1 < kn ? vf_load(x + (2 * w + 1) * width) : vf_zero();
    vi low[PIECES_B], high[PIECES_B];
    pieces_split(pieces, first, low);
    pieces_split(pieces, second, high);
    *most = pieces_larger(pieces_larger(*most, first), second);
    GG_UNROLL for (int p = 0; p < pieces; p++) out[p] = vi_or(vi_srl(low[p], 16), high[p]);
}
/* Whether the tiles would compute something else. */
static inline bool pieces_special(vi most) {
    const vm tiny = vm_and(vi_gt(vi_set1(PIECES_TINY), most), vi_gt(most, vi_set1(0)));
    return vm_any(tiny) || vm_any(vi_eq(most, vi_set1(PIECES_INFINITY)));
}
/* Makes a step of the floats themselves. */
static void pieces_keep(const float *x, int width, int kn, float *out) {
    const int have = (int)gg_min(kn, PIECES_K) * width;
    memcpy(out, x, (size_t)have * sizeof *x);
    memset(out + have, 0, (size_t)(PIECES_K * width - have) * sizeof *x);
}
/* Writes the last words of a step: whether it is special, and in the first of a group whether one of them is. */
static inline bool pieces_mark(bool special, int step, float *out, float **group) {
    if (step % PIECES_GROUP == 0) *group = out + 1, **group = 0;
    if (special) **group = 1;
    return *out = special, special;
}
GG_INLINE void pieces_rows(const int pieces, const float *x, int kn, float *out) {
    float *group = NULL;
    for (int step = 0; kn > 0; step++, kn -= PIECES_K, x += PIECES_K * MR, out += MR) {
        vi most[MV] = {vi_set1(0), vi_set1(0)};
        for (int w = 0; w < PIECES_WORDS; w++, out += MR)
            GG_UNROLL for (int i = 0; i < MV; i++) {
                vi word[PIECES_B];
                pieces_word(pieces, x + i * VW, MR, w, kn, word, &most[i]);
                GG_UNROLL for (int p = 0; p < pieces; p++)
                    vf_store(out + p * PIECES_WORDS * MR + i * VW, vi_float(word[p]));
            }
        out += (pieces - 1) * PIECES_WORDS * MR;
        const bool special = pieces_special(most[0]) || pieces_special(most[1]);
        if (pieces_mark(special, step, out, &group) && pieces == PIECES_B)
            pieces_keep(x, MR, kn, out - pieces * PIECES_WORDS * MR);
    }
}
/* The same of rows of F16, whose elements are contiguous. Two pieces are all of such an element, and none is tiny. */
static void pieces_half_rows(const gemm_src *s, int64_t i0, int n, int64_t k0, int kn, float *out) {
    static const int16_t odd[2 * VW] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                        33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i upper = _mm512_loadu_si512(odd);      /* halves of words */
    float words[2][VW][PIECES_WORDS] __attribute__((aligned(64)));
    float *group = NULL;
    for (int k = 0; k < kn; k += PIECES_K, out += MR) {
        const __mmask32 have = kn - k < PIECES_K ? ((__mmask32)1 << (kn - k)) - 1 : ~(__mmask32)0;
        bool special = false;
        for (int g = 0; g < n; g += VW) {
            for (int i = 0; i < VW; i++) {
                const void *const p = pack_at(s, i0 + (g + i < n ? g + i : n - 1), k0 + k);
                const __m512i x = _mm512_maskz_loadu_epi16(have, p);
                const vf first = _mm512_cvtph_ps(_mm512_castsi512_si256(x));
                const vf second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1));
                vi a[2], b[2];
                pieces_split(2, first, a), pieces_split(2, second, b);
                special |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, _mm512_set1_epi16(0x7fff)),
                                                   _mm512_set1_epi16(0x7c00)) != 0;
                for (int q = 0; q < 2; q++)
                    _mm512_store_si512(words[q][i], _mm512_permutex2var_epi16(a[q], upper, b[q]));
            }
            for (int q = 0; q < 2; q++) {
                const float *rows[VW];
                for (int i = 0; i < VW; i++) rows[i] = words[q][i];
                pack_transpose(rows, PIECES_WORDS, out + q * PIECES_WORDS * MR + g, MR);
            }
        }
        out += 2 * PIECES_WORDS * MR;
        pieces_mark(special, k / PIECES_K, out, &group);
    }
}
/* The words of a column are side by side. */
static void pieces_columns(const panel_format *f, const float *x, int kn, float *out) {
    float words[PIECES_B][PIECES_WORDS][NR_PAD] __attribute__((aligned(64)));
    _Static_assert((int)NR_PAD == (int)VW && (int)PIECES_WORDS == (int)VW, "a piece of a step is a square of words");
    float *group = NULL;
    (void)f;
    for (int step = 0; kn > 0; step++, kn -= PIECES_K, x += PIECES_K * NR_PAD, out += NR_PAD) {
        vi most = vi_set1(0);
        for (int w = 0; w < PIECES_WORDS; w++) {
            vi word[PIECES_B];
            pieces_word(PIECES_B, x, NR_PAD, w, kn, word, &most);
            GG_UNROLL for (int p = 0; p < PIECES_B; p++) vf_store(words[p][w], vi_float(word[p]));
        }
        for (int p = 0; p < PIECES_B; p++, out += PIECES_WORDS * NR_PAD) {
            const float *rows[VW];
            for (int w = 0; w < PIECES_WORDS; w++) rows[w] = words[p][w];
            pack_transpose(rows, NR_PAD, out, PIECES_WORDS);
        }
        if (pieces_mark(pieces_special(most), step, out, &group))
            pieces_keep(x, NR_PAD, kn, out - PIECES_B * PIECES_WORDS * NR_PAD);
    }
}

/* ---- the micro-kernel -------------------------------------------------------------------------------------------- */
/* Tile registers: sums of each of one or two panels of b for VW rows of a and for the next VW; then a piece of each
 * panel of b, and of each VW rows of a. */
#define B_0 4
#define B_1 5
#define A_0 6
#define A_1 7

/* Of two panels, each has half of n columns. A tile of sums has a row of VW floats for each
 * column, one of b a row of words for each column, one of a a row of VW words for each word of a step. */
static int pieces_first(int n) { return n <= NR ? n : (n + 1) / 2; }
/* Setting the shape of the tiles takes as long as some dozen products. */
static void pieces_shape_tiles(int n) {
    const uint8_t first = (uint8_t)pieces_first(n), second = (uint8_t)(n > NR ? n - first : 1);
    const tile_shape shape = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                              .rows = {first, first, second, second, first, second, 16, 16}};
    tile_shape_load(&shape, n);
}

/* A step of a panel is PIECES_B_STEP bytes long, its pieces are PIECES_B_PIECE apart. */
enum { PIECES_B_PIECE = PIECES_WORDS * NR_PAD * 4, PIECES_B_STEP = PIECES_B_WORDS * NR_PAD * 4,
       PIECES_A_PIECE = PIECES_WORDS * MR * 4 };
#define PIECES_LOAD_A(p) do { \
        _tile_loadd(A_0, a + (p) * PIECES_A_PIECE, MR * 4); \
        if (v > 1) _tile_loadd(A_1, a + (p) * PIECES_A_PIECE + PIECES_ROW, MR * 4); \
    } while (0)
#define PIECES_LOAD_B(p) do { \
        _tile_loadd(B_0, b + (p) * PIECES_B_PIECE, PIECES_ROW); \
        if (panels > 1) _tile_loadd(B_1, b + next + (p) * PIECES_B_PIECE, PIECES_ROW); \
    } while (0)
/* The next step of b is prefetched from L2 between the products, a few lines at a time. */
#define PIECES_ADD(sum, y, x) do { \
        _tile_dpbf16ps(sum, y, x); \
        GG_UNROLL for (int q = 0; q < each; q++, line += PIECES_ROW) { \
            __builtin_prefetch(b + PIECES_B_STEP + line); \
            if (panels > 1) __builtin_prefetch(b + next + PIECES_B_STEP + line); \
        } \
    } while (0)
/* Neighbours add to different tiles, because a sum takes several times as long as a product. */
#define PIECES_PRODUCTS do { \
        PIECES_ADD(0, B_0, A_0); \
        if (v > 1) PIECES_ADD(1, B_0, A_1); \
        if (panels > 1) PIECES_ADD(2, B_1, A_0); \
        if (v > 1 && panels > 1) PIECES_ADD(3, B_1, A_1); \
    } while (0)
/* The products of a step, the small ones first. The second panel of b begins `next` bytes after the first one. */
GG_INLINE void pieces_step(const int pieces, const int v, const int panels, const char *a, const char *b, size_t next) {
    const int products = (pieces == 1 ? 3 : pieces == 2 ? 5 : 6) * v * panels;
    const int each = (PIECES_B * NR_PAD + products - 1) / products;
    int64_t line = 0;
    PIECES_LOAD_B(2);
    PIECES_LOAD_A(0);
    PIECES_PRODUCTS;
    PIECES_LOAD_B(1);
    PIECES_PRODUCTS;
    if (pieces > 1) {
        PIECES_LOAD_A(1);
        PIECES_PRODUCTS;
        PIECES_LOAD_B(0);
        PIECES_PRODUCTS;
        if (pieces > 2) {
            PIECES_LOAD_A(2);
            PIECES_PRODUCTS;
        }
        PIECES_LOAD_A(0);
    } else PIECES_LOAD_B(0);
    PIECES_PRODUCTS;
}
/* c (+)= the products of all steps; column j is at c + j * ldc bytes. The compiler does not know what the tiles read
 * and write. */
#define PIECES_SUMS(MOVE) do { \
        MOVE(0, c, ldc); \
        if (v > 1) MOVE(1, c + PIECES_ROW, ldc); \
        if (panels > 1) MOVE(2, second, ldc); \
        if (v > 1 && panels > 1) MOVE(3, second + PIECES_ROW, ldc); \
    } while (0)
#define PIECES_ZERO(tile, c, ldc) _tile_zero(tile)
GG_INLINE void pieces_tiles(const int pieces, const int v, const int panels, int n, int64_t steps, const char *a,
                            const char *b, char *c, int64_t ldc, bool add, pack_ahead *ahead, pack_ahead *sums) {
    char *const second = c + pieces_first(n) * ldc;
    const size_t next = (size_t)steps * PIECES_B_STEP;
    __asm__ volatile("" : : : "memory");
    if (add) PIECES_SUMS(_tile_loadd);
    else PIECES_SUMS(PIECES_ZERO);
    for (; steps > 0; steps--, a += pieces * PIECES_A_PIECE + MR * 4, b += PIECES_B_STEP) {
        if (panels > 1) pack_prefetch(ahead);
        pack_prefetch(sums);
        pieces_step(pieces, v, panels, a, b, next);
    }
    PIECES_SUMS(_tile_stored);
    __asm__ volatile("" : : : "memory");
}

/* The same product by vectors, of floats that are the sums of their pieces. */
static vf pieces_element(int pieces, const float *word, int64_t next, bool high) {
    vf sum = vf_zero();
    for (int p = pieces - 1; p >= 0; p--) {
        const vi both = vi_words(word + p * next);
        sum = vf_add(sum, vi_float(high ? vi_and(both, vi_set1((int32_t)0xffff0000)) : vi_shl(both, 16)));
    }
    return sum;
}
static const float *pieces_a_floats(int pieces, const float *a, float *x) {
    if (pieces == PIECES_B && a[pieces * PIECES_WORDS * MR] != 0) return a;
    for (int k = 0; k < PIECES_K; k++)
        for (int i = 0; i < MR; i += VW)
            vf_store(x + k * MR + i, pieces_element(pieces, a + k / 2 * MR + i, PIECES_WORDS * MR, k % 2));
    return x;
}
static const float *pieces_b_floats(const float *b, float *y) {
    if (b[PIECES_B * PIECES_WORDS * NR_PAD] != 0) return b;
    for (int j = 0; j < NR_PAD; j++)
        for (int odd = 0; odd < 2; odd++) {
            float column[VW];
            vf_store(column, pieces_element(PIECES_B, b + j * PIECES_WORDS, PIECES_WORDS * NR_PAD, odd));
            for (int w = 0; w < PIECES_WORDS; w++) y[(2 * w + odd) * NR_PAD + j] = column[w];
        }
    return y;
}
static void pieces_floats(int pieces, int v, int n, int64_t steps, const float *a, const float *b, float *c,
                          int64_t ldc, int64_t m, bool add) {
    float x[PIECES_K * MR] __attribute__((aligned(64))), y[PIECES_K * NR_PAD] __attribute__((aligned(64)));
    for (int64_t s = 0; s < steps; s++, a += (pieces * PIECES_WORDS + 1) * MR, b += PIECES_B_WORDS * NR_PAD)
        micro_table[v][n](&float_panels, PIECES_K, pieces_a_floats(pieces, a, x), pieces_b_floats(b, y), c, ldc, m,
                          add || s > 0);
}
static bool pieces_any_special(const float *panel, int64_t steps, int64_t words, int64_t width) {
    bool any = false;
    for (int64_t s = 0; s < steps; s += PIECES_GROUP) any |= panel[((s + 1) * words - 1) * width + 1] != 0;
    return any;
}
GG_INLINE void pieces_kernel(const int pieces, const int v, const int panels, int n, pack_ahead *ahead, MICRO_ARGS) {
    float tile[2 * NR][MR] __attribute__((aligned(64)));
    const bool whole = m == v * VW;         /* else the columns of c are copied, with lanes that are no rows */
    const int64_t a_words = pieces * PIECES_WORDS + 1, next = steps * PIECES_B_WORDS * NR_PAD;
    float *const to = whole ? c : tile[0];
    const int64_t ld = whole ? ldc : MR;
    (void)format;
    pack_ahead sums = {.row = (const char *)(c + n * ldc), .stride = (size_t)ldc * sizeof *c,     /* of the next tile */
                       .lines = m * 4 / AHEAD_LINE + 1, .rows = whole && add ? n : 0};
    sums.each = gg_ceil_div(sums.rows * sums.lines, steps);
    for (int j = 0; j < n && !whole && add; j++) memcpy(tile[j], c + j * ldc, (size_t)m * sizeof(float));
    if (pieces_any_special(a, steps, a_words, MR) || pieces_any_special(b, steps, PIECES_B_WORDS, NR_PAD)
        || (panels > 1 && pieces_any_special(b + next, steps, PIECES_B_WORDS, NR_PAD))) {
        const int first = pieces_first(n);
        pieces_floats(pieces, v, first, steps, a, b, to, ld, m, add);
        if (panels > 1) pieces_floats(pieces, v, n - first, steps, a, b + next, to + first * ld, ld, m, add);
    } else pieces_tiles(pieces, v, panels, n, steps, (const char *)a, (const char *)b, (char *)to, ld * 4, add, ahead,
                        &sums);
    for (int j = 0; j < n && !whole; j++) memcpy(c + j * ldc, tile[j], (size_t)m * sizeof(float));
}

/* pieces_format_P: the format whose rows of a have P pieces. */
#define PIECES_BODY(P, v, panels) \
    static __attribute__((noinline)) void pieces_##P##_##v##_##panels(int n, pack_ahead *ahead, MICRO_ARGS) { \
        pieces_kernel(P, v, panels, n, ahead, format, steps, a, b, c, ldc, m, add); \
    }
#define PIECES_MICRO(n, P, v) \
    static void pieces_micro_##P##_##v##_##n(MICRO_ARGS) { \
        pieces_##P##_##v##_1(n, NULL, format, steps, a, b, c, ldc, m, add); \
    }
#define PIECES_ENTRY(n, P, v) [n] = n <= NR ? pieces_micro_##P##_##v##_##n : NULL,
#define PIECES_KERNELS(P) \
    PIECES_BODY(P, 1, 1) PIECES_BODY(P, 2, 1) PIECES_BODY(P, 1, 2) PIECES_BODY(P, 2, 2) \
    MICRO_SIZES(PIECES_MICRO, P, 1) MICRO_SIZES(PIECES_MICRO, P, 2) \
    static const micro_fn pieces_table_##P[][NR_MAX + 1] = {[1] = {MICRO_SIZES(PIECES_ENTRY, P, 1)}, \
                                                            [2] = {MICRO_SIZES(PIECES_ENTRY, P, 2)}}; \
    static void pieces_pair_##P(int n, pack_ahead *ahead, MICRO_ARGS) { \
        (m > VW ? pieces_##P##_2_2 : pieces_##P##_1_2)(n, ahead, format, steps, a, b, c, ldc, m, add); \
    } \
    static void pieces_rows_##P(const panel_format *f, const float *x, int kn, float *out) { \
        (void)f, pieces_rows(P, x, kn, out); \
    }
#define PIECES_FORMAT(P, half_rows) \
    static const panel_format pieces_format_##P = { \
        .kernels = pieces_table_##P, .pair = pieces_pair_##P, .shape = pieces_shape_tiles, .columns = NR, \
        .task_columns = PIECES_NC, .packed_columns = PIECES_NC_ALL, \
        .depth = PIECES_DEPTH, .step = PIECES_K, \
        .a_words = P * PIECES_WORDS + 1, .b_words = PIECES_B_WORDS, .convert_a = pieces_rows_##P, \
        .convert_b = pieces_columns, .pack_a = half_rows};
PIECES_KERNELS(1)
PIECES_KERNELS(2)
PIECES_KERNELS(3)
PIECES_FORMAT(1, NULL)
PIECES_FORMAT(2, pieces_half_rows)
PIECES_FORMAT(3, NULL)

/* The format of a product of floats. Packing costs time for each row and column; the tiles save it for each pair. */
static inline const panel_format *gemm_float_format(const gemm_src *a, int64_t m, int64_t n, int64_t k) {
    const bool plain = a->pack == pack_along_k || a->pack == pack_along_i || a->pack == pack_strided;
    const bool half = plain && gg_is_float(a->type) && a->type != GGML_TYPE_F32;
    const int64_t least = half ? PIECES_LEAST_HALF : PIECES_LEAST;
    if (k < PIECES_K || m * n < least * (m + n)) return &float_panels;
    if (!half) return &pieces_format_3;
    return a->type == GGML_TYPE_F16 ? &pieces_format_2 : &pieces_format_1;
}
#else
static inline const panel_format *gemm_float_format(const gemm_src *a, int64_t m, int64_t n, int64_t k) {
    return (void)a, (void)m, (void)n, (void)k, &float_panels;
}
#endif
#endif
