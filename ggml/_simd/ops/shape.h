/* Kernels that move elements: copies, set, repeat, concat, rows. */
#ifndef GG_OPS_SHAPE_H
#define GG_OPS_SHAPE_H
#include "copy.h"
#include "pad.h"
#include "resize.h"

static int op_DUP(const gg_work *w, ggml_tensor *dst) { return copy_tensor(w, dst, dst->src[0]); }
static int op_CONT(const gg_work *w, ggml_tensor *dst) { return copy_tensor(w, dst, dst->src[0]); }
static int op_CPY(const gg_work *w, ggml_tensor *dst) { return copy_tensor(w, dst, dst->src[0]); }

/* ---- ACC, SET: a, with b added to or put into a view of it ------------------------------------------------------- */
/* Whether no element of the view is also another one; only then may several threads write it. */
static bool view_disjoint(const ggml_tensor *b, const size_t nb[4]) {
    size_t end = nb[0] * (size_t)b->ne[0];
    for (int i = 1; i < 4; i++) {
        if (b->ne[i] > 1 && nb[i] < end) return false;
        if (b->ne[i] > 1) end = nb[i] * (size_t)b->ne[i];
    }
    return true;
}
static void add_run(char *d, ptrdiff_t dx, const float *x, int64_t n) {
    if (dx != sizeof(float)) {
        for (int64_t i = 0; i < n; i++) *(float *)(d + i * dx) += x[i];
        return;
    }
    float *y = (float *)d;
    int64_t i = 0;
    for (; i + VW <= n; i += VW) vf_store(y + i, vf_add(vf_load(y + i), vf_load(x + i)));
    for (; i < n; i++) y[i] += x[i];
}
/* Adds a row of n elements, prepared in b as a row to f32, to f32 elements dx bytes apart. */
static void add_row(const box *b, char *d, ptrdiff_t dx, const char *src, int64_t n) {
    if (!b->convert && b->s[0] == sizeof(float)) { add_run(d, dx, (const float *)src, n); return; }
    float tmp[256];
    for (int64_t i = 0; i < n; i += 256) {
        const int64_t m = min64(256, n - i);
        row_copy(b, (char *)tmp, src + i * b->s[0], m);
        add_run(d + i * dx, dx, tmp, m);
    }
}
/* Where row r of those of t lies, in a tensor with strides nb. */
static inline size_t row_offset(const ggml_tensor *t, const size_t nb[4], int64_t r) {
    const row_index at = row_of(t, r);
    return (size_t)at.i1 * nb[1] + (size_t)at.i2 * nb[2] + (size_t)at.i3 * nb[3];
}

