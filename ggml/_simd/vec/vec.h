/* The vector vocabulary: the same names in every ISA, so that kernels are written once. A target (isa/<isa>.c)
 * defines GG_VEC as the header of its ISA before it includes kernels; every function is `static inline`.
 *
 * VW            lanes of a vector of f32 (a constant)
 * vf, vi, vm    VW f32 / VW int32 / a mask of VW lanes
 *
 * GG_VEC_32     defined where there are 32 vector registers of 8 lanes or more
 *
 * load, store   vf_load(p) vf_store(p,v) vf_loadn(p,n) vf_storen(p,v,n)      n < VW lanes, the rest reads 0, stays
 *               vi_load(p) vi_store(p,v)                                     const int32_t *
 *               vf_load_f16(p) vf_store_f16(p,v) vf_load_bf16(p) vf_store_bf16(p,v)
 *                              of uint16_t: exact / to nearest even, NaN stays NaN
 *               vf_load_f16n(p,n) vf_store_f16n(p,v,n) vf_load_bf16n(p,n) vf_store_bf16n(p,v,n)
 *               vi_load_u16(p) vi_store_u16(p,v)     zero-extended / v within 0..65535
 *               vi_store_u8(p,v)                     the low byte of each lane, v within -128..255
 *               vf_load_i8(p)  VW int8 to f32
 *               vf_stream(p,v) vf_stream_end()       past the caches, p aligned to a vector / before others may read it
 *                              (GG_VEC_STREAMS: 1 where there is such a store, else it is vf_store)
 *               vf_transpose4(row,k,out)             out[j], lane i = row[i][k + j], j < 4, of VW rows
 *               vf_load_pairs(p,a,b) *a, *b: the elements of even and of odd index of p[0..2*VW-1]
 *               vf_load_pairsn(p,n,a,b)              n < 2*VW of them, the rest reads 0
 *               vf_pairs(a,b,lo,hi)  the reverse, to two vectors
 *               vf_keep(v)     v, which stays in a register for all its uses
 * make          vf_zero() vf_set1(x) vi_set1(i) vi_iota()                    0, 1, 2 ...
 *               vf_set1_at(p,i)                      p[i] in every lane; p[0..i|3] are readable
 *               vi_words(p) vi_word_at(p,i)          vf_bits of vf_load(p) and of vf_set1_at(p,i); faster: what is
 *                              loaded as floats reaches instructions for integers a cycle later
 * f32           vf_add vf_sub vf_mul vf_div (a,b)  vf_fma(a,b,c) a*b+c  vf_fnma(a,b,c) c-a*b
 *                              (fused where the ISA has it)
 *               vf_fma_exact vf_fnma_exact (a,b,c)  the same without rounding the product, in every ISA (slow in
 *                              scalar)
 *               vf_ldexp(v,n)  v * 2^n, n a whole number as f32, |n| <= 252; rounds once
 *               vf_min vf_max (a,b): the second operand if either is NaN     vf_abs vf_neg vf_sqrt
 *               vf_round (to nearest even) vf_floor vf_ceil vf_trunc  vf_copysign(mag, sign)
 * compare       vf_lt vf_le vf_gt vf_ge vf_eq (a,b) false for NaN, vf_isnan(a) -> vm
 * select        vf_select(m,a,b) vi_select(m,a,b): m ? a : b   vm_and vm_not vm_any(m) -> bool vm_all(m) -> bool
 * int32         vi_add vi_sub vi_mul vi_max vi_and vi_or vi_xor (a,b) vi_shl(a,k) vi_sra(a,k) vi_srl(a,k)
 *                              (0 <= k < 32)   vi_gt vi_eq (a,b) -> vm
 * bytes         vi_dot(acc,u,s): acc + the four products of u's unsigned and s's signed bytes, in each lane; bytes of
 *                              u are below GG_VEC_DOT, which is not defined where there is no such instruction
 *               where GG_VEC_PAIRS is defined, which excludes GG_VEC_DOT:
 *               vi_pairs(u,s): sums of two such products in 16 bits, u < 128
 *               vi_add_pairs(a,b) vi_sub_pairs(a,b): of int16
 *               vi_sum_pairs(a): the sum of the two int16 in each lane
 *               vi_madd_pairs(acc,a,b): acc + the two products of the int16 in each lane
 *               vi_load_pairs(p): 2*VW int8 as int16
 *               vi_hsum4(s,a,b,c,d): s[0] = the sum of the lanes of a, s[1] ...
 * convert       vf_to_vi(v) nearest even  vf_whole(v) towards zero, |v| < 2^31  vi_to_vf(v)
 *               vf_bits(v) vi_float(v): same bits, other type
 * reduce        vf_hsum(v) vf_hmax(v) vf_hmin(v) -> float    vf_hsum4(s,a,b,c,d) s[0] = vf_hsum(a), s[1] ...
 */
