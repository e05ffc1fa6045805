/* The generic loops behind <type>_to_f32, <type>_dot and <type>_ints of every quantised type. A type contributes small
 * functions that return the codes of 32 elements (a chunk) and the scales of a block, and a one-line instance in
 * decode.h. The functions are inlined into the loops, whose shapes are compile-time constants.
 *
 * Terms, in all of quants/:
 *   code             integer q that stands for an element
 *   bias             constant that is subtracted from codes: element = scale (q - bias)
 *   scale group      consecutive elements that share a scale
 *   minimum          value that is subtracted from the elements of a scale group: element = scale q - minimum
 *   activation type  type of the second operand of a dot product: Q8_0, Q8_1 or Q8_K
 *   activation layout  the second operand, rounded to the codes of the activation type and arranged once for dot
 *                    products with many rows (activation.h) */
#ifndef GG_QUANTS_GENERIC_H
#define GG_QUANTS_GENERIC_H
#include "activation.h"

#define INLINED static inline __attribute__((always_inline))

typedef vb (*chunk_fn)(const void *block, int j);                    /* the codes of elements 32 j .. 32 j + 31 */
typedef vb (*grid_fn)(const void *block, const volatile uint64_t *at, int j);   /* likewise; at: grid indices */
typedef vb (*apply_fn)(vb v, const void *block, int j);

/* Codes that need all eight bits stay signed where the byte products of vec/ require smaller unsigned bytes. */
#if defined GG_VEC_PAIRS || (defined GG_VEC_DOT && GG_VEC_DOT < 256)
#define INTS_SIGNED(signed_by) ((signed_by) == 128)
#else
#define INTS_SIGNED(signed_by) false
#endif

/* gg_ints.scale_group: types with blocks of 256 are unpacked into blocks (gemm/int8_blocks.h) where products are added
 * in 16 bits. */
#ifdef GG_VEC_PAIRS
#define INTS_SCALE_GROUP(group, signed_by) (INTS_SIGNED(signed_by) ? 0 : (group) == 64 ? 64 : 8)
#else
#define INTS_SCALE_GROUP(group, signed_by) 0
#endif
/* gg_ints.group: signed codes of two bytes are multiplied by their scales, so that many elements are one group. */
#ifdef GG_VEC_PAIRS
#define INTS_GROUP(group, signed_by) (INTS_SIGNED(signed_by) ? 256 : (group) > 32 ? 32 : (group))
#else
#define INTS_GROUP(group, signed_by) ((group) > 32 ? 32 : (group))
#endif

/* Stores a chunk in the format of gg_ints at p: one scale group of 32, or two of 16. d and m hold two scales and two
 * minima. Returns the end of what it wrote. */
INLINED char *store_ints(char *p, int group, vb q, int signed_by, bool minima, const float *d, const float *m) {
    if (signed_by && !INTS_SIGNED(signed_by)) q = vb_add(q, vb_set1(signed_by));
    const int step = group + (minima ? 8 : 4);
    if (group == 32) vb_store(p, q);
    else vb_store_lo_hi(p, p + step, q);
    for (int i = 0; i < 32 / group; i++, p += step) {
        memcpy(p + group, d + i, sizeof *d);
        if (minima) memcpy(p + group + 4, m + i, sizeof *m);
    }
    return p;
}

/* Prefetches for dot products. far: only to the second cache, as the first would replace it before it is used. */
INLINED void prefetch(const char *b, int bytes, const bool far) {
    for (int i = 0; i < bytes; i += 64)
        if (far) __builtin_prefetch(b + i, 0, 2);
        else __builtin_prefetch(b + i);
}

