/* The blocked matrix product, for every matrix of a batch: c[i, j] (+)= sum over k of a[i, k] b[j, k].
 * The terms are those of BLIS; all files in gemm/ use them as they are defined here.
 *
 * Block sizes
 *   MR, NR   the register tile: the micro-kernel computes MR rows and NR columns of c in registers. MR is MV vectors.
 *            MV * NR accumulators, MV vectors of a and one of b fit into the registers of the ISA (micro_<isa>.h).
 *   NR_PAD   NR rounded up to whole vectors.
 *   FLOAT_DEPTH  elements of k of a panel of floats, at most 2 KC. The deeper it is, the less often c is read and
 *            written. Where a panel of a would fill a first cache of 32 KB, that costs more than it saves.
 *   INT8_NR  columns that the micro-kernels of quantised panels compute: integer sums and sums of floats fit into the
 *            registers.
 *   INT8_AHEAD  words of b between those that such a kernel reads and those that it prefetches from L2; 0: it does not.
 *   B_AHEAD  whether the micro-kernel of floats prefetches the next panel of b. With few accumulators there are many
 *            other instructions for each product, and one more costs more than it saves.
 *   GEMV_MAX_N  the most columns for which a matrix of floats is multiplied without packing (gemv.h).
 *   GEMV_NR  the columns of the register tile of that product, which has four rows: the sums fit into the registers.
 *   IN_PLACE_MIN_N, IN_PLACE_MAX_N  columns by which a matrix of floats is multiplied in place (in_place.h), which only
 *            some ISAs do; by n columns it must have IN_PLACE_K + IN_PLACE_K_OF_N * n elements of k.
 *   IN_PLACE_FIFTHS  fifths of the lanes there that must have a column.
 *   IN_PLACE_TILES, IN_PLACE_ROWS  the tiles there, and the most rows of one.
 *   IN_PLACE_GROUP  rows that are multiplied by all panels there: they stay in the first cache.
 *   FEW_MAX_N  the most columns by which a quantised matrix is multiplied without panels of rows (int8_few.h), where
 *            its type allows that; 0: it never is.
 *   KC       elements of k that are unpacked at a time. It is a multiple of the block of every type, so that rows are
 *            divided between blocks. A panel is a few times as deep.
 *   MC       rows of a that are packed at a time where neighbouring rows are contiguous. Elsewhere MR rows are.
 *   NC       columns of b that a task packs at most. They fit into L2 or, where that is small, L3. Fewer columns are
 *            packed for several panels along k, NC_ALL in all, padding included.
 *
 * Panels
 *   Operands are packed into panels: MR rows of a, or up to NR columns of b. A panel consists of 32-bit words. Word w
 *   of row i is at a[w * MR + i], word w of column j at b[w * NR_PAD + j]. Lanes without a row or column hold any
 *   values; the micro-kernel does not store their results.
 *
 *   The panel format (struct panel_format) says what the words are. A panel is a sequence of steps. A step covers
 *   `step` elements of k; it has a_words words for each row of a and b_words words for each column of b. A panel covers
 *   `depth` elements of k.
 *
 *   floats (tile.h)
 *     A step is one element, which is its only word.
 *   pieces (pieces.h)
 *     Floats where the ISA multiplies matrices of bf16. A step is 32 elements of k. Each is divided into up to three
 *     bf16 whose sum it is, its pieces; a word has a piece of two neighbours. The words of a step are those of the
 *     first pieces, then those of the second and the third ones, and a word that says whether it holds such pieces. The
 *     16 words of a piece of a column of b are side by side, unlike those of other formats: word w of column j is at
 *     b[j * 16 + w]. Floats are packed as above first. A step adds the products of those pieces that together are not
 *     smaller than the last bit of a float.
 *   groups (int8_groups.h)
 *     a is quantised and the ISA multiplies bytes. A step is a scale group of 16 or 32 elements. Rows of a hold the
 *     codes q of the type: element = d (q - bias) - m (gg_ints). Columns of b are rounded to codes p in -127..127 with
 *     a scale for each step: element = e p. Four codes are a word. Two codes of 16 bits are a word where the ISA
 *     has only products of bytes that are added in 16 bits, and the codes of the type need eight bits: their products
 *     would not fit. These are multiplied by their scales first, up to 4096 in size, and p is in -2032..2032, which
 *     takes the room that the sums leave: so a step has 256 elements, or fewer if k is no multiple of that. Codes of
 *     blocks of 256 have integer scales; other scales become parts of the largest one of the step, times 2^15, and
 *     products with them are rounded. The words of a step are
 *       a: codes, d, and m if the type has minima
 *       b: codes, e, -bias (sum of p), and -e (sum of p) if the type has minima; where products are added in 16 bits,
 *          the second of these words holds the sums of p in both halves of the words
 *     Where the ISA multiplies matrices of bytes (int8_tiles.h), word w of the codes of column j is at b[j * 8 + w].
 *     A step adds d e (sum of q p - bias sum of p) - m e (sum of p). The sum in brackets is exact. The scale of b is at
 *     least as fine as in dot products, whose activation types share one among 32 to 256 elements.
 *   folded (int8_folded.h)
 *     As groups, where the ISA multiplies matrices of bytes, for types with blocks of 256 elements (gg_ints.fold) and
 *     FOLDED_LEAST columns: scaling the sums of each scale group would take longer than the products. A step is a
 *     block, and codes of a are multiplied by the integer scales of the block first: element = d q - dmin m, where q
 *     has 15 bits, and m is a small integer for each 16 elements. Columns of b are rounded to codes p of 16 bits:
 *     element = e p. Each code is two signed bytes, 256 upper + lower. A word of codes has the upper or the lower bytes
 *     of four elements; sixteen words of upper bytes are followed by those of lower ones. The words of a step are
 *       a: codes, 256 d, and if the type has minima -dmin and 16 words with m twice, as bf16
 *       b: codes, 16 words with the sum of 16 codes p as two bf16 if the type has minima, then e; the words of a column
 *          are side by side, 16 at a time
 *     A step adds d e (sum of q p) - dmin e (sum of m p). The first sum is exact, but for the products of two lower
 *     bytes, which are left out: they change a result by a fiftieth of what rounding p to 8 bits would change.
 *   blocks (int8_blocks.h)
 *     As groups, but for types with blocks of 256 elements and integer scales s, where the ISA adds products in 16 bits
 *     (vi_pairs). A step is a block. Word w of each 32 elements holds the codes of elements 2w, 2w + 1, 16 + 2w and
 *     17 + 2w. A word of scales is two int16, one for each half of the words of codes. So it serves scale groups of 16
 *     and of 32 elements. The words of a step are
 *       a: for each `scale_group` words of codes these and a word of scales; then d; then m of each scale group if the
 *          type has minima
 *       b: for each `acc_depth` words of codes -bias (sums of p in both halves of the words) if there is a bias, and
 *          the codes; then e; then -e (sum of p) of each scale group if the type has minima
 *     A step adds d e (sum of s (q p - bias p)) - e (sum of m p). The first sum is exact. b has one scale for 256
 *     elements, as in dot products.
 *   The accumulation depth, acc_depth, is the number of words of codes whose products are added in 16 bits before the
 *   sums are converted to 32 bits.
 *
 * Loops
 *   A task computes a rectangle of c. It packs its columns of b, which stay in L2. Then it packs one panel of a after
 *   the other and multiplies each by all panels of b. Tasks share only the counter that distributes them. A thread
 *   packs columns anew unless its last task had the same and all of k. Where many rows would make several threads pack
 *   the same columns, they pack b together first, into memory that they share: all of it, or as much of k at a time as
 *   fits.
 *   Every element of c is summed panel by panel in the order of k, whatever the tasks are. So the number of threads
 *   changes no result. */
