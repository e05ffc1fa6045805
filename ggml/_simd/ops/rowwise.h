/* What kernels that work row by row share: loops over whole rows as contiguous f32, and sums that are accurate, do not
 * overflow in between and do not depend on the number of threads. */
#ifndef GG_OPS_ROWWISE_H
#define GG_OPS_ROWWISE_H
#include "rows.h"

#define EACH_VEC(i, n) for (int64_t i = 0; i < (n); i += VW)
static inline vf keep(vf v, float rest, int64_t k) {   /* lanes k and above are `rest` */
    return k >= VW ? v : vf_select(vi_gt(vi_set1((int32_t)k), vi_iota()), v, vf_set1(rest));
}

/* ---- a row, or a thread's part of it ----------------------------------------------------------------------------- */
enum { SUM_TILE = 1024, WIDE_ROW = 1 << 16 };   /* a part consists of whole tiles */
/* Threads share each row where there are few long rows. Functions of a row then run on every thread, for its part, and
 * meet at barriers for the value of the whole row. It is summed tile by tile, in order, so the number of threads does
 * not change the result. */
typedef struct row_part {
    int64_t n, begin, end;          /* elements of the row; the part of this thread */
    const gg_work *w;
    double *shared;                 /* exchanges values between threads; NULL: one thread has the row */
} row_part;
#define EACH_PART(i, p) for (int64_t i = (p)->begin; i < (p)->end; i += VW)
#define WHOLE_ROW(k) (&(const row_part){.n = (k), .end = (k)})

static inline int64_t row_tiles(int64_t n) { return (n + SUM_TILE - 1) / SUM_TILE; }
static bool rows_wide(const ggml_tensor *t, int nth) { return t->ne[0] >= WIDE_ROW && 2 * gg_nrows(t) <= nth; }
static size_t rows_work(const ggml_tensor *t, int nth) {
    return rows_wide(t, nth) ? (size_t)(2 * row_tiles(t->ne[0]) + nth) * sizeof(double) : 0;
}
/* The part of this thread of each row of t. shared: rows_work bytes. */
static row_part rows_part(const gg_work *w, const ggml_tensor *t, void *shared) {
    const int64_t tiles = row_tiles(t->ne[0]), end = tiles * (w->ith + 1) / w->nth * SUM_TILE;
    if (!rows_wide(t, w->nth)) return *WHOLE_ROW(t->ne[0]);
    return (row_part){t->ne[0], tiles * w->ith / w->nth * SUM_TILE, end < t->ne[0] ? end : t->ne[0], w, shared};
}
/* Waits for the sums over tiles of all threads and adds them in order; `which` selects one of two arrays of sums. */
static double row_total(const row_part *p, int which) {
    const int64_t tiles = row_tiles(p->n);
    double total = 0;
    gg_barrier(p->w);
    for (int64_t i = 0; i < tiles; i++) total += p->shared[which * tiles + i];
    gg_barrier(p->w);
    return total;
}
/* The maximum of x over all threads. */
static double row_largest(const row_part *p, double x) {
    if (!p->shared) return x;
    p->shared[p->w->ith] = x;
    gg_barrier(p->w);
    for (int i = 0; i < p->w->nth; i++) x = p->shared[i] > x ? p->shared[i] : x;
    gg_barrier(p->w);
    return x;
}

/* ---- sums over a row: f32 within a tile, double from tile to tile ------------------------------------------------ */
/* static double name(p, ...): the sum over the row of TERM, a vector of the elements i to i+k. FOUR computes the four
 * vectors t_ from i on at a time. */
#define ROW_SUM_OF(name, FOUR, TERM, ...)                                                          \
    static double name(const row_part *p_, __VA_ARGS__) {                                          \
        double total_ = 0;                                                                         \
        for (int64_t i = p_->begin, end_; i < p_->end;) {                                          \
            const int64_t tile_ = i / SUM_TILE;                                                    \
            end_ = p_->end - i < SUM_TILE ? p_->end : i + SUM_TILE;                                \
            vf acc_[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};                             \
            for (; i + 4 * VW <= end_; i += 4 * VW) {                                              \
                vf t_[4];                                                                          \
                FOUR;                                                                              \
                GG_FOUR(j_) acc_[j_] = vf_add(acc_[j_], t_[j_]);                                   \
            }                                                                                      \
            for (; i < end_; i += VW) {                                                            \
                const int64_t k = end_ - i;                                                        \
                acc_[0] = vf_add(acc_[0], keep(TERM, 0, k));                                       \
            }                                                                                      \
            i = end_;                                                                              \
            const double sum_ = (double)vf_hsum(vf_add(vf_add(acc_[0], acc_[1]), vf_add(acc_[2], acc_[3]))); \
            total_ += sum_;                                                                        \
            if (p_->shared) p_->shared[tile_] = sum_;                                              \
        }                                                                                          \
        return p_->shared ? row_total(p_, 0) : total_;                                             \
    }