/* ---- small types: blocks of 32, 64 and 128 elements, a float scale for each 16 elements -------------------------- */
/* element = d (q - bias) + min */
typedef struct {
    int bytes, chunks, bias;
    chunk_fn chunk;
    void (*scales)(const void *block, float *d);    /* two for each chunk */
    float (*min)(const void *block);                /* one for the block; NULL: 0 */
    bool two_scales;                                /* the scales of a chunk differ */
    int signed_by;                                  /* 0: codes are unsigned; else signed, and q + signed_by unsigned */
    uint32_t (*plus)(const void *block, int j);     /* types of one bit: a set bit is d, a clear one -d; else NULL */
    bool halves;                                    /* a block is one chunk and begins with its scale and minimum */
} small_type;

INLINED void small_to_f32(small_type t, const void *x, float *y, int64_t n) {
    const char *b = x, *end = b + n / (32 * t.chunks) * t.bytes;
    for (; b < end; b += t.bytes, y += 32 * t.chunks) {
        float d[8];
        t.scales(b, d);
        const float m = t.min ? -t.min(b) : 0;
#pragma GCC unroll 4
        for (int j = 0; j < t.chunks; j++) {
            const vb q = t.bias ? vb_sub(t.chunk(b, j), vb_set1(t.bias)) : t.chunk(b, j);
            vb_store_f32(y + 32 * j, q, d[2 * j], d[2 * j + 1], m, m);
        }
    }
}
#ifdef GG_VEC_PAIRS
enum { SCALED_BITS = 5 };       /* by which codes times the largest scale of a group are shifted: they have 13 then */
/* Scales as parts of the largest one, times 2^15; returns that. Where it is infinite or NaN, and with it the product,
 * only such scales count. */
INLINED float scale_parts(float d[VW], int n, int32_t parts[VW]) {
    uint32_t top = 0;
    float most;
    for (int i = 0; i < n; i++) {           /* bits are ordered like sizes, NaN last: their maximum needs no branches */
        uint32_t bits;
        memcpy(&bits, d + i, sizeof bits);
        bits &= 0x7fffffff;
        top = bits > top ? bits : top;
    }
    memcpy(&most, &top, sizeof most);
    const bool finite = most < GG_INF;
    for (int i = 0; i < n && !finite; i++) d[i] = __builtin_fabsf(d[i]) < GG_INF ? 0 : __builtin_copysignf(1, d[i]);
    const float times = !finite ? 32768 : most > 0 ? 32768 / most : 0;
    vi_store(parts, vf_to_vi(vf_min(vf_mul(vf_load(d), vf_set1(times)), vf_set1(32767))));
    return most;
}
/* n signed codes, at most 256, times their scales: one scale group. */
INLINED void small_unpack_scaled(small_type t, const void *x, void *group, int64_t n) {
    const char *b = x;
    char *p = group;
    const int blocks = (int)n / 32;
    float d[VW] = {0}, two[2];
    int32_t parts[VW];
    for (int i = 0; i < blocks; i++) t.scales(b + i * t.bytes, two), d[i] = two[0];
    const float scale = scale_parts(d, blocks, parts) / (1 << SCALED_BITS);
    for (int i = 0; i < blocks; i++, b += t.bytes, p += 64) {
        int8_t codes[32];
        const vs part = vs_set1(parts[i]);
        vb_store(codes, t.chunk(b, 0));
        vs_store(p, vs_mul_part(vs_load_i8(codes), SCALED_BITS, part));
        vs_store(p + 32, vs_mul_part(vs_load_i8(codes + 16), SCALED_BITS, part));
    }
    memcpy(p, &scale, 4);
}
#endif
INLINED void small_unpack(small_type t, const void *x, void *groups, int64_t n) {
#ifdef GG_VEC_PAIRS
    if (INTS_SIGNED(t.signed_by)) { small_unpack_scaled(t, x, groups, n); return; }
#endif
    const char *b = x, *end = b + n / (32 * t.chunks) * t.bytes;
    for (char *p = groups; b < end; b += t.bytes) {
        float d[8];
        t.scales(b, d);
        const float m = t.min ? -t.min(b) : 0;
#pragma GCC unroll 4
        for (int j = 0; j < t.chunks; j++)
            p = store_ints(p, t.two_scales ? 16 : 32, t.chunk(b, j), t.signed_by, t.min, d + 2 * j, &m);
    }
}