#ifndef GG_GEMM_GEMM_H
#define GG_GEMM_GEMM_H
#include "pieces.h"

typedef struct gemm gemm;
struct gemm {
    int64_t m, n, k, ne2, ne3;
    gemm_src a, b;
    panel_format format;            /* zeros: floats */
    char *c;
    size_t c_m, c_n, c_2, c_3;      /* byte strides of c */
    /* Byte offset of c[i, j]; NULL: i * c_m + j * c_n. If c_n is not 0, columns are c_n bytes apart. */
    size_t (*c_at)(const gemm *g, int64_t i, int64_t j);
    /* Called with each tile of c that has its sums: m contiguous rows from row i on of columns j .. j+n-1, which are
     * ldc floats apart and may not be in their place yet; NULL: nothing follows. */
    void (*finish)(const gemm *g, int64_t i, int64_t m, int64_t j, int64_t n, float *tile, int64_t ldc);
    const float *bias;              /* for finish */
    bool add;                       /* adds to c instead of overwriting it */
    bool exact;                     /* b is not rounded to the codes of an activation type */
};

enum {
    GEMM_MIN_TASK = 1 << 16,        /* multiply-adds that are worth a task */
};

static inline int64_t gemm_next_task(const gg_work *w) {
    return atomic_fetch_add_explicit(w->chunk, 1, memory_order_relaxed);
}
static inline const panel_format *gemm_format(const gemm *g) {
    return g->format.kernels ? &g->format : gemm_float_format(&g->a, g->m, g->n, g->k);
}
/* The steps of kn elements of k: the last one may be filled in part. */
static inline int64_t gemm_steps(const panel_format *f, int64_t kn) { return gg_ceil_div(kn, f->step); }
/* The floats of a panel of `width` rows or columns and full depth. */
static inline int64_t gemm_panel_floats(const panel_format *f, int words, int64_t width) {
    return f->depth / f->step * words * width;
}
static inline float *gemm_c(const gemm *g, int64_t i, int64_t j) {
    return (float *)(g->c + (g->c_at ? g->c_at(g, i, j) : (size_t)i * g->c_m + (size_t)j * g->c_n));
}
/* Rows i .. i+m-1 of c are contiguous. */
static inline bool gemm_c_packed(const gemm *g, int64_t i, int64_t m) {
    return g->c_at ? gemm_c(g, i + m - 1, 0) - gemm_c(g, i, 0) == m - 1 : g->c_m == sizeof(float);
}

