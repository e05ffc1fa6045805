/* 32 bytes in one AVX2 register. Uses the wider stores of AVX-512 and the dot products of VNNI where there are any. */
#include <immintrin.h>
#if defined __AVX512VNNI__ && defined __AVX512VL__
#define GG_DPBUSD _mm256_dpbusd_epi32
#define GG_DPWSSD _mm256_dpwssd_epi32
#elif defined __AVXVNNI__
#define GG_DPBUSD _mm256_dpbusd_avx_epi32
#define GG_DPWSSD _mm256_dpwssd_avx_epi32
#endif
typedef __m256i vb;
typedef __m256i vq;
typedef __m256i vs;
typedef struct { int32_t twice[8]; } ve;     /* in memory, from where a load broadcasts a pair */
typedef __m256i vn;
typedef __m256 va;
typedef __m256 vp;

static inline float gg_half_f32(gg_half h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }
static inline gg_half gg_f32_half(float x) {
    const __m128i h = _mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return (gg_half)_mm_cvtsi128_si32(h);
}
static inline float gg_half_of_two(const void *p, int i) {
    int32_t two;
    memcpy(&two, p, 4);
    const __m128 v = _mm_cvtph_ps(_mm_cvtsi32_si128(two));
    return _mm_cvtss_f32(i ? _mm_movehdup_ps(v) : v);
}
static inline vb vb_load(const void *p) { return _mm256_loadu_si256(p); }
static inline void vb_store(void *p, vb v) { _mm256_storeu_si256(p, v); }
static inline void vb_store_lo_hi(void *p, void *q, vb v) {
    _mm_storeu_si128(p, _mm256_castsi256_si128(v)), _mm_storeu_si128(q, _mm256_extracti128_si256(v, 1));
}
static inline void vb_store_interleaved(void *p, vb v) {
    const __m128i lo = _mm256_castsi256_si128(v), hi = _mm256_extracti128_si256(v, 1);
    vb_store(p, _mm256_set_m128i(_mm_unpackhi_epi16(lo, hi), _mm_unpacklo_epi16(lo, hi)));
}
static inline void vb_store_nibbles(void *p, vb v) {
    const __m128i high = _mm_slli_epi16(_mm256_extracti128_si256(v, 1), 4);
    _mm_storeu_si128(p, _mm_or_si128(_mm256_castsi256_si128(v), high));
}
static inline vb vb_from_i32(const vi *v) {
#ifdef __AVX512F__
    return _mm256_set_m128i(_mm512_cvtepi32_epi8(v[1]), _mm512_cvtepi32_epi8(v[0]));
#else
    const __m256i b = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    return _mm256_permutevar8x32_epi32(b, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
#endif
}
static inline vb vb_set1(int x) { return _mm256_set1_epi8((char)x); }
static inline vb vb_nibbles(const void *p) {
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128(p));
    return _mm256_and_si256(_mm256_srlv_epi64(both, _mm256_set_epi64x(4, 4, 0, 0)), vb_set1(15));
}
static inline vb vb_u64(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return _mm256_set_epi64x((int64_t)d, (int64_t)c, (int64_t)b, (int64_t)a);
}
static inline __m128i vb_load_2x64(const void *p, const void *q) {
    return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(_mm_loadl_epi64(p)), q));
}
static inline vb vb_gather4(const uint64_t *a, const uint64_t *b, const uint64_t *c, const uint64_t *d) {
    return _mm256_set_m128i(vb_load_2x64(c, d), vb_load_2x64(a, b));
}
static inline __m128i vb_load_4x32(const uint32_t *a, const uint32_t *b, const uint32_t *c, const uint32_t *d) {
    const __m128i lo = _mm_unpacklo_epi32(_mm_cvtsi32_si128((int)*a), _mm_cvtsi32_si128((int)*b));
    return _mm_unpacklo_epi64(lo, _mm_unpacklo_epi32(_mm_cvtsi32_si128((int)*c), _mm_cvtsi32_si128((int)*d)));
}
static inline vb vb_gather8(const uint32_t *a, const uint32_t *b, const uint32_t *c, const uint32_t *d,
                            const uint32_t *e, const uint32_t *f, const uint32_t *g, const uint32_t *h) {
    return _mm256_set_m128i(vb_load_4x32(e, f, g, h), vb_load_4x32(a, b, c, d));
}
static inline vb vb_load_4x4(const void *p, const void *four) {
    int32_t x;
    memcpy(&x, four, 4);
    return _mm256_inserti128_si256(_mm256_set1_epi32(x), _mm_loadu_si128(p), 0);
}
static inline vb vb_join_lo(vb a, vb b) { return _mm256_inserti128_si256(a, _mm256_castsi256_si128(b), 1); }
#define vb_blend(a, b, bits) _mm256_blend_epi32(a, b, bits)
static inline vb vb_fill_halves(uint16_t u) {
    return _mm256_shuffle_epi8(_mm256_set1_epi16((short)u), _mm256_set_m128i(_mm_set1_epi8(1), _mm_setzero_si128()));
}
static inline vb vb_mask(uint32_t bits) {
#ifdef __AVX512BW__
    return _mm256_movm_epi8(bits);
#else
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i spread = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), spread), bit), bit);
#endif
}
static inline uint32_t vb_bits(vb v) { return (uint32_t)_mm256_movemask_epi8(v); }
static inline vb vb_and(vb a, vb b) { return _mm256_and_si256(a, b); }
static inline vb vb_or(vb a, vb b) { return _mm256_or_si256(a, b); }
static inline vb vb_add(vb a, vb b) { return _mm256_add_epi8(a, b); }
static inline vb vb_min(vb a, vb b) { return _mm256_min_epu8(a, b); }
static inline vb vb_sub(vb a, vb b) { return _mm256_sub_epi8(a, b); }
static inline vb vb_field(vb a, int k, int mask) {
    return _mm256_and_si256(k < 0 ? _mm256_slli_epi16(a, -k) : _mm256_srli_epi16(a, k), vb_set1(mask));
}
static inline vb vb_lut(const int8_t *table, vb a) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table)), a);
}
static inline vb vb_gt(vb a, vb b) { return _mm256_cmpgt_epi8(a, b); }
static inline vb vb_negate(vb a, uint32_t bits) {
#ifdef __AVX512BW__
    return _mm256_mask_sub_epi8(a, bits, _mm256_setzero_si256(), a);
#else
    const vb m = vb_mask(bits);
    return _mm256_sub_epi8(_mm256_xor_si256(a, m), m);
#endif
}

