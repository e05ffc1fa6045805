/* How each quantised type is decoded: chunk and scales functions, and their instances of generic.h. */
#ifndef GG_QUANTS_DECODE_H
#define GG_QUANTS_DECODE_H
#include "generic.h"

/* ---- blocks of 32, 64 and 128 ----------------------------------------------------------------------------------- */
INLINED uint32_t load_u32(const void *p) { uint32_t u; memcpy(&u, p, 4); return u; }
INLINED vb fifth_bits(const uint8_t *qh) { return vb_and(vb_mask(load_u32(qh)), vb_set1(16)); }

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
    uint64_t g[2];                              /* two groups: 8 low nibbles, 8 high ones */
    memcpy(g, ((const block_nvfp4 *)b)->qs + 16 * j, 16);
    return vb_lut(gg_levels_e2m1, vb_and(vb_u64(g[0], g[0] >> 4, g[1], g[1] >> 4), vb_set1(15)));
}
INLINED vb q1_0_chunk(const void *b, int j) {
    return vb_and(vb_mask(load_u32(((const block_q1_0 *)b)->qs + 4 * j)), vb_set1(2));
}

/* The half comes first in these blocks. */
#define HALF_SCALE(t, n) INLINED void t##_scales(const void *b, float *d) { \
    const float x = gg_half_of_two(b, 0); \
    for (int i = 0; i < n; i++) d[i] = x; }
HALF_SCALE(q4_0, 2) HALF_SCALE(q4_1, 2) HALF_SCALE(q5_0, 2) HALF_SCALE(q5_1, 2) HALF_SCALE(q8_0, 2) HALF_SCALE(q8_1, 2)
HALF_SCALE(iq4_nl, 2) HALF_SCALE(q1_0, 8)
INLINED void mxfp4_scales(const void *b, float *d) { d[0] = d[1] = gg_e8m0_half(((const block_mxfp4 *)b)->e); }
INLINED void nvfp4_scales(const void *b, float *d) {
    for (int i = 0; i < 4; i++) d[i] = gg_ue4m3_half(((const block_nvfp4 *)b)->d[i]);
}
INLINED float q4_1_min(const void *b) { return gg_half_of_two(b, 1); }
INLINED float q5_1_min(const void *b) { return gg_half_of_two(b, 1); }

SMALL_TYPE(q4_0, 1, 8, NULL, 0, 15, false, q8_0)
SMALL_TYPE(q4_1, 1, 0, q4_1_min, 0, 15, false, q8_1)
SMALL_TYPE(q5_0, 1, 16, NULL, 0, 31, false, q8_0)
SMALL_TYPE(q5_1, 1, 0, q5_1_min, 0, 31, false, q8_1)
SMALL_TYPE(q8_0, 1, 0, NULL, 128, 255, false, q8_0)
SMALL_TYPE(iq4_nl, 1, 0, NULL, 128, 241, false, q8_0)
SMALL_TYPE(mxfp4, 1, 0, NULL, 12, 24, false, q8_0)
SMALL_TYPE(nvfp4, 2, 0, NULL, 12, 24, true, q8_0)
SMALL_TYPE(q1_0, 4, 1, NULL, 0, 2, false, q8_0)

/* ---- bytes in 64-bit words -------------------------------------------------------------------------------------- */
#define EACH_BYTE(x) ((x) * 0x0101010101010101u)
INLINED uint64_t load_u64(const void *p) { uint64_t u; memcpy(&u, p, 8); return u; }
INLINED uint64_t spread(uint64_t four) {        /* four bytes to the even bytes */
    four = (four | four << 16) & 0x0000ffff0000ffff;
    return (four | four << 8) & 0x00ff00ff00ff00ff;
}
/* Scales from the nibbles of eight bytes, low one first, each doubled plus one. */
INLINED vs odd_nibbles(uint64_t u) {
    const uint64_t lo = (u & EACH_BYTE(15)) << 1 | EACH_BYTE(1), hi = (u >> 3 & EACH_BYTE(30)) | EACH_BYTE(1);
    return vs_set(spread((uint32_t)lo) | spread((uint32_t)hi) << 8, spread(lo >> 32) | spread(hi >> 32) << 8);
}

