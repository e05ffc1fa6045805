/* The micro-kernel for panels of floats, c[MR x n] (+)= a b, written once over vec/. gemm.h defines the terms;
 * micro_<isa>.h has the size of the register tile. The lanes of a vector are rows of a; values of b are broadcast. */
#ifndef GG_GEMM_TILE_H
#define GG_GEMM_TILE_H
#include GG_MICRO

enum {
    MR = MV * VW,
    NR_PAD = (NR + VW - 1) / VW * VW,
    NR_MAX = 14,                    /* the largest NR of all ISAs */
    KC = 256,
    NC = 512, NC_ALL = 640,
    MICRO_STEPS = 16,               /* steps between prefetches of rows of a that are not packed yet */
    MICRO_AHEAD = 16,               /* steps between those of a that are read and those that are prefetched */
#ifdef __AMX_TILE__                 /* a panel of b has at most B_WORDS words for B_UNIT elements of k */
    B_UNIT = 32, B_WORDS = 49,
#else
    B_UNIT = 1, B_WORDS = 1,
#endif
};

#ifdef __AMX_TILE__
/* The shapes of the tile registers, as ldtilecfg reads them. */
typedef struct tile_shape {
    uint8_t palette, start, zeros[14];
    uint16_t bytes[16];             /* of a row */
    uint8_t rows[16];
} tile_shape;
/* For kernels that compute so many columns; 0: none follow. */
static inline void tile_shape_load(const tile_shape *shape, int columns) {
    if (columns) __asm__ volatile("ldtilecfg %0" : : "m"(*shape) : "memory");
    else _tile_release();
}
#endif

#if defined GG_VEC_DOT || defined GG_VEC_PAIRS      /* the ISA multiplies bytes */
#define GG_VEC_INT8 1
#else
#define GG_VEC_INT8 0
#endif
/* Functions whose sizes and types are constants in every copy. */
#define GG_INLINE static inline __attribute__((always_inline))

/* A micro-kernel multiplies `steps` steps of a panel of a and a panel of b. It writes m rows of column j to
 * c + j * ldc, or adds them to it. */
#define MICRO_ARGS const panel_format *format, int64_t steps, const float *a, const float *b, float *c, int64_t ldc, \
                   int64_t m, bool add
typedef struct panel_format panel_format;
struct gemm_src;
typedef void (*micro_fn)(MICRO_ARGS);

/* Lines of rows that are needed next, of which each step of a product prefetches a few: what reads a row for a moment
 * only would wait for most of its lines, and the memory takes few requests at a time. */
enum { AHEAD_LINE = 64 };
typedef struct pack_ahead {
    const char *row;
    size_t stride;
    int64_t rows, line, lines;      /* rows left; the next line of a row, which has so many */
    int64_t each;
} pack_ahead;
static inline void pack_prefetch(pack_ahead *x) {
    for (int64_t i = 0; i < x->each && x->rows > 0; i++) {
        __builtin_prefetch(x->row + x->line * AHEAD_LINE, 0, 2);
        if (++x->line < x->lines) continue;
        x->line = 0, x->row += x->stride, x->rows--;
    }
}

/* A panel format: what panels hold, and the micro-kernels that multiply such panels (gemm.h). */
struct panel_format {
    const micro_fn (*kernels)[NR_MAX + 1];  /* [vectors of rows, at most MV][columns] */
    /* Multiplies a panel of a by two of b, which have n columns, where the columns of c are evenly spaced; or NULL. */
    void (*pair)(int n, pack_ahead *ahead, MICRO_ARGS);
    int columns;                            /* the most columns of c that a kernel computes, */
    int task_columns, packed_columns;       /* that a task packs for a panel along k, and for several (NC, NC_ALL) */
    int depth;                              /* elements of k of a panel */
    int step, a_words, b_words;             /* elements of k of a step; its words for a row of a and a column of b */
    /* Make words of packed floats, kn elements of k of a panel; NULL: the words are floats, or packed at once. */
    void (*convert_a)(const panel_format *format, const float *x, int kn, float *out);
    void (*convert_b)(const panel_format *format, const float *x, int kn, float *out);
    /* Makes the words of up to MR rows of a, which are packed along k: beside convert_a and faster; or NULL. */
    void (*pack_a)(const struct gemm_src *a, int64_t i, int m, int64_t k, int kn, float *out);
    /* A thread calls it before kernels that compute another number of columns, and with 0 after the last; or NULL. */
    void (*shape)(int columns);
    int bias;                               /* integer panels: the bias of the codes of a, */
    int acc_depth;                          /* the accumulation depth, */
    int scale_group;                        /* the words of codes that share a word of scales (int8_blocks.h), */
    int minima;                             /* the words of minima in a step, */
    bool codes16;                           /* codes of 16 instead of 8 bits */
    pack_ahead *ahead;                      /* what the kernels prefetch, if they do */
};

