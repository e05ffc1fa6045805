/* Blocks of 32 bytes in registers: what decoding and multiplying quantised elements takes, in each ISA. GG_VEC names
 * the header, as it does in vec/. All functions are `static inline`; all tolerate any alignment.
 *
 * vb            32 bytes, element i in byte i; the first and the last 16 may have scales of their own ("lo" and "hi")
 * vq            sums of products, as int32 lanes, lo and hi apart
 * vs            16 scales or mins of a block of 256, as int16: those of chunk j are elements 2 j and 2 j + 1
 * va            an accumulator of f32 lanes
 *
 * load          vb_load(p) 32 bytes  vb_load2(p,q) 16 and 16  vb_nibbles(p) low nibbles of 16 bytes, then the high ones
 *               vb_u64(a,b,c,d) four times 8 bytes  vb_set1(x)  vb_mask(bits) byte i is 255 if bit i is set, else 0
 * bytes         vb_and vb_or vb_add vb_sub (a,b)  vb_field(a,k,mask) (a >> k) & mask, mask below 256 >> k;
 *               with k < 0 (a << -k) & mask, mask without its lowest -k bits
 *               vb_lut(table,a) a < 16  vb_ge(a,k) unsigned: 255 or 0  vb_negate(a,bits) -a where the bit is set
 * multiply      vq_dot_us(u,s) u < 128 unsigned, s signed  vq_dot_ss(a,b) both signed, b > -128
 * scales        vs_set(lo,hi) 8 and 8 signed bytes  vs_twice(a) 8 bytes, each for two elements
 *               vs_to_f32(d,s,x) floats d[i] = x s[i]
 *               vq_madd_us(acc,u,s,scales,j) acc + u s with the scales of chunk j (a constant)  vq_madd_ss likewise
 *               vq_dot_vs(scales,p) products with 16 int16 at p  vq_sub_times(a,b,k) a - b k
 *               vq_zero() vq_add vq_sub (a,b)
 * accumulate    va_zero() va_add(a,b) va_scale(acc,a,x) acc + a x  va_sum(a) -> float
 *               va_madd(acc,q,lo,hi) acc + q with a scale for each half  va_madd1(acc,q,x) one scale
 *               va_madd_sum(acc,q,x) likewise, the lanes of q added up first, without rounding
 * store         vb_store(p,v) 32 bytes  vb_store2(p,q,v) 16 and 16
 *               vb_store_f32(y,v,lo,hi,off_lo,off_hi) signed bytes v: 32 floats v scale - off,
 *               rounded twice (as the format says)
 * scalar        gg_half_f32(h)  gg_half_of_two(p,i) half i of the two at p, all of whose four bytes may be read
 */
#ifndef GG_QUANTS_BYTES_H
#define GG_QUANTS_BYTES_H
#include "../blocks.h"
#include GG_VEC
#endif
