/* The vocabulary in which quantised types are decoded and multiplied: 32 bytes in registers. Each ISA implements it;
 * GG_VEC names its header, as in vec/. All functions are `static inline` and accept any alignment.
 *
 * Types
 *   vb   32 bytes: the codes of a chunk of 32 elements. "lo" and "hi" are the first and the last 16, which may have
 *        different scales
 *   vq   sums of products as int32 lanes; lanes of lo and of hi are separate
 *   vs   16 scales or minima of a block of 256, as int16; chunk j has scales 2 j and 2 j + 1
 *   vn   sums of products of small numbers for one block of 256, in lanes that may be narrower
 *   va   accumulator of float lanes
 *   vp   four pairs of floats
 *
 * Load and create
 *   vb_load(p)               32 bytes
 *   vb_nibbles(p)            the low four bits of 16 bytes, then the high ones
 *   vb_load_4x4(p, q)        16 bytes at p, then four times the four bytes at q
 *   vb_gather4(a, b, c, d)   8 bytes from each pointer; vb_gather8(a, ..., h): 4 bytes from each
 *   vb_u64(a, b, c, d)       four times 8 bytes
 *   vb_set1(x)               x in each byte; vb_fill_halves(u): the low byte of u in lo, its high byte in hi
 *   vb_mask(bits)            byte i is 255 if bit i is set, else 0; vb_bits(v) is the inverse
 *   vb_from_i32(v)           the 32 lanes of the vi (vec/) at v, each within -128..127
 * Store
 *   vb_store(p, v)           32 bytes
 *   vb_store_lo_hi(p, q, v)  lo at p, hi at q
 *   vb_store_nibbles(p, v)   the inverse of vb_nibbles
 *   vb_store_interleaved(p, v)  alternately two bytes of lo and two of hi; only where GG_VEC_PAIRS is defined
 *   vb_store_f32(y, v, lo, hi, off_lo, off_hi)   y = v scale - off for signed bytes v, with a scale and an offset for
 *                            lo and for hi; the product is rounded, too, as the formats prescribe
 * Bytes
 *   vb_and vb_or vb_add vb_sub (a, b)   vb_min(a, b) unsigned   vb_gt(a, b) signed: 255 or 0
 *   vb_field(a, k, mask)     (a >> k) & mask, mask < 256 >> k; if k < 0, (a << -k) & mask
 *   vb_lut(table, a)         table[a], a < 16
 *   vb_join_lo(a, b)         lo of a, lo of b
 *   vb_blend(a, b, bits)     bytes 4 i .. 4 i + 3 of b if bit i is set, else of a
 *   vb_negate(a, bits)       -a where the bit is set
 *   vb_sign_bits(bits, p, bytes)  8 words for vb_negate from 32 fields of seven bits. Each field gives eight bits; the
 *                            eighth makes the number of set bits even. The fields are, if bytes is 2, the upper seven
 *                            bits of 32 uint16 at p; if 4, the lower 28 bits of 8 uint32; if 8, those of the upper half
 *                            of 8 uint64
 * Products
 *   vq_dot_us(u, s)          unsigned u < 128 times signed s; vq_dot_ss(a, b): both signed, b > -128
 *   vq_dot_from(o, u, s)     (u - k) s for u < 128, where o = vq_offset(k, s), k < 32; or u s, where o = vq_zero()
 *   vq_dot_signed(o, a, s)   a s for signed a, where o = vq_offset(128, s); cheaper than vq_dot_ss for several a
 *   vq_madd_us(acc, u, s, scales, j)    acc + u s times the scales of chunk j, a constant; vq_madd_ss likewise
 *   vq_madd_us8(acc, u, s, scales, j)   likewise with scales of type ve
 *   vq_dot_vs(scales, p)     products with 16 int16 at p
 *   vq_zero() vq_add vq_sub (a, b)   vq_div4(a) all lanes are multiples of 4
 *   vn_zero() vn_add(a, b) vn_div4(a)
 *   vn_madd(acc, u, s)       acc + u s for u < 16, at most eight times; vn_madd_signs(acc, a, s): a is -1, 0 or 1
 *   vn_sub_i16(acc, p)       acc minus 16 int16 at p, each a sum for two elements
 *   vn_sum(acc)              as vq
 * Scales
 *   vs_load_i8(p) vs_load_u8(p)   16 bytes
 *   vs_set(lo, hi)           8 and 8 signed bytes; vs_set_pairs(a): 8 signed bytes, each twice; vs_set1(x)
 *   vs_unpack1(p) vs_unpack2(p) vs_unpack4(p)   16 fields of 1, 2, 4 bits, the lowest bits first
 *   vs_unpack3(p)            four fields of three bits from each of four uint16
 *   vs_unpack_top4(p, bytes) the top four bits of 8 numbers of 2, 4 or 8 bytes, each twice
 *   ve_unpack_k4(p, m)       8 scales and, as *m, 8 minima, each twice, from the 12 bytes of gg_k4_pack at p, which
 *                            follow two halves of the same block
 *   vs_each_twice(e)         8 scales, each twice
 *   vs_field(a, k, mask)     (a >> k) & mask
 *   vs_add vs_mul (a, b)   vs_odd(a) 2 a + 1   vs_store(p, a)   vs_to_f32(d, s, x) d[i] = x s[i]
 *   vs_mul_part(a, k, b)     2^k a b / 2^15, rounded; only where GG_VEC_PAIRS is defined
 * Accumulate
 *   va_zero() va_scale(acc, a, x) acc + a x   va_sum(a) sum of the lanes
 *   va_madd(acc, q, lo, hi)  acc + q times a scale for lo and one for hi; va_madd1(acc, q, x): one scale
 *   va_madd_pair(acc, q, p, i)   acc + q times the first of pair i
 *   va_madd_sums(acc, q, x)  acc + q[i] x[i], i < 4; the lanes of each q are added first, without rounding
 *   va_sums(s, a, rows)      s[r] = va_sum(a[r]) for 1 or 4 rows
 *   vp_zero() vp_add(a, b)   vp_add_seconds(s, a, rows): s[r] += the second of pair r for 1 or 4 rows
 *   vp_mul_halves(p, nb, f)  pair i: two halves at p + i nb times two floats at f
 *   vd_scale4(d, h0, h1, h2, h3, f)   d[i] = h_i f[i]
 * Columns, only where GG_VEC_COLUMNS is defined: a vi (vec/) holds a word of each of VW rows, which are nb bytes apart
 *   vc_load(p, nb)   vc_load4(w, p, nb): w[0] .. w[3], words 0 to 3 of the rows
 *   vc_nibbles(w, p, nb)     of 16 bytes the low four bits to w[0] .. w[3], the high ones to w[4] .. w[7]
 *   vc_add_bits(c, bits, q)  c plus 16 in byte i of a row if bit 4 q + i of its word in bits is set
 *   vc_flip_signs(w)   vc_lut(table, w)   of bytes
 *   vc_pairs(out, w)         the signed bytes 0 and 1, 2 and 3 as int16; only where GG_VEC_PAIRS is defined
 *   vc_half(w, i)            half i of each word
 * Scalars
 *   gg_half_f32(h) gg_f32_half(x)
 *   gg_half_of_two(p, i)     half i of the two at p; reads all four bytes */
#ifndef GG_QUANTS_BYTES_H
#define GG_QUANTS_BYTES_H
#include "../../vec/vec.h"
#include "../blocks.h"
#define EACH_BYTE(x) ((x) * 0x0101010101010101u)
#include GG_VEC
#endif
