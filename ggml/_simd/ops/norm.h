/* Normalisation of rows: NORM, GROUP_NORM, RMS_NORM, L2_NORM, and the gradients of NORM and RMS_NORM. If the squares of
 * a row leave the range of f32, the row is scaled by a power of two, so that no value is too large or too small. */
#ifndef GG_OPS_NORM_H
#define GG_OPS_NORM_H
#include "rowwise.h"
#include <float.h>
#include <math.h>

static inline vf square(vf x) { return vf_mul(x, x); }
ROW_SUM(sum_squares, square(vf_mul(ld(x + i, k), vf_set1(s))), const float *x, float s)

static bool square_range(int64_t n, double q) { return q >= 0x1p-80 * (double)n && q <= 0x1p120; }
/* A power of two that brings the largest magnitude near 1. */
static float unit_scale(const row_part *p, const float *x) {
    const float m = max_abs_row(p, x);
    if (!(m > 0 && m < GG_INF)) return 1;
    int e = (int)(gg_f32_bits(m) >> 23) - 127;
    if (e < -126) e = -126;
    if (e > 126) e = 126;
    return gg_bits_f32((uint32_t)(127 - e) << 23);
}
/* sum((x s)^2), with the scale s that it needed */
static double squares(const row_part *p, const float *x, float *s) {
    const double q = sum_squares(p, x, *s = 1);
    if (square_range(p->n, q)) return q;
    return (*s = unit_scale(p, x)) == 1 ? q : sum_squares(p, x, *s);
}
static float limit_to_f32(double x) { return x > FLT_MAX ? FLT_MAX : (float)x; }
/* 1 / sqrt(q), 0 for 0. It exceeds the range of f32 only where what it multiplies is 0, and infinity would make that
 * NaN. */
static float inverse_root(double q) { return q == 0 ? 0 : limit_to_f32(1 / __builtin_sqrt(q)); }
static void scale_row(const row_part *p, const float *x, float s, float r, float *y) {
    if (s == 1) {
        row_times(p, x, r, y);
        return;
    }
    EACH_PART(i, p) st(y + i, vf_mul(vf_mul(ld(x + i, p->end - i), vf_set1(s)), vf_set1(r)), p->end - i);
}

/* Vectors whose lanes sum up to that of d = x s - mean and of its squares, for the elements from i to end. */
static inline void deviation_lanes(const float *x, int64_t i, int64_t end, float s, float mean, vf *d, vf *q) {
    vf s0 = vf_zero(), s1 = vf_zero(), q0 = vf_zero(), q1 = vf_zero();
    for (; i + 2 * VW <= end; i += 2 * VW) {
        const vf a = vf_sub(vf_mul(vf_load(x + i), vf_set1(s)), vf_set1(mean));
        const vf b = vf_sub(vf_mul(vf_load(x + i + VW), vf_set1(s)), vf_set1(mean));
        s0 = vf_add(s0, a), q0 = vf_fma(a, a, q0);
        s1 = vf_add(s1, b), q1 = vf_fma(b, b, q1);
    }
    for (; i < end; i += VW) {
        const vf a = keep(vf_sub(vf_mul(ld(x + i, end - i), vf_set1(s)), vf_set1(mean)), 0, end - i);
        s0 = vf_add(s0, a), q0 = vf_fma(a, a, q0);
    }
    *d = vf_add(s0, s1), *q = vf_add(q0, q1);
}
/* Returns the sum of d; stores that of its squares in *squares. */
static double deviations(const row_part *p, const float *x, float s, float mean, double *squares) {
    const int64_t tiles = row_tiles(p->n);
    double sum = 0;
    *squares = 0;
    for (int64_t i = p->begin, end; i < p->end;) {
        const int64_t tile = i / SUM_TILE;
        end = p->end - i < SUM_TILE ? p->end : i + SUM_TILE;
        vf vd, vq;
        deviation_lanes(x, i, end, s, mean, &vd, &vq);
        i = end;
        const double d = (double)vf_hsum(vd), q = (double)vf_hsum(vq);
        sum += d, *squares += q;
        if (p->shared) p->shared[tile] = d, p->shared[tiles + tile] = q;
    }
    if (!p->shared) return sum;
    *squares = row_total(p, 1);
    return row_total(p, 0);
}
/* The elements of a row as d = x s - mean - rest, which have the mean 0. The mean of x s is rounded to f32; rest
 * corrects that. mean_square: mean(d^2) + eps s^2 */
