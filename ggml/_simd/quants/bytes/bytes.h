/* Blocks of 32 bytes in registers: what decoding and multiplying quantised elements takes, in each ISA. GG_VEC names
 * the header, as it does in vec/. All functions are `static inline`; all tolerate any alignment.
 *
 * vb            32 bytes, element i in byte i; the first and the last 16 may have scales of their own ("lo" and "hi")
 * vq            sums of products, as int32 lanes, lo and hi apart
 * vs            16 scales or mins of a block of 256, as int16: those of chunk j are elements 2 j and 2 j + 1
 * vn            sums of products of numbers below 16, for one block of 256
 * va            an accumulator of f32 lanes
 * vd            two floats
 *
 * load          vb_load(p) 32 bytes  vb_nibbles(p) low nibbles of 16 bytes, then the high ones
 *               vb_u64(a,b,c,d) four times 8 bytes  vb_set1(x)  vb_mask(bits) byte i is 255 if bit i is set, else 0
 *               vb_load_4x4(p,q) 16 and four times the same four  vb_sixteens(u) each of two bytes 16 times
 *               vb_of(v) the 32 lanes at v (vi of vec/), each within -128..127
 *               vb_points(a,b,c,d) four times the 8 bytes at a pointer  vb_points8(a,...,h) eight times four
 * bytes         vb_and vb_or vb_add vb_sub (a,b)  vb_field(a,k,mask) (a >> k) & mask, mask below 256 >> k;
 *               with k < 0 (a << -k) & mask, mask without its lowest -k bits
 *               vb_lut(table,a) a < 16  vb_gt(a,b) signed: 255 or 0  vb_min(a,b) unsigned
 *               vb_lows(a,b) lo of both  vb_mix(a,b,bits) four bytes of b for each set bit
 *               vb_negate(a,bits) -a where the bit is set
 *               vb_even(bits,p,bytes) 8 words for vb_negate, with seven bits for eight bytes each, the eighth such that the
 *               number of set ones is even: the upper seven of 32 uint16 at p (bytes 2), or the lower 28 of 8 uint32 (4) or of
 *               the upper halves of 8 uint64 (8)
 * multiply      vq_dot_us(u,s) u < 128 unsigned, s signed  vq_dot_ss(a,b) both signed, b > -128
 *               vq_dot_less(u,k,s) (u - k) s, u and k < 32
 * scales        vs_set(lo,hi) 8 and 8 signed bytes  vs_twice(a) 8 bytes, each for two elements  vs_load(p) 16 signed bytes
 *               vs_bytes(p) 16 unsigned ones  vs_ones(p) vs_pairs(p) vs_nibbles(p) bits of 2, 4, 8 bytes, by 1, 2, 4, low ones
 *               first  vs_threes(p) four times three bits of each of four uint16  vs_store(p,a)
 *               vs_top(p,bytes) the top four bits of 8 numbers of 2, 4 or 8 bytes, each for two elements
 *               vs_set1(x)  vs_field(a,k,mask) (a >> k) & mask  vs_add vs_times (a,b)  vs_odd(a) 2 a + 1
 *               vs_to_f32(d,s,x) floats d[i] = x s[i]
 *               vq_madd_us(acc,u,s,scales,j) acc + u s with the scales of chunk j (a constant)  vq_madd_ss likewise
 *               vq_dot_vs(scales,p) products with 16 int16 at p
 *               vn_zero() vn_madd(acc,u,s) acc + u s, eight times at most
 *               vn_madd_signs(acc,a,s) likewise with a of -1, 0, 1  vn_sum(acc) -> vq
 *               vn_less(acc,p) acc less 16 int16 at p, the sums of two elements each  vn_add(a,b)
 *               vq_zero() vq_add vq_sub (a,b)  vn_quarter vq_quarter (a) a / 4, all lanes multiples of 4
 * accumulate    va_zero() va_add(a,b) va_scale(acc,a,x) acc + a x  va_sum(a) -> float
 *               va_madd(acc,q,lo,hi) acc + q with a scale for each half  va_madd1(acc,q,x) one scale
 *               va_madd_sums(acc,q,x) likewise for q[4] and x[4], the lanes of each q added up first, without rounding
 *               vd_zero() vd_add(a,b)  vd_times(p,f) the two halves at p times the floats at f  vd_first vd_second
 *               vd_four(d,a,b,c,e,f) d[i] = four halves times the floats at f
 * store         vb_store(p,v) 32 bytes  vb_store2(p,q,v) 16 and 16  vb_store_nibbles(p,v) as vb_nibbles loads them
 *               vb_bits(v) the bits that vb_mask makes bytes of
 *               vb_store_halves(p,v) twos of bytes of lo and of hi by turns (only where GG_VEC_PAIRS is defined)
 *               vb_store_f32(y,v,lo,hi,off_lo,off_hi) signed bytes v: 32 floats v scale - off,
 *               rounded twice (as the format says)
 * scalar        gg_half_f32(h)  gg_f32_half(x)  gg_half_of_two(p,i) half i of the two at p, all of whose four bytes may be read
 */
#ifndef GG_QUANTS_BYTES_H
#define GG_QUANTS_BYTES_H
#include "../../vec/vec.h"
#include "../blocks.h"
#define EACH_BYTE(x) ((x) * 0x0101010101010101u)
#include GG_VEC
#endif
