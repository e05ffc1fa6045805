/* The blocks of the quantised types, byte for byte as GGUF files hold them. d is the scale of a block, as a half
 * unless said otherwise. Element order: "halves" puts elements 0..15 in the low nibbles of 16 bytes and 16..31 in
 * the high ones. */
#ifndef GG_QUANTS_BLOCKS_H
#define GG_QUANTS_BLOCKS_H
#include "../runtime/engine.h"

typedef uint16_t gg_half;

/* 32 elements (one scale) */
typedef struct { gg_half d; uint8_t qs[16]; } block_q4_0;                       /* (q - 8) d, halves */
typedef struct { gg_half d, m; uint8_t qs[16]; } block_q4_1;                    /* q d + m */
/* (q - 16) d, bit 4 of element i is bit i of qh */
typedef struct { gg_half d; uint8_t qh[4], qs[16]; } block_q5_0;
typedef struct { gg_half d, m; uint8_t qh[4], qs[16]; } block_q5_1;
typedef struct { gg_half d; int8_t qs[32]; } block_q8_0;
typedef struct { gg_half d, s; int8_t qs[32]; } block_q8_1;                     /* s: d times the sum of qs */
typedef struct { gg_half d; uint8_t qs[16]; } block_iq4_nl;                     /* level[q] d, halves */
typedef struct { uint8_t e, qs[16]; } block_mxfp4;                              /* level[q] 2^(e - 128), halves */
/* 64 elements: four groups of 16 with a scale in UE4M3 each, halves of 8 */
typedef struct { uint8_t d[4], qs[32]; } block_nvfp4;
/* 128 elements: bit set +d, clear -d */
typedef struct { gg_half d; uint8_t qs[16]; } block_q1_0;

/* 256 elements */
/* 16 groups: low nibble scale, high nibble min */
typedef struct { uint8_t scales[16], qs[64]; gg_half d, dmin; } block_q2_K;
typedef struct { uint8_t hmask[32], qs[64], scales[12]; gg_half d; } block_q3_K;
typedef struct { gg_half d, dmin; uint8_t scales[12], qs[128]; } block_q4_K;    /* 8 groups of 32 */
typedef struct { gg_half d, dmin; uint8_t scales[12], qh[32], qs[128]; } block_q5_K;
typedef struct { uint8_t ql[128], qh[64]; int8_t scales[16]; gg_half d; } block_q6_K;
typedef struct { float d; int8_t qs[256]; int16_t bsums[16]; } block_q8_K;      /* bsums: sums of 16 */
typedef struct { gg_half d; uint16_t qs[32]; } block_iq2_xxs;
typedef struct { gg_half d; uint16_t qs[32]; uint8_t scales[8]; } block_iq2_xs;
typedef struct { gg_half d; uint8_t qs[32], signs[32], qh[8], scales[8]; } block_iq2_s;
/* gas: four 7-bit signs and a scale for each 32 */
typedef struct { gg_half d; uint8_t qs[64], gas[32]; } block_iq3_xxs;
typedef struct { gg_half d; uint8_t qs[64], qh[8], signs[32], scales[4]; } block_iq3_s;
typedef struct { gg_half d; uint8_t qs[32]; uint16_t qh[8]; } block_iq1_s;
/* the half d lies in the top bits of scales */
typedef struct { uint8_t qs[32], qh[16], scales[8]; } block_iq1_m;
typedef struct { gg_half d; uint16_t scales_h; uint8_t scales_l[4], qs[128]; } block_iq4_xs;
typedef struct { uint8_t qs[48], qh[4]; gg_half d; } block_tq1_0;               /* five ternary digits a byte */
typedef struct { uint8_t qs[64]; gg_half d; } block_tq2_0;