#define ROW_TERMS(TERM) \
    const int64_t i0_ = i, k = VW; \
    GG_FOUR(j_) { const int64_t i = i0_ + j_ * VW; t_[j_] = TERM; }
#define ROW_SUM(name, TERM, ...) ROW_SUM_OF(name, ROW_TERMS(TERM), TERM, __VA_ARGS__)
ROW_SUM(sum_scaled, (k == VW ? prefetch_floats(x + i) : (void)0, vf_mul(ld(x + i, k), vf_set1(scale))), const float *x,
        float scale)
ROW_SUM(dot_rows, vf_mul(ld(x + i, k), ld(y + i, k)), const float *x, const float *y)

/* The sum of a row. If a tile overflows f32, the row is summed again, scaled down. */
static double sum_row(const row_part *p, const float *x) {
    const double s = sum_scaled(p, x, 1);
    return s - s == 0 ? s : sum_scaled(p, x, 0x1p-64f) * 0x1p64;
}

/* ---- many short rows beside each other --------------------------------------------------------------------------- */
/* What each row has one of is computed for ABREAST of them together, with the same bits as for one. */
#define GG_ROLLED(j) _Pragma("GCC unroll 1") for (int j = 0; j < 4; j++)     /* GG_FOUR, in less code */
enum { ABREAST = 16, ABREAST_MOST = 256 /* elements of a row */ };
static inline bool rows_abreast(const ggml_tensor *a, const ggml_tensor *dst) {
    return a->type == GGML_TYPE_F32 && a->ne[0] <= ABREAST_MOST && gg_nrows(a) > 1 && gg_contiguous(a)
        && gg_contiguous(dst);
}
/* A vector whose lanes sum up to that of a row, or of its squares: what ROW_SUM adds up within a tile. */
static inline vf lanes_of(const float *x, int64_t n, const bool squares) {
    vf acc[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    int64_t i = 0;
    for (; i + 4 * VW <= n; i += 4 * VW)
        GG_FOUR(j) {
            const vf v = vf_load(x + i + j * VW);
            acc[j] = vf_add(acc[j], squares ? vf_mul(v, v) : v);
        }
    for (; i < n; i += VW) {
        const vf v = keep(ld(x + i, n - i), 0, n - i);
        acc[0] = vf_add(acc[0], squares ? vf_mul(v, v) : v);
    }
    return vf_add(vf_add(acc[0], acc[1]), vf_add(acc[2], acc[3]));
}
/* sum[r] = the sum of row r of m <= ABREAST rows, or of its squares */
static __attribute__((noinline)) void sums_abreast(const float *x, int64_t n, int64_t m, bool squares,
                                                   float sum[ABREAST]) {
    for (int64_t r = 0; r < m; r += 4) {
        vf v[4];
        GG_ROLLED(j) v[j] = lanes_of(x + gg_min(r + j, m - 1) * n, n, squares);
        vf_hsum4(sum + r, v[0], v[1], v[2], v[3]);
    }
}

static float max_row(const row_part *p, const float *x) {      /* skips NaN; -inf if nothing is left */
    const vf none = vf_set1(-GG_INF);
    vf m[4] = {none, none, none, none};
    int64_t i = p->begin;
    for (; i + 4 * VW <= p->end; i += 4 * VW)
        GG_FOUR(j) m[j] = vf_max(vf_load(x + i + j * VW), m[j]);
    for (; i < p->end; i += VW) m[0] = vf_max(keep(ld(x + i, p->end - i), -GG_INF, p->end - i), m[0]);
    return (float)row_largest(p, vf_hmax(vf_max(vf_max(m[0], m[1]), vf_max(m[2], m[3]))));
}
/* y = factor x, which may be the same row */
static void row_times(const row_part *p, const float *x, float factor, float *y) {
    const vf f = vf_set1(factor);
    int64_t i = p->begin;
    for (; i + 4 * VW <= p->end; i += 4 * VW)
#pragma GCC unroll 4
        for (int j = 0; j < 4 * VW; j += VW) vf_store(y + i + j, vf_mul(vf_load(x + i + j), f));
    for (; i < p->end; i += VW) st(y + i, vf_mul(ld(x + i, p->end - i), f), p->end - i);
}
static float max_abs_row(const row_part *p, const float *x) {
    vf m = vf_zero();
    EACH_PART(i, p) m = vf_max(vf_abs(ld(x + i, p->end - i)), m);
    return (float)row_largest(p, vf_hmax(m));
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
/* r counts the rows of t: `for EACH_ROW(w, t, r)` shares the rows among the threads. */
#define EACH_ROW(w, t, r)                                                                          \
    (int64_t r##_0, r##_1; gg_claim_chunk(w, gg_nrows(t), row_grain((t)->ne[0]), &r##_0, &r##_1);)        \
        for (int64_t r = r##_0; r < r##_1; r++)
/* The same for rows that threads may share: all threads then go over all rows. */
#define EACH_ROW_PART(w, p, t, r)                                                                  \
    (int64_t r##_0 = -1, r##_1; row_next(w, p, gg_nrows(t), &r##_0, &r##_1);)                      \
        for (int64_t r = r##_0; r < r##_1; r++)
static inline int64_t row_grain(int64_t ne0) { return ne0 < 4096 ? 4096 / (ne0 + 1) + 1 : 1; }

static inline bool row_next(const gg_work *w, const row_part *p, int64_t rows, int64_t *r0, int64_t *r1) {
    if (!p->shared) return gg_claim_chunk(w, rows, row_grain(p->n), r0, r1);
    const bool first = *r0 < 0;
    *r0 = 0, *r1 = rows;
    return first;
}

static inline const float *row_in(const ggml_tensor *t, row_index r, float *tmp) {
    return gg_row_in(t, r.i1, r.i2, r.i3, 0, t->ne[0], tmp);
}
static inline float *row_out(ggml_tensor *t, row_index r, float *tmp) {
    return gg_row_out(t, r.i1, r.i2, r.i3, 0, tmp);
}
static inline void row_store(ggml_tensor *t, row_index r, const float *y) {
    gg_row_store(t, r.i1, r.i2, r.i3, 0, t->ne[0], y);
}

/* The same for a part; the address is that of the whole row. */
static inline const float *part_in(const row_part *p, const ggml_tensor *t, row_index r, float *tmp) {
    const int64_t n = p->end - p->begin;
    if (gg_row_direct(t) || n <= 0) return (const float *)gg_row_ptr(t, r.i1, r.i2, r.i3);
    gg_row_in(t, r.i1, r.i2, r.i3, p->begin, n, tmp + p->begin);
    return tmp;
}
static inline void part_store(const row_part *p, ggml_tensor *t, row_index r, const float *y) {
    if (p->begin < p->end) gg_row_store(t, r.i1, r.i2, r.i3, p->begin, p->end - p->begin, y + p->begin);
}

/* A row of scratch memory for each of k tensors (some may be NULL), unless all rows can be used in place. */
static bool row_scratch(float *tmp[], int k, const ggml_tensor *const t[]) {
    int64_t n = 0;
    bool plain = true;
    for (int j = 0; j < k; j++) {
        tmp[j] = NULL;
        if (!t[j]) continue;
        plain = plain && gg_row_direct(t[j]);
        if (t[j]->ne[0] > n) n = t[j]->ne[0];
    }
    if (plain) return true;
    n = (n + 15) / 16 * 16;
    float *p = gg_scratch((size_t)k * (size_t)n * sizeof *p);
    for (int j = 0; j < k && p; j++) tmp[j] = p + j * n;
    return p;
}
static int no_memory(const ggml_tensor *t) {
    return gg_no_memory(t, "no memory for a row of %lld elements", (long long)t->ne[0]);
}

/* For parts of rows: all threads have memory, or none continues. */
static bool part_scratch(const row_part *p, float *tmp[], int k, const ggml_tensor *const t[]) {
    return row_largest(p, !row_scratch(tmp, k, t)) == 0;
}

/* y = fn(a, b) for each row. a, b (or NULL) and dst have one shape; y may be a or b. Needs the work memory of
 * GG_WORK_ROWS. */
typedef void (*row_fn)(const ggml_tensor *dst, const row_part *p, const float *a, const float *b, float *y);
static int map_rows(const gg_work *w, ggml_tensor *dst, const ggml_tensor *a, const ggml_tensor *b, row_fn fn) {
    float *tmp[3];
    const row_part part = rows_part(w, dst, w->wdata), *p = &part;
    if (!part_scratch(p, tmp, 3, (const ggml_tensor *[]){dst, a, b})) return no_memory(dst);
    for EACH_ROW_PART(w, p, dst, r) {
        const row_index at = nth_row(dst, r);
        float *y = row_out(dst, at, tmp[0]);
        fn(dst, p, part_in(p, a, at, tmp[1]), b ? part_in(p, b, at, tmp[2]) : NULL, y);
        part_store(p, dst, at, y);
    }
    return GGML_STATUS_SUCCESS;
}
/* The same of rows beside each other, by a function of several rows. */
static int map_abreast(const gg_work *w, ggml_tensor *dst, gg_rows_fn fn) {
    const float *const x = dst->src[0]->data;
    float *const y = dst->data;
    const int64_t n = dst->ne[0];
    for (int64_t r0, r1; gg_claim_chunk(w, gg_nrows(dst), row_grain(n), &r0, &r1);)
        fn(dst, (float *const[]){y + r0 * n, (float *)x + r0 * n}, r1 - r0);
    return GGML_STATUS_SUCCESS;
}
/* work_NAME of an operation that computes by map_rows. */
#define GG_WORK_ROWS(NAME) static size_t work_##NAME(const ggml_tensor *dst, int nth) { return rows_work(dst, nth); }

#endif