static void acc_view(const gg_work *w, ggml_tensor *dst, const ggml_tensor *b, const size_t nb[4]) {
    box row;
    int64_t r0, r1;
    char *d = (char *)dst->data + dst->op_params[3];
    row_box(&row, GGML_TYPE_F32, sizeof(float), b->type, (ptrdiff_t)b->nb[0], b->ne[0]);
    while (gg_next(w, gg_nrows(b), 1 + 4096 / b->ne[0], &r0, &r1))
        for (int64_t r = r0; r < r1; r++)
            add_row(&row, d + row_offset(b, nb, r), (ptrdiff_t)nb[0],
                    (const char *)b->data + row_offset(b, b->nb, r), b->ne[0]);
}
static int update_view(const gg_work *w, ggml_tensor *dst, bool add) {
    const ggml_tensor *a = dst->src[0], *b = dst->src[1];
    const int32_t *p = dst->op_params;
    const size_t nb[4] = {(size_t)gg_types[dst->type].bytes, (size_t)p[0], (size_t)p[1], (size_t)p[2]};
    if (dst->data != a->data) {
        /* by thread, not gg_next: its counter is for the view */
        box c;
        box_types(&c, dst->type, a->type);
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
        box_types(&c, dst->type, b->type);
        c.dst = (char *)dst->data + dst->op_params[3], c.src = b->data;
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
    box_types(&b, dst->type, a->type);
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
    const int dim = dst->op_params[0], blck = gg_types[dst->type].blck;
    box b[2];
    char *at = dst->data;
    for (int k = 0; k < 2; k++) {
        const ggml_tensor *a = dst->src[k];
        box_types(&b[k], dst->type, a->type);
        b[k].dst = at, b[k].src = a->data;
        for (int i = 0; i < 4; i++)
            box_dim(&b[k], i ? a->ne[i] : a->ne[0] / blck, (ptrdiff_t)dst->nb[i], (ptrdiff_t)a->nb[i]);
        at += (size_t)b[k].n[dim] * dst->nb[dim];
        box_plan(&b[k]);
    }
    boxes_run(w, b, 2);
    return GGML_STATUS_SUCCESS;
}

/* ---- rows by index ----------------------------------------------------------------------------------------------- */
static inline int64_t index_at(const ggml_tensor *t, const char *p) {
    if (t->type == GGML_TYPE_I32) { int32_t i; memcpy(&i, p, sizeof i); return i; }
    int64_t i;
    memcpy(&i, p, sizeof i);
    return i;
}
static inline const char *indices_at(const ggml_tensor *t, int64_t i0, int64_t i1, int64_t i2) {
    return (const char *)t->data + (size_t)i0 * t->nb[0] + (size_t)i1 * t->nb[1] + (size_t)i2 * t->nb[2];
}
static int no_row(const ggml_tensor *dst, int64_t i, int64_t n) {
    return gg_fail(dst, "row %lld of %lld does not exist", (long long)i, (long long)n);
}
/* A row that several indices name is written by one thread, in their order: the result is the same for any number
 * of threads. */
static inline bool owns_row(const gg_work *w, const ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3) {
    if (w->nth == 1) return true;
    const uint64_t r = (uint64_t)(i1 + t->ne[1] * (i2 + t->ne[2] * i3));
    return (r * 0x9e3779b97f4a7c15u >> 33) % (uint64_t)w->nth == (uint64_t)w->ith;
}
static bool tensor_rows(box *b, const ggml_tensor *dst, const ggml_tensor *src) {
    return row_box(b, dst->type, (ptrdiff_t)dst->nb[0], src->type, (ptrdiff_t)src->nb[0], dst->ne[0]);
}

static int op_GET_ROWS(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *idx = dst->src[1];
    box b;
    int64_t r, r1;
    if (!tensor_rows(&b, dst, a)) return no_conversion(dst, a->type, dst->type);
    while (gg_next(w, gg_nrows(dst), 1 + 4096 / dst->ne[0], &r, &r1))
        for (row_index at = row_of(dst, r); r < r1;) {
            const int64_t n = min64(dst->ne[1] - at.i1, r1 - r);
            const char *p = indices_at(idx, at.i1, at.i2, at.i3), *from = row_at(a, 0, at.i2, at.i3);
            char *to = row_at(dst, at.i1, at.i2, at.i3);
            for (int64_t k = 0; k < n; k++, p += idx->nb[0], to += dst->nb[1]) {
                const int64_t i = index_at(idx, p);
                if (i < 0 || i >= a->ne[1]) return no_row(dst, i, a->ne[1]);
                row_copy(&b, to, from + (size_t)i * a->nb[1], b.n[0]);
            }
            r += n;
            row_step(dst, &at, n);
        }
    return GGML_STATUS_SUCCESS;
}
/* By all threads: what lies side by side at once. */
static void zero_rows(const gg_work *w, ggml_tensor *dst) {
    const int64_t n = gg_nrows(dst), r0 = n * w->ith / w->nth, r1 = n * (w->ith + 1) / w->nth;
    if (gg_contiguous(dst)) {
        const size_t row = gg_row_size(dst->type, dst->ne[0]);
        memset((char *)dst->data + (size_t)r0 * row, 0, (size_t)(r1 - r0) * row);
    } else for (int64_t r = r0; r < r1; r++) {
        const row_index at = row_of(dst, r);
        tile_zero(row_at(dst, at.i1, at.i2, at.i3), (ptrdiff_t)dst->nb[0], 0, dst->ne[0], 1, sizeof(float));
    }
    gg_barrier(w);
}
static int op_GET_ROWS_BACK(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *idx = dst->src[1];
    const ptrdiff_t dx = (ptrdiff_t)dst->nb[0];
    box b;
    if (!row_box(&b, GGML_TYPE_F32, sizeof(float), a->type, (ptrdiff_t)a->nb[0], a->ne[0]))
        return no_conversion(dst, a->type, dst->type);
    zero_rows(w, dst);
    for (int64_t i3 = 0; i3 < dst->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < dst->ne[2]; i2++) {
            const char *p = indices_at(idx, 0, i2, i3), *from = row_at(a, 0, i2, i3);
            char *const to = row_at(dst, 0, i2, i3);
            for (int64_t r = 0; r < a->ne[1]; r++, p += idx->nb[0], from += a->nb[1]) {
                const int64_t i = index_at(idx, p);
                if (i < 0 || i >= dst->ne[1]) return no_row(dst, i, dst->ne[1]);
                if (owns_row(w, dst, i, i2, i3)) add_row(&b, to + (size_t)i * dst->nb[1], dx, from, a->ne[0]);
            }
        }
    return GGML_STATUS_SUCCESS;
}
static int op_SET_ROWS(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *rows = dst->src[0], *idx = dst->src[1];
    box b;
    if (!tensor_rows(&b, dst, rows)) return no_conversion(dst, rows->type, dst->type);
    for (int64_t i3 = 0; i3 < rows->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < rows->ne[2]; i2++) {
            const int64_t k2 = i2 % idx->ne[1], k3 = i3 % idx->ne[2];
            const char *p = indices_at(idx, 0, k2, k3), *from = row_at(rows, 0, i2, i3);
            char *const to = row_at(dst, 0, i2, i3);
            for (int64_t r = 0; r < rows->ne[1]; r++, p += idx->nb[0], from += rows->nb[1]) {
                const int64_t i = index_at(idx, p);
                if (i < 0 || i >= dst->ne[1]) return no_row(dst, i, dst->ne[1]);
                if (owns_row(w, dst, i, i2, i3)) row_copy(&b, to + (size_t)i * dst->nb[1], from, b.n[0]);
            }
        }
    return GGML_STATUS_SUCCESS;
}

#endif
