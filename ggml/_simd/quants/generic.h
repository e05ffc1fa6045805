/* to_f32, dot and ints of every quantised type, from small functions of the type that give the integers of 32 elements
 * (a chunk) and the scales of a block. They are inlined into the loops here, whose shapes are compile-time constants,
 * so that a type costs these functions and a one-line instance. */
#ifndef GG_QUANTS_GENERIC_H
#define GG_QUANTS_GENERIC_H
#include "bytes/bytes.h"

#define INLINED static inline __attribute__((always_inline))

typedef vb (*chunk_fn)(const void *block, int j);                    /* elements 32 j .. 32 j + 31 */
typedef vb (*grid_fn)(const void *block, const volatile uint64_t *at, int j);   /* likewise, points of a grid */
typedef vb (*apply_fn)(vb v, const void *block, int j);

/* Bytes that need all eight bits stay signed where the matrix kernels want less in unsigned ones (vi_dot). */
#if defined GG_VEC_DOT && GG_VEC_DOT < 256
#define INTS_SIGNED(signed_by) ((signed_by) == 128)
#else
#define INTS_SIGNED(signed_by) false
#endif

/* The run of gg_ints: types with blocks of 256 keep these where products are added up in 16 bits and that is fastest,
 * always if vi_dot takes three instructions, else if four words fit. */
#ifndef GG_VEC_PAIRS
#define INTS_RUN(group, signed_by, most) 0
#elif GG_VEC_DOT < 256
#define INTS_RUN(group, signed_by, most) (INTS_SIGNED(signed_by) ? 0 : (group) == 64 ? 64 : 8)
#else
#define INTS_RUN(group, signed_by, most) ((group) < 64 && (most) < 64 ? 8 : 0)
#endif

/* Chunk j for gg_ints: half a group of 64, one of 32, or two of 16, at p; returns their end. d, off: two scales and two
 * mins. */
INLINED char *ints_store(char *p, int j, int group, vb q, int signed_by, bool mins, const float *d, const float *off) {
    if (signed_by && !INTS_SIGNED(signed_by)) q = vb_add(q, vb_set1(signed_by));
    if (group == 64) {
        vb_store(p, q);
        if (j % 2 == 0) return p + 32;
        memcpy(p + 32, d, sizeof *d);
        return p + 32 + sizeof *d;
    }
    const int step = group + (mins ? 8 : 4);
    if (group == 32) vb_store(p, q);
    else vb_store2(p, p + step, q);
    for (int i = 0; i < 32 / group; i++, p += step) {
        memcpy(p + group, d + i, sizeof *d);
        if (mins) memcpy(p + group + 4, off + i, sizeof *off);
    }
    return p;
}

/* For dot products: only with many bits an element memory sets the pace. */
INLINED void fetch_ahead(const char *b, int bytes, int elements) {
    for (int i = 0; 8 * bytes > 6 * elements && i < bytes; i += 64) __builtin_prefetch(b + GG_AHEAD + i);
}

/* ---- blocks of 32, 64 and 128 elements: a float scale d for each 16 elements ------------------------------------ */
/* An element is d (q - bias) + min, min a float of the block. Chunks hold q: unsigned, or signed and unsigned once
 * signed_by is added. */
typedef struct {
    int bytes, chunks, bias;
    chunk_fn chunk;
    void (*scales)(const void *block, float *d);    /* two for each chunk */
    float (*min)(const void *block);                /* NULL: 0 */
    bool halves_differ;
    int signed_by;                                  /* 0: unsigned */
    uint32_t (*plus)(const void *block, int j);     /* which of a chunk are d, the others being -d; NULL: other values */
} small_type;

