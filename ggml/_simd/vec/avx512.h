/* The vocabulary in AVX-512 F, BW, DQ, VL. */
#ifndef GG_VEC_AVX512_H
#define GG_VEC_AVX512_H
#include <immintrin.h>

enum { VW = 16 };
#define GG_VEC_32
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef int32_t gg_v16i __attribute__((vector_size(64)));
typedef uint32_t gg_v16u __attribute__((vector_size(64)));

/* ---- load, store, make */
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
#define GG_VEC_STREAMS 1
static inline void vf_stream(float *p, vf v) { _mm512_stream_ps(p, v); }
static inline void vf_stream_end(void) { _mm_sfence(); }
static inline vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline void vi_store(int32_t *p, vi v) { _mm512_storeu_si512(p, v); }
static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_set1(float x) { return _mm512_set1_ps(x); }
static inline vi vi_set1(int32_t i) { return _mm512_set1_epi32(i); }
static inline vi vi_iota(void) { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }

#define GG_VEC_MASKED                                    /* loadn and storen by the ISA's own masks */
static inline vm gg_first(int n) { return (vm)((1u << n) - 1); }
static inline vf vf_loadn(const float *p, int n) { return _mm512_maskz_loadu_ps(gg_first(n), p); }
static inline void vf_storen(float *p, vf v, int n) { _mm512_mask_storeu_ps(p, gg_first(n), v); }

#define GG_VEC_PAIR_LOADS
static inline void vf_unpair(vf lo, vf hi, vf *a, vf *b) {
    const vi even = _mm512_add_epi32(vi_iota(), vi_iota()), odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    *a = _mm512_permutex2var_ps(lo, even, hi), *b = _mm512_permutex2var_ps(lo, odd, hi);
}
#define GG_VEC_MASKED_PAIRS
static inline void vf_load_pairs(const float *p, vf *a, vf *b) {
    vf_unpair(vf_load(p), vf_load(p + VW), a, b);
}
static inline void vf_load_pairsn(const float *p, int n, vf *a, vf *b) {
    const uint32_t first = (1u << n) - 1;
    vf_unpair(_mm512_maskz_loadu_ps((vm)first, p), _mm512_maskz_loadu_ps((vm)(first >> 16), p + VW), a, b);
}
static inline void vf_pairs(vf a, vf b, vf *lo, vf *hi) {
    const vi at = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *lo = _mm512_permutex2var_ps(a, at, b);
    *hi = _mm512_permutex2var_ps(a, _mm512_add_epi32(at, _mm512_set1_epi32(8)), b);
}

/* ---- int32 */
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
static inline vi vi_mul(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
static inline vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
static inline vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
/* operators fold a constant k, intrinsics want a literal */
static inline vi vi_shl(vi a, int k) { return (vi)((gg_v16u)a << k); }
static inline vi vi_sra(vi a, int k) { return (vi)((gg_v16i)a >> k); }
static inline vi vi_srl(vi a, int k) { return (vi)((gg_v16u)a >> k); }
static inline vf vi_float(vi v) { return _mm512_castsi512_ps(v); }
/* Without it GCC loads the vector again for every use. */
#define GG_VEC_KEEP
static inline vf vf_keep(vf v) { __asm__("" : "+v"(v)); return v; }
static inline vi vf_bits(vf v) { return _mm512_castps_si512(v); }
static inline vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
static inline vm vi_gt(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }
static inline vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }

#ifdef __AVX512VNNI__
#define GG_VEC_DOT 256
static inline vi vi_dot(vi acc, vi u, vi s) {
    acc = _mm512_dpbusd_epi32(acc, u, s);
    __asm__("" : "+v"(acc));                             /* kept in its register: GCC would spill or copy it */
    return acc;
}
#else
#define GG_VEC_PAIRS
static inline vi vi_pairs(vi u, vi s) { return _mm512_maddubs_epi16(u, s); }
static inline vi vi_add_pairs(vi a, vi b) {
    __asm__("vpaddw %1, %0, %0" : "+v"(a) : "v"(b));     /* kept in its register: GCC would spill or copy it */
    return a;
}
static inline vi vi_sub_pairs(vi a, vi b) { return _mm512_sub_epi16(a, b); }
static inline vi vi_sum_pairs(vi a) { return _mm512_madd_epi16(a, _mm512_set1_epi16(1)); }
static inline vi vi_madd_pairs(vi acc, vi a, vi b) {
    const vi products = _mm512_madd_epi16(a, b);
    __asm__("vpaddd %1, %0, %0" : "+v"(acc) : "v"(products));      /* kept in its register, too */
    return acc;
}
static inline vi vi_load_pairs(const int8_t *p) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
}
static inline void vi_hsum4(int32_t *s, vi a, vi b, vi c, vi d) {
    const vi ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));    /* a, b, a, b */
    const vi cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    const vi t = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i h = _mm256_add_epi32(_mm512_castsi512_si256(t), _mm512_extracti64x4_epi64(t, 1));
    _mm_storeu_si128((__m128i *)s, _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1)));
}
#endif

