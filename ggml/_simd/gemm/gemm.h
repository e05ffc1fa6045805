/* The blocked matrix product: c[i, j] (+)= sum over k of a_i[k] * b_j[k], for every matrix of a batch.
 *
 * A task is a rectangle of c. It packs its columns of b, as deep as the form says, into panels that stay in L2, then
 * unpacks one panel of a after the other, which stays in L1, and multiplies it by all of them. Tasks share nothing but
 * the counter that hands them out: packing again what another task packed costs a few hundredths, less than waiting for
 * it. Every element is summed in steps of that depth, in order of k, whatever the tasks: the number of threads changes
 * no result. */
#ifndef GG_GEMM_GEMM_H
#define GG_GEMM_GEMM_H
#include "pack.h"

typedef struct gemm gemm;
struct gemm {
    int64_t m, n, k, ne2, ne3;
    gemm_src a, b;
    gemm_form form;                 /* of panels; zeros: floats */
    char *c;
    size_t c_m, c_n, c_2, c_3;      /* byte strides of c */
    /* Where c[i, j] lies, if not at i * c_m + j * c_n, else NULL. Columns are c_n apart, unless that is 0. */
    size_t (*c_at)(const gemm *g, int64_t i, int64_t j);
    bool add;                       /* to what c holds, else over it */
};

enum {
    GEMM_N = 512,                   /* columns of b that a task works on at most: GEMM_K x GEMM_N floats fit into L2 */
    GEMM_LEAST = 1 << 16,           /* multiply-adds that are worth a task */
};

static inline int64_t gemm_next_task(const gg_work *w) {
    return atomic_fetch_add_explicit(w->chunk, 1, memory_order_relaxed);
}
static inline const gemm_form *gemm_form_of(const gemm *g) { return g->form.tiles ? &g->form : &gemm_floats; }
static inline float *gemm_c(const gemm *g, int64_t i, int64_t j) {
    return (float *)(g->c + (g->c_at ? g->c_at(g, i, j) : (size_t)i * g->c_m + (size_t)j * g->c_n));
}
/* Rows i to i+m lie side by side. */
static inline bool gemm_c_packed(const gemm *g, int64_t i, int64_t m) {
    return g->c_at ? gemm_c(g, i + m - 1, 0) - gemm_c(g, i, 0) == m - 1 : g->c_m == sizeof(float);
}

/* Panels of the type hold integers on this ISA (int8.h). */
static inline bool gemm_has_ints(const gemm_src *s) { return GG_VEC_DOT && s->kernels && s->kernels->ints[s->type].unpack; }

/* The other way round: c transposed is b times a. */
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

/* How the work is cut: panels of c, how many of them a task takes each way, how many tasks that makes; for how many
 * steps of the form's depth b is packed at a time; the width of a panel of b, and how many panels are wider by one. */
typedef struct gemm_cut { int64_t rows, columns, tile_rows, tile_columns, tasks, steps, width, wider; } gemm_cut;

/* First column of a panel. Panels are as even as can be: 65 columns are 5 times 13, not 4 times 14 and 9. */
static inline int64_t gemm_column(const gemm_cut *cut, int64_t panel) {
    return panel * cut->width + gemm_min(panel, cut->wider);
}

