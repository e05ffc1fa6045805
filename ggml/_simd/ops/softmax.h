/* SOFT_MAX and its gradient, the causal masks, the cross-entropy loss and its gradient. */
#ifndef GG_OPS_SOFTMAX_H
#define GG_OPS_SOFTMAX_H
#include "logits.h"

/* Softmax of the logits x, which have the maximum m. A row without any finite value (all masked) gives zeros. */
static void softmax_row(int64_t n, const float *x, float *y, float m, const float *sink) {
    if (sink && *sink > m) m = *sink;
    if (m == -GG_INF) m = 0;                             /* -inf - -inf would be NaN */
    double sum = exp_row(n, x, y, vf_set1(m));
    if (sink) sum += exp((double)(*sink - m));
    const vf r = vf_set1(sum == 0 ? 0 : (float)(1 / sum));
    EACH_VEC(i, n) st(y + i, vf_mul(ld(y + i, n - i), r), n - i);
}
static int op_SOFT_MAX(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *mask = dst->src[1], *sinks = dst->src[2];
    const float scale = gg_param_f32(dst, 0), max_bias = gg_param_f32(dst, 1);
    const int64_t n = a->ne[0];
    float *tmp[3];
    if (!row_scratch(tmp, 3, (const ggml_tensor *[]){dst, a, mask})) return no_memory(dst);
    for EACH_ROW(w, dst, r) {
        const row_at at = nth_row(dst, r);
        const float *x = row_in(a, at, tmp[1]), *b = NULL, *sink = NULL;
        float *y = row_out(dst, at, tmp[0]), m;
        if (mask) b = row_in(mask, (row_at){at.i1, at.i2 % mask->ne[2], at.i3 % mask->ne[3]}, tmp[2]);
        if (sinks) sink = (const float *)((const char *)sinks->data + (size_t)at.i2 * sinks->nb[0]);
        if (b || scale != 1) m = logits_row(n, x, b, scale, alibi_slope(max_bias, a->ne[2], at.i2), y), x = y;
        else m = max_row(n, x);
        softmax_row(n, x, y, m, sink);
        row_store(dst, at, y);
    }
    return GGML_STATUS_SUCCESS;
}
/* a: gradient, b: the softmax */
static void soft_max_back_row(int64_t n, const float *a, const float *b, float factor, float *y) {
    const vf dot = vf_set1((float)dot_rows(n, a, b)), scale = vf_set1(factor);
    EACH_VEC(i, n) st(y + i, vf_mul(vf_mul(scale, vf_sub(ld(a + i, n - i), dot)), ld(b + i, n - i)), n - i);
}
static int op_SOFT_MAX_BACK(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *b = dst->src[1];
    const float scale = gg_param_f32(dst, 0), max_bias = gg_param_f32(dst, 1);
    float *tmp[3];
    if (!row_scratch(tmp, 3, (const ggml_tensor *[]){dst, a, b})) return no_memory(dst);
    for EACH_ROW(w, dst, r) {
        const row_at at = nth_row(dst, r);
        /* 1: the gradient by the mask, not by a */
        const float factor = dst->op_params[2] ? alibi_slope(max_bias, dst->ne[2], at.i2) : scale;
        float *y = row_out(dst, at, tmp[0]);
        soft_max_back_row(dst->ne[0], row_in(a, at, tmp[1]), row_in(b, at, tmp[2]), factor, y);
        row_store(dst, at, y);
    }
    return GGML_STATUS_SUCCESS;
}

/* ---- masks ----------------------------------------------------------------------------------------------------- */
enum { MASK_TILE = 1024 };
static int mask_rows(const gg_work *w, ggml_tensor *dst, float value) {
    const ggml_tensor *a = dst->src[0];
    float in[MASK_TILE], out[MASK_TILE];
    for EACH_ROW(w, dst, r) {
        const row_at at = nth_row(dst, r);
        const int64_t kept = dst->op_params[0] + at.i1 + 1;              /* elements that stay */
        for (int64_t i0 = 0; i0 < dst->ne[0]; i0 += MASK_TILE) {
            const int64_t n = dst->ne[0] - i0 < MASK_TILE ? dst->ne[0] - i0 : MASK_TILE;
            const int64_t stay = kept < i0 ? 0 : kept - i0 < n ? kept - i0 : n;
            const float *x = gg_row_in(a, at.i1, at.i2, at.i3, i0, n, in);
            float *y = gg_row_out(dst, at.i1, at.i2, at.i3, i0, out);
            if (x != y) memmove(y, x, (size_t)stay * sizeof *y);
            for (int64_t i = stay; i < n; i++) y[i] = value;
            gg_row_store(dst, at.i1, at.i2, at.i3, i0, n, y);
        }
    }
    return GGML_STATUS_SUCCESS;
}
static int op_DIAG_MASK_INF(const gg_work *w, ggml_tensor *dst) { return mask_rows(w, dst, -GG_INF); }
static int op_DIAG_MASK_ZERO(const gg_work *w, ggml_tensor *dst) { return mask_rows(w, dst, 0); }