#define TYPE(id, NAME, name, blck, bytes, quant) BLOCK_##quant(NAME, bytes)
#define BLOCK_0(NAME, bytes)
#define BLOCK_1(NAME, bytes) enum { GG_BYTES_##NAME = bytes };
#include "../tables/types.h"
#undef TYPE
#define SAME_SIZE(t, NAME) _Static_assert(sizeof(block_##t) == GG_BYTES_##NAME, #NAME);
SAME_SIZE(q4_0, Q4_0) SAME_SIZE(q4_1, Q4_1) SAME_SIZE(q5_0, Q5_0) SAME_SIZE(q5_1, Q5_1) SAME_SIZE(q8_0, Q8_0)
SAME_SIZE(q8_1, Q8_1) SAME_SIZE(iq4_nl, IQ4_NL) SAME_SIZE(mxfp4, MXFP4) SAME_SIZE(nvfp4, NVFP4)
SAME_SIZE(q1_0, Q1_0) SAME_SIZE(q2_K, Q2_K) SAME_SIZE(q3_K, Q3_K) SAME_SIZE(q4_K, Q4_K) SAME_SIZE(q5_K, Q5_K)
SAME_SIZE(q6_K, Q6_K) SAME_SIZE(q8_K, Q8_K) SAME_SIZE(iq2_xxs, IQ2_XXS) SAME_SIZE(iq2_xs, IQ2_XS)
SAME_SIZE(iq2_s, IQ2_S) SAME_SIZE(iq3_xxs, IQ3_XXS) SAME_SIZE(iq3_s, IQ3_S) SAME_SIZE(iq1_s, IQ1_S)
SAME_SIZE(iq1_m, IQ1_M) SAME_SIZE(iq4_xs, IQ4_XS) SAME_SIZE(tq1_0, TQ1_0) SAME_SIZE(tq2_0, TQ2_0)

/* Grids laid out for decoding (tables.c): each entry is eight (iq3: four) int8 values, lowest byte first. The
 * entries of iq1s are eight times the level (-1, 0, 1), plus 10: a level plus or minus 1/8 is a whole number of
 * eighths. */
extern const uint64_t gg_iq2xxs_grid[256], gg_iq2xs_grid[512], gg_iq2s_grid[1024], gg_iq1s_grid[2048];
extern const uint32_t gg_iq3xxs_grid[256], gg_iq3s_grid[512];
extern const int8_t gg_levels_iq4nl[16], gg_levels_e2m1[16];
extern const uint32_t gg_e8m0_halves[256];

/* E8M0: 2^(e - 127), halved because the levels of MXFP4 are doubled. */
static inline float gg_e8m0_half(uint8_t e) { return gg_bits_f32(gg_e8m0_halves[e]); }
/* UE4M3, halved likewise; 0x7f is no number and counts as 0. */
static inline float gg_ue4m3_half(uint8_t u) {
    const int e = u >> 3 & 15, m = u & 7;
    if (u == 0x7f) return 0;
    return e ? gg_bits_f32((uint32_t)(e + 119) << 23 | (uint32_t)m << 20) : (float)m * 0x1p-10f;
}

/* The 6-bit scales and mins of Q4_K and Q5_K: the low halves of groups 4..7 share bytes, the top bits ride on groups
 * 0..3. */
static inline void gg_k4_pack(uint8_t *p, const uint8_t scale[8], const uint8_t min[8]) {
    for (int j = 0; j < 4; j++) {
        p[j] = (uint8_t)(scale[j] | (scale[4 + j] >> 4 << 6));
        p[4 + j] = (uint8_t)(min[j] | (min[4 + j] >> 4 << 6));
        p[8 + j] = (uint8_t)((scale[4 + j] & 15) | (min[4 + j] & 15) << 4);
    }
}
/* The 6-bit scales of Q3_K (biased by 32): low nibbles in 8 bytes, top two bits in 4. */
static inline void gg_k3_pack(uint8_t *p, const uint8_t scale[16]) {
    for (int j = 0; j < 8; j++) p[j] = (uint8_t)((scale[j] & 15) | (scale[8 + j] & 15) << 4);
    for (int j = 0; j < 4; j++)
        p[8 + j] = (uint8_t)(scale[j] >> 4 | scale[4 + j] >> 4 << 2 | scale[8 + j] >> 4 << 4 | scale[12 + j] >> 4 << 6);
}
#endif