#ifdef GG_VEC_COLUMNS
/* What takes the words of codes of a scale group of VW rows; d: the scales, m: the minima. Codes are unsigned, or
 * signed ones of two bytes, 16 at a time. */
typedef void (*group_fn)(void *to, const int words, const bool minima, const vi *w, vf d, vf m);
/* Gives the 32 signed codes in w to group, in one of these ways. */
INLINED void signed_group(group_fn group, void *to, vi w[8], vf d) {
#ifdef GG_VEC_PAIRS
#pragma GCC unroll 2
    for (int h = 0; h < 8; h += 4) {
        vi pairs[8];
        for (int q = 0; q < 4; q++) vc_pairs(pairs + 2 * q, w[h + q]);
        group(to, 8, false, pairs, d, vf_zero());
    }
#else
    for (int q = 0; q < 8; q++) w[q] = vc_flip_signs(w[q]);
    group(to, 8, false, w, d, vf_zero());
#endif
}

/* Stores them in panels, whose words are `width` floats apart. */
typedef struct { float *out; int width; } words_packer;
INLINED void pack_group(void *to, const int words, const bool minima, const vi *w, vf d, vf m) {
    words_packer *const p = to;
#pragma GCC unroll 8
    for (int q = 0; q < words; q++) vf_store(p->out + q * p->width, vi_float(w[q]));
    vf_store(p->out + words * p->width, d);
    if (minima) vf_store(p->out + (words + 1) * p->width, m);
    p->out += (words + 1 + minima) * p->width;
}
/* Adds their products with columns of b (gemm/int8_few.h) to sums, one column after the other: the words of the rows
 * stay in registers. depth: as many words as are added in 16 bits, where products are; 0: codes have two bytes. */
typedef struct {
    const int32_t *b;
    int columns, depth;
    float *sums;
    const char *ahead, *end;            /* what is prefetched: `each` bytes for each group */
    size_t each;
} words_factor;
INLINED vi times_words(const int depth, const int words, vi dot, const vi *w, const int32_t *b) {
#ifdef GG_VEC_PAIRS
#pragma GCC unroll 8
    for (int q = 0; depth == 0 && q < words; q++) dot = vi_madd_pairs(dot, w[q], vi_set1(b[q]));
    if (depth == 0) return dot;
#pragma GCC unroll 8
    for (int q = 0; q < depth; q++) dot = vi_add_pairs(dot, vi_pairs(w[q], vi_set1(b[q])));
    dot = vi_sum_pairs(dot);
    if (depth == words) return dot;
    vi rest = vi_pairs(w[depth], vi_set1(b[depth]));
#pragma GCC unroll 8
    for (int q = depth + 1; q < words; q++) rest = vi_add_pairs(rest, vi_pairs(w[q], vi_set1(b[q])));
    return vi_add(dot, vi_sum_pairs(rest));
#else
    (void)depth;
#pragma GCC unroll 8
    for (int q = 0; q < words; q++) dot = vi_dot(dot, w[q], vi_set1(b[q]));
    return dot;
#endif
}
INLINED void times_group(void *to, const int words, const bool minima, const vi *w, vf d, vf m) {
    words_factor *const f = to;
    const int32_t *b = f->b;
    for (f->end += f->each; f->ahead < f->end; f->ahead += 64) __builtin_prefetch(f->ahead, 0, 2);
#pragma GCC unroll 2
    for (float *sum = f->sums, *const end = sum + f->columns * VW; sum < end; sum += VW, b += words + 2) {
        const vi dot = times_words(f->depth, words, vi_set1(minima ? 0 : b[words + 1]), w, b);
        const vf scale = vf_mul(d, vi_float(vi_set1(b[words])));
        vf x = vf_fma(vi_to_vf(dot), scale, vf_load(sum));
        if (minima) x = vf_fma(m, vi_float(vi_set1(b[words + 1])), x);
        vf_store(sum, x);
    }
    f->b = b;
}
/* <t>_pack and <t>_times of a type whose words are packed in columns, by <t>_groups, which gives the words of n
 * elements of VW rows to a group_fn. LEAST: the fewest columns for which <t>_times is faster than dot products */