/* ---- cross entropy --------------------------------------------------------------------------------------------- */
ROW_SUM(exp_sum, v_exp(vf_sub(ld(x + i, k), m)), const float *x, vf m)
static inline vf weigh(vf label, vf v) { return vf_select(vf_eq(label, vf_zero()), vf_zero(), vf_mul(label, v)); }
/* sum(labels (x - m - log_sum)): a label of zero counts as zero, whatever x is. */
ROW_SUM(weighed_row, weigh(ld(b + i, k), vf_sub(vf_sub(ld(x + i, k), m), log_sum)),
        const float *x, const float *b, vf m, vf log_sum)

static size_t work_CROSS_ENTROPY_LOSS(const ggml_tensor *dst, int nth) {
    (void)nth;
    return (size_t)gg_nrows(dst->src[0]) * sizeof(double);
}
static int op_CROSS_ENTROPY_LOSS(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0], *labels = dst->src[1];
    const int64_t n = a->ne[0], rows = gg_nrows(a);
    double *loss = w->wdata;
    float *tmp[2];
    const bool ok = row_scratch(tmp, 2, (const ggml_tensor *[]){a, labels});
    if (ok)
        for EACH_ROW(w, a, r) {
            const row_at at = nth_row(a, r);
            const float *x = row_in(a, at, tmp[0]), *b = row_in(labels, at, tmp[1]), m = max_row(n, x);
            const vf top = vf_set1(m == -GG_INF ? 0 : m);
            loss[r] = -weighed_row(n, x, b, top, vf_set1((float)log(exp_sum(n, x, top))));
        }
    gg_barrier(w);                                       /* also without memory: the others wait */
    if (!ok) return no_memory(a);
    if (w->ith == 0) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += loss[r];
        *(float *)dst->data = rows ? (float)(sum / (double)rows) : 0;
    }
    return GGML_STATUS_SUCCESS;
}
static void log_soft_max_row(const ggml_tensor *t, int64_t n, const float *x, const float *b, float *y) {
    (void)t, (void)b;
    const float m = max_row(n, x);
    const vf top = vf_set1(m == -GG_INF ? 0 : m), log_sum = vf_set1((float)log(exp_sum(n, x, top)));
    EACH_VEC(i, n) st(y + i, vf_sub(vf_sub(ld(x + i, n - i), top), log_sum), n - i);
}
static int op_LOG_SOFT_MAX(const gg_work *w, ggml_tensor *dst) {
    return map_rows(w, dst, dst->src[0], NULL, log_soft_max_row);
}
/* src: gradient of the loss, logits, labels. The labels of a row need not sum to 1. */
static void cross_entropy_back_row(const ggml_tensor *t, int64_t n, const float *x, const float *labels, float *y) {
    const float m = max_row(n, x);
    const vf top = vf_set1(m == -GG_INF ? 0 : m);
    const double each = (double)*(const float *)t->src[0]->data / (double)gg_nrows(t);
    const vf p = vf_set1((float)(sum_row(n, labels) * each / exp_sum(n, x, top))), l = vf_set1((float)each);
    EACH_VEC(i, n) {
        const vf e = v_exp(vf_sub(ld(x + i, n - i), top));
        st(y + i, vf_fnma(l, ld(labels + i, n - i), vf_mul(p, e)), n - i);
    }
}
static int op_CROSS_ENTROPY_LOSS_BACK(const gg_work *w, ggml_tensor *dst) {
    return map_rows(w, dst, dst->src[1], dst->src[2], cross_entropy_back_row);
}

#endif