static inline __m256i vb_odd_words(const void *p) {      /* words 1, 3, ... of 16 */
    const __m256 a = _mm256_loadu_ps(p), b = _mm256_loadu_ps((const float *)p + 8);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8);
}
/* Moves the fields of seven bits to bytes: two to each 16 bits, then one to each 8. The parity of a field comes from a
 * table for four bits. */
static inline void vb_sign_bits(uint32_t *bits, const void *p, int bytes) {
    const __m256i odd = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0080800080000080, (int64_t)0x8000008000808000));
    __m256i t;
    if (bytes == 2) {
        t = _mm256_packus_epi16(_mm256_srli_epi16(vb_load(p), 9), _mm256_srli_epi16(vb_load((const char *)p + 32), 9));
        t = _mm256_permute4x64_epi64(t, 0xd8);
    } else {
        t = bytes == 4 ? vb_load(p) : vb_odd_words(p);
        t = _mm256_or_si256(_mm256_and_si256(t, _mm256_set1_epi32(0x3fff)),
                            _mm256_and_si256(_mm256_slli_epi32(t, 2), _mm256_set1_epi32(0x3fff0000)));
        t = _mm256_or_si256(_mm256_and_si256(t, _mm256_set1_epi16(0x7f)),
                            _mm256_and_si256(_mm256_slli_epi16(t, 1), _mm256_set1_epi16(0x7f00)));
    }
    const __m256i nibble = _mm256_and_si256(_mm256_xor_si256(t, _mm256_srli_epi16(t, 4)), vb_set1(15));
    vb_store(bits, _mm256_or_si256(t, _mm256_shuffle_epi8(odd, nibble)));
    __asm__("" : "+m"(*(uint32_t (*)[8])bits));     /* keeps GCC from reading the words out of the vector */
}

static inline vq vq_dot_us(vb u, vb s) {
#ifdef GG_DPBUSD
    return GG_DPBUSD(_mm256_setzero_si256(), u, s);
#else
    return _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1));
