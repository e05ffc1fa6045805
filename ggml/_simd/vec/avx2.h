/* The vocabulary in AVX2, FMA and F16C. */
#ifndef GG_VEC_AVX2_H
#define GG_VEC_AVX2_H
#include <immintrin.h>

enum { VW = 8 };
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;                                       /* lanes are all zeros or all ones */
typedef int32_t gg_v8i __attribute__((vector_size(32)));
typedef uint32_t gg_v8u __attribute__((vector_size(32)));

/* ---- load, store, make */
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
#define GG_VEC_STREAMS 1
static inline void vf_stream(float *p, vf v) { _mm256_stream_ps(p, v); }
static inline void vf_stream_end(void) { _mm_sfence(); }
static inline vi vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void vi_store(int32_t *p, vi v) { _mm256_storeu_si256((__m256i *)p, v); }
static inline vf vf_zero(void) { return _mm256_setzero_ps(); }
static inline vf vf_set1(float x) { return _mm256_set1_ps(x); }
static inline vi vi_set1(int32_t i) { return _mm256_set1_epi32(i); }
static inline vi vi_iota(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }

#define GG_VEC_MASKED                                    /* loadn and storen by the ISA's own masks */
static inline vi gg_first(int n) { return _mm256_cmpgt_epi32(vi_set1(n), vi_iota()); }
static inline vf vf_loadn(const float *p, int n) { return _mm256_maskload_ps(p, gg_first(n)); }
/* n < VW lanes in parts: a masked store takes twelve cycles on AMD's processors before Zen 4. */
static inline void vf_storen(float *p, vf v, int n) {
    __m128 h = _mm256_castps256_ps128(v);
    if (n & 4) _mm_storeu_ps(p, h), h = _mm256_extractf128_ps(v, 1), p += 4;
    if (n & 2) _mm_storel_pi((__m64 *)p, h), h = _mm_movehl_ps(h, h), p += 2;
    if (n & 1) _mm_store_ss(p, h);
}

#define GG_VEC_PAIR_LOADS
#define GG_VEC_MASKED_PAIRS
static inline void vf_unpair(vf lo, vf hi, vf *a, vf *b) {
    const vf x = _mm256_permute2f128_ps(lo, hi, 0x20), y = _mm256_permute2f128_ps(lo, hi, 0x31);
    *a = _mm256_shuffle_ps(x, y, 0x88), *b = _mm256_shuffle_ps(x, y, 0xdd);
}
static inline void vf_load_pairs(const float *p, vf *a, vf *b) { vf_unpair(vf_load(p), vf_load(p + 8), a, b); }
static inline void vf_load_pairsn(const float *p, int n, vf *a, vf *b) {
    vf_unpair(vf_loadn(p, n), vf_loadn(p + 8, n - 8), a, b);
}
static inline void vf_pairs(vf a, vf b, vf *lo, vf *hi) {
    const vf x = _mm256_unpacklo_ps(a, b), y = _mm256_unpackhi_ps(a, b);
    *lo = _mm256_permute2f128_ps(x, y, 0x20), *hi = _mm256_permute2f128_ps(x, y, 0x31);
}

/* ---- int32 */
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
static inline vi vi_mul(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
static inline vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
static inline vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
/* operators fold a constant k, intrinsics want a literal */
static inline vi vi_shl(vi a, int k) { return (vi)((gg_v8u)a << k); }
static inline vi vi_sra(vi a, int k) { return (vi)((gg_v8i)a >> k); }
static inline vi vi_srl(vi a, int k) { return (vi)((gg_v8u)a >> k); }
static inline vf vi_float(vi v) { return _mm256_castsi256_ps(v); }
/* Without it GCC loads the vector again for every use. */
#define GG_VEC_KEEP
static inline vf vf_keep(vf v) { __asm__("" : "+v"(v)); return v; }
static inline vi vf_bits(vf v) { return _mm256_castps_si256(v); }
static inline vi vi_max(vi a, vi b) { return _mm256_max_epi32(a, b); }
static inline vm vi_gt(vi a, vi b) { return vi_float(_mm256_cmpgt_epi32(a, b)); }
static inline vm vi_eq(vi a, vi b) { return vi_float(_mm256_cmpeq_epi32(a, b)); }

#ifdef __AVXVNNI__
#define GG_VEC_DOT 256
static inline vi vi_dot(vi acc, vi u, vi s) {
    acc = _mm256_dpbusd_avx_epi32(acc, u, s);
    __asm__("" : "+x"(acc));                             /* kept in its register: GCC would spill or copy it */
    return acc;
}
#else
#define GG_VEC_PAIRS
static inline vi vi_pairs(vi u, vi s) { return _mm256_maddubs_epi16(u, s); }
static inline vi vi_add_pairs(vi a, vi b) {
    __asm__("vpaddw %1, %0, %0" : "+x"(a) : "x"(b));     /* kept in its register: GCC would spill or copy it */
    return a;
}
static inline vi vi_sub_pairs(vi a, vi b) { return _mm256_sub_epi16(a, b); }
static inline vi vi_sum_pairs(vi a) { return _mm256_madd_epi16(a, _mm256_set1_epi16(1)); }
static inline vi vi_madd_pairs(vi acc, vi a, vi b) {
    const vi products = _mm256_madd_epi16(a, b);
    __asm__("vpaddd %1, %0, %0" : "+x"(acc) : "x"(products));      /* kept in its register, too */
    return acc;
}
static inline vi vi_load_pairs(const int8_t *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)); }
static inline void vi_hsum4(int32_t *s, vi a, vi b, vi c, vi d) {
    const vi ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    const vi cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    const vi t = _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    _mm_storeu_si128((__m128i *)s, _mm_add_epi32(_mm256_castsi256_si128(t), _mm256_extracti128_si256(t, 1)));
}
#endif

