/* CONV_2D with a kernel of bytes: the threads pack the kernel and look at the data together, then compute strips. */
#ifndef GG_OPS_CONV_BYTES_H
#define GG_OPS_CONV_BYTES_H
#include "winograd_bytes.h"

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

/* GGML_STATUS_FAILED: the data or the sizes are of another kind, for all threads alike. */
static int codes_run(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *const x = dst->src[1];
    const gg_conv conv = gg_conv_of(dst);
    const size_t nb_c = gg_conv_g(&conv).nb_c;
    patches v = patches_of_x(&conv);
    codes_plan q;
    winograd s = {0};
    v.tail = conv_tail_of(dst);
    if (!codes_plan_make(&q, dst, &v, w->nth)) return GGML_STATUS_FAILED;
    const bool quick = squares_plan(&q, gg_conv_squares(dst), &s);
    const int64_t tile = (NR + 1) * MR, copy = quick ? squares_room(&q, &s) : codes_room(&q),
        floats = 4 * v.ax[0].in + VW;
    q.tile = gg_scratch((size_t)(tile + copy + floats + q.steps) * sizeof(float));
    codes_seen *const found = w->wdata;
    found[w->ith] = (codes_seen){0};
    if (q.tile) {
        q.copy = q.tile + tile, q.floats = q.copy + copy, q.at = (int32_t *)(q.floats + floats);
        q.totals = (int32_t *)(found + w->nth), q.panels = (float *)(q.totals + q.columns);
        const int64_t j0 = q.groups * w->ith / w->nth * q.each,
            j1 = gg_min(q.groups * (w->ith + 1) / w->nth * q.each, q.columns);
        if (quick) squares_pack(&q, &s, j0, j1, q.copy);
        else codes_pack(&q, j0, j1, q.copy);
        found[w->ith] = codes_look(&q, x, w->ith, w->nth);
    }
    gg_barrier(w);
    if (!q.tile) return gg_no_memory(dst, "no memory for panels");
    if (!codes_range(&q, found, w->nth)) return GGML_STATUS_FAILED;
    if (quick) squares_tasks(w, &q, &s, x, dst->data, nb_c);
    else codes_tasks(w, &q, x, dst->data, nb_c);
    return GGML_STATUS_SUCCESS;
}

#endif
