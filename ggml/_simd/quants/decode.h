/* How each quantised type is decoded: chunk and scales functions, and their instances of generic.h. */
#ifndef GG_QUANTS_DECODE_H
#define GG_QUANTS_DECODE_H
#include "generic.h"

INLINED void both(float *d, float x) { d[0] = d[1] = x; }

/* ---- blocks of 32, 64 and 128 ------------------------------------------------------------------------------------------ */
#define HALF_SCALE(t) INLINED void t##_scales(const void *b, float *d, float *m) { \
    (void)m; both(d, gg_half_f32(((const block_##t *)b)->d)); }
#define HALF_SCALE_MIN(t) INLINED void t##_scales(const void *b, float *d, float *m) { \
    both(d, gg_half_f32(((const block_##t *)b)->d)); both(m, -gg_half_f32(((const block_##t *)b)->m)); }
INLINED uint32_t load_u32(const void *p) { uint32_t u; memcpy(&u, p, 4); return u; }

INLINED vb q4_0_chunk(const void *b, int j) { (void)j; return vb_sub(vb_nibbles(((const block_q4_0 *)b)->qs), vb_set1(8)); }
INLINED vb q4_1_chunk(const void *b, int j) { (void)j; return vb_nibbles(((const block_q4_1 *)b)->qs); }
INLINED vb q5_0_chunk(const void *b, int j) {   /* a clear fifth bit takes 16 off: 0xf0 over the nibble */
    (void)j;
    const block_q5_0 *q = b;
    return vb_or(vb_nibbles(q->qs), vb_and(vb_mask(~load_u32(q->qh)), vb_set1(0xf0)));
}
INLINED vb q5_1_chunk(const void *b, int j) {
    (void)j;
    const block_q5_1 *q = b;
    return vb_or(vb_nibbles(q->qs), vb_and(vb_mask(load_u32(q->qh)), vb_set1(16)));
}
INLINED vb q8_0_chunk(const void *b, int j) { (void)j; return vb_load(((const block_q8_0 *)b)->qs); }
INLINED vb q8_1_chunk(const void *b, int j) { (void)j; return vb_load(((const block_q8_1 *)b)->qs); }
INLINED vb iq4_nl_chunk(const void *b, int j) { (void)j; return vb_lut(gg_levels_iq4nl, vb_nibbles(((const block_iq4_nl *)b)->qs)); }
INLINED vb mxfp4_chunk(const void *b, int j) { (void)j; return vb_lut(gg_levels_e2m1, vb_nibbles(((const block_mxfp4 *)b)->qs)); }
INLINED vb q1_0_chunk(const void *b, int j) {   /* 1 or -1: all bits but the lowest are those of "clear" */
    return vb_or(vb_mask(~load_u32(((const block_q1_0 *)b)->qs + 4 * j)), vb_set1(1));
}
INLINED vb nvfp4_chunk(const void *b, int j) {
    uint64_t g[2];                              /* two groups: 8 low nibbles, 8 high ones */
    memcpy(g, ((const block_nvfp4 *)b)->qs + 16 * j, 16);
    return vb_lut(gg_levels_e2m1, vb_and(vb_u64(g[0], g[0] >> 4, g[1], g[1] >> 4), vb_set1(15)));
}

HALF_SCALE(q4_0) HALF_SCALE(q5_0) HALF_SCALE(q8_0) HALF_SCALE(q8_1) HALF_SCALE(iq4_nl)
HALF_SCALE_MIN(q4_1) HALF_SCALE_MIN(q5_1)
INLINED void mxfp4_scales(const void *b, float *d, float *m) { (void)m; both(d, gg_e8m0_half(((const block_mxfp4 *)b)->e)); }
INLINED void nvfp4_scales(const void *b, float *d, float *m) {
    (void)m;
    for (int i = 0; i < 4; i++) d[i] = gg_ue4m3_half(((const block_nvfp4 *)b)->d[i]);
}
INLINED void q1_0_scales(const void *b, float *d, float *m) {
    (void)m;
    const float x = gg_half_f32(((const block_q1_0 *)b)->d);
    for (int i = 0; i < 8; i++) d[i] = x;
}

QUANT_TYPE(q4_0, 1, false, false, q8_0)
QUANT_TYPE(q4_1, 1, true, true, q8_1)
QUANT_TYPE(q5_0, 1, false, false, q8_0)
QUANT_TYPE(q5_1, 1, true, true, q8_1)
QUANT_TYPE(q8_0, 1, false, false, q8_0)
QUANT_TYPE(iq4_nl, 1, false, false, q8_0)
QUANT_TYPE(mxfp4, 1, false, false, q8_0)
QUANT_TYPE(nvfp4, 2, false, false, q8_0)
QUANT_TYPE(q1_0, 4, false, false, q8_0)

/* ---- K types ----------------------------------------------------------------------------------------------------------- */
INLINED vb two_bits(const uint8_t *qs, int j) { return vb_field(vb_load(qs + j / 4 * 32), j % 4 * 2, 3); }
INLINED vb four_bits(const uint8_t *qs, int j) { return vb_field(vb_load(qs + j / 2 * 32), j % 2 * 4, 15); }

INLINED vb q2_K_chunk(const void *b, int j) { return two_bits(((const block_q2_K *)b)->qs, j); }
INLINED vb q3_K_chunk(const void *b, int j) {   /* a clear third bit takes 4 off */
    const block_q3_K *q = b;
    const vb high = vb_shl(vb_field(vb_load(q->hmask), j, 1), 2);
    return vb_sub(vb_or(two_bits(q->qs, j), high), vb_set1(4));
}
INLINED vb q4_K_chunk(const void *b, int j) { return four_bits(((const block_q4_K *)b)->qs, j); }
INLINED vb q5_K_chunk(const void *b, int j) {
    const block_q5_K *q = b;
    return vb_or(four_bits(q->qs, j), vb_shl(vb_field(vb_load(q->qh), j, 1), 4));
}
INLINED vb q6_K_chunk(const void *b, int j) {
    const block_q6_K *q = b;
    const vb low = vb_field(vb_load(q->ql + j / 4 * 64 + j % 2 * 32), j % 4 / 2 * 4, 15);
    const vb high = vb_field(vb_load(q->qh + j / 4 * 32), j % 4 * 2, 3);
    return vb_sub(vb_or(low, vb_shl(high, 4)), vb_set1(32));
}

INLINED void q2_K_scales(const void *b, float *d, float *m) {
    const block_q2_K *q = b;
    const float dd = gg_half_f32(q->d), dm = gg_half_f32(q->dmin);
    for (int i = 0; i < 16; i++) d[i] = dd * (float)(q->scales[i] & 15), m[i] = dm * (float)(q->scales[i] >> 4);
}
INLINED void q3_K_scales(const void *b, float *d, float *m) {
    (void)m;
    const block_q3_K *q = b;
    const float dd = gg_half_f32(q->d);
    int8_t s[16];
    gg_k3_unpack(q->scales, s);
    for (int i = 0; i < 16; i++) d[i] = dd * (float)s[i];
}
INLINED void k4_scales(const uint8_t *scales, float dd, float dm, float *d, float *m) {
    uint8_t s[8], t[8];
    gg_k4_unpack(scales, s, t);
    for (int i = 0; i < 16; i++) d[i] = dd * (float)s[i / 2], m[i] = dm * (float)t[i / 2];
}
INLINED void q4_K_scales(const void *b, float *d, float *m) {
    const block_q4_K *q = b;
    k4_scales(q->scales, gg_half_f32(q->d), gg_half_f32(q->dmin), d, m);
}
INLINED void q5_K_scales(const void *b, float *d, float *m) {
    const block_q5_K *q = b;
    k4_scales(q->scales, gg_half_f32(q->d), gg_half_f32(q->dmin), d, m);
}
INLINED void q6_K_scales(const void *b, float *d, float *m) {
    (void)m;
    const block_q6_K *q = b;
    const float dd = gg_half_f32(q->d);
    for (int i = 0; i < 16; i++) d[i] = dd * (float)q->scales[i];
}

QUANT_TYPE(q2_K, 8, true, true, q8_K)
QUANT_TYPE(q3_K, 8, false, false, q8_K)
QUANT_TYPE(q4_K, 8, true, true, q8_K)
QUANT_TYPE(q5_K, 8, true, true, q8_K)
QUANT_TYPE(q6_K, 8, false, false, q8_K)

/* ---- ternary types ------------------------------------------------------------------------------------------------------ */
/* The leading base-3 digit of each byte, less 1: the byte is a fraction of 256. */
INLINED vb trit(vb a) { return vb_sub(vb_sub(vb_set1(-1), vb_ge(a, 86)), vb_ge(a, 171)); }
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
INLINED vb tq2_0_chunk(const void *b, int j) { return vb_sub(two_bits(((const block_tq2_0 *)b)->qs, j), vb_set1(1)); }
INLINED void same_scales(float *d, gg_half h) {
    const float x = gg_half_f32(h);
    for (int i = 0; i < 16; i++) d[i] = x;
}
INLINED void tq1_0_scales(const void *b, float *d, float *m) { (void)m; same_scales(d, ((const block_tq1_0 *)b)->d); }
INLINED void tq2_0_scales(const void *b, float *d, float *m) { (void)m; same_scales(d, ((const block_tq2_0 *)b)->d); }

QUANT_TYPE(tq1_0, 8, false, false, q8_K)
QUANT_TYPE(tq2_0, 8, false, false, q8_K)

/* ---- IQ types: points of a grid, and signs ------------------------------------------------------------------------------ */
INLINED vb signed_points(const uint64_t *grid, int a, int b, int c, int d, uint32_t signs) {
    return vb_negate(vb_u64(grid[a], grid[b], grid[c], grid[d]), vb_mask(signs));
}
INLINED uint32_t even_signs4(uint32_t s) {      /* four times seven bits */
    return gg_even_signs(s & 127) | gg_even_signs(s >> 7 & 127) << 8 | gg_even_signs(s >> 14 & 127) << 16 | gg_even_signs(s >> 21 & 127) << 24;
}
INLINED vb iq2_xxs_chunk(const void *b, int j) {
    const uint8_t *q = (const uint8_t *)(((const block_iq2_xxs *)b)->qs + 4 * j);
    return signed_points(gg_iq2xxs_grid, q[0], q[1], q[2], q[3], even_signs4(load_u32(q + 4)));
}
INLINED vb iq2_xs_chunk(const void *b, int j) {
    const uint16_t *q = ((const block_iq2_xs *)b)->qs + 4 * j;
    const uint32_t signs = gg_even_signs(q[0] >> 9) | gg_even_signs(q[1] >> 9) << 8 | gg_even_signs(q[2] >> 9) << 16 | gg_even_signs(q[3] >> 9) << 24;
    return signed_points(gg_iq2xs_grid, q[0] & 511, q[1] & 511, q[2] & 511, q[3] & 511, signs);
}
INLINED vb iq2_s_chunk(const void *b, int j) {
    const block_iq2_s *x = b;
    const uint8_t *q = x->qs + 4 * j;
    const int h = x->qh[j];
    return signed_points(gg_iq2s_grid, q[0] | (h & 3) << 8, q[1] | (h & 12) << 6, q[2] | (h & 48) << 4, q[3] | (h & 192) << 2,
                         load_u32(x->signs + 4 * j));
}
INLINED uint64_t pair(const uint32_t *grid, int a, int b) { return grid[a] | (uint64_t)grid[b] << 32; }
INLINED vb iq3_xxs_chunk(const void *b, int j) {
    const block_iq3_xxs *x = b;
    const uint8_t *q = x->qs + 8 * j;
    const uint32_t *g = gg_iq3xxs_grid;
    return vb_negate(vb_u64(pair(g, q[0], q[1]), pair(g, q[2], q[3]), pair(g, q[4], q[5]), pair(g, q[6], q[7])),
                     vb_mask(even_signs4(load_u32(x->gas + 4 * j))));
}
INLINED vb iq3_s_chunk(const void *b, int j) {
    const block_iq3_s *x = b;
    const uint8_t *q = x->qs + 8 * j;
    const uint32_t *g = gg_iq3s_grid;
    const int h = x->qh[j];
#define AT(i) (q[i] | (h >> (i) & 1) << 8)
    return vb_negate(vb_u64(pair(g, AT(0), AT(1)), pair(g, AT(2), AT(3)), pair(g, AT(4), AT(5)), pair(g, AT(6), AT(7))),
                     vb_mask(load_u32(x->signs + 4 * j)));
#undef AT
}
INLINED vb iq1_s_chunk(const void *b, int j) {  /* in eighths: the level plus or minus 1/8 */
    const block_iq1_s *x = b;
    const uint8_t *q = x->qs + 4 * j;
    const uint64_t *g = gg_iq1s_grid;
    const int h = x->qh[j];
    return vb_add(vb_u64(g[q[0] | (h & 7) << 8], g[q[1] | (h & 0x38) << 5], g[q[2] | (h & 0x1c0) << 2], g[q[3] | (h & 0xe00) >> 1]),
                  vb_set1(h & 0x8000 ? -1 : 1));
}
INLINED vb iq1_m_chunk(const void *b, int j) {
    const block_iq1_m *x = b;
    const uint8_t *q = x->qs + 4 * j, *h = x->qh + 2 * j;
    const uint64_t *g = gg_iq1s_grid, plus = 0x0101010101010101, minus = ~(uint64_t)0;
    return vb_add(vb_u64(g[q[0] | (h[0] & 7) << 8], g[q[1] | (h[0] & 0x70) << 4], g[q[2] | (h[1] & 7) << 8], g[q[3] | (h[1] & 0x70) << 4]),
                  vb_u64(h[0] & 8 ? minus : plus, h[0] & 0x80 ? minus : plus, h[1] & 8 ? minus : plus, h[1] & 0x80 ? minus : plus));
}
INLINED vb iq4_xs_chunk(const void *b, int j) { return vb_lut(gg_levels_iq4nl, vb_nibbles(((const block_iq4_xs *)b)->qs + 16 * j)); }

INLINED void iq2_xxs_scales(const void *b, float *d, float *m) {
    (void)m;
    const block_iq2_xxs *q = b;
    const float dd = gg_half_f32(q->d) * 0.25f;
    for (int i = 0; i < 8; i++) both(d + 2 * i, dd * (0.5f + (float)(q->qs[4 * i + 3] >> 12)));
}
INLINED void nibble_scales(const uint8_t *scales, float dd, float *d) {   /* one nibble for 16 elements */
    for (int i = 0; i < 8; i++) d[2 * i] = dd * (0.5f + (float)(scales[i] & 15)), d[2 * i + 1] = dd * (0.5f + (float)(scales[i] >> 4));
}
INLINED void iq2_xs_scales(const void *b, float *d, float *m) {
    (void)m;
    nibble_scales(((const block_iq2_xs *)b)->scales, gg_half_f32(((const block_iq2_xs *)b)->d) * 0.25f, d);
}
INLINED void iq2_s_scales(const void *b, float *d, float *m) {
    (void)m;
    nibble_scales(((const block_iq2_s *)b)->scales, gg_half_f32(((const block_iq2_s *)b)->d) * 0.25f, d);
}
INLINED void iq3_xxs_scales(const void *b, float *d, float *m) {
    (void)m;
    const block_iq3_xxs *q = b;
    const float dd = gg_half_f32(q->d) * 0.5f;
    for (int i = 0; i < 8; i++) both(d + 2 * i, dd * (0.5f + (float)(q->gas[4 * i + 3] >> 4)));
}
INLINED void iq3_s_scales(const void *b, float *d, float *m) {
    (void)m;
    const block_iq3_s *q = b;
    const float dd = gg_half_f32(q->d);
    for (int i = 0; i < 8; i++) both(d + 2 * i, dd * (float)(1 + 2 * (q->scales[i / 2] >> i % 2 * 4 & 15)));
}
INLINED void iq1_s_scales(const void *b, float *d, float *m) {
    (void)m;
    const block_iq1_s *q = b;
    const float dd = gg_half_f32(q->d) * 0.125f;
    for (int i = 0; i < 8; i++) both(d + 2 * i, dd * (float)(2 * (q->qh[i] >> 12 & 7) + 1));
}
INLINED void iq1_m_scales(const void *b, float *d, float *m) {
    (void)m;
    uint16_t s[4];
    memcpy(s, ((const block_iq1_m *)b)->scales, 8);
    const float dd = gg_half_f32((gg_half)(s[0] >> 12 | (s[1] >> 8 & 0xf0) | (s[2] >> 4 & 0xf00) | (s[3] & 0xf000))) * 0.125f;
    for (int i = 0; i < 16; i++) d[i] = dd * (float)(2 * (s[i / 4] >> i % 4 * 3 & 7) + 1);
}
INLINED void iq4_xs_scales(const void *b, float *d, float *m) {
    (void)m;
    const block_iq4_xs *q = b;
    const float dd = gg_half_f32(q->d);
    for (int i = 0; i < 8; i++)
        both(d + 2 * i, dd * (float)((q->scales_l[i / 2] >> i % 2 * 4 & 15) + (q->scales_h >> 2 * i & 3) * 16 - 32));
}

QUANT_TYPE(iq2_xxs, 8, false, false, q8_K)
QUANT_TYPE(iq2_xs, 8, false, false, q8_K)
QUANT_TYPE(iq2_s, 8, false, false, q8_K)
QUANT_TYPE(iq3_xxs, 8, false, false, q8_K)
QUANT_TYPE(iq3_s, 8, false, false, q8_K)
QUANT_TYPE(iq1_s, 8, false, false, q8_K)
QUANT_TYPE(iq1_m, 8, false, false, q8_K)
QUANT_TYPE(iq4_xs, 8, false, false, q8_K)

/* ---- the partners, as sources ------------------------------------------------------------------------------------------- */
static void q8_1_to_f32(const void *x, float *y, int64_t n) {
    generic_to_f32((quant_type){sizeof(block_q8_1), 1, q8_1_chunk, q8_1_scales, false, false}, x, y, n);
}
INLINED vb q8_K_chunk(const void *b, int j) { return vb_load(((const block_q8_K *)b)->qs + 32 * j); }
INLINED void q8_K_scales(const void *b, float *d, float *m) {
    (void)m;
    for (int i = 0; i < 16; i++) d[i] = ((const block_q8_K *)b)->d;
}
static void q8_K_to_f32(const void *x, float *y, int64_t n) {
    generic_to_f32((quant_type){sizeof(block_q8_K), 8, q8_K_chunk, q8_K_scales, false, false}, x, y, n);
}

#endif