typedef struct { float s, mean, rest; double mean_square; } centred;

static centred centre(const row_part *p, const float *x, float eps) {
    const double n = (double)p->n;
    centred c = {.s = 1};
    double q, rest;
    for (bool again = false;; again = true) {
        c.mean = (float)(sum_scaled(p, x, c.s) / n);
        rest = deviations(p, x, c.s, c.mean, &q) / n;
        if (again || square_range(p->n, q) || (c.s = unit_scale(p, x)) == 1) break;
    }
    const double var = q / n - rest * rest;
    c.rest = (float)rest, c.mean_square = (var < 0 ? 0 : var) + (double)eps * c.s * c.s;
    return c;
}
static inline vf deviation(centred c, const float *x, int64_t k) {
    return vf_sub(vf_sub(vf_mul(ld(x, k), vf_set1(c.s)), vf_set1(c.mean)), vf_set1(c.rest));
}
/* (x - mean) / sqrt(var + eps) */
static void normalise(const row_part *p, const float *x, float *y, float eps) {
    const centred c = centre(p, x, eps);
    const vf r = vf_set1(inverse_root(c.mean_square));
    EACH_PART(i, p) st(y + i, vf_mul(deviation(c, x + i, p->end - i), r), p->end - i);
}

static void norm_row(const ggml_tensor *t, const row_part *p, const float *a, const float *b, float *y) {
    (void)b;
    normalise(p, a, y, norm_params(t)->eps);
}
static void rms_norm_row(const ggml_tensor *t, const row_part *p, const float *a, const float *b, float *y) {
    (void)b;
    float s;
    const double q = squares(p, a, &s);
    scale_row(p, a, s, inverse_root(q / (double)p->n + (double)norm_params(t)->eps * s * s), y);
}
static void l2_norm_row(const ggml_tensor *t, const row_part *p, const float *a, const float *b, float *y) {
    (void)b;
    float s;
    const double q = squares(p, a, &s), least = (double)norm_params(t)->eps * s;
    scale_row(p, a, s, inverse_root(q < least * least ? least * least : q), y);
}

/* ---- many short rows --------------------------------------------------------------------------------------------- */
/* Results are (x - mean - rest) factor. Where the range of f32 does not hold the squares, `fits` is false. */
typedef struct { float mean[ABREAST], rest[ABREAST], factor[ABREAST]; bool fits[ABREAST]; } norms_abreast;

/* Of m rows of a NORM, an RMS_NORM or an L2_NORM */
static void norms_of(int op, float eps, const float *x, int64_t n, int64_t m, norms_abreast *s) {
    float sum[ABREAST] = {0}, squares[ABREAST] = {0};
    const double count = op == GGML_OP_L2_NORM ? 1 : (double)n, more = op == GGML_OP_L2_NORM ? 0 : (double)eps;
    const double least = op == GGML_OP_L2_NORM ? (double)eps * (double)eps : 0;
    if (op == GGML_OP_NORM) {
        sums_abreast(x, n, m, false, sum);
        for (int r = 0; r < ABREAST; r++) s->mean[r] = (float)((double)sum[r] / count);
        for (int64_t r = 0; r < m; r += 4) {
            vf d[4], q[4];
            GG_ROLLED(j) {
                const int64_t k = gg_min(r + j, m - 1);
                deviation_lanes(x + k * n, 0, n, 1, s->mean[k], &d[j], &q[j]);
            }
            vf_hsum4(sum + r, d[0], d[1], d[2], d[3]), vf_hsum4(squares + r, q[0], q[1], q[2], q[3]);
        }
    } else {
        sums_abreast(x, n, m, true, squares);
    }
    for (int r = 0; r < ABREAST; r++) {
        const double q = (double)squares[r], rest = (double)sum[r] / count, var = q / count - rest * rest;
        s->rest[r] = (float)rest, s->factor[r] = inverse_root((var < least ? least : var) + more);
        s->fits[r] = square_range(n, q);
    }
}
/* `rows` rows of a node, beside each other; fn: one of them */
static __attribute__((noinline)) void norm_rows(const ggml_tensor *node, const float *x, float *y, int64_t rows,
                                                row_fn fn) {
    const int64_t n = node->ne[0];
    norms_abreast s;
    for (int64_t m; rows > 0; rows -= m) {
        m = n > ABREAST_MOST ? 1 : gg_min(rows, ABREAST);
        if (m > 1) norms_of(node->op, norm_params(node)->eps, x, n, m, &s);
        for (int64_t r = 0; r < m; r++, x += n, y += n) {
            if (m == 1 || !s.fits[r]) fn(node, WHOLE_ROW(n), x, NULL, y);
            else EACH_VEC(i, n) {
                vf v = ld(x + i, n - i);
                if (node->op == GGML_OP_NORM) v = vf_sub(vf_sub(v, vf_set1(s.mean[r])), vf_set1(s.rest[r]));
                st(y + i, vf_mul(v, vf_set1(s.factor[r])), n - i);
            }
        }
    }
}

