/* Kernels that move whole tensors: copies, ACC and SET, REPEAT, CONCAT. Views compute nothing. */
#ifndef GG_OPS_SHAPE_H
#define GG_OPS_SHAPE_H
#include "copy.h"

static int op_DUP(const gg_work *w, ggml_tensor *dst) { return copy_tensor(w, dst, dst->src[0]); }
static int op_CONT(const gg_work *w, ggml_tensor *dst) { return copy_tensor(w, dst, dst->src[0]); }
static int op_CPY(const gg_work *w, ggml_tensor *dst) { return copy_tensor(w, dst, dst->src[0]); }

/* ---- ACC, SET: a, with b added to or stored into a view of it ---------------------------------------------------- */
/* Whether no two elements of the view share memory; only then may several threads write to it. */
static bool view_disjoint(const ggml_tensor *b, const size_t nb[4]) {
    size_t end = nb[0] * (size_t)b->ne[0];
    for (int i = 1; i < 4; i++) {
        if (b->ne[i] > 1 && nb[i] < end) return false;
        if (b->ne[i] > 1) end = nb[i] * (size_t)b->ne[i];
    }
    return true;
}
/* The byte offset of row r of t in a tensor with strides nb. */
static inline size_t row_offset(const ggml_tensor *t, const size_t nb[4], int64_t r) {
    const row_index at = nth_row(t, r);
    return (size_t)at.i1 * nb[1] + (size_t)at.i2 * nb[2] + (size_t)at.i3 * nb[3];
}

static void acc_view(const gg_work *w, ggml_tensor *dst, const ggml_tensor *b, const size_t nb[4]) {
    box row;
    int64_t r0, r1;
    char *d = (char *)dst->data + update_params(dst)->offset;
    row_box(w->kernels, &row, GGML_TYPE_F32, sizeof(float), b->type, (ptrdiff_t)b->nb[0], b->ne[0]);
    while (gg_claim_chunk(w, gg_nrows(b), 1 + 4096 / b->ne[0], &r0, &r1))
        for (int64_t r = r0; r < r1; r++)
            row_add(&row, d + row_offset(b, nb, r), (ptrdiff_t)nb[0],
                    (const char *)b->data + row_offset(b, b->nb, r), b->ne[0]);
}
static int update_view(const gg_work *w, ggml_tensor *dst, bool add) {
    const ggml_tensor *a = dst->src[0], *b = dst->src[1];
    const int32_t *p = update_params(dst)->nb;
    const size_t nb[4] = {(size_t)gg_types[dst->type].bytes, (size_t)p[0], (size_t)p[1], (size_t)p[2]};
    if (dst->data != a->data) {
        /* by thread number, as the counter of gg_claim_chunk is for the view */
        box c;
        box_types(w->kernels, &c, dst->type, a->type);
        c.dst = dst->data, c.src = a->data;
        for (int i = 0; i < 4; i++) box_dim(&c, dst->ne[i], (ptrdiff_t)dst->nb[i], (ptrdiff_t)a->nb[i]);
        box_plan(&c);
        box_tiles(&c, c.tiles * w->ith / w->nth, c.tiles * (w->ith + 1) / w->nth);
        gg_barrier(w);
    }
    if (gg_is_empty(b)) return GGML_STATUS_SUCCESS;
    gg_work one = *w;
    if (!view_disjoint(b, nb)) {
        if (w->ith) return GGML_STATUS_SUCCESS;
        one.nth = 1;
    }
    if (add) {
        acc_view(&one, dst, b, nb);
    } else {
        box c;
        box_types(w->kernels, &c, dst->type, b->type);
        c.dst = (char *)dst->data + update_params(dst)->offset, c.src = b->data;
        for (int i = 0; i < 4; i++) box_dim(&c, b->ne[i], (ptrdiff_t)nb[i], (ptrdiff_t)b->nb[i]);
        box_plan(&c);
        boxes_run(&one, &c, 1);
    }
    return GGML_STATUS_SUCCESS;
}
static int op_ACC(const gg_work *w, ggml_tensor *dst) { return update_view(w, dst, true); }
static int op_SET(const gg_work *w, ggml_tensor *dst) { return update_view(w, dst, false); }

/* ---- REPEAT, CONCAT ---------------------------------------------------------------------------------------------- */
static int op_REPEAT(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    box b;
    box_types(w->kernels, &b, dst->type, a->type);
    b.dst = dst->data, b.src = a->data;
    for (int i = 0; i < 4; i++) {
        box_dim(&b, a->ne[i], (ptrdiff_t)dst->nb[i], (ptrdiff_t)a->nb[i]);
        box_dim(&b, dst->ne[i] / a->ne[i], (ptrdiff_t)dst->nb[i] * a->ne[i], 0);
    }
    box_plan(&b);
    boxes_run(w, &b, 1);
    return GGML_STATUS_SUCCESS;
}
static int op_CONCAT(const gg_work *w, ggml_tensor *dst) {
    const int dim = concat_params(dst)->dim, blck = gg_types[dst->type].blck;
    box b[2];
    char *at = dst->data;
    for (int k = 0; k < 2; k++) {
        const ggml_tensor *a = dst->src[k];
        box_types(w->kernels, &b[k], dst->type, a->type);
        b[k].dst = at, b[k].src = a->data;
        for (int i = 0; i < 4; i++)
            box_dim(&b[k], i ? a->ne[i] : a->ne[0] / blck, (ptrdiff_t)dst->nb[i], (ptrdiff_t)a->nb[i]);
        at += (size_t)b[k].n[dim] * dst->nb[dim];
        box_plan(&b[k]);
    }
    boxes_run(w, b, 2);
    return GGML_STATUS_SUCCESS;
}

#endif
