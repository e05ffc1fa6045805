/* 32 bytes in one AVX2 register; with AVX-512 the wider stores, with VNNI its dot product. */
#include <immintrin.h>
typedef __m256i vb;
typedef __m256i vq;
typedef __m256 va;

static inline float gg_half_f32(gg_half h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }
static inline vb vb_load(const void *p) { return _mm256_loadu_si256(p); }
static inline vb vb_load2(const void *p, const void *q) { return _mm256_set_m128i(_mm_loadu_si128(q), _mm_loadu_si128(p)); }
static inline vb vb_set1(int x) { return _mm256_set1_epi8((char)x); }
static inline vb vb_nibbles(const void *p) {
    const __m128i c = _mm_loadu_si128(p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(c, 4), c), vb_set1(15));
}
static inline vb vb_u64(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return _mm256_set_epi64x((int64_t)d, (int64_t)c, (int64_t)b, (int64_t)a);
}
static inline vb vb_mask(uint32_t bits) {
#ifdef __AVX512BW__
    return _mm256_movm_epi8(bits);
#else
    const __m256i spread = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i v = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), spread), bit);
    return _mm256_cmpeq_epi8(v, bit);
#endif
}
static inline vb vb_and(vb a, vb b) { return _mm256_and_si256(a, b); }
static inline vb vb_or(vb a, vb b) { return _mm256_or_si256(a, b); }
static inline vb vb_add(vb a, vb b) { return _mm256_add_epi8(a, b); }
static inline vb vb_sub(vb a, vb b) { return _mm256_sub_epi8(a, b); }
static inline vb vb_field(vb a, int k, int mask) { return _mm256_and_si256(_mm256_srli_epi16(a, k), vb_set1(mask)); }
static inline vb vb_shl(vb a, int k) { return _mm256_slli_epi16(a, k); }
static inline vb vb_lut(const int8_t *table, vb a) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table)), a);
}
static inline vb vb_ge(vb a, int k) { return _mm256_cmpeq_epi8(_mm256_max_epu8(a, vb_set1(k)), a); }
static inline vb vb_negate(vb a, vb m) { return _mm256_sub_epi8(_mm256_xor_si256(a, m), m); }

static inline vq vq_dot_us(vb u, vb s) {
#ifdef __AVX512VNNI__
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), u, s);
#else
    return _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1));
#endif
}
static inline vq vq_dot_ss(vb a, vb b) { return vq_dot_us(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a)); }

static inline va va_zero(void) { return _mm256_setzero_ps(); }
static inline va va_add(va a, va b) { return _mm256_add_ps(a, b); }
static inline va va_scale(va acc, va a, float x) { return _mm256_fmadd_ps(a, _mm256_set1_ps(x), acc); }
static inline float va_sum(va a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline va va_madd(va acc, vq q, float lo, float hi) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), _mm256_set_m128(_mm_set1_ps(hi), _mm_set1_ps(lo)), acc);
}
static inline va va_dot16(va acc, const float *m, const int16_t *s) {
    const __m256i v = _mm256_loadu_si256((const void *)s);
    const __m256 lo = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(v)));
    const __m256 hi = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(v, 1)));
    return _mm256_fmadd_ps(hi, _mm256_loadu_ps(m + 8), _mm256_fmadd_ps(lo, _mm256_loadu_ps(m), acc));
}
static inline void vb_store16(float *y, __m128i v, float scale, float off) {   /* 16 signed bytes */
#ifdef __AVX512F__
    const __m512 f = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v));
    _mm512_storeu_ps(y, _mm512_sub_ps(_mm512_mul_ps(f, _mm512_set1_ps(scale)), _mm512_set1_ps(off)));
#else
    const __m256 lo = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)), hi = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
    const __m256 d = _mm256_set1_ps(scale), m = _mm256_set1_ps(off);
    _mm256_storeu_ps(y, _mm256_sub_ps(_mm256_mul_ps(lo, d), m));
    _mm256_storeu_ps(y + 8, _mm256_sub_ps(_mm256_mul_ps(hi, d), m));
#endif
}
static inline void vb_store_f32(float *y, vb v, float lo, float hi, float off_lo, float off_hi) {
    vb_store16(y, _mm256_castsi256_si128(v), lo, off_lo);
    vb_store16(y + 16, _mm256_extracti128_si256(v, 1), hi, off_hi);
}