/* ---- K types ---------------------------------------------------------------------------------------------------- */
INLINED vb two_bits(const uint8_t *qs, int j) { return vb_field(vb_load(qs + j / 4 * 32), j % 4 * 2, 3); }
INLINED vb four_bits(const uint8_t *qs, int j) { return vb_field(vb_load(qs + j / 2 * 32), j % 2 * 4, 15); }
INLINED vb one_bit(const uint8_t *h, int j, int at) { return vb_field(vb_load(h), j - at, 1 << at); }

INLINED vb q2_K_chunk(const void *b, int j) { return two_bits(((const block_q2_K *)b)->qs, j); }
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

INLINED k_scales q2_K_scales(const void *b) {
    const block_q2_K *q = b;
    const uint64_t lo = load_u64(q->scales), hi = load_u64(q->scales + 8), nibble = EACH_BYTE(15);
    return (k_scales){gg_half_f32(q->d), gg_half_f32(q->dmin), vs_set(lo & nibble, hi & nibble),
                      vs_set(lo >> 4 & nibble, hi >> 4 & nibble)};
}
INLINED k_scales q3_K_scales(const void *b) {   /* 6 bits, biased by 32: see gg_k3_pack */
    const block_q3_K *q = b;
    const uint64_t low = load_u64(q->scales), high = load_u32(q->scales + 8), two = 0x03030303;
    const uint64_t h0 = (high & two) | (high >> 2 & two) << 32, h1 = (high >> 4 & two) | (high >> 6 & two) << 32;
    const uint64_t s0 = (low & EACH_BYTE(15)) | h0 << 4, s1 = (low >> 4 & EACH_BYTE(15)) | h1 << 4;
#define LESS32(s) ((((s) | EACH_BYTE(128)) - EACH_BYTE(32)) ^ EACH_BYTE(128))
    const vs scales = vs_set(LESS32(s0), LESS32(s1));
#undef LESS32
    return (k_scales){gg_half_f32(q->d), 0, scales, scales};
}
INLINED k_scales k4_scales(const uint8_t *p, gg_half d, gg_half dmin) {     /* see gg_k4_pack */
    const uint64_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x03030303, a = load_u32(p), m = load_u32(p + 4),
        c = load_u32(p + 8);
    const uint64_t high_a = (c & four) | (a >> 6 & two) << 4, high_m = (c >> 4 & four) | (m >> 6 & two) << 4;
    return (k_scales){gg_half_f32(d), gg_half_f32(dmin), vs_twice((a & six) | high_a << 32),
                      vs_twice((m & six) | high_m << 32)};
}
INLINED k_scales q4_K_scales(const void *b) {
    return k4_scales(((const block_q4_K *)b)->scales, ((const block_q4_K *)b)->d, ((const block_q4_K *)b)->dmin);
}
INLINED k_scales q5_K_scales(const void *b) {
    return k4_scales(((const block_q5_K *)b)->scales, ((const block_q5_K *)b)->d, ((const block_q5_K *)b)->dmin);
}
INLINED k_scales without_mins(float d, vs s) { return (k_scales){d, 0, s, s}; }
INLINED k_scales q6_K_scales(const void *b) {
    const block_q6_K *q = b;
    return without_mins(gg_half_f32(q->d), vs_set(load_u64(q->scales), load_u64(q->scales + 8)));
}

K_TYPE(q2_K, 16, 0, NULL, true, 0, 3)
K_TYPE(q3_K, 16, 4, NULL, false, 0, 7)
K_TYPE(q4_K, 32, 0, NULL, true, 0, 15)
K_TYPE(q5_K, 32, 0, NULL, true, 0, 31)
K_TYPE(q6_K, 16, 32, NULL, false, 0, 63)