INLINED void small_to_f32(small_type t, const void *x, float *y, int64_t n) {
    const char *b = x, *end = b + n / (32 * t.chunks) * t.bytes;
    for (; b < end; b += t.bytes, y += 32 * t.chunks) {
        float d[8];
        t.scales(b, d);
        const float off = t.min ? -t.min(b) : 0;
#pragma GCC unroll 4
        for (int j = 0; j < t.chunks; j++) {
            const vb q = t.bias ? vb_sub(t.chunk(b, j), vb_set1(t.bias)) : t.chunk(b, j);
            vb_store_f32(y + 32 * j, q, d[2 * j], d[2 * j + 1], off, off);
        }
    }
}
INLINED void small_unpack(small_type t, const void *x, void *groups, int64_t n) {
    const char *b = x, *end = b + n / (32 * t.chunks) * t.bytes;
    for (char *p = groups; b < end; b += t.bytes) {
        float d[8];
        t.scales(b, d);
        const float off = t.min ? -t.min(b) : 0;
#pragma GCC unroll 4
        for (int j = 0; j < t.chunks; j++)
            p = ints_store(p, j, t.halves_differ ? 16 : 32, t.chunk(b, j), t.signed_by, t.min, d + 2 * j, &off);
    }
}

/* The partner, Q8_0 or Q8_1, widened: see gg_widen_fn. */
typedef struct { float d, sum; } wide_scale;
INLINED void small_lay_out(int block, const void *partner, void *wide, int64_t n) {
    const char *a = partner;
    int8_t *qs = wide;
    wide_scale *scale = (wide_scale *)(qs + n);
    for (; n > 0; n -= 32, a += block, qs += 32, scale++) {
        int sum = 0;
        memcpy(qs, a + block - 32, 32);
        for (int i = 0; i < 32; i++) sum += qs[i];
        scale->d = gg_half_of_two(a, 0);
        scale->sum = scale->d * (float)sum;
    }
}
/* One block with t.chunks blocks of the partner. */
INLINED va small_step(small_type t, const char *b, const int8_t *qs, const wide_scale *a, va sum, vd *mins) {
    if (t.min) {
        const vd scaled = vd_times(b, &a->d);
        *mins = vd_add(*mins, scaled);
        return va_madd1(sum, vq_dot_us(t.chunk(b, 0), vb_load(qs)), vd_first(scaled));
    }
    float d[8];
    t.scales(b, d);
    va all = va_zero();                         /* several chunks of one scale */
#pragma GCC unroll 4
    for (int j = 0; j < t.chunks; j++) {
        const vb v = vb_load(qs + 32 * j);
        const vq dot = t.plus ? vq_dot_us(vb_set1(1), vb_negate(v, t.plus(b, j)))
            : t.signed_by ? vq_dot_ss(t.chunk(b, j), v) : vq_dot_less(t.chunk(b, j), t.bias, v);
        const float dy = a[j].d;
        if (t.plus) all = va_madd1(all, dot, dy);
        else if (t.halves_differ) sum = va_madd(sum, dot, d[2 * j] * dy, d[2 * j + 1] * dy);
        else sum = va_madd1(sum, dot, d[2 * j] * dy);
    }
    return t.plus ? va_scale(sum, all, -d[0]) : sum;
}
INLINED void small_dot(small_type t, int64_t n, float *s, const void *x, const void *y) {
    const char *b = x, *end = b + n / (32 * t.chunks) * t.bytes;
    const int8_t *qs = y;
    const wide_scale *a = (const wide_scale *)(qs + n);
    const int step = 32 * t.chunks;
    va even = va_zero(), odd = va_zero();       /* two chains of additions, to hide their latency */
    vd mins_even = vd_zero(), mins_odd = vd_zero();
    for (; end - b >= 2 * t.bytes; b += 2 * t.bytes, qs += 2 * step, a += 2 * t.chunks) {
        fetch_ahead(b, 2 * t.bytes, 2 * step);
        even = small_step(t, b, qs, a, even, &mins_even);
        odd = small_step(t, b + t.bytes, qs + step, a + t.chunks, odd, &mins_odd);
    }
    if (b < end) even = small_step(t, b, qs, a, even, &mins_even);
    *s = va_sum(va_add(even, odd));
    if (t.min) *s += vd_second(vd_add(mins_even, mins_odd));
}

/* ---- blocks of 256 elements: an integer scale s, and m to subtract, for each 16 elements ------------------------ */
/* An element is d s (q - bias) - dmin m, with a sign of its own where the type has signs. Chunks hold q: unsigned, or
 * signed; these, and those that have signs, are unsigned once signed_by is added. */