#define GROUPED(t, GROUP, DEPTH, LEAST) \
    enum { t##_least = LEAST }; \
    static void t##_pack(const char *x, size_t nb, int64_t n, float *out, int width) { \
        words_packer p = {out, width}; \
        t##_groups(x, nb, n, pack_group, &p); \
    } \
    static void t##_times(const char *x, size_t nb, int64_t n, int columns, const int32_t *b, float *sums, \
                          const char *ahead) { \
        words_factor f = {.b = b, .columns = columns, .depth = DEPTH, .sums = sums, .ahead = ahead, .end = ahead, \
                          .each = VW * nb / (size_t)(n / GROUP)}; \
        memset(sums, 0, (size_t)columns * VW * sizeof *sums); \
        t##_groups(x, nb, n, times_group, &f); \
    }
#define PACKED(t) t##_pack, t##_times, t##_least
#ifdef GG_VEC_PAIRS                     /* panels hold scaled codes, or blocks */
#define PACKED_K(t) NULL, t##_times, t##_least
#else
#define PACKED_K PACKED
#endif

/* Blocks that begin with their scale and minimum, a block of all rows at a time. */
typedef void (*words_fn)(vi w[8], const char *block, size_t nb);
INLINED void small_groups(int bytes, words_fn words, bool is_signed, bool minima, const char *x, size_t nb, int64_t n,
                          group_fn group, void *to) {
    for (const char *end = x + n / 32 * bytes; x < end; x += bytes) {
        vi w[8];
        const vi halves = vc_load(x, nb);
        words(w, x, nb);
        if (is_signed) signed_group(group, to, w, vc_half(halves, 0));
        else group(to, 8, minima, w, vc_half(halves, 0), minima ? vf_neg(vc_half(halves, 1)) : vf_zero());
    }
}
#else
#define PACKED UNPACKED
#define PACKED_K UNPACKED
#endif
#define UNPACKED(t) NULL, NULL, 0

/* The products of chunk j of a block with v, a chunk of the activation, from which `from` was made. */
INLINED vq small_products(small_type t, const char *b, int j, vb v, vq from) {
    if (t.plus) return vq_dot_us(vb_set1(1), vb_negate(v, t.plus(b, j)));
    return t.signed_by ? vq_dot_signed(from, t.chunk(b, j), v) : vq_dot_from(from, t.chunk(b, j), v);
}
/* Adds the products of a block of each row and t.chunks blocks of the activation to sum, and returns the scales and
 * minima times those of the activation. */