/* ---- ternary types ---------------------------------------------------------------------------------------------- */
/* The leading base-3 digit of each byte: the byte is a fraction of 256. */
INLINED vb trit(vb a) { return vb_sub(vb_sub(vb_set1(0), vb_ge(a, 86)), vb_ge(a, 171)); }
INLINED vb times(vb a, int pow3) {   /* 3^k, modulo 256 */
    for (; pow3 > 1; pow3 /= 3) a = vb_add(a, vb_add(a, a));
    return a;
}
INLINED vb tq1_0_chunk(const void *b, int j) {
    static const int pow3[5] = {1, 3, 9, 27, 81};
    const block_tq1_0 *q = b;
    if (j < 5) return trit(times(vb_load(q->qs), pow3[j]));
    const uint8_t *p = q->qs + 32;
    uint8_t lo[16], hi[16];                     /* the last 96 elements: digits of 16 bytes, then of the four in qh */
    for (int i = 0; i < 16; i++) {
        lo[i] = (uint8_t)(p[i] * pow3[2 * (j - 5)]);
        hi[i] = j < 7 ? (uint8_t)(p[i] * pow3[2 * (j - 5) + 1]) : (uint8_t)(q->qh[i & 3] * pow3[i >> 2]);
    }
    return trit(vb_load2(lo, hi));
}
INLINED vb tq2_0_chunk(const void *b, int j) { return two_bits(((const block_tq2_0 *)b)->qs, j); }
INLINED k_scales ones(gg_half d) { return without_mins(gg_half_f32(d), vs_set(EACH_BYTE(1), EACH_BYTE(1))); }
INLINED k_scales tq1_0_scales(const void *b) { return ones(((const block_tq1_0 *)b)->d); }
INLINED k_scales tq2_0_scales(const void *b) { return ones(((const block_tq2_0 *)b)->d); }

K_TYPE(tq1_0, 64, 1, NULL, false, 0, 2)
K_TYPE(tq2_0, 64, 1, NULL, false, 0, 3)