/* ---- masks */
static inline vm vm_and(vm a, vm b) { return (vm)(a & b); }
static inline vm vm_not(vm m) { return (vm)~m; }
static inline bool vm_any(vm m) { return m != 0; }
static inline bool vm_all(vm m) { return _kortestc_mask16_u8(m, m); }
static inline vf vf_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
static inline vi vi_select(vm m, vi a, vi b) { return _mm512_mask_blend_epi32(m, b, a); }

/* ---- f32 */
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
static inline vf vf_fma_exact(vf a, vf b, vf c) { return vf_fma(a, b, c); }
static inline vf vf_fnma_exact(vf a, vf b, vf c) { return vf_fnma(a, b, c); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm512_andnot_ps(vf_set1(-0.0f), a); }
static inline vf vf_neg(vf a) { return _mm512_xor_ps(vf_set1(-0.0f), a); }
static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf vf_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vf vf_ceil(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline vf vf_trunc(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline vf vf_copysign(vf mag, vf sign) {
    const vf bit = vf_set1(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(bit, mag), _mm512_and_ps(bit, sign));
}
static inline vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vm vf_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline vm vf_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
static inline vm vf_ge(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
static inline vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline vm vf_isnan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
static inline vi vf_to_vi(vf v) { return _mm512_cvtps_epi32(v); }
static inline vi vf_whole(vf v) { return _mm512_cvttps_epi32(v); }
static inline vf vi_to_vf(vi v) { return _mm512_cvtepi32_ps(v); }
#define GG_VEC_LDEXP                                     /* one instruction here, arithmetic on exponents elsewhere */
static inline vf vf_ldexp(vf v, vf n) { return _mm512_scalef_ps(v, n); }

/* ---- narrow types */
static inline vi vi_load_u16(const uint16_t *p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}
static inline void vi_store_u16(uint16_t *p, vi v) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(v)); }
#define GG_VEC_BYTES                                     /* vi_store_u8 of the ISA's own */
static inline void vi_store_u8(uint8_t *p, vi v) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(v)); }
static inline vf vf_load_i8(const int8_t *p) {
    return vi_to_vf(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline vf vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline void vf_store_f16(uint16_t *p, vf v) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* ---- reduce */
static inline float vf_hsum(vf v) { return _mm512_reduce_add_ps(v); }
#define GG_VEC_HSUM4
static inline void vf_hsum4(float *s, vf a, vf b, vf c, vf d) {
    const vf p = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    const vf q = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    const vf t = _mm512_add_ps(_mm512_shuffle_f32x4(p, q, 0x88), _mm512_shuffle_f32x4(p, q, 0xdd));
    const vf u = _mm512_add_ps(t, _mm512_permute_ps(t, 0x4e)), v = _mm512_add_ps(u, _mm512_movehdup_ps(u));
    _mm_storeu_ps(s, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, v)));
}
static inline float vf_hmax(vf v) { return _mm512_reduce_max_ps(v); }
static inline float vf_hmin(vf v) { return _mm512_reduce_min_ps(v); }

#endif

static inline vf vf_load_4x4(const float *a, const float *b, const float *c, const float *d) {
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(a));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(b), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(c), 2);
    return _mm512_insertf32x4(v, _mm_loadu_ps(d), 3);
}
/* Loads rows in an order in which 4x4 transposes within the 128-bit parts are enough. */
static inline void vf_transpose4(const float *const row[VW], int64_t k, vf out[4]) {
    const vf a = vf_load_4x4(row[0] + k, row[4] + k, row[8] + k, row[12] + k);
    const vf b = vf_load_4x4(row[1] + k, row[5] + k, row[9] + k, row[13] + k);
    const vf c = vf_load_4x4(row[2] + k, row[6] + k, row[10] + k, row[14] + k);
    const vf d = vf_load_4x4(row[3] + k, row[7] + k, row[11] + k, row[15] + k);
    const __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
    const __m512d AB = _mm512_castps_pd(_mm512_unpackhi_ps(a, b)), CD = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
    out[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
    out[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
    out[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(AB, CD));
    out[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(AB, CD));
}
static inline vf vf_set1_at(const float *p, int i) { return vf_set1(p[i]); }
#define GG_VEC_WORDS
static inline vi vi_words(const float *p) { return vi_load((const int32_t *)p); }
static inline vi vi_word_at(const float *p, int i) { int32_t w; memcpy(&w, p + i, 4); return vi_set1(w); }