/* ---- masks */
static inline vm vm_and(vm a, vm b) { return _mm256_and_ps(a, b); }
static inline vm vm_not(vm m) { return _mm256_xor_ps(m, vi_float(vi_set1(-1))); }
static inline bool vm_any(vm m) { return _mm256_movemask_ps(m) != 0; }
static inline bool vm_all(vm m) { return _mm256_movemask_ps(m) == 0xff; }
static inline vf vf_select(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
static inline vi vi_select(vm m, vi a, vi b) { return vf_bits(vf_select(m, vi_float(a), vi_float(b))); }

/* ---- f32 */
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
static inline vf vf_fma_exact(vf a, vf b, vf c) { return vf_fma(a, b, c); }
static inline vf vf_fnma_exact(vf a, vf b, vf c) { return vf_fnma(a, b, c); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(vf_set1(-0.0f), a); }
static inline vf vf_neg(vf a) { return _mm256_xor_ps(vf_set1(-0.0f), a); }
static inline vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
static inline vf vf_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_floor(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vf vf_ceil(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline vf vf_trunc(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline vf vf_copysign(vf mag, vf sign) {
    const vf bit = vf_set1(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(bit, mag), _mm256_and_ps(bit, sign));
}
static inline vm vf_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline vm vf_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
static inline vm vf_gt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
static inline vm vf_ge(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
static inline vm vf_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline vm vf_isnan(vf a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
static inline vi vf_to_vi(vf v) { return _mm256_cvtps_epi32(v); }
static inline vi vf_whole(vf v) { return _mm256_cvttps_epi32(v); }
static inline vf vi_to_vf(vi v) { return _mm256_cvtepi32_ps(v); }

/* ---- narrow types */
static inline vi vi_load_u16(const uint16_t *p) { return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)); }
static inline void vi_store_u16(uint16_t *p, vi v) {
    const __m256i h = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(h));
}
#define GG_VEC_BYTES                                     /* vi_store_u8 of the ISA's own */
static inline void vi_store_u8(uint8_t *p, vi v) {
    const __m256i b = _mm256_shuffle_epi8(v, vi_set1(0x0c080400));
    _mm_storel_epi64((__m128i *)p, _mm_unpacklo_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1)));
}
static inline vf vf_load_i8(const int8_t *p) {
    return vi_to_vf(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
static inline vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline void vf_store_f16(uint16_t *p, vf v) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* ---- reduce: fold the halves three times */
#define GG_FOLD(name, op, op1)                                                                    \
    static inline float name(vf v) {                                                              \
        __m128 h = op(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));                    \
        h = op(h, _mm_movehl_ps(h, h));                                                           \
        return _mm_cvtss_f32(op1(h, _mm_movehdup_ps(h)));                                         \
    }
GG_FOLD(vf_hsum, _mm_add_ps, _mm_add_ss)
#define GG_VEC_HSUM4
static inline void vf_hsum4(float *s, vf a, vf b, vf c, vf d) {
    const vf p = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    const vf q = _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
    const vf t = _mm256_add_ps(_mm256_shuffle_ps(p, q, 0x44), _mm256_shuffle_ps(p, q, 0xee));
    const vf u = _mm256_add_ps(t, _mm256_movehdup_ps(t));       /* a, c, b, d at lanes 0, 2, 4, 6 */
    _mm_storeu_ps(s, _mm_castsi128_ps(_mm_unpacklo_epi32(
        _mm_castps_si128(_mm_shuffle_ps(_mm256_castps256_ps128(u), _mm256_castps256_ps128(u), 0x08)),
        _mm_castps_si128(_mm_shuffle_ps(_mm256_extractf128_ps(u, 1), _mm256_extractf128_ps(u, 1), 0x08)))));
}
GG_FOLD(vf_hmax, _mm_max_ps, _mm_max_ss)
GG_FOLD(vf_hmin, _mm_min_ps, _mm_min_ss)
#undef GG_FOLD

#endif

static inline vf vf_load_2x4(const float *a, const float *b) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
}
/* Loads rows in an order in which 4x4 transposes within the 128-bit halves are enough. */
static inline void vf_transpose4(const float *const row[VW], int64_t k, vf out[4]) {
    const vf a = vf_load_2x4(row[0] + k, row[4] + k), b = vf_load_2x4(row[1] + k, row[5] + k);
    const vf c = vf_load_2x4(row[2] + k, row[6] + k), d = vf_load_2x4(row[3] + k, row[7] + k);
    const __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)), cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
    const __m256d AB = _mm256_castps_pd(_mm256_unpackhi_ps(a, b)), CD = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
    out[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd));
    out[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd));
    out[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(AB, CD));
    out[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(AB, CD));
}
static inline vf vf_set1_at(const float *p, int i) { return vf_set1(p[i]); }
#define GG_VEC_WORDS
static inline vi vi_words(const float *p) { return vi_load((const int32_t *)p); }
static inline vi vi_word_at(const float *p, int i) { int32_t w; memcpy(&w, p + i, 4); return vi_set1(w); }