/* ---- IQ types: points of a grid, and signs ---------------------------------------------------------------------- */
INLINED vb points(const uint64_t *grid, int a, int b, int c, int d) {
    return vb_u64(grid[a], grid[b], grid[c], grid[d]);
}
INLINED uint32_t four_even_signs(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {      /* seven bits each */
    return gg_even_signs(a & 127) | gg_even_signs(b & 127) << 8 | gg_even_signs(c & 127) << 16
        | gg_even_signs(d & 127) << 24;
}
INLINED vb iq2_xxs_chunk(const void *b, int j) {
    const uint8_t *q = (const uint8_t *)(((const block_iq2_xxs *)b)->qs + 4 * j);
    return points(gg_iq2xxs_grid, q[0], q[1], q[2], q[3]);
}
INLINED uint32_t iq2_xxs_signs(const void *b, int j) {
    const uint32_t s = load_u32(((const block_iq2_xxs *)b)->qs + 4 * j + 2);
    return four_even_signs(s, s >> 7, s >> 14, s >> 21);
}
INLINED k_scales iq2_xxs_scales(const void *b) {
    const block_iq2_xxs *q = b;
    uint64_t s = 0;
    for (int i = 0; i < 8; i++) s |= (uint64_t)(q->qs[4 * i + 3] >> 12) << 8 * i;
    return without_mins(gg_half_f32(q->d) * 0.125f, vs_twice(s << 1 | EACH_BYTE(1)));
}
INLINED vb iq2_xs_chunk(const void *b, int j) {
    const uint16_t *q = ((const block_iq2_xs *)b)->qs + 4 * j;
    return points(gg_iq2xs_grid, q[0] & 511, q[1] & 511, q[2] & 511, q[3] & 511);
}
INLINED uint32_t iq2_xs_signs(const void *b, int j) {
    const uint16_t *q = ((const block_iq2_xs *)b)->qs + 4 * j;
    return four_even_signs(q[0] >> 9, q[1] >> 9, q[2] >> 9, q[3] >> 9);
}
INLINED k_scales iq2_xs_scales(const void *b) {
    return without_mins(gg_half_f32(((const block_iq2_xs *)b)->d) * 0.125f,
                        odd_nibbles(load_u64(((const block_iq2_xs *)b)->scales)));
}
INLINED vb iq2_s_chunk(const void *b, int j) {
    const uint8_t *q = ((const block_iq2_s *)b)->qs + 4 * j;
    const int h = ((const block_iq2_s *)b)->qh[j];
    return points(gg_iq2s_grid, q[0] | (h & 3) << 8, q[1] | (h & 12) << 6, q[2] | (h & 48) << 4, q[3] | (h & 192) << 2);
}
INLINED uint32_t iq2_s_signs(const void *b, int j) { return load_u32(((const block_iq2_s *)b)->signs + 4 * j); }
INLINED k_scales iq2_s_scales(const void *b) {
    return without_mins(gg_half_f32(((const block_iq2_s *)b)->d) * 0.125f,
                        odd_nibbles(load_u64(((const block_iq2_s *)b)->scales)));
}

INLINED uint64_t pair(const uint32_t *grid, int a, int b) { return grid[a] | (uint64_t)grid[b] << 32; }
INLINED vb iq3_xxs_chunk(const void *b, int j) {
    const uint8_t *q = ((const block_iq3_xxs *)b)->qs + 8 * j;
    const uint32_t *g = gg_iq3xxs_grid;
    return vb_u64(pair(g, q[0], q[1]), pair(g, q[2], q[3]), pair(g, q[4], q[5]), pair(g, q[6], q[7]));
}
INLINED uint32_t iq3_xxs_signs(const void *b, int j) {
    const uint32_t s = load_u32(((const block_iq3_xxs *)b)->gas + 4 * j);
    return four_even_signs(s, s >> 7, s >> 14, s >> 21);
}
INLINED k_scales iq3_xxs_scales(const void *b) {
    const block_iq3_xxs *q = b;
    uint64_t s = 0;
    for (int i = 0; i < 8; i++) s |= (uint64_t)(q->gas[4 * i + 3] >> 4) << 8 * i;
    return without_mins(gg_half_f32(q->d) * 0.25f, vs_twice(s << 1 | EACH_BYTE(1)));
}
INLINED vb iq3_s_chunk(const void *b, int j) {
    const uint8_t *q = ((const block_iq3_s *)b)->qs + 8 * j;
    const uint32_t *g = gg_iq3s_grid;
    const int h = ((const block_iq3_s *)b)->qh[j];
#define AT(i) (q[i] | (h >> (i) & 1) << 8)
    return vb_u64(pair(g, AT(0), AT(1)), pair(g, AT(2), AT(3)), pair(g, AT(4), AT(5)), pair(g, AT(6), AT(7)));
#undef AT
}
INLINED uint32_t iq3_s_signs(const void *b, int j) { return load_u32(((const block_iq3_s *)b)->signs + 4 * j); }
INLINED k_scales iq3_s_scales(const void *b) {
    const block_iq3_s *q = b;
    const uint64_t s = load_u32(q->scales);
    const uint64_t lo = (s & 0x0f0f0f0f) << 1 | 0x01010101, hi = (s >> 3 & 0x1e1e1e1e) | 0x01010101;
    return without_mins(gg_half_f32(q->d), vs_twice(spread(lo) | spread(hi) << 8));
}

/* In eighths: the level and a shift of one up or down, plus 9. The grid holds eight times the level, plus 8. */
INLINED vb iq1_s_chunk(const void *b, int j) {
    const uint8_t *q = ((const block_iq1_s *)b)->qs + 4 * j;
    const int h = ((const block_iq1_s *)b)->qh[j];
    return vb_add(points(gg_iq1s_grid, q[0] | (h & 7) << 8, q[1] | (h & 0x38) << 5, q[2] | (h & 0x1c0) << 2,
                         q[3] | (h & 0xe00) >> 1),
                  vb_set1(h & 0x8000 ? 0 : 2));
}
INLINED vb iq1_m_chunk(const void *b, int j) {
    const uint8_t *q = ((const block_iq1_m *)b)->qs + 4 * j, *h = ((const block_iq1_m *)b)->qh + 2 * j;
    const uint64_t up = EACH_BYTE(2);
    return vb_add(points(gg_iq1s_grid, q[0] | (h[0] & 7) << 8, q[1] | (h[0] & 0x70) << 4, q[2] | (h[1] & 7) << 8,
                         q[3] | (h[1] & 0x70) << 4),
                  vb_u64(h[0] & 8 ? 0 : up, h[0] & 0x80 ? 0 : up, h[1] & 8 ? 0 : up, h[1] & 0x80 ? 0 : up));
}
INLINED k_scales iq1_s_scales(const void *b) {
    const block_iq1_s *q = b;
    uint64_t s = 0;
    for (int i = 0; i < 8; i++) s |= (uint64_t)(q->qh[i] >> 12 & 7) << 8 * i;
    return without_mins(gg_half_f32(q->d) * 0.125f, vs_twice(s << 1 | EACH_BYTE(1)));
}
INLINED k_scales iq1_m_scales(const void *b) {
    uint16_t s[4];
    uint64_t t[2] = {0, 0};
    memcpy(s, ((const block_iq1_m *)b)->scales, 8);
    const gg_half d = (gg_half)(s[0] >> 12 | (s[1] >> 8 & 0xf0) | (s[2] >> 4 & 0xf00) | (s[3] & 0xf000));
    for (int i = 0; i < 16; i++) t[i / 8] |= (uint64_t)(s[i / 4] >> i % 4 * 3 & 7) << i % 8 * 8;
    return without_mins(gg_half_f32(d) * 0.125f, vs_set(t[0] << 1 | EACH_BYTE(1), t[1] << 1 | EACH_BYTE(1)));
}
INLINED vb iq4_xs_chunk(const void *b, int j) {
    return vb_lut(gg_levels_iq4nl, vb_nibbles(((const block_iq4_xs *)b)->qs + 16 * j));
}
INLINED k_scales iq4_xs_scales(const void *b) {
    const block_iq4_xs *q = b;
    uint64_t s = 0;
    for (int i = 0; i < 8; i++)
        s |= (uint64_t)(uint8_t)((q->scales_l[i / 2] >> i % 2 * 4 & 15)
                                 + (q->scales_h >> 2 * i & 3) * 16 - 32) << 8 * i;
    return without_mins(gg_half_f32(q->d), vs_twice(s));
}

K_TYPE(iq2_xxs, 32, 0, iq2_xxs_signs, false, 43, 86)
K_TYPE(iq2_xs, 16, 0, iq2_xs_signs, false, 43, 86)
K_TYPE(iq2_s, 16, 0, iq2_s_signs, false, 43, 86)
K_TYPE(iq3_xxs, 32, 0, iq3_xxs_signs, false, 62, 124)
K_TYPE(iq3_s, 32, 0, iq3_s_signs, false, 15, 30)
K_TYPE(iq1_s, 32, 9, NULL, false, 0, 18)
K_TYPE(iq1_m, 16, 9, NULL, false, 0, 18)
K_TYPE(iq4_xs, 32, 0, NULL, false, 128, 241)

/* ---- the partners, as sources ----------------------------------------------------------------------------------- */
static void q8_1_to_f32(const void *x, float *y, int64_t n) {
    small_to_f32((small_type){sizeof(block_q8_1), 1, 0, q8_1_chunk, q8_1_scales, NULL, false, 128}, x, y, n);
}
INLINED vb q8_K_chunk(const void *b, int j) { return vb_load(((const block_q8_K *)b)->qs + 32 * j); }
INLINED k_scales q8_K_scales(const void *b) {
    return without_mins(((const block_q8_K *)b)->d, vs_set(EACH_BYTE(1), EACH_BYTE(1)));
}
static void q8_K_to_f32(const void *x, float *y, int64_t n) {
    k_to_f32((k_type){sizeof(block_q8_K), 0, q8_K_chunk, q8_K_scales, NULL, false, 128, 32}, x, y, n);
}

#endif
