/* How each quantised type is decoded: the functions that generic.h takes, and its instances. tables/blocks.h has the
 * fields of the blocks. */
#ifndef GG_QUANTS_DECODE_H
#define GG_QUANTS_DECODE_H
#include "generic.h"

/* ---- blocks of 32, 64 and 128 elements --------------------------------------------------------------------------- */
INLINED uint32_t load_u32(const void *p) { uint32_t u; memcpy(&u, p, 4); return u; }
INLINED vb fifth_bits(uint32_t qh) { return vb_and(vb_mask(qh), vb_set1(16)); }

INLINED vb q4_0_chunk(const void *b, int j) { (void)j; return vb_nibbles(((const block_q4_0 *)b)->qs); }
INLINED vb q4_1_chunk(const void *b, int j) { (void)j; return vb_nibbles(((const block_q4_1 *)b)->qs); }
INLINED vb q5_0_chunk(const void *b, int j) {
    (void)j;
    const block_q5_0 *q = b;
    return vb_or(vb_nibbles(q->qs), fifth_bits(q->qh));
}
INLINED vb q5_1_chunk(const void *b, int j) {
    (void)j;
    const block_q5_1 *q = b;
    return vb_or(vb_nibbles(q->qs), fifth_bits(q->qh));
}
INLINED vb q8_0_chunk(const void *b, int j) { (void)j; return vb_load(((const block_q8_0 *)b)->qs); }
INLINED vb q8_1_chunk(const void *b, int j) { (void)j; return vb_load(((const block_q8_1 *)b)->qs); }
INLINED vb iq4_nl_chunk(const void *b, int j) {
    (void)j;
    return vb_lut(gg_levels_iq4nl, vb_nibbles(((const block_iq4_nl *)b)->qs));
}
INLINED vb mxfp4_chunk(const void *b, int j) {
    (void)j;
    return vb_lut(gg_levels_e2m1, vb_nibbles(((const block_mxfp4 *)b)->qs));
}
INLINED vb nvfp4_chunk(const void *b, int j) {
    uint64_t g[2];                              /* two groups of 16: 8 low nibbles, then 8 high ones */
    memcpy(g, ((const block_nvfp4 *)b)->qs + 16 * j, 16);
    return vb_lut(gg_levels_e2m1, vb_and(vb_u64(g[0], g[0] >> 4, g[1], g[1] >> 4), vb_set1(15)));
}
INLINED uint32_t q1_0_plus(const void *b, int j) { return load_u32(((const block_q1_0 *)b)->qs + 4 * j); }
INLINED vb q1_0_chunk(const void *b, int j) { return vb_and(vb_mask(q1_0_plus(b, j)), vb_set1(2)); }
/* Two bytes of four codes as eight bytes, the code of an element in the low two bits */
INLINED uint64_t spread_codes(const uint8_t *two) {
    uint64_t w = two[0] | (uint64_t)two[1] << 32;
    w |= w << 6;
    return w | w << 12;
}
INLINED vb q2_0_chunk(const void *b, int j) {
    const uint8_t *q = ((const block_q2_0 *)b)->qs + 8 * j;
    const vb codes = vb_u64(spread_codes(q), spread_codes(q + 2), spread_codes(q + 4), spread_codes(q + 6));
    return vb_and(codes, vb_set1(3));
}

/* The block begins with its scale. */
#define LEADING_SCALE(t, n) INLINED void t##_scales(const void *b, float *d) { \
    const float x = gg_half_of_two(b, 0); \
    for (int i = 0; i < n; i++) d[i] = x; }