INLINED vp small_step(small_type t, const int rows, const char *b, size_t nb, const int8_t *qs, const layout_scale *a,
                      va *sum) {
    float d[GG_DOT_ROWS][8];
    va all[GG_DOT_ROWS];
    const vp pairs = t.halves ? vp_mul_halves(b, rows > 1 ? nb : 0, &a->d) : vp_zero();
    for (int r = 0; !t.halves && r < rows; r++) t.scales(b + (size_t)r * nb, d[r]);
#pragma GCC unroll 4
    for (int j = 0; j < t.chunks; j++) {
        const vb v = vb_load(qs + 32 * j);
        const vq from = t.signed_by ? vq_offset(128, v) : t.bias && !t.plus ? vq_offset(t.bias, v) : vq_zero();
        const float dy = t.halves ? 0 : a[j].d;
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const vq dot = small_products(t, b + (size_t)r * nb, j, v, from);
            if (t.plus) all[r] = va_madd1(j ? all[r] : va_zero(), dot, dy);
            else if (t.halves) sum[r] = va_madd_pair(sum[r], dot, pairs, r);
            else if (t.two_scales) sum[r] = va_madd(sum[r], dot, d[r][2 * j] * dy, d[r][2 * j + 1] * dy);
            else sum[r] = va_madd1(sum[r], dot, d[r][2 * j] * dy);
        }
    }
    for (int r = 0; t.plus && r < rows; r++) sum[r] = va_scale(sum[r], all[r], -d[r][0]);
    return pairs;
}
/* The sums of a row do not depend on the number of rows. */
INLINED void small_dot_rows(small_type t, const int rows, const bool far, int64_t n, float *s, const char *b,
                            size_t nb, const void *y, const char *ahead) {
    const int step = 32 * t.chunks;
    const int8_t *qs = y;
    const layout_scale *a = (const layout_scale *)(qs + n);
    const char *const end = b + n / step * t.bytes;
    va sum[GG_DOT_ROWS];
    vp minima = vp_zero();
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) sum[r] = va_zero();
#pragma GCC unroll 2
    for (; b < end; b += t.bytes, ahead += rows * t.bytes, qs += step, a += t.chunks) {
        prefetch(ahead, rows * t.bytes, far);
        const vp pairs = small_step(t, rows, b, nb, qs, a, sum);
        if (t.min) minima = vp_add(minima, pairs);
    }
    va_sums(s, sum, rows);
    if (t.min) vp_add_seconds(s, minima, rows);
}
INLINED void small_dot(small_type t, int64_t n, int rows, float *s, const void *x, size_t nb, const void *y,
                       const void *ahead) {
    const char *b = x, *to = ahead;
    if (rows < GG_DOT_ROWS)
        for (int r = 0; r < rows; r++, b += nb, to += nb) small_dot_rows(t, 1, false, n, s + r, b, nb, y, to);
    else if (rows * nb <= GG_PREFETCH_NEAR) small_dot_rows(t, GG_DOT_ROWS, false, n, s, b, nb, y, to);
    else small_dot_rows(t, GG_DOT_ROWS, true, n, s, b, nb, y, to);
}

/* ---- types with blocks of 256 elements: an integer scale s, and maybe a minimum m, for each 16 elements ---------- */
/* element = d s (q - bias) - dmin m, negated where the type has a sign for it */
typedef struct { vs s, m; } k_scales;
typedef gg_half (*half_fn)(const void *block);
typedef struct {
    int bytes, bias;
    float unit;                                     /* power of two by which d is multiplied */
    half_fn d, dmin;                                /* dmin NULL: there are no minima */
    chunk_fn chunk;
    chunk_fn shifted;                               /* for products: 4 q if j is odd, else q; saves shifts; or NULL */
    k_scales (*scales)(const void *block);
    void (*signs)(const void *block, uint32_t minus[8]);    /* a set bit negates an element of chunk j; or NULL */
    int signed_by;                                  /* 0: codes are unsigned; else signed, and q + signed_by unsigned */
    int group;                                      /* scale group: 16 or 32 elements; 64: all scales are 1 and q < 4,
                                                     * or |q| < 2 if codes are signed */
    grid_fn grid;                                   /* instead of chunk: codes are the points of a grid */
    void (*indices)(const void *block, uint64_t at[16]);    /* with these indices, four of 16 bits in a word */
    apply_fn adjust;                                /* changes the codes; in products each scale group has a bias
                                                     * instead, and m = s bias; or NULL */
    int scale_group;                                /* of gg_ints */
    ve (*eight)(const void *block, vs *minima);     /* for products, instead of scales; or NULL */
} k_type;