/* ---- gradients: a is that of the result, dy, b is x -------------------------------------------------------------- */
ROW_SUM(dot_scaled, vf_mul(vf_mul(ld(x + i, k), vf_set1(u)), vf_mul(ld(y + i, k), vf_set1(s))), const float *x, float u,
        const float *y, float s)
ROW_SUM(dot_centred, vf_mul(vf_mul(ld(x + i, k), vf_set1(u)), deviation(c, y + i, k)), const float *x, float u,
        const float *y, centred c)

/* What the gradients have in common: result = (dy u - shift - d slope) f g, where d is x s or its deviation. u is a
 * power of two. The factor s / (u sqrt(mean_square)) is divided into f and g where f32 does not hold it. */
typedef struct { float u, shift, slope, f, g; } norm_slope;

/* Whether the sum `dot` of dy d and the slope, dot / (n mean_square), are far from the limits of f32. If they are not,
 * dy has to be scaled. */
static bool slope_fits(const row_part *p, double dot, double mean_square) {
    return square_range(p->n, fabs(dot)) && square_range(1, fabs(dot / ((double)p->n * mean_square)));
}
static norm_slope norm_slope_of(const row_part *p, float u, float s, double dot, double mean_square) {
    const double factor = mean_square == 0 ? 0 : s / (u * __builtin_sqrt(mean_square));
    norm_slope r = {.u = u, .slope = mean_square == 0 ? 0 : (float)(dot / ((double)p->n * mean_square))};
    r.f = factor < FLT_MIN ? FLT_MIN : limit_to_f32(factor), r.g = limit_to_f32(factor / r.f);
    return r;
}
static inline vf norm_gradient(norm_slope r, vf dy, vf d) {
    const vf sum = vf_fnma(d, vf_set1(r.slope), vf_sub(vf_mul(dy, vf_set1(r.u)), vf_set1(r.shift)));
    return vf_mul(vf_mul(sum, vf_set1(r.f)), vf_set1(r.g));
}