LEADING_SCALE(q4_0, 2) LEADING_SCALE(q4_1, 2) LEADING_SCALE(q5_0, 2) LEADING_SCALE(q5_1, 2)
LEADING_SCALE(q8_0, 2) LEADING_SCALE(q8_1, 2) LEADING_SCALE(iq4_nl, 2) LEADING_SCALE(q1_0, 8) LEADING_SCALE(q2_0, 4)
INLINED void mxfp4_scales(const void *b, float *d) { d[0] = d[1] = gg_e8m0_half(((const block_mxfp4 *)b)->e); }
INLINED void nvfp4_scales(const void *b, float *d) {
    for (int i = 0; i < 4; i++) d[i] = gg_ue4m3_half(((const block_nvfp4 *)b)->d[i]);
}
INLINED float q4_1_min(const void *b) { return gg_half_of_two(b, 1); }
INLINED float q5_1_min(const void *b) { return gg_half_of_two(b, 1); }

#ifdef GG_VEC_COLUMNS
enum { SIGNED_GROUP = INTS_SIGNED(128) ? GG_SIGNED_GROUP : 32 };     /* elements of a group of signed codes */
INLINED void q4_0_words(vi *w, const char *b, size_t nb) { vc_nibbles(w, b + offsetof(block_q4_0, qs), nb); }
INLINED void q4_1_words(vi *w, const char *b, size_t nb) { vc_nibbles(w, b + offsetof(block_q4_1, qs), nb); }
INLINED void five_bits_words(vi *w, const char *qs, const char *qh, size_t nb) {
    const vi bits = vc_load(qh, nb);
    vc_nibbles(w, qs, nb);
#pragma GCC unroll 8
    for (int q = 0; q < 8; q++) w[q] = vc_add_bits(w[q], bits, q);
}
INLINED void q5_0_words(vi *w, const char *b, size_t nb) {
    five_bits_words(w, b + offsetof(block_q5_0, qs), b + offsetof(block_q5_0, qh), nb);
}
INLINED void q5_1_words(vi *w, const char *b, size_t nb) {
    five_bits_words(w, b + offsetof(block_q5_1, qs), b + offsetof(block_q5_1, qh), nb);
}
INLINED void q8_0_words(vi *w, const char *b, size_t nb) {
    vc_load4(w, b + offsetof(block_q8_0, qs), nb);
    vc_load4(w + 4, b + offsetof(block_q8_0, qs) + 16, nb);
}
INLINED void iq4_nl_words(vi *w, const char *b, size_t nb) {
    vc_nibbles(w, b + offsetof(block_iq4_nl, qs), nb);
    for (int q = 0; q < 8; q++) w[q] = vc_lut(gg_levels_iq4nl, w[q]);
}
#define GROUPS(t, IS_SIGNED, MINIMA, GROUP, DEPTH, LEAST) \
    INLINED void t##_groups(const char *x, size_t nb, int64_t n, group_fn group, void *to) { \
        small_groups(sizeof(block_##t), t##_words, IS_SIGNED, MINIMA, x, nb, n, group, to); \
    } \
    GROUPED(t, GROUP, DEPTH, LEAST)
GROUPS(q4_0, false, false, 32, 8, VW == 8 ? 1 : 2) GROUPS(q4_1, false, true, 32, 8, 2)
GROUPS(q5_0, false, false, 32, 8, 2) GROUPS(q5_1, false, true, 32, 4, 2)
GROUPS(q8_0, true, false, SIGNED_GROUP, 0, VW == 8 ? 4 : 2) GROUPS(iq4_nl, true, false, SIGNED_GROUP, 0, 2)
#undef GROUPS
#endif

SMALL_TYPE(q4_0, 1, 8, NULL, 0, 15, false, NULL, true, PACKED)
SMALL_TYPE(q4_1, 1, 0, q4_1_min, 0, 15, false, NULL, true, PACKED)
SMALL_TYPE(q5_0, 1, 16, NULL, 0, 31, false, NULL, true, PACKED)
SMALL_TYPE(q5_1, 1, 0, q5_1_min, 0, 31, false, NULL, true, PACKED)
SMALL_TYPE(q8_0, 1, 0, NULL, 128, 255, false, NULL, true, PACKED_K)
SMALL_TYPE(iq4_nl, 1, 0, NULL, 128, 241, false, NULL, true, PACKED_K)
SMALL_TYPE(mxfp4, 1, 0, NULL, 12, 24, false, NULL, false, UNPACKED)
SMALL_TYPE(nvfp4, 2, 0, NULL, 12, 24, true, NULL, false, UNPACKED)
SMALL_TYPE(q1_0, 4, 1, NULL, 0, 2, false, q1_0_plus, false, UNPACKED)
SMALL_TYPE(q2_0, 2, 1, NULL, 0, 3, false, NULL, false, UNPACKED)

/* ---- bytes in 64-bit words -------------------------------------------------------------------------------------- */
INLINED uint64_t load_u64(const void *p) { uint64_t u; memcpy(&u, p, 8); return u; }
INLINED uint64_t bytes_to_words(uint64_t four) {        /* four bytes, each to 16 bits */
    four = (four | four << 16) & 0x0000ffff0000ffff;
    return (four | four << 8) & 0x00ff00ff00ff00ff;
}
INLINED uint64_t unpack_nibbles(uint32_t four) {    /* of each byte first the low four bits */
    return bytes_to_words(four & 0x0f0f0f0f) | bytes_to_words(four >> 4 & 0x0f0f0f0f) << 8;
}
/* Subtracts 32 from each byte; they are below 128. */
INLINED uint64_t subtract32(uint64_t s) { return ((s | EACH_BYTE(128)) - EACH_BYTE(32)) ^ EACH_BYTE(128); }

/* ---- K types ---------------------------------------------------------------------------------------------------- */
INLINED vb two_bits(const uint8_t *qs, int j) { return vb_field(vb_load(qs + j / 4 * 32), j % 4 * 2, 3); }
INLINED vb four_bits(const uint8_t *qs, int j) { return vb_field(vb_load(qs + j / 2 * 32), j % 2 * 4, 15); }
INLINED vb one_bit(const uint8_t *h, int j, int at) { return vb_field(vb_load(h), j - at, 1 << at); }

/* 4 q for odd j: saves a shift. */
INLINED vb two_bits_shifted(const uint8_t *qs, int j) {
    return vb_field(vb_load(qs + j / 4 * 32), j % 4 / 2 * 4, j & 1 ? 12 : 3);
}

INLINED vb q2_K_chunk(const void *b, int j) { return two_bits(((const block_q2_K *)b)->qs, j); }
INLINED vb q2_K_shifted(const void *b, int j) { return two_bits_shifted(((const block_q2_K *)b)->qs, j); }
INLINED vb q3_K_chunk(const void *b, int j) {
    const block_q3_K *q = b;
    return vb_or(two_bits(q->qs, j), one_bit(q->hmask, j, 2));
}
INLINED vb q4_K_chunk(const void *b, int j) { return four_bits(((const block_q4_K *)b)->qs, j); }
INLINED vb q5_K_chunk(const void *b, int j) {
    const block_q5_K *q = b;
    return vb_or(four_bits(q->qs, j), one_bit(q->qh, j, 4));
}
INLINED vb q6_K_chunk(const void *b, int j) {
    const block_q6_K *q = b;
    const vb low = vb_field(vb_load(q->ql + j / 4 * 64 + j % 2 * 32), j % 4 / 2 * 4, 15);
    return vb_or(low, vb_field(vb_load(q->qh + j / 4 * 32), j % 4 * 2 - 4, 3 << 4));
}

#define K_FIELD(t, name) INLINED gg_half t##_##name(const void *b) { return ((const block_##t *)b)->name; }
K_FIELD(q2_K, d) K_FIELD(q3_K, d) K_FIELD(q4_K, d) K_FIELD(q5_K, d) K_FIELD(q6_K, d) K_FIELD(tq1_0, d) K_FIELD(tq2_0, d)
K_FIELD(iq2_xxs, d) K_FIELD(iq2_xs, d) K_FIELD(iq2_s, d) K_FIELD(iq3_xxs, d) K_FIELD(iq3_s, d) K_FIELD(iq1_s, d)
K_FIELD(iq4_xs, d)
K_FIELD(q2_K, dmin) K_FIELD(q4_K, dmin) K_FIELD(q5_K, dmin)

INLINED k_scales scales_only(vs s) { return (k_scales){s, s}; }
INLINED k_scales q2_K_scales(const void *b) {
    const block_q2_K *q = b;
    const vs both = vs_load_i8(q->scales);
    return (k_scales){vs_field(both, 0, 15), vs_field(both, 4, 15)};
}
INLINED k_scales q3_K_scales(const void *b) {   /* six bits, 32 is added to them: gg_k3_pack */
    const block_q3_K *q = b;
    const uint64_t low = load_u64(q->scales), high = load_u32(q->scales + 8), two = 0x03030303;
    const uint64_t h0 = (high & two) | (high >> 2 & two) << 32, h1 = (high >> 4 & two) | (high >> 6 & two) << 32;
    const uint64_t s0 = (low & EACH_BYTE(15)) | h0 << 4, s1 = (low >> 4 & EACH_BYTE(15)) | h1 << 4;
    return scales_only(vs_set(subtract32(s0), subtract32(s1)));
}
INLINED ve q4_K_eight(const void *b, vs *minima) { return ve_unpack_k4(((const block_q4_K *)b)->scales, minima); }
INLINED ve q5_K_eight(const void *b, vs *minima) { return ve_unpack_k4(((const block_q5_K *)b)->scales, minima); }
#define K4_SCALES(t) INLINED k_scales t##_scales(const void *b) { \
    vs minima; \
    const ve scales = t##_eight(b, &minima); \
    return (k_scales){vs_each_twice(scales), minima}; }