/* Four tasks a thread even out what other processes take from one; of tasks alike in size, square ones pack least. */
static inline void gemm_cut_tasks(gemm_cut *p, const gemm *g, int nth) {
    for (;;) {
        const int64_t m = p->tile_rows * MICRO_R, n = p->tile_columns * MICRO_N;
        p->tasks = gemm_ceil(p->rows, p->tile_rows) * gemm_ceil(p->columns, p->tile_columns) * g->ne2 * g->ne3;
        if (nth == 1 || p->tasks >= 4 * nth || (double)m * (double)n * (double)g->k < 2 * GEMM_LEAST) return;
        if (p->tile_rows > 1 && (m >= n || p->tile_columns == 1)) p->tile_rows = (p->tile_rows + 1) / 2;
        else if (p->tile_columns > 1) p->tile_columns = (p->tile_columns + 1) / 2;
        else return;
    }
}
static inline gemm_cut gemm_plan(const gemm *g, int nth) {
    gemm_cut p = {.rows = gemm_ceil(g->m, MICRO_R), .columns = gemm_ceil(g->n, MICRO_N)};
    p.width = g->n / p.columns, p.wider = g->n % p.columns;
    p.tile_rows = p.rows;
    p.tile_columns = gemm_ceil(p.columns, gemm_ceil(g->n, GEMM_N));
    gemm_cut_tasks(&p, g, nth);
    const int64_t fit = gemm_max(GEMM_N / (p.tile_columns * MICRO_C), 1);
    p.steps = gemm_max(gemm_min(fit, gemm_ceil(g->k, gemm_form_of(g)->depth)), 1);
    return p;
}

/* One tile of a c whose columns are not contiguous (packed) or not evenly spaced: by way of the stack. */
static inline void gemm_scatter(const gemm *g, micro_fn tile, int64_t steps, const float *a, const float *b, int64_t i0,
                                int64_t m, int64_t j0, int64_t n, bool packed, bool add) {
    float t[MICRO_N * MICRO_R] __attribute__((aligned(64)));
    tile(gemm_form_of(g), steps, a, b, t, MICRO_R, m, false);
    for (int64_t j = 0; packed && j < n; j++) {
        float *const c = gemm_c(g, i0, j0 + j);
        for (int64_t i = 0; i < m; i++) c[i] = add ? c[i] + t[j * MICRO_R + i] : t[j * MICRO_R + i];
    }
    for (int64_t i = 0; !packed && i < m; i++) {
        char *const row = (char *)gemm_c(g, i0 + i, j0);
        for (int64_t j = 0; j < n; j++) {
            float *c = g->c_n ? (float *)(row + (size_t)j * g->c_n) : gemm_c(g, i0 + i, j0 + j);
            *c = add ? *c + t[j * MICRO_R + i] : t[j * MICRO_R + i];
        }
    }
}

/* A panel of a times the panels of b from p0 to p1. */
static void gemm_row(const gemm *g, const gemm_cut *cut, int64_t row, int64_t p0, int64_t p1, int64_t kn,
                     const float *a, const float *b, bool add) {
    const gemm_form *const f = gemm_form_of(g);
    const int64_t i = row * MICRO_R, m = gemm_min(g->m - i, MICRO_R), steps = kn / f->group;
    const micro_fn *const tiles = f->tiles[gemm_ceil(m, VW)];
    const bool packed = gemm_c_packed(g, i, m);
    for (int64_t p = p0; p < p1; p++, b += steps * f->b_words * MICRO_C) {
        const int64_t j = gemm_column(cut, p), n = gemm_column(cut, p + 1) - j;
        if (packed && (g->c_n || n == 1))
            tiles[n](f, steps, a, b, gemm_c(g, i, j), (int64_t)(g->c_n / sizeof(float)), m, add);
        else gemm_scatter(g, tiles[n], steps, a, b, i, m, j, n, packed, add);
    }
}

/* Packs columns of b from panel p0 to p1, from k0 on. */
static void gemm_pack_columns(const gemm *g, const gemm_cut *cut, int64_t p0, int64_t p1, int64_t k0, int64_t k1,
                              float *out) {
    float floats[GEMM_K * MICRO_C] __attribute__((aligned(64)));
    const gemm_form *const f = gemm_form_of(g);
    for (int64_t p = p0; p < p1; p++) {
        const int64_t j = gemm_column(cut, p), n = gemm_column(cut, p + 1) - j;
        for (int64_t k = k0; k < k1; k += GEMM_K) {
            const int kn = (int)gemm_min(k1 - k, GEMM_K);
            g->b.pack(&g->b, j, (int)n, k, kn, f->convert_b ? floats : out, MICRO_C);
            if (f->convert_b) f->convert_b(f, floats, kn, out);
            out += kn / f->group * f->b_words * MICRO_C;
        }
    }
}