/* The ISA has integer panels for the type. */
static inline bool gemm_has_ints(const gemm_src *s) {
    return GG_VEC_INT8 && s->kernels && s->kernels->ints[s->type].unpack;
}
/* Likewise, and unpacking is cheap. */
static inline bool gemm_unpacks_fast(const gemm_src *s) {
    return gemm_has_ints(s) && !s->kernels->ints[s->type].is_signed;
}

/* The same product with a and b exchanged: c transposed = b a. */
static inline gemm gemm_swapped(const gemm *g) {
    gemm t = *g;
    t.m = g->n, t.n = g->m, t.a = g->b, t.b = g->a, t.c_m = g->c_n, t.c_n = g->c_m;
    return t;
}
/* One matrix of the batch. */
static inline gemm gemm_matrix(const gemm *g, int64_t index) {
    const int64_t i2 = index % g->ne2, i3 = index / g->ne2;
    gemm t = *g;
    t.a.data += (size_t)(i2 / g->a.share2) * g->a.nb2 + (size_t)(i3 / g->a.share3) * g->a.nb3;
    t.b.data += (size_t)(i2 / g->b.share2) * g->b.nb2 + (size_t)(i3 / g->b.share3) * g->b.nb3;
    t.c += (size_t)i2 * g->c_2 + (size_t)i3 * g->c_3;
    return t;
}

/* How c is divided into panels and tasks. */
typedef struct gemm_tiling {
    int64_t rows, columns;              /* panels of rows and of columns */
    int64_t task_rows, task_columns;    /* of them in a task */
    int64_t tasks;
    int64_t depths;                     /* panels along k of b that a task packs at a time */
    int64_t width, wider;               /* columns of a panel; the first `wider` panels have one more */
    bool keep_columns;                  /* tasks are divided by rows only */
} gemm_tiling;

/* First column of a panel. Panels are of even width: 65 columns are 5 panels of 13 instead of 4 of 14 and one of 9. */
static inline int64_t gemm_first_column(const gemm_tiling *tiling, int64_t panel) {
    return panel * tiling->width + gg_min(panel, tiling->wider);
}

/* Divides c into at least `most` tasks, which balances threads that other processes slow down. It keeps tasks square
 * because of equal sizes these pack least. */
