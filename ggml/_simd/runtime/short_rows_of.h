/* The functions of short_rows.h, for vectors of 16, 32 and 64 bytes: compilers make poor code of vectors that are
 * longer than those of the target. This file includes itself once for each size. */
#ifndef GG_BYTES
#ifndef GG_RUNTIME_SHORT_ROWS_OF_H
#define GG_RUNTIME_SHORT_ROWS_OF_H
#include "short_rows.h"
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { GG_SUMS = 8 };   /* vectors that are added up at a time, to hide the latency of additions */

#define GG_FOR(i, n) for (int i = 0; i < (n); i++)
#if defined(__GNUC__) && !defined(__clang__)
#define GG_OPTIMIZED __attribute__((optimize("O3")))
#else
#define GG_OPTIMIZED
#endif
#define GG_INLINED static inline __attribute__((always_inline)) GG_OPTIMIZED GG_TARGET
#define GG_FUNCTION static GG_OPTIMIZED GG_TARGET

/* Every other element of two vectors beside each other, from the first or the second one on */
#if defined(__clang__) || __GNUC__ >= 12
#define GG_EVERY_4(a, b, i) __builtin_shufflevector(a, b, i, i + 2, i + 4, i + 6)
#define GG_EVERY_8(a, b, i) \
    __builtin_shufflevector(a, b, i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14)
#define GG_EVERY_16(a, b, i)                                                                                      \
    __builtin_shufflevector(a, b, i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14, i + 16, i + 18, i + 20, \
                            i + 22, i + 24, i + 26, i + 28, i + 30)
#else
#define GG_EVERY_4(a, b, i) __builtin_shuffle(a, b, (GG_N(numbers)){i, i + 2, i + 4, i + 6})
#define GG_EVERY_8(a, b, i) \
    __builtin_shuffle(a, b, (GG_N(numbers)){i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14})
#define GG_EVERY_16(a, b, i)                                                                              \
    __builtin_shuffle(a, b, (GG_N(numbers)){i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14, i + 16, \
                                            i + 18, i + 20, i + 22, i + 24, i + 26, i + 28, i + 30})
#endif

#define GG_BYTES 16
#define GG_LANES 4
#define GG_N(name) gg_##name##_16
#define GG_REPEATED(x) x, x, x, x
#define GG_REPEATED_HALF(x) x, x
#define GG_TARGET
#define GG_EVERY GG_EVERY_4
#define GG_PLACES {0, 1, 2, 3}
#if defined(__aarch64__)
#define GG_FMA(a, b, c) ((GG_N(floats))vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define GG_FMA_DOUBLES(a, b, c) ((GG_N(doubles))vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#else
#define GG_FMA(a, b, c) ((a) * (b) + (c))
#define GG_FMA_DOUBLES GG_FMA
#endif
#include "short_rows_of.h"

#if defined(__x86_64__)
#define GG_BYTES 32
#define GG_LANES 8
#define GG_N(name) gg_##name##_32
#define GG_REPEATED(x) x, x, x, x, x, x, x, x
#define GG_REPEATED_HALF(x) x, x, x, x
#define GG_TARGET __attribute__((target("avx2,fma")))
#define GG_EVERY GG_EVERY_8
#define GG_PLACES {0, 1, 2, 3, 4, 5, 6, 7}
#define GG_FMA(a, b, c) ((GG_N(floats))_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define GG_FMA_DOUBLES(a, b, c) ((GG_N(doubles))_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#include "short_rows_of.h"

#define GG_BYTES 64
#define GG_LANES 16
#define GG_N(name) gg_##name##_64
#define GG_REPEATED(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
#define GG_REPEATED_HALF(x) x, x, x, x, x, x, x, x
#define GG_TARGET __attribute__((target("avx512f")))
#define GG_EVERY GG_EVERY_16
#define GG_PLACES {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#define GG_FMA(a, b, c) ((GG_N(floats))_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define GG_FMA_DOUBLES(a, b, c) ((GG_N(doubles))_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#include "short_rows_of.h"
#endif

/* The functions for vectors of so many bytes, or for the longest of this CPU (0); NULL if it has no such vectors. */
static const gg_short_rows *gg_short_rows_of(int bytes) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if ((!bytes || bytes == 64) && __builtin_cpu_supports("avx512f")) return &gg_functions_64;
    if ((!bytes || bytes == 32) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &gg_functions_32;
#endif
    return !bytes || bytes == 16 ? &gg_functions_16 : NULL;
}
#endif

#else  /* the functions for one size */
typedef float GG_N(floats) __attribute__((vector_size(GG_BYTES)));
typedef double GG_N(doubles) __attribute__((vector_size(GG_BYTES)));
typedef int32_t GG_N(numbers) __attribute__((vector_size(GG_BYTES)));