K4_SCALES(q4_K) K4_SCALES(q5_K)
#undef K4_SCALES
INLINED k_scales q6_K_scales(const void *b) { return scales_only(vs_load_i8(((const block_q6_K *)b)->scales)); }

K_TYPE(q2_K, 1, 16, 0, NULL, q2_K_dmin, 0, 3, q2_K_shifted, UNPACKED, NULL, 9)
K_TYPE(q3_K, 1, 16, 4, NULL, NULL, 0, 7, NULL, UNPACKED, NULL, 7)
#ifdef GG_VEC_COLUMNS
/* w & mask, for all bytes */
INLINED vi vc_mask(vi w, int mask) { return vi_and(w, vi_set1(mask * 0x01010101)); }
/* Q4_K and, with `five`, Q5_K */
INLINED void k4_groups(const bool five, const int bytes, const char *x, size_t nb, int64_t n, group_fn group,
                       void *to) {
    for (const char *end = x + n / 256 * bytes; x < end; x += bytes) {
        vi head[4], fifth[8], codes[8];
        vc_load4(head, x, nb);                              /* d and dmin, then the scales (gg_k4_pack) */
        const vf d = vc_half(head[0], 0), dmin = vc_half(head[0], 1);
        vi scale[2] = {vc_mask(head[1], 63), vc_mask(head[3], 15)}, min[2] = {vc_mask(head[2], 63)};
        scale[1] = vi_or(scale[1], vi_shl(vc_mask(vi_srl(head[1], 6), 3), 4));
        min[1] = vi_or(vc_mask(vi_srl(head[3], 4), 15), vi_shl(vc_mask(vi_srl(head[2], 6), 3), 4));
        for (int q = 0; five && q < 8; q += 4) vc_load4(fifth + q, x + 16 + 4 * q, nb);
#pragma GCC unroll 1
        for (int i = 0; i < 4; i++) {
            for (int q = 0; q < 8; q += 4) vc_load4(codes + q, x + bytes - 128 + 32 * i + 4 * q, nb);
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                vi w[8];
#pragma GCC unroll 8
                for (int q = 0; q < 8; q++) {
                    w[q] = vc_mask(vi_srl(codes[q], 4 * j), 15);
                    if (!five) continue;
                    w[q] = vi_or(w[q], vi_shl(vc_mask(fifth[q], 1), 4));
                    fifth[q] = vi_srl(fifth[q], 1);
                }
                const vf s = vi_to_vf(vi_and(scale[0], vi_set1(255))), m = vi_to_vf(vi_and(min[0], vi_set1(255)));
                group(to, 8, true, w, vf_mul(s, d), vf_mul(m, dmin));
                scale[0] = vi_srl(scale[0], 8), min[0] = vi_srl(min[0], 8);
            }
            if (i == 1) scale[0] = scale[1], min[0] = min[1];
        }
    }
}
INLINED void q4_K_groups(const char *x, size_t nb, int64_t n, group_fn group, void *to) {
    k4_groups(false, sizeof(block_q4_K), x, nb, n, group, to);
}
INLINED void q5_K_groups(const char *x, size_t nb, int64_t n, group_fn group, void *to) {
    k4_groups(true, sizeof(block_q5_K), x, nb, n, group, to);
}
INLINED void q6_K_groups(const char *x, size_t nb, int64_t n, group_fn group, void *to) {
    for (const char *end = x + n / 256 * sizeof(block_q6_K); x < end; x += sizeof(block_q6_K)) {
        const vf d = vc_half(vc_load(x + offsetof(block_q6_K, d) - 2, nb), 1);
        vi scales[4], low[16], high[8];
        vc_load4(scales, x + offsetof(block_q6_K, scales), nb);
#pragma GCC unroll 1
        for (int h = 0; h < 2; h++) {
            const char *const ql = x + offsetof(block_q6_K, ql) + 64 * h;
            const char *const qh = x + offsetof(block_q6_K, qh) + 32 * h;
            for (int q = 0; q < 16; q += 4) vc_load4(low + q, ql + 4 * q, nb);
            for (int q = 0; q < 8; q += 4) vc_load4(high + q, qh + 4 * q, nb);
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {                       /* groups of 16 elements */
                const int j = i / 2;
                vi w[4];
#pragma GCC unroll 4
                for (int q = i % 2 * 4, k = 0; k < 4; k++, q++) {
                    const vi top = vi_shl(vc_mask(vi_srl(high[q], 2 * j), 3), 4);
                    w[k] = vi_or(vc_mask(vi_srl(low[j % 2 * 8 + q], j / 2 * 4), 15), top);
                }
                const vf s = vi_to_vf(vi_sra(vi_shl(scales[2 * h + i / 4], 24 - i % 4 * 8), 24));
                group(to, 4, false, w, vf_mul(s, d), vf_zero());
            }
        }
    }
}
GROUPED(q4_K, 32, 8, 1) GROUPED(q5_K, 32, 4, VW == 8 ? 2 : 1) GROUPED(q6_K, 16, 4, 2)
#endif

