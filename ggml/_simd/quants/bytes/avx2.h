/* 32 bytes in one AVX2 register; with AVX-512 the wider stores, with VNNI its dot product. */
#include <immintrin.h>
typedef __m256i vb;
typedef __m256i vq;
typedef __m256i vs;
typedef __m256 va;

static inline float gg_half_f32(gg_half h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }
static inline float gg_half_of_two(const void *p, int i) {
    int32_t two;
    memcpy(&two, p, 4);
    const __m128 v = _mm_cvtph_ps(_mm_cvtsi32_si128(two));
    return _mm_cvtss_f32(i ? _mm_movehdup_ps(v) : v);
}
static inline vb vb_load(const void *p) { return _mm256_loadu_si256(p); }
static inline vb vb_load2(const void *p, const void *q) {
    return _mm256_set_m128i(_mm_loadu_si128(q), _mm_loadu_si128(p));
}
static inline void vb_store(void *p, vb v) { _mm256_storeu_si256(p, v); }
static inline void vb_store2(void *p, void *q, vb v) {
    _mm_storeu_si128(p, _mm256_castsi256_si128(v)), _mm_storeu_si128(q, _mm256_extracti128_si256(v, 1));
}
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
static inline vb vb_field(vb a, int k, int mask) {
    return _mm256_and_si256(k < 0 ? _mm256_slli_epi16(a, -k) : _mm256_srli_epi16(a, k), vb_set1(mask));
}
static inline vb vb_lut(const int8_t *table, vb a) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table)), a);
}
static inline vb vb_ge(vb a, int k) { return _mm256_cmpeq_epi8(_mm256_max_epu8(a, vb_set1(k)), a); }
static inline vb vb_negate(vb a, uint32_t bits) {
#ifdef __AVX512BW__
    return _mm256_mask_sub_epi8(a, bits, _mm256_setzero_si256(), a);
#else
    const vb m = vb_mask(bits);
    return _mm256_sub_epi8(_mm256_xor_si256(a, m), m);
#endif
}

static inline vq vq_dot_us(vb u, vb s) {
#ifdef __AVX512VNNI__
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), u, s);
#else
    return _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1));
#endif
}
static inline vq vq_dot_ss(vb a, vb b) { return vq_dot_us(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a)); }

static inline vs vs_set(uint64_t lo, uint64_t hi) {
    return _mm256_cvtepi8_epi16(_mm_set_epi64x((int64_t)hi, (int64_t)lo));
}
static inline vs vs_twice(uint64_t a) {
    const __m128i v = _mm_cvtsi64_si128((int64_t)a);
    return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(v, v));
}
static inline void vs_to_f32(float *d, vs s, float x) {
    const __m256 lo = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(s)));
    const __m256 hi = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(s, 1)));
    _mm256_storeu_ps(d, _mm256_mul_ps(lo, _mm256_set1_ps(x)));
    _mm256_storeu_ps(d + 8, _mm256_mul_ps(hi, _mm256_set1_ps(x)));
}
/* The two scales of chunk j, each in all int16 of a half. */
static inline __m256i vs_chunk(vs s, int j) {
    const __m256i both = j < 4 ? _mm256_permute4x64_epi64(s, 0x44) : _mm256_permute4x64_epi64(s, 0xee);
    const short lo = (short)(0x0100 + 0x0404 * (j & 3)), hi = (short)(lo + 0x0202);
    return _mm256_shuffle_epi8(both, _mm256_set_m128i(_mm_set1_epi16(hi), _mm_set1_epi16(lo)));
}
static inline vq vq_zero(void) { return _mm256_setzero_si256(); }
static inline vq vq_madd_us(vq acc, vb u, vb b, vs s, int j) {
    const __m256i pairs = _mm256_maddubs_epi16(u, b);
#ifdef __AVX512VNNI__
    return _mm256_dpwssd_epi32(acc, pairs, vs_chunk(s, j));
#else
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, vs_chunk(s, j)));
#endif
}
static inline vq vq_madd_ss(vq acc, vb a, vb b, vs s, int j) {
    return vq_madd_us(acc, _mm256_abs_epi8(a), _mm256_sign_epi8(b, a), s, j);
}
static inline vq vq_dot_vs(vs s, const int16_t *p) { return _mm256_madd_epi16(s, _mm256_loadu_si256((const void *)p)); }
static inline vq vq_add(vq a, vq b) { return _mm256_add_epi32(a, b); }
static inline vq vq_sub(vq a, vq b) { return _mm256_sub_epi32(a, b); }
static inline vq vq_sub_times(vq a, vq b, int k) {
    return _mm256_sub_epi32(a, _mm256_mullo_epi32(b, _mm256_set1_epi32(k)));
}

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
static inline va va_madd1(va acc, vq q, float x) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), _mm256_set1_ps(x), acc);
}
static inline va va_madd_sum(va acc, vq q, float x) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));     /* the sum, four times */
    const __m128 v = _mm_mul_ps(_mm_cvtepi32_ps(s), _mm_set1_ps(0.25f * x));
    return _mm256_add_ps(acc, _mm256_zextps128_ps256(v));
}
static inline void vb_store16(float *y, __m128i v, float scale, float off) {   /* 16 signed bytes */
#ifdef __AVX512F__
    const __m512 f = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v));
    _mm512_storeu_ps(y, _mm512_sub_ps(_mm512_mul_ps(f, _mm512_set1_ps(scale)), _mm512_set1_ps(off)));
#else
    const __m256 lo = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v));
    const __m256 hi = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
    const __m256 d = _mm256_set1_ps(scale), m = _mm256_set1_ps(off);
    _mm256_storeu_ps(y, _mm256_sub_ps(_mm256_mul_ps(lo, d), m));
    _mm256_storeu_ps(y + 8, _mm256_sub_ps(_mm256_mul_ps(hi, d), m));
#endif
}
static inline void vb_store_f32(float *y, vb v, float lo, float hi, float off_lo, float off_hi) {
    vb_store16(y, _mm256_castsi256_si128(v), lo, off_lo);
    vb_store16(y + 16, _mm256_extracti128_si256(v, 1), hi, off_hi);
}