#ifndef GG_VEC_VEC_H
#define GG_VEC_VEC_H
#include "../runtime/engine.h"
#ifdef __clang__
#define GG_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GG_UNROLL _Pragma("GCC unroll 16")
#endif
#include GG_VEC

/* ---- the part that is the same in every ISA ---------------------------------------------------------------------- */
#ifndef GG_VEC_MASKED
static inline vf vf_loadn(const float *p, int n) { float t[VW] = {0}; memcpy(t, p, (size_t)n * 4); return vf_load(t); }
static inline void vf_storen(float *p, vf v, int n) { float t[VW]; vf_store(t, v); memcpy(p, t, (size_t)n * 4); }
#endif
#ifndef GG_VEC_KEEP
static inline vf vf_keep(vf v) { return v; }
#endif
#ifndef GG_VEC_STREAMS
#define GG_VEC_STREAMS 0
static inline void vf_stream(float *p, vf v) { vf_store(p, v); }
static inline void vf_stream_end(void) {}
#endif
#ifndef GG_VEC_WORDS
static inline vi vi_words(const float *p) { return vf_bits(vf_load(p)); }
static inline vi vi_word_at(const float *p, int i) { return vf_bits(vf_set1_at(p, i)); }
#endif
#ifndef GG_VEC_HSUM4
static inline void vf_hsum4(float *s, vf a, vf b, vf c, vf d) {
    s[0] = vf_hsum(a), s[1] = vf_hsum(b), s[2] = vf_hsum(c), s[3] = vf_hsum(d);
}
#endif
#ifndef GG_VEC_BYTES
static inline void vi_store_u8(uint8_t *p, vi v) {
    int32_t t[VW];
    vi_store(t, v);
    for (int i = 0; i < VW; i++) p[i] = (uint8_t)t[i];
}
#endif
#ifndef GG_VEC_PAIR_LOADS
static inline void vf_load_pairs(const float *p, vf *a, vf *b) {
    float even[VW], odd[VW];
    for (int i = 0; i < VW; i++) even[i] = p[2 * i], odd[i] = p[2 * i + 1];
    *a = vf_load(even), *b = vf_load(odd);
}
static inline void vf_pairs(vf a, vf b, vf *lo, vf *hi) {
    float x[VW], y[VW], t[2 * VW];
    vf_store(x, a), vf_store(y, b);
    for (int i = 0; i < VW; i++) t[2 * i] = x[i], t[2 * i + 1] = y[i];
    *lo = vf_load(t), *hi = vf_load(t + VW);
}
#endif
#ifndef GG_VEC_MASKED_PAIRS
static inline void vf_load_pairsn(const float *p, int n, vf *a, vf *b) {
    float t[2 * VW] = {0};
    memcpy(t, p, (size_t)n * sizeof *p);
    vf_load_pairs(t, a, b);
}
#endif
static inline vf vf_load_bf16(const uint16_t *p) { return vi_float(vi_shl(vi_load_u16(p), 16)); }
static inline void vf_store_bf16(uint16_t *p, vf v) {
    const vi u = vf_bits(v), top = vi_srl(u, 16);
    const vi rounded = vi_srl(vi_add(u, vi_add(vi_set1(0x7fff), vi_and(top, vi_set1(1)))), 16);
    vi_store_u16(p, vi_select(vf_isnan(v), vi_or(top, vi_set1(64)), rounded));
}
static inline vf vf_load_f16n(const uint16_t *p, int n) {
    uint16_t t[VW] = {0};
    memcpy(t, p, (size_t)n * 2);
    return vf_load_f16(t);
}
static inline vf vf_load_bf16n(const uint16_t *p, int n) {
    uint16_t t[VW] = {0};
    memcpy(t, p, (size_t)n * 2);
    return vf_load_bf16(t);
}
static inline void vf_store_f16n(uint16_t *p, vf v, int n) {
    uint16_t t[VW];
    vf_store_f16(t, v);
    memcpy(p, t, (size_t)n * 2);
}
static inline void vf_store_bf16n(uint16_t *p, vf v, int n) {
    uint16_t t[VW];
    vf_store_bf16(t, v);
    memcpy(p, t, (size_t)n * 2);
}

#ifndef GG_VEC_LDEXP
static inline vf vf_ldexp(vf v, vf n) {                  /* in two steps, as 2^n itself may not be an f32 */
    const vi e = vf_to_vi(n), half = vi_sra(e, 1), bias = vi_set1(127);
    v = vf_mul(v, vi_float(vi_shl(vi_add(half, bias), 23)));
    return vf_mul(v, vi_float(vi_shl(vi_add(vi_sub(e, half), bias), 23)));
}
#endif

#include "math.h"
#endif