/* (dy - x mean(dy x) / m) / sqrt(m), m = mean(x^2) + eps */
static void rms_norm_back_row(const ggml_tensor *t, const row_part *p, const float *a, const float *b, float *y) {
    float s, u = 1;
    const double mean_square = squares(p, b, &s) / (double)p->n + (double)norm_params(t)->eps * s * s;
    double dot = dot_scaled(p, a, u, b, s);
    if (!slope_fits(p, dot, mean_square) && (u = unit_scale(p, a)) != 1) dot = dot_scaled(p, a, u, b, s);
    const norm_slope r = norm_slope_of(p, u, s, dot, mean_square);
    EACH_PART(i, p) {
        const int64_t k = p->end - i;
        st(y + i, norm_gradient(r, ld(a + i, k), vf_mul(ld(b + i, k), vf_set1(s))), k);
    }
}
/* (dy - mean(dy) - d mean(dy d) / m) / sqrt(m), d = x - mean(x), m = mean(d^2) + eps */
static void norm_back_row(const ggml_tensor *t, const row_part *p, const float *a, const float *b, float *y) {
    float u = 1;
    const centred c = centre(p, b, norm_params(t)->eps);
    double dot = dot_centred(p, a, u, b, c), sum = sum_scaled(p, a, u);
    if (!(slope_fits(p, dot, c.mean_square) && sum - sum == 0) && (u = unit_scale(p, a)) != 1)
        dot = dot_centred(p, a, u, b, c), sum = sum_scaled(p, a, u);
    norm_slope r = norm_slope_of(p, u, c.s, dot, c.mean_square);
    r.shift = (float)(sum / (double)p->n);
    EACH_PART(i, p) {
        const int64_t k = p->end - i;
        st(y + i, norm_gradient(r, ld(a + i, k), deviation(c, b + i, k)), k);
    }
}
GG_WORK_ROWS(NORM)
GG_WORK_ROWS(RMS_NORM)
GG_WORK_ROWS(L2_NORM)
GG_WORK_ROWS(RMS_NORM_BACK)
GG_WORK_ROWS(NORM_BACK)
#define ROWS_OF_NORM(NAME, fn)                                                                       \
    static void kernel_##NAME(const ggml_tensor *node, float *const *p, int64_t rows) {              \
        norm_rows(node, p[1], p[0], rows, fn);                                                       \
    }                                                                                                \
    static gg_row_kernel rows_##NAME(const ggml_tensor *node) {                                      \
        (void)node;                                                                                  \
        return (gg_row_kernel){.rows = kernel_##NAME};                                               \
    }                                                                                                \
    static int op_##NAME(const gg_work *w, ggml_tensor *dst) {                                       \
        const ggml_tensor *const a = dst->src[0];                                                    \
        return rows_abreast(a, dst) ? map_abreast(w, dst, kernel_##NAME) : map_rows(w, dst, a, NULL, fn); \
    }
ROWS_OF_NORM(NORM, norm_row)
ROWS_OF_NORM(RMS_NORM, rms_norm_row)
ROWS_OF_NORM(L2_NORM, l2_norm_row)
#undef ROWS_OF_NORM
static int op_RMS_NORM_BACK(const gg_work *w, ggml_tensor *dst) {
    return map_rows(w, dst, dst->src[0], dst->src[1], rms_norm_back_row);
}
static int op_NORM_BACK(const gg_work *w, ggml_tensor *dst) {
    return map_rows(w, dst, dst->src[0], dst->src[1], norm_back_row);
}

/* ---- images with a factor and a bias for each channel ------------------------------------------------------------ */
/* The images of a group (dimensions 0 and 1) as one row. */
static ggml_tensor groups_of_channels(const ggml_tensor *t) {
    return (ggml_tensor){.ne = {t->ne[0] * t->ne[1], t->ne[2] * t->ne[3], 1, 1}};
}
static size_t work_CHANNEL_NORM(const ggml_tensor *dst, int nth) {
    const ggml_tensor rows = groups_of_channels(dst);
    return rows_work(&rows, nth);
}
static float factor_of(const ggml_tensor *t, int64_t i1, int64_t i2, int64_t i3) {
    return *(const float *)gg_row_ptr(t, i1, gg_wrap(i2, t->ne[2]), gg_wrap(i3, t->ne[3]));
}
static int op_CHANNEL_NORM(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *const a = dst->src[0], *const scale = dst->src[1], *const bias = dst->src[2];
    const ggml_tensor rows = groups_of_channels(dst);
    const row_part part = rows_part(w, &rows, w->wdata), *const p = &part;
    const int64_t n = rows.ne[0], area = dst->ne[0];
    for EACH_ROW_PART(w, p, &rows, r) {
        const float *const x = (const float *)a->data + r * n;
        float *const y = (float *)dst->data + r * n;
        const centred c = centre(p, x, norm_params(dst)->eps);
        const vf root = vf_set1(inverse_root(c.mean_square));
        for (int64_t i = p->begin, end; i < p->end; i = end) {          /* a channel, or a part of one */
            const int64_t channel = i / area;
            end = gg_min(p->end, (channel + 1) * area);
            const int64_t i2 = r % dst->ne[2], i3 = r / dst->ne[2];
            const vf factor = vf_set1(factor_of(scale, channel, i2, i3));
            const vf shift = vf_set1(factor_of(bias, channel, i2, i3));
            for (; i < end; i += VW)
                st(y + i, vf_fma(vf_mul(deviation(c, x + i, end - i), root), factor, shift), end - i);
        }
    }
    return GGML_STATUS_SUCCESS;
}