K_TYPE(q4_K, 1, 32, 0, NULL, q4_K_dmin, 0, 15, NULL, PACKED_K, q4_K_eight, 0)
K_TYPE(q5_K, 1, 32, 0, NULL, q5_K_dmin, 0, 31, NULL, PACKED_K, q5_K_eight, 0)
K_TYPE(q6_K, 1, 16, 32, NULL, NULL, 0, 63, NULL, PACKED_K, NULL, 2)

/* ---- ternary types ---------------------------------------------------------------------------------------------- */
/* A byte is a fraction x / 256 whose first five base-3 digits are elements + 1. Multiplying by 3^k modulo 256 makes
 * digit k the first one, and two comparisons give it. 128 is subtracted from the bytes because comparisons are signed;
 * multiplication by odd numbers modulo 256 preserves the difference. */
INLINED vb tq1_0_chunk(const void *b, int j) {
    const block_tq1_0 *q = b;
    vb a = vb_add(j < 5 ? vb_load(q->qs) : vb_load_4x4(q->qs + 32, q->qh), vb_set1(-128)), power[5];
    for (int k = 0; k < 5; k++) {
        power[k] = a;
        a = vb_add(a, vb_add(a, a));
    }
    if (j < 5) a = power[j];                    /* elements 160 on: digits of 16 bytes, then of the four bytes of qh */
    else if (j < 7) a = vb_join_lo(power[2 * (j - 5)], power[2 * (j - 5) + 1]);
    else a = vb_blend(vb_blend(power[4], power[0], 0x10),
                      vb_blend(vb_blend(power[1], power[2], 0x40), power[3], 0x80), 0xe0);
    return vb_sub(vb_gt(vb_set1(-42), a), vb_gt(a, vb_set1(42)));
}
INLINED vb tq2_0_chunk(const void *b, int j) { return two_bits(((const block_tq2_0 *)b)->qs, j); }
INLINED vb tq2_0_shifted(const void *b, int j) { return two_bits_shifted(((const block_tq2_0 *)b)->qs, j); }
INLINED k_scales tq1_0_scales(const void *b) { (void)b; return scales_only(vs_set1(1)); }
INLINED k_scales tq2_0_scales(const void *b) { (void)b; return scales_only(vs_set1(1)); }

