/* A matrix of floats times a few dozen vectors. Packing the matrix would take as long as a part of the product, so its
 * rows are read where they are, and the vectors are packed instead: their elements are the lanes of a register tile,
 * and the elements of the rows are broadcast. Where vectors are wide, packing is a small part of longer sums, too: the
 * tile of gemm.h has few columns, and this one all of its lanes. */
#ifndef GG_GEMM_IN_PLACE_H
#define GG_GEMM_IN_PLACE_H
#include "gemv.h"

#ifndef IN_PLACE_TILES              /* the ISA multiplies no matrix in place */
enum { IN_PLACE_MIN_N, IN_PLACE_MAX_N = 0, IN_PLACE_K = 0, IN_PLACE_K_OF_N = 0, IN_PLACE_FIFTHS = 0,
       IN_PLACE_GROUP = 1, IN_PLACE_ROWS = 1 };
#define IN_PLACE_TILES(F) F(2, 1) F(3, 1)
#endif
enum {
    IN_PLACE_LINE = 16,                /* floats of a line of the cache */
    IN_PLACE_PANELS = 256 << 10,       /* bytes of panels that are read for a group: they stay in the second cache */
    IN_PLACE_BYTES = 4 << 20,          /* most bytes of the panels of all of k */
    IN_PLACE_PIECE = 8,                /* groups that a thread claims at a time, at most */
};

/* sum[r*ld + i] (+)= the product of row r and vector i of a panel of v*VW vectors. `lines` rows from `ahead` on are
 * prefetched to the second cache, in the order of addresses and evenly. */
#define IN_PLACE_ARGS int64_t k, const float *panel, const char *a, size_t nb, float *sum, int64_t ld, bool add, \
                   const char *ahead, int lines
GG_INLINE void in_place_step(const int v, const int rows, vf s[IN_PLACE_ROWS][3], const float *panel, const char *a,
                             size_t nb, int64_t i) {
    vf x[3];
    GG_UNROLL for (int j = 0; j < v; j++) x[j] = vf_load(panel + (i * v + j) * VW);
    GG_UNROLL for (int r = 0; r < rows; r++) {
        const vf e = vf_set1_at((const float *)(a + (size_t)r * nb), i);
        GG_UNROLL for (int j = 0; j < v; j++) s[r][j] = vf_fma(x[j], e, s[r][j]);
    }
}
GG_INLINE void in_place_tile(const int v, const int rows, IN_PLACE_ARGS) {
    vf s[IN_PLACE_ROWS][3];
    int64_t i = 0;
    const size_t row = (size_t)(k / IN_PLACE_LINE * IN_PLACE_LINE) * sizeof(float);
    const char *end = ahead + row;
    GG_UNROLL for (int r = 0; r < rows; r++)
        GG_UNROLL for (int j = 0; j < v; j++) s[r][j] = add ? vf_load(sum + r * ld + j * VW) : vf_zero();
    for (; i + IN_PLACE_LINE <= k; i += IN_PLACE_LINE) {
        for (int j = 0; j < lines; j++) {
            __builtin_prefetch(ahead, 0, 2);
            if ((ahead += IN_PLACE_LINE * sizeof(float)) == end) ahead += nb - row, end += nb;
        }
        _Pragma("GCC unroll 4")
        for (int j = 0; j < IN_PLACE_LINE; j++) in_place_step(v, rows, s, panel, a, nb, i + j);
    }
    for (; i < k; i++) in_place_step(v, rows, s, panel, a, nb, i);
    GG_UNROLL for (int r = 0; r < rows; r++)
        GG_UNROLL for (int j = 0; j < v; j++) vf_store(sum + r * ld + j * VW, s[r][j]);
}
/* The tiles: vectors of lanes, rows. Their sums fit into the registers. */
typedef void (*in_place_fn)(IN_PLACE_ARGS);
#define IN_PLACE(v, rows) \
    static void in_place_##v##_##rows(IN_PLACE_ARGS) { \
        in_place_tile(v, rows, k, panel, a, nb, sum, ld, add, ahead, lines); \
    }
IN_PLACE_TILES(IN_PLACE)
#undef IN_PLACE
#define IN_PLACE(v, rows) [v][rows] = in_place_##v##_##rows,
static const in_place_fn in_place_table[4][IN_PLACE_ROWS + 1] = {IN_PLACE_TILES(IN_PLACE)};
#undef IN_PLACE
/* The most rows that a tile of v vectors has, of `left` ones. */
static inline int64_t in_place_rows(int64_t v, int64_t left) {
    int64_t rows = gg_min(left, IN_PLACE_ROWS);
    while (!in_place_table[v][rows]) rows--;
    return rows;
}

