/* Shape of the register tile, and how rows become columns, with NEON: 24 sums, 2 vectors of a, the rest for b. */
enum { MICRO_V = 2, MICRO_N = 12 };

/* out[j], lane i = row[i][k+j] */
static inline void micro_columns4(const float *const row[VW], int64_t k, vf out[4]) {
    const float32x4_t a = vld1q_f32(row[0] + k), b = vld1q_f32(row[1] + k);
    const float32x4_t c = vld1q_f32(row[2] + k), d = vld1q_f32(row[3] + k);
    const float64x2_t ab = vreinterpretq_f64_f32(vtrn1q_f32(a, b)), cd = vreinterpretq_f64_f32(vtrn1q_f32(c, d));
    const float64x2_t AB = vreinterpretq_f64_f32(vtrn2q_f32(a, b)), CD = vreinterpretq_f64_f32(vtrn2q_f32(c, d));
    out[0] = vreinterpretq_f32_f64(vtrn1q_f64(ab, cd));
    out[1] = vreinterpretq_f32_f64(vtrn1q_f64(AB, CD));
    out[2] = vreinterpretq_f32_f64(vtrn2q_f64(ab, cd));
    out[3] = vreinterpretq_f32_f64(vtrn2q_f64(AB, CD));
}
/* A value of b by way of a vector, so that four take one load: the multiplication can address a lane. */
static inline vf micro_value(const float *b, int j) { return vf_set1(vld1q_f32(b + (j & ~3))[j & 3]); }