K_TYPE(tq1_0, 1, 64, 0, NULL, NULL, 1, 2, NULL, UNPACKED, NULL, 13)
K_TYPE(tq2_0, 1, 64, 1, NULL, NULL, 0, 3, tq2_0_shifted, UNPACKED, NULL, 13)

/* ---- IQ types: points of a grid, and signs ----------------------------------------------------------------------- */
INLINED void store_indices(uint64_t *at, const uint8_t *low, vs high) {
    vs_store(at, vs_add(vs_load_u8(low), vs_mul(high, vs_set1(256))));
}
INLINED vb gather_points(const uint64_t *grid, uint64_t at) {       /* four indices of 16 bits */
    return vb_gather4(grid + (at & 65535), grid + (at >> 16 & 65535), grid + (at >> 32 & 65535), grid + (at >> 48));
}
INLINED vb iq2_xxs_chunk(const void *b, int j) {
    const uint8_t *q = (const uint8_t *)(((const block_iq2_xxs *)b)->qs + 2 * j);
    const uint64_t *g = gg_iq2xxs_grid;
    return vb_gather4(g + q[0], g + q[1], g + q[2], g + q[3]);
}
INLINED void iq2_xxs_signs(const void *b, uint32_t *minus) { vb_sign_bits(minus, ((const block_iq2_xxs *)b)->qs, 8); }
INLINED k_scales iq2_xxs_scales(const void *b) {
    const block_iq2_xxs *q = b;
    return scales_only(vs_odd(vs_unpack_top4(q->qs, 8)));
}
INLINED vb iq2_xs_chunk(const void *b, int j) {
    const uint16_t *q = ((const block_iq2_xs *)b)->qs + 4 * j;
    const uint64_t *g = gg_iq2xs_grid;
    return vb_gather4(g + (q[0] & 511), g + (q[1] & 511), g + (q[2] & 511), g + (q[3] & 511));
}
INLINED void iq2_xs_signs(const void *b, uint32_t *minus) { vb_sign_bits(minus, ((const block_iq2_xs *)b)->qs, 2); }
INLINED k_scales iq2_xs_scales(const void *b) {
    return scales_only(vs_odd(vs_unpack4(((const block_iq2_xs *)b)->scales)));
}
INLINED vb iq2_s_grid(const void *b, const volatile uint64_t *at, int j) {
    (void)b;
    return gather_points(gg_iq2s_grid, at[j]);
}
INLINED void iq2_s_indices(const void *b, uint64_t *at) {
    const block_iq2_s *q = b;
    for (int i = 0; i < 32; i += 16) store_indices(at + i / 4, q->qs + i, vs_unpack2(q->qh + i / 4));
}
INLINED void iq2_s_signs(const void *b, uint32_t *minus) { memcpy(minus, ((const block_iq2_s *)b)->signs, 32); }
INLINED k_scales iq2_s_scales(const void *b) {
    return scales_only(vs_odd(vs_unpack4(((const block_iq2_s *)b)->scales)));
}