typedef struct { vs s, m; } k_scales;
typedef gg_half (*half_fn)(const void *block);
typedef struct {
    int bytes, bias;
    float unit;                                     /* of d: 1, or a power of two */
    half_fn d, dmin;                                /* dmin NULL: there is no m */
    chunk_fn chunk;
    chunk_fn shifted;                               /* 4 q where j is odd, else q: quicker, for products; NULL: none */
    k_scales (*scales)(const void *block);
    void (*signs)(const void *block, uint32_t minus[8]);    /* which elements of each chunk have one; NULL: none */
    int signed_by;
    int group;                                      /* elements to a scale: 16, 32, or 64: the scales are 1, |q| < 4
                                                     * or, if signed, < 2 */
    grid_fn grid;                                   /* instead of chunk */
    void (*indices)(const void *block, uint64_t at[16]);    /* of those points, four to a word */
    apply_fn adjust;                                /* of q; but in products groups have biases, m = s bias; NULL: none */
    int run;                                        /* of gg_ints */
} k_type;

/* Indices go through memory: without volatile GCC takes them from the vectors, which is slower. */
INLINED vb k_points(k_type t, const void *b, const uint64_t *at, int j) {
    return t.grid ? t.grid(b, at, j) : t.chunk(b, j);
}
INLINED vb k_chunk(k_type t, const void *b, const uint64_t *at, int j) {
    const vb q = k_points(t, b, at, j);
    return t.adjust ? t.adjust(q, b, j) : q;
}
INLINED void k_floats(k_type t, const void *b, float d[16], float m[16]) {
    const k_scales k = t.scales(b);
    vs_to_f32(d, k.s, gg_half_f32(t.d(b)) * t.unit);
    if (t.dmin) vs_to_f32(m, k.m, gg_half_f32(t.dmin(b)));
}
INLINED void k_to_f32(k_type t, const void *x, float *y, int64_t n) {
    const char *b = x, *end = b + n / 256 * t.bytes;
    for (; b < end; b += t.bytes, y += 256) {
        float d[16], m[16];
        uint64_t at[16] __attribute__((aligned(32)));
        uint32_t minus[8];
        k_floats(t, b, d, m);
        if (t.indices) t.indices(b, at);
        if (t.signs) t.signs(b, minus);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            vb q = k_chunk(t, b, at, j);
            if (t.bias) q = vb_sub(q, vb_set1(t.bias));
            if (t.signs) q = vb_negate(q, minus[j]);
            vb_store_f32(y + 32 * j, q, d[2 * j], d[2 * j + 1], t.dmin ? m[2 * j] : 0, t.dmin ? m[2 * j + 1] : 0);
        }
    }
}
#ifdef GG_VEC_PAIRS
INLINED void k_unpack_blocks(k_type t, const void *x, void *blocks, int64_t n) {
    const char *b = x, *end = b + n / 256 * t.bytes;
    for (char *p = blocks; b < end; b += t.bytes) {
        const k_scales k = t.scales(b);
        float m[16];
        int16_t s[16];
        uint64_t at[16] __attribute__((aligned(32)));
        uint32_t minus[8];
        const float d = gg_half_f32(t.d(b)) * t.unit;
        vs_store(s, k.s);
        if (t.indices) t.indices(b, at);
        if (t.signs) t.signs(b, minus);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            vb q = k_chunk(t, b, at, j);
            if (t.signs) q = vb_negate(q, minus[j]);
            vb_store_halves(p, t.signed_by ? vb_add(q, vb_set1(t.signed_by)) : q);
            p += 32;
            if (t.group == 64 && j < 7) continue;
            memcpy(p, s + 2 * j, 4);
            p += 4;
        }
        memcpy(p, &d, 4);
        p += 4;
        if (!t.dmin) continue;
        vs_to_f32(m, k.m, gg_half_f32(t.dmin(b)));
        for (int i = 0; i < 16; i += t.group / 16, p += 4) memcpy(p, m + i, 4);
    }
}
#endif
INLINED void k_unpack(k_type t, const void *x, void *groups, int64_t n) {
#ifdef GG_VEC_PAIRS
    if (t.run) { k_unpack_blocks(t, x, groups, n); return; }
#endif
    const char *b = x, *end = b + n / 256 * t.bytes;
    for (char *p = groups; b < end; b += t.bytes) {
        float d[16], m[16];
        uint64_t at[16] __attribute__((aligned(32)));
        uint32_t minus[8];
        k_floats(t, b, d, m);
        if (t.indices) t.indices(b, at);
        if (t.signs) t.signs(b, minus);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            vb q = k_chunk(t, b, at, j);
            if (t.signs) q = vb_negate(q, minus[j]);
            p = ints_store(p, j, t.group, q, t.signed_by, t.dmin, d + 2 * j, m + 2 * j);
        }
    }
}

