/* Shape of the register tile, and how rows become columns, for the baseline: vectors of four, 16 registers. */
enum { MICRO_V = 2, MICRO_N = 5 };

/* out[j], lane i = row[i][k+j] */
static inline void micro_columns4(const float *const row[VW], int64_t k, vf out[4]) {
    for (int j = 0; j < 4; j++) {
        float t[VW];
        for (int i = 0; i < VW; i++) t[i] = row[i][k + j];
        out[j] = vf_load(t);
    }
}
static inline vf micro_value(const float *b, int j) { return vf_set1(b[j]); }
