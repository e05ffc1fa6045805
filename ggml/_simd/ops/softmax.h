/* SOFT_MAX and its gradient, LOG_SOFT_MAX, the cross-entropy loss and its gradient. */
#ifndef GG_OPS_SOFTMAX_H
#define GG_OPS_SOFTMAX_H
#include "logits.h"

/* Soft-max of the logits x with maximum m. A row without a finite value (all masked) gives zeros. */
static void softmax_row(const row_part *p, const float *x, float *y, float m, const float *sink) {
    if (sink && *sink > m) m = *sink;
    if (m == -GG_INF) m = 0;                             /* -inf - -inf would be NaN */
    double sum = exp_row(p, x, y, vf_set1(m));
    if (sink) sum += exp((double)(*sink - m));
    row_times(p, y, sum == 0 ? 0 : (float)(1 / sum), y);
}
static const float *sink_of(const ggml_tensor *t, int64_t i2) {        /* of head i2; NULL: it has none */
    const ggml_tensor *const sinks = t->src[2];
    return sinks ? (const float *)((const char *)sinks->data + (size_t)i2 * sinks->nb[0]) : NULL;
}
/* The same of head i2 of a node: x times its scale plus a row of its mask. */
static void softmax_head(const ggml_tensor *t, const row_part *p, const float *x, const float *mask, int64_t i2,
                         float *y) {
    const gg_soft_max_params *const q = soft_max_params(t);
    float m;
    if (mask || q->scale != 1) m = logits_row(p, x, mask, q->scale, alibi_slope(q->max_bias, t->ne[2], i2), y), x = y;
    else m = max_row(p, x);
    softmax_row(p, x, y, m, sink_of(t, i2));
}
/* logits_row with a mask of f16, which is converted a tile at a time. */
static float logits_row_f16(int64_t n, const float *x, const uint16_t *mask, float scale, float slope, float *y) {
    float tile[GG_TILE], m = -GG_INF;
    for (int64_t i = 0; i < n; i += GG_TILE) {
        const int64_t k = gg_min(n - i, GG_TILE);
        gg_to_floats(GGML_TYPE_F16, (const char *)(mask + i), sizeof *mask, k, tile);
        const float top = logits_row(WHOLE_ROW(k), x + i, tile, scale, slope, y + i);
        if (top > m) m = top;
    }
    return m;
}
static void row_SOFT_MAX(const ggml_tensor *node, float *const *p, int64_t i1, int64_t i2) {
    const int64_t n = node->ne[0];
    const gg_soft_max_params *const q = soft_max_params(node);
    (void)i1;
    if (!node->src[1] || node->src[1]->type == GGML_TYPE_F32) {
        softmax_head(node, WHOLE_ROW(n), p[1], p[2], i2, p[0]);
        return;
    }
    const float m = logits_row_f16(n, p[1], (const uint16_t *)p[2], q->scale, alibi_slope(q->max_bias, node->ne[2], i2),
                                   p[0]);
    softmax_row(WHOLE_ROW(n), p[0], p[0], m, sink_of(node, i2));
}
/* e = the exponentials of x scale - top for m <= ABREAST short rows beside each other, where top[r] is the largest of
 * row r, or 0 if that is -inf. e has room for a tile and a vector. */