/* Copies channels (dimension 2) c0 to c1 of item i3, row by row, between t and p. */
static void gather_group(const ggml_tensor *t, int64_t c0, int64_t c1, int64_t i3, float *p) {
    for (int64_t i2 = c0; i2 < c1; i2++)
        for (int64_t i1 = 0; i1 < t->ne[1]; i1++, p += t->ne[0]) {
            const float *x = row_in(t, (row_index){i1, i2, i3}, p);
            if (x != p) memcpy(p, x, (size_t)t->ne[0] * sizeof *p);
        }
}
static void scatter_group(ggml_tensor *t, int64_t c0, int64_t c1, int64_t i3, const float *p) {
    for (int64_t i2 = c0; i2 < c1; i2++)
        for (int64_t i1 = 0; i1 < t->ne[1]; i1++, p += t->ne[0]) {
            float *y = row_out(t, (row_index){i1, i2, i3}, (float *)p);
            if (y != p) memcpy(y, p, (size_t)t->ne[0] * sizeof *p);
            row_store(t, (row_index){i1, i2, i3}, y);
        }
}
static bool group_is_flat(const ggml_tensor *t) {
    ggml_tensor item = *t;
    item.ne[3] = 1;
    return t->type == GGML_TYPE_F32 && gg_contiguous(&item);
}
/* Views groups of equal size that are contiguous as rows; false: they are not contiguous. */
static bool groups_as_rows(const ggml_tensor *dst, ggml_tensor *rows) {
    const ggml_tensor *a = dst->src[0];
    const int64_t groups = group_norm_params(dst)->n_groups;
    if (groups < 1 || a->ne[2] % groups) return false;
    *rows = (ggml_tensor){.ne = {a->ne[0] * a->ne[1] * (a->ne[2] / groups), groups * a->ne[3], 1, 1}};
    return group_is_flat(a) && group_is_flat(dst);
}
static size_t work_GROUP_NORM(const ggml_tensor *dst, int nth) {
    ggml_tensor rows;
    return groups_as_rows(dst, &rows) ? rows_work(&rows, nth) : 0;
}
static int op_GROUP_NORM(const gg_work *w, ggml_tensor *dst) {
    const ggml_tensor *a = dst->src[0];
    const int64_t groups = group_norm_params(dst)->n_groups, each = (a->ne[2] + groups - 1) / groups;
    const int64_t area = a->ne[0] * a->ne[1];
    const bool flat = group_is_flat(a) && group_is_flat(dst);
    float *tmp = NULL;
    ggml_tensor rows = {.ne = {0}};
    row_part part = {.shared = NULL};
    if (groups_as_rows(dst, &rows)) part = rows_part(w, &rows, w->wdata);
    if (!flat && !(tmp = gg_scratch((size_t)(each * area) * sizeof *tmp))) return no_memory(dst);
    for (int64_t g0 = -1, g1; part.shared ? row_next(w, &part, rows.ne[1], &g0, &g1)
                                          : gg_claim_chunk(w, groups * a->ne[3], 1, &g0, &g1);)
        for (int64_t g = g0; g < g1; g++) {
            const int64_t i3 = g / groups, c0 = g % groups * each, c1 = c0 + each < a->ne[2] ? c0 + each : a->ne[2];
            if (c0 >= c1) continue;
            if (!flat) gather_group(a, c0, c1, i3, tmp);
            const float *x = flat ? (const float *)gg_row_ptr(a, 0, c0, i3) : tmp;
            float *y = flat ? (float *)gg_row_ptr(dst, 0, c0, i3) : tmp;
            normalise(part.shared ? &part : WHOLE_ROW((c1 - c0) * area), x, y, group_norm_params(dst)->eps);
            if (!flat) scatter_group(dst, c0, c1, i3, tmp);
        }
    return GGML_STATUS_SUCCESS;
}

#endif