#endif
}
static inline vq vq_dot_ss(vb a, vb b) { return vq_dot_us(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a)); }
#ifdef GG_DPBUSD
static inline vq vq_offset(int k, vb s) { return _mm256_sub_epi32(_mm256_setzero_si256(), vq_dot_us(vb_set1(k), s)); }
static inline vq vq_dot_from(vq from, vb u, vb s) { return GG_DPBUSD(from, u, s); }
static inline vq vq_dot_signed(vq from, vb a, vb s) { return GG_DPBUSD(from, _mm256_xor_si256(a, vb_set1(128)), s); }
#else       /* the offset: sums of pairs */
static inline vq vq_offset(int k, vb s) { return _mm256_maddubs_epi16(vb_set1(k), s); }
static inline vq vq_dot_from(vq from, vb u, vb s) {
    return _mm256_madd_epi16(_mm256_sub_epi16(_mm256_maddubs_epi16(u, s), from), _mm256_set1_epi16(1));
}
static inline vq vq_dot_signed(vq from, vb a, vb s) { (void)from; return vq_dot_ss(a, s); }
#endif

static inline vs vs_set(uint64_t lo, uint64_t hi) {
    return _mm256_cvtepi8_epi16(_mm_set_epi64x((int64_t)hi, (int64_t)lo));
}
static inline vs vs_set1(int x) { return _mm256_set1_epi16((short)x); }
static inline vs vs_load_i8(const void *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128(p)); }
static inline vs vs_field(vs a, int k, int mask) {
    return _mm256_and_si256(_mm256_srli_epi16(a, k), vs_set1(mask));
}
static inline vs vs_add(vs a, vs b) { return _mm256_add_epi16(a, b); }
static inline vs vs_mul(vs a, vs b) { return _mm256_mullo_epi16(a, b); }
static inline vs vs_mul_part(vs a, int k, vs b) { return _mm256_mulhrs_epi16(_mm256_slli_epi16(a, k), b); }
static inline vs vs_odd(vs a) { return _mm256_add_epi16(_mm256_add_epi16(a, a), vs_set1(1)); }
static inline vs vs_load_u8(const void *p) { return _mm256_cvtepu8_epi16(_mm_loadu_si128(p)); }
static inline void vs_store(void *p, vs a) { _mm256_storeu_si256(p, a); }
static inline vs vs_unpack1(const void *p) {
    const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800, 0x1000,
                                          0x2000, 0x4000, -0x8000);
    int16_t bits;
    memcpy(&bits, p, 2);
    return _mm256_srli_epi16(_mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16(bits), bit), bit), 15);
}
static inline vs vs_unpack2(const void *p) {
    const __m256i to = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    int32_t bits;
    memcpy(&bits, p, 4);
    const __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), to), shift = _mm256_set1_epi64x(0x0004001000400100);
    return _mm256_and_si256(_mm256_srli_epi16(_mm256_mullo_epi16(v, shift), 8), vs_set1(3));
}
static inline vs vs_unpack4(const void *p) {
    const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
    return _mm256_and_si256(_mm256_or_si256(v, _mm256_slli_epi32(v, 12)), vs_set1(15));
}
static inline vs vs_unpack3(const void *p) {
    const __m256i to = _mm256_set_epi64x(0x0706070607060706, 0x0504050405040504,
                                         0x0302030203020302, 0x0100010001000100);
    const __m256i v = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadl_epi64(p)), to);
    return _mm256_srli_epi16(_mm256_mullo_epi16(v, _mm256_set1_epi64x(0x0010008004002000)), 13);
}
static inline vs vs_unpack_top4(const void *p, int bytes) {
    __m256i v;
    if (bytes == 2) {
        v = _mm256_srli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 12);
    } else if (bytes == 4) {
        v = _mm256_srli_epi32(vb_load(p), 28);
    } else {
        v = _mm256_srli_epi32(vb_odd_words(p), 28);
    }
    return _mm256_or_si256(v, _mm256_slli_epi32(v, 16));
}
static inline vs vs_set_pairs(uint64_t a) {
    const __m128i v = _mm_cvtsi64_si128((int64_t)a);
    return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(v, v));
}
static inline void vs_to_f32(float *d, vs s, float x) {
    const __m256 lo = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(s)));
    const __m256 hi = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(s, 1)));
    _mm256_storeu_ps(d, _mm256_mul_ps(lo, _mm256_set1_ps(x)));
    _mm256_storeu_ps(d + 8, _mm256_mul_ps(hi, _mm256_set1_ps(x)));
}
/* An int16 of `scales` and `minima` has a byte with the low bits of its number. For numbers 4 to 7 its other byte has
 * the top two bits, above the bits of another number. */