static inline void gemm_split(gemm_tiling *p, const gemm *g, int64_t most) {
    for (;;) {
        const int64_t m = p->task_rows * MR, n = p->task_columns * NR;
        p->tasks = gg_ceil_div(p->rows, p->task_rows) * gg_ceil_div(p->columns, p->task_columns) * g->ne2 * g->ne3;
        if (p->tasks >= most || (double)m * (double)n * (double)g->k < 2 * GEMM_MIN_TASK) return;
        const bool columns = p->task_columns > 1 && !p->keep_columns;
        if (p->task_rows > 1 && (m >= n || !columns)) p->task_rows = (p->task_rows + 1) / 2;
        else if (columns) p->task_columns = (p->task_columns + 1) / 2;
        else return;
    }
}
/* Whether a task packs all of k of its columns of b at a time. */
static inline bool gemm_packs_once(const gemm *g, const gemm_tiling *tiling) {
    return tiling->depths * gemm_format(g)->depth >= g->k;
}
/* together: the threads pack b together, so tasks that have all its columns pack least. */
static inline gemm_tiling gemm_plan(const gemm *g, int nth, bool together) {
    const panel_format *const f = gemm_format(g);
    gemm_tiling p = {.rows = gg_ceil_div(g->m, MR), .columns = gg_ceil_div(g->n, NR), .keep_columns = together};
    p.width = g->n / p.columns, p.wider = g->n % p.columns;
    p.task_rows = p.rows;
    p.task_columns = gg_ceil_div(p.columns, gg_ceil_div(g->n, f->task_columns));
    gemm_split(&p, g, nth == 1 ? 1 : 4 * nth);
    const int64_t fit = gg_max(f->packed_columns / (p.task_columns * NR_PAD), 1);
    p.depths = gg_max(gg_min(fit, gg_ceil_div(g->k, f->depth)), 1);
    p.keep_columns = true;
    if (nth > 1 && gemm_packs_once(g, &p)) gemm_split(&p, g, 16 * nth);     /* more tasks cost nothing then */
    return p;
}

/* A panel of rows i0 .. i0+m-1 and how its tiles are stored. */
typedef struct gemm_tile {
    int64_t i0, m;
    bool packed;                    /* its rows are contiguous in c */
    bool add, last;                 /* is added to c; no panels along k follow */
    char *rows[MR];                 /* else: where they begin in c, if its columns are evenly spaced */
} gemm_tile;

/* Copies a register tile to columns of c that are contiguous, but not evenly spaced. */
static __attribute__((noinline)) void gemm_scatter_columns(const gemm *g, const gemm_tile *tile, float *t, int64_t j0,
                                                           int64_t n) {
    float *column[NR];
    const int64_t m = tile->m;
    for (int64_t j = 0; j < n; j++) {
        column[j] = gemm_c(g, tile->i0, j0 + j);
        for (int64_t i = 0; tile->add && i < m; i++) t[j * MR + i] += column[j][i];
    }
    if (g->finish && tile->last) g->finish(g, tile->i0, m, j0, n, t, MR);
    for (int64_t j = 0; j < n; j++) memcpy(column[j], t + j * MR, (size_t)m * sizeof *t);
}
/* Likewise to columns that are not contiguous. */
static __attribute__((noinline)) void gemm_scatter_elements(const gemm *g, const gemm_tile *tile, float *t, int64_t j0,
                                                            int64_t n) {
    float *at[NR][MR];
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < tile->m; i++) {
            at[j][i] = g->c_n ? (float *)(tile->rows[i] + (size_t)(j0 + j) * g->c_n) : gemm_c(g, tile->i0 + i, j0 + j);
            if (tile->add) t[j * MR + i] += *at[j][i];
        }
    if (g->finish && tile->last) g->finish(g, tile->i0, tile->m, j0, n, t, MR);
    for (int64_t i = 0; i < tile->m; i++)
        for (int64_t j = 0; j < n; j++) *at[j][i] = t[j * MR + i];
}
/* Computes a register tile on the stack and copies it to c. */
static inline void gemm_scatter(const gemm *g, const panel_format *f, const gemm_tile *tile, micro_fn kernel,
                                int64_t steps, const float *a, const float *b, int64_t j0, int64_t n) {
    float t[NR * MR] __attribute__((aligned(64)));
    kernel(f, steps, a, b, t, MR, tile->m, false);
    if (tile->packed) gemm_scatter_columns(g, tile, t, j0, n);
    else gemm_scatter_elements(g, tile, t, j0, n);
}