static void exps_abreast(const float *x, int64_t n, int64_t m, float scale, float top[ABREAST], float *e) {
    const vf factor = vf_set1(scale);
    for (int64_t r = 0; r < m; r++) {
        const float *const row = x + r * n;
        vf most = vf_set1(-GG_INF);
        EACH_VEC(i, n) most = vf_max(keep(vf_mul(ld(row + i, n - i), factor), -GG_INF, n - i), most);
        const float t = vf_hmax(most);
        top[r] = t == -GG_INF ? 0 : t;                   /* -inf - -inf would be NaN */
        EACH_VEC(i, n) vf_store(e + r * n + i, vf_sub(vf_mul(ld(row + i, n - i), factor), vf_set1(top[r])));
    }
    int64_t i = 0;
    for (; i + 4 * VW <= m * n; i += 4 * VW) {
        vf t[4];
        GG_FOUR(j) t[j] = vf_load(e + i + j * VW);
        gg_exp_negative_4(t);
        GG_FOUR(j) vf_store(e + i + j * VW, t[j]);
    }
    for (; i < m * n; i += VW) vf_store(e + i, gg_exp_negative(ld(e + i, m * n - i)));
}
/* Soft-max of rows beside each other, of ABREAST_MOST elements at most, or its logarithm. */
static __attribute__((noinline)) void softmax_rows(bool log_of, float scale, const float *x, float *y, int64_t n,
                                                   int64_t rows) {
    float e[GG_TILE + VW], top[ABREAST], sum[ABREAST];
    for (int64_t m; n && rows > 0; rows -= m) {
        m = gg_min(rows, gg_min(ABREAST, GG_TILE / n));
        exps_abreast(x, n, m, scale, top, e);
        sums_abreast(e, n, m, false, sum);
        for (int64_t r = 0; r < m; r++, x += n, y += n) {
            const vf log_sum = vf_set1(log_of ? (float)log((double)sum[r]) : 0), t = vf_set1(top[r]);
            const vf factor = vf_set1(sum[r] == 0 ? 0 : (float)(1 / (double)sum[r]));
            if (log_of) EACH_VEC(i, n) st(y + i, vf_sub(vf_sub(ld(x + i, n - i), t), log_sum), n - i);
            else EACH_VEC(i, n) st(y + i, vf_mul(ld(e + r * n + i, n - i), factor), n - i);
        }
    }
}
static void kernel_SOFT_MAX(const ggml_tensor *node, float *const *p, int64_t rows) {
    softmax_rows(false, soft_max_params(node)->scale, p[1], p[0], node->ne[0], rows);
}
static void kernel_LOG_SOFT_MAX(const ggml_tensor *node, float *const *p, int64_t rows) {
    softmax_rows(true, 1, p[1], p[0], node->ne[0], rows);
}
static gg_row_kernel rows_SOFT_MAX(const ggml_tensor *node) {
    const bool f16 = node->src[1] && node->src[1]->type == GGML_TYPE_F16;
    if (!node->src[1] && !node->src[2] && node->ne[0] <= ABREAST_MOST) return (gg_row_kernel){.rows = kernel_SOFT_MAX};
    return (gg_row_kernel){.row = row_SOFT_MAX, .f16 = f16 ? 1 << 1 : 0, .by_node = 1 << 2};    /* mask, sinks */
}
GG_WORK_ROWS(SOFT_MAX)
static int op_SOFT_MAX(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *mask = dst->src[1];
    if (!mask && !dst->src[2] && rows_abreast(a, dst)) return map_abreast(w, dst, kernel_SOFT_MAX);
    float *tmp[3];
    const row_part part = rows_part(w, dst, w->wdata), *p = &part;
    if (!part_scratch(p, tmp, 3, (const ggml_tensor *[]){dst, a, mask})) return no_memory(dst);
    for EACH_ROW_PART(w, p, dst, r) {
        const row_index at = nth_row(dst, r);
        const float *x = part_in(p, a, at, tmp[1]), *b = NULL;
        float *y = row_out(dst, at, tmp[0]);
        if (mask) b = part_in(p, mask, (row_index){at.i1, at.i2 % mask->ne[2], at.i3 % mask->ne[3]}, tmp[2]);
        softmax_head(dst, p, x, b, at.i2, y);
        part_store(p, dst, at, y);
    }
    return GGML_STATUS_SUCCESS;
}
/* a: gradient, b: result of the soft-max */
static void soft_max_back_row(const row_part *p, const float *a, const float *b, float factor, float *y) {
    const vf dot = vf_set1((float)dot_rows(p, a, b)), scale = vf_set1(factor);
    EACH_PART(i, p) {
        const int64_t k = p->end - i;
        st(y + i, vf_mul(vf_mul(scale, vf_sub(ld(a + i, k), dot)), ld(b + i, k)), k);
    }
}
GG_WORK_ROWS(SOFT_MAX_BACK)
static int op_SOFT_MAX_BACK(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *b = dst->src[1];
    const float scale = soft_max_params(dst)->scale, max_bias = soft_max_params(dst)->max_bias;
    float *tmp[3];
    const row_part part = rows_part(w, dst, w->wdata), *p = &part;
    if (!part_scratch(p, tmp, 3, (const ggml_tensor *[]){dst, a, b})) return no_memory(dst);
    for EACH_ROW_PART(w, p, dst, r) {
        const row_index at = nth_row(dst, r);
        /* 1: the gradient of the mask, otherwise of a */
        const float factor = soft_max_params(dst)->by_mask ? alibi_slope(max_bias, dst->ne[2], at.i2) : scale;
        float *y = row_out(dst, at, tmp[0]);
        soft_max_back_row(p, part_in(p, a, at, tmp[1]), part_in(p, b, at, tmp[2]), factor, y);
        part_store(p, dst, at, y);
    }
    return GGML_STATUS_SUCCESS;
}

