/* Reductions: sums, means, the index of the largest value, counts, and the sums over the tiles of a repetition. */
#ifndef GG_OPS_REDUCE_H
#define GG_OPS_REDUCE_H
#include "rowwise.h"

/* ---- SUM, SUM_ROWS, MEAN: sums of blocks of rows, added up in work memory ---------------------------------------- */
enum { SUM_BLOCK = 4 * GG_TILE };
static int64_t row_blocks(const ggml_tensor *t) { return (t->ne[0] + SUM_BLOCK - 1) / SUM_BLOCK; }
static size_t parts_size(const ggml_tensor *t) { return (size_t)(gg_nrows(t) * row_blocks(t)) * sizeof(double); }

static void sum_parts(const gg_work *w, const ggml_tensor *t, double *parts) {
    const int64_t blocks = row_blocks(t), grain = t->ne[0] < SUM_BLOCK ? 4 * SUM_BLOCK / (t->ne[0] + 1) : 4;
    _Alignas(64) float tmp[SUM_BLOCK];
    for (int64_t u0, u1; gg_claim_chunk(w, gg_nrows(t) * blocks, grain, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const row_index at = nth_row(t, u / blocks);
            const int64_t i0 = u % blocks * SUM_BLOCK, n = t->ne[0] - i0 < SUM_BLOCK ? t->ne[0] - i0 : SUM_BLOCK;
            parts[u] = sum_row(WHOLE_ROW(n), gg_row_in(t, at.i1, at.i2, at.i3, i0, n, tmp));
        }
    gg_barrier(w);
}
/* The same elements, with dimensions ordered and merged so that rows are as long as possible. */
static ggml_tensor longest_rows(const ggml_tensor *t) {
    ggml_tensor v = *t;
    for (int i = 1; i < 4; i++)
        for (int d = i; d > 0 && v.ne[d] != 1 && (v.ne[d - 1] == 1 || v.nb[d] < v.nb[d - 1]); d--) {
            const int64_t ne = v.ne[d];
            const size_t nb = v.nb[d];
            v.ne[d] = v.ne[d - 1], v.nb[d] = v.nb[d - 1];
            v.ne[d - 1] = ne, v.nb[d - 1] = nb;
        }
    gg_fold(&v, 1);
    return v;
}
static size_t work_SUM(const ggml_tensor *dst, int nth) {
    (void)nth;
    const ggml_tensor v = longest_rows(dst->src[0]);
    return parts_size(&v);
}
static int op_SUM(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor v = longest_rows(dst->src[0]);
    const int64_t n = gg_nrows(&v) * row_blocks(&v);
    const double *parts = w->wdata;
    double total = 0;
    sum_parts(w, &v, w->wdata);
    if (w->ith) return GGML_STATUS_SUCCESS;
    for (int64_t i = 0; i < n; i++) total += parts[i];
    gg_from_floats(dst->type, &(float){(float)total}, 1, dst->data, dst->nb[0]);
    return GGML_STATUS_SUCCESS;
}
/* Rows whose elements are far apart, but next to those of neighbouring rows: they are summed side by side. */
enum { SUM_ROWS_TOGETHER = 64 };
static bool rows_interleave(const ggml_tensor *a) {
    return a->type == GGML_TYPE_F32 && a->nb[0] > sizeof(float) && a->nb[1] == sizeof(float) && a->ne[1] >= VW;
}
static inline void add_together(int64_t count, const char *x, size_t stride, const int n, double *sum) {
    for (int64_t i = 0; i < count; i++, x += stride)
        for (int j = 0; j < n; j++) sum[j] += ((const float *)x)[j];
}
static int sum_rows_together(const gg_work *w, ggml_tensor *dst, double count) {
    const ggml_tensor *a = dst->src[0];
    const int64_t groups = gg_ceil_div(a->ne[1], SUM_ROWS_TOGETHER), grain = SUM_BLOCK / (a->ne[0] + 1) / 16 + 1;
    for (int64_t u0, u1; gg_claim_chunk(w, groups * a->ne[2] * a->ne[3], grain, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const int64_t i1 = u % groups * SUM_ROWS_TOGETHER, i2 = u / groups % a->ne[2], i3 = u / groups / a->ne[2];
            const int n = (int)gg_min(a->ne[1] - i1, SUM_ROWS_TOGETHER);
            double sum[SUM_ROWS_TOGETHER] = {0};
            const char *const x = gg_row_ptr(a, i1, i2, i3);
            if (n == SUM_ROWS_TOGETHER) add_together(a->ne[0], x, a->nb[0], SUM_ROWS_TOGETHER, sum);
            else add_together(a->ne[0], x, a->nb[0], n, sum);
            for (int j = 0; j < n; j++) *(float *)gg_row_ptr(dst, i1 + j, i2, i3) = (float)(sum[j] / count);
        }
    return GGML_STATUS_SUCCESS;
}
/* Short rows without gaps: to find each by its number, or to add up a vector that is mostly empty, would take longer
 * than the sum. */
enum { SHORT_ROW = 64, FEW = 8 };
static bool rows_short(const ggml_tensor *a) {
    return a->type == GGML_TYPE_F32 && a->ne[0] <= SHORT_ROW && gg_contiguous(a);
}
static int sum_short_rows(const gg_work *w, ggml_tensor *dst, double count) {
    const ggml_tensor *a = dst->src[0];
    const int64_t n = a->ne[0];
    float *const y = dst->data, sum[ABREAST];
    for (int64_t r, r1; gg_claim_chunk(w, gg_nrows(a), row_grain(n), &r, &r1);)
        for (int64_t m; r < r1; r += m) {
            const float *x = (const float *)a->data + r * n;
            m = gg_min(r1 - r, ABREAST);
            if (n > FEW) sums_abreast(x, n, m, false, sum);
            for (int64_t j = 0; j < m; j++, x += n) {
                double s = n > FEW ? (double)sum[j] : 0;
                for (int64_t i = 0; i < n && n <= FEW; i++) s += x[i];
                if (s - s != 0 && n > FEW) s = sum_row(WHOLE_ROW(n), x);
                y[r + j] = (float)(s / count);
            }
        }
    return GGML_STATUS_SUCCESS;
}
/* dst = row sums / count */
static int sum_rows(const gg_work *w, ggml_tensor *dst, double count) {
    const ggml_tensor *a = dst->src[0];
    if (rows_interleave(a)) return sum_rows_together(w, dst, count);
    if (rows_short(a) && gg_contiguous(dst)) return sum_short_rows(w, dst, count);
    const int64_t rows = gg_nrows(a), blocks = row_blocks(a);
    const double *parts = w->wdata;
    sum_parts(w, a, w->wdata);
    for (int64_t r = rows * w->ith / w->nth; r < rows * (w->ith + 1) / w->nth; r++) {
        const row_index at = nth_row(dst, r);
        double total = 0;
        for (int64_t i = 0; i < blocks; i++) total += parts[r * blocks + i];
        *(float *)gg_row_ptr(dst, at.i1, at.i2, at.i3) = (float)(total / count);
    }
    return GGML_STATUS_SUCCESS;
}
static size_t work_SUM_ROWS(const ggml_tensor *dst, int nth) { (void)nth; return parts_size(dst->src[0]); }
static size_t work_MEAN(const ggml_tensor *dst, int nth) { return work_SUM_ROWS(dst, nth); }
static int op_SUM_ROWS(const gg_work *w, ggml_tensor *dst) { return sum_rows(w, dst, 1); }
static int op_MEAN(const gg_work *w, ggml_tensor *dst) { return sum_rows(w, dst, (double)dst->src[0]->ne[0]); }

/* ---- MIN_MAX: each thread's, then those of all threads. NaN is skipped. ------------------------------------------ */
typedef struct extremes { float lo, hi; } extremes;
static inline extremes wider(extremes a, extremes b) {
    return (extremes){b.lo < a.lo ? b.lo : a.lo, b.hi > a.hi ? b.hi : a.hi};
}
static extremes extremes_of(const float *x, int64_t n) {
    vf lo[2] = {vf_set1(GG_INF), vf_set1(GG_INF)}, hi[2] = {vf_set1(-GG_INF), vf_set1(-GG_INF)};
    int64_t i = 0;
    for (; i + 2 * VW <= n; i += 2 * VW)
        for (int j = 0; j < 2; j++) {
            const vf v = vf_load(x + i + j * VW);
            lo[j] = vf_min(v, lo[j]), hi[j] = vf_max(v, hi[j]);
        }
    for (; i < n; i += VW) {
        const vf v = ld(x + i, n - i);
        lo[0] = vf_min(keep(v, GG_INF, n - i), lo[0]), hi[0] = vf_max(keep(v, -GG_INF, n - i), hi[0]);
    }
    return (extremes){-vf_hmax(vf_neg(vf_min(lo[0], lo[1]))), vf_hmax(vf_max(hi[0], hi[1]))};
}
static size_t work_MIN_MAX(const ggml_tensor *dst, int nth) { (void)dst; return (size_t)nth * sizeof(extremes); }
static int op_MIN_MAX(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor v = longest_rows(dst->src[0]);
    const int64_t blocks = row_blocks(&v), grain = v.ne[0] < SUM_BLOCK ? 4 * SUM_BLOCK / (v.ne[0] + 1) : 4;
    extremes *const ends = w->wdata;
    _Alignas(64) float tmp[SUM_BLOCK];
    ends[w->ith] = (extremes){GG_INF, -GG_INF};
    for (int64_t u0, u1; gg_claim_chunk(w, gg_nrows(&v) * blocks, grain, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const row_index at = nth_row(&v, u / blocks);
            const int64_t i0 = u % blocks * SUM_BLOCK, n = gg_min(v.ne[0] - i0, SUM_BLOCK);
            ends[w->ith] = wider(ends[w->ith], extremes_of(gg_row_in(&v, at.i1, at.i2, at.i3, i0, n, tmp), n));
        }
    gg_barrier(w);
    if (w->ith) return GGML_STATUS_SUCCESS;
    extremes r = ends[0];
    for (int i = 1; i < w->nth; i++) r = wider(r, ends[i]);
    gg_from_floats(GGML_TYPE_F32, (float[]){r.lo, r.hi}, 2, dst->data, dst->nb[0]);
    return GGML_STATUS_SUCCESS;
}

/* ---- one index or number a row ----------------------------------------------------------------------------------- */
/* The index of the first or last NaN of a part; -1 if there is none. */
static int64_t nan_index(const row_part *p, const float *x, bool first) {
    int64_t at = -1;
    for (int64_t i = p->begin; i < p->end && (at < 0 || !first); i += VW)
        if (vm_any(vf_isnan(ld(x + i, p->end - i))))
            for (int64_t j = i; j < gg_min(i + VW, p->end) && (at < 0 || !first); j++) at = x[j] != x[j] ? j : at;
    return at;
}
static int64_t first_index(const row_part *p, const float *x, float value) {
    int64_t at = p->begin;
    while (at + VW <= p->end && !vm_any(vf_eq(vf_load(x + at), vf_set1(value)))) at += VW;
    while (at < p->end && x[at] != value) at++;
    return at < p->end ? at : -1;
}
static int64_t last_index(const row_part *p, const float *x, float value) {
    int64_t at = p->end - 1;
    for (; at >= p->begin; at--) {
        const bool whole = (at - p->begin) % VW == VW - 1;               /* a vector ends here */
        if (whole && !vm_any(vf_eq(vf_load(x + at - (VW - 1)), vf_set1(value)))) at -= VW - 1;
        else if (x[at] == value) break;
    }
    return at < p->begin ? -1 : at;
}
/* The first or last of the indices that the threads found; -1 is none. */
static int32_t index_of_parts(const row_part *p, int64_t at, bool first) {
    const double found = row_largest(p, at < 0 ? -GG_INF : first ? -(double)at : (double)at);
    return found == -GG_INF ? -1 : (int32_t)(first ? -found : found);
}
/* The index of the first or last of the largest values. NaN is skipped, as in ARGSORT and TOP_K, and the index is 0 if
 * all values are NaN; or NaN is the largest. */
static int32_t argmax_row(const gg_argmax_params *q, const row_part *p, const float *x) {
    const int32_t nan = q->nan ? index_of_parts(p, nan_index(p, x, q->first), q->first) : -1;
    if (nan >= 0) return nan;
    const float largest = max_row(p, x);
    const int64_t own = q->first ? first_index(p, x, largest) : last_index(p, x, largest);
    const int32_t at = index_of_parts(p, own, q->first);
    return at < 0 ? 0 : at;
}
/* The same of a short row: the largest of the values as whole numbers in the same order, with their indices behind
 * them. Branches would be mispredicted. */
static int32_t argmax_short(const gg_argmax_params *q, int32_t n, const float *x) {
    const int32_t turn = q->first ? -1 : 0;
    int64_t largest = INT64_MIN + (uint32_t)turn;        /* of no value: index 0 */
    bool nan = false;
    for (int32_t i = 0; i < n; i++) {
        const float v = x[i] + 0.0f;                     /* -0 is 0 */
        int32_t bits;
        memcpy(&bits, &v, sizeof bits);
        const int64_t ordered = bits ^ (bits >> 31 & INT32_MAX);
        const int64_t key = ordered * ((int64_t)1 << 32) + (uint32_t)(i ^ turn);
        nan |= v != v;
        largest = key > largest ? key : largest;
    }
    return nan ? argmax_row(q, WHOLE_ROW(n), x) : (int32_t)(largest & UINT32_MAX) ^ turn;
}
static size_t work_ARGMAX(const ggml_tensor *dst, int nth) { return rows_work(dst->src[0], nth); }
static int op_ARGMAX(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const row_part part = rows_part(w, a, w->wdata), *p = &part;
    float *tmp[1];
    if (a->ne[0] <= SHORT_ROW / 2 && rows_short(a) && dst->nb[0] == sizeof(int32_t)) {
        for EACH_ROW(w, a, r)
            ((int32_t *)dst->data)[r] = argmax_short(argmax_params(dst), (int32_t)a->ne[0],
                                                       (const float *)a->data + r * a->ne[0]);
        return GGML_STATUS_SUCCESS;
    }
    if (!part_scratch(p, tmp, 1, &a)) return no_memory(a);
    for EACH_ROW_PART(w, p, a, r) {
        const int32_t at = argmax_row(argmax_params(dst), p, part_in(p, a, (row_index){r, 0, 0}, tmp[0]));
        if (!p->shared || w->ith == 0) *(int32_t *)((char *)dst->data + (size_t)r * dst->nb[0]) = at;
    }
    return GGML_STATUS_SUCCESS;
}

static size_t work_COUNT_EQUAL(const ggml_tensor *dst, int nth) { (void)dst; return (size_t)nth * sizeof(int64_t); }
static inline int64_t count_equal(const char *a, const char *b) {   /* returns 1 or 0; elements need not be aligned */
    int32_t x, y;
    memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);
    return x == y;
}
static int op_COUNT_EQUAL(const gg_work *w, ggml_tensor *dst) {
    ggml_tensor v[2] = {*dst->src[0], *dst->src[1]};
    gg_fold(v, 2);
    const size_t sa = v[0].nb[0], sb = v[1].nb[0];
    const int64_t blocks = row_blocks(v);
    int64_t *counts = w->wdata, count = 0;
    for (int64_t u0, u1; gg_claim_chunk(w, gg_nrows(v) * blocks, 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const row_index at = nth_row(v, u / blocks);
            const int64_t i0 = u % blocks * SUM_BLOCK, i1 = i0 + SUM_BLOCK < v->ne[0] ? i0 + SUM_BLOCK : v->ne[0];
            const char *a = gg_row_ptr(&v[0], at.i1, at.i2, at.i3), *b = gg_row_ptr(&v[1], at.i1, at.i2, at.i3);
            if (sa == 4 && sb == 4)
                for (int64_t i = i0; i < i1; i++) count += count_equal(a + 4 * i, b + 4 * i);
            else
                for (int64_t i = i0; i < i1; i++) count += count_equal(a + (size_t)i * sa, b + (size_t)i * sb);
        }
    counts[w->ith] = count;
    gg_barrier(w);
    if (w->ith) return GGML_STATUS_SUCCESS;
    for (int i = 1; i < w->nth; i++) count += counts[i];
    memcpy(dst->data, &count, sizeof count);
    return GGML_STATUS_SUCCESS;
}

/* ---- REPEAT_BACK: sums over the tiles ---------------------------------------------------------------------------- */
enum { BACK_TILE = 1024, BACK_LEAST = 128, BACK_ROWS = 8 /* more rows would map to one cache set */ };
/* Sums of columns: in f32 over `group` rows, in double beyond. */
typedef struct {
    double total[BACK_TILE];
    float tmp[BACK_ROWS][BACK_TILE];
    const float *row[BACK_ROWS];
    int rows, group;
} column_sums;

/* y = the sums of n columns of the rows; false if one is not finite. */
static bool add_columns(const float *const *row, int rows, int64_t n, float *y) {
    vf rest = vf_zero();
    EACH_VEC(i, n) {
        vf sum = vf_zero();
        for (int r = 0; r < rows; r++) sum = vf_add(sum, ld(row[r] + i, n - i));
        st(y + i, sum, n - i);
        rest = vf_add(rest, vf_sub(sum, sum));           /* NaN if a sum is not finite */
    }
    return !vm_any(vf_isnan(rest));
}
static void columns_carry(column_sums *s, int64_t n) {
    float part[BACK_TILE];
    add_columns(s->row, s->rows, n, part);
    for (int64_t i = 0; i < n; i++) s->total[i] += (double)part[i];
    s->rows = 0;
}
/* Adds elements i0 to i0+n of a row. */
static void column_sums_add(column_sums *s, const ggml_tensor *a, row_index at, int64_t i0, int64_t n) {
    s->row[s->rows] = gg_row_in(a, at.i1, at.i2, at.i3, i0, n, s->tmp[s->rows]);
    if (++s->rows == s->group) columns_carry(s, n);
}
/* *acc += all elements of a row */
static void sum_whole_row(double *acc, const ggml_tensor *a, row_index at, float *tmp) {
    for (int64_t i0 = 0; i0 < a->ne[0]; i0 += BACK_TILE) {
        const int64_t n = a->ne[0] - i0 < BACK_TILE ? a->ne[0] - i0 : BACK_TILE;
        *acc += sum_row(WHOLE_ROW(n), gg_row_in(a, at.i1, at.i2, at.i3, i0, n, tmp));
    }
}
/* Elements i0 to i0+n of the row `at` of dst, to s->total; false: a sum of a group is not finite. */
static bool back_tile(column_sums *s, const ggml_tensor *dst, row_index at, int64_t i0, int64_t n, int group) {
    const ggml_tensor *a = dst->src[0];
    ggml_tensor merged;
    row_index k;
    if (dst->ne[0] == 1 && dst->ne[1] == 1 && a->nb[1] == (size_t)a->ne[0] * a->nb[0]) {
        merged = *a, a = &merged;                        /* planes without gaps are summed as rows */
        merged.ne[0] *= merged.ne[1], merged.ne[1] = 1;
    }
    s->rows = 0, s->group = group;
    for (int64_t i = 0; i < n; i++) s->total[i] = 0;
    for (k.i3 = at.i3; k.i3 < a->ne[3]; k.i3 += dst->ne[3])
        for (k.i2 = at.i2; k.i2 < a->ne[2]; k.i2 += dst->ne[2])
            for (k.i1 = at.i1; k.i1 < a->ne[1]; k.i1 += dst->ne[1])
                if (dst->ne[0] == 1) sum_whole_row(s->total, a, k, s->tmp[0]);
                else for (int64_t k0 = i0; k0 < a->ne[0]; k0 += dst->ne[0]) column_sums_add(s, a, k, k0, n);
    columns_carry(s, n);
    bool finite = true;
    for (int64_t i = 0; i < n; i++) finite &= s->total[i] - s->total[i] == 0;
    return finite;
}
/* For few tiles of contiguous f32: their byte offsets; returns their number, or 0 if there are more or other tiles. */
static int back_offsets(const ggml_tensor *dst, size_t offset[BACK_ROWS]) {
    const ggml_tensor *a = dst->src[0];
    int count = 1;
    offset[0] = 0;
    if (!gg_row_direct(a) || !gg_row_direct(dst) || dst->ne[0] == 1) return 0;
    for (int d = 0; d < 4; d++) {
        const int64_t tiles = a->ne[d] / dst->ne[d];
        if (count * tiles > BACK_ROWS) return 0;
        for (int64_t i = count; i < count * tiles; i++) offset[i] = offset[i - count] + (size_t)dst->ne[d] * a->nb[d];
        count *= (int)tiles;
    }
    return count;
}
static void back_long(const ggml_tensor *dst, row_index at, int64_t i0, int64_t n) {
    column_sums sums;
    float out[BACK_TILE], *y = gg_row_out(dst, at.i1, at.i2, at.i3, i0, out);
    const bool finite = back_tile(&sums, dst, at, i0, n, BACK_ROWS);
    for (int64_t i = 0; i < n; i++) y[i] = (float)sums.total[i];
    if (!finite) back_tile(&sums, dst, at, i0, n, 1);    /* only these are replaced: the tiles depend on the threads */
    for (int64_t i = 0; i < n && !finite; i++) if (y[i] - y[i] != 0) y[i] = (float)sums.total[i];
    gg_row_store(dst, at.i1, at.i2, at.i3, i0, n, y);
}
static int op_REPEAT_BACK(const gg_work *w, ggml_tensor *dst) {
    const int64_t n0 = dst->ne[0], each = w->nth == 1 ? n0 : n0 / (2 * w->nth) / BACK_LEAST * BACK_LEAST;
    /* as long as possible */
    const int64_t tile = each < BACK_LEAST ? BACK_LEAST : each < BACK_TILE ? each : BACK_TILE;
    const int64_t tiles = (n0 + tile - 1) / tile;
    size_t offset[BACK_ROWS];
    const int few = back_offsets(dst, offset);
    for (int64_t u0, u1; gg_claim_chunk(w, gg_nrows(dst) * tiles, few ? 1 + 4096 / (n0 * few) : 1, &u0, &u1);)
        for (int64_t u = u0; u < u1; u++) {
            const row_index at = nth_row(dst, u / tiles);
            const int64_t i0 = u % tiles * tile, n = n0 - i0 < tile ? n0 - i0 : tile;
            const float *row[BACK_ROWS];
            for (int i = 0; i < few; i++)
                row[i] = (const float *)(gg_row_ptr(dst->src[0], at.i1, at.i2, at.i3) + offset[i]) + i0;
            if (!few || !add_columns(row, few, n, (float *)gg_row_ptr(dst, at.i1, at.i2, at.i3) + i0))
                back_long(dst, at, i0, n);
        }
    return GGML_STATUS_SUCCESS;
}

#endif
