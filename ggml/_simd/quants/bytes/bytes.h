/* Blocks of 32 bytes in registers: what decoding and multiplying quantised elements takes, in each ISA. GG_VEC names the
 * header, as it does in vec/. All functions are `static inline`; all tolerate any alignment.
 *
 * vb            32 bytes, element i in byte i; the first and the last 16 may have scales of their own ("lo" and "hi")
 * vq            sums of products, as int32 lanes, lo and hi apart
 * va            an accumulator of f32 lanes
 *
 * load          vb_load(p) 32 bytes  vb_load2(p,q) 16 and 16  vb_nibbles(p) low nibbles of 16 bytes, then the high ones
 *               vb_u64(a,b,c,d) four times 8 bytes  vb_set1(x)  vb_mask(bits) byte i is 255 if bit i is set, else 0
 * bytes         vb_and vb_or vb_add vb_sub (a,b)  vb_field(a,k,mask) (a >> k) & mask, mask below 256 >> k
 *               vb_shl(a,k) no bit may leave its byte  vb_lut(table,a) a < 16  vb_ge(a,k) unsigned: 255 or 0
 *               vb_negate(a,m) -a where m is 255
 * multiply      vq_dot_us(u,s) u < 128 unsigned, s signed  vq_dot_ss(a,b) both signed, b > -128
 * accumulate    va_zero() va_add(a,b) va_scale(acc,a,x) acc + a x  va_sum(a) -> float
 *               va_madd(acc,q,lo,hi) acc + q with a scale for each half
 *               va_dot16(acc,m,s) acc + sum of m[i] s[i], 16 floats and 16 int16
 * store         vb_store_f32(y,v,lo,hi,off_lo,off_hi) signed bytes v: 32 floats v scale - off, rounded twice (as the format says)
 * scalar        gg_half_f32(h)
 */
#ifndef GG_QUANTS_BYTES_H
#define GG_QUANTS_BYTES_H
#include "../blocks.h"
#include GG_VEC
#endif