typedef struct in_place_plan {
    int64_t lanes, vectors;         /* of the vectors, padded; vectors of lanes */
    int64_t depth;                  /* elements of k of the panels that are multiplied by one group after the other */
    int64_t piece;                  /* rows that a thread claims */
    int64_t calls;                  /* of tiles for a group */
} in_place_plan;
/* Vectors of lanes of the panel that begins with vector v. */
static inline int in_place_width(const in_place_plan *p, int64_t v) { return v == 0 && p->vectors % 2 ? 3 : 2; }
/* Packing costs more than the sums' way through memory if products are long and vectors few. */
static inline bool in_place_fits(const gemm *g) {
    const int64_t least = g->k < GEMV_LONG_K ? GEMV_MAX_VECTORS + 1 : IN_PLACE_MIN_N;
    return g->n >= least && g->n <= IN_PLACE_MAX_N && g->k >= IN_PLACE_K + IN_PLACE_K_OF_N * g->n
        && 5 * g->n >= IN_PLACE_FIFTHS * VW * gg_ceil_div(g->n, VW) && g->a.type == GGML_TYPE_F32
        && g->a.pack == pack_along_k && g->b.pack != pack_blocks_along_i && g->c_m == sizeof(float) && !g->c_at
        && !g->add && g->n * g->k * (int64_t)sizeof(float) <= IN_PLACE_BYTES;
}
static inline in_place_plan in_place_plan_of(const gemm *g, int nth) {
    in_place_plan p = {.vectors = gg_ceil_div(g->n, VW)};
    const int64_t groups = gg_ceil_div(g->m, IN_PLACE_GROUP) * g->ne2 * g->ne3;
    p.lanes = p.vectors * VW;
    p.depth = gg_max(IN_PLACE_PANELS / (int64_t)sizeof(float) / p.lanes / KC, 1) * KC;
    p.piece = gg_max(gg_min(groups / (16 * nth), IN_PLACE_PIECE), 1) * IN_PLACE_GROUP;
    p.calls = 0;
    for (int64_t v = 0, width; v < p.vectors; v += width)
        p.calls += IN_PLACE_GROUP / in_place_rows(width = in_place_width(&p, v), IN_PLACE_GROUP);
    return p;
}

/* The panels of all of k, depth by depth. */
static void in_place_pack(const gemm *g, const in_place_plan *p, float *out) {
    for (int64_t k = 0, kn; k < g->k; k += kn) {
        kn = gg_min(g->k - k, p->depth);
        for (int64_t v = 0, width; v < p->vectors; v += width, out += kn * width * VW) {
            width = in_place_width(p, v);
            for (int64_t q = 0; q < kn; q += KC)
                g->b.pack(&g->b, v * VW, (int)gg_min(g->n - v * VW, width * VW), k + q, (int)gg_min(kn - q, KC),
                          out + q * width * VW, (int)(width * VW));
        }
    }
}
/* Sums of rows i0 .. i0+m-1, m <= IN_PLACE_GROUP, from k on. */
static void in_place_group(const gemm *g, const in_place_plan *p, int64_t i0, int64_t m, int64_t k, int64_t kn,
                        const float *panel, float *sums) {
    const char *const a = pack_at(&g->a, i0, k);
    const int64_t next = gg_min(g->m - i0 - m, IN_PLACE_GROUP), each = gg_ceil_div(IN_PLACE_GROUP, p->calls);
    int64_t row = 0;
    for (int64_t r = 0; r < next; r++) __builtin_prefetch(a + (size_t)(m + IN_PLACE_GROUP + r) * g->a.nb_i);
    for (int64_t v = 0, width; v < p->vectors; v += width, panel += kn * width * VW) {
        width = in_place_width(p, v);
        for (int64_t r = 0, rows; r < m; r += rows, row += each) {
            const int lines = (int)gg_max(gg_min(next - row, each), 0);
            rows = in_place_rows(width, m - r);
            in_place_table[width][rows](kn, panel, a + (size_t)r * g->a.nb_i, g->a.nb_i,
                                        sums + r * p->lanes + v * VW, p->lanes, k > 0,
                                        a + (size_t)(m + (lines ? row : 0)) * g->a.nb_i, lines);
        }
    }
}
/* c = the sums of rows i0 .. i0+m-1, transposed. */
static void in_place_store(const gemm *g, const in_place_plan *p, int64_t i0, int64_t m, const float *sums) {
    float *const c = gemm_c(g, i0, 0);
    const int64_t ldc = (int64_t)(g->c_n / sizeof *c);
    for (int64_t i = 0; m < VW && i < m; i++)
        for (int64_t j = 0; j < g->n; j++) c[j * ldc + i] = sums[i * p->lanes + j];
    for (int64_t i = 0; i < m && m >= VW; i += VW) {
        const float *row[VW];
        if (i > m - VW) i = m - VW;
        for (int r = 0; r < VW; r++) row[r] = sums + (i + r) * p->lanes;
        pack_transpose(row, g->n, c + i, (int)ldc);
    }
    if (g->finish) g->finish(g, i0, m, 0, g->n, c, ldc);
}
/* Each thread packs the vectors for itself, which costs about as much as a group. */
static bool in_place_run(const gg_work *w, const gemm *g) {
    const in_place_plan p = in_place_plan_of(g, w->nth);
    float *const panels = gg_scratch((size_t)(p.lanes * (g->k + p.piece)) * sizeof(float)), *const sums = panels
        + p.lanes * g->k;
    const int64_t cuts = gg_ceil_div(g->m, p.piece);
    int64_t ready = -1;
    gemm one = *g;
    if (!panels) return false;
    for (int64_t t; (t = gg_claim_piece(w, g->ne2 * g->ne3 * cuts)) >= 0;) {
        if (t / cuts != ready) one = gemm_matrix(g, ready = t / cuts), in_place_pack(&one, &p, panels);
        const int64_t i0 = t % cuts * p.piece, i1 = gg_min(i0 + p.piece, g->m);
        int64_t k = 0;
        do {                        /* at least once, because k = 0 makes c 0 */
            const int64_t kn = gg_min(g->k - k, p.depth);
            for (int64_t i = i0; i < i1; i += IN_PLACE_GROUP)
                in_place_group(&one, &p, i, gg_min(i1 - i, IN_PLACE_GROUP), k, kn, panels + k * p.lanes,
                            sums + (i - i0) * p.lanes);
        } while ((k += p.depth) < g->k);
        in_place_store(&one, &p, i0, i1 - i0, sums);
    }
    return true;
}

#endif