/* Indices are read from memory: without volatile GCC extracts them from vectors, which is slower. */
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
            vb_store_interleaved(p, t.signed_by ? vb_add(q, vb_set1(t.signed_by)) : q);
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
/* Signed codes times their scales: a block is one scale group. */
INLINED void k_unpack_scaled(k_type t, const void *x, void *groups, int64_t n) {
    const char *b = x, *end = b + n / 256 * t.bytes;
    for (char *p = groups; b < end; b += t.bytes, p += 4) {
        const float d = gg_half_f32(t.d(b)) * t.unit;
        int16_t s[16];
        vs_store(s, t.scales(b).s);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++, p += 64) {
            int8_t codes[32];
            vb_store(codes, t.chunk(b, j));
            vs_store(p, vs_mul(vs_load_i8(codes), vs_set1(s[2 * j])));
            vs_store(p + 32, vs_mul(vs_load_i8(codes + 16), vs_set1(s[2 * j + 1])));
        }
        memcpy(p, &d, 4);
    }
}
#endif
INLINED void k_unpack(k_type t, const void *x, void *groups, int64_t n) {
#ifdef GG_VEC_PAIRS
    if (INTS_SIGNED(t.signed_by)) { k_unpack_scaled(t, x, groups, n); return; }
    if (t.scale_group) { k_unpack_blocks(t, x, groups, n); return; }
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
            p = store_ints(p, t.group > 32 ? 32 : t.group, q, t.signed_by, t.dmin, d + 2 * j, m + 2 * j);
        }
    }
}

#ifdef GG_VEC_FOLDED
/* spare: the bits of 15 that no code times its scale needs; 0: products of the type are faster without (gg_ints). */
INLINED void k_fold(k_type t, int spare, const void *x, gg_folded *out, int64_t n) {
    const char *b = x, *end = b + n / 256 * t.bytes;
    for (; b < end; b += t.bytes, out++) {
        const k_scales k = t.scales(b);
        int16_t s[16];
        uint64_t at[16] __attribute__((aligned(32)));
        uint32_t minus[8];
        vs_store(s, vs_mul(k.s, vs_set1(1 << spare)));
        out->d = gg_half_f32(t.d(b)) * t.unit / (float)(1 << spare);
        if (t.dmin) out->dmin = gg_half_f32(t.dmin(b)), vs_to_f32(out->m, k.m, 1);
        if (t.indices) t.indices(b, at);
        if (t.signs) t.signs(b, minus);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            int8_t codes[32];
            vb q = k_chunk(t, b, at, j);
            if (t.bias) q = vb_sub(q, vb_set1(t.bias));
            if (t.signs) q = vb_negate(q, minus[j]);
            vb_store(codes, q);
            for (int h = 0; h < 2; h++) {
                const vs scaled = vs_mul(vs_load_i8(codes + 16 * h), vs_set1(s[2 * j + h]));
                vs_store(out->codes + 32 * j + 16 * h, vs_add(scaled, vs_set1(GG_FOLDED_BIAS)));
            }
        }
    }
}
#define FOLD(t, DESCRIPTION, SPARE) \
    static void t##_fold(const void *x, gg_folded *out, int64_t n) { k_fold(DESCRIPTION, SPARE, x, out, n); }
#define FOLDED(t, SPARE) ((SPARE) ? t##_fold : NULL)
#else
#define FOLD(t, DESCRIPTION, SPARE)
#define FOLDED(t, SPARE) NULL
#endif

/* out[i] = the half of block i times d[i], for m <= 4 blocks; the rest of out is 0. */
INLINED void k_halves(half_fn half, int bytes, const char *b, int m, const float *d, float out[4]) {
    if (m == 4) {
        vd_scale4(out, half(b), half(b + bytes), half(b + 2 * bytes), half(b + 3 * bytes), d);
        return;
    }
    for (int i = 0; i < 4; i++) out[i] = i < m ? gg_half_f32(half(b + i * bytes)) * d[i] : 0;
}
/* The sum of s q p over the codes q of block b and the codes p of an activation. It does not subtract the bias where
 * scale groups are smaller than 64. */
