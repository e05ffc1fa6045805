/* The block of each type, field by field, as GGUF files hold it. BLOCK_<name>(ONE, MANY) lists the fields in order:
 * ONE(number, field) is one number, MANY(number, field, count) an array of numbers (GG_NUMBERS).
 *
 * Derived from it: the C structs block_<name> (quants/blocks.h), the validation and the change of byte order
 * (quants/rows.c). So a number of several bytes is described as one, even if only its bits matter. */
#ifndef GG_TABLES_BLOCKS_H
#define GG_TABLES_BLOCKS_H

/* What fields hold: X(number, C type, together, exponent). Where not every code is finite, `exponent` has the bits that
 * are all set in infinities and NaNs. It applies to `together` consecutive numbers, the first in the lowest bits. */
#define GG_NUMBERS(X) \
    X(i8,   int8_t,   1, 0) \
    X(i16,  int16_t,  1, 0) \
    X(i32,  int32_t,  1, 0) \
    X(i64,  int64_t,  1, 0) \
    X(u8,   uint8_t,  1, 0)                     /* bit fields that are read byte by byte */ \
    X(u16,  uint16_t, 1, 0)                     /* bit fields that are read as words */ \
    X(u32,  gg_u32,   1, 0)                     /* likewise, at any address */ \
    X(f16,  gg_half,  1, 0x7c00) \
    X(bf16, uint16_t, 1, 0x7f80) \
    X(f32,  float,    1, 0x7f800000) \
    X(f64,  double,   1, 0x7ff0000000000000) \
    X(e8m0, uint8_t,  1, 0xff)                  /* 2^(e - 127); 255 is NaN */ \
    X(e4m3, uint8_t,  1, 0)                     /* 4 bits of exponent, 3 of mantissa; 0x7f, NaN, counts as 0 */ \
    X(split_f16, uint16_t, 4, 0x7000c00000000000)   /* words; the top bits of four make an f16, the lowest first */

/* ---- types without blocks ---------------------------------------------------------------------------------------- */
#define BLOCK_f32(ONE, MANY)  ONE(f32, value)
#define BLOCK_f16(ONE, MANY)  ONE(f16, value)
#define BLOCK_bf16(ONE, MANY) ONE(bf16, value)
#define BLOCK_f64(ONE, MANY)  ONE(f64, value)
#define BLOCK_i8(ONE, MANY)   ONE(i8, value)
#define BLOCK_i16(ONE, MANY)  ONE(i16, value)
#define BLOCK_i32(ONE, MANY)  ONE(i32, value)
#define BLOCK_i64(ONE, MANY)  ONE(i64, value)

/* ---- 32 elements with one scale d -------------------------------------------------------------------------------- */
/* An element is given as a function of its code q. Four-bit codes: the low four bits of the 16 bytes of qs are elements
 * 0..15, the high ones elements 16..31. Codes of five bits: bit i of qh is the fifth bit of element i. */
#define BLOCK_q4_0(ONE, MANY) ONE(f16, d) MANY(u8, qs, 16)                      /* (q - 8) d */
#define BLOCK_q4_1(ONE, MANY) ONE(f16, d) ONE(f16, m) MANY(u8, qs, 16)          /* q d + m */
#define BLOCK_q5_0(ONE, MANY) ONE(f16, d) ONE(u32, qh) MANY(u8, qs, 16)         /* (q - 16) d */
#define BLOCK_q5_1(ONE, MANY) ONE(f16, d) ONE(f16, m) ONE(u32, qh) MANY(u8, qs, 16)  /* q d + m */
#define BLOCK_q8_0(ONE, MANY) ONE(f16, d) MANY(i8, qs, 32)                      /* q d */
#define BLOCK_q8_1(ONE, MANY) ONE(f16, d) ONE(f16, s) MANY(i8, qs, 32)          /* q d; s: d times the sum of q */
#define BLOCK_iq4_nl(ONE, MANY) ONE(f16, d) MANY(u8, qs, 16)                    /* GG_LEVELS_IQ4NL[q] d */
#define BLOCK_mxfp4(ONE, MANY) ONE(e8m0, e) MANY(u8, qs, 16)                    /* GG_LEVELS_E2M1[q] 2^(e - 128) */

