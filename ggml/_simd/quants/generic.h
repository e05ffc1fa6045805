/* to_f32 and dot of every quantised type, from two small functions of the type: the integers of 32 elements (chunk) and the
 * scales of a block (for each 16 elements d, and m, which is subtracted; types with one scale in 32 give it twice). These are
 * inlined into the loops here, which have compile-time shapes: a type costs two functions and two one-line instances. */
#ifndef GG_QUANTS_GENERIC_H
#define GG_QUANTS_GENERIC_H
#include "bytes/bytes.h"

#define INLINED static inline __attribute__((always_inline))

typedef vb (*chunk_fn)(const void *block, int j);                    /* elements 32 j .. 32 j + 31, without bias */
typedef void (*scales_fn)(const void *block, float *d, float *m);

typedef struct { int bytes, chunks; chunk_fn chunk; scales_fn scales; bool is_unsigned, has_min; } quant_type;

INLINED void generic_to_f32(quant_type t, const void *x, float *y, int64_t n) {
    const char *b = x, *end = b + n / (32 * t.chunks) * t.bytes;
    for (; b < end; b += t.bytes, y += 32 * t.chunks) {
        float d[16], m[16];
        t.scales(b, d, m);
#pragma GCC unroll 8
        for (int j = 0; j < t.chunks; j++)
            vb_store_f32(y + 32 * j, t.chunk(b, j), d[2 * j], d[2 * j + 1], t.has_min ? m[2 * j] : 0, t.has_min ? m[2 * j + 1] : 0);
    }
}

INLINED vq chunk_dot(quant_type t, const void *block, int j, const int8_t *y) {
    const vb q = t.chunk(block, j), v = vb_load(y);
    return t.is_unsigned ? vq_dot_us(q, v) : vq_dot_ss(q, v);
}

/* With blocks of Q8_K: 256 elements. */
INLINED void generic_dot_q8_K(quant_type t, int64_t n, float *s, const void *x, const void *y) {
    const char *b = x;
    const block_q8_K *a = y, *end = a + n / 256;
    va sum = va_zero();
    for (; a < end; a++, b += t.bytes) {
        float d[16], m[16];
        t.scales(b, d, m);
        va even = va_zero(), odd = va_zero();
#pragma GCC unroll 8
        for (int j = 0; j < 8; j += 2) {
            even = va_madd(even, chunk_dot(t, b, j, a->qs + 32 * j), d[2 * j], d[2 * j + 1]);
            odd = va_madd(odd, chunk_dot(t, b, j + 1, a->qs + 32 * j + 32), d[2 * j + 2], d[2 * j + 3]);
        }
        sum = va_scale(sum, va_add(even, odd), a->d);
        if (t.has_min) sum = va_scale(sum, va_dot16(va_zero(), m, a->bsums), -a->d);
    }
    *s = va_sum(sum);
}

/* With blocks of Q8_0: t.chunks of them for a block of the type. */
INLINED void generic_dot_q8_0(quant_type t, int64_t n, float *s, const void *x, const void *y) {
    const char *b = x, *end = b + n / (32 * t.chunks) * t.bytes;
    const block_q8_0 *a = y;
    va sum[2] = {va_zero(), va_zero()};
    for (; b < end; b += t.bytes, a += t.chunks) {
        float d[16], m[16];
        t.scales(b, d, m);
#pragma GCC unroll 8
        for (int j = 0; j < t.chunks; j++) {
            const float dy = gg_half_f32(a[j].d);
            sum[j & 1] = va_madd(sum[j & 1], chunk_dot(t, b, j, a[j].qs), d[2 * j] * dy, d[2 * j + 1] * dy);
        }
    }
    *s = va_sum(va_add(sum[0], sum[1]));
}

/* With blocks of Q8_1: one chunk, m subtracted from each element. The sum of the block is taken anew, because its s is a half. */
INLINED void generic_dot_q8_1(quant_type t, int64_t n, float *s, const void *x, const void *y) {
    const char *b = x, *end = b + n / 32 * t.bytes;
    const block_q8_1 *a = y;
    va sum = va_zero(), mins = va_zero();
    for (; b < end; b += t.bytes, a++) {
        float d[16], m[16];
        t.scales(b, d, m);
        const float dy = gg_half_f32(a->d);
        sum = va_madd(sum, chunk_dot(t, b, 0, a->qs), d[0] * dy, d[0] * dy);
        mins = va_madd(mins, vq_dot_us(vb_set1(1), vb_load(a->qs)), m[0] * dy, m[0] * dy);
    }
    *s = va_sum(sum) - va_sum(mins);
}

/* Instances: <t>_to_f32 and <t>_dot from <t>_chunk and <t>_scales. */
#define QUANT_TYPE(t, CHUNKS, IS_UNSIGNED, HAS_MIN, PARTNER) \
    static void t##_to_f32(const void *x, float *y, int64_t n) { \
        generic_to_f32((quant_type){sizeof(block_##t), CHUNKS, t##_chunk, t##_scales, IS_UNSIGNED, HAS_MIN}, x, y, n); \
    } \
    static void t##_dot(int64_t n, float *s, const void *x, const void *y) { \
        generic_dot_##PARTNER((quant_type){sizeof(block_##t), CHUNKS, t##_chunk, t##_scales, IS_UNSIGNED, HAS_MIN}, n, s, x, y); \
    }

#endif
