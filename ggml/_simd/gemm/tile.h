/* The register tile: c[MICRO_R x n] (+)= a * b over packed panels, written once over the vector vocabulary; the ISA
 * says how large it is (micro_<isa>.h). Vectors run along the rows of a; each value of b is broadcast. Here panels are
 * of floats; those of integers are in int8.h and blocks.h. */
#ifndef GG_GEMM_TILE_H
#define GG_GEMM_TILE_H
#include GG_MICRO

enum {
    MICRO_R = MICRO_V * VW,                         /* rows of a panel of a: panel[k][MICRO_R] */
    MICRO_C = (MICRO_N + VW - 1) / VW * VW,         /* columns of a panel of b, with padding: panel[k][MICRO_C] */
    MICRO_N_MAX = 14,                               /* of all ISAs */
    GEMM_K = 256,       /* elements of k that are unpacked at a time: whole blocks of every type; of floats, a panel */
};

#ifdef __clang__
#define GG_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GG_UNROLL _Pragma("GCC unroll 16")
#endif
#ifndef GG_VEC_DOT
#define GG_VEC_DOT 0
#endif
#define GG_INLINE static inline __attribute__((always_inline))   /* sizes and types are constants in every copy */

/* k steps of `form`. Adds to column j of c, at c + j*ldc, or writes over it; m <= v*VW of its rows are valid. */
#define MICRO_ARGS const gemm_form *form, int64_t k, const float *a, const float *b, float *c, int64_t ldc, int64_t m, \
                   bool add
typedef struct gemm_form gemm_form;
typedef void (*micro_fn)(MICRO_ARGS);

/* What panels hold: a step takes `group` elements of k, so many 32-bit words for each vector of a and of b. */
struct gemm_form {
    const micro_fn (*tiles)[MICRO_N_MAX + 1];
    int depth;                                      /* of a panel in elements of k, GEMM_K words at most; L1 holds one of a */
    int group, a_words, b_words;
    void (*convert_b)(const gemm_form *form, const float *x, int kn, float *out);   /* from floats, or NULL */
    int bias;                                       /* of a's integers */
    int chain;                                      /* words whose products are added up in 16 bits (ints.h) */
    int run;                                        /* words that share their scales (blocks.h) */
    int mins;                                       /* words of them in a step */
};

GG_INLINE void micro_store(const int v, const int n, vf sum[MICRO_N][MICRO_V], float *c, int64_t ldc, int64_t m,
                           bool add) {
    GG_UNROLL for (int j = 0; j < n; j++)           /* a column at a time: whole cache lines are written in one go */
        GG_UNROLL for (int i = 0; i < v; i++) {
            float *p = c + j * ldc + i * VW;
            const int left = (int)m - i * VW;
            if (left >= VW) vf_store(p, add ? vf_add(vf_load(p), sum[j][i]) : sum[j][i]);
            else vf_storen(p, add ? vf_add(vf_loadn(p, left), sum[j][i]) : sum[j][i], left);
        }
}
GG_INLINE void micro_prefetch(const int n, const float *c, int64_t ldc, int64_t m) {
    GG_UNROLL for (int j = 0; j < n; j++)
        __builtin_prefetch(c + j * ldc, 1), __builtin_prefetch(c + j * ldc + m - 1, 1);
}
GG_INLINE void micro_tile(const int v, const int n, MICRO_ARGS) {
    (void)form;
    vf sum[MICRO_N][MICRO_V];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_zero();
    if (add) micro_prefetch(n, c, ldc, m);
    for (; k > 0; k--, a += MICRO_R, b += MICRO_C) {
        vf x[MICRO_V];
        GG_UNROLL for (int i = 0; i < v; i++) x[i] = vf_load(a + i * VW);
        GG_UNROLL for (int j = 0; j < n; j++) {
            const vf y = micro_value(b, j);
            GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_fma(x[i], y, sum[j][i]);
        }
    }
    micro_store(v, n, sum, c, ldc, m, add);
}

/* One function for each size up to the largest; the conditional keeps the others out of the binary. */
#define MICRO_SIZES(F, ...) \
    F(1, __VA_ARGS__) F(2, __VA_ARGS__) F(3, __VA_ARGS__) F(4, __VA_ARGS__) F(5, __VA_ARGS__) F(6, __VA_ARGS__) \
    F(7, __VA_ARGS__) F(8, __VA_ARGS__) F(9, __VA_ARGS__) F(10, __VA_ARGS__) F(11, __VA_ARGS__) F(12, __VA_ARGS__) \
    F(13, __VA_ARGS__) F(14, __VA_ARGS__)
#define MICRO(n, v) \
    static void micro_##v##_##n(MICRO_ARGS) { \
        micro_tile(v, n < MICRO_N ? n : MICRO_N, form, k, a, b, c, ldc, m, add); \
    }
MICRO_SIZES(MICRO, 1)
MICRO_SIZES(MICRO, 2)
#undef MICRO
#define MICRO(n, v) [n] = n <= MICRO_N ? micro_##v##_##n : NULL,
static const micro_fn micro_table[][MICRO_N_MAX + 1] = {[1] = {MICRO_SIZES(MICRO, 1)}, [2] = {MICRO_SIZES(MICRO, 2)}};
#undef MICRO

static const gemm_form gemm_floats = {.tiles = micro_table, .depth = GEMM_K, .group = 1, .a_words = 1, .b_words = 1};

#endif