INLINED vq k_block(k_type t, const char *b, const uint64_t *at, const uint32_t *minus, vs scales,
                   ve eight, const q8_K_layout *a) {
    const bool is_signed = t.signed_by && !t.signs;
    vn narrow[2] = {vn_zero(), vn_zero()};
    vq acc[2] = {vq_zero(), vq_zero()};
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const vb q = t.shifted ? t.shifted(b, j) : k_points(t, b, at, j);
        vb v = vb_load(a->qs + 32 * j);
        if (t.signs) v = vb_negate(v, minus[j]);
        vq *const to = acc + (j & 1);
        vn *const small = narrow + (j & 1);
        if (t.group == 64) *small = is_signed ? vn_madd_signs(*small, q, v) : vn_madd(*small, q, v);
        else if (t.eight) *to = vq_madd_us8(*to, q, v, eight, j);
        else *to = is_signed ? vq_madd_ss(*to, q, v, scales, j) : vq_madd_us(*to, q, v, scales, j);
    }
    if (t.group < 64) return vq_add(acc[0], t.shifted ? vq_div4(acc[1]) : acc[1]);
    const vn sum = vn_add(narrow[0], t.shifted ? vn_div4(narrow[1]) : narrow[1]);
    return vn_sum(t.bias ? vn_sub_i16(sum, a->pairs) : sum);
}
/* Processes four blocks at a time: indices and signs of all four are stored before the first is used, which hides the
 * latency of the loads. With a bias, terms that cancel lie in different lanes; `exact` therefore sums the integers of
 * all lanes before it rounds. */
INLINED void k_dot_row(k_type t, int64_t n, float *s, const void *x, const void *y, const char *ahead) {
    const bool exact = t.bias && t.group < 64;
    const char *b = x;
    const q8_K_layout *a = y, *end = a + n / 256;
    const float *d = (const float *)end;
    va sum = va_zero(), minima = va_zero();
    for (; a < end; d += 4) {
        const int m = end - a < 4 ? (int)(end - a) : 4;
        float scale[4], min[4];
        vq q[4];
        uint64_t at[4][16] __attribute__((aligned(32)));
        uint32_t minus[4][8];
        for (int i = 0; t.indices && i < m; i++) t.indices(b + i * t.bytes, at[i]);
        for (int i = 0; t.signs && i < m; i++) t.signs(b + i * t.bytes, minus[i]);
        const char *const first = b;
        if (!exact) k_halves(t.d, t.bytes, b, m, d, scale);
        if (t.dmin) k_halves(t.dmin, t.bytes, b, m, d, min);
#pragma GCC unroll 1
        for (int i = 0; i < m; i++, a++, b += t.bytes, ahead += t.bytes) {
            prefetch(ahead, t.bytes, true);
            k_scales k;
            ve eight;
            if (t.eight) eight = t.eight(b, &k.m);
            else k = t.scales(b);
            const vq block = k_block(t, b, at[i], minus[i], k.s, eight, a);
            if (exact) q[i] = vq_sub(block, vq_dot_vs(t.adjust ? k.m : vs_mul(k.s, vs_set1(t.bias)), a->bsums));
            else sum = va_madd1(sum, block, scale[i]);
            if (t.dmin) minima = va_madd1(minima, vq_dot_vs(k.m, a->bsums), min[i]);
        }
        for (int i = m; exact && i < 4; i++) q[i] = vq_zero();
        if (exact) {                            /* here, so that the loop above reads the blocks in order */
            k_halves(t.d, t.bytes, first, m, d, scale);
            sum = va_madd_sums(sum, q, scale);
        }
    }
    *s = va_sum(sum) * t.unit;
    if (t.dmin) *s -= va_sum(minima);
}
INLINED void k_dot(k_type t, int64_t n, int rows, float *s, const void *x, size_t nb, const void *y,
                   const void *ahead) {
    const char *b = x, *to = ahead;
    for (int r = 0; r < rows; r++, b += nb, to += nb) k_dot_row(t, n, s + r, b, y, to);
}