/* The rows of panel `row` for at most kn elements of k from k on; steps: those of the products that prefetch them. */
static inline pack_ahead gemm_rows_ahead(const gemm *g, int64_t row, int64_t k, int64_t kn, int64_t steps) {
    const gemm_src *const a = &g->a;
    const gg_type_info *const type = &gg_types[a->type];
    const bool floats = gemm_format(g) == &float_panels && a->pack == pack_along_k;
    const bool used = a->ahead || floats || gemm_format(g)->pair;
    if (!used || row * MR >= g->m || a->panels > 1 || a->context || a->nb_k != (size_t)type->bytes)
        return (pack_ahead){0};
    const size_t bytes = (size_t)(gg_min(kn, g->k - k) / type->blck) * a->nb_k;
    pack_ahead x = {.row = pack_at(a, row * MR, k / type->blck), .stride = a->nb_i,
                    .lines = (int64_t)(bytes / AHEAD_LINE) + 1, .rows = gg_min(g->m - row * MR, MR)};
    x.each = gg_ceil_div(x.rows * x.lines * (floats ? MICRO_STEPS : 1), gg_max(steps, 1));     /* none if k is 0 */
    return x;
}

/* The micro-kernels that follow compute that number of columns; 0: none follow. */
static inline void gemm_shape(const panel_format *f, int *columns, int wanted) {
    if (f->shape && wanted != *columns) f->shape(wanted);
    *columns = wanted;
}
/* Multiplies a panel of a by panels p0 .. p1-1 of b, and prefetches the rows that follow. */
static void gemm_tile_row(const gemm *g, const gemm_tiling *tiling, int64_t row, int64_t p0, int64_t p1, int64_t kn,
                          const float *a, const float *b, bool add, bool last, int *columns, pack_ahead *ahead) {
    panel_format format = *gemm_format(g);
    const panel_format *const f = &format;
    gemm_tile tile = {.i0 = row * MR, .m = gg_min(g->m - row * MR, MR), .add = add, .last = last};
    const int64_t i = tile.i0, m = tile.m, steps = gemm_steps(f, kn), ldc = (int64_t)(g->c_n / sizeof(float));
    const micro_fn *const kernels = f->kernels[gg_ceil_div(m, VW)];
    format.ahead = ahead;
    tile.packed = gemm_c_packed(g, i, m);
    for (int64_t r = 0; r < m && !tile.packed && g->c_n; r++) tile.rows[r] = (char *)gemm_c(g, i + r, 0);
    const bool pairs = f->pair && tile.packed && g->c_n;
    for (int64_t p = p0, now; p < p1; p += now, b += now * steps * f->b_words * NR_PAD) {
        now = pairs && p + 1 < p1 ? 2 : 1;
        const int64_t j0 = gemm_first_column(tiling, p), j1 = gemm_first_column(tiling, p + now);
        if (now == 2) {
            float *const c = gemm_c(g, i, j0);
            gemm_shape(f, columns, (int)(j1 - j0));
            f->pair((int)(j1 - j0), ahead, f, steps, a, b, c, ldc, m, add);
            if (g->finish && last) g->finish(g, i, m, j0, j1 - j0, c, ldc);
            continue;
        }
        const int64_t each = j1 - j0 <= f->columns ? j1 - j0 : gg_ceil_div(j1 - j0, gg_ceil_div(j1 - j0, f->columns));
        for (int64_t j = j0; j < j1; j += each) {
            const int64_t n = gg_min(j1 - j, each);
            gemm_shape(f, columns, (int)n);
            if (!tile.packed || (!g->c_n && n > 1)) {
                gemm_scatter(g, f, &tile, kernels[n], steps, a, b + (j - j0), j, n);
                continue;
            }
            float *const c = gemm_c(g, i, j);
            kernels[n](f, steps, a, b + (j - j0), c, ldc, m, add);
            if (g->finish && last) g->finish(g, i, m, j, n, c, ldc);
        }
    }
}