GG_INLINE void micro_store(const int v, const int n, vf sum[NR][MV], float *c, int64_t ldc, int64_t m, bool add) {
    GG_UNROLL for (int j = 0; j < n; j++)           /* column by column, which completes cache lines */
        GG_UNROLL for (int i = 0; i < v; i++) {
            float *p = c + j * ldc + i * VW;
            const int left = (int)m - i * VW;       /* m rows fill v vectors, the last one in part */
            if (left <= 0) __builtin_unreachable();
            if (left >= VW) vf_store(p, add ? vf_add(vf_load(p), sum[j][i]) : sum[j][i]);
            else vf_storen(p, add ? vf_add(vf_loadn(p, left), sum[j][i]) : sum[j][i], left);
        }
}
GG_INLINE void micro_prefetch(const int n, const float *c, int64_t ldc, int64_t m) {
    GG_UNROLL for (int j = 0; j < n; j++)
        __builtin_prefetch(c + j * ldc, 1), __builtin_prefetch(c + j * ldc + m - 1, 1);
}
/* A step of the products of a panel of a and columns of b, which are `column` floats apart. Columns side by side are a
 * panel, and the next panel, which may lie in L3, is prefetched (B_AHEAD); other columns are in L1, and a is prefetched
 * from L2. */
GG_INLINE void micro_step(const int v, const int n, const int column, const float *a, const float *b, int64_t panel,
                          vf sum[NR][MV]) {
    vf x[MV];
    if (column != 1) __builtin_prefetch(a + MICRO_AHEAD * MR);
    else if (B_AHEAD) __builtin_prefetch(b + panel);
    GG_UNROLL for (int i = 0; i < v; i++) x[i] = vf_load(a + i * VW);
    GG_UNROLL for (int j = 0; j < n; j++) {
        const vf y = column == 1 ? vf_set1_at(b, j) : vf_set1(b[j * column]);
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_fma(x[i], y, sum[j][i]);
    }
}
/* Element k of column j of b is at b[k * next + j * column]. What follows is prefetched: c, which may come from memory,
 * and the rows of a that will be packed next (ahead), if there are any. With several steps in an iteration, the rate
 * depends less on where the loop lies in memory. */
GG_INLINE void micro_floats(const int v, const int n, const int next, const int column, int64_t steps, const float *a,
                            const float *b, float *c, int64_t ldc, int64_t m, bool add, pack_ahead *ahead) {
    vf sum[NR][MV];
    GG_UNROLL for (int j = 0; j < n; j++)
        GG_UNROLL for (int i = 0; i < v; i++) sum[j][i] = vf_zero();
    micro_prefetch(n, c, ldc, m);
    const int64_t panel = steps * next;
    for (; steps > 0; steps -= MICRO_STEPS) {
        if (ahead) pack_prefetch(ahead);
        _Pragma("GCC unroll 4")
        for (int64_t l = gg_min(steps, MICRO_STEPS); l > 0; l--, a += MR, b += next)
            micro_step(v, n, column, a, b, panel, sum);
    }
    micro_store(v, n, sum, c, ldc, m, add);
}
GG_INLINE void micro_kernel(const int v, const int n, MICRO_ARGS) {
#ifdef GG_FAMILY_matmul             /* convolutions gather what they pack, attention packs little */
    micro_floats(v, n, NR_PAD, 1, steps, a, b, c, ldc, m, add, format->ahead);
#else
    (void)format;
    micro_floats(v, n, NR_PAD, 1, steps, a, b, c, ldc, m, add, NULL);
#endif
}

/* F(n, ...) for each number of columns up to NR_MAX. Tables have no entry beyond NR, so the compiler drops the rest. */
#define MICRO_SIZES(F, ...) \
    F(1, __VA_ARGS__) F(2, __VA_ARGS__) F(3, __VA_ARGS__) F(4, __VA_ARGS__) F(5, __VA_ARGS__) F(6, __VA_ARGS__) \
    F(7, __VA_ARGS__) F(8, __VA_ARGS__) F(9, __VA_ARGS__) F(10, __VA_ARGS__) F(11, __VA_ARGS__) F(12, __VA_ARGS__) \
    F(13, __VA_ARGS__) F(14, __VA_ARGS__)
#define MICRO(n, v) \
    static void micro_##v##_##n(MICRO_ARGS) { \
        micro_kernel(v, n < NR ? n : NR, format, steps, a, b, c, ldc, m, add); \
    }
MICRO_SIZES(MICRO, 1)
MICRO_SIZES(MICRO, 2)
#undef MICRO
#define MICRO(n, v) [n] = n <= NR ? micro_##v##_##n : NULL,
static const micro_fn micro_table[][NR_MAX + 1] = {[1] = {MICRO_SIZES(MICRO, 1)}, [2] = {MICRO_SIZES(MICRO, 2)}};
#undef MICRO

static const panel_format float_panels = {.kernels = micro_table, .columns = NR, .task_columns = NC,
                                          .packed_columns = NC_ALL, .depth = FLOAT_DEPTH, .step = 1,
                                          .a_words = 1, .b_words = 1};

#endif