/* ---- 64 and 128 elements ----------------------------------------------------------------------------------------- */
/* Four groups of 16 with a scale each: GG_LEVELS_E2M1[q] d / 2. Of the 8 bytes of a group, the low four bits are its
 * elements 0..7, the high ones 8..15. */
#define BLOCK_nvfp4(ONE, MANY) MANY(e4m3, d, 4) MANY(u8, qs, 32)
#define BLOCK_q1_0(ONE, MANY) ONE(f16, d) MANY(u8, qs, 16)                      /* bit set: d, clear: -d */
#define BLOCK_q2_0(ONE, MANY) ONE(f16, d) MANY(u8, qs, 16)                      /* (q - 1) d; four codes q a byte */

/* ---- 256 elements in groups, whose scales s and minima m are integers -------------------------------------------- */
/* K types: an element is d s (q - bias) - dmin m. decode.h says where the bits of q, s and m lie. */
#define BLOCK_q2_K(ONE, MANY) MANY(u8, scales, 16) MANY(u8, qs, 64) ONE(f16, d) ONE(f16, dmin)  /* 16 groups */
#define BLOCK_q3_K(ONE, MANY) MANY(u8, hmask, 32) MANY(u8, qs, 64) MANY(u8, scales, 12) ONE(f16, d)
#define BLOCK_q4_K(ONE, MANY) ONE(f16, d) ONE(f16, dmin) MANY(u8, scales, 12) MANY(u8, qs, 128) /* 8 groups */
#define BLOCK_q5_K(ONE, MANY) ONE(f16, d) ONE(f16, dmin) MANY(u8, scales, 12) MANY(u8, qh, 32) MANY(u8, qs, 128)
#define BLOCK_q6_K(ONE, MANY) MANY(u8, ql, 128) MANY(u8, qh, 64) MANY(i8, scales, 16) ONE(f16, d)
#define BLOCK_q8_K(ONE, MANY) ONE(f32, d) MANY(i8, qs, 256) MANY(i16, bsums, 16)  /* q d; bsums: sums of 16 q */

/* IQ types: indices of grid points, signs and scales. Of each 32 elements hold
 *   iq2_xxs  two words of qs: four indices; four times seven signs and a scale
 *   iq2_xs   four words of qs: an index and seven signs each
 *   iq3_xxs  a word of gas: four times seven signs and a scale
 *   iq1_s    a word of qh: four times three high bits of an index, a scale, a shift
 * The eighth of seven signs makes the number of minus signs even. */
#define BLOCK_iq2_xxs(ONE, MANY) ONE(f16, d) MANY(u32, qs, 16)
#define BLOCK_iq2_xs(ONE, MANY) ONE(f16, d) MANY(u16, qs, 32) MANY(u8, scales, 8)
#define BLOCK_iq2_s(ONE, MANY) ONE(f16, d) MANY(u8, qs, 32) MANY(u8, signs, 32) MANY(u8, qh, 8) MANY(u8, scales, 8)
#define BLOCK_iq3_xxs(ONE, MANY) ONE(f16, d) MANY(u8, qs, 64) MANY(u32, gas, 8)
#define BLOCK_iq3_s(ONE, MANY) ONE(f16, d) MANY(u8, qs, 64) MANY(u8, qh, 8) MANY(u8, signs, 32) MANY(u8, scales, 4)
#define BLOCK_iq1_s(ONE, MANY) ONE(f16, d) MANY(u8, qs, 32) MANY(u16, qh, 8)
#define BLOCK_iq1_m(ONE, MANY) MANY(u8, qs, 32) MANY(u8, qh, 16) MANY(split_f16, scales, 4)  /* d is in scales */
#define BLOCK_iq4_xs(ONE, MANY) ONE(f16, d) ONE(u16, scales_h) MANY(u8, scales_l, 4) MANY(u8, qs, 128)

/* Ternary types: q d, q = -1, 0, 1. */
#define BLOCK_tq1_0(ONE, MANY) MANY(u8, qs, 48) MANY(u8, qh, 4) ONE(f16, d)     /* five base-3 digits a byte */
#define BLOCK_tq2_0(ONE, MANY) MANY(u8, qs, 64) ONE(f16, d)                     /* four two-bit codes a byte */
#endif
