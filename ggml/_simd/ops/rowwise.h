/* What the kernels that work row by row share: loops over whole rows as packed f32, and sums that are accurate, do not
 * overflow on the way and do not depend on the number of threads. */
#ifndef GG_OPS_ROWWISE_H
#define GG_OPS_ROWWISE_H
#include "rows.h"

/* ---- vectors of which k elements are left ---------------------------------------------------------------------- */
#define EACH_VEC(i, n) for (int64_t i = 0; i < (n); i += VW)
static inline vf ld(const float *p, int64_t k) { return k >= VW ? vf_load(p) : vf_loadn(p, (int)k); }
static inline vf st(float *p, vf v, int64_t k) {
    if (k >= VW) vf_store(p, v); else vf_storen(p, v, (int)k);
    return v;
}
static inline vf keep(vf v, float rest, int64_t k) {   /* v, from lane k on `rest` */
    return k >= VW ? v : vf_select(vi_gt(vi_set1((int32_t)k), vi_iota()), v, vf_set1(rest));
}

/* ---- sums over a row: f32 within a tile, double from tile to tile ---------------------------------------------- */
enum { SUM_TILE = 1024 };
/* static double name(n, ...): the sum of TERM, a vector made of elements i..i+k, over the row. */
#define ROW_SUM(name, TERM, ...)                                                                   \
    static double name(int64_t n, __VA_ARGS__) {                                                   \
        double total_ = 0;                                                                         \
        for (int64_t i = 0, end_; i < n;) {                                                        \
            end_ = n - i < SUM_TILE ? n : i + SUM_TILE;                                            \
            vf acc_[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};                             \
            const int64_t k = VW;                                                                  \
            while (i + 4 * VW <= end_) {                                                           \
                acc_[0] = vf_add(acc_[0], TERM), i += VW;                                          \
                acc_[1] = vf_add(acc_[1], TERM), i += VW;                                          \
                acc_[2] = vf_add(acc_[2], TERM), i += VW;                                          \
                acc_[3] = vf_add(acc_[3], TERM), i += VW;                                          \
            }                                                                                      \
            for (; i < end_; i += VW) {                                                            \
                const int64_t k = end_ - i;                                                        \
                acc_[0] = vf_add(acc_[0], keep(TERM, 0, k));                                       \
            }                                                                                      \
            i = end_;                                                                              \
            total_ += (double)vf_hsum(vf_add(vf_add(acc_[0], acc_[1]), vf_add(acc_[2], acc_[3]))); \
        }                                                                                          \
        return total_;                                                                             \
    }
ROW_SUM(sum_scaled, vf_mul(ld(x + i, k), vf_set1(scale)), const float *x, float scale)
ROW_SUM(dot_rows, vf_mul(ld(x + i, k), ld(y + i, k)), const float *x, const float *y)

/* The sum of a row; what overflows f32 in a tile is summed again, scaled down. */
static double sum_row(int64_t n, const float *x) {
    const double s = sum_scaled(n, x, 1);
    return s - s == 0 ? s : sum_scaled(n, x, 0x1p-64f) * 0x1p64;
}
static float max_row(int64_t n, const float *x) {       /* skips NaN; -inf when nothing is left */
    vf m = vf_set1(-GG_INF);
    EACH_VEC(i, n) m = vf_max(keep(ld(x + i, n - i), -GG_INF, n - i), m);
    return vf_hmax(m);
}
static float max_abs_row(int64_t n, const float *x) {
    vf m = vf_zero();
    EACH_VEC(i, n) m = vf_max(vf_abs(ld(x + i, n - i)), m);
    return vf_hmax(m);
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */
typedef struct { int64_t i1, i2, i3; } row_at;
static inline row_at nth_row(const ggml_tensor *t, int64_t r) {
    const int64_t q = t->ne[1] ? r / t->ne[1] : 0, p = t->ne[2] ? q / t->ne[2] : 0;
    return (row_at){r - q * t->ne[1], q - p * t->ne[2], p};
}
/* r indexes t->ne[1..3]: `for EACH_ROW(w, t, r)` shares the rows out to the threads. */
#define EACH_ROW(w, t, r)                                                                          \
    (int64_t r##_0, r##_1; gg_next(w, gg_nrows(t), row_grain((t)->ne[0]), &r##_0, &r##_1);)        \
        for (int64_t r = r##_0; r < r##_1; r++)
static inline int64_t row_grain(int64_t ne0) { return ne0 < 4096 ? 4096 / (ne0 + 1) + 1 : 1; }

static inline const float *row_in(const ggml_tensor *t, row_at r, float *tmp) {
    return gg_row_in(t, r.i1, r.i2, r.i3, 0, t->ne[0], tmp);
}
static inline float *row_out(ggml_tensor *t, row_at r, float *tmp) {
    return gg_row_out(t, r.i1, r.i2, r.i3, 0, tmp);
}
static inline void row_store(ggml_tensor *t, row_at r, const float *y) {
    gg_row_store(t, r.i1, r.i2, r.i3, 0, t->ne[0], y);
}

/* A row of scratch memory for each of k tensors (some may be NULL), unless all rows can be used where they are. */
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
    return gg_fail(t, "no memory for a row of %lld elements", (long long)t->ne[0]);
}

/* y = fn(a, b) row by row; a, b (or NULL) and dst are of one shape; y may be a or b. */
typedef void (*row_fn)(const ggml_tensor *dst, int64_t n, const float *a, const float *b, float *y);
static int map_rows(const gg_work *w, ggml_tensor *dst, const ggml_tensor *a, const ggml_tensor *b, row_fn fn) {
    float *tmp[3];
    if (!row_scratch(tmp, 3, (const ggml_tensor *[]){dst, a, b})) return no_memory(dst);
    for EACH_ROW(w, dst, r) {
        const row_at at = nth_row(dst, r);
        float *y = row_out(dst, at, tmp[0]);
        fn(dst, dst->ne[0], row_in(a, at, tmp[1]), b ? row_in(b, at, tmp[2]) : NULL, y);
        row_store(dst, at, y);
    }
    return GGML_STATUS_SUCCESS;
}

#endif