/* Rows of c from panel r0 to r1, columns from panel p0 to p1. own_a, own_b: room for a group of panels of a and for the
 * panels of b. With few columns these are packed for several steps of k, so that long pieces of a's rows are read. */
static void gemm_task(const gemm *g, const gemm_cut *cut, int64_t r0, int64_t r1, int64_t p0, int64_t p1, float *own_a,
                      float *own_b) {
    const gemm_form *const f = gemm_form_of(g);
    const int64_t all = cut->steps * f->depth, room = (p1 - p0) * MICRO_C * GEMM_K;
    int64_t k0 = 0;
    do {                            /* once even if k is 0: c becomes 0 then */
        const int64_t k1 = gemm_min(k0 + all, g->k);
        for (int64_t k = k0; k < k1; k += f->depth)
            gemm_pack_columns(g, cut, p0, p1, k, gemm_min(k + f->depth, k1), own_b + (k - k0) / f->depth * room);
        for (int64_t r = r0; r < r1; r += g->a.group) {
            const int64_t end = gemm_min(r + g->a.group, r1), n = gemm_min(end * MICRO_R, g->m) - r * MICRO_R;
            int64_t k = k0;
            do {
                const int64_t kn = gemm_min(k1 - k, f->depth), panel = kn / f->group * f->a_words * MICRO_R;
                int64_t q = 0;
                do g->a.pack(&g->a, r * MICRO_R, (int)n, k + q, (int)gemm_min(kn - q, GEMM_K),
                             own_a + q / f->group * f->a_words * MICRO_R, MICRO_R);
                while ((q += GEMM_K) < kn);
                const float *const b = own_b + (k - k0) / f->depth * room;
                for (int64_t i = r; i < end; i++)
                    gemm_row(g, cut, i, p0, p1, kn, own_a + (i - r) * panel, b, g->add || k > 0);
            } while ((k += f->depth) < k1);
        }
    } while ((k0 += all) < g->k);
}

/* Rows of c from panel r0 to r1, all columns, by this thread alone; room: gemm_room floats. */
static inline int64_t gemm_room(const gemm *g, const gemm_cut *cut) {
    return (g->a.group * MICRO_R + cut->tile_columns * MICRO_C * cut->steps) * GEMM_K;
}
static void gemm_rows(const gemm *g, const gemm_cut *cut, int64_t r0, int64_t r1, float *room) {
    for (int64_t p = 0; p < cut->columns; p += cut->tile_columns)
        gemm_task(g, cut, r0, r1, p, gemm_min(p + cut->tile_columns, cut->columns), room,
                  room + g->a.group * MICRO_R * GEMM_K);
}

/* Computes g with the threads of w; false: no memory. */
static bool gemm_run(const gg_work *w, const gemm *g) {
    const gemm_cut cut = gemm_plan(g, w->nth);
    float *const own = gg_scratch((size_t)gemm_room(g, &cut) * sizeof(float));
    if (!own) return false;
    const int64_t across = gemm_ceil(cut.columns, cut.tile_columns), each = across * gemm_ceil(cut.rows, cut.tile_rows);
    for (int64_t t; (t = gemm_next_task(w)) < cut.tasks;) {
        const int64_t r = t % each / across * cut.tile_rows, p = t % across * cut.tile_columns;
        const gemm one = gemm_matrix(g, t / each);
        gemm_task(&one, &cut, r, gemm_min(r + cut.tile_rows, cut.rows), p, gemm_min(p + cut.tile_columns, cut.columns),
                  own, own + g->a.group * MICRO_R * GEMM_K);
    }
    return true;
}

#endif