INLINED vb iq3_xxs_chunk(const void *b, int j) {
    const uint8_t *q = ((const block_iq3_xxs *)b)->qs + 8 * j;
    const uint32_t *g = gg_iq3xxs_grid;
    return vb_gather8(g + q[0], g + q[1], g + q[2], g + q[3], g + q[4], g + q[5], g + q[6], g + q[7]);
}
INLINED void iq3_xxs_signs(const void *b, uint32_t *minus) { vb_sign_bits(minus, ((const block_iq3_xxs *)b)->gas, 4); }
INLINED k_scales iq3_xxs_scales(const void *b) {
    const block_iq3_xxs *q = b;
    return scales_only(vs_odd(vs_unpack_top4(q->gas, 4)));
}
INLINED vb iq3_s_grid(const void *b, const volatile uint64_t *at, int j) {
    (void)b;
    const uint32_t *g = gg_iq3s_grid;
    const uint64_t u = at[2 * j], v = at[2 * j + 1];
    return vb_gather8(g + (u & 65535), g + (u >> 16 & 65535), g + (u >> 32 & 65535), g + (u >> 48),
                      g + (v & 65535), g + (v >> 16 & 65535), g + (v >> 32 & 65535), g + (v >> 48));
}
INLINED void iq3_s_indices(const void *b, uint64_t *at) {
    const block_iq3_s *q = b;
    for (int i = 0; i < 64; i += 16) store_indices(at + i / 4, q->qs + i, vs_unpack1(q->qh + i / 8));
}
INLINED void iq3_s_signs(const void *b, uint32_t *minus) { memcpy(minus, ((const block_iq3_s *)b)->signs, 32); }
INLINED k_scales iq3_s_scales(const void *b) {
    const block_iq3_s *q = b;
    return scales_only(vs_odd(vs_set_pairs(unpack_nibbles(load_u32(q->scales)))));
}