GG_INLINED GG_N(floats) GG_N(load)(const float *x) {
    GG_N(floats) v;
    memcpy(&v, x, sizeof v);
    return v;
}
GG_INLINED GG_N(floats) GG_N(spread)(float x) { return (GG_N(floats)){GG_REPEATED(x)}; }

/* Some rows of a product, for which a row of w has v vectors. Where a row of y has less, they are written as a whole,
 * as far as there are `left` elements. */
GG_INLINED void GG_N(wide_rows)(float *y, size_t left, const float *x, const float *w, const int rows, const int v,
                                size_t k, size_t n) {
    GG_N(floats) sum[GG_SUMS], m[GG_SUMS];
    GG_FOR(j, v) m[j] = GG_N(load)(w + (k * v + j) * GG_LANES);
    GG_FOR(r, rows) GG_FOR(j, v) sum[r * v + j] = m[j];
    for (size_t i = 0; i < k; i++, w += v * GG_LANES) {
        GG_FOR(j, v) m[j] = GG_N(load)(w + j * GG_LANES);
        GG_FOR(r, rows) {
            const GG_N(floats) one = GG_N(spread)(x[r * k + i]);
            GG_FOR(j, v) sum[r * v + j] = GG_FMA(one, m[j], sum[r * v + j]);
        }
    }
    if ((rows - 1) * n + v * GG_LANES <= left) GG_FOR(r, rows) memcpy(y + r * n, sum + r * v, v * sizeof *m);
    else GG_FOR(r, rows) memcpy(y + r * n, sum + r * v, n * sizeof *y);
}

GG_INLINED void GG_N(wide)(float *y, const float *x, const float *w, size_t rows, size_t k, size_t n, const int v) {
    const int some = GG_SUMS / v;
    for (; rows >= (size_t)some; rows -= some, x += some * k, y += some * n)
        GG_N(wide_rows)(y, rows * n, x, w, some, v, k, n);
    for (; rows; rows--, x += k, y += n) GG_N(wide_rows)(y, rows * n, x, w, 1, v, k, n);
}
GG_FUNCTION void GG_N(one)(float *y, const float *x, const float *w, size_t rows, size_t k, size_t n) {
    GG_N(wide)(y, x, w, rows, k, n, GG_WIDE / GG_LANES);
}
GG_FUNCTION void GG_N(two)(float *y, const float *x, const float *w, size_t rows, size_t k, size_t n) {
    GG_N(wide)(y, x, w, rows, k, n, 2 * GG_WIDE / GG_LANES);
}

/* Adds the products of two elements of each row with a pair of rows of w; both: there are two. */
GG_INLINED void GG_N(add_pairs)(GG_N(floats) *sum, const float *x, const float *w, const int rows, size_t k,
                                const int both) {
    enum { V = 2 * GG_FEW / GG_LANES };
    GG_N(floats) m[V];
    GG_FOR(j, V) m[j] = GG_N(load)(w + j * GG_LANES);
    GG_FOR(r, rows) {
        const float pair[2] = {x[r * k], both ? x[r * k + 1] : 0};
        double d;
        memcpy(&d, pair, sizeof d);     /* which is only moved */
        const GG_N(floats) two = (GG_N(floats))(GG_N(doubles)){GG_REPEATED_HALF(d)};
        GG_FOR(j, V) sum[r * V + j] = GG_FMA(two, m[j], sum[r * V + j]);
    }
}
GG_INLINED void GG_N(few_rows)(float *y, size_t left, const float *x, const float *w, const int rows, size_t k,
                               size_t n) {
    enum { V = 2 * GG_FEW / GG_LANES };
    GG_N(floats) sum[GG_SUMS], m[V], columns[GG_SUMS / 2];
    GG_FOR(j, V) m[j] = GG_N(load)(w + ((k + 1) / 2 * V + j) * GG_LANES);
    GG_FOR(r, rows) GG_FOR(j, V) sum[r * V + j] = m[j];
    for (size_t i = 0; i + 1 < k; i += 2, w += V * GG_LANES) GG_N(add_pairs)(sum, x + i, w, rows, k, 1);
    if (k % 2) GG_N(add_pairs)(sum, x + k - 1, w, rows, k, 0);
    for (int i = 0; i < rows * V; i += 2) {
        const GG_N(floats) a = sum[i], b = sum[i + 1 < rows * V ? i + 1 : i];
        columns[i / 2] = GG_EVERY(a, b, 0) + GG_EVERY(a, b, 1);
    }
    const float *c = (const float *)columns;
    if ((rows - 1) * n + GG_FEW <= left) GG_FOR(r, rows) memcpy(y + r * n, c + r * GG_FEW, GG_FEW * sizeof *y);
    else GG_FOR(r, rows) memcpy(y + r * n, c + r * GG_FEW, n * sizeof *y);
}
GG_FUNCTION void GG_N(few)(float *y, const float *x, const float *w, size_t rows, size_t k, size_t n) {
    enum { SOME = GG_SUMS * GG_LANES / (2 * GG_FEW) };
    for (; rows >= SOME; rows -= SOME, x += SOME * k, y += SOME * n) GG_N(few_rows)(y, rows * n, x, w, SOME, k, n);
    for (; rows; rows--, x += k, y += n) GG_N(few_rows)(y, rows * n, x, w, 1, k, n);
}