/* Panels of b that are packed together. */
static inline int64_t gemm_pack_group(const gemm *g) {
    return g->b.pack == pack_along_i && !gemm_format(g)->convert_b ? PACK_GROUP : 1;
}
/* Packs panels p0 .. p1-1 of b for k0 <= k < k1. */
static void gemm_pack_columns(const gemm *g, const gemm_tiling *tiling, int64_t p0, int64_t p1, int64_t k0, int64_t k1,
                              float *out) {
    float floats[KC * NR_PAD] __attribute__((aligned(64)));
    const panel_format *const f = gemm_format(g);
    const int64_t group = gemm_pack_group(g), panel = gemm_steps(f, k1 - k0) * f->b_words * NR_PAD;
    for (int64_t p = p0, now; p < p1; p += now, out += now * panel) {
        int64_t first[PACK_GROUP + 1];
        now = gg_min(p1 - p, group);
        for (int64_t q = 0; q <= now; q++) first[q] = gemm_first_column(tiling, p + q);
        float *to = out;
        for (int64_t k = k0; k < k1; k += KC) {
            const int kn = (int)gg_min(k1 - k, KC), n = (int)(first[1] - first[0]);
            if (f->convert_a) memset(floats, 0, sizeof floats);     /* lanes without a column must not be special */
            if (group > 1) pack_group_along_i(&g->b, first, (int)now, k, kn, to, panel, NR_PAD);
            else g->b.pack(&g->b, first[0], n, k, kn, f->convert_b ? floats : to, NR_PAD);
            if (f->convert_b) f->convert_b(f, floats, kn, to);
            to += gemm_steps(f, kn) * f->b_words * NR_PAD;
        }
    }
}

/* Elements of k that one call packs of rows of a: all of a panel if it packs several. */
static inline int64_t gemm_pack_unit(const gemm *g) {
    const panel_format *const f = gemm_format(g);
    return g->a.panels > 1 ? f->depth : gg_min(f->depth, KC);
}
/* Floats of the rows of a that one call packs where these are converted then. */
static inline int64_t gemm_unpacked_floats(const gemm *g) {
    return gemm_format(g)->convert_a ? g->a.panels * gemm_pack_unit(g) * MR : 0;
}
/* Packs rows i .. i+m-1 of a for k <= k' < k + kn: panels that follow each other. */
static void gemm_pack_rows(const gemm *g, int64_t i, int64_t m, int64_t k, int64_t kn, float *out, float *floats) {
    const panel_format *const f = gemm_format(g);
    const int64_t unit = gemm_pack_unit(g), panel = gemm_steps(f, kn) * f->a_words * MR;
    int64_t q = 0;
    if (f->pack_a && g->a.pack == pack_along_k) {
        f->pack_a(&g->a, i, (int)m, k, (int)kn, out);
        return;
    }
    do {
        const int now = (int)gg_min(kn - q, unit);
        float *const to = out + gemm_steps(f, q) * f->a_words * MR;
        if (f->convert_a && m % MR) memset(floats + m / MR * now * MR, 0, (size_t)(now * MR) * sizeof(float));
        g->a.pack(&g->a, i, (int)m, k + q, now, f->convert_a ? floats : to, MR);
        for (int64_t p = 0; f->convert_a && p * MR < m; p++)
            f->convert_a(f, floats + p * now * MR, now, to + p * panel);
    } while ((q += unit) < kn);
}

/* The memory in which threads pack b together, all of it or as much of k as fits: this, then the panels. */
typedef struct gemm_shared {
    const void *kernels;            /* those of the format of the panels, if they are all of b */
} gemm_shared;
enum { SHARED_PANELS = 64 };        /* bytes before the panels */

/* Bytes that suffice for n columns and k elements, whatever the format is. */
static inline int64_t gemm_shared_bytes(int64_t n, int64_t k) {
    return gg_ceil_div(n, NR) * NR_PAD * gg_ceil_div(k, B_UNIT) * B_WORDS * (int64_t)sizeof(float) + SHARED_PANELS;
}
/* Where panel p of b from element k of those that are there on lies; kn: the elements of k of its depth. */
static inline float *gemm_shared_panel(const gemm *g, const gemm_tiling *tiling, gemm_shared *shared, int64_t p,
                                       int64_t k, int64_t kn) {
    const panel_format *const f = gemm_format(g);
    return (float *)((char *)shared + SHARED_PANELS)
         + k / f->depth * tiling->columns * gemm_panel_floats(f, f->b_words, NR_PAD)
         + p * (gemm_steps(f, kn) * f->b_words * NR_PAD);
}
/* Elements of k that the threads pack together at a time, if so many bytes are there: all or whole depths. */
static inline int64_t gemm_shared_depth(const gemm *g, const gemm_tiling *tiling, size_t bytes) {
    const panel_format *const f = gemm_format(g);
    const int64_t step = tiling->columns * f->b_words * NR_PAD * (int64_t)sizeof(float);    /* bytes of a step */
    const int64_t steps = ((int64_t)bytes - SHARED_PANELS) / step, depth = f->depth / f->step;
    return gemm_steps(f, g->k) <= steps ? g->k : gg_max(steps / depth, 1) * f->depth;
}

