/* CONV_2D with a kernel of bytes: the threads look at the data together, then pack the kernel, then compute strips. */
#ifndef GG_OPS_CONV_CONV_BYTES_H
#define GG_OPS_CONV_CONV_BYTES_H
#include "bytes_clipped.h"

typedef struct bytes_plans { codes_plan plain, clipped; bool clips; } bytes_plans;

/* Words of the copy of a strip, and of rows of the kernel while it is packed. */
static inline int64_t codes_room(const codes_plan *q) {
    const int64_t planes = q->words * q->axis[0].phases * q->axis[1].phases, rows = VW * (q->steps + 16);
    return gg_max(planes * q->plane, rows) + MR + VW;
}
/* The sums of n output channels from j on (those of a group), of MR positions from x on. */
static inline void codes_sums(const codes_plan *q, int64_t j, int64_t n, const float *x) {
    if (q->of != CODES_OF) clipped_codes(q, j, n, x);
    else codes_table[n + q->sums_codes](q->steps, q->at, x, codes_group(q, j), q->tile, MR);
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
            const int64_t panels = gg_ceil_div((rows - 1) * q->width + v->ax[0].out, MR);
            /* what is larger, the kernel or the copy, is read once */
            const bool by_group = q->columns * q->taps > q->height * q->width;
            for (int64_t t = 0; t < panels * q->groups; t++) {
                const int64_t f = (by_group ? t % panels : t / q->groups) * MR;
                const int64_t j = (by_group ? t / panels : t % q->groups) * q->each;
                const int64_t n = gg_min(q->each, q->columns - j);
                if (n <= 0) continue;
                codes_sums(q, j, n, q->copy + f);
                codes_store(q, rows, f, j, n, nb_c, y + (size_t)image * v->to_n + (size_t)first * v->to[1]);
            }
        }
}

static bool conv_bytes_fits(const conv_plan *p, void *part) {
    bytes_plans *const own = part;
    if (!codes_plan_make(&own->plain, p, CODES_OF, NR)) return false;
    own->clips = clipped_plan_make(&own->clipped, p);
    return true;
}
static size_t conv_bytes_work(const conv_plan *p, const void *part) {
    const bytes_plans *const own = part;
    const codes_plan *const q = &own->plain;
    return codes_work(q, p->threads, gg_max(codes_packed(q), own->clips ? clipped_kernel_words(&own->clipped) : 0));
}
static int conv_bytes_run(const gg_work *w, const conv_plan *p, const void *part) {
    const bytes_plans *const own = part;
    const ggml_tensor *const x = p->v.x;
    codes_plan both[2] = {own->plain, own->clipped}, *q = both;
    int64_t copy = 0, floats = 0;
    for (int i = 0; i <= own->clips; i++)
        copy = gg_max(copy, codes_room(&both[i])), floats = gg_max(floats, codes_floats(&both[i]));
    float *const tile = gg_scratch((size_t)(CODES_TILE + copy + floats + q->steps + 1) * sizeof(float));
    codes_seen *found = NULL;
    for (int i = 0; i <= own->clips; i++) {
        found = codes_shared(&both[i], w);
        if (!tile) continue;
        both[i].tile = tile, both[i].copy = tile + CODES_TILE, both[i].floats = both[i].copy + copy;
        both[i].at = (int32_t *)(both[i].floats + floats);
    }
    if (tile) found[w->ith] = codes_look(q, x, w->ith, w->nth);
    gg_barrier(w);
    if (!codes_ready(found, w->nth)) return conv_memory(p->dst);
    if (!codes_range(q, found, w->nth)) return codes_give_up(w, p);
    const bool clipped = own->clips && codes_range(&both[1], found, w->nth) && clipped_pays(&both[1], q->copy);
    if (clipped) q = &both[1];
    const int64_t j0 = q->groups * w->ith / w->nth * q->each,
        j1 = gg_min(q->groups * (w->ith + 1) / w->nth * q->each, q->columns);
    q->row = codes_in_place(q) ? (const float *)(const void *)q->data : q->panels;
    if (clipped) clipped_pack_kernel(q, j0, j1, q->copy);
    else codes_pack(q, j0, j1);
    gg_barrier(w);
    codes_tasks(w, q, x, p->dst->data, gg_conv_g(&p->v).nb_c);
    return GGML_STATUS_SUCCESS;
}

static const gg_algorithm conv_bytes = {
    .bytes = sizeof(bytes_plans), .fits = conv_bytes_fits, .work = conv_bytes_work, .run = conv_bytes_run,
    .by_values = true,
};

#endif