/* Some rows of a product of doubles, of which `columns` are written */
GG_INLINED void GG_N(double_rows)(double *y, size_t n, const double *x, const double *w, const int rows, size_t k,
                                  size_t columns) {
    enum { V = 2 * GG_GROUP / GG_LANES };
    GG_N(doubles) sum[GG_SUMS], m[V];
    GG_FOR(i, rows * V) sum[i] = (GG_N(doubles)){0};
    for (size_t i = 0; i < k; i++, w += GG_GROUP) {
        GG_FOR(j, V) memcpy(&m[j], w + j * GG_LANES / 2, sizeof *m);
        GG_FOR(r, rows) {
            const double value = x[r * k + i];
            const GG_N(doubles) one = {GG_REPEATED_HALF(value)};
            GG_FOR(j, V) sum[r * V + j] = GG_FMA_DOUBLES(one, m[j], sum[r * V + j]);
        }
    }
    if (columns == GG_GROUP) GG_FOR(r, rows) memcpy(y + r * n, sum + r * V, GG_GROUP * sizeof *y);
    else GG_FOR(r, rows) memcpy(y + r * n, sum + r * V, columns * sizeof *y);
}
GG_FUNCTION void GG_N(products_of_doubles)(double *y, const double *x, const double *w, size_t rows, size_t k,
                                           size_t n) {
    enum { SOME = GG_SUMS * GG_LANES / (2 * GG_GROUP) };
    for (size_t from = 0; from < n; from += GG_GROUP, w += k * GG_GROUP) {
        const size_t columns = n - from < GG_GROUP ? n - from : GG_GROUP;
        size_t r = 0;
        for (; r + SOME <= rows; r += SOME)
            GG_N(double_rows)(y + r * n + from, n, x + r * k, w, SOME, k, columns);
        for (; r < rows; r++) GG_N(double_rows)(y + r * n + from, n, x + r * k, w, 1, k, columns);
    }
}

/* The sums of as many rows as a vector has elements, behind which a vector may be read */
GG_INLINED GG_N(floats) GG_N(sums_of)(const float *x, size_t n, const int squares) {
    const GG_N(numbers) places = GG_PLACES, magnitude = {GG_REPEATED(0x7fffffff)};
    const GG_N(numbers) last = places < (int32_t)(n % GG_LANES);    /* of the elements behind whole vectors */
    GG_N(floats) sum[GG_LANES];
    GG_FOR(r, GG_LANES) {
        const float *row = x + r * n;
        GG_N(floats) s = {0};
        size_t k = 0;
        for (; k + GG_LANES <= n; k += GG_LANES) {
            const GG_N(floats) v = GG_N(load)(row + k);
            s = squares ? GG_FMA(v, v, s) : s + (GG_N(floats))((GG_N(numbers))v & magnitude);
        }
        if (k < n) {
            const GG_N(floats) v = (GG_N(floats))((GG_N(numbers))GG_N(load)(row + k) & last);
            s = squares ? GG_FMA(v, v, s) : s + (GG_N(floats))((GG_N(numbers))v & magnitude);
        }
        sum[r] = s;
    }
    for (int half = GG_LANES / 2; half; half /= 2)
        for (int r = 0; r < half; r++)
            sum[r] = GG_EVERY(sum[2 * r], sum[2 * r + 1], 0) + GG_EVERY(sum[2 * r], sum[2 * r + 1], 1);
    return sum[0];
}
GG_FUNCTION void GG_N(sums)(float *y, const float *x, size_t rows, size_t n, size_t left, int squares) {
    float part[GG_LANES * (GG_LONGEST + 1)] = {0};
    for (; rows; ) {
        const size_t some = rows < GG_LANES ? rows : GG_LANES;
        const float *from = x;
        if (left < GG_LANES * (n + 1)) from = memcpy(part, x, some * n * sizeof *x);
        const GG_N(floats) s = squares ? GG_N(sums_of)(from, n, 1) : GG_N(sums_of)(from, n, 0);
        memcpy(y, &s, some * sizeof *y);
        rows -= some, x += some * n, y += some, left -= some * n;
    }
}

static const gg_short_rows GG_N(functions) = {GG_N(one), GG_N(two), GG_N(few), GG_N(products_of_doubles), GG_N(sums)};
#undef GG_BYTES
#undef GG_LANES
#undef GG_N
#undef GG_REPEATED
#undef GG_REPEATED_HALF
#undef GG_PLACES
#undef GG_TARGET
#undef GG_EVERY
#undef GG_FMA
#undef GG_FMA_DOUBLES
#endif