/* An element is a level of -1, 0, 1, shifted up or down by 1/8. Its code is 8 times that, plus 9. The grid holds
 * 8 level + 10, from which a shift down subtracts 2. */
INLINED vb iq1_s_grid(const void *b, const volatile uint64_t *at, int j) {
    (void)b;
    return gather_points(gg_iq1s_grid, at[j]);
}
INLINED void iq1_s_indices(const void *b, uint64_t *at) {
    const block_iq1_s *q = b;
    for (int i = 0; i < 32; i += 16) store_indices(at + i / 4, q->qs + i, vs_unpack3(q->qh + i / 4));
}
INLINED vb iq1_s_adjust(vb v, const void *b, int j) {
    return vb_sub(v, vb_set1(((const block_iq1_s *)b)->qh[j] >> 14 & 2));
}
INLINED void iq1_m_indices(const void *b, uint64_t *at) {
    const block_iq1_m *q = b;
    for (int i = 0; i < 32; i += 16) store_indices(at + i / 4, q->qs + i, vs_field(vs_unpack4(q->qh + i / 2), 0, 7));
}
INLINED vb iq1_m_grid(const void *b, const volatile uint64_t *at, int j) {
    uint16_t h;
    memcpy(&h, ((const block_iq1_m *)b)->qh + 2 * j, 2);
    const vb down = vb_and(vb_fill_halves(h), vb_u64(EACH_BYTE(8), EACH_BYTE(128), EACH_BYTE(8), EACH_BYTE(128)));
    return vb_sub(gather_points(gg_iq1s_grid, at[j]), vb_min(down, vb_set1(2)));
}
INLINED k_scales iq1_s_scales(const void *b) {
    const block_iq1_s *q = b;
    const vs top = vs_unpack_top4(q->qh, 2), s = vs_odd(vs_field(top, 0, 7));
    return (k_scales){s, vs_mul(s, vs_add(vs_field(top, 2, 2), vs_set1(9)))};
}
INLINED gg_half iq1_m_d(const void *b) {
    const uint16_t *s = ((const block_iq1_m *)b)->scales;
    return (gg_half)(s[0] >> 12 | (s[1] >> 8 & 0xf0) | (s[2] >> 4 & 0xf00) | (s[3] & 0xf000));
}
INLINED k_scales iq1_m_scales(const void *b) {
    return scales_only(vs_odd(vs_unpack3(((const block_iq1_m *)b)->scales)));
}
INLINED vb iq4_xs_chunk(const void *b, int j) {
    return vb_lut(gg_levels_iq4nl, vb_nibbles(((const block_iq4_xs *)b)->qs + 16 * j));
}
INLINED k_scales iq4_xs_scales(const void *b) {
    const block_iq4_xs *q = b;
    uint64_t h = q->scales_h;                   /* eight times two bits, each to a byte */
    h = (h | h << 24) & 0x000000ff000000ff;
    h = (h | h << 12) & 0x000f000f000f000f;
    h = (h | h << 6) & EACH_BYTE(3);
    return scales_only(vs_set_pairs(subtract32(unpack_nibbles(load_u32(q->scales_l)) | h << 4)));
}

