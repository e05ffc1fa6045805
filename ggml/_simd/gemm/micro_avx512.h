/* Shape of the register tile, and how rows become columns, with AVX-512: 28 sums, 2 vectors of a, 1 of b. */
enum { MICRO_V = 2, MICRO_N = 14 };

static inline vf micro_quad(const float *a, const float *b, const float *c, const float *d) {
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(a));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(b), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(c), 2);
    return _mm512_insertf32x4(v, _mm_loadu_ps(d), 3);
}
/* out[j], lane i = row[i][k+j]: only 4x4 transposes within the 128-bit parts, because the parts are loaded in order. */
static inline void micro_columns4(const float *const row[VW], int64_t k, vf out[4]) {
    const vf a = micro_quad(row[0] + k, row[4] + k, row[8] + k, row[12] + k);
    const vf b = micro_quad(row[1] + k, row[5] + k, row[9] + k, row[13] + k);
    const vf c = micro_quad(row[2] + k, row[6] + k, row[10] + k, row[14] + k);
    const vf d = micro_quad(row[3] + k, row[7] + k, row[11] + k, row[15] + k);
    const __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
    const __m512d AB = _mm512_castps_pd(_mm512_unpackhi_ps(a, b)), CD = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
    out[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
    out[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
    out[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(AB, CD));
    out[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(AB, CD));
}
static inline vf micro_value(const float *b, int j) { return vf_set1(b[j]); }