/* Panels of rows r0 .. r1-1 and panels of columns p0 .. p1-1 of c, and the elements of k from k0 to k1. */
typedef struct gemm_part {
    int64_t r0, r1, p0, p1, k0, k1;
    int64_t next;                   /* the panel of rows with which the next task of this thread probably begins */
    bool ready;                     /* the panels of b are there, from the last task */
    gemm_shared *shared;            /* all columns of b for these elements of k, packed; or NULL */
} gemm_part;

/* Computes a part of c. The scratch memory has gemm_scratch_floats floats: for the rows of a that are converted and the
 * panels of a that one call packs, then for the panels of b. With few columns b is packed for several depths, so that a
 * is read in long runs. */
static void gemm_task(const gemm *g, const gemm_tiling *tiling, const gemm_part *t, float *scratch) {
    const panel_format *const f = gemm_format(g);
    float *const floats = scratch, *const packed_a = scratch + gemm_unpacked_floats(g);
    float *const packed_b = packed_a + g->a.panels * gemm_panel_floats(f, f->a_words, MR);
    const int64_t p0 = t->p0, p1 = t->p1, room = (p1 - p0) * gemm_panel_floats(f, f->b_words, NR_PAD);
    const int64_t all = tiling->depths * f->depth, calls = f->pair ? gg_max((p1 - p0) / 2, 1) : p1 - p0;
    int64_t k0 = t->k0;
    int columns = 0;
    do {                            /* at least once, because k = 0 makes c 0 */
        const int64_t k1 = gg_min(k0 + all, t->k1);
        for (int64_t k = k0; k < k1 && !t->ready && !t->shared; k += f->depth)
            gemm_pack_columns(g, tiling, p0, p1, k, gg_min(k + f->depth, k1), packed_b + (k - k0) / f->depth * room);
        for (int64_t r = t->r0; r < t->r1; r += g->a.panels) {
            const int64_t end = gg_min(r + g->a.panels, t->r1), n = gg_min(end * MR, g->m) - r * MR;
            int64_t k = k0;
            do {
                const int64_t kn = gg_min(k1 - k, f->depth), panel = gemm_steps(f, kn) * f->a_words * MR;
                const bool more = k + kn < k1;
                gemm_pack_rows(g, r * MR, n, k, kn, packed_a, floats);
                const float *const b = t->shared ? gemm_shared_panel(g, tiling, t->shared, p0, k - t->k0, kn)
                                                 : packed_b + (k - k0) / f->depth * room;
                pack_ahead ahead = gemm_rows_ahead(g, more ? r : end < t->r1 ? end : t->next, more ? k + kn : k0,
                                                   f->depth, gemm_steps(f, kn) * calls);
                for (int64_t i = r; i < end; i++)
                    gemm_tile_row(g, tiling, i, p0, p1, kn, packed_a + (i - r) * panel, b, g->add || k > 0,
                                  k + kn == g->k, &columns, &ahead);
            } while ((k += f->depth) < k1);
        }
    } while ((k0 += all) < t->k1);
    gemm_shape(f, &columns, 0);
}

/* Computes panels of rows r0 .. r1-1 of c, all columns, on this thread; scratch has gemm_scratch_floats floats. */
static inline int64_t gemm_scratch_floats(const gemm *g, const gemm_tiling *tiling) {
    const panel_format *const f = gemm_format(g);
    return gemm_unpacked_floats(g) + g->a.panels * gemm_panel_floats(f, f->a_words, MR)
        + tiling->task_columns * tiling->depths * gemm_panel_floats(f, f->b_words, NR_PAD);
}
static void gemm_rows(const gemm *g, const gemm_tiling *tiling, int64_t r0, int64_t r1, float *scratch) {
    gemm_part t = {.r0 = r0, .r1 = r1, .k1 = g->k, .next = r0};
    for (; t.p0 < tiling->columns; t.p0 = t.p1) {
        t.p1 = gg_min(t.p0 + tiling->task_columns, tiling->columns);
        gemm_task(g, tiling, &t, scratch);
    }
}

/* The threads compute a product in rounds, each with elements k0 .. k1-1 of k: they pack b together, then compute c.
 * One counter numbers what they do in all rounds. */
