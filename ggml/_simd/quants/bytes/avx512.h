/* A chunk of 32 bytes fits into a register of AVX2; avx2.h contains what AVX-512 adds. */
#include "avx2.h"

#ifdef __AVX512VNNI__
#define GG_VEC_FOLDED               /* the ISA amx takes quantised rows from this one */
/* Columns of words: a vi holds a word of each of 16 rows, which are nb bytes apart. */
#define GG_VEC_COLUMNS
static inline __m512i vc_join(__m128i a, __m128i b, __m128i c, __m128i d) {
    const __m512i low = _mm512_inserti32x4(_mm512_castsi128_si512(a), b, 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(low, c, 2), d, 3);
}
static inline vi vc_load(const char *p, size_t nb) {
    __m128i four[4];
    for (size_t i = 0; i < 4; i++) {
        int32_t w[4];
        for (size_t j = 0; j < 4; j++) memcpy(w + j, p + (4 * i + j) * nb, 4);
        four[i] = _mm_set_epi32(w[3], w[2], w[1], w[0]);
    }
    return vc_join(four[0], four[1], four[2], four[3]);
}
static inline void vc_load4(vi *w, const char *p, size_t nb) {
    __m512i r[4];                                       /* rows i, i + 4, i + 8, i + 12 */
    for (size_t i = 0; i < 4; i++) {
        const __m128i *const a = (const __m128i *)(p + i * nb), *const b = (const __m128i *)(p + (i + 4) * nb),
            *const c = (const __m128i *)(p + (i + 8) * nb), *const d = (const __m128i *)(p + (i + 12) * nb);
        r[i] = vc_join(_mm_loadu_si128(a), _mm_loadu_si128(b), _mm_loadu_si128(c), _mm_loadu_si128(d));
    }
    const __m512i lo01 = _mm512_unpacklo_epi32(r[0], r[1]), hi01 = _mm512_unpackhi_epi32(r[0], r[1]);
    const __m512i lo23 = _mm512_unpacklo_epi32(r[2], r[3]), hi23 = _mm512_unpackhi_epi32(r[2], r[3]);
    w[0] = _mm512_unpacklo_epi64(lo01, lo23), w[1] = _mm512_unpackhi_epi64(lo01, lo23);
    w[2] = _mm512_unpacklo_epi64(hi01, hi23), w[3] = _mm512_unpackhi_epi64(hi01, hi23);
}
static inline void vc_nibbles(vi *w, const char *p, size_t nb) {
    const __m512i mask = _mm512_set1_epi8(15);
    vc_load4(w, p, nb);
    for (int q = 0; q < 4; q++) {
        w[q + 4] = _mm512_and_si512(_mm512_srli_epi16(w[q], 4), mask);
        w[q] = _mm512_and_si512(w[q], mask);
    }
}
static inline vi vc_add_bits(vi codes, vi bits, int q) {
    const __m512i spread = _mm512_set1_epi32(0x01010101 * (q / 2));
    const __m512i lanes = _mm512_set_epi64(0x0c0c0c0c08080808, 0x0404040400000000, 0x0c0c0c0c08080808,
                                           0x0404040400000000, 0x0c0c0c0c08080808, 0x0404040400000000,
                                           0x0c0c0c0c08080808, 0x0404040400000000);
    const __m512i of = _mm512_shuffle_epi8(bits, _mm512_or_si512(lanes, spread));
    const __mmask64 set = _mm512_test_epi8_mask(of, _mm512_set1_epi32(q & 1 ? (int)0x80402010 : 0x08040201));
    return _mm512_mask_add_epi8(codes, set, codes, _mm512_set1_epi8(16));
}
static inline vi vc_flip_signs(vi w) { return _mm512_xor_si512(w, _mm512_set1_epi8(-128)); }
static inline vi vc_lut(const int8_t *table, vi w) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table)), w);
}
static inline vf vc_half(vi w, int i) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(i ? _mm512_srli_epi32(w, 16) : w));
}
#endif