/* The partner, Q8_K, widened: these, then the d of all blocks and zeros to a multiple of four. pairs: sums of elements
 * 2 i and 2 i + 1 of all chunks. */
typedef struct { int8_t qs[256]; int16_t bsums[16], pairs[16]; } wide_q8_K;
_Static_assert(sizeof(wide_q8_K) + 4 * sizeof(float) <= 256 / 32 * GG_LAYOUT_BYTES, "there is room for d");
static void q8_K_lay_out(const void *partner, void *wide, int64_t n) {
    const block_q8_K *a = partner, *end = a + n / 256;
    wide_q8_K *w = wide;
    float *d = (float *)(w + n / 256);
    for (; a < end; a++, w++) {
        memcpy(w->qs, a->qs, sizeof w->qs);
        memcpy(w->bsums, a->bsums, sizeof w->bsums);
        memset(w->pairs, 0, sizeof w->pairs);
        for (int j = 0; j < 256; j += 32)
            for (int i = 0; i < 16; i++) w->pairs[i] = (int16_t)(w->pairs[i] + a->qs[j + 2 * i] + a->qs[j + 2 * i + 1]);
        *d++ = a->d;
    }
    memset(d, 0, (size_t)(-(n / 256) & 3) * sizeof *d);
}

/* The halves of m <= 4 blocks as floats times those at d; then zeros. */
INLINED void k_halves(half_fn half, int bytes, const char *b, int m, const float *d, float out[4]) {
    if (m == 4) {
        vd_four(out, half(b), half(b + bytes), half(b + 2 * bytes), half(b + 3 * bytes), d);
        return;
    }
    for (int i = 0; i < 4; i++) out[i] = i < m ? gg_half_f32(half(b + i * bytes)) * d[i] : 0;
}
/* The sums of products of one block's q, scaled. */
INLINED vq k_block(k_type t, const char *b, const uint64_t *at, const uint32_t *minus, vs scales, const wide_q8_K *a) {
    const bool is_signed = t.signed_by && !t.signs;
    vn few[2] = {vn_zero(), vn_zero()};
    vq acc[2] = {vq_zero(), vq_zero()};
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const vb q = t.shifted ? t.shifted(b, j) : k_points(t, b, at, j);
        vb v = vb_load(a->qs + 32 * j);
        if (t.signs) v = vb_negate(v, minus[j]);
        vq *const to = acc + (j & 1);
        vn *const small = few + (j & 1);
        if (t.group == 64) *small = is_signed ? vn_madd_signs(*small, q, v) : vn_madd(*small, q, v);
        else *to = is_signed ? vq_madd_ss(*to, q, v, scales, j) : vq_madd_us(*to, q, v, scales, j);
    }
    if (t.group < 64) return vq_add(acc[0], t.shifted ? vq_quarter(acc[1]) : acc[1]);
    const vn sum = vn_add(few[0], t.shifted ? vn_quarter(few[1]) : few[1]);
    return vn_sum(t.bias ? vn_less(sum, a->pairs) : sum);
}
/* Four blocks at a time. What goes through memory is made for all four, not to wait for it in each. Where there is a bias
 * but lanes of the two terms do not match, what cancels must do so before it is rounded. */