typedef struct gemm_round {
    int64_t k0, k1;
    int64_t first;                  /* number */
} gemm_round;

/* Packs b with the other threads. t: what this thread claimed last; returns what it claims next. */
static int64_t gemm_pack_together(const gg_work *w, const gemm *g, const gemm_tiling *tiling, gemm_shared *shared,
                                  const gemm_round *round, int64_t parts, int64_t t) {
    const int64_t depth = gemm_format(g)->depth, each = gemm_pack_group(g), across = gg_ceil_div(tiling->columns, each);
    for (; t < round->first + parts; t = gemm_next_task(w)) {
        const int64_t i = t - round->first, p = i % across * each, k = round->k0 + i / across * depth;
        const int64_t kn = gg_min(round->k1 - k, depth);
        gemm_pack_columns(g, tiling, p, gg_min(p + each, tiling->columns), k, k + kn,
                          gemm_shared_panel(g, tiling, shared, p, k - round->k0, kn));
    }
    gg_barrier(w);
    return t;
}
/* Computes the tasks of a round with the other threads. */
static int64_t gemm_run_tasks(const gg_work *w, const gemm *g, const gemm_tiling *tiling, gemm_shared *shared,
                              const gemm_round *round, int64_t t, float *scratch) {
    const int64_t across = gg_ceil_div(tiling->columns, tiling->task_columns);
    const int64_t down = gg_ceil_div(tiling->rows, tiling->task_rows);
    const bool once = gemm_packs_once(g, tiling);       /* then tasks with the same columns follow each other, */
    int64_t packed = -1;                                /* and these need not be packed again */
    for (; t < round->first + tiling->tasks; t = gemm_next_task(w)) {
        const int64_t i = t - round->first, matrix = i / (across * down), task = i % (across * down);
        const int64_t row = once ? task % down : task / across, column = once ? task / down : task % across;
        gemm_part part = {.r0 = row * tiling->task_rows, .p0 = column * tiling->task_columns, .k0 = round->k0,
                          .k1 = round->k1, .shared = shared};
        part.r1 = gg_min(part.r0 + tiling->task_rows, tiling->rows);
        part.next = part.r0 + (once ? w->nth : gg_max(w->nth / across, 1)) * tiling->task_rows;
        part.p1 = gg_min(part.p0 + tiling->task_columns, tiling->columns);
        part.ready = once && matrix * across + column == packed;
        const gemm one = gemm_matrix(g, matrix);
        gemm_task(&one, tiling, &part, scratch);
        packed = matrix * across + column;
    }
    return t;
}

/* Computes g with the threads of w; false: out of memory. shared: w->wsize bytes in which the threads pack b (one
 * matrix, not a batch) together, unless w->packed says that an earlier product may have done so; or NULL. */
static bool gemm_run(const gg_work *w, const gemm *g, gemm_shared *shared) {
    const gemm_tiling tiling = gemm_plan(g, w->nth, shared != NULL);
    const panel_format *const f = gemm_format(g);
    float *const own = gg_scratch((size_t)gemm_scratch_floats(g, &tiling) * sizeof(float));
    const int64_t depth = shared ? gemm_shared_depth(g, &tiling, w->wsize) : g->k;
    const bool held = shared && w->packed && shared->kernels == f->kernels;
    int64_t t = gemm_next_task(w);
    gemm_round round = {.k0 = 0};
    if (shared && w->packed && !held) gg_barrier(w);    /* other threads may still need what is there */
    if (shared && !held && w->ith == 0) shared->kernels = depth < g->k ? NULL : f->kernels;
    do {
        round.k1 = gg_min(round.k0 + depth, g->k);
        if (shared && round.k0) gg_barrier(w);
        if (shared && !held) {
            const int64_t parts = gg_ceil_div(tiling.columns, gemm_pack_group(g))
                                * gg_ceil_div(round.k1 - round.k0, f->depth);
            t = gemm_pack_together(w, g, &tiling, shared, &round, parts, t), round.first += parts;
        }
        if (own) t = gemm_run_tasks(w, g, &tiling, shared, &round, t, own);
        round.first += tiling.tasks;
        while (t < round.first) t = gemm_next_task(w);      /* without memory: claims what belongs to this round */
    } while ((round.k0 = round.k1) < g->k);
    return own;
}

#endif
