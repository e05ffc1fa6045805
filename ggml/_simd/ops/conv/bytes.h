/* CONV_2D with a kernel of bytes: the threads pack the kernel and look at the data together, then compute strips. */
#ifndef GG_OPS_CONV_CONV_BYTES_H
#define GG_OPS_CONV_CONV_BYTES_H
#include "codes.h"

/* Words of the copy of a strip, and of rows of the kernel while it is packed. */
static inline int64_t codes_room(const codes_plan *q) {
    const int64_t planes = q->words * q->axis[0].phases * q->axis[1].phases;
    return gg_max(planes * q->plane, VW * q->steps) + MR + VW;
}
static void codes_tasks(const gg_work *w, const codes_plan *q, const ggml_tensor *x, char *y, size_t nb_c) {
    const patches *const v = q->v;
    codes_steps(q);
    memset(q->copy + codes_room(q) - MR - VW, 0, (MR + VW) * sizeof(float));
    for (int64_t u0, u1; gg_claim_chunk(w, v->n * q->strips, 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t image = u / q->strips, strip = u % q->strips, first = strip * q->rows,
                rows = gg_min(q->rows, v->ax[1].out - first);
            if (rows <= 0) continue;
            codes_load(q, x, image, strip);
            for (int64_t f = 0; f < (rows - 1) * q->width + v->ax[0].out; f += MR)
                for (int64_t g = 0; g < q->groups; g++) {
                    const int64_t j = g * q->each, n = gg_min(q->each, q->columns - j);
                    if (n <= 0) break;
                    codes_table[n + q->sums_codes](q->steps, q->at, q->copy + f, codes_panel(q, g), q->tile, MR);
                    codes_store(q, rows, f, j, n, nb_c, y + (size_t)image * v->to_n + (size_t)first * v->to[1]);
                }
        }
}

static bool conv_bytes_fits(const conv_plan *p, void *part) { return codes_plan_make(part, p); }
static size_t conv_bytes_work(const conv_plan *p, const void *part) {
    const codes_plan *const q = part;
    return codes_work(q, p->threads, BYTES_PAIRS ? q->columns * q->steps : q->groups * q->steps * NR_PAD);
}
static int conv_bytes_run(const gg_work *w, const conv_plan *p, const void *part) {
    const ggml_tensor *const x = p->v.x;
    codes_plan q = *(const codes_plan *)part;
    const int64_t copy = codes_room(&q), floats = codes_floats(&q);
    codes_seen *const found = codes_shared(&q, w);
    if ((q.tile = gg_scratch((size_t)(CODES_TILE + copy + floats + q.steps) * sizeof(float)))) {
        q.copy = q.tile + CODES_TILE, q.floats = q.copy + copy, q.at = (int32_t *)(q.floats + floats);
        const int64_t j0 = q.groups * w->ith / w->nth * q.each,
            j1 = gg_min(q.groups * (w->ith + 1) / w->nth * q.each, q.columns);
        codes_pack(&q, j0, j1, q.copy);
        found[w->ith] = codes_look(&q, x, w->ith, w->nth);
    }
    gg_barrier(w);
    if (!q.tile) return conv_memory(p->dst);
    if (!codes_range(&q, found, w->nth)) return conv_otherwise(w, p);
    codes_tasks(w, &q, x, p->dst->data, gg_conv_g(&p->v).nb_c);
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_bytes = {
    .bytes = sizeof(codes_plan), .fits = conv_bytes_fits, .work = conv_bytes_work, .run = conv_bytes_run,
    .by_values = true,
};

#endif