static inline ve ve_unpack_k4(const void *p, vs *m) {
    ve e;
    const __m256i pick_scales = _mm256_set_epi64x(0x070f070f060e060e, 0x050d050d040c040c, (int64_t)0x8007800780068006,
                                                  (int64_t)0x8005800580048004);
    const __m256i pick_minima = _mm256_set_epi64x(0x0f0b0f0b0e0a0e0a, 0x0d090d090c080c08, 0x0b800b800a800a80,
                                                  0x0980098008800880);
    const __m256i shift = _mm256_set_epi64x(0x0010001000100010, 0x0010001000100010, 0x0100010001000100,
                                            0x0100010001000100);      /* to the right, by 12 and by 8 bits */
    const __m256i mask = _mm256_set_epi64x(0x000f000f000f000f, 0x000f000f000f000f, 0x003f003f003f003f,
                                           0x003f003f003f003f);
    const __m256i x = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)((const char *)p - 4)));
    const __m256i scales = _mm256_shuffle_epi8(x, pick_scales), minima = _mm256_shuffle_epi8(x, pick_minima);
    _mm256_storeu_si256((void *)e.twice, _mm256_or_si256(_mm256_and_si256(scales, mask), vs_field(scales, 10, 0x30)));
    *m = _mm256_or_si256(_mm256_and_si256(_mm256_mulhi_epu16(minima, shift), mask), vs_field(minima, 2, 0x30));
    return e;
}
static inline vs vs_each_twice(ve e) { return _mm256_loadu_si256((const void *)e.twice); }
/* Scale 2 j in all int16 of the lower half, 2 j + 1 in those of the upper half. */
static inline __m256i vs_broadcast_chunk(vs s, int j) {
    const __m256i both = j < 4 ? _mm256_permute4x64_epi64(s, 0x44) : _mm256_permute4x64_epi64(s, 0xee);
#define PICK(i) EACH_BYTE(4 * (i)) + 0x0100010001000100
#define PICK2(i) {PICK(i), PICK(i), PICK(i) + EACH_BYTE(2), PICK(i) + EACH_BYTE(2)}
    static const uint64_t pick[4][4] = {PICK2(0), PICK2(1), PICK2(2), PICK2(3)};
#undef PICK2
#undef PICK
    return _mm256_shuffle_epi8(both, vb_load(pick[j & 3]));
}
static inline vq vq_zero(void) { return _mm256_setzero_si256(); }
static inline vq vq_madd_pairs(vq acc, __m256i pairs, __m256i scales) {
#ifdef GG_DPBUSD
    return GG_DPWSSD(acc, pairs, scales);
#else
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, scales));
#endif
}
static inline vq vq_madd_us(vq acc, vb u, vb b, vs s, int j) {
    return vq_madd_pairs(acc, _mm256_maddubs_epi16(u, b), vs_broadcast_chunk(s, j));
}
static inline vq vq_madd_us8(vq acc, vb u, vb b, ve e, int j) {
    __m256i scale;
    __asm__("vpbroadcastd %1, %0" : "=x"(scale) : "m"(e.twice[j]));    /* GCC would read it from the vector */
    return vq_madd_pairs(acc, _mm256_maddubs_epi16(u, b), scale);
}
static inline vq vq_madd_ss(vq acc, vb a, vb b, vs s, int j) {
    return vq_madd_us(acc, _mm256_abs_epi8(a), _mm256_sign_epi8(b, a), s, j);
}
#ifdef GG_DPBUSD
static inline vn vn_madd(vn acc, vb u, vb s) { return GG_DPBUSD(acc, u, s); }
static inline vn vn_add(vn a, vn b) { return _mm256_add_epi32(a, b); }
static inline vn vn_div4(vn a) { return _mm256_srai_epi32(a, 2); }
static inline vn vn_sub_i16(vn acc, const int16_t *p) {
    return _mm256_sub_epi32(acc, _mm256_madd_epi16(vb_load(p), _mm256_set1_epi16(1)));
}
static inline vq vn_sum(vn acc) { return acc; }
#else       /* 16 sums of pairs, at most 8 * 2 * 15 * 127 */
static inline vn vn_madd(vn acc, vb u, vb s) { return _mm256_add_epi16(acc, _mm256_maddubs_epi16(u, s)); }
static inline vn vn_add(vn a, vn b) { return _mm256_add_epi16(a, b); }
static inline vn vn_div4(vn a) { return _mm256_srai_epi16(a, 2); }
static inline vn vn_sub_i16(vn acc, const int16_t *p) { return _mm256_sub_epi16(acc, vb_load(p)); }
static inline vq vn_sum(vn acc) { return _mm256_madd_epi16(acc, _mm256_set1_epi16(1)); }
#endif
static inline vn vn_madd_signs(vn acc, vb a, vb s) { return vn_madd(acc, vb_set1(1), _mm256_sign_epi8(s, a)); }
static inline vn vn_zero(void) { return _mm256_setzero_si256(); }
static inline vq vq_dot_vs(vs s, const int16_t *p) { return _mm256_madd_epi16(s, _mm256_loadu_si256((const void *)p)); }
static inline vq vq_add(vq a, vq b) { return _mm256_add_epi32(a, b); }
static inline vq vq_div4(vq a) { return _mm256_srai_epi32(a, 2); }
static inline vq vq_sub(vq a, vq b) { return _mm256_sub_epi32(a, b); }