INLINED void k_dot(k_type t, int64_t n, float *s, const void *x, const void *y) {
    const bool apart = t.bias && t.group < 64;
    const char *b = x;
    const wide_q8_K *a = y, *end = a + n / 256;
    const float *d = (const float *)end;
    va sum = va_zero(), mins = va_zero();
    for (; a < end; d += 4) {
        const int m = end - a < 4 ? (int)(end - a) : 4;
        float scale[4], min[4];
        vq q[4];
        uint64_t at[4][16] __attribute__((aligned(32)));
        uint32_t minus[4][8];
        for (int i = 0; t.indices && i < m; i++) t.indices(b + i * t.bytes, at[i]);
        for (int i = 0; t.signs && i < m; i++) t.signs(b + i * t.bytes, minus[i]);
        const char *const first = b;
        if (!apart) k_halves(t.d, t.bytes, b, m, d, scale);
        if (t.dmin) k_halves(t.dmin, t.bytes, b, m, d, min);
#pragma GCC unroll 1
        for (int i = 0; i < m; i++, a++, b += t.bytes) {
            fetch_ahead(b, t.bytes, 256);
            const k_scales k = t.scales(b);
            const vq block = k_block(t, b, at[i], minus[i], k.s, a);
            if (apart) q[i] = vq_sub(block, vq_dot_vs(t.adjust ? k.m : vs_times(k.s, vs_set1(t.bias)), a->bsums));
            else sum = va_madd1(sum, block, scale[i]);
            if (t.dmin) mins = va_madd1(mins, vq_dot_vs(k.m, a->bsums), min[i]);
        }
        for (int i = m; apart && i < 4; i++) q[i] = vq_zero();
        if (apart) {                            /* not sooner: blocks are best read in their order */
            k_halves(t.d, t.bytes, first, m, d, scale);
            sum = va_madd_sums(sum, q, scale);
        }
    }
    *s = va_sum(sum) * t.unit;
    if (t.dmin) *s -= va_sum(mins);
}

/* Instances: <t>_to_f32, <t>_dot and <t>_ints of a type described by TYPE. MOST: the greatest q, once unsigned. */
#define INSTANCE(t, TYPE, KIND, GROUP, BIAS, SIGNED_BY, MOST, MINS, RUN) \
    static void t##_to_f32(const void *x, float *y, int64_t n) { KIND##_to_f32(TYPE, x, y, n); } \
    static void t##_dot(int64_t n, float *s, const void *x, const void *y) { KIND##_dot(TYPE, n, s, x, y); } \
    static void t##_unpack(const void *x, void *groups, int64_t n) { KIND##_unpack(TYPE, x, groups, n); } \
    static const gg_ints t##_ints = {t##_unpack, GROUP, INTS_SIGNED(SIGNED_BY) ? 0 : (BIAS) + (SIGNED_BY), MOST, MINS, \
                                     INTS_SIGNED(SIGNED_BY), RUN};
#define SMALL_TYPE(t, CHUNKS, BIAS, MIN, SIGNED_BY, MOST, HALVES_DIFFER, PLUS) \
    static const small_type t##_type = {sizeof(block_##t), CHUNKS, BIAS, t##_chunk, t##_scales, MIN, HALVES_DIFFER, \
                                        SIGNED_BY, PLUS}; \
    INSTANCE(t, t##_type, small, HALVES_DIFFER ? 16 : 32, BIAS, SIGNED_BY, MOST, (MIN) != NULL, 0)
#define K_TYPE(t, UNIT, GROUP, BIAS, SIGNS, DMIN, SIGNED_BY, MOST, SHIFTED) \
    INSTANCE(t, ((k_type){sizeof(block_##t), BIAS, UNIT, t##_d, DMIN, t##_chunk, SHIFTED, t##_scales, SIGNS, SIGNED_BY, \
                          GROUP, NULL, NULL, NULL, INTS_RUN(GROUP, SIGNED_BY, MOST)}), \
             k, GROUP, BIAS, SIGNED_BY, MOST, (DMIN) != NULL, INTS_RUN(GROUP, SIGNED_BY, MOST))
#define GRID_TYPE(t, UNIT, GROUP, BIAS, SIGNS, ADJUST, SIGNED_BY, MOST) \
    INSTANCE(t, ((k_type){sizeof(block_##t), BIAS, UNIT, t##_d, NULL, NULL, NULL, t##_scales, SIGNS, SIGNED_BY, \
                          GROUP, t##_grid, t##_indices, ADJUST, INTS_RUN(GROUP, SIGNED_BY, MOST)}), \
             k, GROUP, BIAS, SIGNED_BY, MOST, false, INTS_RUN(GROUP, SIGNED_BY, MOST))

#endif