/* Instances: <t>_to_f32, <t>_dot and <t>_ints of a type with this DESCRIPTION. MAX: the largest unsigned code. */
#define INSTANCE(t, DESCRIPTION, KIND, GROUP, BIAS, SIGNED_BY, MAX, MINIMA, SCALE_GROUP, PACK, FOLD) \
    static void t##_to_f32(const void *x, float *y, int64_t n) { KIND##_to_f32(DESCRIPTION, x, y, n); } \
    static void t##_dot(int64_t n, int rows, float *s, const void *x, size_t nb, const void *y, const void *ahead) { \
        KIND##_dot(DESCRIPTION, n, rows, s, x, nb, y, ahead); \
    } \
    static void t##_unpack(const void *x, void *groups, int64_t n) { KIND##_unpack(DESCRIPTION, x, groups, n); } \
    static const gg_ints t##_ints = {t##_unpack, GROUP, \
                                     INTS_SIGNED(SIGNED_BY) ? 0 : (BIAS) + (SIGNED_BY), MAX, MINIMA, \
                                     INTS_SIGNED(SIGNED_BY), SCALE_GROUP, PACK(t), FOLD};
#define SMALL_TYPE(t, CHUNKS, BIAS, MIN, SIGNED_BY, MAX, TWO_SCALES, PLUS, HALVES, PACK) \
    static const small_type t##_type = {sizeof(block_##t), CHUNKS, BIAS, t##_chunk, t##_scales, MIN, TWO_SCALES, \
                                        SIGNED_BY, PLUS, HALVES}; \
    INSTANCE(t, t##_type, small, INTS_GROUP(TWO_SCALES ? 16 : 32, SIGNED_BY), BIAS, SIGNED_BY, MAX, (MIN) != NULL, 0, \
             PACK, NULL)
#define K_INSTANCE(t, DESCRIPTION, GROUP, BIAS, SIGNED_BY, MAX, MINIMA, PACK, SPARE) \
    FOLD(t, DESCRIPTION, SPARE) \
    INSTANCE(t, DESCRIPTION, k, INTS_GROUP(GROUP, SIGNED_BY), BIAS, SIGNED_BY, MAX, MINIMA, \
             INTS_SCALE_GROUP(GROUP, SIGNED_BY), PACK, FOLDED(t, SPARE))
#define K_TYPE(t, UNIT, GROUP, BIAS, SIGNS, DMIN, SIGNED_BY, MAX, SHIFTED, PACK, EIGHT, SPARE) \
    K_INSTANCE(t, ((k_type){sizeof(block_##t), BIAS, UNIT, t##_d, DMIN, t##_chunk, SHIFTED, t##_scales, SIGNS, \
                            SIGNED_BY, GROUP, NULL, NULL, NULL, INTS_SCALE_GROUP(GROUP, SIGNED_BY), EIGHT}), \
               GROUP, BIAS, SIGNED_BY, MAX, (DMIN) != NULL, PACK, SPARE)
#define GRID_TYPE(t, UNIT, GROUP, BIAS, SIGNS, ADJUST, SIGNED_BY, MAX, SPARE) \
    K_INSTANCE(t, ((k_type){sizeof(block_##t), BIAS, UNIT, t##_d, NULL, NULL, NULL, t##_scales, SIGNS, SIGNED_BY, \
                            GROUP, t##_grid, t##_indices, ADJUST, INTS_SCALE_GROUP(GROUP, SIGNED_BY), NULL}), \
               GROUP, BIAS, SIGNED_BY, MAX, false, UNPACKED, SPARE)

#endif