/* ---- cross entropy ----------------------------------------------------------------------------------------------- */
ROW_SUM(exp_sum, gg_exp_negative(vf_sub(ld(x + i, k), m)), const float *x, vf m)
static inline vf weigh(vf label, vf v) { return vf_select(vf_eq(label, vf_zero()), vf_zero(), vf_mul(label, v)); }
/* sum(labels (x - m - log_sum)); a label of zero counts as zero, whatever x is. */
ROW_SUM(weighed_row, weigh(ld(b + i, k), vf_sub(vf_sub(ld(x + i, k), m), log_sum)),
        const float *x, const float *b, vf m, vf log_sum)

static size_t work_CROSS_ENTROPY_LOSS(const ggml_tensor *dst, int nth) {
    return (size_t)gg_nrows(dst->src[0]) * sizeof(double) + rows_work(dst->src[0], nth);
}
static int op_CROSS_ENTROPY_LOSS(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *labels = dst->src[1];
    const int64_t rows = gg_nrows(a);
    double *loss = w->wdata;
    float *tmp[2];
    const row_part part = rows_part(w, a, loss + rows), *p = &part;
    const bool ok = part_scratch(p, tmp, 2, (const ggml_tensor *[]){a, labels});
    if (ok)
        for EACH_ROW_PART(w, p, a, r) {
            const row_index at = nth_row(a, r);
            const float *x = part_in(p, a, at, tmp[0]), *b = part_in(p, labels, at, tmp[1]), m = max_row(p, x);
            const vf top = vf_set1(m == -GG_INF ? 0 : m);
            const double sum = weighed_row(p, x, b, top, vf_set1((float)log(exp_sum(p, x, top))));
            if (!p->shared || w->ith == 0) loss[r] = -sum;
        }
    gg_barrier(w);                                       /* also on failure: the other threads wait */
    if (!ok) return no_memory(a);
    if (w->ith == 0) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += loss[r];
        *(float *)dst->data = rows ? (float)(sum / (double)rows) : 0;
    }
    return GGML_STATUS_SUCCESS;
}
static void log_soft_max_row(const ggml_tensor *t, const row_part *p, const float *x, const float *b, float *y) {
    (void)t, (void)b;
    const float m = max_row(p, x);
    const vf top = vf_set1(m == -GG_INF ? 0 : m), log_sum = vf_set1((float)log(exp_sum(p, x, top)));
    EACH_PART(i, p) st(y + i, vf_sub(vf_sub(ld(x + i, p->end - i), top), log_sum), p->end - i);
}
GG_WORK_ROWS(LOG_SOFT_MAX)
static int op_LOG_SOFT_MAX(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *const a = dst->src[0];
    if (rows_abreast(a, dst)) return map_abreast(w, dst, kernel_LOG_SOFT_MAX);
    return map_rows(w, dst, a, NULL, log_soft_max_row);
}
/* src: gradient of the loss, logits, labels. The labels of a row need not sum to 1. */
static void cross_entropy_back_row(const ggml_tensor *t, const row_part *q, const float *x, const float *labels,
                                   float *y) {
    const float m = max_row(q, x);
    const vf top = vf_set1(m == -GG_INF ? 0 : m);
    const double each = (double)*(const float *)t->src[0]->data / (double)gg_nrows(t);
    const vf p = vf_set1((float)(sum_row(q, labels) * each / exp_sum(q, x, top))), l = vf_set1((float)each);
    EACH_PART(i, q) {
        const int64_t k = q->end - i;
        st(y + i, vf_fnma(l, ld(labels + i, k), vf_mul(p, v_exp(vf_sub(ld(x + i, k), top)))), k);
    }
}
GG_WORK_ROWS(CROSS_ENTROPY_LOSS_BACK)
static int op_CROSS_ENTROPY_LOSS_BACK(const gg_work *w, ggml_tensor *dst) {
    return map_rows(w, dst, dst->src[1], dst->src[2], cross_entropy_back_row);
}

#endif
