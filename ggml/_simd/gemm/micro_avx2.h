/* Shape of the register tile, and how rows become columns, with AVX2: 12 sums, 2 vectors of a, 1 of b. */
enum { MICRO_V = 2, MICRO_N = 6 };

static inline vf micro_pair(const float *a, const float *b) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
}
/* out[j], lane i = row[i][k+j]: only 4x4 transposes within the halves, because the halves are loaded in order. */
static inline void micro_columns4(const float *const row[VW], int64_t k, vf out[4]) {
    const vf a = micro_pair(row[0] + k, row[4] + k), b = micro_pair(row[1] + k, row[5] + k);
    const vf c = micro_pair(row[2] + k, row[6] + k), d = micro_pair(row[3] + k, row[7] + k);
    const __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)), cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
    const __m256d AB = _mm256_castps_pd(_mm256_unpackhi_ps(a, b)), CD = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
    out[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd));
    out[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd));
    out[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(AB, CD));
    out[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(AB, CD));
}
static inline vf micro_value(const float *b, int j) { return vf_set1(b[j]); }
