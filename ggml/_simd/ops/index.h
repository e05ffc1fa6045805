/* Rows by index: GET_ROWS and its gradient, SET_ROWS, ADD_ID; ARGSORT and TOP_K, which make indices (sort.h). */
#ifndef GG_OPS_INDEX_H
#define GG_OPS_INDEX_H
#include "copy.h"
#include "sort.h"

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
/* Repeated indices: all rows of one index are written by one thread, in order, so that the result does not depend on
 * the number of threads. */
static inline bool owns_row(const gg_work *w, const ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3) {
    if (w->nth == 1) return true;
    const uint64_t r = (uint64_t)(i1 + t->ne[1] * (i2 + t->ne[2] * i3));
    return (r * 0x9e3779b97f4a7c15u >> 33) % (uint64_t)w->nth == (uint64_t)w->ith;
}
static bool tensor_rows(const gg_kernels *k, box *b, const ggml_tensor *dst, const ggml_tensor *src) {
    return row_box(k, b, dst->type, (ptrdiff_t)dst->nb[0], src->type, (ptrdiff_t)src->nb[0], dst->ne[0]);
}

/* Copies n floats, 2 to 8. */
static inline void few_copy(char *to, const char *from, int64_t n) {
    switch (n) {
    case 2: memcpy(to, from, 8); break;
    case 3: memcpy(to, from, 12); break;
    case 4: memcpy(to, from, 16); break;
    default: memcpy(to, from, 16), memcpy(to + 4 * (n - 4), from + 4 * (n - 4), 16);
    }
}
static int op_GET_ROWS(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *idx = dst->src[1];
    box b;
    int64_t r, r1;
    const bool few = dst->ne[0] <= 8 && dst->type == GGML_TYPE_F32 && a->type == GGML_TYPE_F32
        && a->nb[0] == sizeof(float) && dst->nb[0] == sizeof(float), single = few && dst->ne[0] == 1;
    if (!tensor_rows(w->kernels, &b, dst, a)) return no_conversion(dst, a->type, dst->type);
    while (gg_claim_chunk(w, gg_nrows(dst), 1 + 4096 / dst->ne[0], &r, &r1))
        for (row_index at = nth_row(dst, r); r < r1;) {
            const int64_t n = gg_min(dst->ne[1] - at.i1, r1 - r);
            const char *p = indices_at(idx, at.i1, at.i2, at.i3), *from = gg_row_ptr(a, 0, at.i2, at.i3);
            char *to = gg_row_ptr(dst, at.i1, at.i2, at.i3);
            for (int64_t k = 0; k < n; k++, p += idx->nb[0], to += dst->nb[1]) {
                const int64_t i = index_at(idx, p);
                if (i < 0 || i >= a->ne[1]) return no_row(dst, i, a->ne[1]);
                if (single) memcpy(to, from + (size_t)i * a->nb[1], sizeof(float));
                else if (few) few_copy(to, from + (size_t)i * a->nb[1], dst->ne[0]);
                else row_copy(&b, to, from + (size_t)i * a->nb[1], b.n[0]);
            }
            r += n;
            row_step(dst, &at, n);
        }
    return GGML_STATUS_SUCCESS;
}
/* Each thread clears a part; contiguous rows are cleared with one memset. */
static void zero_rows(const gg_work *w, ggml_tensor *dst) {
    const int64_t n = gg_nrows(dst), r0 = n * w->ith / w->nth, r1 = n * (w->ith + 1) / w->nth;
    if (gg_contiguous(dst)) {
        const size_t row = gg_row_size(dst->type, dst->ne[0]);
        memset((char *)dst->data + (size_t)r0 * row, 0, (size_t)(r1 - r0) * row);
    } else for (int64_t r = r0; r < r1; r++) {
        const row_index at = nth_row(dst, r);
        tile_zero(gg_row_ptr(dst, at.i1, at.i2, at.i3), (ptrdiff_t)dst->nb[0], 0, dst->ne[0], 1, sizeof(float));
    }
    gg_barrier(w);
}
static int op_GET_ROWS_BACK(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *idx = dst->src[1];
    const ptrdiff_t dx = (ptrdiff_t)dst->nb[0];
    box b;
    if (!row_box(w->kernels, &b, GGML_TYPE_F32, sizeof(float), a->type, (ptrdiff_t)a->nb[0], a->ne[0]))
        return no_conversion(dst, a->type, dst->type);
    zero_rows(w, dst);
    for (int64_t i3 = 0; i3 < dst->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < dst->ne[2]; i2++) {
            const char *p = indices_at(idx, 0, i2, i3), *from = gg_row_ptr(a, 0, i2, i3);
            char *const to = gg_row_ptr(dst, 0, i2, i3);
            for (int64_t r = 0; r < a->ne[1]; r++, p += idx->nb[0], from += a->nb[1]) {
                const int64_t i = index_at(idx, p);
                if (i < 0 || i >= dst->ne[1]) return no_row(dst, i, dst->ne[1]);
                if (owns_row(w, dst, i, i2, i3)) row_add(&b, to + (size_t)i * dst->nb[1], dx, from, a->ne[0]);
            }
        }
    return GGML_STATUS_SUCCESS;
}
static int op_SET_ROWS(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *rows = dst->src[0], *idx = dst->src[1];
    box b;
    if (!tensor_rows(w->kernels, &b, dst, rows)) return no_conversion(dst, rows->type, dst->type);
    for (int64_t i3 = 0; i3 < rows->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < rows->ne[2]; i2++) {
            const int64_t k2 = i2 % idx->ne[1], k3 = i3 % idx->ne[2];
            const char *p = indices_at(idx, 0, k2, k3), *from = gg_row_ptr(rows, 0, i2, i3);
            char *const to = gg_row_ptr(dst, 0, i2, i3);
            for (int64_t r = 0; r < rows->ne[1]; r++, p += idx->nb[0], from += rows->nb[1]) {
                const int64_t i = index_at(idx, p);
                if (i < 0 || i >= dst->ne[1]) return no_row(dst, i, dst->ne[1]);
                if (owns_row(w, dst, i, i2, i3)) row_copy(&b, to + (size_t)i * dst->nb[1], from, b.n[0]);
            }
        }
    return GGML_STATUS_SUCCESS;
}

/* a, plus for each of its rows the row of b that ids selects */
static int op_ADD_ID(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *b = dst->src[1], *ids = dst->src[2];
    const int64_t n = dst->ne[0];
    float *tmp[3];
    if (!row_scratch(tmp, 3, (const ggml_tensor *[]){dst, a, b})) return no_memory(dst);
    for EACH_ROW(w, dst, r) {
        const row_index at = nth_row(dst, r);
        const int32_t id = *(const int32_t *)(gg_row_ptr(ids, at.i2, 0, 0) + (size_t)at.i1 * ids->nb[0]);
        if (id < 0 || id >= b->ne[1])
            return gg_fail(dst, "index [%lld, %lld] is %d: b has %lld rows", (long long)at.i1, (long long)at.i2, id,
                           (long long)b->ne[1]);
        const float *x = row_in(a, at, tmp[1]), *z = row_in(b, (row_index){id, 0, 0}, tmp[2]);
        float *y = row_out(dst, at, tmp[0]);
        EACH_VEC(i, n) st(y + i, vf_add(ld(x + i, n - i), ld(z + i, n - i)), n - i);
        row_store(dst, at, y);
    }
    return GGML_STATUS_SUCCESS;
}

#endif