static inline va va_zero(void) { return _mm256_setzero_ps(); }
static inline va va_scale(va acc, va a, float x) { return _mm256_fmadd_ps(a, _mm256_set1_ps(x), acc); }
static inline float va_sum(va a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
/* In the order of va_sum, four rows simultaneously. */
static inline void va_sums(float *s, const va *a, const int rows) {
    if (rows == 1) {
        *s = va_sum(*a);
        return;
    }
    const __m256 p = _mm256_add_ps(_mm256_permute2f128_ps(a[0], a[1], 0x20), _mm256_permute2f128_ps(a[0], a[1], 0x31));
    const __m256 q = _mm256_add_ps(_mm256_permute2f128_ps(a[2], a[3], 0x20), _mm256_permute2f128_ps(a[2], a[3], 0x31));
    const __m256 t = _mm256_add_ps(_mm256_shuffle_ps(p, q, 0x44), _mm256_shuffle_ps(p, q, 0xee));
    const __m256 u = _mm256_add_ps(t, _mm256_movehdup_ps(t));   /* rows 0, 2, 1, 3 at lanes 0, 2, 4, 6 */
    _mm_storeu_ps(s, _mm_unpacklo_ps(_mm_shuffle_ps(_mm256_castps256_ps128(u), _mm256_castps256_ps128(u), 0x08),
                                     _mm_shuffle_ps(_mm256_extractf128_ps(u, 1), _mm256_extractf128_ps(u, 1), 0x08)));
}
static inline va va_madd(va acc, vq q, float lo, float hi) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), _mm256_set_m128(_mm_set1_ps(hi), _mm_set1_ps(lo)), acc);
}
static inline va va_madd1(va acc, vq q, float x) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), _mm256_set1_ps(x), acc);
}
static inline va va_madd_sums(va acc, const vq *q, const float *x) {
    const __m256i v = _mm256_hadd_epi32(_mm256_hadd_epi32(q[0], q[1]), _mm256_hadd_epi32(q[2], q[3]));
    const __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return _mm256_add_ps(acc, _mm256_zextps128_ps256(_mm_mul_ps(_mm_cvtepi32_ps(sums), _mm_loadu_ps(x))));
}
static inline vp vp_zero(void) { return _mm256_setzero_ps(); }
static inline vp vp_add(vp a, vp b) { return _mm256_add_ps(a, b); }
static inline vp vp_mul_halves(const char *p, size_t nb, const float *f) {
    int32_t h[4];
    double pair;
    for (int i = 0; i < 4; i++) memcpy(h + i, p + (size_t)i * nb, 4);
    memcpy(&pair, f, 8);
    const __m256 halves = _mm256_cvtph_ps(_mm_set_epi32(h[3], h[2], h[1], h[0]));
    return _mm256_mul_ps(halves, _mm256_castpd_ps(_mm256_set1_pd(pair)));
}
static inline void vp_add_seconds(float *s, vp a, const int rows) {
    const __m128 lo = _mm256_castps256_ps128(a);
    if (rows == 1) *s += _mm_cvtss_f32(_mm_movehdup_ps(lo));
    else _mm_storeu_ps(s, _mm_add_ps(_mm_loadu_ps(s), _mm_shuffle_ps(lo, _mm256_extractf128_ps(a, 1), 0xdd)));
}
static inline va va_madd_pair(va acc, vq q, vp p, int i) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), _mm256_permutevar8x32_ps(p, _mm256_set1_epi32(2 * i)), acc);
}
static inline void vd_scale4(float *d, gg_half h0, gg_half h1, gg_half h2, gg_half h3, const float *f) {
    const __m128i h = _mm_insert_epi16(_mm_insert_epi16(_mm_insert_epi16(_mm_cvtsi32_si128(h0), h1, 1), h2, 2), h3, 3);
    _mm_storeu_ps(d, _mm_mul_ps(_mm_cvtph_ps(h), _mm_loadu_ps(f)));
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

#ifndef __AVX512F__
/* Columns of words: a vi holds a word of each of 8 rows, which are nb bytes apart. */
#define GG_VEC_COLUMNS
static inline vi vc_load(const char *p, size_t nb) {
    vf row[VW];
    for (size_t i = 0; i < VW; i++) row[i] = _mm256_broadcast_ss((const float *)(p + i * nb));
    const vf a = _mm256_blend_ps(row[0], row[1], 0x02), b = _mm256_blend_ps(row[2], row[3], 0x08);
    const vf c = _mm256_blend_ps(row[4], row[5], 0x20), d = _mm256_blend_ps(row[6], row[7], 0x80);
    return vf_bits(_mm256_blend_ps(_mm256_blend_ps(a, b, 0x0c), _mm256_blend_ps(c, d, 0xc0), 0xf0));
}
static inline void vc_load4(vi *w, const char *p, size_t nb) {
    const float *row[VW];
    vf t[4];
    for (size_t i = 0; i < VW; i++) row[i] = (const float *)(p + i * nb);
    vf_transpose4(row, 0, t);
    for (int i = 0; i < 4; i++) w[i] = vf_bits(t[i]);
}
static inline void vc_nibbles(vi *w, const char *p, size_t nb) {
    vc_load4(w, p, nb);
    for (int q = 0; q < 4; q++) w[q + 4] = vb_field(w[q], 4, 15), w[q] = _mm256_and_si256(w[q], vb_set1(15));
}
static inline vi vc_add_bits(vi codes, vi bits, int q) {
    const __m256i lanes = _mm256_broadcastsi128_si256(_mm_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
    const __m256i bit = _mm256_set1_epi32(q & 1 ? (int)0x80402010 : 0x08040201);
    const __m256i of = _mm256_shuffle_epi8(bits, _mm256_or_si256(lanes, _mm256_set1_epi32(0x01010101 * (q / 2))));
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(of, bit), bit);
    return _mm256_or_si256(codes, _mm256_and_si256(set, vb_set1(16)));
}
static inline vi vc_flip_signs(vi w) { return _mm256_xor_si256(w, vb_set1(-128)); }
static inline vi vc_lut(const int8_t *table, vi w) { return vb_lut(table, w); }
#ifdef GG_VEC_PAIRS
static inline void vc_pairs(vi out[2], vi w) {
    const __m256i first = _mm256_broadcastsi128_si256(_mm_set_epi32(0x0d800c80, 0x09800880, 0x05800480, 0x01800080));
    const __m256i last = _mm256_broadcastsi128_si256(_mm_set_epi32(0x0f800e80, 0x0b800a80, 0x07800680, 0x03800280));
    out[0] = _mm256_srai_epi16(_mm256_shuffle_epi8(w, first), 8);
    out[1] = _mm256_srai_epi16(_mm256_shuffle_epi8(w, last), 8);
}
#endif
static inline vf vc_half(vi w, int i) {
    const __m256i half = i ? _mm256_srli_epi32(w, 16) : _mm256_and_si256(w, vi_set1(0xffff));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(half, half), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
#endif