K_TYPE(iq2_xxs, 0.125f, 32, 0, iq2_xxs_signs, NULL, 43, 86, NULL, UNPACKED, NULL, 0)
K_TYPE(iq2_xs, 0.125f, 16, 0, iq2_xs_signs, NULL, 43, 86, NULL, UNPACKED, NULL, 4)
GRID_TYPE(iq2_s, 0.125f, 16, 0, iq2_s_signs, NULL, 43, 86, 4)
K_TYPE(iq3_xxs, 0.25f, 32, 0, iq3_xxs_signs, NULL, 62, 124, NULL, UNPACKED, NULL, 0)
GRID_TYPE(iq3_s, 1, 32, 0, iq3_s_signs, NULL, 15, 30, 0)
GRID_TYPE(iq1_s, 0.125f, 32, 9, NULL, iq1_s_adjust, 0, 18, 0)
GRID_TYPE(iq1_m, 0.125f, 16, 9, NULL, NULL, 0, 18, 7)
#ifdef GG_VEC_COLUMNS
INLINED void iq4_xs_groups(const char *x, size_t nb, int64_t n, group_fn group, void *to) {
    for (const char *end = x + n / 256 * sizeof(block_iq4_xs); x < end; x += sizeof(block_iq4_xs)) {
        const vi head = vc_load(x, nb);                     /* d and scales_h */
        const vf d = vc_half(head, 0);
        vi low = vc_load(x + offsetof(block_iq4_xs, scales_l), nb), high = vi_srl(head, 16);
#pragma GCC unroll 1
        for (int j = 0; j < 8; j++, low = vi_srl(low, 4), high = vi_srl(high, 2)) {
            const vi s = vi_or(vi_and(low, vi_set1(15)), vi_shl(vi_and(high, vi_set1(3)), 4));
            vi w[8];
            vc_nibbles(w, x + offsetof(block_iq4_xs, qs) + 16 * j, nb);
            for (int q = 0; q < 8; q++) w[q] = vc_lut(gg_levels_iq4nl, w[q]);
            signed_group(group, to, w, vf_mul(vi_to_vf(vi_sub(s, vi_set1(32))), d));
        }
    }
}
GROUPED(iq4_xs, SIGNED_GROUP, 0, VW == 8 ? 3 : 1)
#endif
K_TYPE(iq4_xs, 1, 32, 0, NULL, NULL, 128, 241, NULL, PACKED_K, NULL, 0)

/* ---- activation types -------------------------------------------------------------------------------------------- */
static void q8_1_to_f32(const void *x, float *y, int64_t n) {
    const small_type t = {sizeof(block_q8_1), 1, 0, q8_1_chunk, q8_1_scales, NULL, false, 128, NULL, false};
    small_to_f32(t, x, y, n);
}
static void q8_K_to_f32(const void *x, float *y, int64_t n) {
    for (const block_q8_K *b = x; n > 0; b++, n -= 256)
        for (int j = 0; j < 256; j += 32, y += 32) vb_store_f32(y, vb_load(b->qs + j), b->d, b->d, 0, 0);
}

#endif
